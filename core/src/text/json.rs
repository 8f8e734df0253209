//! A strict JSON reader over borrowed text: it validates a whole value in one pass and passes on the members of an object as slices of the
//! input. Message bodies are stored byte for byte, so nothing here builds a tree.
//!
//! Accepted although RFC 8259 advises against it: duplicate keys (the caller sees each, in order) and lone surrogate escapes. Refused:
//! nesting deeper than [`MAX_DEPTH`].
//!
//! It is written by hand for two reasons. It passes on every member of a repeated key, where a reader derived with serde refuses the text.
//! And it is faster on small bodies, which most messages have: with it [`body::read`](crate::body::read) takes 1,860 instructions per body,
//! a serde derive on serde_json 3,950, averaged over six typical bodies of 64 to 420 bytes (2.1 times as many; 3.0 times for the one of 64
//! bytes, 1.3 times for one that calls a tool). `examples/read_bodies.rs` measures that.
//!
//! Cost: O(bytes), about one instruction per byte inside strings, which are searched for their end sixteen bytes at a time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use wide::u8x16;

/// The maximum nesting of containers; the outermost is level 1.
pub const MAX_DEPTH: u32 = 128;

/// What is wrong with a text, and at which byte (counted from 0).
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

/// The bytes between a string's quotes, escapes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawString<'a> {
    bytes: &'a [u8],
    /// 0 if there are no escapes. A whole word: with padding behind it, the compiler would keep strings in memory.
    escapes: usize,
}

impl<'a> RawString<'a> {
    /// Makes a string again from the results of [`RawString::raw`] and [`RawString::is_escaped`].
    #[inline]
    pub(crate) fn from_parts(bytes: &'a [u8], is_escaped: bool) -> Self {
        RawString {
            bytes,
            escapes: usize::from(is_escaped),
        }
    }

    /// Returns the bytes between the quotes as written.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the string with its escapes resolved. A lone surrogate escape becomes U+FFFD.
    #[inline]
    pub fn decode(&self) -> Cow<'a, str> {
        // The whole text was validated, so this part of it is UTF-8.
        let text = std::str::from_utf8(self.bytes).unwrap_or_default();
        if self.is_escaped() {
            Cow::Owned(unescape(text))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Returns whether it contains escapes, so that its bytes are not the string.
    #[inline]
    pub fn is_escaped(&self) -> bool {
        self.escapes != 0
    }

    /// Returns whether the string equals `text`.
    #[inline]
    pub fn is(&self, text: &str) -> bool {
        if self.is_escaped() {
            self.decode() == text
        } else {
            self.bytes == text.as_bytes()
        }
    }
}

/// A value whose outermost type is known; containers stay text.
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

/// A visitor of an object's members. Strings, the most frequent type in messages, have a method of their own, which saves wrapping them in
/// a [`Value`].
pub trait Members<'a> {
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>);
    /// Visits any other value.
    fn other(&mut self, key: RawString<'a>, value: Value<'a>);
}

impl<'a, F: FnMut(RawString<'a>, Value<'a>)> Members<'a> for F {
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>) {
        self(key, Value::String(value));
    }

    fn other(&mut self, key: RawString<'a>, value: Value<'a>) {
        self(key, value);
    }
}

/// Validates that `text` is one JSON object in UTF-8, with only white space around it, and calls `member` with each of its members.
pub fn read_object<'a>(text: &'a [u8], mut member: impl FnMut(RawString<'a>, Value<'a>)) -> Result<()> {
    read_members(text, &mut member)
}

/// Like [`read_object`], with a visitor.
#[inline(always)]
pub fn read_members<'a>(text: &'a [u8], members: &mut impl Members<'a>) -> Result<()> {
    let mut seen = 0;
    let rest = object(text, skip_space(text), 0, &mut seen, members)?;
    let rest = skip_space(rest);
    if !rest.is_empty() {
        return Err(error(text, rest, Problem::Trailing));
    }
    // Everything outside of strings was compared with ASCII; most strings are ASCII too, which the scan has noticed.
    if seen != 0 {
        return check_utf8(text);
    }
    Ok(())
}

/// Parses the object at the start of `text`, after white space, and returns what follows it. Only the object has to be UTF-8.
#[inline(always)]
pub(crate) fn read_front_object<'a>(text: &'a [u8], members: &mut impl Members<'a>) -> Result<&'a [u8]> {
    let mut seen = 0;
    let rest = object(text, text, 0, &mut seen, members)?;
    if seen != 0 {
        check_utf8(&text[..text.len() - rest.len()])?;
    }
    Ok(rest)
}

