//! The binary on real servers: one binary of tests, one module a subcommand.

mod import;
mod migrate;
mod show;
mod tail;
mod timeline;

use std::process::{Command, Output, Stdio};

use redis_session_tests::Server;

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
