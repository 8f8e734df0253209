//! The replication stream carries facts: nothing in it is judged again, nothing is taken from the replica's clock,
//! random source or settings.

use redis_session_tests::journal::{line, Propagated};
use redis_session_tests::{oracle, wait_until, Options, Server};

/// The words of a propagated command that may be options: not the key, not the messages.
fn options(command: &Propagated) -> Vec<String> {
    let words = command[2..]
        .iter()
        .map(|arg| String::from_utf8_lossy(arg).to_uppercase());
    words.take_while(|word| word != "MSG" && word != "JSON").collect()
}

/// What every propagated command must be like, whatever its exact words.
fn wrong_about(commands: &[Propagated], key: &str) -> Option<String> {
    let names: Vec<String> = commands
        .iter()
        .map(|command| String::from_utf8_lossy(&command[0]).to_uppercase())
        .collect();
    if commands.is_empty() {
        return Some("nothing was propagated".into());
    }
    let is_transaction =
        names.first().is_some_and(|name| name == "MULTI") && names.last().is_some_and(|name| name == "EXEC");
    let inner = if is_transaction {
        &commands[1..commands.len() - 1]
    } else {
        commands
    };
    if !is_transaction && inner.len() > 1 {
        return Some("several commands outside a transaction".into());
    }
    if is_transaction && inner.len() < 2 {
        return Some("a transaction around one command".into());
    }
    for command in inner {
        let name = String::from_utf8_lossy(&command[0]).to_uppercase();
        if !(name.starts_with("SESSION.") || ["DEL", "UNLINK", "PEXPIREAT", "PERSIST"].contains(&name.as_str())) {
            return Some(format!("{name} is no effect"));
        }
        if command[1] != key.as_bytes() {
            return Some("another key".into());
        }
        let options = options(command);
        let has = |word: &str| options.iter().any(|option| option == word);
        for judged in ["IFVERSION", "LEASE", "EX", "OPEN"] {
            if has(judged) {
                return Some(format!("{judged} is for the primary to judge"));
            }
        }
        if has("PX") && !has("PXAT") {
            return Some("a relative expiry".into());
        }
        if (name == "SESSION.APPEND" || name == "SESSION.COMPACT") && !has("AT") {
            return Some("a message without its time".into());
        }
        if name == "SESSION.CREATE" {
            if !has("ID") || !has("AT") {
                return Some("a creation without its id or time".into());
            }
            if options.iter().filter(|option| *option == "LIMIT").count() != 10 {
                return Some("a creation without all its limits".into());
            }
        }
    }
    None
}

#[test]
fn every_write_propagates_facts() {
    let server = Server::append_only().start();
    let mut complaints = String::new();
    for scenario in super::scenarios::all() {
        let mut commands = Vec::new();
        let mut command = String::new();
        scenario.play(&server, |last| {
            command = last.into();
            commands = server.propagated_by(|server| {
                server.run(last);
            });
        });
        // Its last command is the repetition that changes nothing.
        if scenario.name == "append-dedup-window" {
            assert!(commands.is_empty());
            continue;
        }
        let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
        if let Some(why) = wrong_about(&commands, scenario.name) {
            complaints += &format!("\n> {command}\n{why}:\n    {}\n", lines.join("\n    "));
        }
        let creates = scenario.commands.len() == 1 && !command.starts_with("SESSION.CREATE");
        if creates && !(lines.first().is_some_and(|line| line == "MULTI") && lines[1].starts_with("SESSION.CREATE ")) {
            complaints += &format!(
                "\n> {command}\nno SESSION.CREATE in a MULTI first:\n    {}\n",
                lines.join("\n    ")
            );
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn an_error_propagates_nothing() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k MSG user hi");
    let lines = server.propagated_lines(|server| {
        for command in [
            "SESSION.CREATE k",
            "SESSION.APPEND k IFVERSION 99 MSG user hi",
            "SESSION.APPEND k LEASE 1 MSG user hi",
            "SESSION.APPEND k JSON {} []",
            "SESSION.APPEND k BOGUS",
            "SESSION.POP absent",
            "SESSION.WINDOW k MAXLEN -1",
            "SESSION.META absent 5",
            "SESSION.META absent {} IFVERSION 3",
        ] {
            assert!(server.say(command).starts_with("(error)"), "{command}");
        }
        for reading in [
            "RANGE k 0 -1",
            "GET k",
            "LEN k",
            "INFO k",
            "CONTEXT k",
            "RANGE absent 0 -1",
            "GET absent",
            "GETEX absent",
        ] {
            server.run(&format!("SESSION.{reading}"));
        }
    });
    assert_eq!(lines, [""; 0]);
}

#[test]
fn an_expiry_in_the_past_propagates_a_deletion() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k MSG user hi");
    for command in [
        "SESSION.APPEND k PXAT 1000 MSG user hi",
        "SESSION.META new {} PXAT 1000",
        "SESSION.GETEX k2 PXAT 1000",
    ] {
        server.run("SESSION.APPEND k2 MSG user hi");
        server.run(command);
    }
    assert_eq!(server.say("EXISTS k new k2"), "(integer) 0");
    server.restart();
    assert_eq!(server.say("EXISTS k new k2"), "(integer) 0");
}

#[test]
fn a_transaction_is_propagated_as_one() {
    let server = Server::append_only().start();
    let lines = server.propagated_lines(|server| {
        for command in [
            "MULTI",
            "SESSION.APPEND k MSG user one",
            "SESSION.APPEND k MSG user two",
            "SET s v",
            "SESSION.LEN k",
            "EXEC",
        ] {
            server.run(command);
        }
    });
    assert_eq!(lines.iter().filter(|line| *line == "MULTI").count(), 1, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| *line == "EXEC").count(), 1);
    assert!(
        lines[0] == "MULTI" && lines[1].starts_with("SESSION.CREATE k ") && lines[2].starts_with("SESSION.APPEND k ")
    );
    assert!(
        lines[3].starts_with("SESSION.APPEND k ") && lines[4] == "SET s v" && lines[5] == "EXEC" && lines.len() == 6,
        "{lines:#?}"
    );
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_script_propagates_its_effects() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    let lines = server.propagated_lines(|server| {
        server.run(
            "EVAL \"redis.call('SESSION.APPEND', KEYS[1], 'MSG', 'user', 'hi') \
             return redis.call('SESSION.POP', KEYS[1])\" 1 k",
        );
    });
    assert!(
        lines[0] == "MULTI" && lines.last().expect("lines") == "EXEC",
        "{lines:#?}"
    );
    assert!(
        lines.iter().all(|line| !line.to_uppercase().contains("EVAL")),
        "{lines:#?}"
    );
    let before = server.snapshot();
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_replica_reads_and_does_not_write() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run(r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}'"#);
    replica.wait_for(&primary);
    for write in super::guards::WRITES
        .iter()
        .map(|write| write.replace("{w}", ""))
        .chain(["SESSION.CREATE new", "SESSION.GETEX k", "SESSION.LOAD new x"].map(String::from))
    {
        assert!(
            replica.say(&write).starts_with("(error) READONLY "),
            "{write}: {}",
            replica.say(&write)
        );
    }
    for reading in ["RANGE k 0 -1", "GET k", "LEN k", "CONTEXT k"] {
        let command = format!("SESSION.{reading}");
        assert_eq!(replica.say(&command), primary.say(&command));
    }
    replica.run("SESSION.INFO k");
}

