//! Pub/sub: every record reaches every subscriber once.

use redis_session_tests::{int, items, text, wait_until, Client, Options, Server};

/// Opens a connection that is subscribed to every session's channel and to a channel that marks the end of a test.
fn subscriber(server: &Server) -> Client {
    let mut client = server.client();
    client.run("PSUBSCRIBE __session@*");
    client
}

/// Returns what was published so far: channel and payload.
fn heard_bytes(server: &Server, subscriber: &mut Client) -> Vec<(Vec<u8>, String)> {
    server.run("PUBLISH __session@end end");
    let mut heard = Vec::new();
    loop {
        let message = items(&subscriber.receive());
        assert_eq!(text(&message[0]), "pmessage");
        let channel = redis_session_tests::bytes(&message[2]);
        if channel == b"__session@end" {
            return heard;
        }
        heard.push((channel, text(&message[3])));
    }
}

/// Returns what was published so far, each as `channel payload`.
fn heard(server: &Server, subscriber: &mut Client) -> Vec<String> {
    heard_bytes(server, subscriber)
        .into_iter()
        .map(|(channel, payload)| format!("{} {payload}", String::from_utf8_lossy(&channel)))
        .collect()
}

/// Returns the seqs that were published so far.
fn heard_seqs(server: &Server, subscriber: &mut Client) -> Vec<i64> {
    heard_bytes(server, subscriber)
        .iter()
        .map(|(_, payload)| {
            let payload: serde_json::Value = serde_json::from_str(payload).expect("JSON");
            payload["seq"].as_i64().expect("a seq")
        })
        .collect()
}

#[test]
fn channel_and_payload_word_for_word() {
    let server = Server::start();
    let mut subscriber = subscriber(&server);
    server.run("SESSION.EVENT ADD k pass AT 1768384800000");
    server.run("SESSION.EVENT ADD k modified AGENT a1 ENTITIES 1 e CHANGE {} IMPACT {} STATE review AT 1768384800001");
    server.run(r#"SESSION.EVENT ADD "a \"key\"" "x\n\"" AGENT "\\" AT 1768384800002"#);
    assert_eq!(
        heard(&server, &mut subscriber),
        [
            r#"__session@0__:k {"key":"k","seq":1,"kind":"event","type":"pass","agentId":null,"timestamp":"2026-01-14T10:00:00.000Z"}"#,
            r#"__session@0__:k {"key":"k","seq":2,"kind":"event","type":"modified","agentId":"a1","timestamp":"2026-01-14T10:00:00.001Z"}"#,
            r#"__session@0__:a "key" {"key":"a \"key\"","seq":1,"kind":"event","type":"x\n\"","agentId":"\\","timestamp":"2026-01-14T10:00:00.002Z"}"#,
        ]
    );
    // Without AT, the server's clock.
    server.run("SESSION.EVENT ADD now pass");
    let published = heard_bytes(&server, &mut subscriber);
    let payload: serde_json::Value = serde_json::from_str(&published[0].1).expect("JSON");
    let shown = text(&items(&server.run("SESSION.EVENT RANGE now - +"))[0]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(payload["timestamp"], shown["timestamp"]);
    assert_eq!(server.info_number("session", "session_published"), 4);
}

#[test]
fn a_channel_has_the_keys_bytes() {
    let server = Server::start();
    let mut subscriber = subscriber(&server);
    for key in [&b""[..], b"a\0b", b"\xff\xfe", b"a\r\n"] {
        server.call(&[&b"SESSION.EVENT"[..], b"ADD", key, b"pass"]);
        let published = heard_bytes(&server, &mut subscriber);
        assert_eq!(published.len(), 1);
        assert_eq!(published[0].0, [b"__session@0__:", key].concat());
        let payload: serde_json::Value = serde_json::from_str(&published[0].1).expect("JSON");
        assert_eq!(payload["key"], String::from_utf8_lossy(key).as_ref());
    }
}

#[test]
fn the_channel_names_the_database() {
    let server = Server::start();
    let mut subscriber = subscriber(&server);
    let mut client = server.client();
    client.run("SELECT 3");
    client.run("SESSION.EVENT ADD k pass");
    client.run("MULTI");
    client.run("SELECT 5");
    client.run("SESSION.EVENT ADD k pass");
    client.run("EXEC");
    client.run("EVAL \"redis.call('SELECT', 7) return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass')\" 1 k");
    let channels: Vec<Vec<u8>> = heard_bytes(&server, &mut subscriber)
        .into_iter()
        .map(|(channel, _)| channel)
        .collect();
    assert_eq!(
        channels,
        [&b"__session@3__:k"[..], b"__session@5__:k", b"__session@7__:k"]
    );
}

#[test]
fn nothing_else_is_published_by_default() {
    let server = Server::start();
    let mut subscriber = subscriber(&server);
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard_seqs(&server, &mut subscriber), [1]);
    for command in [
        "SESSION.CREATE new",
        "SESSION.APPEND k MSG user hi",
        "SESSION.APPEND created JSON {} {}",
        "SESSION.EVENT ADD k pass IFSTATE review",
        "SESSION.EVENT ADD k pass IFVERSION 99",
        "SESSION.EVENT ADD k pass LEASE 1",
        "SESSION.EVENT ADD k pass CHANGE []",
        "SESSION.EVENT RANGE k - +",
        "SESSION.EVENT LEN k",
        "SESSION.ENTITY MENTION k ID e",
        "SESSION.META k '{\"a\":1}'",
        "SESSION.WINDOW k MAXLEN 5",
        "SESSION.POP k",
        "SESSION.CLEAR k",
        "SESSION.GETEX k",
        "COPY k copy",
        "RENAME copy renamed",
        "DEL renamed",
        "DEBUG RELOAD",
    ] {
        server.attempt(command);
        assert_eq!(heard(&server, &mut subscriber), [""; 0], "{command}");
    }
}

#[test]
fn the_setting_says_what_is_published() {
    let server = Server::with("session.publish", "off").start();
    let mut subscriber = subscriber(&server);
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(heard(&server, &mut subscriber), [""; 0]);
    assert_eq!(server.info_number("session", "session_published"), 0);
    server.run("CONFIG SET session.publish events");
    server.run("SESSION.APPEND k JSON {}");
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard_seqs(&server, &mut subscriber), [4]);
    server.run("CONFIG SET session.publish all");
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard_seqs(&server, &mut subscriber), [5]);
    server.run("CONFIG SET session.publish off");
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard(&server, &mut subscriber), [""; 0]);
    assert_eq!(server.info_number("session", "session_published"), 2);
}

