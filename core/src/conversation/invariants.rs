//! The invariants of a conversation, for tests to check after every operation.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::parts::{Messages, Sums, Window, UNLEARNED};
use super::survey::Survey;
use crate::log::Position;

impl Messages {
    /// Panics if an invariant is violated. `window` is the one that was applied last.
    pub(crate) fn check_invariants(&self, window: Window<'_>) {
        self.main.check_invariants();
        if let Some(rare) = &self.rare {
            rare.aside.check_invariants();
        }
        let first_of_main = self.main.front().map_or(u64::MAX, |front| front.seq);
        let (mut sums, mut last_seq) = (Sums::default(), 0);
        self.scan_heads(|head| {
            assert!(head.seq > last_seq, "what stands aside is older than the rest");
            last_seq = head.seq;
            sums.add(head);
        });
        assert_eq!(sums, self.sums(), "sums");
        if let Some(aside) = self.aside() {
            let last = aside.scan_rev(Position::END, |head, _| ControlFlow::Break(head.seq));
            assert!(last.break_value().is_none_or(|last| last < first_of_main));
        }
        let survey = self.survey(window);
        if let Some(pinned) = self.rare.as_ref().and_then(|rare| rare.pinned) {
            assert_eq!(pinned, survey.pinned(), "what is pinned was counted otherwise");
        }
        for exchange in &survey.exchanges {
            assert!(
                exchange.pinned || exchange.oldest_time_ms >= self.oldest_time_ms,
                "a message is older than the oldest is said to be: nobody would hide it in time"
            );
        }
        if ![0, UNLEARNED].contains(&self.newest_exchange) {
            let newest = self
                .main
                .scan_rev(Position::END, |head, _| ControlFlow::Break(head.exchange()));
            assert!(newest.break_value().is_none_or(|newest| newest == self.newest_exchange));
            self.check_pieces();
        }
        if self.aside_is_pinned {
            let aside = survey.messages.iter().take_while(|message| message.seq < first_of_main);
            for message in aside {
                assert!(
                    survey.exchanges[message.exchange].pinned,
                    "message {} stands aside, is not pinned, and nobody would look",
                    message.seq
                );
            }
        }
        assert!(
            !survey.unpinned().exceed(window.limits) || survey.only_the_newest_is_left(),
            "the window does not hold"
        );
    }

    /// Checks that exchanges that begin after `scattered_until` are contiguous: the fast path of eviction relies on it.
    fn check_pieces(&self) {
        let mut ended: HashSet<u64> = HashSet::new();
        let mut current = 0;
        self.scan_heads(|head| {
            if head.exchange() != current {
                ended.insert(std::mem::replace(&mut current, head.exchange()));
                assert!(
                    head.exchange() <= self.scattered_until || !ended.contains(&head.exchange()),
                    "exchange {} is scattered, and nobody would look for its answers",
                    head.exchange()
                );
            }
        });
    }
}

impl Survey {
    fn only_the_newest_is_left(&self) -> bool {
        (0..self.exchanges.len()).all(|number| self.exchanges[number].pinned || self.newest == Some(number))
    }
}
