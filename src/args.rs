//! The argument cursor: option words in any order, each once, and values of known kinds.

use std::sync::Arc;

use redis_session_core::limits::{Limit, Limits};
use redis_session_core::text::json;
use redis_session_core::text::time::MAX_TIME_MS;
use redis_session_core::text::MAX_TEXT_BYTES;

use crate::error;
use crate::ffi::{Arg, Args, Ctx, ErrorReply};
use crate::settings;

pub type Result<T> = std::result::Result<T, ErrorReply>;

/// Walks a command's words.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at the word at this index; 0 is the command's name.
    pub fn at(args: Args<'a>, at: usize) -> Self {
        Cursor { args, at }
    }

    /// Begins behind the command's name and key.
    #[inline]
    pub fn after_key(args: Args<'a>) -> Self {
        Cursor { args, at: 2 }
    }

    #[inline]
    pub fn next(&mut self) -> Option<Arg<'a>> {
        let arg = self.args.get(self.at).copied()?;
        self.at += 1;
        Some(arg)
    }

    #[inline]
    pub fn peek(&self) -> Option<Arg<'a>> {
        self.args.get(self.at).copied()
    }

    /// Returns the words from the last one taken to the end.
    pub fn rest_from_last(&self) -> Args<'a> {
        &self.args[self.at - 1..]
    }

    pub fn rest(&self) -> Args<'a> {
        &self.args[self.at.min(self.args.len())..]
    }

    pub fn skip_to_end(&mut self) {
        self.at = self.args.len();
    }

    /// Takes the value of the option `word`.
    #[inline]
    pub fn value(&mut self, word: Arg<'a>) -> Result<Arg<'a>> {
        self.next().ok_or_else(|| error::syntax(word.bytes()))
    }

    /// Takes the option's value as an integer in range.
    #[inline]
    pub fn int(&mut self, word: Arg<'a>, name: &str, min: i64, max: i64) -> Result<i64> {
        let value = self.value(word)?;
        int(value.bytes(), name, min, max)
    }

    pub fn text(&mut self, word: Arg<'a>, name: &str) -> Result<&'a str> {
        let value = self.value(word)?;
        text(value.bytes(), name)
    }

    /// Takes the option's values, whose number comes first, as in `REFS 2 a b`.
    pub fn counted(&mut self, word: Arg<'a>, name: &str, min: i64) -> Result<Args<'a>> {
        let count = self.int(word, name, min, i64::from(u32::MAX))? as usize;
        let values = self.rest().get(..count).ok_or_else(|| error::syntax(word.bytes()))?;
        self.at += count;
        Ok(values)
    }
}

/// Returns whether a word is this option's name, ignoring case.
#[inline]
pub fn is(word: Arg<'_>, name: &str) -> bool {
    // Most are written as in the documentation: one comparison recognises those.
    let word = word.bytes();
    word == name.as_bytes() || word.eq_ignore_ascii_case(name.as_bytes())
}

/// Sets a value that must not be set yet; a second one is a syntax error.
#[inline]
pub fn once<T>(slot: &mut Option<T>, word: Arg<'_>, value: T) -> Result<()> {
    if slot.is_some() {
        return Err(error::syntax(word.bytes()));
    }
    *slot = Some(value);
    Ok(())
}

#[inline]
pub fn once_flag(slot: &mut bool, word: Arg<'_>) -> Result<()> {
    if std::mem::replace(slot, true) {
        return Err(error::syntax(word.bytes()));
    }
    Ok(())
}

/// Reads an integer as Redis does: digits without leading zeros, a minus in front where it is negative, nothing else.
pub fn parse_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && (digits.len() > 1 || negative)) {
        return None;
    }
    let mut number: i128 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i128::from(digit - b'0');
    }
    i64::try_from(if negative { -number } else { number }).ok()
}

#[inline]
pub fn int(bytes: &[u8], name: &str, min: i64, max: i64) -> Result<i64> {
    match parse_int(bytes) {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(error::not_in_range(name, min, max)),
    }
}

/// Reads a seq or a version.
pub fn counter(bytes: &[u8], name: &str) -> Result<u64> {
    int(bytes, name, 0, i64::MAX).map(|number| number as u64)
}

/// Reads an id, name, type, state, label or role: UTF-8 of 1 to 65,536 bytes.
pub fn text<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(error::text_too_large(name, bytes.len()));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => Ok(text),
        _ => Err(error::not_text(name)),
    }
}

