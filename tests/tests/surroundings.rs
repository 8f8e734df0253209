//! Integration with the server: transactions, scripts, memory, access control, documentation, notifications, counters.

use std::collections::{BTreeSet, HashMap};

use redis_session_tests::table::{assert_examples, Command, Kind};
use redis_session_tests::{entry, items, talk, text, Client, Server, Value};

#[test]
fn transactions_hold_session_commands() {
    Server::start().conversation(
        r#"
        > MULTI
        OK
        > SESSION.APPEND k JSON '{"n":1}'
        QUEUED
        > SESSION.APPEND k IFVERSION 99 JSON '{"n":2}'
        QUEUED
        > SESSION.RANGE k 0 -1
        QUEUED
        > SESSION.POP absent
        QUEUED
        > SESSION.LEN k
        QUEUED
        > EXEC
        1) (integer) 1
        2) (error) VERSIONCONFLICT session is at version 2, not 99
        3) 1) '{"n":1}'
        4) (error) NOSESSION no session at key 'absent'
        5) (integer) 1
        > MULTI
        OK
        > SESSION.APPEND k
        (error) ERR wrong number of arguments for '…' command
        > EXEC
        (error) EXECABORT …
        > MULTI
        OK
        > SESSION.APPEND k MSG user hi
        QUEUED
        > DISCARD
        OK
        > SESSION.LEN k
        (integer) 1
        "#,
    );
}

#[test]
fn scripts_and_functions_call_session_commands() {
    Server::start().conversation(
        r##"
        > EVAL "return redis.call('SESSION.APPEND', KEYS[1], 'JSON', ARGV[1])" 1 k '{"n":1}'
        (integer) 1
        > EVAL "return redis.call('SESSION.RANGE', KEYS[1], 0, -1)" 1 k
        1) '{"n":1}'
        > EVAL "return redis.call('SESSION.RANGE', KEYS[1], 0, -1, 'WITHMETA')[1][1]" 1 k
        (integer) 1
        > EVAL "return redis.call('SESSION.CREATE', KEYS[1], 'OPEN')" 1 k
        1) "id"
        2) "…"
        3) "key"
        4) "k"
        5) "created"
        6) (integer) 0
        > EVAL "return redis.call('SESSION.GET', KEYS[1])" 1 absent
        (nil)
        > EVAL "return redis.pcall('SESSION.POP', KEYS[1])" 1 absent
        (error) NOSESSION no session at key 'absent'
        > EVAL "return redis.call('SESSION.APPEND', KEYS[1], 'IFVERSION', 7, 'MSG', 'user', 'hi')" 1 k
        (error) VERSIONCONFLICT session is at version 2, not 7…
        > EVAL "redis.setresp(3); return redis.call('SESSION.CREATE', KEYS[1], 'OPEN')['map']['key']" 1 k
        "k"
        > EVAL_RO "return redis.call('SESSION.LEN', KEYS[1])" 1 k
        (integer) 1
        > EVAL_RO "return redis.call('SESSION.POP', KEYS[1])" 1 k
        (error) …
        > FUNCTION LOAD "#!lua name=lib\nredis.register_function('turn', function(keys, args) redis.call('SESSION.APPEND', keys[1], 'MSG', 'user', args[1]) return redis.call('SESSION.LEN', keys[1]) end)"
        "lib"
        > FCALL turn 1 k hello
        (integer) 2
        "##,
    );
}

