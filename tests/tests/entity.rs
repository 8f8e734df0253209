//! Entities: what a conversation mentions, and which of them a word means.

use std::collections::BTreeSet;

use redis_session_tests::payload::Random;
use redis_session_tests::{entry, int, items, talk, text, Client, Options, Server, Value};
use serde_json::{json, Value as Json};

use super::surroundings::user;

/// Returns the ids in a reply of entities.
#[track_caller]
fn ids(reply: &Value) -> Vec<String> {
    let id = |json: &Value| {
        let entity: Json = serde_json::from_str(&text(json)).expect("JSON");
        entity["entity_id"].as_str().expect("an id").to_string()
    };
    items(reply).iter().map(id).collect()
}

fn list(server: &Server, options: &str) -> Vec<String> {
    ids(&server.run(&format!("SESSION.ENTITY LIST k {options}")))
}

/// Returns every candidate for the words after the key.
fn candidates(server: &Server, word: &str) -> Vec<String> {
    let all = ids(&server.run(&format!("SESSION.ENTITY RESOLVE k {word} ALL")));
    // Without ALL, the reply is the first candidate.
    let one = server.run(&format!("SESSION.ENTITY RESOLVE k {word}"));
    match one {
        Value::Nil => assert_eq!(all, [""; 0], "{word}"),
        one => assert_eq!(ids(&Value::Array(vec![one])), all[..1], "{word}"),
    }
    all
}

fn entity(server: &Server, id: &str) -> Json {
    serde_json::from_str(&text(&server.call(&["SESSION.ENTITY", "GET", "k", id]))).expect("JSON")
}

/// Opens a connection in each protocol.
fn both_protocols(server: &Server) -> [Client; 2] {
    [server.client(), server.client().resp3()]
}

const CAST: &str = r#"SESSION.ENTITY MENTION k JSON '{"id":"p","name":"Pat Jones","type":"Person"}' '{"id":"m","name":"Max","type":"MALE"}' '{"id":"f","name":"Fay","type":"female"}' '{"id":"o","name":"Acme Corp","type":"organization"}' '{"id":"t","name":"Teapot","type":"Thing"}' '{"id":"d","name":"Deed","type":"document"}' '{"id":"u","name":"Umbra"}' '{"id":"x","name":"Xanadu","type":"place"}'"#;

// ---------------------------------------------------------------------- MENTION, GET

#[test]
fn a_repeat_counts_merges_and_replaces() {
    let server = Server::start();
    for mut client in both_protocols(&server) {
        server.run("DEL k");
        client.conversation(
            r#"
            > SESSION.ENTITY MENTION k ID e1 NAME "John Smith" TYPE person ALIAS John ALIAS "Mr Smith"
            (integer) 1
            > SESSION.ENTITY GET k e1
            '{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["John","Mr Smith"],"mention_count":1,"last_mentioned":"2…-…-…T…:…:…Z"}'
            > SESSION.ENTITY MENTION k ID e1
            (integer) 0
            > SESSION.ENTITY GET k e1
            '{"entity_id":"e1","entity_name":"John Smith","entity_type":"person","aliases":["John","Mr Smith"],"mention_count":2,"last_mentioned":"…"}'
            # aliases merge; a given name replaces, what is not given stays
            > SESSION.ENTITY MENTION k ID e1 ALIAS JS ALIAS John NAME "J. Smith"
            (integer) 0
            > SESSION.ENTITY GET k e1
            '{"entity_id":"e1","entity_name":"J. Smith","entity_type":"person","aliases":["John","Mr Smith","JS"],"mention_count":3,"last_mentioned":"…"}'
            > session.entity mention k id e1 type male alias JS
            (integer) 0
            > SESSION.ENTITY GET k e1
            '{"entity_id":"e1","entity_name":"J. Smith","entity_type":"male","aliases":["John","Mr Smith","JS"],"mention_count":4,"last_mentioned":"…"}'
            # of which nothing is known but the id
            > SESSION.ENTITY MENTION k ID e2
            (integer) 1
            > SESSION.ENTITY GET k e2
            '{"entity_id":"e2","entity_name":"e2","entity_type":"unknown","aliases":[],"mention_count":1,"last_mentioned":"…"}'
            > SESSION.ENTITY GET k e3
            (nil)
            # ids are exact
            > SESSION.ENTITY GET k E1
            (nil)
            > SESSION.ENTITY GET absent e1
            (nil)
            > SESSION.ENTITY LIST absent
            (empty array)
            > SESSION.ENTITY RESOLVE absent he
            (nil)
            > SESSION.ENTITY RESOLVE absent he ALL
            (empty array)
            > SESSION.ENTITY RESOLVE absent nobody ANY ALL
            (empty array)
            > SESSION.ENTITY FORGET absent 1 e1
            (error) NOSESSION no session at key 'absent'
            "#,
        );
    }
}

