//! Makes text from a server safe for a terminal: nothing in it can move the cursor, change colours or the direction of writing.

use std::fmt::Write as _;

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

const TAB_COLUMNS: usize = 4;

/// Replaces the characters that a terminal would obey by visible ones: pictures of control characters, or their numbers.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut column = 0;
    while let Some(char) = chars.next() {
        match char {
            '\r' if chars.peek() == Some(&'\n') => continue,
            '\n' | '\u{2028}' | '\u{2029}' => {
                out.push('\n');
                column = 0;
                continue;
            }
            '\t' => {
                let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
                continue;
            }
            // Unicode has pictures of the old control characters.
            '\0'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(char))),
            '\u{7f}' => out.push('\u{2421}'),
            _ if is_unsafe(char) => out.push_str(&format!("<U+{:04X}>", u32::from(char))),
            _ => out.push(char),
        }
        column += 1;
    }
    out
}

/// As [`clean`], on one line.
pub fn clean_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

/// C1 control characters, which some terminals obey as they do escapes, and characters that change the direction of writing or are invisible.
fn is_unsafe(char: char) -> bool {
    matches!(char,
        '\u{80}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes the control characters in JSON that a terminal would obey. In valid JSON they occur in strings only, where an escape means the same.
pub fn clean_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out
}

/// A key as one line of text: control characters, and bytes that are not UTF-8, as `\xNN`.
pub fn key_text(key: &[u8]) -> String {
    let mut text = String::new();
    for chunk in key.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                control if control.is_control() => {
                    let _ = write!(text, "\\x{:02x}", u32::from(control));
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The number of columns that the text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Shortens text to a number of columns, with an ellipsis.
pub fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for char in text.chars() {
        out.push(char);
        if width(&out) + 1 > columns {
            out.pop();
            break;
        }
    }
    while out.ends_with(' ') {
        out.pop();
    }
    out.push('…');
    out
}

/// Pads text with spaces to a number of columns.
pub fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Wraps clean text to a number of columns. Continuation lines keep the indentation, and that of a bullet.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.trim_end();
        let indent = " ".repeat(hanging_indent(line).min(columns / 2));
        let options = Options::new(columns)
            .subsequent_indent(&indent)
            .word_splitter(WordSplitter::NoHyphenation);
        out.extend(textwrap::wrap(line, options).into_iter().map(|line| line.into_owned()));
    }
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    out
}

/// The indentation of a paragraph's second line: that of its first, plus the width of a bullet or a number.
fn hanging_indent(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let spaces = line.len() - text.len();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let bullet = match text.as_bytes() {
        [b'-' | b'*' | b'+', b' ', ..] => 2,
        bytes if (1..=3).contains(&digits) && matches!(bytes.get(digits), Some(b'.' | b')')) => digits + 2,
        _ => 0,
    };
    spaces + bullet
}

/// A number with commas between its thousands: `12,345`.
pub fn grouped(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0 {
        out.insert(0, '-');
    }
    out
}

/// A number of bytes with a binary unit: `4.1 KiB`.
pub fn byte_size(bytes: i64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ if size < 10.0 => format!("{size:.1} {unit}"),
                _ => format!("{size:.0} {unit}"),
            };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_obeys_is_left() {
        let evil = "a\u{1b}[31mred\u{7}\u{9b}2J\u{202e}abc\u{7f}\r\nnext\rover\u{feff}\0";
        let out = clean(evil);
        assert_eq!(out, "a␛[31mred␇<U+009B>2J<U+202E>abc␡\nnext␍over<U+FEFF>␀");
        assert!(clean_line(evil).chars().all(|char| !char.is_control()));
        assert_eq!(clean("a\tb\n\tc"), "a   b\n    c");
    }

    #[test]
    fn clean_json_is_the_same_json() {
        let json = "{\"a\":\"\u{9b}2J\u{7f}é\"}";
        let clean = clean_json(json);
        assert!(clean.chars().all(|char| !char.is_control()), "{clean}");
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(json), parse(&clean));
    }

    #[test]
    fn lines_fit_in_columns_and_not_in_bytes() {
        let text = "Flüge nach Zürich 東京行きの便を予約したいです お願いします https://example.com/a/very/long/path/that/does/not/fit";
        let lines = wrap(text, 24);
        assert!(lines.iter().all(|line| width(line) <= 24), "{lines:?}");
        let joined: String = lines.concat().replace(' ', "");
        assert_eq!(joined, text.replace(' ', ""), "nothing is lost");
    }

    #[test]
    fn what_follows_a_bullet_stays_behind_it() {
        assert_eq!(
            wrap(
                "Flights:\n- one two three four\n  1. five six seven eight\n\nend\n\n",
                16
            ),
            [
                "Flights:",
                "- one two three",
                "  four",
                "  1. five six",
                "     seven eight",
                "",
                "end"
            ]
        );
    }

    #[test]
    fn shortened_text_fits() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("東京東京", 5), "東京…");
        assert_eq!(shorten("ab cd", 4), "ab…");
        assert_eq!(grouped(-1234567), "-1,234,567");
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(
            [0, 1023, 1024, 20_000, 5 << 20, 3 << 40].map(byte_size),
            ["0 B", "1023 B", "1.0 KiB", "20 KiB", "5.0 MiB", "3.0 TiB"]
        );
    }
}
