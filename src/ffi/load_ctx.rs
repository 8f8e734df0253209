//! The context of `OnLoad`.

use super::log;
use redis_module::raw;
use std::os::raw::c_int;
use std::ptr::NonNull;

/// Declares to Valkey that keys of this module survive an atomic slot migration (9.0), without x and `rdb_save` write all of a value. Not set on Redis, where the bit may get another meaning.
const VALKEY_HANDLES_SLOT_MIGRATION: c_int = 1 << 5;

/// The context of `OnLoad`, through which types, commands, settings and INFO fields are registered.
pub struct LoadCtx {
    raw: NonNull<raw::RedisModuleCtx>,
}

impl LoadCtx {
    pub(super) fn new(raw: NonNull<raw::RedisModuleCtx>) -> Self {
        LoadCtx { raw }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    pub fn log_warning(&self, message: &str) {
        log::write(self.as_ptr(), c"warning", message);
    }

    /// Sets all options in one call: a second call would replace the first.
    pub(super) fn set_options(&self) {
        // Without the first, a damaged payload aborts the server; with the second, a write that changes nothing does not break a WATCH.
        // Loading beside the old data set (HANDLE_REPL_ASYNC_LOAD) is not declared: commands would then run between two data sets, which,
        // for example, INFO's counters do not distinguish.
        let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED as c_int;
        if self.server_is_valkey() {
            options |= VALKEY_HANDLES_SLOT_MIGRATION;
        }
        // SAFETY: called from OnLoad.
        unsafe { api!(RedisModule_SetModuleOptions)(self.as_ptr(), options) };
    }

    /// Returns whether the server is Valkey. It reports `redis_version` 7.2.4 for compatibility, so its own field is read.
    pub(super) fn server_is_valkey(&self) -> bool {
        // SAFETY: called from OnLoad; the names end in NUL; the data is freed once, after its last use.
        unsafe {
            let data = api!(RedisModule_GetServerInfo)(self.as_ptr(), c"server".as_ptr());
            if data.is_null() {
                return false;
            }
            let version = api!(RedisModule_ServerInfoGetFieldC)(data, c"valkey_version".as_ptr());
            let found = !version.is_null();
            api!(RedisModule_FreeServerInfo)(self.as_ptr(), data);
            found
        }
    }
}
