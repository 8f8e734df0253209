//! `SESSION.MIGRATE`: a legacy layout becomes a session, in one step.

use std::collections::HashSet;

use redis_session_core::layout::{self, Format};
use redis_session_core::session::{Migrated, Migration};
use redis_session_core::Session;
use uuid::Uuid;

use super::create::uuid_of;
use super::{limit_option, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, Expiry, GivenLimits, WriteOptions};
use crate::ffi::{
    entry_with_keys, Arg, Args, Ctx, ErrorReply, FindsKeys, ForeignKind, ForeignValue, Found, Handler, Word,
};
use crate::table::{arg, block, flag, key, many, opt, token, Access, Command, KeySpec, Kind};
use crate::value::session::SessionValue;
use crate::write::{Admitted, Moment};
use crate::{error, migration};

pub const COMMAND: Command = Command {
    name: "SESSION.MIGRATE",
    summary: "Converts a conversation in a legacy layout to a session, in place",
    complexity: "O(N) with N the bytes of the layout",
    arity: -2,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[
        KeySpec::at(1, Access::UPDATE),
        KeySpec::in_option(Access::DELETE),
    ],
    args: &[
        key("key"),
        opt(token("FROM", block("sources", &[arg("numkeys", Kind::Int), many(key("source"))]))),
        opt(token("FORMAT", arg("format", Kind::Str))),
        opt(token("ID", arg("uuid", Kind::Str))),
        opt(token("MAXLEN", arg("count", Kind::Int))),
        flag("KEEP"),
        flag("DRYRUN"),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Map `format`, `messages`, `malformed`, `entities`, `events`, `tokens`, `removed`; if there is a session already, `format` is \
              `rdsession` and the others are 0.",
    details: "Converts the layout at key, or at the sources, to a session at key. The layout is recognised by type and shape, or given with \
              `FORMAT` (`json-array`, `json-list`, `context`, `hash-list`, `live-hash`, `openai-agents`, `langchain`, `motorhead`, \
              `agent-framework`, `agent-memory`, `adk`, `llama-index`). Order and bodies are kept byte for byte. The longest expiry of the \
              sources is kept, and what remains of it becomes the ttl. Sources are deleted unless `KEEP` is given; `removed` counts them, \
              key included. Elements that are not JSON objects are set aside, not lost: they are counted, logged and readable with \
              `SESSION.RANGE … MALFORMED`. If a source cannot be read, the command fails with `BADLAYOUT` and changes nothing. The session \
              gets no window and no bounds on events except `MAXLEN` or the bound in the layout. `DRYRUN` replies what would be done. With \
              `session.auto-migrate` the first command that writes to a JSON layout of one key migrates it first.",
    entry: entry_with_keys::<Migrate>(),
    ..Command::BLANK
};

pub struct Migrate;

impl FindsKeys for Migrate {
    const ROW: &'static Command = &COMMAND;
}

#[derive(Default)]
struct Request<'a> {
    from: Option<Args<'a>>,
    format: Option<Format>,
    id: Option<Uuid>,
    maxlen: Option<u64>,
    keep: bool,
    dry_run: bool,
    /// From a primary only.
    limits: GivenLimits,
    options: WriteOptions,
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        if is(word, "FROM") {
            let from = cursor.counted(word, "FROM", 1)?;
            once(&mut request.from, word, from)?;
        } else if is(word, "FORMAT") {
            let name = cursor.value(word)?;
            let format = Format::named(name.bytes()).ok_or_else(|| unknown_format(name))?;
            once(&mut request.format, word, format)?;
        } else if is(word, "ID") {
            let id = uuid_of(cursor.value(word)?)?;
            once(&mut request.id, word, id)?;
        } else if is(word, "MAXLEN") {
            let maxlen = limit_option(&mut cursor, word, "maxlen", "MAXLEN")?;
            once(&mut request.maxlen, word, maxlen)?;
        } else if is(word, "KEEP") {
            once_flag(&mut request.keep, word)?;
        } else if is(word, "DRYRUN") {
            once_flag(&mut request.dry_run, word)?;
        } else if is(word, "LIMIT") && ctx.obeys_primary() {
            request.limits.take(&mut cursor, word)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    // `KEEPTTL` is what happens without it: the layout's expiry is kept.
    request.options.expiry.take_if(|expiry| *expiry == Expiry::Keep);
    let sources = request.sources(&args[1..2]);
    let mut known = HashSet::new();
    if let Some(source) = sources.iter().find(|source| !known.insert(source.bytes())) {
        return Err(format!("ERR FROM names '{}' twice", error::quoted(source.bytes())).into());
    }
    if request.keep && sources.iter().any(|source| source.bytes() == args[1].bytes()) {
        return Err("ERR KEEP needs sources at other keys than the session's".into());
    }
    Ok(request)
}

#[cold]
fn unknown_format(name: Arg<'_>) -> ErrorReply {
    let names: Vec<&str> = Format::all().map(Format::name).collect();
    format!(
        "ERR FORMAT must be one of {}, not '{}'",
        names.join(", "),
        error::quoted(name.bytes())
    )
    .into()
}

impl<'a> Request<'a> {
    fn sources(&self, key: Args<'a>) -> Args<'a> {
        self.from.unwrap_or(key)
    }
}

#[cold]
fn bad_layout(why: impl std::fmt::Display) -> ErrorReply {
    format!("BADLAYOUT {why}").into()
}

/// Reads every source whole, and when the last of them expires.
fn read_sources(ctx: &Ctx, sources: Args<'_>) -> args::Result<(Vec<ForeignValue>, Option<i64>)> {
    let mut values = Vec::with_capacity(sources.len());
    let mut expires_at_ms = Some(i64::MIN);
    for (i, source) in sources.iter().enumerate() {
        let (kind, at_ms) = ctx.foreign_kind(*source);
        // A source without an expiry outlives all others.
        expires_at_ms = expires_at_ms.zip(at_ms).map(|(longest, at_ms)| longest.max(at_ms));
        let why = match kind {
            ForeignKind::Missing => "is missing",
            ForeignKind::Other => "is of a type that no layout has",
            _ => "cannot be read",
        };
        let value = ctx
            .read_foreign(*source, kind)
            .ok_or_else(|| bad_layout(format_args!("source {} {why}", i + 1)))?;
        values.push(value);
    }
    Ok((values, expires_at_ms))
}

impl Handler for Migrate {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let request = parse(ctx, args)?;
        let sources = request.sources(&args[1..2]);
        let options = &request.options;
        let moment = Moment::of(ctx, options);
        let opened = ctx.open_key_read::<SessionValue>(key);
        let is_source = sources.iter().any(|source| source.bytes() == key.bytes());
        let session = match opened.get() {
            Found::Value(value) => Some(value.session()),
            Found::Missing if request.from.is_none() => return Err(error::no_session(key.bytes())),
            Found::WrongType if !is_source => return Err(error::busy_destination(key.bytes())),
            _ => None,
        };
        let admitted = Admitted::as_given(session, options, &moment)?;
        if session.is_some() {
            reply(ctx, "rdsession", &Migrated::default(), 0);
            return Ok(());
        }
        drop(opened);
        let (values, expires_at_ms) = read_sources(ctx, sources)?;
        let mut held = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            let source = value
                .source()
                .ok_or_else(|| bad_layout(format_args!("source {} cannot be read", i + 1)))?;
            held.push(source);
        }
        let legacy = layout::recognise(&held, request.format).map_err(bad_layout)?;
        let format = legacy.format();
        let (session, done) = Session::migrate(
            &legacy,
            &Migration {
                id: request.id,
                new_id: if request.dry_run { Uuid::nil() } else { Uuid::now_v7() },
                ttl_ms: migration::ttl_ms_until(expires_at_ms, moment.now.now_ms),
                limits: request.limits.over_defaults(ctx.obeys_primary()),
                maxlen: request.maxlen,
                now: moment.now,
            },
        )
        .map_err(bad_layout)?;
        drop(legacy);
        drop(held);
        drop(values);
        let removed = if request.keep { 0 } else { sources.len() as u64 };
        if request.dry_run {
            reply(ctx, format.name(), &done, removed);
            return Ok(());
        }

        let mut effect = ctx.effect(c"SESSION.MIGRATE");
        effect.arg(key);
        if let Some(from) = request.from {
            effect
                .word(Word::From)
                .int(from.len() as i64)
                .args(from.iter().copied());
        }
        migration::add_facts(&mut effect, format, &session);
        if request.keep {
            effect.word(Word::Keep);
        }
        let settled = admitted.destination(ctx, key).place(session, done.evicted).settle();
        reply(ctx, format.name(), &done, removed);
        migration::record(ctx, key.bytes(), format, &done);
        let gone: Vec<Arg<'_>> = sources
            .iter()
            .copied()
            .filter(|source| !request.keep && source.bytes() != key.bytes())
            .collect();
        settled.publish_with_deletions(ctx, effect, &[c"session.migrate"], &gone);
        ctx.signal_ready(key);
        Ok(())
    }
}

fn reply(ctx: &Ctx, format: &str, done: &Migrated, removed: u64) {
    ctx.reply_map(7);
    ctx.reply_bulk(b"format");
    ctx.reply_bulk(format.as_bytes());
    for (name, count) in [
        (&b"messages"[..], done.messages),
        (b"malformed", done.malformed),
        (b"entities", done.entities),
        (b"events", done.events),
        (b"tokens", done.tokens),
        (b"removed", removed),
    ] {
        ctx.reply_bulk(name);
        ctx.reply_i64(count as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_format() {
        let names: Vec<String> = Format::all().map(|format| format!("`{}`", format.name())).collect();
        let names = format!("({})", names.join(", "));
        assert!(COMMAND.details.contains(&names), "the details do not say {names}");
    }
}
