//! Commands as values: what is sent, where it goes, how its reply is read.
//!
//! | file | commands |
//! |---|---|
//! | `write.rs` | the options of every command that writes a session |
//! | `conversation.rs` | `CREATE APPEND RANGE CONTEXT GET GETEX INFO LEN META WINDOW POP REMOVE REDACT COMPACT CLEAR` |
//! | `entity.rs` | `ENTITY …` |
//! | `event.rs` | `EVENT …`, `AGENT …`, `READ` |
//! | `checkpoint.rs` | `CHECKPOINT …`, `FORK`, `ANCHOR …` |
//! | `directory.rs` | `INDEX …`, `MIGRATE` |

mod checkpoint;
mod conversation;
mod directory;
mod entity;
mod event;
mod write;

pub use checkpoint::*;
pub use conversation::*;
pub use directory::*;
pub use entity::*;
pub use event::*;
pub use write::*;

use std::fmt;

use redis::{Arg, Cmd, ToRedisArgs, Value};

use crate::Result;
use crate::value::{Mode, Reader};

/// One command, ready to be sent, and how its reply is read.
///
/// The methods of [`SessionCommands`](crate::SessionCommands) make one and send it at once; a [`SessionPipeline`](crate::SessionPipeline) collects
/// them. They are made by the functions in [`request`](crate::request).
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::request;
///
/// let len = request::len("session:1");
/// assert_eq!(len.key(), b"session:1");
/// assert_eq!(len.query(&mut connection)?, 0);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Request<T> {
    pub(crate) command: Command,
    pub(crate) reply: ReplyOf<T>,
}

/// How a reply is read.
#[derive(Debug)]
pub(crate) struct ReplyOf<T> {
    reader: Reader<T>,
    mode: Mode,
}

impl<T> Clone for ReplyOf<T> {
    fn clone(&self) -> ReplyOf<T> {
        *self
    }
}

impl<T> Copy for ReplyOf<T> {}

impl<T> ReplyOf<T> {
    pub(crate) fn read(self, reply: Value) -> Result<T> {
        match reply {
            Value::ServerError(error) => Err(redis::RedisError::from(error).into()),
            reply => (self.reader)(reply, self.mode),
        }
    }
}

/// What is sent, and where to.
///
/// ```
/// use redis_session_client::{NewMessage, request, request::Command};
///
/// let request = request::append("session:1", NewMessage::user("hello"));
/// let command: &Command = request.command();
/// assert_eq!((command.name().as_str(), command.key()), ("SESSION.APPEND", b"session:1".as_slice()));
/// ```
#[derive(Debug, Clone)]
pub struct Command {
    cmd: Cmd,
    key: Key,
    is_read: bool,
    is_repeatable: bool,
}

/// By which key a command is routed.
#[derive(Debug, Clone)]
enum Key {
    /// This argument: of group commands the second, of all others the first.
    At(usize),
    /// One that was named beside the command.
    Given(Vec<u8>),
}

impl Command {
    /// The arguments, for redis-rs.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// let packed = request::len("k").command().cmd().get_packed_command();
    /// assert_eq!(packed, b"*2\r\n$11\r\nSESSION.LEN\r\n$1\r\nk\r\n");
    /// ```
    pub fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// The key, by whose slot a cluster routes it.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert_eq!(request::entity_get("k", "e").command().key(), b"k");
    /// ```
    pub fn key(&self) -> &[u8] {
        match &self.key {
            Key::At(at) => argument(&self.cmd, *at),
            Key::Given(key) => key,
        }
    }

    /// The slot of its key: see [`key_slot`](crate::key_slot).
    ///
    /// ```
    /// # use redis_session_client::{key_slot, request};
    /// assert_eq!(request::len("session:{acme}:1").command().slot(), key_slot("acme"));
    /// ```
    pub fn slot(&self) -> u16 {
        crate::key_slot(self.key())
    }

    /// Whether it writes nothing, so that a replica may answer it.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert!(request::len("k").command().is_read());
    /// ```
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Whether sending it again does nothing that was not done: a read, or an append with a `dedup` token.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// assert!(request::append("k", NewMessage::user("hello").append().dedup("request-1")).command().is_repeatable());
    /// assert!(!request::append("k", NewMessage::user("hello")).command().is_repeatable());
    /// ```
    pub fn is_repeatable(&self) -> bool {
        self.is_read || self.is_repeatable
    }

    /// The command's name, with the subcommand of a group.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert_eq!(request::entity_get("k", "e").command().name(), "SESSION.ENTITY GET");
    /// ```
    pub fn name(&self) -> String {
        let words = match self.key {
            Key::At(at) => at,
            Key::Given(_) => 1,
        };
        let words = (0..words).map(|at| String::from_utf8_lossy(argument(&self.cmd, at)));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// As one types it in redis-cli: for logs and tests.
///
/// ```
/// use redis_session_client::{NewMessage, request};
///
/// let append = request::append("session:1", NewMessage::user("Where is \"7\"?"));
/// assert_eq!(append.command().to_string(), r#"SESSION.APPEND session:1 MSG user 'Where is "7"?'"#);
/// ```
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, arg) in self.cmd.args_iter().enumerate() {
            let word = match arg {
                Arg::Simple(word) => word,
                _ => b"",
            };
            if at > 0 {
                f.write_str(" ")?;
            }
            write_word(word, f)?;
        }
        Ok(())
    }
}

