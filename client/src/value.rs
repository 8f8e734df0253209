//! From what redis-rs hands over to what this crate's types are made of. Both protocols: a map is a map or its pairs, flat.

use redis::Value;
use serde::de::DeserializeOwned;

use crate::{Body, Result, SessionError, SessionId};

pub(crate) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        other => Err(expected("a string", &other)),
    }
}

pub(crate) fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| SessionError::unexpected("a string that is not UTF-8"))
}

pub(crate) fn id(value: Value) -> Result<SessionId> {
    let text = text(value)?;
    text.parse()
        .map_err(|_| SessionError::unexpected(format_args!("{text:.80?} in place of a session's id")))
}

pub(crate) fn int(value: Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(number),
        other => {
            let what = expected("an integer", &other);
            text(other).ok().and_then(|digits| digits.parse().ok()).ok_or(what)
        }
    }
}

pub(crate) fn count(value: Value) -> Result<u64> {
    u64::try_from(int(value)?).map_err(|_| SessionError::unexpected("a negative number"))
}

pub(crate) fn optional<T>(value: Value, read: fn(Value) -> Result<T>) -> Result<Option<T>> {
    match value {
        Value::Nil => Ok(None),
        value => read(value).map(Some),
    }
}

pub(crate) fn list<T>(value: Value, read: fn(Value) -> Result<T>) -> Result<Vec<T>> {
    array(value)?.into_iter().map(read).collect()
}

/// The items of an array; nil has none.
pub(crate) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(expected("an array", &other)),
    }
}

/// Exactly the first `N` items. A newer module may send more.
pub(crate) fn tuple<const N: usize>(value: Value) -> Result<[Value; N]> {
    let mut items = array(value)?;
    let found = items.len();
    items.truncate(N);
    items
        .try_into()
        .map_err(|_| SessionError::unexpected(format_args!("{found} items in place of {N}")))
}

pub(crate) fn map(value: Value) -> Result<Vec<(String, Value)>> {
    match value {
        Value::Map(pairs) => pairs
            .into_iter()
            .map(|(name, value)| Ok((text(name)?, value)))
            .collect(),
        Value::Array(items) if items.len() % 2 == 0 => {
            let mut pairs = Vec::with_capacity(items.len() / 2);
            let mut items = items.into_iter();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                pairs.push((text(name)?, value));
            }
            Ok(pairs)
        }
        other => Err(expected("a map", &other)),
    }
}

pub(crate) fn json<T: DeserializeOwned>(value: Value) -> Result<T> {
    let bytes = bytes(value)?;
    parse(&bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        SessionError::unexpected(format_args!("{error} in {shown}"))
    })
}

/// Reads JSON as the module accepts it: with halves of surrogate pairs too, which are no text to Rust and read as U+FFFD. One of them
/// must not keep everything around it from being read.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match without_halves(json) {
        Some(json) => serde_json::from_slice(&json),
        None => Err(error),
    })
}

/// The same JSON with U+FFFD for each half of a surrogate pair; nothing if there is none.
fn without_halves(json: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(json.len());
    let (mut rest, mut found) = (json, false);
    while !rest.is_empty() {
        let taken = match escaped_unit(rest) {
            Some(0xd800..=0xdbff) if matches!(escaped_unit(&rest[6..]), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                found = true;
                text.extend_from_slice(b"\\ufffd");
                rest = &rest[6..];
                continue;
            }
            // What is escaped is no beginning of an escape.
            _ if rest[0] == b'\\' => rest.len().min(2),
            _ => 1,
        };
        text.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
    }
    found.then_some(text)
}

/// The UTF-16 unit of an escape `\uXXXX` that the text begins with.
fn escaped_unit(json: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(json.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

pub(crate) fn body(value: Value) -> Result<Body> {
    bytes(value).map(Body::from)
}

/// Any value as JSON, for what a newer module tells beside what is known here.
pub(crate) fn to_json(value: Value) -> serde_json::Value {
    match value {
        Value::Nil => serde_json::Value::Null,
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Boolean(is) => is.into(),
        Value::Array(items) | Value::Set(items) => items.into_iter().map(to_json).collect(),
        Value::Map(pairs) => pairs
            .into_iter()
            .filter_map(|(name, value)| Some((text(name).ok()?, to_json(value))))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => bytes(other).map_or(serde_json::Value::Null, |bytes| {
            String::from_utf8_lossy(&bytes).into_owned().into()
        }),
    }
}

fn expected(what: &str, value: &Value) -> SessionError {
    let mut shown = format!("{value:?}");
    if shown.len() > 80 {
        let end = (0..=80).rev().find(|&at| shown.is_char_boundary(at)).unwrap_or(0);
        shown.truncate(end);
        shown.push('…');
    }
    SessionError::unexpected(format_args!("{shown} in place of {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_map_reads_the_same_in_both_protocols() {
        let flat = Value::Array(vec![bulk("id"), bulk("x"), bulk("created"), Value::Int(1)]);
        let real = Value::Map(vec![(bulk("id"), bulk("x")), (bulk("created"), Value::Int(1))]);
        assert_eq!(map(flat).unwrap(), map(real).unwrap());
    }

    #[test]
    fn what_is_not_as_expected_is_an_error_that_shows_it() {
        let error = int(bulk("many")).unwrap_err().to_string();
        assert!(error.contains("an integer"), "{error}");
        assert!(count(Value::Int(-1)).is_err());
        assert!(tuple::<2>(Value::Array(vec![Value::Nil])).is_err());
        assert!(map(Value::Array(vec![Value::Nil])).is_err());
        let long = "ä".repeat(200);
        assert!(array(bulk(&long)).is_err());
        assert!(json::<Vec<u8>>(bulk("{")).is_err());
    }

    #[test]
    fn a_longer_tuple_of_a_newer_module_is_read() {
        let [first] = tuple::<1>(Value::Array(vec![Value::Int(1), Value::Int(2)])).unwrap();
        assert_eq!(first, Value::Int(1));
    }
}
