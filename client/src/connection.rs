//! Where commands go: redis-rs connections, and in a cluster the node that has the key.

use redis::{ConnectionLike, Pipeline, Value};

use crate::Result;
use crate::request::Command;

/// A connection that `SESSION.*` commands can be sent over.
///
/// It is implemented for redis-rs's [`Connection`](redis::Connection), which a [`Client`](redis::Client), a pool and a Sentinel client
/// hand out, and for its cluster connection. A connection type of one's own implements the two methods with [`Command::cmd`].
///
/// ```
/// use redis::{ConnectionLike, Value};
/// use redis_session_client::{Result, SessionCommands, SessionConnection, request::Command};
///
/// struct Logged(redis::Connection);
///
/// impl SessionConnection for Logged {
///     fn session_request(&mut self, command: &Command) -> Result<Value> {
///         println!("{}", command.name());
///         self.0.session_request(command)
///     }
///
///     fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
///         self.0.session_requests(commands, atomic)
///     }
/// }
///
/// # let server = redis_session_tests::Server::with_sample();
/// let mut connection = Logged(redis::Client::open(server.url())?.get_connection()?);
/// assert_eq!(connection.session_len("session:1")?, 2);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub trait SessionConnection {
    /// Sends one command; its reply, error replies as errors.
    ///
    /// # Errors
    /// What the server replies or what is wrong with the connection.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{SessionConnection, request};
    ///
    /// let reply = connection.session_request(request::len("session:1").command())?;
    /// assert_eq!(reply, redis::Value::Int(2));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn session_request(&mut self, command: &Command) -> Result<Value>;

    /// Sends all at once; a reply for each, error replies as [`Value::ServerError`]. `atomic`: in `MULTI` and `EXEC`, all keys in one slot.
    ///
    /// # Errors
    /// What is wrong with the connection, or with the transaction as a whole.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{SessionConnection, request};
    ///
    /// let (messages, events) = (request::len("session:1"), request::event_len("session:1"));
    /// let replies = connection.session_requests(&[messages.command(), events.command()], true)?;
    /// assert_eq!(replies, [redis::Value::Int(2), redis::Value::Int(1)]);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>>;
}

impl SessionConnection for redis::Connection {
    fn session_request(&mut self, command: &Command) -> Result<Value> {
        Ok(self.req_command(command.cmd())?)
    }

    fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let packed = pipeline(commands, atomic).get_packed_pipeline();
        let (offset, count) = replies_of(commands.len(), atomic);
        let replies = self.req_packed_commands(&packed, offset, count)?;
        settle(replies, atomic)
    }
}

fn pipeline(commands: &[&Command], atomic: bool) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command.cmd().clone());
    }
    if atomic {
        pipeline.atomic();
    }
    pipeline
}

/// How many replies to pass over, and how many to read: of a transaction, `MULTI` and what was queued, then that of `EXEC`.
fn replies_of(commands: usize, atomic: bool) -> (usize, usize) {
    if atomic { (commands + 1, 1) } else { (0, commands) }
}

fn settle(mut replies: Vec<Value>, atomic: bool) -> Result<Vec<Value>> {
    if !atomic {
        return Ok(replies);
    }
    match replies.pop() {
        Some(Value::Array(replies)) => Ok(replies),
        Some(Value::ServerError(error)) => Err(redis::RedisError::from(error).into()),
        _ => Err(crate::SessionError::unexpected("EXEC did not reply an array").of_command("EXEC")),
    }
}

#[cfg(feature = "cluster")]
mod cluster {
    use redis::Cmd;
    use redis::cluster::ClusterConnection;
    use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};

    use super::*;

    /// redis-rs knows no command of a module: it takes the first argument for the key, which of a group command is its subcommand.
    pub(super) fn route(command: &Command) -> SingleNodeRoutingInfo {
        let node = match command.is_read() {
            // Wherever the client was told to read.
            true => SlotAddr::ReplicaOptional,
            false => SlotAddr::Master,
        };
        SingleNodeRoutingInfo::SpecificNode(Route::with_key(command.key(), node))
    }

    #[cfg(feature = "cluster-async")]
    pub(super) fn route_to_primary(command: &Command) -> SingleNodeRoutingInfo {
        SingleNodeRoutingInfo::SpecificNode(Route::with_key(command.key(), SlotAddr::Master))
    }

    /// A command before a transaction, by which redis-rs finds the node: of it the first argument is the key.
    fn guide(command: &Command) -> Cmd {
        let mut cmd = redis::cmd("TYPE");
        cmd.arg(command.key());
        cmd
    }

    impl SessionConnection for ClusterConnection {
        fn session_request(&mut self, command: &Command) -> Result<Value> {
            Ok(self.route_command(command.cmd(), RoutingInfo::SingleNode(route(command)))?)
        }

        /// One after the other, each to its node, unless `atomic`.
        fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
            if !atomic {
                let replies = commands.iter().map(|command| {
                    match self.route_command(command.cmd(), RoutingInfo::SingleNode(route(command))) {
                        Ok(reply) => Ok(reply),
                        Err(error) => as_reply(error),
                    }
                });
                return replies.collect();
            }
            let Some(first) = commands.first() else {
                return Ok(Vec::new());
            };
            let mut packed = guide(first).get_packed_command();
            packed.extend(pipeline(commands, true).get_packed_pipeline());
            let (offset, count) = replies_of(commands.len(), true);
            settle(self.req_packed_commands(&packed, offset + 1, count)?, true)
        }
    }

    /// An error that the server replied to one of many; what is wrong with the connection ends them all.
    fn as_reply(error: redis::RedisError) -> Result<Value> {
        if error.is_io_error() || error.code().is_none() {
            return Err(error.into());
        }
        match error.clone().into_server_errors() {
            Some(errors) if !errors.is_empty() => Ok(Value::ServerError(errors[0].1.clone())),
            _ => Err(error.into()),
        }
    }
}

