//! One method a command, for both kinds of connections: [`SessionCommands`] and [`AsyncSessionCommands`].

use std::time::Duration;

use serde_json::Value as Json;

#[cfg(feature = "aio")]
use crate::AsyncSessionConnection;
use crate::request::{
    self, Append, Content, ContextOptions, Create, EntityQuery, EventQuery, Fork, GetEx, Handoff, IndexAdd, IndexQuery,
    Join, Mention, MessageQuery, Migrate, NewAnchor, NewCheckpoint, NewEvent, ReadOptions, Window, WriteOptions,
};
use crate::{
    Agent, Anchor, Appended, Body, Checkpoint, Created, DirectoryEntry, Entity, Event, HandedOff, Migrated, Resolved,
    Result, SessionConnection, SessionContext, SessionDocument, SessionEntry, SessionId, SessionInfo, StoredMessage,
};

/// The table of methods: what each takes, what it replies, the request that it sends, and an example on the sample session, from which
/// both traits' examples are made.
///
/// The key goes first. All errors are [`SessionError`](crate::SessionError)s.
macro_rules! commands {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($first:ident: $first_type:ty $(, $arg:ident: $type:ty)*) -> $reply:ty = $request:expr;
        $call:literal => $check:literal
    )+) => {
        /// The `SESSION.*` commands as methods of a connection.
        ///
        /// ```
        /// # let server = redis_session_tests::Server::start();
        /// use redis_session_client::{NewMessage, MessageQuery, SessionCommands};
        ///
        /// # let url = server.url();
        /// let mut connection = redis::Client::open(url)?.get_connection()?;
        /// connection.session_append("session:1", NewMessage::user("hello"))?;
        /// assert_eq!(connection.session_range("session:1", MessageQuery::all())?.len(), 1);
        /// # Ok::<(), redis_session_client::SessionError>(())
        /// ```
        pub trait SessionCommands: SessionConnection {$(
            $(#[doc = $doc])+
            ///
            #[doc = concat!(
                "```\n",
                "# let server = redis_session_tests::Server::with_sample();\n",
                "# let mut connection = redis::Client::open(server.url())?.get_connection()?;\n",
                "use redis_session_client::*;\n\n",
                "let reply = connection.", $call, "?;\n",
                $check, "\n",
                "# Ok::<(), SessionError>(())\n",
                "```"
            )]
            fn $name(&mut self, $first: $first_type $(, $arg: $type)*) -> Result<$reply> {
                $request.query(self)
            }
        )+}

        impl<C: SessionConnection + ?Sized> SessionCommands for C {}

        /// The `SESSION.*` commands as methods of an asynchronous connection.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redis_session_client::SessionError> {
        /// # let server = redis_session_tests::Server::start();
        /// use redis_session_client::{AsyncSessionCommands, NewMessage, MessageQuery};
        ///
        /// # let url = server.url();
        /// let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        /// connection.session_append("session:1", NewMessage::user("hello")).await?;
        /// assert_eq!(connection.session_range("session:1", MessageQuery::all()).await?.len(), 1);
        /// # Ok(())
        /// # }
        /// ```
        #[cfg(feature = "aio")]
        pub trait AsyncSessionCommands: AsyncSessionConnection {$(
            $(#[doc = $doc])+
            ///
            #[doc = concat!(
                "```\n",
                "# #[tokio::main(flavor = \"current_thread\")]\n",
                "# async fn main() -> Result<(), redis_session_client::SessionError> {\n",
                "# let server = redis_session_tests::Server::with_sample();\n",
                "# let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;\n",
                "use redis_session_client::*;\n\n",
                "let reply = connection.", $call, ".await?;\n",
                $check, "\n",
                "# Ok(())\n",
                "# }\n",
                "```"
            )]
            fn $name(&mut self, $first: $first_type $(, $arg: $type)*) -> impl Future<Output = Result<$reply>> + Send {
                let request = $request;
                async move { request.query_async(self).await }
            }
        )+}

        #[cfg(feature = "aio")]
        impl<C: AsyncSessionConnection + ?Sized> AsyncSessionCommands for C {}
    };
}

