//! Measures what the client crate adds to the same command sent through redis-rs. Wall time, which is what a caller waits for: batches of
//! both alternate, so that a busy moment affects both, and the median of the ratios of all pairs of batches is reported.

use std::time::{Duration, Instant};

use redis_session_client::{
    AsyncSessionCommands, EventQuery, MessageQuery, NewEvent, NewMessage, ReadOptions, SessionCommands, SessionError,
};

use crate::bodies::Bodies;
use crate::report::{print_table, Limit};
use crate::server::Server;
use crate::{Options, Result};

const ROUNDS: usize = 200;
const CALLS_PER_BATCH: usize = 100;
const LIMIT: f64 = 1.05;

/// The medians of both times and of their ratios.
struct Row {
    name: String,
    raw_us: f64,
    client_us: f64,
    ratio: f64,
}

type Answer<T> = std::result::Result<T, SessionError>;

pub fn run(options: &Options) -> Result<Vec<Limit>> {
    let Some(module) = options.module.as_deref() else {
        return Err("client needs the module".into());
    };
    let mut server = Server::start(&options.server, Some(module))?;
    server.connect()?;
    let client = redis::Client::open(format!("unix://{}", server.socket().display()))?;
    let mut connection = client.get_connection()?;
    let bodies: Vec<String> = (0..20).map(|number| Bodies::Varied.json(number)).collect();
    for key in ["raw", "client", "read"] {
        connection.session_append(key, bodies.iter().map(String::as_str).collect::<Vec<_>>())?;
        for _ in 0..20 {
            connection.session_event_add(key, NewEvent::new("modified").agent("a").entity("e"))?;
        }
    }
    let text = "Where is my order? I would like to know by tomorrow, since I am leaving on Friday.";
    let body = Bodies::Varied.json(7);

    let mut rows = vec![
        measure(
            "APPEND MSG",
            &mut connection,
            |connection| {
                raw(
                    connection,
                    redis::cmd("SESSION.APPEND").arg("raw").arg("MSG").arg("user").arg(text),
                )
                .map(|seq: u64| seq)
            },
            |connection| Ok(connection.session_append("client", NewMessage::user(text))?.seq),
        )?,
        measure(
            "APPEND JSON",
            &mut connection,
            |connection| {
                raw(
                    connection,
                    redis::cmd("SESSION.APPEND").arg("raw").arg("JSON").arg(&body),
                )
                .map(|seq: u64| seq)
            },
            |connection| Ok(connection.session_append("client", [body.as_str()])?.seq),
        )?,
        measure(
            "EVENT ADD",
            &mut connection,
            |connection| {
                let mut cmd = redis::cmd("SESSION.EVENT");
                cmd.arg("ADD").arg("raw").arg("modified").arg("AGENT").arg("a");
                raw(connection, cmd.arg("ENTITIES").arg(1).arg("e")).map(|seq: u64| seq)
            },
            |connection| connection.session_event_add("client", NewEvent::new("modified").agent("a").entity("e")),
        )?,
        measure(
            "LEN",
            &mut connection,
            |connection| raw(connection, redis::cmd("SESSION.LEN").arg("read")).map(|len: u64| len),
            |connection| connection.session_len("read"),
        )?,
        measure(
            "RANGE of 20",
            &mut connection,
            |connection| {
                raw(connection, redis::cmd("SESSION.RANGE").arg("read").arg(0).arg(-1))
                    .map(|all: Vec<Vec<u8>>| all.len() as u64)
            },
            |connection| Ok(connection.session_range("read", MessageQuery::all())?.len() as u64),
        )?,
        measure(
            "EVENT RANGE of 20, parsed",
            &mut connection,
            |connection| {
                let mut cmd = redis::cmd("SESSION.EVENT");
                let all: Vec<Vec<u8>> = raw(connection, cmd.arg("RANGE").arg("read").arg("-").arg("+"))?;
                parsed(&all)
            },
            |connection| Ok(connection.session_event_range("read", EventQuery::all())?.len() as u64),
        )?,
        measure(
            "READ of 20 messages",
            &mut connection,
            |connection| {
                let mut cmd = redis::cmd("SESSION.READ");
                let all: Vec<(u64, i64, String, Vec<u8>)> = raw(connection, cmd.arg("read").arg(0).arg("MESSAGES"))?;
                Ok(all.len() as u64)
            },
            |connection| Ok(connection.session_read("read", ReadOptions::after(0).messages())?.len() as u64),
        )?,
        measure(
            "GET of 20, parsed",
            &mut connection,
            |connection| {
                let json: Vec<u8> = raw(connection, redis::cmd("SESSION.GET").arg("read"))?;
                parsed(&[json])
            },
            |connection| Ok(u64::from(connection.session_get("read", None)?.is_some())),
        )?,
    ];

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    rows.push(measure(
        "APPEND MSG, asynchronous",
        &mut connection,
        |connection| {
            let mut cmd = redis::cmd("SESSION.APPEND");
            cmd.arg("raw").arg("MSG").arg("user").arg(text);
            Ok(runtime.block_on(cmd.query_async::<u64>(connection))?)
        },
        |connection| {
            Ok(runtime
                .block_on(connection.session_append("client", NewMessage::user(text)))?
                .seq)
        },
    )?);
    rows.push(measure(
        "RANGE of 20, asynchronous",
        &mut connection,
        |connection| {
            let mut cmd = redis::cmd("SESSION.RANGE");
            cmd.arg("read").arg(0).arg(-1);
            Ok(runtime.block_on(cmd.query_async::<Vec<Vec<u8>>>(connection))?.len() as u64)
        },
        |connection| {
            Ok(runtime
                .block_on(connection.session_range("read", MessageQuery::all()))?
                .len() as u64)
        },
    )?);

    println!(
        "The client crate beside redis-rs on the same connection, µs a call: medians of {ROUNDS} batches of {CALLS_PER_BATCH}\n"
    );
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                format!("{:.2}", row.raw_us),
                format!("{:.2}", row.client_us),
                format!("{:.3}", row.ratio),
            ]
        })
        .collect();
    print_table(&["command", "redis-rs", "client", "ratio"], &table);
    let per_message = rows
        .iter()
        .map(|row| Limit::at_most(format!("client / redis-rs, {}", row.name), row.ratio, LIMIT));
    Ok(per_message.collect())
}

