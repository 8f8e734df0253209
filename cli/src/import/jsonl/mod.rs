//! `redis-session import jsonl`: restores what `redis-session export` wrote.
//!
//! ```text
//!  a thread: line ─> key, expiry, payload ─> batches ─┐
//!                                                    └─> RESTORE key … ABSTTL, many at once, each to where its key is
//! ```
//!
//! A line is one `RESTORE`, so nothing is ever half done. A broken line is reported and skipped; an existing key is left alone. If it holds
//! the same value, it counts as imported before, so a stopped import can be started again.

mod lines;
mod payload;

use std::path::PathBuf;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use redis::Cmd;
use redis_session_client::tolerant::{bytes, int};
use serde::Serialize;

use crate::archive::Kind;
use crate::connection::{self, Router};
use crate::failure::{Failure, Refusal, Result};
use crate::stop;
use crate::term::output;
use crate::term::progress::Progress;
use crate::term::text::key_text;
use crate::Outcome;
use lines::{Entry, Lines, Read};

/// Batches that are read ahead while the server works.
const BATCHES_AHEAD: usize = 2;

/// How often to check for a request to stop.
const TICK: Duration = Duration::from_millis(100);

/// The report names so many lines at most; --json more.
const NAMED_AT_MOST: usize = 1000;
const SHOWN_AT_MOST: usize = 20;

#[derive(Args, Debug)]
#[command(after_help = "\
What is there already is left alone: after Ctrl-C, or a lost connection, run the same command again.\n\
Exit codes: 0 everything in the file is there; 1 something is not; 2 usage; 3 connection or server; 130 stopped.")]
pub struct Flags {
    /// A file that `redis-session export` wrote; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write over keys that hold something else
    #[arg(long)]
    replace: bool,
    /// Stop at the first line that is not brought back
    #[arg(long)]
    strict: bool,
    /// Write nothing: read and check the file, and look which keys are there
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    dry_run: bool,
    interrupted: bool,
    seconds: f64,
    /// Lines that were read.
    lines: u64,
    sessions: u64,
    directories: u64,
    anchors: u64,
    /// Keys that held just this already.
    already: u64,
    /// Keys that hold something else and were left alone.
    left_alone: u64,
    /// Values that have expired meanwhile.
    expired: u64,
    /// Lines that could not be brought back.
    broken: u64,
    /// Of what was left alone or broken: the line, its key, and why.
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    why: String,
}

impl Report {
    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Session => self.sessions += 1,
            Kind::Directory => self.directories += 1,
            Kind::Anchors => self.anchors += 1,
        }
    }

    fn problem(&mut self, line: u64, key: Option<&[u8]>, why: String) {
        if self.problems.len() < NAMED_AT_MOST {
            let key = key.map(key_text);
            self.problems.push(Problem { line, key, why });
        }
    }

    fn break_line(&mut self, line: u64, key: Option<&[u8]>, why: String) {
        self.broken += 1;
        self.problem(line, key, why);
    }

    fn is_complete(&self) -> bool {
        self.left_alone == 0 && self.broken == 0
    }

    fn text(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut text = format!(
            "{would}imported: {} sessions, {} directories, {} keys of anchors; {} lines in {:.1} s\n",
            self.sessions, self.directories, self.anchors, self.lines, self.seconds
        );
        for (count, what) in [
            (self.already, "were there already"),
            (self.expired, "had expired by now"),
            (
                self.left_alone,
                "left alone, for their keys hold something else (--replace writes over it)",
            ),
            (self.broken, "broken or refused"),
        ] {
            if count > 0 {
                text += &format!("{count} {what}\n");
            }
        }
        for Problem { line, key, why } in self.problems.iter().take(SHOWN_AT_MOST) {
            let key = key.as_deref().map(|key| format!(" ({key})")).unwrap_or_default();
            text += &format!("  line {line}{key}: {why}\n");
        }
        let count = self.left_alone + self.broken;
        if count > SHOWN_AT_MOST as u64 {
            let more = count - SHOWN_AT_MOST as u64;
            text += &format!("  … ({more} more; --json names up to {NAMED_AT_MOST})\n");
        }
        if self.interrupted {
            text += "stopped before the end: run the same command again to go on.\n";
        }
        text
    }
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let lines = Lines::open(&flags.file)?;
    let progress = Progress::of_values("KiB", lines.total_bytes().unwrap_or(0) / 1024);
    let mut importer = Importer {
        flags,
        router: Router::connect(connection)?,
        report: Report {
            dry_run: flags.dry_run,
            ..Report::default()
        },
        progress,
    };
    stop::watch()?;
    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
    // It may wait for standard input for ever, and then ends with the program.
    std::thread::spawn(move || lines.send_all(&sender));
    let done = importer.take_all(&receiver);
    importer.progress.finish();
    let mut report = importer.report;
    report.interrupted = stop::is_requested();
    report.seconds = importer.progress.seconds();
    if flags.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::Output(format!("the report is no JSON: {error}")))?;
        output::print(&format!("{text}\n"));
    } else {
        output::print(&report.text());
    }
    done?;
    Ok(match (report.interrupted, report.is_complete()) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::Incomplete,
    })
}

