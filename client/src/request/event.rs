//! `EVENT …`, `AGENT …`, `READ`

use std::time::Duration;

use serde_json::Value as Json;

use super::write::{has_write_options, ms};
use super::{Options, Request, WriteOptions, begin, begin_group};
use crate::{Agent, Event, HandedOff, RawEntry, SessionEntry, Timestamp, value};

/// Something to be recorded: `SESSION.EVENT ADD`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewEvent, SessionCommands, SessionError};
///
/// let broke = NewEvent::new("broke").agent("builder").entity("api").state("broke");
/// assert_eq!(connection.session_event_add("session:1", broke)?, 1);
/// let review = NewEvent::new("reviewed").if_state("working");
/// assert!(matches!(connection.session_event_add("session:1", review), Err(SessionError::StateConflict { .. })));
/// # Ok::<(), SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewEvent {
    event_type: String,
    options: Options,
    write: WriteOptions,
}

impl NewEvent {
    /// Records an event of this type, free text: `modified`, `broke`, `pass`, …
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("modified");
    /// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k modified");
    /// ```
    pub fn new(event_type: impl Into<String>) -> NewEvent {
        NewEvent {
            event_type: event_type.into(),
            options: Options::default(),
            write: WriteOptions::new(),
        }
    }

    /// Sets the agent.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("modified").agent("builder");
    /// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k modified AGENT builder");
    /// ```
    pub fn agent(mut self, agent: impl AsRef<str>) -> NewEvent {
        self.options.set("AGENT", agent.as_ref());
        self
    }

    /// Adds an entity that it touched. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("modified").entity("api").entity("docs");
    /// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k modified ENTITIES 2 api docs");
    /// ```
    pub fn entity(mut self, id: impl AsRef<str>) -> NewEvent {
        self.options.push_counted("ENTITIES", id.as_ref());
        self
    }

    /// Sets what changed: a JSON object.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("modified").change(&serde_json::json!({"file": "a.rs"}));
    /// assert_eq!(request::event_add("k", event).to_string(), r#"SESSION.EVENT ADD k modified CHANGE '{"file":"a.rs"}'"#);
    /// ```
    pub fn change(mut self, change: &Json) -> NewEvent {
        self.options.set("CHANGE", change.to_string());
        self
    }

    /// Sets what that means: a JSON object. Checkpoints merge the impacts.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("modified").impact(&serde_json::json!({"tests": "3 fail"}));
    /// assert_eq!(request::event_add("k", event).to_string(), r#"SESSION.EVENT ADD k modified IMPACT '{"tests":"3 fail"}'"#);
    /// ```
    pub fn impact(mut self, impact: &Json) -> NewEvent {
        self.options.set("IMPACT", impact.to_string());
        self
    }

    /// Records it only if the session is in this state.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("reviewed").if_state("review").state("pass");
    /// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k reviewed IFSTATE review STATE pass");
    /// ```
    pub fn if_state(mut self, state: impl AsRef<str>) -> NewEvent {
        self.options.set("IFSTATE", state.as_ref());
        self
    }

    /// Moves the session to this state.
    ///
    /// ```
    /// # use redis_session_client::{NewEvent, request};
    /// let event = NewEvent::new("broke").state("broke");
    /// assert_eq!(request::event_add("k", event).to_string(), "SESSION.EVENT ADD k broke STATE broke");
    /// ```
    pub fn state(mut self, state: impl AsRef<str>) -> NewEvent {
        self.options.set("STATE", state.as_ref());
        self
    }
}

/// `SESSION.EVENT ADD`: records an event, creating the session if needed; its seq.
///
/// ```
/// # use redis_session_client::{NewEvent, request};
/// assert_eq!(request::event_add("k", NewEvent::new("pass")).command().name(), "SESSION.EVENT ADD");
/// ```
pub fn event_add(key: impl AsRef<[u8]>, event: NewEvent) -> Request<u64> {
    begin_group("SESSION.EVENT", "ADD", key)
        .arg(&event.event_type)
        .options(&event.options)
        .write_options(&event.write)
        .replied(value::count)
}

/// Selects events: `SESSION.EVENT RANGE`. A filter that is repeated selects any of its values; different filters must all hold.
///
/// ```
/// use redis_session_client::{EventQuery, request};
///
/// let broke = EventQuery::all().from("pass").to("broke");
/// let of_builder = EventQuery::after_seq(20).agent("builder").count(100);
/// assert_eq!(request::event_range("k", broke).to_string(), "SESSION.EVENT RANGE k - + FROM pass TO broke");
/// assert_eq!(request::event_range("k", of_builder).to_string(), "SESSION.EVENT RANGE k (20 + AGENT builder COUNT 100");
/// ```
#[derive(Debug, Clone)]
pub struct EventQuery {
    start: String,
    stop: String,
    options: Options,
}

