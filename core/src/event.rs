//! What agents recorded: an append-only log of events, the same log as messages stand in, kept by count and age.
//!
//! An event is kept as the JSON object it is shown as; its type stands in the record's header, so that filtering by type reads no
//! body.

use std::ops::ControlFlow;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::json::{self, Value};
use crate::log::{Body, Entry, Head, Log, Position};
use crate::message::{estimated_tokens, Role};
use crate::session::{Now, Session};
use crate::time;

/// All events of one session.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    pub log: Log,
    /// No event is older than this.
    oldest_ms: i64,
    /// The greatest seq of an event that is there no more; 0: all are there.
    pub last_gone: u64,
    /// Events up to this seq were written by others and may be spelled in other ways than [`compose`] does.
    pub foreign_until: u64,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            log: Log::new(),
            oldest_ms: i64::MAX,
            last_gone: 0,
            foreign_until: 0,
        }
    }
}

impl Events {
    pub fn from_log(log: Log, last_gone: u64, foreign_until: u64) -> Self {
        let mut oldest_ms = i64::MAX;
        let _ = log.scan(Position::START, |head, _| {
            oldest_ms = oldest_ms.min(head.time_ms);
            ControlFlow::<()>::Continue(())
        });
        Events {
            log,
            oldest_ms,
            last_gone,
            foreign_until,
        }
    }

    /// Drops every event behind a seq. Cost: O(events dropped).
    pub fn cut_after(&mut self, seq: u64) {
        if let Some(last_seq) = self.log.cut_after(seq) {
            self.last_gone = self.last_gone.max(last_seq);
        }
    }

    /// Drops what is over `maxlen` or was recorded before `passed_before_ms`. Cost: O(dropped), with times out of order O(events).
    fn trim(&mut self, maxlen: u64, passed_before_ms: i64) {
        while let Some(front) = self.log.front().filter(|_| maxlen > 0 && self.log.len() > maxlen) {
            self.log.drop_front(&front);
            self.last_gone = self.last_gone.max(front.seq);
        }
        if self.oldest_ms >= passed_before_ms {
            return;
        }
        let mut passed = Vec::new();
        let mut oldest_ms = i64::MAX;
        let _ = self.log.scan(Position::START, |head, _| {
            if head.time_ms < passed_before_ms {
                passed.push(head.seq);
            } else {
                oldest_ms = oldest_ms.min(head.time_ms);
            }
            ControlFlow::<()>::Continue(())
        });
        self.last_gone = self.last_gone.max(passed.last().copied().unwrap_or(0));
        let mut rest = passed.as_slice();
        while let Some(front) = self.log.front().filter(|front| rest.first() == Some(&front.seq)) {
            self.log.drop_front(&front);
            rest = &rest[1..];
        }
        self.log.remove(rest);
        self.oldest_ms = oldest_ms;
    }
}

/// An event to be recorded.
#[derive(Debug, Clone, Default)]
pub struct NewEvent<'a> {
    pub kind: &'a str,
    pub agent: Option<&'a str>,
    /// Takes the place of `change`'s own `entityIds`.
    pub entities: Option<&'a [&'a str]>,
    /// Texts of JSON objects, which [`json::read_object`] has accepted.
    pub change: Option<&'a [u8]>,
    pub impact: Option<&'a [u8]>,
    /// The state the session moves to, which may be the one it is in.
    pub state: Option<&'a str>,
}

/// Which events a range gives: of seqs from `from` to `to`, those that pass every filter; a filter with several values is passed by any of
/// them.
#[derive(Debug, Clone, Default)]
pub struct EventRange<'a> {
    pub from: u64,
    pub to: u64,
    pub rev: bool,
    /// At most so many.
    pub count: u64,
    pub kinds: &'a [&'a str],
    pub agents: &'a [&'a str],
    pub entities: &'a [&'a str],
    pub from_state: Option<&'a str>,
    pub to_state: Option<&'a str>,
}

/// How many events a read shows, and the first and last of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventSpan {
    pub count: u64,
    pub first_seq: Option<u64>,
    pub last_seq: Option<u64>,
}

