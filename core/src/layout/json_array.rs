//! `json-array`: a string that is one JSON array of messages, oldest first.
//!
//! ```json
//! [{"role":"user","content":"hi"},…]
//! ```
//!
//! What is no object among its elements is set aside as it stands in the array.

use super::json_list;
use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::source::{BadLayout, Kind, Sources};

pub(super) static ROW: Row = Row {
    name: "json-array",
    values: "a string: a JSON array of messages",
    needs: &[Kind::String],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::String], "*")],
    sample: &[Sample::String(
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#,
    )],
    told_by: ToldBy::ArrayOf(&json_list::ROW),
    read,
};

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let texts = sources.take_array()?;
    Ok(Legacy::new(&ROW, Items::oldest_first(texts)))
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, set_aside};
    use crate::layout::{recognise, recognise_alone, Source};

    #[test]
    fn elements_are_messages_as_they_stand_there() {
        let text = br#" [ {"role":"user", "content":"hi"},1 , {"role":"assistant","content":"\u00e9]"} ] "#;
        let source = [Source::String(text)];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, done) = migrated(&source, None);
        assert_eq!(
            bodies(&session),
            [
                r#"{"role":"user", "content":"hi"}"#,
                r#"{"role":"assistant","content":"\u00e9]"}"#
            ]
        );
        assert_eq!(set_aside(&session), [b"1"]);
        assert_eq!((done.messages, done.malformed, session.last_seq()), (2, 1, 3));
        assert_eq!(session.query_count(), 1);
        assert_eq!(session.meta(), None);
    }

    #[test]
    fn an_array_of_nothing_migrates_only_if_asked() {
        let source = [Source::String(b"[]")];
        assert_eq!(recognise_alone(&source[0]), None);
        assert!(recognise(&source, None).is_err());
        let (session, done) = migrated(&source, Some(ROW.format()));
        assert_eq!((session.last_seq(), done.messages), (0, 0));
    }

    #[test]
    fn one_bad_element_does_not_keep_the_others_back() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(128), "]".repeat(128));
        let mut text = format!("[{{\"role\":\"user\",\"content\":\"hi\"}},{deep},").into_bytes();
        text.extend_from_slice(b"{\"role\":\"user\",\"content\":\"\xff\"}]");
        let source = [Source::String(&text)];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session).len(), 1);
        assert_eq!(
            set_aside(&session),
            [deep.as_bytes(), b"{\"role\":\"user\",\"content\":\"\xff\"}"]
        );
    }
}
