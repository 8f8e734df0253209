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

use super::shape::Shape;
use super::{BadLayout, Format, Items, Legacy, Sources};

#[inline]
pub(super) fn matches(shape: Shape) -> bool {
    shape.has(Shape::ROLE | Shape::CONTENTS)
        || shape.has(Shape::ROLE_OBJECT | Shape::CONTENTS | Shape::TYPE_CHAT_MESSAGE)
}

pub(super) fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    Ok(Legacy::new(Format::AgentFramework, Items::oldest_first(sources.list())))
}

#[cfg(test)]
mod tests {
    use crate::layout::tests::{bodies, migrated};
    use crate::layout::{recognise_alone, Format, Source};

    const SAMPLE: &str =
        r#"{"type":"message","role":"user","contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#;

    #[test]
    fn the_sample_migrates() {
        let source = [Source::List(vec![SAMPLE.as_bytes(), SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(Format::AgentFramework));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [SAMPLE, SAMPLE]);
        assert_eq!(session.query_count(), 2);
    }

    #[test]
    fn a_list_that_older_versions_began_migrates_too() {
        const OLDER: &str = r#"{"type":"chat_message","role":{"type":"role","value":"user"},"contents":[{"type":"text","text":"hi"}],"additional_properties":{}}"#;
        let source = [Source::List(vec![OLDER.as_bytes(), SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(Format::AgentFramework));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [OLDER, SAMPLE]);
    }
}
