//! Checkpoints, restores, recovery references, and closed sessions.

use std::collections::BTreeMap;

use redis_session_tests::payload::Random;
use redis_session_tests::table::assert_examples;
use redis_session_tests::{bytes, int, items, now_ms, oracle, talk, text, wait_until, Client, Options, Server, Value};
use serde_json::{json, Value as Json};

use super::bad_input::assert_refused;
use super::random::random_write;
use super::surroundings::{collect_tokens, user};

const ID: &str = "0190a8b4-6d2e-7c3a-9f10-123456789abc";

fn read_json(reply: &Value) -> Json {
    serde_json::from_str(&text(reply)).expect("JSON")
}

/// Returns a checkpoint as `GET` shows it; `LIST` and the document must show the same.
#[track_caller]
fn checkpoint(server: &Server, key: &str, id: i64) -> Json {
    let shown = read_json(&server.run(&format!("SESSION.CHECKPOINT GET {key} {id}")));
    let listed: Vec<Json> = items(&server.run(&format!("SESSION.CHECKPOINT LIST {key}")))
        .iter()
        .map(read_json)
        .collect();
    assert!(listed.contains(&shown), "{shown} is not in {listed:?}");
    assert_eq!(server.document(key)["checkpoints"], Json::Array(listed));
    shown
}

/// Returns the ids of a session's checkpoints, oldest first.
#[track_caller]
fn ids(server: &Server, key: &str) -> Vec<i64> {
    items(&server.run(&format!("SESSION.CHECKPOINT LIST {key}")))
        .iter()
        .map(|checkpoint| read_json(checkpoint)["checkpointId"].as_i64().expect("an id"))
        .collect()
}

/// Returns everything that a restore brings back.
fn brought_back(server: &Server, key: &str) -> [Json; 5] {
    let mut document = server.document(key);
    let rows = talk::render(&server.run(&format!("SESSION.RANGE {key} 0 -1 WITHMETA")));
    [
        document["messages"].take(),
        Json::String(rows),
        document["entities_mentioned"].take(),
        document["agents"].take(),
        document["state"].take(),
    ]
}

/// Asserts that a key expires `ttl_ms` after a moment between `before_ms` and now.
#[track_caller]
fn assert_expires_in(server: &Server, key: &str, before_ms: i64, ttl_ms: i64) {
    let expires_at_ms = server.expires_at_ms(key.as_bytes());
    let range = before_ms + ttl_ms..=now_ms() + ttl_ms;
    assert!(range.contains(&expires_at_ms), "{expires_at_ms} is not in {range:?}");
}

/// Returns the entries of `SESSION.READ` as `seq kind`, a gap as `gap from-to`.
fn read(server: &Server, line: &str) -> Vec<String> {
    match server.run(line) {
        Value::Nil => Vec::new(),
        reply => items(&reply).iter().map(told).collect(),
    }
}

fn told(entry: &Value) -> String {
    let entry = items(entry);
    match text(&entry[2]).as_str() {
        "gap" => {
            let gap = read_json(&entry[3]);
            format!("gap {}-{}", gap["from"], gap["to"])
        }
        kind => format!("{} {kind}", int(&entry[0])),
    }
}

// ---------------------------------------------------------------------- CREATE, GET, LIST, DEL

#[test]
fn a_checkpoint_is_shown_word_for_word() {
    let server = Server::start();
    for mut client in [server.client(), server.client().resp3()] {
        server.run("DEL k");
        client.conversation(
            r#"
            > SESSION.CREATE k ID 0190a8b4-6d2e-7c3a-9f10-123456789abc LIMIT event-ttl 0
            > SESSION.CHECKPOINT CREATE k AT 1768384800000
            (integer) 1
            > SESSION.CHECKPOINT GET k 1
            '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"working","label":null}'
            > SESSION.APPEND k MSG user hi
            (integer) 2
            > SESSION.EVENT ADD k pass ENTITIES 2 e1 e2 IMPACT '{"perf":1,"a":{"x":[1]}}' STATE review
            (integer) 3
            > SESSION.EVENT ADD k broke CHANGE '{"file":"f","entityIds":["e2","e\"3"]}' IMPACT '{"a": 2 ,"b":null}'
            (integer) 4
            > SESSION.EVENT ADD k pass
            (integer) 5
            > session.checkpoint create k label "a \"label\"" outcome done at 1768384800001
            (integer) 6
            > SESSION.CHECKPOINT GET k 6
            '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":6,"timestamp":"2026-01-14T10:00:00.001Z","refEntities":["e1","e2","e\"3"],"summary":{"impacts":{"perf":1,"a":2,"b":null}},"outcome":"done","state":"review","label":"a \"label\""}'
            # since the last checkpoint alone
            > SESSION.EVENT ADD k pass ENTITIES 1 e9 IMPACT '{"b":3}' STATE done
            (integer) 7
            > SESSION.CHECKPOINT CREATE k AT 1768384800002
            (integer) 8
            # given ones are taken as they are, a summary is the whole summary
            > SESSION.CHECKPOINT CREATE k REFS 3 x e1 x SUMMARY ' { "mine" : [1.50] } ' AT 1768384800003
            (integer) 9
            > SESSION.CHECKPOINT CREATE k REFS 0 AT 1768384800004
            (integer) 10
            > SESSION.CHECKPOINT LIST k
            1) '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z",…}'
            2) '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":6,"timestamp":"2026-01-14T10:00:00.001Z",…}'
            3) '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":8,"timestamp":"2026-01-14T10:00:00.002Z","refEntities":["e9"],"summary":{"impacts":{"b":3}},"outcome":null,"state":"done","label":null}'
            4) '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":9,"timestamp":"2026-01-14T10:00:00.003Z","refEntities":["x","e1","x"],"summary":{ "mine" : [1.50] },"outcome":null,"state":"done","label":null}'
            5) '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":10,"timestamp":"2026-01-14T10:00:00.004Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"done","label":null}'
            > SESSION.CHECKPOINT GET k 7
            (nil)
            > SESSION.CHECKPOINT GET k 0
            (nil)
            > SESSION.CHECKPOINT DEL k 6 6 7 9
            (integer) 2
            > SESSION.CHECKPOINT GET k 6
            (nil)
            > SESSION.CHECKPOINT DEL k 6
            (integer) 0
            > SESSION.CHECKPOINT RESTORE k 6
            (error) NOCHECKPOINT no checkpoint 6 in the session at key 'k'
            # its number is not given again
            > SESSION.CHECKPOINT DEL k 10
            (integer) 1
            > SESSION.CHECKPOINT CREATE k
            (integer) 11
            "#,
        );
        assert_eq!(ids(&server, "k"), [1, 8, 11]);
        checkpoint(&server, "k", 8);
    }
    // By the server's clock without AT.
    let before = now_ms();
    server.run("SESSION.CHECKPOINT CREATE k");
    let shown = checkpoint(&server, "k", 12)["timestamp"]
        .as_str()
        .expect("a time")
        .to_owned();
    server.run(&format!("SESSION.EVENT ADD k pass AT {before}"));
    let event = read_json(&items(&server.run("SESSION.EVENT RANGE k - + REV COUNT 1"))[0]);
    assert!(event["timestamp"].as_str().expect("a time") <= shown.as_str());
}

