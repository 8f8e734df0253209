//! Directories: `SESSION.INDEX`, and `SESSION.CREATE … INDEX`.

use std::sync::Barrier;

use redis_session_tests::payload::Random;
use redis_session_tests::{
    bytes, entry, int, items, now_ms, oracle, talk, text, wait_until, Client, Cluster, Options, Server,
};
use serde_json::{json, Value as Json};

/// Returns the id of the session with this number.
fn id(number: u32) -> String {
    format!("0190a8b4-6d2e-7c3a-9f10-{number:012}")
}

/// Makes sessions at `s1`, `s2`, … with the aliases `a1`, `a2`, …, registered in `i`, created in this order.
fn register(server: &Server, count: u32) {
    for n in 1..=count {
        server.run(&format!(
            "SESSION.CREATE s{n} INDEX i ALIAS a{n} ID {} AT {n}000",
            id(n)
        ));
    }
}

/// Returns what `LIST` shows, parsed.
fn list(client: &mut Client, options: &str) -> Vec<Json> {
    items(&client.run(&format!("SESSION.INDEX LIST {options}")))
        .iter()
        .map(|shown| serde_json::from_slice(&bytes(shown)).expect("JSON"))
        .collect()
}

/// Returns the keys that `LIST` shows.
fn keys(server: &Server, options: &str) -> Vec<String> {
    let listed = list(&mut server.client(), options);
    let key = |shown: &Json| shown["key"].as_str().expect("a key").to_owned();
    listed.iter().map(key).collect()
}

/// Returns the key that an alias or an id resolves to.
fn resolve(server: &Server, alias_or_id: &str) -> Option<String> {
    match server.call(&["SESSION.INDEX", "RESOLVE", "i", alias_or_id]) {
        redis_session_tests::Value::Nil => None,
        found => Some(text(&entry(&found, "key"))),
    }
}

#[test]
fn a_session_is_found_by_its_alias_and_by_its_id() {
    let server = Server::start();
    let id = id(1);
    server.conversation(&format!(
        r#"
        > SESSION.CREATE session:1 INDEX sessions ALIAS "münchen 2" ID {id}
        1) "id"
        2) "{id}"
        3) "key"
        4) "session:1"
        5) "created"
        6) (integer) 1
        > TYPE sessions
        rdsessidx
        > SESSION.INDEX RESOLVE sessions "münchen 2"
        1) "id"
        2) "{id}"
        3) "key"
        4) "session:1"
        5) "alias"
        6) "münchen 2"
        > SESSION.INDEX RESOLVE sessions {upper}
        1) "id"
        2) "{id}"
        …
        > session.index resolve sessions "MÜNCHEN 2"
        (nil)
        > SESSION.INDEX RESOLVE sessions 0190a8b4-6d2e-7c3a-9f10-000000000009
        (nil)
        > SESSION.INDEX RESOLVE sessions ""
        (nil)
        > SESSION.INDEX RESOLVE sessions a/b
        (nil)
        > SESSION.INDEX LEN sessions
        (integer) 1
        > SESSION.CREATE session:2 INDEX sessions
        …
        > SESSION.INDEX LEN sessions
        (integer) 2
        # of what is missing
        > SESSION.INDEX RESOLVE absent x
        (nil)
        > SESSION.INDEX LIST absent
        (empty array)
        > SESSION.INDEX LEN absent
        (integer) 0
        "#,
        upper = id.to_uppercase()
    ));
    assert_eq!(server.document("session:1")["alias"], "münchen 2");
    assert_eq!(server.document("session:2")["alias"], Json::Null);
    assert_eq!(server.version_of("session:1"), 1);
    let unnamed = text(&server.info_of("session:2", "session_id"));
    server.client().resp3().conversation(&format!(
        r#"
        > SESSION.INDEX RESOLVE sessions {unnamed}
        1# "id" => "{unnamed}"
        2# "key" => "session:2"
        3# "alias" => (nil)
        "#
    ));
}

#[test]
fn open_or_create_by_alias_is_one_step() {
    let server = Server::append_only().start();
    register(&server, 2);
    let before = server.snapshot();
    let propagated = server.propagated_by(|server| {
        // The alias is looked up before the key, which may be missing, of another session or of another type.
        server.run("SET string x");
        for key in ["new", "s1", "s2", "string"] {
            server.conversation(&format!(
                r#"
                > SESSION.CREATE {key} INDEX i ALIAS a1 OPEN STATE other
                1) "id"
                2) "{}"
                3) "key"
                4) "s1"
                5) "created"
                6) (integer) 0
                > SESSION.CREATE {key} INDEX i ALIAS a1
                (error) ALIASINUSE alias 'a1' belongs to {}
                "#,
                id(1),
                id(1)
            ));
        }
        server.conversation(&format!(
            r#"
            # A free alias and a key that is not: as without an alias.
            > SESSION.CREATE s2 INDEX i ALIAS free
            (error) BUSYKEY …
            > SESSION.CREATE s2 INDEX i ALIAS free OPEN
            1) "id"
            2) "{two}"
            3) "key"
            4) "s2"
            5) "created"
            6) (integer) 0
            > SESSION.CREATE string INDEX i ALIAS free OPEN
            (error) WRONGTYPE …
            # An id is of one session.
            > SESSION.CREATE new INDEX i ALIAS free ID {two}
            (error) BUSYKEY session {two} exists at key 's2'
            > SESSION.CREATE new INDEX i ID {upper} OPEN
            1) "id"
            2) "{two}"
            3) "key"
            4) "s2"
            5) "created"
            6) (integer) 0
            # Guards are those of the session that is opened.
            > SESSION.CREATE new INDEX i ALIAS a1 OPEN IFVERSION 0
            (error) VERSIONCONFLICT session is at version 1, not 0
            > SESSION.CREATE new INDEX i ALIAS a1 OPEN LEASE 7
            (error) LEASELOST token 7 is stale
            > SESSION.CREATE new INDEX i ALIAS a1 OPEN IFVERSION 1
            …
            > SESSION.CREATE new INDEX i ALIAS free IFVERSION 3
            (error) VERSIONCONFLICT session is at version 0, not 3
            > SESSION.INDEX RESOLVE i free
            (nil)
            > DEL string
            (integer) 1
            "#,
            two = id(2),
            upper = id(2).to_uppercase()
        ));
    });
    assert_eq!(propagated.len(), 2, "SET and DEL: {propagated:?}");
    oracle::assert_same("after opening what is there", &before, &server.snapshot());
    server.conversation(
        r#"
        > SESSION.CREATE new INDEX i ALIAS free OPEN AT 3000
        1) "id"
        2) …
        3) "key"
        4) "new"
        5) "created"
        6) (integer) 1
        "#,
    );
    assert_eq!(keys(&server, "i"), ["new", "s2", "s1"]);
}

