//! What several subcommands read of a session.
//!
//! ```text
//!  locate.rs     a key, or an alias or id in a directory; what to say where there is none
//!  snapshot.rs   a whole session, read in one transaction
//!  entry.rs      messages, events, checkpoints and gaps, decoded leniently
//!  body.rs       the parts of a message's body, in the shapes that clients use
//!  directory.rs  the key of a directory's entry
//! ```

pub mod body;
pub mod directory;
pub mod entry;
pub mod locate;
pub mod snapshot;
