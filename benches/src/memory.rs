//! `used_memory` of sessions against plain lists of the same bodies.
//!
//! Each figure is the difference of the server's `used_memory` before and after filling, on a server of its own: fresh, with
//! nothing on disk and no other client. The lists have the same keys as the sessions, and no expiry.

use crate::bodies::session_key;
use crate::conversations::Dataset;
use crate::report::{grouped, print_table, Limit};
use crate::resp::{Connection, Pipeline, Reply};
use crate::server::Server;
use crate::{Options, Result};
use std::time::Duration;

const EMPTY_SESSIONS: usize = 10_000;

pub fn run(options: &Options) -> Result<Vec<Limit>> {
    let Some(module) = options.module.as_deref() else {
        return Err("memory needs the module".into());
    };
    let dataset = Dataset::load(options.generated)?;
    let used = |fill: &Pipeline, check: Check| -> Result<u64> {
        let mut server = Server::start(&options.server, Some(module))?;
        let mut observer = server.connect()?;
        if !observer.info("memory", "mem_allocator")?.starts_with("jemalloc") {
            eprintln!("note: this server does not use jemalloc; its figures differ a little from one that does");
        }
        let before = settled_memory(&mut observer)?;
        // A separate connection, whose buffers are freed when the memory is read.
        server.connect()?.send(fill)?;
        let after = settled_memory(&mut observer)?;
        check.verify(&mut observer)?;
        Ok(after.saturating_sub(before))
    };

    let keys: Vec<String> = (0..options.copies * dataset.conversations.len())
        .map(session_key)
        .collect();
    let each = |fill: &dyn Fn(&mut Pipeline, &str, &[String])| {
        let mut pipeline = Pipeline::default();
        for (key, conversation) in keys.iter().zip(dataset.conversations.iter().cycle()) {
            fill(&mut pipeline, key, conversation);
        }
        pipeline
    };
    let all = Check {
        command: ["LLEN", "SESSION.LEN"],
        keys: &keys,
        expected: &|key| dataset.conversations[key % dataset.conversations.len()].len(),
    };

    let list = each(&|pipeline, key, bodies| bodies.iter().for_each(|body| pipeline.push(["RPUSH", key, body])));
    let session = each(&|pipeline, key, bodies| {
        pipeline.push(["SESSION.CREATE", key, "LIMIT", "maxlen", "0"]);
        bodies
            .iter()
            .for_each(|body| pipeline.push(["SESSION.APPEND", key, "JSON", body]));
    });
    let window_list = each(&|pipeline, key, bodies| {
        for body in bodies {
            pipeline.push(["RPUSH", key, body]);
            pipeline.push(["LTRIM", key, "-20", "-1"]);
        }
    });
    let window_session = each(&|pipeline, key, bodies| {
        bodies
            .iter()
            .for_each(|body| pipeline.push(["SESSION.APPEND", key, "JSON", body]))
    });

    let list = used(&list, all.with(0))?;
    let session = used(&session, all.with(1))?;
    let window_list = used(&window_list, Check::none())?;
    let window_session = used(&window_session, Check::none())?;

    let empty_keys: Vec<String> = (0..EMPTY_SESSIONS)
        .map(|number| session_key(number + 1_000_000))
        .collect();
    let (mut empty, mut strings) = (Pipeline::default(), Pipeline::default());
    for key in &empty_keys {
        empty.push(["SESSION.CREATE", key]);
        strings.push(["SET", key, "", "EX", "604800"]);
    }
    let empty = used(&empty, Check::none())? as f64 / EMPTY_SESSIONS as f64;
    let strings = used(&strings, Check::none())? as f64 / EMPTY_SESSIONS as f64;

    println!(
        "used_memory, {}: {} × {} {}, {} messages, {} bytes of bodies\n",
        Server::version(&options.server)?,
        options.copies,
        dataset.conversations.len(),
        dataset.name,
        grouped((options.copies * dataset.messages()) as u64),
        grouped((options.copies * dataset.bytes()) as u64),
    );
    let ratio = |session: u64, list: u64| session as f64 / list as f64;
    let row = |name: &str, list: u64, session: u64| {
        vec![
            name.to_owned(),
            grouped(list),
            grouped(session),
            format!("{:.3}", ratio(session, list)),
        ]
    };
    print_table(
        &["", "plain lists", "sessions", "ratio"],
        &[
            row("every message (no window)", list, session),
            row("the newest 20 (window)", window_list, window_session),
        ],
    );
    println!("\nan empty session, its key and its expiry: {empty:.1} bytes (an empty string so stored: {strings:.1})");

    Ok(vec![
        Limit::at_most("sessions without window / lists", ratio(session, list), 0.6),
        Limit::at_most(
            "sessions with a window of 20 / trimmed lists",
            ratio(window_session, window_list),
            0.8,
        ),
        Limit {
            digits: 1,
            unit: " bytes",
            ..Limit::at_most("an empty session", empty, 400.0)
        },
    ])
}

/// What must exist after filling, so that lost data is not reported as a saving.
struct Check<'a> {
    /// Of the list and of the session.
    command: [&'static str; 2],
    keys: &'a [String],
    expected: &'a dyn Fn(usize) -> usize,
}

impl<'a> Check<'a> {
    fn none() -> Check<'a> {
        Check {
            command: ["", ""],
            keys: &[],
            expected: &|_| 0,
        }
    }

    fn with(&self, which: usize) -> Check<'a> {
        Check {
            command: [self.command[which]; 2],
            ..*self
        }
    }

    fn verify(&self, connection: &mut Connection) -> Result<()> {
        for (number, key) in self.keys.iter().enumerate() {
            let (found, expected) = (connection.call([self.command[0], key])?, (self.expected)(number));
            if found != Reply::Integer(expected as i64) {
                return Err(format!(
                    "{key} should hold {expected} messages, {} says {found:?}",
                    self.command[0]
                )
                .into());
            }
        }
        Ok(())
    }
}

/// Returns `used_memory` once it is stable: closed clients are freed and tables rehashed a little later.
fn settled_memory(observer: &mut Connection) -> Result<u64> {
    let mut last = 0;
    let mut unchanged = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300));
        let now: u64 = observer.info("memory", "used_memory")?.parse()?;
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        // The server's clock ticks once a second here, so a shorter period proves nothing.
        if unchanged >= 5 {
            return Ok(now);
        }
    }
    Ok(last)
}
