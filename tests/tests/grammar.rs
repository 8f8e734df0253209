//! The grammar of every command: sentences that its row in the table allows must parse, and others must be refused at the invalid
//! word. Nothing here lists commands: see `grammar.rs` and `table.rs` of the harness.

use std::collections::BTreeSet;

use redis_session_tests::grammar::{line, Grammar, Refusal, Role, Values, Word, Words, UNKNOWN};
use redis_session_tests::table::{Argument, Command, Kind};
use redis_session_tests::{items, oracle, talk, text, Server, Value};

/// The keys for the sentences. `k` is a session in state `s0` with three messages, the entity `e`, an event, the agent `a`, and a
/// checkpoint; if the sentence needs a lease, `a` holds one with token 1. It is `ada` in the directory `i`. `anchors` has one anchor, the
/// lists `l` and `l2` and the hash `h` can be migrated; `fresh` and `d` do not exist.
struct Scene {
    /// The prefix of the name of each key.
    prefix: String,
    set_up: Vec<Vec<Vec<u8>>>,
    version: i64,
    checkpoint: i64,
}

const FAR_MS: &str = "4102444800000";

impl Scene {
    fn new(server: &Server) -> Scene {
        Scene::with_prefix(server, "")
    }

    fn with_prefix(server: &Server, prefix: &str) -> Scene {
        let lines = [
            "DEL @k @i @anchors @l @l2 @h @fresh @d",
            "SESSION.CREATE @k STATE s0 INDEX @i ALIAS ada",
            r#"SESSION.APPEND @k JSON '{"role":"user","entity_refs":["e"]}' '{"role":"assistant"}' '{"role":"user"}'"#,
            "SESSION.ENTITY MENTION @k ID e",
            "SESSION.EVENT ADD @k pass",
            "SESSION.AGENT JOIN @k a",
            "SESSION.CHECKPOINT CREATE @k",
            "SESSION.ANCHOR ADD @anchors s1",
            r#"RPUSH @l '{"role":"user","content":"a"}'"#,
            "HSET @h title t state x",
            r#"RPUSH @l2 '{"role":"user","content":"b"}'"#,
        ];
        let mut scene = Scene {
            prefix: prefix.to_owned(),
            set_up: lines.map(|line| talk::split(&line.replace('@', prefix))).to_vec(),
            version: 0,
            checkpoint: 0,
        };
        scene.set(server);
        let key = format!("{prefix}k");
        scene.version = server.version_of(&key);
        let checkpoints = items(&server.call(&["SESSION.CHECKPOINT", "LIST", &key]));
        let checkpoint: serde_json::Value = serde_json::from_str(&text(&checkpoints[0])).expect("a checkpoint in JSON");
        scene.checkpoint = checkpoint["checkpointId"].as_i64().expect("its id");
        scene
    }

    fn set(&self, server: &Server) {
        let replies = server.client().pipeline(&self.set_up).expect("the scene is set");
        let failed = replies.iter().find(|reply| matches!(reply, Value::ServerError(_)));
        assert_eq!(failed.map(talk::render), None);
    }

    fn keys(&self) -> [String; 8] {
        ["k", "i", "anchors", "l", "l2", "h", "fresh", "d"].map(|key| format!("{}{key}", self.prefix))
    }

    /// Gives the agent the lease if the sentence needs one.
    fn give_turn(&self, server: &Server, command: &Command, sentence: &Words) {
        let is_option = |word: &Word| word.role == Role::Token && word.text.eq_ignore_ascii_case("LEASE");
        let has_token = command.takes_write_options() && sentence.iter().any(is_option);
        if has_token || command.name == "SESSION.AGENT RELEASE" {
            let key = format!("{}k", self.prefix);
            server.call(&["SESSION.AGENT", "LEASE", &key, "a", "1000000"]);
        }
    }
}

