//! `live-hash`: a hash with `agentIds` and `state`, and maybe a sorted set of events, scored by their seq.
//!
//! ```text
//!  HASH   agentIds ["a1","a2"], state "working", and whatever else
//!  ZSET   3 {"seq":3,"type":"modified","changeInfo":{"entityIds":["e1"]},"impact":{"perfDelta":-2},
//!            "stateTransition":{"from":"pass","to":"broke"},"agentId":"a1","timestamp":"2026-01-14T10:00:00Z"} …
//! ```
//!
//! - Each agent of `agentIds` becomes one of the session: joined when the session was made, seen last at its last activity. What else
//!   stands in the array keeps it in `meta`.
//! - `state` becomes the state. All other fields go to `meta`, `created_at`, `updated_at` and `session_id` too, which are also understood as
//!   in `hash-list`.
//! - Members become events in the order of their scores, with new seqs: the object as it was, its `seq` and a readable `timestamp` written
//!   anew, and a `timestamp` or `type` (`unknown`) added where there is none. The state is the hash's, whatever transitions say.

use std::borrow::Cow;

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::parts::{field, identity_of_text, time_of_text, Fields};
use super::sample::Sample;
use super::source::{BadLayout, Field, Kind, Sources};
use crate::json::{self, RawString, Value};
use crate::message::time_of_number;
use crate::payload::is_text;
use crate::time;

const AGENT_IDS: &str = "agentIds";
const STATE: &str = "state";
/// The type of an event that has none.
const UNKNOWN_TYPE: &str = "unknown";

