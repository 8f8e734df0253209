//! `CREATE APPEND RANGE CONTEXT GET GETEX INFO LEN META WINDOW POP REMOVE REDACT COMPACT CLEAR`

use std::time::Duration;

use redis::Cmd;
use serde_json::Value as Json;

use super::write::{has_write_options, ms};
use super::{Options, Request, SessionExpiry, WriteOptions, begin};
use crate::reply::stored_message;
use crate::{
    Appended, Body, Created, Limit, Message, MessageRole, SessionAlias, SessionContext, SessionDocument, SessionId,
    SessionInfo, StoredMessage, ToolCall, value,
};

/// A session to be created: `SESSION.CREATE`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Limit, Create, MessageRole, SessionCommands};
///
/// let create = Create::new()
///     .index("sessions:{acme}")
///     .alias("ada")
///     .open()
///     .limit(Limit::MaxLen, 100)
///     .pin(MessageRole::System);
/// let session = connection.session_create("session:{acme}:1", create)?;
/// assert!(session.created);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Create {
    options: Options,
    write: WriteOptions,
}

impl Create {
    /// Creates a session with the server's defaults.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new();
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k");
    /// ```
    pub fn new() -> Create {
        Create::default()
    }

    /// Registers it in this directory, whose key must be in the same slot.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().index("sessions:{acme}");
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k INDEX sessions:{acme}");
    /// ```
    pub fn index(mut self, index: impl AsRef<[u8]>) -> Create {
        self.options.set("INDEX", index.as_ref());
        self
    }

    /// Sets its alias. Needs a directory.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().index("sessions:{acme}").alias("ada");
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k INDEX sessions:{acme} ALIAS ada");
    /// ```
    pub fn alias(mut self, alias: impl AsRef<str>) -> Create {
        self.options.set("ALIAS", alias.as_ref());
        self
    }

    /// Sets an alias that a program made up and no person has chosen.
    ///
    /// ```
    /// # use redis_session_client::{Create, SessionAlias, request};
    /// let create = Create::new().index("sessions:{acme}").autoname(SessionAlias::new("about trains")?);
    /// assert_eq!(request::create("k", create).to_string(), r#"SESSION.CREATE k INDEX sessions:{acme} ALIAS "about trains" AUTONAME"#);
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn autoname(mut self, alias: SessionAlias) -> Create {
        self.options.set("ALIAS", (alias.as_str(), "AUTONAME"));
        self
    }

    /// Opens the session that exists at the key or has the alias, in place of an error.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().open();
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k OPEN");
    /// ```
    pub fn open(mut self) -> Create {
        self.options.flag("OPEN");
        self
    }

    /// Sets its id, in place of a new one.
    ///
    /// ```
    /// # use redis_session_client::{Create, SessionId, request};
    /// let id = SessionId::new();
    /// let create = Create::new().id(id);
    /// assert_eq!(request::create("k", create).to_string(), format!("SESSION.CREATE k ID {id}"));
    /// ```
    pub fn id(mut self, id: SessionId) -> Create {
        self.options.set("ID", id.to_string());
        self
    }

    /// Sets its scope: whose it is.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().scope("acme");
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k SCOPE acme");
    /// ```
    pub fn scope(mut self, scope: impl AsRef<str>) -> Create {
        self.options.set("SCOPE", scope.as_ref());
        self
    }

    /// Sets its state, in place of `working`.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().state("planning");
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k STATE planning");
    /// ```
    pub fn state(mut self, state: impl AsRef<str>) -> Create {
        self.options.set("STATE", state.as_ref());
        self
    }

    /// Sets its meta, a JSON object.
    ///
    /// ```
    /// # use redis_session_client::{Create, request};
    /// let create = Create::new().meta(&serde_json::json!({"model": "small"}));
    /// assert_eq!(request::create("k", create).to_string(), r#"SESSION.CREATE k META '{"model":"small"}'"#);
    /// ```
    pub fn meta(mut self, meta: &Json) -> Create {
        self.options.set("META", meta.to_string());
        self
    }

