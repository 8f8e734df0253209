//! A primary, its replicas and the sentinels that watch them, for one test; they end with it.
//!
//! ```text
//! let group = Sentinel::start(1, 3);
//! group.server(group.primary()).run("SESSION.APPEND k MSG user hello");
//! group.kill(group.primary());
//! let new = group.wait_for_another_primary_than(0);
//! ```
//!
//! Servers are numbered: the first primary is 0, the replicas follow. Each is a [`Server`] with all its methods. Clients find
//! the primary by [`Sentinel::urls`] and [`Sentinel::MASTER_NAME`].

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Value;

use crate::server::{free_port, wait_until};
use crate::{items, talk, text, Client, Options, Server};

/// Time-out after which the sentinels consider a server down; longer than the pauses of a busy machine.
const DOWN_AFTER_MS: u32 = 2_000;

/// Time-out of one failover attempt; after twice that time there is another, for instance if votes were split.
const FAILOVER_TIMEOUT_MS: u32 = 5_000;

/// Shortens the intervals at which sentinels discover replicas and each other, which tests would have to wait for. The last one keeps
/// them running after a pause of the machine. A server without `SENTINEL DEBUG` uses its own intervals.
const INTERVALS_MS: [(&str, u32); 5] = [
    ("INFO-PERIOD", 200),
    ("PUBLISH-PERIOD", 200),
    ("PING-PERIOD", 200),
    ("ASK-PERIOD", 200),
    ("TILT-TRIGGER", 60_000),
];

/// Interval of the messages between sentinels. A sentinel that sees a promoted replica before it hears of the promotion demotes it
/// after four intervals, and the one that promoted it takes a second to notice: so it must not be shorter. Nor longer, since the old
/// primary, too, is
/// demoted after four.
const PUBLISH_PERIOD_MS: u32 = 1_000;

pub struct Sentinel {
    servers: Vec<Server>,
    ports: Vec<u16>,
    sentinels: Vec<Watcher>,
}

impl Sentinel {
    /// The name by which the sentinels know the primary and its replicas.
    pub const MASTER_NAME: &'static str = "main";

    /// Starts a primary with this many replicas, with the module's default settings, and this many sentinels, a majority of which decides.
    pub fn start(replicas: usize, sentinels: usize) -> Sentinel {
        Sentinel::with(Options::default(), replicas, sentinels)
    }

    /// Like [`Sentinel::start`], with other settings on every server.
    pub fn with(options: Options, replicas: usize, sentinels: usize) -> Sentinel {
        // A replica that is slightly behind must still be eligible for promotion.
        let options = options.config("replica-serve-stale-data", "yes");
        let mut servers = Vec::new();
        let mut ports = Vec::new();
        for _ in 0..=replicas {
            let (server, port) = start_on_a_port(&options);
            servers.push(server);
            ports.push(port);
        }
        let (primary, others) = servers.split_first().expect("a primary at least");
        others.iter().for_each(|replica| replica.replicate(primary));
        let quorum = sentinels / 2 + 1;
        let sentinels = (0..sentinels).map(|_| Watcher::start(ports[0], quorum)).collect();
        let group = Sentinel {
            servers,
            ports,
            sentinels,
        };
        wait_until("the sentinels know each other and every replica", || {
            group.sentinels.iter().all(|sentinel| {
                sentinel.number("num-slaves") == Some(replicas as i64)
                    && sentinel.number("num-other-sentinels") == Some(group.sentinels.len() as i64 - 1)
                    && sentinel.replicas_are_linked(replicas)
            })
        });
        for sentinel in &group.sentinels {
            sentinel.set_interval("PUBLISH-PERIOD", PUBLISH_PERIOD_MS);
        }
        group
    }

