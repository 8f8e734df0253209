//! `SESSION.AGENT`: who works on a session, and whose turn it is.

use redis_session_core::session::{Joined, LeaseHeld, HANDOFF};
use redis_session_core::text::time::MAX_TIME_MS;

use super::{help, AT, EXPIRY, IFVERSION, LEASE as LEASE_OPTION};
use crate::args::{self, is, once, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, Word};
use crate::migration::Reading;
use crate::publish::{self, Publication};
use crate::table::{arg, key, one_of, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.AGENT",
    summary: "Manages the agents of a session and the lease that gives one of them the turn",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[JOIN, LEAVE, LIST, HAND_OFF, LEASE, RELEASE, HELP],
    ..Command::BLANK
};

const JOIN: Command = Command {
    name: "JOIN",
    summary: "Adds an agent, creating the session if needed",
    complexity: "O(log(N)) with N the agents of the session",
    arity: -4,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[
        key("key"),
        arg("agent", Kind::Str),
        opt(token("META", arg("json", Kind::Str))),
        IFVERSION,
        LEASE_OPTION,
        AT,
        EXPIRY,
    ],
    reply: "1, or 0 if the agent is known already.",
    details: "For a known agent `last_seen` is updated, and `meta` is replaced if given. Agents can hold a lease and record events without \
              joining. More than `max-agents` agents are refused with `TOOLARGE`.",
    entry: entry::<AgentJoin>(),
    ..Command::BLANK
};

const LEAVE: Command = Command {
    name: "LEAVE",
    summary: "Removes an agent and ends the lease if the agent holds it",
    complexity: "O(log(N)) with N the agents of the session",
    arity: -4,
    flags: "write fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[key("key"), arg("agent", Kind::Str), IFVERSION, LEASE_OPTION, AT, EXPIRY],
    reply: "1, or 0 if it was no agent and held no lease.",
    entry: entry::<AgentLeave>(),
    ..Command::BLANK
};

const LIST: Command = Command {
    name: "LIST",
    summary: "Returns the agents of a session",
    complexity: "O(N) with N the agents of the session",
    arity: 3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key")],
    reply: "Array of `{\"agentId\",\"joined_at\",\"last_seen\",\"meta\"}` as JSON, sorted by name.",
    entry: entry::<AgentList>(),
    ..Command::BLANK
};

const HAND_OFF: Command = Command {
    name: "HANDOFF",
    summary: "Records a handoff from one agent to another, and passes on the lease if the first holds it",
    complexity: "O(log(N)) with N the agents of the session",
    arity: -5,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[
        key("key"),
        arg("from", Kind::Str),
        arg("to", Kind::Str),
        opt(token("NOTE", arg("note", Kind::Str))),
        IFVERSION,
        LEASE_OPTION,
        AT,
        EXPIRY,
    ],
    reply: "Array `[seq of the handoff event, new lease token or 0]`.",
    details: "The event has type `handoff` and the agent `from`; its `changeInfo` contains `from`, `to` and `note`.",
    entry: entry::<AgentHandOff>(),
    ..Command::BLANK
};

const LEASE: Command = Command {
    name: "LEASE",
    summary: "Gives an agent the lease for a time, or renews it",
    complexity: "O(log(N)) with N the agents of the session",
    arity: -5,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[
        key("key"),
        arg("agent", Kind::Str),
        one_of(
            "until",
            &[arg("milliseconds", Kind::Int), token("PXAT", arg("unix-time-milliseconds", Kind::UnixTime))],
        ),
    ],
    reply: "The fencing token. It increases with each new lease; a renewal keeps it.",
    details: "Fails with `LEASEHELD` if another agent holds an unexpired lease. Until it expires, every writing command except \
              `SESSION.AGENT` requires its token in `LEASE`. Like every writing command it slides the key's expiry.",
    entry: entry::<AgentLease>(),
    ..Command::BLANK
};

const RELEASE: Command = Command {
    name: "RELEASE",
    summary: "Ends a lease",
    complexity: "O(1)",
    arity: 4,
    flags: "write fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[key("key"), arg("lease-token", Kind::Int)],
    reply: "1; the error `LEASELOST` if the token is not that of the unexpired lease.",
    entry: entry::<AgentRelease>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<AgentHelp>());

pub struct AgentJoin;
pub struct AgentLeave;
pub struct AgentList;
pub struct AgentHandOff;
pub struct AgentLease;
pub struct AgentRelease;
pub struct AgentHelp;

/// `[word text] <w>` up to the end.
fn parse_options<'a>(ctx: &Ctx, mut cursor: Cursor<'a>, option: &str) -> args::Result<(WriteOptions, Option<Arg<'a>>)> {
    let mut options = WriteOptions::default();
    let mut value = None;
    while let Some(word) = cursor.next() {
        if is(word, option) {
            let given = cursor.value(word)?;
            once(&mut value, word, given)?;
        } else if !options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok((options, value))
}

impl Handler for AgentJoin {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let agent = args::text(args[3].bytes(), "agent")?;
        let (options, meta_arg) = parse_options(ctx, Cursor::at(args, 4), "META")?;
        let meta = meta_arg
            .map(|meta| args::object(ctx, meta.bytes(), "META"))
            .transpose()?;
        let moment = Moment::of(ctx, &options);
        let limits_enforced = !moment.obeys;
        let guarded = Opened::or_new(ctx, key)?.guard_as_given(&options, &moment)?;
        let (joined, changed) = guarded.attempt(|session| {
            let joined = session.join(agent, meta, limits_enforced, moment.now);
            joined.map_err(|full| error::too_many_agents(full.max_agents))
        })?;
        let is_new = joined == Joined::New;
        let last_seq = changed.session().last_seq();
        let settled = changed.settle();
        ctx.reply_i64(i64::from(is_new));
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Join).arg(key).arg(args[3]);
        if let Some(meta) = meta_arg {
            effect.word(Word::Meta).arg(meta);
        }
        settled.publish(ctx, effect, &[], &[c"session.agent"]);
        if is_new {
            let publication = Publication {
                seq: last_seq,
                kind: "join",
                type_name: None,
                agent: Some(agent),
                time_ms: moment.now.content_ms,
            };
            publish::one(ctx, &settled, publication);
        }
        Ok(())
    }
}

