//! Persistence: the content of a session is kept to the byte, its expiry to the millisecond.

use redis_session_tests::payload::Random;
use redis_session_tests::{oracle, text, Options, Server};

use super::random::random_write;

#[test]
fn every_write_survives_everything() {
    oracle::assert_survives_everything(|server| {
        for scenario in super::scenarios::of_every_write(server) {
            scenario.play(server, |last| {
                server.run(last);
            });
        }
    });
}

#[test]
fn long_and_odd_sessions_survive_everything() {
    oracle::assert_survives_everything(super::scenarios::set_up_others);
}

#[test]
fn random_histories_survive_everything() {
    oracle::assert_survives_everything(|server| {
        for seed in 0..60 {
            let mut random = Random(seed);
            server.run("DEL k");
            for _ in 0..10 + random.below(90) {
                server.attempt(&random_write(&mut random));
            }
            server.run("SESSION.CREATE k OPEN");
            server.run(&format!("RENAME k random-{seed}"));
        }
    });
}

#[test]
fn a_snapshot_file_is_loaded_at_the_start() {
    let server = Server::start();
    super::scenarios::set_up_others(&server);
    let before = server.snapshot();
    server.run("SAVE");
    server.restart_with(&Options::default().hostile());
    oracle::assert_same("after a restart on dump.rdb", &before, &server.snapshot());
    server.run("BGSAVE");
    redis_session_tests::wait_until("the background save ends", || {
        server.info_field("persistence", "rdb_bgsave_in_progress") == "0"
    });
    assert_eq!(server.info_field("persistence", "rdb_last_bgsave_status"), "ok");
}

#[test]
fn the_digest_is_of_content_not_of_chunking() {
    let ranges: Vec<String> = ["0", "1", "100000"]
        .iter()
        .map(|compress_after| {
            let server = Options::default()
                .config("session.compress-after", compress_after)
                .start();
            server.run("SESSION.CREATE k ID 0190a8b4-6d2e-7c3a-9f10-123456789abc AT 1000 LIMIT maxlen 0 PERSIST");
            for n in 0..300 {
                server.run(&format!(
                    r#"SESSION.APPEND k AT {n} JSON '{{"n":{n},"x":"{}"}}'"#,
                    "lorem ".repeat(40)
                ));
            }
            server.run("DEBUG RELOAD");
            // Two servers have different times of last activity, so only the messages can be compared.
            redis_session_tests::talk::render(&server.run("SESSION.RANGE k 0 -1 WITHMETA"))
        })
        .collect();
    assert!(ranges[0] == ranges[1] && ranges[1] == ranges[2]);
    // On one server: sealed, recompressed by a restart with another setting, and dumped.
    let server = Server::append_only().config("session.compress-after", 1).start();
    super::scenarios::set_up_others(&server);
    let before = server.snapshot();
    for compress_after in [0, 64, 1_000_000] {
        server.restart_with(&Options::default().config("session.compress-after", compress_after));
        oracle::assert_same(
            &format!("with compress-after {compress_after}"),
            &before,
            &server.snapshot(),
        );
        server.run("DEBUG RELOAD");
        oracle::assert_same(
            &format!("reloaded with compress-after {compress_after}"),
            &before,
            &server.snapshot(),
        );
    }
}

#[test]
fn different_content_has_different_digests() {
    let server = Server::start();
    let base = [
        r#"SESSION.CREATE KEY ID 0190a8b4-6d2e-7c3a-9f10-123456789abc AT 1000"#,
        r#"SESSION.APPEND KEY AT 1000 JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}'"#,
    ];
    for command in base {
        server.run(&command.replace("KEY", "k"));
    }
    let digest = server.digest(b"k");
    for (before, change) in super::guards::writes(&server) {
        server.run("DEL other");
        server.run("COPY k other");
        assert_eq!(server.digest(b"other"), digest);
        let elsewhere = |line: &str| format!("{line} ").replace(" k ", " other ").replace("{w}", "");
        let mut unchanged = digest.clone();
        if !before.is_empty() {
            server.run(&elsewhere(before));
            unchanged = server.digest(b"other");
        }
        server.run(
            &elsewhere(change)
                .replace("MAXLEN 2", "MAXLEN 3")
                // There are two messages here, so the checkpoint is the third.
                .replace(" other 4", " other 3"),
        );
        assert_ne!(server.digest(b"other"), unchanged, "{change}");
    }
}

#[test]
fn copies_go_their_own_ways() {
    let server = Server::with("session.default-maxlen", 0).start();
    for n in 0..300 {
        server.run(&format!(
            r#"SESSION.APPEND k JSON '{{"n":{n},"x":"{}"}}'"#,
            "lorem ".repeat(40)
        ));
    }
    let original = server.bodies("k");
    server.run("COPY k copy");
    assert_eq!(
        server.document("k")["session_id"],
        server.document("copy")["session_id"]
    );
    server.run("SESSION.REMOVE copy 5 100");
    server.run("SESSION.APPEND copy MSG user only-here");
    server.run("SESSION.REDACT copy 1");
    assert!(server.bodies("k") == original);
    server.run("SESSION.APPEND k JSON {}");
    server.run("SESSION.POP k COUNT 200");
    assert_eq!(server.bodies("copy").len(), 299);
    server.run("DEL k");
    assert_eq!(server.bodies("copy").len(), 299);
    server.run("UNLINK copy");
    assert_eq!(server.say("COPY k other DB 1"), "(integer) 0");
}

