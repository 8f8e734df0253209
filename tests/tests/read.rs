//! `SESSION.READ`: followers of a session, immediate and blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis_session_tests::oracle::assert_survives_everything;
use redis_session_tests::payload::Random;
use redis_session_tests::{entry, int, items, now_ms, talk, text, wait_until, Client, Options, Server, Value};
use serde_json::Value as Json;

use super::bad_input::assert_refused;
use super::surroundings::{collect_tokens, user};

// ---------------------------------------------------------------------- helpers

/// Formats a reply in one line: `nil`, or `m1 e2` for a message and an event, `g1-3` for a gap, `r` for a reset.
#[track_caller]
fn told(reply: &Value) -> String {
    if *reply == Value::Nil {
        return "nil".into();
    }
    let Value::Array(entries) = reply else {
        return talk::render(reply);
    };
    let mut all = Vec::new();
    for told in entries {
        let [seq, time_ms, kind, json] = &items(told)[..] else {
            panic!("not of four: {}", talk::render(told));
        };
        let (seq, json) = (int(seq), text(json));
        let object: Json = serde_json::from_str(&json).expect("JSON");
        assert!(int(time_ms) > 0, "{}", talk::render(told));
        all.push(match text(kind).as_str() {
            "message" => format!("m{seq}"),
            "event" => {
                assert_eq!(object["seq"], seq);
                format!("e{seq}")
            }
            "gap" => {
                let from = object["from"].as_i64().expect("a seq");
                assert_eq!(json, format!(r#"{{"from":{from},"to":{seq}}}"#));
                assert!(from <= seq);
                format!("g{from}-{seq}")
            }
            "reset" => {
                assert_eq!(seq, 0);
                let id = object["session_id"].as_str().expect("an id");
                assert_eq!(json, format!(r#"{{"session_id":"{id}"}}"#));
                "r".into()
            }
            other => panic!("kind {other}"),
        });
    }
    assert!(!all.is_empty(), "nothing to tell is nil");
    all.join(" ")
}

fn read(server: &Server, rest: &str) -> String {
    told(&server.attempt(&format!("SESSION.READ {rest}")))
}

fn blocked_readers(server: &Server) -> i64 {
    server.info_number("session", "session_blocked_readers")
}

/// Sends a command that blocks its client, and waits until the client is blocked.
#[track_caller]
fn start_waiting(server: &Server, mut client: Client, line: &str) -> Client {
    let before = server.info_number("clients", "blocked_clients");
    client.send(&talk::split(line));
    wait_until(line, || server.info_number("clients", "blocked_clients") == before + 1);
    client
}

/// Opens a connection that is blocked in `SESSION.READ <rest>`.
#[track_caller]
fn waiting(server: &Server, rest: &str) -> Client {
    let before = blocked_readers(server);
    let client = start_waiting(server, server.client(), &format!("SESSION.READ {rest}"));
    assert_eq!(blocked_readers(server), before + 1);
    client
}

/// Asserts that this many readers are blocked. The server unblocks those that were served in its next event loop.
#[track_caller]
fn assert_waiting(server: &Server, readers: i64) {
    for _ in 0..3 {
        server.run("PING");
    }
    assert_eq!(blocked_readers(server), readers, "readers that wait");
}

/// Asserts that no reader is blocked, in either count.
#[track_caller]
fn assert_nobody_waits(server: &Server) {
    wait_until("no reader is blocked", || {
        blocked_readers(server) == 0 && server.info_number("clients", "blocked_clients") == 0
    });
}

/// Asserts that this client is still blocked, by unblocking it with a time-out.
#[track_caller]
fn assert_still_waits(server: &Server, client: &mut Client, id: i64) {
    assert_eq!(server.say(&format!("CLIENT UNBLOCK {id}")), "(integer) 1", "it waits");
    assert_eq!(client.receive(), Value::Nil);
}

fn client_id(client: &mut Client) -> i64 {
    int(&client.run("CLIENT ID"))
}

/// Opens a connection that is blocked in `SESSION.READ <rest>`, and returns its id.
#[track_caller]
fn waiting_with_id(server: &Server, rest: &str) -> (Client, i64) {
    let mut client = server.client();
    let id = client_id(&mut client);
    let client = start_waiting(server, client, &format!("SESSION.READ {rest}"));
    (client, id)
}

// ---------------------------------------------------------------------- immediate replies

#[test]
fn what_came_after_a_seq_word_for_word() {
    let server = Server::start();
    for mut client in [server.client(), server.client().resp3()] {
        server.run("DEL k");
        client.conversation(
            r#"
            > SESSION.CREATE k ID 019bbc2a-5000-7000-8000-000000000001 LIMIT event-ttl 0
            > SESSION.READ k 0
            (nil)
            > SESSION.APPEND k AT 1768384800000 JSON '{ "role": "user" }'
            (integer) 1
            > SESSION.EVENT ADD k pass AGENT a AT 1768384800001
            (integer) 2
            > SESSION.APPEND k AT 1768384800002 MSG assistant hi
            (integer) 3
            > SESSION.READ k 0
            1) 1) (integer) 1
               2) (integer) 1768384800000
               3) "message"
               4) '{ "role": "user" }'
            2) 1) (integer) 2
               2) (integer) 1768384800001
               3) "event"
               4) '{"seq":2,"timestamp":"2026-01-14T10:00:00.001Z","type":"pass","agentId":"a"}'
            3) 1) (integer) 3
               2) (integer) 1768384800002
               3) "message"
               4) '{"role":"assistant","content":"hi","timestamp":"2026-01-14T10:00:00.002Z"}'
            > session.read k 1 events
            1) 1) (integer) 2
               2) (integer) 1768384800001
               3) "event"
               4) '{"seq":2,"timestamp":"2026-01-14T10:00:00.001Z","type":"pass","agentId":"a"}'
            > SESSION.READ k 1 messages Block 0 count 1
            1) 1) (integer) 3
               2) (integer) 1768384800002
               3) "message"
               4) '{"role":"assistant","content":"hi","timestamp":"2026-01-14T10:00:00.002Z"}'
            > SESSION.READ k 3
            (nil)
            > SESSION.REMOVE k 1
            (integer) 1
            > SESSION.READ k 0 COUNT 1
            1) 1) (integer) 1
               2) (integer) …
               3) "gap"
               4) '{"from":1,"to":1}'
            2) 1) (integer) 2
               2) (integer) 1768384800001
               3) "event"
               4) …
            > SESSION.READ k 4 EVENTS
            1) 1) (integer) 0
               2) (integer) …
               3) "reset"
               4) '{"session_id":"019bbc2a-5000-7000-8000-000000000001"}'
            2) 1) (integer) 2
               2) (integer) 1768384800001
               3) "event"
               4) …
            "#,
        );
    }
}

#[test]
fn an_events_json_is_that_of_event_range() {
    let server = Server::start();
    server.run(
        "SESSION.EVENT ADD k modified AGENT a ENTITIES 2 e f CHANGE '{\"a\":1}' IMPACT '{\"b\":[2]}' STATE review",
    );
    server.run("SESSION.AGENT HANDOFF k a b NOTE 'yours now'");
    let shown: Vec<String> = items(&server.run("SESSION.EVENT RANGE k - +"))
        .iter()
        .map(text)
        .collect();
    let read: Vec<String> = items(&server.run("SESSION.READ k 0"))
        .iter()
        .map(|told| text(&items(told)[3]))
        .collect();
    assert_eq!(read, shown);
    assert_eq!(read.len(), 2);
}

#[test]
fn kinds_counts_and_from_now_on() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {} {}");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.APPEND k JSON {}");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.EVENT ADD k pass");
    for (rest, expected) in [
        ("k 0", "m1 m2 e3 m4 e5 e6"),
        ("k 0 MESSAGES", "m1 m2 m4"),
        ("k 0 EVENTS", "e3 e5 e6"),
        ("k 2", "e3 m4 e5 e6"),
        ("k 2 MESSAGES", "m4"),
        ("k 4 MESSAGES", "nil"),
        ("k 5 EVENTS", "e6"),
        ("k 6", "nil"),
        ("k 6 EVENTS", "nil"),
        // As in XREAD, 0 is no bound.
        ("k 0 COUNT 0", "m1 m2 e3 m4 e5 e6"),
        ("k 0 COUNT 1", "m1"),
        ("k 0 COUNT 4", "m1 m2 e3 m4"),
        ("k 0 COUNT 6", "m1 m2 e3 m4 e5 e6"),
        ("k 0 COUNT 9223372036854775807", "m1 m2 e3 m4 e5 e6"),
        ("k 0 COUNT 2 EVENTS", "e3 e5"),
        ("k 1 COUNT 2 MESSAGES", "m2 m4"),
        // Nothing comes after now; blocking is tested below.
        ("k $", "nil"),
        ("k $ EVENTS COUNT 5", "nil"),
        ("k 0 BLOCK 0", "m1 m2 e3 m4 e5 e6"),
        ("k 5 BLOCK 1000000 MESSAGES COUNT 1", "nil"),
        ("absent 0", "nil"),
        ("absent $", "nil"),
        ("absent 7", "nil"),
        // A seq beyond the last belongs to another session.
        ("k 7", "r m1 m2 e3 m4 e5 e6"),
        ("k 9223372036854775807 COUNT 1", "r m1"),
        ("k 7 EVENTS COUNT 2 BLOCK 0", "r e3 e5"),
    ] {
        if expected == "nil" && rest.contains("BLOCK") {
            let (mut client, id) = waiting_with_id(&server, rest);
            assert_still_waits(&server, &mut client, id);
            continue;
        }
        assert_eq!(read(&server, rest), expected, "{rest}");
    }
    // As XREAD reads COUNT 0.
    server.run("XADD x 0-1 a b");
    server.run("XADD x 0-2 a b");
    assert_eq!(server.say("XREAD COUNT 0 STREAMS x 0"), server.say("XREAD STREAMS x 0"));
    assert_nobody_waits(&server);
    // An empty session that is not the follower's gives only a reset.
    server.run("SESSION.CREATE new");
    assert_eq!(read(&server, "new 0"), "nil");
    assert_eq!(read(&server, "new 3 BLOCK 0"), "r");
}

