//! Recorded conversations, if they are available beside the project.

use redis_session_tests::{module, Options, Server};

/// Returns the bodies of each conversation as JSON texts; none if the file does not exist.
pub fn conversations() -> Option<Vec<Vec<String>>> {
    let path = module::project_root().join("../shared/data/airline-conversations.jsonl");
    let Ok(file) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return None;
    };
    let bodies = |line: &str| -> Vec<String> {
        let conversation: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        conversation["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    Some(file.lines().map(bodies).collect())
}

#[test]
fn real_conversations_come_back_byte_for_byte() {
    let Some(conversations) = conversations() else { return };
    let server = Options::default()
        .append_only()
        .config("session.default-maxlen", 0)
        .start();
    let mut client = server.client();
    for (at, bodies) in conversations.iter().enumerate() {
        for body in bodies {
            client.call(&["SESSION.APPEND", &format!("single-{at}"), "JSON", body]);
        }
        let key = format!("together-{at}");
        let together: Vec<&str> = ["SESSION.APPEND", &key, "JSON"]
            .into_iter()
            .chain(bodies.iter().map(String::as_str))
            .collect();
        client.call(&together);
    }
    let assert_all = |server: &Server| {
        for (at, bodies) in conversations.iter().enumerate() {
            for key in [format!("single-{at}"), format!("together-{at}")] {
                assert!(server.bodies(&key) == *bodies, "{key}");
                let document = server.document(&key);
                let parsed: Vec<serde_json::Value> = bodies
                    .iter()
                    .map(|body| serde_json::from_str(body).expect("JSON"))
                    .collect();
                assert!(document["messages"].as_array() == Some(&parsed), "{key}");
            }
        }
    };
    assert_all(&server);
    server.run("DEBUG RELOAD");
    assert_all(&server);
    server.restart();
    assert_all(&server);
}

#[test]
fn no_real_conversation_is_left_with_an_orphaned_answer() {
    let Some(conversations) = conversations() else { return };
    let server = Server::start();
    for (at, bodies) in conversations.iter().enumerate() {
        let key = format!("k{at}");
        for body in bodies {
            server.call(&["SESSION.APPEND", &key, "JSON", body]);
            let kept = server.bodies(&key);
            assert!(kept.last() == Some(body));
            let mut called = Vec::new();
            for body in &kept {
                let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
                for call in body["tool_calls"].as_array().into_iter().flatten() {
                    called.push(call["id"].clone());
                }
                let answers = &body["tool_call_id"];
                assert!(
                    answers.is_null() || called.contains(answers),
                    "{key}: {answers} is orphaned"
                );
            }
        }
    }
}
