//! `redis-session export` and `redis-session import jsonl`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use redis_session_tests::oracle::assert_same;
use redis_session_tests::payload::seal;
use redis_session_tests::{int, text, wait_until, Cluster, Options, Server};
use serde_json::Value;

use crate::{cluster_program, ends, objects, program, stderr};

/// Something of everything that a value can hold.
fn fill(server: &Server) {
    let mut client = server.client();
    for line in [
        "SESSION.CREATE session:{a}:1 INDEX sessions:{a} ALIAS billing SCOPE {a} PIN system LIMIT maxtokens 5000",
        "SESSION.APPEND session:{a}:1 DEDUP once MSG system 'You help.'",
        r#"SESSION.APPEND session:{a}:1 JSON '{"role":"assistant","tool_calls":[{"id":"c1"}]}' '{"role":"tool","tool_call_id":"c1"}'"#,
        "SESSION.ENTITY MENTION session:{a}:1 ID p1 NAME Ann TYPE person ALIAS Annie",
        r#"SESSION.EVENT ADD session:{a}:1 modified AGENT x ENTITIES 1 p1 IMPACT '{"a":1}' STATE review"#,
        "SESSION.CHECKPOINT CREATE session:{a}:1 LABEL before",
        r#"SESSION.META session:{a}:1 '{"title":"né"}'"#,
        "SESSION.APPEND session:{a}:1 MAXLEN 3 MSG user 'and then?'",
        "SESSION.AGENT JOIN session:{a}:1 x",
        "SESSION.AGENT LEASE session:{a}:1 x 100000000",
        "SESSION.CREATE session:{a}:2 INDEX sessions:{a} KEEPTTL",
        "SESSION.FORK session:{a}:1 fork",
        "PEXPIREAT fork 253402300800123",
        "SESSION.APPEND closed MSG user bye",
        "SESSION.CHECKPOINT CREATE closed CLOSE",
        "SESSION.ANCHOR ADD anchor:p1 s1 OUTCOME broke IMPACTS 1 p2 PERF 1.50",
        "SET other 1",
        "RPUSH list '{\"role\":\"user\",\"content\":\"a list is left as it is\"}'",
    ] {
        client.run(line);
    }
    client.call(&[
        "SESSION.APPEND",
        "pretty",
        "JSON",
        "{\n  \"role\": \"user\",\r\n  \"content\": \"a\\nb\"\n}",
    ]);
    let name: &[u8] = b"\xff\x00 \"\n{tag}";
    client.call(&[b"SESSION.APPEND".as_slice(), name, b"MSG", b"user", b"hi"]);
    for n in 0..300 {
        client.run(&format!("SESSION.APPEND many:{n} MSG user 'says {n}'"));
    }
}

fn is_ours(key: &[u8]) -> bool {
    key != b"other" && key != b"list"
}

fn exported(server: &Server, name: &str, words: &str) -> PathBuf {
    let file = server.file(name);
    ends(program(server, &format!("export {words} -o")).arg(&file), 0);
    file
}

