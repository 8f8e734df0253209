//! Stores and handles: a program holds a [`SessionStore`] of one scope, and a [`SessionHandle`] for each session that it works on.
//!
//! | file | what is there |
//! |---|---|
//! | `connect.rs` | [`Connect`], [`Retry`]: connecting, and repeating commands after a connection was lost |
//! | `table.rs` | the commands on one session, a row each: the methods of handles, turns and edits |
//! | `handle.rs` | [`SessionHandle`]: one session; optimistic edits |
//! | `turn.rs` | [`Turn`]: leased edits |
//! | `follow.rs` | [`Follow`]: messages, events and checkpoints as they are recorded |
//! | `blocking.rs` | the same without an asynchronous runtime |

pub mod blocking;
mod connect;
mod follow;
mod handle;
mod table;
mod turn;

pub use connect::{Connect, Retry};
pub use follow::Follow;
pub use handle::{Edit, Guarded, SessionHandle};
pub use turn::Turn;

use std::fmt;
use std::sync::Arc;

use connect::Connections;

use crate::request::{self, Create, IndexAdd, IndexQuery, Request};
use crate::{DirectoryEntry, Limit, Result, SessionAlias, SessionError, SessionId};

/// How many appends of a session may come between an append and its being sent again. The module's own default, 64, is soon used up
/// where many write at once and a connection that all of them share is lost.
const DEDUP_WINDOW: u64 = 256;

/// The sessions of one scope: a tenant, a user, an application.
///
/// Its sessions are at `session:{scope}:<id>` and its directory at `sessions:{scope}`, all in one slot of a cluster. It connects when it
/// first needs to, and again when a connection is lost; what may safely be sent again is sent again, for as long as its [`Retry`] says.
/// Cloning is cheap, and clones share the connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let url = server.url();
/// use redis_session_client::{Create, NewMessage, MessageQuery, SessionStore};
///
/// let store = SessionStore::new(redis::Client::open(url)?, "acme");
/// let session = store.open_or_create_by_alias(&"ada".parse()?, Create::new()).await?;
/// session.append(NewMessage::user("Where is order 7?")).await?;
///
/// let again = store.open(session.id()).await?;
/// assert_eq!(again.messages(MessageQuery::all()).await?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct SessionStore<C: Connect> {
    shared: Arc<Shared<C>>,
}

struct Shared<C: Connect> {
    connections: Connections<C>,
    scope: String,
    index: String,
}

impl<C: Connect> Clone for SessionStore<C> {
    fn clone(&self) -> SessionStore<C> {
        SessionStore {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C: Connect> fmt::Debug for SessionStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStore")
            .field("index", &self.shared.index)
            .finish_non_exhaustive()
    }
}

impl<C: Connect> SessionStore<C> {
    /// Makes the store of a scope, over the connections of a [`redis::Client`], a cluster client, a Sentinel client, or a pool. Connects when
    /// first used.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::SessionStore;
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connect: C, scope: impl Into<String>) -> SessionStore<C> {
        SessionStore::with_retry(connect, scope, Retry::default())
    }

    /// Makes a store that repeats what failed as `retry` says, in place of [`Retry::default`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use std::time::Duration;
    /// use redis_session_client::{Retry, SessionStore};
    ///
    /// let retry = Retry { give_up_after: Duration::from_secs(2), ..Retry::default() };
    /// let store = SessionStore::with_retry(redis::Client::open(url)?, "acme", retry);
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_retry(connect: C, scope: impl Into<String>, retry: Retry) -> SessionStore<C> {
        let scope = scope.into();
        SessionStore {
            shared: Arc::new(Shared {
                connections: Connections::new(connect, retry),
                index: format!("sessions:{{{scope}}}"),
                scope,
            }),
        }
    }

