//! Settles a changed session: its key's expiry first; then, with the key closed, what replicas, watchers and subscribers are told.

use std::ffi::CStr;

use smallvec::SmallVec;

use super::change::{Changed, FirstExpiry, NewSession, Origin};
use super::open::Admitted;
use super::Moment;
use crate::args::{Expiry, WriteOptions};
use crate::ffi::{Arg, Args, Ctx, Effect, Found, Word, WriteKey};
use crate::info;
use crate::value::session::SessionValue;

/// What became of the key's expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpiryFact {
    Untouched,
    Kept,
    Removed,
    At(i64),
}

/// What a command has done to its key, which is closed: all that can be told of it.
#[must_use]
pub struct Settled<'a> {
    key: Arg<'a>,
    moment: Moment,
    /// Content, expiry, or the session's being there at all.
    changed: bool,
    /// What the command itself is about.
    content_changed: bool,
    /// The key is gone: its expiry had passed when it was set.
    deleted: bool,
    ttl_ms: Option<u64>,
    expiry: ExpiryFact,
    evicted: u64,
    origin: Option<Box<Origin>>,
}

impl<'a> Changed<'_, 'a> {
    /// Sets or slides the key's expiry and closes the key.
    #[inline(always)]
    pub fn settle(mut self) -> Settled<'a> {
        self.settle_key()
    }

    /// Does the same and also returns when the key expires, which costs a look; now, where that has deleted it.
    pub fn settle_and_look(mut self) -> (Settled<'a>, Option<i64>) {
        let settled = self.settle_key();
        let expires_at_ms = if settled.deleted {
            Some(settled.moment.now.now_ms)
        } else {
            self.key.expires_at_ms()
        };
        (settled, expires_at_ms)
    }

    #[inline(always)]
    fn settle_key(&mut self) -> Settled<'a> {
        let Admitted { options, moment } = self.admitted;
        let origin = self.origin.take();
        let mut settled = Settled {
            key: self.name,
            moment,
            changed: self.content_changed || origin.is_some(),
            content_changed: self.content_changed,
            deleted: false,
            ttl_ms: None,
            expiry: ExpiryFact::Untouched,
            evicted: self.evicted,
            origin,
        };
        if options.expiry.is_some() || settled.origin.is_some() {
            settled.settle_as_told(&mut self.key, options);
        } else if settled.content_changed && !moment.obeys {
            settled.slide(&mut self.key);
        }
        info::EVICTED.add(settled.evicted);
        settled
    }
}

impl Settled<'_> {
    /// Moves the key's expiry to now + ttl, where there are both.
    #[inline(always)]
    fn slide(&mut self, key: &mut WriteKey<'_, SessionValue>) {
        let ttl_ms = match key.get() {
            Found::Value(value) => value.session().ttl_ms(),
            _ => 0,
        };
        if ttl_ms == 0 || key.expires_at_ms().is_none() {
            return;
        }
        let at_ms = self.moment.now.now_ms + ttl_ms as i64;
        key.set_expires_at_ms(Some(at_ms));
        self.expiry = ExpiryFact::At(at_ms);
    }

    /// Sets the expiry that the command names, or that a new session has begun with.
    #[inline(never)]
    fn settle_as_told(&mut self, key: &mut WriteKey<'_, SessionValue>, options: &WriteOptions) {
        if let Some(FirstExpiry { ttl_ms, at_ms }) = self.first_expiry() {
            // It is at the key already.
            self.ttl_ms = Some(ttl_ms);
            self.expiry = at_ms.map_or(ExpiryFact::Untouched, ExpiryFact::At);
            self.delete_if_past(key);
            return;
        }
        let moment = self.moment;
        match (options.expiry, options.settled_at_ms) {
            (Some(Expiry::Ttl { ms }), at_ms) => {
                self.ttl_ms = Some(ms);
                self.expiry = match at_ms {
                    Some(at_ms) => ExpiryFact::At(at_ms),
                    None if moment.obeys => ExpiryFact::Untouched,
                    None => ExpiryFact::At(moment.now.now_ms + ms as i64),
                };
            }
            (Some(Expiry::Persist), at_ms) => {
                self.ttl_ms = Some(0);
                self.expiry = at_ms.map_or(ExpiryFact::Removed, ExpiryFact::At);
            }
            (Some(Expiry::At { ms }), _) => {
                self.changed = true;
                self.expiry = ExpiryFact::At(ms);
            }
            (Some(Expiry::Keep), _) => self.expiry = ExpiryFact::Kept,
            // A migration by itself leaves the expiry as it was: there is nothing to slide yet.
            (None, _) => {
                if self.content_changed && !moment.obeys {
                    self.slide(key);
                }
                return;
            }
        }
        if let Some(ttl_ms) = self.ttl_ms {
            self.changed = true;
            if let Found::Value(value) = key.get_mut() {
                value.change(|session| session.set_ttl_ms(ttl_ms));
            }
        }
        match self.expiry {
            ExpiryFact::At(at_ms) => key.set_expires_at_ms(Some(at_ms)),
            ExpiryFact::Removed => key.set_expires_at_ms(None),
            ExpiryFact::Untouched | ExpiryFact::Kept => {}
        }
        self.delete_if_past(key);
    }

    /// Deletes a key whose expiry has passed. What a primary sends is not deleted here: it sends a deletion of its own.
    fn delete_if_past(&mut self, key: &mut WriteKey<'_, SessionValue>) {
        if let ExpiryFact::At(at_ms) = self.expiry {
            if at_ms <= self.moment.now.now_ms && !self.moment.obeys {
                key.delete();
                self.deleted = true;
            }
        }
    }

    fn first_expiry(&self) -> Option<FirstExpiry> {
        match self.origin.as_deref() {
            Some(Origin::Implied { expiry, .. } | Origin::Explicit { expiry, .. }) => Some(*expiry),
            Some(Origin::Migrated(_)) | None => None,
        }
    }
}

