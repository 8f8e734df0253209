//! The terminal's alternate screen. The terminal is restored however the program ends.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{poll, read, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    disable_raw_mode, enable_raw_mode, size, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use crate::failure::{Failure, Result};

pub enum Key {
    Quit,
    Interrupt,
    /// Not a key: the terminal was resized.
    Resize,
}

pub struct Screen(());

impl Screen {
    pub fn open() -> Result<Screen> {
        enable_raw_mode().map_err(|error| failure(&error))?;
        // From here on dropping it restores the terminal.
        let screen = Screen(());
        execute!(io::stdout(), EnterAlternateScreen, Hide).map_err(|error| failure(&error))?;
        Ok(screen)
    }

    /// Draws as many of the lines as fit. `lines` makes them for a number of columns.
    pub fn draw(&mut self, lines: impl FnOnce(usize) -> Vec<String>) -> Result<()> {
        let (columns, rows) = size().map_err(|error| failure(&error))?;
        let lines = lines(usize::from(columns));
        let mut out = io::stdout().lock();
        let mut put = || -> io::Result<()> {
            queue!(out, BeginSynchronizedUpdate)?;
            for (row, line) in (0..rows).zip(&lines) {
                let line = console::truncate_str(line, usize::from(columns), "…");
                queue!(out, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
                out.write_all(line.as_bytes())?;
            }
            if lines.len() < usize::from(rows) {
                queue!(out, MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
            }
            queue!(out, EndSynchronizedUpdate)?;
            out.flush()
        };
        put().map_err(|error| failure(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Returns the key that was pressed, if any.
pub fn key() -> Option<Key> {
    while poll(Duration::ZERO).unwrap_or(false) {
        match read() {
            Ok(Event::Resize(..)) => return Some(Key::Resize),
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Some(Key::Interrupt),
                KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Some(Key::Quit),
                _ => {}
            },
            Ok(_) => {}
            // The terminal is gone.
            Err(_) => return Some(Key::Interrupt),
        }
    }
    None
}

fn failure(error: &io::Error) -> Failure {
    Failure::Output(format!(
        "cannot draw on this terminal ({error})\n--once prints one sample as text."
    ))
}
