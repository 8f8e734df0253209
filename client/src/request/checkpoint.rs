//! `CHECKPOINT …`, `FORK`, `ANCHOR …`

use std::time::Duration;

use serde_json::Value as Json;

use super::write::{has_write_options, ms, secs};
use super::{Options, Request, WriteOptions, begin, begin_group};
use crate::{Anchor, Checkpoint, SessionId, Timestamp, value};

/// A checkpoint to be made: `SESSION.CHECKPOINT CREATE`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, NewCheckpoint, SessionCommands, SessionError};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// connection.session_checkpoint_create("session:1", NewCheckpoint::new().outcome("pass").close())?;
/// let late = connection.session_append("session:1", NewMessage::user("one more thing"));
/// assert!(matches!(late, Err(SessionError::Closed(_))));
/// # Ok::<(), SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct NewCheckpoint {
    options: Options,
    write: WriteOptions,
}

impl NewCheckpoint {
    /// Makes a checkpoint whose refs and summary are those of the events since the last one.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new();
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k");
    /// ```
    pub fn new() -> NewCheckpoint {
        NewCheckpoint::default()
    }

    /// Also writes the recovery reference to this key, in the same slot, which outlives the session.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().store("checkpoint:{acme}:1");
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k STORE checkpoint:{acme}:1");
    /// ```
    pub fn store(mut self, key: impl AsRef<[u8]>) -> NewCheckpoint {
        self.options.set("STORE", key.as_ref());
        self
    }

    /// Sets how long the reference outlives the session, and how long a closed session stays. Whole seconds, rounded up.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().grace(Duration::from_secs(600));
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k GRACE 600");
    /// ```
    pub fn grace(mut self, grace: Duration) -> NewCheckpoint {
        self.options.set("GRACE", secs(grace));
        self
    }

    /// Sets its name.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().label("before the rewrite");
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), r#"SESSION.CHECKPOINT CREATE k LABEL "before the rewrite""#);
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> NewCheckpoint {
        self.options.set("LABEL", label.as_ref());
        self
    }

    /// Sets how it went.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().outcome("pass");
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k OUTCOME pass");
    /// ```
    pub fn outcome(mut self, outcome: impl AsRef<str>) -> NewCheckpoint {
        self.options.set("OUTCOME", outcome.as_ref());
        self
    }

    /// Sets the whole summary, in place of the merged impacts.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().summary(&serde_json::json!({"tests": "3 fail"}));
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), r#"SESSION.CHECKPOINT CREATE k SUMMARY '{"tests":"3 fail"}'"#);
    /// ```
    pub fn summary(mut self, summary: &Json) -> NewCheckpoint {
        self.options.set("SUMMARY", summary.to_string());
        self
    }

    /// Adds an entity that it is about, in place of those of the events. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().reference("api").reference("docs");
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k REFS 2 api docs");
    /// ```
    pub fn reference(mut self, entity_id: impl AsRef<str>) -> NewCheckpoint {
        self.options.push_counted("REFS", entity_id.as_ref());
        self
    }

    /// Drops the events since the previous checkpoint: the summary has them.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().trim();
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k TRIM");
    /// ```
    pub fn trim(mut self) -> NewCheckpoint {
        self.options.flag("TRIM");
        self
    }

    /// Closes the session: no more writes, and it expires after the grace.
    ///
    /// ```
    /// # use redis_session_client::{NewCheckpoint, request};
    /// let checkpoint = NewCheckpoint::new().close();
    /// assert_eq!(request::checkpoint_create("k", checkpoint).to_string(), "SESSION.CHECKPOINT CREATE k CLOSE");
    /// ```
    pub fn close(mut self) -> NewCheckpoint {
        self.options.flag("CLOSE");
        self
    }
}

/// `SESSION.CHECKPOINT CREATE`: makes a checkpoint; its id. Sealed history is shared, not copied.
///
/// ```
/// # use redis_session_client::{NewCheckpoint, request};
/// assert_eq!(request::checkpoint_create("k", NewCheckpoint::new()).command().name(), "SESSION.CHECKPOINT CREATE");
/// ```
pub fn checkpoint_create(key: impl AsRef<[u8]>, checkpoint: NewCheckpoint) -> Request<u64> {
    begin_group("SESSION.CHECKPOINT", "CREATE", key)
        .options(&checkpoint.options)
        .write_options(&checkpoint.write)
        .replied(value::count)
}

/// `SESSION.CHECKPOINT GET`: one checkpoint.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::checkpoint_get("k", 7).command().name(), "SESSION.CHECKPOINT GET");
/// ```
pub fn checkpoint_get(key: impl AsRef<[u8]>, id: u64) -> Request<Option<Checkpoint>> {
    begin_group("SESSION.CHECKPOINT", "GET", key)
        .arg(id)
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, value::object))
}

