//! `<w>`: versions, leases, retries, and the order in which they are checked.

use redis_session_tests::table::assert_examples;
use redis_session_tests::{int, Server};

/// Every command that writes a session, for one that has three messages and the entity `e`; `{w}` marks the position of the
/// options.
pub const WRITES: [&str; 16] = [
    "SESSION.APPEND k {w} JSON '{\"n\":4}'",
    "SESSION.APPEND k {w} MSG user four",
    "SESSION.META k '{\"b\":2}' {w}",
    "SESSION.WINDOW k MAXLEN 2 {w}",
    "SESSION.POP k {w}",
    "SESSION.REMOVE k 1 {w}",
    "SESSION.REDACT k 1 {w}",
    "SESSION.COMPACT k UPTO 2 {w} MSG system summary",
    "SESSION.CLEAR k {w}",
    "SESSION.ENTITY MENTION k {w} ID e NAME n ALIAS a",
    "SESSION.ENTITY MENTION k {w} JSON '{\"id\":\"new\"}'",
    "SESSION.ENTITY FORGET k 1 e {w}",
    "SESSION.AGENT JOIN k new {w}",
    "SESSION.AGENT HANDOFF k a b {w}",
    "SESSION.EVENT ADD k pass STATE review {w}",
    "SESSION.CHECKPOINT CREATE k LABEL l {w}",
];

/// Further writes that need more than that session: the set-up, and the write.
const LATER_WRITES: [(&str, &str); 3] = [
    ("SESSION.AGENT JOIN k a", "SESSION.AGENT LEAVE k a {w}"),
    ("SESSION.CHECKPOINT CREATE k", "SESSION.CHECKPOINT DEL k 4 {w}"),
    ("SESSION.CHECKPOINT CREATE k", "SESSION.CHECKPOINT RESTORE k 4 {w}"),
];

/// Commands that take these options and do not write an existing session.
const NO_WRITES: [(&str, &str); 3] = [
    ("SESSION.CREATE", "makes a session"),
    ("SESSION.FORK", "makes another session of this one"),
    ("SESSION.MIGRATE", "makes a session of other keys"),
];

/// Returns every command of the running module that takes `<w>` and writes a session: the set-up beyond the three messages, if
/// any, and the write.
pub fn writes(server: &Server) -> Vec<(&'static str, &'static str)> {
    let writes: Vec<_> = WRITES
        .into_iter()
        .map(|write| ("", write))
        .chain(LATER_WRITES)
        .collect();
    let commands = server.commands();
    let commands = commands.iter().filter(|command| command.takes_write_options());
    assert_examples(commands, writes.iter().map(|(_, write)| write), &NO_WRITES);
    writes
}

/// Returns the set-up for a write of [`writes`].
fn set_up(server: &Server, before: &str) {
    three_messages(server);
    if !before.is_empty() {
        server.run(before);
    }
}

