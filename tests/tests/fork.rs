//! Forks: new sessions that continue from another.

use redis_session_tests::{bytes, entry, int, items, now_ms, oracle, talk, text, wait_until, Options, Server, Value};
use serde_json::{json, Value as Json};

use super::bad_input::assert_refused;
use super::checkpoint::append_noise;
use super::surroundings::user;

/// Makes a session with one of everything: messages 1 to 5, entities, agents, events 6 and 8, the checkpoint 7, a lease, a token.
fn full(server: &Server) {
    server.conversation(
        r#"
        > DEL k fork
        > SESSION.CREATE k SCOPE acme META '{"m":1}' LIMIT event-ttl 0 LIMIT maxlen 9 LIMIT dedup-window 3 PIN system EX 1000 AT 1768384800000
        > SESSION.APPEND k JSON '{"role":"system"}' '{"role":"user","n":2,"entity_refs":["e1"]}' '{"tool_calls":[{"id":"a"}]}'
        (integer) 3
        > SESSION.APPEND k DEDUP t JSON '{"tool_call_id":"a"}' '{"role":"user","n":5}'
        (integer) 5
        > SESSION.AGENT JOIN k a META '{"r":1}'
        > SESSION.EVENT ADD k pass ENTITIES 1 e1 STATE review
        (integer) 6
        > SESSION.CHECKPOINT CREATE k
        (integer) 7
        > SESSION.EVENT ADD k broke STATE done
        (integer) 8
        > SESSION.AGENT JOIN k b
        > SESSION.ENTITY MENTION k ID e2 NAME Two
        > SESSION.APPEND k MSG user nine
        (integer) 9
        > SESSION.GETEX k
        > SESSION.AGENT LEASE k a 1000000
        (integer) 1
        "#,
    );
}

/// Returns the parts of the document that a fork shares with its source.
const SHARED: [&str; 9] = [
    "scope",
    "state",
    "last_seq",
    "limits",
    "message_count",
    "query_count",
    "messages",
    "entities_mentioned",
    "meta",
];

