//! Replies, written directly to the client's buffer.
//!
//! [`Ctx::owed`] counts what is still missing: sending a scalar subtracts one, opening an array of n adds n. A command that ends with 0 has
//! replied exactly once; the guard uses the same number to decide whether it may still reply an error.

use super::ctx::Ctx;
use redis_module::raw;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ffi::CStr;
use std::os::raw::{c_char, c_long};

/// The line of an error reply, `WORD text`. May be any bytes: what is not allowed in a line is escaped when it is sent.
#[derive(Debug)]
pub struct ErrorReply(Cow<'static, [u8]>);

impl ErrorReply {
    pub fn line(&self) -> &[u8] {
        &self.0
    }
}

impl From<&'static str> for ErrorReply {
    fn from(line: &'static str) -> Self {
        ErrorReply(Cow::Borrowed(line.as_bytes()))
    }
}

impl From<String> for ErrorReply {
    fn from(line: String) -> Self {
        ErrorReply(Cow::Owned(line.into_bytes()))
    }
}

impl From<Vec<u8>> for ErrorReply {
    fn from(line: Vec<u8>) -> Self {
        ErrorReply(Cow::Owned(line))
    }
}

impl From<Cow<'static, [u8]>> for ErrorReply {
    fn from(line: Cow<'static, [u8]>) -> Self {
        ErrorReply(line)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl Ctx {
    #[inline]
    fn owe(&self, change: i64) {
        self.owed.set(self.owed.get() + change);
    }

    /// Returns whether nothing has been sent yet.
    pub(super) fn reply_not_begun(&self) -> bool {
        self.owed.get() == 1
    }

    /// Returns whether exactly one complete reply has been sent.
    pub(super) fn reply_is_whole(&self) -> bool {
        self.owed.get() == 0 && !self.cut_short.get()
    }

    /// Completes a reply that a panic has interrupted, so that a script or a transaction around the command can read it (half a reply
    /// breaks the server's Lua permanently). The content is meaningless.
    #[cold]
    pub(super) fn fill_up(&self) {
        const MOST: i64 = 1 << 20;
        for _ in 0..self.owed.get().min(MOST) {
            self.reply_null();
        }
    }

    #[inline]
    pub fn reply_i64(&self, value: i64) {
        self.owe(-1);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.as_ptr(), value) };
    }

    #[inline]
    pub fn reply_bulk(&self, bytes: &[u8]) {
        self.owe(-1);
        // SAFETY: the context is live; the server copies the bytes.
        unsafe { api!(RedisModule_ReplyWithStringBuffer)(self.as_ptr(), bytes.as_ptr().cast::<c_char>(), bytes.len()) };
    }

    #[inline]
    pub fn reply_null(&self) {
        self.owe(-1);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNull)(self.as_ptr()) };
    }

    #[inline]
    pub fn reply_simple(&self, text: &CStr) {
        self.owe(-1);
        // SAFETY: the context is live, the text ends in NUL and is copied.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.as_ptr(), text.as_ptr()) };
    }

    /// Sends `WORD text` as an error. CR, LF, NUL and other control characters are escaped as `\xNN`.
    #[cold]
    pub fn reply_error(&self, line: &[u8]) {
        self.owe(-1);
        let mut text = SmallVec::<[u8; 256]>::new();
        for &byte in line {
            if byte < b' ' || byte == 0x7f {
                text.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            } else {
                text.push(byte);
            }
        }
        text.push(0);
        // SAFETY: the context is live; the text ends in its only NUL and is copied. It is not a format: the server
        // passes it to "%s".
        unsafe { api!(RedisModule_ReplyWithError)(self.as_ptr(), text.as_ptr().cast::<c_char>()) };
    }

    /// Sends a line of text, which must not contain a NUL.
    pub fn reply_simple_text(&self, text: &str) {
        match std::ffi::CString::new(text) {
            Ok(text) => self.reply_simple(&text),
            Err(_) => self.reply_bulk(text.as_bytes()),
        }
    }

    /// Begins an array; its `len` elements must follow.
    #[inline]
    pub fn reply_array(&self, len: usize) {
        self.owe(len as i64 - 1);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithArray)(self.as_ptr(), len as c_long) };
    }

    /// Begins a map; `pairs` keys, each with its value, must follow. RESP2 clients get a flat array.
    #[inline]
    pub fn reply_map(&self, pairs: usize) {
        self.owe(2 * pairs as i64 - 1);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithMap)(self.as_ptr(), pairs as c_long) };
    }

    /// Begins an array that contains the elements sent until the result is dropped.
    pub fn reply_array_postponed(&self) -> Postponed<'_> {
        // SAFETY: the context is live; the length is set when the result is dropped.
        unsafe { api!(RedisModule_ReplyWithArray)(self.as_ptr(), raw::REDISMODULE_POSTPONED_LEN.into()) };
        self.owe(-1);
        Postponed {
            ctx: self,
            owed_at_start: self.owed.get(),
        }
    }
}

/// An array whose length is sent when it is complete. Inner arrays must end before outer ones.
#[must_use]
pub struct Postponed<'c> {
    ctx: &'c Ctx,
    owed_at_start: i64,
}

impl Postponed<'_> {
    pub fn end(self) {}
}

impl Drop for Postponed<'_> {
    fn drop(&mut self) {
        let elements = (self.owed_at_start - self.ctx.owed.get()).max(0);
        // SAFETY: the context is live and this length is still open on the server's stack of them.
        unsafe {
            api!(RedisModule_ReplySetArrayLength)(self.ctx.as_ptr(), elements as c_long);
        }
        self.ctx.owed.set(self.owed_at_start);
        if std::thread::panicking() {
            // Well formed, but incomplete.
            self.ctx.cut_short.set(true);
        }
    }
}
