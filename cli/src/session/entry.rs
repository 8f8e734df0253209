//! Entries of a session for display, read tolerantly: what a newer module adds is skipped or shown as it is.

use redis_session_client::{
    tolerant, Checkpoint, EntryKind, Event, RawEntry, ReadStep, SessionId, StoredMessage, Timestamp,
};
use serde_json::{json, value::RawValue, Map, Value as Json};

use super::body::Body;
use crate::term::text::clean_json;
use crate::term::time;

#[derive(Debug, Clone)]
pub struct Entry {
    pub seq: u64,
    pub time_ms: i64,
    pub what: What,
    /// The JSON as it came.
    raw: String,
}

#[derive(Debug, Clone)]
pub enum What {
    Message {
        body: Body,
        /// `None` for messages of `SESSION.READ`, which does not report it.
        tokens: Option<u64>,
    },
    /// An element that a migration set aside.
    Malformed(String),
    Event(Box<Event>),
    Checkpoint(Box<Checkpoint>),
    /// Seqs that are no longer there.
    Gap {
        from: u64,
        to: u64,
    },
    /// Another session has taken the key.
    Reset {
        session_id: SessionId,
    },
    /// A kind of entry that this program does not know.
    Unknown {
        kind: String,
    },
}

/// Sender, receiver and note of a handoff; `None` for other events.
pub fn handoff(event: &Event) -> Option<(&str, &str, Option<&str>)> {
    let named = |name: &str| event.change_info.as_ref()?.get(name)?.as_str();
    (event.event_type == "handoff").then_some(())?;
    Some((
        named("from").or(event.agent_id.as_deref())?,
        named("to")?,
        named("note"),
    ))
}

/// `changeInfo` without the entities, which are shown by themselves.
pub fn change(event: &Event) -> Map<String, Json> {
    let mut change = event.change_info.clone().unwrap_or_default();
    change.shift_remove("entityIds");
    change
}

/// Clamps a time to the calendar, so that sums do not overflow: bodies may carry any time.
fn sane(time: Timestamp) -> i64 {
    time.ms().clamp(-62_135_596_800_000, 253_402_300_799_999)
}

impl Entry {
    /// From `SESSION.READ`.
    pub fn of_read(read: RawEntry) -> Entry {
        let (seq, time_ms, raw) = (read.seq, sane(read.at), read.json.as_str().into_owned());
        let what = match read.tolerant_entry().kind {
            EntryKind::Message(_) => What::Message {
                body: Body::read(&raw),
                tokens: None,
            },
            EntryKind::Event(event) => What::Event(event),
            EntryKind::Checkpoint(checkpoint) => What::Checkpoint(checkpoint),
            EntryKind::Gap { from, to } => What::Gap { from, to },
            EntryKind::Reset { session_id } => What::Reset { session_id },
            EntryKind::Other { kind, .. } => What::Unknown { kind },
            _ => What::Unknown { kind: String::new() },
        };
        Entry {
            seq,
            time_ms,
            what,
            raw,
        }
    }

    /// From `SESSION.RANGE … WITHMETA`.
    pub fn of_message(message: StoredMessage) -> Entry {
        let raw = message.body.as_str().into_owned();
        Entry {
            seq: message.seq,
            time_ms: sane(message.at),
            what: What::Message {
                body: Body {
                    role: message.role.as_str().to_owned(),
                    ..Body::read(&raw)
                },
                tokens: Some(message.tokens),
            },
            raw,
        }
    }

    /// From `SESSION.RANGE … WITHMETA MALFORMED`.
    pub fn of_malformed(message: StoredMessage) -> Entry {
        let raw = message.body.as_str().into_owned();
        Entry {
            seq: message.seq,
            time_ms: sane(message.at),
            what: What::Malformed(raw.clone()),
            raw,
        }
    }

    /// From the JSON of an event. `None`: it has no seq.
    pub fn of_event(json: &[u8]) -> Option<Entry> {
        let event = tolerant::event(json)?;
        Some(Entry {
            seq: event.seq,
            time_ms: sane(event.timestamp),
            what: What::Event(Box::new(event)),
            raw: String::from_utf8_lossy(json).into_owned(),
        })
    }

    /// From a checkpoint of the session's document. `None`: it has no id.
    pub fn of_checkpoint(json: &Json) -> Option<Entry> {
        let raw = json.to_string();
        let checkpoint = tolerant::checkpoint(raw.as_bytes())?;
        Some(Entry {
            seq: checkpoint.checkpoint_id,
            time_ms: sane(checkpoint.timestamp),
            what: What::Checkpoint(Box::new(checkpoint)),
            raw,
        })
    }

    pub fn gap(from: u64, to: u64, time_ms: i64) -> Entry {
        Entry {
            seq: to,
            time_ms,
            what: What::Gap { from, to },
            raw: json!({"from": from, "to": to}).to_string(),
        }
    }

    pub fn reset(session_id: SessionId, time_ms: i64) -> Entry {
        Entry {
            seq: 0,
            time_ms,
            raw: json!({"session_id": session_id}).to_string(),
            what: What::Reset { session_id },
        }
    }

    /// What the entry does to a reader's cursor.
    pub fn step(&self) -> ReadStep {
        match self.what {
            What::Gap { to, .. } => ReadStep::Gap { to },
            What::Reset { .. } => ReadStep::Reset,
            _ => ReadStep::Recorded { seq: self.seq },
        }
    }

    pub fn is_message(&self) -> bool {
        matches!(self.what, What::Message { .. } | What::Malformed(_))
    }

