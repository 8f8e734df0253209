//! A cluster for one test: primaries that share the slots evenly, and replicas. It ends with the test.
//!
//! ```text
//! let mut cluster = Cluster::start(3);
//! let key = cluster.key_on(1, "k");
//! cluster.node(1).run(&format!("SESSION.APPEND {key} MSG user hello"));
//! let replica = cluster.add_replica_of(1);
//! cluster.fail_over_to(replica);
//! ```
//!
//! Nodes are numbered in the order in which they were added: the primaries from 0, then the replicas. Each is a [`Server`] with all its
//! methods; redirections for keys on other nodes (`MOVED`, `ASK`) are left to the test.

use std::time::{Duration, Instant};

use crate::server::{free_port, wait_until};
use crate::{int, items, text, Client, Options, Server};

const SLOTS: usize = 16384;

pub struct Cluster {
    nodes: Vec<Server>,
    options: Options,
}

impl Cluster {
    /// Starts a cluster of this many primaries, with the module's default settings.
    pub fn start(primaries: usize) -> Cluster {
        Cluster::with(Options::default(), primaries)
    }

    /// Like [`Cluster::start`], with other settings on every node.
    pub fn with(options: Options, primaries: usize) -> Cluster {
        let nodes: Vec<Server> = (0..primaries).map(|_| start_node(&options)).collect();
        for (n, node) in nodes.iter().enumerate() {
            let (first, last) = (SLOTS * n / primaries, SLOTS * (n + 1) / primaries - 1);
            node.run(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            // Otherwise all have the same epoch, and take a while to resolve that.
            node.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
        }
        let cluster = Cluster { nodes, options };
        for (n, node) in cluster.nodes.iter().enumerate() {
            cluster.nodes[..n].iter().for_each(|known| meet(node, known));
        }
        cluster.wait_until_joined();
        cluster
    }

    /// Adds a replica of this node, waits until it is synchronised, and returns its number.
    pub fn add_replica_of(&mut self, primary: usize) -> usize {
        let replica = start_node(&self.options);
        self.nodes.iter().for_each(|known| meet(&replica, known));
        self.nodes.push(replica);
        let number = self.nodes.len() - 1;
        self.wait_until_joined();
        let id = self.id(primary);
        self.node(number).run(&format!("CLUSTER REPLICATE {id}"));
        let line = format!(" {id} ");
        let replica_id = self.id(number);
        wait_until("every node knows the replica", || {
            self.nodes.iter().all(|node| {
                let told = nodes_told_by(node);
                let of_replica = told.lines().find(|told| told.starts_with(&replica_id));
                of_replica.is_some_and(|told| told.contains("slave") && told.contains(&line))
            })
        });
        self.node(number).wait_for(self.node(primary));
        number
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    pub fn node(&self, number: usize) -> &Server {
        &self.nodes[number]
    }

    /// Returns the node's name in the cluster.
    pub fn id(&self, number: usize) -> String {
        text(&self.node(number).run("CLUSTER MYID"))
    }

    pub fn slot(&self, key: &str) -> i64 {
        int(&self.nodes[0].call(&["CLUSTER", "KEYSLOT", key]))
    }

    /// Returns the number of the node that has this key's slot, as node 0 sees it.
    pub fn owner(&self, key: &str) -> usize {
        self.owner_as_seen_by(0, self.slot(key))
            .expect("every slot has an owner")
    }

    /// Returns a key on this primary, beginning with `name`.
    pub fn key_on(&self, number: usize, name: &str) -> String {
        (0..)
            .map(|n| format!("{name}{n}"))
            .find(|key| self.owner(key) == number)
            .expect("some key is on every primary")
    }

    fn owner_as_seen_by(&self, observer: usize, slot: i64) -> Option<usize> {
        for range in items(&self.node(observer).run("CLUSTER SLOTS")) {
            let range = items(&range);
            if (int(&range[0])..=int(&range[1])).contains(&slot) {
                let port = int(&items(&range[2])[1]);
                return self.nodes.iter().position(|node| i64::from(node.port()) == port);
            }
        }
        None
    }

    /// Opens a connection to this node that may read from it as a replica.
    pub fn reader(&self, number: usize) -> Client {
        let mut client = self.node(number).client();
        client.run("READONLY");
        client
    }

    /// Begins to migrate a slot: `from` serves the keys that are still there, and replies `ASK` for others.
    pub fn begin_migration(&self, slot: i64, from: usize, to: usize) {
        let (from_id, to_id) = (self.id(from), self.id(to));
        self.node(to)
            .run(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        self.node(from)
            .run(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    }

    /// Moves the slot's keys that are still at `from`.
    pub fn move_keys(&self, slot: i64, from: usize, to: usize) {
        let port = self.node(to).port().to_string();
        for key in items(&self.node(from).run(&format!("CLUSTER GETKEYSINSLOT {slot} 1000"))) {
            let key = crate::bytes(&key);
            let words: [&[u8]; 8] = [
                b"MIGRATE",
                b"127.0.0.1",
                port.as_bytes(),
                b"",
                b"0",
                b"60000",
                b"KEYS",
                &key,
            ];
            let reply = self.node(from).call(&words);
            assert_eq!(crate::talk::render(&reply), "OK");
        }
    }

    /// Assigns the slot to `to`, and waits until every node agrees.
    pub fn end_migration(&self, slot: i64, from: usize, to: usize) {
        let to_id = self.id(to);
        for number in [to, from] {
            self.node(number).run(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
        wait_until("every node knows the slot's new owner", || {
            (0..self.nodes.len()).all(|observer| self.owner_as_seen_by(observer, slot) == Some(to))
        });
    }

    /// Promotes a replica with a manual failover, and waits until every node agrees.
    pub fn fail_over_to(&self, replica: usize) {
        let id = self.id(replica);
        let mut asked: Option<Instant> = None;
        wait_until("every node knows the new primary", || {
            // Servers give up a failover after five seconds, which a busy machine may need.
            let is_replica = self.node(replica).info_field("replication", "role") == "slave";
            if is_replica && asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(10)) {
                self.node(replica).run("CLUSTER FAILOVER");
                asked = Some(Instant::now());
            }
            self.nodes.iter().all(|node| {
                let told = nodes_told_by(node);
                let of_replica = told.lines().find(|told| told.starts_with(&id));
                of_replica.is_some_and(|told| told.contains("master") && !told.trim_end().ends_with("connected"))
            })
        });
        self.wait_until_joined();
    }

    /// Waits until every node has a link to each other one and reports the cluster as ok.
    fn wait_until_joined(&self) {
        let count = self.nodes.len();
        wait_until("the cluster is up", || {
            self.nodes.iter().all(|node| {
                let told = nodes_told_by(node);
                let linked = told
                    .lines()
                    .filter(|line| line.contains(" connected") && !line.contains("handshake"));
                linked.count() == count
                    && told.lines().count() == count
                    && text(&node.run("CLUSTER INFO")).contains("cluster_state:ok")
            })
        });
    }
}

/// Returns what the node knows of the cluster, one line per node.
fn nodes_told_by(node: &Server) -> String {
    text(&node.run("CLUSTER NODES"))
}

/// Starts a node that knows no other yet.
fn start_node(options: &Options) -> Server {
    let mut log = String::new();
    for _ in 0..5 {
        let node = options
            .clone()
            .config("cluster-enabled", "yes")
            .config("port", free_port())
            // The default is the port plus 10,000, which need not be free, nor a valid port.
            .config("cluster-port", free_port())
            // Only tests promote, and no node fails because the machine is busy.
            .config("cluster-node-timeout", 30_000)
            .config("cluster-replica-no-failover", "yes")
            .config("cluster-allow-replica-migration", "no")
            .try_start();
        match node {
            Ok(node) => return node,
            Err(why) => log = why,
        }
    }
    panic!("a node did not start:\n{log}");
}

fn meet(node: &Server, known: &Server) {
    let bus = text(&items(&known.run("CONFIG GET cluster-port"))[1]);
    node.run(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", known.port()));
}
