//! What a change says it did, in one shape for all.

use redis_session_core::session::{Appended, Changed, Windowed};
use redis_session_core::Session;

/// The receipt of one operation that writes.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written<T> {
    pub result: T,
    /// Something is different from before: content, or what the session knows beside it.
    pub changed: bool,
    /// Messages that the window let go.
    pub evicted: u64,
}

impl<T> Written<T> {
    /// The same receipt with something else for its result.
    pub fn map<R>(self, result: impl FnOnce(T) -> R) -> Written<R> {
        Written {
            result: result(self.result),
            changed: self.changed,
            evicted: self.evicted,
        }
    }

    /// Of an operation that let no messages go.
    pub fn without_eviction(result: T, changed: bool) -> Self {
        Written {
            result,
            changed,
            evicted: 0,
        }
    }
}

/// The result is the seq of the last message.
impl From<Appended> for Written<u64> {
    #[inline(always)]
    fn from(appended: Appended) -> Self {
        Written {
            result: appended.last_seq,
            changed: true,
            evicted: appended.evicted,
        }
    }
}

/// The result is the count.
impl From<Changed> for Written<u64> {
    fn from(changed: Changed) -> Self {
        Written {
            result: changed.count,
            changed: changed.is_any(),
            evicted: changed.evicted,
        }
    }
}

impl From<Windowed> for Written<()> {
    fn from(windowed: Windowed) -> Self {
        Written {
            result: (),
            changed: windowed.changed,
            evicted: windowed.evicted,
        }
    }
}

/// Makes the receipt of an operation whose own does not count the messages that the window let go with it. `changed` reads it from the result.
pub fn beside_messages<R>(
    session: &mut Session,
    change: impl FnOnce(&mut Session) -> R,
    changed: impl FnOnce(&R) -> bool,
) -> Written<R> {
    let before = session.gauges().messages;
    let result = change(session);
    let changed = changed(&result);
    Written {
        result,
        changed,
        evicted: before.saturating_sub(session.gauges().messages),
    }
}