#[test]
fn json_takes_the_short_and_the_long_words() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.ENTITY MENTION k JSON '{"id":"a","name":"A","type":"thing","aliases":["x","y"]}' '{"entity_id":"b","entity_name":"B","entity_type":"document","aliases":[],"mention_count":77,"last_mentioned":"1999-01-01T00:00:00.000Z","unknown":{"deep":[1]}}' '{"id":"a","aliases":["y","z"],"name":"AA"}' '{"id":"c"}'
        (integer) 3
        > SESSION.ENTITY LIST k
        1) '{"entity_id":"c","entity_name":"c","entity_type":"unknown","aliases":[],"mention_count":1,"last_mentioned":"2…"}'
        2) '{"entity_id":"a","entity_name":"AA","entity_type":"thing","aliases":["x","y","z"],"mention_count":2,"last_mentioned":"2…"}'
        3) '{"entity_id":"b","entity_name":"B","entity_type":"document","aliases":[],"mention_count":1,"last_mentioned":"2…"}'
        > SESSION.ENTITY MENTION k JSON '{"id":"c"}' '{"entity_id":"c"}'
        (integer) 0
        > SESSION.ENTITY MENTION k JSON '{"id":"n"}' '{"id":"n"}'
        (integer) 1
        > SESSION.ENTITY GET k n
        '{…"mention_count":2,…}'
        # duplicate keys: the last counts
        > SESSION.ENTITY MENTION k JSON '{"id":"wrong","id":"dup","name":"first","name":"last"}'
        (integer) 1
        > SESSION.ENTITY GET k dup
        '{"entity_id":"dup","entity_name":"last",…}'
        > SESSION.ENTITY GET k wrong
        (nil)
        # escapes
        > SESSION.ENTITY MENTION k JSON '{"id":"\u00e9\"\\\n","aliases":["\ud83d\ude00"]}'
        (integer) 1
        > SESSION.ENTITY GET k "é\"\\\n"
        '{"entity_id":"é\"\\\n","entity_name":"é\"\\\n",…,"aliases":["😀"],…}'
        "#,
    );
    // An entity in a reply can be passed to MENTION JSON.
    let all = items(&server.run("SESSION.ENTITY LIST k"));
    let mut args = ["SESSION.ENTITY", "MENTION", "again", "JSON"]
        .map(String::from)
        .to_vec();
    args.extend(all.iter().rev().map(text));
    assert_eq!(int(&server.call(&args)), all.len() as i64);
    assert_eq!(
        ids(&server.run("SESSION.ENTITY LIST again")),
        ids(&Value::Array(all.clone()))
    );
    for (there, here) in items(&server.run("SESSION.ENTITY LIST again")).iter().zip(&all) {
        let read = |json: &Value| -> Json { serde_json::from_str(&text(json)).expect("JSON") };
        let (there, here) = (read(there), read(here));
        for field in ["entity_id", "entity_name", "entity_type", "aliases"] {
            assert_eq!(there[field], here[field]);
        }
        assert_eq!(there["mention_count"], 1);
    }
}

#[test]
fn odd_but_legal_texts_come_back_as_json() {
    let server = Server::start();
    let longest = "x".repeat(65_536);
    for id in [
        "a\0b",
        "\0",
        " ",
        "ID",
        "JSON",
        "\u{7f}\u{2028}\u{10ffff}\u{feff}",
        "\"}\\",
        "\r\n\t\u{1}",
        &longest,
    ] {
        server.run("DEL k");
        let name = format!("n{}", &id[..id.len().min(1)]);
        let args = [
            "SESSION.ENTITY",
            "MENTION",
            "k",
            "ID",
            id,
            "NAME",
            &name,
            "ALIAS",
            id,
            "TYPE",
            id,
        ];
        assert_eq!(int(&server.call(&args)), 1);
        let read = entity(&server, id);
        assert_eq!(
            (&read["entity_id"], &read["entity_name"]),
            (&json!(id), &json!(name)),
            "{id:?}"
        );
        assert_eq!((&read["entity_type"], &read["aliases"]), (&json!(id), &json!([id])));
        let resolved = text(&server.call(&["SESSION.ENTITY", "RESOLVE", "k", id]));
        assert_eq!(serde_json::from_str::<Json>(&resolved).expect("JSON"), read);
        let body = json!({ "id": id }).to_string();
        assert_eq!(int(&server.call(&["SESSION.ENTITY", "MENTION", "k", "JSON", &body])), 0);
        assert_eq!(
            int(&server.call(&["SESSION.APPEND", "k", "MSG", "user", "hi", "REF", id])),
            1
        );
        assert_eq!(entity(&server, id)["mention_count"], 3, "{id:?}");
        let before = server.visible(b"k");
        server.run("DEBUG RELOAD");
        assert_eq!(server.visible(b"k"), before, "{id:?}");
        assert_eq!(int(&server.call(&["SESSION.ENTITY", "FORGET", "k", "1", id])), 1);
    }
    // A lone surrogate is accepted, and replies are still UTF-8.
    server.attempt(r#"SESSION.ENTITY MENTION k JSON '{"id":"s\ud800","name":"\udc00","x":"\ud800"}'"#);
    server.attempt(r#"SESSION.ENTITY MENTION k JSON '{"id":"t","\ud800":1}'"#);
    assert!(list(&server, "").contains(&"t".to_string()));
    server.document("k");
}

#[test]
fn a_session_is_created_with_the_first_mention() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.ENTITY MENTION k ID e
        (integer) 1
        > TYPE k
        rdsession
        > SESSION.LEN k
        (integer) 0
        > SESSION.ENTITY MENTION j EX 100 AT 1000 IFVERSION 0 JSON '{"id":"e"}' '{"id":"f"}'
        (integer) 2
        > SESSION.ENTITY MENTION j IFVERSION 0 ID e
        (error) VERSIONCONFLICT session is at version 2, not 0
        "#,
    );
    assert_eq!((server.version_of("k"), server.version_of("j")), (2, 2));
    server.run("SESSION.ENTITY MENTION k JSON '{\"id\":\"e\"}' '{\"id\":\"f\"}'");
    server.run("SESSION.ENTITY FORGET k 2 e f");
    assert_eq!(server.version_of("k"), 4, "one a command");
    assert_eq!(server.document("k")["last_seq"], 0, "a mention takes no seq");
}

