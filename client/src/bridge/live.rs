//! A session and what others did to its entities.

use std::collections::BTreeMap;

use super::{BATCH, Bridge, anchor_key};
use crate::{
    Anchor, AsyncSessionConnection, Result, SessionDocument, SessionError, SessionId, SessionPipeline, request,
};

/// A session and the anchors of the entities that it mentions.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redis_session_client::SessionResult<()> {
/// # let server = redis_session_tests::Server::start();
/// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
/// # server.run("SESSION.APPEND session:0190c5a4-7b1e-7ccc-8000-0123456789ab MSG user hello REF order:7");
/// # server.run("SESSION.ANCHOR ADD anchor:order:7 s1 OUTCOME broke");
/// use redis_session_client::bridge::{Bridge, LiveSession};
///
/// # let id = "0190c5a4-7b1e-7ccc-8000-0123456789ab".parse()?;
/// let live: LiveSession = Bridge::new(connection).get_live_session(id).await?.expect("it is there");
/// let broke = live.anchors["order:7"].iter().filter(|anchor| anchor.outcome.as_deref() == Some("broke"));
/// assert_eq!(broke.map(|anchor| anchor.session_id.as_str()).collect::<Vec<_>>(), ["s1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LiveSession {
    /// The whole session.
    pub session: SessionDocument,
    /// What recent sessions did to each entity, newest first. An entity without anchors is not in it.
    pub anchors: BTreeMap<String, Vec<Anchor>>,
    /// Entities whose anchors could not be read, and why: something else is at that key, or permission is missing.
    pub unread: BTreeMap<String, SessionError>,
}

impl<C: AsyncSessionConnection> Bridge<C> {
    /// A session and the anchors of its entities, or nothing if there is no such session.
    ///
    /// Two round trips, and one more for each further 256 entities. Anchors are at keys of their own, in a cluster on other nodes: they
    /// are read after the session, and may be newer.
    ///
    /// # Errors
    /// What the server replies about the session, and what is wrong with the connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// use redis_session_client::{AsyncSessionCommands, Create, Mention, NewAnchor, SessionId, bridge::Bridge};
    ///
    /// let (id, mut redis, mut bridge) = (SessionId::new(), connection.clone(), Bridge::new(connection));
    /// redis.session_create(bridge.session_key(id), Create::new().id(id)).await?;
    /// redis.session_entity_mention(bridge.session_key(id), Mention::new("api")).await?;
    /// redis.session_anchor_add("anchor:api", NewAnchor::new("another session").outcome("pass")).await?;
    ///
    /// let live = bridge.get_live_session(id).await?.expect("it is there");
    /// assert_eq!(live.session.session_id, id);
    /// assert_eq!(live.anchors["api"][0].session_id, "another session");
    /// assert!(bridge.get_live_session(SessionId::new()).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_live_session(&mut self, id: SessionId) -> Result<Option<LiveSession>> {
        let key = self.session_key(id);
        let Some(session) = request::get(key, None).query_async(&mut self.connection).await? else {
            return Ok(None);
        };
        let (mut anchors, mut unread) = (BTreeMap::new(), BTreeMap::new());
        let entities: Vec<&String> = session.entities_mentioned.keys().collect();
        for batch in entities.chunks(BATCH) {
            let mut pipeline = SessionPipeline::new();
            let slots: Vec<_> = batch
                .iter()
                .map(|entity| pipeline.add(request::anchor_get(anchor_key(entity), None)))
                .collect();
            let mut replies = pipeline.query_async(&mut self.connection).await?;
            for (entity, slot) in batch.iter().zip(slots) {
                match replies.take(slot) {
                    Ok(found) if found.is_empty() => {}
                    Ok(found) => {
                        anchors.insert((*entity).clone(), found);
                    }
                    Err(error) => {
                        unread.insert((*entity).clone(), error);
                    }
                }
            }
        }
        Ok(Some(LiveSession {
            session,
            anchors,
            unread,
        }))
    }
}