#[test]
fn out_of_memory_refuses_what_grows_and_allows_what_shrinks() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}' '{"n":5}' '{"n":6}'"#);
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    for grows in [
        "SESSION.CREATE new",
        "SESSION.APPEND k MSG user hi",
        "SESSION.APPEND new MSG user hi",
        "SESSION.META k '{\"a\":1}'",
        "SESSION.ENTITY MENTION k ID e",
        "SESSION.ENTITY MENTION new ID e",
        "SESSION.CREATE new INDEX i ALIAS a",
        "SESSION.INDEX ADD i k",
    ] {
        assert_eq!(
            server.say(grows),
            "(error) OOM command not allowed when used memory > 'maxmemory'.",
            "{grows}"
        );
    }
    for allowed in [
        "SESSION.RANGE k 0 -1",
        "SESSION.GET k",
        "SESSION.LEN k",
        "SESSION.INFO k",
        "SESSION.CONTEXT k",
        "SESSION.WINDOW k MAXLEN 5",
        "SESSION.POP k",
        "SESSION.REMOVE k 2",
        "SESSION.REDACT k 3",
        "SESSION.CLEAR k",
        "SESSION.ENTITY GET k e",
        "SESSION.ENTITY LIST k",
        "SESSION.ENTITY RESOLVE k he",
        "SESSION.ENTITY FORGET k 1 e",
        "SESSION.ENTITY HELP",
        "SESSION.INDEX RESOLVE i a",
        "SESSION.INDEX LIST i",
        "SESSION.INDEX LEN i",
    ] {
        server.run(allowed);
    }
    server.run("CONFIG SET maxmemory 0");
    // The server evicts sessions like any other key.
    server.run("SESSION.APPEND k MSG user hi");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru");
    server.attempt("SESSION.APPEND other MSG user hi");
    redis_session_tests::wait_until("the session is evicted", || server.say("EXISTS k") == "(integer) 0");
}

/// The contract of each command: its flags, the positions of its keys (first, last, step), its option words; `{w}` stands for those
/// of every write of a session.
const COMMANDS: [(&str, &str, [i64; 3], &str); 50] = [
    ("SESSION.AGENT HANDOFF", "write denyoom fast", [2, 2, 1], "NOTE {w}"),
    ("SESSION.AGENT HELP", "fast", [0, 0, 0], ""),
    ("SESSION.AGENT JOIN", "write denyoom fast", [2, 2, 1], "META {w}"),
    ("SESSION.AGENT LEASE", "write denyoom fast", [2, 2, 1], "PXAT"),
    ("SESSION.AGENT LEAVE", "write fast", [2, 2, 1], "{w}"),
    ("SESSION.AGENT LIST", "readonly", [2, 2, 1], ""),
    ("SESSION.AGENT RELEASE", "write fast", [2, 2, 1], ""),
    (
        "SESSION.ANCHOR ADD",
        "write denyoom fast",
        [2, 2, 1],
        "OUTCOME CHECKPOINT IMPACTS PERF MAXLEN MAXAGE AT",
    ),
    ("SESSION.ANCHOR GET", "readonly", [2, 2, 1], "SESSION"),
    ("SESSION.ANCHOR HELP", "fast", [0, 0, 0], ""),
    (
        "SESSION.APPEND",
        "write denyoom fast",
        [1, 1, 1],
        "XX DEDUP MAXLEN TOKENS EVICTED MSG NAME ID TOOL_CALL_ID TOOL_CALL REF JSON {w}",
    ),
    (
        "SESSION.CHECKPOINT CREATE",
        "write denyoom",
        [2, 2, 1],
        "STORE GRACE LABEL OUTCOME SUMMARY REFS TRIM CLOSE {w}",
    ),
    ("SESSION.CHECKPOINT DEL", "write", [2, 2, 1], "{w}"),
    ("SESSION.CHECKPOINT GET", "readonly fast", [2, 2, 1], ""),
    ("SESSION.CHECKPOINT HELP", "fast", [0, 0, 0], ""),
    ("SESSION.CHECKPOINT LIST", "readonly", [2, 2, 1], ""),
    ("SESSION.CHECKPOINT RESTORE", "write denyoom", [2, 2, 1], "{w}"),
    ("SESSION.CLEAR", "write", [1, 1, 1], "{w}"),
    (
        "SESSION.COMPACT",
        "write",
        [1, 1, 1],
        "UPTO MSG NAME ID TOOL_CALL_ID TOOL_CALL REF JSON {w}",
    ),
    (
        "SESSION.CONTEXT",
        "readonly",
        [1, 1, 1],
        "MAXTOKENS MAXLEN ENTITIES ROLE",
    ),
    (
        "SESSION.CREATE",
        "write denyoom fast",
        [1, 1, 1],
        "INDEX ALIAS AUTONAME OPEN ID SCOPE STATE META LIMIT PIN {w}",
    ),
    ("SESSION.ENTITY FORGET", "write fast", [2, 2, 1], "{w}"),
    ("SESSION.ENTITY GET", "readonly fast", [2, 2, 1], ""),
    ("SESSION.ENTITY HELP", "fast", [0, 0, 0], ""),
    ("SESSION.ENTITY LIST", "readonly", [2, 2, 1], "TYPE LIMIT"),
    (
        "SESSION.ENTITY MENTION",
        "write denyoom fast",
        [2, 2, 1],
        "ID NAME TYPE ALIAS JSON {w}",
    ),
    ("SESSION.ENTITY RESOLVE", "readonly", [2, 2, 1], "ANY ALL"),
    (
        "SESSION.EVENT ADD",
        "write denyoom fast",
        [2, 2, 1],
        "AGENT ENTITIES CHANGE IMPACT IFSTATE STATE {w}",
    ),
    ("SESSION.EVENT HELP", "fast", [0, 0, 0], ""),
    ("SESSION.EVENT LEN", "readonly fast", [2, 2, 1], ""),
    (
        "SESSION.EVENT RANGE",
        "readonly",
        [2, 2, 1],
        "REV COUNT TYPE AGENT ENTITY FROM TO",
    ),
    (
        "SESSION.FORK",
        "write denyoom",
        [1, 2, 1],
        "UPTO CHECKPOINT ID REPLACE {w}",
    ),
    ("SESSION.GET", "readonly", [1, 1, 1], "MESSAGES"),
    (
        "SESSION.GETEX",
        "write denyoom",
        [1, 1, 1],
        "MESSAGES CREATE EX PX PXAT PERSIST",
    ),
    ("SESSION.INDEX ADD", "write denyoom fast", [2, 3, 1], "ALIAS AUTONAME"),
    ("SESSION.INDEX HELP", "fast", [0, 0, 0], ""),
    ("SESSION.INDEX LEN", "readonly", [2, 2, 1], ""),
    ("SESSION.INDEX LIST", "readonly", [2, 2, 1], "MATCH BYACTIVITY LIMIT"),
    ("SESSION.INDEX RESOLVE", "readonly fast", [2, 2, 1], ""),
    ("SESSION.INFO", "readonly fast", [1, 1, 1], ""),
    ("SESSION.LEN", "readonly fast", [1, 1, 1], ""),
    ("SESSION.LOAD", "write", [1, 1, 1], ""),
    ("SESSION.META", "write denyoom", [1, 1, 1], "{w}"),
    (
        "SESSION.MIGRATE",
        "write denyoom",
        [1, 1, 1],
        "FROM FORMAT ID MAXLEN KEEP DRYRUN {w}",
    ),
    ("SESSION.POP", "write", [1, 1, 1], "COUNT {w}"),
    (
        "SESSION.RANGE",
        "readonly",
        [1, 1, 1],
        "BYSEQ BYTIME REV COUNT ROLE WITHMETA MALFORMED",
    ),
    (
        "SESSION.READ",
        "readonly blocking",
        [1, 1, 1],
        "COUNT BLOCK MESSAGES EVENTS",
    ),
    ("SESSION.REDACT", "write", [1, 1, 1], "REASON {w}"),
    ("SESSION.REMOVE", "write", [1, 1, 1], "{w}"),
    (
        "SESSION.WINDOW",
        "write",
        [1, 1, 1],
        "MAXLEN MAXTOKENS MAXBYTES MAXAGE PIN NOPIN {w}",
    ),
];

