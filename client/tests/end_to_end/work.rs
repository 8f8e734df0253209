//! What goes on while something happens to the servers, and what must be true of it afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redis_session_client::{
    Connect, Create, Edit, EntryKind, Limit, MessageQuery, NewMessage, SessionError, SessionHandle,
    SessionResult as Result, SessionStore, StoredMessage, ToolCall, request,
};
use serde_json::json;

const WRITERS: usize = 4;
const COUNTERS: usize = 3;
const HOLDERS: usize = 3;

/// So many rounds at least, however short the event is.
const ROUNDS: u64 = 10;

/// Between two rounds: fast enough to be in the middle of everything, slow enough to check afterwards.
const PACE: Duration = Duration::from_millis(4);

/// How long a turn lasts that nobody ends, since its end was lost with a connection.
const TURN: Duration = Duration::from_secs(3);

/// What writers have done, for an event that wants to be in the middle of it.
#[derive(Default)]
pub struct Progress {
    appended: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    /// Waits until some more was appended.
    pub fn wait(&self) {
        let before = self.appended.load(Ordering::SeqCst);
        redis_session_tests::wait_until("more is appended", || {
            self.appended.load(Ordering::SeqCst) >= before + 20
        });
    }

    fn is_over(&self, rounds: u64) -> bool {
        rounds >= ROUNDS && self.is_over.load(Ordering::SeqCst)
    }
}

/// Several tasks append to a session, count in another and take turns in a third, and one follows the first, while `event` happens.
/// Afterwards every message is there once, in the order of each writer; the follower has seen just that; both counts are exact.
pub async fn goes_on_during<C: Connect>(store: SessionStore<C>, event: impl FnOnce(&SessionHandle<C>, &Progress)) {
    // One at a time, since in a cluster they are all in one slot. Appends that are sent again may come late.
    let create = || {
        Create::new()
            .limit(Limit::MaxLen, 0)
            .limit(Limit::DedupWindow, 1_000_000)
    };
    let talk = store.create(create()).await.expect("a session");
    let count = store.create(create()).await.expect("a session");
    let turns = store.create(create()).await.expect("a session");
    let progress = Arc::new(Progress::default());

    let follower = tokio::spawn(follow(talk.clone()));
    let spawn = |n: usize, work: fn(usize, SessionHandle<C>, Arc<Progress>) -> Work, session: &SessionHandle<C>| {
        tokio::spawn(work(n, session.clone(), Arc::clone(&progress)))
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| spawn(n, |n, s, p| Box::pin(write(n, s, p)), &talk))
        .collect();
    let counters: Vec<_> = (0..COUNTERS)
        .map(|n| spawn(n, |n, s, p| Box::pin(add(n, s, p)), &count))
        .collect();
    let holders: Vec<_> = (0..HOLDERS)
        .map(|n| spawn(n, |n, s, p| Box::pin(hold(n, s, p)), &turns))
        .collect();

    tokio::task::block_in_place(|| {
        progress.wait();
        event(&talk, &progress);
        progress.wait();
    });
    progress.is_over.store(true, Ordering::SeqCst);

    let rounds = total(writers).await;
    talk.append(NewMessage::user("end")).await.expect("an append");
    let messages = talk.messages(MessageQuery::all()).await.expect("the messages");
    each_once(&messages, &rounds);
    let followed = follower.await.expect("the follower");
    assert_eq!(followed, texts(&messages), "a follower sees everything once, in order");

    let counted: u64 = total(counters).await.iter().sum();
    assert_eq!(
        number(&count, "count").await,
        counted,
        "no edit is lost, none applied twice"
    );

    let held: u64 = total(holders).await.iter().sum();
    let turns = turns.document(Some(0)).await.expect("the session").meta;
    let turns: Vec<(u64, usize)> = serde_json::from_value(turns["turns"].clone()).expect("who had the turn");
    assert_eq!(turns.len() as u64, held, "one at a time has the turn");
    // Its holder keeps it where the end of a turn was lost on the way.
    let grows = |a: &(u64, usize), b: &(u64, usize)| a.0 < b.0 || a == b;
    assert!(turns.is_sorted_by(grows), "a fencing token only grows: {turns:?}");
}

type Work = std::pin::Pin<Box<dyn Future<Output = u64> + Send>>;

async fn total(tasks: Vec<tokio::task::JoinHandle<u64>>) -> Vec<u64> {
    let mut rounds = Vec::new();
    for task in tasks {
        rounds.push(task.await.expect("it goes on, whatever happens"));
    }
    rounds
}

async fn number<C: Connect>(session: &SessionHandle<C>, field: &str) -> u64 {
    let document = session.document(Some(0)).await.expect("the session");
    document
        .meta
        .get(field)
        .and_then(|value| value.as_u64())
        .expect("a number")
}

/// The messages of one round, in three appends.
fn contents(writer: usize, round: u64) -> [String; 4] {
    ["question", "call", "result", "answer"].map(|what| format!("{writer} {round} {what}"))
}