#[cfg(feature = "aio")]
pub use asynchronous::AsyncSessionConnection;

#[cfg(feature = "aio")]
mod asynchronous {
    use std::future::Future;

    use redis::aio::{ConnectionLike, MultiplexedConnection};

    use super::*;

    /// An asynchronous connection that `SESSION.*` commands can be sent over.
    ///
    /// It is implemented for redis-rs's multiplexed connection, which a client, a pool and a Sentinel client hand out, its connection
    /// manager, and its cluster connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::with_sample();
    /// use redis_session_client::{AsyncSessionCommands, AsyncSessionConnection};
    ///
    /// async fn messages(connection: &mut impl AsyncSessionConnection) -> redis_session_client::Result<u64> {
    ///     connection.session_len("session:1").await
    /// }
    /// let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// assert_eq!(messages(&mut connection).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub trait AsyncSessionConnection: Send {
        /// Sends one command; its reply, error replies as errors.
        ///
        /// # Errors
        /// What the server replies or what is wrong with the connection.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redis_session_client::SessionError> {
        /// # let server = redis_session_tests::Server::with_sample();
        /// # let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        /// use redis_session_client::{AsyncSessionConnection, request};
        ///
        /// let reply = connection.session_request(request::len("session:1").command()).await?;
        /// assert_eq!(reply, redis::Value::Int(2));
        /// # Ok(())
        /// # }
        /// ```
        fn session_request(&mut self, command: &Command) -> impl Future<Output = Result<Value>> + Send;

        /// Sends all at once; a reply for each, error replies as [`Value::ServerError`]. `atomic`: in `MULTI` and `EXEC`, all keys in one
        /// slot.
        ///
        /// # Errors
        /// What is wrong with the connection, or with the transaction as a whole.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redis_session_client::SessionError> {
        /// # let server = redis_session_tests::Server::with_sample();
        /// # let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        /// use redis_session_client::{AsyncSessionConnection, request};
        ///
        /// let (messages, events) = (request::len("session:1"), request::event_len("session:1"));
        /// let replies = connection.session_requests(&[messages.command(), events.command()], true).await?;
        /// assert_eq!(replies, [redis::Value::Int(2), redis::Value::Int(1)]);
        /// # Ok(())
        /// # }
        /// ```
        fn session_requests(
            &mut self,
            commands: &[&Command],
            atomic: bool,
        ) -> impl Future<Output = Result<Vec<Value>>> + Send;
    }

    async fn send_all<C: ConnectionLike + Send>(
        connection: &mut C,
        commands: &[&Command],
        atomic: bool,
    ) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let (offset, count) = replies_of(commands.len(), atomic);
        let pipeline = pipeline(commands, atomic);
        settle(connection.req_packed_commands(&pipeline, offset, count).await?, atomic)
    }

    impl AsyncSessionConnection for MultiplexedConnection {
        async fn session_request(&mut self, command: &Command) -> Result<Value> {
            Ok(self.req_packed_command(command.cmd()).await?)
        }

        async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
            send_all(self, commands, atomic).await
        }
    }

    #[cfg(feature = "connection-manager")]
    impl AsyncSessionConnection for redis::aio::ConnectionManager {
        async fn session_request(&mut self, command: &Command) -> Result<Value> {
            Ok(self.req_packed_command(command.cmd()).await?)
        }

        async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
            send_all(self, commands, atomic).await
        }
    }

    #[cfg(feature = "cluster-async")]
    impl AsyncSessionConnection for redis::cluster_async::ClusterConnection {
        async fn session_request(&mut self, command: &Command) -> Result<Value> {
            let route = redis::cluster_routing::RoutingInfo::SingleNode(cluster::route(command));
            Ok(self.route_command(command.cmd().clone(), route).await?)
        }

        /// The commands of each key together and in their order, the keys at the same time.
        async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
            let Some(first) = commands.first() else {
                return Ok(Vec::new());
            };
            if atomic {
                let (offset, count) = replies_of(commands.len(), true);
                let replies = self
                    .route_pipeline(
                        pipeline(commands, true),
                        offset,
                        count,
                        cluster::route_to_primary(first),
                    )
                    .await?;
                return settle(replies, true);
            }
            let mut by_key: Vec<(&[u8], Vec<usize>)> = Vec::new();
            let mut place_of = std::collections::HashMap::new();
            for (at, command) in commands.iter().enumerate() {
                let place = *place_of.entry(command.key()).or_insert_with(|| {
                    by_key.push((command.key(), Vec::new()));
                    by_key.len() - 1
                });
                by_key[place].1.push(at);
            }
            let sent = by_key.iter().map(|(_, places)| {
                let of_key: Vec<&Command> = places.iter().map(|&at| commands[at]).collect();
                let mut connection = self.clone();
                async move {
                    let route = match of_key.iter().all(|command| command.is_read()) {
                        true => cluster::route(of_key[0]),
                        false => cluster::route_to_primary(of_key[0]),
                    };
                    connection
                        .route_pipeline(pipeline(&of_key, false), 0, of_key.len(), route)
                        .await
                }
            });
            let mut replies = vec![Value::Nil; commands.len()];
            for (of_key, (_, places)) in futures_util::future::join_all(sent).await.into_iter().zip(&by_key) {
                for (reply, &at) in of_key?.into_iter().zip(places) {
                    replies[at] = reply;
                }
            }
            Ok(replies)
        }
    }
}
