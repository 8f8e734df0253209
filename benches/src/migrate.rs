//! Measures the bulk tool: messages per second, compared with a client that reads each list and appends it to a session, and how long other
//! clients wait meanwhile. Wall times: compare them only with each other, never assert them.

use crate::bodies::Bodies;
use crate::report::{grouped, print_table};
use crate::resp::{read_value, Connection, Pipeline, Value};
use crate::server::Server;
use crate::{Options, Result};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LISTS: usize = 5_000;
const MESSAGES_OF_A_LIST: usize = 20;
const MESSAGES: usize = LISTS * MESSAGES_OF_A_LIST;
const ROUNDS: usize = 3;
/// Number of lists that the client has in flight; the tool's default.
const IN_FLIGHT: usize = 32;
/// Lengths of a single list.
const LENGTHS: [usize; 5] = [1_000, 10_000, 50_000, 100_000, 1_000_000];

pub fn run(options: &Options) -> Result<()> {
    let module = options.module.as_deref().ok_or("migrate needs the module")?;
    let tool = tool_path()?;
    let mut server = Server::start(&options.server, Some(module))?;
    let mut connection = server.connect()?;
    let socket = server.folder().join("socket");

    let (mut by_tool, mut by_client) = ((Duration::MAX, Duration::ZERO), (Duration::MAX, Duration::ZERO));
    for _ in 0..ROUNDS {
        fill(&mut connection)?;
        let done = watched(&socket, || walk(&tool, &socket))?;
        check(&mut connection)?;
        by_tool = by_tool.min(done);
        fill(&mut connection)?;
        let done = watched(&socket, || client(&socket))?;
        check(&mut connection)?;
        by_client = by_client.min(done);
    }
    let per_second = |(took, _): (Duration, Duration)| (MESSAGES as f64 / took.as_secs_f64()) as u64;
    let row = |name: &str, done: (Duration, Duration)| {
        let wait = format!("{:.1} ms", done.1.as_secs_f64() * 1e3);
        vec![name.to_owned(), grouped(per_second(done)), wait]
    };
    println!(
        "{} lists of {MESSAGES_OF_A_LIST} messages become sessions, best of {ROUNDS} rounds (not asserted)\n",
        grouped(LISTS as u64)
    );
    let rows = [
        row("redis-session migrate, whole process", by_tool),
        row("a pipelined client: LRANGE, SESSION.APPEND, DEL", by_client),
    ];
    print_table(&["", "messages per second", "longest wait of a PING"], &rows);
    println!(
        "\nratio: {:.2}\n",
        per_second(by_tool) as f64 / per_second(by_client) as f64
    );

    let mut rows = Vec::new();
    for length in LENGTHS {
        rows.push(one_list(&mut connection, length)?);
    }
    println!("One list, for as long as nobody else is served\n");
    print_table(&["messages", "LRANGE", "SESSION.MIGRATE", "ratio"], &rows);
    Ok(())
}

/// Returns the tool that was built with this program.
fn tool_path() -> Result<PathBuf> {
    let path = match std::env::var_os("CLI_PATH") {
        Some(path) => path.into(),
        None => std::env::current_exe()?.with_file_name("redis-session"),
    };
    match path.exists() {
        true => Ok(path),
        false => Err(format!(
            "there is no {}: cargo build --release -p redis-session-cli",
            path.display()
        )
        .into()),
    }
}

fn list_key(number: usize) -> String {
    format!("session:{number}:messages")
}

fn fill(connection: &mut Connection) -> Result<()> {
    connection.call(["FLUSHALL"])?;
    let mut pipeline = Pipeline::default();
    for number in 0..LISTS {
        let bodies = (0..MESSAGES_OF_A_LIST).map(|place| Bodies::Varied.json(number * MESSAGES_OF_A_LIST + place));
        pipeline.push(["RPUSH".to_owned(), list_key(number)].into_iter().chain(bodies));
    }
    connection.send(&pipeline)?;
    Ok(())
}

