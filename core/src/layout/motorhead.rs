//! `motorhead`: a list of lines, **newest first**, and maybe a string with a running summary.
//!
//! ```text
//! Human: ping        becomes   {"role":"Human","content":"ping"}
//! ```
//!
//! The role is the text before the first `: `, the content is all text after it. A line without it, or not in UTF-8, is set aside. The
//! summary becomes `meta.summary`.
//!
//! Plain text may be anything: it is recognised only by an explicit migration, and only if no element is a JSON object and the text before the
//! first `: ` is a single word in every line that has one.

use super::legacy::{Items, Legacy, Row, ToldBy};
use super::names::KeyName;
use super::sample::Sample;
use super::source::{BadLayout, Kind, Sources};
use crate::json;

pub(super) static ROW: Row = Row {
    name: "motorhead",
    values: "a list of lines `Role: content`, newest first, a string with a summary",
    needs: &[Kind::List],
    may_have: &[Kind::String],
    keys: &[
        KeyName::new(&[Kind::List], "session:*"),
        KeyName::new(&[Kind::String], "context:*").optional(),
    ],
    sample: &[
        Sample::List(&["AI: pong", "Human: ping"]),
        Sample::String("They played."),
    ],
    told_by: ToldBy::Lines(matches),
    read,
};

/// Whether these are such lines, of which it is known that none is a JSON object.
fn matches(list: &[&[u8]]) -> bool {
    let mut lines = list.iter().filter_map(|line| parts(line)).peekable();
    let is_word = |role: &str| !role.is_empty() && role.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    lines.peek().is_some() && lines.all(|(role, _)| is_word(role))
}

fn read<'a>(sources: &mut Sources<'a>) -> Result<Legacy<'a>, BadLayout> {
    let items = Items::Bodies {
        texts: sources.list().into(),
        is_newest_first: true,
        compose: Some(compose),
    };
    let mut legacy = Legacy::new(&ROW, items);
    if let Some(summary) = &sources.string {
        legacy.meta.set_own_string("summary", summary.value.bytes);
    }
    Ok(legacy)
}

fn parts(line: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(line).ok()?.split_once(": ")
}

/// Puts the message that a line says in `body`; false if it says none.
fn compose(line: &[u8], body: &mut Vec<u8>) -> bool {
    let Some((role, content)) = parts(line) else {
        return false;
    };
    body.clear();
    body.extend_from_slice(b"{\"role\":");
    json::write_string(body, role);
    body.extend_from_slice(b",\"content\":");
    json::write_string(body, content);
    body.push(b'}');
    true
}

#[cfg(test)]
mod tests {
    use super::ROW;
    use crate::layout::tests::{bodies, migrated, set_aside};
    use crate::layout::{recognise, recognise_alone, Source};

    #[test]
    fn lines_become_messages_and_the_summary_goes_to_the_meta() {
        let list = Source::List(vec![
            b"AI: pong: \"1\"",
            b"no role",
            b"Human:x",
            b"AI: \xff",
            b"Human: ping",
        ]);
        assert_eq!(recognise_alone(&list), None);
        let (session, done) = migrated(&[Source::String(b"They \"played\"."), list], None);
        assert_eq!(
            bodies(&session),
            [
                r#"{"role":"Human","content":"ping"}"#,
                r#"{"role":"AI","content":"pong: \"1\""}"#
            ]
        );
        assert_eq!(set_aside(&session), [&b"AI: \xff"[..], b"Human:x", b"no role"]);
        assert_eq!((done.messages, done.malformed), (2, 3));
        assert_eq!(session.meta(), Some(r#"{"summary":"They \"played\"."}"#));
    }

    #[test]
    fn a_list_of_other_text_is_not_recognised() {
        for list in [
            vec![
                &b"2026-01-14 10:00 INFO: started"[..],
                b"2026-01-14 10:01 INFO: stopped",
            ],
            vec![b"a", b"b"],
            vec![b"Human: ping", b"at 10 o'clock: x"],
        ] {
            assert!(recognise(&[Source::List(list)], None).is_err());
        }
    }

    #[test]
    fn forced_it_takes_objects_as_they_are() {
        let object = br#"{"role":"user","content":"a: b"}"#;
        let (session, _) = migrated(&[Source::List(vec![object, b"Human: x"])], Some(ROW.format()));
        assert_eq!(
            bodies(&session),
            [
                r#"{"role":"Human","content":"x"}"#,
                r#"{"role":"user","content":"a: b"}"#
            ]
        );
    }
}