#[test]
fn a_thousand_clients_open_one_alias_and_one_session_is_created() {
    const CLIENTS: usize = 50;
    const EACH: usize = 20;
    let server = Server::start();
    let barrier = Barrier::new(CLIENTS);
    let opened: Vec<(String, String, i64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (server, barrier) = (&server, &barrier);
                scope.spawn(move || {
                    let mut connections: Vec<Client> = (0..EACH).map(|_| server.client()).collect();
                    barrier.wait();
                    for (n, connection) in connections.iter_mut().enumerate() {
                        let key = format!("session:{client}-{n}");
                        connection.send(&["SESSION.CREATE", &key, "INDEX", "i", "ALIAS", "billing", "OPEN"]);
                    }
                    let reply = |connection: &mut Client| {
                        let reply = connection.receive();
                        let text_of = |name: &str| text(&entry(&reply, name));
                        (text_of("id"), text_of("key"), int(&entry(&reply, "created")))
                    };
                    connections.iter_mut().map(reply).collect::<Vec<_>>()
                })
            })
            .collect();
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| thread.join().expect("a client that is answered");
        threads.into_iter().flat_map(join).collect()
    });
    assert_eq!(opened.len(), 1000);
    let (id, key, _) = &opened[0];
    assert!(opened.iter().all(|(its, at, _)| its == id && at == key));
    assert_eq!(opened.iter().filter(|(.., created)| *created == 1).count(), 1);
    assert_eq!(server.say("DBSIZE"), "(integer) 2");
    assert_eq!(server.info_number("session", "session_active_sessions"), 1);
    assert_eq!(server.say("SESSION.INDEX LEN i"), "(integer) 1");
}

#[test]
fn an_alias_that_is_none_is_refused_by_its_rule() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let before = server.snapshot();
    for (alias, rule) in [
        (&b""[..], "an alias has 1 to 255 bytes, not 0"),
        (&[b'x'; 256], "an alias has 1 to 255 bytes, not 256"),
        (b"\xff", "an alias is UTF-8 text"),
        (b"a/b", "an alias holds no '/'"),
        (b"a\\b", "an alias holds no '\\'"),
        (b"a\0b", "an alias holds no NUL"),
        (b"a\nb", "an alias holds no control characters, as U+000A is"),
        (b"\x7f", "an alias holds no control characters, as U+007F is"),
        (
            "\u{85}".as_bytes(),
            "an alias holds no control characters, as U+0085 is",
        ),
        (b".", "an alias is neither '.' nor '..'"),
        (b"..", "an alias is neither '.' nor '..'"),
        (b" a", "an alias has no space at either end"),
        (b"a ", "an alias has no space at either end"),
        (
            b"0190a8b4-6d2e-7c3a-9f10-123456789abc",
            "an alias is not shaped like a UUID",
        ),
        (
            b"0190A8B4-6D2E-7C3A-9F10-123456789ABC",
            "an alias is not shaped like a UUID",
        ),
    ] {
        let expected = format!("(error) BADALIAS {rule}");
        for command in [
            &[&b"SESSION.CREATE"[..], b"new", b"INDEX", b"i", b"ALIAS", alias][..],
            &[
                b"SESSION.CREATE",
                b"new",
                b"ALIAS",
                alias,
                b"AUTONAME",
                b"INDEX",
                b"i",
                b"OPEN",
            ],
            &[b"SESSION.INDEX", b"ADD", b"i", b"k", b"ALIAS", alias],
            // Before any key is opened.
            &[b"SESSION.INDEX", b"ADD", b"i", b"absent", b"ALIAS", alias],
        ] {
            assert_eq!(talk::render(&server.call(command)), expected, "{}", talk::quote(alias));
        }
    }
    oracle::assert_same("after refusals", &before, &server.snapshot());
    for alias in [
        &[b'x'; 255][..],
        b"...",
        b"a b",
        "日本".as_bytes(),
        b"0190a8b4-6d2e",
        b"ALIAS",
        b"AUTONAME",
    ] {
        assert_eq!(
            int(&server.call(&[&b"SESSION.INDEX"[..], b"ADD", b"i", b"k", b"ALIAS", alias])),
            i64::from(alias.len() == 255)
        );
        assert_eq!(
            resolve(&server, std::str::from_utf8(alias).expect("text")).as_deref(),
            Some("k")
        );
    }
}

