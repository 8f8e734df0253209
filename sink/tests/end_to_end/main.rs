//! Failed sessions into a real PostgreSQL: each once, whatever breaks meanwhile.

mod content;
mod outages;
mod topologies;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis_session_sink::{PostgresTarget, RedisSource, SinkHandle, SinkReport, SnapshotSink};
use redis_session_tests::{Client, Postgres, Server, text, wait_until};

/// A sink under test, and what it said.
pub struct Running {
    handle: SinkHandle,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    pub fn start(sink: SnapshotSink) -> Running {
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = said.clone();
        let handle = sink.start(move |report| {
            let kind = match report {
                SinkReport::Connected => "connected",
                SinkReport::Swept { .. } => "swept",
                SinkReport::Written { .. } => "written",
                SinkReport::Skipped { .. } => "skipped",
                SinkReport::Interrupted { .. } => "interrupted",
                SinkReport::Warning(_) => "warning",
                _ => "other",
            };
            log.lock().unwrap().push(format!("{kind}: {report}"));
        });
        Running { handle, said }
    }

    pub fn of(server: &Server, postgres: &Postgres) -> Running {
        Running::start(sink(server, postgres))
    }

    /// What it said of this kind.
    pub fn said(&self, kind: &str) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|line| line.starts_with(kind)).cloned().collect()
    }

    pub fn wait_for(&self, kind: &str, count: usize) {
        wait_until(kind, || self.said(kind).len() >= count);
    }

    pub async fn stop(self) -> usize {
        self.handle.shutdown().await.expect("it ran until now");
        let said = self.said.lock().unwrap();
        said.iter().filter(|line| line.starts_with("written")).count()
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the sink said\n{}\n---", self.0.lock().unwrap().join("\n"));
        }
    }
}

/// Shows what a sink said when its test fails.
pub struct Collected(Arc<Mutex<Vec<String>>>);

pub fn shown_on_failure(running: &Running) -> Collected {
    Collected(running.said.clone())
}

pub fn sink(server: &Server, postgres: &Postgres) -> SnapshotSink {
    let source = RedisSource::single(redis::Client::open(server.url()).expect("an address"));
    SnapshotSink::new(source, target(postgres))
}

pub fn target(postgres: &Postgres) -> PostgresTarget {
    PostgresTarget::new(&postgres.address()).expect("an address")
}

/// A session that ended so.
pub fn end(server: &Server, key: &str, outcome: &str) {
    end_by(&mut server.client(), key, outcome);
}

pub fn end_by(client: &mut Client, key: &str, outcome: &str) {
    client.run(&format!("SESSION.APPEND {key} MSG user hello"));
    client.run(&format!(
        "SESSION.EVENT ADD {key} {outcome} ENTITIES 1 api STATE {outcome}"
    ));
    client.run(&format!("SESSION.CHECKPOINT CREATE {key} OUTCOME {outcome} CLOSE"));
}