#[test]
fn another_type_is_not_read() {
    let server = Server::start();
    server.run("SET string x");
    server.run("RPUSH list '{\"role\":\"user\"}'");
    for rest in ["string 0", "string $ BLOCK 0", "list 0", "list 5 BLOCK 10 EVENTS"] {
        assert_eq!(
            server.say(&format!("SESSION.READ {rest}")),
            "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
            "{rest}"
        );
    }
    assert_nobody_waits(&server);
}

#[test]
fn bad_arguments_word_for_word() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k JSON {}");
    server.run("SET string x");
    let most = i64::MAX;
    let seq = format!("ERR seq must be an integer from 0 to {most}");
    let count = format!("ERR COUNT must be an integer from 0 to {most}");
    let block = "ERR BLOCK must be an integer from 0 to …";
    let near = |word: &str| format!("ERR syntax error near '{word}'");
    let arity = "ERR wrong number of arguments for '…' command".to_string();
    for (line, error) in [
        ("SESSION.READ", arity.clone()),
        ("SESSION.READ k", arity),
        ("SESSION.READ k 0 BLOCK", near("BLOCK")),
        ("SESSION.READ k 0 count", near("count")),
        ("SESSION.READ k 0 nonsense", near("nonsense")),
        ("SESSION.READ k 0 STREAMS x", near("STREAMS")),
        ("SESSION.READ k 0 COUNT 1 COUNT 1", near("COUNT")),
        ("SESSION.READ k 0 BLOCK 1 Count 1 block 1", near("block")),
        ("SESSION.READ k 0 MESSAGES MESSAGES", near("MESSAGES")),
        ("SESSION.READ k 0 EVENTS EVENTS", near("EVENTS")),
        ("SESSION.READ k 0 MESSAGES EVENTS", near("EVENTS")),
        ("SESSION.READ k 0 EVENTS COUNT 1 MESSAGES", near("MESSAGES")),
        (r#"SESSION.READ k 0 "a\x00\xff'""#, near(r"a\x00\xff\x27")),
        (r#"SESSION.READ k 0 """#, near("")),
        ("SESSION.READ k 0 COUNT -1", count.clone()),
        ("SESSION.READ k 0 COUNT 9223372036854775808", count.clone()),
        ("SESSION.READ k 0 COUNT x", count.clone()),
        ("SESSION.READ k 0 COUNT EVENTS", count),
        ("SESSION.READ k 0 BLOCK -1", block.into()),
        ("SESSION.READ k 0 BLOCK 1.5", block.into()),
        ("SESSION.READ k 0 BLOCK 9223372036854775807", block.into()),
        ("SESSION.READ k -1", seq.clone()),
        ("SESSION.READ k 01", seq.clone()),
        ("SESSION.READ k +", seq.clone()),
        ("SESSION.READ k -", seq.clone()),
        ("SESSION.READ k (1", seq.clone()),
        ("SESSION.READ k $$", seq.clone()),
        ("SESSION.READ k 1-1", seq.clone()),
        ("SESSION.READ k 9223372036854775808", seq.clone()),
        (r#"SESSION.READ k """#, seq.clone()),
        // Arguments are checked before the key is opened.
        ("SESSION.READ string x", seq.clone()),
        ("SESSION.READ absent 0 BLOCK -1", block.into()),
    ] {
        assert_refused(&server, &talk::split(line), &error);
    }
    let long = vec![b'x'; 1 << 20];
    assert_refused(&server, &[&b"SESSION.READ"[..], b"k", &long], &seq);
    assert_refused(
        &server,
        &[&b"SESSION.READ"[..], b"k", b"0", &long],
        &near(&"x".repeat(64)),
    );
    assert_refused(&server, &[&b"SESSION.READ"[..], b"k", b"0", b"BLOCK", &long], block);
    assert_eq!(server.call(&[&b"SESSION.READ"[..], &long, b"0"]), Value::Nil);
    // The longest time-out.
    let most_ms = server.say("SESSION.READ k 1 BLOCK -1");
    let most_ms = most_ms.rsplit(' ').next().expect("a number");
    let (mut client, id) = waiting_with_id(&server, &format!("k 1 BLOCK {most_ms}"));
    assert_still_waits(&server, &mut client, id);
    assert_nobody_waits(&server);
}

/// The ways to drop records, from a session of messages 1, 3, 5, 7 and events 2, 4, 6, and what a reader from 0 gets then.
const GONE: [(&str, &str, &str); 15] = [
    ("nothing", "", "m1 e2 m3 e4 m5 e6 m7"),
    ("a window", "SESSION.WINDOW k MAXLEN 2", "g1-3 e2 e4 m5 e6 m7"),
    ("an eviction", "SESSION.APPEND k MAXLEN 1 JSON {}", "g1-7 e2 e4 e6 m8"),
    ("pop", "SESSION.POP k", "g1-7 e2 e4 e6 m1 m3 m5"),
    ("remove the first", "SESSION.REMOVE k 1", "g1-1 e2 m3 e4 m5 e6 m7"),
    ("remove some", "SESSION.REMOVE k 3 5", "g1-5 m1 e2 e4 e6 m7"),
    ("remove none", "SESSION.REMOVE k 2 8", "m1 e2 m3 e4 m5 e6 m7"),
    ("clear", "SESSION.CLEAR k", "g1-7 e2 e4 e6"),
    ("redact", "SESSION.REDACT k 3", "m1 e2 m3 e4 m5 e6 m7"),
    (
        "compact",
        "SESSION.COMPACT k UPTO 5 MSG system s",
        "g1-3 e2 e4 m5 e6 m7",
    ),
    (
        "compact one",
        "SESSION.COMPACT k UPTO 1 MSG system s",
        "m1 e2 m3 e4 m5 e6 m7",
    ),
    (
        "compact and remove that",
        "SESSION.COMPACT k UPTO 5 MSG system s;SESSION.REMOVE k 5",
        "g1-5 e2 e4 e6 m7",
    ),
    (
        "pinned",
        "SESSION.WINDOW k PIN p MAXLEN 1;SESSION.APPEND k JSON {}",
        "g1-7 e2 m3 e4 e6 m8",
    ),
    (
        "clear and go on",
        "SESSION.CLEAR k;SESSION.APPEND k JSON {}",
        "g1-7 e2 e4 e6 m8",
    ),
    (
        "pop all, twice",
        "SESSION.POP k COUNT 3;SESSION.POP k COUNT 3",
        "g1-7 e2 e4 e6",
    ),
];

fn four_messages_and_three_events(server: &Server, key: &str) {
    for role in ["user", "p", "user", "user"] {
        server.run(&format!(r#"SESSION.APPEND {key} JSON '{{"role":"{role}"}}'"#));
        if int(&server.info_of(key, "last_seq")) < 7 {
            server.run(&format!("SESSION.EVENT ADD {key} pass"));
        }
    }
    assert_eq!(read(server, &format!("{key} 0")), "m1 e2 m3 e4 m5 e6 m7");
}

/// Runs commands, separated by `;`, with this key in place of `k`.
fn run_all(server: &Server, key: &str, commands: &str) {
    for line in commands.split(';').filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line
            .split(' ')
            .map(|word| if word == "k" { key } else { word })
            .collect();
        server.run(&words.join(" "));
    }
}

/// Returns the records in a line of [`told`], in the order of seqs.
fn in_order(told: &str) -> Vec<String> {
    let mut entries: Vec<String> = told.split(' ').map(String::from).collect();
    entries.sort_by_key(|entry| match entry.as_bytes()[0] {
        b'm' | b'e' => entry[1..].parse::<u64>().expect("a seq"),
        _ => 0,
    });
    entries
}

#[test]
fn dropped_records_are_a_gap_however_they_were_dropped() {
    let server = Server::start();
    for (how, commands, expected) in GONE {
        server.run("DEL k");
        four_messages_and_three_events(&server, "k");
        run_all(&server, "k", commands);
        let all = read(&server, "k 0");
        assert_eq!(all, in_order(expected).join(" "), "{how}");
        // A follower of events misses none, and no gap is repeated after its end.
        assert_eq!(read(&server, "k 0 EVENTS"), "e2 e4 e6", "{how}");
        let gone = all.strip_prefix("g1-").and_then(|rest| rest.split(' ').next());
        let gone: i64 = gone.map_or(0, |to| to.parse().expect("a seq"));
        for seq in 0..=7 {
            let from_here = read(&server, &format!("k {seq}"));
            let rest: Vec<String> = in_order(expected)
                .into_iter()
                .filter(|entry| !entry.starts_with('g') && entry[1..].parse::<i64>().expect("a seq") > seq)
                .collect();
            let gap = (gone > seq).then(|| format!("g{}-{gone}", seq + 1));
            let all: Vec<String> = gap.into_iter().chain(rest).collect();
            let all = if all.is_empty() { "nil".into() } else { all.join(" ") };
            assert_eq!(from_here, all, "{how}, from {seq}");
        }
    }
}

#[test]
fn trimmed_events_are_a_gap() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT event-maxlen 2");
    for _ in 0..3 {
        server.run("SESSION.EVENT ADD k pass");
        server.run("SESSION.APPEND k JSON {}");
    }
    assert_eq!(read(&server, "k 0"), "g1-1 m2 e3 m4 e5 m6");
    assert_eq!(read(&server, "k 0 MESSAGES"), "m2 m4 m6");
    assert_eq!(read(&server, "k 0 EVENTS COUNT 1"), "g1-1 e3");
    // An event that exceeds the bound at once.
    server.run("SESSION.CREATE none LIMIT event-maxlen 1");
    server.run("SESSION.EVENT ADD none pass");
    server.run("SESSION.EVENT ADD none pass");
    assert_eq!(read(&server, "none 0"), "g1-1 e2");
}

#[test]
fn what_age_hides_is_a_gap_at_once() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT event-ttl 3600 LIMIT maxage 3600000");
    let (long_ago, now) = (1_768_384_800_000i64, now_ms());
    server.run(&format!("SESSION.EVENT ADD k pass AT {long_ago}"));
    assert_eq!(read(&server, "k 0"), "g1-1");
    server.run(&format!("SESSION.APPEND k AT {now} JSON {{}}"));
    server.run(&format!("SESSION.EVENT ADD k pass AT {now}"));
    assert_eq!(read(&server, "k 0"), "g1-1 m2 e3");
    // What expires while nothing is written: hidden, but not freed.
    server.run("SESSION.CREATE brief LIMIT event-ttl 1 LIMIT maxage 1000");
    server.run("SESSION.APPEND brief JSON {}");
    server.run("SESSION.EVENT ADD brief pass");
    server.run("SESSION.APPEND brief JSON {}");
    // The newest exchange is kept whatever its age; events are not.
    wait_until("they have passed", || read(&server, "brief 0") == "g1-2 m3");
    assert_eq!(read(&server, "brief 0 EVENTS"), "g1-2");
    assert_eq!(read(&server, "brief 0 MESSAGES"), "g1-1 m3");
    assert_eq!(read(&server, "brief 2"), "m3");
    server.run("SESSION.CLEAR brief");
    assert_eq!(read(&server, "brief 0"), "g1-3");
}

#[test]
fn gaps_survive_everything() {
    assert_survives_everything(|server| {
        for (number, (_, commands, expected)) in GONE.into_iter().enumerate() {
            let key = format!("k{number}");
            four_messages_and_three_events(server, &key);
            run_all(server, &key, commands);
            assert_eq!(read(server, &format!("{key} 0")), in_order(expected).join(" "));
        }
        server.run("SESSION.CREATE events LIMIT event-maxlen 2");
        for _ in 0..4 {
            server.run("SESSION.EVENT ADD events pass");
        }
        assert_eq!(read(server, "events 0"), "g1-2 e3 e4");
        server.run("SESSION.CREATE aged LIMIT event-ttl 3600 LIMIT maxage 3600000");
        server.run("SESSION.EVENT ADD aged pass AT 1768384800000");
        server.run("SESSION.APPEND aged AT 1768384800000 JSON {} {}");
        assert_eq!(read(server, "aged 0"), "g1-2 m3");
        // Recorded and dropped in one step.
        for line in ["MULTI", "SESSION.APPEND gone JSON {}", "SESSION.POP gone", "EXEC"] {
            server.run(line);
        }
        assert_eq!(read(server, "gone 0"), "g1-1");
    });
}

#[test]
fn a_replica_tells_the_same() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    for (_, commands, _) in GONE {
        primary.run("DEL k");
        four_messages_and_three_events(&primary, "k");
        run_all(&primary, "k", commands);
        replica.wait_for(&primary);
        for rest in ["k 0", "k 3", "k 0 EVENTS", "k 2 MESSAGES COUNT 2", "k 70", "k $"] {
            assert_eq!(read(&replica, rest), read(&primary, rest), "{rest}");
        }
    }
}

