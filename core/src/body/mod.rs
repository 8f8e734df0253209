//! Reads the facts that the engine needs from a message body, and composes two kinds of body itself. A body that arrives as JSON is never
//! rewritten: it is stored and returned byte for byte.

use std::borrow::Cow;

use crate::text::hash::hash32;
use crate::text::json::{self, RawString, Value};
use crate::text::time::{self, MAX_TIME_MS, MIN_TIME_MS};

/// The role of a message. Common names take no space in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role<'a> {
    User,
    Assistant,
    System,
    Tool,
    Developer,
    Other,
    Named(Cow<'a, str>),
}

impl<'a> Role<'a> {
    pub fn from_name(name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        match name.as_ref() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            "tool" => Role::Tool,
            "developer" => Role::Developer,
            "other" => Role::Other,
            _ => Role::Named(name),
        }
    }

    /// Like [`Role::from_name`] for a string in a body. Common names are compared in their encoded form.
    #[inline(always)]
    fn from_json(name: RawString<'a>) -> Self {
        let (raw, is_escaped) = (name.raw(), name.is_escaped());
        // None of these names contains a backslash.
        match raw.len() {
            4 if raw == b"user" => Role::User,
            4 if raw == b"tool" => Role::Tool,
            6 if raw == b"system" => Role::System,
            9 if raw == b"assistant" => Role::Assistant,
            _ => Role::from_any_json(raw, is_escaped),
        }
    }

    #[inline(never)]
    fn from_any_json(raw: &'a [u8], is_escaped: bool) -> Self {
        Role::from_name(RawString::from_parts(raw, is_escaped).decode())
    }

    pub fn as_str(&self) -> &str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Tool => "tool",
            Role::Developer => "developer",
            Role::Other => "other",
            Role::Named(name) => name,
        }
    }
}

/// The facts read from one body. They borrow from the body where possible.
#[derive(Debug, PartialEq)]
pub struct Facts<'a> {
    pub role: Role<'a>,
    /// The body's own `timestamp` or `created_at`, if it could be parsed.
    pub time_ms: Option<i64>,
    pub token_count: Option<u32>,
    /// The ids of the tool calls this message makes.
    pub calls: Vec<Cow<'a, str>>,
    /// The id of the tool call this message answers.
    pub answers: Option<Cow<'a, str>>,
    pub entity_refs: Vec<Cow<'a, str>>,
}

/// Reads a body in one pass over its bytes, or returns why it is not one JSON object.
///
/// - role: `role` if a string; else from `type`: `human`→user, `ai`→assistant, `system`, `tool`, `function_call`→assistant,
///   `function_call_output`→tool; else other.
/// - a body *calls* with `tool_calls[].id`, or `type:"function_call"` with `call_id`; it *answers* with `tool_call_id`, or
///   `type:"function_call_output"` with `call_id`.
/// - of a repeated key the last value counts; a value of an unexpected type counts as absent.
pub fn read(body: &[u8]) -> Result<Facts<'_>, json::Error> {
    let mut reading = Reading::default();
    json::read_members(body, &mut reading)?;
    if reading.ties.are_none() {
        return Ok(reading.plain_facts());
    }
    Ok(reading.tied_facts())
}

/// Like [`read`], and passes the body's members to `other` in the same pass.
#[inline(always)]
pub(crate) fn read_beside<'a>(body: &'a [u8], other: &mut impl json::Members<'a>) -> Result<Facts<'a>, json::Error> {
    let mut both = Both {
        reading: Reading::default(),
        other,
    };
    json::read_members(body, &mut both)?;
    if both.reading.ties.are_none() {
        return Ok(both.reading.plain_facts());
    }
    Ok(both.reading.tied_facts())
}

struct Both<'a, 'o, O> {
    reading: Reading<'a>,
    other: &'o mut O,
}

impl<'a, O: json::Members<'a>> json::Members<'a> for Both<'a, '_, O> {
    #[inline(always)]
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>) {
        self.reading.string(key, value);
        self.other.string(key, value);
    }

    #[inline(always)]
    fn other(&mut self, key: RawString<'a>, value: Value<'a>) {
        self.reading.other(key, value);
        self.other.other(key, value);
    }
}

