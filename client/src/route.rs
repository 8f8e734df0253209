//! Any command to wherever its key is: one server, or the primaries of a cluster, over a synchronous connection to each.
//!
//! redis-rs's cluster connection sends commands one after the other and hides its nodes. A program that walks a database and asks about
//! thousands of keys wants both: [`Router`] has the nodes ([`Router::nodes`], [`Router::at`]), sends as many commands at once as there are
//! ([`Router::send_all`]), and follows keys that move.
//!
//! ```
//! # let server = redis_session_tests::Server::with_sample();
//! use redis_session_client::route::{RouteError, Router};
//! use redis_session_client::{SessionError, request};
//!
//! let client = redis::Client::open(server.url())?;
//! let dial = move |_: Option<&_>| client.get_connection().map_err(RouteError::from);
//! let mut router: Router<redis::Connection, RouteError> = Router::single(dial)?;
//!
//! let lens: Vec<redis::Cmd> = ["session:1", "session:2"].map(|key| request::len(key).command().cmd().clone()).into();
//! let asked = ["session:1", "session:2"].iter().zip(&lens).map(|(key, len)| (key.as_bytes(), std::slice::from_ref(len)));
//! let answers = router.send_all(&asked.collect::<Vec<_>>())?;
//! assert_eq!(answers[0], [Ok(redis::Value::Int(2))]);
//! # Ok::<(), SessionError>(())
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::time::Duration;

use redis::{Cmd, ConnectionLike, RedisError, RedisResult, ServerError, Value};

use crate::request::Request;
use crate::tolerant::{array, int, text};
use crate::{SessionError, key_slot};

/// How often a redirection is followed: slots move one at a time.
const REDIRECTIONS: usize = 5;

/// How long to wait before a command is sent again whose keys are just moving.
const PAUSE: Duration = Duration::from_millis(50);

/// A reply, or the error that the server replied.
pub type Answer = std::result::Result<Value, ServerError>;

/// The address of a node.
///
/// ```
/// use redis_session_client::route::Node;
///
/// let node = Node { host: "10.0.0.1".into(), port: 6379 };
/// assert_eq!(node.to_string(), "10.0.0.1:6379");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a command did not get to its key.
///
/// ```
/// use redis_session_client::SessionError;
/// use redis_session_client::route::RouteError;
///
/// let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// let lost = RouteError::from(redis::RedisError::from(reset));
/// assert!(SessionError::from(lost).is_outcome_unknown());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteError {
    /// The connection was lost; what was sent may have been executed.
    Lost(RedisError),
    /// The server does not tell of slots: it is not part of a cluster, or does not let this user ask.
    NoCluster(ServerError),
    /// No node of the cluster has a slot.
    NoSlots,
    /// The server is a node of a cluster and the key is on another one: a [`Router::cluster`] would go there.
    Elsewhere(ServerError),
}

impl From<RedisError> for RouteError {
    fn from(error: RedisError) -> RouteError {
        RouteError::Lost(error)
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Lost(error) => error.fmt(f),
            RouteError::NoCluster(error) => write!(f, "the server does not tell of slots ({error})"),
            RouteError::NoSlots => f.write_str("no node of the cluster has a slot"),
            RouteError::Elsewhere(error) => write!(f, "the key is on another node of a cluster ({error})"),
        }
    }
}

impl std::error::Error for RouteError {}

impl From<RouteError> for SessionError {
    fn from(error: RouteError) -> SessionError {
        match error {
            RouteError::Lost(error) => error.into(),
            RouteError::NoCluster(error) | RouteError::Elsewhere(error) => RedisError::from(error).into(),
            RouteError::NoSlots => SessionError::unexpected("no slots").of_command("CLUSTER SLOTS"),
        }
    }
}

/// Opens a connection to a node, or, without one, to wherever the program was told to go first.
type Dial<C, E> = Box<dyn FnMut(Option<&Node>) -> std::result::Result<C, E> + Send>;

/// Connections to wherever keys are. `C` is what a connection is, `E` what the program's errors are.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// use redis_session_client::route::{RouteError, Router};
/// use redis_session_client::{SessionError, request};
///
/// let client = redis::Client::open(server.url())?;
/// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
/// assert_eq!(router.query(&request::len("session:1"))?, 2);
/// # Ok::<(), SessionError>(())
/// ```
pub struct Router<C, E> {
    dial: Dial<C, E>,
    slots: Option<Slots>,
    connections: HashMap<Option<Node>, C>,
}

/// Which node has which slots, as a node tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slots {
    /// What nodes are called that do not know their own host.
    host: String,
    ranges: Vec<SlotRange>,
}

