//! Reading: `RANGE`, `LEN`, `GET`, `GETEX`, `CONTEXT`.

use redis_session_tests::{entry, int, items, text, Client, Options, Server};
use serde_json::json;

/// Six messages at seqs 1 to 6, dated 1,000 to 6,000 ms.
fn six() -> Server {
    let server = Server::start();
    for (n, role) in [
        (1, "system"),
        (2, "user"),
        (3, "assistant"),
        (4, "user"),
        (5, "assistant"),
        (6, "user"),
    ] {
        server.run(&format!(
            r#"SESSION.APPEND k AT {n}000 JSON '{{"role":"{role}","n":{n}}}'"#
        ));
    }
    server
}

/// Returns the `n` of every body that a range replies.
fn selected(client: &mut Client, range: &str) -> Vec<i64> {
    let bodies = items(&client.run(&format!("SESSION.RANGE k {range}")));
    bodies
        .iter()
        .map(|body| {
            serde_json::from_str::<serde_json::Value>(&text(body)).expect("JSON")["n"]
                .as_i64()
                .expect("n")
        })
        .collect()
}

#[test]
fn range_by_index_is_lrange() {
    let server = six();
    for n in 1..=6 {
        server.run(&format!("RPUSH list {n}"));
    }
    let mut client = server.client();
    for start in -8..=8 {
        for stop in -8..=8 {
            let list: Vec<i64> = items(&server.run(&format!("LRANGE list {start} {stop}")))
                .iter()
                .map(|n| text(n).parse().expect("a number"))
                .collect();
            assert_eq!(
                selected(&mut client, &format!("{start} {stop}")),
                list,
                "{start} {stop}"
            );
        }
    }
}

#[test]
fn range_by_seq_and_time_take_intervals() {
    let server = six();
    server.run("SESSION.REMOVE k 3");
    let mut client = server.client();
    for (range, expected) in [
        ("- + BYSEQ", &[1, 2, 4, 5, 6][..]),
        ("2 4 BYSEQ", &[2, 4]),
        ("3 3 BYSEQ", &[]),
        ("(2 + BYSEQ", &[4, 5, 6]),
        ("- (5 BYSEQ", &[1, 2, 4]),
        ("(1 (6 BYSEQ", &[2, 4, 5]),
        ("(4 (5 BYSEQ", &[]),
        ("5 4 BYSEQ", &[]),
        ("0 99 BYSEQ", &[1, 2, 4, 5, 6]),
        ("7 + BYSEQ", &[]),
        ("- + BYTIME", &[1, 2, 4, 5, 6]),
        ("2000 5000 BYTIME", &[2, 4, 5]),
        ("(2000 (5000 BYTIME", &[4]),
        ("2001 3999 BYTIME", &[]),
        ("- 1000 BYTIME", &[1]),
    ] {
        assert_eq!(selected(&mut client, range), expected, "{range}");
    }
    assert_eq!(selected(&mut client, "- + byseq rev"), [6, 5, 4, 2, 1]);
}

#[test]
fn range_rev_role_and_count_apply_in_turn() {
    let server = six();
    let mut client = server.client();
    for (range, expected) in [
        ("0 2 REV", &[3, 2, 1][..]),
        ("-2 -1 REV", &[6, 5]),
        ("0 -1 COUNT 2", &[1, 2]),
        ("0 -1 COUNT 2 REV", &[6, 5]),
        ("0 -1 COUNT 99", &[1, 2, 3, 4, 5, 6]),
        ("0 -1 ROLE user", &[2, 4, 6]),
        ("0 -1 ROLE user ROLE system", &[1, 2, 4, 6]),
        ("0 -1 ROLE user COUNT 1 REV", &[6]),
        ("0 -1 ROLE nobody", &[]),
        // Indexes count all messages; the role filters after that.
        ("0 2 ROLE user", &[2]),
        ("2 + BYSEQ ROLE assistant COUNT 1", &[3]),
        ("- 4000 BYTIME REV COUNT 3 ROLE user ROLE assistant", &[4, 3, 2]),
    ] {
        assert_eq!(selected(&mut client, range), expected, "{range}");
    }
}