/// The members of a body seen so far.
#[derive(Default)]
struct Reading<'a> {
    role: Option<Role<'a>>,
    timestamp: Option<i64>,
    created_at: Option<i64>,
    token_count: Option<u32>,
    ties: Ties<'a>,
}

impl<'a> json::Members<'a> for Reading<'a> {
    #[inline(always)]
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>) {
        let key = if key.is_escaped() {
            known_key(key.raw())
        } else {
            key.raw()
        };
        // Compared by length first: most keys are none of these, which one comparison decides. Then as a whole slice: a pattern would be
        // compared byte by byte.
        match key.len() {
            4 if key == b"role" => self.role = Some(Role::from_json(value)),
            9 if key == b"timestamp" => self.timestamp = time_of_string(value),
            10 if key == b"created_at" => self.created_at = time_of_string(value),
            4 if key == b"type" => self.ties.kind = Some(value),
            7 if key == b"call_id" => self.ties.call_id = Some(value),
            12 if key == b"tool_call_id" => self.ties.tool_call_id = Some(value),
            10 if key == b"tool_calls" => self.ties.tool_calls = None,
            11 if key == b"token_count" => self.token_count = None,
            11 if key == b"entity_refs" => self.ties.entity_refs = None,
            _ => {}
        }
    }

    #[inline(never)]
    fn other(&mut self, key: RawString<'a>, value: Value<'a>) {
        let key = if key.is_escaped() {
            known_key(key.raw())
        } else {
            key.raw()
        };
        match key {
            b"role" => self.role = None,
            b"timestamp" => self.timestamp = time_of_number(value),
            b"created_at" => self.created_at = time_of_number(value),
            b"token_count" => self.token_count = count(value),
            b"type" => self.ties.kind = None,
            b"call_id" => self.ties.call_id = None,
            b"tool_call_id" => self.ties.tool_call_id = None,
            b"tool_calls" => self.ties.tool_calls = array(value),
            b"entity_refs" => self.ties.entity_refs = array(value),
            _ => {}
        }
    }
}

impl<'a> Reading<'a> {
    #[inline(always)]
    fn plain_facts(self) -> Facts<'a> {
        Facts {
            role: self.role.unwrap_or(Role::Other),
            time_ms: self.timestamp.or(self.created_at),
            token_count: self.token_count,
            calls: Vec::new(),
            answers: None,
            entity_refs: Vec::new(),
        }
    }

    // Kept out of the reader's own code, so that plain messages do not pay for it.
    #[inline(never)]
    fn tied_facts(mut self) -> Facts<'a> {
        let role_is_missing = self.role.is_none();
        let ties = std::mem::take(&mut self.ties);
        ties.added_to(self.plain_facts(), role_is_missing)
    }
}

/// What plain messages do not have: links to other messages and to entities, and the `type` that distinguishes a call from its answer.
#[derive(Default)]
struct Ties<'a> {
    kind: Option<RawString<'a>>,
    tool_calls: Option<&'a [u8]>,
    tool_call_id: Option<RawString<'a>>,
    call_id: Option<RawString<'a>>,
    entity_refs: Option<&'a [u8]>,
}

impl<'a> Ties<'a> {
    #[inline]
    fn are_none(&self) -> bool {
        self.kind.is_none()
            && self.tool_calls.is_none()
            && self.tool_call_id.is_none()
            && self.call_id.is_none()
            && self.entity_refs.is_none()
    }

