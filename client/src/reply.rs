//! What commands reply, typed. Objects keep the fields that they do not know in `other`: a newer module may tell more.

use std::collections::BTreeMap;

use redis::Value;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Map;
use serde_json::value::RawValue;

use crate::{Body, Result, Role, SessionError, SessionId, StoredMessage, Timestamp, value};

/// Further fields of a reply.
type Other = Map<String, serde_json::Value>;

/// What `SESSION.CREATE` made, or found.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Create, SessionCommands};
///
/// let made = connection.session_create("session:1", Create::new())?;
/// let found = connection.session_create("session:1", Create::new().open())?;
/// assert!(made.created && !found.created);
/// assert_eq!(made.id, found.id);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The session's id.
    pub id: SessionId,
    /// The key where it is.
    pub key: Vec<u8>,
    /// Whether it is new.
    pub created: bool,
}

impl Created {
    pub(crate) fn read(reply: Value) -> Result<Created> {
        let (mut id, mut key, mut created) = (None, None, false);
        for (name, value) in value::map(reply)? {
            match name.as_str() {
                "id" => id = Some(value::id(value)?),
                "key" => key = Some(value::bytes(value)?),
                "created" => created = value::int(value)? != 0,
                _ => {}
            }
        }
        Ok(Created {
            id: id.ok_or_else(|| SessionError::unexpected("no id"))?,
            key: key.ok_or_else(|| SessionError::unexpected("no key"))?,
            created,
        })
    }
}

/// What `SESSION.APPEND` did.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Msg, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("one"))?;
/// let appended = connection.session_append("session:1", Msg::user("two").append().maxlen(1).evicted())?;
/// assert_eq!(appended.seq, 2);
/// assert_eq!(appended.evicted[0].message()?.text(), "one");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The seq of the last message.
    pub seq: u64,
    /// What fell out of the window, oldest first; empty unless asked for, and where the append was sent again with its `dedup` token: a
    /// reply that was lost took them along.
    pub evicted: Vec<Body>,
}

impl Appended {
    pub(crate) fn read(reply: Value) -> Result<Appended> {
        match reply {
            Value::Nil => Err(SessionError::NoSession("no session to append to".into())),
            reply @ Value::Array(_) => {
                let [seq, evicted] = value::tuple(reply)?;
                Ok(Appended {
                    seq: value::count(seq)?,
                    evicted: value::list(evicted, value::body)?,
                })
            }
            reply => Ok(Appended {
                seq: value::count(reply)?,
                evicted: Vec::new(),
            }),
        }
    }
}

pub(crate) fn stored_message(reply: Value) -> Result<StoredMessage> {
    let [seq, ms, role, tokens, body] = value::tuple(reply)?;
    Ok(StoredMessage {
        seq: value::count(seq)?,
        at: Timestamp::from_ms(value::int(ms)?),
        role: Role::from(value::text(role)?),
        tokens: value::count(tokens)?,
        body: value::body(body)?,
    })
}

/// What to send to the model now: the reply of `SESSION.CONTEXT`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{ContextOptions, Msg, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let context = connection.session_context("session:1", ContextOptions::new().max_tokens(1000))?.expect("it is there");
/// assert_eq!((context.messages.len(), context.omitted), (1, 0));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// Bodies, oldest first.
    pub messages: Vec<Body>,
    /// How many tokens they count as.
    pub tokens: u64,
    /// How many messages that match were left out.
    pub omitted: u64,
    /// The most recently mentioned entities, if asked for.
    pub entities: Vec<Entity>,
}

impl Context {
    pub(crate) fn read(reply: Value) -> Result<Context> {
        let mut context = Context::default();
        for (name, value) in value::map(reply)? {
            match name.as_str() {
                "messages" => context.messages = value::list(value, value::body)?,
                "tokens" => context.tokens = value::count(value)?,
                "omitted" => context.omitted = value::count(value)?,
                "entities" => context.entities = value::list(value, value::json)?,
                _ => {}
            }
        }
        Ok(context)
    }
}

/// An entity that the conversation mentions.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Mention, SessionCommands};
///
/// connection.session_entity_mention("session:1", Mention::new("u7").name("Ada").entity_type("person"))?;
/// let ada = connection.session_entity_get("session:1", "u7")?.expect("she was mentioned");
/// assert_eq!((ada.entity_name.as_str(), ada.mention_count), ("Ada", 1));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// Its id.
    pub entity_id: String,
    /// Its name.
    pub entity_name: String,
    /// Its type: `person`, `organization`, … or `unknown`.
    pub entity_type: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// How often it was mentioned.
    pub mention_count: u64,
    /// When last.
    pub last_mentioned: Timestamp,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// From which state to which.
