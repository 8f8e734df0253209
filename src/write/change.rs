//! Changes sessions, and makes them: new ones, of legacy layouts, and in place of what is at a key.

use std::convert::Infallible;
use std::sync::Arc;

use redis_session_core::layout::Format;
use redis_session_core::limits::Limits;
use redis_session_core::session::{Creation, Migrated, Written};
use redis_session_core::Session;
use uuid::Uuid;

use super::open::{Admitted, Destination, Guarded, Holds, Legacy, OpenKey};
use super::{Moment, STEP};
use crate::args::{Expiry, WriteOptions};
use crate::ffi::Found;
use crate::ffi::{Arg, Ctx, Effect, Word, WriteKey};
use crate::migration::{self, Pending};
use crate::value::session::SessionValue;
use crate::{info, settings};

/// A session that has been changed, its key still open: what is left is its expiry.
#[must_use]
pub struct Changed<'a, K> {
    pub(super) open: K,
    pub(super) admitted: Admitted<'a>,
    /// Where the session came from, if it was not there before.
    pub(super) origin: Option<Box<Origin>>,
    /// The receipt's.
    pub(super) session_changed: bool,
    pub(super) evicted: u64,
}

/// How this command brought the session to its key.
pub(super) enum Origin {
    /// Made of the configured defaults by a command that needs one: a `SESSION.CREATE` goes before its effect.
    Implied {
        new: NewSession<'static>,
        expiry: FirstExpiry,
    },
    /// Made or placed by a command whose own effect says it. `replaces`: something else was at the key.
    Explicit { expiry: FirstExpiry, replaces: bool },
    /// Made of the legacy layout at the key, which replicas have been told of.
    Migrated(Migrated),
}

/// The ttl that a session is made with, and the expiry that its key has from then on.
#[derive(Clone, Copy)]
pub(super) struct FirstExpiry {
    pub ttl_ms: u64,
    pub at_ms: Option<i64>,
}

impl FirstExpiry {
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
        FirstExpiry { ttl_ms, at_ms }
    }
}

impl<'c, 'a, K: Holds<'c, 'a>> Guarded<'a, K> {
    /// Changes the session. Where there is none yet, it is made first: of the layout at the key, else of the configured defaults
    /// ([`Opened::existing`](super::Opened::existing) has refused that for commands that make none).
    #[inline(always)]
    pub fn change<R>(self, change: impl FnOnce(&mut Session) -> Written<R>) -> (R, Changed<'a, K>) {
        let Ok(done) = self.attempt(|session| Ok::<_, Infallible>(change(session)));
        done
    }

    /// Does the same with a change that the engine may refuse. After a refusal nothing has happened: no session is made either.
    #[inline(always)]
    pub fn attempt<R, E>(
        mut self,
        change: impl FnOnce(&mut Session) -> Result<Written<R>, E>,
    ) -> Result<(R, Changed<'a, K>), E> {
        let OpenKey { key, name, legacy } = self.open.open_mut();
        // A session that is made is changed in memory and put at the key afterwards.
        let mut begun = None;
        let value = match key.get_mut() {
            Found::Value(value) => value,
            _ => &mut begun.insert(Begun::new(*name, legacy.take(), self.admitted)).value,
        };
        let written = value.change(change)?;
        let origin = begun.map(|begun| begun.put(key, *name));
        let changed = Changed {
            open: self.open,
            admitted: self.admitted,
            origin,
            session_changed: written.changed,
            evicted: written.evicted,
        };
        Ok((written.result, changed))
    }

    /// Makes the session where there is none yet, as [`Guarded::change`] does, and changes nothing else.
    pub fn ensure(self) -> Changed<'a, K> {
        self.change(|_| Written::nothing(())).1
    }

    /// Puts a new session at the key, which holds none, with a change of it.
    pub fn create(mut self, new: &NewSession<'_>, change: impl FnOnce(&mut Session) -> Written<()>) -> Changed<'a, K> {
        let expiry = new.first_expiry(&self.admitted);
        let mut session = new.session(expiry, self.admitted.moment);
        let written = change(&mut session);
        put(&mut self.open.open_mut().key, SessionValue::new(session), expiry.at_ms);
        Changed {
            open: self.open,
            admitted: self.admitted,
            origin: Some(Box::new(Origin::Explicit {
                expiry,
                replaces: false,
            })),
            session_changed: true,
            evicted: written.evicted,
        }
    }
}

impl<'c, 'a> Destination<'c, 'a> {
    /// Puts a session that was made elsewhere, out of which `evicted` messages fell, in place of whatever is at the key. Its ttl is the
    /// default.
    pub fn place(mut self, mut session: Session, evicted: u64) -> Changed<'a, OpenKey<'c, 'a>> {
        let Admitted { options, moment } = self.admitted;
        let expiry = FirstExpiry::of(session.ttl_ms(), options, moment);
        let replaces = self.is_occupied();
        session.set_ttl_ms(expiry.ttl_ms);
        put(&mut self.key, SessionValue::new(session), expiry.at_ms);
        Changed {
            open: OpenKey {
                key: self.key,
                name: self.name,
                legacy: None,
            },
            admitted: self.admitted,
            origin: Some(Box::new(Origin::Explicit { expiry, replaces })),
            session_changed: true,
            evicted,
        }
    }
}