impl EventQuery {
    fn of(start: String, stop: String) -> EventQuery {
        EventQuery {
            start,
            stop,
            options: Options::default(),
        }
    }

    /// Selects all, oldest first.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all();
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - +");
    /// ```
    pub fn all() -> EventQuery {
        EventQuery::of("-".into(), "+".into())
    }

    /// Selects what came after this seq.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::after_seq(20);
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k (20 +");
    /// ```
    pub fn after_seq(seq: u64) -> EventQuery {
        EventQuery::of(format!("({seq}"), "+".into())
    }

    /// Selects by seq, both ends included.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::seqs(10, 20);
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k 10 20");
    /// ```
    pub fn seqs(start: u64, stop: u64) -> EventQuery {
        EventQuery::of(start.to_string(), stop.to_string())
    }

    /// Reverses the order: newest first.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().rev();
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + REV");
    /// ```
    pub fn rev(mut self) -> EventQuery {
        self.options.flag("REV");
        self
    }

    /// Limits the number of events.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().rev().count(1);
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + REV COUNT 1");
    /// ```
    pub fn count(mut self, events: u32) -> EventQuery {
        self.options.set("COUNT", events);
        self
    }

    /// Keeps only events of this type.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().event_type("modified");
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + TYPE modified");
    /// ```
    pub fn event_type(mut self, event_type: impl AsRef<str>) -> EventQuery {
        self.options.push("TYPE", event_type.as_ref());
        self
    }

    /// Keeps only events of this agent.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().agent("builder");
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + AGENT builder");
    /// ```
    pub fn agent(mut self, agent: impl AsRef<str>) -> EventQuery {
        self.options.push("AGENT", agent.as_ref());
        self
    }

    /// Keeps only events that touched this entity.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().entity("api");
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + ENTITY api");
    /// ```
    pub fn entity(mut self, id: impl AsRef<str>) -> EventQuery {
        self.options.push("ENTITY", id.as_ref());
        self
    }

    /// Keeps only events that left this state.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().from("pass");
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + FROM pass");
    /// ```
    pub fn from(mut self, state: impl AsRef<str>) -> EventQuery {
        self.options.set("FROM", state.as_ref());
        self
    }

    /// Keeps only events that moved to this state.
    ///
    /// ```
    /// # use redis_session_client::{EventQuery, request};
    /// let query = EventQuery::all().to("broke");
    /// assert_eq!(request::event_range("k", query).to_string(), "SESSION.EVENT RANGE k - + TO broke");
    /// ```
    pub fn to(mut self, state: impl AsRef<str>) -> EventQuery {
        self.options.set("TO", state.as_ref());
        self
    }
}

/// `SESSION.EVENT RANGE`: events, filtered. O(N) in the events looked at.
///
/// ```
/// # use redis_session_client::{EventQuery, request};
/// assert_eq!(request::event_range("k", EventQuery::all()).command().name(), "SESSION.EVENT RANGE");
/// ```
pub fn event_range(key: impl AsRef<[u8]>, query: EventQuery) -> Request<Vec<Event>> {
    begin_group("SESSION.EVENT", "RANGE", key)
        .arg(&query.start)
        .arg(&query.stop)
        .options(&query.options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

/// `SESSION.EVENT LEN`: how many events. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::event_len("k").command().name(), "SESSION.EVENT LEN");
/// ```
pub fn event_len(key: impl AsRef<[u8]>) -> Request<u64> {
    begin_group("SESSION.EVENT", "LEN", key).reads().replied(value::count)
}

/// An agent that joins: `SESSION.AGENT JOIN`.
///
/// ```
/// use redis_session_client::{Join, request};
///
/// let join = Join::new("planner").meta(&serde_json::json!({"model": "large"}));
/// assert_eq!(request::agent_join("k", join).to_string(), r#"SESSION.AGENT JOIN k planner META '{"model":"large"}'"#);
/// ```
#[derive(Debug, Clone)]
pub struct Join {
    agent: String,
    options: Options,
    write: WriteOptions,
}

impl Join {
    /// Adds an agent of this name.
    ///
    /// ```
    /// # use redis_session_client::{Join, request};
    /// let join = Join::new("planner");
    /// assert_eq!(request::agent_join("k", join).to_string(), "SESSION.AGENT JOIN k planner");
    /// ```
    pub fn new(agent: impl Into<String>) -> Join {
        Join {
            agent: agent.into(),
            options: Options::default(),
            write: WriteOptions::new(),
        }
    }

    /// What it says of itself: a JSON object.
    ///
    /// ```
    /// # use redis_session_client::{Join, request};
    /// let join = Join::new("planner").meta(&serde_json::json!({"model": "large"}));
    /// assert_eq!(request::agent_join("k", join).to_string(), r#"SESSION.AGENT JOIN k planner META '{"model":"large"}'"#);
    /// ```
    pub fn meta(mut self, meta: &Json) -> Join {
        self.options.set("META", meta.to_string());
        self
    }
}

/// `SESSION.AGENT JOIN`: adds an agent, creating the session if needed; whether it is new.
///
/// ```
/// # use redis_session_client::{Join, request};
/// assert_eq!(request::agent_join("k", Join::new("planner")).command().name(), "SESSION.AGENT JOIN");
/// ```
pub fn agent_join(key: impl AsRef<[u8]>, join: Join) -> Request<bool> {
    begin_group("SESSION.AGENT", "JOIN", key)
        .arg(&join.agent)
        .options(&join.options)
        .write_options(&join.write)
        .replied(value::is_one)
}

/// `SESSION.AGENT LEAVE`: removes an agent, and ends its lease; whether it was there.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::agent_leave("k", "planner", WriteOptions::new()).command().name(), "SESSION.AGENT LEAVE");
/// ```
pub fn agent_leave(key: impl AsRef<[u8]>, agent: impl AsRef<str>, write: WriteOptions) -> Request<bool> {
    begin_group("SESSION.AGENT", "LEAVE", key)
        .arg(agent.as_ref())
        .write_options(&write)
        .replied(value::is_one)
}

/// `SESSION.AGENT LIST`: the agents. O(N).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::agent_list("k").command().name(), "SESSION.AGENT LIST");
/// ```
pub fn agent_list(key: impl AsRef<[u8]>) -> Request<Vec<Agent>> {
    begin_group("SESSION.AGENT", "LIST", key)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

/// From one agent to another: `SESSION.AGENT HANDOFF`.
///
/// ```
/// use redis_session_client::{Handoff, request};
///
/// let handoff = Handoff::new("triage", "billing").note("wants a refund");
/// assert_eq!(request::agent_handoff("k", handoff).to_string(), r#"SESSION.AGENT HANDOFF k triage billing NOTE "wants a refund""#);
/// ```
#[derive(Debug, Clone)]
pub struct Handoff {
    from: String,
    to: String,
    options: Options,
    write: WriteOptions,
}

impl Handoff {
    /// From this agent to that.
    ///
    /// ```
    /// # use redis_session_client::{Handoff, request};
    /// let handoff = Handoff::new("triage", "billing");
    /// assert_eq!(request::agent_handoff("k", handoff).to_string(), "SESSION.AGENT HANDOFF k triage billing");
    /// ```
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Handoff {
        Handoff {
            from: from.into(),
            to: to.into(),
            options: Options::default(),
            write: WriteOptions::new(),
        }
    }

    /// What the next one should know.
    ///
    /// ```
    /// # use redis_session_client::{Handoff, request};
    /// let handoff = Handoff::new("triage", "billing").note("wants a refund");
    /// assert_eq!(request::agent_handoff("k", handoff).to_string(), r#"SESSION.AGENT HANDOFF k triage billing NOTE "wants a refund""#);
    /// ```
    pub fn note(mut self, note: impl AsRef<str>) -> Handoff {
        self.options.set("NOTE", note.as_ref());
        self
    }
}

/// `SESSION.AGENT HANDOFF`: records that an agent hands over, with its lease if it holds one.
///
/// ```
/// # use redis_session_client::{Handoff, request};
/// assert_eq!(request::agent_handoff("k", Handoff::new("a", "b")).command().name(), "SESSION.AGENT HANDOFF");
/// ```
pub fn agent_handoff(key: impl AsRef<[u8]>, handoff: Handoff) -> Request<HandedOff> {
    begin_group("SESSION.AGENT", "HANDOFF", key)
        .arg(&handoff.from)
        .arg(&handoff.to)
        .options(&handoff.options)
        .write_options(&handoff.write)
        .replied(HandedOff::read)
}

/// `SESSION.AGENT LEASE`: gives an agent the session's lease for a time, or renews it; returns the fencing token. O(1).
///
/// ```
/// # use std::time::Duration;
/// # use redis_session_client::request;
/// assert_eq!(request::agent_lease("k", "planner", Duration::from_secs(5)).command().name(), "SESSION.AGENT LEASE");
/// ```
pub fn agent_lease(key: impl AsRef<[u8]>, agent: impl AsRef<str>, turn: Duration) -> Request<u64> {
    begin_group("SESSION.AGENT", "LEASE", key)
        .arg(agent.as_ref())
        .arg(ms(turn))
        .replied(value::count)
}

/// `SESSION.AGENT RELEASE`: ends a lease. [`LeaseLost`](crate::SessionError::LeaseLost) if the token does not hold it. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::agent_release("k", 7).command().name(), "SESSION.AGENT RELEASE");
/// ```
pub fn agent_release(key: impl AsRef<[u8]>, token: u64) -> Request<()> {
    begin_group("SESSION.AGENT", "RELEASE", key)
        .arg(token)
        .replied(|reply, _| value::int(reply).map(|_| ()))
}

/// What came after a seq: `SESSION.READ`.
///
/// A read that waits ([`ReadOptions::block`]) keeps its connection busy, and the connection's own response timeout must be longer: see
/// [`Follow`](crate::Follow) for a stream that takes care of both.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use std::time::Duration;
/// use redis_session_client::{NewMessage, ReadOptions, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let entries = connection.session_read("session:1", ReadOptions::after(0).messages().count(10))?;
/// assert_eq!(entries.len(), 1);
/// let none = connection.session_read("session:1", ReadOptions::after(1).block(Duration::from_millis(1)))?;
/// assert!(none.is_empty());
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReadOptions {
    seq: String,
    options: Options,
}

impl ReadOptions {
    /// What came after this seq; 0: from the beginning.
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::after(41);
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k 41");
    /// ```
    pub fn after(seq: u64) -> ReadOptions {
        ReadOptions {
            seq: seq.to_string(),
            options: Options::default(),
        }
    }

    /// What comes from now on. Needs [`ReadOptions::block`].
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::from_now();
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k $");
    /// ```
    pub fn from_now() -> ReadOptions {
        ReadOptions {
            seq: "$".into(),
            options: Options::default(),
        }
    }

    /// At most so many entries.
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::after(0).count(100);
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k 0 COUNT 100");
    /// ```
    pub fn count(mut self, entries: u32) -> ReadOptions {
        self.options.set("COUNT", entries);
        self
    }

    /// Waits for something, at most so long; zero: for ever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::after(41).block(Duration::from_secs(5));
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k 41 BLOCK 5000");
    /// ```
    pub fn block(mut self, timeout: Duration) -> ReadOptions {
        self.options.set("BLOCK", ms(timeout));
        self
    }

    /// Only messages.
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::after(0).messages();
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k 0 MESSAGES");
    /// ```
    pub fn messages(mut self) -> ReadOptions {
        self.options.unset("EVENTS");
        self.options.flag("MESSAGES");
        self
    }

    /// Only events.
    ///
    /// ```
    /// # use redis_session_client::{ReadOptions, request};
    /// let read = ReadOptions::after(0).events();
    /// assert_eq!(request::read("k", read).to_string(), "SESSION.READ k 0 EVENTS");
    /// ```
    pub fn events(mut self) -> ReadOptions {
        self.options.unset("MESSAGES");
        self.options.flag("EVENTS");
        self
    }
}

/// `SESSION.READ`: returns what was recorded after a seq, blocking for it if asked to; empty if nothing was. O(N) in the entries replied.
///
/// ```
/// # use redis_session_client::{ReadOptions, request};
/// assert_eq!(request::read("k", ReadOptions::after(0)).command().name(), "SESSION.READ");
/// ```
pub fn read(key: impl AsRef<[u8]>, read: ReadOptions) -> Request<Vec<SessionEntry>> {
    begin("SESSION.READ", key)
        .arg(&read.seq)
        .options(&read.options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, SessionEntry::read))
}

/// `SESSION.READ`, its entries as the server sent them.
///
/// ```
/// # use redis_session_client::{ReadOptions, request};
/// assert_eq!(request::read_raw("k", ReadOptions::from_now()).command().name(), "SESSION.READ");
/// ```
pub fn read_raw(key: impl AsRef<[u8]>, which: ReadOptions) -> Request<Vec<RawEntry>> {
    read(key, which).reading(|reply, mode| value::list(reply, mode, RawEntry::read))
}

/// As [`agent_lease`], until a time in place of for a time.
///
/// ```
/// # use redis_session_client::{Timestamp, request};
/// assert_eq!(request::agent_lease_until("k", "planner", Timestamp::now()).command().name(), "SESSION.AGENT LEASE");
/// ```
pub fn agent_lease_until(key: impl AsRef<[u8]>, agent: impl AsRef<str>, until: Timestamp) -> Request<u64> {
    begin_group("SESSION.AGENT", "LEASE", key)
        .arg(agent.as_ref())
        .arg("PXAT")
        .arg(until.ms())
        .replied(value::count)
}

has_write_options!(NewEvent, Join, Handoff);
