//! `redis-session migrate`.

use std::process::Stdio;

use redis_session_core::layout::{Format, KeyName, Sample};
use redis_session_tests::{int, items, talk, text, wait_until, Client, Cluster, Options, Server};
use serde_json::json;

use crate::{program, report, run, stderr, stdout};

/// One session of each layout, and how many messages or events it has.
const LAYOUTS: [(&str, &str, u64); 13] = [
    (
        "json-array",
        r#"SET {p}a:messages '[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]'"#,
        2,
    ),
    (
        "json-list",
        r#"RPUSH {p}l:messages '{"role":"user","content":"hi"}' '{"role":"assistant","content":"yes"}'"#,
        2,
    ),
    (
        "context",
        r#"SET {p}m1:u1:context '{"session_id":"9f0c6a52-0a4f-4f0e-8b6e-3f1f2c9d5a11","matter_id":"m1","user_id":"u1","messages":[{"role":"user","content":"x"}],"entities_mentioned":{}}'"#,
        1,
    ),
    (
        "hash-list",
        r#"HSET {p}h title x created_at 2026-01-14T10:00:00Z;RPUSH {p}h:messages '{"role":"user","content":"hi"}'"#,
        1,
    ),
    (
        "hash-list",
        r#"HSET {p}hs title x;SET {p}hs:messages '[{"role":"user","content":"hi"}]'"#,
        1,
    ),
    (
        "live-hash",
        r#"HSET {p}live agentIds '["a1"]' state working;ZADD {p}live:history 1 '{"seq":1,"type":"modified"}' 2 '{"seq":2,"type":"pass"}'"#,
        2,
    ),
    (
        "openai-agents",
        r#"HSET agents:{p}o session_id o created_at 1768384800 updated_at 1768384801;RPUSH agents:{p}o:messages '{"type":"reasoning","summary":[]}' '{"role":"user","content":"hi"}';SET agents:{p}o:counter 2"#,
        2,
    ),
    (
        "langchain",
        r#"LPUSH message_store:{p}c '{"type":"human","data":{"content":"1"}}' '{"type":"ai","data":{"content":"2"}}'"#,
        2,
    ),
    (
        "motorhead",
        r#"LPUSH session:m{n} 'Human: ping' 'AI: pong';SET context:m{n} 'They played.'"#,
        2,
    ),
    (
        "agent-framework",
        r#"RPUSH chat_messages:{p}f '{"type":"message","role":"user","contents":[]}'"#,
        1,
    ),
    (
        "agent-memory",
        r#"SET working_memory:{p}w '{"messages":[{"role":"user","content":"hi"}],"memories":[]}'"#,
        1,
    ),
    (
        "adk",
        r#"SET adk:session:{p}d '{"id":"s","app_name":"a","user_id":"u","state":{},"events":[{"id":"e","author":"user"}]}'"#,
        1,
    ),
    ("llama-index", r#"RPUSH {p}x '{"role":"user","blocks":[]}'"#, 1),
];

/// What is no session, though it may look like one.
const OTHERS: [&str; 10] = [
    r#"RPUSH jobs '{"job":1}' '{"job":2}'"#,
    "RPUSH log 'INFO: started' 'INFO: stopped'",
    "RPUSH session:log 'INFO: started' 'INFO: stopped'",
    r#"SET cache '{"a":1}'"#,
    "SET counter 5",
    r#"ZADD board 1 '{"seq":1}'"#,
    "HSET user:1 name x state y",
    r#"RPUSH mixed '{"role":"user","content":"x"}' '{"type":"ai","data":{}}'"#,
    "SADD set a",
    "XADD stream * a b",
];

fn fill(client: &mut Client, n: usize) {
    for (_, commands, _) in LAYOUTS {
        let commands = commands
            .replace("{p}", &format!("session:{n}-"))
            .replace("{n}", &n.to_string());
        for line in commands.split(';') {
            client.run(line);
        }
    }
}

/// Writes a layout's sample under the names that its keys have; where the session is to be.
fn write_sample(server: &Server, format: Format) -> String {
    let common = format!("{}-1", format.name());
    let name = |name: &KeyName| String::from_utf8(name.named(common.as_bytes())).expect("text");
    assert!(!format.sample.is_empty(), "{format:?} has no sample");
    for (key, sample) in format.keys.iter().map(name).zip(format.sample) {
        let mut words = match sample {
            Sample::String(text) => vec!["SET".to_owned(), key, (*text).to_owned()],
            Sample::List(_) => vec!["RPUSH".to_owned(), key],
            Sample::Hash(_) => vec!["HSET".to_owned(), key],
            Sample::Zset(_) => vec!["ZADD".to_owned(), key],
        };
        match sample {
            Sample::String(_) => {}
            Sample::List(elements) => words.extend(elements.iter().map(ToString::to_string)),
            Sample::Hash(fields) => words.extend(
                fields
                    .iter()
                    .flat_map(|(name, value)| [name.to_string(), value.to_string()]),
            ),
            Sample::Zset(members) => {
                words.extend(
                    members
                        .iter()
                        .flat_map(|(score, member)| [score.to_string(), member.to_string()]),
                );
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.call(&words);
    }
    name(&format.keys[0])
}

#[test]
fn every_layout_of_the_table_is_found_by_the_names_of_its_keys() {
    let server = Server::start();
    let formats: Vec<(Format, String)> = Format::all()
        .map(|format| (format, write_sample(&server, format)))
        .collect();
    let keys = int(&server.run("DBSIZE"));
    let done = report(&server, "migrate", 0);
    assert_eq!(done["skipped"], 0, "{done:#}");
    for (format, key) in &formats {
        let layout = &done["layouts"][format.name()];
        assert_eq!(
            (&layout["found"], &layout["migrated"]),
            (&json!(1), &json!(1)),
            "{format:?} in {done:#}"
        );
        assert_eq!(text(&server.call(&["TYPE", key])), "rdsession", "{format:?}");
    }
    assert_eq!(
        int(&server.run("DBSIZE")),
        formats.len() as i64,
        "of {keys} keys: one session each"
    );

    // The flag knows the same names.
    for (format, _) in &formats {
        run(
            &server,
            &format!("migrate --dry-run --format {} --match nothing", format.name()),
            0,
        );
    }
    run(&server, "migrate --dry-run --format nonsense --match nothing", 2);

    // And so do the examples above.
    let names: Vec<&str> = formats.iter().map(|(format, _)| format.name()).collect();
    let mut shown = LAYOUTS.map(|(format, ..)| format).to_vec();
    shown.dedup();
    assert_eq!(shown, names);
}

fn contents(server: &Server) -> Vec<(String, String)> {
    let mut keys: Vec<String> = items(&server.run("KEYS *")).iter().map(text).collect();
    keys.sort();
    let digest = |key: &String| talk::render(&server.call(&["DEBUG", "DIGEST-VALUE", key]));
    keys.iter().map(|key| (key.clone(), digest(key))).collect()
}

#[test]
fn every_layout_becomes_a_session_and_nothing_else_is_touched() {
    let server = Server::start();
    fill(&mut server.client(), 1);
    OTHERS.iter().for_each(|line| {
        server.run(line);
    });
    server.run("PEXPIRE session:1-l:messages 100000000");
    server.run("RPUSH session:1-l:messages not-json");
    let others: Vec<&str> = OTHERS.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let before: Vec<_> = others
        .iter()
        .map(|key| talk::render(&server.call(&["DUMP", key])))
        .collect();
    let whole = contents(&server);

    let dry = report(&server, "migrate --dry-run", 0);
    assert_eq!(contents(&server), whole, "a dry run writes nothing");
    assert_eq!(dry["dry_run"], true);

    let done = report(&server, "migrate", 0);
    for report in [&dry, &done] {
        for format in LAYOUTS.map(|(format, ..)| format) {
            let layout = &report["layouts"][format];
            let these = LAYOUTS.iter().filter(|(name, ..)| *name == format);
            assert_eq!(layout["found"], these.clone().count(), "{format} in {report:#}");
            let elements: u64 = these.map(|(_, _, elements)| elements).sum();
            let counted = layout["messages"].as_u64().unwrap() + layout["events"].as_u64().unwrap();
            assert_eq!(counted, elements, "{format} in {report:#}");
            assert_eq!(layout["skipped"], 0);
        }
        let formats: std::collections::BTreeSet<&str> = LAYOUTS.iter().map(|(format, ..)| *format).collect();
        assert_eq!(
            report["layouts"].as_object().unwrap().len(),
            formats.len(),
            "{report:#}"
        );
        assert_eq!(report["layouts"]["json-list"]["malformed"], 1);
        // jobs, mixed, cache by their shape; both logs by their lines
        assert_eq!(report["skipped"], 5, "{report:#}");
    }
    let after: Vec<_> = others
        .iter()
        .map(|key| talk::render(&server.call(&["DUMP", key])))
        .collect();
    assert_eq!(after, before);
    assert_eq!(int(&server.run("DBSIZE")) as usize, LAYOUTS.len() + OTHERS.len());
    assert!(int(&server.run("PTTL session:1-l:messages")) > 90_000_000);
    server.conversation(
        r#"
        > SESSION.RANGE session:m1 0 -1
        1) '{"role":"Human","content":"ping"}'
        2) '{"role":"AI","content":"pong"}'
        > SESSION.RANGE session:1-l:messages 0 -1 MALFORMED
        1) "not-json"
        > SESSION.EVENT LEN session:1-live
        (integer) 2
        > TYPE agents:session:1-o
        rdsession
        > EXISTS agents:session:1-o:counter session:1-live:history session:1-h:messages context:m1
        (integer) 0
        "#,
    );

    let whole = contents(&server);
    let again = report(&server, "migrate", 0);
    assert_eq!(again["already"], LAYOUTS.len(), "{again:#}");
    assert_eq!(again["skipped"], 5);
    assert_eq!(contents(&server), whole);
    // And for people.
    let out = run(&server, "migrate --strict", 1);
    assert!(
        out.contains("13 were sessions already") && out.contains("skipped, not recognised: 3"),
        "{out}"
    );
}

