//! Whatever stops in the middle, and however often: each session is in the table, and once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis_session_tests::payload::Random;
use redis_session_tests::{Postgres, Server, wait_until};

use super::{Running, end, end_by, shown_on_failure, sink, target, wait_for_rows};

/// Ends sessions one after the other, in a thread of its own, until told to stop; how many.
struct Traffic {
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Traffic {
    /// On a connection of its own to a server that stays.
    fn start(server: &Server) -> Traffic {
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count, mut client) = (stop.clone(), ended.clone(), server.client());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let n = count.load(Ordering::Relaxed);
                end_by(&mut client, &format!("traffic:{n}"), "broke");
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Traffic { stop, ended, thread }
    }

    fn wait_for_more(&self, sessions: usize) {
        let target = self.ended.load(Ordering::Relaxed) + sessions;
        wait_until("traffic", || self.ended.load(Ordering::Relaxed) >= target);
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every session was ended");
        self.ended.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_comes_back_writes_what_it_missed() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let traffic = Traffic::start(&server);
    let mut written = 0;
    for _ in 0..5 {
        let running = Running::of(&server, &postgres);
        running.wait_for("connected", 1);
        traffic.wait_for_more(10);
        written += running.stop().await;
        traffic.wait_for_more(10);
    }
    let ended = traffic.stop();
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    wait_for_rows(&postgres, ended);
    running.wait_for("swept", 1);
    // A sink that is told to end between the commit and the report says nothing, so it may be one less each time.
    written += running.stop().await;
    assert!((ended - 5..=ended).contains(&written), "{written} of {ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_dropped_in_the_middle_loses_nothing() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let traffic = Traffic::start(&server);
    for _ in 0..5 {
        let running = Running::of(&server, &postgres);
        running.wait_for("written", 1);
        drop(running);
        traffic.wait_for_more(5);
    }
    let ended = traffic.stop();
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    wait_for_rows(&postgres, ended);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_swept() {
    let (server, postgres) = (Server::append_only().start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    for round in 1..=4 {
        running.wait_for("connected", round);
        for n in 0..10 {
            end(&server, &format!("k:{round}:{n}"), "broke");
        }
        // In the middle of writing these, mostly.
        server.restart();
        // Before the sink is back, maybe.
        end(&server, &format!("k:{round}:last"), "broke");
    }
    wait_for_rows(&postgres, 44);
    assert!(running.said("interrupted").len() >= 4);
    running.wait_for("swept", 1);
    let written = running.stop().await;
    assert_eq!(written, 44);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_restarts_gets_the_rest() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    let traffic = Traffic::start(&server);
    for round in 1..=4 {
        running.wait_for("written", round * 5);
        postgres.stop();
        traffic.wait_for_more(5);
        postgres.resume();
        running.wait_for("connected", round + 1);
    }
    let ended = traffic.stop();
    wait_for_rows(&postgres, ended);
    running.stop().await;
}

/// Sinks, the server and the database come and go by chance, the same each time.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_stops_in_whatever_order() {
    let (server, postgres) = (Server::append_only().start(), Postgres::start());
    let mut random = Random(7);
    let (mut ended, mut is_database_up) = (0, true);
    let mut sinks: Vec<Running> = Vec::new();
    for _ in 0..40 {
        match random.below(8) {
            0 => sinks.push(Running::of(&server, &postgres)),
            1 if !sinks.is_empty() => drop(sinks.swap_remove(random.below(sinks.len()))),
            2 if !sinks.is_empty() => {
                let sink = sinks.swap_remove(random.below(sinks.len()));
                sink.stop().await;
            }
            3 => server.restart(),
            4 if is_database_up => {
                postgres.stop();
                is_database_up = false;
            }
            5 if !is_database_up => {
                postgres.resume();
                is_database_up = true;
            }
            _ => {
                for _ in 0..random.below(10) {
                    end(&server, &format!("k:{ended}"), "broke");
                    ended += 1;
                }
            }
        }
    }
    if !is_database_up {
        postgres.resume();
    }
    let last = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&last);
    wait_for_rows(&postgres, ended);
    assert!(ended > 20, "{ended} sessions are not much of a test");
    last.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_side_has_to_be_there_at_first() {
    let (server, postgres) = (Server::append_only().start(), Postgres::start());
    end(&server, "k", "broke");
    postgres.stop();
    server.kill();
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("interrupted", 2);
    postgres.resume();
    running.wait_for("interrupted", 3);
    server.restart();
    wait_for_rows(&postgres, 1);
    assert_eq!(running.stop().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_is_made_again() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    end(&server, "k", "broke");
    running.wait_for("written", 1);
    postgres.sql("DROP TABLE session_snapshots");
    end(&server, "l", "broke");
    wait_for_rows(&postgres, 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_sinks_write_each_session_once() {
    let (server, postgres) = (Server::start(), Postgres::start());
    // All make the table at once, and all sweep the same.
    for n in 0..20 {
        end(&server, &format!("before:{n}"), "broke");
    }
    let sinks: Vec<Running> = (0..4).map(|_| Running::of(&server, &postgres)).collect();
    let _shown: Vec<_> = sinks.iter().map(shown_on_failure).collect();
    sinks.iter().for_each(|sink| sink.wait_for("swept", 1));
    let traffic = Traffic::start(&server);
    traffic.wait_for_more(50);
    let ended = traffic.stop() + 20;
    wait_for_rows(&postgres, ended);
    let mut written = 0;
    for sink in sinks {
        assert_eq!(sink.said("interrupted"), [""; 0]);
        written += sink.stop().await;
    }
    assert_eq!(written, ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_make_tables_may_write_to_one() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let first = Running::of(&server, &postgres);
    first.wait_for("connected", 1);
    first.stop().await;
    postgres.sql(
        "CREATE ROLE writer LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
         GRANT SELECT, INSERT ON session_snapshots TO writer",
    );
    let address = postgres.address().replace("user=postgres", "user=writer");
    let source = redis_session_sink::RedisSource::single(redis::Client::open(server.url()).unwrap());
    let target = redis_session_sink::PostgresTarget::new(&address).unwrap();
    let running = Running::start(redis_session_sink::SnapshotSink::new(source, target));
    let _shown = shown_on_failure(&running);
    end(&server, "k", "broke");
    wait_for_rows(&postgres, 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_made_and_ended_again_is_another_row() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::start(sink(&server, &postgres));
    let _shown = shown_on_failure(&running);
    let id = "01a201d3-e856-7006-8b8c-31de05c66a69";
    for row in 1..=2 {
        server.run(&format!("SESSION.CREATE k ID {id}"));
        end(&server, "k", "broke");
        wait_for_rows(&postgres, row);
        server.run("DEL k");
    }
    // A copy is the same session.
    server.run(&format!("SESSION.CREATE k ID {id}"));
    end(&server, "k", "broke");
    wait_for_rows(&postgres, 3);
    server.run("COPY k l");
    let second = Running::start(redis_session_sink::SnapshotSink::new(
        redis_session_sink::RedisSource::single(redis::Client::open(server.url()).unwrap()),
        target(&postgres),
    ));
    second.wait_for("swept", 1);
    assert_eq!(second.stop().await, 0);
    running.stop().await;
}
