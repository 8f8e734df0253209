//! Typed `SESSION.*` commands on [redis-rs](redis) connections: types, not behaviour.
//!
//! ```
//! # let server = redis_session_tests::Server::start();
//! use redis_session_client::{ContextOptions, Msg, SessionCommands, ToolCall};
//!
//! # let url = server.url();
//! let mut redis = redis::Client::open(url)?.get_connection()?;
//! let key = "session:{acme}:1";
//! redis.session_append(key, Msg::user("Where is order 7?").reference("order:7"))?;
//! redis.session_append(key, Msg::assistant("").tool_call(ToolCall::new("c1", "order_status", r#"{"id":7}"#)))?;
//! redis.session_append(key, Msg::tool("c1", r#"{"status":"shipped"}"#))?;
//!
//! // What to send to the model now: whole exchanges, so no tool result without its call.
//! let context = redis.session_context(key, ContextOptions::new().max_tokens(4000))?.expect("it is there");
//! assert_eq!(context.messages.len(), 3);
//! assert_eq!(redis.session_entity_resolve(key, "it")?.expect("the order").entity_id, "order:7");
//! # Ok::<(), redis_session_client::SessionError>(())
//! ```
//!
//! | module | what is there |
//! |---|---|
//! | `commands.rs` | [`SessionCommands`], [`AsyncSessionCommands`]: one method a command |
//! | [`request`] | the same as values, with builders for their options |
//! | `pipeline.rs` | [`Pipeline`]: many in one round trip |
//! | `store/` | `SessionStore`, `SessionHandle`, `Turn`, `Follow`, with `tokio-comp`: what a program holds |
//! | `connection.rs` | [`SessionConnection`], [`AsyncSessionConnection`]: where commands go, cluster routing |
//! | [`route`] | any command to wherever its key is, and the nodes of a cluster one by one |
//! | [`tolerant`] | reading replies without failing as a whole |
//! | `cursor.rs` | [`ReadCursor`]: how far a reader of `SESSION.READ` is |
//! | `reply.rs`, `message.rs`, `id.rs`, `time.rs` | what is replied, typed |
//! | `error.rs` | [`SessionError`]: a variant for each error word |
#![cfg_attr(
    feature = "bridge",
    doc = "| [`bridge`] | what outlives a session: anchors, recovery references, a database |"
)]
//!
//! Features pass through to redis-rs under their own names: `tokio-comp`, `tokio-rustls-comp`, `tokio-native-tls-comp`, `tls-rustls`,
//! `tls-native-tls`, `connection-manager`, `cluster`, `cluster-async`, `sentinel`, `r2d2`, `bb8`. What is asynchronous needs a runtime:
//! `tokio-comp`, or `aio` where the program's own redis-rs has `smol-comp`; the store, handles and followers need `tokio-comp`. TLS with
//! rustls needs, as for redis-rs, a cryptography provider that the program installs. `bridge` and `postgres` are this crate's own.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(feature = "bridge")]
pub mod bridge;
mod commands;
mod connection;
mod cursor;
mod error;
mod id;
mod key;
mod message;
mod pipeline;
mod reply;
pub mod request;
pub mod route;
#[cfg(feature = "tokio-comp")]
mod store;
mod time;
pub mod tolerant;
mod value;

#[cfg(feature = "aio")]
pub use commands::AsyncSessionCommands;
pub use commands::SessionCommands;
#[cfg(feature = "aio")]
pub use connection::AsyncSessionConnection;
pub use connection::SessionConnection;
pub use cursor::{ReadCursor, ReadStep};
pub use error::{Result, SessionError};
pub use id::{SessionAlias, SessionId};
pub use key::key_slot;
pub use message::{Body, Message, Role, StoredMessage, ToolCall};
pub use pipeline::{Pipeline, Replies, Slot};
pub use reply::{
    Agent, Anchor, Appended, Checkpoint, Context, Created, DirectoryEntry, Entity, Entry, EntryKind, Event,
    EventCounts, HandedOff, Lease, Limits, Migrated, RawEntry, Resolved, SessionDocument, SessionInfo, StateTransition,
};
pub use request::{
    Append, Content, ContextOptions, Create, EntityQuery, EventQuery, Expiry, Fork, GetEx, Handoff, IndexAdd,
    IndexQuery, Join, Mention, Migrate, Msg, NewAnchor, NewCheckpoint, NewEvent, Range, Read, Request, Window, Write,
    WriteOptions,
};
#[cfg(feature = "tokio-comp")]
pub use store::{Connect, Draft, Follow, Retry, SessionHandle, SessionStore, Turn, blocking};
pub use time::{BadTimestamp, Timestamp};
