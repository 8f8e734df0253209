//! A server for one benchmark: a unix socket in a temporary folder, nothing written to disk.

use crate::resp::Connection;
use crate::Result;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    folder: Folder,
}

impl Server {
    pub fn start(program: &[String], module: Option<&Path>) -> Result<Server> {
        let (program, arguments) = program.split_first().ok_or("SERVER_BIN is empty")?;
        let mut command = Command::new(program);
        command.args(arguments);
        Server::launch(command, module, Folder::new()?)
    }

    /// Returns "Redis 7.0.15" or "Valkey 8.1.1".
    pub fn version(program: &[String]) -> Result<String> {
        let mut server = Server::start(program, None)?;
        let mut connection = server.connect()?;
        // Valkey also reports a redis_version, for old clients.
        Ok(match connection.info("server", "valkey_version") {
            Ok(version) => format!("Valkey {version}"),
            Err(_) => format!("Redis {}", connection.info("server", "redis_version")?),
        })
    }

    /// Starts the server under callgrind; [`Server::stop_and_count`] returns the instructions.
    pub fn start_counted(program: &[String], module: Option<&Path>) -> Result<Server> {
        Server::start_counted_from(program, module, None)
    }

    /// Like [`Server::start_counted`], with a snapshot to load.
    pub fn start_counted_from(program: &[String], module: Option<&Path>, snapshot: Option<&Path>) -> Result<Server> {
        let folder = Folder::new()?;
        if let Some(snapshot) = snapshot {
            std::fs::copy(snapshot, folder.path().join("dump.rdb"))?;
        }
        let mut command = Command::new("valgrind");
        command
            .arg("--tool=callgrind")
            // SERVER_BIN may be a script that ends in `exec`, which valgrind treats as a child.
            .arg("--trace-children=yes")
            .arg(format!(
                "--callgrind-out-file={}",
                folder.path().join("callgrind.%p").display()
            ))
            .args(program);
        Server::launch(command, module, folder)
    }

    fn launch(mut command: Command, module: Option<&Path>, folder: Folder) -> Result<Server> {
        command.args(["--save", "", "--appendonly", "no", "--port", "0", "--daemonize", "no"]);
        // The server's timer is counted too; at one tick a second instead of ten it is negligible against 10,000 commands.
        command.args(["--hz", "1", "--dynamic-hz", "no"]);
        command
            .arg("--dir")
            .arg(folder.path())
            .arg("--unixsocket")
            .arg(folder.path().join("socket"));
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        let log = std::fs::File::create(folder.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot run {command:?}: {error}"))?;
        Ok(Server { child, folder })
    }

    /// Waits until a snapshot is loaded by reading the log: a command would be counted.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let log = self.folder.path().join("log");
        // "Ready to" or "ready to", by the version.
        while !std::fs::read_to_string(&log)?.contains("eady to accept connections") {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                return Err(self.complaint("the server does not get ready"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the folder with the server's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the server accepts connections. It makes exactly one connection and sends nothing on it: under callgrind, the traffic
    /// before the measured commands must be the same in every run.
    pub fn connect(&mut self) -> Result<Connection> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match Connection::open(&self.socket()) {
                Ok(connection) => return Ok(connection),
                Err(_) if self.child.try_wait()?.is_some() => return Err(self.complaint("the server did not start")),
                Err(_) if Instant::now() > deadline => return Err(self.complaint("the server does not answer")),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Stops the server and returns the instructions it executed from start to end.
    pub fn stop_and_count(mut self, mut connection: Connection) -> Result<u64> {
        // The server replies by closing the connection.
        let _ = connection.call(["SHUTDOWN", "NOSAVE"]);
        self.child.wait()?;
        let mut most = None;
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("callgrind."))
            {
                most = most.max(total_of(&std::fs::read_to_string(path)?));
            }
        }
        most.ok_or_else(|| self.complaint("callgrind left no total"))
    }

    /// Returns an error with the server's log.
    pub fn complaint(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        format!("{what}; its log:\n{log}").into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A temporary folder, deleted on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with a short path: a unix socket's path must fit into 108 bytes.
    pub fn new() -> Result<Folder> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("session-bench-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn total_of(profile: &str) -> Option<u64> {
    profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_profile_ends_in_its_total() {
        let profile = "version: 1\nevents: Ir\nsummary: 123\n\nfn=(1) main\n1 2\n\ntotals: 123456\n";
        assert_eq!(super::total_of(profile), Some(123_456));
    }
}
