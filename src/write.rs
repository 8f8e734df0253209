//! What every command that writes a session has in common: the guards of `<w>`, the sliding of the expiry, and the facts that go to
//! replicas.

use std::ffi::CStr;
use std::sync::Arc;

use redis_session_core::agent::LeaseHeld;
use redis_session_core::layout::Migrated;
use redis_session_core::limits::Limits;
use redis_session_core::session::{Changed, Creation, Now};
use redis_session_core::Session;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::args::{Expiry, Result, WriteOptions};
use crate::ffi::{Arg, Args, Ctx, Effect, Found, Word, WriteKey, WRONGTYPE};
use crate::migration::Pending;
use crate::value::session::SessionValue;
use crate::{error, info, migration, settings};

/// A key opened to be written.
pub struct Target<'c> {
    key: WriteKey<'c, SessionValue>,
    /// The session that the layout at the key becomes with the first change.
    pending: Option<Box<PendingAt<'c>>>,
    /// It has become one.
    migrated: Option<Migrated>,
    /// The expiry that goes with the value from its creation on, where this command made it.
    created: Option<CreatedExpiry>,
    /// Messages that went with a change of something else, or when the session was made elsewhere.
    evicted: u64,
}

struct PendingAt<'c> {
    ctx: &'c Ctx,
    key: Vec<u8>,
    now: Now,
    migration: Box<Pending>,
}

#[derive(Clone, Copy)]
struct CreatedExpiry {
    ttl_ms: u64,
    at_ms: Option<i64>,
    /// Something else was at the key before.
    replaces: bool,
}

impl CreatedExpiry {
    fn of(default_ttl_ms: u64, options: &WriteOptions, moment: &Moment) -> Self {
        let now_ms = moment.now.now_ms;
        let after = |ttl_ms: u64| (ttl_ms > 0).then(|| now_ms + ttl_ms as i64);
        let (ttl_ms, at_ms) = match (options.expiry, options.settled_at_ms) {
            (Some(Expiry::Ttl { ms }), settled) if moment.obeys => (ms, settled),
            (Some(Expiry::Persist), settled) if moment.obeys => (0, settled),
            (Some(Expiry::Ttl { ms }), _) => (ms, after(ms)),
            (Some(Expiry::Persist), _) => (0, None),
            (Some(Expiry::At { ms }), _) => (default_ttl_ms, Some(ms)),
            (Some(Expiry::Keep), _) => (default_ttl_ms, None),
            (None, _) => (default_ttl_ms, after(default_ttl_ms)),
        };
        CreatedExpiry {
            ttl_ms,
            at_ms,
            replaces: false,
        }
    }
}

/// The times of one command.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Now,
    /// The command is a primary's, or from an append-only file.
    pub obeys: bool,
}

impl Moment {
    #[inline]
    pub fn of(ctx: &Ctx, options: &WriteOptions) -> Self {
        // Only a command that names its time can be a primary's: those always do.
        let obeys = options.at_ms.is_some() && ctx.obeys_primary();
        let now_ms = match options.now_ms.or(options.at_ms.filter(|_| obeys)) {
            Some(now_ms) => now_ms,
            None => ctx.now_ms(),
        };
        let compress_after_bytes = settings::COMPRESS_AFTER_BYTES.get() as u32;
        Moment {
            now: Now {
                now_ms,
                content_ms: options.at_ms.unwrap_or(now_ms),
                compress_after_bytes,
            },
            obeys,
        }
    }
}

impl<'c> Target<'c> {
    /// Opens a key for a command that writes the session there, or makes one: not a closed one.
    pub fn open(ctx: &'c Ctx, key: Arg<'_>) -> Result<Self> {
        let target = Self::open_even_closed(ctx, key)?;
        target.check_not_closed(ctx)?;
        Ok(target)
    }

    #[inline(always)]
    pub fn open_even_closed(ctx: &'c Ctx, key: Arg<'_>) -> Result<Self> {
        let mut target = Self::open_whatever(ctx, key);
        if target.is_foreign() {
            target.look_for_layout(ctx, key)?;
        }
        Ok(target)
    }