#[test]
fn the_grammar_of_the_directory_is_kept() {
    let server = Server::start();
    server.run("SESSION.CREATE s");
    server.run("SET string x");
    server.conversation(
        r#"
        > SESSION.CREATE k ALIAS home
        (error) ERR syntax error near 'ALIAS'
        > SESSION.CREATE k OPEN ALIAS home AUTONAME
        (error) ERR syntax error near 'ALIAS'
        > SESSION.CREATE k INDEX
        (error) ERR syntax error near 'INDEX'
        > SESSION.CREATE k INDEX i INDEX i
        (error) ERR syntax error near 'INDEX'
        > SESSION.CREATE k INDEX i ALIAS
        (error) ERR syntax error near 'ALIAS'
        > SESSION.CREATE k INDEX i ALIAS a ALIAS a
        (error) ERR syntax error near 'ALIAS'
        > SESSION.CREATE k INDEX i AUTONAME
        (error) ERR syntax error near 'AUTONAME'
        > SESSION.CREATE k INDEX i ALIAS a OPEN AUTONAME
        (error) ERR syntax error near 'AUTONAME'
        > SESSION.CREATE k INDEX k
        (error) ERR INDEX must be another key than the session's
        > SESSION.INDEX ADD i s ALIAS
        (error) ERR syntax error near 'ALIAS'
        > SESSION.INDEX ADD i s AUTONAME
        (error) ERR syntax error near 'AUTONAME'
        > SESSION.INDEX ADD i s ALIAS a OPEN
        (error) ERR syntax error near 'OPEN'
        > SESSION.INDEX ADD i s ALIAS a KEEPTTL
        (error) ERR syntax error near 'KEEPTTL'
        > SESSION.INDEX ADD i
        (error) ERR wrong number of arguments for '…' command
        > SESSION.INDEX LEN i i
        (error) ERR wrong number of arguments for '…' command
        > SESSION.INDEX RESOLVE i
        (error) ERR wrong number of arguments for '…' command
        > SESSION.INDEX LIST i MATCH
        (error) ERR syntax error near 'MATCH'
        > SESSION.INDEX LIST i MATCH a MATCH b
        (error) ERR syntax error near 'MATCH'
        > SESSION.INDEX LIST i LIMIT 0
        (error) ERR syntax error near 'LIMIT'
        > SESSION.INDEX LIST i LIMIT -1 5
        (error) ERR LIMIT offset must be an integer from 0 to …
        > SESSION.INDEX LIST i LIMIT 0 x
        (error) ERR LIMIT count must be an integer from …
        > SESSION.INDEX LIST i BYACTIVITY BYACTIVITY
        (error) ERR syntax error near 'BYACTIVITY'
        > SESSION.INDEX LIST i REV
        (error) ERR syntax error near 'REV'
        > SESSION.INDEX BOGUS i
        (error) ERR unknown subcommand …
        # what only a primary says
        > SESSION.CREATE k INDEX i PRUNED 0
        (error) ERR syntax error near 'PRUNED'
        > SESSION.INDEX ADD i s PRUNED 1 0190a8b4-6d2e-7c3a-9f10-123456789abc
        (error) ERR syntax error near 'PRUNED'
        # types, then existence
        > SESSION.INDEX ADD s s
        (error) WRONGTYPE …
        > SESSION.INDEX ADD string s
        (error) WRONGTYPE …
        > SESSION.INDEX ADD i string
        (error) WRONGTYPE …
        > SESSION.INDEX ADD string absent
        (error) WRONGTYPE …
        > SESSION.INDEX ADD i absent
        (error) NOSESSION no session at key 'absent'
        > SESSION.INDEX ADD absent absent
        (error) NOSESSION no session at key 'absent'
        > SESSION.CREATE k INDEX s
        (error) WRONGTYPE …
        > SESSION.CREATE k INDEX string OPEN
        (error) WRONGTYPE …
        > SESSION.CREATE string INDEX i OPEN
        (error) WRONGTYPE …
        > SESSION.INDEX RESOLVE s x
        (error) WRONGTYPE …
        > SESSION.INDEX LIST string
        (error) WRONGTYPE …
        > SESSION.INDEX LEN s
        (error) WRONGTYPE …
        > EXISTS i k absent
        (integer) 0
        > SESSION.INDEX HELP
         1) SESSION.INDEX <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
         2) RESOLVE index alias-or-id
        …
        > SESSION.INDEX ADD i s
        (integer) 1
        # a directory is no session
        > SESSION.APPEND i MSG user hi
        (error) WRONGTYPE …
        > SESSION.GET i
        (error) WRONGTYPE …
        > SESSION.INDEX ADD i i
        (error) WRONGTYPE …
        > SESSION.LOAD i x
        (error) ERR SESSION.LOAD is for a primary and for append-only files only
        "#,
    );
}

#[test]
fn sessions_are_listed_newest_created_first() {
    let server = Server::start();
    for (key, created, alias) in [
        ("old", 1000, "ALIAS old"),
        ("new", 3000, "ALIAS new AUTONAME"),
        ("mid", 2000, ""),
        ("equal", 2000, "ALIAS middle"),
    ] {
        server.run(&format!("SESSION.CREATE {key} INDEX i {alias} AT {created}"));
    }
    assert_eq!(keys(&server, "i"), ["new", "equal", "mid", "old"]);
    for (options, shown) in [
        ("LIMIT 0 2", &["new", "equal"][..]),
        ("limit 1 2", &["equal", "mid"]),
        ("LIMIT 3 -1", &["old"]),
        ("LIMIT 0 -1", &["new", "equal", "mid", "old"]),
        ("LIMIT 4 5", &[]),
        ("LIMIT 0 0", &[]),
        ("MATCH m*", &["equal"]),
        ("MATCH *d*", &["equal", "old"]),
        ("MATCH *", &["new", "equal", "mid", "old"]),
        ("MATCH ?*", &["new", "equal", "old"]),
        ("MATCH \"\"", &["mid"]),
        ("MATCH O*", &[]),
        ("MATCH *d* LIMIT 1 1", &["old"]),
        ("MATCH \\xff", &[]),
    ] {
        assert_eq!(keys(&server, &format!("i {options}")), shown, "{options}");
    }
    // Recency is read from the sessions; the directory stores none.
    for key in ["mid", "new", "old", "equal"] {
        let start = now_ms();
        wait_until("the clock ticks", || now_ms() > start + 1);
        server.run(&format!("SESSION.APPEND {key} MSG user hi"));
    }
    for (options, shown) in [
        ("BYACTIVITY", &["equal", "old", "new", "mid"][..]),
        ("LIMIT 1 2 byactivity", &["old", "new"]),
        ("BYACTIVITY MATCH *e*", &["equal", "new"]),
        ("BYACTIVITY LIMIT 4 1", &[]),
        ("BYACTIVITY LIMIT 0 -7", &["equal", "old", "new", "mid"]),
    ] {
        assert_eq!(keys(&server, &format!("i {options}")), shown, "{options}");
    }
    assert_eq!(keys(&server, "i"), ["new", "equal", "mid", "old"]);
}

#[test]
fn what_a_list_shows_is_the_sessions_state_of_now() {
    let server = Server::start();
    server.run(&format!(
        "SESSION.CREATE k INDEX i ALIAS home AUTONAME ID {} AT 1768384800000",
        id(1)
    ));
    server.run("SESSION.APPEND k JSON {} {} {}");
    server.run("SESSION.EVENT ADD k pass STATE review");
    let last_activity = server.document("k")["last_activity"].clone();
    let shown = text(&items(&server.run("SESSION.INDEX LIST i"))[0]);
    assert_eq!(
        shown,
        format!(
            r#"{{"id":"{}","key":"k","alias":"home","autoname":true,"created_at":"2026-01-14T10:00:00.000Z","last_activity":{last_activity},"state":"review","message_count":3}}"#,
            id(1)
        )
    );
    // A name given later is not marked as made up.
    assert_eq!(server.say("SESSION.INDEX ADD i k ALIAS home"), "(integer) 0");
    assert_eq!(list(&mut server.client(), "i")[0]["autoname"], false);
    let key = b"k\xff\0";
    server.call(&[&b"SESSION.CREATE"[..], key, b"INDEX", b"i"]);
    let listed = list(&mut server.client(), "i LIMIT 0 1");
    assert_eq!(
        (&listed[0]["key"], &listed[0]["alias"], &listed[0]["autoname"]),
        (&json!("k\u{fffd}\0"), &Json::Null, &json!(false))
    );
    let id = listed[0]["id"].as_str().expect("an id");
    let resolved = server.run(&format!("SESSION.INDEX RESOLVE i {id}"));
    assert_eq!(bytes(&entry(&resolved, "key")), key, "to the byte");
}

