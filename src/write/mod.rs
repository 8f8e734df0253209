//! The steps of every command that writes, in their order. Each is a type that only the step before makes:
//!
//! ```text
//!            open.rs                              change.rs                    settle.rs
//!   Opened --guard--> Guarded ------------change, attempt, create----> Changed --settle--> Settled --publish-->
//!   WRONGTYPE         LEASEHELD LEASELOST         |                   receipt of           facts for replicas,
//!   NOSESSION         VERSIONCONFLICT             |                   the engine           watchers, subscribers
//!   CLOSED                                        |
//!            Admitted --destination--> Destination --place
//!            (guards asked of another key: FORK, MIGRATE)
//! ```
//!
//! So a session cannot be changed before its guards have passed, what is told comes from a change, and the key is closed by then. What else
//! is written (anchors, directories, a loaded payload) has no guards and begins at [`PlainKey`].
//!
//! | command | opened by | guards |
//! |---|---|---|
//! | most | [`Opened::existing`] or [`Opened::or_new`] | [`Opened::guard`] |
//! | `APPEND key JSON body` to a session that is there | [`Opened::at_once`] | the same |
//! | `AGENT JOIN`, `LEAVE`, `HANDOFF` | as most | [`Opened::guard_as_given`]: the turn is what they are about |
//! | `AGENT LEASE`, `RELEASE` | [`Opened::existing`] | [`Opened::unguarded`]: no `<w>`; the engine refuses |
//! | `CREATE` | [`Opened::even_closed`] | as given, of the session that `OPEN` finds |
//! | `GETEX` | [`Opened::even_closed`] | none: it reads; it refuses `CLOSED` itself where it would extend |
//! | `INDEX ADD` | [`Opened::even_closed`] | none: an alias is no content |
//! | `FORK`, `MIGRATE` | [`Admitted::destination`] | as given, of the source, or of what is at the key |

mod change;
mod open;
mod plain;
mod settle;

pub use change::NewSession;
pub use open::{Admitted, Opened};
pub use plain::PlainKey;
pub use settle::Settled;

use redis_session_core::session::Now;

use crate::args::WriteOptions;
use crate::ffi::Ctx;
use crate::settings;

/// Proof that the caller is one of these steps: only they have one. [`crate::ffi`] asks for it where a key is written or told of, so that
/// nothing else in the module can do either.
#[derive(Clone, Copy)]
pub struct Step(());

const STEP: Step = Step(());

/// The times of one command.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Now,
    /// The command is a primary's, or from an append-only file: what it says has been checked there.
    pub obeys: bool,
}

impl Moment {
    #[inline]
    pub fn of(ctx: &Ctx, options: &WriteOptions) -> Self {
        // Only a command that names its time can be a primary's: those always do.
        let obeys = options.at_ms.is_some() && ctx.obeys_primary();
        let now_ms = match options.now_ms.or(options.at_ms.filter(|_| obeys)) {
            Some(now_ms) => now_ms,
            None => ctx.now_ms(),
        };
        Moment {
            now: now(now_ms, options.at_ms.unwrap_or(now_ms)),
            obeys,
        }
    }
}

#[inline]
fn now(now_ms: i64, content_ms: i64) -> Now {
    Now {
        now_ms,
        content_ms,
        compress_after_bytes: settings::COMPRESS_AFTER_BYTES.get() as u32,
    }
}
