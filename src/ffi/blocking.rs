//! Clients blocked on a key: the server calls back after a command has signalled that there may be something for them.
//!
//! ```text
//!   command          server                       here
//!   block_on_key --> BlockClientOnKeys            the waiter is boxed; WAITING + 1
//!   signal_ready --> SignalKeyAsReady
//!                    … after the command -------> ready:   the waiter replies, or stays blocked
//!                    … after the time-out ------> timeout: replies nil
//!                    … in every case -----------> free:    the waiter is dropped; WAITING - 1
//! ```
//!
//! A client is also unblocked by `CLIENT UNBLOCK`, `CLIENT KILL`, a lost connection and a change of the server's role; all of these end in
//! `free`.

use std::os::raw::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_module::raw;

use super::args::Arg;
use super::command;
use super::ctx::Ctx;
use super::reply::ErrorReply;
use crate::guard;

/// The state of a blocked client.
pub trait Waiter: Sized + 'static {
    /// Replies and returns true, or replies nothing and returns false: the client stays blocked.
    fn serve(&mut self, ctx: &mut Ctx, key: Arg<'_>) -> Result<bool, ErrorReply>;
}

/// Counts one blocked client while it exists.
struct Waiting<W> {
    waiter: W,
}

static WAITING: AtomicU64 = AtomicU64::new(0);

/// Returns how many clients are blocked on keys.
pub fn waiting_clients() -> u64 {
    WAITING.load(Relaxed)
}

impl<W> Waiting<W> {
    fn new(waiter: W) -> Self {
        WAITING.fetch_add(1, Relaxed);
        Waiting { waiter }
    }
}

impl<W> Drop for Waiting<W> {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}

impl Ctx {
    /// Returns whether this client can be blocked: not in a transaction, a script or for a client that must not block.
    pub fn can_block(&self) -> bool {
        const MUST_ANSWER: u32 = raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        // SAFETY: reads flags of a live context.
        unsafe { api!(RedisModule_GetContextFlags)(self.as_ptr()) & MUST_ANSWER as c_int == 0 }
    }

    /// Blocks the client on the key, for at most `timeout_ms` milliseconds (0: no time-out). This is the command's reply; allowed only if
    /// [`Ctx::can_block`] returns true.
    pub fn block_on_key<W: Waiter>(&mut self, key: Arg<'_>, timeout_ms: i64, waiter: W) {
        self.owed.set(self.owed.get() - 1);
        let waiting = Box::into_raw(Box::new(Waiting::new(waiter)));
        let mut keys = [key.as_ptr()];
        // SAFETY: the context is live; the server copies the list of keys and takes references of its own; it calls `free` once with the
        // box, after the last call of the other two.
        unsafe {
            api!(RedisModule_BlockClientOnKeys)(
                self.as_ptr(),
                Some(ready::<W>),
                Some(timeout),
                Some(free::<W>),
                timeout_ms,
                keys.as_mut_ptr(),
                1,
                waiting.cast::<c_void>(),
            );
        }
    }

    /// Signals that clients blocked on the key may be served after this command. Costs one comparison if no client is blocked on any key.
    #[inline(always)]
    pub fn signal_ready(&self, key: Arg<'_>) {
        if WAITING.load(Relaxed) > 0 {
            self.signal_key_ready(key);
        }
    }

    #[inline(never)]
    fn signal_key_ready(&self, key: Arg<'_>) {
        // SAFETY: the context and the key's name are live; nothing runs within this call.
        unsafe { api!(RedisModule_SignalKeyAsReady)(self.as_ptr(), key.as_ptr()) };
    }
}

/// Returns whether the client's user may still run its command on its keys: ACL rules may have changed while it was blocked. The server
/// repeats this check for `XREAD` too (from 7.2 on).
///
/// # Safety
/// The context and the arguments are those of a blocked client, live during the call.
unsafe fn is_still_allowed(
    raw_ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> bool {
    // SAFETY: as above; the name and the handle of the user are ours to free, the user itself is not freed with it.
    unsafe {
        let name = api!(RedisModule_GetCurrentUserName)(raw_ctx);
        let user = api!(RedisModule_GetModuleUserFromUserName)(name);
        api!(RedisModule_FreeString)(ptr::null_mut(), name);
        if user.is_null() {
            return false;
        }
        let status = api!(RedisModule_ACLCheckCommandPermissions)(user, argv, argc);
        api!(RedisModule_FreeModuleUser)(user);
        status == raw::REDISMODULE_OK as c_int
    }
}

unsafe extern "C" fn ready<W: Waiter>(
    raw_ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server calls this on the thread that runs commands, with the context of a client that `block_on_key` blocked with a
    // `Waiting<W>`, which is freed later; the key's name lives until this function returns, and nothing here outlives it.
    let (mut ctx, waiting, key) = unsafe {
        let waiting = api!(RedisModule_GetBlockedClientPrivateData)(raw_ctx).cast::<Waiting<W>>();
        let key = NonNull::new(api!(RedisModule_GetBlockedClientReadyKey)(raw_ctx));
        let (Some(waiting), Some(key)) = (waiting.as_mut(), key) else {
            return raw::REDISMODULE_ERR as c_int;
        };
        (Ctx::new(raw_ctx), waiting, Arg::new(key))
    };
    // SAFETY: these are what the server has called with.
    if !unsafe { is_still_allowed(raw_ctx, argv, argc) } {
        ctx.reply_error(b"NOPERM the permission to run this command on this key was taken back meanwhile");
        return raw::REDISMODULE_OK as c_int;
    }
    let served = guard::catch(|| waiting.waiter.serve(&mut ctx, key));
    match served {
        Ok(Ok(false)) => return raw::REDISMODULE_ERR as c_int,
        Ok(Ok(true)) => {}
        Ok(Err(error)) => ctx.reply_error(error.line()),
        Err(panic) => command::answer_panic(&ctx, "a blocked command", &panic),
    }
    raw::REDISMODULE_OK as c_int
}

/// It cannot panic.
unsafe extern "C" fn timeout(
    raw_ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context of a client whose time-out has passed, live until this function returns.
    unsafe { Ctx::new(raw_ctx) }.reply_null();
    raw::REDISMODULE_OK as c_int
}

/// It cannot panic: waiters are plain data.
unsafe extern "C" fn free<W: Waiter>(_ctx: *mut raw::RedisModuleCtx, waiting: *mut c_void) {
    // SAFETY: the box of `block_on_key`, given back once.
    drop(unsafe { Box::from_raw(waiting.cast::<Waiting<W>>()) });
}
