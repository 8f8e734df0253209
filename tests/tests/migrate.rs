//! Migration of legacy layouts: by `SESSION.MIGRATE`, by the first write, and in memory for reads.

use std::collections::BTreeMap;

use redis_session_tests::oracle::assert_same;
use redis_session_tests::payload::Random;
use redis_session_tests::table::assert_examples;
use redis_session_tests::{bytes, entry, int, items, now_ms, talk, text, wait_until, Client, Options, Server, Value};

const UUID: &str = "0190a8b4-6d2e-7c3a-9f10-123456789abc";
const OTHER_UUID: &str = "0190a8b4-6d2e-7c3a-9f10-cba987654321";
const WRONGTYPE: &str = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";

// ---------------------------------------------------------------------------------------------- layouts

/// A layout written with plain commands, at `k` and keys with that prefix.
struct Legacy {
    format: &'static str,
    /// Distinguishes the variants of a layout.
    variant: &'static str,
    set_up: Vec<Vec<Vec<u8>>>,
    sources: &'static [&'static str],
    /// The expected messages, oldest first, and the elements that are set aside.
    bodies: Vec<Vec<u8>>,
    set_aside: Vec<Vec<u8>>,
    events: usize,
    entities: usize,
}

impl Legacy {
    fn new(format: &'static str, sources: &'static [&'static str]) -> Self {
        Legacy {
            format,
            variant: "",
            set_up: Vec::new(),
            sources,
            bodies: Vec::new(),
            set_aside: Vec::new(),
            events: 0,
            entities: 0,
        }
    }

    fn write<A: AsRef<[u8]>>(mut self, args: &[A]) -> Self {
        self.set_up.push(args.iter().map(|arg| arg.as_ref().to_vec()).collect());
        self
    }

    fn say<A: AsRef<[u8]>>(mut self, bodies: &[A]) -> Self {
        self.bodies = bodies.iter().map(|body| body.as_ref().to_vec()).collect();
        self
    }

    fn set_up(&self, server: &Server) {
        for command in &self.set_up {
            let reply = server.call(command);
            assert!(!matches!(reply, Value::ServerError(_)), "{}", talk::render(&reply));
        }
    }

    fn migrate(&self, options: &str) -> String {
        match self.sources {
            ["k"] => format!("SESSION.MIGRATE k {options}"),
            sources => format!(
                "SESSION.MIGRATE k FROM {} {} {options}",
                sources.len(),
                sources.join(" ")
            ),
        }
    }

    fn is_of_one_json_key(&self) -> bool {
        self.sources == ["k"] && !matches!(self.format, "motorhead" | "live-hash")
    }
}

const SYSTEM: &str = r#"{"role": "system",  "content":"be \u00e9 kind"}"#;
const HI: &str = r#"{"role":"user","content":"hi","timestamp":"2026-01-14T10:00:00Z"}"#;
const CALL: &str =
    r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"get_weather","arguments":"{}"}]}"#;
const ANSWER: &str = r#"{"role":"tool","tool_call_id":"c1","content":"sunny ☀"}"#;
const ITEM: &str = r#"{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}","id":"fc_1"}"#;
const HUMAN: &str = r#"{"type":"human","data":{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}}"#;
const AI: &str = r#"{"type":"ai","data":{"content":"hello","type":"ai"}}"#;
const CONTENTS: &str =
    r#"{"type":"message","role":"user","contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#;
const BLOCKS: &str = r#"{"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}"#;
const ADK_EVENT: &str = r#"{"id":"e","author":"user","content":{"role":"user","parts":[{"text":"hi"}]},"actions":{"state_delta":{}},"timestamp":1736850000.5}"#;
const WITH_REF: &str = r#"{"role":"user","content":"John?","timestamp":"2026-01-14T10:00:00Z","entity_refs":["e1"]}"#;

fn context() -> String {
    format!(
        r#"{{"session_id":"{UUID}","matter_id":"m1","user_id":"u1","created_at":"2026-01-14T10:00:00+00:00","last_activity":"2026-01-14T10:05:00Z","messages":[ {WITH_REF} , {CALL},{ANSWER}],"entities_mentioned":{{"e1":{{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["Mr Smith"],"mention_count":3,"last_mentioned":"2026-01-14T10:00:00Z"}}}},"query_count":4,"ttl_extended_count":2,"title":"A case"}}"#
    )
}

fn agent_memory() -> String {
    format!(
        r#"{{"messages":[{HI},{CALL},{ANSWER}],"memories":[{{"text":"likes tea"}}],"context":"they met","user_id":"u","tokens":12,"session_id":"s","namespace":"n","data":{{"a":1.0}}}}"#
    )
}

fn adk() -> String {
    format!(
        r#"{{"id":"s","app_name":"a","user_id":"u","state":{{"x":1}},"events":[{ADK_EVENT},{ADK_EVENT}],"last_update_time":1736850000.5}}"#
    )
}

fn live_event(n: usize) -> String {
    format!(
        r#"{{"seq":{n},"type":"modified","changeInfo":{{"entityIds":["e{n}"]}},"impact":{{"perfDelta":-2}},"stateTransition":{{"from":"pass","to":"broke"}},"agentId":"a1","timestamp":"2026-01-14T10:00:00Z"}}"#
    )
}

#[test]
fn every_format_has_an_example() {
    let server = Server::start();
    server.run("RPUSH list x");
    let refused = server.say("SESSION.MIGRATE list FORMAT none");
    let (_, formats) = refused.split_once("FORMAT must be one of ").expect("the formats");
    let (formats, _) = formats.split_once(", not ").expect("the formats");
    let layouts = layouts();
    for format in formats.split(", ") {
        assert!(
            layouts.iter().any(|legacy| legacy.format == format),
            "layouts() needs an example of {format}"
        );
    }
}

