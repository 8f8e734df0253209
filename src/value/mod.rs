//! The data types: one file for the server's callbacks of each.

pub mod anchors;
pub mod directory;
pub mod session;

use std::fmt::Display;

use crate::ffi::{self, Defrag, NativeType};

/// Loads a value saved under the type's encoding version; logs why one is refused. `decode` returns `None` if the server has nothing more
/// to read.
fn load<V: NativeType, E: Display>(encoding_version: i32, decode: impl FnOnce() -> Option<Result<V, E>>) -> Option<V> {
    if encoding_version != V::ENCODING_VERSION {
        ffi::log_warning(&format!("{}: written by a newer version of the module", V::NAME));
        return None;
    }
    let decoded = decode()?;
    if let Err(why) = &decoded {
        ffi::log_warning(&format!("{}: a payload is refused: {why}", V::NAME));
    }
    decoded.ok()
}

/// Takes a block of bytes and returns it, perhaps at another address.
type Relocate<'r> = dyn FnMut(Box<[u8]>) -> Box<[u8]> + 'r;

/// Moves a value's pieces from where the last call stopped, `at_once` of them before it checks the time again; returns false if the time
/// was over before all were done. `relocate` takes the first piece and their number, and returns the piece to continue with.
fn relocate_in_steps(
    defrag: &mut Defrag<'_>,
    at_once: usize,
    mut relocate: impl FnMut(usize, usize, &mut Relocate<'_>) -> Option<usize>,
) -> bool {
    let mut from = defrag.cursor().unwrap_or(0) as usize;
    loop {
        let next = relocate(from, at_once, &mut |bytes| defrag.relocate_slice(bytes));
        let Some(next) = next else {
            defrag.set_cursor(0);
            return true;
        };
        from = next;
        if defrag.cursor().is_some() && defrag.should_stop() {
            defrag.set_cursor(from as u64);
            return false;
        }
    }
}
