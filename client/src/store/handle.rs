//! One session, held by a program.

use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

use super::connect::{Connect, concurrent};
use super::table::{guarded, once, sample_session, session_reads, session_writes};
use super::{Follow, SessionStore, Turn};
use crate::request::{
    self, Append, Content, ContextOptions, EntityQuery, EventQuery, Fork, GetEx, Handoff, IndexAdd, Join, Mention,
    MessageQuery, NewCheckpoint, NewEvent, Request, SessionWrite, Window, WriteOptions,
};
use crate::{
    Agent, Appended, Body, Checkpoint, Entity, Event, HandedOff, Result, SessionContext, SessionDocument, SessionError,
    SessionId, SessionInfo, StoredMessage,
};

/// One session of a [`SessionStore`]. It holds a name, not a lock: the session can be anyone's, and can end. When it has ended, appends
/// say so; other writes that can make a session make one where there is none any more, which is in no directory. An
/// [`edit`](SessionHandle::edit) does not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let url = server.url();
/// use redis_session_client::{Create, NewMessage, SessionStore};
///
/// let store = SessionStore::new(redis::Client::open(url)?, "acme");
/// let session = store.create(Create::new()).await?;
/// session.append(NewMessage::user("Where is order 7?")).await?;
/// assert_eq!(session.len().await?, 1);
/// # Ok(())
/// # }
/// ```
pub struct SessionHandle<C: Connect> {
    pub(super) store: SessionStore<C>,
    id: SessionId,
    pub(super) key: Vec<u8>,
}

impl<C: Connect> Clone for SessionHandle<C> {
    fn clone(&self) -> SessionHandle<C> {
        SessionHandle {
            store: self.store.clone(),
            id: self.id,
            key: self.key.clone(),
        }
    }
}

impl<C: Connect> fmt::Debug for SessionHandle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle")
            .field("id", &self.id)
            .field("key", &String::from_utf8_lossy(&self.key))
            .finish_non_exhaustive()
    }
}

/// What an optimistic edit decides on: the session as it is. Its methods make the requests that an edit may send, each of which is only
/// applied if the session is still as it was read.
///
/// See [`SessionHandle::edit`].
///
/// ```
/// use redis_session_client::{Edit, Guarded, SessionResult};
///
/// fn mark_done(edit: &Edit<'_>) -> SessionResult<Option<Guarded<serde_json::Value>>> {
///     match edit.session.meta.contains_key("done") {
///         true => Ok(None),
///         false => Ok(Some(edit.meta(&serde_json::json!({"done": true})))),
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> SessionResult<()> {
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
/// # let session = store.create(redis_session_client::Create::new()).await?;
/// assert_eq!(session.edit(Some(0), mark_done).await?.expect("it was not done")["done"], true);
/// assert_eq!(session.edit(Some(0), mark_done).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Edit<'a> {
    /// The session, as it was read.
    pub session: &'a SessionDocument,
    /// Its key.
    pub key: &'a [u8],
}

/// A request that is only applied if the session is still as it was read. The methods of [`Edit`] make them, and nothing else does: an
/// edit cannot send anything that is applied in any case.
///
/// ```compile_fail
/// # async fn edits(session: redis_session_client::SessionHandle<redis::Client>) -> redis_session_client::SessionResult<()> {
/// use redis_session_client::{WriteOptions, request};
///
/// // Without the guard: this is no `Guarded`.
/// session.edit(None, |edit| Ok(Some(request::clear(edit.key, WriteOptions::new())))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "an edit sends what its closure returns"]
pub struct Guarded<T>(Request<T>);

/// The methods of an edit: the rows that write, guarded by the session's version.
macro_rules! on_edit {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($($arg:ident: $type:ty),*) -> $reply:ty = |$key:ident, $write:ident| $request:expr;
        $call:literal => $check:literal;
    )+) => {
        impl Edit<'_> {
            fn guards(&self) -> WriteOptions {
                WriteOptions::new().if_version(self.session.version)
            }

            $(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "```\n",
                    sample_session!(async),
                    "let reply = session.edit(None, |edit| Ok(Some(edit.", $call, "))).await?.expect(\"it was sent\");\n",
                    $check, "\n# Ok(())\n# }\n```"
                )]
                pub fn $name(&self, $($arg: $type),*) -> Guarded<$reply> {
                    let ($key, $write) = (self.key, self.guards());
                    Guarded($request)
                }
            )+
        }
    };
}

