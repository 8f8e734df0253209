//! Sessions, anchors and recovery references together, on a server and in a cluster.
#![cfg(feature = "bridge")]

use redis_session_client::bridge::{Bridge, RecoverySource, recovery_key};
use redis_session_client::{
    AsyncSessionCommands, AsyncSessionConnection, Create, Mention, NewAnchor, NewCheckpoint, NewEvent, SessionId,
};
use redis_session_tests::Server;

async fn connect(server: &Server) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("an address");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

/// A session that mentions so many entities, each with anchors of other sessions.
async fn has_a_past<C: AsyncSessionConnection + Clone>(
    redis: &mut C,
    bridge: &Bridge<C>,
    entities: usize,
) -> SessionId {
    let id = SessionId::new();
    let key = bridge.session_key(id);
    redis.session_create(&key, Create::new().id(id)).await.unwrap();
    for n in 0..entities {
        redis
            .session_entity_mention(&key, Mention::new(format!("e{n}")))
            .await
            .unwrap();
        let anchor = NewAnchor::new("another").outcome("broke").impact(format!("i{n}"));
        redis.session_anchor_add(format!("anchor:e{n}"), anchor).await.unwrap();
    }
    redis
        .session_entity_mention(&key, Mention::new("without a past"))
        .await
        .unwrap();
    id
}

async fn everything_is_found<C: AsyncSessionConnection + Clone>(mut redis: C, scope: Option<&str>) {
    let mut bridge = Bridge::new(redis.clone());
    if let Some(scope) = scope {
        bridge = bridge.scope(scope);
    }
    let id = has_a_past(&mut redis, &bridge, 300).await;
    let live = bridge.get_live_session(id).await.unwrap().expect("it is there");
    assert_eq!(live.session.entities_mentioned.len(), 301);
    assert_eq!(live.anchors.len(), 300);
    assert!((0..300).all(|n| live.anchors[&format!("e{n}")][0].key_impacts == [format!("i{n}")]));
    assert!(live.unread.is_empty(), "{:?}", live.unread);

    let key = bridge.session_key(id);
    let change = NewEvent::new("broke")
        .entity("e1")
        .entity("e2")
        .impact(&serde_json::json!({"slow": 1, "perfDelta": 0.5}));
    redis.session_event_add(&key, change).await.unwrap();
    let made = bridge
        .checkpoint(id, NewCheckpoint::new().outcome("broke").close())
        .await
        .unwrap();
    assert_eq!(made.anchors.entities, ["e1", "e2"]);
    assert!(made.anchors.failed.is_empty(), "{:?}", made.anchors.failed);
    // Again: nothing new.
    bridge.write_anchors(&made.checkpoint).await;
    let anchors = redis.session_anchor_get("anchor:e2", None).await.unwrap();
    assert_eq!(
        anchors
            .iter()
            .filter(|anchor| anchor.session_id == id.to_string())
            .count(),
        1
    );
    let mine = anchors
        .iter()
        .find(|anchor| anchor.session_id == id.to_string())
        .expect("mine");
    assert_eq!(
        (mine.checkpoint_id, mine.timestamp),
        (Some(made.checkpoint.checkpoint_id), made.checkpoint.timestamp)
    );
    assert_eq!((mine.outcome.as_deref(), mine.perf_delta), (Some("broke"), Some(0.5)));
    assert_eq!(mine.key_impacts, ["slow"]);

    let recovery = bridge.get_checkpoint_recovery(id).await.unwrap().expect("a reference");
    assert_eq!(
        (recovery.source, &recovery.checkpoint),
        (RecoverySource::Reference, &made.checkpoint)
    );
    assert!(
        bridge
            .get_checkpoint_recovery(SessionId::new())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server() {
    let server = Server::start();
    everything_is_found(connect(&server).await, None).await;
    everything_is_found(connect(&server).await, Some("acme")).await;
}

#[cfg(feature = "cluster-async")]
#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster() {
    let cluster = redis_session_tests::Cluster::start(3);
    let nodes: Vec<String> = cluster
        .nodes()
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port()))
        .collect();
    let client = redis::cluster::ClusterClient::new(nodes).unwrap();
    everything_is_found(client.get_async_connection().await.unwrap(), None).await;
    everything_is_found(client.get_async_connection().await.unwrap(), Some("acme")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_holds_something_else_keeps_nothing_else_from_being_read() {
    let server = Server::start();
    let (mut redis, mut bridge) = (connect(&server).await, Bridge::new(connect(&server).await));
    let id = has_a_past(&mut redis, &bridge, 2).await;
    server.run("SET anchor:e0 something");
    let live = bridge.get_live_session(id).await.unwrap().expect("it is there");
    assert_eq!(live.anchors.keys().collect::<Vec<_>>(), ["e1"]);
    assert!(live.unread["e0"].to_string().contains("WRONGTYPE") || live.unread.contains_key("e0"));

    let about_both = NewCheckpoint::new().reference("e0").reference("e1");
    let made = bridge.checkpoint(id, about_both).await.unwrap();
    assert_eq!(made.anchors.entities, ["e1"]);
    assert_eq!(made.anchors.failed.keys().collect::<Vec<_>>(), ["e0"]);

    let key = String::from_utf8(recovery_key(bridge.session_key(id)).unwrap()).unwrap();
    server.run(&format!("SET {key} something"));
    let error = bridge.get_checkpoint_recovery(id).await.unwrap_err();
    assert!(error.to_string().contains("something"), "{error}");
}
