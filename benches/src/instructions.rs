//! Server instructions per command.
//!
//! The server runs under callgrind, once with 2,000 and once with 12,000 of the same pipelined commands; the difference of
//! the two totals, divided by 10,000, is what one command costs. Starting, stopping and filling the keys are in both runs and
//! cancel out. The figure does not depend on what else the machine is doing.

use crate::bodies::{session_key, Bodies, BODY_BYTES};
use crate::conversations::Dataset;
use crate::report::{grouped, print_table, Limit};
use crate::resp::{Connection, Pipeline, Reply};
use crate::server::Server;
use crate::{Options, Result};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;

const SHORT_RUN: usize = 2_000;
const LONG_RUN: usize = 12_000;
const WINDOW: usize = 20;
const MILLION: &str = "append-1000000";

/// A bounded list with metadata and expiry in one step, as a Lua script.
const SCRIPT: &str = "\
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], -20, -1)
redis.call('HSET', KEYS[2], 'last_activity', ARGV[2])
redis.call('HINCRBY', KEYS[2], 'query_count', 1)
redis.call('EXPIRE', KEYS[1], 604800)
redis.call('EXPIRE', KEYS[2], 604800)
return 1";

/// One command to measure.
struct Row {
    /// The id by which other rows refer to it.
    id: &'static str,
    name: String,
    /// The row whose cost this one is compared with.
    base: Option<&'static str>,
    setup: Pipeline,
    /// Sent before `setup`; its reply is an argument of the commands.
    script: Option<&'static str>,
    /// The numbers of commands in the two runs.
    runs: (usize, usize),
    /// A command with which another connection blocks before each of the commands.
    follower: Option<Vec<String>>,
    #[allow(clippy::type_complexity)]
    command: Box<dyn Fn(&mut Pipeline, usize, &str) + Sync>,
}

impl Row {
    fn is_the_modules(&self) -> bool {
        self.name.starts_with("SESSION.")
    }
}

pub fn run(options: &Options) -> Result<Vec<Limit>> {
    let mut rows = rows(options.quick);
    rows.retain(|row| options.module.is_some() || !row.is_the_modules());
    if let Some(text) = &options.only {
        // Includes the rows that the chosen ones are compared with.
        let chosen = |row: &Row| row.name.contains(text.as_str());
        let bases: Vec<_> = rows
            .iter()
            .filter(|row| chosen(row))
            .filter_map(|row| row.base)
            .collect();
        rows.retain(|row| chosen(row) || bases.contains(&row.id));
    }

    let progress = std::io::stderr().is_terminal();
    let mut measured = BTreeMap::new();
    let mut table = Vec::new();
    for row in &rows {
        if progress {
            eprint!("\r\x1b[K{} …", row.name);
        }
        // Redis's own commands are measured without the module, whose loading must not make them more expensive.
        let module = options.module.as_deref().filter(|_| row.is_the_modules());
        let cost = measure(row, options, module).map_err(|error| format!("{}: {error}", row.name))?;
        measured.insert(row.id, cost);
        let ratio = row
            .base
            .and_then(|base| Some((base, cost as f64 / *measured.get(base)? as f64)));
        table.push(vec![
            row.name.clone(),
            grouped(cost),
            ratio.map_or(String::new(), |(_, ratio)| format!("{ratio:.2}")),
            ratio.map_or(String::new(), |(base, _)| {
                rows.iter()
                    .find(|row| row.id == base)
                    .map_or("", |row| &row.name)
                    .to_owned()
            }),
        ]);
    }
    if progress {
        eprint!("\r\x1b[K");
    }

    println!(
        "Server instructions per command, JSON messages of {BODY_BYTES} bytes, {}\n",
        Server::version(&options.server)?
    );
    print_table(&["command", "instructions", "ratio", "to"], &table);
    Ok(limits(&measured))
}

