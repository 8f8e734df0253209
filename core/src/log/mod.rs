//! An append-only log of records in chunks.
//!
//! ```text
//!   oldest                                                                     newest
//!  +--------------------+  +-----------------------------+  +--------------------+  +--------+
//!  | front: chunks being|  | segments: 64 sealed chunks  |  | back: sealed chunks|  | open   |
//!  | trimmed, < 64      |  | each, one reference a piece |  | < 128              |  | chunk  |
//!  +--------------------+  +-----------------------------+  +--------------------+  +--------+
//!    ^ head: the first chunk's dead records are skipped       ^ LZ4 but for the newest
//! ```
//!
//! - Appends go to the open chunk, which is plain and belongs to this log alone. When it is full it is sealed: immutable, and shared
//!   by reference count with copies of the log. It is compressed once enough newer bytes have been appended after it.
//! - Trimming moves the head past records and drops a chunk when its last record is passed; a plain first chunk of which more
//!   than half is dead is cut to its live records.
//! - Copying a log copies the open chunk and one reference for each segment and each chunk in front and back: the cost does not
//!   depend on the size of the messages.
//!
//! Seqs increase along the log; times need not.

mod append;
mod chunk;
mod find;
#[cfg(test)]
mod invariants;
mod parts;
mod read;
mod record;
mod rewrite;
mod shared;
mod stored;
mod trim;

pub(crate) use chunk::ChunkParts;
pub use parts::{Front, Log, Position};
pub use read::Body;
pub(crate) use record::Base as ChunkBase;
pub use record::{CallHashes, Entry, Head};
pub(crate) use shared::Shared;
pub(crate) use stored::{StoredChunk, TakenChunk, TakenSegments};

#[cfg(test)]
mod tests;