#[test]
fn later_in_a_command_counts_as_later() {
    let server = Server::start();
    let mention = |order: &str| {
        let objects: Vec<String> = order.chars().map(|id| format!(r#"'{{"id":"{id}"}}'"#)).collect();
        server.run(&format!("SESSION.ENTITY MENTION k JSON {}", objects.join(" ")));
    };
    mention("abc");
    assert_eq!(list(&server, ""), ["c", "b", "a"]);
    mention("cab");
    assert_eq!(list(&server, ""), ["b", "a", "c"]);
    mention("abcbac");
    assert_eq!(list(&server, ""), ["c", "a", "b"]);
    // Recency is the order of mention, whatever the content's date.
    server.run("SESSION.ENTITY MENTION k AT 1000 ID b");
    assert_eq!(list(&server, ""), ["b", "c", "a"]);
    server.run("SESSION.ENTITY MENTION k AT 4102444800000 ID a");
    server.run("SESSION.ENTITY MENTION k ID c");
    assert_eq!(list(&server, ""), ["c", "a", "b"]);
    server
        .run(r#"SESSION.APPEND k AT 1000 JSON '{"entity_refs":["b","a"],"timestamp":5}' '{"entity_refs":["new"]}' {}"#);
    assert_eq!(list(&server, ""), ["new", "a", "b", "c"]);
    for id in ["a", "b", "new"] {
        let last_mentioned = entity(&server, id)["last_mentioned"].clone();
        assert!(last_mentioned.as_str().expect("a time") > "2024", "{last_mentioned}");
    }
}

#[test]
fn the_refs_of_an_appended_message_are_mentions() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.ENTITY MENTION k ID paris NAME Paris TYPE place ALIAS "la Ville"
        (integer) 1
        > SESSION.APPEND k MSG user hi REF rome REF paris
        (integer) 1
        > SESSION.ENTITY LIST k
        1) '{"entity_id":"paris","entity_name":"Paris","entity_type":"place","aliases":["la Ville"],"mention_count":2,"last_mentioned":"…"}'
        2) '{"entity_id":"rome","entity_name":"rome","entity_type":"unknown","aliases":[],"mention_count":1,"last_mentioned":"…"}'
        > SESSION.ENTITY MENTION k ID rome NAME Rome TYPE place
        (integer) 0
        > SESSION.APPEND k DEDUP t JSON '{"entity_refs":["rome"]}'
        (integer) 2
        # neither a repeat nor what is refused mentions anything
        > SESSION.APPEND k DEDUP t JSON '{"entity_refs":["rome"]}'
        (integer) 2
        > SESSION.APPEND k IFVERSION 1 MSG user hi REF paris REF oslo
        (error) VERSIONCONFLICT …
        > SESSION.APPEND k JSON '{"entity_refs":["oslo"]}' []
        (error) BADMESSAGE message 2 of 2: …
        > SESSION.APPEND absent XX MSG user hi REF e
        (nil)
        > SESSION.ENTITY LIST k
        1) '{"entity_id":"rome","entity_name":"Rome","entity_type":"place","aliases":[],"mention_count":3,"last_mentioned":"…"}'
        2) '{"entity_id":"paris",…"mention_count":2,…}'
        # entities outlive the messages
        > SESSION.POP k
        …
        > SESSION.CLEAR k
        (integer) 1
        > SESSION.ENTITY RESOLVE k par
        '{"entity_id":"paris",…"mention_count":2,…}'
        "#,
    );
}

#[test]
fn one_answer_wherever_entities_are_shown() {
    let server = Server::start();
    let mut random = Random(7);
    for _ in 0..40 {
        let id = random.below(9);
        server.run(&match random.below(4) {
            0 => format!("SESSION.ENTITY MENTION k ID e{id} NAME \"n {id}\" TYPE t{}", random.below(3)),
            1 => format!(
                "SESSION.ENTITY MENTION k JSON '{{\"entity_id\":\"e{id}\",\"aliases\":[\"a{}\"]}}' '{{\"id\":\"e{}\"}}'",
                random.below(4),
                random.below(9)
            ),
            2 => format!("SESSION.APPEND k MSG user hi REF e{} REF e{id}", random.below(9)),
            _ => "SESSION.ENTITY MENTION k ID e0".into(),
        });
        let listed: Vec<String> = items(&server.run("SESSION.ENTITY LIST k")).iter().map(text).collect();
        let mentioned = server.document("k")["entities_mentioned"].clone();
        assert_eq!(mentioned.as_object().expect("an object").len(), listed.len());
        for json in &listed {
            let entity: Json = serde_json::from_str(json).expect("JSON");
            let id = entity["entity_id"].as_str().expect("an id");
            assert_eq!(mentioned[id], entity);
            assert_eq!(&text(&server.run(&format!("SESSION.ENTITY GET k {id}"))), json);
            assert_eq!(
                &text(&server.run(&format!("SESSION.ENTITY RESOLVE k {id}"))),
                json,
                "an id is exact"
            );
        }
        let context = server.run("SESSION.CONTEXT k ENTITIES 3");
        let newest: Vec<String> = items(&entry(&context, "entities")).iter().map(text).collect();
        assert_eq!(newest, listed[..listed.len().min(3)]);
        let all: Vec<String> = items(&server.run("SESSION.ENTITY RESOLVE k they ALL"))
            .iter()
            .map(text)
            .collect();
        assert_eq!(all, listed);
    }
}

#[test]
fn max_entities_takes_the_least_recently_mentioned() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT max-entities 2
        > SESSION.ENTITY MENTION k JSON '{"id":"a"}' '{"id":"b"}' '{"id":"a"}'
        (integer) 2
        > SESSION.ENTITY MENTION k ID c
        (integer) 1
        > SESSION.ENTITY GET k b
        (nil)
        > SESSION.APPEND k MSG user hi REF d
        (integer) 1
        > SESSION.ENTITY GET k a
        (nil)
        # more in one command than there is room for
        > SESSION.ENTITY MENTION k JSON '{"id":"v"}' '{"id":"w"}' '{"id":"x"}' '{"id":"y"}'
        (integer) 4
        > SESSION.APPEND k JSON '{"entity_refs":["1","2","3","4"]}'
        (integer) 2
        > SESSION.LEN k
        (integer) 2
        > SESSION.ENTITY LIST k
        1) '{"entity_id":"4",…}'
        2) '{"entity_id":"3",…}'
        # forgotten, it is new again
        > SESSION.ENTITY MENTION k ID a NAME A
        (integer) 1
        > SESSION.ENTITY GET k a
        '{…"mention_count":1,…}'
        "#,
    );
    // The configured default applies to sessions created under it.
    let server = Server::with("session.max-entities", 3).start();
    server.run(CAST);
    assert_eq!(list(&server, ""), ["x", "u", "d"]);
    server.run("CONFIG SET session.max-entities 1");
    server.run("SESSION.ENTITY MENTION k ID d");
    assert_eq!(list(&server, ""), ["d", "x", "u"]);
}

