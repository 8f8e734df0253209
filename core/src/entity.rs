//! The entities a conversation mentions, ordered by recency of mention. Recency is a total order: each mention takes the next
//! rank of a counter, so two mentions in one millisecond, or in one command, still have an order, and it is the same on every replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::json;
use crate::time;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub name: String,
    pub kind: String,
    pub aliases: Vec<String>,
    pub mention_count: u64,
    pub last_mentioned_ms: i64,
    rank: u64,
}

impl Entity {
    /// Appends `{"entity_id","entity_name","entity_type","aliases":[…],"mention_count","last_mentioned"}`.
    pub fn write_json(&self, id: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"entity_id\":");
        json::write_string(out, id);
        out.extend_from_slice(b",\"entity_name\":");
        json::write_string(out, &self.name);
        out.extend_from_slice(b",\"entity_type\":");
        json::write_string(out, &self.kind);
        out.extend_from_slice(b",\"aliases\":[");
        for (i, alias) in self.aliases.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            json::write_string(out, alias);
        }
        out.extend_from_slice(format!("],\"mention_count\":{},\"last_mentioned\":", self.mention_count).as_bytes());
        time::write_json(out, Some(self.last_mentioned_ms));
        out.push(b'}');
    }
}

/// All entities of one session. Every operation costs O(log entities).
#[derive(Debug, Clone, Default)]
pub struct Entities {
    by_id: BTreeMap<Arc<str>, Entity>,
    /// Rank of the last mention → id: ascending is from the least to the most recently mentioned.
    by_rank: BTreeMap<u64, Arc<str>>,
    next_rank: u64,
    text_bytes: usize,
}

/// The type of an entity of which nothing but an id is known.
pub const UNKNOWN_TYPE: &str = "unknown";

impl Entities {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn get(&self, id: &str) -> Option<&Entity> {
        self.by_id.get(id)
    }

    /// From the most to the least recently mentioned.
    pub fn by_recency(&self) -> impl Iterator<Item = (&str, &Entity)> {
        self.by_rank
            .values()
            .rev()
            .filter_map(|id| self.by_id.get(id).map(|entity| (id.as_ref(), entity)))
    }

    /// Counts a mention by id alone: a known entity's count goes up by 1; an unknown one is created with its id as name. If there are
    /// more than `max_entities` (0: no bound) then, the least recently mentioned goes.
    pub fn mention(&mut self, id: &str, now_ms: i64, max_entities: u64) {
        let rank = self.next_rank;
        self.next_rank += 1;
        match self.by_id.get_mut(id) {
            Some(entity) => {
                if let Some(id) = self.by_rank.remove(&entity.rank) {
                    self.by_rank.insert(rank, id);
                }
                entity.rank = rank;
                entity.mention_count += 1;
                entity.last_mentioned_ms = now_ms;
            }
            None => {
                let entity = Entity {
                    name: id.to_owned(),
                    kind: UNKNOWN_TYPE.to_owned(),
                    aliases: Vec::new(),
                    mention_count: 1,
                    last_mentioned_ms: now_ms,
                    rank,
                };
                self.insert(Arc::from(id), entity);
            }
        }
        while max_entities > 0 && self.by_id.len() as u64 > max_entities {
            self.forget_least_recent();
        }
    }

    /// Puts back, as the most recent, an entity that a payload kept. `None` if its id is there already.
    pub(crate) fn restore(
        &mut self,
        id: &str,
        name: String,
        kind: String,
        aliases: Vec<String>,
        mention_count: u64,
        last_mentioned_ms: i64,
    ) -> Option<()> {
        if self.by_id.contains_key(id) {
            return None;
        }
        let rank = self.next_rank;
        self.next_rank += 1;
        self.insert(
            Arc::from(id),
            Entity {
                name,
                kind,
                aliases,
                mention_count,
                last_mentioned_ms,
                rank,
            },
        );
        Some(())
    }

    /// What the entities hold on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        // Two tree entries and a shared id each, at the nodes' usual filling.
        const ENTRY_BYTES: usize = (size_of::<Entity>() + 3 * size_of::<Arc<str>>() + 2 * size_of::<u64>()) * 3 / 2;
        self.text_bytes + self.by_id.len() * ENTRY_BYTES
    }

    fn insert(&mut self, id: Arc<str>, entity: Entity) {
        self.text_bytes += text_bytes(&id, &entity);
        self.by_rank.insert(entity.rank, Arc::clone(&id));
        self.by_id.insert(id, entity);
    }

    fn forget_least_recent(&mut self) {
        if let Some((_, id)) = self.by_rank.pop_first() {
            if let Some(entity) = self.by_id.remove(&id) {
                self.text_bytes -= text_bytes(&id, &entity);
            }
        }
    }
}

fn text_bytes(id: &str, entity: &Entity) -> usize {
    id.len()
        + entity.name.len()
        + entity.kind.len()
        + entity.aliases.iter().map(|alias| alias.len() + 24).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(entities: &Entities) -> Vec<&str> {
        entities.by_recency().map(|(id, _)| id).collect()
    }

    #[test]
    fn mentions_are_counted_and_ordered_also_within_one_millisecond() {
        let mut entities = Entities::default();
        for id in ["a", "b", "a", "c", "b"] {
            entities.mention(id, 7, 0);
        }
        assert_eq!(ids(&entities), ["b", "c", "a"]);
        assert_eq!(entities.get("a").unwrap().mention_count, 2);
        let mut json = Vec::new();
        entities.get("c").unwrap().write_json("c", &mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"entity_id":"c","entity_name":"c","entity_type":"unknown","aliases":[],"mention_count":1,"last_mentioned":"1970-01-01T00:00:00.007Z"}"#
        );
    }

    #[test]
    fn the_least_recently_mentioned_goes_first() {
        let mut entities = Entities::default();
        for id in ["a", "b", "a", "c", "d"] {
            entities.mention(id, 0, 3);
        }
        assert_eq!(ids(&entities), ["d", "c", "a"]);
        assert_eq!(entities.text_bytes, 3 * (1 + 1 + 7));
    }
}