fn limits(measured: &BTreeMap<&str, u64>) -> Vec<Limit> {
    let ratio = |id: &str, base: &str| Some(*measured.get(id)? as f64 / *measured.get(base)? as f64);
    let mut limits = Vec::new();
    let mut at_most = |what: &str, value: Option<f64>, bound: f64| {
        limits.extend(value.map(|value| Limit::at_most(what, value, bound)))
    };
    at_most(
        "APPEND to a full window / RPUSH, one body",
        ratio("append-constant", "rpush-constant"),
        1.6,
    );
    at_most(
        "APPEND to a full window / RPUSH, varied bodies",
        ratio("append", "rpush"),
        1.6,
    );
    at_most(
        "APPEND to a full window / the script",
        ratio("append", "script"),
        1.0 / 7.0,
    );
    for (what, id, base) in [
        ("EVENT ADD / XADD of the same bytes", "event", "xadd-event"),
        (
            "EVENT ADD of a type alone / XADD of the same bytes",
            "event-type",
            "xadd-type",
        ),
        ("ENTITY MENTION / XADD of the same bytes", "mention", "xadd-mention"),
        (
            "ENTITY MENTION of an id alone / XADD of the same bytes",
            "mention-id",
            "xadd-id",
        ),
    ] {
        at_most(what, ratio(id, base), 1.6);
    }
    at_most(
        "EVENT ADD that wakes a READ / XADD that wakes an XREAD",
        ratio("event-wake", "xadd-wake"),
        1.0,
    );
    for (what, id, base) in [
        (
            "CHECKPOINT of 100,000 messages / of 100",
            "checkpoint-100000",
            "checkpoint-100",
        ),
        ("FORK of 100,000 messages / of 100", "fork-100000", "fork-100"),
    ] {
        at_most(what, ratio(id, base), 20.0);
    }
    at_most("RANGE of 20 messages / LRANGE", ratio("range", "lrange"), 1.1);
    at_most("GET of 20 messages / LRANGE", ratio("get", "lrange"), 2.0);
    at_most(
        "MIGRATE of 10,000 messages / LRANGE",
        ratio("migrate-list", "lrange-list"),
        8.0,
    );
    for (what, id) in [("10,000", "append-10000"), ("1,000,000", MILLION)] {
        if let Some(value) = ratio(id, "append-100") {
            let what = format!("APPEND to {what} messages / to 100");
            limits.push(Limit {
                at_least: 0.9,
                ..Limit::at_most(what, value, 1.1)
            });
        }
    }
    limits
}

/// Measures instructions per command. The two runs execute in parallel: nothing here depends on time.
///
/// Each server seeds its hash tables at random. Whether two command names share a bucket is chance and costs some 80
/// instructions, so the minimum of a few runs is taken.
fn measure(row: &Row, options: &Options, module: Option<&Path>) -> Result<u64> {
    let total = |commands| total_of_run(row, commands, &options.server, module);
    let (short_run, long_run) = row.runs;
    let (mut least_short, mut least_long) = (u64::MAX, u64::MAX);
    // Filling the largest session takes longer than all the rest, and its limit of 10 % is far wider than this variation.
    let repeat = if row.id == MILLION { 1 } else { options.repeat };
    for _ in 0..repeat {
        let (short, long) = std::thread::scope(|scope| {
            let short = scope.spawn(|| total(short_run));
            let long = total(long_run);
            (short.join().expect("a run does not panic"), long)
        });
        least_short = least_short.min(short?);
        least_long = least_long.min(long?);
    }
    Ok(least_long.saturating_sub(least_short) / (long_run - short_run) as u64)
}

fn total_of_run(row: &Row, commands: usize, server: &[String], module: Option<&Path>) -> Result<u64> {
    let mut server = Server::start_counted(server, module)?;
    let mut connection = server.connect()?;
    let sent = match &row.follower {
        None => send(row, commands, &mut connection),
        Some(follower) => {
            let mut waiting = server.connect()?;
            send_followed(row, commands, &mut connection, follower, &mut waiting)
        }
    };
    match sent {
        Ok(()) => server.stop_and_count(connection),
        Err(error) => Err(server.complaint(&error.to_string())),
    }
}