impl Handler for AgentLeave {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let agent = args::text(args[3].bytes(), "agent")?;
        let options = WriteOptions::rest(ctx, Cursor::at(args, 4))?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard_as_given(&options, &moment)?;
        let (left, changed) = guarded.change(|session| session.leave(agent, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(i64::from(left));
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Leave).arg(key).arg(args[3]);
        settled.publish(ctx, effect, &[], left.then_some(c"session.agent").as_slice());
        Ok(())
    }
}

impl Handler for AgentList {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = Reading::open(ctx, args[2])?;
        match opened.session() {
            Some(session) => {
                let list = ctx.reply_array_postponed();
                let mut json = Vec::new();
                for (name, agent) in session.agents() {
                    json.clear();
                    agent.write_json(name, &mut json);
                    ctx.reply_bulk(&json);
                }
                list.end();
            }
            None => ctx.reply_array(0),
        }
        Ok(())
    }
}

impl Handler for AgentHandOff {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let (from, to) = (args::text(args[3].bytes(), "from")?, args::text(args[4].bytes(), "to")?);
        let (options, note_arg) = parse_options(ctx, Cursor::at(args, 5), "NOTE")?;
        let note = note_arg.map(|note| args::text(note.bytes(), "NOTE")).transpose()?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard_as_given(&options, &moment)?;
        let (handed, changed) = guarded.change(|session| session.hand_off(from, to, note, moment.now));
        let settled = changed.settle();
        ctx.reply_array(2);
        ctx.reply_i64(handed.event_seq as i64);
        ctx.reply_i64(handed.lease_token as i64);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Handoff).args(args[2..5].iter().copied());
        if let Some(note) = note_arg {
            effect.word(Word::Note).arg(note);
        }
        settled.publish(ctx, effect, &[], &[c"session.agent"]);
        let publication = Publication {
            seq: handed.event_seq,
            kind: "event",
            type_name: Some(HANDOFF),
            agent: Some(from),
            time_ms: moment.now.content_ms,
        };
        publish::recorded(ctx, &settled, publication);
        Ok(())
    }
}

impl Handler for AgentLease {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let agent = args::text(args[3].bytes(), "agent")?;
        let mut cursor = Cursor::at(args, 4);
        let until = args[4];
        let (mut for_ms, mut at_ms) = (0, None);
        if is(until, "PXAT") {
            cursor.next();
            at_ms = Some(cursor.int(until, "PXAT", 0, MAX_TIME_MS)?);
        } else {
            cursor.next();
            for_ms = args::int(until.bytes(), "milliseconds", 1, MAX_TIME_MS)?;
        }
        // `LEASE` has no `<w>`: only a primary says when it was and what became of the key's expiry.
        let options = match cursor.peek() {
            Some(word) if !ctx.obeys_primary() => return Err(error::syntax(word.bytes())),
            _ => WriteOptions::rest(ctx, cursor)?,
        };
        let moment = Moment::of(ctx, &options);
        let now_ms = moment.now.now_ms;
        let expires_at_ms = at_ms.unwrap_or((now_ms + for_ms).min(MAX_TIME_MS));
        let guarded = Opened::existing(ctx, key)?.unguarded(&options, &moment);
        let limits_enforced = !moment.obeys;
        let (lease_token, changed) = guarded.attempt(|session| {
            let leased = session.lease(agent, expires_at_ms, limits_enforced, moment.now);
            leased.map_err(|held| held_by_another(&held))
        })?;
        let settled = changed.settle();
        ctx.reply_i64(lease_token as i64);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect
            .word(Word::Lease)
            .arg(key)
            .arg(args[3])
            .word(Word::PxAt)
            .int(expires_at_ms);
        settled.publish(ctx, effect, &[], &[]);
        Ok(())
    }
}

fn held_by_another(held: &LeaseHeld) -> ErrorReply {
    crate::info::CONFLICTS.add(1);
    error::lease_held(held)
}

impl Handler for AgentRelease {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let lease_token = args::counter(args[3].bytes(), "token")?;
        let options = WriteOptions::default();
        let mut moment = Moment::of(ctx, &options);
        moment.obeys = ctx.obeys_primary();
        // The primary has found the lease alive; by a replica's clock it may have passed.
        let now_ms = if moment.obeys { 0 } else { moment.now.now_ms };
        let guarded = Opened::existing(ctx, key)?.unguarded(&options, &moment);
        let (_, changed) = guarded.attempt(|session| {
            let released = session.release(lease_token, now_ms);
            match released.result {
                true => Ok(released),
                false => Err(error::lease_lost(lease_token)),
            }
        })?;
        let settled = changed.settle();
        ctx.reply_i64(1);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Release).arg(key).arg(args[3]);
        settled.publish_bare(ctx, Some(&effect), &[]);
        Ok(())
    }
}

impl Handler for AgentHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}
