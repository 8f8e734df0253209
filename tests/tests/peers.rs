//! Migrates what other packages wrote: raw values recorded by `scripts/peers --record`.

use redis_session_tests::{entry, int, items, module, text, Client, Server, Value};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The recorded packages. A name that is missing here or in the folder fails the test.
const PEERS: [&str; 10] = [
    "adk",
    "adk-community",
    "adk-redis",
    "agent-framework",
    "agent-framework-store",
    "agent-memory",
    "langchain",
    "llama-index",
    "openai-agents",
    "redisvl",
];

/// One conversation of a package: its keys.
struct Session {
    name: String,
    format: String,
    /// The member of a JSON object that contains the messages.
    member: Option<String>,
    is_newest_first: bool,
    /// Number of messages of the user.
    queries: Option<i64>,
    sources: Vec<Source>,
}

struct Source {
    key: String,
    ttl_s: Option<i64>,
    value: Stored,
}

enum Stored {
    String(String),
    List(Vec<String>),
    Hash(Vec<(String, String)>),
}

impl Stored {
    fn of(kind: &str, value: &serde_json::Value) -> Stored {
        let string = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
        match kind {
            "string" => Stored::String(string(value)),
            "list" => Stored::List(value.as_array().expect("elements").iter().map(string).collect()),
            "hash" => {
                let fields = value.as_object().expect("fields").iter();
                Stored::Hash(fields.map(|(name, value)| (name.clone(), string(value))).collect())
            }
            other => panic!("no such type: {other}"),
        }
    }
}

impl Session {
    fn of(recorded: &serde_json::Value) -> Session {
        let source = |source: &serde_json::Value| Source {
            key: source["key"].as_str().expect("a key").to_owned(),
            ttl_s: source["ttl_s"].as_i64(),
            value: Stored::of(source["type"].as_str().expect("a type"), &source["value"]),
        };
        Session {
            name: recorded["name"].as_str().expect("a name").to_owned(),
            format: recorded["format"].as_str().expect("a format").to_owned(),
            member: recorded["member"].as_str().map(str::to_owned),
            is_newest_first: recorded["newest_first"] == true,
            queries: recorded["queries"].as_i64(),
            sources: recorded["sources"]
                .as_array()
                .expect("sources")
                .iter()
                .map(source)
                .collect(),
        }
    }

    /// Returns the messages as they are in the raw values, oldest first.
    fn elements(&self) -> Vec<String> {
        for source in &self.sources {
            if let Stored::List(elements) = &source.value {
                let mut elements = elements.clone();
                if self.is_newest_first {
                    elements.reverse();
                }
                return elements;
            }
        }
        for source in &self.sources {
            if let Stored::String(text) = &source.value {
                let member = self.member.as_ref().expect("the name of a member");
                let members: HashMap<String, Box<RawValue>> = serde_json::from_str(text).expect("a JSON object");
                let elements: Vec<Box<RawValue>> = serde_json::from_str(members[member].get()).expect("an array");
                return elements.iter().map(|element| element.get().to_owned()).collect();
            }
        }
        panic!("{}: no messages", self.name)
    }

    fn keys(&self) -> Vec<&str> {
        self.sources.iter().map(|source| source.key.as_str()).collect()
    }

    /// Writes the values with plain commands.
    fn load(&self, client: &mut Client) {
        for source in &self.sources {
            let key = source.key.as_str();
            client.call(&["DEL", key]);
            match &source.value {
                Stored::String(text) => {
                    client.call(&["SET", key, text]);
                }
                Stored::List(elements) => {
                    for element in elements {
                        client.call(&["RPUSH", key, element]);
                    }
                }
                Stored::Hash(fields) => {
                    for (name, value) in fields {
                        client.call(&["HSET", key, name, value]);
                    }
                }
            }
            if let Some(ttl_s) = source.ttl_s {
                client.call(&["EXPIRE", key, &ttl_s.to_string()]);
            }
        }
    }
}

