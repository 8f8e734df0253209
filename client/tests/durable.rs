//! A connection that says only what a replica knows, too.
//!
//! Replication is asynchronous: a primary that dies takes with it what it acknowledged and had not passed on yet. Whoever cannot have that
//! waits for a replica after each command, reads too, so that nobody is told what may still be lost. A command that no replica confirmed
//! counts as lost on the way: its outcome is unknown, and what is safe to send again is.

use std::time::Duration;

use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis_session_client::request::Command;
use redis_session_client::{AsyncSessionConnection, Connect, Result};

/// How long to wait for the replica before the connection is given up.
const WAIT_MS: u64 = 500;

/// Connections of `C` that wait for one replica.
pub struct Durable<C>(pub C);

impl<C: Connect<Connection = MultiplexedConnection>> Connect for Durable<C> {
    type Connection = DurableConnection;

    async fn connect(&self, response_timeout: Duration) -> Result<DurableConnection> {
        self.0.connect(response_timeout).await.map(DurableConnection)
    }
}

#[derive(Clone)]
pub struct DurableConnection(MultiplexedConnection);

impl AsyncSessionConnection for DurableConnection {
    async fn session_request(&mut self, command: &Command) -> Result<Value> {
        let mut replies = self.session_requests(&[command], false).await?;
        match replies.remove(0) {
            Value::ServerError(error) => Err(redis::RedisError::from(error).into()),
            reply => Ok(reply),
        }
    }

    async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
        assert!(!atomic, "these tests need no transactions");
        let mut pipeline = redis::Pipeline::new();
        for command in commands {
            pipeline.add_command(command.cmd().clone());
        }
        // `WAIT` means what was written when the command before it began: a read that had to wait began before what it replied.
        pipeline.cmd("PING").cmd("WAIT").arg(1).arg(WAIT_MS);
        let mut replies = self.0.req_packed_commands(&pipeline, 0, commands.len() + 2).await?;
        match replies.pop() {
            Some(Value::Int(replicas)) if replicas >= 1 => {
                replies.truncate(commands.len());
                Ok(replies)
            }
            _ => Err(redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)).into()),
        }
    }
}
