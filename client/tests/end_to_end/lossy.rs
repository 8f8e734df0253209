//! Connections that lose replies: the command was executed, and whoever sent it hears nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;
use redis_session_client::request::Command;
use redis_session_client::{AsyncSessionConnection, Connect, SessionResult as Result};

/// Of so many replies one is lost.
const LOST: u64 = 3;

/// Connections of `C`, of which every third reply is lost.
pub struct Lossy<C> {
    connect: C,
    replies: Arc<AtomicU64>,
}

impl<C> Lossy<C> {
    pub fn new(connect: C) -> Lossy<C> {
        Lossy {
            connect,
            replies: Arc::default(),
        }
    }
}

impl<C: Connect> Connect for Lossy<C> {
    type Connection = LossyConnection<C::Connection>;

    async fn connect(&self, response_timeout: Duration) -> Result<Self::Connection> {
        Ok(LossyConnection {
            connection: self.connect.connect(response_timeout).await?,
            replies: Arc::clone(&self.replies),
        })
    }
}

#[derive(Clone)]
pub struct LossyConnection<C> {
    connection: C,
    replies: Arc<AtomicU64>,
}

impl<C> LossyConnection<C> {
    fn deliver<T>(&self, reply: Result<T>) -> Result<T> {
        let number = self.replies.fetch_add(1, Ordering::SeqCst);
        if number.is_multiple_of(LOST) {
            return Err(redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset)).into());
        }
        reply
    }
}

impl<C: AsyncSessionConnection + Sync> AsyncSessionConnection for LossyConnection<C> {
    async fn session_request(&mut self, command: &Command) -> Result<Value> {
        let reply = self.connection.session_request(command).await;
        self.deliver(reply)
    }

    async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
        let replies = self.connection.session_requests(commands, atomic).await;
        self.deliver(replies)
    }
}
