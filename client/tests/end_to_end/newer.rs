//! Replies of a newer module, or of something else: what is new is kept or passed over; what cannot be understood is an error that names
//! the command. Never a panic.

use redis::Value;
use redis_session_client::request::{self, Request};
use redis_session_client::*;
use serde_json::json;

use crate::fake::{Answer, Fake};

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// Values of every shape, in each other.
fn strange_values() -> Vec<Value> {
    let id = "0190c5a4-7b1e-7ccc-8000-0123456789ab";
    let simple = vec![
        Value::Nil,
        Value::Okay,
        Value::Int(0),
        Value::Int(-1),
        Value::Int(i64::MIN),
        Value::Double(f64::NAN),
        Value::Boolean(true),
        Value::SimpleString("word".into()),
        Value::BulkString(vec![0xff, 0xfe]),
        bulk(""),
        bulk("7"),
        bulk(id),
        bulk("{}"),
        bulk("[]"),
        bulk("{"),
        bulk(r#"{"seq":-1,"timestamp":5,"session_id":7,"messages":{}}"#),
        bulk(&"[".repeat(5000)),
        bulk(&"é".repeat(500)),
        Value::Array(vec![]),
        Value::Map(vec![]),
        Value::Set(vec![]),
    ];
    let mut values = simple.clone();
    for value in &simple {
        for count in 1..=6 {
            values.push(Value::Array(vec![value.clone(); count]));
        }
        values.push(Value::Array(vec![Value::Array(vec![value.clone(); 4])]));
        values.push(Value::Array(vec![Value::Array(vec![
            Value::Int(1),
            Value::Int(1),
            bulk("event"),
            value.clone(),
        ])]));
        values.push(Value::Array(vec![Value::Array(vec![
            Value::Int(1),
            Value::Int(1),
            bulk("gap"),
            value.clone(),
        ])]));
        for name in [
            "id", "key", "created", "messages", "tokens", "entities", "format", "alias",
        ] {
            values.push(Value::Map(vec![(bulk(name), value.clone())]));
            values.push(Value::Array(vec![bulk(name), value.clone()]));
            values.push(Value::Map(vec![
                (bulk("id"), bulk(id)),
                (bulk("key"), bulk("k")),
                (bulk(name), value.clone()),
            ]));
        }
        values.push(Value::Map(vec![(value.clone(), value.clone())]));
    }
    values
}

fn is_read_without_panic<T: Clone>(request: &Request<T>) {
    for value in strange_values() {
        let tolerant = request.clone().tolerant();
        match (request.read(value.clone()), tolerant.read(value.clone())) {
            (Ok(_), Err(error)) => panic!("{value:.200?}: tolerance refuses what strictness reads: {error}"),
            (_, Err(SessionError::UnexpectedReply { command, .. })) => assert_eq!(command, request.command().name()),
            _ => {}
        }
        match request.read(value.clone()) {
            Ok(_) | Err(SessionError::NoSession(_)) => {}
            Err(SessionError::UnexpectedReply { command, .. }) => assert_eq!(command, request.command().name()),
            Err(other) => panic!("{} read {value:.200?} as {other:?}", request.command().name()),
        }
    }
}

#[test]
fn no_reply_makes_a_request_panic_and_every_error_names_the_command() {
    let write = WriteOptions::new;
    is_read_without_panic(&request::create("k", Create::new()));
    is_read_without_panic(&request::append("k", NewMessage::user("x")));
    is_read_without_panic(&request::range("k", MessageQuery::all()));
    is_read_without_panic(&request::range_with_meta("k", MessageQuery::all()));
    is_read_without_panic(&request::context("k", ContextOptions::new()));
    is_read_without_panic(&request::get("k", None));
    is_read_without_panic(&request::getex("k", GetEx::new()));
    is_read_without_panic(&request::info("k"));
    is_read_without_panic(&request::len("k"));
    is_read_without_panic(&request::meta("k", &json!({}), write()));
    is_read_without_panic(&request::window("k", Window::new()));
    is_read_without_panic(&request::pop("k", 1, write()));
    is_read_without_panic(&request::entity_get("k", "e"));
    is_read_without_panic(&request::entity_list("k", EntityQuery::all()));
    is_read_without_panic(&request::event_add("k", NewEvent::new("e")));
    is_read_without_panic(&request::event_range("k", EventQuery::all()));
    is_read_without_panic(&request::agent_join("k", Join::new("a")));
    is_read_without_panic(&request::agent_list("k"));
    is_read_without_panic(&request::agent_handoff("k", Handoff::new("a", "b")));
    is_read_without_panic(&request::agent_release("k", 1));
    is_read_without_panic(&request::read("k", ReadOptions::after(0)));
    is_read_without_panic(&request::checkpoint_get("k", 1));
    is_read_without_panic(&request::checkpoint_list("k"));
    is_read_without_panic(&request::fork("k", "d", Fork::new()));
    is_read_without_panic(&request::anchor_get("k", None));
    is_read_without_panic(&request::index_resolve("k", "a"));
    is_read_without_panic(&request::index_list("k", IndexQuery::all()));
    is_read_without_panic(&request::migrate("k", Migrate::new()));
}

const ID: &str = "0190c5a4-7b1e-7ccc-8000-0123456789ab";
const TIME: &str = "2026-01-14T10:00:00.000Z";

fn resp(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

/// What a newer module may well say.
fn newer(command: &[String]) -> Answer {
    let answer = match command[0].as_str() {
        "SESSION.CREATE" => format!(
            "*8\r\n{}{}{}{}{}:1\r\n{}*1\r\n:5\r\n",
            resp("id"),
            resp(ID),
            resp("key"),
            resp("k"),
            resp("created"),
            resp("new")
        ),
        "SESSION.APPEND" => format!("*3\r\n:7\r\n*0\r\n{}", resp("new")),
        "SESSION.ENTITY" => resp(&format!(
            r#"{{"entity_id":"u7","entity_name":"Ada","entity_type":"planet","aliases":[],"mention_count":1,"last_mentioned":"{TIME}","new":[1]}}"#
        )),
        "SESSION.READ" => format!(
            "*3\r\n*5\r\n:1\r\n:5\r\n{}{}{}*4\r\n:2\r\n:6\r\n{}{}*4\r\n:3\r\n:7\r\n{}{}",
            resp("message"),
            resp(r#"{"role":"x"}"#),
            resp("new"),
            resp("reaction"),
            resp(r#"{"emoji":"+1"}"#),
            resp("event"),
            resp(&format!(r#"{{"seq":3,"timestamp":"{TIME}","type":"e","new":{{}}}}"#)),
        ),
        "SESSION.INFO" => format!("*4\r\n{}:1\r\n{}*1\r\n:2\r\n", resp("version"), resp("new")),
        "SESSION.LEN" => resp("many"),
        "SESSION.CLEAR" => "-NEWWORD something new\r\n".to_owned(),
        "SESSION.POP" => "*1\r\n*0\r\n".to_owned(),
        _ => resp("?"),
    };
    Answer::Say(answer.into_bytes())
}

#[test]
fn what_a_newer_module_tells_beside_is_kept_or_passed_over() {
    let fake = Fake::start(newer);
    let mut c = redis::Client::open(fake.url())
        .expect("a URL")
        .get_connection()
        .expect("a connection");
    assert!(c.session_create("k", Create::new()).expect("created").created);
    assert_eq!(c.session_append("k", NewMessage::user("x")).expect("appended").seq, 7);
    let ada = c.session_entity_get("k", "u7").expect("a reply").expect("Ada");
    assert_eq!((ada.entity_type.as_str(), &ada.other["new"]), ("planet", &json!([1])));
    assert_eq!(
        c.session_info("k").expect("a reply").expect("fields").0["new"],
        json!([2])
    );

    let entries = c.session_read("k", ReadOptions::after(0)).expect("entries");
    assert!(matches!(entries[0].kind, EntryKind::Message(_)));
    assert!(
        matches!(&entries[1].kind, EntryKind::Other { kind, json } if kind == "reaction" && json.as_str().contains("+1"))
    );
    assert!(matches!(&entries[2].kind, EntryKind::Event(event) if event.other.contains_key("new")));

    let unexpected = |error: SessionError, name: &str| match error {
        SessionError::UnexpectedReply { command, reason } => assert!(command == name && !reason.is_empty()),
        other => panic!("{name}: {other:?}"),
    };
    unexpected(c.session_len("k").expect_err("no number"), "SESSION.LEN");
    unexpected(
        c.session_pop("k", 1, WriteOptions::new()).expect_err("no body"),
        "SESSION.POP",
    );
    unexpected(
        c.session_checkpoint_get("k", 1).expect_err("no object"),
        "SESSION.CHECKPOINT GET",
    );
    let error = c.session_clear("k", WriteOptions::new()).expect_err("a new word");
    assert!(matches!(&error, SessionError::Redis(error) if error.code() == Some("NEWWORD")));
    assert!(error.to_string().contains("something new"), "{error}");
}

/// What programs may refuse, those that show sessions must not: they read the rest.
#[test]
fn a_tolerant_reading_keeps_what_it_can_read() {
    let tuple = |items: &[Value]| Value::Array(items.to_vec());
    let entry = |seq, kind: &str, json: &[u8]| {
        tuple(&[
            Value::Int(seq),
            Value::Int(5),
            bulk(kind),
            Value::BulkString(json.into()),
        ])
    };
    let reply = tuple(&[
        entry(1, "message", b"{\"content\":\"\xff\"}"),
        entry(2, "event", br#"{"seq":2,"type":"x","agentId":7,"new":{"a":"\ud83d"}}"#),
        entry(3, "event", b"[]"),
        entry(4, "checkpoint", br#"{"checkpointId":4,"label":null}"#),
        entry(9, "gap", b"no JSON"),
        entry(0, "reset", b"{}"),
        entry(10, "vote", b"\xff"),
        tuple(&[Value::Int(11)]),
        Value::Nil,
    ]);
    let read = request::read("k", ReadOptions::after(0));
    assert!(matches!(
        read.read(reply.clone()),
        Err(SessionError::UnexpectedReply { .. })
    ));
    let entries = read.tolerant().read(reply.clone()).expect("entries");
    assert_eq!(
        entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 9, 0, 10]
    );
    assert!(matches!(&entries[0].kind, EntryKind::Message(body) if body.as_bytes() == b"{\"content\":\"\xff\"}"));
    let EntryKind::Event(event) = &entries[1].kind else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (event.event_type.as_str(), event.timestamp, &event.agent_id),
        ("x", Timestamp::from_ms(0), &None)
    );
    assert_eq!(
        (&event.other["new"], &event.other["agentId"]),
        (&json!({"a": "\u{fffd}"}), &json!(7))
    );
    assert!(matches!(&entries[2].kind, EntryKind::Other { kind, json } if kind == "event" && json.as_bytes() == b"[]"));
    assert!(
        matches!(&entries[3].kind, EntryKind::Checkpoint(at) if at.checkpoint_id == 4 && at.session_id == SessionId::unknown())
    );
    assert!(matches!(entries[4].kind, EntryKind::Gap { from: 9, to: 9 }));
    assert!(matches!(entries[5].kind, EntryKind::Reset { session_id } if session_id == SessionId::unknown()));
    let raw = request::read_raw("k", ReadOptions::after(0))
        .tolerant()
        .read(reply)
        .expect("entries");
    assert_eq!(
        (raw.len(), raw[6].kind.as_str(), raw[6].json.as_bytes()),
        (7, "vote", &b"\xff"[..])
    );

    let listed = tuple(&[
        bulk(r#"{"key":"a","id":"no id","created_at":"yesterday","message_count":2,"state":"working","new":1}"#),
        bulk(r#"{"id":"x"}"#),
    ]);
    let list = request::index_list("k", IndexQuery::all());
    assert!(list.read(listed.clone()).is_err());
    let listed = list.tolerant().read(listed).expect("entries");
    assert_eq!(
        (listed.len(), listed[0].key.as_str(), listed[0].message_count),
        (1, "a", 2)
    );
    assert_eq!(
        (&listed[0].other["id"], &listed[0].other["new"]),
        (&json!("no id"), &json!(1))
    );

    let document = bulk(&format!(
        r#"{{"session_id":"{ID}","messages":[{{"role":"user", "content":"\ud83d"}}],"version":"many","agents":[{{}},{{"agentId":"a"}}]}}"#
    ));
    let get = request::get("k", None);
    assert!(get.read(document.clone()).is_err());
    let document = get.tolerant().read(document).expect("a document").expect("the session");
    assert_eq!((document.session_id.to_string().as_str(), document.version), (ID, 0));
    assert_eq!(document.messages[0].as_str(), r#"{"role":"user", "content":"\ud83d"}"#);
    assert_eq!((document.agents.len(), document.agents[0].agent_id.as_str()), (1, "a"));
    assert_eq!(document.other["version"], json!("many"));
}

/// The module takes 128 levels, one more than serde_json does by itself; a document puts more around them.
#[test]
fn what_is_nested_as_deep_as_the_module_takes_it_is_read() {
    let server = redis_session_tests::Server::start();
    let mut c = redis::Client::open(server.url())
        .expect("a URL")
        .get_connection()
        .expect("a connection");
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(127), "]".repeat(127));
    c.session_append("k", [deep.as_str()]).expect("appended");
    let meta = redis::cmd("SESSION.META").arg("k").arg(&deep).to_owned();
    request::raw(meta, "k").query(&mut c).expect("merged");
    let document = c.session_get("k", None).expect("a reply").expect("the session");
    assert!(document.meta["a"].is_array());
    let message = document.messages[0].message().expect("a message");
    assert!(message.other["a"].is_array());
    assert_eq!(
        tolerant::json(deep.replace('[', "[[").replace(']', "]]").as_bytes()),
        None
    );
}

/// What is not Redis at all.
#[test]
fn noise_is_an_error() {
    for noise in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$99999999999999999999\r\n",
        ":x\r\n",
    ] {
        let fake = Fake::start(move |_| Answer::say(noise));
        let mut c = redis::Client::open(fake.url())
            .expect("a URL")
            .get_connection()
            .expect("a connection");
        let error = c.session_len("k").expect_err(noise);
        assert!(error.is_outcome_unknown(), "{noise}: {error:?}");
    }
}
