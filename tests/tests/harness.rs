//! The harness itself, on a plain server: if these fail, no other result means anything.

use redis_session_tests::{module, oracle, Options, Postgres, Sentinel, Server};

fn plain() -> Options {
    Options::default().without_module()
}

#[test]
fn a_conversation_is_compared_to_the_letter() {
    plain().start().conversation(
        r#"
        # strings come as one would type them
        > SET k '{"a":1}'
        OK
        > GET k
        '{"a":1}'
        > SET "k\x00\xff" plain
        OK
        > GET "k\x00\xff"
        "plain"
        > GET nothing
        (nil)
        > RPUSH l a b
        (integer) 2
        > LRANGE l 0 -1
        1) "a"
        2) "b"
        > EVAL "return {1,{2,'x'},{}}" 0
        1) (integer) 1
        2) 1) (integer) 2
           2) "x"
        3) (empty array)
        > INCR l
        (error) WRONGTYPE …
        > CONFIG GET hz
        …
        "#,
    );
    plain().start().client().resp3().conversation(
        r#"
        > CONFIG GET hz
        1# "hz" => "100"
        "#,
    );
}

#[test]
#[should_panic(expected = "the conversation went differently")]
fn a_wrong_reply_fails_the_test() {
    plain().start().conversation("> PING\nPANG");
}

#[test]
fn the_journal_holds_what_was_propagated() {
    let server = plain().append_only().start();
    server.run("SET before 1");
    let lines = server.propagated_lines(|server| {
        server.run(r#"SET k "a b""#);
        server.run("GET k");
        server.run("DEL nothing");
        server.run("EXPIREAT k 99999999999");
    });
    assert_eq!(lines, [r#"SET k "a b""#, "PEXPIREAT k 99999999999000"]);
}

#[test]
fn a_server_comes_back_with_its_append_only_file() {
    let server = plain().append_only().start();
    server.run("SET k v");
    server.restart();
    assert_eq!(server.say("GET k"), r#""v""#);
    server.rewrite_append_only_file();
    server.restart();
    assert_eq!(server.say("GET k"), r#""v""#);
}

#[test]
fn a_replica_has_everything_once_waited_for() {
    let (primary, replica) = (plain().start(), plain().start());
    replica.replicate(&primary);
    primary.run("SET k v PX 1000000");
    replica.wait_for(&primary);
    oracle::assert_same("on the replica", &primary.snapshot(), &replica.snapshot());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let log = plain()
        .config("no-such-setting", "1")
        .try_start()
        .err()
        .expect("no start");
    assert!(log.contains("no-such-setting"), "{log}");
}

#[test]
#[should_panic(expected = "the server crashed")]
fn a_crash_fails_the_test() {
    let server: Server = plain().start();
    let _ = server.client().try_call(&["DEBUG", "SEGFAULT"]);
    redis_session_tests::wait_until("the server dies", || !server.is_alive());
}

#[test]
fn sentinels_promote_a_replica_when_asked_and_when_the_primary_dies() {
    let group = Sentinel::with(plain(), 1, 3);
    assert_eq!(group.primary(), 0);
    group.server(0).run("SET k v");
    group.server(1).wait_for(group.server(0));
    assert_eq!(group.fail_over(), 1);
    group.server(1).run("SET k w");
    group.server(0).wait_for(group.server(1));
    assert_eq!(group.kill_primary(), 0);
    assert_eq!(group.server(0).say("GET k"), r#""w""#);
    group.revive(1);
    assert_eq!(group.server(1).say("GET k"), r#""w""#);
    assert_eq!(group.urls().len(), 3);
}

#[test]
fn what_postgresql_has_committed_outlives_its_crash() {
    let postgres = Postgres::start();
    postgres.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)");
    postgres.restart();
    assert_eq!(postgres.sql("SELECT n, 'x' FROM t ORDER BY n"), "1|x\n2|x");
    postgres.stop();
    assert!(postgres.try_sql("SELECT 1").is_err());
    postgres.resume();
    assert!(postgres.try_sql("SELECT nonsense").unwrap_err().contains("nonsense"));
}

#[test]
fn the_module_has_the_assertions_of_its_profile() {
    let Some(profile) = module::profile() else { return };
    let module = std::fs::read(module::path()).expect("the module");
    // What a debug assertion around every command would log.
    let text = b"the handler did not reply exactly once";
    let has_assertions = module.windows(text.len()).any(|window| window == text);
    assert_eq!(has_assertions, profile == "release-checked", "built as {profile}");
}
