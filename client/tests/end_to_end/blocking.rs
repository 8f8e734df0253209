//! The store that waits: the same promises to threads.

use std::collections::BTreeSet;

use redis_session_client::blocking::SessionStore;
use redis_session_client::{Create, Limit, MessageQuery, NewMessage};
use redis_session_tests::Server;
use serde_json::json;

use crate::lossy::Lossy;
use crate::places::{client, patient};

const THREADS: u64 = 8;
const ROUNDS: u64 = 20;

/// Threads share a handle; each waits only for its own replies, a third of which is lost.
#[test]
fn threads_append_once_and_a_follower_sees_everything_once() {
    let server = Server::start();
    let store = SessionStore::with_retry(Lossy::new(client(&server)), "acme", patient()).expect("a store");
    let session = store.create(Create::new().limit(Limit::MaxLen, 0)).expect("a session");
    let followed = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut follow = session.follow(0);
            (0..THREADS * ROUNDS)
                .map(|_| follow.next().expect("it never ends").expect("an entry").seq)
                .collect::<Vec<_>>()
        });
        for thread in 0..THREADS {
            let session = &session;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    session
                        .append(NewMessage::user(format!("{thread} {round}")))
                        .expect("an append");
                }
            });
        }
        follower.join().expect("the follower")
    });
    assert_eq!(followed, (1..=THREADS * ROUNDS).collect::<Vec<_>>());
    let messages = session.messages(MessageQuery::all()).expect("the messages");
    let texts: BTreeSet<String> = messages
        .iter()
        .map(|message| message.body.as_str().into_owned())
        .collect();
    assert_eq!(
        (messages.len() as u64, texts.len() as u64),
        (THREADS * ROUNDS, THREADS * ROUNDS)
    );
}

#[test]
fn edits_of_threads_are_each_applied_once() {
    let server = Server::start();
    let store = SessionStore::with_retry(client(&server), "acme", patient()).expect("a store");
    let session = store.create(Create::new()).expect("a session");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let edited = session.edit(Some(0), |edit| {
                        let count = crate::work::count_of(edit);
                        Ok(Some(edit.meta(&json!({"count": count + 1}))))
                    });
                    edited.expect("an edit");
                }
            });
        }
    });
    assert_eq!(
        session.document(Some(0)).expect("the session").meta["count"],
        THREADS * ROUNDS
    );
}
