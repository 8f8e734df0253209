//! Messages: bodies as they are stored, and as programs read them.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Result, SessionError};

/// The body of a message, byte for byte as it was appended: one JSON object, or, where a migration set something aside, anything.
///
/// ```
/// use redis_session_client::{Body, MessageRole};
///
/// let body = Body::from(r#"{"role":"user","content":"hi", "mine": 1}"#);
/// let message = body.message()?;
/// assert_eq!(message.role, MessageRole::User);
/// assert_eq!(message.other["mine"], 1);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Body(Vec<u8>);

impl Body {
    /// The bytes.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// assert_eq!(Body::from("{}").as_bytes(), b"{}");
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text; what is not UTF-8 is replaced.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// assert_eq!(Body::from("{}").as_str(), "{}");
    /// ```
    pub fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Unwraps the bytes.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// assert_eq!(Body::from("{}").into_bytes(), b"{}");
    /// ```
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Parses the body as a [`Message`]. Half a surrogate pair, as of an emoji that was cut through, reads as `\u{fffd}`.
    ///
    /// # Errors
    /// [`SessionError::BadMessage`] if it is not a JSON object.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// assert_eq!(Body::from(r#"{"content":"hi"}"#).message()?.text(), "hi");
    /// assert!(Body::from("not JSON").message().is_err());
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn message(&self) -> Result<Message> {
        self.parse()
    }

    /// Parses the body as a type of your own.
    ///
    /// # Errors
    /// [`SessionError::BadMessage`] if it cannot be read as that.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// #[derive(serde::Deserialize)]
    /// struct Mine {
    ///     content: String,
    /// }
    /// assert_eq!(Body::from(r#"{"content":"hi"}"#).parse::<Mine>()?.content, "hi");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        crate::value::parse(&self.0).map_err(|error| SessionError::BadMessage(format!("not a message ({error})")))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({})", self.as_str())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body(text.into_bytes())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Body {
        Body(text.as_bytes().to_vec())
    }
}

impl From<&Value> for Body {
    fn from(json: &Value) -> Body {
        Body(json.to_string().into_bytes())
    }
}

impl From<&Message> for Body {
    fn from(message: &Message) -> Body {
        Body(Value::from(message.clone()).to_string().into_bytes())
    }
}

impl From<Message> for Body {
    fn from(message: Message) -> Body {
        Body(Value::from(message).to_string().into_bytes())
    }
}

/// Who speaks.
///
/// ```
/// use redis_session_client::MessageRole;
///
/// assert_eq!(MessageRole::from("assistant"), MessageRole::Assistant);
/// assert_eq!(MessageRole::from("critic").as_str(), "critic");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MessageRole {
    /// `system`
    System,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`
    Tool,
    /// Any other word, such as `developer`; `other` where a body names none.
    Other(String),
}

impl MessageRole {
    /// The word.
    ///
    /// ```
    /// # use redis_session_client::MessageRole;
    /// assert_eq!(MessageRole::Tool.as_str(), "tool");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            MessageRole::System => "system",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::Tool => "tool",
            MessageRole::Other(word) => word,
        }
    }

    /// The role of a body, by the module's rule: its `role`, else by its `type`.
    fn of(body: &Map<String, Value>) -> MessageRole {
        if let Some(Value::String(role)) = body.get("role") {
            return MessageRole::from(role.as_str());
        }
        match body.get("type").and_then(Value::as_str) {
            Some("human") => MessageRole::User,
            Some("ai" | "function_call") => MessageRole::Assistant,
            Some("system") => MessageRole::System,
            Some("tool" | "function_call_output") => MessageRole::Tool,
            _ => MessageRole::Other("other".into()),
        }
    }
}

impl fmt::Display for MessageRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<&str> for MessageRole {
    fn from(word: &str) -> MessageRole {
        match word {
            "system" => MessageRole::System,
            "user" => MessageRole::User,
            "assistant" => MessageRole::Assistant,
            "tool" => MessageRole::Tool,
            other => MessageRole::Other(other.to_owned()),
        }
    }
}

impl From<String> for MessageRole {
    fn from(word: String) -> MessageRole {
        MessageRole::from(word.as_str())
    }
}

impl From<MessageRole> for String {
    fn from(role: MessageRole) -> String {
        match role {
            MessageRole::Other(word) => word,
            known => known.as_str().to_owned(),
        }
    }
}

/// One call of a tool. Read from `{"id","name","arguments"}` and from `{"id","type":"function","function":{"name","arguments"}}`;
/// written as it was found.
///
/// ```
/// use redis_session_client::ToolCall;
///
/// let call = ToolCall::new("call_1", "search", r#"{"q":"Rome"}"#);
/// assert_eq!(serde_json::to_string(&call)?, r#"{"arguments":"{\"q\":\"Rome\"}","id":"call_1","name":"search"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// What the answer names.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is called with: most models give JSON in a string, some an object.
    pub arguments: Value,
    /// Every other field.
    pub other: Map<String, Value>,
    is_nested: bool,
}

