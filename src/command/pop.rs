//! `SESSION.POP`: the newest messages, taken back.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{is, once, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, key, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.POP",
    summary: "Removes the newest messages of a session and returns them",
    complexity: "O(N) with N the messages removed",
    arity: -2,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::DELETE)],
    args: &[key("key"), opt(token("COUNT", arg("count", Kind::Int))), IFVERSION, LEASE, AT, EXPIRY],
    reply: "Array of the removed bodies, newest first.",
    details: "Removes one message unless `COUNT` is given. Answers are newer than their call, so a call is never removed before its answers.",
    entry: entry::<Pop>(),
    ..Command::BLANK
};

pub struct Pop;

impl Handler for Pop {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let mut cursor = Cursor::after_key(args);
        let mut count = None;
        let mut options = WriteOptions::default();
        while let Some(word) = cursor.next() {
            if is(word, "COUNT") {
                let value = cursor.int(word, "COUNT", 0, i64::from(u32::MAX))?;
                once(&mut count, word, value)?;
            } else if !options.take(ctx, &mut cursor, word)? {
                return Err(error::syntax(word.bytes()));
            }
        }
        let count = count.unwrap_or(1);
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (bodies, changed) = guarded.change(|session| session.pop(count as u64, moment.now));
        let settled = changed.settle();
        ctx.reply_array(bodies.len());
        for body in &bodies {
            ctx.reply_bulk(body);
        }
        let mut effect = ctx.effect(c"SESSION.POP");
        effect.arg(key).word(Word::Count).int(count);
        let events = (!bodies.is_empty()).then_some(c"session.pop");
        settled.publish(ctx, effect, &[], events.as_slice());
        Ok(())
    }
}
