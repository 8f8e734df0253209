//! `HELP` of a group: its subcommands, from the table.

use crate::ffi::{Ctx, Entry};
use crate::table::{grammar, Command};

/// The row of a group's `HELP`.
pub const fn row(entry: Entry) -> Command {
    Command {
        name: "HELP",
        summary: "Returns the subcommands with a summary of each",
        complexity: "O(1)",
        arity: 2,
        flags: "fast",
        acl: "fast",
        reply: "Array of lines.",
        entry,
        ..Command::BLANK
    }
}

pub fn reply(ctx: &Ctx, group: &Command) {
    ctx.reply_array(1 + 2 * group.subcommands.len());
    let title = format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        group.name
    );
    ctx.reply_simple_text(&title);
    for command in group.subcommands {
        let words: Vec<String> = std::iter::once(command.name.to_owned())
            .chain(command.args.iter().map(grammar))
            .collect();
        ctx.reply_simple_text(&words.join(" "));
        ctx.reply_simple_text(&format!("    {}.", command.summary));
    }
}