fn import(server: &Server, file: &PathBuf, words: &str, code: i32) -> Value {
    let (out, _) = ends(program(server, &format!("import jsonl --json {words}")).arg(file), code);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn everything_comes_back_as_it_was() {
    let (server, other) = (Server::start(), Options::default().hostile().start());
    fill(&server);
    let mut before = server.snapshot();
    before.retain(|key, _| is_ours(key));
    let file = exported(&server, "all.jsonl", "");
    let lines = objects(&fs::read_to_string(&file).unwrap());
    assert_eq!(lines.len(), before.len());
    for line in &lines {
        let key = line["key"].as_str().unwrap();
        if line["type"] == "rdsession" && line["key_base64"].is_null() {
            let document: Value = serde_json::from_str(&text(&server.call(&["SESSION.GET", key]))).unwrap();
            assert_eq!(line["document"], document);
            assert_eq!(line["expires_at"], document["expires_at"]);
            assert_eq!(
                line["events"].as_array().unwrap().len() as u64,
                document["events"]["count"]
            );
        }
    }
    let report = import(&other, &file, "", 0);
    assert_eq!(
        (&report["sessions"], &report["directories"], &report["anchors"]),
        (&(before.len() - 2).into(), &1.into(), &1.into()),
        "{report:#}"
    );
    assert_same("after export and import", &before, &other.snapshot());
    // What no reply shows: the token is remembered, the checkpoint can be restored, and seqs go on.
    for server in [&server, &other] {
        server.run("SESSION.AGENT LEAVE session:{a}:1 x KEEPTTL");
        server.conversation(
            r#"
            > SESSION.APPEND session:{a}:1 DEDUP once MSG system 'You help.'
            (integer) 1
            > SESSION.CHECKPOINT RESTORE session:{a}:1 5 KEEPTTL
            (integer) …
            > SESSION.APPEND session:{a}:1 KEEPTTL MSG user next
            (integer) 8
            "#,
        );
    }
    // Once more: it is there already, whoever looks.
    let again = import(&other, &file, "--replace", 0);
    assert_eq!(again["sessions"], before.len() - 2, "{again:#}");
    assert_same("after a second import", &before, &other.snapshot());
    // Written over what is there, were it not for what has expired since.
    let past = fs::read_to_string(&file).unwrap().lines().last().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["expires_at"] = "2001-01-01T00:00:00.000Z".into();
        line.to_string()
    });
    let past_file = other.file("past.jsonl");
    fs::write(&past_file, past.unwrap()).unwrap();
    assert_eq!(import(&other, &past_file, "--replace", 0)["expired"], 1);
    assert_same("after an import of what has expired", &before, &other.snapshot());
    let again = import(&other, &file, "", 0);
    assert_eq!(
        (&again["sessions"], &again["already"]),
        (&0.into(), &before.len().into()),
        "{again:#}"
    );
}

#[test]
fn a_key_that_holds_something_else_is_left_alone_unless_told() {
    let server = Server::start();
    fill(&server);
    let before = server.snapshot();
    let file = exported(&server, "all.jsonl", "--match many:1?");
    server.run("SESSION.APPEND many:10 MSG user more");
    server.run("DEL many:11");
    server.run("RPUSH many:11 something");
    server.run("DEL many:12");
    let dry = import(&server, &file, "--dry-run", 1);
    let report = import(&server, &file, "", 1);
    for report in [&dry, &report] {
        assert_eq!(
            (&report["sessions"], &report["already"], &report["left_alone"]),
            (&1.into(), &7.into(), &2.into()),
            "{report:#}"
        );
    }
    assert!(
        report["problems"][0]["why"]
            .as_str()
            .unwrap()
            .contains("holds something else"),
        "{report:#}"
    );
    assert_eq!(int(&server.run("SESSION.LEN many:10")), 2);
    assert_eq!(text(&server.run("TYPE many:11")), "list");
    import(&server, &file, "--replace", 0);
    assert_same("after import --replace", &before, &server.snapshot());
}

