//! Guesses by types and names which keys form one session. The server decides, by types and shapes alone.
//!
//! The rows of the layouts say which keys there are: `*` and `*:messages` of hash-list, `session:*` and `context:*` of motorhead. A key that
//! is met may be any of them; what stands for `*` in its name gives the names of the others.
//!
//! ```text
//!  met  chat:7:messages (list)  ─>  *:messages of hash-list      ─>  chat:7 (hash)                        2 keys
//!                               ─>  *:messages of openai-agents  ─>  chat:7 (hash), chat:7:counter        3 keys: tried first
//!                               ─>  by itself                                                             tried last
//! ```
//!
//! A guess that the server refuses falls apart into smaller ones.

use redis_session_core::layout::{Format, KeyName, Kind};

/// What is at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Missing,
    /// A type that layouts use.
    Source(Kind),
    Session,
    Other,
}

impl Held {
    /// Reads the reply to `TYPE`.
    pub fn named(word: &[u8]) -> Held {
        match word {
            b"none" => Held::Missing,
            b"rdsession" => Held::Session,
            other => Kind::ALL
                .into_iter()
                .find(|kind| kind.type_name().as_bytes() == other)
                .map_or(Held::Other, Held::Source),
        }
    }
}

pub type Key = Vec<u8>;

/// Keys that may form one session, which will be stored at the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub sources: Vec<(Key, Kind)>,
    /// Smaller groups to try if the server refuses this one.
    pub otherwise: Vec<Group>,
}

impl Group {
    pub fn alone(key: &[u8], kind: Kind) -> Group {
        Group {
            sources: vec![(key.to_vec(), kind)],
            otherwise: Vec::new(),
        }
    }

    /// The key of the session, unless it is stored elsewhere (`--to`).
    pub fn key(&self) -> &[u8] {
        &self.sources[0].0
    }

    pub fn is_alone(&self) -> bool {
        self.sources.len() == 1
    }

    /// Whether keys of these types may be one session in this layout.
    pub fn suits(&self, format: Format) -> bool {
        let kinds: Vec<Kind> = self.sources.iter().map(|(_, kind)| *kind).collect();
        format.suits(&kinds)
    }
}

/// The names that the first key of a session may have if another of its keys is named so: without one of the parts between colons, or with
/// `session` in place of the first part.
fn like_first(key: &[u8]) -> Vec<Key> {
    let parts: Vec<&[u8]> = key.split(|byte| *byte == b':').collect();
    if parts.len() < 2 {
        return Vec::new();
    }
    let without = |left_out: usize| {
        let rest: Vec<&[u8]> = (0..parts.len()).filter(|i| *i != left_out).map(|i| parts[i]).collect();
        rest.join(&b':')
    };
    let mut names: Vec<Key> = (0..parts.len()).rev().map(without).collect();
    names.push([b"session:", parts[1..].join(&b':').as_slice()].concat());
    names.retain(|name| !name.is_empty() && name != key);
    names.dedup();
    names
}

/// The values that `*` may have if `key` is the key that the layout calls `met`.
fn commons(format: Format, met: &KeyName, key: &[u8]) -> Vec<Key> {
    let mut commons: Vec<Key> = met.common(key).map(<[u8]>::to_vec).into_iter().collect();
    if met.or_like_first {
        let first = &format.keys[0];
        let names = like_first(key);
        commons.extend(names.iter().filter_map(|name| first.common(name)).map(<[u8]>::to_vec));
        commons.dedup();
    }
    commons
}

/// A role that a key may have: the layout, which of its keys it is, and the value of `*` in the names of the others.
struct Place {
    format: Format,
    met: usize,
    common: Key,
}

/// The roles that a key of this type may have in layouts of several keys.
fn places(key: &[u8], kind: Kind) -> impl Iterator<Item = Place> + '_ {
    Format::all()
        .filter(|format| format.only_kind().is_none())
        .flat_map(|format| {
            format
                .keys
                .iter()
                .enumerate()
                .map(move |(met, name)| (format, met, name))
        })
        .filter(move |(_, _, name)| name.kinds.contains(&kind))
        .flat_map(move |(format, met, name)| {
            let commons = commons(format, name, key).into_iter();
            commons.map(move |common| Place { format, met, common })
        })
}

impl Place {
    /// The keys of the session that exist, `key` among them; `None` if a required one is missing.
    fn whole(&self, key: &[u8], held: &impl Fn(&[u8]) -> Held) -> Option<Vec<(Key, Kind)>> {
        let mut sources = Vec::new();
        for (place, name) in self.format.keys.iter().enumerate() {
            let at = match place == self.met {
                true => key.to_vec(),
                false => name.named(&self.common),
            };
            match held(&at) {
                Held::Source(kind) if name.kinds.contains(&kind) => sources.push((at, kind)),
                _ if name.is_optional => {}
                _ => return None,
            }
        }
        Some(sources)
    }
}

