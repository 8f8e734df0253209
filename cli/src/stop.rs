//! Ctrl-C and SIGTERM: a request to stop, which long work looks for between two steps.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Result};

/// The exit code of a program that was stopped.
const EXIT_CODE: i32 = 130;

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Turns Ctrl-C and SIGTERM into a request, and says so on standard error. The second one ends the program at once.
pub fn watch() -> Result<()> {
    watch_and(|| eprintln!("stopping after what is in flight (again to stop at once)"))
}

/// As [`watch`], without a message: for commands that have nothing to finish.
pub fn watch_silently() -> Result<()> {
    watch_and(|| {})
}

fn watch_and(say: impl Fn() + Send + 'static) -> Result<()> {
    handle(move || {
        if IS_REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(EXIT_CODE);
        }
        say();
    })
}

/// Ends the program at the first Ctrl-C or SIGTERM, after `finish` has returned.
pub fn end_after(finish: impl Fn() + Send + 'static) -> Result<()> {
    handle(move || {
        finish();
        std::process::exit(EXIT_CODE);
    })
}

fn handle(handler: impl FnMut() + Send + 'static) -> Result<()> {
    ctrlc::set_handler(handler).map_err(|error| Failure::Server(format!("cannot watch for Ctrl-C: {error}")))
}

/// Whether Ctrl-C or SIGTERM came since [`watch`].
pub fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}
