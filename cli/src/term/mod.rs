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

/// Columns of lines that nobody's terminal bounds: in a pipe.
const COLUMNS_WITHOUT_TERMINAL: usize = 100;
/// Narrower than this nothing is readable, and everything still has to work.
const COLUMNS_MIN: usize = 40;
/// Longer lines are hard to follow with the eye.
const COLUMNS_MAX: usize = 120;

/// The columns to fill: what was asked for, else the terminal's.
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