/// The keys whose types are needed to [`guess`] what this one belongs to.
pub fn relatives(key: &[u8], held: Held) -> Vec<Key> {
    let Held::Source(kind) = held else { return Vec::new() };
    let others = |place: Place| {
        let names = place.format.keys.iter().enumerate();
        let others = names.filter(|(other, _)| *other != place.met);
        others.map(|(_, name)| name.named(&place.common)).collect::<Vec<_>>()
    };
    let mut names: Vec<Key> = places(key, kind).flat_map(others).collect();
    names.retain(|name| name != key);
    names.sort_unstable();
    names.dedup();
    names
}

/// Guesses the group that a key belongs to. `held` returns what is at the [`relatives`]. `None`: it cannot be a session.
///
/// The guess is the same whichever key of a group comes first. A single hash is a guess, too, because its fields may tell its layout.
pub fn guess(key: &[u8], here: Held, held: impl Fn(&[u8]) -> Held) -> Option<Group> {
    let Held::Source(kind) = here else { return None };
    let held = |name: &[u8]| if name == key { here } else { held(name) };
    match largest(key, kind, held) {
        Some(sources) => Some(Group {
            otherwise: smaller(&sources),
            sources,
        }),
        None => {
            let alone = Group::alone(key, kind);
            Format::all().any(|format| alone.suits(format)).then_some(alone)
        }
    }
}

/// The largest session of several keys that a key may be part of; of equally large ones, that of the first layout.
fn largest(key: &[u8], kind: Kind, held: impl Fn(&[u8]) -> Held) -> Option<Vec<(Key, Kind)>> {
    let wholes = places(key, kind).filter_map(|place| place.whole(key, &held));
    let wholes = wholes.filter(|sources| sources.len() > 1);
    wholes.fold(None, |most: Option<Vec<_>>, next| match most {
        Some(most) if most.len() >= next.len() => Some(most),
        _ => Some(next),
    })
}

/// The groups to try if these keys together are no session: all but one of them, or else each by itself.
fn smaller(sources: &[(Key, Kind)]) -> Vec<Group> {
    let fewer = sources.iter().rev().find_map(|left_out| {
        let held = |name: &[u8]| {
            let source = sources.iter().find(|source| source.0 == name && *source != left_out);
            source.map_or(Held::Missing, |(_, kind)| Held::Source(*kind))
        };
        let (key, kind) = sources.iter().find(|source| *source != left_out)?;
        largest(key, *kind, held)
    });
    match fewer {
        Some(sources) => vec![Group {
            otherwise: smaller(&sources),
            sources,
        }],
        None => parts(sources),
    }
}

/// The keys one by one, if a layout suits the key alone that does not suit all of them together. Hashes come last, because their events may
/// have another name.
fn parts(sources: &[(Key, Kind)]) -> Vec<Group> {
    let together = Group {
        sources: sources.to_vec(),
        otherwise: Vec::new(),
    };
    let mut parts: Vec<Group> = sources.iter().map(|(key, kind)| Group::alone(key, *kind)).collect();
    parts.retain(|part| Format::all().any(|format| part.suits(format) && !together.suits(format)));
    parts.sort_by_key(|part| part.sources[0].1 == Kind::Hash);
    parts
}

