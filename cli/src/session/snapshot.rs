//! A whole session, read in one transaction.

use redis::Value;
use redis_session_client::request::{self, Request};
use redis_session_client::{tolerant, EventQuery, MessageQuery, SessionDocument, SessionId};
use serde_json::Value as Json;

use super::entry::Entry;
use super::locate::{explain, not_found};
use crate::connection::{read, Router};
use crate::failure::{Failure, Result};

/// A session at one moment.
pub struct Snapshot {
    pub key: Vec<u8>,
    pub session: SessionDocument,
    /// The same document as JSON, with its members in the server's order.
    pub document: Json,
    /// Messages, events, checkpoints and gaps in the order of their seqs.
    pub entries: Vec<Entry>,
}

impl Snapshot {
    /// Reads the whole session, or its last messages and what was recorded since the first of them.
    pub fn read(router: &mut Router, key: &[u8], last: Option<u32>) -> Result<Snapshot> {
        let get = request::get(key, Some(0)).tolerant();
        let shown = last.map_or_else(MessageQuery::all, MessageQuery::newest);
        let messages = request::range_with_meta(key, shown).tolerant();
        let malformed = request::range_with_meta(key, MessageQuery::all().malformed()).tolerant();
        let events = request::event_range(key, EventQuery::all());
        let commands = [get.command(), messages.command(), malformed.command(), events.command()];
        let replies = match router.transaction(&commands)? {
            Ok(replies) => replies,
            Err(refusal) => return Err(explain(router, key, &refusal)),
        };
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or(Value::Nil);
        let (session, document) = document(&get, next())?.ok_or_else(|| not_found(key))?;
        let mut entries: Vec<Entry> = read(&messages, next())?.into_iter().map(Entry::of_message).collect();
        // What stands before the first message is shown only if that is the first of all.
        let from_seq = match entries.first() {
            Some(first) if (entries.len() as u64) < session.message_count => first.seq,
            _ => 0,
        };
        entries.extend(read(&malformed, next())?.into_iter().map(Entry::of_malformed));
        let events = tolerant::array(next()).into_iter().filter_map(tolerant::bytes);
        entries.extend(events.filter_map(|event| Entry::of_event(&event)));
        let checkpoints = document["checkpoints"].as_array().into_iter().flatten();
        entries.extend(checkpoints.filter_map(Entry::of_checkpoint));
        entries.retain(|entry| entry.seq >= from_seq);
        entries.sort_by_key(|entry| entry.seq);
        let entries = with_gaps(entries, from_seq.max(1), session.last_seq);
        Ok(Snapshot {
            key: key.to_vec(),
            session,
            document,
            entries,
        })
    }

    /// Whether the key holds an older layout that the module reads as a session.
    pub fn is_older_layout(&self) -> bool {
        self.session.session_id == SessionId::unknown()
    }
}

/// Reads the reply to `SESSION.GET` as types and as JSON; `None` if there is no session.
fn document(get: &Request<Option<SessionDocument>>, reply: Value) -> Result<Option<(SessionDocument, Json)>> {
    let json = match &reply {
        Value::Nil => return Ok(None),
        reply => tolerant::bytes(reply.clone()).and_then(|json| tolerant::json(&json)),
    };
    match (get.read(reply), json) {
        (Ok(Some(session)), Some(json)) => Ok(Some((session, json))),
        _ => Err(Failure::Server(
            "SESSION.GET replied with what is no JSON object.\nIs this program older than the module? See MODULE LIST."
                .into(),
        )),
    }
}

/// Inserts a gap where seqs are missing: seqs are never reused, so something was there.
fn with_gaps(entries: Vec<Entry>, first: u64, last: u64) -> Vec<Entry> {
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
