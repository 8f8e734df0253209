//! `redis-session tail`: follows a session live.
//!
//! New entries are read in one `MULTI` with the session's id, so that another session at the key is noticed even if it has passed the last
//! seq. In between, a `SESSION.READ … BLOCK` waits. After a lost connection it continues after the last seq that was shown; what was evicted
//! meanwhile is shown as a gap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use redis::Value;
use redis_session_client::request::{self, Request};
use redis_session_client::{MessageQuery, ReadCursor, ReadOptions, ReadStep, SessionId, SessionInfo};

use crate::connection::{self, read, Router};
use crate::failure::{Failure, Result};
use crate::session::entry::Entry;
use crate::session::locate::{ask, explain, not_found, Which};
use crate::stop;
use crate::term::color::Mood;
use crate::term::page::{Look, View};
use crate::term::text::clean_line;
use crate::term::text::key_text;
use crate::term::{self, output, time};
use crate::transcript::Renderer;
use crate::Outcome;

/// How long a read blocks, and so how long a deleted session or a closed pipe may go unnoticed.
const BLOCK: Duration = Duration::from_secs(3);
/// Timeout of replies: a server that has not replied by then is considered lost.
const SILENCE: Duration = Duration::from_secs(20);
/// Entries requested at once.
const PAGE: u32 = 500;
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    which: Which,
    /// Begin with the last N messages, and what was recorded among them; 0: from now on
    #[arg(short = 'N', long, value_name = "N", default_value_t = 10)]
    last: u32,
    /// Messages only: no events, handoffs, checkpoints
    #[arg(long)]
    no_events: bool,
    /// Wait for the session if there is none yet
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    view: View,
    /// Print one JSON object a line: `seq`, `timestamp`, `kind`, `body`; also for gaps and resets
    #[arg(long)]
    json: bool,
}

/// Whether a line is being written, which Ctrl-C must not cut off.
static IS_WRITING: AtomicBool = AtomicBool::new(false);

fn write_whole(text: &str) -> bool {
    IS_WRITING.store(true, Ordering::SeqCst);
    let is_read = output::print(text);
    IS_WRITING.store(false, Ordering::SeqCst);
    is_read
}

