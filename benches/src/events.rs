//! Measures queries on a session of 100,000 events: server instructions per examined event.
//!
//! The session is made once; servers under callgrind load it from a snapshot. The instructions of a server that only loads are subtracted
//! from those of a server that loads and answers the query.

use crate::bodies::session_key;
use crate::instructions::event_texts;
use crate::report::{grouped, print_table};
use crate::resp::{Connection, Pipeline, Reply};
use crate::server::{Folder, Server};
use crate::{Options, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;

const SIZES: [usize; 2] = [1_000, 100_000];
/// Repetitions of a query that examines every event, and of one that stops early.
const SCANS: usize = 1;
const STOPS: usize = 200;

struct Query {
    name: &'static str,
    words: &'static [&'static str],
    stops_early: bool,
}

const QUERIES: &[Query] = &[
    scan("TYPE none", &["TYPE", "none"]),
    scan("TYPE broke", &["TYPE", "broke"]),
    scan("FROM pass TO broke", &["FROM", "pass", "TO", "broke"]),
    scan("AGENT agent-07", &["AGENT", "agent-07"]),
    scan("ENTITY module-007", &["ENTITY", "module-007"]),
    scan(
        "AGENT agent-07 FROM pass TO broke",
        &["AGENT", "agent-07", "FROM", "pass", "TO", "broke"],
    ),
    scan("REV FROM pass TO broke", &["REV", "FROM", "pass", "TO", "broke"]),
    stop(
        "FROM pass TO broke COUNT 1",
        &["FROM", "pass", "TO", "broke", "COUNT", "1"],
    ),
    stop("AGENT agent-07 COUNT 1", &["AGENT", "agent-07", "COUNT", "1"]),
    stop(
        "ENTITY module-007 REV COUNT 1",
        &["ENTITY", "module-007", "REV", "COUNT", "1"],
    ),
];

const fn scan(name: &'static str, words: &'static [&'static str]) -> Query {
    Query {
        name,
        words,
        stops_early: false,
    }
}

const fn stop(name: &'static str, words: &'static [&'static str]) -> Query {
    Query {
        name,
        words,
        stops_early: true,
    }
}

pub fn run(options: &Options) -> Result<()> {
    let module = options.module.as_deref().ok_or("events needs the module")?;
    let folder = Folder::new()?;
    let mut table = Vec::new();
    let mut snapshots: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    let mut elapsed = Vec::new();
    for events in SIZES {
        let mut server = Server::start(&options.server, Some(module))?;
        let mut connection = server.connect()?;
        connection.send(&session_of(events))?;
        for query in QUERIES {
            let began = Instant::now();
            let reply = connection.call(words(query))?;
            elapsed.push(began.elapsed());
            match reply {
                Reply::Array(events) => found.push(events),
                other => return Err(format!("{} answered {other:?}", query.name).into()),
            }
        }
        connection.call(["SAVE"])?;
        let snapshot = folder.path().join(format!("{events}.rdb"));
        std::fs::copy(server.folder().join("dump.rdb"), &snapshot)?;
        snapshots.push(snapshot);
    }
    let before = side_by_side(&snapshots, |_, snapshot| {
        total_of_run(&QUERIES[0], 0, snapshot, &options.server, module)
    })?;
    let of = |figures: usize, size: usize, query: usize| size * figures + query;
    for (number, query) in QUERIES.iter().enumerate() {
        if options.only.as_ref().is_some_and(|text| !query.name.contains(text)) {
            continue;
        }
        let costs = side_by_side(&snapshots, |size, snapshot| {
            measure(query, snapshot, before[size], options, module)
        })?;
        let largest = of(QUERIES.len(), SIZES.len() - 1, number);
        table.push(vec![
            query.name.to_owned(),
            grouped(found[largest] as u64),
            grouped(costs[0]),
            grouped(costs[1]),
            match query.stops_early {
                true => String::new(),
                false => grouped(costs[1] / SIZES[1] as u64),
            },
            format!("{:.1}", elapsed[largest].as_secs_f64() * 1000.0),
        ]);
    }
    println!(
        "SESSION.EVENT RANGE key - + on sessions of 1,000 and 100,000 events of some 400 bytes, {}\n",
        Server::version(&options.server)?
    );
    print_table(
        &[
            "filters",
            "found",
            "of 1,000",
            "of 100,000",
            "an event",
            "ms (not asserted)",
        ],
        &table,
    );
    Ok(())
}

/// Makes a session in which one event in ten changes the state.
fn session_of(events: usize) -> Pipeline {
    let key = session_key(0);
    let mut pipeline = Pipeline::default();
    pipeline.push([
        "SESSION.CREATE",
        &key,
        "LIMIT",
        "event-maxlen",
        "0",
        "LIMIT",
        "event-ttl",
        "0",
    ]);
    for number in 0..events {
        let texts = event_texts(number);
        let text = |at: usize| texts[at].1.as_str();
        let mut words = vec!["SESSION.EVENT", "ADD", &key, text(0), "AGENT", text(1), "ENTITIES", "2"];
        words.extend(text(2).split(' '));
        words.extend(["CHANGE", text(3), "IMPACT", text(4)]);
        if number % 10 == 0 {
            words.extend(["STATE", ["working", "pass", "broke", "review"][number / 10 % 4]]);
        }
        pipeline.push(words);
    }
    pipeline
}

fn side_by_side(snapshots: &[PathBuf], count: impl Fn(usize, &Path) -> Result<u64> + Sync) -> Result<Vec<u64>> {
    std::thread::scope(|scope| {
        let count = &count;
        let runs: Vec<_> = snapshots
            .iter()
            .enumerate()
            .map(|(size, snapshot)| scope.spawn(move || count(size, snapshot)))
            .collect();
        runs.into_iter()
            .map(|run| run.join().expect("a run does not panic"))
            .collect()
    })
}

fn words(query: &Query) -> Vec<String> {
    let key = session_key(0);
    ["SESSION.EVENT", "RANGE", &key, "-", "+"]
        .iter()
        .chain(query.words)
        .map(|word| (*word).to_owned())
        .collect()
}

/// Measures the instructions of one query. `before` is the count of a server that only loads the snapshot.
fn measure(query: &Query, snapshot: &Path, before: u64, options: &Options, module: &Path) -> Result<u64> {
    let times = if query.stops_early { STOPS } else { SCANS };
    let total = total_of_run(query, times, snapshot, &options.server, module)?;
    Ok(total.saturating_sub(before) / times as u64)
}

fn total_of_run(query: &Query, times: usize, snapshot: &Path, server: &[String], module: &Path) -> Result<u64> {
    let mut server = Server::start_counted_from(server, Some(module), Some(snapshot))?;
    server.wait_until_ready()?;
    let mut connection = server.connect()?;
    let send = |connection: &mut Connection| {
        let mut pipeline = Pipeline::default();
        for _ in 0..times {
            pipeline.push(words(query));
        }
        connection.send(&pipeline)
    };
    match send(&mut connection) {
        Ok(()) => server.stop_and_count(connection),
        Err(error) => Err(server.complaint(&error.to_string())),
    }
}
