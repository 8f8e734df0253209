//! Composes a session's meta from what a source holds beside its messages: a JSON object made of the source's members and fields.

use std::collections::HashMap;

use super::source::{BadLayout, Field};
use super::text::Member;
use crate::json;

/// The members of the meta that is composed. Of a name given twice the last counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meta<'a> {
    members: Vec<Entry<'a>>,
    places: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Entry<'a> {
    /// In JSON, without quotes.
    key: Key<'a>,
    value: Value<'a>,
}

#[derive(Debug, Clone)]
enum Key<'a> {
    Raw(&'a [u8]),
    Name(String),
}

#[derive(Debug, Clone)]
enum Value<'a> {
    /// JSON as it was written.
    Text(&'a [u8]),
    String(&'a str),
    Composed(Vec<u8>),
}

impl<'a> Meta<'a> {
    fn set(&mut self, name: String, key: Key<'a>, value: Value<'a>) {
        match self.places.get(&name) {
            Some(&place) => self.members[place].value = value,
            None => {
                self.places.insert(name, self.members.len());
                self.members.push(Entry { key, value });
            }
        }
    }

    fn set_named(&mut self, name: &str, value: Value<'a>) {
        self.set(name.to_owned(), Key::Name(name.to_owned()), value);
    }

    /// Adds members of a JSON object, byte for byte.
    pub(super) fn add_members(&mut self, members: &[Member<'a>]) {
        for member in members {
            let raw = member.key.raw();
            let mut name = member.key.decode();
            if member.key.is_escaped() && name.contains(char::REPLACEMENT_CHARACTER) {
                // A lone surrogate: as text, different names would be the same.
                name = String::from_utf8_lossy(raw);
            }
            self.set(name.into_owned(), Key::Raw(raw), Value::Text(member.text));
        }
    }

    /// Adds fields of a hash, as strings.
    pub fn add_fields(&mut self, fields: &[Field<'a>]) {
        let mut not_utf8 = Vec::new();
        for (name, value) in fields {
            match (std::str::from_utf8(name), std::str::from_utf8(value)) {
                (Ok(name), Ok(value)) => self.set_named(name, Value::String(value)),
                _ => not_utf8.push((*name, *value)),
            }
        }
        self.add_not_utf8(&not_utf8);
    }

    fn add_not_utf8(&mut self, fields: &[Field<'_>]) {
        if fields.is_empty() {
            return;
        }
        let mut list = vec![b'['];
        for (i, (name, value)) in fields.iter().enumerate() {
            list.extend_from_slice(if i == 0 { b"{\"name\":\"" } else { b",{\"name\":\"" });
            write_base64(name, &mut list);
            list.extend_from_slice(b"\",\"value\":\"");
            write_base64(value, &mut list);
            list.extend_from_slice(b"\"}");
        }
        list.push(b']');
        self.set_own("not_utf8", list);
    }

    /// Sets a member of the layout's own, in JSON. A member of the source that has this name is renamed: `_` is appended.
    pub fn set_own(&mut self, name: &str, value: Vec<u8>) {
        if let Some(place) = self.places.remove(name) {
            let mut other = format!("{name}_");
            while self.places.contains_key(&other) {
                other.push('_');
            }
            self.members[place].key = Key::Name(other.clone());
            self.places.insert(other, place);
        }
        self.set_named(name, Value::Composed(value));
    }

    /// Sets a member of the layout's own to a string; bytes that are not UTF-8 become an entry of `not_utf8`.
    pub fn set_own_string(&mut self, name: &str, value: &[u8]) {
        match std::str::from_utf8(value) {
            Ok(text) => self.set_own(name, json_string(text)),
            Err(_) => self.add_not_utf8(&[(name.as_bytes(), value)]),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The meta's text; `None` where there is nothing in it.
    pub fn text(&self) -> Option<String> {
        if self.members.is_empty() {
            return None;
        }
        // UTF-8 it is: see `check`.
        String::from_utf8(self.compose()).ok()
    }

    fn compose(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, entry) in self.members.iter().enumerate() {
            out.push(if i == 0 { b'{' } else { b',' });
            match &entry.key {
                Key::Raw(raw) => {
                    out.push(b'"');
                    out.extend_from_slice(raw);
                    out.push(b'"');
                }
                Key::Name(name) => json::write_string(&mut out, name),
            }
            out.push(b':');
            match &entry.value {
                Value::Text(text) => out.extend_from_slice(text),
                Value::String(text) => json::write_string(&mut out, text),
                Value::Composed(text) => out.extend_from_slice(text),
            }
        }
        out.push(b'}');
        out
    }

    /// Checks that the composed text is valid JSON. It may not be: an array called like one of messages has not been parsed as a whole before,
    /// and a value may be nested too deep for a member.
    pub fn check(&self, source: usize) -> Result<(), BadLayout> {
        if self.members.is_empty() {
            return Ok(());
        }
        json::read_object(&self.compose(), |_, _| ()).map_err(|error| {
            let what = format_args!("holds more than messages, and that cannot be kept as meta ({error})");
            BadLayout::of(source, what)
        })
    }
}

pub(crate) fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::write_string(&mut out, text);
    out
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            out.push(if place > group.len() {
                b'='
            } else {
                DIGITS[digit as usize]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_one_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            write_base64(bytes.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn no_field_gets_lost_whatever_its_bytes_and_its_name() {
        let mut meta = Meta::default();
        meta.add_fields(&[
            (b"summary", b"theirs"),
            (b"summary_", b"theirs too"),
            (b"\xff", b"1"),
            (b"n", b"\xfe"),
            (b"not_utf8", b"x"),
        ]);
        meta.set_own_string("summary", b"ours");
        assert_eq!(
            meta.text().unwrap(),
            r#"{"summary__":"theirs","summary_":"theirs too","not_utf8_":"x","not_utf8":[{"name":"/w==","value":"MQ=="},{"name":"bg==","value":"/g=="}],"summary":"ours"}"#
        );
    }
}
