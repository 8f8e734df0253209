//! What a directory tells of its sessions.

use crate::connection::{bytes, pairs, Router};
use crate::failure::Result;

/// The key of an entry of `SESSION.INDEX LIST`. JSON is UTF-8: of a key that is not, it shows something like it, and the directory is asked
/// for the bytes.
pub fn raw_key(router: &mut Router, index: &[u8], id: &str, key: &str) -> Result<Vec<u8>> {
    if !key.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(key.as_bytes().to_vec());
    }
    let resolve = redis::cmd("SESSION.INDEX").arg("RESOLVE").arg(index).arg(id).to_owned();
    let found = router.call(index, &resolve)?.map(pairs).unwrap_or_default();
    let found = found.into_iter().find(|(name, _)| name == b"key");
    Ok(found
        .and_then(|(_, key)| bytes(key))
        .unwrap_or_else(|| key.as_bytes().to_vec()))
}
