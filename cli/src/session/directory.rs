//! The sessions that a directory lists.

use redis_session_client::request;
use redis_session_client::DirectoryEntry;

use crate::connection::Router;
use crate::failure::Result;

/// Returns the key of an entry of `SESSION.INDEX LIST`. In JSON a key that is not UTF-8 has replacement characters; its bytes are looked up
/// with `RESOLVE`.
pub fn raw_key(router: &mut Router, index: &[u8], entry: &DirectoryEntry) -> Result<Vec<u8>> {
    let shown = || entry.key.as_bytes().to_vec();
    if !entry.key.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(shown());
    }
    let resolve = request::index_resolve(index, entry.id.to_string()).tolerant();
    let found = router.ask(&resolve)?.ok().flatten();
    Ok(found.map_or_else(shown, |found| found.key))
}
