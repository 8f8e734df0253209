//! `SESSION.EVENT`: what agents recorded, and the state of the session.

use redis_session_core::session::INITIAL_STATE;
use redis_session_core::session::{EventRange, NewEvent};
use smallvec::SmallVec;

use super::{help, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, Word};
use crate::migration::Reading;
use crate::publish::{self, Publication};
use crate::table::{arg, block, flag, key, many, many_token, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};
use crate::{error, info};

pub const COMMAND: Command = Command {
    name: "SESSION.EVENT",
    summary: "Records and reads the events of a session and changes its state",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[ADD, RANGE, LEN, HELP],
    ..Command::BLANK
};

const ADD: Command = Command {
    name: "ADD",
    summary: "Records an event, creating the session if needed, and optionally changes the state",
    complexity: "O(N) with N the bytes of the event",
    arity: -4,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[
        key("key"),
        arg("type", Kind::Str),
        opt(token("AGENT", arg("agent", Kind::Str))),
        opt(token("ENTITIES", block("entities", &[arg("numids", Kind::Int), many(arg("id", Kind::Str))]))),
        opt(token("CHANGE", arg("json", Kind::Str))),
        opt(token("IMPACT", arg("json", Kind::Str))),
        opt(token("IFSTATE", arg("state", Kind::Str))),
        opt(token("STATE", arg("state", Kind::Str))),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "The event's seq.",
    details: "The type is free text (`modified`, `broke`, `pass`…). A session starts in state `working`. `STATE` changes the state (also to \
              the same one); `IFSTATE` fails with `STATECONFLICT` if the session is in another state. `ENTITIES` replaces the `entityIds` in \
              `CHANGE`. Events are bounded by count and age (`event-maxlen`, `event-ttl`) and published (`session.publish`).",
    entry: entry::<EventAdd>(),
    ..Command::BLANK
};

const RANGE: Command = Command {
    name: "RANGE",
    summary: "Returns the events in a range of seqs, filtered",
    complexity: "O(log(N)+M) with N the chunks of the log and M the events examined until COUNT are found",
    arity: -5,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[
        key("key"),
        arg("start", Kind::Str),
        arg("stop", Kind::Str),
        flag("REV"),
        opt(token("COUNT", arg("count", Kind::Int))),
        opt(many_token(token("TYPE", arg("type", Kind::Str)))),
        opt(many_token(token("AGENT", arg("agent", Kind::Str)))),
        opt(many_token(token("ENTITY", arg("entity-id", Kind::Str)))),
        opt(token("FROM", arg("state", Kind::Str))),
        opt(token("TO", arg("state", Kind::Str))),
    ],
    reply: "Array of events as JSON.",
    details: "An event is `{\"seq\",\"timestamp\",\"type\",\"agentId\",\"changeInfo\":{\"entityIds\":[…], \
              …},\"impact\":{…},\"stateTransition\":{\"from\",\"to\"}}`, without the members that were not given. start and stop take `-`, \
              `+`, `n` and `(n`. An event must match one value of each filter that is given; `ENTITY` compares with `changeInfo.entityIds`, \
              `FROM` and `TO` with `stateTransition`.",
    entry: entry::<EventRangeOf>(),
    ..Command::BLANK
};

const LEN: Command = Command {
    name: "LEN",
    summary: "Returns the number of events",
    complexity: "O(1)",
    arity: 3,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(2, Access::LOOK)],
    args: &[key("key")],
    reply: "Integer; 0 if there is no session.",
    entry: entry::<EventLen>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<EventHelp>());

pub struct EventAdd;
pub struct EventRangeOf;
pub struct EventLen;
pub struct EventHelp;

#[derive(Default)]
struct Request<'a> {
    event: NewEvent<'a>,
    entities: Option<SmallVec<[&'a str; 4]>>,
    /// The ids of `ENTITIES` as they came, for replicas.
    entity_args: Args<'a>,
    if_state: Option<&'a str>,
    options: WriteOptions,
}

