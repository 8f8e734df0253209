//! `redis-session show`.

use redis_session_tests::module::project_root;
use redis_session_tests::{Cluster, Options, Server};
use serde_json::{json, Value};

use crate::{program, report, run, stderr, stdout};

/// 2026-01-14T10:00:00Z
const BEGIN_S: i64 = 1_768_384_800;
pub const SAMPLE: &str = "session:{acme}:4821";

/// The sample conversation of the documentation, always at the same time.
pub fn load_sample(server: &Server) {
    let path = project_root().join("docs/examples/support-session.redis");
    let text = std::fs::read_to_string(path).expect("the sample");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for line in lines {
        let mut parts = line.split("{+");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (offset, rest) = part.split_once('}').expect("an offset");
            let time_s = BEGIN_S + offset.parse::<i64>().expect("seconds");
            out += &format!("{time_s}000{rest}");
        }
        server.run(&out);
    }
}

/// Characters that a terminal would obey, other than the escapes for colours that are ours.
#[track_caller]
pub fn assert_harmless(out: &str) {
    let mut rest = out.to_owned();
    while let Some(begin) = rest.find("\u{1b}[") {
        let end = rest[begin..].find('m').expect("the end of a colour") + begin;
        let codes = &rest[begin + 2..end];
        assert!(
            codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'),
            "{codes:?}"
        );
        rest.replace_range(begin..=end, "");
    }
    let bad: Vec<char> = rest
        .chars()
        .filter(|char| char.is_control() && *char != '\n' || ('\u{202a}'..='\u{202e}').contains(char))
        .collect();
    assert!(bad.is_empty(), "{bad:?} in {out}");
}

/// A session in which everything that has a text tries to take over the terminal.
pub fn load_evil(server: &Server) {
    let evil = "\x1b]0;owned\x07\u{9b}2J\u{202e}\r\x1b[31m";
    let call = |words: &[&str]| {
        server.call(words);
    };
    let body = |body: Value| body.to_string();
    call(&[
        "SESSION.CREATE",
        "evil",
        "INDEX",
        "dir",
        "ALIAS",
        "evil",
        "SCOPE",
        evil,
        "STATE",
        evil,
    ]);
    call(&["SESSION.META", "evil", &body(json!({ "x": evil }))]);
    let message = json!({
        "role": evil, "name": evil, "content": [{"type": "text", "text": evil}, {"type": evil}, {"type": "image", "url": evil},
        {"type": "thinking", "thinking": evil}], "tool_calls": [{"id": "c", "name": evil, "arguments": evil},
        {"id": evil, "function": {"name": evil, "arguments": json!({evil: evil}).to_string()}}],
    });
    let answer = json!({"role": "tool", "tool_call_id": "c", "name": evil, "content": evil});
    call(&["SESSION.APPEND", "evil", "JSON", &body(message), &body(answer)]);
    // Not escaped in the JSON: C1 controls and writing directions may stand in it as they are.
    call(&[
        "SESSION.APPEND",
        "evil",
        "JSON",
        "{\"role\":\"user\",\"content\":\"\u{9b}2J \u{202e}x\"}",
    ]);
    let change = body(json!({ evil: evil }));
    call(&[
        "SESSION.EVENT",
        "ADD",
        "evil",
        evil,
        "AGENT",
        evil,
        "ENTITIES",
        "1",
        evil,
        "CHANGE",
        &change,
        "STATE",
        evil,
    ]);
    call(&["SESSION.AGENT", "JOIN", "evil", evil]);
    call(&["SESSION.AGENT", "HANDOFF", "evil", evil, "other", "NOTE", evil]);
    call(&[
        "SESSION.ENTITY",
        "MENTION",
        "evil",
        "ID",
        evil,
        "NAME",
        evil,
        "TYPE",
        evil,
        "ALIAS",
        evil,
    ]);
    call(&["SESSION.CHECKPOINT", "CREATE", "evil", "LABEL", evil, "OUTCOME", evil]);
    call(&["SESSION.APPEND", "evil", "MSG", "user", evil]);
    call(&["SESSION.REDACT", "evil", "7", "REASON", evil]);
}