pub fn rows(postgres: &Postgres) -> usize {
    let count = postgres.try_sql("SELECT count(*) FROM session_snapshots");
    count.ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

pub fn wait_for_rows(postgres: &Postgres, count: usize) {
    wait_until("the sessions are in the table", || {
        std::thread::sleep(Duration::from_millis(20));
        rows(postgres) >= count
    });
    assert_eq!(rows(postgres), count);
}

pub fn id_of(server: &Server, key: &str) -> String {
    text(&server.info_of(key, "session_id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_failed_are_written_whole() {
    let (server, postgres) = (Server::start(), Postgres::start());
    end(&server, "before", "broke");
    end(&server, "fine", "pass");
    server.run("SESSION.APPEND open MSG user hello");
    server.run("SESSION.CHECKPOINT CREATE open OUTCOME broke");
    server.run("SET other value");
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    assert_eq!(rows(&postgres), 1, "what was there before is found by the first sweep");

    server.run("SESSION.APPEND after MSG user 'a \"quoted\" ä'");
    server.run("SESSION.CHECKPOINT CREATE after OUTCOME Error STORE checkpoint:{after} LABEL l CLOSE");
    wait_for_rows(&postgres, 2);
    let row = |column: &str| {
        postgres.sql(&format!(
            "SELECT {column} FROM session_snapshots WHERE session_key = 'after'"
        ))
    };
    assert_eq!(row("document"), text(&server.run("SESSION.GET after")));
    assert_eq!(row("events"), "[]");
    assert_eq!(row("reference"), text(&server.run("GET checkpoint:{after}")));
    assert_eq!(row("checkpoint"), row("reference"));
    assert_eq!(row("session_id"), id_of(&server, "after"));
    assert_eq!(row("outcome || checkpoint_id"), "Error2");
    assert_eq!(
        row("to_char(closed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"),
        row("document->>'closed_at'")
    );
    assert_eq!(
        postgres
            .sql("SELECT events->0->>'type', reference IS NULL FROM session_snapshots WHERE session_key = 'before'"),
        "broke|t"
    );
    assert_eq!(running.stop().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_choose_outcomes_keys_and_the_table() {
    let (server, postgres) = (Server::start(), Postgres::start());
    postgres.sql("CREATE SCHEMA archive");
    let target = target(&postgres).table("archive.failed").unwrap();
    let source = RedisSource::single(redis::Client::open(server.url()).unwrap());
    let sink = SnapshotSink::new(source, target).failing(["Refused"]).keys("mine:*");
    let running = Running::start(sink);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    end(&server, "mine:1", "refused");
    end(&server, "mine:2", "broke");
    end(&server, "yours:1", "refused");
    end(&server, "mine:3", "REFUSED");
    running.wait_for("written", 2);
    assert_eq!(running.stop().await, 2);
    let keys = postgres.sql("SELECT session_key FROM archive.failed ORDER BY 1");
    assert_eq!(keys, "mine:1\nmine:3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_publish_or_wait_is_swept_and_warned_of() {
    let server = Server::with("session.publish", "off")
        .config("session.checkpoint-grace", 4)
        .start();
    let postgres = Postgres::start();
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    end(&server, "k", "broke");
    wait_for_rows(&postgres, 1);
    let warnings = running.said("warning").join("\n");
    assert!(warnings.contains("session.publish is off"), "{warnings}");
    assert!(
        warnings.contains("checkpoint-grace is 4 s: sweeping every 2000 ms"),
        "{warnings}"
    );
    assert_eq!(running.said("warning").len(), 2, "once for each");
    running.stop().await;
}

/// The permissions of `docs/bridge.md`, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn few_permissions_are_enough() {
    let (server, postgres) = (Server::start(), Postgres::start());
    server.run(
        "ACL SETUSER sink on >secret resetchannels &__session@0__:* %R~session:* %R~checkpoint:* +psubscribe +ping +scan +multi +exec \
         +session.info +session.get +session.event|range +session.checkpoint|list +session.checkpoint|get +get",
    );
    end(&server, "session:1", "broke");
    end(&server, "other", "broke");
    let url = format!("{}?user=sink&pass=secret", server.url());
    let source = RedisSource::single(redis::Client::open(url).unwrap());
    let running = Running::start(SnapshotSink::new(source, target(&postgres)));
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    server.run("SESSION.APPEND session:2 MSG user hello");
    server.run("SESSION.CHECKPOINT CREATE session:2 OUTCOME broke STORE checkpoint:{session:2} CLOSE");
    wait_for_rows(&postgres, 2);
    let stored = postgres.sql("SELECT session_key FROM session_snapshots WHERE reference IS NOT NULL");
    assert_eq!(stored, "session:2");
    assert!(
        running.said("skipped")[0].contains("\"other\""),
        "what it may not see, it says"
    );
    assert_eq!(running.said("interrupted"), [""; 0]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_notified_of_is_written_before_the_end() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    for n in 0..50 {
        end(&server, &format!("k{n}"), "broke");
    }
    running.wait_for("written", 1);
    let written = running.stop().await;
    assert_eq!(written, rows(&postgres), "nothing half done");
}
