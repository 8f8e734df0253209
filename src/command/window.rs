//! `SESSION.WINDOW`: the bounds of a conversation and what is pinned in it.

use redis_session_core::session::WindowChange;

use super::{limit_option, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, key, many_token, one_of, opt, token, word, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.WINDOW",
    summary: "Sets the bounds and pinned roles of a session's window and applies them",
    complexity: "O(N) with N the messages evicted; with pinned roles the messages of the session",
    arity: -2,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[
        key("key"),
        opt(token("MAXLEN", arg("count", Kind::Int))),
        opt(token("MAXTOKENS", arg("tokens", Kind::Int))),
        opt(token("MAXBYTES", arg("bytes", Kind::Int))),
        opt(token("MAXAGE", arg("milliseconds", Kind::Int))),
        opt(one_of("pins", &[many_token(token("PIN", arg("role", Kind::Str))), word("NOPIN")])),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Number of messages evicted.",
    details: "0 is no bound; what is not given does not change. `PIN` replaces the pinned roles; `NOPIN` pins none. Whole exchanges are \
              evicted, the oldest first, so a tool result is never kept without its call. Messages of pinned roles, and exchanges that \
              contain one, are kept and count toward no bound. The newest exchange, the one with the newest unpinned message, is kept even \
              if it exceeds a bound by itself.",
    entry: entry::<Window>(),
    ..Command::BLANK
};

pub struct Window;

#[derive(Default)]
struct Request<'a> {
    change: WindowChange<'a>,
    no_pin: bool,
    options: WriteOptions,
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        let change = &mut request.change;
        if is(word, "MAXLEN") {
            let value = limit_option(&mut cursor, word, "maxlen", "MAXLEN")?;
            once(&mut change.maxlen, word, value)?;
        } else if is(word, "MAXTOKENS") {
            let value = limit_option(&mut cursor, word, "maxtokens", "MAXTOKENS")?;
            once(&mut change.maxtokens, word, value)?;
        } else if is(word, "MAXBYTES") {
            let value = limit_option(&mut cursor, word, "maxbytes", "MAXBYTES")?;
            once(&mut change.maxbytes, word, value)?;
        } else if is(word, "MAXAGE") {
            let value = limit_option(&mut cursor, word, "maxage", "MAXAGE")?;
            once(&mut change.maxage_ms, word, value)?;
        } else if is(word, "PIN") && !request.no_pin {
            let role = cursor.text(word, "PIN")?;
            change.pins.get_or_insert_with(Vec::new).push(role);
        } else if is(word, "NOPIN") && change.pins.is_none() {
            once_flag(&mut request.no_pin, word)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if request.no_pin {
        request.change.pins = Some(Vec::new());
    }
    Ok(request)
}

impl Handler for Window {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key: Arg<'_> = args[1];
        let Request { change, options, .. } = parse(ctx, args)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let ((), changed) = guarded.change(|session| session.set_window(&change, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(settled.evicted() as i64);
        let mut effect = ctx.effect(c"SESSION.WINDOW");
        effect.arg(key);
        for (word, bound) in [
            (Word::MaxLen, change.maxlen),
            (Word::MaxTokens, change.maxtokens),
            (Word::MaxBytes, change.maxbytes),
            (Word::MaxAge, change.maxage_ms),
        ] {
            if let Some(bound) = bound {
                effect.word(word).int(bound as i64);
            }
        }
        for pin in change.pins.iter().flatten() {
            effect.word(Word::Pin).bytes(pin.as_bytes());
        }
        if change.pins.as_ref().is_some_and(Vec::is_empty) {
            effect.word(Word::NoPin);
        }
        let events = settled.session_changed().then_some(c"session.window");
        settled.publish(ctx, effect, &[], events.as_slice());
        Ok(())
    }
}
