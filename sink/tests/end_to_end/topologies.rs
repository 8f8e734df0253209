//! Servers that change their roles: Sentinel and cluster.

use redis::sentinel::{SentinelClient, SentinelServerType};
use redis_session_sink::{RedisSource, SnapshotSink};
use redis_session_tests::{Cluster, Postgres, Sentinel};

use super::{Running, end, shown_on_failure, target, wait_for_rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_follows_the_sentinels() {
    let (group, postgres) = (Sentinel::start(1, 3), Postgres::start());
    let client = SentinelClient::build(
        group.urls(),
        String::from(Sentinel::MASTER_NAME),
        None,
        SentinelServerType::Master,
    );
    let running = Running::start(SnapshotSink::new(
        RedisSource::sentinel(client.unwrap()),
        target(&postgres),
    ));
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    end(group.server(0), "first", "broke");
    wait_for_rows(&postgres, 1);

    assert_eq!(group.fail_over(), 1);
    end(group.server(1), "second", "broke");
    wait_for_rows(&postgres, 2);

    group.server(0).wait_for(group.server(1));
    assert_eq!(group.kill_primary(), 0);
    end(group.server(0), "third", "broke");
    wait_for_rows(&postgres, 3);
    assert_eq!(running.stop().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_hears_of_every_node_of_a_cluster() {
    let (mut cluster, postgres) = (Cluster::start(3), Postgres::start());
    let replica = cluster.add_replica_of(1);
    let key = |node: usize, name: &str| cluster.key_on(node, name);
    let keys = |name: &str| [key(0, name), key(1, name), key(2, name)];
    let (before, after, late) = (keys("before"), keys("after"), keys("late"));
    for (node, key) in before.iter().enumerate() {
        end(cluster.node(node), key, "broke");
    }
    let nodes = cluster
        .nodes()
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port()));
    let running = Running::start(SnapshotSink::new(
        RedisSource::cluster(nodes).unwrap(),
        target(&postgres),
    ));
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    wait_for_rows(&postgres, 3);
    for (node, key) in after.iter().enumerate() {
        end(cluster.node(node), key, "broke");
    }
    wait_for_rows(&postgres, 6);

    cluster.fail_over_to(replica);
    for (node, key) in [0, replica, 2].into_iter().zip(&late) {
        end(cluster.node(node), key, "broke");
    }
    wait_for_rows(&postgres, 9);
    assert_eq!(running.stop().await, 9);
}
