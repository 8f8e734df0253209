//! Checkpoints: moments of a session to come back to, and forks that go on from one.
//!
//! ```text
//!   live        [segment][segment][segment] … [chunk][chunk][open chunk]
//!                   ^        ^        ^           ^
//!   checkpoint  [segment][segment][segment] … [chunk][its own copy of the open chunk as it was]
//! ```
//!
//! A snapshot is a copy of the logs, and a copy of a log shares everything that is sealed: see [`crate::log`]. Entities are shared too,
//! until one is mentioned again. So a checkpoint costs what its references cost, however long the session is, and whoever trims,
//! rewrites or drops one side leaves the other as it is.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use uuid::Uuid;

use crate::agent::{Agent, Agents};
use crate::entity::Entities;
use crate::event::NewEvent;
use crate::json::{self, Value};
use crate::messages::Messages;
use crate::session::{Cold, Now, Session};
use crate::time;

/// The type of the event that a restore records.
pub const RESTORED: &str = "restored";

#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// A seq.
    pub id: u64,
    pub time_ms: i64,
    pub label: Option<String>,
    pub outcome: Option<String>,
    pub state: String,
    pub refs: Vec<String>,
    /// The text of a JSON object.
    pub summary: String,
    pub(crate) snapshot: Snapshot,
}

/// What a restore brings back, beside the state.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub messages: Messages,
    pub entities: Arc<Entities>,
    pub agents: BTreeMap<String, Agent>,
}

/// The checkpoints of one session, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoints {
    pub list: Vec<Checkpoint>,
    /// The greatest seq of a checkpoint that is there no more; 0: all are there.
    pub last_gone: u64,
}

impl Checkpoints {
    fn drop_where(&mut self, goes: impl Fn(u64) -> bool) -> u64 {
        let before = self.list.len();
        let last_gone = &mut self.last_gone;
        self.list.retain(|checkpoint| {
            let goes = goes(checkpoint.id);
            if goes {
                *last_gone = (*last_gone).max(checkpoint.id);
            }
            !goes
        });
        (before - self.list.len()) as u64
    }

    pub fn last_id(&self) -> u64 {
        self.list.last().map_or(0, |checkpoint| checkpoint.id)
    }
}

/// A checkpoint to be made.
#[derive(Debug, Clone, Default)]
pub struct NewCheckpoint<'a> {
    pub label: Option<&'a str>,
    pub outcome: Option<&'a str>,
    /// The text of a JSON object; else the impacts of the events since the last checkpoint, merged.
    pub summary: Option<&'a str>,
    /// Else the entities of the events since the last checkpoint.
    pub refs: Option<Vec<&'a str>>,
    /// Drop the events since the last checkpoint.
    pub trim: bool,
    /// The session takes no writes from now on.
    pub close: bool,
}

/// How much of a session a fork takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// Messages and events up to this seq.
    Upto(u64),
    /// Messages, entities, agents and state of this checkpoint, which is there.
    Checkpoint(u64),
}

/// A session that goes on from another.
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    pub id: Uuid,
    pub created_at_ms: i64,
    pub part: Part,
}

impl Checkpoint {
    /// Appends `{"sessionId","checkpointId","timestamp","refEntities","summary","outcome","state","label"}`.
    pub fn write_json(&self, session: Uuid, out: &mut Vec<u8>) {
        out.extend_from_slice(
            format!(
                "{{\"sessionId\":\"{}\",\"checkpointId\":{},\"timestamp\":",
                session.hyphenated(),
                self.id
            )
            .as_bytes(),
        );
        time::write_json(out, Some(self.time_ms));
        out.extend_from_slice(b",\"refEntities\":[");
        for (i, entity) in self.refs.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            json::write_string(out, entity);
        }
        out.extend_from_slice(b"],\"summary\":");
        out.extend_from_slice(self.summary.as_bytes());
        for (name, text) in [
            (",\"outcome\":", self.outcome.as_deref()),
            (",\"state\":", Some(self.state.as_str())),
            (",\"label\":", self.label.as_deref()),
        ] {
            out.extend_from_slice(name.as_bytes());
            match text {
                Some(text) => json::write_string(out, text),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
    }

    pub fn json(&self, session: Uuid) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_json(session, &mut out);
        out
    }

    /// What is held for this checkpoint alone. `seen` holds the chunks that have been counted already.
    fn heap_bytes(&self, seen: &mut HashSet<usize>) -> usize {
        let agents = self.snapshot.agents.iter();
        size_of::<Checkpoint>()
            + self.label.as_ref().map_or(0, String::capacity)
            + self.outcome.as_ref().map_or(0, String::capacity)
            + self.state.capacity()
            + self.summary.capacity()
            + self
                .refs
                .iter()
                .map(|entity| entity.capacity() + size_of::<String>())
                .sum::<usize>()
            + agents
                .map(|(name, agent)| name.len() + size_of::<Agent>() + agent.meta.as_ref().map_or(0, String::len))
                .sum::<usize>()
            + self.snapshot.messages.heap_bytes_unseen(seen)
            + if seen.insert(Arc::as_ptr(&self.snapshot.entities) as usize) {
                self.snapshot.entities.heap_bytes()
            } else {
                0
            }
    }
}

