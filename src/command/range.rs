//! `SESSION.RANGE`: messages by index, seq or time.

use redis_session_core::session::{Bounds, Range as Selection};

use crate::args::{self, is, once, once_flag, Cursor};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::migration::Reading;
use crate::table::{arg, flag, key, many_token, one_of, opt, token, word, Access, Command, KeySpec, Kind};

pub const COMMAND: Command = Command {
    name: "SESSION.RANGE",
    summary: "Returns the messages of a session in a range of indexes, seqs or times",
    complexity: "O(log(N)+M) with N the chunks of the session and M the messages returned; by time O(N+M) with N the chunks and M the messages of those whose times overlap the range",
    arity: -4,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(1, Access::READ)],
    args: &[
        key("key"),
        arg("start", Kind::Str),
        arg("stop", Kind::Str),
        opt(one_of("by", &[word("BYSEQ"), word("BYTIME")])),
        flag("REV"),
        opt(token("COUNT", arg("count", Kind::Int))),
        opt(many_token(token("ROLE", arg("role", Kind::Str)))),
        flag("WITHMETA"),
        flag("MALFORMED"),
    ],
    reply: "Array of bodies; with `WITHMETA` of arrays `[seq, ms, role, tokens, body]`.",
    details: "Without `BY…` start and stop are list indexes as in `LRANGE`: 0 is the oldest message, -1 the newest. `BYSEQ` and `BYTIME` \
              (Unix milliseconds) take `-`, `+`, `n` and `(n`. The order is \
              that of seqs, also with `BYTIME`; `REV` reverses the selection (start ≤ stop in any case); `ROLE`, then `COUNT`, are applied \
              last. `MALFORMED` returns the elements that a migration has \
              set aside, instead of messages.",
    entry: entry::<Range>(),
    ..Command::BLANK
};

pub struct Range;

#[derive(Default)]
struct Request<'a> {
    by: Option<By>,
    rev: bool,
    count: Option<u64>,
    roles: Vec<&'a str>,
    with_meta: bool,
    malformed: bool,
}

#[derive(Clone, Copy)]
enum By {
    Seq,
    Time,
}

#[inline]
fn parse<'a>(args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    cursor.next();
    cursor.next();
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        if is(word, "BYSEQ") {
            once(&mut request.by, word, By::Seq)?;
        } else if is(word, "BYTIME") {
            once(&mut request.by, word, By::Time)?;
        } else if is(word, "REV") {
            once_flag(&mut request.rev, word)?;
        } else if is(word, "COUNT") {
            let count = cursor.int(word, "COUNT", 0, i64::MAX)?;
            once(&mut request.count, word, count as u64)?;
        } else if is(word, "ROLE") {
            request.roles.push(cursor.text(word, "ROLE")?);
        } else if is(word, "WITHMETA") {
            once_flag(&mut request.with_meta, word)?;
        } else if is(word, "MALFORMED") {
            once_flag(&mut request.malformed, word)?;
        } else {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok(request)
}

fn bounds(args: Args<'_>, by: Option<By>) -> args::Result<Option<Bounds>> {
    let (start, stop) = (args[2], args[3]);
    Ok(match by {
        None => Some(Bounds::Index {
            start: args::int(start.bytes(), "start", i64::MIN, i64::MAX)?,
            stop: args::int(stop.bytes(), "stop", i64::MIN, i64::MAX)?,
        }),
        Some(By::Seq) => args::seq_bounds(start, stop)?.map(|(from, to)| Bounds::Seq { from, to }),
        Some(By::Time) => {
            match (
                args::range_end(start, "start", true, i64::MIN)?,
                args::range_end(stop, "stop", false, i64::MIN)?,
            ) {
                (Some(from_ms), Some(to_ms)) if from_ms <= to_ms => Some(Bounds::Time { from_ms, to_ms }),
                _ => None,
            }
        }
    })
}

impl Handler for Range {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let request = parse(args)?;
        let bounds = bounds(args, request.by)?;
        let opened = Reading::open(ctx, args[1])?;
        let Some(session) = opened.session() else {
            ctx.reply_array(0);
            return Ok(());
        };
        let Some(bounds) = bounds else {
            ctx.reply_array(0);
            return Ok(());
        };
        let selection = Selection {
            bounds,
            rev: request.rev,
            roles: &request.roles,
            count: request.count.unwrap_or(u64::MAX),
            malformed: request.malformed,
        };
        let now_ms = ctx.now_ms();
        let postponed = match session.range_len(&selection, now_ms) {
            Some(len) => {
                ctx.reply_array(len as usize);
                None
            }
            None => Some(ctx.reply_array_postponed()),
        };
        if request.with_meta {
            session.range(&selection, now_ms, |head, body| {
                ctx.reply_array(5);
                ctx.reply_i64(head.seq as i64);
                ctx.reply_i64(head.time_ms);
                ctx.reply_bulk(head.role.as_str().as_bytes());
                ctx.reply_i64(i64::from(head.tokens));
                ctx.reply_bulk(body.get());
            });
        } else {
            session.range(&selection, now_ms, |_, body| ctx.reply_bulk(body.get()));
        }
        drop(postponed);
        Ok(())
    }
}
