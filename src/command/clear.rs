//! `SESSION.CLEAR`: all messages gone, the session itself stays.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{key, Access, Command, KeySpec};
use crate::write::{Moment, Target};

pub const COMMAND: Command = Command {
    name: "SESSION.CLEAR",
    summary: "Removes all messages of a session; identity, entities, events and seqs stay",
    complexity: "O(N) with N the chunks of the session",
    arity: -2,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::DELETE)],
    args: &[key("key"), IFVERSION, LEASE, AT, EXPIRY],
    reply: "How many messages were removed.",
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
        let mut target = Target::open_existing(ctx, key)?;
        target.check(&options, &moment)?;
        let changed = target.change(|session| session.clear(moment.now)).unwrap_or_default();
        let settled = target.settle(&options, &moment, changed.is_any());
        drop(target);
        ctx.reply_i64(changed.count as i64);
        let mut effect = ctx.effect(c"SESSION.CLEAR");
        effect.arg(key);
        settled.finish(ctx, key, effect, &[], changed, c"session.clear");
        Ok(())
    }
}
