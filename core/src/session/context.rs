//! `CONTEXT`: selecting the messages to send to the model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::state::Session;
use crate::log::Body;

/// Bounds of a selection; 0 is no bound.
#[derive(Debug, Clone, Default)]
pub struct ContextBounds<'a> {
    pub maxtokens: u64,
    pub maxlen: u64,
    pub roles: &'a [&'a str],
}

/// The selection that [`Session::context`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Seqs in ascending order.
    pub seqs: Vec<u64>,
    pub tokens: u64,
    /// Number of messages that match the roles but were left out.
    pub omitted: u64,
}

impl Session {
    /// Selects the messages to send to the model: all pinned messages, then whole exchanges from the newest backwards up to the first that
    /// does not fit. The newest exchange is included even if it exceeds the bounds by itself. Roles filter first.
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

    /// Selects all messages, for when no bound applies.
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
            // Everything else of the exchange comes after its first message.
            if head.seq == root {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let Some(newest_root) = newest_root else { return };
        chooser.take(&newest);
        // Scanning backwards, answers come before their call: they are collected here until it is reached.
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

    /// Calls `each` with the messages of these seqs, which must be in ascending order.
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
