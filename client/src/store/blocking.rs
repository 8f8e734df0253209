//! Blocking stores, handles, turns and followers, for programs without an asynchronous runtime. Each method blocks until the asynchronous
//! method of the same name is done.
//!
//! ```
//! # let server = redis_session_tests::Server::start();
//! # let url = server.url();
//! use redis_session_client::blocking::SessionStore;
//! use redis_session_client::{Create, NewMessage, MessageQuery};
//!
//! let store = SessionStore::new(redis::Client::open(url)?, "acme")?;
//! let session = store.open_or_create_by_alias(&"ada".parse()?, Create::new())?;
//! session.append(NewMessage::user("Where is order 7?"))?;
//! assert_eq!(session.messages(MessageQuery::all())?.len(), 1);
//! # Ok::<(), redis_session_client::SessionError>(())
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::runtime::Runtime;

use super::connect::{Connect, Retry};
use super::handle::{Edit, Guarded};
use super::table::{sample_session, session_reads, session_writes};
use crate::request::{
    Append, Content, ContextOptions, Create, EntityQuery, EventQuery, Fork, GetEx, Handoff, IndexQuery, Join, Mention,
    MessageQuery, NewCheckpoint, NewEvent, Request, Window,
};
use crate::{
    Agent, Appended, Body, Checkpoint, DirectoryEntry, Entity, Event, HandedOff, Result, SessionAlias, SessionContext,
    SessionDocument, SessionEntry, SessionError, SessionId, SessionInfo, StoredMessage,
};

/// The blocking [`crate::SessionStore`]: the sessions of one scope. It must not be used inside of an asynchronous runtime.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let url = server.url();
/// use redis_session_client::blocking::SessionStore;
/// use redis_session_client::Create;
///
/// let store = SessionStore::new(redis::Client::open(url)?, "acme")?;
/// assert_eq!(store.create(Create::new())?.len()?, 0);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub struct SessionStore<C: Connect> {
    waits: super::SessionStore<C>,
    runtime: Arc<Runtime>,
}

/// The blocking [`crate::SessionHandle`]: one session.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
/// use redis_session_client::{Create, NewMessage};
///
/// let session = store.create(Create::new())?;
/// assert_eq!(session.append(NewMessage::user("hello"))?.seq, 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub struct SessionHandle<C: Connect> {
    waits: super::SessionHandle<C>,
    runtime: Arc<Runtime>,
}

/// The blocking [`crate::Turn`]: the turn of an agent.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
/// # let session = store.create(redis_session_client::Create::new())?;
/// use std::time::Duration;
/// use redis_session_client::NewMessage;
///
/// let turn = session.lease("planner", Duration::from_secs(5))?;
/// assert_eq!(turn.append(NewMessage::assistant("Let me see."))?.seq, 1);
/// turn.release()?;
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub struct Turn<C: Connect> {
    waits: super::Turn<C>,
    runtime: Arc<Runtime>,
}

/// The blocking [`crate::Follow`]: an iterator over messages, events and checkpoints as they are recorded, which does not end.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
/// # let session = store.create(redis_session_client::Create::new())?;
/// use redis_session_client::NewMessage;
///
/// session.append(NewMessage::user("hello"))?;
/// let first = session.follow(0).next().expect("it does not end")?;
/// assert_eq!(first.seq, 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub struct Follow<C: Connect> {
    waits: super::Follow<C>,
    runtime: Arc<Runtime>,
}

impl<C: Connect> Clone for SessionStore<C> {
    fn clone(&self) -> SessionStore<C> {
        SessionStore {
            waits: self.waits.clone(),
            runtime: Arc::clone(&self.runtime),
        }
    }
}

impl<C: Connect> Clone for SessionHandle<C> {
    fn clone(&self) -> SessionHandle<C> {
        SessionHandle {
            waits: self.waits.clone(),
            runtime: Arc::clone(&self.runtime),
        }
    }
}

/// Debug output as of the asynchronous values.
macro_rules! shown {
    ($($of:ident)+) => {$(
        impl<C: Connect> fmt::Debug for $of<C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.waits.fmt(f)
            }
        }
    )+};
}

shown! { SessionStore SessionHandle Turn Follow }

impl<C: Connect> SessionStore<C> {
    /// Makes the store of a scope: [`crate::SessionStore::new`].
    ///
    /// # Errors
    /// If no runtime can be started.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(url)?, "acme")?;
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn new(connect: C, scope: impl Into<String>) -> Result<SessionStore<C>> {
        SessionStore::with_retry(connect, scope, Retry::default())
    }

