//! `SESSION.CLEAR`: all messages gone, the session itself stays.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{key, Access, Command, KeySpec};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.CLEAR",
    summary: "Removes all messages of a session; identity, entities, events and seqs are kept",
    complexity: "O(N) with N the chunks of the session",
    arity: -2,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::DELETE)],
    args: &[key("key"), IFVERSION, LEASE, AT, EXPIRY],
    reply: "Number of messages removed.",
    entry: entry::<Clear>(),
    ..Command::BLANK
};

pub struct Clear;

impl Handler for Clear {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let cursor = Cursor::after_key(args);
        let options = WriteOptions::rest(ctx, cursor)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (count, changed) = guarded.change(|session| session.clear(moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.CLEAR");
        effect.arg(key);
        settled.publish(ctx, effect, &[], (count > 0).then_some(c"session.clear").as_slice());
        Ok(())
    }
}
