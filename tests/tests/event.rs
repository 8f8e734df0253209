//! `SESSION.EVENT`: recording, finding and expiry of events, and the session's state.

use std::collections::BTreeSet;

use redis_session_tests::payload::Random;
use redis_session_tests::{entry, int, items, now_ms, talk, text, wait_until, Options, Server, Value};

use super::bad_input::assert_refused;
use super::surroundings::{collect_tokens, user};

/// Returns the seqs of the events in a reply, in its order.
#[track_caller]
fn seqs_in(reply: &Value) -> Vec<i64> {
    let seq = |event: &Value| {
        let event = text(event);
        let digits = event.strip_prefix("{\"seq\":").expect("an event starts with its seq");
        let end = digits.find(',').expect("an event has more than its seq");
        digits[..end].parse().expect("a seq is a number")
    };
    items(reply).iter().map(seq).collect()
}

/// Returns the seqs that `SESSION.EVENT RANGE k …` replies.
#[track_caller]
fn range(server: &Server, query: &str) -> Vec<i64> {
    seqs_in(&server.run(&format!("SESSION.EVENT RANGE k {query}")))
}

#[track_caller]
fn assert_events(server: &Server, key: &str, seqs: &[i64]) {
    let reply = server.call(&["SESSION.EVENT", "RANGE", key, "-", "+"]);
    assert_eq!(seqs_in(&reply), seqs);
    assert_eq!(
        int(&server.call(&["SESSION.EVENT", "LEN", key])),
        seqs.len() as i64,
        "LEN"
    );
    let expected = serde_json::json!({"count": seqs.len(), "first_seq": seqs.first(), "last_seq": seqs.last()});
    assert_eq!(server.document(key)["events"], expected, "GET");
}

#[test]
fn an_event_is_shown_word_for_word() {
    Server::start().conversation(
        r#"
        > SESSION.CREATE k LIMIT event-ttl 0
        > SESSION.EVENT ADD k pass AT 1768384800000
        (integer) 1
        > SESSION.EVENT ADD k modified AGENT a1 AT 1768384800001
        (integer) 2
        > SESSION.EVENT ADD k modified ENTITIES 2 e1 e2 AT 1768384800002
        (integer) 3
        > SESSION.EVENT ADD k modified ENTITIES 0 AT 1768384800003
        (integer) 4
        > SESSION.EVENT ADD k modified CHANGE '{"file":"x.rs","n":1.0}' AT 1768384800004
        (integer) 5
        > SESSION.EVENT ADD k broke IMPACT '{"perfDelta":-2}' AT 1768384800005
        (integer) 6
        > SESSION.EVENT ADD k review STATE review AT 1768384800006
        (integer) 7
        > SESSION.EVENT ADD k "all of \"it\"" STATE done IFSTATE review IMPACT '{"i":[1]}' CHANGE '{"c":{"d":null}}' ENTITIES 1 "e\"1" AGENT "a\\1" AT 1768384800007
        (integer) 8
        > SESSION.EVENT RANGE k - +
        1) '{"seq":1,"timestamp":"2026-01-14T10:00:00.000Z","type":"pass"}'
        2) '{"seq":2,"timestamp":"2026-01-14T10:00:00.001Z","type":"modified","agentId":"a1"}'
        3) '{"seq":3,"timestamp":"2026-01-14T10:00:00.002Z","type":"modified","changeInfo":{"entityIds":["e1","e2"]}}'
        4) '{"seq":4,"timestamp":"2026-01-14T10:00:00.003Z","type":"modified","changeInfo":{"entityIds":[]}}'
        5) '{"seq":5,"timestamp":"2026-01-14T10:00:00.004Z","type":"modified","changeInfo":{"file":"x.rs","n":1.0}}'
        6) '{"seq":6,"timestamp":"2026-01-14T10:00:00.005Z","type":"broke","impact":{"perfDelta":-2}}'
        7) '{"seq":7,"timestamp":"2026-01-14T10:00:00.006Z","type":"review","stateTransition":{"from":"working","to":"review"}}'
        8) '{"seq":8,"timestamp":"2026-01-14T10:00:00.007Z","type":"all of \"it\"","agentId":"a\\1","changeInfo":{"entityIds":["e\"1"],"c":{"d":null}},"impact":{"i":[1]},"stateTransition":{"from":"review","to":"done"}}'
        > SESSION.EVENT LEN k
        (integer) 8
        > session.event len k
        (integer) 8
        > SESSION.EVENT ADD k x entities 1 e agent a state s ifstate done at 1768384800008
        (integer) 9
        > SESSION.EVENT RANGE k 9 9 entity e agent a type x from done to s rev count 1
        1) '{"seq":9,"timestamp":"2026-01-14T10:00:00.008Z","type":"x","agentId":"a","changeInfo":{"entityIds":["e"]},"stateTransition":{"from":"done","to":"s"}}'
        "#,
    );
}

#[test]
fn a_missing_session_has_no_events_and_another_type_is_the_servers_wrongtype() {
    Server::start().conversation(
        r#"
        > SESSION.EVENT RANGE absent - +
        (empty array)
        > SESSION.EVENT LEN absent
        (integer) 0
        > EXISTS absent
        (integer) 0
        > SET string x
        > SESSION.EVENT ADD string pass
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.EVENT RANGE string - +
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.EVENT LEN string
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.CREATE k
        > SESSION.EVENT RANGE k - +
        (empty array)
        > SESSION.EVENT LEN k
        (integer) 0
        "#,
    );
}

#[test]
fn events_and_messages_take_their_seqs_from_one_counter() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.APPEND k JSON {}
        (integer) 1
        > SESSION.EVENT ADD k pass
        (integer) 2
        > SESSION.APPEND k JSON {} {}
        (integer) 4
        > SESSION.EVENT ADD k broke
        (integer) 5
        > SESSION.POP k COUNT 2
        …
        > SESSION.EVENT ADD k pass
        (integer) 6
        > SESSION.CLEAR k
        (integer) 1
        > SESSION.EVENT ADD k pass
        (integer) 7
        > SESSION.LEN k
        (integer) 0
        > SESSION.RANGE k 0 -1
        (empty array)
        "#,
    );
    assert_events(&server, "k", &[2, 5, 6, 7]);
    let document = server.document("k");
    assert_eq!(
        (&document["last_seq"], &document["message_count"]),
        (&7.into(), &0.into())
    );
    // REMOVE is for messages.
    assert_eq!(server.say("SESSION.REMOVE k 2 5"), "(integer) 0");
    assert_eq!(server.say("SESSION.REDACT k 2 5"), "(integer) 0");
    assert_events(&server, "k", &[2, 5, 6, 7]);
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(server.seqs("k"), [8]);
    assert_eq!(server.version_of("k"), 10);
    server.run("DEBUG RELOAD");
    assert_eq!(server.say("SESSION.EVENT ADD k pass"), "(integer) 9");
}

