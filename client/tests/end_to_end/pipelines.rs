//! Many commands in one round trip: on one server and over the nodes of a cluster, sync and async, also while a slot moves.

use redis_session_client::{
    AsyncSessionConnection, NewMessage, Replies, SessionConnection, SessionError, SessionPipeline, SessionWrite,
    WriteOptions, request,
};
use redis_session_tests::{Cluster, Server};

use crate::places::{client, cluster_builder};

/// Some keys, commands of all of them mixed, one of which fails.
fn of_many_keys(keys: &[String]) -> (SessionPipeline, impl FnOnce(Replies)) {
    let mut pipeline = SessionPipeline::new();
    let mut slots = Vec::new();
    for round in 1..=3 {
        for key in keys {
            let appended = pipeline.add(request::append(key, NewMessage::user(round.to_string())));
            let refused = pipeline.add(request::append(key, NewMessage::user("never").append().if_version(999)));
            let mentioned = pipeline.add(request::entity_resolve(key, "it"));
            slots.push((round, appended, refused, mentioned, pipeline.add(request::len(key))));
        }
    }
    let check = |mut replies: Replies| {
        for (round, appended, refused, mentioned, len) in slots {
            assert_eq!(replies.take(appended).expect("appended").seq, round);
            let refused = replies.take(refused).expect_err("another version");
            assert!(
                matches!(refused, SessionError::VersionConflict { expected: 999, .. }),
                "{refused}"
            );
            assert_eq!(replies.take(mentioned).expect("a reply"), None);
            assert_eq!(replies.take(len).expect("a number"), round);
        }
    };
    (pipeline, check)
}

fn atomic(key: &str, messages: u64) -> (SessionPipeline, impl FnOnce(Replies)) {
    let mut pipeline = SessionPipeline::new().atomic();
    let slots: Vec<_> = (1..=messages)
        .map(|_| pipeline.add(request::append(key, NewMessage::user("hello"))))
        .collect();
    let len = pipeline.add(request::len(key));
    let check = move |mut replies: Replies| {
        for (slot, seq) in slots.into_iter().zip(1..) {
            assert_eq!(replies.take(slot).expect("appended").seq, seq);
        }
        assert_eq!(replies.take(len).expect("a number"), messages);
    };
    (pipeline, check)
}

/// A transaction in which one command fails: the others are executed.
fn atomic_with_an_error(key: &str, messages: u64) -> (SessionPipeline, impl FnOnce(Replies)) {
    let mut pipeline = SessionPipeline::new().atomic();
    let refused = pipeline.add(request::checkpoint_restore(key, 999, WriteOptions::new()));
    let appended = pipeline.add(request::append(key, NewMessage::user("hello")));
    let check = move |mut replies: Replies| {
        assert!(matches!(replies.take(refused), Err(SessionError::NoCheckpoint(_))));
        assert_eq!(replies.take(appended).expect("appended").seq, messages + 1);
    };
    (pipeline, check)
}

fn sync(connection: &mut impl SessionConnection, (pipeline, check): (SessionPipeline, impl FnOnce(Replies))) {
    check(pipeline.query(connection).expect("replies"));
}

async fn asynchronous(
    connection: &mut impl AsyncSessionConnection,
    (pipeline, check): (SessionPipeline, impl FnOnce(Replies)),
) {
    check(pipeline.query_async(connection).await.expect("replies"));
}

