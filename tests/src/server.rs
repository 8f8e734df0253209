//! A server for one test: a folder, a process, a socket; it ends with the test.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::client::{bytes, entry, int, text, Client};
use crate::{module, talk};

/// Time-out of all waits: long, because it is only reached when something is broken.
const DEADLINE: Duration = Duration::from_secs(60);

pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock past 1970")
        .as_millis() as i64
}

/// Waits for a condition that must become true.
#[track_caller]
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < DEADLINE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a port that is free now. If another process takes it before the server does, try another.
pub fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").port()
}

/// The type and version of a server, for features that exist only from a version on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flavor {
    Redis(u32, u32),
    Valkey(u32, u32),
}

impl Flavor {
    /// Whether categories of module commands are ACL categories (`+@read` allows them).
    pub fn has_module_acl_categories(self) -> bool {
        match self {
            Flavor::Redis(major, minor) => (major, minor) >= (7, 2),
            Flavor::Valkey(..) => true,
        }
    }

    /// Whether a module may add a category of its own.
    pub fn has_own_acl_category(self) -> bool {
        match self {
            Flavor::Redis(major, minor) => (major, minor) >= (7, 4),
            Flavor::Valkey(major, _) => major >= 8,
        }
    }
}

/// The settings of a server.
#[derive(Clone, Default)]
pub struct Options {
    config: Vec<(String, String)>,
    without_module: bool,
}

impl Options {
    /// Adds a line of `redis.conf`. The module's own settings come before `loadmodule`, as in a real file.
    pub fn config(mut self, name: &str, value: impl ToString) -> Options {
        self.config.retain(|(known, _)| known != name);
        self.config.push((name.into(), value.to_string()));
        self
    }

    /// Enables an append-only file that contains what a command propagated before it replies.
    pub fn append_only(self) -> Options {
        self.config("appendonly", "yes").config("appendfsync", "always")
    }

    /// Sets values as different from the defaults as possible, which a replica or a loading server must not use.
    pub fn hostile(self) -> Options {
        self.config("session.default-maxlen", 1)
            .config("session.default-ttl", 1)
            .config("session.max-message-bytes", 1024)
            .config("session.dedup-window", 1)
            .config("session.event-maxlen", 1)
            .config("session.event-ttl", 1)
            .config("session.max-checkpoints", 1)
            .config("session.max-entities", 1)
            .config("session.max-agents", 1)
            .config("session.anchor-maxlen", 1)
            .config("session.anchor-max-age", 1)
            .config("session.auto-migrate", "no")
            .config("session.publish", "off")
            .config("session.compress-after", 0)
    }

    /// A server without the module, to test the harness itself.
    pub fn without_module(mut self) -> Options {
        self.without_module = true;
        self
    }

    pub fn start(self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts the server; returns its log if it did not start.
    pub fn try_start(self) -> Result<Server, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // A unix socket's path is limited to some hundred bytes: keep the folder's name short.
        let name = format!("rst-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for the server");
        let server = Server {
            folder,
            options: self,
            process: Mutex::new(None),
            client: Mutex::new(None),
            port: Mutex::new(None),
            is_crash_expected: false,
        };
        server.launch()?;
        Ok(server)
    }
}

pub struct Server {
    folder: PathBuf,
    options: Options,
    process: Mutex<Option<Child>>,
    client: Mutex<Option<Client>>,
    port: Mutex<Option<u16>>,
    is_crash_expected: bool,
}

impl Server {
    /// Starts a server with the module's default settings.
    pub fn start() -> Server {
        Options::default().start()
    }

    pub fn with(name: &str, value: impl ToString) -> Options {
        Options::default().config(name, value)
    }