#[test]
fn two_thousand_keys_and_a_pattern() {
    let server = Server::start();
    let mut client = server.client();
    let commands: Vec<Vec<Vec<u8>>> = (0..2000)
        .map(|n| {
            talk::split(&format!(
                r#"RPUSH chat:{}:{n} '{{"role":"user","content":"{n}"}}'"#,
                n % 2
            ))
        })
        .collect();
    client.pipeline(&commands).unwrap();
    let done = report(&server, "migrate --match chat:0:* --in-flight 7", 0);
    assert_eq!(done["layouts"]["json-list"]["migrated"], 1000, "{done:#}");
    assert_eq!(done["layouts"]["json-list"]["messages"], 1000);
    let done = report(&server, "migrate", 0);
    assert_eq!(
        (&done["layouts"]["json-list"]["migrated"], &done["already"]),
        (&json!(1000), &json!(1000))
    );
}

#[test]
fn what_is_killed_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    let body = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(200));
    for n in 0..2000 {
        let mut command = vec![b"RPUSH".to_vec(), format!("chat:{n}").into_bytes()];
        command.resize(22, body.clone().into_bytes());
        client.call(&command);
    }
    let migrated = || server.info_number("session", "session_migrated");
    let mut killed = program(&server, "migrate --in-flight 1").spawn().unwrap();
    wait_until("some are migrated", || migrated() > 50);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let rest = report(&server, "migrate", 0);
    assert_eq!(migrated(), 2000);
    assert_eq!(
        rest["already"].as_u64().unwrap() + rest["layouts"]["json-list"]["migrated"].as_u64().unwrap(),
        2000
    );
    for n in [0, 777, 1999] {
        assert_eq!(int(&server.run(&format!("SESSION.LEN chat:{n}"))), 20);
    }
}