#[test]
fn an_event_creates_the_session_it_is_recorded_in() {
    let server = Server::start();
    let before = now_ms();
    assert_eq!(server.say("SESSION.EVENT ADD k pass"), "(integer) 1");
    assert_eq!(server.version_of("k"), 2);
    assert_eq!(server.document("k")["state"], "working");
    assert_eq!(server.document("k")["limits"]["event-maxlen"], 1000);
    let expires_at_ms = server.expires_at_ms(b"k");
    assert!((before + 604_800_000..=now_ms() + 604_800_000).contains(&expires_at_ms));
    assert_events(&server, "k", &[1]);
    server.conversation(
        r#"
        > SESSION.EVENT ADD kept pass KEEPTTL STATE review
        (integer) 1
        > PTTL kept
        (integer) -1
        > SESSION.EVENT ADD persistent pass PERSIST
        (integer) 1
        > PTTL persistent
        (integer) -1
        > SESSION.EVENT ADD absolute pass PXAT 4102444800000
        (integer) 1
        > PEXPIRETIME absolute
        (integer) 4102444800000
        > SESSION.EVENT ADD past pass PXAT 1000
        (integer) 1
        > EXISTS past
        (integer) 0
        > SESSION.EVENT ADD guarded pass IFVERSION 0 IFSTATE working
        (integer) 1
        > SESSION.EVENT ADD guarded pass IFVERSION 0
        (error) VERSIONCONFLICT session is at version 2, not 0
        > SESSION.EVENT ADD other pass IFVERSION 1
        (error) VERSIONCONFLICT session is at version 0, not 1
        > SESSION.EVENT ADD other pass LEASE 3
        (error) LEASELOST token 3 is stale
        > EXISTS other
        (integer) 0
        > SESSION.CREATE told STATE review LIMIT event-maxlen 2
        > SESSION.EVENT ADD told pass IFSTATE review
        (integer) 1
        "#,
    );
    assert_eq!(server.document("kept")["state"], "review");
    let before = now_ms();
    server.run("SESSION.EVENT ADD short pass EX 100");
    assert!((before + 100_000..=now_ms() + 100_000).contains(&server.expires_at_ms(b"short")));
    // A later event slides the expiry by that ttl.
    let first = server.expires_at_ms(b"short");
    wait_until("the clock ticks", || now_ms() > before + 2);
    server.run("SESSION.EVENT ADD short pass");
    assert!(server.expires_at_ms(b"short") > first);
    for reading in ["RANGE short - +", "LEN short"] {
        let expires_at_ms = server.expires_at_ms(b"short");
        server.run(&format!("SESSION.EVENT {reading}"));
        assert_eq!(
            server.expires_at_ms(b"short"),
            expires_at_ms,
            "{reading} slides nothing"
        );
    }
}

#[test]
fn the_state_moves_with_events_and_is_guarded() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.EVENT ADD k pass
        (integer) 1
        > SESSION.EVENT ADD k pass IFSTATE review
        (error) STATECONFLICT session is in state 'working', not 'review'
        > SESSION.EVENT ADD k pass IFSTATE working STATE review
        (integer) 2
        > SESSION.EVENT ADD k pass IFSTATE working STATE done
        (error) STATECONFLICT session is in state 'review', not 'working'
        > SESSION.EVENT ADD k pass IFSTATE Review
        (error) STATECONFLICT session is in state 'review', not 'Review'
        # The state it is in already is a transition too.
        > SESSION.EVENT ADD k pass STATE review
        (integer) 3
        > SESSION.EVENT ADD k pass IFSTATE review
        (integer) 4
        > SESSION.EVENT ADD k pass STATE working
        (integer) 5
        > SESSION.EVENT RANGE k - + FROM review
        1) '{"seq":3,…,"stateTransition":{"from":"review","to":"review"}}'
        2) '{"seq":5,…,"stateTransition":{"from":"review","to":"working"}}'
        # No session is in the state that a session starts in.
        > SESSION.EVENT ADD absent pass IFSTATE review
        (error) STATECONFLICT session is in state 'working', not 'review'
        > EXISTS absent
        (integer) 0
        > SESSION.CREATE told STATE "a\x01'b"
        > SESSION.EVENT ADD told pass IFSTATE working
        (error) STATECONFLICT session is in state 'a\x01\x27b', not 'working'
        "#,
    );
    assert_eq!(server.document("k")["state"], "working");
    assert_eq!(text(&server.info_of("k", "state")), "working");
    assert_eq!(server.info_number("session", "session_conflicts"), 5);
    let long = "s".repeat(65_536);
    server.call(&["SESSION.EVENT", "ADD", "k", "pass", "STATE", &long]);
    assert_eq!(server.document("k")["state"], long.as_str());
    let said = server.say("SESSION.EVENT ADD k pass IFSTATE working");
    assert!(
        said.len() < 200 && said.ends_with("', not 'working'") && said.matches('s').count() <= 75,
        "{said:.300}"
    );
    // The state remains after its event was dropped.
    server.run("SESSION.CREATE short LIMIT event-maxlen 1");
    server.run("SESSION.EVENT ADD short pass STATE review");
    server.run("SESSION.EVENT ADD short pass");
    assert_events(&server, "short", &[2]);
    assert_eq!(server.document("short")["state"], "review");
}

#[test]
fn lease_then_version_then_state() {
    let server = Server::append_only().start();
    server.run("SESSION.EVENT ADD k pass");
    server.run("SET string x");
    let before = server.snapshot();
    let propagated = server.propagated_lines(|server| {
        server.conversation(
            r#"
            > SESSION.EVENT ADD k pass IFSTATE review IFVERSION 9 LEASE 3
            (error) LEASELOST token 3 is stale
            > SESSION.EVENT ADD k pass IFSTATE review IFVERSION 9
            (error) VERSIONCONFLICT session is at version 2, not 9
            > SESSION.EVENT ADD k pass IFSTATE review IFVERSION 2
            (error) STATECONFLICT session is in state 'working', not 'review'
            # Syntax and bodies come first, then the type.
            > SESSION.EVENT ADD string pass IFSTATE review LEASE 3 CHANGE []
            (error) ERR CHANGE is not a JSON object (…)
            > SESSION.EVENT ADD string pass CHANGE [] BOGUS
            (error) ERR syntax error near 'BOGUS'
            > SESSION.EVENT ADD string pass IFSTATE review LEASE 3
            (error) WRONGTYPE Operation against a key holding the wrong kind of value
            "#,
        );
    });
    assert_eq!(propagated, [""; 0]);
    assert!(server.snapshot() == before);
}