#[test]
fn time_order_is_seq_order() {
    let server = Server::start();
    for (n, ms) in [(1, 3000), (2, 1000), (3, 2000)] {
        server.run(&format!(r#"SESSION.APPEND k AT {ms} JSON '{{"n":{n}}}'"#));
    }
    let mut client = server.client();
    assert_eq!(selected(&mut client, "- + BYTIME"), [1, 2, 3]);
    assert_eq!(selected(&mut client, "1500 + BYTIME"), [1, 3]);
    assert_eq!(selected(&mut client, "- 2000 BYTIME REV"), [3, 2]);
}

#[test]
fn the_grammar_of_range_is_kept() {
    let server = six();
    server.conversation(
        r#"
        > SESSION.RANGE k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.RANGE k 0
        (error) ERR wrong number of arguments for '…' command
        > SESSION.RANGE k 0 -1 BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.RANGE k 0 5 BYSEQ BYTIME
        (error) ERR syntax error near 'BYTIME'
        > SESSION.RANGE k 0 5 REV REV
        (error) ERR syntax error near 'REV'
        > SESSION.RANGE k 0 5 COUNT
        (error) ERR syntax error near 'COUNT'
        > SESSION.RANGE k 0 5 COUNT 1 COUNT 1
        (error) ERR syntax error near 'COUNT'
        > SESSION.RANGE k 0 5 COUNT x
        (error) ERR COUNT must be an integer from …
        > SESSION.RANGE k 0 5 ROLE
        (error) ERR syntax error near 'ROLE'
        > SESSION.RANGE k a b
        (error) ERR …
        > SESSION.RANGE k - +
        (error) ERR …
        > SESSION.RANGE k ( + BYSEQ
        (error) ERR …
        > SESSION.RANGE k (x + BYSEQ
        (error) ERR …
        > SESSION.RANGE k 0 -1 MALFORMED
        (empty array)
        > SESSION.RANGE absent 0 -1
        (empty array)
        > SESSION.RANGE absent - + BYSEQ WITHMETA
        (empty array)
        > SESSION.LEN absent
        (integer) 0
        > SESSION.LEN k
        (integer) 6
        > SESSION.LEN
        (error) ERR wrong number of arguments for '…' command
        > SESSION.LEN k x
        (error) ERR wrong number of arguments for '…' command
        "#,
    );
}

#[test]
fn get_is_one_document_with_verbatim_messages() {
    let server = Server::start();
    let odd = r#"{ "role" : "user" , "a":1, "a":2, "big": 12345678901234567890123 }"#;
    server.run(&format!("SESSION.APPEND k AT 1768384800000 JSON '{odd}' '{{}}'"));
    let document = text(&server.run("SESSION.GET k"));
    assert!(document.contains(odd), "{document}");
    let document = server.document("k");
    assert_eq!(document["message_count"], 2);
    assert_eq!(document["messages"].as_array().expect("an array").len(), 2);
    assert_eq!(document["version"], 2);
    server.run("PERSIST k");
    assert_eq!(server.document("k")["expires_at"], json!(null));
    server.conversation(
        r#"
        > SESSION.GET absent
        (nil)
        > SESSION.GET k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.GET k MESSAGES
        (error) ERR syntax error near 'MESSAGES'
        > SESSION.GET k MESSAGES x
        (error) ERR MESSAGES must be an integer from 0 to …
        > SESSION.GET k CREATE
        (error) ERR syntax error near 'CREATE'
        "#,
    );
}

#[test]
fn get_messages_limits_to_the_newest() {
    let server = six();
    let numbers = |messages: &str| -> Vec<i64> {
        let document: serde_json::Value =
            serde_json::from_str(&text(&server.run(&format!("SESSION.GET k {messages}")))).expect("JSON");
        assert_eq!(document["message_count"], 6);
        document["messages"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|body| body["n"].as_i64().expect("n"))
            .collect()
    };
    assert_eq!(numbers(""), [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers("MESSAGES 0"), [0i64; 0]);
    assert_eq!(numbers("MESSAGES 2"), [5, 6]);
    assert_eq!(numbers("MESSAGES 99"), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn expires_at_is_the_keys_expiry() {
    let server = Server::start();
    server.run("SESSION.CREATE k PXAT 4102444800000");
    assert_eq!(server.document("k")["expires_at"], "2100-01-01T00:00:00.000Z");
    server.run("PEXPIREAT k 4102444800001");
    assert_eq!(server.document("k")["expires_at"], "2100-01-01T00:00:00.001Z");
}

#[test]
fn getex_slides_counts_and_creates() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.GETEX k
        (nil)
        > SESSION.GETEX k EX 10
        (nil)
        > EXISTS k
        (integer) 0
        > SESSION.GETEX k CREATE
        '{…"version":1,…}'
        > SESSION.GETEX k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.GETEX k KEEPTTL
        (error) ERR syntax error near 'KEEPTTL'
        > SESSION.GETEX k IFVERSION 1
        (error) ERR syntax error near 'IFVERSION'
        > SESSION.GETEX k EX 5 PX 5
        (error) ERR syntax error near 'PX'
        > SESSION.GETEX k EX 5 PERSIST
        (error) ERR syntax error near 'PERSIST'
        > SESSION.GETEX k PXAT
        (error) ERR syntax error near 'PXAT'
        > SESSION.GETEX k EX x
        (error) ERR EX must be an integer from …
        "#,
    );
    let version = server.version_of("k");
    let count = |server: &Server| server.document("k")["ttl_extended_count"].as_i64().expect("a count");
    let before = count(&server);
    server.run("SESSION.GETEX k");
    server.run("SESSION.GETEX k CREATE MESSAGES 0 EX 100");
    assert_eq!(count(&server), before + 2);
    assert_eq!(server.version_of("k"), version, "GETEX is no change of content");
    let now = redis_session_tests::now_ms();
    assert!((now + 90_000..=now + 100_000).contains(&server.expires_at_ms(b"k")));
    server.run("SESSION.GETEX k PXAT 4102444800000");
    assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000);
    server.run("SESSION.GETEX k PERSIST");
    assert_eq!(server.expires_at_ms(b"k"), -1);
    server.run("SESSION.GETEX k PXAT 1000");
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
}

/// Returns the `n`s of the messages, the tokens and the number left out of a context.
fn context(server: &Server, options: &str) -> (Vec<i64>, i64, i64) {
    let reply = server.run(&format!("SESSION.CONTEXT k {options}"));
    let messages = items(&entry(&reply, "messages"));
    let n = |body| {
        serde_json::from_str::<serde_json::Value>(&text(body)).expect("JSON")["n"]
            .as_i64()
            .expect("n")
    };
    (
        messages.iter().map(n).collect(),
        int(&entry(&reply, "tokens")),
        int(&entry(&reply, "omitted")),
    )
}

#[test]
fn context_replies_a_map() {
    let server = Server::start();
    let conversation = r#"
        > SESSION.APPEND k TOKENS 5 JSON '{"n":1}'
        (integer) 1
        > SESSION.CONTEXT k
        1) "messages"
        2) 1) '{"n":1}'
        3) "tokens"
        4) (integer) 5
        5) "omitted"
        6) (integer) 0
        7) "entities"
        8) (empty array)
        > SESSION.CONTEXT absent
        (nil)
        > SESSION.CONTEXT k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.CONTEXT k MAXTOKENS
        (error) ERR syntax error near 'MAXTOKENS'
        > SESSION.CONTEXT k MAXTOKENS 1 MAXTOKENS 1
        (error) ERR syntax error near 'MAXTOKENS'
        > SESSION.CONTEXT k MAXLEN x
        (error) ERR MAXLEN must be an integer from …
    "#;
    server.conversation(conversation);
    assert!(matches!(
        server.client().resp3().run("SESSION.CONTEXT k"),
        redis_session_tests::Value::Map(_)
    ));
}

