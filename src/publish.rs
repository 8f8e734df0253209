//! Pub/sub: what is recorded is published on the channel `__session@<db>__:<key>`, as `{"key","seq","kind","type","agentId",
//! "timestamp"}`, absent things as null. `session.publish` says what: nothing, events (the default), or messages too.

use redis_session_core::{json, time};

use crate::ffi::{Arg, Ctx};
use crate::{info, settings};

/// What `session.publish` must be at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Events = 1,
    All = 2,
}

/// One recorded thing.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    pub seq: u64,
    pub kind: &'a str,
    pub type_name: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub time_ms: i64,
}

/// Whether anything of this level is published by this command. Cost: one comparison where the setting says no.
#[inline]
pub fn is_on(ctx: &Ctx, level: Level) -> bool {
    may_be_on(level) && ctx.publishes()
}

/// Whether the setting allows this level.
#[inline]
pub fn may_be_on(level: Level) -> bool {
    settings::PUBLISH.get() >= level as i32
}

/// Publishes what was recorded at `key`, where [`is_on`] said so.
pub fn publish<'a>(ctx: &Ctx, key: Arg<'_>, publications: impl IntoIterator<Item = Publication<'a>>) {
    let mut channel = format!("__session@{}__:", ctx.selected_db()).into_bytes();
    channel.extend_from_slice(key.bytes());
    // A key is bytes, JSON is text: what is not UTF-8 shows as U+FFFD; the channel has the bytes.
    let key = String::from_utf8_lossy(key.bytes());
    for publication in publications {
        ctx.publish(&channel, &payload(&key, &publication));
        info::PUBLISHED.add(1);
    }
}

fn payload(key: &str, publication: &Publication<'_>) -> Vec<u8> {
    let mut out = b"{\"key\":".to_vec();
    json::write_string(&mut out, key);
    out.extend_from_slice(format!(",\"seq\":{},\"kind\":\"{}\"", publication.seq, publication.kind).as_bytes());
    for (name, text) in [
        (",\"type\":", publication.type_name),
        (",\"agentId\":", publication.agent),
    ] {
        out.extend_from_slice(name.as_bytes());
        match text {
            Some(text) => json::write_string(&mut out, text),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b",\"timestamp\":");
    time::write_json(&mut out, Some(publication.time_ms));
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_null_for_what_is_absent() {
        let event = Publication {
            seq: 7,
            kind: "event",
            type_name: Some("pass"),
            agent: None,
            time_ms: 0,
        };
        assert_eq!(
            String::from_utf8(payload("k\"", &event)).unwrap(),
            r#"{"key":"k\"","seq":7,"kind":"event","type":"pass","agentId":null,"timestamp":"1970-01-01T00:00:00.000Z"}"#
        );
    }
}
