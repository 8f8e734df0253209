//! Settles a changed session: its key's expiry first; then, with the key closed, what replicas, watchers and subscribers are told.

use std::ffi::CStr;

use smallvec::SmallVec;

use super::change::{Changed, FirstExpiry, NewSession, Origin};
use super::open::{Admitted, Holds, OpenKey};
use super::{Moment, STEP};
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
    facts: Facts<'a>,
    origin: Option<Box<Origin>>,
}

/// By value, so that the most frequent commands need not put them into memory for those that have more to tell.
#[derive(Clone, Copy)]
struct Facts<'a> {
    key: Arg<'a>,
    now_ms: i64,
    content_ms: i64,
    /// Content, expiry, or the session's being there at all.
    changed: bool,
    /// What the command itself is about.
    session_changed: bool,
    evicted: u64,
    outcome: Outcome,
}

/// What became of the session's ttl and of the key's expiry.
#[derive(Clone, Copy)]
struct Outcome {
    ttl_ms: Option<u64>,
    expiry: ExpiryFact,
    /// The key is gone: its expiry had passed when it was set.
    deleted: bool,
}

impl<'c, 'a, K: Holds<'c, 'a>> Changed<'a, K> {
    /// Sets or slides the key's expiry and closes the key.
    #[inline(always)]
    pub fn settle(self) -> Settled<'a> {
        self.settle_key().0
    }

    /// Does the same and also returns when the key expires, which costs a look; now, where that has deleted it.
    pub fn settle_and_look(self) -> (Settled<'a>, Option<i64>) {
        let (settled, open) = self.settle_key();
        let expires_at_ms = match settled.is_deleted() {
            true => Some(settled.facts.now_ms),
            false => open.expires_at_ms(),
        };
        (settled, expires_at_ms)
    }

    #[inline(always)]
    fn settle_key(mut self) -> (Settled<'a>, K) {
        let Admitted { options, moment } = self.admitted;
        let OpenKey { key, name, .. } = self.open.open_mut();
        let (outcome, is_told) = if options.expiry.is_some() || self.origin.is_some() {
            let first = first_expiry(self.origin.as_deref());
            settle_as_told(key, first, options, moment, self.session_changed)
        } else {
            (Outcome::slid(slide(key, moment, self.session_changed)), false)
        };
        let facts = Facts {
            key: *name,
            now_ms: moment.now.now_ms,
            content_ms: moment.now.content_ms,
            changed: self.session_changed || is_told || self.origin.is_some(),
            session_changed: self.session_changed,
            evicted: self.evicted,
            outcome,
        };
        info::EVICTED.add(self.evicted);
        let origin = self.origin;
        (Settled { facts, origin }, self.open)
    }
}

/// Moves the key's expiry to now + ttl where there are both, for a change of content; returns the new one. A primary sends its expiry itself.
#[inline(always)]
fn slide(key: &mut WriteKey<'_, SessionValue>, moment: &Moment, session_changed: bool) -> Option<i64> {
    let ttl_ms = match key.get() {
        Found::Value(value) if session_changed && !moment.obeys => value.session().ttl_ms(),
        _ => 0,
    };
    if ttl_ms == 0 || key.expires_at_ms().is_none() {
        return None;
    }
    let at_ms = moment.now.now_ms + ttl_ms as i64;
    key.set_expires_at_ms(Some(at_ms));
    Some(at_ms)
}

/// Sets the expiry that the command names, or takes over the one that a new session has begun with. True: the command has named a ttl or an
/// expiry, which is a change.
#[inline(never)]
fn settle_as_told(
    key: &mut WriteKey<'_, SessionValue>,
    first: Option<FirstExpiry>,
    options: &WriteOptions,
    moment: &Moment,
    session_changed: bool,
) -> (Outcome, bool) {
    if let Some(FirstExpiry { ttl_ms, at_ms }) = first {
        // It is at the key already.
        let outcome = Outcome {
            ttl_ms: Some(ttl_ms),
            ..Outcome::slid(at_ms)
        };
        return (outcome.delete_if_past(key, moment), true);
    }
    let (ttl_ms, expiry) = match (options.expiry, options.settled_at_ms) {
        (Some(Expiry::Ttl { ms }), at_ms) => (
            Some(ms),
            match at_ms {
                Some(at_ms) => ExpiryFact::At(at_ms),
                None if moment.obeys => ExpiryFact::Untouched,
                None => ExpiryFact::At(moment.now.now_ms + ms as i64),
            },
        ),
        (Some(Expiry::Persist), at_ms) => (Some(0), at_ms.map_or(ExpiryFact::Removed, ExpiryFact::At)),
        (Some(Expiry::At { ms }), _) => (None, ExpiryFact::At(ms)),
        (Some(Expiry::Keep), _) => (None, ExpiryFact::Kept),
        (None, _) => return (Outcome::slid(slide(key, moment, session_changed)), false),
    };
    if let (Some(ttl_ms), Found::Value(value)) = (ttl_ms, key.get_mut()) {
        value.change(|session| session.set_ttl_ms(ttl_ms));
    }
    match expiry {
        ExpiryFact::At(at_ms) => key.set_expires_at_ms(Some(at_ms)),
        ExpiryFact::Removed => key.set_expires_at_ms(None),
        ExpiryFact::Untouched | ExpiryFact::Kept => {}
    }
    let outcome = Outcome {
        ttl_ms,
        expiry,
        deleted: false,
    };
    (outcome.delete_if_past(key, moment), expiry != ExpiryFact::Kept)
}

