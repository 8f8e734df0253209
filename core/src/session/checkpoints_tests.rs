use uuid::Uuid;

use super::*;
use crate::body;
use crate::fixture::{append, at, creation, START_MS};
use crate::limits::Limits;
use crate::session::{Creation, Fork, Incoming, Mention, Part, WindowChange};
use proptest::prelude::*;

fn session(limits: Limits) -> Session {
    Session::create(&Creation {
        scope: Some("acme"),
        ..creation(limits)
    })
}

fn digest(session: &Session) -> Vec<u8> {
    let mut all = Vec::new();
    session.digest(|part| {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    });
    all
}

/// Returns a copy that shares nothing.
fn deep_copy(session: &Session) -> Session {
    Session::decode_whole(&session.encode_whole()).unwrap()
}

/// Returns everything that a restore brings back, as text.
fn content(session: &Session, now_ms: i64) -> Vec<String> {
    let mut all = vec![session.state().to_owned()];
    session.messages(now_ms, |head, body| {
        let body = String::from_utf8(body.get().to_vec()).unwrap();
        all.push(format!("{} {} {} {body}", head.seq, head.time_ms, head.tokens));
        ControlFlow::<()>::Continue(())
    });
    for (id, entity) in session.entities() {
        let mut json = Vec::new();
        entity.write_json(id, &mut json);
        all.push(String::from_utf8(json).unwrap());
    }
    for (name, agent) in session.agents() {
        let mut json = Vec::new();
        agent.write_json(name, &mut json);
        all.push(String::from_utf8(json).unwrap());
    }
    all
}

fn event<'a>(kind: &'a str, change: &'a str, impact: &'a str) -> NewEvent<'a> {
    NewEvent {
        kind,
        change: Some(change.as_bytes()),
        impact: Some(impact.as_bytes()),
        ..NewEvent::default()
    }
}

