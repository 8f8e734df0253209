//! A server of the benchmark's own: a unix socket in a temporary folder, nothing written to disk.

use crate::resp::Connection;
use crate::Result;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    pub fn start(server_bin: &Path, module: Option<&Path>) -> Result<Server> {
        Server::launch(Command::new(server_bin), module, new_folder()?)
    }

    /// "Redis 7.0.15", "Valkey 8.1.1".
    pub fn version(server_bin: &Path) -> Result<String> {
        let mut server = Server::start(server_bin, None)?;
        let mut connection = server.connect()?;
        // Valkey also reports a redis_version, for old clients.
        Ok(match connection.info("server", "valkey_version") {
            Ok(version) => format!("Valkey {version}"),
            Err(_) => format!("Redis {}", connection.info("server", "redis_version")?),
        })
    }

    /// The same server with its instructions counted; [`Server::stop_and_count`] has the sum.
    pub fn start_counted(server_bin: &Path, module: Option<&Path>) -> Result<Server> {
        let folder = new_folder()?;
        let mut command = Command::new("valgrind");
        command
            .arg("--tool=callgrind")
            // SERVER_BIN may be a script that ends in `exec`: to valgrind that is a child.
            .arg("--trace-children=yes")
            .arg(format!(
                "--callgrind-out-file={}",
                folder.join("callgrind.%p").display()
            ))
            .arg(server_bin);
        Server::launch(command, module, folder)
    }

    fn launch(mut command: Command, module: Option<&Path>, folder: PathBuf) -> Result<Server> {
        command.args(["--save", "", "--appendonly", "no", "--port", "0", "--daemonize", "no"]);
        // The server's own clockwork counts too; at one tick a second instead of ten it is lost in 10,000 commands.
        command.args(["--hz", "1", "--dynamic-hz", "no"]);
        command
            .arg("--dir")
            .arg(&folder)
            .arg("--unixsocket")
            .arg(folder.join("socket"));
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        let log = std::fs::File::create(folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot run {command:?}: {error}"))?;
        Ok(Server { child, folder })
    }

    /// Waits until the server takes connections. Exactly one connection is made and nothing sent on it: under callgrind, what
    /// goes to the server before the measured commands must be the same in every run.
    pub fn connect(&mut self) -> Result<Connection> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match Connection::open(&self.folder.join("socket")) {
                Ok(connection) => return Ok(connection),
                Err(_) if self.child.try_wait()?.is_some() => return Err(self.complaint("the server did not start")),
                Err(_) if Instant::now() > deadline => return Err(self.complaint("the server does not answer")),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Stops the server and returns the instructions it executed from start to end.
    pub fn stop_and_count(mut self, mut connection: Connection) -> Result<u64> {
        // It answers by closing the connection.
        let _ = connection.call(["SHUTDOWN", "NOSAVE"]);
        self.child.wait()?;
        let mut most = None;
        for entry in std::fs::read_dir(&self.folder)? {
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

    fn complaint(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        format!("{what}; its log:\n{log}").into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Short, for a unix socket's path must fit into 108 bytes.
fn new_folder() -> Result<PathBuf> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("session-bench-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder)?;
    Ok(folder)
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
