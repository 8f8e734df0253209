//! `rdsession`: a session as the value of a key.

use std::borrow::Cow;

use redis_session_core::Session;

use super::{load, relocate_in_steps};
use crate::ffi::{AofWriter, Defrag, Digest, NativeType, Sink, Source, TypeSlot};
use crate::{ffi, info, settings};

/// Number of chunks that the defragmenter moves before it checks its time again.
const CHUNKS_A_STEP: usize = 32;

/// A session as a value; `INFO session` counts it for as long as it exists.
pub struct SessionValue {
    session: Session,
}

impl SessionValue {
    pub fn new(mut session: Session) -> Self {
        session.share_limits(&settings::default_limits());
        info::session_added(session.gauges());
        SessionValue { session }
    }

    #[inline]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Changes the session and updates the gauges.
    #[inline(always)]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Session) -> R) -> R {
        let before = self.session.gauges();
        let result = change(&mut self.session);
        info::session_changed(before, self.session.gauges());
        result
    }
}

impl Drop for SessionValue {
    fn drop(&mut self) {
        info::session_dropped(self.session.gauges());
    }
}

impl NativeType for SessionValue {
    const NAME: &'static str = "rdsession";
    const ENCODING_VERSION: i32 = 0;

    fn slot() -> &'static TypeSlot<Self> {
        static SLOT: TypeSlot<SessionValue> = TypeSlot::new();
        &SLOT
    }

    fn save(&self, out: &mut Sink<'_>) {
        self.session.encode(|blob| out.blob(blob));
    }

    fn load(source: &mut Source<'_>, encoding_version: i32) -> Option<Self> {
        load(encoding_version, || {
            Some(Session::decode(|| source.blob().map(Bytes)).map(SessionValue::new))
        })
    }

    fn rewrite(&self, out: &mut AofWriter<'_>) {
        out.command(c"SESSION.LOAD", &self.session.encode_whole());
    }

    fn memory_bytes(&self) -> usize {
        self.session.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.session.free_effort()
    }

    fn copy(&self) -> Self {
        SessionValue::new(self.session.clone())
    }

    fn digest(&self, digest: &mut Digest<'_>) {
        self.session.digest(|part| digest.bytes(part));
        digest.end_sequence();
    }

    fn defrag(&mut self, defrag: &mut Defrag<'_>) -> bool {
        relocate_in_steps(defrag, CHUNKS_A_STEP, |from, count, relocate| {
            self.session.relocate(from, count, relocate)
        })
    }
}

/// A blob of the server, as the decoder takes it.
struct Bytes(ffi::Blob);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns a session's id as replies show it.
pub fn id_text(session: &Session) -> Cow<'static, str> {
    Cow::Owned(session.id().hyphenated().to_string())
}
