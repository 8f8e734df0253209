//! A variant for each error word, from a real server, with its numbers and names; and servers that refuse.

use std::time::Duration;

use redis_session_client::{
    Create, Fork, IndexAdd, Limit, Migrate, NewCheckpoint, NewEvent, NewMessage, SessionCommands, SessionError,
    SessionStore, SessionWrite, WriteOptions,
};
use redis_session_tests::{Options, Server};

use crate::places::{client, store};

macro_rules! fails {
    ($call:expr, $variant:pat $(if $condition:expr)?) => {
        match $call {
            Err($variant) $(if $condition)? => {}
            other => panic!("{}: {other:?}", stringify!($call)),
        }
    };
}

fn connection(server: &Server) -> redis::Connection {
    client(server).get_connection().expect("a connection")
}

#[test]
fn each_error_word_is_a_variant() {
    let server = Server::with("session.max-message-bytes", 1024).start();
    let mut c = connection(&server);
    let hour = Duration::from_secs(3600);
    c.session_create("k", Create::new().index("sessions").alias("ada"))
        .expect("a session");
    let id = c
        .session_get("k", None)
        .expect("a reply")
        .expect("the session")
        .session_id;
    redis::cmd("SET").arg("text").arg("x").exec(&mut c).expect("a text");
    redis::cmd("HSET")
        .arg("hash")
        .arg("a")
        .arg("b")
        .exec(&mut c)
        .expect("a hash");

    fails!(c.session_append("k", ["not JSON"]), SessionError::BadMessage(text) if text.contains("message 1 of 1"));
    fails!(c.session_append("k", NewMessage::user("x".repeat(2000))), SessionError::TooLarge(text) if text.contains("max-message-bytes"));
    fails!(
        c.session_clear("k", WriteOptions::new().if_version(7)),
        SessionError::VersionConflict {
            version: 1,
            expected: 7,
            ..
        }
    );
    let append = |text: &str| NewMessage::user(text).append().dedup("t1");
    c.session_append("k", append("a")).expect("an append");
    fails!(c.session_append("k", append("b")), SessionError::DedupConflict(_));
    fails!(
        c.session_event_add("k", NewEvent::new("e").if_state("review 2")),
        SessionError::StateConflict { state, expected, .. } if (state.as_str(), expected.as_str()) == ("working", "review 2")
    );
    fails!(
        c.session_create("k2", Create::new().index("sessions").alias("ada")),
        SessionError::AliasInUse { alias, id: of, .. } if alias == "ada" && of == id.to_string()
    );
    fails!(
        c.session_index_add("sessions", "k", IndexAdd::new().alias("a/b")),
        SessionError::BadAlias(_)
    );
    fails!(c.session_create("k", Create::new()), SessionError::BusyKey(_));
    fails!(c.session_fork("k", "text", Fork::new()), SessionError::BusyKey(_));
    fails!(
        c.session_clear("nobody", WriteOptions::new()),
        SessionError::NoSession(_)
    );
    fails!(
        c.session_append("nobody", NewMessage::user("x").append().existing()),
        SessionError::NoSession(_)
    );
    fails!(
        c.session_checkpoint_restore("k", 999, WriteOptions::new()),
        SessionError::NoCheckpoint(_)
    );
    fails!(
        c.session_migrate("to", Migrate::new().sources(["hash"])),
        SessionError::BadLayout(_)
    );
    fails!(c.session_len("text"), SessionError::WrongType(_));

    let token = c.session_agent_lease("k", "bot 7", hour).expect("the turn");
    fails!(
        c.session_clear("k", WriteOptions::new()),
        SessionError::LeaseHeld { agent, remaining_ms, .. } if agent == "bot 7" && (1..=3_600_000).contains(&remaining_ms)
    );
    fails!(
        c.session_clear("k", WriteOptions::new().lease(token + 1)),
        SessionError::LeaseLost(_)
    );
    c.session_agent_release("k", token).expect("its end");
    c.session_checkpoint_create("k", NewCheckpoint::new().close())
        .expect("a checkpoint");
    fails!(c.session_append("k", NewMessage::user("late")), SessionError::Closed(_));

    // What is no word of the module's: the server's own.
    fails!(
        c.session_create("k3", Create::new().limit(Limit::Other("no such limit".into()), 1)),
        SessionError::Redis(error) if error.code() == Some("ERR")
    );
}

