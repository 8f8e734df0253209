//! Where the sessions are: one server, servers under Sentinel, or a cluster. Connections for commands and for notifications.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSubSink};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline, Value};
use redis_session_client::tolerant;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::SinkError;
use crate::reply::{array, expected, unexpected};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: long, because one may be a session of many megabytes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How many keys that were notified of may wait. More are not remembered: a sweep finds them.
const MAX_WAITING: usize = 10_000;

/// Where a sink finds the sessions.
///
/// ```
/// use redis_session_sink::RedisSource;
///
/// # fn main() -> redis::RedisResult<()> {
/// let one = RedisSource::single(redis::Client::open("redis://127.0.0.1/0")?);
/// let cluster = RedisSource::cluster(["redis://10.0.0.1/", "redis://10.0.0.2/"])?;
/// assert_eq!(format!("{one:?}"), "RedisSource(127.0.0.1:6379)");
/// assert_eq!(format!("{cluster:?}"), "RedisSource(cluster 10.0.0.1:6379 10.0.0.2:6379)");
/// # Ok(())
/// # }
/// ```
pub struct RedisSource(Kind);

enum Kind {
    Single(Box<Client>),
    Sentinel(Box<SentinelClient>),
    Cluster {
        client: Box<ClusterClient>,
        nodes: Vec<Client>,
    },
}

/// The addresses, without passwords. redis-rs does not show those of sentinels.
impl fmt::Debug for RedisSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |client: &Client| client.get_connection_info().addr().to_string();
        let shown = match &self.0 {
            Kind::Single(client) => address(client),
            Kind::Sentinel(_) => "sentinel".to_owned(),
            Kind::Cluster { nodes, .. } => nodes
                .iter()
                .fold("cluster".to_owned(), |shown, node| shown + " " + &address(node)),
        };
        write!(f, "RedisSource({shown})")
    }
}

impl RedisSource {
    /// One server, and the database that the client selects.
    ///
    /// ```
    /// # use redis_session_sink::RedisSource;
    /// let source = RedisSource::single(redis::Client::open("redis://127.0.0.1/3")?);
    /// assert_eq!(format!("{source:?}"), "RedisSource(127.0.0.1:6379)");
    /// # Ok::<(), redis::RedisError>(())
    /// ```
    pub fn single(client: Client) -> RedisSource {
        RedisSource(Kind::Single(Box::new(client)))
    }

    /// Whichever server the sentinels call the primary, and the database that the client selects.
    ///
    /// ```
    /// # use redis_session_sink::RedisSource;
    /// use redis::sentinel::{SentinelClient, SentinelServerType};
    ///
    /// let sentinels = vec!["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let client = SentinelClient::build(sentinels, String::from("main"), None, SentinelServerType::Master)?;
    /// let source = RedisSource::sentinel(client);
    /// assert_eq!(format!("{source:?}"), "RedisSource(sentinel)");
    /// # Ok::<(), redis::RedisError>(())
    /// ```
    pub fn sentinel(client: SentinelClient) -> RedisSource {
        RedisSource(Kind::Sentinel(Box::new(client)))
    }

    /// A cluster, by some of its nodes. The first one's password and TLS settings are every node's.
    ///
    /// # Errors
    /// An address that cannot be read, or none at all.
    ///
    /// ```
    /// # use redis_session_sink::RedisSource;
    /// let source = RedisSource::cluster(["redis://:secret@10.0.0.1/", "redis://:secret@10.0.0.2/"])?;
    /// assert_eq!(format!("{source:?}"), "RedisSource(cluster 10.0.0.1:6379 10.0.0.2:6379)");
    /// # Ok::<(), redis::RedisError>(())
    /// ```
    pub fn cluster<T: IntoConnectionInfo>(nodes: impl IntoIterator<Item = T>) -> redis::RedisResult<RedisSource> {
        let nodes = nodes.into_iter().map(IntoConnectionInfo::into_connection_info);
        let nodes = nodes.collect::<redis::RedisResult<Vec<ConnectionInfo>>>()?;
        let client = ClusterClientBuilder::new(nodes.clone())
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .build()?;
        let nodes = nodes.into_iter().map(Client::open).collect::<redis::RedisResult<_>>()?;
        Ok(RedisSource::cluster_with(client, nodes))
    }

