//! The commands, one file each: its row in the table, its grammar, what it does, its reply. To add one, add a file and a line to [`ALL`].

mod agent;
mod anchor;
mod append;
mod checkpoint;
mod clear;
mod compact;
mod context;
mod create;
mod entity;
mod event;
mod fork;
mod get;
mod help;
mod index;
mod info;
mod len;
mod load;
mod meta;
mod migrate;
mod pop;
mod range;
mod read;
mod redact;
mod remove;
mod window;

use crate::table::{arg, one_of, opt, token, word, ArgSpec, Command, Kind};

/// Every command there is, in the order of the reference.
pub const ALL: &[&Command] = &[
    &create::COMMAND,
    &append::COMMAND,
    &range::COMMAND,
    &context::COMMAND,
    &get::GET,
    &get::GETEX,
    &info::COMMAND,
    &len::COMMAND,
    &meta::COMMAND,
    &window::COMMAND,
    &pop::COMMAND,
    &remove::COMMAND,
    &redact::COMMAND,
    &compact::COMMAND,
    &clear::COMMAND,
    &entity::COMMAND,
    &event::COMMAND,
    &agent::COMMAND,
    &read::COMMAND,
    &checkpoint::COMMAND,
    &fork::COMMAND,
    &anchor::COMMAND,
    &index::COMMAND,
    &migrate::COMMAND,
    &load::COMMAND,
];

// `<w>`, as `COMMAND DOCS` shows it.
const IFVERSION: ArgSpec = opt(token("IFVERSION", arg("version", Kind::Int)));
const LEASE: ArgSpec = opt(token("LEASE", arg("lease-token", Kind::Int)));
const AT: ArgSpec = opt(token("AT", arg("content-unix-time-milliseconds", Kind::UnixTime)));
const EXPIRY: ArgSpec = opt(one_of(
    "expiry",
    &[
        token("EX", arg("seconds", Kind::Int)),
        token("PX", arg("milliseconds", Kind::Int)),
        token("PXAT", arg("unix-time-milliseconds", Kind::UnixTime)),
        word("PERSIST"),
        word("KEEPTTL"),
    ],
));

/// Takes the value of an option that sets one of a session's limits: `[MAXLEN n] [MAXTOKENS n] …`.
fn limit_option<'a>(
    cursor: &mut crate::args::Cursor<'a>,
    option: crate::ffi::Arg<'a>,
    limit: &str,
    name: &str,
) -> crate::args::Result<u64> {
    let max = redis_session_core::limits::Limits::named(limit.as_bytes()).map_or(0, |limit| limit.max);
    Ok(cursor.int(option, name, 0, max as i64)? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::reference;

    /// The reference page is made from the table. `UPDATE_DOCS=1` writes it anew.
    #[test]
    fn the_reference_page_says_what_the_table_says() {
        let page = reference(ALL);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &page).expect("the page is written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page,
            "docs/commands.md is not what the table says: run with UPDATE_DOCS=1"
        );
    }

    #[test]
    fn every_row_is_complete() {
        let groups = ALL.iter().filter(|command| !command.subcommands.is_empty());
        let alone = ALL.iter().copied().filter(|command| command.subcommands.is_empty());
        for command in alone.chain(groups.flat_map(|group| group.subcommands)) {
            assert!(
                !command.summary.is_empty() && !command.reply.is_empty(),
                "{}",
                command.name
            );
            assert!(command.complexity.starts_with("O("), "{}", command.name);
            assert_eq!(
                command.flags.contains("fast"),
                command.acl.contains("fast"),
                "{}",
                command.name
            );
            assert_eq!(
                command.flags.contains("write"),
                command.acl.contains("write"),
                "{}",
                command.name
            );
            if command.name != "HELP" {
                assert!(!command.keys.is_empty(), "{}", command.name);
                assert!(
                    command.flags.contains("write") != command.flags.contains("readonly"),
                    "{}",
                    command.name
                );
            }
        }
    }
}
