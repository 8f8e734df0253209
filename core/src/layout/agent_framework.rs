//! `agent-framework`: a list of messages whose content is an array of parts, oldest first.
//!
//! ```json
//! {"type":"message","role":"user","contents":[{"type":"text","text":"hi"}],"additional_properties":{}}
//! ```
//!
//! Its first versions wrote the role as an object, and lists that were begun by one and continued by another hold both:
//!
//! ```json
//! {"type":"chat_message","role":{"type":"role","value":"user"},"contents":[{"type":"text","text":"hi"}],"additional_properties":{}}
//! ```

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::shape::Shape;
use super::source::{BadLayout, Kind, Sources};

pub(super) static ROW: Row = Row {
    name: "agent-framework",
    values: "a list of messages with `contents`",
    needs: &[Kind::List],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::List], "*")],
    sample: &[Sample::List(&[
        r#"{"type":"chat_message","role":{"type":"role","value":"user"},"contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#,
        r#"{"type":"message","role":"assistant","contents":[{"type":"text","text":"hello"}],"additional_properties":{}}"#,
    ])],
    told_by: ToldBy::Elements {
        any_of: &[
            Shape::ROLE | Shape::CONTENTS,
            Shape::ROLE_OBJECT | Shape::CONTENTS | Shape::TYPE_CHAT_MESSAGE,
        ],
        precedence: 2,
    },
    read,
};

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    Ok(Legacy::new(&ROW, Items::oldest_first(sources.list())))
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated};
    use crate::layout::{recognise_alone, Source};

    const SAMPLE: &str =
        r#"{"type":"message","role":"user","contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#;

    #[test]
    fn the_sample_migrates() {
        let source = [Source::List(vec![SAMPLE.as_bytes(), SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [SAMPLE, SAMPLE]);
        assert_eq!(session.query_count(), 2);
    }

    #[test]
    fn a_list_that_older_versions_began_migrates_too() {
        const OLDER: &str = r#"{"type":"chat_message","role":{"type":"role","value":"user"},"contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#;
        let source = [Source::List(vec![OLDER.as_bytes(), SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [OLDER, SAMPLE]);
    }
}
