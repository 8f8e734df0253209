use std::ops::{ControlFlow, RangeInclusive};

use super::parts::Open;
use super::*;
use crate::body::{call_hash, estimated_tokens, Role};
use proptest::prelude::*;

/// The expected content of a record.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    seq: u64,
    time_ms: i64,
    tokens: u32,
    role: Role<'static>,
    root: Option<u64>,
    calls: Vec<u32>,
    body: Vec<u8>,
}

impl Kept {
    fn entry(&self) -> Entry<'_> {
        Entry {
            seq: self.seq,
            time_ms: self.time_ms,
            tokens: self.tokens,
            role: &self.role,
            root: self.root,
            calls: &self.calls,
            body: &self.body,
        }
    }
}

/// Returns a user's message that neither calls nor answers.
fn plain(seq: u64, time_ms: i64, body: &[u8]) -> Entry<'_> {
    Entry {
        seq,
        time_ms,
        tokens: 1,
        role: &Role::User,
        root: None,
        calls: &[],
        body,
    }
}

fn contents(log: &Log, from: Position) -> Vec<Kept> {
    let mut all = Vec::new();
    let _ = log.scan(from, |head, body| {
        all.push(Kept {
            seq: head.seq,
            time_ms: head.time_ms,
            tokens: head.tokens,
            role: Role::from_name(head.role.as_str().to_owned()),
            root: head.root,
            calls: head.calls.iter().collect(),
            body: body.get().to_vec(),
        });
        ControlFlow::<()>::Continue(())
    });
    all
}

fn check(log: &Log, model: &[Kept]) {
    assert_eq!(contents(log, Position::START), model);
    assert_eq!(log.len(), model.len() as u64);
    assert_eq!(
        log.tokens(),
        model.iter().map(|kept| u64::from(kept.tokens)).sum::<u64>()
    );
    assert_eq!(
        log.body_bytes(),
        model.iter().map(|kept| kept.body.len() as u64).sum::<u64>()
    );
    assert_eq!(log.front().map(|head| head.seq), model.first().map(|kept| kept.seq));
    let mut back = Vec::new();
    let _ = log.scan_rev(Position::END, |head, body| {
        back.push((head.seq, body.get().to_vec()));
        ControlFlow::<()>::Continue(())
    });
    back.reverse();
    assert_eq!(
        back,
        model
            .iter()
            .map(|kept| (kept.seq, kept.body.clone()))
            .collect::<Vec<_>>()
    );
    for kept in model.iter().step_by(7) {
        let times = kept.time_ms - 20..=kept.time_ms;
        let mut expected: Vec<u64> = model
            .iter()
            .filter(|kept| times.contains(&kept.time_ms))
            .map(|kept| kept.seq)
            .collect();
        assert_eq!(seqs_between(log, &times, false), expected);
        expected.reverse();
        assert_eq!(seqs_between(log, &times, true), expected);
    }
    for end in 0..=model.len() {
        let newest = log.scan_rev(log.position_of_index(end as u64), |head, _| {
            ControlFlow::Break(head.seq)
        });
        let expected = end.checked_sub(1).map(|last| model[last].seq);
        assert_eq!(newest, expected.map_or(ControlFlow::Continue(()), ControlFlow::Break));
    }
    for (index, kept) in model.iter().enumerate() {
        assert_eq!(contents(log, log.position_of_index(index as u64)).first(), Some(kept));
        assert_eq!(contents(log, log.position_of_seq(kept.seq)).first(), Some(kept));
        assert_eq!(log.get(kept.seq, |_, body| body.to_vec()).as_ref(), Some(&kept.body));
    }
    assert!(contents(log, log.position_of_index(log.len())).is_empty());
    log.check_invariants();
}

fn seqs_between(log: &Log, times: &RangeInclusive<i64>, rev: bool) -> Vec<u64> {
    let mut seqs = Vec::new();
    let _ = log.scan_times(times, rev, |head, _| {
        seqs.push(head.seq);
        ControlFlow::<()>::Continue(())
    });
    seqs
}

