//! The names of keys. The module never parses one: these are conventions that clients share.

use crate::key::hash_tag;
use crate::{Result, SessionError, SessionId};

/// The key of a session: `session:<id>`, in a scope `session:{scope}:<id>`.
///
/// ```
/// use redis_session_client::{SessionId, bridge::session_key};
///
/// let id = SessionId::new();
/// assert_eq!(session_key(None, id), format!("session:{id}"));
/// assert_eq!(session_key(Some("acme"), id), format!("session:{{acme}}:{id}"));
/// ```
pub fn session_key(scope: Option<&str>, id: SessionId) -> String {
    match scope {
        Some(scope) => format!("session:{{{scope}}}:{id}"),
        None => format!("session:{id}"),
    }
}

/// The key of an entity's anchors: `anchor:<entity>`.
///
/// ```
/// assert_eq!(redis_session_client::bridge::anchor_key("api"), "anchor:api");
/// ```
pub fn anchor_key(entity_id: &str) -> String {
    format!("anchor:{entity_id}")
}

/// The key of a session's recovery reference, for `CHECKPOINT CREATE … STORE`.
///
/// In a cluster it must be in the slot of the session. So a key with a hash tag keeps it, `checkpoint:session:{acme}:<id>`, and
/// any other key becomes one, `checkpoint:{session:<id>}`: the same on a single server, so that nothing is lost on the way to a cluster.
///
/// # Errors
/// [`SessionError::BadArgument`] if no such name exists, because the key has a `}` but no hash tag. No conventional key does.
///
/// ```
/// use redis_session_client::bridge::recovery_key;
///
/// assert_eq!(recovery_key("session:1")?, b"checkpoint:{session:1}");
/// assert_eq!(recovery_key("session:{acme}:1")?, b"checkpoint:session:{acme}:1");
/// assert!(recovery_key("session:}").is_err());
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
pub fn recovery_key(session_key: impl AsRef<[u8]>) -> Result<Vec<u8>> {
    let key = session_key.as_ref();
    if hash_tag(key).is_some() {
        return Ok([b"checkpoint:", key].concat());
    }
    if key.is_empty() || key.contains(&b'}') {
        return Err(SessionError::BadArgument(format!(
            "no key for a recovery reference is in the slot of {:?}",
            String::from_utf8_lossy(key)
        )));
    }
    Ok([b"checkpoint:{", key, b"}"].concat())
}

/// Whether a part of the key, and not all of it, decides on its slot: what is between the first `{` and the first `}` after it, if there
/// is anything.
#[cfg(test)]
mod tests {
    use super::*;

    /// What decides on the slot.
    fn tag(key: &[u8]) -> &[u8] {
        hash_tag(key).unwrap_or(key)
    }

    #[test]
    fn a_reference_is_in_the_slot_of_its_session() {
        for key in ["session:1", "session:{a}:1", "{", "{a", "a{b{c", "{a}{b}", "s:{{a}}"] {
            let recovery = recovery_key(key).unwrap();
            assert_eq!(tag(&recovery), tag(key.as_bytes()), "{key}");
        }
        for key in ["", "}", "a}b", "a{}b", "{}{a}"] {
            assert!(recovery_key(key).is_err(), "{key}");
        }
    }
}
