//! In a cluster each command goes straight to the node of its key: no node ever says `MOVED`.

use redis_session_client::route::{Node, RouteError, Router};
use redis_session_client::{AsyncSessionCommands, NewMessage, SessionCommands, key_slot, request};
use redis_session_tests::{Cluster, Server, text};

use crate::commands;
use crate::places::cluster_builder;

/// What nodes have said since.
fn redirections(cluster: &Cluster) -> Vec<String> {
    let stats = cluster.nodes().iter().map(|node| text(&node.run("INFO errorstats")));
    let said = stats.flat_map(|stats| stats.lines().map(str::to_owned).collect::<Vec<_>>());
    said.filter(|line| {
        ["errorstat_MOVED", "errorstat_ASK", "errorstat_CROSSSLOT"]
            .iter()
            .any(|word| line.starts_with(word))
    })
    .collect()
}

/// A hash tag on each node.
fn tags(cluster: &Cluster, name: &str) -> Vec<String> {
    (0..3).map(|node| cluster.key_on(node, name)).collect()
}

fn forget(cluster: &Cluster) {
    cluster.nodes().iter().for_each(|node| {
        node.run("CONFIG RESETSTAT");
    });
}

#[test]
fn no_command_is_redirected() {
    let cluster = Cluster::start(3);
    let client = cluster_builder(&cluster).build().expect("URLs");
    let mut connection = client.get_connection().expect("a connection");
    let tags = tags(&cluster, "sync");
    tags.iter()
        .for_each(|tag| assert_eq!(connection.session_len(tag).expect("a reply"), 0));
    forget(&cluster);
    tags.iter().for_each(|tag| commands::sync(&mut connection, tag));
    assert_eq!(redirections(&cluster), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_of_an_asynchronous_connection_is_redirected() {
    let cluster = Cluster::start(3);
    let client = cluster_builder(&cluster).build().expect("URLs");
    let mut connection = client.get_async_connection().await.expect("a connection");
    let tags = tags(&cluster, "async");
    for tag in &tags {
        assert_eq!(connection.session_len(tag).await.expect("a reply"), 0);
    }
    forget(&cluster);
    for tag in &tags {
        commands::asynchronous(&mut connection, tag).await;
    }
    assert_eq!(redirections(&cluster), Vec::<String>::new());
}

fn router(cluster: &Cluster) -> Router<redis::Connection, RouteError> {
    let first = cluster.node(0).url();
    let dial = move |node: Option<&Node>| {
        let url = node.map_or_else(|| first.clone(), |node| format!("redis://{node}/"));
        Ok(redis::Client::open(url)?.get_connection()?)
    };
    Router::cluster(dial, "127.0.0.1").expect("a cluster")
}

#[test]
fn a_router_reaches_every_node_at_once_and_follows_keys_that_move() {
    let cluster = Cluster::start(3);
    let mut router = router(&cluster);
    assert_eq!(router.nodes().len(), 3);
    let keys: Vec<String> = (0..3).map(|node| cluster.key_on(node, "router")).collect();
    for key in &keys {
        assert_eq!(i64::from(key_slot(key)), cluster.slot(key));
    }
    forget(&cluster);
    let append = |key: &String| {
        let append = request::append(key, NewMessage::user("hello")).command().cmd().clone();
        (key.clone(), vec![append, request::len(key).command().cmd().clone()])
    };
    let all: Vec<_> = keys.iter().map(append).collect();
    for round in 1..=2 {
        for answers in router.send_all(&all).expect("answers") {
            assert_eq!(answers, [Ok(redis::Value::Int(round)), Ok(redis::Value::Int(round))]);
        }
    }
    assert_eq!(redirections(&cluster), Vec::<String>::new());

    // One slot is on its way, its key there already; then it has arrived.
    let (key, slot) = (&keys[0], cluster.slot(&keys[0]));
    cluster.begin_migration(slot, 0, 1);
    cluster.move_keys(slot, 0, 1);
    let replies = router.transaction(key.as_bytes(), &all[0].1).expect("answers");
    let three = || redis::Value::Int(3);
    assert_eq!(replies, Ok(redis::Value::Array(vec![three(), three()])));
    cluster.end_migration(slot, 0, 1);
    let len = router.call(key.as_bytes(), request::len(key).command().cmd());
    assert_eq!(len.expect("an answer"), Ok(three()));
    let before = router.node_of(key.as_bytes());
    router.refresh().expect("slots");
    assert_eq!(router.node_of(key.as_bytes()), before);
    let answers = router.transactions(&all).expect("answers");
    assert_eq!(
        answers[0],
        Ok(redis::Value::Array(vec![redis::Value::Int(4), redis::Value::Int(4)]))
    );
    assert_eq!(answers[1], Ok(redis::Value::Array(vec![three(), three()])));
    let of_another_node = router.at(before.as_ref()).expect("a connection");
    assert!(of_another_node.session_len(&keys[2]).is_err());
}

#[test]
fn a_router_to_one_node_of_a_cluster_says_that_the_key_is_elsewhere() {
    let cluster = Cluster::start(3);
    let url = cluster.node(0).url();
    let dial = move |_: Option<&Node>| Ok(redis::Client::open(url.as_str())?.get_connection()?);
    let mut router: Router<redis::Connection, RouteError> = Router::single(dial).expect("a server");
    let there = cluster.key_on(0, "here");
    let len = router.call(there.as_bytes(), request::len(&there).command().cmd());
    assert_eq!(len.expect("an answer"), Ok(redis::Value::Int(0)));
    let elsewhere = cluster.key_on(1, "there");
    let refused = router.call(elsewhere.as_bytes(), request::len(&elsewhere).command().cmd());
    assert!(matches!(refused, Err(RouteError::Elsewhere(error)) if error.code() == "MOVED"));
}

#[test]
fn what_is_refused_when_it_is_queued_is_what_a_transaction_says() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut router = Router::<_, RouteError>::single(move |_| Ok(client.get_connection()?)).expect("a server");
    let refused = router
        .transaction(b"k", &[redis::cmd("NO-SUCH-COMMAND")])
        .expect("an answer");
    assert!(refused.expect_err("refused").to_string().contains("NO-SUCH-COMMAND"));
    // An error reply of a command that was executed is one of the replies.
    let clear = request::clear("k", redis_session_client::WriteOptions::new())
        .command()
        .cmd()
        .clone();
    let Ok(redis::Value::Array(replies)) = router.transaction(b"k", &[clear]).expect("an answer") else {
        panic!("it was executed")
    };
    assert!(matches!(&replies[0], redis::Value::ServerError(error) if error.code() == "NOSESSION"));
}
