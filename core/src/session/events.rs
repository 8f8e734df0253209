//! The operations on the events of a session; [`crate::session::state::events`] stores them.

use std::ops::ControlFlow;

use super::state::events::{EventRange, EventSpan, NewEvent};
use super::state::{Session, INITIAL_STATE};
use super::write::{Now, Written};
use crate::log::{Body, Head};

impl Session {
    /// Records an event, and changes the state if the event gives one; returns the event's seq.
    ///
    /// Cost: O(bytes of the event).
    pub fn add_event(&mut self, event: &NewEvent<'_>, now: Now) -> Written<u64> {
        let seq = self.next_seq();
        if let Some(agent) = event.agent {
            self.see(agent, now.now_ms);
        }
        let cold = self.cold_mut();
        let before = cold.state.as_deref().unwrap_or(INITIAL_STATE);
        cold.events
            .push(event, seq, now.content_ms, before, now.compress_after_bytes);
        if let Some(state) = event.state {
            cold.state = (state != INITIAL_STATE).then(|| state.to_owned());
        }
        self.written(seq, now)
    }

    /// Calls `each` with the events of a range, as the JSON objects that reads show.
    ///
    /// Cost: O(log chunks + events examined): events are examined in turn until `count` are found, by type from the header, by the other
    /// filters from the body.
    pub fn events(&self, range: &EventRange<'_>, now_ms: i64, each: impl FnMut(&[u8])) {
        if let Some(cold) = &self.cold {
            cold.events.range(range, self.events_passed_before_ms(now_ms), each);
        }
    }

    /// Calls `each` with every event from this seq on that reads show, until it breaks. Cost: O(log chunks + events given).
    pub(super) fn scan_events(
        &self,
        from_seq: u64,
        now_ms: i64,
        each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<()>,
    ) {
        if let Some(cold) = &self.cold {
            cold.events
                .scan_from(from_seq, self.events_passed_before_ms(now_ms), each);
        }
    }

    /// Returns the greatest seq of the events that were dropped or have expired; 0 if there is none.
    ///
    /// Cost: O(1); O(events) headers while some are older than `event-ttl` and not yet freed.
    pub(super) fn last_gone_event(&self, now_ms: i64) -> u64 {
        self.cold
            .as_ref()
            .map_or(0, |cold| cold.events.last_gone(self.events_passed_before_ms(now_ms)))
    }

