//! `redis-session show`: a conversation as people read it.
//!
//! ```text
//!  mod.rs      the flags, the page
//!  locate.rs   a key, or an alias or id in a directory; what to say where there is none
//!  fetch.rs    everything that is shown, read in one step
//!  record.rs   messages, events, checkpoints, gaps, decoded leniently
//!  body.rs     what a message's body says, in the shapes that clients use
//!  fold.rs     tool calls with their answers
//!  header.rs   what stands above the messages, and the entities below
//!  render.rs   the lines of an entry; also for `tail`
//! ```

pub mod body;
pub mod fetch;
mod fold;
mod header;
pub mod locate;
pub mod record;
pub mod render;

use clap::Args;
use serde_json::Value as Json;

use crate::connection::{self, Router};
use crate::failure::Result;
use crate::migrate::shown;
use crate::term::{self, color, time};
use crate::Outcome;

use fetch::Snapshot;
use locate::Which;
use render::{Look, Renderer};

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

/// How it looks: the same for all that show sessions.
#[derive(Args, Debug, Clone)]
pub struct View {
    /// Tool calls and their results in full
    #[arg(long)]
    tools: bool,
    /// Nothing shortened: tools, long instructions, what events changed
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    page: Page,
}

/// How a page is filled: also for `timeline`.
#[derive(Args, Debug, Clone)]
pub struct Page {
    /// Times in UTC, not in the time zone of this machine (TZ)
    #[arg(long)]
    utc: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: color::When,
    /// Columns to fill, in place of the terminal's; fewer than 40 are 40
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    width: Option<u16>,
}

impl View {
    pub fn look(&self) -> Look {
        Look {
            are_tools_open: self.tools,
            is_full: self.full,
            ..self.page.look()
        }
    }
}

impl Page {
    pub fn clock(&self) -> time::Clock {
        time::Clock::new(self.utc)
    }

    /// With everything folded.
    pub fn look(&self) -> Look {
        Look {
            columns: term::columns(self.width.map(usize::from)),
            paint: color::Paint {
                is_on: self.color.is_on(),
            },
            clock: self.clock(),
            now_ms: time::now_ms(),
            are_tools_open: false,
            is_full: false,
        }
    }
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    let key = flags.which.find(&mut router)?;
    let last = flags.last.and_then(|last| usize::try_from(last).ok());
    let mut snapshot = Snapshot::read(&mut router, &key, last)?;
    if flags.no_events {
        snapshot.entries.retain(record::Entry::is_message);
    }
    let page = match flags.json {
        true => document(&snapshot),
        false => page(&snapshot, &flags.view.look()),
    };
    // A closed pipe is somebody who has read enough.
    term::write_out(&page);
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
        let nothing = match snapshot.number("last_seq") {
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

/// The same for programs. Bodies are as they came, byte for byte.
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
        Json::String(shown(&snapshot.key)),
        term::text::clean_json(&session.to_string()),
        entries.join(",\n"),
    )
}
