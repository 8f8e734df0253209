//! The limits of a session: bounds that each session carries itself. Their defaults come from outside when a session is created.
//!
//! A limit is one row of the table at the end of the code. The row gives the field of [`Limits`], the name in `LIMIT name n` and in replies,
//! the range, the setting, and the value of a session that was stored before the limit existed. To add a limit, add its row: the compiler
//! reports a value that is missing in it, and tests report a missing paragraph in `redis.conf` and a missing name in the reference.

use serde::{Deserialize, Serialize};

/// One limit: its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its name in `LIMIT name n` and in replies.
    pub name: &'static str,
    /// The unit of its value, in the plural, as in "20 messages".
    pub unit: &'static str,
    /// The greatest value that it can have; the least is 0.
    pub max: u64,
    /// What it bounds, in a sentence or two.
    pub doc: &'static str,
    /// The setting that new sessions take it from; without one they have no such bound.
    pub setting: Option<LimitSetting>,
    /// Whether messages or events are dropped when they exceed it. A session migrated from an older layout takes no such bound from the
    /// settings, or it would lose messages that were just migrated.
    pub bounds_content: bool,
    field: Field,
}

/// A setting that is the default of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSetting {
    /// Without the module's prefix.
    pub name: &'static str,
    /// What it is where nothing is configured.
    pub default: u64,
}

const COUNT: u64 = u32::MAX as u64;
/// Sums of tokens and bytes may be larger than any count, but stay exact as JSON numbers.
const SUM: u64 = (1 << 53) - 1;
/// Until the year 9999 from 1970 on.
const DURATION_MS: u64 = crate::text::time::MAX_TIME_MS as u64;

/// The setting of that name and default.
const fn setting(name: &'static str, default: u64) -> Option<LimitSetting> {
    Some(LimitSetting { name, default })
}

/// Makes [`Limits`] and its rows of the table.
macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $field:ident {
        name: $name:literal,
        unit: $unit:literal,
        max: $max:expr,
        setting: $setting:expr,
        bounds_content: $bounds_content:expr,
        when_missing: $when_missing:expr,
    } )+) => {
        /// The value of every limit. 0 is no bound, except for `dedup_window`, where it remembers nothing.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default = "Limits::when_missing", deny_unknown_fields)]
        pub struct Limits {
            $( $(#[doc = $doc])+ pub $field: u64, )+
        }

        /// A field of [`Limits`], by its name.
        #[allow(non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Field {
            $( $field, )+
        }

        impl Limits {
            /// All limits, in the order in which they are shown.
            pub const ROWS: [Limit; [$( $name, )+].len()] = [$(
                Limit {
                    name: $name,
                    unit: $unit,
                    max: $max,
                    doc: concat!($( $doc, )+),
                    setting: $setting,
                    bounds_content: $bounds_content,
                    field: Field::$field,
                },
            )+];

            /// The values for limits that a payload lacks, because it was written before they existed.
            pub const fn when_missing() -> Limits {
                Limits { $( $field: $when_missing, )+ }
            }

            pub fn get(&self, limit: Limit) -> u64 {
                match limit.field {
                    $( Field::$field => self.$field, )+
                }
            }

            /// Sets a limit, to its greatest value if that is less.
            pub fn set(&mut self, limit: Limit, value: u64) {
                let place = match limit.field {
                    $( Field::$field => &mut self.$field, )+
                };
                *place = value.min(limit.max);
            }
        }
    };
}

