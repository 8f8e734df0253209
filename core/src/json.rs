//! A strict JSON reader over borrowed text: it validates a whole value in one pass and hands out the members of an object as
//! slices of the input. Message bodies are kept byte for byte, so nothing here builds a tree.
//!
//! Accepted beyond the letter of RFC 8259's advice: duplicate keys (the caller sees each, in order) and lone surrogate
//! escapes. Refused: anything nested deeper than [`MAX_DEPTH`].
//!
//! Cost: O(bytes), about one and a half instructions a byte inside strings, which eight bytes at a time are searched for their end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use wide::u8x16;

/// Containers may nest this deep; the outermost is level 1.
pub const MAX_DEPTH: u32 = 128;

/// Why a text is not what was expected, and at which byte (counted from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    pub what: Problem,
    pub at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    Expected(&'static str),
    UnexpectedEnd,
    TooDeep,
    ControlCharacter,
    Escape,
    Number,
    Trailing,
    NotUtf8,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Problem::Expected(token) => write!(f, "expected {token} at byte {}", self.at),
            Problem::UnexpectedEnd => write!(f, "unexpected end at byte {}", self.at),
            Problem::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} at byte {}", self.at),
            Problem::ControlCharacter => write!(f, "control character in a string at byte {}", self.at),
            Problem::Escape => write!(f, "invalid escape at byte {}", self.at),
            Problem::Number => write!(f, "invalid number at byte {}", self.at),
            Problem::Trailing => write!(f, "trailing bytes at byte {}", self.at),
            Problem::NotUtf8 => write!(f, "invalid UTF-8 at byte {}", self.at),
        }
    }
}

impl std::error::Error for Error {}

type Result<T> = std::result::Result<T, Error>;

/// What stands between a string's quotes, escapes and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawString<'a> {
    bytes: &'a [u8],
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// The bytes between the quotes as they were written.
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// The string itself. A lone surrogate escape becomes U+FFFD.
    #[inline]
    pub fn decode(&self) -> Cow<'a, str> {
        // The whole text was checked: the check of this part of it does not fail.
        let text = std::str::from_utf8(self.bytes).unwrap_or_default();
        if self.escaped {
            Cow::Owned(unescape(text))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Whether it was written with escapes, so that its bytes are not the string.
    #[inline]
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// Whether the string is this one.
    #[inline]
    pub fn is(&self, text: &str) -> bool {
        if self.escaped {
            self.decode() == text
        } else {
            self.bytes == text.as_bytes()
        }
    }
}

/// A value of which the outermost kind is known; containers stay text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    String(RawString<'a>),
    Number(&'a [u8]),
    Object(&'a [u8]),
    Array(&'a [u8]),
    Bool(bool),
    Null,
}

impl<'a> Value<'a> {
    pub fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            Value::String(string) => Some(string.decode()),
            _ => None,
        }
    }
}

/// Checks that `text` is one JSON object in UTF-8 with nothing but white space around it, and gives each of its members to `member`.
pub fn read_object<'a>(text: &'a [u8], member: impl FnMut(RawString<'a>, Value<'a>)) -> Result<()> {
    let mut reader = Reader {
        text,
        at: 0,
        high_bits: 0,
    };
    reader.skip_space();
    reader.object(0, member)?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(reader.error(Problem::Trailing));
    }
    // Outside of strings everything was compared with ASCII; most strings are ASCII too, which was seen on the way.
    if reader.high_bits != 0 {
        std::str::from_utf8(text).map_err(|error| Error {
            what: Problem::NotUtf8,
            at: error.valid_up_to(),
        })?;
    }
    Ok(())
}

/// Gives each member of an object that [`read_object`] has already accepted.
pub fn members<'a>(object: &'a [u8], member: impl FnMut(RawString<'a>, Value<'a>)) {
    let mut reader = Reader {
        text: object,
        at: 0,
        high_bits: 0,
    };
    reader.skip_space();
    // Accepted before, at whatever depth: only a caller's mistake could fail here, and then there are fewer members.
    let _ = reader.object(0, member);
}

/// Gives each element of an array that [`read_object`] has already accepted.
pub fn elements<'a>(array: &'a [u8], element: impl FnMut(Value<'a>)) {
    let mut reader = Reader {
        text: array,
        at: 0,
        high_bits: 0,
    };
    reader.skip_space();
    let _ = reader.array(0, element);
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Not 0 if a byte beyond ASCII was met.
    high_bits: u64,
}

