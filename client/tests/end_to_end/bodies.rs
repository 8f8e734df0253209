//! Bodies come back byte for byte, whichever way they are read, and unknown fields survive what a program does with messages.

use redis_session_client::{
    Append, Body, ContextOptions, EntryKind, Limit, Message, MessageQuery, MessageRole, ReadOptions, SessionCommands,
    SessionDocument, WriteOptions,
};
use redis_session_tests::Server;
use serde_json::{Value, json};

/// What other programs write, spaces, escapes and numbers included, and what only a careful reader keeps.
const BODIES: [&str; 10] = [
    r#"{"role":"user","content":"plain"}"#,
    r#" { "role" : "user" , "content" : "spaces" } "#,
    r#"{"role":"user","content":"\u00e9 \n \/ \" \\ \ud83d\ude00 é 😀"}"#,
    r#"{"role":"user","content":"a lone surrogate: \ud83d, and \udc00 alone"}"#,
    r#"{"role":"user","content":"x","n":123456789012345678901234567890,"f":1.10,"e":1E400,"z":-0,"d":0.1e-7}"#,
    r#"{"role":"system","role":"user","content":"first","content":"the last counts"}"#,
    r#"{"content":[{"type":"text","text":"parts"},{"type":"image_url","image_url":{"url":"data:,x"}}],"type":"human"}"#,
    r#"{"role":"user","content":null,"":"an empty name","a.b":{"$ref":[]},"nested":{"role":"tool"}}"#,
    "{\n\t\"role\": \"user\",\n\t\"content\": \"indented\"\n}",
    r#"{"role":"user","content":"\u0000 and \u001f"}"#,
];

#[test]
fn every_way_of_reading_replies_the_bytes_that_were_written() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let url = format!("{}?protocol={protocol}", server.url());
        let mut connection = redis::Client::open(url)
            .expect("a URL")
            .get_connection()
            .expect("a connection");
        let as_written = |bodies: &[Body]| assert_eq!(bodies, BODIES.map(Body::from));
        connection
            .session_append(protocol, Append::new(BODIES))
            .expect("an append");

        as_written(
            &connection
                .session_range(protocol, MessageQuery::all())
                .expect("messages"),
        );
        let with_meta = connection
            .session_range_with_meta(protocol, MessageQuery::all())
            .expect("messages");
        assert!(with_meta.iter().all(|message| message.role == MessageRole::User));
        as_written(&with_meta.into_iter().map(|message| message.body).collect::<Vec<_>>());
        let document = connection
            .session_get(protocol, None)
            .expect("a reply")
            .expect("the session");
        // A document has them without what is around them.
        let trimmed: Vec<Body> = BODIES.iter().map(|body| Body::from(body.trim())).collect();
        assert_eq!(document.messages, trimmed);
        let context = connection
            .session_context(protocol, ContextOptions::new())
            .expect("a reply");
        as_written(&context.expect("the session").messages);
        let entries = connection
            .session_read(protocol, ReadOptions::after(0))
            .expect("entries");
        let read = entries.into_iter().map(|entry| match entry.kind {
            EntryKind::Message(body) => body,
            other => panic!("{other:?}"),
        });
        as_written(&read.collect::<Vec<_>>());
        let mut popped = connection
            .session_pop(protocol, 10, WriteOptions::new())
            .expect("messages");
        popped.reverse();
        as_written(&popped);
        let evicted = Append::new(BODIES).max_len(1).evicted();
        connection
            .session_append(protocol, Append::new(BODIES))
            .expect("an append");
        let evicted = connection.session_append(protocol, evicted).expect("an append").evicted;
        assert_eq!(evicted[..10], BODIES.map(Body::from));
    }
}

/// A message that a program read, and writes again, says what it said.
#[test]
fn a_message_that_is_read_and_written_again_keeps_every_field() {
    let server = Server::start();
    let mut connection = redis::Client::open(server.url())
        .expect("a URL")
        .get_connection()
        .expect("a connection");
    let written = json!({
        "role": "assistant", "content": null, "refusal": null, "annotations": [],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}", "strict": true}}],
        "usage": {"input": 3, "output": 9}, "x": {"deep": [1, {"deeper": "é"}]},
    });
    connection
        .session_append(
            "k",
            serde_json::from_value::<Message>(written.clone()).expect("a message"),
        )
        .expect("an append");
    let body = connection
        .session_range("k", MessageQuery::all())
        .expect("messages")
        .remove(0);
    assert_eq!(body.parse::<Value>().expect("JSON"), {
        // A content that is not there reads as one that is null.
        let mut expected = written.clone();
        expected.as_object_mut().expect("an object").remove("content");
        expected
    });
    let message = body.message().expect("a message");
    connection.session_append("k", &message).expect("an append");
    let again = connection
        .session_range("k", MessageQuery::newest(1))
        .expect("messages")
        .remove(0);
    assert_eq!(again.message().expect("a message"), message);
}

/// The types of replies keep what they do not know, through serde too.
#[test]
fn unknown_fields_of_replies_survive() {
    fn survives<T: serde::de::DeserializeOwned + serde::Serialize>(written: Value) {
        let read: T = serde_json::from_value(written.clone()).expect("it is read");
        let again = serde_json::to_value(read).expect("it is written");
        for (field, value) in written.as_object().expect("an object") {
            assert_eq!(&again[field], value, "{field}");
        }
    }
    let (id, time) = ("0190c5a4-7b1e-7ccc-8000-0123456789ab", "2026-01-14T10:00:00.000Z");
    survives::<redis_session_client::Entity>(json!({"entity_id": "u7", "entity_name": "Ada", "entity_type": "person",
        "aliases": ["a"], "mention_count": 3, "last_mentioned": time, "new": {"x": 1}}));
    survives::<redis_session_client::Event>(json!({"seq": 3, "timestamp": time, "type": "lost", "agentId": "clerk",
        "changeInfo": {"entityIds": ["a"], "new": 1}, "impact": {"y": [2]}, "stateTransition": {"from": "a", "to": "b"}, "new": [1]}));
    survives::<redis_session_client::Agent>(
        json!({"agentId": "clerk", "joined_at": time, "last_seen": time, "meta": {"z": 1}, "new": 1}),
    );
    survives::<redis_session_client::Checkpoint>(json!({"sessionId": id, "checkpointId": 4, "timestamp": time,
        "refEntities": ["a"], "summary": {"impacts": {}}, "outcome": "pass", "state": "a", "label": null, "new": 1}));
    survives::<redis_session_client::Anchor>(
        json!({"sessionId": "s", "outcome": "pass", "checkpointId": 4, "keyImpacts": ["a"],
        "perfDelta": -1.5, "timestamp": time, "new": 1}),
    );
    survives::<redis_session_client::DirectoryEntry>(
        json!({"id": id, "key": "k", "alias": "a", "autoname": false, "created_at": time,
        "last_activity": time, "state": "a", "message_count": 1, "new": 1}),
    );

    let document: SessionDocument = serde_json::from_value(json!({"session_id": id, "state": "a", "created_at": time,
        "last_activity": time, "version": 1, "last_seq": 0, "message_count": 0, "limits": {"maxlen": 1, "new": 2}, "new": {"x": 1},
        "meta": {"mine": 1}})).expect("a document");
    assert_eq!(
        (
            document.other["new"]["x"].as_u64(),
            document.limits.get(&Limit::Other("new".into()))
        ),
        (Some(1), Some(2))
    );
    assert_eq!(document.meta["mine"], 1);
}
