//! Followers: everything once, whatever is missing in between.

use redis_session_client::{Create, EntryKind, Limit, NewEvent, NewMessage, SessionWrite, WriteOptions, request};
use redis_session_client::{EventQuery, Join, SessionCommands, SessionExpiry, SessionStore, blocking};
use redis_session_tests::Server;

/// A gap spans the first to the last missing seq. More may stand inside it than one reply of `SESSION.READ` holds.
#[tokio::test]
async fn what_stands_inside_a_gap_is_followed_however_much_it_is() {
    const MESSAGES: u64 = 2500;
    let server = Server::start();
    let store = SessionStore::new(redis::Client::open(server.url()).expect("a URL"), "acme");
    let session = store
        .create(Create::new().limit(Limit::MaxLen, 0))
        .await
        .expect("a session");
    for batch in 0..MESSAGES / 500 {
        let bodies: Vec<String> = (0..500).map(|at| format!(r#"{{"content":"{batch} {at}"}}"#)).collect();
        session.append(bodies).await.expect("an append");
    }
    let missing = [2, MESSAGES - 1];
    let remove = session.run(|key| request::remove(key, &missing, WriteOptions::new()));
    assert_eq!(remove.await.expect("it is removed"), 2);

    let mut follow = session.follow(0);
    let first = follow.next().await.expect("a gap");
    assert_eq!(
        first.kind,
        EntryKind::Gap {
            from: 1,
            to: MESSAGES - 1
        }
    );
    for seq in (1..=MESSAGES).filter(|seq| !missing.contains(seq)) {
        let entry = follow.next().await.expect("an entry");
        assert!(matches!(entry.kind, EntryKind::Message(_)), "{entry:?}");
        assert_eq!(entry.seq, seq);
        assert!(follow.position() >= seq);
    }
    assert_eq!(follow.position(), MESSAGES);

    session.append(NewMessage::user("and on")).await.expect("an append");
    assert_eq!(follow.next().await.expect("an entry").seq, MESSAGES + 1);
}

/// JSON has half surrogate pairs and the module keeps them; they must not keep a follower, or an edit, from going on.
#[tokio::test]
async fn half_a_surrogate_pair_stops_neither_followers_nor_edits() {
    let server = Server::start();
    let store = SessionStore::new(redis::Client::open(server.url()).expect("a URL"), "acme");
    let session = store.create(Create::new()).await.expect("a session");
    let mut redis = redis::Client::open(server.url())
        .expect("a URL")
        .get_connection()
        .expect("a connection");
    let half = r#"{"said":"\ud83d"}"#;
    let event = ["ADD", &store.key_of(session.id()), "said", "IMPACT", half].map(str::to_owned);
    redis::cmd("SESSION.EVENT")
        .arg(&event)
        .exec(&mut redis)
        .expect("an event");
    redis::cmd("SESSION.META")
        .arg(session.key())
        .arg(half)
        .exec(&mut redis)
        .expect("a meta");
    session.append([half]).await.expect("an append");

    let mut follow = session.follow(0);
    let EntryKind::Event(event) = follow.next().await.expect("an entry").kind else {
        panic!("no event")
    };
    assert_eq!(event.impact.expect("an impact")["said"], "\u{fffd}");
    let EntryKind::Message(body) = follow.next().await.expect("an entry").kind else {
        panic!("no message")
    };
    assert_eq!(body.as_bytes(), half.as_bytes());
    assert_eq!(session.events(EventQuery::all()).await.expect("events").len(), 1);

    let edited = session.edit(None, |edit| {
        assert_eq!(edit.session.meta["said"], "\u{fffd}");
        assert_eq!(edit.session.messages[0].as_bytes(), half.as_bytes());
        Ok(Some(edit.record(NewEvent::new("seen"))))
    });
    assert_eq!(edited.await.expect("an edit"), Some(3));
}

#[test]
fn threads_follow_only_what_they_ask_for_and_know_where_they_are() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("a URL");
    let store = blocking::SessionStore::new(client, "acme").expect("a store");
    let session = store.create(Create::new()).expect("a session");
    session.append(NewMessage::user("hello")).expect("an append");
    session.record(NewEvent::new("pass")).expect("an event");
    session.append(NewMessage::user("hello?")).expect("an append");
    let mut events = session.follow(0).events();
    assert_eq!(events.next().expect("it never ends").expect("an event").seq, 2);
    assert_eq!(events.position(), 2);
    let messages: Vec<u64> = session
        .follow(0)
        .messages()
        .take(2)
        .map(|entry| entry.expect("a message").seq)
        .collect();
    assert_eq!(messages, [1, 3]);
    assert_eq!(
        store.run(&request::len(store.key_of(session.id()))).expect("a length"),
        2
    );
    // Results of these can be unwrapped either way, so they show what they are.
    let shown = format!(
        "{store:?} {session:?} {events:?} {:?}",
        session.lease("a", std::time::Duration::MAX)
    );
    assert!(
        shown.contains("sessions:{acme}") && shown.contains("agent: \"a\""),
        "{shown}"
    );
}

/// What a builder is told twice it says once, and no span becomes what the server refuses.
#[test]
fn builders_say_what_the_server_takes() {
    let server = Server::start();
    let mut redis = redis::Client::open(server.url())
        .expect("a URL")
        .get_connection()
        .expect("a connection");
    let create = Create::new()
        .limit(Limit::MaxLen, 1)
        .limit(Limit::Other("MAXLEN".into()), 2)
        .expiry(SessionExpiry::After(std::time::Duration::MAX));
    redis.session_create("k", create).expect("a session");
    let session = redis.session_get("k", None).expect("a reply").expect("a session");
    assert_eq!(session.limits.get(&Limit::MaxLen), Some(2));
    assert_eq!(
        session.expires_at.map(|time| time.to_string()).as_deref(),
        Some("9999-12-31T23:59:59.999Z")
    );
    let join = Join::new("a").expiry(SessionExpiry::After(std::time::Duration::from_nanos(1)));
    assert!(redis.session_agent_join("k", join).expect("a reply"));
}