///
/// ```
/// use redis_session_client::StateTransition;
///
/// let moved: StateTransition = serde_json::from_str(r#"{"from":"working","to":"broke"}"#)?;
/// assert_eq!(moved.to, "broke");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTransition {
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
}

/// Something that was recorded in a session.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{EventQuery, NewEvent, SessionCommands};
///
/// connection.session_event_add("session:1", NewEvent::new("broke").agent("builder").state("broke").entity("api"))?;
/// let event = &connection.session_event_range("session:1", EventQuery::all())?[0];
/// assert_eq!(event.agent_id.as_deref(), Some("builder"));
/// assert_eq!(event.entity_ids(), ["api"]);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its number, never reused.
    pub seq: u64,
    /// When it happened.
    pub timestamp: Timestamp,
    /// What kind of thing happened: free text.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_info: Option<Other>,
    /// What that means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<Other>,
    /// How the session's state moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_transition: Option<StateTransition>,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

impl Event {
    /// The entities that it touched: `changeInfo.entityIds`.
    ///
    /// ```
    /// use redis_session_client::Event;
    ///
    /// let event: Event = serde_json::from_str(
    ///     r#"{"seq":1,"timestamp":"2026-01-14T10:00:00.000Z","type":"modified","changeInfo":{"entityIds":["api"]}}"#,
    /// )?;
    /// assert_eq!(event.entity_ids(), ["api"]);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn entity_ids(&self) -> Vec<&str> {
        let ids = self
            .change_info
            .as_ref()
            .and_then(|info| info.get("entityIds")?.as_array());
        ids.into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_str)
            .collect()
    }
}

/// An agent that joined a session.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Join, SessionCommands};
///
/// connection.session_agent_join("session:1", Join::new("planner"))?;
/// assert_eq!(connection.session_agent_list("session:1")?[0].agent_id, "planner");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    #[serde(rename = "agentId")]
    pub agent_id: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it did something last.
    pub last_seen: Timestamp,
    /// What it said of itself.
    #[serde(default)]
    pub meta: Option<Other>,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// What `SESSION.AGENT HANDOFF` did.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Handoff, Msg, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let handed = connection.session_agent_handoff("session:1", Handoff::new("triage", "billing").note("a refund"))?;
/// assert_eq!((handed.seq, handed.lease), (2, None));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOff {
    /// The seq of the event.
    pub seq: u64,
    /// The fencing token of the next agent, if the one before had the turn.
    pub lease: Option<u64>,
}

impl HandedOff {
    pub(crate) fn read(reply: Value) -> Result<HandedOff> {
        let [seq, token] = value::tuple(reply)?;
        Ok(HandedOff {
            seq: value::count(seq)?,
            lease: Some(value::count(token)?).filter(|&token| token != 0),
        })
    }
}

/// A checkpoint, and in the same shape the recovery reference that outlives the session.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Msg, NewCheckpoint, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let id = connection.session_checkpoint_create("session:1", NewCheckpoint::new().label("greeted"))?;
/// let checkpoint = connection.session_checkpoint_get("session:1", id)?.expect("it was just made");
/// assert_eq!(checkpoint.label.as_deref(), Some("greeted"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The session.
    pub session_id: SessionId,
    /// The checkpoint's id: a seq.
    pub checkpoint_id: u64,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The entities that it is about.
    #[serde(default)]
    pub ref_entities: Vec<String>,
    /// `{"impacts":…}`, or what was given.
    #[serde(default)]
    pub summary: serde_json::Value,
    /// How it ended.
    #[serde(default)]
    pub outcome: Option<String>,
    /// The session's state then.
    #[serde(default)]
    pub state: Option<String>,
    /// A name.
    #[serde(default)]
    pub label: Option<String>,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// What a session did to an entity.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewAnchor, SessionCommands, SessionId};