/// Returns the recorded conversations of a package.
fn recorded(peer: &str) -> Vec<Session> {
    let path = module::project_root().join(format!("tests/peers/fixtures/{peer}.json"));
    let file = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let recorded: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(recorded["peer"], peer);
    let sessions: Vec<Session> = recorded["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(Session::of)
        .collect();
    assert!(!sessions.is_empty(), "{peer}: nothing was recorded");
    sessions
}

/// Returns every recorded conversation that SESSION.MIGRATE accepts.
fn conversations() -> Vec<Session> {
    let sessions = PEERS.iter().flat_map(|peer| recorded(peer));
    sessions.filter(|session| session.format != "redisvl").collect()
}

fn bodies(client: &mut Client, key: &str) -> Vec<String> {
    let reply = client.call(&["SESSION.RANGE", key, "0", "-1"]);
    assert!(!matches!(reply, Value::ServerError(_)), "{key}: {reply:?}");
    items(&reply).iter().map(text).collect()
}

#[test]
fn every_recorded_peer_is_tested() {
    let folder = module::project_root().join("tests/peers/fixtures");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of fixtures")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            path.file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    found.sort();
    assert_eq!(found, PEERS);
}

#[test]
fn what_peers_wrote_migrates_message_by_message() {
    let server = Server::start();
    let mut client = server.client();
    for session in conversations() {
        session.load(&mut client);
        let elements = session.elements();
        let keys = session.keys();
        // No expiry counts as the longest.
        let expiries: Vec<i64> = keys.iter().map(|key| server.expires_at_ms(key.as_bytes())).collect();
        let expires_at_ms = match expiries.contains(&-1) {
            true => -1,
            false => *expiries.iter().max().expect("a source"),
        };
        let count = keys.len().to_string();
        let command: Vec<&str> = ["SESSION.MIGRATE", keys[0], "FROM", &count]
            .into_iter()
            .chain(keys.iter().copied())
            .collect();
        let reply = client.call(&command);
        let told = |name: &str| entry(&reply, name);
        assert_eq!(text(&told("format")), session.format, "{}", session.name);
        assert_eq!(int(&told("messages")), elements.len() as i64, "{}", session.name);
        assert_eq!(int(&told("malformed")), 0, "{}", session.name);
        assert_eq!(int(&told("removed")), keys.len() as i64, "{}", session.name);
        assert!(bodies(&mut client, keys[0]) == elements, "{}", session.name);
        assert_eq!(
            server.expires_at_ms(keys[0].as_bytes()),
            expires_at_ms,
            "{}",
            session.name
        );
        if let Some(queries) = session.queries {
            // Not from the document: half a surrogate pair is JSON, but not every parser accepts it.
            assert_eq!(
                int(&server.info_of(keys[0], "query_count")),
                queries,
                "{}",
                session.name
            );
        }
        for gone in &keys[1..] {
            assert_eq!(client.call(&["EXISTS", gone]), Value::Int(0), "{}", session.name);
        }
    }
}

#[test]
fn what_peers_wrote_at_one_key_reads_as_it_is_and_migrates_by_itself() {
    let server = Server::start();
    let mut client = server.client();
    let mut seen = 0;
    for session in conversations() {
        let [key] = session.keys()[..] else { continue };
        seen += 1;
        session.load(&mut client);
        let mut elements = session.elements();
        let before = (client.call(&["TYPE", key]), client.call(&["DUMP", key]));
        assert!(bodies(&mut client, key) == elements, "{}", session.name);
        assert_eq!(client.call(&["SESSION.LEN", key]), Value::Int(elements.len() as i64));
        let after = (client.call(&["TYPE", key]), client.call(&["DUMP", key]));
        assert!(before == after, "{}: a read has written", session.name);

        let more = r#"{"role":"user","content":"one more"}"#;
        elements.push(more.to_owned());
        let appended = client.call(&["SESSION.APPEND", key, "JSON", more]);
        assert_eq!(appended, Value::Int(elements.len() as i64), "{}", session.name);
        assert!(bodies(&mut client, key) == elements, "{}", session.name);
        assert_eq!(client.call(&["TYPE", key]), Value::SimpleString("rdsession".into()));
    }
    assert!(seen > 0);
}

#[test]
fn a_hash_a_message_is_left_for_the_importer() {
    let server = Server::start();
    let mut client = server.client();
    for session in recorded("redisvl") {
        session.load(&mut client);
        for key in session.keys() {
            let before = client.call(&["DUMP", key]);
            for command in [
                &["SESSION.APPEND", key, "MSG", "user", "x"][..],
                &["SESSION.RANGE", key, "0", "-1"],
                &["SESSION.MIGRATE", key],
            ] {
                assert!(matches!(client.call(command), Value::ServerError(_)), "{command:?}");
            }
            assert_eq!(client.call(&["DUMP", key]), before);
        }
    }
}