/// Checks that everything was migrated.
fn check(connection: &mut Connection) -> Result<()> {
    let sessions = connection.info("session", "session_active_sessions")?;
    let messages = connection.info("session", "session_messages")?;
    match (sessions.parse(), messages.parse()) {
        (Ok(LISTS), Ok(MESSAGES)) => Ok(()),
        _ => Err(format!("{sessions} sessions and {messages} messages are there").into()),
    }
}

/// Measures how long `work` takes, and the longest time that a PING waited meanwhile.
fn watched(socket: &Path, work: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    let is_over = AtomicBool::new(false);
    let mut prober = Connection::open(socket)?;
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let began = Instant::now();
                if prober.call(["PING"]).is_err() {
                    break;
                }
                longest = longest.max(began.elapsed());
                std::thread::sleep(Duration::from_micros(500));
            }
            longest
        });
        let began = Instant::now();
        let done = work();
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let longest = probe.join().map_err(|_| "the prober failed")?;
        done.map(|()| (took, longest))
    })
}

fn walk(tool: &Path, socket: &Path) -> Result<()> {
    let status = Command::new(tool)
        .arg("-s")
        .arg(socket)
        .args(["migrate", "--strict"])
        .env_remove("REDISCLI_AUTH")
        .stdout(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the tool ended with {status}").into()),
    }
}

/// Migrates as one would without the tool: with a bounded number of lists in flight that are read, appended and deleted.
fn client(socket: &Path) -> Result<()> {
    let mut writer = UnixStream::connect(socket)?;
    let mut reader = BufReader::with_capacity(256 * 1024, writer.try_clone()?);
    for numbers in (0..LISTS).collect::<Vec<_>>().chunks(IN_FLIGHT) {
        let mut reads = Pipeline::default();
        for number in numbers {
            reads.push(["LRANGE", &list_key(*number), "0", "-1"]);
        }
        writer.write_all(reads.bytes())?;
        let mut writes = Pipeline::default();
        for number in numbers {
            let Value::Array(bodies) = read_value(&mut reader)? else {
                return Err("LRANGE replied no array".into());
            };
            let mut words = vec![b"SESSION.APPEND".to_vec(), format!("session:{number}").into_bytes()];
            words.extend(["MAXLEN", "0", "JSON"].map(|word| word.as_bytes().to_vec()));
            words.extend(bodies.into_iter().filter_map(|body| match body {
                Value::Bulk(body) => Some(body),
                _ => None,
            }));
            writes.push(words);
            writes.push(["DEL".to_owned(), list_key(*number)]);
        }
        writer.write_all(writes.bytes())?;
        for _ in 0..2 * numbers.len() {
            read_value(&mut reader)?;
        }
    }
    Ok(())
}

fn one_list(connection: &mut Connection, length: usize) -> Result<Vec<String>> {
    let (mut read, mut migrated) = (Duration::MAX, Duration::MAX);
    for _ in 0..if length < 500_000 { 5 } else { 2 } {
        connection.call(["FLUSHALL"])?;
        let mut pipeline = Pipeline::default();
        for begin in (0..length).step_by(1000) {
            let bodies = (begin..length.min(begin + 1000)).map(|number| Bodies::Varied.json(number));
            pipeline.push(["RPUSH".to_owned(), "long".to_owned()].into_iter().chain(bodies));
        }
        connection.send(&pipeline)?;
        let began = Instant::now();
        connection.call(["LRANGE", "long", "0", "-1"])?;
        read = read.min(began.elapsed());
        let began = Instant::now();
        connection.call(["SESSION.MIGRATE", "long"])?;
        migrated = migrated.min(began.elapsed());
    }
    let ms = |duration: Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
    Ok(vec![
        grouped(length as u64),
        ms(read),
        ms(migrated),
        format!("{:.1}", migrated.as_secs_f64() / read.as_secs_f64()),
    ])
}
