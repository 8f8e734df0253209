//! Agents: joining, leaving, handoffs and leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis_session_tests::table::{assert_examples, Command};
use redis_session_tests::{entry, int, items, now_ms, talk, text, wait_until, Client, Options, Server, Value};
use serde_json::{json, Value as Json};

use super::surroundings::{collect_tokens, user};

const FAR_MS: i64 = 4_102_444_800_000;

fn read_json(reply: &Value) -> Json {
    serde_json::from_str(&text(reply)).expect("JSON")
}

/// Returns the agents as `LIST` shows them, by name; `GET` must show the same.
#[track_caller]
fn agents(server: &Server, key: &str) -> BTreeMap<String, Json> {
    let listed: Vec<Json> = items(&server.run(&format!("SESSION.AGENT LIST {key}")))
        .iter()
        .map(read_json)
        .collect();
    let document = server.document(key);
    assert_eq!(document["agents"], Json::Array(listed.clone()));
    listed
        .into_iter()
        .map(|agent| (agent["agentId"].as_str().expect("a name").to_string(), agent))
        .collect()
}

fn names(server: &Server, key: &str) -> Vec<String> {
    agents(server, key).into_keys().collect()
}

/// Returns holder and token of the unexpired lease, as `GET` shows it.
fn lease(server: &Server, key: &str) -> Option<(String, i64)> {
    let lease = server.document(key)["lease"].clone();
    let agent = lease["agentId"].as_str()?.to_string();
    Some((agent, lease["token"].as_i64().expect("a token")))
}

#[track_caller]
fn assert_held(reply: &str, agent: &str, at_most_ms: i64) {
    let left = reply
        .strip_prefix(&format!("(error) LEASEHELD agent '{agent}' holds the turn for "))
        .and_then(|rest| rest.strip_suffix(" ms more"))
        .and_then(|ms| ms.parse::<i64>().ok());
    assert!(left.is_some_and(|ms| (1..=at_most_ms).contains(&ms)), "{reply}");
}

/// Asserts that a command fails like `error`, changes nothing and propagates nothing.
#[track_caller]
fn assert_refused<A: AsRef<[u8]>>(server: &Server, args: &[A], error: &str) {
    let before = server.snapshot();
    let propagated = server.propagated_by(|server| {
        let reply = talk::render(&server.call(args));
        let shown: Vec<String> = args.iter().map(|arg| talk::quote(arg.as_ref())).collect();
        assert!(
            talk::matches(&format!("(error) {error}"), &reply),
            "{:.300}\n{reply:.300}\n{error}",
            shown.join(" ")
        );
        assert!(reply.len() < 1000, "an error is short: {reply}");
    });
    assert!(propagated.is_empty(), "{propagated:?}");
    assert!(server.snapshot() == before);
}

// ---------------------------------------------------------------------- JOIN, LEAVE, LIST

#[test]
fn agents_come_and_go_word_for_word() {
    let server = Server::start();
    for mut client in [server.client(), server.client().resp3()] {
        server.run("DEL k");
        client.conversation(
            r#"
            > SESSION.AGENT LIST k
            (empty array)
            > SESSION.AGENT JOIN k a
            (integer) 1
            > TYPE k
            rdsession
            > SESSION.AGENT JOIN k a
            (integer) 0
            > session.agent join k b meta '{"role":"reviewer","n":[1]}'
            (integer) 1
            > SESSION.AGENT LIST k
            1) '{"agentId":"a","joined_at":"2…-…-…T…:…:….…Z","last_seen":"2…Z","meta":null}'
            2) '{"agentId":"b","joined_at":"2…Z","last_seen":"2…Z","meta":{"role":"reviewer","n":[1]}}'
            # what is given replaces, what is not stays
            > SESSION.AGENT JOIN k b META '{"x":1}'
            (integer) 0
            > SESSION.AGENT JOIN k b
            (integer) 0
            > SESSION.AGENT LIST k
            1) '{"agentId":"a",…,"meta":null}'
            2) '{"agentId":"b",…,"meta":{"x":1}}'
            # names are exact
            > SESSION.AGENT LEAVE k A
            (integer) 0
            > SESSION.AGENT LEAVE k a
            (integer) 1
            > SESSION.AGENT LEAVE k a
            (integer) 0
            > SESSION.AGENT LIST k
            1) '{"agentId":"b",…}'
            > SESSION.AGENT LEAVE k b
            (integer) 1
            > SESSION.AGENT LIST k
            (empty array)
            > EXISTS k
            (integer) 1
            > SESSION.AGENT LEAVE absent a
            (error) NOSESSION no session at key 'absent'
            > SESSION.AGENT HANDOFF absent a b
            (error) NOSESSION no session at key 'absent'
            > SESSION.AGENT LEASE absent a 1000
            (error) NOSESSION no session at key 'absent'
            > SESSION.AGENT RELEASE absent 1
            (error) NOSESSION no session at key 'absent'
            > EXISTS absent
            (integer) 0
            "#,
        );
    }
    assert_eq!(server.document("k")["agents"], json!([]));
    assert_eq!(server.document("k")["lease"], Json::Null);
}

#[test]
fn a_join_dates_content_and_is_seen_by_the_clock() {
    let server = Server::start();
    let before = now_ms();
    server.run("SESSION.AGENT JOIN k a AT 1768384800000");
    let agent = agents(&server, "k")["a"].clone();
    assert_eq!(agent["joined_at"], "2026-01-14T10:00:00.000Z");
    let seen = agent["last_seen"].as_str().expect("a time").to_string();
    assert_ne!(seen, "2026-01-14T10:00:00.000Z");
    wait_until("the clock ticks", || now_ms() > before + 20);
    let version = server.version_of("k");
    server.run("SESSION.AGENT JOIN k a AT 1768384900000");
    let agent = agents(&server, "k")["a"].clone();
    assert_eq!(agent["joined_at"], "2026-01-14T10:00:00.000Z", "it joined but once");
    assert!(agent["last_seen"].as_str().expect("a time") > seen.as_str());
    assert_eq!(server.version_of("k"), version);
}

#[test]
fn versions_count_content_and_neither_leases_nor_being_seen() {
    let server = Server::start();
    for (command, version) in [
        ("SESSION.AGENT JOIN k a", 2),
        ("SESSION.AGENT JOIN k a", 2),
        ("SESSION.AGENT JOIN k a META '{\"a\":1}'", 3),
        ("SESSION.AGENT JOIN k a META '{\"a\":1}'", 3),
        ("SESSION.AGENT LEASE k a 100000", 3),
        ("SESSION.AGENT LEASE k a 200000", 3),
        ("SESSION.AGENT RELEASE k 1", 3),
        ("SESSION.AGENT HANDOFF k a b", 4),
        ("SESSION.AGENT LEASE k a 100000", 4),
        ("SESSION.AGENT HANDOFF k a b", 5),
        ("SESSION.AGENT LEAVE k b", 5),
        ("SESSION.AGENT LEAVE k b", 5),
        ("SESSION.AGENT LEAVE k a", 6),
        ("SESSION.AGENT LEAVE k a", 6),
        ("SESSION.AGENT JOIN k c EX 100 IFVERSION 6", 7),
    ] {
        server.run(command);
        assert_eq!(server.version_of("k"), version, "{command}");
    }
    for command in ["JOIN k d", "LEAVE k c", "HANDOFF k c d"] {
        assert_eq!(
            server.say(&format!("SESSION.AGENT {command} IFVERSION 6")),
            "(error) VERSIONCONFLICT session is at version 7, not 6"
        );
    }
    assert_eq!(
        server.say("SESSION.AGENT JOIN absent d IFVERSION 6"),
        "(error) VERSIONCONFLICT session is at version 0, not 6"
    );
    assert_eq!(server.say("SESSION.AGENT JOIN absent d IFVERSION 0"), "(integer) 1");
}

