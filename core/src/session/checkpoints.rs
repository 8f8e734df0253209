//! Making, dropping and restoring checkpoints; [`crate::session::state::checkpoints`] stores them.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::state::checkpoints::{Checkpoint, Snapshot};
use super::state::events::NewEvent;
use super::state::Session;
use super::write::{Now, Written};
use crate::text::is_text;
use crate::text::json::{self, Value};

/// The type of the event that a restore records.
pub const RESTORED: &str = "restored";

/// A checkpoint to make.
#[derive(Debug, Clone, Default)]
pub struct NewCheckpoint<'a> {
    pub label: Option<&'a str>,
    pub outcome: Option<&'a str>,
    /// The text of a JSON object; if `None`, the impacts of the events since the last checkpoint are merged.
    pub summary: Option<&'a str>,
    /// If `None`, the entities of the events since the last checkpoint.
    pub refs: Option<Vec<&'a str>>,
    /// Drop the events since the last checkpoint.
    pub trim: bool,
    /// Close the session: it takes no more writes.
    pub close: bool,
}

/// What a restore did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The seq of the event that records it.
    pub event_seq: u64,
    /// The session's version after the restore.
    pub version: u64,
}

impl Session {
    /// Returns the checkpoints, oldest first.
    pub fn checkpoints(&self) -> &[Arc<Checkpoint>] {
        self.cold.as_ref().map_or(&[], |cold| &cold.checkpoints.list)
    }

    pub fn checkpoint(&self, id: u64) -> Option<&Checkpoint> {
        self.cold.as_ref()?.checkpoints.get(id).map(Arc::as_ref)
    }

    /// Returns when the session was closed, `None` if it is open.
    #[inline]
    pub fn closed_at_ms(&self) -> Option<i64> {
        self.cold.as_ref().and_then(|cold| cold.closed_at_ms)
    }

    /// Makes a checkpoint and returns it. Beyond `max_checkpoints` the oldest is dropped.
    ///
    /// Cost: O(segments of the log + agents + events since the last checkpoint), independent of the size of the messages.
    pub fn make_checkpoint(&mut self, new: &NewCheckpoint<'_>, now: Now) -> Written<Arc<Checkpoint>> {
        let passed = self.free_passed(now);
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
        let (id, state, messages) = (self.next_seq(), self.state().to_owned(), self.messages.clone());
        let max_checkpoints = self.limits.max_checkpoints;
        let cold = self.cold_mut();
        let checkpoint = Arc::new(Checkpoint {
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
        cold.checkpoints.push(Arc::clone(&checkpoint), max_checkpoints);
        if new.trim {
            cold.events.cut_after(since);
        }
        if new.close {
            cold.closed_at_ms = Some(now.now_ms);
            cold.agents.lease = None;
        }
        self.written(checkpoint, now).after(passed)
    }

    /// Drops checkpoints; returns how many of these ids existed.
    pub fn drop_checkpoints(&mut self, ids: &[u64], now: Now) -> Written<u64> {
        let dropped = self
            .cold
            .as_mut()
            .map_or(0, |cold| cold.checkpoints.drop_where(|id| ids.contains(&id)));
        if dropped == 0 {
            return Written::nothing(0);
        }
        self.written(dropped, now)
    }

    /// Restores messages, entities, agents and state from a checkpoint and records an event. Returns `None` if there is no such checkpoint.
    ///
    /// Cost: O(segments of the log + agents), with pinned roles O(messages) headers.
    pub fn restore(&mut self, id: u64, now: Now) -> Option<Written<Restored>> {
        let checkpoint = self.checkpoint(id)?;
        let (snapshot, state) = (checkpoint.snapshot.clone(), checkpoint.state.clone());
        self.messages = self.messages.restored(snapshot.messages, id);
        let is_moved = state != self.state();
        let cold = self.cold_mut();
        cold.entities = snapshot.entities;
        cold.agents.by_name = snapshot.agents;
        let change = format!("{{\"checkpointId\":{id}}}");
        let event = NewEvent {
            kind: RESTORED,
            change: Some(change.as_bytes()),
            state: is_moved.then_some(&state),
            ..NewEvent::default()
        };
        let recorded = self.add_event(&event, now);
        let version = self.version;
        Some(recorded.map(|event_seq| Restored { event_seq, version }))
    }

    /// Returns the entities and the impacts of the events after a seq, oldest first.
    fn events_in_brief(&self, since: u64, now_ms: i64) -> (Vec<String>, Vec<Vec<u8>>) {
        let (mut entities, mut impacts) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        self.scan_events(since + 1, now_ms, |_, body| {
            // Of a repeated key the last value counts.
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
        entities.retain(|id| is_text(id));
        (entities, impacts)
    }
}

/// Returns `{"impacts":{…}}` with the top-level keys of all impacts; a later value replaces an earlier one.
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
#[path = "checkpoints_tests.rs"]
mod tests;