impl<'c, 'a, K: Holds<'c, 'a>> Changed<'a, K> {
    /// When the key expires as it is now.
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.open.expires_at_ms()
    }

    /// The session as it is now.
    pub fn session(&self) -> &Session {
        self.open.session().expect("a change leaves a session at the key")
    }
}

/// A session that is made by the first change of it.
struct Begun<'c, 'a> {
    /// Counted in `INFO` as long as it lives, at the key or not.
    value: SessionValue,
    expires_at_ms: Option<i64>,
    kind: Kind<'c, 'a>,
}

enum Kind<'c, 'a> {
    New(NewSession<'static>, FirstExpiry),
    Legacy {
        ctx: &'c Ctx,
        /// `SESSION.MIGRATE` with the facts of the session as it was made.
        effect: Effect<'a>,
        format: Format,
        done: Migrated,
    },
}

impl<'c, 'a> Begun<'c, 'a> {
    #[cold]
    #[inline(never)]
    fn new(name: Arg<'a>, legacy: Option<Box<Legacy<'c>>>, admitted: Admitted<'_>) -> Box<Self> {
        Box::new(match legacy {
            Some(legacy) => Self::of_layout(name, *legacy),
            None => Self::of_defaults(&admitted),
        })
    }

    fn of_defaults(admitted: &Admitted<'_>) -> Self {
        let new = NewSession::implied();
        let expiry = new.first_expiry(admitted);
        Begun {
            value: SessionValue::new(new.session(expiry, admitted.moment)),
            expires_at_ms: expiry.at_ms,
            kind: Kind::New(new, expiry),
        }
    }

    fn of_layout(name: Arg<'a>, legacy: Legacy<'c>) -> Self {
        let Legacy { ctx, now_ms, pending } = legacy;
        let Pending {
            session,
            done,
            format,
            expires_at_ms,
        } = *pending;
        let mut effect = ctx.effect(c"SESSION.MIGRATE");
        effect.arg(name);
        migration::add_facts(&mut effect, format, &session);
        effect.word(Word::At).int(now_ms);
        match (session.ttl_ms(), expires_at_ms) {
            (0, _) => effect.word(Word::Persist),
            (ttl_ms, None) => effect.word(Word::Px).int(ttl_ms as i64),
            (ttl_ms, Some(at_ms)) => effect.word(Word::Px).int(ttl_ms as i64).word(Word::PxAt).int(at_ms),
        };
        Begun {
            value: SessionValue::new(session),
            expires_at_ms,
            kind: Kind::Legacy {
                ctx,
                effect,
                format,
                done,
            },
        }
    }

    /// Puts the session at its key. Replicas are told of a migration here, before the command's own effect.
    #[cold]
    #[inline(never)]
    fn put(self: Box<Self>, key: &mut WriteKey<'_, SessionValue>, name: Arg<'_>) -> Box<Origin> {
        let Begun {
            value,
            expires_at_ms,
            kind,
        } = *self;
        put(key, value, expires_at_ms);
        Box::new(match kind {
            Kind::New(new, expiry) => Origin::Implied { new, expiry },
            Kind::Legacy {
                ctx,
                effect,
                format,
                done,
            } => {
                ctx.replicate(&effect, STEP);
                migration::record(ctx, name.bytes(), format, &done);
                info::EVICTED.add(done.evicted);
                Origin::Migrated(done)
            }
        })
    }
}

fn put(key: &mut WriteKey<'_, SessionValue>, value: SessionValue, expires_at_ms: Option<i64>) {
    key.set_value(value);
    if expires_at_ms.is_some() {
        key.set_expires_at_ms(expires_at_ms);
    }
}

/// What a new session is made of, all of it explicit.
pub struct NewSession<'n> {
    pub id: Uuid,
    pub limits: Arc<Limits>,
    pub scope: Option<&'n str>,
    pub state: Option<&'n str>,
    pub meta: Option<&'n str>,
    pub pins: Vec<&'n str>,
}

impl NewSession<'_> {
    /// Describes a session of the configured defaults with a new id, as commands make one that create implicitly.
    fn implied() -> Self {
        NewSession {
            id: Uuid::now_v7(),
            limits: settings::default_limits(),
            scope: None,
            state: None,
            meta: None,
            pins: Vec::new(),
        }
    }

    fn first_expiry(&self, admitted: &Admitted<'_>) -> FirstExpiry {
        let default_ttl_ms = settings::DEFAULT_TTL_S.get() as u64 * 1000;
        FirstExpiry::of(default_ttl_ms, admitted.options, admitted.moment)
    }

    fn session(&self, expiry: FirstExpiry, moment: &Moment) -> Session {
        Session::create(&Creation {
            id: self.id,
            created_at_ms: moment.now.content_ms,
            now_ms: moment.now.now_ms,
            ttl_ms: expiry.ttl_ms,
            limits: Arc::clone(&self.limits),
            scope: self.scope,
            state: self.state,
            meta: self.meta,
            pins: &self.pins,
        })
    }

    /// Adds what the session is made of to a replicated `SESSION.CREATE`.
    pub fn add_to(&self, effect: &mut Effect<'_>) {
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
    }
}
