//! Forks: new sessions that start from the content of another and share its sealed chunks.

use std::sync::Arc;

use uuid::Uuid;

use super::state::agents::Agents;
use super::state::checkpoints::Checkpoints;
use super::state::dedup::Dedup;
use super::state::Cold;
use super::state::{Session, INITIAL_STATE};
use super::write::{Now, Written};

/// What a fork takes from its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// Messages and events up to and including this seq.
    Upto(u64),
    /// Messages, entities, agents and state of this checkpoint, which must exist.
    Checkpoint(u64),
}

/// A fork to make.
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    pub id: Uuid,
    pub created_at_ms: i64,
    pub part: Part,
}

impl Session {
    /// Returns a new session with the content of this one: open, at version 1, without the alias, lease, dedup tokens and checkpoints.
    ///
    /// Cost: O(segments of the logs + agents), with `Upto` also O(records cut).
    pub fn fork(&self, fork: &Fork, now: Now) -> Written<Session> {
        let Session {
            id: _,
            version: _,
            last_seq,
            created_at_ms: _,
            last_activity_ms: _,
            ttl_ms,
            query_count,
            ttl_extended_count: _,
            limits,
            cold,
            messages,
        } = self;
        let mut session = Session {
            id: fork.id,
            version: 1,
            last_seq: *last_seq,
            created_at_ms: fork.created_at_ms,
            last_activity_ms: now.now_ms,
            ttl_ms: *ttl_ms,
            query_count: *query_count,
            ttl_extended_count: 0,
            limits: Arc::clone(limits),
            cold: cold.as_ref().map(|cold| Box::new(cold.forked())),
            messages: messages.clone(),
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
                    cold.state = (checkpoint.state != INITIAL_STATE).then(|| checkpoint.state.clone());
                }
            }
        }
        // The version stays 1 even if the window evicts here: that is part of creating the fork.
        let evicted = session.free_passed(now);
        Written {
            result: session,
            changed: true,
            evicted,
        }
    }
}

impl Cold {
    fn forked(&self) -> Cold {
        let Cold {
            scope,
            state,
            meta,
            pins,
            entities,
            dedup: _,
            events,
            agents:
                Agents {
                    by_name,
                    lease: _,
                    last_token: _,
                },
            set_aside,
            alias: _,
            closed_at_ms: _,
            checkpoints,
        } = self;
        Cold {
            scope: scope.clone(),
            state: state.clone(),
            meta: meta.clone(),
            pins: pins.clone(),
            entities: Arc::clone(entities),
            dedup: Dedup::default(),
            events: events.clone(),
            agents: Agents {
                by_name: by_name.clone(),
                lease: None,
                last_token: 0,
            },
            set_aside: set_aside.clone(),
            alias: None,
            closed_at_ms: None,
            checkpoints: Checkpoints {
                list: Vec::new(),
                last_gone: checkpoints.last_gone.max(checkpoints.last_id()),
            },
        }
    }
}
