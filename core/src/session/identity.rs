//! Identity, limits, meta, pins and expiry of a session.

use std::sync::Arc;

use uuid::Uuid;

use super::state::dedup::Seen;
use super::state::{Session, INITIAL_STATE};
use super::write::{Now, Written};
use crate::conversation::Messages;
use crate::limits::Limits;
use crate::text::json;

/// A session to create. Nothing is taken from a clock, a random source or a configuration.
#[derive(Debug, Clone)]
pub struct Creation<'a> {
    pub id: Uuid,
    pub created_at_ms: i64,
    pub now_ms: i64,
    /// By how much a write extends the expiry; 0 if it does not.
    pub ttl_ms: u64,
    pub limits: Arc<Limits>,
    pub scope: Option<&'a str>,
    pub state: Option<&'a str>,
    /// The text of a JSON object.
    pub meta: Option<&'a str>,
    pub pins: &'a [&'a str],
}

/// New bounds and pins; `None` leaves one unchanged.
#[derive(Debug, Clone, Default)]
pub struct WindowChange<'a> {
    pub maxlen: Option<u64>,
    pub maxtokens: Option<u64>,
    pub maxbytes: Option<u64>,
    pub maxage_ms: Option<u64>,
    pub pins: Option<Vec<&'a str>>,
}

impl Session {
    /// Creates a session at version 1, without messages.
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

    /// Sets the alias that a directory has for the session. It is not content, so the version stays.
    pub fn set_alias(&mut self, alias: Option<&str>) -> Written<()> {
        if self.alias() == alias {
            return Written::nothing(());
        }
        self.cold_mut().alias = alias.map(str::to_owned);
        Written::beside_content(())
    }

    pub fn meta(&self) -> Option<&str> {
        self.cold.as_ref()?.meta.as_deref()
    }

    pub fn pins(&self) -> &[String] {
        self.cold.as_ref().map_or(&[], |cold| &cold.pins)
    }

    /// Looks up a `DEDUP` token.
    pub fn seen(&self, token: &str, fingerprint: u128) -> Seen {
        self.cold
            .as_ref()
            .map_or(Seen::Never, |cold| cold.dedup.look_up(token, fingerprint))
    }

    /// Remembers the token of the append that has just been made.
    pub fn remember(&mut self, token: &str, fingerprint: u128) {
        let (seq, window) = (self.last_seq, self.limits.dedup_window);
        if window > 0 {
            self.cold_mut().dedup.remember(token, fingerprint, seq, window);
        }
    }

    /// Sets bounds and pins, and applies the window.
    pub fn set_window(&mut self, change: &WindowChange<'_>, now: Now) -> Written<()> {
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
        let passed = self.free_passed(now);
        if !changed && passed == 0 {
            return Written::nothing(());
        }
        self.written((), now).after(passed)
    }

    /// Applies a merge patch to the meta.
    pub fn merge_meta(&mut self, patch: &str, now: Now) -> Written<()> {
        let merged = json::merge_patch(self.meta(), patch);
        if merged == self.meta().unwrap_or("{}") {
            return Written::nothing(());
        }
        self.cold_mut().meta = Some(merged);
        self.written((), now)
    }

    /// Sets by how much writes extend the expiry.
    pub fn set_ttl_ms(&mut self, ttl_ms: u64) {
        self.ttl_ms = ttl_ms;
    }

    /// Counts an extension of the expiry by a read.
    pub fn extend_ttl(&mut self, now_ms: i64) -> Written<()> {
        self.ttl_extended_count += 1;
        self.last_activity_ms = now_ms;
        Written::beside_content(())
    }

    /// Replaces its limits by `known` if they are equal: sessions created under the same settings share one value.
    pub fn share_limits(&mut self, known: &Arc<Limits>) {
        if self.limits == *known {
            self.limits = Arc::clone(known);
        }
    }

    pub(super) fn change_limits(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = (*self.limits).clone();
        change(&mut limits);
        if limits != *self.limits {
            self.limits = Arc::new(limits);
        }
    }
}

pub(super) fn distinct(names: &[&str]) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push((*name).to_owned());
        }
    }
    distinct
}
