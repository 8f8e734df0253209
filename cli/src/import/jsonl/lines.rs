//! Reads the lines of a file, in batches of values that are ready to be restored.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::SyncSender;

use super::payload;
use crate::archive::{Head, Kind, FORMAT};
use crate::failure::{Failure, Result};
use crate::stop;

/// Bounds of a batch: lines and bytes; at least one line.
const LINES_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: u64 = 4 * 1024 * 1024;

const BUFFER_BYTES: usize = 1024 * 1024;

/// A line that can be restored.
pub struct Entry {
    pub line: u64,
    pub kind: Kind,
    pub key: Vec<u8>,
    /// `None`: never.
    pub expires_at_ms: Option<i64>,
    pub payload: Vec<u8>,
}

/// A batch of lines.
#[derive(Default)]
pub struct Read {
    pub entries: Vec<Entry>,
    /// Lines that could not be read, and why.
    pub broken: Vec<(u64, String)>,
    pub lines: u64,
    pub bytes: u64,
    /// The error that ended reading.
    pub failure: Option<io::Error>,
}

pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    total_bytes: Option<u64>,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    pub fn open(path: &Path) -> Result<Lines> {
        let unreadable = |error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
        let (reader, total_bytes): (Box<dyn BufRead + Send>, _) = match path == Path::new("-") {
            true => (Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())), None),
            false => {
                let file = File::open(path).map_err(unreadable)?;
                let metadata = file.metadata().map_err(unreadable)?;
                if metadata.is_dir() {
                    return Err(Failure::Usage(format!("{} is a folder", path.display())));
                }
                let total = metadata.is_file().then_some(metadata.len());
                (Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), total)
            }
        };
        Ok(Lines {
            reader,
            total_bytes,
            number: 0,
            line: Vec::new(),
        })
    }

    /// The size of the file; `None` for a pipe.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// Sends batch after batch, until the end of the file or of the receiver.
    pub fn send_all(mut self, sender: &SyncSender<Read>) {
        while !stop::is_requested() {
            let (read, is_last) = self.next();
            if sender.send(read).is_err() || is_last {
                break;
            }
        }
    }

    fn next(&mut self) -> (Read, bool) {
        let mut read = Read::default();
        while read.lines < LINES_AT_ONCE as u64 && read.bytes < BYTES_AT_ONCE {
            match self.reader.read_until(b'\n', &mut self.line) {
                Ok(0) => return (read, true),
                Ok(count) => read.bytes += count as u64,
                Err(error) => {
                    read.failure = Some(error);
                    return (read, true);
                }
            }
            self.number += 1;
            read.lines += 1;
            match parse(&self.line) {
                _ if self.line.iter().all(u8::is_ascii_whitespace) => {}
                Ok((kind, key, expires_at_ms, payload)) => read.entries.push(Entry {
                    line: self.number,
                    kind,
                    key,
                    expires_at_ms,
                    payload,
                }),
                Err(why) => read.broken.push((self.number, why)),
            }
            // One line of hundreds of megabytes is not held while it is sent.
            self.line.clear();
            self.line.shrink_to(BUFFER_BYTES);
        }
        (read, false)
    }
}

type Parsed = (Kind, Vec<u8>, Option<i64>, Vec<u8>);

fn parse(line: &[u8]) -> std::result::Result<Parsed, String> {
    let head: Head = serde_json::from_slice(line).map_err(|error| match error.is_eof() && !line.ends_with(b"\n") {
        true => {
            "it is cut off: the file ends within it. Was the export stopped? export --resume goes on with it".into()
        }
        // The line that the error tells of is always the first.
        false => format!(
            "it is not what an export writes ({})",
            error.to_string().replace("line 1 ", "")
        ),
    })?;
    match head.format {
        None => return Err("it is not what an export writes (it has no format)".into()),
        Some(FORMAT) => {}
        Some(format) => {
            return Err(format!(
                "it has format {format}, this program reads {FORMAT}: import it with a newer redis-session"
            ))
        }
    }
    let kind = Kind::named(head.kind.as_bytes());
    let kind = kind.ok_or_else(|| match head.kind.as_ref() {
        "" => "it has no type".to_owned(),
        other => format!("it has type {other:?}, this program knows rdsession, rdsessidx and rdanchors"),
    })?;
    let payload = head.payload()?;
    payload::check_type(&payload, kind)?;
    Ok((kind, head.key()?, head.expires_at_ms()?, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, why) in [
            (
                "{\"format\":1,\"key\":\"a\n",
                "not what an export writes (control character",
            ),
            ("{\"format\":1,\"key\":\"a", "cut off"),
            ("{\"format\":1,", "cut off"),
            ("[1]\n", "has no type"),
            ("hello\n", "not what an export writes (expected value at column 1)"),
            ("{}\n", "has no format"),
            ("{\"format\":2}\n", "has format 2"),
            ("{\"format\":1}\n", "has no type"),
            ("{\"format\":1,\"type\":\"list\"}\n", "type \"list\""),
            ("{\"format\":1,\"type\":\"rdsession\",\"key\":\"k\"}\n", "--readable"),
            (
                "{\"format\":1,\"type\":\"rdsession\",\"key\":\"k\",\"payload\":\"?\"}\n",
                "not base64",
            ),
            (
                "{\"format\":1,\"type\":\"rdsession\",\"key\":\"k\",\"payload\":\"AAAA\"}\n",
                "not of a rdsession",
            ),
        ] {
            let said = parse(line.as_bytes()).map(|_| ()).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
