//! One connection. redis-rs encodes and parses; replies are kept unchanged, with errors in place.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use redis::Value;

use crate::talk;

/// Time-out of a reply, after which a test counts as stuck.
const REPLY_DEADLINE: Duration = Duration::from_secs(120);

/// Continues reading after a signal: a socket with a time-out reports every signal of the process.
struct Undisturbed<'a>(&'a mut UnixStream);

impl Read for Undisturbed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

pub struct Client {
    stream: UnixStream,
    parser: redis::Parser,
}

impl Client {
    pub fn connect(socket: &Path) -> std::io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REPLY_DEADLINE))?;
        stream.set_write_timeout(Some(REPLY_DEADLINE))?;
        Ok(Client {
            stream,
            parser: redis::Parser::new(),
        })
    }

    /// Switches this connection to RESP3, which has maps.
    pub fn resp3(mut self) -> Client {
        self.run("HELLO 3");
        self
    }

    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        self.stream
            .write_all(&redis::pack_command(&args))
            .expect("the server takes a command");
    }

    pub fn receive(&mut self) -> Value {
        self.try_receive().expect("the server replies")
    }

    /// Like [`Client::receive`], for a server that may close the connection.
    pub fn try_receive(&mut self) -> redis::RedisResult<Value> {
        self.parser.parse_value(Undisturbed(&mut self.stream))
    }

    /// Runs one command with arguments as bytes; an error reply is returned as a value.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.try_call(args).unwrap_or_else(|error| {
            let words: Vec<String> = args.iter().map(|arg| talk::quote(arg.as_ref())).collect();
            panic!("no reply to {:.500}: {error}", words.join(" "))
        })
    }

    /// Like [`Client::call`], for a server that may not be running.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> redis::RedisResult<Value> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        self.stream.write_all(&redis::pack_command(&args))?;
        self.try_receive()
    }

    /// Sends all commands, then reads all replies.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> redis::RedisResult<Vec<Value>> {
        let packed: Vec<u8> = commands.iter().flat_map(|args| redis::pack_command(args)).collect();
        self.stream.write_all(&packed)?;
        commands.iter().map(|_| self.try_receive()).collect()
    }

    /// Runs one command, as typed in redis-cli, that must not fail.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        let reply = self.attempt(line);
        if let Value::ServerError(_) = reply {
            panic!("{line:.500}\n{}", talk::render(&reply));
        }
        reply
    }

    /// Runs one command that may fail.
    pub fn attempt(&mut self, line: &str) -> Value {
        self.call(&talk::split(line))
    }

    /// Runs one command and returns its reply as redis-cli would show it.
    pub fn say(&mut self, line: &str) -> String {
        talk::render(&self.attempt(line))
    }

    /// Runs a conversation (see [`talk`]): every reply must be as in the text.
    #[track_caller]
    pub fn conversation(&mut self, text: &str) {
        let mut differences = String::new();
        for turn in talk::turns(text) {
            let reply = self.attempt(&turn.command);
            if let Some(difference) = turn.difference(&reply) {
                differences += &difference;
            }
        }
        assert!(
            differences.is_empty(),
            "the conversation went differently:\n{differences}"
        );
    }
}

#[track_caller]
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        other => panic!("not an integer: {}", talk::render(other)),
    }
}

#[track_caller]
pub fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) => text.clone().into_bytes(),
        Value::VerbatimString { text, .. } => text.clone().into_bytes(),
        Value::Okay => b"OK".to_vec(),
        other => panic!("not a string: {}", talk::render(other)),
    }
}

#[track_caller]
pub fn text(value: &Value) -> String {
    String::from_utf8(bytes(value)).expect("a reply in UTF-8")
}

#[track_caller]
pub fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items.clone(),
        other => panic!("not an array: {}", talk::render(other)),
    }
}

/// Returns an entry of a map, in RESP3 or flat as in RESP2.
#[track_caller]
pub fn entry(map: &Value, name: &str) -> Value {
    let is_name = |value: &Value| match value {
        Value::BulkString(bytes) => bytes == name.as_bytes(),
        Value::SimpleString(text) => text == name,
        _ => false,
    };
    let found = match map {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(key, _)| is_name(key))
            .map(|(_, value)| value.clone()),
        Value::Array(flat) => flat
            .chunks(2)
            .find(|pair| is_name(&pair[0]))
            .and_then(|pair| pair.get(1).cloned()),
        _ => None,
    };
    found.unwrap_or_else(|| panic!("no {name} in {}", talk::render(map)))
}
