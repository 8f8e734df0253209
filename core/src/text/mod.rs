//! The basics: JSON, ISO 8601, globs, variable-length integers, stable hashes, and the allowed length of texts.

pub mod glob;
pub mod hash;
pub mod json;
pub mod time;
pub(crate) mod varint;

/// The maximum size of ids, names, types, states, labels and roles; the minimum is 1.
pub const MAX_TEXT_BYTES: usize = 65_536;

/// Returns whether a text has the length that ids, names and the like may have.
pub fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len())
}
