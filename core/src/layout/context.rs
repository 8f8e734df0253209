//! `context`: a string that is one JSON object with `matter_id` and `messages`, oldest first, and the entities that they mention.
//!
//! ```json
//! {"session_id":"<uuid>","matter_id":"m1","user_id":"u1","created_at":"2026-01-14T10:00:00+00:00","last_activity":"…",
//!  "messages":[{"role":"user","content":"…","timestamp":"2026-01-14T10:00:00Z","entity_refs":["e1"]}],
//!  "entities_mentioned":{"e1":{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["Mr Smith"],"mention_count":3,"last_mentioned":"…"}},
//!  "query_count":4,"ttl_extended_count":2}
//! ```
//!
//! - It keeps its id (if a UUID), times and counts; its scope is `matter_id:user_id`, without a user just the matter. It brings a window of
//!   [`WINDOW`] messages, which holds at once, as everywhere: of more messages than that the oldest exchanges go.
//! - Entities are in the order of `last_mentioned`; of equal ones the one given later is the more recent. One that does not say when it was
//!   mentioned counts as mentioned when the session was made. The messages' `entity_refs` were counted by who wrote them: they count no
//!   more, unless there is no `entities_mentioned` at all.
//! - Any other member goes to `meta`, and so does an entity of which not everything was understood, to `meta.entities_mentioned`.

use std::borrow::Cow;
use std::collections::HashMap;

use super::legacy::{Items, Legacy, LegacyEntity, Row, ToldBy};
use super::names::KeyName;
use super::parts::{identity_of, time_of_value};
use super::sample::Sample;
use super::source::{BadLayout, Kind, Sources};
use super::text::Object;
use crate::entity::UNKNOWN_TYPE;
use crate::json::{self, Value};
use crate::payload::{is_text, MAX_COUNTER};

/// The window that the layout brings.
pub const WINDOW: u64 = 20;

pub(super) static ROW: Row = Row {
    name: "context",
    values: "a string: a JSON object with `matter_id` and `messages`",
    needs: &[Kind::String],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::String], "*")],
    sample: &[Sample::String(
        r#"{"session_id":"00000000-0000-0000-0000-00000000000a","matter_id":"m1","user_id":"u1","created_at":"2026-01-14T10:00:00+00:00","messages":[{"role":"user","content":"hi","timestamp":"2026-01-14T10:00:00Z","entity_refs":["e1"]}],"entities_mentioned":{"e1":{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["Mr Smith"],"mention_count":3}},"query_count":4,"ttl_extended_count":2}"#,
    )],
    told_by: ToldBy::Object(matches),
    read,
};

fn matches(object: &Object<'_>) -> bool {
    object.get("matter_id").is_some() && object.has_messages("messages")
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let (mut object, number) = sources.take_object()?;
    let items = Items::oldest_first(object.take_elements("messages"));
    let mut legacy = Legacy::new(&ROW, items);
    legacy.maxlen = Some(WINDOW);
    legacy.id = identity_of(&object, "session_id");
    if legacy.id.is_some() {
        object.take("session_id", |_| Some(()));
    }
    legacy.scope = take_scope(&mut object);
    legacy.created_at_ms = object.take("created_at", |member| time_of_value(member.value));
    legacy.last_activity_ms = object.take("last_activity", |member| time_of_value(member.value));
    legacy.query_count = object.take("query_count", |member| count_of(member.value));
    legacy.ttl_extended_count = object.take("ttl_extended_count", |member| count_of(member.value));
    let mentioned = object.take("entities_mentioned", |member| match member.value {
        Value::Object(_) => Some(member.text),
        _ => None,
    });
    legacy.meta.add_members(object.members());
    if let Some(mentioned) = mentioned {
        let (entities, others) = entities_of(mentioned);
        legacy.entities = Some(entities);
        if !others.is_empty() {
            legacy.meta.set_own("entities_mentioned", others);
        }
    }
    legacy.meta.check(number)?;
    Ok(legacy)
}

fn take_scope(object: &mut Object<'_>) -> Option<String> {
    let matter = object.get("matter_id")?.value.as_string()?;
    let user = object.get("user_id").map(|member| member.value);
    let user = match user {
        None | Some(Value::Null) => None,
        Some(user) => Some(user.as_string()?),
    };
    let scope = match user {
        Some(user) => format!("{matter}:{user}"),
        None => matter.into_owned(),
    };
    if !is_text(&scope) {
        return None;
    }
    object.take("matter_id", |_| Some(()));
    object.take("user_id", |_| Some(()));
    Some(scope)
}

