//! Commands that remove or replace: `POP`, `REMOVE`, `REDACT`, `COMPACT`, `CLEAR`; and `META`.

use redis_session_tests::{text, Server};
use serde_json::{json, Value as Json};

#[test]
fn pop_takes_the_newest() {
    Server::start().conversation(
        r#"
        > SESSION.POP k
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}'
        > SESSION.POP k
        1) '{"n":4}'
        > SESSION.POP k COUNT 2
        1) '{"n":3}'
        2) '{"n":2}'
        > SESSION.POP k COUNT 99
        1) '{"n":1}'
        > SESSION.POP k
        (empty array)
        > SESSION.POP k COUNT
        (error) ERR syntax error near 'COUNT'
        > SESSION.POP k COUNT -1
        (error) ERR COUNT must be an integer from …
        > SESSION.POP k BOGUS
        (error) ERR syntax error near 'BOGUS'
        # numbers are never used again
        > SESSION.APPEND k JSON '{"n":5}'
        (integer) 5
        "#,
    );
}

#[test]
fn a_popped_call_takes_its_answers_along() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k JSON '{"role":"user"}' '{"tool_calls":[{"id":"a"}]}' '{"tool_call_id":"a"}' '{"role":"assistant"}'
        > SESSION.POP k COUNT 3
        1) '{"role":"assistant"}'
        2) '{"tool_call_id":"a"}'
        3) '{"tool_calls":[{"id":"a"}]}'
        > SESSION.RANGE k 0 -1
        1) '{"role":"user"}'
        "#,
    );
}

#[test]
fn remove_takes_what_is_named_and_its_answers() {
    Server::start().conversation(
        r#"
        > SESSION.REMOVE k 1
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k JSON '{"n":1}' '{"tool_calls":[{"id":"a"}]}' '{"n":3}' '{"tool_call_id":"a"}' '{"n":5}'
        > SESSION.REMOVE k 99
        (integer) 0
        > SESSION.REMOVE k 1 1 99
        (integer) 1
        > SESSION.REMOVE k 2
        (integer) 2
        > SESSION.RANGE k 0 -1
        1) '{"n":3}'
        2) '{"n":5}'
        > SESSION.REMOVE k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.REMOVE k x
        (error) ERR …
        > SESSION.REMOVE k 3 -1
        (error) ERR …
        > SESSION.LEN k
        (integer) 2
        # the options stand behind the numbers
        > SESSION.REMOVE k 3 IFVERSION 99
        (error) VERSIONCONFLICT session is at version 4, not 99
        > SESSION.REMOVE k 3 5 IFVERSION 4
        (integer) 2
        > SESSION.APPEND k JSON '{"n":6}'
        (integer) 6
        "#,
    );
}

#[test]
fn remove_an_answer_leaves_the_call() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k JSON '{"tool_calls":[{"id":"a"}]}' '{"tool_call_id":"a"}'
        > SESSION.REMOVE k 2
        (integer) 1
        > SESSION.RANGE k 0 -1
        1) '{"tool_calls":[{"id":"a"}]}'
        "#,
    );
}

fn body_of(server: &Server, seq: i64) -> Json {
    let reply = server.run(&format!("SESSION.RANGE k {seq} {seq} BYSEQ"));
    serde_json::from_str(&text(&redis_session_tests::items(&reply)[0])).expect("JSON")
}

