//! Payloads from outside: whatever is passed to `RESTORE`, the server survives, and what it accepts can be read, written and saved.

use redis_session_tests::payload::{seal, Random, FOOTER_LEN};
use redis_session_tests::{bytes, talk, Options, Server, Value};

/// The type byte and the id of the module's type: the server validates these itself.
const HEADER_LEN: usize = 10;

fn server() -> Server {
    // Uncompressed, so that corrupted bytes reach the module's decoder and not the server's.
    Options::default().config("rdbcompression", "no").start()
}

/// Dumps of values of every kind.
fn originals(server: &Server) -> Vec<Vec<u8>> {
    server.run("CONFIG SET session.compress-after 256");
    server.conversation(
        r#"
        > SESSION.CREATE empty
        > SESSION.CREATE full SCOPE acme STATE review META '{"a":{"b":[1,2,{"c":null}]}}' LIMIT maxlen 30 LIMIT maxtokens 5000 PIN system PIN developer
        > SESSION.APPEND full DEDUP t1 MSG system "be nice" REF e1 REF e2
        > SESSION.APPEND full DEDUP t2 JSON '{"tool_calls":[{"id":"a"},{"id":"b"}]}' '{"tool_call_id":"a"}' '{"role":"user"}' '{"tool_call_id":"b"}'
        > SESSION.APPEND full MSG assistant "" TOOL_CALL c1 look '{}' REF e3
        > SESSION.EVENT ADD full broke AGENT a ENTITIES 1 e1 CHANGE '{"x":[1]}' IMPACT '{"p":-1}' STATE done
        > SESSION.EVENT ADD full user STATE review
        > SESSION.REDACT full 4 REASON gdpr
        > SESSION.AGENT JOIN agents a META '{"x":[1]}'
        > SESSION.AGENT JOIN agents b
        > SESSION.AGENT LEASE agents gone PXAT 1000
        > SESSION.AGENT LEASE agents a PXAT 4102444800000
        > SESSION.AGENT HANDOFF agents a b NOTE "your turn"
        > SESSION.APPEND closed MSG user hi REF e1
        > SESSION.AGENT JOIN closed a
        > SESSION.CHECKPOINT CREATE closed LABEL l OUTCOME o SUMMARY '{"s":[1]}' REFS 2 a b CLOSE
        > SESSION.CREATE checkpoints LIMIT maxlen 0
        > SESSION.ANCHOR ADD anchors s1 OUTCOME pass CHECKPOINT 7 IMPACTS 2 e1 e2 PERF -1.50 AT 4102444800000
        > SESSION.ANCHOR ADD anchors s2 MAXAGE 604800000
        > SESSION.ANCHOR ADD anchors s3 OUTCOME broke
        > SESSION.CREATE long LIMIT maxlen 0
        > SESSION.CREATE holes LIMIT maxlen 0
        > SESSION.CREATE first INDEX directory ALIAS home AT 1000
        > SESSION.CREATE second INDEX directory
        > SESSION.CREATE third INDEX directory ALIAS "münchen 2" AUTONAME AT 2000
        "#,
    );
    for n in 0..60 {
        for key in ["long", "holes", "checkpoints"] {
            server.run(&format!(
                r#"SESSION.APPEND {key} DEDUP t{n} JSON '{{"role":"user","n":{n},"x":"{}"}}'"#,
                "lorem ipsum ".repeat(n % 7)
            ));
        }
    }
    server.run("SESSION.REMOVE holes 2 3 5 30 31 32");
    server.run("SESSION.POP holes COUNT 5");
    server.run("SESSION.WINDOW holes MAXLEN 40");
    // The checkpoints 62, 64 and 67, which share chunks with the session, with each other, and have some of their own.
    server.conversation(
        r#"
        > SESSION.AGENT JOIN checkpoints a META '{"x":[1]}'
        > SESSION.EVENT ADD checkpoints broke ENTITIES 1 e1 IMPACT '{"p":-1}' STATE review
        (integer) 61
        > SESSION.CHECKPOINT CREATE checkpoints LABEL l
        (integer) 62
        > SESSION.REMOVE checkpoints 2 3 40
        > SESSION.APPEND checkpoints MSG user hi REF e1
        (integer) 63
        > SESSION.CHECKPOINT CREATE checkpoints OUTCOME o TRIM
        (integer) 64
        > SESSION.WINDOW checkpoints MAXLEN 30 PIN user
        > SESSION.CHECKPOINT RESTORE checkpoints 62
        > SESSION.APPEND checkpoints MSG user hi REF e2
        (integer) 66
        > SESSION.CHECKPOINT CREATE checkpoints
        (integer) 67
        > SESSION.REDACT checkpoints 50
        "#,
    );
    let dump = |key: &&str| bytes(&server.call(&["DUMP", key]));
    [
        "empty",
        "closed",
        "anchors",
        "full",
        "agents",
        "long",
        "holes",
        "checkpoints",
        "checkpoints",
        "directory",
    ]
    .iter()
    .map(dump)
    .collect()
}

