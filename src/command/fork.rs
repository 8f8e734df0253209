//! `SESSION.FORK`: a session of its own that goes on from another.

use redis_session_core::session::{Fork as Forked, Part};
use uuid::Uuid;

use super::create::uuid_of;
use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler, Word};
use crate::table::{arg, flag, key, one_of, opt, token, Access, Command, KeySpec, Kind};
use crate::value::session::SessionValue;
use crate::write::{Admitted, Moment};

pub const COMMAND: Command = Command {
    name: "SESSION.FORK",
    summary: "Makes a new session that continues from another and shares its history",
    complexity: "O(N/64) with N the chunks of the source: sealed chunks are shared, not copied; with UPTO also O(M) with M the records cut",
    arity: -3,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[
        KeySpec::at(1, Access::READ),
        KeySpec::at(2, Access::OVERWRITE),
    ],
    args: &[
        key("source"),
        key("destination"),
        opt(one_of(
            "part",
            &[token("UPTO", arg("seq", Kind::Int)), token("CHECKPOINT", arg("checkpoint-id", Kind::Int))],
        )),
        opt(token("ID", arg("uuid", Kind::Str))),
        flag("REPLACE"),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "The new session's id.",
    details: "A fork is open, at version 1, with the source's messages, entities, agents, events, state, ttl, limits, pins, scope and meta, \
              but without its alias, lease, `DEDUP` tokens and checkpoints; seqs continue from the source's. `UPTO` drops messages and \
              events after a seq; `CHECKPOINT` takes messages, entities, agents and state from a checkpoint. `IFVERSION` checks the source; \
              the expiry options and `AT` apply to the fork; no lease token is required. If the destination exists, the command fails with \
              `BUSYKEY`, unless `REPLACE` is given.",
    entry: entry::<Fork>(),
    ..Command::BLANK
};

pub struct Fork;

#[derive(Default)]
struct Request {
    part: Option<Part>,
    id: Option<Uuid>,
    replace: bool,
    options: WriteOptions,
}

fn parse(ctx: &Ctx, args: Args<'_>) -> args::Result<Request> {
    let mut cursor = Cursor::at(args, 3);
    let mut request = Request::default();
    while let Some(word) = cursor.next() {
        if is(word, "UPTO") {
            let seq = cursor.int(word, "UPTO", 0, i64::MAX)?;
            once(&mut request.part, word, Part::Upto(seq as u64))?;
        } else if is(word, "CHECKPOINT") {
            let id = cursor.int(word, "CHECKPOINT", 0, i64::MAX)?;
            once(&mut request.part, word, Part::Checkpoint(id as u64))?;
        } else if is(word, "ID") {
            let id = uuid_of(cursor.value(word)?)?;
            once(&mut request.id, word, id)?;
        } else if is(word, "REPLACE") {
            once_flag(&mut request.replace, word)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if args[1].bytes() == args[2].bytes() {
        return Err("ERR source and destination are the same key".into());
    }
    Ok(request)
}

impl Handler for Fork {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let (source, destination) = (args[1], args[2]);
        let Request {
            part,
            id,
            replace,
            options,
        } = parse(ctx, args)?;
        let moment = Moment::of(ctx, &options);
        let opened = ctx.open_key_read::<SessionValue>(source);
        let Some(session) = opened.value()?.map(SessionValue::session) else {
            return Err(error::no_session(source.bytes()));
        };
        let admitted = Admitted::as_given(Some(session), &options, &moment)?;
        if let Some(Part::Checkpoint(id)) = part {
            if session.checkpoint(id).is_none() {
                return Err(error::no_checkpoint(id, source.bytes()));
            }
        }
        let place = admitted.destination(ctx, destination);
        if place.is_occupied() && !replace && !moment.obeys {
            return Err(error::busy_destination(destination.bytes()));
        }
        let fork = Forked {
            id: id.unwrap_or_else(Uuid::now_v7),
            created_at_ms: moment.now.content_ms,
            part: part.unwrap_or(Part::Whole),
        };
        let forked = session.fork(&fork, moment.now);
        let settled = place.place(forked.result, forked.evicted).settle();
        drop(opened);

        let id_text = fork.id.hyphenated().to_string();
        ctx.reply_bulk(id_text.as_bytes());
        let mut effect = ctx.effect(c"SESSION.FORK");
        effect.arg(source).arg(destination);
        match part {
            Some(Part::Upto(seq)) => {
                effect.word(Word::Upto).int(seq as i64);
            }
            Some(Part::Checkpoint(id)) => {
                effect.word(Word::Checkpoint).int(id as i64);
            }
            Some(Part::Whole) | None => {}
        }
        effect.word(Word::Id).bytes(id_text.as_bytes());
        if replace {
            effect.word(Word::Replace);
        }
        settled.publish(ctx, effect, &[], &[c"session.fork"]);
        ctx.signal_ready(destination);
        Ok(())
    }
}
