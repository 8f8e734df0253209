//! Reading replies without failing as a whole, for programs that show sessions rather than work on them.
//!
//! A reply is read strictly by default: one that this version does not understand is
//! [`UnexpectedReply`](crate::SessionError::UnexpectedReply), because a program must not act on half of it. A program that looks at sessions
//! of any module, newer or older, wants to see what there is: [`Request::tolerant`](crate::Request::tolerant) reads the same reply so that
//!
//! - a field that is missing or of another type has a default: nothing, 0, the empty text, 1970, [`SessionId::unknown`](crate::SessionId::unknown);
//!   what stands in its place is kept in `other`,
//! - an item of a list that has not even what it is known by (a seq, a key, an id) is left out,
//! - an entry that is not what its kind says is an [`EntryKind::Other`](crate::EntryKind::Other) with its bytes,
//! - text that is not UTF-8 reads with U+FFFD.
//!
//! In both modes unknown fields are kept, halves of surrogate pairs read as U+FFFD, JSON may be nested as deep as the module takes it, and
//! bodies are the bytes that were appended.
//!
//! ```
//! use redis::Value;
//! use redis_session_client::{ReadOptions, request};
//!
//! let text = |text: &str| Value::BulkString(text.into());
//! let entry = Value::Array(vec![Value::Int(7), Value::Int(0), text("event"), text(r#"{"seq":7,"new":1}"#)]);
//! let reply = Value::Array(vec![entry, Value::Nil]);
//!
//! let read = request::read("session:1", ReadOptions::after(6));
//! assert!(read.read(reply.clone()).is_err());
//! assert_eq!(read.tolerant().read(reply)?[0].seq, 7);
//! # Ok::<(), redis_session_client::SessionError>(())
//! ```
//!
//! The functions here read the parts of any reply, such as that of [`request::raw`](crate::request::raw), in the same way.

use redis::Value;

use crate::value::{self, Mode};
use crate::{Checkpoint, Event};

/// The items of an array or a set; of anything else none.
///
/// ```
/// # use redis::Value;
/// # use redis_session_client::tolerant;
/// assert_eq!(tolerant::array(Value::Array(vec![Value::Nil])), [Value::Nil]);
/// assert!(tolerant::array(Value::Int(1)).is_empty());
/// ```
pub fn array(value: Value) -> Vec<Value> {
    value::array(value).unwrap_or_default()
}

/// The bytes of a string, or the digits of a number.
///
/// ```
/// # use redis::Value;
/// # use redis_session_client::tolerant;
/// assert_eq!(tolerant::bytes(Value::Okay).as_deref(), Some(&b"OK"[..]));
/// assert_eq!(tolerant::bytes(Value::Nil), None);
/// ```
pub fn bytes(value: Value) -> Option<Vec<u8>> {
    value::bytes(value).ok()
}

/// The same as text, with U+FFFD for what is not UTF-8.
///
/// ```
/// # use redis::Value;
/// # use redis_session_client::tolerant;
/// assert_eq!(tolerant::text(Value::BulkString(b"a\xff".to_vec())).as_deref(), Some("a\u{fffd}"));
/// ```
pub fn text(value: Value) -> Option<String> {
    value::text(value, Mode::Tolerant).ok()
}

/// A number, or a string of its digits.
///
/// ```
/// # use redis::Value;
/// # use redis_session_client::tolerant;
/// assert_eq!(tolerant::int(&Value::BulkString(b"7".to_vec())), Some(7));
/// assert_eq!(tolerant::int(&Value::Nil), None);
/// ```
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        Value::SimpleString(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// A map as its pairs, in either protocol; of anything else none.
///
/// ```
/// # use redis::Value;
/// # use redis_session_client::tolerant;
/// let flat = Value::Array(vec![Value::Okay, Value::Int(1)]);
/// assert_eq!(tolerant::pairs(flat), [(b"OK".to_vec(), Value::Int(1))]);
/// ```
pub fn pairs(value: Value) -> Vec<(Vec<u8>, Value)> {
    let pairs = value::pairs(value, Mode::Tolerant).unwrap_or_default();
    let named = pairs.into_iter().map(|(name, value)| Some((bytes(name)?, value)));
    named.flatten().collect()
}

/// JSON as the module takes it, and more: with halves of surrogate pairs, and bytes that are not UTF-8, as U+FFFD. None if it is no JSON.
///
/// ```
/// # use redis_session_client::tolerant;
/// let json = tolerant::json(br#"{"cut":"a\ud83d"}"#).expect("it is JSON");
/// assert_eq!(json["cut"], "a\u{fffd}");
/// assert_eq!(tolerant::json(b"{"), None);
/// ```
pub fn json(json: &[u8]) -> Option<serde_json::Value> {
    value::parse_in(json, Mode::Tolerant).ok()
}

/// An event, from the JSON that the server sent: an item of `SESSION.EVENT RANGE`, or what a subscriber was told. None if it has no seq.
///
/// ```
/// # use redis_session_client::tolerant;
/// let event = tolerant::event(br#"{"seq":3,"type":"broke","agentId":7}"#).expect("it has a seq");
/// assert_eq!((event.seq, event.event_type.as_str(), event.agent_id), (3, "broke", None));
/// assert_eq!(tolerant::event(b"{}"), None);
/// ```
pub fn event(json: &[u8]) -> Option<Event> {
    value::object_of(json, Mode::Tolerant).ok()
}

/// A checkpoint, from the JSON that the server sent: an item of `SESSION.CHECKPOINT LIST`, or of a document. None if it has no id.
///
/// ```
/// # use redis_session_client::tolerant;
/// let checkpoint = tolerant::checkpoint(br#"{"checkpointId":3,"label":"greeted"}"#).expect("it has an id");
/// assert_eq!(checkpoint.label.as_deref(), Some("greeted"));
/// assert_eq!(tolerant::checkpoint(b"[]"), None);
/// ```
pub fn checkpoint(json: &[u8]) -> Option<Checkpoint> {
    value::object_of(json, Mode::Tolerant).ok()
}
