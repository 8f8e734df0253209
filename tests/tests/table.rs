//! Checks the tests against the command table of the running module: each command must be run by a test.

use std::fs;

use redis_session_tests::module::project_root;
use redis_session_tests::Server;

/// Files without handwritten commands: this one, and the generated sentences.
const GENERATED: [&str; 2] = ["table.rs", "grammar.rs"];

/// Returns the text of every string literal of a Rust source, without comments.
fn literals(source: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut rest = source;
    while let Some(char) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else if rest.starts_with("'\"'") || rest.starts_with(r"'\''") {
            rest = &rest[3..];
        } else if let Some((opening, hashes)) = raw_opening(rest) {
            let closing = format!("\"{}", "#".repeat(hashes));
            let body = &rest[opening..];
            let end = body.find(&closing).expect("a raw string ends");
            literals.push(body[..end].to_owned());
            rest = &body[end + closing.len()..];
        } else if char == '"' {
            let body = &rest[1..];
            let mut escaped = false;
            let end = body.find(|char| {
                let is_end = char == '"' && !escaped;
                escaped = char == '\\' && !escaped;
                is_end
            });
            let end = end.expect("a string ends");
            literals.push(body[..end].to_owned());
            rest = &body[end + 1..];
        } else {
            // An `r` at the end of a word opens no raw string.
            let word = rest
                .find(|char: char| !(char.is_alphanumeric() || char == '_'))
                .unwrap_or(rest.len());
            let is_raw_prefix = matches!(&rest[..word], "r" | "br");
            rest = &rest[if word > 0 && !is_raw_prefix {
                word
            } else {
                char.len_utf8()
            }..];
        }
    }
    literals
}

/// Parses the opening of `r#"`: its length, and its number of hashes.
fn raw_opening(text: &str) -> Option<(usize, usize)> {
    let prefix = if text.starts_with("br") { 2 } else { 1 };
    let behind = text.strip_prefix("br").or(text.strip_prefix('r'))?;
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    behind[hashes..]
        .starts_with('"')
        .then_some((prefix + hashes + 1, hashes))
}

/// Returns the lines that a literal sends: those of a conversation, or the whole literal if it is a command.
fn sent(literal: &str) -> impl Iterator<Item = &str> {
    literal
        .lines()
        .map(str::trim_start)
        .map(|line| line.strip_prefix("> ").unwrap_or(line))
}

#[test]
fn every_command_is_said_in_a_test() {
    let folder = project_root().join("tests/tests");
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).expect("the tests") {
        let path = entry.expect("an entry of the folder").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !GENERATED.contains(&name.as_str()) {
            let source = fs::read_to_string(&path).expect("a source file");
            lines.extend(
                literals(&source)
                    .iter()
                    .flat_map(|literal| sent(literal))
                    .map(str::to_owned),
            );
        }
    }
    assert!(lines.len() > 5000, "the tests were read: {} lines", lines.len());
    let commands = Server::start().commands();
    let missing: Vec<&str> = commands
        .iter()
        .filter(|command| !lines.iter().any(|line| command.is_called_by(line)))
        .map(|command| command.name.as_str())
        .collect();
    assert!(missing.is_empty(), "no test says {missing:?}");
}

#[test]
fn comments_and_code_are_not_literals() {
    let source = r###"
        // "SESSION.A"
        /* "SESSION.B" */
        let r = attr("one \" 'two'"); let c = '"'; let d = r#"three " four"#; let e = br"five"; let f = b"six";
    "###;
    assert_eq!(literals(source), [r#"one \" 'two'"#, r#"three " four"#, "five", "six"]);
    let conversation = "\n  > SESSION.A k\n  (integer) 1\n  # SESSION.B k\n";
    let said: Vec<&str> = sent(conversation).filter(|line| line.starts_with("SESSION.")).collect();
    assert_eq!(said, ["SESSION.A k"]);
}