// ---------------------------------------------------------------------- blocking

#[test]
fn a_blocked_reader_gets_what_one_that_asks_later_gets() {
    let server = Server::start();
    for resp3 in [false, true] {
        server.run("DEL k");
        server.run("SESSION.CREATE k LIMIT event-ttl 0");
        let mut client = server.client();
        if resp3 {
            client = client.resp3();
        }
        let mut client = start_waiting(&server, client, "SESSION.READ k 0 BLOCK 0");
        server.run("SESSION.EVENT ADD k pass AT 1768384800001");
        assert_eq!(
            talk::render(&client.receive()),
            concat!(
                "1) 1) (integer) 1\n",
                "   2) (integer) 1768384800001\n",
                "   3) \"event\"\n",
                "   4) '{\"seq\":1,\"timestamp\":\"2026-01-14T10:00:00.001Z\",\"type\":\"pass\"}'"
            )
        );
        // The connection can then run other commands.
        assert_eq!(client.say("SESSION.READ k 1"), "(nil)");
        let mut client = start_waiting(&server, client, "SESSION.READ k $ BLOCK 0");
        server.run("SESSION.APPEND k JSON {}");
        assert_eq!(told(&client.receive()), "m2");
        assert_eq!(client.say("PING"), "PONG");
    }
    assert_nobody_waits(&server);
}

#[test]
fn what_records_wakes() {
    let server = Server::start();
    server.run(
        "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('record', function(keys) \
         return redis.call('SESSION.EVENT', 'ADD', keys[1], 'pass') end)\"",
    );
    for (commands, expected) in [
        // The shortest form of the append, and other commands.
        ("SESSION.APPEND k JSON {}", "m2"),
        ("SESSION.APPEND k MSG user hi", "m2"),
        ("SESSION.APPEND k JSON {} {} {}", "m2 m3 m4"),
        ("SESSION.APPEND k EVICTED JSON {}", "m2"),
        ("SESSION.APPEND k DEDUP t JSON {}", "m2"),
        ("SESSION.APPEND k MAXLEN 1 JSON {} {} {}", "g2-3 m4"),
        ("SESSION.APPEND k IFVERSION 2 EX 100 JSON {}", "m2"),
        ("SESSION.EVENT ADD k pass", "e2"),
        ("SESSION.EVENT ADD k pass STATE review AT 1768384800000", "g2-2"),
        ("SESSION.AGENT HANDOFF k a b", "e2"),
        ("MULTI;SESSION.APPEND k JSON {};SESSION.EVENT ADD k pass;EXEC", "m2 e3"),
        (
            "EVAL \"redis.call('SESSION.APPEND', KEYS[1], 'JSON', '{}') return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass')\" 1 k",
            "m2 e3",
        ),
        ("FCALL record 1 k", "e2"),
        // They get everything that is there when they are served, and a gap for what was dropped by then.
        ("MULTI;SESSION.APPEND k JSON {};SESSION.POP k;EXEC", "g2-2"),
        ("MULTI;SESSION.APPEND k JSON {};SESSION.CLEAR k;SESSION.EVENT ADD k pass;EXEC", "g2-2 e3"),
        ("MULTI;SESSION.APPEND k JSON {};SELECT 3;SET k x;SELECT 0;EXEC", "m2"),
    ] {
        server.run("DEL k");
        server.run("SESSION.APPEND k JSON {}");
        let mut reader = waiting(&server, "k 1 BLOCK 0");
        commands.split(';').for_each(|line| {
            server.run(line);
        });
        assert_eq!(told(&reader.receive()), expected, "{commands}");
    }
    assert_nobody_waits(&server);
}

#[test]
fn what_does_not_record_does_not_wake() {
    let server = Server::start();
    let mut reader = waiting(&server, "k 0 BLOCK 0");
    server.run("SESSION.CREATE k");
    assert_waiting(&server, 1);
    let mut both = waiting(&server, "k $ BLOCK 0");
    for command in [
        "SESSION.CREATE k OPEN",
        "SESSION.META k '{\"a\":1}'",
        "SESSION.ENTITY MENTION k ID e",
        "SESSION.ENTITY FORGET k 1 e",
        "SESSION.AGENT JOIN k a",
        "SESSION.AGENT LEASE k a 100000",
        "SESSION.AGENT RELEASE k 1",
        "SESSION.AGENT LEAVE k a",
        "SESSION.WINDOW k MAXLEN 5",
        "SESSION.GETEX k EX 100",
        "SESSION.CLEAR k",
        "SESSION.POP k",
        "SESSION.READ k 0",
        "PERSIST k",
        "TOUCH k",
        "DEBUG RELOAD",
        // Refused commands, and commands on other keys.
        "SESSION.APPEND k IFVERSION 99 JSON {}",
        "SESSION.APPEND k JSON {} []",
        "SESSION.APPEND absent XX JSON {}",
        "SESSION.EVENT ADD k pass IFSTATE nowhere",
        "SESSION.APPEND other JSON {}",
        "SESSION.EVENT ADD other pass",
    ] {
        server.attempt(command);
        assert_waiting(&server, 2);
    }
    server.run("MULTI");
    server.run("SESSION.APPEND k JSON {}");
    // Nor do commands in an open or discarded transaction.
    server.run("DISCARD");
    assert_waiting(&server, 2);
    server.run("SESSION.APPEND k DEDUP t JSON {}");
    assert_eq!(told(&reader.receive()), "m1");
    assert_eq!(told(&both.receive()), "m1");
    let mut reader = waiting(&server, "k 1 BLOCK 0");
    // Repeating the same append records nothing.
    server.run("SESSION.APPEND k DEDUP t JSON {}");
    server.run("SESSION.REDACT k 1");
    server.run("SESSION.COMPACT k UPTO 1 MSG system s");
    server.run("SESSION.REMOVE k 1");
    assert_waiting(&server, 1);
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(told(&reader.receive()), "e2");
    assert_nobody_waits(&server);
}

