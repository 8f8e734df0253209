//! The options of every command that writes a session.

use std::time::Duration;

use redis::Cmd;

use crate::Timestamp;

/// What a write does to the session's expiry. Without one, the expiry slides: to now plus the session's ttl, if it has an expiry.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use std::time::Duration;
/// use redis_session_client::{SessionExpiry, NewMessage, SessionCommands, SessionWrite};
///
/// let hour = SessionExpiry::After(Duration::from_secs(3600));
/// connection.session_append("session:1", NewMessage::user("hello").append().expiry(hour))?;
/// # let ttl: i64 = redis::cmd("TTL").arg("session:1").query(&mut connection)?;
/// # assert!((3590..=3600).contains(&ttl));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionExpiry {
    /// The session's ttl from now on, and its expiry after it (`PX`).
    After(Duration),
    /// This expiry only (`PXAT`); the ttl stays. A time in the past deletes the session.
    At(Timestamp),
    /// No ttl and no expiry (`PERSIST`).
    Persist,
    /// The expiry stays as it is (`KEEPTTL`).
    Keep,
}

impl SessionExpiry {
    pub(crate) fn write(self, cmd: &mut Cmd) {
        match self {
            SessionExpiry::After(ttl) => cmd.arg("PX").arg(ms(ttl)),
            SessionExpiry::At(time) => cmd.arg("PXAT").arg(time.ms()),
            SessionExpiry::Persist => cmd.arg("PERSIST"),
            SessionExpiry::Keep => cmd.arg("KEEPTTL"),
        };
    }
}

/// The most milliseconds that the server takes: those until the end of the year 9999.
const MOST_MS: u64 = 253_402_300_799_999;

/// Milliseconds of a span; what does not fit is the most there is. A part of one counts as a whole: 0 means for ever to some options, and
/// no bound to others.
pub(crate) fn ms(span: Duration) -> u64 {
    let ms = span.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).map_or(MOST_MS, |ms| ms.min(MOST_MS))
}

/// The same in whole seconds.
pub(crate) fn secs(span: Duration) -> u64 {
    ms(span).div_ceil(1000).min(MOST_MS / 1000)
}

/// Guards, dates and expiry of a write: `<w>` of the command reference.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionCommands, WriteOptions, SessionWrite};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// assert_eq!(connection.session_clear("session:1", WriteOptions::new().if_version(2))?, 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    if_version: Option<u64>,
    lease: Option<u64>,
    at: Option<Timestamp>,
    expiry: Option<SessionExpiry>,
}

impl WriteOptions {
    /// A write without any of them.
    ///
    /// ```
    /// # use redis_session_client::WriteOptions;
    /// assert_eq!(WriteOptions::new(), WriteOptions::default());
    /// ```
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// What the other says counts more.
    #[cfg_attr(not(feature = "tokio-comp"), expect(dead_code))]
    pub(crate) fn merge(&mut self, other: WriteOptions) {
        *self = WriteOptions {
            if_version: other.if_version.or(self.if_version),
            lease: other.lease.or(self.lease),
            at: other.at.or(self.at),
            expiry: other.expiry.or(self.expiry),
        };
    }

    pub(super) fn write(&self, cmd: &mut Cmd) {
        if let Some(version) = self.if_version {
            cmd.arg("IFVERSION").arg(version);
        }
        if let Some(token) = self.lease {
            cmd.arg("LEASE").arg(token);
        }
        if let Some(at) = self.at {
            cmd.arg("AT").arg(at.ms());
        }
        if let Some(expiry) = self.expiry {
            expiry.write(cmd);
        }
    }
}

/// The options of every command that writes a session: [`WriteOptions`], and each builder of such a command.
///
/// ```
/// use redis_session_client::{Append, NewEvent, NewMessage, SessionWrite, request};
///
/// let append: Append = NewMessage::user("hello").append().if_version(4);
/// let event: NewEvent = NewEvent::new("modified").lease(7);
/// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k IFVERSION 4 MSG user hello");
/// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k modified LEASE 7");
/// ```
pub trait SessionWrite: Sized {
    /// The options, to be changed.
    ///
    /// ```
    /// # use redis_session_client::{WriteOptions, SessionWrite};
    /// let mut write = WriteOptions::new();
    /// *write.write_options() = WriteOptions::new().if_version(1);
    /// assert_eq!(write, WriteOptions::new().if_version(1));
    /// ```
    fn write_options(&mut self) -> &mut WriteOptions;

    /// Only if the session is at this version; 0: only if there is none yet.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{NewMessage, SessionCommands, SessionError, SessionWrite};
    ///
    /// let first = || NewMessage::user("hello").append().if_version(0);
    /// connection.session_append("session:1", first())?;
    /// let second = connection.session_append("session:1", first());
    /// assert!(matches!(second, Err(SessionError::VersionConflict { version: 2, .. })));
    /// # Ok::<(), SessionError>(())
    /// ```
    fn if_version(mut self, version: u64) -> Self {
        self.write_options().if_version = Some(version);
        self
    }

    /// With the fencing token of the lease that one holds.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use std::time::Duration;
    /// use redis_session_client::{Create, NewMessage, SessionCommands, SessionWrite};
    ///
    /// connection.session_create("session:1", Create::new())?;
    /// let token = connection.session_agent_lease("session:1", "planner", Duration::from_secs(5))?;
    /// connection.session_append("session:1", NewMessage::user("mine").append().lease(token))?;
    /// assert!(connection.session_append("session:1", NewMessage::user("not mine")).is_err());
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn lease(mut self, token: u64) -> Self {
        self.write_options().lease = Some(token);
        self
    }

    /// When the content is from, in place of now.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{NewMessage, MessageQuery, SessionCommands, Timestamp, SessionWrite};
    ///
    /// let then = Timestamp::from_ms(1_700_000_000_000);
    /// connection.session_append("session:1", NewMessage::user("hello").append().at(then))?;
    /// assert_eq!(connection.session_range_with_meta("session:1", MessageQuery::all())?[0].at, then);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn at(mut self, time: Timestamp) -> Self {
        self.write_options().at = Some(time);
        self
    }

    /// What becomes of the expiry, in place of sliding it.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{Create, SessionExpiry, SessionCommands, SessionWrite};
    ///
    /// connection.session_create("session:1", Create::new().expiry(SessionExpiry::Persist))?;
    /// let session = connection.session_get("session:1", None)?.expect("it is there");
    /// assert_eq!(session.expires_at, None);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    fn expiry(mut self, expiry: SessionExpiry) -> Self {
        self.write_options().expiry = Some(expiry);
        self
    }
}

impl SessionWrite for WriteOptions {
    fn write_options(&mut self) -> &mut WriteOptions {
        self
    }
}

/// Builders of this crate hold their [`WriteOptions`] in a field `write`.
macro_rules! has_write_options {
    ($($builder:ty),*) => {$(
        impl crate::SessionWrite for $builder {
            fn write_options(&mut self) -> &mut crate::WriteOptions {
                &mut self.write
            }
        }
    )*};
}
pub(crate) use has_write_options;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_span_is_not_for_ever_and_a_long_one_is_not_refused() {
        for (span, as_ms, as_secs) in [
            (Duration::ZERO, 0, 0),
            (Duration::from_nanos(1), 1, 1),
            (Duration::from_micros(1500), 2, 1),
            (Duration::from_millis(1001), 1001, 2),
            (Duration::MAX, MOST_MS, 253_402_300_799),
        ] {
            assert_eq!((ms(span), secs(span)), (as_ms, as_secs), "{span:?}");
        }
    }
}
