//! `SESSION.COMPACT`: a summary in place of the older part of a conversation.

use redis_session_core::body;
use redis_session_core::session::Incoming;

use super::append::{parse_tail, read_body, Tail, MSG};
use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, key, one_of, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.COMPACT",
    summary: "Replaces everything up to a seq with one message",
    complexity: "O(N) with N the messages of the session",
    arity: -6,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[
        key("key"),
        token("UPTO", arg("seq", Kind::Int)),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
        one_of("message", &[MSG, token("JSON", arg("body", Kind::Str))]),
    ],
    reply: "Number of messages replaced; if 0, nothing was inserted.",
    details: "The message takes the seq of the last one it replaces. Pinned messages are kept, and the boundary moves back rather than split \
              an exchange. Messages after the boundary are not changed.",
    entry: entry::<Compact>(),
    ..Command::BLANK
};

pub struct Compact;

struct Request<'a> {
    upto: u64,
    options: WriteOptions,
    tail: Tail<'a>,
    tail_args: Args<'a>,
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut options = WriteOptions::default();
    let mut upto = None;
    loop {
        let Some(word) = cursor.next() else {
            return Err(error::syntax(args[args.len() - 1].bytes()));
        };
        if is(word, "UPTO") {
            let seq = args::counter(cursor.value(word)?.bytes(), "UPTO")?;
            args::once(&mut upto, word, seq)?;
        } else if is(word, "JSON") || is(word, "MSG") {
            let Some(upto) = upto else {
                return Err(error::syntax(word.bytes()));
            };
            let tail_args = cursor.rest_from_last();
            let tail = parse_tail(&mut cursor)?;
            if let Tail::Json([_, second, ..]) = tail {
                return Err(error::syntax(second.bytes()));
            }
            return Ok(Request {
                upto,
                options,
                tail,
                tail_args,
            });
        } else if !options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
}

impl Handler for Compact {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let request = parse(ctx, args)?;
        let moment = Moment::of(ctx, &request.options);
        let composed;
        let body = match &request.tail {
            Tail::Json(bodies) => bodies[0].bytes(),
            Tail::Msg(draft) => {
                composed = body::compose(draft, moment.now.content_ms);
                &composed
            }
        };
        let summary = Incoming {
            facts: read_body(ctx, body, 1, 1)?,
            body,
            tokens: None,
        };
        let guarded = Opened::existing(ctx, key)?.guard(&request.options, &moment)?;
        let (count, changed) = guarded.change(|session| session.compact(request.upto, &summary, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.COMPACT");
        effect.arg(key).word(Word::Upto).int(request.upto as i64);
        let events = (count > 0).then_some(c"session.compact");
        settled.publish(ctx, effect, request.tail_args, events.as_slice());
        Ok(())
    }
}
