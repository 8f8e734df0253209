//! The operations on the entities of a session; [`crate::session::state::entities`] stores them.

use super::state::entities::{Entity, Mention};
use super::state::Session;
use super::write::{Now, Written};

impl Session {
    /// Iterates over the entities from the most to the least recently mentioned.
    pub fn entities(&self) -> impl Iterator<Item = (&str, &Entity)> {
        self.cold.iter().flat_map(|cold| cold.entities.by_recency())
    }

    pub fn entity(&self, id: &str) -> Option<&Entity> {
        self.cold.as_ref()?.entities.get(id)
    }

    /// Counts these mentions in this order; returns how many entities are new to the session.
    ///
    /// Cost: O(mentions x log entities).
    pub fn mention_entities(&mut self, mentions: &[Mention<'_>], now: Now) -> Written<u64> {
        let max_entities = self.limits.max_entities;
        let entities = self.cold_mut().entities_mut();
        let new = mentions
            .iter()
            .filter(|mention| entities.mention(mention, now.now_ms, max_entities))
            .count();
        self.written(new as u64, now)
    }

    /// Removes entities; returns how many of these ids existed.
    pub fn forget_entities(&mut self, ids: &[&str], now: Now) -> Written<u64> {
        let Some(cold) = &mut self.cold else {
            return Written::nothing(0);
        };
        if !ids.iter().any(|id| cold.entities.get(id).is_some()) {
            return Written::nothing(0);
        }
        let entities = cold.entities_mut();
        let known = ids.iter().filter(|id| entities.forget(id)).count();
        self.written(known as u64, now)
    }
}