#[test]
fn sessions_move_as_any_key_does() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k JSON '{"n":1}'"#);
    server.conversation(
        r#"
        > RENAME k r
        OK
        > SESSION.LEN k
        (integer) 0
        > SESSION.LEN r
        (integer) 1
        > COPY r r DB 1
        (integer) 1
        > DEL r
        (integer) 1
        > SWAPDB 0 1
        OK
        > SESSION.RANGE r 0 -1
        1) '{"n":1}'
        > MOVE r 2
        (integer) 1
        > SESSION.LEN r
        (integer) 0
        > SELECT 2
        OK
        > SESSION.LEN r
        (integer) 1
        > OBJECT ENCODING r
        …
        > TOUCH r
        (integer) 1
        > SELECT 0
        OK
        "#,
    );
}

#[test]
fn memory_usage_counts_what_a_session_holds() {
    let server = Server::with("session.default-maxlen", 0).start();
    server.run("SESSION.CREATE k");
    let usage = |key: &str| redis_session_tests::int(&server.run(&format!("MEMORY USAGE {key}")));
    let empty = usage("k");
    assert!((50..2000).contains(&empty), "{empty}");
    // Random text does not compress.
    let mut random = Random(1);
    for _ in 0..100 {
        let noise: String = (0..1000).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        server.run(&format!(r#"SESSION.APPEND k JSON '{{"x":"{noise}"}}'"#));
    }
    let full = usage("k");
    assert!(full > empty + 50_000 && full < empty + 300_000, "{empty} {full}");
    server.run("SESSION.CLEAR k");
    assert!(usage("k") < empty + 10_000, "{}", usage("k"));
}

#[test]
fn freeing_on_another_thread_is_safe() {
    let server = Server::with("session.default-maxlen", 0)
        .config("lazyfree-lazy-user-del", "yes")
        .start();
    for round in 0..5 {
        for key in 0..10 {
            for n in 0..100 {
                server.run(&format!(
                    r#"SESSION.APPEND k{key} JSON '{{"n":{n},"x":"{}"}}'"#,
                    "lorem ".repeat(40)
                ));
            }
            server.run(&format!("COPY k{key} c{key} REPLACE"));
        }
        match round % 3 {
            0 => server.run("FLUSHALL ASYNC"),
            1 => server.run("UNLINK k0 k1 k2 k3 k4 k5 k6 k7 k8 k9"),
            _ => server.run("FLUSHALL SYNC"),
        };
        // Copies share chunks with what is being freed.
        for key in 0..10 {
            server.run(&format!("SESSION.RANGE c{key} 0 -1"));
        }
    }
    server.run("FLUSHALL ASYNC");
    redis_session_tests::wait_until("everything is freed", || {
        server.info_number("memory", "lazyfree_pending_objects") == 0
    });
    assert_eq!(server.info_number("session", "session_active_sessions"), 0);
}

#[test]
fn active_defragmentation_moves_sessions_unharmed() {
    let server = Server::with("session.default-maxlen", 0)
        .config("maxmemory", "0")
        .start();
    if !matches!(
        server.attempt("CONFIG SET activedefrag yes"),
        redis_session_tests::Value::Okay
    ) {
        println!("skipped: this server cannot defragment");
        return;
    }
    server.run("CONFIG SET active-defrag-ignore-bytes 1 active-defrag-threshold-lower 0 active-defrag-cycle-min 50 active-defrag-cycle-max 75");
    for n in 0..200 {
        for key in 0..60 {
            server.run(&format!(
                r#"SESSION.APPEND k{key} JSON '{{"n":{n},"x":"{}","entity_refs":["e{n}"]}}'"#,
                "lorem ".repeat(n % 40)
            ));
        }
    }
    for key in (0..60).step_by(2) {
        server.run(&format!("DEL k{key}"));
    }
    let before = server.snapshot();
    let hits = || {
        server.info_number("stats", "active_defrag_key_hits") + server.info_number("stats", "active_defrag_key_misses")
    };
    let start = std::time::Instant::now();
    while hits() == 0 && start.elapsed().as_secs() < 5 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    println!("defragmentation looked at {} keys", hits());
    oracle::assert_same("while defragmenting", &before, &server.snapshot());
    server.run("DEBUG RELOAD");
    oracle::assert_same("after defragmenting", &before, &server.snapshot());
}

#[test]
fn dumps_travel_between_servers() {
    let (from, to) = (Server::start(), Options::default().hostile().start());
    super::scenarios::set_up_others(&from);
    for key in from.snapshot().keys() {
        let dump = redis_session_tests::bytes(&from.call(&[b"DUMP".as_slice(), key]));
        let expires_at_ms = from.expires_at_ms(key).max(0).to_string();
        to.call(&[b"RESTORE".as_slice(), key, expires_at_ms.as_bytes(), &dump, b"ABSTTL"]);
    }
    oracle::assert_same("on the other server", &from.snapshot(), &to.snapshot());
    assert_eq!(text(&to.run("TYPE long")), "rdsession");
}
