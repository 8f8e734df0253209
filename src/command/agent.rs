//! `SESSION.AGENT`: who works on a session, and whose turn it is.

use redis_session_core::agent::{Joined, LeaseHeld, HANDOFF};
use redis_session_core::session::Changed;
use redis_session_core::time::MAX_TIME_MS;
use smallvec::SmallVec;

use super::{help, AT, EXPIRY, IFVERSION, LEASE as LEASE_OPTION};
use crate::args::{self, is, once, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, Word};
use crate::migration::Reading;
use crate::publish::{self, Publication};
use crate::table::{arg, key, one_of, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Target};

pub const COMMAND: Command = Command {
    name: "SESSION.AGENT",
    summary: "Keeps the agents of a session and gives one of them the turn",
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
    reply: "1, or 0 for an agent that is known.",
    details: "A known agent is seen again, and its meta replaced if one is given. Agents need not have joined to hold a lease or to record. One \
              more than `max-agents` is `TOOLARGE`.",
    entry: entry::<AgentJoin>(),
    ..Command::BLANK
};

const LEAVE: Command = Command {
    name: "LEAVE",
    summary: "Removes an agent; a lease that it holds ends",
    complexity: "O(log(N)) with N the agents of the session",
    arity: -4,
    flags: "write fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[key("key"), arg("agent", Kind::Str), IFVERSION, LEASE_OPTION, AT, EXPIRY],
    reply: "1, or 0 if neither the agent nor a lease of it was there.",
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
    reply: "Array of `{\"agentId\",\"joined_at\",\"last_seen\",\"meta\"}` as JSON, by name.",
    entry: entry::<AgentList>(),
    ..Command::BLANK
};

const HAND_OFF: Command = Command {
    name: "HANDOFF",
    summary: "Records that an agent hands over to another, with its lease if it holds one",
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
    reply: "Array `[seq of a handoff event, new lease token or 0]`.",
    details:
        "The event is of type `handoff`, its agent the one who hands over; `changeInfo` holds `from`, `to` and `note`.",
    entry: entry::<AgentHandOff>(),
    ..Command::BLANK
};

const LEASE: Command = Command {
    name: "LEASE",
    summary: "Gives an agent the turn for a time, or renews it",
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
    reply: "The fencing token, which only ever grows; the holder keeps its token.",
    details: "Slides the key's expiry, as every command that writes. `LEASEHELD` while another agent's lease lives. While a lease lives, every writing command but `SESSION.AGENT` needs its token in \
              `LEASE`.",
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
    reply: "1; `LEASELOST` if the token is not the living lease's.",
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
        let mut target = Target::open(ctx, key)?;
        target.check_guards(&options, &moment)?;
        let new_session = target.create_if_missing(&options, &moment);
        let joined = target.change_beside_messages(|session| session.join(agent, meta, !moment.obeys, moment.now));
        let joined = joined.unwrap_or(Joined::Known);
        if let Joined::Full { max_agents } = joined {
            return Err(error::too_many_agents(max_agents));
        }
        let last_seq = target.session().map_or(0, |session| session.last_seq());
        let settled = target.settle(&options, &moment, true);
        drop(target);
        let is_new = joined == Joined::New;
        ctx.reply_i64(i64::from(is_new));
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Join).arg(key).arg(args[3]);
        if let Some(meta) = meta_arg {
            effect.word(Word::Meta).arg(meta);
        }
        settled.publish_with_creation(ctx, key, new_session.as_ref(), effect, &[], &[c"session.agent"]);
        if is_new {
            let publication = Publication {
                seq: last_seq,
                kind: "join",
                type_name: None,
                agent: Some(agent),
                time_ms: moment.now.content_ms,
            };
            publish::one(ctx, key, publication);
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
        let mut target = Target::open_existing(ctx, key)?;
        target.check_guards(&options, &moment)?;
        let left = target
            .change_beside_messages(|session| session.leave(agent, moment.now))
            .unwrap_or(false);
        let settled = target.settle(&options, &moment, left);
        drop(target);
        ctx.reply_i64(i64::from(left));
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Leave).arg(key).arg(args[3]);
        let changed = Changed {
            count: u64::from(left),
            evicted: 0,
        };
        settled.finish(ctx, key, effect, &[], changed, c"session.agent");
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
        let mut target = Target::open_existing(ctx, key)?;
        target.check_guards(&options, &moment)?;
        let handed = target.change_beside_messages(|session| session.hand_off(from, to, note, moment.now));
        let (seq, lease_token) = handed.unwrap_or((0, 0));
        let settled = target.settle(&options, &moment, true);
        drop(target);
        ctx.reply_array(2);
        ctx.reply_i64(seq as i64);
        ctx.reply_i64(lease_token as i64);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Handoff).args(args[2..5].iter().copied());
        if let Some(note) = note_arg {
            effect.word(Word::Note).arg(note);
        }
        let changed = Changed { count: 1, evicted: 0 };
        settled.finish(ctx, key, effect, &[], changed, c"session.agent");
        let publication = Publication {
            seq,
            kind: "event",
            type_name: Some(HANDOFF),
            agent: Some(from),
            time_ms: moment.now.content_ms,
        };
        publish::recorded(ctx, key, publication);
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
        let mut target = Target::open_existing(ctx, key)?;
        let leased = target.change(|session| session.lease(agent, expires_at_ms, !moment.obeys, moment.now));
        let lease_token = match leased {
            Some(Ok(token)) => token,
            Some(Err(held)) => return Err(held_by_another(&held)),
            None => return Err(error::no_session(key.bytes())),
        };
        let settled = target.settle(&options, &moment, true);
        drop(target);
        ctx.reply_i64(lease_token as i64);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect
            .word(Word::Lease)
            .arg(key)
            .arg(args[3])
            .word(Word::PxAt)
            .int(expires_at_ms);
        settled.add_to(&mut effect);
        settled.publish(ctx, key, &[&effect], &[]);
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
        let mut target = Target::open_existing(ctx, key)?;
        // A primary has found the lease alive; by the clock of who follows, it may have passed.
        let now_ms = if moment.obeys { 0 } else { moment.now.now_ms };
        // Looked at before the change: a refusal must not migrate an older layout.
        let living = target.session().and_then(|session| session.living_lease(now_ms));
        if living.is_none_or(|lease| lease.token != lease_token) {
            return Err(error::lease_lost(lease_token));
        }
        target.change(|session| session.release(lease_token, now_ms));
        let settled = target.settle(&options, &moment, true);
        drop(target);
        ctx.reply_i64(1);
        let mut effect = ctx.effect(c"SESSION.AGENT");
        effect.word(Word::Release).arg(key).arg(args[3]);
        // It has no place for an expiry.
        let slid = settled.expiry_effect(ctx, key);
        let effects: SmallVec<[&_; 2]> = std::iter::once(&effect).chain(&slid).collect();
        settled.publish(ctx, key, &effects, &[]);
        Ok(())
    }
}

impl Handler for AgentHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}
