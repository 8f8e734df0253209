//! From what redis-rs hands over to what this crate's types are made of. Both protocols: a map is a map or its pairs, flat.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redis::Value;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value as Json};

use crate::{Body, Result, SessionError, SessionId};

/// How a reply is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What is not as expected is an error.
    Strict,
    /// What is not as expected is left out, or has its default, so that the rest is read: see [`crate::tolerant`].
    Tolerant,
}

impl Mode {
    pub(crate) fn is_tolerant(self) -> bool {
        self == Mode::Tolerant
    }
}

/// How a reply becomes a value of this crate.
pub(crate) type Reader<T> = fn(Value, Mode) -> Result<T>;

pub(crate) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        other => Err(expected("a string", &other)),
    }
}

pub(crate) fn text(value: Value, mode: Mode) -> Result<String> {
    match String::from_utf8(bytes(value)?) {
        Ok(text) => Ok(text),
        Err(error) if mode.is_tolerant() => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        Err(_) => Err(SessionError::unexpected("a string that is not UTF-8")),
    }
}

pub(crate) fn id(value: Value, mode: Mode) -> Result<SessionId> {
    let text = text(value, mode)?;
    text.parse()
        .map_err(|_| SessionError::unexpected(format_args!("{text:.80?} in place of a session's id")))
}

pub(crate) fn int(value: Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(number),
        other => {
            let what = expected("an integer", &other);
            let digits = text(other, Mode::Strict).ok();
            digits.and_then(|digits| digits.parse().ok()).ok_or(what)
        }
    }
}

pub(crate) fn count(value: Value, _: Mode) -> Result<u64> {
    u64::try_from(int(value)?).map_err(|_| SessionError::unexpected("a negative number"))
}

pub(crate) fn is_one(value: Value, _: Mode) -> Result<bool> {
    int(value).map(|number| number == 1)
}

pub(crate) fn optional<T>(value: Value, mode: Mode, read: Reader<T>) -> Result<Option<T>> {
    match value {
        Value::Nil => Ok(None),
        value => read(value, mode).map(Some),
    }
}

/// A part of a reply that the tolerant mode can do without.
pub(crate) fn or_default<T: Default>(part: Result<T>, mode: Mode) -> Result<T> {
    match part {
        Err(_) if mode.is_tolerant() => Ok(T::default()),
        part => part,
    }
}

