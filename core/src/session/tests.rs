//! Compares a session with a naive model that keeps plain vectors and implements the rules literally.

use uuid::Uuid;

use super::*;
use crate::body;
use crate::fixture::{at, creation, START_MS};
use crate::limits::Limits;
use crate::session::{Bounds, Context, ContextBounds, Creation, Range, Seen, WindowChange};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
struct Kept {
    seq: u64,
    time_ms: i64,
    tokens: u64,
    role: String,
    body: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    messages: Vec<Kept>,
    pins: Vec<String>,
    maxlen: u64,
    maxtokens: u64,
    maxbytes: u64,
    maxage_ms: u64,
    last_seq: u64,
}

impl Model {
    /// For each message, the index of the first message of its exchange.
    fn roots(&self) -> Vec<usize> {
        let mut roots = Vec::new();
        for (place, kept) in self.messages.iter().enumerate() {
            let facts = body::read(&kept.body).unwrap();
            let call = facts.answers.as_ref().and_then(|id| {
                (0..place).rev().find(|&earlier| {
                    body::read(&self.messages[earlier].body)
                        .unwrap()
                        .calls
                        .iter()
                        .any(|call| call == id)
                })
            });
            roots.push(call.map_or(place, |call| roots[call]));
        }
        roots
    }

    fn pinned(&self, roots: &[usize]) -> Vec<bool> {
        let is_pinned = |root: usize| {
            self.messages
                .iter()
                .zip(roots)
                .any(|(kept, of)| *of == root && self.pins.contains(&kept.role))
        };
        roots.iter().map(|root| is_pinned(*root)).collect()
    }

    /// Returns the indexes of the messages that have expired and must not be shown.
    fn passed(&self, now_ms: i64) -> Vec<usize> {
        let roots = self.roots();
        let pinned = self.pinned(&roots);
        let newest = (0..self.messages.len())
            .rev()
            .find(|place| !pinned[*place])
            .map(|place| roots[place]);
        (0..self.messages.len())
            .filter(|&place| {
                let old =
                    |other: usize| self.maxage_ms > 0 && self.messages[other].time_ms < now_ms - self.maxage_ms as i64;
                !pinned[place]
                    && Some(roots[place]) != newest
                    && (0..self.messages.len()).any(|other| roots[other] == roots[place] && old(other))
            })
            .collect()
    }

    fn shown(&self, now_ms: i64) -> Vec<Kept> {
        let passed = self.passed(now_ms);
        let places = (0..self.messages.len()).filter(|place| !passed.contains(place));
        places.map(|place| self.messages[place].clone()).collect()
    }

    fn evict(&mut self, now_ms: i64) -> Vec<Vec<u8>> {
        let mut gone = Vec::new();
        let passed = self.passed(now_ms);
        self.drop_places(&passed, &mut gone);
        loop {
            let roots = self.roots();
            let pinned = self.pinned(&roots);
            let loose: Vec<usize> = (0..self.messages.len()).filter(|place| !pinned[*place]).collect();
            let sum = |of: fn(&Kept) -> u64| loose.iter().map(|place| of(&self.messages[*place])).sum::<u64>();
            let over = |sum: u64, bound: u64| bound > 0 && sum > bound;
            let exceeded = over(loose.len() as u64, self.maxlen)
                || over(sum(|kept| kept.tokens), self.maxtokens)
                || over(sum(|kept| kept.body.len() as u64), self.maxbytes);
            let newest = loose.last().map(|place| roots[*place]);
            let oldest = loose
                .iter()
                .map(|place| roots[*place])
                .filter(|root| Some(*root) != newest)
                .min();
            match oldest {
                Some(oldest) if exceeded => {
                    let places: Vec<usize> = (0..roots.len()).filter(|place| roots[*place] == oldest).collect();
                    self.drop_places(&places, &mut gone);
                }
                _ => break,
            }
        }
        gone.sort_by_key(|kept| kept.seq);
        gone.into_iter().map(|kept| kept.body).collect()
    }

    fn drop_places(&mut self, places: &[usize], gone: &mut Vec<Kept>) {
        for place in places.iter().rev() {
            gone.push(self.messages.remove(*place));
        }
    }

