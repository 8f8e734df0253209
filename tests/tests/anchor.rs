//! Anchors: what recent sessions did to an entity, kept independent of the sessions.

use std::collections::BTreeSet;

use redis_session_tests::{bytes, int, items, now_ms, oracle, talk, text, wait_until, Options, Server, Value};
use serde_json::Value as Json;

use super::bad_input::assert_refused;
use super::surroundings::{collect_tokens, user};

const FAR: &str = "4102444800000";
const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Returns the ids of the sessions, newest first.
fn sessions(server: &Server, key: &str) -> Vec<String> {
    let id = |json: &Value| {
        let anchor: Json = serde_json::from_str(&text(json)).expect("JSON");
        anchor["sessionId"].as_str().expect("an id").to_string()
    };
    let reply = server.run(&format!("SESSION.ANCHOR GET {key}"));
    items(&reply).iter().map(id).collect()
}

fn add(server: &Server, rest: &str) -> i64 {
    int(&server.run(&format!("SESSION.ANCHOR ADD {rest}")))
}

// ---------------------------------------------------------------------- ADD, GET

#[test]
fn an_anchor_is_what_was_said_of_a_session() {
    let server = Server::start();
    for mut client in [server.client(), server.client().resp3()] {
        server.run("DEL anchor:acme");
        client.conversation(
            r#"
            > SESSION.ANCHOR GET anchor:acme
            (empty array)
            > SESSION.ANCHOR GET anchor:acme SESSION s1
            (empty array)
            > SESSION.ANCHOR ADD anchor:acme s1 OUTCOME pass CHECKPOINT 7 IMPACTS 2 e1 "e \"2\"" PERF -1.50 MAXAGE 0 AT 1768384800000
            (integer) 1
            > TYPE anchor:acme
            rdanchors
            > SESSION.ANCHOR GET anchor:acme
            1) '{"sessionId":"s1","outcome":"pass","checkpointId":7,"keyImpacts":["e1","e \"2\""],"perfDelta":-1.50,"timestamp":"2026-01-14T10:00:00.000Z"}'
            > SESSION.ANCHOR ADD anchor:acme s2 MAXAGE 0 AT 1768384801001
            (integer) 2
            > SESSION.ANCHOR GET anchor:acme
            1) '{"sessionId":"s2","outcome":null,"checkpointId":null,"keyImpacts":[],"perfDelta":null,"timestamp":"2026-01-14T10:00:01.001Z"}'
            2) '{"sessionId":"s1",…}'
            > session.anchor get anchor:acme session s1
            1) '{"sessionId":"s1",…}'
            > SESSION.ANCHOR GET anchor:acme SESSION S1
            (empty array)
            > SESSION.ANCHOR GET anchor:acme SESSION nobody
            (empty array)
            # options in any order and case; an option's value may be a word
            > session.anchor add anchor:acme AT at 5000 maxage 0 perf 0 impacts 3 PERF AT MAXLEN outcome OUTCOME maxlen 0 checkpoint 0
            (integer) 3
            > SESSION.ANCHOR GET anchor:acme SESSION AT
            1) '{"sessionId":"AT","outcome":"OUTCOME","checkpointId":0,"keyImpacts":["PERF","AT","MAXLEN"],"perfDelta":0,"timestamp":"1970-01-01T00:00:05.000Z"}'
            "#,
        );
    }
}

#[test]
fn without_at_it_is_dated_by_the_clock() {
    let server = Server::start();
    let before = now_ms();
    assert_eq!(add(&server, "k s1"), 1);
    let after = now_ms();
    let anchor: Json = serde_json::from_str(&text(&items(&server.run("SESSION.ANCHOR GET k"))[0])).expect("JSON");
    // By the same clock, an anchor younger than the oldest allowed one is kept.
    let shown = anchor["timestamp"].as_str().expect("a time").to_string();
    for (at_ms, place) in [(before - 1, 1), (after + 1, 0)] {
        server.run(&format!("SESSION.ANCHOR ADD k other AT {at_ms}"));
        assert_eq!(sessions(&server, "k")[place], "other", "{shown} and {at_ms}");
    }
}

#[test]
fn a_session_has_one_entry() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.ANCHOR ADD k s1 OUTCOME broke IMPACTS 1 e MAXAGE 0 AT 1000
        (integer) 1
        > SESSION.ANCHOR ADD k s2 MAXAGE 0 AT 2000
        (integer) 2
        # nothing is left of the former one
        > SESSION.ANCHOR ADD k s1 PERF 1 MAXAGE 0 AT 3000
        (integer) 2
        > SESSION.ANCHOR GET k
        1) '{"sessionId":"s1","outcome":null,"checkpointId":null,"keyImpacts":[],"perfDelta":1,"timestamp":"1970-01-01T00:00:03.000Z"}'
        2) '{"sessionId":"s2",…}'
        # an older date is a date
        > SESSION.ANCHOR ADD k s1 MAXAGE 0 AT 500
        (integer) 2
        > SESSION.ANCHOR GET k
        1) '{"sessionId":"s2",…}'
        2) '{"sessionId":"s1",…}'
        "#,
    );
    // Of equal times the one added later comes first.
    for id in ["a", "b", "c", "a"] {
        add(&server, &format!("equal {id} AT {FAR}"));
    }
    assert_eq!(sessions(&server, "equal"), ["a", "c", "b"]);
}