/// `SESSION.CHECKPOINT LIST`: the checkpoints, oldest first.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::checkpoint_list("k").command().name(), "SESSION.CHECKPOINT LIST");
/// ```
pub fn checkpoint_list(key: impl AsRef<[u8]>) -> Request<Vec<Checkpoint>> {
    begin_group("SESSION.CHECKPOINT", "LIST", key)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

/// `GET`: the recovery reference that `CHECKPOINT CREATE … STORE` left at a key of its own.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::recovery_reference("checkpoint:{session:1}").command().name(), "GET");
/// ```
pub fn recovery_reference(key: impl AsRef<[u8]>) -> Request<Option<Checkpoint>> {
    begin("GET", key)
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, value::object))
}

/// `SESSION.CHECKPOINT DEL`: deletes checkpoints; how many.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::checkpoint_del("k", &[7], WriteOptions::new()).command().name(), "SESSION.CHECKPOINT DEL");
/// ```
pub fn checkpoint_del(key: impl AsRef<[u8]>, ids: &[u64], write: WriteOptions) -> Request<u64> {
    begin_group("SESSION.CHECKPOINT", "DEL", key)
        .arg(ids)
        .write_options(&write)
        .replied(value::count)
}

/// `SESSION.CHECKPOINT RESTORE`: messages, entities, agents and state as they were; the new version.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::checkpoint_restore("k", 7, WriteOptions::new()).command().name(), "SESSION.CHECKPOINT RESTORE");
/// ```
pub fn checkpoint_restore(key: impl AsRef<[u8]>, id: u64, write: WriteOptions) -> Request<u64> {
    begin_group("SESSION.CHECKPOINT", "RESTORE", key)
        .arg(id)
        .write_options(&write)
        .replied(value::count)
}

/// A session that goes on from another: `SESSION.FORK`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Fork, NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("one"))?;
/// connection.session_append("session:1", NewMessage::user("two"))?;
/// connection.session_fork("session:1", "session:2", Fork::new().upto(1))?;
/// assert_eq!(connection.session_len("session:2")?, 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fork {
    options: Options,
    write: WriteOptions,
}

impl Fork {
    /// Forks the session as it is.
    ///
    /// ```
    /// # use redis_session_client::{Fork, request};
    /// let fork = Fork::new();
    /// assert_eq!(request::fork("k", "to", fork).to_string(), "SESSION.FORK k to");
    /// ```
    pub fn new() -> Fork {
        Fork::default()
    }

    /// Takes messages and events only up to this seq.
    ///
    /// ```
    /// # use redis_session_client::{Fork, request};
    /// let fork = Fork::new().upto(41);
    /// assert_eq!(request::fork("k", "to", fork).to_string(), "SESSION.FORK k to UPTO 41");
    /// ```
    pub fn upto(mut self, seq: u64) -> Fork {
        self.options.unset("CHECKPOINT");
        self.options.set("UPTO", seq);
        self
    }

    /// Takes messages, entities, agents and state from this checkpoint.
    ///
    /// ```
    /// # use redis_session_client::{Fork, request};
    /// let fork = Fork::new().checkpoint(41);
    /// assert_eq!(request::fork("k", "to", fork).to_string(), "SESSION.FORK k to CHECKPOINT 41");
    /// ```
    pub fn checkpoint(mut self, id: u64) -> Fork {
        self.options.unset("UPTO");
        self.options.set("CHECKPOINT", id);
        self
    }

    /// Sets the fork's id, in place of a new one.
    ///
    /// ```
    /// # use redis_session_client::{Fork, SessionId, request};
    /// let id = SessionId::new();
    /// let fork = Fork::new().id(id);
    /// assert_eq!(request::fork("k", "to", fork).to_string(), format!("SESSION.FORK k to ID {id}"));
    /// ```
    pub fn id(mut self, id: SessionId) -> Fork {
        self.options.set("ID", id.to_string());
        self
    }

    /// Replaces what is at the destination.
    ///
    /// ```
    /// # use redis_session_client::{Fork, request};
    /// let fork = Fork::new().replace();
    /// assert_eq!(request::fork("k", "to", fork).to_string(), "SESSION.FORK k to REPLACE");
    /// ```
    pub fn replace(mut self) -> Fork {
        self.options.flag("REPLACE");
        self
    }
}