fn parse_add<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::at(args, 4);
    let mut request = Request::default();
    let (mut change, mut impact): (Option<Arg<'a>>, Option<Arg<'a>>) = (None, None);
    request.event.kind = args::text(args[3].bytes(), "type")?;
    while let Some(word) = cursor.next() {
        let event = &mut request.event;
        if is(word, "AGENT") {
            let agent = cursor.text(word, "AGENT")?;
            once(&mut event.agent, word, agent)?;
        } else if is(word, "ENTITIES") {
            request.entity_args = cursor.counted(word, "ENTITIES", 0)?;
            let ids = args::texts(request.entity_args, "ENTITIES")?;
            once(&mut request.entities, word, ids)?;
        } else if is(word, "CHANGE") {
            let value = cursor.value(word)?;
            once(&mut change, word, value)?;
        } else if is(word, "IMPACT") {
            let value = cursor.value(word)?;
            once(&mut impact, word, value)?;
        } else if is(word, "IFSTATE") {
            let state = cursor.text(word, "IFSTATE")?;
            once(&mut request.if_state, word, state)?;
        } else if is(word, "STATE") {
            let state = cursor.text(word, "STATE")?;
            once(&mut event.state, word, state)?;
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if let Some(change) = change {
        request.event.change = Some(args::object_bytes(ctx, change.bytes(), "CHANGE")?);
    }
    if let Some(impact) = impact {
        request.event.impact = Some(args::object_bytes(ctx, impact.bytes(), "IMPACT")?);
    }
    Ok(request)
}

impl Handler for EventAdd {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let Request {
            event,
            entities,
            entity_args,
            if_state,
            options,
        } = parse_add(ctx, args)?;
        let event = NewEvent {
            entities: entities.as_deref(),
            ..event
        };
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::or_new(ctx, key)?.guard(&options, &moment)?;
        if let Some(wanted) = if_state {
            let is = guarded.session().map_or(INITIAL_STATE, |session| session.state());
            if is != wanted {
                info::CONFLICTS.add(1);
                return Err(error::state_conflict(is, wanted));
            }
        }
        let (seq, changed) = guarded.change(|session| session.add_event(&event, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(seq as i64);

        let mut effect = ctx.effect(c"SESSION.EVENT");
        effect.word(Word::Add).arg(key).arg(args[3]);
        if let Some(agent) = event.agent {
            effect.word(Word::Agent).bytes(agent.as_bytes());
        }
        if event.entities.is_some() {
            effect
                .word(Word::Entities)
                .int(entity_args.len() as i64)
                .args(entity_args.iter().copied());
        }
        for (word, text) in [
            (Word::Change, event.change),
            (Word::Impact, event.impact),
            (Word::State, event.state.map(str::as_bytes)),
        ] {
            if let Some(text) = text {
                effect.word(word).bytes(text);
            }
        }
        settled.publish(ctx, effect, &[], &[c"session.event"]);
        let publication = Publication {
            seq,
            kind: "event",
            type_name: Some(event.kind),
            agent: event.agent,
            time_ms: moment.now.content_ms,
        };
        publish::recorded(ctx, &settled, publication);
        Ok(())
    }
}

impl Handler for EventRangeOf {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let mut cursor = Cursor::at(args, 5);
        let (mut rev, mut count, mut from_state, mut to_state) = (false, None, None, None);
        let (mut kinds, mut agents, mut entities) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(word) = cursor.next() {
            if is(word, "REV") {
                once_flag(&mut rev, word)?;
            } else if is(word, "COUNT") {
                let value = cursor.int(word, "COUNT", 0, i64::MAX)?;
                once(&mut count, word, value as u64)?;
            } else if is(word, "TYPE") {
                kinds.push(cursor.text(word, "TYPE")?);
            } else if is(word, "AGENT") {
                agents.push(cursor.text(word, "AGENT")?);
            } else if is(word, "ENTITY") {
                entities.push(cursor.text(word, "ENTITY")?);
            } else if is(word, "FROM") {
                let state = cursor.text(word, "FROM")?;
                once(&mut from_state, word, state)?;
            } else if is(word, "TO") {
                let state = cursor.text(word, "TO")?;
                once(&mut to_state, word, state)?;
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let bounds = args::seq_bounds(args[3], args[4])?;
        let opened = Reading::open(ctx, args[2])?;
        let Some(session) = opened.session() else {
            ctx.reply_array(0);
            return Ok(());
        };
        let Some((from, to)) = bounds else {
            ctx.reply_array(0);
            return Ok(());
        };
        let range = EventRange {
            from,
            to,
            rev,
            count: count.unwrap_or(u64::MAX),
            kinds: &kinds,
            agents: &agents,
            entities: &entities,
            from_state,
            to_state,
        };
        let list = ctx.reply_array_postponed();
        session.events(&range, ctx.now_ms(), |event| ctx.reply_bulk(event));
        list.end();
        Ok(())
    }
}

impl Handler for EventLen {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = Reading::open(ctx, args[2])?;
        match opened.session() {
            Some(session) => ctx.reply_i64(session.event_span(ctx.now_ms()).count as i64),
            None => ctx.reply_i64(0),
        }
        Ok(())
    }
}

impl Handler for EventHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}
