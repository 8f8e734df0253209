//! Keys opened as a native type, and closed on drop.

use super::args::Arg;
use super::ctx::Ctx;
use super::effect::OwnString;
use super::expiry::KnownExpiry;
use super::reply::ErrorReply;
use super::types::{Held, NativeType};
use crate::write::Step;
use redis_module::raw;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::ptr::NonNull;

/// The server's own error for a key of another type.
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

const NO_EXPIRY: i64 = raw::REDISMODULE_NO_EXPIRE as i64;

/// The content of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<V> {
    Missing,
    Value(V),
    WrongType,
}

type RawFound<T> = Found<NonNull<Held<T>>>;

impl Ctx {
    /// Opens the key for reading. Panics (caught by the guard) if it is open for writing.
    #[inline]
    pub fn open_key_read<T: NativeType>(&self, key: Arg<'_>) -> ReadKey<'_, T> {
        // SAFETY: context and name are live; null means that there is no such key.
        let raw = unsafe { api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), raw::REDISMODULE_READ as c_int) };
        let mut opened = ReadKey {
            raw,
            found: Found::Missing,
            ctx: PhantomData,
        };
        // SAFETY: the key is open or null.
        let found = unsafe { look::<T>(raw) };
        if let Found::Value(held) = found {
            // SAFETY: the server's pointer to a live box of this type.
            assert!(unsafe { held.as_ref() }.begin_read(), "the key is open for writing");
        }
        opened.found = found;
        opened
    }

    /// Opens the key for writing, whether it exists or not. Panics (caught by the guard) if it is open already.
    #[inline(always)]
    pub fn open_key_write<T: NativeType>(&self, key: Arg<'_>, _: Step) -> WriteKey<'_, T> {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
        // SAFETY: context and name are live; a key opened for writing is never null.
        let raw = unsafe { api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), mode) };
        let mut opened = WriteKey {
            raw,
            found: Found::Missing,
            ctx: PhantomData,
        };
        // SAFETY: the key is open.
        let found = unsafe { look::<T>(raw) };
        if let Found::Value(held) = found {
            // SAFETY: the server's pointer to a live box of this type.
            assert!(unsafe { held.as_ref() }.begin_write(), "the key is already open");
        }
        opened.found = found;
        opened
    }

    /// Passes the value of the key with this name to `look_at`, without side effects: last access, access frequency, expiry and `INFO`
    /// statistics do not change, as far as the server's API allows. Before 7.2 that covers only the access; there an expired key is
    /// deleted, as by any read.
    ///
    /// Returns `None` if there is no such key, it is of another type, or it is open for writing.
    pub fn peek<T: NativeType, R>(&self, key: &[u8], look_at: impl FnOnce(&T) -> R) -> Option<R> {
        let key = OwnString::new(key);
        // SAFETY: context and name are live; null means that there is no such key.
        let raw = unsafe { api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), traceless_mode()) };
        let mut opened = ReadKey::<T> {
            raw,
            found: Found::Missing,
            ctx: PhantomData,
        };
        // SAFETY: the key is open or null.
        if let Found::Value(held) = unsafe { look::<T>(raw) } {
            // SAFETY: the server's pointer to a live box of this type.
            if unsafe { held.as_ref() }.begin_read() {
                opened.found = Found::Value(held);
            }
        }
        match opened.get() {
            Found::Value(value) => Some(look_at(value)),
            _ => None,
        }
    }
}

/// Returns the mode for reading with as few side effects as the server supports.
fn traceless_mode() -> c_int {
    const READ: c_int = (raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH) as c_int;
    const EFFECTLESS: c_int = (raw::REDISMODULE_OPEN_KEY_NONOTIFY
        | raw::REDISMODULE_OPEN_KEY_NOSTATS
        | raw::REDISMODULE_OPEN_KEY_NOEXPIRE
        | raw::REDISMODULE_OPEN_KEY_NOEFFECTS) as c_int;
    // SAFETY: it only returns which modes this server knows.
    let known = unsafe { raw::RedisModule_GetOpenKeyModesAll.map_or(0, |all| all()) };
    READ | (EFFECTLESS & known)
}

