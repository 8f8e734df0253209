//! The order of things. A round: both sides are connected to, the subscription first; a sweep; then notifications, and sweeps from time
//! to time. Whatever breaks ends the round, and after a while the next one begins with a sweep.
//!
//! ```text
//!        ┌── wait ◄──────────── anything breaks ───────────┐
//!        ▼                                                 │
//!   connect ──► subscribe ──► sweep ──► notification ──► save ──► …
//!                               ▲                                │
//!                               └──── sweep interval, overflow ──┘
//! ```

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use redis_session_client::bridge::recovery_key;
use redis_session_client::tolerant;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::postgres::{Inserted, Table, identity, is_about_data};
use crate::reply::{array, expected};
use crate::snapshot::{self, Ended, command};
use crate::source::{Commands, Node, Subscription};
use crate::{Options, RedisSource, SinkError, SinkReport, SinkWarning, SnapshotSink};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(15);
/// How long a sink that is told to end still writes what it was notified of.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// A server's `session.checkpoint-grace` unless it says otherwise.
const DEFAULT_GRACE: Duration = Duration::from_secs(600);
/// No server is swept without a pause.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Keys for one step of a scan, and how many of them are asked about at once.
const SCAN_COUNT: usize = 500;
const IN_FLIGHT: usize = 64;
/// How many troublesome sessions are remembered.
const MAX_SUSPECTS: usize = 10_000;

type Report = Box<dyn Fn(&SinkReport) + Send + Sync>;

/// What outlives a round.
struct Sink {
    options: Options,
    report: Report,
    /// Sessions at which a connection broke. They come last in a sweep, so that one that breaks it each time keeps nobody else out.
    suspects: HashSet<Vec<u8>>,
    retry_in: Duration,
    /// No wait is so long that closed sessions are gone after it.
    longest_retry: Duration,
    warned: Vec<SinkWarning>,
}

/// What a sweep came across.
#[derive(Default)]
struct Swept {
    sessions: u64,
    written: u64,
    /// Left for its end.
    suspects: Vec<Vec<u8>>,
}

/// What a round has.
struct Round {
    commands: Commands,
    subscription: Subscription,
    table: Table,
}

pub(crate) async fn run(sink: SnapshotSink, report: Report, mut stop: watch::Receiver<()>) {
    let SnapshotSink {
        mut source,
        target,
        options,
    } = sink;
    let mut sink = Sink {
        options,
        report,
        suspects: HashSet::new(),
        retry_in: FIRST_RETRY,
        longest_retry: LAST_RETRY,
        warned: Vec::new(),
    };
    let mut unfinished = None;
    loop {
        let connected = tokio::select! {
            biased;
            _ = stop.changed() => break,
            connected = async {
                let table = target.open().await?;
                let (commands, subscription) = source.connect(&sink.options.keys).await?;
                Ok::<_, SinkError>(Round { commands, subscription, table })
            } => connected,
        };
        let error = match connected {
            Ok(mut round) => {
                (sink.report)(&SinkReport::Connected);
                let going = sink.go_on(&mut round, &mut source, stop.clone());
                tokio::pin!(going);
                let ended = tokio::select! {
                    biased;
                    ended = &mut going => Some(ended),
                    _ = stop.changed() => None,
                };
                match ended {
                    Some(Err(error)) => error,
                    Some(Ok(())) => break,
                    None => {
                        unfinished = match tokio::time::timeout(LAST_WORDS, going).await {
                            Ok(ended) => ended.err(),
                            Err(_) => Some(SinkError::TimedOut("what was left to write")),
                        };
                        break;
                    }
                }
            }
            Err(error) => error,
        };
        let retry_in = sink.retry_in;
        sink.retry_in = (retry_in * 2).min(sink.longest_retry);
        (sink.report)(&SinkReport::Interrupted { error, retry_in });
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(retry_in) => {}
        }
    }
    (sink.report)(&SinkReport::Stopped { unfinished });
}