    /// Something else than a session is there.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        matches!(self.key.get(), Found::WrongType)
    }

    /// With `session.auto-migrate`, a JSON layout of one key is as good as a session. Not for what a primary sends: it has sent the
    /// migration before.
    #[cold]
    #[inline(never)]
    fn look_for_layout(&mut self, ctx: &'c Ctx, key: Arg<'_>) -> Result<()> {
        if !settings::AUTO_MIGRATE.get() || ctx.obeys_primary() {
            return Err(WRONGTYPE.into());
        }
        let now_ms = ctx.now_ms();
        let now = Now {
            now_ms,
            content_ms: now_ms,
            compress_after_bytes: settings::COMPRESS_AFTER_BYTES.get() as u32,
        };
        let Some(migration) = migration::of_key_alone(ctx, key, Uuid::now_v7(), now) else {
            return Err(WRONGTYPE.into());
        };
        self.pending = Some(Box::new(PendingAt {
            ctx,
            key: key.bytes().to_vec(),
            now,
            migration,
        }));
        Ok(())
    }

    /// Makes the session of the layout that is there, if there is one, and tells replicas of it.
    #[cold]
    #[inline(never)]
    pub fn migrate(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let PendingAt {
            ctx,
            key,
            now,
            migration,
        } = *pending;
        let Pending {
            session,
            done,
            format,
            expires_at_ms,
        } = *migration;
        let mut effect = ctx.effect(c"SESSION.MIGRATE");
        effect.bytes(&key);
        migration::add_facts(&mut effect, format, &session);
        effect.word(Word::At).int(now.now_ms);
        match (session.ttl_ms(), expires_at_ms) {
            (0, _) => effect.word(Word::Persist),
            (ttl_ms, None) => effect.word(Word::Px).int(ttl_ms as i64),
            (ttl_ms, Some(at_ms)) => effect.word(Word::Px).int(ttl_ms as i64).word(Word::PxAt).int(at_ms),
        };
        self.key.set_value(SessionValue::new(session));
        if expires_at_ms.is_some() {
            self.key.set_expires_at_ms(expires_at_ms);
        }
        ctx.replicate(&effect);
        migration::record(ctx, &key, format, &done);
        info::EVICTED.add(done.evicted);
        self.migrated = Some(done);
    }

    /// Opens a key to be replaced, whatever it holds.
    #[inline(always)]
    pub fn open_whatever(ctx: &'c Ctx, key: Arg<'_>) -> Self {
        Target {
            key: ctx.open_key_write::<SessionValue>(key),
            pending: None,
            migrated: None,
            created: None,
            evicted: 0,
        }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self.key.get(), Found::Missing)
    }

    pub fn check_not_closed(&self, ctx: &Ctx) -> Result<()> {
        self.session()
            .map_or(Ok(()), |session| check_session_is_open(ctx, session))
    }

    /// Opens a key that must hold a session.
    pub fn open_existing(ctx: &'c Ctx, key: Arg<'_>) -> Result<Self> {
        let target = Self::open(ctx, key)?;
        match target.session() {
            Some(_) => Ok(target),
            None => Err(error::no_session(key.bytes())),
        }
    }

    #[inline]
    pub fn session(&self) -> Option<&Session> {
        match self.key.get() {
            Found::Value(value) => Some(value.session()),
            _ => self.pending.as_ref().map(|pending| &pending.migration.session),
        }
    }

    /// The guards of a writing command: while a lease lives its token is needed; what is given is checked. What a primary sends has been
    /// judged there.
    #[inline]
    pub fn check(&self, options: &WriteOptions, moment: &Moment) -> Result<()> {
        if let Some(session) = self.session() {
            check_lease_is_free(session, options, moment)?;
        }
        self.check_guards(options, moment)
    }

    /// Those of `LEASE` and `IFVERSION` that are given.
    #[inline]
    pub fn check_guards(&self, options: &WriteOptions, moment: &Moment) -> Result<()> {
        check_guards_of(self.session(), options, moment)
    }

    /// Makes a session of the configured defaults where there is none, and returns it for replicas then.
    #[inline]
    pub fn create_if_missing(&mut self, options: &WriteOptions, moment: &Moment) -> Option<NewSession<'static>> {
        if self.session().is_some() {
            return None;
        }
        let new = NewSession::implicit();
        self.create(&new, options, moment);
        Some(new)
    }

    /// Makes the session that is not there yet, and tells replicas of it with everything explicit.
    #[inline(never)]
    pub fn create(&mut self, new: &NewSession<'_>, options: &WriteOptions, moment: &Moment) {
        let default_ttl_ms = settings::DEFAULT_TTL_S.get() as u64 * 1000;
        let created = CreatedExpiry::of(default_ttl_ms, options, moment);
        let session = Session::create(&Creation {
            id: new.id,
            created_at_ms: moment.now.content_ms,
            now_ms: moment.now.now_ms,
            ttl_ms: created.ttl_ms,
            limits: Arc::clone(&new.limits),
            scope: new.scope,
            state: new.state,
            meta: new.meta,
            pins: &new.pins,
        });
        self.put(session, created);
    }

    /// Puts a session that has been made elsewhere, out of which `evicted` messages fell, in place of whatever is at the key; its ttl is the
    /// default.
    pub fn place(&mut self, mut session: Session, evicted: u64, options: &WriteOptions, moment: &Moment) {
        let mut created = CreatedExpiry::of(session.ttl_ms(), options, moment);
        created.replaces = !self.is_missing();
        session.set_ttl_ms(created.ttl_ms);
        self.put(session, created);
        self.evicted += evicted;
    }

    fn put(&mut self, session: Session, created: CreatedExpiry) {
        self.key.set_value(SessionValue::new(session));
        if created.at_ms.is_some() {
            self.key.set_expires_at_ms(created.at_ms);
        }
        self.created = Some(created);
    }

    /// The same as [`Target::change`] for a change of anything but messages: what `maxage` has passed goes with it, and is counted and told.
    pub fn change_beside_messages<R>(&mut self, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        let messages = |target: &Self| target.session().map_or(0, |session| session.gauges().messages);
        let before = messages(self);
        let result = self.change(change);
        self.evicted += before.saturating_sub(messages(self));
        result
    }

    /// Changes the session; nothing happens where there is none.
    #[inline(always)]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        if self.pending.is_some() {
            self.migrate();
        }
        match self.key.get_mut() {
            Found::Value(value) => Some(value.change(change)),
            _ => None,
        }
    }

    pub fn expires_at_ms(&self) -> Option<i64> {
        self.key.expires_at_ms()
    }

    /// The last step on the key: the expiry. `changed` says whether the content did.
    #[inline(always)]
    pub fn settle(&mut self, options: &WriteOptions, moment: &Moment, changed: bool) -> Settled {
        if self.created.is_some() || options.expiry.is_some() {
            return self.settle_as_told(options, moment, changed);
        }
        let mut settled = Settled::new(moment, changed || self.migrated.is_some());
        settled.evicted = self.evicted;
        settled.migrated = self.migrated;
        // A migration by itself leaves the expiry as it was: there is nothing to slide yet.
        if changed && !moment.obeys {
            if let Some(at_ms) = slide(&mut self.key, moment.now.now_ms) {
                settled.expiry = ExpiryFact::At(at_ms);
            }
        }
        settled
    }

    /// The same where the session is new or its expiry has been named.
    #[inline(never)]
    fn settle_as_told(&mut self, options: &WriteOptions, moment: &Moment, changed: bool) -> Settled {
        let mut settled = Settled::new(moment, changed || self.migrated.is_some());
        settled.evicted = self.evicted;
        settled.migrated = self.migrated;
        if let Some(created) = self.created {
            settled.created = true;
            settled.replaces = created.replaces;
            settled.changed = true;
            settled.ttl_ms = Some(created.ttl_ms);
            settled.expiry = created.at_ms.map_or(ExpiryFact::Untouched, ExpiryFact::At);
            self.delete_if_past(&mut settled);
            return settled;
        }
        match (options.expiry, options.settled_at_ms) {
            (Some(Expiry::Ttl { ms }), at_ms) => {
                settled.ttl_ms = Some(ms);
                settled.expiry = match at_ms {
                    Some(at_ms) => ExpiryFact::At(at_ms),
                    None if moment.obeys => ExpiryFact::Untouched,
                    None => ExpiryFact::At(moment.now.now_ms + ms as i64),
                };
            }
            (Some(Expiry::Persist), at_ms) => {
                settled.ttl_ms = Some(0);
                settled.expiry = at_ms.map_or(ExpiryFact::Removed, ExpiryFact::At);
            }
            (Some(Expiry::At { ms }), _) => {
                settled.changed = true;
                settled.expiry = ExpiryFact::At(ms);
            }
            (Some(Expiry::Keep), _) => settled.expiry = ExpiryFact::Kept,
            (None, _) => {}
        }
        if let Some(ttl_ms) = settled.ttl_ms {
            settled.changed = true;
            self.change(|session| session.set_ttl_ms(ttl_ms));
        }
        match settled.expiry {
            ExpiryFact::At(at_ms) => self.key.set_expires_at_ms(Some(at_ms)),
            ExpiryFact::Removed => self.key.set_expires_at_ms(None),
            ExpiryFact::Untouched | ExpiryFact::Kept => {}
        }
        self.delete_if_past(&mut settled);
        settled
    }

    /// A `PXAT` in the past deletes the key; but a primary's word is not judged again: it sends a deletion of its own.
    #[inline]
    fn delete_if_past(&mut self, settled: &mut Settled) {
        if let ExpiryFact::At(at_ms) = settled.expiry {
            if at_ms <= settled.moment.now.now_ms && !settled.moment.obeys {
                self.key.delete();
                settled.deleted = true;
            }
        }
    }
}