#[test]
fn each_kind_wakes_its_own_readers() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 1 LIMIT event-maxlen 1");
    let mut messages = waiting(&server, "k 0 MESSAGES BLOCK 0");
    let mut events = waiting(&server, "k 0 EVENTS BLOCK 0");
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(told(&events.receive()), "e1");
    assert_waiting(&server, 1);
    let mut events = waiting(&server, "k 1 EVENTS BLOCK 0");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&messages.receive()), "m2");
    assert_waiting(&server, 1);
    // Records of other kinds that were dropped are no gap for this reader.
    let mut messages = waiting(&server, "k 2 MESSAGES BLOCK 0");
    server.run("SESSION.APPEND k JSON {} {}");
    assert_eq!(told(&messages.receive()), "g3-3 m4");
    assert_waiting(&server, 1);
    let mut messages = waiting(&server, "k $ MESSAGES BLOCK 0");
    server.run("MULTI");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.EVENT ADD k pass");
    server.run("EXEC");
    assert_eq!(told(&events.receive()), "g2-5 e6");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&messages.receive()), "m7");
    assert_nobody_waits(&server);
}

#[test]
fn all_readers_of_a_key_wake_each_with_its_own() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {} {}");
    let mut readers: Vec<(Client, &str)> = [
        ("k 2 BLOCK 0", "m3 e4 m5"),
        ("k $ BLOCK 0", "m3 e4 m5"),
        ("k 2 BLOCK 0 COUNT 1", "m3"),
        ("k 2 BLOCK 0 COUNT 2", "m3 e4"),
        ("k 2 BLOCK 0 COUNT 0", "m3 e4 m5"),
        ("k 2 BLOCK 100000 EVENTS", "e4"),
        ("k 2 BLOCK 100000 MESSAGES", "m3 m5"),
        ("k 2 BLOCK 100000 MESSAGES COUNT 1", "m3"),
    ]
    .into_iter()
    .cycle()
    .take(40)
    .map(|(rest, expected)| (waiting(&server, rest), expected))
    .collect();
    let mut other = waiting(&server, "other 0 BLOCK 0");
    let mut third = waiting(&server, "third $ BLOCK 0 EVENTS");
    assert_waiting(&server, 42);
    server.run("MULTI");
    server.run("SESSION.APPEND k JSON {}");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.APPEND k JSON {}");
    server.run("SESSION.APPEND third JSON {}");
    server.run("EXEC");
    for (reader, expected) in &mut readers {
        assert_eq!(told(&reader.receive()), *expected);
    }
    assert_waiting(&server, 2);
    server.run("SESSION.EVENT ADD third pass");
    assert_eq!(told(&third.receive()), "e2");
    server.run("SESSION.APPEND other JSON {}");
    assert_eq!(told(&other.receive()), "m1");
    assert_nobody_waits(&server);
}

#[test]
fn readers_of_different_databases_do_not_mix() {
    let server = Server::start();
    let mut elsewhere = server.client();
    elsewhere.run("SELECT 3");
    let mut elsewhere = start_waiting(&server, elsewhere, "SESSION.READ k 0 BLOCK 0");
    let mut here = waiting(&server, "k 0 BLOCK 0");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&here.receive()), "m1");
    assert_waiting(&server, 1);
    server.run("MULTI");
    server.run("SELECT 3");
    server.run("SESSION.EVENT ADD k pass");
    server.run("EXEC");
    assert_eq!(told(&elsewhere.receive()), "e1");
    assert_nobody_waits(&server);
}

#[test]
fn keys_of_any_bytes_are_waited_for() {
    let server = Server::start();
    for key in [&b""[..], b"a\0b", b"\xff\xfe", b"a\r\n", &[b'x'; 100_000]] {
        let mut client = server.client();
        client.send(&[&b"SESSION.READ"[..], key, b"$", b"BLOCK", b"0"]);
        wait_until("it waits", || blocked_readers(&server) == 1);
        server.call(&[&b"SESSION.APPEND"[..], key, b"JSON", b"{}"]);
        assert_eq!(told(&client.receive()), "m1");
        assert_nobody_waits(&server);
    }
}

#[test]
fn time_runs_out_with_nil() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    for rest in [
        "k 1 BLOCK 1",
        "k $ BLOCK 20 EVENTS",
        "absent 0 BLOCK 1",
        "absent 7 BLOCK 10 COUNT 1",
        "k 0 EVENTS BLOCK 5",
    ] {
        for mut client in [server.client(), server.client().resp3()] {
            assert_eq!(client.run(&format!("SESSION.READ {rest}")), Value::Nil, "{rest}");
            // The connection still works, and the time-out does not fire again.
            assert_eq!(client.say("SESSION.LEN k"), "(integer) 1");
        }
    }
    // Not before the time-out.
    let start = std::time::Instant::now();
    assert_eq!(read(&server, "k 1 BLOCK 150"), "nil");
    assert!(start.elapsed() >= Duration::from_millis(149));
    // A reader that was served does not time out as well.
    let mut client = waiting(&server, "k 1 BLOCK 400");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&client.receive()), "m2");
    assert_eq!(client.run("SESSION.READ k 2 BLOCK 600"), Value::Nil);
    assert_eq!(client.say("PING"), "PONG");
    assert_nobody_waits(&server);
}

#[test]
fn a_missing_key_is_waited_for_until_something_is_recorded() {
    let server = Server::start();
    let readers = [
        "k 0 BLOCK 0",
        "k $ BLOCK 0",
        "k 1 BLOCK 0",
        "k $ BLOCK 0 MESSAGES",
        "k 3 BLOCK 0 EVENTS",
    ];
    let mut readers: Vec<Client> = readers.iter().map(|rest| waiting(&server, rest)).collect();
    server.run("SESSION.CREATE k");
    server.run("SESSION.META k '{\"a\":1}'");
    assert_waiting(&server, 5);
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(told(&readers[0].receive()), "e1");
    assert_eq!(told(&readers[1].receive()), "e1");
    assert_eq!(told(&readers[2].receive()), "r e1");
    assert_eq!(told(&readers[4].receive()), "r e1");
    assert_waiting(&server, 1);
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&readers[3].receive()), "m2");
    // However many records it has: the new session's 1 to 3 are not those that were read.
    for seq in [1, 3, 4, 9] {
        server.run("DEL k");
        let mut reader = waiting(&server, &format!("k {seq} BLOCK 0 COUNT 2"));
        server.run("SESSION.APPEND k JSON {} {} {} {}");
        assert_eq!(told(&reader.receive()), "r m1 m2", "{seq}");
    }
    // The command that creates the session records something at once.
    let mut reader = waiting(&server, "made 0 BLOCK 0");
    server.run("SESSION.APPEND made JSON {} {}");
    assert_eq!(told(&reader.receive()), "m1 m2");
    assert_nobody_waits(&server);
}

#[test]
fn a_reader_on_a_replica_wakes() {
    let (primary, middle, last) = (
        Server::start(),
        Options::default().hostile().start(),
        Options::default().hostile().start(),
    );
    middle.replicate(&primary);
    last.replicate(&middle);
    for (commands, expected) in [
        ("SESSION.APPEND k JSON {}", "m1"),
        ("SESSION.APPEND k MSG user hi", "m2"),
        ("SESSION.APPEND k JSON {} {}", "m3 m4"),
        ("SESSION.EVENT ADD k pass", "e5"),
        ("SESSION.AGENT HANDOFF k a b", "e6"),
        ("MULTI;SESSION.APPEND k JSON {};SESSION.EVENT ADD k pass;EXEC", "m7 e8"),
        (
            "EVAL \"return redis.call('SESSION.APPEND', KEYS[1], 'JSON', '{}')\" 1 k",
            "m9",
        ),
        ("MULTI;SESSION.APPEND k JSON {};SESSION.POP k;EXEC", "g10-10"),
    ] {
        let mut readers: Vec<Client> = [&primary, &middle, &last]
            .iter()
            .map(|server| {
                wait_until_it_has_all(server, &primary);
                waiting(server, "k $ BLOCK 0")
            })
            .collect();
        commands.split(';').for_each(|line| {
            primary.run(line);
        });
        for reader in &mut readers {
            assert_eq!(told(&reader.receive()), expected, "{commands}");
        }
    }
    for server in [&primary, &middle, &last] {
        assert_nobody_waits(server);
    }
}

/// Like [`Server::wait_for`], for a replica of a replica and for the primary itself.
fn wait_until_it_has_all(server: &Server, primary: &Server) {
    wait_until("it has everything", || {
        let offset = |server: &Server| server.info_number("replication", "master_repl_offset");
        offset(server) >= offset(primary)
    });
}

