//! Many commands in one round trip.

use redis::Value;

use crate::request::{Command, ReplyOf, Request};
use crate::{Result, SessionConnection, SessionError};

/// Sends many commands in one round trip. Each has its own reply, and its own error.
///
/// In a cluster, commands go to the nodes of their keys, those of one key one after the other; with [`SessionPipeline::atomic`] all keys must be in one slot.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionPipeline, request};
///
/// let mut pipeline = SessionPipeline::new();
/// let appended = pipeline.add(request::append("session:1", NewMessage::user("Thanks!")));
/// let ada = pipeline.add(request::entity_resolve("session:1", "she"));
/// let mut replies = pipeline.query(&mut connection)?;
/// assert_eq!(replies.take(appended)?.seq, 5);
/// assert_eq!(replies.take(ada)?.expect("Ada").entity_id, "u7");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SessionPipeline {
    commands: Vec<Command>,
    is_atomic: bool,
}

/// The place of one reply in a pipeline, and the type that it is read as.
///
/// ```
/// use redis_session_client::{SessionPipeline, ReplySlot, request};
///
/// let mut pipeline = SessionPipeline::new();
/// let len: ReplySlot<u64> = pipeline.add(request::len("session:1"));
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// let mut replies = pipeline.query(&mut connection)?;
/// let messages: u64 = replies.take(len)?;
/// assert_eq!(messages, 2);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug)]
pub struct ReplySlot<T> {
    at: usize,
    reply: ReplyOf<T>,
}

/// The replies of a pipeline, to be taken one by one.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{SessionPipeline, request};
///
/// let mut pipeline = SessionPipeline::new();
/// let len = pipeline.add(request::len("session:1"));
/// let mut replies = pipeline.query(&mut connection)?;
/// assert_eq!(replies.take(len)?, 2);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug)]
pub struct Replies {
    replies: Vec<Option<Value>>,
    names: Vec<String>,
}

impl SessionPipeline {
    /// Makes an empty pipeline.
    ///
    /// ```
    /// # use redis_session_client::SessionPipeline;
    /// assert!(SessionPipeline::new().is_empty());
    /// ```
    pub fn new() -> SessionPipeline {
        SessionPipeline::default()
    }

    /// Sends the commands in `MULTI` and `EXEC`, so that no other client's come in between. A command that fails does not undo the others; over a synchronous
    /// connection to a cluster, its error is all that redis-rs tells.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{SessionPipeline, request};
    ///
    /// let mut pipeline = SessionPipeline::new().atomic();
    /// let messages = pipeline.add(request::len("session:1"));
    /// let events = pipeline.add(request::event_len("session:1"));
    /// let mut replies = pipeline.query(&mut connection)?;
    /// assert_eq!((replies.take(messages)?, replies.take(events)?), (2, 1));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn atomic(mut self) -> SessionPipeline {
        self.is_atomic = true;
        self
    }

    /// Adds a command; returns the place of its reply.
    ///
    /// ```
    /// # use redis_session_client::{SessionPipeline, request};
    /// let mut pipeline = SessionPipeline::new();
    /// let len = pipeline.add(request::len("session:1"));
    /// let none = pipeline.add(request::len("session:none"));
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// let mut replies = pipeline.query(&mut connection)?;
    /// assert_eq!((replies.take(none)?, replies.take(len)?), (0, 2));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn add<T>(&mut self, request: Request<T>) -> ReplySlot<T> {
        self.commands.push(request.command);
        ReplySlot {
            at: self.commands.len() - 1,
            reply: request.reply,
        }
    }

    /// The number of commands.
    ///
    /// ```
    /// # use redis_session_client::SessionPipeline;
    /// assert_eq!(SessionPipeline::new().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether it has no commands.
    ///
    /// ```
    /// # use redis_session_client::SessionPipeline;
    /// assert!(SessionPipeline::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Sends the commands and waits for all replies.
    ///
    /// # Errors
    /// What is wrong with the connection, or with the transaction as a whole. What is wrong with one command is in its reply.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// # use redis_session_client::{SessionPipeline, request};
    /// let mut pipeline = SessionPipeline::new();
    /// let len = pipeline.add(request::len("session:1"));
    /// assert_eq!(pipeline.query(&mut connection)?.take(len)?, 2);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn query<C: SessionConnection + ?Sized>(&self, connection: &mut C) -> Result<Replies> {
        let replies = connection.session_requests(&self.references(), self.is_atomic)?;
        self.replies(replies)
    }

    /// Sends the commands and waits for all replies, asynchronously.
    ///
    /// # Errors
    /// As [`SessionPipeline::query`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// # use redis_session_client::{SessionPipeline, request};
    /// let mut pipeline = SessionPipeline::new();
    /// let len = pipeline.add(request::len("session:1"));
    /// assert_eq!(pipeline.query_async(&mut connection).await?.take(len)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "aio")]
    pub async fn query_async<C: crate::AsyncSessionConnection + ?Sized>(&self, connection: &mut C) -> Result<Replies> {
        let replies = connection.session_requests(&self.references(), self.is_atomic).await?;
        self.replies(replies)
    }

    fn references(&self) -> Vec<&Command> {
        self.commands.iter().collect()
    }

    fn replies(&self, replies: Vec<Value>) -> Result<Replies> {
        if replies.len() != self.commands.len() {
            let reason = format!("{} replies to {} commands", replies.len(), self.commands.len());
            return Err(SessionError::unexpected(reason).of_command("a pipeline"));
        }
        Ok(Replies {
            replies: replies.into_iter().map(Some).collect(),
            names: self.commands.iter().map(Command::name).collect(),
        })
    }
}

impl Replies {
    /// Takes the reply of one command.
    ///
    /// # Errors
    /// What the server replied to this command. [`SessionError::BadArgument`] if the slot is of another, longer pipeline; one of a pipeline as long is not told from its own.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{SessionPipeline, SessionError, WriteOptions, request};
    ///
    /// let mut pipeline = SessionPipeline::new();
    /// let cleared = pipeline.add(request::clear("session:none", WriteOptions::new()));
    /// let len = pipeline.add(request::len("session:1"));
    /// let mut replies = pipeline.query(&mut connection)?;
    /// assert!(matches!(replies.take(cleared), Err(SessionError::NoSession(_))));
    /// assert_eq!(replies.take(len)?, 2);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn take<T>(&mut self, slot: ReplySlot<T>) -> Result<T> {
        let reply = self.replies.get_mut(slot.at).and_then(Option::take);
        let reply = reply.ok_or_else(|| SessionError::BadArgument("a slot of another pipeline".into()))?;
        slot.reply
            .read(reply)
            .map_err(|error| error.of_command(&self.names[slot.at]))
    }
}