// ---------------------------------------------------------------------- LIST, FORGET

#[test]
fn a_list_is_by_recency_type_and_limit() {
    let server = Server::start();
    server.run(CAST);
    assert_eq!(list(&server, ""), ["x", "u", "d", "t", "o", "f", "m", "p"]);
    server.run("SESSION.ENTITY MENTION k ID t");
    server.run("SESSION.ENTITY MENTION k ID t2 TYPE tHiNG");
    for (options, expected) in [
        ("LIMIT 0 2", &["t2", "t"][..]),
        ("LIMIT 2 2", &["x", "u"]),
        ("LIMIT 8 5", &["p"]),
        ("LIMIT 9 5", &[]),
        ("LIMIT 0 0", &[]),
        ("LIMIT 7 -1", &["m", "p"]),
        ("LIMIT 7 9223372036854775807", &["m", "p"]),
        ("LIMIT 9223372036854775807 9223372036854775807", &[]),
        ("TYPE thing", &["t2", "t"]),
        ("TYPE THING", &["t2", "t"]),
        ("type male", &["m"]),
        ("TYPE person", &["p"]),
        ("TYPE unknown", &["u"]),
        ("TYPE thin", &[]),
        ("TYPE things", &[]),
        ("TYPE thing LIMIT 1 1", &["t"]),
        ("LIMIT 0 1 TYPE Thing", &["t2"]),
        ("TYPE LIMIT", &[]),
    ] {
        assert_eq!(list(&server, options), expected, "{options}");
    }
}

#[test]
fn forgetting_counts_what_was_known() {
    Server::start().conversation(
        r#"
        > SESSION.ENTITY MENTION k JSON '{"id":"a","aliases":["x"],"name":"A","type":"thing"}' '{"id":"b"}' '{"id":"c"}' '{"id":"EX"}'
        (integer) 4
        > SESSION.ENTITY FORGET k 3 a nobody a
        (integer) 1
        > SESSION.ENTITY GET k a
        (nil)
        > SESSION.ENTITY RESOLVE k x
        (nil)
        > SESSION.ENTITY FORGET k 1 a
        (integer) 0
        # an id may look like an option
        > SESSION.ENTITY FORGET k 1 EX EX 100
        (integer) 1
        > SESSION.ENTITY FORGET k 2 b c IFVERSION 4
        (integer) 2
        > SESSION.ENTITY LIST k
        (empty array)
        # nothing of it is left
        > SESSION.ENTITY MENTION k ID a
        (integer) 1
        > SESSION.ENTITY GET k a
        '{"entity_id":"a","entity_name":"a","entity_type":"unknown","aliases":[],"mention_count":1,"last_mentioned":"…"}'
        # it is not a message's name for it that is forgotten, nor a name or alias
        > SESSION.ENTITY MENTION k ID z NAME zed ALIAS zee
        (integer) 1
        > SESSION.ENTITY FORGET k 3 zed zee Z
        (integer) 0
        "#,
    );
}

// ---------------------------------------------------------------------- RESOLVE

#[test]
fn the_pronoun_table_word_by_word() {
    let server = Server::start();
    server.run(CAST);
    let rows: [(&str, &[&str]); 4] = [
        ("he him his himself", &["u", "m", "p"]),
        ("she her hers herself", &["u", "f", "p"]),
        ("it its itself", &["u", "d", "t", "o"]),
        (
            "they them their theirs themselves this that these those who whom",
            &["x", "u", "d", "t", "o", "f", "m", "p"],
        ),
    ];
    for (words, expected) in rows {
        for word in words.split(' ') {
            let mut capital = word.to_string();
            capital[..1].make_ascii_uppercase();
            for word in [word, &word.to_uppercase(), &capital] {
                assert_eq!(candidates(&server, word), expected, "{word}");
                assert_eq!(candidates(&server, &format!("{word} ANY")), expected, "{word}");
            }
        }
    }
    // By recency of mention alone.
    server.run("SESSION.ENTITY MENTION k ID p");
    assert_eq!(candidates(&server, "he"), ["p", "u", "m"]);
    assert_eq!(candidates(&server, "her"), ["p", "u", "f"]);
    server.run("SESSION.APPEND k MSG user hi REF m REF o");
    assert_eq!(candidates(&server, "he"), ["m", "p", "u"]);
    assert_eq!(candidates(&server, "it"), ["o", "u", "d", "t"]);
    assert_eq!(candidates(&server, "who")[..4], ["o", "m", "p", "x"]);
    // A change of type changes what pronouns can mean.
    server.run("SESSION.ENTITY MENTION k ID x TYPE FEMALE");
    assert_eq!(candidates(&server, "she"), ["x", "p", "u", "f"]);
    server.run("SESSION.ENTITY FORGET k 1 x");
    assert_eq!(candidates(&server, "she"), ["p", "u", "f"]);
}

