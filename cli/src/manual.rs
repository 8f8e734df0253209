//! Completions and manual pages, from the types that parse the arguments.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::{Failure, Result};
use crate::term::output;
use crate::{Arguments, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
bash:  redis-session completions bash > ~/.local/share/bash-completion/completions/redis-session\n\
zsh:   redis-session completions zsh > \"${fpath[1]}/_redis-session\"\n\
fish:  redis-session completions fish > ~/.config/fish/completions/redis-session.fish")]
pub struct CompletionsFlags {
    shell: Shell,
}

#[derive(Args, Debug)]
pub struct ManFlags {
    /// Folder for redis-session.1, redis-session-ls.1 and so on; without it the first is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub fn completions(flags: &CompletionsFlags) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Arguments::command(), "redis-session", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Ok(Outcome::Fine)
}

pub fn pages(flags: &ManFlags) -> Result<Outcome> {
    let mut command = Arguments::command();
    // What is global is known to subcommands only then.
    command.build();
    let Some(folder) = &flags.folder else {
        output::print(&String::from_utf8_lossy(&page(command, "redis-session")?));
        return Ok(Outcome::Fine);
    };
    let unwritable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => {
            Failure::Usage(format!("cannot write to {}: {error}", folder.display()))
        }
        _ => Failure::Output(format!("cannot write to {}: {error}", folder.display())),
    };
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let mut waiting = vec![("redis-session".to_owned(), command)];
    while let Some((name, command)) = waiting.pop() {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            waiting.push((format!("{name}-{}", below.get_name()), below.clone()));
        }
        let page = page(command, &name)?;
        std::fs::write(folder.join(format!("{name}.1")), page).map_err(unwritable)?;
    }
    Ok(Outcome::Fine)
}

fn page(command: clap::Command, title: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command)
        .title(title)
        .render(&mut page)
        .map_err(|error| Failure::Output(format!("the manual page was not made: {error}")))?;
    Ok(page)
}