fn send(row: &Row, commands: usize, connection: &mut Connection) -> std::io::Result<()> {
    let mut sha = String::new();
    if let Some(script) = row.script {
        if let Reply::Text(text) = connection.call(["SCRIPT", "LOAD", script])? {
            sha = text;
        }
    }
    connection.send(&row.setup)?;
    let mut pipeline = Pipeline::default();
    for number in 0..commands {
        (row.command)(&mut pipeline, number, &sha);
    }
    connection.send(&pipeline)
}

/// Sends commands that each wake a follower. The reply to `PING` proves that the follower is blocked: its bytes were sent before.
fn send_followed(
    row: &Row,
    commands: usize,
    connection: &mut Connection,
    follower: &[String],
    waiting: &mut Connection,
) -> std::io::Result<()> {
    connection.send(&row.setup)?;
    let mut follow = Pipeline::default();
    follow.push(follower);
    for number in 0..commands {
        waiting.write(&follow)?;
        connection.call(["PING"])?;
        let mut pipeline = Pipeline::default();
        (row.command)(&mut pipeline, number, "");
        connection.send_together(&pipeline)?;
        waiting.read()?;
    }
    Ok(())
}

/// Message numbers of the setup, different from those of the measured commands.
const SETUP_NUMBERS: usize = 20_000;