#[test]
fn redact_leaves_no_content_behind() {
    let server = Server::with("rdbcompression", "no").start();
    server.conversation(
        r#"
        > SESSION.REDACT k 1
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k AT 1000 JSON '{"role":"user","content":"my card is 4111","name":"secret","token_count":77}'
        > SESSION.APPEND k AT 1000 JSON '{"role":"assistant","content":"x","tool_calls":[{"id":"a","name":"secret","arguments":"secret"}]}'
        > SESSION.APPEND k AT 1000 JSON '{"role":"tool","tool_call_id":"a","content":"secret"}'
        > SESSION.APPEND k AT 1000 JSON '{"type":"function_call","call_id":"b","arguments":"secret"}'
        > SESSION.APPEND k AT 1000 JSON '{"type":"function_call_output","call_id":"b","output":"secret"}'
        > SESSION.REDACT k 99
        (integer) 0
        > SESSION.REDACT k 1 REASON gdpr
        (integer) 1
        > SESSION.REDACT k 2 3 4 5 99 REASON "a \"b\""
        (integer) 4
        > SESSION.REDACT k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.REDACT k 1 REASON
        (error) ERR syntax error near 'REASON'
        > SESSION.REDACT k 1 BOGUS
        (error) ERR …
        > SESSION.LEN k
        (integer) 5
        "#,
    );
    assert_eq!(
        body_of(&server, 1),
        json!({"role": "user", "content": "[redacted]", "redacted": true, "reason": "gdpr"})
    );
    assert!(
        server.bodies("k")[0].starts_with(r#"{"role":"user","content":"[redacted]","redacted":true,"reason":"gdpr""#)
    );
    for (seq, fields) in [
        (2, json!({"role": "assistant", "tool_calls": [{"id": "a"}]})),
        (3, json!({"role": "tool", "tool_call_id": "a"})),
        (4, json!({"role": "assistant", "type": "function_call", "call_id": "b"})),
        (
            5,
            json!({"role": "tool", "type": "function_call_output", "call_id": "b"}),
        ),
    ] {
        let mut expected = json!({"content": "[redacted]", "redacted": true, "reason": "a \"b\""});
        expected
            .as_object_mut()
            .expect("an object")
            .extend(fields.as_object().expect("an object").clone());
        assert_eq!(body_of(&server, seq), expected, "message {seq}");
    }
    let everything = String::from_utf8_lossy(&redis_session_tests::bytes(&server.run("DUMP k"))).into_owned();
    assert!(
        !everything.contains("secret") && !everything.contains("4111"),
        "{everything}"
    );
    // Tokens are recomputed; time and seq do not change.
    for row in redis_session_tests::items(&server.run("SESSION.RANGE k 0 -1 WITHMETA")) {
        let row = redis_session_tests::items(&row);
        let body = text(&row[4]);
        assert_eq!(redis_session_tests::int(&row[1]), 1000);
        assert_eq!(
            redis_session_tests::int(&row[3]),
            body.len().div_ceil(4) as i64,
            "{body}"
        );
    }
    // The exchanges have not changed.
    assert_eq!(server.say("SESSION.REMOVE k 2"), "(integer) 2");
    assert_eq!(server.say("SESSION.REMOVE k 4"), "(integer) 2");
}

#[test]
fn redact_without_a_reason() {
    let server = Server::start();
    server.run(r#"SESSION.APPEND k JSON '{"role":"user","content":"secret"}'"#);
    assert_eq!(server.say("SESSION.REDACT k 1 1"), "(integer) 1");
    let body = body_of(&server, 1);
    assert_eq!(
        (&body["content"], &body["redacted"], &body["role"]),
        (&json!("[redacted]"), &json!(true), &json!("user"))
    );
}

#[test]
fn redaction_reaches_into_compressed_history() {
    let server = Server::with("session.default-maxlen", 0)
        .config("session.compress-after", 1)
        .config("rdbcompression", "no")
        .start();
    for n in 1..=200 {
        let content = if n == 20 {
            "findme-needle".into()
        } else {
            "hay ".repeat(30)
        };
        server.run(&format!(
            r#"SESSION.APPEND k JSON '{{"role":"user","n":{n},"content":"{content}"}}'"#
        ));
    }
    server.run("COPY k copy");
    assert_eq!(server.say("SESSION.REDACT k 20"), "(integer) 1");
    assert_eq!(body_of(&server, 20)["content"], "[redacted]");
    assert_eq!(body_of(&server, 21)["n"], 21);
    let find = |key: &str| {
        let dump = redis_session_tests::bytes(&server.call(&["DUMP", key]));
        dump.windows(b"findme".len()).any(|window| window == b"findme")
    };
    assert!(!find("k"));
    assert!(
        server.bodies("copy")[19].contains("findme-needle"),
        "a copy is another session"
    );
}

#[test]
fn compact_replaces_everything_up_to_a_seq() {
    Server::start().conversation(
        r#"
        > SESSION.COMPACT k UPTO 1 MSG system x
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}' '{"n":5}'
        > SESSION.COMPACT k UPTO 0 JSON '{"summary":0}'
        (integer) 0
        > SESSION.COMPACT k UPTO 3 JSON '{"summary":1}'
        (integer) 3
        > SESSION.RANGE k 0 -1 WITHMETA
        1) 1) (integer) 3
           2) …
           3) "other"
           4) (integer) 4
           5) '{"summary":1}'
        2) 1) (integer) 4
        …
        > SESSION.RANGE k 0 -1
        1) '{"summary":1}'
        2) '{"n":4}'
        3) '{"n":5}'
        # composed, and dated
        > SESSION.COMPACT k UPTO 99 AT 1000 MSG system "so far"
        (integer) 3
        > SESSION.RANGE k 0 -1 WITHMETA
        1) 1) (integer) 5
           2) (integer) 1000
           3) "system"
           4) (integer) 19
           5) '{"role":"system","content":"so far","timestamp":"1970-01-01T00:00:01.000Z"}'
        > SESSION.APPEND k JSON '{"n":6}'
        (integer) 6
        "#,
    );
}

