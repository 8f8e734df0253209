//! A session: identity, limits, the conversation, and all that agents keep beside it.
//!
//! | file | what it is about |
//! |---|---|
//! | `state/` | what a session is made of, each kind a value with its own rules |
//! | `write` | the one way out of a write: window, version, activity, receipt |
//! | `identity` | creation, limits, pins, meta, alias, ttl |
//! | `conversation` | append, pop, remove, redact, compact, clear |
//! | `range`, `context`, `follow`, `document` | what reads show |
//! | `entities`, `resolve` | who is spoken of, and whom a word means |
//! | `events`, `agents` | what agents record, who they are, and whose turn it is |
//! | `checkpoints`, `fork` | moments to come back to, and sessions that go on from one |
//! | `migrate` | sessions out of older layouts |
//! | `persist`, `digest`, `memory` | the payload, what `DEBUG DIGEST-VALUE` adds up, what is held |

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
pub use state::entities::{folded, Entity, Mention, MentionError, UNKNOWN_TYPE};
pub use state::events::{EventRange, EventSpan, NewEvent};
pub use state::{Session, INITIAL_STATE};
pub use write::{Now, Written};