    /// Returns the addresses of the sentinels, for client libraries.
    pub fn urls(&self) -> Vec<String> {
        let ports = self.sentinels.iter().map(|sentinel| sentinel.port);
        ports.map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// Returns the number of the primary, once all sentinels and the server itself agree on it.
    pub fn primary(&self) -> usize {
        let mut found = None;
        wait_until("the sentinels agree on a primary", || {
            found = self.agreed_primary();
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Makes the sentinels promote a replica although nothing failed, waits until the old primary follows it, and returns its number.
    pub fn fail_over(&self) -> usize {
        let old = self.primary();
        wait_until("the failover starts", || {
            // `INPROG` and `NOGOODSLAVE` are temporary.
            matches!(
                self.sentinels[0].ask(&["SENTINEL", "FAILOVER", Sentinel::MASTER_NAME]),
                Some(Value::Okay)
            )
        });
        let new = self.wait_for_another_primary_than(old);
        self.wait_until_following(old);
        new
    }

    /// Kills a server, as a power cut would.
    pub fn kill(&self, number: usize) {
        self.servers[number].kill();
    }

    /// Kills the primary, waits until the sentinels have promoted a replica, and returns its number.
    pub fn kill_primary(&self) -> usize {
        let old = self.primary();
        self.kill(old);
        self.wait_for_another_primary_than(old)
    }

    /// Restarts a killed server on its folder, and waits until the sentinels have made it a replica of the present primary.
    pub fn revive(&self, number: usize) {
        self.servers[number].restart();
        self.wait_until_following(number);
    }

    pub fn wait_for_another_primary_than(&self, old: usize) -> usize {
        let mut found = None;
        wait_until("the sentinels promote a replica", || {
            found = self.agreed_primary().filter(|new| *new != old);
            found.is_some()
        });
        let new = found.expect("it was waited for");
        self.server(new).reconnect();
        new
    }

    fn wait_until_following(&self, number: usize) {
        wait_until("the server follows today's primary", || {
            let info = self.replication_info(number);
            info.contains("role:slave")
                && info.contains("master_link_status:up")
                && self
                    .agreed_primary()
                    .is_some_and(|primary| info.contains(&format!("master_port:{}\r", self.ports[primary])))
        });
        self.server(number).reconnect();
    }

    /// Uses a new connection: sentinels close those of a server whose role they change. Returns an empty text if it is dead.
    fn replication_info(&self, number: usize) -> String {
        if !self.server(number).is_alive() {
            return String::new();
        }
        let reply = self.server(number).client().try_call(&["INFO", "replication"]);
        reply.map(|info| text(&info)).unwrap_or_default()
    }

    fn agreed_primary(&self) -> Option<usize> {
        let mut told = self.sentinels.iter().map(Watcher::primary_port);
        let port = told.next()??;
        let number = self.ports.iter().position(|known| *known == port)?;
        let is_agreed = told.all(|other| other == Some(port)) && self.replication_info(number).contains("role:master");
        is_agreed.then_some(number)
    }
}

/// Sentinels store addresses, so a server keeps its port over a restart.
fn start_on_a_port(options: &Options) -> (Server, u16) {
    let mut log = String::new();
    for _ in 0..5 {
        let port = free_port();
        match options.clone().config("port", port).try_start() {
            Ok(server) => return (server, port),
            Err(why) => log = why,
        }
    }
    panic!("a server did not start:\n{log}");
}

/// One sentinel: a process with a folder, since it stores its state in its configuration file.
struct Watcher {
    folder: PathBuf,
    port: u16,
    process: Child,
}

impl Watcher {
    fn start(primary_port: u16, quorum: usize) -> Watcher {
        let mut log = String::new();
        for _ in 0..5 {
            match Watcher::try_start(primary_port, quorum) {
                Ok(watcher) => return watcher,
                Err(why) => log = why,
            }
        }
        panic!("a sentinel did not start:\n{log}");
    }

    fn try_start(primary_port: u16, quorum: usize) -> Result<Watcher, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let name = format!("rsw-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for the sentinel");
        let port = free_port();
        let master = Sentinel::MASTER_NAME;
        let conf = format!(
            "port {port}\nbind 127.0.0.1\nunixsocket {folder}/s\ndir {folder}\nsentinel monitor {master} 127.0.0.1 {primary_port} {quorum}\n\
             sentinel down-after-milliseconds {master} {DOWN_AFTER_MS}\nsentinel failover-timeout {master} {FAILOVER_TIMEOUT_MS}\n\
             sentinel parallel-syncs {master} 1\n",
            folder = folder.display(),
        );
        let conf_path = folder.join("sentinel.conf");
        fs::write(&conf_path, conf).expect("a configuration file");
        let log = fs::File::create(folder.join("log")).expect("a log file");
        let program = std::env::var("SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
        let mut words = program.split_whitespace();
        let process = Command::new(words.next().expect("SERVER_BIN names a program"))
            .args(words)
            .arg(&conf_path)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut watcher = Watcher { folder, port, process };
        let mut is_gone = false;
        wait_until("the sentinel answers", || {
            is_gone = watcher.process.try_wait().is_ok_and(|status| status.is_some());
            is_gone
                || watcher
                    .ask(&["PING"])
                    .is_some_and(|reply| talk::render(&reply) == "PONG")
        });
        if is_gone {
            return Err(watcher.log());
        }
        for (name, interval_ms) in INTERVALS_MS {
            watcher.set_interval(name, interval_ms);
        }
        Ok(watcher)
    }

    fn set_interval(&self, name: &str, interval_ms: u32) {
        let _ = self.ask(&["SENTINEL", "DEBUG", name, &interval_ms.to_string()]);
    }

    /// Runs one command on a new connection; returns nothing if the sentinel is not running.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        Client::connect(&self.folder.join("s")).ok()?.try_call(words).ok()
    }

    fn primary_port(&self) -> Option<u16> {
        match self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinel::MASTER_NAME])? {
            Value::Array(address) => text(&address[1]).parse().ok(),
            _ => None,
        }
    }

    /// Returns a number from the sentinel's description of the primary.
    fn number(&self, field: &str) -> Option<i64> {
        let reply = self.ask(&["SENTINEL", "MASTER", Sentinel::MASTER_NAME])?;
        let shown = crate::entry(&reply, field);
        text(&shown).parse().ok()
    }

    /// Only a replica whose link the sentinel has seen can be promoted.
    fn replicas_are_linked(&self, count: usize) -> bool {
        let Some(reply) = self.ask(&["SENTINEL", "REPLICAS", Sentinel::MASTER_NAME]) else {
            return false;
        };
        let replicas = items(&reply);
        replicas.len() == count
            && replicas
                .iter()
                .all(|replica| text(&crate::entry(replica, "master-link-status")) == "ok")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log")).unwrap_or_default()).into_owned()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- log of a sentinel\n{}---", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