impl Session {
    /// Oldest first.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.cold.as_ref().map_or(&[], |cold| &cold.checkpoints.list)
    }

    pub fn checkpoint(&self, id: u64) -> Option<&Checkpoint> {
        let list = self.checkpoints();
        let at = list.binary_search_by_key(&id, |checkpoint| checkpoint.id).ok()?;
        list.get(at)
    }

    /// When the session was closed, if it was.
    #[inline]
    pub fn closed_at_ms(&self) -> Option<i64> {
        self.cold.as_ref().and_then(|cold| cold.closed_at_ms)
    }

    /// Makes a checkpoint and returns its id. More than `max_checkpoints`: the oldest goes.
    ///
    /// Cost: O(segments of the log + agents + events since the last checkpoint), nothing of it growing with the messages' bytes.
    pub fn make_checkpoint(&mut self, new: &NewCheckpoint<'_>, now: Now) -> u64 {
        self.evict(now.now_ms, None);
        let since = self.cold.as_ref().map_or(0, |cold| cold.checkpoints.last_id());
        let (mut refs, mut impacts) = (Vec::new(), Vec::new());
        if new.refs.is_none() || new.summary.is_none() {
            (refs, impacts) = self.events_in_brief(since, now.now_ms);
        }
        if let Some(given) = &new.refs {
            refs = given.iter().map(|entity| (*entity).to_owned()).collect();
        }
        let summary = match new.summary {
            Some(summary) => summary.trim().to_owned(),
            None => merged(&impacts),
        };
        let state = self.state().to_owned();
        self.last_seq += 1;
        let id = self.last_seq;
        let max_checkpoints = self.limits.max_checkpoints;
        let messages = self.messages.clone();
        let cold = self.cold_mut();
        cold.checkpoints.list.push(Checkpoint {
            id,
            time_ms: now.content_ms,
            label: new.label.map(str::to_owned),
            outcome: new.outcome.map(str::to_owned),
            state,
            refs,
            summary,
            snapshot: Snapshot {
                messages,
                entities: Arc::clone(&cold.entities),
                agents: cold.agents.by_name.clone(),
            },
        });
        let excess = (cold.checkpoints.list.len() as u64).saturating_sub(max_checkpoints);
        if max_checkpoints > 0 && excess > 0 {
            let first_kept = cold.checkpoints.list[excess as usize].id;
            cold.checkpoints.drop_where(|id| id < first_kept);
        }
        if new.trim {
            cold.events.cut_after(since);
        }
        if new.close {
            cold.closed_at_ms = Some(now.now_ms);
            cold.agents.lease = None;
        }
        self.touch(now.now_ms);
        id
    }

    /// Drops checkpoints; returns how many were there.
    pub fn drop_checkpoints(&mut self, ids: &[u64], now: Now) -> u64 {
        let Some(cold) = &mut self.cold else { return 0 };
        let dropped = cold.checkpoints.drop_where(|id| ids.contains(&id));
        if dropped > 0 {
            self.evict(now.now_ms, None);
            self.touch(now.now_ms);
        }
        dropped
    }

    /// Brings back messages, entities, agents and state as they were, and records an event. Returns that event's seq and how many
    /// messages the present window let go at once; `None` without such a checkpoint.
    ///
    /// Cost: O(segments of the log + agents), with pinned roles O(messages) headers.
    pub fn restore(&mut self, id: u64, now: Now) -> Option<(u64, u64)> {
        let checkpoint = self.checkpoint(id)?;
        let (snapshot, state) = (checkpoint.snapshot.clone(), checkpoint.state.clone());
        self.messages = self.messages.restored(snapshot.messages, id);
        let is_moved = state != self.state();
        let cold = self.cold_mut();
        cold.entities = snapshot.entities;
        cold.agents.by_name = snapshot.agents;
        let before = self.messages.len();
        let change = format!("{{\"checkpointId\":{id}}}");
        let event = NewEvent {
            kind: RESTORED,
            change: Some(change.as_bytes()),
            state: is_moved.then_some(&state),
            ..NewEvent::default()
        };
        let seq = self.add_event(&event, now);
        Some((seq, before - self.messages.len()))
    }

    /// A session of its own that goes on from this one: open, at version 1, with what was said here, without its alias, lease, dedup
    /// tokens and checkpoints. Returns it and how many messages its window let go at once.
    ///
    /// Cost: O(segments of the logs + agents), with `Upto` also O(records cut).
    pub fn fork(&self, fork: &Fork, now: Now) -> (Session, u64) {
        let mut session = Session {
            id: fork.id,
            version: 1,
            last_seq: self.last_seq,
            created_at_ms: fork.created_at_ms,
            last_activity_ms: now.now_ms,
            ttl_ms: self.ttl_ms,
            query_count: self.query_count,
            ttl_extended_count: 0,
            limits: Arc::clone(&self.limits),
            cold: self.cold.as_ref().map(|cold| Box::new(cold.forked())),
            messages: self.messages.clone(),
        };
        match fork.part {
            Part::Whole => {}
            Part::Upto(seq) => {
                session.messages.cut_after(seq);
                if let Some(cold) = &mut session.cold {
                    cold.events.cut_after(seq);
                    cold.set_aside.cut_after(seq);
                }
            }
            Part::Checkpoint(id) => {
                if let Some(checkpoint) = self.checkpoint(id) {
                    let snapshot = checkpoint.snapshot.clone();
                    session.messages = self.messages.restored(snapshot.messages, id);
                    let cold = session.cold_mut();
                    cold.entities = snapshot.entities;
                    cold.agents.by_name = snapshot.agents;
                    cold.state = (checkpoint.state != crate::session::INITIAL_STATE).then(|| checkpoint.state.clone());
                }
            }
        }
        let before = session.messages.len();
        session.evict(now.now_ms, None);
        let evicted = before - session.messages.len();
        (session, evicted)
    }

    /// The entities and the impacts of the events after a seq, oldest first.
    fn events_in_brief(&self, since: u64, now_ms: i64) -> (Vec<String>, Vec<Vec<u8>>) {
        let (mut entities, mut impacts) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        self.scan_events(since + 1, now_ms, |_, body| {
            // A key given twice counts as given last.
            let mut impact = None;
            json::members(body.get(), |key, value| match value {
                Value::Object(change) if key.is("changeInfo") => {
                    let mut ids = Vec::new();
                    json::members(change, |key, value| {
                        if key.is("entityIds") {
                            ids.clear();
                            if let Value::Array(list) = value {
                                json::elements(list, |id| ids.extend(id.as_string().map(|id| id.into_owned())));
                            }
                        }
                    });
                    for id in ids {
                        if known.insert(id.clone()) {
                            entities.push(id);
                        }
                    }
                }
                Value::Object(object) if key.is("impact") => impact = Some(object.to_vec()),
                _ => {}
            });
            impacts.extend(impact);
            ControlFlow::Continue(())
        });
        entities.retain(|id| (1..=crate::session::MAX_TEXT_BYTES).contains(&id.len()));
        (entities, impacts)
    }

    /// What checkpoints hold beside what `seen` has.
    pub(crate) fn checkpoints_heap_bytes(&self) -> usize {
        let Some(cold) = self.cold.as_ref().filter(|cold| !cold.checkpoints.list.is_empty()) else {
            return 0;
        };
        let mut seen = HashSet::new();
        self.messages.heap_bytes_unseen(&mut seen);
        seen.insert(Arc::as_ptr(&cold.entities) as usize);
        let list = cold.checkpoints.list.iter();
        list.map(|checkpoint| checkpoint.heap_bytes(&mut seen)).sum()
    }
}