#[test]
fn a_session_has_no_more_agents_than_its_limit() {
    let server = Options::default().append_only().start();
    server.run("SESSION.CREATE k LIMIT max-agents 2");
    server.run("SESSION.AGENT JOIN k a");
    server.run("SESSION.AGENT JOIN k b");
    assert_refused(&server, &["SESSION.AGENT", "JOIN", "k", "c"], "TOOLARGE …max-agents…2…");
    server.conversation(
        r#"
        > SESSION.AGENT JOIN k a META {}
        (integer) 0
        # none of these joins
        > SESSION.AGENT LEASE k c 100000
        (integer) 1
        > SESSION.AGENT RELEASE k 1
        (integer) 1
        > SESSION.AGENT HANDOFF k c d
        …
        > SESSION.EVENT ADD k pass AGENT e
        …
        > SESSION.AGENT LEAVE k b
        (integer) 1
        > SESSION.AGENT JOIN k c
        (integer) 1
        > SESSION.AGENT JOIN k b
        (error) TOOLARGE …max-agents…
        > CONFIG SET session.max-agents 1
        OK
        > SESSION.AGENT JOIN new a
        (integer) 1
        > SESSION.AGENT JOIN new b
        (error) TOOLARGE …max-agents…
        > SESSION.AGENT JOIN k b
        (error) TOOLARGE …max-agents…2…
        "#,
    );
    assert_eq!(names(&server, "k"), ["a", "c"]);
}

#[test]
fn odd_but_legal_names_come_back_as_json() {
    let server = Server::start();
    let longest = "x".repeat(65_536);
    for name in [
        "a\0b",
        "\0",
        " ",
        "META",
        "PXAT",
        "LEASE",
        "\"}\\",
        "\r\n\t\u{1}",
        "\u{10ffff}",
        &longest,
    ] {
        server.run("DEL k");
        assert_eq!(int(&server.call(&["SESSION.AGENT", "JOIN", "k", name])), 1);
        assert_eq!(int(&server.call(&["SESSION.AGENT", "LEASE", "k", name, "1000000"])), 1);
        assert_eq!(names(&server, "k"), [name]);
        assert_eq!(lease(&server, "k"), Some((name.to_string(), 1)));
        assert!(server.say("SESSION.POP k").starts_with("(error) LEASEHELD agent '"));
        let before = server.visible(b"k");
        server.run("DEBUG RELOAD");
        assert_eq!(server.visible(b"k"), before, "{name:.20?}");
        let handed = items(&server.call(&["SESSION.AGENT", "HANDOFF", "k", name, name, "NOTE", name]));
        assert_eq!((int(&handed[0]), int(&handed[1])), (1, 2));
        assert_eq!(lease(&server, "k"), Some((name.to_string(), 2)));
        assert_eq!(int(&server.call(&["SESSION.AGENT", "LEAVE", "k", name])), 1);
        assert_eq!(lease(&server, "k"), None);
    }
}

// ---------------------------------------------------------------------- HANDOFF

#[test]
fn a_handoff_is_an_event_and_passes_the_lease() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT event-ttl 0
        > SESSION.APPEND k MSG user hi
        (integer) 1
        > SESSION.AGENT HANDOFF k a b
        1) (integer) 2
        2) (integer) 0
        > SESSION.AGENT LEASE k a 1000000
        (integer) 1
        # another's lease stays where it is
        > SESSION.AGENT HANDOFF k b c
        1) (integer) 3
        2) (integer) 0
        > SESSION.AGENT HANDOFF k a b NOTE "it's \"yours\"" AT 1768384800000
        1) (integer) 4
        2) (integer) 2
        > SESSION.APPEND k LEASE 1 MSG user hi
        (error) LEASELOST token 1 is stale
        > SESSION.APPEND k MSG user hi
        (error) LEASEHELD agent 'b' holds the turn for … ms more
        > SESSION.APPEND k LEASE 2 MSG user hi
        (integer) 5
        > SESSION.AGENT LEASE k a 1000
        (error) LEASEHELD agent 'b' holds the turn for … ms more
        > SESSION.AGENT LEASE k b 1000000
        (integer) 2
        > SESSION.EVENT LEN k
        (integer) 3
        > SESSION.AGENT LIST k
        (empty array)
        "#,
    );
    let events: Vec<Json> = items(&server.run("SESSION.EVENT RANGE k - + TYPE handoff"))
        .iter()
        .map(read_json)
        .collect();
    let shown: Vec<(&Json, &Json, &Json, &Json)> = events
        .iter()
        .map(|event| {
            (
                &event["seq"],
                &event["agentId"],
                &event["changeInfo"]["from"],
                &event["changeInfo"]["to"],
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (&json!(2), &json!("a"), &json!("a"), &json!("b")),
            (&json!(3), &json!("b"), &json!("b"), &json!("c")),
            (&json!(4), &json!("a"), &json!("a"), &json!("b")),
        ]
    );
    assert_eq!(events[0]["changeInfo"].get("note"), None);
    assert_eq!(events[2]["changeInfo"]["note"], "it's \"yours\"");
    assert_eq!(events[2]["timestamp"], "2026-01-14T10:00:00.000Z");
    assert_eq!(events[0].get("stateTransition"), None);
    assert_eq!(server.document("k")["last_seq"], 5);
    assert_eq!(items(&server.run("SESSION.EVENT RANGE k - + AGENT b")).len(), 1);
}

#[test]
fn a_handoff_keeps_the_time_of_the_lease() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.run(&format!("SESSION.AGENT LEASE k a PXAT {FAR_MS}"));
    server.run("SESSION.AGENT HANDOFF k a b AT 5000");
    let lease = server.document("k")["lease"].clone();
    assert_eq!(lease["agentId"], "b");
    assert_eq!(lease["expires_at"], "2100-01-01T00:00:00.000Z");
    // An expired lease is not handed over.
    server.run("SESSION.AGENT RELEASE k 2");
    server.run("SESSION.AGENT LEASE k a 1");
    wait_until("the lease is over", || server.document("k")["lease"].is_null());
    assert_eq!(
        server.say("SESSION.AGENT HANDOFF k a b"),
        "1) (integer) 2\n2) (integer) 0"
    );
    assert_eq!(server.document("k")["lease"], Json::Null);
}

// ---------------------------------------------------------------------- LEASE, RELEASE