#[test]
fn all_adds_messages() {
    let server = Server::with("session.publish", "all").start();
    let mut subscriber = subscriber(&server);
    let message = |seq: i64, role: &str, at: &str| {
        format!(
            r#"__session@0__:k {{"key":"k","seq":{seq},"kind":"message","type":"{role}","agentId":null,"timestamp":"2026-01-14T10:00:0{at}Z"}}"#
        )
    };
    // Creating the session; then with options; then in the shortest form; then several at once, with times of their own.
    for (command, expected) in [
        (
            "SESSION.APPEND k AT 1768384800000 MSG user hi",
            vec![message(1, "user", "0.000")],
        ),
        (
            "SESSION.APPEND k AT 1768384801000 EVICTED JSON '{\"type\":\"ai\"}'",
            vec![message(2, "assistant", "1.000")],
        ),
        (
            r#"SESSION.APPEND k JSON '{"role":"to\"ol","timestamp":"2026-01-14T10:00:02Z"}'"#,
            vec![message(3, "to\\\"ol", "2.000")],
        ),
        (
            r#"SESSION.APPEND k JSON '{"timestamp":1768384803}' '{"role":"user","created_at":1768384804000}'"#,
            vec![message(4, "other", "3.000"), message(5, "user", "4.000")],
        ),
        (
            "SESSION.APPEND k DEDUP t AT 1768384805000 JSON {}",
            vec![message(6, "other", "5.000")],
        ),
        ("SESSION.APPEND k DEDUP t AT 1768384805000 JSON {}", vec![]),
        ("SESSION.APPEND absent XX JSON {}", vec![]),
        ("SESSION.APPEND k JSON {} []", vec![]),
        ("SESSION.APPEND k IFVERSION 0 JSON {}", vec![]),
        // A message that its own append evicts is published too.
        (
            r#"SESSION.APPEND k MAXLEN 1 JSON '{"timestamp":1768384803}' '{"timestamp":1768384804}'"#,
            vec![message(7, "other", "3.000"), message(8, "other", "4.000")],
        ),
        ("SESSION.POP k", vec![]),
        ("SESSION.CLEAR k", vec![]),
    ] {
        server.attempt(command);
        assert_eq!(heard(&server, &mut subscriber), expected, "{command}");
    }
    assert_eq!(server.info_number("session", "session_published"), 8);
}