    /// Sets a limit, in place of the server's default.
    ///
    /// ```
    /// # use redis_session_client::{Create, Limit, request};
    /// let create = Create::new().limit(Limit::MaxLen, 200).limit(Limit::MaxCheckpoints, 4);
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k LIMIT maxlen 200 LIMIT max-checkpoints 4");
    /// ```
    pub fn limit(mut self, limit: Limit, value: u64) -> Create {
        self.options.0.retain(|option| !is_limit(option, &limit));
        self.options.push("LIMIT", (limit.as_str(), value));
        self
    }

    #[cfg_attr(not(feature = "tokio-comp"), expect(dead_code))]
    pub(crate) fn limit_by_default(self, limit: Limit, value: u64) -> Create {
        match self.options.0.iter().any(|option| is_limit(option, &limit)) {
            true => self,
            false => self.limit(limit, value),
        }
    }

    /// Pins a role: its messages stay in the window. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{Create, MessageRole, request};
    /// let create = Create::new().pin(MessageRole::System);
    /// assert_eq!(request::create("k", create).to_string(), "SESSION.CREATE k PIN system");
    /// ```
    pub fn pin(mut self, role: MessageRole) -> Create {
        self.options.push("PIN", role.as_str());
        self
    }
}

/// Whether an option sets this limit.
fn is_limit((word, values): &(&str, Vec<Vec<u8>>), limit: &Limit) -> bool {
    *word == "LIMIT" && values[0].eq_ignore_ascii_case(limit.as_str().as_bytes())
}

/// `SESSION.CREATE`: creates a session. O(1).
///
/// ```
/// # use redis_session_client::{Create, request};
/// assert_eq!(request::create("k", Create::new()).command().name(), "SESSION.CREATE");
/// ```
pub fn create(key: impl AsRef<[u8]>, create: Create) -> Request<Created> {
    begin("SESSION.CREATE", key)
        .options(&create.options)
        .write_options(&create.write)
        .replied(Created::read)
}

/// A message that the server composes and dates: the form `MSG`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, MessageQuery, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("Book flight 7").reference("flight:7"))?;
/// let message = connection.session_range("session:1", MessageQuery::all())?[0].message()?;
/// assert!(message.timestamp.is_some());
/// assert_eq!(message.entity_refs, ["flight:7"]);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewMessage {
    role: MessageRole,
    content: String,
    options: Options,
}

impl NewMessage {
    /// Makes a message of any role.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, MessageRole, request};
    /// let message = NewMessage::new("developer", "Be brief.");
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG developer "Be brief.""#);
    /// ```
    pub fn new(role: impl Into<MessageRole>, content: impl Into<String>) -> NewMessage {
        NewMessage {
            role: role.into(),
            content: content.into(),
            options: Options::default(),
        }
    }

    /// Makes a message of a user.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::user("Where is my order?");
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG user "Where is my order?""#);
    /// ```
    pub fn user(content: impl Into<String>) -> NewMessage {
        NewMessage::new(MessageRole::User, content)
    }

    /// Makes a message of the assistant.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, ToolCall, request};
    /// let message = NewMessage::assistant("").tool_call(ToolCall::new("call_1", "order_status", "{}"));
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG assistant "" TOOL_CALL call_1 order_status {}"#);
    /// ```
    pub fn assistant(content: impl Into<String>) -> NewMessage {
        NewMessage::new(MessageRole::Assistant, content)
    }

    /// Makes a message of the system.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::system("Be brief.");
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG system "Be brief.""#);
    /// ```
    pub fn system(content: impl Into<String>) -> NewMessage {
        NewMessage::new(MessageRole::System, content)
    }

    /// Makes the answer of a tool to this call.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::tool("call_1", r#"{"status":"shipped"}"#);
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG tool '{"status":"shipped"}' TOOL_CALL_ID call_1"#);
    /// ```
    pub fn tool(call_id: impl AsRef<str>, content: impl Into<String>) -> NewMessage {
        let mut message = NewMessage::new(MessageRole::Tool, content);
        message.options.set("TOOL_CALL_ID", call_id.as_ref());
        message
    }

    /// Sets the speaker's name.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::user("hello").name("Ada");
    /// assert_eq!(request::append("k", message).to_string(), "SESSION.APPEND k MSG user hello NAME Ada");
    /// ```
    pub fn name(mut self, name: impl AsRef<str>) -> NewMessage {
        self.options.set("NAME", name.as_ref());
        self
    }