/// Corrupts bytes: bits, numbers, lengths, pieces from elsewhere.
fn spoil(body: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    if body.is_empty() {
        return body.extend_from_slice(other);
    }
    let at = random.below(body.len());
    let len = 1 + random.below((body.len() - at).min(40));
    match random.below(12) {
        0 | 1 => body[at] ^= 1 << random.below(8),
        2 => body[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        3 => body[at] = random.draw() as u8,
        4 => body[at] = body[at].wrapping_add(1),
        5 => drop(body.drain(at..at + len)),
        6 => body.truncate(at),
        7 => {
            let copy = body[at..at + len].to_vec();
            body.splice(at..at, copy);
        }
        8 => {
            // The greatest number that the bytes can encode.
            let end = (at + 1 + random.below(9)).min(body.len());
            body[at..end].fill(0xff);
        }
        9 => {
            let noise: Vec<u8> = (0..len).map(|_| random.draw() as u8).collect();
            body.splice(at..at, noise);
        }
        10 => body[at..at + len].reverse(),
        _ => {
            let from = random.below(other.len());
            let piece = &other[from..(from + len).min(other.len())];
            body.splice(at..at + len, piece.iter().copied());
        }
    }
}

/// Splits the saved form of a value into its strings, if it consists of strings only.
fn strings_of(payload: &[u8]) -> Option<Vec<Vec<u8>>> {
    const STRING: u8 = 5;
    let mut rest = &payload[HEADER_LEN..payload.len() - FOOTER_LEN];
    let mut strings = Vec::new();
    while let [STRING, head, tail @ ..] = rest {
        let (len, tail) = match head >> 6 {
            0 => (usize::from(*head), tail),
            1 => (usize::from(head & 0x3f) << 8 | usize::from(*tail.first()?), &tail[1..]),
            2 if *head == 0x80 => (u32::from_be_bytes(tail.get(..4)?.try_into().ok()?) as usize, &tail[4..]),
            _ => return None,
        };
        strings.push(tail.get(..len)?.to_vec());
        rest = &tail[len..];
    }
    (rest == [0]).then_some(strings)
}

/// The inverse of [`strings_of`]: makes a payload that the server itself accepts.
fn payload_of(strings: &[Vec<u8>], like: &[u8]) -> Vec<u8> {
    let mut payload = like[..HEADER_LEN].to_vec();
    for string in strings {
        payload.extend([5, 0x80]);
        payload.extend((string.len() as u32).to_be_bytes());
        payload.extend_from_slice(string);
    }
    payload.push(0);
    payload.extend_from_slice(&like[like.len() - FOOTER_LEN..]);
    payload
}

/// Corrupts a payload between the server's header and footer; the checksum is right. Every other time the server's own framing
/// stays right too, so that the module's decoder must detect the damage.
fn mutate(original: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let other = &others[random.below(others.len())];
    let mut payload = match (strings_of(original), strings_of(other)) {
        (Some(mut strings), Some(others)) if random.below(4) != 0 => {
            let at = random.below(strings.len());
            let foreign = &others[random.below(others.len())];
            match random.below(12) {
                0 => drop(strings.remove(at)),
                1 => strings.insert(at, foreign.clone()),
                2 => strings[at] = foreign.clone(),
                3 => {
                    let to = random.below(strings.len());
                    strings.swap(at, to);
                }
                _ => (0..1 + random.below(2)).for_each(|_| spoil(&mut strings[at], foreign, random)),
            }
            payload_of(&strings, original)
        }
        _ => {
            let mut body = original[HEADER_LEN..original.len() - FOOTER_LEN].to_vec();
            spoil(&mut body, &other[HEADER_LEN..], random);
            [&original[..HEADER_LEN], &body, &original[original.len() - FOOTER_LEN..]].concat()
        }
    };
    seal(&mut payload);
    payload
}

/// Every reading and writing command.
const COMMANDS: [&str; 100] = [
    "SESSION.INDEX LEN k",
    "SESSION.INDEX LIST k",
    "SESSION.INDEX LIST k MATCH *o* BYACTIVITY LIMIT 0 5",
    "SESSION.INDEX RESOLVE k home",
    "SESSION.INDEX ADD k second ALIAS home",
    "DEL member",
    "SESSION.CREATE member INDEX k ALIAS other",
    "TYPE k",
    "DEBUG DIGEST-VALUE k",
    "MEMORY USAGE k",
    "SESSION.LEN k",
    "SESSION.INFO k",
    "SESSION.GET k",
    "SESSION.GET k MESSAGES 3",
    "SESSION.RANGE k 0 -1 WITHMETA",
    "SESSION.RANGE k -3 -2 REV",
    "SESSION.RANGE k 5 20 BYSEQ",
    "SESSION.RANGE k - + BYSEQ REV COUNT 3",
    "SESSION.RANGE k - + BYTIME ROLE user",
    "SESSION.RANGE k 0 -1 MALFORMED",
    "SESSION.CONTEXT k",
    "SESSION.CONTEXT k MAXTOKENS 50 MAXLEN 5 ENTITIES 5 ROLE user",
    "DUMP k",
    "COPY k copy REPLACE",
    "SESSION.ANCHOR GET k",
    "SESSION.ANCHOR GET k SESSION s1",
    "SESSION.ANCHOR ADD k s1 OUTCOME pass IMPACTS 1 e1",
    "SESSION.ANCHOR ADD k s4 MAXLEN 2",
    "SESSION.ANCHOR GET k",
    "SESSION.ANCHOR GET copy",
    "SESSION.ANCHOR ADD copy s5 MAXAGE 1 AT 5",
    "SESSION.GETEX k MESSAGES 1",
    "SESSION.CHECKPOINT LIST k",
    "SESSION.CHECKPOINT GET k 62",
    "SESSION.READ k 0",
    "SESSION.FORK k fork REPLACE",
    "SESSION.FORK k cut UPTO 30 REPLACE",
    "SESSION.FORK k old CHECKPOINT 62 REPLACE",
    "SESSION.APPEND old MSG user hi",
    "SESSION.REDACT old 1 7 63",
    "SESSION.GET old",
    "SESSION.POP cut COUNT 20",
    "DUMP cut",
    "SESSION.CHECKPOINT CREATE k STORE ref REFS 0",
    "SESSION.CHECKPOINT RESTORE k 64",
    "SESSION.REDACT k 11 41",
    "SESSION.RANGE k 0 -1 WITHMETA",
    "SESSION.CHECKPOINT RESTORE k 62",
    "SESSION.COMPACT k UPTO 5 MSG system s",
    "SESSION.CHECKPOINT RESTORE k 67",
    "SESSION.CHECKPOINT DEL k 62",
    "DUMP k",
    "SESSION.CHECKPOINT RESTORE k 3",
    "MEMORY USAGE k",
    "SESSION.AGENT LIST k",
    "SESSION.AGENT JOIN k c META {}",
    "SESSION.AGENT JOIN k a",
    "SESSION.AGENT LEASE k b 1000000",
    "SESSION.AGENT HANDOFF k b c",
    "DUMP k",
    "SESSION.AGENT LEAVE k c",
    "SESSION.AGENT LEAVE k b",
    "SESSION.AGENT LEAVE k a",
    "SESSION.AGENT LEASE k d 1000000",
    "SESSION.AGENT LEAVE k d",
    "SESSION.ENTITY LIST k",
    "SESSION.ENTITY RESOLVE k e ALL",
    "SESSION.ENTITY MENTION k ID e2 ALIAS e1",
    "SESSION.ENTITY FORGET k 2 e1 nobody",
    "SESSION.EVENT LEN k",
    "SESSION.EVENT RANGE k - +",
    "SESSION.EVENT RANGE k - + REV TYPE broke ENTITY e1 AGENT a FROM review TO done",
    "SESSION.EVENT RANGE k 3 9 ENTITY e1 COUNT 2",
    "SESSION.EVENT ADD k broke AGENT a ENTITIES 1 e1 STATE done",
    "SESSION.APPEND k KEEPTTL EVICTED DEDUP t1 MSG user hi REF e1",
    "SESSION.APPEND k JSON '{\"tool_calls\":[{\"id\":\"a\"}]}' '{\"tool_call_id\":\"a\"}'",
    "SESSION.META k '{\"a\":{\"z\":1}}'",
    "SESSION.REMOVE k 1 7 8",
    "SESSION.REDACT k 2 9 10",
    "SESSION.COMPACT k UPTO 12 MSG system summary",
    "SESSION.POP k COUNT 2",
    "SESSION.WINDOW k MAXLEN 6 MAXTOKENS 100 MAXBYTES 1000 MAXAGE 1000 PIN user",
    "SESSION.RANGE k 0 -1 WITHMETA",
    "SESSION.GET k",
    "SESSION.WINDOW k NOPIN MAXLEN 2",
    "SESSION.APPEND k MAXLEN 0 AT 5 MSG user hi",
    "SESSION.INFO k",
    "DEBUG DIGEST-VALUE k",
    "DUMP k",
    "SESSION.CLEAR k",
    "SESSION.APPEND k MSG user hi",
    "SESSION.GET k",
    "SESSION.RANGE copy 0 -1",
    "SESSION.POP copy COUNT 1000",
    "SESSION.GET copy",
    "SESSION.CREATE k OPEN",
    "SESSION.CHECKPOINT DEL k 3 64 67",
    "DEL k",
    "SESSION.RANGE fork 0 -1",
    "RENAME copy k",
];

#[test]
fn spoiled_payloads_never_kill_the_server() {
    let server = server();
    let originals = originals(&server);
    let mut client = server.client();
    let commands: Vec<Vec<Vec<u8>>> = COMMANDS.iter().map(|command| talk::split(command)).collect();
    let (mut refused, mut accepted) = (0, 0);
    for seed in 0..8000 {
        let mut random = Random(seed);
        let original = &originals[random.below(originals.len())];
        let payload = mutate(original, &originals, &mut random);
        let restore = [b"RESTORE".as_slice(), b"k", b"0", &payload, b"REPLACE"];
        let told = || format!("seed {seed}, payload {}", talk::quote(&payload));
        let reply = client
            .try_call(&restore)
            .unwrap_or_else(|error| panic!("RESTORE: {error}; {}", told()));
        if !matches!(reply, Value::Okay) {
            refused += 1;
            continue;
        }
        accepted += 1;
        // What was accepted can be saved, and the saved form can be loaded.
        let dump = bytes(&client.call(&["DUMP", "k"]));
        let reply = client.call(&[b"RESTORE".as_slice(), b"again", b"0", &dump, b"REPLACE"]);
        assert_eq!(
            talk::render(&reply),
            "OK",
            "an accepted value does not load again; {}",
            told()
        );
        assert_eq!(server.digest(b"k"), server.digest(b"again"), "{}", told());
        let replies = client
            .pipeline(&commands)
            .unwrap_or_else(|error| panic!("{error}; {}", told()));
        for (command, reply) in COMMANDS.iter().zip(&replies) {
            let shown = match reply {
                Value::ServerError(_) => talk::render(reply),
                _ => continue,
            };
            assert!(!shown.contains("internal"), "{command}: {shown}; {}", told());
        }
        if accepted % 200 == 0 {
            server.run("DEBUG RELOAD");
        }
    }
    println!("{refused} payloads refused, {accepted} accepted");
    assert!(
        refused > 500 && accepted > 500,
        "{refused} refused, {accepted} accepted: the spoiling is too crude or too gentle"
    );
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
    assert_eq!(server.say("PING"), "PONG");
}

#[test]
fn every_truncation_and_every_byte_of_a_small_payload() {
    let server = server();
    let originals = originals(&server);
    let mut client = server.client();
    let mut variants = Vec::new();
    // An empty session, one with a checkpoint, anchors and a directory.
    for small in originals[..3].iter().chain(originals.last()) {
        for at in HEADER_LEN..small.len() - FOOTER_LEN {
            for byte in 0..=255u8 {
                if byte != small[at] && (small.len() < 400 || byte % 5 == 0) {
                    let mut payload = small.clone();
                    payload[at] = byte;
                    variants.push(payload);
                }
            }
        }
    }
    for original in &originals {
        for at in (HEADER_LEN..original.len() - FOOTER_LEN).step_by(1 + original.len() / 400) {
            variants.push([&original[..at], &original[original.len() - FOOTER_LEN..]].concat());
        }
    }
    for mut payload in variants {
        seal(&mut payload);
        let commands = [
            vec![
                b"RESTORE".to_vec(),
                b"k".to_vec(),
                b"0".to_vec(),
                payload.clone(),
                b"REPLACE".to_vec(),
            ],
            talk::split("SESSION.GET k"),
            talk::split("SESSION.RANGE k 0 -1"),
            talk::split("SESSION.FORK k fork CHECKPOINT 2 REPLACE"),
            talk::split("SESSION.CHECKPOINT RESTORE k 2"),
            talk::split("SESSION.APPEND k EVICTED MSG user hi"),
            talk::split("SESSION.APPEND fork EVICTED MSG user hi"),
            talk::split("SESSION.INFO k"),
            talk::split("SESSION.ANCHOR GET k"),
            talk::split("SESSION.ANCHOR ADD k s2"),
            talk::split("SESSION.INDEX LIST k"),
            talk::split("SESSION.INDEX ADD k second"),
            talk::split("DEL k"),
        ];
        client
            .pipeline(&commands)
            .unwrap_or_else(|error| panic!("{error}; payload {}", talk::quote(&payload)));
    }
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
}

#[test]
fn spoiled_append_only_files_never_crash_the_server() {
    let server = Server::append_only()
        .config("aof-use-rdb-preamble", "no")
        .config("rdbcompression", "no")
        .start();
    originals(&server);
    server.rewrite_append_only_file();
    let folder = server.file("appendonlydir");
    let base = std::fs::read_dir(&folder)
        .expect("the folder of the append-only file")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains(".base."))
        .expect("a base file");
    let original = std::fs::read(&base).expect("the base file");
    let commands = redis_session_tests::journal::parse(&original);
    assert!(commands
        .iter()
        .any(|command| command[0].eq_ignore_ascii_case(b"SESSION.LOAD")));
    let mut random = Random(7);
    for round in 0..25 {
        let mut spoiled = Vec::new();
        for command in &commands {
            let mut command = command.clone();
            if command[0].eq_ignore_ascii_case(b"SESSION.LOAD") {
                let payload = command.last_mut().expect("a payload");
                match random.below(4) {
                    0 => payload.truncate(random.below(payload.len())),
                    1 => payload.clear(),
                    _ => {
                        let at = random.below(payload.len());
                        payload[at] ^= 1 << random.below(8);
                    }
                }
            }
            spoiled.extend(redis::pack_command(&command));
        }
        std::fs::write(&base, spoiled).expect("the base file");
        // The server may refuse to start, but must not crash.
        let started = server.try_restart_with(&Options::default());
        assert!(
            !server.log().contains("BUG REPORT") && !server.log().contains("panicked"),
            "round {round}"
        );
        if started.is_ok() {
            for key in ["empty", "closed", "full", "long", "holes", "checkpoints"] {
                server.attempt(&format!("SESSION.GET {key}"));
                server.attempt(&format!("SESSION.FORK {key} fork REPLACE"));
                server.attempt(&format!("SESSION.CHECKPOINT RESTORE {key} 62"));
                server.attempt(&format!("SESSION.APPEND {key} MSG user hi"));
            }
            server.attempt("SESSION.ANCHOR GET anchors");
            server.attempt("SESSION.ANCHOR ADD anchors s2");
            assert_eq!(server.say("PING"), "PONG");
        }
        // Undoes the appends of this round.
        std::fs::write(&base, &original).expect("the base file");
    }
    server
        .try_restart_with(&Options::default())
        .expect("the file as it was loads");
}
