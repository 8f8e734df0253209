//! Keys: what the server gets to know of them, and that option words as values give no access to other keys.

use redis_session_tests::{entry, int, items, talk, text, Client, Server, Value};

/// Commands, with each key marked by `@`.
const COMMANDS: &[&str] = &[
    "SESSION.CREATE @k",
    "SESSION.CREATE @k INDEX @i",
    "SESSION.CREATE @k index @i Alias INDEX autoname open",
    "SESSION.CREATE @k ALIAS INDEX INDEX @i",
    "SESSION.CREATE @k ALIAS INDEX AUTONAME INDEX @INDEX",
    "SESSION.CREATE @k ALIAS AUTONAME INDEX @i",
    "SESSION.CREATE @k OPEN ID INDEX SCOPE INDEX STATE INDEX META INDEX",
    "SESSION.CREATE @k LIMIT INDEX INDEX PIN INDEX PIN INDEX INDEX @i PIN INDEX",
    "SESSION.CREATE @k IFVERSION INDEX LEASE INDEX AT INDEX EX INDEX INDEX @i",
    "SESSION.CREATE @k PXAT INDEX INDEX @i",
    "SESSION.CREATE @INDEX INDEX @INDEX",
    // Invalid, and refused when they run.
    "SESSION.CREATE @k INDEX",
    "SESSION.CREATE @k INDEX @a INDEX @b",
    "SESSION.CREATE @k nonsense INDEX @i",
    "SESSION.INDEX ADD @i @k",
    "SESSION.INDEX ADD @INDEX @ALIAS ALIAS INDEX AUTONAME",
    "SESSION.INDEX RESOLVE @i INDEX",
    "SESSION.INDEX LIST @i MATCH INDEX BYACTIVITY LIMIT INDEX INDEX",
    "SESSION.INDEX LEN @i",
    "SESSION.CHECKPOINT CREATE @k",
    "SESSION.CHECKPOINT CREATE @k STORE @d",
    "session.checkpoint create @k store @d GRACE 5 trim CLOSE",
    "SESSION.CHECKPOINT CREATE @k LABEL STORE OUTCOME STORE STORE @STORE",
    "SESSION.CHECKPOINT CREATE @k LABEL STORE OUTCOME v",
    "SESSION.CHECKPOINT CREATE @k SUMMARY STORE REFS 2 STORE STORE STORE @d",
    "SESSION.CHECKPOINT CREATE @k REFS 0 STORE @d",
    "SESSION.CHECKPOINT CREATE @k REFS 1 STORE LABEL d",
    "SESSION.CHECKPOINT CREATE @k GRACE STORE IFVERSION STORE LEASE STORE AT STORE PXAT STORE STORE @d",
    "SESSION.CHECKPOINT CREATE @k KEEPTTL STORE @d PERSIST TRIM",
    "SESSION.CHECKPOINT CREATE @STORE STORE @STORE",
    "SESSION.CHECKPOINT CREATE @k STORE",
    "SESSION.CHECKPOINT CREATE @k STORE @a STORE @b",
    "SESSION.CHECKPOINT CREATE @k nonsense STORE @b",
    "SESSION.CHECKPOINT GET @STORE 1",
    "SESSION.CHECKPOINT LIST @STORE",
    "SESSION.CHECKPOINT DEL @k 1 STORE d",
    "SESSION.CHECKPOINT RESTORE @k 1",
    "SESSION.FORK @s @d",
    "SESSION.FORK @STORE @INDEX UPTO STORE ID STORE REPLACE",
    "SESSION.FORK @s @s CHECKPOINT 1",
    "SESSION.MIGRATE @k",
    "SESSION.MIGRATE @k FROM 1 @a",
    "session.migrate @k from 3 @a @b @k KEEP dryrun",
    "SESSION.MIGRATE @k FROM 2 @FROM @KEEP FORMAT FROM",
    "SESSION.MIGRATE @k FORMAT FROM ID FROM MAXLEN FROM FROM 1 @a",
    "SESSION.MIGRATE @k FORMAT FROM KEEP",
    "SESSION.MIGRATE @k AT FROM IFVERSION FROM LEASE FROM PXAT FROM FROM 1 @a",
    "SESSION.MIGRATE @FROM",
    "SESSION.EVENT ADD @k STORE ENTITIES 1 INDEX STATE STORE",
    "SESSION.AGENT HANDOFF @k INDEX STORE NOTE INDEX",
    "SESSION.ANCHOR ADD @k STORE OUTCOME INDEX IMPACTS 2 STORE INDEX",
    "SESSION.ANCHOR GET @k SESSION INDEX",
];