    fn added_to(self, mut facts: Facts<'a>, role_is_missing: bool) -> Facts<'a> {
        if let Some(array) = self.tool_calls {
            json::object_elements(array, |id: IdOfCall<'_>| facts.calls.extend(id.0.map(|id| id.decode())));
        }
        facts.answers = self.tool_call_id.map(|id| id.decode());
        if let Some(array) = self.entity_refs {
            json::elements(array, |element| facts.entity_refs.extend(element.as_string()));
        }
        let kind = self.kind.map(|kind| kind.decode());
        match kind.as_deref() {
            Some("function_call") => facts.calls.extend(self.call_id.map(|id| id.decode())),
            Some("function_call_output") if facts.answers.is_none() => {
                facts.answers = self.call_id.map(|id| id.decode())
            }
            _ => {}
        }
        if role_is_missing {
            facts.role = match kind.as_deref() {
                Some("human") => Role::User,
                Some("ai" | "function_call") => Role::Assistant,
                Some("system") => Role::System,
                Some("tool" | "function_call_output") => Role::Tool,
                _ => Role::Other,
            };
        }
        facts
    }
}

/// Returns which of the keys that [`read`] knows is spelled by `key`, which contains escapes; an unknown name if none is.
#[cold]
fn known_key(key: &[u8]) -> &'static [u8] {
    const KNOWN: [&str; 9] = [
        "role",
        "timestamp",
        "created_at",
        "token_count",
        "type",
        "call_id",
        "tool_calls",
        "entity_refs",
        "tool_call_id",
    ];
    let key = RawString::from_parts(key, true).decode();
    KNOWN
        .iter()
        .find(|known| **known == key)
        .map_or(b"", |known| known.as_bytes())
}

/// Returns the ids of the calls that an accepted body makes, to compare ids with equal hashes.
pub fn calls_of(body: &[u8]) -> Vec<String> {
    read(body)
        .map(|facts| facts.calls.into_iter().map(Cow::into_owned).collect())
        .unwrap_or_default()
}

/// Returns the hash of a call id that records store.
pub fn call_hash(id: &str) -> u32 {
    hash32(id.as_bytes())
}

/// Returns the default token count: one for every four bytes or part of them.
#[inline]
pub fn estimated_tokens(body_bytes: usize) -> u32 {
    u32::try_from(body_bytes.div_ceil(4)).unwrap_or(u32::MAX)
}

fn array<'a>(value: Value<'a>) -> Option<&'a [u8]> {
    match value {
        Value::Array(text) => Some(text),
        _ => None,
    }
}

fn count(value: Value<'_>) -> Option<u32> {
    match value {
        Value::Number(digits) => text(digits).parse().ok(),
        _ => None,
    }
}

/// Returns the characters of a number, all of them ASCII.
fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}

/// The `id` of a call, if it is a string.
#[derive(Default)]
struct IdOfCall<'a>(Option<RawString<'a>>);

impl<'a> json::Members<'a> for IdOfCall<'a> {
    #[inline(always)]
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>) {
        if key.is("id") {
            self.0 = Some(value);
        }
    }

    fn other(&mut self, key: RawString<'a>, _: Value<'a>) {
        if key.is("id") {
            self.0 = None;
        }
    }
}

/// Parses an ISO 8601 string. The usual format contains no escapes.
#[inline(always)]
fn time_of_string(value: RawString<'_>) -> Option<i64> {
    time::parse_usual(value.raw()).or_else(|| time_of_any_string(value.raw(), value.is_escaped()))
}

// Takes the parts of the string: a reference to the string would force it into memory.
#[inline(never)]
fn time_of_any_string(raw: &[u8], is_escaped: bool) -> Option<i64> {
    time::parse_iso_8601(&RawString::from_parts(raw, is_escaped).decode())
}

/// Converts a number to Unix milliseconds: below 1e11 it is in seconds, else in milliseconds.
pub(crate) fn time_of_number(value: Value<'_>) -> Option<i64> {
    let Value::Number(digits) = value else { return None };
    let number: f64 = text(digits).parse().ok()?;
    let time_ms = if number < 1e11 { number * 1000.0 } else { number };
    (MIN_TIME_MS as f64..=MAX_TIME_MS as f64)
        .contains(&time_ms)
        .then_some(time_ms as i64)
}

/// A tool call of a message to compose.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub arguments: &'a str,
}

/// The arguments of `MSG role content …`.
#[derive(Debug, Clone, Default)]
pub struct Draft<'a> {
    pub role: &'a str,
    pub content: &'a str,
    pub name: Option<&'a str>,
    pub id: Option<&'a str>,
    pub tool_call_id: Option<&'a str>,
    pub tool_calls: Vec<ToolCall<'a>>,
    pub entity_refs: Vec<&'a str>,
}