#[test]
fn from_one_server_into_a_cluster_and_back() {
    let (server, back) = (Server::start(), Server::start());
    fill(&server);
    // The servers' own MIGRATE hands expiries over as spans, and may be a millisecond off.
    server.run("PERSIST many:7");
    let mut before = server.snapshot();
    before.retain(|key, _| is_ours(key));
    let file = exported(&server, "all.jsonl", "");
    let cluster = Cluster::start(3);
    let (out, _) = ends(cluster_program(&cluster, "import jsonl --json").arg(&file), 0);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["sessions"], before.len() - 2, "{report:#}");
    let mut there = cluster.node(0).snapshot();
    assert!(!there.is_empty() && there.len() < before.len(), "keys are on all nodes");
    there.extend(cluster.node(1).snapshot());
    there.extend(cluster.node(2).snapshot());
    assert_same("in a cluster", &before, &there);

    // A slot is just moving: what is in it is found wherever it is.
    let slot = cluster.slot("many:7");
    let (from, to) = (cluster.owner("many:7"), (cluster.owner("many:7") + 1) % 3);
    cluster.begin_migration(slot, from, to);
    let moved = server.file("moved.jsonl");
    ends(cluster_program(&cluster, "export many:7 missing -o").arg(&moved), 1);
    cluster.move_keys(slot, from, to);
    ends(cluster_program(&cluster, "export many:7 --overwrite -o").arg(&moved), 0);
    assert_eq!(objects(&fs::read_to_string(&moved).unwrap())[0]["key"], "many:7");
    let (out, _) = ends(
        cluster_program(&cluster, "import jsonl --replace --json").arg(&moved),
        0,
    );
    assert!(out.contains("\"sessions\": 1"), "{out}");

    let file = server.file("cluster.jsonl");
    ends(cluster_program(&cluster, "export -o").arg(&file), 0);
    // The one that is in a slot that is moving is where no SCAN of its slot's owner sees it, or it is seen: both are fine, none twice.
    import(&back, &file, "", 0);
    assert_same("back on one server", &before, &back.snapshot());
}

/// One exported session as a line, to be spoilt.
fn line(server: &Server) -> String {
    server.run("SESSION.APPEND k MSG user hi");
    let (out, _) = ends(&mut program(server, "export k"), 0);
    out.trim_end().to_owned()
}

fn with_payload(line: &str, change: impl Fn(&mut Vec<u8>)) -> String {
    let mut json: Value = serde_json::from_str(line).unwrap();
    let server_payload = json["payload"].as_str().unwrap().to_owned();
    let mut payload = decode(&server_payload);
    change(&mut payload);
    json["payload"] = encode(&payload).into();
    json.to_string()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= part.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

fn decode(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let digits: Vec<u32> = digits
        .map(|byte| DIGITS.iter().position(|digit| *digit == byte).unwrap() as u32)
        .collect();
    let mut out = Vec::new();
    for part in digits.chunks(4) {
        let bits = part.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - part.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..part.len()]);
    }
    out
}

#[test]
fn a_line_that_cannot_be_brought_back_is_said_and_the_rest_goes_on() {
    let (server, other) = (Server::start(), Server::start());
    let good = line(&server);
    let of = |n: u64| good.replacen("\"key\":\"k\"", &format!("\"key\":\"k{n}\""), 1);
    let readable = ends(&mut program(&server, "export k --readable"), 0).0;
    let expired = {
        let mut json: Value = serde_json::from_str(&of(20)).unwrap();
        json["expires_at"] = "2001-01-01T00:00:00.000Z".into();
        json.to_string()
    };
    let bad = [
        ("hello".to_owned(), "not what an export writes"),
        (good[..good.len() / 2].to_owned(), "not what an export writes"),
        (readable.trim_end().to_owned(), "--readable"),
        (of(1).replacen("\"format\":1", "\"format\":2", 1), "newer redis-session"),
        (
            with_payload(&of(2), |payload| {
                let at = payload.len() - 10;
                payload[at] = 99;
                seal(payload);
            }),
            "newer server",
        ),
        (
            with_payload(&of(3), |payload| {
                payload[9] |= 5;
                seal(payload);
            }),
            "newer module",
        ),
        (
            with_payload(&of(4), |payload| {
                let middle = payload.len() / 2;
                payload[middle] ^= 1;
            }),
            "damaged",
        ),
        (
            with_payload(&of(5), |payload| {
                let middle = payload.len() / 2;
                payload.remove(middle);
                seal(payload);
            }),
            "cannot read it",
        ),
        (of(6).replacen("rdsession", "rdanchors", 1), "not rdanchors"),
    ];
    let mut text = String::new();
    for (n, (bad, _)) in bad.iter().enumerate() {
        text += &format!("{bad}\n{}\n", of(100 + n as u64));
    }
    text += &format!("\n{expired}\n");
    text += &of(7)[..good.len() - 10];
    let file = server.file("broken.jsonl");
    fs::write(&file, &text).unwrap();
    let dry = import(&other, &file, "--dry-run", 1);
    assert_eq!((int(&other.run("DBSIZE")), &dry["broken"]), (0, &7.into()), "{dry:#}");
    let report = import(&other, &file, "", 1);
    assert_eq!(
        (&report["sessions"], &report["broken"], &report["expired"]),
        (&bad.len().into(), &(bad.len() + 1).into(), &1.into()),
        "{report:#}"
    );
    assert_eq!(int(&other.run("DBSIZE")), bad.len() as i64, "nothing is half done");
    let problems = report["problems"].as_array().unwrap();
    let why_of = |line: u64| {
        let problem = problems.iter().find(|problem| problem["line"] == line);
        problem.map_or("", |problem| problem["why"].as_str().unwrap())
    };
    for (n, (_, why)) in bad.iter().enumerate() {
        let said = why_of(n as u64 * 2 + 1);
        assert!(said.contains(why), "line {}: {said}, not {why}", n * 2 + 1);
    }
    assert!(why_of(bad.len() as u64 * 2 + 3).contains("cut off"), "{report:#}");
    // As people read it.
    let (out, _) = ends(program(&other, "import jsonl").arg(&file), 1);
    assert!(
        out.contains("line 1: it is not what") && out.contains("line 9 (k2): "),
        "{out}"
    );

    other.run("FLUSHALL");
    let report = import(&other, &file, "--strict", 1);
    assert_eq!(
        (int(&other.run("DBSIZE")), &report["broken"]),
        (0, &1.into()),
        "{report:#}"
    );
    let from = text.find('\n').unwrap() + 1;
    fs::write(&file, &text[from..]).unwrap();
    import(&other, &file, "--strict", 1);
    assert_eq!(int(&other.run("DBSIZE")), 1, "what stands before the broken line");
}

