//! `SESSION.APPEND`: bodies, composed messages, and the facts read from them.

use redis_session_tests::{entry, int, items, text, Server};
use serde_json::json;

#[test]
fn json_bodies_come_back_byte_for_byte() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k JSON '{"role":"user","content":"hi"}'
        (integer) 1
        # spaces, order, duplicates, escapes and unknown fields are the client's
        > SESSION.APPEND k JSON ' { "z" : 1 ,"role":"user", "role":"assistant", "content":"\u00e9\ud83d\ude00" , "n": 1.0e2 } ' '{}'
        (integer) 3
        > SESSION.RANGE k 0 -1
        1) '{"role":"user","content":"hi"}'
        2) ' { "z" : 1 ,"role":"user", "role":"assistant", "content":"\u00e9\ud83d\ude00" , "n": 1.0e2 } '
        3) "{}"
        > SESSION.LEN k
        (integer) 3
        "#,
    );
}

#[test]
fn msg_composes_the_body() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k AT 1768384800000 MSG user hello
        (integer) 1
        > SESSION.APPEND k AT 1768384800001 MSG assistant "say \"hi\"\n\x01" NAME bob ID m1 TOOL_CALL_ID c0 REF e1 REF e2
        (integer) 2
        > SESSION.APPEND k AT 1768384800999 MSG assistant '' TOOL_CALL c1 lookup '' TOOL_CALL c2 "g\"et" x
        (integer) 3
        # options of a message come in any order, fields of the body do not
        > SESSION.APPEND k AT 0 MSG tool é REF e3 ID m2 NAME n
        (integer) 4
        > SESSION.RANGE k 0 -1
        1) '{"role":"user","content":"hello","timestamp":"2026-01-14T10:00:00.000Z"}'
        2) '{"role":"assistant","content":"say \"hi\"\n\u0001","timestamp":"2026-01-14T10:00:00.001Z","name":"bob","id":"m1","tool_call_id":"c0","entity_refs":["e1","e2"]}'
        3) '{"role":"assistant","content":"","timestamp":"2026-01-14T10:00:00.999Z","tool_calls":[{"id":"c1","name":"lookup","arguments":""},{"id":"c2","name":"g\"et","arguments":"x"}]}'
        4) '{"role":"tool","content":"é","timestamp":"1970-01-01T00:00:00.000Z","name":"n","id":"m2","entity_refs":["e3"]}'
        "#,
    );
}

#[test]
fn a_tool_call_keeps_its_arguments_text() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k MSG assistant "" TOOL_CALL c1 lookup '{"a": [1,2]}'"#);
    let body: serde_json::Value = serde_json::from_str(&server.bodies("k")[0]).expect("JSON");
    assert_eq!(
        body["tool_calls"],
        json!([{"id": "c1", "name": "lookup", "arguments": "{\"a\": [1,2]}"}])
    );
}

#[test]
fn without_at_a_message_is_dated_by_the_server() {
    let server = Server::start();
    let before = redis_session_tests::now_ms();
    server.run("SESSION.APPEND k MSG user hi");
    let after = redis_session_tests::now_ms();
    let row = items(&items(&server.run("SESSION.RANGE k 0 -1 WITHMETA"))[0]);
    assert!(
        (before..=after).contains(&int(&row[1])),
        "{before} {} {after}",
        int(&row[1])
    );
}

#[test]
fn withmeta_shows_what_is_read_from_a_body() {
    // [seq, ms, role, tokens, body]
    Server::start().conversation(
        r#"
        > SESSION.APPEND k AT 1000 TOKENS 7 MSG user hi
        (integer) 1
        > SESSION.APPEND k AT 1000 JSON '{"role":"assistant","token_count":12}'
        (integer) 2
        > SESSION.APPEND k AT 1000 TOKENS 5 JSON '{"role":"assistant","token_count":12}'
        (integer) 3
        # without a count: a token for every four bytes begun
        > SESSION.APPEND k AT 1000 JSON '{"x":12}' '{"x":123}' '{"token_count":"9"}'
        (integer) 6
        > SESSION.RANGE k 0 -1 WITHMETA
        1) 1) (integer) 1
           2) (integer) 1000
           3) "user"
           4) (integer) 7
           5) '{"role":"user","content":"hi","timestamp":"1970-01-01T00:00:01.000Z"}'
        2) 1) (integer) 2
           2) (integer) 1000
           3) "assistant"
           4) (integer) 12
           5) '{"role":"assistant","token_count":12}'
        3) 1) (integer) 3
           2) (integer) 1000
           3) "assistant"
           4) (integer) 5
           5) '{"role":"assistant","token_count":12}'
        4) 1) (integer) 4
           2) (integer) 1000
           3) "other"
           4) (integer) 2
           5) '{"x":12}'
        5) 1) (integer) 5
           2) (integer) 1000
           3) "other"
           4) (integer) 3
           5) '{"x":123}'
        6) 1) (integer) 6
           2) (integer) 1000
           3) "other"
           4) (integer) 5
           5) '{"token_count":"9"}'
        "#,
    );
}

