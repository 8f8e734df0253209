//! A handle has every command that makes sense on one session, and turns and edits every one that takes their guard. Which commands there
//! are, and what they take, the running module is asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use redis_session_client::request::Command;
use redis_session_client::*;
use redis_session_tests::{Server, entry, items, text};
use serde_json::json;

/// Commands that are no method of a handle, and why.
const NOT_ON_A_HANDLE: &[(&str, &str)] = &[
    ("SESSION.CREATE", "a store creates; there is no handle before"),
    ("SESSION.AGENT LEASE", "`SessionHandle::lease`, which is a `Turn`"),
    ("SESSION.AGENT RELEASE", "`Turn::release`"),
    (
        "SESSION.READ",
        "`SessionHandle::follow`, with a connection of its own: a read that waits would keep others waiting",
    ),
    ("SESSION.ANCHOR ADD", "of an entity, not of a session"),
    ("SESSION.ANCHOR GET", "of an entity, not of a session"),
    (
        "SESSION.INDEX RESOLVE",
        "of a directory: `SessionStore::open`, `resolve_alias`",
    ),
    ("SESSION.INDEX LIST", "of a directory: `SessionStore::list`"),
    ("SESSION.INDEX LEN", "of a directory"),
    ("SESSION.MIGRATE", "what is at the key is a session already"),
    ("SESSION.LOAD", "from a primary or an append-only file only"),
];

/// Commands that take guards and are no method of a turn or an edit, and why.
const NOT_GUARDED: &[(&str, &str)] = &[
    ("SESSION.CREATE", "there is nothing to guard before"),
    ("SESSION.FORK", "changes another session than this"),
    ("SESSION.MIGRATE", "what is at the key is a session already"),
];

#[test]
fn every_limit_of_the_module_has_a_name_of_its_own() {
    let server = Server::start();
    server.run("SESSION.CREATE k");
    let limits = server.document("k")["limits"].clone();
    let names: BTreeSet<&str> = limits.as_object().expect("limits").keys().map(String::as_str).collect();
    let known: BTreeSet<String> = Limit::KNOWN.iter().map(ToString::to_string).collect();
    assert_eq!(known.iter().map(String::as_str).collect::<BTreeSet<_>>(), names);
}

/// Notes the commands that are sent.
struct Noting {
    client: redis::Client,
    sent: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Clone)]
struct NotingConnection {
    connection: MultiplexedConnection,
    sent: Arc<Mutex<BTreeSet<String>>>,
}

impl Connect for Noting {
    type Connection = NotingConnection;

    async fn connect(&self, response_timeout: Duration) -> SessionResult<NotingConnection> {
        let connection = self.client.connect(response_timeout).await?;
        let sent = Arc::clone(&self.sent);
        Ok(NotingConnection { connection, sent })
    }
}

impl AsyncSessionConnection for NotingConnection {
    async fn session_request(&mut self, command: &Command) -> SessionResult<Value> {
        let words = command.cmd().args_iter().map(|arg| match arg {
            redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        });
        let words: Vec<String> = words.collect();
        let guard = ["IFVERSION", "LEASE"]
            .iter()
            .find(|guard| words.iter().any(|word| word == *guard));
        let guard = guard.map_or_else(String::new, |guard| format!(" {guard}"));
        self.sent.lock().expect("nobody panics").insert(command.name() + &guard);
        self.connection.session_request(command).await
    }

    async fn session_requests(&mut self, commands: &[&Command], atomic: bool) -> SessionResult<Vec<Value>> {
        self.connection.session_requests(commands, atomic).await
    }
}

/// The module's commands, and of each whether it takes this option.
fn commands_of_the_module(server: &Server, option: &str) -> Vec<(String, bool)> {
    let listed = items(&server.run("COMMAND LIST FILTERBY MODULE session"));
    let names: BTreeSet<String> = listed
        .iter()
        .map(|name| text(name).to_uppercase().replace('|', " "))
        .collect();
    let is_group = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name} ")));
    let commands = names.iter().filter(|name| !is_group(name) && !name.ends_with(" HELP"));
    let takes = |name: &str| {
        let docs = items(&server.run(&format!("COMMAND DOCS {}", name.replace(' ', "|"))))[1].clone();
        let arguments = items(&entry(&docs, "arguments"));
        arguments
            .iter()
            .any(|argument| format!("{argument:?}").contains(option))
    };
    commands.map(|name| (name.clone(), takes(name))).collect()
}

