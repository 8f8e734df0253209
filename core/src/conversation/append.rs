//! Appending messages and finding the exchange of each.

use smallvec::SmallVec;

use super::parts::{Messages, NewMessage};
use crate::body::call_hash;
use crate::log::Entry;

impl Messages {
    /// Appends a message without applying the window: [`Messages::evict`] does that once for all messages of a command.
    ///
    /// Cost: O(bytes). An answer also searches for its call, from the newest chunk backwards.
    #[inline]
    pub fn append(&mut self, message: &NewMessage<'_>, pins: &[String], compress_after_bytes: u32) {
        let facts = message.facts;
        if facts.answers.is_some() || !facts.calls.is_empty() {
            self.append_tied(message, pins, compress_after_bytes);
        } else {
            self.push(message, None, &[], pins, compress_after_bytes);
        }
    }

    /// Appends a message that calls or answers.
    #[inline(never)]
    fn append_tied(&mut self, message: &NewMessage<'_>, pins: &[String], compress_after_bytes: u32) {
        let id = message.facts.answers.as_deref();
        let root = id.and_then(|id| self.exchange_of_call(id));
        self.append_to_exchange(message, root, pins, compress_after_bytes);
    }

    /// Appends a message that calls or answers, whose exchange is known.
    pub(crate) fn append_to_exchange(
        &mut self,
        message: &NewMessage<'_>,
        root: Option<u64>,
        pins: &[String],
        compress_after_bytes: u32,
    ) {
        let calls: SmallVec<[u32; 4]> = message.facts.calls.iter().map(|id| call_hash(id)).collect();
        if let Some(root) = root {
            if root != self.newest_exchange {
                self.scattered_until = self.scattered_until.max(root);
            }
        }
        self.push(message, root, &calls, pins, compress_after_bytes);
    }

    #[inline(always)]
    pub(super) fn push(
        &mut self,
        message: &NewMessage<'_>,
        root: Option<u64>,
        calls: &[u32],
        pins: &[String],
        compress_after_bytes: u32,
    ) {
        self.main.push(
            &Entry {
                seq: message.seq,
                time_ms: message.time_ms,
                tokens: message.tokens,
                role: &message.facts.role,
                root,
                calls,
                body: message.body,
            },
            compress_after_bytes,
        );
        self.newest_exchange = root.unwrap_or(message.seq);
        self.oldest_time_ms = self.oldest_time_ms.min(message.time_ms);
        if !pins.is_empty() {
            self.count_pinned(message, root, pins);
        }
    }

    #[inline(never)]
    fn count_pinned(&mut self, message: &NewMessage<'_>, root: Option<u64>, pins: &[String]) {
        let Some(rare) = &mut self.rare else { return };
        match &mut rare.pinned {
            // An answer may pin its exchange or be pinned by it: the count is recomputed when a bound needs it.
            pinned if root.is_some() => *pinned = None,
            Some(pinned) if pins.iter().any(|pin| pin == message.facts.role.as_str()) => {
                pinned.messages += 1;
                pinned.tokens += u64::from(message.tokens);
                pinned.body_bytes += message.body.len() as u64;
            }
            _ => {}
        }
    }

    /// Returns the exchange of the message that was appended last.
    pub(crate) fn newest_exchange(&self) -> u64 {
        self.newest_exchange
    }

    fn exchange_of_call(&self, id: &str) -> Option<u64> {
        let hash = call_hash(id);
        let found = self.main.find_call(id, hash);
        found
            .or_else(|| self.aside().and_then(|aside| aside.find_call(id, hash)))
            .map(|(_, exchange)| exchange)
    }
}
