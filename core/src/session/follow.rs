//! Reading what came after a seq, so that a follower never misses anything without notice.
//!
//! Messages, events and everything else with a seq share one counter, so one number says how far a follower has read. What was evicted,
//! trimmed, removed or has expired before the follower read it is reported as one gap. That needs only the greatest dropped seq of each
//! kind: everything after that seq is still there.

use std::ops::{ControlFlow, Range};

use super::state::Session;

/// What a follower asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// The last seq that the follower has read.
    pub seq: u64,
    /// Maximum number of records; not 0.
    pub count: u64,
    pub messages: bool,
    pub events: bool,
    pub checkpoints: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Message,
    Event,
    Checkpoint,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Message => "message",
            Kind::Event => "event",
            Kind::Checkpoint => "checkpoint",
        }
    }
}

/// One item given to a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<'a> {
    /// The follower's seq is greater than the session's last: the key holds another session now. Its records follow from the beginning.
    Reset,
    /// Between these seqs, both included, something of the requested kinds was dropped. What is still there follows.
    Gap { from: u64, to: u64 },
    Record {
        kind: Kind,
        seq: u64,
        time_ms: i64,
        /// A message's body, or the JSON object of an event or a checkpoint.
        json: &'a [u8],
    },
}

/// Records that are not messages, to be merged with them in the order of seqs.
#[derive(Default)]
struct Beside {
    records: Vec<(Kind, u64, i64, Range<usize>)>,
    json: Vec<u8>,
}

impl Beside {
    fn push(&mut self, kind: Kind, seq: u64, time_ms: i64, json: &[u8]) {
        let start = self.json.len();
        self.json.extend_from_slice(json);
        self.records.push((kind, seq, time_ms, start..self.json.len()));
    }

    fn get(&self, number: usize) -> Option<Told<'_>> {
        let (kind, seq, time_ms, place) = self.records.get(number)?;
        Some(Told::Record {
            kind: *kind,
            seq: *seq,
            time_ms: *time_ms,
            json: &self.json[place.clone()],
        })
    }

    fn seq(&self, number: usize) -> Option<u64> {
        self.records.get(number).map(|record| record.1)
    }
}

