//! Publishing to subscribers.

use redis_module::raw;

use super::ctx::Ctx;
use super::effect::OwnString;

impl Ctx {
    /// Returns whether this server publishes what this command records. Outside of a cluster every server does, a replica when it executes
    /// the replicated command. In a cluster a message reaches all nodes, so only the primary publishes. Nothing is published while loading.
    pub fn publishes(&self) -> bool {
        const LOADING: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
        // SAFETY: reads the flags of a live context.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.as_ptr()) } as u32;
        let in_cluster = flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0;
        let replica = flags & (raw::REDISMODULE_CTX_FLAGS_SLAVE | raw::REDISMODULE_CTX_FLAGS_REPLICATED) != 0;
        flags & LOADING == 0 && !(in_cluster && replica)
    }

    pub fn selected_db(&self) -> i32 {
        // SAFETY: reads from a live context.
        unsafe { api!(RedisModule_GetSelectedDb)(self.as_ptr()) }
    }

    /// Publishes `payload` on the channel.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) {
        let (channel, payload) = (OwnString::new(channel), OwnString::new(payload));
        // SAFETY: the context and both strings are live; the server takes references of its own.
        unsafe { api!(RedisModule_PublishMessage)(self.as_ptr(), channel.as_ptr(), payload.as_ptr()) };
    }
}
