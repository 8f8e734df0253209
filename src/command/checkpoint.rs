//! `SESSION.CHECKPOINT`: moments of a session to come back to, and what recovers it from elsewhere.

use redis_session_core::session::{Checkpoint, NewCheckpoint, RESTORED};
use redis_session_core::text::json;
use redis_session_core::text::time::MAX_TIME_MS;

use super::remove::parse_seqs;
use super::{help, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, Expiry, WriteOptions};
use crate::ffi::{entry, entry_with_keys, Arg, Args, Ctx, Effect, ErrorReply, FindsKeys, Handler, Word};
use crate::migration::Reading;
use crate::publish::{self, Publication};
use crate::table::{arg, block, flag, key, many, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};
use crate::{error, info, settings};

pub const COMMAND: Command = Command {
    name: "SESSION.CHECKPOINT",
    summary: "Makes, shows and restores checkpoints of a session",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[CREATE, GET, LIST, DEL, RESTORE, HELP],
    ..Command::BLANK
};

const CREATE: Command = Command {
    name: "CREATE",
    summary: "Makes a checkpoint, and optionally closes the session",
    complexity: "O(N/64+M) with N the chunks of the session and M the events since the last checkpoint: sealed chunks are shared, not copied",
    arity: -3,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[KeySpec::at(2, Access::UPDATE), KeySpec::in_option(Access::OVERWRITE)],
    args: &[
        key("key"),
        opt(token("STORE", key("destination"))),
        opt(token("GRACE", arg("seconds", Kind::Int))),
        opt(token("LABEL", arg("label", Kind::Str))),
        opt(token("OUTCOME", arg("outcome", Kind::Str))),
        opt(token("SUMMARY", arg("json", Kind::Str))),
        opt(token("REFS", block("refs", &[arg("numids", Kind::Int), many(arg("entity-id", Kind::Str))]))),
        flag("TRIM"),
        flag("CLOSE"),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "The checkpoint's id, a seq.",
    details: "A checkpoint contains the present messages, entities, agents and state, a time, label and outcome, refs (default: the entities \
              of the events since the last checkpoint) and a summary (default: `{\"impacts\":{…}}` with the top-level keys of the impacts of \
              those events, where later values replace earlier ones). Beyond `max-checkpoints` the oldest is dropped. `STORE` writes the \
              recovery reference, \
              `{\"sessionId\",\"checkpointId\",\"timestamp\",\"refEntities\",\"summary\",\"outcome\",\"state\",\"label\"}`, as a string key \
              that expires `GRACE` seconds (default `session.checkpoint-grace`) after the session would, or never if the session has no \
              expiry; like `SET` it overwrites the key. `TRIM` drops the events since the last checkpoint. `CLOSE` closes the session: its \
              lease ends, further writes fail with `CLOSED`, and it expires after `GRACE` seconds, unless an expiry option is given.",
    entry: entry_with_keys::<CheckpointCreate>(),
    ..Command::BLANK
};

const GET: Command = Command {
    name: "GET",
    summary: "Returns a checkpoint",
    complexity: "O(log(N)) with N the checkpoints of the session",
    arity: 4,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key"), arg("checkpoint-id", Kind::Int)],
    reply: "The checkpoint as JSON, in the shape of the recovery reference, or nil.",
    entry: entry::<CheckpointGet>(),
    ..Command::BLANK
};

const LIST: Command = Command {
    name: "LIST",
    summary: "Returns the checkpoints of a session",
    complexity: "O(N) with N the checkpoints of the session",
    arity: 3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key")],
    reply: "Array of checkpoints as JSON, oldest first.",
    entry: entry::<CheckpointList>(),
    ..Command::BLANK
};

const DEL: Command = Command {
    name: "DEL",
    summary: "Deletes checkpoints of a session",
    complexity: "O(N*M) with N the checkpoints and M the ids; frees what no other key shares",
    arity: -4,
    flags: "write",
    acl: "write slow",
    keys: &[KeySpec::at(2, Access::DELETE)],
    args: &[
        key("key"),
        many(arg("checkpoint-id", Kind::Int)),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Number of checkpoints deleted.",
    entry: entry::<CheckpointDel>(),
    ..Command::BLANK
};

const RESTORE: Command = Command {
    name: "RESTORE",
    summary: "Restores messages, entities, agents and state from a checkpoint",
    complexity: "O(N/64) with N the chunks of the session; O(M) with M its messages if roles are pinned or ages bounded",
    arity: -4,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[key("key"), arg("checkpoint-id", Kind::Int), IFVERSION, LEASE, AT, EXPIRY],
    reply: "The session's new version.",
    details: "Events, meta, limits, pins, `DEDUP` tokens, lease, counts and the other checkpoints do not change; the present window is \
              applied. An event of type `restored` is recorded, with the next seq. Fails with `NOCHECKPOINT` if there is no such checkpoint.",
    entry: entry::<CheckpointRestore>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<CheckpointHelp>());

pub struct CheckpointCreate;
pub struct CheckpointGet;
pub struct CheckpointList;
pub struct CheckpointDel;
pub struct CheckpointRestore;
pub struct CheckpointHelp;

#[derive(Default)]
struct Request<'a> {
    new: NewCheckpoint<'a>,
    store: Option<Arg<'a>>,
    grace_s: Option<i64>,
    options: WriteOptions,
}

fn parse_create<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::at(args, 3);
    let mut request = Request::default();
    let mut summary: Option<Arg<'a>> = None;
    while let Some(word) = cursor.next() {
        let new = &mut request.new;
        if is(word, "STORE") {
            let destination = cursor.value(word)?;
            once(&mut request.store, word, destination)?;
        } else if is(word, "GRACE") {
            let grace_s = cursor.int(word, "GRACE", 0, settings::CHECKPOINT_GRACE_S.max())?;
            once(&mut request.grace_s, word, grace_s)?;
        } else if is(word, "LABEL") {
            let label = cursor.text(word, "LABEL")?;
            once(&mut new.label, word, label)?;
        } else if is(word, "OUTCOME") {
            let outcome = cursor.text(word, "OUTCOME")?;
            once(&mut new.outcome, word, outcome)?;
        } else if is(word, "SUMMARY") {
            let value = cursor.value(word)?;
            once(&mut summary, word, value)?;
        } else if is(word, "REFS") {
            let refs = args::texts(cursor.counted(word, "REFS", 0)?, "REFS")?;
            once(&mut new.refs, word, refs)?;
        } else if is(word, "TRIM") {
            once_flag(&mut new.trim, word)?;
        } else if is(word, "CLOSE") {
            once_flag(&mut new.close, word)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if let Some(summary) = summary {
        request.new.summary = Some(summary_of(ctx, summary)?);
    }
    if let Some(destination) = request.store {
        if destination.bytes() == args[2].bytes() {
            return Err(format!(
                "ERR STORE needs another key than the session's '{}'",
                error::quoted(destination.bytes())
            )
            .into());
        }
    }
    Ok(request)
}

/// Reads the value of `SUMMARY`. A primary's may have been merged from impacts that are each as deep as JSON may be: it may be one deeper.
fn summary_of<'a>(ctx: &Ctx, summary: Arg<'a>) -> args::Result<&'a str> {
    match args::object(ctx, summary.bytes(), "SUMMARY") {
        Err(_) if ctx.obeys_primary() && json::is_composed_object(summary.bytes()) => {
            args::utf8(summary.bytes(), "SUMMARY")
        }
        object => object,
    }
}