session_writes!(on_edit);

/// The methods of a handle: every row.
macro_rules! on_handle {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($($arg:ident: $type:ty),*) -> $reply:ty = |$key:ident $(, $write:ident)?| $request:expr;
        $call:literal => $check:literal;
    )+) => {
        #[allow(clippy::len_without_is_empty)] // a round trip of its own for what `len` tells
        impl<C: Connect> SessionHandle<C> {$(
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// What the server refuses; what is wrong with the connection. Of a write whose
            /// [outcome is unknown](SessionError::is_outcome_unknown) nobody knows whether it was done; appends are sent again.
            ///
            #[doc = concat!(
                "```\n",
                sample_session!(async),
                "let reply = session.", $call, ".await?;\n",
                $check, "\n# Ok(())\n# }\n```"
            )]
            pub async fn $name(&self, $($arg: $type),*) -> Result<$reply> {
                let $key = &self.key;
                $(let $write = WriteOptions::new();)?
                let request = $request;
                self.store.run(&request).await
            }
        )+}
    };
}

session_reads!(on_handle);
session_writes!(on_handle);

impl<C: Connect> SessionHandle<C> {
    pub(super) fn new(store: SessionStore<C>, id: SessionId, key: Vec<u8>) -> SessionHandle<C> {
        SessionHandle { store, id, key }
    }

