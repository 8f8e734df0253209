//! Writes that change nothing: no new version, no broken `WATCH`, no replication, no slide, no notification.

use redis_session_tests::{now_ms, talk, wait_until, Options};

#[test]
fn a_write_that_changed_nothing_leaves_no_trace() {
    let server = Options::default()
        .append_only()
        .config("notify-keyspace-events", "KEd")
        .start();
    let mut watcher = server.client();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE __key*__:*");
    let set_up = r#"
        > DEL k
        > SESSION.CREATE k META '{"a":1,"o":{"x":[1]}}' LIMIT maxlen 10 PIN system
        > SESSION.APPEND k DEDUP t JSON '{"n":1}' '{"n":2}'
    "#;
    let empty = r#"
        > DEL k
        > SESSION.CREATE k
    "#;
    let anchors = r#"
        > DEL k
        > SESSION.ANCHOR ADD k s1 OUTCOME pass AT 4102444800000
    "#;
    let closed = r#"
        > DEL k
        > SESSION.APPEND k MSG user hi
        > SESSION.CHECKPOINT CREATE k CLOSE
    "#;
    for (set_up, command, reply) in [
        (set_up, "SESSION.CREATE k OPEN", "…"),
        (set_up, "SESSION.CREATE k OPEN LIMIT maxlen 1 STATE other", "…"),
        (
            set_up,
            r#"SESSION.APPEND k DEDUP t JSON '{"n":1}' '{"n":2}'"#,
            "(integer) 2",
        ),
        (set_up, "SESSION.APPEND absent XX MSG user hi", "(nil)"),
        (set_up, r#"SESSION.META k '{"a":1}'"#, r#"'{"a":1,"o":{"x":[1]}}'"#),
        (
            set_up,
            r#"SESSION.META k '{"o":{"x":[1],"y":null},"z":null}'"#,
            r#"'{"a":1,"o":{"x":[1]}}'"#,
        ),
        (set_up, "SESSION.META k {}", r#"'{"a":1,"o":{"x":[1]}}'"#),
        (set_up, "SESSION.WINDOW k MAXLEN 10", "(integer) 0"),
        (set_up, "SESSION.WINDOW k PIN system", "(integer) 0"),
        (
            set_up,
            "SESSION.WINDOW k MAXLEN 10 MAXTOKENS 0 MAXBYTES 0 MAXAGE 0 PIN system",
            "(integer) 0",
        ),
        (set_up, "SESSION.REMOVE k 99 100", "(integer) 0"),
        (set_up, "SESSION.REDACT k 99 REASON x", "(integer) 0"),
        (set_up, "SESSION.COMPACT k UPTO 0 MSG system x", "(integer) 0"),
        (empty, "SESSION.COMPACT k UPTO 9 MSG system x", "(integer) 0"),
        (empty, "SESSION.POP k COUNT 3", "(empty array)"),
        (empty, "SESSION.CLEAR k", "(integer) 0"),
        (empty, "SESSION.WINDOW k NOPIN", "(integer) 0"),
        (empty, "SESSION.ENTITY FORGET k 2 e f", "(integer) 0"),
        (
            "> DEL k\n> SESSION.ENTITY MENTION k ID e ALIAS a",
            "SESSION.ENTITY FORGET k 3 E a f AT 5 KEEPTTL",
            "(integer) 0",
        ),
        (
            anchors,
            "SESSION.ANCHOR ADD k s1 OUTCOME pass AT 4102444800000",
            "(integer) 1",
        ),
        (anchors, "SESSION.ANCHOR ADD k s2 AT 5000", "(integer) 1"),
        (empty, "SESSION.ANCHOR ADD absent s1 AT 5000", "(integer) 0"),
        (
            empty,
            "SESSION.ANCHOR ADD absent s1 MAXAGE 1 AT 5000 MAXLEN 0",
            "(integer) 0",
        ),
        (
            "> DEL k i\n> SESSION.CREATE k INDEX i ALIAS a",
            "SESSION.CREATE absent INDEX i ALIAS a OPEN STATE other EX 5",
            "…",
        ),
        (
            "> DEL k i\n> SESSION.CREATE k INDEX i ALIAS a",
            "SESSION.CREATE k INDEX i ALIAS b OPEN",
            "…",
        ),
        (
            "> DEL k i\n> SESSION.CREATE k INDEX i ALIAS a",
            "SESSION.INDEX ADD i k",
            "(integer) 0",
        ),
        (
            "> DEL k i\n> SESSION.CREATE k INDEX i ALIAS a AUTONAME",
            "SESSION.INDEX ADD i k ALIAS a AUTONAME",
            "(integer) 0",
        ),
        (empty, "SESSION.CHECKPOINT DEL k 1 2", "(integer) 0"),
        (
            "> DEL k\n> SESSION.EVENT ADD k pass\n> SESSION.CHECKPOINT CREATE k",
            "SESSION.CHECKPOINT DEL k 1 3 AT 5 KEEPTTL IFVERSION 3",
            "(integer) 0",
        ),
        (closed, "SESSION.GETEX k", "…"),
        (closed, "SESSION.GETEX k CREATE MESSAGES 0", "…"),
        (closed, "SESSION.CREATE k OPEN", "…"),
        (empty, "SESSION.GETEX absent", "(nil)"),
        (empty, "SESSION.GETEX absent EX 5", "(nil)"),
    ] {
        server.conversation(set_up);
        let before = server.visible(b"k");
        let start = now_ms();
        wait_until("the clock ticks", || now_ms() > start + 1);
        // Ignores the notifications of the set-up.
        drain(&server, &mut subscriber);
        watcher.run("WATCH k absent");
        let propagated = server.propagated_by(|server| {
            let said = server.say(command);
            assert!(reply == "…" || talk::matches(reply, &said), "{command}\n{said}");
        });
        assert!(propagated.is_empty(), "{command} propagated {propagated:?}");
        assert_eq!(server.visible(b"k"), before, "{command}");
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "1) PONG", "{command} broke a WATCH");
        assert_eq!(drain(&server, &mut subscriber), [""; 0], "{command} notified");
    }
}

/// Returns the notifications that a subscriber has received so far.
fn drain(server: &redis_session_tests::Server, subscriber: &mut redis_session_tests::Client) -> Vec<String> {
    server.run("PUBLISH __keyspace@0__:end end");
    let mut seen = Vec::new();
    loop {
        let line = talk::render(&subscriber.receive());
        if line.contains("__keyspace@0__:end") {
            return seen;
        }
        if !line.contains("psubscribe") {
            seen.push(line);
        }
    }
}

#[test]
fn an_expiry_given_explicitly_is_a_change() {
    let server = Options::default().append_only().start();
    for (option, expires) in [
        ("EX 100", true),
        ("PX 100000", true),
        ("PXAT 4102444800000", true),
        ("PERSIST", false),
    ] {
        server.run("DEL k");
        server.run(r#"SESSION.META k '{"a":1}'"#);
        let version = server.version_of("k");
        let expires_at_ms = server.expires_at_ms(b"k");
        let mut watcher = server.client();
        watcher.run("WATCH k");
        let propagated = server.propagated_lines(|server| {
            assert_eq!(
                server.say(&format!(r#"SESSION.META k '{{"a":1}}' {option}"#)),
                r#"'{"a":1}'"#
            )
        });
        assert!(!propagated.is_empty(), "{option}");
        assert_eq!(server.version_of("k"), version, "the content is what it was");
        assert_ne!(server.expires_at_ms(b"k"), expires_at_ms);
        assert_eq!(server.expires_at_ms(b"k") > 0, expires);
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "(nil)", "{option}");
        let before = server.visible(b"k");
        server.restart();
        assert_eq!(server.visible(b"k"), before, "{option}");
    }
}

#[test]
fn a_write_that_changed_something_breaks_a_watch() {
    let server = redis_session_tests::Server::start();
    for (before, write) in super::guards::writes(&server) {
        server.run("DEL k");
        server.run(r#"SESSION.APPEND k JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}' '{"n":3}'"#);
        if !before.is_empty() {
            server.run(before);
        }
        let mut watcher = server.client();
        watcher.run("WATCH k");
        watcher.run("SESSION.GET k");
        server.run(&write.replace("{w}", ""));
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "(nil)", "{write}");
        // Neither do reads.
        watcher.run("WATCH k");
        for reading in [
            "RANGE k 0 -1",
            "GET k",
            "LEN k",
            "INFO k",
            "CONTEXT k",
            "GET absent",
            "ENTITY GET k e",
            "ENTITY LIST k",
            "ENTITY RESOLVE k he",
            "CHECKPOINT LIST k",
            "CHECKPOINT GET k 1",
        ] {
            server.run(&format!("SESSION.{reading}"));
        }
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "1) PONG");
    }
}
