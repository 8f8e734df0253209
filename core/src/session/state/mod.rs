//! What a session is made of. Each kind of thing is a value with its own rules that knows nothing of the session around it.
//!
//! The fields are open to [`crate::session`] and what stands below it, and to nobody else. What almost every session has stands in
//! [`Session`] itself; what few have stands in [`Cold`].
//!
//! Whoever encodes, digests, measures or forks them destructures all of them: a new field is an error in each of these places until
//! somebody has decided there.

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

/// The state a session starts in.
pub const INITIAL_STATE: &str = "working";

/// A session: identity, limits, and the conversation. Every operation takes the time as a value and says what happened as a value.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) id: Uuid,
    pub(super) version: u64,
    /// The last number that a message, event, checkpoint or element that was set aside took.
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

/// What few sessions have. It is made when the first of it is needed, so that an empty session stays small.
#[derive(Debug, Clone, Default)]
pub(super) struct Cold {
    pub scope: Option<String>,
    /// `None` is [`INITIAL_STATE`].
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
    /// What a migration could not read as a message, byte for byte.
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
