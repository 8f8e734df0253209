//! The replies of commands as types. Each keeps the fields that it does not know in `other`: a newer module may send more.

use std::collections::BTreeMap;

use redis::Value;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use serde_json::value::RawValue;

use crate::value::{self, Fields, FromFields, Mode};
use crate::{Body, Limit, MessageRole, Result, SessionError, SessionId, StoredMessage, Timestamp};

/// Further fields of a reply.
type Other = Map<String, serde_json::Value>;

/// A time that the tolerant mode could not read.
const UNKNOWN_TIME: Timestamp = Timestamp::from_ms(0);

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
#[non_exhaustive]
pub struct Created {
    /// The session's id.
    pub id: SessionId,
    /// The key where it is.
    pub key: Vec<u8>,
    /// Whether it is new.
    pub created: bool,
    /// Every other field.
    pub other: Other,
}

impl Created {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<Created> {
        let (mut id, mut key, mut created, mut other) = (None, None, false, Other::new());
        for (name, value) in value::map(reply, mode)? {
            match name.as_str() {
                "id" => id = Some(value::id(value, mode)?),
                "key" => key = Some(value::bytes(value)?),
                "created" => created = value::or_default(value::int(value), mode)? != 0,
                _ => {
                    other.insert(name, value::to_json(value));
                }
            }
        }
        Ok(Created {
            id: id.ok_or_else(|| SessionError::unexpected("no id"))?,
            key: key.ok_or_else(|| SessionError::unexpected("no key"))?,
            created,
            other,
        })
    }
}

/// What `SESSION.APPEND` did.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("one"))?;
/// let appended = connection.session_append("session:1", NewMessage::user("two").append().max_len(1).evicted())?;
/// assert_eq!(appended.seq, 2);
/// assert_eq!(appended.evicted[0].message()?.text(), "one");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The seq of the last message.
    pub seq: u64,
    /// What fell out of the window, oldest first; empty unless asked for, and where the append was sent again with its `dedup` token: a
    /// reply that was lost took them along.
    pub evicted: Vec<Body>,
}

impl Appended {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<Appended> {
        match reply {
            Value::Nil => Err(SessionError::NoSession("no session to append to".into())),
            reply @ Value::Array(_) => {
                let [seq, evicted] = value::tuple(reply)?;
                Ok(Appended {
                    seq: value::count(seq, mode)?,
                    evicted: value::or_default(value::list(evicted, mode, value::body), mode)?,
                })
            }
            reply => Ok(Appended {
                seq: value::count(reply, mode)?,
                evicted: Vec::new(),
            }),
        }
    }
}

pub(crate) fn stored_message(reply: Value, mode: Mode) -> Result<StoredMessage> {
    let [seq, ms, role, tokens, body] = value::tuple(reply)?;
    Ok(StoredMessage {
        seq: value::count(seq, mode)?,
        at: Timestamp::from_ms(value::or_default(value::int(ms), mode)?),
        role: MessageRole::from(value::or_default(value::text(role, mode), mode)?),
        tokens: value::or_default(value::count(tokens, mode), mode)?,
        body: value::body(body, mode)?,
    })
}

/// What to send to the model now: the reply of `SESSION.CONTEXT`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{ContextOptions, NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let context = connection.session_context("session:1", ContextOptions::new().max_tokens(1000))?.expect("it is there");
/// assert_eq!((context.messages.len(), context.omitted), (1, 0));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionContext {
    /// Bodies, oldest first.
    pub messages: Vec<Body>,
    /// How many tokens they count as.
    pub tokens: u64,
    /// The number of messages that match and were left out.
    pub omitted: u64,
    /// The most recently mentioned entities, if asked for.
    pub entities: Vec<Entity>,
    /// Every other field.
    pub other: Other,
}