#[test]
fn a_fork_has_what_the_contract_says_and_no_more() {
    let server = Server::start();
    full(&server);
    let before = now_ms();
    let id = text(&server.run("SESSION.FORK k fork"));
    let (source, fork) = (server.document("k"), server.document("fork"));
    assert_eq!(fork["session_id"], id);
    assert_ne!(source["session_id"], id);
    assert_eq!(id.as_bytes()[14], b'7', "a UUIDv7: {id}");
    for part in SHARED.iter().chain(&["agents", "events"]) {
        assert_eq!(fork[part], source[part], "{part}");
    }
    assert_eq!(
        server.say("SESSION.RANGE fork 0 -1 WITHMETA"),
        server.say("SESSION.RANGE k 0 -1 WITHMETA")
    );
    assert_eq!(
        server.say("SESSION.EVENT RANGE fork - +"),
        server.say("SESSION.EVENT RANGE k - +")
    );
    assert_eq!(
        server.say("SESSION.ENTITY LIST fork"),
        server.say("SESSION.ENTITY LIST k")
    );
    for (part, is) in [
        ("version", json!(1)),
        ("alias", Json::Null),
        ("lease", Json::Null),
        ("closed_at", Json::Null),
        ("checkpoints", json!([])),
        ("ttl_extended_count", json!(0)),
    ] {
        assert_eq!(fork[part], is, "{part}");
    }
    assert_ne!(fork["created_at"], source["created_at"]);
    let expires_at_ms = server.expires_at_ms(b"fork");
    assert!((before + 1_000_000..=now_ms() + 1_000_000).contains(&expires_at_ms));
    server.conversation(
        r#"
        # the numbers go on, the token is not known, the call still has its answers
        > SESSION.APPEND fork DEDUP t JSON '{"tool_call_id":"a"}' '{"role":"user","n":5}'
        (integer) 11
        > SESSION.AGENT LEASE fork b 1000
        (integer) 1
        > SESSION.APPEND k LEASE 1 MSG user there
        (integer) 10
        > SESSION.CHECKPOINT RESTORE fork 7 LEASE 1
        (error) NOCHECKPOINT no checkpoint 7 in the session at key 'fork'
        > SESSION.CHECKPOINT CREATE fork LEASE 1
        (integer) 12
        "#,
    );
    // A follower of the fork gets a gap for the checkpoints, which are not there.
    let told = talk::render(&server.run("SESSION.READ fork 6 COUNT 1"));
    assert!(
        told.contains(r#""gap""#) && told.contains(r#"{"from":7,"to":7}"#),
        "{told}"
    );
}

#[test]
fn a_fork_takes_a_part() {
    let server = Server::start();
    full(&server);
    for (upto, messages, events) in [
        (0, &[][..], &[][..]),
        (2, &[1, 2], &[]),
        // Between a call and its answer.
        (3, &[1, 2, 3], &[]),
        (5, &[1, 2, 3, 4, 5], &[]),
        (6, &[1, 2, 3, 4, 5], &[6]),
        (8, &[1, 2, 3, 4, 5], &[6, 8]),
        (9, &[1, 2, 3, 4, 5, 9], &[6, 8]),
        (99, &[1, 2, 3, 4, 5, 9], &[6, 8]),
        (i64::MAX, &[1, 2, 3, 4, 5, 9], &[6, 8]),
    ] {
        server.run(&format!("SESSION.FORK k fork UPTO {upto} REPLACE"));
        assert_eq!(server.seqs("fork"), messages, "UPTO {upto}");
        let kept: Vec<i64> = items(&server.run("SESSION.EVENT RANGE fork - +"))
            .iter()
            .map(|event| {
                let event: Json = serde_json::from_str(&text(event)).expect("JSON");
                event["seq"].as_i64().expect("a seq")
            })
            .collect();
        assert_eq!(kept, events, "UPTO {upto}");
        // Entities and state are the present ones.
        let (source, fork) = (server.document("k"), server.document("fork"));
        for part in ["entities_mentioned", "state", "agents", "last_seq", "meta", "limits"] {
            assert_eq!(fork[part], source[part], "{part} of UPTO {upto}");
        }
        assert_eq!(server.say("SESSION.APPEND fork MSG user on"), "(integer) 10");
    }
    // A follower gets a gap for what was cut.
    server.run("SESSION.FORK k fork UPTO 3 REPLACE");
    let told = items(&server.run("SESSION.READ fork 2"));
    assert_eq!(text(&items(&told[0])[3]), r#"{"from":3,"to":9}"#);
    assert_eq!(int(&items(&told[1])[0]), 3);
    // A checkpoint: messages, entities, agents and state of that moment, everything else of now.
    server.run("SESSION.META k '{\"m\":2}' LEASE 1");
    server.run("SESSION.FORK k fork CHECKPOINT 7 REPLACE");
    assert_eq!(server.seqs("fork"), [1, 2, 3, 4, 5]);
    let fork = server.document("fork");
    let names: Vec<&String> = fork["entities_mentioned"]
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(names, ["e1"]);
    assert_eq!(fork["state"], "review");
    assert_eq!(fork["agents"].as_array().expect("agents").len(), 1);
    assert_eq!(fork["meta"], json!({"m": 2}));
    assert_eq!(fork["events"]["count"], 2);
    assert_eq!(fork["checkpoints"], json!([]));
    assert_eq!(fork["last_seq"], 9);
    // With the present window.
    server.run("SESSION.WINDOW k MAXLEN 1 LEASE 1");
    let evicted = server.info_number("session", "session_evicted");
    server.run("SESSION.FORK k fork CHECKPOINT 7 REPLACE");
    assert_eq!(server.seqs("fork"), [1, 5]);
    assert_eq!(server.info_number("session", "session_evicted"), evicted + 3);
}

#[test]
fn the_grammar_of_fork_is_kept() {
    let server = Server::append_only().start();
    server.run("SET string x");
    server.run("SESSION.APPEND k MSG user hi");
    server.run("SESSION.APPEND busy MSG user hi");
    for (command, error) in [
        ("k", "ERR wrong number of arguments for '…' command"),
        ("k new UPTO", "ERR syntax error near 'UPTO'"),
        ("k new CHECKPOINT", "ERR syntax error near 'CHECKPOINT'"),
        ("k new ID", "ERR syntax error near 'ID'"),
        ("k new UPTO 1 UPTO 1", "ERR syntax error near 'UPTO'"),
        ("k new UPTO 1 CHECKPOINT 1", "ERR syntax error near 'CHECKPOINT'"),
        ("k new CHECKPOINT 1 UPTO 1", "ERR syntax error near 'UPTO'"),
        ("k new REPLACE replace", "ERR syntax error near 'replace'"),
        ("k new BOGUS", "ERR syntax error near 'BOGUS'"),
        ("k new UPTO x", "ERR UPTO must be an integer from 0 to …"),
        ("k new UPTO -1", "ERR UPTO must be an integer from 0 to …"),
        ("k new CHECKPOINT x", "ERR CHECKPOINT must be an integer from 0 to …"),
        ("k new ID x", "ERR ID must be a UUID, not 'x'"),
        ("k new EX 0", "ERR EX must be an integer from 1 to …"),
        ("k new EX 5 PX 5", "ERR syntax error near 'PX'"),
        ("k new AT x", "ERR AT must be an integer from 0 to …"),
        ("k new NOW 5", "ERR syntax error near 'NOW'"),
        ("k k", "ERR source and destination are the same key"),
        ("k k REPLACE", "ERR source and destination are the same key"),
        ("absent absent", "ERR source and destination are the same key"),
        ("absent new", "NOSESSION no session at key 'absent'"),
        ("absent new IFVERSION 0", "NOSESSION no session at key 'absent'"),
        (
            "string new",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("k busy", "BUSYKEY a value exists at key 'busy'"),
        ("k string", "BUSYKEY a value exists at key 'string'"),
        (
            "k new CHECKPOINT 1",
            "NOCHECKPOINT no checkpoint 1 in the session at key 'k'",
        ),
        ("k new IFVERSION 1", "VERSIONCONFLICT session is at version 2, not 1"),
        ("k new IFVERSION 0", "VERSIONCONFLICT session is at version 2, not 0"),
        ("k new LEASE 1", "LEASELOST token 1 is stale"),
        ("k new LEASE 1 IFVERSION 1 CHECKPOINT 9", "LEASELOST token 1 is stale"),
        (
            "k busy IFVERSION 1 CHECKPOINT 9",
            "VERSIONCONFLICT session is at version 2, not 1",
        ),
    ] {
        assert_refused(&server, &talk::split(&format!("SESSION.FORK {command}")), error);
    }
    server.run("SESSION.FORK k new IFVERSION 2");
    // Any UUID is allowed, even the source's; it does not make them the same session.
    let id = server.document("k")["session_id"]
        .as_str()
        .expect("an id")
        .to_uppercase();
    assert_eq!(
        text(&server.run(&format!("session.fork k twin id {id}"))),
        id.to_lowercase()
    );
    assert_eq!(server.document("twin")["session_id"], id.to_lowercase());
}

#[test]
fn expiry_and_dates_are_the_forks() {
    let server = Server::start();
    server.run("SESSION.CREATE k EX 1000 AT 5000");
    server.run("PEXPIREAT k 4102444800000");
    for (options, ttl_ms, slides_to_ms) in [
        ("", Some(1_000_000), 1_000_000),
        ("EX 50", Some(50_000), 50_000),
        ("PX 60000", Some(60_000), 60_000),
        ("PERSIST", None, 0),
        ("KEEPTTL", None, 0),
    ] {
        let before = now_ms();
        server.run(&format!("SESSION.FORK k fork REPLACE {options}"));
        let expires_at_ms = server.expires_at_ms(b"fork");
        match ttl_ms {
            Some(ttl_ms) => assert!(
                (before + ttl_ms..=now_ms() + ttl_ms).contains(&expires_at_ms),
                "{options}"
            ),
            None => assert_eq!(expires_at_ms, -1, "{options}"),
        }
        let before = now_ms();
        server.run("SESSION.APPEND fork MSG user hi");
        let expires_at_ms = server.expires_at_ms(b"fork");
        match slides_to_ms {
            0 => assert_eq!(expires_at_ms, -1, "{options}"),
            ttl => assert!((before + ttl..=now_ms() + ttl).contains(&expires_at_ms), "{options}"),
        }
    }
    server.run("SESSION.FORK k fork REPLACE PXAT 4102444800001 AT 1768384800000");
    assert_eq!(server.expires_at_ms(b"fork"), 4_102_444_800_001);
    assert_eq!(server.document("fork")["created_at"], "2026-01-14T10:00:00.000Z");
    let before = now_ms();
    server.run("SESSION.APPEND fork MSG user hi");
    assert!(server.expires_at_ms(b"fork") >= before + 1_000_000, "the source's ttl");
    assert_eq!(
        server.expires_at_ms(b"k"),
        4_102_444_800_000,
        "the source's expiry is its own"
    );
    assert_eq!(server.version_of("k"), 1);
    // Deleted at once, and so is what was there before.
    assert_eq!(text(&server.run("SESSION.FORK k gone PXAT 1000")).len(), 36);
    server.run("SESSION.FORK k fork REPLACE PXAT 1000");
    assert_eq!(server.say("EXISTS gone fork"), "(integer) 0");
    // The fork of a source without a ttl has none.
    server.run("SESSION.CREATE lasting PERSIST");
    server.run("SET fork x EX 5");
    server.run("SESSION.FORK lasting fork REPLACE");
    assert_eq!(server.expires_at_ms(b"fork"), -1);
}

#[test]
fn a_fork_takes_the_place_of_anything_with_replace() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    server.run("SESSION.APPEND k MSG user hi");
    let mut watcher = server.client();
    for before in [
        "SET fork x EX 5",
        "RPUSH fork a b",
        "HSET fork f v",
        "SADD fork m",
        "ZADD fork 1 m",
        "XADD fork * f v",
        "SESSION.APPEND fork MSG user other",
        "SESSION.FORK k fork REPLACE",
        "PING",
    ] {
        server.run("DEL fork");
        server.run(before);
        watcher.run("WATCH fork k");
        if before != "PING" {
            assert_eq!(
                server.say("SESSION.FORK k fork"),
                "(error) BUSYKEY a value exists at key 'fork'"
            );
        }
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "1) PONG");
        watcher.run("WATCH fork");
        let id = text(&server.run("SESSION.FORK k fork REPLACE"));
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "(nil)", "{before}");
        assert_eq!(server.document("fork")["session_id"], id);
        // The source is only read.
        watcher.run("WATCH k");
        server.run("SESSION.FORK k fork REPLACE");
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "1) PONG", "{before}");
        replica.wait_for(&server);
        oracle::assert_same(before, &server.snapshot(), &replica.snapshot());
    }
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_fork_needs_no_turn_but_its_token_must_be_right() {
    let server = Server::append_only().start();
    full(&server);
    server.run("SESSION.FORK k fork");
    server.run("SESSION.FORK k fork2 LEASE 1");
    assert_refused(
        &server,
        &["SESSION.FORK", "k", "fork3", "LEASE", "2"],
        "LEASELOST token 2 is stale",
    );
    // The lease of the replaced session does not prevent it, as it does not prevent SET.
    server.run("SESSION.AGENT LEASE fork a 1000000");
    server.run("SESSION.FORK k fork REPLACE");
    assert_eq!(server.document("fork")["lease"], Json::Null);
    assert_eq!(server.document("k")["lease"]["agentId"], "a");
    // A closed source has no lease any more.
    server.run("SESSION.CHECKPOINT CREATE k CLOSE LEASE 1");
    assert_refused(
        &server,
        &["SESSION.FORK", "k", "fork3", "LEASE", "1"],
        "LEASELOST token 1 is stale",
    );
    server.run("SESSION.FORK k fork3");
    server.run("SESSION.APPEND fork3 MSG user on");
}

