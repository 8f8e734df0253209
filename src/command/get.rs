//! `SESSION.GET` and `SESSION.GETEX`: the session as one JSON document, without and with a sliding expiry.

use redis_session_core::session::Written;

use crate::args::{self, is, once, once_flag, Cursor, Expiry, WriteOptions};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, Effect, ErrorReply, Handler};
use crate::migration::Reading;
use crate::table::{arg, flag, key, one_of, opt, token, word, Access, ArgSpec, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

const MESSAGES: ArgSpec = opt(token("MESSAGES", arg("count", Kind::Int)));

pub const GET: Command = Command {
    name: "SESSION.GET",
    summary: "Returns a session as one JSON document",
    complexity: "O(N) with N the bytes of the document",
    arity: -2,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(1, Access::READ)],
    args: &[key("key"), MESSAGES],
    reply: "The document, or nil.",
    details: "`session_id`, `scope`, `alias`, `state`, `created_at`, `last_activity`, `expires_at`, `closed_at`, `version`, `last_seq`, \
              `limits`, `message_count`, `query_count`, `ttl_extended_count`, `messages` (the newest `MESSAGES`, all by default, oldest \
              first, byte for byte), `entities_mentioned`, `agents`, `events`, `checkpoints`, `lease`, `meta`. Times are ISO 8601; missing \
              values are null. `limits` also contains the pinned roles, as `pin`, if there are any.",
    entry: entry::<Get>(),
    ..Command::BLANK
};

pub const GETEX: Command = Command {
    name: "SESSION.GETEX",
    summary: "Returns a session as one JSON document and slides or sets its expiry",
    complexity: "O(N) with N the bytes of the document",
    arity: -2,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[
        key("key"),
        MESSAGES,
        flag("CREATE"),
        opt(one_of(
            "expiry",
            &[
                token("EX", arg("seconds", Kind::Int)),
                token("PX", arg("milliseconds", Kind::Int)),
                token("PXAT", arg("unix-time-milliseconds", Kind::UnixTime)),
                word("PERSIST"),
            ],
        )),
    ],
    reply: "The document, or nil; with `CREATE` that of a new session instead of nil.",
    details: "The document of `SESSION.GET`. `ttl_extended_count` increases if the expiry slides or is set. If the key has no expiry, there \
              is none to slide, and nothing changes.",
    entry: entry::<GetEx>(),
    ..Command::BLANK
};

pub struct Get;
pub struct GetEx;

#[derive(Default)]
struct Request {
    messages: Option<u64>,
    create: bool,
    options: WriteOptions,
}

fn parse(ctx: &Ctx, args: Args<'_>, writes: bool) -> args::Result<Request> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        if is(word, "MESSAGES") {
            let messages = cursor.int(word, "MESSAGES", 0, i64::MAX)?;
            once(&mut request.messages, word, messages as u64)?;
        } else if writes && is(word, "CREATE") {
            once_flag(&mut request.create, word)?;
        } else if writes && !is(word, "KEEPTTL") && request.options.take_expiry(ctx, &mut cursor, word)? {
        } else if writes && (is(word, "AT") || is(word, "NOW")) && ctx.obeys_primary() {
            request.options.take(ctx, &mut cursor, word)?;
        } else {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok(request)
}

impl Handler for Get {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let request = parse(ctx, args, false)?;
        let opened = Reading::open(ctx, args[1])?;
        match opened.session() {
            Some(session) => {
                let messages = request.messages.unwrap_or(u64::MAX);
                let document = session.document(messages, opened.expires_at_ms(), ctx.now_ms());
                ctx.reply_bulk(&document);
            }
            None => ctx.reply_null(),
        }
        Ok(())
    }
}

impl Handler for GetEx {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let request = parse(ctx, args, true)?;
        let options = &request.options;
        let moment = Moment::of(ctx, options);
        let now_ms = moment.now.now_ms;
        let messages = request.messages.unwrap_or(u64::MAX);
        let opened = Opened::even_closed(ctx, key)?;
        let Some(session) = opened.session() else {
            if !request.create {
                ctx.reply_null();
                return Ok(());
            }
            let changed = opened.unguarded(options, &moment).ensure();
            ctx.reply_bulk(&changed.session().document(messages, changed.expires_at_ms(), now_ms));
            let settled = changed.settle();
            let effect = effect(ctx, key);
            settled.publish(ctx, effect, &[], &[]);
            return Ok(());
        };
        let expires_at_ms = opened.expires_at_ms();
        if session.closed_at_ms().is_some() && !moment.obeys {
            // A closed session can be read, but its expiry does not slide any more.
            if options.expiry.is_some() {
                opened.check_not_closed(ctx)?;
            }
            ctx.reply_bulk(&session.document(messages, expires_at_ms, now_ms));
            return Ok(());
        }
        let will_expire_at_ms = match options.expiry {
            None | Some(Expiry::Keep) if session.ttl_ms() > 0 => {
                expires_at_ms.map(|_| now_ms + session.ttl_ms() as i64)
            }
            None | Some(Expiry::Keep) => expires_at_ms,
            Some(Expiry::Ttl { ms }) => Some(now_ms + ms as i64),
            Some(Expiry::At { ms }) => Some(ms),
            Some(Expiry::Persist) => None,
        };
        let extends = match options.expiry {
            None | Some(Expiry::Keep) => session.ttl_ms() > 0 && expires_at_ms.is_some(),
            Some(expiry) => expiry != Expiry::Persist,
        };
        let ((), changed) = opened.unguarded(options, &moment).change(|session| match extends {
            true => session.extend_ttl(now_ms),
            false => Written::nothing(()),
        });
        // The document is read first: a `PXAT` in the past deletes the key, and still replies what was there.
        if moment.obeys {
            ctx.reply_null();
        } else {
            ctx.reply_bulk(&changed.session().document(messages, will_expire_at_ms, now_ms));
        }
        let settled = changed.settle();
        let effect = effect(ctx, key);
        settled.publish(ctx, effect, &[], &[]);
        Ok(())
    }
}

/// The replicated command without its facts.
fn effect<'a>(ctx: &Ctx, key: Arg<'a>) -> Effect<'a> {
    let mut effect = ctx.effect(c"SESSION.GETEX");
    effect.arg(key);
    effect
}
