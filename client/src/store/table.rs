//! The commands on one session, as two tables: those that read and those that write. Each row is a method of [`SessionHandle`]
//! (asynchronous and blocking); a row that writes is one of [`Turn`] and of [`Edit`], too, with the guard that belongs to them.
//!
//! A row has the method's documentation, what it takes and replies, the request that it sends, and an example on the sample session
//! (`redis_session_tests::Server::with_sample`), from which the examples of all of these methods are made.
//!
//! [`SessionHandle`]: super::SessionHandle
//! [`Turn`]: super::Turn
//! [`Edit`]: super::Edit

use crate::request::{Append, SessionWrite, WriteOptions};

/// Commands that only read.
macro_rules! session_reads {
    ($make:ident) => {
        $make! {
            /// How many messages it has. O(1).
            len() -> u64 = |key| request::len(key);
            "len()" => "assert_eq!(reply, 2);";

            /// The scalars of the session, without content; `None` if it is gone. O(1).
            info() -> Option<SessionInfo> = |key| request::info(key);
            "info()" => "assert_eq!(reply.expect(\"it is there\").text(\"state\"), Some(\"pass\"));";

            /// Messages, with seq, time, role and tokens.
            messages(query: MessageQuery) -> Vec<StoredMessage> = |key| request::range_with_meta(key, query);
            "messages(MessageQuery::newest(1))" => "assert_eq!(reply[0].body.message()?.text(), \"On its way.\");";

            /// The bodies of messages, byte for byte.
            bodies(query: MessageQuery) -> Vec<Body> = |key| request::range(key, query);
            "bodies(MessageQuery::all().role(MessageRole::User))" => "assert_eq!(reply[0].message()?.entity_refs, [\"order:7\"]);";

            /// One entity.
            entity(id: impl AsRef<str>) -> Option<Entity> = |key| request::entity_get(key, id);
            "entity(\"u7\")" => "assert_eq!(reply.expect(\"Ada\").entity_name, \"Ada\");";

            /// Entities, the most recently mentioned first.
            entities(query: EntityQuery) -> Vec<Entity> = |key| request::entity_list(key, query);
            "entities(EntityQuery::all().entity_type(\"person\"))" => "assert_eq!(reply[0].entity_id, \"u7\");";

            /// The entity that a word means: a pronoun, a name, the beginning of one.
            resolve(word: &str) -> Option<Entity> = |key| request::entity_resolve(key, word);
            "resolve(\"she\")" => "assert_eq!(reply.expect(\"Ada\").entity_id, \"u7\");";

            /// Every entity that a word may mean, the most recently mentioned first; `or_any`: all entities where a word names none.
            candidates(word: &str, or_any: bool) -> Vec<Entity> = |key| request::entity_candidates(key, word, or_any);
            "candidates(\"they\", false)" => "assert_eq!(reply.len(), 2);";

            /// Events by their seqs, filtered.
            events(query: EventQuery) -> Vec<Event> = |key| request::event_range(key, query);
            "events(EventQuery::all().to(\"pass\"))" => "assert_eq!(reply[0].event_type, \"shipped\");";

            /// How many events it has. O(1).
            event_count() -> u64 = |key| request::event_len(key);
            "event_count()" => "assert_eq!(reply, 1);";

            /// The agents that joined.
            agents() -> Vec<Agent> = |key| request::agent_list(key);
            "agents()" => "assert_eq!(reply[0].agent_id, \"clerk\");";

            /// One checkpoint.
            find_checkpoint(id: u64) -> Option<Checkpoint> = |key| request::checkpoint_get(key, id);
            "find_checkpoint(4)" => "assert_eq!(reply.expect(\"it is there\").label.as_deref(), Some(\"greeted\"));";

            /// The checkpoints, oldest first.
            checkpoints() -> Vec<Checkpoint> = |key| request::checkpoint_list(key);
            "checkpoints()" => "assert_eq!(reply[0].checkpoint_id, 4);";
        }
    };
}
pub(super) use session_reads;

