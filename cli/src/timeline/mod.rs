//! `redis-session timeline`: draws the events and states of a session.
//!
//! ```text
//!  mod.rs     the flags
//!  model.rs   lanes, marks, states: what both forms are drawn from
//!  scale.rs   positions of times; long silences are left out
//!  text.rs    for a terminal
//!  svg/       for a page
//! ```

mod model;
mod scale;
mod svg;
mod text;

use std::path::PathBuf;

use clap::Args;

use crate::connection::{self, Router};
use crate::failure::{Failure, Result};
use crate::session::locate::Which;
use crate::session::snapshot::Snapshot;
use crate::term::output;
use crate::term::page::Page;
use crate::Outcome;

use model::Timeline;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    which: Which,
    /// Draw it as SVG into this file, or to standard output with -
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Colours of the SVG; auto: as whoever looks at it has it
    #[arg(long, value_name = "THEME", value_enum, default_value_t, requires = "svg")]
    theme: svg::Theme,
    /// A line for each event, however many there are
    #[arg(long, conflicts_with = "svg")]
    all: bool,
    #[command(flatten)]
    page: Page,
}

pub fn run(connection: &connection::Flags, flags: &Flags) -> Result<Outcome> {
    let mut router = Router::connect(connection)?;
    let key = flags.which.find(&mut router)?;
    let snapshot = Snapshot::read(&mut router, &key, None)?;
    let Some(timeline) = Timeline::of(&snapshot) else {
        return Err(Failure::NotFound(format!(
            "nothing has been said or recorded in '{}' yet, so there is nothing to draw.\n\
             SESSION.EVENT ADD records events; `redis-session show` has what is known otherwise.",
            crate::term::text::key_text(&key)
        )));
    };
    let Some(file) = &flags.svg else {
        output::print(&text::page(&timeline, &flags.page.look(), flags.all));
        return Ok(Outcome::Fine);
    };
    let drawing = svg::drawing(&timeline, &flags.page.clock(), flags.theme);
    if file.as_os_str() == "-" {
        output::print(&drawing);
    } else {
        std::fs::write(file, drawing)
            .map_err(|error| Failure::Output(format!("cannot write {}: {error}", file.display())))?;
    }
    Ok(Outcome::Fine)
}