#[test]
fn a_lease_word_for_word() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.conversation(
        r#"
        > SESSION.AGENT LEASE k a 100000
        (integer) 1
        # renewing keeps the token
        > session.agent lease k a pxat 4102444800000
        (integer) 1
        > SESSION.AGENT LEASE k a 200000
        (integer) 1
        > SESSION.AGENT LEASE k b 1000
        (error) LEASEHELD agent 'a' holds the turn for … ms more
        > SESSION.AGENT RELEASE k 2
        (error) LEASELOST token 2 is stale
        > SESSION.AGENT RELEASE k 0
        (error) LEASELOST token 0 is stale
        > SESSION.AGENT RELEASE k 1
        (integer) 1
        > SESSION.AGENT RELEASE k 1
        (error) LEASELOST token 1 is stale
        # tokens only ever grow, also for the same agent
        > SESSION.AGENT LEASE k a 100000
        (integer) 2
        > SESSION.AGENT RELEASE k 1
        (error) LEASELOST token 1 is stale
        > SESSION.AGENT RELEASE k 2
        (integer) 1
        > SESSION.AGENT LEASE k b 100000
        (integer) 3
        > SESSION.AGENT LEAVE k b
        …
        > SESSION.AGENT LEASE k c 100000
        (integer) 4
        > SESSION.AGENT LIST k
        (empty array)
        "#,
    );
    assert_held(&server.say("SESSION.AGENT LEASE k a 5"), "c", 100_000);
    assert_held(&server.say("SESSION.POP k"), "c", 100_000);
    let shown = server.document("k")["lease"].clone();
    assert_eq!((&shown["agentId"], &shown["token"]), (&json!("c"), &json!(4)));
    server.run("SESSION.AGENT LEASE k c PXAT 4102444800000");
    assert_eq!(
        text(&server.run("SESSION.GET k"))
            .split_once("\"lease\":")
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(lease, _)| lease.to_string()),
        Some(r#"{"agentId":"c","token":4,"expires_at":"2100-01-01T00:00:00.000Z""#.to_string())
    );
}

#[test]
fn a_lease_ends_by_the_servers_clock() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.run("SESSION.AGENT JOIN k a");
    for form in [String::from("150"), format!("PXAT {}", now_ms() + 1500)] {
        let token = int(&server.run(&format!("SESSION.AGENT LEASE k a {form}")));
        let since = now_ms();
        assert_held(&server.say("SESSION.CLEAR k"), "a", 1500);
        // The content's own time does not matter.
        assert_held(&server.say("SESSION.APPEND k AT 4102444800000 MSG user hi"), "a", 1500);
        assert_held(&server.say("SESSION.AGENT LEASE k b 1000"), "a", 1500);
        wait_until("the lease is over", || server.document("k")["lease"].is_null());
        assert!(now_ms() > since + 50, "not at once");
        assert_eq!(
            server.say(&format!("SESSION.APPEND k LEASE {token} MSG user hi")),
            format!("(error) LEASELOST token {token} is stale")
        );
        assert_eq!(
            server.say(&format!("SESSION.AGENT RELEASE k {token}")),
            format!("(error) LEASELOST token {token} is stale")
        );
        server.run("SESSION.APPEND k MSG user hi");
        // Too late to renew: this is a new lease.
        assert_eq!(int(&server.run("SESSION.AGENT LEASE k a 100000")), token + 1);
        server.run(&format!("SESSION.AGENT RELEASE k {}", token + 1));
    }
    // After a renewal it lasts longer than its first expiry.
    let token = int(&server.run("SESSION.AGENT LEASE k a 30"));
    assert_eq!(int(&server.run("SESSION.AGENT LEASE k a 100000")), token);
    let since = now_ms();
    wait_until("the first time is over", || now_ms() > since + 60);
    assert_held(&server.say("SESSION.POP k"), "a", 100_000);
    // A renewal may shorten the lease.
    assert_eq!(int(&server.run("SESSION.AGENT LEASE k a 1")), token);
    wait_until("the lease is over", || server.document("k")["lease"].is_null());
}

#[test]
fn a_lease_that_is_over_at_once_takes_a_token() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.conversation(
        r#"
        > SESSION.AGENT LEASE k a PXAT 1000
        (integer) 1
        > SESSION.APPEND k LEASE 1 MSG user hi
        (error) LEASELOST token 1 is stale
        > SESSION.APPEND k MSG user hi
        (integer) 1
        > SESSION.AGENT LEASE k b 100000
        (integer) 2
        # nor does one that is all but endless overflow
        > SESSION.AGENT LEASE k b 253402300799999
        (integer) 2
        > SESSION.AGENT LEASE k c 1
        (error) LEASEHELD agent 'b' holds the turn for … ms more
        "#,
    );
    assert_eq!(server.document("k")["lease"]["expires_at"], "9999-12-31T23:59:59.999Z");
}

/// What an agent may do without a token, whoever holds the lease.
#[test]
fn agents_come_and_go_while_another_has_the_turn() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.conversation(
        r#"
        > SESSION.AGENT LEASE k a 100000
        (integer) 1
        > SESSION.AGENT JOIN k b
        (integer) 1
        > SESSION.AGENT JOIN k a LEASE 1
        (integer) 1
        > SESSION.AGENT HANDOFF k b c
        1) (integer) 1
        2) (integer) 0
        > SESSION.AGENT LEAVE k b
        (integer) 1
        # but a token that is given is checked
        > SESSION.AGENT JOIN k d LEASE 2
        (error) LEASELOST token 2 is stale
        > SESSION.AGENT HANDOFF k a d LEASE 0
        (error) LEASELOST token 0 is stale
        > SESSION.AGENT LEAVE k a LEASE 7
        (error) LEASELOST token 7 is stale
        > SESSION.AGENT JOIN k d LEASE 2 IFVERSION 99
        (error) LEASELOST token 2 is stale
        > SESSION.AGENT JOIN new d LEASE 1
        (error) LEASELOST token 1 is stale
        > EXISTS new
        (integer) 0
        # the holder's leaving ends the lease
        > SESSION.AGENT LEAVE k a LEASE 1
        (integer) 1
        > SESSION.APPEND k MSG user hi
        (integer) 2
        > SESSION.APPEND k LEASE 1 MSG user hi
        (error) LEASELOST token 1 is stale
        > SESSION.AGENT JOIN k d LEASE 1
        (error) LEASELOST token 1 is stale
        > SESSION.AGENT LEASE k b 100000
        (integer) 2
        "#,
    );
    assert_eq!(lease(&server, "k"), Some(("b".into(), 2)));
}

