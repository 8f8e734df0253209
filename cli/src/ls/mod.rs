//! `redis-session ls`: the sessions of a directory, or all that SCAN finds.
//!
//! ```text
//!  row.rs     one session: from a directory's entry, or from SESSION.INFO
//!  find.rs    reads and sorts them
//!  table.rs   rows that fit the terminal
//! ```

mod find;
mod row;
mod table;

use clap::{Args, ValueEnum};

use crate::connection::{self, Router};
use crate::failure::Result;
use crate::stop;
use crate::term::color::When;
use crate::term::{self, output};
use crate::Outcome;

#[derive(Args, Debug)]
#[command(after_help = "\
redis-session ls 'sessions:{acme}'                     the sessions of a directory, newest first\n\
redis-session ls 'sessions:{acme}' --sort size --limit 10\n\
redis-session ls --directories                         which directories there are\n\
redis-session ls --match 'session:*' --json | jq .     every session of such a key, in a directory or not")]
pub struct Flags {
    /// Key of a directory, such as sessions:{acme}; without it: what SCAN finds
    #[arg(value_name = "INDEX")]
    index: Option<std::ffi::OsString>,
    /// Most recently active first; as --sort activity
    #[arg(long, conflicts_with = "sort")]
    by_activity: bool,
    /// Newest, most recently active, longest or largest first; aliases from a to z
    #[arg(long, value_enum, default_value_t = Sort::Created)]
    sort: Sort,
    /// Only aliases (without INDEX: keys) of this glob-style pattern
    #[arg(long = "match", value_name = "GLOB")]
    matching: Option<String>,
    /// The first so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// List directories, not sessions
    #[arg(long, short = 'd', conflicts_with_all = ["index", "by_activity", "sort", "limit"])]
    directories: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Colours
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    color: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    Created,
    Activity,
    Messages,
    Size,
    Alias,
}

impl Flags {
    fn order(&self) -> Sort {
        match self.by_activity {
            true => Sort::Activity,
            false => self.sort,
        }
    }
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    stop::watch_silently()?;
    if flags.directories {
        let directories = find::directories(&mut router, flags)?;
        for (key, count) in &directories {
            let line = match flags.json {
                true => term::text::clean_json(&serde_json::json!({ "key": key, "sessions": count }).to_string()),
                false => {
                    let count = count.map_or_else(|| "?".to_owned(), |count| count.to_string());
                    format!("{count:>9}  {}", term::text::clean_line(key))
                }
            };
            output::print(&(line + "\n"));
        }
        if directories.is_empty() && !stop::is_requested() {
            eprintln!("note: no directories (SESSION.CREATE … INDEX makes one).");
        }
        return Ok(outcome(0));
    }
    let index = flags.index.as_ref().map(|index| index.as_encoded_bytes().to_vec());
    let (rows, left_out) = match &index {
        Some(index) => (find::of_directory(&mut router, index, flags)?, 0),
        None => find::by_scan(&mut router, connection, flags)?,
    };
    if flags.json {
        for row in &rows {
            output::print(&(row.json() + "\n"));
            if output::is_closed() {
                break;
            }
        }
    } else if rows.is_empty() && index.is_none() && left_out == 0 {
        eprintln!("note: no sessions.");
    } else if !rows.is_empty() {
        output::print(&table::text(&rows, flags.color, term::time::now_ms(), index.is_none()));
    }
    Ok(outcome(left_out))
}

fn outcome(left_out: usize) -> Outcome {
    match stop::is_requested() {
        true => Outcome::Interrupted,
        false if left_out > 0 => Outcome::Incomplete,
        false => Outcome::Fine,
    }
}