/// Moves the key's expiry to now + ttl, where there are both; returns the new one, which is in the future.
#[inline(always)]
pub fn slide(key: &mut WriteKey<'_, SessionValue>, now_ms: i64) -> Option<i64> {
    let ttl_ms = match key.get() {
        Found::Value(value) => value.session().ttl_ms(),
        _ => 0,
    };
    if ttl_ms == 0 || key.expires_at_ms().is_none() {
        return None;
    }
    let at_ms = now_ms + ttl_ms as i64;
    key.set_expires_at_ms(Some(at_ms));
    Some(at_ms)
}

/// All that a command without options asks of a session before it writes it.
#[inline(never)]
pub fn check_session(ctx: &Ctx, session: &Session, options: &WriteOptions, moment: &Moment) -> Result<()> {
    check_session_is_open(ctx, session)?;
    check_lease_is_free(session, options, moment)?;
    check_guards_of(Some(session), options, moment)
}

fn check_session_is_open(ctx: &Ctx, session: &Session) -> Result<()> {
    match session.closed_at_ms() {
        Some(at_ms) if !ctx.obeys_primary() => Err(error::closed(at_ms)),
        _ => Ok(()),
    }
}

/// While a lease lives, its token is needed. What a primary sends has been judged there.
fn check_lease_is_free(session: &Session, options: &WriteOptions, moment: &Moment) -> Result<()> {
    if options.lease.is_some() || !session.may_be_leased() || moment.obeys {
        return Ok(());
    }
    let Some(lease) = session.living_lease(moment.now.now_ms) else {
        return Ok(());
    };
    info::CONFLICTS.add(1);
    let left_ms = lease.expires_at_ms - moment.now.now_ms;
    Err(error::lease_held(&LeaseHeld {
        agent: lease.agent.clone(),
        left_ms,
    }))
}

