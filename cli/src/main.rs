//! `redis-session`: the command line of redis-session.
//!
//! ```text
//!  main.rs       the subcommands and the exit codes
//!  connection/   the connection flags of redis-cli; one connection, or all primaries of a cluster
//!  directory.rs  what a directory tells of its sessions
//!  failure.rs    what ends the program, and what to do about it
//!  output.rs     standard output, which may be closed or full
//!  progress.rs   a bar on a terminal, lines elsewhere; Ctrl-C
//!  migrate/      walks a database and turns older layouts into sessions
//!  import/       brings in what no single command can: a hash a message, session files, lines of JSON
//!  export/       writes values as lines of JSON
//!  ls/           lists sessions
//!  top/          shows what happens, live
//!  show/         a conversation as people read it
//!  tail.rs       follows one live
//!  timeline/     draws its events and states
//!  term/         colours, columns and times of what is read on a terminal
//!  manual.rs     completions and manual pages
//! ```
//!
//! Exit codes: 0 all is well; 1 not all of it was done, or what was asked for is not there; 2 usage; 3 the connection or the server;
//! 130 stopped by Ctrl-C or SIGTERM, after what was in flight.

mod connection;
mod directory;
mod export;
mod failure;
mod import;
mod ls;
mod manual;
mod migrate;
mod output;
mod progress;
mod show;
mod tail;
mod term;
mod timeline;
mod top;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};

use output::print;

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

/// How a command ended that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Fine,
    /// Something was skipped or set aside: an error where that was not to be expected, or `--strict` was given.
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
}
