//! The binary on real servers: one binary of tests, one module a subcommand.

mod connection;
mod export;
mod import;
mod ls;
mod migrate;
mod show;
mod tail;
mod timeline;
mod top;

use std::process::{Command, Output, Stdio};

use redis_session_tests::{Cluster, Server};

/// The program, connected to this server.
fn program(server: &Server, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-session"));
    command
        .env_remove("REDISCLI_AUTH")
        .arg("-s")
        .arg(server.file("s"))
        .args(words.split_whitespace())
        .stdin(Stdio::null());
    command
}

/// The same, connected to one node of a cluster, and told that it is one.
fn cluster_program(cluster: &Cluster, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-session"));
    command
        .env_remove("REDISCLI_AUTH")
        .args(["-c", "-p", &cluster.node(0).port().to_string()])
        .args(words.split_whitespace())
        .stdin(Stdio::null());
    command
}

/// Runs any of them; it must end with this code. What it printed and what it said.
#[track_caller]
fn ends(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().expect("the program runs");
    let (out, err) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{out:.2000}\n{err}");
    (out, err)
}

/// What it prints, an object a line.
fn objects(out: &str) -> Vec<serde_json::Value> {
    let objects = out.lines().map(serde_json::from_str);
    objects
        .map(|object| object.unwrap_or_else(|error| panic!("{error} in {out:.2000}")))
        .collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs it; it must end with this code. What it printed.
#[track_caller]
fn run(server: &Server, words: &str, code: i32) -> String {
    let output = program(server, words).output().expect("the program runs");
    let (out, err) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{words}\n{out}\n{err}");
    out
}

/// The same with `--json`.
#[track_caller]
fn report(server: &Server, words: &str, code: i32) -> serde_json::Value {
    let out = run(server, &format!("{words} --json"), code);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}"))
}