#[test]
fn a_conversation_reads_as_one() {
    let server = Server::start();
    load_sample(&server);
    let page = run(&server, &format!("show {SAMPLE} --utc --width 80"), 0);
    assert!(page.starts_with("session:{acme}:4821  mia-rebooking\n"), "{page}");
    for line in [
        "  id          019bbc1e-7a30-7c4e-9d51-3b6f0a8e4821",
        "  state       pass",
        "  messages    17 (3 of users so far), 982 tokens",
        "  window      at most 60 messages; pinned: system",
        "  recorded    15 events, 2 checkpoints, up to seq 34, version 39",
        "  agents      booking, triage",
    ] {
        assert!(page.lines().any(|is| is == line), "{line}\nin {page}");
    }
    assert!(page.contains("  created     14 Jan 2026 10:00:00  "), "{page}");
    assert!(page.contains("── Wednesday, 14 January 2026 · "), "{page}");
    let from = page.find(" 14  user").expect("a message");
    let to = page.find(" 27  assistant").expect("a message");
    // Roles with times at the right, calls with their answers, events, handoffs and transitions where they belong.
    let expected = r#" 14  user                                                              10:01:01
     The 08:15 please. This is my onward ticket, I have to be in Lisbon before
     noon:
     [image: https://files.acme.example/4821/onward-ticket.jpg]

 15  ◆ requested · booking                                             10:01:02

 16  assistant · booking                                               10:01:06
     → change_flight(reservation: "QX7T4P", from: "AC214", to: "AC210", fee: 0)
       ← Error: AC210 has no seats left in economy

 18  ◆ modified · booking · QX7T4P · {"flight":"AC210"}                10:01:09
 19  ◆ broke · booking · pass → broke · QX7T4P, AC210 · {"reason":"so…  10:01:11
 20  ⇄ handoff booking → seats · “AC210 full in economy”               10:01:16

 21  assistant · seats                                                 10:01:20
     → upgrade_options(flight: "AC210", tier: "silver")
       ← [{"cabin":"premium","seats":4,"price":"0 EUR","why":"schedule change"}]

 23  ◆ searched · seats · AC210                                        10:01:23
 24  ◆ modified · seats · QX7T4P · {"cabin":"premium"}                 10:01:28
 25  ◆ fixed · seats · broke → working · QX7T4P, AC210 · {"cabin":"pr…  10:01:30
 26  ⇄ handoff seats → booking · “premium seat held for 15 min”        10:01:32

"#;
    // As it stands, but for the spaces before the times.
    let normal = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(normal(&page[from..to]), normal(expected));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(page.contains("▒▒▒ redacted: card number ▒▒▒"), "{page}");
    assert!(page.contains("⚑ checkpoint rebooked · pass"), "{page}");
    assert!(!page.contains("4929"), "{page}");
    let wide = run(&server, &format!("show {SAMPLE} --width 120"), 0);
    let sent = r#"{"flight":"AC210","cabin":"premium"}"#;
    assert!(wide.contains(sent), "in the order in which it was sent: {wide}");
    assert!(page.contains("  AC210               thing     1 ×, last "), "{page}");
    // Instructions are folded, and unfolded.
    assert!(
        page.contains("more lines (--full)") && !page.contains("One tool call at a time."),
        "{page}"
    );
    let full = run(&server, &format!("show {SAMPLE} --full"), 0);
    assert!(
        full.contains("- One tool call at a time.") && !full.contains("(--full)"),
        "{full}"
    );
    assert!(full.contains("       \"reservation\": \"QX7T4P\",\n"), "{full}");
    assert!(full.contains(" 17  tool · change_flight"), "{full}");
}

#[test]
fn a_session_is_found_by_key_alias_and_id() {
    let server = Server::start();
    load_sample(&server);
    let words = "--utc --no-events --last 1 --width 100";
    let tail = |page: String| page[page.find("── Wed").expect("a day")..].to_owned();
    let by_key = tail(run(&server, &format!("show {SAMPLE} {words}"), 0));
    assert!(by_key.contains("Done: you fly AC210"), "{by_key}");
    assert!(!by_key.contains('◆') && !by_key.contains("lovely"), "{by_key}");
    for name in [
        "mia-rebooking",
        "019bbc1e-7a30-7c4e-9d51-3b6f0a8e4821",
        "019BBC1E-7A30-7C4E-9D51-3B6F0A8E4821",
    ] {
        let page = tail(run(
            &server,
            &format!("show --index sessions:{{acme}} {name} {words}"),
            0,
        ));
        assert_eq!(page, by_key, "{name}");
    }
}

#[test]
fn json_is_the_same_for_programs() {
    let server = Server::start();
    load_sample(&server);
    let document = report(&server, &format!("show {SAMPLE}"), 0);
    assert_eq!(document["key"], SAMPLE);
    assert_eq!(document["session"]["alias"], "mia-rebooking");
    assert_eq!(document["session"]["limits"]["maxlen"], 60);
    let entries = document["entries"].as_array().expect("entries");
    let seqs: Vec<i64> = entries.iter().filter_map(|entry| entry["seq"].as_i64()).collect();
    assert_eq!(
        seqs,
        (1..=34).collect::<Vec<i64>>(),
        "nothing is missing, and all is in order"
    );
    let bodies: Vec<String> = entries
        .iter()
        .filter(|entry| entry["kind"] == "message")
        .map(|entry| entry["body"].to_string())
        .collect();
    let stored: Vec<String> = server
        .bodies(SAMPLE)
        .iter()
        .map(|body| serde_json::from_str::<Value>(body).expect("JSON").to_string())
        .collect();
    assert_eq!(bodies, stored);
    assert_eq!(
        entries[18]["body"]["stateTransition"],
        json!({"from": "pass", "to": "broke"})
    );
    assert_eq!(
        (&entries[1]["role"], &entries[1]["timestamp"]),
        (&json!("user"), &json!("2026-01-14T10:00:04.000Z"))
    );

    // Byte for byte, where bytes may be chosen.
    server.call(&[
        "SESSION.APPEND",
        "k",
        "JSON",
        r#"{"role":"user","n":1.50,"content":"\u00e9 \ud800","n":2}"#,
    ]);
    let out = run(&server, "show k --json", 0);
    assert!(
        out.contains(r#""body":{"role":"user","n":1.50,"content":"\u00e9 \ud800","n":2}}"#),
        "{out}"
    );
    let page = run(&server, "show k", 0);
    assert!(page.contains("é \u{fffd}"), "{page}");
}

#[test]
fn nothing_reaches_the_terminal_raw() {
    let server = Server::start();
    load_evil(&server);
    for flags in ["", "--full", "--tools", "--json", "--last 2", "--width 40"] {
        for color in ["never", "always"] {
            let out = run(&server, &format!("show evil --color {color} {flags}"), 0);
            assert!(out.contains("owned"), "{out}");
            // JSON escapes what it has to; what turns the direction of writing is harmless to a program.
            let out = if flags == "--json" {
                out.replace('\u{202e}', "")
            } else {
                out
            };
            assert_harmless(&out);
            assert_eq!(
                out.contains("\u{1b}["),
                color == "always" && flags != "--json",
                "{flags} {color}"
            );
        }
    }
    // A pipe is no terminal.
    assert!(!run(&server, "show evil", 0).contains('\u{1b}'));
    // Errors quote what they were given.
    let output = program(&server, "show").arg("\x1b[31mx").output().unwrap();
    assert_harmless(&stderr(&output));
}

#[test]
fn what_is_gone_malformed_or_closed_is_told() {
    let server = Server::start();
    server.run(r#"RPUSH old '{"role":"user","content":"one"}' 'not json' '{"role":"assistant","content":"two"}'"#);
    let page = run(&server, "show old", 0);
    assert!(
        page.contains("layout      an older one") && page.contains("two"),
        "{page}"
    );
    assert_eq!(server.say("TYPE old"), "list", "showing it changes nothing");
    server.run("SESSION.MIGRATE old");
    server.run("SESSION.APPEND old MSG user three");
    server.run("SESSION.POP old");
    server.run("SESSION.CHECKPOINT CREATE old LABEL end CLOSE");
    let page = run(&server, "show old", 0);
    assert!(page.contains("  state       working  closed "), "{page}");
    assert!(
        page.contains("  2  malformed · ") && page.contains("     not json\n"),
        "{page}"
    );
    assert!(page.contains("  ⋯  seq 4 is no longer there"), "{page}");
    // The window: what stands before the last messages is not missing, and not shown either.
    (0..30).for_each(|n| {
        server.run(&format!("SESSION.APPEND w MAXLEN 10 MSG user m{n}"));
    });
    let page = run(&server, "show w", 0);
    assert!(page.contains("seq 1 to 20 are no longer there"), "{page}");
    let page = run(&server, "show w --last 3", 0);
    assert!(
        !page.contains("no longer there") && page.contains("m27") && !page.contains("m26"),
        "{page}"
    );
    assert!(page.contains("10 (30 of users so far), the last 3 here: "), "{page}");
}

/// It ends with this code, and says this on standard error.
#[track_caller]
pub fn fails(server: &Server, words: &str, code: i32, says: &[&str]) {
    let output = program(server, words).output().expect("the program runs");
    let err = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{words}\n{err}");
    assert_eq!(stdout(&output), "", "{words}");
    for text in says {
        assert!(err.contains(text), "{words}: {text}\nin {err}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let server = Server::start();
    load_sample(&server);
    server.run("HSET h a b");
    for command in ["show", "tail", "timeline"] {
        fails(
            &server,
            &format!("{command} nope"),
            1,
            &["no session at key 'nope'", "--index"],
        );
        fails(
            &server,
            &format!("{command} nope --index sessions:{{acme}}"),
            1,
            &["'nope' in sessions:{acme}", "redis-session ls 'sessions:{acme}'"],
        );
        fails(
            &server,
            &format!("{command} x --index nodir"),
            1,
            &["no directory at key 'nodir'"],
        );
        fails(
            &server,
            &format!("{command} sessions:{{acme}}"),
            1,
            &["rdsessidx", "--index 'sessions:{acme}'"],
        );
        fails(
            &server,
            &format!("{command} x --index {SAMPLE}"),
            1,
            &["rdsession", "--index"],
        );
        fails(
            &server,
            &format!("{command} h"),
            1,
            &["is a hash", "migrate --dry-run --match 'h'"],
        );
        fails(&server, command, 2, &["KEY"]);
    }
    fails(&server, "show k --last 0", 2, &["--last"]);
    fails(&server, "show k --color blue", 2, &["always"]);
    let output = program(&server, "show k").arg("-a").arg("wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));

    server.run("CONFIG SET requirepass secret");
    let output = program(&server, &format!("show {SAMPLE}")).output().unwrap();
    let err = stderr(&output);
    assert!(output.status.code() == Some(3) && err.contains("-a"), "{err}");
    let output = program(&server, &format!("show {SAMPLE}"))
        .env("REDISCLI_AUTH", "secret")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let bare = Options::default().without_module().start();
    for command in ["show", "tail", "timeline"] {
        fails(
            &bare,
            &format!("{command} k"),
            3,
            &["does not have the module", "--loadmodule"],
        );
    }
}

#[test]
fn reading_commands_need_reading_rights_only() {
    let server = Server::start();
    load_sample(&server);
    let rights = "+session.get +session.range +session.info +session.read +session.event|range +session.index|resolve +multi +exec";
    server.run(&format!("ACL SETUSER reader on >pw ~session:* ~sessions:* {rights}"));
    for words in ["show", "timeline"] {
        let words = format!("{words} --index sessions:{{acme}} mia-rebooking --user reader -a pw");
        let out = run(&server, &words, 0);
        assert!(out.contains("broke"), "{out}");
    }
    server.run("ACL SETUSER reader -session.range");
    fails(
        &server,
        &format!("show {SAMPLE} --user reader -a pw"),
        3,
        &["NOPERM", "ACL SETUSER"],
    );
    server.run("ACL SETUSER reader resetkeys +session.range");
    fails(
        &server,
        &format!("show {SAMPLE} --user reader -a pw"),
        3,
        &["ACL SETUSER"],
    );
}

#[test]
fn sessions_are_found_all_over_a_cluster() {
    let cluster = Cluster::start(3);
    for n in 0..3 {
        // A tag brings a directory and its sessions into one slot.
        let tag = cluster.key_on(n, "tag");
        let (key, index) = (format!("session:{{{tag}}}:1"), format!("sessions:{{{tag}}}"));
        let node = cluster.node(cluster.owner(&key));
        node.run(&format!("SESSION.CREATE {key} INDEX {index} ALIAS trip"));
        node.run(&format!("SESSION.APPEND {key} MSG user 'hello from {n}'"));
        node.run(&format!("SESSION.EVENT ADD {key} pass AGENT a STATE pass"));
        for (command, says) in [
            ("show", format!("hello from {n}")),
            ("timeline", "working → pass".to_owned()),
        ] {
            for name in [vec![key.as_str()], vec!["trip", "--index", index.as_str()]] {
                let output = std::process::Command::new(env!("CARGO_BIN_EXE_redis-session"))
                    .env_remove("REDISCLI_AUTH")
                    .args(["-c", "-p", &cluster.node(0).port().to_string(), command])
                    .args(&name)
                    .output()
                    .unwrap();
                assert!(
                    stdout(&output).contains(&says),
                    "{}\n{}",
                    stdout(&output),
                    stderr(&output)
                );
            }
        }
    }
}