#[test]
fn the_newest_maxlen_are_kept() {
    let server = Server::start();
    let kept: Vec<i64> = (0..7).map(|n| add(&server, &format!("k s{n}"))).collect();
    assert_eq!(kept, [1, 2, 3, 4, 5, 5, 5]);
    assert_eq!(sessions(&server, "k"), ["s6", "s5", "s4", "s3", "s2"]);
    // The newest by their times are kept: an anchor older than all of them is dropped.
    let old = now_ms() - 60_000;
    assert_eq!(add(&server, &format!("k late AT {old}")), 5);
    assert_eq!(sessions(&server, "k"), ["s6", "s5", "s4", "s3", "s2"]);
    // A given bound applies to this command only.
    assert_eq!(add(&server, "k s7 MAXLEN 3"), 3);
    assert_eq!(sessions(&server, "k"), ["s7", "s6", "s5"]);
    assert_eq!(add(&server, "k s8"), 4);
    for n in 0..20 {
        add(&server, &format!("k t{n} MAXLEN 0"));
    }
    assert_eq!(sessions(&server, "k").len(), 24, "0 is no bound");
    server.run("CONFIG SET session.anchor-maxlen 2");
    assert_eq!(add(&server, "k s9"), 2);
    assert_eq!(add(&server, "k s10 MAXLEN 4294967295"), 3);
    server.run("CONFIG SET session.anchor-maxlen 0");
    assert_eq!(add(&server, "k s11"), 4);
}

#[test]
fn none_older_than_max_age_is_kept() {
    let server = Server::start();
    let (day, now) = (86_400_000, now_ms());
    assert_eq!(add(&server, &format!("k s1 AT {}", now - 7 * day + 60_000)), 1);
    assert_eq!(add(&server, &format!("k s2 AT {}", now - 7 * day - 60_000)), 1);
    assert_eq!(sessions(&server, "k"), ["s1"]);
    assert_eq!(
        add(&server, &format!("k s3 AT {} MAXAGE {}", now - 8 * day, 9 * day)),
        2
    );
    assert_eq!(sessions(&server, "k"), ["s1", "s3"]);
    assert_eq!(add(&server, "k s4"), 2);
    assert_eq!(sessions(&server, "k"), ["s4", "s1"]);
    // The age counts from the content's time, also if that is in the past or future.
    assert_eq!(add(&server, "k s5 AT 0 MAXAGE 0"), 3);
    assert_eq!(add(&server, &format!("k s6 AT {FAR} MAXAGE 60000")), 2);
    assert_eq!(sessions(&server, "k"), ["s6", "s4"]);
    server.run("CONFIG SET session.anchor-max-age 1");
    assert_eq!(add(&server, &format!("new s1 AT {}", now - 10_000)), 0);
    server.run("CONFIG SET session.anchor-max-age 0");
    assert_eq!(add(&server, "new s1 AT 0"), 1);
}

#[test]
fn what_the_age_has_passed_is_hidden_before_anything_frees_it() {
    let server = Server::start();
    let now = now_ms();
    add(&server, &format!("k s1 AT {} MAXAGE 61000", now - 60_000));
    assert_eq!(add(&server, "k s2 MAXAGE 61000"), 2);
    wait_until("the first is hidden", || sessions(&server, "k") == ["s2"]);
    assert_eq!(server.say("SESSION.ANCHOR GET k SESSION s1"), "(empty array)");
    assert_eq!(add(&server, "k s3 MAXAGE 61000"), 2);
    // When all have expired, reads return nothing, and the key exists until the next addition.
    add(&server, "all s1 MAXAGE 1");
    wait_until("all are hidden", || sessions(&server, "all").is_empty());
    assert_eq!(server.say("SESSION.ANCHOR GET all SESSION s1"), "(empty array)");
    assert_eq!(add(&server, "all s2"), 2, "this command's bound is the one that holds");
}