/// Deleting either does not change the other.
#[test]
fn source_and_fork_go_in_any_order() {
    for lazy in ["no", "yes"] {
        let server = Server::with("session.default-maxlen", 0)
            .config("lazyfree-lazy-user-del", lazy)
            .config("session.compress-after", 1024)
            .start();
        let keys = ["k", "fork", "cut", "old", "again", "copy"];
        for (round, ends) in [
            "DEL {}",
            "UNLINK {}",
            "SESSION.CLEAR {}",
            "SESSION.POP {} COUNT 290",
            "SESSION.WINDOW {} MAXLEN 3",
            "SET {} x",
            "PEXPIREAT {} 1000",
        ]
        .iter()
        .enumerate()
        {
            server.run("FLUSHALL");
            for n in 0..300 {
                server.run(&format!(
                    "SESSION.APPEND k MSG user \"{n} {}\" REF e{}",
                    "lorem ipsum ".repeat(n % 40),
                    n % 20
                ));
                if n == 150 {
                    server.run("SESSION.CHECKPOINT CREATE k");
                }
            }
            for fork in [
                "SESSION.FORK k fork",
                "SESSION.FORK k cut UPTO 120",
                "SESSION.FORK k old CHECKPOINT 152",
                "SESSION.FORK fork again",
                "COPY k copy",
            ] {
                server.run(fork);
            }
            let before = server.snapshot();
            let mut left: Vec<&str> = keys.to_vec();
            for n in 0..keys.len() - 1 {
                let gone = left.remove((round + n * 5) % left.len());
                server.run(&ends.replace("{}", gone));
                for key in &left {
                    assert_eq!(
                        server.visible(key.as_bytes()),
                        before[key.as_bytes()],
                        "{key} after {} of {gone}",
                        ends
                    );
                }
            }
            server.run(&format!("SESSION.APPEND {} MSG user on", left[0]));
            server.run(["FLUSHALL ASYNC", "FLUSHALL SYNC"][round % 2]);
        }
        wait_until("everything is freed", || {
            server.info_number("memory", "lazyfree_pending_objects") == 0
        });
        assert_eq!(server.info_number("session", "session_active_sessions"), 0);
        assert_eq!(server.info_number("session", "session_bytes_stored"), 0);
    }
}