    /// A cluster, by a client with settings of its own, and clients of some nodes to subscribe at. Its response timeout bounds how
    /// large a session may be.
    ///
    /// ```
    /// # use redis_session_sink::RedisSource;
    /// let node = "redis://10.0.0.1/";
    /// let client = redis::cluster::ClusterClient::builder(vec![node]).retries(3).build()?;
    /// let source = RedisSource::cluster_with(client, vec![redis::Client::open(node)?]);
    /// assert_eq!(format!("{source:?}"), "RedisSource(cluster 10.0.0.1:6379)");
    /// # Ok::<(), redis::RedisError>(())
    /// ```
    pub fn cluster_with(client: ClusterClient, nodes: Vec<Client>) -> RedisSource {
        RedisSource(Kind::Cluster {
            client: Box::new(client),
            nodes,
        })
    }

    /// Connects anew. The subscription stands before this returns: whatever a sweep finds from now on, nothing falls in between.
    pub(crate) async fn connect(&mut self, keys: &str) -> Result<(Commands, Subscription), SinkError> {
        match &mut self.0 {
            Kind::Single(client) => connect_single(client, keys).await,
            Kind::Sentinel(sentinel) => {
                let client = within(sentinel.async_get_client()).await?;
                connect_single(&client, keys).await
            }
            Kind::Cluster { client, nodes } => {
                let commands = Commands::Cluster(within(client.get_async_connection()).await?);
                let mut error = SinkError::BadOption("a cluster needs the address of a node".into());
                for node in nodes.iter() {
                    // Any node does: a message published on one reaches the subscribers of all.
                    match subscribe(node, 0, keys).await {
                        Ok(subscription) => return Ok((commands, subscription)),
                        Err(why) => error = why,
                    }
                }
                Err(error)
            }
        }
    }

    /// Whether another server is the primary now than the one connected to. A primary that was cut off may not know it.
    pub(crate) async fn has_moved(&mut self, commands: &Commands) -> Result<bool, SinkError> {
        match (&mut self.0, commands) {
            (Kind::Sentinel(sentinel), Commands::Single { address, .. }) => {
                let client = within(sentinel.async_get_client()).await?;
                Ok(client.get_connection_info().addr().to_string() != *address)
            }
            _ => Ok(false),
        }
    }
}

async fn connect_single(client: &Client, keys: &str) -> Result<(Commands, Subscription), SinkError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let connection = within(client.get_multiplexed_async_connection_with_config(&config)).await?;
    let info = client.get_connection_info();
    let commands = Commands::Single {
        connection,
        address: info.addr().to_string(),
    };
    Ok((commands, subscribe(client, info.redis_settings().db(), keys).await?))
}

async fn subscribe(client: &Client, db: i64, keys: &str) -> Result<Subscription, SinkError> {
    let (mut sink, mut stream) = within(client.get_async_pubsub()).await?.split();
    let prefix = format!("__session@{db}__:");
    within(sink.psubscribe(format!("{prefix}{keys}"))).await?;
    let (sender, waiting) = mpsc::channel(MAX_WAITING);
    let (overflow, overflowed) = tokio::sync::watch::channel(());
    // The server disconnects who does not take what it sends, and the stream would grow without bounds: take it at once.
    let reader = tokio::spawn(async move {
        while let Some(message) = stream.next().await {
            let Ok(channel) = message.get_channel::<Vec<u8>>() else {
                continue;
            };
            let is_checkpoint = serde_json::from_slice(message.get_payload_bytes())
                .is_ok_and(|Notification { kind }| kind == "checkpoint");
            let (true, Some(key)) = (is_checkpoint, channel.strip_prefix(prefix.as_bytes())) else {
                continue;
            };
            match sender.try_send(key.to_vec()) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    let _ = overflow.send(());
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        }
    });
    Ok(Subscription {
        sink,
        waiting,
        overflowed,
        reader,
    })
}

#[derive(serde::Deserialize)]
struct Notification {
    kind: String,
}

/// The keys of which a checkpoint was published, as they come.
pub(crate) struct Subscription {
    sink: PubSubSink,
    waiting: mpsc::Receiver<Vec<u8>>,
    overflowed: tokio::sync::watch::Receiver<()>,
    reader: JoinHandle<()>,
}

