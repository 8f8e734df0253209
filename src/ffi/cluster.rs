//! Information about keys on a node of a cluster.

use super::args::Arg;
use super::ctx::Ctx;
use redis_module::raw;
use std::os::raw::{c_char, c_int};

impl Ctx {
    /// Returns whether the server is a node of a cluster.
    pub fn in_cluster(&self) -> bool {
        // SAFETY: reads flags of a live context.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.as_ptr()) };
        flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER as c_int != 0
    }

    /// Returns whether a key that is missing here may be on another node, because its slot is being migrated. `neighbour` must be a key of
    /// the same slot that is here. The server reveals it by refusing a command with both keys, as it refuses a client's with `TRYAGAIN` or
    /// `ASK`.
    pub fn may_be_elsewhere(&self, neighbour: Arg<'_>, key: &[u8]) -> bool {
        // SAFETY: context and strings are live during the call, "s" takes a string of the server, "b" a pointer and a length; a reply
        // is ours to free.
        unsafe {
            let reply = api!(RedisModule_Call)(
                self.as_ptr(),
                c"EXISTS".as_ptr(),
                c"sb".as_ptr(),
                neighbour.as_ptr(),
                key.as_ptr().cast::<c_char>(),
                key.len(),
            );
            if reply.is_null() {
                return true;
            }
            api!(RedisModule_FreeCallReply)(reply);
            false
        }
    }
}