#[test]
fn sharers_are_written_to_and_moved_apart() {
    let server = Server::with("session.default-maxlen", 0)
        .config("session.compress-after", 1024)
        .start();
    let long = |n: usize| "lorem ipsum ".repeat(n % 40);
    for n in 0..300 {
        server.run(&format!("SESSION.APPEND k MSG user \"{n} {}\"", long(n)));
    }
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run("SESSION.FORK k fork");
    let (k, fork) = (server.visible(b"k"), server.visible(b"fork"));
    // Changing one leaves the other.
    for (one, other, kept) in [("fork", "k", &k), ("k", "fork", &fork)] {
        server.run(&format!("COPY {one} spare REPLACE"));
        server.run(&format!("SESSION.REDACT {one} 1 100 299"));
        server.run(&format!("SESSION.REMOVE {one} 7 150"));
        server.run(&format!("SESSION.COMPACT {one} UPTO 60 MSG system summary"));
        server.run(&format!("SESSION.APPEND {one} MSG user more"));
        server.run(&format!("SESSION.ENTITY MENTION {one} ID e"));
        assert_eq!(&server.visible(other.as_bytes()), kept, "{other}");
        server.run(&format!("RENAME spare {one}"));
    }
    // DUMP and COPY of sessions that share chunks are complete.
    for key in ["k", "fork"] {
        let before = server.visible(key.as_bytes());
        let dump = bytes(&server.call(&["DUMP", key]));
        let expires_at_ms = server.expires_at_ms(key.as_bytes()).to_string();
        server.run(&format!("COPY {key} copied REPLACE"));
        server.run(&format!("DEL {key}"));
        server.call(&[
            &b"RESTORE"[..],
            key.as_bytes(),
            expires_at_ms.as_bytes(),
            &dump,
            b"ABSTTL",
        ]);
        assert_eq!(server.visible(key.as_bytes()), before, "{key} restored");
        assert_eq!(server.visible(b"copied"), before, "{key} copied");
    }
    let before = server.snapshot();
    server.run("DEBUG RELOAD");
    oracle::assert_same("after DEBUG RELOAD", &before, &server.snapshot());
}

