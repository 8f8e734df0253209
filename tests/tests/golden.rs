//! Reads what released versions wrote on servers with this version: `testdata/format-N/RELEASE`.
//!
//! [`make`] runs `testdata/commands` and writes such a folder, for `scripts/golden`. The other tests read every folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use redis_session_tests::{bytes, items, journal, talk, text, Client, Flavor, Options, Server, Value};

use self::expected::{difference, releases, testdata, Asked, Release};

#[path = "../../core/tests/golden/expected.rs"]
// The core's test uses the rest.
#[allow(dead_code)]
mod expected;

/// The commands as they were replicated, the values as an append-only file is rewritten, and the snapshot.
const COMMANDS_FILE: &str = "commands.aof";
const PAYLOADS_FILE: &str = "payloads.aof";
const SNAPSHOT_FILE: &str = "dump.rdb";

#[test]
fn the_snapshot_of_each_release_is_loaded() {
    for release in releases() {
        let server = Options::default().hostile().start();
        server.kill();
        fs::copy(release.folder.join(SNAPSHOT_FILE), server.file("dump.rdb")).expect("a copy");
        server.restart();
        assert_all_there(&server, &release, SNAPSHOT_FILE);
    }
}

#[test]
fn the_append_only_files_of_each_release_are_loaded() {
    for release in releases() {
        let commands = ("incr.aof", 'i', COMMANDS_FILE);
        let payloads = ("base.aof", 'b', PAYLOADS_FILE);
        // With `aof-use-rdb-preamble yes` the base is a snapshot.
        let preamble = ("base.rdb", 'b', SNAPSHOT_FILE);
        for (suffix, kind, file) in [commands, payloads, preamble] {
            let server = Server::append_only().hostile().start();
            server.kill();
            let folder = server.file("appendonlydir");
            fs::remove_dir_all(&folder).expect("an append-only server has a folder");
            fs::create_dir(&folder).expect("a folder");
            let name = format!("appendonly.aof.1.{suffix}");
            fs::copy(release.folder.join(file), folder.join(&name)).expect("a copy");
            let manifest = format!("file {name} seq 1 type {kind}\n");
            fs::write(folder.join("appendonly.aof.manifest"), manifest).expect("a manifest");
            server.restart();
            assert_all_there(&server, &release, &format!("{file} as {name}"));
        }
    }
}

#[test]
fn the_dumps_of_each_release_are_restored() {
    for release in releases() {
        let server = Options::default().hostile().start();
        for (name, key) in &release.keys {
            let dump = release.file(&format!("{name}.dump"));
            let expires_at_ms = key.expires_at_ms.max(0).to_string();
            let reply = server.call(&[b"RESTORE", name.as_bytes(), expires_at_ms.as_bytes(), &dump, b"ABSTTL"]);
            assert_eq!(
                reply,
                Value::Okay,
                "{}: RESTORE of {name}.dump",
                release.folder.display()
            );
        }
        assert_all_there(&server, &release, "RESTORE");
        server.run("DEBUG RELOAD");
        assert_all_there(&server, &release, "RESTORE and DEBUG RELOAD");
    }
}

/// Asserts that a server holds the keys of a release, and nothing else, and that every reply is what it was.
#[track_caller]
fn assert_all_there(server: &Server, release: &Release, from: &str) {
    let mut client = server.client().resp3();
    let mut differences: Vec<String> = Vec::new();
    let compare = |client: &mut Client, asked: &Asked| {
        let found = difference(&asked.reply, &ask(client, &asked.command));
        found.map(|difference| format!("> {}\n{difference}", asked.command))
    };
    assert_eq!(
        keys_of(&mut client),
        release.keys.keys().cloned().collect::<Vec<_>>(),
        "{}: the keys in {from}",
        release.folder.display()
    );
    for (name, key) in &release.keys {
        assert_eq!(text(&client.call(&["TYPE", name])), key.type_name, "{name}");
        assert_eq!(server.expires_at_ms(name.as_bytes()), key.expires_at_ms, "{name}");
        differences.extend(key.asked.iter().filter_map(|asked| compare(&mut client, asked)));
    }
    for (name, digest) in &release.digests {
        if server.digest(name.as_bytes()) != *digest {
            differences.push(format!(
                "DEBUG DIGEST-VALUE {name} is not {digest} (CONTRIBUTING.md, Golden files)"
            ));
        }
    }
    differences.extend(release.asked.iter().filter_map(|asked| compare(&mut client, asked)));
    assert!(
        differences.is_empty(),
        "{}: {from} is not read as it was written:\n{}",
        release.folder.display(),
        differences.join("\n")
    );
}