    /// Returns the number of events that reads show, with the first and the last.
    ///
    /// Cost: O(1); O(events) headers while some are older than `event-ttl` and not yet freed.
    pub fn event_span(&self, now_ms: i64) -> EventSpan {
        self.cold.as_ref().map_or_else(EventSpan::default, |cold| {
            cold.events.span(self.events_passed_before_ms(now_ms))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, ALL_EVENTS as ALL, START_MS};
    use crate::limits::Limits;
    use crate::text::json;
    use proptest::prelude::*;

    fn session(event_maxlen: u64, event_ttl_s: u64) -> Session {
        fixture::session(Limits {
            event_maxlen,
            event_ttl_s,
            ..Limits::default()
        })
    }

    fn shown(session: &Session, range: &EventRange<'_>, now_ms: i64) -> Vec<String> {
        let mut all = Vec::new();
        session.events(range, now_ms, |event| {
            all.push(String::from_utf8(event.to_vec()).unwrap())
        });
        all
    }

    #[test]
    fn an_event_is_shown_as_documented() {
        let mut session = session(0, 0);
        let _ = session.add_event(
            &NewEvent {
                kind: "pass",
                ..NewEvent::default()
            },
            at(START_MS),
        );
        let full = NewEvent {
            kind: "modified",
            agent: Some("a\"1"),
            entities: Some(&["e1", "e2"]),
            change: Some(br#" {"n":1.0,"entityIds":["x"],"m":null} "#),
            impact: Some(br#"{"perfDelta":-2}"#),
            state: Some("review"),
        };
        let _ = session.add_event(&full, at(START_MS));
        let change_only = NewEvent {
            kind: "x",
            change: Some(br#"{"entityIds":["x"]}"#),
            state: Some("review"),
            ..NewEvent::default()
        };
        let _ = session.add_event(&change_only, at(START_MS));
        assert_eq!(
            shown(&session, &ALL, START_MS),
            [
                r#"{"seq":1,"timestamp":"2026-01-14T10:00:00.000Z","type":"pass"}"#,
                r#"{"seq":2,"timestamp":"2026-01-14T10:00:00.000Z","type":"modified","agentId":"a\"1","changeInfo":{"entityIds":["e1","e2"],"n":1.0,"m":null},"impact":{"perfDelta":-2},"stateTransition":{"from":"working","to":"review"}}"#,
                r#"{"seq":3,"timestamp":"2026-01-14T10:00:00.000Z","type":"x","changeInfo":{"entityIds":["x"]},"stateTransition":{"from":"review","to":"review"}}"#,
            ]
        );
        assert_eq!(session.state(), "review");
        let agent = EventRange {
            agents: &["other", "a\"1"],
            ..ALL
        };
        assert_eq!(shown(&session, &agent, START_MS).len(), 1);
    }

    #[test]
    fn names_are_found_however_they_are_spelled() {
        let mut session = session(0, 0);
        let names = ["plain", "with \"quotes\"", "back\\slash", "é\u{1}", "entityIds", "to"];
        for name in names {
            let _ = session.add_event(
                &NewEvent {
                    kind: "x",
                    agent: Some(name),
                    entities: Some(&["other", name]),
                    state: Some(name),
                    ..NewEvent::default()
                },
                at(START_MS),
            );
        }
        // The filtered entity in other spellings, then its name in other places.
        let spelled: [&[u8]; 3] = [
            br#"{"entityIds" : [ "\u0070lain" ] }"#,
            br#"{"\u0065ntityIds":["plain"]}"#,
            br#"{"agentId":"plain","note":"plain","x":{"from":"plain","to":"plain"}}"#,
        ];
        for change in spelled {
            let _ = session.add_event(
                &NewEvent {
                    kind: "x",
                    change: Some(change),
                    ..NewEvent::default()
                },
                at(START_MS),
            );
        }
        for (place, name) in names.iter().enumerate() {
            let name = &[*name][..];
            let count = |range: EventRange<'_>| shown(&session, &range, START_MS).len();
            assert_eq!(count(EventRange { agents: name, ..ALL }), 1);
            let entities = if place == 0 { 3 } else { 1 };
            assert_eq!(count(EventRange { entities: name, ..ALL }), entities);
            let to_state = Some(name[0]);
            let from_state = (place > 0).then(|| names[place - 1]);
            assert_eq!(count(EventRange { to_state, ..ALL }), 1);
            assert_eq!(
                count(EventRange {
                    from_state,
                    to_state,
                    ..ALL
                }),
                1
            );
            let followed = usize::from(place + 1 < names.len());
            assert_eq!(
                count(EventRange {
                    from_state: to_state,
                    ..ALL
                }),
                followed
            );
        }
    }

    #[test]
    fn what_is_nested_as_deep_as_json_may_be_is_found_and_comes_back() {
        let mut session = session(0, 0);
        let deep = format!("{{\"d\":{}{}}}", "[".repeat(127), "]".repeat(127));
        assert!(json::read_object(deep.as_bytes(), |_, _| ()).is_ok());
        let event = NewEvent {
            kind: "x",
            agent: Some("a"),
            entities: Some(&["e"]),
            change: Some(deep.as_bytes()),
            impact: Some(deep.as_bytes()),
            state: Some("s"),
        };
        let _ = session.add_event(&event, at(START_MS));
        let session = Session::decode_whole(&session.encode_whole()).unwrap();
        let range = EventRange {
            agents: &["a"],
            entities: &["e"],
            to_state: Some("s"),
            ..ALL
        };
        assert_eq!(shown(&session, &range, START_MS).len(), 1);
    }

    /// Expected event: seq, time, kind, agent, entities, and the transition's from and to.
    type Row = (u64, i64, usize, usize, Vec<usize>, Option<(String, usize)>);

    proptest! {
        #[test]
        fn ranges_and_bounds_are_what_a_plain_list_says(
            events in prop::collection::vec((0usize..3, 0usize..3, prop::collection::vec(0usize..3, 0..3), prop::option::of(0usize..3), 0i64..3000, 0i64..2000), 0..60),
            event_maxlen in 0u64..12, event_ttl_s in 0u64..4,
            (from, to, count) in (0u64..70, 0u64..70, 0u64..9),
            (kind, agent, entity, from_state, to_state) in (prop::option::of(0usize..3), prop::option::of(0usize..3), prop::option::of(0usize..3), prop::option::of(0usize..3), prop::option::of(0usize..3)),
            reload in any::<bool>(),
        ) {
            const NAMES: [&str; 3] = ["pass", "broke", "user"];
            let mut session = session(event_maxlen, event_ttl_s);
            let mut now_ms = START_MS;
            let mut model: Vec<Row> = Vec::new();
            for (kind, agent, entities, state, wait_ms, older_ms) in events {
                now_ms += wait_ms;
                let before = session.state().to_owned();
                let names: Vec<&str> = entities.iter().map(|entity| NAMES[*entity]).collect();
                let event = NewEvent {
                    kind: NAMES[kind],
                    agent: Some(NAMES[agent]),
                    entities: Some(&names),
                    state: state.map(|state| NAMES[state]),
                    ..NewEvent::default()
                };
                let seq = session.add_event(&event, Now { content_ms: now_ms - older_ms, ..at(now_ms) }).result;
                model.push((seq, now_ms - older_ms, kind, agent, entities, state.map(|to| (before, to))));
                let excess = model.len().saturating_sub(if event_maxlen == 0 { usize::MAX } else { event_maxlen as usize });
                model.drain(..excess);
                model.retain(|event| event_ttl_s == 0 || event.1 >= now_ms - 1000 * event_ttl_s as i64);
                session.check_invariants(now_ms);
            }
            now_ms += 700;
            model.retain(|event| event_ttl_s == 0 || event.1 >= now_ms - 1000 * event_ttl_s as i64);
            if reload {
                session = Session::decode_whole(&session.encode_whole()).unwrap();
            }
            prop_assert_eq!(session.event_span(now_ms), EventSpan {
                count: model.len() as u64,
                first_seq: model.first().map(|event| event.0),
                last_seq: model.last().map(|event| event.0),
            });
            for rev in [false, true] {
                let pick = |name: Option<usize>| name.map(|name| NAMES[name]).into_iter().collect::<Vec<_>>();
                let (kinds, agents, entities) = (pick(kind), pick(agent), pick(entity));
                let range = EventRange {
                    from, to, rev, count, kinds: &kinds, agents: &agents, entities: &entities,
                    from_state: from_state.map(|state| NAMES[state]), to_state: to_state.map(|state| NAMES[state]),
                };
                let mut expected: Vec<u64> = model.iter().filter(|event| {
                    (from..=to).contains(&event.0)
                        && kind.is_none_or(|kind| kind == event.2)
                        && agent.is_none_or(|agent| agent == event.3)
                        && entity.is_none_or(|entity| event.4.contains(&entity))
                        && from_state.is_none_or(|state| event.5.as_ref().is_some_and(|(from, _)| from == NAMES[state]))
                        && to_state.is_none_or(|state| event.5.as_ref().is_some_and(|(_, to)| *to == state))
                }).map(|event| event.0).collect();
                if rev { expected.reverse(); }
                expected.truncate(count as usize);
                let seqs: Vec<u64> = shown(&session, &range, now_ms).iter().map(|event| {
                    event["{\"seq\":".len()..].split(',').next().unwrap().parse().unwrap()
                }).collect();
                prop_assert_eq!(seqs, expected);
            }
        }
    }
}