#[test]
fn a_server_that_dies_has_the_old_keys_or_the_sessions() {
    let server = Server::append_only().start();
    let mut client = server.client();
    let commands: Vec<Vec<Vec<u8>>> = (0..3000)
        .flat_map(|n| {
            let list = format!(r#"RPUSH session:{n}:messages '{{"role":"user","content":"{n}"}}'"#);
            [talk::split(&format!("HSET session:{n} title {n}")), talk::split(&list)]
        })
        .collect();
    client.pipeline(&commands).unwrap();
    let mut command = program(&server, "migrate --in-flight 2 --json");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("some are migrated", || {
        server.info_number("session", "session_migrated") > 50
    });
    server.restart();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("run the same command again"),
        "{}",
        stderr(&output)
    );
    let report_so_far: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report_so_far["error"].is_string());
    let rest = report(&server, "migrate", 0);
    let already = rest["already"].as_u64().unwrap();
    assert_eq!(
        already + rest["layouts"]["hash-list"]["migrated"].as_u64().unwrap(),
        3000,
        "{rest:#}"
    );
    assert!((50..3000).contains(&already));
    assert_eq!(server.info_number("session", "session_messages"), 3000);
}

#[test]
fn ctrl_c_ends_it_with_a_report() {
    let server = Server::start();
    let mut client = server.client();
    let commands: Vec<Vec<Vec<u8>>> = (0..20_000)
        .map(|n| talk::split(&format!(r#"RPUSH chat:{n} '{{"role":"user","content":"{n}"}}'"#)))
        .collect();
    client.pipeline(&commands).unwrap();
    let mut command = program(&server, "migrate --in-flight 1 --json");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let migrated = || server.info_number("session", "session_migrated");
    wait_until("some are migrated", || migrated() > 50);
    // The shell's own `kill`: a small system has no program of that name.
    let kill = std::process::Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status()
        .unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["layouts"]["json-list"]["migrated"].as_i64(), Some(migrated()));
    assert!(migrated() < 20_000);
}

/// Of all layouts.
fn migrated(report: &serde_json::Value) -> u64 {
    let layouts = report["layouts"].as_object().unwrap();
    layouts
        .values()
        .map(|layout| layout["migrated"].as_u64().unwrap())
        .sum()
}

#[test]
fn kept_keys_stay_and_a_second_run_does_nothing() {
    let server = Server::start();
    fill(&mut server.client(), 1);
    let before = contents(&server);
    let done = report(&server, "migrate --keep --to new:", 0);
    let sessions = LAYOUTS.len() as u64;
    assert_eq!(migrated(&done), sessions, "{done:#}");
    let after = contents(&server);
    assert!(before.iter().all(|entry| after.contains(entry)));
    assert_eq!(int(&server.run("SESSION.LEN new:session:1-h")), 1);
    let again = report(&server, "migrate --keep --to new:", 0);
    assert_eq!(
        (migrated(&again), again["already"].as_u64()),
        (0, Some(sessions)),
        "{again:#}"
    );
    assert_eq!(contents(&server), after);
}

#[test]
fn a_forced_layout_takes_any_objects_and_only_what_matches() {
    let server = Server::start();
    server.run(r#"RPUSH odd:1 '{"text":"hi"}' '{"text":"ho"}'"#);
    server.run(r#"RPUSH odd:2 plain text"#);
    server.run(r#"RPUSH jobs '{"job":1}'"#);
    server.run("RPUSH chat:1 'Visitor: hello'");
    let done = report(&server, "migrate --format json-list --match odd:*", 0);
    assert_eq!(done["layouts"]["json-list"]["migrated"], 1, "{done:#}");
    assert_eq!(done["skipped_keys"][0]["key"], "odd:2");
    let done = report(&server, "migrate --format motorhead --match chat:*", 0);
    assert_eq!(done["layouts"]["motorhead"]["migrated"], 1, "{done:#}");
    assert_eq!(talk::render(&server.run("TYPE jobs")), "list");
    run(&server, "migrate --format json-list", 2);
    run(&server, "migrate --format nonsense --match *", 2);
}

#[test]
fn large_ones_are_left_to_who_asks_for_them() {
    let server = Server::start();
    for n in 0..11 {
        server.run(&format!(r#"RPUSH long '{{"role":"user","content":"{n}"}}'"#));
    }
    server.run(&format!(
        r#"SET wide '[{{"role":"user","content":"{}"}}]'"#,
        "x".repeat(100_000)
    ));
    let done = report(&server, "migrate --max-elements 10", 0);
    assert_eq!(
        (&done["skipped"], &done["layouts"]),
        (&json!(2), &json!({})),
        "{done:#}"
    );
    let done = report(&server, "migrate --max-elements 10 --large", 0);
    assert_eq!(done["layouts"]["json-list"]["migrated"], 1, "{done:#}");
    assert_eq!(done["layouts"]["json-array"]["migrated"], 1);
}

#[test]
fn live_hashes_find_their_events_by_whatever_name() {
    let server = Server::start();
    for n in 0..50 {
        for (hash, zset) in [
            ("live:{n}", "live:{n}:events"),
            ("desk:{n}", "desk:events:{n}"),
            ("solo:{n}", ""),
        ] {
            let (hash, zset) = (hash.replace("{n}", &n.to_string()), zset.replace("{n}", &n.to_string()));
            server.run(&format!(r#"HSET {hash} agentIds '[]' state working"#));
            if !zset.is_empty() {
                server.run(&format!(r#"ZADD {zset} 1 '{{"seq":1}}'"#));
            }
        }
        // Scores of something else stand beside it.
        server.run(&format!("ZADD solo:{n}:events 1 plain"));
    }
    for words in ["migrate --dry-run", "migrate"] {
        let done = report(&server, words, 0);
        let layout = &done["layouts"]["live-hash"];
        assert_eq!(
            (&layout["found"], &layout["events"]),
            (&json!(150), &json!(100)),
            "{done:#}"
        );
    }
    assert_eq!(int(&server.run("DBSIZE")), 200);
}

#[test]
fn a_cluster_is_walked_whole() {
    let cluster = Cluster::start(3);
    let mut sessions = 0;
    for node in 0..3 {
        for n in 0..20 {
            let tag = cluster.key_on(node, &format!("t{n}-"));
            let mut client = cluster.node(node).client();
            client.run(&format!(r#"RPUSH chat:{{{tag}}} '{{"role":"user","content":"hi"}}'"#));
            client.run(&format!("HSET session:{{{tag}}} title x"));
            client.run(&format!(
                r#"RPUSH session:{{{tag}}}:messages '{{"role":"user","content":"hi"}}'"#
            ));
            sessions += 2;
        }
    }
    // Without a tag hash and list are apart, and no command can take both.
    let (mut apart, mut n) = (String::new(), 0);
    while apart.is_empty() || cluster.owner(&apart) == cluster.owner(&format!("{apart}:messages")) {
        apart = format!("apart{n}");
        n += 1;
    }
    let list = format!("{apart}:messages");
    cluster
        .node(cluster.owner(&apart))
        .run(&format!("HSET {apart} title x"));
    cluster
        .node(cluster.owner(&list))
        .run(&format!(r#"RPUSH {list} '{{"role":"user","content":"hi"}}'"#));

    let port = cluster.node(0).port();
    let walk = |words: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_redis-session"))
            .args(["-c", "-h", "127.0.0.1", "-p", &port.to_string()])
            .args(words.split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let kept = walk("migrate --keep --to copy: --json");
    assert_eq!(migrated(&kept), sessions, "{kept:#}");
    let done = walk("migrate --json");
    assert_eq!(migrated(&done), sessions, "{done:#}");
    assert_eq!(
        (&done["skipped"], &done["skipped_keys"][0]["key"]),
        (&json!(1), &json!(apart))
    );
    let again = walk("migrate --json");
    assert_eq!(
        (migrated(&again), again["already"].as_u64()),
        (0, Some(2 * sessions)),
        "{again:#}"
    );
}

#[test]
fn a_slot_on_its_way_is_not_left_out() {
    let cluster = Cluster::start(3);
    let tag = cluster.key_on(0, "t");
    cluster.node(0).run(&format!("HSET session:{{{tag}}} title x"));
    cluster.node(0).run(&format!(
        r#"RPUSH session:{{{tag}}}:messages '{{"role":"user","content":"hi"}}'"#
    ));
    let slot = cluster.slot(&tag);
    cluster.begin_migration(slot, 0, 1);
    cluster.move_keys(slot, 0, 1);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redis-session"))
        .args(["-c", "-p", &cluster.node(2).port().to_string(), "migrate", "--json"])
        .output()
        .unwrap();
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        done["layouts"]["hash-list"]["migrated"],
        1,
        "{done:#}\n{}",
        stderr(&output)
    );
    cluster.end_migration(slot, 0, 1);
    assert_eq!(int(&cluster.node(1).run(&format!("SESSION.LEN session:{{{tag}}}"))), 1);
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let server = Options::default().without_module().start();
    let output = program(&server, "migrate").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("--loadmodule"), "{}", stderr(&output));

    let server = Server::start();
    server.run("CONFIG SET requirepass secret");
    for words in ["migrate", "migrate -a wrong"] {
        let output = program(&server, words).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words}");
        assert!(stderr(&output).contains("REDISCLI_AUTH"), "{}", stderr(&output));
    }
    let output = program(&server, "migrate")
        .env("REDISCLI_AUTH", "secret")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redis-session"))
        .args(["-s", "/nonexistent/socket", "migrate"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("Is the server running there?"),
        "{}",
        stderr(&output)
    );
    let primary = Server::start();
    let replica = Server::start();
    primary.run(r#"RPUSH chat '{"role":"user","content":"hi"}'"#);
    replica.replicate(&primary);
    let output = program(&replica, "migrate").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("connect to its primary"),
        "{}",
        stderr(&output)
    );
    run(&primary, "migrate --keep", 2);
    run(&primary, "migrate --in-flight 0", 2);
    run(&primary, "", 2);
    run(&primary, "migrate -c", 3);
}