/// Returns every key, ordered by name; names are UTF-8 in all golden files.
fn keys_of(client: &mut Client) -> Vec<String> {
    let mut keys: Vec<String> = items(&client.run("KEYS *")).iter().map(text).collect();
    keys.sort();
    keys
}

// -------------------------------------------------------------------------------------- asking

/// Returns a command's reply in the form of `expected.json`. The connection uses RESP3.
fn ask(client: &mut Client, command: &str) -> String {
    let mut reply = client.attempt(command);
    mask(command, &mut reply);
    json_of(&reply, replies_documents(command))
}

/// The strings in these replies are the module's own documents, to which later versions may add members.
fn replies_documents(command: &str) -> bool {
    [
        "SESSION.GET ",
        "SESSION.ENTITY ",
        "SESSION.EVENT RANGE ",
        "SESSION.AGENT LIST ",
        "SESSION.CHECKPOINT LIST ",
        "SESSION.ANCHOR GET ",
        "SESSION.INDEX LIST ",
    ]
    .iter()
    .any(|documents| command.starts_with(documents))
}

/// Replaces values that depend on the clock or on memory use by `…`.
fn mask(command: &str, reply: &mut Value) {
    let anything = || Value::BulkString("…".into());
    match reply {
        Value::Map(pairs) if command.starts_with("SESSION.INFO ") => {
            for (name, value) in pairs {
                if ["chunks", "bytes_stored"].contains(&text(name).as_str()) {
                    *value = anything();
                }
            }
        }
        Value::Array(rows) if command.starts_with("SESSION.READ ") => {
            for row in rows {
                if let Value::Array(fields) = row {
                    if text(&fields[2]) == "gap" {
                        fields[1] = anything();
                    }
                }
            }
        }
        _ => {}
    }
}