#[test]
fn refs_and_summary_are_those_of_the_events_since_the_last_checkpoint() {
    let mut session = session(Limits::default());
    let now = at(START_MS);
    let _ = session.add_event(
        &event("a", r#"{"entityIds":["e1","e2"]}"#, r#"{"x":1,"y":{"z":[1]}}"#),
        now,
    );
    let _ = session.add_event(
        &event("b", r#"{"entityIds":["e2","e3"]}"#, r#"{"y":2, "q":"\u00e9"}"#),
        now,
    );
    let first = session.make_checkpoint(
        &NewCheckpoint {
            trim: true,
            ..Default::default()
        },
        now,
    );
    assert_eq!(first.result.id, 3);
    assert_eq!((first.changed, first.evicted), (true, 0));
    assert_eq!(
        String::from_utf8(session.checkpoint(3).unwrap().json(session.id())).unwrap(),
        "{\"sessionId\":\"00000000-0000-0000-0000-000000000001\",\"checkpointId\":3,\"timestamp\":\"2026-01-14T10:00:00.000Z\",\
         \"refEntities\":[\"e1\",\"e2\",\"e3\"],\"summary\":{\"impacts\":{\"x\":1,\"y\":2,\"q\":\"\\u00e9\"}},\"outcome\":null,\
         \"state\":\"working\",\"label\":null}"
    );
    assert_eq!(session.event_span(START_MS).count, 0);
    let _ = session.add_event(&event("c", r#"{"entityIds":["e4"]}"#, "{}"), now);
    let given = NewCheckpoint {
        label: Some("l"),
        outcome: Some("o"),
        summary: Some(r#" {"mine":true} "#),
        refs: Some(Vec::new()),
        ..Default::default()
    };
    let second = session.make_checkpoint(&given, now);
    let checkpoint = second.result;
    assert!(std::ptr::eq(session.checkpoint(checkpoint.id).unwrap(), &*checkpoint));
    assert_eq!(
        (checkpoint.refs.len(), checkpoint.summary.as_str()),
        (0, r#"{"mine":true}"#)
    );
    assert_eq!(session.event_span(START_MS).count, 1);
    let third = session.make_checkpoint(&NewCheckpoint::default(), now);
    let checkpoint = third.result;
    assert_eq!(
        (checkpoint.refs.len(), checkpoint.summary.as_str()),
        (0, r#"{"impacts":{}}"#)
    );
}

#[test]
fn what_is_nested_as_deep_as_json_may_be_comes_back_from_a_payload() {
    let mut session = session(Limits::default());
    let deep = format!("{{\"d\":{}{}}}", "[".repeat(127), "]".repeat(127));
    let _ = session.add_event(&event("a", "{}", &deep), at(START_MS));
    let _ = session.make_checkpoint(&NewCheckpoint::default(), at(START_MS));
    assert_eq!(digest(&deep_copy(&session)), digest(&session));
}

#[test]
fn a_checkpoint_costs_little_and_is_written_once() {
    let mut session = session(Limits::default());
    for number in 0..3000 {
        append(
            &mut session,
            &format!(r#"{{"role":"user","content":"{number} and what else is said"}}"#),
            START_MS,
        );
    }
    let (bytes, payload_bytes) = (session.heap_bytes(), session.encode_whole().len());
    for _ in 0..10 {
        let _ = session.make_checkpoint(&NewCheckpoint::default(), at(START_MS));
    }
    assert!(
        session.heap_bytes() < bytes + 10 * (bytes / 20),
        "{} {bytes}",
        session.heap_bytes()
    );
    assert!(session.encode_whole().len() < payload_bytes + 10 * 1000);
    // A payload keeps the sharing.
    let loaded = deep_copy(&session);
    assert!(
        loaded.heap_bytes() < bytes + 10 * (bytes / 20),
        "{} {bytes}",
        loaded.heap_bytes()
    );
    assert_eq!(digest(&loaded), digest(&session));
}

#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Event(Option<u8>),
    Mention(u8),
    Forget(u8),
    Join(u8),
    Leave(u8),
    Pop(u64),
    Remove(u64),
    Redact(u64),
    Compact(u64),
    Clear,
    Window(u64, bool),
    Wait(i64),
    Checkpoint(bool),
    Drop(usize),
    Restore(usize),
    Fork(usize),
    Upto(u64),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        9 => (0u8..5).prop_map(Step::Append),
        2 => prop::option::of(0u8..3).prop_map(Step::Event),
        2 => (0u8..4).prop_map(Step::Mention),
        1 => (0u8..4).prop_map(Step::Forget),
        1 => (0u8..4).prop_map(Step::Join),
        1 => (0u8..4).prop_map(Step::Leave),
        1 => (1u64..4).prop_map(Step::Pop),
        1 => (1u64..60).prop_map(Step::Remove),
        1 => (1u64..60).prop_map(Step::Redact),
        1 => (1u64..60).prop_map(Step::Compact),
        1 => Just(Step::Clear),
        1 => (0u64..12, any::<bool>()).prop_map(|(maxlen, pin)| Step::Window(maxlen, pin)),
        1 => (0i64..1500).prop_map(Step::Wait),
        4 => any::<bool>().prop_map(Step::Checkpoint),
        1 => (0usize..5).prop_map(Step::Drop),
        3 => (0usize..5).prop_map(Step::Restore),
        1 => (0usize..5).prop_map(Step::Fork),
        1 => (0u64..60).prop_map(Step::Upto),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 0..80)
}

/// A checkpoint in the model: a full copy of the session that shares nothing.
struct Kept {
    id: u64,
    copy: Session,
    last_gone: u64,
}

/// Returns the copy under the present bounds and pins, at the present time.
fn under_the_window(kept: &Session, present: &Session, now_ms: i64) -> Session {
    let mut copy = deep_copy(kept);
    let limits = present.limits();
    let change = WindowChange {
        maxlen: Some(limits.maxlen),
        maxtokens: Some(limits.maxtokens),
        maxbytes: Some(limits.maxbytes),
        maxage_ms: Some(limits.maxage_ms),
        pins: Some(present.pins().iter().map(String::as_str).collect()),
    };
    let _ = copy.set_window(&change, at(now_ms));
    copy
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn a_restore_is_exact_whatever_happened_in_between(
        steps in steps(), maxlen in 0u64..10, maxage_ms in prop_oneof![2 => Just(0u64), 1 => 500u64..3000], max_checkpoints in 0u64..5,
    ) {
        let limits = Limits { maxlen, maxage_ms, max_checkpoints, event_maxlen: 5, ..Limits::default() };
        let mut session = session(limits);
        let mut now_ms = START_MS;
        let mut model: Vec<Kept> = Vec::new();
        // Forks, and their state when they were made: nothing that happens here may change them.
        let mut forks: Vec<(Session, Vec<u8>)> = Vec::new();
        let mut last_message = 0;
        const NAMES: [&str; 4] = ["ann", "bob", "cleo", "dan"];
        for step in steps {
            let now = at(now_ms);
            let last_seq = session.last_seq();
            match step {
                Step::Append(body) => {
                    let body = [
                        format!(r#"{{"role":"user","content":"said at {last_seq} {}"}}"#, "and so on ".repeat(last_seq as usize % 7)),
                        r#"{"role":"system","content":"s"}"#.to_owned(),
                        r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#.to_owned(),
                        r#"{"role":"tool","tool_call_id":"a"}"#.to_owned(),
                        r#"{"role":"user","content":"with refs","entity_refs":["ann","dan"]}"#.to_owned(),
                    ][usize::from(body)].clone();
                    append(&mut session, &body, now_ms);
                    last_message = session.last_seq();
                }
                Step::Event(state) => {
                    let state = state.map(|state| ["working", "review", "done"][usize::from(state)]);
                    let _ = session.add_event(&NewEvent { kind: "pass", state, ..NewEvent::default() }, now);
                }
                Step::Mention(name) => { let _ = session.mention_entities(&[Mention::of_id(NAMES[usize::from(name)])], now); }
                Step::Forget(name) => { let _ = session.forget_entities(&[NAMES[usize::from(name)]], now); }
                Step::Join(name) => { let _ = session.join(NAMES[usize::from(name)], None, true, now); }
                Step::Leave(name) => { let _ = session.leave(NAMES[usize::from(name)], now); }
                Step::Pop(count) => { let _ = session.pop(count, now); }
                Step::Remove(seq) => { let _ = session.remove(&[seq], now); }
                Step::Redact(seq) => {
                    let before = session.version();
                    let live = session.messages.get(seq, |_, body| body.to_vec());
                    let changed = session.redact(&[seq], Some("why"), now);
                    prop_assert!(changed.result <= 1);
                    let mut copies = false;
                    for kept in &mut model {
                        // Nothing in a checkpoint is hidden: whatever it could bring back must be redacted.
                        copies |= redact_copy(&mut kept.copy, seq);
                    }
                    prop_assert_eq!(changed.result == 1, copies || live.is_some_and(|live| session.messages.get(seq, |_, body| body != live).unwrap_or(false)));
                    prop_assert_eq!(session.version(), before + u64::from(changed.changed));
                }
                Step::Compact(seq) => {
                    let body = br#"{"role":"system","content":"so far"}"#;
                    let summary = Incoming { facts: body::read(body).unwrap(), body, tokens: None };
                    let _ = session.compact(seq, &summary, now);
                }
                Step::Clear => { let _ = session.clear(now); }
                Step::Window(maxlen, pin) => {
                    let pins = if pin { vec!["system"] } else { Vec::new() };
                    let _ = session.set_window(&WindowChange { maxlen: Some(maxlen), pins: Some(pins), ..Default::default() }, now);
                }
                Step::Wait(ms) => now_ms += ms,
                Step::Checkpoint(trim) => {
                    let id = session.make_checkpoint(&NewCheckpoint { trim, ..Default::default() }, now).result.id;
                    let last_gone = session.messages.last_gone_seq();
                    model.push(Kept { id, copy: deep_copy(&session), last_gone });
                    let excess = model.len().saturating_sub(if max_checkpoints == 0 { usize::MAX } else { max_checkpoints as usize });
                    model.drain(..excess);
                }
                Step::Drop(number) => if let Some(kept) = model.get(number) {
                    prop_assert_eq!(session.drop_checkpoints(&[kept.id, 1 << 40], now).result, 1);
                    model.remove(number);
                },
                Step::Restore(number) => if let Some(kept) = model.get(number) {
                    let expected = content(&under_the_window(&kept.copy, &session, now_ms), now_ms);
                    let (version, events, meta) = (session.version(), session.event_span(now_ms), session.meta().map(str::to_owned));
                    let Restored { event_seq: seq, version: told } = session.restore(kept.id, now).unwrap().result;
                    prop_assert_eq!(told, session.version());
                    prop_assert_eq!(content(&session, now_ms), expected);
                    prop_assert_eq!((session.version(), session.last_seq(), seq), (version + 1, last_seq + 1, last_seq + 1));
                    prop_assert_eq!(session.event_span(now_ms).last_seq, Some(seq));
                    prop_assert!(session.event_span(now_ms).count >= events.count);
                    prop_assert_eq!(session.meta().map(str::to_owned), meta);
                    // A follower gets a gap for everything that was dropped since: see `follow`.
                    let gone = if last_message > kept.id { last_message } else { kept.last_gone };
                    prop_assert!(session.messages.last_gone_seq() >= gone);
                },
                Step::Fork(number) => {
                    let part = model.get(number).map_or(Part::Whole, |kept| Part::Checkpoint(kept.id));
                    let expected = match model.get(number) {
                        Some(kept) => content(&under_the_window(&kept.copy, &session, now_ms), now_ms),
                        None => content(&under_the_window(&session, &session, now_ms), now_ms),
                    };
                    let fork = session.fork(&Fork { id: Uuid::from_u128(2), created_at_ms: now_ms, part }, now).result;
                    prop_assert_eq!(content(&fork, now_ms), expected);
                    prop_assert_eq!((fork.version(), fork.last_seq(), fork.scope()), (1, session.last_seq(), Some("acme")));
                    prop_assert!(fork.checkpoints().is_empty());
                    let print = digest(&fork);
                    forks.push((fork, print));
                }
                Step::Upto(seq) => {
                    let mut fork = session.fork(&Fork { id: Uuid::from_u128(3), created_at_ms: now_ms, part: Part::Upto(seq) }, now).result;
                    let mut seqs = Vec::new();
                    session.messages.scan(|head, _| {
                        if head.seq <= seq { seqs.push(head.seq); }
                        ControlFlow::<()>::Continue(())
                    });
                    let mut left = Vec::new();
                    fork.messages.scan(|head, _| { left.push(head.seq); ControlFlow::<()>::Continue(()) });
                    // Its window may evict some of them.
                    prop_assert!(seqs.ends_with(&left) || maxage_ms > 0 || !fork.pins().is_empty(), "{:?} {:?}", seqs, left);
                    prop_assert!(left.iter().all(|seq| seqs.contains(seq)));
                    prop_assert_eq!(digest(&deep_copy(&fork)), digest(&fork));
                    append(&mut fork, r#"{"role":"user","content":"goes on"}"#, now_ms);
                    prop_assert_eq!(fork.messages.get(session.last_seq() + 1, |_, _| ()), Some(()));
                }
                Step::Reload => {
                    let loaded = deep_copy(&session);
                    prop_assert_eq!(digest(&loaded), digest(&session));
                    session = loaded;
                }
            }
            session.check_invariants(START_MS);
            let ids: Vec<u64> = session.checkpoints().iter().map(|checkpoint| checkpoint.id).collect();
            prop_assert_eq!(ids, model.iter().map(|kept| kept.id).collect::<Vec<_>>());
        }
        let copy = session.clone();
        let print = digest(&copy);
        drop(session);
        prop_assert_eq!(digest(&copy), print);
        for (fork, print) in &forks {
            prop_assert_eq!(&digest(fork), print);
        }
    }
}

/// Redacts in a stored copy, whatever its window hides.
fn redact_copy(copy: &mut Session, seq: u64) -> bool {
    let new = copy.messages.get(seq, |_, body| {
        let new = body::redacted(body, Some("why"));
        (new != body).then_some(new)
    });
    let Some(new) = new.flatten() else { return false };
    copy.messages.replace(seq, &new, body::estimated_tokens(new.len()));
    true
}

#[test]
fn loading_many_checkpoints_takes_memory_for_what_they_do_not_share() {
    let mut session = session(Limits::default());
    for number in 0..4000 {
        append(
            &mut session,
            &format!(r#"{{"role":"user","content":"{number}"}}"#),
            START_MS,
        );
    }
    let alone = session.heap_bytes();
    for _ in 0..1000 {
        let _ = session.make_checkpoint(&NewCheckpoint::default(), at(START_MS));
    }
    let loaded = deep_copy(&session);
    assert_eq!(digest(&loaded), digest(&session));
    // A reference for each chunk and checkpoint would take some 1,000 x 800 x 8 bytes.
    assert!(
        loaded.heap_bytes() < alone + 1000 * 2500,
        "{} {alone}",
        loaded.heap_bytes()
    );
}