    /// Returns the indexes of these seqs and of all answers to calls among them.
    fn with_answers(&self, seqs: &[u64]) -> Vec<usize> {
        let mut goes: Vec<bool> = self.messages.iter().map(|kept| seqs.contains(&kept.seq)).collect();
        for place in 0..self.messages.len() {
            let facts = body::read(&self.messages[place].body).unwrap();
            let Some(id) = facts.answers else { continue };
            let call = (0..place)
                .rev()
                .find(|&earlier| body::read(&self.messages[earlier].body).unwrap().calls.contains(&id));
            goes[place] |= call.is_some_and(|call| goes[call]);
        }
        (0..goes.len()).filter(|place| goes[*place]).collect()
    }

    fn compactable(&self, upto: u64, now_ms: i64) -> Vec<usize> {
        let roots = self.roots();
        let pinned = self.pinned(&roots);
        let passed = self.passed(now_ms);
        let loose = |place: &usize| !pinned[*place] && !passed.contains(place);
        let mut end = self.messages.iter().filter(|kept| kept.seq <= upto).count();
        loop {
            let splits = (0..end)
                .filter(loose)
                .find(|&inside| (end..self.messages.len()).any(|outside| roots[outside] == roots[inside]));
            match splits {
                Some(place) => end = place,
                None => break,
            }
        }
        (0..end).filter(loose).collect()
    }

