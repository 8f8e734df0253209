//! `redis-session import`.

use std::fs;
use std::path::PathBuf;

use redis_session_tests::{int, items, text, Cluster, Server};
use serde_json::Value;

use crate::{program, report, stderr};

fn add_hash(run: &mut dyn FnMut(&str), name: &str, tag: &str, n: usize) {
    let (role, id) = (["user", "llm"][n % 2], format!("{tag}:{}.5:{n:08x}", 1_736_850_000 + n));
    run(&format!(
        r#"HSET {name}:{id} entry_id {id} role {role} content 'says {n}' session_tag {tag} timestamp {}.5 metadata '{{"n":{n}}}'"#,
        1_736_850_000 + n
    ));
}

#[test]
fn hashes_of_messages_become_sessions_once() {
    let server = Server::start();
    let mut run = |line: &str| {
        server.run(line);
    };
    (0..450).rev().for_each(|n| add_hash(&mut run, "chat", "t1", n));
    (0..3).for_each(|n| add_hash(&mut run, "chat", "t2", n));
    run("HSET user:1 name x role admin");
    let dry = report(&server, "import redisvl --dry-run", 0);
    assert_eq!((&dry["created"], &dry["messages"]), (&2.into(), &453.into()), "{dry:#}");
    assert_eq!(int(&server.run("EXISTS session:chat:t1")), 0);

    let done = report(&server, "import redisvl", 0);
    assert_eq!(
        (&done["created"], &done["messages"]),
        (&2.into(), &453.into()),
        "{done:#}"
    );
    assert_eq!(int(&server.run("SESSION.LEN session:chat:t1")), 450);
    server.conversation(
        r#"
        > SESSION.RANGE session:chat:t1 1 1 WITHMETA
        1) 1) (integer) 2
           2) (integer) 1736850001500
           3) "assistant"
           4) …
           5) '{"role":"assistant","content":"says 1","timestamp":1736850001.5,"metadata":{"n":1},"entry_id":"t1:1736850001.5:00000001"}'
        > TTL session:chat:t1
        (integer) -1
        "#,
    );
    let again = report(&server, "import redisvl", 0);
    assert_eq!(
        (&again["created"], &again["messages"], &again["already"]),
        (&0.into(), &0.into(), &453.into())
    );

    // What comes later is added, what was trimmed does not come back, and hashes go when they are told to.
    server.run("SESSION.WINDOW session:chat:t1 MAXLEN 10");
    server.run("SESSION.WINDOW session:chat:t1 MAXLEN 0");
    add_hash(&mut run, "chat", "t1", 450);
    let more = report(&server, "import redisvl --remove", 0);
    assert_eq!(
        (&more["messages"], &more["removed"]),
        (&1.into(), &14.into()),
        "{more:#}"
    );
    assert_eq!(int(&server.run("SESSION.LEN session:chat:t1")), 11);
    assert_eq!(
        int(&server.run("DBSIZE")),
        3 + 440,
        "what was trimmed is only in its hashes"
    );

    // A session that somebody else has made is not written to.
    server.run("SESSION.APPEND session:chat:t3 MSG user hi");
    add_hash(&mut run, "chat", "t3", 1);
    let other = report(&server, "import redisvl --match chat:t3:*", 0);
    assert_eq!(
        (&other["messages"], &other["skipped"]),
        (&0.into(), &1.into()),
        "{other:#}"
    );
}

#[test]
fn a_message_that_is_too_large_is_skipped_alone() {
    let server = Server::with("session.max-message-bytes", 1024).start();
    let mut run = |line: &str| {
        server.run(line);
    };
    (0..20).for_each(|n| add_hash(&mut run, "chat", "t", n));
    run(&format!(
        "HSET chat:t:1736850007.5:00000007 content {}",
        "x".repeat(2000)
    ));
    let done = report(&server, "import redisvl --key-template s:{tag} --remove --strict", 1);
    assert_eq!(
        (&done["messages"], &done["skipped"], &done["removed"]),
        (&19.into(), &1.into(), &19.into()),
        "{done:#}"
    );
    assert_eq!(int(&server.run("SESSION.LEN s:t")), 19);
    let again = report(&server, "import redisvl --key-template s:{tag}", 0);
    assert_eq!(
        (&again["messages"], &again["skipped"]),
        (&0.into(), &0.into()),
        "{again:#}"
    );
}

#[test]
fn hashes_all_over_a_cluster_come_together() {
    let cluster = Cluster::start(3);
    for n in 0..30 {
        let id = format!("t:{}.5:{n:08x}", 1_736_850_000 + n);
        let node = cluster.node(cluster.owner(&format!("chat:{id}")));
        add_hash(
            &mut |line: &str| {
                node.run(line);
            },
            "chat",
            "t",
            n,
        );
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redis-session"))
        .args([
            "-c",
            "-p",
            &cluster.node(1).port().to_string(),
            "import",
            "redisvl",
            "--json",
        ])
        .output()
        .unwrap();
    let done: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(done["messages"], 30, "{done:#}");
    let node = cluster.node(cluster.owner("session:chat:t"));
    assert_eq!(int(&node.run("SESSION.LEN session:chat:t")), 30);
}

const UUID: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

/// A folder of sessions in every form, in the server's own folder.
fn folder(server: &Server) -> PathBuf {
    let root = server.file("conversations");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let file = |words: &[&str]| {
        let messages: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(i, word)| format!("- role: {}\n  content: {word}\n", ["user", "assistant"][i % 2]))
            .collect();
        format!(
            "model: openai:gpt-4o\ntemperature: 0.5\nmessages:\n{}",
            messages.concat()
        )
    };
    write("sessions/plain.yaml", &file(&["yes", "'no'"]));
    write("sessions/_/20260114T100000-weather.yaml", &file(&["rain?", "no"]));
    write(
        "sessions/_/20260115T100000-weather.yaml",
        &file(&["sun?", "yes", "good"]),
    );
    write(
        "sessions/broken.yaml",
        "model: x\nmessages:\n- role: user\n  content: \"open\n",
    );
    write("agents/coder/sessions/plain.yaml", &file(&["code"]));
    write(&format!("sessions/by-id/{UUID}/state.yaml"), &file(&["new"]));
    write("sessions/by-name/trip", &format!("{UUID}\n"));
    root
}