/// Exchanges of a user, an assistant and its tool. A handle's append needs no care: it is sent again until it is there, once.
async fn write<C: Connect>(writer: usize, session: SessionHandle<C>, progress: Arc<Progress>) -> u64 {
    let mut round = 0;
    while !progress.is_over(round) {
        let [question, call, result, answer] = contents(writer, round);
        let id = format!("{writer}-{round}");
        let tool = ToolCall::new(&id, "look_up", "{}");
        session.append(NewMessage::user(question)).await.expect("an append");
        let called = json!({"role": "assistant", "content": call, "tool_calls": [tool]});
        let answered = json!({"role": "tool", "content": result, "tool_call_id": id});
        session.append([&called, &answered]).await.expect("an append");
        session.append(NewMessage::assistant(answer)).await.expect("an append");
        progress.appended.fetch_add(3, Ordering::SeqCst);
        round += 1;
        tokio::time::sleep(PACE).await;
    }
    round
}

/// How far optimistic edits of `count` have come.
pub fn count_of(edit: &Edit<'_>) -> u64 {
    let count = edit.session.meta.get("count").and_then(|count| count.as_u64());
    count.unwrap_or(0)
}

/// Optimistic edits. Of one whose connection was lost nobody knows whether it was applied: it leaves a mark, by which the next attempt
/// sees it.
async fn add<C: Connect>(counter: usize, session: SessionHandle<C>, progress: Arc<Progress>) -> u64 {
    let mark = format!("counter {counter}");
    let mut round = 0;
    while !progress.is_over(round) {
        round += 1;
        until_known(|| {
            session.edit(Some(0), |edit| {
                let meta = &edit.session.meta;
                if meta.get(&mark).and_then(|done| done.as_u64()) == Some(round) {
                    return Ok(None);
                }
                let count = count_of(edit);
                let patch = json!({"count": count + 1, &mark: round});
                Ok(Some(edit.meta(&patch)))
            })
        })
        .await
        .expect("an edit");
        tokio::time::sleep(PACE).await;
    }
    round
}

/// Leased edits: within a turn nobody else writes, so what was read stays true, and writing it again changes nothing.
async fn hold<C: Connect>(holder: usize, session: SessionHandle<C>, progress: Arc<Progress>) -> u64 {
    let agent = format!("agent {holder}");
    let mut round = 0;
    while !progress.is_over(round) {
        round += 1;
        loop {
            let turn = until_known(|| session.lease(&agent, TURN)).await.expect("the turn");
            let meta = session.document(Some(0)).await.expect("the session").meta;
            if meta.get(&agent).and_then(|done| done.as_u64()) == Some(round) {
                let _ = turn.release().await;
                break;
            }
            let mut turns = meta.get("turns").cloned().unwrap_or_else(|| json!([]));
            turns
                .as_array_mut()
                .expect("a list")
                .push(json!([turn.token(), holder]));
            let patch = json!({"turns": turns, &agent: round});
            let edited = until_known(|| session.run(|key| request::meta(key, &patch, turn.write()))).await;
            match edited {
                Ok(_) => {
                    // Should the outcome be unknown: it ends with its time, or is renewed by its holder.
                    let _ = turn.release().await;
                    break;
                }
                Err(SessionError::LeaseLost(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        tokio::time::sleep(PACE).await;
    }
    round
}

/// Again and again while nobody knows what came of it.
async fn until_known<T, F: Future<Output = Result<T>>>(mut attempt: impl FnMut() -> F) -> Result<T> {
    loop {
        match attempt().await {
            Err(error) if error.is_outcome_unknown() || error.is_transient() => {}
            known => return known,
        }
    }
}

async fn follow<C: Connect>(session: SessionHandle<C>) -> Vec<(u64, String)> {
    let mut follow = session.follow(0);
    let mut seen = Vec::new();
    loop {
        let entry = follow.next().await.expect("it finds its way back");
        let EntryKind::Message(body) = entry.kind else {
            panic!("nothing was lost, so there is no {:?}", entry.kind)
        };
        let text = body.message().expect("a message").text().into_owned();
        let is_end = text == "end";
        seen.push((entry.seq, text));
        if is_end {
            return seen;
        }
    }
}

pub fn texts(messages: &[StoredMessage]) -> Vec<(u64, String)> {
    let text = |message: &StoredMessage| message.body.message().expect("a message").text().into_owned();
    messages.iter().map(|message| (message.seq, text(message))).collect()
}

/// Every message of every round of every writer is there once, and those of one writer in their order.
fn each_once(messages: &[StoredMessage], rounds: &[u64]) {
    let mut by_writer: HashMap<String, Vec<String>> = HashMap::new();
    for (_, text) in texts(messages) {
        let writer = text.split(' ').next().unwrap_or_default().to_owned();
        by_writer.entry(writer).or_default().push(text);
    }
    for (writer, &rounds) in rounds.iter().enumerate() {
        let written: Vec<String> = (0..rounds).flat_map(|round| contents(writer, round)).collect();
        let found = by_writer.remove(&writer.to_string()).unwrap_or_default();
        assert_eq!(found, written, "every message is there once, in its order");
    }
    assert_eq!(
        by_writer.into_keys().collect::<Vec<_>>(),
        ["end"],
        "nothing else is there"
    );
}
