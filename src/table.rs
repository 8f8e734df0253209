//! Commands as data. Each command's file holds its row; registration, `COMMAND DOCS`, redis-cli's hints, ACL categories and the reference
//! page in `docs/` are generated from the rows.

use crate::ffi::Entry;

/// One command, or one group of subcommands.
pub struct Command {
    /// `SESSION.APPEND`; for a subcommand its own word, such as `MENTION`.
    pub name: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    pub since: &'static str,
    /// Number of words including the name (for a subcommand: both names); if negative, the minimum number.
    pub arity: i32,
    /// The server's command flags: `write deny-oom fast`.
    pub flags: &'static str,
    /// ACL categories (`read write fast slow`); the module's own category is added if the server supports one.
    pub acl: &'static str,
    /// Every key that the command touches, in the order of its arguments of kind [`Kind::Key`].
    pub keys: &'static [KeySpec],
    pub args: &'static [ArgSpec],
    /// The reply, as one line of the reference page, which a unit test generates.
    #[cfg_attr(not(test), allow(dead_code))]
    pub reply: &'static str,
    /// What the reference page adds to the summary, in Markdown.
    #[cfg_attr(not(test), allow(dead_code))]
    pub details: &'static str,
    pub entry: Entry,
    pub subcommands: &'static [Command],
}

impl Command {
    /// For `..Command::BLANK`: a group without subcommands.
    pub const BLANK: Command = Command {
        name: "",
        summary: "",
        complexity: "O(1)",
        since: "0.1.0",
        arity: -2,
        flags: "",
        acl: "",
        keys: &[],
        args: &[],
        reply: "",
        details: "",
        entry: Entry::GROUP,
        subcommands: &[],
    };
}

/// The position of one key among a command's words, and its access.
pub struct KeySpec {
    pub place: Place,
    pub access: Access,
}

/// The position of a key among a command's words.
#[derive(Clone, Copy)]
pub enum Place {
    /// Counted as in `argv`: 1 is the word after the command's name, 2 after a subcommand's.
    At(i32),
    /// Among an option's values. It is found by walking over the words (see [`crate::keys`]), for which the command's entry must be
    /// [`crate::ffi::entry_with_keys`].
    InOption,
}

impl KeySpec {
    pub const fn at(at: i32, access: Access) -> Self {
        KeySpec {
            place: Place::At(at),
            access,
        }
    }

    /// Describes the key, or each of the keys, among an option's values.
    pub const fn in_option(access: Access) -> Self {
        KeySpec {
            place: Place::InOption,
            access,
        }
    }
}

/// The server's key-spec flags: how the key is opened, and how its data is used. For `ACCESS` an ACL requires read permission, for
/// `INSERT`, `UPDATE` and `DELETE` write permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u64);

impl Access {
    const RO: u64 = 1 << 0;
    const RW: u64 = 1 << 1;
    const OW: u64 = 1 << 2;
    const ACCESS: u64 = 1 << 4;
    const UPDATE_DATA: u64 = 1 << 5;
    const INSERT_DATA: u64 = 1 << 6;
    const DELETE_DATA: u64 = 1 << 7;

    /// Returns data of the key.
    pub const READ: Access = Access(Self::RO | Self::ACCESS);
    /// Returns metadata of the key, such as its length.
    pub const LOOK: Access = Access(Self::RO);
    /// Adds data and returns none.
    pub const INSERT: Access = Access(Self::RW | Self::INSERT_DATA);
    /// Adds data, and returns some of the existing data.
    pub const READ_INSERT: Access = Access(Self::RW | Self::ACCESS | Self::INSERT_DATA);
    /// Changes data and returns none.
    pub const CHANGE: Access = Access(Self::RW | Self::UPDATE_DATA);
    /// Changes data, and may return some.
    pub const UPDATE: Access = Access(Self::RW | Self::ACCESS | Self::UPDATE_DATA);
    /// Removes data, and may return some.
    pub const DELETE: Access = Access(Self::RW | Self::ACCESS | Self::DELETE_DATA);
    /// Replaces the key, whatever it holds.
    pub const OVERWRITE: Access = Access(Self::OW | Self::UPDATE_DATA);
}