impl Cold {
    fn forked(&self) -> Cold {
        Cold {
            scope: self.scope.clone(),
            state: self.state.clone(),
            meta: self.meta.clone(),
            pins: self.pins.clone(),
            entities: Arc::clone(&self.entities),
            events: self.events.clone(),
            agents: Agents {
                by_name: self.agents.by_name.clone(),
                ..Agents::default()
            },
            set_aside: self.set_aside.clone(),
            checkpoints: Checkpoints {
                list: Vec::new(),
                last_gone: self.checkpoints.last_gone.max(self.checkpoints.last_id()),
            },
            ..Cold::default()
        }
    }
}

/// `{"impacts":{…}}`: the top-level keys of all, later ones in place of earlier ones.
fn merged(impacts: &[Vec<u8>]) -> String {
    let mut keys: Vec<(String, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for impact in impacts {
        json::members(impact, |key, value| {
            let name = key.decode().into_owned();
            let value = json::value_bytes(&value).to_vec();
            match places.get(&name) {
                Some(&place) => keys[place].2 = value,
                None => {
                    places.insert(name.clone(), keys.len());
                    keys.push((name, key.raw().to_vec(), value));
                }
            }
        });
    }
    let mut out = b"{\"impacts\":{".to_vec();
    for (i, (_, key, value)) in keys.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(key);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
    out.extend_from_slice(b"}}");
    String::from_utf8(out).unwrap_or_else(|_| "{\"impacts\":{}}".to_owned())
}

#[cfg(test)]
mod tests;