#[test]
fn a_key_is_there_as_long_as_it_has_an_anchor() {
    let server = Server::append_only().config("notify-keyspace-events", "KEA").start();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE __keyevent@0__:*");
    let mut events = |server: &Server| {
        server.run("PUBLISH __keyevent@0__:end end");
        let mut events = Vec::new();
        loop {
            let message = items(&subscriber.receive());
            let event = text(&message[2]).replace("__keyevent@0__:", "");
            match event.as_str() {
                "end" => return events,
                // The server's own notification for any new key.
                "new" | "keymiss" => {}
                _ => events.push(event),
            }
        }
    };
    // Too old from the start.
    assert_eq!(add(&server, "k s1 AT 1000"), 0);
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    assert_eq!(events(&server), [""; 0]);
    // The contract defines no notifications for anchors.
    assert_eq!(add(&server, "k s1 AT 1000 MAXAGE 0"), 1);
    assert_eq!(add(&server, "k s1 AT 2000 MAXAGE 0"), 1);
    assert_eq!(events(&server), [""; 0]);
    let mut watcher = server.client();
    watcher.run("WATCH k");
    let lines = server.propagated_lines(|server| assert_eq!(add(server, "k s2 AT 1000"), 0));
    assert_eq!(lines, ["DEL k"]);
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    assert_eq!(events(&server), ["del"]);
    watcher.run("MULTI");
    assert_eq!(watcher.say("EXEC"), "(nil)");
    assert_eq!(server.info_number("session", "session_anchors"), 0);
    server.restart();
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
}

#[test]
fn the_expiry_is_the_users() {
    let server = Server::append_only().start();
    add(&server, "k s1");
    assert_eq!(server.say("PTTL k"), "(integer) -1");
    server.run(&format!("PEXPIREAT k {FAR}"));
    assert_eq!(add(&server, "k s2"), 2);
    assert_eq!(add(&server, "k s1"), 2);
    assert_eq!(server.expires_at_ms(b"k").to_string(), FAR);
    server.run("SESSION.ANCHOR GET k");
    assert_eq!(server.expires_at_ms(b"k").to_string(), FAR);
    server.restart();
    assert_eq!(server.expires_at_ms(b"k").to_string(), FAR);
    server.run("PERSIST k");
    assert_eq!(server.say("PTTL k"), "(integer) -1");
    // Unlike sessions, anchors do not get `session.default-ttl`.
    server.run("CONFIG SET session.default-ttl 1");
    add(&server, "new s1");
    assert_eq!(server.say("PTTL new"), "(integer) -1");
    server.run("PEXPIRE k 1");
    wait_until("the key expires", || server.say("EXISTS k") == "(integer) 0");
    assert_eq!(add(&server, "k s3"), 1, "and begins anew");
}