/// Parses the value at the start of `text`, after white space, and returns it and what follows it. Only the value has to be UTF-8.
pub(crate) fn read_front(text: &[u8]) -> Result<(Value<'_>, &[u8])> {
    let (value, rest) = match behind(text, b'"') {
        Some(string) => {
            let (string, rest) = string_behind_quote(text, string, &mut 0)?;
            (Value::String(string), rest)
        }
        None => other_value(text, text, 0)?,
    };
    check_utf8(&text[..text.len() - rest.len()])?;
    Ok((value, rest))
}

/// Returns whether `text` is one JSON object that may contain objects accepted by [`read_object`], so that what the engine composes of
/// accepted parts stays readable.
pub fn is_composed_object(text: &[u8]) -> bool {
    let read = object(
        text,
        skip_space(text),
        COMPOSED,
        &mut 0,
        &mut |_: RawString<'_>, _: Value<'_>| (),
    );
    read.is_ok_and(|rest| skip_space(rest).is_empty()) && std::str::from_utf8(text).is_ok()
}

/// The initial level for texts composed of accepted parts: an object within an object may be as deep as one by itself.
const COMPOSED: i32 = -2;

/// Calls `member` with each member of an object that [`read_object`] has accepted.
pub fn members<'a>(text: &'a [u8], mut member: impl FnMut(RawString<'a>, Value<'a>)) {
    // It was accepted before, at whatever depth: this fails only by a caller's mistake, and then gives fewer members.
    let _ = object(text, skip_space(text), COMPOSED, &mut 0, &mut member);
}

/// Calls `element` with each element of an array that [`read_object`] has accepted.
pub fn elements<'a>(text: &'a [u8], element: impl FnMut(Value<'a>)) {
    let _ = array(text, skip_space(text), COMPOSED, element);
}

/// Reads the members of each object in an array that [`read_object`] has accepted with a visitor of its own, which is then passed to
/// `each`.
pub(crate) fn object_elements<'a, M: Members<'a> + Default>(text: &'a [u8], mut each: impl FnMut(M)) {
    let Some(mut left) = behind(text, b'[') else { return };
    loop {
        left = skip_space(left);
        let rest = if left.first() == Some(&b'{') {
            let mut members = M::default();
            let rest = object(left, left, COMPOSED, &mut 0, &mut members);
            each(members);
            rest
        } else {
            read_front(left).map(|(_, rest)| rest)
        };
        match rest.ok().and_then(|rest| behind(rest, b',')) {
            Some(after) => left = after,
            None => return,
        }
    }
}

// The reader is a set of functions that take the rest of the text and return what follows after the part they have read. The whole text is
// passed along to compute the offsets in errors. So the cursor is two registers wherever functions are inlined, and nothing in the loop
// over an object's members goes through memory; what few bodies contain is in functions of its own.
//
// `seen` is not 0 if there may be bytes beyond ASCII.

/// Set in `seen` for text other than plain strings, so that the whole text is checked as UTF-8.
const UNSEEN: u32 = 1;

#[cold]
fn error(text: &[u8], rest: &[u8], what: Problem) -> Error {
    Error {
        what,
        at: text.len() - rest.len(),
    }
}

/// Returns the error that after white space something other than `token` follows.
#[cold]
fn expected(text: &[u8], rest: &[u8], token: &'static str) -> Error {
    let rest = skip_space(rest);
    let what = if rest.is_empty() {
        Problem::UnexpectedEnd
    } else {
        Problem::Expected(token)
    };
    error(text, rest, what)
}

#[cold]
#[inline(never)]
fn check_utf8(text: &[u8]) -> Result<()> {
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error {
            what: Problem::NotUtf8,
            at: error.valid_up_to(),
        }),
    }
}

#[inline]
pub(crate) fn skip_space(rest: &[u8]) -> &[u8] {
    match rest.first() {
        // A single comparison: these bytes are greater than all white space.
        Some(b'!'..) | None => rest,
        Some(_) => skip_all_space(rest),
    }
}

#[inline(never)]
fn skip_all_space(mut rest: &[u8]) -> &[u8] {
    while let [b' ' | b'\n' | b'\r' | b'\t', after @ ..] = rest {
        rest = after;
    }
    rest
}

