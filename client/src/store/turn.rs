//! Leased edits: writes that only the holder of the turn can make.

use std::fmt;
use std::time::Duration;

use super::SessionHandle;
use super::connect::Connect;
use crate::request::{self, Append, Mention, NewCheckpoint, NewEvent, Request, Write};
use crate::{Appended, Result, SessionError, WriteOptions};

/// The turn of an agent in a session, with its fencing token. It ends with its time, when it is [released](Turn::release), handed over,
/// or the session closes; not when this value is dropped. See [`SessionHandle::lease`].
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
/// let turn = session.lease("planner", Duration::from_millis(1)).await?;
/// tokio::time::sleep(Duration::from_millis(20)).await;
/// assert!(matches!(turn.append(Msg::user("too late")).await, Err(SessionError::LeaseLost(_))));
/// # Ok(())
/// # }
/// ```
pub struct Turn<C: Connect> {
    session: SessionHandle<C>,
    agent: String,
    length: Duration,
    token: u64,
}

impl<C: Connect> fmt::Debug for Turn<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("session", &self.session)
            .field("agent", &self.agent)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl<C: Connect> Turn<C> {
    pub(super) fn new(session: SessionHandle<C>, agent: String, length: Duration, token: u64) -> Turn<C> {
        Turn {
            session,
            agent,
            length,
            token,
        }
    }

    /// The fencing token: it only ever grows.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// assert!(turn.token() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> u64 {
        self.token
    }

    /// What a request must carry to be accepted in this turn.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// use redis_session_client::request;
    ///
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// session.run(|key| request::clear(key, turn.write())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> Write {
        Write::new().lease(self.token)
    }

    /// Appends messages, once, as [`SessionHandle::append`].
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the turn is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// # use redis_session_client::Msg;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// assert_eq!(turn.append(Msg::assistant("Let me see.")).await?.seq, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append(&self, append: impl Into<Append>) -> Result<Appended> {
        self.session.append_with(append.into(), self.write()).await
    }

    /// Records an event, as [`SessionHandle::record`].
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the turn is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// # use redis_session_client::NewEvent;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.record(NewEvent::new("planned").agent("planner")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record(&self, event: NewEvent) -> Result<u64> {
        self.run(|key| request::event_add(key, event.lease(self.token))).await
    }

    /// Mentions entities, as [`SessionHandle::mention`].
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the turn is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// # use redis_session_client::Mention;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// assert_eq!(turn.mention(Mention::new("order:7")).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn mention(&self, mention: Mention) -> Result<u64> {
        self.run(|key| request::entity_mention(key, mention.lease(self.token)))
            .await
    }

    /// Makes a checkpoint, as [`SessionHandle::checkpoint`].
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the turn is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// # use redis_session_client::NewCheckpoint;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.checkpoint(NewCheckpoint::new().outcome("pass").close()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn checkpoint(&self, checkpoint: NewCheckpoint) -> Result<u64> {
        self.run(|key| request::checkpoint_create(key, checkpoint.lease(self.token)))
            .await
    }

    /// Begins its time again, and keeps its token.
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the turn was over, and it, or another's, is a new one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.renew().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self) -> Result<()> {
        let request = |key: &[u8]| request::agent_lease(key, &self.agent, self.length).repeatable();
        match self.run(request).await {
            Ok(token) if token == self.token => Ok(()),
            Ok(token) => {
                // Somebody may have written in between: what is decided in this turn no longer holds. Nobody knows of the new one.
                let release = self.run(|key| request::agent_release(key, token)).await;
                release.and(Err(SessionError::LeaseLost(format!("token {} is stale", self.token))))
            }
            Err(SessionError::LeaseHeld { message, .. }) => Err(SessionError::LeaseLost(message)),
            Err(error) => Err(error),
        }
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if it was over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// session.lease("planner", Duration::from_secs(5)).await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<()> {
        self.run(|key| request::agent_release(key, self.token)).await
    }

    async fn run<T>(&self, request: impl FnOnce(&[u8]) -> Request<T>) -> Result<T> {
        self.session.run(request).await
    }
}