impl<'a> Settled<'a> {
    /// Of a value beside sessions, which has neither expiry nor window.
    pub(super) fn plain(key: Arg<'a>, moment: &Moment, changed: bool, deleted: bool) -> Self {
        Settled {
            key,
            moment: *moment,
            changed,
            content_changed: changed,
            deleted,
            ttl_ms: None,
            expiry: ExpiryFact::Untouched,
            evicted: 0,
            origin: None,
        }
    }

    pub fn key(&self) -> Arg<'a> {
        self.key
    }

    /// Whether the change itself changed anything, as its receipt says.
    pub fn content_changed(&self) -> bool {
        self.content_changed
    }

    /// How many messages left the window with the change.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Whether the key is gone: its expiry had passed when it was set.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Tells replicas, watchers and subscribers. `effect` is the command without its facts (times, ttl, expiry), which go between it and
    /// `tail`; where this command had to make its session, a `SESSION.CREATE` goes before it.
    pub fn publish(&self, ctx: &mut Ctx, mut effect: Effect<'a>, tail: Args<'a>, events: &[&CStr]) {
        match self.origin.as_deref() {
            Some(Origin::Implied { new, .. }) => {
                let creation = self.creation(ctx, new);
                if !self.content_changed {
                    return self.publish_effects(ctx, &[&creation], &[]);
                }
                self.add_times(&mut effect);
                // Ttl and expiry are said in the creation.
                effect.word(Word::KeepTtl);
                effect.args(tail.iter().copied());
                self.publish_effects(ctx, &[&creation, &effect], events);
            }
            _ => {
                self.add_facts(&mut effect);
                effect.args(tail.iter().copied());
                self.publish_effects(ctx, &[&effect], events);
            }
        }
    }

    /// Does the same, and puts the effect together only where somebody listens: for the most frequent commands.
    #[inline(always)]
    pub fn publish_built(
        &self,
        ctx: &mut Ctx,
        effect: impl FnOnce(&Ctx) -> Effect<'a>,
        tail: Args<'a>,
        events: &[&CStr],
    ) {
        if !ctx.is_heard() && self.changed && self.origin.is_none() {
            ctx.replicate_unheard();
            self.tell(ctx, events);
            return;
        }
        let effect = effect(ctx);
        self.publish(ctx, effect, tail, events);
    }

    /// Does the same for a command that has no place for facts: an expiry that has moved goes behind it as a `PEXPIREAT`.
    pub fn publish_bare(&self, ctx: &mut Ctx, effect: Option<&Effect<'a>>, events: &[&CStr]) {
        let mut expiry = None;
        if let ExpiryFact::At(at_ms) = self.expiry {
            expiry.insert(ctx.effect(c"PEXPIREAT")).arg(self.key).int(at_ms);
        }
        let effects: SmallVec<[&_; 2]> = effect.into_iter().chain(&expiry).collect();
        self.publish_effects(ctx, &effects, events);
    }

    /// Does the same as [`Settled::publish`] for a command that takes other keys along: they are deleted here.
    pub fn publish_with_deletions(&self, ctx: &mut Ctx, effect: Effect<'a>, events: &[&CStr], gone: &[Arg<'a>]) {
        for key in gone {
            ctx.delete(*key);
        }
        if self.deleted {
            // The effect, which takes them along, is not sent.
            for key in gone {
                replicate_deletion(ctx, *key);
            }
        }
        self.publish(ctx, effect, &[], events);
        for key in gone {
            ctx.signal_modified(*key);
            ctx.notify_generic(c"del", *key);
        }
    }

    /// Puts a string at another key, with this expiry or none, as part of the same command: as `SET` with `PXAT` does, for its watchers,
    /// subscribers and replicas too.
    pub fn store_string(&self, ctx: &mut Ctx, key: Arg<'a>, value: &[u8], expires_at_ms: Option<i64>) {
        ctx.set_string(key, value, expires_at_ms);
        let mut effect = ctx.effect(c"SET");
        effect.arg(key).bytes(value);
        if let Some(at_ms) = expires_at_ms {
            effect.word(Word::PxAt).int(at_ms);
        }
        ctx.replicate(&effect);
        drop(effect);
        ctx.signal_modified(key);
        ctx.notify_string(c"set", key);
        if expires_at_ms.is_some() {
            ctx.notify_generic(c"expire", key);
        }
    }

    /// The `SESSION.CREATE` that this command implied, with everything explicit.
    fn creation(&self, ctx: &Ctx, new: &NewSession<'_>) -> Effect<'a> {
        let mut effect = ctx.effect(c"SESSION.CREATE");
        effect.arg(self.key);
        new.add_to(&mut effect);
        self.add_facts(&mut effect);
        effect
    }

    fn add_facts(&self, effect: &mut Effect<'_>) {
        self.add_times(effect);
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

    fn add_times(&self, effect: &mut Effect<'_>) {
        let now = &self.moment.now;
        effect.word(Word::At).int(now.content_ms);
        if now.now_ms != now.content_ms {
            effect.word(Word::Now).int(now.now_ms);
        }
    }

    /// Sends the effects, or the deletion that came of them, and tells the key's watchers and subscribers.
    #[inline]
    fn publish_effects(&self, ctx: &mut Ctx, effects: &[&Effect<'a>], events: &[&CStr]) {
        if !self.changed {
            return;
        }
        if !self.deleted {
            for effect in effects {
                ctx.replicate(effect);
            }
        } else if self.was_there() {
            replicate_deletion(ctx, self.key);
        }
        self.tell(ctx, events);
    }

    /// Whether the key held anything before this command.
    fn was_there(&self) -> bool {
        match self.origin.as_deref() {
            Some(Origin::Implied { .. }) => false,
            Some(Origin::Explicit { replaces, .. }) => *replaces,
            Some(Origin::Migrated(_)) | None => true,
        }
    }

    /// Tells watchers and subscribers of the key.
    #[inline(always)]
    fn tell(&self, ctx: &mut Ctx, events: &[&CStr]) {
        let key = self.key;
        ctx.signal_modified(key);
        if let Some(origin) = self.origin.as_deref() {
            tell_origin(ctx, key, origin);
        }
        for event in events {
            ctx.notify(event, key);
        }
        if self.evicted > 0 {
            ctx.notify(c"session.evict", key);
        }
        if self.deleted {
            ctx.notify_generic(c"del", key);
        }
    }
}

#[cold]
#[inline(never)]
fn tell_origin(ctx: &mut Ctx, key: Arg<'_>, origin: &Origin) {
    match origin {
        Origin::Implied { .. } => ctx.notify(c"session.create", key),
        Origin::Migrated(done) => {
            ctx.notify(c"session.migrate", key);
            if done.evicted > 0 {
                ctx.notify(c"session.evict", key);
            }
        }
        Origin::Explicit { .. } => {}
    }
}

fn replicate_deletion(ctx: &Ctx, key: Arg<'_>) {
    let mut deletion = ctx.effect(c"DEL");
    deletion.arg(key);
    ctx.replicate(&deletion);
}