#[test]
fn a_pronoun_stays_a_pronoun() {
    let server = Server::start();
    server.run(r#"SESSION.ENTITY MENTION k JSON '{"id":"p","name":"Pat","type":"person"}' '{"id":"it","name":"He","type":"place","aliases":["his","Her","it"]}' '{"id":"w","name":"WHO","type":"organization"}' '{"id":"h","name":"Herself","type":"place"}'"#);
    assert_eq!(candidates(&server, "he"), ["p"]);
    assert_eq!(candidates(&server, "his"), ["p"]);
    assert_eq!(candidates(&server, "her"), ["p"]);
    assert_eq!(candidates(&server, "HERSELF"), ["p"]);
    assert_eq!(candidates(&server, "it"), ["w"]);
    assert_eq!(candidates(&server, "who"), ["h", "w", "it", "p"]);
    // Words that only begin or sound like a pronoun are not pronouns.
    assert_eq!(candidates(&server, "hers"), ["p"]);
    assert_eq!(candidates(&server, "hersel"), ["h"]);
    assert_eq!(candidates(&server, "wh"), ["w"]);
    for word in [
        "we",
        "us",
        "you",
        "me",
        "which",
        "one",
        "theirself",
        "\"he \"",
        "\" he\"",
    ] {
        assert_eq!(candidates(&server, word), [""; 0], "{word}");
        assert_eq!(
            candidates(&server, &format!("{word} ANY")),
            ["h", "w", "it", "p"],
            "{word}"
        );
    }
}

#[test]
fn any_concerns_names_only() {
    Server::start().conversation(
        r#"
        > SESSION.ENTITY MENTION k ID x NAME Xanadu TYPE place
        (integer) 1
        > SESSION.ENTITY RESOLVE k he ANY
        (nil)
        > SESSION.ENTITY RESOLVE k she ANY ALL
        (empty array)
        > SESSION.ENTITY RESOLVE k it ALL ANY
        (empty array)
        > SESSION.ENTITY RESOLVE k them
        '{"entity_id":"x",…}'
        > SESSION.ENTITY RESOLVE k nobody
        (nil)
        > SESSION.ENTITY RESOLVE k nobody ALL
        (empty array)
        > SESSION.ENTITY RESOLVE k nobody ANY
        '{"entity_id":"x",…}'
        > SESSION.ENTITY RESOLVE k nobody any all
        1) '{"entity_id":"x",…}'
        > SESSION.ENTITY MENTION k ID y TYPE person
        (integer) 1
        > SESSION.ENTITY RESOLVE k nobody ANY
        '{"entity_id":"y",…}'
        # with a match ANY changes nothing
        > SESSION.ENTITY RESOLVE k xan ANY ALL
        1) '{"entity_id":"x",…}'
        > SESSION.CREATE empty
        …
        > SESSION.ENTITY RESOLVE empty nobody ANY
        (nil)
        > SESSION.ENTITY RESOLVE empty who ALL
        (empty array)
        "#,
    );
}