#[test]
fn the_grammar_of_compact_is_kept() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.conversation(
        r#"
        > SESSION.COMPACT k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.COMPACT k UPTO x MSG system s
        (error) ERR UPTO must be an integer from 0 to …
        > SESSION.COMPACT k BOGUS 1 MSG system s
        (error) ERR syntax error near 'BOGUS'
        > SESSION.COMPACT k UPTO 1 JSON {} {}
        (error) ERR syntax error near …
        > SESSION.COMPACT k UPTO 1 JSON []
        (error) BADMESSAGE message 1 of 1: not a JSON object (…)
        > SESSION.COMPACT k UPTO 1 BOGUS MSG system s
        (error) ERR syntax error near 'BOGUS'
        > SESSION.COMPACT k UPTO 1 IFVERSION 9 MSG system s
        (error) VERSIONCONFLICT session is at version 2, not 9
        > SESSION.LEN k
        (integer) 1
        "#,
    );
}

#[test]
fn compaction_never_splits_an_exchange_nor_takes_a_pin() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k PIN system
        > SESSION.APPEND k JSON '{"role":"system"}' '{"n":2}' '{"tool_calls":[{"id":"a"}]}' '{"n":4}' '{"tool_call_id":"a"}' '{"n":6}'
        # 4 would split the exchange of 3 and 5: the boundary moves back before it
        > SESSION.COMPACT k UPTO 4 JSON '{"summary":1}'
        (integer) 1
        > SESSION.RANGE k 0 -1
        1) '{"role":"system"}'
        2) '{"summary":1}'
        3) '{"tool_calls":[{"id":"a"}]}'
        4) '{"n":4}'
        5) '{"tool_call_id":"a"}'
        6) '{"n":6}'
        > SESSION.COMPACT k UPTO 5 JSON '{"summary":2}'
        (integer) 4
        > SESSION.RANGE k 0 -1
        1) '{"role":"system"}'
        2) '{"summary":2}'
        3) '{"n":6}'
        > SESSION.COMPACT k UPTO 1 JSON '{"summary":3}'
        (integer) 0
        > SESSION.LEN k
        (integer) 3
        "#,
    );
    assert_eq!(server.seqs("k"), [1, 5, 6]);
}

#[test]
fn clear_keeps_everything_but_the_messages() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CLEAR k
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k MSG user hi REF e1
        > SESSION.APPEND k MSG assistant hi
        > SESSION.META k '{"a":1}'
        "#,
    );
    let before = server.document("k");
    server.conversation(
        r#"
        > SESSION.CLEAR k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.CLEAR k
        (integer) 2
        > SESSION.CLEAR k
        (integer) 0
        > SESSION.LEN k
        (integer) 0
        > SESSION.RANGE k 0 -1
        (empty array)
        > SESSION.APPEND k JSON '{}'
        (integer) 3
        "#,
    );
    let after = server.document("k");
    for same in ["session_id", "created_at", "meta", "entities_mentioned", "limits"] {
        assert_eq!(before[same], after[same], "{same}");
    }
}

#[test]
fn meta_is_merged_by_rfc_7396() {
    let server = Server::start();
    // From the RFC's appendix, those where both sides are objects.
    for (target, patch, merged) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, json!({"a": "c"})),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, json!({"a": "b", "b": "c"})),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, json!({})),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, json!({"b": "c"})),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, json!({"a": "c"})),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, json!({"a": ["b"]})),
        (
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            json!({"a": {"b": "d"}}),
        ),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, json!({"a": [1]})),
        (
            r#"{"a":"foo"}"#,
            r#"{"b":[1,null]}"#,
            json!({"a": "foo", "b": [1, null]}),
        ),
        (
            r#"{"x":1}"#,
            r#"{"a":{"bb":{"ccc":null}}}"#,
            json!({"x": 1, "a": {"bb": {}}}),
        ),
    ] {
        server.run("DEL k");
        server.run(&format!("SESSION.CREATE k META '{target}'"));
        let reply: Json = serde_json::from_str(&text(&server.run(&format!("SESSION.META k '{patch}'")))).expect("JSON");
        assert_eq!(reply, merged, "{target} and {patch}");
        assert_eq!(server.document("k")["meta"], merged, "{target} and {patch}");
    }
}

#[test]
fn meta_creates_and_refuses_what_is_no_object() {
    Server::start().conversation(
        r#"
        > SESSION.META k
        (error) ERR wrong number of arguments for '…' command
        > SESSION.META k 5
        (error) ERR …is not a JSON object (…)
        > SESSION.META k []
        (error) ERR …is not a JSON object (…)
        > SESSION.META k null
        (error) ERR …is not a JSON object (…)
        > SESSION.META k '{"a":'
        (error) ERR …is not a JSON object (…)
        > SESSION.META k {} BOGUS
        (error) ERR syntax error near 'BOGUS'
        > EXISTS k
        (integer) 0
        > SESSION.META k '{"a":1}'
        '{"a":1}'
        > TYPE k
        rdsession
        > SESSION.META k '{"b":{"c":"d"}}' IFVERSION 2
        '{"a":1,"b":{"c":"d"}}'
        "#,
    );
}