const WRITE_OPTIONS: &str = "IFVERSION LEASE AT EX PX PXAT PERSIST KEEPTTL";

/// Returns the row of each command that the module has.
fn listed(server: &Server) -> Vec<(Command, [i64; 3], BTreeSet<&'static str>, String)> {
    let commands = server.commands();
    let names: BTreeSet<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    let known: BTreeSet<&str> = COMMANDS.iter().map(|row| row.0).collect();
    let (new, gone): (Vec<_>, Vec<_>) = (names.difference(&known).collect(), known.difference(&names).collect());
    assert!(new.is_empty(), "not in this list: {new:?}");
    assert!(gone.is_empty(), "not in the module: {gone:?}");
    let row = |command: Command| {
        let row = COMMANDS.iter().find(|row| row.0 == command.name);
        let (_, flags, keys, tokens) = row.expect("the lists have the same names");
        let flags = flags.split_whitespace().collect();
        (command, *keys, flags, tokens.replace("{w}", WRITE_OPTIONS))
    };
    commands.into_iter().map(row).collect()
}

#[test]
fn command_info_shows_the_flags() {
    let server = Server::start();
    for (command, keys, expected, _) in listed(&server) {
        let flags: BTreeSet<&str> = ["write", "readonly", "denyoom", "fast", "blocking"]
            .into_iter()
            .filter(|flag| command.flags.contains(*flag))
            .collect();
        assert_eq!(flags, expected, "{}", command.name);
        let reply = items(&server.call(&["COMMAND", "INFO", &command.name.replace(' ', "|")]));
        let info = items(&reply[0]);
        let found: Vec<i64> = info[3..6].iter().map(redis_session_tests::int).collect();
        assert_eq!(found, keys, "first, last, step of {}", command.name);
    }
}