    fn context(&self, bounds: &ContextBounds<'_>, now_ms: i64) -> Context {
        let passed = self.passed(now_ms);
        let roots = self.roots();
        let pinned = self.pinned(&roots);
        let matching: Vec<usize> = (0..self.messages.len())
            .filter(|place| !passed.contains(place))
            .filter(|place| bounds.roles.is_empty() || bounds.roles.contains(&self.messages[*place].role.as_str()))
            .collect();
        let mut chosen: Vec<usize> = matching.iter().copied().filter(|place| pinned[*place]).collect();
        let loose: Vec<usize> = matching.iter().copied().filter(|place| !pinned[*place]).collect();
        let newest = loose.last().map(|place| roots[*place]);
        let mut order: Vec<usize> = loose
            .iter()
            .map(|place| roots[*place])
            .filter(|root| Some(*root) != newest)
            .collect();
        order.sort_unstable();
        order.dedup();
        order.reverse();
        let members = |loose: &[usize], root: usize| -> Vec<usize> {
            loose.iter().copied().filter(|place| roots[*place] == root).collect()
        };
        if let Some(newest) = newest {
            chosen.extend(members(&loose, newest));
        }
        let tokens = |places: &[usize]| places.iter().map(|place| self.messages[*place].tokens).sum::<u64>();
        for root in order {
            let mut more = chosen.clone();
            more.extend(members(&loose, root));
            let over = |sum: u64, bound: u64| bound > 0 && sum > bound;
            if over(tokens(&more), bounds.maxtokens) || over(more.len() as u64, bounds.maxlen) {
                break;
            }
            chosen = more;
        }
        chosen.sort_unstable();
        Context {
            tokens: tokens(&chosen),
            omitted: (matching.len() - chosen.len()) as u64,
            seqs: chosen.into_iter().map(|place| self.messages[place].seq).collect(),
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        bodies: Vec<(Body2, Option<u32>)>,
        older_ms: i64,
        maxlen: Option<u64>,
    },
    Window {
        maxlen: Option<u64>,
        maxtokens: Option<u64>,
        maxbytes: Option<u64>,
        maxage_ms: Option<u64>,
        pins: Option<Vec<&'static str>>,
    },
    Pop(u64),
    Remove(Vec<u64>),
    Redact(Vec<u64>, bool),
    Compact {
        upto_back: u64,
        summary: Body2,
    },
    Clear,
    Wait(i64),
    Payload,
    Copy,
}

#[derive(Debug, Clone)]
struct Body2 {
    role: &'static str,
    calls: Vec<&'static str>,
    answers: Option<&'static str>,
    text_bytes: usize,
}

impl Body2 {
    fn text(&self) -> Vec<u8> {
        let mut text = format!(
            r#"{{"role":"{}","content":"{}""#,
            self.role,
            "x".repeat(self.text_bytes)
        );
        if !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
            text.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
        }
        if let Some(id) = self.answers {
            text.push_str(&format!(r#","tool_call_id":"{id}""#));
        }
        text.push('}');
        text.into_bytes()
    }
}

fn id() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c")]
}

fn body() -> impl Strategy<Value = Body2> {
    let size = prop_oneof![9 => 0usize..60, 1 => 200usize..700];
    prop_oneof![
        5 => (prop_oneof![3 => Just("user"), 2 => Just("assistant"), 1 => Just("system")], size.clone())
            .prop_map(|(role, text_bytes)| Body2 { role, calls: vec![], answers: None, text_bytes }),
        2 => (prop::collection::vec(id(), 1..3), size.clone())
            .prop_map(|(calls, text_bytes)| Body2 { role: "assistant", calls, answers: None, text_bytes }),
        3 => (id(), size.clone()).prop_map(|(id, text_bytes)| Body2 { role: "tool", calls: vec![], answers: Some(id), text_bytes }),
        1 => (id(), id(), size).prop_map(|(call, answer, text_bytes)| Body2 { role: "assistant", calls: vec![call], answers: Some(answer), text_bytes }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let pins = prop::collection::vec(
        prop_oneof![2 => Just("system"), 1 => Just("tool"), 1 => Just("user")],
        0..3,
    );
    prop_oneof![
        30 => (prop::collection::vec((body(), prop::option::weighted(0.2, 0u32..50)), 1..4), prop_oneof![4 => Just(0i64), 1 => 0i64..3000], prop::option::weighted(0.1, 0u64..8))
            .prop_map(|(bodies, older_ms, maxlen)| Step::Append { bodies, older_ms, maxlen }),
        4 => (prop::option::of(0u64..9), prop::option::weighted(0.3, 0u64..90), prop::option::weighted(0.3, 0u64..500), prop::option::weighted(0.3, 0u64..2000), prop::option::weighted(0.4, pins))
            .prop_map(|(maxlen, maxtokens, maxbytes, maxage_ms, pins)| Step::Window { maxlen, maxtokens, maxbytes, maxage_ms, pins }),
        2 => (0u64..4).prop_map(Step::Pop),
        3 => prop::collection::vec(0u64..40, 1..4).prop_map(Step::Remove),
        2 => (prop::collection::vec(0u64..40, 1..4), any::<bool>()).prop_map(|(seqs, reason)| Step::Redact(seqs, reason)),
        2 => (0u64..12, body()).prop_map(|(upto_back, summary)| Step::Compact { upto_back, summary }),
        1 => Just(Step::Clear),
        4 => (1i64..1500).prop_map(Step::Wait),
        2 => Just(Step::Payload),
        1 => Just(Step::Copy),
    ]
}

fn incoming<'a>(body: &'a [u8], tokens: Option<u32>) -> Incoming<'a> {
    Incoming {
        facts: body::read(body).unwrap(),
        body,
        tokens,
    }
}

fn kept(seq: u64, time_ms: i64, incoming: &Incoming<'_>) -> Kept {
    Kept {
        seq,
        time_ms,
        tokens: u64::from(tokens_of(incoming.tokens, &incoming.facts, incoming.body)),
        role: incoming.facts.role.as_str().to_owned(),
        body: incoming.body.to_vec(),
    }
}

fn shown(session: &Session, now_ms: i64) -> Vec<Kept> {
    let everything = Range {
        bounds: Bounds::Index { start: 0, stop: -1 },
        rev: false,
        roles: &[],
        count: u64::MAX,
        malformed: false,
    };
    ranged(session, &everything, now_ms)
}

fn ranged(session: &Session, range: &Range<'_>, now_ms: i64) -> Vec<Kept> {
    let mut all = Vec::new();
    session.range(range, now_ms, |head, body| {
        all.push(Kept {
            seq: head.seq,
            time_ms: head.time_ms,
            tokens: u64::from(head.tokens),
            role: head.role.as_str().to_owned(),
            body: body.get().to_vec(),
        });
    });
    if let Some(len) = session.range_len(range, now_ms) {
        assert_eq!(len, all.len() as u64);
    }
    all
}

fn digest(session: &Session) -> u128 {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    session.digest(|part| parts.push(part.to_vec()));
    crate::text::hash::fingerprint(parts.iter().map(Vec::as_slice))
}

fn new_session() -> Session {
    let limits = Limits {
        dedup_window: 3,
        ..Limits::default()
    };
    Session::create(&Creation {
        id: Uuid::from_u128(7),
        ..creation(limits)
    })
}

fn check_reads(session: &Session, model: &Model, now_ms: i64, random: (i64, i64, u64)) {
    let all = model.shown(now_ms);
    assert_eq!(shown(session, now_ms), all);
    assert_eq!(session.message_count(now_ms), all.len() as u64);
    // No answer is kept without its call: every answer that had a call still has it.
    for kept in &model.messages {
        let root = session.messages.get(kept.seq, |head, _| head.root).flatten();
        assert!(
            root.is_none_or(|root| session.messages.get(root, |_, _| ()).is_some()),
            "{} lost {root:?}",
            kept.seq
        );
    }
    let (a, b, count) = random;
    for rev in [false, true] {
        for roles in [&[][..], &["user", "tool"]] {
            let pick = |selected: Vec<Kept>| {
                let mut selected = selected;
                if rev {
                    selected.reverse();
                }
                selected.retain(|kept| roles.is_empty() || roles.contains(&kept.role.as_str()));
                selected.truncate(count as usize);
                selected
            };
            let range = |bounds| Range {
                bounds,
                rev,
                roles,
                count,
                malformed: false,
            };
            let len = all.len() as i64;
            let place = |index: i64| if index < 0 { index + len } else { index };
            let by_index: Vec<Kept> = (0..len)
                .filter(|index| *index >= place(a).max(0) && *index <= place(b))
                .map(|index| all[index as usize].clone())
                .collect();
            assert_eq!(
                ranged(session, &range(Bounds::Index { start: a, stop: b }), now_ms),
                pick(by_index),
                "{a} {b} {rev}"
            );
            let (from, to) = (a.unsigned_abs(), a.unsigned_abs() + b.unsigned_abs());
            let by_seq = all
                .iter()
                .filter(|kept| (from..=to).contains(&kept.seq))
                .cloned()
                .collect();
            assert_eq!(ranged(session, &range(Bounds::Seq { from, to }), now_ms), pick(by_seq));
            let (from_ms, to_ms) = (now_ms - 300 * a.abs(), now_ms - 50 * b.abs());
            let by_time = all
                .iter()
                .filter(|kept| (from_ms..=to_ms).contains(&kept.time_ms))
                .cloned()
                .collect();
            assert_eq!(
                ranged(session, &range(Bounds::Time { from_ms, to_ms }), now_ms),
                pick(by_time)
            );
        }
        let roles: &[&str] = if rev { &["assistant", "tool"] } else { &[] };
        for (maxtokens, maxlen) in [(0, 0), (a.unsigned_abs() * 5, 0), (0, count), (60, 4)] {
            let bounds = ContextBounds {
                maxtokens,
                maxlen,
                roles,
            };
            assert_eq!(
                session.context(&bounds, now_ms),
                model.context(&bounds, now_ms),
                "{bounds:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 384 } else { 4096 }))]

    #[test]
    fn after_every_command_a_session_is_what_the_rules_say(
        steps in prop::collection::vec(step(), 1..60),
        reads in prop::collection::vec((-9i64..9, -9i64..9, 1u64..9), 60),
        maxlen in 0u64..7,
    ) {
        let mut session = new_session();
        let mut model = Model { maxlen, ..Model::default() };
        let _ = session.set_window(&WindowChange { maxlen: Some(maxlen), ..WindowChange::default() }, at(START_MS));
        let mut now_ms = START_MS;
        let mut written_ms = now_ms;
        let mut copies: Vec<(Session, u128)> = Vec::new();
        for (step, random) in steps.into_iter().zip(reads) {
            let version = session.version();
            let before = (digest(&session), model.shown(now_ms));
            let now = at(now_ms);
            // What the step reports; `None` if it says nothing about changes.
            let mut changed = None;
            match step {
                Step::Append { bodies, older_ms, maxlen } => {
                    let texts: Vec<(Vec<u8>, Option<u32>)> = bodies.iter().map(|(body, tokens)| (body.text(), *tokens)).collect();
                    let batch: Vec<Incoming<'_>> = texts.iter().map(|(text, tokens)| incoming(text, *tokens)).collect();
                    let now = Now { content_ms: now_ms - older_ms, ..now };
                    let mut evicted = Vec::new();
                    let appended = session.append(&batch, maxlen, now, Some(&mut evicted));
                    model.maxlen = maxlen.unwrap_or(model.maxlen);
                    for one in &batch {
                        model.last_seq += 1;
                        model.messages.push(kept(model.last_seq, now.content_ms, one));
                    }
                    prop_assert_eq!(appended.result, model.last_seq);
                    prop_assert_eq!(&evicted, &model.evict(now_ms));
                    prop_assert_eq!(appended.evicted, evicted.len() as u64);
                    changed = Some(true);
                }
                Step::Window { maxlen, maxtokens, maxbytes, maxage_ms, pins } => {
                    let windowed = session.set_window(&WindowChange { maxlen, maxtokens, maxbytes, maxage_ms, pins: pins.clone() }, now);
                    model.maxlen = maxlen.unwrap_or(model.maxlen);
                    model.maxtokens = maxtokens.unwrap_or(model.maxtokens);
                    model.maxbytes = maxbytes.unwrap_or(model.maxbytes);
                    model.maxage_ms = maxage_ms.unwrap_or(model.maxage_ms);
                    if let Some(pins) = pins { model.pins = super::super::identity::distinct(&pins); }
                    prop_assert_eq!(windowed.evicted, model.evict(now_ms).len() as u64);
                    changed = Some(windowed.changed);
                }
                Step::Pop(count) => {
                    let popped = session.pop(count, now);
                    let bodies = &popped.result;
                    if count > 0 && !before.1.is_empty() {
                        model.evict(now_ms);
                        let mut expected = Vec::new();
                        for _ in 0..count {
                            expected.extend(model.messages.pop().map(|kept| kept.body));
                        }
                        model.evict(now_ms);
                        prop_assert_eq!(bodies, &expected);
                    }
                    changed = Some(!bodies.is_empty());
                }
                Step::Remove(back) => {
                    let seqs: Vec<u64> = back.iter().map(|back| model.last_seq.saturating_sub(*back)).collect();
                    let removed = session.remove(&seqs, now);
                    let seen: Vec<u64> = seqs.iter().copied().filter(|seq| before.1.iter().any(|kept| kept.seq == *seq)).collect();
                    let places = model.with_answers(&seen);
                    model.drop_places(&places, &mut Vec::new());
                    if !places.is_empty() { model.evict(now_ms); }
                    prop_assert_eq!(removed.result, places.len() as u64);
                    changed = Some(removed.result > 0);
                }
                Step::Redact(back, reason) => {
                    let seqs: Vec<u64> = back.iter().map(|back| model.last_seq.saturating_sub(*back)).collect();
                    let reason = reason.then_some("why");
                    let redacted = session.redact(&seqs, reason, now);
                    let mut count = 0;
                    for kept in &mut model.messages {
                        if seqs.contains(&kept.seq) && before.1.iter().any(|shown| shown.seq == kept.seq) {
                            let new = body::redacted(&kept.body, reason);
                            if new != kept.body {
                                kept.tokens = new.len().div_ceil(4) as u64;
                                kept.body = new;
                                count += 1;
                            }
                        }
                    }
                    if count > 0 { model.evict(now_ms); }
                    prop_assert_eq!(redacted.result, count);
                    changed = Some(count > 0);
                }
                Step::Compact { upto_back, summary } => {
                    let upto = model.last_seq.saturating_sub(upto_back);
                    let text = summary.text();
                    let summary = incoming(&text, None);
                    let compacted = session.compact(upto, &summary, now);
                    let seqs: Vec<u64> = model.compactable(upto, now_ms).into_iter().map(|place| model.messages[place].seq).collect();
                    if let Some(&seq) = seqs.last() {
                        model.evict(now_ms);
                        model.messages.retain(|kept| !seqs.contains(&kept.seq));
                        let place = model.messages.partition_point(|kept| kept.seq < seq);
                        model.messages.insert(place, kept(seq, now_ms, &summary));
                        model.evict(now_ms);
                    }
                    prop_assert_eq!(compacted.result, seqs.len() as u64);
                    changed = Some(compacted.result > 0);
                }
                Step::Clear => {
                    let cleared = session.clear(now);
                    prop_assert_eq!(cleared.result, before.1.len() as u64);
                    changed = Some(!model.messages.is_empty());
                    model.messages.clear();
                }
                Step::Wait(ms) => now_ms += ms,
                Step::Payload => {
                    let loaded = Session::decode_whole(&session.encode_whole()).unwrap();
                    prop_assert_eq!(digest(&loaded), before.0);
                    session = loaded;
                }
                Step::Copy => copies.push((session.clone(), before.0)),
            }
            if changed == Some(true) {
                written_ms = now_ms;
            }
            if let Some(changed) = changed {
                prop_assert_eq!(session.version(), version + u64::from(changed));
                prop_assert!(changed || digest(&session) == before.0, "a command that changed nothing changed the digest");
            }
            prop_assert_eq!(session.last_seq(), model.last_seq);
            session.check_invariants(written_ms);
            check_reads(&session, &model, now_ms, random);
        }
        for (copy, before) in &copies {
            prop_assert_eq!(digest(copy), *before);
        }
    }

    #[test]
    fn no_mutation_of_a_payload_makes_the_decoder_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in prop::option::weighted(0.2, any::<prop::sample::Index>())) {
        let mut payload = long_session().encode_whole();
        for (place, byte) in edits {
            let place = place.index(payload.len());
            payload[place] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        if let Ok(mut session) = Session::decode_whole(&payload) {
            let now = at(START_MS);
            session.document(u64::MAX, None, START_MS);
            let _ = session.context(&ContextBounds { maxtokens: 100, maxlen: 0, roles: &[] }, START_MS);
            let text = br#"{"role":"tool","tool_call_id":"a"}"#;
            let _ = session.append(&[incoming(text, None)], Some(3), now, None);
            let _ = session.redact(&[1, 2, 3, 40], None, now);
            let _ = session.remove(&[2, 5], now);
            let _ = session.compact(30, &incoming(text, None), now);
            let _ = session.pop(2, now);
            session.check_invariants(START_MS);
            Session::decode_whole(&session.encode_whole()).unwrap();
        }
    }
}

fn long_session() -> Session {
    let mut session = new_session();
    let now = Now {
        now_ms: START_MS,
        content_ms: START_MS,
        compress_after_bytes: 64,
    };
    let change = WindowChange {
        pins: Some(vec!["system"]),
        maxlen: Some(60),
        ..WindowChange::default()
    };
    let _ = session.set_window(&change, now);
    for i in 0..90 {
        let body = match i % 7 {
            0 => br#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#.to_vec(),
            1 => br#"{"role":"tool","tool_call_id":"a","entity_refs":["e1","e2"]}"#.to_vec(),
            2 => br#"{"role":"system","content":"pinned"}"#.to_vec(),
            3 => format!(r#"{{"role":"critic","content":"{}"}}"#, "long and the same ".repeat(40)).into_bytes(),
            _ => format!(r#"{{"role":"user","content":"message {i} {}"}}"#, "x".repeat(30)).into_bytes(),
        };
        let _ = session.append(&[incoming(&body, None)], None, now, None);
        session.remember(&format!("token {i}"), i);
    }
    let _ = session.merge_meta(r#"{"a":{"b":[1,2]}}"#, now);
    session
}

#[test]
fn a_payload_brings_back_everything() {
    let session = long_session();
    assert!(session.pins() == ["system"] && session.chunks() > 8);
    let payload = session.encode_whole();
    let loaded = Session::decode_whole(&payload).unwrap();
    assert_eq!(digest(&loaded), digest(&session));
    assert_eq!(
        loaded.document(u64::MAX, Some(5), START_MS),
        session.document(u64::MAX, Some(5), START_MS)
    );
    assert_eq!(loaded.seen("token 89", 89), Seen::Repeated { seq: 90 });
    let mut longer = payload.clone();
    longer.push(0);
    assert!(Session::decode_whole(&longer).is_err());
    for end in (0..payload.len()).step_by(11) {
        assert!(Session::decode_whole(&payload[..end]).is_err(), "cut at {end}");
    }
    let mut newer = payload;
    let format = newer.iter().position(|byte| *byte == crate::payload::FORMAT).unwrap();
    newer[format] = 99;
    assert!(Session::decode_whole(&newer).is_err());
}

#[test]
fn a_document_is_one_json_object_with_bodies_verbatim() {
    let mut session = new_session();
    let now = Now {
        now_ms: START_MS,
        content_ms: START_MS,
        compress_after_bytes: 0,
    };
    let bodies = [
        br#"{"role":"user", "n":1.00}"#.as_slice(),
        br#"{"role":"assistant","content":"\ud83d\ude00"}"#,
    ];
    for body in bodies {
        let _ = session.append(&[incoming(body, None)], None, now, None);
    }
    let _ = session.merge_meta(r#"{"k":1}"#, now);
    let document = String::from_utf8(session.document(u64::MAX, None, START_MS)).unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&document).is_ok(),
        "{document}"
    );
    assert!(
        document.contains(r#""messages":[{"role":"user", "n":1.00},{"role":"assistant","content":"\ud83d\ude00"}]"#)
    );
    assert!(document.starts_with(r#"{"session_id":"00000000-0000-0000-0000-000000000007","scope":null,"alias":null,"state":"working","created_at":"2026-01-14T10:00:00.000Z""#));
    assert!(document.ends_with(r#""lease":null,"meta":{"k":1}}"#));
    let one = String::from_utf8(session.document(1, None, START_MS)).unwrap();
    assert!(one.contains(r#""message_count":2,"#) && !one.contains("1.00"));
}

#[test]
fn an_empty_session_is_small() {
    assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
    assert_eq!(new_session().heap_bytes(), 0);
}