fn three_messages(server: &Server) {
    server.run("DEL k");
    server.run(r#"SESSION.CREATE k META '{"a":1}'"#);
    server.run(r#"SESSION.APPEND k JSON '{"n":1,"entity_refs":["e"]}' '{"n":2}' '{"n":3}'"#);
}

#[test]
fn every_write_is_one_version() {
    let server = Server::start();
    for (before, write) in writes(&server) {
        set_up(&server, before);
        let version = server.version_of("k");
        assert_eq!(version, if before.is_empty() { 2 } else { 3 }, "{before}");
        server.run(&write.replace("{w}", &format!("IFVERSION {version}")));
        assert_eq!(server.version_of("k"), version + 1, "{write}");
    }
    server.conversation(
        r#"
        # creating implicitly is a version of its own
        > SESSION.APPEND a MSG user hi
        > SESSION.META m '{"a":1}'
        > SESSION.CREATE c
        > SESSION.GETEX g CREATE
        "#,
    );
    assert_eq!(
        (server.version_of("a"), server.version_of("m"), server.version_of("c")),
        (2, 2, 1)
    );
    assert_eq!(server.version_of("g"), 1);
    server.run("SESSION.APPEND a JSON {} {} {}");
    assert_eq!(server.version_of("a"), 3, "however much it changed");
    server.run("SESSION.GETEX a EX 5");
    server.run("EXPIRE a 100");
    assert_eq!(server.version_of("a"), 3);
}

#[test]
fn ifversion_guards_every_write() {
    let server = Server::start();
    for (before, write) in writes(&server) {
        set_up(&server, before);
        let version = server.version_of("k");
        let before = server.visible(b"k");
        for wrong in [0, 1, version - 1, version + 1, 99] {
            assert_eq!(
                server.say(&write.replace("{w}", &format!("IFVERSION {wrong}"))),
                format!("(error) VERSIONCONFLICT session is at version {version}, not {wrong}"),
                "{write}"
            );
        }
        assert_eq!(server.visible(b"k"), before, "{write}");
    }
}

#[test]
fn version_zero_is_no_session_yet() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k IFVERSION 5 MSG user hi
        (error) VERSIONCONFLICT session is at version 0, not 5
        > SESSION.META k {} IFVERSION 1
        (error) VERSIONCONFLICT session is at version 0, not 1
        > SESSION.CREATE k IFVERSION 1
        (error) VERSIONCONFLICT session is at version 0, not 1
        > EXISTS k
        (integer) 0
        > SESSION.APPEND k IFVERSION 0 MSG user hi
        (integer) 1
        > SESSION.APPEND k IFVERSION 0 MSG user hi
        (error) VERSIONCONFLICT session is at version 2, not 0
        > SESSION.APPEND k IFVERSION 2 MSG user hi
        (integer) 2
        > SESSION.CREATE c IFVERSION 0
        …
        > SESSION.META m '{"a":1}' IFVERSION 0
        '{"a":1}'
        # none of the others creates
        > SESSION.WINDOW absent MAXLEN 3 IFVERSION 0
        (error) NOSESSION no session at key 'absent'
        "#,
    );
}

#[test]
fn a_lease_token_that_is_given_is_checked() {
    let server = Server::start();
    for (before, write) in writes(&server) {
        set_up(&server, before);
        let before = server.visible(b"k");
        assert_eq!(
            server.say(&write.replace("{w}", "LEASE 3")),
            "(error) LEASELOST token 3 is stale",
            "{write}"
        );
        // Before the version is checked.
        assert_eq!(
            server.say(&write.replace("{w}", "IFVERSION 99 LEASE 4")),
            "(error) LEASELOST token 4 is stale",
            "{write}"
        );
        assert_eq!(server.visible(b"k"), before, "{write}");
    }
    server.conversation(
        r#"
        > SESSION.APPEND absent LEASE 3 MSG user hi
        (error) LEASELOST token 3 is stale
        > SESSION.CREATE absent LEASE 3
        (error) LEASELOST token 3 is stale
        > EXISTS absent
        (integer) 0
        > SESSION.APPEND k LEASE x MSG user hi
        (error) ERR LEASE must be an integer from …
        "#,
    );
}

