//! Where sessions live: stores for the servers of the harness.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis_session_client::{Connect, Retry, SessionStore};
use redis_session_tests::{Cluster, Sentinel, Server};
use tokio::sync::Mutex;

use crate::durable::Durable;

/// Retries for so long that only a fault ends them.
pub fn patient() -> Retry {
    Retry {
        give_up_after: Duration::from_secs(120),
        response_timeout: Duration::from_secs(10),
        ..Retry::default()
    }
}

pub fn store<C: Connect>(connect: C) -> SessionStore<C> {
    SessionStore::with_retry(connect, "acme", patient())
}

pub fn client(server: &Server) -> redis::Client {
    redis::Client::open(server.url()).expect("a URL")
}

/// The primary that the sentinels name, with every word of it confirmed by its replica.
pub fn durable_sentinel(group: &Sentinel) -> Durable<Mutex<SentinelClient>> {
    let name = Sentinel::MASTER_NAME.to_owned();
    let client = SentinelClient::build(group.urls(), name, None, SentinelServerType::Master);
    Durable(Mutex::new(client.expect("URLs")))
}

pub fn cluster_builder(cluster: &Cluster) -> ClusterClientBuilder {
    let urls = cluster
        .nodes()
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port()));
    ClusterClient::builder(urls.collect::<Vec<_>>())
}

/// As `Connect` recommends it.
pub fn cluster_client(cluster: &Cluster) -> ClusterClient {
    cluster_builder(cluster).retries(0).build().expect("URLs")
}