#[test]
fn adding_registers_renames_and_moves() {
    let server = Server::append_only().start();
    for n in 1..=2 {
        server.run(&format!("SESSION.CREATE s{n} ID {} AT {n}000", id(n)));
        server.run(&format!("SESSION.APPEND s{n} MSG user hi"));
    }
    let (version, expiry) = (server.version_of("s1"), server.expires_at_ms(b"s1"));
    let conversation = format!(
        r#"
        > SESSION.INDEX ADD i s1
        (integer) 1
        > SESSION.INDEX ADD i s1 ALIAS one
        (integer) 0
        > SESSION.INDEX ADD i s2 ALIAS one
        (error) ALIASINUSE alias 'one' belongs to {one}
        > SESSION.INDEX ADD i s2 ALIAS two AUTONAME
        (integer) 1
        > SESSION.INDEX ADD i s1 ALIAS two
        (error) ALIASINUSE alias 'two' belongs to {two}
        # another name frees the first
        > SESSION.INDEX ADD i s1 ALIAS uno
        (integer) 0
        > SESSION.INDEX RESOLVE i one
        (nil)
        > SESSION.INDEX ADD i s2 ALIAS one
        (integer) 0
        > SESSION.INDEX RESOLVE i two
        (nil)
        # without a name the one it has stays
        > SESSION.INDEX ADD i s2
        (integer) 0
        > SESSION.INDEX RESOLVE i one
        1) "id"
        2) "{two}"
        …
        # a renamed session is gone until it is added again, with its alias
        > RENAME s2 moved
        OK
        > SESSION.INDEX RESOLVE i one
        (nil)
        > SESSION.INDEX RESOLVE i {two}
        (nil)
        > SESSION.INDEX ADD i moved
        (integer) 0
        > SESSION.INDEX RESOLVE i one
        1) "id"
        2) "{two}"
        3) "key"
        4) "moved"
        …
        > SESSION.INDEX LEN i
        (integer) 2
        # a session may be in two directories
        > SESSION.INDEX ADD j moved ALIAS uno
        (integer) 1
        > SESSION.INDEX RESOLVE i one
        …
        "#,
        one = id(1),
        two = id(2)
    );
    server.conversation(&conversation);
    assert_eq!(
        (server.version_of("s1"), server.expires_at_ms(b"s1")),
        (version, expiry)
    );
    assert_eq!(server.document("s1")["alias"], "uno");
    assert_eq!(server.document("moved")["alias"], "uno");

    // Neither a lease nor an id shared with a copy prevents naming a session.
    server.run("SESSION.AGENT LEASE s1 a 100000");
    server.run("SESSION.INDEX ADD i s1 ALIAS leased");
    server.run("COPY s1 copy");
    assert_eq!(keys(&server, "i"), ["moved", "s1"], "a copy is not registered");
    assert_eq!(server.say("SESSION.INDEX ADD i copy"), "(integer) 0");
    assert_eq!(keys(&server, "i"), ["moved", "copy"], "one session, one entry");
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after a restart", &before, &server.snapshot());
}

#[test]
fn adding_what_is_registered_leaves_no_trace() {
    let server = Server::append_only().config("notify-keyspace-events", "KEAd").start();
    register(&server, 2);
    let before = server.snapshot();
    let mut watcher = server.client();
    watcher.run("WATCH i s1");
    let propagated = server.propagated_by(|server| {
        for command in ["SESSION.INDEX ADD i s1", "SESSION.INDEX ADD i s1 ALIAS a1"] {
            assert_eq!(server.say(command), "(integer) 0");
        }
        for reading in ["RESOLVE i a1", "LIST i", "LIST i BYACTIVITY", "LEN i", "HELP"] {
            server.run(&format!("SESSION.INDEX {reading}"));
        }
    });
    assert!(propagated.is_empty(), "{propagated:?}");
    watcher.run("MULTI");
    watcher.run("PING");
    assert_eq!(watcher.say("EXEC"), "1) PONG");
    oracle::assert_same("after nothing", &before, &server.snapshot());
    // Changes break a WATCH: on the directory, and on a session whose name changes.
    for (watched, command) in [
        ("i", "SESSION.INDEX ADD i s1 ALIAS b1"),
        ("s1", "SESSION.INDEX ADD i s1 ALIAS c1"),
        ("i", "SESSION.CREATE s3 INDEX i"),
        ("i", "SESSION.INDEX ADD i s1 ALIAS c1 AUTONAME"),
    ] {
        watcher.run(&format!("WATCH {watched}"));
        server.run(command);
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.say("EXEC"), "(nil)", "{command}");
    }
}

