//! Reading parts of a conversation: `RANGE`, and what to send to the model now, `CONTEXT`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::log::{Body, Head, Position};
use crate::session::Session;

/// Which messages a range selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// List indexes as in `LRANGE`: 0 is the oldest, -1 the newest, both ends included.
    Index { start: i64, stop: i64 },
    /// Seqs, both ends included.
    Seq { from: u64, to: u64 },
    /// Unix milliseconds, both ends included; the order stays that of seqs.
    Time { from_ms: i64, to_ms: i64 },
}

/// A range: bounds select, `rev` reverses what they selected, then roles and count apply.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    pub bounds: Bounds,
    pub rev: bool,
    pub roles: &'a [&'a str],
    /// At most so many.
    pub count: u64,
    /// Only what a migration has set aside, instead of messages.
    pub malformed: bool,
}

/// Which messages to send to the model. 0 is no bound.
#[derive(Debug, Clone, Default)]
pub struct ContextBounds<'a> {
    pub maxtokens: u64,
    pub maxlen: u64,
    pub roles: &'a [&'a str],
}

/// What [`Session::context`] chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Ascending.
    pub seqs: Vec<u64>,
    pub tokens: u64,
    /// Messages that match the roles and were left out.
    pub omitted: u64,
}

impl Session {
    /// How many messages a range gives, where that is known beforehand: indexes without a filter.
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

    /// Gives the messages of a range in its order.
    ///
    /// Cost: O(messages given + log chunks); by time O(chunks) and the headers of those whose times reach into the range; with `maxage` while
    /// something is hidden, O(messages) headers.
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
                // Where something is hidden, indexes count what is shown: the hidden ones' places are stepped over.
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

    /// Chooses what to send to the model: pinned messages always, then whole exchanges from the newest back until the first that
    /// does not fit; the newest comes even if it alone is over. Roles filter first.
    ///
    /// Cost: O(messages chosen); with pins, roles or something hidden, O(messages) headers.
    pub fn context(&self, bounds: &ContextBounds<'_>, now_ms: i64) -> Context {
        let hidden = self.hidden(now_ms);
        let mut chooser = Chooser::new(bounds);
        if self.pins().is_empty() && bounds.roles.is_empty() && hidden.is_empty() {
            if bounds.maxtokens == 0 && bounds.maxlen == 0 {
                return self.everything();
            }
            self.choose_from_the_end(&mut chooser);
            let omitted = self.messages.len() - chooser.seqs.len() as u64;
            return chooser.context(omitted);
        }
        let mut exchanges: BTreeMap<u64, ContextExchange> = BTreeMap::new();
        let mut matching = 0;
        let mut newest_first: Vec<(u64, u64)> = Vec::new();
        self.messages.scan(|head, _| {
            if hidden.binary_search(&head.seq).is_err() {
                let exchange = exchanges.entry(head.exchange()).or_default();
                exchange.pinned |= self.pins().iter().any(|pin| pin == head.role.as_str());
                if bounds.roles.is_empty() || bounds.roles.contains(&head.role.as_str()) {
                    matching += 1;
                    exchange.add(head.seq, head.tokens);
                    newest_first.push((head.seq, head.exchange()));
                }
            }
            ControlFlow::<()>::Continue(())
        });
        for exchange in exchanges.values().filter(|exchange| exchange.pinned) {
            chooser.take(exchange);
        }
        let newest = newest_first
            .iter()
            .rev()
            .find(|(_, exchange)| !exchanges[exchange].pinned);
        if let Some((_, newest)) = newest {
            if let Some(exchange) = exchanges.remove(newest) {
                chooser.take(&exchange);
            }
        }
        for exchange in exchanges
            .values()
            .rev()
            .filter(|exchange| !exchange.pinned && !exchange.seqs.is_empty())
        {
            if !chooser.take_if_it_fits(exchange) {
                break;
            }
        }
        let omitted = matching - chooser.seqs.len() as u64;
        chooser.context(omitted)
    }

