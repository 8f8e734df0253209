//! Checkpoints that leave their traces: a recovery reference, and an anchor for each entity.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{BATCH, Bridge, anchor_key, recovery_key};
use crate::request::{NewAnchor, NewCheckpoint};
use crate::{AsyncSessionConnection, Checkpoint, Result, SessionError, SessionId, SessionPipeline, request};

/// The field of a checkpoint's impacts that is no impact but a measure: it becomes the anchor's.
const PERF_FIELD: &str = "perfDelta";

/// A checkpoint that was made, and the anchors that were.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redis_session_client::SessionResult<()> {
/// # let server = redis_session_tests::Server::start();
/// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
/// # server.run("SESSION.APPEND session:0190c5a4-7b1e-7ccc-8000-0123456789ab MSG user hello");
/// use redis_session_client::{NewCheckpoint, bridge::{Bridge, Checkpointed}};
///
/// # let id = "0190c5a4-7b1e-7ccc-8000-0123456789ab".parse()?;
/// let checkpoint = NewCheckpoint::new().outcome("broke").reference("order:7");
/// let made: Checkpointed = Bridge::new(connection).checkpoint(id, checkpoint).await?;
/// assert_eq!(made.checkpoint.outcome.as_deref(), Some("broke"));
/// assert_eq!(made.anchors.entities, ["order:7"]);
/// assert!(made.anchors.failed.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Checkpointed {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its anchors.
    pub anchors: Anchored,
}

/// The anchors that were written for a checkpoint.
///
/// ```
/// # use redis_session_client::bridge::Anchored;
/// let nothing = Anchored::default();
/// assert!(nothing.entities.is_empty() && nothing.failed.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Anchored {
    /// The entities that have one now.
    pub entities: Vec<String>,
    /// The entities that have none, and why: call [`Bridge::write_anchors`] again.
    pub failed: BTreeMap<String, SessionError>,
}

impl<C: AsyncSessionConnection> Bridge<C> {
    /// Makes a checkpoint with its recovery reference at [`recovery_key`], then an anchor for each entity that it is about.
    ///
    /// The checkpoint and the reference are one step; anchors are at keys of their own and follow. Which of them could not be written
    /// is in the answer.
    ///
    /// # Errors
    /// What the server replies: without a checkpoint there are no anchors. If the connection breaks afterwards, the checkpoint may have
    /// been made; [`Bridge::get_checkpoint_recovery`] tells, and [`Bridge::write_anchors`] does the rest.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// use redis_session_client::{AsyncSessionCommands, Create, NewCheckpoint, NewEvent, SessionId, bridge::Bridge};
    ///
    /// let (id, mut redis, mut bridge) = (SessionId::new(), connection.clone(), Bridge::new(connection));
    /// redis.session_create(bridge.session_key(id), Create::new().id(id)).await?;
    /// let event = NewEvent::new("modified").entity("api").impact(&serde_json::json!({"slower": true, "perfDelta": -0.2}));
    /// redis.session_event_add(bridge.session_key(id), event).await?;
    ///
    /// let made = bridge.checkpoint(id, NewCheckpoint::new().outcome("pass")).await?;
    /// assert_eq!(made.anchors.entities, ["api"]);
    /// let anchor = &redis.session_anchor_get("anchor:api", None).await?[0];
    /// assert_eq!((anchor.checkpoint_id, anchor.perf_delta), (Some(made.checkpoint.checkpoint_id), Some(-0.2)));
    /// assert_eq!(anchor.key_impacts, ["slower"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn checkpoint(&mut self, id: SessionId, checkpoint: NewCheckpoint) -> Result<Checkpointed> {
        let key = self.session_key(id);
        let checkpoint = checkpoint.store(recovery_key(&key)?);
        let made = request::checkpoint_create(&key, checkpoint)
            .query_async(&mut self.connection)
            .await?;
        let checkpoint = request::checkpoint_get(&key, made)
            .at_primary()
            .query_async(&mut self.connection)
            .await?
            .ok_or_else(|| SessionError::NoCheckpoint(format!("checkpoint {made} is gone already")))?;
        let anchors = self.write_anchors(&checkpoint).await;
        Ok(Checkpointed { checkpoint, anchors })
    }

    /// Writes an anchor for each entity that a checkpoint is about: its outcome, its id, the names of its impacts, and their `perfDelta`
    /// if that is a number; dated as the checkpoint is.
    ///
    /// Writing them again changes nothing: an entity has one anchor of a session. That of a later checkpoint takes the place of the
    /// earlier one's, so write those of the newest last.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// use redis_session_client::{AsyncSessionCommands, NewCheckpoint, NewMessage, bridge::Bridge};
    ///
    /// let (mut redis, mut bridge) = (connection.clone(), Bridge::new(connection));
    /// redis.session_append("session:any", NewMessage::user("hello")).await?;
    /// let id = redis.session_checkpoint_create("session:any", NewCheckpoint::new().reference("api")).await?;
    /// let checkpoint = redis.session_checkpoint_get("session:any", id).await?.expect("it was just made");
    ///
    /// for _ in 0..2 {
    ///     assert_eq!(bridge.write_anchors(&checkpoint).await.entities, ["api"]);
    /// }
    /// assert_eq!(redis.session_anchor_get("anchor:api", None).await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_anchors(&mut self, checkpoint: &Checkpoint) -> Anchored {
        let mut anchored = Anchored::default();
        let anchor = anchor_of(checkpoint);
        for batch in checkpoint.ref_entities.chunks(BATCH) {
            let mut pipeline = SessionPipeline::new();
            let slots: Vec<_> = batch
                .iter()
                .map(|entity| pipeline.add(request::anchor_add(anchor_key(entity), anchor.clone())))
                .collect();
            match pipeline.query_async(&mut self.connection).await {
                Ok(mut replies) => {
                    for (entity, slot) in batch.iter().zip(slots) {
                        match replies.take(slot) {
                            Ok(_) => anchored.entities.push(entity.clone()),
                            Err(error) => {
                                anchored.failed.insert(entity.clone(), error);
                            }
                        }
                    }
                }
                Err(error) => {
                    let failed = batch.iter().map(|entity| (entity.clone(), error.clone()));
                    anchored.failed.extend(failed);
                }
            }
        }
        anchored
    }
}

fn anchor_of(checkpoint: &Checkpoint) -> NewAnchor {
    let mut anchor = NewAnchor::new(checkpoint.session_id.to_string())
        .checkpoint(checkpoint.checkpoint_id)
        .at(checkpoint.timestamp);
    if let Some(outcome) = &checkpoint.outcome {
        anchor = anchor.outcome(outcome);
    }
    match checkpoint.summary.get("impacts") {
        Some(Json::Object(impacts)) => {
            if let Some(perf) = impacts.get(PERF_FIELD).and_then(Json::as_f64) {
                anchor = anchor.perf(perf);
            }
            // An empty name is none to the module.
            let names = impacts.keys().filter(|name| *name != PERF_FIELD && !name.is_empty());
            names.fold(anchor, NewAnchor::impact)
        }
        // A summary of one's own may list them.
        Some(Json::Array(names)) => {
            let names = names.iter().filter_map(Json::as_str).filter(|name| !name.is_empty());
            names.fold(anchor, NewAnchor::impact)
        }
        _ => anchor,
    }
}