    /// Sets the message's own id.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::user("hello").id("m-1");
    /// assert_eq!(request::append("k", message).to_string(), "SESSION.APPEND k MSG user hello ID m-1");
    /// ```
    pub fn id(mut self, id: impl AsRef<str>) -> NewMessage {
        self.options.set("ID", id.as_ref());
        self
    }

    /// Adds a tool call. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, ToolCall, request};
    /// let message = NewMessage::assistant("").tool_call(ToolCall::new("call_1", "search", "{}"));
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG assistant "" TOOL_CALL call_1 search {}"#);
    /// ```
    pub fn tool_call(mut self, call: ToolCall) -> NewMessage {
        let arguments = match call.arguments {
            Json::String(text) => text,
            json => json.to_string(),
        };
        self.options.push("TOOL_CALL", (call.id, call.name, arguments));
        self
    }

    /// Adds an entity that it mentions. May be repeated.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let message = NewMessage::user("Where is order 7?").reference("order:7");
    /// assert_eq!(request::append("k", message).to_string(), r#"SESSION.APPEND k MSG user "Where is order 7?" REF order:7"#);
    /// ```
    pub fn reference(mut self, entity_id: impl AsRef<str>) -> NewMessage {
        self.options.push("REF", entity_id.as_ref());
        self
    }

    /// Turns it into an append, to add options.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let append = NewMessage::user("hello").append().dedup("request-1");
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k DEDUP request-1 MSG user hello");
    /// ```
    pub fn append(self) -> Append {
        self.into()
    }
}

/// Messages: one that the server composes, or bodies as they are.
///
/// ```
/// use redis_session_client::{Content, Message, NewMessage, MessageRole};
///
/// let composed: Content = NewMessage::user("hello").into();
/// let as_they_are: Content = [Message::new(MessageRole::User, "a"), Message::new(MessageRole::User, "b")].into();
/// assert!(matches!(composed, Content::NewMessage(_)));
/// assert!(matches!(as_they_are, Content::Bodies(bodies) if bodies.len() == 2));
/// ```
#[derive(Debug, Clone)]
pub enum Content {
    /// The server composes it.
    NewMessage(NewMessage),
    /// Stored byte for byte.
    Bodies(Vec<Body>),
}

impl Content {
    fn write(&self, cmd: &mut Cmd) {
        match self {
            Content::NewMessage(message) => {
                cmd.arg("MSG").arg(message.role.as_str()).arg(&message.content);
                message.options.write(cmd);
            }
            Content::Bodies(bodies) => {
                cmd.arg("JSON");
                for body in bodies {
                    cmd.arg(body.as_bytes());
                }
            }
        }
    }
}

impl From<NewMessage> for Content {
    fn from(message: NewMessage) -> Content {
        Content::NewMessage(message)
    }
}

impl From<Body> for Content {
    fn from(body: Body) -> Content {
        Content::Bodies(vec![body])
    }
}

impl From<Message> for Content {
    fn from(message: Message) -> Content {
        Content::Bodies(vec![message.into()])
    }
}

impl From<&Message> for Content {
    fn from(message: &Message) -> Content {
        Content::Bodies(vec![message.into()])
    }
}

impl<B: Into<Body>> From<Vec<B>> for Content {
    fn from(bodies: Vec<B>) -> Content {
        Content::Bodies(bodies.into_iter().map(Into::into).collect())
    }
}

impl<B: Into<Body>, const N: usize> From<[B; N]> for Content {
    fn from(bodies: [B; N]) -> Content {
        Content::Bodies(bodies.into_iter().map(Into::into).collect())
    }
}

/// Messages to be appended, and how: `SESSION.APPEND`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Append, Body, SessionCommands};
///
/// let bodies = [Body::from(r#"{"role":"user","content":"a"}"#), Body::from(r#"{"role":"user","content":"b"}"#)];
/// let append = Append::new(bodies).dedup("request-1").max_len(100);
/// assert_eq!(connection.session_append("session:1", append.clone())?.seq, 2);
/// // The same once more changes nothing and replies the same.
/// assert_eq!(connection.session_append("session:1", append)?.seq, 2);
/// assert_eq!(connection.session_len("session:1")?, 2);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Append {
    options: Options,
    write: WriteOptions,
    content: Content,
}

