//! A hundred agents on one session, each recording events and following those of the others; and the same on plain Streams with pub/sub.
//!
//! An agent has two connections: one adds an event at each tick and waits for the reply, the other is blocked in a read until there is
//! something new. A dashboard subscribes to what is published. Latencies are measured by the agents: of an add until its reply, of a
//! delivery from before the add was sent until another agent has the event. These are wall times: compare them only with each other.

use crate::bodies::session_key;
use crate::instructions::event_texts;
use crate::report::{grouped, print_table};
use crate::resp::{read_value, Connection, Pipeline, Value};
use crate::server::Server;
use crate::{Options, Result};
use std::io::{BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const AGENTS: usize = 100;
/// The time-out of a read, in milliseconds.
const BLOCK: &str = "1000";

type IoResult<T> = std::io::Result<T>;

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Session,
    Streams,
}

/// The measurements of one thread.
#[derive(Default)]
struct Seen {
    adds_us: Vec<u32>,
    deliveries_us: Vec<u32>,
    /// Number of gaps that the session reported, where events were dropped before they were read; Streams report none.
    gaps: u64,
    published: u64,
}

struct Run {
    side: Side,
    socket: PathBuf,
    key: String,
    began: Instant,
    until: Instant,
    every: Duration,
}

pub fn run(options: &Options) -> Result<()> {
    let module = options.module.as_deref().ok_or("agents needs the module")?;
    let mut server = Server::start(&options.server, Some(module))?;
    let mut connection = server.connect()?;
    let socket = server.folder().join("socket");
    let reads = connection.call(["SESSION.READ", "nothing", "0", "EVENTS"]).is_ok();
    if !reads {
        eprintln!("this module has no SESSION.READ: only the Streams are measured");
    }
    let mut table = Vec::new();
    for (side, name) in [
        (Side::Session, "SESSION.EVENT ADD, SESSION.READ BLOCK"),
        (Side::Streams, "XADD MAXLEN ~ 1000 + PUBLISH, XREAD BLOCK"),
    ] {
        if side == Side::Session && !reads {
            continue;
        }
        let mut seen = measure(side, &socket, options)?;
        seen.adds_us.sort_unstable();
        seen.deliveries_us.sort_unstable();
        let per_second = |count: usize| grouped((count as f64 / options.seconds as f64) as u64);
        table.push(vec![
            name.to_owned(),
            per_second(seen.adds_us.len()),
            per_second(seen.deliveries_us.len()),
            ms(&seen.adds_us, 50),
            ms(&seen.adds_us, 99),
            ms(&seen.deliveries_us, 50),
            ms(&seen.deliveries_us, 99),
            grouped(seen.published),
            match side {
                Side::Session => grouped(seen.gaps),
                Side::Streams => "?".to_owned(),
            },
        ]);
    }
    let pace = match options.every_ms {
        0 => "as soon as the last is answered".to_owned(),
        ms => format!("every {ms} ms"),
    };
    println!(
        "{AGENTS} agents for {} s, each adding an event {pace} and following the others, {} (not asserted)\n",
        options.seconds,
        Server::version(&options.server)?
    );
    print_table(
        &[
            "",
            "events/s",
            "deliveries/s",
            "add p50 ms",
            "p99",
            "delivery p50 ms",
            "p99",
            "published",
            "gaps",
        ],
        &table,
    );
    Ok(())
}

fn measure(side: Side, socket: &Path, options: &Options) -> Result<Seen> {
    let began = Instant::now();
    let run = Run {
        side,
        socket: socket.to_owned(),
        key: session_key(side as usize),
        began,
        until: began + Duration::from_secs(options.seconds),
        every: Duration::from_millis(options.every_ms),
    };
    let mut all = Seen::default();
    // Adds begin only after all followers have connected.
    let everybody_follows = Barrier::new(2 * AGENTS + 1);
    std::thread::scope(|scope| {
        let (run, ready) = (&run, &everybody_follows);
        let mut threads = vec![scope.spawn(move || watch(run, ready))];
        for agent in 0..AGENTS {
            threads.push(scope.spawn(move || add(run, agent, ready)));
            threads.push(scope.spawn(move || follow(run, agent, ready)));
        }
        for thread in threads {
            let seen = thread.join().expect("an agent does not panic")?;
            all.adds_us.extend(seen.adds_us);
            all.deliveries_us.extend(seen.deliveries_us);
            all.gaps += seen.gaps;
            all.published += seen.published;
        }
        Ok::<(), std::io::Error>(())
    })?;
    Ok(all)
}

