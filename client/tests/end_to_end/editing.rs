//! Optimistic edits, turns and followers, on a server to which nothing happens.

use std::time::Duration;

use futures_util::FutureExt;
use redis_session_client::{
    Create, EntryKind, Limit, MessageQuery, NewEvent, NewMessage, Retry, SessionError, SessionHandle, SessionStore,
    SessionWrite, WriteOptions, request,
};
use redis_session_tests::Server;
use serde_json::json;

use crate::places::{client, store};

async fn session(server: &Server) -> SessionHandle<redis::Client> {
    store(client(server)).create(Create::new()).await.expect("a session")
}

fn giving_up_after(server: &Server, give_up_after: Duration) -> SessionStore<redis::Client> {
    let retry = Retry {
        give_up_after,
        ..Retry::default()
    };
    SessionStore::with_retry(client(server), "acme", retry)
}

/// An edit between whose reading and writing somebody else writes, so many times.
async fn disturbed(session: &SessionHandle<redis::Client>, server: &Server, times: u32) -> Result<u32, SessionError> {
    let mut attempts = 0;
    let edited = session.edit(Some(0), |edit| {
        attempts += 1;
        if attempts <= times {
            // What changes nothing is no new version.
            let patch = json!({"by": "another", "times": attempts}).to_string();
            server.call(&[b"SESSION.META".as_slice(), edit.key, patch.as_bytes()]);
        }
        Ok(Some(edit.meta(&json!({"by": "us"}))))
    });
    edited.await.map(|_| attempts)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_begins_again_when_somebody_else_wrote() {
    let server = Server::start();
    let session = session(&server).await;
    assert_eq!(disturbed(&session, &server, 5).await.expect("in the end"), 6);
    assert_eq!(session.document(None).await.expect("it is there").meta["by"], "us");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_gives_up_after_its_time() {
    let server = Server::start();
    let id = session(&server).await.id();
    let session = giving_up_after(&server, Duration::ZERO)
        .open(id)
        .await
        .expect("the session");
    let error = disturbed(&session, &server, 1).await.expect_err("no second attempt");
    let SessionError::Concurrent { attempts: 1, last } = error else {
        panic!("{error:?}")
    };
    assert!(matches!(*last, SessionError::VersionConflict { .. }));
    assert_eq!(session.document(None).await.expect("it is there").meta["by"], "another");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_may_decide_to_do_nothing() {
    let server = Server::start();
    let session = session(&server).await;
    let edited: Option<u64> = session.edit(None, |_| Ok(None)).await.expect("nothing to do");
    assert_eq!(edited, None);
    assert_eq!(session.document(None).await.expect("it is there").version, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_agent_has_the_turn() {
    let server = Server::start();
    let planner = session(&server).await;
    let turn = planner
        .lease("planner", Duration::from_secs(600))
        .await
        .expect("the turn");
    turn.append(NewMessage::assistant("Let me see."))
        .await
        .expect("its turn");
    turn.record(NewEvent::new("planned")).await.expect("its turn");

    let refused = planner
        .append(NewMessage::user("And me?"))
        .await
        .expect_err("not its turn");
    let SessionError::LeaseHeld {
        agent, remaining_ms, ..
    } = refused
    else {
        panic!("{refused:?}")
    };
    assert!(agent == "planner" && remaining_ms > 0);
    let without_retries = giving_up_after(&server, Duration::ZERO)
        .open(planner.id())
        .await
        .expect("the session");
    let refused = without_retries
        .lease("clerk", Duration::from_secs(1))
        .await
        .map(|_| ())
        .expect_err("not its turn");
    let SessionError::Concurrent { last, .. } = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(*last, SessionError::LeaseHeld { .. }));

    let (first, waiting) = (turn.token(), planner.clone());
    let clerk = tokio::spawn(async move {
        waiting
            .lease("clerk", Duration::from_secs(600))
            .await
            .map(|turn| turn.token())
    });
    turn.renew().await.expect("its turn");
    turn.release().await.expect("its turn");
    assert!(
        clerk.await.expect("it goes on").expect("its turn now") > first,
        "a token only grows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_the_turn_writes_nothing_any_more() {
    let server = Server::start();
    let session = session(&server).await;
    let old = session
        .lease("planner", Duration::from_millis(1))
        .await
        .expect("the turn");
    let new = session
        .lease("clerk", Duration::from_secs(600))
        .await
        .expect("once the other is over");
    let lost = [
        old.append(NewMessage::assistant("late")).await.map(|_| ()),
        old.record(NewEvent::new("late")).await.map(|_| ()),
        old.renew().await,
        session.run(|key| request::clear(key, old.write())).await.map(|_| ()),
        old.release().await,
    ];
    for lost in lost {
        assert!(matches!(lost, Err(SessionError::LeaseLost(_))), "{lost:?}");
    }
    new.append(NewMessage::assistant("in time")).await.expect("its turn");
    assert_eq!(session.len().await.expect("a number"), 1);
}

/// What was decided in a turn that is over no longer holds, also if nobody else had the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_over_is_not_renewed_but_lost() {
    let server = Server::start();
    let session = session(&server).await;
    let turn = session
        .lease("planner", Duration::from_millis(1))
        .await
        .expect("the turn");
    redis_session_tests::wait_until("the turn is over", || {
        let write = [
            "SESSION.META",
            std::str::from_utf8(session.key()).expect("a name"),
            "{}",
        ];
        matches!(server.call(&write), redis::Value::BulkString(_))
    });
    assert!(matches!(turn.renew().await, Err(SessionError::LeaseLost(_))));
    session
        .append(NewMessage::user("hello"))
        .await
        .expect("nobody has the turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_not_waited_for_misses_nothing() {
    let server = Server::start();
    let session = session(&server).await;
    let mut follow = session.follow(0);
    let mut seen = Vec::new();
    for round in 1..=50 {
        // It has not begun to read, or got an answer that nobody took, or all of it.
        let at_once = follow.next().now_or_never();
        let soon = tokio::time::timeout(Duration::from_micros(round * 20), follow.next()).await;
        let entries = at_once.into_iter().chain(soon);
        seen.extend(entries.map(|entry| entry.expect("an entry").seq));
        session
            .append(NewMessage::user(round.to_string()))
            .await
            .expect("an append");
    }
    while seen.last() != Some(&50) {
        seen.push(follow.next().await.expect("an entry").seq);
    }
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert_eq!(follow.position(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_told_what_it_missed() {
    let server = Server::start();
    let session = session(&server).await;
    session
        .run(|key| request::window(key, redis_session_client::Window::new().max_len(2)))
        .await
        .expect("a window");
    for n in 1..=5 {
        session
            .append(NewMessage::user(n.to_string()))
            .await
            .expect("an append");
    }
    let mut follow = session.follow(1);
    let gap = follow.next().await.expect("an entry");
    assert_eq!((gap.seq, &gap.kind), (3, &EntryKind::Gap { from: 2, to: 3 }));
    assert_eq!(follow.position(), 1, "until what follows is handed out, too");
    assert_eq!(
        [follow.next().await.expect("4").seq, follow.next().await.expect("5").seq],
        [4, 5]
    );

    // Another session at its key: it is told, and reads that from the beginning.
    let key = String::from_utf8_lossy(session.key()).into_owned();
    server.call(&["DEL", &key]);
    server.run(&format!("SESSION.APPEND {key} MSG user anew"));
    let reset = follow.next().await.expect("an entry");
    assert!(
        matches!(reset.kind, EntryKind::Reset { session_id } if session_id != session.id()),
        "{reset:?}"
    );
    assert_eq!(follow.next().await.expect("an entry").seq, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_keeps_to_the_kinds_it_was_asked_for() {
    let server = Server::start();
    let session = session(&server).await;
    let (mut messages, mut events) = (session.follow(0).messages(), session.follow(0).events());
    session.append(NewMessage::user("hello")).await.expect("an append");
    session.record(NewEvent::new("greeted")).await.expect("an event");
    session.append(NewMessage::user("bye")).await.expect("an append");
    assert_eq!(
        [
            messages.next().await.expect("1").seq,
            messages.next().await.expect("3").seq
        ],
        [1, 3]
    );
    assert_eq!(events.next().await.expect("2").seq, 2);
}

/// A store on a connection that others use, too: its followers do not keep them waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_on_a_shared_connection_leaves_room_for_others() {
    let server = Server::start();
    let shared = client(&server)
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let session = store(shared).create(Create::new()).await.expect("a session");
    let mut follow = session.follow(0);
    let entry = tokio::spawn(async move { follow.next().await.expect("an entry").seq });
    redis_session_tests::wait_until("the follower has read", || {
        redis_session_tests::text(&server.run("INFO commandstats"))
            .to_lowercase()
            .contains("cmdstat_session.read")
    });
    assert!(redis_session_tests::text(&server.run("INFO clients")).contains("blocked_clients:0"));
    session.append(NewMessage::user("hello")).await.expect("an append");
    assert_eq!(entry.await.expect("the follower"), 1);
}

/// So many appends may come between the first and the second time that one is sent: a handle's session remembers more than the server does
/// by default.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_known_again_after_many_others() {
    let server = Server::start();
    let session = session(&server).await;
    let append = || NewMessage::user("first").append().dedup("first");
    let seq = session.append(append()).await.expect("an append").seq;
    for n in 0..255 {
        session
            .append(NewMessage::user(n.to_string()))
            .await
            .expect("an append");
    }
    assert_eq!(session.append(append()).await.expect("the same").seq, seq);
    assert_eq!(
        session
            .messages(MessageQuery::seqs(257, 300))
            .await
            .expect("messages")
            .len(),
        0
    );

    let chosen = store(client(&server))
        .create(Create::new().limit(Limit::DedupWindow, 7))
        .await
        .expect("a session");
    assert_eq!(
        chosen
            .document(None)
            .await
            .expect("it is there")
            .limits
            .get(&Limit::DedupWindow),
        Some(7)
    );
    let write = WriteOptions::new().if_version(1);
    assert!(matches!(chosen.run(|key| request::clear(key, write)).await, Ok(0)));
}
