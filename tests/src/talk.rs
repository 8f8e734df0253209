//! The language of conversations: commands as typed in redis-cli, replies as it shows them.
//!
//! - `> COMMAND …` is a command; the lines below it are the expected reply. Without any, every reply but an error is accepted.
//! - Quoting is that of redis-cli: `"…"` with `\n`, `\"`, `\xNN`; `'…'` with `\'` only.
//! - `…` in an expected line matches any text, a line of only `…` all lines that follow.
//! - Lines starting with `#` are comments; indentation up to that of the `>` is ignored.
//! - Strings are shown as redis-cli shows them, except that UTF-8 stays readable and a string containing `"` or `\` is shown in single
//!   quotes, as typed: `'{"role":"user"}'`.

use redis::Value;

/// Splits a line into arguments by redis-cli's rules of quoting.
pub fn split(line: &str) -> Vec<Vec<u8>> {
    let input = line.as_bytes();
    let mut args = Vec::new();
    let mut at = 0;
    loop {
        while at < input.len() && input[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == input.len() {
            return args;
        }
        let mut arg = Vec::new();
        match input[at] {
            quote @ (b'"' | b'\'') => {
                at += 1;
                loop {
                    match (input.get(at), quote) {
                        (None, _) => panic!("unbalanced quotes in {line:.500}"),
                        (Some(&byte), _) if byte == quote => break,
                        (Some(b'\\'), b'\'') if input.get(at + 1) == Some(&b'\'') => {
                            arg.push(b'\'');
                            at += 2;
                        }
                        (Some(b'\\'), b'"') => at += unescape(&input[at + 1..], &mut arg) + 1,
                        (Some(&byte), _) => {
                            arg.push(byte);
                            at += 1;
                        }
                    }
                }
                at += 1;
                assert!(
                    input.get(at).is_none_or(u8::is_ascii_whitespace),
                    "text after a closing quote in {line:.500}"
                );
            }
            _ => {
                while at < input.len() && !input[at].is_ascii_whitespace() {
                    arg.push(input[at]);
                    at += 1;
                }
            }
        }
        args.push(arg);
    }
}

/// Decodes what follows a backslash in double quotes; returns how many bytes that took.
fn unescape(rest: &[u8], arg: &mut Vec<u8>) -> usize {
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    match rest {
        [b'x', high, low, ..] => {
            arg.push(hex(&[*high, *low]).expect("two hexadecimal digits after \\x"));
            3
        }
        [byte, ..] => {
            arg.push(match byte {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                other => *other,
            });
            1
        }
        [] => panic!("a backslash at the end"),
    }
}

/// Quotes a string as it would be typed.
pub fn quote(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let plain = !text.chars().any(char::is_control);
        if plain && text.contains(['"', '\\']) && !text.contains('\'') {
            return format!("'{text}'");
        }
    }
    let mut quoted = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' => quoted += "\\\"",
                '\\' => quoted += "\\\\",
                '\n' => quoted += "\\n",
                '\r' => quoted += "\\r",
                '\t' => quoted += "\\t",
                control if control.is_control() => quoted += &format!("\\x{:02x}", control as u32),
                other => quoted.push(other),
            }
        }
        for byte in chunk.invalid() {
            quoted += &format!("\\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a reply as redis-cli shows it.
pub fn render(value: &Value) -> String {
    match value {
        Value::Nil => "(nil)".into(),
        Value::Int(n) => format!("(integer) {n}"),
        Value::BulkString(bytes) => quote(bytes),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".into(),
        Value::VerbatimString { text, .. } => quote(text.as_bytes()),
        Value::Double(number) => format!("(double) {number}"),
        Value::Boolean(yes) => format!("({yes})"),
        Value::ServerError(error) => match error.details() {
            Some(details) => format!("(error) {} {details}", error.code()),
            None => format!("(error) {}", error.code()),
        },
        Value::Array(items) | Value::Push { data: items, .. } => {
            numbered(items.iter().map(render), ')', "(empty array)")
        }
        Value::Set(items) => numbered(items.iter().map(render), '~', "(empty set)"),
        Value::Map(pairs) => numbered(
            pairs.iter().map(|(key, value)| {
                let key = render(key) + " => ";
                let value = render(value);
                // A nested value of several lines begins on its own line, with a fixed indentation instead of the key's length.
                let indent = "\n".to_string() + &" ".repeat(3);
                if value.contains('\n') {
                    format!("{key}\n{}{}", &indent[1..], value.replace('\n', &indent))
                } else {
                    key + &value
                }
            }),
            '#',
            "(empty hash)",
        ),
        other => format!("({other:?})"),
    }
}

fn numbered(items: impl ExactSizeIterator<Item = String>, mark: char, empty: &str) -> String {
    let width = items.len().to_string().len();
    let lines: Vec<String> = items
        .enumerate()
        .map(|(index, item)| {
            let indent = "\n".to_string() + &" ".repeat(width + 2);
            format!("{:>width$}{mark} {}", index + 1, item.replace('\n', &indent))
        })
        .collect();
    if lines.is_empty() {
        empty.into()
    } else {
        lines.join("\n")
    }
}

/// Returns whether `text` matches `pattern`, in which `…` matches any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().expect("split gives one part at least");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn block_matches(expected: &[String], reply: &str) -> bool {
    let lines: Vec<&str> = reply.lines().collect();
    match expected {
        [head @ .., last] if last == "…" => {
            lines.len() >= head.len() && head.iter().zip(&lines).all(|(pattern, line)| matches(pattern, line))
        }
        _ => {
            lines.len() == expected.len()
                && expected
                    .iter()
                    .zip(&lines)
                    .all(|(pattern, line)| matches(pattern, line))
        }
    }
}

/// One command of a conversation and its expected reply.
pub struct Turn {
    pub command: String,
    pub expected: Vec<String>,
}

impl Turn {
    /// Returns what is wrong with a reply, if anything is.
    pub fn difference(&self, reply: &Value) -> Option<String> {
        let shown = render(reply);
        let fine = match self.expected.is_empty() {
            true => !matches!(reply, Value::ServerError(_)),
            false => block_matches(&self.expected, &shown),
        };
        let expected = match self.expected.is_empty() {
            true => "(anything but an error)".into(),
            false => self.expected.join("\n"),
        };
        (!fine).then(|| {
            format!(
                "\n> {:.2000}\n--- expected\n{expected:.8000}\n--- got\n{shown:.8000}\n",
                self.command
            )
        })
    }
}

pub fn turns(text: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut indent = 0;
    for line in text.lines() {
        let line = line.trim_end();
        let bare = line.trim_start();
        if bare.is_empty() || bare.starts_with('#') {
            continue;
        }
        if let Some(command) = bare.strip_prefix("> ") {
            indent = line.len() - bare.len();
            turns.push(Turn {
                command: command.into(),
                expected: Vec::new(),
            });
            continue;
        }
        let own = (line.len() - bare.len()).min(indent);
        turns
            .last_mut()
            .expect("a conversation starts with a command")
            .expected
            .push(line[own..].into());
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_in_redis_cli() {
        assert_eq!(
            split(r#"A  "b \"c\" \x00\xff" 'd "e" \'' ''"#),
            [&b"A"[..], b"b \"c\" \x00\xff", b"d \"e\" '", b""]
        );
    }

    #[test]
    fn strings_are_shown_as_one_would_type_them() {
        assert_eq!(quote(br#"{"a":1}"#), r#"'{"a":1}'"#);
        assert_eq!(quote("é\0\u{ff}".as_bytes()), "\"é\\x00ÿ\"");
        assert_eq!(quote(b"\xffk"), r#""\xffk""#);
    }

    #[test]
    fn nested_replies_are_indented() {
        let reply = Value::Array(vec![Value::Array(vec![Value::Int(1), Value::Nil]), Value::Okay]);
        assert_eq!(render(&reply), "1) 1) (integer) 1\n   2) (nil)\n2) OK");
    }

    #[test]
    fn three_dots_stand_for_anything() {
        assert!(matches("ERR … 'x'", "ERR syntax error near 'x'"));
        assert!(matches("…", ""));
        assert!(!matches("a…b", "ab c"));
        assert!(!matches("ab", "abc"));
    }
}
