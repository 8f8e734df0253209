//! `SESSION.ENTITY`: who and what a conversation is about.

use redis_session_core::session::{folded, Entity, Mention, MentionError};

use super::{help, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Handler, Word};
use crate::migration::Reading;
use crate::table::{arg, block, flag, key, many, many_token, one_of, opt, token, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.ENTITY",
    summary: "Tracks the entities of a session and resolves words to them",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[MENTION, GET, LIST, FORGET, RESOLVE, HELP],
    ..Command::BLANK
};

const MENTION: Command = Command {
    name: "MENTION",
    summary: "Counts a mention of entities; creates them, and the session, if needed",
    complexity: "O(M*log(N)) with M the entities given and N those of the session",
    arity: -5,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::UPDATE)],
    args: &[
        key("key"),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
        one_of(
            "entities",
            &[
                token(
                    "ID",
                    block(
                        "entity",
                        &[
                            arg("id", Kind::Str),
                            opt(token("NAME", arg("name", Kind::Str))),
                            opt(token("TYPE", arg("type", Kind::Str))),
                            opt(many_token(token("ALIAS", arg("alias", Kind::Str)))),
                        ],
                    ),
                ),
                token("JSON", many(arg("object", Kind::Str))),
            ],
        ),
    ],
    reply: "Number of entities that are new to the session.",
    details: "Each mention increases the entity's count by 1, makes it the most recent and merges its aliases; a given name or type replaces \
              the old one. Within a command, later mentions are more recent. `JSON` reads `id` or `entity_id`, `name` or `entity_name`, \
              `type` or `entity_type`, and `aliases`.",
    entry: entry::<EntityMention>(),
    ..Command::BLANK
};

const GET: Command = Command {
    name: "GET",
    summary: "Returns an entity",
    complexity: "O(log(N)) with N the entities of the session",
    arity: 4,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key"), arg("id", Kind::Str)],
    reply: "The entity as JSON, or nil.",
    details: "An entity is `{\"entity_id\",\"entity_name\",\"entity_type\",\"aliases\":[…],\"mention_count\",\"last_mentioned\"}`.",
    entry: entry::<EntityGet>(),
    ..Command::BLANK
};

const LIST: Command = Command {
    name: "LIST",
    summary: "Returns entities, the most recently mentioned first",
    complexity: "O(N) with N the entities of the session",
    arity: -3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[
        key("key"),
        opt(token("TYPE", arg("type", Kind::Str))),
        opt(token(
            "LIMIT",
            block("limit", &[arg("offset", Kind::Int), arg("count", Kind::Int)]),
        )),
    ],
    reply: "Array of entities as JSON.",
    details: "Types are compared without case. A negative count is no bound.",
    entry: entry::<EntityList>(),
    ..Command::BLANK
};

const FORGET: Command = Command {
    name: "FORGET",
    summary: "Removes entities of a session",
    complexity: "O(M*log(N)) with M the ids and N the entities of the session",
    arity: -5,
    flags: "write fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::DELETE)],
    args: &[
        key("key"),
        arg("numids", Kind::Int),
        many(arg("id", Kind::Str)),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
    ],
    reply: "Number of entities removed.",
    entry: entry::<EntityForget>(),
    ..Command::BLANK
};

const RESOLVE: Command = Command {
    name: "RESOLVE",
    summary: "Returns the entity that a word means: a pronoun, a name or the beginning of a name",
    complexity: "O(N) with N the entities of the session",
    arity: -4,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("key"), arg("word", Kind::Str), flag("ANY"), flag("ALL")],
    reply: "The most recently mentioned candidate as JSON, or nil; with `ALL` an array of every candidate.",
    details: "`he him his himself` mean a person, male or unknown; `she her hers herself` a person, female or unknown; `it its itself` an \
              organization, thing, document or unknown; `they them their theirs themselves this that these those who whom` any type. Any \
              other word means the entities that have it as name, id or alias; if there are none, those with a name or alias in which a word \
              begins with it; if there are none, with `ANY`, all of them. Case is ignored.",
    entry: entry::<EntityResolve>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<EntityHelp>());

pub struct EntityMention;
pub struct EntityGet;
pub struct EntityList;
pub struct EntityForget;
pub struct EntityResolve;
pub struct EntityHelp;

/// The index of a subcommand's first argument behind both names and the key.
const BEHIND_KEY: usize = 3;