#[test]
fn a_reader_on_a_replica_goes_on_through_a_full_synchronisation_and_a_promotion() {
    let (primary, replica) = (Server::start(), Server::start());
    primary.run("SESSION.APPEND k JSON {} {}");
    primary.run("SESSION.APPEND other JSON {} {}");
    replica.replicate(&primary);
    let mut same = waiting(&replica, "k $ BLOCK 0");
    let mut another = waiting(&replica, "other $ BLOCK 0");
    let mut new = waiting(&replica, "new 0 BLOCK 0");
    // The replica misses this and can get it only by a full synchronisation.
    for line in [
        "MULTI",
        "DEBUG CHANGE-REPL-ID",
        "CLIENT KILL TYPE replica",
        "SESSION.APPEND k JSON {}",
        "DEL other",
        "SESSION.APPEND other JSON {} {} {}",
        "SESSION.APPEND new JSON {}",
        "EXEC",
    ] {
        primary.run(line);
    }
    wait_until("a second synchronisation", || {
        primary.info_number("stats", "sync_full") == 2
    });
    replica.wait_for(&primary);
    primary.run("SESSION.EVENT ADD k pass");
    primary.run("SESSION.EVENT ADD other pass");
    primary.run("SESSION.EVENT ADD new pass");
    replica.wait_for(&primary);
    // Whether loading or the next record wakes the reader is up to the server; it must not miss anything.
    for (reader, key, expected) in [
        (&mut same, "k", "m3 e4"),
        (&mut another, "other", "r m1 m2 m3 e4"),
        (&mut new, "new", "m1 e2"),
    ] {
        let mut all = told(&reader.receive());
        if all != expected {
            let (_, last_seq) = all.rsplit_once('m').expect("a message");
            let rest = read(&replica, &format!("{key} {last_seq}"));
            all = format!("{all} {rest}");
        }
        assert_eq!(all, expected);
    }
    let mut reader = waiting(&replica, "k 4 BLOCK 0");
    replica.run("REPLICAOF NO ONE");
    assert_waiting(&replica, 1);
    replica.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&reader.receive()), "m5");
    assert_nobody_waits(&replica);
}

// ---------------------------------------------------------------------- where blocking is not allowed

#[test]
fn transactions_scripts_and_functions_are_answered_at_once() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    server.conversation(
        r##"
        > MULTI
        OK
        > SESSION.READ k 1 BLOCK 0
        QUEUED
        > SESSION.READ absent $ BLOCK 0
        QUEUED
        > SESSION.APPEND k JSON {}
        QUEUED
        > SESSION.READ k 1 BLOCK 0 COUNT 1
        QUEUED
        > SESSION.READ k $ BLOCK 0
        QUEUED
        > SESSION.READ k 0 BLOCK -1
        QUEUED
        > EXEC
        1) (nil)
        2) (nil)
        3) (integer) 2
        4) 1) 1) (integer) 2
              2) (integer) …
              3) "message"
              4) "{}"
        5) (nil)
        6) (error) ERR BLOCK must be an integer from 0 to …
        > EVAL "return redis.call('SESSION.READ', KEYS[1], '$', 'BLOCK', 0)" 1 k
        (nil)
        > EVAL "return redis.call('SESSION.READ', KEYS[1], 2, 'BLOCK', 0) == false" 1 k
        (integer) 1
        > EVAL_RO "return redis.call('SESSION.READ', KEYS[1], 1, 'BLOCK', 0)" 1 k
        1) 1) (integer) 2
           2) (integer) …
           3) "message"
           4) "{}"
        > EVAL "redis.setresp(3) return redis.call('SESSION.READ', KEYS[1], 2, 'BLOCK', 0) == nil" 1 k
        (integer) 1
        > EVAL "return redis.pcall('SESSION.READ', KEYS[1], 'x')" 1 k
        (error) ERR seq must be an integer from 0 to …
        > FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='follow', callback=function(keys, args) return redis.call('SESSION.READ', keys[1], args[1], 'BLOCK', 0) end, flags={'no-writes'}}"
        "lib"
        > FCALL follow 1 k 2
        (nil)
        > FCALL_RO follow 1 k 1
        1) 1) (integer) 2
           2) (integer) …
           3) "message"
           4) "{}"
        > FCALL follow 1 absent $
        (nil)
        "##,
    );
    // A script in a transaction, and a reader that is woken by a script's write after it.
    server.run("MULTI");
    server.run("EVAL \"return redis.call('SESSION.READ', KEYS[1], 2, 'BLOCK', 0)\" 1 k");
    assert_eq!(server.say("EXEC"), "1) (nil)");
    let mut reader = waiting(&server, "k 2 BLOCK 0");
    server.run(
        "EVAL \"redis.call('SESSION.APPEND', KEYS[1], 'JSON', '{}') return redis.call('SESSION.READ', KEYS[1], '$', 'BLOCK', 0)\" 1 k",
    );
    assert_eq!(told(&reader.receive()), "m3");
    assert_nobody_waits(&server);
}

// ---------------------------------------------------------------------- deleted and replaced keys

/// Every way to remove or hide the session at key `k`.
const AWAY: [&str; 8] = [
    "DEL k",
    "UNLINK k",
    "FLUSHALL",
    "FLUSHALL ASYNC",
    "FLUSHDB",
    "RENAME k away",
    "MOVE k 9",
    "PEXPIREAT k 1",
];

#[test]
fn a_session_that_goes_leaves_its_readers_waiting() {
    let server = Server::start();
    for away in AWAY {
        server.run("FLUSHALL");
        server.run("SESSION.APPEND k JSON {} {}");
        let mut read_on = waiting(&server, "k 2 BLOCK 0");
        let mut from_now = waiting(&server, "k $ BLOCK 0 EVENTS");
        let (mut times_out, id) = waiting_with_id(&server, "k 2 BLOCK 1000000");
        server.run(away);
        assert_waiting(&server, 3);
        assert_still_waits(&server, &mut times_out, id);
        server.run("SESSION.CREATE k");
        assert_waiting(&server, 2);
        server.run("SESSION.EVENT ADD k pass");
        assert_eq!(told(&read_on.receive()), "r e1", "{away}");
        assert_eq!(told(&from_now.receive()), "r e1", "{away}");
        // A reader that had read nothing needs no reset.
        server.run("DEL empty");
        server.run("SESSION.CREATE empty");
        let mut reader = waiting(&server, "empty 0 BLOCK 0");
        server.run(&away.replace(" k", " empty"));
        server.run("SESSION.APPEND empty JSON {}");
        assert_eq!(told(&reader.receive()), "m1", "{away}");
        assert_nobody_waits(&server);
    }
    // Its time-out does not change.
    server.run("SESSION.APPEND k JSON {}");
    let mut reader = waiting(&server, "k $ BLOCK 300");
    server.run("DEL k");
    assert_waiting(&server, 1);
    assert_eq!(reader.receive(), Value::Nil);
    assert_nobody_waits(&server);
}

#[test]
fn a_session_that_expires_leaves_its_readers_waiting() {
    let server = Server::start();
    for active in [true, false] {
        server.run(&format!("DEBUG SET-ACTIVE-EXPIRE {}", u8::from(active)));
        server.run("SESSION.APPEND k JSON {}");
        let mut reader = waiting(&server, "k 1 BLOCK 0");
        let before = server.info_number("stats", "expired_keys");
        server.run("PEXPIRE k 1");
        wait_until("it expires", || {
            if !active {
                server.run("EXISTS k");
            }
            server.info_number("stats", "expired_keys") > before
        });
        assert_waiting(&server, 1);
        server.run("SESSION.APPEND k JSON {}");
        assert_eq!(told(&reader.receive()), "r m1");
        // Expired, but noticed only by the write that creates the next session.
        let mut reader = waiting(&server, "k 1 BLOCK 0");
        let expires_at_ms = now_ms() + 2;
        server.run(&format!("PEXPIREAT k {expires_at_ms}"));
        wait_until("it has expired", || now_ms() > expires_at_ms);
        server.run("SESSION.EVENT ADD k pass");
        assert_eq!(told(&reader.receive()), "r e1");
        // Recorded with an expiry in the past: there is nothing to read any more.
        let (mut reader, id) = waiting_with_id(&server, "k 1 BLOCK 0");
        server.run("SESSION.APPEND k PXAT 1 JSON {}");
        assert_waiting(&server, 1);
        assert_still_waits(&server, &mut reader, id);
    }
    assert_nobody_waits(&server);
}

#[test]
fn another_type_at_the_key_leaves_readers_waiting() {
    let server = Server::start();
    for other in [
        "SET k x",
        "MULTI;DEL k;RPUSH k x;EXEC",
        "MULTI;DEL k;XADD k * a b;EXEC",
        "MULTI;DEL k;ZADD k 1 a;EXEC",
        "MULTI;DEL k;HSET k a b;EXEC",
        "SUNIONSTORE k set",
        "RENAME string k",
        "COPY string k REPLACE",
    ] {
        server.run("FLUSHALL");
        server.run("SADD set a");
        server.run("SET string x");
        server.run("SESSION.APPEND k JSON {} {}");
        let mut reader = waiting(&server, "k 2 BLOCK 0");
        let (mut times_out, id) = waiting_with_id(&server, "k 2 BLOCK 0 EVENTS");
        other.split(';').for_each(|line| {
            server.run(line);
        });
        assert_waiting(&server, 2);
        assert_still_waits(&server, &mut times_out, id);
        server.run("DEL k");
        server.run("SESSION.APPEND k JSON {}");
        assert_eq!(told(&reader.receive()), "r m1", "{other}");
    }
    assert_nobody_waits(&server);
}

#[test]
fn a_reader_continues_with_a_session_that_comes_back() {
    let server = Server::start();
    for (away, back) in [
        ("RENAME k away", "RENAME away k"),
        ("MOVE k 9", "SWAPDB 0 9"),
        ("SWAPDB 0 9", "SWAPDB 9 0"),
        ("COPY k away;DEL k", "RENAME away k"),
        ("COPY k away;SET k x", "COPY away k REPLACE"),
    ] {
        server.run("FLUSHALL");
        server.run("SESSION.APPEND k JSON {} {}");
        let mut reader = waiting(&server, "k 2 BLOCK 0");
        for line in away.split(';').chain([back]) {
            server.run(line);
            assert_waiting(&server, 1);
        }
        server.run("SESSION.APPEND k JSON {}");
        assert_eq!(told(&reader.receive()), "m3", "{away}");
        // What was recorded elsewhere comes with the session.
        let mut reader = waiting(&server, "k 3 BLOCK 0");
        server.run("RENAME k away");
        server.run("SESSION.EVENT ADD away pass");
        assert_waiting(&server, 1);
        server.run("RENAME away k");
        assert_eq!(told(&reader.receive()), "e4", "{away}");
    }
    assert_nobody_waits(&server);
}

