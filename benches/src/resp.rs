//! A raw RESP2 client: commands are encoded beforehand and sent in a pipeline, and replies are counted rather than kept,
//! so that the client uses little time beside the server it measures.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Number of commands that are sent together.
const BATCH: usize = 50;

/// Encoded commands, one after the other.
#[derive(Default)]
pub struct Pipeline {
    bytes: Vec<u8>,
    /// Where each command ends in `bytes`.
    ends: Vec<usize>,
}

impl Pipeline {
    pub fn push<A: AsRef<[u8]>>(&mut self, arguments: impl IntoIterator<Item = A>) {
        let arguments: Vec<A> = arguments.into_iter().collect();
        self.bytes
            .extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in &arguments {
            let argument = argument.as_ref();
            self.bytes
                .extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.bytes.extend_from_slice(argument);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.ends.push(self.bytes.len());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A complete reply.
#[derive(Debug, PartialEq)]
pub enum Value {
    Line(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<Value>),
    Nil,
}

/// A reply, with content only for the types that a benchmark reads.
#[derive(Debug, PartialEq)]
pub enum Reply {
    Text(String),
    Integer(i64),
    /// Number of elements; they are not kept.
    Array(usize),
    Nil,
}

pub struct Connection {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Connection {
    pub fn open(socket: &Path) -> Result<Connection> {
        let writer = UnixStream::connect(socket)?;
        let reader = BufReader::with_capacity(256 * 1024, writer.try_clone()?);
        Ok(Connection { writer, reader })
    }

    /// Sends all commands in batches of `BATCH`, each after the replies to the one before; returns the first error reply as an error.
    ///
    /// Batches make the server's reads the same in every run: with one long stream the size of each read, and with it the instructions per
    /// command, would depend on timing.
    pub fn send(&mut self, pipeline: &Pipeline) -> Result<()> {
        let mut begin = 0;
        for ends in pipeline.ends.chunks(BATCH) {
            let end = ends[ends.len() - 1];
            let Connection { writer, reader } = self;
            // Writes and reads in parallel: a server whose replies are not read stops reading commands.
            std::thread::scope(|scope| {
                let sender = scope.spawn(|| writer.write_all(&pipeline.bytes[begin..end]));
                for _ in ends {
                    read_reply(reader)?;
                }
                sender.join().expect("the sender does not panic")
            })?;
            begin = end;
        }
        Ok(())
    }

    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: impl IntoIterator<Item = A>) -> Result<Reply> {
        let mut pipeline = Pipeline::default();
        pipeline.push(arguments);
        self.writer.write_all(&pipeline.bytes)?;
        read_reply(&mut self.reader)
    }

    /// Sends commands without waiting for their replies.
    pub fn write(&mut self, pipeline: &Pipeline) -> Result<()> {
        self.writer.write_all(&pipeline.bytes)
    }

    pub fn read(&mut self) -> Result<Reply> {
        read_reply(&mut self.reader)
    }

    /// Sends a few commands at once and waits for their replies.
    pub fn send_together(&mut self, pipeline: &Pipeline) -> Result<()> {
        self.writer.write_all(&pipeline.bytes)?;
        for _ in &pipeline.ends {
            read_reply(&mut self.reader)?;
        }
        Ok(())
    }

    /// Returns one figure of `INFO section`.
    pub fn info(&mut self, section: &str, field: &str) -> Result<String> {
        match self.call(["INFO", section])? {
            Reply::Text(text) => text
                .lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
                .map(|value| value.trim_end().to_owned())
                .ok_or_else(|| protocol_error(&format!("INFO {section} has no {field}"))),
            other => Err(protocol_error(&format!("INFO answered {other:?}"))),
        }
    }
}

fn read_reply(reader: &mut BufReader<UnixStream>) -> Result<Reply> {
    Ok(match read_value(reader)? {
        Value::Line(text) => Reply::Text(text),
        Value::Bulk(bytes) => Reply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Integer(number) => Reply::Integer(number),
        Value::Array(elements) => Reply::Array(elements.len()),
        Value::Nil => Reply::Nil,
    })
}

pub fn read_value(reader: &mut impl BufRead) -> Result<Value> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(protocol_error("the server closed the connection"));
    }
    let rest = line.get(1..).unwrap_or_default().trim_end();
    let number = || {
        rest.parse::<i64>()
            .map_err(|_| protocol_error(&format!("unexpected reply {line:?}")))
    };
    match line.as_bytes().first() {
        Some(b'+') => Ok(Value::Line(rest.to_owned())),
        Some(b'-') => Err(Error::other(format!("the server answered: {rest}"))),
        Some(b':') => Ok(Value::Integer(number()?)),
        Some(b'$') => match usize::try_from(number()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Value::Bulk(bytes))
            }
            Err(_) => Ok(Value::Nil),
        },
        Some(b'*') => match usize::try_from(number()?) {
            Ok(length) => (0..length)
                .map(|_| read_value(reader))
                .collect::<Result<_>>()
                .map(Value::Array),
            Err(_) => Ok(Value::Nil),
        },
        _ => Err(protocol_error(&format!("unexpected reply {line:?}"))),
    }
}

fn protocol_error(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_as_arrays_of_bulk_strings() {
        let mut pipeline = Pipeline::default();
        pipeline.push(["RPUSH", "k", "é"]);
        assert_eq!(pipeline.bytes, "*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$2\r\né\r\n".as_bytes());
    }

    #[test]
    fn replies_are_read_to_their_end() {
        let (mut server, client) = UnixStream::pair().unwrap();
        server
            .write_all(b"*2\r\n$2\r\nhi\r\n*1\r\n$-1\r\n:7\r\n-ERR no\r\n")
            .unwrap();
        let mut reader = BufReader::new(client);
        assert_eq!(read_reply(&mut reader).unwrap(), Reply::Array(2));
        assert_eq!(read_reply(&mut reader).unwrap(), Reply::Integer(7));
        assert_eq!(
            read_reply(&mut reader).unwrap_err().to_string(),
            "the server answered: ERR no"
        );
    }
}
