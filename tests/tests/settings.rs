//! `CONFIG GET`, `CONFIG SET`, `redis.conf`.

use redis_session_tests::{text, Options, Server, Value};

/// Each setting, its default, another valid value, invalid ones.
const SETTINGS: [(&str, &str, &str, &[&str]); 15] = [
    ("default-maxlen", "20", "50", &["-1", "x", "4294967296", ""]),
    ("default-ttl", "604800", "0", &["-1", "x", "99999999999999999999"]),
    ("max-message-bytes", "1048576", "2097152", &["-1", "x"]),
    ("dedup-window", "64", "0", &["-1", "x", "4294967296"]),
    ("event-maxlen", "1000", "5", &["-1", "x", "4294967296"]),
    ("event-ttl", "3600", "0", &["-1", "x"]),
    ("max-checkpoints", "16", "3", &["-1", "x", "4294967296"]),
    ("max-entities", "10000", "3", &["-1", "x", "4294967296"]),
    ("max-agents", "1000", "3", &["-1", "x", "4294967296"]),
    ("checkpoint-grace", "600", "5", &["-1", "x"]),
    ("anchor-maxlen", "5", "7", &["-1", "x"]),
    ("anchor-max-age", "604800", "60", &["-1", "x"]),
    ("auto-migrate", "yes", "no", &["maybe", "2", ""]),
    ("publish", "events", "all", &["some", "yes", ""]),
    ("compress-after", "", "0", &["-1", "x"]),
];

fn get(server: &Server, name: &str) -> String {
    let reply = redis_session_tests::items(&server.run(&format!("CONFIG GET session.{name}")));
    assert_eq!(reply.len(), 2, "session.{name} is not there");
    text(&reply[1])
}

#[test]
fn every_setting_has_its_default_and_refuses_nonsense() {
    let server = Server::start();
    let all = redis_session_tests::items(&server.run("CONFIG GET session.*"));
    for name in all.chunks(2).map(|pair| text(&pair[0])) {
        let known = SETTINGS.iter().any(|(known, ..)| name == format!("session.{known}"));
        assert!(known, "{name} is not in this list");
    }
    assert_eq!(all.len() / 2, SETTINGS.len(), "{all:?}");
    for (name, default, other, bad) in SETTINGS {
        if !default.is_empty() {
            assert_eq!(get(&server, name), default, "{name}");
        }
        assert_eq!(
            server.say(&format!("CONFIG SET session.{name} {other}")),
            "OK",
            "{name}"
        );
        for value in bad {
            let reply = server.say(&format!("CONFIG SET session.{name} '{value}'"));
            assert!(reply.starts_with("(error) ERR "), "{name} {value}: {reply}");
        }
        assert_eq!(get(&server, name), other, "{name}");
    }
    for value in ["off", "events", "all"] {
        server.run(&format!("CONFIG SET session.publish {value}"));
    }
    // All or nothing, as for any setting.
    assert!(server
        .say("CONFIG SET session.default-maxlen 3 session.default-ttl x")
        .starts_with("(error)"));
    assert_eq!(get(&server, "default-maxlen"), "50");
}

#[test]
fn the_file_sets_them_before_the_module_is_loaded() {
    let options = SETTINGS
        .iter()
        .fold(Options::default(), |options, (name, _, other, _)| {
            options.config(&format!("session.{name}"), other)
        });
    let server = options.start();
    for (name, _, other, _) in SETTINGS {
        assert_eq!(get(&server, name), other, "{name}");
    }
    // And CONFIG REWRITE writes them.
    server.run("CONFIG SET session.default-maxlen 33");
    server.run("CONFIG REWRITE");
    server.keep_rewritten_config();
    server.restart();
    assert_eq!(get(&server, "default-maxlen"), "33");
    assert_eq!(get(&server, "publish"), "all");
}

#[test]
fn an_unknown_or_bad_setting_stops_the_boot() {
    for (name, value) in [
        ("session.no-such-thing", "1"),
        ("session.default-maxlen", "many"),
        ("session.publish", "perhaps"),
    ] {
        assert!(
            Options::default().config(name, value).try_start().is_err(),
            "{name} {value}"
        );
    }
}