fn rows(quick: bool) -> Vec<Row> {
    use Bodies::{Constant, Varied};
    let key = session_key(0);
    let mut rows = Vec::new();

    rows.push(simple("ping", "PING", None, vec!["PING".into()]));

    let push = |id, name: &str, base, bodies: Bodies| {
        let key = key.clone();
        let command =
            move |pipeline: &mut Pipeline, number, _: &str| pipeline.push(["RPUSH", &key, &bodies.json(number)]);
        row(id, name, base, command)
    };
    rows.push(push("rpush-constant", "RPUSH, one body", None, Constant));
    rows.push(push("rpush", "RPUSH", None, Varied));

    let (messages_key, key_for_script) = (format!("{key}:messages"), key.clone());
    let script = move |pipeline: &mut Pipeline, number, sha: &str| {
        let (body, now) = (Varied.json(number), (1_768_384_800_000 + number).to_string());
        pipeline.push(["EVALSHA", sha, "2", &messages_key, &key_for_script, &body, &now]);
    };
    rows.push(Row {
        script: Some(SCRIPT),
        ..row(
            "script",
            "EVALSHA of RPUSH LTRIM HSET HINCRBY 2×EXPIRE",
            Some("rpush"),
            script,
        )
    });

    let key_for_stream = key.clone();
    let add = move |pipeline: &mut Pipeline, number, _: &str| {
        pipeline.push([
            "XADD",
            &key_for_stream,
            "MAXLEN",
            "~",
            "20",
            "*",
            "m",
            &Varied.json(number),
        ]);
    };
    rows.push(row("xadd", "XADD MAXLEN ~ 20", Some("rpush"), add));

    // The window is full before the first command counts.
    let append = |id, name: &str, base, bodies: Bodies| {
        let session = key.clone();
        let command = move |pipeline: &mut Pipeline, number, _: &str| {
            pipeline.push(["SESSION.APPEND", &session, "JSON", &bodies.json(number)])
        };
        Row {
            setup: full_window(&key),
            ..row(id, name, base, command)
        }
    };
    rows.push(append(
        "append-constant",
        "SESSION.APPEND JSON, window 20, one body",
        Some("rpush-constant"),
        Constant,
    ));
    rows.push(append(
        "append",
        "SESSION.APPEND JSON, window 20",
        Some("rpush"),
        Varied,
    ));

    let session = key.clone();
    let msg = move |pipeline: &mut Pipeline, number, _: &str| {
        let (role, content) = Varied.role_and_content(number);
        pipeline.push(["SESSION.APPEND", &session, "MSG", role, &content]);
    };
    rows.push(Row {
        setup: full_window(&key),
        ..row("append-msg", "SESSION.APPEND MSG, window 20", Some("rpush"), msg)
    });

    let session = key.clone();
    let dedup = move |pipeline: &mut Pipeline, number, _: &str| {
        let token = format!("request-{number:08}");
        pipeline.push([
            "SESSION.APPEND",
            &session,
            "DEDUP",
            &token,
            "JSON",
            &Varied.json(number),
        ]);
    };
    rows.push(Row {
        setup: full_window(&key),
        ..row(
            "append-dedup",
            "SESSION.APPEND DEDUP JSON, window 20",
            Some("rpush"),
            dedup,
        )
    });

    let session = key.clone();
    let tools = move |pipeline: &mut Pipeline, number, _: &str| {
        pipeline.push(["SESSION.APPEND", &session, "JSON", &tool_body(number)]);
    };
    rows.push(Row {
        setup: full_window(&key),
        ..row(
            "append-tools",
            "SESSION.APPEND JSON, window 20, calls and answers",
            Some("rpush"),
            tools,
        )
    });

    rows.extend(recording(&key));
    rows.extend(snapshots(&key));

    // "Holding 100" must stay true for 12,000 appends: they go to 600 sessions in turn, none of which grows by more than 20.
    // Their sizes are staggered, so that filling and sealing a chunk falls evenly on the measured commands.
    let session_at = |number: usize| session_key(1 + number % 600);
    let mut hundred = Pipeline::default();
    for index in 0..600 {
        unbounded(&mut hundred, &session_at(index), 90 + index % 20);
    }
    let command = move |pipeline: &mut Pipeline, number, _: &str| {
        pipeline.push(["SESSION.APPEND", &session_at(number), "JSON", &Varied.json(number)]);
    };
    rows.push(Row {
        setup: hundred,
        ..row(
            "append-100",
            "SESSION.APPEND JSON, no window, 100 messages",
            Some("rpush"),
            command,
        )
    });

    for (id, name, messages) in [
        (
            "append-10000",
            "SESSION.APPEND JSON, no window, 10,000 messages",
            10_000,
        ),
        (MILLION, "SESSION.APPEND JSON, no window, 1,000,000 messages", 1_000_000),
    ] {
        if quick && messages > 10_000 {
            continue;
        }
        let mut setup = Pipeline::default();
        unbounded(&mut setup, &key, messages);
        rows.push(Row {
            setup,
            ..append(id, name, Some("rpush"), Varied)
        });
    }

    let mut list = Pipeline::default();
    for number in 0..WINDOW {
        list.push(["RPUSH", &key, &Varied.json(SETUP_NUMBERS + number)]);
    }
    rows.push(Row {
        setup: list,
        ..simple(
            "lrange",
            "LRANGE 0 -1 of 20 messages",
            None,
            vec!["LRANGE".into(), key.clone(), "0".into(), "-1".into()],
        )
    });
    rows.extend(migrating());

    let mut list = Pipeline::default();
    list.push(["RPUSH", &key, &Varied.json(0)]);
    rows.push(Row {
        setup: list,
        ..simple("llen", "LLEN", None, vec!["LLEN".into(), key.clone()])
    });

    for (id, name, base, command) in [
        (
            "range",
            "SESSION.RANGE 0 -1 of 20 messages",
            "lrange",
            vec!["SESSION.RANGE".to_owned(), key.clone(), "0".into(), "-1".into()],
        ),
        (
            "get",
            "SESSION.GET of 20 messages",
            "lrange",
            vec!["SESSION.GET".to_owned(), key.clone()],
        ),
        (
            "context",
            "SESSION.CONTEXT of 20 messages",
            "lrange",
            vec!["SESSION.CONTEXT".to_owned(), key.clone()],
        ),
        (
            "len",
            "SESSION.LEN",
            "llen",
            vec!["SESSION.LEN".to_owned(), key.clone()],
        ),
        (
            "info",
            "SESSION.INFO",
            "llen",
            vec!["SESSION.INFO".to_owned(), key.clone()],
        ),
    ] {
        rows.push(Row {
            setup: full_window(&key),
            ..simple(id, name, Some(base), command)
        });
    }
    rows
}

