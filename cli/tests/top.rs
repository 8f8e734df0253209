//! `redis-session top`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use redis_session_tests::{wait_until, Cluster, Server};
use serde_json::Value;

use crate::{cluster_program, ends, objects, program};

#[test]
fn a_sample_is_what_the_server_says() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 2");
    for n in 0..5 {
        server.run(&format!("SESSION.APPEND k DEDUP t{n} MSG user hi"));
    }
    server.run("SESSION.APPEND k DEDUP t4 MSG user hi");
    server.attempt("SESSION.APPEND k IFVERSION 1 MSG user hi");
    let (out, _) = ends(&mut program(&server, "top --once --json -i 0.1"), 0);
    let sample = &objects(&out)[0];
    for (name, value) in [
        ("active_sessions", 1),
        ("messages", 2),
        ("appended", 5),
        ("evicted", 3),
        ("deduplicated", 1),
        ("conflicts", 1),
        ("panics_caught", 0),
    ] {
        assert_eq!(sample[name], value, "{name} in {sample:#}");
        assert_eq!(sample["nodes"][0][name], value, "{name} in {sample:#}");
    }
    assert!(sample["used_memory"].as_u64() > Some(500_000), "{sample:#}");
    assert_eq!(sample["per_second"]["appended"], 0.0);

    let (out, _) = ends(&mut program(&server, "top --once -i 0.1"), 0);
    assert!(out.contains("appended") && out.contains("0 readers waiting"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colours in a pipe");
    let (_, err) = ends(&mut program(&server, "top -i 0"), 2);
    assert!(err.contains("from 0.1 to 86400"), "{err}");
}

#[test]
fn rates_of_a_cluster_are_those_of_its_primaries_and_one_that_is_gone_is_said() {
    let cluster = Cluster::start(3);
    let keys: Vec<String> = (0..3).map(|number| cluster.key_on(number, "k")).collect();
    let mut child = cluster_program(&cluster, "top --json -i 0.2")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    // The first two primaries have something to do.
    wait_until("rates are there", || {
        for (number, key) in keys.iter().enumerate().take(2) {
            for _ in 0..20 {
                cluster.node(number).run(&format!("SESSION.APPEND {key} MSG user hi"));
            }
        }
        let sample = next();
        let rate = |node: &Value| node["per_second"]["appended"].as_f64().unwrap();
        let rates: Vec<f64> = sample["nodes"].as_array().unwrap().iter().map(rate).collect();
        assert_eq!(rates.len(), 3);
        assert!((rates.iter().sum::<f64>() - rate(&sample)).abs() < 0.01, "{sample:#}");
        let idle = cluster.node(2).port().to_string();
        for node in sample["nodes"].as_array().unwrap() {
            assert!(
                rate(node) == 0.0 || !node["address"].as_str().unwrap().ends_with(&idle),
                "{sample:#}"
            );
        }
        rates.iter().filter(|rate| **rate > 0.0).count() == 2
    });
    // One lets nobody in any more, and then again.
    let mut client = cluster.node(2).client();
    client.run("CONFIG SET requirepass secret");
    client.run("CLIENT KILL TYPE normal SKIPME yes");
    let mut wait_for_gone = |count: usize| {
        wait_until("a primary is gone, or back", || {
            let sample = next();
            let gone = sample["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|node| node["failure"].is_string())
                .count();
            assert!(gone <= 1 && sample["active_sessions"].as_u64() >= Some(2), "{sample:#}");
            gone == count
        });
    };
    wait_for_gone(1);
    let (out, _) = ends(&mut cluster_program(&cluster, "top --once -i 0.1"), 0);
    assert!(out.contains("3 primaries") && out.contains("NOAUTH"), "{out}");
    client.run("CONFIG SET requirepass \"\"");
    wait_for_gone(0);
    let _ = child.kill();
    let _ = child.wait();
}

/// With `script`, which gives a program a terminal of its own.
#[test]
fn on_a_terminal_it_draws_in_place_and_leaves_it_as_it_was() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("passed over: there is no `script` here");
        return;
    }
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    for (key, code) in [("q", 0), ("\x03", 130)] {
        let line = format!(
            "stty rows 30 columns 100; {} -s {} top -i 0.1",
            env!("CARGO_BIN_EXE_redis-session"),
            server.file("s").display()
        );
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut seen = Vec::new();
        let mut part = [0; 4096];
        wait_until("it draws, and again", || {
            let count = out.read(&mut part).unwrap();
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&part[..count]);
            String::from_utf8_lossy(&seen).matches("appended").count() > 2
        });
        stdin.write_all(key.as_bytes()).unwrap();
        out.read_to_end(&mut seen).unwrap();
        let text = String::from_utf8_lossy(&seen);
        let (entered, left) = (text.find("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
        assert!(entered.is_some() && left > text.rfind("appended"), "{text}");
        assert!(
            text.contains("\u{1b}[?25l") && text.contains("\u{1b}[?25h"),
            "the cursor is back"
        );
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}
