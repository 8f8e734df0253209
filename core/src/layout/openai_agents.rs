//! `openai-agents`: a hash that says when, a list of items, oldest first, and maybe a string with a counter.
//!
//! ```text
//!  HASH     session_id, created_at "1768384800", updated_at "1768384801" and no other field
//!  LIST     {"role":"user","content":"hi"}
//!           {"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}","id":"fc_1"} …
//!  STRING   3
//! ```
//!
//! It is recognised by the fields of its hash: its list may hold items of any `type`, and a list of such items alone (`reasoning`) would not
//! be recognised.
//!
//! The counter goes to `meta.counter`: a number, or a string where it is none.

use super::json_list;
use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::parts::{field, Fields};
use super::sample::Sample;
use super::shape::Shape;
use super::source::{BadLayout, Field, Kind, Sources};

const FIELDS: [&str; 3] = ["session_id", "created_at", "updated_at"];

pub(super) static ROW: Row = Row {
    name: "openai-agents",
    values: "a hash with `session_id`, `created_at`, `updated_at`, a list of items, a counter",
    needs: &[],
    may_have: &[Kind::Hash, Kind::List, Kind::String],
    keys: &[
        KeyName::new(&[Kind::Hash], "*"),
        KeyName::new(&[Kind::List], "*:messages"),
        KeyName::new(&[Kind::String], "*:counter").optional(),
    ],
    sample: &[
        Sample::Hash(&[
            ("session_id", "s1"),
            ("created_at", "1768384800"),
            ("updated_at", "1768384801"),
        ]),
        Sample::List(&[
            r#"{"id":"rs_1","type":"reasoning","summary":[]}"#,
            r#"{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}","id":"fc_1"}"#,
            r#"{"type":"function_call_output","call_id":"call_1","output":"sunny"}"#,
        ]),
        Sample::String("3"),
    ],
    told_by: ToldBy::HashAndItems {
        matches,
        items_of: &json_list::ROW,
        or_marks: Shape::TYPE,
    },
    read,
};

/// Whether the hash is such a one.
fn matches(hash: &[Field<'_>]) -> bool {
    let are_fields = hash.len() == FIELDS.len() && FIELDS.iter().all(|name| field(hash, name).is_some());
    let are_seconds = FIELDS[1..].iter().all(|name| field(hash, name).is_some_and(is_integer));
    are_fields && are_seconds
}

fn is_integer(text: &[u8]) -> bool {
    // As an integer is written, and no longer than one can be.
    (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) && (text[0] != b'0' || text.len() == 1)
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    if let (Some(string), None, None) = (&sources.string, &sources.list, &sources.hash) {
        return Err(BadLayout::of(
            string.number,
            "is a string by itself: openai-agents has a hash and a list",
        ));
    }
    let mut legacy = Legacy::new(&ROW, Items::oldest_first(sources.list()));
    let mut fields = Fields::of(sources);
    fields.take_identity(&mut legacy);
    legacy.meta.add_fields(fields.rest());
    if let Some(counter) = &sources.string {
        match counter.value.bytes {
            number if is_integer(number) => legacy.meta.set_own("counter", number.to_vec()),
            other => legacy.meta.set_own_string("counter", other),
        }
    }
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, refused};
    use crate::layout::{recognise, Source};

    const HI: &str = r#"{"role":"user","content":"hi"}"#;
    const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[]}"#;
    const CALL: &str =
        r#"{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}","id":"fc_1"}"#;
    const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"call_1","output":"sunny"}"#;

    fn hash() -> Source<'static> {
        Source::Hash(vec![
            (b"session_id", b"s1"),
            (b"created_at", b"1768384800"),
            (b"updated_at", b"1768384801"),
        ])
    }

    #[test]
    fn hash_list_and_counter_are_one_session() {
        let list = Source::List([HI, REASONING, CALL, OUTPUT].map(str::as_bytes).to_vec());
        assert!(refused(std::slice::from_ref(&list)).is_some());
        let sources = [Source::String(b"4"), list, hash()];
        assert_eq!(recognise(&sources, None).unwrap().format(), ROW.format());
        let (session, _) = migrated(&sources, None);
        assert_eq!(bodies(&session), [HI, REASONING, CALL, OUTPUT]);
        assert_eq!(session.created_at_ms(), 1_768_384_800_000);
        assert_eq!(session.last_activity_ms(), 1_768_384_801_000);
        assert_eq!(session.meta(), Some(r#"{"session_id":"s1","counter":4}"#));
        assert_eq!(session.query_count(), 1);
    }

    #[test]
    fn another_hash_is_metadata() {
        let list = Source::List(vec![HI.as_bytes()]);
        let hash = Source::Hash(vec![(b"session_id", b"s1"), (b"created_at", b"1768384800")]);
        assert_eq!(
            recognise(&[hash, list], None).unwrap().format(),
            crate::layout::hash_list::ROW.format()
        );
    }

    #[test]
    fn items_of_another_layout_are_refused() {
        let list = Source::List(vec![br#"{"type":"message","role":"user","contents":[]}"#]);
        assert!(recognise(&[hash(), list], None).is_err());
    }
}
