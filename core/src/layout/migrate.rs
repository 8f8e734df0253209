//! What a legacy layout holds becomes a session.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use super::{live_hash, meta, BadLayout, Element, Legacy};
use crate::agent::Agent;
use crate::entity::Entities;
use crate::event::Events;
use crate::limits::Limits;
use crate::log::{Entry, Log};
use crate::message::{estimated_tokens, Role};
use crate::session::{Creation, Now, Session};

/// A migration. Everything is explicit: what the source does not say is taken from here.
#[derive(Debug, Clone)]
pub struct Migration {
    /// Given: it takes the place of the source's, which goes to the meta.
    pub id: Option<Uuid>,
    /// Where none is given and the source has none.
    pub new_id: Uuid,
    pub ttl_ms: u64,
    /// The defaults for what a legacy layout knows nothing of. Bounds of the window and of events are not taken from here: there are none but
    /// `maxlen`, or the one that the layout brings.
    pub limits: Arc<Limits>,
    pub maxlen: Option<u64>,
    pub now: Now,
}

/// What a migration did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Elements that were messages; with `events` and `malformed` all there are.
    pub messages: u64,
    /// Elements that were set aside.
    pub malformed: u64,
    pub events: u64,
    /// Entities that the session has now.
    pub entities: u64,
    /// Of all messages.
    pub tokens: u64,
    /// How many of these messages the window let go at once.
    pub evicted: u64,
}

impl Session {
    /// A session at version 1 that holds all that the source does. Elements take seqs from 1 on, those that are set aside too.
    ///
    /// - Without an own time, a message, an event and what is set aside are dated with `now.content_ms`, and so is the session's creation;
    ///   its last activity is `now.now_ms` where the source says none.
    /// - User messages count as queries and `entity_refs` as mentions, as they do when they are appended, where the source has no counts or
    ///   no entities of its own.
    /// - A window lets go what is over, as it does after an append.
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
            // Not here, where it would be merged: a member that is null would go.
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
                // Each id is there once.
                let _ = entities.restore(
                    &entity.id,
                    entity.name.clone(),
                    entity.kind.clone(),
                    entity.aliases.clone(),
                    entity.mention_count,
                    entity.last_mentioned_ms.unwrap_or(created_at_ms),
                );
            }
            session.cold_mut().entities = Arc::new(entities);
        }
        done.entities = session.cold.as_ref().map_or(0, |cold| cold.entities.len() as u64);
        done.tokens = session.sums().tokens;
        done.evicted = session.evict(now.now_ms, None);
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
                self.last_seq += 1;
                let event = live_hash::event(object, self.last_seq, now.content_ms);
                let kind = Role::from_name(event.kind);
                let entry = entry(self.last_seq, event.time_ms, &kind, &event.body);
                events.push(&entry, now.compress_after_bytes);
            }
            Element::SetAside(bytes) => {
                done.malformed += 1;
                self.last_seq += 1;
                let entry = entry(self.last_seq, now.content_ms, &Role::Other, bytes);
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

/// The newest message that makes calls. Most answers are to it: they need not search for their call among the messages.
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

/// The meta of a session of this id: with another id than the source's, that goes there.
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