#[test]
fn a_missing_session_and_another_type() {
    let server = Server::append_only().start();
    server.run("SET string x");
    server.conversation(
        r#"
        > SESSION.CHECKPOINT GET absent 1
        (nil)
        > SESSION.CHECKPOINT LIST absent
        (empty array)
        "#,
    );
    for command in ["CREATE {}", "CREATE {} STORE ref CLOSE", "DEL {} 1", "RESTORE {} 1"] {
        let words = |key: &str| talk::split(&format!("SESSION.CHECKPOINT {}", command.replace("{}", key)));
        assert_refused(&server, &words("absent"), "NOSESSION no session at key 'absent'");
        assert_refused(
            &server,
            &words("string"),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }
    for command in ["GET string 1", "LIST string"] {
        assert_refused(
            &server,
            &talk::split(&format!("SESSION.CHECKPOINT {command}")),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }
}

#[test]
fn later_impacts_win_in_the_order_of_seqs() {
    let server = Server::start();
    // Dated backwards: the order is that of seqs.
    for (impact, age_s) in [
        (r#"{"a":1,"\u0062":"x","deep":{"x":1,"y":2}}"#, 10),
        (r#"{"b":"y","c":[1, 2],"a":1}"#, 30),
        (r#"{"deep":{"z":3},"c":5,"c":6}"#, 20),
    ] {
        let at = now_ms() - age_s * 1000;
        server.run(&format!("SESSION.EVENT ADD k pass IMPACT '{impact}' AT {at}"));
    }
    assert_eq!(server.say("SESSION.CHECKPOINT CREATE k"), "(integer) 4");
    assert_eq!(
        checkpoint(&server, "k", 4)["summary"],
        json!({"impacts": {"a": 1, "b": "y", "deep": {"z": 3}, "c": 6}})
    );
    // The events of handoffs and restores belong to it like any other.
    server.run("SESSION.AGENT HANDOFF k a b");
    server.run("SESSION.CHECKPOINT RESTORE k 4");
    server.run("SESSION.CHECKPOINT CREATE k");
    assert_eq!(checkpoint(&server, "k", 7)["summary"], json!({"impacts": {}}));
    // As many refs as there are, once each, and no summary too deep.
    let deep = format!("{{\"d\":{}{}}}", "[".repeat(127), "]".repeat(127));
    for n in 0..300 {
        server.call(&[
            "SESSION.EVENT",
            "ADD",
            "k",
            "pass",
            "ENTITIES",
            "2",
            &format!("e{}", n % 150),
            "all",
            "IMPACT",
            &deep,
        ]);
    }
    let id = int(&server.run("SESSION.CHECKPOINT CREATE k"));
    let made = text(&server.run(&format!("SESSION.CHECKPOINT GET k {id}")));
    assert!(made.contains(&format!("\"impacts\":{deep}")));
    assert_eq!(made.matches("\"e").count(), 150);
    assert!(made.contains(r#""refEntities":["e0","all","e1","e2","#), "{made:.200}");
}

#[test]
fn what_event_ttl_has_passed_is_in_no_summary() {
    let server = Server::start();
    server.run(&format!(
        "SESSION.EVENT ADD k pass ENTITIES 1 old IMPACT '{{\"old\":1}}' AT {}",
        now_ms() - 3_590_000
    ));
    server.run("SESSION.EVENT ADD k pass ENTITIES 1 passed IMPACT '{\"passed\":1}' AT 1000");
    server.run("SESSION.EVENT ADD k pass ENTITIES 1 new IMPACT '{\"new\":1}'");
    let id = int(&server.run("SESSION.CHECKPOINT CREATE k"));
    let made = checkpoint(&server, "k", id);
    assert_eq!(made["refEntities"], json!(["old", "new"]));
    assert_eq!(made["summary"], json!({"impacts": {"old": 1, "new": 1}}));
}

#[test]
fn trim_drops_the_events_since_the_previous_checkpoint() {
    let server = Server::start();
    for command in [
        "SESSION.EVENT ADD k pass",
        "SESSION.CHECKPOINT CREATE k",
        "SESSION.EVENT ADD k pass ENTITIES 1 e IMPACT '{\"n\":1}'",
        "SESSION.APPEND k MSG user hi",
        "SESSION.EVENT ADD k pass",
    ] {
        server.run(command);
    }
    assert_eq!(server.say("SESSION.CHECKPOINT CREATE k TRIM"), "(integer) 6");
    assert_eq!(
        server.document("k")["events"],
        json!({"count": 1, "first_seq": 1, "last_seq": 1})
    );
    let made = checkpoint(&server, "k", 6);
    assert_eq!(made["refEntities"], json!(["e"]));
    assert_eq!(made["summary"], json!({"impacts": {"n": 1}}));
    assert_eq!(
        read(&server, "SESSION.READ k 2"),
        ["gap 3-5", "4 message", "6 checkpoint"]
    );
    assert_eq!(read(&server, "SESSION.READ k 0 EVENTS"), ["gap 1-5", "1 event"]);
    assert_eq!(read(&server, "SESSION.READ k 5"), ["6 checkpoint"]);
    assert_eq!(read(&server, "SESSION.READ k 5 MESSAGES"), [""; 0]);
    assert_eq!(server.say("SESSION.EVENT ADD k pass"), "(integer) 7");
    // For the first checkpoint, all events.
    server.run("SESSION.EVENT ADD first pass");
    server.run("SESSION.CHECKPOINT CREATE first trim");
    assert_eq!(server.say("SESSION.EVENT LEN first"), "(integer) 0");
}

#[test]
fn the_oldest_checkpoint_goes() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT max-checkpoints 2");
    for id in 1..=4 {
        assert_eq!(int(&server.run("SESSION.CHECKPOINT CREATE k")), id);
    }
    assert_eq!(ids(&server, "k"), [3, 4]);
    assert_eq!(
        read(&server, "SESSION.READ k 0"),
        ["gap 1-2", "3 checkpoint", "4 checkpoint"]
    );
    assert_eq!(
        read(&server, "SESSION.READ k 1"),
        ["gap 2-2", "3 checkpoint", "4 checkpoint"]
    );
    assert_eq!(read(&server, "SESSION.READ k 0 EVENTS"), [""; 0]);
    server.run("SESSION.CHECKPOINT DEL k 4");
    assert_eq!(read(&server, "SESSION.READ k 3"), ["gap 4-4"]);
    // By the configured default, and without a bound.
    for (limit, left) in [("", 3), ("LIMIT max-checkpoints 0", 20)] {
        server.run("CONFIG SET session.max-checkpoints 3");
        server.run("DEL d");
        server.run(&format!("SESSION.CREATE d {limit}"));
        for _ in 0..20 {
            server.run("SESSION.CHECKPOINT CREATE d");
        }
        assert_eq!(ids(&server, "d").len(), left);
    }
    server.run("CONFIG SET session.max-checkpoints 1");
    server.run("SESSION.CHECKPOINT CREATE k");
    assert_eq!(ids(&server, "k"), [3, 5], "a session's limit is its own");
}

#[test]
fn each_is_one_version_and_slides() {
    let server = Server::start();
    server.run("SESSION.CREATE k EX 1000");
    for (command, changes) in [
        ("CREATE k", true),
        ("CREATE k TRIM LABEL l", true),
        ("CREATE k STORE ref", true),
        ("RESTORE k 1", true),
        ("RESTORE k 1", true),
        ("RESTORE k 9", false),
        ("DEL k 2 3", true),
        ("DEL k 2 3", false),
        ("GET k 1", false),
        ("LIST k", false),
    ] {
        let version = server.version_of("k");
        let is_new = server.expires_at_ms(b"k");
        let start = now_ms();
        wait_until("the clock ticks", || now_ms() > start + 2);
        let before = now_ms();
        let reply = server.attempt(&format!("SESSION.CHECKPOINT {command}"));
        assert_eq!(server.version_of("k"), version + i64::from(changes), "{command}");
        if changes {
            assert_expires_in(&server, "k", before, 1_000_000);
        } else {
            assert_eq!(server.expires_at_ms(b"k"), is_new, "{command}");
        }
        if command.starts_with("RESTORE k 1") {
            assert_eq!(int(&reply), version + 1, "the new version");
        }
    }
}

#[test]
fn the_options_of_every_write_hold() {
    let server = Server::append_only().start();
    let set_up = || {
        server.run("DEL k");
        server.run("SESSION.APPEND k MSG user hi");
        server.run("SESSION.CHECKPOINT CREATE k");
        server.run("SESSION.APPEND k MSG user more");
    };
    for command in ["CREATE k {w}", "CREATE k CLOSE {w}", "DEL k 2 {w}", "RESTORE k 2 {w}"] {
        let with = |options: &str| format!("SESSION.CHECKPOINT {}", command.replace("{w}", options));
        set_up();
        for (options, error) in [
            ("IFVERSION 3", "VERSIONCONFLICT session is at version 4, not 3"),
            ("LEASE 1", "LEASELOST token 1 is stale"),
            ("IFVERSION 3 LEASE 1", "LEASELOST token 1 is stale"),
            ("AT 1 AT 1", "ERR syntax error near 'AT'"),
            ("EX 5 PX 5", "ERR syntax error near 'PX'"),
            ("EX x", "ERR EX must be an integer from 1 to …"),
            ("NOW 5", "ERR syntax error near 'NOW'"),
            ("EX", "ERR syntax error near 'EX'"),
            ("BOGUS", "ERR syntax error near 'BOGUS'"),
        ] {
            assert_refused(&server, &talk::split(&with(options)), error);
        }
        let lease = int(&server.run("SESSION.AGENT LEASE k a 1000000"));
        for (options, error) in [
            ("", "LEASEHELD agent 'a' holds the turn for … ms more"),
            ("IFVERSION 3", "LEASEHELD agent 'a' holds the turn for … ms more"),
            ("LEASE 9 IFVERSION 3", "LEASELOST token 9 is stale"),
            ("LEASE 1 IFVERSION 3", "VERSIONCONFLICT session is at version 4, not 3"),
        ] {
            assert_refused(&server, &talk::split(&with(options)), error);
        }
        server.run(&with(&format!("ifversion 4 lease {lease} pxat 4102444800000")));
        assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000, "{command}");
        for (options, ttl_ms) in [("EX 100", 100_000), ("px 50000 at 5", 50_000)] {
            set_up();
            let before = now_ms();
            server.run(&with(options));
            assert_expires_in(&server, "k", before, ttl_ms);
        }
        set_up();
        let expires_at_ms = server.expires_at_ms(b"k");
        server.run(&with("KEEPTTL"));
        assert_eq!(server.expires_at_ms(b"k"), expires_at_ms, "{command}");
        set_up();
        server.run(&with("PERSIST"));
        assert_eq!(server.expires_at_ms(b"k"), -1, "{command}");
        set_up();
        server.run(&with("PXAT 1000"));
        assert_eq!(server.say("EXISTS k"), "(integer) 0", "{command}");
    }
}

#[test]
fn the_grammar_of_checkpoints_is_kept() {
    let server = Server::append_only().start();
    server.run("SESSION.EVENT ADD k pass ENTITIES 1 e");
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run("SET string x");
    let long = "x".repeat(65_537);
    for (command, error) in [
        ("CREATE", "ERR wrong number of arguments for '…' command"),
        ("GET k", "ERR wrong number of arguments for '…' command"),
        ("GET k 1 2", "ERR wrong number of arguments for '…' command"),
        ("LIST", "ERR wrong number of arguments for '…' command"),
        ("LIST k 1", "ERR wrong number of arguments for '…' command"),
        ("DEL k", "ERR wrong number of arguments for '…' command"),
        ("RESTORE k", "ERR wrong number of arguments for '…' command"),
        ("HELP k", "ERR wrong number of arguments for '…' command"),
        (
            "BOGUS k",
            "ERR unknown subcommand 'BOGUS'. Try SESSION.CHECKPOINT HELP.",
        ),
        ("CREATE k STORE", "ERR syntax error near 'STORE'"),
        ("CREATE k GRACE", "ERR syntax error near 'GRACE'"),
        ("CREATE k LABEL", "ERR syntax error near 'LABEL'"),
        ("CREATE k OUTCOME", "ERR syntax error near 'OUTCOME'"),
        ("CREATE k SUMMARY", "ERR syntax error near 'SUMMARY'"),
        ("CREATE k REFS", "ERR syntax error near 'REFS'"),
        ("CREATE k REFS 2 a", "ERR syntax error near 'REFS'"),
        ("CREATE k REFS 4294967295 a", "ERR syntax error near 'REFS'"),
        ("CREATE k REFS 1 a b", "ERR syntax error near 'b'"),
        ("CREATE k STORE a STORE b", "ERR syntax error near 'STORE'"),
        ("CREATE k STORE a store a", "ERR syntax error near 'store'"),
        ("CREATE k GRACE 1 GRACE 1", "ERR syntax error near 'GRACE'"),
        ("CREATE k LABEL a LABEL a", "ERR syntax error near 'LABEL'"),
        ("CREATE k OUTCOME a OUTCOME a", "ERR syntax error near 'OUTCOME'"),
        ("CREATE k SUMMARY {} SUMMARY {}", "ERR syntax error near 'SUMMARY'"),
        ("CREATE k REFS 0 REFS 0", "ERR syntax error near 'REFS'"),
        ("CREATE k TRIM TRIM", "ERR syntax error near 'TRIM'"),
        ("CREATE k CLOSE close", "ERR syntax error near 'close'"),
        ("CREATE k GRACE x", "ERR GRACE must be an integer from 0 to …"),
        ("CREATE k GRACE -1", "ERR GRACE must be an integer from 0 to …"),
        (
            "CREATE k GRACE 99999999999999999",
            "ERR GRACE must be an integer from 0 to …",
        ),
        ("CREATE k REFS -1", "ERR REFS must be an integer from 0 to 4294967295"),
        ("CREATE k REFS x", "ERR REFS must be an integer from 0 to 4294967295"),
        (
            "CREATE k REFS 1 \"\"",
            "ERR REFS must be UTF-8 text of 1 to 65536 bytes",
        ),
        (
            "CREATE k REFS 1 \"\\xff\"",
            "ERR REFS must be UTF-8 text of 1 to 65536 bytes",
        ),
        (
            "CREATE k LABEL \"\"",
            "ERR LABEL must be UTF-8 text of 1 to 65536 bytes",
        ),
        (
            "CREATE k OUTCOME \"\\xff\"",
            "ERR OUTCOME must be UTF-8 text of 1 to 65536 bytes",
        ),
        ("CREATE k SUMMARY []", "ERR SUMMARY is not a JSON object (…)"),
        ("CREATE k SUMMARY '{\"a\":'", "ERR SUMMARY is not a JSON object (…)"),
        ("CREATE k SUMMARY \"\\xff\"", "ERR SUMMARY is not a JSON object (…)"),
        ("CREATE k STORE k", "ERR STORE needs another key than the session's 'k'"),
        (
            "CREATE string STORE string",
            "ERR STORE needs another key than the session's 'string'",
        ),
        ("GET k x", "ERR checkpoint-id must be an integer from 0 to …"),
        ("GET k -1", "ERR checkpoint-id must be an integer from 0 to …"),
        ("DEL k x", "ERR checkpoint-id must be an integer from 0 to …"),
        ("DEL k 1 -1", "ERR checkpoint-id must be an integer from 0 to …"),
        ("DEL k 1 x", "ERR syntax error near 'x'"),
        ("DEL k 1 EX 5 2", "ERR syntax error near '2'"),
        ("RESTORE k x", "ERR checkpoint-id must be an integer from 0 to …"),
        ("RESTORE k 2 2", "ERR syntax error near '2'"),
        ("RESTORE k 1", "NOCHECKPOINT no checkpoint 1 in the session at key 'k'"),
        ("RESTORE k 0", "NOCHECKPOINT no checkpoint 0 in the session at key 'k'"),
        (
            "RESTORE k 9223372036854775807",
            "NOCHECKPOINT no checkpoint 9223372036854775807 in …",
        ),
        // Order of the checks: syntax, bodies, type, session, lease, version, state.
        ("CREATE string SUMMARY [] BOGUS", "ERR syntax error near 'BOGUS'"),
        ("CREATE string SUMMARY []", "ERR SUMMARY is not a JSON object (…)"),
        (
            "CREATE absent SUMMARY [] IFVERSION 9",
            "ERR SUMMARY is not a JSON object (…)",
        ),
        (
            "CREATE absent IFVERSION 9 LEASE 9",
            "NOSESSION no session at key 'absent'",
        ),
        ("RESTORE k 1 IFVERSION 9 LEASE 9", "LEASELOST token 9 is stale"),
        (
            "RESTORE k 1 IFVERSION 9",
            "VERSIONCONFLICT session is at version 3, not 9",
        ),
    ] {
        assert_refused(&server, &talk::split(&format!("SESSION.CHECKPOINT {command}")), error);
    }
    for option in ["LABEL", "OUTCOME"] {
        assert_refused(
            &server,
            &["SESSION.CHECKPOINT", "CREATE", "k", option, &long],
            &format!("TOOLARGE {option} is 65537 bytes, the limit is 65536"),
        );
    }
    assert_refused(
        &server,
        &["SESSION.CHECKPOINT", "CREATE", "k", "REFS", "1", &long],
        "TOOLARGE REFS is 65537 bytes, the limit is 65536",
    );
    server.run("CONFIG SET session.max-message-bytes 1024");
    assert_refused(
        &server,
        &[
            "SESSION.CHECKPOINT",
            "CREATE",
            "k",
            "SUMMARY",
            &format!("{{\"x\":\"{}\"}}", "x".repeat(2000)),
        ],
        "TOOLARGE SUMMARY is 2008 bytes, session.max-message-bytes is 1024",
    );
    let deep = format!("{}{}", "{\"d\":".repeat(129), "1".to_owned() + &"}".repeat(129));
    assert_refused(
        &server,
        &["SESSION.CHECKPOINT", "CREATE", "k", "SUMMARY", &deep],
        "ERR SUMMARY is not a JSON object (…)",
    );
}

#[test]
fn help_and_docs_tell_of_it() {
    let server = Server::start();
    let help = talk::render(&server.run("SESSION.CHECKPOINT HELP"));
    for word in ["CREATE key", "GET key", "LIST key", "DEL key", "RESTORE key", "HELP"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    let docs = items(&server.run("COMMAND DOCS SESSION.CHECKPOINT"))[1].clone();
    let subcommands = items(&redis_session_tests::entry(&docs, "subcommands"));
    let mut told = std::collections::BTreeSet::new();
    for pair in subcommands
        .chunks(2)
        .filter(|pair| text(&pair[0]).to_lowercase().ends_with("create"))
    {
        collect_tokens(&redis_session_tests::entry(&pair[1], "arguments"), &mut told);
    }
    for word in [
        "STORE",
        "GRACE",
        "LABEL",
        "OUTCOME",
        "SUMMARY",
        "REFS",
        "TRIM",
        "CLOSE",
        "IFVERSION",
        "KEEPTTL",
    ] {
        assert!(told.contains(word), "{word} in {told:?}");
    }
}

#[test]
fn access_goes_by_subcommand() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    user(&server, "~* +session.checkpoint|create").conversation(
        r#"
        > SESSION.CHECKPOINT CREATE k
        (integer) 2
        > SESSION.CHECKPOINT LIST k
        (error) NOPERM …
        > SESSION.CHECKPOINT RESTORE k 2
        (error) NOPERM …
        "#,
    );
    // A key that is only written needs only write permission; the session is read too.
    user(&server, "%RW~k %W~ref %R~readable +session.checkpoint").conversation(
        r#"
        > SESSION.CHECKPOINT CREATE k STORE ref
        (integer) 3
        > SESSION.CHECKPOINT CREATE k STORE readable
        (error) NOPERM …
        > SESSION.CHECKPOINT CREATE k STORE other
        (error) NOPERM …
        > SESSION.CHECKPOINT LIST readable
        (empty array)
        > SESSION.CHECKPOINT CREATE readable
        (error) NOPERM …
        "#,
    );
    if server.flavor().has_module_acl_categories() {
        user(&server, "~* +@read").conversation(
            r#"
            > SESSION.CHECKPOINT GET k 2
            '{…}'
            > SESSION.CHECKPOINT LIST k
            …
            > SESSION.CHECKPOINT CREATE k
            (error) NOPERM …
            > SESSION.FORK k fork
            (error) NOPERM …
            "#,
        );
    }
    assert_eq!(ids(&server, "k"), [2, 3]);
}

#[test]
fn out_of_memory_refuses_a_checkpoint_and_allows_a_deletion() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    for grows in [
        "SESSION.CHECKPOINT CREATE k",
        "SESSION.CHECKPOINT RESTORE k 2",
        "SESSION.FORK k fork",
    ] {
        assert_eq!(
            server.say(grows),
            "(error) OOM command not allowed when used memory > 'maxmemory'.",
            "{grows}"
        );
    }
    server.run("SESSION.CHECKPOINT LIST k");
    server.run("SESSION.CHECKPOINT GET k 2");
    assert_eq!(server.say("SESSION.CHECKPOINT DEL k 2"), "(integer) 1");
}

// ---------------------------------------------------------------------- STORE

#[test]
fn a_reference_is_a_plain_string_in_the_checkpoints_shape() {
    let server = Server::start();
    server.run(&format!("SESSION.CREATE k ID {ID} PXAT 4102444800000"));
    server.run("SESSION.EVENT ADD k pass ENTITIES 1 e IMPACT '{\"n\":1}' STATE review KEEPTTL");
    server.conversation(
        r#"
        > SESSION.CHECKPOINT CREATE k STORE ref LABEL l OUTCOME "o\"" AT 1768384800000 KEEPTTL
        (integer) 2
        > TYPE ref
        string
        > GET ref
        '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":2,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":["e"],"summary":{"impacts":{"n":1}},"outcome":"o\"","state":"review","label":"l"}'
        > PEXPIRETIME ref
        (integer) 4102445400000
        > SESSION.CHECKPOINT CREATE k STORE ref GRACE 0 KEEPTTL
        (integer) 3
        > PEXPIRETIME ref
        (integer) 4102444800000
        > CONFIG SET session.checkpoint-grace 7
        OK
        > SESSION.CHECKPOINT CREATE k STORE ref KEEPTTL
        (integer) 4
        > PEXPIRETIME ref
        (integer) 4102444807000
        > SESSION.CHECKPOINT CREATE k STORE ref GRACE 8 PXAT 4102444800001
        (integer) 5
        > PEXPIRETIME ref
        (integer) 4102444808001
        # no expiry, no expiry
        > SESSION.CHECKPOINT CREATE k STORE ref PERSIST
        (integer) 6
        > PEXPIRETIME ref
        (integer) -1
        # it outlives the session
        > DEL k
        (integer) 1
        > GET ref
        '{…,"checkpointId":6,…}'
        "#,
    );
    // By the slide that the checkpoint itself causes.
    server.run("SESSION.CREATE slid EX 1000");
    server.run("PEXPIRE slid 5000");
    let before = now_ms();
    server.run("SESSION.CHECKPOINT CREATE slid STORE ref GRACE 10");
    assert_expires_in(&server, "ref", before, 1_010_000);
    assert_eq!(server.expires_at_ms(b"ref") - server.expires_at_ms(b"slid"), 10_000);
    // The latest possible time.
    server.run("SESSION.CHECKPOINT CREATE slid STORE ref GRACE 1000000 PXAT 253402300799999");
    assert!(server.expires_at_ms(b"ref") >= 253_402_300_799_999);
    assert_eq!(
        bytes(&server.run("GET ref")),
        bytes(&server.run("SESSION.CHECKPOINT GET slid 2"))
    );
}

#[test]
fn a_reference_takes_the_place_of_anything() {
    let server = Server::append_only().start();
    let replica = Options::default().hostile().start();
    replica.replicate(&server);
    server.run("SESSION.APPEND k MSG user hi");
    for (before, persists) in [
        ("SET ref x EX 5", false),
        ("RPUSH ref x", true),
        ("HSET ref f v", true),
        ("XADD ref * f v", false),
        ("SESSION.APPEND ref MSG user gone", true),
        ("SESSION.APPEND ref EX 5 MSG user gone", false),
        ("SESSION.CHECKPOINT CREATE k STORE ref", true),
    ] {
        server.run("DEL ref");
        server.run(before);
        let ttl = if persists { "PERSIST" } else { "EX 1000" };
        server.run(&format!("SESSION.CHECKPOINT CREATE k STORE ref {ttl}"));
        assert_eq!(text(&server.run("TYPE ref")), "string", "{before}");
        assert_eq!(server.expires_at_ms(b"ref") == -1, persists, "{before}");
        assert!(text(&server.run("GET ref")).starts_with("{\"sessionId\":"));
        replica.wait_for(&server);
        assert_eq!(server.visible(b"ref"), replica.visible(b"ref"), "{before}");
        assert_eq!(bytes(&server.run("GET ref")), bytes(&replica.run("GET ref")));
    }
    assert_eq!(server.info_number("session", "session_active_sessions"), 1);
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
    server.rewrite_append_only_file();
    server.restart();
    oracle::assert_same("after a rewrite", &before, &server.snapshot());
}

#[test]
fn a_stored_reference_notifies_as_set_does() {
    let server = Server::with("notify-keyspace-events", "KEA").start();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE __keyspace@0__:*");
    let mut heard = |command: &str| -> Vec<String> {
        server.attempt(command);
        server.run("PUBLISH __keyspace@0__:end end");
        let mut heard = Vec::new();
        loop {
            let message = items(&subscriber.receive());
            let key = text(&message[2]).replace("__keyspace@0__:", "");
            match key.as_str() {
                "end" => return heard,
                _ => heard.push(format!("{key} {}", text(&message[3]))),
            }
        }
    };
    let like_set = heard("SET ref x PXAT 4102444800000");
    assert_eq!(like_set, ["ref set", "ref expire"]);
    assert_eq!(heard("SESSION.CREATE k"), ["k session.create"]);
    assert_eq!(
        heard("SESSION.CHECKPOINT CREATE k STORE ref"),
        ["k session.checkpoint", "ref set", "ref expire"]
    );
    assert_eq!(
        heard("SESSION.CHECKPOINT CREATE k STORE ref PERSIST"),
        ["k session.checkpoint", "ref set"]
    );
    assert_eq!(heard("SESSION.CHECKPOINT CREATE k STORE k"), [""; 0]);
    assert_eq!(heard("SESSION.CHECKPOINT CREATE k STORE ref IFVERSION 99"), [""; 0]);
    assert_eq!(
        heard("SESSION.CHECKPOINT CREATE k CLOSE STORE ref"),
        ["k session.checkpoint", "k session.close", "ref set", "ref expire"]
    );
}

#[test]
fn a_reference_breaks_a_watch() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let mut watcher = server.client();
    for (command, breaks) in [
        ("SESSION.CHECKPOINT CREATE k STORE ref", true),
        ("SESSION.CHECKPOINT CREATE k STORE ref", true),
        ("SESSION.CHECKPOINT CREATE k STORE other", false),
        ("SESSION.CHECKPOINT CREATE k STORE ref IFVERSION 99", false),
        ("SESSION.CHECKPOINT CREATE absent STORE ref", false),
    ] {
        watcher.run("WATCH ref");
        server.attempt(command);
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC") == "(nil)", breaks, "{command}");
    }
}

#[test]
fn a_reference_in_transactions_and_scripts() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    server.run(&format!("SESSION.CREATE k ID {ID}"));
    let lines = server.propagated_lines(|server| {
        for command in [
            "MULTI",
            "SESSION.CHECKPOINT CREATE k STORE ref",
            "GET ref",
            "SESSION.CHECKPOINT CREATE k STORE ref CLOSE",
            "EXEC",
        ] {
            server.run(command);
        }
    });
    let words: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        words,
        [
            "MULTI",
            "SESSION.CHECKPOINT",
            "SET",
            "SESSION.CHECKPOINT",
            "SET",
            "EXEC"
        ]
    );
    server.run("SESSION.FORK k fork");
    let said = server.say(
        "EVAL \"redis.call('SESSION.CHECKPOINT', 'CREATE', KEYS[1], 'STORE', KEYS[2], 'LABEL', 'l') \
         return redis.call('GET', KEYS[2])\" 2 fork scripted",
    );
    assert!(said.contains(r#""checkpointId":3"#), "{said}");
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &server.snapshot(), &replica.snapshot());
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_reference_outlives_a_session_that_goes_at_once() {
    let server = Server::append_only().start();
    let replica = Options::default().hostile().start();
    replica.replicate(&server);
    server.run("SESSION.APPEND k MSG user hi");
    let before = now_ms();
    assert_eq!(
        server.say("SESSION.CHECKPOINT CREATE k STORE ref GRACE 100 PXAT 1000"),
        "(integer) 2"
    );
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    assert_expires_in(&server, "ref", before, 100_000);
    replica.wait_for(&server);
    assert_eq!(replica.visible(b"ref"), server.visible(b"ref"));
    assert_eq!(replica.say("EXISTS k"), "(integer) 0");
    // Without a grace there is no reference, nor any trace on the replica.
    server.run("SESSION.APPEND k MSG user hi");
    assert_eq!(
        server.say("SESSION.CHECKPOINT CREATE k STORE ref GRACE 0 PXAT 1000"),
        "(integer) 2"
    );
    wait_until("it is gone", || server.say("DBSIZE") == "(integer) 0");
    replica.wait_for(&server);
    assert_eq!(replica.say("DBSIZE"), "(integer) 0");
    server.restart();
    assert_eq!(server.say("EXISTS k ref"), "(integer) 0");
}

#[test]
fn a_session_that_expires_leaves_its_reference() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.run("SESSION.CHECKPOINT CREATE k STORE ref PX 30");
    wait_until("the session expires", || server.say("EXISTS k") == "(integer) 0");
    assert_eq!(server.say("EXISTS ref"), "(integer) 1");
}

// ---------------------------------------------------------------------- CLOSE

#[test]
fn a_closed_session_expires_after_the_grace() {
    let server = Server::start();
    for (set_up, options, ttl_ms) in [
        ("SESSION.CREATE k", "", 600_000),
        ("SESSION.CREATE k PERSIST", "", 600_000),
        ("SESSION.CREATE k EX 5", "GRACE 1000", 1_000_000),
        ("SESSION.CREATE k", "EX 7", 7000),
    ] {
        server.run("DEL k");
        server.run(set_up);
        let before = now_ms();
        server.run(&format!("SESSION.CHECKPOINT CREATE k CLOSE {options}"));
        assert_expires_in(&server, "k", before, ttl_ms);
        let document = server.document("k");
        let closed_at = document["closed_at"].as_str().expect("a time").to_owned();
        assert_eq!(text(&server.info_of("k", "closed_at")), closed_at);
        assert_eq!(document["last_activity"], document["closed_at"]);
        assert_eq!(
            server.say("SESSION.APPEND k MSG user hi"),
            format!("(error) CLOSED session closed at {closed_at}")
        );
    }
    server.run("DEL k");
    server.run("SESSION.CREATE k");
    assert_eq!(server.document("k")["closed_at"], Json::Null);
    assert_eq!(server.info_of("k", "closed_at"), Value::Nil);
    // Without a grace it is deleted at once.
    assert_eq!(server.say("SESSION.CHECKPOINT CREATE k CLOSE GRACE 0"), "(integer) 1");
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    // The closing time is the server's clock, whatever AT says.
    server.run("SESSION.CREATE k");
    server.run("SESSION.CHECKPOINT CREATE k CLOSE AT 1768384800000");
    assert_ne!(server.document("k")["closed_at"], "2026-01-14T10:00:00.000Z");
    assert_eq!(checkpoint(&server, "k", 1)["timestamp"], "2026-01-14T10:00:00.000Z");
}

/// Every command that writes a session, beside those of `guards::WRITES`, on one with the checkpoint 4 and the lease token 1.
const OTHER_WRITES: [&str; 17] = [
    "SESSION.APPEND k XX MSG user hi",
    "SESSION.APPEND k DEDUP first JSON '{\"n\":1}'",
    "SESSION.APPEND k IFVERSION 99 LEASE 99 MSG user hi",
    "SESSION.POP k COUNT 99",
    "SESSION.WINDOW k NOPIN",
    "SESSION.META k {}",
    "SESSION.EVENT ADD k pass IFSTATE nowhere",
    "SESSION.AGENT JOIN k known",
    "SESSION.AGENT LEAVE k known",
    "SESSION.AGENT LEASE k a 1000",
    "SESSION.AGENT RELEASE k 1",
    "SESSION.CHECKPOINT CREATE k CLOSE",
    "SESSION.CHECKPOINT CREATE k STORE ref",
    "SESSION.CHECKPOINT DEL k 4",
    "SESSION.CHECKPOINT DEL k 99",
    "SESSION.CHECKPOINT RESTORE k 4",
    "SESSION.CHECKPOINT RESTORE k 99 IFVERSION 99",
];

fn closed(server: &Server) {
    server.run("DEL k");
    server.run("SESSION.AGENT JOIN k known");
    server.run(r#"SESSION.APPEND k DEDUP first JSON '{"n":1,"entity_refs":["e"]}'"#);
    server.run(r#"SESSION.APPEND k JSON '{"n":2}' '{"n":3}'"#);
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.AGENT LEASE k a 1000000");
    assert_eq!(server.say("SESSION.CHECKPOINT CREATE k CLOSE LEASE 1"), "(integer) 6");
}

#[test]
fn every_write_to_a_closed_session_is_refused() {
    let server = Server::append_only().config("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    closed(&server);
    assert_eq!(server.document("k")["lease"], Json::Null, "its lease has ended");
    let closed_at = server.document("k")["closed_at"].as_str().expect("a time").to_owned();
    let error = format!("CLOSED session closed at {closed_at}");
    subscriber.run("PSUBSCRIBE __key*__:*");
    let writes = super::guards::WRITES
        .iter()
        .map(|write| write.replace("{w}", ""))
        .chain(
            super::guards::WRITES
                .iter()
                .map(|write| write.replace("{w}", "IFVERSION 99 LEASE 99")),
        )
        .chain(OTHER_WRITES.iter().map(|write| (*write).to_owned()))
        .chain(
            [
                "EX 5",
                "PX 5000",
                "PXAT 4102444800000",
                "PXAT 1000",
                "PERSIST",
                "CREATE EX 5",
            ]
            .map(|options| format!("SESSION.GETEX k {options}")),
        )
        .collect::<Vec<_>>();
    let commands = server.commands();
    assert_examples(
        commands.iter().filter(|command| command.is_write()),
        &writes,
        &[
            (
                "SESSION.CREATE",
                "makes a session, or finds this one, which is no write",
            ),
            ("SESSION.FORK", "writes another key"),
            ("SESSION.MIGRATE", "makes a session of other keys"),
            ("SESSION.INDEX ADD", "writes a directory"),
            ("SESSION.ANCHOR ADD", "writes anchors"),
            ("SESSION.LOAD", "clients may not"),
        ],
    );
    for write in writes {
        assert_refused(&server, &talk::split(&write), &error);
    }
    assert_refused(&server, &["SESSION.CREATE", "k"], "BUSYKEY a session exists at key 'k'");
    // Syntax and bodies come before, another type too.
    assert_refused(&server, &["SESSION.POP", "k", "BOGUS"], "ERR syntax error near 'BOGUS'");
    assert_refused(&server, &["SESSION.APPEND", "k", "JSON", "[]"], "BADMESSAGE …");
    server.run("PUBLISH __key__:end end");
    let mut seen = String::new();
    while !seen.contains("__key__:end") {
        seen = talk::render(&subscriber.receive());
        assert!(!seen.contains("session."), "a refusal notified: {seen}");
    }
    // What the server itself does to keys is not refused.
    server.run("EXPIRE k 5000");
    server.run("PERSIST k");
    server.run("RENAME k moved");
    assert!(server.say("SESSION.POP moved").starts_with("(error) CLOSED"));
    server.run("COPY moved k");
    assert!(server.say("SESSION.POP k").starts_with("(error) CLOSED"));
    assert_eq!(server.say("DEL moved"), "(integer) 1");
    assert_eq!(server.say("SESSION.APPEND moved MSG user anew"), "(integer) 1");
}

#[test]
fn every_read_of_a_closed_session_works() {
    let server = Server::append_only().start();
    closed(&server);
    server.run("PERSIST k");
    let before = server.visible(b"k");
    let id = server.document("k")["session_id"].as_str().expect("an id").to_owned();
    let readings = [
        "LEN k",
        "INFO k",
        "GET k",
        "GET k MESSAGES 1",
        "RANGE k 0 -1 WITHMETA",
        "CONTEXT k",
        "ENTITY GET k e",
        "ENTITY LIST k",
        "ENTITY RESOLVE k e",
        "EVENT LEN k",
        "EVENT RANGE k - +",
        "AGENT LIST k",
        "CHECKPOINT GET k 4",
        "CHECKPOINT LIST k",
        "READ k 0",
        "READ k $ BLOCK 1",
        "GETEX k",
        "GETEX k MESSAGES 1",
        "GETEX k CREATE",
    ]
    .map(|reading| format!("SESSION.{reading}"));
    let commands = server.commands();
    assert_examples(
        commands
            .iter()
            .filter(|command| !command.is_write() && !command.is_help()),
        &readings,
        &[
            ("SESSION.ANCHOR GET", "reads anchors"),
            ("SESSION.INDEX LEN", "reads a directory"),
            ("SESSION.INDEX LIST", "reads a directory"),
            ("SESSION.INDEX RESOLVE", "reads a directory"),
        ],
    );
    for reading in readings {
        let propagated = server.propagated_by(|server| {
            server.run(&reading);
        });
        assert!(propagated.is_empty(), "{reading}");
    }
    assert_eq!(
        bytes(&server.run("SESSION.GETEX k")),
        bytes(&server.run("SESSION.GET k"))
    );
    let opened = talk::render(&server.run("SESSION.CREATE k OPEN"));
    assert!(opened.contains(&id) && opened.ends_with("(integer) 0"), "{opened}");
    assert_eq!(server.visible(b"k"), before);
    // The expiry, if there is one, does not slide either.
    server.run("PEXPIREAT k 4102444800000");
    server.run("SESSION.GETEX k");
    assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000);
    assert_eq!(server.document("k")["ttl_extended_count"], 0);
    // A fork is open, but its source is still closed.
    server.conversation(
        r#"
        > SESSION.FORK k fork
        "…"
        > SESSION.APPEND fork MSG user on
        (integer) 7
        > SESSION.APPEND k MSG user on
        (error) CLOSED …
        > SESSION.AGENT LEASE fork a 1000
        (integer) 1
        > DEL k
        (integer) 1
        > SESSION.LEN fork
        (integer) 4
        "#,
    );
    assert_eq!(server.document("fork")["closed_at"], Json::Null);
}

#[test]
fn a_closed_session_stays_closed_wherever_it_goes() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    closed(&server);
    let before = server.snapshot();
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    server.run("DEBUG RELOAD");
    let refused = |server: &Server| {
        let reply = server.say("SESSION.APPEND k MSG user hi");
        assert!(reply.starts_with("(error) CLOSED"), "{reply}");
    };
    refused(&server);
    server.restart_with(&Options::default().hostile());
    refused(&server);
    for preamble in ["yes", "no"] {
        server.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        server.rewrite_append_only_file();
        server.restart();
        refused(&server);
        oracle::assert_same("after a rewrite", &before, &server.snapshot());
    }
    replica.run("REPLICAOF NO ONE");
    refused(&replica);
    let dump = bytes(&replica.run("DUMP k"));
    replica.call(&[&b"RESTORE"[..], b"restored", b"0", &dump]);
    assert!(replica.say("SESSION.POP restored").starts_with("(error) CLOSED"));
}

/// Commands from before the session was closed are applied wherever they arrive, whatever its state there.
#[test]
fn a_replicated_or_loading_command_is_not_refused() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("SESSION.AGENT LEASE k a 1000000");
    // A transaction that closes the session, replayed from the file with the commands before it.
    for command in [
        "MULTI",
        "SESSION.APPEND k LEASE 1 MSG user last",
        "SESSION.CHECKPOINT CREATE k CLOSE LEASE 1",
        "SESSION.APPEND k MSG user late",
        "EXEC",
    ] {
        server.run(command);
    }
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
    // A file, not written by this module, in which a closed session is written to.
    let aof = server.file("appendonlydir");
    let incremental = std::fs::read_dir(aof)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .expect("an incremental file");
    let mut journal = std::fs::read(&incremental).expect("the file");
    for line in [
        "SESSION.APPEND k AT 1768384800000 MSG user more",
        "SESSION.EVENT ADD k pass AT 1768384800000 NOW 1768384800000",
        "SESSION.AGENT LEASE k b PXAT 1768384800000 AT 1768384800000",
        "SESSION.AGENT RELEASE k 2",
        "SESSION.CHECKPOINT CREATE k SUMMARY {} REFS 0 AT 1768384800000",
        "SESSION.CHECKPOINT RESTORE k 3 AT 1768384800000",
        "SESSION.META k '{\"a\":1}' AT 1768384800000",
    ] {
        journal.extend(redis::pack_command(&talk::split(line)));
    }
    std::fs::write(&incremental, journal).expect("the file");
    server.restart();
    let document = server.document("k");
    assert_eq!(
        (&document["meta"], &document["last_seq"]),
        (&json!({"a": 1}), &json!(7))
    );
    assert!(document["closed_at"].is_string());
}

// ---------------------------------------------------------------------- RESTORE

#[test]
fn a_restore_brings_back_what_the_contract_names_and_nothing_else() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT event-ttl 0 LIMIT maxlen 0 META '{"m":1}'
        > SESSION.APPEND k JSON '{"role":"user","n":1,"entity_refs":["e1","e2"]}' '{"role":"user","n":2}'
        (integer) 2
        > SESSION.ENTITY MENTION k ID e1 NAME Ann TYPE person ALIAS a
        > SESSION.AGENT JOIN k a META '{"r":1}'
        > SESSION.EVENT ADD k pass STATE review
        (integer) 3
        > SESSION.CHECKPOINT CREATE k
        (integer) 4
        "#,
    );
    let then = brought_back(&server, "k");
    server.conversation(
        r#"
        > SESSION.APPEND k DEDUP t JSON '{"role":"user","n":5,"entity_refs":["e3","e1"]}'
        (integer) 5
        > SESSION.REMOVE k 1
        (integer) 1
        > SESSION.ENTITY FORGET k 1 e2
        (integer) 1
        > SESSION.AGENT LEAVE k a
        (integer) 1
        > SESSION.AGENT JOIN k b
        (integer) 1
        > SESSION.EVENT ADD k broke STATE done
        (integer) 6
        > SESSION.META k '{"m":2,"n":3}'
        > SESSION.WINDOW k MAXLEN 10 PIN tool
        > SESSION.CHECKPOINT CREATE k
        (integer) 7
        > SESSION.AGENT LEASE k c PXAT 4102444800000
        (integer) 1
        > SESSION.CLEAR k LEASE 1
        (integer) 2
        "#,
    );
    let before = server.document("k");
    let version = server.version_of("k");
    assert_eq!(
        int(&server.run("SESSION.CHECKPOINT RESTORE k 4 LEASE 1 AT 1768384800000")),
        version + 1
    );
    assert_eq!(brought_back(&server, "k"), then);
    let after = server.document("k");
    for stays in [
        "session_id",
        "limits",
        "query_count",
        "ttl_extended_count",
        "checkpoints",
        "lease",
        "meta",
        "created_at",
        "scope",
        "closed_at",
    ] {
        assert_eq!(after[stays], before[stays], "{stays}");
    }
    assert_eq!(after["last_seq"], 8);
    assert_eq!(after["events"], json!({"count": 3, "first_seq": 3, "last_seq": 8}));
    assert_eq!(
        text(&items(&server.run("SESSION.EVENT RANGE k 8 8"))[0]),
        r#"{"seq":8,"timestamp":"2026-01-14T10:00:00.000Z","type":"restored","changeInfo":{"checkpointId":4},"stateTransition":{"from":"done","to":"review"}}"#
    );
    server.conversation(
        r#"
        # tokens stay, seqs go on, a restore to the same state is no transition
        > SESSION.APPEND k LEASE 1 DEDUP t JSON '{"role":"user","n":5,"entity_refs":["e3","e1"]}'
        (integer) 5
        > SESSION.LEN k
        (integer) 2
        > SESSION.APPEND k LEASE 1 JSON '{"n":9}'
        (integer) 9
        > SESSION.CHECKPOINT RESTORE k 4 LEASE 1
        > SESSION.EVENT RANGE k 10 + TYPE restored
        1) '{"seq":10,"timestamp":"…","type":"restored","changeInfo":{"checkpointId":4}}'
        # forth again
        > SESSION.CHECKPOINT RESTORE k 7 LEASE 1
        > SESSION.RANGE k 0 -1
        1) '{"role":"user","n":2}'
        2) '{"role":"user","n":5,"entity_refs":["e3","e1"]}'
        > SESSION.AGENT LIST k
        1) '{"agentId":"b",…}'
        "#,
    );
    assert_eq!(server.document("k")["state"], "done");
    assert_eq!(server.info_number("session", "session_restores"), 3);
    assert_eq!(server.info_number("session", "session_checkpoints"), 2);
}

