//! Pub/sub: what is recorded is published on the channel `__session@<db>__:<key>`, as `{"key","seq","kind","type","agentId",
//! "timestamp"}`, missing values as null. `session.publish` selects what: nothing, events (the default), or messages too.

use redis_session_core::text::{json, time};

use crate::ffi::{Arg, Ctx};
use crate::write::Settled;
use crate::{info, settings};

/// The lowest setting of `session.publish` at which something is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Events = 1,
    All = 2,
}

/// One record to publish.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    pub seq: u64,
    pub kind: &'a str,
    pub type_name: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub time_ms: i64,
}

/// Returns whether this command publishes anything of this level. Cost: one comparison if the setting excludes it.
#[inline]
pub fn is_on(ctx: &Ctx, level: Level) -> bool {
    may_be_on(level) && ctx.publishes()
}

/// Returns whether the setting includes this level.
#[inline]
pub fn may_be_on(level: Level) -> bool {
    settings::PUBLISH.get() >= level as i32
}

/// Signals readers blocked on the key and publishes what has just been recorded there.
pub fn recorded(ctx: &Ctx, settled: &Settled<'_>, publication: Publication<'_>) {
    ctx.signal_ready(settled.key());
    one(ctx, settled, publication);
}

/// Publishes something other than a message, if the setting includes it.
pub fn one(ctx: &Ctx, settled: &Settled<'_>, publication: Publication<'_>) {
    if is_on(ctx, Level::Events) {
        publish(ctx, settled, [publication]);
    }
}

/// Publishes records; [`is_on`] must have returned true.
#[inline(always)]
pub fn publish<'a>(ctx: &Ctx, settled: &Settled<'_>, publications: impl IntoIterator<Item = Publication<'a>>) {
    publish_at(ctx, settled.key(), publications);
}

#[inline(never)]
fn publish_at<'a>(ctx: &Ctx, key: Arg<'_>, publications: impl IntoIterator<Item = Publication<'a>>) {
    let mut channel = Vec::with_capacity(32 + key.bytes().len());
    channel.extend_from_slice(b"__session@");
    json::write_u64(&mut channel, ctx.selected_db() as u64);
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(key.bytes());
    // A key is bytes, JSON is text: bytes that are not UTF-8 become U+FFFD here, while the channel's name has the key's bytes.
    let key = String::from_utf8_lossy(key.bytes());
    for publication in publications {
        ctx.publish(&channel, &payload(&key, &publication));
        info::PUBLISHED.add(1);
    }
}

fn payload(key: &str, publication: &Publication<'_>) -> Vec<u8> {
    let texts = [
        key,
        publication.type_name.unwrap_or(""),
        publication.agent.unwrap_or(""),
    ];
    let mut out = Vec::with_capacity(160 + texts.iter().map(|text| text.len()).sum::<usize>());
    out.extend_from_slice(b"{\"key\":");
    json::write_string(&mut out, key);
    out.extend_from_slice(b",\"seq\":");
    json::write_u64(&mut out, publication.seq);
    out.extend_from_slice(b",\"kind\":");
    json::write_string(&mut out, publication.kind);
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
