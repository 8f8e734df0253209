//! Which keys may be one session, guessed by their names. What they are is for the server to say, which looks at types and shapes alone.
//!
//! ```text
//!  HASH  x         + LIST or STRING  x:messages   (+ STRING x:counter)    hash-list, openai-agents
//!  HASH  x         + ZSET  x:events, or x with any one part more          live-hash
//!  LIST  session:i + STRING  context:i                                    motorhead
//! ```
//!
//! A guess that the server refuses falls apart into smaller ones.

/// What is at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Missing,
    String,
    List,
    Hash,
    Zset,
    Session,
    Other,
}

impl Kind {
    /// By the word of `TYPE`.
    pub fn named(word: &[u8]) -> Kind {
        match word {
            b"none" => Kind::Missing,
            b"string" => Kind::String,
            b"list" => Kind::List,
            b"hash" => Kind::Hash,
            b"zset" => Kind::Zset,
            b"rdsession" => Kind::Session,
            _ => Kind::Other,
        }
    }
}

pub type Key = Vec<u8>;

/// Keys that may be one session, which is to be at the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub sources: Vec<(Key, Kind)>,
    /// What is to be tried if the server refuses this.
    pub otherwise: Vec<Group>,
}

impl Group {
    pub fn alone(key: &[u8], kind: Kind) -> Group {
        Group {
            sources: vec![(key.to_vec(), kind)],
            otherwise: Vec::new(),
        }
    }

    /// Where the session is to be, and by what it is called.
    pub fn key(&self) -> &[u8] {
        &self.sources[0].0
    }

    pub fn is_alone(&self) -> bool {
        self.sources.len() == 1
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.sources.iter().any(|(_, other)| *other == kind)
    }
}

const MESSAGES: &[u8] = b":messages";
const COUNTER: &[u8] = b":counter";
const EVENTS: &[u8] = b":events";
const SESSION: &[u8] = b"session:";
const CONTEXT: &[u8] = b"context:";

fn with(key: &[u8], suffix: &[u8]) -> Key {
    [key, suffix].concat()
}

/// The names of a hash that a sorted set of events may belong to: its own without one of its parts, or `session:` in place of the first.
fn parents(zset: &[u8]) -> Vec<Key> {
    let parts: Vec<&[u8]> = zset.split(|byte| *byte == b':').collect();
    if parts.len() < 2 {
        return Vec::new();
    }
    let mut parents: Vec<Key> = (0..parts.len())
        .rev()
        .map(|left_out| {
            let rest: Vec<&[u8]> = (0..parts.len()).filter(|i| *i != left_out).map(|i| parts[i]).collect();
            rest.join(&b':')
        })
        .filter(|name| !name.is_empty())
        .collect();
    parents.push(with(SESSION, &parts[1..].join(&b':')));
    parents.dedup();
    parents
}

/// The other keys whose types say what this one may be part of.
pub fn relatives(key: &[u8], kind: Kind) -> Vec<Key> {
    let mut names = Vec::new();
    match kind {
        Kind::List => {
            names.extend(key.strip_suffix(MESSAGES).map(|base| base.to_vec()));
            names.extend(key.strip_suffix(MESSAGES).map(|base| with(base, COUNTER)));
            names.extend(key.strip_prefix(SESSION).map(|id| with(CONTEXT, id)));
        }
        Kind::String => {
            names.extend(key.strip_suffix(MESSAGES).map(|base| base.to_vec()));
            names.extend(key.strip_prefix(CONTEXT).map(|id| with(SESSION, id)));
            if let Some(base) = key.strip_suffix(COUNTER) {
                names.extend([base.to_vec(), with(base, MESSAGES)]);
            }
        }
        Kind::Hash => names.extend([MESSAGES, COUNTER, EVENTS].map(|suffix| with(key, suffix))),
        Kind::Zset => names = parents(key),
        Kind::Missing | Kind::Session | Kind::Other => {}
    }
    names.retain(|name| !name.is_empty() && name != key);
    names
}

/// What a key may be part of. `kind_of` knows what is at the [`relatives`]. None: it is no session by any guess.
///
/// Whichever key of a group is met first, the guess is the same. A hash by itself is guessed to be one, too: it may have said `agentIds`
/// and `state`.
pub fn guess(key: &[u8], kind: Kind, kind_of: impl Fn(&[u8]) -> Kind) -> Option<Group> {
    match kind {
        Kind::List | Kind::String => {
            let suffixes: &[&[u8]] = if kind == Kind::String {
                &[MESSAGES, COUNTER]
            } else {
                &[MESSAGES]
            };
            for suffix in suffixes {
                let base = key
                    .strip_suffix(*suffix)
                    .filter(|base| !base.is_empty() && kind_of(base) == Kind::Hash);
                if let Some(group) = base.and_then(|base| hash_with_messages(base, key, kind, &kind_of)) {
                    return Some(group);
                }
            }
            let (list, summary) = match kind {
                Kind::List => (
                    key.to_vec(),
                    with(CONTEXT, key.strip_prefix(SESSION).unwrap_or_default()),
                ),
                _ => (
                    with(SESSION, key.strip_prefix(CONTEXT).unwrap_or_default()),
                    key.to_vec(),
                ),
            };
            let kind_of = |name: &[u8]| if name == key { kind } else { kind_of(name) };
            let are_two = list.len() > SESSION.len() && list.starts_with(SESSION) && summary.len() > CONTEXT.len();
            if are_two && kind_of(&list) == Kind::List && kind_of(&summary) == Kind::String {
                return Some(Group {
                    otherwise: vec![Group::alone(&list, Kind::List), Group::alone(&summary, Kind::String)],
                    sources: vec![(list, Kind::List), (summary, Kind::String)],
                });
            }
            Some(Group::alone(key, kind))
        }
        Kind::Hash => hash_with_messages(key, key, kind, &kind_of).or_else(|| {
            let events = with(key, EVENTS);
            match kind_of(&events) {
                Kind::Zset => Some(hash_with_events(key, &events)),
                _ => Some(Group::alone(key, kind)),
            }
        }),
        Kind::Zset => {
            let parent = parents(key)
                .into_iter()
                .find(|name| name != key && kind_of(name) == Kind::Hash)?;
            Some(hash_with_events(&parent, key))
        }
        Kind::Missing | Kind::Session | Kind::Other => None,
    }
}

