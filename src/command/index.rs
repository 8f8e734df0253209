//! `SESSION.INDEX`: the directory of a scope's sessions, by id, alias and creation.
//!
//! A directory knows keys and ids. Whether a key still holds that session, and what is shown of it, is looked up in the session each time
//! ([`LookUp`]). These are the only keys that a command of the module reads without declaring them, and none of them is ever
//! written: what is written is the directory and the session that is being registered, both of which are arguments.
//!
//! Only the primary finds out which entries are dead, and sends their ids to replicas, behind `INDEX index` and `ALIAS name`, or behind the
//! key of `SESSION.INDEX ADD`. This option is accepted from a primary and from an append-only file only:
//!
//! ```text
//! PRUNED numids id [id ...]
//! ```
//!
//! A replica removes these, registers the session and checks nothing: an entry that has its key or alias is removed, as it was on the
//! primary, where it was found dead.

use redis_session_core::directory::{
    check_alias, parse_id, Directory, Entry, NewAlias, Page, Registered, Registration,
};
use redis_session_core::session::Written;
use redis_session_core::Session;
use uuid::Uuid;

use super::help;
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::ffi::{entry, Arg, Args, Ctx, Effect, ErrorReply, Handler, Word};
use crate::table::{arg, block, flag, key, opt, token, Access, ArgSpec, Command, KeySpec, Kind};
use crate::value::directory::DirectoryValue;
use crate::value::session::SessionValue;
use crate::write::{Moment, Opened, PlainKey, Settled};
use crate::{error, slot};

pub const COMMAND: Command = Command {
    name: "SESSION.INDEX",
    summary: "Registers the sessions of a scope, and finds them by alias or id",
    complexity: "Depends on the subcommand",
    flags: "",
    subcommands: &[RESOLVE, LIST, ADD, LEN, HELP],
    ..Command::BLANK
};

const RESOLVE: Command = Command {
    name: "RESOLVE",
    summary: "Returns the session with an alias or id",
    complexity: "O(log(N)) with N the entries of the directory",
    arity: 4,
    flags: "readonly fast",
    acl: "read fast",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[key("index"), arg("alias-or-id", Kind::Str)],
    reply: "Map `id`, `key`, `alias` (nil if it has none); nil if there is no such session.",
    details: "Ids are compared without case, aliases with case. An entry whose key no longer holds that session is not found.",
    entry: entry::<IndexResolve>(),
    ..Command::BLANK
};

const LIST: Command = Command {
    name: "LIST",
    summary: "Returns the sessions of a directory, the newest created or the most recently active first",
    complexity: "O(M) with M the offset, the count and the dead entries on the way; with MATCH and BYACTIVITY O(N) with N the entries of \
                 the directory",
    arity: -3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::READ)],
    args: &[
        key("index"),
        opt(token("MATCH", arg("pattern", Kind::Str))),
        flag("BYACTIVITY"),
        opt(token(
            "LIMIT",
            block("limit", &[arg("offset", Kind::Int), arg("count", Kind::Int)]),
        )),
    ],
    reply: "Array of `{\"id\",\"key\",\"alias\",\"autoname\",\"created_at\",\"last_activity\",\"state\",\"message_count\"}` as JSON.",
    details: "Of equal times the one registered later comes first. `MATCH` is a glob for the alias; a missing alias is matched as an empty \
              one. A negative count is no bound. An entry whose key no longer holds that session is not listed. The values are read from the \
              sessions, whatever key patterns the caller's ACL allows: restrict access to the directory's key.",
    entry: entry::<IndexList>(),
    ..Command::BLANK
};