impl Session {
    /// Calls `each` with what came after a seq, in the order of seqs; not at all if nothing did.
    ///
    /// Cost: O(log chunks + records given); with `maxage` or `event-ttl` O(records) headers while expired ones are not yet freed.
    pub fn follow(&self, after: &After, now_ms: i64, mut each: impl FnMut(Told<'_>)) {
        let mut seq = after.seq;
        if seq > self.last_seq {
            each(Told::Reset);
            seq = 0;
        }
        let gone = self.last_gone(after, now_ms);
        if gone > seq {
            each(Told::Gap {
                from: seq + 1,
                to: gone,
            });
        }
        let Some(first) = seq.checked_add(1).filter(|first| *first <= self.last_seq) else {
            return;
        };
        let messages_follow = after.messages && self.messages.may_hold_after(seq);
        let checkpoints_follow = after.checkpoints && self.checkpoints().last().is_some_and(|newest| newest.id > seq);
        let mut beside = Beside::default();
        if after.events && !messages_follow && !checkpoints_follow {
            // The frequent case of a waiting reader: only events follow, so nothing has to be merged.
            let mut left = after.count;
            self.scan_events(first, now_ms, |head, body| {
                each(Told::Record {
                    kind: Kind::Event,
                    seq: head.seq,
                    time_ms: head.time_ms,
                    json: body.get(),
                });
                left -= 1;
                if left == 0 {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            return;
        }
        if after.events {
            self.scan_events(first, now_ms, |head, body| {
                beside.push(Kind::Event, head.seq, head.time_ms, body.get());
                if beside.records.len() as u64 >= after.count {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        if checkpoints_follow {
            let is_mixed = !beside.records.is_empty();
            for checkpoint in self.checkpoints().iter().filter(|checkpoint| checkpoint.id >= first) {
                let json = checkpoint.json(self.id());
                beside.push(Kind::Checkpoint, checkpoint.id, checkpoint.time_ms, &json);
            }
            if is_mixed {
                beside.records.sort_by_key(|record| record.1);
            }
        }
        let (mut told, mut next) = (0, 0);
        if messages_follow {
            let hidden = self.hidden(now_ms);
            self.messages.scan_from_seq(first, |head, body| {
                while told < after.count && beside.seq(next).is_some_and(|seq| seq < head.seq) {
                    beside.get(next).into_iter().for_each(&mut each);
                    next += 1;
                    told += 1;
                }
                if told >= after.count {
                    return ControlFlow::Break(());
                }
                if hidden.binary_search(&head.seq).is_err() {
                    each(Told::Record {
                        kind: Kind::Message,
                        seq: head.seq,
                        time_ms: head.time_ms,
                        json: body.get(),
                    });
                    told += 1;
                }
                ControlFlow::Continue(())
            });
        }
        while told < after.count && next < beside.records.len() {
            beside.get(next).into_iter().for_each(&mut each);
            next += 1;
            told += 1;
        }
    }

    /// Returns the greatest dropped seq of the requested kinds.
    fn last_gone(&self, after: &After, now_ms: i64) -> u64 {
        let mut gone = 0;
        if after.messages {
            gone = self.messages.last_gone(self.window(now_ms));
        }
        if after.events {
            gone = gone.max(self.last_gone_event(now_ms));
        }
        if after.checkpoints {
            gone = gone.max(self.cold.as_ref().map_or(0, |cold| cold.checkpoints.last_gone));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body;
    use crate::fixture::{append, at, session, START_MS};
    use crate::limits::Limits;
    use crate::session::Incoming;
    use crate::session::NewEvent;
    use crate::session::{Fork, NewCheckpoint, Part};
    use proptest::prelude::*;

    fn add_event(session: &mut Session, now_ms: i64) {
        let event = NewEvent {
            kind: "pass",
            ..NewEvent::default()
        };
        let _ = session.add_event(&event, at(now_ms));
    }

    /// Renders the items in one line as `r`, `g<from>-<to>`, `m<seq>` and `e<seq>`.
    fn told(session: &Session, after: &After, now_ms: i64) -> String {
        let mut all = Vec::new();
        session.follow(after, now_ms, |told| {
            all.push(match told {
                Told::Reset => "r".to_owned(),
                Told::Gap { from, to } => format!("g{from}-{to}"),
                Told::Record { kind, seq, .. } => format!("{}{seq}", &kind.name()[..1]),
            });
        });
        all.join(" ")
    }

    const ALL: After = After {
        seq: 0,
        count: u64::MAX,
        messages: true,
        events: true,
        checkpoints: true,
    };

    #[test]
    fn records_come_in_the_order_of_seqs_and_dropped_ones_are_one_gap() {
        let mut session = session(Limits {
            maxlen: 2,
            event_maxlen: 2,
            ..Limits::default()
        });
        assert_eq!(told(&session, &ALL, START_MS), "");
        for number in 0..4 {
            append(&mut session, r#"{"role":"user","content":"x"}"#, START_MS);
            if number < 3 {
                add_event(&mut session, START_MS);
            }
        }
        // 1 m, 2 e, 3 m, 4 e, 5 m, 6 e, 7 m: messages 5 and 7 are left, and events 4 and 6.
        assert_eq!(told(&session, &ALL, START_MS), "g1-3 e4 m5 e6 m7");
        assert_eq!(told(&session, &After { count: 2, ..ALL }, START_MS), "g1-3 e4 m5");
        assert_eq!(told(&session, &After { seq: 2, ..ALL }, START_MS), "g3-3 e4 m5 e6 m7");
        assert_eq!(told(&session, &After { seq: 3, ..ALL }, START_MS), "e4 m5 e6 m7");
        assert_eq!(told(&session, &After { events: false, ..ALL }, START_MS), "g1-3 m5 m7");
        assert_eq!(
            told(&session, &After { messages: false, ..ALL }, START_MS),
            "g1-2 e4 e6"
        );
        assert_eq!(told(&session, &After { seq: 7, ..ALL }, START_MS), "");
        assert_eq!(told(&session, &After { seq: 8, ..ALL }, START_MS), "r g1-3 e4 m5 e6 m7");
        assert_eq!(
            told(
                &session,
                &After {
                    seq: u64::MAX,
                    count: 1,
                    ..ALL
                },
                START_MS
            ),
            "r g1-3 e4"
        );
        let _ = session.pop(1, at(START_MS));
        assert_eq!(told(&session, &After { seq: 7, ..ALL }, START_MS), "");
        assert_eq!(told(&session, &After { seq: 6, ..ALL }, START_MS), "g7-7");
        let _ = session.clear(at(START_MS));
        assert_eq!(told(&session, &ALL, START_MS), "g1-7 e4 e6");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Append(u8),
        Event,
        Pop(u64),
        Remove(u64),
        Redact(u64),
        Compact(u64),
        Clear,
        Pin(bool),
        Wait(i64),
        Checkpoint(bool),
        Restore(usize),
        Drop(usize),
        Fork,
        Reload,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0u8..4).prop_map(Step::Append),
            5 => Just(Step::Event),
            1 => (1u64..3).prop_map(Step::Pop),
            1 => (1u64..40).prop_map(Step::Remove),
            1 => (1u64..40).prop_map(Step::Redact),
            1 => (1u64..40).prop_map(Step::Compact),
            1 => Just(Step::Clear),
            1 => any::<bool>().prop_map(Step::Pin),
            2 => (0i64..1500).prop_map(Step::Wait),
            2 => any::<bool>().prop_map(Step::Checkpoint),
            2 => (0usize..4).prop_map(Step::Restore),
            1 => (0usize..4).prop_map(Step::Drop),
            1 => Just(Step::Fork),
            1 => Just(Step::Reload),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn a_follower_has_every_seq_or_a_gap_that_covers_it(
            steps in steps(), maxlen in 0u64..5, event_maxlen in 0u64..4, maxage_ms in prop_oneof![Just(0u64), 500u64..2500],
            event_ttl_s in 0u64..3, max_checkpoints in 0u64..4, count in 1u64..6, seqs in prop::collection::vec(0u64..70, 4),
        ) {
            let limits = Limits { maxlen, event_maxlen, maxage_ms, event_ttl_s, max_checkpoints, ..Limits::default() };
            let mut session = session(limits);
            let mut now_ms = START_MS;
            // The kind of each seq, from 1 on.
            let mut kinds = Vec::new();
            for step in steps {
                let now = at(now_ms);
                match step {
                    Step::Append(body) => {
                        let body = [
                            r#"{"role":"user","content":"x"}"#,
                            r#"{"role":"system","content":"s"}"#,
                            r#"{"role":"assistant","tool_calls":[{"id":"a"}]}"#,
                            r#"{"role":"tool","tool_call_id":"a"}"#,
                        ][usize::from(body)];
                        append(&mut session, body, now_ms);
                        kinds.push(Kind::Message);
                    }
                    Step::Event => {
                        add_event(&mut session, now_ms);
                        kinds.push(Kind::Event);
                    }
                    Step::Pop(count) => { let _ = session.pop(count, now); }
                    Step::Remove(seq) => { let _ = session.remove(&[seq], now); }
                    Step::Redact(seq) => { let _ = session.redact(&[seq], None, now); }
                    Step::Compact(seq) => {
                        let body = br#"{"role":"system","content":"so far"}"#;
                        let summary = Incoming { facts: body::read(body).unwrap(), body, tokens: None };
                        let _ = session.compact(seq, &summary, now);
                    }
                    Step::Clear => { let _ = session.clear(now); }
                    Step::Pin(pinned) => {
                        let pins = if pinned { vec!["system"] } else { Vec::new() };
                        let change = crate::session::WindowChange { pins: Some(pins), ..Default::default() };
                        let _ = session.set_window(&change, now);
                    }
                    Step::Wait(ms) => now_ms += ms,
                    Step::Checkpoint(trim) => {
                        let _ = session.make_checkpoint(&NewCheckpoint { trim, ..Default::default() }, now);
                        kinds.push(Kind::Checkpoint);
                    }
                    Step::Restore(number) => if let Some(id) = session.checkpoints().get(number).map(|checkpoint| checkpoint.id) {
                        session.restore(id, now);
                        kinds.push(Kind::Event);
                    },
                    Step::Drop(number) => if let Some(id) = session.checkpoints().get(number).map(|checkpoint| checkpoint.id) {
                        let _ = session.drop_checkpoints(&[id], now);
                    },
                    Step::Fork => {
                        session = session.fork(&Fork { id: uuid::Uuid::from_u128(2), created_at_ms: now_ms, part: Part::Whole }, now).result;
                    }
                    Step::Reload => session = Session::decode_whole(&session.encode_whole()).unwrap(),
                }
                session.check_invariants(START_MS);
            }
            let mut shown = Vec::new();
            session.messages(now_ms, |head, _| { shown.push((head.seq, Kind::Message)); ControlFlow::<()>::Continue(()) });
            session.scan_events(0, now_ms, |head, _| { shown.push((head.seq, Kind::Event)); ControlFlow::<()>::Continue(()) });
            shown.extend(session.checkpoints().iter().map(|checkpoint| (checkpoint.id, Kind::Checkpoint)));
            shown.sort_by_key(|record| record.0);
            for (messages, events) in [(true, true), (true, false), (false, true)] {
                let asked = |kind: Kind| match kind { Kind::Message => messages, Kind::Event => events, Kind::Checkpoint => messages && events };
                for &seq in &seqs {
                    let after = After { seq, count, messages, events, checkpoints: messages && events };
                    let from = if seq > kinds.len() as u64 { 0 } else { seq };
                    let mut gap = None;
                    let mut records = Vec::new();
                    let mut resets = 0;
                    session.follow(&after, now_ms, |told| match told {
                        Told::Reset => resets += 1,
                        Told::Gap { from, to } => gap = Some((from, to)),
                        Told::Record { kind, seq, .. } => records.push((seq, kind)),
                    });
                    prop_assert_eq!(resets, u32::from(seq > kinds.len() as u64));
                    let expected: Vec<_> = shown.iter().copied()
                        .filter(|record| record.0 > from && asked(record.1)).take(count as usize).collect();
                    prop_assert_eq!(records, expected);
                    let missing = (from + 1..=kinds.len() as u64).rev().find(|seq| {
                        asked(kinds[*seq as usize - 1]) && !shown.iter().any(|record| record.0 == *seq)
                    });
                    prop_assert_eq!(gap, missing.map(|to| (from + 1, to)));
                }
            }
        }
    }
}