/// A session with three messages and the entity `e`, leased; returns the token.
fn leased(server: &Server) -> i64 {
    server.run("DEL k");
    server.run(r#"SESSION.CREATE k META '{"a":1}'"#);
    server.run(r#"SESSION.APPEND k DEDUP first JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}' '{"n":3}'"#);
    server.run("SESSION.AGENT LEASE k x 1");
    server.run("SESSION.AGENT LEAVE k x");
    wait_until("the first lease is over", || server.document("k")["lease"].is_null());
    int(&server.run("SESSION.AGENT LEASE k a 1000000"))
}

#[test]
fn while_a_lease_lives_every_write_needs_its_token() {
    let server = Server::append_only().start();
    let writes: Vec<&str> = super::guards::WRITES
        .into_iter()
        .filter(|write| !write.starts_with("SESSION.AGENT "))
        .chain(["SESSION.EVENT ADD k pass AGENT a STATE review {w}"])
        .collect();
    let commands = server.commands();
    let of_others = |command: &&Command| command.takes_write_options() && !command.name.starts_with("SESSION.AGENT ");
    assert_examples(
        commands.iter().filter(of_others),
        &writes,
        &[
            ("SESSION.CREATE", "makes a session, which nobody has a lease of"),
            ("SESSION.MIGRATE", "makes a session, which nobody has a lease of"),
            ("SESSION.FORK", "makes another session"),
            ("SESSION.CHECKPOINT DEL", "needs a checkpoint: see checkpoint.rs"),
            ("SESSION.CHECKPOINT RESTORE", "needs a checkpoint: see checkpoint.rs"),
        ],
    );
    for write in writes {
        let token = leased(&server);
        assert_eq!(token, 2);
        let before = server.visible(b"k");
        let propagated = server.propagated_by(|server| {
            for none in ["", "IFVERSION 99", "EX 100 AT 5"] {
                assert_held(&server.say(&write.replace("{w}", none)), "a", 1_000_000);
            }
            for wrong in [0, 1, 3, i64::MAX] {
                let lost = format!("(error) LEASELOST token {wrong} is stale");
                assert_eq!(
                    server.say(&write.replace("{w}", &format!("LEASE {wrong}"))),
                    lost,
                    "{write}"
                );
                let guarded = write.replace("{w}", &format!("IFVERSION 99 LEASE {wrong}"));
                assert_eq!(server.say(&guarded), lost, "{write}");
            }
            assert_eq!(
                server.say(&write.replace("{w}", "LEASE 2 IFVERSION 99")),
                "(error) VERSIONCONFLICT session is at version 2, not 99"
            );
        });
        assert!(propagated.is_empty(), "{write}: {propagated:?}");
        assert_eq!(server.visible(b"k"), before, "{write}");
        server.run(&write.replace("{w}", "IFVERSION 2 lease 2 EX 1000"));
        assert_eq!(server.version_of("k"), 3, "{write}");
        // Neither the token nor its check is propagated.
        server.run("SESSION.AGENT RELEASE k 2");
        server.attempt(&write.replace("{w}", ""));
    }
    // Also commands that would have changed nothing.
    leased(&server);
    for nothing in [
        "SESSION.META k {}",
        "SESSION.REMOVE k 99",
        "SESSION.WINDOW k",
        "SESSION.ENTITY FORGET k 1 nobody",
    ] {
        assert_held(&server.say(nothing), "a", 1_000_000);
    }
    let before = server.snapshot();
    server.restart();
    redis_session_tests::oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn what_needs_no_token_while_a_lease_lives() {
    let server = Server::start();
    leased(&server);
    server.conversation(
        r#"
        # a repeat is answered before any guard
        > SESSION.APPEND k DEDUP first JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}' '{"n":3}'
        (integer) 3
        > SESSION.APPEND k DEDUP first LEASE 1 JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}' '{"n":3}'
        (integer) 3
        > SESSION.APPEND k DEDUP first JSON '{"n":2}'
        (error) DEDUPCONFLICT token 'first' was used for another message
        > SESSION.APPEND k DEDUP other JSON '{"n":2}'
        (error) LEASEHELD agent 'a' holds the turn for … ms more
        > SESSION.CREATE k OPEN
        1) "id"
        2) "…"
        3) "key"
        4) "k"
        5) "created"
        6) (integer) 0
        > SESSION.GETEX k MESSAGES 0
        …
        > SESSION.GETEX k EX 1000
        …
        > SESSION.RANGE k 0 -1
        …
        > SESSION.GET k
        …
        > SESSION.CONTEXT k
        …
        > SESSION.INFO k
        …
        > SESSION.AGENT LIST k
        …
        # syntax and bodies come first
        > SESSION.APPEND k BOGUS JSON {}
        (error) ERR syntax error near 'BOGUS'
        > SESSION.APPEND k JSON []
        (error) BADMESSAGE …
        > EXPIRE k 1000
        (integer) 1
        > DEL k
        (integer) 1
        > SESSION.APPEND k MSG user hi
        (integer) 1
        "#,
    );
}

#[test]
fn a_state_is_looked_at_after_the_lease() {
    let server = Server::start();
    leased(&server);
    server.conversation(
        r#"
        > SESSION.EVENT ADD k pass IFSTATE review
        (error) LEASEHELD …
        > SESSION.EVENT ADD k pass IFSTATE review LEASE 1
        (error) LEASELOST token 1 is stale
        > SESSION.EVENT ADD k pass IFSTATE review LEASE 2
        (error) STATECONFLICT session is in state 'working', not 'review'
        "#,
    );
}

#[test]
fn refusals_are_counted_as_conflicts() {
    let server = Server::start();
    leased(&server);
    let before = server.info_number("session", "session_conflicts");
    for command in [
        "SESSION.POP k",
        "SESSION.POP k LEASE 1",
        "SESSION.AGENT LEASE k b 1000",
        "SESSION.AGENT JOIN k b LEASE 9",
    ] {
        assert!(server.say(command).starts_with("(error) LEASE"), "{command}");
    }
    assert_eq!(server.info_number("session", "session_conflicts"), before + 4);
}

#[test]
fn transactions_and_scripts_take_turns_too() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    server.conversation(
        r#"
        > MULTI
        > SESSION.AGENT LEASE k a 100000
        > SESSION.APPEND k MSG user one
        > SESSION.APPEND k LEASE 1 MSG user two
        > SESSION.AGENT HANDOFF k a b
        > SESSION.AGENT RELEASE k 2
        > SESSION.APPEND k MSG user three
        > EXEC
        1) (integer) 1
        2) (error) LEASEHELD agent 'a' holds the turn for 100000 ms more
        3) (integer) 1
        4) 1) (integer) 2
           2) (integer) 2
        5) (integer) 1
        6) (integer) 3
        > EVAL "local t = redis.call('SESSION.AGENT', 'LEASE', KEYS[1], 'c', 1000) redis.call('SESSION.APPEND', KEYS[1], 'LEASE', t, 'MSG', 'user', 'four') return redis.call('SESSION.AGENT', 'RELEASE', KEYS[1], t)" 1 k
        (integer) 1
        > SESSION.LEN k
        (integer) 3
        "#,
    );
}

// ---------------------------------------------------------------------- concurrency, replicas, restarts

#[test]
fn a_stale_token_never_writes() {
    const CLIENTS: usize = 6;
    let server = Server::with("session.default-maxlen", 0).start();
    server.run("SESSION.CREATE k LIMIT event-maxlen 0 LIMIT event-ttl 0");
    let end = now_ms() + 3000;
    let (mut won, mut lost) = (0, 0);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.client();
                    let (mut won, mut lost, mut last_token) = (0, 0, 0);
                    let mut turn = client;
                    while now_ms() < end {
                        turn += 1;
                        let ms = 1 + turn % 4;
                        let reply = connection.attempt(&format!("SESSION.AGENT LEASE k c{client} {ms}"));
                        let Value::Int(mut token) = reply else {
                            let held = talk::render(&reply);
                            assert!(held.starts_with("(error) LEASEHELD agent 'c"), "{held}");
                            assert!(!held.contains(&format!("'c{client}'")), "the holder renews: {held}");
                            std::thread::sleep(Duration::from_micros(300));
                            continue;
                        };
                        assert!(token >= last_token, "{token} after {last_token}");
                        last_token = token;
                        for step in 0..3 {
                            // Sometimes the lease has expired by then.
                            std::thread::sleep(Duration::from_micros((turn % 5) as u64 * 400));
                            let said = connection.say(&format!(
                                r#"SESSION.APPEND k LEASE {token} JSON '{{"token":{token},"client":{client}}}'"#
                            ));
                            if said.starts_with("(integer) ") {
                                won += 1;
                            } else {
                                assert_eq!(said, format!("(error) LEASELOST token {token} is stale"));
                                lost += 1;
                                break;
                            }
                            if step == 1 && turn % 7 == 0 {
                                let handed = connection.run(&format!("SESSION.AGENT HANDOFF k c{client} c{client}"));
                                match int(&items(&handed)[1]) {
                                    0 => break,
                                    next => {
                                        assert!(next > token);
                                        (token, last_token) = (next, next);
                                    }
                                }
                            }
                        }
                        if turn % 3 == 0 {
                            connection.attempt(&format!("SESSION.AGENT RELEASE k {token}"));
                        }
                    }
                    (won, lost)
                })
            })
            .collect();
        for client in clients {
            let (its_won, its_lost) = client.join().expect("a client");
            won += its_won;
            lost += its_lost;
        }
    });
    assert!(won > 100 && lost > 0, "{won} written, {lost} refused");
    // In the order of writing, tokens never decrease, and each has one holder.
    let mut last_token = 0;
    let mut holders = BTreeMap::new();
    let bodies = server.bodies("k");
    assert_eq!(bodies.len(), won);
    for body in bodies {
        let body: Json = serde_json::from_str(&body).expect("JSON");
        let token = body["token"].as_i64().expect("a token");
        assert!(token >= last_token, "{token} wrote after {last_token}");
        last_token = token;
        let holder = holders.entry(token).or_insert_with(|| body["client"].clone());
        assert_eq!(holder, &body["client"], "token {token}");
    }
}