commands! {
    /// `SESSION.CREATE`: creates a session. An existing one is [`BusyKey`](crate::SessionError::BusyKey), or opened. O(1).
    session_create(key: impl AsRef<[u8]>, create: Create) -> Created = request::create(key, create);
    "session_create(\"session:3\", Create::new().state(\"planning\"))" => "assert!(reply.created);"

    /// `SESSION.APPEND`: appends messages, creating the session if needed, and applies its window. O(N) in the messages given, and in
    /// those that fall out.
    session_append(key: impl AsRef<[u8]>, append: impl Into<Append>) -> Appended = request::append(key, append);
    "session_append(\"session:1\", NewMessage::user(\"Thanks!\"))" => "assert_eq!(reply.seq, 5);"

    /// `SESSION.RANGE`: bodies, byte for byte. O(N) in the messages replied, plus O(log M) to find the first.
    session_range(key: impl AsRef<[u8]>, range: MessageQuery) -> Vec<Body> = request::range(key, range);
    "session_range(\"session:1\", MessageQuery::newest(1))" => "assert_eq!(reply[0].message()?.text(), \"On its way.\");"

    /// `SESSION.RANGE … WITHMETA`: the same with seq, time, role and tokens.
    session_range_with_meta(key: impl AsRef<[u8]>, range: MessageQuery) -> Vec<StoredMessage> =
        request::range_with_meta(key, range);
    "session_range_with_meta(\"session:1\", MessageQuery::after_seq(1))" => "assert_eq!(reply[0].seq, 2);"

    /// `SESSION.CONTEXT`: the newest whole exchanges that fit a budget, with what is pinned. O(N) in the messages looked at.
    session_context(key: impl AsRef<[u8]>, options: ContextOptions) -> Option<SessionContext> = request::context(key, options);
    "session_context(\"session:1\", ContextOptions::new().max_len(1))" =>
        "assert_eq!(reply.map(|context| context.omitted), Some(1));"

    /// `SESSION.GET`: the whole session, with all its messages or the newest only. O(N) in the messages replied.
    session_get(key: impl AsRef<[u8]>, newest_messages: Option<u32>) -> Option<SessionDocument> =
        request::get(key, newest_messages);
    "session_get(\"session:1\", Some(20))" => "assert_eq!(reply.map(|session| session.message_count), Some(2));"

    /// `SESSION.GETEX`: the whole session; slides or sets its expiry. O(N) in the messages replied.
    session_getex(key: impl AsRef<[u8]>, getex: GetEx) -> Option<SessionDocument> = request::getex(key, getex);
    "session_getex(\"session:1\", GetEx::new())" => "assert_eq!(reply.map(|session| session.ttl_extended_count), Some(1));"

    /// `SESSION.INFO`: the scalars of a session, without content. O(1).
    session_info(key: impl AsRef<[u8]>) -> Option<SessionInfo> = request::info(key);
    "session_info(\"session:1\")" => "assert_eq!(reply.expect(\"it is there\").number(\"message_count\"), Some(2));"

    /// `SESSION.LEN`: how many messages. O(1).
    session_len(key: impl AsRef<[u8]>) -> u64 = request::len(key);
    "session_len(\"session:1\")" => "assert_eq!(reply, 2);"

    /// `SESSION.META`: merges a JSON object (RFC 7396) into the meta, creating the session if needed; the merged meta.
    session_meta(key: impl AsRef<[u8]>, patch: &Json, write: WriteOptions) -> Json = request::meta(key, patch, write);
    "session_meta(\"session:1\", &serde_json::json!({\"model\": \"small\"}), WriteOptions::new())" =>
        "assert_eq!(reply[\"model\"], \"small\");"

    /// `SESSION.WINDOW`: sets the bounds and pinned roles of the window and applies them; how many messages fell out.
    session_window(key: impl AsRef<[u8]>, window: Window) -> u64 = request::window(key, window);
    "session_window(\"session:1\", Window::new().max_len(1))" => "assert_eq!(reply, 1);"

    /// `SESSION.POP`: removes the newest messages, calls with their answers; their bodies, newest first.
    session_pop(key: impl AsRef<[u8]>, count: u32, write: WriteOptions) -> Vec<Body> = request::pop(key, count, write);
    "session_pop(\"session:1\", 1, WriteOptions::new())" => "assert_eq!(reply[0].message()?.text(), \"On its way.\");"

    /// `SESSION.REMOVE`: removes messages by their seqs, calls with their answers; how many.
    session_remove(key: impl AsRef<[u8]>, seqs: &[u64], write: WriteOptions) -> u64 = request::remove(key, seqs, write);
    "session_remove(\"session:1\", &[1, 99], WriteOptions::new())" => "assert_eq!(reply, 1);"

    /// `SESSION.REDACT`: removes the content of messages, also in checkpoints; returns how many.
    session_redact(key: impl AsRef<[u8]>, seqs: &[u64], reason: Option<&str>, write: WriteOptions) -> u64 =
        request::redact(key, seqs, reason, write);
    "session_redact(\"session:1\", &[1], Some(\"privacy\"), WriteOptions::new())" => "assert_eq!(reply, 1);"

    /// `SESSION.COMPACT`: everything up to a seq becomes this one message; how many were replaced.
    session_compact(key: impl AsRef<[u8]>, upto_seq: u64, summary: impl Into<Content>, write: WriteOptions) -> u64 =
        request::compact(key, upto_seq, summary, write);
    "session_compact(\"session:1\", 2, NewMessage::system(\"Order 7 is on its way.\"), WriteOptions::new())" => "assert_eq!(reply, 2);"

    /// `SESSION.CLEAR`: removes all messages; how many. Identity, entities and events stay.
    session_clear(key: impl AsRef<[u8]>, write: WriteOptions) -> u64 = request::clear(key, write);
    "session_clear(\"session:1\", WriteOptions::new())" => "assert_eq!(reply, 2);"

    /// `SESSION.ENTITY MENTION`: counts a mention of entities, creating them, and the session, if needed; how many are new.
    session_entity_mention(key: impl AsRef<[u8]>, mention: Mention) -> u64 = request::entity_mention(key, mention);
    "session_entity_mention(\"session:1\", Mention::new(\"acme\").entity_type(\"organization\"))" => "assert_eq!(reply, 1);"

    /// `SESSION.ENTITY GET`: one entity. O(1).
    session_entity_get(key: impl AsRef<[u8]>, id: impl AsRef<str>) -> Option<Entity> = request::entity_get(key, id);
    "session_entity_get(\"session:1\", \"u7\")" => "assert_eq!(reply.expect(\"Ada\").entity_name, \"Ada\");"

    /// `SESSION.ENTITY LIST`: entities, the most recently mentioned first. O(N).
    session_entity_list(key: impl AsRef<[u8]>, query: EntityQuery) -> Vec<Entity> = request::entity_list(key, query);
    "session_entity_list(\"session:1\", EntityQuery::all())" => "assert_eq!(reply.len(), 2);"

    /// `SESSION.ENTITY FORGET`: removes entities; how many.
    session_entity_forget(key: impl AsRef<[u8]>, ids: &[impl AsRef<str>], write: WriteOptions) -> u64 =
        request::entity_forget(key, ids, write);
    "session_entity_forget(\"session:1\", &[\"u7\"], WriteOptions::new())" => "assert_eq!(reply, 1);"

    /// `SESSION.ENTITY RESOLVE`: the entity that a word means: a pronoun, a name, the beginning of one.
    session_entity_resolve(key: impl AsRef<[u8]>, word: impl AsRef<str>) -> Option<Entity> =
        request::entity_resolve(key, word);
    "session_entity_resolve(\"session:1\", \"she\")" => "assert_eq!(reply.expect(\"Ada\").entity_id, \"u7\");"

    /// `SESSION.ENTITY RESOLVE … ALL`: every candidate, the most recently mentioned first; `or_any`: all entities where a word names
    /// none.
    session_entity_candidates(key: impl AsRef<[u8]>, word: impl AsRef<str>, or_any: bool) -> Vec<Entity> =
        request::entity_candidates(key, word, or_any);
    "session_entity_candidates(\"session:1\", \"they\", false)" => "assert_eq!(reply.len(), 2);"

    /// `SESSION.EVENT ADD`: records an event, creating the session if needed, and moves the state if one is given; returns the event's seq.
    session_event_add(key: impl AsRef<[u8]>, event: NewEvent) -> u64 = request::event_add(key, event);
    "session_event_add(\"session:1\", NewEvent::new(\"lost\").agent(\"clerk\").state(\"broke\"))" => "assert_eq!(reply, 5);"

    /// `SESSION.EVENT RANGE`: events by their seqs, filtered. O(N) in the events looked at.
    session_event_range(key: impl AsRef<[u8]>, query: EventQuery) -> Vec<Event> = request::event_range(key, query);
    "session_event_range(\"session:1\", EventQuery::all().to(\"pass\"))" => "assert_eq!(reply[0].event_type, \"shipped\");"

    /// `SESSION.EVENT LEN`: how many events. O(1).
    session_event_len(key: impl AsRef<[u8]>) -> u64 = request::event_len(key);
    "session_event_len(\"session:1\")" => "assert_eq!(reply, 1);"

    /// `SESSION.AGENT JOIN`: adds an agent, creating the session if needed; whether it is new.
    session_agent_join(key: impl AsRef<[u8]>, join: Join) -> bool = request::agent_join(key, join);
    "session_agent_join(\"session:1\", Join::new(\"planner\"))" => "assert!(reply);"

    /// `SESSION.AGENT LEAVE`: removes an agent, and ends its lease; whether it was there.
    session_agent_leave(key: impl AsRef<[u8]>, agent: impl AsRef<str>, write: WriteOptions) -> bool =
        request::agent_leave(key, agent, write);
    "session_agent_leave(\"session:1\", \"clerk\", WriteOptions::new())" => "assert!(reply);"

    /// `SESSION.AGENT LIST`: the agents. O(N).
    session_agent_list(key: impl AsRef<[u8]>) -> Vec<Agent> = request::agent_list(key);
    "session_agent_list(\"session:1\")" => "assert_eq!(reply[0].agent_id, \"clerk\");"

    /// `SESSION.AGENT HANDOFF`: records that an agent hands over to another, with its lease if it holds one.
    session_agent_handoff(key: impl AsRef<[u8]>, handoff: Handoff) -> HandedOff = request::agent_handoff(key, handoff);
    "session_agent_handoff(\"session:1\", Handoff::new(\"clerk\", \"planner\"))" => "assert_eq!(reply.seq, 5);"

    /// `SESSION.AGENT LEASE`: gives an agent the session's lease for a time, or renews it; returns the fencing token. O(1).
    session_agent_lease(key: impl AsRef<[u8]>, agent: impl AsRef<str>, turn: Duration) -> u64 =
        request::agent_lease(key, agent, turn);
    "session_agent_lease(\"session:1\", \"clerk\", std::time::Duration::from_secs(5))" => "assert!(reply > 0);"

    /// `SESSION.AGENT RELEASE`: ends a lease. [`LeaseLost`](crate::SessionError::LeaseLost) if the token does not hold it. O(1).
    session_agent_release(key: impl AsRef<[u8]>, token: u64) -> () = request::agent_release(key, token);
    "session_agent_release(\"session:2\", 1)" => "assert_eq!(reply, ());"

    /// `SESSION.READ`: returns what was recorded after a seq, blocking for it if asked to; empty if nothing was. O(N) in the entries replied.
    session_read(key: impl AsRef<[u8]>, read: ReadOptions) -> Vec<SessionEntry> = request::read(key, read);
    "session_read(\"session:1\", ReadOptions::after(2))" => "assert!(matches!(reply[0].kind, EntryKind::Event(_)));"

    /// `SESSION.CHECKPOINT CREATE`: makes a checkpoint, and closes the session if asked to; returns its id. The cost does not grow with the history.
    session_checkpoint_create(key: impl AsRef<[u8]>, checkpoint: NewCheckpoint) -> u64 =
        request::checkpoint_create(key, checkpoint);
    "session_checkpoint_create(\"session:1\", NewCheckpoint::new().label(\"done\").close())" => "assert_eq!(reply, 5);"

    /// `SESSION.CHECKPOINT GET`: one checkpoint.
    session_checkpoint_get(key: impl AsRef<[u8]>, id: u64) -> Option<Checkpoint> = request::checkpoint_get(key, id);
    "session_checkpoint_get(\"session:1\", 4)" => "assert_eq!(reply.expect(\"it is there\").label.as_deref(), Some(\"greeted\"));"

    /// `SESSION.CHECKPOINT LIST`: the checkpoints, oldest first.
    session_checkpoint_list(key: impl AsRef<[u8]>) -> Vec<Checkpoint> = request::checkpoint_list(key);
    "session_checkpoint_list(\"session:1\")" => "assert_eq!(reply[0].checkpoint_id, 4);"

    /// `SESSION.CHECKPOINT DEL`: deletes checkpoints; how many.
    session_checkpoint_del(key: impl AsRef<[u8]>, ids: &[u64], write: WriteOptions) -> u64 =
        request::checkpoint_del(key, ids, write);
    "session_checkpoint_del(\"session:1\", &[4], WriteOptions::new())" => "assert_eq!(reply, 1);"

    /// `SESSION.CHECKPOINT RESTORE`: messages, entities, agents and state as they were at a checkpoint; the new version.
    session_checkpoint_restore(key: impl AsRef<[u8]>, id: u64, write: WriteOptions) -> u64 =
        request::checkpoint_restore(key, id, write);
    "session_checkpoint_restore(\"session:1\", 4, WriteOptions::new())" => "assert!(reply > 1);"

    /// `SESSION.FORK`: makes a session that goes on from another; its id. Does not grow with the history.
    session_fork(source: impl AsRef<[u8]>, destination: impl AsRef<[u8]>, fork: Fork) -> SessionId =
        request::fork(source, destination, fork);
    "session_fork(\"session:1\", \"session:3\", Fork::new().upto(1))" => "assert_eq!(reply.uuid().get_version_num(), 7);"

    /// `SESSION.ANCHOR ADD`: adds what a session did to an entity, in place of what it did before; how many are kept.
    session_anchor_add(key: impl AsRef<[u8]>, anchor: NewAnchor) -> u64 = request::anchor_add(key, anchor);
    "session_anchor_add(\"anchor:order:7\", NewAnchor::new(\"s2\").outcome(\"broke\"))" => "assert_eq!(reply, 2);"

    /// `SESSION.ANCHOR GET`: what recent sessions did to an entity, newest first; or one of them.
    session_anchor_get(key: impl AsRef<[u8]>, session_id: Option<&str>) -> Vec<Anchor> =
        request::anchor_get(key, session_id);
    "session_anchor_get(\"anchor:order:7\", None)" => "assert_eq!(reply[0].session_id, \"s1\");"

    /// `SESSION.INDEX RESOLVE`: the session that an alias or an id means. O(1).
    session_index_resolve(index: impl AsRef<[u8]>, alias_or_id: impl AsRef<str>) -> Option<Resolved> =
        request::index_resolve(index, alias_or_id);
    "session_index_resolve(\"sessions\", \"ada\")" => "assert_eq!(reply.expect(\"hers\").key, b\"session:1\");"

    /// `SESSION.INDEX LIST`: the sessions of a directory, the newest created or the most recently active first.
    session_index_list(index: impl AsRef<[u8]>, query: IndexQuery) -> Vec<DirectoryEntry> =
        request::index_list(index, query);
    "session_index_list(\"sessions\", IndexQuery::all())" => "assert_eq!(reply[0].message_count, 2);"

    /// `SESSION.INDEX ADD`: registers a session in a directory, or gives it another alias; whether it is new to the directory. O(1).
    session_index_add(index: impl AsRef<[u8]>, key: impl AsRef<[u8]>, add: IndexAdd) -> bool =
        request::index_add(index, key, add);
    "session_index_add(\"sessions\", \"session:1\", IndexAdd::new().alias(\"lovelace\"))" => "assert!(!reply);"

    /// `SESSION.INDEX LEN`: how many sessions of a directory there are.
    session_index_len(index: impl AsRef<[u8]>) -> u64 = request::index_len(index);
    "session_index_len(\"sessions\")" => "assert_eq!(reply, 1);"

    /// `SESSION.MIGRATE`: turns a legacy layout into a session, in place. O(N) in what is read.
    session_migrate(key: impl AsRef<[u8]>, migrate: Migrate) -> Migrated = request::migrate(key, migrate);
    "session_migrate(\"session:1\", Migrate::new())" => "assert_eq!(reply.format, \"rdsession\");"
}
