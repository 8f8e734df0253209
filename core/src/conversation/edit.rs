//! Editing: removing messages, replacing bodies, compaction.

use std::collections::HashMap;
use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::parts::{copy_record, push_copy, Messages, NewMessage, Window};
use crate::body::call_hash;
use crate::log::Entry;
use crate::log::Log;
use crate::log::Position;

impl Messages {
    /// Removes messages by their seqs, in ascending order, and passes their bodies to `taken`, oldest first.
    pub fn take(&mut self, seqs: &[u64], mut taken: impl FnMut(&[u8])) -> u64 {
        if seqs.is_empty() {
            return 0;
        }
        for log in self.aside().into_iter().chain([&self.main]) {
            let mut rest = seqs;
            let _ = log.scan(log.position_of_seq(seqs[0]), |head, body| {
                while rest.first().is_some_and(|&seq| seq < head.seq) {
                    rest = &rest[1..];
                }
                match rest.first() {
                    Some(&seq) if seq == head.seq => taken(body.get()),
                    Some(_) => {}
                    None => return ControlFlow::Break(()),
                }
                ControlFlow::Continue(())
            });
        }
        let mut removed = 0;
        if let Some(rare) = &mut self.rare {
            removed += rare.aside.remove(seqs);
        }
        // The message that pinned an exchange may have been removed: what was skipped as pinned must be examined again.
        self.oldest_time_ms = i64::MIN;
        self.aside_is_pinned = self.aside().is_none();
        // A run at the front is dropped record by record, without rewriting a chunk.
        let mut rest = seqs;
        while let Some(front) = self.main.front() {
            while rest.first().is_some_and(|&seq| seq < front.seq) {
                rest = &rest[1..];
            }
            if rest.first() != Some(&front.seq) {
                break;
            }
            self.main.drop_front(&front);
            removed += 1;
            rest = &rest[1..];
        }
        removed += self.main.remove(rest);
        self.newest_exchange = 0;
        self.forget_pinned();
        self.last_gone = self.last_gone.max(seqs[seqs.len() - 1]);
        debug_assert_eq!(removed, seqs.len() as u64, "messages that are taken out are there");
        removed
    }

    /// Returns the seqs of these messages and of all answers to the calls among them, in ascending order. Leaves out unknown seqs.
    ///
    /// Cost: O(messages) headers if a call is among them; else O(seqs x log chunks).
    pub fn with_answers(&self, seqs: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        let mut calls = false;
        for &seq in seqs {
            if let Some(makes_calls) = self.get(seq, |head, _| head.makes_calls()) {
                found.push(seq);
                calls |= makes_calls;
            }
        }
        found.sort_unstable();
        found.dedup();
        if !calls {
            return found;
        }
        // A call that answers an earlier call is in that call's exchange: its own answers are those that come after it.
        let mut all = Vec::new();
        let mut answered_by: HashMap<String, bool> = HashMap::new();
        self.scan_from_seq(found[0], |head, body| {
            let mut goes = found.binary_search(&head.seq).is_ok();
            if goes || head.root.is_some() || head.makes_calls() {
                if let Ok(facts) = crate::body::read(body.get()) {
                    if let Some(id) = &facts.answers {
                        goes |= head.root.is_some() && answered_by.get(id.as_ref()).copied().unwrap_or(false);
                    }
                    for id in facts.calls {
                        answered_by.insert(id.into_owned(), goes);
                    }
                }
            }
            if goes {
                all.push(head.seq);
            }
            ControlFlow::<()>::Continue(())
        });
        all
    }

    /// Replaces a message's body.
    pub fn replace(&mut self, seq: u64, body: &[u8], tokens: u32) {
        match &mut self.rare {
            Some(rare) if self.main.front().is_none_or(|head| seq < head.seq) => rare.aside.replace(seq, body, tokens),
            _ => self.main.replace(seq, body, tokens),
        }
        self.forget_pinned();
    }

    pub fn clear(&mut self) {
        let mut last_gone = self.last_gone;
        self.scan_rev(u64::MAX, |head, _| {
            last_gone = last_gone.max(head.seq);
            ControlFlow::Break(())
        });
        *self = Messages {
            last_gone,
            ..Messages::default()
        };
    }

