//! Sending commands over redis-rs connections; in a cluster, to the node that has the key.

#[cfg(feature = "aio")]
use redis::Pipeline;
use redis::{Cmd, ConnectionLike, Value};

use crate::Result;
use crate::request::Command;

/// A connection that `SESSION.*` commands can be sent over.
///
/// It is implemented for redis-rs's [`Connection`](redis::Connection), which a [`Client`](redis::Client), a pool and a Sentinel client
/// hand out, and for its cluster connection. A connection type of one's own implements the two methods with [`Command::cmd`].
///
/// ```
/// use redis::{ConnectionLike, Value};
/// use redis_session_client::{SessionResult, SessionCommands, SessionConnection, request::Command};
///
/// struct Logged(redis::Connection);
///
/// impl SessionConnection for Logged {
///     fn session_request(&mut self, command: &Command) -> SessionResult<Value> {
///         println!("{}", command.name());
///         self.0.session_request(command)
///     }
///
///     fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> SessionResult<Vec<Value>> {
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
    /// Sends one command and returns its reply; an error reply is an `Err`.
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

    /// Sends all commands at once and returns a reply for each; error replies are [`Value::ServerError`]. `atomic`: in `MULTI` and `EXEC`, with
    /// all keys in one slot.
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
        let packed = packed(commands.iter().map(|command| command.cmd()), atomic);
        let replies = self.req_packed_commands(&packed, 0, replies_to(commands, atomic))?;
        settle(replies, atomic)
    }
}

/// Packs all commands into one buffer.
fn packed<'a>(commands: impl IntoIterator<Item = &'a Cmd>, atomic: bool) -> Vec<u8> {
    let mut packed = Vec::new();
    if atomic {
        redis::cmd("MULTI").write_packed_command(&mut packed);
    }
    for command in commands {
        command.write_packed_command(&mut packed);
    }
    if atomic {
        redis::cmd("EXEC").write_packed_command(&mut packed);
    }
    packed
}

#[cfg(feature = "aio")]
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

/// How many replies come: of a transaction also those to `MULTI`, that each command was queued, and to `EXEC`.
fn replies_to(commands: &[&Command], atomic: bool) -> usize {
    if atomic { commands.len() + 2 } else { commands.len() }
}

/// What `EXEC` replied, or why nothing was executed: what was said when a command was queued tells more than `EXEC` does.
fn settle(mut replies: Vec<Value>, atomic: bool) -> Result<Vec<Value>> {
    if !atomic {
        return Ok(replies);
    }
    match replies.pop() {
        Some(Value::Array(replies)) => Ok(replies),
        Some(Value::ServerError(of_exec)) => {
            let of_queued = replies.into_iter().find_map(|reply| match reply {
                Value::ServerError(error) => Some(error),
                _ => None,
            });
            Err(redis::RedisError::from(of_queued.unwrap_or(of_exec)).into())
        }
        _ => Err(crate::SessionError::unexpected("EXEC did not reply an array").of_command("EXEC")),
    }
}

#[cfg(feature = "cluster")]
mod cluster {
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

    /// A command by which redis-rs finds the node of a transaction: its first argument is the key.
    fn guide(command: &Command) -> Cmd {
        let mut cmd = redis::cmd("TYPE");
        cmd.arg(command.key());
        cmd
    }

    /// redis-rs itself follows `MOVED` and `ASK`, and sends a command again after the loss of a connection, although it may have been
    /// executed: up to 16 times, or as [`retries`](redis::cluster::ClusterClientBuilder::retries) says.
    impl SessionConnection for ClusterConnection {
        fn session_request(&mut self, command: &Command) -> Result<Value> {
            Ok(self.route_command(command.cmd(), RoutingInfo::SingleNode(route(command)))?)
        }

