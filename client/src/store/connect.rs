//! Connecting, and repeating commands after a connection was lost.

use std::future::Future;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use crate::request::{self, Request};
use crate::{AsyncSessionConnection, Result, SessionError};

/// Makes the connections of a store.
///
/// Implemented for a [`redis::Client`], with `cluster-async` for a cluster client, with `sentinel` for a Sentinel client in a tokio mutex,
/// and for a multiplexed connection that is there already. A pool implements it by handing out one of its connections.
///
/// ```
/// use std::time::Duration;
/// use redis::aio::MultiplexedConnection;
/// use redis_session_client::{Connect, SessionResult};
///
/// /// The connections of whichever server is meant now.
/// struct Current(std::sync::Mutex<redis::Client>);
///
/// impl Connect for Current {
///     type Connection = MultiplexedConnection;
///
///     async fn connect(&self, response_timeout: Duration) -> SessionResult<MultiplexedConnection> {
///         let client = self.0.lock().expect("nobody panics with it").clone();
///         client.connect(response_timeout).await
///     }
///
///     fn address(&self) -> String {
///         self.0.lock().expect("nobody panics with it").address()
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> SessionResult<()> {
/// # let server = redis_session_tests::Server::start();
/// let current = Current(std::sync::Mutex::new(redis::Client::open(server.url())?));
/// let store = redis_session_client::SessionStore::new(current, "acme");
/// assert_eq!(store.create(redis_session_client::Create::new()).await?.len().await?, 0);
/// # Ok(())
/// # }
/// ```
pub trait Connect: Send + Sync + 'static {
    /// The type of its connections.
    type Connection: AsyncSessionConnection + Clone + Send + Sync + 'static;

    /// Makes a connection on which a reply may take `response_timeout`. A follower asks for one of its own.
    ///
    /// # Errors
    /// Why no connection could be made.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let url = server.url();
    /// use std::time::Duration;
    /// use redis_session_client::{AsyncSessionCommands, Connect};
    ///
    /// let client = redis::Client::open(url)?;
    /// let mut connection = client.connect(Duration::from_secs(5)).await?;
    /// assert_eq!(connection.session_len("session:1").await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    fn connect(&self, response_timeout: Duration) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Whether each call of [`Connect::connect`] makes a connection of its own: true, unless it says otherwise. On one that is shared, a
    /// read that waits would keep everybody waiting: a follower then asks every now and then.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let url = server.url();
    /// use redis_session_client::Connect;
    ///
    /// assert!(redis::Client::open(url)?.makes_new_connections());
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn makes_new_connections(&self) -> bool {
        true
    }

    /// The address it connects to, for error messages: without a password.
    ///
    /// ```
    /// use redis_session_client::Connect;
    ///
    /// let client = redis::Client::open("redis://:secret@10.0.0.1:7000/")?;
    /// assert_eq!(client.address(), "10.0.0.1:7000");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn address(&self) -> String {
        "the server".to_owned()
    }
}

