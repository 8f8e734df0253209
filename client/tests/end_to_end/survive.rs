//! Nothing is lost and nothing comes twice, whatever happens to the servers in the middle. What goes on meanwhile is in `work.rs`.
//!
//! What the servers guarantee differs. One that writes to its file before it replies, and one that fails over with
//! `CLUSTER FAILOVER` (which lets the replica catch up while writes wait), lose nothing that was acknowledged. `SENTINEL FAILOVER`
//! and a primary that dies do: there the connections wait for the replica (`durable.rs`), and nothing that was acknowledged so is lost.

use redis::cluster::ClusterClient;
use redis_session_tests::{Cluster, Sentinel, Server};

use crate::durable::Durable;
use crate::lossy::Lossy;
use crate::places::{client, cluster_builder, cluster_client, durable_sentinel, store};
use crate::work::goes_on_during;

/// The hardest for what must not come twice: what was executed looks as if it was not.
#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_lost() {
    let server = Server::start();
    goes_on_during(store(Lossy::new(client(&server))), |_, progress| progress.wait()).await;
    let cluster = Cluster::start(3);
    goes_on_during(store(Lossy::new(cluster_client(&cluster))), |_, progress| {
        progress.wait()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drops_its_connections() {
    let server = Server::start();
    goes_on_during(store(client(&server)), |_, progress| {
        for _ in 0..10 {
            server.run("CLIENT KILL TYPE normal SKIPME yes");
            progress.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_and_is_started_again() {
    let server = Server::append_only().start();
    goes_on_during(store(client(&server)), |_, progress| {
        for _ in 0..2 {
            server.restart();
            progress.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_of_sentinel() {
    let group = Sentinel::start(1, 3);
    goes_on_during(store(durable_sentinel(&group)), |_, _| {
        group.fail_over();
    })
    .await;
}

/// With one replica, promoted, nobody is left to wait for until the old primary is back: writers wait that long.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_of_sentinel_that_dies() {
    let group = Sentinel::start(1, 3);
    goes_on_during(store(durable_sentinel(&group)), |_, _| {
        let old = group.primary();
        group.kill_primary();
        group.revive(old);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves() {
    let cluster = Cluster::start(3);
    a_slot_moves(&cluster, cluster_client(&cluster)).await;
}

/// redis-rs follows the slot by itself then.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_while_redis_rs_tries_again_by_itself() {
    let cluster = Cluster::start(3);
    a_slot_moves(&cluster, cluster_builder(&cluster).build().expect("URLs")).await;
}

async fn a_slot_moves(cluster: &Cluster, client: ClusterClient) {
    goes_on_during(store(client), |session, progress| {
        let key = String::from_utf8_lossy(session.key()).into_owned();
        let (slot, from) = (cluster.slot(&key), cluster.owner(&key));
        let to = (from + 1) % 3;
        for (from, to) in [(from, to), (to, from)] {
            cluster.begin_migration(slot, from, to);
            progress.wait();
            cluster.move_keys(slot, from, to);
            progress.wait();
            cluster.end_migration(slot, from, to);
            progress.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_drops_its_connections() {
    let cluster = Cluster::start(3);
    goes_on_during(store(cluster_client(&cluster)), |_, progress| {
        for round in 0..9 {
            cluster.node(round % 3).run("CLIENT KILL TYPE normal SKIPME yes");
            progress.wait();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_in_a_cluster() {
    let mut cluster = Cluster::start(3);
    let primary = cluster.owner("{acme}");
    let replica = cluster.add_replica_of(primary);
    goes_on_during(store(cluster_client(&cluster)), |_, _| cluster.fail_over_to(replica)).await;
}

/// As with Sentinel: writers wait until the old primary is back, as a replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_of_a_cluster_that_dies() {
    let mut cluster = Cluster::start(3);
    let primary = cluster.owner("{acme}");
    let replica = cluster.add_replica_of(primary);
    goes_on_during(store(Durable(cluster_client(&cluster))), |_, _| {
        cluster.node(primary).kill();
        cluster.node(replica).run("CLUSTER FAILOVER TAKEOVER");
        cluster.node(primary).restart();
    })
    .await;
}