/// Checkpoints and forks of a short and a long session. Each drops the oldest checkpoint or the fork before, so the figure includes
/// dropping.
fn snapshots(key: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (ids, messages) in [
        (["checkpoint-100", "fork-100"], 100),
        (["checkpoint-100000", "fork-100000"], 100_000),
    ] {
        let words = [
            ["SESSION.CHECKPOINT", "CREATE", key].map(str::to_owned).to_vec(),
            ["SESSION.FORK", key, "fork", "REPLACE"].map(str::to_owned).to_vec(),
        ];
        for (i, command) in words.into_iter().enumerate() {
            let base = (messages > 100).then_some(["checkpoint-100", "fork-100"][i]);
            let name = format!("{} of {} messages", command[0], grouped(messages));
            let mut setup = Pipeline::default();
            unbounded(&mut setup, key, messages as usize);
            rows.push(Row {
                setup,
                ..simple(ids[i], &name, base, command)
            });
        }
    }
    rows
}

/// Lengths of the lists of messages to migrate, each once, and to read as often: a few are enough for such expensive commands.
const MIGRATED: usize = 10_000;
const MIGRATIONS: (usize, usize) = (1, 5);

fn migrating() -> Vec<Row> {
    let conversations = match Dataset::load(false) {
        Ok(dataset) => dataset.conversations,
        Err(_) => return Vec::new(),
    };
    let bodies: Vec<&String> = conversations.iter().flatten().cycle().take(MIGRATED).collect();
    let list_key = |number: usize| session_key(1 + number);
    let filled = || {
        let mut setup = Pipeline::default();
        for batch in bodies.chunks(1_000) {
            let words = ["RPUSH".to_owned(), list_key(0)];
            setup.push(words.iter().chain(batch.iter().copied()));
        }
        for number in 1..MIGRATIONS.1 {
            setup.push(["COPY", &list_key(0), &list_key(number)]);
        }
        setup
    };
    vec![
        Row {
            setup: filled(),
            runs: MIGRATIONS,
            ..row(
                "lrange-list",
                "LRANGE 0 -1 of 10,000 messages",
                None,
                move |pipeline, number, _| pipeline.push(["LRANGE", &list_key(number), "0", "-1"]),
            )
        },
        Row {
            setup: filled(),
            runs: MIGRATIONS,
            ..row(
                "migrate-list",
                "SESSION.MIGRATE of 10,000 messages",
                Some("lrange-list"),
                move |pipeline, number, _| pipeline.push(["SESSION.MIGRATE", &list_key(number)]),
            )
        },
    ]
}

/// The number of events that a session keeps by default, and the length of the streams they are compared with.
const KEPT: &str = "1000";