/// The items of an array; the tolerant mode leaves out those that cannot be read.
pub(crate) fn list<T>(value: Value, mode: Mode, read: Reader<T>) -> Result<Vec<T>> {
    let items = array(value)?.into_iter().map(|item| read(item, mode));
    match mode {
        Mode::Strict => items.collect(),
        Mode::Tolerant => Ok(items.flat_map(|item| item.ok()).collect()),
    }
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

pub(crate) fn pairs(value: Value, mode: Mode) -> Result<Vec<(Value, Value)>> {
    match value {
        Value::Map(pairs) => Ok(pairs),
        Value::Array(items) if items.len() % 2 == 0 || mode.is_tolerant() => {
            let mut items = items.into_iter();
            Ok(std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect())
        }
        other => Err(expected("a map", &other)),
    }
}

pub(crate) fn map(value: Value, mode: Mode) -> Result<Vec<(String, Value)>> {
    let pairs = pairs(value, mode)?.into_iter();
    let pairs = pairs.map(|(name, value)| Ok((text(name, mode)?, value)));
    match mode {
        Mode::Strict => pairs.collect(),
        Mode::Tolerant => Ok(pairs.flat_map(Result::ok).collect()),
    }
}

/// A JSON object that is one of this crate's types.
pub(crate) fn object<T: FromFields>(value: Value, mode: Mode) -> Result<T> {
    object_of(&bytes(value)?, mode)
}

pub(crate) fn object_of<T: FromFields>(json: &[u8], mode: Mode) -> Result<T> {
    let fields = parse_in(json, mode).map(|fields| Fields::new(fields, mode));
    fields.and_then(T::from_fields).map_err(|error| in_json(&error, json))
}

/// The fields of a JSON object; the tolerant mode reads what is none as one without fields.
pub(crate) fn fields(json: &[u8], mode: Mode) -> Result<Fields> {
    let fields = parse_in(json, mode).map_err(|error| in_json(&error, json));
    Ok(Fields::new(or_default(fields, mode)?, mode))
}

/// Any JSON.
pub(crate) fn json<T: DeserializeOwned>(value: Value, mode: Mode) -> Result<T> {
    let bytes = bytes(value)?;
    parse_in(&bytes, mode).map_err(|error| in_json(&error, &bytes))
}

pub(crate) fn in_json(error: &serde_json::Error, bytes: &[u8]) -> SessionError {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
    SessionError::unexpected(format_args!("{error} in {shown}"))
}

/// A type that is read from the fields of a JSON object.
pub(crate) trait FromFields: Sized {
    fn from_fields(fields: Fields) -> serde_json::Result<Self>;
}

/// The fields of a JSON object, taken one by one. What is not taken is kept as the type's `other`.
pub(crate) struct Fields {
    left: Map<String, Json>,
    mode: Mode,
}

impl Fields {
    pub(crate) fn new(fields: Map<String, Json>, mode: Mode) -> Fields {
        Fields { left: fields, mode }
    }

    /// What the tolerant mode cannot read stays among the other fields.
    fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Json) -> serde_json::Result<T>,
    ) -> Option<serde_json::Result<T>> {
        let value = self.left.remove(name)?;
        let kept = self.mode.is_tolerant().then(|| value.clone());
        let read = read(value).map_err(|error| serde_json::Error::custom(format_args!("{name}: {error}")));
        if let (Err(_), Some(value)) = (&read, kept) {
            self.left.insert(name.to_owned(), value);
        }
        Some(read)
    }

    /// A field without which the object means nothing, in either mode.
    pub(crate) fn key<T: DeserializeOwned>(&mut self, name: &'static str) -> serde_json::Result<T> {
        let value = self.read(name, serde_json::from_value);
        value.unwrap_or_else(|| Err(serde_json::Error::missing_field(name)))
    }

    /// A field that every module sends; the tolerant mode does with `fallback`.
    pub(crate) fn sent<T: DeserializeOwned>(&mut self, name: &'static str, fallback: T) -> serde_json::Result<T> {
        match self.key(name) {
            Err(_) if self.mode.is_tolerant() => Ok(fallback),
            value => value,
        }
    }

    /// A field that may be absent or null.
    pub(crate) fn may<T: DeserializeOwned + Default>(&mut self, name: &'static str) -> serde_json::Result<T> {
        self.may_as(name, serde_json::from_value)
    }

    /// The same for one that is an object of this crate, or nothing.
    pub(crate) fn may_object<T: FromFields>(&mut self, name: &'static str) -> serde_json::Result<Option<T>> {
        let mode = self.mode;
        self.may_as(name, |value| from_json(value, mode).map(Some))
    }

    /// The same for objects in an array.
    pub(crate) fn objects<T: FromFields>(&mut self, name: &'static str) -> serde_json::Result<Vec<T>> {
        let mode = self.mode;
        self.may_as(name, |value| {
            let items: Vec<Json> = serde_json::from_value(value)?;
            let items = items.into_iter().map(|item| from_json(item, mode));
            match mode {
                Mode::Strict => items.collect(),
                Mode::Tolerant => Ok(items.flat_map(|item| item.ok()).collect()),
            }
        })
    }

    /// The same for objects by their names.
    pub(crate) fn objects_by_name<T: FromFields>(
        &mut self,
        name: &'static str,
    ) -> serde_json::Result<BTreeMap<String, T>> {
        let mode = self.mode;
        self.may_as(name, |value| {
            let items: Map<String, Json> = serde_json::from_value(value)?;
            let items = items.into_iter().map(|(name, item)| Ok((name, from_json(item, mode)?)));
            match mode {
                Mode::Strict => items.collect(),
                Mode::Tolerant => Ok(items.flat_map(serde_json::Result::ok).collect()),
            }
        })
    }

    fn may_as<T: Default>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Json) -> serde_json::Result<T>,
    ) -> serde_json::Result<T> {
        if self.left.get(name).is_some_and(Json::is_null) {
            self.left.remove(name);
        }
        match self.read(name, read) {
            None => Ok(T::default()),
            Some(Err(_)) if self.mode.is_tolerant() => Ok(T::default()),
            Some(value) => value,
        }
    }

    /// Every field that was not taken.
    pub(crate) fn other(self) -> Map<String, Json> {
        self.left
    }
}