#[test]
fn an_export_that_was_cut_off_is_gone_on_with() {
    let (server, other) = (Server::start(), Server::start());
    fill(&server);
    let mut before = server.snapshot();
    before.retain(|key, _| is_ours(key));
    let file = exported(&server, "all.jsonl", "");
    let (_, err) = ends(program(&server, "export -o").arg(&file), 2);
    assert!(err.contains("--resume") && err.contains("--overwrite"), "{err}");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let cut = import(&other, &file, "--dry-run", 1);
    assert!(
        cut["problems"][0]["why"].as_str().unwrap().contains("cut off"),
        "{cut:#}"
    );
    let (_, err) = ends(program(&server, "export --resume -o").arg(&file), 0);
    assert!(err.contains("are in the file already"), "{err}");
    let report = import(&other, &file, "", 0);
    assert_eq!(report["lines"], before.len(), "none is missing, none is there twice");
    assert_same("after export --resume", &before, &other.snapshot());
    fs::write(&file, b"{}\n").unwrap();
    let (_, err) = ends(program(&server, "export --resume -o").arg(&file), 2);
    assert!(err.contains("line 1 is not of an export"), "{err}");
}

#[test]
fn a_signal_ends_it_behind_a_whole_line() {
    let (server, other) = (Server::start(), Server::start());
    let mut client = server.client();
    let body = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "many words ".repeat(200));
    let commands: Vec<Vec<Vec<u8>>> = (0..3000)
        .map(|n| {
            ["SESSION.APPEND", &format!("s{n}"), "JSON", &body]
                .map(|word| word.as_bytes().to_vec())
                .to_vec()
        })
        .collect();
    client.pipeline(&commands).unwrap();
    // More than pipe and buffers hold: it waits for a reader.
    let mut child = program(&server, "export")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let is_sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status()
        .unwrap();
    assert!(is_sent.success());
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("stopping"), "{line}");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let mut summary = String::new();
    said.read_to_string(&mut summary).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{summary}");
    assert!(summary.contains("stopped before the end"), "{summary}");
    let all = first + &rest;
    let count = objects(&all).len();
    assert!(all.ends_with('\n') && count < 3000, "{count} lines");
    let file = other.file("part.jsonl");
    fs::write(&file, all).unwrap();
    assert_eq!(import(&other, &file, "", 0)["sessions"], count);
}