#[test]
fn an_alias_frees_itself_when_its_session_goes() {
    let server = Server::with("maxmemory-policy", "allkeys-lru").start();
    // No background task removes expired entries.
    server.run("DEBUG SET-ACTIVE-EXPIRE 0");
    for end in [
        &["DEL s1"][..],
        &["UNLINK s1"],
        &["PEXPIRE s1 1"],
        &["SESSION.APPEND s1 PX 1 MSG user hi"],
        &["PEXPIREAT s1 1"],
        &["RENAME s1 other"],
        &["SET s1 x"],
        &["MOVE s1 1"],
        &["RENAME s2 s1"],
        &["DEL s1", "SESSION.CREATE s1"],
    ] {
        server.run("FLUSHALL");
        register(&server, 2);
        for command in end {
            server.run(command);
        }
        wait_until("the session goes", || resolve(&server, "a1").is_none());
        assert_eq!(resolve(&server, &id(1)), None, "{end:?}");
        assert!(!keys(&server, "i").contains(&"s1".to_owned()), "{end:?}");
        assert_eq!(
            int(&server.run("SESSION.INDEX LEN i")),
            keys(&server, "i").len() as i64,
            "{end:?}"
        );
        server.run("SESSION.CREATE s3 INDEX i ALIAS a1");
        assert_eq!(resolve(&server, "a1").as_deref(), Some("s3"), "{end:?}");
        // A new session with the same id does not get the old name.
        server.run("DEL s3");
        server.run(&format!("SESSION.CREATE s4 INDEX i ID {}", id(1)));
        assert_eq!(resolve(&server, "a1"), None, "{end:?}");
        assert_eq!(resolve(&server, &id(1)).as_deref(), Some("s4"), "{end:?}");
    }

    // Evicted while the directory is in use.
    server.run("FLUSHALL");
    register(&server, 1);
    let directory = bytes(&server.run("DUMP i"));
    server.run("CONFIG SET maxmemory 1");
    server.attempt("SESSION.APPEND s1 MSG user hi");
    wait_until("the session is evicted", || server.say("EXISTS s1") == "(integer) 0");
    server.run("CONFIG SET maxmemory 0");
    server.call(&[&b"RESTORE"[..], b"i", b"0", &directory, b"REPLACE"]);
    assert_eq!(server.say("SESSION.INDEX LEN i"), "(integer) 0");
    server.run("SESSION.CREATE s2 INDEX i ALIAS a1");

    // Deleted with all other keys, and a directory that is restored alone.
    server.run("FLUSHDB");
    server.call(&[&b"RESTORE"[..], b"i", b"0", &directory]);
    assert_eq!(server.say("SESSION.INDEX LIST i"), "(empty array)");
    server.run("SESSION.CREATE s2 INDEX i ALIAS a1");
    assert_eq!(resolve(&server, "a1").as_deref(), Some("s2"));
}

#[test]
fn looking_a_session_up_is_no_use_of_it() {
    let server = Server::start();
    server.run("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0 lfu-decay-time 0");
    register(&server, 3);
    let used = |key: &str| int(&server.run(&format!("OBJECT FREQ {key}")));
    let before = (used("s1"), used("s2"));
    for _ in 0..5 {
        for reading in ["RESOLVE i a1", "LIST i", "LIST i BYACTIVITY", "LEN i"] {
            server.run(&format!("SESSION.INDEX {reading}"));
        }
        server.attempt("SESSION.CREATE new INDEX i ALIAS a1");
        server.run("SESSION.CREATE new INDEX i ALIAS a1 OPEN");
    }
    assert_eq!((used("s1"), used("s2")), before);
}

#[test]
fn dead_entries_are_removed_by_later_registrations() {
    let server = Server::append_only().start();
    let replica = Options::default().hostile().start();
    replica.replicate(&server);
    register(&server, 60);
    let empty = int(&server.run("MEMORY USAGE i"));
    for n in 1..=60 {
        server.run(&format!("DEL s{n}"));
    }
    assert_eq!(server.say("SESSION.INDEX LEN i"), "(integer) 0");
    // Replicas get the entries that were found dead as facts.
    let lines = server.propagated_lines(|server| {
        server.run("SESSION.CREATE n1 INDEX i ALIAS a60");
        server.run("SESSION.INDEX ADD i n1 ALIAS x AUTONAME");
    });
    assert!(
        lines[0].starts_with("SESSION.CREATE n1 INDEX i ALIAS a60 PRUNED 3 "),
        "{lines:#?}"
    );
    assert!(
        lines[1].starts_with("SESSION.INDEX ADD i n1 ALIAS x AUTONAME PRUNED 3 "),
        "{lines:#?}"
    );
    for n in 2..=60 {
        server.run(&format!("SESSION.CREATE n{n} INDEX i"));
    }
    // After as many registrations as there were entries, none of those is left.
    let own = |server: &Server| int(&server.run("MEMORY USAGE i"));
    assert!(own(&server) < empty + 200, "{} after {empty}", own(&server));
    replica.wait_for(&server);
    assert_eq!(replica.digest(b"i"), server.digest(b"i"));
    assert_eq!(own(&replica), own(&server));
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after a restart", &before, &server.snapshot());
}

#[test]
fn a_session_expired_at_its_creation_is_not_registered() {
    let server = Server::append_only().start();
    let lines = server.propagated_lines(|server| {
        server.run("SESSION.CREATE k INDEX i ALIAS a PXAT 1000");
    });
    assert_eq!(lines, [""; 0]);
    assert_eq!(server.say("EXISTS k i"), "(integer) 0");
}

#[test]
fn a_replica_applies_registrations_without_checks() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    register(&primary, 3);
    replica.wait_for(&primary);
    for command in [
        "RENAME s1 gone",
        "SESSION.INDEX ADD i s2 ALIAS b2",
        "SESSION.CREATE x INDEX i ALIAS a1",
    ] {
        primary.run(command);
    }
    replica.wait_for(&primary);
    assert_eq!(primary.snapshot(), replica.snapshot());
    assert!(replica.say("SESSION.INDEX ADD i s2").starts_with("(error) READONLY"));

    // An expired session is missing on a replica too, before its primary deletes it.
    primary.run("DEBUG SET-ACTIVE-EXPIRE 0");
    primary.run("PEXPIRE s2 30");
    replica.wait_for(&primary);
    wait_until("the session is hidden", || resolve(&replica, "b2").is_none());
    assert_eq!(keys(&replica, "i"), ["x", "s3"]);
    assert_eq!(replica.say("SESSION.INDEX LEN i"), "(integer) 2");
    assert_eq!(keys(&replica, "i BYACTIVITY").len(), 2);
    // Its alias is given to another session, for which the primary must find it dead.
    primary.run("SESSION.CREATE y INDEX i ALIAS b2");
    replica.wait_for(&primary);
    assert_eq!(resolve(&replica, "b2").as_deref(), Some("y"));
    assert_eq!(primary.digest(b"i"), replica.digest(b"i"));

    replica.run("REPLICAOF NO ONE");
    replica.conversation(
        r#"
        > SESSION.CREATE z INDEX i ALIAS b2
        (error) ALIASINUSE …
        > SESSION.CREATE z INDEX i ALIAS b2 OPEN
        1) "id"
        2) …
        3) "key"
        4) "y"
        …
        > SESSION.INDEX ADD i y ALIAS c2
        (integer) 0
        > SESSION.CREATE z INDEX i ALIAS b2
        …
        "#,
    );
}

