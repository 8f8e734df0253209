//! The common end of every write.
//!
//! Every operation that changes content ends in [`Session::written`]: it applies the window, frees events over their count or age, advances
//! the version and the last activity, and returns the receipt with the number of evicted messages.

use super::state::{Cold, Session};
use crate::conversation::{Evicted, Window};

/// The times and settings of a write.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The server's clock, for activity, recency and ages.
    pub now_ms: i64,
    /// The time given to content that has none of its own.
    pub content_ms: i64,
    /// See [`crate::log::Log::push`].
    pub compress_after_bytes: u32,
}

/// The receipt of a write.
#[must_use = "says whether there is something to replicate, and how many messages were evicted"]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written<T> {
    /// The result of the operation.
    pub result: T,
    /// Whether anything of the session changed, content or not.
    pub changed: bool,
    /// Number of messages that the window evicted.
    pub evicted: u64,
}

impl<T> Written<T> {
    /// The receipt of an operation that changed nothing.
    pub fn nothing(result: T) -> Self {
        Written {
            result,
            changed: false,
            evicted: 0,
        }
    }

    /// The receipt of a change that is not content: the version stays, and the window is not applied.
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

    /// Adds `evicted` messages that were evicted before the operation: see [`Session::free_passed`].
    pub(super) fn after(mut self, evicted: u64) -> Self {
        self.evicted += evicted;
        self
    }
}

impl Session {
    /// Takes the seq for the next message, event, checkpoint or set-aside element.
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

    /// Like [`Session::written`], passing the bodies of evicted messages to `bodies`.
    #[inline(always)]
    pub(super) fn written_showing<T>(&mut self, result: T, now: Now, bodies: Evicted<'_>) -> Written<T> {
        let evicted = self.apply_window(now.now_ms, bodies);
        debug_assert!(self.messages.last_gone_seq() <= self.last_seq, "what went was there");
        self.version += 1;
        self.last_activity_ms = now.now_ms;
        Written {
            result,
            changed: true,
            evicted,
        }
    }

    /// Frees what has expired before an operation that depends on the present content. The operation's receipt counts it:
    /// [`Written::after`].
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

    /// Frees the events over their count or age.
    fn trim_events(&mut self, now_ms: i64) {
        let passed_before_ms = self.events_passed_before_ms(now_ms);
        let maxlen = self.limits.event_maxlen;
        if let Some(cold) = &mut self.cold {
            cold.events.trim(maxlen, passed_before_ms);
        }
    }

    /// Returns the time before which events are not shown; `i64::MIN` if events do not expire.
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