#[test]
fn command_docs_tell_every_argument() {
    let server = Server::start();
    for (command, keys, _, tokens) in listed(&server) {
        let name = &command.name;
        let reply = server.call(&["COMMAND", "DOCS", &name.replace(' ', "|")]);
        let docs = items(&reply)[1].clone();
        for field in ["summary", "since", "complexity", "group"] {
            assert!(!text(&entry(&docs, field)).is_empty(), "{field} of {name}");
        }
        if keys[0] > 0 {
            assert_eq!(command.arguments[0].kind, Kind::Key, "{name}");
        }
        let expected: BTreeSet<String> = tokens.split_whitespace().map(str::to_owned).collect();
        assert_eq!(command.tokens(), expected, "{name}");
    }
}

pub fn collect_tokens(arguments: &Value, told: &mut BTreeSet<String>) {
    for argument in items(arguments) {
        let fields: Vec<Value> = items(&argument);
        for pair in fields.chunks(2) {
            match text(&pair[0]).as_str() {
                "token" => drop(told.insert(text(&pair[1]))),
                "arguments" => collect_tokens(&pair[1], told),
                _ => {}
            }
        }
    }
}

#[test]
fn every_command_is_listed_and_nothing_else() {
    let server = Server::start();
    for (command, ..) in listed(&server) {
        assert!(command.name.starts_with("SESSION."), "{}", command.name);
    }
}

#[test]
fn command_getkeys_finds_the_key() {
    let server = Server::start();
    for command in [
        "SESSION.CREATE k OPEN",
        "SESSION.CREATE k STATE INDEX META '{\"a\":\"STORE\"}'",
        "SESSION.APPEND k MSG user STORE NAME INDEX",
        "SESSION.APPEND k DEDUP INDEX JSON {}",
        "SESSION.RANGE k 0 -1 ROLE STORE",
        "SESSION.CONTEXT k",
        "SESSION.GET k",
        "SESSION.GETEX k",
        "SESSION.INFO k",
        "SESSION.LEN k",
        "SESSION.META k {}",
        "SESSION.WINDOW k PIN INDEX",
        "SESSION.POP k",
        "SESSION.REMOVE k 1",
        "SESSION.REDACT k 1 REASON STORE",
        "SESSION.COMPACT k UPTO 1 MSG system INDEX",
        "SESSION.CLEAR k",
        "SESSION.LOAD k x",
    ] {
        assert_eq!(
            server.say(&format!("COMMAND GETKEYS {command}")),
            r#"1) "k""#,
            "{command}"
        );
    }
}

/// Opens a connection as a user with these rules.
pub fn user(server: &Server, rules: &str) -> Client {
    server.run(&format!("ACL SETUSER alice reset on nopass {rules}"));
    let mut client = server.client();
    client.run("AUTH alice x");
    client
}

#[test]
fn access_goes_by_command_and_key() {
    let server = Server::start();
    user(&server, "~session:* +session.append").conversation(
        r#"
        > SESSION.APPEND session:1 MSG user hi
        (integer) 1
        > SESSION.APPEND other MSG user hi
        (error) NOPERM …
        > SESSION.RANGE session:1 0 -1
        (error) NOPERM …
        "#,
    );
    user(
        &server,
        "%R~session:* +session.range +session.append +session.getex +session.get",
    )
    .conversation(
        r#"
        > SESSION.RANGE session:1 0 -1
        …
        > SESSION.GET session:1
        …
        > SESSION.APPEND session:1 MSG user hi
        (error) NOPERM …
        > SESSION.GETEX session:1
        (error) NOPERM …
        "#,
    );
    let mut client = user(&server, "~* +@all -session.clear");
    assert!(client.say("SESSION.CLEAR session:1").starts_with("(error) NOPERM"));
    client.run("SESSION.POP session:1");
}