impl Subscription {
    /// The next key; nothing if the connection is gone.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        self.waiting.recv().await
    }

    pub(crate) fn next_waiting(&mut self) -> Option<Vec<u8>> {
        self.waiting.try_recv().ok()
    }

    /// Whether more came than can wait, since this was asked last.
    pub(crate) fn has_overflowed(&mut self) -> bool {
        let has = self.overflowed.has_changed().unwrap_or(false);
        self.overflowed.mark_unchanged();
        has
    }

    /// Asks the server for a sign of life: a connection whose other end is gone without a word stays silent, too.
    pub(crate) async fn check(&mut self) -> Result<(), SinkError> {
        within(self.sink.ping::<Value>()).await.map(drop)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A connection for commands. Cloned freely: clones share it, and what they send travels together.
#[derive(Clone)]
pub(crate) enum Commands {
    Single {
        connection: MultiplexedConnection,
        address: String,
    },
    Cluster(ClusterConnection),
}

/// A place to scan.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The server itself.
    Only,
    /// A primary of a cluster.
    Primary { host: String, port: u16 },
}

impl Commands {
    /// Sends a command to where this key is.
    pub(crate) async fn at_key(&mut self, cmd: Cmd, key: &[u8]) -> Result<Value, SinkError> {
        let reply = match self {
            Commands::Single { connection, .. } => connection.send_packed_command(&cmd).await,
            Commands::Cluster(connection) => connection.route_command(cmd, RoutingInfo::SingleNode(home(key))).await,
        };
        Ok(reply.and_then(Value::extract_error)?)
    }

    /// Sends a transaction to where this key is, with all others in the same slot; the replies in order, errors among them.
    pub(crate) async fn transaction_at_key(&mut self, pipeline: Pipeline, key: &[u8]) -> Result<Vec<Value>, SinkError> {
        // MULTI, each one's QUEUED, and EXEC, whose reply is the one that counts.
        let exec_at = pipeline.len() + 1;
        let replies = match self {
            Commands::Single { connection, .. } => connection.send_packed_commands(&pipeline, exec_at, 1).await,
            Commands::Cluster(connection) => connection.route_pipeline(pipeline, exec_at, 1, home(key)).await,
        };
        match replies?.into_iter().next() {
            Some(Value::Array(replies)) => Ok(replies),
            Some(Value::ServerError(error)) => Err(redis::RedisError::from(error).into()),
            _ => Err(unexpected("EXEC", "no array")),
        }
    }

    /// Every place where sessions are.
    pub(crate) async fn nodes(&mut self) -> Result<Vec<Node>, SinkError> {
        let Commands::Cluster(connection) = self else {
            return Ok(vec![Node::Only]);
        };
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let anywhere = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        let told = connection.route_command(slots, anywhere).await?.extract_error()?;
        let mut primaries: Vec<(String, u16)> = Vec::new();
        for range in array("CLUSTER SLOTS", told)? {
            let primary = array("CLUSTER SLOTS", range)?.into_iter().nth(2);
            let mut primary = array("CLUSTER SLOTS", primary.unwrap_or(Value::Nil))?.into_iter();
            let (host, port) = (primary.next().and_then(tolerant::text), primary.next());
            let port = port.and_then(|port| u16::try_from(tolerant::int(&port)?).ok());
            let port = expected("CLUSTER SLOTS", port, "a node's port")?;
            let host = host.unwrap_or_default();
            if !primaries.contains(&(host.clone(), port)) {
                primaries.push((host, port));
            }
        }
        Ok(primaries
            .into_iter()
            .map(|(host, port)| Node::Primary { host, port })
            .collect())
    }

    pub(crate) async fn at_node(&mut self, cmd: Cmd, node: &Node) -> Result<Value, SinkError> {
        let reply = match (self, node) {
            (Commands::Single { connection, .. }, _) => connection.send_packed_command(&cmd).await,
            (Commands::Cluster(connection), Node::Only) => {
                let anywhere = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                connection.route_command(cmd, anywhere).await
            }
            (Commands::Cluster(connection), Node::Primary { host, port }) => {
                let there = SingleNodeRoutingInfo::ByAddress {
                    host: host.clone(),
                    port: *port,
                };
                connection.route_command(cmd, RoutingInfo::SingleNode(there)).await
            }
        };
        Ok(reply.and_then(Value::extract_error)?)
    }
}

/// The primary that has the key.
fn home(key: &[u8]) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}

async fn within<T>(answer: impl Future<Output = redis::RedisResult<T>>) -> Result<T, SinkError> {
    match tokio::time::timeout(CONNECT_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(SinkError::TimedOut("Redis")),
    }
}