#[test]
fn defragmentation_leaves_sharers_unharmed() {
    let server = Server::with("session.default-maxlen", 0).start();
    if !matches!(server.attempt("CONFIG SET activedefrag yes"), Value::Okay) {
        println!("skipped: this server cannot defragment");
        return;
    }
    server.run("CONFIG SET active-defrag-ignore-bytes 1 active-defrag-threshold-lower 0 active-defrag-cycle-min 50 active-defrag-cycle-max 75");
    for n in 0..200 {
        for key in 0..30 {
            server.run(&format!(
                "SESSION.APPEND k{key} MSG user \"{n} {}\" REF e{n}",
                "lorem ".repeat(n % 40)
            ));
        }
    }
    for key in 0..30 {
        server.run(&format!("SESSION.CHECKPOINT CREATE k{key}"));
        server.run(&format!("SESSION.FORK k{key} fork{key}"));
        server.run(&format!("SESSION.APPEND fork{key} MSG user apart"));
    }
    for key in (0..30).step_by(3) {
        server.run(&format!("DEL k{key}"));
        server.run(&format!("SESSION.CLEAR k{}", key + 1));
    }
    let before = server.snapshot();
    let hits = || {
        server.info_number("stats", "active_defrag_key_hits") + server.info_number("stats", "active_defrag_key_misses")
    };
    // Whether defragmentation starts at all depends on the allocator.
    let start = std::time::Instant::now();
    while hits() < 50 && start.elapsed().as_secs() < 5 {
        oracle::assert_same("while defragmenting", &before, &server.snapshot());
    }
    println!("defragmentation looked at {} keys", hits());
    for key in (1..30).step_by(3) {
        server.run(&format!("SESSION.CHECKPOINT RESTORE k{key} 201"));
        assert_eq!(server.bodies(&format!("k{key}")).len(), 200);
    }
}