/// The frequent writes of agents, each compared with `XADD` of the same texts as field values. Session and stream are full, so the cost
/// includes trimming.
fn recording(key: &str) -> Vec<Row> {
    let filled = |command: &dyn Fn(&mut Pipeline, usize)| {
        let mut setup = Pipeline::default();
        for number in 0..1_500 {
            command(&mut setup, SETUP_NUMBERS + number);
        }
        setup
    };
    let mut rows = Vec::new();
    let mut pair =
        |ids: [&'static str; 2], names: [&str; 2], texts: fn(usize) -> Texts, ours: fn(&Texts) -> Vec<&str>| {
            let stream = key.to_owned();
            let add = move |pipeline: &mut Pipeline, number: usize| {
                let texts = texts(number);
                let mut words = vec!["XADD", &stream, "MAXLEN", "~", KEPT, "*"];
                words.extend(texts.iter().flat_map(|(name, text)| [*name, text.as_str()]));
                pipeline.push(words);
            };
            let setup = filled(&add);
            let follower = (ids[0] == "xadd-wake")
                .then(|| ["XREAD", "BLOCK", "0", "STREAMS", key, "$"].map(str::to_owned).to_vec());
            rows.push(Row {
                follower,
                setup,
                ..row(ids[0], names[0], None, move |pipeline, number, _| add(pipeline, number))
            });
            let session = key.to_owned();
            let record = move |pipeline: &mut Pipeline, number: usize| {
                let texts = texts(number);
                let words = ours(&texts);
                pipeline.push(
                    [words[0], words[1], &session]
                        .into_iter()
                        .chain(words[2..].iter().copied()),
                );
            };
            let setup = filled(&record);
            let follower =
                (ids[0] == "xadd-wake").then(|| ["SESSION.READ", key, "$", "BLOCK", "0"].map(str::to_owned).to_vec());
            rows.push(Row {
                follower,
                setup,
                ..row(ids[1], names[1], Some(ids[0]), move |pipeline, number, _| {
                    record(pipeline, number)
                })
            });
        };
    pair(
        ["xadd-event", "event"],
        [
            "XADD MAXLEN ~ 1000 of an event",
            "SESSION.EVENT ADD, the newest 1000 kept",
        ],
        event_texts,
        event_words,
    );
    pair(
        ["xadd-wake", "event-wake"],
        [
            "XADD of an event that wakes an XREAD, both and a PING",
            "SESSION.EVENT ADD that wakes a READ, both and a PING",
        ],
        event_texts,
        event_words,
    );
    pair(
        ["xadd-type", "event-type"],
        [
            "XADD MAXLEN ~ 1000 of a type",
            "SESSION.EVENT ADD of a type, the newest 1000 kept",
        ],
        |_| vec![("type", "pass".to_owned())],
        |texts| vec!["SESSION.EVENT", "ADD", &texts[0].1],
    );
    pair(
        ["xadd-mention", "mention"],
        [
            "XADD MAXLEN ~ 1000 of a mention",
            "SESSION.ENTITY MENTION ID NAME TYPE, 100 known",
        ],
        mention_texts,
        |texts| {
            vec![
                "SESSION.ENTITY",
                "MENTION",
                "ID",
                &texts[0].1,
                "NAME",
                &texts[1].1,
                "TYPE",
                &texts[2].1,
            ]
        },
    );
    pair(
        ["xadd-id", "mention-id"],
        ["XADD MAXLEN ~ 1000 of an id", "SESSION.ENTITY MENTION ID, 100 known"],
        |number| mention_texts(number).drain(..1).collect(),
        |texts| vec!["SESSION.ENTITY", "MENTION", "ID", &texts[0].1],
    );
    rows
}

fn event_words(texts: &Texts) -> Vec<&str> {
    let text = |at: usize| texts[at].1.as_str();
    let mut words = vec!["SESSION.EVENT", "ADD", text(0), "AGENT", text(1), "ENTITIES", "2"];
    words.extend(text(2).split(' '));
    words.extend(["CHANGE", text(3), "IMPACT", text(4)]);
    words
}

