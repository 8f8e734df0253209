//! Opens keys and asks their guards: `WRONGTYPE`, `NOSESSION`, `CLOSED`, then the lease, then the version.

use redis_session_core::session::LeaseHeld;
use redis_session_core::Session;
use uuid::Uuid;

use super::{now, Moment, STEP};
use crate::args::{Result, WriteOptions};
use crate::ffi::{Arg, Ctx, Found, WriteKey, WRONGTYPE};
use crate::migration::{self, Pending};
use crate::value::session::SessionValue;
use crate::{error, info, settings};

/// A key opened to be written: it holds a session, nothing, or a legacy layout that becomes a session with the first change.
///
/// The steps hold the open key as `K`, by value or, in [`Opened::at_once`], by reference: moving it from step to step costs the most frequent
/// command more than the steps themselves.
#[must_use]
pub struct Opened<K> {
    open: K,
}

/// What is at an open key.
pub struct OpenKey<'c, 'a> {
    pub(super) key: WriteKey<'c, SessionValue>,
    pub(super) name: Arg<'a>,
    pub(super) legacy: Option<Box<Legacy<'c>>>,
}

/// What a legacy layout becomes when it is changed.
pub(super) struct Legacy<'c> {
    pub ctx: &'c Ctx,
    pub now_ms: i64,
    pub pending: Box<Pending>,
}

/// How a step holds the open key: see [`Opened`].
pub trait Holds<'c, 'a> {
    fn session(&self) -> Option<&Session>;
    fn expires_at_ms(&self) -> Option<i64>;
    fn open_mut(&mut self) -> &mut OpenKey<'c, 'a>;
}

impl<'c, 'a> Holds<'c, 'a> for OpenKey<'c, 'a> {
    #[inline(always)]
    fn session(&self) -> Option<&Session> {
        match self.key.get() {
            Found::Value(value) => Some(value.session()),
            _ => self.legacy.as_ref().map(|legacy| &legacy.pending.session),
        }
    }

    fn expires_at_ms(&self) -> Option<i64> {
        self.key.expires_at_ms()
    }

    #[inline(always)]
    fn open_mut(&mut self) -> &mut OpenKey<'c, 'a> {
        self
    }
}

impl<'c, 'a> Holds<'c, 'a> for &mut OpenKey<'c, 'a> {
    #[inline(always)]
    fn session(&self) -> Option<&Session> {
        (**self).session()
    }

    fn expires_at_ms(&self) -> Option<i64> {
        (**self).expires_at_ms()
    }

    #[inline(always)]
    fn open_mut(&mut self) -> &mut OpenKey<'c, 'a> {
        self
    }
}

impl<'c, 'a> Opened<OpenKey<'c, 'a>> {
    /// Opens a key for a command that changes the session there, or makes one.
    #[inline(always)]
    pub fn or_new(ctx: &'c Ctx, key: Arg<'a>) -> Result<Self> {
        let opened = Self::even_closed(ctx, key)?;
        opened.check_not_closed(ctx)?;
        Ok(opened)
    }

    /// Opens a key that must hold a session.
    pub fn existing(ctx: &'c Ctx, key: Arg<'a>) -> Result<Self> {
        let opened = Self::or_new(ctx, key)?;
        match opened.session() {
            Some(_) => Ok(opened),
            None => Err(error::no_session(key.bytes())),
        }
    }

    /// Opens a key whatever the state of its session.
    #[inline(always)]
    pub fn even_closed(ctx: &'c Ctx, key: Arg<'a>) -> Result<Self> {
        let opened = ctx.open_key_write::<SessionValue>(key, STEP);
        let legacy = match opened.get() {
            Found::WrongType => Some(look_for_layout(ctx, key)?),
            Found::Value(_) | Found::Missing => None,
        };
        let open = OpenKey {
            key: opened,
            name: key,
            legacy,
        };
        Ok(Opened { open })
    }

    /// Takes the steps at a session that is there, and closes the key; `None` where there is anything else, for which the other ways are.
    #[inline(always)]
    pub fn at_once<R>(
        ctx: &'c Ctx,
        key: Arg<'a>,
        steps: impl FnOnce(Opened<&mut OpenKey<'c, 'a>>) -> Result<R>,
    ) -> Result<Option<R>> {
        let mut open = OpenKey {
            key: ctx.open_key_write::<SessionValue>(key, STEP),
            name: key,
            legacy: None,
        };
        if !matches!(open.key.get(), Found::Value(_)) {
            return Ok(None);
        }
        let opened = Opened { open: &mut open };
        opened.check_not_closed(ctx)?;
        steps(opened).map(Some)
    }
}

impl<'c, 'a, K: Holds<'c, 'a>> Opened<K> {
    /// Refuses to write a closed session.
    #[inline(always)]
    pub fn check_not_closed(&self, ctx: &Ctx) -> Result<()> {
        match self.session().and_then(Session::closed_at_ms) {
            Some(at_ms) => refuse_closed(ctx, at_ms),
            None => Ok(()),
        }
    }

