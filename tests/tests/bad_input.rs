//! Bad input: a clear error, and no effect.

use redis_session_tests::table::assert_examples;
use redis_session_tests::{talk, Options, Server};

/// A server with the session `k`, the string `string`, and a journal of what is propagated.
fn server() -> Server {
    let server = Options::default().append_only().start();
    server.run(r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}'"#);
    server.run("SET string x");
    server
}

/// Asserts that a command fails like `error`, changes nothing and propagates nothing.
#[track_caller]
pub fn assert_refused<A: AsRef<[u8]>>(server: &Server, args: &[A], error: &str) {
    let before = server.snapshot();
    let propagated = server.propagated_by(|server| {
        let reply = talk::render(&server.call(args));
        let shown: Vec<String> = args.iter().map(|arg| talk::quote(arg.as_ref())).collect();
        assert!(
            talk::matches(&format!("(error) {error}"), &reply),
            "{:.300}\n{reply:.300}\n{error}",
            shown.join(" ")
        );
        assert!(reply.len() < 1000, "an error is short: {reply}");
    });
    assert!(propagated.is_empty(), "{propagated:?}");
    assert!(server.snapshot() == before);
}

/// Bodies that are not one UTF-8 JSON object.
pub fn malformed_bodies() -> Vec<Vec<u8>> {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{{\"a\":{}{}}}", open.repeat(depth), close.repeat(depth)).into_bytes()
    };
    let mut bodies: Vec<Vec<u8>> = [
        "",
        " ",
        "\0",
        "null",
        "true",
        "5",
        "\"text\"",
        "[]",
        "[{}]",
        "nonsense",
        "{",
        "}",
        "{}{}",
        "{} {}",
        "{},",
        "{}x",
        "{}\0",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":'b'}",
        "{\"a\":\"b}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\0\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\\"}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":0x10}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":undefined}",
        "{\"a\":True}",
        "{\"a\":nul}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{\"a\":]}",
        "{\"a\":/*c*/1}",
        "// c\n{}",
        "\u{feff}{}",
        "{1:2}",
        "{null:1}",
        "{\"a\":1}\u{a0}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    // Invalid UTF-8, inside strings and outside.
    for bytes in [
        &b"\xff"[..],
        b"\xc3",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\x80",
    ] {
        bodies.push([b"{\"a\":\"", bytes, b"\"}"].concat());
        bodies.push([b"{\"", bytes, b"\":1}"].concat());
        bodies.push([b"{}", bytes].concat());
    }
    bodies.extend([
        nested("[", "]", 200),
        nested("{\"a\":", "}", 200),
        nested("[", "", 100_000),
        b"[".repeat(100_000),
    ]);
    // Every prefix of a body is truncated JSON.
    let whole = br#"{"role":"user","content":"h\u00e9 \ud83d\ude00","x":[1,-2.5e3,{"y":null}],"z":true}"#;
    bodies.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
    bodies
}

#[test]
fn every_malformed_body_is_a_badmessage() {
    let server = server();
    for body in malformed_bodies() {
        assert_refused(
            &server,
            &[b"SESSION.APPEND", &b"k"[..], b"JSON", &body],
            "BADMESSAGE message 1 of 1: …",
        );
    }
    for body in [&b"[]"[..], b"\xff", b"{\"a\":1"] {
        assert_refused(
            &server,
            &[b"SESSION.APPEND", &b"k"[..], b"JSON", b"{}", body, b"{}"],
            "BADMESSAGE message 2 of 3: not a JSON object (…)",
        );
        assert_refused(
            &server,
            &[b"SESSION.APPEND", &b"absent"[..], b"JSON", b"{}", b"{}", body],
            "BADMESSAGE message 3 of 3: not a JSON object (…)",
        );
        assert_refused(
            &server,
            &[b"SESSION.COMPACT", &b"k"[..], b"UPTO", b"1", b"JSON", body],
            "BADMESSAGE message 1 of 1: not a JSON object (…)",
        );
    }
}