#[test]
fn events_and_messages_come_in_the_order_of_their_seqs() {
    let server = Server::with("session.publish", "all").start();
    let mut subscriber = subscriber(&server);
    server.run("MULTI");
    server.run("SESSION.APPEND k JSON {} {}");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.EVENT ADD k pass IFSTATE nowhere");
    server.run("SESSION.APPEND k JSON {}");
    assert_eq!(
        heard_by_another(&server, &mut subscriber),
        [0i64; 0],
        "nothing before EXEC"
    );
    server.run("EXEC");
    assert_eq!(heard_seqs(&server, &mut subscriber), [1, 2, 3, 4]);
}

/// Like [`heard_seqs`], while the server's usual connection is in a transaction.
fn heard_by_another(server: &Server, subscriber: &mut Client) -> Vec<i64> {
    server.client().run("PUBLISH __session@end end");
    let message = items(&subscriber.receive());
    match text(&message[2]).as_str() {
        "__session@end" => Vec::new(),
        other => panic!("{other}"),
    }
}

#[test]
fn transactions_and_scripts_publish_what_they_did() {
    let server = Server::append_only().start();
    let mut subscriber = subscriber(&server);
    server.run("MULTI");
    server.run("SESSION.EVENT ADD k pass");
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard_by_another(&server, &mut subscriber), [0i64; 0]);
    server.run("EXEC");
    assert_eq!(heard_seqs(&server, &mut subscriber), [1, 2]);
    server.run("MULTI");
    server.run("SESSION.EVENT ADD k pass");
    server.run("DISCARD");
    assert_eq!(heard_seqs(&server, &mut subscriber), [0i64; 0]);
    server.run(
        "EVAL \"for n = 1, 3 do redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass') end \
         return redis.pcall('SESSION.EVENT', 'ADD', KEYS[1], 'pass', 'IFSTATE', 'x') and 1\" 1 k",
    );
    assert_eq!(heard_seqs(&server, &mut subscriber), [3, 4, 5]);
    server.run(
        "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('record', function(keys) \
         return redis.call('SESSION.EVENT', 'ADD', keys[1], 'pass') end)\"",
    );
    server.run("FCALL record 1 k");
    assert_eq!(heard_seqs(&server, &mut subscriber), [6]);
    // A subscriber in a transaction of its own.
    let mut own = server.client().resp3();
    own.run("SUBSCRIBE __session@0__:k");
    own.run("SESSION.EVENT ADD k pass");
    assert_eq!(heard_seqs(&server, &mut subscriber), [7]);
}

#[test]
fn each_subscriber_of_a_primary_and_of_its_replicas_hears_once() {
    let options = || Server::with("session.publish", "all");
    let (primary, middle, last) = (options().start(), options().start(), options().start());
    middle.replicate(&primary);
    last.replicate(&middle);
    let servers = [&primary, &middle, &last];
    let mut subscribers: Vec<Vec<Client>> = servers
        .iter()
        .map(|server| vec![subscriber(server), subscriber(server)])
        .collect();
    primary.run("SESSION.EVENT ADD k pass AGENT a AT 1768384800000");
    primary.run("SESSION.EVENT ADD k pass IFSTATE working STATE review");
    primary.run("MULTI");
    primary.run("SESSION.EVENT ADD k pass");
    primary.run("SESSION.EVENT ADD other pass");
    primary.run("EXEC");
    primary.run("EVAL \"return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'pass')\" 1 k");
    primary.attempt("SESSION.EVENT ADD k pass IFSTATE working");
    primary.run("SESSION.APPEND k JSON {} '{\"role\":\"user\"}'");
    middle.wait_for(&primary);
    last.wait_for(&middle);
    let mut all = Vec::new();
    for (server, subscribers) in servers.into_iter().zip(&mut subscribers) {
        for subscriber in subscribers {
            all.push(heard_of_events(server, subscriber));
        }
    }
    assert_eq!(all[0].len(), 5);
    for heard in &all {
        assert_eq!(heard, &all[0]);
    }
    assert_eq!(
        all[0][0],
        r#"__session@0__:k {"key":"k","seq":1,"kind":"event","type":"pass","agentId":"a","timestamp":"2026-01-14T10:00:00.000Z"}"#
    );
}