#[test]
fn context_fills_from_the_newest_back() {
    let server = Server::start();
    for (n, tokens) in [(1, 10), (2, 1), (3, 20), (4, 5), (5, 7)] {
        server.run(&format!(
            r#"SESSION.APPEND k TOKENS {tokens} JSON '{{"role":"user","n":{n}}}'"#
        ));
    }
    assert_eq!(context(&server, ""), (vec![1, 2, 3, 4, 5], 43, 0));
    assert_eq!(context(&server, "MAXTOKENS 43"), (vec![1, 2, 3, 4, 5], 43, 0));
    assert_eq!(context(&server, "MAXTOKENS 12"), (vec![4, 5], 12, 3));
    // It stops at the first exchange that does not fit, even if an older one would.
    assert_eq!(context(&server, "MAXTOKENS 13"), (vec![4, 5], 12, 3));
    assert_eq!(context(&server, "MAXLEN 2"), (vec![4, 5], 12, 3));
    assert_eq!(context(&server, "MAXLEN 3 MAXTOKENS 12"), (vec![4, 5], 12, 3));
    // The newest is included even if it exceeds the budget by itself.
    assert_eq!(context(&server, "MAXTOKENS 1"), (vec![5], 7, 4));
}

#[test]
fn context_takes_whole_exchanges() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":1,"role":"user"}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":2,"tool_calls":[{"id":"a"},{"id":"b"}]}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":3,"tool_call_id":"a"}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":4,"role":"user"}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":5,"tool_call_id":"b"}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":6,"role":"user"}'"#);
    assert_eq!(context(&server, "MAXLEN 1"), (vec![6], 1, 5));
    assert_eq!(context(&server, "MAXLEN 2"), (vec![4, 6], 2, 4));
    assert_eq!(context(&server, "MAXLEN 4"), (vec![4, 6], 2, 4));
    assert_eq!(context(&server, "MAXLEN 5"), (vec![2, 3, 4, 5, 6], 5, 1));
    assert_eq!(context(&server, "MAXTOKENS 6"), (vec![1, 2, 3, 4, 5, 6], 6, 0));
}