    /// Makes a store that repeats what failed as `retry` says: [`crate::SessionStore::with_retry`].
    ///
    /// # Errors
    /// If no runtime can be started.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Retry, blocking::SessionStore};
    ///
    /// let store = SessionStore::with_retry(redis::Client::open(url)?, "acme", Retry::default())?;
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn with_retry(connect: C, scope: impl Into<String>, retry: Retry) -> Result<SessionStore<C>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SessionError::from(redis::RedisError::from(error)))?;
        Ok(SessionStore {
            waits: super::SessionStore::with_retry(connect, scope, retry),
            runtime: Arc::new(runtime),
        })
    }

    /// The key of the directory.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn index(&self) -> &str {
        self.waits.index()
    }

    /// Sends any request: [`crate::SessionStore::run`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// assert_eq!(store.run(&redis_session_client::request::len(store.key_of(session.id())))?, 0);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn run<T>(&self, request: &Request<T>) -> Result<T> {
        self.runtime.block_on(self.waits.run(request))
    }

    /// The key that a session of this id has, if this store made it.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// assert_eq!(store.key_of(session.id()).as_bytes(), session.key());
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn key_of(&self, id: SessionId) -> String {
        self.waits.key_of(id)
    }

    fn handle(&self, waits: super::SessionHandle<C>) -> SessionHandle<C> {
        SessionHandle {
            waits,
            runtime: Arc::clone(&self.runtime),
        }
    }
}

impl<C: Connect> SessionHandle<C> {
    /// The session's id.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// assert_eq!(store.open(session.id())?.id(), session.id());
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn id(&self) -> SessionId {
        self.waits.id()
    }

    /// Its key.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// assert!(session.key().starts_with(b"session:{acme}:"));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn key(&self) -> &[u8] {
        self.waits.key()
    }

    /// Follows the session from after a seq; 0: from the beginning.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// session.append(redis_session_client::NewMessage::user("hello"))?;
    /// assert_eq!(session.follow(0).take(1).count(), 1);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn follow(&self, after_seq: u64) -> Follow<C> {
        Follow {
            waits: self.waits.follow(after_seq),
            runtime: Arc::clone(&self.runtime),
        }
    }
}

impl<C: Connect> Follow<C> {
    /// Follows only messages.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// use redis_session_client::{NewEvent, NewMessage};
    ///
    /// session.record(NewEvent::new("begun"))?;
    /// session.append(NewMessage::user("hello"))?;
    /// let mut messages = session.follow(0).messages();
    /// assert_eq!(messages.next().expect("it does not end")?.seq, 2);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn messages(mut self) -> Follow<C> {
        self.waits = self.waits.messages();
        self
    }

    /// Follows only events.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// use redis_session_client::{NewEvent, NewMessage};
    ///
    /// session.append(NewMessage::user("hello"))?;
    /// session.record(NewEvent::new("begun"))?;
    /// let mut events = session.follow(0).events();
    /// assert_eq!(events.next().expect("it does not end")?.seq, 2);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn events(mut self) -> Follow<C> {
        self.waits = self.waits.events();
        self
    }

    /// The seq up to which everything was handed out: [`crate::Follow::position`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// assert_eq!(session.follow(41).position(), 41);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn position(&self) -> u64 {
        self.waits.position()
    }
}

impl<C: Connect> Iterator for Follow<C> {
    type Item = Result<SessionEntry>;

    fn next(&mut self) -> Option<Result<SessionEntry>> {
        Some(self.runtime.block_on(self.waits.next()))
    }
}

/// Methods that block until the asynchronous ones of the same name are done, each with an example on a `store` and a `session` in it.
macro_rules! waiting {
    ($of:ident: $async:literal; $(
        $name:ident($($arg:ident: $type:ty),*) -> $reply:ty, $then:expr;
        $example:literal
    )+) => {
        #[allow(clippy::len_without_is_empty)] // as in what is waited for
        impl<C: Connect> $of<C> {$(
            #[doc = concat!("Waits for [`", stringify!($name), "`](crate::", $async, "::", stringify!($name), ").")]
            ///
            /// # Errors
            /// The same.
            ///
            #[doc = concat!(
                "```\n",
                "# let server = redis_session_tests::Server::start();\n",
                "# let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, \"acme\")?;\n",
                "# let session = store.create(redis_session_client::Create::new())?;\n",
                "use redis_session_client::*;\n\n",
                $example, "\n",
                "# Ok::<(), SessionError>(())\n",
                "```"
            )]
            pub fn $name(&self, $($arg: $type),*) -> Result<$reply> {
                let reply = self.runtime.block_on(self.waits.$name($($arg),*))?;
                let then: fn(&$of<C>, _) -> $reply = $then;
                Ok(then(self, reply))
            }
        )+}
    };
}

waiting! { SessionStore: "SessionStore";
    create(create: Create) -> SessionHandle<C>, |store, session| store.handle(session);
    "assert_ne!(store.create(Create::new())?.id(), session.id());"

    open(id: SessionId) -> SessionHandle<C>, |store, session| store.handle(session);
    "assert_eq!(store.open(session.id())?.key(), session.key());"

    open_or_create_by_alias(alias: &SessionAlias, create: Create) -> SessionHandle<C>, |store, session| store.handle(session);
    "assert_eq!(store.open_or_create_by_alias(&\"ada\".parse()?, Create::new())?.len()?, 0);"

    resolve_alias(alias: &SessionAlias) -> Option<SessionId>, |_, id| id;
    "assert_eq!(store.resolve_alias(&\"nobody\".parse()?)?, None);"

    rename(id: SessionId, alias: &SessionAlias) -> (), |_, done| done;
    "store.rename(session.id(), &\"ada\".parse()?)?;\nassert_eq!(store.resolve_alias(&\"ada\".parse()?)?, Some(session.id()));"

    delete(id: SessionId) -> bool, |_, was_there| was_there;
    "assert!(store.delete(session.id())?);"

    list(query: IndexQuery) -> Vec<DirectoryEntry>, |_, entries| entries;
    "assert_eq!(store.list(IndexQuery::all())?.len(), 1);"
}

