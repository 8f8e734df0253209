//! `redis-session export`: writes keys as lines of JSON, which `import jsonl` restores exactly.
//!
//! ```text
//!  SCAN TYPE … ─> MEMORY USAGE ─> MULTI PEXPIRETIME, TYPE, DUMP, SESSION.GET, … EXEC ─> archive.rs ─> sink.rs
//!                 (how many go together)                (a key is read at one moment)
//! ```
//!
//! Memory holds the replies of one round trip: a few megabytes, or one larger value. It also keeps a digest of each key, because SCAN may
//! return a key twice and a resumed export must know what is done.

mod sink;

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use redis::Cmd;
use redis_session_client::tolerant::{bytes, int};
use redis_session_client::{request, IndexQuery};

use crate::archive::{self, Kind};
use crate::connection::{self, Link, Place, Router, Scan};
use crate::digest::digest;
use crate::failure::{Failure, Refusal, Result};
use crate::session::directory;
use crate::stop;
use crate::term::progress::Progress;
use crate::term::text::key_text;
use crate::Outcome;
use sink::Sink;

/// Keys that one SCAN looks at: about half a millisecond of the server's time.
const PAGE: usize = 500;

/// Bounds of one round trip: number of keys, and their bytes in the server's memory; at least one key.
const KEYS_AT_ONCE: usize = 200;
const BYTES_AT_ONCE: u64 = 2 * 1024 * 1024;

/// How often a cluster is walked at most: again if slots moved meanwhile.
const WALKS_AT_MOST: usize = 5;

#[derive(Args, Debug)]
#[command(after_help = "\
Without keys: everything that SCAN finds of the types rdsession, rdsessidx and rdanchors. Each key is read in one step.\n\
Read it with jq:       redis-session export --readable | jq -r '[.key, .document.message_count] | @tsv'\n\
Bring it back:         redis-session import jsonl FILE\n\
After Ctrl-C, or a lost connection: the same command with --resume.")]
pub struct Flags {
    /// Only these keys
    #[arg(value_name = "KEY", conflicts_with = "matching")]
    keys: Vec<std::ffi::OsString>,
    /// Only keys of this glob-style pattern
    #[arg(long = "match", value_name = "GLOB")]
    matching: Option<String>,
    /// Only this directory and the sessions in it
    #[arg(long, value_name = "INDEX", conflicts_with = "matching")]
    index: Vec<std::ffi::OsString>,
    /// Where to; - is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Go on with a file that an export left behind
    #[arg(long)]
    resume: bool,
    /// Write over a file that is there
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Leave out the payload: to be read, not to be brought back
    #[arg(long, alias = "no-payload")]
    readable: bool,
}

/// Number of values exported, by type.
#[derive(Default)]
struct Counts {
    sessions: u64,
    directories: u64,
    anchors: u64,
    /// Keys that were asked for by name and are not there, or are something else.
    missing: u64,
}

struct Exporter<'a> {
    flags: &'a Flags,
    router: Router,
    sink: Sink,
    done: HashSet<u128>,
    counts: Counts,
    progress: Progress,
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut done = HashSet::new();
    let sink = Sink::open(flags, &mut |key| {
        done.insert(digest(key));
    })?;
    if !done.is_empty() {
        eprintln!("note: {} keys are in the file already.", done.len());
    }
    let mut exporter = Exporter {
        flags,
        router: Router::connect(connection)?,
        sink,
        done,
        counts: Counts::default(),
        progress: Progress::of_values("keys", 0),
    };
    stop::watch()?;
    let walked = match flags.keys.is_empty() && flags.index.is_empty() {
        true => exporter.walk(),
        false => exporter.named(),
    };
    exporter.progress.finish();
    let finished = exporter.sink.finish();
    exporter.summarise(walked.is_err() || finished.is_err());
    walked?;
    finished?;
    Ok(match (stop::is_requested(), exporter.counts.missing) {
        (true, _) => Outcome::Interrupted,
        (false, 0) => Outcome::Fine,
        (false, _) => Outcome::Incomplete,
    })
}

