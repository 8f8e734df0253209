//! What PostgreSQL would rather not have: nothing of it is lost, and nothing of it keeps others out.

use redis_session_sink::{PostgresTarget, RedisSource, SnapshotSink};
use redis_session_tests::{Postgres, Server, text};

use super::{Running, end, rows, shown_on_failure, wait_for_rows};

/// Bodies that are JSON to the module; `jsonb` refuses the first three.
const BODIES: [&str; 5] = [
    r#"{"role":"user","content":"a NUL \u0000"}"#,
    r#"{"role":"user","content":"half a pair \ud83d"}"#,
    r#"{"role":"user","content":"\ude00 the other half"}"#,
    r#"{"role":"user","content":"ä 😀 \u007f","n":1e999999,"n":-0.0}"#,
    r#"{"role":"\u0000\ud800","content":[[[[[[[[[[]]]]]]]]]]}"#,
];

fn end_with_everything(server: &Server, key: &[u8]) {
    for body in BODIES {
        let reply = server.call(&[b"SESSION.APPEND", key, b"JSON", body.as_bytes()]);
        assert!(matches!(reply, redis::Value::Int(_)), "{reply:?}");
    }
    let words: [&[u8]; 8] = [
        b"SESSION.CHECKPOINT",
        b"CREATE",
        key,
        b"OUTCOME",
        "kaputt\0ä".as_bytes(),
        b"SUMMARY",
        br#"{"impacts":{"\u0000":"\udfff"}}"#,
        b"CLOSE",
    ];
    assert!(matches!(server.call(&words), redis::Value::Int(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_and_half_characters_are_kept() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let sink = super::sink(&server, &postgres).failing(["kaputt\0ä", "broke"]);
    let running = Running::start(sink);
    let _shown = shown_on_failure(&running);
    running.wait_for("swept", 1);
    let key = b"k\0\xff";
    end_with_everything(&server, key);
    end(&server, "next", "broke");
    wait_for_rows(&postgres, 2);
    let row = |column: &str| {
        postgres.sql(&format!(
            "SELECT {column} FROM session_snapshots WHERE session_key <> 'next'"
        ))
    };
    let document = text(&server.call(&[b"SESSION.GET".as_slice(), key]));
    assert_eq!(row("document"), document);
    assert!(BODIES.iter().all(|body| document.contains(body)), "to the byte");
    assert_eq!(row("session_key || ' ' || outcome"), r"k\u0000\xff kaputt\u0000ä");
    assert_eq!(row("raw IS NULL"), "t");
    assert_eq!(running.said("skipped"), [""; 0]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_encoding_gets_escapes() {
    let (server, postgres) = (Server::start(), Postgres::start());
    postgres.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
    let address = postgres.address().replace("dbname=postgres", "dbname=latin");
    let source = RedisSource::single(redis::Client::open(server.url()).unwrap());
    let sink = SnapshotSink::new(source, PostgresTarget::new(&address).unwrap()).failing(["broke"]);
    let running = Running::start(sink);
    let _shown = shown_on_failure(&running);
    server.run("SESSION.APPEND 'k😀' MSG user 'ä 😀'");
    server.run("SESSION.CHECKPOINT CREATE 'k😀' OUTCOME broke CLOSE");
    running.wait_for("written", 1);
    let mut latin = std::process::Command::new("psql");
    let told = latin
        .env("PGCLIENTENCODING", "UTF8")
        .args(["-XAtq", "-d", &address, "-c"])
        .arg("SELECT session_key, document->'messages'->0->>'content' ~ 'x' IS NULL, document FROM session_snapshots")
        .output();
    // The escape of a character that the database does not have can be kept, but not looked into.
    let told = told
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .unwrap_or_default();
    assert!(told.contains("Unicode") || told.contains("encoding"), "{told}");
    assert_eq!(running.said("skipped"), [""; 0]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_as_json_is_kept_as_bytes() {
    let (server, postgres) = (Server::start(), Postgres::start());
    end(&server, "first", "broke");
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    wait_for_rows(&postgres, 1);
    postgres.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.document IS NOT NULL THEN RAISE EXCEPTION 'not today' USING ERRCODE = '22P02'; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON session_snapshots FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    end(&server, "second", "broke");
    wait_for_rows(&postgres, 2);
    let row = |column: &str| {
        postgres.sql(&format!(
            "SELECT {column} FROM session_snapshots WHERE session_key = 'second'"
        ))
    };
    assert_eq!(row("document IS NULL AND events IS NULL"), "t");
    assert_eq!(
        row("(convert_from(raw, 'UTF8')::json->'document')::text"),
        text(&server.run("SESSION.GET second"))
    );
    assert!(running.said("written")[1].contains("not today"));

    // Not even that: the others are written all the same.
    postgres.sql(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.session_key = 'third' THEN RAISE EXCEPTION 'never' USING ERRCODE = '22000'; END IF;
             RETURN NEW;
         END $$",
    );
    end(&server, "third", "broke");
    end(&server, "fourth", "broke");
    wait_for_rows(&postgres, 3);
    running.wait_for("skipped", 1);
    assert!(running.said("skipped")[0].contains("never"));
    assert_eq!(running.said("interrupted"), [""; 0]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_session_is_written() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    let most_of_a_mebibyte = "ä\n".repeat(250_000);
    for _ in 0..40 {
        let reply = server.call(&["SESSION.APPEND", "k", "MSG", "user", &most_of_a_mebibyte]);
        assert!(matches!(reply, redis::Value::Int(_)), "{reply:?}");
    }
    server.run("SESSION.CHECKPOINT CREATE k OUTCOME broke CLOSE");
    running.wait_for("written", 1);
    assert_eq!(rows(&postgres), 1);
    let sizes =
        postgres.sql("SELECT json_array_length(document->'messages'), length(document::text) FROM session_snapshots");
    let document = text(&server.run("SESSION.GET k"));
    assert_eq!(sizes, format!("40|{}", document.chars().count()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_breaks_the_connection_keeps_nobody_out() {
    let (server, postgres) = (Server::start(), Postgres::start());
    let running = Running::of(&server, &postgres);
    let _shown = shown_on_failure(&running);
    running.wait_for("connected", 1);
    postgres.sql(
        "CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
             IF NEW.session_key = 'poison' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER break BEFORE INSERT ON session_snapshots FOR EACH ROW EXECUTE FUNCTION break()",
    );
    end(&server, "poison", "broke");
    running.wait_for("interrupted", 1);
    for n in 0..10 {
        end(&server, &format!("k{n}"), "broke");
    }
    wait_for_rows(&postgres, 10);
    running.wait_for("interrupted", 2);
    assert!(running.said("interrupted")[0].contains("terminating connection"));
    postgres.sql("DROP TRIGGER break ON session_snapshots");
    wait_for_rows(&postgres, 11);
    running.stop().await;
}
