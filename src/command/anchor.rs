//! `SESSION.ANCHOR`: what recent sessions did to an entity.

use redis_session_core::anchor::{check_number, Added, Anchor, AnchorBounds, NewAnchor, Number};
use redis_session_core::text::MAX_TEXT_BYTES;
use redis_session_core::Anchors;

use super::{help, limit_option, AT};
use crate::args::{self, is, once, Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, block, key, many, opt, token, Access, Command, KeySpec, Kind};
use crate::value::anchors::AnchorsValue;
use crate::write::{Moment, PlainKey};
use crate::{error, settings};

pub const COMMAND: Command = Command {
    name: "SESSION.ANCHOR",
    summary: "Records what recent sessions did to an entity, independent of the sessions' expiry",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[ADD, GET, HELP],
    ..Command::BLANK
};

const ADD: Command = Command {
    name: "ADD",
    summary: "Records what a session did to an entity, replacing what it recorded before",
    complexity: "O(log(N)+M) with N the anchors kept and M those dropped, and the bytes given",
    arity: -4,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::CHANGE)],
    args: &[
        key("key"),
        arg("session-id", Kind::Str),
        opt(token("OUTCOME", arg("outcome", Kind::Str))),
        opt(token("CHECKPOINT", arg("checkpoint-id", Kind::Int))),
        opt(token("IMPACTS", block("impacts", &[arg("numids", Kind::Int), many(arg("id", Kind::Str))]))),
        opt(token("PERF", arg("number", Kind::Str))),
        opt(token("MAXLEN", arg("count", Kind::Int))),
        opt(token("MAXAGE", arg("milliseconds", Kind::Int))),
        AT,
    ],
    reply: "Number of anchors that are kept.",
    details: "Keeps the last anchor of each session, and of all sessions the newest `MAXLEN` (default `session.anchor-maxlen`) that are not \
              older than `MAXAGE` (default `session.anchor-max-age`); 0 is no bound. If `AT` is old enough, the added anchor itself is \
              dropped. Reads apply the `MAXAGE` of the last `ADD`. `PERF` is a JSON number, kept as it is written. When no anchor is left \
              the key is deleted. `ADD` neither sets nor extends the key's expiry: clients set it with `EXPIRE`.",
    entry: entry::<AnchorAdd>(),
    ..Command::BLANK
};

const GET: Command = Command {
    name: "GET",
    summary: "Returns what recent sessions did to an entity, newest first",
    complexity: "O(N) with N the anchors kept; of one session O(log(N))",
    arity: -3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key"), opt(token("SESSION", arg("session-id", Kind::Str)))],
    reply: "Array of anchors as JSON; with `SESSION` it has at most one.",
    details: "An anchor is `{\"sessionId\",\"outcome\",\"checkpointId\",\"keyImpacts\":[…],\"perfDelta\",\"timestamp\"}`, with null for what \
              was not given. Of equal timestamps the one added later comes first.",
    entry: entry::<AnchorGet>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<AnchorHelp>());

pub struct AnchorAdd;
pub struct AnchorGet;
pub struct AnchorHelp;

#[derive(Default)]
struct Request<'a> {
    outcome: Option<&'a str>,
    checkpoint_id: Option<u64>,
    impacts: Option<Vec<&'a str>>,
    /// The ids of `IMPACTS` as they came, for replicas.
    impact_args: Args<'a>,
    perf: Option<Number<'a>>,
    maxlen: Option<u64>,
    max_age_ms: Option<u64>,
    /// Only the times of `<w>` are accepted.
    options: WriteOptions,
}

fn parse_add<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::at(args, 4);
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        if is(word, "OUTCOME") {
            let outcome = cursor.text(word, "OUTCOME")?;
            once(&mut request.outcome, word, outcome)?;
        } else if is(word, "CHECKPOINT") {
            let id = cursor.int(word, "CHECKPOINT", 0, i64::MAX)?;
            once(&mut request.checkpoint_id, word, id as u64)?;
        } else if is(word, "IMPACTS") {
            request.impact_args = cursor.counted(word, "IMPACTS", 0)?;
            let ids = args::texts(request.impact_args, "IMPACTS")?;
            once(&mut request.impacts, word, ids)?;
        } else if is(word, "PERF") {
            let number = number(cursor.value(word)?.bytes())?;
            once(&mut request.perf, word, number)?;
        } else if is(word, "MAXLEN") {
            let count = limit_option(&mut cursor, word, "maxlen", "MAXLEN")?;
            once(&mut request.maxlen, word, count)?;
        } else if is(word, "MAXAGE") {
            let age_ms = limit_option(&mut cursor, word, "maxage", "MAXAGE")?;
            once(&mut request.max_age_ms, word, age_ms)?;
        } else if !request.options.take_time(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok(request)
}

