//! `redis-session ls`.

use redis_session_tests::{int, Cluster, Server};
use serde_json::Value;

use crate::{cluster_program, ends, objects, program};

fn aliases(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["alias"].as_str().unwrap_or("-")).collect()
}

fn fill(server: &Server) {
    for (alias, created_ms, messages) in [("beta", 1000, 3), ("alpha", 3000, 1), ("gamma", 2000, 2)] {
        let key = format!("session:{{acme}}:{alias}");
        server.run(&format!(
            "SESSION.CREATE {key} INDEX sessions:{{acme}} ALIAS {alias} AT {created_ms}"
        ));
        for n in 0..messages {
            server.run(&format!("SESSION.APPEND {key} MSG user {}", "x".repeat(100 * n + 1)));
        }
    }
}

#[test]
fn a_directory_is_listed_in_every_order() {
    let server = Server::start();
    fill(&server);
    let listed = |words: &str| {
        let (out, _) = ends(
            &mut program(&server, &format!("ls sessions:{{acme}} --json {words}")),
            0,
        );
        objects(&out)
    };
    for (words, expected) in [
        ("", vec!["alpha", "gamma", "beta"]),
        ("--sort created --limit 2", vec!["alpha", "gamma"]),
        ("--by-activity", vec!["gamma", "alpha", "beta"]),
        ("--sort messages", vec!["beta", "gamma", "alpha"]),
        ("--sort messages --limit 1", vec!["beta"]),
        ("--sort size", vec!["beta", "gamma", "alpha"]),
        ("--sort alias", vec!["alpha", "beta", "gamma"]),
        ("--match *a*m*a", vec!["gamma"]),
        ("--match nobody", vec![]),
    ] {
        assert_eq!(aliases(&listed(words)), expected, "{words}");
    }
    server.run("SESSION.APPEND session:{acme}:beta MSG user again");
    assert_eq!(aliases(&listed("--by-activity"))[0], "beta");

    let row = &listed("--match beta")[0];
    let key = row["key"].as_str().unwrap();
    assert_eq!(row["memory_usage_bytes"], int(&server.call(&["MEMORY", "USAGE", key])));
    assert_eq!(row["message_count"], 4);
    assert_eq!(row["created_at"], "1970-01-01T00:00:01.000Z");
    assert!(row["expires_at"].is_string(), "{row}");
    server.call(&["PERSIST", key]);
    assert!(listed("--match beta")[0]["expires_at"].is_null());

    let (table, _) = ends(&mut program(&server, "ls sessions:{acme}"), 0);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines.len() == 4, "{table}");
    assert!(
        lines[1].starts_with("alpha") && lines[1].contains(" in 7 d "),
        "{table}"
    );
    assert!(lines[3].contains("never") && lines[3].contains(" y ago"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn without_a_directory_it_finds_all_sessions_of_a_cluster() {
    let cluster = Cluster::start(3);
    for number in 0..3 {
        for n in 0..40 {
            let key = cluster.key_on(number, &format!("session:{n}:"));
            cluster.node(number).run(&format!("SESSION.APPEND {key} MSG user hi"));
        }
        let key = cluster.key_on(number, "other");
        cluster.node(number).run(&format!("SET {key} 1"));
    }
    let owner = cluster.node(cluster.owner("sessions:{a}"));
    owner.run("SESSION.CREATE session:{a}:x INDEX sessions:{a} ALIAS x");

    let (out, _) = ends(&mut cluster_program(&cluster, "ls --json"), 0);
    let rows = objects(&out);
    assert_eq!(rows.len(), 121);
    assert!(
        rows.iter().all(|row| row["memory_usage_bytes"].as_i64() > Some(0)),
        "{rows:?}"
    );
    let (out, _) = ends(
        &mut cluster_program(&cluster, "ls --json --match session:7:* --limit 2"),
        0,
    );
    assert_eq!(objects(&out).len(), 2);
    let (out, note) = ends(&mut cluster_program(&cluster, "ls --sort alias --limit 1"), 0);
    assert!(out.starts_with("KEY") && out.contains("session:{a}:x"), "{out}");
    assert!(note.contains("all primaries"), "{note}");
    let (out, _) = ends(&mut cluster_program(&cluster, "ls -d --json"), 0);
    assert_eq!(
        objects(&out),
        [serde_json::json!({"key": "sessions:{a}", "sessions": 1})]
    );
    let (out, _) = ends(&mut cluster_program(&cluster, "ls sessions:{a} --json"), 0);
    assert_eq!(aliases(&objects(&out)), ["x"]);
}

#[test]
fn what_is_no_directory_is_said() {
    let server = Server::start();
    server.run("SESSION.APPEND s MSG user hi");
    server.run("RPUSH l 1");
    for (words, said) in [
        ("ls nothing", "there is no directory nothing"),
        ("ls s", "s is a session, no directory"),
        ("ls l", "l is a list, no directory"),
    ] {
        let (out, err) = ends(&mut program(&server, words), 1);
        assert!(out.is_empty() && err.contains(said), "{words}: {err}");
    }
    server.run("SESSION.CREATE t INDEX d ALIAS a");
    server.run("DEL t");
    let (_, err) = ends(&mut program(&server, "ls d"), 0);
    assert!(err.contains("the directory is empty"), "{err}");
    // A name that would drive the terminal does not.
    server.call(&["SESSION.CREATE", "e\x1b[2J", "INDEX", "d", "STATE", "\x1b[31m"]);
    let (out, _) = ends(&mut program(&server, "ls d"), 0);
    assert!(!out.contains('\u{1b}'), "{out:?}");
}

#[test]
fn what_may_not_be_read_is_told_and_not_just_missing() {
    let server = Server::start();
    fill(&server);
    server.run("SESSION.APPEND other MSG user hi");
    server.run("SESSION.CREATE mine INDEX mine:index ALIAS m");
    server.run("ACL SETUSER some on >pass ~other ~mine* +@all");
    let some = |words: &str, code: i32| ends(&mut program(&server, &format!("--user some -a pass {words}")), code);
    let (out, err) = some("ls --json", 1);
    assert_eq!(objects(&out).len(), 2, "{out}");
    assert!(err.contains("left out: 3 that this user may not read"), "{err}");
    let (_, err) = some("ls --match session:*", 1);
    assert!(!err.contains("no sessions") && err.contains("left out: 3"), "{err}");
    some("ls --match other", 0);
    // How many sessions a directory has is unknown then, and not none.
    let (out, _) = some("ls -d", 0);
    assert_eq!(out, "        1  mine:index\n        ?  sessions:{acme}\n");
    let (out, _) = some("ls -d --json", 0);
    assert!(objects(&out)[1]["sessions"].is_null(), "{out}");
    let (_, err) = some("ls sessions:{acme}", 3);
    assert!(err.contains("NOPERM") && err.contains("ACL SETUSER"), "{err}");
}

#[test]
fn json_holds_no_control_characters() {
    let server = Server::start();
    let state = "a\u{9b}2J\u{7f}";
    server.call(&["SESSION.CREATE", "k", "INDEX", "d", "STATE", state]);
    for words in ["ls --json", "ls d --json"] {
        let (out, _) = ends(&mut program(&server, words), 0);
        assert!(out.trim_end().chars().all(|char| !char.is_control()), "{out:?}");
        assert_eq!(objects(&out)[0]["state"], state);
    }
}
