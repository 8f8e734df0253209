//! The data of a timeline: lanes, marks, states and their times.

use std::collections::HashMap;

use redis_session_client::Event;
use serde_json::Value as Json;

use crate::session::entry::{change, handoff, What};
use crate::session::snapshot::Snapshot;
use crate::term::color::Mood;
use crate::term::text::clean_line;
use crate::term::text::key_text;

/// Number of lanes at most; further agents share the last.
const LANES_MAX: usize = 14;

/// The lane of events without an agent.
const NOBODY: &str = "—";

pub struct Timeline {
    /// The alias, or the key.
    pub title: String,
    pub key: String,
    pub id: String,
    pub begin_ms: i64,
    pub end_ms: i64,
    /// Agents in the order in which they appear.
    pub lanes: Vec<String>,
    /// In the order of their seqs, as all lists below.
    pub marks: Vec<Mark>,
    pub handoffs: Vec<Handoff>,
    pub spans: Vec<Span>,
    pub flags: Vec<Flag>,
    pub messages: Vec<Said>,
    pub message_count: u64,
    pub is_closed: bool,
}

/// An event other than a handoff.
pub struct Mark {
    pub seq: u64,
    pub time_ms: i64,
    pub lane: usize,
    pub kind: String,
    pub mood: Mood,
    pub transition: Option<(String, String)>,
    /// Entities and impact, on one line.
    pub details: String,
}

pub struct Handoff {
    pub seq: u64,
    pub time_ms: i64,
    pub from: usize,
    pub to: usize,
    pub note: String,
}

/// A period in one state.
pub struct Span {
    pub state: String,
    pub from_ms: i64,
    pub to_ms: i64,
}

/// A checkpoint.
pub struct Flag {
    pub seq: u64,
    pub time_ms: i64,
    pub label: String,
    pub outcome: String,
}

pub struct Said {
    pub time_ms: i64,
    pub by: Speaker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
    Other,
}

impl Speaker {
    pub const ALL: [Speaker; 3] = [Speaker::User, Speaker::Assistant, Speaker::Other];

    fn of(role: &str) -> Speaker {
        match role {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            _ => Speaker::Other,
        }
    }
}

#[derive(Default)]
struct Lanes {
    names: Vec<String>,
    of: HashMap<String, usize>,
}

impl Lanes {
    fn of(&mut self, agent: &str) -> usize {
        if let Some(lane) = self.of.get(agent) {
            return *lane;
        }
        let lane = if self.names.len() < LANES_MAX {
            self.names.push(clean_line(agent));
            self.names.len() - 1
        } else {
            self.names[LANES_MAX - 1] = "others".into();
            LANES_MAX - 1
        };
        self.of.insert(agent.to_owned(), lane);
        lane
    }
}

fn details(event: &Event) -> String {
    let mut all = Vec::new();
    let entities = event.entity_ids();
    if !entities.is_empty() {
        all.push(entities.join(", "));
    }
    let change = Some(change(event)).filter(|change| !change.is_empty());
    let objects = change.into_iter().chain(event.impact.clone());
    all.extend(objects.map(|object| Json::Object(object).to_string()));
    clean_line(&all.join(" · "))
}

