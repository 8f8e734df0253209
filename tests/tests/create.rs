//! `SESSION.CREATE`: what a new session is, and what it refuses to be.

use redis_session_tests::{entry, text, Server};
use serde_json::json;

const ID: &str = "0190a8b4-6d2e-7c3a-9f10-123456789abc";

#[test]
fn create_replies_the_id_and_whether_it_is_new() {
    let server = Server::start();
    server.conversation(&format!(
        r#"
        > SESSION.CREATE k ID {ID}
        1) "id"
        2) "{ID}"
        3) "key"
        4) "k"
        5) "created"
        6) (integer) 1
        > TYPE k
        rdsession
        > SESSION.LEN k
        (integer) 0
        > SESSION.CREATE k
        (error) BUSYKEY …
        > SESSION.CREATE k OPEN
        1) "id"
        2) "{ID}"
        3) "key"
        4) "k"
        5) "created"
        6) (integer) 0
        > SESSION.CREATE k OPEN ID 0190a8b4-6d2e-7c3a-9f10-000000000000 LIMIT maxlen 1
        1) "id"
        2) "{ID}"
        3) "key"
        4) "k"
        5) "created"
        6) (integer) 0
        > SESSION.CREATE new OPEN
        1) "id"
        2) "…-…-7…-…-…"
        3) "key"
        4) "new"
        5) "created"
        6) (integer) 1
        "#
    ));
    assert_eq!(
        server.document("k")["limits"]["maxlen"],
        20,
        "OPEN on what exists changes nothing"
    );
    server.client().resp3().conversation(&format!(
        r#"
        > SESSION.CREATE k OPEN
        1# "id" => "{ID}"
        2# "key" => "k"
        3# "created" => (integer) 0
        "#
    ));
}

