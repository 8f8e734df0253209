//! A session: identity, limits, and the conversation. Every operation takes the time as a value and says what happened as a value.
//!
//! What almost every session has stands in [`Session`] itself; what few have stands in [`Cold`], which is made when it is first
//! needed, so that an empty session stays small.

use std::ops::ControlFlow;
use std::sync::Arc;

use uuid::Uuid;

use crate::agent::Agents;
use crate::checkpoint::Checkpoints;
use crate::dedup::{Dedup, Seen};
use crate::entity::{Entities, Mention};
use crate::event::Events;
use crate::json;
use crate::limits::Limits;
use crate::log::{Body, Head, Log};
use crate::message::{estimated_tokens, redacted, Facts, Role};
use crate::messages::{Evicted, Messages, NewMessage, RecentCalls, Sums, Window};

/// The state a session starts in.
pub const INITIAL_STATE: &str = "working";

#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) id: Uuid,
    pub(crate) version: u64,
    pub(crate) last_seq: u64,
    pub(crate) created_at_ms: i64,
    pub(crate) last_activity_ms: i64,
    pub(crate) ttl_ms: u64,
    pub(crate) query_count: u64,
    pub(crate) ttl_extended_count: u64,
    pub(crate) limits: Arc<Limits>,
    pub(crate) cold: Option<Box<Cold>>,
    pub(crate) messages: Messages,
}

/// What few sessions have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cold {
    pub scope: Option<String>,
    pub state: Option<String>,
    /// A JSON object, as text.
    pub meta: Option<String>,
    /// Roles whose messages the window never evicts.
    pub pins: Vec<String>,
    /// Shared with checkpoints and forks until one is mentioned again.
    pub entities: Arc<Entities>,
    pub dedup: Dedup,
    pub events: Events,
    pub agents: Agents,
    /// What a migration could not read as a message, byte for byte.
    pub set_aside: Log,
    pub alias: Option<String>,
    pub closed_at_ms: Option<i64>,
    pub checkpoints: Checkpoints,
}

impl Cold {
    pub fn entities_mut(&mut self) -> &mut Entities {
        Arc::make_mut(&mut self.entities)
    }
}

/// A new session. Everything is explicit: nothing is taken from a clock, a random source or a configuration here.
#[derive(Debug, Clone)]
pub struct Creation<'a> {
    pub id: Uuid,
    pub created_at_ms: i64,
    pub now_ms: i64,
    /// How far a write slides the expiry; 0 is not at all.
    pub ttl_ms: u64,
    pub limits: Arc<Limits>,
    pub scope: Option<&'a str>,
    pub state: Option<&'a str>,
    /// The text of a JSON object.
    pub meta: Option<&'a str>,
    pub pins: &'a [&'a str],
}

/// One message of an append, as its body was read.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub facts: Facts<'a>,
    pub body: &'a [u8],
    /// Given with the command; else what the body says or its length suggests.
    pub tokens: Option<u32>,
}

impl Incoming<'_> {
    fn tokens(&self) -> u32 {
        self.tokens
            .or(self.facts.token_count)
            .unwrap_or_else(|| estimated_tokens(self.body.len()))
    }
}

/// What holds for every operation that writes.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The server's clock: activity, recency, ages.
    pub now_ms: i64,
    /// What content without a time of its own is dated with.
    pub content_ms: i64,
    /// See [`crate::log::Log::push`].
    pub compress_after_bytes: u32,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The seq of the last message.
    pub last_seq: u64,
    pub evicted: u64,
}

/// What a change to the window's bounds and pins did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windowed {
    pub changed: bool,
    pub evicted: u64,
}

/// New bounds and pins; what is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct WindowChange<'a> {
    pub maxlen: Option<u64>,
    pub maxtokens: Option<u64>,
    pub maxbytes: Option<u64>,
    pub maxage_ms: Option<u64>,
    pub pins: Option<Vec<&'a str>>,
}

/// How many and which: what an operation did that removes or replaces messages. With `count` 0, nothing changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    pub count: u64,
    pub evicted: u64,
}

impl Changed {
    pub fn is_any(&self) -> bool {
        self.count > 0 || self.evicted > 0
    }
}

/// The gauges of one session, as they add up over all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    pub messages: u64,
    pub bytes_raw: u64,
    pub bytes_stored: u64,
}

