//! Every error that commands reply, in the words of the contract. Programs compare the first word.

use redis_session_core::directory::AliasError;
use redis_session_core::session::LeaseHeld;
use redis_session_core::text::{json, time};
use uuid::Uuid;

use crate::ffi::ErrorReply;

/// Escapes a text that an error quotes: printable ASCII unchanged, everything else as `\xNN`, at most 64 bytes.
pub fn quoted(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in &bytes[..bytes.len().min(64)] {
        if (b' '..=b'~').contains(&byte) && byte != b'\\' && byte != b'\'' {
            out.push(byte as char);
        } else {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// An unknown or repeated option, one excluded by another, or one without its value.
#[cold]
pub fn syntax(near: &[u8]) -> ErrorReply {
    format!("ERR syntax error near '{}'", quoted(near)).into()
}

#[cold]
pub fn not_in_range(name: &str, min: i64, max: i64) -> ErrorReply {
    format!("ERR {name} must be an integer from {min} to {max}").into()
}

#[cold]
pub fn not_text(name: &str) -> ErrorReply {
    format!(
        "ERR {name} must be UTF-8 text of 1 to {} bytes",
        redis_session_core::text::MAX_TEXT_BYTES
    )
    .into()
}

#[cold]
pub fn text_too_large(name: &str, bytes: usize) -> ErrorReply {
    let most = redis_session_core::text::MAX_TEXT_BYTES;
    format!("TOOLARGE {name} is {bytes} bytes, the limit is {most}").into()
}

#[cold]
pub fn not_an_object(name: &str, error: json::Error) -> ErrorReply {
    format!("ERR {name} is not a JSON object ({error})").into()
}

#[cold]
pub fn bad_message(number: usize, of: usize, why: &str) -> ErrorReply {
    format!("BADMESSAGE message {number} of {of}: {why}").into()
}

/// A body larger than `session.max-message-bytes`. `what` is `message 1 of 1`, or the option that contains it.
#[cold]
pub fn body_too_large(what: &str, bytes: usize, most: usize) -> ErrorReply {
    format!("TOOLARGE {what} is {bytes} bytes, session.max-message-bytes is {most}").into()
}

#[cold]
pub fn no_session(key: &[u8]) -> ErrorReply {
    format!("NOSESSION no session at key '{}'", quoted(key)).into()
}

#[cold]
pub fn busy_key(key: &[u8]) -> ErrorReply {
    format!("BUSYKEY a session exists at key '{}'", quoted(key)).into()
}

/// A `FORK` to an existing key, of any type.
#[cold]
pub fn busy_destination(key: &[u8]) -> ErrorReply {
    format!("BUSYKEY a value exists at key '{}'", quoted(key)).into()
}

#[cold]
pub fn closed(at_ms: i64) -> ErrorReply {
    format!(
        "CLOSED session closed at {}",
        String::from_utf8_lossy(&time::iso_8601(at_ms))
    )
    .into()
}

/// A new session with the id of another one in the same directory.
#[cold]
pub fn busy_id(id: Uuid, key: &[u8]) -> ErrorReply {
    format!("BUSYKEY session {} exists at key '{}'", id.hyphenated(), quoted(key)).into()
}

#[cold]
pub fn bad_alias(why: AliasError) -> ErrorReply {
    format!("BADALIAS {why}").into()
}

#[cold]
pub fn alias_in_use(alias: &str, id: Uuid) -> ErrorReply {
    format!(
        "ALIASINUSE alias '{}' belongs to {}",
        quoted(alias.as_bytes()),
        id.hyphenated()
    )
    .into()
}

#[cold]
pub fn no_checkpoint(id: u64, key: &[u8]) -> ErrorReply {
    format!(
        "NOCHECKPOINT no checkpoint {id} in the session at key '{}'",
        quoted(key)
    )
    .into()
}

/// The server's own error if keys of a slot are partly here and partly on another node.
#[cold]
pub fn try_again() -> ErrorReply {
    "TRYAGAIN Multiple keys request during rehashing of slot".into()
}

#[cold]
pub fn version_conflict(is: u64, wanted: u64) -> ErrorReply {
    format!("VERSIONCONFLICT session is at version {is}, not {wanted}").into()
}

#[cold]
pub fn dedup_conflict(token: &[u8]) -> ErrorReply {
    format!("DEDUPCONFLICT token '{}' was used for another message", quoted(token)).into()
}

#[cold]
pub fn state_conflict(is: &str, wanted: &str) -> ErrorReply {
    format!(
        "STATECONFLICT session is in state '{}', not '{}'",
        quoted(is.as_bytes()),
        quoted(wanted.as_bytes())
    )
    .into()
}

#[cold]
pub fn lease_held(held: &LeaseHeld) -> ErrorReply {
    format!(
        "LEASEHELD agent '{}' holds the turn for {} ms more",
        quoted(held.agent.as_bytes()),
        held.left_ms
    )
    .into()
}

#[cold]
pub fn too_many_agents(max_agents: u64) -> ErrorReply {
    format!("TOOLARGE the session has {max_agents} agents, max-agents is {max_agents}").into()
}

#[cold]
pub fn lease_lost(token: u64) -> ErrorReply {
    format!("LEASELOST token {token} is stale").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_escaped_and_short() {
        assert_eq!(quoted(b"plain"), "plain");
        assert_eq!(quoted(b"a'b\\c\n\xff\0"), r"a\x27b\x5cc\x0a\xff\x00");
        assert_eq!(quoted(&[b'x'; 100]).len(), 64);
    }
}