const ADD: Command = Command {
    name: "ADD",
    summary: "Registers a session in a directory, or changes the alias or key of a registered one",
    complexity: "O(log(N)) with N the entries of the directory",
    arity: -4,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(2, Access::READ_INSERT), KeySpec::at(3, Access::UPDATE)],
    args: &[key("index"), key("key"), ALIAS],
    reply: "1, or 0 if the session was registered already.",
    details: "The directory is created if needed. Without `ALIAS` a registered session keeps its alias. Only the session's `alias` is set; \
              its id, content, version and expiry do not change, so the command needs no lease and works for a closed session. Fails with \
              `ALIASINUSE` if the alias belongs to another existing session; the alias of a session that is gone is free. A session is \
              registered under one key: adding a copy, which has the same id, moves the entry to the copy.",
    entry: entry::<IndexAdd>(),
    ..Command::BLANK
};

const LEN: Command = Command {
    name: "LEN",
    summary: "Returns the number of existing sessions in a directory",
    complexity: "O(N) with N the entries of the directory: the key of each is looked up",
    arity: 3,
    flags: "readonly",
    acl: "read slow",
    keys: &[KeySpec::at(2, Access::LOOK)],
    args: &[key("index")],
    reply: "Integer.",
    entry: entry::<IndexLen>(),
    ..Command::BLANK
};

const HELP: Command = help::row(entry::<IndexHelp>());

/// `[ALIAS name [AUTONAME]]`.
pub const ALIAS: ArgSpec = opt(token(
    "ALIAS",
    block("alias", &[arg("name", Kind::Str), flag("AUTONAME")]),
));

pub struct IndexResolve;
pub struct IndexList;
pub struct IndexAdd;
pub struct IndexLen;
pub struct IndexHelp;

/// How many entries each registration looks at to remove those that are dead. With two or more, all are looked at again within as many
/// registrations as there are entries.
const PRUNED_AT_ONCE: usize = 3;

/// The value of `ALIAS`.
#[derive(Clone, Copy)]
pub struct AliasOption<'a> {
    arg: Arg<'a>,
    pub alias: NewAlias<'a>,
}

impl<'a> AliasOption<'a> {
    /// Takes what follows the word `ALIAS`.
    pub fn parse(cursor: &mut Cursor<'a>, word: Arg<'a>) -> args::Result<Self> {
        let arg = cursor.value(word)?;
        let name = check_alias(arg.bytes()).map_err(error::bad_alias)?;
        let is_autoname = cursor.peek().is_some_and(|word| is(word, "AUTONAME"));
        if is_autoname {
            cursor.next();
        }
        Ok(AliasOption {
            arg,
            alias: NewAlias { name, is_autoname },
        })
    }
}

/// Takes the ids that a primary has found dead, if `word` is `PRUNED` and comes from one.
pub fn parse_pruned<'a>(ctx: &Ctx, cursor: &mut Cursor<'a>, word: Arg<'a>) -> args::Result<Option<Vec<Uuid>>> {
    if !is(word, "PRUNED") || !ctx.obeys_primary() {
        return Ok(None);
    }
    let ids = cursor.counted(word, "PRUNED", 0)?.iter();
    ids.map(|id| parse_id(id.bytes()).ok_or_else(|| error::syntax(id.bytes())))
        .collect::<args::Result<_>>()
        .map(Some)
}

/// Reads sessions by the keys that a directory has for them, leaving no trace on them.
struct LookUp<'c, 'a> {
    ctx: &'c Ctx,
    index: Arg<'a>,
    /// In a cluster, the directory's slot: keys of other slots are not looked up, since this node may not have them.
    slot: Option<u16>,
}

impl<'c, 'a> LookUp<'c, 'a> {
    fn new(ctx: &'c Ctx, index: Arg<'a>) -> Self {
        LookUp {
            ctx,
            index,
            slot: ctx.in_cluster().then(|| slot::of(index.bytes())),
        }
    }

    /// Reads the session of an entry; `None` where the key no longer holds it.
    fn find<R>(&self, entry: &Entry, read: impl FnOnce(&Session) -> R) -> Option<R> {
        if self.slot.is_some_and(|slot| slot::of(entry.key()) != slot) {
            return None;
        }
        let found = self.ctx.peek(entry.key(), |value: &SessionValue| {
            let session = value.session();
            (session.id() == entry.id()).then(|| read(session))
        });
        found.flatten()
    }

