//! `SESSION.LEN`: how many messages.

use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::migration::Reading;
use crate::table::{key, Access, Command, KeySpec};

pub const COMMAND: Command = Command {
    name: "SESSION.LEN",
    summary: "Returns the number of messages in a session",
    complexity: "O(1)",
    arity: 2,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(1, Access::LOOK)],
    args: &[key("key")],
    reply: "Integer; 0 if there is no session.",
    entry: entry::<Len>(),
    ..Command::BLANK
};

pub struct Len;

impl Handler for Len {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = Reading::open(ctx, args[1])?;
        match opened.session() {
            Some(session) => ctx.reply_i64(session.message_count(ctx.now_ms()) as i64),
            None => ctx.reply_i64(0),
        }
        Ok(())
    }
}