    /// The session's id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert_eq!(store.open(session.id()).await?.id(), session.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Its key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert_eq!(session.key(), store.key_of(session.id()).as_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Reads the whole session, with its newest messages or all.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if it is gone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// let document = session.document(Some(20)).await?;
    /// assert_eq!(document.session_id, session.id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn document(&self, newest_messages: Option<u32>) -> Result<SessionDocument> {
        let document = self.run(|key| request::get(key, newest_messages)).await?;
        document.ok_or_else(|| self.gone())
    }

    /// Reads what to send to the model now: the newest whole exchanges that fit, and what is pinned.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if the session is gone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::ContextOptions;
    ///
    /// let context = session.context(ContextOptions::new().max_tokens(4000)).await?;
    /// assert!(context.messages.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn context(&self, options: ContextOptions) -> Result<SessionContext> {
        let context = self.run(|key| request::context(key, options)).await?;
        context.ok_or_else(|| self.gone())
    }

    /// Reads the whole session and slides its expiry, or sets another (`GETEX`).
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if it is gone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::GetEx;
    ///
    /// assert_eq!(session.extend(GetEx::new().messages(20)).await?.ttl_extended_count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, getex: GetEx) -> Result<SessionDocument> {
        let document = self.run(|key| request::getex(key, getex)).await?;
        document.ok_or_else(|| self.gone())
    }

    /// Forks the session: makes and registers one that goes on from this one, with an id of its own. The cost does not grow with the history.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if this one is gone, [`SessionError::NoCheckpoint`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{Fork, NewMessage};
    ///
    /// session.append(NewMessage::user("Rome or Oslo?")).await?;
    /// let oslo = session.fork(Fork::new()).await?;
    /// oslo.append(NewMessage::user("Oslo.")).await?;
    /// assert_eq!((session.len().await?, oslo.len().await?), (1, 2));
    /// assert_eq!(store.open(oslo.id()).await?.key(), oslo.key());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fork(&self, fork: Fork) -> Result<SessionHandle<C>> {
        let id = SessionId::new();
        let key = self.store.key_of(id);
        // The id is new, so a key that is busy when this is sent again is busy with what was sent before.
        match self
            .store
            .run(&request::fork(&self.key, &key, fork.id(id)).repeatable())
            .await
        {
            Ok(_) | Err(SessionError::BusyKey(_)) => {}
            Err(error) => return Err(error),
        }
        let register = request::index_add(self.store.index(), &key, IndexAdd::new()).repeatable();
        self.store.run(&register).await?;
        Ok(SessionHandle::new(self.store.clone(), id, key.into_bytes()))
    }

    /// Sends any other request on this session.
    ///
    /// # Errors
    /// As [`SessionStore::run`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{Join, request};
    ///
    /// assert!(session.run(|key| request::agent_join(key, Join::new("planner"))).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, request: impl FnOnce(&[u8]) -> Request<T>) -> Result<T> {
        let request = request(&self.key);
        self.store.run(&request).await
    }

    /// Reads the session, lets `decide` make a request of it, and sends it on condition that nobody wrote in between; else from the
    /// beginning, for as long as the store's [`Retry`](crate::Retry) says. `None`: nothing is to be done.
    ///
    /// # Errors
    /// [`SessionError::Concurrent`] when it gives up; [`SessionError::NoSession`] if the session is gone; what `decide` says. When a
    /// connection is lost, only an append with a `dedup` token is sent again; an error whose
    /// [outcome is unknown](SessionError::is_outcome_unknown) may have been applied.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// let turns = session
    ///     .edit(Some(0), |edit| {
    ///         let turns = edit.session.meta.get("turns").and_then(|turns| turns.as_u64()).unwrap_or(0);
    ///         Ok(Some(edit.meta(&serde_json::json!({"turns": turns + 1}))))
    ///     })
    ///     .await?;
    /// assert_eq!(turns.expect("it was changed")["turns"], 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn edit<T>(
        &self,
        newest_messages: Option<u32>,
        mut decide: impl FnMut(&Edit<'_>) -> Result<Option<Guarded<T>>>,
    ) -> Result<Option<T>> {
        let mut attempts = self.store.shared.connections.retry.begin();
        loop {
            let session = self.document(newest_messages).await?;
            let edit = Edit {
                session: &session,
                key: &self.key,
            };
            let Some(Guarded(request)) = decide(&edit)? else {
                return Ok(None);
            };
            match self.store.run(&request).await {
                Err(conflict @ SessionError::VersionConflict { .. }) => {
                    if !attempts.wait().await {
                        return Err(concurrent(&attempts, conflict));
                    }
                }
                done => return done.map(Some),
            }
        }
    }

    /// Takes the turn for an agent: while it is held, writes of others are refused. Waits while another has it, for as long as the store's
    /// [`Retry`](crate::Retry) says.
    ///
    /// An agent is its name: two that take the turn under the same name share it.
    ///
    /// # Errors
    /// [`SessionError::Concurrent`] when it gives up.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use std::time::Duration;
    /// use redis_session_client::{NewMessage, SessionError};
    ///
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.append(NewMessage::assistant("Let me see.")).await?;
    /// assert!(matches!(session.append(NewMessage::user("And me?")).await, Err(SessionError::LeaseHeld { .. })));
    /// turn.release().await?;
    /// session.append(NewMessage::user("And me?")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lease(&self, agent: &str, turn: Duration) -> Result<Turn<C>> {
        let mut attempts = self.store.shared.connections.retry.begin();
        loop {
            // The holder renews with the same call, so it may be sent again.
            let request = request::agent_lease(&self.key, agent, turn).repeatable();
            match self.store.run(&request).await {
                Ok(token) => return Ok(Turn::new(self.clone(), agent.to_owned(), turn, token)),
                Err(held) => {
                    let SessionError::LeaseHeld { remaining_ms, .. } = held else {
                        return Err(held);
                    };
                    // It may be released before, so do not sleep through.
                    let remaining = Duration::from_millis(remaining_ms.clamp(1, 50));
                    if !attempts.wait_for(remaining).await {
                        return Err(concurrent(&attempts, held));
                    }
                }
            }
        }
    }

    /// Follows the session from after a seq; 0: from the beginning.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{EntryKind, NewMessage};
    ///
    /// let mut follow = session.follow(0);
    /// session.append(NewMessage::user("hello")).await?;
    /// let entry = follow.next().await?;
    /// assert!(matches!(entry.kind, EntryKind::Message(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, after_seq: u64) -> Follow<C> {
        Follow::new(self.store.clone(), self.key.clone(), after_seq)
    }

    fn gone(&self) -> SessionError {
        SessionError::NoSession(format!("session {} is gone", self.id))
    }
}