#[test]
fn nobody_writes_into_anothers_turn() {
    let server = Server::with("session.default-maxlen", 0).start();
    server.run("SESSION.CREATE k");
    let end = now_ms() + 1500;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let (mut written, mut held) = (0, 0);
                while now_ms() < end {
                    let said = client.say("SESSION.APPEND k MSG user hi");
                    if said.starts_with("(integer) ") {
                        written += 1;
                    } else {
                        assert!(said.starts_with("(error) LEASEHELD agent 'c"), "{said}");
                        held += 1;
                    }
                }
                assert!(written > 0 && held > 0, "{written} written, {held} refused");
            });
        }
        for client in 0..2 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.client();
                while now_ms() < end {
                    let Value::Int(token) = connection.attempt(&format!("SESSION.AGENT LEASE k c{client} 60000"))
                    else {
                        std::thread::sleep(Duration::from_micros(300));
                        continue;
                    };
                    let before = int(&connection.run("SESSION.LEN k"));
                    std::thread::sleep(Duration::from_millis(2));
                    assert_eq!(int(&connection.run("SESSION.LEN k")), before);
                    connection.run(&format!("SESSION.APPEND k LEASE {token} MSG user mine"));
                    assert_eq!(int(&connection.run("SESSION.LEN k")), before + 1);
                    connection.run(&format!("SESSION.AGENT RELEASE k {token}"));
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
    });
}

#[test]
fn a_promoted_replica_knows_agents_and_the_lease() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run(r#"SESSION.AGENT JOIN k a META '{"x":1}'"#);
    primary.run("SESSION.AGENT JOIN k b");
    primary.run("SESSION.AGENT LEASE k a 1000000");
    primary.run("SESSION.APPEND k LEASE 1 MSG user hi");
    primary.run("SESSION.AGENT HANDOFF k a b");
    primary.run("SESSION.AGENT JOIN released a");
    primary.run("SESSION.AGENT LEASE released a 1000000");
    primary.run("SESSION.AGENT LEASE released a 2000000");
    primary.run("SESSION.AGENT RELEASE released 1");
    primary.run("SESSION.AGENT JOIN passed a");
    primary.run("SESSION.AGENT LEASE passed a 20");
    wait_until("the lease is over", || primary.document("passed")["lease"].is_null());
    primary.run("SESSION.AGENT LEASE passed b 1000000");
    replica.wait_for(&primary);
    for key in ["k", "released", "passed"] {
        assert_eq!(
            replica.visible(key.as_bytes()),
            primary.visible(key.as_bytes()),
            "{key}"
        );
        let list = format!("SESSION.AGENT LIST {key}");
        assert_eq!(replica.say(&list), primary.say(&list));
    }
    for write in ["JOIN k c", "LEAVE k a", "HANDOFF k a b", "LEASE k a 5", "RELEASE k 1"] {
        let reply = replica.say(&format!("SESSION.AGENT {write}"));
        assert!(reply.starts_with("(error) READONLY "), "{write}: {reply}");
    }
    replica.run("REPLICAOF NO ONE");
    replica.conversation(
        r#"
        > SESSION.APPEND k MSG user hi
        (error) LEASEHELD agent 'b' holds the turn for … ms more
        > SESSION.APPEND k LEASE 1 MSG user hi
        (error) LEASELOST token 1 is stale
        > SESSION.APPEND k LEASE 2 MSG user hi
        (integer) 3
        > SESSION.AGENT LEASE k a 1000
        (error) LEASEHELD agent 'b' holds the turn for … ms more
        > SESSION.AGENT RELEASE k 2
        (integer) 1
        > SESSION.AGENT LEASE k a 1000
        (integer) 3
        > SESSION.AGENT JOIN k a
        (integer) 0
        # no token is given twice, though no lease was there to be taken over
        > SESSION.AGENT LEASE released a 1000
        (integer) 2
        > SESSION.APPEND passed LEASE 1 MSG user hi
        (error) LEASELOST token 1 is stale
        > SESSION.APPEND passed LEASE 2 MSG user hi
        (integer) 1
        "#,
    );
}

#[test]
fn a_replica_says_when_a_lease_is_over() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run("SESSION.AGENT JOIN k a");
    primary.run("SESSION.AGENT LEASE k a 1500");
    replica.wait_for(&primary);
    assert_eq!(lease(&replica, "k"), Some(("a".into(), 1)));
    wait_until("it is over on the replica", || lease(&replica, "k").is_none());
    primary.run("SESSION.APPEND k MSG user hi");
    replica.wait_for(&primary);
    assert_eq!(replica.digest(b"k"), primary.digest(b"k"));
}

#[test]
fn leases_survive_what_moves_values() {
    let server = Server::append_only().start();
    server.run("SESSION.AGENT JOIN k a META '{\"x\":[1]}'");
    server.run("SESSION.AGENT LEASE k gone 1000000");
    server.run("SESSION.AGENT RELEASE k 1");
    server.run("SESSION.AGENT LEASE k a 1000000");
    let before = server.visible(b"k");
    for act in ["DEBUG RELOAD", "DEBUG LOADAOF", "restart", "no", "yes", "RENAME k k2"] {
        match act {
            "restart" => server.restart(),
            "yes" | "no" => {
                server.run(&format!("CONFIG SET aof-use-rdb-preamble {act}"));
                server.rewrite_append_only_file();
                server.restart();
            }
            command => {
                server.run(command);
                if server.say("EXISTS k") == "(integer) 0" {
                    server.run("RENAME k2 k");
                }
            }
        }
        assert_eq!(server.visible(b"k"), before, "{act}");
        assert_held(&server.say("SESSION.POP k"), "a", 1_000_000);
        assert_held(&server.say("SESSION.AGENT LEASE k b 5"), "a", 1_000_000);
        assert_eq!(
            server.say("SESSION.POP k LEASE 1"),
            "(error) LEASELOST token 1 is stale"
        );
        assert_eq!(server.say("SESSION.POP k LEASE 2"), "(empty array)");
    }
    server.run("SESSION.AGENT RELEASE k 2");
    for act in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        server.run(act);
    }
    assert_eq!(server.say("SESSION.AGENT LEASE k b 5"), "(integer) 3");
}