impl Append {
    /// Appends these messages.
    ///
    /// ```
    /// # use redis_session_client::{Append, NewMessage, request};
    /// let append = Append::new(NewMessage::user("hello"));
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k MSG user hello");
    /// ```
    pub fn new(content: impl Into<Content>) -> Append {
        Append {
            options: Options::default(),
            write: WriteOptions::new(),
            content: content.into(),
        }
    }

    /// Appends only to a session that exists; else [`SessionError::NoSession`](crate::SessionError::NoSession).
    ///
    /// ```
    /// # let server = redis_session_tests::Server::start();
    /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
    /// use redis_session_client::{NewMessage, SessionCommands, SessionError};
    ///
    /// let reply = connection.session_append("session:1", NewMessage::user("hello").append().existing());
    /// assert!(matches!(reply, Err(SessionError::NoSession(_))));
    /// # Ok::<(), SessionError>(())
    /// ```
    pub fn existing(mut self) -> Append {
        self.options.flag("XX");
        self
    }

    /// Sets a token by which the session knows the append: sent again, it repeats its reply and appends nothing.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let append = NewMessage::user("hello").append().dedup("request-1");
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k DEDUP request-1 MSG user hello");
    /// ```
    pub fn dedup(mut self, token: impl AsRef<str>) -> Append {
        self.options.set("DEDUP", token.as_ref());
        self
    }

    pub(crate) fn has_dedup(&self) -> bool {
        self.options.0.iter().any(|(word, _)| *word == "DEDUP")
    }

    /// Sets the most messages that the session's window has, from now on.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let append = NewMessage::user("hello").append().max_len(100);
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k MAXLEN 100 MSG user hello");
    /// ```
    pub fn max_len(mut self, messages: u32) -> Append {
        self.options.set("MAXLEN", messages);
        self
    }

    /// Sets how many tokens the message counts as. One message only.
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let append = NewMessage::user("hello").append().tokens(2);
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k TOKENS 2 MSG user hello");
    /// ```
    pub fn tokens(mut self, tokens: u32) -> Append {
        self.options.set("TOKENS", tokens);
        self
    }

    /// Asks for what falls out of the window: see [`Appended::evicted`].
    ///
    /// ```
    /// # use redis_session_client::{NewMessage, request};
    /// let append = NewMessage::user("hello").append().max_len(10).evicted();
    /// assert_eq!(request::append("k", append).to_string(), "SESSION.APPEND k MAXLEN 10 EVICTED MSG user hello");
    /// ```
    pub fn evicted(mut self) -> Append {
        self.options.flag("EVICTED");
        self
    }
}

impl<C: Into<Content>> From<C> for Append {
    fn from(content: C) -> Append {
        Append::new(content)
    }
}

/// `SESSION.APPEND`: appends messages, creating the session if needed, and applies its window. O(N) in the messages given, and in those
/// that fall out.
///
/// ```
/// # use redis_session_client::{NewMessage, request};
/// assert_eq!(request::append("k", NewMessage::user("hello")).command().name(), "SESSION.APPEND");
/// ```
pub fn append(key: impl AsRef<[u8]>, append: impl Into<Append>) -> Request<Appended> {
    let append = append.into();
    let mut command = begin("SESSION.APPEND", key)
        .options(&append.options)
        .write_options(&append.write);
    append.content.write(&mut command.cmd);
    command.is_repeatable = append.has_dedup();
    command.replied(Appended::read)
}

/// Selects messages: `SESSION.RANGE`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Message, MessageQuery, MessageRole, SessionCommands};
///
/// connection.session_append("session:1", ["a", "b", "c"].map(|text| Message::new(MessageRole::User, text)))?;
/// let newest = connection.session_range("session:1", MessageQuery::newest(2))?;
/// assert_eq!(newest[0].message()?.text(), "b");
/// let back = connection.session_range("session:1", MessageQuery::after_seq(1).rev())?;
/// assert_eq!(back[0].message()?.text(), "c");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct MessageQuery {
    start: String,
    stop: String,
    options: Options,
}

impl MessageQuery {
    fn of(start: impl ToString, stop: impl ToString) -> MessageQuery {
        MessageQuery {
            start: start.to_string(),
            stop: stop.to_string(),
            options: Options::default(),
        }
    }