/// The first slot and the last, and where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SlotRange {
    first: i64,
    last: i64,
    node: Node,
}

impl Slots {
    fn ask<C: ConnectionLike>(connection: &mut C, host: String) -> std::result::Result<Slots, RouteError> {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let reply = send(connection, std::slice::from_ref(&slots))?.pop();
        let reply = reply.unwrap_or(Ok(Value::Nil)).map_err(RouteError::NoCluster)?;
        let range = |range: Value| {
            let mut range = array(range).into_iter();
            let (first, last) = (int(&range.next()?)?, int(&range.next()?)?);
            let mut primary = array(range.next()?).into_iter();
            let told = text(primary.next()?).filter(|host| !host.is_empty() && host != "?");
            let port = u16::try_from(int(&primary.next()?)?).ok()?;
            let node = Node {
                host: told.unwrap_or_else(|| host.clone()),
                port,
            };
            Some(SlotRange { first, last, node })
        };
        let ranges: Vec<SlotRange> = array(reply).into_iter().filter_map(range).collect();
        match ranges.is_empty() {
            true => Err(RouteError::NoSlots),
            false => Ok(Slots { host, ranges }),
        }
    }

    fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.ranges.iter().map(|range| range.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }

    fn node_of(&self, key: &[u8]) -> Option<&Node> {
        let slot = i64::from(key_slot(key));
        let range = self
            .ranges
            .iter()
            .find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| &range.node)
    }
}

