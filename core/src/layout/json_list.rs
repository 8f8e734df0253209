//! `json-list`: a list of messages, oldest first.
//!
//! ```json
//! {"role":"user","content":"hi","tool_calls":[{"id":"c1","name":"get_weather","arguments":"{}"}]}
//! ```

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::shape::Shape;
use super::source::{BadLayout, Kind, Sources};

pub(super) static ROW: Row = Row {
    name: "json-list",
    values: "a list of messages",
    needs: &[Kind::List],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::List], "*")],
    sample: &[Sample::List(&[
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"get_weather","arguments":"{}"}]}"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"sunny"}"#,
    ])],
    // A message with a role and something to say, or a call or its output.
    told_by: ToldBy::Elements {
        any_of: &[
            Shape::ROLE | Shape::CONTENT,
            Shape::ROLE | Shape::TOOL_CALLS,
            Shape::ROLE | Shape::TOOL_CALL_ID,
            Shape::TYPE_OF_CALL,
        ],
        precedence: 0,
    },
    read,
};

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    Ok(Legacy::new(&ROW, Items::oldest_first(sources.list())))
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, refused, set_aside};
    use crate::layout::{recognise_alone, Source};

    const CALL: &str =
        r#"{"role":"user","content":"hi","tool_calls":[{"id":"c1","name":"get_weather","arguments":"{}"}]}"#;
    const ANSWER: &str = r#"{"role":"tool","tool_call_id":"c1","content":"sunny"}"#;

    #[test]
    fn elements_are_messages_and_what_is_none_keeps_its_place() {
        let source = [Source::List(vec![
            CALL.as_bytes(),
            b"nonsense",
            b"",
            b"\xff",
            ANSWER.as_bytes(),
        ])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, done) = migrated(&source, None);
        assert_eq!(bodies(&session), [CALL, ANSWER]);
        assert_eq!(set_aside(&session), [&b"nonsense"[..], b"", b"\xff"]);
        assert_eq!((done.messages, done.malformed, done.tokens), (2, 3, 24 + 14));
        let mut seqs = Vec::new();
        session.messages(0, |head, _| {
            seqs.push((head.seq, head.exchange()));
            std::ops::ControlFlow::<()>::Continue(())
        });
        assert_eq!(seqs, [(1, 1), (5, 1)], "the answer belongs to its call");
    }

    #[test]
    fn two_layouts_in_one_list_are_none_unless_forced() {
        let source = [Source::List(vec![
            CALL.as_bytes(),
            br#"{"type":"human","data":{}}"#,
            br#"{"job":1}"#,
        ])];
        assert_eq!(recognise_alone(&source[0]), None);
        assert_eq!(
            refused(&source).unwrap(),
            "source 1 has elements of two layouts (json-list, and element 2 is langchain)"
        );
        let (session, _) = migrated(&source, Some(ROW.format()));
        assert_eq!(bodies(&session).len(), 3);
    }
}