    fn is_live(&self, entry: &Entry) -> bool {
        self.find(entry, |_| ()).is_some()
    }

    /// Whether the session of an entry that was not found may be on another node because the slot is being moved. Such an entry is not
    /// shown, but it is not removed either, and keeps its alias.
    fn may_be_elsewhere(&self, entry: &Entry) -> bool {
        self.slot == Some(slot::of(entry.key())) && self.ctx.may_be_elsewhere(self.index, entry.key())
    }
}

/// A directory opened to register the session at one key.
pub struct Registrar<'c, 'a> {
    opened: PlainKey<'c, 'a, DirectoryValue>,
    look_up: LookUp<'c, 'a>,
    key: Arg<'a>,
}

impl<'c, 'a> Registrar<'c, 'a> {
    pub fn open(ctx: &'c Ctx, index: Arg<'a>, key: Arg<'a>) -> args::Result<Self> {
        Ok(Registrar {
            opened: PlainKey::open(ctx, index)?,
            look_up: LookUp::new(ctx, index),
            key,
        })
    }

    fn directory(&self) -> Option<&Directory> {
        self.opened.value().map(DirectoryValue::directory)
    }

    /// Returns the entry that has this alias and what `read` says of its session, if that is live.
    pub fn holder<R>(&self, alias: &NewAlias<'_>, read: impl FnOnce(&Session) -> R) -> Option<(&Entry, R)> {
        let entry = self.directory()?.by_alias(alias.name.as_bytes())?;
        self.look_up.find(entry, read).map(|found| (entry, found))
    }

    /// Refuses an alias that another session has than that of `id`, which is at the key. What a primary sends has been checked there.
    fn check_alias(&self, ctx: &Ctx, alias: &NewAlias<'_>, id: Uuid) -> args::Result<()> {
        let holder = self
            .directory()
            .and_then(|directory| directory.by_alias(alias.name.as_bytes()));
        let Some(holder) = holder.filter(|holder| holder.id() != id && holder.key() != self.key.bytes()) else {
            return Ok(());
        };
        if self.look_up.is_live(holder) {
            if !ctx.obeys_primary() {
                return Err(error::alias_in_use(&alias.name, holder.id()));
            }
        } else if !ctx.obeys_primary() && self.look_up.may_be_elsewhere(holder) {
            return Err(error::try_again());
        }
        Ok(())
    }

    /// Returns the same as [`Registrar::holder`] for the entry of this id.
    pub fn known<R>(&self, id: Uuid, read: impl FnOnce(&Session) -> R) -> Option<(&Entry, R)> {
        let entry = self.directory()?.by_id(id)?;
        self.look_up.find(entry, read).map(|found| (entry, found))
    }

    /// Registers a session that has just been created at the key. An entry with its id is of an earlier session, which is gone.
    pub fn register_new(
        &mut self,
        id: Uuid,
        created_at_ms: i64,
        alias: Option<AliasOption<'a>>,
        pruning: Pruning,
    ) -> Vec<Uuid> {
        self.directory_mut().remove(id);
        self.register(id, created_at_ms, alias);
        self.prune(pruning)
    }

    fn register(&mut self, id: Uuid, created_at_ms: i64, alias: Option<AliasOption<'a>>) -> Registered {
        let key = self.key.bytes();
        self.directory_mut().register(&Registration {
            id,
            key,
            created_at_ms,
            alias: alias.map(|option| option.alias),
        })
    }