impl Sink {
    /// Sweeps and listens until something breaks, or until told to stop: then what was notified of is written, and nothing is left half
    /// done.
    async fn go_on(
        &mut self,
        round: &mut Round,
        source: &mut RedisSource,
        mut stop: watch::Receiver<()>,
    ) -> Result<(), SinkError> {
        let mut sweep_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                _ = stop.changed() => return self.save_waiting(round, Vec::new()).await,
                () = tokio::time::sleep_until(sweep_at) => {
                    // Sentinels that do not answer are no reason to leave a primary that does.
                    if source.has_moved(&round.commands).await.unwrap_or(false) {
                        return Err(SinkError::Moved);
                    }
                    round.subscription.check().await?;
                    let interval = self.sweep_interval(&mut round.commands).await;
                    self.sweep(round, &stop).await?;
                    self.retry_in = FIRST_RETRY;
                    sweep_at = match round.subscription.has_overflowed() {
                        true => Instant::now() + MIN_SWEEP_INTERVAL.min(interval),
                        false => Instant::now() + interval,
                    };
                }
                key = round.subscription.next() => match key {
                    Some(key) => {
                        self.save_waiting(round, vec![key]).await?;
                        if round.subscription.has_overflowed() {
                            sweep_at = Instant::now();
                        }
                    }
                    None => return Err(SinkError::SubscriptionEnded),
                },
            }
        }
    }

    /// Looks at every session.
    async fn sweep(&mut self, round: &mut Round, stop: &watch::Receiver<()>) -> Result<(), SinkError> {
        let mut swept = Swept::default();
        let mut broken = Ok(());
        for node in round.commands.nodes().await? {
            // A node that is down keeps the sessions of the others waiting no longer than itself.
            match self.sweep_node(round, &node, &mut swept, stop).await {
                Err(error @ SinkError::Redis(_)) => broken = Err(error),
                other => other?,
            }
        }
        for key in std::mem::take(&mut swept.suspects) {
            if is_told(stop) {
                return Ok(());
            }
            let failed = self.failed_of(round, vec![key.clone()]).await?;
            swept.written += self.save_all(round, failed).await?;
            self.suspects.remove(&key);
        }
        broken?;
        (self.report)(&SinkReport::Swept {
            sessions: swept.sessions,
            written: swept.written,
        });
        Ok(())
    }

    async fn sweep_node(
        &mut self,
        round: &mut Round,
        node: &Node,
        swept: &mut Swept,
        stop: &watch::Receiver<()>,
    ) -> Result<(), SinkError> {
        let mut cursor = b"0".to_vec();
        loop {
            let keys;
            (cursor, keys) = self.scan(&mut round.commands, node, &cursor).await?;
            swept.sessions += keys.len() as u64;
            let (later, now): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| self.suspects.contains(key));
            swept.suspects.extend(later);
            let failed = self.failed_of(round, now).await?;
            swept.written += self.save_all(round, failed).await?;
            // Sweeping may take long; who was just notified of need not wait for its end.
            self.save_waiting(round, Vec::new()).await?;
            if cursor == b"0" || is_told(stop) {
                return Ok(());
            }
        }
    }

    async fn scan(
        &self,
        commands: &mut Commands,
        node: &Node,
        cursor: &[u8],
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), SinkError> {
        let mut scan = command("SCAN", &[cursor]);
        if self.options.keys != "*" {
            scan.arg("MATCH").arg(&self.options.keys);
        }
        scan.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg("rdsession");
        let mut reply = array("SCAN", commands.at_node(scan, node).await?)?.into_iter();
        let cursor = expected("SCAN", reply.next().and_then(tolerant::bytes), "a cursor")?;
        let keys = array("SCAN", expected("SCAN", reply.next(), "keys")?)?.into_iter();
        let keys = keys.map(|key| expected("SCAN", tolerant::bytes(key), "a key"));
        Ok((cursor, keys.collect::<Result<_, _>>()?))
    }

    /// Which of these sessions are closed and failed. Most are neither, so first of all that is asked, of many at once.
    async fn failed_of(&mut self, round: &Round, keys: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, Ended)>, SinkError> {
        let asked = futures_util::stream::iter(keys).map(|key| {
            let mut commands = round.commands.clone();
            async move { (snapshot::ended(&mut commands, &key).await, key) }
        });
        let mut asked = asked.buffer_unordered(IN_FLIGHT);
        let mut failed = Vec::new();
        while let Some((ended, key)) = asked.next().await {
            match ended {
                Ok(Some(ended)) if self.is_failing(&ended) => failed.push((key, ended)),
                Ok(_) => {}
                Err(error) => self.skip(key, error)?,
            }
        }
        Ok(failed)
    }

    fn is_failing(&self, ended: &Ended) -> bool {
        self.options.failing.contains(&ended.outcome.to_lowercase())
    }

    /// Writes those that are not there; how many that were.
    async fn save_all(&mut self, round: &mut Round, failed: Vec<(Vec<u8>, Ended)>) -> Result<u64, SinkError> {
        if failed.is_empty() {
            return Ok(0);
        }
        let ended: Vec<Ended> = failed.iter().map(|(_, ended)| ended.clone()).collect();
        let known = round.table.known(&ended).await?;
        let mut written = 0;
        for (key, ended) in failed {
            if known.contains(&identity(&ended)) {
                continue;
            }
            match self.save(round, &key, &ended).await {
                Ok(is_written) => written += u64::from(is_written),
                Err(error) => self.skip(key, error)?,
            }
        }
        Ok(written)
    }

    /// Does what notifications ask for, many at once: these, and those that wait.
    async fn save_waiting(&mut self, round: &mut Round, mut keys: Vec<Vec<u8>>) -> Result<(), SinkError> {
        loop {
            while keys.len() < IN_FLIGHT
                && let Some(key) = round.subscription.next_waiting()
            {
                keys.push(key);
            }
            if keys.is_empty() {
                return Ok(());
            }
            keys.sort();
            keys.dedup();
            let failed = self.failed_of(round, std::mem::take(&mut keys)).await?;
            self.save_all(round, failed).await?;
        }
    }

    /// Writes one session; whether it was this sink that did.
    async fn save(&mut self, round: &mut Round, key: &[u8], ended: &Ended) -> Result<bool, SinkError> {
        let reference_key = recovery_key(key).ok();
        let read = snapshot::read(&mut round.commands, key, reference_key.as_deref(), ended).await?;
        let Some(snapshot) = read else {
            let error = SinkError::Gone;
            (self.report)(&SinkReport::Skipped {
                key: key.to_vec(),
                error,
            });
            return Ok(false);
        };
        let as_raw_because = match round.table.insert(key, ended, &snapshot).await? {
            Inserted::Already => return Ok(false),
            Inserted::Now => None,
            Inserted::AsRaw(reason) => Some(reason),
        };
        (self.report)(&SinkReport::Written {
            session_id: ended.session_id,
            checkpoint_id: ended.checkpoint_id,
            outcome: ended.outcome.clone(),
            as_raw_because,
        });
        Ok(true)
    }

    /// An error at one session: if it is this session's alone, the others go on; if a connection broke, nothing does.
    fn skip(&mut self, key: Vec<u8>, error: SinkError) -> Result<(), SinkError> {
        let is_its_own = match &error {
            SinkError::Redis(error) => !error.is_transient() && !error.is_outcome_unknown(),
            SinkError::Postgres(error) => is_about_data(error),
            _ => false,
        };
        if is_its_own {
            (self.report)(&SinkReport::Skipped { key, error });
            return Ok(());
        }
        if self.suspects.len() < MAX_SUSPECTS {
            self.suspects.insert(key);
        }
        Err(error)
    }

    /// How long until the next sweep: what the options say, unless closed sessions would be gone by then. A server that does not
    /// tell its settings is taken to have the default ones.
    async fn sweep_interval(&mut self, commands: &mut Commands) -> Duration {
        let wanted = self.options.sweep_interval.max(MIN_SWEEP_INTERVAL);
        if setting(commands, "session.publish").await.as_deref() == Some("off") {
            self.warn(SinkWarning::NotPublished);
        }
        let grace = setting(commands, "session.checkpoint-grace").await;
        let grace = grace.and_then(|seconds| seconds.parse().ok());
        let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs);
        if grace.is_zero() {
            self.warn(SinkWarning::NoGrace);
            return wanted;
        }
        self.longest_retry = LAST_RETRY.min(grace / 4);
        // Twice, so that a sweep that is late still finds it.
        let sweep_interval = wanted.min(grace / 2);
        if sweep_interval < wanted {
            self.warn(SinkWarning::GraceTooShort { grace, sweep_interval });
        }
        sweep_interval
    }

    /// Once for each.
    fn warn(&mut self, warning: SinkWarning) {
        if !self.warned.contains(&warning) {
            (self.report)(&SinkReport::Warning(warning.clone()));
            self.warned.push(warning);
        }
    }
}

/// Whether the sink was told to stop. Asked between sessions, so that none is left in the middle.
fn is_told(stop: &watch::Receiver<()>) -> bool {
    stop.has_changed().unwrap_or(true)
}

/// A setting of the server; nothing where asking is not allowed.
async fn setting(commands: &mut Commands, name: &str) -> Option<String> {
    let reply = commands
        .at_node(command("CONFIG", &[b"GET", name.as_bytes()]), &Node::Only)
        .await
        .ok()?;
    let (_, told) = tolerant::pairs(reply).into_iter().next()?;
    tolerant::text(told)
}