/// Tests of what must not depend on a server's configuration change all of it: see [`Options::hostile`].
#[test]
fn a_hostile_server_has_every_setting_that_matters_to_replicas_at_another_value() {
    // Only a value of the primary's goes to replicas, or only a reply depends on it.
    const WITHOUT: [&str; 1] = ["checkpoint-grace"];
    let server = Options::default().hostile().start();
    for (name, default, ..) in SETTINGS {
        let is_default = get(&server, name) == default;
        assert_eq!(is_default, WITHOUT.contains(&name), "session.{name}");
    }
}

/// An older primary, or an append-only file that an older version wrote, does not know of limits that came later.
#[test]
fn a_limit_that_a_primary_does_not_say_is_not_taken_from_the_configuration() {
    let server = Options::default().append_only().hostile().start();
    server.run("SESSION.CREATE new");
    assert_eq!(
        server.document("new")["limits"]["max-agents"],
        1,
        "the configuration has one"
    );
    server.kill();
    let older = "SESSION.CREATE old ID 01890a5d-ac96-774b-bcce-b302099a8057 LIMIT maxlen 5 AT 1768384800000 PERSIST";
    server.add_to_journal(older);
    server.restart();
    let limits = server.document("old")["limits"].clone();
    for (name, value) in limits.as_object().expect("limits") {
        let expected = if name == "maxlen" { 5 } else { 0 };
        assert_eq!(value, expected, "{name}");
    }
    assert!(limits.as_object().is_some_and(|limits| limits.len() >= 10), "{limits}");
}

#[test]
fn a_default_is_written_into_a_session_when_it_is_created() {
    let server = Server::start();
    server.run("SESSION.CREATE before");
    server.run("CONFIG SET session.default-maxlen 2 session.default-ttl 100 session.dedup-window 3 session.event-maxlen 4 session.event-ttl 5");
    server.run("CONFIG SET session.max-checkpoints 6 session.max-entities 7 session.max-agents 8");
    server.run("SESSION.CREATE after");
    let limits = |key: &str| server.document(key)["limits"].clone();
    let (before, after) = (limits("before"), limits("after"));
    for (name, was, is) in [
        ("maxlen", 20, 2),
        ("dedup-window", 64, 3),
        ("event-maxlen", 1000, 4),
        ("event-ttl", 3600, 5),
        ("max-checkpoints", 16, 6),
        ("max-entities", 10000, 7),
        ("max-agents", 1000, 8),
    ] {
        assert_eq!((&before[name], &after[name]), (&was.into(), &is.into()), "{name}");
    }
    // Every other limit has no setting: a new session has no such bound.
    const WITHOUT_SETTING: [&str; 3] = ["maxage", "maxbytes", "maxtokens"];
    let same = after.as_object().expect("limits").iter();
    let same = same.filter(|(name, value)| before[name.as_str()] == **value);
    assert_eq!(same.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), WITHOUT_SETTING);
    server.run("SESSION.APPEND before JSON {} {} {}");
    server.run("SESSION.APPEND after JSON {} {} {}");
    assert_eq!(
        (server.say("SESSION.LEN before"), server.say("SESSION.LEN after")),
        ("(integer) 3".into(), "(integer) 2".into())
    );
    let ttl = |key: &str| redis_session_tests::int(&server.run(&format!("TTL {key}")));
    assert!((604_000..=604_800).contains(&ttl("before")) && (90..=100).contains(&ttl("after")));
}

#[test]
fn the_shipped_file_starts_a_server() {
    let shipped = redis_session_tests::module::project_root().join("redis.conf");
    let Ok(file) = std::fs::read_to_string(&shipped) else {
        println!("skipped: no redis.conf yet");
        return;
    };
    for (name, default, ..) in SETTINGS {
        let documented = file.lines().any(|line| {
            line.trim_start_matches(['#', ' '])
                .starts_with(&format!("session.{name} {default}"))
        });
        assert!(documented, "session.{name} is not in redis.conf with its default");
    }
}

#[test]
fn module_list_names_it() {
    let server = Server::start();
    // Some servers have modules of their own.
    let modules = redis_session_tests::items(&server.run("MODULE LIST"));
    let names = modules.iter().map(|module| redis_session_tests::entry(module, "name"));
    let own = Value::BulkString(b"session".to_vec());
    assert_eq!(names.filter(|name| *name == own).count(), 1);
}