/// The entities of an accepted object, ordered by mention, and an object of those of which not everything was understood; empty if there
/// is none.
fn entities_of(mentioned: &[u8]) -> (Vec<LegacyEntity>, Vec<u8>) {
    let mut entities: Vec<LegacyEntity> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut others = Vec::new();
    json::members(mentioned, |key, value| {
        let id = key.decode();
        let (entity, is_whole) = match value {
            Value::Object(text) if is_text(&id) => {
                let (entity, is_whole) = entity_of(&id, text);
                (Some(entity), is_whole)
            }
            _ => (None, false),
        };
        if !is_whole {
            others.push(if others.is_empty() { b'{' } else { b',' });
            others.push(b'"');
            others.extend_from_slice(key.raw());
            others.extend_from_slice(b"\":");
            others.extend_from_slice(&json::value_bytes(&value));
        }
        if let Some(entity) = entity {
            // A key given twice counts as given last.
            match places.get(id.as_ref()) {
                Some(&place) => entities[place] = entity,
                None => {
                    places.insert(id.into_owned(), entities.len());
                    entities.push(entity);
                }
            }
        }
    });
    if !others.is_empty() {
        others.push(b'}');
    }
    // Stable: of equal times, the one given later stays the later one.
    entities.sort_by_key(|entity| entity.last_mentioned_ms.unwrap_or(i64::MIN));
    (entities, others)
}

/// An entity, and whether that is all there is in its object.
fn entity_of(id: &str, text: &[u8]) -> (LegacyEntity, bool) {
    let mut entity = LegacyEntity {
        id: id.to_owned(),
        name: id.to_owned(),
        kind: UNKNOWN_TYPE.to_owned(),
        aliases: Vec::new(),
        mention_count: 1,
        last_mentioned_ms: None,
    };
    let mut is_whole = true;
    json::members(text, |key, value| {
        let is_understood = match key.decode().as_ref() {
            "entity_id" | "id" => value.as_string().is_some_and(|own| own == id),
            "entity_name" | "name" => set(&mut entity.name, text_of(value)),
            "entity_type" | "type" => set(&mut entity.kind, text_of(value)),
            "aliases" => add_aliases(&mut entity.aliases, value),
            "mention_count" => set(&mut entity.mention_count, count_of(value)),
            "last_mentioned" => match time_of_value(value) {
                Some(time_ms) => {
                    entity.last_mentioned_ms = Some(time_ms);
                    true
                }
                None => false,
            },
            _ => false,
        };
        is_whole &= is_understood;
    });
    (entity, is_whole)
}

fn set<T>(place: &mut T, value: Option<impl Into<T>>) -> bool {
    match value {
        Some(value) => {
            *place = value.into();
            true
        }
        None => false,
    }
}

fn text_of(value: Value<'_>) -> Option<String> {
    value.as_string().filter(|text| is_text(text)).map(Cow::into_owned)
}

/// False if there is anything but names.
fn add_aliases(aliases: &mut Vec<String>, value: Value<'_>) -> bool {
    let array = match value {
        Value::Array(array) => array,
        other => return other == Value::Null,
    };
    let mut is_whole = true;
    json::elements(array, |element| match text_of(element) {
        Some(alias) if aliases.contains(&alias) => {}
        Some(alias) => aliases.push(alias),
        None => is_whole = false,
    });
    is_whole
}