impl FindsKeys for CheckpointCreate {
    const ROW: &'static Command = &CREATE;
}

impl Handler for CheckpointCreate {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let Request {
            new,
            store,
            grace_s,
            mut options,
        } = parse_create(ctx, args)?;
        let moment = Moment::of(ctx, &options);
        let now_ms = moment.now.now_ms;
        let grace_ms = grace_s.unwrap_or_else(|| settings::CHECKPOINT_GRACE_S.get()) * 1000;
        let later = |at_ms: i64| at_ms.saturating_add(grace_ms).min(MAX_TIME_MS);
        if new.close && options.expiry.is_none() && !moment.obeys {
            options.expiry = Some(Expiry::At { ms: later(now_ms) });
        }
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (made, changed) = guarded.change(|session| session.make_checkpoint(&new, moment.now));
        let reference = store.map(|destination| (destination, made.json(changed.session().id())));
        let mut effect = ctx.effect(c"SESSION.CHECKPOINT");
        effect.word(Word::Create).arg(key);
        add_to(&mut effect, &made);
        if new.trim {
            effect.word(Word::Trim);
        }
        if new.close {
            effect.word(Word::Close);
        }
        let (settled, expires_at_ms) = changed.settle_and_look();
        info::CHECKPOINTS.add(1);
        ctx.reply_i64(made.id as i64);
        let events = [c"session.checkpoint", c"session.close"];
        settled.publish(ctx, effect, &[], if new.close { &events } else { &events[..1] });
        if let Some((destination, json)) = reference {
            settled.store_string(ctx, destination, &json, expires_at_ms.map(later));
        }
        let publication = Publication {
            seq: made.id,
            kind: "checkpoint",
            type_name: None,
            agent: None,
            time_ms: moment.now.content_ms,
        };
        publish::recorded(ctx, &settled, publication);
        Ok(())
    }
}

