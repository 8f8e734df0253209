//! In a cluster each command goes straight to the node of its key: no node ever says `MOVED`.

use redis_session_client::{AsyncSessionCommands, SessionCommands};
use redis_session_tests::{Cluster, text};

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
