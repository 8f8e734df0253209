//! What reading commands share on a terminal.
//!
//! ```text
//!  color.rs   whether there are colours, and which
//!  text.rs    text that cannot drive the terminal; columns, wrapping, shortening
//!  time.rs    times and durations as people read them
//! ```

pub mod color;
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

/// Writes all of it to standard output. False: nobody reads there any more, as when `head` has seen enough.
pub fn write_out(text: &str) -> bool {
    crate::output::print(text);
    !crate::output::is_closed()
}
