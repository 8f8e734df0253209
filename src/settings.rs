//! `CONFIG GET/SET session.<name>`. Defaults of limits are written into a session when it is created; what is described in
//! `redis.conf` is described once, there.

use std::sync::{Arc, Mutex, PoisonError};

use redis_session_core::limits::Limits;
use redis_session_core::text::time::MAX_TIME_MS;

use crate::ffi::{Boolean, Choice, Integer, Setting};

const MAX_COUNT: i64 = u32::MAX as i64;
const MAX_SECONDS: i64 = MAX_TIME_MS / 1000;

pub static DEFAULT_MAXLEN: Integer = Integer::new(c"default-maxlen", 20, 0, MAX_COUNT).on_change(forget_limits);
pub static DEFAULT_TTL_S: Integer = Integer::new(c"default-ttl", 604_800, 0, MAX_SECONDS);
pub static MAX_MESSAGE_BYTES: Integer = Integer::new(c"max-message-bytes", 1 << 20, 1, 512 << 20).memory();
pub static DEDUP_WINDOW: Integer = Integer::new(c"dedup-window", 64, 0, MAX_COUNT).on_change(forget_limits);
pub static EVENT_MAXLEN: Integer = Integer::new(c"event-maxlen", 1000, 0, MAX_COUNT).on_change(forget_limits);
pub static EVENT_TTL_S: Integer = Integer::new(c"event-ttl", 3600, 0, MAX_SECONDS).on_change(forget_limits);
pub static MAX_CHECKPOINTS: Integer = Integer::new(c"max-checkpoints", 16, 0, MAX_COUNT).on_change(forget_limits);
pub static MAX_ENTITIES: Integer = Integer::new(c"max-entities", 10_000, 0, MAX_COUNT).on_change(forget_limits);
pub static MAX_AGENTS: Integer = Integer::new(c"max-agents", 1000, 0, MAX_COUNT).on_change(forget_limits);
pub static CHECKPOINT_GRACE_S: Integer = Integer::new(c"checkpoint-grace", 600, 0, MAX_SECONDS);
pub static ANCHOR_MAXLEN: Integer = Integer::new(c"anchor-maxlen", 5, 0, MAX_COUNT);
pub static ANCHOR_MAX_AGE_S: Integer = Integer::new(c"anchor-max-age", 604_800, 0, MAX_SECONDS);
pub static AUTO_MIGRATE: Boolean = Boolean::new(c"auto-migrate", true);
pub static PUBLISH: Choice = Choice::new(c"publish", 1, &[(c"off", 0), (c"events", 1), (c"all", 2)]);
pub static COMPRESS_AFTER_BYTES: Integer = Integer::new(c"compress-after", 1024, 0, 1 << 30).memory();

pub static ALL: &[Setting] = &[
    Setting::Integer(&DEFAULT_MAXLEN),
    Setting::Integer(&DEFAULT_TTL_S),
    Setting::Integer(&MAX_MESSAGE_BYTES),
    Setting::Integer(&DEDUP_WINDOW),
    Setting::Integer(&EVENT_MAXLEN),
    Setting::Integer(&EVENT_TTL_S),
    Setting::Integer(&MAX_CHECKPOINTS),
    Setting::Integer(&MAX_ENTITIES),
    Setting::Integer(&MAX_AGENTS),
    Setting::Integer(&CHECKPOINT_GRACE_S),
    Setting::Integer(&ANCHOR_MAXLEN),
    Setting::Integer(&ANCHOR_MAX_AGE_S),
    Setting::Boolean(&AUTO_MIGRATE),
    Setting::Choice(&PUBLISH),
    Setting::Integer(&COMPRESS_AFTER_BYTES),
];

/// The limits that a new session starts with, one value that all sessions created under the same settings share.
static DEFAULT_LIMITS: Mutex<Option<Arc<Limits>>> = Mutex::new(None);

pub fn default_limits() -> Arc<Limits> {
    let mut limits = DEFAULT_LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = limits.get_or_insert_with(|| {
        let number = |setting: &Integer| setting.get() as u64;
        Arc::new(Limits {
            maxlen: number(&DEFAULT_MAXLEN),
            maxtokens: 0,
            maxbytes: 0,
            maxage_ms: 0,
            event_maxlen: number(&EVENT_MAXLEN),
            event_ttl_s: number(&EVENT_TTL_S),
            dedup_window: number(&DEDUP_WINDOW),
            max_checkpoints: number(&MAX_CHECKPOINTS),
            max_entities: number(&MAX_ENTITIES),
            max_agents: number(&MAX_AGENTS),
        })
    });
    Arc::clone(limits)
}

fn forget_limits() {
    *DEFAULT_LIMITS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