impl Timeline {
    /// Returns `None` if nothing was recorded.
    pub fn of(snapshot: &Snapshot) -> Option<Timeline> {
        let mut lanes = Lanes::default();
        let (mut marks, mut handoffs, mut flags, mut messages) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut moves: Vec<(i64, String, String)> = Vec::new();
        for entry in &snapshot.entries {
            let (seq, time_ms) = (entry.seq, entry.time_ms);
            match &entry.what {
                What::Message { body, .. } => messages.push(Said {
                    time_ms,
                    by: Speaker::of(&body.role),
                }),
                What::Event(event) => {
                    let moved = event.state_transition.as_ref();
                    let transition = moved.map(|moved| (clean_line(&moved.from), clean_line(&moved.to)));
                    if let Some((from, to)) = transition.clone() {
                        moves.push((time_ms, from, to));
                    }
                    if let Some((from, to, note)) = handoff(event) {
                        handoffs.push(Handoff {
                            seq,
                            time_ms,
                            from: lanes.of(from),
                            to: lanes.of(to),
                            note: clean_line(note.unwrap_or_default()),
                        });
                        continue;
                    }
                    marks.push(Mark {
                        seq,
                        time_ms,
                        lane: lanes.of(event.agent_id.as_deref().unwrap_or(NOBODY)),
                        mood: match moved {
                            Some(moved) if Mood::of(&event.event_type) == Mood::Neutral => Mood::of(&moved.to),
                            _ => Mood::of(&event.event_type),
                        },
                        kind: clean_line(&event.event_type),
                        transition,
                        details: details(event),
                    });
                }
                What::Checkpoint(checkpoint) => flags.push(Flag {
                    seq,
                    time_ms,
                    label: clean_line(checkpoint.label.as_deref().unwrap_or_default()),
                    outcome: clean_line(checkpoint.outcome.as_deref().unwrap_or_default()),
                }),
                _ => {}
            }
        }
        let session = &snapshot.session;
        for agent in &session.agents {
            lanes.of(&agent.agent_id);
        }
        let times = marks.iter().map(|mark| mark.time_ms);
        let times = times.chain(handoffs.iter().map(|handoff| handoff.time_ms));
        let times = times.chain(flags.iter().map(|flag| flag.time_ms));
        let times = times.chain(messages.iter().map(|said| said.time_ms));
        let (begin_ms, end_ms) = times.fold(None, |span: Option<(i64, i64)>, time_ms| {
            Some(span.map_or((time_ms, time_ms), |(begin, end)| {
                (begin.min(time_ms), end.max(time_ms))
            }))
        })?;
        let state = clean_line(&session.state);
        let key = key_text(&snapshot.key);
        Some(Timeline {
            title: session.alias.as_deref().map_or_else(|| key.clone(), clean_line),
            key,
            id: session.session_id.to_string(),
            begin_ms,
            end_ms,
            lanes: lanes.names,
            marks,
            handoffs,
            spans: spans(&moves, &state, begin_ms, end_ms),
            flags,
            messages,
            message_count: session.message_count,
            is_closed: session.closed_at.is_some(),
        })
    }

    pub fn event_count(&self) -> usize {
        self.marks.len() + self.handoffs.len()
    }

    /// Every time at which something is drawn.
    pub fn times(&self) -> Vec<i64> {
        let marks = self.marks.iter().map(|mark| mark.time_ms);
        let handoffs = self.handoffs.iter().map(|handoff| handoff.time_ms);
        let flags = self.flags.iter().map(|flag| flag.time_ms);
        let said = self.messages.iter().map(|said| said.time_ms);
        let mut all: Vec<i64> = marks.chain(handoffs).chain(flags).chain(said).collect();
        all.sort_unstable();
        all
    }
}

/// The states one after the other. Before the first transition, the state is the one it came from.
fn spans(moves: &[(i64, String, String)], state: &str, begin_ms: i64, end_ms: i64) -> Vec<Span> {
    let mut out = Vec::new();
    let mut from_ms = begin_ms;
    let mut now = moves.first().map_or(state, |(_, from, _)| from.as_str());
    for (time_ms, _, to) in moves {
        // Events may be dated back behind each other.
        let time_ms = (*time_ms).clamp(from_ms, end_ms);
        if to != now {
            out.push(Span {
                state: now.to_owned(),
                from_ms,
                to_ms: time_ms,
            });
            (now, from_ms) = (to, time_ms);
        }
    }
    out.push(Span {
        state: now.to_owned(),
        from_ms,
        to_ms: end_ms,
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_each_other_without_a_gap() {
        let moves = [(10, "a", "a"), (20, "a", "b"), (15, "b", "c"), (30, "c", "a")];
        let moves = moves.map(|(time_ms, from, to)| (time_ms, from.to_owned(), to.to_owned()));
        let spans = spans(&moves, "a", 0, 40);
        let told: Vec<_> = spans
            .iter()
            .map(|span| (span.state.as_str(), span.from_ms, span.to_ms))
            .collect();
        assert_eq!(told, [("a", 0, 20), ("b", 20, 20), ("c", 20, 30), ("a", 30, 40)]);
    }

    #[test]
    fn lanes_are_bounded() {
        let mut lanes = Lanes::default();
        let all: Vec<usize> = (0..100).map(|n| lanes.of(&format!("agent-{n}"))).collect();
        assert_eq!((all[0], all[12], all[13], all[99]), (0, 12, 13, 13));
        assert_eq!(lanes.names.len(), LANES_MAX);
        assert_eq!(lanes.names[LANES_MAX - 1], "others");
    }
}