    /// Selects all messages, oldest first.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::all();
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 -1");
    /// ```
    pub fn all() -> MessageQuery {
        MessageQuery::of(0, -1)
    }

    /// Selects the newest messages, oldest of them first.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::newest(20);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k -20 -1");
    /// ```
    pub fn newest(messages: u32) -> MessageQuery {
        // `-0` would be the first message.
        match messages {
            0 => MessageQuery::of(1, 0),
            messages => MessageQuery::of(-i64::from(messages), -1),
        }
    }

    /// Selects by index as `LRANGE` does: 0 is the oldest, -1 the newest.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::indexes(0, 9);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 9");
    /// ```
    pub fn indexes(start: i64, stop: i64) -> MessageQuery {
        MessageQuery::of(start, stop)
    }

    /// Selects by seq, both ends included.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::seqs(10, 20);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 10 20 BYSEQ");
    /// ```
    pub fn seqs(start: u64, stop: u64) -> MessageQuery {
        let mut range = MessageQuery::of(start, stop);
        range.options.flag("BYSEQ");
        range
    }

    /// Selects what came after this seq.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::after_seq(20);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k (20 + BYSEQ");
    /// ```
    pub fn after_seq(seq: u64) -> MessageQuery {
        let mut range = MessageQuery::of(format!("({seq}"), "+");
        range.options.flag("BYSEQ");
        range
    }

    /// Selects by time, both ends included.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, Timestamp, request};
    /// let range = MessageQuery::times(Timestamp::from_ms(0), Timestamp::from_ms(1_768_384_800_000));
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 1768384800000 BYTIME");
    /// ```
    pub fn times(start: crate::Timestamp, stop: crate::Timestamp) -> MessageQuery {
        let mut range = MessageQuery::of(start.ms(), stop.ms());
        range.options.flag("BYTIME");
        range
    }

    /// Reverses the order: newest first.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::all().rev();
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 -1 REV");
    /// ```
    pub fn rev(mut self) -> MessageQuery {
        self.options.flag("REV");
        self
    }

    /// Limits the number of messages.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::after_seq(7).count(100);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k (7 + BYSEQ COUNT 100");
    /// ```
    pub fn count(mut self, messages: u32) -> MessageQuery {
        self.options.set("COUNT", messages);
        self
    }

    /// Keeps only messages of this role. Repeated: of any of these roles.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, MessageRole, request};
    /// let range = MessageQuery::all().role(MessageRole::User).role(MessageRole::Assistant);
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 -1 ROLE user ROLE assistant");
    /// ```
    pub fn role(mut self, role: MessageRole) -> MessageQuery {
        self.options.push("ROLE", role.as_str());
        self
    }

    /// Selects only what a migration set aside because it is no JSON object.
    ///
    /// ```
    /// # use redis_session_client::{MessageQuery, request};
    /// let range = MessageQuery::all().malformed();
    /// assert_eq!(request::range("k", range).to_string(), "SESSION.RANGE k 0 -1 MALFORMED");
    /// ```
    pub fn malformed(mut self) -> MessageQuery {
        self.options.flag("MALFORMED");
        self
    }
}

/// `SESSION.RANGE`: bodies. O(N) in the messages replied, plus O(log M) to find the first.
///
/// ```
/// # use redis_session_client::{MessageQuery, request};
/// assert_eq!(request::range("k", MessageQuery::all()).command().name(), "SESSION.RANGE");
/// ```
pub fn range(key: impl AsRef<[u8]>, range: MessageQuery) -> Request<Vec<Body>> {
    begin("SESSION.RANGE", key)
        .arg(&range.start)
        .arg(&range.stop)
        .options(&range.options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::body))
}

/// `SESSION.RANGE … WITHMETA`: bodies with seq, time, role and tokens.
///
/// ```
/// # use redis_session_client::{MessageQuery, request};
/// assert_eq!(request::range_with_meta("k", MessageQuery::all()).command().name(), "SESSION.RANGE");
/// ```
pub fn range_with_meta(key: impl AsRef<[u8]>, mut which: MessageQuery) -> Request<Vec<StoredMessage>> {
    which.options.flag("WITHMETA");
    range(key, which).reading(|reply, mode| value::list(reply, mode, stored_message))
}

