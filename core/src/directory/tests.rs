use super::*;
use crate::fixture::{creation, START_MS};
use crate::limits::Limits;
use crate::payload::kind::put_sized;
use crate::session::Creation;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A model of a directory: a list in the order of registration.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: u128,
    key: Vec<u8>,
    created_at_ms: i64,
    alias: Option<String>,
    is_autoname: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Register(u128, u8, i64, Option<(u8, bool)>),
    Rename(u128, u8, bool),
    Remove(u128),
    /// Number of visits; sessions with this bit set in the mask are dead.
    Prune(usize, u32),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = 0u128..7;
    let register = (id.clone(), 0u8..7, 0i64..4, prop::option::of((0u8..6, any::<bool>())))
        .prop_map(|(id, key, created, alias)| Step::Register(id, key, created, alias));
    let rename = (id.clone(), 0u8..6, any::<bool>()).prop_map(|(id, alias, auto)| Step::Rename(id, alias, auto));
    let step = prop_oneof![
        6 => register,
        2 => rename,
        2 => id.prop_map(Step::Remove),
        1 => (0usize..9, any::<u32>()).prop_map(|(visits, mask)| Step::Prune(visits, mask)),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 0..50)
}

/// Keys, including an empty one and ones that are not UTF-8.
fn key_of(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![0xff, 0],
        _ => format!("session:{{acme}}:{number}").into_bytes(),
    }
}

fn alias_of(number: u8) -> String {
    ["a", "ab", "straße", "a b", "{x}", "z"][usize::from(number)].to_owned()
}

fn named(alias: &str, is_autoname: bool) -> NewAlias<'_> {
    NewAlias {
        name: check_alias(alias.as_bytes()).unwrap(),
        is_autoname,
    }
}

/// Registers in the list; returns whether the id is new, and which other entries were removed.
fn register(rows: &mut Vec<Row>, mut row: Row, keeps_alias: bool) -> (bool, Vec<Uuid>) {
    let at = rows.iter().position(|known| known.id == row.id);
    if let (Some(at), true) = (at, keeps_alias) {
        row.alias = rows[at].alias.clone();
        row.is_autoname = rows[at].is_autoname;
    }
    let at_same_key = |known: &Row| known.id != row.id && known.key == row.key;
    let of_same_alias = |known: &Row| known.id != row.id && row.alias.is_some() && known.alias == row.alias;
    let mut displaced = Vec::new();
    displaced.extend(rows.iter().filter(|known| at_same_key(known)).map(|known| known.id));
    displaced.extend(
        rows.iter()
            .filter(|known| of_same_alias(known) && !at_same_key(known))
            .map(|known| known.id),
    );
    match at {
        Some(at) => rows[at] = row,
        None => rows.push(row),
    }
    rows.retain(|known| !displaced.contains(&known.id));
    (at.is_none(), displaced.into_iter().map(Uuid::from_u128).collect())
}

fn row_of(entry: &Entry) -> Row {
    Row {
        id: entry.id().as_u128(),
        key: entry.key().to_vec(),
        created_at_ms: entry.created_at_ms(),
        alias: entry.alias().map(str::to_owned),
        is_autoname: entry.is_autoname(),
    }
}

fn rows_of(directory: &Directory) -> Vec<Row> {
    directory.in_registration_order().into_iter().map(row_of).collect()
}

fn digest_of(directory: &Directory) -> u128 {
    let mut parts = Vec::new();
    directory.digest(|part| parts.push(part.to_vec()));
    crate::text::hash::fingerprint(parts.iter().map(Vec::as_slice))
}

/// Makes a directory of ids 1 to n, all created at the same time, registered in this order.
fn numbered(count: u128) -> Directory {
    let mut directory = Directory::default();
    for id in 1..=count {
        directory.register(&Registration {
            id: Uuid::from_u128(id),
            key: format!("session:{id}").as_bytes(),
            created_at_ms: START_MS,
            alias: None,
        });
    }
    directory
}

