//! Standard output, which may be closed, or full.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whoever closed it, as `head` does, has read enough. Anything else is said once, and is the end's exit code.
pub fn print(text: &str) {
    if is_closed() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        IS_CLOSED.store(true, Ordering::Relaxed);
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("error: cannot write to standard output: {error}");
            IS_LOST.store(true, Ordering::Relaxed);
        }
    }
}

/// Nothing that is printed from now on reaches anybody.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Something was not printed that should have been.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}
