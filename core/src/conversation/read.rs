//! Reading: scans over both logs.

use std::ops::{ControlFlow, RangeInclusive};

use super::parts::Messages;
use crate::log::Body;
use crate::log::Head;
use crate::log::Position;

impl Messages {
    /// Calls `each` with every message, oldest first, until it breaks.
    pub fn scan<B>(&self, each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        self.scan_from(0, each);
    }

    /// Calls `each` with every message from the `index`-th on (0 is the oldest), until it breaks.
    ///
    /// Cost: O(chunks / 64 + messages given).
    #[inline]
    pub fn scan_from<B>(&self, index: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let mut index = index;
        if let Some(aside) = self.aside() {
            if index < aside.len() && aside.scan(aside.position_of_index(index), &mut each).is_break() {
                return;
            }
            index = index.saturating_sub(aside.len());
        }
        let from = if index == 0 {
            Position::START
        } else {
            self.main.position_of_index(index)
        };
        let _ = self.main.scan(from, each);
    }

    /// Returns false if certainly no message has a greater seq. Cost: O(1).
    #[inline]
    pub fn may_hold_after(&self, seq: u64) -> bool {
        self.main.may_hold_after(seq) || self.aside().is_some_and(|aside| aside.may_hold_after(seq))
    }

    /// Calls `each` with every message whose seq is at least `seq`, oldest first, until it breaks.
    ///
    /// Cost: O(log chunks + messages given).
    pub fn scan_from_seq<B>(&self, seq: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        if let Some(aside) = self.aside() {
            if aside.scan_from_seq(seq, &mut each).is_break() {
                return;
            }
        }
        let _ = self.main.scan_from_seq(seq, each);
    }

    /// Calls `each` with every message before the `end`-th (0 is the oldest), newest first, until it breaks.
    pub fn scan_rev<B>(&self, end: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let aside_len = self.aside().map_or(0, |aside| aside.len());
        if end > aside_len
            && self
                .main
                .scan_rev(self.main.position_of_index(end - aside_len), &mut each)
                .is_break()
        {
            return;
        }
        if let Some(aside) = self.aside() {
            let _ = aside.scan_rev(aside.position_of_index(end), each);
        }
    }

    /// Calls `each` with every message whose seq is at most `seq`, newest first, until it breaks.
    pub fn scan_rev_from_seq<B>(&self, seq: u64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let end = seq.saturating_add(1);
        if self.main.scan_rev(self.main.position_of_seq(end), &mut each).is_break() {
            return;
        }
        if let Some(aside) = self.aside() {
            let _ = aside.scan_rev(aside.position_of_seq(end), each);
        }
    }

    /// Calls `each` with every message between these times, both included, in ascending or descending order of seqs, until it breaks.
    ///
    /// Cost: O(chunks + messages of the chunks whose times overlap).
    pub fn scan_times<B>(
        &self,
        times: &RangeInclusive<i64>,
        rev: bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) {
        let mut logs = [self.aside(), Some(&self.main)];
        if rev {
            logs.reverse();
        }
        for log in logs.into_iter().flatten() {
            if log.scan_times(times, rev, &mut each).is_break() {
                return;
            }
        }
    }

    pub fn get<T>(&self, seq: u64, read: impl FnOnce(&Head<'_>, &[u8]) -> T) -> Option<T> {
        match self.aside() {
            Some(aside) if self.main.front().is_none_or(|head| seq < head.seq) => aside.get(seq, read),
            _ => self.main.get(seq, read),
        }
    }

    pub(super) fn scan_heads(&self, mut each: impl FnMut(&Head<'_>)) {
        self.scan(|head, _| {
            each(head);
            ControlFlow::<()>::Continue(())
        });
    }
}
