//! `SESSION.REMOVE`: messages by their seqs.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{arg, key, many, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.REMOVE",
    summary: "Removes messages of a session by their seqs, and the answers of removed calls",
    complexity: "O(M*log(N)) with M the seqs and N the chunks; O(N) with N the messages if a tool call is among them",
    arity: -3,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::DELETE)],
    args: &[key("key"), many(arg("seq", Kind::Int)), IFVERSION, LEASE, AT, EXPIRY],
    reply: "Number of messages removed, answers included.",
    details: "Unknown seqs are ignored.",
    entry: entry::<Remove>(),
    ..Command::BLANK
};

pub struct Remove;

/// Parses `seq [seq …]`, at least one, up to the first word that does not begin like a number. `name` is what errors call them.
pub fn parse_seqs(cursor: &mut Cursor<'_>, name: &str) -> args::Result<Vec<u64>> {
    let mut seqs = Vec::new();
    while let Some(word) = cursor.peek() {
        if !seqs.is_empty()
            && !word
                .bytes()
                .first()
                .is_some_and(|first| first.is_ascii_digit() || *first == b'-')
        {
            break;
        }
        seqs.push(args::counter(word.bytes(), name)?);
        cursor.next();
    }
    Ok(seqs)
}

impl Handler for Remove {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let mut cursor = Cursor::after_key(args);
        let seqs = parse_seqs(&mut cursor, "seq")?;
        let options = WriteOptions::rest(ctx, cursor)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (count, changed) = guarded.change(|session| session.remove(&seqs, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.REMOVE");
        effect.arg(key).args(args[2..2 + seqs.len()].iter().copied());
        settled.publish(ctx, effect, &[], (count > 0).then_some(c"session.remove").as_slice());
        Ok(())
    }
}