#[test]
fn the_role_is_the_bodys_or_follows_from_its_type() {
    let server = Server::start();
    for (body, role) in [
        (r#"{"role":"user"}"#, "user"),
        (r#"{"role":"developer"}"#, "developer"),
        (r#"{"role":"critic é"}"#, "critic é"),
        (r#"{"role":"user","type":"ai"}"#, "user"),
        (r#"{"role":"user","role":"tool"}"#, "tool"),
        (r#"{"role":"\u0075ser"}"#, "user"),
        (r#"{"role":5,"type":"ai"}"#, "assistant"),
        (r#"{"role":null,"type":"human"}"#, "user"),
        (r#"{"type":"human"}"#, "user"),
        (r#"{"type":"ai"}"#, "assistant"),
        (r#"{"type":"system"}"#, "system"),
        (r#"{"type":"tool"}"#, "tool"),
        (r#"{"type":"function_call","call_id":"c"}"#, "assistant"),
        (r#"{"type":"function_call_output","call_id":"c"}"#, "tool"),
        (r#"{"type":"message"}"#, "other"),
        (r#"{"type":["human"]}"#, "other"),
        (r#"{"content":{"role":"user"}}"#, "other"),
        ("{}", "other"),
    ] {
        server.run(&format!("SESSION.APPEND k JSON '{body}'"));
        let row = items(&items(&server.run("SESSION.RANGE k -1 -1 WITHMETA"))[0]);
        assert_eq!(text(&row[2]), role, "{body}");
    }
}

#[test]
fn the_bodys_own_time_wins() {
    let server = Server::start();
    const AT: i64 = 1_700_000_000_000;
    for (body, ms) in [
        (r#"{"timestamp":"2026-01-14T10:00:00Z"}"#, 1_768_384_800_000),
        (r#"{"timestamp":"2026-01-14T10:00:00.123Z"}"#, 1_768_384_800_123),
        (r#"{"timestamp":"2026-01-14T10:00:00.123456Z"}"#, 1_768_384_800_123),
        (r#"{"timestamp":"2026-01-14T12:00:00+02:00"}"#, 1_768_384_800_000),
        (r#"{"timestamp":"2026-01-14T04:30:00-05:30"}"#, 1_768_384_800_000),
        (r#"{"timestamp":"2026-01-14T10:00:00"}"#, 1_768_384_800_000),
        (r#"{"timestamp":"2026-01-14T10:00:00.5"}"#, 1_768_384_800_500),
        (r#"{"timestamp":1768384800}"#, 1_768_384_800_000),
        (r#"{"timestamp":1768384800000}"#, 1_768_384_800_000),
        (r#"{"timestamp":99999999999}"#, 99_999_999_999_000),
        (r#"{"timestamp":100000000000}"#, 100_000_000_000),
        (r#"{"timestamp":1768384800.25}"#, 1_768_384_800_250),
        (r#"{"created_at":"2026-01-14T10:00:00Z"}"#, 1_768_384_800_000),
        (r#"{"created_at":1768384800}"#, 1_768_384_800_000),
        (r#"{"created_at":1,"timestamp":1768384800}"#, 1_768_384_800_000),
        // Unreadable values count as missing.
        (r#"{"timestamp":"yesterday"}"#, AT),
        (r#"{"timestamp":"2026-13-45T10:00:00Z"}"#, AT),
        (r#"{"timestamp":""}"#, AT),
        (r#"{"timestamp":{}}"#, AT),
        (r#"{"timestamp":null}"#, AT),
        (r#"{"timestamp":1e300}"#, AT),
        (r#"{"content":{"timestamp":5}}"#, AT),
        (r#"{}"#, AT),
    ] {
        server.run(&format!("SESSION.APPEND k AT {AT} JSON '{body}'"));
        let row = items(&items(&server.run("SESSION.RANGE k -1 -1 WITHMETA"))[0]);
        assert_eq!(int(&row[1]), ms, "{body}");
    }
}

#[test]
fn counts_activity_and_mentions_follow() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.APPEND k MSG user one REF paris
        (integer) 1
        > SESSION.APPEND k MSG assistant two REF paris REF rome
        (integer) 2
        > SESSION.APPEND k JSON '{"type":"human","entity_refs":["rome"]}' '{"role":"user","entity_refs":"rome"}' '{"role":"tool"}'
        (integer) 5
        "#,
    );
    let document = server.document("k");
    assert_eq!(document["message_count"], 5);
    assert_eq!(document["query_count"], 3);
    assert_eq!(document["last_seq"], 5);
    let entities = &document["entities_mentioned"];
    assert_eq!(entities["paris"]["mention_count"], 2);
    assert_eq!(entities["rome"]["mention_count"], 2);
    assert_eq!(entities["paris"]["entity_id"], "paris");
    assert_eq!(entities["paris"]["entity_name"], "paris");
    assert_eq!(entities["paris"]["entity_type"], "unknown");
    assert_eq!(entities["paris"]["aliases"], json!([]));
    assert_eq!(entities.as_object().expect("an object").len(), 2);
}

#[test]
fn last_activity_goes_by_the_servers_clock() {
    let server = Server::start();
    server.run("SESSION.APPEND k AT 1000 MSG user hi");
    let activity = server.document("k")["last_activity"]
        .as_str()
        .expect("a time")
        .to_string();
    assert!(activity.as_str() > "2024", "{activity}");
    server.run("SESSION.CREATE c AT 1000");
    assert_eq!(server.document("c")["created_at"], "1970-01-01T00:00:01.000Z");
}

#[test]
fn the_least_recently_mentioned_entity_makes_room() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT max-entities 2");
    for reference in ["a", "b", "a", "c"] {
        server.run(&format!("SESSION.APPEND k MSG user hi REF {reference}"));
    }
    let document = server.document("k");
    let entities = document["entities_mentioned"].as_object().expect("an object");
    assert_eq!(entities.keys().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(document["message_count"], 4);
}

#[test]
fn xx_appends_to_what_exists_only() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k XX MSG user hi
        (nil)
        > EXISTS k
        (integer) 0
        > SESSION.CREATE k
        > SESSION.APPEND k XX MSG user hi
        (integer) 1
        "#,
    );
}

#[test]
fn maxlen_becomes_the_sessions_bound() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.APPEND k MAXLEN 2 JSON '{"n":1}' '{"n":2}' '{"n":3}'
        (integer) 3
        > SESSION.APPEND k JSON '{"n":4}'
        (integer) 4
        > SESSION.RANGE k 0 -1
        1) '{"n":3}'
        2) '{"n":4}'
        "#,
    );
    assert_eq!(server.document("k")["limits"]["maxlen"], 2);
}

#[test]
fn evicted_shows_what_fell_out() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k MAXLEN 3 EVICTED JSON '{"n":1}'
        1) (integer) 1
        2) (empty array)
        > SESSION.APPEND k EVICTED JSON '{"n":2}' '{"n":3}' '{"n":4}' '{"n":5}'
        1) (integer) 5
        2) 1) '{"n":1}'
           2) '{"n":2}'
        > SESSION.APPEND k EVICTED XX JSON '{"n":6}'
        1) (integer) 6
        2) 1) '{"n":3}'
        > SESSION.APPEND absent EVICTED XX JSON '{"n":6}'
        (nil)
        "#,
    );
}

#[test]
fn the_default_window_is_twenty() {
    let server = Server::start();
    for n in 1..=25 {
        assert_eq!(
            server.say(&format!("SESSION.APPEND k JSON '{{\"n\":{n}}}'")),
            format!("(integer) {n}")
        );
    }
    assert_eq!(server.seqs("k"), (6..=25).collect::<Vec<_>>());
}

#[test]
fn the_grammar_of_append_is_kept() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.APPEND
        (error) ERR wrong number of arguments for '…' command
        > SESSION.APPEND k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.APPEND k BOGUS MSG user hi
        (error) ERR syntax error near 'BOGUS'
        > SESSION.APPEND k XX XX MSG user hi
        (error) ERR syntax error near 'XX'
        > SESSION.APPEND k evicted EVICTED MSG user hi
        (error) ERR syntax error near 'EVICTED'
        > SESSION.APPEND k MAXLEN 5 MAXLEN 5 MSG user hi
        (error) ERR syntax error near 'MAXLEN'
        > SESSION.APPEND k JSON
        (error) ERR …
        > SESSION.APPEND k MSG
        (error) ERR …
        > SESSION.APPEND k MSG user
        (error) ERR …
        > SESSION.APPEND k MSG user hi BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.APPEND k MSG user hi NAME
        (error) ERR syntax error near 'NAME'
        > SESSION.APPEND k MSG user hi NAME a NAME b
        (error) ERR syntax error near 'NAME'
        > SESSION.APPEND k MSG user hi TOOL_CALL id name
        (error) ERR syntax error near 'TOOL_CALL'
        > SESSION.APPEND k MSG user hi REF
        (error) ERR syntax error near 'REF'
        # options of the command do not belong behind the tail
        > SESSION.APPEND k MSG user hi DEDUP x
        (error) ERR syntax error near 'DEDUP'
        > SESSION.APPEND k TOKENS 5 JSON {} {}
        (error) ERR …
        > SESSION.APPEND k TOKENS x MSG user hi
        (error) ERR TOKENS must be an integer from 0 to …
        > SESSION.APPEND k TOKENS -1 MSG user hi
        (error) ERR TOKENS must be an integer from 0 to …
        > EXISTS k
        (integer) 0
        # a word of the grammar as a value is a value
        > SESSION.APPEND k DEDUP JSON MSG JSON MSG NAME NAME
        (integer) 1
        > session.append k dedup X msg user hi name N tool_call i n a
        (integer) 2
        "#,
    );
}

#[test]
fn a_real_body_limit_names_the_setting() {
    let server = Server::start();
    let limit = 1_048_576;
    let body = |len: usize| format!(r#"{{"content":"{}"}}"#, "x".repeat(len - 14));
    assert_eq!(body(100).len(), 100);
    let append = |bodies: &[&str]| server.call(&[&["SESSION.APPEND", "k", "JSON"], bodies].concat());
    let shown = |value| redis_session_tests::talk::render(&value);
    assert_eq!(
        shown(append(&[&body(limit + 1)])),
        "(error) TOOLARGE message 1 of 1 is 1048577 bytes, session.max-message-bytes is 1048576"
    );
    assert_eq!(
        shown(append(&["{}", &body(limit + 1), "{}"])),
        "(error) TOOLARGE message 2 of 3 is 1048577 bytes, session.max-message-bytes is 1048576"
    );
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
    assert_eq!(shown(append(&[&body(limit)])), "(integer) 1");
    assert_eq!(server.bodies("k"), [body(limit)]);
    // The size limit applies to the composed body.
    let reply = server.call(&["SESSION.APPEND", "k", "MSG", "user", &"x".repeat(limit)]);
    assert!(shown(reply).starts_with("(error) TOOLARGE message 1 of 1 is "));
    // A different limit, ten megabytes.
    server.run("CONFIG SET session.max-message-bytes 16777216");
    let large = body(10_485_760);
    assert_eq!(
        shown(server.call(&["SESSION.APPEND", "large", "JSON", &large])),
        "(integer) 1"
    );
    assert!(
        server.bodies("large") == [large],
        "ten megabytes come back as they were"
    );
}

#[test]
fn info_replies_the_scalars() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    let info = server.run("SESSION.INFO k");
    for field in [
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
        "message_count",
        "query_count",
        "ttl_extended_count",
        "chunks",
        "bytes_raw",
        "bytes_stored",
    ] {
        entry(&info, field);
    }
    let document = server.document("k");
    assert_eq!(
        text(&entry(&info, "session_id")),
        document["session_id"].as_str().expect("an id")
    );
    assert_eq!(text(&entry(&info, "state")), "working");
    assert_eq!(int(&entry(&info, "version")), 2);
    assert_eq!(int(&entry(&info, "message_count")), 1);
    assert_eq!(int(&entry(&info, "last_seq")), 1);
    let raw = server.bodies("k")[0].len() as i64;
    assert!(int(&entry(&info, "bytes_raw")) >= raw);
    assert!(int(&entry(&info, "bytes_stored")) > 0 && int(&entry(&info, "chunks")) >= 0);
    assert_eq!(server.say("SESSION.INFO absent"), "(nil)");
    assert!(matches!(
        server.client().resp3().run("SESSION.INFO k"),
        redis_session_tests::Value::Map(_)
    ));
}
