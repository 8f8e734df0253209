//! Sessions that failed, kept for good: a sink that writes each of them to PostgreSQL, once.
//!
//! | file | what it does |
//! |---|---|
//! | `reply.rs` | parts of replies |
//! | `source.rs` | connections to one server, to servers under Sentinel, to a cluster |
//! | `snapshot.rs` | how a session ended, and everything in it |
//! | `postgres.rs` | the table |
//! | `run.rs` | the order of things: subscribe, sweep, go on; and again |
//! | `report.rs` | what it says |
//!
//! Addresses `rediss://…` need the feature `tokio-rustls-comp` or `tokio-native-tls-comp`, as for redis-rs.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod postgres;
mod reply;
mod report;
mod run;
mod snapshot;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use postgres::PostgresTarget;
pub use report::{SinkError, SinkReport, SinkWarning};
pub use source::RedisSource;

/// The outcomes that a sink writes by default.
pub const FAILING_OUTCOMES: [&str; 7] = ["broke", "broken", "fail", "failed", "failure", "failing", "error"];

/// How often a sink looks at every session by default: twice within the default `session.checkpoint-grace`.
const DEFAULT_SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// Writes sessions that end (`CHECKPOINT … CLOSE`) with a failing outcome to a table of PostgreSQL, each exactly once.
///
/// Notifications alone would lose what happens while nobody listens. So the sink subscribes first, then sweeps: it looks at every
/// session for closed ones whose newest checkpoint failed. Then it goes on with notifications, and sweeps again after each
/// reconnection, of either side, and from time to time. The table's primary key keeps a session from being written twice, also by
/// several sinks.
///
/// A closed session stays for its grace, ten minutes by default: an outage of the sink, of Redis or of PostgreSQL that lasts longer
/// loses what was closed meanwhile. `docs/bridge.md` has the table and the permissions.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (server, postgres) = (redis_session_tests::Server::start(), redis_session_tests::Postgres::start());
/// # let (redis_url, postgres_address) = (server.url(), postgres.address());
/// use redis_session_sink::{PostgresTarget, RedisSource, SinkReport, SnapshotSink};
///
/// let source = RedisSource::single(redis::Client::open(redis_url)?);
/// let target = PostgresTarget::new(&postgres_address)?;
/// # let (swept, mut written) = tokio::sync::mpsc::unbounded_channel();
/// let sink = SnapshotSink::new(source, target).start(move |report| {
///     eprintln!("{report}");
/// #   if let SinkReport::Written { .. } = report { let _ = swept.send(()); }
/// });
/// # server.run("SESSION.APPEND session:1 MSG user hello");
/// # server.run("SESSION.CHECKPOINT CREATE session:1 OUTCOME broke CLOSE");
/// # written.recv().await;
/// # assert_eq!(postgres.sql("SELECT document->'messages'->0->>'content' FROM session_snapshots"), "hello");
/// // … and when the program ends:
/// sink.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub struct SnapshotSink {
    source: RedisSource,
    target: PostgresTarget,
    options: Options,
}

impl fmt::Debug for SnapshotSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotSink")
            .field("source", &self.source)
            .field("target", &self.target)
            .field("options", &self.options)
            .finish()
    }
}

#[derive(Debug)]
struct Options {
    /// In lower case.
    failing: BTreeSet<String>,
    sweep_interval: Duration,
    /// A glob, for channels and keys alike.
    keys: String,
}