impl<'a> Reader<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[cold]
    fn error(&self, what: Problem) -> Error {
        Error { what, at: self.at }
    }

    #[cold]
    fn expected(&self, token: &'static str) -> Error {
        if self.at >= self.text.len() {
            self.error(Problem::UnexpectedEnd)
        } else {
            self.error(Problem::Expected(token))
        }
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn object(&mut self, depth: u32, mut member: impl FnMut(RawString<'a>, Value<'a>)) -> Result<()> {
        if self.peek() != Some(b'{') {
            return Err(self.expected("'{'"));
        }
        if depth >= MAX_DEPTH {
            return Err(self.error(Problem::TooDeep));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("'\"'"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.expected("':'"));
            }
            self.at += 1;
            self.skip_space();
            let value = self.value(depth + 1)?;
            member(key, value);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.expected("','")),
            }
            self.skip_space();
        }
    }

    fn array(&mut self, depth: u32, mut element: impl FnMut(Value<'a>)) -> Result<()> {
        if self.peek() != Some(b'[') {
            return Err(self.expected("'['"));
        }
        if depth >= MAX_DEPTH {
            return Err(self.error(Problem::TooDeep));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let value = self.value(depth + 1)?;
            element(value);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.expected("','")),
            }
            self.skip_space();
        }
    }

    #[inline]
    fn value(&mut self, depth: u32) -> Result<Value<'a>> {
        let from = self.at;
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => {
                self.skip_object(depth)?;
                Ok(Value::Object(&self.text[from..self.at]))
            }
            Some(b'[') => {
                self.skip_array(depth)?;
                Ok(Value::Array(&self.text[from..self.at]))
            }
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b't') => self.literal("true", "'true'").map(|()| Value::Bool(true)),
            Some(b'f') => self.literal("false", "'false'").map(|()| Value::Bool(false)),
            Some(b'n') => self.literal("null", "'null'").map(|()| Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    // Not generic: the recursion into values of no interest is one function, not one for each caller's closure.
    fn skip_object(&mut self, depth: u32) -> Result<()> {
        self.object(depth, |_, _| ())
    }

    fn skip_array(&mut self, depth: u32) -> Result<()> {
        self.array(depth, |_| ())
    }

    fn literal(&mut self, word: &str, token: &'static str) -> Result<()> {
        if self.text[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.error(Problem::Expected(token)))
        }
    }

    fn digits(&mut self) -> Result<()> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == from {
            return Err(self.error(Problem::Number));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<&'a [u8]> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            // No leading zeros: `01` ends after the 0 and fails as trailing text where it stands.
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[from..self.at])
    }

    /// Reads a string; the cursor stands at its opening quote.
    #[inline]
    fn string(&mut self) -> Result<RawString<'a>> {
        let from = self.at + 1;
        let end = self.find_special(from);
        if self.text.get(end) != Some(&b'"') {
            self.at = end;
            return self.string_with_escapes(from);
        }
        self.at = end + 1;
        Ok(RawString {
            bytes: &self.text[from..end],
            escaped: false,
        })
    }

    /// The rest of a string that began at `from`, from its first special character on.
    #[inline(never)]
    fn string_with_escapes(&mut self, from: usize) -> Result<RawString<'a>> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    let bytes = &self.text[from..self.at];
                    self.at += 1;
                    return Ok(RawString { bytes, escaped: true });
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.error(Problem::ControlCharacter)),
                None => return Err(self.error(Problem::UnexpectedEnd)),
            }
            self.at = self.find_special(self.at);
        }
    }

    /// The first byte from `at` on that ends a run of plain string text, or the end of the input.
    #[inline]
    fn find_special(&mut self, mut at: usize) -> usize {
        let text = self.text;
        // Keys and roles end within the first few bytes.
        if let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*block);
            self.high_bits |= word & HIGH;
            let bits = special_bits(word);
            if bits != 0 {
                return at + (bits.trailing_zeros() / 8) as usize;
            }
            at += 8;
        }
        while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
            let bytes = u8x16::from(*block);
            self.high_bits |= u64::from(bytes.to_bitmask());
            let mask = special_mask(bytes);
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            at += 16;
        }
        while let Some(&byte) = text.get(at) {
            if byte == b'"' || byte == b'\\' || byte < 0x20 {
                break;
            }
            self.high_bits |= u64::from(byte & 0x80);
            at += 1;
        }
        at
    }

    fn escape(&mut self) -> Result<()> {
        let bytes = self.text;
        match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                for i in 2..6 {
                    match bytes.get(self.at + i) {
                        Some(digit) if digit.is_ascii_hexdigit() => {}
                        Some(_) => return Err(self.error(Problem::Escape)),
                        None => {
                            return Err(Error {
                                what: Problem::UnexpectedEnd,
                                at: bytes.len(),
                            })
                        }
                    }
                }
                self.at += 6;
                Ok(())
            }
            Some(_) => Err(self.error(Problem::Escape)),
            None => Err(Error {
                what: Problem::UnexpectedEnd,
                at: bytes.len(),
            }),
        }
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is `"`, `\` or a control character. Bits above the lowest set one may be false.
#[inline]
fn special_bits(word: u64) -> u64 {
    let quote = word ^ (LOW * b'"' as u64);
    let backslash = word ^ (LOW * b'\\' as u64);
    let quote = quote.wrapping_sub(LOW) & !quote;
    let backslash = backslash.wrapping_sub(LOW) & !backslash;
    let control = word.wrapping_sub(LOW * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

/// Which of 16 bytes are special, the first in bit 0.
#[inline]
fn special_mask(bytes: u8x16) -> u32 {
    let quote = bytes.simd_eq(u8x16::splat(b'"'));
    let backslash = bytes.simd_eq(u8x16::splat(b'\\'));
    let control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    (quote | backslash | control).to_bitmask()
}

#[cold]
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        out.push_str(&rest[..backslash]);
        let escape = rest.as_bytes().get(backslash + 1).copied().unwrap_or(b'\\');
        rest = rest.get(backslash + 2..).unwrap_or("");
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let unit = hex4(rest);
                rest = rest.get(4..).unwrap_or("");
                let low = rest.strip_prefix("\\u").map(hex4);
                match (unit, low) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        rest = rest.get(6..).unwrap_or("");
                    }
                    _ => out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
            other => out.push(other as char),
        }
    }
    out.push_str(rest);
    out
}

fn hex4(text: &str) -> u32 {
    text.get(..4)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0xfffd)
}

/// Appends `text` to `out` as a JSON string, quotes included.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing into a Vec cannot fail, and a str is always serialisable.
    let _ = serde_json::to_writer(out, text);
}

/// Applies an RFC 7396 merge patch to an object. Both are texts that [`read_object`] has accepted; what a patch does not
/// touch keeps its bytes (numbers, escapes, order of members).
///
/// Cost: O(bytes of both).
pub fn merge_patch(target: Option<&str>, patch: &str) -> String {
    let merged = merge(target.map(str::as_bytes), patch.as_bytes());
    // Made of pieces of two UTF-8 texts, cut at ASCII characters.
    String::from_utf8(merged).unwrap_or_default()
}

type Member<'a> = (&'a [u8], Cow<'a, [u8]>);

/// Members in their order: the key as it was written, and the value's bytes. `None` where one was removed.
#[derive(Default)]
struct Members<'a> {
    order: Vec<Option<Member<'a>>>,
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Members<'a> {
    fn get(&self, key: &RawString<'a>) -> Option<&[u8]> {
        let place = *self.places.get(&key.decode())?;
        self.order[place].as_ref().map(|(_, value)| value.as_ref())
    }

    fn set(&mut self, key: RawString<'a>, value: Option<Cow<'a, [u8]>>) {
        let place = *self.places.entry(key.decode()).or_insert_with(|| {
            self.order.push(None);
            self.order.len() - 1
        });
        let raw = self.order[place].as_ref().map_or(key.raw(), |(raw, _)| raw);
        self.order[place] = value.map(|value| (raw, value));
    }
}

fn merge(target: Option<&[u8]>, patch: &[u8]) -> Vec<u8> {
    let mut merged = Members::default();
    if let Some(target) = target {
        members(target, |key, value| merged.set(key, Some(value_bytes(&value))));
    }
    members(patch, |key, value| {
        let value = match value {
            Value::Null => None,
            Value::Object(inner) => {
                let old = merged.get(&key).filter(|old| old.starts_with(b"{"));
                Some(Cow::Owned(merge(old, inner)))
            }
            other => Some(value_bytes(&other)),
        };
        merged.set(key, value);
    });
    let mut out = vec![b'{'];
    for (key, value) in merged.order.iter().flatten() {
        if out.len() > 1 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(key);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out
}

/// A value as it was written.
fn value_bytes<'a>(value: &Value<'a>) -> Cow<'a, [u8]> {
    match value {
        Value::String(string) => Cow::Owned([b"\"", string.raw(), b"\""].concat()),
        Value::Number(raw) | Value::Object(raw) | Value::Array(raw) => Cow::Borrowed(raw),
        Value::Bool(true) => Cow::Borrowed(b"true"),
        Value::Bool(false) => Cow::Borrowed(b"false"),
        Value::Null => Cow::Borrowed(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepts(text: &[u8]) -> bool {
        read_object(text, |_, _| ()).is_ok()
    }

    fn failure(text: &str) -> String {
        read_object(text.as_bytes(), |_, _| ()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_what_was_expected_and_where() {
        assert_eq!(failure(""), "unexpected end at byte 0");
        assert_eq!(failure("[]"), "expected '{' at byte 0");
        assert_eq!(failure(r#"{"role":"user" "a":1}"#), "expected ',' at byte 15");
        assert_eq!(failure(r#"{"a":1"#), "unexpected end at byte 6");
        assert_eq!(failure(r#"{"a":1,}"#), "expected '\"' at byte 7");
        assert_eq!(failure(r#"{"a" 1}"#), "expected ':' at byte 5");
        assert_eq!(failure(r#"{"a":1}x"#), "trailing bytes at byte 7");
        assert_eq!(failure("{\"a\":\"\n\"}"), "control character in a string at byte 6");
        assert_eq!(failure(r#"{"a":"\x"}"#), "invalid escape at byte 6");
        assert_eq!(failure(r#"{"a":-}"#), "invalid number at byte 6");
        assert_eq!(failure(r#"{"a":nul}"#), "expected 'null' at byte 5");
        assert_eq!(
            read_object(b"{\"a\":\"\xff\"}", |_, _| ()).unwrap_err().to_string(),
            "invalid UTF-8 at byte 6"
        );
    }

    #[test]
    fn nesting_is_accepted_up_to_the_limit_and_not_beyond() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(accepts(nested(128).as_bytes()));
        assert!(failure(&nested(129)).starts_with("nested deeper than 128 at byte"));
        assert!(failure(&nested(100_000)).starts_with("nested deeper than 128 at byte"));
    }

    #[test]
    fn lone_surrogates_and_duplicate_keys_are_accepted() {
        let mut seen = Vec::new();
        read_object(br#"{"a":"\ud800","a":"\ud83d\ude00!"}"#, |_, value| {
            seen.push(value.as_string().unwrap().into_owned())
        })
        .unwrap();
        assert_eq!(seen, ["\u{fffd}", "\u{1f600}!"]);
    }

    #[test]
    fn merge_patch_follows_the_examples_of_rfc_7396() {
        for (target, patch, merged) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merge_patch(Some(target), patch), merged, "{target} + {patch}");
        }
    }

    #[test]
    fn merge_patch_keeps_bytes_it_does_not_touch() {
        assert_eq!(
            merge_patch(
                Some(r#"{"n":1.00e2,"s":"\ud800","big":123456789012345678901234567890}"#),
                r#"{"x":"\u0041"}"#
            ),
            r#"{"n":1.00e2,"s":"\ud800","big":123456789012345678901234567890,"x":"\u0041"}"#
        );
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_mutated_objects(
            seed in prop::collection::vec((".{0,12}", prop_oneof![Just("1"), Just("-0.5e+3"), Just("\"x\\n\\u00e9\""), Just("[1,{\"a\":null}]"), Just("true"), Just("{}")]), 0..4),
            cut in 0usize..200, flip in 0usize..200, byte in any::<u8>(),
        ) {
            let mut text = String::from("{");
            for (i, (key, value)) in seed.iter().enumerate() {
                if i > 0 { text.push_str(" , "); }
                text.push_str(&serde_json::to_string(key).unwrap());
                text.push(':');
                text.push_str(value);
            }
            text.push('}');
            let mut bytes = text.into_bytes();
            prop_assert!(accepts(&bytes));
            if flip < bytes.len() { bytes[flip] = byte; }
            if cut < bytes.len() && cut % 3 == 0 { bytes.truncate(cut); }
            let reference = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok_and(|raw| raw.get().starts_with('{'));
            prop_assert_eq!(accepts(&bytes), reference, "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn strings_of_every_length_end_where_they_end(text in ".{0,70}") {
            let mut body = b"{\"k\":".to_vec();
            write_string(&mut body, &text);
            body.push(b'}');
            let mut seen = None;
            read_object(&body, |_, value| seen = value.as_string().map(Cow::into_owned)).unwrap();
            prop_assert_eq!(seen, Some(text));
        }
    }
}
