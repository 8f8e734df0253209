//! The session engine: conversations under a sliding window, with everything that belongs to them, as plain values.
//!
//! There is no Redis in this crate, no clock, no randomness and no configuration: times, ids and limits come in as values, and
//! what happened comes out as a value. So every rule can be understood and tested here.
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | [`Session`]: identity, limits, counts, everything agents store, and the operations on it |
//! | [`conversation`] | the messages and their window: exchanges, pins, eviction |
//! | [`log`] | the append-only log in chunks that stores messages and events: bytes, sharing, compression |
//! | [`body`] | the facts read from a message's body, and the bodies composed here |
//! | `payload` | the serialised formats, one file each, separate from the types in memory |
//! | [`layout`] | the legacy layouts that can be migrated to sessions, recognised by type and shape |
//! | [`directory`] | [`Directory`]: the sessions of a scope, by id, alias, key and creation |
//! | [`anchor`] | [`Anchors`]: what recent sessions did to one entity |
//! | [`limits`] | the limits of a session |
//! | [`text`] | the basics: JSON, ISO 8601, globs, variable-length integers, stable hashes |
//!
//! A tool call and its answer are evicted together:
//!
//! ```
//! use std::sync::Arc;
//! use redis_session_core::limits::Limits;
//! use redis_session_core::body;
//! use redis_session_core::session::{Creation, Incoming, Now};
//! use redis_session_core::Session;
//!
//! let start_ms = 1_768_384_800_000;
//! let mut session = Session::create(&Creation {
//!     id: uuid::Uuid::from_u128(1),
//!     created_at_ms: start_ms,
//!     now_ms: start_ms,
//!     ttl_ms: 0,
//!     limits: Arc::new(Limits { maxlen: 2, ..Limits::default() }),
//!     scope: None,
//!     state: None,
//!     meta: None,
//!     pins: &[],
//! });
//! let now = Now { now_ms: start_ms, content_ms: start_ms, compress_after_bytes: 1024 };
//! let mut append = |body: &[u8]| {
//!     let facts = body::read(body).expect("a JSON object");
//!     session.append(&[Incoming { facts, body, tokens: None }], None, now, None)
//! };
//! append(br#"{"role":"assistant","tool_calls":[{"id":"c1"}]}"#);
//! assert_eq!(append(br#"{"role":"tool","tool_call_id":"c1"}"#).evicted, 0);
//! assert_eq!(append(br#"{"role":"user","content":"thanks"}"#).evicted, 2);
//! assert_eq!(session.message_count(start_ms), 1);
//! ```

#![forbid(unsafe_code)]

pub mod anchor;
pub mod body;
pub mod conversation;
pub mod directory;
#[cfg(test)]
mod fixture;
pub mod layout;
pub mod limits;
pub mod log;
mod ordered;
mod payload;
pub mod session;
pub mod text;

pub use anchor::Anchors;
pub use directory::Directory;
pub use payload::kind::PayloadKind;
pub use payload::PayloadError;
pub use session::Session;
