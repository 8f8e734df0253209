//! Progress: a bar on a terminal, a line every ten seconds elsewhere. Both go to standard error.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Counts what is done, and shows it on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: AtomicU64,
    done: AtomicU64,
    sessions: AtomicU64,
    messages: AtomicU64,
    has_messages: bool,
    began: Instant,
    printed: Mutex<Instant>,
}

impl Progress {
    /// Of so many keys or files, as far as is known, in which there are sessions and messages.
    pub fn new(what: &'static str, total: u64) -> Progress {
        Progress::with(what, total, true)
    }

    /// Of values that are taken whole: of their messages nothing is known.
    pub fn of_values(what: &'static str, total: u64) -> Progress {
        Progress::with(what, total, false)
    }

    fn with(what: &'static str, total: u64, has_messages: bool) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let template = match has_messages {
                true => "{wide_bar} {percent:>3} %  {human_pos} of {human_len} {prefix}, {per_sec}, {eta} left  {msg}",
                false => "{wide_bar} {percent:>3} %  {human_pos} of {human_len} {prefix}, {eta} left  {msg}",
            };
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(what);
            bar
        });
        Progress {
            bar,
            what,
            total: AtomicU64::new(total),
            done: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            has_messages,
            began: Instant::now(),
            printed: Mutex::new(Instant::now()),
        }
    }

    pub fn add_total(&self, more: u64) {
        let total = self.total.fetch_add(more, Ordering::Relaxed) + more;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    pub fn add(&self, done: u64, sessions: u64, messages: u64) {
        let total = self.total.load(Ordering::Relaxed);
        // What came meanwhile, or is seen twice, is not more than all there is.
        let done = (self.done.fetch_add(done, Ordering::Relaxed) + done).min(total);
        let sessions = self.sessions.fetch_add(sessions, Ordering::Relaxed) + sessions;
        let messages = self.messages.fetch_add(messages, Ordering::Relaxed) + messages;
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let what_is_done = match self.has_messages {
            true => format!("{sessions} sessions, {:.0} messages/s", messages as f64 / seconds),
            false => format!("{sessions} values, {:.0}/s", sessions as f64 / seconds),
        };
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(what_is_done);
            return;
        }
        let Ok(mut printed) = self.printed.lock() else { return };
        if printed.elapsed() >= LINE_EVERY {
            *printed = Instant::now();
            let left = seconds * (total - done) as f64 / done.max(1) as f64;
            let what = self.what;
            eprintln!("{done} of {total} {what}, {what_is_done}, {left:.0} s left");
        }
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