#[test]
fn access_goes_by_category_where_the_server_can() {
    let server = Server::start();
    if server.flavor().has_module_acl_categories() {
        server.run("SESSION.APPEND k MSG user hi");
        user(&server, "~* +@read").conversation(
            r#"
            > SESSION.RANGE k 0 -1
            …
            > SESSION.GET k
            …
            > SESSION.LEN k
            (integer) 1
            > SESSION.INFO k
            …
            > SESSION.CONTEXT k
            …
            > SESSION.APPEND k MSG user hi
            (error) NOPERM …
            > SESSION.GETEX k
            (error) NOPERM …
            > SESSION.CLEAR k
            (error) NOPERM …
            "#,
        );
        user(&server, "~* +@write").conversation(
            r#"
            > SESSION.APPEND k MSG user hi
            (integer) 2
            > SESSION.CREATE new
            …
            > SESSION.CLEAR k
            (integer) 2
            > SESSION.RANGE k 0 -1
            (error) NOPERM …
            "#,
        );
        for (category, command) in [
            ("fast", "session.len"),
            ("slow", "session.range"),
            ("read", "session.get"),
            ("write", "session.append"),
        ] {
            let listed: Vec<String> = items(&server.run(&format!("ACL CAT {category}")))
                .iter()
                .map(text)
                .collect();
            assert!(
                listed.iter().any(|name| name.eq_ignore_ascii_case(command)),
                "{command} in @{category}"
            );
        }
    }
    if server.flavor().has_own_acl_category() {
        let mut client = user(&server, "~* +@session");
        for command in [
            "SESSION.CREATE s",
            "SESSION.APPEND s MSG user hi",
            "SESSION.RANGE s 0 -1",
            "SESSION.GETEX s",
            "SESSION.CLEAR s",
        ] {
            client.run(command);
        }
        assert!(client.say("GET x").starts_with("(error) NOPERM"));
    }
}

#[test]
fn info_counts_what_happened() {
    let server = Server::start();
    let field = |name: &str| server.info_number("session", &format!("session_{name}"));
    for name in [
        "active_sessions",
        "messages",
        "bytes_raw",
        "bytes_stored",
        "appended",
        "evicted",
        "deduplicated",
        "conflicts",
        "panics_caught",
    ] {
        assert_eq!(field(name), 0, "{name} of a new server");
    }
    server.conversation(
        r#"
        > SESSION.APPEND k MAXLEN 2 DEDUP t JSON {} {} {}
        > SESSION.APPEND k DEDUP t JSON {} {} {}
        > SESSION.APPEND k IFVERSION 99 MSG user hi
        (error) VERSIONCONFLICT …
        > SESSION.APPEND other MSG user hi
        > SESSION.CREATE empty
        "#,
    );
    assert_eq!((field("active_sessions"), field("messages")), (3, 3));
    assert_eq!((field("appended"), field("evicted"), field("deduplicated")), (4, 1, 1));
    assert!(field("conflicts") >= 1);
    assert!(field("bytes_raw") > 0 && field("bytes_stored") > 0);
    server.run("DEL other");
    server.run("COPY k copy");
    assert_eq!((field("active_sessions"), field("messages")), (3, 4));
    server.run("DEBUG RELOAD");
    assert_eq!((field("active_sessions"), field("messages")), (3, 4));
    server.run("FLUSHALL SYNC");
    assert_eq!(
        (field("active_sessions"), field("messages"), field("bytes_stored")),
        (0, 0, 0)
    );
    assert!(text(&server.run("INFO everything")).contains("session_active_sessions:"));
}

#[test]
fn info_has_every_field_of_the_contract() {
    let server = Server::start();
    let field = |name: &str| server.info_number("session", &format!("session_{name}"));
    for name in [
        "active_sessions",
        "directories",
        "anchors",
        "messages",
        "bytes_raw",
        "bytes_stored",
        "appended",
        "evicted",
        "migrated",
        "malformed",
        "deduplicated",
        "conflicts",
        "checkpoints",
        "restores",
        "blocked_readers",
        "published",
        "panics_caught",
    ] {
        assert_eq!(field(name), 0, "{name} of a new server");
    }
}