impl ToolCall {
    /// A call with arguments as JSON text.
    ///
    /// ```
    /// # use redis_session_client::ToolCall;
    /// assert_eq!(ToolCall::new("c", "now", "{}").name, "now");
    /// ```
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: Value::String(arguments.into()),
            other: Map::new(),
            is_nested: false,
        }
    }
}

impl From<ToolCall> for Value {
    fn from(call: ToolCall) -> Value {
        let mut object = call.other;
        // What is not there, or of another type and so among the others, stays so.
        if !call.id.is_empty() {
            object.insert("id".into(), call.id.into());
        }
        let insert = |into: &mut Map<String, Value>| {
            if !call.name.is_empty() {
                into.insert("name".into(), call.name.into());
            }
            if !call.arguments.is_null() {
                into.insert("arguments".into(), call.arguments);
            }
        };
        if call.is_nested {
            let function = object.entry("function").or_insert_with(|| Map::new().into());
            if let Some(function) = function.as_object_mut() {
                insert(function);
            }
        } else {
            insert(&mut object);
        }
        Value::Object(object)
    }
}

impl From<Map<String, Value>> for ToolCall {
    fn from(mut object: Map<String, Value>) -> ToolCall {
        let id = take_text(&mut object, "id").unwrap_or_default();
        let is_nested = object.get("function").is_some_and(Value::is_object) && !object.contains_key("name");
        let take = |from: &mut Map<String, Value>| {
            let name = take_text(from, "name").unwrap_or_default();
            (name, from.remove("arguments").unwrap_or(Value::Null))
        };
        let (name, arguments) = match object.get_mut("function") {
            Some(Value::Object(function)) if is_nested => take(function),
            _ => take(&mut object),
        };
        ToolCall {
            id,
            name,
            arguments,
            other: object,
            is_nested,
        }
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        Value::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ToolCall, D::Error> {
        Map::deserialize(deserializer).map(ToolCall::from)
    }
}

/// A message with its usual fields. All others are kept in [`Message::other`].
///
/// To append one as it is, with the time that it has or none, hand it to [`Append`](crate::Append); a [`NewMessage`](crate::NewMessage) lets the
/// server compose the body and date it.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Message, MessageQuery, MessageRole, SessionCommands, ToolCall};
///
/// let mut call = Message::new(MessageRole::Assistant, "");
/// call.tool_calls.push(ToolCall::new("call_1", "search", r#"{"q":"Rome"}"#));
/// connection.session_append("session:1", [Message::new(MessageRole::User, "Where to?"), call])?;
///
/// let read = connection.session_range("session:1", MessageQuery::all())?;
/// assert_eq!(read[1].message()?.tool_calls[0].name, "search");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: MessageRole,
    /// What is said: mostly a string, also a list of parts, or null beside tool calls. See [`Message::text`].
    pub content: Value,
    /// The speaker's name.
    pub name: Option<String>,
    /// The message's own id.
    pub id: Option<String>,
    /// The call that this message answers.
    pub tool_call_id: Option<String>,
    /// The calls that this message makes.
    pub tool_calls: Vec<ToolCall>,
    /// When, as the body says it: ISO 8601, or a number of seconds or milliseconds.
    pub timestamp: Option<Value>,
    /// Ids of entities that the message mentions.
    pub entity_refs: Vec<String>,
    /// Every other field.
    pub other: Map<String, Value>,
}

impl Message {
    /// Makes a message of this text.
    ///
    /// ```
    /// # use redis_session_client::{Message, MessageRole};
    /// assert_eq!(Message::new(MessageRole::User, "hi").text(), "hi");
    /// ```
    pub fn new(role: impl Into<MessageRole>, text: impl Into<String>) -> Message {
        Message {
            role: role.into(),
            content: Value::String(text.into()),
            name: None,
            id: None,
            tool_call_id: None,
            tool_calls: Vec::new(),
            timestamp: None,
            entity_refs: Vec::new(),
            other: Map::new(),
        }
    }

    /// The text of the content: the string, or the `text` of its parts, a line each.
    ///
    /// ```
    /// # use redis_session_client::Body;
    /// let parts = Body::from(r#"{"content":[{"type":"text","text":"a"},{"type":"image"},"b"]}"#);
    /// assert_eq!(parts.message()?.text(), "a\nb");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn text(&self) -> Cow<'_, str> {
        match &self.content {
            Value::String(text) => Cow::Borrowed(text),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Value::String(text) => Some(text.as_str()),
                    part => part.get("text").and_then(Value::as_str),
                });
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
            _ => Cow::Borrowed(""),
        }
    }
}