fn store(server: &Server) -> (SessionStore<Noting>, Arc<Mutex<BTreeSet<String>>>) {
    let sent = Arc::new(Mutex::new(BTreeSet::new()));
    let noting = Noting {
        client: crate::places::client(server),
        sent: Arc::clone(&sent),
    };
    (SessionStore::with_retry(noting, "acme", crate::places::patient()), sent)
}

/// What was sent must be what there is but for the exceptions, and no exception may be one any more.
fn compare(sent: &BTreeSet<String>, there_are: BTreeSet<String>, exceptions: &[(&str, &str)]) {
    let exceptions: BTreeSet<String> = exceptions.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<&String> = there_are
        .iter()
        .filter(|name| !sent.contains(*name) && !exceptions.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no method sends {missing:?}");
    let stale: Vec<&String> = exceptions
        .iter()
        .filter(|name| sent.contains(*name) || !there_are.contains(*name))
        .collect();
    assert!(stale.is_empty(), "no exceptions: {stale:?}");
}

/// Every row that writes, on a handle or a turn, whose methods are called alike.
macro_rules! every_write {
    ($on:ident) => {
        $on.append(["{}", "{}"]).await.expect("append");
        $on.append(NewMessage::user("hello")).await.expect("append");
        $on.meta(&json!({"a": 1})).await.expect("meta");
        $on.window(Window::new().max_len(50)).await.expect("window");
        $on.pop(1).await.expect("pop");
        $on.redact(&[1], None).await.expect("redact");
        $on.compact(1, NewMessage::system("before")).await.expect("compact");
        $on.remove(&[1]).await.expect("remove");
        $on.mention(Mention::new("e")).await.expect("mention");
        $on.forget(&["e"]).await.expect("forget");
        $on.record(NewEvent::new("e")).await.expect("record");
        $on.join(Join::new("other")).await.expect("join");
        $on.leave("other").await.expect("leave");
        let checkpoint = $on.checkpoint(NewCheckpoint::new()).await.expect("checkpoint");
        $on.restore(checkpoint).await.expect("restore");
        $on.delete_checkpoints(&[checkpoint]).await.expect("delete_checkpoints");
        $on.clear().await.expect("clear");
        // Last, since it gives a turn away.
        $on.hand_off(Handoff::new("agent", "next")).await.expect("hand_off");
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_has_every_command_of_a_session() {
    let server = Server::start();
    let (store, sent) = store(&server);
    let session = store.create(Create::new()).await.expect("a session");
    sent.lock().expect("nobody panics").clear();
    every_write!(session);
    session.len().await.expect("len");
    session.info().await.expect("info");
    session.document(None).await.expect("document");
    session.extend(GetEx::new()).await.expect("extend");
    session.messages(MessageQuery::all()).await.expect("messages");
    session.bodies(MessageQuery::all()).await.expect("bodies");
    session.context(ContextOptions::new()).await.expect("context");
    session.entity("e").await.expect("entity");
    session.entities(EntityQuery::all()).await.expect("entities");
    session.resolve("it").await.expect("resolve");
    session.candidates("it", true).await.expect("candidates");
    session.events(EventQuery::all()).await.expect("events");
    session.event_count().await.expect("event_count");
    session.agents().await.expect("agents");
    session.find_checkpoint(1).await.expect("find_checkpoint");
    session.checkpoints().await.expect("checkpoints");
    let fork = session.fork(Fork::new()).await.expect("fork");
    let sent = sent.lock().expect("nobody panics").clone();
    assert_eq!(store.open(fork.id()).await.expect("it is registered").key(), fork.key());

    let there_are = commands_of_the_module(&server, "IFVERSION");
    assert!(there_are.len() > 40, "{there_are:?}");
    compare(
        &sent,
        there_are.into_iter().map(|(name, _)| name).collect(),
        NOT_ON_A_HANDLE,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_has_every_command_that_takes_a_fencing_token() {
    let server = Server::start();
    let (store, sent) = store(&server);
    let session = store.create(Create::new()).await.expect("a session");
    let turn = session
        .lease("agent", Duration::from_secs(600))
        .await
        .expect("the turn");
    sent.lock().expect("nobody panics").clear();
    every_write!(turn);
    let guarded = sent.lock().expect("nobody panics").clone();
    assert!(guarded.iter().all(|name| name.ends_with(" LEASE")), "{guarded:?}");
    let guarded = guarded
        .iter()
        .map(|name| name.trim_end_matches(" LEASE").to_owned())
        .collect();
    let there_are = commands_of_the_module(&server, "LEASE").into_iter();
    let there_are = there_are.filter(|(name, takes)| *takes && name != "SESSION.AGENT LEASE");
    compare(&guarded, there_are.map(|(name, _)| name).collect(), NOT_GUARDED);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_has_every_command_that_takes_a_version() {
    let server = Server::start();
    let (store, sent) = store(&server);
    let session = store.create(Create::new()).await.expect("a session");
    session.append(["{}", "{}"]).await.expect("append");
    session.mention(Mention::new("e")).await.expect("mention");
    session.checkpoint(NewCheckpoint::new()).await.expect("checkpoint");
    sent.lock().expect("nobody panics").clear();
    // Guards of a builder's own do not count.
    let stale = || NewMessage::user("x").append().if_version(999);
    session
        .edit(None, |edit| Ok(Some(edit.append(stale()))))
        .await
        .expect("append");
    session
        .edit(None, |edit| Ok(Some(edit.meta(&json!({"a": 1})))))
        .await
        .expect("meta");
    session
        .edit(None, |edit| Ok(Some(edit.window(Window::new().max_len(50)))))
        .await
        .expect("window");
    session.edit(None, |edit| Ok(Some(edit.pop(1)))).await.expect("pop");
    session
        .edit(None, |edit| Ok(Some(edit.redact(&[1], None))))
        .await
        .expect("redact");
    session
        .edit(None, |edit| Ok(Some(edit.compact(1, NewMessage::system("x")))))
        .await
        .expect("compact");
    session
        .edit(None, |edit| Ok(Some(edit.remove(&[1]))))
        .await
        .expect("remove");
    session
        .edit(None, |edit| Ok(Some(edit.mention(Mention::new("e")))))
        .await
        .expect("mention");
    session
        .edit(None, |edit| Ok(Some(edit.forget(&["e"]))))
        .await
        .expect("forget");
    session
        .edit(None, |edit| Ok(Some(edit.record(NewEvent::new("e")))))
        .await
        .expect("record");
    session
        .edit(None, |edit| Ok(Some(edit.join(Join::new("a")))))
        .await
        .expect("join");
    session
        .edit(None, |edit| Ok(Some(edit.leave("a"))))
        .await
        .expect("leave");
    session
        .edit(None, |edit| Ok(Some(edit.hand_off(Handoff::new("a", "b")))))
        .await
        .expect("hand_off");
    session
        .edit(None, |edit| Ok(Some(edit.checkpoint(NewCheckpoint::new()))))
        .await
        .expect("checkpoint");
    let of = |edit: &Edit<'_>| edit.session.checkpoints[0].checkpoint_id;
    session
        .edit(None, |edit| Ok(Some(edit.restore(of(edit)))))
        .await
        .expect("restore");
    session
        .edit(None, |edit| Ok(Some(edit.delete_checkpoints(&[of(edit)]))))
        .await
        .expect("delete_checkpoints");
    session.edit(None, |edit| Ok(Some(edit.clear()))).await.expect("clear");

    let sent = sent.lock().expect("nobody panics").clone();
    let (guarded, others): (BTreeSet<_>, BTreeSet<_>) = sent.into_iter().partition(|name| name.ends_with(" IFVERSION"));
    assert_eq!(
        others,
        BTreeSet::from(["SESSION.GET".to_owned()]),
        "what is read before"
    );
    let guarded = guarded
        .iter()
        .map(|name| name.trim_end_matches(" IFVERSION").to_owned())
        .collect();
    let there_are = commands_of_the_module(&server, "IFVERSION")
        .into_iter()
        .filter(|(_, takes)| *takes);
    compare(&guarded, there_are.map(|(name, _)| name).collect(), NOT_GUARDED);
}