fn first_expiry(origin: Option<&Origin>) -> Option<FirstExpiry> {
    match origin {
        Some(Origin::Implied { expiry, .. } | Origin::Explicit { expiry, .. }) => Some(*expiry),
        Some(Origin::Migrated(_)) | None => None,
    }
}

impl Outcome {
    #[inline(always)]
    fn slid(at_ms: Option<i64>) -> Self {
        Outcome {
            ttl_ms: None,
            expiry: at_ms.map_or(ExpiryFact::Untouched, ExpiryFact::At),
            deleted: false,
        }
    }

    /// Deletes a key whose expiry has passed. What a primary sends is not deleted here: it sends a deletion of its own.
    fn delete_if_past(mut self, key: &mut WriteKey<'_, SessionValue>, moment: &Moment) -> Self {
        if let ExpiryFact::At(at_ms) = self.expiry {
            if at_ms <= moment.now.now_ms && !moment.obeys {
                key.delete();
                self.deleted = true;
            }
        }
        self
    }
}

impl<'a> Settled<'a> {
    /// Of a value beside sessions, which has neither expiry nor window.
    pub(super) fn plain(key: Arg<'a>, moment: &Moment, changed: bool, deleted: bool) -> Self {
        Settled {
            facts: Facts {
                key,
                now_ms: moment.now.now_ms,
                content_ms: moment.now.content_ms,
                changed,
                session_changed: changed,
                evicted: 0,
                outcome: Outcome {
                    deleted,
                    ..Outcome::slid(None)
                },
            },
            origin: None,
        }
    }

    pub fn key(&self) -> Arg<'a> {
        self.facts.key
    }

    /// Whether the change itself changed anything, as its receipt says.
    pub fn session_changed(&self) -> bool {
        self.facts.session_changed
    }

    /// How many messages left the window with the change.
    pub fn evicted(&self) -> u64 {
        self.facts.evicted
    }

    /// Whether the key is gone: its expiry had passed when it was set.
    pub fn is_deleted(&self) -> bool {
        self.facts.outcome.deleted
    }

    /// Tells replicas, watchers and subscribers. `effect` is the command without its facts (times, ttl, expiry), which go between it and
    /// `tail`; where this command had to make its session, a `SESSION.CREATE` goes before it.
    pub fn publish(&self, ctx: &mut Ctx, effect: Effect<'a>, tail: Args<'a>, events: &[&CStr]) {
        self.facts.publish(self.origin.as_deref(), ctx, effect, tail, events);
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
        if !ctx.is_heard() && self.facts.changed && self.origin.is_none() {
            ctx.replicate_unheard(STEP);
            self.facts.tell(None, ctx, events);
            return;
        }
        let effect = effect(ctx);
        self.facts.publish(self.origin.as_deref(), ctx, effect, tail, events);
    }

    /// Does the same for a command that has no place for facts: an expiry that has moved goes behind it as a `PEXPIREAT`.
    pub fn publish_bare(&self, ctx: &mut Ctx, effect: Option<&Effect<'a>>, events: &[&CStr]) {
        let mut expiry = None;
        if let ExpiryFact::At(at_ms) = self.facts.outcome.expiry {
            expiry.insert(ctx.effect(c"PEXPIREAT")).arg(self.key()).int(at_ms);
        }
        let effects: SmallVec<[&_; 2]> = effect.into_iter().chain(&expiry).collect();
        self.facts
            .publish_effects(self.origin.as_deref(), ctx, &effects, events);
    }

    /// Does the same as [`Settled::publish`] for a command that takes other keys along: they are deleted here.
    pub fn publish_with_deletions(&self, ctx: &mut Ctx, effect: Effect<'a>, events: &[&CStr], gone: &[Arg<'a>]) {
        for key in gone {
            ctx.delete(*key, STEP);
        }
        if self.facts.outcome.deleted {
            // The effect, which takes them along, is not sent.
            for key in gone {
                replicate_deletion(ctx, *key);
            }
        }
        self.publish(ctx, effect, &[], events);
        for key in gone {
            ctx.signal_modified(*key, STEP);
            ctx.notify_generic(c"del", *key, STEP);
        }
    }

    /// Puts a string at another key, with this expiry or none, as part of the same command: as `SET` with `PXAT` does, for its watchers,
    /// subscribers and replicas too.
    pub fn store_string(&self, ctx: &mut Ctx, key: Arg<'a>, value: &[u8], expires_at_ms: Option<i64>) {
        ctx.set_string(key, value, expires_at_ms, STEP);
        let mut effect = ctx.effect(c"SET");
        effect.arg(key).bytes(value);
        if let Some(at_ms) = expires_at_ms {
            effect.word(Word::PxAt).int(at_ms);
        }
        ctx.replicate(&effect, STEP);
        drop(effect);
        ctx.signal_modified(key, STEP);
        ctx.notify_string(c"set", key, STEP);
        if expires_at_ms.is_some() {
            ctx.notify_generic(c"expire", key, STEP);
        }
    }
}