#[test]
fn the_grammar_of_w_is_kept_on_every_write() {
    let server = Server::start();
    three_messages(&server);
    let before = server.visible(b"k");
    // Commands that create the session have the same grammar.
    let others = [
        "SESSION.CREATE new {w}",
        "SESSION.FORK k new {w}",
        "SESSION.MIGRATE new {w}",
    ];
    let commands: Vec<&str> = writes(&server)
        .into_iter()
        .map(|(_, write)| write)
        .chain(others)
        .collect();
    for &write in &commands {
        for (options, error) in [
            ("IFVERSION 2 IFVERSION 2", "ERR syntax error near 'IFVERSION'"),
            ("LEASE 1 LEASE 1", "ERR syntax error near 'LEASE'"),
            ("AT 1 AT 1", "ERR syntax error near 'AT'"),
            ("EX 1 EX 1", "ERR syntax error near 'EX'"),
            ("EX 5 PX 5", "ERR syntax error near 'PX'"),
            ("PX 5 EX 5", "ERR syntax error near 'EX'"),
            ("PXAT 4102444800000 PERSIST", "ERR syntax error near 'PERSIST'"),
            ("PERSIST KEEPTTL", "ERR syntax error near 'KEEPTTL'"),
            ("KEEPTTL EX 5", "ERR syntax error near 'EX'"),
            ("IFVERSION x", "ERR IFVERSION must be an integer from 0 to …"),
            ("IFVERSION -1", "ERR IFVERSION must be an integer from 0 to …"),
            ("AT x", "ERR AT must be an integer from …"),
            ("AT 99999999999999999999", "ERR AT must be an integer from …"),
            ("EX x", "ERR EX must be an integer from …"),
            ("EX -1", "ERR EX must be an integer from …"),
            ("EX 9223372036854775807", "ERR EX must be an integer from …"),
            ("PX -1", "ERR PX must be an integer from …"),
            ("PX 9223372036854775807", "ERR PX must be an integer from …"),
            ("PXAT 1.5", "ERR PXAT must be an integer from …"),
            ("PXAT 99999999999999999999", "ERR PXAT must be an integer from …"),
        ] {
            let reply = server.say(&write.replace("{w}", options));
            assert!(
                redis_session_tests::talk::matches(&format!("(error) {error}"), &reply),
                "{write} with {options}: {reply}"
            );
        }
    }
    // Without its value, at the end.
    for write in commands.into_iter().filter(|write| write.ends_with("{w}")) {
        for option in ["IFVERSION", "LEASE", "AT", "EX", "PX", "PXAT"] {
            let reply = server.say(&write.replace("{w}", option));
            assert_eq!(
                reply,
                format!("(error) ERR syntax error near '{option}'"),
                "{write} with {option}"
            );
        }
    }
    assert_eq!(server.visible(b"k"), before);
    assert_eq!(server.say("EXISTS new"), "(integer) 0");
}

#[test]
fn options_come_in_any_order_and_case() {
    let server = Server::start();
    for (before, write) in writes(&server) {
        set_up(&server, before);
        let version = server.version_of("k");
        server.run(&write.replace("{w}", &format!("px 100000 at 5 ifversion {version}")));
        assert_eq!(server.version_of("k"), version + 1, "{write}");
    }
}

#[test]
fn dedup_repeats_the_first_reply() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.APPEND k DEDUP t1 JSON '{"n":1}' '{"n":2}'
        (integer) 2
        > SESSION.APPEND k DEDUP t2 MSG user hi
        (integer) 3
        > SESSION.APPEND k DEDUP t1 JSON '{"n":1}' '{"n":2}'
        (integer) 2
        > SESSION.APPEND k DEDUP t2 MSG user hi
        (integer) 3
        # with EVICTED nothing was evicted this time
        > SESSION.APPEND k EVICTED DEDUP t1 JSON '{"n":1}' '{"n":2}'
        1) (integer) 2
        2) (empty array)
        > SESSION.LEN k
        (integer) 3
        > SESSION.APPEND k DEDUP t1 JSON '{"n":1}'
        (error) DEDUPCONFLICT token 't1' was used for another message
        > SESSION.APPEND k DEDUP t1 JSON '{"n":1}' '{"n": 2}'
        (error) DEDUPCONFLICT token 't1' was used for another message
        > SESSION.APPEND k DEDUP t2 MSG user hi NAME n
        (error) DEDUPCONFLICT token 't2' was used for another message
        > SESSION.APPEND k DEDUP t2 MSG userh i
        (error) DEDUPCONFLICT token 't2' was used for another message
        # before every guard
        > SESSION.APPEND k DEDUP t1 IFVERSION 99 LEASE 7 JSON '{"n":1}' '{"n":2}'
        (integer) 2
        > SESSION.APPEND k DEDUP t1 IFVERSION 99 LEASE 7 JSON '{"n":3}'
        (error) DEDUPCONFLICT token 't1' was used for another message
        # what only stands before the messages may differ
        > SESSION.APPEND k DEDUP t1 MAXLEN 1 JSON '{"n":1}' '{"n":2}'
        (integer) 2
        > SESSION.LEN k
        (integer) 3
        "#,
    );
    assert_eq!(server.version_of("k"), 3);
    // Tokens belong to one session.
    assert_eq!(
        server.say(r#"SESSION.APPEND other DEDUP t1 JSON '{"n":9}'"#),
        "(integer) 1"
    );
}

