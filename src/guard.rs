//! Catches panics before they reach the server. Unwinding into C would abort the process, and with it the data of every client, so each
//! command and each callback runs its body in here; a caught panic is counted, logged and replied as an error.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS_CAUGHT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Where this thread's last panic happened. Only the panic hook gets the location; the payload that `catch_unwind` returns has none.
    static LAST_LOCATION: Cell<Option<String>> = const { Cell::new(None) };
}

/// A caught panic.
#[derive(Debug)]
pub struct Panic {
    pub message: String,
    /// `file:line`, if the hook has recorded it.
    pub location: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(location) => write!(f, "{} ({location})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Returns the number of panics caught since the module was loaded, for `INFO session`.
pub fn panics_caught() -> u64 {
    PANICS_CAUGHT.load(Ordering::Relaxed)
}

/// Installs a hook that records where panics happen instead of printing them: the guard writes them to the server's log.
pub fn install_hook() {
    panic::set_hook(Box::new(|info| {
        let location = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        LAST_LOCATION.set(location);
    }));
}

/// Runs `body`; counts and returns a panic in it.
///
/// It does not undo changes: commands validate before they change anything, and the core's operations have no intended panics in between.
#[inline]
pub fn catch<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(caught)
}

/// Runs the body of the callback named `place`; counts and logs a panic in it and then returns `fallback`.
#[inline]
pub fn guarded<R>(place: &str, fallback: R, body: impl FnOnce() -> R) -> R {
    match catch(body) {
        Ok(result) => result,
        Err(panic) => {
            crate::ffi::log_warning(&format!("internal error in the {place} callback: {panic}"));
            fallback
        }
    }
}

#[cold]
#[inline(never)]
fn caught(payload: Box<dyn Any + Send>) -> Panic {
    PANICS_CAUGHT.fetch_add(1, Ordering::Relaxed);
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    Panic {
        message,
        location: LAST_LOCATION.take(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_returned_with_its_message_and_counted() {
        let before = panics_caught();
        let panic = catch(|| -> u32 { panic!("seq {} is gone", 7) }).unwrap_err();
        assert_eq!(panic.message, "seq 7 is gone");
        assert!(panics_caught() > before);
        assert_eq!(catch(|| 3).unwrap(), 3);
    }
}
