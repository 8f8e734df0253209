//! `--askpass`: reads a password without echo.

use std::io::{BufRead, IsTerminal, Write};

use crossterm::event::{read, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::failure::{Failure, Result};

pub fn ask() -> Result<String> {
    let unreadable = |error| Failure::Usage(format!("cannot read a password ({error}): give it in REDISCLI_AUTH"));
    if !std::io::stdin().is_terminal() {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(unreadable)?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    eprint!("Please input password: ");
    let _ = std::io::stderr().flush();
    enable_raw_mode().map_err(unreadable)?;
    let typed = type_in();
    let restored = disable_raw_mode();
    eprintln!();
    restored.map_err(unreadable)?;
    typed
        .map_err(unreadable)?
        .ok_or_else(|| Failure::Usage("no password was given".into()))
}

/// Reads the keys; `None` if the user cancelled.
fn type_in() -> std::io::Result<Option<String>> {
    let mut password = String::new();
    loop {
        let Event::Key(key) = read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Ok(Some(password)),
            KeyCode::Esc => return Ok(None),
            KeyCode::Char('c' | 'd') if is_control => return Ok(None),
            KeyCode::Char('u') if is_control => password.clear(),
            KeyCode::Backspace => {
                password.pop();
            }
            KeyCode::Char(char) => password.push(char),
            _ => {}
        }
    }
}