fn raw<T: redis::FromRedisValue>(connection: &mut redis::Connection, cmd: &redis::Cmd) -> Answer<T> {
    Ok(cmd.query(connection)?)
}

/// Parses JSON as a caller of redis-rs would.
fn parsed(all: &[Vec<u8>]) -> Answer<u64> {
    for json in all {
        let value: serde_json::Value =
            serde_json::from_slice(json).map_err(|error| SessionError::BadMessage(error.to_string()))?;
        std::hint::black_box(&value);
    }
    Ok(all.len() as u64)
}

fn measure<C>(
    name: &str,
    connection: &mut C,
    mut raw: impl FnMut(&mut C) -> Answer<u64>,
    mut client: impl FnMut(&mut C) -> Answer<u64>,
) -> Result<Row> {
    let mut pairs = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + 5 {
        // They take turns in going first.
        let (raw_took, client_took) = if round % 2 == 0 {
            let raw_took = batch(connection, &mut raw)?;
            (raw_took, batch(connection, &mut client)?)
        } else {
            let client_took = batch(connection, &mut client)?;
            (batch(connection, &mut raw)?, client_took)
        };
        // The first rounds warm up.
        if round >= 5 {
            pairs.push((raw_took, client_took));
        }
    }
    let us = |took: Duration| took.as_secs_f64() * 1e6 / CALLS_PER_BATCH as f64;
    Ok(Row {
        name: name.to_owned(),
        raw_us: median(pairs.iter().map(|pair| us(pair.0)).collect()),
        client_us: median(pairs.iter().map(|pair| us(pair.1)).collect()),
        ratio: median(pairs.iter().map(|pair| us(pair.1) / us(pair.0)).collect()),
    })
}

fn batch<C>(connection: &mut C, call: &mut impl FnMut(&mut C) -> Answer<u64>) -> Result<Duration> {
    let began = Instant::now();
    for _ in 0..CALLS_PER_BATCH {
        std::hint::black_box(call(connection)?);
    }
    Ok(began.elapsed())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_not_led_by_one_slow_batch() {
        assert_eq!(median(vec![1.0, 900.0, 2.0]), 2.0);
    }
}
