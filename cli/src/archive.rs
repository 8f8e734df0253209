//! The lines of JSON that `export` writes and `import jsonl` reads: one value each.
//!
//! ```text
//!  {"format":1,"type":"rdsession","key":"session:1","expires_at":"2026-01-21T10:00:00.000Z",
//!   "document":{…},"events":[…],"payload":"<base64>"}
//!
//!  key           as text; bytes that are not UTF-8 as \xNN, and then key_base64 says what they are
//!  expires_at    null: never. A time after the year 9999 is in expires_at_ms
//!  document      SESSION.GET; of a directory instead: entries, SESSION.INDEX LIST; of anchors: anchors, SESSION.ANCHOR GET
//!  payload       DUMP. An import reads nothing else but key and expiry
//! ```
//!
//! Message bodies are written to the document byte for byte, except that line ends between their tokens become spaces, since they would
//! end the line. The payload keeps them.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use redis::{Cmd, Value};
use redis_session_client::tolerant::{bytes, int};
use redis_session_client::{request, EventQuery};
use redis_session_core::text::time::{iso_8601, parse_iso_8601, MAX_TIME_MS};
use serde::Deserialize;

use crate::term::text::key_text;

/// The format that is written, and the newest that is read.
pub const FORMAT: u64 = 1;

/// Size of the parts in which payloads are encoded: a multiple of three, so that base64 needs no padding between them.
const ENCODED_AT_ONCE_BYTES: usize = 48 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Session,
    Directory,
    Anchors,
}

impl Kind {
    /// All kinds in the order in which to restore them: a directory drops entries whose sessions are missing.
    pub const ALL: [Kind; 3] = [Kind::Session, Kind::Directory, Kind::Anchors];

    /// The name of the type, as `TYPE` replies it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Session => "rdsession",
            Kind::Directory => "rdsessidx",
            Kind::Anchors => "rdanchors",
        }
    }

    pub fn named(name: &[u8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// The commands that read a value of this kind; their replies become [`members`](Kind::members).
    pub fn readers(self, key: &[u8]) -> Vec<Cmd> {
        match self {
            Kind::Session => vec![
                redis::cmd("SESSION.GET").arg(key).to_owned(),
                request::event_range(key, EventQuery::all()).command().cmd().clone(),
            ],
            Kind::Directory => vec![redis::cmd("SESSION.INDEX").arg("LIST").arg(key).to_owned()],
            Kind::Anchors => vec![redis::cmd("SESSION.ANCHOR").arg("GET").arg(key).to_owned()],
        }
    }

    fn members(self) -> &'static [&'static str] {
        match self {
            Kind::Session => &["document", "events"],
            Kind::Directory => &["entries"],
            Kind::Anchors => &["anchors"],
        }
    }
}

/// The replies about one key, read in one transaction.
pub struct Values {
    expires_at_ms: Option<i64>,
    payload: Option<Vec<u8>>,
    /// JSON, or arrays of JSON.
    members: Vec<Value>,
}

impl Values {
    /// Reads the replies; `None` if the key no longer exists.
    pub fn of(replies: Vec<Value>, has_payload: bool) -> Option<Values> {
        let mut replies = replies.into_iter();
        let expires_at_ms = int(&replies.next()?)?;
        let payload = match has_payload {
            true => Some(bytes(replies.next()?)?),
            false => None,
        };
        (expires_at_ms != -2).then(|| Values {
            expires_at_ms: (expires_at_ms >= 0).then_some(expires_at_ms),
            payload,
            members: replies.collect(),
        })
    }
}

pub fn write(out: &mut dyn Write, key: &[u8], kind: Kind, values: &Values) -> io::Result<()> {
    let text = std::str::from_utf8(key).map_or_else(|_| Cow::Owned(key_text(key)), Cow::Borrowed);
    write!(out, "{{\"format\":{FORMAT},\"type\":\"{}\",\"key\":", kind.name())?;
    serde_json::to_writer(&mut *out, &text)?;
    if matches!(text, Cow::Owned(_)) {
        write!(out, ",\"key_base64\":\"{}\"", STANDARD.encode(key))?;
    }
    out.write_all(b",\"expires_at\":")?;
    match values.expires_at_ms {
        Some(at_ms) => {
            write!(out, "\"{}\"", String::from_utf8_lossy(&iso_8601(at_ms)))?;
            if at_ms > MAX_TIME_MS {
                write!(out, ",\"expires_at_ms\":{at_ms}")?;
            }
        }
        None => out.write_all(b"null")?,
    }
    for (name, value) in kind.members().iter().zip(&values.members) {
        write!(out, ",\"{name}\":")?;
        match value {
            Value::BulkString(json) => write_json(out, json)?,
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    out.write_all(if place == 0 { b"[" } else { b"," })?;
                    if let Value::BulkString(json) = item {
                        write_json(out, json)?;
                    }
                }
                out.write_all(if items.is_empty() { b"[]" } else { b"]" })?;
            }
            _ => out.write_all(b"null")?,
        }
    }
    if let Some(payload) = &values.payload {
        out.write_all(b",\"payload\":\"")?;
        for part in payload.chunks(ENCODED_AT_ONCE_BYTES) {
            out.write_all(STANDARD.encode(part).as_bytes())?;
        }
        out.write_all(b"\"")?;
    }
    out.write_all(b"}\n")
}

