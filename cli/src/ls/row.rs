//! What is known of a session in a list.

use std::cmp::Ordering;

use redis::Value;
use serde::Deserialize;
use serde_json::json;

use super::Sort;
use crate::connection::{bytes, int, pairs};
use crate::term::text::clean_json;
use crate::term::text::key_text;
use crate::term::time::{iso, parse_iso};

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Row {
    /// As text: bytes that are not UTF-8, and controls, as `\xNN`.
    pub key: String,
    pub id: String,
    pub alias: Option<String>,
    /// The alias was made up by a program.
    pub is_autonamed: bool,
    pub state: String,
    pub messages: i64,
    pub created_at_ms: i64,
    pub active_at_ms: i64,
    /// `None`: never.
    pub expires_at_ms: Option<i64>,
    /// `MEMORY USAGE`; `None` where it may not be asked.
    pub size_bytes: Option<i64>,
}

/// As `SESSION.INDEX LIST` says it. What a newer module says besides is left out.
#[derive(Deserialize)]
struct Entry {
    id: String,
    key: String,
    alias: Option<String>,
    #[serde(default)]
    autoname: bool,
    created_at: String,
    last_activity: String,
    state: String,
    message_count: i64,
}

impl Row {
    /// `None`: no entry of a directory, or one of a module much newer than this program.
    pub fn of_entry(json: &[u8]) -> Option<Row> {
        let entry: Entry = serde_json::from_slice(json).ok()?;
        Some(Row {
            created_at_ms: parse_iso(&entry.created_at)?,
            active_at_ms: parse_iso(&entry.last_activity)?,
            key: entry.key,
            id: entry.id,
            alias: entry.alias,
            is_autonamed: entry.autoname,
            state: entry.state,
            messages: entry.message_count,
            ..Row::default()
        })
    }

    /// From `SESSION.INFO`. `None`: there is no such session any more.
    pub fn of_info(key: &[u8], info: Value) -> Option<Row> {
        if info == Value::Nil {
            return None;
        }
        let mut row = Row {
            key: key_text(key),
            ..Row::default()
        };
        for (name, value) in pairs(info) {
            let number = int(&value);
            let text = bytes(value).and_then(|text| String::from_utf8(text).ok());
            let time_ms = || text.as_deref().and_then(parse_iso);
            match name.as_slice() {
                b"created_at" => row.created_at_ms = time_ms()?,
                b"last_activity" => row.active_at_ms = time_ms()?,
                b"expires_at" => row.expires_at_ms = time_ms(),
                b"message_count" => row.messages = number.unwrap_or(0),
                b"session_id" => row.id = text.unwrap_or_default(),
                b"alias" => row.alias = text,
                b"state" => row.state = text.unwrap_or_default(),
                _ => {}
            }
        }
        Some(row)
    }

    /// The name under which people know it.
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

    /// The first in a list is the least.
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

    const ENTRY: &str = r#"{"id":"i","key":"k","alias":null,"autoname":false,"created_at":"2026-01-14T10:00:00.000Z",
        "last_activity":"2026-01-14T10:00:01.000Z","state":"working","message_count":3,"new":1}"#;

    #[test]
    fn entries_are_read_whatever_a_newer_module_adds() {
        let row = Row::of_entry(ENTRY.as_bytes()).unwrap();
        assert_eq!(
            (row.name(), row.messages, row.active_at_ms),
            ("i", 3, 1_768_384_801_000)
        );
        assert_eq!(Row::of_entry(b"{}"), None);
        assert_eq!(Row::of_entry(&[0xff]), None);
        let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        assert_eq!(json["created_at"], "2026-01-14T10:00:00.000Z");
    }

    #[test]
    fn what_has_most_comes_first_and_names_from_a_to_z() {
        let row = |key: &str, alias: Option<&str>, n: i64| Row {
            key: key.into(),
            alias: alias.map(str::to_owned),
            messages: n,
            size_bytes: (n > 0).then_some(n),
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