/// Those of `LEASE` and `IFVERSION` that are given, for the session that is there, if one is.
#[inline]
pub fn check_guards_of(session: Option<&Session>, options: &WriteOptions, moment: &Moment) -> Result<()> {
    if let Some(token) = options.lease {
        let living = session.and_then(|session| session.living_lease(moment.now.now_ms));
        if living.is_none_or(|lease| lease.token != token) {
            info::CONFLICTS.add(1);
            return Err(error::lease_lost(token));
        }
    }
    if let Some(wanted) = options.if_version {
        let is = session.map_or(0, Session::version);
        if is != wanted {
            info::CONFLICTS.add(1);
            return Err(error::version_conflict(is, wanted));
        }
    }
    Ok(())
}

/// What a new session is made of, all of it explicit.
pub struct NewSession<'a> {
    pub id: Uuid,
    pub limits: Arc<Limits>,
    pub scope: Option<&'a str>,
    pub state: Option<&'a str>,
    pub meta: Option<&'a str>,
    pub pins: Vec<&'a str>,
}

impl NewSession<'_> {
    /// A session of the configured defaults with a new id, as commands make one that create implicitly.
    #[inline(never)]
    pub fn implicit() -> Self {
        NewSession {
            id: Uuid::now_v7(),
            limits: settings::default_limits(),
            scope: None,
            state: None,
            meta: None,
            pins: Vec::new(),
        }
    }

    /// `SESSION.CREATE` with everything in it.
    pub fn effect<'a>(&self, ctx: &Ctx, key: Arg<'a>, settled: &Settled) -> Effect<'a> {
        let mut effect = ctx.effect(c"SESSION.CREATE");
        effect.arg(key);
        self.add_to(&mut effect, settled);
        effect
    }

    /// The same behind the key and what else a `SESSION.CREATE` says.
    pub fn add_to(&self, effect: &mut Effect<'_>, settled: &Settled) {
        effect.word(Word::Id).bytes(self.id.hyphenated().to_string().as_bytes());
        for (word, value) in [
            (Word::Scope, self.scope),
            (Word::State, self.state),
            (Word::Meta, self.meta),
        ] {
            if let Some(value) = value {
                effect.word(word).bytes(value.as_bytes());
            }
        }
        for limit in Limits::ROWS {
            effect
                .word(Word::Limit)
                .bytes(limit.name.as_bytes())
                .int(self.limits.get(limit) as i64);
        }
        for pin in &self.pins {
            effect.word(Word::Pin).bytes(pin.as_bytes());
        }
        settled.add_to(effect);
    }
}