/// Whether a line begins with a known speaker, as in `Human: hi`. Log lines look similar.
pub fn is_spoken_line(line: &[u8]) -> bool {
    const SPEAKERS: [&str; 9] = [
        "human",
        "ai",
        "user",
        "assistant",
        "system",
        "bot",
        "agent",
        "tool",
        "model",
    ];
    let Some((role, _)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(": ")) else {
        return false;
    };
    SPEAKERS.iter().any(|speaker| role.eq_ignore_ascii_case(speaker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_session_core::layout::Sample;

    const STRING: Held = Held::Source(Kind::String);
    const LIST: Held = Held::Source(Kind::List);
    const HASH: Held = Held::Source(Kind::Hash);
    const ZSET: Held = Held::Source(Kind::Zset);

    /// A database of these keys.
    fn guessed(keys: &[(&str, Held)], met: &str) -> Option<Group> {
        let kind_of = |name: &[u8]| {
            let found = keys.iter().find(|(key, _)| key.as_bytes() == name);
            found.map_or(Held::Missing, |(_, kind)| *kind)
        };
        let met = met.as_bytes();
        let related = relatives(met, kind_of(met));
        // Nothing is asked for that was not announced.
        guess(met, kind_of(met), |name| {
            assert!(
                related.iter().any(|relative| relative == name),
                "{:?}",
                String::from_utf8_lossy(name)
            );
            kind_of(name)
        })
    }

    fn names(group: &Group) -> Vec<&str> {
        let names = group.sources.iter().map(|(key, _)| std::str::from_utf8(key).unwrap());
        names.collect()
    }

    #[test]
    fn whichever_key_is_met_first_the_group_is_the_same() {
        let keys = [
            ("session:1", HASH),
            ("session:1:messages", LIST),
            ("agents:session:2", HASH),
            ("agents:session:2:messages", LIST),
            ("agents:session:2:counter", STRING),
            ("session:3", HASH),
            ("session:3:messages", STRING),
            ("session:4", LIST),
            ("context:4", STRING),
            ("session:5", HASH),
            ("session:5:events", ZSET),
        ];
        for members in [
            &["session:1", "session:1:messages"][..],
            &[
                "agents:session:2",
                "agents:session:2:messages",
                "agents:session:2:counter",
            ],
            &["session:3", "session:3:messages"],
            &["session:4", "context:4"],
            &["session:5", "session:5:events"],
        ] {
            for met in members {
                let group = guessed(&keys, met).unwrap();
                assert_eq!(names(&group), *members, "{met}");
                assert_eq!(group.key(), members[0].as_bytes());
                assert_eq!(Some(group), guessed(&keys, members[0]), "{met}: what is tried next");
            }
        }
    }

    #[test]
    fn a_sorted_set_finds_its_hash_by_name() {
        for (hash, zset) in [
            ("live:7", "live:7:history"),
            ("live:7", "live:events:7"),
            ("live:{7}", "live:{7}:log"),
            ("session:7", "events:7"),
        ] {
            let group = guessed(&[(hash, HASH), (zset, ZSET)], zset).unwrap();
            assert_eq!(names(&group), [hash, zset]);
        }
        for zset in ["board", "board:7", ":", "a:b"] {
            assert_eq!(guessed(&[(zset, ZSET), ("other", HASH)], zset), None, "{zset}");
        }
    }

    #[test]
    fn keys_without_relatives_stand_alone() {
        for (key, kind) in [
            ("session:1:messages", LIST),
            ("session:1", LIST),
            ("chat", STRING),
            ("context:1", STRING),
            (":messages", LIST),
            ("session:", LIST),
            ("context:", STRING),
            ("x:counter", STRING),
            ("x", HASH),
        ] {
            let Held::Source(of) = kind else { panic!("a source") };
            assert_eq!(
                guessed(&[(key, kind)], key),
                Some(Group::alone(key.as_bytes(), of)),
                "{key}"
            );
        }
        assert_eq!(guessed(&[("x", Held::Session)], "x"), None);
        assert_eq!(guessed(&[("x", Held::Other)], "x"), None);
    }

    #[test]
    fn a_session_that_is_one_already_is_no_relative() {
        let keys = [("session:1", Held::Session), ("session:1:messages", LIST)];
        assert!(guessed(&keys, "session:1:messages").unwrap().is_alone());
    }

    #[test]
    fn a_refused_guess_falls_apart_without_losing_a_list() {
        let keys = [("x", HASH), ("x:messages", LIST), ("x:counter", STRING)];
        let group = guessed(&keys, "x").unwrap();
        assert_eq!(names(&group.otherwise[0]), ["x", "x:messages"]);
        assert_eq!(names(&group.otherwise[0].otherwise[0]), ["x:messages"]);
        let group = guessed(&[("session:1", LIST), ("context:1", STRING)], "context:1").unwrap();
        assert_eq!(
            group.otherwise.iter().flat_map(names).collect::<Vec<_>>(),
            ["session:1", "context:1"]
        );
    }

    #[test]
    fn lines_are_spoken_by_somebody() {
        for line in ["Human: hi", "AI: a: b", "user: "] {
            assert!(is_spoken_line(line.as_bytes()), "{line}");
        }
        for line in ["INFO: started", "2026-01-14 10:00: x", "Human:x", "", "{\"a\": 1}"] {
            assert!(!is_spoken_line(line.as_bytes()), "{line}");
        }
    }

    fn kind_of(sample: &Sample) -> Kind {
        match sample {
            Sample::String(_) => Kind::String,
            Sample::List(_) => Kind::List,
            Sample::Hash(_) => Kind::Hash,
            Sample::Zset(_) => Kind::Zset,
        }
    }

    #[test]
    fn every_layout_of_the_table_is_grouped_by_its_names() {
        for format in Format::all() {
            let sample: Vec<Kind> = format.sample.iter().map(kind_of).collect();
            assert!(
                format.suits(&sample),
                "{format:?}: its sample {sample:?} is no session of it"
            );
            let keys: Vec<(String, Held)> = format
                .keys
                .iter()
                .zip(&sample)
                .map(|(name, kind)| {
                    assert!(name.kinds.contains(kind), "{format:?}: {} is no {kind}", name.pattern);
                    (String::from_utf8(name.named(b"a:7")).unwrap(), Held::Source(*kind))
                })
                .collect();
            assert_eq!(
                keys.len(),
                sample.len(),
                "{format:?}: a source of the sample has no key"
            );
            let keys: Vec<(&str, Held)> = keys.iter().map(|(key, held)| (key.as_str(), *held)).collect();
            let expected: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
            for (met, _) in &keys {
                let group = guessed(&keys, met).unwrap_or_else(|| panic!("{format:?}: no guess for {met}"));
                assert_eq!(names(&group), expected, "{format:?}, {met} met first");
                assert!(group.suits(format), "{format:?}");
            }
        }
    }
}
