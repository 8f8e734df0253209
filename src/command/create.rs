//! `SESSION.CREATE`: a session with an id, limits and pins of its own.

use redis_session_core::session::Written;
use redis_session_core::Session;
use uuid::Uuid;

use super::index::{self, AliasOption, Pruning, Registrar, ALIAS};
use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, GivenLimits, WriteOptions};
use crate::error;
use crate::ffi::{entry_with_keys, Arg, Args, Ctx, ErrorReply, FindsKeys, Handler, Word};
use crate::table::{arg, block, flag, key, many_token, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Admitted, Moment, NewSession, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.CREATE",
    summary: "Creates a session",
    complexity: "O(1); with INDEX O(log(N)) with N the entries of the directory",
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
        ALIAS,
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
    reply: "Map `id`, `key`, `created` (1, or 0 if `OPEN` found an existing session).",
    details: "The id is a UUIDv7 unless given. If there is a session at key, the command fails with `BUSYKEY`, or with `OPEN` returns that \
              session's id. `LIMIT` sets one of `maxlen`, `maxtokens`, `maxbytes`, `maxage` (ms), `event-maxlen`, `event-ttl` (s), \
              `dedup-window`, `max-checkpoints`, `max-entities`, `max-agents` instead of the configured default; 0 is no bound. Messages \
              with a `PIN` role are never evicted. `AT` sets `created_at`. Without an expiry option the session's ttl is \
              `session.default-ttl`; `KEEPTTL` leaves the key without an expiry.\n\n\
              `INDEX` registers the new session in a directory, which is created if needed. `ALIAS` registers it under a name of 1 to 255 \
              bytes: no `/`, `\\`, NUL or control character, neither `.` nor `..`, no space at either end, not shaped like a UUID; otherwise \
              the error is `BADALIAS`. `AUTONAME` marks a name that a program made up. The command looks up the alias first, then the key, \
              then a given id. If one of them belongs to an existing session, it fails with `ALIASINUSE` or `BUSYKEY`, or with `OPEN` \
              returns that session's id and key and changes nothing (so it does not register a session that is at the key but not in the \
              directory; `SESSION.INDEX ADD` does).",
    entry: entry_with_keys::<Create>(),
    ..Command::BLANK
};

pub struct Create;

