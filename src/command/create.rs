//! `SESSION.CREATE`: a session with an id, limits and pins of its own.

use redis_session_core::limits::Limits;
use std::sync::Arc;
use uuid::Uuid;

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::ffi::{entry_with_keys, Arg, Args, Ctx, ErrorReply, FindsKeys, Handler};
use crate::table::{arg, block, flag, key, many_token, opt, token, Access, Command, KeySpec, Kind};
use crate::value::session::id_text;
use crate::write::{Moment, NewSession, Target};
use crate::{error, settings};

pub const COMMAND: Command = Command {
    name: "SESSION.CREATE",
    summary: "Creates a session",
    complexity: "O(1)",
    arity: -2,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[
        KeySpec::at(1, Access::INSERT),
        KeySpec::in_option(Access::READ_INSERT),
    ],
    args: &[
        key("key"),
        opt(token("INDEX", key("index"))),
        opt(token("ALIAS", block("alias", &[arg("name", Kind::Str), flag("AUTONAME")]))),
        flag("OPEN"),
        opt(token("ID", arg("uuid", Kind::Str))),
        opt(token("SCOPE", arg("scope", Kind::Str))),
        opt(token("STATE", arg("state", Kind::Str))),
        opt(token("META", arg("json", Kind::Str))),
        opt(many_token(token("LIMIT", block("limit", &[arg("name", Kind::Str), arg("value", Kind::Int)])))),
        opt(many_token(token("PIN", arg("role", Kind::Str)))),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Map `id`, `key`, `created` (1, or 0 where `OPEN` found it there).",
    details: "The id is a UUIDv7 unless given. An existing session is `BUSYKEY`, or with `OPEN` its own id. `LIMIT` sets one of \
              `maxlen`, `maxtokens`, `maxbytes`, `maxage` (ms), `event-maxlen`, `event-ttl` (s), `dedup-window`, `max-checkpoints`, \
              `max-entities`, `max-agents` in place of the configured default; 0 is no bound. Messages of a `PIN` role are never evicted. \
              `AT` sets `created_at`. Without an expiry option the session's ttl is `session.default-ttl`; `KEEPTTL` leaves the key without \
              an expiry.",
    entry: entry_with_keys::<Create>(),
    ..Command::BLANK
};

pub struct Create;

#[derive(Default)]
struct Request<'a> {
    open: bool,
    id: Option<Uuid>,
    scope: Option<&'a str>,
    state: Option<&'a str>,
    meta: Option<&'a str>,
    limits: Vec<(&'static str, u64)>,
    pins: Vec<&'a str>,
    options: WriteOptions,
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    let mut meta = None;
    while let Some(word) = cursor.next() {
        if is(word, "OPEN") {
            once_flag(&mut request.open, word)?;
        } else if is(word, "ID") {
            let id = uuid_of(cursor.value(word)?)?;
            once(&mut request.id, word, id)?;
        } else if is(word, "SCOPE") {
            let scope = cursor.text(word, "SCOPE")?;
            once(&mut request.scope, word, scope)?;
        } else if is(word, "STATE") {
            let state = cursor.text(word, "STATE")?;
            once(&mut request.state, word, state)?;
        } else if is(word, "META") {
            let value = cursor.value(word)?;
            once(&mut meta, word, value)?;
        } else if is(word, "LIMIT") {
            let (name, value) = (cursor.value(word)?, cursor.value(word)?);
            let limit = Limits::named(name.bytes()).ok_or_else(|| error::syntax(name.bytes()))?;
            if request.limits.iter().any(|(known, _)| *known == limit.name) {
                return Err(error::syntax(name.bytes()));
            }
            let value = args::int(value.bytes(), limit.name, 0, limit.max as i64)?;
            request.limits.push((limit.name, value as u64));
        } else if is(word, "PIN") {
            request.pins.push(cursor.text(word, "PIN")?);
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if let Some(meta) = meta {
        request.meta = Some(args::object(ctx, meta.bytes(), "META")?);
    }
    Ok(request)
}

pub fn uuid_of(value: Arg<'_>) -> args::Result<Uuid> {
    Uuid::try_parse_ascii(value.bytes())
        .map_err(|_| format!("ERR ID must be a UUID, not '{}'", error::quoted(value.bytes())).into())
}

impl FindsKeys for Create {
    const ROW: &'static Command = &COMMAND;
}

impl Handler for Create {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let request = parse(ctx, args)?;
        let moment = Moment::of(ctx, &request.options);
        let mut target = Target::open_even_closed(ctx, key)?;
        if let Some(session) = target.session() {
            if !request.open {
                return Err(error::busy_key(key.bytes()));
            }
            target.check_guards(&request.options, &moment)?;
            reply(ctx, &id_text(session), key, false);
            return Ok(());
        }
        target.check(&request.options, &moment)?;
        let mut limits = settings::default_limits();
        for (name, value) in &request.limits {
            if let Some(limit) = Limits::named(name.as_bytes()) {
                Arc::make_mut(&mut limits).set(limit, *value);
            }
        }
        let new = NewSession {
            id: request.id.unwrap_or_else(Uuid::now_v7),
            limits,
            scope: request.scope,
            state: request.state,
            meta: request.meta,
            pins: request.pins,
        };
        target.create(&new, &request.options, &moment);
        let settled = target.settle(&request.options, &moment, true);
        drop(target);
        reply(ctx, &new.id.hyphenated().to_string(), key, true);
        let effect = new.effect(ctx, key, &settled);
        settled.publish(ctx, key, &[&effect], &[c"session.create"]);
        Ok(())
    }
}

fn reply(ctx: &Ctx, id: &str, key: Arg<'_>, created: bool) {
    ctx.reply_map(3);
    ctx.reply_bulk(b"id");
    ctx.reply_bulk(id.as_bytes());
    ctx.reply_bulk(b"key");
    ctx.reply_arg(key);
    ctx.reply_bulk(b"created");
    ctx.reply_i64(i64::from(created));
}
