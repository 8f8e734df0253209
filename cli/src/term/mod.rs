//! What several subcommands use to write to a terminal, or to what stands in its place.
//!
//! ```text
//!  color.rs     whether there are colours, and which
//!  output.rs    standard output, which may be closed or full
//!  page.rs      the flags of a page (--utc, --color, --width), and what follows from them
//!  progress.rs  a bar on a terminal, lines elsewhere
//!  text.rs      text without control characters; columns, wrapping, shortening; keys, numbers and sizes as text
//!  time.rs      times and durations as people read them
//! ```

pub mod color;
pub mod output;
pub mod page;
pub mod progress;
pub mod text;
pub mod time;

/// Columns to fill where there is no terminal.
const COLUMNS_WITHOUT_TERMINAL: usize = 100;
/// Columns to fill at least.
const COLUMNS_MIN: usize = 40;
/// Columns to fill at most: longer lines are hard to read.
const COLUMNS_MAX: usize = 120;

/// The columns to fill: those asked for, or else the terminal's.
pub fn columns(asked: Option<usize>) -> usize {
    let found = || {
        let terminal = console::Term::stdout()
            .size_checked()
            .map(|(_, columns)| usize::from(columns));
        terminal
            .filter(|columns| *columns > 0)
            .map(|columns| columns.min(COLUMNS_MAX))
    };
    asked
        .or_else(found)
        .unwrap_or(COLUMNS_WITHOUT_TERMINAL)
        .max(COLUMNS_MIN)
}