#[test]
fn the_error_tells_where() {
    let server = server();
    // The contract's own words: `{"a":1 "b":2}` lacks its comma before byte 7.
    let reply = server.say(r#"SESSION.APPEND k JSON {} '{"a":"xxxxxxxxx" "b":2}' {}"#);
    assert!(
        reply.starts_with("(error) BADMESSAGE message 2 of 3: not a JSON object (") && reply.contains("at byte 17"),
        "{reply}"
    );
}

#[test]
fn ten_megabytes_of_nothing_good_are_refused() {
    let server = server();
    for filler in ["x", "[", "{\"a\":", " ", "\u{ff}"] {
        let body = filler.repeat(10_485_760 / filler.len());
        let reply = talk::render(&server.call(&["SESSION.APPEND", "k", "JSON", &body]));
        assert!(
            reply.starts_with("(error) BADMESSAGE message 1 of 1")
                || reply.starts_with("(error) TOOLARGE message 1 of 1"),
            "{reply:.300}"
        );
    }
    server.run("CONFIG SET session.max-message-bytes 67108864");
    for filler in ["x", "[", "{\"a\":", " "] {
        let body = filler.repeat(10_485_760 / filler.len());
        assert_refused(
            &server,
            &["SESSION.APPEND", "k", "JSON", &body],
            "BADMESSAGE message 1 of 1: …",
        );
    }
}

#[test]
fn odd_but_legal_bodies_are_accepted_byte_for_byte() {
    let server = server();
    let depth = 127;
    let deep_list = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
    for body in [
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\udc00\ud800 \uD83Dx"}"#,
        r#"{"\ud800":1,"role":"\udfff"}"#,
        r#"{"role":"user","role":"assistant","role":5}"#,
        "\t\r\n {\n} \r\n",
        r#"{"a":1e999,"b":-0,"c":123456789012345678901234567890,"d":1E-400}"#,
        r#"{"":"","\u0000":"\u0000"}"#,
        "{\"a\":\"\u{7f}\u{2028}\u{10ffff}\u{feff}\"}",
        r#"{"tool_calls":5,"tool_call_id":{},"entity_refs":[1,null,{}],"timestamp":[],"token_count":-1,"role":[]}"#,
        r#"{"tool_calls":[{"id":1},{},null,[],{"id":""}],"type":"function_call","call_id":9}"#,
        r#"{"token_count":99999999999999999999999}"#,
        r#"{"token_count":1.5}"#,
        &deep_list,
        &deep_object,
    ] {
        let reply = talk::render(&server.call(&["SESSION.APPEND", "k", "JSON", body]));
        assert!(reply.starts_with("(integer) "), "{body:.200}: {reply}");
        assert_eq!(server.bodies("k").last().expect("a message"), body);
        let document = redis_session_tests::bytes(&server.run("SESSION.GET k"));
        assert!(
            String::from_utf8(document).expect("UTF-8").contains(body),
            "{body:.200}"
        );
    }
    // One level too many.
    for body in [
        format!("{{\"a\":[{}{}]}}", "[".repeat(depth), "]".repeat(depth)),
        format!("{{\"a\":{deep_object}}}"),
    ] {
        assert_refused(
            &server,
            &["SESSION.APPEND", "k", "JSON", &body],
            "BADMESSAGE message 1 of 1: …",
        );
    }
}

#[test]
fn composed_messages_are_utf8() {
    let server = server();
    for tail in [
        &[&b"\xff"[..], b"hi"][..],
        &[b"user", b"\xff"],
        &[b"user", b"hi", b"NAME", b"\xff"],
        &[b"user", b"hi", b"ID", b"\xff"],
        &[b"user", b"hi", b"TOOL_CALL_ID", b"\xc3"],
        &[b"user", b"hi", b"TOOL_CALL", b"\xff", b"n", b"a"],
        &[b"user", b"hi", b"TOOL_CALL", b"i", b"n", b"\xff"],
        &[b"user", b"hi", b"REF", b"\xff"],
    ] {
        let args = [&[b"SESSION.APPEND", &b"k"[..], b"MSG"], tail].concat();
        assert_refused(&server, &args, "BADMESSAGE message 1 of 1: …");
    }
}

#[test]
fn wrong_types_are_the_servers_wrongtype() {
    let server = server();
    server.run("RPUSH list x");
    for key in ["string", "list"] {
        for command in [
            "SESSION.CREATE {key}",
            "SESSION.CREATE {key} OPEN",
            "SESSION.APPEND {key} MSG user hi",
            "SESSION.APPEND {key} XX MSG user hi",
            "SESSION.RANGE {key} 0 -1",
            "SESSION.CONTEXT {key}",
            "SESSION.GET {key}",
            "SESSION.GETEX {key}",
            "SESSION.GETEX {key} CREATE",
            "SESSION.INFO {key}",
            "SESSION.LEN {key}",
            "SESSION.META {key} {}",
            "SESSION.WINDOW {key} MAXLEN 5",
            "SESSION.POP {key}",
            "SESSION.REMOVE {key} 1",
            "SESSION.REDACT {key} 1",
            "SESSION.COMPACT {key} UPTO 1 MSG system s",
            "SESSION.CLEAR {key}",
            "SESSION.ENTITY MENTION {key} ID e",
            "SESSION.ENTITY MENTION {key} JSON '{\"id\":\"e\"}'",
            "SESSION.ENTITY GET {key} e",
            "SESSION.ENTITY LIST {key}",
            "SESSION.ENTITY FORGET {key} 1 e",
            "SESSION.ENTITY RESOLVE {key} he",
            "SESSION.ENTITY RESOLVE {key} he ANY ALL",
        ] {
            let args = talk::split(&command.replace("{key}", key));
            assert_refused(
                &server,
                &args,
                "WRONGTYPE Operation against a key holding the wrong kind of value",
            );
        }
    }
    for command in ["GET k", "RPUSH k x", "INCR k", "HSET k a b"] {
        assert_refused(
            &server,
            &talk::split(command),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }
}

#[test]
fn every_wrong_arity_is_refused() {
    let server = server();
    for command in server.commands() {
        let arity = command.arity.unsigned_abs() as usize;
        let name: Vec<&str> = command.name.split(' ').collect();
        let too_long = (command.arity > 0).then_some(arity + 1);
        for len in (1..arity).chain(too_long) {
            // Also with valid words, where there is one for each position.
            for word in ["k", "0"] {
                let mut args = name.clone();
                args.resize(len, word);
                assert_refused(&server, &args, "ERR wrong number of arguments for '…' command");
            }
        }
    }
}

#[test]
fn every_unknown_option_is_named() {
    let server = server();
    let sentences = [
        "CREATE new",
        "APPEND k",
        "RANGE k 0 -1",
        "CONTEXT k",
        "GET k",
        "GETEX k",
        "META k {}",
        "WINDOW k",
        "POP k",
        "COMPACT k UPTO 1",
        "CLEAR k",
        "MIGRATE k",
        "MIGRATE k FROM 1 list",
        "MIGRATE k KEEP",
        "ENTITY MENTION k",
        "ENTITY MENTION k ID e NAME n",
        "ENTITY LIST k",
        "ENTITY LIST k TYPE t",
        "ENTITY FORGET k 1 e",
        "ENTITY RESOLVE k he",
        "ENTITY RESOLVE k he ANY",
        "REMOVE k 1 EX 5",
        "REDACT k 1 REASON r",
        "EVENT ADD k pass",
        "EVENT RANGE k - +",
        "AGENT JOIN k a",
        "AGENT LEAVE k a",
        "AGENT HANDOFF k a b",
        "READ k 0",
        "CHECKPOINT CREATE k",
        "CHECKPOINT DEL k 1 EX 5",
        "CHECKPOINT RESTORE k 1",
        "FORK k new",
        "ANCHOR ADD new s1",
        "ANCHOR GET new",
        "INDEX LIST new",
        "INDEX ADD new k",
    ];
    let commands = server.commands();
    let with_options = commands.iter().filter(|command| !command.tokens().is_empty());
    assert_examples(
        with_options,
        sentences.iter().map(|sentence| format!("SESSION.{sentence}")),
        &[(
            "SESSION.AGENT LEASE",
            "its one word stands for a value, not for an option",
        )],
    );
    for command in sentences {
        let tail = match command {
            _ if command.starts_with("APPEND") || command.starts_with("COMPACT") => "MSG user hi",
            "ENTITY MENTION k" => "ID e",
            _ => "",
        };
        let args = talk::split(&format!("SESSION.{command} BOGUS {tail}"));
        assert_refused(&server, &args, "ERR syntax error near 'BOGUS'");
    }
}

#[test]
fn what_an_error_quotes_is_escaped_and_short() {
    let server = server();
    assert_refused(
        &server,
        &[b"SESSION.RANGE", &b"k"[..], b"0", b"1", b"B\x00\xff\r\n"],
        r"ERR syntax error near 'B\x00\xff\x0d\x0a'",
    );
    assert_refused(
        &server,
        &[b"SESSION.POP", &b"a\x00\xff"[..]],
        r"NOSESSION no session at key 'a\x00\xff'",
    );
    let word = "w".repeat(100_000);
    for args in [
        vec!["SESSION.POP", "k", &word],
        vec!["SESSION.POP", &word],
        vec!["SESSION.RANGE", "k", "0", "1", &word],
        vec!["SESSION.RANGE", "k", &word, "1"],
    ] {
        let reply = talk::render(&server.call(&args));
        assert!(reply.starts_with("(error) ") && reply.len() < 200, "{reply:.300}");
        assert!(reply.matches('w').count() <= 70, "{reply}");
    }
}

#[test]
fn binary_keys_are_keys() {
    let server = server();
    let binary: [&[u8]; 5] = [b"", b"\x00", b"a\x00b", b"\xff\xfe\x80", b"new\r\nline {\"'}"];
    for key in binary {
        let run = |words: &[&[u8]]| {
            let reply = server.call(&[&[words[0], key], &words[1..]].concat());
            let shown = talk::render(&reply);
            assert!(!shown.starts_with("(error)"), "{shown}");
            shown
        };
        assert_eq!(
            run(&[b"SESSION.APPEND", b"DEDUP", b"t", b"JSON", b"{\"n\":1}", b"{\"n\":2}"]),
            "(integer) 2"
        );
        assert_eq!(run(&[b"SESSION.RANGE", b"0", b"-1"]), "1) '{\"n\":1}'\n2) '{\"n\":2}'");
        assert!(run(&[b"SESSION.CREATE", b"OPEN"]).contains(&talk::quote(key)));
        run(&[b"SESSION.META", b"{\"a\":1}"]);
        run(&[b"SESSION.WINDOW", b"MAXLEN", b"5"]);
        run(&[b"SESSION.REDACT", b"1"]);
        run(&[b"SESSION.COMPACT", b"UPTO", b"1", b"MSG", b"system", b"s"]);
        run(&[b"SESSION.POP"]);
        run(&[b"SESSION.REMOVE", b"1"]);
        run(&[b"SESSION.CLEAR"]);
        let entity = |words: &[&[u8]]| {
            let reply = server.call(&[&[b"SESSION.ENTITY", words[0], key], &words[1..]].concat());
            talk::render(&reply)
        };
        assert_eq!(entity(&[b"MENTION", b"ID", b"e"]), "(integer) 1");
        assert!(entity(&[b"RESOLVE", b"he"]).contains(r#""entity_id":"e""#));
        assert!(entity(&[b"LIST"]).contains(r#""entity_id":"e""#));
        assert_eq!(entity(&[b"FORGET", b"1", b"e"]), "(integer) 1");
        assert_eq!(entity(&[b"GET", b"e"]), "(nil)");
        let checkpoint = |words: &[&[u8]]| {
            let reply = server.call(&[&[b"SESSION.CHECKPOINT", words[0], key], &words[1..]].concat());
            talk::render(&reply)
        };
        let (reference, fork) = ([key, b"\0ref"].concat(), [key, b"\xfffork"].concat());
        assert_eq!(checkpoint(&[b"CREATE", b"STORE", &reference]), "(integer) 3");
        assert_eq!(checkpoint(&[b"RESTORE", b"3"]), "(integer) 12");
        assert!(talk::render(&server.call(&[b"GET", &reference[..]])).contains(r#""checkpointId":3"#));
        run(&[b"SESSION.FORK", &fork]);
        assert!(talk::render(&server.call(&[&b"SESSION.GET"[..], &fork])).contains(r#""last_seq":4,"#));
        server.call(&[b"DEL", &fork[..], &reference]);
        run(&[b"SESSION.GETEX"]);
        run(&[b"SESSION.INFO"]);
        run(&[b"SESSION.CONTEXT"]);
        assert_eq!(run(&[b"SESSION.LEN"]), "(integer) 0");
        assert!(run(&[b"SESSION.GET"]).contains("session_id"));
    }
    let before = server.snapshot();
    server.run("DEBUG RELOAD");
    assert!(server.snapshot() == before);
    server.restart();
    assert!(server.snapshot() == before);
}

#[test]
fn numbers_are_integers_within_their_limits() {
    let server = server();
    for number in [
        "",
        "x",
        "1x",
        "x1",
        "1.0",
        "1e3",
        " 1",
        "1 ",
        "--1",
        "0x1",
        "99999999999999999999999999999",
        "\u{661}",
    ] {
        for (args, option) in [
            (vec!["SESSION.WINDOW", "k", "MAXLEN", number], "MAXLEN"),
            (vec!["SESSION.WINDOW", "k", "MAXTOKENS", number], "MAXTOKENS"),
            (vec!["SESSION.WINDOW", "k", "MAXBYTES", number], "MAXBYTES"),
            (vec!["SESSION.WINDOW", "k", "MAXAGE", number], "MAXAGE"),
            (
                vec!["SESSION.APPEND", "k", "MAXLEN", number, "MSG", "user", "hi"],
                "MAXLEN",
            ),
            (
                vec!["SESSION.APPEND", "k", "TOKENS", number, "MSG", "user", "hi"],
                "TOKENS",
            ),
            (
                vec!["SESSION.APPEND", "k", "IFVERSION", number, "MSG", "user", "hi"],
                "IFVERSION",
            ),
            (
                vec!["SESSION.APPEND", "k", "LEASE", number, "MSG", "user", "hi"],
                "LEASE",
            ),
            (vec!["SESSION.APPEND", "k", "AT", number, "MSG", "user", "hi"], "AT"),
            (vec!["SESSION.CLEAR", "k", "EX", number], "EX"),
            (vec!["SESSION.CLEAR", "k", "PX", number], "PX"),
            (vec!["SESSION.CLEAR", "k", "PXAT", number], "PXAT"),
            (vec!["SESSION.RANGE", "k", "0", "-1", "COUNT", number], "COUNT"),
            (vec!["SESSION.CONTEXT", "k", "MAXTOKENS", number], "MAXTOKENS"),
            (vec!["SESSION.CONTEXT", "k", "MAXLEN", number], "MAXLEN"),
            (vec!["SESSION.CONTEXT", "k", "ENTITIES", number], "ENTITIES"),
            (vec!["SESSION.GET", "k", "MESSAGES", number], "MESSAGES"),
            (vec!["SESSION.POP", "k", "COUNT", number], "COUNT"),
            (
                vec!["SESSION.COMPACT", "k", "UPTO", number, "MSG", "system", "s"],
                "UPTO",
            ),
        ] {
            assert_refused(&server, &args, &format!("ERR {option} must be an integer from …"));
        }
        for args in [
            vec!["SESSION.REMOVE", "k", number],
            vec!["SESSION.REDACT", "k", number],
            vec!["SESSION.RANGE", "k", number, "1"],
        ] {
            assert_refused(&server, &args, "ERR …");
        }
    }
    // At the limit and past it.
    server.run("SESSION.WINDOW k MAXLEN 4294967295");
    for number in ["-1", "4294967296", "18446744073709551615", "18446744073709551616"] {
        assert_refused(
            &server,
            &["SESSION.WINDOW", "k", "MAXLEN", number],
            "ERR MAXLEN must be an integer from 0 to 4294967295",
        );
        assert_refused(
            &server,
            &["SESSION.APPEND", "k", "MAXLEN", number, "MSG", "user", "hi"],
            "ERR MAXLEN must be an integer from 0 to 4294967295",
        );
    }
}

#[test]
fn load_is_not_for_clients() {
    let server = server();
    assert_refused(&server, &["SESSION.LOAD", "new", "payload"], "ERR …");
    assert_refused(&server, &["SESSION.LOAD", "k", "payload"], "ERR …");
    let said = server.say("EVAL \"return redis.pcall('SESSION.LOAD', KEYS[1], 'x')\" 1 new");
    assert!(said.starts_with("(error) ERR"), "{said}");
    assert_eq!(server.say("EXISTS new"), "(integer) 0");
}

#[test]
fn words_that_only_replication_may_say_are_refused_from_clients() {
    let server = server();
    assert_refused(
        &server,
        &["SESSION.APPEND", "k", "NOW", "1000", "MSG", "user", "hi"],
        "ERR syntax error near 'NOW'",
    );
    assert_refused(
        &server,
        &[
            "SESSION.APPEND",
            "k",
            "PX",
            "1000",
            "PXAT",
            "4102444800000",
            "MSG",
            "user",
            "hi",
        ],
        "ERR syntax error near 'PXAT'",
    );
}

#[test]
fn subcommands_are_of_the_group() {
    let server = server();
    for word in [
        "BOGUS",
        "MENTIONS",
        "GETALL",
        "M",
        "ENTITY",
        "SESSION.ENTITY",
        "entity|mention",
    ] {
        assert_refused(
            &server,
            &["SESSION.ENTITY", word, "k", "ID", "e"],
            &format!("ERR unknown subcommand '{word}'. Try SESSION.ENTITY HELP."),
        );
    }
    for word in [&b" MENTION"[..], b"MENTION ", b""] {
        assert_refused(
            &server,
            &[b"SESSION.ENTITY", word, b"k", b"ID", b"e"],
            "ERR unknown subcommand '…'. Try SESSION.ENTITY HELP.",
        );
    }
}

#[test]
fn an_entity_is_an_object_with_an_id() {
    let server = server();
    server.run("SESSION.ENTITY MENTION k ID e NAME n ALIAS a");
    for body in malformed_bodies() {
        if serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|value| value.is_object()) {
            continue;
        }
        let args = [b"SESSION.ENTITY", &b"MENTION"[..], b"k", b"JSON", &body];
        let reply = talk::render(&server.call(&args));
        assert!(
            reply.starts_with("(error) ERR ") || reply.starts_with("(error) BADMESSAGE "),
            "{}: {reply:.300}",
            talk::quote(&body)
        );
    }
    for body in ["[]", "5", "null", "\"e\"", "{", "", "\0", "nonsense"] {
        for (key, others) in [("k", 0), ("k", 2), ("new", 0)] {
            let mut args = vec!["SESSION.ENTITY", "MENTION", key, "JSON"];
            args.extend(vec![r#"{"id":"fine"}"#; others]);
            args.push(body);
            assert_refused(&server, &args, "ERR … is not a JSON object (…)");
        }
    }
    for body in [
        "{}",
        r#"{"name":"n"}"#,
        r#"{"ID":"e"}"#,
        r#"{"id":""}"#,
        r#"{"id":null}"#,
        r#"{"id":5}"#,
        r#"{"id":true}"#,
        r#"{"id":["e"]}"#,
        r#"{"id":{"id":"e"}}"#,
        r#"{"entity_id":7}"#,
        r#"{"entity":{"id":"e"}}"#,
        r#"{"id":"e","name":""}"#,
        r#"{"id":"e","name":5}"#,
        r#"{"id":"e","type":[]}"#,
        r#"{"id":"e","entity_type":false}"#,
        r#"{"id":"e","aliases":"a"}"#,
        r#"{"id":"e","aliases":{}}"#,
        r#"{"id":"e","aliases":[1]}"#,
        r#"{"id":"e","aliases":["a",null]}"#,
        r#"{"id":"e","aliases":["a",""]}"#,
        r#"{"id":"e","aliases":[["a"]]}"#,
    ] {
        for key in ["k", "new"] {
            assert_refused(&server, &["SESSION.ENTITY", "MENTION", key, "JSON", body], "ERR …");
            assert_refused(
                &server,
                &["SESSION.ENTITY", "MENTION", key, "JSON", r#"{"id":"fine"}"#, body],
                "ERR …",
            );
        }
    }
}

#[test]
fn the_grammar_of_entities_is_kept() {
    let server = server();
    server.run("SESSION.ENTITY MENTION k ID e NAME n ALIAS a");
    for (command, error) in [
        ("MENTION k ID e NAME", "ERR syntax error near 'NAME'"),
        ("MENTION k ID e TYPE", "ERR syntax error near 'TYPE'"),
        ("MENTION k ID e ALIAS a ALIAS", "ERR syntax error near 'ALIAS'"),
        ("MENTION k ID e NAME a NAME b", "ERR syntax error near 'NAME'"),
        ("MENTION k ID e TYPE a NAME b type c", "ERR syntax error near 'type'"),
        ("MENTION k ID e ID f", "ERR syntax error near 'ID'"),
        ("MENTION k ID e JSON {}", "ERR syntax error near 'JSON'"),
        // The options of every write come before the tail.
        ("MENTION k ID e EX 5", "ERR syntax error near 'EX'"),
        ("MENTION k ID e IFVERSION 2", "ERR syntax error near 'IFVERSION'"),
        ("MENTION k NAME n ID e", "ERR syntax error near 'NAME'"),
        ("MENTION k EX 5 JSON", "ERR syntax error near 'JSON'"),
        ("MENTION k EX 5 ID", "ERR syntax error near 'ID'"),
        ("MENTION k EX 5", "ERR …"),
        ("MENTION k XX ID e", "ERR syntax error near 'XX'"),
        ("MENTION k e f", "ERR syntax error near 'e'"),
        ("LIST k TYPE", "ERR syntax error near 'TYPE'"),
        ("LIST k TYPE a TYPE b", "ERR syntax error near 'TYPE'"),
        ("LIST k LIMIT", "ERR syntax error near 'LIMIT'"),
        ("LIST k LIMIT 0", "ERR syntax error near 'LIMIT'"),
        ("LIST k LIMIT 0 1 LIMIT 0 1", "ERR syntax error near 'LIMIT'"),
        ("LIST k LIMIT 0 1 2", "ERR syntax error near '2'"),
        ("LIST k e", "ERR syntax error near 'e'"),
        ("LIST k TYPE \"\"", "ERR TYPE …"),
        ("LIST k TYPE \"\\xff\"", "ERR TYPE …"),
        ("RESOLVE k he ANY ANY", "ERR syntax error near 'ANY'"),
        ("RESOLVE k he ALL ANY all", "ERR syntax error near 'all'"),
        ("RESOLVE k he she", "ERR syntax error near 'she'"),
        ("RESOLVE k \"\"", "ERR …"),
        ("RESOLVE k \"\\xff\"", "ERR …"),
        ("GET k \"\"", "ERR …"),
        ("GET k \"\\xff\"", "ERR …"),
        ("FORGET k 1 e f", "ERR syntax error near 'f'"),
        ("FORGET k 2 e", "ERR …"),
        ("FORGET k 1 e 1 e", "ERR syntax error near '1'"),
        ("FORGET k 1 \"\"", "ERR …"),
        ("FORGET k 1 \"\\xff\"", "ERR …"),
        ("MENTION k ID \"\"", "ERR ID …"),
        ("MENTION k ID \"\\xff\"", "ERR ID …"),
        ("MENTION k ID e NAME \"\"", "ERR NAME …"),
        ("MENTION k ID e NAME \"\\xc3\"", "ERR NAME …"),
        ("MENTION k ID e TYPE \"\\xed\\xa0\\x80\"", "ERR TYPE …"),
        ("MENTION k ID e ALIAS \"\\xff\"", "ERR ALIAS …"),
        ("MENTION k ID e ALIAS fine ALIAS \"\"", "ERR ALIAS …"),
    ] {
        assert_refused(&server, &talk::split(&format!("SESSION.ENTITY {command}")), error);
    }
    for number in [
        "0",
        "-1",
        "",
        "x",
        "1.5",
        "1e1",
        "9223372036854775808",
        "99999999999999999999",
        " 1",
    ] {
        assert_refused(
            &server,
            &["SESSION.ENTITY", "FORGET", "k", number, "e"],
            "ERR … must be an integer from 1 to …",
        );
    }
    // The count says where the ids end.
    assert_eq!(server.say("SESSION.ENTITY FORGET k 3 nobody EX 5"), "(integer) 0");
    for number in ["2", "4294967295"] {
        assert_refused(&server, &["SESSION.ENTITY", "FORGET", "k", number, "e"], "ERR …");
    }
    for number in [
        "",
        "x",
        "1.5",
        "1e1",
        "9223372036854775808",
        "-99999999999999999999",
        " 1",
    ] {
        for limit in [["0", number], [number, "0"]] {
            assert_refused(
                &server,
                &["SESSION.ENTITY", "LIST", "k", "LIMIT", limit[0], limit[1]],
                "ERR LIMIT… must be an integer from …",
            );
        }
    }
}

#[test]
fn entities_have_texts_of_a_bounded_length() {
    let server = server();
    server.run("SESSION.ENTITY MENTION k ID e");
    for bytes in [65_537, 1_048_576] {
        let long = "x".repeat(bytes);
        for (args, error) in [
            (vec!["MENTION", "k", "ID", &long], "TOOLARGE ID …"),
            (vec!["MENTION", "new", "ID", &long], "TOOLARGE ID …"),
            (vec!["MENTION", "k", "ID", "e", "NAME", &long], "TOOLARGE NAME …"),
            (vec!["MENTION", "k", "ID", "e", "TYPE", &long], "TOOLARGE TYPE …"),
            (vec!["MENTION", "k", "ID", "e", "ALIAS", &long], "TOOLARGE ALIAS …"),
            (vec!["GET", "k", &long], "TOOLARGE …"),
            (vec!["LIST", "k", "TYPE", &long], "TOOLARGE TYPE …"),
            (vec!["FORGET", "k", "2", "e", &long], "TOOLARGE …"),
            (vec!["RESOLVE", "k", &long, "ANY", "ALL"], "TOOLARGE …"),
        ] {
            assert_refused(&server, &[vec!["SESSION.ENTITY"], args].concat(), error);
        }
        for body in [
            format!(r#"{{"id":"{long}"}}"#),
            format!(r#"{{"id":"e","name":"{long}"}}"#),
            format!(r#"{{"id":"e","type":"{long}"}}"#),
            format!(r#"{{"id":"e","aliases":["{long}"]}}"#),
        ] {
            let before = server.snapshot();
            let reply = talk::render(&server.call(&["SESSION.ENTITY", "MENTION", "k", "JSON", &body]));
            assert!(
                reply.starts_with("(error) TOOLARGE ") || reply.starts_with("(error) ERR "),
                "{reply:.300}"
            );
            assert!(reply.len() < 300);
            assert!(server.snapshot() == before);
        }
    }
    // No append fails because of its references.
    let long = "x".repeat(70_000);
    server.call(&[
        "SESSION.APPEND",
        "k",
        "JSON",
        &format!(r#"{{"entity_refs":["{long}","f",""]}}"#),
    ]);
    let document = server.document("k");
    let known: Vec<&String> = document["entities_mentioned"]
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(known, ["e", "f"]);
}
