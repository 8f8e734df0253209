//! Random histories: rules that hold after any commands.

use redis_session_tests::payload::Random;
use redis_session_tests::table::assert_examples;
use redis_session_tests::{bytes, entry, int, items, now_ms, talk, text, Options, Server, Value};

/// Returns a random writing command with random options. Ages are whole hours and bounds on age are off by half an hour, so that
/// nothing expires during the test.
pub fn random_write(random: &mut Random) -> String {
    const HOUR_MS: i64 = 3_600_000;
    let seq = |random: &mut Random| random.below(40);
    let id = |random: &mut Random| random.below(5);
    let guard = match random.below(12) {
        0 => format!("IFVERSION {}", random.below(30)),
        1 => "LEASE 5".into(),
        _ => String::new(),
    };
    let options = match random.below(9) {
        0 => format!("EX {}", 1000 + random.below(100_000)),
        1 => format!("PX {}", 1_000_000 + random.below(100_000_000)),
        2 => "PXAT 4102444800000".into(),
        3 => "PERSIST".into(),
        4 => "KEEPTTL".into(),
        _ => String::new(),
    };
    let at = match random.below(3) {
        0 => format!("AT {}", now_ms() - HOUR_MS * random.below(5) as i64),
        _ => String::new(),
    };
    let w = format!("{options} {guard} {at}");
    let body = |random: &mut Random| {
        let filler = "lorem ipsum ".repeat(random.below(40));
        match random.below(5) {
            0 => format!(
                r#"'{{"tool_calls":[{{"id":"c{}"}},{{"id":"c{}"}}],"x":"{filler}"}}'"#,
                id(random),
                id(random)
            ),
            1 => format!(r#"'{{"role":"tool","tool_call_id":"c{}","x":"{filler}"}}'"#, id(random)),
            2 => format!(
                r#"'{{"role":"system","entity_refs":["e{}","e{}"]}}'"#,
                id(random),
                id(random)
            ),
            3 => format!(
                r#"'{{"type":"function_call","call_id":"c{}","token_count":{}}}'"#,
                id(random),
                random.below(100)
            ),
            _ => format!(r#"'{{"role":"user","content":"{filler}"}}'"#),
        }
    };
    match random.below(32) {
        0 => format!(
            "SESSION.META k '{{\"m{}\":{{\"x\":{}}}}}' {w}",
            id(random),
            random.below(3)
        ),
        1 => {
            let bounds = [
                "MAXLEN 5",
                "MAXLEN 0",
                "MAXLEN 30",
                "MAXTOKENS 500",
                "MAXTOKENS 0",
                "MAXBYTES 3000",
                "MAXBYTES 0",
            ];
            let ages = ["", "MAXAGE 0", "MAXAGE 5400000", "MAXAGE 12600000"];
            let pins = ["", "NOPIN", "PIN system", "PIN tool PIN user"];
            format!(
                "SESSION.WINDOW k {} {} {} {w}",
                bounds[random.below(7)],
                ages[random.below(4)],
                pins[random.below(4)]
            )
        }
        2 => format!("SESSION.POP k COUNT {} {w}", 1 + random.below(4)),
        3 => format!("SESSION.REMOVE k {} {} {w}", seq(random), seq(random)),
        4 => format!(
            "SESSION.REDACT k {} {} REASON r{} {w}",
            seq(random),
            seq(random),
            id(random)
        ),
        5 => format!("SESSION.COMPACT k UPTO {} {w} JSON {}", seq(random), body(random)),
        6 if random.below(5) == 0 => format!("SESSION.CLEAR k {w}"),
        7 => format!("SESSION.GETEX k MESSAGES 0 {options}").replace("KEEPTTL", ""),
        8 => [
            "PEXPIREAT k 4102444800001",
            "PERSIST k",
            "RENAME k k",
            "COPY k k DB 1 REPLACE",
            "EXPIRE k 5000",
        ][id(random)]
        .into(),
        9 => format!(
            "SESSION.APPEND k MAXLEN {} DEDUP t{} {w} MSG user dedup",
            random.below(20),
            id(random)
        ),
        10 => format!(
            "SESSION.APPEND k {w} TOKENS {} MSG assistant composed REF e{}",
            random.below(50),
            id(random)
        ),
        20 => format!(
            "SESSION.ENTITY MENTION k {w} ID e{} NAME \"n {}\" TYPE t{} ALIAS a{}",
            id(random),
            id(random),
            id(random),
            id(random)
        ),
        21 => format!(
            r#"SESSION.ENTITY MENTION k {w} JSON '{{"id":"e{}","aliases":["a{}"]}}' '{{"entity_id":"e{}"}}'"#,
            id(random),
            id(random),
            id(random)
        ),
        23 => format!(
            "SESSION.EVENT ADD k t{} AGENT a{} ENTITIES 2 e{} e{} IMPACT '{{\"perfDelta\":{}}}' {options} {guard}",
            id(random),
            id(random),
            id(random),
            id(random),
            id(random)
        ),
        // Minutes, so that no event expires by `event-ttl` during the test.
        24 => format!(
            "SESSION.EVENT ADD k t{} STATE s{} {options} {guard} AT {}",
            id(random),
            id(random),
            now_ms() - HOUR_MS / 6 * random.below(5) as i64
        ),
        25 | 26 => format!(
            "SESSION.CHECKPOINT CREATE k LABEL l{} {} {w}",
            id(random),
            ["", "TRIM", "REFS 1 e1", "SUMMARY {}"][random.below(4)]
        ),
        27..=29 => format!("SESSION.CHECKPOINT RESTORE k {} {w}", seq(random)),
        30 => format!("SESSION.CHECKPOINT DEL k {} {} {w}", seq(random), seq(random)),
        31 => [
            format!("SESSION.AGENT JOIN k a{} {w}", random.below(1_000_000)),
            format!("SESSION.AGENT LEAVE k a{} {w}", id(random)),
            format!("SESSION.AGENT HANDOFF k a{} a{} {w}", id(random), id(random)),
        ][random.below(3)]
        .clone(),
        22 => format!("SESSION.ENTITY FORGET k 2 e{} e{} {w}", id(random), id(random)),
        _ => {
            let bodies: Vec<String> = (0..1 + random.below(3)).map(|_| body(random)).collect();
            format!("SESSION.APPEND k {w} JSON {}", bodies.join(" "))
        }
    }
}

#[test]
fn every_write_is_drawn() {
    let mut random = Random(1);
    let drawn: Vec<String> = (0..5000).map(|_| random_write(&mut random)).collect();
    let commands = Server::start().commands();
    assert_examples(
        commands.iter().filter(|command| command.is_write()),
        drawn,
        &[
            ("SESSION.CREATE", "a write makes the session where there is none"),
            ("SESSION.FORK", "makes another session"),
            ("SESSION.MIGRATE", "makes a session of other keys"),
            ("SESSION.INDEX ADD", "writes a directory"),
            ("SESSION.ANCHOR ADD", "writes anchors"),
            ("SESSION.AGENT LEASE", "every write after it would be refused"),
            ("SESSION.AGENT RELEASE", "nobody has a lease"),
            ("SESSION.LOAD", "clients may not"),
        ],
    );
}

/// Returns everything of `k`; the expiry and the counters of `INFO` stand for what reads do not show.
fn visible(server: &Server) -> (redis_session_tests::oracle::Visible, String) {
    (server.visible(b"k"), server.say("SESSION.CONTEXT k ENTITIES 9"))
}

#[test]
fn a_write_either_leaves_every_trace_or_none() {
    let server = Options::default().append_only().start();
    let mut kinds = [0; 3];
    for seed in 0..30 {
        let mut random = Random(seed);
        server.run("DEL k");
        let (mut version, mut last_seq) = (0, 0);
        for step in 0..60 {
            let write = random_write(&mut random);
            let told = format!("seed {seed}, step {step}: {write:.300}");
            let before = visible(&server);
            let mut reply = Value::Nil;
            let propagated = server.propagated_lines(|server| reply = server.attempt(&write));
            let after = visible(&server);
            let is_changed = before != after;
            if let Value::ServerError(_) = reply {
                assert!(!is_changed && propagated.is_empty(), "{told}\n{}", talk::render(&reply));
                kinds[0] += 1;
                continue;
            }
            if !write.starts_with("SESSION.") {
                continue;
            }
            // An explicit expiry is a change, even if it is the present one.
            let is_explicit = write
                .split(' ')
                .any(|word| ["EX", "PX", "PXAT", "PERSIST"].contains(&word));
            assert!(
                is_changed != propagated.is_empty() || is_explicit && !is_changed,
                "{told}\n{propagated:#?}"
            );
            kinds[1 + usize::from(is_changed)] += 1;
            if server.say("EXISTS k") == "(integer) 0" {
                version = 0;
                continue;
            }
            let is_content = before.0.range != after.0.range
                || is_changed
                    && [
                        "SESSION.APPEND",
                        "SESSION.ENTITY MENTION",
                        "SESSION.EVENT ADD",
                        "SESSION.CHECKPOINT CREATE",
                        "SESSION.CHECKPOINT RESTORE",
                    ]
                    .iter()
                    .any(|name| write.starts_with(name));
            let is_new = version == 0;
            let now = server.version_of("k");
            assert!(
                (0..=1 + i64::from(is_new)).contains(&(now - version)),
                "{told}: version {version} and then {now}"
            );
            assert!(
                now > version || !is_content,
                "{told}: content changed and the version did not"
            );
            assert!(is_changed || now == version, "{told}");
            version = now;
            let now = int(&server.info_of("k", "last_seq"));
            assert!(now >= last_seq || is_new, "{told}: seq went back");
            last_seq = now;
        }
    }
    println!(
        "{} refused, {} changed nothing, {} changed something",
        kinds[0], kinds[1], kinds[2]
    );
    assert!(kinds.iter().all(|count| *count > 100), "{kinds:?}");
}

/// A row of `RANGE … WITHMETA`.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    seq: i64,
    ms: i64,
    role: String,
    tokens: i64,
    body: String,
}

fn rows(reply: &Value) -> Vec<Row> {
    let row = |row: &Value| {
        let row = items(row);
        Row {
            seq: int(&row[0]),
            ms: int(&row[1]),
            role: text(&row[2]),
            tokens: int(&row[3]),
            body: text(&row[4]),
        }
    };
    items(reply).iter().map(row).collect()
}

#[test]
fn every_reading_is_a_view_of_the_same_messages() {
    for compress_after in ["1", "4096"] {
        let server = Options::default()
            .config("session.compress-after", compress_after)
            .start();
        for seed in 0..40 {
            let mut random = Random(seed + 500);
            server.run("DEL k");
            server.run(["SESSION.CREATE k LIMIT maxlen 0", "SESSION.CREATE k"][random.below(2)]);
            for _ in 0..30 + random.below(90) {
                server.attempt(&random_write(&mut random));
            }
            if server.say("EXISTS k") == "(integer) 0" {
                continue;
            }
            let all = rows(&server.run("SESSION.RANGE k 0 -1 WITHMETA"));
            assert!(
                all.windows(2).all(|pair| pair[0].seq < pair[1].seq),
                "seed {seed}: {all:?}"
            );
            assert_eq!(int(&server.run("SESSION.LEN k")), all.len() as i64);
            let info = server.run("SESSION.INFO k");
            assert_eq!(int(&entry(&info, "message_count")), all.len() as i64);
            assert!(int(&entry(&info, "last_seq")) >= all.last().map_or(0, |row| row.seq));
            let document = text(&server.run("SESSION.GET k"));
            let bodies: Vec<&str> = all.iter().map(|row| row.body.as_str()).collect();
            assert!(
                document.contains(&format!(r#""messages":[{}]"#, bodies.join(","))),
                "seed {seed}: {document}"
            );
            let context = server.run("SESSION.CONTEXT k");
            assert_eq!(
                items(&entry(&context, "messages")).iter().map(text).collect::<Vec<_>>(),
                bodies
            );
            assert_eq!(
                int(&entry(&context, "tokens")),
                all.iter().map(|row| row.tokens).sum::<i64>()
            );
            for _ in 0..60 {
                let (query, expected) = random_range(&mut random, &all);
                assert_eq!(rows(&server.run(&query)), expected, "seed {seed}: {query}");
            }
        }
    }
}

/// A random range, and the expected reply.
fn random_range(random: &mut Random, all: &[Row]) -> (String, Vec<Row>) {
    let (by, mut selected): (String, Vec<Row>) = match random.below(3) {
        0 => {
            let len = all.len() as i64;
            let index = |random: &mut Random| random.below(2 * all.len() + 6) as i64 - len - 3;
            let (start, stop) = (index(random), index(random));
            let absolute = |index: i64| if index < 0 { len + index } else { index };
            let in_range = |at: i64| absolute(start).max(0) <= at && at <= absolute(stop);
            let selected = (0..len)
                .filter(|at| in_range(*at))
                .map(|at| all[at as usize].clone())
                .collect();
            (format!("{start} {stop}"), selected)
        }
        kind => {
            let of = |row: &Row| if kind == 1 { row.seq } else { row.ms };
            let mut end = |open: &str, bounds: (i64, i64)| match random.below(4) {
                0 => (open.to_string(), None),
                exclusive => {
                    let near = if all.is_empty() {
                        5
                    } else {
                        of(&all[random.below(all.len())])
                    };
                    let n = (near + [0, 0, 1, -1][random.below(4)]).max(0);
                    let mark = if exclusive == 1 { "(" } else { "" };
                    (
                        format!("{mark}{n}"),
                        Some(n + if exclusive == 1 { bounds.0 } else { bounds.1 }),
                    )
                }
            };
            let (start, from) = end("-", (1, 0));
            let (stop, to) = end("+", (-1, 0));
            let is_in = |row: &&Row| from.is_none_or(|from| of(row) >= from) && to.is_none_or(|to| of(row) <= to);
            (
                format!("{start} {stop} {}", ["BYSEQ", "BYTIME"][kind - 1]),
                all.iter().filter(is_in).cloned().collect(),
            )
        }
    };
    let mut query = format!("SESSION.RANGE k {by} WITHMETA");
    let roles: Vec<&str> = ["user", "tool", "other"]
        .into_iter()
        .filter(|_| random.below(4) == 0)
        .collect();
    if !roles.is_empty() {
        roles.iter().for_each(|role| query += &format!(" ROLE {role}"));
        selected.retain(|row| roles.contains(&row.role.as_str()));
    }
    if random.below(2) == 0 {
        query += " REV";
        selected.reverse();
    }
    if random.below(2) == 0 {
        let count = 1 + random.below(8);
        query += &format!(" COUNT {count}");
        selected.truncate(count);
    }
    (query, selected)
}

#[test]
fn nothing_leaks() {
    let server = Server::with("session.compress-after", 512).start();
    let mut client = server.client();
    let mut cycle = |server: &Server| {
        for seed in 0..12 {
            let mut random = Random(seed);
            for _ in 0..120 {
                client.attempt(&random_write(&mut random));
            }
            client.attempt("SESSION.APPEND k JSON {} []");
            client.attempt("SESSION.META k '{\"a\":'");
            client.attempt("SESSION.APPEND k IFVERSION 0 MSG user hi REF e");
            for reading in [
                "GET k",
                "RANGE k 0 -1 WITHMETA",
                "CONTEXT k ENTITIES 5",
                "INFO k",
                "RANGE k x y",
                "ENTITY LIST k",
                "ENTITY RESOLVE k he ALL",
                "ENTITY RESOLVE k nobody ANY",
                "ENTITY MENTION k JSON {} []",
            ] {
                client.attempt(&format!("SESSION.{reading}"));
            }
            client.attempt("COPY k copy REPLACE");
            client.attempt("SESSION.REDACT copy 1 2 3 4 5 6 7 8");
            if let Value::BulkString(mut dump) = client.attempt("DUMP k") {
                client.call(&[b"RESTORE".as_slice(), b"restored", b"0", &dump, b"REPLACE"]);
                let middle = dump.len() / 2;
                dump[middle] ^= 0x55;
                redis_session_tests::payload::seal(&mut dump);
                client.call(&[b"RESTORE".as_slice(), b"spoiled", b"0", &dump, b"REPLACE"]);
            }
        }
        server.run("DEBUG RELOAD");
        server.run("FLUSHALL SYNC");
        server.info_number("memory", "used_memory")
    };
    let warm = (0..3).map(|_| cycle(&server)).max().expect("a figure");
    let later = (0..6).map(|_| cycle(&server)).min().expect("a figure");
    assert!(
        later < warm + 50_000,
        "{warm} bytes after three rounds, {later} after more"
    );
    let raw = bytes(&server.run("INFO session"));
    assert!(String::from_utf8_lossy(&raw).contains("session_bytes_stored:0"));
}