impl Exporter<'_> {
    /// Exports everything that SCAN finds.
    fn walk(&mut self) -> Result<()> {
        for _ in 0..WALKS_AT_MOST {
            for node in self.router.nodes() {
                let size = self.router.at(&node)?.must(&redis::cmd("DBSIZE"))?;
                self.progress.add_total(int(&size).unwrap_or(0) as u64);
                for kind in Kind::ALL {
                    self.scan(&node, kind)?;
                }
            }
            if stop::is_requested() {
                return Ok(());
            }
            // Keys that moved to a node that had been walked already were not met.
            if !self.router.has_moved()? {
                return Ok(());
            }
            eprintln!("note: slots have moved meanwhile: walking once more.");
        }
        eprintln!("note: slots keep moving: run this again with --resume when they are at rest.");
        Ok(())
    }

    fn scan(&mut self, node: &Place, kind: Kind) -> Result<()> {
        let matching = self.flags.matching.as_deref();
        let mut scan = Scan::new(PAGE).matching(matching).of_type(Some(kind.name()));
        while !stop::is_requested() {
            let Some(keys) = scan.next(self.router.at(node)?)? else {
                break;
            };
            self.take(keys, Some(kind))?;
            // The keys are as many as there are, however often they are walked.
            self.progress
                .add(if kind == Kind::Session { PAGE as u64 } else { 0 }, 0, 0);
        }
        Ok(())
    }

    /// Exports the keys and the directories with their sessions that the command line names.
    fn named(&mut self) -> Result<()> {
        let keys: Vec<Vec<u8>> = self.flags.keys.iter().map(key_of_argument).collect();
        self.progress.add_total(keys.len() as u64);
        self.take(keys, None)?;
        for index in self.flags.index.iter().map(key_of_argument) {
            let list = request::index_list(&index, IndexQuery::all());
            let entries = self
                .router
                .ask(&list)?
                .map_err(|refusal| Failure::NotFound(format!("{} is not a directory ({refusal})", key_text(&index))))?;
            let mut keys = Vec::new();
            for entry in &entries {
                keys.push(directory::raw_key(&mut self.router, &index, entry)?);
            }
            self.progress.add_total(keys.len() as u64 + 1);
            for keys in keys.chunks(PAGE) {
                self.take(keys.to_vec(), Some(Kind::Session))?;
                self.progress.add(keys.len() as u64, 0, 0);
            }
            self.take(vec![index], None)?;
        }
        Ok(())
    }

    /// Exports the keys that are not done yet. `kind` is their type where SCAN or a directory tells; otherwise it is looked up, and keys that
    /// cannot be exported are reported.
    fn take(&mut self, mut keys: Vec<Vec<u8>>, kind: Option<Kind>) -> Result<()> {
        keys.retain(|key| self.done.insert(digest(key)));
        // Where the user may not ask for sizes, all keys are taken for large.
        let sizes = keys
            .iter()
            .map(|key| (key.as_slice(), redis::cmd("MEMORY").arg("USAGE").arg(key).to_owned()));
        let sizes = self.router.answers(sizes.collect())?;
        let mut sized = keys.iter().zip(sizes).map(|(key, size)| {
            let size = size.ok().map_or(BYTES_AT_ONCE, |size| int(&size).unwrap_or(0) as u64);
            (key.as_slice(), size)
        });
        let mut next = sized.next();
        while let Some((key, size)) = next {
            if stop::is_requested() {
                break;
            }
            let (mut together, mut total) = (vec![key], size);
            next = sized.next();
            while let Some((key, size)) = next.filter(|(_, size)| total + size <= BYTES_AT_ONCE) {
                if together.len() == KEYS_AT_ONCE {
                    break;
                }
                together.push(key);
                total += size;
                next = sized.next();
            }
            self.read(&together, kind)?;
        }
        Ok(())
    }

    fn read(&mut self, keys: &[&[u8]], kind: Option<Kind>) -> Result<()> {
        let wanted = match kind {
            Some(kind) => keys.iter().map(|key| (*key, kind)).collect(),
            None => self.kinds(keys)?,
        };
        let transactions: Vec<(&[u8], Vec<Cmd>)> = wanted
            .iter()
            .map(|(key, kind)| (*key, self.commands(key, *kind)))
            .collect();
        let answers = self.router.transactions(&transactions)?;
        for ((key, kind), answer) in wanted.into_iter().zip(answers) {
            match answer {
                Ok(replies) => {
                    // There is nothing of a key that went between SCAN and here.
                    if let Some(values) = archive::Values::of(replies, !self.flags.readable) {
                        self.write(key, kind, &values)?;
                    }
                }
                // Another type took its place just now, or it may not be read.
                Err(refusal) => self.is_refused(key, &refusal),
            }
        }
        Ok(())
    }

    /// The types of the keys that can be exported. The others are reported.
    fn kinds<'k>(&mut self, keys: &[&'k [u8]]) -> Result<Vec<(&'k [u8], Kind)>> {
        let commands = keys.iter().map(|key| (*key, redis::cmd("TYPE").arg(*key).to_owned()));
        let answers = self.router.calls(commands.collect())?;
        let mut wanted = Vec::new();
        for (key, answer) in keys.iter().zip(answers) {
            let name = answer.ok().and_then(bytes).unwrap_or_default();
            match Kind::named(&name) {
                Some(kind) => wanted.push((*key, kind)),
                None => self.is_missing(key, &String::from_utf8_lossy(&name)),
            }
        }
        Ok(wanted)
    }

    fn commands(&self, key: &[u8], kind: Kind) -> Vec<Cmd> {
        let mut commands = vec![redis::cmd("PEXPIRETIME").arg(key).to_owned()];
        if !self.flags.readable {
            commands.push(redis::cmd("DUMP").arg(key).to_owned());
        }
        commands.extend(kind.readers(key));
        commands
    }

    fn write(&mut self, key: &[u8], kind: Kind, values: &archive::Values) -> Result<()> {
        archive::write(self.sink.out(), key, kind, values).map_err(|error| self.sink.failure(&error))?;
        self.sink.line_is_done()?;
        match kind {
            Kind::Session => self.counts.sessions += 1,
            Kind::Directory => self.counts.directories += 1,
            Kind::Anchors => self.counts.anchors += 1,
        }
        self.progress.add(0, 1, 0);
        Ok(())
    }

    fn is_missing(&mut self, key: &[u8], kind: &str) {
        self.counts.missing += 1;
        let key = key_text(key);
        match kind {
            "none" => eprintln!("{key}: there is no such key"),
            "string" | "list" | "hash" | "zset" => eprintln!(
                "{key}: left out, a {kind} and no session; if it is a conversation: redis-session migrate --match '{key}'"
            ),
            _ => eprintln!("{key}: left out, a {kind} and no session"),
        }
    }

    fn is_refused(&mut self, key: &[u8], refusal: &Refusal) {
        self.counts.missing += 1;
        eprintln!("{}: left out: {refusal}", key_text(key));
    }

    fn summarise(&self, is_broken_off: bool) {
        let Counts {
            sessions,
            directories,
            anchors,
            missing,
        } = self.counts;
        let seconds = self.progress.seconds();
        let mib = self.sink.written_bytes() as f64 / (1024.0 * 1024.0);
        let mut text = format!(
            "exported: {sessions} sessions, {directories} directories, {anchors} keys of anchors; {mib:.1} MiB in {seconds:.1} s\n"
        );
        if missing > 0 {
            text += &format!("left out: {missing}\n");
        }
        if stop::is_requested() || is_broken_off {
            text += match self.sink.can_be_resumed() {
                true => "stopped before the end: the same command with --resume goes on.\n",
                false => "stopped before the end.\n",
            };
        }
        eprint!("{text}");
    }
}

/// The bytes of a key given on the command line.
fn key_of_argument(argument: &std::ffi::OsString) -> Vec<u8> {
    argument.as_encoded_bytes().to_vec()
}
