//! The session engine: conversations under a sliding window, with everything that belongs to them, as plain values.
//!
//! There is no Redis in this crate, no clock, no randomness and no configuration: times, ids and limits come in as values, and
//! what happened comes out as a value. So every rule can be understood and tested here.
//!
//! | module | what it is about |
//! |---|---|
//! | [`session`] | [`Session`]: identity, limits, counts, and the operations that change them |
//! | [`messages`] | the conversation under its window: exchanges, pins, what goes and what stays |
//! | [`log`] | the append-only log in chunks that messages stand in: bytes, sharing, compression |
//! | [`message`] | what is read from a body, and the bodies composed here |
//! | [`agent`] | who works on a session, and whose turn it is |
//! | [`event`] | what agents recorded, and the state they moved |
//! | [`directory`] | [`Directory`]: which sessions a scope has, by id, alias, key and creation; [`glob`] for its `MATCH` |
//! | [`anchor`] | [`Anchors`]: what recent sessions did to one entity |
//! | [`entity`], [`dedup`], [`limits`] | what a session knows beside its messages |
//! | [`layout`] | the legacy layouts that become sessions: told apart by type and shape |
//! | [`json`], [`time`], [`hash`], [`shared`] | the ground: a strict JSON reader, ISO 8601, stable hashes, bodies kept once |
//!
//! A tool call and its answer leave the window together or not at all:
//!
//! ```
//! use std::sync::Arc;
//! use redis_session_core::limits::Limits;
//! use redis_session_core::message;
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
//!     let facts = message::read(body).expect("a JSON object");
//!     session.append(&[Incoming { facts, body, tokens: None }], None, now, None)
//! };
//! append(br#"{"role":"assistant","tool_calls":[{"id":"c1"}]}"#);
//! assert_eq!(append(br#"{"role":"tool","tool_call_id":"c1"}"#).evicted, 0);
//! assert_eq!(append(br#"{"role":"user","content":"thanks"}"#).evicted, 2);
//! assert_eq!(session.message_count(start_ms), 1);
//! ```

pub mod agent;
pub mod anchor;
pub mod checkpoint;
pub mod dedup;
pub mod directory;
mod document;
pub mod entity;
pub mod event;
#[cfg(test)]
mod fixture;
pub mod follow;
pub mod glob;
pub mod hash;
pub mod json;
mod kind;
pub mod layout;
pub mod limits;
pub mod log;
pub mod message;
pub mod messages;
mod ordered;
mod payload;
mod range;
mod resolve;
pub mod session;
pub mod shared;
pub mod time;
mod varint;

pub use anchor::Anchors;
pub use directory::Directory;
pub use kind::PayloadKind;
pub use payload::PayloadError;
pub use range::{Bounds, Context, ContextBounds, Range};
pub use session::Session;
