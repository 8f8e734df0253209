//! `redis-session tail`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use redis_session_tests::{wait_until, Cluster, Options, Server};
use serde_json::{json, Value};

use crate::show::{assert_harmless, load_evil, load_sample, SAMPLE};
use crate::{program, run};

/// A program that runs, and what it has printed so far.
struct Follower {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let all = text.clone();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = String::new();
        while pipe.read_line(&mut line).is_ok_and(|read| read > 0) {
            all.lock().unwrap().push_str(&std::mem::take(&mut line));
        }
    });
    text
}

impl Follower {
    fn start(server: &Server, words: &str) -> Follower {
        Follower::of(program(server, words))
    }

    /// Of a session that may be on another node than the one it is told of.
    fn in_cluster(near: &Server, key: &str) -> Follower {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redis-session"));
        command.env_remove("REDISCLI_AUTH").stdin(Stdio::null());
        command.args(["-c", "-p", &near.port().to_string(), "tail", key, "--json"]);
        Follower::of(command)
    }

    fn of(mut command: Command) -> Follower {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let out = collect(child.stdout.take().expect("a pipe"));
        let err = collect(child.stderr.take().expect("a pipe"));
        Follower { child, out, err }
    }

    /// The same, once it waits for what is new.
    fn waiting(server: &Server, words: &str) -> Follower {
        let before = blocked(server);
        let follower = Follower::start(server, words);
        wait_until("it follows", || blocked(server) > before);
        follower
    }

    fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    #[track_caller]
    fn says(&self, what: &str) {
        wait_until(what, || self.out().contains(what));
    }

    #[track_caller]
    fn remarks(&self, what: &str) {
        wait_until(what, || self.err().contains(what));
    }

    fn json(&self) -> Vec<Value> {
        let out = self.out();
        let lines = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")));
        lines.collect()
    }

    /// `m1 e2 c3 g4-5 r`: what was told so far.
    fn told(&self) -> String {
        let one = |entry: &Value| match entry["kind"].as_str().unwrap_or_default() {
            "gap" => format!("g{}-{}", entry["body"]["from"], entry["body"]["to"]),
            "reset" => "r".to_owned(),
            kind => format!("{}{}", &kind[..1], entry["seq"]),
        };
        self.json().iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn signal(&self, name: &str) {
        let kill = std::process::Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status()
            .expect("a shell");
        assert!(kill.success());
    }

    fn end(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn blocked(server: &Server) -> i64 {
    server.info_number("session", "session_blocked_readers")
}

#[test]
fn what_comes_is_shown_as_it_comes() {
    let server = Server::start();
    load_sample(&server);
    let follower = Follower::waiting(&server, &format!("tail {SAMPLE} --last 2 --utc --width 80"));
    // The last two messages: the answer to a call, and what was said then; all records from there on.
    follower.says("⚑ checkpoint rebooked");
    assert!(
        follower.out().starts_with("session:{acme}:4821  mia-rebooking  pass\n"),
        "{}",
        follower.out()
    );
    assert!(!follower.out().contains("change_flight("), "{}", follower.out());
    assert!(
        follower.out().contains("← {\"status\":\"confirmed\""),
        "{}",
        follower.out()
    );
    server.call(&[
        "SESSION.APPEND",
        SAMPLE,
        "JSON",
        r#"{"role":"assistant","tool_calls":[{"id":"x","name":"send_mail","arguments":"{\"to\":\"mia\"}"}]}"#,
    ]);
    follower.says("→ send_mail(to: \"mia\")");
    server.call(&[
        "SESSION.APPEND",
        SAMPLE,
        "JSON",
        r#"{"role":"tool","tool_call_id":"x","content":"sent"}"#,
    ]);
    follower.says("← send_mail sent");
    server.run(&format!("SESSION.EVENT ADD {SAMPLE} broke AGENT mail STATE broke"));
    follower.says("◆ broke · mail · pass → broke");
    server.run(&format!("SESSION.AGENT HANDOFF {SAMPLE} mail booking NOTE help"));
    follower.says("⇄ handoff mail → booking · “help”");
    follower.signal("INT");
    assert_eq!(follower.end().code(), Some(130));
}

#[test]
fn a_broken_connection_is_resumed_without_loss_or_repetition() {
    let server = Server::append_only().start();
    (1..=3).for_each(|n| {
        server.run(&format!("SESSION.APPEND k MSG user m{n}"));
    });
    let follower = Follower::waiting(&server, "tail k --json -N 2");
    server.run("SESSION.APPEND k MSG user m4");
    wait_until("the first four", || follower.told() == "m2 m3 m4");

    // Only the connection breaks.
    server.run("CLIENT KILL TYPE normal SKIPME yes");
    follower.remarks("trying again in");
    server.run("SESSION.EVENT ADD k pass");
    wait_until("the event", || follower.told() == "m2 m3 m4 e5");
    follower.remarks("connected again; going on after seq 4");

    // The server is gone for a while, and the window has gone on when it is back.
    server.restart();
    server.run("SESSION.APPEND k MAXLEN 1 MSG user m6");
    server.run("SESSION.APPEND k MSG user m7");
    wait_until("what came after the restart", || follower.told().ends_with("m7"));
    let told = follower.told();
    assert!(
        ["m2 m3 m4 e5 m6 m7", "m2 m3 m4 e5 g6-6 m7"].contains(&told.as_str()),
        "{told}"
    );
    follower.signal("TERM");
    assert_eq!(follower.end().code(), Some(130));
}

#[test]
fn gaps_and_resets_are_seen() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user m1");
    let machine = Follower::waiting(&server, "tail k --json --last 0");
    let person = Follower::waiting(&server, "tail k --last 0");
    let at_once = |lines: &[&str]| {
        let mut client = server.client();
        client.run("MULTI");
        lines.iter().for_each(|line| {
            client.run(line);
        });
        client.run("EXEC");
    };
    at_once(&[
        "SESSION.APPEND k MSG user m2",
        "SESSION.POP k",
        "SESSION.APPEND k MSG user m3",
    ]);
    wait_until("the gap", || machine.told() == "g2-2 m3");
    person.says("seq 2 is no longer there (gone before it was read");

    // Nothing but a gap is told once, and nothing is repeated behind it.
    at_once(&["SESSION.APPEND k MSG user m4", "SESSION.POP k"]);
    wait_until("a gap alone", || machine.told() == "g2-2 m3 g4-4");
    server.run("SESSION.APPEND k MSG user m5");
    wait_until("what follows it", || machine.told() == "g2-2 m3 g4-4 m5");

    // Another session, which has overtaken the last seq already.
    let mut lines = vec!["DEL k".to_owned()];
    lines.extend((1..=7).map(|n| format!("SESSION.APPEND k MSG user new{n}")));
    at_once(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the new session", || {
        machine.told() == "g2-2 m3 g4-4 m5 r m1 m2 m3 m4 m5 m6 m7"
    });
    person.says("another session is here now");
    person.says("new7");
    let id = server.document("k")["session_id"].clone();
    assert_eq!(machine.json()[4]["body"], json!({ "session_id": id }));

    // Gone, and back.
    server.run("DEL k");
    machine.remarks("the session is gone");
    server.run("SESSION.APPEND k MSG user again");
    wait_until("the one after it", || machine.told().ends_with("m7 r m1"));
}

#[test]
fn it_ends_with_its_reader_or_with_the_session() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user m1");
    let mut command = program(&server, "tail k --json");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut pipe = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    pipe.read_line(&mut line).expect("a line");
    assert!(line.contains("m1"), "{line}");
    // Nothing more comes, and still it notices.
    drop(pipe);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));

    let follower = Follower::waiting(&server, "tail k");
    server.run("SESSION.APPEND k MSG user bye");
    server.run("SESSION.CHECKPOINT CREATE k LABEL end CLOSE");
    follower.says("⚑ checkpoint end");
    follower.remarks("the session is closed");
    assert_eq!(follower.end().code(), Some(0));
    let out = run(&server, "tail k --no-events", 0);
    assert!(out.contains("bye") && !out.contains('⚑'), "{out}");
}

