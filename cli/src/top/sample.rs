//! `INFO` of every server at one moment, and the rates between two of them.

use std::collections::BTreeMap;
use std::time::Instant;

use redis_session_client::tolerant;
use serde_json::{json, Map, Value as Json};

use super::State;
use crate::connection::{Link, Place, Router};
use crate::failure::Result;
use crate::term::time::{iso, now_ms};

/// Numbers that rise and fall, of `INFO session` and of the server.
pub const GAUGES: [&str; 11] = [
    "active_sessions",
    "directories",
    "anchors",
    "messages",
    "bytes_raw",
    "bytes_stored",
    "blocked_readers",
    "used_memory",
    "maxmemory",
    "connected_clients",
    "instantaneous_ops_per_sec",
];

/// Numbers that only rise while the module is loaded.
pub const COUNTERS: [&str; 10] = [
    "appended",
    "evicted",
    "published",
    "deduplicated",
    "conflicts",
    "checkpoints",
    "restores",
    "migrated",
    "malformed",
    "panics_caught",
];

/// One server.
#[derive(Clone)]
pub struct Node {
    pub address: String,
    pub version: String,
    numbers: BTreeMap<&'static str, u64>,
    /// Why there are no numbers of this server.
    pub failure: Option<String>,
}

impl Node {
    /// A number by its name; 0 where an older module does not report it.
    pub fn number(&self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    fn of_info(address: String, info: &str) -> Node {
        let mut numbers = BTreeMap::new();
        let (mut version, mut is_valkey) = (String::new(), false);
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            match name {
                "redis_version" if !is_valkey => version = format!("Redis {value}"),
                "valkey_version" => (version, is_valkey) = (format!("Valkey {value}"), true),
                _ => {}
            }
            // Fields of the module are those of its section; a server has some of the same names.
            let is_ours = name.starts_with("session_");
            let name = name.strip_prefix("session_").unwrap_or(name);
            let is_of_server = |known: &str| {
                matches!(
                    known,
                    "used_memory" | "maxmemory" | "connected_clients" | "instantaneous_ops_per_sec"
                )
            };
            let known = GAUGES
                .iter()
                .chain(&COUNTERS)
                .find(|known| **known == name && is_of_server(known) != is_ours);
            if let (Some(known), Ok(number)) = (known, value.trim().parse()) {
                numbers.insert(*known, number);
            }
        }
        let has_module = numbers.contains_key("active_sessions");
        Node {
            address,
            version,
            numbers,
            failure: (!has_module).then(|| "the module is not loaded there".into()),
        }
    }
}

/// All servers.
#[derive(Clone)]
pub struct Sample {
    pub time_ms: i64,
    taken: Instant,
    pub nodes: Vec<Node>,
}

impl Sample {
    /// Asks every server. One that does not answer becomes a node with a failure.
    pub fn take(router: &mut Router) -> Result<Sample> {
        let nodes = router.nodes().into_iter().map(|node| {
            let name = router.name_of(&node);
            match info(router, &node) {
                Ok(info) => Node::of_info(name, &info),
                Err(failure) => {
                    router.forget(&node);
                    Node {
                        address: name,
                        version: String::new(),
                        numbers: BTreeMap::new(),
                        failure: Some(failure.to_string().lines().next().unwrap_or_default().to_owned()),
                    }
                }
            }
        });
        let nodes: Vec<Node> = nodes.collect();
        // Slots, and with them primaries, may be elsewhere by now.
        if nodes.iter().any(|node| node.failure.is_some()) {
            let _ = router.has_moved();
        }
        Ok(Sample {
            time_ms: now_ms(),
            taken: Instant::now(),
            nodes,
        })
    }

    /// Why no server answered; `None` if at least one did.
    pub fn failure(&self) -> Option<String> {
        let failures: Vec<&String> = self.nodes.iter().filter_map(|node| node.failure.as_ref()).collect();
        (failures.len() == self.nodes.len()).then(|| failures.first().map(|why| why.to_string()).unwrap_or_default())
    }

    pub fn total(&self, name: &str) -> u64 {
        self.nodes.iter().map(|node| node.number(name)).sum()
    }
}

fn info(router: &mut Router, node: &Place) -> Result<String> {
    let mut command = redis::cmd("INFO");
    command.arg(&["server", "clients", "memory", "stats", "session"]);
    let info = router.at(node)?.must(&command)?;
    Ok(tolerant::text(info).unwrap_or_default())
}

