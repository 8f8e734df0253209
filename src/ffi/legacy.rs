//! Reads values of the server's own types, in which legacy layouts store conversations.
//!
//! They are read whole with the server's own commands (`GET`, `HGETALL`, …), but lists element by element, which costs a third of reading
//! them that way. Strings are borrowed from the [`ForeignValue`]. The key is not changed.

use std::ffi::CStr;
use std::os::raw::{c_int, c_long};
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw;
use redis_session_core::layout::Source;

use super::args::Arg;
use super::ctx::Ctx;
use crate::write::Step;

/// The type of a key that holds no value of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignKind {
    Missing,
    String,
    List,
    Hash,
    SortedSet,
    /// A set, a stream or another module's type.
    Other,
}

/// A value read whole.
pub struct ForeignValue(Held);

enum Held {
    Reply {
        kind: ForeignKind,
        reply: NonNull<raw::RedisModuleCallReply>,
    },
    /// One reference for each element.
    List(Vec<NonNull<raw::RedisModuleString>>),
}

impl Ctx {
    /// Returns the type of a key, and when it expires (Unix milliseconds). No handle for writing may be open on it.
    pub fn foreign_kind(&self, key: Arg<'_>) -> (ForeignKind, Option<i64>) {
        // SAFETY: context and name are live; the key, null where it is missing, is closed once.
        unsafe {
            let opened = api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), raw::REDISMODULE_READ as c_int);
            if opened.is_null() {
                return (ForeignKind::Missing, None);
            }
            let kind = match api!(RedisModule_KeyType)(opened) as isize {
                raw::REDISMODULE_KEYTYPE_STRING => ForeignKind::String,
                raw::REDISMODULE_KEYTYPE_LIST => ForeignKind::List,
                raw::REDISMODULE_KEYTYPE_HASH => ForeignKind::Hash,
                raw::REDISMODULE_KEYTYPE_ZSET => ForeignKind::SortedSet,
                _ => ForeignKind::Other,
            };
            let at_ms = api!(RedisModule_GetAbsExpire)(opened);
            api!(RedisModule_CloseKey)(opened);
            (kind, (at_ms != raw::REDISMODULE_NO_EXPIRE as i64).then_some(at_ms))
        }
    }

    /// Reads a value of this type; `None` if the server refuses. Cost: O(bytes).
    pub fn read_foreign(&self, key: Arg<'_>, kind: ForeignKind) -> Option<ForeignValue> {
        if kind == ForeignKind::List {
            return Some(ForeignValue(Held::List(self.elements_of_list(key))));
        }
        let call = |command: &CStr, format: &CStr, words: [&CStr; 3]| {
            // SAFETY: the format says "s" for the key's string and "c" for each text that follows, which all live during the call; the server
            // looks at no more of them than the format names.
            unsafe {
                api!(RedisModule_Call)(
                    self.as_ptr(),
                    command.as_ptr(),
                    format.as_ptr(),
                    key.as_ptr(),
                    words[0].as_ptr(),
                    words[1].as_ptr(),
                    words[2].as_ptr(),
                )
            }
        };
        let reply = match kind {
            ForeignKind::String => call(c"GET", c"s", [c"", c"", c""]),
            ForeignKind::Hash => call(c"HGETALL", c"s", [c"", c"", c""]),
            ForeignKind::SortedSet => call(c"ZRANGE", c"sccc", [c"0", c"-1", c"WITHSCORES"]),
            ForeignKind::List | ForeignKind::Missing | ForeignKind::Other => return None,
        };
        let reply = NonNull::new(reply)?;
        let value = ForeignValue(Held::Reply { kind, reply });
        let expected = match kind {
            ForeignKind::String => raw::REDISMODULE_REPLY_STRING,
            _ => raw::REDISMODULE_REPLY_ARRAY,
        };
        // SAFETY: the reply is live.
        let is_read = unsafe { api!(RedisModule_CallReplyType)(reply.as_ptr()) } as i64 == expected as i64;
        is_read.then_some(value)
    }

    fn elements_of_list(&self, key: Arg<'_>) -> Vec<NonNull<raw::RedisModuleString>> {
        let mut elements = Vec::new();
        // SAFETY: context and name are live; the key, null where it is missing, is closed once. Each element is a new string, or a new
        // reference of one, that is the caller's to free; null behind the last and for a key of another type.
        unsafe {
            let opened = api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), raw::REDISMODULE_READ as c_int);
            if opened.is_null() {
                return elements;
            }
            let len = api!(RedisModule_ValueLength)(opened);
            elements.reserve_exact(len);
            for index in 0..len {
                let Some(element) = NonNull::new(api!(RedisModule_ListGet)(opened, index as c_long)) else {
                    break;
                };
                elements.push(element);
            }
            api!(RedisModule_CloseKey)(opened);
        }
        elements
    }

    /// Deletes a key of any type; a large value may be freed on another thread. No handle may be open on it.
    pub fn delete(&mut self, key: Arg<'_>, _: Step) {
        // SAFETY: context and name are live; the key is closed once.
        unsafe {
            let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
            let opened = api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), mode);
            api!(RedisModule_UnlinkKey)(opened);
            api!(RedisModule_CloseKey)(opened);
        }
    }
}