#[test]
fn the_id_is_a_fresh_uuid_v7() {
    let server = Server::start();
    let mut ids: Vec<String> = (0..20)
        .map(|n| text(&entry(&server.run(&format!("SESSION.CREATE k{n}")), "id")))
        .collect();
    for id in &ids {
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(&id[14..15], "7", "version of {id}");
        assert!("89ab".contains(&id[19..20]), "variant of {id}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
}

#[test]
fn an_id_that_is_no_uuid_is_refused() {
    let server = Server::start();
    for id in [
        "",
        "k",
        "0190a8b4-6d2e-7c3a-9f10-123456789ab",
        "0190a8b4-6d2e-7c3a-9f10-123456789abcd",
        "g190a8b4-6d2e-7c3a-9f10-123456789abc",
    ] {
        assert!(
            server
                .say(&format!("SESSION.CREATE k ID '{id}'"))
                .starts_with("(error) ERR "),
            "{id}"
        );
    }
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    // Any UUID, not only those of version 7.
    server.run("SESSION.CREATE k ID 00000000-0000-0000-0000-000000000000");
    server.run("SESSION.CREATE k4 ID 9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d");
}

#[test]
fn what_is_given_at_creation_is_in_the_document() {
    let server = Server::start();
    server.run(&format!(
        r#"SESSION.CREATE k ID {ID} SCOPE acme STATE review META '{{"plan":{{"a":1}}}}' LIMIT maxlen 3 LIMIT maxtokens 100
        LIMIT maxbytes 2000 LIMIT maxage 9000000 LIMIT event-maxlen 7 LIMIT event-ttl 8 LIMIT dedup-window 9
        LIMIT max-checkpoints 10 LIMIT max-entities 11 LIMIT max-agents 12 PIN system PIN developer AT 1768384800000"#
    ));
    let document = server.document("k");
    assert_eq!(document["session_id"], ID);
    assert_eq!(document["scope"], "acme");
    assert_eq!(document["state"], "review");
    assert_eq!(document["meta"], json!({"plan": {"a": 1}}));
    assert_eq!(document["created_at"], "2026-01-14T10:00:00.000Z");
    for (name, value) in [
        ("maxlen", 3),
        ("maxtokens", 100),
        ("maxbytes", 2000),
        ("maxage", 9_000_000),
        ("event-maxlen", 7),
        ("event-ttl", 8),
        ("dedup-window", 9),
        ("max-checkpoints", 10),
        ("max-entities", 11),
        ("max-agents", 12),
    ] {
        assert_eq!(document["limits"][name], value, "{name} in {}", document["limits"]);
    }
}

#[test]
fn a_new_session_has_the_documents_shape_and_the_default_limits() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let document = server.document("k");
    let mut names: Vec<&str> = document
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    names.sort();
    let mut expected = [
        "session_id",
        "scope",
        "alias",
        "state",
        "created_at",
        "last_activity",
        "expires_at",
        "closed_at",
        "version",
        "last_seq",
        "limits",
        "message_count",
        "query_count",
        "ttl_extended_count",
        "messages",
        "entities_mentioned",
        "agents",
        "events",
        "checkpoints",
        "lease",
        "meta",
    ];
    expected.sort();
    assert_eq!(names, expected);
    for absent in ["scope", "alias", "closed_at", "lease"] {
        assert_eq!(document[absent], json!(null), "{absent}");
    }
    assert_eq!(document["state"], "working");
    assert_eq!(document["version"], 1);
    assert_eq!(document["last_seq"], 0);
    for count in ["message_count", "query_count", "ttl_extended_count"] {
        assert_eq!(document[count], 0, "{count}");
    }
    assert_eq!(document["messages"], json!([]));
    assert_eq!(document["entities_mentioned"], json!({}));
    assert_eq!(document["agents"], json!([]));
    assert_eq!(document["checkpoints"], json!([]));
    assert_eq!(document["events"]["count"], 0);
    let limits = &document["limits"];
    assert_eq!(
        (
            &limits["maxlen"],
            &limits["dedup-window"],
            &limits["event-maxlen"],
            &limits["event-ttl"]
        ),
        (&json!(20), &json!(64), &json!(1000), &json!(3600))
    );
    assert_eq!(
        (
            &limits["max-checkpoints"],
            &limits["max-entities"],
            &limits["max-agents"]
        ),
        (&json!(16), &json!(10000), &json!(1000))
    );
    assert_eq!(
        (&limits["maxtokens"], &limits["maxbytes"], &limits["maxage"]),
        (&json!(0), &json!(0), &json!(0))
    );
    for time in ["created_at", "last_activity", "expires_at"] {
        let time = document[time]
            .as_str()
            .unwrap_or_else(|| panic!("{time} in {document}"));
        assert!(
            time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T",
            "{time}"
        );
    }
}

#[test]
fn the_grammar_of_create_is_kept() {
    Server::start().conversation(
        r#"
        > SESSION.CREATE
        (error) ERR wrong number of arguments for '…' command
        > SESSION.CREATE k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.CREATE k OPEN OPEN
        (error) ERR syntax error near 'OPEN'
        > SESSION.CREATE k STATE
        (error) ERR syntax error near 'STATE'
        > SESSION.CREATE k STATE a STATE b
        (error) ERR syntax error near 'STATE'
        > SESSION.CREATE k ALIAS home
        (error) ERR syntax error near 'ALIAS'
        > SESSION.CREATE k LIMIT maxlen
        (error) ERR syntax error near 'LIMIT'
        > SESSION.CREATE k LIMIT
        (error) ERR syntax error near 'LIMIT'
        > SESSION.CREATE k LIMIT bogus 5
        (error) ERR …
        > SESSION.CREATE k LIMIT maxlen -1
        (error) ERR …must be an integer from 0 to 4294967295
        > SESSION.CREATE k LIMIT maxlen 4294967296
        (error) ERR …must be an integer from 0 to 4294967295
        > SESSION.CREATE k META 5
        (error) ERR META is not a JSON object (…)
        > SESSION.CREATE k META '{"a":1'
        (error) ERR META is not a JSON object (…)
        > SESSION.CREATE k STATE ""
        (error) ERR …STATE…
        > SESSION.CREATE k SCOPE "\xff"
        (error) ERR …SCOPE…
        > EXISTS k
        (integer) 0
        > session.create k limit MaxLen 4294967295 open state s
        …
        > SESSION.LEN k
        (integer) 0
        "#,
    );
}

#[test]
fn text_options_hold_65536_bytes_and_no_more() {
    let server = Server::start();
    for option in ["STATE", "SCOPE"] {
        let fits = "s".repeat(65_536);
        let over = "s".repeat(65_537);
        let reply = server.say(&format!("SESSION.CREATE k {option} {over}"));
        assert!(
            reply.starts_with("(error) TOOLARGE ") && reply.contains(option),
            "{reply:.300}"
        );
        server.run(&format!("SESSION.CREATE k {option} {fits}"));
        server.run("DEL k");
    }
}