/// Commands that write, and so take guards: `IFVERSION` and `LEASE`.
macro_rules! session_writes {
    ($make:ident) => {
        $make! {
            /// Appends messages, once: without a `dedup` token of its own each append gets one, so that it is sent again when a connection
            /// is lost, and still is appended once, unless more other appends came in between than the session remembers tokens of
            /// ([`SessionStore::create`](crate::SessionStore::create)). A session that ended meanwhile is not begun again:
            /// [`NoSession`](SessionError::NoSession).
            append(append: impl Into<Append>) -> Appended = |key, write| request::append(key, once(append.into(), write));
            "append(NewMessage::user(\"Thanks!\"))" => "assert_eq!(reply.seq, 5);";

            /// Merges a JSON object (RFC 7396) into the session's meta; the merged meta.
            meta(patch: &Json) -> Json = |key, write| request::meta(key, patch, write);
            "meta(&serde_json::json!({\"model\": \"small\"}))" => "assert_eq!(reply[\"model\"], \"small\");";

            /// Sets the bounds and pinned roles of the window and applies them; how many messages fell out.
            window(window: Window) -> u64 = |key, write| request::window(key, guarded(window, write));
            "window(Window::new().max_len(1))" => "assert_eq!(reply, 1);";

            /// Removes the newest messages, calls with their answers; their bodies, newest first.
            pop(count: u32) -> Vec<Body> = |key, write| request::pop(key, count, write);
            "pop(1)" => "assert_eq!(reply[0].message()?.text(), \"On its way.\");";

            /// Removes messages by their seqs, calls with their answers; how many.
            remove(seqs: &[u64]) -> u64 = |key, write| request::remove(key, seqs, write);
            "remove(&[1, 99])" => "assert_eq!(reply, 1);";

            /// Takes the content out of messages, from memory and from checkpoints; how many.
            redact(seqs: &[u64], reason: Option<&str>) -> u64 = |key, write| request::redact(key, seqs, reason, write);
            "redact(&[1], Some(\"privacy\"))" => "assert_eq!(reply, 1);";

            /// Replaces everything up to a seq by this one message; how many were replaced.
            compact(upto_seq: u64, summary: impl Into<Content>) -> u64 =
                |key, write| request::compact(key, upto_seq, summary, write);
            "compact(2, NewMessage::system(\"Order 7 is on its way.\"))" => "assert_eq!(reply, 2);";

            /// Removes all messages; how many. Identity, entities and events stay.
            clear() -> u64 = |key, write| request::clear(key, write);
            "clear()" => "assert_eq!(reply, 2);";

            /// Counts a mention of entities, creating them if needed; how many are new.
            mention(mention: Mention) -> u64 = |key, write| request::entity_mention(key, guarded(mention, write));
            "mention(Mention::new(\"acme\").entity_type(\"organization\"))" => "assert_eq!(reply, 1);";

            /// Removes entities; how many.
            forget(ids: &[impl AsRef<str>]) -> u64 = |key, write| request::entity_forget(key, ids, write);
            "forget(&[\"u7\"])" => "assert_eq!(reply, 1);";

            /// Records an event, and moves the state if one is given; returns its seq. [`StateConflict`](SessionError::StateConflict) if its
            /// `if_state` is not the session's.
            record(event: NewEvent) -> u64 = |key, write| request::event_add(key, guarded(event, write));
            "record(NewEvent::new(\"lost\").agent(\"clerk\").state(\"broke\"))" => "assert_eq!(reply, 5);";

            /// Adds an agent; whether it is new.
            join(join: Join) -> bool = |key, write| request::agent_join(key, guarded(join, write));
            "join(Join::new(\"planner\"))" => "assert!(reply);";

            /// Removes an agent, and ends its lease; whether it was there.
            leave(agent: impl AsRef<str>) -> bool = |key, write| request::agent_leave(key, agent, write);
            "leave(\"clerk\")" => "assert!(reply);";

            /// Records that an agent hands over to another, with its lease if it holds one.
            hand_off(handoff: Handoff) -> HandedOff = |key, write| request::agent_handoff(key, guarded(handoff, write));
            "hand_off(Handoff::new(\"clerk\", \"planner\"))" => "assert_eq!(reply.seq, 5);";

            /// Makes a checkpoint, and closes the session if asked to; returns its id.
            checkpoint(checkpoint: NewCheckpoint) -> u64 =
                |key, write| request::checkpoint_create(key, guarded(checkpoint, write));
            "checkpoint(NewCheckpoint::new().label(\"done\").close())" => "assert_eq!(reply, 5);";

            /// Deletes checkpoints; how many.
            delete_checkpoints(ids: &[u64]) -> u64 = |key, write| request::checkpoint_del(key, ids, write);
            "delete_checkpoints(&[4, 99])" => "assert_eq!(reply, 1);";

            /// Makes messages, entities, agents and state what they were at a checkpoint; the new version.
            restore(checkpoint: u64) -> u64 = |key, write| request::checkpoint_restore(key, checkpoint, write);
            "restore(4)" => "assert!(reply > 1);";
        }
    };
}
pub(super) use session_writes;

/// The hidden lines before an example: a handle on the sample session.
macro_rules! sample_session {
    (async) => {
        "# #[tokio::main(flavor = \"current_thread\")]\n\
         # async fn main() -> Result<(), redis_session_client::SessionError> {\n\
         # let server = redis_session_tests::Server::with_sample();\n\
         # server.run(\"SESSION.INDEX ADD sessions:{acme} session:1\");\n\
         # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, \"acme\");\n\
         # let id = store.list(redis_session_client::IndexQuery::all()).await?[0].id;\n\
         # let session = store.open(id).await?;\n\
         use redis_session_client::*;\n\n"
    };
    (blocking) => {
        "# let server = redis_session_tests::Server::with_sample();\n\
         # server.run(\"SESSION.INDEX ADD sessions:{acme} session:1\");\n\
         # let store = redis_session_client::blocking::SessionStore::new(redis::Client::open(server.url())?, \"acme\")?;\n\
         # let session = store.open(store.list(redis_session_client::IndexQuery::all())?[0].id)?;\n\
         use redis_session_client::*;\n\n"
    };
}
pub(super) use sample_session;

/// A builder with these guards, which count more than its own.
pub(super) fn guarded<B: SessionWrite>(mut builder: B, guards: WriteOptions) -> B {
    builder.write_options().merge(guards);
    builder
}

/// An append to a session that exists, with a token by which it is known when it is sent again.
pub(super) fn once(append: Append, guards: WriteOptions) -> Append {
    let append = guarded(append.existing(), guards);
    match append.has_dedup() {
        true => append,
        false => append.dedup(uuid::Uuid::now_v7().to_string()),
    }
}