    /// Returns the seqs, in ascending order, that a message summarising everything up to `upto_seq` replaces. Pinned messages are not among
    /// them, and the boundary moves back rather than split an exchange.
    pub fn compactable(&self, upto_seq: u64, window: Window<'_>) -> Vec<u64> {
        let mut survey = self.survey(window);
        survey.mark_passed(window);
        for exchange in &mut survey.exchanges {
            // Hidden messages are treated as removed.
            exchange.pinned |= exchange.gone;
        }
        let last_seqs = {
            let mut last = vec![0; survey.exchanges.len()];
            for message in &survey.messages {
                last[message.exchange] = message.seq;
            }
            last
        };
        let mut end = survey.messages.partition_point(|message| message.seq <= upto_seq);
        // Every exchange that begins before the boundary and ends behind it moves the boundary back, which may cut another one. With the
        // furthest end of all exchanges up to each position precomputed, one walk back finds the boundary.
        let mut reaches = Vec::with_capacity(end);
        let mut furthest = 0;
        for message in &survey.messages[..end] {
            if !survey.exchanges[message.exchange].pinned {
                furthest = furthest.max(last_seqs[message.exchange]);
            }
            reaches.push(furthest);
        }
        while end > 0 && reaches[end - 1] > survey.messages[end - 1].seq {
            end -= 1;
        }
        let inside = survey.messages[..end].iter();
        inside
            .filter(|message| !survey.exchanges[message.exchange].pinned)
            .map(|message| message.seq)
            .collect()
    }

    /// Replaces these messages by one, at the seq of the last of them.
    ///
    /// Cost: O(messages before and among those).
    pub fn compact(&mut self, seqs: &[u64], message: &NewMessage<'_>, compress_after_bytes: u32) {
        // The last of those seqs is in use again.
        let last_gone = self.last_gone.max(seqs.iter().rev().nth(1).copied().unwrap_or(0));
        self.take(seqs, |_| ());
        self.last_gone = last_gone;
        // The older part that is kept moves to `aside`, with the new message among it in the order of seqs.
        let mut aside = Log::new();
        let mut placed = false;
        let mut stays: Vec<Log> = self.rare.take().map(|rare| rare.aside).into_iter().collect();
        let mut older = Log::new();
        while let Some(front) = self.main.front().filter(|front| front.seq < message.seq) {
            copy_record(&self.main, Position::START, &mut older);
            self.main.drop_front(&front);
        }
        stays.push(older);
        let calls: SmallVec<[u32; 4]> = message.facts.calls.iter().map(|id| call_hash(id)).collect();
        for log in stays {
            let _ = log.scan(Position::START, |head, body| {
                if head.seq > message.seq && !placed {
                    place(&mut aside, message, &calls);
                    placed = true;
                }
                push_copy(head, body.get(), &mut aside);
                ControlFlow::<()>::Continue(())
            });
        }
        if !placed {
            place(&mut aside, message, &calls);
        }
        self.rare_mut().aside = aside;
        self.aside_is_pinned = false;
        self.oldest_time_ms = self.oldest_time_ms.min(message.time_ms);
        self.newest_exchange = 0;
        if !calls.is_empty() || message.facts.answers.is_some() {
            self.link_anew(compress_after_bytes);
        }
    }

    /// Recomputes the exchange of every answer, needed when a call is placed before existing answers.
    fn link_anew(&mut self, compress_after_bytes: u32) {
        let mut anew = Messages {
            last_gone: self.last_gone,
            ..Messages::default()
        };
        self.scan(|head, body| {
            let body = body.get();
            match crate::body::read(body) {
                Ok(facts) => {
                    let message = NewMessage {
                        seq: head.seq,
                        time_ms: head.time_ms,
                        tokens: head.tokens,
                        facts: &facts,
                        body,
                    };
                    anew.append(&message, &[], compress_after_bytes);
                }
                // Cannot happen for a message that was accepted; it is kept as it is.
                Err(_) => push_copy(head, body, &mut anew.main),
            }
            ControlFlow::<()>::Continue(())
        });
        *self = anew;
    }

    /// Recomputes what depends on the pinned roles after they have changed. Cost: O(messages) headers.
    pub fn pins_changed(&mut self) {
        self.forget_pinned();
        self.aside_is_pinned = self.aside().is_none();
        self.learn_anew();
    }
}

pub(super) fn place(log: &mut Log, message: &NewMessage<'_>, calls: &[u32]) {
    log.push(
        &Entry {
            seq: message.seq,
            time_ms: message.time_ms,
            tokens: message.tokens,
            role: &message.facts.role,
            root: None,
            calls,
            body: message.body,
        },
        0,
    );
}