#[test]
fn a_replica_hides_what_maxage_has_passed_and_keeps_what_the_primary_keeps() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    let now = redis_session_tests::now_ms();
    primary.run("SESSION.CREATE k LIMIT maxage 2000");
    primary.run(&format!(r#"SESSION.APPEND k AT {} JSON '{{"n":1}}'"#, now - 1000));
    primary.run(&format!(r#"SESSION.APPEND k AT {} JSON '{{"n":2}}'"#, now + 9_000_000));
    replica.wait_for(&primary);
    wait_until("the first is hidden on the replica", || replica.seqs("k") == [2]);
    wait_until("the first is hidden on the primary", || primary.seqs("k") == [2]);
    assert_eq!(primary.digest(b"k"), replica.digest(b"k"));
    primary.run(r#"SESSION.APPEND k JSON '{"n":3}'"#);
    replica.wait_for(&primary);
    assert_eq!(primary.visible(b"k"), replica.visible(b"k"));
}

#[test]
fn a_promoted_replica_knows_tokens_versions_and_seqs() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run(r#"SESSION.APPEND k DEDUP a JSON '{"n":1}'"#);
    primary.run(r#"SESSION.APPEND k DEDUP b MSG user hi"#);
    primary.run("SESSION.POP k");
    replica.wait_for(&primary);
    replica.run("REPLICAOF NO ONE");
    replica.conversation(
        r#"
        > SESSION.APPEND k DEDUP a JSON '{"n":1}'
        (integer) 1
        > SESSION.APPEND k DEDUP b MSG user hi
        (integer) 2
        > SESSION.APPEND k DEDUP a JSON '{"n":2}'
        (error) DEDUPCONFLICT token 'a' was used for another message
        > SESSION.APPEND k IFVERSION 4 MSG user hi
        (integer) 3
        "#,
    );
}

#[test]
fn a_chain_of_replicas_and_a_partial_resync() {
    let (primary, middle, last) = (
        Server::start(),
        Options::default().hostile().start(),
        Options::default().hostile().start(),
    );
    middle.replicate(&primary);
    last.replicate(&middle);
    for scenario in super::scenarios::all() {
        if scenario.name == "append-maxlen" {
            primary.run("CLIENT KILL TYPE replica");
        }
        scenario.play(&primary, |command| {
            primary.run(command);
        });
    }
    middle.wait_for(&primary);
    last.wait_for(&middle);
    oracle::assert_same("on the replica", &primary.snapshot(), &middle.snapshot());
    oracle::assert_same("on the replica's replica", &primary.snapshot(), &last.snapshot());
    assert!(primary.info_number("stats", "sync_partial_ok") >= 1);
}

#[test]
fn tokens_are_remembered_across_a_restart() {
    for rewrite in [false, true] {
        let server = Server::append_only().start();
        server.run(r#"SESSION.APPEND k DEDUP a JSON '{"n":1}' '{"n":2}'"#);
        if rewrite {
            server.run("CONFIG SET aof-use-rdb-preamble no");
            server.rewrite_append_only_file();
        }
        server.restart();
        server.conversation(
            r#"
            > SESSION.APPEND k DEDUP a JSON '{"n":1}' '{"n":2}'
            (integer) 2
            > SESSION.APPEND k DEDUP a JSON '{"n":3}'
            (error) DEDUPCONFLICT …
            > SESSION.LEN k
            (integer) 2
            "#,
        );
    }
}