#[test]
fn a_fork_shares_what_the_source_has() {
    let server = Server::with("session.default-maxlen", 0).start();
    append_noise(&server, "k", 20_000);
    let usage = |key: &str| int(&server.run(&format!("MEMORY USAGE {key}")));
    let whole = usage("k");
    server.run("SESSION.FORK k warm UPTO 0");
    let before = server.info_number("memory", "used_memory");
    for n in 1..=5 {
        server.run(&format!("SESSION.FORK k fork{n}"));
        let added = server.info_number("memory", "used_memory") - before;
        assert!(added * 100 < whole * n, "{added} bytes for {n} forks of {whole}");
    }
    server.run("COPY k copy");
    let added = server.info_number("memory", "used_memory") - before;
    assert!(added * 100 < whole * 6, "{added} bytes for a copy too");
    // What is shared counts in each of them.
    assert!(
        usage("fork1") > whole * 9 / 10 && usage("fork1") <= whole + 2000,
        "{} {whole}",
        usage("fork1")
    );
    server.run("DEL k copy warm fork1 fork2 fork3 fork4");
    assert_eq!(server.say("SESSION.LEN fork5"), "(integer) 20000");
    assert!(
        server.info_number("memory", "used_memory") > before - whole / 2,
        "the last one still has it"
    );
    server.run("DEL fork5");
    // Valkey frees on another thread unless configured otherwise.
    wait_until("it is freed", || {
        server.info_number("memory", "used_memory") < before - whole / 2
    });
}

