//! What is sent again after the loss of a connection, and what is not: asked of a server that hangs up, or falls silent, after each
//! command.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis_session_client::{
    AsyncSessionCommands, Connect, Create, MessageQuery, NewEvent, NewMessage, Retry, SessionError, SessionStore,
    WriteOptions, request,
};

use redis_session_tests::{Server, wait_until};

use crate::fake::{Answer, Fake};
use crate::places::{client, patient};

/// Over once it was asked so often.
struct Countdown(AtomicUsize);

impl Countdown {
    fn from(times: usize) -> Countdown {
        Countdown(AtomicUsize::new(times))
    }

    fn is_over(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err()
    }
}

/// Hangs up at the first so many commands, and then answers.
fn that_hangs_up(times: usize) -> Fake {
    let left = Countdown::from(times);
    Fake::start(move |_| match left.is_over() {
        false => Answer::HangUp,
        true => Answer::say(":1\r\n"),
    })
}

fn store<C: Connect>(connect: C) -> SessionStore<C> {
    let retry = Retry {
        // However slow the machine is.
        probe_after_idle: Duration::MAX,
        ..patient()
    };
    SessionStore::with_retry(connect, "acme", retry)
}

async fn what_may_be_repeated_is<C: Connect>(connect: impl Fn(&Fake) -> C) {
    let fake = that_hangs_up(3);
    let append = NewMessage::user("hello").append().dedup("t1");
    assert_eq!(
        store(connect(&fake))
            .run(&request::append("k", append))
            .await
            .expect("appended")
            .seq,
        1
    );
    assert_eq!(fake.heard("SESSION.APPEND"), 4);
    let fake = that_hangs_up(3);
    assert_eq!(
        store(connect(&fake)).run(&request::len("k")).await.expect("a number"),
        1
    );
    assert_eq!(fake.heard("SESSION.LEN"), 4);
}

async fn what_may_not_is_not<C: Connect>(connect: impl Fn(&Fake) -> C) {
    let fake = that_hangs_up(3);
    let store = store(connect(&fake));
    let refused = [
        store.run(&request::pop("k", 1, WriteOptions::new())).await.map(|_| ()),
        store
            .run(&request::event_add("k", NewEvent::new("e")))
            .await
            .map(|_| ()),
        store
            .run(&request::append("k", NewMessage::user("without a token")))
            .await
            .map(|_| ()),
    ];
    for refused in refused {
        let error = refused.expect_err("nobody knows");
        assert!(error.is_outcome_unknown(), "{error:?}");
    }
    for name in ["SESSION.POP", "SESSION.EVENT", "SESSION.APPEND"] {
        assert_eq!(fake.heard(name), 1, "{name}");
    }
}

fn one_server(fake: &Fake) -> redis::Client {
    redis::Client::open(fake.url()).expect("a URL")
}

fn cluster(fake: &Fake) -> ClusterClient {
    ClusterClient::builder([fake.url()]).retries(0).build().expect("a URL")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_and_an_append_with_a_token_are_sent_again() {
    what_may_be_repeated_is(one_server).await;
    what_may_be_repeated_is(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_is() {
    what_may_not_is_not(one_server).await;
    what_may_not_is_not(cluster).await;
}

/// Why `Connect for ClusterClient` recommends `retries(0)`. Should this ever fail, that advice is no longer needed.
#[tokio::test(flavor = "multi_thread")]
async fn redis_rs_itself_sends_again_what_may_have_been_executed() {
    let fake = that_hangs_up(3);
    let client = ClusterClient::builder([fake.url()]).build().expect("a URL");
    store(client)
        .run(&request::event_add("k", NewEvent::new("e")))
        .await
        .expect("recorded");
    assert_eq!(fake.heard("SESSION.EVENT"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_does_not_come_leaves_the_outcome_unknown() {
    let left = Countdown::from(4);
    let fake = Fake::start(move |_| match left.is_over() {
        false => Answer::Silence,
        true => Answer::say(":1\r\n"),
    });
    let retry = Retry {
        response_timeout: Duration::from_millis(50),
        probe_after_idle: Duration::MAX,
        ..patient()
    };
    let store = SessionStore::with_retry(one_server(&fake), "acme", retry);
    let error = store.run(&request::pop("k", 1, WriteOptions::new())).await;
    assert!(error.as_ref().is_err_and(SessionError::is_outcome_unknown), "{error:?}");
    wait_until("it was heard", || fake.heard("SESSION.POP") == 1);
    assert_eq!(store.run(&request::len("k")).await.expect("a reply in the end"), 1);
    assert!(fake.heard("SESSION.LEN") > 3);
    assert_eq!(fake.heard("SESSION.POP"), 1);
}

/// A new connection for each attempt, in the end to a server that answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_or_loads_is_waited_for() {
    for refusal in [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
    ] {
        let left = Countdown::from(3);
        let fake = Fake::start(move |_| match left.is_over() {
            false => Answer::Say(format!("-{refusal}\r\n").into_bytes()),
            true => Answer::say("*0\r\n"),
        });
        let popped = store(one_server(&fake))
            .run(&request::pop("k", 1, WriteOptions::new()))
            .await;
        assert!(popped.expect("it comes back").is_empty(), "{refusal}");
        assert_eq!(
            fake.heard("SESSION.POP"),
            4,
            "nothing was executed, so it is sent again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_any_more_is_tried_until_its_retries_are_over() {
    let server = Server::start();
    let retry = Retry {
        give_up_after: Duration::from_millis(50),
        probe_after_idle: Duration::ZERO,
        ..Retry::default()
    };
    let client = redis::Client::open(server.url()).expect("a URL");
    let store = SessionStore::with_retry(client.clone(), "acme", retry);
    assert_eq!(store.run(&request::len("k")).await.expect("it is there"), 0);
    server.kill();
    let pop = request::pop("k", 1, WriteOptions::new());
    let error = store.run(&pop).await.expect_err("nobody is there");
    let SessionError::Redis(refused) = &error else {
        panic!("{error:?}")
    };
    assert!(refused.is_connection_refusal() && error.is_transient() && !error.is_outcome_unknown());
    assert!(client.get_connection().is_err());
}

/// What was lost while nobody used it costs no write.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_nobody_used_for_long_is_tried_with_a_read() {
    let server = Server::append_only().start();
    let retry = Retry {
        probe_after_idle: Duration::ZERO,
        ..patient()
    };
    let store = SessionStore::with_retry(client(&server), "acme", retry);
    let session = store.create(Create::new()).await.expect("a session");
    for seq in 1..=3 {
        server.restart();
        assert_eq!(session.record(NewEvent::new("woken")).await.expect("recorded"), seq);
    }
}

/// A connection of redis-rs by itself sends nothing again.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_says_so() {
    let fake = that_hangs_up(1);
    let mut connection = one_server(&fake)
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let error = connection
        .session_range("k", MessageQuery::all())
        .await
        .expect_err("it hung up");
    assert!(error.is_transient() && error.is_outcome_unknown(), "{error:?}");
    assert_eq!(fake.heard("SESSION.RANGE"), 1);
}