#[test]
fn an_import_that_waits_for_lines_is_ended_by_a_signal() {
    let server = Server::start();
    let whole = format!("{}\n", line(&server)).repeat(600);
    server.run("DEL k");
    let mut child = program(&server, "import jsonl - --json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(whole.as_bytes()).unwrap();
    // What came is imported before more comes.
    wait_until("the first lines are imported", || int(&server.run("EXISTS k")) == 1);
    let is_sent = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status()
        .unwrap();
    assert!(is_sent.success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["interrupted"], &report["broken"]),
        (&true.into(), &0.into()),
        "{report:#}"
    );
    // The same value a second time is there already.
    assert_eq!(
        (&report["sessions"], &report["left_alone"]),
        (&1.into(), &0.into()),
        "{report:#}"
    );
}

#[test]
fn named_keys_and_directories() {
    let server = Server::start();
    fill(&server);
    let keys = |words: &str, code: i32| {
        let (out, err) = ends(&mut program(&server, words), code);
        let keys = objects(&out)
            .into_iter()
            .map(|line| line["key"].as_str().unwrap().to_owned());
        (keys.collect::<Vec<_>>(), err)
    };
    assert_eq!(keys("export closed anchor:p1", 0).0, ["closed", "anchor:p1"]);
    let mut of_index = keys("export --index sessions:{a}", 0).0;
    of_index.sort();
    assert_eq!(of_index, ["session:{a}:1", "session:{a}:2", "sessions:{a}"]);
    // A key that JSON cannot hold is found all the same.
    server.call(&[b"SESSION.CREATE".as_slice(), b"s\xff", b"INDEX", b"odd"]);
    let (out, _) = ends(&mut program(&server, "export --index odd"), 0);
    assert_eq!(objects(&out)[0]["key_base64"], "c/8=");
    let (out, _) = ends(&mut program(&server, "ls odd --json"), 0);
    let row = &objects(&out)[0];
    assert!(
        row["key"] == "s\\xff" && row["memory_usage_bytes"].as_u64() > Some(0),
        "{row}"
    );
    let (there, err) = keys("export closed nobody list", 1);
    assert_eq!(there, ["closed"]);
    assert!(
        err.contains("nobody: there is no such key") && err.contains("list: left out, a list"),
        "{err}"
    );
    assert!(err.contains("redis-session migrate --match 'list'"), "{err}");
    assert_eq!(keys("export --match many:29?", 0).0.len(), 10);
    let (_, err) = ends(&mut program(&server, "export --index closed"), 1);
    assert!(err.contains("closed is not a directory"), "{err}");
    let (out, _) = ends(&mut program(&server, "export pretty --readable"), 0);
    let line = &objects(&out)[0];
    assert_eq!(
        (&line["payload"], &line["document"]["messages"][0]["content"]),
        (&Value::Null, &"a\nb".into())
    );
}

#[test]
fn what_cannot_be_written_is_said() {
    let server = Server::start();
    fill(&server);
    let mut reader = program(&server, "export")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(reader.stdout.take());
    let output = reader.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("was closed after"), "{}", stderr(&output));
    if PathBuf::from("/dev/full").exists() {
        let (_, err) = ends(&mut program(&server, "export -o /dev/full"), 1);
        assert!(err.contains("No space left") && err.contains("--resume"), "{err}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (_, err) = ends(program(&server, "ls").stdout(full), 1);
        assert!(!err.is_empty());
    }
    let replica = Server::start();
    replica.replicate(&server);
    let file = replica.file("all.jsonl");
    ends(program(&replica, "export -o").arg(&file), 0);
    let (_, err) = ends(program(&replica, "import jsonl --replace").arg(&file), 3);
    assert!(err.contains("connect to its primary"), "{err}");
    let (_, err) = ends(&mut program(&server, "import jsonl /nonexistent"), 2);
    assert!(err.contains("cannot read /nonexistent"), "{err}");
}
