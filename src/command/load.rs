//! `SESSION.LOAD`: a value as an append-only file keeps it.

use std::fmt;

use redis_session_core::{PayloadKind, Session};

use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, NativeType};
use crate::table::{arg, key, Access, Command, KeySpec, Kind};
use crate::value::anchors::AnchorsValue;
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
    details: "Rewriting the append-only file without an RDB preamble writes one of these for each key of the module. Clients have `RESTORE`.",
    entry: entry::<Load>(),
    ..Command::BLANK
};

pub struct Load;

fn put<T: NativeType>(ctx: &Ctx, key: Arg<'_>, value: T) {
    ctx.open_key_write::<T>(key).set_value(value);
}

#[cold]
fn refused(why: impl fmt::Display) -> ErrorReply {
    format!("ERR the payload is refused: {why}").into()
}

impl Handler for Load {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        if !ctx.obeys_primary() {
            return Err("ERR SESSION.LOAD is for a primary and for append-only files only".into());
        }
        let payload = args[2].bytes();
        match PayloadKind::of(payload) {
            Some(PayloadKind::Anchors) => put(ctx, args[1], AnchorsValue::decode(payload).map_err(refused)?),
            // What is none of the others is read as a session, whose decoder says what is wrong about it.
            _ => put(
                ctx,
                args[1],
                SessionValue::new(Session::decode_whole(payload).map_err(refused)?),
            ),
        }
        ctx.reply_simple(c"OK");
        let mut effect = ctx.effect(c"SESSION.LOAD");
        effect.args(args[1..].iter().copied());
        ctx.replicate(&effect);
        ctx.signal_modified(args[1]);
        Ok(())
    }
}
