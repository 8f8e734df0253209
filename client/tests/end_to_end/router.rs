//! The blocking router sends each command to the node of its key, many at once, and follows keys whose slot moves.

use redis::{Cmd, Value};
use redis_session_client::route::{Answer, RouteError};
use redis_session_client::{ReadOptions, request, route};
use redis_session_tests::{Cluster, int};

type Router = route::Router<redis::Connection, RouteError>;

fn router(cluster: &Cluster) -> Router {
    let first = cluster.node(0).port();
    let dial = move |node: Option<&route::Node>| {
        let port = node.map_or(first, |node| node.port);
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        Ok(client.get_connection()?)
    };
    Router::cluster(dial, "127.0.0.1").expect("a cluster")
}

fn append(key: &str, messages: usize) -> Vec<Cmd> {
    let append = request::append(key, vec![r#"{"content":"x"}"#; messages]);
    vec![append.command().cmd().clone()]
}

fn error_code(answer: &Answer) -> Option<&str> {
    answer.as_ref().err().map(|error| error.code())
}

#[test]
fn answers_stand_where_their_commands_stood() {
    let cluster = Cluster::start(3);
    let mut router = router(&cluster);
    let all: Vec<(String, Vec<Cmd>)> = (0..90)
        .map(|n| (format!("k{n}"), append(&format!("k{n}"), n % 7 + 1)))
        .collect();
    let answers = router.send_all(&all).expect("answers");
    let expected: Vec<Vec<Answer>> = (0..90).map(|n| vec![Ok(Value::Int(n % 7 + 1))]).collect();
    assert_eq!(answers, expected);

    // An error reply is that of its command alone.
    let mut some = all[..3].to_vec();
    cluster.node(cluster.owner("k1")).run("SET {k1}s x");
    some[1] = ("{k1}s".to_owned(), append("{k1}s", 1));
    let answers = router.send_all(&some).expect("answers").concat();
    let codes: Vec<Option<&str>> = answers.iter().map(error_code).collect();
    assert_eq!(codes, [None, Some("WRONGTYPE"), None]);
    assert!(router.send_all(&all[..0]).expect("nothing").is_empty());
}

#[test]
fn a_key_is_followed_while_its_slot_moves() {
    let cluster = Cluster::start(2);
    let mut router = router(&cluster);
    let key = cluster.key_on(1, "k");
    let other = format!("{{{key}}}:other");
    let one = append(&key, 1);
    let say = |router: &mut Router| router.call(key.as_bytes(), &one[0]).expect("a reply");
    assert_eq!(say(&mut router), Ok(Value::Int(1)));
    cluster.node(1).run(&format!("SET {other} x"));

    // ASK: the key is on the other node already, its slot is not. One command, and a transaction.
    let slot = cluster.slot(&key);
    cluster.begin_migration(slot, 1, 0);
    let port = cluster.node(0).port();
    cluster.node(1).run(&format!("MIGRATE 127.0.0.1 {port} {key} 0 60000"));
    assert_eq!(say(&mut router), Ok(Value::Int(2)));
    let (read, len) = (request::read(&key, ReadOptions::after(1)), request::len(&key));
    let commands = [read.command().cmd().clone(), len.command().cmd().clone()];
    let answer = router.transaction(key.as_bytes(), &commands).expect("a reply");
    let Ok(Value::Array(replies)) = answer else {
        panic!("it was not executed: {answer:?}")
    };
    assert_eq!(read.read(replies[0].clone()).expect("entries")[0].seq, 2);
    assert_eq!(replies[1], Value::Int(2));

    // TRYAGAIN: one key of a command is here, one there. It is sent again for a while, and then the answer says so; some servers ask for
    // the other node first.
    let mut both = redis::cmd("EXISTS");
    both.arg(&key).arg(&other);
    let answer = router.call(key.as_bytes(), &both).expect("a reply");
    assert!(matches!(error_code(&answer), Some("TRYAGAIN" | "ASK")), "{answer:?}");
    cluster.move_keys(slot, 1, 0);
    assert_eq!(router.call(key.as_bytes(), &both).expect("a reply"), Ok(Value::Int(2)));

    // MOVED: the slot has another owner now, which the router learns.
    cluster.end_migration(slot, 1, 0);
    assert_eq!(say(&mut router), Ok(Value::Int(3)));
    assert_eq!(router.node_of(key.as_bytes()).map(|node| node.port), Some(port));
    assert!(!router.refresh().expect("slots"), "it knows already");
    assert_eq!(int(&cluster.node(0).run(&format!("SESSION.LEN {key}"))), 3);
}

#[test]
fn what_was_not_queued_says_why_nothing_was_executed() {
    let cluster = Cluster::start(2);
    let mut router = router(&cluster);
    let mut commands = append("k", 1);
    commands.push(redis::cmd("SESSION.NOSUCH").arg("k").to_owned());
    let len = vec![request::len("k").command().cmd().clone()];
    let answers = router.transactions(&[("k", commands), ("k", len)]).expect("answers");
    let refused = answers[0].as_ref().expect_err("it is no command");
    assert!(
        refused.details().is_some_and(|text| text.contains("unknown")),
        "{refused:?}"
    );
    assert_eq!(answers[1], Ok(Value::Array(vec![Value::Int(0)])));
}
