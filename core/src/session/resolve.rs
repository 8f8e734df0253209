//! Finds the entities that a word can mean: a pronoun by their type, anything else by name.

use super::state::entities::{folded, Entity};
use super::state::Session;

/// How a word refers to entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// A pronoun for these types.
    Types(&'static [&'static str]),
    /// A pronoun for any type.
    Anything,
    /// Not a pronoun.
    Name,
}

/// Looks up a word in the pronoun table. A pronoun is treated as one even if an entity has it as its name.
fn reference_of(word: &str) -> Reference {
    match word {
        "he" | "him" | "his" | "himself" => Reference::Types(&["person", "male", "unknown"]),
        "she" | "her" | "hers" | "herself" => Reference::Types(&["person", "female", "unknown"]),
        "it" | "its" | "itself" => Reference::Types(&["organization", "thing", "document", "unknown"]),
        "they" | "them" | "their" | "theirs" | "themselves" | "this" | "that" | "these" | "those" | "who" | "whom" => {
            Reference::Anything
        }
        _ => Reference::Name,
    }
}

impl Session {
    /// Returns every entity that `word` can mean, the most recently mentioned first. A word that is no pronoun selects the entities that
    /// have it as name, id or alias; if there are none, those with a word in a name or alias that begins with it; if there are none and
    /// `any` is set, all of them. Case is ignored.
    ///
    /// Cost: O(entities).
    pub fn resolve(&self, word: &str, any: bool) -> Vec<(&str, &Entity)> {
        let word = folded(word);
        let all = || self.entities();
        match reference_of(&word) {
            Reference::Anything => all().collect(),
            Reference::Types(types) => all()
                .filter(|(_, entity)| types.iter().any(|name| folded(&entity.kind) == *name))
                .collect(),
            Reference::Name => {
                let is_word = |text: &str| folded(text) == word;
                let exact: Vec<_> = all()
                    .filter(|(id, entity)| is_word(id) || names(entity).any(is_word))
                    .collect();
                if !exact.is_empty() {
                    return exact;
                }
                let begun: Vec<_> = all()
                    .filter(|(_, entity)| names(entity).any(|name| has_word_beginning(name, &word)))
                    .collect();
                if begun.is_empty() && any {
                    return all().collect();
                }
                begun
            }
        }
    }
}

fn names(entity: &Entity) -> impl Iterator<Item = &str> {
    std::iter::once(entity.name.as_str()).chain(entity.aliases.iter().map(String::as_str))
}