#[test]
fn the_present_window_applies_to_what_comes_back() {
    let server = Server::with("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    server.run(r#"SESSION.APPEND k JSON '{"role":"system"}' '{"role":"user","n":2}' '{"tool_calls":[{"id":"a"}]}' '{"tool_call_id":"a"}' '{"role":"user","n":5}'"#);
    server.run("SESSION.CHECKPOINT CREATE k");
    subscriber.run("SUBSCRIBE __keyspace@0__:k");
    server.run("SESSION.WINDOW k MAXLEN 2 PIN system");
    assert_eq!(server.seqs("k"), [1, 5]);
    let evicted = server.info_number("session", "session_evicted");
    server.run("SESSION.CHECKPOINT RESTORE k 6");
    assert_eq!(server.seqs("k"), [1, 5]);
    assert_eq!(server.info_number("session", "session_evicted"), evicted + 3);
    let events: Vec<String> = (0..4).map(|_| text(&items(&subscriber.receive())[2])).collect();
    assert_eq!(
        events,
        ["session.window", "session.evict", "session.restore", "session.evict"]
    );
    server.run("SESSION.WINDOW k MAXLEN 4 NOPIN");
    server.run("SESSION.CHECKPOINT RESTORE k 6");
    assert_eq!(server.seqs("k"), [2, 3, 4, 5]);
    server.run("SESSION.WINDOW k MAXLEN 0");
    server.run("SESSION.CHECKPOINT RESTORE k 6");
    assert_eq!(server.seqs("k"), [1, 2, 3, 4, 5]);
    // A restore does not bring back what has expired since.
    server.run("SESSION.CREATE aged LIMIT maxage 60000");
    let age = |ms: i64| format!("SESSION.APPEND aged AT {} JSON {{}}", now_ms() - ms);
    server.run(&age(59_000));
    server.run(&age(0));
    server.run("SESSION.CHECKPOINT CREATE aged");
    wait_until("the first has passed", || server.seqs("aged") == [2]);
    server.run("SESSION.CHECKPOINT RESTORE aged 3");
    assert_eq!(server.seqs("aged"), [2]);
}

#[test]
fn a_follower_gets_a_gap_after_a_restore() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}'"#);
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run(r#"SESSION.APPEND k JSON '{"n":4}' '{"n":5}'"#);
    let mut blocked = server.client();
    blocked.send(&["SESSION.READ", "k", "$", "BLOCK", "0"]);
    wait_until("the reader waits", || {
        server.info_number("session", "session_blocked_readers") == 1
    });
    server.run("SESSION.CHECKPOINT RESTORE k 3");
    let woken: Vec<String> = items(&blocked.receive()).iter().map(told).collect();
    assert_eq!(woken, ["6 event"]);
    // A follower that had read up to the checkpoint gets a gap for what came after it.
    assert_eq!(read(&server, "SESSION.READ k 3"), ["gap 4-5", "6 event"]);
    assert_eq!(read(&server, "SESSION.READ k 3 MESSAGES"), ["gap 4-5"]);
    assert_eq!(read(&server, "SESSION.READ k 3 EVENTS"), ["6 event"]);
    assert_eq!(
        read(&server, "SESSION.READ k 0"),
        ["gap 1-5", "1 message", "2 message", "3 checkpoint", "6 event"]
    );
    // A blocked follower of checkpoints gets one too.
    blocked.send(&["SESSION.READ", "k", "6", "BLOCK", "0"]);
    wait_until("the reader waits", || {
        server.info_number("session", "session_blocked_readers") == 1
    });
    server.run("SESSION.CHECKPOINT CREATE k AT 1768384800000");
    let shown = text(&server.run("SESSION.CHECKPOINT GET k 7"));
    assert_eq!(
        talk::render(&blocked.receive()),
        format!("1) 1) (integer) 7\n   2) (integer) 1768384800000\n   3) \"checkpoint\"\n   4) '{shown}'")
    );
}