///
/// let session = SessionId::new();
/// connection.session_anchor_add("anchor:api", NewAnchor::new(session.to_string()).outcome("broke").perf(-0.25))?;
/// let anchor = &connection.session_anchor_get("anchor:api", None)?[0];
/// assert_eq!((anchor.outcome.as_deref(), anchor.perf_delta), (Some("broke"), Some(-0.25)));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anchor {
    /// The session, as it was named.
    pub session_id: String,
    /// How it ended.
    #[serde(default)]
    pub outcome: Option<String>,
    /// The checkpoint to go back to.
    #[serde(default)]
    pub checkpoint_id: Option<u64>,
    /// What it did, in key words.
    #[serde(default)]
    pub key_impacts: Vec<String>,
    /// By how much something measured changed.
    #[serde(default)]
    pub perf_delta: Option<f64>,
    /// When.
    pub timestamp: Timestamp,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// Where a directory says a session is.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Create, SessionCommands};
///
/// connection.session_create("session:{acme}:1", Create::new().index("sessions:{acme}").alias("ada"))?;
/// let found = connection.session_index_resolve("sessions:{acme}", "ada")?.expect("it is registered");
/// assert_eq!(found.key, b"session:{acme}:1");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The session's id.
    pub id: SessionId,
    /// Its key.
    pub key: Vec<u8>,
    /// Its alias.
    pub alias: Option<String>,
}

impl Resolved {
    pub(crate) fn read(reply: Value) -> Result<Resolved> {
        let (mut id, mut key, mut alias) = (None, None, None);
        for (name, value) in value::map(reply)? {
            match name.as_str() {
                "id" => id = Some(value::id(value)?),
                "key" => key = Some(value::bytes(value)?),
                "alias" => alias = value::optional(value, value::text)?,
                _ => {}
            }
        }
        Ok(Resolved {
            id: id.ok_or_else(|| SessionError::unexpected("no id"))?,
            key: key.ok_or_else(|| SessionError::unexpected("no key"))?,
            alias,
        })
    }
}

/// A session as a directory lists it.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Create, IndexQuery, SessionCommands};
///
/// connection.session_create("session:{acme}:1", Create::new().index("sessions:{acme}").alias("ada"))?;
/// let listed = connection.session_index_list("sessions:{acme}", IndexQuery::all())?;
/// assert_eq!((listed[0].key.as_str(), listed[0].message_count), ("session:{acme}:1", 0));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The session's id.
    pub id: SessionId,
    /// Its key.
    pub key: String,
    /// Its alias.
    #[serde(default)]
    pub alias: Option<String>,
    /// Whether the alias was made up rather than chosen.
    #[serde(default)]
    pub autoname: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was active last.
    pub last_activity: Timestamp,
    /// Its state.
    pub state: String,
    /// How many messages it has.
    pub message_count: u64,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// What follows a seq: an entry of `SESSION.READ`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{EntryKind, Msg, Read, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let entries = connection.session_read("session:1", Read::after(0))?;
/// assert!(matches!(&entries[0].kind, EntryKind::Message(body) if body.message()?.text() == "hello"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its seq; of a gap the last one missing, of a reset 0. What stands inside a gap follows it: go on reading after the last entry
    /// of a reply, not after the greatest seq.
    pub seq: u64,
    /// When it was recorded; of gaps and resets, when it was noticed.
    pub at: Timestamp,
    /// What it is.
    pub kind: EntryKind,
}

/// What an [`Entry`] is.
///
/// ```
/// use redis_session_client::EntryKind;
///
/// let gap = EntryKind::Gap { from: 3, to: 9 };
/// assert!(matches!(gap, EntryKind::Gap { from: 3, .. }));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A message.
    Message(Body),
    /// An event.
    Event(Box<Event>),
    /// A checkpoint.
    Checkpoint(Box<Checkpoint>),
    /// Something of what was asked for is gone before it was read.
    Gap {
        /// The first seq after the one that was asked for.
        from: u64,
        /// The last seq that is missing.
        to: u64,
    },
    /// There is another session at this key than the one that was read from.
    Reset {
        /// The session that is there now.
        session_id: SessionId,
    },
    /// Something that a newer module records.
    Other {
        /// What it calls it.
        kind: String,
        /// What it says.
        json: Body,
    },
}