#[track_caller]
fn import(server: &Server, root: &PathBuf, words: &str) -> Value {
    let output = program(server, "import yaml --json")
        .arg(root)
        .args(words.split_whitespace())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn session_folders_keep_their_names_and_are_imported_once() {
    let server = Server::start();
    let root = folder(&server);
    let dry = import(&server, &root, "--dry-run");
    assert_eq!((&dry["created"], &dry["messages"]), (&5.into(), &9.into()), "{dry:#}");
    assert_eq!(int(&server.run("DBSIZE")), 0);

    // One on demand, then all.
    let one = import(&server, &root, "--name trip");
    assert_eq!((&one["sessions"], &one["messages"]), (&1.into(), &1.into()), "{one:#}");
    let done = import(&server, &root, "");
    assert_eq!(
        (&done["created"], &done["messages"], &done["already"]),
        (&4.into(), &8.into(), &1.into()),
        "{done:#}"
    );
    assert_eq!(done["skipped"], 1);
    let skipped = done["skipped_items"][0].as_str().unwrap();
    assert!(skipped.contains("broken.yaml: line "), "{skipped}");

    assert_eq!(int(&server.run("SESSION.INDEX LEN sessions:{default}")), 4);
    assert_eq!(int(&server.run("SESSION.INDEX LEN sessions:{agent:coder}")), 1);
    server.conversation(&format!(
        r#"
        > SESSION.INDEX RESOLVE sessions:{{default}} trip
        1) "id"
        2) "{UUID}"
        3) "key"
        4) "session:{{default}}:{UUID}"
        5) "alias"
        6) "trip"
        > SESSION.RANGE session:{{default}}:{UUID} 0 -1
        1) '{{"role":"user","content":"new"}}'
        > TTL session:{{default}}:{UUID}
        (integer) -1
        "#
    ));
    let listed: Vec<Value> = items(&server.run("SESSION.INDEX LIST sessions:{default}"))
        .iter()
        .map(|entry| serde_json::from_str(&text(entry)).unwrap())
        .collect();
    let of = |alias: &str| {
        listed
            .iter()
            .find(|entry| entry["alias"] == alias)
            .unwrap_or_else(|| panic!("{listed:#?}"))
    };
    assert_eq!(
        (&of("weather")["autoname"], &of("plain")["autoname"]),
        (&true.into(), &false.into())
    );
    assert_eq!(of("weather")["created_at"], "2026-01-14T10:00:00.000Z");
    assert_eq!(of("20260115T100000-weather")["message_count"], 3);
    let key = of("plain")["key"].as_str().unwrap();
    let session: Value = serde_json::from_str(&text(&server.call(&["SESSION.GET", key]))).unwrap();
    assert_eq!(session["meta"]["model"], "openai:gpt-4o");
    assert_eq!(session["messages"][0]["content"], "yes");

    let again = import(&server, &root, "");
    assert_eq!(
        (&again["created"], &again["messages"], &again["already"]),
        (&0.into(), &0.into(), &9.into()),
        "{again:#}"
    );

    // A file that goes on is followed, one that was rewritten is not.
    let plain = root.join("sessions/plain.yaml");
    let text_of = fs::read_to_string(&plain).unwrap();
    fs::write(&plain, format!("{text_of}- role: user\n  content: more\n")).unwrap();
    assert_eq!(import(&server, &root, "--name plain")["messages"], 1);
    assert_eq!(int(&server.call(&["SESSION.LEN", key])), 3);
    fs::write(&plain, text_of.replace("yes", "maybe")).unwrap();
    let changed = import(&server, &root, "--name plain");
    assert_eq!(
        (&changed["messages"], &changed["skipped"]),
        (&0.into(), &1.into()),
        "{changed:#}"
    );
}

#[test]
fn an_alias_of_somebody_else_is_not_taken() {
    let server = Server::start();
    let root = folder(&server);
    server.run("SESSION.CREATE session:{default}:x INDEX sessions:{default} ALIAS plain");
    server.run("SESSION.CREATE session:{default}:y INDEX sessions:{default} ALIAS trip");
    let done = import(&server, &root, "");
    let skipped: Vec<&str> = done["skipped_items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        skipped.iter().filter(|item| item.contains("belongs to")).count(),
        2,
        "{skipped:?}"
    );
    assert_eq!(int(&server.run("SESSION.LEN session:{default}:x")), 0);
    let output = program(&server, "import yaml /nonexistent").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = program(&server, "import yaml --name nobody")
        .arg(&root)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
