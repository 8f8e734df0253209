//! The ground: JSON, ISO 8601, globs, packed numbers, stable hashes, and how long texts may be.

pub mod glob;
pub mod hash;
pub mod json;
pub mod time;
pub(crate) mod varint;

/// Ids, names, types, states, labels, roles: 1 byte to as many.
pub const MAX_TEXT_BYTES: usize = 65_536;

/// Whether a text is as long as ids, names and the like may be.
pub fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len())
}
