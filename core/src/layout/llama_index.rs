//! `llama-index`: a list of messages whose content is an array of blocks, oldest first.
//!
//! ```json
//! {"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}
//! ```

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::shape::Shape;
use super::source::{BadLayout, Kind, Sources};

pub(super) static ROW: Row = Row {
    name: "llama-index",
    values: "a list of messages with `blocks`",
    needs: &[Kind::List],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::List], "*")],
    sample: &[Sample::List(&[
        r#"{"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}"#,
        r#"{"role":"assistant","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hello"}]}"#,
    ])],
    told_by: ToldBy::Elements {
        any_of: &[Shape::ROLE | Shape::BLOCKS],
        precedence: 1,
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

    const SAMPLE: &str = r#"{"role":"user","additional_kwargs":{},"blocks":[{"block_type":"text","text":"hi"}]}"#;

    #[test]
    fn the_sample_migrates() {
        let source = [Source::List(vec![SAMPLE.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [SAMPLE]);
    }
}