#[test]
fn a_name_is_exact_first_and_then_the_beginning_of_a_word() {
    let server = Server::start();
    server.run(r#"SESSION.ENTITY MENTION k JSON '{"id":"e1","name":"John Smith","type":"person","aliases":["Mr Smith","Johnny"]}' '{"id":"e2","name":"Ann"}' '{"id":"e3","name":"Annabel Lee","aliases":["Bel"]}' '{"id":"ident-9","name":"Élodie Ångström"}' '{"id":"e5","name":"ann Smithson"}' '{"id":"bel","name":"Tower"}'"#);
    for (word, expected) in [
        // exact: name, id or alias, without case
        ("ann", &["e2"][..]),
        ("ANN", &["e2"]),
        ("\"john smith\"", &["e1"]),
        ("johnny", &["e1"]),
        ("\"MR SMITH\"", &["e1"]),
        ("IDENT-9", &["ident-9"]),
        // the alias of one, the id of another: recency alone
        ("bel", &["bel", "e3"]),
        ("BEL", &["bel", "e3"]),
        ("\"ÉLODIE ÅNGSTRÖM\"", &["ident-9"]),
        // the beginning of a word of a name or alias
        ("an", &["e5", "e3", "e2"]),
        ("AnNa", &["e3"]),
        ("lee", &["e3"]),
        ("smi", &["e5", "e1"]),
        ("Smith", &["e5", "e1"]),
        ("john", &["e1"]),
        ("mr", &["e1"]),
        ("tow", &["bel"]),
        ("élo", &["ident-9"]),
        ("ång", &["ident-9"]),
        ("ÅNGSTRÖM", &["ident-9"]),
        // neither the middle of a word nor the beginning of an id
        ("mith", &[]),
        ("nnabel", &[]),
        ("ident", &[]),
        ("e", &[]),
        ("smiths0n", &[]),
    ] {
        assert_eq!(candidates(&server, word), expected, "{word}");
    }
    server.run("SESSION.ENTITY MENTION k ID e3");
    assert_eq!(candidates(&server, "bel"), ["e3", "bel"]);
    assert_eq!(candidates(&server, "an"), ["e3", "e5", "e2"]);
    // A replaced name no longer matches, an alias still does.
    server.run("SESSION.ENTITY MENTION k ID e1 NAME Jack");
    assert_eq!(candidates(&server, "\"john smith\""), [""; 0]);
    assert_eq!(candidates(&server, "jack"), ["e1"]);
    assert_eq!(candidates(&server, "johnny"), ["e1"]);
}

#[test]
fn case_does_not_count_in_any_script() {
    let server = Server::start();
    server.run(r#"SESSION.ENTITY MENTION k JSON '{"id":"a","name":"ΠΕΡΙΣΤΕΡΙ"}' '{"id":"b","name":"Иван Грозный"}' '{"id":"c","name":"Ελληνας"}' '{"id":"d","type":"ΌΡΟΣ"}'"#);
    for (word, expected) in [
        ("περιστερι", "a"),
        ("περι", "a"),
        ("ИВАН", "b"),
        ("гроз", "b"),
        ("ΕΛΛΗΝΑΣ", "c"),
    ] {
        assert_eq!(candidates(&server, word), [expected], "{word}");
    }
    assert_eq!(list(&server, "TYPE όρος"), ["d"]);
}

/// Lower-casing a sigma depends on whether it ends a word, and a prefix ends where the name continues.
#[test]
fn the_beginning_of_a_word_may_end_in_a_sigma() {
    let server = Server::start();
    server.run("SESSION.ENTITY MENTION k ID a NAME ΠΕΡΙΣΤΕΡΙ");
    for word in ["περισ", "περις", "ΠΕΡΙΣ"] {
        assert_eq!(candidates(&server, word), ["a"], "{word}");
    }
}

// ---------------------------------------------------------------------- guards

#[test]
fn checks_come_in_the_contracts_order() {
    let server = Server::start();
    server.run("SET string x");
    server.conversation(
        r#"
        > SESSION.ENTITY MENTION k ID e
        (integer) 1
        # arity, syntax, bodies, WRONGTYPE
        > SESSION.ENTITY MENTION string BOGUS JSON []
        (error) ERR syntax error near 'BOGUS'
        > SESSION.ENTITY MENTION string IFVERSION 9 JSON []
        (error) ERR … is not a JSON object (…)
        > SESSION.ENTITY MENTION string IFVERSION 9 LEASE 4 JSON '{"id":"e"}'
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.ENTITY FORGET string 1 e IFVERSION 9
        (error) WRONGTYPE Operation against a key holding the wrong kind of value
        > SESSION.ENTITY FORGET absent 1 e BOGUS
        (error) ERR syntax error near 'BOGUS'
        # NOSESSION, lease, version
        > SESSION.ENTITY FORGET absent 1 e IFVERSION 9 LEASE 4
        (error) NOSESSION no session at key 'absent'
        > SESSION.ENTITY MENTION absent IFVERSION 9 LEASE 4 ID e
        (error) LEASELOST token 4 is stale
        > SESSION.ENTITY MENTION absent IFVERSION 9 ID e
        (error) VERSIONCONFLICT session is at version 0, not 9
        > SESSION.ENTITY MENTION k IFVERSION 9 LEASE 4 ID e
        (error) LEASELOST token 4 is stale
        > SESSION.ENTITY FORGET k 1 e IFVERSION 9 LEASE 4
        (error) LEASELOST token 4 is stale
        > SESSION.ENTITY MENTION k IFVERSION 9 ID e
        (error) VERSIONCONFLICT session is at version 2, not 9
        > SESSION.ENTITY FORGET k 1 nobody IFVERSION 9
        (error) VERSIONCONFLICT session is at version 2, not 9
        > EXISTS absent
        (integer) 0
        > SESSION.ENTITY GET k e
        '{…"mention_count":1,…}'
        "#,
    );
    assert_eq!(server.version_of("k"), 2);
}

#[test]
fn a_mention_is_activity() {
    let server = Server::start();
    server.run("SESSION.ENTITY MENTION k ID e");
    let before = server.document("k");
    redis_session_tests::wait_until("the clock ticks", || {
        server.run("SESSION.ENTITY MENTION k ID e");
        server.document("k")["last_activity"] != before["last_activity"]
    });
    let after = server.document("k");
    for same in [
        "session_id",
        "created_at",
        "message_count",
        "query_count",
        "meta",
        "state",
    ] {
        assert_eq!(after[same], before[same], "{same}");
    }
}

#[test]
fn what_an_age_has_passed_is_evicted_by_any_write() {
    let server = Server::with("notify-keyspace-events", "KEd").start();
    let mut subscriber = server.client();
    for write in [
        "SESSION.ENTITY FORGET k 1 e",
        "SESSION.ENTITY MENTION k ID f",
        "SESSION.META k '{\"a\":1}'",
    ] {
        server.run("DEL k");
        server.run("SESSION.CREATE k LIMIT maxage 60000");
        let at_ms = redis_session_tests::now_ms() - 59_950;
        server.run(&format!("SESSION.APPEND k AT {at_ms} JSON {{\"entity_refs\":[\"e\"]}}"));
        server.run("SESSION.APPEND k MSG user hi");
        redis_session_tests::wait_until("the age passes", || server.seqs("k") == [2]);
        let evicted = server.info_number("session", "session_evicted");
        subscriber.run("PSUBSCRIBE __keyevent@0__:session.*");
        server.run(write);
        server.run("PUBLISH __keyevent@0__:session.end k");
        let mut events = BTreeSet::new();
        while !events.contains("__keyevent@0__:session.end") {
            events.insert(text(&items(&subscriber.receive())[2]));
        }
        subscriber.send(&["PUNSUBSCRIBE"]);
        subscriber.receive();
        assert_eq!(server.info_number("session", "session_messages"), 1, "{write}");
        assert_eq!(
            server.info_number("session", "session_evicted") - evicted,
            1,
            "{write} counts what it evicts"
        );
        assert!(events.contains("__keyevent@0__:session.evict"), "{write}: {events:?}");
    }
}

// ---------------------------------------------------------------------- the server around it

#[test]
fn transactions_and_scripts_hold_entities() {
    Server::start().conversation(
        r#"
        > MULTI
        OK
        > SESSION.ENTITY MENTION k ID e TYPE person
        QUEUED
        > SESSION.ENTITY RESOLVE k him
        QUEUED
        > SESSION.ENTITY FORGET absent 1 e
        QUEUED
        > SESSION.ENTITY LIST k
        QUEUED
        > EXEC
        1) (integer) 1
        2) '{"entity_id":"e",…}'
        3) (error) NOSESSION no session at key 'absent'
        4) 1) '{"entity_id":"e",…}'
        > EVAL "return redis.call('SESSION.ENTITY', 'MENTION', KEYS[1], 'JSON', ARGV[1])" 1 k '{"id":"f"}'
        (integer) 1
        > EVAL_RO "return #redis.call('SESSION.ENTITY', 'LIST', KEYS[1])" 1 k
        (integer) 2
        > EVAL_RO "return redis.call('SESSION.ENTITY', 'FORGET', KEYS[1], 1, 'e')" 1 k
        (error) …
        "#,
    );
}