#[derive(Default)]
struct Request<'a> {
    index: Option<Arg<'a>>,
    alias: Option<AliasOption<'a>>,
    pruned: Option<Vec<Uuid>>,
    open: bool,
    id: Option<Uuid>,
    scope: Option<&'a str>,
    state: Option<&'a str>,
    meta: Option<&'a str>,
    limits: GivenLimits,
    pins: Vec<&'a str>,
    options: WriteOptions,
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    let (mut meta, mut alias_word) = (None, None);
    while let Some(word) = cursor.next() {
        if is(word, "OPEN") {
            once_flag(&mut request.open, word)?;
        } else if is(word, "INDEX") {
            let index = cursor.value(word)?;
            once(&mut request.index, word, index)?;
        } else if is(word, "ALIAS") {
            alias_word = Some(word);
            let alias = AliasOption::parse(&mut cursor, word)?;
            once(&mut request.alias, word, alias)?;
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
            request.limits.take(&mut cursor, word)?;
        } else if is(word, "PIN") {
            request.pins.push(cursor.text(word, "PIN")?);
        } else if let Some(ids) = index::parse_pruned(ctx, &mut cursor, word)? {
            once(&mut request.pruned, word, ids)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    match (request.index, alias_word) {
        (None, Some(word)) => return Err(error::syntax(word.bytes())),
        (Some(index), _) if index.bytes() == args[1].bytes() => {
            return Err("ERR INDEX must be another key than the session's".into())
        }
        _ => {}
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
        let (options, alias) = (&request.options, request.alias);
        let moment = Moment::of(ctx, options);
        let registrar = match request.index {
            Some(index) => Some(Registrar::open(ctx, index, key)?),
            None => None,
        };
        let check = |session: &Session| Admitted::as_given(Some(session), options, &moment);
        if let (Some(registrar), Some(alias), false) = (&registrar, alias, moment.obeys) {
            if let Some((holder, checked)) = registrar.holder(&alias.alias, check) {
                if !request.open {
                    return Err(error::alias_in_use(&alias.alias.name, holder.id()));
                }
                checked?;
                reply(ctx, holder.id(), holder.key(), false);
                return Ok(());
            }
        }
        let opened = Opened::even_closed(ctx, key)?;
        if let Some(session) = opened.session() {
            if !request.open {
                return Err(error::busy_key(key.bytes()));
            }
            let id = session.id();
            // The expiry of a session that is there stays as it is.
            let options = WriteOptions {
                expiry: None,
                settled_at_ms: None,
                ..*options
            };
            let settled = opened.guard_as_given(&options, &moment)?.ensure().settle();
            drop(registrar);
            reply(ctx, id, key.bytes(), false);
            settled.publish_bare(ctx, None, &[]);
            return Ok(());
        }
        if let (Some(registrar), Some(id), false) = (&registrar, request.id, moment.obeys) {
            if let Some((known, checked)) = registrar.known(id, check) {
                if !request.open {
                    return Err(error::busy_id(id, known.key()));
                }
                checked?;
                reply(ctx, id, known.key(), false);
                return Ok(());
            }
        }
        let guarded = opened.guard(options, &moment)?;
        let new = NewSession {
            id: request.id.unwrap_or_else(Uuid::now_v7),
            limits: request.limits.over_defaults(moment.obeys),
            scope: request.scope,
            state: request.state,
            meta: request.meta,
            pins: request.pins,
        };
        let changed = guarded.create(&new, |session| match &alias {
            Some(alias) => session.set_alias(Some(&alias.alias.name)),
            None => Written::nothing(()),
        });
        let settled = changed.settle();
        // A session that had expired before it was made is not there to be registered.
        let is_registered = !settled.is_deleted();
        let mut pruned = Vec::new();
        let registered = registrar.map(|mut registrar| {
            if is_registered {
                let pruning = Pruning::of(moment.obeys, request.pruned);
                pruned = registrar.register_new(new.id, moment.now.content_ms, alias, pruning);
            }
            registrar.settle(&moment, is_registered)
        });
        reply(ctx, new.id, key.bytes(), true);
        let mut effect = ctx.effect(c"SESSION.CREATE");
        effect.arg(key);
        if let Some(registered) = registered {
            effect.word(Word::Index).arg(registered.key());
            index::add_to(&mut effect, alias, &pruned);
            // Replicas get the registration with the session's own effect.
            registered.publish_bare(ctx, None, &[]);
        }
        new.add_to(&mut effect);
        settled.publish(ctx, effect, &[], &[c"session.create"]);
        Ok(())
    }
}

fn reply(ctx: &Ctx, id: Uuid, key: &[u8], created: bool) {
    ctx.reply_map(3);
    ctx.reply_bulk(b"id");
    ctx.reply_bulk(id.hyphenated().to_string().as_bytes());
    ctx.reply_bulk(b"key");
    ctx.reply_bulk(key);
    ctx.reply_bulk(b"created");
    ctx.reply_i64(i64::from(created));
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_session_core::limits::Limits;

    #[test]
    fn the_reference_names_every_limit() {
        let names: Vec<String> = Limits::ROWS
            .iter()
            .map(|limit| match limit.unit {
                "milliseconds" => format!("`{}` (ms)", limit.name),
                "seconds" => format!("`{}` (s)", limit.name),
                _ => format!("`{}`", limit.name),
            })
            .collect();
        let names = names.join(", ");
        assert!(COMMAND.details.contains(&names), "the details do not say {names}");
    }
}
