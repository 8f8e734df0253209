//! Tool calls matched with their results, and both shortened to a line.

use std::collections::{HashMap, HashSet};

use redis_session_client::tolerant;
use serde_json::Value as Json;

use crate::session::body::Call;
use crate::session::entry::{Entry, What};
use crate::term::text::clean_line;

/// Tool results by the calls that they answer.
#[derive(Default)]
pub struct Exchanges {
    /// By the seq of the calling message and the call's number in it.
    answers: HashMap<(u64, usize), String>,
    /// Messages that hold nothing but results that are shown with their calls.
    folded: HashSet<u64>,
    /// Tool names by call id, for results that are shown without their call.
    names: HashMap<String, String>,
}

impl Exchanges {
    /// Matches each result with the nearest earlier call of its id.
    pub fn of(entries: &[Entry]) -> Exchanges {
        let mut out = Exchanges::default();
        let mut open: HashMap<&str, (u64, usize)> = HashMap::new();
        for entry in entries {
            let What::Message { body, .. } = &entry.what else {
                continue;
            };
            let mut are_all_known = true;
            for answer in &body.answers {
                match open.get(answer.id.as_str()) {
                    // A second answer to the same call stands for itself.
                    Some(call) if !out.answers.contains_key(call) => {
                        out.answers.insert(*call, answer.text.clone());
                    }
                    _ => are_all_known = false,
                }
            }
            if are_all_known && body.is_answer_only() && body.redacted.is_none() {
                out.folded.insert(entry.seq);
            }
            for (n, call) in body.calls.iter().enumerate() {
                open.insert(&call.id, (entry.seq, n));
            }
            out.learn(entry);
        }
        out
    }

    /// Remembers the tool names of an entry's calls.
    pub fn learn(&mut self, entry: &Entry) {
        if let What::Message { body, .. } = &entry.what {
            let calls = body.calls.iter().filter(|call| !call.id.is_empty());
            self.names
                .extend(calls.map(|call| (call.id.clone(), call.name.clone())));
        }
    }

    pub fn answer(&self, seq: u64, call: usize) -> Option<&str> {
        self.answers.get(&(seq, call)).map(String::as_str)
    }

    pub fn is_folded(&self, seq: u64) -> bool {
        self.folded.contains(&seq)
    }

    pub fn name(&self, id: &str) -> Option<&str> {
        self.names.get(id).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// A call's arguments on one line: `user_id: "mia", flights: [3]`, or whatever was sent in place of an object.
pub fn arguments(call: &Call) -> String {
    match &call.arguments {
        Json::Null => String::new(),
        Json::String(text) => clean_line(text),
        Json::Object(object) => {
            let all = object.iter().map(|(name, value)| format!("{name}: {value}"));
            clean_line(&all.collect::<Vec<_>>().join(", "))
        }
        other => clean_line(&other.to_string()),
    }
}

pub fn called(call: &Call) -> String {
    let name = if call.name.is_empty() { "a tool" } else { &call.name };
    clean_line(name)
}

/// A result on one line.
pub fn short(result: &str) -> String {
    let compact = match tolerant::json(result.as_bytes()) {
        Some(json @ (Json::Object(_) | Json::Array(_))) => json.to_string(),
        _ => result.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    clean_line(&compact)
}

/// Indents JSON objects and arrays, and leaves anything else as it is.
pub fn unfolded(text: &str) -> String {
    match tolerant::json(text.as_bytes()) {
        Some(json @ (Json::Object(_) | Json::Array(_))) => pretty(&json),
        _ => text.to_owned(),
    }
}

pub fn pretty(json: &Json) -> String {
    serde_json::to_string_pretty(json).unwrap_or_else(|_| json.to_string())
}

/// Whether a result looks like an error.
pub fn is_failure(result: &str) -> bool {
    let begin = result.trim_start();
    let says = ["error", "exception", "traceback", "fatal"].iter().any(|word| {
        begin
            .get(..word.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(word))
    });
    let is_error = |json: &Json| {
        json.get("error")
            .is_some_and(|error| !error.is_null() && error != &Json::Bool(false))
    };
    says || (begin.starts_with('{') && tolerant::json(begin.as_bytes()).is_some_and(|json| is_error(&json)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;
    use redis_session_client::{request, MessageQuery};

    fn message(seq: i64, body: &str) -> Entry {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = vec![Value::Int(seq), Value::Int(0), text("x"), Value::Int(1), text(body)];
        let range = request::range_with_meta("k", MessageQuery::all());
        let messages = range.read(Value::Array(vec![Value::Array(fields)]));
        Entry::of_message(messages.expect("a message").remove(0))
    }

    #[test]
    fn an_answer_belongs_to_the_nearest_earlier_call() {
        let call = r#"{"tool_calls":[{"id":"c","name":"get","arguments":"{}"},{"id":"d","name":"put"}]}"#;
        let answer = |id: &str, text: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
        let entries = [
            message(1, &answer("c", "too early")),
            message(2, call),
            message(3, &answer("c", "one")),
            message(4, &answer("c", "one again")),
            message(5, call),
            message(6, &answer("c", "two")),
        ];
        let exchanges = Exchanges::of(&entries);
        assert_eq!(exchanges.answer(2, 0), Some("one"));
        assert_eq!(exchanges.answer(5, 0), Some("two"));
        assert_eq!(exchanges.answer(2, 1), None);
        let folded: Vec<u64> = (1..=6).filter(|seq| exchanges.is_folded(*seq)).collect();
        assert_eq!(folded, [3, 6]);
        assert_eq!(exchanges.name("d"), Some("put"));
    }

    #[test]
    fn exchanges_are_short() {
        let call = |arguments: &str| Call {
            id: String::new(),
            name: "f".into(),
            arguments: tolerant::json(arguments.as_bytes()).unwrap(),
        };
        assert_eq!(arguments(&call(r#"{"a":"x\ny","b":[1,2]}"#)), r#"a: "x\ny", b: [1,2]"#);
        assert_eq!(arguments(&call(r#""half {\u001b""#)), "half {␛");
        assert_eq!(short("{\n  \"a\": 1\n}"), r#"{"a":1}"#);
        assert_eq!(short(" two\n  lines "), "two lines");
        assert!(is_failure("Error: no seats") && is_failure(r#"{"error":"x"}"#));
        assert!(!is_failure(r#"{"error":null}"#) && !is_failure("no error") && !is_failure("é"));
    }
}
