//! The command table of the running module: `COMMAND LIST`, `COMMAND INFO` and `COMMAND DOCS`. Tests that must cover every
//! command take their list from here, so that new commands are included automatically.

use std::collections::BTreeSet;

use redis::Value;

use crate::client::{entry, int, items, text};
use crate::Server;

/// A command, or a subcommand of a group.
#[derive(Clone, Debug)]
pub struct Command {
    /// In upper case, as typed: `SESSION.APPEND`, `SESSION.ENTITY MENTION`.
    pub name: String,
    /// Number of words, including the name; negative: the minimum number.
    pub arity: i64,
    pub flags: BTreeSet<String>,
    pub arguments: Vec<Argument>,
}

impl Command {
    /// Returns whether it changes data.
    pub fn is_write(&self) -> bool {
        self.flags.contains("write")
    }

    /// Returns whether it describes its group rather than using a key.
    pub fn is_help(&self) -> bool {
        self.name.ends_with(" HELP")
    }

    /// Returns whether it takes the options of every write of a session, of which `IFVERSION` is one.
    pub fn takes_write_options(&self) -> bool {
        self.tokens().contains("IFVERSION")
    }

    /// Returns whether a line, as typed, is a call of this command.
    pub fn is_called_by(&self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        self.name
            .split(' ')
            .all(|part| words.next().is_some_and(|word| word.eq_ignore_ascii_case(part)))
    }

    /// Returns every option word of its grammar.
    pub fn tokens(&self) -> BTreeSet<String> {
        let mut tokens = BTreeSet::new();
        for argument in &self.arguments {
            argument.collect_tokens(&mut tokens);
        }
        tokens
    }
}

/// An argument as `COMMAND DOCS` describes it.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    pub kind: Kind,
    /// The word before the value; for a [`Kind::PureToken`] the word itself.
    pub token: Option<String>,
    pub optional: bool,
    pub multiple: bool,
    /// Repeats together with its token.
    pub multiple_token: bool,
    /// The choices of a [`Kind::OneOf`], the parts of a [`Kind::Block`].
    pub parts: Vec<Argument>,
}

impl Argument {
    fn collect_tokens(&self, tokens: &mut BTreeSet<String>) {
        tokens.extend(self.token.clone());
        for part in &self.parts {
            part.collect_tokens(tokens);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    Str,
    Int,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

/// Asserts that a list of examples has one for each of these commands, except for those in `without`, each with its reason. The commands in
/// `without` must exist and have no example.
#[track_caller]
pub fn assert_examples<'a, E: AsRef<str>>(
    commands: impl IntoIterator<Item = &'a Command>,
    examples: impl IntoIterator<Item = E>,
    without: &[(&str, &str)],
) {
    let examples: Vec<E> = examples.into_iter().collect();
    let mut unknown: BTreeSet<&str> = without.iter().map(|(name, _)| *name).collect();
    let (mut missing, mut needless) = (Vec::new(), Vec::new());
    for command in commands {
        let has_example = examples.iter().any(|line| command.is_called_by(line.as_ref()));
        match (has_example, unknown.remove(command.name.as_str())) {
            (false, false) => missing.push(&command.name),
            (true, true) => needless.push(&command.name),
            _ => {}
        }
    }
    assert!(missing.is_empty(), "this test needs an example of {missing:?}");
    assert!(
        needless.is_empty(),
        "there are examples of {needless:?}: they need no exception"
    );
    assert!(
        unknown.is_empty(),
        "exceptions for what is none of these commands: {unknown:?}"
    );
}

impl Server {
    /// Returns every command and subcommand of the running module, by name. Groups are not included.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for name in items(&self.run("COMMAND LIST FILTERBY MODULE session")) {
            let name = text(&name);
            let subcommands = self.subcommands_of(&name);
            if subcommands.is_empty() {
                commands.push(self.command(&name));
            }
            commands.extend(subcommands.iter().map(|name| self.command(name)));
        }
        commands.sort_by(|one, other| one.name.cmp(&other.name));
        // Some servers list subcommands next to their group.
        commands.dedup_by(|one, other| one.name == other.name);
        assert!(commands.len() > 30, "the module has its commands: {commands:?}");
        commands
    }

    /// Returns the names of a group's subcommands, in the server's form: `session.entity|mention`.
    fn subcommands_of(&self, group: &str) -> Vec<String> {
        let info = self.command_info(group);
        let subcommands = items(info.last().expect("the subcommands"));
        subcommands.iter().map(|info| text(&items(info)[0])).collect()
    }

    fn command_info(&self, name: &str) -> Vec<Value> {
        items(&items(&self.call(&["COMMAND", "INFO", name]))[0])
    }

    fn command(&self, name: &str) -> Command {
        let info = self.command_info(name);
        let docs = items(&self.call(&["COMMAND", "DOCS", name]))[1].clone();
        let has_arguments = fields(&docs).any(|(field, _)| field == "arguments");
        Command {
            name: name.replace('|', " ").to_uppercase(),
            arity: int(&info[1]),
            flags: items(&info[2]).iter().map(text).collect(),
            arguments: match has_arguments {
                true => items(&entry(&docs, "arguments")).iter().map(argument).collect(),
                false => Vec::new(),
            },
        }
    }
}

/// Returns the fields of a flat map, as in RESP2.
fn fields(map: &Value) -> impl Iterator<Item = (String, Value)> {
    let flat = items(map);
    let pairs: Vec<(String, Value)> = flat.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect();
    pairs.into_iter()
}

fn argument(docs: &Value) -> Argument {
    let mut argument = Argument {
        name: String::new(),
        kind: Kind::Str,
        token: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        parts: Vec::new(),
    };
    for (field, value) in fields(docs) {
        match field.as_str() {
            "name" => argument.name = text(&value),
            "token" => argument.token = Some(text(&value)),
            "type" => {
                argument.kind = match text(&value).as_str() {
                    "key" => Kind::Key,
                    "string" => Kind::Str,
                    "integer" => Kind::Int,
                    "unix-time" => Kind::UnixTime,
                    "pure-token" => Kind::PureToken,
                    "oneof" => Kind::OneOf,
                    "block" => Kind::Block,
                    other => panic!("arguments of type {other} are not known here: add the type"),
                }
            }
            "flags" => {
                for flag in items(&value).iter().map(text) {
                    match flag.as_str() {
                        "optional" => argument.optional = true,
                        "multiple" => argument.multiple = true,
                        "multiple_token" => argument.multiple_token = true,
                        other => panic!("arguments with the flag {other} are not known here: add the flag"),
                    }
                }
            }
            "arguments" => argument.parts = items(&value).iter().map(self::argument).collect(),
            // The fields that describe a command to users, and the key spec of a key.
            "display_text" | "key_spec_index" | "summary" | "since" => {}
            other => panic!("the field {other} of an argument is not known here: add it"),
        }
    }
    argument
}
