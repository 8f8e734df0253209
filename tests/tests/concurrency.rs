//! Concurrent clients.

use std::sync::Barrier;

use redis_session_tests::{int, talk, Server};

#[test]
fn a_hundred_clients_append_to_one_session() {
    const CLIENTS: usize = 100;
    const MESSAGES: usize = 20;
    let server = Server::with("session.default-maxlen", 0).start();
    let barrier = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, barrier) = (&server, &barrier);
            scope.spawn(move || {
                let mut connection = server.client();
                barrier.wait();
                let mut last_seq = 0;
                for n in 0..MESSAGES {
                    let seq =
                        int(&connection.run(&format!(r#"SESSION.APPEND k JSON '{{"client":{client},"n":{n}}}'"#)));
                    assert!(seq > last_seq);
                    last_seq = seq;
                }
            });
        }
    });
    assert_eq!(server.seqs("k"), (1..=(CLIENTS * MESSAGES) as i64).collect::<Vec<_>>());
    // Each client's messages are there, in its own order.
    let bodies = server.bodies("k");
    for client in 0..CLIENTS {
        let mark = format!("{{\"client\":{client},");
        let own: Vec<&String> = bodies.iter().filter(|body| body.starts_with(&mark)).collect();
        let expected: Vec<String> = (0..MESSAGES)
            .map(|n| format!(r#"{{"client":{client},"n":{n}}}"#))
            .collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
    assert_eq!(server.version_of("k"), 1 + (CLIENTS * MESSAGES) as i64);
}

#[test]
fn optimistic_writers_lose_nothing() {
    const CLIENTS: usize = 8;
    const STEPS: usize = 25;
    let server = Server::start();
    server.run(r#"SESSION.CREATE k META '{"count":0}'"#);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for _ in 0..STEPS {
                    loop {
                        let document = redis_session_tests::bytes(&client.run("SESSION.GET k"));
                        let document: serde_json::Value = serde_json::from_slice(&document).expect("JSON");
                        let count = document["meta"]["count"].as_i64().expect("a count") + 1;
                        let version = &document["version"];
                        let reply = client.say(&format!(r#"SESSION.META k '{{"count":{count}}}' IFVERSION {version}"#));
                        if !reply.starts_with("(error) VERSIONCONFLICT ") {
                            assert_eq!(reply, format!(r#"'{{"count":{count}}}'"#));
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(server.document("k")["meta"]["count"], CLIENTS * STEPS);
    assert_eq!(server.version_of("k"), 1 + (CLIENTS * STEPS) as i64);
}

#[test]
fn retries_with_a_token_append_once() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for n in 1..=10 {
                    let reply = client.say(&format!(r#"SESSION.APPEND k DEDUP t{n} JSON '{{"n":{n}}}'"#));
                    assert!(reply.starts_with("(integer) "), "{reply}");
                }
            });
        }
    });
    let mut bodies = server.bodies("k");
    bodies.sort();
    let mut expected: Vec<String> = (1..=10).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    expected.sort();
    assert_eq!(bodies, expected);
}

#[test]
fn readers_see_whole_exchanges_while_a_writer_evicts() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 7");
    std::thread::scope(|scope| {
        let server = &server;
        let writer = scope.spawn(move || {
            let mut client = server.client();
            for n in 0..300 {
                client.run(&format!(
                    r#"SESSION.APPEND k JSON '{{"tool_calls":[{{"id":"c{n}"}}]}}' '{{"tool_call_id":"c{n}"}}'"#
                ));
            }
        });
        let mut client = server.client();
        while !writer.is_finished() {
            let reply = client.run("SESSION.RANGE k 0 -1");
            let bodies: Vec<String> = redis_session_tests::items(&reply)
                .iter()
                .map(redis_session_tests::text)
                .collect();
            for pair in bodies.chunks(2) {
                assert!(
                    pair.len() == 2 && pair[0].contains("tool_calls") && pair[1].contains("tool_call_id"),
                    "{}",
                    talk::render(&reply)
                );
            }
        }
    });
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 6");
}