/// Skips white space and `byte` and returns what follows; `None` if something else follows.
#[inline(always)]
fn behind(rest: &[u8], byte: u8) -> Option<&[u8]> {
    match rest {
        [first, after @ ..] if *first == byte => Some(after),
        [b' ', first, after @ ..] if *first == byte => Some(after),
        [..=b' ', ..] => match skip_all_space(rest) {
            [first, after @ ..] if *first == byte => Some(after),
            _ => None,
        },
        _ => None,
    }
}

#[inline(always)]
fn object<'a>(
    text: &'a [u8],
    rest: &'a [u8],
    depth: i32,
    seen: &mut u32,
    members: &mut impl Members<'a>,
) -> Result<&'a [u8]> {
    let Some(mut left) = behind(rest, b'{') else {
        return Err(expected(text, rest, "'{'"));
    };
    if depth >= MAX_DEPTH as i32 {
        return Err(error(text, rest, Problem::TooDeep));
    }
    let Some(mut string) = behind(left, b'"') else {
        return behind(left, b'}').ok_or_else(|| expected(text, left, "'\"'"));
    };
    loop {
        let key;
        (key, left) = string_behind_quote(text, string, seen)?;
        let Some(after) = behind(left, b':') else {
            return Err(expected(text, left, "':'"));
        };
        if let Some(string) = behind(after, b'"') {
            let value;
            (value, left) = string_behind_quote(text, string, seen)?;
            members.string(key, value);
        } else {
            let value;
            (value, left) = other_value(text, after, depth + 1)?;
            *seen |= UNSEEN;
            members.other(key, value);
        }
        let Some(after) = behind(left, b',') else {
            return behind(left, b'}').ok_or_else(|| expected(text, left, "','"));
        };
        string = match behind(after, b'"') {
            Some(string) => string,
            None => return Err(expected(text, after, "'\"'")),
        };
    }
}

#[inline(always)]
fn array<'a>(text: &'a [u8], rest: &'a [u8], depth: i32, mut element: impl FnMut(Value<'a>)) -> Result<&'a [u8]> {
    let Some(mut left) = behind(rest, b'[') else {
        return Err(expected(text, rest, "'['"));
    };
    if depth >= MAX_DEPTH as i32 {
        return Err(error(text, rest, Problem::TooDeep));
    }
    if let Some(after) = behind(left, b']') {
        return Ok(after);
    }
    loop {
        let value;
        (value, left) = match behind(left, b'"') {
            Some(string) => {
                let (string, after) = string_behind_quote(text, string, &mut 0)?;
                (Value::String(string), after)
            }
            None => other_value(text, left, depth + 1)?,
        };
        element(value);
        left = match behind(left, b',') {
            Some(after) => after,
            None => return behind(left, b']').ok_or_else(|| expected(text, left, "','")),
        };
    }
}

/// Reads a value that is not a string.
#[inline(never)]
fn other_value<'a>(text: &'a [u8], rest: &'a [u8], depth: i32) -> Result<(Value<'a>, &'a [u8])> {
    let rest = skip_space(rest);
    match rest.first() {
        Some(b'{') => {
            let after = object(text, rest, depth, &mut 0, &mut |_, _| ())?;
            Ok((Value::Object(&rest[..rest.len() - after.len()]), after))
        }
        Some(b'[') => {
            let after = array(text, rest, depth, |_| ())?;
            Ok((Value::Array(&rest[..rest.len() - after.len()]), after))
        }
        Some(b'-' | b'0'..=b'9') => {
            let after = number(text, rest)?;
            Ok((Value::Number(&rest[..rest.len() - after.len()]), after))
        }
        Some(b't') => Ok((Value::Bool(true), literal(text, rest, "true", "'true'")?)),
        Some(b'f') => Ok((Value::Bool(false), literal(text, rest, "false", "'false'")?)),
        Some(b'n') => Ok((Value::Null, literal(text, rest, "null", "'null'")?)),
        _ => Err(expected(text, rest, "a value")),
    }
}

fn literal<'a>(text: &[u8], rest: &'a [u8], word: &str, token: &'static str) -> Result<&'a [u8]> {
    rest.strip_prefix(word.as_bytes())
        .ok_or_else(|| error(text, rest, Problem::Expected(token)))
}

fn digits<'a>(text: &[u8], rest: &'a [u8]) -> Result<&'a [u8]> {
    let mut left = rest;
    while let [b'0'..=b'9', after @ ..] = left {
        left = after;
    }
    if left.len() == rest.len() {
        return Err(error(text, rest, Problem::Number));
    }
    Ok(left)
}