impl Entry {
    pub(crate) fn read(reply: Value) -> Result<Entry> {
        #[derive(Deserialize)]
        struct Gap {
            from: u64,
            to: u64,
        }
        #[derive(Deserialize)]
        struct Reset {
            session_id: SessionId,
        }
        let [seq, ms, kind, json] = value::tuple(reply)?;
        let kind = match value::text(kind)?.as_str() {
            "message" => EntryKind::Message(value::body(json)?),
            "event" => EntryKind::Event(value::json(json)?),
            "checkpoint" => EntryKind::Checkpoint(value::json(json)?),
            "gap" => {
                let Gap { from, to } = value::json(json)?;
                EntryKind::Gap { from, to }
            }
            "reset" => {
                let Reset { session_id } = value::json(json)?;
                EntryKind::Reset { session_id }
            }
            other => EntryKind::Other {
                kind: other.to_owned(),
                json: value::body(json)?,
            },
        };
        Ok(Entry {
            seq: value::count(seq)?,
            at: Timestamp::from_ms(value::int(ms)?),
            kind,
        })
    }
}

/// What `SESSION.MIGRATE` found and did.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Migrate, SessionCommands};
///
/// redis::cmd("RPUSH").arg("chat:1").arg(r#"{"role":"user","content":"hi"}"#).exec(&mut connection)?;
/// let migrated = connection.session_migrate("chat:1", Migrate::new())?;
/// assert_eq!((migrated.messages, migrated.removed), (1, 1));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migrated {
    /// The layout, or `rdsession` if it was a session already.
    pub format: String,
    /// How many messages.
    pub messages: u64,
    /// How many elements were set aside because they are not JSON objects.
    pub malformed: u64,
    /// How many entities.
    pub entities: u64,
    /// How many events.
    pub events: u64,
    /// How many tokens.
    pub tokens: u64,
    /// How many source keys are gone.
    pub removed: u64,
}

impl Migrated {
    pub(crate) fn read(reply: Value) -> Result<Migrated> {
        let mut migrated = Migrated::default();
        for (name, value) in value::map(reply)? {
            let field = match name.as_str() {
                "format" => {
                    migrated.format = value::text(value)?;
                    continue;
                }
                "messages" => &mut migrated.messages,
                "malformed" => &mut migrated.malformed,
                "entities" => &mut migrated.entities,
                "events" => &mut migrated.events,
                "tokens" => &mut migrated.tokens,
                "removed" => &mut migrated.removed,
                _ => continue,
            };
            *field = value::count(value)?;
        }
        Ok(migrated)
    }
}

/// The scalars of a session, of `SESSION.INFO`, by name: numbers, texts and null.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Msg, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let info = connection.session_info("session:1")?.expect("it is there");
/// assert_eq!(info.number("message_count"), Some(1));
/// assert_eq!(info.text("state"), Some("working"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionInfo(pub BTreeMap<String, serde_json::Value>);

impl SessionInfo {
    pub(crate) fn read(reply: Value) -> Result<SessionInfo> {
        let fields = value::map(reply)?;
        Ok(SessionInfo(
            fields
                .into_iter()
                .map(|(name, value)| (name, value::to_json(value)))
                .collect(),
        ))
    }

    /// A field that is a number.
    ///
    /// ```
    /// # use redis_session_client::SessionInfo;
    /// assert_eq!(SessionInfo::default().number("version"), None);
    /// ```
    pub fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }

    /// A field that is a text.
    ///
    /// ```
    /// # use redis_session_client::SessionInfo;
    /// assert_eq!(SessionInfo::default().text("state"), None);
    /// ```
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

/// The limits of a session: how many, how old. 0 is no limit. By their names in `LIMIT`.
///
/// ```
/// # use redis_session_client::Limits;
/// assert_eq!(Limits::default().get("maxlen"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(pub Other);

impl Limits {
    /// The limit of this name, as in `LIMIT`.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{Create, SessionCommands};
    ///
    /// connection.session_create("session:1", Create::new().limit("maxlen", 100))?;
    /// let document = connection.session_get("session:1", Some(0))?.expect("it is there");
    /// assert_eq!(document.limits.get("maxlen"), Some(100));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }
}

/// How many events a session has, and which.
///
/// ```
/// # use redis_session_client::EventCounts;
/// let counts: EventCounts = serde_json::from_str(r#"{"count":2,"first_seq":3,"last_seq":9}"#)?;
/// assert_eq!(counts.last_seq, Some(9));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCounts {
    /// How many.
    pub count: u64,
    /// The oldest one's seq.
    pub first_seq: Option<u64>,
    /// The newest one's seq.
    pub last_seq: Option<u64>,
}