    /// The session that is there, or that the layout there would become.
    #[inline(always)]
    pub fn session(&self) -> Option<&Session> {
        self.open.session()
    }

    /// When the key expires.
    pub fn expires_at_ms(&self) -> Option<i64> {
        self.open.expires_at_ms()
    }

    /// Asks all guards of `<w>`: while a lease lives its token is needed, and what is given is checked.
    #[inline(always)]
    pub fn guard(self, options: &'a WriteOptions, moment: &'a Moment) -> Result<Guarded<'a, K>> {
        if let Some(session) = self.session() {
            check_lease_is_free(session, options, moment)?;
        }
        self.guard_as_given(options, moment)
    }

    /// Asks only for the lease and the version that are given.
    #[inline(always)]
    pub fn guard_as_given(self, options: &'a WriteOptions, moment: &'a Moment) -> Result<Guarded<'a, K>> {
        let admitted = Admitted::as_given(self.session(), options, moment)?;
        Ok(Guarded {
            open: self.open,
            admitted,
        })
    }

    /// Asks nothing, for commands whose grammar has no guards. Of the options only times and expiry are looked at from here on.
    pub fn unguarded(self, options: &'a WriteOptions, moment: &'a Moment) -> Guarded<'a, K> {
        Guarded {
            open: self.open,
            admitted: Admitted { options, moment },
        }
    }
}

/// An opened key whose guards have passed: it may be changed, once.
#[must_use]
pub struct Guarded<'a, K> {
    pub(super) open: K,
    pub(super) admitted: Admitted<'a>,
}

impl<'c, 'a, K: Holds<'c, 'a>> Guarded<'a, K> {
    /// The session that is there, or that the layout there would become: for what a command checks behind its guards.
    pub fn session(&self) -> Option<&Session> {
        self.open.session()
    }
}

/// Says that the guards of a command have passed, with what it says of times and expiry. What passes without a key of its own: `FORK` by its
/// source, `MIGRATE` before it reads its sources.
#[derive(Clone, Copy)]
pub struct Admitted<'a> {
    pub(super) options: &'a WriteOptions,
    pub(super) moment: &'a Moment,
}

impl<'a> Admitted<'a> {
    /// Checks the `LEASE` and `IFVERSION` that are given against the session that is there, if one is.
    #[inline(always)]
    pub fn as_given(session: Option<&Session>, options: &'a WriteOptions, moment: &'a Moment) -> Result<Self> {
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
        Ok(Admitted { options, moment })
    }

    /// Opens the key where a session that is made elsewhere is to be placed, whatever it holds.
    pub fn destination<'c>(self, ctx: &'c Ctx, key: Arg<'a>) -> Destination<'c, 'a> {
        Destination {
            key: ctx.open_key_write::<SessionValue>(key, STEP),
            name: key,
            admitted: self,
        }
    }
}

/// A key opened for a session to be placed there.
#[must_use]
pub struct Destination<'c, 'a> {
    pub(super) key: WriteKey<'c, SessionValue>,
    pub(super) name: Arg<'a>,
    pub(super) admitted: Admitted<'a>,
}

impl Destination<'_, '_> {
    /// Whether the key holds anything, of whatever type.
    pub fn is_occupied(&self) -> bool {
        !matches!(self.key.get(), Found::Missing)
    }
}

/// Reads the value at a key that holds no session. With `session.auto-migrate` a JSON layout of one key is as good as a session, anything
/// else is `WRONGTYPE`. What a primary sends is refused too: it has sent the migration before.
#[cold]
#[inline(never)]
fn look_for_layout<'c>(ctx: &'c Ctx, key: Arg<'_>) -> Result<Box<Legacy<'c>>> {
    if !settings::AUTO_MIGRATE.get() || ctx.obeys_primary() {
        return Err(WRONGTYPE.into());
    }
    let now_ms = ctx.now_ms();
    match migration::of_key_alone(ctx, key, Uuid::now_v7(), now(now_ms, now_ms)) {
        Some(pending) => Ok(Box::new(Legacy { ctx, now_ms, pending })),
        None => Err(WRONGTYPE.into()),
    }
}

#[cold]
#[inline(never)]
fn refuse_closed(ctx: &Ctx, at_ms: i64) -> Result<()> {
    if ctx.obeys_primary() {
        return Ok(());
    }
    Err(error::closed(at_ms))
}

/// Refuses a command without a token while a lease lives. What a primary sends has been checked there.
#[inline(always)]
fn check_lease_is_free(session: &Session, options: &WriteOptions, moment: &Moment) -> Result<()> {
    if options.lease.is_some() || moment.obeys || !session.may_be_leased() {
        return Ok(());
    }
    refuse_if_leased(session, moment.now.now_ms)
}

#[inline(never)]
fn refuse_if_leased(session: &Session, now_ms: i64) -> Result<()> {
    let Some(lease) = session.living_lease(now_ms) else {
        return Ok(());
    };
    info::CONFLICTS.add(1);
    Err(error::lease_held(&LeaseHeld {
        agent: lease.agent.clone(),
        left_ms: lease.expires_at_ms - now_ms,
    }))
}
