//! Where to take a session up again.

use super::{Bridge, recovery_key};
use crate::{AsyncSessionConnection, Checkpoint, Result, SessionId, SessionPipeline, request};

/// A checkpoint to take a session up from, and where it was found.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redis_session_client::SessionResult<()> {
/// # let server = redis_session_tests::Server::start();
/// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
/// # server.run("SESSION.APPEND session:0190c5a4-7b1e-7ccc-8000-0123456789ab MSG user hello");
/// use redis_session_client::{NewCheckpoint, bridge::{Bridge, Recovery, RecoverySource}};
///
/// # let id = "0190c5a4-7b1e-7ccc-8000-0123456789ab".parse()?;
/// let mut bridge = Bridge::new(connection);
/// let made = bridge.checkpoint(id, NewCheckpoint::new().close()).await?.checkpoint;
/// let recovery: Recovery = bridge.get_checkpoint_recovery(id).await?.expect("a reference");
/// assert_eq!((recovery.checkpoint, recovery.source), (made, RecoverySource::Reference));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Where it was found.
    pub source: RecoverySource,
}

/// Where a recovery was found.
///
/// ```
/// # use redis_session_client::bridge::RecoverySource;
/// assert_ne!(RecoverySource::Reference, RecoverySource::Session);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverySource {
    /// At the key of its own, which outlives the session.
    Reference,
    /// In the session: its newest checkpoint.
    Session,
}

impl<C: AsyncSessionConnection> Bridge<C> {
    /// The recovery reference of a session ([`recovery_key`]); without one, the session's newest checkpoint; or nothing.
    ///
    /// One round trip. The reference is the one that was stored last: checkpoints that were made since without storing one, as
    /// [`Bridge::checkpoint`] does, are in the session only.
    ///
    /// # Errors
    /// What the server replies, and what is wrong with the connection. [`crate::SessionError::UnexpectedReply`] if something else is at that
    /// key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// use redis_session_client::bridge::{Bridge, RecoverySource};
    /// use redis_session_client::{AsyncSessionCommands, Create, NewCheckpoint, SessionId};
    ///
    /// let (id, mut redis, mut bridge) = (SessionId::new(), connection.clone(), Bridge::new(connection));
    /// let key = bridge.session_key(id);
    /// redis.session_create(&key, Create::new().id(id)).await?;
    /// assert!(bridge.get_checkpoint_recovery(id).await?.is_none());
    ///
    /// redis.session_checkpoint_create(&key, NewCheckpoint::new().label("half way")).await?;
    /// let recovery = bridge.get_checkpoint_recovery(id).await?.expect("a checkpoint");
    /// assert_eq!(recovery.source, RecoverySource::Session);
    ///
    /// bridge.checkpoint(id, NewCheckpoint::new().label("done").close()).await?;
    /// redis::cmd("DEL").arg(&key).query_async::<()>(&mut redis).await?;
    /// let recovery = bridge.get_checkpoint_recovery(id).await?.expect("a reference");
    /// assert_eq!((recovery.source, recovery.checkpoint.label.as_deref()), (RecoverySource::Reference, Some("done")));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_checkpoint_recovery(&mut self, id: SessionId) -> Result<Option<Recovery>> {
        let key = self.session_key(id);
        let mut pipeline = SessionPipeline::new();
        let reference = pipeline.add(request::recovery_reference(recovery_key(&key)?));
        let list = pipeline.add(request::checkpoint_list(&key));
        let mut replies = pipeline.query_async(&mut self.connection).await?;
        if let Some(checkpoint) = replies.take(reference)? {
            return Ok(Some(Recovery {
                checkpoint,
                source: RecoverySource::Reference,
            }));
        }
        let newest = replies.take(list)?.pop();
        Ok(newest.map(|checkpoint| Recovery {
            checkpoint,
            source: RecoverySource::Session,
        }))
    }
}