fn number<'a>(text: &[u8], rest: &'a [u8]) -> Result<&'a [u8]> {
    let mut left = rest.strip_prefix(b"-").unwrap_or(rest);
    left = match left {
        // No leading zeros: `01` ends after the 0 and is then refused as trailing text.
        [b'0', after @ ..] => after,
        _ => digits(text, left)?,
    };
    if let [b'.', after @ ..] = left {
        left = digits(text, after)?;
    }
    if let [b'e' | b'E', after @ ..] = left {
        left = match after {
            [b'+' | b'-', after @ ..] => digits(text, after)?,
            _ => digits(text, after)?,
        };
    }
    Ok(left)
}

/// Reads a string from after its opening quote.
#[inline(always)]
fn string_behind_quote<'a>(text: &'a [u8], rest: &'a [u8], seen: &mut u32) -> Result<(RawString<'a>, &'a [u8])> {
    let end = plain_bytes(text, rest, seen);
    match rest.get(end) {
        Some(b'"') => Ok((
            RawString {
                bytes: &rest[..end],
                escapes: 0,
            },
            &rest[end + 1..],
        )),
        _ => {
            *seen |= UNSEEN;
            string_with_escapes(text, rest, end)
        }
    }
}

/// Reads the string at `rest`, whose first `end` bytes are plain.
#[inline(never)]
fn string_with_escapes<'a>(text: &'a [u8], rest: &'a [u8], mut end: usize) -> Result<(RawString<'a>, &'a [u8])> {
    // Text with escapes usually has many: all of these sixteen bytes are examined before the next sixteen.
    while let Some(block) = rest.get(end..).and_then(|left| left.first_chunk::<16>()) {
        let mut special = special_bytes(u8x16::from(*block)).to_bitmask();
        // Where the next sixteen begin: after these, or after an escape that reaches beyond them.
        let mut next = end + 16;
        while special != 0 {
            let at = special.trailing_zeros();
            let place = end + at as usize;
            // Not as `block[at]`, which would force the block into memory.
            match rest.get(place..place + 2) {
                Some([b'\\', escape]) if SIMPLE_ESCAPES[*escape as usize] => {}
                Some([b'"', _]) => return Ok(string_of(rest, place)),
                _ => match rest[place] {
                    b'"' => return Ok(string_of(rest, place)),
                    b'\\' => check_escape(text, &rest[place..])?,
                    _ => return Err(error(text, &rest[place..], Problem::ControlCharacter)),
                },
            }
            // Skips the byte after the backslash too, even if it is special.
            special &= !(0b11 << at);
            next = next.max(place + 2);
        }
        end = next;
    }
    loop {
        end += plain_bytes(text, &rest[end..], &mut 0);
        let left = &rest[end..];
        match left {
            [b'"', ..] => return Ok(string_of(rest, end)),
            [b'\\', ..] => check_escape(text, left)?,
            [] => return Err(error(text, &[], Problem::UnexpectedEnd)),
            [_, ..] => return Err(error(text, left, Problem::ControlCharacter)),
        }
        end += 2;
    }
}

/// Returns the string that ends before the quote at `rest[end]`, and what follows the quote.
#[inline(always)]
fn string_of(rest: &[u8], end: usize) -> (RawString<'_>, &[u8]) {
    let bytes = &rest[..end];
    (RawString { bytes, escapes: 1 }, &rest[end + 1..])
}

/// The bytes that may follow a backslash, except `u`.
const SIMPLE_ESCAPES: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &[u8] = b"\"\\/bfnrt";
    while let [escape, after @ ..] = rest {
        table[*escape as usize] = true;
        rest = after;
    }
    table
};

/// Validates the escape whose backslash is at the start of `left`.
#[inline(never)]
fn check_escape(text: &[u8], left: &[u8]) -> Result<()> {
    if left.get(1).is_some_and(|escape| SIMPLE_ESCAPES[*escape as usize]) {
        return Ok(());
    }
    let [b'\\', b'u', digits @ ..] = left else {
        return Err(match left.len() {
            1 => error(text, &[], Problem::UnexpectedEnd),
            _ => error(text, left, Problem::Escape),
        });
    };
    let hex = digits
        .iter()
        .take(4)
        .take_while(|digit| digit.is_ascii_hexdigit())
        .count();
    match digits.get(hex..) {
        Some(_) if hex == 4 => Ok(()),
        Some([]) | None => Err(error(text, &[], Problem::UnexpectedEnd)),
        Some(_) => Err(error(text, left, Problem::Escape)),
    }
}