#[test]
fn help_tells_the_subcommands() {
    let server = Server::start();
    for mut client in both_protocols(&server) {
        let lines: Vec<String> = items(&client.run("SESSION.ENTITY HELP")).iter().map(text).collect();
        assert!(lines[0].contains("SESSION.ENTITY"), "{lines:#?}");
        for subcommand in [
            "MENTION key ",
            "GET key id",
            "LIST key ",
            "FORGET key ",
            "RESOLVE key word ",
            "HELP",
        ] {
            assert!(
                lines.iter().any(|line| line.starts_with(subcommand.trim_end())),
                "{subcommand}: {lines:#?}"
            );
        }
    }
}

const SUBCOMMANDS: [(&str, &str, &str, &str); 6] = [
    // name, flags it has, flags it has not, tokens
    (
        "mention",
        "write denyoom",
        "readonly",
        "ID NAME TYPE ALIAS JSON IFVERSION LEASE AT EX PX PXAT PERSIST KEEPTTL",
    ),
    ("get", "readonly fast", "write denyoom", ""),
    ("list", "readonly", "write denyoom fast", "TYPE LIMIT"),
    (
        "forget",
        "write",
        "readonly denyoom",
        "IFVERSION LEASE AT EX PX PXAT PERSIST KEEPTTL",
    ),
    ("resolve", "readonly", "write denyoom fast", "ANY ALL"),
    ("help", "", "write denyoom", ""),
];

#[test]
fn subcommands_have_flags_keys_and_docs() {
    let server = Server::start();
    let listed: BTreeSet<String> = items(&server.run("COMMAND LIST FILTERBY MODULE session"))
        .iter()
        .map(|name| text(name).to_lowercase())
        .collect();
    assert!(listed.contains("session.entity"));
    let docs = items(&server.run("COMMAND DOCS SESSION.ENTITY"))[1].clone();
    for field in ["summary", "since", "complexity", "group"] {
        assert!(!text(&entry(&docs, field)).is_empty(), "{field} of the group");
    }
    let of_group = items(&entry(&docs, "subcommands"));
    assert_eq!(of_group.len(), 2 * SUBCOMMANDS.len());
    for (name, has, has_not, tokens) in SUBCOMMANDS {
        let full = format!("session.entity|{name}");
        assert!(listed.contains(&full), "{full} in {listed:?}");
        let info = items(&items(&server.run(&format!("COMMAND INFO {full}")))[0]);
        let flags: BTreeSet<String> = items(&info[2]).iter().map(text).collect();
        assert!(
            has.split_whitespace().all(|flag| flags.contains(flag)),
            "{name}: {flags:?}"
        );
        assert!(
            has_not.split_whitespace().all(|flag| !flags.contains(flag)),
            "{name}: {flags:?}"
        );
        let keys: Vec<i64> = info[3..6].iter().map(int).collect();
        let expected = if name == "help" { [0, 0, 0] } else { [2, 2, 1] };
        assert_eq!(keys, expected, "first, last, step of {name}");

        let alone = items(&server.run(&format!("COMMAND DOCS {full}")))[1].clone();
        let in_group = of_group
            .chunks(2)
            .find(|pair| text(&pair[0]).eq_ignore_ascii_case(&full))
            .unwrap_or_else(|| panic!("{full} is not in the group's docs"))[1]
            .clone();
        for docs in [alone, in_group] {
            for field in ["summary", "since", "complexity", "group"] {
                assert!(!text(&entry(&docs, field)).is_empty(), "{field} of {name}");
            }
            if name == "help" {
                continue;
            }
            let arguments = entry(&docs, "arguments");
            let first = &items(&arguments)[0];
            assert_eq!(text(&entry(first, "type")), "key", "{name}");
            let mut told = BTreeSet::new();
            super::surroundings::collect_tokens(&arguments, &mut told);
            for token in tokens.split_whitespace() {
                assert!(told.contains(token), "{name} does not tell {token}: {told:?}");
            }
        }
    }
}

#[test]
fn the_key_is_the_word_behind_the_subcommand() {
    let server = Server::start();
    for command in [
        "MENTION k ID e",
        "MENTION k ID STORE NAME INDEX TYPE FROM ALIAS KEYS",
        "MENTION k AT 5 JSON '{\"id\":\"STORE\"}' '{\"id\":\"INDEX\"}'",
        "GET k STORE",
        "LIST k",
        "LIST k TYPE INDEX LIMIT 0 1",
        "FORGET k 2 STORE INDEX",
        "FORGET k 2 a b EX 5",
        "RESOLVE k he",
        "RESOLVE k STORE ANY ALL",
    ] {
        assert_eq!(
            server.say(&format!("COMMAND GETKEYS SESSION.ENTITY {command}")),
            r#"1) "k""#,
            "{command}"
        );
    }
    let said = server.say("COMMAND GETKEYS SESSION.ENTITY HELP");
    assert!(said.starts_with("(error) ") || said == "(empty array)", "{said}");
}