#[test]
fn every_alias_that_the_contract_refuses_is_refused_by_its_rule() {
    let uuid = "0198c0de-1234-7abc-8def-0123456789ab";
    let control = |letter: char| AliasError::Control {
        code: u32::from(letter),
    };
    let upper = uuid.to_uppercase();
    let (simple, urn, braced) = (uuid.replace('-', ""), format!("urn:uuid:{uuid}"), format!("{{{uuid}}}"));
    let long = "é".repeat(128);
    for (alias, error) in [
        ("", AliasError::Length { bytes: 0 }),
        (long.as_str(), AliasError::Length { bytes: 256 }),
        ("a/b", AliasError::Slash),
        ("/", AliasError::Slash),
        ("a\\b", AliasError::Backslash),
        ("a\0b", control('\0')),
        ("a\nb", control('\n')),
        ("\t", control('\t')),
        ("a\x1f", control('\x1f')),
        ("a\x7f", control('\x7f')),
        ("a\u{80}", control('\u{80}')),
        ("\u{85}a", control('\u{85}')),
        ("a\u{9f}", control('\u{9f}')),
        (".", AliasError::Dots),
        ("..", AliasError::Dots),
        (" a", AliasError::Space),
        ("a ", AliasError::Space),
        (" ", AliasError::Space),
        ("a\u{a0}", AliasError::Space),
        ("\u{3000}a", AliasError::Space),
        ("a\u{2028}", AliasError::Space),
        (uuid, AliasError::Uuid),
        (&upper, AliasError::Uuid),
        (&simple, AliasError::Uuid),
        (&urn, AliasError::Uuid),
        (&braced, AliasError::Uuid),
        ("00000000-0000-0000-0000-000000000000", AliasError::Uuid),
    ] {
        assert_eq!(check_alias(alias.as_bytes()), Err(error), "{alias:?}");
    }
    assert_eq!(check_alias(b"a\xff"), Err(AliasError::NotUtf8));
    assert_eq!(check_alias(b"\xed\xa0\x80"), Err(AliasError::NotUtf8));
    assert_eq!(
        AliasError::Length { bytes: 256 }.to_string(),
        "an alias has 1 to 255 bytes, not 256"
    );
    assert_eq!(
        control('\u{85}').to_string(),
        "an alias holds no control characters, as U+0085 is"
    );
    let longest = "a".repeat(255);
    for alias in [
        "a",
        "a b",
        "...",
        ".a",
        "日本語",
        "session-1",
        "👩‍💻",
        "'\"",
        "*",
        longest.as_str(),
        "0198c0de-1234-7abc-8def-0123456789a",
        "0198c0de-1234-7abc-8def-0123456789ag",
        "0198c0de12347-abc-8def-0123456789ab",
    ] {
        assert_eq!(check_alias(alias.as_bytes()).map(|alias| alias.as_str()), Ok(alias));
    }
}