impl Session {
    /// Records an event and moves the state, if it says so; returns its seq.
    ///
    /// Cost: O(bytes of the event).
    pub fn add_event(&mut self, event: &NewEvent<'_>, now: Now) -> u64 {
        self.last_seq += 1;
        let seq = self.last_seq;
        let body = compose(event, seq, now.content_ms, self.state());
        if let Some(agent) = event.agent {
            self.see(agent, now.now_ms);
        }
        let cold = self.cold_mut();
        if let Some(state) = event.state {
            cold.state = (state != crate::session::INITIAL_STATE).then(|| state.to_owned());
        }
        let role = Role::from_name(event.kind);
        cold.events.log.push(
            &Entry {
                seq,
                time_ms: now.content_ms,
                tokens: estimated_tokens(body.len()),
                role: &role,
                root: None,
                calls: &[],
                body: &body,
            },
            now.compress_after_bytes,
        );
        cold.events.oldest_ms = cold.events.oldest_ms.min(now.content_ms);
        self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        seq
    }

    /// Frees the events that count or age have passed.
    pub(crate) fn trim_events(&mut self, now_ms: i64) {
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let maxlen = self.limits.event_maxlen;
        if let Some(cold) = &mut self.cold {
            if !cold.events.log.is_empty() {
                cold.events.trim(maxlen, passed_before_ms);
            }
        }
    }

    fn events_passed_before_ms(&self, now_ms: i64) -> i64 {
        match self.limits.event_ttl_s {
            0 => i64::MIN,
            ttl_s => now_ms.saturating_sub_unsigned(ttl_s.saturating_mul(1000)),
        }
    }

