//! The operations on the messages of a session; [`crate::conversation`] stores them and applies their window.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::state::entities::Mention;
use super::state::Session;
use super::write::{Now, Written};
use crate::body::{estimated_tokens, redacted, Facts, Role};
use crate::conversation::{Evicted, Messages, NewMessage, Sums, Window};
use crate::log::{Body, Head};
use crate::text::is_text;

/// One message to append, with the facts read from its body.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub facts: Facts<'a>,
    pub body: &'a [u8],
    /// The token count given with the command; if `None`, the body's own or an estimate from its length is used.
    pub tokens: Option<u32>,
}

impl Session {
    // ---- writing ----------------------------------------------------------------------------------------------------

    /// Appends one or more messages and applies the window. `maxlen`, if given, becomes the window's bound. Returns the seq of the last
    /// message.
    ///
    /// Cost: O(bytes + messages evicted); see [`Messages::evict`].
    #[inline]
    pub fn append(
        &mut self,
        batch: &[Incoming<'_>],
        maxlen: Option<u64>,
        now: Now,
        evicted: Evicted<'_>,
    ) -> Written<u64> {
        if let Some(maxlen) = maxlen {
            self.change_limits(|limits| limits.maxlen = maxlen);
        }
        for incoming in batch {
            self.add(&incoming.facts, incoming.body, incoming.tokens, None, now);
        }
        self.written_showing(self.last_seq, now, evicted)
    }

    /// Appends one message without any options: the frequent case of [`Session::append`].
    #[inline(always)]
    pub fn append_one(&mut self, facts: &Facts<'_>, body: &[u8], now: Now) -> Written<u64> {
        self.add(facts, body, None, None, now);
        self.written(self.last_seq, now)
    }

    /// Adds one message without applying the window. `root` is the seq of the exchange that it belongs to, if known.
    #[inline(always)]
    pub(super) fn add(&mut self, facts: &Facts<'_>, body: &[u8], tokens: Option<u32>, root: Option<u64>, now: Now) {
        let message = NewMessage {
            seq: self.next_seq(),
            time_ms: facts.time_ms.unwrap_or(now.content_ms),
            tokens: tokens_of(tokens, facts, body),
            facts,
            body,
        };
        let pins: &[String] = self.cold.as_ref().map_or(&[], |cold| &cold.pins);
        match root {
            None => self.messages.append(&message, pins, now.compress_after_bytes),
            known => self
                .messages
                .append_to_exchange(&message, known, pins, now.compress_after_bytes),
        }
        if facts.role == Role::User {
            self.query_count += 1;
        }
        if !facts.entity_refs.is_empty() {
            self.mention(facts, now.now_ms);
        }
    }

    fn mention(&mut self, facts: &Facts<'_>, now_ms: i64) {
        let max_entities = self.limits.max_entities;
        let entities = self.cold_mut().entities_mut();
        for id in facts.entity_refs.iter().filter(|id| is_text(id)) {
            entities.mention(&Mention::of_id(id), now_ms, max_entities);
        }
    }

    /// Removes the newest `count` messages and returns their bodies, newest first. A call is never removed without its answers: they are
    /// newer.
    pub fn pop(&mut self, count: u64, now: Now) -> Written<Vec<Vec<u8>>> {
        if count == 0 || self.message_count(now.now_ms) == 0 {
            return Written::nothing(Vec::new());
        }
        let passed = self.free_passed(now);
        let mut seqs = Vec::new();
        self.messages.scan_rev(u64::MAX, |head, _| {
            seqs.push(head.seq);
            if seqs.len() as u64 == count {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        seqs.reverse();
        let mut bodies = Vec::with_capacity(seqs.len());
        self.messages.take(&seqs, |body| bodies.push(body.to_vec()));
        bodies.reverse();
        self.written(bodies, now).after(passed)
    }

    /// Removes these messages, and with a call its answers. Ignores unknown seqs.
    pub fn remove(&mut self, seqs: &[u64], now: Now) -> Written<u64> {
        let seqs = self.visible(seqs, now.now_ms);
        let seqs = self.messages.with_answers(&seqs);
        if seqs.is_empty() {
            return Written::nothing(0);
        }
        let count = self.messages.take(&seqs, |_| ());
        self.written(count, now)
    }

    /// Removes the content of these messages, in checkpoints too; see [`redacted`] for what is kept. The result does not count messages
    /// that are unchanged by it.
    pub fn redact(&mut self, seqs: &[u64], reason: Option<&str>, now: Now) -> Written<u64> {
        let visible = self.visible(seqs, now.now_ms);
        let mut seqs = seqs.to_vec();
        seqs.sort_unstable();
        seqs.dedup();
        let mut count = 0;
        for seq in seqs {
            let mut is_redacted = visible.contains(&seq) && redact_in(&mut self.messages, seq, reason);
            // A restore must not bring the content back.
            let checkpoints = self.cold.iter_mut().flat_map(|cold| &mut cold.checkpoints.list);
            for checkpoint in checkpoints {
                is_redacted |= redact_in(&mut Arc::make_mut(checkpoint).snapshot.messages, seq, reason);
            }
            count += u64::from(is_redacted);
        }
        if count == 0 {
            return Written::nothing(0);
        }
        self.written(count, now)
    }

    /// Replaces everything up to `upto_seq` with one message, at the seq of the last message it replaces. Pinned messages are kept, and the
    /// boundary moves back rather than split an exchange. Inserts nothing if there is nothing to replace.
    pub fn compact(&mut self, upto_seq: u64, summary: &Incoming<'_>, now: Now) -> Written<u64> {
        let seqs = self.messages.compactable(upto_seq, self.window(now.now_ms));
        let Some(&seq) = seqs.last() else {
            return Written::nothing(0);
        };
        let passed = self.free_passed(now);
        let message = NewMessage {
            seq,
            time_ms: summary.facts.time_ms.unwrap_or(now.content_ms),
            tokens: tokens_of(summary.tokens, &summary.facts, summary.body),
            facts: &summary.facts,
            body: summary.body,
        };
        self.messages.compact(&seqs, &message, now.compress_after_bytes);
        self.written(seqs.len() as u64, now).after(passed)
    }

    /// Removes all messages; returns how many of them were visible to reads.
    pub fn clear(&mut self, now: Now) -> Written<u64> {
        if self.messages.is_empty() {
            return Written::nothing(0);
        }
        let passed = self.free_passed(now);
        let count = self.messages.len();
        self.messages.clear();
        self.written(count, now).after(passed)
    }

    // ---- the window -------------------------------------------------------------------------------------------------

    pub(super) fn window(&self, now_ms: i64) -> Window<'_> {
        Window {
            limits: &self.limits,
            pins: self.pins(),
            now_ms,
        }
    }

    /// Returns the seqs that reads must not show: see [`Messages::hidden`].
    #[inline]
    pub(super) fn hidden(&self, now_ms: i64) -> Vec<u64> {
        self.messages.hidden(self.window(now_ms))
    }

    fn visible(&self, seqs: &[u64], now_ms: i64) -> Vec<u64> {
        let hidden = self.hidden(now_ms);
        seqs.iter()
            .copied()
            .filter(|seq| hidden.binary_search(seq).is_err())
            .collect()
    }

    // ---- reading ----------------------------------------------------------------------------------------------------

    pub fn chunks(&self) -> usize {
        self.messages.chunks()
    }

    /// Returns the number of messages that reads show. Cost: O(1), with `maxage` O(messages) while expired messages are not yet freed.
    pub fn message_count(&self, now_ms: i64) -> u64 {
        self.messages.len() - self.hidden(now_ms).len() as u64
    }

    /// Returns what the window counts, over pinned and other messages together. For tests and tools.
    pub fn sums(&self) -> Sums {
        self.messages.sums()
    }

    /// Calls `each` with every message that reads show, oldest first, until it breaks.
    pub fn messages<B>(&self, now_ms: i64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let hidden = self.hidden(now_ms);
        self.messages.scan(|head, body| {
            if !hidden.is_empty() && hidden.binary_search(&head.seq).is_ok() {
                return ControlFlow::Continue(());
            }
            each(head, body)
        });
    }

    /// Moves the bytes of sealed chunks to where `relocate` puts them: see [`crate::log::Log::relocate`].
    pub fn relocate(
        &mut self,
        from: usize,
        chunks: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        self.messages.relocate(from, chunks, relocate)
    }
}

/// The token count of a message: the one given with the command, else the body's own, else an estimate from its length.
#[inline(always)]
fn tokens_of(given: Option<u32>, facts: &Facts<'_>, body: &[u8]) -> u32 {
    given
        .or(facts.token_count)
        .unwrap_or_else(|| estimated_tokens(body.len()))
}

fn redact_in(messages: &mut Messages, seq: u64, reason: Option<&str>) -> bool {
    let new = messages.get(seq, |_, body| {
        let new = redacted(body, reason);
        (new != body).then_some(new)
    });
    let Some(new) = new.flatten() else { return false };
    messages.replace(seq, &new, estimated_tokens(new.len()));
    true
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
