//! Loading: the one symbol that the server looks for, and the context in which everything is registered.

use super::args;
use super::{ctx, effect, log};
use crate::guard;
use redis_module::raw;
use std::os::raw::c_int;
use std::ptr::NonNull;

const MODULE_VERSION: c_int = 1;

/// Valkey's promise that a module's keys survive an atomic slot migration (9.0), without which the server refuses to
/// migrate. Ours do: all of a value is in what `aof_rewrite` and `rdb_save` write. On Redis the bit would mean
/// something else one day.
const VALKEY_HANDLES_SLOT_MIGRATION: c_int = 1 << 5;

/// The context of `OnLoad`. Types, commands, settings and INFO fields are registered through it.
pub struct LoadCtx {
    raw: NonNull<raw::RedisModuleCtx>,
}

impl LoadCtx {
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    pub fn log_warning(&self, message: &str) {
        log::write(self.as_ptr(), c"warning", message);
    }

    /// The server takes all options in one call; a second one would replace the first.
    fn set_options(&self) {
        // Without the first a damaged payload aborts the server; with the second a write that changes nothing does
        // not break a WATCH. Loading beside the old data set (HANDLE_REPL_ASYNC_LOAD) is not claimed: commands would
        // then run between two data sets, which INFO's counters, to name one thing, do not tell apart.
        let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED as c_int;
        if self.server_is_valkey() {
            options |= VALKEY_HANDLES_SLOT_MIGRATION;
        }
        // SAFETY: called from OnLoad.
        unsafe { api!(RedisModule_SetModuleOptions)(self.as_ptr(), options) };
    }

    /// Valkey answers `redis_version` 7.2.4 for compatibility, so its own field is what tells.
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

/// Expands to the functions that everything else calls without asking, all of which are in Redis 7.0, and to [`first_missing_function`].
macro_rules! required_functions {
    ($($name:ident)*) => {
        /// One constant for each function. `api!` names the constant of the function it calls, so a call that the build
        /// script has not found does not compile; and a constant that no call names is dead code.
        #[allow(non_upper_case_globals)]
        pub(super) mod required {
            $(pub const $name: () = ();)*
        }

        /// The first of the functions that this server does not have.
        ///
        /// # Safety
        /// The API is initialised.
        unsafe fn first_missing_function() -> Option<&'static str> {
            // SAFETY: the pointers are not written any more.
            $(if unsafe { raw::$name }.is_none() {
                return Some(stringify!($name));
            })*
            None
        }
    };
}

// Made by build.rs from every `api!(RedisModule_…)` in this folder.
include!(concat!(env!("OUT_DIR"), "/required_functions.rs"));

/// What the server calls when it loads the module.
///
/// # Safety
/// Called by the server, with a context and arguments that live during the call.
#[no_mangle]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    const FAILED: c_int = raw::REDISMODULE_ERR as c_int;
    // SAFETY: the server's context; this initialises the API, before which nothing here allocates or calls it.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            c"session".as_ptr(),
            MODULE_VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    let Some(raw) = NonNull::new(ctx) else { return FAILED };
    if status != raw::REDISMODULE_OK as c_int {
        return FAILED;
    }
    let ctx = LoadCtx { raw };
    guard::install_hook();
    let result = guard::catch(|| {
        // SAFETY: the API is initialised; the arguments live during this call.
        let (missing, args) = unsafe { (first_missing_function(), args::from_raw(argv, argc)) };
        if let Some(name) = missing {
            return Err(format!(
                "this server has no {name}; Redis 7.0 or Valkey 7.2 is the oldest that will do"
            ));
        }
        if !args.is_empty() {
            let given: Vec<String> = args
                .iter()
                .map(|arg| format!("'{}'", arg.bytes().escape_ascii()))
                .collect();
            return Err(format!(
                "unknown module arguments {}; settings are given as session.<name> in the configuration file",
                given.join(" ")
            ));
        }
        ctx::find_optional_functions();
        effect::create_words();
        ctx.set_options();
        ctx.watch_audience();
        ctx.watch_expiries();
        crate::init(&ctx)
    });
    match result {
        Ok(Ok(())) => return raw::REDISMODULE_OK as c_int,
        Ok(Err(error)) => ctx.log_warning(&error),
        Err(panic) => ctx.log_warning(&format!("internal error while loading: {panic}")),
    }
    FAILED
}