impl Values for Scene {
    fn value(&self, command: &Command, token: Option<&str>, argument: &Argument, nth: usize) -> (String, bool) {
        let name = command.name.as_str();
        let group = name.split([' ', '.']).nth(1).unwrap_or_default();
        let form = |text: &str| (text.to_owned(), false);
        let free = |text: &str| (text.to_owned(), true);
        if argument.kind == Kind::Key {
            let key = match (group, argument.name.as_str()) {
                ("MIGRATE", "source") => ["l", "h", "l2"][nth],
                ("CREATE" | "MIGRATE", "key") => "fresh",
                ("ANCHOR", _) => "anchors",
                (_, "index") => "i",
                (_, "destination") => "d",
                _ => "k",
            };
            return free(&format!("{}{key}", self.prefix));
        }
        // The id of a session that does not exist yet.
        let is_new = matches!(group, "CREATE" | "MIGRATE");
        match (argument.kind, argument.name.as_str()) {
            (Kind::Int, "version") if is_new => form("0"),
            (Kind::Int, "version") => form(&self.version.to_string()),
            (Kind::Int, "lease-token") => form("1"),
            (Kind::Int, "checkpoint-id") => form(&(self.checkpoint + nth as i64).to_string()),
            (Kind::Int, "offset") => form("0"),
            (Kind::Int, "seconds") => form("1000"),
            (Kind::Int, "milliseconds") if token != Some("BLOCK") => form("1000000"),
            (Kind::Int, _) => form(&(nth + 1).to_string()),
            (Kind::UnixTime, _) if token == Some("AT") => form("1768384800000"),
            (Kind::UnixTime, _) => form(FAR_MS),
            (_, "json" | "body") => form(&format!(r#"{{"n":{nth}}}"#)),
            (_, "object") => form(&format!(r#"{{"id":"o{nth}"}}"#)),
            (_, "uuid") => form("0190a8b4-6d2e-7c3a-9f10-123456789abc"),
            (_, "number") => form("1.5"),
            (_, "format") => form("json-list"),
            (_, "seq" | "start") => form("0"),
            (_, "stop") => form("5"),
            (_, "payload") => form("x"),
            (_, "name") if token == Some("LIMIT") => form(["maxlen", "maxtokens", "maxbytes"][nth]),
            (_, "alias-or-id") => free("ada"),
            (_, "state") if token == Some("IFSTATE") => free("s0"),
            (_, "agent") => free("a"),
            (_, "id") if name == "SESSION.ENTITY FORGET" => free(["e", "f", "g"][nth]),
            (_, name) => free(&format!("{name}{nth}")),
        }
    }

    fn companion(&self, command: &Command, token: &str) -> Option<&str> {
        match (command.name.as_str(), token) {
            ("SESSION.CREATE", "ALIAS") => Some("INDEX"),
            // It needs a source at another key, and other options have no effect without a source.
            ("SESSION.MIGRATE", token) if token != "FROM" => Some("FROM"),
            _ => None,
        }
    }
}

/// The errors that a valid sentence may get here, each with a text that must be in it; for any other command and sentence the
/// reply must not be an error.
const INEVITABLE: &[(&str, &str, &str)] = &[
    // A session that does not exist has no lease.
    ("SESSION.CREATE", "LEASE", "LEASELOST token 1 is stale"),
    ("SESSION.MIGRATE", "LEASE", "LEASELOST token 1 is stale"),
    // Without sources the key itself is migrated.
    ("SESSION.MIGRATE", "", "NOSESSION no session at key 'fresh'"),
    // No layout has three keys.
    (
        "SESSION.MIGRATE",
        "FROM",
        "BADLAYOUT source 3 is a second list: no layout has two",
    ),
    // Only append-only files contain it; clients use RESTORE.
    (
        "SESSION.LOAD",
        "",
        "ERR SESSION.LOAD is for a primary and for append-only files only",
    ),
];

/// Returns the error of a reply, without what surrounds it.
fn error(reply: &Value) -> Option<String> {
    match reply {
        Value::ServerError(_) => Some(talk::render(reply).trim_start_matches("(error) ").to_owned()),
        _ => None,
    }
}

/// Returns whether an error is about a command's syntax rather than about its keys.
fn is_about_words(error: &str) -> bool {
    error.starts_with("ERR ") && !error.starts_with("ERR SESSION.LOAD is for ") || error.starts_with("BADMESSAGE ")
}

fn wrong_number(error: &str) -> bool {
    error.starts_with("ERR wrong number of arguments for '")
}

fn say(server: &Server, words: &Words) -> Value {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    server.call(&words)
}

/// Fails with the first of the errors found.
#[track_caller]
fn assert_none(found: &[String], what: &str, of: usize) {
    let first: Vec<&str> = found.iter().take(40).map(String::as_str).collect();
    assert!(
        found.is_empty(),
        "{} of {of} {what}:\n{}",
        found.len(),
        first.join("\n")
    );
    assert!(of > 1000, "only {of} sentences were made");
}

#[test]
fn what_the_table_says_is_right_parses() {
    let server = Server::start();
    let scene = Scene::new(&server);
    let (mut differences, mut said, mut met) = (Vec::new(), 0, BTreeSet::new());
    for command in server.commands() {
        for sentence in Grammar::new(&command, &scene).right() {
            scene.set(&server);
            scene.give_turn(&server, &command, &sentence);
            said += 1;
            let Some(error) = error(&say(&server, &sentence)) else {
                continue;
            };
            let reason = INEVITABLE.iter().position(|(name, token, inevitable)| {
                let has_token = token.is_empty() || sentence.iter().any(|word| word.text.eq_ignore_ascii_case(token));
                *name == command.name && has_token && error.contains(inevitable)
            });
            match reason {
                Some(reason) => drop(met.insert(reason)),
                None => differences.push(format!("{}\n  {error}", line(&sentence))),
            }
        }
    }
    assert_none(&differences, "right sentences were refused", said);
    for (reason, row) in INEVITABLE.iter().enumerate() {
        assert!(met.contains(&reason), "{row:?} was not met: it can go");
    }
}

#[test]
fn what_every_right_write_makes_survives_everything() {
    oracle::assert_survives_everything(|server| {
        let mut said = 0;
        for command in server.commands().iter().filter(|command| command.is_write()) {
            let count = Grammar::new(command, &Scene::new(server)).plain().len();
            for nth in 0..count {
                let scene = Scene::with_prefix(server, &format!("{}:{nth}:", command.name.replace(' ', "-")));
                let sentence = Grammar::new(command, &scene).plain().swap_remove(nth);
                scene.give_turn(server, command, &sentence);
                // The test before this one checks whether it is refused.
                say(server, &sentence);
                said += 1;
                let is_named = |key: &&str| sentence.iter().any(|word| word.text == **key);
                let keys = scene.keys();
                for key in keys.iter().map(String::as_str).filter(|key| !is_named(key)) {
                    server.call(&["DEL", key]);
                }
            }
        }
        assert!(said > 300, "only {said} sentences were made");
    });
}

#[test]
fn what_the_table_says_is_wrong_is_refused_at_its_word() {
    let server = Server::start();
    let scene = Scene::new(&server);
    let (mut differences, mut said, mut seen) = (Vec::new(), 0, BTreeSet::new());
    let mut dataset = text(&server.run("DEBUG DIGEST"));
    let commands = server.commands();
    // Every word that some parser accepts, to check that no parser accepts one that its row does not list.
    let mut words = words_of_parsers();
    words.extend(commands.iter().flat_map(Command::tokens));
    for command in commands {
        for wrong in Grammar::new(&command, &scene).wrong(&words) {
            said += 1;
            seen.insert(wrong.why);
            let reply = say(&server, &wrong.words);
            let fine = match error(&reply) {
                None => false,
                Some(error) if wrong.words.len() < command.arity.unsigned_abs() as usize => wrong_number(&error),
                // The server itself refuses too many words for a fixed arity.
                Some(error) if command.arity > 0 && wrong_number(&error) => true,
                Some(error) => match &wrong.refusal {
                    Refusal::Near(word) => error == format!("ERR syntax error near '{word}'"),
                    Refusal::Any => is_about_words(&error),
                },
            };
            let now = text(&server.run("DEBUG DIGEST"));
            if !fine || now != dataset {
                // Stops at the first error, which all sentences that follow would repeat.
                scene.set(&server);
                dataset = text(&server.run("DEBUG DIGEST"));
                let shown = talk::render(&reply);
                differences.push(format!(
                    "{}\n  {}; expected {:?}\n  {shown:.200}",
                    line(&wrong.words),
                    wrong.why,
                    wrong.refusal
                ));
            }
        }
    }
    assert_none(&differences, "wrong sentences were not refused as they should", said);
    assert!(seen.len() > 8, "only these were tried: {seen:?}");
}

/// Collects the option words that the module's sources compare with: `is(word, "COUNT")`.
fn words_of_parsers() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut folders = vec![redis_session_tests::module::project_root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the module's sources") {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            for call in source.split("is(").skip(1) {
                let arguments = call.split(')').next().unwrap_or_default();
                words.extend(arguments.split('"').nth(1).map(str::to_owned));
            }
        }
    }
    words.retain(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
    // The options of every write, and those that only a primary sends.
    assert!(words.contains("IFVERSION") && words.contains("NOW"), "{words:?}");
    words
}

#[test]
fn an_option_word_in_a_values_place_is_a_value() {
    let server = Server::start();
    let scene = Scene::new(&server);
    let (mut differences, mut said) = (Vec::new(), 0);
    for command in server.commands() {
        for sentence in Grammar::new(&command, &scene).keywords_as_values() {
            scene.set(&server);
            said += 1;
            let keyword = &sentence.words[sentence.at].text;
            let error = error(&say(&server, &sentence.words)).unwrap_or_default();
            let fine = match sentence.role {
                Role::Token => unreachable!("a token is no value"),
                // It is no option, whatever its role.
                Role::Key | Role::Text => !is_about_words(&error) || is_about_another_key(&error),
                Role::Count | Role::Formed => {
                    let is_syntax = error.starts_with("ERR syntax error");
                    is_about_words(&error)
                        && !wrong_number(&error)
                        && (!is_syntax || error.ends_with(&format!("near '{keyword}'")))
                        || command.name == "SESSION.LOAD"
                }
            };
            if !fine {
                differences.push(format!("{}\n  {:?}: {error}", line(&sentence.words), sentence.role));
            }
        }
    }
    assert_none(&differences, "sentences with a keyword as a value went wrong", said);
}

/// Returns whether the error is that two keys are the same, as a keyword in both positions makes them.
fn is_about_another_key(error: &str) -> bool {
    error.contains("must be another key than") || error.contains("needs another key than")
}

#[test]
fn the_keys_are_the_words_that_the_grammar_says() {
    let server = Server::start();
    let scene = Scene::new(&server);
    let (mut differences, mut said) = (Vec::new(), 0);
    for command in server.commands() {
        let grammar = Grammar::new(&command, &scene);
        // If the count is replaced by a keyword, it is unknown which of the following words are keys.
        let with_keywords = grammar.keywords_as_values().into_iter();
        let with_keywords = with_keywords.filter(|sentence| sentence.role != Role::Count);
        for words in grammar
            .right()
            .into_iter()
            .chain(with_keywords.map(|sentence| sentence.words))
        {
            let keys: Vec<&str> = words
                .iter()
                .filter(|word| word.role == Role::Key)
                .map(|word| word.text.as_str())
                .collect();
            if keys.is_empty() {
                continue;
            }
            said += 1;
            let mut asked = vec!["COMMAND", "GETKEYS"];
            asked.extend(words.iter().map(|word| word.text.as_str()));
            let found = match server.call(&asked) {
                Value::Array(found) => found.iter().map(text).collect(),
                other => vec![talk::render(&other)],
            };
            if found != keys {
                differences.push(format!("{}\n  expected {keys:?}, found {found:?}", line(&words)));
            }
        }
    }
    assert_none(&differences, "sentences have other keys", said);
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
}

#[test]
fn the_arity_is_that_of_the_shortest_sentence() {
    let server = Server::start();
    let scene = Scene::new(&server);
    let faults: Vec<String> = server
        .commands()
        .iter()
        .filter_map(|command| Grammar::new(command, &scene).fault_of_arity())
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_unknown_subcommand_is_refused() {
    let server = Server::start();
    let commands = server.commands();
    let groups: BTreeSet<&str> = commands
        .iter()
        .filter_map(|command| command.name.split_once(' '))
        .map(|(group, _)| group)
        .collect();
    assert!(!groups.is_empty());
    for group in groups {
        let reply = server.say(&format!("{group} {UNKNOWN} k"));
        assert!(
            reply.starts_with(&format!("(error) ERR unknown subcommand '{UNKNOWN}'")),
            "{reply}"
        );
        assert!(
            wrong_number(&error(&server.attempt(group)).unwrap_or_default()),
            "{group}"
        );
    }
}