/// Reads each word as such a text.
pub fn texts<'a, C: FromIterator<&'a str>>(words: Args<'a>, name: &str) -> Result<C> {
    words.iter().map(|word| text(word.bytes(), name)).collect()
}

/// Reads a JSON argument that must be an object, of at most `session.max-message-bytes`.
pub fn object<'a>(ctx: &Ctx, bytes: &'a [u8], name: &str) -> Result<&'a str> {
    utf8(object_bytes(ctx, bytes, name)?, name)
}

pub fn utf8<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| error::not_text(name))
}

/// Like [`object`], but returns the bytes without checking again that they are UTF-8.
pub fn object_bytes<'a>(ctx: &Ctx, bytes: &'a [u8], name: &str) -> Result<&'a [u8]> {
    check_size(ctx, bytes, || name.to_owned())?;
    json::read_object(bytes, |_, _| ()).map_err(|why| error::not_an_object(name, why))?;
    Ok(bytes)
}

/// Refuses more than `session.max-message-bytes` from a client; accepts what a primary has accepted.
#[inline(always)]
pub fn check_size(ctx: &Ctx, bytes: &[u8], what: impl FnOnce() -> String) -> Result<()> {
    if bytes.len() > settings::MAX_MESSAGE_BYTES.get() as usize {
        return refuse_size(ctx, bytes, what);
    }
    Ok(())
}

#[cold]
fn refuse_size(ctx: &Ctx, bytes: &[u8], what: impl FnOnce() -> String) -> Result<()> {
    if ctx.obeys_primary() {
        return Ok(());
    }
    let most = settings::MAX_MESSAGE_BYTES.get() as usize;
    Err(error::body_too_large(&what(), bytes.len(), most))
}

/// Reads `-`, `+`, `n` or `(n` as an inclusive end; `None` for an end that excludes all numbers, as `(` before the greatest.
pub fn range_end(value: Arg<'_>, name: &str, is_start: bool, min: i64) -> Result<Option<i64>> {
    let (exclusive, digits) = match value.bytes() {
        b"-" => return Ok(Some(min)),
        b"+" => return Ok(Some(i64::MAX)),
        [b'(', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let number = parse_int(digits)
        .filter(|number| *number >= min)
        .ok_or_else(|| -> ErrorReply {
            format!(
                "ERR {name} must be '-', '+' or an integer from {min} to {}, exclusive with '(' before it",
                i64::MAX
            )
            .into()
        })?;
    Ok(match (exclusive, is_start) {
        (false, _) => Some(number),
        (true, true) => number.checked_add(1),
        (true, false) => number.checked_sub(1),
    })
}

/// Reads the seqs from start to stop, both inclusive; `None` for a range that is always empty.
pub fn seq_bounds(start: Arg<'_>, stop: Arg<'_>) -> Result<Option<(u64, u64)>> {
    Ok(
        match (range_end(start, "start", true, 0)?, range_end(stop, "stop", false, 0)?) {
            (Some(from), Some(to)) if from <= to && to >= 0 => Some((from as u64, to as u64)),
            _ => None,
        },
    )
}

/// The limits given with `[LIMIT name n] …`, each name once.
#[derive(Default)]
pub struct GivenLimits {
    given: Vec<(Limit, u64)>,
}

impl GivenLimits {
    /// Reads the name and value after the word `LIMIT`.
    pub fn take<'a>(&mut self, cursor: &mut Cursor<'a>, word: Arg<'a>) -> Result<()> {
        let (name, value) = (cursor.value(word)?, cursor.value(word)?);
        let limit = Limits::named(name.bytes())
            .filter(|limit| self.given.iter().all(|(known, _)| known != limit))
            .ok_or_else(|| error::syntax(name.bytes()))?;
        let value = int(value.bytes(), limit.name, 0, limit.max as i64)?;
        self.given.push((limit, value as u64));
        Ok(())
    }

    /// Returns the configured limits, overridden by these. A command that `obeys` a primary or an append-only file says every limit that
    /// its version had; one that it does not say gets the value that an older payload gives it, not this server's own configuration.
    pub fn over_defaults(&self, obeys: bool) -> Arc<Limits> {
        let mut limits = match obeys {
            true => Arc::new(Limits::when_missing()),
            false => settings::default_limits(),
        };
        for (limit, value) in &self.given {
            Arc::make_mut(&mut limits).set(*limit, *value);
        }
        limits
    }
}

/// The expiry options of `<w>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// `EX`, `PX`: sets the session's ttl.
    Ttl {
        ms: u64,
    },
    /// `PXAT`: sets the key's present expiry only.
    At {
        ms: i64,
    },
    Persist,
    Keep,
}