#[test]
fn only_the_last_tokens_are_remembered() {
    Server::start().conversation(
        r#"
        > SESSION.CREATE k LIMIT dedup-window 2
        > SESSION.APPEND k DEDUP a JSON '{"n":1}'
        (integer) 1
        > SESSION.APPEND k DEDUP b JSON '{"n":2}'
        (integer) 2
        # a repeat does not refresh the token
        > SESSION.APPEND k DEDUP a JSON '{"n":1}'
        (integer) 1
        > SESSION.APPEND k DEDUP c JSON '{"n":3}'
        (integer) 3
        > SESSION.APPEND k DEDUP b JSON '{"n":2}'
        (integer) 2
        > SESSION.APPEND k DEDUP a JSON '{"n":1}'
        (integer) 4
        > SESSION.APPEND k JSON '{"n":5}'
        (integer) 5
        > SESSION.APPEND k DEDUP c JSON '{"n":3}'
        (integer) 3
        > SESSION.CREATE none LIMIT dedup-window 0
        > SESSION.APPEND none DEDUP a JSON '{"n":1}'
        (integer) 1
        > SESSION.APPEND none DEDUP a JSON '{"n":1}'
        (integer) 2
        "#,
    );
}

#[test]
fn a_repeat_is_recognised_after_the_message_is_gone() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k DEDUP a MSG user hi
        (integer) 1
        > SESSION.CLEAR k
        (integer) 1
        > SESSION.APPEND k DEDUP a MSG user hi
        (integer) 1
        > SESSION.LEN k
        (integer) 0
        > DEL k
        (integer) 1
        > SESSION.APPEND k DEDUP a MSG user hi
        (integer) 1
        > SESSION.LEN k
        (integer) 1
        "#,
    );
}

#[test]
fn the_order_of_checks_is_the_contracts() {
    let server = Server::start();
    server.run("SET string x");
    server.run("SESSION.APPEND k DEDUP t MSG user hi");
    server.conversation(
        r#"
        # arity, syntax, bodies, WRONGTYPE
        > SESSION.APPEND string
        (error) ERR wrong number of arguments for '…' command
        > SESSION.APPEND string BOGUS JSON nonsense
        (error) ERR syntax error near 'BOGUS'
        > SESSION.APPEND string IFVERSION x JSON nonsense
        (error) ERR IFVERSION must be an integer from 0 to …
        > SESSION.APPEND string IFVERSION 9 JSON nonsense
        (error) BADMESSAGE message 1 of 1: not a JSON object (…)
        > SESSION.APPEND string LEASE 1 IFVERSION 9 JSON {}
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.COMPACT string UPTO 1 JSON nonsense
        (error) BADMESSAGE message 1 of 1: not a JSON object (…)
        # NOSESSION, lease, version
        > SESSION.COMPACT absent UPTO 1 JSON nonsense
        (error) BADMESSAGE message 1 of 1: not a JSON object (…)
        > SESSION.COMPACT absent UPTO 1 LEASE 1 IFVERSION 9 JSON {}
        (error) NOSESSION no session at key 'absent'
        > SESSION.APPEND k DEDUP t LEASE 1 IFVERSION 9 MSG user other
        (error) DEDUPCONFLICT token 't' was used for another message
        > SESSION.APPEND k DEDUP new LEASE 1 IFVERSION 9 MSG user other
        (error) LEASELOST token 1 is stale
        > SESSION.APPEND k DEDUP new IFVERSION 9 MSG user other
        (error) VERSIONCONFLICT session is at version 2, not 9
        # a refused append leaves no token behind
        > SESSION.APPEND k DEDUP new MSG user again
        (integer) 2
        "#,
    );
}

#[test]
fn seq_is_never_used_again() {
    let server = Server::start();
    let mut last = 0;
    for act in [
        "SESSION.POP k",
        "SESSION.CLEAR k",
        "SESSION.REMOVE k {last}",
        "SESSION.WINDOW k MAXLEN 1",
        "DEBUG RELOAD",
        "SESSION.COMPACT k UPTO 99 MSG system s",
    ] {
        for _ in 0..3 {
            let seq = int(&server.run("SESSION.APPEND k MSG user hi"));
            assert_eq!(seq, last + 1);
            last = seq;
        }
        server.run(&act.replace("{last}", &last.to_string()));
    }
}