impl ForeignValue {
    /// Returns the content. Fields of a hash are sorted by name: their order in the server differs between servers.
    pub fn source(&self) -> Option<Source<'_>> {
        let (kind, reply) = match &self.0 {
            Held::List(elements) => {
                return Some(Source::List(
                    elements.iter().map(|element| bytes_of(*element)).collect(),
                ))
            }
            Held::Reply { kind, reply } => (*kind, *reply),
        };
        let whole = Element(reply);
        Some(match kind {
            ForeignKind::String => Source::String(whole.bytes()?),
            ForeignKind::Hash => {
                let mut fields = whole.pairs()?;
                fields.sort_unstable();
                Source::Hash(fields)
            }
            ForeignKind::SortedSet => {
                let mut members = Vec::with_capacity(whole.len() / 2);
                for (member, score) in whole.pairs()? {
                    let score = std::str::from_utf8(score).ok()?.parse().ok()?;
                    members.push((score, member));
                }
                Source::Zset(members)
            }
            ForeignKind::List | ForeignKind::Missing | ForeignKind::Other => return None,
        })
    }
}

/// Returns the bytes of an element, which live as long as it does.
fn bytes_of<'a>(element: NonNull<raw::RedisModuleString>) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: the string is live. Callers are methods of the value that holds it, and give `'a` the life of their borrow of that.
    unsafe {
        let start = api!(RedisModule_StringPtrLen)(element.as_ptr(), &mut len);
        slice::from_raw_parts(start.cast::<u8>(), len)
    }
}

impl Drop for ForeignValue {
    fn drop(&mut self) {
        match &self.0 {
            // SAFETY: the reply is this value's and is freed once; what was borrowed from it is gone by then.
            Held::Reply { reply, .. } => unsafe { api!(RedisModule_FreeCallReply)(reply.as_ptr()) },
            Held::List(elements) => {
                for element in elements {
                    // SAFETY: each element's one reference is this value's and is freed once; what was borrowed from it is gone by then.
                    unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), element.as_ptr()) };
                }
            }
        }
    }
}

/// A reply or a part of one, borrowed from a [`ForeignValue`].
#[derive(Clone, Copy)]
struct Element(NonNull<raw::RedisModuleCallReply>);

impl Element {
    fn len(self) -> usize {
        // SAFETY: the reply is live.
        unsafe { api!(RedisModule_CallReplyLength)(self.0.as_ptr()) }
    }

    fn elements(self) -> impl Iterator<Item = Option<Element>> {
        // SAFETY: the reply is live, and so are its elements as long as it is; null for a reply of another kind.
        (0..self.len()).map(move |index| unsafe {
            NonNull::new(api!(RedisModule_CallReplyArrayElement)(self.0.as_ptr(), index)).map(Element)
        })
    }

    /// Returns the bytes of a string, which live as long as the whole reply.
    fn bytes<'a>(self) -> Option<&'a [u8]> {
        let mut len = 0;
        // SAFETY: the reply is live; null for a reply of another kind. Callers are methods of the value that holds the reply, and give `'a`
        // the life of their borrow of it.
        unsafe {
            let start = api!(RedisModule_CallReplyStringPtr)(self.0.as_ptr(), &mut len);
            (!start.is_null()).then(|| slice::from_raw_parts(start.cast::<u8>(), len))
        }
    }

    /// Returns the elements in pairs.
    #[allow(clippy::type_complexity)]
    fn pairs<'a>(self) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        let mut pairs = Vec::with_capacity(self.len() / 2);
        let mut elements = self.elements();
        while let Some(first) = elements.next() {
            pairs.push((first?.bytes()?, elements.next()??.bytes()?));
        }
        Some(pairs)
    }
}
