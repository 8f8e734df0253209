//! A PostgreSQL server for one test, with a folder and a port of its own; it ends with the test.
//!
//! ```text
//! let postgres = Postgres::start();
//! assert_eq!(postgres.sql("SELECT 1 + 1"), "2");
//! postgres.restart();
//! ```
//!
//! Debian keeps the programs in `/usr/lib/postgresql/<version>/bin`, not in the `PATH`; the newest is used. The server refuses to run as
//! root: then it runs as the user `postgres` (or `nobody`), who owns its folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::server::{free_port, wait_until};

/// The server's settings. `fsync` only matters if the whole machine stops: a commit survives a killed server without it.
const SETTINGS: [&str; 7] = [
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_connections=40",
    "max_wal_size=128MB",
    "autovacuum=off",
    "log_min_messages=notice",
];

pub struct Postgres {
    programs: Programs,
    folder: PathBuf,
    port: u16,
    process: Mutex<Option<Child>>,
    /// Kept across restarts.
    _catalogues: Arc<Catalogues>,
}

/// PostgreSQL's programs, and the user to run them as, if not this one.
#[derive(Clone)]
struct Programs {
    folder: PathBuf,
    user: Option<User>,
}

#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// The files that `initdb` writes. It takes seconds and its output does not vary, so it runs once, and the result is copied.
struct Catalogues(PathBuf);

impl Postgres {
    /// Starts a new, empty server.
    pub fn start() -> Postgres {
        let programs = Programs::find();
        let catalogues = Catalogues::get(&programs);
        let folder = programs.new_folder();
        let mut postgres = Postgres {
            programs,
            folder,
            port: 0,
            process: Mutex::new(None),
            _catalogues: catalogues,
        };
        let mut copy = postgres.program("cp");
        copy.arg("-R").arg(&postgres._catalogues.0).arg(postgres.data());
        must_succeed(copy);
        for attempt in 1.. {
            // Another process may take the port before the server does.
            postgres.port = free_port();
            match postgres.launch() {
                Ok(()) => break,
                Err(log) => assert!(attempt < 5, "PostgreSQL did not start:\n{log}"),
            }
        }
        postgres
    }

    /// Returns the connection string: key=value pairs for `tokio-postgres` and `psql`. It stays the same over restarts.
    pub fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    /// Returns the rows of a query, with columns separated by `|` as in `psql`.
    #[track_caller]
    pub fn sql(&self, query: &str) -> String {
        self.try_sql(query)
            .unwrap_or_else(|error| panic!("{query:.500}\n{error}"))
    }

    /// Like [`Postgres::sql`], for statements that may fail.
    pub fn try_sql(&self, query: &str) -> Result<String, String> {
        let output = self
            .program("psql")
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.address())
            .args(["-c", query])
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().into()),
            false => Err(shown(&output)),
        }
    }

    /// Ends the server like a crash: connections break.
    pub fn stop(&self) {
        let Some(mut process) = self.lock().take() else {
            return;
        };
        let stopped = self
            .program("pg_ctl")
            .args(["-m", "immediate", "-w", "-t", "60", "-D"])
            .arg(self.data())
            .arg("stop")
            .output();
        if !stopped.is_ok_and(|output| output.status.success()) {
            let _ = process.kill();
        }
        let _ = process.wait();
    }

    /// Starts a stopped server on its folder.
    pub fn resume(&self) {
        self.launch()
            .unwrap_or_else(|log| panic!("PostgreSQL did not start again:\n{log}"));
    }

    pub fn restart(&self) {
        self.stop();
        self.resume();
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn launch(&self) -> Result<(), String> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log file");
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        SETTINGS.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        let process = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        *self.lock() = Some(process);
        let mut is_gone = false;
        wait_until("PostgreSQL answers", || {
            is_gone = !self.is_alive();
            is_gone || self.try_sql("SELECT 1").is_ok()
        });
        match is_gone {
            true => Err(self.log()),
            false => Ok(()),
        }
    }

    fn is_alive(&self) -> bool {
        self.lock()
            .as_mut()
            .is_some_and(|process| process.try_wait().is_ok_and(|status| status.is_none()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn program(&self, name: &str) -> Command {
        self.programs.command(name, &self.folder)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("--- log of PostgreSQL\n{}---", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Catalogues {
    fn get(programs: &Programs) -> Arc<Catalogues> {
        static MADE: Mutex<Weak<Catalogues>> = Mutex::new(Weak::new());
        let mut made = MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(catalogues) = made.upgrade() {
            return catalogues;
        }
        let catalogues = Arc::new(Catalogues(programs.new_folder()));
        let mut initdb = programs.command("initdb", &catalogues.0);
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        initdb
            .args(["--wal-segsize=1", "-U", "postgres", "-D"])
            .arg(&catalogues.0);
        must_succeed(initdb);
        *made = Arc::downgrade(&catalogues);
        catalogues
    }
}

impl Drop for Catalogues {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Programs {
    /// The programs find each other in their folder, so links to them are resolved.
    fn find() -> Programs {
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&on_path).collect();
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<(u32, PathBuf)> = versions
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .collect();
        versions.sort();
        folders.extend(versions.into_iter().rev().map(|(_, folder)| folder));
        let has_all = |folder: &PathBuf| {
            ["initdb", "postgres", "pg_ctl"]
                .iter()
                .all(|name| is_file(&folder.join(name)))
        };
        let folder = folders
            .into_iter()
            .find(has_all)
            .expect("PostgreSQL is installed (Debian: apt-get install postgresql)");
        let initdb = fs::canonicalize(folder.join("initdb")).expect("a path that was just there");
        Programs {
            folder: initdb.parent().map_or(folder, Path::to_path_buf),
            user: user_in_place_of_root(),
        }
    }

    /// Makes a folder owned by the user who runs the programs.
    fn new_folder(&self) -> PathBuf {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("rsp-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for PostgreSQL");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("a folder of our own");
        if let Some(user) = self.user {
            std::os::unix::fs::chown(&folder, Some(user.uid), Some(user.gid)).expect("root may give folders away");
        }
        folder
    }

    /// Prepares a program to run as that user, in a folder that the user may enter.
    fn command(&self, name: &str, folder: &Path) -> Command {
        let beside_the_others = self.folder.join(name);
        let mut command = match is_file(&beside_the_others) {
            true => Command::new(beside_the_others),
            // `psql` may be in another package and folder.
            false => Command::new(name),
        };
        command.current_dir(folder);
        if let Some(User { uid, gid }) = self.user {
            command.gid(gid).uid(uid);
        }
        command
    }
}

fn must_succeed(mut command: Command) {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?} failed:\n{}", shown(&output));
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file())
}

fn user_in_place_of_root() -> Option<User> {
    if id(&["-u"])? != 0 {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| {
        Some(User {
            uid: id(&["-u", name])?,
            gid: id(&["-g", name])?,
        })
    })
}

/// Runs `id`: the standard library has no functions for users.
fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn shown(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
