//! What holds for every layout, over random values.

use super::legacy::Rows;
use super::shape::Shape;
use super::text::Text;
use super::uniform::ElementLayouts;
use super::*;
use crate::body;
use crate::fixture::creation;
use crate::limits::Limits;
use crate::session::{Bounds, Migrated, Migration, Range};
use crate::session::{Creation, Incoming, Now};
use crate::text::json;
use crate::Session;
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use uuid::Uuid;

pub(super) const NOW_MS: i64 = 1_790_000_000_000;

fn migration(id: Option<Uuid>, maxlen: Option<u64>) -> Migration {
    Migration {
        id,
        new_id: Uuid::from_u128(1),
        ttl_ms: 5000,
        limits: Arc::new(Limits {
            maxlen: 3,
            maxtokens: 3,
            event_maxlen: 1,
            event_ttl_s: 1,
            max_entities: 1000,
            ..Limits::default()
        }),
        maxlen,
        now: Now {
            now_ms: NOW_MS,
            content_ms: NOW_MS,
            compress_after_bytes: 64,
        },
    }
}

fn migrated_by(sources: &[Source<'_>], forced: Option<Format>, migration: &Migration) -> (Session, Migrated) {
    let legacy = recognise(sources, forced).unwrap();
    let (session, done) = Session::migrate(&legacy, migration).unwrap();
    assert_eq!((session.version(), session.ttl_ms()), (1, 5000));
    assert_eq!(done.messages + done.events + done.malformed, legacy.len() as u64);
    assert_eq!(session.last_seq(), legacy.len() as u64);
    let again = Session::decode_whole(&session.encode_whole()).unwrap();
    assert_eq!(digest(&again), digest(&session));
    assert_eq!(
        again.document(u64::MAX, None, NOW_MS),
        session.document(u64::MAX, None, NOW_MS)
    );
    (session, done)
}

/// Why these are no layout, whenever it turns out.
pub(super) fn refused(sources: &[Source<'_>]) -> Option<String> {
    let refused = match recognise(sources, None) {
        Ok(legacy) => Session::migrate(&legacy, &migration(None, None)).err(),
        Err(why) => Some(why),
    };
    refused.map(|why| why.to_string())
}

pub(super) fn migrated(sources: &[Source<'_>], forced: Option<Format>) -> (Session, Migrated) {
    migrated_by(sources, forced, &migration(None, None))
}

pub(super) fn migrated_with_id(sources: &[Source<'_>], id: Uuid) -> (Session, Migrated) {
    migrated_by(sources, None, &migration(Some(id), None))
}

fn digest(session: &Session) -> Vec<u8> {
    let mut all = Vec::new();
    session.digest(|part| {
        all.extend_from_slice(&part.len().to_le_bytes());
        all.extend_from_slice(part);
    });
    all
}

pub(super) fn bodies(session: &Session) -> Vec<String> {
    let mut all = Vec::new();
    session.messages(NOW_MS, |_, body| {
        all.push(String::from_utf8(body.get().to_vec()).unwrap());
        ControlFlow::<()>::Continue(())
    });
    all
}

pub(super) fn set_aside(session: &Session) -> Vec<Vec<u8>> {
    with_seqs(session, true).into_iter().map(|(_, body)| body).collect()
}

fn with_seqs(session: &Session, malformed: bool) -> Vec<(u64, Vec<u8>)> {
    let range = Range {
        bounds: Bounds::Index { start: 0, stop: -1 },
        rev: false,
        roles: &[],
        count: u64::MAX,
        malformed,
    };
    let mut all = Vec::new();
    session.range(&range, NOW_MS, |head, body| all.push((head.seq, body.get().to_vec())));
    all
}

pub(super) fn events(session: &Session) -> Vec<String> {
    let range = crate::session::EventRange {
        to: u64::MAX,
        count: u64::MAX,
        ..Default::default()
    };
    let mut all = Vec::new();
    session.events(&range, NOW_MS, |event| {
        all.push(String::from_utf8(event.to_vec()).unwrap())
    });
    all
}

#[test]
fn every_format_is_known_by_its_name() {
    for format in Format::all() {
        let upper = format.name().to_uppercase();
        assert_eq!(Format::named(upper.as_bytes()), Some(format));
    }
    assert_eq!(Format::named(b"rdsession"), None);
}

/// Names are asked for in order, so two of one name, and two elements of one precedence, would make a row unreachable by chance.
#[test]
fn no_two_rows_are_confused() {
    let mut names: Vec<&str> = Format::all().map(Format::name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROWS.len());
    let mut by_precedence = std::collections::BTreeMap::new();
    for row in ROWS {
        if let legacy::ToldBy::Elements { precedence, .. } = row.told_by {
            if let Some(other) = by_precedence.insert(precedence, row.name) {
                panic!("{other} and {} both have precedence {precedence}", row.name);
            }
        }
    }
}

fn sample(row: &Row) -> Vec<Source<'static>> {
    row.sample.iter().map(Sample::source).collect()
}

fn kind(source: &Source<'_>) -> Kind {
    match source {
        Source::String(_) => Kind::String,
        Source::List(_) => Kind::List,
        Source::Hash(_) => Kind::Hash,
        Source::Zset(_) => Kind::Zset,
    }
}

/// The rows without one of them.
fn rows_without(row: &'static Row) -> Rows {
    let others: Vec<&'static Row> = ROWS
        .iter()
        .copied()
        .filter(|other| !std::ptr::eq(*other, row))
        .collect();
    others.leak()
}

#[test]
fn each_sample_is_of_its_layout_and_of_no_other() {
    for row in ROWS {
        let sources = sample(row);
        let kinds: Vec<Kind> = sources.iter().map(kind).collect();
        assert_eq!(recognise(&sources, None).unwrap().format(), row.format());
        assert!(row.suits(&kinds), "{}: its sample is not what its keys are", row.name);
        let alone = recognise_alone(&sources[0]).filter(|_| sources.len() == 1);
        assert_eq!(alone.is_some(), row.is_automatic(), "{}", row.name);
        assert!(!row.is_automatic() || row.only_kind().is_some(), "{}", row.name);
        let other = recognise::recognise(rows_without(row), &sources, None);
        let other = other.and_then(|legacy| legacy.elements(|_| ()).map(|()| legacy.format()));
        assert!(other.is_err(), "{}: it is of {other:?} too", row.name);
    }
}

#[test]
fn each_sample_migrates_whole_whatever_takes_it() {
    for row in ROWS {
        let sources = sample(row);
        let kinds: Vec<Kind> = sources.iter().map(kind).collect();
        migrates_whole(&sources, None);
        for other in ROWS
            .iter()
            .filter(|other| other.needs.iter().all(|kind| kinds.contains(kind)))
        {
            // Its own sample in any case; that of another where its reader has no objection.
            let takes = recognise(&sources, Some(other.format()));
            assert!(
                takes.is_ok() || other.format() != row.format(),
                "{}: {takes:?}",
                row.name
            );
            if takes.is_ok() {
                migrates_whole(&sources, Some(other.format()));
            }
        }
    }
}

/// Every element that is given is in the session, in its place.
fn migrates_whole(sources: &[Source<'_>], forced: Option<Format>) {
    let legacy = recognise(sources, forced).unwrap();
    let (session, done) = migrated(sources, forced);
    let (mut messages, mut aside, mut events_given) = (Vec::new(), Vec::new(), 0);
    legacy
        .elements(|element| match element {
            Element::Message { body, .. } => messages.push(body.to_vec()),
            Element::SetAside(bytes) => aside.push(bytes.to_vec()),
            Element::Event(_) => events_given += 1,
        })
        .unwrap();
    assert_eq!(messages.len() + aside.len() + events_given, legacy.len());
    let kept: Vec<Vec<u8>> = with_seqs(&session, false).into_iter().map(|(_, body)| body).collect();
    assert_eq!(kept, messages);
    assert_eq!(set_aside(&session), aside);
    assert_eq!(events(&session).len(), events_given);
    assert_eq!(done.evicted, 0);
}

/// The documentation's tables of layouts are made from the rows. `UPDATE_DOCS=1` writes them anew.
#[test]
fn the_tables_of_layouts_say_what_the_rows_say() {
    let crate_dir = concat!(env!("CARGO_MANIFEST_DIR"));
    let of_code = ROWS.iter().map(|row| {
        let module = row.name.replace('-', "_");
        format!("//! | `{}` | {} | [`{module}`] |", row.name, row.values)
    });
    check_table(
        &format!("{crate_dir}/src/layout/mod.rs"),
        "//! | `FORMAT` | values | file |",
        of_code.collect(),
    );
    let of_guide = ROWS.iter().map(|row| {
        let keys: Vec<String> = row.keys.iter().map(key_in_words).collect();
        let first = row.keys[0].pattern.replace('*', "x");
        format!("| `{}` | {} | {} | `{first}` |", row.name, row.values, keys.join(", "))
    });
    check_table(
        &format!("{crate_dir}/../docs/migration.md"),
        "| layout (`--format`) | values | keys | the session is at |",
        of_guide.collect(),
    );
}

fn key_in_words(key: &KeyName) -> String {
    let kinds: Vec<String> = key.kinds.iter().map(Kind::to_string).collect();
    let maybe = if key.is_optional { "maybe " } else { "" };
    let or_like_first = match key.or_like_first {
        true => ", or one named as the first key with one part more (`x:history`, `session:events:1`) or another first part (`events:1` of `session:1`)",
        false => "",
    };
    let name = key.pattern.replace('*', "x");
    format!("{maybe}{} `{name}`{or_like_first}", kinds.join(" or "))
}

/// Checks the lines of a table in a file: those below its heading and the line below that.
fn check_table(path: &str, heading: &str, rows: Vec<String>) {
    let text = std::fs::read_to_string(path).expect("the file is there");
    let mut lines: Vec<&str> = text.lines().collect();
    let start = 2 + lines
        .iter()
        .position(|line| *line == heading)
        .unwrap_or_else(|| panic!("{path} has no table '{heading}'"));
    let bar = heading.split_inclusive('|').next().expect("a heading has a bar");
    let len = lines[start..].iter().take_while(|line| line.starts_with(bar)).count();
    lines.splice(start..start + len, rows.iter().map(String::as_str));
    let made = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &made).expect("the table is written");
        return;
    }
    assert!(
        made == text,
        "{path} is not what the rows of layouts say: run with UPDATE_DOCS=1"
    );
}

#[test]
fn the_more_specific_layout_counts_and_the_last_of_two_equal_keys() {
    for (text, format) in [
        (r#"{"role":"user","content":"x"}"#, Some("json-list")),
        (r#"{"role":"assistant","content":null}"#, Some("json-list")),
        (r#"{"role":"assistant","tool_calls":[]}"#, Some("json-list")),
        (r#"{"role":"tool","tool_call_id":"c"}"#, Some("json-list")),
        (r#"{"type":"function_call"}"#, Some("json-list")),
        (r#"{"type":"function_call_output"}"#, Some("json-list")),
        (r#"{"r\u006fle":"user","content":[]}"#, Some("json-list")),
        (r#"{"role":"user"}"#, None),
        (r#"{"role":5,"content":"x"}"#, None),
        (r#"{"role":"user","role":5,"content":"x"}"#, None),
        (r#"{"content":"x"}"#, None),
        (r#"{"type":"job","data":{}}"#, None),
        (r#"{"type":"human","data":{}}"#, Some("langchain")),
        (r#"{"type":"AIMessageChunk","data":{}}"#, Some("langchain")),
        (r#"{"type":"remove","data":{}}"#, None),
        (r#"{"type":"human","data":[]}"#, None),
        (r#"{"type":"human","data":{},"data":"x"}"#, None),
        (r#"{"type":"x","type":"\u0061i","data":{}}"#, Some("langchain")),
        (
            r#"{"role":"user","content":"x","contents":[]}"#,
            Some("agent-framework"),
        ),
        (
            r#"{"type":"chat_message","role":{"type":"role","value":"user"},"contents":[]}"#,
            Some("agent-framework"),
        ),
        (
            r#"{"type":"message","role":{"type":"role","value":"user"},"contents":[]}"#,
            None,
        ),
        (r#"{"type":"chat_message","role":{},"role":[],"contents":[]}"#, None),
        (r#"{"type":"chat_message","role":{},"content":"x"}"#, None),
        (r#"{"role":"user","content":"x","blocks":[]}"#, Some("llama-index")),
        (r#"{"role":"user","blocks":{}}"#, None),
    ] {
        let mut shape = Shape::default();
        json::read_members(text.as_bytes(), &mut shape).unwrap();
        assert_eq!(
            ElementLayouts::among(ROWS).of(shape).map(Format::name),
            format,
            "{text}"
        );
    }
}

#[test]
fn a_window_is_only_what_was_given() {
    let list = Source::List(vec![br#"{"role":"user","content":"hi"}"#; 5]);
    let (session, done) = migrated_by(std::slice::from_ref(&list), None, &migration(None, Some(2)));
    assert_eq!((done.messages, done.evicted, session.limits().maxlen), (5, 3, 2));
    assert_eq!(session.query_count(), 5);
    let (session, _) = migrated(&[list], None);
    let limits = session.limits();
    assert_eq!(
        (limits.maxlen, limits.maxtokens, limits.event_maxlen, limits.event_ttl_s),
        (0, 0, 0, 0)
    );
    assert_eq!(limits.max_entities, 1000);
}

#[test]
fn keys_that_merely_look_alike_are_left_alone() {
    let list = |elements: &[&'static str]| Source::List(elements.iter().map(|element| element.as_bytes()).collect());
    for source in [
        list(&[r#"{"job":"mail","args":[1,2]}"#, r#"{"job":"mail","args":[3]}"#]),
        list(&[r#"{"id":1,"type":"chat","data":"x"}"#]),
        list(&[r#"{"type":"system","payload":{}}"#]),
        list(&[r#"{"role":"admin","user":"u1"}"#]),
        list(&[r#"{"role":"user","content":"hi"}"#, r#"{"job":1}"#]),
        list(&[r#"{"role":"user","content":"hi"}"#, r#"{"role":"user","blocks":[]}"#]),
        list(&["2026-01-14 10:00 INFO: started", "Human: ping", "17"]),
        list(&["Human: ping", "AI: pong"]),
        list(&["1", "2", "[1]", "\"x\"", ""]),
        list(&[]),
        Source::String(b""),
        Source::String(b"17"),
        Source::String(b"\"text\""),
        Source::String(b"<html>"),
        Source::String(b"\x80\x04\x95"),
        Source::String(b"[]"),
        Source::String(b"[1,2,3]"),
        Source::String(br#"[{"role":"user","content":"hi"}"#),
        Source::String(br#"[{"role":"user","content":"hi"}]]"#),
        Source::String(br#"[{"role":"user","content":"hi"},]"#),
        Source::String(br#"[{"role":"user","content":"hi"},{"id":7}]"#),
        Source::String(br#"[{"type":"human","data":{}}]"#),
        Source::String(br#"{"role":"user","content":"hi"}"#),
        Source::String(br#"{"cache":{"messages":[]},"ttl":5}"#),
        Source::String(br#"{"messages":["saved"],"matter_id":3}"#),
        Source::String(br#"{"messages":{"hello":"Hallo"},"memories":[]}"#),
        Source::Hash(vec![(b"agentIds", b"[]"), (b"state", b"x")]),
        Source::Zset(vec![(1.0, br#"{"seq":1,"type":"x"}"#)]),
    ] {
        assert_eq!(recognise_alone(&source), None, "{source:?}");
    }
}

#[test]
fn an_object_that_is_huge_or_deep_is_read_all_the_same() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let text = format!(r#"[{{"role":"user","content":"{}"}},{deep}]"#, "x".repeat(3_000_000));
    let source = [Source::String(text.as_bytes())];
    assert_eq!(recognise_alone(&source[0]), Some(json_array::ROW.format()));
    let (session, done) = migrated(&source, None);
    assert_eq!((done.messages, done.malformed), (1, 1));
    assert_eq!(set_aside(&session), [deep.as_bytes()]);
}

/// Elements of every kind; of which layout a good one is, is said by its number.
fn element(layout: usize) -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![".{0,40}", Just("x".repeat(700)), Just("\u{e9}\\\"".to_owned())]
        .prop_map(|text| serde_json::to_string(&text).unwrap());
    let good = (text, 0usize..6).prop_map(move |(text, kind)| {
        match (layout, kind) {
            (0, 0) => format!(r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":{text}}}]}}"#),
            (0, 1) => format!(r#"{{"role":"tool","tool_call_id":{text},"content":""}}"#),
            (0, 2) => format!(r#" {{"type":"function_call","call_id":{text}}}"#),
            (0, _) => format!(r#"{{"role":"user","content":{text},"entity_refs":["e",{text}]}}"#),
            (1, _) => format!(r#"{{"type":"human","data":{{"content":{text}}}}}"#),
            (2, _) => format!(r#"{{"role":"user","contents":[{text}]}}"#),
            _ => format!(r#"{{"role":"user","blocks":[{text}]}}"#),
        }
        .into_bytes()
    });
    let deep = Just(format!("{{\"a\":{}1{}}}", "[".repeat(128), "]".repeat(128)).into_bytes());
    let bad = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        ".{0,20}".prop_map(String::into_bytes),
        "[A-Za-z]{1,8}: .{0,9}".prop_map(String::into_bytes),
        Just(b"[1,{}]".to_vec()),
        Just(b"{\"role\":\"user\",\"content\":\"\xff\"}".to_vec()),
        deep,
    ];
    let cut = (good.clone(), any::<prop::sample::Index>()).prop_map(|(mut text, at)| {
        text.truncate(at.index(text.len()));
        text
    });
    prop_oneof![6 => good, 1 => bad, 1 => cut]
}

fn elements() -> impl Strategy<Value = (usize, Vec<Vec<u8>>)> {
    (0usize..4).prop_flat_map(|layout| (Just(layout), prop::collection::vec(element(layout), 0..60)))
}

fn is_object(text: &[u8]) -> bool {
    json::read_object(text, |_, _| ()).is_ok()
}

/// Every element byte for byte, at the seq of its place; returns how many are messages.
fn check_elements(session: &Session, expected: &[Vec<u8>]) -> usize {
    let numbered = || {
        expected
            .iter()
            .enumerate()
            .map(|(i, text)| (i as u64 + 1, text.clone()))
    };
    let messages: Vec<_> = numbered().filter(|(_, text)| is_object(text)).collect();
    let others: Vec<_> = numbered().filter(|(_, text)| !is_object(text)).collect();
    assert_eq!(with_seqs(session, false), messages);
    assert_eq!(with_seqs(session, true), others);
    messages.len()
}

/// Without what is white space in JSON.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !is_space(byte))
        .map_or(start, |last| last + 1);
    &text[start..end]
}

proptest! {
    #[test]
    fn nothing_of_a_list_is_lost((layout, elements) in elements(), is_forced in any::<bool>()) {
        let formats = [json_list::ROW.format(), langchain::ROW.format(), agent_framework::ROW.format(), llama_index::ROW.format()];
        let source = [Source::List(elements.iter().map(Vec::as_slice).collect())];
        let objects = elements.iter().filter(|element| is_object(element)).count();
        // What is malformed may be an object by chance, of no layout.
        let alone = recognise_alone(&source[0]);
        prop_assert!(alone.is_none() || alone == Some(formats[layout]));
        prop_assert!(objects > 0 || alone.is_none());
        prop_assert_eq!(alone.is_none(), refused(&source).is_some() || recognise(&source, None).unwrap().format() == motorhead::ROW.format());
        let forced = is_forced.then_some(formats[layout]);
        if forced.is_some() || alone.is_some() {
            let (session, done) = migrated(&source, forced);
            let mut expected = elements.clone();
            if layout == 1 {
                expected.reverse();
            }
            prop_assert_eq!(check_elements(&session, &expected), objects);
            prop_assert_eq!((done.messages, done.malformed), (objects as u64, (elements.len() - objects) as u64));
        }
    }

    #[test]
    fn messages_are_what_they_would_be_had_they_been_appended(
        parts in prop::collection::vec((0usize..6, prop::collection::vec(0usize..3, 0..3), 0usize..3), 1..40), maxlen in 0u64..6,
    ) {
        let bodies: Vec<String> = parts.iter().map(|(kind, calls, answers)| {
            let calls: Vec<String> = calls.iter().map(|id| format!(r#"{{"n":[1],"id":"c{id}"}},7"#)).collect();
            let calls = calls.join(",");
            match kind {
                0 => format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#),
                1 => format!(r#"{{"role":"tool","tool_call_id":"c{answers}","content":"x","token_count":5}}"#),
                2 => format!(r#"{{"role":"tool","tool_call_id":"c{answers}","content":"x","tool_calls":[ {calls} ]}}"#),
                3 => format!(r#"{{"type":"function_call","call_id":"c{answers}"}}"#),
                4 => format!(r#"{{"type":"function_call_output","call_id":"c{answers}","timestamp":"2026-01-14T10:00:00Z"}}"#),
                _ => format!(r#"{{"role":"user","content":"hi","entity_refs":["e{answers}"]}}"#),
            }
        }).collect();
        let list = [Source::List(bodies.iter().map(String::as_bytes).collect())];
        let migration = migration(None, Some(maxlen));
        let (session, done) = migrated_by(&list, None, &migration);
        let mut appended = Session::create(&Creation {
            id: session.id(),
            created_at_ms: NOW_MS,
            now_ms: NOW_MS,
            ..creation(session.limits().clone())
        });
        let batch: Vec<_> = bodies.iter().map(|body| Incoming { facts: body::read(body.as_bytes()).unwrap(), body: body.as_bytes(), tokens: None }).collect();
        prop_assert_eq!(appended.append(&batch, None, migration.now, None).evicted, done.evicted);
        let heads = |session: &Session| {
            let mut heads = Vec::new();
            session.messages(NOW_MS, |head, body| {
                let calls: Vec<u32> = head.calls.iter().collect();
                heads.push((head.seq, head.time_ms, head.tokens, head.role.as_str().to_owned(), head.root, calls, body.get().to_vec()));
                ControlFlow::<()>::Continue(())
            });
            heads
        };
        prop_assert_eq!(heads(&session), heads(&appended));
        prop_assert_eq!(session.query_count(), appended.query_count());
        let entities = |session: &Session| session.entities().map(|(id, entity)| (id.to_owned(), entity.mention_count)).collect::<Vec<_>>();
        prop_assert_eq!(entities(&session), entities(&appended));
    }

    #[test]
    fn nothing_of_a_text_is_lost((layout, elements) in elements(), which in 0usize..4, space in "[ \n\t]{0,2}") {
        // Elements that would take the text around them along are not elements.
        let elements: Vec<_> = elements.into_iter().filter(|element| {
            let text = [b"[", element.as_slice(), b"]"].concat();
            matches!(Text::read(&text, &mut |_| ControlFlow::Continue(())), Ok(Text::Array(array)) if array.texts.len() == 1)
        }).collect();
        let glue = format!("{space},{space}");
        let array = [b"[".to_vec(), elements.join(glue.as_bytes()), b"]".to_vec()].concat();
        let (format, text) = match which {
            0 => (json_array::ROW.format(), array),
            1 => (context::ROW.format(), [b"{\"matter_id\":\"m\",\"messages\":", array.as_slice(), b"}"].concat()),
            2 => (agent_memory::ROW.format(), [b"{\"messages\":", array.as_slice(), b",\"memories\":[]}"].concat()),
            _ => (adk::ROW.format(), [b"{\"app_name\":\"a\",\"events\":", array.as_slice(), b"}"].concat()),
        };
        let source = [Source::String(&text)];
        let expected: Vec<Vec<u8>> = elements.iter().map(|element| trimmed(element).to_vec()).collect();
        let objects = expected.iter().filter(|element| is_object(element)).count();
        let alone = recognise_alone(&source[0]);
        prop_assert!(alone.is_none() || alone == Some(format));
        if which > 0 && (objects > 0 || elements.is_empty()) {
            prop_assert_eq!(alone, Some(format));
        }
        if which == 0 && layout > 0 {
            prop_assert_eq!(alone, None);
        }
        let (session, done) = migrated_by(&source, Some(format), &migration(None, Some(0)));
        prop_assert_eq!(check_elements(&session, &expected), objects);
        prop_assert_eq!((done.messages, done.malformed), (objects as u64, (elements.len() - objects) as u64));
    }

    #[test]
    fn nothing_of_lines_is_lost(lines in prop::collection::vec(element(0), 0..30), summary in prop::collection::vec(any::<u8>(), 0..20)) {
        let source = [Source::List(lines.iter().map(Vec::as_slice).collect()), Source::String(&summary)];
        let (session, done) = migrated(&source, Some(motorhead::ROW.format()));
        let mut all = with_seqs(&session, false);
        all.extend(with_seqs(&session, true));
        all.sort();
        let all: Vec<Vec<u8>> = all.into_iter().map(|(_, body)| body).rev().collect();
        prop_assert_eq!(all.len(), lines.len());
        for (line, kept) in lines.iter().zip(all) {
            if kept != *line {
                let value: serde_json::Value = serde_json::from_slice(&kept).unwrap();
                let text = format!("{}: {}", value["role"].as_str().unwrap(), value["content"].as_str().unwrap());
                prop_assert_eq!(text.as_bytes(), line.as_slice());
            }
        }
        prop_assert_eq!(done.messages + done.malformed, lines.len() as u64);
        prop_assert!(session.meta().is_some());
    }

    #[test]
    fn nothing_of_a_sorted_set_and_its_hash_is_lost(
        members in prop::collection::vec(prop_oneof![element(0), Just(br#"{"type":5,"seq":9,"timestamp":1,"seq":7}"#.to_vec()), Just(br#"{"type":"broke","note":{"a":1.0}}"#.to_vec())], 0..30),
        fields in prop::collection::btree_map(prop_oneof![Just(b"agentIds".to_vec()), Just(b"state".to_vec()), Just(b"session_id".to_vec()), prop::collection::vec(any::<u8>(), 0..3)],
            prop_oneof![prop::collection::vec(any::<u8>(), 0..6), Just(br#"["a","b",{}]"#.to_vec())], 0..6),
    ) {
        let fields: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
        let source = [Source::Hash(fields.clone()), Source::Zset(members.iter().map(|member| (1.0, member.as_slice())).collect())];
        let (session, done) = migrated(&source, Some(live_hash::ROW.format()));
        prop_assert_eq!(done.events as usize, members.iter().filter(|member| is_object(member)).count());
        let malformed: Vec<_> = members.iter().filter(|member| !is_object(member)).cloned().collect();
        prop_assert_eq!(set_aside(&session), malformed);
        for (event, member) in events(&session).iter().zip(members.iter().filter(|member| is_object(member))) {
            let event: serde_json::Value = serde_json::from_str(event).unwrap();
            let member: serde_json::Value = serde_json::from_slice(member).unwrap();
            for (key, value) in member.as_object().unwrap() {
                prop_assert!(key == "seq" || key == "timestamp" || event[key] == *value);
            }
            prop_assert!(!event["seq"].is_null() && !event["timestamp"].is_null() && !event["type"].is_null());
        }
        let meta: serde_json::Value = serde_json::from_str(session.meta().unwrap_or("{}")).unwrap();
        for (name, value) in fields {
            if let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) {
                prop_assert!(meta[name] == value || (name == "state" && session.state() == value));
            }
        }
    }

    #[test]
    fn nothing_makes_recognition_panic(
        strings in prop::collection::vec(prop_oneof![
            prop::collection::vec(prop::sample::select(b"[]{}\",:\\ \xff1a".as_slice()), 0..40),
            Just(br#"{"matter_id":1,"messages":[{}],"events":[{},"#.to_vec()),
            Just(br#"{"matter_id":{},"messages":5,"user_id":[],"entities_mentioned":{"":{},"x":{"aliases":5}},"query_count":99999999999999999999}"#.to_vec()),
            Just(br#"["a"]"#.to_vec()),
        ], 0..6),
        kinds in prop::collection::vec(0usize..4, 0..4), forced in prop::option::of(0..ROWS.len()),
    ) {
        let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let pairs = || slices.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let sources: Vec<Source<'_>> = kinds.iter().map(|kind| match kind {
            0 => Source::String(slices.first().copied().unwrap_or_default()),
            1 => Source::List(slices.clone()),
            2 => Source::Hash(pairs().chain([(&b"agentIds"[..], slices.last().copied().unwrap_or_default())]).collect()),
            _ => Source::Zset(slices.iter().map(|slice| (0.5, *slice)).collect()),
        }).collect();
        for source in &sources {
            let _ = recognise_alone(source);
        }
        let forced = forced.and_then(|number| Format::all().nth(number));
        match recognise(&sources, forced) {
            Ok(legacy) => {
                let id = Uuid::from_u128(3);
                if let Ok((session, done)) = Session::migrate(&legacy, &migration(Some(id), Some(2))) {
                    prop_assert_eq!(done.messages + done.malformed + done.events, legacy.len() as u64);
                    let again = Session::decode_whole(&session.encode_whole()).unwrap();
                    prop_assert_eq!(digest(&again), digest(&session));
                }
            }
            Err(why) => prop_assert!(!why.to_string().is_empty()),
        }
        // A layout that is recognised without being forced is the same when forced.
        if let Ok(legacy) = recognise(&sources, None) {
            prop_assert!(recognise(&sources, Some(legacy.format())).is_ok());
        }
    }
}