/// Adds an event at each tick; all agents' ticks are spread over the interval.
fn add(run: &Run, agent: usize, ready: &Barrier) -> IoResult<Seen> {
    let mut connection = Connection::open(&run.socket)?;
    ready.wait();
    let mut seen = Seen::default();
    let mut next = Instant::now() + run.every * agent as u32 / AGENTS as u32;
    let mut number = agent;
    while next < run.until {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let mut texts = event_texts(number);
        texts[1].1 = name_of(agent);
        let sent_us = (sent - run.began).as_micros();
        texts[3].1 = format!(r#"{{"by":{agent},"sent_us":{sent_us},{}"#, &texts[3].1[1..]);
        connection.send_together(&commands(run, &texts))?;
        seen.adds_us.push(sent.elapsed().as_micros() as u32);
        number += AGENTS;
        // A late tick is not made up for: the agent was waiting for its reply.
        next = (next + run.every).max(Instant::now());
    }
    Ok(seen)
}

fn commands(run: &Run, texts: &[(&str, String)]) -> Pipeline {
    let text = |at: usize| texts[at].1.as_str();
    let mut pipeline = Pipeline::default();
    match run.side {
        Side::Session => {
            let mut words = vec!["SESSION.EVENT", "ADD", &run.key, text(0), "AGENT", text(1)];
            words.extend(["ENTITIES", "2"]);
            words.extend(text(2).split(' '));
            words.extend(["CHANGE", text(3), "IMPACT", text(4)]);
            pipeline.push(words);
        }
        Side::Streams => {
            let mut words = vec!["XADD", &run.key, "MAXLEN", "~", "1000", "*"];
            words.extend(texts.iter().flat_map(|(name, text)| [*name, text.as_str()]));
            pipeline.push(words);
            let payload = format!(
                r#"{{"key":"{}","kind":"event","type":"{}","agentId":"{}"}}"#,
                run.key,
                text(0),
                text(1)
            );
            pipeline.push(["PUBLISH", &channel(run), &payload]);
        }
    }
    pipeline
}

/// Reads new events until no more can come.
fn follow(run: &Run, agent: usize, ready: &Barrier) -> IoResult<Seen> {
    let mut writer = UnixStream::connect(&run.socket)?;
    let mut reader = BufReader::with_capacity(256 * 1024, writer.try_clone()?);
    ready.wait();
    let mut seen = Seen::default();
    let (mut last, mut last_seq) = ("0".to_owned(), 0);
    loop {
        let mut pipeline = Pipeline::default();
        match run.side {
            Side::Session => pipeline.push(["SESSION.READ", &run.key, &last, "BLOCK", BLOCK, "EVENTS"]),
            Side::Streams => pipeline.push(["XREAD", "BLOCK", BLOCK, "STREAMS", &run.key, &last]),
        }
        writer.write_all(pipeline.bytes())?;
        let reply = read_value(&mut reader)?;
        let now_us = run.began.elapsed().as_micros() as u64;
        let entries = match (run.side, &reply) {
            // [[stream, entries]]
            (Side::Streams, Value::Array(streams)) => match streams.as_slice() {
                [Value::Array(stream)] => stream.last(),
                _ => None,
            },
            (Side::Session, entries) => Some(entries),
            _ => None,
        };
        let Some(Value::Array(entries)) = entries else {
            if Instant::now() > run.until {
                return Ok(seen);
            }
            continue;
        };
        for entry in entries {
            let Value::Array(parts) = entry else { continue };
            match parts.as_slice() {
                // [seq, ms, kind, json]
                [Value::Integer(seq), _, Value::Bulk(kind), Value::Bulk(json)] => {
                    // A gap comes first, with the seq of its end.
                    last_seq = last_seq.max(*seq);
                    last = last_seq.to_string();
                    match kind.as_slice() {
                        b"event" => delivered(&mut seen, json, agent, now_us),
                        _ => seen.gaps += 1,
                    }
                }
                // [id, [name, text, …]]
                [Value::Bulk(id), Value::Array(fields)] => {
                    last = String::from_utf8_lossy(id).into_owned();
                    let change = fields.chunks_exact(2).find_map(|pair| match pair {
                        [Value::Bulk(name), Value::Bulk(text)] if name == b"change" => Some(text),
                        _ => None,
                    });
                    if let Some(change) = change {
                        delivered(&mut seen, change, agent, now_us);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Records the delivery of an event, unless the agent added it itself.
fn delivered(seen: &mut Seen, json: &[u8], agent: usize, now_us: u64) {
    if let (Some(by), Some(sent_us)) = (number_behind(json, b"\"by\":"), number_behind(json, b"\"sent_us\":")) {
        if by != agent as u64 {
            seen.deliveries_us.push(now_us.saturating_sub(sent_us) as u32);
        }
    }
}

fn number_behind(text: &[u8], mark: &[u8]) -> Option<u64> {
    let at = text.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Counts the published messages.
fn watch(run: &Run, ready: &Barrier) -> IoResult<Seen> {
    let mut writer = UnixStream::connect(&run.socket)?;
    writer.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut reader = BufReader::new(writer.try_clone()?);
    let mut pipeline = Pipeline::default();
    pipeline.push(["SUBSCRIBE", &channel(run)]);
    writer.write_all(pipeline.bytes())?;
    read_value(&mut reader)?;
    ready.wait();
    let mut seen = Seen::default();
    loop {
        match read_value(&mut reader) {
            Ok(_) => seen.published += 1,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(error),
            Err(_) if Instant::now() > run.until => return Ok(seen),
            Err(_) => {}
        }
    }
}

fn channel(run: &Run) -> String {
    format!("__session@0__:{}", run.key)
}

fn name_of(agent: usize) -> String {
    format!("agent-{agent:02}")
}

/// Returns a percentile of sorted latencies in microseconds, as milliseconds.
fn ms(sorted_us: &[u32], percent: usize) -> String {
    match sorted_us.get((sorted_us.len() * percent / 100).min(sorted_us.len().saturating_sub(1))) {
        Some(us) => format!("{:.2}", f64::from(*us) / 1000.0),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_name() {
        let json = br#"{"changeInfo":{"by":7,"sent_us":1234567,"x":1}}"#;
        assert_eq!(number_behind(json, b"\"by\":"), Some(7));
        assert_eq!(number_behind(json, b"\"sent_us\":"), Some(1_234_567));
        assert_eq!(number_behind(json, b"\"y\":"), None);
    }

    #[test]
    fn percentiles_are_of_what_is_there() {
        let sorted: Vec<u32> = (1..=100).map(|us| us * 1000).collect();
        assert_eq!(
            (ms(&sorted, 50), ms(&sorted, 99), ms(&[], 99)),
            ("51.00".into(), "100.00".into(), "-".into())
        );
    }
}
