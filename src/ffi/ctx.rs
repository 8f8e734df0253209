//! The context of one running command: clock, log, notifications, and what the server is doing.

use super::args::Arg;
use super::log;
use crate::write::Step;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::os::raw::c_int;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The context of one call from the server to a command. Replies are in [`super::reply`], keys in [`super::key`], replication in
/// [`super::effect`].
pub struct Ctx {
    raw: NonNull<raw::RedisModuleCtx>,
    /// Number of elements that are missing for a complete reply: 1 before anything is sent.
    pub(super) owed: Cell<i64>,
    /// Whether a panic ended an array early.
    pub(super) cut_short: Cell<bool>,
}

impl Ctx {
    /// # Safety
    /// `raw` is the context of a call that is running now, on the thread that runs commands, and the result is
    /// dropped before that call ends.
    #[inline]
    pub(super) unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Self {
        // SAFETY: the server never passes a null context to a command.
        let raw = unsafe { NonNull::new_unchecked(raw) };
        Ctx {
            raw,
            owed: Cell::new(1),
            cut_short: Cell::new(false),
        }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// Returns the time in Unix milliseconds. If the server provides it (7.2), this is the time at which the command began.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        // SAFETY: both only read a clock.
        unsafe {
            match raw::RedisModule_CachedMicroseconds {
                Some(cached_us) => cached_us() / 1000,
                None => api!(RedisModule_Milliseconds)(),
            }
        }
    }

    /// Returns whether this command comes from the primary, an append-only file or a slot being imported: it was accepted there and must
    /// not be refused here. The call walks over much of the server's state, so call it only before refusing.
    pub fn obeys_primary(&self) -> bool {
        const OBEYED: c_int = (raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING) as c_int;
        // SAFETY: both read flags of a live context; the pointer, where there is one, is the server's
        // RM_MustObeyClient.
        unsafe {
            let must_obey = MUST_OBEY_CLIENT.load(Relaxed);
            let asked = !must_obey.is_null()
                && std::mem::transmute::<*mut c_void, MustObeyClient>(must_obey)(self.as_ptr()) != 0;
            asked || api!(RedisModule_GetContextFlags)(self.as_ptr()) & OBEYED != 0
        }
    }

    /// Publishes the keyspace event `event` of the module class. Keys must be closed before (hence `&mut`): a subscriber in another module
    /// runs within this call and may open, change or delete the same key.
    #[inline]
    pub fn notify(&mut self, event: &CStr, key: Arg<'_>, _: Step) {
        self.notify_class(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// Publishes a keyspace event of the generic class, for what happens to any type of key, such as `del`.
    pub fn notify_generic(&mut self, event: &CStr, key: Arg<'_>, _: Step) {
        self.notify_class(raw::REDISMODULE_NOTIFY_GENERIC, event, key);
    }

    /// Publishes a keyspace event of the string class: `set`.
    pub fn notify_string(&mut self, event: &CStr, key: Arg<'_>, _: Step) {
        self.notify_class(raw::REDISMODULE_NOTIFY_STRING as c_int, event, key);
    }

    #[inline]
    fn notify_class(&mut self, class: c_int, event: &CStr, key: Arg<'_>) {
        // SAFETY: the event ends in NUL, the key lives; no value of a native type is borrowed (a key borrows the
        // context).
        unsafe { api!(RedisModule_NotifyKeyspaceEvent)(self.as_ptr(), class, event.as_ptr(), key.as_ptr()) };
    }

    /// Signals to `WATCH` and client-side caching that the key has changed. The module calls this itself, only after a change: a write that
    /// changes nothing must not break a transaction.
    #[inline]
    pub fn signal_modified(&self, key: Arg<'_>, _: Step) {
        // SAFETY: the key's name lives; nothing of the key's value is touched.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.as_ptr(), key.as_ptr()) };
    }

    pub fn log_notice(&self, message: &str) {
        log::write(self.as_ptr(), c"notice", message);
    }

    pub fn log_warning(&self, message: &str) {
        log::write(self.as_ptr(), c"warning", message);
    }

    /// Returns the full name of the running command, as registered.
    pub(super) fn command_name(&self) -> Option<String> {
        // SAFETY: the name, where there is one, ends in NUL and lives as long as the command.
        unsafe {
            let name = raw::RedisModule_GetCurrentCommandName?(self.as_ptr());
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Closes the client's connection after this command, for a reply that can no longer be completed.
    pub(super) fn close_client(&self) {
        // SAFETY: both take a live context; a client without a connection is refused by the server.
        unsafe {
            let id = raw::RedisModule_GetClientId.map(|get| get(self.as_ptr()));
            if let (Some(id), Some(close)) = (id, raw::RedisModule_DeauthenticateAndCloseClient) {
                close(self.as_ptr(), id);
            }
        }
    }
}

type MustObeyClient = unsafe extern "C" fn(*mut raw::RedisModuleCtx) -> c_int;

/// Valkey's (8.1) own function for `obeys_primary`. The bindings do not have it, so it is looked up by name.
static MUST_OBEY_CLIENT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

pub(super) fn find_optional_functions() {
    let mut found: *mut c_void = ptr::null_mut();
    // SAFETY: the server writes a function pointer to the address or leaves it alone.
    unsafe {
        if let Some(get_api) = raw::RedisModule_GetApi {
            get_api(c"RedisModule_MustObeyClient".as_ptr(), ptr::from_mut(&mut found).cast());
        }
    }
    MUST_OBEY_CLIENT.store(found, Relaxed);
}