#[derive(Debug, Clone)]
enum Step {
    Push {
        gap: u64,
        time_ms: i64,
        tokens: Option<u32>,
        role: &'static str,
        body: Vec<u8>,
        calls: usize,
    },
    DropFront(usize),
    Remove(Vec<usize>),
    Replace(usize, Vec<u8>),
    Copy,
    Clear,
    Payload,
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..80),
        4 => (0usize..120).prop_map(|bytes| vec![b'a'; bytes]),
        1 => (300usize..900).prop_map(|bytes| vec![b'b'; bytes]),
        1 => Just(vec![b'p'; 700]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (1u64..3, -5_000i64..5_000, prop::option::of(0u32..100), prop_oneof![Just("user"), Just("critic"), Just("tool")], body(), 0usize..3)
            .prop_map(|(gap, time_ms, tokens, role, body, calls)| Step::Push { gap, time_ms, tokens, role, body, calls }),
        12 => (1usize..6).prop_map(Step::DropFront),
        4 => prop::collection::vec(0usize..60, 1..6).prop_map(Step::Remove),
        3 => (0usize..60, body()).prop_map(|(at, body)| Step::Replace(at, body)),
        2 => Just(Step::Copy),
        1 => Just(Step::Clear),
        2 => Just(Step::Payload),
    ]
}

fn reload(log: &Log) -> Log {
    let mut loaded = Log::new();
    log.for_each_chunk(|chunk| {
        let parts = ChunkParts {
            base: chunk.base,
            heads: chunk.heads,
            bodies: chunk.bodies,
            bodies_bytes: chunk.bodies_bytes,
            compressed: chunk.compressed,
            shared: chunk.shared.iter().map(|body| Shared::adopt(body)).collect(),
        };
        loaded
            .push_chunk(parts, chunk.body_at, &mut TakenSegments::default(), |_, _| true)
            .expect("what was written is read");
    });
    loaded
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 192 } else { 1024 }))]

    #[test]
    fn a_log_is_what_a_vector_of_records_is(steps in prop::collection::vec(step(), 1..160), compress_after in prop_oneof![Just(0u32), Just(64), Just(100_000)]) {
        let mut log = Log::new();
        let mut model: Vec<Kept> = Vec::new();
        let mut copies: Vec<(Log, Vec<Kept>)> = Vec::new();
        let mut last_seq = 0;
        for step in steps {
            match step {
                Step::Push { gap, time_ms, tokens, role, body, calls } => {
                    last_seq += gap;
                    let kept = Kept {
                        seq: last_seq,
                        time_ms: 1_700_000_000_000 + time_ms,
                        tokens: tokens.unwrap_or(estimated_tokens(body.len())),
                        role: Role::from_name(role),
                        root: last_seq.checked_sub(3).filter(|_| calls == 2),
                        calls: (0..calls as u32).collect(),
                        body,
                    };
                    log.push(&kept.entry(), compress_after);
                    model.push(kept);
                }
                Step::DropFront(records) => {
                    for _ in 0..records {
                        if let Some(front) = log.front() {
                            log.drop_front(&front);
                        }
                        if !model.is_empty() { model.remove(0); }
                    }
                }
                Step::Remove(places) => {
                    let mut seqs: Vec<u64> = places.iter().map(|place| model.get(*place).map_or(last_seq + 7, |kept| kept.seq)).collect();
                    seqs.sort_unstable();
                    seqs.dedup();
                    let before = model.len();
                    model.retain(|kept| !seqs.contains(&kept.seq));
                    prop_assert_eq!(log.remove(&seqs), (before - model.len()) as u64);
                }
                Step::Replace(place, body) => {
                    if let Some(kept) = model.get_mut(place) {
                        log.replace(kept.seq, &body, 7);
                        kept.body = body;
                        kept.tokens = 7;
                    }
                }
                Step::Copy => copies.push((log.clone(), model.clone())),
                Step::Clear => {
                    log.clear();
                    model.clear();
                }
                Step::Payload => log = reload(&log),
            }
            if model.len().is_multiple_of(16) {
                check(&log, &model);
            }
        }
        check(&log, &model);
        for (copy, model) in &copies {
            check(copy, model);
        }
    }
}

