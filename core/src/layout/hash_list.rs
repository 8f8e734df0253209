//! `hash-list`: a hash of metadata, and a list of messages or a string that is a JSON array of them, oldest first.
//!
//! ```text
//!  HASH   created_at "2026-01-14T10:00:00Z", updated_at, session_id, and whatever else
//!  LIST   {"role":"user","content":"hi"} …     or   STRING   [{"role":"user","content":"hi"},…]
//! ```
//!
//! `created_at` and `updated_at` (ISO 8601, or a number as in a message) become the session's times, a `session_id` that is a UUID its id.
//! All other fields go to `meta`, as strings.

use super::json_list;
use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::parts::Fields;
use super::sample::Sample;
use super::source::{BadLayout, Kind, Numbered, Sources};

pub(super) static ROW: Row = Row {
    name: "hash-list",
    values: "a hash of metadata, a list or a JSON array of messages",
    needs: &[Kind::Hash],
    may_have: &[Kind::List, Kind::String],
    keys: &[
        KeyName::new(&[Kind::Hash], "*"),
        KeyName::new(&[Kind::List, Kind::String], "*:messages"),
    ],
    sample: &[
        Sample::Hash(&[("created_at", "2026-01-14T10:00:00Z"), ("title", "A talk")]),
        Sample::List(&[
            r#"{"role":"user","content":"hi"}"#,
            r#"{"role":"assistant","content":"hello"}"#,
        ]),
    ],
    told_by: ToldBy::HashAndElements(&json_list::ROW),
    read,
};

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
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
    let mut legacy = Legacy::new(&ROW, items);
    let mut fields = Fields::of(sources);
    fields.take_identity(&mut legacy);
    legacy.meta.add_fields(fields.rest());
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, NOW_MS};
    use crate::layout::{recognise, recognise_alone, Source};

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
        let (alone, _) = migrated(&[hash], Some(ROW.format()));
        assert_eq!(alone.last_seq(), 0);
    }

    #[test]
    fn sources_that_do_not_belong_to_it_are_refused_by_number() {
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
            recognise(&[hash], Some(crate::layout::json_list::ROW.format()))
                .unwrap_err()
                .to_string(),
            "source 1 is a hash: json-list has none"
        );
    }
}