#[test]
fn each_write_notifies() {
    let server = Server::with("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE __keyevent@0__:*");
    let mut events_of = |commands: &[&str]| -> Vec<String> {
        for command in commands {
            server.run(command);
        }
        server.run("PUBLISH __keyevent@0__:end end");
        let mut events = Vec::new();
        loop {
            let message = items(&subscriber.receive());
            let event = text(&message[2]);
            let event = event.strip_prefix("__keyevent@0__:").expect("an event").to_string();
            if event == "end" {
                return events;
            }
            assert_eq!(text(&message[3]), "k");
            events.push(event);
        }
    };
    let five = r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}' '{"n":5}'"#;
    let examples = [
        ("SESSION.CREATE k", &["session.create"][..]),
        ("SESSION.CREATE k OPEN", &[]),
        // A directory sends none.
        ("SESSION.INDEX ADD i k ALIAS a", &[]),
        (five, &["session.append"]),
        (
            "SESSION.APPEND k MAXLEN 4 MSG user hi",
            &["session.append", "session.evict"],
        ),
        ("SESSION.WINDOW k PIN system", &["session.window"]),
        ("SESSION.WINDOW k MAXLEN 3", &["session.evict", "session.window"]),
        ("SESSION.WINDOW k MAXLEN 3", &[]),
        ("SESSION.META k '{\"a\":1}'", &["session.meta"]),
        ("SESSION.POP k", &["session.pop"]),
        ("SESSION.REMOVE k 5", &["session.remove"]),
        ("SESSION.REMOVE k 5", &[]),
        (five, &["session.append", "session.evict"]),
        ("SESSION.REDACT k 10", &["session.redact"]),
        ("SESSION.COMPACT k UPTO 10 MSG system s", &["session.compact"]),
        ("SESSION.CLEAR k", &["session.clear"]),
        ("SESSION.CLEAR k", &[]),
        ("SESSION.ENTITY MENTION k ID e", &["session.entity"]),
        (
            r#"SESSION.ENTITY MENTION k JSON '{"id":"e"}' '{"id":"f"}'"#,
            &["session.entity"],
        ),
        ("SESSION.APPEND k MSG user hi REF f", &["session.append"]),
        ("SESSION.ENTITY FORGET k 2 e f", &["session.entity"]),
        ("SESSION.ENTITY FORGET k 2 e f", &[]),
        ("SESSION.ENTITY LIST k", &[]),
        ("SESSION.ENTITY RESOLVE k he", &[]),
        ("SESSION.EVENT ADD k pass", &["session.event"]),
        ("SESSION.GETEX k", &[]),
        ("SESSION.GETEX k EX 100", &[]),
        ("SESSION.RANGE k 0 -1", &[]),
        ("SESSION.GET k", &[]),
        ("DEL k", &[]),
        ("SESSION.APPEND k MSG user hi", &["session.append", "session.create"]),
        ("DEL k", &[]),
        ("SESSION.META k '{\"a\":1}'", &["session.create", "session.meta"]),
        ("DEL k", &[]),
        ("SESSION.ENTITY MENTION k ID e", &["session.create", "session.entity"]),
        ("DEL k", &[]),
        ("SESSION.GETEX k CREATE", &["session.create"]),
    ];
    // Where the others are told of.
    const ELSEWHERE: &[(&str, &str)] = &[
        ("SESSION.AGENT HANDOFF", "agent.rs"),
        ("SESSION.AGENT JOIN", "agent.rs"),
        ("SESSION.AGENT LEASE", "agent.rs"),
        ("SESSION.AGENT LEAVE", "agent.rs"),
        ("SESSION.AGENT RELEASE", "agent.rs"),
        ("SESSION.ANCHOR ADD", "anchor.rs"),
        ("SESSION.CHECKPOINT CREATE", "checkpoint.rs"),
        ("SESSION.CHECKPOINT DEL", "checkpoint.rs"),
        ("SESSION.CHECKPOINT RESTORE", "checkpoint.rs"),
        ("SESSION.FORK", "checkpoint.rs"),
        ("SESSION.LOAD", "it is a primary's or an append-only file's"),
        ("SESSION.MIGRATE", "migrate.rs"),
    ];
    let commands = server.commands();
    assert_examples(
        commands.iter().filter(|command| command.is_write()),
        examples.iter().map(|(command, _)| command),
        ELSEWHERE,
    );
    for (command, expected) in examples {
        let mut events = events_of(&[command]);
        events.sort();
        assert_eq!(events, expected, "{command}");
    }
    // In the order in which things happen.
    server.run("DEL k");
    assert_eq!(
        events_of(&["SESSION.APPEND k MSG user hi"]),
        ["session.create", "session.append"]
    );
}