fn number(bytes: &[u8]) -> args::Result<Number<'_>> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(error::text_too_large("PERF", bytes.len()));
    }
    check_number(bytes).ok_or_else(|| "ERR PERF must be a number as JSON writes it".into())
}

impl Handler for AnchorAdd {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let session_id = args::text(args[3].bytes(), "session-id")?;
        let request = parse_add(ctx, args)?;
        let moment = Moment::of(ctx, &request.options);
        let now = moment.now;
        let new = NewAnchor {
            session_id,
            outcome: request.outcome,
            checkpoint_id: request.checkpoint_id,
            key_impacts: request.impacts.as_deref().unwrap_or_default(),
            perf_delta: request.perf,
            time_ms: now.content_ms,
        };
        let bounds = AnchorBounds {
            maxlen: request.maxlen.unwrap_or(settings::ANCHOR_MAXLEN.get() as u64),
            max_age_ms: request
                .max_age_ms
                .unwrap_or(settings::ANCHOR_MAX_AGE_S.get() as u64 * 1000),
        };
        let mut opened = PlainKey::<AnchorsValue>::open(ctx, key)?;
        let added = match opened.value_mut() {
            Some(value) => {
                let added = value.add(&new, bounds, now.now_ms);
                if added.kept == 0 {
                    opened.delete();
                }
                added
            }
            None => {
                let mut anchors = Anchors::default();
                let kept = anchors.add(&new, bounds, now.now_ms).kept;
                if kept > 0 {
                    opened.put(AnchorsValue::new(anchors));
                }
                // Without anchors there is no key, as before.
                let changed = kept > 0;
                Added { kept, changed }
            }
        };
        let settled = opened.settle(&moment, added.changed);
        ctx.reply_i64(added.kept as i64);

        let mut effect = ctx.effect(c"SESSION.ANCHOR");
        effect.word(Word::Add).arg(key).arg(args[3]);
        if let Some(outcome) = request.outcome {
            effect.word(Word::Outcome).bytes(outcome.as_bytes());
        }
        if let Some(id) = request.checkpoint_id {
            effect.word(Word::Checkpoint).int(id as i64);
        }
        if !request.impact_args.is_empty() {
            effect
                .word(Word::Impacts)
                .int(request.impact_args.len() as i64)
                .args(request.impact_args.iter().copied());
        }
        if let Some(number) = request.perf {
            effect.word(Word::Perf).bytes(number.as_str().as_bytes());
        }
        effect.word(Word::MaxLen).int(bounds.maxlen as i64);
        effect.word(Word::MaxAge).int(bounds.max_age_ms as i64);
        settled.publish(ctx, effect, &[], &[]);
        Ok(())
    }
}

impl Handler for AnchorGet {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let mut cursor = Cursor::at(args, 3);
        let mut session_id = None;
        while let Some(word) = cursor.next() {
            if !is(word, "SESSION") {
                return Err(error::syntax(word.bytes()));
            }
            let id = cursor.text(word, "SESSION")?;
            once(&mut session_id, word, id)?;
        }
        let opened = ctx.open_key_read::<AnchorsValue>(args[2]);
        let Some(anchors) = opened.value()?.map(AnchorsValue::anchors) else {
            ctx.reply_array(0);
            return Ok(());
        };
        let now_ms = ctx.now_ms();
        let list = ctx.reply_array_postponed();
        match session_id {
            Some(id) => anchors
                .get(id, now_ms)
                .into_iter()
                .for_each(|anchor| reply_anchor(ctx, anchor)),
            None => anchors
                .newest_first(now_ms)
                .for_each(|anchor| reply_anchor(ctx, anchor)),
        }
        list.end();
        Ok(())
    }
}

impl Handler for AnchorHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}

fn reply_anchor(ctx: &Ctx, anchor: &Anchor) {
    let mut json = Vec::with_capacity(200);
    anchor.write_json(&mut json);
    ctx.reply_bulk(&json);
}