#[test]
fn it_waits_for_a_session_if_told_to() {
    let server = Server::start();
    let follower = Follower::start(&server, "tail trip --index dir --wait --json");
    let by_key = Follower::waiting(&server, "tail k --wait --json");
    by_key.remarks("waiting for it");
    server.run("SESSION.CREATE k INDEX dir ALIAS trip");
    server.run("SESSION.APPEND k MSG user hello");
    for follower in [follower, by_key] {
        wait_until("the message", || follower.told() == "m1");
    }
}

#[test]
fn what_is_followed_is_harmless_too() {
    let server = Server::start();
    load_evil(&server);
    server.run("SESSION.CHECKPOINT CREATE evil CLOSE");
    for flags in ["--color always", "--color never --full", "--tools", "--json"] {
        let out = run(&server, &format!("tail evil -N 100 {flags}"), 0);
        assert!(out.contains("owned"), "{out}");
        assert_harmless(&out.replace('\u{202e}', if flags == "--json" { "" } else { "\u{202e}" }));
    }
}

#[test]
fn a_session_is_followed_through_a_cluster() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(1, "k");
    let (near, far) = (cluster.node(0), cluster.node(1));
    far.run(&format!("SESSION.APPEND {key} MSG user m1"));
    let follower = Follower::in_cluster(near, &key);
    wait_until("the first", || follower.told() == "m1");
    far.run(&format!("SESSION.APPEND {key} MSG user m2"));
    wait_until("the second", || follower.told() == "m1 m2");

    // Its slot moves to another node.
    let slot = cluster.slot(&key);
    cluster.begin_migration(slot, 1, 0);
    cluster.move_keys(slot, 1, 0);
    cluster.end_migration(slot, 1, 0);
    near.run(&format!("SESSION.APPEND {key} MSG user m3"));
    wait_until("what came on the other node", || follower.told() == "m1 m2 m3");

    // The connection breaks, and the way is found again.
    near.run("CLIENT KILL TYPE normal SKIPME yes");
    near.run(&format!("SESSION.APPEND {key} MSG user m4"));
    wait_until("what came after that", || follower.told() == "m1 m2 m3 m4");
}

#[test]
fn the_node_that_showed_the_way_may_go() {
    let options = Options::default().config("cluster-require-full-coverage", "no");
    let cluster = Cluster::with(options, 2);
    let key = cluster.key_on(1, "k");
    let (near, far) = (cluster.node(0), cluster.node(1));
    far.run(&format!("SESSION.APPEND {key} MSG user m1"));
    let follower = Follower::in_cluster(near, &key);
    wait_until("the first", || follower.told() == "m1");
    // It ends, and does not start again with such a setting.
    let nonsense = Options::default().config("maxmemory", "nonsense");
    assert!(near.try_restart_with(&nonsense).is_err());
    far.run("CLIENT KILL TYPE normal SKIPME yes");
    far.run(&format!("SESSION.APPEND {key} MSG user m2"));
    wait_until("what came after that", || follower.told() == "m1 m2");
}
