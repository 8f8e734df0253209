//! `redis-session show`: prints a conversation.
//!
//! ```text
//!  mod.rs      the flags, the page
//!  header.rs   the fields above the messages, and the entities below
//! ```
//!
//! The messages between them are [`crate::transcript`]'s.

mod header;

use clap::Args;
use serde_json::Value as Json;

use crate::connection::{self, Router};
use crate::failure::Result;
use crate::session::entry::Entry;
use crate::session::locate::Which;
use crate::session::snapshot::Snapshot;
use crate::term::output;
use crate::term::page::{Look, View};
use crate::term::text::{clean_json, key_text};
use crate::transcript::Renderer;
use crate::Outcome;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    which: Which,
    /// Only the last N messages, and what was recorded among them
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Messages only: no events, handoffs, checkpoints
    #[arg(long)]
    no_events: bool,
    #[command(flatten)]
    view: View,
    /// Print one JSON document: `key`, `session` (as SESSION.GET), `entries`
    #[arg(long)]
    json: bool,
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    let key = flags.which.find(&mut router)?;
    let mut snapshot = Snapshot::read(&mut router, &key, flags.last)?;
    if flags.no_events {
        snapshot.entries.retain(Entry::is_message);
    }
    let page = match flags.json {
        true => document(&snapshot),
        false => page(&snapshot, &flags.view.look()),
    };
    // A closed pipe is somebody who has read enough.
    output::print(&page);
    Ok(Outcome::Fine)
}

fn page(snapshot: &Snapshot, look: &Look) -> String {
    let mut out = header::header(snapshot, look);
    let mut renderer = Renderer::new(look, &snapshot.entries);
    for entry in &snapshot.entries {
        out += &renderer.entry(entry);
    }
    if snapshot.entries.is_empty() {
        // Without --no-events there may be events.
        let nothing = match snapshot.session.last_seq {
            0 => "Nothing has been said or recorded here yet.",
            _ => "There are no messages here.",
        };
        out += &look.paint.dim(&format!("\n  {nothing}\n"));
    }
    let entities = header::entities(snapshot, look);
    if !entities.is_empty() {
        out += &format!("\n{entities}");
    }
    out
}

/// The session as one JSON document. Bodies are written byte for byte.
fn document(snapshot: &Snapshot) -> String {
    let mut session = snapshot.document.clone();
    // They are among the entries.
    session
        .as_object_mut()
        .and_then(|session| session.shift_remove("messages"));
    let entries: Vec<String> = snapshot
        .entries
        .iter()
        .map(|entry| format!("    {}", entry.json()))
        .collect();
    let (open, close) = if entries.is_empty() { ("", "") } else { ("\n", "\n  ") };
    format!(
        "{{\n  \"key\": {},\n  \"session\": {},\n  \"entries\": [{open}{}{close}]\n}}\n",
        Json::String(key_text(&snapshot.key)),
        clean_json(&session.to_string()),
        entries.join(",\n"),
    )
}