/// What became of the key's expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpiryFact {
    Untouched,
    Kept,
    Removed,
    At(i64),
}

/// What a command has done to its key, as replicas are told.
pub struct Settled {
    /// Content or expiry.
    pub changed: bool,
    created: bool,
    replaces: bool,
    /// The key is gone: its expiry had passed when it was set.
    pub deleted: bool,
    ttl_ms: Option<u64>,
    expiry: ExpiryFact,
    moment: Moment,
    evicted: u64,
    migrated: Option<Migrated>,
}

impl Settled {
    #[inline]
    fn new(moment: &Moment, changed: bool) -> Self {
        Settled {
            changed,
            created: false,
            replaces: false,
            deleted: false,
            ttl_ms: None,
            expiry: ExpiryFact::Untouched,
            moment: *moment,
            evicted: 0,
            migrated: None,
        }
    }

    /// Adds the times, ttl and expiry to a replicated command.
    #[inline]
    pub fn add_to(&self, effect: &mut Effect<'_>) {
        let now = &self.moment.now;
        effect.word(Word::At).int(now.content_ms);
        if now.now_ms != now.content_ms {
            effect.word(Word::Now).int(now.now_ms);
        }
        match self.ttl_ms {
            Some(0) => {
                effect.word(Word::Persist);
            }
            Some(ttl_ms) => {
                effect.word(Word::Px).int(ttl_ms as i64);
            }
            None => {}
        }
        match self.expiry {
            ExpiryFact::At(at_ms) => {
                effect.word(Word::PxAt).int(at_ms);
            }
            ExpiryFact::Kept => {
                effect.word(Word::KeepTtl);
            }
            ExpiryFact::Removed | ExpiryFact::Untouched => {}
        }
    }

    /// The same for a command behind the `SESSION.CREATE` that it implied: ttl and expiry have been said there.
    pub fn add_behind_creation(&self, effect: &mut Effect<'_>) {
        let now = &self.moment.now;
        effect.word(Word::At).int(now.content_ms);
        if now.now_ms != now.content_ms {
            effect.word(Word::Now).int(now.now_ms);
        }
        effect.word(Word::KeepTtl);
    }