/// Ways to move or copy a value from `from` to the missing key `to`; `RESTORE` is `restore`.
const BRINGS: [&str; 5] = ["RENAME from to", "COPY from to", "restore", "move", "swapdb"];

fn bring(server: &Server, how: &str, from: &str, to: &str) {
    match how {
        "restore" => {
            let payload = redis_session_tests::bytes(&server.run(&format!("DUMP {from}")));
            let reply = server.call(&[b"RESTORE", to.as_bytes(), b"0", &payload, b"REPLACE"]);
            assert_eq!(reply, Value::Okay);
        }
        "move" => {
            server.run(&format!("COPY {from} {to} DB 1"));
            let mut there = server.client();
            there.run("SELECT 1");
            assert_eq!(there.say(&format!("MOVE {to} 0")), "(integer) 1");
        }
        "swapdb" => {
            server.run(&format!("COPY {from} {to} DB 1"));
            server.run("SWAPDB 0 1");
        }
        line => {
            server.run(&line.replace("from", from).replace("to", to));
        }
    }
}

#[test]
fn a_session_that_comes_to_a_missing_key_is_served_as_a_stream_is() {
    let server = Server::start();
    for how in BRINGS {
        server.run("FLUSHALL");
        server.run("SESSION.APPEND s JSON {} {} {} {}");
        for id in 1..=4 {
            server.run(&format!("XADD x 0-{id} a b"));
        }
        server.run("SESSION.CREATE nothing");
        let mut reader = waiting(&server, "session 0 BLOCK 0");
        let mut from_now = waiting(&server, "session $ COUNT 2 BLOCK 0");
        let mut has_read = waiting(&server, "session 2 BLOCK 0");
        let (mut in_vain, id) = waiting_with_id(&server, "unheard 0 BLOCK 0");
        let mut stream = start_waiting(&server, server.client(), "XREAD BLOCK 0 STREAMS stream 0");
        bring(&server, how, "nothing", "unheard");
        assert_waiting(&server, 4);
        for (from, to) in [("x", "stream"), ("s", "session")] {
            // A swap exchanges both, and is undone first.
            if how == "swapdb" {
                server.run("SWAPDB 0 1");
            }
            bring(&server, how, from, to);
        }
        let streamed = items(&items(&items(&stream.receive())[0])[1]);
        let streamed: Vec<String> = streamed
            .iter()
            .map(|record| text(&items(record)[0]).replace("0-", "m"))
            .collect();
        assert_eq!(streamed.len(), 4);
        assert_eq!(told(&reader.receive()), streamed.join(" "), "{how}");
        assert_eq!(told(&from_now.receive()), "m1 m2", "{how}");
        // It cannot be known whether this is the session that was read up to 2.
        assert_eq!(told(&has_read.receive()), "r m1 m2 m3 m4", "{how}");
        assert_still_waits(&server, &mut in_vain, id);
    }
    assert_nobody_waits(&server);
}

#[test]
fn another_session_over_the_key_is_a_reset() {
    let server = Server::start();
    for how in ["RENAME from to", "COPY from to REPLACE", "restore", "swapdb"] {
        server.run("FLUSHALL");
        // Shorter than what was read, as long, longer, and empty.
        for (bodies, expected) in [
            ("{}", "r m1"),
            ("{} {}", "r m1 m2"),
            ("{} {} {}", "r m1 m2 m3"),
            ("", ""),
        ] {
            server.run("FLUSHALL");
            server.run("SESSION.APPEND k JSON {} {}");
            server.run("SESSION.CREATE other");
            if !bodies.is_empty() {
                server.run(&format!("SESSION.APPEND other JSON {bodies}"));
            }
            let (mut reader, id) = waiting_with_id(&server, "k 2 BLOCK 0");
            let mut counted = waiting(&server, "k 2 BLOCK 0 COUNT 1");
            bring(&server, how, "other", "k");
            if bodies.is_empty() {
                assert_waiting(&server, 2);
                assert_still_waits(&server, &mut reader, id);
                server.run("SESSION.EVENT ADD k pass");
                assert_eq!(told(&counted.receive()), "r e1", "{how}");
                continue;
            }
            assert_eq!(told(&reader.receive()), expected, "{how}");
            assert_eq!(told(&counted.receive()), "r m1", "{how}");
        }
    }
    // The same in one transaction with the deletion.
    server.run("SESSION.APPEND k JSON {} {}");
    let mut reader = waiting(&server, "k $ BLOCK 0");
    for line in [
        "MULTI",
        "DEL k",
        "SESSION.APPEND k JSON {} {} {} {}",
        "SESSION.REMOVE k 1",
        "EXEC",
    ] {
        server.run(line);
    }
    let reply = reader.receive();
    assert_eq!(told(&reply), "r g1-1 m2 m3 m4");
    let id = text(&items(&items(&reply)[0])[3]);
    assert_eq!(
        id,
        format!(r#"{{"session_id":{}}}"#, server.document("k")["session_id"])
    );
    assert_nobody_waits(&server);
}

// ---------------------------------------------------------------------- ways to end blocking

#[test]
fn a_wait_ends_by_client_unblock() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    for (how, expected) in [
        ("", "(nil)"),
        (" TIMEOUT", "(nil)"),
        (" ERROR", "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        for key in ["k", "absent"] {
            let (mut reader, id) = waiting_with_id(&server, &format!("{key} 1 BLOCK 0"));
            let mut stream = server.client();
            let stream_id = client_id(&mut stream);
            let mut stream = start_waiting(&server, stream, "XREAD BLOCK 0 STREAMS stream $");
            for id in [id, stream_id] {
                assert_eq!(server.say(&format!("CLIENT UNBLOCK {id}{how}")), "(integer) 1");
                wait_until("it is let go", || {
                    server.say(&format!("CLIENT UNBLOCK {id}{how}")) == "(integer) 0"
                });
            }
            let reply = talk::render(&reader.receive());
            assert_eq!(reply, expected);
            assert_eq!(reply, talk::render(&stream.receive()), "what XREAD gets");
            assert_eq!(reader.say("PING"), "PONG");
            assert_nobody_waits(&server);
        }
    }
}

#[test]
fn a_wait_ends_with_its_connection() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    for key in ["k", "absent"] {
        // By the client.
        let readers: Vec<Client> = (0..10).map(|_| waiting(&server, &format!("{key} 1 BLOCK 0"))).collect();
        assert_waiting(&server, 10);
        drop(readers);
        assert_nobody_waits(&server);
        // By another client.
        let (mut reader, id) = waiting_with_id(&server, &format!("{key} 1 BLOCK 0"));
        server.run(&format!("CLIENT KILL ID {id}"));
        reader.try_receive().expect_err("a closed connection");
        assert_nobody_waits(&server);
        // By deleting its user.
        let mut reader = user(&server, "~* +@all");
        let id = client_id(&mut reader);
        let mut reader = start_waiting(&server, reader, &format!("SESSION.READ {key} 1 BLOCK 0"));
        server.run("ACL DELUSER alice");
        reader.try_receive().expect_err("a closed connection");
        assert_eq!(server.say(&format!("CLIENT UNBLOCK {id}")), "(integer) 0");
        assert_nobody_waits(&server);
    }
    // Killed within the transaction that wakes it.
    let (mut killed, id) = waiting_with_id(&server, "k $ BLOCK 0");
    let mut other = waiting(&server, "k $ BLOCK 0");
    server.run("MULTI");
    server.run("SESSION.APPEND k JSON {}");
    server.run(&format!("CLIENT KILL ID {id}"));
    server.run("EXEC");
    killed.try_receive().expect_err("a closed connection");
    assert_eq!(told(&other.receive()), "m2");
    // Unblocked in that transaction: it gets one reply, not two.
    let (mut unblocked, id) = waiting_with_id(&server, "k $ BLOCK 0");
    server.run("MULTI");
    server.run("SESSION.APPEND k JSON {}");
    server.run(&format!("CLIENT UNBLOCK {id}"));
    server.run("EXEC");
    let reply = told(&unblocked.receive());
    assert!(reply == "nil" || reply == "m3", "{reply}");
    assert_eq!(unblocked.say("PING"), "PONG");
    // A reader that does not wait for its reply.
    for _ in 0..20 {
        let mut hasty = server.client();
        hasty.send(&talk::split("SESSION.READ k $ BLOCK 0"));
        drop(hasty);
        server.run("SESSION.EVENT ADD k pass");
    }
    assert_nobody_waits(&server);
}

#[test]
fn what_is_sent_while_waiting_is_answered_after() {
    let server = Server::start();
    let mut reader = waiting(&server, "k 0 BLOCK 0");
    reader.send(&["PING"]);
    reader.send(&talk::split("SESSION.READ k 1 BLOCK 0"));
    reader.send(&["ECHO", "end"]);
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&reader.receive()), "m1");
    assert_eq!(talk::render(&reader.receive()), "PONG");
    wait_until("it waits again", || blocked_readers(&server) == 1);
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&reader.receive()), "m2");
    assert_eq!(text(&reader.receive()), "end");
    assert_nobody_waits(&server);
}