#[test]
fn a_blocked_reader_hears_of_a_fork_in_its_place() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {} {}");
    server.run("SESSION.APPEND there JSON {}");
    let mut blocked = server.client();
    blocked.send(&["SESSION.READ", "there", "$", "BLOCK", "0"]);
    wait_until("the reader waits", || {
        server.info_number("session", "session_blocked_readers") == 1
    });
    let id = text(&server.run("SESSION.FORK k there REPLACE"));
    let told = items(&blocked.receive());
    assert_eq!(text(&items(&told[0])[2]), "reset");
    assert_eq!(text(&items(&told[0])[3]), format!(r#"{{"session_id":"{id}"}}"#));
    assert_eq!(told.len(), 3);
    // Without it, a reader stays blocked until something is recorded.
    blocked.send(&["SESSION.READ", "new", "0", "BLOCK", "0"]);
    wait_until("the reader waits", || {
        server.info_number("session", "session_blocked_readers") == 1
    });
    server.run("SESSION.FORK k new");
    assert_eq!(items(&blocked.receive()).len(), 2);
}

#[test]
fn forks_in_transactions_and_scripts() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    server.run("SESSION.APPEND k MSG user hi");
    server.conversation(
        r#"
        > MULTI
        OK
        > SESSION.FORK k a
        QUEUED
        > SESSION.FORK a b
        QUEUED
        > SESSION.FORK k a
        QUEUED
        > SESSION.APPEND b MSG user on
        QUEUED
        > EXEC
        1) "…"
        2) "…"
        3) (error) BUSYKEY a value exists at key 'a'
        4) (integer) 2
        > EVAL "return #redis.call('SESSION.FORK', KEYS[1], KEYS[2], 'UPTO', 1)" 2 b c
        (integer) 36
        "#,
    );
    let before = server.snapshot();
    assert_eq!(before.len(), 4);
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    replica.run("REPLICAOF NO ONE");
    replica.run("SESSION.APPEND c MSG user on");
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_fork_has_two_keys() {
    let server = Server::start();
    let flags: Vec<String> = items(&server.run("COMMAND GETKEYSANDFLAGS SESSION.FORK s d REPLACE"))
        .iter()
        .map(|key| {
            let key = items(key);
            let flags: Vec<String> = items(&key[1]).iter().map(text).collect();
            format!("{} {}", text(&key[0]), flags.join(" "))
        })
        .collect();
    assert_eq!(flags, ["s RO access", "d OW update"]);
    let docs = items(&server.run("COMMAND DOCS SESSION.FORK"))[1].clone();
    let names: Vec<String> = items(&entry(&docs, "arguments"))
        .iter()
        .map(|argument| text(&entry(argument, "name")))
        .collect();
    assert_eq!(names[..2], ["source", "destination"]);
    server.run("SESSION.APPEND s MSG user hi");
    user(&server, "%R~s %W~d +session.fork").conversation(
        r#"
        > SESSION.FORK s d
        "…"
        > SESSION.FORK d s REPLACE
        (error) NOPERM …
        > SESSION.FORK s other
        (error) NOPERM …
        > SESSION.FORK other d REPLACE
        (error) NOPERM …
        "#,
    );
}

/// When a replica or a loading server executes it, the source has expired there: the primary has accepted it already.
#[test]
fn a_fork_of_what_expires_arrives() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    let mut sleeper = replica.client();
    sleeper.send(&["DEBUG", "SLEEP", "0.6"]);
    // In one transaction, so that nothing expires on the primary meanwhile.
    for command in [
        "MULTI",
        "SESSION.CREATE k PX 300",
        "SESSION.APPEND k MSG user hi REF e",
        "SESSION.CHECKPOINT CREATE k STORE ref",
        "SET there x PX 300",
        "SESSION.FORK k fork PERSIST",
        "SESSION.FORK k there PERSIST REPLACE",
        "SESSION.FORK k then CHECKPOINT 2 PERSIST",
        "EXEC",
    ] {
        server.run(command);
    }
    sleeper.receive();
    wait_until("the source is gone", || server.say("EXISTS k") == "(integer) 0");
    let before = server.snapshot();
    assert_eq!(before.len(), 4, "{:?}", before.keys());
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
    server.run("DEBUG LOADAOF");
    oracle::assert_same("after DEBUG LOADAOF", &before, &server.snapshot());
}