/// Returns what was published so far on a server that may be a replica; other tests cover messages.
fn heard_of_events(server: &Server, subscriber: &mut Client) -> Vec<String> {
    let mut heard = heard(server, subscriber);
    heard.retain(|line| line.contains("\"kind\":\"event\""));
    heard
}

#[test]
fn a_replicas_subscribers_hear_of_messages_too() {
    let options = || Server::with("session.publish", "all");
    let (primary, replica) = (options().start(), options().start());
    replica.replicate(&primary);
    let mut subscriber = subscriber(&replica);
    primary.run("SESSION.APPEND k MSG user hi");
    primary.run("SESSION.APPEND k JSON {} {}");
    replica.wait_for(&primary);
    assert_eq!(heard_seqs(&replica, &mut subscriber), [1, 2, 3]);
}

#[test]
fn a_replica_publishes_by_its_own_setting() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    let mut subscriber = subscriber(&replica);
    primary.run("SESSION.EVENT ADD k pass");
    replica.wait_for(&primary);
    assert_eq!(heard(&replica, &mut subscriber), [""; 0]);
}

#[test]
fn loading_publishes_nothing() {
    let server = Server::append_only().config("session.publish", "all").start();
    for _ in 0..20 {
        server.run("SESSION.EVENT ADD k pass");
        server.run("SESSION.APPEND k JSON {} {}");
    }
    let mut listener = subscriber(&server);
    server.run("DEBUG LOADAOF");
    assert_eq!(server.say("SESSION.EVENT LEN k"), "(integer) 20");
    assert_eq!(heard(&server, &mut listener), [""; 0], "DEBUG LOADAOF");
    for preamble in ["yes", "no"] {
        server.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        server.rewrite_append_only_file();
        server.run("SESSION.EVENT ADD k pass");
        server.restart();
        assert_eq!(server.info_number("session", "session_published"), 0, "a start");
        listener = subscriber(&server);
        server.run("DEBUG LOADAOF");
        assert_eq!(heard(&server, &mut listener), [""; 0], "preamble {preamble}");
    }
    // Nor does a full synchronisation.
    let replica = Server::with("session.publish", "all").start();
    let mut listener = subscriber(&replica);
    replica.replicate(&server);
    assert_eq!(heard(&replica, &mut listener), [""; 0]);
    assert_eq!(replica.info_number("session", "session_published"), 0);
    assert!(int(&replica.run("SESSION.EVENT LEN k")) > 20);
}

#[test]
fn a_single_cluster_node_publishes_once() {
    // The port of the cluster bus is this one plus 10,000, which must be a valid port.
    let port = 30_000 + std::process::id() % 10_000;
    let options = Server::with("cluster-enabled", "yes").config("port", port);
    let Ok(server) = options.try_start() else {
        println!("skipped: port {port} is taken");
        return;
    };
    server.run("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("the cluster is up", || {
        text(&server.run("CLUSTER INFO")).contains("cluster_state:ok")
    });
    let mut listeners = [subscriber(&server), subscriber(&server)];
    server.run("SESSION.EVENT ADD session:{acme}:1 pass AT 1768384800000");
    for listener in &mut listeners {
        assert_eq!(
            heard(&server, listener),
            [
                r#"__session@0__:session:{acme}:1 {"key":"session:{acme}:1","seq":1,"kind":"event","type":"pass","agentId":null,"timestamp":"2026-01-14T10:00:00.000Z"}"#
            ]
        );
    }
}

#[test]
fn an_unheard_publication_costs_nobody_anything() {
    // Without subscribers, only the counter shows it.
    let server = Server::start();
    server.run("SESSION.EVENT ADD k pass");
    assert_eq!(server.info_number("session", "session_published"), 1);
    assert_eq!(server.say("PUBSUB CHANNELS"), "(empty array)");
    // A subscriber of one channel gets that session only.
    let mut one = server.client();
    one.run("SUBSCRIBE __session@0__:k");
    server.run("SESSION.EVENT ADD other pass");
    server.run("SESSION.EVENT ADD k pass");
    let message = items(&one.receive());
    assert_eq!(
        (text(&message[0]), text(&message[1])),
        ("message".into(), "__session@0__:k".into())
    );
    assert!(text(&message[2]).starts_with(r#"{"key":"k","seq":2,"#));
}
