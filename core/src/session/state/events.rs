//! What agents recorded: an append-only log of events, the same log as messages stand in, kept by count and age.
//!
//! An event is kept as the JSON object it is shown as; its type stands in the record's header, so that filtering by type reads no
//! body.

use std::ops::ControlFlow;

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
    /// The greatest seq of an event that is there no more; 0: all are there.
    pub(in crate::session) last_gone: u64,
    /// Events up to this seq were written by others and may be spelled in other ways than [`compose`] does.
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

    /// Records an event under a seq that is above all others. `state` is the one that the session is in before it.
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

    /// Drops every event behind a seq. Cost: O(events dropped).
    pub fn cut_after(&mut self, seq: u64) {
        if let Some(last_seq) = self.log.cut_after(seq) {
            self.last_gone = self.last_gone.max(last_seq);
        }
    }

    /// Drops what is over `maxlen` or was recorded before `passed_before_ms`. Cost: O(dropped), with times out of order O(events).
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

    // ---- reading: events from before `passed_before_ms` are shown to nobody -------------------------------------------

    /// Gives the events of a range, as the JSON objects they are shown as.
    ///
    /// Cost: O(log chunks + events looked at): the filters look at each event in turn until `count` are found, by type at its header, by the
    /// others at its body.
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

    /// Gives every event from this seq on, until told to stop. Cost: O(log chunks + events given).
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

    /// The greatest seq of an event that is there no more, or that a read does not show any more; 0 if all are there.
    ///
    /// Cost: O(1); O(events) headers while some have passed and are not freed.
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

    /// Cost: O(1); O(events) headers while some have passed and are not freed.
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
    agents: Vec<Vec<u8>>,
    entities: Vec<Vec<u8>>,
    /// The transition, where only one end of it is given.
    transition: Vec<u8>,
    /// With the state that it leads to, the event ends.
    end: Vec<u8>,
}

impl Marks {
    fn of(range: &EventRange<'_>) -> Self {
        let all = |prefix: &[u8], names: &[&str]| -> Vec<Vec<u8>> {
            let mark = |name: &&str| {
                let mut mark = prefix.to_vec();
                json::write_string(&mut mark, name);
                mark
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
            transition,
            end,
        }
    }

    fn are_in(&self, kind: &str, body: &[u8]) -> bool {
        // Seq, time and type go before the agent; of the type, each byte is written as six at most.
        let before_agent = 96 + 6 * kind.len();
        let agent_is_in = |mark: &Vec<u8>| json::contains(&body[..body.len().min(before_agent + mark.len())], mark);
        body.ends_with(&self.end)
            && json::contains(body, &self.transition)
            && (self.agents.is_empty() || self.agents.iter().any(agent_is_in))
            && (self.entities.is_empty()
                || self.entities.iter().any(|mark| json::contains(body, mark))
                || json::contains(body, b"\\"))
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
