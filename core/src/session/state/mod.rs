//! The parts of a session. Each is a value with its own rules that knows nothing of the session around it.
//!
//! The fields are visible to [`crate::session`] and its submodules only. What almost every session has is in [`Session`] itself; what few
//! have is in [`Cold`].
//!
//! Code that encodes, digests, measures or forks destructures every field, so that a new field is a compile error in each of these places
//! until somebody has decided there.

pub(super) mod agents;
pub(super) mod checkpoints;
pub(super) mod dedup;
pub(super) mod entities;
pub(super) mod events;

use std::sync::Arc;

use uuid::Uuid;

use crate::conversation::Messages;
use crate::limits::Limits;
use crate::log::Log;
use agents::Agents;
use checkpoints::Checkpoints;
use dedup::Dedup;
use entities::Entities;
use events::Events;

/// The initial state of a session.
pub const INITIAL_STATE: &str = "working";

/// A session: identity, limits, and the conversation. Every operation takes the time as a value and returns what happened as a value.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) id: Uuid,
    pub(super) version: u64,
    /// The last seq that was given to a message, event, checkpoint or set-aside element.
    pub(super) last_seq: u64,
    pub(super) created_at_ms: i64,
    pub(super) last_activity_ms: i64,
    pub(super) ttl_ms: u64,
    pub(super) query_count: u64,
    pub(super) ttl_extended_count: u64,
    pub(super) limits: Arc<Limits>,
    pub(super) cold: Option<Box<Cold>>,
    pub(super) messages: Messages,
}

/// What few sessions have. It is allocated when the first of it is needed, so that an empty session stays small.
#[derive(Debug, Clone, Default)]
pub(super) struct Cold {
    pub scope: Option<String>,
    /// `None` stands for [`INITIAL_STATE`].
    pub state: Option<String>,
    /// A JSON object, as text.
    pub meta: Option<String>,
    /// Roles whose messages the window never evicts.
    pub pins: Vec<String>,
    /// Shared with checkpoints and forks until one is mentioned again.
    pub entities: Arc<Entities>,
    pub dedup: Dedup,
    pub events: Events,
    pub agents: Agents,
    /// Elements that a migration could not read as messages, byte for byte.
    pub set_aside: Log,
    pub alias: Option<String>,
    pub closed_at_ms: Option<i64>,
    pub checkpoints: Checkpoints,
}

impl Cold {
    pub fn entities_mut(&mut self) -> &mut Entities {
        Arc::make_mut(&mut self.entities)
    }
}
