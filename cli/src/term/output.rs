//! Standard output, which may be closed, or full.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Writes the text to standard output. Returns false once nobody reads there any more, as when `head` has seen enough.
///
/// Any other error is printed once on standard error, and becomes the exit code: see [`is_lost`].
pub fn print(text: &str) -> bool {
    if is_closed() {
        return false;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        IS_CLOSED.store(true, Ordering::Relaxed);
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("error: cannot write to standard output: {error}");
            IS_LOST.store(true, Ordering::Relaxed);
        }
    }
    !is_closed()
}

/// Whether standard output was closed: nothing that is printed from now on reaches anybody.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Whether something was not printed that should have been, as on a full disk.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}
