//! The conversation: the log of messages under its window.
//!
//! An *exchange* is a calling message with the answers to its calls; any other message is an exchange of its own. An exchange has the
//! position of its first message, and the window evicts only whole exchanges, the oldest first, so an answer is never kept without its
//! call. Each answer's record stores the seq of its exchange, found once, when it is appended.
//!
//! ```text
//!   aside (seldom there)             main
//!  +----------------------------+   +------------------------------------------+
//!  | what stays while younger   |   | everything else; trimmed at its front    |
//!  | messages go: pinned ones   |   |                                          |
//!  +----------------------------+   +------------------------------------------+
//!    all seqs here are below all seqs there
//! ```
//!
//! Eviction has a fast path that reads only the front of `main`. It applies if the exchanges there are contiguous, as in almost every
//! conversation. Everything else (agents whose exchanges interleave, ages, pins on tool messages) is decided by
//! `Messages::evict_by_survey`, which walks all headers.

mod append;
mod edit;
#[cfg(test)]
mod invariants;
mod parts;
mod read;
mod stored;
mod survey;
mod window;

pub use parts::{Evicted, Messages, NewMessage, Sums, Window};