/// The addresses that a cluster client of redis-rs has, which it only shows in its debug output: `Tcp("host", port)` or
/// `TcpTls { host: "host", port: port, … }`.
#[cfg(feature = "cluster-async")]
fn addresses_in(debug: &str) -> Option<String> {
    let mut found = Vec::new();
    let parts = debug.split("addr: Tcp").skip(1);
    let parts = parts.filter_map(|part| part.strip_prefix("(\"").or_else(|| part.strip_prefix("Tls { host: \"")));
    for (host, rest) in parts.filter_map(|part| part.split_once('"')) {
        let port = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let port = port.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let address = format!("{host}:{port}");
        if !port.is_empty() && !found.contains(&address) {
            found.push(address);
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

fn config(response_timeout: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(response_timeout))
}

impl Connect for redis::Client {
    type Connection = MultiplexedConnection;

    async fn connect(&self, response_timeout: Duration) -> Result<MultiplexedConnection> {
        let config = config(response_timeout);
        Ok(self.get_multiplexed_async_connection_with_config(&config).await?)
    }

    fn address(&self) -> String {
        self.get_connection_info().addr().to_string()
    }
}

/// Hands out this one connection. When it is lost, every later command of the store fails.
impl Connect for MultiplexedConnection {
    type Connection = MultiplexedConnection;

    async fn connect(&self, response_timeout: Duration) -> Result<MultiplexedConnection> {
        let mut connection = self.clone();
        connection.set_response_timeout(response_timeout);
        Ok(connection)
    }

    fn makes_new_connections(&self) -> bool {
        false
    }
}

/// Build it with [`retries(0)`](redis::cluster::ClusterClientBuilder::retries). Otherwise redis-rs itself sends a command again when its
/// connection is lost, up to 16 times, although it may have been executed. Of appends each is still appended once; an event may be recorded
/// twice, a message more be popped, and an [`edit`](crate::SessionHandle::edit) takes its own doing for somebody else's and does it again.
/// Slots that move are followed with `retries(0)`, too, and the store tries again what is safe to.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redis_session_client::SessionResult<()> {
/// # let nodes = redis_session_tests::Cluster::start(1);
/// # let node = format!("redis://127.0.0.1:{}", nodes.node(0).port());
/// use redis::cluster::ClusterClient;
/// use redis_session_client::{Create, SessionStore};
///
/// let cluster = ClusterClient::builder([node]).retries(0).build()?;
/// let store = SessionStore::new(cluster, "acme");
/// assert_eq!(store.create(Create::new()).await?.len().await?, 0);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "cluster-async")]
impl Connect for redis::cluster::ClusterClient {
    type Connection = redis::cluster_async::ClusterConnection;

    async fn connect(&self, response_timeout: Duration) -> Result<Self::Connection> {
        let config = redis::cluster::ClusterConfig::new().set_response_timeout(response_timeout);
        Ok(self.get_async_connection_with_config(config).await?)
    }

    fn address(&self) -> String {
        addresses_in(&format!("{self:?}"))
            .map_or_else(|| "the cluster".into(), |nodes| format!("the cluster at {nodes}"))
    }
}

/// Connects to the primary that the sentinels name at that moment.
#[cfg(feature = "sentinel")]
impl Connect for Mutex<redis::sentinel::SentinelClient> {
    type Connection = MultiplexedConnection;

    async fn connect(&self, response_timeout: Duration) -> Result<MultiplexedConnection> {
        let config = config(response_timeout);
        let mut sentinels = self.lock().await;
        Ok(sentinels.get_async_connection_with_config(&config).await?)
    }

    /// redis-rs does not show which sentinels a client has.
    fn address(&self) -> String {
        "the primary that the sentinels name".to_owned()
    }
}

/// How long and how often a store repeats what failed for the moment: a lost connection, a conflict, a lease that another agent holds.
///
/// Until a store has had its first connection nothing is repeated: a wrong address is [`SessionError::Unreachable`] as soon as the first
/// attempt failed.
///
/// ```
/// use std::time::Duration;
/// use redis_session_client::Retry;
///
/// let retry = Retry { give_up_after: Duration::from_secs(60), ..Retry::default() };
/// assert_eq!(retry.first_wait, Duration::from_millis(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The time after which it gives up: 30 s.
    pub give_up_after: Duration,
    /// The time that a reply may take: 5 s.
    pub response_timeout: Duration,
    /// The longest pause between the first two attempts: 2 ms. Each further pause is twice as long, and shortened at random, so that many clients do
    /// not repeat at the same moment.
    pub first_wait: Duration,
    /// The longest pause of all: 500 ms.
    pub longest_wait: Duration,
    /// The time without use after which a connection is checked before a command that must not be sent twice: 1 s. The check is a read.
    /// Without it, the outcome of such a command would be unknown where the connection was lost long before.
    pub probe_after_idle: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            give_up_after: Duration::from_secs(30),
            response_timeout: Duration::from_secs(5),
            first_wait: Duration::from_millis(2),
            longest_wait: Duration::from_millis(500),
            probe_after_idle: Duration::from_secs(1),
        }
    }
}

impl Retry {
    pub(super) fn begin(self) -> Attempts {
        Attempts {
            retry: self,
            began: Instant::now(),
            made: 1,
        }
    }
}

/// The attempts at one thing.
pub(super) struct Attempts {
    retry: Retry,
    began: Instant,
    pub(super) made: u32,
}

impl Attempts {
    /// Waits for the next attempt after this error; false if there is none.
    pub(super) async fn may_repeat(&mut self, error: &SessionError) -> bool {
        let may_help = error.is_transient() && !matches!(error, SessionError::Unreachable { .. });
        may_help && self.wait().await
    }

    /// Waits for the next attempt; false if there is none.
    pub(super) async fn wait(&mut self) -> bool {
        let factor = 1_u32.checked_shl(self.made - 1).unwrap_or(u32::MAX);
        let longest = self
            .retry
            .first_wait
            .saturating_mul(factor)
            .min(self.retry.longest_wait);
        // Half of it for certain, the rest by chance: the low bits of a UUIDv7 are random.
        let chance = (uuid::Uuid::now_v7().as_u128() & 0xffff) as u32;
        self.wait_for(longest / 2 + longest / 2 / 0x1_0000 * chance).await
    }

    /// Waits this long for the next attempt; false if the time to give up comes before.
    pub(super) async fn wait_for(&mut self, wait: Duration) -> bool {
        if self.began.elapsed() + wait > self.retry.give_up_after {
            return false;
        }
        tokio::time::sleep(wait).await;
        self.made += 1;
        true
    }
}