#[test]
fn agents_and_leases_are_in_the_digest_and_in_a_copy() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let mut digests = BTreeSet::from([server.digest(b"k")]);
    for command in [
        "JOIN k a",
        "JOIN k b",
        "JOIN k a META '{\"x\":1}'",
        "LEASE k a PXAT 4102444800000",
        "LEASE k a PXAT 4102444800001",
        "HANDOFF k a b",
        "RELEASE k 2",
        "LEASE k a PXAT 4102444800001",
        "LEAVE k b",
    ] {
        server.run(&format!("SESSION.AGENT {command}"));
        assert!(
            digests.insert(server.digest(b"k")),
            "{command} changed nothing in the digest"
        );
        server.run("COPY k copy REPLACE");
        assert_eq!(server.visible(b"copy"), server.visible(b"k"), "{command}");
    }
    // From here on they diverge.
    server.run("SESSION.AGENT LEAVE copy a");
    assert_eq!(lease(&server, "copy"), None);
    assert_eq!(lease(&server, "k"), Some(("a".into(), 3)));
    assert_eq!(
        (names(&server, "k"), names(&server, "copy")),
        (vec!["a".into()], vec![])
    );
}

// ---------------------------------------------------------------------- notifications and pub/sub

fn subscriber(server: &Server, pattern: &str) -> Client {
    let mut client = server.client();
    client.run(&format!("PSUBSCRIBE {pattern}"));
    client
}

/// Returns what a subscriber has received so far: channel and payload.
fn heard(server: &Server, subscriber: &mut Client, end: &str) -> Vec<(String, String)> {
    server.run(&format!("PUBLISH {end} end"));
    let mut heard = Vec::new();
    loop {
        let message = items(&subscriber.receive());
        let channel = text(&message[2]);
        if channel == end {
            return heard;
        }
        heard.push((channel, text(&message[3])));
    }
}

#[test]
fn joins_and_handoffs_are_published_and_leases_are_not() {
    let server = Server::start();
    let mut subscriber = subscriber(&server, "__session@*");
    let join = |seq: i64, agent: &str| {
        format!(
            r#"{{"key":"k","seq":{seq},"kind":"join","type":null,"agentId":"{agent}","timestamp":"2026-01-14T10:00:00.000Z"}}"#
        )
    };
    let handoff = |seq: i64, agent: &str| {
        format!(
            r#"{{"key":"k","seq":{seq},"kind":"event","type":"handoff","agentId":"{agent}","timestamp":"2026-01-14T10:00:00.000Z"}}"#
        )
    };
    for (command, expected) in [
        ("SESSION.AGENT JOIN k a AT 1768384800000", vec![join(0, "a")]),
        ("SESSION.AGENT JOIN k a AT 1768384800000", vec![]),
        ("SESSION.AGENT JOIN k a META '{\"a\":1}' AT 1768384800000", vec![]),
        ("SESSION.APPEND k JSON {} {} {}", vec![]),
        ("SESSION.AGENT JOIN k b AT 1768384800000", vec![join(3, "b")]),
        ("SESSION.AGENT JOIN k c IFVERSION 99", vec![]),
        ("SESSION.AGENT HANDOFF k a b AT 1768384800000", vec![handoff(4, "a")]),
        ("SESSION.AGENT LEASE k b 100000", vec![]),
        ("SESSION.AGENT LEASE k b 100000", vec![]),
        ("SESSION.AGENT LEASE k a 100000", vec![]),
        (
            "SESSION.AGENT HANDOFF k b a NOTE x AT 1768384800000",
            vec![handoff(5, "b")],
        ),
        ("SESSION.AGENT RELEASE k 2", vec![]),
        ("SESSION.AGENT LEASE k b 100000", vec![]),
        ("SESSION.AGENT LEAVE k b", vec![]),
        ("SESSION.AGENT LEAVE k b", vec![]),
        ("SESSION.AGENT JOIN k b AT 1768384800000", vec![join(5, "b")]),
        ("SESSION.AGENT LIST k", vec![]),
    ] {
        server.attempt(command);
        let expected: Vec<(String, String)> = expected
            .into_iter()
            .map(|payload| ("__session@0__:k".to_string(), payload))
            .collect();
        assert_eq!(heard(&server, &mut subscriber, "__session@end"), expected, "{command}");
    }
    assert_eq!(server.info_number("session", "session_published"), 5);
    server.run("CONFIG SET session.publish off");
    server.run("SESSION.AGENT JOIN k z");
    server.run("SESSION.AGENT HANDOFF k z y");
    assert_eq!(heard(&server, &mut subscriber, "__session@end"), []);
}

