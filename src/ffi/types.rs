//! Native types: a safe trait, and the server's callbacks made from it.
//!
//! The server keeps one pointer per key, to this box:
//!
//! ```text
//! Held<T>   | borrows: u32 | expiry (see `expiry`) | value: T … |
//!             0 free · 1… handles reading · u32::MAX one handle writing
//! ```
//!
//! Only the thread that runs commands takes and releases borrows, so the mark is read and written without locked instructions; it is atomic
//! because `free` may read it on another thread (lazy free).

use super::defrag::Defrag;
use super::expiry::KnownExpiry;
use super::io::{AofWriter, Digest, Sink, Source};
use super::load_ctx::LoadCtx;
use crate::guard::guarded;
use redis_module::raw;
use std::cell::UnsafeCell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A type of value that keys can hold. It may be dropped on any thread.
pub trait NativeType: Sized + Send + Sync + 'static {
    /// Exactly nine characters of `A–Z a–z 0–9 - _`; what `TYPE` returns.
    const NAME: &'static str;
    /// 0 to 1023, stored with each saved value.
    const ENCODING_VERSION: i32;

    /// Returns a `static` of the implementing type.
    fn slot() -> &'static TypeSlot<Self>;

    fn save(&self, out: &mut Sink<'_>);
    /// Decodes a payload; `None` refuses it. It may come from anyone: never trust a length in it.
    fn load(source: &mut Source<'_>, encoding_version: i32) -> Option<Self>;
    /// Writes the commands that rebuild the value.
    fn rewrite(&self, out: &mut AofWriter<'_>);
    /// Returns the bytes that the value owns on the heap; its own size is added.
    fn memory_bytes(&self) -> usize;
    /// Returns about how many blocks a drop frees. Above 64, deletions may leave it to another thread.
    fn free_effort(&self) -> usize;
    fn copy(&self) -> Self;
    /// Adds the content of the value, not how it is stored, to a digest.
    fn digest(&self, digest: &mut Digest<'_>);
    /// Moves the value's blocks; returns `true` when all are done. The value's own box has been moved already.
    fn defrag(&mut self, defrag: &mut Defrag<'_>) -> bool;
}

/// Holds the server's handle of a native type. The type parameter prevents use of one for another type.
pub struct TypeSlot<T> {
    raw: AtomicPtr<raw::RedisModuleType>,
    of: PhantomData<fn() -> T>,
}

impl<T> TypeSlot<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        TypeSlot {
            raw: AtomicPtr::new(ptr::null_mut()),
            of: PhantomData,
        }
    }

    /// Returns the handle, null before the type is registered.
    #[inline]
    pub(super) fn get(&self) -> *mut raw::RedisModuleType {
        self.raw.load(Ordering::Relaxed)
    }
}

/// What the server's pointer of a key points to.
pub(super) struct Held<T> {
    borrows: AtomicU32,
    pub(super) expiry: KnownExpiry,
    value: UnsafeCell<T>,
}

const WRITING: u32 = u32::MAX;

impl<T> Held<T> {
    pub(super) fn new(value: T) -> Self {
        Held {
            borrows: AtomicU32::new(0),
            expiry: KnownExpiry::default(),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(super) fn begin_read(&self) -> bool {
        let borrows = self.borrows.load(Ordering::Relaxed);
        let free = borrows < WRITING - 1;
        if free {
            self.borrows.store(borrows + 1, Ordering::Relaxed);
        }
        free
    }

    #[inline]
    pub(super) fn end_read(&self) {
        // Release: everything was read before `free` on another thread can see the mark change.
        self.borrows
            .store(self.borrows.load(Ordering::Relaxed) - 1, Ordering::Release);
    }

    #[inline]
    pub(super) fn begin_write(&self) -> bool {
        let free = self.borrows.load(Ordering::Relaxed) == 0;
        if free {
            self.borrows.store(WRITING, Ordering::Relaxed);
        }
        free
    }

    #[inline]
    pub(super) fn end_write(&self) {
        self.borrows.store(0, Ordering::Release);
    }

    /// Returns the value. A read or write borrow must be held for as long as it is used through a reference.
    #[inline]
    pub(super) fn value(&self) -> *mut T {
        self.value.get()
    }
}

impl LoadCtx {
    /// Registers the type with the server.
    pub fn register_type<T: NativeType>(&self) -> Result<(), String> {
        let name = CString::new(T::NAME).map_err(|_| format!("the type name {:?} has a NUL", T::NAME))?;
        let mut methods = raw::RedisModuleTypeMethods {
            // The version that 7.0 knows; later servers read the structure according to this number.
            version: 4,
            rdb_load: Some(rdb_load::<T>),
            rdb_save: Some(rdb_save::<T>),
            aof_rewrite: Some(aof_rewrite::<T>),
            mem_usage: Some(mem_usage::<T>),
            digest: Some(digest::<T>),
            free: Some(free::<T>),
            aux_load: None,
            aux_save: None,
            aux_save_triggers: 0,
            free_effort: Some(free_effort::<T>),
            unlink: None,
            copy: Some(copy::<T>),
            defrag: Some(defrag::<T>),
            mem_usage2: None,
            free_effort2: None,
            unlink2: None,
            copy2: None,
            aux_save2: None,
        };
        // SAFETY: called from OnLoad; name and methods are read within the call, and the callbacks are made for boxes
        // of T, which is all that is ever stored under this type.
        let registered = unsafe {
            api!(RedisModule_CreateDataType)(self.as_ptr(), name.as_ptr(), T::ENCODING_VERSION, &mut methods)
        };
        if registered.is_null() {
            return Err(format!("the server refuses the type {}", T::NAME));
        }
        T::slot().raw.store(registered, Ordering::Relaxed);
        Ok(())
    }
}

/// Passes the value behind a callback's pointer to `body`; returns `fallback` on a panic.
///
/// # Safety
/// `value` is a pointer of the server to a live `Held<T>`.
unsafe fn lend<T: NativeType, R>(callback: &str, value: *const c_void, fallback: R, body: impl FnOnce(&T) -> R) -> R {
    // SAFETY: the caller's promise; the box is shared, what is inside is guarded by the mark.
    let held = unsafe { &*value.cast::<Held<T>>() };
    guarded(callback, fallback, || {
        assert!(held.begin_read(), "the value is being written");
        let _borrow = EndRead(held);
        // SAFETY: the read borrow taken above lasts until after the body.
        body(unsafe { &*held.value() })
    })
}

struct EndRead<'h, T>(&'h Held<T>);

impl<T> Drop for EndRead<'_, T> {
    fn drop(&mut self) {
        self.0.end_read();
    }
}

unsafe extern "C" fn rdb_load<T: NativeType>(io: *mut raw::RedisModuleIO, encoding_version: c_int) -> *mut c_void {
    guarded("rdb_load", ptr::null_mut(), || {
        // SAFETY: the server passes a stream that lives during the call.
        let mut source = Source::new(unsafe { &mut *io });
        match T::load(&mut source, encoding_version) {
            Some(value) => Box::into_raw(Box::new(Held::new(value))).cast(),
            None => ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn rdb_save<T: NativeType>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes a live stream and a value of this type.
    unsafe { lend::<T, _>("rdb_save", value, (), |value| value.save(&mut Sink::new(&mut *io))) }
}

unsafe extern "C" fn aof_rewrite<T: NativeType>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the server passes a live stream, the key's name and a value of this type.
    unsafe {
        lend::<T, _>("aof_rewrite", value, (), |value| {
            value.rewrite(&mut AofWriter::new(&mut *io, key))
        })
    }
}

unsafe extern "C" fn mem_usage<T: NativeType>(value: *const c_void) -> usize {
    let own = size_of::<Held<T>>();
    // SAFETY: the server passes a value of this type.
    unsafe { lend::<T, _>("mem_usage", value, own, |value| own + value.memory_bytes()) }
}

unsafe extern "C" fn free_effort<T: NativeType>(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // 0 would mean "always on another thread".
    // SAFETY: the server passes a value of this type.
    unsafe { lend::<T, _>("free_effort", value, 1, |value| value.free_effort().max(1)) }
}

unsafe extern "C" fn digest<T: NativeType>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes a live digest and a value of this type.
    unsafe {
        lend::<T, _>("digest", value, (), |value| {
            value.digest(&mut Digest::new(&mut *digest))
        })
    }
}

unsafe extern "C" fn copy<T: NativeType>(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes a value of this type.
    unsafe {
        lend::<T, _>("copy", value, ptr::null_mut(), |value| {
            Box::into_raw(Box::new(Held::new(value.copy()))).cast()
        })
    }
}

unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    let held = value.cast::<Held<T>>();
    guarded("free", (), || {
        // SAFETY: the server has let go of the pointer, so this call decides over the box. A handle that is still
        // open (a subscriber has deleted the key under a command) keeps it: it leaks rather than dangles.
        unsafe {
            if (*held).borrows.load(Ordering::Acquire) == 0 {
                drop(Box::from_raw(held));
            } else {
                crate::ffi::log_warning("a value was freed while a command was using it; its memory is lost");
            }
        }
    });
}

unsafe extern "C" fn defrag<T: NativeType>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guarded("defrag", 0, || {
        // SAFETY: the server passes a live context and the address of its pointer to a value of this type, between
        // commands: no handle is open, which the mark confirms. The box came from the server's malloc; the moved one
        // replaces it.
        unsafe {
            let mut held = (*value).cast::<Held<T>>();
            if (*held).borrows.load(Ordering::Relaxed) != 0 {
                return 0;
            }
            let mut defrag = Defrag::new(&mut *ctx);
            if align_of::<Held<T>>() <= super::alloc::MALLOC_ALIGN {
                held = defrag.relocate_raw(held.cast()).cast();
                *value = held.cast();
            }
            let done = (*(*held).value()).defrag(&mut defrag);
            c_int::from(!done)
        }
    })
}