/// Selects what to send to the model: `SESSION.CONTEXT`.
///
/// ```
/// # use redis_session_client::{ContextOptions, MessageRole, request};
/// let options = ContextOptions::new().max_tokens(4000).entities(5);
/// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k MAXTOKENS 4000 ENTITIES 5");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContextOptions {
    options: Options,
}

impl ContextOptions {
    /// Selects everything.
    ///
    /// ```
    /// # use redis_session_client::{ContextOptions, request};
    /// let options = ContextOptions::new();
    /// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k");
    /// ```
    pub fn new() -> ContextOptions {
        ContextOptions::default()
    }

    /// Limits the tokens: whole exchanges from the newest back.
    ///
    /// ```
    /// # use redis_session_client::{ContextOptions, request};
    /// let options = ContextOptions::new().max_tokens(4000);
    /// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k MAXTOKENS 4000");
    /// ```
    pub fn max_tokens(mut self, tokens: u32) -> ContextOptions {
        self.options.set("MAXTOKENS", tokens);
        self
    }

    /// Limits the number of messages.
    ///
    /// ```
    /// # use redis_session_client::{ContextOptions, request};
    /// let options = ContextOptions::new().max_len(40);
    /// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k MAXLEN 40");
    /// ```
    pub fn max_len(mut self, messages: u32) -> ContextOptions {
        self.options.set("MAXLEN", messages);
        self
    }

    /// Adds this many of the most recently mentioned entities.
    ///
    /// ```
    /// # use redis_session_client::{ContextOptions, request};
    /// let options = ContextOptions::new().entities(5);
    /// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k ENTITIES 5");
    /// ```
    pub fn entities(mut self, entities: u32) -> ContextOptions {
        self.options.set("ENTITIES", entities);
        self
    }

    /// Keeps only messages of this role. Repeated: of any of these roles.
    ///
    /// ```
    /// # use redis_session_client::{ContextOptions, MessageRole, request};
    /// let options = ContextOptions::new().role(MessageRole::User);
    /// assert_eq!(request::context("k", options).to_string(), "SESSION.CONTEXT k ROLE user");
    /// ```
    pub fn role(mut self, role: MessageRole) -> ContextOptions {
        self.options.push("ROLE", role.as_str());
        self
    }
}

/// `SESSION.CONTEXT`: what to send to the model now. O(N) in the messages looked at.
///
/// ```
/// # use redis_session_client::{ContextOptions, request};
/// assert_eq!(request::context("k", ContextOptions::new()).command().name(), "SESSION.CONTEXT");
/// ```
pub fn context(key: impl AsRef<[u8]>, options: ContextOptions) -> Request<Option<SessionContext>> {
    begin("SESSION.CONTEXT", key)
        .options(&options.options)
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, SessionContext::read))
}

/// `SESSION.GET`: the whole session, or its newest messages only. O(N) in the messages replied.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::get("k", Some(20)).command().name(), "SESSION.GET");
/// ```
pub fn get(key: impl AsRef<[u8]>, newest_messages: Option<u32>) -> Request<Option<SessionDocument>> {
    let mut options = Options::default();
    if let Some(messages) = newest_messages {
        options.set("MESSAGES", messages);
    }
    begin("SESSION.GET", key)
        .options(&options)
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, SessionDocument::read))
}

/// A read that extends the session: `SESSION.GETEX`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{GetEx, SessionCommands};
///
/// let session = connection.session_getex("session:1", GetEx::new().create().messages(20))?.expect("created");
/// assert_eq!(session.message_count, 0);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct GetEx {
    options: Options,
    expiry: Option<SessionExpiry>,
}

impl GetEx {
    /// Reads the session and slides its expiry.
    ///
    /// ```
    /// # use redis_session_client::{GetEx, request};
    /// let getex = GetEx::new();
    /// assert_eq!(request::getex("k", getex).to_string(), "SESSION.GETEX k");
    /// ```
    pub fn new() -> GetEx {
        GetEx::default()
    }

    /// Limits the messages to the newest.
    ///
    /// ```
    /// # use redis_session_client::{GetEx, request};
    /// let getex = GetEx::new().messages(20);
    /// assert_eq!(request::getex("k", getex).to_string(), "SESSION.GETEX k MESSAGES 20");
    /// ```
    pub fn messages(mut self, newest: u32) -> GetEx {
        self.options.set("MESSAGES", newest);
        self
    }