    /// The key of the directory.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::SessionStore;
    /// let store = SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// assert_eq!(store.index(), "sessions:{acme}");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn index(&self) -> &str {
        &self.shared.index
    }

    /// The key that a session of this id has, if this store made it.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionId, SessionStore};
    /// let store = SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// let id: SessionId = "0190c5a4-7b1e-7ccc-8000-0123456789ab".parse()?;
    /// assert_eq!(store.key_of(id), "session:{acme}:0190c5a4-7b1e-7ccc-8000-0123456789ab");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn key_of(&self, id: SessionId) -> String {
        format!("session:{{{}}}:{id}", self.shared.scope)
    }

    /// Creates a session and registers it. Options of `create` that the store sets itself (id, scope, directory) are its own.
    ///
    /// It remembers the tokens of its last 256 appends, unless `create` has a `dedup-window` of its own: an append that is sent again
    /// after so many others is appended twice. Where hundreds write to one session at once, give it more; a token takes some 150 bytes.
    ///
    /// # Errors
    /// [`SessionError::AliasInUse`] if `create` names an alias that another session has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Limit, Create, MessageRole, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// let session = store.create(Create::new().limit(Limit::MaxLen, 200).pin(MessageRole::System)).await?;
    /// assert_eq!(session.len().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, create: Create) -> Result<SessionHandle<C>> {
        let id = SessionId::new();
        let key = self.key_of(id);
        let create = self.registered(create, id);
        // The id is new, so a key that is busy when this is sent again is busy with what was sent before.
        match self.run(&request::create(&key, create).repeatable()).await {
            // With `open` and an alias that is taken, it is the session that has it.
            Ok(created) => Ok(self.handle(created.id, created.key)),
            Err(SessionError::BusyKey(_)) => Ok(self.handle(id, key.into_bytes())),
            // So is an alias.
            Err(SessionError::AliasInUse { id: of, .. }) if of == id.to_string() => {
                Ok(self.handle(id, key.into_bytes()))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the session of this id.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if there is none, or no longer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{SessionError, SessionId, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// assert!(matches!(store.open(SessionId::new()).await, Err(SessionError::NoSession(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(&self, id: SessionId) -> Result<SessionHandle<C>> {
        let found = self
            .run(&request::index_resolve(&self.shared.index, id.to_string()))
            .await?;
        let found = found.ok_or_else(|| self.no_session(&id.to_string()))?;
        Ok(self.handle(found.id, found.key))
    }

    /// Opens the session of this alias, or creates one under it, atomically.
    ///
    /// # Errors
    /// What is wrong with the connection, or with `create`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Create, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// let first = store.open_or_create_by_alias(&"ada".parse()?, Create::new()).await?;
    /// let second = store.open_or_create_by_alias(&"ada".parse()?, Create::new()).await?;
    /// assert_eq!(first.id(), second.id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_or_create_by_alias(&self, alias: &SessionAlias, create: Create) -> Result<SessionHandle<C>> {
        let id = SessionId::new();
        let create = self.registered(create, id).alias(alias.as_str()).open();
        let opened = self.run(&request::create(self.key_of(id), create).repeatable()).await?;
        Ok(self.handle(opened.id, opened.key))
    }

    /// Looks up the id of an alias.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::SessionStore;
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// assert_eq!(store.resolve_alias(&"nobody".parse()?).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resolve_alias(&self, alias: &SessionAlias) -> Result<Option<SessionId>> {
        let found = self
            .run(&request::index_resolve(&self.shared.index, alias.as_str()))
            .await?;
        Ok(found.map(|found| found.id))
    }

    /// Gives a session another alias. Its id and its content stay as they are.
    ///
    /// # Errors
    /// [`SessionError::NoSession`] if there is none; [`SessionError::AliasInUse`] if another has the alias.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Create, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// let session = store.create(Create::new()).await?;
    /// store.rename(session.id(), &"about trains".parse()?).await?;
    /// assert_eq!(store.resolve_alias(&"about trains".parse()?).await?, Some(session.id()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rename(&self, id: SessionId, alias: &SessionAlias) -> Result<()> {
        let session = self.open(id).await?;
        let add = IndexAdd::new().alias(alias.as_str());
        let request = request::index_add(&self.shared.index, session.key(), add).repeatable();
        self.run(&request).await.map(|_| ())
    }

    /// Deletes a session with everything in it; returns whether it was there.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Create, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// let session = store.create(Create::new()).await?;
    /// assert!(store.delete(session.id()).await?);
    /// assert!(!store.delete(session.id()).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, id: SessionId) -> Result<bool> {
        let session = match self.open(id).await {
            Ok(session) => session,
            Err(SessionError::NoSession(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        // It was there a moment ago. Should this have to be sent again, that it is gone is what was wanted.
        self.run(&request::unlink(session.key())).await?;
        Ok(true)
    }

    /// Lists the sessions of this scope.
    ///
    /// # Errors
    /// What is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{Create, IndexQuery, SessionStore};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// store.create(Create::new().alias("ada")).await?;
    /// assert_eq!(store.list(IndexQuery::all()).await?[0].alias.as_deref(), Some("ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, query: IndexQuery) -> Result<Vec<DirectoryEntry>> {
        self.run(&request::index_list(&self.shared.index, query)).await
    }

    /// Sends any request over the store's connection. After the loss of a connection it is sent again only where that is safe: a read, or an
    /// append with a `dedup` token.
    ///
    /// # Errors
    /// What the server replies; what is wrong with the connection after [`Retry::give_up_after`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::{SessionStore, request};
    ///
    /// let store = SessionStore::new(redis::Client::open(url)?, "acme");
    /// assert_eq!(store.run(&request::index_len(store.index())).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, request: &Request<T>) -> Result<T> {
        self.shared.connections.run(request).await
    }

    fn registered(&self, create: Create, id: SessionId) -> Create {
        let create = create.index(&self.shared.index).scope(&self.shared.scope).id(id);
        create.limit_by_default(Limit::DedupWindow, DEDUP_WINDOW)
    }

    fn handle(&self, id: SessionId, key: Vec<u8>) -> SessionHandle<C> {
        SessionHandle::new(self.clone(), id, key)
    }

    fn no_session(&self, name: &str) -> SessionError {
        SessionError::NoSession(format!("no session {name} in {}", self.shared.index))
    }
}
