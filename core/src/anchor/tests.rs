use super::*;
use crate::fixture::START_MS;
use crate::payload::kind::{put_sized, put_time_ms};
use proptest::prelude::*;

const UNBOUNDED: AnchorBounds = AnchorBounds {
    maxlen: 0,
    max_age_ms: 0,
};

fn of_session(session_id: &str, time_ms: i64) -> NewAnchor<'_> {
    NewAnchor {
        session_id,
        outcome: None,
        checkpoint_id: None,
        key_impacts: &[],
        perf_delta: None,
        time_ms,
    }
}

fn shown(anchors: &Anchors, now_ms: i64) -> Vec<String> {
    let json = |anchor: &Anchor| {
        let mut json = Vec::new();
        anchor.write_json(&mut json);
        String::from_utf8(json).unwrap()
    };
    anchors.newest_first(now_ms).map(json).collect()
}

fn digest_of(anchors: &Anchors) -> u128 {
    let mut parts = Vec::new();
    anchors.digest(|part| parts.push(part.to_vec()));
    crate::text::hash::fingerprint(parts.iter().map(Vec::as_slice))
}

#[test]
fn an_anchor_is_shown_as_documented() {
    let mut anchors = Anchors::default();
    let added = anchors.add(&of_session("s\"1", START_MS), UNBOUNDED, START_MS);
    assert_eq!(added, Added { kept: 1, changed: true });
    let full = NewAnchor {
        session_id: "0198c0de-1234-7abc-8def-0123456789ab",
        outcome: Some("pass"),
        checkpoint_id: Some(7),
        key_impacts: &["e1", "e\"2"],
        perf_delta: check_number(b"-1.50e+03"),
        time_ms: START_MS,
    };
    anchors.add(&full, UNBOUNDED, START_MS);
    assert_eq!(
        shown(&anchors, START_MS),
        [
            r#"{"sessionId":"0198c0de-1234-7abc-8def-0123456789ab","outcome":"pass","checkpointId":7,"keyImpacts":["e1","e\"2"],"perfDelta":-1.50e+03,"timestamp":"2026-01-14T10:00:00.000Z"}"#,
            r#"{"sessionId":"s\"1","outcome":null,"checkpointId":null,"keyImpacts":[],"perfDelta":null,"timestamp":"2026-01-14T10:00:00.000Z"}"#,
        ]
    );
}

