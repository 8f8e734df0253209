//! `rdanchors`: the anchors of one entity as the value of a key.

use redis_session_core::anchor::{Added, AnchorBounds, NewAnchor};
use redis_session_core::Anchors;

use super::{load, relocate_in_steps};
use crate::ffi::{AofWriter, Defrag, Digest, NativeType, Sink, Source, TypeSlot};
use crate::info;

/// Number of anchors that the defragmenter moves before it checks its time again. Usually there are no more.
const ANCHORS_A_STEP: usize = 256;

/// Anchors as a value; `INFO session` counts one key for as long as it exists.
pub struct AnchorsValue {
    anchors: Anchors,
}

impl AnchorsValue {
    pub fn new(anchors: Anchors) -> Self {
        info::anchors_added();
        AnchorsValue { anchors }
    }

    pub fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    pub fn add(&mut self, new: &NewAnchor<'_>, bounds: AnchorBounds, now_ms: i64) -> Added {
        self.anchors.add(new, bounds, now_ms)
    }

    /// Decodes a saved payload.
    pub fn decode(payload: &[u8]) -> Result<Self, String> {
        let anchors = Anchors::decode_whole(payload).map_err(|why| why.to_string())?;
        // A key without anchors is deleted, so no server has saved this.
        if anchors.is_empty() {
            return Err("no anchors".to_owned());
        }
        Ok(AnchorsValue::new(anchors))
    }
}

impl Drop for AnchorsValue {
    fn drop(&mut self) {
        info::anchors_dropped();
    }
}

impl NativeType for AnchorsValue {
    const NAME: &'static str = "rdanchors";
    const ENCODING_VERSION: i32 = 0;

    fn slot() -> &'static TypeSlot<Self> {
        static SLOT: TypeSlot<AnchorsValue> = TypeSlot::new();
        &SLOT
    }

    fn save(&self, out: &mut Sink<'_>) {
        out.blob(&self.anchors.encode_whole());
    }

    fn load(source: &mut Source<'_>, encoding_version: i32) -> Option<Self> {
        load(encoding_version, || Some(AnchorsValue::decode(&source.blob()?)))
    }

    fn rewrite(&self, out: &mut AofWriter<'_>) {
        out.command(c"SESSION.LOAD", &self.anchors.encode_whole());
    }

    fn memory_bytes(&self) -> usize {
        self.anchors.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.anchors.free_effort()
    }

    fn copy(&self) -> Self {
        AnchorsValue::new(self.anchors.clone())
    }

    fn digest(&self, digest: &mut Digest<'_>) {
        self.anchors.digest(|part| digest.bytes(part));
        digest.end_sequence();
    }

    fn defrag(&mut self, defrag: &mut Defrag<'_>) -> bool {
        relocate_in_steps(defrag, ANCHORS_A_STEP, |from, count, relocate| {
            self.anchors.relocate(from, count, relocate)
        })
    }
}