#[test]
fn a_directory_is_a_key_like_any_other() {
    let server = Server::start();
    let field = || server.info_number("session", "session_directories");
    register(&server, 5);
    assert_eq!(field(), 1);
    server.run("RENAME i j");
    assert_eq!(keys(&server, "j"), ["s5", "s4", "s3", "s2", "s1"]);
    assert_eq!(server.say("SESSION.INDEX RESOLVE i a1"), "(nil)");
    // A new directory is empty.
    server.run("SESSION.CREATE s6 INDEX i ALIAS a1");
    assert_eq!(field(), 2);
    server.run("COPY j copy");
    assert_eq!(server.digest(b"copy"), server.digest(b"j"));
    server.run("SESSION.INDEX ADD copy s1 ALIAS other");
    assert_ne!(server.digest(b"copy"), server.digest(b"j"));
    assert_eq!(keys(&server, "j MATCH a1"), ["s1"]);
    let dump = bytes(&server.run("DUMP j"));
    server.call(&[&b"RESTORE"[..], b"restored", b"0", &dump]);
    assert_eq!(server.digest(b"restored"), server.digest(b"j"));
    assert_eq!(field(), 4);
    assert!(int(&server.run("MEMORY USAGE j")) > 500);
    // Its entries refer to sessions in this database, wherever the directory came from.
    server.run("MOVE restored 1");
    server.conversation(
        r#"
        > SELECT 1
        OK
        > SESSION.INDEX LEN restored
        (integer) 0
        > SELECT 0
        OK
        "#,
    );
    server.run("DEBUG RELOAD");
    assert_eq!(field(), 4);
    server.run("CONFIG SET lazyfree-lazy-user-del yes");
    for n in 0..300 {
        server.run(&format!("SESSION.CREATE n{n} INDEX j"));
    }
    server.run("COPY j freed");
    server.run("DEL freed");
    assert_eq!(int(&server.run("SESSION.INDEX LEN j")), 305);
    server.run("EXPIRE j 1000");
    server.run("SESSION.INDEX ADD j s1 ALIAS named");
    assert!(server.expires_at_ms(b"j") > 0, "an expiry that was set stays");
    server.run("FLUSHALL ASYNC");
    wait_until("all are freed", || field() == 0);
}

/// Makes a directory whose entries refer to keys that hold something else now.
fn with_foreign_names(server: &Server) -> Vec<u8> {
    let names: [&[u8]; 9] = [
        b"d",
        b"string",
        b"list",
        b"hash",
        b"stream",
        b"directory",
        b"another",
        b"\xff\0\r\n",
        b"",
    ];
    for name in names {
        server.call(&[&b"SESSION.CREATE"[..], name, b"INDEX", b"i"]);
    }
    server.run("SESSION.INDEX ADD i string ALIAS a");
    let dump = bytes(&server.run("DUMP i"));
    server.run("FLUSHALL");
    server.conversation(
        r#"
        > SET string x
        > RPUSH list x y
        > HSET hash f v
        > XADD stream 1-1 f v
        > SESSION.CREATE another
        > SESSION.CREATE held INDEX directory ALIAS held
        > SET "\xff\x00\r\n" binary PX 1000000
        > SET "" empty
        "#,
    );
    dump
}

#[test]
fn a_directory_that_names_foreign_keys_harms_none() {
    let server = Server::append_only().start();
    let payload = with_foreign_names(&server);
    let before = server.snapshot();
    let restore = |key: &str| server.call(&[&b"RESTORE"[..], key.as_bytes(), b"0", &payload]);
    // At `d` it refers to itself.
    for index in ["d", "e"] {
        restore(index);
        for command in [
            "SESSION.INDEX LEN INDEX",
            "SESSION.INDEX LIST INDEX",
            "SESSION.INDEX LIST INDEX BYACTIVITY",
            "SESSION.INDEX RESOLVE INDEX a",
        ] {
            let reply = server.say(&command.replace("INDEX", index).replacen(index, "INDEX", 1));
            assert!(
                ["(integer) 0", "(empty array)", "(nil)"].contains(&reply.as_str()),
                "{command}: {reply}"
            );
        }
        let propagated = server.propagated_by(|server| {
            for n in 0..12 {
                server.run(&format!("SESSION.CREATE new{n} INDEX {index} ALIAS n{n}"));
                server.run(&format!("SESSION.INDEX ADD {index} new{n} ALIAS m{n}"));
            }
            server.run(&format!("SESSION.CREATE again INDEX {index} ALIAS a"));
        });
        // Replicas get commands on these two keys only.
        for command in &propagated {
            let line = redis_session_tests::journal::line(command);
            let is_own = |key: &[u8]| key.starts_with(b"new") || key == b"again";
            let fine = match &command[0][..] {
                b"SESSION.CREATE" => is_own(&command[1]) && command[3] == index.as_bytes(),
                b"SESSION.INDEX" => is_own(&command[3]) && command[2] == index.as_bytes(),
                _ => false,
            };
            assert!(fine, "{line}");
        }
        assert_eq!(server.say(&format!("SESSION.INDEX LEN {index}")), "(integer) 13");
        for n in 0..12 {
            server.run(&format!("DEL new{n}"));
        }
        server.run(&format!("DEL again {index}"));
        oracle::assert_same("the foreign keys", &before, &server.snapshot());
    }
    // Its own name as a session's key.
    restore("d");
    assert!(server.say("SESSION.CREATE d INDEX d").starts_with("(error) ERR INDEX"));
    assert!(server.say("SESSION.INDEX ADD d d").starts_with("(error) WRONGTYPE"));
    assert!(server
        .say("SESSION.CREATE d INDEX e OPEN")
        .starts_with("(error) WRONGTYPE"));
    assert!(server
        .say("SESSION.CREATE string INDEX d OPEN")
        .starts_with("(error) WRONGTYPE"));
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
}

