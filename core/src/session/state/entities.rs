//! The entities a conversation mentions, ordered by recency of mention. Recency is a total order: each mention takes the next
//! rank of a counter, so two mentions in one millisecond, or in one command, still have an order, and it is the same on every replica.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text::{is_text, json, time};

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

/// One mention of an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mention<'a> {
    pub id: Cow<'a, str>,
    pub name: Option<Cow<'a, str>>,
    pub kind: Option<Cow<'a, str>>,
    pub aliases: Vec<Cow<'a, str>>,
}

impl<'a> Mention<'a> {
    pub fn of_id(id: &'a str) -> Self {
        Mention {
            id: Cow::Borrowed(id),
            ..Mention::default()
        }
    }

    /// Reads `id` or `entity_id`, `name` or `entity_name`, `type` or `entity_type`, and `aliases` from a JSON object; where both names of a
    /// member are there, the shorter one counts. Ignores other members.
    pub fn read(object: &'a [u8]) -> Result<Self, MentionError> {
        let mut texts: [(&str, &str, Option<Given<'a>>); 3] = [
            ("id", "entity_id", None),
            ("name", "entity_name", None),
            ("type", "entity_type", None),
        ];
        let mut aliases = Some(Vec::new());
        json::read_object(object, |key, value| {
            let key = key.decode();
            if key == "aliases" {
                aliases = alias_list(value);
                return;
            }
            for (short, long, text) in &mut texts {
                if key == *short || (key == *long && text.is_none()) {
                    *text = match value {
                        json::Value::Null => None,
                        _ => Some(value.as_string().filter(|text| is_text(text)).ok_or(())),
                    };
                }
            }
        })
        .map_err(MentionError::NotAnObject)?;
        let [(_, _, id), (_, _, name), (_, _, kind)] = texts;
        let text =
            |text: Option<Result<Cow<'a, str>, ()>>, name| text.transpose().map_err(|()| MentionError::Text(name));
        Ok(Mention {
            id: text(id, "id")?.ok_or(MentionError::NoId)?,
            name: text(name, "name")?,
            kind: text(kind, "type")?,
            aliases: aliases.ok_or(MentionError::Aliases)?,
        })
    }

    fn write_to(&self, entity: &mut Entity) {
        if let Some(name) = &self.name {
            entity.name = name.to_string();
        }
        if let Some(kind) = &self.kind {
            entity.kind = kind.to_string();
        }
        for alias in &self.aliases {
            if !entity.aliases.iter().any(|known| known == alias) {
                entity.aliases.push(alias.to_string());
            }
        }
    }
}

/// The text of a member; an error if it is not one.
type Given<'a> = Result<Cow<'a, str>, ()>;

/// Why a JSON object is no mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MentionError {
    NotAnObject(json::Error),
    NoId,
    /// This member is not a string of the allowed length.
    Text(&'static str),
    /// `aliases` is not an array of such strings.
    Aliases,
}

fn alias_list<'a>(value: json::Value<'a>) -> Option<Vec<Cow<'a, str>>> {
    let array = match value {
        json::Value::Array(array) => array,
        json::Value::Null => return Some(Vec::new()),
        _ => return None,
    };
    let mut aliases = Some(Vec::new());
    json::elements(array, |element| {
        match (element.as_string().filter(|text| is_text(text)), &mut aliases) {
            (Some(alias), Some(aliases)) => aliases.push(alias),
            _ => aliases = None,
        }
    });
    aliases
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

/// Folds a text for comparison without case. It folds letter by letter, independent of the neighbouring letters, so a prefix of a word
/// folds to a prefix of the folded word.
pub fn folded(text: &str) -> String {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// The type of an entity that was mentioned without one.
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

    /// Iterates from the most to the least recently mentioned.
    pub fn by_recency(&self) -> impl Iterator<Item = (&str, &Entity)> {
        self.by_rank
            .values()
            .rev()
            .filter_map(|id| self.by_id.get(id).map(|entity| (id.as_ref(), entity)))
    }

    /// Counts a mention and makes the entity the most recent; returns true if it is new. For a known entity the count increases by 1,
    /// aliases are merged, and a given name or type replaces the old one. A new one takes its id as name and [`UNKNOWN_TYPE`] where nothing
    /// else is given. Beyond `max_entities` (0: no bound) the least recently mentioned is dropped.
    pub fn mention(&mut self, mention: &Mention<'_>, now_ms: i64, max_entities: u64) -> bool {
        let rank = self.next_rank;
        self.next_rank += 1;
        let known = match self.by_id.get_mut(mention.id.as_ref()) {
            Some(entity) => {
                if let Some(id) = self.by_rank.remove(&entity.rank) {
                    self.by_rank.insert(rank, id);
                }
                entity.rank = rank;
                entity.mention_count += 1;
                entity.last_mentioned_ms = now_ms;
                let before = text_bytes("", entity);
                mention.write_to(entity);
                self.text_bytes = self.text_bytes + text_bytes("", entity) - before;
                true
            }
            None => {
                let mut entity = Entity {
                    name: mention.id.to_string(),
                    kind: UNKNOWN_TYPE.to_owned(),
                    aliases: Vec::new(),
                    mention_count: 1,
                    last_mentioned_ms: now_ms,
                    rank,
                };
                mention.write_to(&mut entity);
                self.insert(Arc::from(mention.id.as_ref()), entity);
                false
            }
        };
        while max_entities > 0 && self.by_id.len() as u64 > max_entities {
            if let Some((_, id)) = self.by_rank.first_key_value() {
                let id = Arc::clone(id);
                self.forget(&id);
            }
        }
        !known
    }

    /// Removes an entity; returns false if it was not known.
    pub fn forget(&mut self, id: &str) -> bool {
        let Some((id, entity)) = self.by_id.remove_entry(id) else {
            return false;
        };
        self.by_rank.remove(&entity.rank);
        self.text_bytes -= text_bytes(&id, &entity);
        true
    }

    /// Adds an entity read from a payload, as the most recent. Returns `None` if its id exists already.
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

    /// Estimates the heap bytes of the entities.
    pub fn heap_bytes(&self) -> usize {
        // Two tree entries and a shared id each, at the usual fill of the nodes.
        const ENTRY_BYTES: usize = (size_of::<Entity>() + 3 * size_of::<Arc<str>>() + 2 * size_of::<u64>()) * 3 / 2;
        self.text_bytes + self.by_id.len() * ENTRY_BYTES
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.by_id.len(), self.by_rank.len(), "an entity has one rank");
        for (rank, id) in &self.by_rank {
            assert_eq!(self.by_id[id].rank, *rank, "rank of {id}");
            assert!(*rank < self.next_rank);
        }
        let texts = self.by_id.iter().map(|(id, entity)| text_bytes(id, entity));
        assert_eq!(self.text_bytes, texts.sum::<usize>(), "bytes of texts");
    }

    fn insert(&mut self, id: Arc<str>, entity: Entity) {
        self.text_bytes += text_bytes(&id, &entity);
        self.by_rank.insert(entity.rank, Arc::clone(&id));
        self.by_id.insert(id, entity);
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
            entities.mention(&Mention::of_id(id), 7, 0);
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
            entities.mention(&Mention::of_id(id), 0, 3);
        }
        assert_eq!(ids(&entities), ["d", "c", "a"]);
        assert_eq!(entities.text_bytes, 3 * (1 + 1 + 7));
    }
}