#[test]
fn notifications_survive_binary_keys_and_tell_the_keyspace() {
    let server = Server::with("notify-keyspace-events", "KEA").start();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE *");
    server.run(r#"SESSION.APPEND "a\x00\xff" MSG user hi"#);
    let mut seen = String::new();
    while !seen.contains("session.append\"\n4)") {
        seen = talk::render(&subscriber.receive());
    }
    assert!(seen.contains(r#""a\x00\xff""#), "{seen}");
}

#[test]
fn a_replica_notifies_too() {
    let (primary, replica) = (Server::start(), Server::with("notify-keyspace-events", "KEd").start());
    replica.replicate(&primary);
    let mut subscriber = replica.client();
    subscriber.run("PSUBSCRIBE __keyevent@0__:*");
    primary.run("SESSION.APPEND k MSG user hi");
    let events: BTreeSet<String> = (0..2).map(|_| text(&items(&subscriber.receive())[2])).collect();
    assert!(events.contains("__keyevent@0__:session.append"), "{events:?}");
}

#[test]
fn client_libraries_read_the_replies() {
    let server = Server::start();
    for protocol in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("{}{protocol}", server.url())).expect("a URL");
        let mut connection = client.get_connection().expect("a connection");
        let key = format!("k{protocol}");
        let created: HashMap<String, String> = redis::cmd("SESSION.CREATE")
            .arg(&key)
            .query(&mut connection)
            .expect("a map");
        assert_eq!(created["key"], key);
        assert_eq!(created["created"], "1");
        let seq: i64 = redis::cmd("SESSION.APPEND")
            .arg(&key)
            .arg("JSON")
            .arg(r#"{"n":1}"#)
            .query(&mut connection)
            .expect("a seq");
        assert_eq!(seq, 1);
        let bodies: Vec<String> = redis::cmd("SESSION.RANGE")
            .arg(&key)
            .arg(0)
            .arg(-1)
            .query(&mut connection)
            .expect("bodies");
        assert_eq!(bodies, [r#"{"n":1}"#]);
        let rows: Vec<(i64, i64, String, i64, String)> = redis::cmd("SESSION.RANGE")
            .arg(&key)
            .arg(0)
            .arg(-1)
            .arg("WITHMETA")
            .query(&mut connection)
            .expect("rows");
        assert_eq!(rows[0].0, 1);
        let absent: Option<String> = redis::cmd("SESSION.GET")
            .arg("absent")
            .query(&mut connection)
            .expect("nil");
        assert_eq!(absent, None);
        let error = redis::cmd("SESSION.POP")
            .arg("absent")
            .query::<()>(&mut connection)
            .expect_err("an error");
        assert_eq!(error.code(), Some("NOSESSION"));
    }
}

#[test]
fn a_cluster_node_serves_sessions() {
    // The port of the cluster bus is this one plus 10,000, which must be a valid port.
    let port = 20_000 + std::process::id() % 10_000;
    let options = Server::with("cluster-enabled", "yes").config("port", port);
    let Ok(server) = options.try_start() else {
        println!("skipped: port {port} is taken");
        return;
    };
    server.run("CLUSTER ADDSLOTSRANGE 0 16383");
    redis_session_tests::wait_until("the cluster is up", || {
        text(&server.run("CLUSTER INFO")).contains("cluster_state:ok")
    });
    server.conversation(
        r#"
        > SESSION.APPEND session:{acme}:1 MSG user hi
        (integer) 1
        > SESSION.LEN session:{acme}:1
        (integer) 1
        > COPY session:{acme}:1 session:{acme}:2
        (integer) 1
        > SESSION.POP session:{acme}:2
        …
        > DEL session:{acme}:1
        (integer) 1
        "#,
    );
}
