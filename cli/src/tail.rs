//! `redis-session tail`: follows a session live.
//!
//! What is new is read in one `MULTI` with the session's id, so that a session that was deleted and made anew is noticed even if it has
//! overtaken the last seq. In between a `SESSION.READ … BLOCK` waits. After a broken connection it goes on behind the last seq that was
//! shown; what is gone by then comes as a gap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use redis::{Cmd, Value};

use crate::connection::{self, array, bytes, int, pairs, Link, Router};
use crate::failure::{Failure, Result};
use crate::session::entry::{Entry, What};
use crate::session::locate::{ask, explain, not_found, Which};
use crate::stop;
use crate::term::color::Mood;
use crate::term::page::{Look, View};
use crate::term::text::clean_line;
use crate::term::text::key_text;
use crate::term::{self, output, time};
use crate::transcript::Renderer;
use crate::Outcome;

/// How long a read waits: as long as a deleted session or a closed pipe may go unnoticed.
const BLOCK_MS: u64 = 3000;
/// A server that has not answered by then is gone, though the network does not say so.
const SILENCE: Duration = Duration::from_secs(20);
/// Entries of one reply.
const PAGE: usize = 500;
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

/// A line that is being written is written to its end before Ctrl-C ends the program.
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

/// Nobody will read what is written.
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
    let mut renderer = Renderer::live(&look, follower.seq);
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
    /// The last one that was read.
    seq: i64,
    /// The same before the last step, to speak of.
    seq_before: i64,
    session_id: Option<String>,
    alias: Option<String>,
    state: Option<String>,
    is_messages_only: bool,
    /// A gap is told of with every page that it reaches into.
    gap_to: i64,
    is_gone: bool,
    is_closed: bool,
    /// For whoever looks at standard error.
    remarks: Vec<String>,
}

impl Follower {
    fn start(router: &mut Router, key: Vec<u8>, flags: &Flags) -> Result<Follower> {
        let mut follower = Follower {
            seq: 0,
            seq_before: 0,
            session_id: None,
            alias: None,
            state: None,
            is_messages_only: flags.no_events,
            gap_to: 0,
            is_gone: false,
            is_closed: false,
            remarks: Vec::new(),
            key,
        };
        let info = follower.ask(router, redis::cmd("SESSION.INFO").arg(&follower.key))?;
        if info == Value::Nil {
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
        }
        let last_seq = follower.learn(info);
        follower.seq = last_seq;
        if flags.last > 0 {
            let first = -i64::from(flags.last);
            let mut range = redis::cmd("SESSION.RANGE");
            range.arg(&follower.key).arg(first).arg(-1).arg("WITHMETA");
            let last = array(follower.ask(router, &range)?);
            let first_seq = last.first().cloned().and_then(|first| int(array(first).first()?));
            // Fewer than were asked for are all that there are, and so is what stands before them.
            let is_all = last.len() < flags.last as usize;
            follower.seq = first_seq.filter(|_| !is_all).map_or(0, |first| first - 1);
        }
        follower.seq_before = follower.seq;
        Ok(follower)
    }

    fn ask(&self, router: &mut Router, command: &Cmd) -> Result<Value> {
        ask(router, &self.key, command)
    }

    /// From `SESSION.INFO`; the last seq.
    fn learn(&mut self, info: Value) -> i64 {
        let mut last_seq = 0;
        for (name, value) in pairs(info) {
            let text = |value| bytes(value).map(|text| String::from_utf8_lossy(&text).into_owned());
            match name.as_slice() {
                b"session_id" => self.session_id = text(value),
                b"alias" => self.alias = text(value),
                b"state" => self.state = text(value),
                b"last_seq" => last_seq = int(&value).unwrap_or(0),
                b"closed_at" => {
                    let is_closed = value != Value::Nil;
                    if is_closed && !self.is_closed {
                        self.remarks
                            .push("the session is closed: nothing more will come".into());
                    }
                    self.is_closed = is_closed;
                }
                _ => {}
            }
        }
        last_seq
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

    fn read(&self) -> Cmd {
        let mut read = redis::cmd("SESSION.READ");
        read.arg(&self.key).arg(self.seq);
        if self.is_messages_only {
            read.arg("MESSAGES");
        }
        read
    }

    /// What is there now and was not shown yet.
    fn step(&mut self, router: &mut Router) -> Result<Vec<Entry>> {
        if let Link::Server(connection) = router.link(&self.key)? {
            // If it cannot be set, a silent network is noticed later.
            let _ = connection.set_read_timeout(Some(SILENCE));
        }
        let commands = [
            redis::cmd("SESSION.INFO").arg(&self.key).to_owned(),
            self.read().arg("COUNT").arg(PAGE).to_owned(),
        ];
        let replies = match router.transaction(&self.key, &commands)? {
            Ok(replies) => array(replies),
            Err(refusal) => return Err(explain(router, &self.key, &refusal)),
        };
        let mut replies = replies.into_iter();
        self.seq_before = self.seq;
        let info = replies.next().unwrap_or(Value::Nil);
        if info == Value::Nil {
            if !std::mem::replace(&mut self.is_gone, true) {
                self.remarks
                    .push("the session is gone (deleted, renamed or expired); waiting for one at its key".into());
            }
            return Ok(Vec::new());
        }
        let known = self.session_id.clone();
        self.learn(info);
        self.is_gone = false;
        if known.is_some() && known != self.session_id {
            self.seq = 0;
            self.gap_to = 0;
            let session_id = self.session_id.clone().unwrap_or_default();
            return Ok(vec![Entry::reset(session_id, time::now_ms())]);
        }
        let entries = replies.next().map(array).unwrap_or_default();
        let is_page_full = entries.len() >= PAGE;
        let mut entries: Vec<Entry> = entries.into_iter().filter_map(Entry::of_read).collect();
        entries.retain(|entry| self.pass(entry));
        if !is_page_full {
            // Nothing is left inside the gap, and it need not be told again.
            self.seq = self.seq.max(self.gap_to);
        }
        Ok(entries)
    }

    /// Goes on to this entry; false if it says nothing new.
    fn pass(&mut self, entry: &Entry) -> bool {
        match entry.what {
            // What stands inside it still follows, so it moves nothing but itself.
            What::Gap { to, .. } => {
                let is_new = to > self.gap_to;
                self.gap_to = self.gap_to.max(to);
                is_new
            }
            What::Reset { .. } => {
                self.seq = 0;
                self.gap_to = 0;
                true
            }
            _ => {
                self.seq = self.seq.max(entry.seq);
                true
            }
        }
    }

    /// Until there is something, or for a while.
    fn wait(&self, router: &mut Router) -> Result<()> {
        let mut read = self.read();
        read.arg("COUNT").arg(1).arg("BLOCK").arg(BLOCK_MS);
        match router.call(&self.key, &read)? {
            Ok(_) => Ok(()),
            // The server became a replica, or somebody sent CLIENT UNBLOCK: the next read says how it is.
            Err(refusal) if refusal.is("UNBLOCKED") => Ok(()),
            Err(refusal) => Err(explain(router, &self.key, &refusal)),
        }
    }
}
