//! Determines whether a replicated command would reach anyone: an append-only file, a replica, or a backlog for a future one.
//!
//! `RM_Replicate` costs as much as half an append (it looks the command up by name and builds its arguments) before it finds that there is
//! no receiver, the common case of a cache on one node. The API has no cheap test for that, and `INFO` is far too slow for each command;
//! but the answer changes rarely, and never from "nobody" to "somebody" unnoticed:
//!
//! * a replica or an append-only file begins with a snapshot, for which the server forks, and the fork is an event that comes before the
//!   next command. Commands before that are in the snapshot and need no replication.
//! * a replica can join without a snapshot only if there is a backlog, and then the answer was "somebody" already, unless the server has
//!   just become a primary or has loaded a data set: both are events.
//! * in a cluster slots can be exported in further ways. There the answer is always "somebody".
//!
//! So "nobody" is determined (from `INFO replication` and the append-only flag), cached, and invalidated at each of these events. If a
//! future server has a way that is not in this list, the command is still replicated there, as the client sent it:
//! [`super::Ctx::replicate`] falls back to `RM_ReplicateVerbatim`, which the server drops only if there is no receiver.

use super::load_ctx::LoadCtx;
use redis_module::raw;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Number of effects for which "somebody" is cached before it is determined again.
const EFFECTS_BETWEEN_CHECKS: u32 = 4096;

static NOBODY: AtomicBool = AtomicBool::new(false);
static EFFECTS_TO_CHECK: AtomicU32 = AtomicU32::new(1);
/// Whether the events are subscribed to; without them "nobody" could become stale, so it is not cached.
static EVENTS_ARE_SEEN: AtomicBool = AtomicBool::new(false);

/// Returns whether a replicated command may reach anyone. False is certain; true may be wrong (see above).
#[inline]
pub(super) fn somebody_listens(ctx: *mut raw::RedisModuleCtx) -> bool {
    !NOBODY.load(Relaxed) && !nobody_found(ctx)
}

#[inline(never)]
fn nobody_found(ctx: *mut raw::RedisModuleCtx) -> bool {
    let left = EFFECTS_TO_CHECK.load(Relaxed).saturating_sub(1);
    EFFECTS_TO_CHECK.store(left, Relaxed);
    if left > 0 {
        return false;
    }
    EFFECTS_TO_CHECK.store(EFFECTS_BETWEEN_CHECKS, Relaxed);
    let nobody = EVENTS_ARE_SEEN.load(Relaxed) && nobody_listens_now(ctx);
    NOBODY.store(nobody, Relaxed);
    nobody
}

#[cold]
fn nobody_listens_now(ctx: *mut raw::RedisModuleCtx) -> bool {
    const LISTENED_TO: u32 = raw::REDISMODULE_CTX_FLAGS_AOF
        | raw::REDISMODULE_CTX_FLAGS_SLAVE
        | raw::REDISMODULE_CTX_FLAGS_CLUSTER
        | raw::REDISMODULE_CTX_FLAGS_LOADING
        | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING
        | raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD;
    // SAFETY: the context is live; the names end in NUL; the data is freed once, after its last use.
    unsafe {
        if api!(RedisModule_GetContextFlags)(ctx) & LISTENED_TO as c_int != 0 {
            return false;
        }
        let data = api!(RedisModule_GetServerInfo)(ctx, c"replication".as_ptr());
        if data.is_null() {
            return false;
        }
        let is_zero = |field: &std::ffi::CStr| {
            let mut error: c_int = 0;
            let value = api!(RedisModule_ServerInfoGetFieldUnsigned)(data, field.as_ptr(), &mut error);
            error == 0 && value == 0
        };
        let nobody = is_zero(c"connected_slaves") && is_zero(c"repl_backlog_active");
        api!(RedisModule_FreeServerInfo)(ctx, data);
        nobody
    }
}

impl LoadCtx {
    /// Subscribes to the events after which there may be a receiver.
    pub(super) fn watch_audience(&self) {
        let mut all = true;
        for id in [
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            raw::REDISMODULE_EVENT_LOADING,
            raw::REDISMODULE_EVENT_FORK_CHILD,
        ] {
            let event = raw::RedisModuleEvent { id, dataver: 1 };
            // SAFETY: called from OnLoad; the callback is a function of the module, which is never unloaded.
            let status = unsafe {
                match raw::RedisModule_SubscribeToServerEvent {
                    Some(subscribe) => subscribe(self.as_ptr(), event, Some(audience_may_have_changed)),
                    None => 1,
                }
            };
            all &= status == 0;
        }
        EVENTS_ARE_SEEN.store(all, Relaxed);
    }
}

/// Runs on the thread that runs commands, between two of them. It cannot panic.
unsafe extern "C" fn audience_may_have_changed(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    NOBODY.store(false, Relaxed);
    EFFECTS_TO_CHECK.store(1, Relaxed);
}
