//! `llama-index`: a list of messages whose content is an array of blocks, oldest first.
//!
//! ```json
//! {"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}
//! ```

use super::shape::Shape;
use super::{BadLayout, Format, Items, Legacy, Sources};

#[inline]
pub(super) fn matches(shape: Shape) -> bool {
    shape.has(Shape::ROLE | Shape::BLOCKS)
}

pub(super) fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    Ok(Legacy::new(Format::LlamaIndex, Items::oldest_first(sources.list())))
}

#[cfg(test)]
mod tests {
    use crate::layout::tests::{bodies, migrated};
    use crate::layout::{recognise_alone, Format, Source};

    const SAMPLE: &str = r#"{"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}"#;

    #[test]
    fn the_sample_migrates() {
        let source = [Source::List(vec![SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(Format::LlamaIndex));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [SAMPLE]);
    }
}