#[test]
fn a_key_that_two_entries_mean_is_the_last_ones() {
    let server = Server::start();
    register(&server, 3);
    let dump = bytes(&server.run("DUMP i"));
    // Adding another session at a registered key removes the entry that was there.
    server.run("DEL s1");
    server.run(&format!("SESSION.CREATE s1 ID {} AT 9000", id(9)));
    assert_eq!(keys(&server, "i"), ["s3", "s2"]);
    assert_eq!(server.say("SESSION.INDEX ADD i s1 ALIAS a1"), "(integer) 1");
    assert_eq!(keys(&server, "i"), ["s1", "s3", "s2"]);
    server.call(&[&b"RESTORE"[..], b"i", b"0", &dump, b"REPLACE"]);
    assert_eq!(server.say("SESSION.INDEX ADD i s1"), "(integer) 1");
    assert_eq!(resolve(&server, "a1"), None);
    assert_eq!(resolve(&server, &id(1)), None);
    assert_eq!(resolve(&server, &id(9)).as_deref(), Some("s1"));
}

#[test]
fn the_directory_works_in_transactions_and_scripts() {
    let server = Server::start();
    register(&server, 1);
    server.conversation(
        r#"
        > MULTI
        OK
        > SESSION.CREATE s2 INDEX i ALIAS a2 AT 5000
        QUEUED
        > SESSION.INDEX RESOLVE i a2
        QUEUED
        > DEL s1
        QUEUED
        > SESSION.CREATE s3 INDEX i ALIAS a1 AT 6000
        QUEUED
        > SESSION.INDEX LEN i
        QUEUED
        > EXEC
        1) …
        …
        > EVAL "return redis.call('SESSION.INDEX', 'RESOLVE', KEYS[1], 'a1')" 1 i
        1) "id"
        2) "…"
        3) "key"
        4) "s3"
        5) "alias"
        6) "a1"
        > EVAL "return redis.pcall('SESSION.CREATE', KEYS[1], 'INDEX', KEYS[2], 'ALIAS', 'a1')" 2 x i
        (error) ALIASINUSE …
        "#,
    );
    assert_eq!(keys(&server, "i"), ["s3", "s2"]);
}

#[test]
fn random_histories_leave_the_same_directory_everywhere() {
    let (primary, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&primary);
    let mut random = Random(1);
    for step in 0..1500 {
        let (key, other) = (random.below(12), random.below(12));
        let alias = match random.below(3) {
            0 => String::new(),
            n => format!("ALIAS a{} {}", random.below(8), ["AUTONAME", ""][n - 1]),
        };
        let open = ["", "OPEN"][random.below(2)];
        let command = match random.below(12) {
            0..=4 => format!("SESSION.CREATE s{key} INDEX i {alias} {open}"),
            5 => format!(
                "SESSION.CREATE s{key} INDEX i {alias} {open} ID {}",
                id(random.below(6) as u32)
            ),
            6 | 7 => format!("SESSION.INDEX ADD i s{key} {alias}"),
            8 => format!("RENAME s{key} s{other}"),
            9 => format!("COPY s{key} s{other} REPLACE"),
            10 => format!("PEXPIRE s{key} {}", random.below(3)),
            _ => format!("DEL s{key} s{other}"),
        };
        let reply = primary.say(&command);
        assert!(!reply.contains("internal"), "{command}: {reply}");
        if command.starts_with("PEXPIRE") {
            let start = now_ms();
            wait_until("it expires", || now_ms() > start + 4);
        }
        // Each entry belongs to an existing session, and each look-up finds it.
        let listed = list(&mut primary.client(), "i");
        for shown in &listed {
            let (id, key) = (
                shown["id"].as_str().expect("an id"),
                shown["key"].as_str().expect("a key"),
            );
            assert_eq!(primary.document(key)["session_id"], id, "step {step}: {command}");
            assert_eq!(resolve(&primary, id).as_deref(), Some(key), "step {step}: {command}");
            if let Some(alias) = shown["alias"].as_str() {
                assert_eq!(resolve(&primary, alias).as_deref(), Some(key), "step {step}: {command}");
            }
        }
        if step % 100 == 0 {
            replica.wait_for(&primary);
            assert_eq!(primary.digest(b"i"), replica.digest(b"i"), "step {step}");
        }
    }
    assert_eq!(primary.info_number("session", "session_panics_caught"), 0);
    wait_until("what was to expire is gone", || {
        replica.wait_for(&primary);
        primary.say("DBSIZE") == replica.say("DBSIZE")
    });
    let before = primary.snapshot();
    assert!(
        before[&b"i".to_vec()].entries.contains("alias"),
        "somebody is registered"
    );
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    primary.restart();
    oracle::assert_same("after a restart", &before, &primary.snapshot());
}

#[test]
fn a_user_reads_of_sessions_what_the_directory_shows() {
    let server = Server::start();
    register(&server, 2);
    server.run("SESSION.CREATE foreign");
    let mut alice = super::surroundings::user(&server, "~i ~a* +@all");
    assert_eq!(list(&mut alice, "i").len(), 2);
    alice.run("SESSION.INDEX RESOLVE i a1");
    for refused in [
        "SESSION.INDEX ADD i foreign",
        "SESSION.INDEX ADD foreign a",
        "SESSION.INDEX LIST other",
        "SESSION.INDEX RESOLVE other a1",
        "SESSION.INDEX LEN other",
        "SESSION.CREATE foreign INDEX i OPEN",
    ] {
        let reply = alice.say(refused);
        assert!(reply.starts_with("(error) NOPERM"), "{refused}: {reply}");
    }
    for (rules, refused) in [
        ("%R~i ~a*", "SESSION.INDEX ADD i a"),
        ("%W~i ~a*", "SESSION.INDEX ADD i a"),
        ("~i %R~a*", "SESSION.INDEX ADD i a"),
        ("%W~i", "SESSION.INDEX LIST i"),
    ] {
        let mut alice = super::surroundings::user(&server, &format!("{rules} +@all"));
        let reply = alice.say(refused);
        assert!(reply.starts_with("(error) NOPERM"), "{rules} {refused}: {reply}");
    }
    let mut reader = super::surroundings::user(&server, "%R~i +session.index|resolve +session.index|list");
    reader.run("SESSION.INDEX LIST i");
    assert!(reader.say("SESSION.INDEX LEN i").starts_with("(error) NOPERM"));
}

