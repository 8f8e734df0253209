//! `hash-list`: a hash of metadata, and a list of messages or a string that is a JSON array of them, oldest first.
//!
//! ```text
//!  HASH   created_at "2026-01-14T10:00:00Z", updated_at, session_id, and whatever else
//!  LIST   {"role":"user","content":"hi"} …     or   STRING   [{"role":"user","content":"hi"},…]
//! ```
//!
//! `created_at` and `updated_at` (ISO 8601, or a number as in a message) become the session's times, a `session_id` that is a UUID its id.
//! All other fields go to `meta`, as strings.

use uuid::Uuid;

use super::{BadLayout, Field, Format, Items, Legacy, Numbered, SourceId, Sources};
use crate::body::time_of_number;
use crate::text::json::Value;
use crate::text::time;

/// The fields of a hash that are still to be understood.
pub(super) struct Fields<'a>(Vec<Field<'a>>);

impl<'a> Fields<'a> {
    pub fn of(sources: &Sources<'a>) -> Self {
        Fields(sources.fields().to_vec())
    }

    /// Takes a field out, if it can be understood.
    pub fn take<T>(&mut self, name: &str, understand: impl FnOnce(&'a [u8]) -> Option<T>) -> Option<T> {
        let place = self.0.iter().position(|(field, _)| *field == name.as_bytes())?;
        let understood = understand(self.0[place].1)?;
        self.0.remove(place);
        Some(understood)
    }

    /// Takes what every hash may say of its session.
    pub fn take_identity(&mut self, legacy: &mut Legacy<'a>) {
        legacy.created_at_ms = self.take("created_at", time_of_text);
        legacy.last_activity_ms = self.take("updated_at", time_of_text);
        legacy.id = self
            .take("session_id", |id| Uuid::try_parse_ascii(id).ok())
            .map(|id| SourceId {
                id,
                member: "session_id",
            });
    }

    pub fn rest(&self) -> &[Field<'a>] {
        &self.0
    }
}

pub(super) fn field<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|(field, _)| *field == name.as_bytes())
        .map(|(_, value)| *value)
}

/// ISO 8601, or a number as in a message: seconds below 1e11, else milliseconds.
pub(super) fn time_of_text(text: &[u8]) -> Option<i64> {
    time_of_number(Value::Number(text)).or_else(|| time::parse_iso_8601(std::str::from_utf8(text).ok()?))
}

pub(super) fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    if let (Some(_), Some(Numbered { number, .. })) = (&sources.list, &sources.string) {
        return Err(BadLayout::of(
            *number,
            "is a string beside a list: hash-list has one of them",
        ));
    }
    let items = match sources.list {
        Some(_) => Items::oldest_first(sources.list()),
        None => Items::oldest_first(sources.take_array()?),
    };
    let mut legacy = Legacy::new(Format::HashList, items);
    let mut fields = Fields::of(sources);
    fields.take_identity(&mut legacy);
    legacy.meta.add_fields(fields.rest());
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use crate::layout::tests::{bodies, migrated, NOW_MS};
    use crate::layout::{recognise, recognise_alone, Format, Source};

    const HI: &str = r#"{"role":"user","content":"hi"}"#;

    #[test]
    fn metadata_and_messages_come_together() {
        let hash = Source::Hash(vec![
            (b"session_id", b"00000000-0000-0000-0000-00000000000a"),
            (b"created_at", b"2026-01-14T10:00:00.000000+00:00"),
            (b"updated_at", b"1768384801.5"),
            (b"title", b"A \"talk\""),
            (b"avatar", b"\xff\xd8"),
        ]);
        assert_eq!(recognise_alone(&hash), None);
        let array = format!("[{HI}]");
        for messages in [Source::List(vec![HI.as_bytes()]), Source::String(array.as_bytes())] {
            let (session, _) = migrated(&[messages, hash.clone()], None);
            assert_eq!(bodies(&session), [HI]);
            assert_eq!(session.id(), uuid::Uuid::from_u128(10));
            assert_eq!(
                (session.created_at_ms(), session.last_activity_ms()),
                (1_768_384_800_000, 1_768_384_801_500)
            );
            assert_eq!(
                session.meta(),
                Some(r#"{"title":"A \"talk\"","not_utf8":[{"name":"YXZhdGFy","value":"/9g="}]}"#)
            );
        }
    }

    #[test]
    fn what_is_not_understood_stays_in_the_meta() {
        let hash = Source::Hash(vec![
            (b"session_id", b"s1"),
            (b"created_at", b"yesterday"),
            (b"updated_at", b""),
        ]);
        let list = Source::List(vec![HI.as_bytes()]);
        let (session, _) = migrated(&[hash.clone(), list], None);
        assert_eq!(
            session.meta(),
            Some(r#"{"session_id":"s1","created_at":"yesterday","updated_at":""}"#)
        );
        assert_eq!((session.created_at_ms(), session.last_activity_ms()), (NOW_MS, NOW_MS));
        assert!(recognise(std::slice::from_ref(&hash), None).is_err());
        let (alone, _) = migrated(&[hash], Some(Format::HashList));
        assert_eq!(alone.last_seq(), 0);
    }

    #[test]
    fn other_company_is_refused_by_its_number() {
        let hash = Source::Hash(vec![(b"title", b"x")]);
        let list = Source::List(vec![HI.as_bytes()]);
        for (sources, why) in [
            (
                vec![hash.clone(), list.clone(), Source::String(b"17")],
                "source 3 is a string beside hash-list, which has none",
            ),
            (
                vec![hash.clone(), Source::String(b"17")],
                "source 2 is not a JSON array of messages",
            ),
            (
                vec![list.clone(), Source::String(b"17")],
                "source 2 is a string beside json-list, which has none",
            ),
            (
                vec![list.clone(), hash.clone(), list.clone()],
                "source 3 is a second list: no layout has two",
            ),
            (
                vec![hash.clone(), Source::List(vec![br#"{"type":"ai","data":{}}"#])],
                "source 1 is a hash beside langchain, which has none",
            ),
            (
                vec![hash.clone(), Source::Zset(Vec::new())],
                "source 1 is a hash without agentIds (a JSON array) and state",
            ),
            (
                vec![list, Source::Zset(Vec::new())],
                "source 2 is a sorted set: live-hash has one, beside a hash and nothing else",
            ),
            (vec![], "there is no source"),
        ] {
            assert_eq!(recognise(&sources, None).unwrap_err().to_string(), why);
        }
        assert_eq!(
            recognise(&[hash], Some(Format::JsonList)).unwrap_err().to_string(),
            "source 1 is a hash: json-list has none"
        );
    }
}