/// Every row of the list of layouts, and variants with elements that are set aside.
fn layouts() -> Vec<Legacy> {
    let mut mixed = Legacy {
        variant: "mixed",
        set_aside: vec![
            b"not JSON".to_vec(),
            b"{\"role\":\"user\",\"content\":\"\xff\"}".to_vec(),
            b"".to_vec(),
            b"[]".to_vec(),
        ],
        ..Legacy::new("json-list", &["k"])
    }
    .say(&[HI, CALL, ANSWER]);
    mixed = mixed.write(&[
        b"RPUSH".as_slice(),
        b"k",
        HI.as_bytes(),
        b"not JSON",
        CALL.as_bytes(),
        b"{\"role\":\"user\",\"content\":\"\xff\"}",
        b"",
        ANSWER.as_bytes(),
        b"[]",
    ]);
    vec![
        Legacy::new("json-array", &["k"])
            .write(&["SET", "k", &format!(" [ {SYSTEM} ,\n{HI},{CALL},{ANSWER}]\n")])
            .say(&[SYSTEM, HI, CALL, ANSWER]),
        Legacy {
            variant: "mixed",
            set_aside: vec![b"null".to_vec(), b"\"x\"".to_vec()],
            ..Legacy::new("json-array", &["k"])
        }
        .write(&["SET", "k", &format!("[{HI},null,{CALL},\"x\",{ANSWER}]")])
        .say(&[HI, CALL, ANSWER]),
        Legacy::new("json-list", &["k"])
            .write(&["RPUSH", "k", SYSTEM, HI, CALL, ANSWER])
            .say(&[SYSTEM, HI, CALL, ANSWER]),
        mixed,
        Legacy {
            entities: 1,
            ..Legacy::new("context", &["k"])
        }
        .write(&["SET", "k", &context()])
        .say(&[WITH_REF, CALL, ANSWER]),
        Legacy {
            variant: "list",
            ..Legacy::new("hash-list", &["k", "k:messages"])
        }
        .write(&[
            "HSET",
            "k",
            "session_id",
            UUID,
            "created_at",
            "2026-01-14T10:00:00Z",
            "updated_at",
            "1768384801.5",
            "title",
            "A \"talk\"",
        ])
        .write(&["RPUSH", "k:messages", HI, CALL, ANSWER])
        .say(&[HI, CALL, ANSWER]),
        Legacy {
            variant: "string",
            ..Legacy::new("hash-list", &["k:messages", "k"])
        }
        .write(&["HSET", "k", "session_id", "s1", "title", "x"])
        .write(&["SET", "k:messages", &format!("[{HI},{CALL}]")])
        .say(&[HI, CALL]),
        Legacy {
            events: 2,
            set_aside: vec![b"nonsense".to_vec()],
            ..Legacy::new("live-hash", &["k", "k:events"])
        }
        .write(&["HSET", "k", "agentIds", r#"["a1","a2"]"#, "state", "broke", "note", "x"])
        .write(&[
            "ZADD",
            "k:events",
            "7",
            &live_event(7),
            "3",
            &live_event(3),
            "5",
            "nonsense",
        ]),
        Legacy::new("openai-agents", &["k:counter", "k:messages", "k"])
            .write(&[
                "HSET",
                "k",
                "session_id",
                "s1",
                "created_at",
                "1768384800",
                "updated_at",
                "1768384801",
            ])
            .write(&[
                "RPUSH",
                "k:messages",
                HI,
                ITEM,
                r#"{"id":"rs_1","type":"reasoning","summary":[]}"#,
            ])
            .write(&["SET", "k:counter", "3"])
            .say(&[HI, ITEM, r#"{"id":"rs_1","type":"reasoning","summary":[]}"#]),
        Legacy::new("langchain", &["k"])
            .write(&["LPUSH", "k", HUMAN, AI, HUMAN])
            .say(&[HUMAN, AI, HUMAN]),
        Legacy {
            variant: "alone",
            ..Legacy::new("motorhead", &["k"])
        }
        .write(&["LPUSH", "k", "Human: ping", "AI: pong: \"1\""])
        .say(&[
            r#"{"role":"Human","content":"ping"}"#,
            r#"{"role":"AI","content":"pong: \"1\""}"#,
        ]),
        Legacy {
            variant: "summary",
            set_aside: vec![b"no role".to_vec(), b"AI: \xff".to_vec()],
            ..Legacy::new("motorhead", &["k:context", "k"])
        }
        .write(&[
            b"LPUSH".as_slice(),
            b"k",
            b"Human: ping",
            b"no role",
            b"AI: \xff",
            b"AI: pong",
        ])
        .write(&["SET", "k:context", "they \"played\""])
        .say(&[
            r#"{"role":"Human","content":"ping"}"#,
            r#"{"role":"AI","content":"pong"}"#,
        ]),
        Legacy::new("agent-framework", &["k"])
            .write(&["RPUSH", "k", CONTENTS, CONTENTS])
            .say(&[CONTENTS, CONTENTS]),
        Legacy::new("agent-memory", &["k"])
            .write(&["SET", "k", &agent_memory()])
            .say(&[HI, CALL, ANSWER]),
        Legacy::new("adk", &["k"])
            .write(&["SET", "k", &adk()])
            .say(&[ADK_EVENT, ADK_EVENT]),
        Legacy::new("llama-index", &["k"])
            .write(&["RPUSH", "k", BLOCKS, BLOCKS])
            .say(&[BLOCKS, BLOCKS]),
    ]
}

fn raw(server: &Server, args: &[&str]) -> Vec<Vec<u8>> {
    items(&server.call(args)).iter().map(bytes).collect()
}

/// Returns types, bytes and expiries of all keys, which must not change if nothing is to be written.
fn keyspace(server: &Server) -> BTreeMap<Vec<u8>, (String, Vec<u8>, i64)> {
    let keys = items(&server.run("KEYS *"));
    keys.iter()
        .map(|key| {
            let key = bytes(key);
            let kind = text(&server.call(&[b"TYPE".as_slice(), &key]));
            let dump = bytes(&server.call(&[b"DUMP".as_slice(), &key]));
            let expiry = server.expires_at_ms(&key);
            (key, (kind, dump, expiry))
        })
        .collect()
}

fn count(reply: &Value, name: &str) -> usize {
    int(&entry(reply, name)) as usize
}

#[test]
fn every_layout_becomes_a_session_in_one_step() {
    let server = Options::default()
        .append_only()
        .config("notify-keyspace-events", "KEdg$lhz")
        .start();
    let mut subscriber = server.client();
    for legacy in layouts() {
        let what = format!("{} {}", legacy.format, legacy.variant);
        server.run("FLUSHALL");
        legacy.set_up(&server);
        let before = keyspace(&server);
        let (migrated, malformed) = counters(&server);
        // A dry run replies the same, and writes nothing.
        let mut trial = Value::Nil;
        let lines = server.propagated_lines(|server| trial = server.run(&legacy.migrate("DRYRUN")));
        assert!(lines.is_empty(), "{what}: {lines:?}");
        assert_eq!(keyspace(&server), before, "{what}");
        assert_eq!(counters(&server), (migrated, malformed), "{what}");

        subscriber.run("PSUBSCRIBE __keyspace*__:*");
        let mut reply = Value::Nil;
        let lines = server.propagated_lines(|server| reply = server.run(&legacy.migrate("")));
        assert_eq!(reply, trial, "{what}");
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
        assert!(lines[0].starts_with("SESSION.MIGRATE k "), "{what}: {lines:?}");
        assert!(
            lines[0].contains(&format!("FORMAT {} ID ", legacy.format)),
            "{what}: {lines:?}"
        );
        assert!(lines[0].ends_with(" PERSIST"), "{what}: {lines:?}");

        let keys: Vec<Vec<u8>> = items(&server.run("KEYS *")).iter().map(bytes).collect();
        assert_eq!(keys, [b"k"], "{what}: the sources are gone");
        assert_eq!(server.say("TYPE k"), "rdsession", "{what}");
        assert_eq!(text(&entry(&reply, "format")), legacy.format, "{what}");
        assert_eq!(count(&reply, "messages"), legacy.bodies.len(), "{what}");
        assert_eq!(count(&reply, "malformed"), legacy.set_aside.len(), "{what}");
        assert_eq!(count(&reply, "entities"), legacy.entities, "{what}");
        assert_eq!(count(&reply, "events"), legacy.events, "{what}");
        assert_eq!(count(&reply, "removed"), legacy.sources.len(), "{what}");
        let tokens: usize = legacy.bodies.iter().map(|body| body.len().div_ceil(4)).sum();
        assert_eq!(count(&reply, "tokens"), tokens, "{what}");
        assert_eq!(
            raw(&server, &["SESSION.RANGE", "k", "0", "-1"]),
            legacy.bodies,
            "{what}"
        );
        assert_eq!(
            raw(&server, &["SESSION.RANGE", "k", "0", "-1", "MALFORMED"]),
            legacy.set_aside,
            "{what}"
        );
        assert_eq!(server.expires_at_ms(b"k"), -1, "{what}: no source had an expiry");
        assert_eq!(server.version_of("k"), 1, "{what}");
        assert_eq!(
            counters(&server),
            (migrated + 1, malformed + legacy.set_aside.len() as i64),
            "{what}"
        );

        let mut expected: Vec<String> = vec!["k session.migrate".into()];
        let gone = legacy.sources.iter().filter(|source| **source != "k");
        expected.extend(gone.map(|source| format!("{source} del")));
        assert_eq!(heard(&server, &mut subscriber), expected, "{what}");

        // Repeating it changes nothing.
        let mut again = Value::Nil;
        let lines = server.propagated_lines(|server| again = server.run(&legacy.migrate("")));
        assert!(lines.is_empty(), "{what}: {lines:?}");
        assert_eq!(text(&entry(&again, "format")), "rdsession", "{what}");
        for name in ["messages", "malformed", "entities", "events", "tokens", "removed"] {
            assert_eq!(count(&again, name), 0, "{what} {name}");
        }
        let is_warned = legacy.set_aside.is_empty()
            || server.log().lines().any(|line| {
                line.contains(&format!("migrated {} at 'k'", legacy.format))
                    && line.contains(&format!("{} elements set aside", legacy.set_aside.len()))
                    && line.contains(" # ")
            });
        assert!(is_warned, "{what}:\n{}", server.log());
    }
}

fn counters(server: &Server) -> (i64, i64) {
    (
        server.info_number("session", "session_migrated"),
        server.info_number("session", "session_malformed"),
    )
}

/// Returns the keyspace events that a subscriber has received so far, as `key event`, and unsubscribes.
fn heard(server: &Server, subscriber: &mut Client) -> Vec<String> {
    server.run("PUBLISH __keyspace@0__:end end");
    let mut heard = Vec::new();
    loop {
        let message = items(&subscriber.receive());
        let (channel, event) = (text(&message[2]), text(&message[3]));
        if event == "end" {
            break;
        }
        let key = channel.split_once(':').expect("a channel of a key").1.to_owned();
        heard.push(format!("{key} {event}"));
    }
    subscriber.run("PUNSUBSCRIBE");
    heard
}

#[test]
fn a_layout_keeps_its_identity_times_and_counts() {
    let server = Server::start();
    let migrated = |name: &str, variant: &str| {
        server.run("FLUSHALL");
        let layouts = layouts();
        let legacy = layouts
            .iter()
            .find(|legacy| legacy.format == name && legacy.variant == variant)
            .expect("a layout");
        legacy.set_up(&server);
        server.run(&legacy.migrate(""));
        server.document("k")
    };
    let document = migrated("context", "");
    assert_eq!(document["session_id"], UUID);
    assert_eq!(document["scope"], "m1:u1");
    assert_eq!(document["created_at"], "2026-01-14T10:00:00.000Z");
    assert_eq!(document["last_activity"], "2026-01-14T10:05:00.000Z");
    assert_eq!(
        (&document["query_count"], &document["ttl_extended_count"]),
        (&4.into(), &2.into())
    );
    assert_eq!(document["limits"]["maxlen"], 20);
    assert_eq!(document["meta"], serde_json::json!({"title": "A case"}));
    assert_eq!(
        document["entities_mentioned"],
        serde_json::json!({"e1": {"entity_id": "e1", "entity_name": "John Smith", "entity_type": "person",
            "aliases": ["Mr Smith"], "mention_count": 3, "last_mentioned": "2026-01-14T10:00:00.000Z"}})
    );
    server.conversation(
        r#"
        > SESSION.RANGE k 0 0 WITHMETA
        1) 1) (integer) 1
           2) (integer) 1768384800000
           3) "user"
           4) (integer) 23
           5) '{"role":"user","content":"John?","timestamp":"2026-01-14T10:00:00Z","entity_refs":["e1"]}'
        "#,
    );

    let document = migrated("hash-list", "list");
    assert_eq!(document["session_id"], UUID);
    assert_eq!(document["created_at"], "2026-01-14T10:00:00.000Z");
    assert_eq!(document["last_activity"], "2026-01-14T10:00:01.500Z");
    assert_eq!(document["meta"], serde_json::json!({"title": "A \"talk\""}));
    assert_eq!(document["query_count"], 1, "as if it had been appended");
    let limits = &document["limits"];
    for name in ["maxlen", "maxtokens", "maxbytes", "maxage", "event-maxlen", "event-ttl"] {
        assert_eq!(limits[name], 0, "{name} in {limits}");
    }

    let document = migrated("hash-list", "string");
    assert_eq!(document["meta"], serde_json::json!({"session_id": "s1", "title": "x"}));

    let document = migrated("live-hash", "");
    assert_eq!(document["state"], "broke");
    assert_eq!(document["meta"], serde_json::json!({"note": "x"}));
    let agents: Vec<&serde_json::Value> = document["agents"].as_array().expect("agents").iter().collect();
    assert_eq!(agents.len(), 2);
    assert_eq!(
        (&agents[0]["agentId"], &agents[1]["agentId"]),
        (&"a1".into(), &"a2".into())
    );
    assert_eq!(
        document["events"],
        serde_json::json!({"count": 2, "first_seq": 1, "last_seq": 3})
    );
    server.conversation(
        r#"
        > SESSION.EVENT RANGE k - + FROM pass TO broke
        1) '{"seq":1,…"changeInfo":{"entityIds":["e3"]},"impact":{"perfDelta":-2},"stateTransition":{"from":"pass","to":"broke"},"agentId":"a1"}'
        2) '{"seq":3,…"changeInfo":{"entityIds":["e7"]},…'
        > SESSION.EVENT RANGE k - + ENTITY e7
        1) '{"seq":3,"timestamp":"2026-01-14T10:00:00.000Z","type":"modified",…'
        > SESSION.EVENT ADD k pass
        (integer) 4
        > SESSION.EVENT LEN k
        (integer) 3
        "#,
    );

    let document = migrated("openai-agents", "");
    assert_eq!(document["created_at"], "2026-01-14T10:00:00.000Z");
    assert_eq!(document["last_activity"], "2026-01-14T10:00:01.000Z");
    assert_eq!(document["meta"], serde_json::json!({"session_id": "s1", "counter": 3}));
    let document = migrated("motorhead", "summary");
    assert_eq!(document["meta"], serde_json::json!({"summary": "they \"played\""}));
    let document = migrated("agent-memory", "");
    assert_eq!(
        document["meta"],
        serde_json::json!({"summary": "they met", "memories": [{"text": "likes tea"}], "user_id": "u", "tokens": 12,
            "session_id": "s", "namespace": "n", "data": {"a": 1.0}})
    );
    let document = migrated("adk", "");
    assert_eq!(document["last_activity"], "2025-01-14T10:20:00.500Z");
    assert_eq!(document["meta"]["state"], serde_json::json!({"x": 1}));
}

