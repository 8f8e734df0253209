//! The window: what is evicted when a bound is exceeded, and what reads hide.

use std::ops::ControlFlow;

use super::parts::{copy_record, Evicted, Messages, Sums, Window};
use crate::log::Front;
use crate::log::Position;

impl Messages {
    /// Applies the window; returns how many messages were evicted.
    ///
    /// Cost: O(messages evicted) if the exchanges at the front are contiguous; else O(messages) headers.
    #[inline]
    pub fn evict(&mut self, window: Window<'_>, evicted: Evicted<'_>) -> u64 {
        let passed = self.oldest_time_ms < window.passed_before_ms();
        if passed || self.sums().exceed(window.limits) {
            self.evict_some(window, evicted, passed)
        } else {
            0
        }
    }

    fn evict_some(&mut self, window: Window<'_>, mut evicted: Evicted<'_>, passed: bool) -> u64 {
        let before = self.len();
        if passed || !self.evict_at_front(window, &mut evicted) {
            self.evict_by_survey(window, &mut evicted);
        }
        before - self.len()
    }

    /// Evicts on the fast path; returns false if it cannot decide. What it evicted before that was evicted correctly.
    #[inline]
    fn evict_at_front(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) -> bool {
        if self.rare.is_some() || !window.pins.is_empty() {
            return self.evict_at_front_past_pins(window, evicted);
        }
        while Sums::of(&self.main).exceed(window.limits) {
            let Some(front) = self.main.front() else { return true };
            if front.root.is_some() || self.newest_exchange == 0 {
                return false;
            }
            if front.seq == self.newest_exchange {
                // If the newest exchange is contiguous, nothing else is left; if others are interleaved with it, the survey finds them.
                return front.seq > self.scattered_until || self.main.len() == 1;
            }
            if !front.makes_calls {
                self.drop_front(&front, evicted);
            } else if front.seq > self.scattered_until {
                self.drop_exchange(front, evicted);
            } else {
                return false;
            }
        }
        true
    }

    /// Drops the exchange that begins at the front and is contiguous.
    #[inline(never)]
    fn drop_exchange(&mut self, first: Front, evicted: &mut Evicted<'_>) {
        let mut front = Some(first);
        while let Some(member) = front.filter(|front| front.root.unwrap_or(front.seq) == first.seq) {
            self.drop_front(&member, evicted);
            front = self.main.front();
        }
    }

    /// The fast path if something is pinned: drops single messages at the front, or moves them to `aside` if they are pinned.
    #[inline(never)]
    fn evict_at_front_past_pins(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) -> bool {
        let known = self.rare.as_ref().and_then(|rare| rare.pinned);
        let pinned = match known {
            Some(pinned) => pinned,
            None if window.pins.is_empty() => Sums::default(),
            None => {
                let pinned = self.survey(window).pinned();
                self.rare_mut().pinned = Some(pinned);
                pinned
            }
        };
        while self.sums().minus(pinned).exceed(window.limits) {
            // The oldest exchanges are in `aside` and must be evicted first, unless all of them are pinned.
            if !self.aside_is_pinned {
                return false;
            }
            let Some(front) = self.main.front() else { return true };
            let newest_is_single = self.newest_exchange_is_single_and_unpinned(window);
            if front.root.is_some() || front.makes_calls || !newest_is_single || front.seq == self.newest_exchange {
                return false;
            }
            if self.front_role_is_pinned(window) {
                self.set_front_aside();
            } else {
                self.drop_front(&front, evicted);
            }
        }
        true
    }

    fn front_role_is_pinned(&self, window: Window<'_>) -> bool {
        let flow = self
            .main
            .scan(Position::START, |head, _| ControlFlow::Break(window.pins(&head.role)));
        flow == ControlFlow::Break(true)
    }

    fn newest_exchange_is_single_and_unpinned(&self, window: Window<'_>) -> bool {
        let mut single = false;
        let _ = self.main.scan_rev(Position::END, |head, _| {
            single = head.root.is_none() && !head.makes_calls() && !window.pins(&head.role);
            ControlFlow::Break(())
        });
        single && self.newest_exchange != 0
    }

    #[inline(always)]
    pub(super) fn drop_front(&mut self, front: &Front, evicted: &mut Evicted<'_>) {
        if let Some(evicted) = evicted {
            self.show_front(evicted);
        }
        self.main.drop_front(front);
        // A younger message may have been removed before.
        self.last_gone = self.last_gone.max(front.seq);
    }

    #[inline(never)]
    fn show_front(&self, evicted: &mut Vec<Vec<u8>>) {
        let _ = self.main.scan(Position::START, |_, body| {
            evicted.push(body.get().to_vec());
            ControlFlow::Break(())
        });
    }

    fn set_front_aside(&mut self) {
        let Some(front) = self.main.front() else { return };
        let rare = self.rare.get_or_insert_with(Box::default);
        copy_record(&self.main, Position::START, &mut rare.aside);
        self.main.drop_front(&front);
    }

    /// Decides from all headers which exchanges to evict: those with a message older than `maxage`, and the oldest ones until the unpinned
    /// messages meet every bound. Pinned exchanges and the newest are kept.
    fn evict_by_survey(&mut self, window: Window<'_>, evicted: &mut Evicted<'_>) {
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        let mut left = survey.unpinned();
        for number in 0..survey.exchanges.len() {
            if !left.exceed(window.limits) {
                break;
            }
            let exchange = &mut survey.exchanges[number];
            if !exchange.pinned && !exchange.gone && survey.newest != Some(number) {
                exchange.gone = true;
                left = left.minus(exchange.sums);
            }
        }
        let gone = survey.gone_seqs();
        self.take(&gone, |body| {
            if let Some(evicted) = evicted {
                evicted.push(body.to_vec());
            }
        });
        self.oldest_time_ms = survey
            .exchanges
            .iter()
            .filter(|exchange| !exchange.pinned && !exchange.gone)
            .map(|exchange| exchange.oldest_time_ms)
            .min()
            .unwrap_or(i64::MAX);
        if !window.pins.is_empty() {
            self.rare_mut().pinned = Some(survey.pinned());
        }
        let aside_until = self.main.front().map_or(u64::MAX, |head| head.seq);
        self.aside_is_pinned = survey
            .messages
            .iter()
            .take_while(|message| message.seq < aside_until)
            .all(|message| survey.exchanges[message.exchange].pinned || survey.exchanges[message.exchange].gone);
        // Pinned exchanges at the front move to `aside`, so that the next eviction finds an unpinned one there.
        for message in &survey.messages {
            let exchange = &survey.exchanges[message.exchange];
            match self.main.front() {
                Some(head) if head.seq == message.seq && exchange.pinned && self.main.len() > 1 => {
                    self.set_front_aside()
                }
                Some(head) if head.seq == message.seq => break,
                _ => {}
            }
        }
    }

    /// Returns the seqs, in ascending order, of messages older than `maxage` that no write has freed yet: reads hide them.
    ///
    /// Cost: O(1) if there are none; else O(messages) headers.
    #[inline]
    pub fn hidden(&self, window: Window<'_>) -> Vec<u64> {
        if self.oldest_time_ms >= window.passed_before_ms() {
            return Vec::new();
        }
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        survey.gone_seqs()
    }
}