    /// What is chosen where nothing bounds it.
    fn everything(&self) -> Context {
        let sums = self.messages.sums();
        let mut seqs = Vec::with_capacity(sums.messages as usize);
        self.messages.scan(|head, _| {
            seqs.push(head.seq);
            ControlFlow::<()>::Continue(())
        });
        Context {
            seqs,
            tokens: sums.tokens,
            omitted: 0,
        }
    }

    fn choose_from_the_end(&self, chooser: &mut Chooser<'_>) {
        let mut newest_root = None;
        let mut newest = ContextExchange::default();
        self.messages.scan_rev(u64::MAX, |head, _| {
            let root = *newest_root.get_or_insert(head.exchange());
            if head.exchange() == root {
                newest.add(head.seq, head.tokens);
            }
            // All of an exchange stands behind its first message.
            if head.seq == root {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let Some(newest_root) = newest_root else { return };
        chooser.take(&newest);
        // Answers are met before their call: they wait for it.
        let mut waiting: BTreeMap<u64, ContextExchange> = BTreeMap::new();
        self.messages.scan_rev(u64::MAX, |head, _| {
            if head.exchange() == newest_root {
                return ControlFlow::Continue(());
            }
            if waiting.is_empty() && head.root.is_none() {
                return match chooser.take_one_if_it_fits(head.seq, head.tokens) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                };
            }
            let mut exchange = waiting.remove(&head.exchange()).unwrap_or_default();
            exchange.add(head.seq, head.tokens);
            if head.root.is_some() {
                waiting.insert(head.exchange(), exchange);
            } else if !chooser.take_if_it_fits(&exchange) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
    }

    /// Gives the messages of these seqs, which are in ascending order.
    pub fn chosen(&self, seqs: &[u64], mut each: impl FnMut(&mut Body<'_>)) {
        let Some(&first) = seqs.first() else { return };
        let mut rest = seqs;
        self.messages.scan_from_seq(first, |head, body| {
            if rest.first() == Some(&head.seq) {
                each(body);
                rest = &rest[1..];
            }
            if rest.is_empty() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
    }
}

#[derive(Debug, Default)]
struct ContextExchange {
    seqs: SmallVec<[u64; 4]>,
    tokens: u64,
    pinned: bool,
}

impl ContextExchange {
    fn add(&mut self, seq: u64, tokens: u32) {
        self.seqs.push(seq);
        self.tokens += u64::from(tokens);
    }
}

struct Chooser<'a> {
    bounds: &'a ContextBounds<'a>,
    seqs: Vec<u64>,
    tokens: u64,
}

impl<'a> Chooser<'a> {
    fn new(bounds: &'a ContextBounds<'a>) -> Self {
        Chooser {
            bounds,
            seqs: Vec::with_capacity(32),
            tokens: 0,
        }
    }

    fn take(&mut self, exchange: &ContextExchange) {
        self.seqs.extend_from_slice(&exchange.seqs);
        self.tokens += exchange.tokens;
    }

    fn take_if_it_fits(&mut self, exchange: &ContextExchange) -> bool {
        let fits = self.has_room_for(exchange.seqs.len(), exchange.tokens);
        if fits {
            self.take(exchange);
        }
        fits
    }

    fn take_one_if_it_fits(&mut self, seq: u64, tokens: u32) -> bool {
        let fits = self.has_room_for(1, u64::from(tokens));
        if fits {
            self.seqs.push(seq);
            self.tokens += u64::from(tokens);
        }
        fits
    }

    fn has_room_for(&self, messages: usize, tokens: u64) -> bool {
        let within = |sum: u64, bound: u64| bound == 0 || sum <= bound;
        within(self.tokens + tokens, self.bounds.maxtokens)
            && within((self.seqs.len() + messages) as u64, self.bounds.maxlen)
    }

    fn context(mut self, omitted: u64) -> Context {
        self.seqs.sort_unstable();
        Context {
            seqs: self.seqs,
            tokens: self.tokens,
            omitted,
        }
    }
}

/// `LRANGE`'s reading of two indexes as a half-open range of places.
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
