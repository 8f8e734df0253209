//! A session's own limits. Defaults come from outside when a session is created; after that the session carries what holds for it.

use serde::{Deserialize, Serialize};

/// Every bound that a session carries. 0 is no bound, except for `dedup_window`, where it remembers nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Messages in the window.
    pub maxlen: u64,
    /// Tokens in the window.
    pub maxtokens: u64,
    /// Body bytes in the window.
    pub maxbytes: u64,
    /// Age of a message in the window, in milliseconds.
    pub maxage_ms: u64,
    pub event_maxlen: u64,
    pub event_ttl_s: u64,
    /// How many `DEDUP` tokens are remembered.
    pub dedup_window: u64,
    pub max_checkpoints: u64,
    pub max_entities: u64,
    pub max_agents: u64,
}

/// One limit by the name it has in `LIMIT name n` and in replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitName {
    pub name: &'static str,
    pub max: u64,
    field: Field,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Maxlen,
    Maxtokens,
    Maxbytes,
    Maxage,
    EventMaxlen,
    EventTtl,
    DedupWindow,
    MaxCheckpoints,
    MaxEntities,
    MaxAgents,
}

const COUNT: u64 = u32::MAX as u64;
/// Sums of tokens and bytes may be larger than any count, but stay exact as JSON numbers.
const SUM: u64 = (1 << 53) - 1;
/// Until the year 9999 from 1970 on.
const DURATION_MS: u64 = crate::text::time::MAX_TIME_MS as u64;

impl Limits {
    /// All limits, in the order in which they are shown.
    pub const NAMES: [LimitName; 10] = [
        LimitName {
            name: "maxlen",
            max: COUNT,
            field: Field::Maxlen,
        },
        LimitName {
            name: "maxtokens",
            max: SUM,
            field: Field::Maxtokens,
        },
        LimitName {
            name: "maxbytes",
            max: SUM,
            field: Field::Maxbytes,
        },
        LimitName {
            name: "maxage",
            max: DURATION_MS,
            field: Field::Maxage,
        },
        LimitName {
            name: "event-maxlen",
            max: COUNT,
            field: Field::EventMaxlen,
        },
        LimitName {
            name: "event-ttl",
            max: DURATION_MS / 1000,
            field: Field::EventTtl,
        },
        LimitName {
            name: "dedup-window",
            max: COUNT,
            field: Field::DedupWindow,
        },
        LimitName {
            name: "max-checkpoints",
            max: COUNT,
            field: Field::MaxCheckpoints,
        },
        LimitName {
            name: "max-entities",
            max: COUNT,
            field: Field::MaxEntities,
        },
        LimitName {
            name: "max-agents",
            max: COUNT,
            field: Field::MaxAgents,
        },
    ];

    /// The limit of that name, whatever its case.
    pub fn named(name: &[u8]) -> Option<LimitName> {
        Self::NAMES
            .into_iter()
            .find(|limit| limit.name.as_bytes().eq_ignore_ascii_case(name))
    }

    pub fn get(&self, name: LimitName) -> u64 {
        *self.clone().field(name.field)
    }

    pub fn set(&mut self, name: LimitName, value: u64) {
        *self.field(name.field) = value.min(name.max);
    }

    /// Whether every limit is in its range: what a payload from outside must show.
    pub(crate) fn in_range(&self) -> bool {
        Self::NAMES.into_iter().all(|name| self.get(name) <= name.max)
    }

    fn field(&mut self, field: Field) -> &mut u64 {
        match field {
            Field::Maxlen => &mut self.maxlen,
            Field::Maxtokens => &mut self.maxtokens,
            Field::Maxbytes => &mut self.maxbytes,
            Field::Maxage => &mut self.maxage_ms,
            Field::EventMaxlen => &mut self.event_maxlen,
            Field::EventTtl => &mut self.event_ttl_s,
            Field::DedupWindow => &mut self.dedup_window,
            Field::MaxCheckpoints => &mut self.max_checkpoints,
            Field::MaxEntities => &mut self.max_entities,
            Field::MaxAgents => &mut self.max_agents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_field_of_its_own() {
        let mut limits = Limits::default();
        for (i, name) in Limits::NAMES.into_iter().enumerate() {
            limits.set(name, i as u64 + 1);
        }
        for (i, name) in Limits::NAMES.into_iter().enumerate() {
            assert_eq!(limits.get(name), i as u64 + 1, "{}", name.name);
        }
        assert_eq!(Limits::named(b"MaxLen").map(|name| name.name), Some("maxlen"));
        assert_eq!(Limits::named(b"maximum"), None);
    }
}