#[test]
fn entities_take_the_place_of_the_changes_own() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT event-ttl 0
        > SESSION.EVENT ADD k m CHANGE '{"entityIds":["a","b"],"x":1}'
        > SESSION.EVENT ADD k m CHANGE '{"x":1,"entityIds":["a"],"y":{"entityIds":["inner"]}}' ENTITIES 2 b c
        > SESSION.EVENT ADD k m ENTITIES 0 CHANGE '{"entityIds":["a"]}'
        > SESSION.EVENT ADD k m CHANGE '{"entityIds":["a"],"entityIds":["z"]}'
        > SESSION.EVENT ADD k m CHANGE '{"entity\u0049ds":["a"],"x":1}' ENTITIES 1 d
        > SESSION.EVENT ADD k m CHANGE '{"entityIds":["\u0061\u00e9"]}'
        > SESSION.EVENT ADD k m IMPACT '{"entityIds":["a"]}'
        > SESSION.EVENT ADD k m CHANGE '{"entityIds":"a"}'
        > SESSION.EVENT ADD k m CHANGE '{"entityIds":[["a"],{"a":"a"},null,1]}'
        > SESSION.EVENT RANGE k 2 3
        1) '{"seq":2,"timestamp":"…","type":"m","changeInfo":{"entityIds":["b","c"],"x":1,"y":{"entityIds":["inner"]}}}'
        2) '{"seq":3,"timestamp":"…","type":"m","changeInfo":{"entityIds":[]}}'
        > SESSION.EVENT RANGE k 5 5
        1) '{"seq":5,"timestamp":"…","type":"m","changeInfo":{"entityIds":["d"],"x":1}}'
        "#,
    );
    assert_eq!(range(&server, "- + ENTITY a"), [1]);
    assert_eq!(range(&server, "- + ENTITY b"), [1, 2]);
    assert_eq!(range(&server, "- + ENTITY c ENTITY z"), [2, 4]);
    assert_eq!(range(&server, "- + ENTITY d"), [5]);
    assert_eq!(range(&server, "- + ENTITY aé"), [6]);
    assert_eq!(range(&server, "- + ENTITY inner"), [0i64; 0]);
    // An event mentions no entities: only messages and MENTION do.
    assert_eq!(server.say("SESSION.ENTITY LIST k"), "(empty array)");
    // Option words are values here.
    server.run("SESSION.EVENT ADD k STATE AGENT ENTITIES ENTITIES 3 STATE CHANGE AT IFSTATE working STATE IMPACT");
    assert_eq!(
        range(&server, "- + TYPE STATE AGENT ENTITIES ENTITY CHANGE TO IMPACT"),
        [10]
    );
}

/// Events that differ in every property that filters read.
fn varied(server: &Server) {
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT event-ttl 0
        > SESSION.EVENT ADD k pass AGENT a ENTITIES 1 e1
        > SESSION.EVENT ADD k broke AGENT b ENTITIES 2 e1 e2 STATE broken
        > SESSION.EVENT ADD k pass AGENT b ENTITIES 1 e2 STATE working
        > SESSION.EVENT ADD k Pass AGENT A ENTITIES 1 E1
        > SESSION.EVENT ADD k note
        > SESSION.EVENT ADD k pass AGENT a ENTITIES 2 e2 e3 STATE broken
        > SESSION.EVENT ADD k broke AGENT a STATE broken
        > SESSION.EVENT ADD k user AGENT c ENTITIES 3 e1 e2 e3 STATE working
        "#,
    );
}

#[test]
fn every_filter_alone_and_together() {
    let server = Server::start();
    varied(&server);
    for (filters, expected) in [
        ("", &[1, 2, 3, 4, 5, 6, 7, 8][..]),
        ("TYPE pass", &[1, 3, 6]),
        ("TYPE Pass", &[4]),
        ("TYPE user", &[8]),
        ("TYPE pass TYPE note", &[1, 3, 5, 6]),
        ("TYPE pas", &[]),
        ("TYPE ass", &[]),
        ("AGENT a", &[1, 6, 7]),
        ("AGENT a AGENT b", &[1, 2, 3, 6, 7]),
        ("AGENT nobody", &[]),
        ("ENTITY e1", &[1, 2, 8]),
        ("ENTITY e1 ENTITY e3", &[1, 2, 6, 8]),
        ("ENTITY e", &[]),
        ("FROM working", &[2, 6]),
        ("FROM broken", &[3, 7, 8]),
        ("TO broken", &[2, 6, 7]),
        ("FROM broken TO broken", &[7]),
        ("FROM working TO broken", &[2, 6]),
        ("FROM broken TO working", &[3, 8]),
        ("FROM nowhere", &[]),
        ("TYPE pass AGENT a", &[1, 6]),
        ("TYPE pass ENTITY e2", &[3, 6]),
        ("AGENT b ENTITY e1", &[2]),
        ("TYPE pass AGENT a ENTITY e2 FROM working TO broken", &[6]),
        ("TO broken FROM working ENTITY e2 AGENT a TYPE pass", &[6]),
        ("TYPE broke TYPE pass AGENT a AGENT b ENTITY e2", &[2, 3, 6]),
        ("TYPE pass AGENT a TYPE broke", &[1, 6, 7]),
        ("TYPE note AGENT a", &[]),
        ("TYPE pass TYPE pass", &[1, 3, 6]),
    ] {
        assert_eq!(range(&server, &format!("- + {filters}")), expected, "{filters}");
        let reversed: Vec<i64> = expected.iter().rev().copied().collect();
        assert_eq!(range(&server, &format!("- + REV {filters}")), reversed, "REV {filters}");
        // COUNT counts the events that passed the filters.
        let first: Vec<i64> = expected.iter().take(2).copied().collect();
        assert_eq!(
            range(&server, &format!("- + {filters} COUNT 2")),
            first,
            "{filters} COUNT 2"
        );
        let last: Vec<i64> = reversed.iter().take(1).copied().collect();
        assert_eq!(
            range(&server, &format!("- + COUNT 1 {filters} REV")),
            last,
            "{filters} REV COUNT 1"
        );
    }
}