impl<C, E> fmt::Debug for Router<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl<C: ConnectionLike, E: From<RouteError>> Router<C, E> {
    /// To one server: `dial` is called without a node, now and whenever the connection was [forgotten](Router::forget).
    ///
    /// # Errors
    /// What `dial` says.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, route::Router};
    /// let client = redis::Client::open(server.url())?;
    /// let router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert_eq!(router.nodes(), [None]);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn single(dial: impl FnMut(Option<&Node>) -> std::result::Result<C, E> + Send + 'static) -> Result<Self, E> {
        let mut router = Router {
            dial: Box::new(dial),
            slots: None,
            connections: HashMap::new(),
        };
        router.at(None)?;
        Ok(router)
    }

    /// To a cluster: `dial` is called without a node for the first one, which says which there are, and then for each that a key is on.
    /// `host` is that of the first one: what a node means that does not know its own.
    ///
    /// # Errors
    /// What `dial` says; [`RouteError::NoCluster`], [`RouteError::NoSlots`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::route::{RouteError, Router};
    /// let client = redis::Client::open(server.url())?;
    /// let dial = move |_: Option<&_>| client.get_connection().map_err(RouteError::from);
    /// // This one is no cluster.
    /// let refused = Router::<_, RouteError>::cluster(dial, "127.0.0.1").unwrap_err();
    /// assert!(matches!(refused, RouteError::NoCluster(_)));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn cluster(
        dial: impl FnMut(Option<&Node>) -> std::result::Result<C, E> + Send + 'static,
        host: impl Into<String>,
    ) -> Result<Self, E> {
        let mut router = Router::single(dial)?;
        let slots = Slots::ask(router.at(None)?, host.into())?;
        router.slots = Some(slots);
        router.connections.clear();
        Ok(router)
    }

    /// Whether it goes to a cluster.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert!(!router.is_cluster());
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn is_cluster(&self) -> bool {
        self.slots.is_some()
    }

    /// The primaries of the cluster, or the one server, which is `None`.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert_eq!(router.nodes().len(), 1);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn nodes(&self) -> Vec<Option<Node>> {
        match &self.slots {
            Some(slots) => slots.nodes().into_iter().map(Some).collect(),
            None => vec![None],
        }
    }

    /// Where a key is.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert_eq!(router.node_of(b"session:1"), None);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn node_of(&self, key: &[u8]) -> Option<Node> {
        self.slots.as_ref()?.node_of(key).cloned()
    }

    /// The connection to a node, made if there is none.
    ///
    /// # Errors
    /// What the router's `dial` says.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionCommands, SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let connection: &mut redis::Connection = router.at(None)?;
    /// assert_eq!(connection.session_len("session:1")?, 2);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn at(&mut self, node: Option<&Node>) -> Result<&mut C, E> {
        match self.connections.entry(node.cloned()) {
            Entry::Occupied(connection) => Ok(connection.into_mut()),
            Entry::Vacant(place) => Ok(place.insert((self.dial)(node)?)),
        }
    }

    /// The connection to the node of a key.
    ///
    /// # Errors
    /// What the router's `dial` says.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionCommands, SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert_eq!(router.connection_of(b"session:1")?.session_len("session:1")?, 2);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn connection_of(&mut self, key: &[u8]) -> Result<&mut C, E> {
        let node = self.node_of(key);
        self.at(node.as_ref())
    }

    /// Drops the connection to a node, if there is one: the next is new.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// router.forget(None);
    /// assert_eq!(router.query(&request::len("session:1"))?, 0);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn forget(&mut self, node: Option<&Node>) {
        self.connections.remove(&node.cloned());
    }

    /// Sends one request to its key and reads the reply.
    ///
    /// # Errors
    /// What the server replies, what is wrong with the connection, or with the reply.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{ReadOptions, SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let entries = router.query(&request::read("session:1", ReadOptions::after(0)).tolerant())?;
    /// assert_eq!(entries.len(), 4);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn query<T>(&mut self, request: &Request<T>) -> Result<T, E>
    where
        E: From<SessionError>,
    {
        let answer = self.call(request.key(), request.command().cmd())?;
        Ok(request.read(answer.unwrap_or_else(Value::ServerError))?)
    }

    /// Sends one command to this key.
    ///
    /// # Errors
    /// What is wrong with the connection, or with the cluster.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let refused = router.call(b"session:1", redis::cmd("GET").arg("session:1"))?.unwrap_err();
    /// assert_eq!(refused.code(), "WRONGTYPE");
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn call(&mut self, key: &[u8], command: &Cmd) -> Result<Answer, E> {
        let answer = self.send(key, std::slice::from_ref(command))?.pop();
        Ok(answer.unwrap_or(Ok(Value::Nil)))
    }

    /// Sends commands on one key, at once, and after it if it is on another node. An answer for each.
    ///
    /// # Errors
    /// As [`Router::call`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let len = request::len("session:1").command().cmd().clone();
    /// assert_eq!(router.send(b"session:1", &[len.clone(), len])?.len(), 2);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn send(&mut self, key: &[u8], commands: &[Cmd]) -> Result<Vec<Answer>, E> {
        let mut answers = self.send_to(self.node_of(key), commands)?;
        for _ in 0..REDIRECTIONS {
            let Some(refused) = redirection(&answers) else { break };
            let Some(slots) = &self.slots else {
                return Err(RouteError::Elsewhere(refused.clone()).into());
            };
            match asked(refused, &slots.host) {
                // The slot is moving, and this key is on its new node already.
                Some(node) => {
                    let mut asking = vec![redis::cmd("ASKING")];
                    asking.extend_from_slice(commands);
                    answers = self.send_to(Some(node), &asking)?.split_off(1);
                }
                None => {
                    if refused.code() == "TRYAGAIN" {
                        std::thread::sleep(PAUSE);
                    }
                    self.refresh()?;
                    answers = self.send_to(self.node_of(key), commands)?;
                }
            }
        }
        Ok(answers)
    }

    /// Sends commands of many keys, as many at once as there are, the nodes one after the other. The answers of each.
    ///
    /// # Errors
    /// As [`Router::call`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let len = [request::len("session:1").command().cmd().clone()];
    /// assert_eq!(router.send_all(&[(b"session:1", &len)])?, [[Ok(redis::Value::Int(2))]]);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn send_all<K: AsRef<[u8]>, M: AsRef<[Cmd]>>(&mut self, all: &[(K, M)]) -> Result<Vec<Vec<Answer>>, E> {
        let mut of_node: HashMap<Option<Node>, Vec<usize>> = HashMap::new();
        for (place, (key, _)) in all.iter().enumerate() {
            of_node.entry(self.node_of(key.as_ref())).or_default().push(place);
        }
        let mut answers: Vec<Vec<Answer>> = vec![Vec::new(); all.len()];
        for (node, places) in of_node {
            let commands = places.iter().flat_map(|&place| all[place].1.as_ref());
            let mut replies = send(self.at(node.as_ref())?, commands)
                .map_err(RouteError::Lost)?
                .into_iter();
            for place in places {
                answers[place] = replies.by_ref().take(all[place].1.as_ref().len()).collect();
            }
        }
        for (answers, (key, commands)) in answers.iter_mut().zip(all) {
            if redirection(answers).is_some() {
                *answers = self.send(key.as_ref(), commands.as_ref())?;
            }
        }
        Ok(answers)
    }

    /// Sends commands on one key in `MULTI` and `EXEC`. The answer is what `EXEC` replied, an array, in which error replies are
    /// [`Value::ServerError`]; or why nothing was executed.
    ///
    /// # Errors
    /// As [`Router::call`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let len = request::len("session:1").command().cmd().clone();
    /// let reply = router.transaction(b"session:1", &[len])?;
    /// assert_eq!(reply, Ok(redis::Value::Array(vec![redis::Value::Int(2)])));
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn transaction(&mut self, key: &[u8], commands: &[Cmd]) -> Result<Answer, E> {
        let answers = self.send(key, &in_multi(commands))?;
        Ok(of_multi(answers))
    }

    /// A transaction for each key, as [`Router::send_all`] sends commands.
    ///
    /// # Errors
    /// As [`Router::call`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # use redis_session_client::{SessionError, request, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// let of = |key: &str| (key.to_owned(), vec![request::len(key).command().cmd().clone()]);
    /// assert_eq!(router.transactions(&[of("session:1"), of("session:2")])?.len(), 2);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn transactions<K: AsRef<[u8]>, M: AsRef<[Cmd]>>(&mut self, all: &[(K, M)]) -> Result<Vec<Answer>, E> {
        let all: Vec<(&[u8], Vec<Cmd>)> = all
            .iter()
            .map(|(key, commands)| (key.as_ref(), in_multi(commands.as_ref())))
            .collect();
        Ok(self.send_all(&all)?.into_iter().map(of_multi).collect())
    }

    /// Asks again where slots are; whether they are on other nodes than before. From now on keys go to these. Any node is asked that can
    /// be reached.
    ///
    /// # Errors
    /// As [`Router::call`]: of the last node that was asked.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # use redis_session_client::{SessionError, route::Router};
    /// # let client = redis::Client::open(server.url())?;
    /// let mut router = Router::<_, SessionError>::single(move |_| Ok(client.get_connection()?))?;
    /// assert!(!router.refresh()?);
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn refresh(&mut self) -> Result<bool, E> {
        let Some(before) = self.slots.clone() else {
            return Ok(false);
        };
        let mut failed = None;
        for node in before.nodes() {
            let host = before.host.clone();
            let asked = match self.at(Some(&node)) {
                Ok(connection) => Slots::ask(connection, host).map_err(E::from),
                Err(error) => Err(error),
            };
            match asked {
                Ok(now) => {
                    let has_moved = before != now;
                    self.slots = Some(now);
                    return Ok(has_moved);
                }
                Err(error) => {
                    self.forget(Some(&node));
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| RouteError::NoSlots.into()))
    }

    fn send_to(&mut self, node: Option<Node>, commands: &[Cmd]) -> Result<Vec<Answer>, E> {
        let connection = self.at(node.as_ref())?;
        Ok(send(connection, commands).map_err(RouteError::Lost)?)
    }
}