impl Session {
    /// A session at version 1, without messages.
    pub fn create(creation: &Creation<'_>) -> Self {
        let mut session = Session {
            id: creation.id,
            version: 1,
            last_seq: 0,
            created_at_ms: creation.created_at_ms,
            last_activity_ms: creation.now_ms,
            ttl_ms: creation.ttl_ms,
            query_count: 0,
            ttl_extended_count: 0,
            limits: Arc::clone(&creation.limits),
            cold: None,
            messages: Messages::default(),
        };
        let state = creation.state.filter(|state| *state != INITIAL_STATE);
        if creation.scope.is_some() || state.is_some() || creation.meta.is_some() || !creation.pins.is_empty() {
            let cold = session.cold_mut();
            cold.scope = creation.scope.map(str::to_owned);
            cold.state = state.map(str::to_owned);
            cold.meta = creation.meta.map(|meta| json::merge_patch(None, meta));
            cold.pins = distinct(creation.pins);
        }
        session
    }

    // ---- what it is -------------------------------------------------------------------------------------------------

    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn created_at_ms(&self) -> i64 {
        self.created_at_ms
    }

    pub fn last_activity_ms(&self) -> i64 {
        self.last_activity_ms
    }

    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    pub fn query_count(&self) -> u64 {
        self.query_count
    }

