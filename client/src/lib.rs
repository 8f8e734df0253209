//! Typed `SESSION.*` commands on [redis-rs](redis) connections: types, not behaviour.
//!
//! ```
//! # let server = redis_session_tests::Server::start();
//! use redis_session_client::{ContextOptions, NewMessage, SessionCommands, ToolCall};
//!
//! # let url = server.url();
//! let mut redis = redis::Client::open(url)?.get_connection()?;
//! let key = "session:{acme}:1";
//! redis.session_append(key, NewMessage::user("Where is order 7?").reference("order:7"))?;
//! redis.session_append(key, NewMessage::assistant("").tool_call(ToolCall::new("c1", "order_status", r#"{"id":7}"#)))?;
//! redis.session_append(key, NewMessage::tool("c1", r#"{"status":"shipped"}"#))?;
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
//! | `pipeline.rs` | [`SessionPipeline`]: many in one round trip |
//! | `store/` | `SessionStore`, `SessionHandle`, `Turn`, `Follow`, with `tokio-comp`: what a program holds |
//! | `connection.rs` | [`SessionConnection`], [`AsyncSessionConnection`]: where commands go, cluster routing |
//! | [`route`] | any command to wherever its key is, and the nodes of a cluster one by one |
//! | [`tolerant`] | reading replies without failing as a whole |
//! | `cursor.rs` | [`ReadCursor`]: how far a reader of `SESSION.READ` is |
//! | `reply.rs`, `message.rs`, `id.rs`, `time.rs` | what is replied, typed |
//! | `error.rs` | [`SessionError`]: a variant for each error word |
#![cfg_attr(
    feature = "bridge",
    doc = "| [`bridge`] | what outlives a session: anchors, recovery references |"
)]
//!
//! Features pass through to redis-rs under their own names: `tokio-comp`, `tokio-rustls-comp`, `tokio-native-tls-comp`, `tls-rustls`,
//! `tls-native-tls`, `connection-manager`, `cluster`, `cluster-async`, `sentinel`, `r2d2`, `bb8`. What is asynchronous needs a runtime:
//! `tokio-comp`, or `aio` where the program's own redis-rs has `smol-comp`; the store, handles and followers need `tokio-comp`. TLS with
//! rustls needs, as for redis-rs, a cryptography provider that the program installs. `bridge` is this crate's own.

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
mod limit;
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
use error::SessionResult as Result;
pub use error::{SessionError, SessionResult};
pub use id::{SessionAlias, SessionId};
pub use key::key_slot;
pub use limit::Limit;
pub use message::{Body, Message, MessageRole, StoredMessage, ToolCall};
pub use pipeline::{Replies, ReplySlot, SessionPipeline};
pub use reply::{
    Agent, Anchor, Appended, Checkpoint, Created, DirectoryEntry, Entity, EntryKind, Event, EventCounts, HandedOff,
    Lease, Limits, Migrated, RawEntry, Resolved, SessionContext, SessionDocument, SessionEntry, SessionInfo,
    StateTransition,
};
pub use request::{
    Append, Content, ContextOptions, Create, EntityQuery, EventQuery, Fork, GetEx, Handoff, IndexAdd, IndexQuery, Join,
    Mention, MessageQuery, Migrate, NewAnchor, NewCheckpoint, NewEvent, NewMessage, ReadOptions, Request,
    SessionExpiry, SessionWrite, Window, WriteOptions,
};
#[cfg(feature = "tokio-comp")]
pub use store::{Connect, Edit, Follow, Guarded, Retry, SessionHandle, SessionStore, Turn, blocking};
pub use time::{BadTimestamp, Timestamp};