/// Changes per second between two samples.
#[derive(Clone)]
pub struct Rates {
    pub total: BTreeMap<&'static str, f64>,
    pub nodes: Vec<BTreeMap<&'static str, f64>>,
}

impl Rates {
    pub fn between(before: &Sample, now: &Sample) -> Rates {
        let seconds = now.taken.duration_since(before.taken).as_secs_f64().max(0.001);
        let mut total: BTreeMap<&str, f64> = COUNTERS.iter().map(|name| (*name, 0.0)).collect();
        let nodes = now.nodes.iter().map(|node| {
            let was = before
                .nodes
                .iter()
                .find(|was| was.address == node.address && was.failure.is_none());
            let rates = COUNTERS.iter().map(|name| {
                // A server that was restarted counts from 0 again; one that is new has no past.
                let more = was.map_or(0, |was| node.number(name).saturating_sub(was.number(name)));
                (*name, more as f64 / seconds)
            });
            let rates: BTreeMap<&str, f64> = rates.collect();
            rates
                .iter()
                .for_each(|(name, rate)| *total.entry(name).or_default() += rate);
            rates
        });
        let nodes = nodes.collect();
        Rates { total, nodes }
    }

    pub fn of(&self, name: &str) -> f64 {
        self.total.get(name).copied().unwrap_or(0.0)
    }
}

impl State {
    pub fn json(&self) -> Json {
        let numbers = |number: &dyn Fn(&str) -> u64, rate: &dyn Fn(&str) -> f64| {
            let mut map = Map::new();
            for name in GAUGES.iter().chain(&COUNTERS) {
                map.insert((*name).into(), number(name).into());
            }
            let rates = COUNTERS
                .iter()
                .map(|name| ((*name).to_owned(), json!((rate(name) * 1000.0).round() / 1000.0)));
            map.insert("per_second".into(), Json::Object(rates.collect()));
            map
        };
        let rates = self.rates.as_ref();
        let nodes = self.sample.nodes.iter().enumerate().map(|(place, node)| {
            let rate = |name: &str| {
                let of_node = rates.and_then(|rates| rates.nodes.get(place));
                of_node.and_then(|rates| rates.get(name)).copied().unwrap_or(0.0)
            };
            let mut map = match node.failure {
                None => numbers(&|name| node.number(name), &rate),
                Some(_) => Map::new(),
            };
            map.insert("address".into(), node.address.clone().into());
            map.insert("failure".into(), json!(node.failure));
            Json::Object(map)
        });
        let mut total = numbers(&|name| self.sample.total(name), &|name| {
            rates.map_or(0.0, |rates| rates.of(name))
        });
        total.insert("time".into(), iso(self.sample.time_ms).into());
        total.insert("nodes".into(), nodes.collect());
        Json::Object(total)
    }
}

#[cfg(test)]
impl Sample {
    /// A sample of servers with these replies to `INFO`; `None` stands for one that does not answer.
    pub fn of(infos: &[(String, Option<String>)]) -> Sample {
        let nodes = infos.iter().map(|(address, info)| {
            let mut node = Node::of_info(address.clone(), info.as_deref().unwrap_or("session_active_sessions:1"));
            node.failure = info.is_none().then(|| "no answer".into());
            node
        });
        Sample {
            time_ms: 0,
            taken: Instant::now(),
            nodes: nodes.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn node(info: &str) -> Node {
        Node::of_info("a:1".into(), info)
    }

    #[test]
    fn numbers_are_the_modules_and_not_of_the_same_name() {
        let info = "# Memory\r\nused_memory:100\r\nmessages:7\r\nsession_messages:3\r\nsession_active_sessions:1\r\n\
                    redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nsession_new:5\r\n";
        let node = node(info);
        assert_eq!((node.number("messages"), node.number("used_memory")), (3, 100));
        assert_eq!((node.version.as_str(), &node.failure), ("Valkey 8.1.0", &None));
        assert!(super::Node::of_info("a:1".into(), "used_memory:1\r\n")
            .failure
            .is_some());
    }

    #[test]
    fn a_restarted_server_has_no_negative_rates() {
        let taken = Instant::now();
        let sample = |appended: u64, after: u64| Sample {
            time_ms: 0,
            taken: taken + Duration::from_secs(after),
            nodes: vec![node(&format!("session_active_sessions:1\nsession_appended:{appended}"))],
        };
        let rate = |before: u64, now: u64| Rates::between(&sample(before, 0), &sample(now, 2)).of("appended");
        assert_eq!((rate(10, 30), rate(10, 3), rate(0, 0)), (10.0, 0.0, 0.0));
    }
}
