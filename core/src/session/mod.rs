//! A session: identity, limits, the conversation, and everything else that agents store with it.
//!
//! | file | what it is about |
//! |---|---|
//! | `state/` | the parts of a session, each a value with its own rules |
//! | `write` | the end of every write: window, version, activity, receipt |
//! | `identity` | creation, limits, pins, meta, alias, ttl |
//! | `conversation` | append, pop, remove, redact, compact, clear |
//! | `range`, `context`, `follow`, `document` | what reads show |
//! | `entities`, `resolve` | mentioned entities, and which of them a word means |
//! | `events`, `agents` | events, agents, and the lease |
//! | `checkpoints`, `fork` | snapshots to restore, and sessions that start from another |
//! | `migrate` | sessions made from legacy layouts |
//! | `persist`, `digest`, `memory` | payload, content for `DEBUG DIGEST-VALUE`, memory use |

mod agents;
mod checkpoints;
mod context;
mod conversation;
mod digest;
mod document;
mod entities;
mod events;
mod follow;
mod fork;
mod identity;
#[cfg(test)]
mod invariants;
mod memory;
mod migrate;
mod persist;
mod range;
mod resolve;
mod state;
mod write;

pub use agents::{HandedOff, HANDOFF};
pub use checkpoints::{NewCheckpoint, Restored, RESTORED};
pub use context::{Context, ContextBounds};
pub use conversation::Incoming;
pub use follow::{After, Kind, Told};
pub use fork::{Fork, Part};
pub use identity::{Creation, WindowChange};
pub use memory::Gauges;
pub use migrate::{Migrated, Migration};
pub use range::{Bounds, Range};
pub use state::agents::{Agent, AgentsFull, Joined, Lease, LeaseHeld};
pub use state::checkpoints::Checkpoint;
pub use state::dedup::Seen;
pub use state::entities::{folded, Entity, Mention, MentionError};
pub use state::events::{EventRange, EventSpan, NewEvent};
pub use state::{Session, INITIAL_STATE};
pub use write::{Now, Written};