impl<'a> Facts<'a> {
    #[inline(never)]
    fn publish(self, origin: Option<&Origin>, ctx: &mut Ctx, mut effect: Effect<'a>, tail: Args<'a>, events: &[&CStr]) {
        let Some(Origin::Implied { new, .. }) = origin else {
            self.add_to(&mut effect);
            effect.args(tail.iter().copied());
            return self.publish_effects(origin, ctx, &[&effect], events);
        };
        let creation = self.creation(ctx, new);
        if !self.session_changed {
            return self.publish_effects(origin, ctx, &[&creation], &[]);
        }
        self.add_times_to(&mut effect);
        // Ttl and expiry are said in the creation.
        effect.word(Word::KeepTtl);
        effect.args(tail.iter().copied());
        self.publish_effects(origin, ctx, &[&creation, &effect], events);
    }

    /// The `SESSION.CREATE` that this command implied, with everything explicit.
    fn creation(&self, ctx: &Ctx, new: &NewSession<'_>) -> Effect<'a> {
        let mut effect = ctx.effect(c"SESSION.CREATE");
        effect.arg(self.key);
        new.add_to(&mut effect);
        self.add_to(&mut effect);
        effect
    }

    fn add_to(&self, effect: &mut Effect<'_>) {
        self.add_times_to(effect);
        match self.outcome.ttl_ms {
            Some(0) => {
                effect.word(Word::Persist);
            }
            Some(ttl_ms) => {
                effect.word(Word::Px).int(ttl_ms as i64);
            }
            None => {}
        }
        match self.outcome.expiry {
            ExpiryFact::At(at_ms) => {
                effect.word(Word::PxAt).int(at_ms);
            }
            ExpiryFact::Kept => {
                effect.word(Word::KeepTtl);
            }
            ExpiryFact::Removed | ExpiryFact::Untouched => {}
        }
    }

    fn add_times_to(&self, effect: &mut Effect<'_>) {
        effect.word(Word::At).int(self.content_ms);
        if self.now_ms != self.content_ms {
            effect.word(Word::Now).int(self.now_ms);
        }
    }

    /// Sends the effects, or the deletion that came of them, and tells the key's watchers and subscribers.
    fn publish_effects(&self, origin: Option<&Origin>, ctx: &mut Ctx, effects: &[&Effect<'a>], events: &[&CStr]) {
        if !self.changed {
            return;
        }
        if !self.outcome.deleted {
            for effect in effects {
                ctx.replicate(effect, STEP);
            }
        } else if was_there(origin) {
            replicate_deletion(ctx, self.key);
        }
        self.tell(origin, ctx, events);
    }

    /// Tells watchers and subscribers of the key.
    #[inline(always)]
    fn tell(&self, origin: Option<&Origin>, ctx: &mut Ctx, events: &[&CStr]) {
        let key = self.key;
        ctx.signal_modified(key, STEP);
        if let Some(origin) = origin {
            tell_origin(ctx, key, origin);
        }
        for event in events {
            ctx.notify(event, key, STEP);
        }
        if self.evicted > 0 {
            ctx.notify(c"session.evict", key, STEP);
        }
        if self.outcome.deleted {
            ctx.notify_generic(c"del", key, STEP);
        }
    }
}

/// Whether the key held anything before the command.
fn was_there(origin: Option<&Origin>) -> bool {
    match origin {
        Some(Origin::Implied { .. }) => false,
        Some(Origin::Explicit { replaces, .. }) => *replaces,
        Some(Origin::Migrated(_)) | None => true,
    }
}

#[cold]
#[inline(never)]
fn tell_origin(ctx: &mut Ctx, key: Arg<'_>, origin: &Origin) {
    match origin {
        Origin::Implied { .. } => ctx.notify(c"session.create", key, STEP),
        Origin::Migrated(done) => {
            ctx.notify(c"session.migrate", key, STEP);
            if done.evicted > 0 {
                ctx.notify(c"session.evict", key, STEP);
            }
        }
        Origin::Explicit { .. } => {}
    }
}

fn replicate_deletion(ctx: &Ctx, key: Arg<'_>) {
    let mut deletion = ctx.effect(c"DEL");
    deletion.arg(key);
    ctx.replicate(&deletion, STEP);
}
