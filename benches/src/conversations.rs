//! Conversations to measure memory with: recorded ones if available, else generated ones with the same structure.

use crate::bodies::Sequence;
use crate::Result;
use std::path::Path;

/// Recorded conversations that are not part of the project: one JSON object with `messages` per line.
const RECORDED: &str = "../shared/data/airline-conversations.jsonl";

pub struct Dataset {
    pub name: &'static str,
    /// The JSON bodies of each conversation, compact and in UTF-8, as a client would send them.
    pub conversations: Vec<Vec<String>>,
}

impl Dataset {
    /// Loads the recorded ones if they exist and `generated_only` is false, else generates some.
    pub fn load(generated_only: bool) -> Result<Dataset> {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(RECORDED);
        if generated_only || !recorded.exists() {
            return Ok(Dataset {
                name: "generated conversations",
                conversations: (0..50).map(generated).collect(),
            });
        }
        let text = std::fs::read_to_string(recorded)?;
        let conversations = text
            .lines()
            .map(|line| messages_of(line).ok_or("a line without messages"))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Dataset {
            name: "recorded conversations",
            conversations,
        })
    }

    pub fn messages(&self) -> usize {
        self.conversations.iter().map(Vec::len).sum()
    }

    pub fn bytes(&self) -> usize {
        self.conversations.iter().flatten().map(String::len).sum()
    }
}

/// Returns the elements of a line's `messages`. Works on the text, because a parsed document would lose the order of members.
fn messages_of(line: &str) -> Option<Vec<String>> {
    let line = compact(line);
    let begin = line.find(r#""messages":["#)? + r#""messages":["#.len();
    let (mut depth, mut quoted, mut escaped, mut element) = (0, false, false, begin);
    let mut messages = Vec::new();
    for (at, c) in line[begin..].char_indices().map(|(at, c)| (at + begin, c)) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            ']' if depth == 0 => return Some(messages),
            '}' | ']' => {
                depth -= 1;
                if depth == 0 {
                    messages.push(line[element..=at].to_owned());
                }
            }
            ',' if depth == 0 => element = at + 1,
            _ => {}
        }
    }
    None
}

/// Returns the same JSON without white space between tokens, and with `\u` escapes beyond ASCII decoded.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut quoted = false;
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => match unescaped(rest) {
                Some((character, length)) => {
                    out.push(character);
                    rest = &rest[length..];
                    continue;
                }
                None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            },
            _ => c.len_utf8(),
        };
        if c == '"' {
            quoted = !quoted;
        }
        if quoted || !c.is_ascii_whitespace() {
            out.push_str(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    out
}

/// Returns the character of a leading `\uXXXX` (or a pair of them) and the length of the escape, if it is beyond ASCII.
fn unescaped(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let first = unit(text)?;
    let units = [first, unit(&text[6..]).unwrap_or(0)];
    let character = char::decode_utf16(units).next()?.ok()?;
    (!character.is_ascii()).then_some((character, 6 * character.len_utf16()))
}

/// Generates a customer-service conversation with tool calls: a policy of some kilobytes that all of them share, then about two dozen
/// messages, most of them short, some with long tool results.
fn generated(number: usize) -> Vec<String> {
    let quote = |text: &str| serde_json::to_string(text).expect("a string is JSON");
    let mut sequence = Sequence::seeded(77 + number as u64);
    let policy = Sequence::seeded(1).text(6_200).replace(". ", ".\n\n");
    let mut messages = vec![format!(r#"{{"role":"system","content":{}}}"#, quote(&policy))];
    for turn in 0..5 + sequence.below(4) {
        let (bytes, id) = (60 + sequence.below(160), format!("call_{:024x}", number * 1000 + turn));
        messages.push(format!(
            r#"{{"role":"user","content":{}}}"#,
            quote(&sequence.text(bytes))
        ));
        if turn % 2 == 0 {
            let arguments = format!(
                r#"{{"reservation_id":"{:06X}","note":"{}"}}"#,
                sequence.below(1 << 24),
                sequence.text(40)
            );
            messages.push(format!(
                r#"{{"content":null,"role":"assistant","tool_calls":[{{"function":{{"arguments":{},"name":"get_reservation_details"}},"id":"{id}","type":"function"}}]}}"#,
                quote(&arguments)
            ));
            let flights: Vec<String> = (0..1 + sequence.below(4))
                .map(|_| {
                    let (flight, price) = (sequence.below(300), sequence.below(900));
                    format!(
                        r#"{{"flight_number":"HAT{flight:03}","date":"2024-05-{:02}","price":{price},"note":"{}"}}"#,
                        1 + flight % 28,
                        sequence.text(60)
                    )
                })
                .collect();
            let content = format!(r#"{{"status":"ok","flights":[{}]}}"#, flights.join(", "));
            messages.push(format!(
                r#"{{"role":"tool","tool_call_id":"{id}","name":"get_reservation_details","content":{}}}"#,
                quote(&content)
            ));
        }
        let bytes = 120 + sequence.below(500);
        messages.push(format!(
            r#"{{"content":{},"role":"assistant"}}"#,
            quote(&sequence.text(bytes))
        ));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_a_line_as_they_stand() {
        let line = r#"{"task_id":1, "messages":[ {"role":"user","content":"a ] , \" b"} , {"z":[1,{"a":2}],"b":null}], "x":[]}"#;
        let expected = [
            r#"{"role":"user","content":"a ] , \" b"}"#,
            r#"{"z":[1,{"a":2}],"b":null}"#,
        ];
        assert_eq!(messages_of(line).unwrap(), expected);
    }

    #[test]
    fn escapes_of_other_alphabets_are_written_out() {
        assert_eq!(
            compact(r#"{"a": "\u00e9 \ud83d\ude00 \n \\u00e9 \u0007"}"#),
            r#"{"a":"é 😀 \n \\u00e9 \u0007"}"#
        );
    }

    #[test]
    fn generated_conversations_are_seeded_json() {
        assert_eq!(generated(3), generated(3));
        assert_ne!(generated(3)[1..], generated(4)[1..]);
        for message in (0..50).flat_map(generated) {
            let value: serde_json::Value = serde_json::from_str(&message).unwrap();
            assert!(value["role"].is_string(), "{message}");
        }
    }
}
