//! Time to live: what sets the expiry, what slides it, what leaves it unchanged.

use redis_session_tests::{now_ms, wait_until, Server};

/// Asserts that a key expires `ttl_ms` after a moment between `before_ms` and now.
#[track_caller]
fn assert_expires_in(server: &Server, key: &str, before_ms: i64, ttl_ms: i64) {
    let expires_at_ms = server.expires_at_ms(key.as_bytes());
    let range = before_ms + ttl_ms..=now_ms() + ttl_ms;
    assert!(range.contains(&expires_at_ms), "{expires_at_ms} is not in {range:?}");
}

/// Waits until the clock has moved on, so that a slide can be detected.
fn tick() {
    let start = now_ms();
    wait_until("the clock ticks", || now_ms() > start + 2);
}

#[test]
fn a_session_has_the_default_ttl_and_slides() {
    let server = Server::start();
    let before = now_ms();
    server.run("SESSION.APPEND k MSG user hi");
    assert_expires_in(&server, "k", before, 604_800_000);
    for (before, write) in super::guards::writes(&server) {
        server.run("DEL k");
        server.run(r#"SESSION.APPEND k JSON '{"entity_refs":["e"]}' {} {}"#);
        if !before.is_empty() {
            server.run(before);
        }
        tick();
        let before = now_ms();
        server.run(&write.replace("{w}", ""));
        assert_expires_in(&server, "k", before, 604_800_000);
        let read = server.expires_at_ms(b"k");
        tick();
        for reading in ["RANGE k 0 -1", "GET k", "LEN k", "INFO k", "CONTEXT k", "ENTITY LIST k"] {
            server.run(&format!("SESSION.{reading}"));
        }
        assert_eq!(server.expires_at_ms(b"k"), read, "reads do not slide");
    }
}

#[test]
fn the_options_of_every_write_set_the_expiry() {
    let server = Server::start();
    for write in super::guards::WRITES {
        server.run("DEL k");
        let refill = || server.run(r#"SESSION.APPEND k JSON '{"n":1,"entity_refs":["e"]}' {} {} {}"#);
        let set = |options: &str| server.run(&write.replace("{w}", options));
        refill();
        let before = now_ms();
        set("EX 100");
        assert_expires_in(&server, "k", before, 100_000);
        // The ttl belongs to the session from now on.
        tick();
        let before = now_ms();
        refill();
        assert_expires_in(&server, "k", before, 100_000);
        let before = now_ms();
        set("PX 50000");
        assert_expires_in(&server, "k", before, 50_000);
        // PXAT sets the present expiry only: the next write slides by the ttl again.
        refill();
        set("PXAT 4102444800000");
        assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000, "{write}");
        let before = now_ms();
        refill();
        assert_expires_in(&server, "k", before, 50_000);
        let kept = server.expires_at_ms(b"k");
        tick();
        server.run("SESSION.APPEND k KEEPTTL JSON '{\"n\":1}' {} {} {}");
        set("KEEPTTL");
        assert_eq!(server.expires_at_ms(b"k"), kept, "{write}");
        refill();
        set("PERSIST");
        assert_eq!(server.expires_at_ms(b"k"), -1, "{write}");
        refill();
        assert_eq!(server.expires_at_ms(b"k"), -1, "{write}");
        // A ttl again.
        let before = now_ms();
        set("EX 7");
        assert_expires_in(&server, "k", before, 7000);
        // A past expiry deletes.
        refill();
        set("PXAT 1000");
        assert_eq!(server.say("EXISTS k"), "(integer) 0", "{write}");
    }
}

#[test]
fn a_pxat_in_the_past_still_replies() {
    Server::start().conversation(
        r#"
        > SESSION.APPEND k JSON {} {}
        (integer) 2
        > SESSION.APPEND k PXAT 1000 JSON {}
        (integer) 3
        > EXISTS k
        (integer) 0
        > SESSION.APPEND k JSON {}
        (integer) 1
        "#,
    );
}

#[test]
fn creation_takes_every_kind_of_expiry() {
    let server = Server::start();
    let before = now_ms();
    server.run("SESSION.CREATE ex EX 100");
    assert_expires_in(&server, "ex", before, 100_000);
    let before = now_ms();
    server.run("SESSION.CREATE px PX 100");
    let expires_at_ms = server.expires_at_ms(b"px");
    assert!(expires_at_ms == -2 || (before + 100..=now_ms() + 100).contains(&expires_at_ms));
    server.run("SESSION.CREATE pxat PXAT 4102444800000");
    assert_eq!(server.expires_at_ms(b"pxat"), 4_102_444_800_000);
    // PXAT keeps the default ttl for the next write.
    let before = now_ms();
    server.run("SESSION.APPEND pxat MSG user hi");
    assert_expires_in(&server, "pxat", before, 604_800_000);
    server.run("SESSION.CREATE persist PERSIST");
    assert_eq!(server.expires_at_ms(b"persist"), -1);
    // KEEPTTL at creation: no expiry, so nothing slides.
    server.run("SESSION.CREATE keep KEEPTTL");
    assert_eq!(server.expires_at_ms(b"keep"), -1);
    server.run("SESSION.APPEND keep MSG user hi");
    assert_eq!(server.expires_at_ms(b"keep"), -1);
    server.run("SESSION.APPEND keep2 KEEPTTL MSG user hi");
    assert_eq!(server.expires_at_ms(b"keep2"), -1);
    // A PXAT in the past: the key is deleted.
    server.run("SESSION.APPEND past PXAT 1000 MSG user hi");
    assert_eq!(server.say("EXISTS past"), "(integer) 0");
    server.run("SESSION.CREATE past PXAT 1000");
    assert_eq!(server.say("EXISTS past"), "(integer) 0");
}

#[test]
fn a_default_ttl_of_nought_is_none() {
    let server = Server::with("session.default-ttl", 0).start();
    server.run("SESSION.APPEND k MSG user hi");
    assert_eq!(server.expires_at_ms(b"k"), -1);
    // With ttl 0 a slide leaves the expiry unchanged.
    server.run("EXPIRE k 1000");
    let expires_at_ms = server.expires_at_ms(b"k");
    tick();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("SESSION.GETEX k");
    assert_eq!(server.expires_at_ms(b"k"), expires_at_ms);
}

#[test]
fn expire_and_persist_work_as_on_any_key() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.run("PEXPIREAT k 4102444800000");
    assert_eq!(server.expires_at_ms(b"k"), 4_102_444_800_000);
    let before = now_ms();
    server.run("SESSION.APPEND k MSG user hi");
    assert_expires_in(&server, "k", before, 604_800_000);
    server.run("PERSIST k");
    server.run("SESSION.APPEND k MSG user hi");
    assert_eq!(
        server.expires_at_ms(b"k"),
        -1,
        "without an expiry there is nothing to slide"
    );
    let before = now_ms();
    server.run("SESSION.APPEND k EX 100 MSG user hi");
    assert_expires_in(&server, "k", before, 100_000);
}

#[test]
fn a_session_expires_like_any_key() {
    let server = Server::start();
    server.run("SESSION.APPEND k PX 30 MSG user hi");
    wait_until("the key expires", || server.say("EXISTS k") == "(integer) 0");
    assert_eq!(server.say("SESSION.GET k"), "(nil)");
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 0");
    assert_eq!(server.say("SESSION.APPEND k MSG user anew"), "(integer) 1");
}

#[test]
fn a_lease_slides_the_expiry_and_its_release_too() {
    let server = Server::start();
    let replica = Server::start();
    replica.replicate(&server);
    server.run("SESSION.CREATE k PX 1000000");
    for command in ["SESSION.AGENT LEASE k a 5000", "SESSION.AGENT RELEASE k 1"] {
        server.run("PEXPIRE k 5000");
        let before_ms = redis_session_tests::now_ms();
        server.run(command);
        assert_expires_in(&server, "k", before_ms, 1_000_000);
        replica.wait_for(&server);
        assert_eq!(replica.expires_at_ms(b"k"), server.expires_at_ms(b"k"));
    }
}