/// Writes JSON on one line. In valid JSON a line end stands between tokens, so a space can replace it.
fn write_json(out: &mut dyn Write, json: &[u8]) -> io::Result<()> {
    for (place, part) in json.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
        if place > 0 {
            out.write_all(b" ")?;
        }
        out.write_all(part)?;
    }
    Ok(())
}

/// The members of a line that `import` and a resumed `export` read.
#[derive(Deserialize)]
pub struct Head<'a> {
    pub format: Option<u64>,
    #[serde(rename = "type", borrow, default)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Option<Text<'a>>,
    #[serde(borrow, default)]
    key_base64: Option<Text<'a>>,
    #[serde(borrow, default)]
    expires_at: Option<Text<'a>>,
    #[serde(default)]
    expires_at_ms: Option<i64>,
    #[serde(borrow, default)]
    payload: Option<Text<'a>>,
}

/// Text that is not copied out of its line, if it can be read there. (Serde would copy an `Option<Cow<str>>`, and a payload may be large.)
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Head<'_> {
    pub fn key(&self) -> Result<Vec<u8>, String> {
        match (&self.key_base64, &self.key) {
            (Some(Text(text)), _) => STANDARD
                .decode(text.as_bytes())
                .map_err(|error| format!("key_base64 is not base64: {error}")),
            (None, Some(Text(key))) => Ok(key.as_bytes().to_vec()),
            (None, None) => Err("it has no key".into()),
        }
    }

    /// `None`: never.
    pub fn expires_at_ms(&self) -> Result<Option<i64>, String> {
        match (self.expires_at_ms, &self.expires_at) {
            (Some(at_ms), _) => Ok(Some(at_ms)),
            (None, None) => Ok(None),
            (None, Some(Text(text))) => match parse_iso_8601(text) {
                Some(at_ms) => Ok(Some(at_ms)),
                None => Err("expires_at is not a time".into()),
            },
        }
    }

    pub fn payload(&self) -> Result<Vec<u8>, String> {
        let text = self.payload.as_ref().map(|Text(text)| text.as_bytes());
        let text =
            text.ok_or("it has no payload: it was exported to be read (--readable), and cannot be brought back")?;
        STANDARD
            .decode(text)
            .map_err(|error| format!("its payload is not base64: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: &[u8], kind: Kind, values: &Values) -> String {
        let mut out = Vec::new();
        write(&mut out, key, kind, values).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let payload: Vec<u8> = (0..=255).cycle().take(3 * ENCODED_AT_ONCE_BYTES + 5).collect();
        for (key, at_ms) in [
            ("session:{é}\n\"1\"".as_bytes(), Some(1_768_384_800_123)),
            (b"k\xff\x00", None),
            (b"", Some(MAX_TIME_MS + 1)),
        ] {
            let values = Values {
                expires_at_ms: at_ms,
                payload: Some(payload.clone()),
                members: vec![
                    Value::BulkString(b"{\n \"a\":\r\n1}".to_vec()),
                    Value::Array(vec![
                        Value::BulkString(b"{}".to_vec()),
                        Value::BulkString(b"{\n}".to_vec()),
                    ]),
                ],
            };
            let line = written(key, Kind::Session, &values);
            assert_eq!(line.matches('\n').count(), 1, "one line");
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(
                (&json["document"]["a"], json["events"].as_array().unwrap().len()),
                (&1.into(), 2)
            );
            let head: Head = serde_json::from_str(&line).unwrap();
            assert_eq!((head.format, head.kind.as_ref()), (Some(1), "rdsession"));
            assert_eq!(head.key().unwrap(), key);
            assert_eq!(head.expires_at_ms().unwrap(), at_ms);
            assert_eq!(head.payload().unwrap(), payload);
        }
    }

    #[test]
    fn a_key_that_is_gone_is_no_line() {
        assert!(Values::of(vec![Value::Int(-2), Value::Nil, Value::Nil, Value::Array(vec![])], true).is_none());
        assert!(Values::of(vec![Value::Int(-2), Value::Nil, Value::Array(vec![])], false).is_none());
        assert!(Values::of(vec![], true).is_none());
    }
}
