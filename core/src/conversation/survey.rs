//! The survey: one walk over all headers that determines every exchange.

use std::collections::HashMap;

use super::parts::{Messages, Sums, Window};

/// The header fields of a message that a survey needs.
pub(super) struct Surveyed {
    pub(super) seq: u64,
    pub(super) exchange: usize,
}

/// One exchange of a survey.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) sums: Sums,
    pub(super) oldest_time_ms: i64,
    pub(super) pinned: bool,
    pub(super) gone: bool,
}

pub(super) struct Survey {
    pub(super) messages: Vec<Surveyed>,
    /// In the order of their first messages.
    pub(super) exchanges: Vec<Exchange>,
    /// The exchange that holds the newest unpinned message: it is never evicted.
    pub(super) newest: Option<usize>,
}

impl Messages {
    pub(super) fn survey(&self, window: Window<'_>) -> Survey {
        let mut survey = Survey {
            messages: Vec::with_capacity(self.len() as usize),
            exchanges: Vec::new(),
            newest: None,
        };
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        self.scan_heads(|head| {
            let exchanges = &mut survey.exchanges;
            let number = if head.root.is_none() && !head.makes_calls() {
                exchanges.push(Exchange::default());
                exchanges.len() - 1
            } else {
                *numbers.entry(head.exchange()).or_insert_with(|| {
                    exchanges.push(Exchange::default());
                    exchanges.len() - 1
                })
            };
            let exchange = &mut exchanges[number];
            if exchange.sums.messages == 0 || head.time_ms < exchange.oldest_time_ms {
                exchange.oldest_time_ms = head.time_ms;
            }
            exchange.sums.add(head);
            exchange.pinned |= window.pins(&head.role);
            survey.messages.push(Surveyed {
                seq: head.seq,
                exchange: number,
            });
        });
        let newest = survey
            .messages
            .iter()
            .rev()
            .find(|message| !survey.exchanges[message.exchange].pinned);
        survey.newest = newest.map(|message| message.exchange);
        survey
    }
}

impl Survey {
    pub(super) fn pinned(&self) -> Sums {
        self.sum(|exchange| exchange.pinned)
    }

    pub(super) fn unpinned(&self) -> Sums {
        self.sum(|exchange| !exchange.pinned && !exchange.gone)
    }

    pub(super) fn sum(&self, counts: impl Fn(&Exchange) -> bool) -> Sums {
        self.exchanges
            .iter()
            .filter(|exchange| counts(exchange))
            .fold(Sums::default(), |sums, exchange| Sums {
                messages: sums.messages + exchange.sums.messages,
                tokens: sums.tokens + exchange.sums.tokens,
                body_bytes: sums.body_bytes + exchange.sums.body_bytes,
            })
    }

    pub(super) fn mark_passed(&mut self, window: Window<'_>) {
        let passed_before_ms = window.passed_before_ms();
        for (number, exchange) in self.exchanges.iter_mut().enumerate() {
            exchange.gone =
                exchange.oldest_time_ms < passed_before_ms && !exchange.pinned && self.newest != Some(number);
        }
    }

    pub(super) fn gone_seqs(&self) -> Vec<u64> {
        let gone = self
            .messages
            .iter()
            .filter(|message| self.exchanges[message.exchange].gone);
        gone.map(|message| message.seq).collect()
    }
}