/// `<w>`: `[IFVERSION n] [LEASE token] [AT ms] [EX s | PX ms | PXAT ms | PERSIST | KEEPTTL]`.
///
/// A primary's commands contain more: `NOW ms` if the content's time is not the primary's clock, and a ttl (`PX`, `PERSIST`)
/// together with the resulting expiry (`PXAT`).
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    pub if_version: Option<u64>,
    pub lease: Option<u64>,
    pub at_ms: Option<i64>,
    pub now_ms: Option<i64>,
    pub expiry: Option<Expiry>,
    /// The expiry that resulted from `expiry` on the primary.
    pub settled_at_ms: Option<i64>,
}

const MAX_TTL_MS: i64 = MAX_TIME_MS;

impl WriteOptions {
    /// No options.
    pub const NONE: WriteOptions = WriteOptions {
        if_version: None,
        lease: None,
        at_ms: None,
        now_ms: None,
        expiry: None,
        settled_at_ms: None,
    };

    /// Only `KEEPTTL`: the key's expiry does not change.
    pub const KEEPTTL: WriteOptions = WriteOptions {
        expiry: Some(Expiry::Keep),
        ..WriteOptions::NONE
    };

    /// Parses the rest of a command whose grammar ends in `<w>`.
    pub fn rest(ctx: &Ctx, mut cursor: Cursor<'_>) -> Result<Self> {
        let mut options = WriteOptions::default();
        while let Some(word) = cursor.next() {
            if !options.take(ctx, &mut cursor, word)? {
                return Err(error::syntax(word.bytes()));
            }
        }
        Ok(options)
    }

    /// Takes `word` and its value if it is `AT`, or a primary's `NOW`.
    pub fn take_time<'a>(&mut self, ctx: &Ctx, cursor: &mut Cursor<'a>, word: Arg<'a>) -> Result<bool> {
        if is(word, "AT") {
            let value = cursor.int(word, "AT", 0, MAX_TIME_MS)?;
            once(&mut self.at_ms, word, value)?;
        } else if is(word, "NOW") && ctx.obeys_primary() {
            let value = cursor.int(word, "NOW", 0, MAX_TIME_MS)?;
            once(&mut self.now_ms, word, value)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes `word` and its value if it is one of `<w>`.
    pub fn take<'a>(&mut self, ctx: &Ctx, cursor: &mut Cursor<'a>, word: Arg<'a>) -> Result<bool> {
        if is(word, "IFVERSION") {
            let value = cursor.int(word, "IFVERSION", 0, i64::MAX)?;
            once(&mut self.if_version, word, value as u64)?;
        } else if is(word, "LEASE") {
            let value = cursor.int(word, "LEASE", 0, i64::MAX)?;
            once(&mut self.lease, word, value as u64)?;
        } else {
            return Ok(self.take_time(ctx, cursor, word)? || self.take_expiry(ctx, cursor, word)?);
        }
        Ok(true)
    }

    /// Takes `word` and its value if it is one of `EX PX PXAT PERSIST KEEPTTL`.
    pub fn take_expiry<'a>(&mut self, ctx: &Ctx, cursor: &mut Cursor<'a>, word: Arg<'a>) -> Result<bool> {
        let expiry = if is(word, "EX") {
            Expiry::Ttl {
                ms: cursor.int(word, "EX", 1, MAX_TTL_MS / 1000)? as u64 * 1000,
            }
        } else if is(word, "PX") {
            Expiry::Ttl {
                ms: cursor.int(word, "PX", 1, MAX_TTL_MS)? as u64,
            }
        } else if is(word, "PXAT") {
            Expiry::At {
                ms: cursor.int(word, "PXAT", 0, MAX_TIME_MS)?,
            }
        } else if is(word, "PERSIST") {
            Expiry::Persist
        } else if is(word, "KEEPTTL") {
            Expiry::Keep
        } else {
            return Ok(false);
        };
        match (self.expiry, expiry) {
            (None, expiry) => self.expiry = Some(expiry),
            (Some(Expiry::Ttl { .. } | Expiry::Persist), Expiry::At { ms })
                if self.settled_at_ms.is_none() && ctx.obeys_primary() =>
            {
                self.settled_at_ms = Some(ms);
            }
            _ => return Err(error::syntax(word.bytes())),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_int(text.as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "1.0",
            "1e3",
            "9223372036854775808",
            "99999999999999999999",
            "٣",
        ] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
    }
}