fn json_of(reply: &Value, has_documents: bool) -> String {
    let list = |values: &[Value]| {
        let elements: Vec<String> = values.iter().map(|value| json_of(value, has_documents)).collect();
        format!("[{}]", elements.join(","))
    };
    match reply {
        Value::Nil => "null".into(),
        Value::Int(number) => number.to_string(),
        Value::Array(values) => list(values),
        Value::Map(pairs) => {
            let members: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}:{}", quoted(&text(name)), json_of(value, has_documents)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::ServerError(_) => format!("{{\"error\":{}}}", quoted(&talk::render(reply))),
        string => match String::from_utf8(bytes(string)) {
            Ok(document) if has_documents && document.starts_with('{') => document,
            Ok(text) => quoted(&text),
            Err(error) => {
                let hex: String = error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{{\"hex\":\"{hex}\"}}")
            }
        },
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
}

// -------------------------------------------------------------------------------------- making

/// The wall clock of the server that makes the files (`scripts/golden`): it changes only when set here.
struct Clock {
    file: fs::File,
    now_ms: i64,
}

impl Clock {
    /// 2026-01-14T10:00:00.000Z.
    const START_MS: i64 = 1_768_384_800_000;

    fn start(path: &str) -> Clock {
        let clock = Clock {
            file: fs::File::create(path).expect("the clock's file"),
            now_ms: Clock::START_MS,
        };
        clock.set();
        clock
    }

    /// Each command gets a second of its own.
    fn step(&mut self) {
        self.now_ms += 1000;
        self.set();
    }

    fn set(&self) {
        // Written in place and with a fixed number of digits: the server may read at any moment.
        let digits = self.now_ms.to_string();
        self.file.write_all_at(digits.as_bytes(), 0).expect("the clock's file");
    }
}

#[test]
#[ignore = "makes the golden files of a release: scripts/golden runs it"]
fn make() {
    let given = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("scripts/golden sets {name}"));
    let release = given("GOLDEN_RELEASE");
    let mut clock = Clock::start(&given("GOLDEN_CLOCK"));
    let server = Server::append_only().config("aof-use-rdb-preamble", "no").start();
    assert!(
        (redis_session_tests::now_ms() - server_ms(&server)).abs() > 1000 && server_ms(&server) == Clock::START_MS,
        "the server's clock is not the one that scripts/golden gives it"
    );
    play(&server, &mut clock);

    let mut client = server.client().resp3();
    let keys = keys_of(&mut client);
    // The commands first: rewriting replaces their file.
    let folder = server.file("appendonlydir");
    let commands = fs::read(folder.join("appendonly.aof.1.incr.aof")).expect("the commands' file");
    server.run("SAVE");
    server.rewrite_append_only_file();
    let payloads = fs::read(folder.join("appendonly.aof.2.base.aof")).expect("the rewritten file");
    let loads: BTreeMap<String, Vec<u8>> = journal::parse(&payloads)
        .into_iter()
        .filter(|command| command[0] == b"SESSION.LOAD")
        .map(|command| {
            (
                String::from_utf8(command[1].clone()).expect("a name"),
                command[2].clone(),
            )
        })
        .collect();
    // The first byte behind the length of the first blob; lengths below 2^14 take one or two bytes.
    let session = &loads["empty"];
    let format = session[if session[0] < 0x80 { 1 } else { 2 }];

    let golden = testdata().join(format!("format-{format}")).join(release.as_str());
    assert!(!golden.exists(), "{} is there already", golden.display());
    fs::create_dir_all(&golden).expect("a folder for the files");
    let write = |name: &str, content: &[u8]| fs::write(golden.join(name), content).expect("a file");
    fs::copy(server.file("dump.rdb"), golden.join(SNAPSHOT_FILE)).expect("the snapshot");
    write(COMMANDS_FILE, &commands);
    write(PAYLOADS_FILE, &payloads);
    for key in &keys {
        write(&format!("{key}.dump"), &bytes(&client.call(&["DUMP", key])));
    }
    for (key, payload) in &loads {
        write(&format!("{key}.payload"), payload);
    }
    let digests: Vec<String> = loads
        .keys()
        .map(|key| format!("  {}: {}", quoted(key), quoted(&server.digest(key.as_bytes()))))
        .collect();
    write("digests.json", format!("{{\n{}\n}}\n", digests.join(",\n")).as_bytes());

    // Last, since some of these commands change keys.
    let keys: Vec<String> = keys.iter().map(|key| expected_of(&server, &mut client, key)).collect();
    let asked = fs::read_to_string(testdata().join("commands/asked.talk")).expect("what is asked");
    let asked: Vec<String> = talk::turns(&asked)
        .iter()
        .map(|turn| pair(&mut client, &turn.command, "    "))
        .collect();
    let expected = format!(
        "{{\n  \"release\": {},\n  \"server\": {},\n  \"clock_ms\": {},\n  \"keys\": {{\n{}\n  }},\n  \"asked\": [\n{}\n  ]\n}}\n",
        quoted(&release),
        quoted(&server_name(&server)),
        clock.now_ms,
        keys.join(",\n"),
        asked.join(",\n")
    );
    write("expected.json", expected.as_bytes());
    println!("{}", golden.display());
}

/// Runs `testdata/commands/NN-*.talk` in the order of their names; every reply must be as expected there.
fn play(server: &Server, clock: &mut Clock) {
    let folder = testdata().join("commands");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("a folder of commands")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| is_numbered(path))
        .collect();
    files.sort();
    for file in files {
        for turn in talk::turns(&fs::read_to_string(&file).expect("commands")) {
            clock.step();
            let reply = server.attempt(&turn.command);
            if let Some(difference) = turn.difference(&reply) {
                panic!("{}: {difference}", file.display());
            }
        }
    }
}

fn is_numbered(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns what `expected.json` contains for a key.
fn expected_of(server: &Server, client: &mut Client, key: &str) -> String {
    let type_name = text(&client.call(&["TYPE", key]));
    let commands: Vec<String> = match type_name.as_str() {
        "rdsession" => {
            let checkpoints = items(&client.call(&["SESSION.CHECKPOINT", "LIST", key]));
            let of_checkpoints = checkpoints.iter().flat_map(|checkpoint| {
                let checkpoint: serde_json::Value =
                    serde_json::from_slice(&bytes(checkpoint)).expect("a checkpoint is JSON");
                let id = checkpoint["checkpointId"].to_string();
                [
                    "SESSION.FORK KEY fork CHECKPOINT ID PERSIST",
                    "SESSION.RANGE fork 0 -1 WITHMETA",
                    "SESSION.ENTITY LIST fork",
                    "SESSION.AGENT LIST fork",
                    "DEL fork",
                ]
                .map(|command| command.replace("ID", &id))
            });
            [
                "SESSION.GET KEY MESSAGES 1",
                "SESSION.INFO KEY",
                "SESSION.RANGE KEY 0 -1 WITHMETA",
                "SESSION.RANGE KEY 0 -1 WITHMETA MALFORMED",
                "SESSION.EVENT RANGE KEY - +",
                "SESSION.ENTITY LIST KEY",
                "SESSION.AGENT LIST KEY",
                "SESSION.CHECKPOINT LIST KEY",
                "SESSION.READ KEY 0 COUNT 1 MESSAGES",
                "SESSION.READ KEY 0 COUNT 1 EVENTS",
            ]
            .map(str::to_owned)
            .into_iter()
            .chain(of_checkpoints)
            .collect()
        }
        "rdsessidx" => [
            "SESSION.INDEX LIST KEY",
            "SESSION.INDEX LIST KEY BYACTIVITY",
            "SESSION.INDEX LEN KEY",
        ]
        .map(str::to_owned)
        .into(),
        "rdanchors" => vec!["SESSION.ANCHOR GET KEY".into()],
        "string" => vec!["GET KEY".into()],
        other => panic!("{key} is a {other}: say what to ask of one"),
    };
    let asked: Vec<String> = commands
        .iter()
        .map(|command| pair(client, &command.replace("KEY", key), "        "))
        .collect();
    format!(
        "    {}: {{\n      \"type\": {},\n      \"expires_at_ms\": {},\n      \"asked\": [\n{}\n      ]\n    }}",
        quoted(key),
        quoted(&type_name),
        server.expires_at_ms(key.as_bytes()),
        asked.join(",\n")
    )
}

fn pair(client: &mut Client, command: &str, indent: &str) -> String {
    let reply = ask(client, command);
    assert!(!reply.starts_with("{\"error\""), "{command}: {reply}");
    // The new id of a fork is random.
    let reply = if command.starts_with("SESSION.FORK") {
        "\"…\"".into()
    } else {
        reply
    };
    format!("{indent}[{}, {reply}]", quoted(command))
}

fn server_ms(server: &Server) -> i64 {
    let time: Vec<i64> = items(&server.run("TIME"))
        .iter()
        .map(|part| text(part).parse().expect("a number"))
        .collect();
    time[0] * 1000 + time[1] / 1000
}

fn server_name(server: &Server) -> String {
    match server.flavor() {
        Flavor::Redis(..) => format!("Redis {}", server.info_field("server", "redis_version")),
        Flavor::Valkey(..) => format!("Valkey {}", server.info_field("server", "valkey_version")),
    }
}
