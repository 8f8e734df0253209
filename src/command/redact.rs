//! `SESSION.REDACT`: content taken out of messages for good.

use super::remove::parse_seqs;
use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{is, once, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, key, many, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.REDACT",
    summary: "Removes the content of messages of a session; seqs, roles and tool ids are kept",
    complexity: "O(M*(log(N)+B)) with M the seqs, N the chunks and B the bytes of a chunk",
    arity: -3,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[
        key("key"),
        many(arg("seq", Kind::Int)),
        opt(token("REASON", arg("reason", Kind::Str))),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Number of messages redacted.",
    details: "A redacted message is `{\"role\":…,\"content\":\"[redacted]\",\"redacted\":true,\"reason\":…,…}` with the ids of its tool \
              calls (`tool_calls:[{\"id\"}]`, `tool_call_id`, `type`, `call_id`). Its tokens are recomputed. Unknown seqs, and messages that \
              are redacted in the same way already, are ignored.",
    entry: entry::<Redact>(),
    ..Command::BLANK
};

pub struct Redact;

impl Handler for Redact {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let mut cursor = Cursor::after_key(args);
        let seqs = parse_seqs(&mut cursor, "seq")?;
        let mut options = WriteOptions::default();
        let mut reason = None;
        while let Some(word) = cursor.next() {
            if is(word, "REASON") {
                let text = cursor.text(word, "REASON")?;
                once(&mut reason, word, text)?;
            } else if !options.take(ctx, &mut cursor, word)? {
                return Err(error::syntax(word.bytes()));
            }
        }
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (count, changed) = guarded.change(|session| session.redact(&seqs, reason, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.REDACT");
        effect.arg(key).args(args[2..2 + seqs.len()].iter().copied());
        if let Some(reason) = reason {
            effect.word(Word::Reason).bytes(reason.as_bytes());
        }
        settled.publish(ctx, effect, &[], (count > 0).then_some(c"session.redact").as_slice());
        Ok(())
    }
}