#[test]
fn bounds_are_those_of_byseq() {
    let server = Server::start();
    // The odd seqs are messages.
    for _ in 0..5 {
        server.run("SESSION.APPEND k JSON {}");
        server.run("SESSION.EVENT ADD k pass");
    }
    for (bounds, expected) in [
        ("- +", &[2, 4, 6, 8, 10][..]),
        ("0 9223372036854775807", &[2, 4, 6, 8, 10]),
        ("2 4", &[2, 4]),
        ("3 7", &[4, 6]),
        ("(2 4", &[4]),
        ("2 (4", &[2]),
        ("(2 (4", &[]),
        ("(2 (6", &[4]),
        ("(1 (11", &[2, 4, 6, 8, 10]),
        ("6 6", &[6]),
        ("5 5", &[]),
        ("(6 +", &[8, 10]),
        ("- (6", &[2, 4]),
        ("11 +", &[]),
        ("8 4", &[]),
        ("+ -", &[]),
        ("- -", &[]),
        ("+ +", &[]),
        ("- 0", &[]),
        ("- (0", &[]),
        ("(9223372036854775807 +", &[]),
    ] {
        assert_eq!(range(&server, bounds), expected, "{bounds}");
        // Start ≤ stop also with REV.
        let reversed: Vec<i64> = expected.iter().rev().copied().collect();
        assert_eq!(range(&server, &format!("{bounds} REV")), reversed, "{bounds} REV");
    }
    assert_eq!(range(&server, "- + COUNT 2"), [2, 4]);
    assert_eq!(range(&server, "- + COUNT 2 REV"), [10, 8]);
    assert_eq!(range(&server, "(4 + COUNT 1"), [6]);
    assert_eq!(range(&server, "- + COUNT 0"), [0i64; 0]);
    assert_eq!(range(&server, "- + COUNT 9223372036854775807"), [2, 4, 6, 8, 10]);
    server.conversation(
        r#"
        > SESSION.EVENT RANGE k x +
        (error) ERR start must be …
        > SESSION.EVENT RANGE k - x
        (error) ERR stop must be …
        > SESSION.EVENT RANGE k -1 +
        (error) ERR start must be …
        > SESSION.EVENT RANGE k ( +
        (error) ERR start must be …
        > SESSION.EVENT RANGE k 99999999999999999999 +
        (error) ERR start must be …
        > SESSION.EVENT RANGE k - + COUNT -1
        (error) ERR COUNT must be an integer from …
        > SESSION.EVENT RANGE k - + COUNT 1 COUNT 2
        (error) ERR syntax error near 'COUNT'
        > SESSION.EVENT RANGE k - + REV REV
        (error) ERR syntax error near 'REV'
        > SESSION.EVENT RANGE k - + FROM a FROM b
        (error) ERR syntax error near 'FROM'
        > SESSION.EVENT RANGE k - + TO a TO b
        (error) ERR syntax error near 'TO'
        > SESSION.EVENT RANGE k - + TYPE
        (error) ERR syntax error near 'TYPE'
        > SESSION.EVENT RANGE k - + BYSEQ
        (error) ERR syntax error near 'BYSEQ'
        > SESSION.EVENT RANGE k - + WITHMETA
        (error) ERR syntax error near 'WITHMETA'
        > SESSION.EVENT RANGE k - + AGENT ""
        (error) ERR AGENT …
        > SESSION.EVENT RANGE k - + ENTITY "\xff"
        (error) ERR ENTITY …
        > SESSION.EVENT RANGE absent - x
        (error) ERR stop must be …
        "#,
    );
}

#[test]
fn the_newest_event_maxlen_are_kept() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT event-maxlen 3");
    for seq in 1..=5 {
        assert_eq!(server.say("SESSION.EVENT ADD k pass"), format!("(integer) {seq}"));
    }
    assert_events(&server, "k", &[3, 4, 5]);
    server.run("SESSION.APPEND k JSON {} {} {}");
    assert_events(&server, "k", &[3, 4, 5]);
    server.run("SESSION.EVENT ADD k pass");
    assert_events(&server, "k", &[4, 5, 9]);
    assert_eq!(server.version_of("k"), 8);
    // Messages are not affected.
    assert_eq!(server.seqs("k"), [6, 7, 8]);
    // No bound.
    server.run("SESSION.CREATE free LIMIT event-maxlen 0");
    for _ in 0..1100 {
        server.run("SESSION.EVENT ADD free pass");
    }
    assert_eq!(server.say("SESSION.EVENT LEN free"), "(integer) 1100");
    // The default, and the setting from which a new session takes it.
    for _ in 0..1100 {
        server.run("SESSION.EVENT ADD default pass");
    }
    assert_events(&server, "default", &(101..=1100).collect::<Vec<_>>());
    server.run("CONFIG SET session.event-maxlen 2");
    for _ in 0..4 {
        server.run("SESSION.EVENT ADD fresh pass");
    }
    assert_events(&server, "fresh", &[3, 4]);
    server.run("SESSION.EVENT ADD k pass");
    assert_events(&server, "k", &[5, 9, 10]);
}

