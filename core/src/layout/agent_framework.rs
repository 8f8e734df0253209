//! `agent-framework`: a list of messages whose content is an array of parts, oldest first.
//!
//! ```json
//! {"type":"message","role":"user","contents":[{"type":"text","text":"hi"}],"additional_properties":{}}
//! ```

use super::shape::Shape;
use super::{BadLayout, Format, Items, Legacy, Sources};

#[inline]
pub(super) fn matches(shape: Shape) -> bool {
    shape.has(Shape::ROLE | Shape::CONTENTS)
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
}