#[test]
fn an_entry_is_shown_as_documented() {
    let id = Uuid::from_u128(0x0198_c0de_1234_7abc_8def_0123_4567_89ab);
    let session = Session::create(&Creation {
        id,
        now_ms: START_MS + 1000,
        state: Some("re\"view"),
        ..creation(Limits::default())
    });
    let mut directory = Directory::default();
    let shown = |directory: &Directory| {
        let mut json = Vec::new();
        let entry = directory.by_id(id).unwrap();
        entry.write_json(&session, START_MS, &mut json);
        String::from_utf8(json).unwrap()
    };
    let registration = Registration {
        id,
        key: b"k\xff\"",
        created_at_ms: START_MS,
        alias: Some(named("ever\"y", true)),
    };
    directory.register(&registration);
    assert_eq!(
        shown(&directory),
        "{\"id\":\"0198c0de-1234-7abc-8def-0123456789ab\",\"key\":\"k\u{fffd}\\\"\",\"alias\":\"ever\\\"y\",\"autoname\":true,\
         \"created_at\":\"2026-01-14T10:00:00.000Z\",\"last_activity\":\"2026-01-14T10:00:01.000Z\",\"state\":\"re\\\"view\",\
         \"message_count\":0}"
    );
    directory.remove(id);
    directory.register(&Registration {
        alias: None,
        ..registration
    });
    assert!(shown(&directory).contains(r#""alias":null,"autoname":false,"#));
}

#[test]
fn a_page_visits_no_more_entries_than_it_needs() {
    let directory = numbered(10_000);
    let mut visited = 0;
    let page = Page { offset: 20, count: 10 };
    let shown = directory.list(None, page, |entry| {
        visited += 1;
        (entry.id().as_u128() % 2 == 0).then_some(())
    });
    let ids: Vec<u128> = shown.iter().map(|(entry, ())| entry.id().as_u128()).collect();
    assert_eq!(ids, (4971..=4980).rev().map(|half| half * 2).collect::<Vec<_>>());
    assert!(visited <= 60, "{visited}");
    visited = 0;
    let none = Page { offset: 5, count: 0 };
    assert!(directory
        .list(None, none, |_| {
            visited += 1;
            Some(())
        })
        .is_empty());
    assert_eq!(visited, 0);
}

#[test]
fn a_page_of_a_hundred_thousand_costs_what_a_page_of_a_hundred_does() {
    for entries in [100, 100_000] {
        let directory = numbered(entries);
        for count in [1, 10, 100] {
            let mut visited = 0;
            let page = Page { offset: 0, count };
            let shown = directory.list(None, page, |_| {
                visited += 1;
                Some(())
            });
            assert_eq!((shown.len() as u64, visited), (count, count), "{count} of {entries}");
        }
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut directory = numbered(3);
    let copy = directory.clone();
    directory.rename(Uuid::from_u128(2), named("two", false));
    directory.remove(Uuid::from_u128(1));
    assert_eq!((directory.len(), copy.len()), (2, 3));
    assert!(copy.by_alias(b"two").is_none() && copy.by_id(Uuid::from_u128(1)).is_some());
    assert_ne!(digest_of(&directory), digest_of(&copy));
}

#[test]
fn a_payload_that_breaks_a_rule_is_refused() {
    let entry = |id: u8, key: &[u8], alias: &[u8], flags: u8| {
        let mut bytes = vec![0; 15];
        bytes.extend([id, 0]);
        put_sized(&mut bytes, key);
        put_sized(&mut bytes, alias);
        bytes.push(flags);
        bytes
    };
    let decode = |entries: &[Vec<u8>]| {
        let mut whole = kind::DIRECTORY.to_vec();
        varint::put(&mut whole, entries.len() as u64);
        whole.extend(entries.concat());
        Directory::decode_whole(&whole)
    };
    let sound = entry(1, b"k", b"a", 1);
    let alias_given_as_id = entry(2, b"l", b"00000000-0000-0000-0000-000000000000", 0);
    assert!(decode(&[sound.clone(), entry(2, b"l", b"b", 0)]).is_ok());
    for bad in [
        entry(1, b"l", b"b", 0),
        entry(2, b"k", b"b", 0),
        entry(2, b"l", b"a", 0),
        entry(2, b"l", b"a/b", 0),
        entry(2, b"l", b"\xff", 0),
        entry(2, b"l", &[b'b'; 256], 0),
        entry(2, b"l", b"", 1),
        entry(2, b"l", b"b", 2),
        alias_given_as_id,
    ] {
        assert!(decode(&[sound.clone(), bad]).is_err());
    }
    // A time out of range, and a count greater than anything can hold.
    let mut late = sound.clone();
    late.splice(16..17, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    assert!(decode(&[late]).is_err());
    let mut many = kind::DIRECTORY.to_vec();
    varint::put(&mut many, u64::MAX);
    assert!(Directory::decode_whole(&many).is_err());
}

#[test]
fn an_entry_takes_as_many_bytes_as_documented() {
    assert_eq!((size_of::<Entry>(), shared_bytes::<Entry>()), (56, 80));
    let mut directory = numbered(1000);
    let before = directory.heap_bytes();
    directory.rename(Uuid::from_u128(7), named("seven", false));
    assert_eq!(directory.heap_bytes(), before + POINTER_BYTES + 5);
    directory.remove(Uuid::from_u128(7));
    assert_eq!(
        directory.heap_bytes() + 80 + 3 * POINTER_BYTES + "session:7".len(),
        before
    );
    assert_eq!(directory.free_effort(), 999);
}

proptest! {
    #[test]
    fn a_directory_says_what_a_list_of_registrations_says(steps in steps()) {
        let mut directory = Directory::default();
        let mut rows: Vec<Row> = Vec::new();
        for step in steps {
            directory.check_invariants();
            let before = digest_of(&directory);
            match step {
                Step::Register(id, key, created, alias) => {
                    let (key, name) = (key_of(key), alias.map(|(alias, _)| alias_of(alias)));
                    let row = Row {
                        id,
                        key: key.clone(),
                        created_at_ms: START_MS + created,
                        alias: name.clone(),
                        is_autoname: alias.is_some_and(|(_, auto)| auto),
                    };
                    let registered = directory.register(&Registration {
                        id: Uuid::from_u128(id),
                        key: &key,
                        created_at_ms: START_MS + created,
                        alias: name.as_deref().map(|name| named(name, alias.is_some_and(|(_, auto)| auto))),
                    });
                    let (is_new, displaced) = register(&mut rows, row, alias.is_none());
                    prop_assert_eq!((registered.is_new, registered.displaced), (is_new, displaced));
                    prop_assert_eq!(registered.changed, digest_of(&directory) != before);
                }
                Step::Rename(id, alias, is_autoname) => {
                    let alias = alias_of(alias);
                    let renamed = directory.rename(Uuid::from_u128(id), named(&alias, is_autoname));
                    let row = rows.iter().find(|row| row.id == id).cloned();
                    prop_assert_eq!(renamed.is_some(), row.is_some());
                    if let (Some(renamed), Some(row)) = (renamed, row) {
                        let (_, displaced) = register(&mut rows, Row { alias: Some(alias), is_autoname, ..row }, false);
                        prop_assert_eq!((renamed.is_new, renamed.displaced), (false, displaced));
                        prop_assert_eq!(renamed.changed, digest_of(&directory) != before);
                    }
                }
                Step::Remove(id) => {
                    let was_there = rows.iter().any(|row| row.id == id);
                    prop_assert_eq!(directory.remove(Uuid::from_u128(id)), was_there);
                    rows.retain(|row| row.id != id);
                }
                Step::Prune(visits, mask) => {
                    let mut visited = Vec::new();
                    let pruned = directory.prune(visits, |entry| {
                        visited.push(entry.id());
                        mask & 1 << entry.id().as_u128() == 0
                    });
                    prop_assert_eq!(visited.len(), visits.min(rows.len()));
                    visited.retain(|id| mask & 1 << id.as_u128() != 0);
                    prop_assert_eq!(&pruned, &visited);
                    rows.retain(|row| !pruned.contains(&Uuid::from_u128(row.id)));
                }
                Step::Reload => {
                    directory = Directory::decode_whole(&directory.encode_whole()).unwrap();
                    prop_assert_eq!(digest_of(&directory), before);
                }
            }
            prop_assert_eq!(&rows_of(&directory), &rows);
            prop_assert_eq!(directory.len(), rows.len());
            prop_assert_eq!(directory.is_empty(), rows.is_empty());
            prop_assert_eq!(directory.by_key.len(), rows.len());
            prop_assert_eq!(directory.by_creation.len(), rows.len());
            prop_assert_eq!(directory.by_alias.len(), rows.iter().filter(|row| row.alias.is_some()).count());
            let text_bytes: usize = rows.iter().map(|row| row.key.len() + row.alias.as_ref().map_or(0, String::len)).sum();
            prop_assert_eq!(directory.text_bytes, text_bytes);
            for id in 0..7 {
                let row = rows.iter().find(|row| row.id == id).cloned();
                let id = Uuid::from_u128(id);
                prop_assert_eq!(directory.by_id(id).map(row_of), row.clone());
                for word in [id.hyphenated().to_string(), id.hyphenated().to_string().to_uppercase(), id.simple().to_string()] {
                    prop_assert_eq!(directory.resolve(word.as_bytes()).map(row_of), row.clone());
                }
            }
            for number in 0..7 {
                let key = key_of(number);
                prop_assert_eq!(directory.by_key(&key).map(row_of), rows.iter().find(|row| row.key == key).cloned());
            }
            for alias in (0..6).map(alias_of).chain(["".to_owned(), "A".to_owned()]) {
                let row = rows.iter().find(|row| row.alias.as_ref() == Some(&alias)).cloned();
                prop_assert_eq!(directory.by_alias(alias.as_bytes()).map(row_of), row.clone());
                prop_assert_eq!(directory.resolve(alias.as_bytes()).map(row_of), row);
            }
        }
    }

    #[test]
    fn lists_show_the_living_that_match_newest_first_and_of_equal_times_the_later_registered_first(
        entries in prop::collection::vec((0i64..4, prop::option::of("[ab]{1,3}"), any::<bool>(), 0i64..4), 0..20),
        pattern in prop::option::of(prop_oneof!["[ab*?]{0,3}", Just("*".to_owned())]),
        (offset, count) in (0u64..8, prop_oneof![0u64..8, Just(u64::MAX)]),
    ) {
        let mut directory = Directory::default();
        let mut activity = BTreeMap::new();
        for (id, (created, alias, is_live, active_ms)) in entries.iter().enumerate() {
            let id = Uuid::from_u128(id as u128);
            activity.insert(id, (*is_live, *active_ms));
            directory.register(&Registration {
                id,
                key: id.as_bytes(),
                created_at_ms: START_MS + created,
                alias: alias.as_deref().map(|alias| named(alias, false)),
            });
        }
        let pattern = pattern.as_deref().map(str::as_bytes);
        let mut living: Vec<&Entry> = directory
            .in_registration_order()
            .into_iter()
            .filter(|entry| activity[&entry.id()].0)
            .filter(|entry| pattern.is_none_or(|pattern| glob::matches(pattern, entry.alias().unwrap_or("").as_bytes())))
            .collect();
        living.reverse();
        let page = |entries: &[&Entry]| -> Vec<Uuid> {
            let count = usize::try_from(count).unwrap();
            entries.iter().skip(offset as usize).take(count).map(|entry| entry.id()).collect()
        };
        living.sort_by_key(|entry| -entry.created_at_ms());
        let look_up = |entry: &Entry| activity[&entry.id()].0.then_some(activity[&entry.id()].1);
        let shown = directory.list(pattern, Page { offset, count }, look_up);
        prop_assert!(shown.iter().all(|(entry, active_ms)| activity[&entry.id()].1 == *active_ms));
        prop_assert_eq!(shown.iter().map(|(entry, _)| entry.id()).collect::<Vec<_>>(), page(&living));

        living.sort_by_key(|entry| (-activity[&entry.id()].1, std::cmp::Reverse(entry.id())));
        let shown = directory.list_by_activity(pattern, Page { offset, count }, |entry| look_up(entry).map(|ms| (ms, ms)));
        prop_assert_eq!(shown.iter().map(|(entry, _)| entry.id()).collect::<Vec<_>>(), page(&living));
    }

    #[test]
    fn every_entry_is_looked_at_within_as_many_writes_as_there_are_entries_however_ids_are_made(
        count in 1u128..40, new_ids in prop::collection::vec(any::<u128>(), 40), ahead in any::<bool>(),
    ) {
        let mut directory = numbered(count);
        let mut unseen: Vec<Uuid> = (1..=count).map(Uuid::from_u128).collect();
        for new_id in new_ids.into_iter().take(count as usize) {
            // The worst case for ids: each is directly before the position of the next visit.
            let next = directory.pruned_up_to.map_or(0, |id| id.as_u128() + 1);
            let id = Uuid::from_u128(if ahead { next } else { new_id });
            directory.register(&Registration { id, key: id.as_bytes(), created_at_ms: START_MS, alias: None });
            directory.prune(2, |entry| {
                unseen.retain(|id| *id != entry.id());
                true
            });
        }
        prop_assert!(unseen.is_empty(), "{unseen:?}");
    }

    #[test]
    fn dead_entries_are_removed_after_as_many_visits_as_there_are_entries(count in 1u128..60, visits in 1usize..9, mask in any::<u64>()) {
        let mut directory = numbered(count);
        let is_live = |id: Uuid| mask & 1 << id.as_u128() == 0;
        let digest = digest_of(&directory);
        directory.prune(visits, |_| true);
        prop_assert_eq!(digest_of(&directory), digest, "looking is no change of content");
        for _ in 0..(count as usize).div_ceil(visits) {
            directory.prune(visits, |entry| is_live(entry.id()));
        }
        prop_assert!(directory.newest_first().all(|entry| is_live(entry.id())));
        prop_assert_eq!(directory.len() as u128, (1..=count).filter(|id| is_live(Uuid::from_u128(*id))).count() as u128);
    }

    #[test]
    fn any_alias_that_passes_keeps_all_the_rules(alias in prop_oneof!["\\PC{0,6}", "[ ./a\\\\\u{0}\u{85}\u{a0}]{0,3}", "[0-9a-fA-F]{32}"]) {
        let is_sound = !alias.is_empty()
            && alias.len() <= 255
            && !alias.contains(['/', '\\'])
            && !alias.chars().any(|letter| matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{9f}'))
            && alias != "."
            && alias != ".."
            && !alias.starts_with(char::is_whitespace)
            && !alias.ends_with(char::is_whitespace)
            && Uuid::try_parse(&alias).is_err();
        prop_assert_eq!(check_alias(alias.as_bytes()).is_ok(), is_sound);
    }

    #[test]
    fn spoiled_bytes_are_refused_or_read_as_something_sound(
        steps in prop::collection::vec((0u128..9, 0i64..4, prop::option::of(0u8..6)), 0..9),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut directory = Directory::default();
        for (id, created, alias) in steps {
            let alias = alias.map(alias_of);
            directory.register(&Registration {
                id: Uuid::from_u128(id),
                key: &key_of(id as u8),
                created_at_ms: START_MS + created,
                alias: alias.as_deref().map(|alias| named(alias, true)),
            });
        }
        let mut payload = directory.encode_whole();
        for end in 0..payload.len() {
            prop_assert!(Directory::decode_whole(&payload[..end]).is_err(), "cut at {}", end);
        }
        let mut longer = payload.clone();
        longer.push(0);
        prop_assert!(Directory::decode_whole(&longer).is_err());
        for (at, byte) in spoiled {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        if let Ok(directory) = Directory::decode_whole(&payload) {
            let again = Directory::decode_whole(&directory.encode_whole()).unwrap();
            prop_assert_eq!(digest_of(&again), digest_of(&directory));
        }
    }

    #[test]
    fn any_bytes_at_all_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let whole = [&kind::DIRECTORY[..], &body].concat();
        let _ = Directory::decode_whole(&whole);
        let _ = Directory::decode_whole(&body);
    }
}
