//! The rows of a session: MessagePack, the session as a map by field names, lists as arrays.
//!
//! | if a payload does not contain | it is |
//! |---|---|
//! | `id`, a row's first field | missing: the payload is refused |
//! | a number, a time | 0; `version`: 1 |
//! | an optional text or object | none |
//! | a list | empty |
//! | a limit | the default in its row of [`crate::limits`] |
//! | `entities` of a checkpoint | those of the checkpoint before it, or of the session for the first checkpoint |
//!
//! A new field gets a default here, and a line in the table above if that is a different one. An unknown field, written by a newer version,
//! is refused with an error.

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::payload::PayloadError;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionRow {
    pub id: (u64, u64),
    #[serde(default = "one")]
    pub version: u64,
    #[serde(default)]
    pub last_seq: u64,
    #[serde(default)]
    pub created_at_ms: i64,
    #[serde(default)]
    pub last_activity_ms: i64,
    #[serde(default)]
    pub ttl_ms: u64,
    #[serde(default)]
    pub query_count: u64,
    #[serde(default)]
    pub ttl_extended_count: u64,
    #[serde(default = "no_limits")]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// From the least to the most recently mentioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<EntityRow>,
    /// From the oldest to the newest token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dedup: Vec<DedupRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_lease_token: u64,
    /// The greatest seqs of a message and of an event that are no longer there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_gone_message: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_gone_event: u64,
    /// Events up to this seq were migrated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub foreign_events_until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_gone_checkpoint: u64,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<CheckpointRow>,
    #[serde(default)]
    pub chunks: ChunkCounts,
}

/// The number of chunks of each log that follow, in this order.
#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChunkCounts {
    pub aside: u64,
    pub main: u64,
    pub set_aside: u64,
    pub events: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointRow {
    pub id: u64,
    #[serde(default)]
    pub time_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Required: a missing one is read as empty and refused for its length.
    #[serde(default)]
    pub state: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// Required, like `state`.
    #[serde(default)]
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<EntityRow>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_gone_message: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<ChunkRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub main: Vec<ChunkRun>,
}

/// A number of chunks: those from this number on among the message chunks before, counted from 1; with number 0 they follow as blobs.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub(crate) struct ChunkRun(pub u64, pub u64);

/// Id, name, type, aliases, mention count, time of the last mention.
#[derive(Serialize, Deserialize)]
pub(crate) struct EntityRow(
    pub String,
    #[serde(default)] pub String,
    #[serde(default)] pub String,
    #[serde(default)] pub Vec<String>,
    #[serde(default)] pub u64,
    #[serde(default)] pub i64,
);

/// Token, fingerprint, the seq that was replied.
#[derive(Serialize, Deserialize)]
pub(crate) struct DedupRow(pub String, #[serde(default)] pub (u64, u64), #[serde(default)] pub u64);

/// Name, joined at, last seen at, meta.
#[derive(Serialize, Deserialize)]
pub(crate) struct AgentRow(
    pub String,
    #[serde(default)] pub i64,
    #[serde(default)] pub i64,
    #[serde(default)] pub Option<String>,
);

/// Holder, token, expiry.
#[derive(Serialize, Deserialize)]
pub(crate) struct LeaseRow(pub String, #[serde(default)] pub u64, #[serde(default)] pub i64);

fn no_limits() -> Limits {
    Limits::when_missing()
}

fn one() -> u64 {
    1
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SessionRow {
    /// Appends the MessagePack map.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let written = rmp_serde::encode::write_named(bytes, self);
        debug_assert!(written.is_ok(), "nothing in a row can fail to serialise into memory");
    }

    pub fn read(map: &[u8]) -> Result<Self, PayloadError> {
        rmp_serde::from_slice(map).map_err(|_| PayloadError("an unreadable header"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest payload of this format.
    #[derive(Serialize)]
    struct Least {
        id: (u64, u64),
    }

    #[test]
    fn every_field_but_the_id_has_a_default() {
        let bytes = rmp_serde::to_vec_named(&Least { id: (1, 2) }).unwrap();
        let row = SessionRow::read(&bytes).unwrap();
        assert_eq!((row.id, row.version, row.last_seq), ((1, 2), 1, 0));
        assert_eq!(row.limits, Limits::when_missing());
        assert!(SessionRow::read(&rmp_serde::to_vec_named(&[0u8; 0]).unwrap()).is_err());
    }

    #[test]
    fn rows_may_be_shorter_than_today_and_not_longer() {
        let read = |bytes: Vec<u8>| rmp_serde::from_slice::<EntityRow>(&bytes);
        let EntityRow(id, name, kind, aliases, count, at_ms) = read(rmp_serde::to_vec(&("e",)).unwrap()).unwrap();
        assert_eq!((id.as_str(), name.as_str(), kind.as_str()), ("e", "", ""));
        assert_eq!((aliases.len(), count, at_ms), (0, 0, 0));
        let longer = ("e", "n", "k", [""; 0], 1, 2, "something new");
        assert!(read(rmp_serde::to_vec(&longer).unwrap()).is_err());
        let AgentRow(_, joined_at_ms, last_seen_ms, meta) =
            rmp_serde::from_slice(&rmp_serde::to_vec(&("a", 7)).unwrap()).unwrap();
        assert_eq!((joined_at_ms, last_seen_ms, meta), (7, 0, None));
    }

    #[test]
    fn what_only_a_newer_version_knows_is_refused() {
        #[derive(Serialize)]
        struct Newer {
            id: (u64, u64),
            drafts: u64,
        }
        assert!(SessionRow::read(&rmp_serde::to_vec_named(&Newer { id: (1, 2), drafts: 1 }).unwrap()).is_err());
    }
}