impl Limits {
    /// The limit of that name, whatever its case.
    pub fn named(name: &[u8]) -> Option<Limit> {
        Self::ROWS
            .into_iter()
            .find(|limit| limit.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// A copy without bounds on messages and events.
    pub fn without_content_bounds(&self) -> Limits {
        let mut limits = self.clone();
        for limit in Self::ROWS.into_iter().filter(|limit| limit.bounds_content) {
            limits.set(limit, 0);
        }
        limits
    }

    /// Whether every limit is in its range: what a payload from outside must show.
    pub(crate) fn in_range(&self) -> bool {
        Self::ROWS.into_iter().all(|limit| self.get(limit) <= limit.max)
    }
}

limits! {
    /// Messages in the window.
    maxlen {
        name: "maxlen",
        unit: "messages",
        max: COUNT,
        setting: setting("default-maxlen", 20),
        bounds_content: true,
        when_missing: 0,
    }
    /// Tokens in the window.
    maxtokens {
        name: "maxtokens",
        unit: "tokens",
        max: SUM,
        setting: None,
        bounds_content: true,
        when_missing: 0,
    }
    /// Body bytes in the window.
    maxbytes {
        name: "maxbytes",
        unit: "bytes",
        max: SUM,
        setting: None,
        bounds_content: true,
        when_missing: 0,
    }
    /// Age of a message in the window, in milliseconds.
    maxage_ms {
        name: "maxage",
        unit: "milliseconds",
        max: DURATION_MS,
        setting: None,
        bounds_content: true,
        when_missing: 0,
    }
    /// Events that a session keeps, the newest.
    event_maxlen {
        name: "event-maxlen",
        unit: "events",
        max: COUNT,
        setting: setting("event-maxlen", 1000),
        bounds_content: true,
        when_missing: 0,
    }
    /// Seconds that an event is kept, from the time it is dated.
    event_ttl_s {
        name: "event-ttl",
        unit: "seconds",
        max: DURATION_MS / 1000,
        setting: setting("event-ttl", 3600),
        bounds_content: true,
        when_missing: 0,
    }
    /// `DEDUP` tokens that are remembered, the last ones.
    dedup_window {
        name: "dedup-window",
        unit: "DEDUP tokens",
        max: COUNT,
        setting: setting("dedup-window", 64),
        bounds_content: false,
        when_missing: 0,
    }
    /// Checkpoints that a session keeps; the oldest goes.
    max_checkpoints {
        name: "max-checkpoints",
        unit: "checkpoints",
        max: COUNT,
        setting: setting("max-checkpoints", 16),
        bounds_content: false,
        when_missing: 0,
    }
    /// Entities that a session knows; the least recently mentioned goes.
    max_entities {
        name: "max-entities",
        unit: "entities",
        max: COUNT,
        setting: setting("max-entities", 10_000),
        bounds_content: false,
        when_missing: 0,
    }
    /// Agents that have joined a session; one more is refused.
    max_agents {
        name: "max-agents",
        unit: "agents",
        max: COUNT,
        setting: setting("max-agents", 1000),
        bounds_content: false,
        when_missing: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_field_of_its_own() {
        let mut limits = Limits::default();
        for (i, limit) in Limits::ROWS.into_iter().enumerate() {
            limits.set(limit, i as u64 + 1);
        }
        for (i, limit) in Limits::ROWS.into_iter().enumerate() {
            assert_eq!(limits.get(limit), i as u64 + 1, "{}", limit.name);
            assert_eq!(Limits::named(limit.name.to_uppercase().as_bytes()), Some(limit));
        }
        assert_eq!(Limits::named(b"maximum"), None);
    }

    #[test]
    fn every_row_is_in_its_own_range() {
        for limit in Limits::ROWS {
            let default = limit.setting.map_or(0, |setting| setting.default);
            assert!(default <= limit.max, "{}", limit.name);
            assert!(i64::try_from(limit.max).is_ok(), "{}", limit.name);
        }
        assert!(Limits::when_missing().in_range());
    }

    #[test]
    fn a_payload_from_before_a_limit_is_read() {
        let mut all = Limits::default();
        for (i, limit) in Limits::ROWS.into_iter().enumerate() {
            all.set(limit, i as u64 + 1);
        }
        let whole = serde_json::to_value(&all).unwrap();
        for name in whole.as_object().unwrap().keys() {
            let mut without = whole.clone();
            without.as_object_mut().unwrap().remove(name);
            let bytes = rmp_serde::to_vec_named(&without).unwrap();
            let read: Limits = rmp_serde::from_slice(&bytes).unwrap();
            let mut expected = whole.clone();
            expected[name] = serde_json::to_value(Limits::when_missing()).unwrap()[name].clone();
            assert_eq!(serde_json::to_value(read).unwrap(), expected, "without {name}");
        }
    }

    #[test]
    fn without_content_bounds_everything_that_was_migrated_stays() {
        let all = Limits::ROWS.into_iter().fold(Limits::default(), |mut limits, limit| {
            limits.set(limit, 7);
            limits
        });
        let bounds = all.without_content_bounds();
        assert_eq!((bounds.maxlen, bounds.maxage_ms, bounds.event_ttl_s), (0, 0, 0));
        assert_eq!((bounds.dedup_window, bounds.max_agents), (7, 7));
    }
}
