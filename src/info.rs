//! `INFO session`: counters since the module was loaded, and gauges of the present state.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redis_session_core::session::Gauges;

use crate::ffi::{waiting_clients, InfoWriter};
use crate::guard;

/// A counter that any thread may change: values are freed on background threads too.
pub struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    #[inline]
    pub fn add(&self, more: u64) {
        if more != 0 {
            self.0.fetch_add(more, Relaxed);
        }
    }

    /// Adds the difference between two values of a part, up or down.
    #[inline]
    fn moved(&self, from: u64, to: u64) {
        if from != to {
            self.0.fetch_add(to.wrapping_sub(from), Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

static ACTIVE_SESSIONS: Count = Count::new();
static ANCHORS: Count = Count::new();
static DIRECTORIES: Count = Count::new();
static MESSAGES: Count = Count::new();
static BYTES_RAW: Count = Count::new();
static BYTES_STORED: Count = Count::new();

pub static APPENDED: Count = Count::new();
pub static EVICTED: Count = Count::new();
pub static DEDUPLICATED: Count = Count::new();
pub static CONFLICTS: Count = Count::new();
pub static MIGRATED: Count = Count::new();
pub static MALFORMED: Count = Count::new();
pub static CHECKPOINTS: Count = Count::new();
pub static RESTORES: Count = Count::new();
pub static PUBLISHED: Count = Count::new();

/// Counts a session that was created, loaded or copied.
pub fn session_added(gauges: Gauges) {
    ACTIVE_SESSIONS.add(1);
    session_changed(Gauges::default(), gauges);
}

pub fn session_dropped(gauges: Gauges) {
    ACTIVE_SESSIONS.moved(1, 0);
    session_changed(gauges, Gauges::default());
}

pub fn directory_added() {
    DIRECTORIES.add(1);
}

pub fn directory_dropped() {
    DIRECTORIES.moved(1, 0);
}

#[inline]
pub fn session_changed(from: Gauges, to: Gauges) {
    MESSAGES.moved(from.messages, to.messages);
    BYTES_RAW.moved(from.bytes_raw, to.bytes_raw);
    BYTES_STORED.moved(from.bytes_stored, to.bytes_stored);
}

/// Counts a key of anchors that was created, loaded or copied.
pub fn anchors_added() {
    ANCHORS.add(1);
}

pub fn anchors_dropped() {
    ANCHORS.moved(1, 0);
}

pub fn write(info: &mut InfoWriter<'_>) {
    info.section(c"");
    for (name, value) in [
        (c"active_sessions", ACTIVE_SESSIONS.get()),
        (c"directories", DIRECTORIES.get()),
        (c"anchors", ANCHORS.get()),
        (c"messages", MESSAGES.get()),
        (c"bytes_raw", BYTES_RAW.get()),
        (c"bytes_stored", BYTES_STORED.get()),
        (c"appended", APPENDED.get()),
        (c"evicted", EVICTED.get()),
        (c"migrated", MIGRATED.get()),
        (c"malformed", MALFORMED.get()),
        (c"deduplicated", DEDUPLICATED.get()),
        (c"conflicts", CONFLICTS.get()),
        (c"checkpoints", CHECKPOINTS.get()),
        (c"restores", RESTORES.get()),
        (c"blocked_readers", waiting_clients()),
        (c"published", PUBLISHED.get()),
        (c"panics_caught", guard::panics_caught()),
    ] {
        info.field(name, value);
    }
}
