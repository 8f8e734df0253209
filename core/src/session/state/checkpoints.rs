//! Checkpoints: snapshots of a session that it can be restored to and forked from.
//!
//! ```text
//!   live        [segment][segment][segment] … [chunk][chunk][open chunk]
//!                   ^        ^        ^           ^
//!   checkpoint  [segment][segment][segment] … [chunk][its own copy of the open chunk as it was]
//! ```
//!
//! A snapshot is a copy of the logs, and a copy of a log shares everything that is sealed: see [`crate::log`]. Entities are shared too,
//! until one is mentioned again. So a checkpoint costs only its references, however long the session is, and trimming, rewriting or
//! dropping one side does not change the other.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::agents::Agent;
use super::entities::Entities;
use crate::conversation::Messages;
use crate::text::{json, time};

#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The seq that the checkpoint took.
    pub id: u64,
    pub time_ms: i64,
    pub label: Option<String>,
    pub outcome: Option<String>,
    pub state: String,
    pub refs: Vec<String>,
    /// The text of a JSON object.
    pub summary: String,
    pub(in crate::session) snapshot: Snapshot,
}

/// What a restore brings back in addition to the state.
#[derive(Debug, Clone)]
pub(in crate::session) struct Snapshot {
    pub messages: Messages,
    pub entities: Arc<Entities>,
    pub agents: BTreeMap<String, Agent>,
}

/// The checkpoints of one session, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checkpoints {
    pub(in crate::session) list: Vec<Arc<Checkpoint>>,
    /// The greatest id of a checkpoint that is no longer there; 0 if there is none.
    pub(in crate::session) last_gone: u64,
}

impl Checkpoints {
    /// Adds the newest checkpoint, and drops the oldest ones beyond `max_checkpoints`; 0 is no bound.
    pub fn push(&mut self, checkpoint: Arc<Checkpoint>, max_checkpoints: u64) {
        debug_assert!(
            self.last_id() < checkpoint.id,
            "checkpoints stand in the order of their ids"
        );
        self.list.push(checkpoint);
        let excess = (self.list.len() as u64).saturating_sub(max_checkpoints);
        if max_checkpoints > 0 && excess > 0 {
            let first_kept = self.list[excess as usize].id;
            self.drop_where(|id| id < first_kept);
        }
    }

    /// Drops the checkpoints whose ids `goes` accepts; returns how many.
    pub fn drop_where(&mut self, goes: impl Fn(u64) -> bool) -> u64 {
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

    pub fn get(&self, id: u64) -> Option<&Arc<Checkpoint>> {
        let at = self.list.binary_search_by_key(&id, |checkpoint| checkpoint.id).ok()?;
        self.list.get(at)
    }

    /// Returns the id of the newest checkpoint; 0 if there is none.
    pub fn last_id(&self) -> u64 {
        self.list.last().map_or(0, |checkpoint| checkpoint.id)
    }
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

    /// Returns the heap bytes of this checkpoint. `seen` holds the chunks that are already counted, which are skipped.
    pub(in crate::session) fn heap_bytes(&self, seen: &mut HashSet<usize>) -> usize {
        let Checkpoint {
            id: _,
            time_ms: _,
            label,
            outcome,
            state,
            refs,
            summary,
            snapshot:
                Snapshot {
                    messages,
                    entities,
                    agents,
                },
        } = self;
        size_of::<Checkpoint>()
            + label.as_ref().map_or(0, String::capacity)
            + outcome.as_ref().map_or(0, String::capacity)
            + state.capacity()
            + summary.capacity()
            + refs
                .iter()
                .map(|entity| entity.capacity() + size_of::<String>())
                .sum::<usize>()
            + agents
                .iter()
                .map(|(name, agent)| name.len() + size_of::<Agent>() + agent.meta.as_ref().map_or(0, String::len))
                .sum::<usize>()
            + messages.heap_bytes_unseen(seen)
            + if seen.insert(Arc::as_ptr(entities) as usize) {
                entities.heap_bytes()
            } else {
                0
            }
    }
}