/// Adds what was recorded to a replicated `SESSION.CHECKPOINT CREATE`.
fn add_to(effect: &mut Effect<'_>, made: &Checkpoint) {
    for (word, text) in [
        (Word::Label, made.label.as_deref()),
        (Word::Outcome, made.outcome.as_deref()),
        (Word::Summary, Some(made.summary.as_str())),
    ] {
        if let Some(text) = text {
            effect.word(word).bytes(text.as_bytes());
        }
    }
    effect.word(Word::Refs).int(made.refs.len() as i64);
    for entity in &made.refs {
        effect.bytes(entity.as_bytes());
    }
}

impl Handler for CheckpointGet {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let id = args::counter(args[3].bytes(), "checkpoint-id")?;
        let opened = Reading::open(ctx, args[2])?;
        let session = opened.session();
        match session.and_then(|session| Some(session.checkpoint(id)?.json(session.id()))) {
            Some(json) => ctx.reply_bulk(&json),
            None => ctx.reply_null(),
        }
        Ok(())
    }
}

impl Handler for CheckpointList {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = Reading::open(ctx, args[2])?;
        let Some(session) = opened.session() else {
            ctx.reply_array(0);
            return Ok(());
        };
        ctx.reply_array(session.checkpoints().len());
        for checkpoint in session.checkpoints() {
            ctx.reply_bulk(&checkpoint.json(session.id()));
        }
        Ok(())
    }
}

impl Handler for CheckpointDel {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let mut cursor = Cursor::at(args, 3);
        let ids = parse_seqs(&mut cursor, "checkpoint-id")?;
        let options = WriteOptions::rest(ctx, cursor)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (count, changed) = guarded.change(|session| session.drop_checkpoints(&ids, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.CHECKPOINT");
        effect
            .word(Word::Del)
            .arg(key)
            .args(args[3..3 + ids.len()].iter().copied());
        settled.publish(
            ctx,
            effect,
            &[],
            (count > 0).then_some(c"session.checkpoint").as_slice(),
        );
        Ok(())
    }
}

impl Handler for CheckpointRestore {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let id = args::counter(args[3].bytes(), "checkpoint-id")?;
        let options = WriteOptions::rest(ctx, Cursor::at(args, 4))?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (restored, changed) = guarded.attempt(|session| {
            let restored = session.restore(id, moment.now);
            restored.ok_or_else(|| error::no_checkpoint(id, key.bytes()))
        })?;
        let settled = changed.settle();
        info::RESTORES.add(1);
        ctx.reply_i64(restored.version as i64);
        let mut effect = ctx.effect(c"SESSION.CHECKPOINT");
        effect.word(Word::Restore).arg(key).arg(args[3]);
        settled.publish(ctx, effect, &[], &[c"session.restore"]);
        let publication = Publication {
            seq: restored.event_seq,
            kind: "event",
            type_name: Some(RESTORED),
            agent: None,
            time_ms: moment.now.content_ms,
        };
        publish::recorded(ctx, &settled, publication);
        Ok(())
    }
}

impl Handler for CheckpointHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}