/// Returns how many bytes at the start of `rest`, which ends `text`, are plain string text: up to a quote, a backslash, a control character
/// or the end.
#[inline(always)]
fn plain_bytes(text: &[u8], rest: &[u8], seen: &mut u32) -> usize {
    let mut left = rest;
    // The bytes are combined, so that their highest bits are tested once, at the end.
    let mut bits = u8x16::splat(0);
    while let Some((block, after)) = left.split_first_chunk::<16>() {
        let bytes = u8x16::from(*block);
        bits |= bytes;
        let special = special_bytes(bytes).to_bitmask();
        if special != 0 {
            *seen |= bits.to_bitmask();
            return rest.len() - left.len() + special.trailing_zeros() as usize;
        }
        left = after;
    }
    // Reads the text's last 16 bytes again, and uses those that are left.
    if let Some(block) = text.last_chunk::<16>() {
        let bytes = u8x16::from(*block);
        *seen |= (bits | bytes).to_bitmask();
        let special = special_bytes(bytes).to_bitmask() >> (16 - left.len());
        return rest.len() - left.len() + left.len().min(special.trailing_zeros() as usize);
    }
    *seen |= UNSEEN;
    plain_bytes_of_short_text(rest)
}

#[cold]
fn plain_bytes_of_short_text(rest: &[u8]) -> usize {
    rest.iter()
        .take_while(|byte| !matches!(byte, b'"' | b'\\' | ..0x20))
        .count()
}

/// Returns which of 16 bytes are special.
#[inline(always)]
fn special_bytes(bytes: u8x16) -> u8x16 {
    let backslash = bytes.simd_eq(u8x16::splat(b'\\'));
    // With bit 1 flipped, a quote (0x22) becomes 0x20, as no other byte does, and control characters stay below that.
    let turned = bytes ^ u8x16::splat(0x02);
    let quote_or_control = turned.min(u8x16::splat(0x20)).simd_eq(turned);
    backslash | quote_or_control
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
    let bytes = text.as_bytes();
    // A reader's plain text ends at exactly the bytes that a writer must escape.
    if plain_bytes(bytes, bytes, &mut 0) < bytes.len() {
        return write_escaped(out, text);
    }
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    out.extend_from_slice(bytes);
    out.push(b'"');
}

#[cold]
#[inline(never)]
fn write_escaped(out: &mut Vec<u8>, text: &str) {
    // Writing to a Vec cannot fail, and a str can always be serialised.
    let _ = serde_json::to_writer(out, text);
}

/// Appends the digits of `number`.
pub fn write_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a value as written in its source.
pub fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::String(string) => {
            out.push(b'"');
            out.extend_from_slice(string.raw());
            out.push(b'"');
        }
        other => out.extend_from_slice(&value_bytes(other)),
    }
}

/// Applies an RFC 7396 merge patch to an object. Both are texts accepted by [`read_object`]; what a patch does not touch keeps its bytes
/// (numbers, escapes, order of members).
///
/// Cost: O(bytes of both).
pub fn merge_patch(target: Option<&str>, patch: &str) -> String {
    let merged = merge(target.map(str::as_bytes), patch.as_bytes());
    // It consists of pieces of two UTF-8 texts, cut at ASCII characters.
    String::from_utf8(merged).unwrap_or_default()
}

type Member<'a> = (&'a [u8], Cow<'a, [u8]>);

/// Members in their order: the key as written, and the value's bytes. `None` for a removed one.
#[derive(Default)]
struct Merged<'a> {
    order: Vec<Option<Member<'a>>>,
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Merged<'a> {
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
    let mut merged = Merged::default();
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

/// Returns a value as written in its source.
pub fn value_bytes<'a>(value: &Value<'a>) -> Cow<'a, [u8]> {
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

    proptest! {
        #[test]
        fn strings_and_numbers_are_written_as_a_serialiser_does(text in "[ -~\\x00-\\x1f\"\\\\é\u{7f}]{0,40}", number in any::<u64>()) {
            let mut out = Vec::new();
            write_string(&mut out, &text);
            write_u64(&mut out, number);
            prop_assert_eq!(out, format!("{}{number}", serde_json::to_string(&text).unwrap()).into_bytes());
        }
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
