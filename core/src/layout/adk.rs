//! `adk`: a string that is one JSON object with `app_name` and `events`, oldest first.
//!
//! ```json
//! {"id":"s","app_name":"a","user_id":"u","state":{},"events":[{"id":"e","author":"user","content":{"role":"user","parts":[{"text":"hi"}]},"actions":{"state_delta":{}},"timestamp":1736850000.5}],"last_update_time":1736850000.5}
//! ```
//!
//! Its events are messages. An `id` that is a UUID becomes the session's, `last_update_time` its last activity; everything else goes to
//! `meta` as it is (`last_update_time` too).

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::parts::{identity_of, time_of_value};
use super::sample::Sample;
use super::source::{BadLayout, Kind, Sources};
use super::text::Object;

pub(super) static ROW: Row = Row {
    name: "adk",
    values: "a string: a JSON object with `app_name` and `events`",
    needs: &[Kind::String],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::String], "*")],
    sample: &[Sample::String(
        r#"{"id":"s","app_name":"a","user_id":"u","state":{},"events":[{"id":"e","author":"user","content":{"role":"user","parts":[{"text":"hi"}]},"actions":{"state_delta":{}},"timestamp":1736850000.5}],"last_update_time":1736850000.5}"#,
    )],
    told_by: ToldBy::Object(matches),
    read,
};

fn matches(object: &Object<'_>) -> bool {
    object.get("app_name").is_some() && object.has_messages("events")
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let (mut object, number) = sources.take_object()?;
    let items = Items::oldest_first(object.take_elements("events"));
    let mut legacy = Legacy::new(&ROW, items);
    legacy.id = identity_of(&object, "id");
    if legacy.id.is_some() {
        object.take("id", |_| Some(()));
    }
    let last_update = object.get("last_update_time");
    legacy.last_activity_ms = last_update.and_then(|member| time_of_value(member.value));
    legacy.meta.add_members(object.members());
    legacy.meta.check(number)?;
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, migrated_with_id};
    use crate::layout::{recognise_alone, Source};

    #[test]
    fn the_sample_migrates() {
        const EVENT: &str = r#"{"id":"e","author":"user","content":{"role":"user","parts":[{"text":"hi"}]},"actions":{"state_delta":{}},"timestamp":1736850000.5}"#;
        let text = format!(
            r#"{{"id":"s","app_name":"a","user_id":"u","state":{{}},"events":[{EVENT}],"last_update_time":1736850000.5}}"#
        );
        let source = [Source::String(text.as_bytes())];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [EVENT]);
        assert_eq!(session.last_activity_ms(), 1_736_850_000_500);
        assert_eq!(
            session.meta(),
            Some(r#"{"id":"s","app_name":"a","user_id":"u","state":{},"last_update_time":1736850000.5}"#)
        );
    }

    #[test]
    fn an_id_that_is_a_uuid_becomes_the_sessions_or_stays_in_the_meta() {
        let text = br#"{"id":"00000000-0000-0000-0000-00000000000a","app_name":"a","events":[]}"#;
        let source = [Source::String(text)];
        let (session, _) = migrated(&source, None);
        assert_eq!(session.id(), uuid::Uuid::from_u128(10));
        assert_eq!(session.meta(), Some(r#"{"app_name":"a"}"#));
        let (session, _) = migrated_with_id(&source, uuid::Uuid::from_u128(11));
        assert_eq!(session.id(), uuid::Uuid::from_u128(11));
        assert_eq!(
            session.meta(),
            Some(r#"{"app_name":"a","id":"00000000-0000-0000-0000-00000000000a"}"#)
        );
    }

    #[test]
    fn a_configuration_with_such_names_is_none() {
        for text in [
            r#"{"app_name":"shop","events":["click","view"]}"#,
            r#"{"app_name":"shop","events":{"on":true}}"#,
            r#"{"app_name":"shop","messages":[]}"#,
            r#"{"app_name":"a","events":[],"messages":[],"memories":[]}"#,
        ] {
            assert_eq!(recognise_alone(&Source::String(text.as_bytes())), None, "{text}");
        }
    }
}
