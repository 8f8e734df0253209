//! `SESSION.CONTEXT`: what to send to the model now.

use redis_session_core::session::ContextBounds;

use crate::args::{is, once, Cursor};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::migration::Reading;
use crate::table::{arg, key, many_token, opt, token, Access, Command, KeySpec, Kind};

use super::limit_option;

pub const COMMAND: Command = Command {
    name: "SESSION.CONTEXT",
    summary: "Returns the pinned messages and the newest whole exchanges that fit a budget",
    complexity: "O(M) with M the messages returned; with pinned roles or ROLE O(N) with N the messages of the session",
    arity: -2,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(1, Access::READ)],
    args: &[
        key("key"),
        opt(token("MAXTOKENS", arg("tokens", Kind::Int))),
        opt(token("MAXLEN", arg("count", Kind::Int))),
        opt(token("ENTITIES", arg("entity-count", Kind::Int))),
        opt(many_token(token("ROLE", arg("role", Kind::Str)))),
    ],
    reply: "Map `messages` (bodies, oldest first), `tokens`, `omitted`, `entities`; nil if there is no session.",
    details: "`ROLE` filters first. Pinned messages are always included and counted; then come whole exchanges from the newest backwards, up \
              to the first that does not fit; the newest is included even if it exceeds the budget by itself. `omitted` is the number of \
              matching messages that were left out. `ENTITIES n` adds the n most recently mentioned entities. 0 is no bound.",
    entry: entry::<Context>(),
    ..Command::BLANK
};

pub struct Context;

impl Handler for Context {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let mut cursor = Cursor::after_key(args);
        let (mut maxtokens, mut maxlen, mut entities) = (None, None, None);
        let mut roles = Vec::new();
        while let Some(word) = cursor.next() {
            if is(word, "MAXTOKENS") {
                let value = limit_option(&mut cursor, word, "maxtokens", "MAXTOKENS")?;
                once(&mut maxtokens, word, value)?;
            } else if is(word, "MAXLEN") {
                let value = limit_option(&mut cursor, word, "maxlen", "MAXLEN")?;
                once(&mut maxlen, word, value)?;
            } else if is(word, "ENTITIES") {
                let value = cursor.int(word, "ENTITIES", 0, i64::from(u32::MAX))?;
                once(&mut entities, word, value as usize)?;
            } else if is(word, "ROLE") {
                roles.push(cursor.text(word, "ROLE")?);
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let opened = Reading::open(ctx, args[1])?;
        let Some(session) = opened.session() else {
            ctx.reply_null();
            return Ok(());
        };
        let bounds = ContextBounds {
            maxtokens: maxtokens.unwrap_or(0),
            maxlen: maxlen.unwrap_or(0),
            roles: &roles,
        };
        let context = session.context(&bounds, ctx.now_ms());
        ctx.reply_map(4);
        ctx.reply_bulk(b"messages");
        ctx.reply_array(context.seqs.len());
        session.chosen(&context.seqs, |body| ctx.reply_bulk(body.get()));
        ctx.reply_bulk(b"tokens");
        ctx.reply_i64(context.tokens as i64);
        ctx.reply_bulk(b"omitted");
        ctx.reply_i64(context.omitted as i64);
        ctx.reply_bulk(b"entities");
        let Some(most @ 1..) = entities else {
            ctx.reply_array(0);
            return Ok(());
        };
        let entities = session.entities().take(most);
        let list = ctx.reply_array_postponed();
        let mut json = Vec::new();
        for (id, entity) in entities {
            json.clear();
            entity.write_json(id, &mut json);
            ctx.reply_bulk(&json);
        }
        list.end();
        Ok(())
    }
}