fn hash_with_messages(hash: &[u8], met: &[u8], met_kind: Kind, kind_of: &impl Fn(&[u8]) -> Kind) -> Option<Group> {
    let kind_of = |name: &[u8]| if name == met { met_kind } else { kind_of(name) };
    let (messages, counter) = (with(hash, MESSAGES), with(hash, COUNTER));
    let kind = kind_of(&messages);
    if !matches!(kind, Kind::List | Kind::String) {
        return None;
    }
    let mut group = Group {
        sources: vec![(hash.to_vec(), Kind::Hash), (messages.clone(), kind)],
        otherwise: vec![Group::alone(&messages, kind), Group::alone(hash, Kind::Hash)],
    };
    if kind == Kind::List && kind_of(&counter) == Kind::String {
        let without = group.clone();
        group.sources.push((counter, Kind::String));
        group.otherwise = vec![without];
    }
    Some(group)
}

fn hash_with_events(hash: &[u8], zset: &[u8]) -> Group {
    Group {
        sources: vec![(hash.to_vec(), Kind::Hash), (zset.to_vec(), Kind::Zset)],
        otherwise: Vec::new(),
    }
}

/// Whether a forced format is made of what the group is made of.
pub fn suits(format: &str, group: &Group) -> bool {
    match format {
        "json-array" | "context" | "agent-memory" | "adk" => group.is_alone() && group.has(Kind::String),
        "json-list" | "langchain" | "agent-framework" | "llama-index" => group.is_alone() && group.has(Kind::List),
        "motorhead" => group.has(Kind::List) && !group.has(Kind::Hash),
        "hash-list" | "openai-agents" => group.has(Kind::Hash) && !group.is_alone() && !group.has(Kind::Zset),
        "live-hash" => group.has(Kind::Hash) && (group.is_alone() || group.has(Kind::Zset)),
        _ => false,
    }
}

/// Whether this is a line as motorhead writes them, of a speaker that one expects. Logs have lines that look much the same.
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

    /// A database of these keys.
    fn guessed(keys: &[(&str, Kind)], met: &str) -> Option<Group> {
        let kind_of = |name: &[u8]| {
            let found = keys.iter().find(|(key, _)| key.as_bytes() == name);
            found.map_or(Kind::Missing, |(_, kind)| *kind)
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
            ("session:1", Kind::Hash),
            ("session:1:messages", Kind::List),
            ("agents:session:2", Kind::Hash),
            ("agents:session:2:messages", Kind::List),
            ("agents:session:2:counter", Kind::String),
            ("session:3", Kind::Hash),
            ("session:3:messages", Kind::String),
            ("session:4", Kind::List),
            ("context:4", Kind::String),
            ("session:5", Kind::Hash),
            ("session:5:events", Kind::Zset),
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
            let group = guessed(&[(hash, Kind::Hash), (zset, Kind::Zset)], zset).unwrap();
            assert_eq!(names(&group), [hash, zset]);
        }
        for zset in ["board", "board:7", ":", "a:b"] {
            assert_eq!(
                guessed(&[(zset, Kind::Zset), ("other", Kind::Hash)], zset),
                None,
                "{zset}"
            );
        }
    }

    #[test]
    fn keys_without_relatives_stand_alone() {
        for (key, kind) in [
            ("session:1:messages", Kind::List),
            ("session:1", Kind::List),
            ("chat", Kind::String),
            ("context:1", Kind::String),
            (":messages", Kind::List),
            ("session:", Kind::List),
            ("context:", Kind::String),
            ("x:counter", Kind::String),
            ("x", Kind::Hash),
        ] {
            assert_eq!(
                guessed(&[(key, kind)], key),
                Some(Group::alone(key.as_bytes(), kind)),
                "{key}"
            );
        }
        assert_eq!(guessed(&[("x", Kind::Session)], "x"), None);
        assert_eq!(guessed(&[("x", Kind::Other)], "x"), None);
    }

    #[test]
    fn a_session_that_is_one_already_is_no_relative() {
        let keys = [("session:1", Kind::Session), ("session:1:messages", Kind::List)];
        assert!(guessed(&keys, "session:1:messages").unwrap().is_alone());
    }

    #[test]
    fn a_refused_guess_falls_apart_without_losing_a_list() {
        let keys = [
            ("x", Kind::Hash),
            ("x:messages", Kind::List),
            ("x:counter", Kind::String),
        ];
        let group = guessed(&keys, "x").unwrap();
        assert_eq!(names(&group.otherwise[0]), ["x", "x:messages"]);
        assert_eq!(names(&group.otherwise[0].otherwise[0]), ["x:messages"]);
        let group = guessed(&[("session:1", Kind::List), ("context:1", Kind::String)], "context:1").unwrap();
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
}