/// Lets Ctrl-C end the program, but not in the middle of a line.
fn end_at_stop() -> Result<()> {
    stop::end_after(|| {
        // Not for ever: whoever reads the other end may have stopped reading.
        for _ in 0..100 {
            if !IS_WRITING.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Whether the reader of standard output has gone.
#[cfg(unix)]
fn is_pipe_closed() -> bool {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    use std::os::fd::AsFd;
    let out = std::io::stdout();
    // Asked for nothing, it still tells of an error or a hang-up.
    let mut ends = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let is_told = poll(&mut ends, PollTimeout::ZERO).is_ok_and(|told| told > 0);
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    is_told && ends[0].revents().is_some_and(|told| told.intersects(gone))
}

#[cfg(not(unix))]
fn is_pipe_closed() -> bool {
    false
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    end_at_stop()?;
    let mut key = flags.which.find(&mut router);
    while flags.wait && matches!(key, Err(Failure::NotFound(_))) && !is_pipe_closed() {
        std::thread::sleep(Duration::from_secs(1));
        key = flags.which.find(&mut router);
    }
    let mut follower = Follower::start(&mut router, key?, flags)?;
    let look = flags.view.look();
    let mut renderer = Renderer::live(&look, follower.cursor.position());
    if !flags.json && !write_whole(&follower.heading(&look)) {
        return Ok(Outcome::Fine);
    }
    let mut backoff = BACKOFF_FIRST;
    let mut is_connected = true;
    loop {
        let step = match is_connected {
            true => follower.step(&mut router),
            // Another router: the old one keeps its broken connection, and the key may have moved.
            false => router.reconnect().and_then(|new| {
                router = new;
                let step = follower.step(&mut router)?;
                eprintln!("connected again; going on after seq {}", follower.seq_before);
                is_connected = true;
                backoff = BACKOFF_FIRST;
                Ok(step)
            }),
        };
        let entries = match step {
            Ok(entries) => entries,
            Err(Failure::Lost(why)) => {
                let why = clean_line(why.lines().next().unwrap_or_default());
                eprintln!("{why}; trying again in {}", time::duration(backoff.as_millis() as i64));
                std::thread::sleep(backoff);
                backoff = (backoff * 2).min(BACKOFF_MAX);
                is_connected = false;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        for remark in follower.remarks.drain(..) {
            eprintln!("{remark}");
        }
        let text: String = entries
            .iter()
            .map(|entry| match flags.json {
                true => entry.json() + "\n",
                false => renderer.entry(entry),
            })
            .collect();
        if !text.is_empty() && !write_whole(&text) {
            return Ok(Outcome::Fine);
        }
        if entries.is_empty() {
            // What was there before is shown; what is missing from now on was missed.
            renderer.expect_no_gaps();
            if follower.is_closed || is_pipe_closed() {
                return Ok(Outcome::Fine);
            }
            if let Err(failure) = follower.wait(&mut router) {
                match failure {
                    // The next step meets it, too, and says so.
                    Failure::Lost(_) => {}
                    other => return Err(other),
                }
            }
        }
    }
}

struct Follower {
    key: Vec<u8>,
    /// The position, and which gaps were shown.
    cursor: ReadCursor,
    /// The position before the last step, for messages.
    seq_before: u64,
    session_id: Option<SessionId>,
    alias: Option<String>,
    state: Option<String>,
    is_messages_only: bool,
    is_gone: bool,
    is_closed: bool,
    /// Lines for standard error.
    remarks: Vec<String>,
}

impl Follower {
    fn start(router: &mut Router, key: Vec<u8>, flags: &Flags) -> Result<Follower> {
        let mut follower = Follower {
            cursor: ReadCursor::after(0),
            seq_before: 0,
            session_id: None,
            alias: None,
            state: None,
            is_messages_only: flags.no_events,
            is_gone: false,
            is_closed: false,
            remarks: Vec::new(),
            key,
        };
        let Some(info) = ask(router, &follower.info())? else {
            return match flags.wait {
                true => {
                    follower.is_gone = true;
                    follower.remarks.push(format!(
                        "no session at key '{}' yet; waiting for it",
                        key_text(&follower.key)
                    ));
                    Ok(follower)
                }
                false => Err(not_found(&follower.key)),
            };
        };
        let mut seq = info
            .number("last_seq")
            .and_then(|seq| u64::try_from(seq).ok())
            .unwrap_or(0);
        follower.learn(&info);
        if flags.last > 0 {
            let last = request::range_with_meta(&follower.key, MessageQuery::newest(flags.last)).tolerant();
            let last = ask(router, &last)?;
            // Fewer than were asked for are all that there are, and so is what stands before them.
            let is_all = last.len() < flags.last as usize;
            seq = last
                .first()
                .filter(|_| !is_all)
                .map_or(0, |first| first.seq.saturating_sub(1));
        }
        follower.cursor = ReadCursor::after(seq);
        follower.seq_before = seq;
        Ok(follower)
    }

    fn info(&self) -> Request<Option<SessionInfo>> {
        request::info(&self.key).tolerant()
    }

    fn learn(&mut self, info: &SessionInfo) {
        let text = |name: &str| info.text(name).map(str::to_owned);
        self.session_id = info.text("session_id").and_then(|id| id.parse().ok());
        self.alias = text("alias");
        self.state = text("state");
        let is_closed = info.text("closed_at").is_some();
        if is_closed && !self.is_closed {
            self.remarks
                .push("the session is closed: nothing more will come".into());
        }
        self.is_closed = is_closed;
    }

    fn heading(&self, look: &Look) -> String {
        let mut line = look.paint.bold(&key_text(&self.key));
        if let Some(alias) = &self.alias {
            line += &format!("  {}", look.paint.put(term::color::NAME, &clean_line(alias)));
        }
        if let Some(state) = &self.state {
            line += &format!("  {}", look.paint.put(Mood::of(state).style(), &clean_line(state)));
        }
        line + "\n"
    }

    fn read(&self, count: u32) -> ReadOptions {
        let read = ReadOptions::after(self.cursor.position()).count(count);
        match self.is_messages_only {
            true => read.messages(),
            false => read,
        }
    }

    /// Reads the entries that were not shown yet.
    fn step(&mut self, router: &mut Router) -> Result<Vec<Entry>> {
        // If it cannot be set, a silent network is noticed later.
        let _ = router.at_key(&self.key)?.set_read_timeout(Some(SILENCE));
        let info = self.info();
        let page = request::read_raw(&self.key, self.read(PAGE)).tolerant();
        let replies = match router.transaction(&[info.command(), page.command()])? {
            Ok(replies) => replies,
            Err(refusal) => return Err(explain(router, &self.key, &refusal)),
        };
        let mut replies = replies.into_iter();
        self.seq_before = self.cursor.position();
        let Some(info) = read(&info, replies.next().unwrap_or(Value::Nil))? else {
            if !std::mem::replace(&mut self.is_gone, true) {
                self.remarks
                    .push("the session is gone (deleted, renamed or expired); waiting for one at its key".into());
            }
            return Ok(Vec::new());
        };
        let known = self.session_id;
        self.learn(&info);
        self.is_gone = false;
        if known.is_some() && known != self.session_id {
            self.cursor.pass(ReadStep::Reset);
            let session_id = self.session_id.unwrap_or(SessionId::unknown());
            return Ok(vec![Entry::reset(session_id, time::now_ms())]);
        }
        let page = read(&page, replies.next().unwrap_or(Value::Nil))?;
        let mut entries: Vec<Entry> = page.into_iter().map(Entry::of_read).collect();
        let recorded = entries
            .iter()
            .filter(|entry| matches!(entry.step(), ReadStep::Recorded { .. }));
        let is_page_full = recorded.count() >= PAGE as usize;
        entries.retain(|entry| self.cursor.pass(entry.step()));
        self.cursor.end_page(is_page_full);
        Ok(entries)
    }

    /// Waits until there is something, or for a while.
    fn wait(&self, router: &mut Router) -> Result<()> {
        let read = request::read_raw(&self.key, self.read(1).block(BLOCK)).tolerant();
        match router.ask(&read)? {
            Ok(_) => Ok(()),
            // The server became a replica, or somebody sent CLIENT UNBLOCK: the next read says how it is.
            Err(refusal) if refusal.is("UNBLOCKED") => Ok(()),
            Err(refusal) => Err(explain(router, &self.key, &refusal)),
        }
    }
}