impl SnapshotSink {
    /// A sink with the default settings.
    ///
    /// ```
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let source = RedisSource::single(redis::Client::open("redis://127.0.0.1/")?);
    /// let sink = SnapshotSink::new(source, PostgresTarget::new("host=127.0.0.1 user=app")?);
    /// assert!(format!("{sink:?}").contains("session_snapshots"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(source: RedisSource, target: PostgresTarget) -> SnapshotSink {
        SnapshotSink {
            source,
            target,
            options: Options {
                failing: FAILING_OUTCOMES.iter().map(|&outcome| outcome.to_owned()).collect(),
                sweep_interval: DEFAULT_SWEEP_INTERVAL,
                keys: "*".to_owned(),
            },
        }
    }

    /// Which outcomes are failing, in place of [`FAILING_OUTCOMES`]. Upper and lower case are the same.
    ///
    /// ```
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = RedisSource::single(redis::Client::open("redis://127.0.0.1/")?);
    /// # let sink = SnapshotSink::new(source, PostgresTarget::new("host=127.0.0.1 user=app")?);
    /// let sink = sink.failing(["broke", "refused", "timed out"]);
    /// assert!(format!("{sink:?}").contains("timed out"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn failing<T: AsRef<str>>(mut self, outcomes: impl IntoIterator<Item = T>) -> SnapshotSink {
        self.options.failing = outcomes
            .into_iter()
            .map(|outcome| outcome.as_ref().to_lowercase())
            .collect();
        self
    }

    /// How often every session is looked at, in place of 5 minutes; a sweep costs the server a `SCAN` and a `SESSION.INFO` for each
    /// session, 5 µs in all. Where the server's grace asks for it, the sink sweeps more often, and says so.
    ///
    /// ```
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = RedisSource::single(redis::Client::open("redis://127.0.0.1/")?);
    /// # let sink = SnapshotSink::new(source, PostgresTarget::new("host=127.0.0.1 user=app")?);
    /// let sink = sink.sweep_every(std::time::Duration::from_secs(30));
    /// assert!(format!("{sink:?}").contains("30s"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweep_every(mut self, interval: Duration) -> SnapshotSink {
        self.options.sweep_interval = interval;
        self
    }

    /// Only sessions whose key matches this glob, as `KEYS` and `PSUBSCRIBE` understand it.
    ///
    /// ```
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = RedisSource::single(redis::Client::open("redis://127.0.0.1/")?);
    /// # let sink = SnapshotSink::new(source, PostgresTarget::new("host=127.0.0.1 user=app")?);
    /// let sink = sink.keys("session:{acme}:*");
    /// assert!(format!("{sink:?}").contains("session:{acme}:*"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(mut self, glob: impl Into<String>) -> SnapshotSink {
        self.options.keys = glob.into();
        self
    }

    /// Starts the sink as a task of this tokio runtime. It connects by itself, as often as it takes; what it does and what goes wrong is
    /// told to `report`, from within the task: what takes long there belongs elsewhere.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// ```
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nobody = RedisSource::single(redis::Client::open("redis://127.0.0.1:1/")?);
    /// # let sink = SnapshotSink::new(nobody, PostgresTarget::new("host=127.0.0.1 port=1 user=app")?);
    /// use redis_session_sink::SinkReport;
    ///
    /// let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    /// let handle = sink.start(move |report| drop(say.send(matches!(report, SinkReport::Interrupted { .. }))));
    /// // Nobody is there: it says so, and tries again.
    /// assert_eq!(said.recv().await, Some(true));
    /// handle.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "a sink ends when its handle is dropped"]
    pub fn start(self, report: impl Fn(&SinkReport) + Send + Sync + 'static) -> SinkHandle {
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(run::run(self, Box::new(report), stopped));
        SinkHandle { stop, task }
    }
}

/// A running sink. Dropped, it ends the sink without waiting for it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redis_session_sink::{PostgresTarget, RedisSource, SinkError, SinkHandle, SnapshotSink};
/// # let nobody = RedisSource::single(redis::Client::open("redis://127.0.0.1:1/")?);
/// # let sink = SnapshotSink::new(nobody, PostgresTarget::new("host=127.0.0.1 port=1 user=app")?);
/// let handle: SinkHandle = sink.start(|report| eprintln!("{report}"));
/// assert!(!handle.is_finished());
/// assert!(handle.shutdown().await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct SinkHandle {
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl SinkHandle {
    /// Ends the sink: it writes the sessions that it was notified of, within some seconds, and leaves. What it does not get to, the
    /// sweep of the next one finds.
    ///
    /// # Errors
    /// [`SinkError::Ended`] if it had ended before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SinkError, SinkHandle, SnapshotSink};
    /// # let nobody = RedisSource::single(redis::Client::open("redis://127.0.0.1:1/")?);
    /// # let sink = SnapshotSink::new(nobody, PostgresTarget::new("host=127.0.0.1 port=1 user=app")?);
    /// let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    /// let handle = sink.start(move |report| drop(say.send(report.to_string())));
    /// handle.shutdown().await?;
    /// let mut last = None;
    /// while let Some(report) = said.recv().await {
    ///     last = Some(report);
    /// }
    /// assert_eq!(last.as_deref(), Some("stopped"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(self) -> Result<(), SinkError> {
        let _ = self.stop.send(());
        self.task.await.map_err(|error| SinkError::Ended(error.to_string()))
    }

    /// Whether it has ended by itself, as it does only when the callback for reports panics.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redis_session_sink::{PostgresTarget, RedisSource, SinkError, SinkHandle, SnapshotSink};
    /// # let nobody = RedisSource::single(redis::Client::open("redis://127.0.0.1:1/")?);
    /// # let sink = SnapshotSink::new(nobody, PostgresTarget::new("host=127.0.0.1 port=1 user=app")?);
    /// let handle = sink.start(|report| eprintln!("{report}"));
    /// assert!(!handle.is_finished(), "a sink ends only when it is told to");
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkHandle")
            .field("is_finished", &self.is_finished())
            .finish()
    }
}