impl SessionContext {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<SessionContext> {
        let mut context = SessionContext::default();
        for (name, value) in value::map(reply, mode)? {
            match name.as_str() {
                "messages" => context.messages = value::or_default(value::list(value, mode, value::body), mode)?,
                "tokens" => context.tokens = value::or_default(value::count(value, mode), mode)?,
                "omitted" => context.omitted = value::or_default(value::count(value, mode), mode)?,
                "entities" => context.entities = value::or_default(value::list(value, mode, value::object), mode)?,
                _ => {
                    context.other.insert(name, value::to_json(value));
                }
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Entity {
    /// Its id.
    pub entity_id: String,
    /// Its name.
    pub entity_name: String,
    /// Its type: `person`, `organization`, … or `unknown`.
    pub entity_type: String,
    /// Other names.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StateTransition {
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// Its number, never reused.
    pub seq: u64,
    /// When it happened.
    pub timestamp: Timestamp,
    /// What kind of thing happened: free text.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_info: Option<Other>,
    /// What that means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impact: Option<Other>,
    /// How the session's state moved.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Agent {
    /// Its name.
    #[serde(rename = "agentId")]
    pub agent_id: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it did something last.
    pub last_seen: Timestamp,
    /// What it said of itself.
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
/// use redis_session_client::{Handoff, NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let handed = connection.session_agent_handoff("session:1", Handoff::new("triage", "billing").note("a refund"))?;
/// assert_eq!((handed.seq, handed.lease), (2, None));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandedOff {
    /// The seq of the event.
    pub seq: u64,
    /// The fencing token of the next agent, if the one before had the turn.
    pub lease: Option<u64>,
}

impl HandedOff {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<HandedOff> {
        let [seq, token] = value::tuple(reply)?;
        let token = value::or_default(value::count(token, mode), mode)?;
        Ok(HandedOff {
            seq: value::count(seq, mode)?,
            lease: Some(token).filter(|&token| token != 0),
        })
    }
}

/// A checkpoint, and in the same shape the recovery reference that outlives the session.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, NewCheckpoint, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let id = connection.session_checkpoint_create("session:1", NewCheckpoint::new().label("greeted"))?;
/// let checkpoint = connection.session_checkpoint_get("session:1", id)?.expect("it was just made");
/// assert_eq!(checkpoint.label.as_deref(), Some("greeted"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Checkpoint {
    /// The session.
    pub session_id: SessionId,
    /// The checkpoint's id: a seq.
    pub checkpoint_id: u64,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The entities that it is about.
    pub ref_entities: Vec<String>,
    /// `{"impacts":…}`, or what was given.
    pub summary: serde_json::Value,
    /// How it ended.
    pub outcome: Option<String>,
    /// The session's state then.
    pub state: Option<String>,
    /// A name.
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Anchor {
    /// The session, as it was named.
    pub session_id: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// The checkpoint to go back to.
    pub checkpoint_id: Option<u64>,
    /// What it did, in key words.
    pub key_impacts: Vec<String>,
    /// By how much something measured changed.
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
#[non_exhaustive]
pub struct Resolved {
    /// The session's id.
    pub id: SessionId,
    /// Its key.
    pub key: Vec<u8>,
    /// Its alias.
    pub alias: Option<String>,
    /// Every other field.
    pub other: Other,
}

impl Resolved {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<Resolved> {
        let (mut id, mut key, mut alias, mut other) = (None, None, None, Other::new());
        for (name, value) in value::map(reply, mode)? {
            match name.as_str() {
                "id" => id = value::or_default(value::id(value, mode).map(Some), mode)?,
                "key" => key = Some(value::bytes(value)?),
                "alias" => alias = value::or_default(value::optional(value, mode, value::text), mode)?,
                _ => {
                    other.insert(name, value::to_json(value));
                }
            }
        }
        if mode.is_tolerant() {
            id.get_or_insert(SessionId::unknown());
        }
        Ok(Resolved {
            id: id.ok_or_else(|| SessionError::unexpected("no id"))?,
            key: key.ok_or_else(|| SessionError::unexpected("no key"))?,
            alias,
            other,
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The session's id.
    pub id: SessionId,
    /// Its key.
    pub key: String,
    /// Its alias.
    pub alias: Option<String>,
    /// Whether the alias was made up rather than chosen.
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
/// use redis_session_client::{EntryKind, NewMessage, ReadOptions, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let entries = connection.session_read("session:1", ReadOptions::after(0))?;
/// assert!(matches!(&entries[0].kind, EntryKind::Message(body) if body.message()?.text() == "hello"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionEntry {
    /// Its seq; of a gap the last one missing, of a reset 0. What stands inside a gap follows it: go on reading after the last entry
    /// of a reply, not after the greatest seq.
    pub seq: u64,
    /// When it was recorded; of gaps and resets, when it was noticed.
    pub at: Timestamp,
    /// What it is.
    pub kind: EntryKind,
}

/// What a [`SessionEntry`] is.
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
    /// Entries of what was asked for are gone before they were read.
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
    /// An entry of a kind that this version does not know; read tolerantly, also one whose JSON does not fit its kind.
    Other {
        /// The kind.
        kind: String,
        /// The JSON.
        json: Body,
    },
}

impl SessionEntry {
    /// What `SESSION.READ` says where another session is at the key, for programs that find it out in another way.
    ///
    /// ```
    /// # use redis_session_client::{SessionEntry, EntryKind, SessionId, Timestamp};
    /// let reset = SessionEntry::reset(SessionId::new(), Timestamp::now());
    /// assert!(matches!(reset.kind, EntryKind::Reset { .. }));
    /// ```
    pub fn reset(session_id: SessionId, at: Timestamp) -> SessionEntry {
        SessionEntry {
            seq: 0,
            at,
            kind: EntryKind::Reset { session_id },
        }
    }

    pub(crate) fn read(reply: Value, mode: Mode) -> Result<SessionEntry> {
        let raw = RawEntry::read(reply, mode)?;
        match mode {
            Mode::Strict => raw.entry(),
            Mode::Tolerant => Ok(raw.tolerant_entry()),
        }
    }
}

/// A [`SessionEntry`] as the server sent it: for programs that show what they do not know.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{EntryKind, ReadOptions, request};
///
/// let event = request::read_raw("session:1", ReadOptions::after(2)).query(&mut connection)?.remove(0);
/// assert_eq!((event.seq, event.kind.as_str()), (3, "event"));
/// assert!(event.json.as_str().starts_with(r#"{"seq":3,"#));
/// assert!(matches!(event.tolerant_entry().kind, EntryKind::Event(_)));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawEntry {
    /// Its seq, as of a [`SessionEntry`].
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The word for what it is: `message`, `event`, `checkpoint`, `gap`, `reset`, or one of a newer module.
    pub kind: String,
    /// The JSON, byte for byte.
    pub json: Body,
}

impl RawEntry {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<RawEntry> {
        let [seq, ms, kind, json] = value::tuple(reply)?;
        Ok(RawEntry {
            seq: value::count(seq, mode)?,
            at: Timestamp::from_ms(value::int(ms)?),
            kind: value::text(kind, mode)?,
            json: value::body(json, mode)?,
        })
    }

    /// Reads the JSON.
    ///
    /// # Errors
    /// [`SessionError::UnexpectedReply`] if it is not what its kind says.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// # use redis_session_client::{EntryKind, ReadOptions, request};
    /// let message = request::read_raw("session:1", ReadOptions::after(0)).query(&mut connection)?.remove(0);
    /// assert!(matches!(message.entry()?.kind, EntryKind::Message(_)));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn entry(self) -> Result<SessionEntry> {
        match self.kind_in(Mode::Strict) {
            Some(kind) => kind
                .map(|kind| self.with(kind))
                .map_err(|error| error.of_command("SESSION.READ")),
            None => Ok(self.unread()),
        }
    }

    /// Reads the JSON tolerantly: what is not what its kind says is [`EntryKind::Other`]; a gap that does not say where it begins and ends
    /// is one of its own seq, a reset that does not name its session has [`SessionId::unknown`].
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// # use redis_session_client::{EntryKind, ReadOptions, request};
    /// let mut event = request::read_raw("session:1", ReadOptions::after(2)).query(&mut connection)?.remove(0);
    /// event.json = "no JSON".into();
    /// assert!(matches!(event.tolerant_entry().kind, EntryKind::Other { kind, .. } if kind == "event"));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn tolerant_entry(self) -> SessionEntry {
        match self.kind_in(Mode::Tolerant) {
            Some(Ok(kind)) => self.with(kind),
            _ => self.unread(),
        }
    }

    /// What the JSON says, of the kinds that are more than JSON.
    fn kind_in(&self, mode: Mode) -> Option<Result<EntryKind>> {
        let json = self.json.as_bytes();
        match self.kind.as_str() {
            "event" => Some(value::object_of(json, mode).map(EntryKind::Event)),
            "checkpoint" => Some(value::object_of(json, mode).map(EntryKind::Checkpoint)),
            "gap" => Some(gap(json, self.seq, mode)),
            "reset" => Some(reset(json, mode)),
            _ => None,
        }
    }

    fn with(&self, kind: EntryKind) -> SessionEntry {
        SessionEntry {
            seq: self.seq,
            at: self.at,
            kind,
        }
    }

    fn unread(self) -> SessionEntry {
        let (seq, at) = (self.seq, self.at);
        let kind = match self.kind.as_str() {
            "message" => EntryKind::Message(self.json),
            _ => EntryKind::Other {
                kind: self.kind,
                json: self.json,
            },
        };
        SessionEntry { seq, at, kind }
    }
}

fn gap(json: &[u8], seq: u64, mode: Mode) -> Result<EntryKind> {
    let mut fields = value::fields(json, mode)?;
    let ends = fields
        .sent("from", seq)
        .and_then(|from| Ok((from, fields.sent("to", seq)?)));
    let (from, to) = ends.map_err(SessionError::unexpected)?;
    Ok(EntryKind::Gap { from, to })
}

fn reset(json: &[u8], mode: Mode) -> Result<EntryKind> {
    let mut fields = value::fields(json, mode)?;
    let session_id = fields.sent("session_id", SessionId::unknown());
    let session_id = session_id.map_err(SessionError::unexpected)?;
    Ok(EntryKind::Reset { session_id })
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
#[non_exhaustive]
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
    /// Every other field.
    pub other: Other,
}

impl Migrated {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<Migrated> {
        let mut migrated = Migrated::default();
        for (name, value) in value::map(reply, mode)? {
            let field = match name.as_str() {
                "format" => {
                    migrated.format = value::or_default(value::text(value, mode), mode)?;
                    continue;
                }
                "messages" => &mut migrated.messages,
                "malformed" => &mut migrated.malformed,
                "entities" => &mut migrated.entities,
                "events" => &mut migrated.events,
                "tokens" => &mut migrated.tokens,
                "removed" => &mut migrated.removed,
                _ => {
                    migrated.other.insert(name, value::to_json(value));
                    continue;
                }
            };
            *field = value::or_default(value::count(value, mode), mode)?;
        }
        Ok(migrated)
    }
}

/// The scalars of a session, of `SESSION.INFO`, by name: numbers, texts and null.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let info = connection.session_info("session:1")?.expect("it is there");
/// assert_eq!(info.number("message_count"), Some(1));
/// assert_eq!(info.text("state"), Some("working"));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SessionInfo(pub BTreeMap<String, serde_json::Value>);

impl SessionInfo {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<SessionInfo> {
        let fields = value::map(reply, mode)?;
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

/// The limits of a session, by their names in `LIMIT`; those of a newer module, too.
///
/// ```
/// # use redis_session_client::{Limit, Limits};
/// let limits: Limits = serde_json::from_str(r#"{"maxlen":20,"max-new":3}"#)?;
/// assert_eq!(limits.get(&Limit::MaxLen), Some(20));
/// assert_eq!(limits.get(&Limit::Other("max-new".into())), Some(3));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(Other);

impl Limits {
    /// What this limit is; `None` where the module does not tell it.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{Limit, SessionCommands};
    ///
    /// let session = connection.session_get("session:1", Some(0))?.expect("it is there");
    /// assert_eq!(session.limits.get(&Limit::MaxLen), Some(20));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn get(&self, limit: &Limit) -> Option<u64> {
        self.0.get(limit.as_str())?.as_u64()
    }

    /// Each limit that the module tells, and what it is.
    ///
    /// ```
    /// # let server = redis_session_tests::Server::with_sample();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{Limit, SessionCommands};
    ///
    /// let session = connection.session_get("session:1", Some(0))?.expect("it is there");
    /// assert!(session.limits.iter().any(|(limit, most)| (limit, most) == (Limit::MaxCheckpoints, 16)));
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        self.0
            .iter()
            .filter_map(|(name, most)| Some((Limit::from(name.as_str()), most.as_u64()?)))
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct EventCounts {
    /// How many.
    pub count: u64,
    /// The oldest one's seq.
    pub first_seq: Option<u64>,
    /// The newest one's seq.
    pub last_seq: Option<u64>,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// The holder of the lease.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lease {
    /// The agent.
    #[serde(rename = "agentId")]
    pub agent_id: String,
    /// Its fencing token.
    pub token: u64,
    /// Until when.
    pub expires_at: Timestamp,
    /// Every other field.
    #[serde(flatten)]
    pub other: Other,
}

/// A whole session: the document of `SESSION.GET`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let session = connection.session_get("session:1", None)?.expect("it is there");
/// assert_eq!((session.version, session.messages.len()), (2, 1));
/// assert_eq!(session.messages[0].message()?.text(), "hello");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
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
    /// The holder of the lease, and when it ends.
    pub lease: Option<Lease>,
    /// Whatever was noted.
    pub meta: Other,
    /// Every other field.
    pub other: Other,
}

impl SessionDocument {
    pub(crate) fn read(reply: Value, mode: Mode) -> Result<SessionDocument> {
        let bytes = value::bytes(reply)?;
        value::parse_in(&bytes, mode)
            .and_then(|fields| SessionDocument::of(fields, mode))
            .map_err(|error| value::in_json(&error, &bytes))
    }

    /// Messages stay as they are written, which serde cannot do beside fields that it does not know.
    fn of(mut raw: BTreeMap<String, Box<RawValue>>, mode: Mode) -> serde_json::Result<SessionDocument> {
        let messages = match raw.remove("messages") {
            None => Ok(None),
            Some(messages) => value::parse_in::<Option<Vec<Box<RawValue>>>>(messages.get().as_bytes(), mode),
        };
        let messages = match messages {
            Err(_) if mode.is_tolerant() => None,
            messages => messages?,
        };
        let fields = raw.into_iter().map(|(name, raw)| {
            let read = value::parse_in(raw.get().as_bytes(), mode);
            Ok((name, read?))
        });
        let mut fields = Fields::new(fields.collect::<serde_json::Result<Other>>()?, mode);
        Ok(SessionDocument {
            session_id: fields.sent("session_id", SessionId::unknown())?,
            scope: fields.may("scope")?,
            alias: fields.may("alias")?,
            state: fields.sent("state", String::new())?,
            created_at: fields.sent("created_at", UNKNOWN_TIME)?,
            last_activity: fields.sent("last_activity", UNKNOWN_TIME)?,
            expires_at: fields.may("expires_at")?,
            closed_at: fields.may("closed_at")?,
            version: fields.sent("version", 0)?,
            last_seq: fields.sent("last_seq", 0)?,
            limits: fields.may("limits")?,
            message_count: fields.sent("message_count", 0)?,
            query_count: fields.may("query_count")?,
            ttl_extended_count: fields.may("ttl_extended_count")?,
            messages: messages.iter().flatten().map(|raw| Body::from(raw.get())).collect(),
            entities_mentioned: fields.objects_by_name("entities_mentioned")?,
            agents: fields.objects("agents")?,
            events: fields.may_object("events")?.unwrap_or_default(),
            checkpoints: fields.objects("checkpoints")?,
            lease: fields.may_object("lease")?,
            meta: fields.may("meta")?,
            other: fields.other(),
        })
    }
}

impl<'de> Deserialize<'de> for SessionDocument {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<SessionDocument, D::Error> {
        let fields = Deserialize::deserialize(deserializer)?;
        SessionDocument::of(fields, Mode::Strict).map_err(serde::de::Error::custom)
    }
}

impl FromFields for Entity {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Entity> {
        Ok(Entity {
            entity_id: fields.key("entity_id")?,
            entity_name: fields.sent("entity_name", String::new())?,
            entity_type: fields.sent("entity_type", String::new())?,
            aliases: fields.may("aliases")?,
            mention_count: fields.sent("mention_count", 0)?,
            last_mentioned: fields.sent("last_mentioned", UNKNOWN_TIME)?,
            other: fields.other(),
        })
    }
}

impl FromFields for StateTransition {
    fn from_fields(mut fields: Fields) -> serde_json::Result<StateTransition> {
        Ok(StateTransition {
            from: fields.key("from")?,
            to: fields.key("to")?,
            other: fields.other(),
        })
    }
}

impl FromFields for Event {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Event> {
        Ok(Event {
            seq: fields.key("seq")?,
            timestamp: fields.sent("timestamp", UNKNOWN_TIME)?,
            event_type: fields.sent("type", String::new())?,
            agent_id: fields.may("agentId")?,
            change_info: fields.may("changeInfo")?,
            impact: fields.may("impact")?,
            state_transition: fields.may_object("stateTransition")?,
            other: fields.other(),
        })
    }
}

impl FromFields for Agent {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Agent> {
        Ok(Agent {
            agent_id: fields.key("agentId")?,
            joined_at: fields.sent("joined_at", UNKNOWN_TIME)?,
            last_seen: fields.sent("last_seen", UNKNOWN_TIME)?,
            meta: fields.may("meta")?,
            other: fields.other(),
        })
    }
}

impl FromFields for Checkpoint {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Checkpoint> {
        Ok(Checkpoint {
            session_id: fields.sent("sessionId", SessionId::unknown())?,
            checkpoint_id: fields.key("checkpointId")?,
            timestamp: fields.sent("timestamp", UNKNOWN_TIME)?,
            ref_entities: fields.may("refEntities")?,
            summary: fields.may("summary")?,
            outcome: fields.may("outcome")?,
            state: fields.may("state")?,
            label: fields.may("label")?,
            other: fields.other(),
        })
    }
}

impl FromFields for Anchor {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Anchor> {
        Ok(Anchor {
            session_id: fields.key("sessionId")?,
            outcome: fields.may("outcome")?,
            checkpoint_id: fields.may("checkpointId")?,
            key_impacts: fields.may("keyImpacts")?,
            perf_delta: fields.may("perfDelta")?,
            timestamp: fields.sent("timestamp", UNKNOWN_TIME)?,
            other: fields.other(),
        })
    }
}

impl FromFields for DirectoryEntry {
    fn from_fields(mut fields: Fields) -> serde_json::Result<DirectoryEntry> {
        Ok(DirectoryEntry {
            id: fields.sent("id", SessionId::unknown())?,
            key: fields.key("key")?,
            alias: fields.may("alias")?,
            autoname: fields.may("autoname")?,
            created_at: fields.sent("created_at", UNKNOWN_TIME)?,
            last_activity: fields.sent("last_activity", UNKNOWN_TIME)?,
            state: fields.sent("state", String::new())?,
            message_count: fields.sent("message_count", 0)?,
            other: fields.other(),
        })
    }
}

impl FromFields for EventCounts {
    fn from_fields(mut fields: Fields) -> serde_json::Result<EventCounts> {
        Ok(EventCounts {
            count: fields.may("count")?,
            first_seq: fields.may("first_seq")?,
            last_seq: fields.may("last_seq")?,
            other: fields.other(),
        })
    }
}

impl FromFields for Lease {
    fn from_fields(mut fields: Fields) -> serde_json::Result<Lease> {
        Ok(Lease {
            agent_id: fields.key("agentId")?,
            token: fields.sent("token", 0)?,
            expires_at: fields.sent("expires_at", UNKNOWN_TIME)?,
            other: fields.other(),
        })
    }
}

value::deserialized_from_fields!(
    Entity,
    StateTransition,
    Event,
    Agent,
    Checkpoint,
    Anchor,
    DirectoryEntry,
    EventCounts,
    Lease,
);