/// `SESSION.FORK`: makes a session that goes on from another; its id. Sealed history is shared, not copied.
///
/// ```
/// # use redis_session_client::{Fork, request};
/// assert_eq!(request::fork("k", "l", Fork::new()).command().name(), "SESSION.FORK");
/// ```
pub fn fork(source: impl AsRef<[u8]>, destination: impl AsRef<[u8]>, fork: Fork) -> Request<SessionId> {
    begin("SESSION.FORK", source)
        .arg(destination.as_ref())
        .options(&fork.options)
        .write_options(&fork.write)
        .replied(value::id)
}

/// What a session did to an entity: `SESSION.ANCHOR ADD`.
///
/// ```
/// use redis_session_client::{NewAnchor, SessionId, request};
///
/// let anchor = NewAnchor::new("s1").outcome("broke").impact("tests fail").perf(-0.1);
/// assert_eq!(request::anchor_add("k", anchor).to_string(), r#"SESSION.ANCHOR ADD k s1 OUTCOME broke IMPACTS 1 "tests fail" PERF -0.1"#);
/// ```
#[derive(Debug, Clone)]
pub struct NewAnchor {
    session_id: String,
    options: Options,
}

impl NewAnchor {
    /// Makes an anchor of this session.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s1");
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s1");
    /// ```
    pub fn new(session_id: impl Into<String>) -> NewAnchor {
        NewAnchor {
            session_id: session_id.into(),
            options: Options::default(),
        }
    }

    /// Sets how it went.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").outcome("pass");
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s OUTCOME pass");
    /// ```
    pub fn outcome(mut self, outcome: impl AsRef<str>) -> NewAnchor {
        self.options.set("OUTCOME", outcome.as_ref());
        self
    }

    /// Sets the checkpoint to go back to.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").checkpoint(41);
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s CHECKPOINT 41");
    /// ```
    pub fn checkpoint(mut self, id: u64) -> NewAnchor {
        self.options.set("CHECKPOINT", id);
        self
    }

    /// Adds a key word for what it did. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").impact("tests fail").impact("slower");
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), r#"SESSION.ANCHOR ADD k s IMPACTS 2 "tests fail" slower"#);
    /// ```
    pub fn impact(mut self, impact: impl AsRef<str>) -> NewAnchor {
        self.options.push_counted("IMPACTS", impact.as_ref());
        self
    }

    /// Sets by how much something measured changed.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").perf(-0.25);
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s PERF -0.25");
    /// ```
    pub fn perf(mut self, delta: f64) -> NewAnchor {
        self.options.set("PERF", delta.to_string());
        self
    }

    /// Keeps this many anchors, the newest, in place of the server's setting.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").max_len(20);
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s MAXLEN 20");
    /// ```
    pub fn max_len(mut self, anchors: u32) -> NewAnchor {
        self.options.set("MAXLEN", anchors);
        self
    }

    /// Keeps no anchor older than this, in place of the server's setting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redis_session_client::{NewAnchor, request};
    /// let anchor = NewAnchor::new("s").max_age(Duration::from_secs(86_400));
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s MAXAGE 86400000");
    /// ```
    pub fn max_age(mut self, age: Duration) -> NewAnchor {
        self.options.set("MAXAGE", ms(age));
        self
    }

    /// Sets its time, in place of now.
    ///
    /// ```
    /// # use redis_session_client::{NewAnchor, Timestamp, request};
    /// let anchor = NewAnchor::new("s").at(Timestamp::from_ms(1_768_384_800_000));
    /// assert_eq!(request::anchor_add("k", anchor).to_string(), "SESSION.ANCHOR ADD k s AT 1768384800000");
    /// ```
    pub fn at(mut self, time: Timestamp) -> NewAnchor {
        self.options.set("AT", time.ms());
        self
    }
}

/// `SESSION.ANCHOR ADD`: adds what a session did to an entity, in place of what it did before; how many are kept.
///
/// ```
/// # use redis_session_client::{NewAnchor, request};
/// assert_eq!(request::anchor_add("anchor:api", NewAnchor::new("s")).command().name(), "SESSION.ANCHOR ADD");
/// ```
pub fn anchor_add(key: impl AsRef<[u8]>, anchor: NewAnchor) -> Request<u64> {
    begin_group("SESSION.ANCHOR", "ADD", key)
        .arg(&anchor.session_id)
        .options(&anchor.options)
        .replied(value::count)
}

/// `SESSION.ANCHOR GET`: what recent sessions did to an entity, newest first; or one of them.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::anchor_get("anchor:api", None).command().name(), "SESSION.ANCHOR GET");
/// ```
pub fn anchor_get(key: impl AsRef<[u8]>, session_id: Option<&str>) -> Request<Vec<Anchor>> {
    let mut options = Options::default();
    if let Some(session) = session_id {
        options.set("SESSION", session);
    }
    begin_group("SESSION.ANCHOR", "GET", key)
        .options(&options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

has_write_options!(NewCheckpoint, Fork);