/// A word, in quotes where redis-cli would not read it as one.
fn write_word(word: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.iter().all(is_plain) {
        return f.write_str(&String::from_utf8_lossy(word));
    }
    // Between single quotes JSON needs no escapes.
    if let Ok(text) = std::str::from_utf8(word)
        && text.contains('"')
        && !text.contains(|char: char| char.is_control() || matches!(char, '\'' | '\\'))
    {
        return write!(f, "'{text}'");
    }
    f.write_str("\"")?;
    for chunk in word.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                '\n' => f.write_str("\\n")?,
                char if char.is_control() => {
                    let mut bytes = [0; 4];
                    let bytes = char.encode_utf8(&mut bytes).bytes();
                    bytes.into_iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
                }
                char => write!(f, "{char}")?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    f.write_str("\"")
}

/// The command, as one types it in redis-cli.
///
/// ```
/// use redis_session_client::{MessageQuery, request};
///
/// assert_eq!(request::range("session:1", MessageQuery::newest(2)).to_string(), "SESSION.RANGE session:1 -2 -1");
/// ```
impl<T> fmt::Display for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

fn argument(cmd: &Cmd, at: usize) -> &[u8] {
    match cmd.args_iter().nth(at) {
        Some(Arg::Simple(bytes)) => bytes,
        _ => b"",
    }
}

impl<T> Request<T> {
    /// What is sent, and where to.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert_eq!(request::len("k").command().name(), "SESSION.LEN");
    /// ```
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// The key.
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert_eq!(request::len("k").key(), b"k");
    /// ```
    pub fn key(&self) -> &[u8] {
        self.command.key()
    }

    /// Reads a reply that came another way, such as from `EXEC`.
    ///
    /// # Errors
    /// What the reply says, or [`SessionError::UnexpectedReply`](crate::SessionError::UnexpectedReply).
    ///
    /// ```
    /// # use redis_session_client::request;
    /// assert_eq!(request::len("k").read(redis::Value::Int(3))?, 3);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn read(&self, reply: Value) -> Result<T> {
        let reply = self.reply.read(reply);
        reply.map_err(|error| error.of_command(&self.command.name()))
    }

    /// Reads replies tolerantly: what cannot be read keeps nothing else from being read. See [`tolerant`](crate::tolerant).
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = request::read("k", ReadOptions::after(0));
    /// let entry = |seq| redis::Value::Array(vec![seq, redis::Value::Int(0), redis::Value::Okay, redis::Value::Okay]);
    /// let reply = redis::Value::Array(vec![entry(redis::Value::Int(1)), entry(redis::Value::Nil)]);
    /// assert!(read.read(reply.clone()).is_err());
    /// assert_eq!(read.tolerant().read(reply)?.len(), 1);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn tolerant(mut self) -> Request<T> {
        self.reply.mode = Mode::Tolerant;
        self
    }

    /// Sends it and reads the reply.
    ///
    /// # Errors
    /// What the server replies, what is wrong with the connection, or with the reply.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// # use redis_session_client::request;
    /// assert_eq!(request::len("session:1").query(&mut connection)?, 0);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn query<C: crate::SessionConnection + ?Sized>(&self, connection: &mut C) -> Result<T> {
        self.read(connection.session_request(&self.command)?)
    }

    /// Sends it and reads the reply, asynchronously.
    ///
    /// # Errors
    /// What the server replies, what is wrong with the connection, or with the reply.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    /// # use redis_session_client::request;
    /// assert_eq!(request::len("session:1").query_async(&mut connection).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "aio")]
    pub async fn query_async<C: crate::AsyncSessionConnection + ?Sized>(&self, connection: &mut C) -> Result<T> {
        self.read(connection.session_request(&self.command).await?)
    }

    /// It is safe to send it again.
    #[cfg_attr(not(feature = "tokio-comp"), expect(dead_code))]
    pub(crate) fn repeatable(mut self) -> Request<T> {
        self.command.is_repeatable = true;
        self
    }

    /// A read that must not be answered by a replica, which may lag.
    #[cfg_attr(not(any(feature = "tokio-comp", feature = "bridge")), expect(dead_code))]
    pub(crate) fn at_primary(mut self) -> Request<T> {
        self.command.is_repeatable |= self.command.is_read;
        self.command.is_read = false;
        self
    }

    /// The same command with its reply read another way.
    pub(crate) fn reading<U>(self, read: Reader<U>) -> Request<U> {
        Request {
            command: self.command,
            reply: ReplyOf {
                reader: read,
                mode: self.reply.mode,
            },
        }
    }
}