/// The connection that all users of a store share. A lost one is replaced.
pub(super) struct Connections<C: Connect> {
    connect: C,
    pub(super) retry: Retry,
    shared: Mutex<Shared<C::Connection>>,
    used: std::sync::Mutex<Instant>,
    /// There was a connection once, so the address is right.
    was_reached: AtomicBool,
}

/// A connection, and how many there were before: who finds it lost says which one.
struct Shared<T> {
    connection: Option<T>,
    generation: u64,
}

impl<C: Connect> Connections<C> {
    pub(super) fn new(connect: C, retry: Retry) -> Connections<C> {
        Connections {
            connect,
            retry,
            shared: Mutex::new(Shared {
                connection: None,
                generation: 0,
            }),
            used: std::sync::Mutex::new(Instant::now()),
            was_reached: AtomicBool::new(false),
        }
    }

    /// Makes a connection that is not shared, for reads that block.
    pub(super) async fn alone(&self, response_timeout: Duration) -> Result<C::Connection> {
        match self.connect.connect(response_timeout).await {
            Err(SessionError::Redis(error)) if self.is_unreachable(&error) => Err(SessionError::Unreachable {
                address: self.connect.address(),
                error,
            }),
            Err(error) => Err(error),
            Ok(connection) => {
                self.was_reached.store(true, Ordering::Relaxed);
                Ok(connection)
            }
        }
    }

    /// Whether no server ever answered at the address. An error reply is an answer.
    fn is_unreachable(&self, error: &redis::RedisError) -> bool {
        let is_silent = error.code().is_none() && SessionError::Redis(error.clone()).is_transient();
        is_silent && !self.was_reached.load(Ordering::Relaxed)
    }

    pub(super) fn may_wait(&self) -> bool {
        self.connect.makes_new_connections()
    }

    async fn get(&self) -> Result<(C::Connection, u64)> {
        let mut shared = self.shared.lock().await;
        let connection = match &shared.connection {
            Some(connection) => connection.clone(),
            None => {
                let connection = self.alone(self.retry.response_timeout).await?;
                shared.connection = Some(connection.clone());
                shared.generation += 1;
                self.note_use();
                connection
            }
        };
        Ok((connection, shared.generation))
    }

    async fn lost(&self, generation: u64) {
        let mut shared = self.shared.lock().await;
        if shared.generation == generation {
            shared.connection = None;
        }
    }

    fn note_use(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_in_use(&self) -> bool {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < self.retry.probe_after_idle
    }

    pub(super) async fn run<T>(&self, request: &Request<T>) -> Result<T> {
        let is_repeatable = request.command().is_repeatable();
        let mut attempts = self.retry.begin();
        loop {
            let error = match self.get().await {
                Ok((mut connection, generation)) => {
                    let found_lost = match is_repeatable || self.is_in_use() {
                        true => None,
                        false => probe(&mut connection, request.key()).await,
                    };
                    let is_sent = found_lost.is_none();
                    let error = match found_lost {
                        Some(error) => error,
                        None => match request.query_async(&mut connection).await {
                            Ok(reply) => {
                                self.note_use();
                                return Ok(reply);
                            }
                            Err(error) => error,
                        },
                    };
                    if error.is_transient() || error.is_outcome_unknown() {
                        self.lost(generation).await;
                    }
                    if is_sent && error.is_outcome_unknown() && !is_repeatable {
                        return Err(error);
                    }
                    error
                }
                Err(error) => error,
            };
            if !attempts.may_repeat(&error).await {
                return Err(error);
            }
        }
    }
}

/// Sends a read to check the connection; the error if it is lost. Any reply, an error reply too, shows that it works.
async fn probe(connection: &mut impl AsyncSessionConnection, key: &[u8]) -> Option<SessionError> {
    let error = request::len(key).at_primary().query_async(connection).await.err()?;
    (error.is_transient() || error.is_outcome_unknown()).then_some(error)
}

/// The error of a handle that gives up.
pub(super) fn concurrent(attempts: &Attempts, last: SessionError) -> SessionError {
    SessionError::Concurrent {
        attempts: attempts.made,
        last: Box::new(last),
    }
}

#[cfg(all(test, feature = "cluster-async"))]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_nodes_of_a_cluster_and_no_password() {
        let nodes = ["redis://:secret@10.0.0.1:7000/", "redis://:secret@10.0.0.2:7001/"];
        let cluster = redis::cluster::ClusterClient::new(nodes).unwrap();
        assert_eq!(cluster.address(), "the cluster at 10.0.0.1:7000, 10.0.0.2:7001");
        assert_eq!(
            addresses_in(r#"addr: TcpTls { host: "h", port: 6380, insecure: false }"#).as_deref(),
            Some("h:6380")
        );
        assert_eq!(addresses_in("nothing"), None);
    }
}