/// Who has the turn.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use std::time::Duration;
/// use redis_session_client::{Create, SessionCommands};
///
/// connection.session_create("session:1", Create::new())?;
/// let token = connection.session_agent_lease("session:1", "planner", Duration::from_secs(5))?;
/// let lease = connection.session_get("session:1", None)?.and_then(|session| session.lease).expect("it is held");
/// assert_eq!((lease.agent_id.as_str(), lease.token), ("planner", token));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The agent.
    #[serde(rename = "agentId")]
    pub agent_id: String,
    /// Its fencing token.
    pub token: u64,
    /// Until when.
    pub expires_at: Timestamp,
}

/// A whole session: the document of `SESSION.GET`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Msg, SessionCommands};
///
/// connection.session_append("session:1", Msg::user("hello"))?;
/// let session = connection.session_get("session:1", None)?.expect("it is there");
/// assert_eq!((session.version, session.messages.len()), (2, 1));
/// assert_eq!(session.messages[0].message()?.text(), "hello");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SessionDocument {
    /// The id, for life.
    pub session_id: SessionId,
    /// The scope.
    pub scope: Option<String>,
    /// The alias in its directory.
    pub alias: Option<String>,
    /// The state.
    pub state: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something was done with it last.
    pub last_activity: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// The version.
    pub version: u64,
    /// The last seq that was given.
    pub last_seq: u64,
    /// The limits.
    pub limits: Limits,
    /// How many messages it has.
    pub message_count: u64,
    /// How many messages of users there were.
    pub query_count: u64,
    /// How often its expiry was extended.
    pub ttl_extended_count: u64,
    /// The newest messages, oldest first, byte for byte.
    pub messages: Vec<Body>,
    /// The entities by their ids.
    pub entities_mentioned: BTreeMap<String, Entity>,
    /// The agents.
    pub agents: Vec<Agent>,
    /// How many events.
    pub events: EventCounts,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Who has the turn, and until when.
    pub lease: Option<Lease>,
    /// Whatever was noted.
    pub meta: Other,
    /// Every other field.
    pub other: Other,
}

impl SessionDocument {
    pub(crate) fn read(reply: Value) -> Result<SessionDocument> {
        value::json(reply)
    }
}

// By hand, since messages stay as they are written, which serde cannot do beside a flattened rest.
impl<'de> Deserialize<'de> for SessionDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<SessionDocument, D::Error> {
        let mut fields: BTreeMap<String, Box<RawValue>> = Deserialize::deserialize(deserializer)?;
        macro_rules! field {
            ($name:literal) => {
                match fields.remove($name) {
                    Some(raw) => value::parse(raw.get().as_bytes())
                        .map_err(|error| D::Error::custom(format_args!("{}: {error}", $name)))?,
                    None => return Err(D::Error::missing_field($name)),
                }
            };
            ($name:literal, $absent:expr) => {
                match fields.remove($name) {
                    Some(raw) if raw.get() != "null" => value::parse(raw.get().as_bytes())
                        .map_err(|error| D::Error::custom(format_args!("{}: {error}", $name)))?,
                    _ => $absent,
                }
            };
        }
        let messages: Vec<Box<RawValue>> = field!("messages", Vec::new());
        Ok(SessionDocument {
            session_id: field!("session_id"),
            scope: field!("scope", None),
            alias: field!("alias", None),
            state: field!("state"),
            created_at: field!("created_at"),
            last_activity: field!("last_activity"),
            expires_at: field!("expires_at", None),
            closed_at: field!("closed_at", None),
            version: field!("version"),
            last_seq: field!("last_seq"),
            limits: field!("limits", Limits::default()),
            message_count: field!("message_count"),
            query_count: field!("query_count", 0),
            ttl_extended_count: field!("ttl_extended_count", 0),
            messages: messages.iter().map(|raw| Body::from(raw.get())).collect(),
            entities_mentioned: field!("entities_mentioned", BTreeMap::new()),
            agents: field!("agents", Vec::new()),
            events: field!("events", EventCounts::default()),
            checkpoints: field!("checkpoints", Vec::new()),
            lease: field!("lease", None),
            meta: field!("meta", Other::new()),
            other: fields
                .into_iter()
                .map(|(name, raw)| Ok((name, value::parse(raw.get().as_bytes()).map_err(D::Error::custom)?)))
                .collect::<std::result::Result<_, D::Error>>()?,
        })
    }
}
