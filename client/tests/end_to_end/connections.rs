//! Every command over every kind of connection, in both protocols.

use redis::ProtocolVersion;
use redis_session_tests::{Cluster, Server, items, text};

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
    let mut commands: Vec<String> = Vec::new();
    for command in items(&server.run("COMMAND LIST FILTERBY MODULE session")) {
        let command = text(&command).to_lowercase();
        let subcommands = subcommands_of(server, &command);
        match subcommands.is_empty() {
            true => commands.push(command),
            false => commands.extend(subcommands),
        }
    }
    assert!(commands.len() > 30, "{commands:?}");
    // What only servers and people call.
    let is_called = |command: &String| stats.contains(&format!("cmdstat_{command}:"));
    commands.retain(|command| command != "session.load" && !command.ends_with("help") && !is_called(command));
    assert_eq!(commands, Vec::<String>::new(), "no method sends these");
}

fn subcommands_of(server: &Server, command: &str) -> Vec<String> {
    let info = items(&items(&server.call(&["COMMAND", "INFO", command]))[0]);
    let subcommands = items(info.last().expect("the subcommands"));
    subcommands
        .iter()
        .map(|info| text(&items(info)[0]).to_lowercase())
        .collect()
}
