//! Caches when keys expire: a key's expiry is in the server's hash table of expiries, and a look-up there costs a twentieth of an append.
//!
//! What was read or set through an open key is cached beside the value until something else changes an expiry. Every such change is
//! reported: `EXPIRE` and its variants, and `PERSIST`, send a keyspace event to modules whatever the server's own setting for events is.
//! Any such event, of any key, invalidates the whole cache. A value that comes from elsewhere (`RESTORE`, `COPY`, a file) is a new value
//! with nothing cached. A rename moves a value together with its expiry.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

use redis_module::raw;

use super::load_ctx::LoadCtx;

/// Counts the events that invalidate the cache. 0 if the events cannot be observed: then nothing is cached.
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// The cached expiry of one key. Atomic only because the value may be freed on another thread.
#[derive(Default)]
pub(super) struct KnownExpiry {
    /// The epoch in which it was cached.
    epoch: AtomicU32,
    at_ms: AtomicI64,
}

impl KnownExpiry {
    #[inline]
    pub fn get(&self) -> Option<i64> {
        let epoch = self.epoch.load(Relaxed);
        (epoch != 0 && epoch == EPOCH.load(Relaxed)).then(|| self.at_ms.load(Relaxed))
    }

    #[inline]
    pub fn remember(&self, at_ms: i64) {
        self.at_ms.store(at_ms, Relaxed);
        self.epoch.store(EPOCH.load(Relaxed), Relaxed);
    }
}

impl LoadCtx {
    /// Subscribes to the events that report changed expiries. Not on Valkey, which switches the *client's* database to the event's for a
    /// subscriber (seen on 8.1.1: after `MOVE r 2` the client, or a replica's link to its primary, continues in database 2). There,
    /// expiries are looked up each time.
    pub(super) fn watch_expiries(&self) {
        if self.server_is_valkey() {
            return;
        }
        // SAFETY: called from OnLoad with a function that exists as long as the module, which is never unloaded.
        let status = unsafe {
            match raw::RedisModule_SubscribeToKeyspaceEvents {
                Some(subscribe) => subscribe(self.as_ptr(), raw::REDISMODULE_NOTIFY_GENERIC, Some(generic_event)),
                None => 1,
            }
        };
        EPOCH.store(u32::from(status == 0), Relaxed);
    }
}

/// Runs on the thread that runs commands. It cannot panic.
unsafe extern "C" fn generic_event(
    _ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    _key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server's event names end in NUL.
    let event = unsafe { CStr::from_ptr(event) };
    if event == c"expire" || event == c"persist" {
        // Never back to 0, which means that nothing is cached.
        EPOCH.store(EPOCH.load(Relaxed).checked_add(1).unwrap_or(1), Relaxed);
    }
    0
}