pub(super) static ROW: Row = Row {
    name: "live-hash",
    values: "a hash with `agentIds` and `state`, a sorted set of events",
    needs: &[Kind::Hash],
    may_have: &[Kind::Zset],
    keys: &[
        KeyName::new(&[Kind::Hash], "*"),
        KeyName::new(&[Kind::Zset], "*:events").optional().or_like_first(),
    ],
    sample: &[
        Sample::Hash(&[(AGENT_IDS, r#"["a1","a2"]"#), (STATE, "working"), ("note", "x")]),
        Sample::Zset(&[(
            3.0,
            r#"{"seq":3,"type":"modified","changeInfo":{"entityIds":["e1"]},"impact":{"perfDelta":-2},"agentId":"a1","timestamp":"2026-01-14T10:00:00Z"}"#,
        )]),
    ],
    told_by: ToldBy::Hash {
        matches,
        fields: &[AGENT_IDS, STATE],
        lacks: "agentIds (a JSON array) and state",
    },
    read,
};

fn matches(hash: &[Field<'_>]) -> bool {
    field(hash, STATE).is_some() && field(hash, AGENT_IDS).is_some_and(|ids| names(ids).is_some())
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let items = sources
        .zset
        .as_ref()
        .map_or(Items::none(), |zset| Items::Events(zset.value));
    let mut legacy = Legacy::new(&ROW, items);
    let mut fields = Fields::of(sources);
    if let Some((names, is_whole)) = field(fields.rest(), AGENT_IDS).and_then(names) {
        legacy.agents = names;
        fields.take(AGENT_IDS, |_| is_whole.then_some(()));
    }
    legacy.state = fields.take(STATE, |state| {
        let state = std::str::from_utf8(state).ok()?;
        is_text(state).then(|| state.to_owned())
    });
    let text = |name| field(fields.rest(), name);
    legacy.created_at_ms = text("created_at").and_then(time_of_text);
    legacy.last_activity_ms = text("updated_at").and_then(time_of_text);
    legacy.id = text("session_id").and_then(|id| identity_of_text(id, "session_id"));
    legacy.meta.add_fields(fields.rest());
    Ok(legacy)
}

/// The names in a JSON array, each once, and whether that is all there is in it.
fn names(text: &[u8]) -> Option<(Vec<String>, bool)> {
    let (Value::Array(array), rest) = json::read_front(text).ok()? else {
        return None;
    };
    if !json::skip_space(rest).is_empty() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    let mut is_whole = true;
    json::elements(array, |element| {
        match element.as_string().filter(|name| is_text(name)) {
            Some(name) if names.iter().any(|known| *known == name) => {}
            Some(name) => names.push(name.into_owned()),
            None => is_whole = false,
        }
    });
    Some((names, is_whole))
}

/// A member of the sorted set as an event.
pub(crate) struct Event<'a> {
    pub body: Vec<u8>,
    pub kind: Cow<'a, str>,
    pub time_ms: i64,
}

/// Composes the event of an accepted object. `content_ms` dates one without a readable timestamp.
pub(crate) fn event(object: &[u8], seq: u64, content_ms: i64) -> Event<'_> {
    let mut members: Vec<(RawString<'_>, Value<'_>)> = Vec::new();
    // A key given twice counts as given last.
    json::members(object, |key, value| {
        match members.iter_mut().find(|(known, _)| known.decode() == key.decode()) {
            Some((_, known)) => *known = value,
            None => members.push((key, value)),
        }
    });
    let get = |name: &str| members.iter().find(|(key, _)| key.is(name)).map(|(_, value)| *value);
    let timestamp = get("timestamp");
    let own_ms = timestamp.and_then(|value| match value {
        Value::String(text) => time::parse_iso_8601(&text.decode()),
        number => time_of_number(number),
    });
    let time_ms = own_ms.unwrap_or(content_ms);
    let kind = get("type");
    let mut body = format!("{{\"seq\":{seq}").into_bytes();
    if own_ms.is_some() || timestamp.is_none() {
        body.extend_from_slice(b",\"timestamp\":");
        time::write_json(&mut body, Some(time_ms));
    }
    if kind.is_none() {
        body.extend_from_slice(b",\"type\":");
        json::write_string(&mut body, UNKNOWN_TYPE);
    }
    for (key, value) in &members {
        if key.is("seq") || (own_ms.is_some() && key.is("timestamp")) {
            continue;
        }
        body.extend_from_slice(b",\"");
        body.extend_from_slice(key.raw());
        body.extend_from_slice(b"\":");
        body.extend_from_slice(&json::value_bytes(value));
    }
    body.push(b'}');
    Event {
        body,
        kind: kind.and_then(|kind| kind.as_string()).unwrap_or(UNKNOWN_TYPE.into()),
        time_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::event::EventRange;
    use crate::fixture::ALL_EVENTS as ALL;
    use crate::layout::tests::{events, migrated, set_aside, NOW_MS};
    use crate::layout::{recognise, recognise_alone, Source};
    use crate::Session;

    const SAMPLE: &str = r#"{"seq":3,"type":"modified","changeInfo":{"entityIds":["e1"]},"impact":{"perfDelta":-2},"stateTransition":{"from":"pass","to":"broke"},"agentId":"a1","timestamp":"2026-01-14T10:00:00Z"}"#;

    fn hash(agents: &'static str) -> Source<'static> {
        Source::Hash(vec![
            (b"agentIds", agents.as_bytes()),
            (b"state", b"broke"),
            (b"created_at", b"2026-01-14T10:00:00Z"),
            (b"note", b"x"),
        ])
    }

    #[test]
    fn agents_state_and_events_become_those_of_a_session() {
        let zset = Source::Zset(vec![
            (1.0, br#"{"timestamp":"soon","note":1}"#),
            (2.0, b"nonsense"),
            (3.0, SAMPLE.as_bytes()),
        ]);
        let hash = hash(r#" ["a2","a1","a1"] "#);
        assert_eq!(recognise_alone(&hash), None);
        assert!(recognise(std::slice::from_ref(&zset), None).is_err());
        let (session, done) = migrated(&[zset, hash], None);
        assert_eq!(session.state(), "broke");
        let agents: Vec<_> = session
            .agents()
            .map(|(name, agent)| (name, agent.joined_at_ms, agent.last_seen_ms))
            .collect();
        assert_eq!(
            agents,
            [("a1", 1_768_384_800_000, NOW_MS), ("a2", 1_768_384_800_000, NOW_MS)]
        );
        assert_eq!(
            session.meta(),
            Some(r#"{"created_at":"2026-01-14T10:00:00Z","note":"x"}"#)
        );
        assert_eq!(
            events(&session),
            [
                r#"{"seq":1,"type":"unknown","timestamp":"soon","note":1}"#,
                r#"{"seq":3,"timestamp":"2026-01-14T10:00:00.000Z","type":"modified","changeInfo":{"entityIds":["e1"]},"impact":{"perfDelta":-2},"stateTransition":{"from":"pass","to":"broke"},"agentId":"a1"}"#,
            ]
        );
        assert_eq!(set_aside(&session), [b"nonsense"]);
        assert_eq!(
            (done.messages, done.malformed, done.events, session.last_seq()),
            (0, 1, 2, 3)
        );
        assert_eq!(found(&session, &EventRange { agents: &["a1"], ..ALL }), 1);
        assert_eq!(
            found(
                &session,
                &EventRange {
                    entities: &["e1"],
                    from_state: Some("pass"),
                    ..ALL
                }
            ),
            1
        );
        assert_eq!(
            found(
                &session,
                &EventRange {
                    kinds: &["modified", "unknown"],
                    ..ALL
                }
            ),
            2
        );
    }

    fn found(session: &Session, range: &EventRange<'_>) -> u64 {
        let mut count = 0;
        session.events(range, i64::MAX, |_| count += 1);
        count
    }

    #[test]
    fn agents_that_are_none_keep_the_array_in_the_meta() {
        let (session, _) = migrated(&[hash(r#"["a1",7]"#)], None);
        assert_eq!(session.agents().count(), 1);
        assert!(session.meta().unwrap().starts_with(r#"{"agentIds":"[\"a1\",7]","#));
        let no_array = hash("a1,a2");
        assert!(recognise(std::slice::from_ref(&no_array), None).is_err());
        let (session, _) = migrated(&[no_array], Some(ROW.format()));
        assert!(session.meta().unwrap().starts_with(r#"{"agentIds":"a1,a2","#));
    }
}
