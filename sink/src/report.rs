//! What a sink says while it runs, and what can go wrong.

use std::fmt;
use std::time::Duration;

use redis_session_client::{SessionError, SessionId};

/// What a sink tells whoever started it. [`fmt::Display`] is a line for a log.
///
/// ```
/// use redis_session_sink::SinkReport;
///
/// fn log(report: &SinkReport) {
///     match report {
///         SinkReport::Written { .. } | SinkReport::Swept { .. } | SinkReport::Connected => {}
///         trouble => eprintln!("{trouble}"),
///     }
/// }
/// log(&SinkReport::Connected);
/// assert_eq!(SinkReport::Swept { sessions: 7, written: 1 }.to_string(), "swept 7 sessions, wrote 1");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SinkReport {
    /// Both sides are there and the notifications are subscribed to; a sweep follows.
    Connected,
    /// Every session was looked at.
    Swept {
        /// How many sessions there are.
        sessions: u64,
        /// How many of them were written by this sweep; 0 where notifications came first.
        written: u64,
    },
    /// A session was written. Of several sinks exactly one says so.
    Written {
        /// The session.
        session_id: SessionId,
        /// The checkpoint that closed it.
        checkpoint_id: u64,
        /// The failing outcome.
        outcome: String,
        /// Why its JSON is in the column `raw` and not in the others, if the database would take it in no other way.
        as_raw_because: Option<String>,
    },
    /// One session could not be written; the others were. The next sweep tries again, as long as the session is there.
    Skipped {
        /// Where the session is.
        key: Vec<u8>,
        /// What is wrong.
        error: SinkError,
    },
    /// A connection is gone, or does not come about. The sink connects again after a while, and sweeps.
    Interrupted {
        /// What is wrong.
        error: SinkError,
        /// How long it waits.
        retry_in: Duration,
    },
    /// A setting of the server by which sessions may be missed.
    Warning(SinkWarning),
    /// The sink has ended, as it was told to.
    Stopped {
        /// What kept it from writing everything that it was notified of, if anything did. The next sink finds that.
        unfinished: Option<SinkError>,
    },
}

impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkReport::Connected => f.write_str("connected"),
            SinkReport::Swept { sessions, written } => write!(f, "swept {sessions} sessions, wrote {written}"),
            SinkReport::Written {
                session_id,
                checkpoint_id,
                outcome,
                as_raw_because,
            } => {
                write!(
                    f,
                    "wrote session {session_id} as of checkpoint {checkpoint_id}, outcome {outcome:?}"
                )?;
                match as_raw_because {
                    Some(reason) => write!(f, ", as raw bytes: {reason}"),
                    None => Ok(()),
                }
            }
            SinkReport::Skipped { key, error } => {
                write!(
                    f,
                    "could not write the session at {:?}: {error}",
                    String::from_utf8_lossy(key)
                )
            }
            SinkReport::Interrupted { error, retry_in } => {
                write!(f, "{error}; connecting again in {} ms", retry_in.as_millis())
            }
            SinkReport::Warning(warning) => warning.fmt(f),
            SinkReport::Stopped { unfinished: None } => f.write_str("stopped"),
            SinkReport::Stopped {
                unfinished: Some(error),
            } => write!(f, "stopped before everything was written: {error}"),
        }
    }
}

/// A setting of the server by which sessions may be missed.
///
/// ```
/// use redis_session_sink::SinkWarning;
///
/// assert!(SinkWarning::NotPublished.to_string().contains("session.publish"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkWarning {
    /// `session.publish` is `off`: sessions are found by sweeps alone.
    NotPublished,
    /// A closed session is gone before the next sweep would come, so the sink sweeps more often than it was told to.
    GraceTooShort {
        /// The server's `session.checkpoint-grace`.
        grace: Duration,
        /// What the sink sweeps at.
        sweep_interval: Duration,
    },
    /// `session.checkpoint-grace` is 0: a session that is closed without a `GRACE` or an expiry of its own is gone at once.
    NoGrace,
}

impl fmt::Display for SinkWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkWarning::NotPublished => {
                f.write_str("session.publish is off on the server: closed sessions are found by sweeps alone")
            }
            SinkWarning::GraceTooShort { grace, sweep_interval } => write!(
                f,
                "session.checkpoint-grace is {} s: sweeping every {} ms, or closed sessions would be gone before; an outage longer than \
                 the grace loses them",
                grace.as_secs(),
                sweep_interval.as_millis()
            ),
            SinkWarning::NoGrace => f.write_str(
                "session.checkpoint-grace is 0: a session is gone as soon as it is closed, unless GRACE or an expiry says otherwise",
            ),
        }
    }
}

/// What can go wrong in a sink.
///
/// ```
/// use redis_session_sink::SinkError;
///
/// let error = SinkError::TimedOut("PostgreSQL");
/// assert_eq!(error.to_string(), "PostgreSQL did not answer in time");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SinkError {
    /// The server that has the sessions.
    Redis(SessionError),
    /// The database.
    Postgres(tokio_postgres::Error),
    /// Who did not answer in time.
    TimedOut(&'static str),
    /// The subscription to the server's notifications ended.
    SubscriptionEnded,
    /// Another server is the primary now, as the sentinels say.
    Moved,
    /// The session was deleted, or its time was over, after it was found and before it was read.
    Gone,
    /// Something in the options that no server takes.
    BadOption(String),
    /// The sink's task did not end by itself: it panicked in the callback for reports, or its runtime was shut down.
    Ended(String),
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkError::Redis(error) => write!(f, "Redis: {error}"),
            SinkError::Postgres(error) => match error.as_db_error() {
                Some(told) => write!(f, "PostgreSQL: {told} ({})", told.code().code()),
                None => {
                    // What tokio-postgres shows by itself is only the kind of error.
                    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
                    write!(f, "PostgreSQL: {error}{}", source.unwrap_or_default())
                }
            },
            SinkError::TimedOut(who) => write!(f, "{who} did not answer in time"),
            SinkError::SubscriptionEnded => f.write_str("Redis: the subscription to notifications ended"),
            SinkError::Moved => f.write_str("Redis: another server is the primary now"),
            SinkError::Gone => f.write_str("it is gone"),
            SinkError::BadOption(text) => f.write_str(text),
            SinkError::Ended(text) => write!(f, "the sink ended: {text}"),
        }
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SinkError::Redis(error) => Some(error),
            SinkError::Postgres(error) => Some(error),
            _ => None,
        }
    }
}

impl From<SessionError> for SinkError {
    fn from(error: SessionError) -> SinkError {
        SinkError::Redis(error)
    }
}

impl From<redis::RedisError> for SinkError {
    fn from(error: redis::RedisError) -> SinkError {
        SinkError::Redis(error.into())
    }
}

impl From<tokio_postgres::Error> for SinkError {
    fn from(error: tokio_postgres::Error) -> SinkError {
        SinkError::Postgres(error)
    }
}