#[test]
fn access_goes_by_subcommand() {
    let server = Server::start();
    server.run("SESSION.ENTITY MENTION session:1 ID e TYPE person");
    user(&server, "~* +session.entity|resolve").conversation(
        r#"
        > SESSION.ENTITY RESOLVE session:1 him
        '{"entity_id":"e",…}'
        > SESSION.ENTITY GET session:1 e
        (error) NOPERM …
        > SESSION.ENTITY MENTION session:1 ID e
        (error) NOPERM …
        > SESSION.ENTITY HELP
        (error) NOPERM …
        > SESSION.GET session:1
        (error) NOPERM …
        "#,
    );
    user(&server, "~* +session.entity -session.entity|forget").conversation(
        r#"
        > SESSION.ENTITY FORGET session:1 1 e
        (error) NOPERM …
        > SESSION.ENTITY MENTION session:1 ID e
        (integer) 0
        > SESSION.ENTITY LIST session:1
        …
        > SESSION.ENTITY HELP
        …
        "#,
    );
    user(&server, "~session:* +session.entity").conversation(
        r#"
        > SESSION.ENTITY MENTION session:2 ID session:1
        (integer) 1
        > SESSION.ENTITY MENTION other ID session:1
        (error) NOPERM …
        > SESSION.ENTITY GET other session:1
        (error) NOPERM …
        "#,
    );
    user(&server, "%R~session:* +session.entity").conversation(
        r#"
        > SESSION.ENTITY GET session:1 e
        …
        > SESSION.ENTITY LIST session:1
        …
        > SESSION.ENTITY RESOLVE session:1 e
        …
        > SESSION.ENTITY MENTION session:1 ID e
        (error) NOPERM …
        > SESSION.ENTITY FORGET session:1 1 e
        (error) NOPERM …
        "#,
    );
    let rules = "~* +session.entity|mention";
    user(&server, rules).run("SESSION.ENTITY MENTION session:1 ID e");
    assert_eq!(server.say("ACL DRYRUN alice SESSION.ENTITY MENTION k ID e"), "OK");
    assert_ne!(server.say("ACL DRYRUN alice SESSION.ENTITY FORGET k 1 e"), "OK");
    if server.flavor().has_module_acl_categories() {
        user(&server, "~* +@read").conversation(
            r#"
            > SESSION.ENTITY GET session:1 e
            …
            > SESSION.ENTITY RESOLVE session:1 e
            …
            > SESSION.ENTITY LIST session:1
            …
            > SESSION.ENTITY MENTION session:1 ID e
            (error) NOPERM …
            > SESSION.ENTITY FORGET session:1 1 e
            (error) NOPERM …
            "#,
        );
        user(&server, "~* +@write").conversation(
            r#"
            > SESSION.ENTITY MENTION session:1 ID e
            (integer) 0
            > SESSION.ENTITY RESOLVE session:1 e
            (error) NOPERM …
            > SESSION.ENTITY FORGET session:1 1 e
            (integer) 1
            "#,
        );
    }
    if server.flavor().has_own_acl_category() {
        let mut client = user(&server, "~* +@session");
        for command in [
            "MENTION s ID e",
            "GET s e",
            "LIST s",
            "RESOLVE s e",
            "FORGET s 1 e",
            "HELP",
        ] {
            client.run(&format!("SESSION.ENTITY {command}"));
        }
    }
}

// ---------------------------------------------------------------------- replicas, copies, restarts

#[test]
fn every_answer_is_the_same_everywhere() {
    let (primary, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run("SESSION.CREATE k LIMIT max-entities 12");
    primary.run(CAST);
    let mut random = Random(11);
    for _ in 0..120 {
        let (id, other) = (random.below(16), random.below(16));
        let kind = ["person", "thing", "MALE", "female", "document", "place"][random.below(6)];
        primary.attempt(&match random.below(5) {
            0 => format!("SESSION.ENTITY MENTION k ID i{id} NAME \"Name {other}\" TYPE {kind}"),
            1 => format!("SESSION.ENTITY MENTION k JSON '{{\"id\":\"i{id}\",\"aliases\":[\"he\",\"Al {other}\"]}}' '{{\"id\":\"i{other}\"}}'"),
            2 => format!("SESSION.ENTITY FORGET k 2 i{id} i{other}"),
            3 => format!("SESSION.APPEND k MSG user hi REF i{id} REF i{other}"),
            _ => format!("SESSION.ENTITY MENTION k AT {} ID i{id} TYPE {kind}", 1_000_000 * other),
        });
    }
    let queries: Vec<String> = [
        "he",
        "she",
        "it",
        "they",
        "na",
        "al",
        "i3",
        "nobody",
        "nobody ANY",
        "pat",
    ]
    .iter()
    .flat_map(|word| [format!("RESOLVE k {word}"), format!("RESOLVE k {word} ALL")])
    .chain(["LIST k", "LIST k TYPE person", "LIST k LIMIT 3 4"].map(String::from))
    .chain((0..16).map(|id| format!("GET k i{id}")))
    .collect();
    let answers = |server: &Server| -> Vec<String> {
        queries
            .iter()
            .map(|query| server.say(&format!("SESSION.ENTITY {query}")))
            .chain([server.say("SESSION.CONTEXT k ENTITIES 99"), server.digest(b"k")])
            .collect()
    };
    let expected = answers(&primary);
    replica.wait_for(&primary);
    assert_eq!(answers(&replica), expected, "on a replica");
    primary.run("DEBUG RELOAD");
    assert_eq!(answers(&primary), expected, "after a reload");
    primary.restart_with(&Options::default().hostile());
    assert_eq!(answers(&primary), expected, "after a restart");
    primary.run("CONFIG SET aof-use-rdb-preamble no");
    primary.rewrite_append_only_file();
    primary.restart();
    assert_eq!(answers(&primary), expected, "after a rewrite");
    primary.run("COPY k copy");
    primary.run("SESSION.ENTITY MENTION copy ID only-here NAME Name");
    assert_eq!(answers(&primary), expected, "after a copy went its own way");
    assert_eq!(talk::render(&primary.run("SESSION.ENTITY GET k only-here")), "(nil)");
    // Recency continues from where it was, on a promoted replica too.
    replica.run("REPLICAOF NO ONE");
    replica.run("SESSION.ENTITY MENTION k ID later");
    assert_eq!(ids(&replica.run("SESSION.ENTITY LIST k"))[0], "later");
}