/// Field names and texts.
pub type Texts = Vec<(&'static str, String)>;

/// Returns an event whose texts have `BODY_BYTES` together: a type, an agent, two entities, change and impact.
pub fn event_texts(number: usize) -> Texts {
    let mut any = crate::bodies::Sequence::seeded(number as u64);
    let kind = ["modified", "pass", "broke", "reviewed"][any.below(4)];
    let agent = format!("agent-{:02}", any.below(20));
    let entities = format!("module-{:03} test-{:03}", any.below(200), any.below(200));
    let impact = format!(
        r#"{{"perfDelta":-{}.{},"tests":{{"passed":{},"failed":{}}}}}"#,
        any.below(9),
        any.below(10),
        100 + any.below(900),
        any.below(10)
    );
    let before = r#"{"summary":""#;
    let after = format!(r#"","lines":{}}}"#, 100 + any.below(900));
    let others = kind.len() + agent.len() + entities.len() + impact.len() + before.len() + after.len();
    let change = format!("{before}{}{after}", any.text(BODY_BYTES - others));
    vec![
        ("type", kind.to_owned()),
        ("agent", agent),
        ("entities", entities),
        ("change", change),
        ("impact", impact),
    ]
}

/// One of a hundred entities: its id, name and type.
fn mention_texts(number: usize) -> Texts {
    let which = crate::bodies::Sequence::seeded(number as u64).below(100);
    vec![
        ("id", format!("customer:{which:06}")),
        ("name", format!("Customer Number {which}")),
        ("type", "person".to_owned()),
    ]
}

fn row(
    id: &'static str,
    name: &str,
    base: Option<&'static str>,
    command: impl Fn(&mut Pipeline, usize, &str) + Sync + 'static,
) -> Row {
    Row {
        id,
        name: name.to_owned(),
        base,
        setup: Pipeline::default(),
        script: None,
        runs: (SHORT_RUN, LONG_RUN),
        follower: None,
        command: Box::new(command),
    }
}

/// Makes a row that repeats one command.
fn simple(id: &'static str, name: &str, base: Option<&'static str>, command: Vec<String>) -> Row {
    row(id, name, base, move |pipeline, _, _| pipeline.push(&command))
}

/// Sets up a session with default settings and a full window.
fn full_window(key: &str) -> Pipeline {
    let mut setup = Pipeline::default();
    for number in 0..3 * WINDOW {
        setup.push([
            "SESSION.APPEND",
            key,
            "JSON",
            &Bodies::Varied.json(SETUP_NUMBERS + number),
        ]);
    }
    setup
}

/// Sets up a session without a window, with this many messages.
fn unbounded(setup: &mut Pipeline, key: &str, messages: usize) {
    setup.push(["SESSION.CREATE", key, "LIMIT", "maxlen", "0"]);
    let bodies: Vec<String> = (0..messages)
        .map(|number| Bodies::Varied.json(SETUP_NUMBERS + number))
        .collect();
    for batch in bodies.chunks(1_000) {
        setup.push(
            ["SESSION.APPEND", key, "JSON"]
                .into_iter()
                .chain(batch.iter().map(String::as_str)),
        );
    }
}

/// Alternates between a call and its answer, of the usual size.
fn tool_body(number: usize) -> String {
    let id = format!("call_{:08}", number / 2);
    let (before, after) = if number.is_multiple_of(2) {
        let before = format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"get_order","arguments":""#
        );
        (before, r#""}}]}"#)
    } else {
        (
            format!(r#"{{"role":"tool","tool_call_id":"{id}","name":"get_order","content":""#),
            r#""}"#,
        )
    };
    let text = crate::bodies::Sequence::seeded(number as u64).text(BODY_BYTES - before.len() - after.len());
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_bodies_have_the_size_and_answers_find_their_call() {
        for number in 0..100 {
            assert_eq!(tool_body(number).len(), BODY_BYTES);
        }
        let call: serde_json::Value = serde_json::from_str(&tool_body(6)).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&tool_body(7)).unwrap();
        assert_eq!(call["tool_calls"][0]["id"], answer["tool_call_id"]);
    }

    #[test]
    fn events_have_the_size() {
        for number in 0..100 {
            let texts = event_texts(number);
            assert_eq!(texts.iter().map(|(_, text)| text.len()).sum::<usize>(), BODY_BYTES);
            assert!(texts[3..]
                .iter()
                .all(|(_, text)| serde_json::from_str::<serde_json::Value>(text).is_ok()));
        }
    }

    #[test]
    fn every_base_is_measured_before_what_is_compared_with_it() {
        let rows = rows(true);
        for (index, row) in rows.iter().enumerate() {
            assert!(
                row.base
                    .is_none_or(|base| rows[..index].iter().any(|earlier| earlier.id == base)),
                "{}",
                row.name
            );
        }
    }
}
