//! Every command over every kind of connection, in both protocols.

use redis::ProtocolVersion;
use redis_session_tests::{Cluster, Server, text};

use crate::commands;
use crate::places::cluster_builder;

fn url(server: &Server, protocol: &str) -> String {
    format!("{}?protocol={protocol}", server.url())
}

#[test]
fn a_connection_and_a_pool_of_them() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let client = redis::Client::open(url(&server, protocol)).expect("a URL");
        let mut connection = client.get_connection().expect("a connection");
        commands::sync(&mut connection, &format!("connection {protocol}"));
        let pool = r2d2::Pool::builder().max_size(2).build(client).expect("a pool");
        let mut pooled = pool.get().expect("a connection");
        commands::sync(&mut *pooled, &format!("r2d2 {protocol}"));
    }
    every_command_was_called(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asynchronous_connection_a_manager_and_a_pool_of_them() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let client = redis::Client::open(url(&server, protocol)).expect("a URL");
        let mut multiplexed = client.get_multiplexed_async_connection().await.expect("a connection");
        commands::asynchronous(&mut multiplexed, &format!("multiplexed {protocol}")).await;
        let mut manager = client.get_connection_manager().await.expect("a connection");
        commands::asynchronous(&mut manager, &format!("manager {protocol}")).await;
        let pool = bb8::Pool::builder().max_size(2).build(client).await.expect("a pool");
        let mut pooled = pool.get().await.expect("a connection");
        commands::asynchronous(&mut *pooled, &format!("bb8 {protocol}")).await;
    }
    every_command_was_called(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_cluster() {
    let cluster = Cluster::start(3);
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        for retries in [0, 16] {
            let client = cluster_builder(&cluster)
                .use_protocol(protocol)
                .retries(retries)
                .build();
            let client = client.expect("URLs");
            let mut connection = client.get_connection().expect("a connection");
            commands::sync(&mut connection, &format!("sync {protocol:?} {retries}"));
            let mut connection = client.get_async_connection().await.expect("a connection");
            commands::asynchronous(&mut connection, &format!("async {protocol:?} {retries}")).await;
        }
    }
}

/// The scenario leaves no command of the module out.
fn every_command_was_called(server: &Server) {
    let stats = text(&server.run("INFO commandstats")).to_lowercase();
    let mut commands = server.commands();
    commands.retain(|command| {
        // What only servers and people call.
        let is_for_clients = command.name != "SESSION.LOAD" && !command.is_help();
        let is_called = stats.contains(&format!("cmdstat_{}:", command.name.to_lowercase().replace(' ', "|")));
        is_for_clients && !is_called
    });
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    assert!(names.is_empty(), "no method sends {names:?}");
}
