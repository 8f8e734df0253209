//! A connection that says only what a replica knows, too.
//!
//! Replication is asynchronous: a primary that dies takes with it what it acknowledged and had not passed on yet. Whoever cannot have that
//! waits for a replica after each command, reads too, so that nobody is told what may still be lost. A command that no replica confirmed
//! counts as lost on the way: its outcome is unknown, and what is safe to send again is.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{Pipeline, RedisResult, Value};
use redis_session_client::request::Command;
use redis_session_client::{AsyncSessionConnection, Connect, SessionResult as Result};

/// How long to wait for the replica before the connection is given up.
const WAIT_MS: u64 = 500;

/// Connections of `C` that wait for one replica.
pub struct Durable<C>(pub C);

impl<C: Connect<Connection: Together>> Connect for Durable<C> {
    type Connection = DurableConnection<C::Connection>;

    async fn connect(&self, response_timeout: Duration) -> Result<Self::Connection> {
        self.0.connect(response_timeout).await.map(DurableConnection)
    }
}

#[derive(Clone)]
pub struct DurableConnection<C>(C);

impl<C: Together> AsyncSessionConnection for DurableConnection<C> {
    async fn session_request(&mut self, command: &Command) -> Result<Value> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command.cmd().clone());
        // `WAIT` means what was written when the command before it began: a read that had to wait began before what it replied.
        pipeline.cmd("PING").cmd("WAIT").arg(1).arg(WAIT_MS);
        let replies = self.0.together(&pipeline, command.key()).await?;
        match <[Value; 3]>::try_from(replies) {
            Ok([Value::ServerError(error), _, Value::Int(1..)]) => Err(redis::RedisError::from(error).into()),
            Ok([reply, _, Value::Int(1..)]) => Ok(reply),
            _ => Err(redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)).into()),
        }
    }

    async fn session_requests(&mut self, _: &[&Command], _: bool) -> Result<Vec<Value>> {
        unimplemented!("nothing here is sent in a pipeline")
    }
}

/// Sends three commands to the primary that has the key, one right after the other.
pub trait Together: AsyncSessionConnection + Clone + Sync + 'static {
    fn together(&mut self, pipeline: &Pipeline, key: &[u8]) -> impl Future<Output = RedisResult<Vec<Value>>> + Send;
}

impl Together for MultiplexedConnection {
    async fn together(&mut self, pipeline: &Pipeline, _key: &[u8]) -> RedisResult<Vec<Value>> {
        self.req_packed_commands(pipeline, 0, 3).await
    }
}

impl Together for ClusterConnection {
    async fn together(&mut self, pipeline: &Pipeline, key: &[u8]) -> RedisResult<Vec<Value>> {
        let primary = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
        self.route_pipeline(pipeline.clone(), 0, 3, primary).await
    }
}