    /// Closes the directory.
    pub fn settle(self, moment: &Moment, changed: bool) -> Settled<'a> {
        self.opened.settle(moment, changed)
    }

    /// Removes dead entries, those found now or those that a primary names, and returns their ids.
    fn prune(&mut self, pruning: Pruning) -> Vec<Uuid> {
        let key = self.key.bytes();
        let Some(value) = self.opened.value_mut() else {
            return Vec::new();
        };
        let directory = value.directory_mut();
        match pruning {
            Pruning::AsTold(mut ids) => {
                ids.retain(|id| directory.remove(*id));
                ids
            }
            // The session at the key is open, and has just been registered.
            Pruning::Some => directory.prune(PRUNED_AT_ONCE, |entry| {
                entry.key() == key || self.look_up.is_live(entry) || self.look_up.may_be_elsewhere(entry)
            }),
        }
    }

    fn directory_mut(&mut self) -> &mut Directory {
        self.opened
            .value_or_put(|| DirectoryValue::new(Directory::default()))
            .directory_mut()
    }
}

/// Which dead entries a registration removes.
pub enum Pruning {
    /// Those among a few that this server looks at.
    Some,
    /// Those that a primary names.
    AsTold(Vec<Uuid>),
}

impl Pruning {
    /// Those that a primary names, if the command is from one.
    pub fn of(obeys: bool, told: Option<Vec<Uuid>>) -> Self {
        if obeys {
            Pruning::AsTold(told.unwrap_or_default())
        } else {
            Pruning::Some
        }
    }
}

/// Adds `[ALIAS name [AUTONAME]] [PRUNED numids id …]` to a replicated command.
pub fn add_to<'a>(effect: &mut Effect<'a>, alias: Option<AliasOption<'a>>, pruned: &[Uuid]) {
    if let Some(option) = alias {
        effect.word(Word::Alias).arg(option.arg);
        if option.alias.is_autoname {
            effect.word(Word::AutoName);
        }
    }
    if !pruned.is_empty() {
        effect.word(Word::Pruned).int(pruned.len() as i64);
        for id in pruned {
            effect.bytes(id.hyphenated().to_string().as_bytes());
        }
    }
}

impl Handler for IndexResolve {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = ctx.open_key_read::<DirectoryValue>(args[2]);
        let found = opened
            .value()?
            .and_then(|value| value.directory().resolve(args[3].bytes()))
            .filter(|entry| LookUp::new(ctx, args[2]).is_live(entry));
        let Some(entry) = found else {
            ctx.reply_null();
            return Ok(());
        };
        ctx.reply_map(3);
        ctx.reply_bulk(b"id");
        ctx.reply_bulk(entry.id().hyphenated().to_string().as_bytes());
        ctx.reply_bulk(b"key");
        ctx.reply_bulk(entry.key());
        ctx.reply_bulk(b"alias");
        match entry.alias() {
            Some(alias) => ctx.reply_bulk(alias.as_bytes()),
            None => ctx.reply_null(),
        }
        Ok(())
    }
}