impl From<Map<String, Value>> for Message {
    fn from(mut object: Map<String, Value>) -> Message {
        let role = MessageRole::of(&object);
        if object.get("role").is_some_and(Value::is_string) {
            object.remove("role");
        }
        let refs = take_all(&mut object, "entity_refs", |item| item.as_str().map(str::to_owned));
        Message {
            role,
            content: object.remove("content").unwrap_or(Value::Null),
            name: take_text(&mut object, "name"),
            id: take_text(&mut object, "id"),
            tool_call_id: take_text(&mut object, "tool_call_id"),
            tool_calls: take_all(&mut object, "tool_calls", |item| {
                item.as_object().cloned().map(ToolCall::from)
            }),
            timestamp: object.remove("timestamp"),
            entity_refs: refs,
            other: object,
        }
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Value {
        let mut object = message.other;
        object.insert("role".into(), String::from(message.role).into());
        if !message.content.is_null() || message.tool_calls.is_empty() {
            object.insert("content".into(), message.content);
        }
        let texts = [
            ("name", message.name),
            ("id", message.id),
            ("tool_call_id", message.tool_call_id),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                object.insert(field.into(), text.into());
            }
        }
        if let Some(timestamp) = message.timestamp {
            object.insert("timestamp".into(), timestamp);
        }
        if !message.tool_calls.is_empty() {
            object.insert(
                "tool_calls".into(),
                message.tool_calls.into_iter().map(Value::from).collect(),
            );
        }
        if !message.entity_refs.is_empty() {
            object.insert("entity_refs".into(), message.entity_refs.into());
        }
        Value::Object(object)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        Value::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Message, D::Error> {
        Map::deserialize(deserializer).map(Message::from)
    }
}

/// A message with its seq, time, role and tokens.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, MessageQuery, MessageRole, SessionCommands};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// let stored = connection.session_range_with_meta("session:1", MessageQuery::all())?;
/// assert_eq!((stored[0].seq, &stored[0].role), (1, &MessageRole::User));
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredMessage {
    /// Its number, never reused.
    pub seq: u64,
    /// When it was said.
    pub at: crate::Timestamp,
    /// Who said it.
    pub role: MessageRole,
    /// How many tokens it counts as.
    pub tokens: u64,
    /// The body.
    pub body: Body,
}

/// A text field. One of another type stays where it is.
fn take_text(object: &mut Map<String, Value>, field: &str) -> Option<String> {
    if !object.get(field)?.is_string() {
        return None;
    }
    match object.remove(field) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The items of a field. One with an item of another type stays where it is, as a whole.
fn take_all<T>(object: &mut Map<String, Value>, field: &str, read: fn(&Value) -> Option<T>) -> Vec<T> {
    let read = object
        .get(field)
        .and_then(Value::as_array)
        .and_then(|items| items.iter().map(read).collect::<Option<Vec<T>>>());
    if read.is_some() {
        object.remove(field);
    }
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn comes_back(body: Value) {
        let message: Message = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(Value::from(message), body);
    }

    #[test]
    fn a_message_comes_back_with_every_field() {
        comes_back(json!({"role": "user", "content": "hi", "mine": [1, {"a": null}], "timestamp": 1}));
        comes_back(json!({"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}", "strict": true}, "index": 0},
            {"id": "2", "name": "g", "arguments": {"a": 1}},
        ]}));
        comes_back(json!({"role": "tool", "content": null, "tool_call_id": "1", "name": "f", "id": "m"}));
        comes_back(json!({"role": "user", "content": [{"type": "text", "text": "x"}], "entity_refs": ["a"]}));
    }

    #[test]
    fn a_field_of_another_type_is_kept() {
        comes_back(
            json!({"role": "user", "content": "", "name": 7, "tool_calls": "none", "entity_refs": [1], "id": null}),
        );
        // A role that is no string counts for none; the one that counts is written beside it.
        let message: Message = serde_json::from_value(json!({"role": 5, "type": "human"})).unwrap();
        assert_eq!(message.role, MessageRole::User);
    }

    #[test]
    fn a_call_of_another_kind_comes_back_as_it_was() {
        comes_back(json!({"role": "assistant", "tool_calls": [
            {"id": 7, "name": ["f"], "arguments": "{}"},
            {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}},
            {"type": "function", "function": {"strict": true}},
        ]}));
    }

    #[test]
    fn half_a_surrogate_pair_keeps_no_message_from_being_read() {
        let body = Body::from(r#"{"content":"a\ud83d","name":"\ud83d\ude00\\ud800","id":"\udc00\ud800x"}"#);
        let message = body.message().unwrap();
        assert_eq!(message.text(), "a\u{fffd}");
        assert_eq!(message.name.as_deref(), Some("😀\\ud800"));
        assert_eq!(message.id.as_deref(), Some("\u{fffd}\u{fffd}x"));
        assert!(Body::from(r#"{"content":"\ud8"}"#).message().is_err());
    }

    #[test]
    fn roles_follow_the_type_where_there_is_no_role() {
        for (body, role) in [
            (json!({"type": "human"}), "user"),
            (json!({"type": "ai"}), "assistant"),
            (json!({"type": "function_call_output"}), "tool"),
            (json!({"type": "whatever"}), "other"),
            (json!({"role": "developer", "type": "ai"}), "developer"),
        ] {
            let message: Message = serde_json::from_value(body).unwrap();
            assert_eq!(message.role.as_str(), role);
        }
    }
}
