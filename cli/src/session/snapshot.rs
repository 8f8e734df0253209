//! Everything that is shown of a session, read in one step.

use redis::Value;
use redis_session_client::{request, EventQuery};
use serde_json::Value as Json;

use super::body::parse;
use super::entry::{text, time_of, Entry};
use super::locate::{explain, not_found};
use crate::connection::{array, bytes, Router};
use crate::failure::{Failure, Result};

/// The id of what is read through and has none.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// A session at one moment.
pub struct Snapshot {
    pub key: Vec<u8>,
    /// `SESSION.GET` without messages.
    pub document: Json,
    /// In the order of their seqs; messages, events, checkpoints, and where some are missing.
    pub entries: Vec<Entry>,
}

impl Snapshot {
    /// All of it, or the last messages and what was recorded among them.
    pub fn read(router: &mut Router, key: &[u8], last: Option<usize>) -> Result<Snapshot> {
        let range = |first: i64| {
            let mut command = redis::cmd("SESSION.RANGE");
            command.arg(key).arg(first).arg(-1).arg("WITHMETA");
            command
        };
        let first = last.map_or(0, |last| i64::try_from(last).map_or(0, |last| -last));
        let commands = [
            redis::cmd("SESSION.GET").arg(key).arg("MESSAGES").arg(0).to_owned(),
            range(first),
            range(0).arg("MALFORMED").to_owned(),
            request::event_range(key, EventQuery::all()).command().cmd().clone(),
        ];
        let replies = match router.transaction(key, &commands)? {
            Ok(replies) => replies,
            Err(refusal) => return Err(explain(router, key, &refusal)),
        };
        let mut replies = array(replies).into_iter();
        let document = match replies.next() {
            Some(Value::Nil) | None => return Err(not_found(key)),
            Some(reply) => bytes(reply).and_then(|text| parse(&String::from_utf8_lossy(&text))),
        };
        let document = document.filter(Json::is_object).ok_or_else(|| {
            Failure::Server("SESSION.GET replied with what is no JSON object.\nIs this program older than the module? See MODULE LIST.".into())
        })?;
        let mut list = |decode: &dyn Fn(Value) -> Option<Entry>| -> Vec<Entry> {
            let items = replies.next().map(array).unwrap_or_default();
            items.into_iter().filter_map(decode).collect()
        };
        let mut entries = list(&|value| Entry::of_range(value, false));
        let total = document["message_count"].as_u64().unwrap_or(0);
        // What stands before the first message is shown only if that is the first of all.
        let from_seq = match entries.first() {
            Some(first) if (entries.len() as u64) < total => first.seq,
            _ => 0,
        };
        entries.extend(list(&|value| Entry::of_range(value, true)));
        entries.extend(list(&Entry::of_event));
        let checkpoints = document["checkpoints"].as_array().into_iter().flatten();
        entries.extend(checkpoints.filter_map(Entry::of_checkpoint));
        entries.retain(|entry| entry.seq >= from_seq);
        entries.sort_by_key(|entry| entry.seq);
        let last_seq = document["last_seq"].as_i64().unwrap_or(0);
        let entries = with_gaps(entries, from_seq.max(1), last_seq);
        Ok(Snapshot {
            key: key.to_vec(),
            document,
            entries,
        })
    }

    pub fn text(&self, name: &str) -> Option<String> {
        text(self.document.get(name))
    }

    pub fn time(&self, name: &str) -> Option<i64> {
        time_of(self.document.get(name))
    }

    pub fn number(&self, name: &str) -> i64 {
        self.document[name].as_i64().unwrap_or(0)
    }

    /// It is a list or JSON that only reads like a session.
    pub fn is_older_layout(&self) -> bool {
        self.text("session_id").is_some_and(|id| id == NO_ID)
    }
}

/// Seqs are never reused, so what is missing was there once.
fn with_gaps(entries: Vec<Entry>, first: i64, last: i64) -> Vec<Entry> {
    let mut out = Vec::with_capacity(entries.len());
    let mut next = first;
    for entry in entries {
        if entry.seq > next {
            out.push(Entry::gap(next, entry.seq - 1, entry.time_ms));
        }
        next = next.max(entry.seq.saturating_add(1));
        out.push(entry);
    }
    if let Some(time_ms) = out.last().map(|entry: &Entry| entry.time_ms).filter(|_| next <= last) {
        out.push(Entry::gap(next, last, time_ms));
    }
    out
}
