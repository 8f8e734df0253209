//! A session in a list.

use std::cmp::Ordering;

use redis_session_client::{DirectoryEntry, SessionInfo, Timestamp};
use serde_json::json;

use super::Sort;
use crate::term::text::{clean_json, key_text};
use crate::term::time::iso;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Row {
    /// As text; control characters and bytes that are not UTF-8 as `\xNN`.
    pub key: String,
    pub id: String,
    pub alias: Option<String>,
    /// Whether the alias was made up by a program.
    pub is_autonamed: bool,
    pub state: String,
    pub messages: u64,
    pub created_at_ms: i64,
    pub active_at_ms: i64,
    /// `None`: never.
    pub expires_at_ms: Option<i64>,
    /// `MEMORY USAGE`; `None` where the user may not ask for it.
    pub size_bytes: Option<i64>,
}

impl Row {
    /// From `SESSION.INDEX LIST`.
    pub fn of_entry(entry: DirectoryEntry) -> Row {
        Row {
            created_at_ms: entry.created_at.ms(),
            active_at_ms: entry.last_activity.ms(),
            key: entry.key,
            id: entry.id.to_string(),
            alias: entry.alias,
            is_autonamed: entry.autoname,
            state: entry.state,
            messages: entry.message_count,
            expires_at_ms: None,
            size_bytes: None,
        }
    }

    /// From `SESSION.INFO`. `None`: the reply lacks a time that every session has.
    pub fn of_info(key: &[u8], info: &SessionInfo) -> Option<Row> {
        let text = |name: &str| info.text(name).map(str::to_owned);
        let time_ms = |name: &str| Some(info.text(name)?.parse::<Timestamp>().ok()?.ms());
        Some(Row {
            key: key_text(key),
            id: text("session_id").unwrap_or_default(),
            alias: text("alias"),
            is_autonamed: false,
            state: text("state").unwrap_or_default(),
            messages: info.number("message_count").map_or(0, i64::unsigned_abs),
            created_at_ms: time_ms("created_at")?,
            active_at_ms: time_ms("last_activity")?,
            expires_at_ms: time_ms("expires_at"),
            size_bytes: None,
        })
    }

    /// The alias, or the id where there is none.
    pub fn name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.id)
    }

    pub fn json(&self) -> String {
        let row = json!({
            "id": self.id,
            "key": self.key,
            "alias": self.alias,
            "autoname": self.is_autonamed,
            "state": self.state,
            "message_count": self.messages,
            "created_at": iso(self.created_at_ms),
            "last_activity": iso(self.active_at_ms),
            "expires_at": self.expires_at_ms.map(iso),
            "memory_usage_bytes": self.size_bytes,
        });
        clean_json(&row.to_string())
    }

    /// Compares by a sort order, so that the row to list first is the least.
    pub fn compare(&self, other: &Row, sort: Sort) -> Ordering {
        let by = match sort {
            Sort::Created => other.created_at_ms.cmp(&self.created_at_ms),
            Sort::Activity => other.active_at_ms.cmp(&self.active_at_ms),
            Sort::Messages => other.messages.cmp(&self.messages),
            Sort::Size => other.size_bytes.cmp(&self.size_bytes),
            // Those without one come last.
            Sort::Alias => (self.alias.is_none(), &self.alias).cmp(&(other.alias.is_none(), &other.alias)),
        };
        by.then_with(|| self.key.cmp(&other.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;
    use redis_session_client::{request, IndexQuery};

    const ID: &str = "019bbc1e-7a30-7c4e-9d51-3b6f0a8e4821";
    const ENTRY: &str = r#"{"id":"019bbc1e-7a30-7c4e-9d51-3b6f0a8e4821","key":"k","alias":null,"autoname":false,"created_at":"2026-01-14T10:00:00.000Z",
        "last_activity":"2026-01-14T10:00:01.000Z","state":"working","message_count":3,"new":1}"#;

    #[test]
    fn entries_are_read_whatever_a_newer_module_adds() {
        let list = request::index_list("sessions", IndexQuery::all());
        let entries = |json: &[u8]| list.read(Value::Array(vec![Value::BulkString(json.to_vec())]));
        let row = Row::of_entry(entries(ENTRY.as_bytes()).unwrap().remove(0));
        assert_eq!((row.name(), row.messages, row.active_at_ms), (ID, 3, 1_768_384_801_000));
        assert!(entries(b"{}").is_err() && entries(&[0xff]).is_err());
        let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        assert_eq!(json["created_at"], "2026-01-14T10:00:00.000Z");
    }

    #[test]
    fn what_has_most_comes_first_and_names_from_a_to_z() {
        let row = |key: &str, alias: Option<&str>, n: u64| Row {
            key: key.into(),
            alias: alias.map(str::to_owned),
            messages: n,
            size_bytes: (n > 0).then_some(n as i64),
            ..Row::default()
        };
        let sorted = |sort: Sort| {
            let mut rows = [row("a", None, 0), row("b", Some("y"), 5), row("c", Some("x"), 2)];
            rows.sort_by(|one, other| one.compare(other, sort));
            rows.map(|row| row.key).concat()
        };
        assert_eq!(sorted(Sort::Messages), "bca");
        assert_eq!(sorted(Sort::Size), "bca");
        assert_eq!(sorted(Sort::Alias), "cba");
        assert_eq!(sorted(Sort::Created), "abc");
    }
}
