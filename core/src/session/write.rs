//! The one way out of a write.
//!
//! Every operation that changes content ends in [`Session::written`]: the window holds again, events that count or age have passed are
//! freed, the version and the last activity move on, and what left the window is in the receipt.

use super::state::{Cold, Session};
use crate::conversation::{Evicted, Window};

/// What holds for every operation that writes.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The server's clock: activity, recency, ages.
    pub now_ms: i64,
    /// What content without a time of its own is dated with.
    pub content_ms: i64,
    /// See [`crate::log::Log::push`].
    pub compress_after_bytes: u32,
}

/// The receipt of a write.
#[must_use = "says whether replicas have something to be told, and how many messages left the window"]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written<T> {
    /// What the operation itself says.
    pub result: T,
    /// Whether anything of the session changed, content or not.
    pub changed: bool,
    /// How many messages left the window.
    pub evicted: u64,
}

impl<T> Written<T> {
    /// Nothing changed.
    pub fn nothing(result: T) -> Self {
        Written {
            result,
            changed: false,
            evicted: 0,
        }
    }

    /// Something changed that is no content: the version stays, and the window is not applied.
    pub(super) fn beside_content(result: T) -> Self {
        Written {
            result,
            changed: true,
            evicted: 0,
        }
    }

    #[inline(always)]
    pub fn map<U>(self, result: impl FnOnce(T) -> U) -> Written<U> {
        Written {
            result: result(self.result),
            changed: self.changed,
            evicted: self.evicted,
        }
    }

    /// The same where `evicted` messages had left the window before: see [`Session::free_passed`].
    pub(super) fn after(mut self, evicted: u64) -> Self {
        self.evicted += evicted;
        self
    }
}

impl Session {
    /// The seq of the next message, event, checkpoint or element that was set aside.
    #[inline(always)]
    pub(super) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Ends an operation that changed content.
    #[inline(always)]
    pub(super) fn written<T>(&mut self, result: T, now: Now) -> Written<T> {
        self.written_showing(result, now, None)
    }

    /// The same, showing the bodies that leave the window.
    #[inline(always)]
    pub(super) fn written_showing<T>(&mut self, result: T, now: Now, bodies: Evicted<'_>) -> Written<T> {
        let evicted = self.apply_window(now.now_ms, bodies);
        self.version += 1;
        self.last_activity_ms = now.now_ms;
        Written {
            result,
            changed: true,
            evicted,
        }
    }

    /// Frees what ages have passed before an operation that looks at what is there. Its receipt counts them: [`Written::after`].
    pub(super) fn free_passed(&mut self, now: Now) -> u64 {
        self.apply_window(now.now_ms, None)
    }

    #[inline(always)]
    fn apply_window(&mut self, now_ms: i64, bodies: Evicted<'_>) -> u64 {
        if self.cold.is_some() {
            self.trim_events(now_ms);
        }
        let pins: &[String] = self.cold.as_ref().map_or(&[], |cold| &cold.pins);
        let window = Window {
            limits: &self.limits,
            pins,
            now_ms,
        };
        self.messages.evict(window, bodies)
    }

    /// Frees the events that count or age have passed.
    fn trim_events(&mut self, now_ms: i64) {
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let maxlen = self.limits.event_maxlen;
        if let Some(cold) = &mut self.cold {
            cold.events.trim(maxlen, passed_before_ms);
        }
    }

    /// Events from before this time are shown to nobody; `i64::MIN` if none can pass.
    pub(super) fn events_passed_before_ms(&self, now_ms: i64) -> i64 {
        match self.limits.event_ttl_s {
            0 => i64::MIN,
            ttl_s => now_ms.saturating_sub_unsigned(ttl_s.saturating_mul(1000)),
        }
    }

    pub(super) fn cold_mut(&mut self) -> &mut Cold {
        self.cold.get_or_insert_with(Box::default)
    }
}
