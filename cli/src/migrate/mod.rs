//! `redis-session migrate`: every older layout of a database, or of a cluster, becomes a session.
//!
//! ```text
//!  SCAN ─> TYPE ─> group.rs: which keys may be one session ─> their sizes and first elements
//!                                                                 │
//!            report.rs <─ SESSION.MIGRATE <─ SESSION.MIGRATE … DRYRUN, where names made the guess
//! ```
//!
//! The server does the work, one command for each session; only names and counts pass through here. A migrated session is not touched again,
//! so a stopped walk is simply started again. SCAN cursors are not kept: they mean nothing to a server that was restarted or failed over.

mod group;
mod report;
mod walk;

use std::collections::HashSet;
use std::sync::Mutex;

use clap::builder::PossibleValuesParser;
use clap::Args;

use redis_session_client::tolerant::{int, text};
use redis_session_core::layout::Format;

use crate::connection::{self, Link, Place, Router};
use crate::failure::{Failure, Result};
use crate::stop;
use crate::term::output;
use crate::term::progress::Progress;
use crate::Outcome;
use report::Report;
use walk::{Settings, Shared, Walker};

/// How often a cluster is walked at most: again if slots moved meanwhile.
const WALKS_AT_MOST: usize = 5;

#[derive(Args, Debug)]
#[command(after_help = "\
What has been migrated is a session and is not touched again: after Ctrl-C, or a lost connection, run the same command again.\n\
Exit codes: 0 all is well; 1 something was skipped or set aside, with --strict; 2 usage; 3 connection or server; 130 stopped.")]
pub struct Flags {
    /// Write nothing: ask the server what it would do
    #[arg(long)]
    dry_run: bool,
    /// Only keys of this glob-style pattern (and what belongs to one session with them)
    #[arg(long = "match", value_name = "GLOB")]
    matching: Option<String>,
    /// Take what matches for this layout, with any JSON objects for messages; needs --match
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Format::all().map(Format::name)), requires = "matching")]
    format: Option<String>,
    /// Leave the old keys; the sessions go to other keys: see --to
    #[arg(long, requires = "to")]
    keep: bool,
    /// With --keep: a session goes to PREFIX and the old key's name. In a cluster the name is put into braces, if it has none, so that both
    /// are in one slot
    #[arg(long, value_name = "PREFIX", requires = "keep")]
    to: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Sessions that are sent to a server at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    in_flight: u64,
    /// Skip and report what has more elements, half a KiB counting as one: the server answers nobody else while it migrates it
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    max_elements: u64,
    /// Migrate whatever its size
    #[arg(long)]
    large: bool,
    /// Exit with 1 if anything was skipped or set aside
    #[arg(long)]
    strict: bool,
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let prefix = flags.to.clone().unwrap_or_default();
    if flags.keep && (prefix.is_empty() || prefix.contains(['{', '}'])) {
        return Err(Failure::Usage(
            "--to needs a prefix without braces, such as --to 'new:'".into(),
        ));
    }
    let settings = Settings {
        matching: flags.matching.clone(),
        format: flags.format.as_deref().and_then(|name| Format::named(name.as_bytes())),
        dry_run: flags.dry_run,
        keep_to: flags.keep.then_some(prefix),
        in_flight: flags.in_flight as usize,
        max_elements: (!flags.large).then_some(flags.max_elements),
    };
    let target = connection.target()?;
    let mut router = Router::to(target.clone(), connection.cluster)?;
    stop::watch()?;

    let shared = Shared {
        settings,
        progress: Progress::new("keys", 0),
        known: Mutex::new(HashSet::new()),
        target: &target,
        is_cluster: connection.cluster,
    };
    let mut report = Report::default();
    if connection.cluster {
        walk_cluster(&shared, &mut router, &mut report)?;
    } else {
        if is_cluster_node(&mut router)? {
            eprintln!("note: this is a node of a cluster: only its own keys are walked. -c walks all primaries.");
        }
        report.add(walk_one(&shared, router, None));
    }
    shared.progress.finish();
    report.dry_run = flags.dry_run;
    report.interrupted = stop::is_requested();
    report.seconds = shared.progress.seconds();
    if flags.json {
        let text = serde_json::to_string_pretty(&report).expect("a report is JSON");
        output::print(&format!("{text}\n"));
    } else {
        output::print(&report.text());
    }
    match report.error {
        Some(text) => Err(Failure::Server(text)),
        None if report.interrupted => Ok(Outcome::Interrupted),
        None if flags.strict && !report.is_complete() => Ok(Outcome::Incomplete),
        None => Ok(Outcome::Fine),
    }
}

/// Walks one server. The report holds what was done, and the failure that ended the walk, if any.
fn walk_one(shared: &Shared<'_>, mut router: Router, node: Place) -> Report {
    let size = router.at(&node).and_then(|link| link.must(&redis::cmd("DBSIZE")));
    let size = size.ok().as_ref().and_then(int);
    shared.progress.add_total(size.unwrap_or(0) as u64);
    Walker::new(shared, router, node).walk()
}

fn walk_cluster(shared: &Shared<'_>, router: &mut Router, report: &mut Report) -> Result<()> {
    for _ in 0..WALKS_AT_MOST {
        let reports: Vec<Result<Report>> = std::thread::scope(|scope| {
            let walk = |node| Ok(walk_one(shared, Router::to(shared.target.clone(), true)?, node));
            let walks: Vec<_> = router
                .nodes()
                .into_iter()
                .map(|node| scope.spawn(move || walk(node)))
                .collect();
            let joined = walks
                .into_iter()
                .map(|walk| walk.join().expect("a walk does not panic"));
            joined.collect()
        });
        for walked in reports {
            match walked {
                Ok(walked) => report.add(walked),
                Err(failure) => report.error = report.error.take().or(Some(failure.to_string())),
            }
        }
        // Keys that moved to a node that had been walked already were not met.
        let has_moved = router.has_moved()?;
        if !has_moved || report.error.is_some() || stop::is_requested() {
            return Ok(());
        }
        eprintln!("note: slots have moved meanwhile: walking once more.");
    }
    eprintln!("note: slots keep moving: run this again when they are at rest.");
    Ok(())
}

fn is_cluster_node(router: &mut Router) -> Result<bool> {
    let info = router.at(&None)?.call(redis::cmd("INFO").arg("cluster"))?;
    let text = info.ok().and_then(text).unwrap_or_default();
    Ok(text.contains("cluster_enabled:1"))
}