fn parse_mention<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<(WriteOptions, Vec<Mention<'a>>, Args<'a>)> {
    let mut cursor = Cursor::at(args, BEHIND_KEY);
    let mut options = WriteOptions::default();
    loop {
        let Some(word) = cursor.next() else {
            return Err(error::syntax(args[args.len() - 1].bytes()));
        };
        if is(word, "ID") {
            let tail = cursor.rest_from_last();
            let mut mention = Mention {
                id: cursor.text(word, "ID")?.into(),
                ..Mention::default()
            };
            while let Some(word) = cursor.next() {
                if is(word, "NAME") {
                    let name = cursor.text(word, "NAME")?;
                    once(&mut mention.name, word, name.into())?;
                } else if is(word, "TYPE") {
                    let kind = cursor.text(word, "TYPE")?;
                    once(&mut mention.kind, word, kind.into())?;
                } else if is(word, "ALIAS") {
                    mention.aliases.push(cursor.text(word, "ALIAS")?.into());
                } else {
                    return Err(error::syntax(word.bytes()));
                }
            }
            return Ok((options, vec![mention], tail));
        }
        if is(word, "JSON") {
            let tail = cursor.rest_from_last();
            let objects = cursor.rest();
            if objects.is_empty() {
                return Err(error::syntax(word.bytes()));
            }
            let mut mentions = Vec::with_capacity(objects.len());
            for (i, object) in objects.iter().enumerate() {
                mentions.push(read_mention(ctx, *object, i + 1, objects.len())?);
            }
            return Ok((options, mentions, tail));
        }
        if !options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
}

fn read_mention<'a>(ctx: &Ctx, object: Arg<'a>, number: usize, of: usize) -> args::Result<Mention<'a>> {
    args::check_size(ctx, object.bytes(), || format!("JSON {number} of {of}"))?;
    Mention::read(object.bytes()).map_err(|why| match why {
        MentionError::NotAnObject(why) => error::not_an_object(&format!("JSON {number} of {of}"), why),
        MentionError::NoId => format!("ERR JSON {number} of {of} has no id").into(),
        MentionError::Text(name) => error::not_text(&format!("{name} of JSON {number} of {of}")),
        MentionError::Aliases => error::not_text(&format!("each of aliases of JSON {number} of {of}")),
    })
}

impl Handler for EntityMention {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[2];
        let (options, mentions, tail) = parse_mention(ctx, args)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::or_new(ctx, key)?.guard(&options, &moment)?;
        let (new, changed) = guarded.change(|session| session.mention_entities(&mentions, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(new as i64);
        let mut effect = ctx.effect(c"SESSION.ENTITY");
        effect.word(Word::Mention).arg(key);
        settled.publish(ctx, effect, tail, &[c"session.entity"]);
        Ok(())
    }
}

impl Handler for EntityForget {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let (key, count_arg) = (args[2], args[BEHIND_KEY]);
        let count = args::int(count_arg.bytes(), "numids", 1, i64::from(u32::MAX))? as usize;
        let mut cursor = Cursor::at(args, BEHIND_KEY + 1);
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = cursor.next().ok_or_else(|| error::syntax(count_arg.bytes()))?;
            ids.push(args::text(id.bytes(), "id")?);
        }
        let options = WriteOptions::rest(ctx, cursor)?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::existing(ctx, key)?.guard(&options, &moment)?;
        let (count, changed) = guarded.change(|session| session.forget_entities(&ids, moment.now));
        let settled = changed.settle();
        ctx.reply_i64(count as i64);
        let mut effect = ctx.effect(c"SESSION.ENTITY");
        effect
            .word(Word::Forget)
            .args(args[2..BEHIND_KEY + 1 + ids.len()].iter().copied());
        settled.publish(ctx, effect, &[], (count > 0).then_some(c"session.entity").as_slice());
        Ok(())
    }
}

impl Handler for EntityGet {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let id = args::text(args[BEHIND_KEY].bytes(), "id")?;
        let opened = Reading::open(ctx, args[2])?;
        match opened.session() {
            Some(session) => match session.entity(id) {
                Some(entity) => reply_entity(ctx, id, entity),
                None => ctx.reply_null(),
            },
            None => ctx.reply_null(),
        }
        Ok(())
    }
}

impl Handler for EntityList {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let mut cursor = Cursor::at(args, BEHIND_KEY);
        let (mut kind, mut limit) = (None, None);
        while let Some(word) = cursor.next() {
            if is(word, "TYPE") {
                let text = folded(cursor.text(word, "TYPE")?);
                once(&mut kind, word, text)?;
            } else if is(word, "LIMIT") {
                let offset = cursor.int(word, "LIMIT offset", 0, i64::MAX)?;
                let count = cursor.int(word, "LIMIT count", i64::MIN, i64::MAX)?;
                once(&mut limit, word, (offset, count))?;
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let (offset, count) = limit.unwrap_or((0, -1));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let opened = Reading::open(ctx, args[2])?;
        match opened.session() {
            Some(session) => {
                let list = ctx.reply_array_postponed();
                let of_kind = |entity: &Entity| kind.as_ref().is_none_or(|kind| folded(&entity.kind) == *kind);
                let entities = session.entities().filter(|(_, entity)| of_kind(entity));
                for (id, entity) in entities.skip(offset as usize).take(count) {
                    reply_entity(ctx, id, entity);
                }
                list.end();
            }
            None => ctx.reply_array(0),
        }
        Ok(())
    }
}

impl Handler for EntityResolve {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let word = args::text(args[BEHIND_KEY].bytes(), "word")?;
        let mut cursor = Cursor::at(args, BEHIND_KEY + 1);
        let (mut any, mut all) = (false, false);
        while let Some(word) = cursor.next() {
            if is(word, "ANY") {
                once_flag(&mut any, word)?;
            } else if is(word, "ALL") {
                once_flag(&mut all, word)?;
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let opened = Reading::open(ctx, args[2])?;
        let candidates = match opened.session() {
            Some(session) => session.resolve(word, any),
            None => Vec::new(),
        };
        if all {
            ctx.reply_array(candidates.len());
            for (id, entity) in candidates {
                reply_entity(ctx, id, entity);
            }
        } else {
            match candidates.first() {
                Some((id, entity)) => reply_entity(ctx, id, entity),
                None => ctx.reply_null(),
            }
        }
        Ok(())
    }
}

impl Handler for EntityHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}

fn reply_entity(ctx: &Ctx, id: &str, entity: &Entity) {
    let mut json = Vec::with_capacity(160);
    entity.write_json(id, &mut json);
    ctx.reply_bulk(&json);
}
