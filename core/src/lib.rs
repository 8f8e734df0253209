//! The session engine: conversations under a sliding window, with everything that belongs to them, as plain values.
//!
//! There is no Redis in this crate, no clock, no randomness and no configuration: times, ids and limits come in as values, and
//! what happened comes out as a value. So every rule can be understood and tested here.
//!
//! | module | what it is about |
//! |---|---|
//! | [`session`] | [`Session`]: identity, limits, counts, all that agents keep, and the operations that change it |
//! | [`conversation`] | the messages under their window: exchanges, pins, what goes and what stays |
//! | [`log`] | the append-only log in chunks that messages stand in: bytes, sharing, compression |
//! | [`body`] | what is read from a message's body, and the bodies composed here |
//! | `payload` | the bytes outside of memory, one file a format, apart from what is in memory |
//! | [`layout`] | the legacy layouts that become sessions: told apart by type and shape |
//! | [`directory`] | [`Directory`]: which sessions a scope has, by id, alias, key and creation |
//! | [`anchor`] | [`Anchors`]: what recent sessions did to one entity |
//! | [`limits`] | the bounds that a session carries |
//! | [`text`] | the ground: JSON, ISO 8601, globs, packed numbers, stable hashes |
//!
//! A tool call and its answer leave the window together or not at all:
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