impl Ctx {
    /// Stores a string at a key, replacing its content, with this expiry or none. A time in the past is set like any other, as `SET` does:
    /// the server then expires the key, here and on replicas. No handle to the key may be open. Does not signal, notify or replicate.
    pub fn set_string(&mut self, key: Arg<'_>, value: &[u8], expires_at_ms: Option<i64>, _: Step) {
        let value = OwnString::new(value);
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
        // SAFETY: context, name and value are live; the server takes its own reference of the value; the key is closed once. Handles borrow
        // the context, so none is open.
        unsafe {
            let raw = api!(RedisModule_OpenKey)(self.as_ptr(), key.as_ptr(), mode);
            let status = api!(RedisModule_StringSet)(raw, value.as_ptr());
            if let (0, Some(at_ms)) = (status, expires_at_ms) {
                api!(RedisModule_SetAbsExpire)(raw, at_ms);
            }
            api!(RedisModule_CloseKey)(raw);
        }
    }
}

/// # Safety
/// `key` is null or an open key.
#[inline]
unsafe fn look<T: NativeType>(key: *mut raw::RedisModuleKey) -> RawFound<T> {
    // SAFETY: the caller's promise. Under this type only boxes of Held<T> are stored, and their pointers are never
    // null. Only for a null key or another kind of value is the type null, and the slot's is not: a Ctx exists only
    // after OnLoad.
    unsafe {
        let stored = api!(RedisModule_ModuleTypeGetType)(key);
        if !stored.is_null() && stored == T::slot().get() {
            let value = api!(RedisModule_ModuleTypeGetValue)(key);
            return Found::Value(NonNull::new_unchecked(value.cast()));
        }
        if key.is_null() || api!(RedisModule_KeyType)(key) == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Found::Missing;
        }
        Found::WrongType
    }
}

/// # Safety
/// `key` is null or an open key.
unsafe fn expiry(key: *mut raw::RedisModuleKey) -> Option<i64> {
    if key.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let at = unsafe { api!(RedisModule_GetAbsExpire)(key) };
    (at != NO_EXPIRY).then_some(at)
}

/// A key opened for reading.
pub struct ReadKey<'c, T: NativeType> {
    /// Null for a missing key.
    raw: *mut raw::RedisModuleKey,
    /// A value is read-borrowed until the drop.
    found: RawFound<T>,
    ctx: PhantomData<&'c Ctx>,
}

impl<T: NativeType> ReadKey<'_, T> {
    #[inline]
    pub fn get(&self) -> Found<&T> {
        match self.found {
            Found::Missing => Found::Missing,
            Found::WrongType => Found::WrongType,
            // SAFETY: the read borrow lasts as long as this handle; the box is not freed or written meanwhile.
            Found::Value(held) => Found::Value(unsafe { &*held.as_ref().value() }),
        }
    }

    /// Returns the value, `None` if the key is missing; an error for any other type.
    #[inline]
    pub fn value(&self) -> Result<Option<&T>, ErrorReply> {
        match self.get() {
            Found::Value(value) => Ok(Some(value)),
            Found::Missing => Ok(None),
            Found::WrongType => Err(WRONGTYPE.into()),
        }
    }

    /// Returns when the key expires, in Unix milliseconds.
    pub fn expires_at_ms(&self) -> Option<i64> {
        // SAFETY: the key is open or null.
        unsafe { expiry(self.raw) }
    }
}

impl<T: NativeType> Drop for ReadKey<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the borrow is this handle's; the key, unless null, is open and closed once.
        unsafe {
            if let Found::Value(held) = self.found {
                held.as_ref().end_read();
            }
            if !self.raw.is_null() {
                api!(RedisModule_CloseKey)(self.raw);
            }
        }
    }
}