#[test]
fn a_demotion_ends_a_wait_as_it_ends_xreads() {
    let (server, other) = (Server::start(), Server::start());
    server.run("SESSION.APPEND k JSON {}");
    let mut reader = waiting(&server, "k 1 BLOCK 0");
    let mut nothing = waiting(&server, "absent $ BLOCK 0");
    let mut stream = start_waiting(&server, server.client(), "XREAD BLOCK 0 STREAMS stream $");
    server.run(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    let expected = talk::render(&stream.receive());
    assert!(expected.starts_with("(error) UNBLOCKED "), "{expected}");
    stream.try_receive().expect_err("a closed connection");
    for reader in [&mut reader, &mut nothing] {
        assert_eq!(talk::render(&reader.receive()), expected);
        reader.try_receive().expect_err("a closed connection");
    }
    assert_nobody_waits(&server);
    // The followers reconnect, to a server that is a replica now.
    server.wait_for(&other);
    let mut reader = waiting(&server, "k 1 BLOCK 0");
    other.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&reader.receive()), "r m1");
    assert_nobody_waits(&server);
}

#[test]
fn a_failover_ends_a_wait_as_it_ends_xreads() {
    let (primary, replica) = (Server::start(), Server::start());
    // The address that it announces as a primary.
    replica.port();
    primary.run("SESSION.APPEND k JSON {}");
    replica.replicate(&primary);
    let mut reader = waiting(&primary, "k 1 BLOCK 0");
    let mut stream = start_waiting(&primary, primary.client(), "XREAD BLOCK 0 STREAMS stream $");
    let mut on_replica = waiting(&replica, "k 1 BLOCK 0");
    primary.run("FAILOVER");
    let expected = talk::render(&stream.receive());
    assert!(expected.starts_with("(error) UNBLOCKED "), "{expected}");
    assert_eq!(talk::render(&reader.receive()), expected);
    reader.try_receive().expect_err("a closed connection");
    assert_nobody_waits(&primary);
    wait_until("the replica is the primary", || {
        replica.info_field("replication", "role") == "master"
    });
    wait_until("it is written to", || {
        replica.say("SESSION.APPEND k JSON {}") == "(integer) 2"
    });
    assert_eq!(told(&on_replica.receive()), "m2");
    assert_nobody_waits(&replica);
}

#[test]
fn a_server_shuts_down_with_readers() {
    for how in ["SHUTDOWN NOSAVE", "SHUTDOWN SAVE"] {
        let server = Server::start();
        server.run("SESSION.APPEND k JSON {}");
        let mut readers = [
            waiting(&server, "k 1 BLOCK 0"),
            waiting(&server, "absent 0 BLOCK 100000"),
        ];
        let mut client = server.client();
        client.send(&talk::split(how));
        for reader in &mut readers {
            let end = reader.try_receive();
            assert!(matches!(&end, Err(_) | Ok(Value::ServerError(_))), "{how}: {end:?}");
        }
        wait_until("it is down", || !server.is_alive());
        assert!(!server.log().contains("BUG REPORT"), "{}", server.log());
        server.restart();
        assert_eq!(blocked_readers(&server), 0);
    }
}

#[test]
fn a_pause_of_writes_is_waited_out() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    let mut before = waiting(&server, "k 1 BLOCK 0");
    server.run("CLIENT PAUSE 100000000 WRITE");
    let mut within = waiting(&server, "k 1 BLOCK 0 MESSAGES");
    assert_eq!(read(&server, "k 0"), "m1");
    assert_eq!(read(&server, "k 1 BLOCK 5"), "nil");
    let mut writer = server.client();
    let postponed = server.info_number("clients", "blocked_clients");
    writer.send(&talk::split("SESSION.APPEND k JSON {}"));
    assert_waiting(&server, 2);
    assert!(server.info_number("clients", "blocked_clients") >= postponed);
    server.run("CLIENT UNPAUSE");
    assert_eq!(talk::render(&writer.receive()), "(integer) 2");
    assert_eq!(told(&before.receive()), "m2");
    assert_eq!(told(&within.receive()), "m2");
    assert_nobody_waits(&server);
}

// ---------------------------------------------------------------------- followers under load

/// What one follower received.
#[derive(Default)]
struct Followed {
    last_seq: i64,
    /// Kind and body by seq.
    records: BTreeMap<i64, (String, String)>,
    gaps: Vec<(i64, i64)>,
}

impl Followed {
    fn hear(&mut self, reply: &Value) {
        for told in items(reply) {
            let told = items(&told);
            let (seq, kind, json) = (int(&told[0]), text(&told[2]), text(&told[3]));
            match kind.as_str() {
                "gap" => {
                    let object: Json = serde_json::from_str(&json).expect("JSON");
                    let from = object["from"].as_i64().expect("a seq");
                    assert_eq!((from, object["to"].as_i64()), (self.last_seq + 1, Some(seq)));
                    self.gaps.push((from, seq));
                }
                "message" | "event" => {
                    assert!(seq > self.last_seq, "{seq} after {}", self.last_seq);
                    let known = self.records.insert(seq, (kind, json));
                    assert!(known.is_none(), "{seq} came twice");
                }
                other => panic!("kind {other}"),
            }
        }
        // The last entry shows how far this reply goes: the end of a gap, if nothing follows it.
        let last = items(reply).last().map(|told| int(&items(told)[0]));
        self.last_seq = last.expect("an entry");
    }

    fn is_covered(&self, seq: i64) -> bool {
        self.records.contains_key(&seq) || self.gaps.iter().any(|(from, to)| (*from..=*to).contains(&seq))
    }
}

#[test]
fn a_hundred_followers_miss_nothing_silently_while_a_hundred_writers_write() {
    const WRITERS: i64 = 100;
    const FOLLOWERS: usize = 100;
    const EACH: i64 = 40;
    const RECORDED: i64 = WRITERS * EACH;
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 5 LIMIT event-maxlen 5");
    let start = std::sync::Barrier::new(FOLLOWERS + WRITERS as usize);
    std::thread::scope(|scope| {
        let (server, start) = (&server, &start);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut client = server.client();
                    start.wait();
                    let mut recorded = Vec::new();
                    for n in 0..EACH {
                        let mark = format!("{writer}-{n}");
                        let (kind, command) = if writer % 2 == 0 {
                            ("message", format!(r#"SESSION.APPEND k JSON '{{"content":"{mark}"}}'"#))
                        } else {
                            ("event", format!("SESSION.EVENT ADD k pass AGENT {mark}"))
                        };
                        recorded.push((int(&client.run(&command)), (kind.to_string(), mark)));
                    }
                    recorded
                })
            })
            .collect();
        let followers: Vec<_> = (0..FOLLOWERS)
            .map(|follower| {
                scope.spawn(move || {
                    let (kinds, end) = [
                        ("", RECORDED + 2),
                        (" MESSAGES", RECORDED + 1),
                        (" EVENTS", RECORDED + 2),
                    ][follower % 3];
                    let count = [0, 1, 2, 3, 7, 100][follower % 6];
                    let block_ms = [0, 1, 20, 100_000][follower % 4];
                    let mut random = Random(follower as u64);
                    let mut client = server.client();
                    start.wait();
                    let mut followed = Followed::default();
                    while followed.last_seq < end {
                        let seq = followed.last_seq;
                        let line = format!("SESSION.READ k {seq} COUNT {count} BLOCK {block_ms}{kinds}");
                        match random.below(12) {
                            // Killed while it is blocked, or before it reads its reply.
                            0 => {
                                client.send(&talk::split(&line));
                                client = server.client();
                            }
                            1 => {
                                let id = client_id(&mut client);
                                client.send(&talk::split(&line));
                                server.client().run(&format!("CLIENT KILL TYPE normal ID {id}"));
                                // It may have received this before.
                                if let Ok(reply @ Value::Array(_)) = client.try_receive() {
                                    followed.hear(&reply);
                                }
                                client = server.client();
                            }
                            _ => match client.run(&line) {
                                Value::Nil => {}
                                reply => {
                                    if count > 0 {
                                        let records = items(&reply).len() - usize::from(told(&reply).starts_with('g'));
                                        assert!(records <= count);
                                    }
                                    followed.hear(&reply);
                                }
                            },
                        }
                    }
                    (kinds, followed)
                })
            })
            .collect();
        let mut recorded: BTreeMap<i64, (String, String)> = BTreeMap::new();
        for writer in writers {
            recorded.extend(writer.join().expect("a writer ends"));
        }
        assert_eq!(recorded.len() as i64, RECORDED);
        // A record that ends the followers, whatever they follow.
        server.run(r#"SESSION.APPEND k JSON '{"content":"end"}'"#);
        server.run("SESSION.EVENT ADD k pass AGENT end");
        recorded.insert(RECORDED + 1, ("message".into(), "end".into()));
        recorded.insert(RECORDED + 2, ("event".into(), "end".into()));
        let mut told_at_all = 0;
        for follower in followers {
            let (kinds, followed) = follower.join().expect("a follower ends");
            told_at_all += followed.records.len();
            for (seq, (kind, json)) in &followed.records {
                let (recorded_kind, mark) = &recorded[seq];
                assert_eq!(kind, recorded_kind);
                let object: Json = serde_json::from_str(json).expect("JSON");
                let field = if kind == "message" { "content" } else { "agentId" };
                assert_eq!(object[field], mark.as_str());
            }
            let asked: BTreeSet<&str> = match kinds {
                " MESSAGES" => BTreeSet::from(["message"]),
                " EVENTS" => BTreeSet::from(["event"]),
                _ => BTreeSet::from(["message", "event"]),
            };
            assert!(followed.records.values().all(|(kind, _)| asked.contains(kind.as_str())));
            for (seq, (kind, _)) in &recorded {
                if asked.contains(kind.as_str()) && *seq <= followed.last_seq {
                    assert!(followed.is_covered(*seq), "{seq} was missed:{kinds}");
                }
            }
        }
        assert!(told_at_all > FOLLOWERS * 10, "they were told: {told_at_all}");
    });
    assert_nobody_waits(&server);
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
}

