//! A wrong address is said at once; a server that was there before is waited for.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use redis_session_client::{Connect, Create, NewMessage, Retry, SessionError, SessionStore};
use redis_session_tests::Server;

use crate::fake::{Answer, Fake};
use crate::places::client;

/// So long that a test which waits for its end fails otherwise.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

fn patient<C: Connect>(connect: C) -> SessionStore<C> {
    let retry = Retry {
        give_up_after: GIVE_UP_AFTER,
        response_timeout: Duration::from_secs(2),
        ..Retry::default()
    };
    SessionStore::with_retry(connect, "acme", retry)
}

fn at(port: u16) -> redis::Client {
    redis::Client::open(format!("redis://:secret@127.0.0.1:{port}/")).expect("a URL")
}

async fn is_unreachable<C: Connect>(connect: C, address: &str) {
    let store = patient(connect);
    let began = Instant::now();
    let refused = store.create(Create::new()).await.expect_err("nobody is there");
    let text = refused.to_string();
    assert!(matches!(refused, SessionError::Unreachable { .. }), "{refused:?}");
    assert!(text.contains(address) && !text.contains("secret"), "{text}");
    assert!(began.elapsed() < GIVE_UP_AFTER / 10, "it was tried again");

    let session = store
        .open("0190c5a4-7b1e-7ccc-8000-0123456789ab".parse().expect("an id"))
        .await;
    assert!(matches!(session, Err(SessionError::Unreachable { .. })), "still");
}

fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_at_which_nobody_listens_is_an_error_with_its_address() {
    let port = closed_port();
    is_unreachable(at(port), &format!("127.0.0.1:{port}")).await;
    let cluster = redis::cluster::ClusterClient::builder([format!("redis://127.0.0.1:{port}")]);
    is_unreachable(cluster.retries(0).build().expect("a URL"), &format!("127.0.0.1:{port}")).await;
    let kind = redis::sentinel::SentinelServerType::Master;
    let sentinel = vec![format!("redis://127.0.0.1:{port}")];
    let sentinel = redis::sentinel::SentinelClient::build(sentinel, "main", None, kind);
    let sentinel = tokio::sync::Mutex::new(sentinel.expect("a URL"));
    is_unreachable(sentinel, "the sentinels").await;
}

/// It takes connections, as a port does that is forwarded to nowhere, and never says a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_never_answers_is_an_error_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    is_unreachable(at(port), &format!("127.0.0.1:{port}")).await;
    drop(listener);
}

/// Who was there once is waited for: the first answer is lost, and the second connection is refused for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_there_before_is_waited_for() {
    let server = Server::start();
    let store = patient(client(&server));
    let session = store.create(Create::new()).await.expect("a session");
    session.append(NewMessage::user("one")).await.expect("an append");
    let mut follow = session.follow(1);
    server.run("SAVE");
    server.kill();
    let appending = tokio::spawn(async move { session.append(NewMessage::user("two")).await });
    let following = tokio::spawn(async move { follow.next().await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!appending.is_finished() && !following.is_finished(), "they wait");
    server.restart();
    assert_eq!(appending.await.expect("it goes on").expect("an append").seq, 2);
    assert_eq!(following.await.expect("it goes on").expect("an entry").seq, 2);
}

/// A server that says why it does not let anybody in is no wrong address.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_still_loading_is_waited_for() {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let fake = Fake::start(move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0..3 => Answer::say("-LOADING Redis is loading the dataset in memory\r\n"),
        _ => Answer::say(":0\r\n"),
    });
    let client = redis::Client::open(fake.url()).expect("a URL");
    let len = patient(client).run(&redis_session_client::request::len("k")).await;
    assert_eq!(len.expect("in the end"), 0);
    assert_eq!(fake.heard("SESSION.LEN"), 4);
}