/// Composes `{"role":…,"content":…,"timestamp":…}` plus, where given, `name`, `id`, `tool_call_id`, `tool_calls`, `entity_refs`.
pub fn compose(draft: &Draft<'_>, time_ms: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(draft.content.len() + 96);
    out.extend_from_slice(b"{\"role\":");
    json::write_string(&mut out, draft.role);
    out.extend_from_slice(b",\"content\":");
    json::write_string(&mut out, draft.content);
    out.extend_from_slice(b",\"timestamp\":");
    time::write_json(&mut out, Some(time_ms));
    for (key, value) in [
        ("name", draft.name),
        ("id", draft.id),
        ("tool_call_id", draft.tool_call_id),
    ] {
        if let Some(value) = value {
            write_member(&mut out, key, value);
        }
    }
    for (i, call) in draft.tool_calls.iter().enumerate() {
        out.extend_from_slice(if i == 0 {
            b",\"tool_calls\":[{\"id\":"
        } else {
            b",{\"id\":"
        });
        json::write_string(&mut out, call.id);
        write_member(&mut out, "name", call.name);
        write_member(&mut out, "arguments", call.arguments);
        out.push(b'}');
    }
    if !draft.tool_calls.is_empty() {
        out.push(b']');
    }
    for (i, entity) in draft.entity_refs.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b",\"entity_refs\":[" } else { b"," });
        json::write_string(&mut out, entity);
    }
    if !draft.entity_refs.is_empty() {
        out.push(b']');
    }
    out.push(b'}');
    out
}

