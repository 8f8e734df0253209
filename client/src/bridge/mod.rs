//! From a session to what outlives it: anchors and the recovery reference.
//!
//! A session goes when its time is over. What it did to an entity stays as an *anchor* of that entity, and where it can be taken up again
//! stays as a *recovery reference*. This module moves between them:
//!
//! | | |
//! |---|---|
//! | [`Bridge::get_live_session`] | a session and the anchors of its entities, in one answer |
//! | [`Bridge::checkpoint`] | a checkpoint with its recovery reference, and an anchor for each entity that it is about |
//! | [`Bridge::get_checkpoint_recovery`] | where to take a session up again, also when the session is gone |
//!
//! Feature `bridge`. The crate `redis-session-sink` writes failed sessions to PostgreSQL.

mod anchor;
mod keys;
mod live;
mod recovery;

pub use anchor::{Anchored, Checkpointed};
pub use keys::{anchor_key, recovery_key, session_key};
pub use live::LiveSession;
pub use recovery::{Recovery, RecoverySource};

use crate::{AsyncSessionConnection, SessionId};

/// How many commands go into one pipeline: enough to be one round trip mostly, few enough that nobody else waits for long.
const BATCH: usize = 256;

/// Sessions together with their anchors and recovery references, over any asynchronous connection.
///
/// Keys are the conventional ones: `session:<id>` or, in a scope, `session:{scope}:<id>`; `anchor:<entity>`; [`recovery_key`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let url = server.url();
/// use redis_session_client::bridge::Bridge;
/// use redis_session_client::{AsyncSessionCommands, Create, NewCheckpoint, NewEvent, SessionId};
///
/// let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
/// let mut bridge = Bridge::new(connection.clone()).scope("acme");
///
/// // A session breaks something, and says so.
/// let id = SessionId::new();
/// let key = bridge.session_key(id);
/// let mut redis = connection;
/// redis.session_create(&key, Create::new().id(id)).await?;
/// redis.session_event_add(&key, NewEvent::new("broke").entity("api")).await?;
/// bridge.checkpoint(id, NewCheckpoint::new().outcome("broke").close()).await?;
///
/// // The next one that mentions the entity learns of it.
/// let next = SessionId::new();
/// let mention = redis_session_client::Mention::new("api");
/// redis.session_create(bridge.session_key(next), Create::new().id(next)).await?;
/// redis.session_entity_mention(bridge.session_key(next), mention).await?;
/// let live = bridge.get_live_session(next).await?.expect("it was just created");
/// assert_eq!(live.anchors["api"][0].outcome.as_deref(), Some("broke"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Bridge<C> {
    connection: C,
    scope: Option<String>,
}

impl<C: AsyncSessionConnection> Bridge<C> {
    /// Sessions without a scope.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> redis_session_client::SessionResult<()> {
    /// # let server = redis_session_tests::Server::start();
    /// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// use redis_session_client::{SessionId, bridge::Bridge};
    ///
    /// let bridge = Bridge::new(connection);
    /// let id = SessionId::new();
    /// assert_eq!(bridge.session_key(id), format!("session:{id}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(connection: C) -> Bridge<C> {
        Bridge {
            connection,
            scope: None,
        }
    }

    /// Sessions of this scope, as a directory has them.
    ///
    /// ```
    /// # use redis_session_client::{AsyncSessionConnection, SessionId, bridge::Bridge};
    /// # fn scoped(connection: impl AsyncSessionConnection) {
    /// let bridge = Bridge::new(connection).scope("acme");
    /// assert!(bridge.session_key(SessionId::new()).starts_with("session:{acme}:"));
    /// # }
    /// ```
    pub fn scope(mut self, scope: impl Into<String>) -> Bridge<C> {
        self.scope = Some(scope.into());
        self
    }

    /// The key of a session.
    ///
    /// ```
    /// # use redis_session_client::{AsyncSessionConnection, SessionId, bridge::Bridge};
    /// # fn key(connection: impl AsyncSessionConnection) {
    /// let id = SessionId::new();
    /// assert_eq!(Bridge::new(connection).session_key(id), format!("session:{id}"));
    /// # }
    /// ```
    pub fn session_key(&self, id: SessionId) -> String {
        session_key(self.scope.as_deref(), id)
    }
}