struct Importer<'a> {
    flags: &'a Flags,
    router: Router,
    report: Report,
    progress: Progress,
}

impl Importer<'_> {
    /// Imports what the reader sends, until its end or a reason to stop.
    fn take_all(&mut self, receiver: &Receiver<Read>) -> Result<()> {
        while !stop::is_requested() {
            let read = match receiver.recv_timeout(TICK) {
                Ok(read) => read,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let bytes = read.bytes;
            self.take(read)?;
            self.progress.add(bytes / 1024, 0, 0);
            if self.flags.strict && !self.report.is_complete() {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, read: Read) -> Result<()> {
        self.report.lines += read.lines;
        for (line, why) in read.broken {
            self.report.break_line(line, None, why);
            if self.flags.strict {
                // What stands before it in the file is brought back all the same.
                let before: Vec<Entry> = read.entries.into_iter().filter(|entry| entry.line < line).collect();
                return self.bring(before);
            }
        }
        if let Some(error) = read.failure {
            self.bring(read.entries)?;
            return Err(Failure::Output(format!(
                "cannot read {}: {error}",
                self.flags.file.display()
            )));
        }
        self.bring(read.entries)
    }

    fn bring(&mut self, mut entries: Vec<Entry>) -> Result<()> {
        // Not sent at all: with REPLACE a server would delete what is there now for the sake of what is no more.
        let (now_ms, count) = (crate::term::time::now_ms(), entries.len());
        entries.retain(|entry| entry.expires_at_ms.is_none_or(|at_ms| at_ms > now_ms));
        self.report.expired += (count - entries.len()) as u64;
        if self.flags.dry_run {
            return self.look(entries);
        }
        let commands = entries.iter().map(|entry| (entry.key.as_slice(), self.restore(entry)));
        let answers = self.router.calls(commands.collect())?;
        let mut there = Vec::new();
        for (entry, answer) in entries.into_iter().zip(answers) {
            match answer {
                Ok(_) => {
                    self.report.add(entry.kind);
                    self.progress.add(0, 1, 0);
                }
                Err(refusal) if refusal.is("BUSYKEY") => there.push(entry),
                Err(refusal) => self.is_refused(&entry, &refusal),
            }
        }
        self.compare(there)
    }

    fn restore(&self, entry: &Entry) -> Cmd {
        let mut command = redis::cmd("RESTORE");
        command
            .arg(&entry.key)
            .arg(entry.expires_at_ms.unwrap_or(0))
            .arg(&entry.payload)
            .arg("ABSTTL");
        if self.flags.replace {
            command.arg("REPLACE");
        }
        command
    }

    /// Checks payloads and which keys exist, without writing.
    fn look(&mut self, entries: Vec<Entry>) -> Result<()> {
        let commands = entries
            .iter()
            .map(|entry| (entry.key.as_slice(), redis::cmd("EXISTS").arg(&entry.key).to_owned()));
        let answers = self.router.calls(commands.collect())?;
        let mut there = Vec::new();
        for (entry, answer) in entries.into_iter().zip(answers) {
            let is_there = answer.is_ok_and(|count| int(&count) != Some(0));
            match payload::damage(&entry.payload) {
                Some(why) => self.report.break_line(entry.line, Some(&entry.key), why),
                None if is_there && !self.flags.replace => there.push(entry),
                None => self.report.add(entry.kind),
            }
        }
        self.compare(there)
    }

    /// Compares existing keys with the lines, and counts those that hold the same value.
    fn compare(&mut self, entries: Vec<Entry>) -> Result<()> {
        let commands = entries
            .iter()
            .map(|entry| (entry.key.as_slice(), redis::cmd("DUMP").arg(&entry.key).to_owned()));
        let answers = self.router.calls(commands.collect())?;
        for (entry, answer) in entries.into_iter().zip(answers) {
            let held = answer.ok().and_then(bytes).unwrap_or_default();
            if payload::is_same(&held, &entry.payload) {
                self.report.already += 1;
                self.progress.add(0, 1, 0);
            } else {
                self.report.left_alone += 1;
                let why = "left alone: the key holds something else";
                self.report.problem(entry.line, Some(&entry.key), why.into());
            }
        }
        Ok(())
    }

    fn is_refused(&mut self, entry: &Entry, refusal: &Refusal) {
        let why = payload::reason(&entry.payload, refusal);
        self.report.break_line(entry.line, Some(&entry.key), why);
    }
}