waiting! { SessionHandle: "SessionHandle";
    document(newest_messages: Option<u32>) -> SessionDocument, |_, document| document;
    "assert_eq!(session.document(None)?.session_id, session.id());"

    extend(getex: GetEx) -> SessionDocument, |_, document| document;
    "assert_eq!(session.extend(GetEx::new())?.ttl_extended_count, 1);"

    context(options: ContextOptions) -> SessionContext, |_, context| context;
    "assert_eq!(session.context(ContextOptions::new())?.tokens, 0);"

    fork(fork: Fork) -> SessionHandle<C>, |session, waits| SessionHandle { waits, runtime: Arc::clone(&session.runtime) };
    "assert_ne!(session.fork(Fork::new())?.id(), session.id());"

    lease(agent: &str, turn: Duration) -> Turn<C>, |session, turn| Turn { waits: turn, runtime: Arc::clone(&session.runtime) };
    "assert!(session.lease(\"planner\", std::time::Duration::from_secs(5))?.token() > 0);"
}

waiting! { Turn: "Turn";
    renew() -> (), |_, done| done;
    "let turn = session.lease(\"planner\", std::time::Duration::from_secs(5))?;\nturn.renew()?;\nassert_eq!(turn.append(NewMessage::user(\"hello\"))?.seq, 1);"
}

/// The rows of the table as blocking methods.
macro_rules! waiting_rows {
    ($of:ident: $as_of:literal, $holds:literal; $(
        $(#[doc = $doc:literal])+
        $name:ident($($arg:ident: $type:ty),*) -> $reply:ty = |$key:ident $(, $write:ident)?| $request:expr;
        $call:literal => $check:literal;
    )+) => {
        #[allow(clippy::len_without_is_empty)] // as in what is waited for
        impl<C: Connect> $of<C> {$(
            $(#[doc = $doc])+
            ///
            /// # Errors
            #[doc = concat!("As [`", $as_of, "::", stringify!($name), "`](crate::", $as_of, "::", stringify!($name), ").")]
            ///
            #[doc = concat!(
                "```\n",
                sample_session!(blocking),
                $holds, $call, "?;\n",
                $check, "\n# Ok::<(), SessionError>(())\n```"
            )]
            pub fn $name(&self, $($arg: $type),*) -> Result<$reply> {
                self.runtime.block_on(self.waits.$name($($arg),*))
            }
        )+}
    };
}

macro_rules! on_handle {
    ($($rows:tt)+) => { waiting_rows! { SessionHandle: "SessionHandle", "let reply = session."; $($rows)+ } };
}

macro_rules! on_turn {
    ($($rows:tt)+) => {
        waiting_rows! {
            Turn: "Turn", "let turn = session.lease(\"clerk\", std::time::Duration::from_secs(5))?;\nlet reply = turn.";
            $($rows)+
        }
    };
}

session_reads!(on_handle);
session_writes!(on_handle);
session_writes!(on_turn);

impl<C: Connect> SessionHandle<C> {
    /// Sends any other request on this session: [`crate::SessionHandle::run`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// use redis_session_client::{Join, request};
    ///
    /// assert!(session.run(|key| request::agent_join(key, Join::new("planner")))?);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn run<T>(&self, request: impl FnOnce(&[u8]) -> Request<T>) -> Result<T> {
        self.runtime.block_on(self.waits.run(request))
    }

    /// Reads, decides and writes unless somebody wrote in between: [`crate::SessionHandle::edit`].
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// let nothing_to_clear = session.edit(Some(0), |edit| match edit.session.message_count {
    ///     0 => Ok(None),
    ///     _ => Ok(Some(edit.clear())),
    /// })?;
    /// assert_eq!(nothing_to_clear, None);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn edit<T>(
        &self,
        newest_messages: Option<u32>,
        decide: impl FnMut(&Edit<'_>) -> Result<Option<Guarded<T>>>,
    ) -> Result<Option<T>> {
        self.runtime.block_on(self.waits.edit(newest_messages, decide))
    }
}

impl<C: Connect> Turn<C> {
    /// The fencing token.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// let turn = session.lease("planner", std::time::Duration::from_secs(5))?;
    /// assert!(turn.token() > 0);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn token(&self) -> u64 {
        self.waits.token()
    }

    /// Ends the turn: [`crate::Turn::release`].
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if it was over.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, "acme")?;
    /// # let session = store.create(redis_session_client::Create::new())?;
    /// session.lease("planner", std::time::Duration::from_secs(5))?.release()?;
    /// assert_eq!(session.document(None)?.lease, None);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn release(self) -> Result<()> {
        self.runtime.block_on(self.waits.release())
    }
}
