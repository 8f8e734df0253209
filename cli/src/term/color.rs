//! Colours: whether to use them, and which. Only the terminal's own sixteen, which suit light and dark themes.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl When {
    /// Whether standard output gets colours.
    pub fn is_on(self) -> bool {
        // https://no-color.org: set and not empty, whatever the value.
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                !is_set("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
                    && std::io::stdout().is_terminal()
            }
        }
    }
}

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = fore(AnsiColor::Green);
pub const BAD: Style = fore(AnsiColor::Red);
pub const WARN: Style = fore(AnsiColor::Yellow);
pub const BUSY: Style = fore(AnsiColor::Blue);
pub const CALL: Style = fore(AnsiColor::Magenta);
pub const NAME: Style = fore(AnsiColor::Cyan);

pub const fn fore(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(color)))
}

/// The style of a role.
pub fn of_role(role: &str) -> Style {
    match role {
        "user" => fore(AnsiColor::Cyan).bold(),
        "assistant" => fore(AnsiColor::Green).bold(),
        "tool" => fore(AnsiColor::Magenta).bold(),
        "system" | "developer" => fore(AnsiColor::Yellow).bold(),
        _ => BOLD,
    }
}

/// Whether a state, an event type or an outcome sounds good or bad. They are free text, so this is a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mood {
    Good,
    Bad,
    Waiting,
    Busy,
    Neutral,
}

impl Mood {
    pub fn of(word: &str) -> Mood {
        let word = word.to_lowercase();
        let sounds = |words: &[&str]| words.iter().any(|begin| word.starts_with(begin));
        if sounds(&[
            "broke",
            "fail",
            "err",
            "abort",
            "crash",
            "reject",
            "cancel",
            "timeout",
            "timed_out",
        ]) {
            Mood::Bad
        } else if sounds(&[
            "pass",
            "ok",
            "done",
            "success",
            "complete",
            "resolv",
            "approv",
            "fixed",
            "succeeded",
        ]) {
            Mood::Good
        } else if sounds(&[
            "wait", "review", "block", "paus", "hold", "pending", "escalat", "warn", "restored",
        ]) {
            Mood::Waiting
        } else if sounds(&["work", "run", "active", "busy", "start", "progress", "in_progress"]) {
            Mood::Busy
        } else {
            Mood::Neutral
        }
    }

    pub fn style(self) -> Style {
        match self {
            Mood::Good => GOOD,
            Mood::Bad => BAD,
            Mood::Waiting => WARN,
            Mood::Busy => BUSY,
            Mood::Neutral => NAME,
        }
    }
}

/// Applies styles to text if colours are on.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub is_on: bool,
}

impl Paint {
    /// Applies a style. The text must be clean: it is written as it is.
    pub fn put(self, style: Style, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub fn dim(self, text: &str) -> String {
        self.put(DIM, text)
    }

    pub fn bold(self, text: &str) -> String {
        self.put(BOLD, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_ends_where_the_text_ends_and_is_nothing_when_off() {
        assert_eq!(Paint { is_on: true }.put(BAD, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Paint { is_on: false }.put(BAD, "x"), "x");
    }

    #[test]
    fn moods_are_guessed_from_how_a_word_begins() {
        let moods = ["broke", "Failed", "passed", "working", "awaiting", "waiting_for_user"].map(Mood::of);
        let expected = [
            Mood::Bad,
            Mood::Bad,
            Mood::Good,
            Mood::Busy,
            Mood::Neutral,
            Mood::Waiting,
        ];
        assert_eq!(moods, expected);
    }
}