        /// One after the other, each to its node, unless `atomic`. What is wrong with one command of a transaction, redis-rs makes an
        /// error of all of it, although the others were executed.
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
            // Within the transaction, so that what is said of it counts for all.
            let guide = guide(first);
            let guided = packed(
                std::iter::once(&guide).chain(commands.iter().map(|command| command.cmd())),
                true,
            );
            let replies = self.req_packed_commands(&guided, 0, replies_to(commands, true) + 1)?;
            let mut replies = settle(replies, true)?;
            replies.remove(0);
            Ok(replies)
        }
    }

    /// An error that the server replied to one of many; what is wrong with the connection ends them all.
    pub(super) fn as_reply(error: redis::RedisError) -> Result<Value> {
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
    /// async fn messages(connection: &mut impl AsyncSessionConnection) -> redis_session_client::SessionResult<u64> {
    ///     connection.session_len("session:1").await
    /// }
    /// let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// assert_eq!(messages(&mut connection).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub trait AsyncSessionConnection: Send {
        /// Sends one command and returns its reply; an error reply is an `Err`.
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
        let pipeline = pipeline(commands, atomic);
        let count = replies_to(commands, atomic);
        settle(connection.req_packed_commands(&pipeline, 0, count).await?, atomic)
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
    mod cluster_async {
        use redis::cluster_async::ClusterConnection;
        use redis::cluster_routing::SingleNodeRoutingInfo;
        use redis::{RedisError, RedisResult};

        use super::super::cluster::{as_reply, route, route_to_primary};
        use super::*;

        /// How often a redirection is followed where redis-rs was told not to.
        const REDIRECTIONS: u32 = 16;

        /// redis-rs itself follows `MOVED` and `ASK`, and sends a command again after the loss of a connection, although it may have
        /// been executed: up to 16 times, or as [`retries`](redis::cluster::ClusterClientBuilder::retries) says. With `retries(0)`
        /// nothing is sent twice, and this implementation follows `MOVED` and `ASK`, to which nothing was executed.
        impl AsyncSessionConnection for ClusterConnection {
            async fn session_request(&mut self, command: &Command) -> Result<Value> {
                let reply = send(self, &[command], false, route(command)).await?.pop();
                match reply {
                    Some(Value::ServerError(error)) => Err(RedisError::from(error).into()),
                    Some(reply) => Ok(reply),
                    None => Err(crate::SessionError::unexpected("no reply").of_command(&command.name())),
                }
            }

            /// The commands of each key one after the other, the keys at the same time.
            ///
            /// Those of one key are not sent as one: should its slot move between two of them, redis-rs would send all of them again.
            async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> Result<Vec<Value>> {
                let Some(first) = commands.first() else {
                    return Ok(Vec::new());
                };
                if atomic {
                    return settle(send(self, commands, true, route_to_primary(first)).await?, true);
                }
                let mut by_key: Vec<Vec<usize>> = Vec::new();
                let mut place_of = std::collections::HashMap::new();
                for (at, command) in commands.iter().enumerate() {
                    let place = *place_of.entry(command.key()).or_insert_with(|| {
                        by_key.push(Vec::new());
                        by_key.len() - 1
                    });
                    by_key[place].push(at);
                }
                let sent = by_key.into_iter().map(|places| {
                    let mut connection = self.clone();
                    async move {
                        let mut replies = Vec::with_capacity(places.len());
                        for at in places {
                            let command = commands[at];
                            let reply = match send(&mut connection, &[command], false, route(command)).await {
                                Ok(mut replies) => replies.pop().unwrap_or(Value::Nil),
                                Err(error) => as_reply(error)?,
                            };
                            replies.push((at, reply));
                        }
                        Ok::<_, crate::SessionError>(replies)
                    }
                });
                let mut replies = vec![Value::Nil; commands.len()];
                for of_key in futures_util::future::join_all(sent).await {
                    for (at, reply) in of_key? {
                        replies[at] = reply;
                    }
                }
                Ok(replies)
            }
        }

        /// One command, or one transaction: what can be sent again after a redirection, since nothing of it was executed.
        async fn send(
            connection: &mut ClusterConnection,
            commands: &[&Command],
            atomic: bool,
            route: SingleNodeRoutingInfo,
        ) -> RedisResult<Vec<Value>> {
            let count = replies_to(commands, atomic);
            let mut redirections = 0;
            let mut to = route.clone();
            let mut asking = false;
            loop {
                let mut whole = Pipeline::with_capacity(count + 1);
                if asking {
                    whole.cmd("ASKING");
                }
                // By hand: redis-rs hides what is replied within its own transactions, a redirection too.
                if atomic {
                    whole.cmd("MULTI");
                }
                for command in commands {
                    whole.add_command(command.cmd().clone());
                }
                if atomic {
                    whole.cmd("EXEC");
                }
                let error = match connection.route_pipeline(whole, usize::from(asking), count, to).await {
                    Ok(replies) => return Ok(replies),
                    Err(error) => error,
                };
                let node = error.redirect_node().and_then(|(address, _)| {
                    let (host, port) = address.rsplit_once(':')?;
                    let port = port.parse().ok()?;
                    (!host.is_empty()).then(|| SingleNodeRoutingInfo::ByAddress {
                        host: host.to_owned(),
                        port,
                    })
                });
                to = match node {
                    Some(node) if redirections < REDIRECTIONS => node,
                    // The node is new to redis-rs, which looks at the slots again after `MOVED`.
                    _ if error.kind() == redis::ErrorKind::ClusterConnectionNotFound
                        && (1..REDIRECTIONS).contains(&redirections) =>
                    {
                        route.clone()
                    }
                    _ => return Err(error),
                };
                asking = error.code() == Some("ASK");
                redirections += 1;
            }
        }
    }
}
