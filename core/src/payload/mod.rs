//! The serialised form of a session, the same for RDB, `DUMP` and the append-only file's `SESSION.LOAD`, with one decoder.
//!
//! ```text
//!  payload = blob, blob, …            in an RDB each blob is a string of its own; in LOAD each is preceded by its length (varint)
//!
//!  first blob    +-----------+--------------------------------------------------+
//!                | format: 1 | MessagePack map: everything but the logs         |
//!                +-----------+--------------------------------------------------+
//!                 the map says how many chunks of each log follow: aside, main, set aside, events; and of each checkpoint's logs,
//!                 which of the chunks before they share and how many of their own follow then
//!
//!  a chunk       +-------+-----------+-----------+---------+-------------+--------------+----------+
//!                | flags | first seq | base time | body at | heads bytes | bodies bytes | shared n |
//!                | u8    | varint    | zigzag    | varint  | varint      | varint, raw  | varint   |
//!                +-------+-----------+-----------+---------+-------------+--------------+----------+
//!                | n x (varint length, shared body) | heads | bodies, to the end of the blob         |
//!                +----------------------------------+-------+----------------------------------------+
//!                 flags: bit 0 the bodies are one LZ4 block, as in memory
//!                 body at: where the first live body begins (a first chunk may have been trimmed)
//! ```
//!
//! Sealed chunks are written as they are in memory, compressed or not. The decoder trusts nothing: every length is checked against the
//! bytes that are left before anything is allocated for it, every record and every body is parsed once, and the first error refuses the
//! whole payload.

//!
//! The rows that are written are separate from the types in memory: `formatN` has the rows of format N, each field with its default. So a
//! field can be added within a format; removing one or changing its meaning requires a new format. Every older format stays readable:
//! `testdata/` holds files of each, and a test reads them.

pub(crate) mod chunks;
pub(crate) mod format1;
pub(crate) mod kind;

use std::fmt;

use crate::text::varint;

/// The format that is written. Every older format stays readable.
pub const FORMAT: u8 = 1;

/// The maximum of counters, far below where they would overflow.
pub(crate) const MAX_COUNTER: u64 = 1 << 62;

/// Why a payload was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadError(pub(crate) &'static str);

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for PayloadError {}

/// Reads a length and as many bytes.
pub(crate) fn take_sized<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::get(bytes, at)?).ok()?;
    let taken = bytes.get(*at..at.checked_add(length)?)?;
    *at += length;
    Some(taken)
}