#[test]
fn only_what_json_calls_a_number_is_one() {
    for number in [
        "0",
        "-0",
        "12",
        "1.50",
        "-1.5e-7",
        "1E400",
        "123456789012345678901234567890",
    ] {
        assert_eq!(
            check_number(number.as_bytes()).map(|number| number.as_str()),
            Some(number)
        );
    }
    for text in [
        "",
        " 1",
        "1 ",
        "+1",
        ".5",
        "5.",
        "01",
        "1e",
        "0x10",
        "NaN",
        "Infinity",
        "null",
        "\"1\"",
        "[1]",
        "{}",
        "1,\"m\":2",
        "1}",
        "1}{",
        "1\n",
        "١",
    ] {
        assert_eq!(check_number(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(check_number(&[b'1'; MAX_TEXT_BYTES + 1]), None);
    assert_eq!(check_number(b"\xff"), None);
}

#[test]
fn reads_hide_what_the_age_bound_of_the_last_addition_has_passed() {
    let mut anchors = Anchors::default();
    let bounds = AnchorBounds {
        maxlen: 5,
        max_age_ms: 100,
    };
    anchors.add(&of_session("a", START_MS), bounds, START_MS);
    anchors.add(&of_session("b", START_MS + 50), bounds, START_MS + 50);
    let hidden_from = |now_ms: i64| (anchors.newest_first(now_ms).count(), anchors.get("a", now_ms).is_some());
    assert_eq!(hidden_from(START_MS + 100), (2, true));
    assert_eq!(hidden_from(START_MS + 101), (1, false));
    assert_eq!(hidden_from(START_MS + 151), (0, false));
    assert_eq!(anchors.len(), 2, "a read frees nothing");
    let loaded = Anchors::decode_whole(&anchors.encode_whole()).unwrap();
    assert_eq!(
        loaded.newest_first(START_MS + 101).count(),
        1,
        "the bound is kept with the value"
    );
}

#[test]
fn what_is_too_old_when_it_is_added_is_not_kept_and_takes_the_session_s_former_one_along() {
    let bounds = AnchorBounds {
        maxlen: 0,
        max_age_ms: 100,
    };
    let mut anchors = Anchors::default();
    anchors.add(&of_session("a", START_MS), bounds, START_MS);
    let old = START_MS - 101;
    let added = |kept, changed| Added { kept, changed };
    assert_eq!(
        anchors.add(&of_session("b", old), bounds, START_MS),
        added(1, false),
        "nothing came of it"
    );
    assert_eq!(anchors.add(&of_session("a", old), bounds, START_MS), added(0, true));
    assert!(anchors.is_empty() && anchors.heap_bytes() == 0);
}

#[test]
fn a_payload_that_breaks_a_rule_is_refused() {
    let anchor = |time_ms: i64, id: &[u8], rest: &[u8]| {
        let mut bytes = Vec::new();
        put_time_ms(&mut bytes, time_ms);
        put_sized(&mut bytes, id);
        bytes.extend_from_slice(rest);
        bytes
    };
    let decode = |entries: &[Vec<u8>]| {
        let mut whole = kind::ANCHORS.to_vec();
        whole.extend([0, entries.len() as u8]);
        whole.extend(entries.concat());
        Anchors::decode_whole(&whole)
    };
    let sound = anchor(0, b"a", &[0, 0]);
    assert!(decode(&[sound.clone(), anchor(0, b"b", &[7, 1, b'o', 9, 1, b'1', 1, 1, b'e'])]).is_ok());
    for bad in [
        anchor(0, b"a", &[0, 0]),
        anchor(-1, b"b", &[0, 0]),
        anchor(0, b"", &[0, 0]),
        anchor(0, &vec![b'b'; MAX_TEXT_BYTES + 1], &[0, 0]),
        anchor(0, b"\xff", &[0, 0]),
        anchor(0, b"b", &[8, 0]),
        anchor(0, b"b", &[1, 0, 0]),
        anchor(0, b"b", &[4, 1, b'x', 0]),
        anchor(0, b"b", &[0, 1, 0]),
        anchor(MAX_TIME_MS + 1, b"b", &[0, 0]),
    ] {
        assert!(decode(&[sound.clone(), bad]).is_err());
    }
    let mut many = kind::ANCHORS.to_vec();
    many.push(0);
    varint::put(&mut many, u64::MAX);
    assert!(Anchors::decode_whole(&many).is_err());
    let mut old = kind::ANCHORS.to_vec();
    varint::put(&mut old, MAX_TIME_MS as u64 + 1);
    old.push(0);
    assert!(Anchors::decode_whole(&old).is_err());
}

/// Session, seconds after the start, outcome, checkpoint, impacts, number.
type Given = (u8, i64, Option<String>, Option<u64>, Vec<String>, Option<u8>);

fn given() -> impl Strategy<Value = Given> {
    (
        0u8..7,
        0i64..6,
        prop::option::of("[a-z]{1,3}"),
        prop::option::of(any::<u64>()),
        prop::collection::vec("\\PC{1,3}", 0..3),
        prop::option::of(any::<u8>()),
    )
}

fn add(anchors: &mut Anchors, given: &Given, bounds: AnchorBounds, now_ms: i64) -> Added {
    let (session, seconds, outcome, checkpoint_id, impacts, number) = given;
    let (session_id, number) = (format!("session {session}"), number.map(|number| number.to_string()));
    let impacts: Vec<&str> = impacts.iter().map(String::as_str).collect();
    let new = NewAnchor {
        session_id: &session_id,
        outcome: outcome.as_deref(),
        checkpoint_id: *checkpoint_id,
        key_impacts: &impacts,
        perf_delta: number.as_ref().and_then(|number| check_number(number.as_bytes())),
        time_ms: START_MS + seconds * 1000,
    };
    anchors.add(&new, bounds, now_ms)
}

fn says(anchor: &Anchor, given: &Given) -> bool {
    let (session, seconds, outcome, checkpoint_id, impacts, number) = given;
    anchor.session_id() == format!("session {session}")
        && anchor.time_ms() == START_MS + seconds * 1000
        && anchor.outcome() == outcome.as_deref()
        && anchor.checkpoint_id() == *checkpoint_id
        && anchor.key_impacts().eq(impacts.iter().map(String::as_str))
        && anchor.perf_delta() == number.map(|number| number.to_string()).as_deref()
}

#[test]
fn texts_move_and_stay_the_same_and_those_of_a_copy_stay_where_they_are() {
    let mut anchors = Anchors::default();
    for n in 0..10 {
        let id = format!("session {n}");
        let new = NewAnchor {
            outcome: Some("pass"),
            key_impacts: &["e1", "e2"],
            perf_delta: check_number(b"1.5"),
            ..of_session(&id, START_MS + n % 3)
        };
        anchors.add(&new, UNBOUNDED, START_MS);
    }
    let before = digest_of(&anchors);
    let count_moved = |anchors: &mut Anchors| {
        let (mut moved, mut from) = (0, Some(0));
        while let Some(at) = from {
            from = anchors.relocate(at, 3, &mut |bytes| {
                moved += 1;
                bytes.to_vec().into_boxed_slice()
            });
        }
        moved
    };
    assert_eq!(count_moved(&mut anchors), 50);
    let mut copy = anchors.clone();
    assert_eq!((count_moved(&mut copy), count_moved(&mut anchors)), (0, 0));
    assert_eq!((digest_of(&anchors), digest_of(&copy)), (before, before));
    assert!((0..10).all(|n| anchors.get(&format!("session {n}"), START_MS).is_some()));
    assert_eq!(count_moved(&mut Anchors::default()), 0);
}

proptest! {
    #[test]
    fn the_newest_maxlen_that_are_not_too_old_are_kept_one_a_session_of_equal_times_the_later_added_first(
        steps in prop::collection::vec((given(), 0u64..5, 0u64..8, 0i64..8, any::<bool>()), 0..40),
    ) {
        let mut anchors = Anchors::default();
        // In the order in which they were added.
        let mut list: Vec<Given> = Vec::new();
        for (given, maxlen, max_age_s, now_s, reload) in steps {
            let (bounds, now_ms) = (AnchorBounds { maxlen, max_age_ms: max_age_s * 1000 }, START_MS + now_s * 1000);
            if reload {
                let loaded = Anchors::decode_whole(&anchors.encode_whole()).unwrap();
                prop_assert_eq!(digest_of(&loaded), digest_of(&anchors));
                prop_assert_eq!(loaded.heap_bytes(), anchors.heap_bytes());
                anchors = loaded;
            }
            let before = digest_of(&anchors);
            let added = add(&mut anchors, &given, bounds, now_ms);
            list.retain(|known| known.0 != given.0);
            list.push(given);
            let is_young = |given: &Given, now_s: i64| max_age_s == 0 || now_s - given.1 <= max_age_s as i64;
            list.retain(|given| is_young(given, now_s));
            let mut newest_first: Vec<Given> = list.iter().rev().cloned().collect();
            newest_first.sort_by_key(|given| -given.1);
            if maxlen > 0 {
                newest_first.truncate(maxlen as usize);
                list.retain(|given| newest_first.contains(given));
            }
            prop_assert_eq!(added, Added { kept: list.len() as u64, changed: digest_of(&anchors) != before });
            prop_assert_eq!(anchors.len(), list.len());
            anchors.check_invariants();
            for later_s in 0..12 {
                newest_first.retain(|given| is_young(given, now_s + later_s));
                let now_ms = now_ms + later_s * 1000;
                prop_assert_eq!(anchors.newest_first(now_ms).count(), newest_first.len());
                prop_assert!(anchors.newest_first(now_ms).zip(&newest_first).all(|(anchor, given)| says(anchor, given)));
                for session in 0..7 {
                    let known = newest_first.iter().find(|given| given.0 == session);
                    let got = anchors.get(&format!("session {session}"), now_ms);
                    prop_assert_eq!(got.is_some(), known.is_some());
                    prop_assert!(got.zip(known).is_none_or(|(anchor, given)| says(anchor, given)));
                }
            }
        }
    }

    #[test]
    fn adding_the_same_again_changes_nothing_unless_something_of_its_time_came_between(first in given(), second in given()) {
        let mut anchors = Anchors::default();
        add(&mut anchors, &first, UNBOUNDED, START_MS);
        prop_assert!(!add(&mut anchors, &first, UNBOUNDED, START_MS).changed);
        add(&mut anchors, &second, UNBOUNDED, START_MS);
        let comes_between = first.0 != second.0 && first.1 == second.1;
        let is_replaced = first.0 == second.0 && first != second;
        prop_assert_eq!(add(&mut anchors, &first, UNBOUNDED, START_MS).changed, comes_between || is_replaced);
    }

    #[test]
    fn spoiled_bytes_are_refused_or_read_as_something_sound(
        givens in prop::collection::vec(given(), 0..6),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut anchors = Anchors::default();
        for given in &givens {
            add(&mut anchors, given, AnchorBounds { maxlen: 5, max_age_ms: 604_800_000 }, START_MS);
        }
        let mut payload = anchors.encode_whole();
        for end in 0..payload.len() {
            prop_assert!(Anchors::decode_whole(&payload[..end]).is_err(), "cut at {}", end);
        }
        let mut longer = payload.clone();
        longer.push(0);
        prop_assert!(Anchors::decode_whole(&longer).is_err());
        for (at, byte) in spoiled {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        if let Ok(anchors) = Anchors::decode_whole(&payload) {
            let again = Anchors::decode_whole(&anchors.encode_whole()).unwrap();
            prop_assert_eq!(digest_of(&again), digest_of(&anchors));
        }
    }

    #[test]
    fn any_bytes_at_all_are_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Anchors::decode_whole(&[&kind::ANCHORS[..], &body].concat());
        let _ = Anchors::decode_whole(&body);
    }
}
