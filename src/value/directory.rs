//! `rdsessidx`: a directory of sessions as the value of a key.

use redis_session_core::Directory;

use super::load;
use crate::ffi::{AofWriter, Defrag, Digest, NativeType, Sink, Source, TypeSlot};
use crate::info;

/// A directory as a value; `INFO session` counts it for as long as it exists.
pub struct DirectoryValue {
    directory: Directory,
}

impl DirectoryValue {
    pub fn new(directory: Directory) -> Self {
        info::directory_added();
        DirectoryValue { directory }
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }
}

impl Drop for DirectoryValue {
    fn drop(&mut self) {
        info::directory_dropped();
    }
}

impl NativeType for DirectoryValue {
    const NAME: &'static str = "rdsessidx";
    const ENCODING_VERSION: i32 = 0;

    fn slot() -> &'static TypeSlot<Self> {
        static SLOT: TypeSlot<DirectoryValue> = TypeSlot::new();
        &SLOT
    }

    fn save(&self, out: &mut Sink<'_>) {
        out.blob(&self.directory.encode_whole());
    }

    fn load(source: &mut Source<'_>, encoding_version: i32) -> Option<Self> {
        load(encoding_version, || {
            Some(Directory::decode_whole(&source.blob()?).map(DirectoryValue::new))
        })
    }

    fn rewrite(&self, out: &mut AofWriter<'_>) {
        out.command(c"SESSION.LOAD", &self.directory.encode_whole());
    }

    fn memory_bytes(&self) -> usize {
        self.directory.heap_bytes()
    }

    fn free_effort(&self) -> usize {
        self.directory.free_effort()
    }

    fn copy(&self) -> Self {
        DirectoryValue::new(self.directory.clone())
    }

    fn digest(&self, digest: &mut Digest<'_>) {
        self.directory.digest(|part| digest.bytes(part));
        digest.end_sequence();
    }

    /// Moves nothing beyond the box, which has been moved already: four orders and perhaps copies point to an entry, and the nodes of the
    /// orders belong to the standard library, which cannot move them.
    fn defrag(&mut self, _defrag: &mut Defrag<'_>) -> bool {
        true
    }
}
