//! `agent-memory`: a string that is one JSON object with `messages`, oldest first, and `memories`.
//!
//! ```json
//! {"messages":[{"role":"user","content":"hi","id":"01J…","created_at":"…"}],"memories":[],"context":"summary","user_id":"u","tokens":12,"session_id":"s","namespace":"n","data":{}}
//! ```
//!
//! `context` becomes `meta.summary`, and everything else goes to `meta` as it is. `created_at`, `updated_at` and a `session_id` that is a
//! UUID are understood too.

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::parts::{identity_of, time_of_value};
use super::sample::Sample;
use super::source::{BadLayout, Kind, Sources};
use super::text::Object;
use crate::json::Value;

pub(super) static ROW: Row = Row {
    name: "agent-memory",
    values: "a string: a JSON object with `messages` and `memories`",
    needs: &[Kind::String],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::String], "*")],
    sample: &[Sample::String(
        r#"{"messages":[{"role":"user","content":"hi","id":"01J","created_at":"2026-01-14T10:00:00Z"}],"memories":[],"context":"summary","user_id":"u","tokens":12,"session_id":"s","namespace":"n","data":{}}"#,
    )],
    told_by: ToldBy::Object(matches),
    read,
};

fn matches(object: &Object<'_>) -> bool {
    object.has_messages("messages") && object.get("memories").is_some()
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let (mut object, number) = sources.take_object()?;
    let items = Items::oldest_first(object.take_elements("messages"));
    let mut legacy = Legacy::new(&ROW, items);
    let time = |name| object.get(name).and_then(|member| time_of_value(member.value));
    legacy.created_at_ms = time("created_at");
    legacy.last_activity_ms = time("updated_at");
    legacy.id = identity_of(&object, "session_id");
    let summary = object.take("context", |member| match member.value {
        Value::String(_) => Some(member.text.to_vec()),
        _ => None,
    });
    legacy.meta.add_members(object.members());
    if let Some(summary) = summary {
        legacy.meta.set_own("summary", summary);
    }
    legacy.meta.check(number)?;
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, set_aside};
    use crate::layout::{recognise_alone, Source};

    #[test]
    fn the_sample_migrates() {
        let text = br#"{"messages":[{"role":"user","content":"hi","id":"01J","created_at":"2026-01-14T10:00:00Z"},null],"memories":[],"context":"summ\u0061ry","user_id":"u","tokens":12,"session_id":"s","namespace":null,"data":{ "a":1.0}}"#;
        let source = [Source::String(text)];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, done) = migrated(&source, None);
        assert_eq!(
            bodies(&session),
            [r#"{"role":"user","content":"hi","id":"01J","created_at":"2026-01-14T10:00:00Z"}"#]
        );
        assert_eq!(set_aside(&session), [b"null"]);
        assert_eq!((done.messages, done.malformed), (1, 1));
        assert_eq!(
            session.meta(),
            Some(
                r#"{"memories":[],"user_id":"u","tokens":12,"session_id":"s","namespace":null,"data":{ "a":1.0},"summary":"summ\u0061ry"}"#
            )
        );
    }
}
