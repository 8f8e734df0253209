//! The conversation: the log of messages under its window.
//!
//! An *exchange* is a calling message with the answers to its calls; any other message is an exchange of its own. An exchange stands
//! where its first message stands, and the window lets exchanges go only whole, the oldest first, so an answer never
//! stays without its call. Each answer's record carries the seq of its exchange, found once, when it is appended.
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
//! Eviction has a fast path that looks at the front of `main` only, and is taken where exchanges stand in one piece there, as they do
//! in almost every conversation. Whatever else there may be (agents whose exchanges interleave, ages, pins on
//! tool messages) is decided by [`Messages::evict_by_survey`], which walks all headers.

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
