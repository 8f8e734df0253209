//! Restoring messages from logs and snapshots, recomputing what a payload does not hold, and memory use.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::parts::{Messages, Rare, UNLEARNED};
use crate::log::Log;

impl Messages {
    pub(crate) fn logs(&self) -> (Option<&Log>, &Log) {
        (self.aside(), &self.main)
    }

    /// Makes messages of the logs of a payload. They must [`Messages::learn`] before they are used. Cost: O(1).
    pub(crate) fn from_logs(aside: Log, main: Log, last_gone: u64) -> Self {
        Messages {
            aside_is_pinned: aside.is_empty(),
            rare: (!aside.is_empty()).then(|| Box::new(Rare { aside, pinned: None })),
            main,
            last_gone,
            newest_exchange: UNLEARNED,
            ..Messages::default()
        }
    }

    /// Returns the messages of an earlier moment, `then`, to replace these. Everything after `moment_seq` counts as removed.
    pub(crate) fn restored(&self, mut then: Messages, moment_seq: u64) -> Messages {
        let mut newest = self.last_gone;
        self.scan_rev(u64::MAX, |head, _| {
            newest = newest.max(head.seq);
            ControlFlow::Break(())
        });
        if newest > moment_seq {
            then.last_gone = newest;
        }
        then.learn();
        // The pinned roles may have changed since.
        then.forget_pinned();
        then.aside_is_pinned = then.aside().is_none();
        then.oldest_time_ms = i64::MIN;
        then
    }

    /// Drops every message after a seq. Cost: O(messages dropped).
    pub(crate) fn cut_after(&mut self, seq: u64) {
        let in_main = self.main.cut_after(seq);
        let in_aside = self.rare.as_mut().and_then(|rare| rare.aside.cut_after(seq));
        if let Some(last_seq) = in_main.max(in_aside) {
            self.last_gone = self.last_gone.max(last_seq);
            self.newest_exchange = 0;
            self.oldest_time_ms = i64::MIN;
            self.forget_pinned();
        }
    }

    pub(crate) fn heap_bytes_unseen(&self, seen: &mut HashSet<usize>) -> usize {
        self.main.heap_bytes_unseen(seen)
            + self
                .rare
                .as_ref()
                .map_or(0, |rare| rare.aside.heap_bytes_unseen(seen) + size_of::<Rare>())
    }

    /// Computes from the headers what a payload does not hold, unless that is done already. Cost: O(messages) headers, once.
    pub(crate) fn learn(&mut self) {
        if self.newest_exchange == UNLEARNED {
            self.learn_anew();
        }
    }

    pub(super) fn learn_anew(&mut self) {
        let mut oldest_time_ms = i64::MAX;
        let mut scattered_until = 0;
        let mut previous = 0;
        self.scan_heads(|head| {
            oldest_time_ms = oldest_time_ms.min(head.time_ms);
            if head.root.is_some() && head.exchange() != previous {
                scattered_until = scattered_until.max(head.exchange());
            }
            previous = head.exchange();
        });
        self.oldest_time_ms = oldest_time_ms;
        self.scattered_until = scattered_until;
        self.newest_exchange = previous;
    }

    /// See [`Log::relocate`].
    pub fn relocate(
        &mut self,
        from: usize,
        chunks: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        self.main.relocate(from, chunks, relocate)
    }
}