#[test]
fn elements_without_a_time_have_the_commands() {
    let server = Server::start();
    server.conversation(
        r#"
        > RPUSH k '{"role":"user","content":"a"}' oops '{"role":"user","content":"b","timestamp":1768384800}'
        > SESSION.MIGRATE k AT 5000
        > SESSION.RANGE k - + BYSEQ WITHMETA
        1) 1) (integer) 1
           2) (integer) 5000
           3) "user"
           4) (integer) 8
           5) '{"role":"user","content":"a"}'
        2) 1) (integer) 3
           2) (integer) 1768384800000
           3) "user"
           4) (integer) 13
           5) '{"role":"user","content":"b","timestamp":1768384800}'
        # set-aside elements have seqs of their own
        > SESSION.RANGE k 0 -1 MALFORMED WITHMETA
        1) 1) (integer) 2
           2) (integer) 5000
           3) "other"
           4) (integer) 1
           5) "oops"
        > SESSION.LEN k
        (integer) 2
        > SESSION.APPEND k MSG user c
        (integer) 4
        # what is set aside stays when messages go
        > SESSION.CLEAR k
        (integer) 3
        > SESSION.RANGE k 0 -1 MALFORMED
        1) "oops"
        "#,
    );
    assert_eq!(server.document("k")["created_at"], "1970-01-01T00:00:05.000Z");
}

// ---------------------------------------------------------------------------------------------- options

#[test]
fn the_longest_expiry_is_kept_and_slides_from_then_on() {
    let server = Server::start();
    let set_up = |hash: Option<i64>, list: Option<i64>| {
        server.run("FLUSHALL");
        server.run("HSET k title x");
        server.call(&["RPUSH", "l", HI]);
        for (key, at_ms) in [("k", hash), ("l", list)] {
            if let Some(at_ms) = at_ms {
                server.run(&format!("PEXPIREAT {key} {at_ms}"));
            }
        }
    };
    let now = now_ms();
    let (near, far) = (now + 100_000, now + 900_000);
    for (hash, list, expected) in [
        (Some(near), Some(far), far),
        (Some(far), Some(near), far),
        (None, Some(far), -1),
        (Some(far), None, -1),
        (None, None, -1),
    ] {
        set_up(hash, list);
        server.run("SESSION.MIGRATE k FROM 2 k l");
        assert_eq!(server.expires_at_ms(b"k"), expected, "{hash:?} {list:?}");
    }
    // The ttl is what was left of the expiry: a later write slides by it.
    set_up(Some(near), Some(far));
    let (start, _) = (now_ms(), server.run("SESSION.MIGRATE k FROM 2 k l"));
    let migrated_by = now_ms();
    wait_until("the clock ticks", || now_ms() > migrated_by + 2);
    let slid_from = now_ms();
    server.run("SESSION.APPEND k MSG user hi");
    let (expires, slid_by) = (server.expires_at_ms(b"k"), now_ms());
    assert!(expires > far && expires >= slid_from + (far - migrated_by), "{expires}");
    assert!(expires <= slid_by + (far - start), "{expires}");

    for (options, ttl_s, is_expiring) in [("EX 500", 500, true), ("PX 500000", 500, true), ("PERSIST", 0, false)] {
        set_up(Some(near), Some(far));
        let start = now_ms();
        server.run(&format!("SESSION.MIGRATE k FROM 2 k l {options}"));
        let expires = server.expires_at_ms(b"k");
        match is_expiring {
            true => assert!(
                (start + ttl_s * 1000..=now_ms() + ttl_s * 1000).contains(&expires),
                "{options}"
            ),
            false => assert_eq!(expires, -1, "{options}"),
        }
    }
    // There is a session already: it keeps its own expiry.
    set_up(Some(near), Some(far));
    server.run("SESSION.MIGRATE k FROM 2 k l KEEPTTL");
    assert_eq!(server.expires_at_ms(b"k"), far);
    set_up(None, Some(far));
    server.run("SESSION.MIGRATE k FROM 2 k l KEEPTTL");
    assert_eq!(server.expires_at_ms(b"k"), -1);
    // PXAT sets the present expiry only.
    set_up(Some(near), Some(far));
    server.run("SESSION.MIGRATE k FROM 2 k l PXAT 4102444800000");
    assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000);
    server.run("SESSION.APPEND k MSG user hi");
    assert!(server.expires_at_ms(b"k") <= now_ms() + 900_000);
    // A past expiry deletes the session.
    set_up(Some(near), Some(far));
    server.run("SESSION.MIGRATE k FROM 2 k l PXAT 1");
    assert_eq!(server.say("EXISTS k l"), "(integer) 0");
}

#[test]
fn keep_leaves_the_sources() {
    let server = Server::append_only().start();
    server.call(&["RPUSH", "old", HI, CALL]);
    server.run("PEXPIREAT old 4102444800000");
    let before = keyspace(&server);
    let mut client = server.client().resp3();
    client.conversation(
        r#"
        > SESSION.MIGRATE new FROM 1 old KEEP
        1# "format" => "json-list"
        2# "messages" => (integer) 2
        3# "malformed" => (integer) 0
        4# "entities" => (integer) 0
        5# "events" => (integer) 0
        6# "tokens" => (integer) 42
        7# "removed" => (integer) 0
        > SESSION.LEN new
        (integer) 2
        > SESSION.MIGRATE old FROM 1 old KEEP
        (error) ERR KEEP needs sources at other keys than the session's
        > SESSION.MIGRATE old KEEP
        (error) ERR KEEP needs sources at other keys than the session's
        > SESSION.MIGRATE old KEEP DRYRUN
        (error) ERR KEEP needs sources at other keys than the session's
        "#,
    );
    assert_eq!(server.expires_at_ms(b"new"), 4_102_444_800_000);
    let mut after = keyspace(&server);
    after.remove(b"new".as_slice());
    assert_eq!(after, before);
    // And to another key without KEEP: the source is deleted, the key did not exist.
    client.conversation(
        r#"
        > SESSION.MIGRATE newer FROM 1 old
        1# "format" => "json-list"
        …
        > EXISTS old
        (integer) 0
        > SESSION.LEN newer
        (integer) 2
        "#,
    );
}

