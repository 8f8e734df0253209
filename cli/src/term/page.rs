//! The flags that say how output looks, and the settings that follow from them.

use clap::Args;

use super::color::{Paint, When};
use super::text::width;
use super::time::{self, Clock};

/// The flags of commands that show a conversation.
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

/// The flags of commands that fill a page.
#[derive(Args, Debug, Clone)]
pub struct Page {
    /// Times in UTC, not in the time zone of this machine (TZ)
    #[arg(long)]
    utc: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: When,
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
    pub fn clock(&self) -> Clock {
        Clock::new(self.utc)
    }

    /// The settings of a page, with tool calls folded and long texts shortened.
    pub fn look(&self) -> Look {
        Look {
            columns: super::columns(self.width.map(usize::from)),
            paint: Paint {
                is_on: self.color.is_on(),
            },
            clock: self.clock(),
            now_ms: time::now_ms(),
            are_tools_open: false,
            is_full: false,
        }
    }
}

/// How output looks: width, colours, time zone, and what is shown in full.
pub struct Look {
    pub columns: usize,
    pub paint: Paint,
    pub clock: Clock,
    pub now_ms: i64,
    /// Tool calls and results in full.
    pub are_tools_open: bool,
    /// Nothing is shortened.
    pub is_full: bool,
}

impl Look {
    /// A rule with text in it: `── Entities ──────── 12 ──`.
    pub fn rule(&self, left: &str, right: &str) -> String {
        let taken = width(left) + width(right) + 9;
        let line = format!(
            "── {left} {} {right} ──",
            "─".repeat(self.columns.saturating_sub(taken))
        );
        self.paint.dim(&line)
    }
}
