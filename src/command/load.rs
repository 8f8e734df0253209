//! `SESSION.LOAD`: a value as an append-only file keeps it.

use redis_session_core::Session;

use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{arg, key, Access, Command, KeySpec, Kind};
use crate::value::session::SessionValue;

pub const COMMAND: Command = Command {
    name: "SESSION.LOAD",
    summary: "Rebuilds a value from its payload; from a primary or an append-only file only",
    complexity: "O(N) with N the bytes of the payload",
    arity: 3,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::OVERWRITE)],
    args: &[key("key"), arg("payload", Kind::Str)],
    reply: "`OK`",
    details: "Rewriting the append-only file without an RDB preamble writes one of these for each session. Clients have `RESTORE`.",
    entry: entry::<Load>(),
    ..Command::BLANK
};

pub struct Load;

impl Handler for Load {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        if !ctx.obeys_primary() {
            return Err("ERR SESSION.LOAD is for a primary and for append-only files only".into());
        }
        let session = Session::decode_whole(args[2].bytes())
            .map_err(|why| ErrorReply::from(format!("ERR the payload is refused: {why}")))?;
        let mut target = ctx.open_key_write::<SessionValue>(args[1]);
        target.set_value(SessionValue::new(session));
        drop(target);
        ctx.reply_simple(c"OK");
        let mut effect = ctx.effect(c"SESSION.LOAD");
        effect.args(args[1..].iter().copied());
        ctx.replicate(&effect);
        ctx.signal_modified(args[1]);
        Ok(())
    }
}