/// Begins a command whose key is its first argument.
fn begin(name: &str, key: impl AsRef<[u8]>) -> Command {
    let mut cmd = redis::cmd(name);
    cmd.arg(key.as_ref());
    Command {
        cmd,
        key: Key::At(1),
        is_read: false,
        is_repeatable: false,
    }
}

/// Begins a command of a group, whose key is its second argument.
fn begin_group(group: &str, subcommand: &str, key: impl AsRef<[u8]>) -> Command {
    let mut cmd = redis::cmd(group);
    cmd.arg(subcommand).arg(key.as_ref());
    Command {
        cmd,
        key: Key::At(2),
        is_read: false,
        is_repeatable: false,
    }
}

/// Any command, routed by this key as the `SESSION.*` commands are: in a cluster to the primary of its slot. Its reply is what redis-rs
/// hands over.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::request;
///
/// let mut usage = redis::cmd("MEMORY");
/// usage.arg("USAGE").arg("session:1");
/// let bytes = request::raw(usage, "session:1").query(&mut connection)?;
/// assert!(matches!(bytes, redis::Value::Int(1..)));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub fn raw(cmd: Cmd, key: impl AsRef<[u8]>) -> Request<Value> {
    let command = Command {
        cmd,
        key: Key::Given(key.as_ref().to_vec()),
        is_read: false,
        is_repeatable: false,
    };
    command.replied(|reply, _| Ok(reply))
}

/// The same for a command that writes nothing: a replica may answer it, and it may be sent again.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::request;
///
/// let mut kind = redis::cmd("TYPE");
/// kind.arg("session:1");
/// let kind = request::raw_read(kind, "session:1").query(&mut connection)?;
/// assert_eq!(kind, redis::Value::SimpleString("rdsession".into()));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub fn raw_read(cmd: Cmd, key: impl AsRef<[u8]>) -> Request<Value> {
    let mut request = raw(cmd, key);
    request.command.is_read = true;
    request
}

impl Command {
    fn arg(mut self, arg: impl ToRedisArgs) -> Command {
        self.cmd.arg(arg);
        self
    }

    /// Option words with their values.
    fn options(mut self, options: &Options) -> Command {
        options.write(&mut self.cmd);
        self
    }

    fn write_options(mut self, options: &WriteOptions) -> Command {
        options.write(&mut self.cmd);
        self
    }

    /// It writes nothing.
    fn reads(mut self) -> Command {
        self.is_read = true;
        self
    }

    fn replied<T>(self, reader: Reader<T>) -> Request<T> {
        Request {
            command: self,
            reply: ReplyOf {
                reader,
                mode: Mode::Strict,
            },
        }
    }
}

/// `UNLINK`: deletes a session whatever its size, without waiting for its memory.
#[cfg(feature = "tokio-comp")]
pub(crate) fn unlink(key: impl AsRef<[u8]>) -> Request<u64> {
    begin("UNLINK", key).replied(crate::value::count).repeatable()
}

/// Option words with their values, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Options(Vec<(&'static str, Vec<Vec<u8>>)>);

impl Options {
    /// An option that stands once: the last one given counts.
    fn set<A: ToRedisArgs>(&mut self, word: &'static str, values: A) {
        self.unset(word);
        self.push(word, values);
    }

    fn unset(&mut self, word: &'static str) {
        self.0.retain(|(known, _)| *known != word);
    }

    /// An option that may be repeated.
    fn push<A: ToRedisArgs>(&mut self, word: &'static str, values: A) {
        self.0.push((word, values.to_redis_args()));
    }

    /// A word alone.
    fn flag(&mut self, word: &'static str) {
        self.unset(word);
        self.0.push((word, Vec::new()));
    }

    /// `word n value…`: all values counted, however often it is called.
    fn push_counted(&mut self, word: &'static str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| *known == word) {
            Some((_, values)) => {
                values.push(value.into());
                values[0] = (values.len() - 1).to_string().into_bytes();
            }
            None => self.0.push((word, vec![b"1".to_vec(), value.into()])),
        }
    }

    fn write(&self, cmd: &mut Cmd) {
        for (word, values) in &self.0 {
            cmd.arg(*word);
            for value in values {
                cmd.arg(value.as_slice());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_command_is_shown_as_redis_cli_takes_it() {
        let shown = |word: &[u8]| super::raw(redis::cmd("X").arg(word).to_owned(), "k").to_string();
        for (word, as_typed) in [
            (b"k:{a}".as_slice(), "X k:{a}"),
            (b"", "X \"\""),
            (b"a b", "X \"a b\""),
            (b"it's", "X \"it's\""),
            (br#"{"a":1}"#, r#"X '{"a":1}'"#),
            (b"\"\\\n\x01\xff", r#"X "\"\\\n\x01\xff""#),
            ("ä".as_bytes(), "X \"ä\""),
        ] {
            assert_eq!(shown(word), as_typed);
        }
    }

    #[test]
    fn a_read_at_the_primary_goes_where_writes_go_and_may_be_repeated() {
        let request = super::len("k").at_primary();
        assert!(!request.command().is_read() && request.command().is_repeatable());
    }
}