    /// Gives the events of a range, as the JSON objects they are shown as.
    ///
    /// Cost: O(log chunks + events looked at): the filters look at each event in turn until `count` are found, by type at its header, by the
    /// others at its body.
    pub fn events(&self, range: &EventRange<'_>, now_ms: i64, mut each: impl FnMut(&[u8])) {
        let Some(cold) = &self.cold else { return };
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let mut left = range.count;
        if left == 0 || range.from > range.to {
            return;
        }
        let by_body = !range.agents.is_empty()
            || !range.entities.is_empty()
            || range.from_state.is_some()
            || range.to_state.is_some();
        let marks = Marks::of(range);
        let foreign_until = cold.events.foreign_until;
        let mut look = |head: &Head<'_>, body: &mut Body<'_>| {
            if !(range.from..=range.to).contains(&head.seq) {
                return ControlFlow::Break(());
            }
            let kind = range.kinds.is_empty() || range.kinds.contains(&head.role.as_str());
            if head.time_ms >= passed_before_ms
                && kind
                && (!by_body
                    || ((head.seq <= foreign_until || marks.are_in(head.role.as_str(), body.get()))
                        && matches(body.get(), range)))
            {
                each(body.get());
                left -= 1;
                if left == 0 {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let log = &cold.events.log;
        let _ = if range.rev {
            log.scan_rev(log.position_of_seq(range.to.saturating_add(1)), &mut look)
        } else {
            log.scan(log.position_of_seq(range.from), &mut look)
        };
    }

    /// Gives every event that a read shows from this seq on, until told to stop. Cost: O(log chunks + events given).
    pub(crate) fn scan_events(
        &self,
        from_seq: u64,
        now_ms: i64,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<()>,
    ) {
        let Some(cold) = &self.cold else { return };
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let _ = cold.events.log.scan_from_seq(from_seq, |head, body| {
            if head.time_ms < passed_before_ms {
                return ControlFlow::Continue(());
            }
            each(head, body)
        });
    }

    /// The greatest seq of an event that is there no more, or that a read does not show any more; 0 if all are there.
    ///
    /// Cost: O(1); O(events) headers while some have passed `event-ttl` and are not freed.
    pub(crate) fn last_gone_event(&self, now_ms: i64) -> u64 {
        let Some(cold) = &self.cold else { return 0 };
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let mut last_gone = cold.events.last_gone;
        if cold.events.oldest_ms < passed_before_ms {
            let _ = cold.events.log.scan_rev(Position::END, |head, _| {
                if head.time_ms < passed_before_ms {
                    last_gone = last_gone.max(head.seq);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        last_gone
    }

    /// Cost: O(1); O(events) headers while some have passed `event-ttl` and are not freed.
    pub fn event_span(&self, now_ms: i64) -> EventSpan {
        let Some(cold) = &self.cold else {
            return EventSpan::default();
        };
        let (log, passed_before_ms) = (&cold.events.log, self.events_passed_before_ms(now_ms));
        let mut span = EventSpan::default();
        if cold.events.oldest_ms >= passed_before_ms {
            let last = log.scan_rev(Position::END, |head, _| ControlFlow::Break(head.seq));
            span.count = log.len();
            span.first_seq = log.front().map(|front| front.seq);
            span.last_seq = last.break_value();
            return span;
        }
        let _ = log.scan(Position::START, |head, _| {
            if head.time_ms >= passed_before_ms {
                span.count += 1;
                span.first_seq.get_or_insert(head.seq);
                span.last_seq = Some(head.seq);
            }
            ControlFlow::<()>::Continue(())
        });
        span
    }
}

/// `{"seq","timestamp","type","agentId","changeInfo":{"entityIds":[…], …},"impact":{…},"stateTransition":{"from","to"}}`, absent where not
/// given.
fn compose(event: &NewEvent<'_>, seq: u64, time_ms: i64, state: &str) -> Vec<u8> {
    // Everything at once: a buffer that grows costs more than what is written into it. 256 bytes are more than all names, numbers and
    // punctuation take.
    let entities = event.entities.unwrap_or_default();
    let texts = [event.kind, event.agent.unwrap_or(""), state, event.state.unwrap_or("")];
    let objects = [event.change.unwrap_or(b""), event.impact.unwrap_or(b"")];
    let mut out = Vec::with_capacity(
        256 + entities.iter().map(|entity| entity.len() + 3).sum::<usize>()
            + texts.iter().map(|text| text.len()).sum::<usize>()
            + objects.iter().map(|object| object.len()).sum::<usize>(),
    );
    out.extend_from_slice(b"{\"seq\":");
    json::write_u64(&mut out, seq);
    out.extend_from_slice(b",\"timestamp\":");
    time::write_json(&mut out, Some(time_ms));
    out.extend_from_slice(b",\"type\":");
    json::write_string(&mut out, event.kind);
    if let Some(agent) = event.agent {
        out.extend_from_slice(b",\"agentId\":");
        json::write_string(&mut out, agent);
    }
    match (&event.entities, event.change) {
        (None, None) => {}
        (None, Some(change)) => {
            out.extend_from_slice(b",\"changeInfo\":");
            out.extend_from_slice(change.trim_ascii());
        }
        (Some(entities), change) => {
            out.extend_from_slice(b",\"changeInfo\":{\"entityIds\":[");
            for (i, entity) in entities.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                json::write_string(&mut out, entity);
            }
            out.push(b']');
            json::members(change.unwrap_or(b"{}"), |key, value| {
                if !key.is("entityIds") {
                    out.extend_from_slice(b",\"");
                    out.extend_from_slice(key.raw());
                    out.extend_from_slice(b"\":");
                    json::write_value(&mut out, &value);
                }
            });
            out.push(b'}');
        }
    }
    if let Some(impact) = event.impact {
        out.extend_from_slice(b",\"impact\":");
        out.extend_from_slice(impact.trim_ascii());
    }
    if let Some(to) = event.state {
        out.extend_from_slice(b",\"stateTransition\":{\"from\":");
        json::write_string(&mut out, state);
        out.extend_from_slice(b",\"to\":");
        json::write_string(&mut out, to);
        out.push(b'}');
    }
    out.push(b'}');
    out
}

/// What an event's text must hold for the event to pass a range's filters. It is looked for before the text is read: that costs a tenth as
/// much, and most events are not meant.
///
/// [`compose`] writes agents and states in one way only. Entities may stand as their writer spelled them: those are not looked for in a
/// text with escapes.
struct Marks {
    agents: Vec<Finder<'static>>,
    entities: Vec<Finder<'static>>,
    /// The transition, where only one end of it is given.
    transition: Option<Finder<'static>>,
    /// With the state that it leads to, the event ends.
    end: Vec<u8>,
}

impl Marks {
    fn of(range: &EventRange<'_>) -> Self {
        let all = |prefix: &[u8], names: &[&str]| -> Vec<Finder<'static>> {
            let mark = |name: &&str| {
                let mut mark = prefix.to_vec();
                json::write_string(&mut mark, name);
                Finder::new(&mark).into_owned()
            };
            names.iter().map(mark).collect()
        };
        let mut transition = Vec::new();
        if let Some(from) = range.from_state {
            transition.extend_from_slice(b"stateTransition\":{\"from\":");
            json::write_string(&mut transition, from);
        }
        let mut end = Vec::new();
        if let Some(to) = range.to_state {
            end.append(&mut transition);
            end.extend_from_slice(b",\"to\":");
            json::write_string(&mut end, to);
            end.extend_from_slice(b"}}");
        }
        Marks {
            agents: all(b"agentId\":", range.agents),
            entities: all(b"", range.entities),
            transition: (!transition.is_empty()).then(|| Finder::new(&transition).into_owned()),
            end,
        }
    }

    fn are_in(&self, kind: &str, body: &[u8]) -> bool {
        // Seq, time and type go before the agent; of the type, each byte is written as six at most.
        let before_agent = 96 + 6 * kind.len();
        let has = |mark: &Finder<'_>| mark.find(body).is_some();
        let agent_is_in = |mark: &Finder<'_>| {
            let beginning = &body[..body.len().min(before_agent + mark.needle().len())];
            mark.find(beginning).is_some()
        };
        body.ends_with(&self.end)
            && self.transition.as_ref().is_none_or(has)
            && (self.agents.is_empty() || self.agents.iter().any(agent_is_in))
            && (self.entities.is_empty() || self.entities.iter().any(has) || memchr(b'\\', body).is_some())
    }
}

/// Whether an event passes the filters that look at its body.
fn matches(body: &[u8], range: &EventRange<'_>) -> bool {
    let mut agent = range.agents.is_empty();
    let mut entity = range.entities.is_empty();
    let mut from = range.from_state.is_none();
    let mut to = range.to_state.is_none();
    json::members(body, |key, value| match value {
        Value::String(text) if key.is("agentId") => agent |= range.agents.iter().any(|name| text.is(name)),
        Value::Object(change) if key.is("changeInfo") => {
            // A key given twice counts as given last.
            let mut inside = false;
            json::members(change, |key, value| {
                if key.is("entityIds") {
                    inside = false;
                    if let Value::Array(ids) = value {
                        json::elements(ids, |id| {
                            if let Value::String(id) = id {
                                inside |= range.entities.iter().any(|name| id.is(name));
                            }
                        });
                    }
                }
            });
            entity |= inside;
        }
        Value::Object(transition) if key.is("stateTransition") => {
            json::members(transition, |key, value| {
                if let Value::String(state) = value {
                    from |= key.is("from") && range.from_state.is_some_and(|name| state.is(name));
                    to |= key.is("to") && range.to_state.is_some_and(|name| state.is(name));
                }
            });
        }
        _ => {}
    });
    agent && entity && from && to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, ALL_EVENTS as ALL, START_MS};
    use crate::limits::Limits;
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
        session.add_event(
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
        session.add_event(&full, at(START_MS));
        let change_only = NewEvent {
            kind: "x",
            change: Some(br#"{"entityIds":["x"]}"#),
            state: Some("review"),
            ..NewEvent::default()
        };
        session.add_event(&change_only, at(START_MS));
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
            session.add_event(
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
        // Spelled by whoever wrote it; and where it is not meant.
        let spelled: [&[u8]; 3] = [
            br#"{"entityIds" : [ "\u0070lain" ] }"#,
            br#"{"\u0065ntityIds":["plain"]}"#,
            br#"{"agentId":"plain","note":"plain","x":{"from":"plain","to":"plain"}}"#,
        ];
        for change in spelled {
            session.add_event(
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
        session.add_event(&event, at(START_MS));
        let session = Session::decode_whole(&session.encode_whole()).unwrap();
        let range = EventRange {
            agents: &["a"],
            entities: &["e"],
            to_state: Some("s"),
            ..ALL
        };
        assert_eq!(shown(&session, &range, START_MS).len(), 1);
    }

    /// seq, time, kind, agent, entities, and the transition's from and to.
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
                let seq = session.add_event(&event, Now { content_ms: now_ms - older_ms, ..at(now_ms) });
                model.push((seq, now_ms - older_ms, kind, agent, entities, state.map(|to| (before, to))));
                let excess = model.len().saturating_sub(if event_maxlen == 0 { usize::MAX } else { event_maxlen as usize });
                model.drain(..excess);
                model.retain(|event| event_ttl_s == 0 || event.1 >= now_ms - 1000 * event_ttl_s as i64);
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