impl Handler for IndexList {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let mut cursor = Cursor::at(args, 3);
        let (mut pattern, mut by_activity, mut limit) = (None, false, None);
        while let Some(word) = cursor.next() {
            if is(word, "MATCH") {
                let value = cursor.value(word)?;
                once(&mut pattern, word, value.bytes())?;
            } else if is(word, "BYACTIVITY") {
                once_flag(&mut by_activity, word)?;
            } else if is(word, "LIMIT") {
                let offset = cursor.int(word, "LIMIT offset", 0, i64::MAX)?;
                let count = cursor.int(word, "LIMIT count", i64::MIN, i64::MAX)?;
                let page = Page {
                    offset: offset as u64,
                    count: u64::try_from(count).unwrap_or(u64::MAX),
                };
                once(&mut limit, word, page)?;
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let page = limit.unwrap_or(Page::ALL);
        let opened = ctx.open_key_read::<DirectoryValue>(args[2]);
        let Some(value) = opened.value()? else {
            ctx.reply_array(0);
            return Ok(());
        };
        let (directory, look_up, now_ms) = (value.directory(), LookUp::new(ctx, args[2]), ctx.now_ms());
        let json_of = |entry: &Entry, session: &Session| {
            let mut json = Vec::with_capacity(256);
            entry.write_json(session, now_ms, &mut json);
            json
        };
        let list = ctx.reply_array_postponed();
        if by_activity {
            let active = |entry: &Entry| look_up.find(entry, |session| (session.last_activity_ms(), ()));
            for (entry, ()) in directory.list_by_activity(pattern, page, active) {
                if let Some(json) = look_up.find(entry, |session| json_of(entry, session)) {
                    ctx.reply_bulk(&json);
                }
            }
        } else {
            // For entries before the offset no JSON is composed.
            let mut living = 0;
            let shown = |entry: &Entry| {
                let json = look_up.find(entry, |session| match living < page.offset {
                    true => Vec::new(),
                    false => json_of(entry, session),
                });
                living += u64::from(json.is_some());
                json
            };
            for (_, json) in directory.list(pattern, page, shown) {
                ctx.reply_bulk(&json);
            }
        }
        list.end();
        Ok(())
    }
}

impl Handler for IndexAdd {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let (index, key) = (args[2], args[3]);
        let mut cursor = Cursor::at(args, 4);
        let (mut alias, mut told) = (None, None);
        while let Some(word) = cursor.next() {
            if is(word, "ALIAS") {
                let option = AliasOption::parse(&mut cursor, word)?;
                once(&mut alias, word, option)?;
            } else if let Some(ids) = parse_pruned(ctx, &mut cursor, word)? {
                once(&mut told, word, ids)?;
            } else {
                return Err(error::syntax(word.bytes()));
            }
        }
        let mut registrar = Registrar::open(ctx, index, key)?;
        let opened = Opened::even_closed(ctx, key)?;
        let Some(session) = opened.session() else {
            return Err(error::no_session(key.bytes()));
        };
        let (id, created_at_ms) = (session.id(), session.created_at_ms());
        if let Some(option) = &alias {
            registrar.check_alias(ctx, &option.alias, id)?;
        }
        let moment = Moment::of(ctx, &WriteOptions::KEEPTTL);
        // This migrates a legacy layout, too.
        let guarded = opened.unguarded(&WriteOptions::KEEPTTL, &moment);
        let ((), changed) = guarded.change(|session| match &alias {
            Some(option) => session.set_alias(Some(&option.alias.name)),
            None => Written::nothing(()),
        });
        let settled = changed.settle();
        let registered = registrar.register(id, created_at_ms, alias);
        let pruned = if registered.changed {
            registrar.prune(Pruning::of(ctx.obeys_primary(), told))
        } else {
            Vec::new()
        };
        let directory = registrar.settle(&moment, registered.changed);
        ctx.reply_i64(i64::from(registered.is_new));
        let mut effect = ctx.effect(c"SESSION.INDEX");
        effect.word(Word::Add).arg(index).arg(key);
        add_to(&mut effect, alias, &pruned);
        // One replicated command for both keys.
        directory.publish_bare(ctx, Some(&effect), &[]);
        let is_renamed_alone = settled.session_changed() && !registered.changed;
        settled.publish_bare(ctx, is_renamed_alone.then_some(&effect), &[]);
        Ok(())
    }
}

impl Handler for IndexLen {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let opened = ctx.open_key_read::<DirectoryValue>(args[2]);
        let living = opened.value()?.map_or(0, |value| {
            let look_up = LookUp::new(ctx, args[2]);
            value
                .directory()
                .newest_first()
                .filter(|entry| look_up.is_live(entry))
                .count()
        });
        ctx.reply_i64(living as i64);
        Ok(())
    }
}

impl Handler for IndexHelp {
    fn run(ctx: &mut Ctx, _args: Args<'_>) -> Result<(), ErrorReply> {
        help::reply(ctx, &COMMAND);
        Ok(())
    }
}
