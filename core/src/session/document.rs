//! A session as one JSON document: the reply of `GET`.

use std::ops::ControlFlow;

use super::state::Session;
use crate::limits::Limits;
use crate::text::{json, time};

impl Session {
    /// Returns the document with the newest `messages` bodies verbatim, oldest first. `expires_at_ms` is the expiry of the key.
    ///
    /// Cost: O(bytes of the document).
    pub fn document(&self, messages: u64, expires_at_ms: Option<i64>, now_ms: i64) -> Vec<u8> {
        let shown = self.message_count(now_ms);
        // One allocation if all bodies are included; the size of only some of them is not known beforehand.
        let bodies = if messages >= shown {
            self.sums().body_bytes + 2 * shown
        } else {
            0
        };
        let mut out = Vec::with_capacity(1024 + bodies as usize);
        out.extend_from_slice(b"{\"session_id\":\"");
        out.extend_from_slice(
            self.id()
                .hyphenated()
                .encode_lower(&mut uuid::Uuid::encode_buffer())
                .as_bytes(),
        );
        out.extend_from_slice(b"\",\"scope\":");
        write_optional(&mut out, self.scope());
        out.extend_from_slice(b",\"alias\":");
        write_optional(&mut out, self.alias());
        out.extend_from_slice(b",\"state\":");
        json::write_string(&mut out, self.state());
        out.extend_from_slice(b",\"created_at\":");
        time::write_json(&mut out, Some(self.created_at_ms()));
        out.extend_from_slice(b",\"last_activity\":");
        time::write_json(&mut out, Some(self.last_activity_ms()));
        out.extend_from_slice(b",\"expires_at\":");
        time::write_json(&mut out, expires_at_ms);
        out.extend_from_slice(b",\"closed_at\":");
        time::write_json(&mut out, self.closed_at_ms());
        write_number(&mut out, ",\"version\":", self.version());
        write_number(&mut out, ",\"last_seq\":", self.last_seq());
        self.write_limits(&mut out);
        write_number(&mut out, ",\"message_count\":", shown);
        write_number(&mut out, ",\"query_count\":", self.query_count());
        write_number(&mut out, ",\"ttl_extended_count\":", self.ttl_extended_count());
        out.extend_from_slice(b",\"messages\":[");
        self.write_newest(messages, shown, now_ms, &mut out);
        out.extend_from_slice(b"],\"entities_mentioned\":{");
        for (i, (id, entity)) in self.entities().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            json::write_string(&mut out, id);
            out.push(b':');
            entity.write_json(id, &mut out);
        }
        let events = self.event_span(now_ms);
        let seq = |seq: Option<u64>| seq.map_or("null".to_owned(), |seq| seq.to_string());
        out.extend_from_slice(b"},\"agents\":[");
        for (i, (name, agent)) in self.agents().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            agent.write_json(name, &mut out);
        }
        out.push(b']');
        write_number(&mut out, ",\"events\":{\"count\":", events.count);
        let ends = format!(
            ",\"first_seq\":{},\"last_seq\":{}",
            seq(events.first_seq),
            seq(events.last_seq)
        );
        out.extend_from_slice(ends.as_bytes());
        out.extend_from_slice(b"},\"checkpoints\":[");
        for (i, checkpoint) in self.checkpoints().iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            checkpoint.write_json(self.id(), &mut out);
        }
        out.extend_from_slice(b"],\"lease\":");
        match self.living_lease(now_ms) {
            Some(lease) => lease.write_json(&mut out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"meta\":");
        out.extend_from_slice(self.meta().unwrap_or("null").as_bytes());
        out.push(b'}');
        out
    }

    /// Appends `,"limits":{…}`: every limit under its name, and the pinned roles as `pin` if there are any.
    fn write_limits(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"limits\":");
        let mut before = b'{';
        for limit in Limits::ROWS {
            out.push(before);
            before = b',';
            out.push(b'"');
            out.extend_from_slice(limit.name.as_bytes());
            write_number(out, "\":", self.limits().get(limit));
        }
        for (i, pin) in self.pins().iter().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"pin\":[" } else { b"," });
            json::write_string(out, pin);
        }
        if !self.pins().is_empty() {
            out.push(b']');
        }
        out.push(b'}');
    }

    fn write_newest(&self, messages: u64, shown: u64, now_ms: i64, out: &mut Vec<u8>) {
        let mut skip = shown.saturating_sub(messages);
        if messages == 0 {
            return;
        }
        let mut first = true;
        let mut write = |body: &[u8], out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(body);
        };
        if shown == self.messages.len() {
            self.messages.scan_from(skip, |_, body| {
                write(body.get(), out);
                ControlFlow::<()>::Continue(())
            });
            return;
        }
        self.messages(now_ms, |_, body| {
            if skip > 0 {
                skip -= 1;
            } else {
                write(body.get(), out);
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

fn write_number(out: &mut Vec<u8>, before: &str, number: u64) {
    out.extend_from_slice(before.as_bytes());
    json::write_u64(out, number);
}

fn write_optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => json::write_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}