#[test]
fn random_transactions_tell_waiting_readers_what_they_tell_one_that_asks() {
    const ROUNDS: usize = 150;
    let server = Server::start();
    let mut asking = server.client();
    let without_times = |reply: &Value| {
        let entries = match reply {
            Value::Nil => return "nil".to_string(),
            reply => items(reply),
        };
        let shown = entries.iter().map(|told| {
            let mut fields = items(told);
            if text(&fields[2]) == "gap" || text(&fields[2]) == "reset" {
                fields.remove(1);
            }
            talk::render(&Value::Array(fields))
        });
        shown.collect::<Vec<_>>().join("\n")
    };
    let mut gaps_alone = 0;
    for seed in 0..4 {
        let mut random = Random(seed);
        server.run("DEL k");
        server.run("SESSION.CREATE k LIMIT maxlen 4 LIMIT event-maxlen 3");
        let forms = ["", " MESSAGES", " EVENTS", " COUNT 1", " EVENTS COUNT 2"];
        let mut waits: Vec<Option<(Client, i64)>> = forms.iter().map(|_| None).collect();
        let mut last_seqs = [0; 5];
        for round in 0..ROUNDS {
            for (reader, form) in forms.iter().enumerate() {
                while waits[reader].is_none() {
                    let seq = last_seqs[reader];
                    let line = format!("k {seq}{form}");
                    match asking.run(&format!("SESSION.READ {line}")) {
                        Value::Nil => waits[reader] = Some((waiting(&server, &format!("{line} BLOCK 0")), seq)),
                        reply => {
                            last_seqs[reader] = items(&reply).last().map(|told| int(&items(told)[0])).expect("an entry")
                        }
                    }
                }
            }
            server.run("MULTI");
            for _ in 0..1 + random.below(4) {
                let last_seq = asking_last_seq(&mut asking);
                let some_seq = last_seq + 3 - random.below(6) as i64;
                server.run(&match random.below(10) {
                    0..=2 => "SESSION.APPEND k JSON {}".to_string(),
                    3 => "SESSION.APPEND k JSON '{\"role\":\"system\"}' {}".to_string(),
                    4 => "SESSION.EVENT ADD k pass".to_string(),
                    5 => "SESSION.EVENT ADD k pass AT 1768384800000".to_string(),
                    6 => "SESSION.POP k".to_string(),
                    7 => format!("SESSION.REMOVE k {}", some_seq.max(1)),
                    8 => "SESSION.CLEAR k".to_string(),
                    _ => format!("SESSION.COMPACT k UPTO {} MSG system s", some_seq.max(1)),
                });
            }
            server.run("EXEC");
            for (reader, form) in forms.iter().enumerate() {
                let (client, seq) = waits[reader].as_mut().expect("it waits");
                let expected = asking.run(&format!("SESSION.READ k {seq}{form}"));
                if expected == Value::Nil {
                    continue;
                }
                let reply = client.receive();
                assert_eq!(
                    without_times(&reply),
                    without_times(&expected),
                    "seed {seed}, round {round},{form} after {seq}"
                );
                gaps_alone += usize::from(told(&reply).starts_with('g') && items(&reply).len() == 1);
                last_seqs[reader] = items(&reply).last().map(|told| int(&items(told)[0])).expect("an entry");
                waits[reader] = None;
            }
            assert_waiting(&server, waits.iter().flatten().count() as i64);
        }
        drop(waits);
        assert_nobody_waits(&server);
    }
    assert!(gaps_alone > 20, "{gaps_alone}");
}

fn asking_last_seq(client: &mut Client) -> i64 {
    int(&entry(&client.run("SESSION.INFO k"), "last_seq"))
}

// ---------------------------------------------------------------------- commands and statistics of the server

#[test]
fn access_goes_by_key_and_category() {
    let server = Server::start();
    server.run("SESSION.APPEND apple JSON {}");
    server.run("SESSION.APPEND b JSON {}");
    let mut client = user(&server, "~a* +session.read");
    assert_eq!(told(&client.run("SESSION.READ apple 0")), "m1");
    for line in ["SESSION.READ b 0", "SESSION.READ b $ BLOCK 0", "SESSION.READ b apple"] {
        assert!(client.say(line).starts_with("(error) NOPERM"), "{line}");
    }
    assert_eq!(
        told(&user(&server, "%R~a* +session.read").run("SESSION.READ apple 0")),
        "m1"
    );
    assert!(user(&server, "%W~a* +session.read")
        .say("SESSION.READ apple 0")
        .starts_with("(error) NOPERM"));
    assert!(user(&server, "~* +@all -session.read")
        .say("SESSION.READ apple 0")
        .starts_with("(error) NOPERM"));
    if server.flavor().has_module_acl_categories() {
        assert!(user(&server, "~* +@all -@blocking")
            .say("SESSION.READ apple 0")
            .starts_with("(error) NOPERM"));
        assert_eq!(told(&user(&server, "~* +@read").run("SESSION.READ apple 0")), "m1");
        for category in ["read", "slow", "blocking"] {
            let listed: Vec<String> = items(&server.run(&format!("ACL CAT {category}")))
                .iter()
                .map(text)
                .collect();
            assert!(
                listed.iter().any(|name| name.eq_ignore_ascii_case("session.read")),
                "{category}"
            );
        }
    }
    if server.flavor().has_own_acl_category() {
        assert_eq!(told(&user(&server, "~* +@session").run("SESSION.READ apple 0")), "m1");
    }
    assert_nobody_waits(&server);
}

#[test]
fn a_blocked_reader_gets_nothing_after_its_permission_is_revoked() {
    let server = Server::start();
    for (rules, withdrawn) in [
        ("~* +@all", "resetkeys"),
        ("~k +session.read +client|id", "resetkeys ~other"),
        ("~* +@all", "-session.read"),
        ("~* +@all", "nocommands"),
    ] {
        server.run("DEL k");
        let mut reader = user(&server, rules);
        let id = client_id(&mut reader);
        let mut reader = start_waiting(&server, reader, "SESSION.READ k 0 BLOCK 0");
        server.run(&format!("ACL SETUSER alice {withdrawn}"));
        // That alone does not unblock.
        assert_waiting(&server, 1);
        server.run("SESSION.APPEND k JSON {}");
        let reply = talk::render(&reader.receive());
        assert!(reply.starts_with("(error) NOPERM "), "{withdrawn}: {reply}");
        assert_eq!(server.say(&format!("CLIENT UNBLOCK {id}")), "(integer) 0");
        // If the permission is restored in time, there is no effect.
        let reader = user(&server, rules);
        let mut reader = start_waiting(&server, reader, "SESSION.READ k 1 BLOCK 0");
        server.run(&format!("ACL SETUSER alice {withdrawn}"));
        server.run(&format!("ACL SETUSER alice {rules}"));
        server.run("SESSION.APPEND k JSON {}");
        assert_eq!(told(&reader.receive()), "m2");
    }
    assert_nobody_waits(&server);
}

#[test]
fn the_server_knows_the_command() {
    let server = Server::start();
    let info = items(&items(&server.run("COMMAND INFO SESSION.READ"))[0]);
    let flags: BTreeSet<String> = items(&info[2]).iter().map(text).collect();
    for flag in ["readonly", "blocking", "module"] {
        assert!(flags.contains(flag), "{flags:?}");
    }
    for flag in ["write", "denyoom", "fast", "noscript"] {
        assert!(!flags.contains(flag), "{flags:?}");
    }
    assert_eq!(int(&info[1]), -3);
    assert_eq!(info[3..6].iter().map(int).collect::<Vec<_>>(), [1, 1, 1]);
    let docs = items(&server.run("COMMAND DOCS SESSION.READ"))[1].clone();
    for field in ["summary", "since", "complexity", "group"] {
        assert!(!text(&entry(&docs, field)).is_empty(), "{field}");
    }
    let mut tokens = BTreeSet::new();
    collect_tokens(&entry(&docs, "arguments"), &mut tokens);
    let expected = ["COUNT", "BLOCK", "MESSAGES", "EVENTS"];
    assert_eq!(tokens, expected.into_iter().map(String::from).collect());
    for line in ["SESSION.READ k $ BLOCK 0 COUNT 5 EVENTS", "SESSION.READ k STREAMS x y"] {
        assert_eq!(server.say(&format!("COMMAND GETKEYS {line}")), r#"1) "k""#, "{line}");
    }
}

#[test]
fn a_full_server_is_read_and_waited_on() {
    let server = Server::start();
    server.run("SESSION.APPEND k JSON {}");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    assert_eq!(read(&server, "k 0 BLOCK 0"), "m1");
    let mut reader = waiting(&server, "k $ BLOCK 0");
    server.run("CONFIG SET maxmemory 0");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(told(&reader.receive()), "m2");
    assert_nobody_waits(&server);
}

#[test]
fn reading_changes_and_propagates_nothing() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k JSON {}");
    let before = server.snapshot();
    let mut watching = server.client();
    watching.run("WATCH k");
    let propagated = server.propagated_lines(|server| {
        read(server, "k 0");
        read(server, "k 9 COUNT 1");
        let (mut reader, id) = waiting_with_id(server, "k 1 BLOCK 0");
        assert_still_waits(server, &mut reader, id);
    });
    assert!(propagated.is_empty(), "{propagated:?}");
    assert!(server.snapshot() == before);
    watching.run("MULTI");
    watching.run("PING");
    assert_eq!(watching.say("EXEC"), "1) PONG");
}
