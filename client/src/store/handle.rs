//! One session, held by a program.

use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

use super::connect::{Connect, concurrent};
use super::{Follow, SessionStore, Turn};
use crate::request::{
    self, Append, ContextOptions, EntityQuery, EventQuery, Mention, NewCheckpoint, NewEvent, Range, Request, Write,
};
use crate::{
    Appended, Body, Checkpoint, Context, Entity, Event, Result, SessionDocument, SessionError, SessionId,
    StoredMessage, WriteOptions,
};

/// One session of a [`SessionStore`]. It holds a name, not a lock: the session can be anyone's, and can end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let url = server.url();
/// use redis_session_client::{Create, Msg, SessionStore};
///
/// let store = SessionStore::new(redis::Client::open(url)?, "acme");
/// let session = store.create(Create::new()).await?;
/// session.append(Msg::user("Where is order 7?")).await?;
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

/// What an optimistic edit decides on: the session as it is, and what its request must carry.
///
/// See [`SessionHandle::edit`].
///
/// ```
/// use redis_session_client::{Draft, Request, Result, request};
///
/// fn mark_done(draft: &Draft<'_>) -> Result<Option<Request<serde_json::Value>>> {
///     let done = serde_json::json!({"done": true});
///     Ok(Some(request::meta(draft.key, &done, draft.write)))
/// }
/// # let _ = mark_done;
/// ```
#[derive(Debug)]
pub struct Draft<'a> {
    /// The session, as it was read.
    pub session: &'a SessionDocument,
    /// Its key.
    pub key: &'a [u8],
    /// The guard: a request with it is only applied if the session is still as it was read.
    pub write: Write,
}

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

    /// Appends messages, once: without a token of one's own each append gets one, so that it is safe to send again when a connection is
    /// lost, and it is: once, unless more other appends came in between than the session remembers tokens of
    /// ([`SessionStore::create`]).
    ///
    /// A session that ended meanwhile is not begun again.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if the session is gone, [`SessionError::Closed`] if it was closed, [`SessionError::LeaseHeld`] if an
    /// agent has the turn.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{Message, Msg, Role};
    ///
    /// session.append(Msg::user("Where is order 7?")).await?;
    /// let appended = session.append(Message::new(Role::Assistant, "On its way.")).await?;
    /// assert_eq!(appended.seq, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append(&self, append: impl Into<Append>) -> Result<Appended> {
        self.append_with(append.into(), Write::new()).await
    }

    pub(super) async fn append_with(&self, append: Append, write: Write) -> Result<Appended> {
        let mut append = append.existing();
        append.write_options().merge(write);
        if !append.has_dedup() {
            append = append.dedup(uuid::Uuid::now_v7().to_string());
        }
        self.store.run(&request::append(&self.key, append)).await
    }

    /// How many messages it has.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert_eq!(session.len().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::len_without_is_empty)] // a round trip of its own for what `len` tells
    pub async fn len(&self) -> Result<u64> {
        self.run(|key| request::len(key)).await
    }

    /// The whole session, with its newest messages or all.
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

    /// Messages.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{Msg, Range};
    ///
    /// session.append(Msg::user("hello")).await?;
    /// assert_eq!(session.messages(Range::newest(10)).await?[0].body.message()?.text(), "hello");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn messages(&self, range: Range) -> Result<Vec<StoredMessage>> {
        self.run(|key| request::range_with_meta(key, range)).await
    }

    /// What to send to the model now.
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
    pub async fn context(&self, options: ContextOptions) -> Result<Context> {
        let context = self.run(|key| request::context(key, options)).await?;
        context.ok_or_else(|| self.gone())
    }

    /// Mentions entities; how many are new to the session. Unlike [`SessionHandle::append`], this makes a session where there is none any
    /// more: one that is in no directory.
    ///
    /// # Errors
    /// [`SessionError::Closed`], [`SessionError::LeaseHeld`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::Mention;
    ///
    /// session.mention(Mention::new("u7").name("Ada").entity_type("person")).await?;
    /// assert_eq!(session.resolve("her").await?.expect("Ada").entity_id, "u7");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn mention(&self, mention: Mention) -> Result<u64> {
        self.run(|key| request::entity_mention(key, mention)).await
    }

    /// The entity that a word means.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert_eq!(session.resolve("it").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resolve(&self, word: &str) -> Result<Option<Entity>> {
        self.run(|key| request::entity_resolve(key, word)).await
    }

    /// Entities, the most recently mentioned first.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::EntityQuery;
    ///
    /// assert!(session.entities(EntityQuery::all()).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn entities(&self, query: EntityQuery) -> Result<Vec<Entity>> {
        self.run(|key| request::entity_list(key, query)).await
    }

    /// Records an event; its seq. It makes a session where there is none any more, as [`SessionHandle::mention`] does.
    ///
    /// # Errors
    /// [`SessionError::StateConflict`] if its `if_state` is not the session's; [`SessionError::Closed`], [`SessionError::LeaseHeld`]. An
    /// error whose [outcome is unknown](SessionError::is_outcome_unknown) may have recorded it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::NewEvent;
    ///
    /// let seq = session.record(NewEvent::new("broke").agent("builder").state("broke")).await?;
    /// assert_eq!(seq, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record(&self, event: NewEvent) -> Result<u64> {
        self.run(|key| request::event_add(key, event)).await
    }

    /// Events.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::EventQuery;
    ///
    /// assert!(session.events(EventQuery::all().to("broke")).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn events(&self, query: EventQuery) -> Result<Vec<Event>> {
        self.run(|key| request::event_range(key, query)).await
    }

    /// Merges a JSON object into the session's meta; the merged meta. It makes a session where there is none any more, as
    /// [`SessionHandle::mention`] does; an [`edit`](SessionHandle::edit) does not.
    ///
    /// # Errors
    /// [`SessionError::Closed`], [`SessionError::LeaseHeld`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// let meta = session.meta(&serde_json::json!({"model": "small"})).await?;
    /// assert_eq!(meta["model"], "small");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn meta(&self, patch: &Json) -> Result<Json> {
        self.run(|key| request::meta(key, patch, Write::new())).await
    }

    /// Makes a checkpoint, and closes the session if told to; its id.
    ///
    /// # Errors
    /// [`SessionError::Closed`], [`SessionError::LeaseHeld`]. An error whose [outcome is unknown](SessionError::is_outcome_unknown) may
    /// have made it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::NewCheckpoint;
    ///
    /// let id = session.checkpoint(NewCheckpoint::new().label("before the rewrite")).await?;
    /// assert_eq!(session.checkpoints().await?[0].checkpoint_id, id);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn checkpoint(&self, checkpoint: NewCheckpoint) -> Result<u64> {
        self.run(|key| request::checkpoint_create(key, checkpoint)).await
    }

    /// The checkpoints, oldest first.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert!(session.checkpoints().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.run(|key| request::checkpoint_list(key)).await
    }

    /// The newest message's body taken back, with its answers if it calls; empty if there is none.
    ///
    /// # Errors
    /// [`SessionError::Closed`], [`SessionError::LeaseHeld`]. An error whose [outcome is unknown](SessionError::is_outcome_unknown) may
    /// have taken it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use redis_session_client::Msg;
    /// session.append(Msg::user("oops")).await?;
    /// assert_eq!(session.pop().await?[0].message()?.text(), "oops");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop(&self) -> Result<Vec<Body>> {
        self.run(|key| request::pop(key, 1, Write::new())).await
    }

    /// Any other command on this session.
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
    /// A request without [`Draft::write`] is applied in any case.
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
    /// use redis_session_client::request;
    ///
    /// let turns = session
    ///     .edit(Some(0), |draft| {
    ///         let turns = draft.session.meta.get("turns").and_then(|turns| turns.as_u64()).unwrap_or(0);
    ///         let patch = serde_json::json!({"turns": turns + 1});
    ///         Ok(Some(request::meta(draft.key, &patch, draft.write)))
    ///     })
    ///     .await?;
    /// assert_eq!(turns.expect("it was changed")["turns"], 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn edit<T>(
        &self,
        newest_messages: Option<u32>,
        mut decide: impl FnMut(&Draft<'_>) -> Result<Option<Request<T>>>,
    ) -> Result<Option<T>> {
        let mut attempts = self.store.shared.connections.retry.begin();
        loop {
            let session = self.document(newest_messages).await?;
            let draft = Draft {
                session: &session,
                key: &self.key,
                write: Write::new().if_version(session.version),
            };
            let Some(request) = decide(&draft)? else {
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
    /// use redis_session_client::{Msg, SessionError};
    ///
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.append(Msg::assistant("Let me see.")).await?;
    /// assert!(matches!(session.append(Msg::user("And me?")).await, Err(SessionError::LeaseHeld { .. })));
    /// turn.release().await?;
    /// session.append(Msg::user("And me?")).await?;
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

    /// What is recorded after a seq, as it comes; 0: from the beginning.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{EntryKind, Msg};
    ///
    /// let mut follow = session.follow(0);
    /// session.append(Msg::user("hello")).await?;
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
