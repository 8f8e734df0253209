//! The events that agents recorded: an append-only log, like that of the messages, bounded by count and age.
//!
//! An event is stored as the JSON object that reads show; its type is also in the record's header, so that filtering by type reads no
//! body.

use std::ops::ControlFlow;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::body::{estimated_tokens, Role};
use crate::log::{Body, Entry, Head, Log, Position};
use crate::text::json::{self, Value};
use crate::text::time;

/// All events of one session.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    pub(in crate::session) log: Log,
    /// No event is older than this.
    oldest_ms: i64,
    /// The greatest seq of an event that is no longer there; 0 if there is none.
    pub(in crate::session) last_gone: u64,
    /// Events up to this seq were not written by [`compose`], so their JSON may be formatted differently.
    pub(in crate::session) foreign_until: u64,
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

    /// Records an event with a seq greater than all others. `state` is the session's state before the event.
    ///
    /// Cost: O(bytes of the event).
    pub fn push(&mut self, event: &NewEvent<'_>, seq: u64, time_ms: i64, state: &str, compress_after_bytes: u32) {
        let body = compose(event, seq, time_ms, state);
        let role = Role::from_name(event.kind);
        self.log.push(
            &Entry {
                seq,
                time_ms,
                tokens: estimated_tokens(body.len()),
                role: &role,
                root: None,
                calls: &[],
                body: &body,
            },
            compress_after_bytes,
        );
        self.oldest_ms = self.oldest_ms.min(time_ms);
    }

    /// Drops every event after a seq. Cost: O(events dropped).
    pub fn cut_after(&mut self, seq: u64) {
        if let Some(last_seq) = self.log.cut_after(seq) {
            self.last_gone = self.last_gone.max(last_seq);
        }
    }

    /// Drops the events beyond `maxlen` or recorded before `passed_before_ms`. Cost: O(dropped), with times out of order O(events).
    pub fn trim(&mut self, maxlen: u64, passed_before_ms: i64) {
        if self.log.is_empty() {
            return;
        }
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

    // ---- reading: events from before `passed_before_ms` are not shown -------------------------------------------------

    /// Calls `each` with the events of a range, as the JSON objects that reads show.
    ///
    /// Cost: O(log chunks + events examined): events are examined in turn until `count` are found, by type from the header, by the other
    /// filters from the body.
    pub fn range(&self, range: &EventRange<'_>, passed_before_ms: i64, mut each: impl FnMut(&[u8])) {
        let mut left = range.count;
        if left == 0 || range.from > range.to {
            return;
        }
        let by_body = !range.agents.is_empty()
            || !range.entities.is_empty()
            || range.from_state.is_some()
            || range.to_state.is_some();
        let marks = Marks::of(range);
        let mut look = |head: &Head<'_>, body: &mut Body<'_>| {
            if !(range.from..=range.to).contains(&head.seq) {
                return ControlFlow::Break(());
            }
            let kind = range.kinds.is_empty() || range.kinds.contains(&head.role.as_str());
            if head.time_ms >= passed_before_ms
                && kind
                && (!by_body
                    || ((head.seq <= self.foreign_until || marks.are_in(head.role.as_str(), body.get()))
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
        let log = &self.log;
        let _ = if range.rev {
            log.scan_rev(log.position_of_seq(range.to.saturating_add(1)), &mut look)
        } else {
            log.scan(log.position_of_seq(range.from), &mut look)
        };
    }

    /// Calls `each` with every event from this seq on, until it breaks. Cost: O(log chunks + events given).
    pub fn scan_from(
        &self,
        from_seq: u64,
        passed_before_ms: i64,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<()>,
    ) {
        let _ = self.log.scan_from_seq(from_seq, |head, body| {
            if head.time_ms < passed_before_ms {
                return ControlFlow::Continue(());
            }
            each(head, body)
        });
    }

    /// Returns the greatest seq of the events that were dropped or have expired; 0 if there is none.
    ///
    /// Cost: O(1); O(events) headers while some have expired and are not yet freed.
    pub fn last_gone(&self, passed_before_ms: i64) -> u64 {
        let mut last_gone = self.last_gone;
        if self.oldest_ms < passed_before_ms {
            let _ = self.log.scan_rev(Position::END, |head, _| {
                if head.time_ms < passed_before_ms {
                    last_gone = last_gone.max(head.seq);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
        last_gone
    }

    /// Returns the number of events that reads show, with the first and the last.
    ///
    /// Cost: O(1); O(events) headers while some have expired and are not yet freed.
    pub fn span(&self, passed_before_ms: i64) -> EventSpan {
        let mut span = EventSpan::default();
        if self.oldest_ms >= passed_before_ms {
            let last = self.log.scan_rev(Position::END, |head, _| ControlFlow::Break(head.seq));
            span.count = self.log.len();
            span.first_seq = self.log.front().map(|front| front.seq);
            span.last_seq = last.break_value();
            return span;
        }
        let _ = self.log.scan(Position::START, |head, _| {
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

/// An event to record.
#[derive(Debug, Clone, Default)]
pub struct NewEvent<'a> {
    pub kind: &'a str,
    pub agent: Option<&'a str>,
    /// Replaces the `entityIds` in `change`.
    pub entities: Option<&'a [&'a str]>,
    /// Texts of JSON objects, which [`json::read_object`] has accepted.
    pub change: Option<&'a [u8]>,
    pub impact: Option<&'a [u8]>,
    /// The state to move to, which may be the present one.
    pub state: Option<&'a str>,
}

/// Which events a range selects: those with seqs from `from` to `to` that pass every filter; a filter with several values accepts any of
/// them.
#[derive(Debug, Clone, Default)]
pub struct EventRange<'a> {
    pub from: u64,
    pub to: u64,
    pub rev: bool,
    /// Maximum number of events.
    pub count: u64,
    pub kinds: &'a [&'a str],
    pub agents: &'a [&'a str],
    pub entities: &'a [&'a str],
    pub from_state: Option<&'a str>,
    pub to_state: Option<&'a str>,
}

/// The number of events that reads show, and the first and last of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventSpan {
    pub count: u64,
    pub first_seq: Option<u64>,
    pub last_seq: Option<u64>,
}

/// Composes `{"seq","timestamp","type","agentId","changeInfo":{"entityIds":[…], …},"impact":{…},"stateTransition":{"from","to"}}`, without
/// the members that are not given.
fn compose(event: &NewEvent<'_>, seq: u64, time_ms: i64, state: &str) -> Vec<u8> {
    // One allocation: growing the buffer would cost more than writing into it. All names, numbers and punctuation take less than 256 bytes.
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

/// Byte strings that an event's JSON must contain to pass a range's filters. They are searched for before the JSON is parsed: that costs a
/// tenth as much, and most events do not match.
///
/// [`compose`] writes agents and states in one way only. Entities may be spelled as their writer chose: texts with escapes are not searched
/// for them.
struct Marks {
    agents: Vec<Finder<'static>>,
    entities: Vec<Finder<'static>>,
    /// The transition, if only one end of it is given.
    transition: Option<Finder<'static>>,
    /// The end of an event's JSON that leads to the state.
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
        // Seq, time and type precede the agent; each byte of the type is written as at most six.
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

/// Returns whether an event passes the filters on its body.
fn matches(body: &[u8], range: &EventRange<'_>) -> bool {
    let mut agent = range.agents.is_empty();
    let mut entity = range.entities.is_empty();
    let mut from = range.from_state.is_none();
    let mut to = range.to_state.is_none();
    json::members(body, |key, value| match value {
        Value::String(text) if key.is("agentId") => agent |= range.agents.iter().any(|name| text.is(name)),
        Value::Object(change) if key.is("changeInfo") => {
            // Of a repeated key the last value counts.
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
