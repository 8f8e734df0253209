//! `SESSION.INFO`: what is known about a session, without its messages.

use redis_session_core::text::time::iso_8601;

use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::migration::Reading;
use crate::table::{key, Access, Command, KeySpec};
use crate::value::session::id_text;

pub const COMMAND: Command = Command {
    name: "SESSION.INFO",
    summary: "Returns what is known about a session, without its messages",
    complexity: "O(1)",
    arity: 2,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(1, Access::LOOK)],
    args: &[key("key")],
    reply: "Map of the scalars of `SESSION.GET`, and `chunks`, `bytes_raw`, `bytes_stored`; nil if there is no session.",
    details: "`bytes_raw` is the size of all bodies as appended, `bytes_stored` the memory that the conversation uses. Chunks that copies \
              share count in full in each of them; a body that the process stores once for many sessions counts in none of them.",
    entry: entry::<Info>(),
    ..Command::BLANK
};

pub struct Info;

impl Handler for Info {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = Reading::open(ctx, args[1])?;
        let Some(session) = opened.session() else {
            ctx.reply_null();
            return Ok(());
        };
        let now_ms = ctx.now_ms();
        let gauges = session.gauges();
        // The number of pairs that follow: a postponed length costs more than most of them.
        ctx.reply_map(16);
        let text = |name: &str, value: Option<&[u8]>| {
            ctx.reply_bulk(name.as_bytes());
            match value {
                Some(value) => ctx.reply_bulk(value),
                None => ctx.reply_null(),
            }
        };
        let number = |name: &str, value: u64| {
            ctx.reply_bulk(name.as_bytes());
            ctx.reply_i64(value as i64);
        };
        text("session_id", Some(id_text(session).as_bytes()));
        text("scope", session.scope().map(str::as_bytes));
        text("alias", session.alias().map(str::as_bytes));
        text("state", Some(session.state().as_bytes()));
        text("created_at", Some(&iso_8601(session.created_at_ms())));
        text("last_activity", Some(&iso_8601(session.last_activity_ms())));
        text(
            "expires_at",
            opened.expires_at_ms().map(iso_8601).as_ref().map(<[u8; 24]>::as_slice),
        );
        text(
            "closed_at",
            session.closed_at_ms().map(iso_8601).as_ref().map(<[u8; 24]>::as_slice),
        );
        number("version", session.version());
        number("last_seq", session.last_seq());
        number("message_count", session.message_count(now_ms));
        number("query_count", session.query_count());
        number("ttl_extended_count", session.ttl_extended_count());
        number("chunks", session.chunks() as u64);
        number("bytes_raw", gauges.bytes_raw);
        number("bytes_stored", gauges.bytes_stored);
        Ok(())
    }
}