/// Returns whether a word in `text` begins with `beginning`, which must be folded. A word begins at a letter or digit that follows none.
fn has_word_beginning(text: &str, beginning: &str) -> bool {
    let text = folded(text);
    let mut inside = false;
    text.char_indices().any(|(at, character)| {
        let begins = character.is_alphanumeric() && !inside;
        inside = character.is_alphanumeric();
        begins && text[at..].starts_with(beginning)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, START_MS};
    use crate::limits::Limits;
    use crate::session::Mention;
    use crate::session::Now;
    use proptest::prelude::*;
    use std::sync::Arc;

    const NOW: Now = at(START_MS);

    fn session(entities: &[(&str, &str, &str, &[&str])]) -> Session {
        let mut session = fixture::session(Limits::default());
        let mentions: Vec<Mention<'_>> = entities
            .iter()
            .map(|(id, name, kind, aliases)| Mention {
                id: (*id).into(),
                name: Some((*name).into()),
                kind: Some((*kind).into()),
                aliases: aliases.iter().map(|alias| (*alias).into()).collect(),
            })
            .collect();
        let _ = session.mention_entities(&mentions, NOW);
        session
    }

    fn ids<'a>(session: &'a Session, word: &str, any: bool) -> Vec<&'a str> {
        session.resolve(word, any).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_pronoun_table_word_by_word() {
        let session = session(&[
            ("p", "P", "Person", &[]),
            ("m", "M", "male", &[]),
            ("f", "F", "female", &[]),
            ("o", "O", "organization", &[]),
            ("t", "T", "THING", &[]),
            ("d", "D", "document", &[]),
            ("u", "U", "unknown", &[]),
            ("x", "He", "place", &[]),
        ]);
        for word in ["he", "him", "his", "himself", "HE"] {
            assert_eq!(ids(&session, word, false), ["u", "m", "p"], "{word}");
        }
        for word in ["she", "her", "hers", "herself"] {
            assert_eq!(ids(&session, word, false), ["u", "f", "p"], "{word}");
        }
        for word in ["it", "its", "itself"] {
            assert_eq!(ids(&session, word, false), ["u", "d", "t", "o"], "{word}");
        }
        for word in "they them their theirs themselves this that these those who whom".split(' ') {
            assert_eq!(
                ids(&session, word, true),
                ["x", "u", "d", "t", "o", "f", "m", "p"],
                "{word}"
            );
        }
    }

    #[test]
    fn names_are_exact_first_then_by_the_beginning_of_a_word() {
        let session = session(&[
            ("e1", "John Smith", "person", &["Mr Smith", "J.S."]),
            ("e2", "Smithson & Co", "organization", &[]),
            ("e3", "Ärzte-Haus", "organization", &["smith"]),
        ]);
        assert_eq!(ids(&session, "SMITH", false), ["e3"]);
        assert_eq!(ids(&session, "smi", false), ["e3", "e2", "e1"]);
        assert_eq!(ids(&session, "john smi", false), ["e1"]);
        assert_eq!(ids(&session, "E2", false), ["e2"]);
        assert_eq!(ids(&session, "mith", false), [""; 0]);
        assert_eq!(ids(&session, "haus", false), ["e3"]);
        assert_eq!(ids(&session, "är", false), ["e3"]);
        assert_eq!(ids(&session, "nobody", false), [""; 0]);
        assert_eq!(ids(&session, "nobody", true), ["e3", "e2", "e1"]);
    }

    proptest! {
        #[test]
        fn counts_recency_and_aliases_follow_the_mentions(
            mentions in prop::collection::vec((0usize..6, prop::option::of("[ab]"), prop::option::of("person|thing"), prop::collection::vec("[xyz]", 0..3)), 0..40),
            max_entities in 0u64..5,
        ) {
            let mut session = session(&[]);
            Arc::make_mut(&mut session.limits).max_entities = max_entities;
            // id, name, type, aliases, count: from the least to the most recently mentioned.
            let mut model: Vec<(String, String, String, Vec<String>, u64)> = Vec::new();
            for batch in mentions.chunks(3) {
                let mut new = 0;
                let ids: Vec<String> = batch.iter().map(|(id, ..)| format!("e{id}")).collect();
                let given: Vec<Mention<'_>> = batch.iter().zip(&ids).map(|((_, name, kind, aliases), id)| Mention {
                    id: id.as_str().into(),
                    name: name.as_deref().map(Into::into),
                    kind: kind.as_deref().map(Into::into),
                    aliases: aliases.iter().map(|alias| alias.as_str().into()).collect(),
                }).collect();
                for ((_, name, kind, aliases), id) in batch.iter().zip(&ids) {
                    let mut row = match model.iter().position(|row| row.0 == *id) {
                        Some(place) => model.remove(place),
                        None => {
                            new += 1;
                            (id.clone(), id.clone(), "unknown".to_owned(), vec![], 0)
                        }
                    };
                    row.1 = name.clone().unwrap_or(row.1);
                    row.2 = kind.clone().unwrap_or(row.2);
                    for alias in aliases {
                        if !row.3.contains(alias) { row.3.push(alias.clone()); }
                    }
                    row.4 += 1;
                    model.push(row);
                    if max_entities > 0 && model.len() as u64 > max_entities { model.remove(0); }
                }
                prop_assert_eq!(session.mention_entities(&given, NOW).result, new);
                session.check_invariants(START_MS);
            }
            let check = |session: &Session| {
                let rows: Vec<_> = session.entities().map(|(id, entity)| (id.to_owned(), entity.name.clone(), entity.kind.clone(), entity.aliases.clone(), entity.mention_count)).collect();
                let mut expected = model.clone();
                expected.reverse();
                assert_eq!(rows, expected);
            };
            check(&session);
            check(&Session::decode_whole(&session.encode_whole()).unwrap());
            let forgotten = session.forget_entities(&["e1", "e2", "e1"], NOW).result;
            prop_assert_eq!(forgotten, model.iter().filter(|row| row.0 == "e1" || row.0 == "e2").count() as u64);
        }
    }
}
