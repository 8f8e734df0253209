//! Values that the unit tests of several modules start from.

use std::sync::Arc;

use uuid::Uuid;

use crate::body;
use crate::limits::Limits;
use crate::session::EventRange;
use crate::session::{Creation, Incoming, Now, Session};

pub const START_MS: i64 = 1_768_384_800_000;

pub const fn at(now_ms: i64) -> Now {
    Now {
        now_ms,
        content_ms: now_ms,
        compress_after_bytes: 64,
    }
}

pub fn creation(limits: Limits) -> Creation<'static> {
    Creation {
        id: Uuid::from_u128(1),
        created_at_ms: START_MS,
        now_ms: START_MS,
        ttl_ms: 0,
        limits: Arc::new(limits),
        scope: None,
        state: None,
        meta: None,
        pins: &[],
    }
}

pub fn session(limits: Limits) -> Session {
    Session::create(&creation(limits))
}

pub fn append(session: &mut Session, body: &str, now_ms: i64) {
    let incoming = Incoming {
        facts: body::read(body.as_bytes()).unwrap(),
        body: body.as_bytes(),
        tokens: None,
    };
    let _ = session.append(&[incoming], None, at(now_ms), None);
}

pub const ALL_EVENTS: EventRange<'static> = EventRange {
    from: 0,
    to: u64::MAX,
    rev: false,
    count: u64::MAX,
    kinds: &[],
    agents: &[],
    entities: &[],
    from_state: None,
    to_state: None,
};
