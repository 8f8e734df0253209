//! Converts legacy layouts to sessions: by `SESSION.MIGRATE`, by the first write, and in memory while a command reads one.
//!
//! A write makes the session in memory first and stores it at the key with its first change, so that a refused command has
//! migrated nothing. Replicas get an explicit `SESSION.MIGRATE` before the command's own effect.

use redis_session_core::layout::{self, Format};
use redis_session_core::limits::{Limit, Limits};
use redis_session_core::session::Now;
use redis_session_core::session::{Migrated, Migration};
use redis_session_core::Session;
use uuid::Uuid;

use crate::args::Result;
use crate::ffi::{Arg, Ctx, Effect, ForeignKind, Found, ReadKey, Word, WRONGTYPE};
use crate::value::session::SessionValue;
use crate::{info, settings};

/// A session made in memory from a legacy layout, not yet stored at its key.
pub struct Pending {
    pub session: Session,
    pub done: Migrated,
    pub format: Format,
    /// When the layout's key expires.
    pub expires_at_ms: Option<i64>,
}

/// Returns the ttl of a session whose layout expires at that time: the remaining time, at least 1; 0 for no expiry.
pub fn ttl_ms_until(expires_at_ms: Option<i64>, now_ms: i64) -> u64 {
    expires_at_ms.map_or(0, |at_ms| at_ms.saturating_sub(now_ms).max(1) as u64)
}

/// Makes a session of the value at this key, if it is a layout that one key holds and that is recognised for certain.
///
/// Cost: O(bytes) of the value; if its first element is not one of a layout, O(bytes) of that element.
pub fn of_key_alone(ctx: &Ctx, key: Arg<'_>, new_id: Uuid, now: Now) -> Option<Box<Pending>> {
    let (kind, expires_at_ms) = ctx.foreign_kind(key);
    if !matches!(kind, ForeignKind::String | ForeignKind::List) {
        return None;
    }
    let value = ctx.read_foreign(key, kind)?;
    let source = value.source()?;
    let legacy = layout::read_alone(&source)?;
    let format = legacy.format();
    let migration = Migration {
        id: None,
        new_id,
        ttl_ms: ttl_ms_until(expires_at_ms, now.now_ms),
        limits: settings::default_limits(),
        maxlen: None,
        now,
    };
    let (session, done) = Session::migrate(&legacy, &migration).ok()?;
    Some(Box::new(Pending {
        session,
        done,
        format,
        expires_at_ms,
    }))
}

/// Adds the facts of a migration that replicas cannot take from the layout itself: its format, the id, and the limits.
pub fn add_facts(effect: &mut Effect<'_>, format: Format, session: &Session) {
    effect
        .word(Word::Format)
        .bytes(format.name().as_bytes())
        .word(Word::Id)
        .bytes(session.id().hyphenated().to_string().as_bytes())
        .word(Word::MaxLen)
        .int(session.limits().maxlen as i64);
    for limit in carried_limits() {
        effect
            .word(Word::Limit)
            .bytes(limit.name.as_bytes())
            .int(session.limits().get(limit) as i64);
    }
}

/// Returns the limits of a migrated session that come from the configuration.
pub fn carried_limits() -> impl Iterator<Item = Limit> {
    Limits::ROWS.into_iter().filter(|limit| !limit.bounds_content)
}

/// Counts and logs a migration.
pub fn record(ctx: &Ctx, key: &[u8], format: Format, done: &Migrated) {
    info::MIGRATED.add(1);
    info::MALFORMED.add(done.malformed);
    let line = format!(
        "migrated {} at '{}': {} messages, {} events, {} entities, {} elements set aside",
        format.name(),
        crate::error::quoted(key),
        done.messages,
        done.events,
        done.entities,
        done.malformed
    );
    if done.malformed > 0 {
        ctx.log_warning(&line);
    } else {
        ctx.log_notice(&line);
    }
}

/// A key opened for reading: it holds a session, or a legacy layout that is read as one.
pub enum Reading<'c> {
    Key(ReadKey<'c, SessionValue>),
    Legacy(Box<Pending>),
}

impl<'c> Reading<'c> {
    #[inline]
    pub fn open(ctx: &'c Ctx, key: Arg<'_>) -> Result<Self> {
        let opened = ctx.open_key_read::<SessionValue>(key);
        if let Found::WrongType = opened.get() {
            drop(opened);
            return Self::open_legacy(ctx, key);
        }
        Ok(Reading::Key(opened))
    }

    #[cold]
    fn open_legacy(ctx: &Ctx, key: Arg<'_>) -> Result<Self> {
        let now_ms = ctx.now_ms();
        let now = Now {
            now_ms,
            content_ms: now_ms,
            compress_after_bytes: 0,
        };
        // There is no id yet; one made up here would differ with each read.
        match of_key_alone(ctx, key, Uuid::nil(), now) {
            Some(pending) => Ok(Reading::Legacy(pending)),
            None => Err(WRONGTYPE.into()),
        }
    }

    #[inline]
    pub fn session(&self) -> Option<&Session> {
        match self {
            Reading::Key(key) => match key.get() {
                Found::Value(value) => Some(value.session()),
                _ => None,
            },
            Reading::Legacy(pending) => Some(&pending.session),
        }
    }

    pub fn expires_at_ms(&self) -> Option<i64> {
        match self {
            Reading::Key(key) => key.expires_at_ms(),
            Reading::Legacy(pending) => pending.expires_at_ms,
        }
    }
}
