//! Makes a session of the content of a legacy layout.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use super::identity::Creation;
use super::state::agents::Agent;
use super::state::entities::{Entities, UNKNOWN_TYPE};
use super::state::events::Events;
use super::state::Session;
use super::write::Now;
use crate::body::{estimated_tokens, Role};
use crate::layout::{live_hash, meta, BadLayout, Element, Legacy};
use crate::limits::Limits;
use crate::log::{Entry, Log};

/// How to migrate. Nothing is taken from a clock, a random source or a configuration.
#[derive(Debug, Clone)]
pub struct Migration {
    /// Overrides the id of the source, which is then kept in the meta.
    pub id: Option<Uuid>,
    /// The id if neither `id` nor the source gives one.
    pub new_id: Uuid,
    pub ttl_ms: u64,
    /// The defaults for what a legacy layout does not have. Bounds of the window and of events are not taken from here: the only bound is
    /// `maxlen`, or the one in the layout.
    pub limits: Arc<Limits>,
    pub maxlen: Option<u64>,
    pub now: Now,
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Number of elements that became messages; with `events` and `malformed` these are all elements.
    pub messages: u64,
    /// Number of elements that were set aside.
    pub malformed: u64,
    pub events: u64,
    /// Number of entities in the session.
    pub entities: u64,
    /// Sum over all messages.
    pub tokens: u64,
    /// How many of these messages the window evicted at once.
    pub evicted: u64,
}

impl Session {
    /// Makes a session at version 1 with everything in the source. Elements take seqs from 1 on, including those that are set aside.
    ///
    /// - Messages, events and set-aside elements without a time of their own get `now.content_ms`, and so does the creation of the session;
    ///   the last activity is `now.now_ms` if the source has none.
    /// - User messages count as queries and `entity_refs` as mentions, as in an append, if the source has no counts or no entities of its
    ///   own.
    /// - The window evicts what exceeds it, as after an append.
    ///
    /// # Errors
    ///
    /// Those of [`Legacy::elements`].
    ///
    /// Cost: O(bytes).
    pub fn migrate(legacy: &Legacy<'_>, migration: &Migration) -> Result<(Session, Migrated), BadLayout> {
        let now = migration.now;
        let maxlen = migration.maxlen.or(legacy.maxlen).unwrap_or(0);
        let created_at_ms = legacy.created_at_ms.unwrap_or(now.content_ms);
        let mut session = Session::create(&Creation {
            id: migration.id.or(legacy.id()).unwrap_or(migration.new_id),
            created_at_ms,
            now_ms: legacy.last_activity_ms.unwrap_or(now.now_ms),
            ttl_ms: migration.ttl_ms,
            limits: limits(&migration.limits, maxlen),
            scope: legacy.scope.as_deref(),
            state: legacy.state.as_deref(),
            // Set below instead, since a merge patch would remove members that are null.
            meta: None,
            pins: &[],
        });
        if let Some(meta) = meta_of(legacy, session.id) {
            session.cold_mut().meta = Some(meta);
        }
        let mut done = session.take_elements(legacy, now)?;
        session.query_count = legacy.query_count.unwrap_or(session.query_count);
        session.ttl_extended_count = legacy.ttl_extended_count.unwrap_or(0);
        session.take_agents(legacy);
        if let Some(given) = legacy.entities.as_ref().filter(|given| !given.is_empty()) {
            let mut entities = Entities::default();
            for entity in given {
                let restored = entities.restore(
                    &entity.id,
                    entity.name.clone(),
                    entity.kind.clone().unwrap_or_else(|| UNKNOWN_TYPE.to_owned()),
                    entity.aliases.clone(),
                    entity.mention_count,
                    entity.last_mentioned_ms.unwrap_or(created_at_ms),
                );
                debug_assert!(restored.is_some(), "an entity of a legacy layout is there once");
            }
            session.cold_mut().entities = Arc::new(entities);
        }
        done.entities = session.cold.as_ref().map_or(0, |cold| cold.entities.len() as u64);
        done.tokens = session.sums().tokens;
        done.evicted = session.free_passed(now);
        Ok((session, done))
    }

    fn take_elements(&mut self, legacy: &Legacy<'_>, now: Now) -> Result<Migrated, BadLayout> {
        let mut done = Migrated::default();
        let (mut events, mut set_aside) = (Log::new(), Log::new());
        let mut last_calls = LastCalls::default();
        legacy.elements(|element| match element {
            Element::Message { mut facts, body } => {
                done.messages += 1;
                if legacy.entities.is_some() {
                    facts.entity_refs.clear();
                }
                let root = facts.answers.as_deref().and_then(|id| last_calls.exchange_of(id));
                self.add(&facts, body, None, root, now);
                if !facts.calls.is_empty() {
                    last_calls.set(&facts.calls, self.messages.newest_exchange());
                }
            }
            Element::Event(object) => {
                done.events += 1;
                let seq = self.next_seq();
                let event = live_hash::event(object, seq, now.content_ms);
                let kind = Role::from_name(event.kind);
                let entry = entry(seq, event.time_ms, &kind, &event.body);
                events.push(&entry, now.compress_after_bytes);
            }
            Element::SetAside(bytes) => {
                done.malformed += 1;
                let seq = self.next_seq();
                let entry = entry(seq, now.content_ms, &Role::Other, bytes);
                set_aside.push(&entry, now.compress_after_bytes);
            }
        })?;
        if !events.is_empty() {
            self.cold_mut().events = Events::from_log(events, 0, self.last_seq);
        }
        if !set_aside.is_empty() {
            self.cold_mut().set_aside = set_aside;
        }
        Ok(done)
    }

    fn take_agents(&mut self, legacy: &Legacy<'_>) {
        let (joined_at_ms, last_seen_ms) = (self.created_at_ms, self.last_activity_ms);
        for name in &legacy.agents {
            let agent = Agent {
                joined_at_ms,
                last_seen_ms,
                meta: None,
            };
            self.cold_mut().agents.by_name.insert(name.clone(), agent);
        }
    }
}

/// The newest message that makes calls. Most answers belong to it and need not search the messages for their call.
#[derive(Default)]
struct LastCalls {
    ids: Vec<String>,
    exchange: u64,
}

impl LastCalls {
    fn set(&mut self, ids: &[Cow<'_, str>], exchange: u64) {
        self.ids.resize_with(ids.len(), String::new);
        for (known, id) in self.ids.iter_mut().zip(ids) {
            known.clear();
            known.push_str(id);
        }
        self.exchange = exchange;
    }

    fn exchange_of(&self, id: &str) -> Option<u64> {
        self.ids.iter().any(|known| known == id).then_some(self.exchange)
    }
}

fn entry<'a>(seq: u64, time_ms: i64, role: &'a Role<'a>, body: &'a [u8]) -> Entry<'a> {
    Entry {
        seq,
        time_ms,
        tokens: estimated_tokens(body.len()),
        role,
        root: None,
        calls: &[],
        body,
    }
}

fn limits(defaults: &Limits, maxlen: u64) -> Arc<Limits> {
    Arc::new(Limits {
        maxlen,
        ..defaults.without_content_bounds()
    })
}

/// Returns the meta for a session of this id; if the source has a different id, that is added to it.
fn meta_of(legacy: &Legacy<'_>, id: Uuid) -> Option<String> {
    match legacy
        .id
        .filter(|source| source.id != id && !legacy.meta.has(source.member))
    {
        None => legacy.meta.text(),
        Some(source) => {
            let mut meta = legacy.meta.clone();
            meta.set_own(source.member, meta::json_string(&source.id.hyphenated().to_string()));
            meta.text()
        }
    }
}