type Result<T, E> = std::result::Result<T, E>;

/// Sends commands over one connection, at once. An answer for each.
///
/// # Errors
/// What is wrong with the connection.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::route;
///
/// let answers = route::send(&mut connection, &[redis::cmd("PING"), redis::cmd("NO-SUCH-COMMAND")])?;
/// assert_eq!(answers[0], Ok(redis::Value::SimpleString("PONG".into())));
/// assert!(answers[1].is_err());
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub fn send<'a, C: ConnectionLike>(
    connection: &mut C,
    commands: impl IntoIterator<Item = &'a Cmd>,
) -> RedisResult<Vec<Answer>> {
    let (mut packed, mut count) = (Vec::new(), 0);
    for command in commands {
        command.write_packed_command(&mut packed);
        count += 1;
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let replies = connection.req_packed_commands(&packed, 0, count)?;
    Ok(replies.into_iter().map(answer).collect())
}

fn answer(reply: Value) -> Answer {
    match reply {
        Value::ServerError(error) => Err(error),
        reply => Ok(reply),
    }
}

/// The first answer that says that the key is elsewhere, now or for a moment.
fn redirection(answers: &[Answer]) -> Option<&ServerError> {
    let mut refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    refused.find(|error| ["MOVED", "ASK", "TRYAGAIN"].contains(&error.code()))
}

/// The node of an `ASK 3999 host:port`.
fn asked(error: &ServerError, own_host: &str) -> Option<Node> {
    let (host, port) = error.details()?.rsplit_once(' ')?.1.rsplit_once(':')?;
    let host = if host.is_empty() { own_host } else { host };
    let node = Node {
        host: host.to_owned(),
        port: port.parse().ok()?,
    };
    (error.code() == "ASK").then_some(node)
}

fn in_multi(commands: &[Cmd]) -> Vec<Cmd> {
    let mut all = vec![redis::cmd("MULTI")];
    all.extend_from_slice(commands);
    all.push(redis::cmd("EXEC"));
    all
}

/// What `EXEC` replied; or what was refused first: what is said to `MULTI` or when a command is queued tells more than `EXEC` does.
fn of_multi(answers: Vec<Answer>) -> Answer {
    answers.into_iter().try_fold(Value::Nil, |_, answer| answer)
}