fn count_of(value: Value<'_>) -> Option<u64> {
    let Value::Number(digits) = value else { return None };
    let count = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (count <= MAX_COUNTER).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::{ROW, WINDOW};
    use crate::layout::tests::{bodies, migrated, migrated_with_id, NOW_MS};
    use crate::layout::{recognise_alone, Source};

    const MESSAGE: &str = r#"{"role":"user","content":"…","timestamp":"2026-01-14T10:00:00Z","entity_refs":["e1"]}"#;

    fn sample(entities: &str) -> String {
        format!(
            r#"{{"session_id":"00000000-0000-0000-0000-00000000000a","matter_id":"m1","user_id":"u1","created_at":"2026-01-14T10:00:00+00:00","last_activity":"2026-01-14T10:00:01Z","messages":[{MESSAGE}],"entities_mentioned":{entities},"query_count":4,"ttl_extended_count":2}}"#
        )
    }

    #[test]
    fn the_sample_keeps_what_it_says() {
        let text = sample(
            r#"{"e1":{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["Mr Smith"],"mention_count":3,"last_mentioned":"2026-01-14T10:00:00Z"}}"#,
        );
        let source = [Source::String(text.as_bytes())];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, done) = migrated(&source, None);
        assert_eq!(bodies(&session), [MESSAGE]);
        assert_eq!(session.id(), uuid::Uuid::from_u128(10));
        assert_eq!(session.scope(), Some("m1:u1"));
        assert_eq!(session.created_at_ms(), 1_768_384_800_000);
        assert_eq!(session.last_activity_ms(), 1_768_384_801_000);
        assert_eq!((session.query_count(), session.ttl_extended_count()), (4, 2));
        assert_eq!(session.limits().maxlen, WINDOW);
        assert_eq!(session.meta(), None);
        let (id, entity) = session.entities().next().unwrap();
        assert_eq!(
            (id, entity.name.as_str(), entity.kind.as_str(), entity.mention_count),
            ("e1", "John Smith", "person", 3)
        );
        assert_eq!((entity.aliases.len(), entity.last_mentioned_ms), (1, 1_768_384_800_000));
        assert_eq!((done.messages, done.entities, done.evicted), (1, 1, 0));
        let (session, _) = migrated_with_id(&source, uuid::Uuid::from_u128(7));
        assert_eq!(
            session.meta(),
            Some(r#"{"session_id":"00000000-0000-0000-0000-00000000000a"}"#)
        );
    }

    #[test]
    fn entities_are_ordered_by_mention_and_then_as_given() {
        let text = sample(
            r#"{"late":{"last_mentioned":"2026-01-14T10:00:02Z"},"a":{"last_mentioned":1768384801},"never":{},"b":{"last_mentioned":"2026-01-14T10:00:01Z"}}"#,
        );
        let (session, _) = migrated(&[Source::String(text.as_bytes())], None);
        let ids: Vec<_> = session.entities().map(|(id, _)| id).collect();
        assert_eq!(ids, ["late", "b", "a", "never"]);
        assert_eq!(
            session.entity("never").unwrap().last_mentioned_ms,
            session.created_at_ms()
        );
        assert_eq!(session.meta(), None);
    }

    #[test]
    fn what_is_not_understood_stays_in_the_meta() {
        let text = sample(
            r#"{"e1":{"entity_id":"e1","mention_count":-1},"e2":7,"e3":{"id":"e3","note":"x"},"e4":{"id":"e4"}}"#,
        )
        .replace("\"query_count\":4", "\"query_count\":\"4\",\"title\":null")
        .replace("00000000-0000-0000-0000-00000000000a", "s");
        let (session, done) = migrated(&[Source::String(text.as_bytes())], None);
        assert_eq!(
            session.meta(),
            Some(
                r#"{"session_id":"s","query_count":"4","title":null,"entities_mentioned":{"e1":{"entity_id":"e1","mention_count":-1},"e2":7,"e3":{"id":"e3","note":"x"}}}"#
            )
        );
        assert_eq!(done.entities, 3);
        assert_eq!(session.query_count(), 1, "counted anew");
    }

    #[test]
    fn without_entities_of_its_own_mentions_are_counted_as_by_an_append() {
        let text = format!(r#"{{"matter_id":"m","messages":[{MESSAGE},{MESSAGE}]}}"#);
        let (session, done) = migrated(&[Source::String(text.as_bytes())], None);
        assert_eq!(session.scope(), Some("m"));
        assert_eq!(done.entities, 1);
        let entity = session.entity("e1").unwrap();
        assert_eq!((entity.mention_count, entity.last_mentioned_ms), (2, NOW_MS));
    }

    #[test]
    fn its_window_holds_at_once() {
        let text = format!(r#"{{"matter_id":"m","messages":[{}]}}"#, [MESSAGE; 23].join(","));
        let (session, done) = migrated(&[Source::String(text.as_bytes())], None);
        assert_eq!((done.messages, done.evicted), (23, 3));
        assert_eq!(bodies(&session).len(), 20);
    }

    #[test]
    fn what_cannot_be_kept_refuses_it_all() {
        for text in [
            r#"{"matter_id":"m","messages":[],"x":oops}"#.to_owned(),
            r#"{"matter_id":"m","messages":[],"events":[oops]}"#.to_owned(),
            format!(
                r#"{{"matter_id":"m","messages":[],"x":{}{}}}"#,
                "[".repeat(128),
                "]".repeat(128)
            ),
        ] {
            let source = [Source::String(text.as_bytes())];
            let why = crate::layout::recognise(&source, Some(ROW.format())).unwrap_err();
            assert!(why.to_string().starts_with("source 1 "), "{why}");
        }
    }
}