#[test]
fn a_replicas_subscribers_hear_of_joins_and_handoffs_once() {
    let (primary, replica) = (Server::start(), Server::start());
    replica.replicate(&primary);
    let mut subscriber = subscriber(&replica, "__session@*");
    primary.run("SESSION.AGENT JOIN k a");
    primary.run("SESSION.AGENT JOIN k a");
    primary.run("SESSION.AGENT LEASE k a 100000");
    primary.run("SESSION.AGENT HANDOFF k a b");
    primary.run("SESSION.AGENT RELEASE k 2");
    replica.wait_for(&primary);
    let kinds: Vec<String> = heard(&replica, &mut subscriber, "__session@end")
        .iter()
        .map(|(_, payload)| {
            let payload: Json = serde_json::from_str(payload).expect("JSON");
            format!("{} {} {}", payload["seq"], payload["kind"], payload["agentId"])
        })
        .collect();
    assert_eq!(kinds, [r#"0 "join" "a""#, r#"1 "event" "a""#]);
}

#[test]
fn agents_notify_and_leases_do_not() {
    let server = Server::with("notify-keyspace-events", "KEd").start();
    let mut subscriber = subscriber(&server, "__keyevent@0__:*");
    for (command, expected) in [
        ("SESSION.AGENT JOIN k a", &["session.create", "session.agent"][..]),
        ("SESSION.AGENT JOIN k a META '{\"x\":1}'", &["session.agent"]),
        ("SESSION.AGENT JOIN k b", &["session.agent"]),
        ("SESSION.AGENT LEASE k a 100000", &[]),
        ("SESSION.AGENT LEASE k a 100000", &[]),
        ("SESSION.AGENT LEASE k b 100000", &[]),
        ("SESSION.AGENT RELEASE k 1", &[]),
        ("SESSION.AGENT RELEASE k 1", &[]),
        ("SESSION.AGENT LEAVE k b", &["session.agent"]),
        ("SESSION.AGENT LEAVE k b", &[]),
        ("SESSION.AGENT LEAVE k b EX 100", &[]),
        ("SESSION.AGENT LIST k", &[]),
        ("SESSION.AGENT JOIN k c LEASE 9", &[]),
    ] {
        server.attempt(command);
        let events: Vec<String> = heard(&server, &mut subscriber, "__keyevent@0__:end")
            .into_iter()
            .map(|(channel, _)| channel.trim_start_matches("__keyevent@0__:").to_string())
            .collect();
        assert_eq!(events, expected, "{command}");
    }
    server.run("SESSION.AGENT HANDOFF k a b");
    let events = heard(&server, &mut subscriber, "__keyevent@0__:end");
    assert!(
        events
            .iter()
            .any(|(channel, _)| channel == "__keyevent@0__:session.agent"),
        "{events:?}"
    );
}

#[test]
fn nothing_done_leaves_no_trace() {
    let server = Server::append_only().start();
    server.run("SESSION.AGENT JOIN k a");
    server.run("SESSION.AGENT LEASE k a 1000000");
    let mut watcher = server.client();
    for command in [
        "SESSION.AGENT LEAVE k nobody",
        "SESSION.AGENT LEAVE k nobody LEASE 1 AT 5",
        "SESSION.AGENT LEASE k b 1000",
        "SESSION.AGENT RELEASE k 2",
        "SESSION.AGENT JOIN k b IFVERSION 99",
        "SESSION.AGENT HANDOFF k a b LEASE 2",
        "SESSION.AGENT LIST k",
        "SESSION.AGENT HELP",
    ] {
        let before = server.visible(b"k");
        let start = now_ms();
        wait_until("the clock ticks", || now_ms() > start + 1);
        watcher.run("WATCH k");
        let propagated = server.propagated_by(|server| {
            server.attempt(command);
        });
        assert!(propagated.is_empty(), "{command} propagated {propagated:?}");
        assert_eq!(server.visible(b"k"), before, "{command}");
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "1) PONG", "{command} broke a WATCH");
    }
}

#[test]
fn an_agent_slides_and_sets_the_expiry() {
    let server = Server::start();
    for command in [
        "JOIN k new",
        "JOIN k known META '{\"x\":1}'",
        "LEAVE k known",
        "HANDOFF k a b",
    ] {
        server.run("DEL k");
        server.run("SESSION.CREATE k EX 1000");
        server.run("SESSION.AGENT JOIN k known");
        server.run("EXPIRE k 5");
        server.run(&format!("SESSION.AGENT {command} KEEPTTL"));
        assert!(server.expires_at_ms(b"k") <= now_ms() + 5000, "{command} KEEPTTL");
        server.run("SESSION.AGENT JOIN k known");
        server.run("EXPIRE k 5");
        server.run(&format!(
            "SESSION.AGENT {}",
            command
                .replace("new", "newer")
                .replace("LEAVE k known", "LEAVE k known EX 1000")
        ));
        assert!(server.expires_at_ms(b"k") > now_ms() + 900_000, "{command}");
        server.run(&format!("SESSION.AGENT {command} PERSIST"));
        assert_eq!(server.expires_at_ms(b"k"), -1, "{command} PERSIST");
        server.run(&format!("SESSION.AGENT {command} PXAT 1000"));
        assert_eq!(server.say("EXISTS k"), "(integer) 0", "{command} PXAT");
    }
}

// ---------------------------------------------------------------------- bad input

#[test]
fn the_grammar_of_agents_is_kept() {
    let server = Server::append_only().start();
    server.run("SESSION.AGENT JOIN k a");
    server.run("SET string x");
    for word in ["BOGUS", "JOINS", "J", "AGENT", "SESSION.AGENT", "agent|join"] {
        assert_refused(
            &server,
            &["SESSION.AGENT", word, "k", "a"],
            &format!("ERR unknown subcommand '{word}'. Try SESSION.AGENT HELP."),
        );
    }
    let arity = "ERR wrong number of arguments for '…' command";
    for (line, error) in [
        ("", arity),
        ("JOIN", arity),
        ("JOIN k", arity),
        ("LEAVE k", arity),
        ("LIST", arity),
        ("LIST k a", arity),
        ("HANDOFF k a", arity),
        ("LEASE k a", arity),
        ("RELEASE k", arity),
        ("RELEASE k 1 2", arity),
        ("HELP k", arity),
        ("JOIN k b BOGUS", "ERR syntax error near 'BOGUS'"),
        ("JOIN k b META", "ERR syntax error near 'META'"),
        ("JOIN k b META {} META {}", "ERR syntax error near 'META'"),
        ("JOIN k b NOTE x", "ERR syntax error near 'NOTE'"),
        ("JOIN k b LEASE", "ERR syntax error near 'LEASE'"),
        ("JOIN k b LEASE x", "ERR LEASE must be an integer from …"),
        ("JOIN k b EX 5 PX 5", "ERR syntax error near 'PX'"),
        ("JOIN k b AT x", "ERR AT must be an integer from …"),
        ("JOIN k b IFVERSION -1", "ERR IFVERSION must be an integer from 0 to …"),
        ("JOIN k b NOW 5", "ERR syntax error near 'NOW'"),
        ("LEAVE k a META {}", "ERR syntax error near 'META'"),
        ("LEAVE k a b", "ERR syntax error near 'b'"),
        ("HANDOFF k a b c", "ERR syntax error near 'c'"),
        ("HANDOFF k a b NOTE", "ERR syntax error near 'NOTE'"),
        ("HANDOFF k a b NOTE x NOTE y", "ERR syntax error near 'NOTE'"),
        ("HANDOFF k a b NOTE \"\"", "ERR NOTE …"),
        ("LEASE k a PXAT", "ERR syntax error near 'PXAT'"),
        ("LEASE k a PXAT x", "ERR PXAT must be an integer from …"),
        ("LEASE k a PXAT -1", "ERR PXAT must be an integer from …"),
        (
            "LEASE k a PXAT 9223372036854775807",
            "ERR PXAT must be an integer from …",
        ),
        ("LEASE k a PXAT 4102444800000 5", "ERR syntax error near '5'"),
        ("LEASE k a 5 PXAT 4102444800000", "ERR syntax error near 'PXAT'"),
        ("LEASE k a 5 5", "ERR syntax error near '5'"),
        ("LEASE k a 5 LEASE 1", "ERR syntax error near 'LEASE'"),
        ("LEASE k a 5 IFVERSION 1", "ERR syntax error near 'IFVERSION'"),
        ("LEASE k a 5 EX 5", "ERR syntax error near 'EX'"),
        ("LEASE k a 5 AT 5", "ERR syntax error near 'AT'"),
        ("LEASE k a x", "ERR … must be an integer from …"),
        ("LEASE k a 0", "ERR … must be an integer from …"),
        ("LEASE k a -1", "ERR … must be an integer from …"),
        ("LEASE k a 1.5", "ERR … must be an integer from …"),
        ("LEASE k a +5", "ERR … must be an integer from …"),
        ("LEASE k a \"\"", "ERR … must be an integer from …"),
        ("LEASE k a \" 5\"", "ERR … must be an integer from …"),
        ("LEASE k a 9223372036854775807", "ERR … must be an integer from …"),
        ("LEASE k a 9223372036854775808", "ERR … must be an integer from …"),
        ("LEASE k a 99999999999999999999", "ERR … must be an integer from …"),
        ("RELEASE k x", "ERR … must be an integer from …"),
        ("RELEASE k -1", "ERR … must be an integer from …"),
        ("RELEASE k 9223372036854775808", "ERR … must be an integer from …"),
        (
            "RELEASE k 9223372036854775807",
            "LEASELOST token 9223372036854775807 is stale",
        ),
        ("RELEASE absent x", "ERR … must be an integer from …"),
        ("LEASE absent a 0", "ERR … must be an integer from …"),
        ("JOIN string a BOGUS", "ERR syntax error near 'BOGUS'"),
        (
            "JOIN string a",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("LEAVE string a", "WRONGTYPE …"),
        ("LIST string", "WRONGTYPE …"),
        ("HANDOFF string a b", "WRONGTYPE …"),
        ("LEASE string a 5", "WRONGTYPE …"),
        ("RELEASE string 1", "WRONGTYPE …"),
    ] {
        assert_refused(&server, &talk::split(&format!("SESSION.AGENT {line}")), error);
    }
}

#[test]
fn a_meta_is_an_object_of_a_bounded_size() {
    let server = Server::append_only().start();
    server.run("SESSION.AGENT JOIN k a META '{\"x\":1}'");
    for key in ["k", "absent"] {
        for meta in [
            "",
            "5",
            "[]",
            "null",
            "\"x\"",
            "{",
            "{}{}",
            "{\"a\":}",
            "{\"a\":\"\n\"}",
            "\0",
        ] {
            assert_refused(
                &server,
                &["SESSION.AGENT", "JOIN", key, "a", "META", meta],
                "ERR META is not a JSON object (…)",
            );
        }
        for meta in [&b"\xff"[..], b"{\"a\":\"\xff\"}", b"{\"\xc3\":1}"] {
            assert_refused(
                &server,
                &[&b"SESSION.AGENT"[..], b"JOIN", key.as_bytes(), b"a", b"META", meta],
                "ERR META …",
            );
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert_refused(&server, &["SESSION.AGENT", "JOIN", key, "a", "META", &deep], "…");
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1_048_576));
        assert_refused(
            &server,
            &["SESSION.AGENT", "JOIN", key, "a", "META", &large],
            "TOOLARGE META …",
        );
    }
    // Unusual but valid, and kept unchanged.
    server.run(r#"SESSION.AGENT JOIN k a META '{"s":"\ud800","s":[]}'"#);
    assert!(server
        .say("SESSION.AGENT LIST k")
        .contains(r#""meta":{"s":"\ud800","s":[]}}"#));
}

#[test]
fn names_and_notes_are_texts_of_a_bounded_length() {
    let server = Server::append_only().start();
    server.run("SESSION.AGENT JOIN k a");
    let long = vec![b'x'; 1_048_576];
    let just_too_long = vec![b'x'; 65_537];
    for (bad, word) in [
        (&long[..], "TOOLARGE"),
        (&just_too_long, "TOOLARGE"),
        (b"", "ERR"),
        (b"\xff", "ERR"),
        (b"a\xc3", "ERR"),
        (b"\xed\xa0\x80", "ERR"),
        (b"\0\xff", "ERR"),
    ] {
        for (args, name) in [
            (&[&b"JOIN"[..], b"k", bad][..], "agent"),
            (&[b"JOIN", b"absent", bad], "agent"),
            (&[b"LEAVE", b"k", bad], "agent"),
            (&[b"LEASE", b"k", bad, b"1000"], "agent"),
            (&[b"HANDOFF", b"k", bad, b"b"], "from"),
            (&[b"HANDOFF", b"k", b"a", bad], "to"),
            (&[b"HANDOFF", b"k", b"a", b"b", b"NOTE", bad], "NOTE"),
        ] {
            let args = [&[&b"SESSION.AGENT"[..]], args].concat();
            assert_refused(&server, &args, &format!("{word} {name} …"));
        }
    }
}

// ---------------------------------------------------------------------- scripts, transactions, ACL

#[test]
fn the_server_knows_the_subcommands() {
    let server = Server::start();
    let w = "IFVERSION LEASE AT EX PX PXAT PERSIST KEEPTTL";
    let docs = items(&server.run("COMMAND DOCS SESSION.AGENT"))[1].clone();
    let of_group = items(&entry(&docs, "subcommands"));
    assert_eq!(of_group.len(), 2 * 7);
    for (name, has, has_not, tokens) in [
        ("join", "write denyoom", "readonly", format!("META {w}")),
        ("leave", "write", "readonly denyoom", w.into()),
        ("list", "readonly", "write denyoom fast", String::new()),
        ("handoff", "write denyoom", "readonly", format!("NOTE {w}")),
        ("lease", "write", "readonly", "PXAT".into()),
        ("release", "write fast", "readonly denyoom", String::new()),
    ] {
        let full = format!("session.agent|{name}");
        let docs = of_group
            .chunks(2)
            .find(|pair| text(&pair[0]).eq_ignore_ascii_case(&full))
            .unwrap_or_else(|| panic!("no {full}"))[1]
            .clone();
        for field in ["summary", "since", "complexity", "group"] {
            assert!(!text(&entry(&docs, field)).is_empty(), "{field} of {name}");
        }
        let mut told = BTreeSet::new();
        collect_tokens(&entry(&docs, "arguments"), &mut told);
        let expected: BTreeSet<String> = tokens.split_whitespace().map(String::from).collect();
        assert_eq!(told, expected, "{name}");
        let info = items(&items(&server.run(&format!("COMMAND INFO {full}")))[0]);
        let flags: BTreeSet<String> = items(&info[2]).iter().map(text).collect();
        assert!(has.split(' ').all(|flag| flags.contains(flag)), "{name}: {flags:?}");
        assert!(
            !has_not.split(' ').any(|flag| flags.contains(flag)),
            "{name}: {flags:?}"
        );
        let keys: Vec<i64> = info[3..6].iter().map(int).collect();
        assert_eq!(keys, [2, 2, 1], "first, last, step of {name}");
    }
    for command in [
        "JOIN k STORE META '{\"INDEX\":\"STORE\"}'",
        "LEAVE k STORE",
        "LIST k",
        "HANDOFF k STORE INDEX NOTE KEYS",
        "LEASE k PXAT PXAT 5",
        "LEASE k a 5",
        "RELEASE k 1",
    ] {
        assert_eq!(
            server.say(&format!("COMMAND GETKEYS SESSION.AGENT {command}")),
            r#"1) "k""#,
            "{command}"
        );
    }
    let help: Vec<String> = items(&server.run("SESSION.AGENT HELP")).iter().map(text).collect();
    for line in [
        "JOIN key agent",
        "LEAVE key agent",
        "LIST key",
        "HANDOFF key from to",
        "LEASE key agent",
        "RELEASE key",
        "HELP",
    ] {
        assert!(help.iter().any(|said| said.starts_with(line)), "{line} in {help:#?}");
    }
}

#[test]
fn access_goes_by_subcommand_and_key() {
    let server = Server::start();
    server.run("SESSION.CREATE session:1");
    user(&server, "~session:* +session.agent|join +session.agent|list").conversation(
        r#"
        > SESSION.AGENT JOIN session:1 a
        (integer) 1
        > SESSION.AGENT LIST session:1
        1) …
        > SESSION.AGENT JOIN other a
        (error) NOPERM …
        > SESSION.AGENT LIST other
        (error) NOPERM …
        > SESSION.AGENT LEASE session:1 a 5
        (error) NOPERM …
        > SESSION.AGENT LEAVE session:1 a
        (error) NOPERM …
        "#,
    );
    user(&server, "~* +session.agent -session.agent|lease").conversation(
        r#"
        > SESSION.AGENT HANDOFF session:1 a b
        …
        > SESSION.AGENT LEASE session:1 a 5
        (error) NOPERM …
        > SESSION.AGENT RELEASE session:1 1
        (error) LEASELOST …
        "#,
    );
    user(&server, "%R~* +session.agent").conversation(
        r#"
        > SESSION.AGENT LIST session:1
        1) …
        > SESSION.AGENT JOIN session:1 b
        (error) NOPERM …
        > SESSION.AGENT LEASE session:1 b 5
        (error) NOPERM …
        "#,
    );
}

#[test]
fn out_of_memory_refuses_a_join_and_allows_an_end() {
    let server = Server::start();
    server.run("SESSION.AGENT JOIN k a");
    server.run("SESSION.AGENT LEASE k b 1000000");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    for grows in ["JOIN k b", "JOIN new b", "HANDOFF k a b"] {
        let reply = server.say(&format!("SESSION.AGENT {grows}"));
        assert!(reply.starts_with("(error) OOM "), "{grows}: {reply}");
    }
    for allowed in ["LIST k", "RELEASE k 1", "LEAVE k a", "HELP"] {
        server.run(&format!("SESSION.AGENT {allowed}"));
    }
}
