//! `SESSION.LOAD`: a value as an append-only file keeps it.

use std::fmt;

use redis_session_core::{Directory, PayloadKind, Session};

use crate::args::WriteOptions;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, NativeType};
use crate::table::{arg, key, Access, Command, KeySpec, Kind};
use crate::value::anchors::AnchorsValue;
use crate::value::directory::DirectoryValue;
use crate::value::session::SessionValue;
use crate::write::{Moment, PlainKey, Settled};

pub const COMMAND: Command = Command {
    name: "SESSION.LOAD",
    summary: "Creates a value from its payload; accepted from a primary or an append-only file only",
    complexity: "O(N) with N the bytes of the payload",
    arity: 3,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::OVERWRITE)],
    args: &[key("key"), arg("payload", Kind::Str)],
    reply: "`OK`",
    details: "Rewriting the append-only file without an RDB preamble writes one such command for each value of this module. Clients use \
              `RESTORE`.",
    entry: entry::<Load>(),
    ..Command::BLANK
};

pub struct Load;

impl Handler for Load {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        if !ctx.obeys_primary() {
            return Err("ERR SESSION.LOAD is for a primary and for append-only files only".into());
        }
        let (key, payload) = (args[1], args[2].bytes());
        let settled = match PayloadKind::of(payload) {
            Some(PayloadKind::Session) => put(ctx, key, Session::decode_whole(payload).map(SessionValue::new))?,
            Some(PayloadKind::Directory) => put(ctx, key, Directory::decode_whole(payload).map(DirectoryValue::new))?,
            Some(PayloadKind::Anchors) => put(ctx, key, AnchorsValue::decode(payload))?,
            None => return Err("ERR the payload is refused: of an unknown kind".into()),
        };
        ctx.reply_simple(c"OK");
        let mut effect = ctx.effect(c"SESSION.LOAD");
        effect.args(args[1..].iter().copied());
        settled.publish_bare(ctx, Some(&effect), &[]);
        Ok(())
    }
}

/// Puts a value that could be read at the key.
fn put<'a, T: NativeType>(
    ctx: &Ctx,
    key: Arg<'a>,
    decoded: Result<T, impl fmt::Display>,
) -> Result<Settled<'a>, ErrorReply> {
    let value = decoded.map_err(|why| ErrorReply::from(format!("ERR the payload is refused: {why}")))?;
    let mut opened = PlainKey::open_to_replace(ctx, key);
    opened.put(value);
    Ok(opened.settle(&Moment::of(ctx, &WriteOptions::NONE), true))
}