/// Composes the body of a redacted message: its role, that it was redacted and why, and the ids that link calls and answers.
pub fn redacted(body: &[u8], reason: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let role = read(body).map_or(Role::Other, |facts| facts.role);
    out.extend_from_slice(b"{\"role\":");
    json::write_string(&mut out, role.as_str());
    out.extend_from_slice(b",\"content\":\"[redacted]\",\"redacted\":true");
    if let Some(reason) = reason {
        write_member(&mut out, "reason", reason);
    }
    let mut kept: [(&str, Option<Cow<'_, str>>); 3] = [("tool_call_id", None), ("type", None), ("call_id", None)];
    let mut calls = Vec::new();
    let _ = json::read_object(body, |key, value| {
        let key = key.decode();
        if key == "tool_calls" {
            calls.clear();
            if let Some(text) = array(value) {
                json::object_elements(text, |id: IdOfCall<'_>| calls.extend(id.0.map(|id| id.decode())));
            }
        } else if let Some(slot) = kept.iter_mut().find(|(name, _)| *name == key) {
            slot.1 = value.as_string();
        }
    });
    for (i, id) in calls.iter().enumerate() {
        out.extend_from_slice(if i == 0 {
            b",\"tool_calls\":[{\"id\":"
        } else {
            b",{\"id\":"
        });
        json::write_string(&mut out, id);
        out.push(b'}');
    }
    if !calls.is_empty() {
        out.push(b']');
    }
    for (key, value) in &kept {
        if let Some(value) = value {
            write_member(&mut out, key, value);
        }
    }
    out.push(b'}');
    out
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &str) {
    out.push(b',');
    json::write_string(out, key);
    out.push(b':');
    json::write_string(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(body: &str) -> Facts<'_> {
        read(body.as_bytes()).unwrap()
    }

    #[test]
    fn role_is_the_body_s_own_else_what_its_type_says() {
        for (body, role) in [
            (r#"{"role":"user","type":"ai"}"#, "user"),
            (r#"{"role":"critic"}"#, "critic"),
            (r#"{"role":""}"#, ""),
            (r#"{"role":5,"type":"human"}"#, "user"),
            (r#"{"role":"x","role":null,"type":"ai"}"#, "assistant"),
            (r#"{"type":"system"}"#, "system"),
            (r#"{"type":"tool"}"#, "tool"),
            (r#"{"type":"function_call"}"#, "assistant"),
            (r#"{"type":"function_call_output"}"#, "tool"),
            (r#"{"type":"chat"}"#, "other"),
            (r#"{}"#, "other"),
            (r#"{"r\u006fle":"us\u0065r"}"#, "user"),
        ] {
            assert_eq!(facts(body).role.as_str(), role, "{body}");
        }
    }

    #[test]
    fn calls_and_answers_of_both_shapes() {
        let chat = facts(r#"{"role":"assistant","tool_calls":[{"id":"a"},{"id":7},{"x":1},"s",{"id":"b","id":"c"}]}"#);
        assert_eq!(chat.calls, ["a", "c"]);
        assert_eq!(facts(r#"{"tool_call_id":"a"}"#).answers.as_deref(), Some("a"));
        assert_eq!(facts(r#"{"type":"function_call","call_id":"f"}"#).calls, ["f"]);
        let output = facts(r#"{"type":"function_call_output","call_id":"f"}"#);
        assert_eq!((output.answers.as_deref(), output.calls.len()), (Some("f"), 0));
        assert_eq!(facts(r#"{"call_id":"f"}"#).calls.len(), 0);
    }

    #[test]
    fn times_and_tokens() {
        assert_eq!(
            facts(r#"{"timestamp":"2026-01-14T10:00:00Z","created_at":5}"#).time_ms,
            Some(1_768_384_800_000)
        );
        assert_eq!(
            facts(r#"{"timestamp":"soon","created_at":1736850000.5}"#).time_ms,
            Some(1_736_850_000_500)
        );
        assert_eq!(
            facts(r#"{"created_at":1736850000500}"#).time_ms,
            Some(1_736_850_000_500)
        );
        assert_eq!(facts(r#"{"timestamp":1e300}"#).time_ms, None);
        assert_eq!(facts(r#"{"token_count":12}"#).token_count, Some(12));
        for body in [
            r#"{"token_count":12.5}"#,
            r#"{"token_count":-1}"#,
            r#"{"token_count":"12"}"#,
            r#"{"token_count":99999999999}"#,
        ] {
            assert_eq!(facts(body).token_count, None, "{body}");
        }
        assert_eq!([0, 1, 4, 5].map(estimated_tokens), [0, 1, 1, 2]);
    }

    #[test]
    fn a_draft_is_composed_in_the_documented_order() {
        let draft = Draft {
            role: "assistant",
            content: "a \"b\"\n",
            name: Some("n"),
            id: Some("i"),
            tool_call_id: Some("t"),
            tool_calls: vec![
                ToolCall {
                    id: "c1",
                    name: "f",
                    arguments: "{\"x\":1}",
                },
                ToolCall {
                    id: "c2",
                    name: "g",
                    arguments: "",
                },
            ],
            entity_refs: vec!["e1", "e2"],
        };
        let body = compose(&draft, 1_768_384_800_000);
        assert_eq!(
            std::str::from_utf8(&body).unwrap(),
            r#"{"role":"assistant","content":"a \"b\"\n","timestamp":"2026-01-14T10:00:00.000Z","name":"n","id":"i","tool_call_id":"t","tool_calls":[{"id":"c1","name":"f","arguments":"{\"x\":1}"},{"id":"c2","name":"g","arguments":""}],"entity_refs":["e1","e2"]}"#
        );
        assert!(read(&body).is_ok());
    }

    #[test]
    fn redaction_keeps_role_and_tool_ids_only() {
        let body =
            br#"{"content":"secret","tool_calls":[{"id":"c1","name":"f","arguments":"secret"}],"role":"assistant"}"#;
        assert_eq!(
            String::from_utf8(redacted(body, Some("pii"))).unwrap(),
            r#"{"role":"assistant","content":"[redacted]","redacted":true,"reason":"pii","tool_calls":[{"id":"c1"}]}"#
        );
        let output = br#"{"type":"function_call_output","call_id":"f","output":"secret"}"#;
        let redacted_output = redacted(output, None);
        assert_eq!(
            std::str::from_utf8(&redacted_output).unwrap(),
            r#"{"role":"tool","content":"[redacted]","redacted":true,"type":"function_call_output","call_id":"f"}"#
        );
        assert_eq!(redacted(&redacted_output, None), redacted_output);
    }
}