    /// Creates a session where there is none.
    ///
    /// ```
    /// # use redis_session_client::{GetEx, request};
    /// let getex = GetEx::new().create();
    /// assert_eq!(request::getex("k", getex).to_string(), "SESSION.GETEX k CREATE");
    /// ```
    pub fn create(mut self) -> GetEx {
        self.options.flag("CREATE");
        self
    }

    /// Sets the expiry, in place of sliding it. The server refuses [`SessionExpiry::Keep`]: use [`get`].
    ///
    /// ```
    /// # use redis_session_client::{SessionExpiry, GetEx, request};
    /// let getex = GetEx::new().expiry(SessionExpiry::Persist);
    /// assert_eq!(request::getex("k", getex).to_string(), "SESSION.GETEX k PERSIST");
    /// ```
    pub fn expiry(mut self, expiry: SessionExpiry) -> GetEx {
        self.expiry = Some(expiry);
        self
    }
}

/// `SESSION.GETEX`: the whole session, and slides its expiry. O(N) in the messages replied.
///
/// ```
/// # use redis_session_client::{GetEx, request};
/// assert_eq!(request::getex("k", GetEx::new()).command().name(), "SESSION.GETEX");
/// ```
pub fn getex(key: impl AsRef<[u8]>, getex: GetEx) -> Request<Option<SessionDocument>> {
    let mut command = begin("SESSION.GETEX", key).options(&getex.options);
    if let Some(expiry) = getex.expiry {
        expiry.write(&mut command.cmd);
    }
    command.replied(|reply, mode| value::optional(reply, mode, SessionDocument::read))
}

/// `SESSION.INFO`: the scalars, without content. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::info("k").command().name(), "SESSION.INFO");
/// ```
pub fn info(key: impl AsRef<[u8]>) -> Request<Option<SessionInfo>> {
    begin("SESSION.INFO", key)
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, SessionInfo::read))
}

/// `SESSION.LEN`: how many messages. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::len("k").command().name(), "SESSION.LEN");
/// ```
pub fn len(key: impl AsRef<[u8]>) -> Request<u64> {
    begin("SESSION.LEN", key).reads().replied(value::count)
}

/// `SESSION.META`: merges a JSON object (RFC 7396) into the session's meta; the merged meta. O(N) in its size.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// let patch = serde_json::json!({"model": "small", "draft": null});
/// assert_eq!(request::meta("k", &patch, WriteOptions::new()).command().name(), "SESSION.META");
/// ```
pub fn meta(key: impl AsRef<[u8]>, patch: &Json, write: WriteOptions) -> Request<Json> {
    begin("SESSION.META", key)
        .arg(patch.to_string())
        .write_options(&write)
        .replied(value::json)
}

/// The bounds of a session's window: `SESSION.WINDOW`. 0 is no bound.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Message, MessageRole, SessionCommands, Window};
///
/// connection.session_append("session:1", ["a", "b", "c"].map(|text| Message::new(MessageRole::User, text)))?;
/// let evicted = connection.session_window("session:1", Window::new().max_len(2).pin(MessageRole::System))?;
/// assert_eq!(evicted, 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Window {
    options: Options,
    write: WriteOptions,
}

impl Window {
    /// Leaves the window as it is.
    ///
    /// ```
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new();
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k");
    /// ```
    pub fn new() -> Window {
        Window::default()
    }

    /// Sets the most messages.
    ///
    /// ```
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new().max_len(100);
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k MAXLEN 100");
    /// ```
    pub fn max_len(mut self, messages: u32) -> Window {
        self.options.set("MAXLEN", messages);
        self
    }

    /// Sets the most tokens.
    ///
    /// ```
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new().max_tokens(100_000);
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k MAXTOKENS 100000");
    /// ```
    pub fn max_tokens(mut self, tokens: u64) -> Window {
        self.options.set("MAXTOKENS", tokens);
        self
    }

    /// Sets the most bytes of bodies.
    ///
    /// ```
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new().max_bytes(1 << 20);
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k MAXBYTES 1048576");
    /// ```
    pub fn max_bytes(mut self, bytes: u64) -> Window {
        self.options.set("MAXBYTES", bytes);
        self
    }

