//! What a session has recorded, decoded leniently: what a newer module adds is passed over or shown as it came.

use redis::Value;
use serde_json::{json, value::RawValue, Map, Value as Json};

use super::body::{parse, Body};
use crate::connection::{array, bytes, int};
use crate::term::time;

#[derive(Debug, Clone)]
pub struct Entry {
    pub seq: i64,
    pub time_ms: i64,
    pub what: What,
    /// The JSON as it came.
    raw: String,
}

#[derive(Debug, Clone)]
pub enum What {
    Message {
        body: Body,
        tokens: Option<i64>,
    },
    /// What a migration has set aside.
    Malformed(String),
    Event(Event),
    Checkpoint(Checkpoint),
    /// Seqs that are no longer there.
    Gap {
        from: i64,
        to: i64,
    },
    /// Another session has taken the key.
    Reset {
        session_id: String,
    },
    Unknown {
        kind: String,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Event {
    pub kind: String,
    pub agent: Option<String>,
    pub entities: Vec<String>,
    /// `changeInfo` without the entities.
    pub change: Map<String, Json>,
    pub impact: Option<Json>,
    pub transition: Option<(String, String)>,
}

impl Event {
    /// Who handed over to whom, with which note.
    pub fn handoff(&self) -> Option<(String, String, Option<String>)> {
        let named = |name: &str| self.change.get(name).and_then(Json::as_str).map(str::to_owned);
        (self.kind == "handoff").then_some(())?;
        Some((
            named("from").or_else(|| self.agent.clone())?,
            named("to")?,
            named("note"),
        ))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    pub time_ms: i64,
    pub label: Option<String>,
    pub outcome: Option<String>,
    pub state: Option<String>,
    pub refs: Vec<String>,
}

pub fn text(value: Option<&Json>) -> Option<String> {
    Some(value?.as_str()?.to_owned())
}

pub fn texts(value: Option<&Json>) -> Vec<String> {
    let items = value.and_then(Json::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(|item| text(Some(item)))
        .collect()
}

pub fn time_of(value: Option<&Json>) -> Option<i64> {
    time::parse_iso(value?.as_str()?)
}

/// Bodies date themselves, and may say anything: within the calendar, sums of times cannot overflow.
fn sane(time_ms: i64) -> i64 {
    time_ms.clamp(-62_135_596_800_000, 253_402_300_799_999)
}

fn lossy(value: Value) -> Option<String> {
    bytes(value).map(|bytes| {
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    })
}

impl Entry {
    /// `[seq, ms, kind, json]` of `SESSION.READ`.
    pub fn of_read(value: Value) -> Option<Entry> {
        let mut fields = array(value).into_iter();
        let (seq, time_ms) = (int(&fields.next()?)?, sane(int(&fields.next()?)?));
        let (kind, raw) = (lossy(fields.next()?)?, lossy(fields.next()?)?);
        let json = || parse(&raw).unwrap_or_default();
        let what = match kind.as_str() {
            "message" => What::Message {
                body: Body::read(&raw),
                tokens: None,
            },
            "event" => event(&json()).map_or(What::Unknown { kind }, What::Event),
            "checkpoint" => checkpoint(&json()).map_or(What::Unknown { kind }, What::Checkpoint),
            "gap" => What::Gap {
                from: json()["from"].as_i64().unwrap_or(seq),
                to: json()["to"].as_i64().unwrap_or(seq),
            },
            "reset" => What::Reset {
                session_id: text(json().get("session_id")).unwrap_or_default(),
            },
            _ => What::Unknown { kind },
        };
        Some(Entry {
            seq,
            time_ms,
            what,
            raw,
        })
    }

    /// `[seq, ms, role, tokens, body]` of `SESSION.RANGE … WITHMETA`.
    pub fn of_range(value: Value, is_malformed: bool) -> Option<Entry> {
        let mut fields = array(value).into_iter();
        let (seq, time_ms) = (int(&fields.next()?)?, sane(int(&fields.next()?)?));
        let (role, tokens, raw) = (lossy(fields.next()?)?, int(&fields.next()?), lossy(fields.next()?)?);
        let what = if is_malformed {
            What::Malformed(raw.clone())
        } else {
            let body = Body {
                role,
                ..Body::read(&raw)
            };
            What::Message { body, tokens }
        };
        Some(Entry {
            seq,
            time_ms,
            what,
            raw,
        })
    }

    /// An object of `SESSION.EVENT RANGE`.
    pub fn of_event(value: Value) -> Option<Entry> {
        let raw = lossy(value)?;
        let json = parse(&raw)?;
        Some(Entry {
            seq: json["seq"].as_i64()?,
            time_ms: time_of(json.get("timestamp")).unwrap_or_default(),
            what: event(&json).map_or_else(|| What::Unknown { kind: "event".into() }, What::Event),
            raw,
        })
    }

    /// A checkpoint of the session's document.
    pub fn of_checkpoint(json: &Json) -> Option<Entry> {
        let checkpoint = checkpoint(json)?;
        Some(Entry {
            seq: json["checkpointId"].as_i64()?,
            time_ms: checkpoint.time_ms,
            what: What::Checkpoint(checkpoint),
            raw: json.to_string(),
        })
    }

    pub fn gap(from: i64, to: i64, time_ms: i64) -> Entry {
        Entry {
            seq: to,
            time_ms,
            what: What::Gap { from, to },
            raw: json!({"from": from, "to": to}).to_string(),
        }
    }

    pub fn reset(session_id: String, time_ms: i64) -> Entry {
        Entry {
            seq: 0,
            time_ms,
            raw: json!({"session_id": session_id}).to_string(),
            what: What::Reset { session_id },
        }
    }

    pub fn is_message(&self) -> bool {
        matches!(self.what, What::Message { .. } | What::Malformed(_))
    }

    /// One JSON object, on one line: `seq`, `timestamp`, `kind`, of a message `role` and `tokens`, and `body` as it came.
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
            true => crate::term::text::clean_json(&self.raw).replace(['\n', '\r'], " "),
            false => crate::term::text::clean_json(&Json::String(self.raw.clone()).to_string()),
        };
        let line = crate::term::text::clean_json(&line.to_string());
        format!("{},\"body\":{body}}}", &line[..line.len() - 1])
    }
}

/// None where it is not what this program knows as an event.
fn event(json: &Json) -> Option<Event> {
    let event: redis_session_client::Event = serde_json::from_value(json.clone()).ok()?;
    let entities = event.entity_ids().into_iter().map(str::to_owned).collect();
    let mut change = event.change_info.unwrap_or_default();
    change.shift_remove("entityIds");
    Some(Event {
        kind: event.event_type,
        agent: event.agent_id,
        entities,
        change,
        impact: event.impact.map(Json::Object),
        transition: event.state_transition.map(|moved| (moved.from, moved.to)),
    })
}

fn checkpoint(json: &Json) -> Option<Checkpoint> {
    let checkpoint: redis_session_client::Checkpoint = serde_json::from_value(json.clone()).ok()?;
    Some(Checkpoint {
        time_ms: sane(checkpoint.timestamp.ms()),
        label: checkpoint.label,
        outcome: checkpoint.outcome,
        state: checkpoint.state,
        refs: checkpoint.ref_entities,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seq: i64, kind: &str, json: &str) -> Entry {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Entry::of_read(Value::Array(vec![
            Value::Int(seq),
            Value::Int(0),
            text(kind),
            text(json),
        ]))
        .expect("an entry")
    }

    #[test]
    fn a_newer_modules_kinds_and_fields_are_no_error() {
        assert!(matches!(read(1, "vote", "{}").what, What::Unknown { kind } if kind == "vote"));
        let more = r#"{"seq":2,"timestamp":"2026-01-14T10:00:00.000Z","type":"x","mood":{},
                       "stateTransition":{"from":"a","to":"b","by":1}}"#;
        let What::Event(event) = read(2, "event", more).what else {
            panic!("an event");
        };
        assert_eq!(event.transition, Some(("a".into(), "b".into())));
        for other in ["no json", r#"{"type":7}"#, "[]"] {
            assert!(matches!(read(3, "event", other).what, What::Unknown { kind } if kind == "event"));
            assert!(matches!(read(3, "checkpoint", other).what, What::Unknown { .. }));
        }
        assert!(matches!(read(3, "gap", "[]").what, What::Gap { from: 3, to: 3 }));
        assert!(Entry::of_read(Value::Nil).is_none());
        assert!(Entry::of_range(Value::Array(vec![Value::Int(1)]), false).is_none());
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
        let line = Entry::of_range(malformed, true).expect("an entry").json();
        assert!(line.ends_with(r#""body":"a \u001b�"}"#), "{line}");
    }

    #[test]
    fn a_handoff_has_two_ends() {
        let handoff = r#"{"seq":5,"timestamp":"2026-01-14T10:00:00.000Z","type":"handoff","agentId":"a","changeInfo":{"from":"a","to":"b","note":"hi"}}"#;
        let What::Event(event) = read(5, "event", handoff).what else {
            panic!("an event");
        };
        assert_eq!(event.handoff(), Some(("a".into(), "b".into(), Some("hi".into()))));
        let What::Event(event) = read(
            5,
            "event",
            r#"{"seq":5,"timestamp":"2026-01-14T10:00:00.000Z","type":"handoff"}"#,
        )
        .what
        else {
            panic!("an event");
        };
        assert_eq!(event.handoff(), None);
    }
}
