//! `redis-session`: the command line of redis-session.
//!
//! ```text
//!  main.rs       the subcommands and the exit codes
//!
//!  a subcommand each, which uses nothing of another one:
//!  ls/           lists sessions
//!  show/         prints a conversation
//!  tail.rs       follows one live
//!  timeline/     draws its events and states
//!  top/          shows rates and sizes, live
//!  export/       writes values as lines of JSON
//!  import/       imports what no single command can: a hash a message, session files, lines of JSON
//!  migrate/      walks a database and turns older layouts into sessions
//!  manual.rs     completions and manual pages
//!
//!  what several of them use:
//!  connection/   the connection flags of redis-cli; one connection, or all primaries of a cluster
//!  session/      which session is meant, and what is read of it
//!  transcript/   a conversation as text
//!  archive.rs    the lines that `export` writes and `import jsonl` reads
//!  term/         colours, columns, times, progress: what goes to a terminal
//!  digest.rs     keys, remembered by their digests
//!  stop.rs       Ctrl-C and SIGTERM
//!  failure.rs    what ends the program, and what to do about it
//! ```
//!
//! Exit codes: 0 all is well; 1 not all of it was done, or what was asked for is not there; 2 usage; 3 the connection or the server;
//! 130 stopped by Ctrl-C or SIGTERM, after what was in flight.

mod archive;
mod connection;
mod digest;
mod export;
mod failure;
mod import;
mod ls;
mod manual;
mod migrate;
mod session;
mod show;
mod stop;
mod tail;
mod term;
mod timeline;
mod top;
mod transcript;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};

use crate::term::output;

/// Sessions in Redis, from the command line.
#[derive(Parser)]
#[command(
    name = "redis-session",
    version,
    disable_help_flag = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(flatten)]
    connection: connection::Flags,
    /// Print help (-h is the host, as in redis-cli)
    #[arg(long, global = true, action = ArgAction::Help, help_heading = "Options")]
    help: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the sessions of a directory, or of a whole database or cluster
    Ls(ls::Flags),
    /// Show a conversation as people read it: messages, tool calls, events, checkpoints, entities
    Show(show::Flags),
    /// Follow a session live: the last messages, and what comes
    Tail(tail::Flags),
    /// Draw events and states over time, a lane an agent: in text, or as SVG
    Timeline(timeline::Flags),
    /// Show what happens, live: sessions, rates, memory, waiting readers
    Top(top::Flags),
    /// Write sessions as lines of JSON that `import jsonl` brings back as they were
    Export(export::Flags),
    /// Import what was exported, and what is not one or a few keys: a hash a message, session files
    Import {
        #[command(subcommand)]
        source: import::Source,
    },
    /// Turn older layouts of conversations (lists, JSON, hashes) into sessions, all over a database or cluster
    Migrate(migrate::Flags),
    /// Print completions for a shell
    Completions(manual::CompletionsFlags),
    /// Print the manual page, or write one for each subcommand into a folder
    Man(manual::ManFlags),
}

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Fine,
    /// Something was left out, which the command reports as an error (of some commands only with `--strict`).
    Incomplete,
    Interrupted,
}

impl Outcome {
    fn exit_code(self) -> ExitCode {
        match self {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Incomplete => ExitCode::from(1),
            Outcome::Interrupted => ExitCode::from(130),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let connection = &arguments.connection;
    let done = match arguments.command {
        Command::Migrate(flags) => migrate::run(connection, &flags),
        Command::Import { source } => import::run(connection, &source),
        Command::Show(flags) => show::run(connection, &flags),
        Command::Tail(flags) => tail::run(connection, &flags),
        Command::Timeline(flags) => timeline::run(connection, &flags),
        Command::Export(flags) => export::run(connection, &flags),
        Command::Ls(flags) => ls::run(connection, &flags),
        Command::Top(flags) => top::run(connection, &flags),
        Command::Completions(flags) => manual::completions(&flags),
        Command::Man(flags) => manual::pages(&flags),
    };
    match done {
        Ok(Outcome::Fine) if output::is_lost() => Outcome::Incomplete.exit_code(),
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn connection_flags_go_before_and_after_the_subcommand() {
        for words in [
            "redis-session -h db -p 7000 migrate --dry-run",
            "redis-session migrate -h db --dry-run -p 7000",
        ] {
            assert!(Arguments::try_parse_from(words.split(' ')).is_ok(), "{words}");
        }
    }

    /// Every file of the sources, by its path below `src/`.
    fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }

    #[test]
    fn no_subcommand_uses_another_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        sources(&root, &mut found);
        let modules: Vec<String> = Arguments::command()
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .filter(|name| root.join(name).is_dir() || root.join(format!("{name}.rs")).is_file())
            .collect();
        assert!(
            modules.len() >= 8 && found.len() > 30,
            "{modules:?}, {} files",
            found.len()
        );
        for (path, text) in &found {
            let own = path.strip_prefix(&root).expect("below the root");
            if own == Path::new("main.rs") {
                continue;
            }
            for module in &modules {
                let is_own = own.starts_with(module) || own == Path::new(&format!("{module}.rs"));
                assert!(
                    is_own
                        || !text.contains(&format!("crate::{module}::"))
                            && !text.contains(&format!("super::{module}::")),
                    "{} uses {module}: what both need goes to a shared module",
                    own.display()
                );
            }
        }
    }
}
