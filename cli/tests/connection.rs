//! The flags and the environment of redis-cli, and what is said when there is no connection.

use std::io::Write;
use std::process::{Command, Stdio};

use redis_session_tests::{Cluster, Options, Server};

use crate::{ends, program, run, stderr};

#[test]
fn passwords_come_as_redis_cli_takes_them() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("ACL SETUSER reader on >pass ~* +@all");
    server.run("CONFIG SET requirepass secret");
    for words in [
        "ls",
        "-a wrong ls",
        "export",
        "top --once",
        "migrate --dry-run",
        "-a secret --user nobody ls",
    ] {
        let (_, err) = ends(&mut program(&server, words), 3);
        assert!(
            err.contains("Give the password with -a, or in REDISCLI_AUTH"),
            "{words}: {err}"
        );
    }
    let is_let_in = |command: &mut Command| {
        let (out, _) = ends(command, 0);
        assert!(out.contains("\"key\":\"k\""), "{out}");
    };
    is_let_in(&mut program(&server, "-a secret ls --json"));
    is_let_in(&mut program(&server, "--pass secret --no-auth-warning ls --json"));
    is_let_in(&mut program(&server, "--user reader -a pass ls --json"));
    is_let_in(program(&server, "ls --json").env("REDISCLI_AUTH", "secret"));
    is_let_in(program(&server, "-a secret ls --json").env("REDISCLI_AUTH", "wrong"));
    let uri = |password: &str| format!("redis+unix://{}?pass={password}", server.file("s").display());
    let with_uri = |uri: &str, words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redis-session"));
        command.args(["-u", uri]).args(words.split(' '));
        command
    };
    is_let_in(with_uri(&uri("secret"), "ls --json").env("REDISCLI_AUTH", "wrong"));
    is_let_in(with_uri(&uri("wrong"), "ls --json -a secret").env_remove("REDISCLI_AUTH"));
    let mut asked = program(&server, "--askpass -a ignored ls --json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    asked.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let output = asked.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    // Who may not do a thing is told what is missing.
    let mut client = server.client();
    client.run("AUTH secret");
    client.run("ACL SETUSER little on >pass ~* -@all +scan +ping +select +client +hello +memory +type +dbsize");
    let (_, err) = ends(&mut program(&server, "--user little -a pass export k"), 3);
    assert!(err.contains("NOPERM") && err.contains("ACL SETUSER"), "{err}");
    client.run("ACL SETUSER nosize on >pass ~* +@all -memory");
    let (out, _) = ends(&mut program(&server, "--user nosize -a pass ls --json"), 0);
    assert!(out.contains("\"memory_usage_bytes\":null"), "{out}");
    assert_eq!(
        ends(&mut program(&server, "--user nosize -a pass export"), 0)
            .0
            .lines()
            .count(),
        1
    );
    client.run("CONFIG SET requirepass \"\"");
}

#[test]
fn databases_and_protocols() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SELECT 3");
    client.run("SESSION.APPEND k MSG user hi");
    for words in [
        "-n 3 ls --json",
        "-n 3 -2 ls --json",
        "-n 3 -3 ls --json",
        "-3 -n 3 export k --readable",
    ] {
        assert!(run(&server, words, 0).contains("\"key\":\"k\""), "{words}");
    }
    assert!(run(&server, "-3 top --once --json -i 0.1", 0).contains("\"active_sessions\":1"));
    assert_eq!(run(&server, "ls --json", 0), "");
    run(&server, "-2 -3 ls", 2);
    let (_, err) = ends(&mut program(&server, "-c -n 1 ls"), 2);
    assert!(err.contains("leave out -n"), "{err}");
    let (_, err) = ends(&mut program(&server, "-c ls"), 3);
    assert!(err.contains("Leave out -c"), "{err}");
}

#[test]
fn a_server_that_cannot_serve_is_told_from_one_that_is_not_there() {
    let plain = Options::default().without_module().start();
    for words in ["ls", "top", "export", "import jsonl /dev/null", "migrate"] {
        let (_, err) = ends(&mut program(&plain, words), 3);
        assert!(
            err.contains("does not have the module") && err.contains("--loadmodule"),
            "{words}: {err}"
        );
    }
    let mut nowhere = Command::new(env!("CARGO_BIN_EXE_redis-session"));
    let (_, err) = ends(nowhere.args(["-s", "/nonexistent/socket", "ls"]), 3);
    assert!(err.contains("Is the server running there?"), "{err}");
    let mut tls = Command::new(env!("CARGO_BIN_EXE_redis-session"));
    let (_, err) = ends(tls.args(["--tls", "--cacertdir", "/nonexistent", "ls"]), 2);
    assert!(err.contains("cannot read /nonexistent"), "{err}");
    let mut named = Command::new(env!("CARGO_BIN_EXE_redis-session"));
    let (_, err) = ends(named.args(["--tls", "--sni", "other", "ls"]), 2);
    assert!(err.contains("-h other"), "{err}");
}

#[test]
fn a_node_of_a_cluster_says_that_it_is_one() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(1, "k");
    cluster.node(1).run(&format!("SESSION.APPEND {key} MSG user hi"));
    let (_, err) = ends(&mut program(cluster.node(0), &format!("export {key}")), 3);
    assert!(err.contains("node of a cluster") && err.contains("Give -c"), "{err}");
}

#[test]
fn completions_and_manual_pages_are_of_every_subcommand() {
    let server = Server::start();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&server, &format!("completions {shell}"), 0);
        for word in ["migrate", "import", "jsonl", "export", "by-activity", "askpass"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let folder = server.file("man");
    run(&server, &format!("man {}", folder.display()), 0);
    let pages = ["", "-ls", "-export", "-import", "-import-jsonl", "-top", "-migrate"];
    for page in pages.map(|name| format!("redis-session{name}.1")) {
        let text = std::fs::read_to_string(folder.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains("askpass"), "{page}");
    }
    assert!(run(&server, "man", 0).contains("redis\\-session"));
}

#[test]
fn a_user_without_transactions_is_told_so() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("ACL SETUSER plain on >pass ~* +@all -multi");
    for words in ["show k", "timeline k", "tail k", "export k"] {
        let (_, err) = ends(&mut program(&server, &format!("--user plain -a pass {words}")), 3);
        assert!(err.contains("'multi'") && err.contains("ACL SETUSER"), "{words}: {err}");
    }
}