/// Names are fields as they were given, quotes, digits and letters of any script included.
#[test]
fn names_in_errors_are_what_they_were() {
    let server = Server::start();
    let mut c = connection(&server);
    for name in ["it's 99", "'", r"back\slash \x41", "Zoë 7", "'a' belongs to 'b'"] {
        let key = format!("k {name}");
        let create = |alias: &str| Create::new().index("sessions").alias(alias.replace(['\\', '/'], "-"));
        c.session_create(&key, create(name).state(name)).expect("a session");
        fails!(
            c.session_create("other", create(name)),
            SessionError::AliasInUse { alias, .. } if alias == name.replace(['\\', '/'], "-")
        );
        fails!(
            c.session_event_add(&key, NewEvent::new("e").if_state("it's not")),
            SessionError::StateConflict { state, expected, .. } if state == name && expected == "it's not"
        );
        c.session_agent_lease(&key, name, Duration::from_secs(600))
            .expect("the turn");
        fails!(
            c.session_agent_lease(&key, "another", Duration::from_secs(1)),
            SessionError::LeaseHeld { agent, remaining_ms, .. } if agent == name && remaining_ms > 99_000
        );
    }
}

#[test]
fn a_server_without_the_module_is_told_how_to_load_it() {
    let server = Options::default().without_module().start();
    let mut c = connection(&server);
    fails!(c.session_len("k"), SessionError::NoModule(_));
    let told = c.session_entity_get("k", "e").expect_err("no module").to_string();
    assert!(told.contains("--loadmodule") && told.contains("MODULE LOAD"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_missing_permission_are_not_tried_again() {
    let server = Server::start();
    server.run("ACL SETUSER reader on >secret ~session:* +session.get +session.len +@connection");
    let open = |user: &str| redis::Client::open(format!("{}?{user}", server.url())).expect("a URL");

    let refused = store(open("user=reader&pass=wrong"))
        .list(redis_session_client::IndexQuery::all())
        .await;
    let refused = refused.expect_err("a wrong password");
    assert!(!refused.is_transient() && !refused.is_outcome_unknown(), "{refused:?}");
    assert!(matches!(&refused, SessionError::Redis(error) if error.kind() == redis::ErrorKind::AuthenticationFailed));

    let mut c = open("user=reader&pass=secret").get_connection().expect("a connection");
    assert_eq!(c.session_len("session:1").expect("it may"), 0);
    fails!(c.session_len("other"), SessionError::Redis(error) if error.code() == Some("NOPERM"));
    fails!(c.session_clear("session:1", WriteOptions::new()), SessionError::Redis(error) if error.code() == Some("NOPERM"));
    let refused = store(open("user=reader&pass=secret"))
        .create(Create::new())
        .await
        .map(|_| ());
    fails!(refused, SessionError::Redis(error) if error.code() == Some("NOPERM"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_unknown_gone_or_closed() {
    let server = Server::start();
    let store: SessionStore<_> = store(client(&server));
    let session = store.create(Create::new().alias("ada")).await.expect("a session");
    let id = session.id();
    fails!(
        store.open(redis_session_client::SessionId::new()).await.map(|_| ()),
        SessionError::NoSession(_)
    );
    fails!(
        store
            .rename(
                redis_session_client::SessionId::new(),
                &"byron".parse().expect("an alias")
            )
            .await,
        SessionError::NoSession(_)
    );
    fails!(
        store.create(Create::new().alias("ada")).await.map(|_| ()),
        SessionError::AliasInUse { .. }
    );

    session
        .checkpoint(NewCheckpoint::new().close())
        .await
        .expect("a checkpoint");
    fails!(session.append(NewMessage::user("late")).await, SessionError::Closed(_));
    fails!(
        session.lease("planner", Duration::from_secs(1)).await.map(|_| ()),
        SessionError::Closed(_)
    );
    assert_eq!(session.len().await.expect("it can be read"), 0);

    assert!(store.delete(id).await.expect("deleted"));
    assert!(!store.delete(id).await.expect("it is gone"));
    fails!(
        session.append(NewMessage::user("late")).await,
        SessionError::NoSession(_)
    );
    fails!(session.document(None).await, SessionError::NoSession(_));
    fails!(
        session.context(redis_session_client::ContextOptions::new()).await,
        SessionError::NoSession(_)
    );
    fails!(
        session.edit::<u64>(None, |_| Ok(None)).await,
        SessionError::NoSession(_)
    );
    assert_eq!(session.len().await.expect("nothing"), 0);
}