#[test]
fn it_is_a_value_of_its_own_type() {
    let server = Server::append_only().start();
    add(&server, "k s1");
    server.run("SESSION.CREATE session");
    server.run("SET string x");
    server.run("RPUSH list x");
    for key in ["session", "string", "list"] {
        for command in [
            "ADD {key} s1",
            "ADD {key} s1 AT 1000",
            "GET {key}",
            "GET {key} SESSION s1",
        ] {
            let command = format!("SESSION.ANCHOR {}", command.replace("{key}", key));
            assert_refused(&server, &talk::split(&command), WRONGTYPE);
        }
    }
    for (_, write) in super::guards::writes(&server) {
        assert_refused(&server, &talk::split(&write.replace("{w}", "")), WRONGTYPE);
    }
    for command in [
        "SESSION.CREATE k",
        "SESSION.CREATE k OPEN",
        "SESSION.GET k",
        "SESSION.GETEX k CREATE",
        "SESSION.RANGE k 0 -1",
        "SESSION.CONTEXT k",
        "SESSION.INFO k",
        "SESSION.LEN k",
        "SESSION.READ k 0",
        "SESSION.EVENT LEN k",
        "SESSION.AGENT LIST k",
        "SESSION.ENTITY LIST k",
        "GET k",
        "RPUSH k x",
    ] {
        assert_refused(&server, &talk::split(command), WRONGTYPE);
    }
    server.run("SET k x");
    assert_eq!(server.say("GET k"), r#""x""#, "SET overwrites any type");
}

// ---------------------------------------------------------------------- bad input

#[test]
fn the_grammar_is_kept() {
    let server = Server::append_only().start();
    add(&server, "k s1");
    for (command, error) in [
        ("ADD k s OUTCOME", "ERR syntax error near 'OUTCOME'"),
        ("ADD k s CHECKPOINT", "ERR syntax error near 'CHECKPOINT'"),
        ("ADD k s IMPACTS", "ERR syntax error near 'IMPACTS'"),
        ("ADD k s IMPACTS 1", "ERR syntax error near 'IMPACTS'"),
        ("ADD k s IMPACTS 3 a b", "ERR syntax error near 'IMPACTS'"),
        ("ADD k s IMPACTS 4294967295 a b", "ERR syntax error near 'IMPACTS'"),
        ("ADD k s IMPACTS 1 a b", "ERR syntax error near 'b'"),
        ("ADD k s IMPACTS 0 a", "ERR syntax error near 'a'"),
        ("ADD k s PERF", "ERR syntax error near 'PERF'"),
        ("ADD k s MAXLEN", "ERR syntax error near 'MAXLEN'"),
        ("ADD k s MAXAGE", "ERR syntax error near 'MAXAGE'"),
        ("ADD k s AT", "ERR syntax error near 'AT'"),
        ("ADD k s OUTCOME a outcome b", "ERR syntax error near 'outcome'"),
        (
            "ADD k s CHECKPOINT 1 CHECKPOINT 1",
            "ERR syntax error near 'CHECKPOINT'",
        ),
        ("ADD k s IMPACTS 0 IMPACTS 1 a", "ERR syntax error near 'IMPACTS'"),
        ("ADD k s PERF 1 PERF 1", "ERR syntax error near 'PERF'"),
        ("ADD k s MAXLEN 1 MAXLEN 1", "ERR syntax error near 'MAXLEN'"),
        ("ADD k s MAXAGE 1 MAXAGE 1", "ERR syntax error near 'MAXAGE'"),
        ("ADD k s AT 1 AT 1", "ERR syntax error near 'AT'"),
        ("ADD k s BOGUS", "ERR syntax error near 'BOGUS'"),
        // It writes no session, so the options of session writes are refused.
        ("ADD k s NOW 5", "ERR syntax error near 'NOW'"),
        ("ADD k s EX 5", "ERR syntax error near 'EX'"),
        ("ADD k s PX 5", "ERR syntax error near 'PX'"),
        ("ADD k s PXAT 4102444800000", "ERR syntax error near 'PXAT'"),
        ("ADD k s PERSIST", "ERR syntax error near 'PERSIST'"),
        ("ADD k s KEEPTTL", "ERR syntax error near 'KEEPTTL'"),
        ("ADD k s IFVERSION 1", "ERR syntax error near 'IFVERSION'"),
        ("ADD k s LEASE 1", "ERR syntax error near 'LEASE'"),
        (
            "ADD k s MAXLEN -1",
            "ERR MAXLEN must be an integer from 0 to 4294967295",
        ),
        (
            "ADD k s MAXLEN 4294967296",
            "ERR MAXLEN must be an integer from 0 to 4294967295",
        ),
        (
            "ADD k s MAXAGE -1",
            "ERR MAXAGE must be an integer from 0 to 253402300799999",
        ),
        ("ADD k s MAXAGE 253402300800000", "ERR MAXAGE must be an integer from …"),
        ("ADD k s AT -1", "ERR AT must be an integer from 0 to 253402300799999"),
        ("ADD k s AT 253402300800000", "ERR AT must be an integer from …"),
        (
            "ADD k s CHECKPOINT -1",
            "ERR CHECKPOINT must be an integer from 0 to 9223372036854775807",
        ),
        (
            "ADD k s CHECKPOINT 9223372036854775808",
            "ERR CHECKPOINT must be an integer from …",
        ),
        (
            "ADD k s IMPACTS -1",
            "ERR IMPACTS must be an integer from 0 to 4294967295",
        ),
        ("ADD k s IMPACTS x", "ERR IMPACTS must be an integer from …"),
        ("ADD k \"\"", "ERR session-id must be UTF-8 text of 1 to 65536 bytes"),
        (
            "ADD k \"\\xff\"",
            "ERR session-id must be UTF-8 text of 1 to 65536 bytes",
        ),
        (
            "ADD k s OUTCOME \"\"",
            "ERR OUTCOME must be UTF-8 text of 1 to 65536 bytes",
        ),
        (
            "ADD k s OUTCOME \"\\xed\\xa0\\x80\"",
            "ERR OUTCOME must be UTF-8 text …",
        ),
        ("ADD k s IMPACTS 2 a \"\"", "ERR IMPACTS must be UTF-8 text …"),
        ("ADD k s IMPACTS 2 \"\\xc3\" a", "ERR IMPACTS must be UTF-8 text …"),
        ("GET k SESSION", "ERR syntax error near 'SESSION'"),
        ("GET k SESSION a SESSION b", "ERR syntax error near 'SESSION'"),
        ("GET k s1", "ERR syntax error near 's1'"),
        ("GET k SESSION \"\"", "ERR SESSION must be UTF-8 text …"),
        ("GET k SESSION \"\\xff\"", "ERR SESSION must be UTF-8 text …"),
        ("ADD", "ERR wrong number of arguments for '…' command"),
        ("ADD k", "ERR wrong number of arguments for '…' command"),
        ("GET", "ERR wrong number of arguments for '…' command"),
        ("HELP k", "ERR wrong number of arguments for '…' command"),
        ("DEL k", "ERR unknown subcommand 'DEL'. Try SESSION.ANCHOR HELP."),
        // Before the key is opened.
        ("ADD string s BOGUS", "ERR syntax error near 'BOGUS'"),
    ] {
        for key in ["k", "new"] {
            let command = command.replace(" k", &format!(" {key}"));
            assert_refused(&server, &talk::split(&format!("SESSION.ANCHOR {command}")), error);
        }
    }
    for number in ["", "x", "1x", "1.0", "1e3", " 1", "1 ", "01", "-0", "0x1", "\u{661}"] {
        for option in ["MAXLEN", "MAXAGE", "AT", "CHECKPOINT", "IMPACTS"] {
            assert_refused(
                &server,
                &["SESSION.ANCHOR", "ADD", "k", "s", option, number],
                &format!("ERR {option} must be an integer from …"),
            );
        }
    }
}

#[test]
fn perf_is_a_number_and_stays_as_it_was_written() {
    let server = Server::append_only().start();
    for number in ["0", "-0", "1.50", "-2.5e-7", "1E400", "123456789012345678901234567890"] {
        server.run(&format!("SESSION.ANCHOR ADD k s PERF {number}"));
        let shown = server.say("SESSION.ANCHOR GET k");
        assert!(shown.contains(&format!(r#""perfDelta":{number},"#)), "{shown}");
    }
    for text in [
        "",
        " 1",
        "1 ",
        "+1",
        ".5",
        "5.",
        "01",
        "1e",
        "0x10",
        "nan",
        "inf",
        "Infinity",
        "null",
        "\"1\"",
        "{}",
        "1,\"m\":2",
        "1}",
        "\u{661}",
    ] {
        assert_refused(
            &server,
            &["SESSION.ANCHOR", "ADD", "k", "s", "PERF", text],
            "ERR PERF must be a number as JSON writes it",
        );
    }
    assert_refused(
        &server,
        &[b"SESSION.ANCHOR", &b"ADD"[..], b"k", b"s", b"PERF", b"\xff"],
        "ERR PERF must be a number as JSON writes it",
    );
}

#[test]
fn texts_have_their_limit() {
    let server = Server::append_only().start();
    let (most, long, huge) = ("x".repeat(65_536), "x".repeat(65_537), "x".repeat(1 << 20));
    for args in [
        vec!["ADD", "k", &most],
        vec!["ADD", "k", "s", "OUTCOME", &most],
        vec!["ADD", "k", "s", "IMPACTS", "2", &most, &most],
        vec!["GET", "k", "SESSION", &most],
    ] {
        let reply = server.call(&[&["SESSION.ANCHOR"][..], &args].concat());
        assert!(!matches!(reply, Value::ServerError(_)));
    }
    for text in [&long, &huge] {
        for (args, name) in [
            (vec!["ADD", "k", text], "session-id"),
            (vec!["ADD", "new", text], "session-id"),
            (vec!["ADD", "k", "s", "OUTCOME", text], "OUTCOME"),
            (vec!["ADD", "k", "s", "IMPACTS", "2", "a", text], "IMPACTS"),
            (vec!["ADD", "k", "s", "PERF", text], "PERF"),
            (vec!["GET", "k", "SESSION", text], "SESSION"),
        ] {
            assert_refused(
                &server,
                &[&["SESSION.ANCHOR"][..], &args].concat(),
                &format!("TOOLARGE {name} is {} bytes, the limit is 65536", text.len()),
            );
        }
    }
    // Ids may contain anything: unusual ones are kept unchanged.
    server.run(r#"SESSION.ANCHOR ADD odd "\x00" OUTCOME "\n\"" IMPACTS 2 "\x00" "é""#);
    assert!(server
        .say("SESSION.ANCHOR GET odd")
        .contains(r#""sessionId":"\u0000","outcome":"\n\"","checkpointId":null,"keyImpacts":["\u0000","é"]"#));
    let binary: [&[u8]; 4] = [b"", b"\x00", b"a\x00b", b"\xff\xfe\x80"];
    for key in binary {
        let reply = server.call(&[b"SESSION.ANCHOR", &b"ADD"[..], key, b"s"]);
        assert_eq!(reply, Value::Int(1));
        assert_eq!(items(&server.call(&[b"SESSION.ANCHOR", &b"GET"[..], key])).len(), 1);
    }
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after a restart", &before, &server.snapshot());
}

// ---------------------------------------------------------------------- replicas, files, copies

#[test]
fn replicas_with_other_settings_keep_the_same() {
    let primary = Server::append_only()
        .config("session.anchor-maxlen", 3)
        .config("session.anchor-max-age", 86_400)
        .start();
    let replica = Options::default().hostile().start();
    replica.replicate(&primary);
    let now = now_ms();
    for n in 0..6 {
        add(
            &primary,
            &format!("by-setting s{n} OUTCOME o{n} AT {}", now - n * 3_600_000),
        );
        add(&primary, &format!("by-option s{n} MAXLEN 4 MAXAGE 0 AT {n}"));
        add(&primary, &format!("by-clock s{n}"));
        add(&primary, &format!("equal s{} AT {now}", n % 4));
    }
    add(&primary, "old s1 AT 1000");
    add(&primary, "gone s1 AT 1000 MAXAGE 0");
    add(&primary, "gone s2 AT 1000");
    assert_eq!(sessions(&primary, "by-setting"), ["s0", "s1", "s2"]);
    assert_eq!(sessions(&primary, "by-option"), ["s5", "s4", "s3", "s2"]);
    let before = primary.snapshot();
    assert_eq!(before.len(), 4);
    replica.wait_for(&primary);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    assert!(replica
        .say("SESSION.ANCHOR ADD by-clock s")
        .starts_with("(error) READONLY"));
    replica.run("REPLICAOF NO ONE");
    oracle::assert_same("on the promoted replica", &before, &replica.snapshot());
    // Now its own settings are the defaults.
    assert_eq!(add(&replica, "by-clock s9"), 1);
    for preamble in ["yes", "no"] {
        primary.restart_with(&Options::default().hostile());
        oracle::assert_same("after a restart", &before, &primary.snapshot());
        primary.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        primary.rewrite_append_only_file();
    }
    primary.restart_with(&Options::default().hostile());
    oracle::assert_same("from SESSION.LOAD", &before, &primary.snapshot());
}

#[test]
fn order_among_equal_times_outlives_everything() {
    oracle::assert_survives_everything(|server| {
        for id in ["a", "b", "c", "d", "b"] {
            server.run(&format!("SESSION.ANCHOR ADD k {id} AT {FAR}"));
        }
        assert_eq!(sessions(server, "k"), ["b", "d", "c", "a"]);
        server.run("SESSION.ANCHOR ADD bounded s MAXAGE 1234567");
        server.run("SESSION.ANCHOR ADD unbounded s MAXAGE 0 AT 0");
        server.run(&format!("PEXPIREAT bounded {FAR}"));
    });
}

#[test]
fn different_anchors_have_different_digests_and_equal_ones_equal_ones() {
    let server = Server::start();
    let base = "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000";
    let mut digests = BTreeSet::new();
    for (n, said) in [
        base,
        "s2 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000",
        "s1 CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME p CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 0 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 b a PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 1 ab PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 PERF 1 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b PERF 1.0 MAXAGE 0 AT 1000",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 0 AT 1001",
        "s1 OUTCOME o CHECKPOINT 1 IMPACTS 2 a b PERF 1 MAXAGE 253402300799999 AT 1000",
    ]
    .iter()
    .enumerate()
    {
        server.run(&format!("SESSION.ANCHOR ADD k{n} {said}"));
        assert!(digests.insert(server.digest(format!("k{n}").as_bytes())), "{said}");
    }
    // However the content came about.
    server.run("SESSION.ANCHOR ADD again other MAXAGE 0 AT 5");
    server.run(&format!("SESSION.ANCHOR ADD again {base} MAXLEN 1"));
    assert_eq!(server.digest(b"again"), server.digest(b"k0"));
}

#[test]
fn copies_go_their_own_ways() {
    let server = Server::start();
    for n in 0..5 {
        add(&server, &format!("k s{n}"));
    }
    let digest = server.digest(b"k");
    server.run("COPY k copy");
    let dump = bytes(&server.run("DUMP k"));
    add(&server, "copy only-here");
    assert_eq!(server.digest(b"k"), digest);
    server.run("DEL k");
    assert_eq!(sessions(&server, "copy"), ["only-here", "s4", "s3", "s2", "s1"]);
    server.call(&[b"RESTORE".as_slice(), b"k", b"0", &dump]);
    assert_eq!(server.digest(b"k"), digest);
    server.conversation(
        r#"
        > RENAME k r
        OK
        > SESSION.ANCHOR GET k
        (empty array)
        > MOVE r 1
        (integer) 1
        > SWAPDB 0 1
        OK
        > SESSION.ANCHOR ADD r s9
        (integer) 5
        > OBJECT ENCODING r
        …
        > UNLINK r
        (integer) 1
        "#,
    );
}

#[test]
fn no_payload_makes_an_empty_key() {
    let server = Server::with("rdbcompression", "no").start();
    add(&server, "k s MAXAGE 0 AT 0");
    let dump = bytes(&server.run("DUMP k"));
    // The payload as drawn: 0, 'A', 1, max age 0, one anchor (time 0, "s", no flags, no impacts).
    let payload = [0, b'A', 1, 0, 1, 0, 1, b's', 0, 0];
    let at = dump
        .windows(payload.len())
        .position(|window| window == payload)
        .expect("the payload is in the dump");
    assert_eq!(usize::from(dump[at - 1]), payload.len());
    for (bad, why) in [
        (&[0, b'A', 1, 0, 0][..], "no anchors"),
        (&[0, b'A', 2, 0, 1, 0, 1, b's', 0, 0], "an unknown format"),
        (&[0, b'D', 1, 0, 1, 0, 1, b's', 0, 0], "another type"),
        (&[], "another type"),
    ] {
        let mut spoiled = [&dump[..at - 1], &[bad.len() as u8], bad, &dump[at + payload.len()..]].concat();
        redis_session_tests::payload::seal(&mut spoiled);
        let reply = talk::render(&server.call(&[b"RESTORE".as_slice(), b"new", b"0", &spoiled]));
        assert_eq!(reply, "(error) ERR Bad data format", "{why}");
        assert!(server.log().contains(why), "{why}");
    }
    assert_eq!(server.say("EXISTS new"), "(integer) 0");
    assert_eq!(server.info_number("session", "session_anchors"), 1);
}

#[test]
fn memory_usage_counts_what_anchors_hold() {
    let server = Server::start();
    let usage = |key: &str| int(&server.run(&format!("MEMORY USAGE {key}")));
    let uuid = "0190a8b4-6d2e-7c3a-9f10-12345678900";
    for n in 0..5 {
        server.run(&format!(
            "SESSION.ANCHOR ADD k {uuid}{n} OUTCOME pass IMPACTS 2 e1 e2 PERF 1.5"
        ));
    }
    let few = usage("k");
    assert!((300..3000).contains(&few), "{few}");
    for n in 0..1000 {
        server.run(&format!("SESSION.ANCHOR ADD k s{n} MAXLEN 0"));
    }
    let many = usage("k");
    assert!(many > 100_000 && many < 500_000, "{many}");
    add(&server, "k last MAXLEN 1");
    assert!(usage("k") < few);
}

#[test]
fn freeing_on_another_thread_is_safe() {
    let server = Server::with("lazyfree-lazy-user-del", "yes").start();
    for round in 0..3 {
        for key in 0..5 {
            for n in 0..200 {
                add(&server, &format!("k{key} s{n} MAXLEN 0"));
            }
            server.run(&format!("COPY k{key} c{key} REPLACE"));
        }
        match round {
            0 => server.run("UNLINK k0 k1 k2 k3 k4"),
            1 => server.run("DEL k0 k1 k2 k3 k4"),
            _ => server.run("FLUSHALL ASYNC"),
        };
        for key in 0..5 {
            server.run(&format!("SESSION.ANCHOR GET c{key}"));
            server.run(&format!("SESSION.ANCHOR ADD c{key} s1"));
        }
    }
    server.run("FLUSHALL ASYNC");
    wait_until("everything is freed", || {
        server.info_number("memory", "lazyfree_pending_objects") == 0
            && server.info_number("session", "session_anchors") == 0
    });
}

#[test]
fn active_defragmentation_moves_anchors_unharmed() {
    let server = Server::with("maxmemory", "0").start();
    if !matches!(server.attempt("CONFIG SET activedefrag yes"), Value::Okay) {
        println!("skipped: this server cannot defragment");
        return;
    }
    server.run("CONFIG SET active-defrag-ignore-bytes 1 active-defrag-threshold-lower 0 active-defrag-cycle-min 50 active-defrag-cycle-max 75");
    for key in 0..400 {
        for n in 0..5 {
            server.run(&format!(
                "SESSION.ANCHOR ADD k{key} session-{n} OUTCOME o{n} IMPACTS 2 e{n} {} PERF 1.{n}",
                "x".repeat(n * 40 + 1)
            ));
        }
    }
    for n in 0..3000 {
        add(&server, &format!("large s{n} MAXLEN 0"));
    }
    for key in (0..400).step_by(2) {
        server.run(&format!("DEL k{key}"));
    }
    server.run("COPY k1 copy");
    let before = server.snapshot();
    let hits = || {
        server.info_number("stats", "active_defrag_key_hits") + server.info_number("stats", "active_defrag_key_misses")
    };
    let start = std::time::Instant::now();
    while hits() < 400 && start.elapsed().as_secs() < 5 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    println!("defragmentation looked at {} keys", hits());
    oracle::assert_same("while defragmenting", &before, &server.snapshot());
    for key in ["k1", "copy", "large"] {
        add(&server, &format!("{key} session-3 MAXLEN 0"));
        assert_eq!(sessions(&server, key)[0], "session-3");
    }
    let before = server.snapshot();
    server.run("DEBUG RELOAD");
    oracle::assert_same("after defragmenting", &before, &server.snapshot());
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
}

// ---------------------------------------------------------------------- the server around it

#[test]
fn transactions_and_scripts_hold_them() {
    let server = Server::append_only().start();
    server.conversation(
        r#"
        > MULTI
        OK
        > SESSION.ANCHOR ADD k s1
        QUEUED
        > SESSION.ANCHOR ADD k s2 BOGUS
        QUEUED
        > SESSION.ANCHOR GET k
        QUEUED
        > EXEC
        1) (integer) 1
        2) (error) ERR syntax error near 'BOGUS'
        3) 1) '{"sessionId":"s1",…}'
        > EVAL "return redis.call('SESSION.ANCHOR', 'ADD', KEYS[1], ARGV[1])" 1 k s2
        (integer) 2
        > EVAL_RO "return #redis.call('SESSION.ANCHOR', 'GET', KEYS[1])" 1 k
        (integer) 2
        > EVAL_RO "return redis.call('SESSION.ANCHOR', 'ADD', KEYS[1], 's')" 1 k
        (error) …
        "#,
    );
    let lines = server.propagated_lines(|server| {
        server.run("EVAL \"redis.call('SESSION.ANCHOR', 'ADD', KEYS[1], 's3') return redis.call('SESSION.ANCHOR', 'ADD', KEYS[1], 's4')\" 1 k");
    });
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[1].starts_with("SESSION.ANCHOR ADD k s3 MAXLEN 5 MAXAGE 604800000 AT "));
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn the_server_knows_what_it_does() {
    let server = Server::start();
    let reply = items(&server.run("COMMAND INFO SESSION.ANCHOR"));
    let subcommands = items(&items(&reply[0])[9]);
    for (name, has, has_not) in [
        ("add", "write denyoom fast", "readonly"),
        ("get", "readonly", "write denyoom fast"),
        ("help", "fast", "write readonly"),
    ] {
        let info = subcommands
            .iter()
            .map(items)
            .find(|info| text(&info[0]).eq_ignore_ascii_case(&format!("session.anchor|{name}")))
            .unwrap_or_else(|| panic!("no {name}"));
        let flags: BTreeSet<String> = items(&info[2]).iter().map(text).collect();
        for flag in has.split_whitespace() {
            assert!(flags.contains(flag), "{name} is not {flag}: {flags:?}");
        }
        for flag in has_not.split_whitespace() {
            assert!(!flags.contains(flag), "{name} is {flag}: {flags:?}");
        }
    }
    let docs = server.run("COMMAND DOCS SESSION.ANCHOR");
    let mut told = BTreeSet::new();
    let group = items(&docs)[1].clone();
    for subcommand in items(&redis_session_tests::entry(&group, "subcommands")).chunks(2) {
        if let Some(arguments) = items(&subcommand[1])
            .chunks(2)
            .find(|pair| text(&pair[0]) == "arguments")
        {
            collect_tokens(&arguments[1], &mut told);
        }
    }
    let tokens = "OUTCOME CHECKPOINT IMPACTS PERF MAXLEN MAXAGE AT SESSION";
    assert_eq!(told, tokens.split(' ').map(String::from).collect());
    let help = server.say("SESSION.ANCHOR HELP");
    assert!(help.contains("ADD key session-id [OUTCOME outcome]") && help.contains("GET key [SESSION session-id]"));
}

#[test]
fn access_goes_by_subcommand_and_key() {
    let server = Server::start();
    user(&server, "~anchor:* +session.anchor").conversation(
        r#"
        > SESSION.ANCHOR ADD anchor:e s1 OUTCOME other IMPACTS 1 other
        (integer) 1
        > SESSION.ANCHOR ADD other s1
        (error) NOPERM …
        > SESSION.ANCHOR GET other SESSION anchor:e
        (error) NOPERM …
        "#,
    );
    user(&server, "~* +session.anchor|get").conversation(
        r#"
        > SESSION.ANCHOR GET anchor:e
        1) …
        > SESSION.ANCHOR ADD anchor:e s1
        (error) NOPERM …
        "#,
    );
    user(&server, "%R~anchor:* +session.anchor").conversation(
        r#"
        > SESSION.ANCHOR GET anchor:e
        1) …
        > SESSION.ANCHOR ADD anchor:e s1
        (error) NOPERM …
        "#,
    );
    // A user who may only write gets no content back, and needs no read permission.
    user(&server, "%W~anchor:* +session.anchor").conversation(
        r#"
        > SESSION.ANCHOR ADD anchor:e s2
        (integer) 2
        > SESSION.ANCHOR GET anchor:e
        (error) NOPERM …
        "#,
    );
    if server.flavor().has_module_acl_categories() {
        user(&server, "~* +@read").conversation(
            r#"
            > SESSION.ANCHOR GET anchor:e
            …
            > SESSION.ANCHOR ADD anchor:e s1
            (error) NOPERM …
            "#,
        );
    }
    if server.flavor().has_own_acl_category() {
        user(&server, "~* +@session").run("SESSION.ANCHOR ADD anchor:e s1");
    }
}

#[test]
fn out_of_memory_refuses_more() {
    let server = Server::start();
    add(&server, "k s1");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    assert!(server.say("SESSION.ANCHOR ADD k s2").starts_with("(error) OOM"));
    server.run("SESSION.ANCHOR GET k");
    server.run("SESSION.ANCHOR HELP");
}

#[test]
fn info_counts_the_keys() {
    let server = Server::start();
    let count = || server.info_number("session", "session_anchors");
    assert_eq!(count(), 0);
    add(&server, "a s1");
    add(&server, "a s2");
    add(&server, "b s1");
    add(&server, "old s1 AT 1000");
    assert_eq!(count(), 2);
    server.run("COPY a c");
    assert_eq!(count(), 3);
    server.run("DEBUG RELOAD");
    assert_eq!(count(), 3);
    server.run("RENAME a b");
    assert_eq!(count(), 2);
    server.run("SET b x");
    assert_eq!(count(), 1);
    server.run("FLUSHALL SYNC");
    assert_eq!(count(), 0);
    assert_eq!(server.info_number("session", "session_active_sessions"), 0);
}
