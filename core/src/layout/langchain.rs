//! `langchain`: a list of messages, **newest first**.
//!
//! ```json
//! {"type":"human","data":{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}}
//! ```
//!
//! `type` is one of human, ai, system, tool, function, chat, or the name of a streamed one (`AIMessageChunk`, …). `remove` is an instruction
//! and no message, so it is not among them: a list with `{"type":"remove","data":{}}` needs `FORMAT`.

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::shape::Shape;
use super::source::{BadLayout, Kind, Sources};

pub(super) static ROW: Row = Row {
    name: "langchain",
    values: "a list of messages with `type` and `data`, newest first",
    needs: &[Kind::List],
    may_have: &[],
    keys: &[KeyName::new(&[Kind::List], "*")],
    sample: &[Sample::List(&[
        r#"{"type":"ai","data":{"content":"hello","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":null,"tool_calls":[]}}"#,
        r#"{"type":"human","data":{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}}"#,
    ])],
    // A type that says who speaks, and what is said in an object.
    told_by: ToldBy::Elements {
        any_of: &[Shape::TYPE_OF_SPEAKER | Shape::DATA],
        precedence: 3,
    },
    read,
};

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    Ok(Legacy::new(&ROW, Items::newest_first(sources.list())))
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, set_aside};
    use crate::layout::{recognise_alone, Source};

    const HUMAN: &str = r#"{"type":"human","data":{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}}"#;
    const AI: &str = r#"{"type":"ai","data":{"content":"hello","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":null,"tool_calls":[]}}"#;

    #[test]
    fn what_was_streamed_is_a_message_too() {
        const CHUNK: &str = r#"{"type": "AIMessageChunk", "data": {"content": "hello", "type": "AIMessageChunk", "tool_call_chunks": []}}"#;
        let source = [Source::List(vec![CHUNK.as_bytes(), HUMAN.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, _) = migrated(&source, None);
        assert_eq!(bodies(&session), [HUMAN, CHUNK]);
    }

    #[test]
    fn the_oldest_comes_first_then() {
        let source = [Source::List(vec![b"late", AI.as_bytes(), b"early", HUMAN.as_bytes()])];
        assert_eq!(recognise_alone(&source[0]), Some(ROW.format()));
        let (session, done) = migrated(&source, None);
        assert_eq!(bodies(&session), [HUMAN, AI]);
        assert_eq!(set_aside(&session), [&b"early"[..], b"late"]);
        assert_eq!((done.messages, done.malformed, session.query_count()), (2, 2, 1));
    }
}