    pub fn append_only() -> Options {
        Options::default().append_only()
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    fn launch(&self) -> Result<(), String> {
        self.launch_with(&[])
    }

    fn launch_with(&self, extra: &[(String, String)]) -> Result<(), String> {
        let given = self
            .options
            .config
            .iter()
            .chain(extra)
            .rfind(|(name, _)| name == "port");
        *self.port.lock().unwrap() = given.and_then(|(_, port)| port.parse().ok()).filter(|port| *port != 0);
        let mut conf = format!(
            "port 0\nbind 127.0.0.1\nunixsocket {}\ndir {}\nsave \"\"\nhz 100\nenable-debug-command yes\n\
             repl-diskless-sync no\nloglevel notice\n",
            self.socket().display(),
            self.folder.display(),
        );
        for (name, value) in self.options.config.iter().chain(extra) {
            conf += &format!("{name} {}\n", talk::quote(value.as_bytes()));
        }
        if !self.options.without_module {
            conf += &format!("loadmodule {}\n", module::path().display());
        }
        // A file that `CONFIG REWRITE` has changed belongs to the server from then on.
        let conf_path = self.folder.join("redis.conf");
        if !self.folder.join("keep-conf").exists() {
            fs::write(&conf_path, conf).expect("a configuration file");
        }

        let program = std::env::var("SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
        let mut words = program.split_whitespace();
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log file");
        let _ = fs::remove_file(self.socket());
        let process = Command::new(words.next().expect("SERVER_BIN names a program"))
            .args(words)
            .arg(&conf_path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        *self.process.lock().unwrap() = Some(process);

        let start = Instant::now();
        loop {
            if let Ok(mut client) = Client::connect(&self.socket()) {
                // A server that is still loading does not reply PONG.
                if client
                    .try_call(&["PING"])
                    .is_ok_and(|reply| talk::render(&reply) == "PONG")
                {
                    *self.client.lock().unwrap() = Some(client);
                    return Ok(());
                }
            }
            let mut process = self.process.lock().unwrap();
            if let Some(status) = process
                .as_mut()
                .and_then(|child| child.try_wait().expect("a child process"))
            {
                process.take();
                return Err(format!("{status}\n{}", self.log()));
            }
            drop(process);
            assert!(
                start.elapsed() < DEADLINE,
                "the server does not answer:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// Returns the path of a file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Accepts the words in the log that otherwise fail a test, for a test that provokes them.
    pub fn expect_crash_words(&mut self) {
        self.is_crash_expected = true;
    }

    /// Makes later restarts use the file that `CONFIG REWRITE` wrote.
    pub fn keep_rewritten_config(&self) {
        fs::write(self.folder.join("keep-conf"), "").expect("a marker file");
    }

    /// Kills the server, as a power cut would.
    pub fn kill(&self) {
        self.client.lock().unwrap().take();
        self.port.lock().unwrap().take();
        if let Some(mut process) = self.process.lock().unwrap().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Kills the server, as a power cut would, and restarts it on its folder.
    pub fn restart(&self) {
        self.restart_with(&Options::default());
    }

    /// Like [`Server::restart`], with other settings.
    pub fn restart_with(&self, options: &Options) {
        self.kill();
        self.launch_with(&options.config)
            .unwrap_or_else(|log| panic!("the server did not start again:\n{log}"));
    }

    /// Like [`Server::restart_with`], for a start that may fail; returns the log then.
    pub fn try_restart_with(&self, options: &Options) -> Result<(), String> {
        self.kill();
        self.launch_with(&options.config)
    }

    pub fn is_alive(&self) -> bool {
        self.process
            .lock()
            .unwrap()
            .as_mut()
            .is_some_and(|process| process.try_wait().is_ok_and(|status| status.is_none()))
    }

    /// Opens another connection.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).expect("a connection to the server")
    }

    /// Returns a URL for client libraries.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Opens a new default connection, if the server has closed the old one.
    pub fn reconnect(&self) {
        *self.client.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(self.client());
    }

    fn default_client(&self) -> ClientGuard<'_> {
        // A test that fails inside a call poisons the lock; the connection itself is fine.
        ClientGuard(self.client.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    #[track_caller]
    pub fn conversation(&self, text: &str) {
        self.default_client().conversation(text);
    }

    #[track_caller]
    pub fn run(&self, line: &str) -> Value {
        self.default_client().run(line)
    }

    pub fn attempt(&self, line: &str) -> Value {
        self.default_client().attempt(line)
    }

    pub fn say(&self, line: &str) -> String {
        self.default_client().say(line)
    }

    pub fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Value {
        self.default_client().call(args)
    }

    // ------------------------------------------------------------------ what tests look at

    /// `DEBUG DIGEST-VALUE`: a hash of the content of a key.
    pub fn digest(&self, key: &[u8]) -> String {
        match self.call(&[b"DEBUG".as_slice(), b"DIGEST-VALUE", key]) {
            Value::Array(digests) => text(&digests[0]),
            other => panic!("no digest: {}", talk::render(&other)),
        }
    }

    /// Returns `PEXPIRETIME`: −1 without an expiry, −2 without the key.
    pub fn expires_at_ms(&self, key: &[u8]) -> i64 {
        int(&self.call(&[b"PEXPIRETIME".as_slice(), key]))
    }

    /// Returns a field of `SESSION.INFO`.
    #[track_caller]
    pub fn info_of(&self, key: &str, field: &str) -> Value {
        entry(&self.call(&["SESSION.INFO", key]), field)
    }

    #[track_caller]
    pub fn version_of(&self, key: &str) -> i64 {
        int(&self.info_of(key, "version"))
    }

    /// Returns `SESSION.GET`, parsed.
    #[track_caller]
    pub fn document(&self, key: &str) -> serde_json::Value {
        serde_json::from_slice(&bytes(&self.call(&["SESSION.GET", key]))).expect("SESSION.GET replies JSON")
    }

    /// Returns the bodies of a session, oldest first.
    #[track_caller]
    pub fn bodies(&self, key: &str) -> Vec<String> {
        crate::items(&self.call(&["SESSION.RANGE", key, "0", "-1"]))
            .iter()
            .map(text)
            .collect()
    }

    /// Returns the seqs of a session, oldest first.
    #[track_caller]
    pub fn seqs(&self, key: &str) -> Vec<i64> {
        let rows = crate::items(&self.call(&["SESSION.RANGE", key, "0", "-1", "WITHMETA"]));
        rows.iter().map(|row| int(&crate::items(row)[0])).collect()
    }

    /// Returns a number from `INFO <section>`.
    #[track_caller]
    pub fn info_number(&self, section: &str, field: &str) -> i64 {
        let value = self.info_field(section, field);
        value.parse().unwrap_or_else(|_| panic!("{field} is {value:?}"))
    }

    #[track_caller]
    pub fn info_field(&self, section: &str, field: &str) -> String {
        let info = text(&self.call(&["INFO", section]));
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field} in INFO {section}:\n{info}"))
            .into()
    }

    pub fn flavor(&self) -> Flavor {
        let info = text(&self.call(&["INFO", "server"]));
        let version = |field: &str| {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
            let mut parts = line.split('.').map(|part| part.parse().unwrap_or(0));
            Some((parts.next()?, parts.next()?))
        };
        match (version("valkey_version"), version("redis_version")) {
            (Some((major, minor)), _) => Flavor::Valkey(major, minor),
            (None, Some((major, minor))) => Flavor::Redis(major, minor),
            (None, None) => panic!("a server without a version:\n{info}"),
        }
    }

    // ------------------------------------------------------------------ replication and persistence

    /// Returns the TCP port, opened at the first call: replication cannot use unix sockets.
    pub fn port(&self) -> u16 {
        if let Some(port) = *self.port.lock().unwrap() {
            return port;
        }
        for _ in 0..20 {
            let port = free_port();
            if let Value::Okay = self.attempt(&format!("CONFIG SET port {port}")) {
                *self.port.lock().unwrap() = Some(port);
                return port;
            }
        }
        panic!("no port to listen on");
    }

    /// Makes this server a replica and waits until it is synchronised.
    pub fn replicate(&self, primary: &Server) {
        self.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        self.wait_for(primary);
    }

    /// Waits until this replica has applied everything that its primary has written so far.
    pub fn wait_for(&self, primary: &Server) {
        let target = primary.info_number("replication", "master_repl_offset");
        wait_until("the replica catches up", || {
            let info = text(&self.call(&["INFO", "replication"]));
            let offset = info
                .lines()
                .find_map(|line| line.strip_prefix("slave_repl_offset:")?.parse::<i64>().ok());
            info.contains("master_link_status:up") && offset.is_some_and(|offset| offset >= target)
        });
    }

    /// Rewrites the append-only file and waits until it is in place.
    pub fn rewrite_append_only_file(&self) {
        wait_until(
            "the rewrite starts",
            || matches!(self.attempt("BGREWRITEAOF"), Value::SimpleString(reply) if reply.contains("started")),
        );
        wait_until("the append-only file is rewritten", || {
            let info = text(&self.call(&["INFO", "persistence"]));
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
        assert_eq!(self.info_field("persistence", "aof_last_bgrewrite_status"), "ok");
    }
}

struct ClientGuard<'a>(MutexGuard<'a, Option<Client>>);

impl std::ops::Deref for ClientGuard<'_> {
    type Target = Client;
    fn deref(&self) -> &Client {
        self.0.as_ref().expect("a running server")
    }
}

impl std::ops::DerefMut for ClientGuard<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        self.0.as_mut().expect("a running server")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let was_alive = self.is_alive() || self.process.lock().is_ok_and(|process| process.is_none());
        if let Ok(mut process) = self.process.lock() {
            if let Some(mut process) = process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
        let log = self.log();
        let _ = fs::remove_dir_all(&self.folder);
        let is_crashed = !was_alive || log.contains("BUG REPORT") || log.contains("panicked");
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{log}---");
        } else if is_crashed && !self.is_crash_expected {
            panic!("the server crashed:\n{log}");
        }
    }
}
