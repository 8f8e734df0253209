//! The streams that a native type reads and writes: the RDB and DUMP payload, the append-only file, the digest.

use redis_module::raw;
use std::ffi::CStr;
use std::ops::Deref;
use std::os::raw::c_char;
use std::slice;

/// The payload being written by `SAVE`, `DUMP` or replication. The server handles disk errors.
pub struct Sink<'io> {
    io: &'io mut raw::RedisModuleIO,
}

impl<'io> Sink<'io> {
    pub(super) fn new(io: &'io mut raw::RedisModuleIO) -> Self {
        Sink { io }
    }

    pub fn blob(&mut self, bytes: &[u8]) {
        // SAFETY: the stream is live; the bytes are read within the call.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.io, bytes.as_ptr().cast::<c_char>(), bytes.len()) };
    }
}

/// The payload being read. It may come from anyone who can `RESTORE`: every read can fail, and after the first failure all do.
pub struct Source<'io> {
    io: &'io mut raw::RedisModuleIO,
}

impl<'io> Source<'io> {
    pub(super) fn new(io: &'io mut raw::RedisModuleIO) -> Self {
        Source { io }
    }

    fn failed(&mut self) -> bool {
        // SAFETY: the stream is live.
        unsafe { api!(RedisModule_IsIOError)(self.io) != 0 }
    }

    pub fn blob(&mut self) -> Option<Blob> {
        let mut len = 0;
        // SAFETY: the stream is live; what comes back is null or `len` bytes which are ours to free.
        let start = unsafe { api!(RedisModule_LoadStringBuffer)(self.io, &mut len) };
        if start.is_null() {
            return None;
        }
        let blob = Blob { start, len };
        (!self.failed()).then_some(blob)
    }
}

/// Bytes that the server has read and allocated.
pub struct Blob {
    start: *mut c_char,
    len: usize,
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block has `len` bytes, all read from the payload, and belongs to this blob.
        unsafe { slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        // SAFETY: the block came from the server's allocator and is freed once.
        unsafe { api!(RedisModule_Free)(self.start.cast()) };
    }
}

/// The append-only file being rewritten: the commands that rebuild the value of this key.
pub struct AofWriter<'io> {
    io: &'io mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
}

impl<'io> AofWriter<'io> {
    /// # Safety
    /// `key` lives for `'io`.
    pub(super) unsafe fn new(io: &'io mut raw::RedisModuleIO, key: *mut raw::RedisModuleString) -> Self {
        AofWriter { io, key }
    }

    /// Writes the command `name key payload`. The key's expiry is written by the server.
    pub fn command(&mut self, name: &CStr, payload: &[u8]) {
        // SAFETY: "s" takes a string of the server, "b" a pointer and a length; all live during the call.
        unsafe {
            api!(RedisModule_EmitAOF)(
                self.io,
                name.as_ptr(),
                c"sb".as_ptr(),
                self.key,
                payload.as_ptr().cast::<c_char>(),
                payload.len(),
            );
        }
    }
}

/// The digest of `DEBUG DIGEST-VALUE`: a sequence of elements whose order matters, and of groups whose order does not.
pub struct Digest<'d> {
    digest: &'d mut raw::RedisModuleDigest,
}

impl<'d> Digest<'d> {
    pub(super) fn new(digest: &'d mut raw::RedisModuleDigest) -> Self {
        Digest { digest }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is live; the bytes are read within the call.
        unsafe { api!(RedisModule_DigestAddStringBuffer)(self.digest, bytes.as_ptr().cast::<c_char>(), bytes.len()) };
    }

    /// Ends a group of elements. Groups are combined independent of their order: right for sets and maps; a list is one group.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is live.
        unsafe { api!(RedisModule_DigestEndSequence)(self.digest) };
    }
}