#[test]
fn in_a_cluster_a_directory_and_its_sessions_are_in_one_slot() {
    let cluster = Cluster::start(3);
    let tag = cluster.key_on(0, "t");
    let (node, index) = (cluster.node(0), format!("sessions:{{{tag}}}"));
    let session = |n: u32| format!("session:{{{tag}}}:{n}");
    // Another slot of the same node: a key that it could read.
    let near = (0..)
        .map(|n| format!("near{n}"))
        .find(|key| cluster.owner(key) == 0 && cluster.slot(key) != cluster.slot(&index))
        .expect("another slot of the same node");
    let far = cluster.key_on(1, "far");
    node.run(&format!(
        "SESSION.CREATE {} INDEX {index} ALIAS a1 ID {}",
        session(1),
        id(1)
    ));
    node.run(&format!("SESSION.CREATE {near} ID {}", id(2)));
    for other in [&near, &far] {
        for refused in [
            format!("SESSION.INDEX ADD {index} {other}"),
            format!("SESSION.INDEX ADD {other} {}", session(1)),
            format!("SESSION.CREATE {other} INDEX {index}"),
        ] {
            let reply = node.say(&refused);
            assert!(reply.starts_with("(error) CROSSSLOT"), "{refused}: {reply}");
        }
    }
    for command in ["RESOLVE i a1", "LIST i", "LEN i"] {
        let line = format!("SESSION.INDEX {}", command.replace(" i", &format!(" {index}")));
        assert!(cluster.node(1).say(&line).starts_with("(error) MOVED"), "{line}");
        node.run(&line);
    }
    cluster.node(1).run("SESSION.INDEX HELP");

    // A directory from a server outside of a cluster: sessions in other slots are not live here, although the node could read them.
    let alone = Server::start();
    for (n, key) in [(1, session(1)), (2, near.clone()), (3, far.clone())] {
        alone.run(&format!("SESSION.CREATE {key} INDEX i ALIAS a{n} ID {}", id(n)));
    }
    assert_eq!(alone.say("SESSION.INDEX LEN i"), "(integer) 3");
    let dump = bytes(&alone.run("DUMP i"));
    node.call(&[&b"RESTORE"[..], index.as_bytes(), b"0", &dump, b"REPLACE"]);
    assert_eq!(node.say(&format!("SESSION.INDEX LEN {index}")), "(integer) 1");
    assert_eq!(keys(node, &index), [session(1)]);
    assert_eq!(keys(node, &format!("{index} BYACTIVITY")), [session(1)]);
    assert_eq!(node.say(&format!("SESSION.INDEX RESOLVE {index} a2")), "(nil)");
    let before = node.digest(near.as_bytes());
    node.run(&format!("SESSION.CREATE {} INDEX {index} ALIAS a2", session(4)));
    assert_eq!(node.digest(near.as_bytes()), before);
    assert_eq!(node.say("DBSIZE"), "(integer) 4");
    assert_eq!(cluster.node(1).say("DBSIZE"), "(integer) 0");
}

#[test]
fn while_a_slot_is_moved_key_by_key_nobody_loses_an_entry() {
    let cluster = Cluster::start(3);
    let tag = cluster.key_on(0, "t");
    let (source, target) = (cluster.node(0), cluster.node(2));
    let (slot, index) = (cluster.slot(&tag), format!("sessions:{{{tag}}}"));
    let session = |n: u32| format!("session:{{{tag}}}:{n}");
    for n in 1..=6 {
        source.run(&format!(
            "SESSION.CREATE {} INDEX {index} ALIAS a{n} AT {n}",
            session(n)
        ));
    }
    source.run(&format!("DEL {}", session(6)));
    let move_key = |key: &str| {
        let port = target.port().to_string();
        source.run(&format!("MIGRATE 127.0.0.1 {port} {key} 0 60000"));
    };
    cluster.begin_migration(slot, 0, 2);
    move_key(&session(1));
    move_key(&session(2));
    assert_eq!(keys(source, &index), [session(5), session(4), session(3)]);
    // Only sessions that are here can be registered, and under no name that may belong to another.
    let add = |alias: &str| format!("SESSION.INDEX ADD {index} {} ALIAS {alias}", session(3));
    for n in 0..4 {
        assert_eq!(source.say(&add(&format!("c{n}"))), "(integer) 0");
    }
    assert!(
        source.say(&add("a1")).starts_with("(error) TRYAGAIN"),
        "{}",
        source.say(&add("a1"))
    );
    assert!(source.say(&add("a4")).starts_with("(error) ALIASINUSE"));
    let create = source.say(&format!("SESSION.CREATE {} INDEX {index} ALIAS a1", session(7)));
    assert!(
        create.starts_with("(error) TRYAGAIN") || create.starts_with("(error) ASK"),
        "{create}"
    );

    // The directory before the other keys.
    move_key(&index);
    move_key(&session(3));
    let asking = |line: &str| {
        let mut client = target.client();
        client.run("ASKING");
        talk::render(&client.attempt(line))
    };
    for n in 0..4 {
        assert_eq!(asking(&add(&format!("d{n}"))), "(integer) 0");
    }
    assert!(
        asking(&add("a4")).starts_with("(error) TRYAGAIN"),
        "{}",
        asking(&add("a4"))
    );
    cluster.move_keys(slot, 0, 2);
    cluster.end_migration(slot, 0, 2);
    assert_eq!(
        keys(target, &index),
        [session(5), session(4), session(3), session(2), session(1)]
    );
    // Deleted sessions lose their entry, and their name is free.
    assert_eq!(target.say(&add("a6")), "(integer) 0");
    assert_eq!(target.say(&format!("SESSION.INDEX LEN {index}")), "(integer) 5");
}

#[test]
fn a_server_started_on_what_was_written_has_the_directory() {
    for preamble in ["yes", "no"] {
        let server = Server::append_only().config("aof-use-rdb-preamble", preamble).start();
        register(&server, 40);
        server.run("DEL s3 s4");
        server.run("SESSION.INDEX ADD i s5 ALIAS renamed AUTONAME");
        let before = server.snapshot();
        let dump = bytes(&server.run("DUMP i"));
        server.rewrite_append_only_file();
        server.run("SESSION.CREATE late INDEX i ALIAS late");
        server.run("DEL late");
        server.restart_with(&Options::default().hostile());
        let after = server.snapshot();
        assert_eq!(
            after[&b"i".to_vec()].entries,
            before[&b"i".to_vec()].entries,
            "{preamble}"
        );
        assert_eq!(resolve(&server, "renamed").as_deref(), Some("s5"));
        assert_eq!(resolve(&server, "late"), None);
        let (from, to) = (Options::default().hostile().start(), Server::start());
        for server in [&from, &to] {
            server.call(&[&b"RESTORE"[..], b"i", b"0", &dump]);
        }
        assert_eq!(from.digest(b"i"), to.digest(b"i"));
    }
}