    /// The key's new expiry as a command of its own, for one that has no place for it.
    pub fn expiry_effect<'a>(&self, ctx: &Ctx, key: Arg<'a>) -> Option<Effect<'a>> {
        let ExpiryFact::At(at_ms) = self.expiry else {
            return None;
        };
        let mut effect = ctx.effect(c"PEXPIREAT");
        effect.arg(key).int(at_ms);
        Some(effect)
    }

    /// The end of a command that may have made its session: `SESSION.CREATE` goes before its effect then. `tail` goes behind the facts.
    pub fn publish_with_creation<'a>(
        &self,
        ctx: &mut Ctx,
        key: Arg<'a>,
        new: Option<&NewSession<'_>>,
        mut effect: Effect<'a>,
        tail: Args<'a>,
        events: &[&CStr],
    ) {
        match new {
            Some(new) => {
                let creation = new.effect(ctx, key, self);
                self.add_behind_creation(&mut effect);
                effect.args(tail.iter().copied());
                let events: SmallVec<[&CStr; 4]> = [c"session.create"].iter().chain(events).copied().collect();
                self.publish(ctx, key, &[&creation, &effect], &events);
            }
            None => {
                self.add_to(&mut effect);
                effect.args(tail.iter().copied());
                self.publish(ctx, key, &[&effect], events);
            }
        }
    }

    /// The end of a command that takes messages away or rewrites them: `tail` goes behind the facts of its effect.
    pub fn finish<'a>(
        &self,
        ctx: &mut Ctx,
        key: Arg<'a>,
        mut effect: Effect<'a>,
        tail: Args<'a>,
        changed: Changed,
        event: &CStr,
    ) {
        info::EVICTED.add(changed.evicted);
        if !self.changed {
            return;
        }
        self.add_to(&mut effect);
        effect.args(tail.iter().copied());
        let both = [event, c"session.evict"];
        let events = match (changed.count > 0, changed.evicted > 0) {
            (true, true) => &both[..],
            (true, false) => &both[..1],
            (false, true) => &both[1..],
            (false, false) => &[],
        };
        self.publish(ctx, key, &[&effect], events);
    }

    /// Tells replicas, watchers and subscribers. The key is closed by then.
    #[inline]
    pub fn publish<'a>(&self, ctx: &mut Ctx, key: Arg<'a>, effects: &[&Effect<'a>], events: &[&CStr]) {
        if !self.changed {
            return;
        }
        if !self.deleted {
            for effect in effects {
                ctx.replicate(effect);
            }
        } else if !self.created || self.replaces {
            let mut deletion = ctx.effect(c"DEL");
            deletion.arg(key);
            ctx.replicate(&deletion);
        }
        self.tell(ctx, key, events);
    }

    /// The same where replicas need no telling, since there are none and no append-only file: see [`Ctx::is_heard`].
    #[inline]
    pub fn publish_unheard(&self, ctx: &mut Ctx, key: Arg<'_>, events: &[&CStr]) {
        ctx.replicate_unheard();
        self.tell(ctx, key, events);
    }

    fn tell(&self, ctx: &mut Ctx, key: Arg<'_>, events: &[&CStr]) {
        if let Some(done) = self.migrated {
            ctx.notify(c"session.migrate", key);
            if done.evicted > 0 {
                ctx.notify(c"session.evict", key);
            }
        }
        tell(ctx, key, events);
        if self.evicted > 0 {
            info::EVICTED.add(self.evicted);
            ctx.notify(c"session.evict", key);
        }
        if self.deleted {
            ctx.notify_generic(c"del", key);
        }
    }
}

/// Tells watchers and subscribers, where replicas need no telling: see [`Ctx::is_heard`]. The key is closed by then.
#[inline(always)]
pub fn publish_unheard(ctx: &mut Ctx, key: Arg<'_>, events: &[&CStr]) {
    ctx.replicate_unheard();
    tell(ctx, key, events);
}

#[inline(always)]
fn tell(ctx: &mut Ctx, key: Arg<'_>, events: &[&CStr]) {
    ctx.signal_modified(key);
    for event in events {
        ctx.notify(event, key);
    }
}