#[test]
fn context_always_brings_what_is_pinned() {
    let server = Server::start();
    server.run("SESSION.CREATE k PIN system");
    for (n, role) in [(1, "system"), (2, "user"), (3, "assistant"), (4, "user")] {
        server.run(&format!(
            r#"SESSION.APPEND k TOKENS 10 JSON '{{"role":"{role}","n":{n}}}'"#
        ));
    }
    // Pinned messages count: they have 10 of the 20 tokens.
    assert_eq!(context(&server, "MAXTOKENS 20"), (vec![1, 4], 20, 2));
    assert_eq!(context(&server, "MAXTOKENS 30"), (vec![1, 3, 4], 30, 1));
    assert_eq!(context(&server, "MAXLEN 2"), (vec![1, 4], 20, 2));
    // Both the pinned and the newest, even beyond the bound.
    assert_eq!(context(&server, "MAXTOKENS 5"), (vec![1, 4], 20, 2));
    // The role filters first, pinned messages too; messages that do not match do not count as left out.
    assert_eq!(context(&server, "ROLE user"), (vec![2, 4], 20, 0));
    assert_eq!(context(&server, "ROLE user ROLE system MAXLEN 2"), (vec![1, 4], 20, 1));
}

#[test]
fn context_entities_are_the_most_recent() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi REF a REF b REF c");
    let names = |n: usize| -> Vec<String> {
        let reply = server.run(&format!("SESSION.CONTEXT k ENTITIES {n}"));
        let entities = items(&entry(&reply, "entities"));
        let id = |json| {
            serde_json::from_str::<serde_json::Value>(&text(json)).expect("JSON")["entity_id"]
                .as_str()
                .expect("an id")
                .to_string()
        };
        entities.iter().map(id).collect()
    };
    assert_eq!(names(0), [""; 0]);
    assert_eq!(names(2), ["c", "b"]);
    assert_eq!(names(9), ["c", "b", "a"]);
}

#[test]
fn reads_work_through_sealed_chunks() {
    // Enough bytes for many chunks, compressed and not.
    for compress_after in ["0", "1", "4096"] {
        let server = Options::default()
            .config("session.compress-after", compress_after)
            .config("session.default-maxlen", 0)
            .start();
        let bodies: Vec<String> = (1..=600)
            .map(|n| format!(r#"{{"role":"user","n":{n},"x":"{}"}}"#, "lorem ".repeat(n % 60)))
            .collect();
        for body in &bodies {
            server.call(&["SESSION.APPEND", "k", "AT", "1000", "JSON", body]);
        }
        assert_eq!(server.bodies("k"), bodies);
        let mut client = server.client();
        for at in (0..600).step_by(37) {
            assert_eq!(
                selected(&mut client, &format!("{at} {}", at + 1)),
                [at + 1, at + 2]
                    .map(i64::from)
                    .into_iter()
                    .filter(|n| *n <= 600)
                    .collect::<Vec<_>>()
            );
            assert_eq!(
                selected(&mut client, &format!("{} + BYSEQ COUNT 1", at + 1)),
                [i64::from(at + 1)]
            );
            assert_eq!(
                selected(&mut client, &format!("- {} BYSEQ COUNT 2 REV", at + 2)),
                [i64::from(at + 2), i64::from(at + 1)]
            );
        }
        assert_eq!(selected(&mut client, "0 -1 REV").len(), 600);
    }
}
