//! A hundred writers in five processes work on one session: every message is there once, and every count exact, every time.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use redis_session_client::{Create, Limit, MessageQuery, NewMessage, SessionHandle, SessionResult as Result};
use redis_session_tests::Server;
use serde_json::json;

use crate::places::{client, store};
use crate::work::texts;

const PROCESSES: usize = 5;
const TASKS: usize = 20;

/// The test's own program is the worker when this says where to, on which session, and what to do.
const WORK: &str = "SESSION_TESTS_WORK";

fn run(server: &Server, session: &SessionHandle<redis::Client>, work: &str) {
    let program = std::env::current_exe().expect("a program");
    let workers = (0..PROCESSES).map(|process| {
        let work = [&server.url(), &session.id().to_string(), work, &process.to_string()].join(" ");
        let mut worker = Command::new(&program);
        worker
            .args(["--exact", "processes::a_worker", "--nocapture"])
            .env(WORK, work);
        worker.stdout(Stdio::null()).spawn().expect("a process")
    });
    for mut worker in workers.collect::<Vec<_>>() {
        assert!(
            worker.wait().expect("its end").success(),
            "a worker failed: what it said is above"
        );
    }
}

/// Nothing to test by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker() {
    let Ok(work) = std::env::var(WORK) else { return };
    let [url, id, what, process] = work.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{work}")
    };
    let client = redis::Client::open(url).expect("a URL");
    let session = store(client)
        .open(id.parse().expect("an id"))
        .await
        .expect("the session");
    let tasks = (0..TASKS).map(|task| {
        let (session, name) = (session.clone(), format!("{process}/{task}"));
        let is_talk = what == "talk";
        tokio::spawn(async move {
            match is_talk {
                true => talk(&session, &name).await,
                false => count(&session, &name).await,
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic").expect("every write succeeds");
    }
}

async fn talk(session: &SessionHandle<redis::Client>, name: &str) -> Result<()> {
    session.append(NewMessage::user(format!("{name} asks"))).await?;
    session
        .append(NewMessage::assistant(format!("{name} is answered")))
        .await?;
    Ok(())
}

async fn count(session: &SessionHandle<redis::Client>, name: &str) -> Result<()> {
    let edit = session.edit(Some(0), |edit| {
        let count = crate::work::count_of(edit);
        let patch = json!({"count": count + 1, "names": {name: count}});
        Ok(Some(edit.meta(&patch)))
    });
    edit.await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_messages_of_a_hundred_tasks() {
    let server = Server::start();
    let session = store(client(&server))
        .create(Create::new().limit(Limit::MaxLen, 0))
        .await
        .expect("a session");
    tokio::task::block_in_place(|| run(&server, &session, "talk"));
    let texts = texts(&session.messages(MessageQuery::all()).await.expect("the messages"));
    let seqs: Vec<u64> = texts.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
    let places: BTreeMap<&str, usize> = texts
        .iter()
        .enumerate()
        .map(|(at, (_, text))| (text.as_str(), at))
        .collect();
    assert_eq!(places.len(), 200, "none is there twice");
    for (process, task) in (0..PROCESSES).flat_map(|process| (0..TASKS).map(move |task| (process, task))) {
        let name = format!("{process}/{task}");
        assert!(places[format!("{name} asks").as_str()] < places[format!("{name} is answered").as_str()]);
    }
}

/// Each has to begin again whenever another was faster; in the end each was applied, to what the one before it left.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_optimistic_edits_of_one_number() {
    let server = Server::start();
    let session = store(client(&server)).create(Create::new()).await.expect("a session");
    tokio::task::block_in_place(|| run(&server, &session, "count"));
    let meta = session.document(Some(0)).await.expect("the session").meta;
    assert_eq!(meta["count"], PROCESSES * TASKS);
    let names: BTreeMap<String, u64> = serde_json::from_value(meta["names"].clone()).expect("who counted what");
    let mut counted: Vec<u64> = names.into_values().collect();
    counted.sort_unstable();
    assert_eq!(
        counted,
        (0..100).collect::<Vec<_>>(),
        "each number was read by one edit that succeeded"
    );
}