    /// The entry as one JSON object, on one line: `seq`, `timestamp`, `kind`, of a message `role` and `tokens`, and `body` as it came.
    pub fn json(&self) -> String {
        let (kind, mut head) = match &self.what {
            What::Message { body, tokens } => ("message", json!({"role": body.role, "tokens": tokens})),
            What::Malformed(_) => ("malformed", json!({})),
            What::Event(_) => ("event", json!({})),
            What::Checkpoint(_) => ("checkpoint", json!({})),
            What::Gap { .. } => ("gap", json!({})),
            What::Reset { .. } => ("reset", json!({})),
            What::Unknown { kind } => (kind.as_str(), json!({})),
        };
        if head["tokens"].is_null() {
            head.as_object_mut().and_then(|head| head.shift_remove("tokens"));
        }
        let mut line = json!({"seq": self.seq, "timestamp": time::iso(self.time_ms), "kind": kind});
        if let (Some(line), Json::Object(head)) = (line.as_object_mut(), head) {
            line.extend(head);
        }
        // The body byte for byte, unless it is no JSON or would break the line.
        let is_json = !matches!(self.what, What::Malformed(_)) && serde_json::from_str::<&RawValue>(&self.raw).is_ok();
        let body = match is_json {
            true => clean_json(&self.raw).replace(['\n', '\r'], " "),
            false => clean_json(&Json::String(self.raw.clone()).to_string()),
        };
        let line = clean_json(&line.to_string());
        format!("{},\"body\":{body}}}", &line[..line.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;
    use redis_session_client::{request, MessageQuery, ReadOptions};

    fn entries(reply: Value) -> Vec<RawEntry> {
        let request = request::read_raw("k", ReadOptions::after(0)).tolerant();
        request.read(reply).expect("read tolerantly")
    }

    fn messages(reply: Value) -> Vec<StoredMessage> {
        let request = request::range_with_meta("k", MessageQuery::all()).tolerant();
        request.read(reply).expect("read tolerantly")
    }

    fn read(seq: i64, kind: &str, json: &str) -> Entry {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let entry = Value::Array(vec![Value::Int(seq), Value::Int(0), text(kind), text(json)]);
        Entry::of_read(entries(Value::Array(vec![entry])).remove(0))
    }

    #[test]
    fn a_newer_modules_kinds_and_fields_are_no_error() {
        assert!(matches!(read(1, "vote", "{}").what, What::Unknown { kind } if kind == "vote"));
        let more = r#"{"seq":2,"timestamp":"2026-01-14T10:00:00.000Z","type":"x","mood":{},
                       "stateTransition":{"from":"a","to":"b","by":1}}"#;
        let What::Event(event) = read(2, "event", more).what else {
            panic!("an event");
        };
        let moved = event.state_transition.expect("a transition");
        assert_eq!((moved.from.as_str(), moved.to.as_str()), ("a", "b"));
        for other in ["no json", r#"{"type":7}"#, "[]"] {
            assert!(matches!(read(3, "event", other).what, What::Unknown { kind } if kind == "event"));
            assert!(matches!(read(3, "checkpoint", other).what, What::Unknown { .. }));
        }
        assert!(matches!(read(3, "gap", "[]").what, What::Gap { from: 3, to: 3 }));
        assert!(entries(Value::Array(vec![Value::Nil])).is_empty());
        assert!(messages(Value::Array(vec![Value::Array(vec![Value::Int(1)])])).is_empty());
    }

    #[test]
    fn json_lines_hold_the_body_as_it_came() {
        let line = read(
            4,
            "message",
            "{\"role\":\"user\",\n \"n\": 1.50, \"content\":\"\u{9b}\"}",
        )
        .json();
        assert!(
            line.ends_with("\"body\":{\"role\":\"user\",  \"n\": 1.50, \"content\":\"\\u009b\"}}"),
            "{line}"
        );
        assert!(line.starts_with(r#"{"seq":4,"timestamp":"1970-01-01T00:00:00.000Z","kind":"message","role":"user","#));
        assert_eq!(
            Entry::gap(1, 3, 0).json(),
            r#"{"seq":3,"timestamp":"1970-01-01T00:00:00.000Z","kind":"gap","body":{"from":1,"to":3}}"#
        );
        let malformed = Value::Array(vec![
            Value::Int(1),
            Value::Int(0),
            Value::BulkString(b"other".to_vec()),
            Value::Int(1),
            Value::BulkString(b"a \x1b\xff".to_vec()),
        ]);
        let malformed = messages(Value::Array(vec![malformed])).remove(0);
        let line = Entry::of_malformed(malformed).json();
        assert!(line.ends_with(r#""body":"a \u001b�"}"#), "{line}");
    }

    #[test]
    fn a_handoff_has_two_ends() {
        let handoff = r#"{"seq":5,"timestamp":"2026-01-14T10:00:00.000Z","type":"handoff","agentId":"a","changeInfo":{"from":"a","to":"b","note":"hi"}}"#;
        let What::Event(event) = read(5, "event", handoff).what else {
            panic!("an event");
        };
        assert_eq!(super::handoff(&event), Some(("a", "b", Some("hi"))));
        let What::Event(event) = read(
            5,
            "event",
            r#"{"seq":5,"timestamp":"2026-01-14T10:00:00.000Z","type":"handoff"}"#,
        )
        .what
        else {
            panic!("an event");
        };
        assert_eq!(super::handoff(&event), None);
    }
}