fn keys(name: &str) -> Vec<String> {
    (0..20).map(|n| format!("{name} {n}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_has_its_own_reply_and_its_own_error() {
    let server = Server::start();
    let mut connection = client(&server).get_connection().expect("a connection");
    sync(&mut connection, of_many_keys(&keys("sync")));
    sync(&mut connection, atomic("atomic", 3));
    let (pipeline, check) = atomic_with_an_error("atomic", 3);
    check(pipeline.query(&mut connection).expect("replies"));
    let mut connection = client(&server)
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    asynchronous(&mut connection, of_many_keys(&keys("async"))).await;
    asynchronous(&mut connection, atomic("atomic async", 3)).await;
    let (pipeline, check) = atomic_with_an_error("atomic async", 3);
    check(pipeline.query_async(&mut connection).await.expect("replies"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_a_pipeline_may_be_anywhere_in_a_cluster() {
    let cluster = Cluster::start(3);
    for retries in [0, 16] {
        let client = cluster_builder(&cluster).retries(retries).build().expect("URLs");
        let mut connection = client.get_connection().expect("a connection");
        sync(&mut connection, of_many_keys(&keys(&format!("sync {retries}"))));
        sync(&mut connection, atomic(&format!("atomic {retries}"), 3));
        let mut connection = client.get_async_connection().await.expect("a connection");
        asynchronous(&mut connection, of_many_keys(&keys(&format!("async {retries}")))).await;
        let key = format!("atomic async {retries}");
        asynchronous(&mut connection, atomic(&key, 3)).await;
        asynchronous(&mut connection, atomic_with_an_error(&key, 3)).await;
        let refused = {
            let mut pipeline = SessionPipeline::new().atomic();
            keys("scattered").iter().for_each(|key| {
                pipeline.add(request::len(key));
            });
            pipeline
                .query_async(&mut connection)
                .await
                .expect_err("keys of many slots")
        };
        let SessionError::Redis(refused) = refused else {
            panic!("{refused}")
        };
        assert!(
            ["CROSSSLOT", "MOVED"].contains(&refused.code().unwrap_or_default()),
            "{refused}"
        );
    }
}

/// Nothing is executed before a redirection is followed: what is sent again is not there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_follows_a_slot_that_moved_since() {
    let cluster = Cluster::start(3);
    for (n, retries) in [0, 16].into_iter().enumerate() {
        let client = cluster_builder(&cluster).retries(retries).build().expect("URLs");
        let mut connection = client.get_connection().expect("a connection");
        let mut async_connection = client.get_async_connection().await.expect("a connection");
        for (what, name) in ["sync", "sync atomic", "async", "async atomic"].into_iter().enumerate() {
            let key = cluster.key_on(what % 3, &format!("{name} {n} "));
            let slot = cluster.slot(&key);
            cluster.begin_migration(slot, what % 3, (what + 1) % 3);
            cluster.end_migration(slot, what % 3, (what + 1) % 3);
            match name {
                // redis-rs learns of the new owner only where it is to try again.
                "sync" | "sync atomic" if retries == 0 => {}
                "sync" => sync(&mut connection, of_many_keys(&[key])),
                "sync atomic" => sync(&mut connection, atomic(&key, 3)),
                "async" => asynchronous(&mut async_connection, of_many_keys(&[key])).await,
                _ => asynchronous(&mut async_connection, atomic(&key, 3)).await,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_follows_a_slot_that_is_moving() {
    let cluster = Cluster::start(3);
    for (n, retries) in [0, 16].into_iter().enumerate() {
        let client = cluster_builder(&cluster).retries(retries).build().expect("URLs");
        let mut connection = client.get_connection().expect("a connection");
        let mut async_connection = client.get_async_connection().await.expect("a connection");
        for (what, name) in ["sync", "async", "async atomic", "sync atomic"].into_iter().enumerate() {
            // A key that is not there yet: its node says `ASK`, the other one takes it for its own only when asked so.
            let (from, to) = (what % 3, (what + 1) % 3);
            let key = cluster.key_on(from, &format!("{name} {n} "));
            let slot = cluster.slot(&key);
            cluster.begin_migration(slot, from, to);
            match name {
                "sync" | "sync atomic" if retries == 0 => {}
                "sync" => sync(&mut connection, of_many_keys(std::slice::from_ref(&key))),
                "async" => asynchronous(&mut async_connection, of_many_keys(std::slice::from_ref(&key))).await,
                "sync atomic" => sync(&mut connection, atomic(&key, 3)),
                _ => asynchronous(&mut async_connection, atomic(&key, 3)).await,
            }
            cluster.end_migration(slot, from, to);
        }
    }
}

/// A limit of redis-rs: it does not say what the others replied.
#[test]
fn an_error_in_a_transaction_over_a_sync_connection_of_a_cluster_is_all_that_is_told() {
    let cluster = Cluster::start(3);
    let client = cluster_builder(&cluster).build().expect("URLs");
    let mut connection = client.get_connection().expect("a connection");
    sync(&mut connection, atomic("k", 3));
    let (pipeline, _) = atomic_with_an_error("k", 3);
    assert!(matches!(
        pipeline.query(&mut connection),
        Err(SessionError::NoCheckpoint(_))
    ));
    assert_eq!(request::len("k").query(&mut connection).expect("a number"), 4);
}

/// A command that the server cannot even queue: nothing is executed, and the error says which it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_cannot_be_queued_is_not_executed() {
    let server = Server::start();
    server.run("ACL SETUSER careful on nopass ~* +@all -session.clear");
    let url = format!("{}?user=careful&pass=x", server.url());
    let client = redis::Client::open(url).expect("a URL");
    let mut pipeline = SessionPipeline::new().atomic();
    pipeline.add(request::append("k", NewMessage::user("hello")));
    pipeline.add(request::clear("k", WriteOptions::new()));
    let refused = [
        pipeline.query(&mut client.get_connection().expect("a connection")),
        pipeline
            .query_async(&mut client.get_multiplexed_async_connection().await.expect("a connection"))
            .await,
    ];
    for refused in refused {
        let SessionError::Redis(refused) = refused.expect_err("not allowed") else {
            panic!("another error")
        };
        assert_eq!(refused.code(), Some("NOPERM"));
    }
    assert_eq!(server.say("EXISTS k"), "(integer) 0");
}