#[test]
fn redaction_reaches_into_checkpoints() {
    for compress_after in [0, 64, 4096] {
        let server = Server::with("session.compress-after", compress_after)
            .config("session.default-maxlen", 0)
            .config("rdbcompression", "no")
            .start();
        for n in 1..=120 {
            server.run(&format!(
                "SESSION.APPEND k MSG user \"secret {n} {}\"",
                "lorem ".repeat(n % 30)
            ));
        }
        server.run("SESSION.CHECKPOINT CREATE k");
        server.run("SESSION.APPEND k MSG user \"secret 122\"");
        server.run("SESSION.CHECKPOINT CREATE k");
        server.run("SESSION.FORK k fork");
        let version = server.version_of("k");
        // Each chunk counts once, however many copies there are; what only a checkpoint has counts too.
        server.run("SESSION.REMOVE k 7");
        assert_eq!(
            server.say("SESSION.REDACT k 5 7 122 121 999 REASON gdpr"),
            "(integer) 3"
        );
        assert_eq!(server.version_of("k"), version + 2);
        assert_eq!(server.say("SESSION.REDACT k 5 7 122 REASON gdpr"), "(integer) 0");
        assert_eq!(server.version_of("k"), version + 2);
        for (id, redacted) in [(121, &[5, 7][..]), (123, &[5, 7, 122])] {
            server.run(&format!("SESSION.CHECKPOINT RESTORE k {id}"));
            let bodies = server.bodies("k");
            for seq in redacted {
                let at = server
                    .seqs("k")
                    .iter()
                    .position(|known| known == seq)
                    .expect("a message");
                assert!(bodies[at].contains(r#""redacted":true"#), "{}", bodies[at]);
                assert!(!bodies[at].contains("secret"), "{}", bodies[at]);
            }
            assert_eq!(
                bodies.iter().filter(|body| body.contains("secret")).count(),
                bodies.len() - redacted.len()
            );
        }
        // A fork is a separate session and keeps its content.
        assert!(server.bodies("fork").iter().all(|body| body.contains("secret")));
        let dump = bytes(&server.run("DUMP k"));
        if compress_after == 0 {
            let holds = |what: &[u8]| dump.windows(what.len()).any(|window| window == what);
            assert!(holds(b"secret 6 ") && !holds(b"secret 122") && !holds(b"secret 5 ") && !holds(b"secret 7 "));
        }
        // Once the message is gone everywhere, there is nothing to redact.
        server.run("SESSION.CLEAR k");
        assert_eq!(server.say("SESSION.REDACT k 9"), "(integer) 1");
        server.run("SESSION.CHECKPOINT DEL k 121 123");
        assert_eq!(server.say("SESSION.REDACT k 10"), "(integer) 0");
    }
}

/// Returns a random command, including checkpoints, restores, forks and replacement by a fork.
pub fn random_step(random: &mut Random) -> String {
    let id = |random: &mut Random| 1 + random.below(60);
    match random.below(14) {
        0 | 1 => format!(
            "SESSION.CHECKPOINT CREATE k {}",
            [
                "",
                "TRIM",
                "LABEL l",
                "STORE ref",
                "REFS 1 e1 SUMMARY '{\"s\":1}'",
                "STORE ref PERSIST"
            ][random.below(6)]
        ),
        2 => format!("SESSION.CHECKPOINT DEL k {}", id(random)),
        3 => format!("SESSION.FORK k fork REPLACE UPTO {}", id(random)),
        4 => "SESSION.FORK k fork REPLACE".into(),
        5 => "SESSION.FORK fork k REPLACE".into(),
        6 => format!(
            "SESSION.AGENT {} k a{}",
            ["JOIN", "LEAVE"][random.below(2)],
            random.below(3)
        ),
        _ => random_write(random),
    }
}

/// Runs a random conversation that is restored to a random checkpoint now and then.
fn play_random(server: &Server, random: &mut Random, steps: usize) -> usize {
    let mut restored = 0;
    for _ in 0..steps {
        server.attempt(&random_step(random));
        if random.below(6) > 0 || text(&server.run("TYPE k")) != "rdsession" {
            continue;
        }
        let known = ids(server, "k");
        if known.is_empty() {
            continue;
        }
        let id = known[random.below(known.len())];
        let part = ["RESTORE k {}", "FORK k fork CHECKPOINT {} REPLACE"][random.below(4) / 3];
        let line = part.replace("{}", &id.to_string());
        let line = if line.starts_with("FORK") {
            format!("SESSION.{line}")
        } else {
            format!("SESSION.CHECKPOINT {line}")
        };
        restored += usize::from(!matches!(server.attempt(&line), Value::ServerError(_)));
    }
    restored
}

#[test]
fn random_conversations_with_restores_are_the_same_everywhere() {
    let primary = Server::append_only().config("session.compress-after", 256).start();
    let replica = Options::default().hostile().start();
    replica.replicate(&primary);
    let mut restored = 0;
    for seed in 0..40 {
        let mut random = Random(seed + 9000);
        primary.run("DEL k fork ref");
        primary.run(
            [
                "SESSION.CREATE k LIMIT maxlen 0",
                "SESSION.CREATE k LIMIT max-checkpoints 3",
            ][random.below(2)],
        );
        restored += play_random(&primary, &mut random, 50);
        for key in ["k", "fork", "ref"] {
            if primary.say(&format!("EXISTS {key}")) == "(integer) 1" {
                primary.run(&format!("RENAME {key} {key}-{seed}"));
            }
        }
    }
    assert!(restored > 50, "{restored} restores");
    let before = primary.snapshot();
    replica.wait_for(&primary);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    primary.run("DEBUG RELOAD");
    oracle::assert_same("after DEBUG RELOAD", &before, &primary.snapshot());
    primary.restart_with(&Options::default().hostile());
    oracle::assert_same("after loading the commands", &before, &primary.snapshot());
    for preamble in ["yes", "no"] {
        primary.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        primary.rewrite_append_only_file();
        primary.restart_with(&Options::default().hostile());
        oracle::assert_same(preamble, &before, &primary.snapshot());
    }
    // Both continue in the same way.
    let late = Options::default().hostile().start();
    late.replicate(&primary);
    for seed in 0..40 {
        let key = format!("k-{seed}");
        if primary.say(&format!("EXISTS {key}")) == "(integer) 1" {
            primary.run(&format!("RENAME {key} k"));
            play_random(&primary, &mut Random(seed), 15);
            primary.attempt(&format!("RENAME k {key}"));
        }
    }
    late.wait_for(&primary);
    oracle::assert_same("on a late replica", &primary.snapshot(), &late.snapshot());
}

/// Compares full copies, made with `COPY`, with what a restore brings back.
#[test]
fn a_restore_is_what_a_copy_was() {
    let server = Server::with("session.compress-after", 512).start();
    let mut compared = 0;
    for seed in 0..40 {
        let mut random = Random(seed + 77_000);
        server.run("FLUSHALL");
        server.run("SESSION.CREATE k LIMIT maxlen 0 LIMIT max-checkpoints 0");
        let mut copies: BTreeMap<i64, [Json; 5]> = BTreeMap::new();
        for _ in 0..60 {
            match random.below(8) {
                0 => {
                    let id = int(&server.run("SESSION.CHECKPOINT CREATE k"));
                    copies.insert(id, brought_back(&server, "k"));
                }
                1 if !copies.is_empty() => {
                    let (id, copy) = copies.iter().nth(random.below(copies.len())).expect("a copy");
                    server.run(&format!("SESSION.CHECKPOINT RESTORE k {id}"));
                    assert_eq!(&brought_back(&server, "k"), copy, "seed {seed}, checkpoint {id}");
                    compared += 1;
                }
                2 if random.below(4) == 0 => {
                    server.run("DEBUG RELOAD");
                }
                _ => {
                    let write = random_write(&mut random);
                    // Excludes what changes the result: windows that evict restored messages, redactions, which change checkpoints too, and
                    // past expiries.
                    let is_fit = !["WINDOW", "REDACT", "MAXLEN", "RENAME", "COPY", "CHECKPOINT"]
                        .iter()
                        .any(|word| write.contains(word));
                    if is_fit {
                        server.attempt(&write);
                    }
                }
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// Refused commands and those that change nothing leave no trace at any of the keys; everything else is propagated.
#[test]
fn each_step_leaves_every_trace_or_none() {
    let server = Options::default().append_only().start();
    let mut kinds = [0; 3];
    for seed in 0..25 {
        let mut random = Random(seed + 40_000);
        server.run("FLUSHALL");
        server.run("SESSION.CREATE k LIMIT max-checkpoints 3");
        for step in 0..50 {
            let known = match text(&server.run("TYPE k")).as_str() {
                "rdsession" => ids(&server, "k"),
                _ => Vec::new(),
            };
            let write = match known.get(random.below(6)) {
                Some(id) => format!("SESSION.CHECKPOINT RESTORE k {id}"),
                None => random_step(&mut random),
            };
            let told = format!("seed {seed}, step {step}: {write:.300}");
            let before = server.snapshot();
            let mut reply = Value::Nil;
            let propagated = server.propagated_lines(|server| reply = server.attempt(&write));
            let is_changed = server.snapshot() != before;
            let is_refused = matches!(reply, Value::ServerError(_));
            if is_refused || propagated.is_empty() {
                assert!(!is_changed && propagated.is_empty(), "{told}\n{}", talk::render(&reply));
            }
            kinds[if is_refused { 0 } else { 1 + usize::from(is_changed) }] += 1;
        }
    }
    println!("{kinds:?}");
    assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
}

#[test]
fn checkpoints_and_forks_leak_nothing() {
    let server = Server::with("session.compress-after", 512).start();
    let cycle = |server: &Server| {
        for seed in 0..10 {
            server.run("SESSION.CREATE k OPEN");
            play_random(server, &mut Random(seed), 100);
            server.attempt("SESSION.CHECKPOINT CREATE k SUMMARY '{\"a\":'");
            server.attempt("SESSION.CHECKPOINT CREATE k STORE k LABEL l REFS 1 e");
            server.attempt("SESSION.FORK k fork IFVERSION 0 REPLACE");
            server.attempt("COPY k copy REPLACE");
            server.attempt("SESSION.CHECKPOINT CREATE k CLOSE STORE ref");
            server.attempt("SESSION.GETEX k");
            if let Value::BulkString(dump) = server.attempt("DUMP k") {
                server.call(&[b"RESTORE".as_slice(), b"restored", b"0", &dump, b"REPLACE"]);
            }
        }
        server.run("DEBUG RELOAD");
        server.run("FLUSHALL SYNC");
        server.info_number("memory", "used_memory")
    };
    let warm = (0..3).map(|_| cycle(&server)).max().expect("a figure");
    let later = (0..5).map(|_| cycle(&server)).min().expect("a figure");
    assert!(
        later < warm + 50_000,
        "{warm} bytes after three rounds, {later} after more"
    );
    assert_eq!(server.info_number("session", "session_bytes_stored"), 0);
    assert_eq!(server.info_number("session", "session_active_sessions"), 0);
}

// ---------------------------------------------------------------------- notifications and pub/sub

fn channel(server: &Server) -> Client {
    let mut client = server.client();
    client.run("PSUBSCRIBE __session@*");
    client
}

fn heard(server: &Server, subscriber: &mut Client) -> Vec<String> {
    server.run("PUBLISH __session@end end");
    let mut heard = Vec::new();
    loop {
        let message = items(&subscriber.receive());
        match (text(&message[2]), text(&message[3])) {
            (channel, _) if channel == "__session@end" => return heard,
            (channel, payload) => heard.push(format!("{channel} {payload}")),
        }
    }
}

#[test]
fn each_checkpoint_and_each_restore_is_published_once() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replicate(&primary);
    let mut subscribers = [(&primary, channel(&primary)), (&replica, channel(&replica))];
    for command in [
        "SESSION.APPEND k MSG user hi",
        "SESSION.CHECKPOINT CREATE k STORE ref LABEL l AT 1768384800000",
        "SESSION.CHECKPOINT CREATE k IFVERSION 99",
        "SESSION.CHECKPOINT RESTORE k 99",
        "SESSION.CHECKPOINT RESTORE k 2 AT 1768384800001",
        "SESSION.CHECKPOINT DEL k 2",
        "SESSION.CHECKPOINT LIST k",
        "SESSION.FORK k fork",
        "SESSION.CHECKPOINT CREATE k CLOSE AT 1768384800002",
    ] {
        primary.attempt(command);
    }
    replica.wait_for(&primary);
    for (server, subscriber) in &mut subscribers {
        assert_eq!(
            heard(server, subscriber),
            [
                r#"__session@0__:k {"key":"k","seq":2,"kind":"checkpoint","type":null,"agentId":null,"timestamp":"2026-01-14T10:00:00.000Z"}"#,
                r#"__session@0__:k {"key":"k","seq":3,"kind":"event","type":"restored","agentId":null,"timestamp":"2026-01-14T10:00:00.001Z"}"#,
                r#"__session@0__:k {"key":"k","seq":4,"kind":"checkpoint","type":null,"agentId":null,"timestamp":"2026-01-14T10:00:00.002Z"}"#,
            ]
        );
    }
    primary.run("CONFIG SET session.publish off");
    primary.run("SESSION.CREATE quiet");
    primary.run("SESSION.CHECKPOINT CREATE quiet");
    primary.run("SESSION.CHECKPOINT RESTORE quiet 1");
    assert_eq!(heard(&primary, &mut subscribers[0].1), [""; 0]);
}

#[test]
fn loading_publishes_no_checkpoint() {
    let server = Server::append_only().start();
    server.run("SESSION.CREATE k");
    server.run("SESSION.CHECKPOINT CREATE k");
    server.run("SESSION.CHECKPOINT RESTORE k 1");
    let mut listener = channel(&server);
    server.run("DEBUG LOADAOF");
    assert_eq!(heard(&server, &mut listener), [""; 0]);
    assert_eq!(ids(&server, "k"), [1]);
}

#[test]
fn the_keyspace_hears_of_each() {
    let (server, replica) = (
        Server::with("notify-keyspace-events", "KEd").start(),
        Server::with("notify-keyspace-events", "KEd").start(),
    );
    replica.replicate(&server);
    let mut subscribers: Vec<Client> = [&server, &replica]
        .iter()
        .map(|server| {
            let mut client = server.client();
            client.run("PSUBSCRIBE __keyspace@0__:*");
            client
        })
        .collect();
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    server.run("SESSION.APPEND k JSON {} {} {}");
    for (command, expected) in [
        ("SESSION.CHECKPOINT CREATE k", &["k session.checkpoint"][..]),
        ("SESSION.CHECKPOINT CREATE k STORE ref", &["k session.checkpoint"]),
        ("SESSION.CHECKPOINT LIST k", &[]),
        ("SESSION.CHECKPOINT GET k 4", &[]),
        ("SESSION.CHECKPOINT RESTORE k 4", &["k session.restore"]),
        ("SESSION.CHECKPOINT RESTORE k 99", &[]),
        ("SESSION.CHECKPOINT DEL k 5", &["k session.checkpoint"]),
        ("SESSION.CHECKPOINT DEL k 5", &[]),
        ("SESSION.FORK k fork", &["fork session.fork"]),
        ("SESSION.FORK k fork", &[]),
        ("SESSION.WINDOW k MAXLEN 1", &["k session.window", "k session.evict"]),
        (
            "SESSION.CHECKPOINT RESTORE k 4",
            &["k session.restore", "k session.evict"],
        ),
        (
            "SESSION.FORK k fork REPLACE CHECKPOINT 4",
            &["fork session.fork", "fork session.evict"],
        ),
        (
            "SESSION.CHECKPOINT CREATE k CLOSE",
            &["k session.checkpoint", "k session.close"],
        ),
        ("SESSION.CHECKPOINT CREATE k", &[]),
    ] {
        // Everything that came before, on both.
        let act = |subscribers: &mut Vec<Client>, command: Option<&str>| -> Vec<Vec<String>> {
            command.map(|command| server.attempt(command));
            server.run("PUBLISH __keyspace@0__:end end");
            let listen = |subscriber: &mut Client| {
                let mut heard = Vec::new();
                loop {
                    let message = items(&subscriber.receive());
                    let key = text(&message[2]).replace("__keyspace@0__:", "");
                    match key.as_str() {
                        "end" => return heard,
                        _ => heard.push(format!("{key} {}", text(&message[3]))),
                    }
                }
            };
            subscribers.iter_mut().map(listen).collect()
        };
        act(&mut subscribers, None);
        for heard in act(&mut subscribers, Some(command)) {
            assert_eq!(heard, expected, "{command}");
        }
    }
}

// ---------------------------------------------------------------------- memory and cost

/// Returns the bytes in use, without the varying memory of clients.
fn used_memory(server: &Server) -> i64 {
    server.info_number("memory", "used_memory")
}

/// Messages of a usual length that do not compress well.
pub fn append_noise(server: &Server, key: &str, messages: usize) {
    let mut random = Random(1);
    for _ in 0..messages / 50 {
        let mut command = format!("SESSION.APPEND {key} JSON");
        for _ in 0..50 {
            let noise: String = (0..16).map(|_| format!("{:016x}", random.draw())).collect();
            command += &format!(r#" '{{"role":"user","content":"{noise}"}}'"#);
        }
        server.run(&command);
    }
}

#[test]
fn a_checkpoint_shares_what_the_session_has() {
    let server = Server::with("session.default-maxlen", 0).start();
    append_noise(&server, "k", 20_000);
    server.run("SESSION.CHECKPOINT CREATE k");
    let usage = || int(&server.run("MEMORY USAGE k"));
    let whole = usage();
    let before = used_memory(&server);
    for made in 2..=6 {
        server.run("SESSION.CHECKPOINT CREATE k");
        let added = used_memory(&server) - before;
        assert!(
            added * 100 < whole * (made - 1),
            "{added} bytes for {} of {whole}",
            made - 1
        );
    }
    assert!(usage() < whole + whole / 10, "{} and {whole}", usage());
    // What only a checkpoint has still counts, and is freed with it.
    server.run("SESSION.CLEAR k");
    assert!(usage() > whole / 2, "{} and {whole}", usage());
    assert!(used_memory(&server) > before - whole / 2);
    server.run("SESSION.CHECKPOINT RESTORE k 20001");
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 20000");
    server.run("SESSION.CLEAR k");
    server.run("SESSION.CHECKPOINT DEL k 20001 20002 20003 20004 20005 20006");
    assert!(usage() < 10_000, "{}", usage());
    assert!(used_memory(&server) < before - whole / 2);
}