#[test]
fn command_getkeys_is_not_fooled_by_values() {
    let server = Server::start();
    for line in COMMANDS {
        let marked: Vec<String> = line
            .split(' ')
            .filter(|word| word.starts_with('@'))
            .map(str::to_owned)
            .collect();
        let found: Vec<String> = items(&server.run(&format!("COMMAND GETKEYS {line}")))
            .iter()
            .map(text)
            .collect();
        assert_eq!(found, marked, "{line}");
        let with_flags = items(&server.run(&format!("COMMAND GETKEYSANDFLAGS {line}")));
        let found: Vec<String> = with_flags.iter().map(|key| text(&items(key)[0])).collect();
        assert_eq!(found, marked, "{line}");
    }
    // Every request was answered.
    assert_eq!(server.info_number("session", "session_panics_caught"), 0);
    assert_eq!(server.say("DBSIZE"), "(integer) 0");
}

#[test]
fn each_key_says_what_happens_to_it() {
    let server = Server::start();
    let flags: Vec<(String, Vec<String>)> =
        items(&server.run("COMMAND GETKEYSANDFLAGS SESSION.CREATE k ALIAS INDEX INDEX i"))
            .iter()
            .map(|key| {
                let key = items(key);
                (text(&key[0]), items(&key[1]).iter().map(text).collect())
            })
            .collect();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        flags,
        [
            ("k".to_owned(), owned(&["RW", "insert"])),
            ("i".to_owned(), owned(&["RW", "access", "insert"])),
        ]
    );
}

#[test]
fn command_info_does_not_promise_what_a_spec_cannot_keep() {
    let server = Server::start();
    let info = items(&items(&server.run("COMMAND INFO SESSION.CREATE"))[0]);
    let flags: Vec<String> = items(&info[2]).iter().map(text).collect();
    assert!(flags.iter().any(|flag| flag == "movablekeys"), "{flags:?}");
    let searches: Vec<String> = items(&info[8])
        .iter()
        .map(|spec| text(&entry(&entry(spec, "begin_search"), "type")))
        .collect();
    assert_eq!(searches, ["index", "unknown"]);
    // Each argument of kind key has its spec.
    let docs = items(&server.run("COMMAND DOCS SESSION.CREATE"))[1].clone();
    let of_keys: Vec<(String, i64)> = items(&entry(&docs, "arguments"))
        .iter()
        .filter(|argument| text(&entry(argument, "type")) == "key")
        .map(|argument| (text(&entry(argument, "name")), int(&entry(argument, "key_spec_index"))))
        .collect();
    assert_eq!(of_keys, [("key".to_owned(), 0), ("index".to_owned(), 1)]);
    // A command with all keys at fixed positions is not called for them.
    let info = items(&items(&server.run("COMMAND INFO SESSION.APPEND"))[0]);
    let flags: Vec<String> = items(&info[2]).iter().map(text).collect();
    assert!(!flags.iter().any(|flag| flag == "movablekeys"), "{flags:?}");
}

/// Opens a connection as a user with these rules.
fn user(server: &Server, rules: &str) -> Client {
    server.run(&format!("ACL SETUSER alice reset on nopass {rules}"));
    let mut client = server.client();
    client.run("AUTH alice x");
    client
}