#[test]
fn what_event_ttl_has_passed_is_hidden_at_once_and_freed_at_the_next_write() {
    let (primary, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run("SESSION.CREATE k LIMIT event-ttl 2 LIMIT event-maxlen 0");
    let filler = format!("{{\"x\":\"{}\"}}", "lorem ipsum ".repeat(100));
    for n in 0..50 {
        let at = (now_ms() - 500).to_string();
        let later = (now_ms() + 3_600_000).to_string();
        let at = if n == 20 { &later } else { &at };
        primary.call(&["SESSION.EVENT", "ADD", "k", "pass", "IMPACT", &filler, "AT", at]);
    }
    primary.run("SESSION.EVENT ADD k pass STATE review");
    replica.wait_for(&primary);
    let digest = primary.digest(b"k");
    for server in [&primary, &replica] {
        wait_until("the events are hidden", || range(server, "- +") == [21]);
        assert_events(server, "k", &[21]);
        assert_eq!(range(server, "- + REV"), [21]);
        assert_eq!(range(server, "- + TO review"), [0i64; 0]);
        assert_eq!(range(server, "- + TYPE pass COUNT 5"), [21]);
        assert_eq!(server.document("k")["state"], "review");
        assert_eq!(server.digest(b"k"), digest, "reading frees nothing");
    }
    let memory = || int(&primary.run("MEMORY USAGE k"));
    let before = memory();
    // Any write will do.
    primary.run("SESSION.APPEND k JSON {}");
    assert!(memory() < before, "{} of {before} bytes are left", memory());
    assert_events(&primary, "k", &[21]);
    replica.wait_for(&primary);
    assert_eq!(replica.digest(b"k"), primary.digest(b"k"));
    assert_events(&replica, "k", &[21]);
    primary.restart();
    assert_events(&primary, "k", &[21]);
}

#[test]
fn age_goes_by_the_events_own_time() {
    let server = Server::start();
    let now = now_ms();
    server.run("SESSION.CREATE k LIMIT event-ttl 60");
    let add = |at_ms: i64, options: &str| int(&server.run(&format!("SESSION.EVENT ADD k pass AT {at_ms} {options}")));
    assert_eq!(add(now - 3_600_000, "STATE review"), 1);
    // Dropped at once, but its change of the state remains.
    assert_events(&server, "k", &[]);
    assert_eq!(server.document("k")["state"], "review");
    assert_eq!(server.version_of("k"), 2);
    assert_eq!(add(now - 20_000, ""), 2);
    assert_eq!(add(now, ""), 3);
    assert_eq!(add(now - 90_000, ""), 4);
    assert_eq!(add(now + 3_600_000, ""), 5);
    assert_eq!(add(now - 10_000, ""), 6);
    // The order is that of seqs, whatever the times.
    assert_events(&server, "k", &[2, 3, 5, 6]);
    server.run("DEBUG RELOAD");
    assert_events(&server, "k", &[2, 3, 5, 6]);
    // Without a bound on age, everything is kept.
    server.run("SESSION.CREATE free LIMIT event-ttl 0");
    server.run("SESSION.EVENT ADD free pass AT 0");
    server.run("SESSION.EVENT ADD free pass AT 1000");
    assert_events(&server, "free", &[1, 2]);
    assert_eq!(
        server.say("SESSION.EVENT RANGE free 1 1"),
        r#"1) '{"seq":1,"timestamp":"1970-01-01T00:00:00.000Z","type":"pass"}'"#
    );
    // Both bounds: count applies to what age has left.
    server.run("SESSION.CREATE both LIMIT event-ttl 60 LIMIT event-maxlen 2");
    for at_ms in [now, now, now - 90_000, now - 90_000, now] {
        server.run(&format!("SESSION.EVENT ADD both pass AT {at_ms}"));
    }
    let kept = seqs_in(&server.run("SESSION.EVENT RANGE both - +"));
    assert!(kept.ends_with(&[5]) && kept.len() <= 2, "{kept:?}");
    // `last_activity` and the expiry go by the server's clock.
    let document = server.document("free");
    assert!(document["last_activity"].as_str().expect("a time") > "2026-01-14T10:00:00.000Z");
}

#[test]
fn a_hundred_thousand_events_are_found_through_every_filter() {
    const COUNT: usize = 100_000;
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT event-maxlen 0 LIMIT event-ttl 0");
    let words = |line: &str| talk::split(line);
    let mut client = server.client();
    let mut added = 0;
    let one_in = |n: usize, every: usize| n.is_multiple_of(every);
    while added < COUNT {
        let batch: Vec<Vec<Vec<u8>>> = (added..(added + 2000).min(COUNT))
            .map(|n| {
                let kind = if one_in(n, 1000) { "broke" } else { "pass" };
                let mut line = format!(
                    "SESSION.EVENT ADD k {kind} AT {} AGENT a{} ENTITIES 2 e{} e{}",
                    1_768_384_800_000 + n,
                    n % 7,
                    n % 5,
                    100 + n % 997
                );
                if one_in(n, 500) {
                    line += if one_in(n, 1000) {
                        " STATE broken"
                    } else {
                        " STATE working"
                    };
                }
                words(&line)
            })
            .collect();
        for reply in client.pipeline(&batch).expect("replies") {
            added += 1;
            assert_eq!(int(&reply), added as i64);
        }
    }
    assert_eq!(server.say("SESSION.EVENT LEN k"), "(integer) 100000");
    let seqs =
        |keep: &dyn Fn(usize) -> bool| -> Vec<i64> { (0..COUNT).filter(|n| keep(*n)).map(|n| n as i64 + 1).collect() };
    let check = |server: &Server| {
        for (query, expected) in [
            ("- + TYPE broke", seqs(&|n| one_in(n, 1000))),
            ("- + AGENT a3 TYPE broke", seqs(&|n| one_in(n, 1000) && n % 7 == 3)),
            ("- + ENTITY e4 ENTITY e2 COUNT 100", {
                let mut all = seqs(&|n| n % 5 == 4 || n % 5 == 2);
                all.truncate(100);
                all
            }),
            ("- + ENTITY e777", seqs(&|n| 100 + n % 997 == 777)),
            (
                "- + ENTITY e777 AGENT a1 AGENT a2",
                seqs(&|n| 100 + n % 997 == 777 && (n % 7 == 1 || n % 7 == 2)),
            ),
            (
                "- + FROM broken TO working",
                seqs(&|n| one_in(n, 500) && !one_in(n, 1000)),
            ),
            ("- + TO broken COUNT 3", vec![1, 1001, 2001]),
            ("- + REV COUNT 3 TO broken", vec![99_001, 98_001, 97_001]),
            ("(50000 50003", vec![50_001, 50_002, 50_003]),
            ("99999 + REV", vec![100_000, 99_999]),
            ("- + TYPE nothing", vec![]),
        ] {
            assert_eq!(range(server, query), expected, "{query}");
        }
        assert_eq!(range(server, "- +").len(), COUNT);
    };
    check(&server);
    let digest = server.digest(b"k");
    server.run("DEBUG RELOAD");
    assert_eq!(server.digest(b"k"), digest);
    check(&server);
    server.run("COPY k copy");
    server.run("SESSION.EVENT ADD copy pass");
    assert_eq!(server.say("SESSION.EVENT LEN k"), "(integer) 100000");
    assert_eq!(server.say("SESSION.EVENT LEN copy"), "(integer) 100001");
    assert_eq!(server.digest(b"k"), digest);
}

#[test]
fn any_query_is_what_a_plain_list_says() {
    struct Recorded {
        seq: i64,
        kind: String,
        agent: Option<String>,
        entities: Vec<String>,
        moved: Option<(String, String)>,
    }
    for (seed, maxlen) in (0..12).map(|seed| (seed, [0, 0, 17][seed as usize % 3])) {
        let server = Server::with("session.compress-after", ["0", "1", "300"][seed as usize % 3]).start();
        let mut random = Random(seed);
        let mut one_of = |prefix: &str| format!("{prefix}{}", random.below(3));
        let mut state = String::from("working");
        let mut all: Vec<Recorded> = Vec::new();
        server.run(&format!("SESSION.CREATE k LIMIT event-maxlen {maxlen}"));
        let mut dice = Random(seed + 1000);
        for _ in 0..80 {
            if dice.below(4) == 0 {
                server.run("SESSION.APPEND k JSON {}");
                continue;
            }
            let kind = one_of("t");
            let agent = (dice.below(3) > 0).then(|| one_of("a"));
            let entities: Vec<String> = (0..dice.below(3)).map(|_| one_of("e")).collect();
            let moved = (dice.below(2) == 0).then(|| (state.clone(), one_of("s")));
            let mut line = format!("SESSION.EVENT ADD k {kind}");
            if let Some(agent) = &agent {
                line += &format!(" AGENT {agent}");
            }
            if !entities.is_empty() {
                line += &match dice.below(2) {
                    0 => format!(" ENTITIES {} {}", entities.len(), entities.join(" ")),
                    _ => format!(" CHANGE '{{\"entityIds\":[\"{}\"]}}'", entities.join("\",\"")),
                };
            }
            if let Some((_, to)) = &moved {
                line += &format!(" STATE {to}");
                state = to.clone();
            }
            let seq = int(&server.run(&line));
            all.push(Recorded {
                seq,
                kind,
                agent,
                entities,
                moved,
            });
            if maxlen > 0 && all.len() > maxlen {
                all.remove(0);
            }
        }
        for _ in 0..300 {
            let mut pick = |prefix: &str, most: usize| -> Vec<String> {
                let count = if dice.below(2) == 0 { 0 } else { dice.below(most + 1) };
                (0..count).map(|_| one_of(prefix)).collect()
            };
            let (kinds, agents, entities) = (pick("t", 2), pick("a", 2), pick("e", 2));
            let (from, to) = (pick("s", 1), pick("s", 1));
            let (start, stop) = (dice.below(90) as i64, dice.below(110) as i64);
            let mut query = format!("{start} {stop}");
            for (word, values) in [
                ("TYPE", &kinds),
                ("AGENT", &agents),
                ("ENTITY", &entities),
                ("FROM", &from),
                ("TO", &to),
            ] {
                values.iter().for_each(|value| query += &format!(" {word} {value}"));
            }
            let is_any = |wanted: &[String], value: Option<&String>| {
                wanted.is_empty() || value.is_some_and(|value| wanted.contains(value))
            };
            let mut expected: Vec<i64> = all
                .iter()
                .filter(|event| {
                    (start..=stop).contains(&event.seq)
                        && is_any(&kinds, Some(&event.kind))
                        && is_any(&agents, event.agent.as_ref())
                        && (entities.is_empty() || event.entities.iter().any(|id| entities.contains(id)))
                        && is_any(&from, event.moved.as_ref().map(|moved| &moved.0))
                        && is_any(&to, event.moved.as_ref().map(|moved| &moved.1))
                })
                .map(|event| event.seq)
                .collect();
            if dice.below(2) == 0 {
                query += " REV";
                expected.reverse();
            }
            if dice.below(2) == 0 {
                let count = dice.below(4);
                query += &format!(" COUNT {count}");
                expected.truncate(count);
            }
            assert_eq!(range(&server, &query), expected, "seed {seed}: {query}");
        }
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let server = Server::append_only().start();
    server.run("SESSION.EVENT ADD k pass STATE review");
    let refuse = |line: &str, error: &str| assert_refused(&server, &talk::split(line), error);
    for (line, error) in [
        ("SESSION.EVENT", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT BOGUS", "ERR unknown subcommand 'BOGUS'…"),
        ("SESSION.EVENT BOGUS k pass", "ERR unknown subcommand 'BOGUS'…"),
        ("SESSION.EVENT ADD", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT ADD k", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT RANGE k", "ERR wrong number of arguments for '…' command"),
        (
            "SESSION.EVENT RANGE k -",
            "ERR wrong number of arguments for '…' command",
        ),
        ("SESSION.EVENT LEN", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT LEN k k", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT HELP k", "ERR wrong number of arguments for '…' command"),
        ("SESSION.EVENT ADD k pass BOGUS", "ERR syntax error near 'BOGUS'"),
        ("SESSION.EVENT ADD k pass XX", "ERR syntax error near 'XX'"),
        ("SESSION.EVENT ADD k pass NOW 1000", "ERR syntax error near 'NOW'"),
        (
            "SESSION.EVENT ADD k pass EX 5 PXAT 4102444800000",
            "ERR syntax error near 'PXAT'",
        ),
        (
            "SESSION.EVENT ADD k pass IFSTATE a IFSTATE b",
            "ERR syntax error near 'IFSTATE'",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES 1 a ENTITIES 1 b",
            "ERR syntax error near 'ENTITIES'",
        ),
        (
            "SESSION.EVENT ADD k pass CHANGE {} CHANGE {}",
            "ERR syntax error near 'CHANGE'",
        ),
        (
            "SESSION.EVENT ADD k pass IMPACT {} impact {}",
            "ERR syntax error near 'impact'",
        ),
        (
            "SESSION.EVENT ADD k pass AGENT a AGENT a",
            "ERR syntax error near 'AGENT'",
        ),
        (
            "SESSION.EVENT ADD k pass STATE a STATE a",
            "ERR syntax error near 'STATE'",
        ),
        // Counts of values that are missing.
        (
            "SESSION.EVENT ADD k pass ENTITIES 1",
            "ERR syntax error near 'ENTITIES'",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES 3 a b",
            "ERR syntax error near 'ENTITIES'",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES 4294967295 a",
            "ERR syntax error near 'ENTITIES'",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES 4294967296 a",
            "ERR ENTITIES must be an integer from 0 to 4294967295",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES 18446744073709551615 a",
            "ERR ENTITIES must be an integer from 0 to 4294967295",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES -1 a",
            "ERR ENTITIES must be an integer from 0 to 4294967295",
        ),
        (
            "SESSION.EVENT ADD k pass ENTITIES a",
            "ERR ENTITIES must be an integer from 0 to 4294967295",
        ),
        ("SESSION.EVENT ADD k pass ENTITIES 1 a b", "ERR syntax error near 'b'"),
        ("SESSION.EVENT ADD k pass AT x", "ERR AT must be an integer from …"),
        ("SESSION.EVENT ADD k \"\"", "ERR type …"),
        ("SESSION.EVENT ADD k \"\\xff\"", "ERR type …"),
        ("SESSION.EVENT ADD absent \"a\\xc3\"", "ERR type …"),
        ("SESSION.EVENT ADD k pass ENTITIES 2 a \"\"", "ERR ENTITIES …"),
        (
            "SESSION.EVENT ADD k pass ENTITIES 2 a \"\\xed\\xa0\\x80\"",
            "ERR ENTITIES …",
        ),
    ] {
        refuse(line, error);
    }
    for option in [
        "AGENT",
        "CHANGE",
        "IMPACT",
        "IFSTATE",
        "STATE",
        "ENTITIES",
        "IFVERSION",
        "EX",
    ] {
        refuse(
            &format!("SESSION.EVENT ADD k pass {option}"),
            &format!("ERR syntax error near '{option}'"),
        );
    }
    let long = "x".repeat(65_537);
    let megabyte = "x".repeat(1 << 20);
    for option in ["AGENT", "IFSTATE", "STATE"] {
        refuse(
            &format!("SESSION.EVENT ADD k pass {option} \"\""),
            &format!("ERR {option} …"),
        );
        refuse(
            &format!("SESSION.EVENT ADD k pass {option} \"a\\xff\""),
            &format!("ERR {option} …"),
        );
        for (text, len) in [(&long, 65_537), (&megabyte, 1 << 20)] {
            let args = ["SESSION.EVENT", "ADD", "k", "pass", option, text];
            assert_refused(
                &server,
                &args,
                &format!("TOOLARGE {option} is {len} bytes, the limit is 65536"),
            );
        }
    }
    for (args, name) in [
        (vec!["SESSION.EVENT", "ADD", "k", &megabyte], "type"),
        (
            vec!["SESSION.EVENT", "ADD", "k", "pass", "ENTITIES", "2", "a", &megabyte],
            "ENTITIES",
        ),
        (vec!["SESSION.EVENT", "RANGE", "k", "-", "+", "TYPE", &megabyte], "TYPE"),
        (
            vec!["SESSION.EVENT", "RANGE", "k", "-", "+", "AGENT", &megabyte],
            "AGENT",
        ),
        (
            vec!["SESSION.EVENT", "RANGE", "k", "-", "+", "ENTITY", &megabyte],
            "ENTITY",
        ),
        (vec!["SESSION.EVENT", "RANGE", "k", "-", "+", "FROM", &megabyte], "FROM"),
        (vec!["SESSION.EVENT", "RANGE", "k", "-", "+", "TO", &megabyte], "TO"),
    ] {
        assert_refused(
            &server,
            &args,
            &format!("TOOLARGE {name} is 1048576 bytes, the limit is 65536"),
        );
    }
    let too_large = format!("{{\"x\":\"{}\"}}", "x".repeat((1 << 20) - 7));
    for option in ["CHANGE", "IMPACT"] {
        let args = ["SESSION.EVENT", "ADD", "k", "pass", option, &too_large];
        assert_refused(
            &server,
            &args,
            &format!("TOOLARGE {option} is 1048577 bytes, session.max-message-bytes is 1048576"),
        );
        for body in super::bad_input::malformed_bodies() {
            let args = [&b"SESSION.EVENT"[..], b"ADD", b"k", b"pass", option.as_bytes(), &body];
            assert_refused(&server, &args, &format!("ERR {option} is not a JSON object (…)"));
        }
    }
}

#[test]
fn what_is_odd_but_legal_is_kept() {
    let server = Server::append_only().start();
    server.run("SESSION.CREATE k LIMIT event-ttl 0");
    let longest = "é".repeat(32_768);
    let big = format!("{{\"x\":\"{}\"}}", "x".repeat((1 << 20) - 8));
    let add = |args: &[&str]| {
        let all = [&["SESSION.EVENT", "ADD", "k"], args].concat();
        int(&server.call(&all))
    };
    let find = |filter: &[&str]| {
        let all = [&["SESSION.EVENT", "RANGE", "k", "-", "+"], filter].concat();
        seqs_in(&server.call(&all))
    };
    assert_eq!(
        add(&[
            "a\0b\n",
            "AGENT",
            "\0",
            "ENTITIES",
            "1",
            "\u{1f600}\0",
            "STATE",
            "\u{2028}\r\n"
        ]),
        1
    );
    assert_eq!(
        add(&[&longest, "AGENT", &longest, "ENTITIES", "1", &longest, "STATE", &longest]),
        2
    );
    assert_eq!(add(&["big", "CHANGE", &big, "IMPACT", &big]), 3);
    assert_eq!(
        add(&[
            "surrogate",
            "CHANGE",
            r#" { "entityIds" : [ "\ud800" , "s" ] } "#,
            "STATE",
            "x"
        ]),
        4
    );
    // Any number is allowed.
    let ids: Vec<String> = (0..20_000).map(|n| format!("id{n}")).collect();
    let mut many = vec!["many", "ENTITIES", "20000"];
    many.extend(ids.iter().map(String::as_str));
    assert_eq!(add(&many), 5);
    let check = |server: &Server| {
        let find = |filter: &[&str]| {
            let all = [&["SESSION.EVENT", "RANGE", "k", "-", "+"], filter].concat();
            seqs_in(&server.call(&all))
        };
        assert_eq!(find(&["TYPE", "a\0b\n"]), [1]);
        assert_eq!(find(&["TYPE", "a"]), [0i64; 0]);
        assert_eq!(find(&["AGENT", "\0"]), [1]);
        assert_eq!(find(&["ENTITY", "\u{1f600}\0"]), [1]);
        assert_eq!(find(&["FROM", "\u{2028}\r\n", "TO", &longest]), [2]);
        assert_eq!(find(&["TYPE", &longest, "AGENT", &longest, "ENTITY", &longest]), [2]);
        assert_eq!(find(&["ENTITY", "s", "FROM", &longest, "TO", "x"]), [4]);
        assert_eq!(find(&["ENTITY", "id19999"]), [5]);
    };
    check(&server);
    let shown = items(&server.run("SESSION.EVENT RANGE k 1 4"));
    let first: serde_json::Value = serde_json::from_str(&text(&shown[0])).expect("JSON");
    assert_eq!(
        (&first["type"], &first["agentId"], &first["changeInfo"]["entityIds"]),
        (&"a\0b\n".into(), &"\0".into(), &serde_json::json!(["\u{1f600}\0"]))
    );
    assert!(text(&shown[2]).contains(&format!("\"changeInfo\":{big},\"impact\":{big}")));
    let before = server.snapshot();
    server.run("DEBUG RELOAD");
    assert!(server.snapshot() == before, "after a reload");
    check(&server);
    server.restart_with(&Options::default().hostile());
    assert!(server.snapshot() == before, "after a restart");
    check(&server);
    assert_eq!(find(&[]).len(), 5);
    // Binary keys are keys.
    for key in [&b""[..], b"\0", b"\xff\xfe", b"a\r\n{\"'}"] {
        assert_eq!(int(&server.call(&[&b"SESSION.EVENT"[..], b"ADD", key, b"pass"])), 1);
        assert_eq!(int(&server.call(&[&b"SESSION.EVENT"[..], b"LEN", key])), 1);
    }
}

#[test]
fn change_and_impact_are_nested_as_deep_as_json_may_be() {
    let server = Server::append_only().start();
    let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let check = |server: &Server| {
        for (query, expected) in [
            ("- +", &[1, 2, 3, 4][..]),
            ("- + TYPE deep127", &[1, 3]),
            ("- + AGENT a", &[1, 2, 3, 4]),
            // Found after nested values, and beside them.
            ("- + TO s126", &[]),
            ("- + TO s127", &[1, 3]),
            ("- + FROM s127", &[2, 4]),
            ("- + FROM s127 TO s128", &[2, 4]),
            ("- + ENTITY e", &[3, 4]),
            ("- + ENTITY e TO s128", &[4]),
        ] {
            assert_eq!(range(server, query), expected, "{query}");
        }
    };
    for entities in ["", "ENTITIES 1 e"] {
        for depth in [127, 128] {
            let nested = deep(depth);
            server.run(&format!(
                "SESSION.EVENT ADD k deep{depth} AGENT a CHANGE '{nested}' IMPACT '{nested}' STATE s{depth} {entities}"
            ));
        }
    }
    let shown = items(&server.run("SESSION.EVENT RANGE k - +"));
    let nested = deep(128);
    assert!(text(&shown[1]).contains(&format!(r#""changeInfo":{nested},"impact":{nested}"#)));
    let members = &nested[1..nested.len() - 1];
    assert!(text(&shown[3]).contains(&format!(
        r#""changeInfo":{{"entityIds":["e"],{members}}},"impact":{nested}"#
    )));
    check(&server);
    let before = server.snapshot();
    server.run("DEBUG RELOAD");
    assert!(server.snapshot() == before, "after a reload");
    check(&server);
    for option in ["CHANGE", "IMPACT"] {
        let line = format!("SESSION.EVENT ADD k pass {option} '{}'", deep(129));
        assert_refused(
            &server,
            &talk::split(&line),
            &format!("ERR {option} is not a JSON object (…)"),
        );
    }
}

#[test]
fn an_event_is_one_version_and_breaks_a_watch() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let mut watcher = server.client();
    for (act, breaks) in [
        ("SESSION.EVENT ADD k pass", true),
        ("SESSION.EVENT ADD k pass STATE working", true),
        ("SESSION.EVENT ADD k pass IFSTATE review", false),
        ("SESSION.EVENT RANGE k - +", false),
        ("SESSION.EVENT LEN k", false),
    ] {
        let version = server.version_of("k");
        watcher.run("WATCH k");
        server.attempt(act);
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC") == "(nil)", breaks, "{act}");
        assert_eq!(server.version_of("k"), version + i64::from(breaks), "{act}");
    }
}

#[test]
fn events_notify() {
    let server = Server::with("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    subscriber.run("PSUBSCRIBE __keyevent@0__:*");
    for (command, expected) in [
        ("SESSION.EVENT ADD k pass", &["create", "event"][..]),
        ("SESSION.EVENT ADD k pass STATE review", &["event"]),
        ("SESSION.EVENT ADD k pass IFSTATE working", &[]),
        ("SESSION.EVENT RANGE k - +", &[]),
        ("SESSION.EVENT LEN k", &[]),
        ("SESSION.EVENT ADD k pass LEASE 1", &[]),
    ] {
        server.attempt(command);
        server.run("PUBLISH __keyevent@0__:end end");
        let mut seen = Vec::new();
        loop {
            let message = items(&subscriber.receive());
            match text(&message[2]).strip_prefix("__keyevent@0__:").expect("an event") {
                "end" => break,
                event => seen.push(event.strip_prefix("session.").expect("a session's event").to_string()),
            }
            assert_eq!(text(&message[3]), "k");
        }
        assert_eq!(seen, expected, "{command}");
    }
}

#[test]
fn access_goes_by_subcommand() {
    let server = Server::start();
    user(&server, "~* +session.event|add").conversation(
        r#"
        > SESSION.EVENT ADD k pass
        (integer) 1
        > SESSION.EVENT RANGE k - +
        (error) NOPERM …
        > SESSION.EVENT LEN k
        (error) NOPERM …
        "#,
    );
    user(&server, "~session:* %R~k +session.event").conversation(
        r#"
        > SESSION.EVENT ADD session:1 INDEX AGENT STORE
        (integer) 1
        > SESSION.EVENT RANGE k - +
        1) …
        > SESSION.EVENT LEN k
        (integer) 1
        > SESSION.EVENT ADD k pass
        (error) NOPERM …
        > SESSION.EVENT RANGE other - +
        (error) NOPERM …
        > SESSION.EVENT ADD other session:1
        (error) NOPERM …
        "#,
    );
    user(&server, "~* +@all -session.event|add").conversation(
        r#"
        > SESSION.EVENT LEN k
        (integer) 1
        > SESSION.EVENT ADD k pass
        (error) NOPERM …
        "#,
    );
    if server.flavor().has_module_acl_categories() {
        user(&server, "~* +@read").conversation(
            r#"
            > SESSION.EVENT LEN k
            (integer) 1
            > SESSION.EVENT RANGE k - +
            1) …
            > SESSION.EVENT ADD k pass
            (error) NOPERM …
            "#,
        );
        user(&server, "~* +@write").conversation(
            r#"
            > SESSION.EVENT ADD k pass
            (integer) 2
            > SESSION.EVENT RANGE k - +
            (error) NOPERM …
            "#,
        );
    }
    if server.flavor().has_own_acl_category() {
        let mut client = user(&server, "~* +@session");
        client.run("SESSION.EVENT ADD k pass");
        client.run("SESSION.EVENT LEN k");
    }
}

/// Returns the subcommand's part of `COMMAND DOCS`.
fn docs_of(server: &Server, subcommand: &str) -> Value {
    let docs = items(&server.run("COMMAND DOCS SESSION.EVENT"))[1].clone();
    for field in ["summary", "since", "complexity", "group"] {
        assert!(!text(&entry(&docs, field)).is_empty(), "{field} of the group");
    }
    // Servers show a module's command in the case that it was registered in.
    let subcommands = items(&entry(&docs, "subcommands"));
    let name = format!("session.event|{subcommand}");
    let found = subcommands
        .chunks(2)
        .find(|pair| text(&pair[0]).eq_ignore_ascii_case(&name));
    found.unwrap_or_else(|| panic!("no {name}"))[1].clone()
}

#[test]
fn the_server_knows_the_subcommands() {
    let server = Server::start();
    let w = "IFVERSION LEASE AT EX PX PXAT PERSIST KEEPTTL";
    for (name, tokens) in [
        ("add", format!("AGENT ENTITIES CHANGE IMPACT IFSTATE STATE {w}")),
        ("range", "REV COUNT TYPE AGENT ENTITY FROM TO".into()),
        ("len", String::new()),
    ] {
        let docs = docs_of(&server, name);
        for field in ["summary", "since", "complexity", "group"] {
            assert!(!text(&entry(&docs, field)).is_empty(), "{field} of {name}");
        }
        let mut told = BTreeSet::new();
        collect_tokens(&entry(&docs, "arguments"), &mut told);
        let expected: BTreeSet<String> = tokens.split_whitespace().map(String::from).collect();
        assert_eq!(told, expected, "{name}");
    }
    docs_of(&server, "help");
    for (name, has, has_not) in [
        ("add", "write denyoom fast", "readonly"),
        ("range", "readonly", "write denyoom fast"),
        ("len", "readonly fast", "write denyoom"),
    ] {
        let reply = items(&server.run(&format!("COMMAND INFO session.event|{name}")));
        let info = items(&reply[0]);
        let flags: BTreeSet<String> = items(&info[2]).iter().map(text).collect();
        assert!(has.split(' ').all(|flag| flags.contains(flag)), "{name}: {flags:?}");
        assert!(
            !has_not.split(' ').any(|flag| flags.contains(flag)),
            "{name}: {flags:?}"
        );
        let keys: Vec<i64> = info[3..6].iter().map(int).collect();
        assert_eq!(keys, [2, 2, 1], "first, last, step of {name}");
    }
    for command in [
        "SESSION.EVENT ADD k STORE",
        "SESSION.EVENT ADD k pass AGENT INDEX ENTITIES 2 STORE INDEX CHANGE '{\"a\":\"STORE\"}' STATE STORE",
        "SESSION.EVENT RANGE k - + TYPE STORE ENTITY INDEX",
        "SESSION.EVENT LEN k",
    ] {
        assert_eq!(
            server.say(&format!("COMMAND GETKEYS {command}")),
            r#"1) "k""#,
            "{command}"
        );
    }
    let help: Vec<String> = items(&server.run("SESSION.EVENT HELP")).iter().map(text).collect();
    for subcommand in ["ADD key type", "RANGE key start stop", "LEN key", "HELP"] {
        assert!(
            help.iter().any(|line| line.starts_with(subcommand)),
            "{subcommand} in {help:#?}"
        );
    }
    assert!(server
        .say("EVAL \"return redis.call('SESSION.EVENT', 'HELP')\" 0")
        .contains("ADD"));
}

#[test]
fn out_of_memory_refuses_an_event_and_allows_the_reads() {
    let server = Server::start();
    server.run("SESSION.EVENT ADD k pass");
    server.run("CONFIG SET maxmemory 1 maxmemory-policy noeviction");
    assert!(server.say("SESSION.EVENT ADD k pass").starts_with("(error) OOM "));
    server.run("SESSION.EVENT RANGE k - +");
    server.run("SESSION.EVENT LEN k");
}

#[test]
fn a_replica_reads_events_and_records_none() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    varied(&primary);
    replica.wait_for(&primary);
    for query in [
        "- +",
        "- + TYPE pass AGENT a",
        "- + FROM working TO broken REV",
        "- + ENTITY e2 COUNT 2",
    ] {
        let command = format!("SESSION.EVENT RANGE k {query}");
        assert_eq!(replica.say(&command), primary.say(&command));
    }
    assert!(replica.say("SESSION.EVENT ADD k pass").starts_with("(error) READONLY "));
    // After promotion it continues where the primary was.
    replica.run("REPLICAOF NO ONE");
    replica.conversation(
        r#"
        > SESSION.EVENT ADD k pass IFSTATE broken
        (error) STATECONFLICT session is in state 'working', not 'broken'
        > SESSION.EVENT ADD k pass IFSTATE working
        (integer) 9
        "#,
    );
}

#[test]
fn transactions_and_scripts_record() {
    Server::start().conversation(
        r#"
        > MULTI
        OK
        > SESSION.EVENT ADD k pass STATE review
        QUEUED
        > SESSION.EVENT ADD k pass IFSTATE working
        QUEUED
        > SESSION.EVENT LEN k
        QUEUED
        > EXEC
        1) (integer) 1
        2) (error) STATECONFLICT session is in state 'review', not 'working'
        3) (integer) 1
        > EVAL "return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass', 'ENTITIES', 1, 'e')" 1 k
        (integer) 2
        > EVAL "return redis.call('SESSION.EVENT', 'RANGE', KEYS[1], '-', '+', 'ENTITY', 'e')" 1 k
        1) '{"seq":2,…}'
        > EVAL "return redis.pcall('SESSION.EVENT', 'ADD', KEYS[1], 'pass', 'IFSTATE', 'working')" 1 k
        (error) STATECONFLICT session is in state 'review', not 'working'
        > EVAL_RO "return redis.call('SESSION.EVENT', 'LEN', KEYS[1])" 1 k
        (integer) 2
        > EVAL_RO "return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass')" 1 k
        (error) …
        "#,
    );
}