    pub fn ttl_extended_count(&self) -> u64 {
        self.ttl_extended_count
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn scope(&self) -> Option<&str> {
        self.cold.as_ref()?.scope.as_deref()
    }

    pub fn state(&self) -> &str {
        self.cold
            .as_ref()
            .and_then(|cold| cold.state.as_deref())
            .unwrap_or(INITIAL_STATE)
    }

    pub fn alias(&self) -> Option<&str> {
        self.cold.as_ref()?.alias.as_deref()
    }

    /// What a directory calls it: no content, so the version stays. False if it was so already.
    pub fn set_alias(&mut self, alias: Option<&str>) -> bool {
        if self.alias() == alias {
            return false;
        }
        self.cold_mut().alias = alias.map(str::to_owned);
        true
    }

    pub fn meta(&self) -> Option<&str> {
        self.cold.as_ref()?.meta.as_deref()
    }

    pub fn pins(&self) -> &[String] {
        self.cold.as_ref().map_or(&[], |cold| &cold.pins)
    }

    /// From the most to the least recently mentioned.
    pub fn entities(&self) -> impl Iterator<Item = (&str, &crate::entity::Entity)> {
        self.cold.iter().flat_map(|cold| cold.entities.by_recency())
    }

    pub fn chunks(&self) -> usize {
        self.messages.chunks()
    }

    /// All messages that a read shows. Cost: O(1), with `maxage` O(messages) while some have passed and are not freed.
    pub fn message_count(&self, now_ms: i64) -> u64 {
        self.messages.len() - self.hidden(now_ms).len() as u64
    }

    #[inline]
    pub fn gauges(&self) -> Gauges {
        let sums = self.messages.sums();
        Gauges {
            messages: sums.messages,
            bytes_raw: sums.body_bytes,
            bytes_stored: self.messages.heap_bytes() as u64,
        }
    }

    /// What the session holds on the heap, itself not counted. Sealed chunks that copies share count in full here too.
    pub fn heap_bytes(&self) -> usize {
        let cold = self.cold.as_ref().map_or(0, |cold| {
            let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
            size_of::<Cold>()
                + text(&cold.scope)
                + text(&cold.state)
                + text(&cold.meta)
                + text(&cold.alias)
                + cold
                    .pins
                    .iter()
                    .map(|pin| pin.capacity() + size_of::<String>())
                    .sum::<usize>()
                + cold.entities.heap_bytes()
                + cold.dedup.heap_bytes()
                + cold.events.log.heap_bytes()
                + cold.agents.heap_bytes()
                + cold.set_aside.heap_bytes()
                + self.checkpoints_heap_bytes()
        });
        self.messages.heap_bytes() + cold
    }

    /// How many pieces there are to free.
    pub fn free_effort(&self) -> usize {
        self.chunks()
            + self.cold.as_ref().map_or(0, |cold| {
                let checkpoints = cold.checkpoints.list.iter();
                cold.entities.len()
                    + cold.events.log.chunks()
                    + cold.set_aside.chunks()
                    + checkpoints
                        .map(|checkpoint| 1 + checkpoint.snapshot.messages.chunks())
                        .sum::<usize>()
            })
    }

    // ---- writing ----------------------------------------------------------------------------------------------------

    /// What is known of a `DEDUP` token.
    pub fn seen(&self, token: &str, fingerprint: u128) -> Seen {
        self.cold
            .as_ref()
            .map_or(Seen::Never, |cold| cold.dedup.look_up(token, fingerprint))
    }

    /// Remembers the append that has just been done under a token.
    pub fn remember(&mut self, token: &str, fingerprint: u128) {
        let (seq, window) = (self.last_seq, self.limits.dedup_window);
        if window > 0 {
            self.cold_mut().dedup.remember(token, fingerprint, seq, window);
        }
    }

    /// Appends messages, at least one, and applies the window. `maxlen` becomes the window's bound from now on.
    ///
    /// Cost: O(bytes + messages evicted); see [`Messages::evict`].
    #[inline]
    pub fn append(&mut self, batch: &[Incoming<'_>], maxlen: Option<u64>, now: Now, evicted: Evicted<'_>) -> Appended {
        if let Some(maxlen) = maxlen {
            self.change_limits(|limits| limits.maxlen = maxlen);
        }
        for incoming in batch {
            self.add(&incoming.facts, incoming.body, incoming.tokens, now);
        }
        self.appended(now, evicted)
    }

    /// The same of one message, of which nothing is known but its body.
    #[inline(always)]
    pub fn append_one(&mut self, facts: &Facts<'_>, body: &[u8], now: Now) -> Appended {
        self.add(facts, body, None, now);
        self.appended(now, None)
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, facts: &Facts<'_>, body: &[u8], tokens: Option<u32>, now: Now) {
        self.add_by(facts, body, tokens, now, Messages::append);
    }

    /// The same of one message after the other.
    pub(crate) fn add_following(&mut self, facts: &Facts<'_>, body: &[u8], recent: &mut RecentCalls, now: Now) {
        self.add_by(
            facts,
            body,
            None,
            now,
            |messages, message, pins, compress_after_bytes| {
                messages.append_following(message, recent, pins, compress_after_bytes);
            },
        );
    }

    #[inline(always)]
    fn add_by(
        &mut self,
        facts: &Facts<'_>,
        body: &[u8],
        tokens: Option<u32>,
        now: Now,
        append: impl FnOnce(&mut Messages, &NewMessage<'_>, &[String], u32),
    ) {
        self.last_seq += 1;
        let message = NewMessage {
            seq: self.last_seq,
            time_ms: facts.time_ms.unwrap_or(now.content_ms),
            tokens: tokens
                .or(facts.token_count)
                .unwrap_or_else(|| estimated_tokens(body.len())),
            facts,
            body,
        };
        let pins: &[String] = self.cold.as_ref().map_or(&[], |cold| &cold.pins);
        append(&mut self.messages, &message, pins, now.compress_after_bytes);
        if facts.role == Role::User {
            self.query_count += 1;
        }
        if !facts.entity_refs.is_empty() {
            self.mention(facts, now.now_ms);
        }
    }

    #[inline(always)]
    fn appended(&mut self, now: Now, evicted: Evicted<'_>) -> Appended {
        let evicted = self.evict(now.now_ms, evicted);
        self.touch(now.now_ms);
        Appended {
            last_seq: self.last_seq,
            evicted,
        }
    }

    fn mention(&mut self, facts: &Facts<'_>, now_ms: i64) {
        let max_entities = self.limits.max_entities;
        let entities = self.cold_mut().entities_mut();
        for id in &facts.entity_refs {
            if (1..=MAX_TEXT_BYTES).contains(&id.len()) {
                entities.mention(&Mention::of_id(id), now_ms, max_entities);
            }
        }
    }

    /// Counts a mention of each, in this order; returns how many are new to the session.
    ///
    /// Cost: O(mentions x log entities).
    pub fn mention_entities(&mut self, mentions: &[Mention<'_>], now: Now) -> u64 {
        let max_entities = self.limits.max_entities;
        let entities = self.cold_mut().entities_mut();
        let new = mentions
            .iter()
            .filter(|mention| entities.mention(mention, now.now_ms, max_entities))
            .count();
        self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        new as u64
    }

    /// Forgets entities; returns how many were known.
    pub fn forget_entities(&mut self, ids: &[&str], now: Now) -> u64 {
        let Some(cold) = &mut self.cold else { return 0 };
        if !ids.iter().any(|id| cold.entities.get(id).is_some()) {
            return 0;
        }
        let entities = cold.entities_mut();
        let known = ids.iter().filter(|id| entities.forget(id)).count();
        if known > 0 {
            self.evict(now.now_ms, None);
            self.touch(now.now_ms);
        }
        known as u64
    }

    pub fn entity(&self, id: &str) -> Option<&crate::entity::Entity> {
        self.cold.as_ref()?.entities.get(id)
    }

    /// Sets bounds and pins, and applies them.
    pub fn set_window(&mut self, change: &WindowChange<'_>, now: Now) -> Windowed {
        let mut limits = (*self.limits).clone();
        for (bound, new) in [
            (&mut limits.maxlen, change.maxlen),
            (&mut limits.maxtokens, change.maxtokens),
            (&mut limits.maxbytes, change.maxbytes),
            (&mut limits.maxage_ms, change.maxage_ms),
        ] {
            *bound = new.unwrap_or(*bound);
        }
        let mut changed = false;
        if limits != *self.limits {
            self.limits = Arc::new(limits);
            changed = true;
        }
        if let Some(pins) = &change.pins {
            let pins = distinct(pins);
            if pins != self.pins() {
                self.cold_mut().pins = pins;
                self.messages.pins_changed();
                changed = true;
            }
        }
        let evicted = self.evict(now.now_ms, None);
        changed |= evicted > 0;
        if changed {
            self.touch(now.now_ms);
        }
        Windowed { changed, evicted }
    }

    /// Removes the newest `count` messages and returns their bodies, newest first. (A call goes only with its answers: they are newer.)
    pub fn pop(&mut self, count: u64, now: Now) -> (Vec<Vec<u8>>, Changed) {
        if count == 0 || self.message_count(now.now_ms) == 0 {
            return (Vec::new(), Changed::default());
        }
        let evicted = self.evict(now.now_ms, None);
        let mut seqs = Vec::new();
        self.messages.scan_rev(u64::MAX, |head, _| {
            seqs.push(head.seq);
            if seqs.len() as u64 == count {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        seqs.reverse();
        let mut bodies = Vec::with_capacity(seqs.len());
        let count = self.messages.take(&seqs, |body| bodies.push(body.to_vec()));
        bodies.reverse();
        let evicted = evicted + self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        (bodies, Changed { count, evicted })
    }

    /// Removes these messages, calls with their answers. Unknown seqs are passed over.
    pub fn remove(&mut self, seqs: &[u64], now: Now) -> Changed {
        let seqs = self.visible(seqs, now.now_ms);
        let seqs = self.messages.with_answers(&seqs);
        if seqs.is_empty() {
            return Changed::default();
        }
        let count = self.messages.take(&seqs, |_| ());
        let evicted = self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        Changed { count, evicted }
    }

    /// Takes the content out of these messages, in checkpoints too; see [`redacted`] for what stays. Messages that read so already are not counted.
    pub fn redact(&mut self, seqs: &[u64], reason: Option<&str>, now: Now) -> Changed {
        let visible = self.visible(seqs, now.now_ms);
        let mut seqs = seqs.to_vec();
        seqs.sort_unstable();
        seqs.dedup();
        let mut count = 0;
        for seq in seqs {
            let mut is_redacted = visible.contains(&seq) && redact_in(&mut self.messages, seq, reason);
            // What a checkpoint could bring back has to go there too.
            let checkpoints = self.cold.iter_mut().flat_map(|cold| &mut cold.checkpoints.list);
            for checkpoint in checkpoints {
                is_redacted |= redact_in(&mut checkpoint.snapshot.messages, seq, reason);
            }
            count += u64::from(is_redacted);
        }
        if count == 0 {
            return Changed::default();
        }
        let evicted = self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        Changed { count, evicted }
    }

    /// Puts one message in place of everything up to `upto_seq`, at the seq of the last message it replaces. Pinned messages stay, and
    /// the boundary moves back rather than split an exchange. Nothing to replace: nothing is inserted.
    pub fn compact(&mut self, upto_seq: u64, summary: &Incoming<'_>, now: Now) -> Changed {
        let seqs = self.messages.compactable(upto_seq, self.window(now.now_ms));
        let Some(&seq) = seqs.last() else {
            return Changed::default();
        };
        let evicted = self.evict(now.now_ms, None);
        let message = NewMessage {
            seq,
            time_ms: summary.facts.time_ms.unwrap_or(now.content_ms),
            tokens: summary.tokens(),
            facts: &summary.facts,
            body: summary.body,
        };
        self.messages.compact(&seqs, &message, now.compress_after_bytes);
        let evicted = evicted + self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        Changed {
            count: seqs.len() as u64,
            evicted,
        }
    }

    /// Removes all messages; returns how many a read would have shown.
    pub fn clear(&mut self, now: Now) -> Changed {
        if self.messages.is_empty() {
            return Changed::default();
        }
        let count = self.message_count(now.now_ms);
        let evicted = self.messages.len() - count;
        self.messages.clear();
        self.touch(now.now_ms);
        Changed { count, evicted }
    }

    /// Applies a merge patch to the meta; false if it was so already.
    pub fn merge_meta(&mut self, patch: &str, now: Now) -> bool {
        let merged = json::merge_patch(self.meta(), patch);
        if merged == self.meta().unwrap_or("{}") {
            return false;
        }
        self.cold_mut().meta = Some(merged);
        self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        true
    }

    /// Sets how far writes slide the expiry.
    pub fn set_ttl_ms(&mut self, ttl_ms: u64) {
        self.ttl_ms = ttl_ms;
    }

    /// The expiry was extended by a read.
    pub fn extend_ttl(&mut self, now_ms: i64) {
        self.ttl_extended_count += 1;
        self.last_activity_ms = now_ms;
    }

    /// Takes `known` in place of limits of its own, if they are the same: sessions created under the same settings share one value.
    pub fn share_limits(&mut self, known: &Arc<Limits>) {
        if self.limits == *known {
            self.limits = Arc::clone(known);
        }
    }

    fn change_limits(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = (*self.limits).clone();
        change(&mut limits);
        if limits != *self.limits {
            self.limits = Arc::new(limits);
        }
    }

    #[inline]
    pub(crate) fn touch(&mut self, now_ms: i64) {
        self.version += 1;
        self.last_activity_ms = now_ms;
    }

    pub(crate) fn cold_mut(&mut self) -> &mut Cold {
        self.cold.get_or_insert_with(Box::default)
    }

    // ---- the window -------------------------------------------------------------------------------------------------

    pub(crate) fn window(&self, now_ms: i64) -> Window<'_> {
        Window {
            limits: &self.limits,
            pins: self.pins(),
            now_ms,
        }
    }

    #[inline]
    pub(crate) fn evict(&mut self, now_ms: i64, evicted: Evicted<'_>) -> u64 {
        if self.cold.is_some() {
            self.trim_events(now_ms);
        }
        let pins: &[String] = self.cold.as_ref().map_or(&[], |cold| &cold.pins);
        self.messages.evict(
            Window {
                limits: &self.limits,
                pins,
                now_ms,
            },
            evicted,
        )
    }

    /// What a read does not show: see [`Messages::hidden`].
    #[inline]
    pub(crate) fn hidden(&self, now_ms: i64) -> Vec<u64> {
        self.messages.hidden(self.window(now_ms))
    }

    fn visible(&self, seqs: &[u64], now_ms: i64) -> Vec<u64> {
        let hidden = self.hidden(now_ms);
        seqs.iter()
            .copied()
            .filter(|seq| hidden.binary_search(seq).is_err())
            .collect()
    }

    // ---- reading ----------------------------------------------------------------------------------------------------

    /// What the window counts: everything that is not pinned or not. For tests and tools.
    pub fn sums(&self) -> Sums {
        self.messages.sums()
    }

    /// Gives every message that a read shows, oldest first, until told to stop.
    pub fn messages<B>(&self, now_ms: i64, mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>) {
        let hidden = self.hidden(now_ms);
        self.messages.scan(|head, body| {
            if !hidden.is_empty() && hidden.binary_search(&head.seq).is_ok() {
                return ControlFlow::Continue(());
            }
            each(head, body)
        });
    }

    /// Moves sealed chunks' bytes to where `relocate` puts them: see [`Log::relocate`].
    pub fn relocate(
        &mut self,
        from: usize,
        chunks: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        self.messages.relocate(from, chunks, relocate)
    }
}

/// Ids, names, types, states, labels: as long as this at most.
pub const MAX_TEXT_BYTES: usize = 65_536;

fn redact_in(messages: &mut Messages, seq: u64, reason: Option<&str>) -> bool {
    let new = messages.get(seq, |_, body| {
        let new = redacted(body, reason);
        (new != body).then_some(new)
    });
    let Some(new) = new.flatten() else { return false };
    messages.replace(seq, &new, estimated_tokens(new.len()));
    true
}

fn distinct(names: &[&str]) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push((*name).to_owned());
        }
    }
    distinct
}

#[cfg(test)]
mod tests;