#[test]
fn an_id_and_a_bound_may_be_given() {
    let server = Server::start();
    server.call(&["SET", "k", &context()]);
    server.run(&format!("SESSION.MIGRATE k ID {OTHER_UUID} MAXLEN 2"));
    let document = server.document("k");
    assert_eq!(document["session_id"], OTHER_UUID);
    assert_eq!(document["meta"]["session_id"], UUID, "the source's is not lost");
    assert_eq!(document["limits"]["maxlen"], 2);
    assert_eq!(server.bodies("k"), [CALL, ANSWER]);

    // A window in the layout, and none.
    let messages = vec![HI; 23].join(",");
    let long = format!(r#"{{"matter_id":"m","messages":[{messages}]}}"#);
    for (options, len) in [("", 20), ("MAXLEN 0", 23), ("MAXLEN 5", 5)] {
        server.call(&["SET", "k", &long]);
        let evicted = server.info_number("session", "session_evicted");
        let reply = server.run(&format!("SESSION.MIGRATE k {options}"));
        assert_eq!(count(&reply, "messages"), 23);
        assert_eq!(server.bodies("k").len(), len, "{options}");
        assert_eq!(
            server.info_number("session", "session_evicted") - evicted,
            23 - len as i64
        );
    }
    server.run("CONFIG SET session.default-maxlen 3");
    for n in 0..10 {
        server.call(&["RPUSH", "list", &format!(r#"{{"role":"user","content":"{n}"}}"#)]);
    }
    server.run("SESSION.MIGRATE list");
    server.run("SESSION.APPEND list MSG user more");
    assert_eq!(server.bodies("list").len(), 11, "a window that the source had not");
}

#[test]
fn a_format_may_be_forced() {
    let server = Server::start();
    // With this format any object is a message.
    for format in ["json-list", "JSON-List", "agent-framework", "llama-index"] {
        server.run("DEL k");
        server.run(r#"RPUSH k '{"job":1}' x '{"job":2}'"#);
        let reply = server.run(&format!("SESSION.MIGRATE k FORMAT {format}"));
        assert_eq!(text(&entry(&reply, "format")), format.to_ascii_lowercase());
        assert_eq!(server.bodies("k"), [r#"{"job":1}"#, r#"{"job":2}"#]);
        assert_eq!(count(&reply, "malformed"), 1);
    }
    for (format, set_up, sources) in [
        ("langchain", r#"LPUSH k '{"job":1}' '{"job":2}'"#, "1 k"),
        ("MOTORHEAD", r#"LPUSH k '{"job":1}' '{"job":2}'"#, "1 k"),
        ("Json-Array", r#"SET k '[{"job":1},{"job":2}]'"#, "1 k"),
        ("CONTEXT", r#"SET k '{"messages":[{"job":1},{"job":2}]}'"#, "1 k"),
        ("agent-memory", r#"SET k '{"messages":[{"job":1},{"job":2}]}'"#, "1 k"),
        ("adk", r#"SET k '{"events":[{"job":1},{"job":2}]}'"#, "1 k"),
        ("hash-list", r#"RPUSH l '{"job":1}' '{"job":2}'"#, "2 l h"),
        ("openai-agents", r#"RPUSH l '{"job":1}' '{"job":2}'"#, "2 l h"),
    ] {
        server.run("FLUSHALL");
        server.run(set_up);
        server.run("HSET h title x");
        let reply = server.run(&format!("SESSION.MIGRATE k FROM {sources} FORMAT {format}"));
        assert_eq!(text(&entry(&reply, "format")), format.to_ascii_lowercase());
        assert_eq!(server.bodies("k"), [r#"{"job":1}"#, r#"{"job":2}"#], "{format}");
    }
    server.run("FLUSHALL");
    server.run("HSET k state x");
    server.run(r#"ZADD z 1 '{"job":1}'"#);
    server.run("SESSION.MIGRATE k FROM 2 z k FORMAT Live-Hash");
    server.conversation(
        r#"
        > SESSION.EVENT RANGE k - +
        1) '{"seq":1,"timestamp":…,"type":"unknown","job":1}'
        > RPUSH list x
        > SESSION.MIGRATE list FORMAT json
        (error) ERR FORMAT must be one of json-array, json-list, context, hash-list, live-hash, openai-agents, langchain, motorhead, agent-framework, agent-memory, adk, llama-index, not 'json'
        > SESSION.MIGRATE list FORMAT "\xff"
        (error) ERR FORMAT must be one of …, not '\xff'
        > SESSION.MIGRATE list FORMAT json-array
        (error) BADLAYOUT source 1 is a list: json-array has none
        > SESSION.MIGRATE list FORMAT hash-list
        (error) BADLAYOUT hash-list has a hash, and no source is one
        "#,
    );
}

#[test]
fn sources_come_in_any_order() {
    let server = Server::start();
    for order in ["k l s", "k s l", "l k s", "l s k", "s k l", "s l k"] {
        server.run("FLUSHALL");
        server.run("HSET k session_id s1 created_at 1768384800 updated_at 1768384801");
        server.call(&["RPUSH", "l", HI]);
        server.run("SET s 1");
        for key in ["k", "new"] {
            let before = keyspace(&server);
            let reply = server.run(&format!("SESSION.MIGRATE {key} FROM 3 {order} DRYRUN"));
            assert_eq!(count(&reply, "removed"), 3);
            assert_eq!(keyspace(&server), before);
        }
        let key = if order.starts_with('k') { "k" } else { "new" };
        let reply = server.run(&format!("SESSION.MIGRATE {key} FROM 3 {order}"));
        assert_eq!(text(&entry(&reply, "format")), "openai-agents");
        assert_eq!(items(&server.run("KEYS *")).len(), 1, "{order}");
        assert_eq!(server.bodies(key), [HI]);
    }
}

#[test]
fn guards_hold_for_a_migration() {
    let server = Server::start();
    server.call(&["RPUSH", "k", HI]);
    let before = keyspace(&server);
    server.conversation(
        r#"
        > SESSION.MIGRATE k IFVERSION 1
        (error) VERSIONCONFLICT session is at version 0, not 1
        > SESSION.MIGRATE k LEASE 1
        (error) LEASELOST token 1 is stale
        > SESSION.MIGRATE k DRYRUN IFVERSION 7
        (error) VERSIONCONFLICT session is at version 0, not 7
        "#,
    );
    assert_eq!(keyspace(&server), before);
    // They are checked before the sources are read.
    server.conversation(
        r#"
        > SADD set x
        (integer) 1
        > SESSION.MIGRATE new FROM 2 set missing IFVERSION 1
        (error) VERSIONCONFLICT session is at version 0, not 1
        > SESSION.MIGRATE new FROM 2 set missing LEASE 1
        (error) LEASELOST token 1 is stale
        > SESSION.MIGRATE new FROM 2 set missing IFVERSION 0
        (error) BADLAYOUT …
        "#,
    );
    server.conversation(
        r#"
        > SESSION.MIGRATE k IFVERSION 0
        > SESSION.MIGRATE k IFVERSION 1
        > SESSION.MIGRATE k IFVERSION 0
        (error) VERSIONCONFLICT session is at version 1, not 0
        "#,
    );
}

#[test]
fn watchers_of_every_key_hear_of_a_migration() {
    let server = Server::start();
    let mut watcher = server.client();
    for (key, breaks) in [("k", true), ("l", true), ("other", false)] {
        server.run("FLUSHALL");
        server.run("HSET k title x");
        server.call(&["RPUSH", "l", HI]);
        watcher.run(&format!("WATCH {key}"));
        server.run("SESSION.MIGRATE k FROM 2 k l DRYRUN");
        server.attempt("SESSION.MIGRATE k FROM 1 k");
        watcher.run("MULTI");
        watcher.run("PING");
        assert!(!matches!(watcher.run("EXEC"), Value::Nil), "nothing has changed yet");
        watcher.run(&format!("WATCH {key}"));
        server.run("SESSION.MIGRATE k FROM 2 k l");
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(matches!(watcher.run("EXEC"), Value::Nil), breaks, "{key}");
        watcher.run("WATCH k");
        server.run("SESSION.MIGRATE k");
        watcher.run("MULTI");
        watcher.run("PING");
        assert!(!matches!(watcher.run("EXEC"), Value::Nil), "it is one already");
    }
}

// ---------------------------------------------------------------------------------------------- refusals

#[test]
fn what_is_refused_is_as_it_was() {
    let server = Server::append_only().start();
    server.conversation(
        r#"
        > SET cache "plain text"
        > SET number 17
        > SET config '{"debug":true,"messages":["x"]}'
        > SET both '{"matter_id":"m","messages":[{"role":"user","content":"x"}],"memories":[]}'
        > SET cut '[{"role":"user","content":"x"},'
        > SET array '[1,2,3]'
        > SET nothing '[]'
        > SET blank ""
        > RPUSH jobs '{"job":1,"payload":{}}' '{"job":2}'
        > RPUSH log '2026-01-14 10:00 INFO: started' '2026-01-14 10:01 INFO: stopped'
        > RPUSH two '{"role":"user","content":"x"}' '{"type":"human","data":{}}'
        > RPUSH strangers '{"role":"user","content":"x"}' '{"job":1}'
        > RPUSH list '{"role":"user","content":"x"}'
        > HSET hash title x
        > ZADD zset 1 '{"seq":1}'
        > SADD set x
        > XADD stream 1-1 a b
        > SESSION.ANCHOR ADD anchors s1
        "#,
    );
    let before = keyspace(&server);
    let lines = server.propagated_lines(|server| {
        server.conversation(
            r#"
            > SESSION.MIGRATE cache
            (error) BADLAYOUT source 1 is not a JSON array or object (…)
            > SESSION.MIGRATE number
            (error) BADLAYOUT source 1 is not a JSON array or object (…)
            > SESSION.MIGRATE config
            (error) BADLAYOUT source 1 is a JSON object of no known layout
            > SESSION.MIGRATE both
            (error) BADLAYOUT source 1 is a JSON object of no known layout
            > SESSION.MIGRATE cut
            (error) BADLAYOUT source 1 is not a JSON array or object (unexpected end at byte …)
            > SESSION.MIGRATE cut FORMAT json-array
            (error) BADLAYOUT source 1 is not a JSON array (unexpected end at byte …)
            > SESSION.MIGRATE array
            (error) BADLAYOUT source 1 is of no known layout (no element is a JSON object)
            > SESSION.MIGRATE nothing
            (error) BADLAYOUT source 1 is of no known layout (no element is a JSON object)
            > SESSION.MIGRATE blank
            (error) BADLAYOUT source 1 is not a JSON array or object (…)
            > SESSION.MIGRATE jobs
            (error) BADLAYOUT source 1 is of no known layout (element 1); FORMAT takes any JSON object
            > SESSION.MIGRATE log
            (error) BADLAYOUT source 1 is of no known layout (no element is a JSON object)
            > SESSION.MIGRATE two
            (error) BADLAYOUT source 1 has elements of two layouts (json-list, and element 2 is langchain)
            > SESSION.MIGRATE strangers
            (error) BADLAYOUT source 1 is of no known layout (element 2); FORMAT takes any JSON object
            > SESSION.MIGRATE hash
            (error) BADLAYOUT source 1 is a hash without agentIds (a JSON array) and state
            > SESSION.MIGRATE zset
            (error) BADLAYOUT source 1 is a sorted set: live-hash has one, beside a hash and nothing else
            > SESSION.MIGRATE set
            (error) BADLAYOUT source 1 is of a type that no layout has
            > SESSION.MIGRATE stream
            (error) BADLAYOUT source 1 is of a type that no layout has
            > SESSION.MIGRATE anchors
            (error) BADLAYOUT source 1 is of a type that no layout has
            > SESSION.MIGRATE new FROM 2 list absent
            (error) BADLAYOUT source 2 is missing
            > SESSION.MIGRATE new FROM 2 absent list
            (error) BADLAYOUT source 1 is missing
            > SESSION.MIGRATE new FROM 2 list stream
            (error) BADLAYOUT source 2 is of a type that no layout has
            > SESSION.MIGRATE new FROM 2 list jobs
            (error) BADLAYOUT source 2 is a second list: no layout has two
            > SESSION.MIGRATE new FROM 2 list cache
            (error) BADLAYOUT source 2 is a string beside json-list, which has none
            > SESSION.MIGRATE absent
            (error) NOSESSION no session at key 'absent'
            > SESSION.MIGRATE absent FROM 1 absent
            (error) BADLAYOUT source 1 is missing
            > SESSION.MIGRATE hash FROM 1 list
            (error) BUSYKEY …
            > SESSION.MIGRATE anchors FROM 1 list KEEP
            (error) BUSYKEY …
            "#,
        );
        for (options, why) in [
            ("FROM", "ERR syntax error near 'FROM'"),
            ("FROM 0", "ERR FROM must be an integer from 1 to 4294967295"),
            ("FROM 0 list", "ERR FROM must be an integer from 1 to 4294967295"),
            ("FROM -1 list", "ERR FROM must be an integer from 1 to 4294967295"),
            ("FROM x list", "ERR FROM must be an integer from 1 to 4294967295"),
            ("FROM 2 list", "ERR syntax error near 'FROM'"),
            ("FROM 4294967295 list", "ERR syntax error near 'FROM'"),
            ("FROM 1 list hash", "ERR syntax error near 'hash'"),
            ("FROM 2 list list", "ERR FROM names 'list' twice"),
            ("FROM 1 list FROM 1 hash", "ERR syntax error near 'FROM'"),
            ("FORMAT", "ERR syntax error near 'FORMAT'"),
            ("FORMAT json-list FORMAT json-list", "ERR syntax error near 'FORMAT'"),
            ("ID", "ERR syntax error near 'ID'"),
            ("ID x", "ERR ID must be a UUID, not 'x'"),
            ("MAXLEN x", "ERR MAXLEN must be an integer from 0 to 4294967295"),
            ("MAXLEN -1", "ERR MAXLEN must be an integer from 0 to 4294967295"),
            ("MAXLEN", "ERR syntax error near 'MAXLEN'"),
            ("KEEP KEEP", "ERR syntax error near 'KEEP'"),
            ("DRYRUN DRYRUN", "ERR syntax error near 'DRYRUN'"),
            ("LIMIT max-agents 5", "ERR syntax error near 'LIMIT'"),
            ("NOW 5", "ERR syntax error near 'NOW'"),
            ("BOGUS", "ERR syntax error near 'BOGUS'"),
            ("EX 5 PX 5", "ERR syntax error near 'PX'"),
            ("EX 0", "ERR EX must be an integer from …"),
        ] {
            let said = server.say(&format!("SESSION.MIGRATE list {options}"));
            assert!(talk::matches(&format!("(error) {why}"), &said), "{options}: {said}");
        }
    });
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(keyspace(&server), before);
    assert_eq!(counters(&server), (0, 0));
    assert_eq!(
        server.say("SESSION.MIGRATE"),
        "(error) ERR wrong number of arguments for 'SESSION.MIGRATE' command"
    );
}

#[test]
fn very_many_sources_are_refused_in_no_time() {
    let server = Server::start();
    let mut args: Vec<String> = ["SESSION.MIGRATE", "k", "FROM", "300000"].map(str::to_owned).to_vec();
    args.extend((0..300_000).map(|n| n.to_string()));
    let reply = talk::render(&server.call(&args));
    assert_eq!(reply, "(error) BADLAYOUT source 1 is missing");
}

// ---------------------------------------------------------------------------------------------- read-through

const READS: &[&str] = &[
    "SESSION.RANGE k 0 -1",
    "SESSION.RANGE k 1 1 REV",
    "SESSION.RANGE k - + BYSEQ COUNT 2",
    "SESSION.RANGE k - (1768384800001 BYTIME",
    "SESSION.RANGE k 0 -1 ROLE user ROLE tool",
    "SESSION.RANGE k 0 -1 MALFORMED",
    "SESSION.LEN k",
    "SESSION.CONTEXT k",
    "SESSION.CONTEXT k MAXLEN 2 ENTITIES 5",
    "SESSION.ENTITY LIST k",
    "SESSION.ENTITY GET k e1",
    "SESSION.ENTITY RESOLVE k he",
    "SESSION.EVENT RANGE k - +",
    "SESSION.EVENT LEN k",
    "SESSION.AGENT LIST k",
    "SESSION.CHECKPOINT LIST k",
    "SESSION.CHECKPOINT GET k 1",
    "SESSION.READ k $",
];

/// Values that a session that does not exist yet cannot choose: its id and its time of creation.
fn without_what_is_new(server: &Server) -> (serde_json::Value, Vec<(String, String)>) {
    let mut document = server.document("k");
    for name in ["session_id", "created_at", "last_activity"] {
        document[name] = serde_json::Value::Null;
    }
    // For these, each server uses its own defaults until there is a session.
    for name in ["dedup-window", "max-checkpoints", "max-entities", "max-agents"] {
        document["limits"][name] = serde_json::Value::Null;
    }
    let info = items(&server.run("SESSION.INFO k"));
    let mut info: Vec<(String, String)> = info
        .chunks(2)
        .map(|pair| (text(&pair[0]), talk::render(&pair[1])))
        .collect();
    // An existing session is compressed.
    info.retain(|(name, _)| {
        !["session_id", "created_at", "last_activity", "bytes_stored", "chunks"].contains(&name.as_str())
    });
    (document, info)
}

#[test]
fn reads_pass_through_a_json_layout_and_write_nothing() {
    let primary = Server::append_only().start();
    let commands = primary.commands();
    assert_examples(
        commands
            .iter()
            .filter(|command| !command.is_write() && !command.is_help()),
        READS,
        &[
            ("SESSION.GET", "is looked at as the document"),
            ("SESSION.INFO", "is looked at field by field"),
            ("SESSION.ANCHOR GET", "reads anchors"),
            ("SESSION.INDEX LEN", "reads a directory"),
            ("SESSION.INDEX LIST", "reads a directory"),
            ("SESSION.INDEX RESOLVE", "reads a directory"),
        ],
    );
    let replica = Options::default().hostile().start();
    replica.replicate(&primary);
    for legacy in layouts().into_iter().filter(Legacy::is_of_one_json_key) {
        let what = format!("{} {}", legacy.format, legacy.variant);
        primary.run("FLUSHALL");
        legacy.set_up(&primary);
        primary.run("PEXPIREAT k 4102444800000");
        replica.wait_for(&primary);
        let before = keyspace(&primary);
        let counted = counters(&primary);
        let mut shown = Vec::new();
        for setting in ["no", "yes"] {
            primary.run(&format!("CONFIG SET session.auto-migrate {setting}"));
            for server in [&primary, &replica] {
                let lines = primary.propagated_lines(|_| {
                    let replies: Vec<String> = READS.iter().map(|read| server.say(read)).collect();
                    shown.push((replies, without_what_is_new(server)));
                });
                assert!(lines.is_empty(), "{what}: {lines:?}");
                assert_eq!(keyspace(server), before, "{what}");
            }
        }
        assert_eq!(counters(&primary), counted, "{what}");
        assert_eq!(
            raw(&primary, &["SESSION.RANGE", "k", "0", "-1"]),
            legacy.bodies,
            "{what}"
        );
        primary.run("SESSION.MIGRATE k");
        let replies: Vec<String> = READS.iter().map(|read| primary.say(read)).collect();
        let migrated = (replies, without_what_is_new(&primary));
        for (replies, (document, info)) in shown {
            for ((read, shown), migrated) in READS.iter().zip(&replies).zip(&migrated.0) {
                assert_eq!(shown, migrated, "{what}: {read}");
            }
            assert_eq!(document, migrated.1 .0, "{what}");
            assert_eq!(info, migrated.1 .1, "{what}");
        }
    }
}

#[test]
fn a_reader_waits_at_a_layout_for_what_comes() {
    let server = Server::start();
    server.call(&["RPUSH", "k", HI]);
    let mut reader = server.client();
    reader.send(&["SESSION.READ", "k", "1", "BLOCK", "0"]);
    wait_until("the reader waits", || {
        server.info_number("session", "session_blocked_readers") == 1
    });
    server.run("RPUSH k oops");
    assert_eq!(server.info_number("session", "session_blocked_readers"), 1);
    server.run("SESSION.APPEND k MSG user more");
    let told = talk::render(&reader.receive());
    assert!(told.contains("more"), "{told}");
}

/// Keys that only resemble a conversation.
const LOOKALIKES: &[&str] = &[
    r#"RPUSH k '{"job":1,"payload":{"role":"user","content":"x"}}' '{"job":2}'"#,
    r#"RPUSH k '{"type":"email","data":{"to":"x"}}'"#,
    r#"RPUSH k '{"role":"admin"}' '{"role":"user"}'"#,
    r#"RPUSH k '{"content":"x"}'"#,
    r#"RPUSH k '{"role":"user","content":"x"}' '{"job":1}'"#,
    r#"RPUSH k '{"role":"user","content":"x"}' '{"type":"human","data":{}}'"#,
    r#"RPUSH k '2026-01-14 INFO: started' '2026-01-14 INFO: stopped'"#,
    "RPUSH k 'Human: ping' 'AI: pong'",
    "RPUSH k 1 2 3",
    "RPUSH k ''",
    "RPUSH k '{' '{\"role\":\"user\",\"content\":'",
    "SET k 17",
    "SET k ''",
    "SET k '[]'",
    "SET k '{}'",
    "SET k '[[]]'",
    "SET k '[{}]'",
    "SET k null",
    "SET k 'cached page'",
    r#"SET k '"role"'"#,
    r#"SET k '{"role":"user","content":"x"}'"#,
    r#"SET k '{"matter_id":"m"}'"#,
    r#"SET k '{"matter_id":"m","messages":{}}'"#,
    r#"SET k '{"app_name":"shop","events":["click","view"]}'"#,
    r#"SET k '{"app_name":"shop","events":{"on":true}}'"#,
    r#"SET k '{"messages":["hello"],"memories":[]}'"#,
    r#"SET k '[{"role":"user","content":"x"},{"job":1}]'"#,
    r#"SET k '[{"role":"user","content":"x"}'"#,
    r#"SET k '[{"role":"user","content":"x"}] trailing'"#,
    "SET k \"\\xff\\xfe\"",
    "SETBIT k 100 1",
    "PFADD k a b",
    "ZADD k 1 a",
    r#"ZADD k 1 '{"seq":1,"type":"modified"}'"#,
    "HSET k role user content x",
    r#"HSET k agentIds '["a"]' state working"#,
    "HSET k session_id s created_at 1768384800 updated_at 1768384801",
    r#"SADD k '{"role":"user","content":"x"}'"#,
    "XADD k 1-1 role user content x",
];

#[test]
fn what_merely_looks_alike_is_left_alone() {
    let server = Server::append_only().start();
    for set_up in LOOKALIKES {
        server.run("DEL k");
        server.run(set_up);
        let before = keyspace(&server);
        let lines = server.propagated_lines(|server| {
            for _ in 0..3 {
                for command in READS.iter().chain(WRITES).chain(&["SESSION.GET k", "SESSION.INFO k"]) {
                    let command = command.replace("{w}", "");
                    let said = server.say(&command);
                    assert_eq!(said, WRONGTYPE, "{set_up}: {command}");
                }
            }
        });
        assert!(lines.is_empty(), "{set_up}: {lines:?}");
        assert_eq!(keyspace(&server), before, "{set_up}");
    }
    assert_eq!(counters(&server), (0, 0));
}

// ---------------------------------------------------------------------------------------------- the first write

/// Every command that writes, in forms that a session made by `MIGRATE` accepts; `{w}` marks the position of the options.
const WRITES: &[&str] = &[
    "SESSION.APPEND k JSON '{\"role\":\"user\",\"n\":4}'",
    "SESSION.APPEND k {w} JSON '{\"role\":\"user\",\"n\":4}' '{\"n\":5}'",
    "SESSION.APPEND k {w} MSG user four",
    "SESSION.APPEND k XX DEDUP t MAXLEN 2 TOKENS 9 EVICTED {w} MSG user four REF e1",
    "SESSION.META k '{\"b\":2}' {w}",
    "SESSION.WINDOW k MAXLEN 2 PIN system {w}",
    "SESSION.POP k {w}",
    "SESSION.POP k COUNT 99 {w}",
    "SESSION.REMOVE k 1 {w}",
    "SESSION.REMOVE k 99 {w}",
    "SESSION.REDACT k 1 REASON gdpr {w}",
    "SESSION.COMPACT k UPTO 1 {w} MSG system summary",
    "SESSION.CLEAR k {w}",
    "SESSION.ENTITY MENTION k {w} ID e1 NAME n ALIAS a",
    "SESSION.ENTITY MENTION k {w} JSON '{\"id\":\"new\"}'",
    "SESSION.ENTITY FORGET k 1 e1 {w}",
    "SESSION.EVENT ADD k pass STATE review {w}",
    "SESSION.EVENT ADD k pass IFSTATE working ENTITIES 1 e1 {w}",
    "SESSION.AGENT JOIN k a {w}",
    "SESSION.AGENT LEAVE k a {w}",
    "SESSION.AGENT HANDOFF k a b {w}",
    "SESSION.AGENT LEASE k a 60000",
    "SESSION.CHECKPOINT CREATE k LABEL l {w}",
    "SESSION.CHECKPOINT CREATE k CLOSE {w}",
    "SESSION.CHECKPOINT DEL k 1 {w}",
    "SESSION.GETEX k",
    "SESSION.GETEX k EX 100",
    "SESSION.GETEX k CREATE PERSIST",
    "SESSION.CREATE k OPEN",
    "SESSION.CREATE k OPEN STATE other EX 100",
    "SESSION.INDEX ADD i k",
    "SESSION.INDEX ADD i k ALIAS a",
];

/// Removes what differs with every migration from replies: the id and the new times.
fn without_ids_and_times(said: &str) -> String {
    let is_like = |pattern: &str, text: &[u8]| {
        text.len() >= pattern.len()
            && pattern.bytes().zip(text).all(|(sign, byte)| match sign {
                b'x' => byte.is_ascii_hexdigit(),
                _ => sign == *byte,
            })
    };
    let bytes = said.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let patterns = ["xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xxxx-xx-xxTxx:xx:xx.xxxZ"];
        match patterns.into_iter().find(|pattern| is_like(pattern, &bytes[at..])) {
            Some(pattern) => {
                out.push(b'#');
                at += pattern.len();
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).expect("whole characters are left out")
}

#[test]
fn the_first_write_migrates_and_then_applies() {
    let primary = Server::append_only().config("notify-keyspace-events", "KEd").start();
    let commands = primary.commands();
    assert_examples(
        commands.iter().filter(|command| command.is_write()),
        WRITES,
        &[
            ("SESSION.MIGRATE", "is what the others do first"),
            ("SESSION.AGENT RELEASE", "nobody has a lease yet"),
            ("SESSION.CHECKPOINT RESTORE", "there is no checkpoint yet"),
            ("SESSION.FORK", "does not migrate its source"),
            ("SESSION.ANCHOR ADD", "writes anchors"),
            ("SESSION.LOAD", "clients may not"),
        ],
    );
    let replica = Options::default().hostile().start();
    replica.replicate(&primary);
    let mut subscriber = primary.client();
    let mut watcher = primary.client();
    for legacy in layouts().into_iter().filter(Legacy::is_of_one_json_key) {
        // Not every combination: all writes on two layouts, the usual writes on all.
        let is_long = matches!(
            (legacy.format, legacy.variant),
            ("json-list", "mixed") | ("context", "")
        );
        for write in WRITES.iter().step_by(if is_long { 1 } else { 5 }) {
            let write = write.replace("{w}", "");
            let what = format!("{} {}: {write}", legacy.format, legacy.variant);
            primary.run("FLUSHALL");
            legacy.set_up(&primary);
            primary.run("PEXPIREAT k 4102444800000");
            // Expected: a migration, and then the command.
            primary.run("SESSION.MIGRATE k");
            let expected = without_ids_and_times(&primary.say(&write));
            let expected_bodies = without_ids_and_times(&primary.say("SESSION.RANGE k 0 -1"));
            let expected_version = primary.version_of("k");

            primary.run("FLUSHALL");
            legacy.set_up(&primary);
            primary.run("PEXPIREAT k 4102444800000");
            subscriber.run("PSUBSCRIBE __keyspace*__:*");
            watcher.run("WATCH k");
            let (migrated, malformed) = counters(&primary);
            let mut said = String::new();
            let lines = primary.propagated_lines(|server| said = server.say(&write));
            assert_eq!(without_ids_and_times(&said), expected, "{what}");
            assert_eq!(
                counters(&primary),
                (migrated + 1, malformed + legacy.set_aside.len() as i64),
                "{what}"
            );
            assert_eq!(
                without_ids_and_times(&primary.say("SESSION.RANGE k 0 -1")),
                expected_bodies,
                "{what}"
            );
            assert_eq!(primary.version_of("k"), expected_version, "{what}");
            assert_eq!(
                raw(&primary, &["SESSION.RANGE", "k", "0", "-1", "MALFORMED"]),
                legacy.set_aside,
                "{what}"
            );
            watcher.run("MULTI");
            watcher.run("PING");
            assert!(matches!(watcher.run("EXEC"), Value::Nil), "{what}");
            let heard = heard(&primary, &mut subscriber);
            assert_eq!(
                heard.first().map(String::as_str),
                Some("k session.migrate"),
                "{what}: {heard:?}"
            );
            assert!(
                !heard.iter().any(|event| event.ends_with("session.create")),
                "{what}: {heard:?}"
            );

            // The migration is propagated first, in one transaction with the command's effect.
            let is_alone = write.starts_with("SESSION.CREATE");
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let migrates = format!("SESSION.MIGRATE k FORMAT {} ID ", legacy.format);
            match lines.as_slice() {
                [migrate] if is_alone => assert!(migrate.starts_with(&migrates), "{what}: {lines:?}"),
                ["MULTI", migrate, effects @ .., "EXEC"] => {
                    assert!(
                        migrate.starts_with(&migrates) && migrate.contains(" MAXLEN "),
                        "{what}: {lines:?}"
                    );
                    assert!(migrate.ends_with(" PXAT 4102444800000"), "{what}: {lines:?}");
                    assert_eq!(effects.len(), 1, "{what}: {lines:?}");
                    let name = write.split(' ').next().expect("a name");
                    assert!(effects[0].starts_with(name), "{what}: {lines:?}");
                }
                _ => panic!("{what}: {lines:?}"),
            }
            replica.wait_for(&primary);
            assert_same(&what, &primary.snapshot(), &replica.snapshot());
        }
    }
}

#[test]
fn a_write_that_is_refused_has_migrated_nothing() {
    let server = Server::append_only().start();
    let mut refusals: Vec<(String, &str)> = Vec::new();
    for write in WRITES.iter().filter(|write| write.contains("{w}")) {
        refusals.push((
            write.replace("{w}", "IFVERSION 0"),
            "VERSIONCONFLICT session is at version 1, not 0",
        ));
        refusals.push((write.replace("{w}", "LEASE 7"), "LEASELOST token 7 is stale"));
        refusals.push((write.replace("{w}", "BOGUS"), "ERR …"));
        refusals.push((write.replace("{w}", "EX 0"), "ERR EX must be …"));
    }
    for (write, why) in [
        ("SESSION.APPEND k JSON []", "BADMESSAGE …"),
        ("SESSION.APPEND k JSON {} nonsense", "BADMESSAGE message 2 of 2: …"),
        ("SESSION.APPEND k JSON {} BOGUS {}", "BADMESSAGE …"),
        ("SESSION.APPEND k MSG user \"\\xff\"", "BADMESSAGE …"),
        ("SESSION.APPEND k TOKENS 1 JSON {} {}", "ERR syntax error near 'TOKENS'"),
        ("SESSION.META k []", "ERR META is not a JSON object …"),
        (
            "SESSION.EVENT ADD k pass IFSTATE review",
            "STATECONFLICT session is in state 'working', not 'review'",
        ),
        ("SESSION.EVENT ADD k pass CHANGE 5", "ERR CHANGE is not a JSON object …"),
        ("SESSION.ENTITY MENTION k JSON 5", "ERR …"),
        ("SESSION.AGENT RELEASE k 1", "LEASELOST token 1 is stale"),
        ("SESSION.CHECKPOINT RESTORE k 1", "NOCHECKPOINT …"),
        ("SESSION.CREATE k", "BUSYKEY …"),
        (
            "SESSION.CREATE k OPEN IFVERSION 7",
            "VERSIONCONFLICT session is at version 1, not 7",
        ),
        ("SESSION.CREATE k OPEN LEASE 7", "LEASELOST …"),
        ("SESSION.INDEX ADD k k", "WRONGTYPE …"),
        ("SESSION.INDEX ADD list k", "WRONGTYPE …"),
        ("SESSION.INDEX ADD i k ALIAS taken", "ALIASINUSE …"),
        ("SESSION.INDEX ADD i k ALIAS a/b", "BADALIAS …"),
        ("SESSION.GETEX k EX 0", "ERR EX must be …"),
    ] {
        refusals.push((write.to_owned(), why));
    }
    server.run("SESSION.CREATE other INDEX i ALIAS taken");
    server.run("RPUSH list x");
    for legacy in layouts()
        .into_iter()
        .filter(|legacy| legacy.sources == ["k"] && matches!(legacy.format, "json-list" | "adk"))
    {
        server.run("DEL k");
        legacy.set_up(&server);
        server.run("PEXPIREAT k 4102444800000");
        let before = keyspace(&server);
        let lines = server.propagated_lines(|server| {
            for (write, why) in &refusals {
                let said = server.say(write);
                assert!(talk::matches(&format!("(error) {why}"), &said), "{write}: {said}");
                assert_eq!(
                    server.say("TYPE k"),
                    if legacy.format == "adk" { "string" } else { "list" },
                    "{write}"
                );
            }
        });
        assert!(lines.is_empty(), "{lines:?}");
        assert_eq!(keyspace(&server), before);
    }
    assert_eq!(counters(&server), (0, 0));
}

#[test]
fn without_auto_migrate_a_write_is_refused() {
    let server = Server::with("session.auto-migrate", "no").append_only().start();
    for legacy in layouts().into_iter().filter(Legacy::is_of_one_json_key) {
        server.run("FLUSHALL");
        legacy.set_up(&server);
        let before = keyspace(&server);
        let lines = server.propagated_lines(|server| {
            for write in WRITES {
                assert_eq!(
                    server.say(&write.replace("{w}", "")),
                    WRONGTYPE,
                    "{} {write}",
                    legacy.format
                );
            }
        });
        assert!(lines.is_empty(), "{lines:?}");
        assert_eq!(keyspace(&server), before);
        assert_eq!(server.bodies("k").len(), legacy.bodies.len(), "but it reads");
    }
    server.run("SESSION.MIGRATE k");
    server.run("SESSION.APPEND k MSG user hi");
}

#[test]
fn a_transaction_and_a_script_migrate_too() {
    let server = Server::append_only().start();
    server.call(&["RPUSH", "k", HI]);
    let lines = server.propagated_lines(|server| {
        server.conversation(
            r#"
            > MULTI
            > SESSION.LEN k
            > SESSION.APPEND k MSG user a
            > SESSION.APPEND k MSG user b
            > EXEC
            1) (integer) 1
            2) (integer) 2
            3) (integer) 3
            "#,
        );
    });
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line.split(' ').next().expect("a name"))
        .collect();
    assert_eq!(
        names,
        ["MULTI", "SESSION.MIGRATE", "SESSION.APPEND", "SESSION.APPEND", "EXEC"]
    );
    server.run("DEL k");
    server.call(&["RPUSH", "k", HI]);
    let lines = server.propagated_lines(|server| {
        server.run("EVAL \"return redis.call('SESSION.APPEND', KEYS[1], 'MSG', 'user', 'a')\" 1 k");
    });
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line.split(' ').next().expect("a name"))
        .collect();
    assert_eq!(names, ["MULTI", "SESSION.MIGRATE", "SESSION.APPEND", "EXEC"]);
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 2");
}

#[test]
fn a_migration_notifies_of_what_a_layouts_window_evicts() {
    let server = Options::default().config("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    let messages = vec![HI; 23].join(",");
    server.call(&["SET", "k", &format!(r#"{{"matter_id":"m","messages":[{messages}]}}"#)]);
    subscriber.run("PSUBSCRIBE __keyspace*__:*");
    server.run("SESSION.META k '{}'");
    assert_eq!(
        heard(&server, &mut subscriber),
        ["k session.migrate", "k session.evict"]
    );
    assert_eq!(server.info_number("session", "session_evicted"), 3);
}

#[test]
fn a_fork_does_not_migrate_its_source() {
    let server = Server::start();
    server.call(&["RPUSH", "k", HI]);
    assert_eq!(server.say("SESSION.FORK k fork"), WRONGTYPE);
    server.run("SESSION.CREATE s");
    assert!(server.say("SESSION.FORK s k").starts_with("(error) BUSYKEY"));
    assert_eq!(server.say("TYPE k"), "list");
}

// ---------------------------------------------------------------------------------------------- no data loss

/// What clients and accidents leave in lists: messages of layouts, other JSON, truncated, huge and empty ones, bytes that are not text.
fn random_element(random: &mut Random) -> Vec<u8> {
    let message = |random: &mut Random| match random.below(4) {
        0 => HI.as_bytes().to_vec(),
        1 => CALL.as_bytes().to_vec(),
        2 => format!(r#"{{"role":"user","content":"{}"}}"#, "é".repeat(random.below(300))).into_bytes(),
        _ => format!(
            r#" {{ "role" : "tool", "tool_call_id":"c1","content":[{}] }} "#,
            random.below(9)
        )
        .into_bytes(),
    };
    match random.below(40) {
        0 => Vec::new(),
        1 => (0..random.below(40)).map(|_| random.below(256) as u8).collect(),
        2 => b"[]".to_vec(),
        3 => b"null".to_vec(),
        4 => b"Human: ping".to_vec(),
        5 => format!("{}{}", "[".repeat(200), "]".repeat(200)).into_bytes(),
        6 => format!(
            r#"{{"role":"user","content":"x","deep":{}{}}}"#,
            "[".repeat(140),
            "]".repeat(140)
        )
        .into_bytes(),
        7 => format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(100_000)).into_bytes(),
        8..=11 => {
            let mut cut = message(random);
            cut.truncate(random.below(cut.len()));
            cut
        }
        12..=14 => {
            let mut spoilt = message(random);
            let at = random.below(spoilt.len());
            spoilt[at] = random.below(256) as u8;
            spoilt
        }
        _ => message(random),
    }
}

/// Returns the elements of a migrated list or array: messages and elements set aside, in the order of their seqs.
fn elements_of(server: &Server, key: &str) -> Vec<Vec<u8>> {
    let mut found: Vec<(i64, Vec<u8>)> = Vec::new();
    for malformed in [&[][..], &["MALFORMED"]] {
        let args = [&["SESSION.RANGE", key, "0", "-1", "WITHMETA"], malformed].concat();
        for row in items(&server.call(&args)) {
            let row = items(&row);
            found.push((int(&row[0]), bytes(&row[4])));
        }
    }
    found.sort();
    found.into_iter().map(|(_, body)| body).collect()
}

#[test]
fn whatever_is_migrated_is_there_and_whatever_is_not_is_as_it_was() {
    let server = Server::start();
    let (mut done, mut refused) = (0, 0);
    for seed in 0..400 {
        let random = &mut Random(seed);
        server.run("FLUSHALL");
        let mut elements: Vec<Vec<u8>> = (0..random.below(30)).map(|_| random_element(random)).collect();
        if random.below(8) == 0 {
            elements.push(if random.below(2) == 0 {
                HUMAN.into()
            } else {
                r#"{"job":1}"#.into()
            });
        }
        let mut format = ["", "", "FORMAT json-list", "FORMAT langchain"][random.below(4)];
        let is_list = random.below(3) > 0;
        if is_list {
            for element in &elements {
                server.call(&[b"RPUSH".as_slice(), b"k", element]);
            }
        } else {
            // An array is valid JSON only if its elements are.
            elements.retain(|element| serde_json::from_slice::<serde_json::Value>(element).is_ok());
            for element in &mut elements {
                *element = element.trim_ascii().to_vec();
            }
            let mut array = [b"[", elements.join(&b","[..]).as_slice(), b"]"].concat();
            if random.below(5) == 0 {
                array.truncate(random.below(array.len()));
            }
            server.call(&[b"SET".as_slice(), b"k", &array]);
            format = "";
        }
        if format == "FORMAT langchain" {
            elements.reverse();
        }
        let before = keyspace(&server);
        let by_append = format.is_empty() && random.below(3) == 0;
        let reply = match by_append {
            true => server.attempt("SESSION.META k '{}'"),
            false => server.attempt(&format!("SESSION.MIGRATE k {format}")),
        };
        if before.is_empty() {
            continue;
        }
        if let Value::ServerError(_) = reply {
            refused += 1;
            assert_eq!(keyspace(&server), before, "seed {seed}: {}", talk::render(&reply));
            continue;
        }
        done += 1;
        let found = elements_of(&server, "k");
        assert_eq!(found.len(), elements.len(), "seed {seed}");
        for (at, (found, element)) in found.iter().zip(&elements).enumerate() {
            assert!(
                found == element,
                "seed {seed}, element {at}: {} was {}",
                talk::quote(found),
                talk::quote(element)
            );
        }
        if !by_append {
            assert_eq!(
                count(&reply, "messages") + count(&reply, "malformed"),
                elements.len(),
                "seed {seed}"
            );
        }
    }
    assert!(done > 100 && refused > 20, "{done} and {refused}");
}

#[test]
fn of_two_clients_at_once_one_migrates_and_both_are_answered() {
    let server = Server::start();
    let keys: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    for key in &keys {
        server.call(&["RPUSH", key, HI, CALL, ANSWER]);
    }
    let migrations = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (mut client, keys, migrations) = (server.client(), &keys, &migrations);
            scope.spawn(move || {
                for chunk in keys.chunks(20) {
                    let commands: Vec<Vec<Vec<u8>>> = chunk
                        .iter()
                        .map(|key| match worker {
                            3 => talk::split(&format!("SESSION.APPEND {key} MSG user more")),
                            _ => talk::split(&format!("SESSION.MIGRATE {key}")),
                        })
                        .collect();
                    for reply in client.pipeline(&commands).expect("replies") {
                        match reply {
                            Value::Int(seq) => assert_eq!(seq, 4),
                            reply if text(&entry(&reply, "format")) == "json-list" => {
                                assert_eq!(count(&reply, "messages"), 3);
                                migrations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            }
                            reply => assert_eq!(text(&entry(&reply, "format")), "rdsession"),
                        }
                    }
                }
            });
        }
    });
    for key in &keys {
        let bodies = server.bodies(key);
        assert_eq!(
            (bodies.len(), &bodies[..3]),
            (4, &[HI, CALL, ANSWER].map(str::to_owned)[..]),
            "{key}"
        );
    }
    assert_eq!(server.info_number("session", "session_migrated"), 300);
    assert!(migrations.into_inner() <= 300);
}

#[test]
fn a_server_that_is_killed_has_the_layout_or_the_session() {
    let server = Server::append_only().start();
    for round in 0..6_u64 {
        server.run("FLUSHALL");
        let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
        for key in &keys {
            server.call(&["HSET", key, "title", "x"]);
            server.call(&["RPUSH", &format!("{key}:messages"), HI, "oops", CALL]);
            server.call(&["RPUSH", &format!("{key}:alone"), HI, "oops", CALL]);
        }
        // The server is killed while these are being executed, at an unknown point.
        let mut client = server.client();
        for key in &keys {
            client.send(&["SESSION.MIGRATE", key, "FROM", "2", key, &format!("{key}:messages")]);
            client.send(&["SESSION.APPEND", &format!("{key}:alone"), "MSG", "user", "more"]);
        }
        for _ in 0..Random(round).below(2 * keys.len()) {
            client.receive();
        }
        server.restart();
        let (mut old, mut new) = (0, 0);
        for key in &keys {
            let (messages, alone) = (format!("{key}:messages"), format!("{key}:alone"));
            match server.say(&format!("TYPE {key}")).as_str() {
                "rdsession" => {
                    new += 1;
                    assert_eq!(elements_of(&server, key), [HI, "oops", CALL].map(str::as_bytes));
                    assert_eq!(server.say(&format!("EXISTS {messages}")), "(integer) 0");
                }
                "hash" => {
                    old += 1;
                    assert_eq!(
                        raw(&server, &["LRANGE", &messages, "0", "-1"]),
                        [HI, "oops", CALL].map(str::as_bytes)
                    );
                }
                other => panic!("{key} is a {other}"),
            }
            match server.say(&format!("TYPE {alone}")).as_str() {
                // With what was appended, since that is one atomic step.
                "rdsession" => assert_eq!(server.bodies(&alone).len(), 3, "{alone}"),
                "list" => assert_eq!(
                    raw(&server, &["LRANGE", &alone, "0", "-1"]),
                    [HI, "oops", CALL].map(str::as_bytes)
                ),
                other => panic!("{alone} is a {other}"),
            }
        }
        assert_eq!(old + new, keys.len());
    }
}

#[test]
fn a_session_with_what_was_set_aside_survives_everything() {
    redis_session_tests::oracle::assert_survives_everything(|server| {
        for (n, legacy) in layouts().into_iter().enumerate() {
            legacy.set_up(server);
            if n % 2 == 0 {
                server.run("PEXPIREAT k 4102444800000");
            }
            if legacy.is_of_one_json_key() && n % 3 == 0 {
                server.run("SESSION.APPEND k MSG user more REF e1");
            } else {
                server.run(&legacy.migrate(""));
            }
            server.run(&format!("RENAME k migrated{n}"));
        }
    });
}

// ---------------------------------------------------------------------------------------------- sizes

#[test]
fn a_list_of_a_hundred_thousand_elements_migrates() {
    let server = Server::start();
    let body = |n: usize| {
        format!(
            r#"{{"role":"{}","content":"message {n}"}}"#,
            ["user", "assistant"][n % 2]
        )
    };
    let mut client = server.client();
    for start in (0..100_000).step_by(1000) {
        let bodies: Vec<String> = (start..start + 1000).map(body).collect();
        let mut args = vec!["RPUSH", "k"];
        args.extend(bodies.iter().map(String::as_str));
        client.call(&args);
    }
    let as_list = int(&server.run("MEMORY USAGE k SAMPLES 0"));
    let used = server.info_number("memory", "used_memory");
    let reply = server.run("SESSION.MIGRATE k");
    assert_eq!((count(&reply, "messages"), count(&reply, "malformed")), (100_000, 0));
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 100000");
    for at in [0, 1, 49_999, 99_999] {
        let found = raw(&server, &["SESSION.RANGE", "k", &at.to_string(), &at.to_string()]);
        assert_eq!(found, [body(at).into_bytes()]);
    }
    let as_session = int(&server.run("MEMORY USAGE k SAMPLES 0"));
    assert!(as_session < 2 * as_list, "{as_session} bytes, and {as_list} as a list");
    // Temporary memory is freed; what is freed on other threads, soon.
    wait_until("the memory is given back", || {
        server.info_number("memory", "used_memory") < used + as_list
    });
}

/// Measures and prints how long the server pauses, which depends on the machine. `cargo test -- --ignored --nocapture pauses`
#[test]
#[ignore = "a measurement"]
fn pauses_of_large_migrations() {
    let server = Server::start();
    for (name, count, bytes) in [
        ("1,000,000 small", 1_000_000, 20),
        ("100,000 of 600 bytes", 100_000, 560),
    ] {
        server.run("FLUSHALL");
        let mut client = server.client();
        let padding = "lorem ipsum dolor sit amet, ".repeat(bytes / 28 + 1);
        for start in (0..count).step_by(1000) {
            let bodies: Vec<String> = (start..start + 1000)
                .map(|n| format!(r#"{{"role":"user","content":"{n} {}"}}"#, &padding[..bytes]))
                .collect();
            let mut args = vec!["RPUSH", "k"];
            args.extend(bodies.iter().map(String::as_str));
            client.call(&args);
        }
        let before = server.info_number("memory", "used_memory");
        let start = std::time::Instant::now();
        client.run("SESSION.MIGRATE k DRYRUN");
        let trial = start.elapsed();
        let start = std::time::Instant::now();
        client.run("SESSION.MIGRATE k");
        println!(
            "{name}: {} ms ({} ms with DRYRUN), memory {} MB before, {} MB after",
            start.elapsed().as_millis(),
            trial.as_millis(),
            before / 1_000_000,
            server.info_number("memory", "used_memory") / 1_000_000,
        );
    }
}