    /// Sets the greatest age.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new().max_age(Duration::from_secs(86_400));
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k MAXAGE 86400000");
    /// ```
    pub fn max_age(mut self, age: Duration) -> Window {
        self.options.set("MAXAGE", ms(age));
        self
    }

    /// Pins a role: its messages stay. Repeated, pins these roles; they replace those pinned before.
    ///
    /// ```
    /// # use redis_session_client::{MessageRole, Window, request};
    /// let window = Window::new().pin(MessageRole::System);
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k PIN system");
    /// ```
    pub fn pin(mut self, role: MessageRole) -> Window {
        self.options.unset("NOPIN");
        self.options.push("PIN", role.as_str());
        self
    }

    /// Unpins all roles.
    ///
    /// ```
    /// # use redis_session_client::{Window, request};
    /// let window = Window::new().no_pin();
    /// assert_eq!(request::window("k", window).to_string(), "SESSION.WINDOW k NOPIN");
    /// ```
    pub fn no_pin(mut self) -> Window {
        self.options.unset("PIN");
        self.options.flag("NOPIN");
        self
    }
}

/// `SESSION.WINDOW`: sets bounds and pinned roles, applies them, and replies how many messages fell out.
///
/// ```
/// # use redis_session_client::{Window, request};
/// assert_eq!(request::window("k", Window::new()).command().name(), "SESSION.WINDOW");
/// ```
pub fn window(key: impl AsRef<[u8]>, window: Window) -> Request<u64> {
    begin("SESSION.WINDOW", key)
        .options(&window.options)
        .write_options(&window.write)
        .replied(value::count)
}

/// `SESSION.POP`: removes the newest messages; their bodies, newest first. A call takes its answers along.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::pop("k", 1, WriteOptions::new()).command().name(), "SESSION.POP");
/// ```
pub fn pop(key: impl AsRef<[u8]>, count: u32, write: WriteOptions) -> Request<Vec<Body>> {
    begin("SESSION.POP", key)
        .arg("COUNT")
        .arg(count)
        .write_options(&write)
        .replied(|reply, mode| value::list(reply, mode, value::body))
}

/// `SESSION.REMOVE`: removes messages, calls with their answers; how many.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::remove("k", &[1, 2], WriteOptions::new()).command().name(), "SESSION.REMOVE");
/// ```
pub fn remove(key: impl AsRef<[u8]>, seqs: &[u64], write: WriteOptions) -> Request<u64> {
    begin("SESSION.REMOVE", key)
        .arg(seqs)
        .write_options(&write)
        .replied(value::count)
}

/// `SESSION.REDACT`: removes the content of messages, also in checkpoints; returns how many.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::redact("k", &[1], Some("privacy"), WriteOptions::new()).command().name(), "SESSION.REDACT");
/// ```
pub fn redact(key: impl AsRef<[u8]>, seqs: &[u64], reason: Option<&str>, write: WriteOptions) -> Request<u64> {
    let mut options = Options::default();
    if let Some(reason) = reason {
        options.set("REASON", reason);
    }
    begin("SESSION.REDACT", key)
        .arg(seqs)
        .options(&options)
        .write_options(&write)
        .replied(value::count)
}

/// `SESSION.COMPACT`: everything up to a seq becomes this one message; how many were replaced.
///
/// ```
/// # use redis_session_client::{NewMessage, WriteOptions, request};
/// let compact = request::compact("k", 40, NewMessage::system("They talked about trains."), WriteOptions::new());
/// assert_eq!(compact.command().name(), "SESSION.COMPACT");
/// ```
pub fn compact(key: impl AsRef<[u8]>, upto_seq: u64, summary: impl Into<Content>, write: WriteOptions) -> Request<u64> {
    let mut command = begin("SESSION.COMPACT", key)
        .arg("UPTO")
        .arg(upto_seq)
        .write_options(&write);
    summary.into().write(&mut command.cmd);
    command.replied(value::count)
}

/// `SESSION.CLEAR`: removes all messages; how many. Identity, entities and events stay.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::clear("k", WriteOptions::new()).command().name(), "SESSION.CLEAR");
/// ```
pub fn clear(key: impl AsRef<[u8]>, write: WriteOptions) -> Request<u64> {
    begin("SESSION.CLEAR", key).write_options(&write).replied(value::count)
}

has_write_options!(Create, Append, Window);