#[test]
fn an_answer_finds_the_nearest_earlier_call_of_its_id_and_not_one_of_its_hash_only() {
    let mut log = Log::new();
    let (role, hash) = (Role::Assistant, call_hash("wanted"));
    for seq in 1..=200 {
        let body = match seq {
            20 | 90 => br#"{"tool_calls":[{"id":"wanted"}]}"#.to_vec(),
            150 => br#"{"tool_calls":[{"id":"another id of the same hash"}]}"#.to_vec(),
            _ => format!(r#"{{"content":"message {seq}"}}"#).into_bytes(),
        };
        let calls: &[u32] = if [20, 90, 150].contains(&seq) { &[hash] } else { &[] };
        log.push(
            &Entry {
                seq,
                time_ms: 0,
                tokens: 1,
                role: &role,
                root: None,
                calls,
                body: &body,
            },
            64,
        );
    }
    assert_eq!(log.find_call("wanted", hash), Some((90, 90)));
    log.remove(&[90]);
    assert_eq!(log.find_call("wanted", hash), Some((20, 20)));
    assert_eq!(log.find_call("unknown", call_hash("unknown")), None);
}

#[test]
fn trimming_a_small_window_keeps_the_log_small() {
    let mut log = Log::new();
    let mut most = 0;
    for seq in 1..=10_000 {
        log.push(&plain(seq, 0, &[b'x'; 20]), 64);
        if log.len() > 4 {
            let front = log.front().unwrap();
            log.drop_front(&front);
        }
        most = most.max(log.heap_bytes());
    }
    assert!(most < 600 + size_of::<Open>(), "{most} bytes for 4 messages of 20");
}

#[test]
fn only_chunks_whose_times_reach_into_a_range_are_read() {
    // A minute apart; every ninth is two minutes late.
    let time_ms = |seq: u64| 60_000 * (seq as i64 - if seq.is_multiple_of(9) { 2 } else { 0 });
    let mut log = Log::new();
    for seq in 1..=400 {
        log.push(&plain(seq, time_ms(seq), &[b'x'; 40]), 64);
    }
    assert!(log.chunks() > 50);
    for middle in [0, 1, 30, 200, 399, 400, 500] {
        let times = time_ms(middle) - 60_000..=time_ms(middle) + 60_000;
        let expected: Vec<u64> = (1..=400).filter(|seq| times.contains(&time_ms(*seq))).collect();
        assert_eq!(seqs_between(&log, &times, false), expected);
        let read = (0..log.chunks()).filter(|chunk| log.may_hold_time(*chunk, &times));
        assert!(read.count() <= 3);
    }
}

#[test]
fn false_chunks_are_refused() {
    let mut log = Log::new();
    for seq in 1..=40 {
        log.push(&plain(seq, 0, &[b'x'; 40]), 64);
    }
    let mut seen = 0;
    log.for_each_chunk(|chunk| {
        seen += 1;
        let refused = |bodies: &[u8], bodies_bytes: u32, heads: &[u8], compressed: bool| {
            let parts = ChunkParts {
                base: chunk.base,
                heads,
                bodies,
                bodies_bytes,
                compressed,
                shared: Vec::new(),
            };
            Log::new()
                .push_chunk(parts, 0, &mut TakenSegments::default(), |_, _| true)
                .is_none()
        };
        assert!(
            refused(chunk.bodies, u32::MAX, chunk.heads, true),
            "a length that LZ4 cannot reach"
        );
        assert!(
            refused(chunk.bodies, chunk.bodies_bytes + 1, chunk.heads, chunk.compressed),
            "a wrong length"
        );
        assert!(
            refused(chunk.bodies, chunk.bodies_bytes, &chunk.heads[1..], chunk.compressed),
            "cut headers"
        );
        assert!(
            refused(&chunk.bodies[1..], chunk.bodies_bytes, chunk.heads, chunk.compressed),
            "cut bodies"
        );
        assert!(refused(&[], 0, &[], false), "no record");
    });
    assert!(seen > 3);
}
