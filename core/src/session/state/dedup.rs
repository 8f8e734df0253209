//! The last `DEDUP` tokens of a session, each with a fingerprint of what was appended with it and the seq of the reply.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The result of looking up a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Never,
    /// The same append was made before, with this reply.
    Repeated {
        seq: u64,
    },
    /// The token was used before for a different append.
    Conflict,
}

#[derive(Debug, Clone, Default)]
pub struct Dedup {
    by_token: BTreeMap<Arc<str>, Entry>,
    oldest_first: VecDeque<Arc<str>>,
    token_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub fingerprint: u128,
    pub seq: u64,
}

impl Dedup {
    pub fn is_empty(&self) -> bool {
        self.oldest_first.is_empty()
    }

    pub fn look_up(&self, token: &str, fingerprint: u128) -> Seen {
        match self.by_token.get(token) {
            None => Seen::Never,
            Some(entry) if entry.fingerprint == fingerprint => Seen::Repeated { seq: entry.seq },
            Some(_) => Seen::Conflict,
        }
    }

    /// Remembers an unknown token, and drops the oldest tokens beyond `window`.
    pub fn remember(&mut self, token: &str, fingerprint: u128, seq: u64, window: u64) {
        if window == 0 {
            return;
        }
        let token: Arc<str> = Arc::from(token);
        if self
            .by_token
            .insert(Arc::clone(&token), Entry { fingerprint, seq })
            .is_none()
        {
            self.token_bytes += token.len();
            self.oldest_first.push_back(token);
        }
        while self.oldest_first.len() as u64 > window {
            if let Some(oldest) = self.oldest_first.pop_front() {
                self.token_bytes -= oldest.len();
                self.by_token.remove(&oldest);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Entry)> {
        self.oldest_first
            .iter()
            .filter_map(|token| self.by_token.get(token).map(|entry| (token.as_ref(), *entry)))
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.by_token.len(), self.oldest_first.len(), "a token has one place");
        assert_eq!(self.iter().count(), self.oldest_first.len());
        let texts = self.oldest_first.iter().map(|token| token.len());
        assert_eq!(self.token_bytes, texts.sum::<usize>(), "bytes of tokens");
    }

    pub fn heap_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = (size_of::<Entry>() + 3 * size_of::<Arc<str>>()) * 3 / 2;
        self.token_bytes + self.oldest_first.len() * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_until_the_window_has_passed_it() {
        let mut dedup = Dedup::default();
        dedup.remember("a", 1, 10, 2);
        dedup.remember("b", 2, 11, 2);
        assert_eq!(dedup.look_up("a", 1), Seen::Repeated { seq: 10 });
        assert_eq!(dedup.look_up("a", 2), Seen::Conflict);
        dedup.remember("c", 3, 12, 2);
        assert_eq!(dedup.look_up("a", 1), Seen::Never);
        assert_eq!(dedup.look_up("b", 2), Seen::Repeated { seq: 11 });
        dedup.remember("d", 4, 13, 0);
        assert_eq!(dedup.look_up("d", 4), Seen::Never);
    }
}
