//! The names that the keys of one session have, as programs that wrote them chose them.

use super::source::Kind;

/// A key of a session in some layout: its types and its name.
#[derive(Debug, Clone, Copy)]
pub struct KeyName {
    /// The types that it may be of.
    pub kinds: &'static [Kind],
    /// Its name; `*` stands for what the names of all keys of the session have in common.
    pub pattern: &'static str,
    /// Whether a session may be without it.
    pub is_optional: bool,
    /// Whether it may also be named as the session's first key with one part more, or with another first part, the parts being separated
    /// by `:`. So `live:7:history` and `live:events:7` belong to `live:7`, and `events:7` to `session:7`.
    pub or_like_first: bool,
}

impl KeyName {
    pub(super) const fn new(kinds: &'static [Kind], pattern: &'static str) -> Self {
        KeyName {
            kinds,
            pattern,
            is_optional: false,
            or_like_first: false,
        }
    }

    pub(super) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    pub(super) const fn or_like_first(mut self) -> Self {
        self.or_like_first = true;
        self
    }

    /// What stands for `*` in a key's name; `None` if the key is not named so.
    ///
    /// ```
    /// use redis_session_core::layout::Format;
    ///
    /// let messages = &Format::named(b"hash-list").unwrap().keys[1];
    /// assert_eq!(messages.common(b"chat:7:messages"), Some(&b"chat:7"[..]));
    /// assert_eq!(messages.common(b":messages"), None);
    /// assert_eq!(messages.named(b"chat:7"), b"chat:7:messages");
    /// ```
    pub fn common<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let (prefix, suffix) = self.parts();
        key.strip_prefix(prefix)?
            .strip_suffix(suffix)
            .filter(|common| !common.is_empty())
    }

    /// The name of the key of the session whose keys have this in common.
    pub fn named(&self, common: &[u8]) -> Vec<u8> {
        let (prefix, suffix) = self.parts();
        [prefix, common, suffix].concat()
    }

    fn parts(&self) -> (&'static [u8], &'static [u8]) {
        let (prefix, suffix) = self.pattern.split_once('*').unwrap_or((self.pattern, ""));
        (prefix.as_bytes(), suffix.as_bytes())
    }
}