/// A key opened for writing. It does not signal, notify or replicate.
pub struct WriteKey<'c, T: NativeType> {
    raw: *mut raw::RedisModuleKey,
    /// A value is write-borrowed until the drop.
    found: RawFound<T>,
    ctx: PhantomData<&'c Ctx>,
}

impl<T: NativeType> WriteKey<'_, T> {
    #[inline]
    pub fn get(&self) -> Found<&T> {
        match self.found {
            Found::Missing => Found::Missing,
            Found::WrongType => Found::WrongType,
            // SAFETY: the write borrow is this handle's, and `&self` keeps `get_mut` out.
            Found::Value(held) => Found::Value(unsafe { &*held.as_ref().value() }),
        }
    }

    #[inline]
    pub fn get_mut(&mut self) -> Found<&mut T> {
        match self.found {
            Found::Missing => Found::Missing,
            Found::WrongType => Found::WrongType,
            // SAFETY: the write borrow is this handle's, and `&mut self` makes this the only reference.
            Found::Value(held) => Found::Value(unsafe { &mut *held.as_ref().value() }),
        }
    }

    /// Stores `value` at the key, replacing its content. The key has no expiry afterwards.
    pub fn set_value(&mut self, value: T) -> &mut T {
        self.release();
        let held = Box::into_raw(Box::new(Held::new(value)));
        // SAFETY: the box is new and ours; it is marked before the server has it, so that it outlives this handle
        // whatever subscribers to the server's `new` event do. The server frees the old value, which nobody borrows
        // any more.
        unsafe {
            (*held).begin_write();
            let status = api!(RedisModule_ModuleTypeSetValue)(self.raw, T::slot().get(), held.cast());
            assert!(status == 0, "the server does not take the value");
            self.found = Found::Value(NonNull::new_unchecked(held));
            &mut *(*held).value()
        }
    }

    /// Returns when the key expires, in Unix milliseconds.
    #[inline(always)]
    pub fn expires_at_ms(&self) -> Option<i64> {
        let known = self.known_expiry();
        let at = known.and_then(KnownExpiry::get).unwrap_or_else(|| {
            // SAFETY: the key is open.
            let at = unsafe { api!(RedisModule_GetAbsExpire)(self.raw) };
            if let Some(known) = known {
                known.remember(at);
            }
            at
        });
        (at != NO_EXPIRY).then_some(at)
    }

    /// Sets or removes the key's expiry. A time in the past is set like any other: deleting is left to the caller. Not for a missing key.
    #[inline(always)]
    pub fn set_expires_at_ms(&mut self, at: Option<i64>) {
        // Negative times are in the past, as 0 is.
        let at = at.map_or(NO_EXPIRY, |at| at.max(0));
        if self.known_expiry().and_then(KnownExpiry::get) == Some(at) {
            return;
        }
        // SAFETY: the key is open for writing.
        unsafe { api!(RedisModule_SetAbsExpire)(self.raw, at) };
        if let Some(known) = self.known_expiry() {
            known.remember(at);
        }
    }

    #[inline]
    fn known_expiry(&self) -> Option<&KnownExpiry> {
        match self.found {
            // SAFETY: the write borrow is this handle's, so the box is alive; it is accessed through shared references only.
            Found::Value(held) => Some(unsafe { &(*held.as_ptr()).expiry }),
            _ => None,
        }
    }

    /// Deletes the key; a large value may be freed on another thread.
    pub fn delete(&mut self) {
        self.release();
        // SAFETY: the key is open for writing.
        unsafe { api!(RedisModule_UnlinkKey)(self.raw) };
        self.found = Found::Missing;
    }

    /// Releases the value; the handle then treats the key as missing.
    #[inline]
    fn release(&mut self) {
        if let Found::Value(held) = std::mem::replace(&mut self.found, Found::Missing) {
            // SAFETY: the write borrow is this handle's, so the box is alive.
            unsafe { held.as_ref() }.end_write();
        }
    }
}

impl<T: NativeType> Drop for WriteKey<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.release();
        // SAFETY: the key is open and closed once.
        unsafe { api!(RedisModule_CloseKey)(self.raw) };
    }
}