impl<T: FromFields> FromFields for Box<T> {
    fn from_fields(fields: Fields) -> serde_json::Result<Box<T>> {
        T::from_fields(fields).map(Box::new)
    }
}

fn from_json<T: FromFields>(value: Json, mode: Mode) -> serde_json::Result<T> {
    T::from_fields(Fields::new(serde_json::from_value(value)?, mode))
}

/// Types that are read from JSON by other ways than a command's reply, too: strictly.
macro_rules! deserialized_from_fields {
    ($($type:ty),+ $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<$type, D::Error> {
                let fields = serde::Deserialize::deserialize(deserializer)?;
                let fields = crate::value::Fields::new(fields, crate::value::Mode::Strict);
                crate::value::FromFields::from_fields(fields).map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(crate) use deserialized_from_fields;

/// Reads JSON as the module accepts it, which is more than serde_json does: 128 levels of nesting (and a few more in a document around
/// it), and halves of surrogate pairs, which are no text to Rust and read as U+FFFD. One of them must not keep everything around it from
/// being read.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    parse_in(json, Mode::Strict)
}

/// The same; in the tolerant mode, bytes that are not UTF-8 read as U+FFFD, too.
pub(crate) fn parse_in<T: DeserializeOwned>(json: &[u8], mode: Mode) -> serde_json::Result<T> {
    let error = match serde_json::from_slice(json) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    let text = match mode {
        Mode::Strict => Cow::Borrowed(json),
        Mode::Tolerant => match String::from_utf8_lossy(json) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
    };
    let text = match without_halves(&text) {
        Some(whole) => Cow::Owned(whole),
        None => text,
    };
    if nesting(&text) > MAX_NESTING {
        return Err(error);
    }
    let mut parser = serde_json::Deserializer::from_slice(&text);
    parser.disable_recursion_limit();
    let parsed = T::deserialize(&mut parser)?;
    parser.end().map(|()| parsed)
}

/// How deep JSON may be nested: the 128 levels that the module accepts, within a document.
const MAX_NESTING: usize = 140;

/// How deep arrays and objects are nested, as far as the text is JSON.
fn nesting(json: &[u8]) -> usize {
    let (mut deepest, mut depth, mut is_text) = (0_usize, 0_usize, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => {
                bytes.next();
            }
            b'[' | b'{' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
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

pub(crate) fn body(value: Value, _: Mode) -> Result<Body> {
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
            .filter_map(|(name, value)| Some((text(name, Mode::Tolerant).ok()?, to_json(value))))
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
        assert_eq!(map(flat, Mode::Strict).unwrap(), map(real, Mode::Strict).unwrap());
    }

    #[test]
    fn what_is_not_as_expected_is_an_error_that_shows_it() {
        let error = int(bulk("many")).unwrap_err().to_string();
        assert!(error.contains("an integer"), "{error}");
        assert!(count(Value::Int(-1), Mode::Strict).is_err());
        assert!(tuple::<2>(Value::Array(vec![Value::Nil])).is_err());
        assert!(map(Value::Array(vec![Value::Nil]), Mode::Strict).is_err());
        let long = "ä".repeat(200);
        assert!(array(bulk(&long)).is_err());
        assert!(json::<Vec<u8>>(bulk("{"), Mode::Strict).is_err());
    }

    #[test]
    fn a_longer_tuple_of_a_newer_module_is_read() {
        let [first] = tuple::<1>(Value::Array(vec![Value::Int(1), Value::Int(2)])).unwrap();
        assert_eq!(first, Value::Int(1));
    }
}