#[test]
fn a_user_of_some_keys_reaches_no_other_by_an_option() {
    let server = Server::start();
    server.run("SESSION.APPEND b MSG user secret");
    server.run("SET bstring x");
    let before = (server.digest(b"b"), server.digest(b"bstring"));
    let mut alice = user(&server, "~a* +@all");
    for refused in [
        "SESSION.CREATE b",
        "SESSION.CREATE b INDEX a",
        "SESSION.CREATE a INDEX b",
        "SESSION.CREATE a INDEX bstring OPEN",
        "SESSION.CREATE a ALIAS INDEX INDEX b",
        "SESSION.CREATE a ALIAS INDEX AUTONAME INDEX b",
        "SESSION.CREATE a STATE INDEX SCOPE INDEX INDEX b",
        "SESSION.CREATE a PIN INDEX PIN INDEX INDEX b",
        "SESSION.CREATE a LIMIT INDEX INDEX INDEX b",
        "SESSION.CREATE a AT INDEX INDEX b",
        "SESSION.CREATE a INDEX a INDEX b",
        "SESSION.CREATE a nonsense INDEX b",
        "SESSION.CHECKPOINT CREATE b",
        "SESSION.CHECKPOINT CREATE b STORE a2",
        "SESSION.CHECKPOINT CREATE a STORE b",
        "SESSION.CHECKPOINT CREATE a STORE bstring CLOSE",
        "SESSION.CHECKPOINT CREATE a LABEL STORE STORE b",
        "SESSION.CHECKPOINT CREATE a LABEL STORE OUTCOME STORE STORE b",
        "SESSION.CHECKPOINT CREATE a REFS 2 STORE a STORE b",
        "SESSION.CHECKPOINT CREATE a SUMMARY STORE STORE b",
        "SESSION.CHECKPOINT CREATE a GRACE STORE STORE b",
        "SESSION.CHECKPOINT CREATE a IFVERSION STORE STORE b",
        "SESSION.CHECKPOINT CREATE a STORE a2 STORE b",
        "SESSION.CHECKPOINT CREATE a nonsense STORE b",
        "SESSION.FORK a b",
        "SESSION.FORK a bstring REPLACE",
        "SESSION.FORK b a2",
        "SESSION.FORK b a2 REPLACE",
        "SESSION.MIGRATE b",
        "SESSION.MIGRATE a2 FROM 1 b",
        "SESSION.MIGRATE a2 FROM 1 bstring KEEP",
        "SESSION.MIGRATE a2 FROM 2 a bstring DRYRUN",
        "SESSION.MIGRATE bstring FROM 1 a",
        "SESSION.MIGRATE a2 FORMAT FROM FROM 1 b",
        "SESSION.MIGRATE a2 ID FROM MAXLEN FROM FROM 1 b",
        "SESSION.MIGRATE a2 FROM 1 a FROM 1 b",
        "SESSION.MIGRATE a2 nonsense FROM 1 b",
    ] {
        let reply = alice.say(refused);
        assert!(reply.starts_with("(error) NOPERM"), "{refused}: {reply}");
        let tried = server.call(
            &[
                vec![b"ACL".to_vec(), b"DRYRUN".to_vec(), b"alice".to_vec()],
                talk::split(refused),
            ]
            .concat(),
        );
        let tried = talk::render(&tried);
        assert!(tried.contains("has no permissions to access the"), "{refused}: {tried}");
    }
    // Values with the same text need no permission.
    for allowed in [
        "SESSION.CREATE a OPEN STATE INDEX SCOPE b",
        "SESSION.CREATE a OPEN SCOPE INDEX STATE b",
        "SESSION.CREATE a OPEN PIN INDEX PIN b",
        "SESSION.CREATE aINDEX META '{\"INDEX\":\"b\"}'",
        "SESSION.CHECKPOINT CREATE a LABEL STORE OUTCOME b",
        "SESSION.CHECKPOINT CREATE a REFS 2 STORE b LABEL b",
        "SESSION.CHECKPOINT CREATE a OUTCOME STORE LABEL b STORE astore",
        "SESSION.FORK a afork",
    ] {
        alice.run(allowed);
    }
    let reply = alice.say("SESSION.CREATE anew INDEX aindex ALIAS b");
    assert!(!reply.starts_with("(error) NOPERM"), "{reply}");
    assert_eq!((server.digest(b"b"), server.digest(b"bstring")), before);
}

#[test]
fn a_directory_is_read_and_written() {
    let server = Server::start();
    for (rules, allowed) in [("~a* %RW~b*", true), ("~a* %R~b*", false), ("~a* %W~b*", false)] {
        let mut alice = user(&server, &format!("{rules} +@all"));
        let reply = alice.attempt("SESSION.CREATE a OPEN INDEX b");
        let refused = matches!(&reply, Value::ServerError(_)) && talk::render(&reply).contains("NOPERM");
        assert_eq!(!refused, allowed, "{rules}: {}", talk::render(&reply));
    }
}