/// One argument, or a group of them, as `COMMAND DOCS` describes it.
#[derive(Clone, Copy)]
pub struct ArgSpec {
    pub name: &'static str,
    pub kind: Kind,
    /// The option word before the value, or the word itself of a [`Kind::PureToken`].
    pub token: Option<&'static str>,
    pub optional: bool,
    pub multiple: bool,
    /// Repeats together with its token.
    pub multiple_token: bool,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Key,
    Str,
    Int,
    UnixTime,
    PureToken,
    OneOf(&'static [ArgSpec]),
    Block(&'static [ArgSpec]),
}

/// Makes a required argument.
pub const fn arg(name: &'static str, kind: Kind) -> ArgSpec {
    ArgSpec {
        name,
        kind,
        token: None,
        optional: false,
        multiple: false,
        multiple_token: false,
    }
}

/// Makes a key argument; the nth of a command belongs to the nth of [`Command::keys`].
pub const fn key(name: &'static str) -> ArgSpec {
    arg(name, Kind::Key)
}

/// Puts an option word before `spec`: `token("COUNT", arg("count", Kind::Int))`.
pub const fn token(token: &'static str, mut spec: ArgSpec) -> ArgSpec {
    spec.token = Some(token);
    spec
}

/// Makes an argument that is a fixed word.
pub const fn word(text: &'static str) -> ArgSpec {
    token(text, arg(text, Kind::PureToken))
}

/// Makes an optional fixed word.
pub const fn flag(text: &'static str) -> ArgSpec {
    opt(word(text))
}

pub const fn opt(mut spec: ArgSpec) -> ArgSpec {
    spec.optional = true;
    spec
}

/// Makes `spec` repeatable, with its option word once.
pub const fn many(mut spec: ArgSpec) -> ArgSpec {
    spec.multiple = true;
    spec
}

/// Makes `spec` repeatable, with its option word before each.
pub const fn many_token(mut spec: ArgSpec) -> ArgSpec {
    spec.multiple = true;
    spec.multiple_token = true;
    spec
}

/// Makes an argument that is exactly one of `choices`.
pub const fn one_of(name: &'static str, choices: &'static [ArgSpec]) -> ArgSpec {
    arg(name, Kind::OneOf(choices))
}

/// Makes an argument that is all of `parts`, in this order.
pub const fn block(name: &'static str, parts: &'static [ArgSpec]) -> ArgSpec {
    arg(name, Kind::Block(parts))
}

/// Generates the reference page of these commands, in Markdown.
#[cfg(test)]
pub fn reference(commands: &[&Command]) -> String {
    let mut page = String::from(
        "# Commands\n\nGenerated from the command table (`UPDATE_DOCS=1 cargo test -p redis-session --lib`): do not edit it by hand.\n\n\
         Every command that writes a session takes `[IFVERSION version] [LEASE token] [AT ms] [EX s | PX ms | PXAT ms | PERSIST | KEEPTTL]`, which are\n\
         described once in [architecture.md](architecture.md#what-every-writing-command-does).\n",
    );
    let mut rows = Vec::new();
    for command in commands {
        if command.subcommands.is_empty() {
            rows.push((command.name.to_owned(), *command));
        }
        for subcommand in command.subcommands {
            rows.push((format!("{} {}", command.name, subcommand.name), subcommand));
        }
    }
    page.push_str("\n| command | summary |\n|---|---|\n");
    for (name, command) in &rows {
        let anchor = name.to_lowercase().replace('.', "").replace(' ', "-");
        page.push_str(&format!("| [`{name}`](#{anchor}) | {} |\n", command.summary));
    }
    for (name, command) in &rows {
        page.push_str(&format!("\n## {name}\n\n```\n{name}"));
        for arg in command.args {
            page.push(' ');
            page.push_str(&grammar(arg));
        }
        page.push_str(&format!("\n```\n\n{}.\n\n", command.summary));
        if !command.details.is_empty() {
            page.push_str(&format!("{}\n\n", command.details));
        }
        page.push_str(&format!("- Reply: {}\n", command.reply));
        page.push_str(&format!("- Cost: {}\n", command.complexity));
        page.push_str(&format!(
            "- Flags: `{}`; ACL categories: `@{}`\n",
            command.flags,
            command.acl.replace(' ', " @")
        ));
        page.push_str(&format!("- Since: {}\n", command.since));
    }
    page
}

/// Returns one argument in the syntax of redis-cli's hints.
pub fn grammar(arg: &ArgSpec) -> String {
    let all = |parts: &[ArgSpec], between: &str| parts.iter().map(grammar).collect::<Vec<_>>().join(between);
    let value = match arg.kind {
        Kind::PureToken => String::new(),
        Kind::OneOf(choices) => all(choices, " | "),
        Kind::Block(parts) => all(parts, " "),
        _ => arg.name.to_owned(),
    };
    let mut text = [arg.token.unwrap_or(""), &value]
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    if arg.multiple {
        let again = if arg.multiple_token {
            text.clone()
        } else {
            value.clone()
        };
        text = format!("{text} [{again} ...]");
    }
    if arg.optional {
        format!("[{text}]")
    } else if matches!(arg.kind, Kind::OneOf(_)) {
        format!("<{text}>")
    } else {
        text
    }
}
