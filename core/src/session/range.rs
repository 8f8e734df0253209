//! `RANGE`: reading part of a conversation.

use std::ops::ControlFlow;

use super::state::Session;
use crate::log::{Body, Head, Position};

/// How a range selects messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// List indexes as in `LRANGE`: 0 is the oldest, -1 the newest, both ends included.
    Index { start: i64, stop: i64 },
    /// Seqs, both ends included.
    Seq { from: u64, to: u64 },
    /// Unix milliseconds, both ends included; the result is still in the order of seqs.
    Time { from_ms: i64, to_ms: i64 },
}

/// A range: `bounds` select, `rev` reverses the selection, then roles and count apply.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    pub bounds: Bounds,
    pub rev: bool,
    pub roles: &'a [&'a str],
    /// Maximum number of messages.
    pub count: u64,
    /// Read the elements that a migration has set aside, instead of messages.
    pub malformed: bool,
}

impl Session {
    /// Returns how many messages a range gives if that is known beforehand: for indexes without a filter.
    #[inline]
    pub fn range_len(&self, range: &Range<'_>, now_ms: i64) -> Option<u64> {
        let Bounds::Index { start, stop } = range.bounds else {
            return None;
        };
        if !range.roles.is_empty() || range.malformed || !self.hidden(now_ms).is_empty() {
            return None;
        }
        let (from, to) = index_bounds(start, stop, self.messages.len());
        Some((to - from).min(range.count))
    }

    /// Calls `each` with the messages of a range, in its order.
    ///
    /// Cost: O(messages given + log chunks); by time O(chunks) and the headers of those whose times overlap the range; with `maxage` while
    /// expired messages are not yet freed, O(messages) headers.
    #[inline]
    pub fn range(&self, range: &Range<'_>, now_ms: i64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>)) {
        let mut left = range.count;
        if left == 0 {
            return;
        }
        if range.malformed {
            self.range_of_set_aside(range, each);
            return;
        }
        let hidden = self.hidden(now_ms);
        let mut filtered = |head: &Head<'_>, body: &mut Body<'_>| {
            if !hidden.is_empty() && hidden.binary_search(&head.seq).is_ok() {
                return ControlFlow::Continue(());
            }
            if range.roles.is_empty() || range.roles.contains(&head.role.as_str()) {
                each(head, body);
                left -= 1;
                if left == 0 {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        match range.bounds {
            Bounds::Index { start, stop } => {
                // Indexes count only what is shown: hidden messages are skipped.
                let (from, to) = index_bounds(start, stop, self.messages.len() - hidden.len() as u64);
                if from == to {
                    return;
                }
                if hidden.is_empty() {
                    let mut more = to - from;
                    let counted = |head: &Head<'_>, body: &mut Body<'_>| {
                        filtered(head, body)?;
                        more -= 1;
                        if more == 0 {
                            return ControlFlow::Break(());
                        }
                        ControlFlow::Continue(())
                    };
                    if range.rev {
                        self.messages.scan_rev(to, counted);
                    } else {
                        self.messages.scan_from(from, counted);
                    }
                    return;
                }
                let (mut first, mut last, mut index) = (0, 0, 0);
                self.messages.scan(|head, _| {
                    if hidden.binary_search(&head.seq).is_err() {
                        if index == from {
                            first = head.seq;
                        }
                        if index < to {
                            last = head.seq;
                        }
                        index += 1;
                    }
                    ControlFlow::<()>::Continue(())
                });
                self.between_seqs(first, last, range.rev, filtered);
            }
            Bounds::Seq { from, to } => self.between_seqs(from, to, range.rev, filtered),
            Bounds::Time { from_ms, to_ms } => self.messages.scan_times(&(from_ms..=to_ms), range.rev, filtered),
        }
    }

    fn between_seqs(
        &self,
        from: u64,
        to: u64,
        rev: bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<()>,
    ) {
        let inside = |head: &Head<'_>, body: &mut Body<'_>| match (from..=to).contains(&head.seq) {
            true => each(head, body),
            false => ControlFlow::Break(()),
        };
        if rev {
            self.messages.scan_rev_from_seq(to, inside);
        } else {
            self.messages.scan_from_seq(from, inside);
        }
    }

    fn range_of_set_aside(&self, range: &Range<'_>, mut each: impl FnMut(&Head<'_>, &mut Body<'_>)) {
        let Some(log) = self.cold.as_ref().map(|cold| &cold.set_aside) else {
            return;
        };
        let mut left = range.count;
        let mut index = 0;
        let inside = |head: &Head<'_>, index: u64| match range.bounds {
            Bounds::Index { start, stop } => {
                let (from, to) = index_bounds(start, stop, log.len());
                (from..to).contains(&index)
            }
            Bounds::Seq { from, to } => (from..=to).contains(&head.seq),
            Bounds::Time { from_ms, to_ms } => (from_ms..=to_ms).contains(&head.time_ms),
        };
        let mut filtered = |head: &Head<'_>, body: &mut Body<'_>| {
            let place = if range.rev { log.len() - 1 - index } else { index };
            index += 1;
            if inside(head, place) && (range.roles.is_empty() || range.roles.contains(&head.role.as_str())) {
                each(head, body);
                left -= 1;
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let _ = if range.rev {
            log.scan_rev(Position::END, &mut filtered)
        } else {
            log.scan(Position::START, &mut filtered)
        };
    }
}

/// Converts two indexes as in `LRANGE` to a half-open range of positions.
fn index_bounds(start: i64, stop: i64, len: u64) -> (u64, u64) {
    let len = len as i64;
    let place = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let from = place(start).max(0);
    let to = place(stop).min(len - 1) + 1;
    if from >= to {
        (0, 0)
    } else {
        (from as u64, to as u64)
    }
}
