//! The memory that a session uses.

use std::collections::HashSet;
use std::sync::Arc;

use super::state::{Cold, Session};
use crate::conversation::Messages;

/// The gauges of one session; those of all sessions are summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    pub messages: u64,
    pub bytes_raw: u64,
    pub bytes_stored: u64,
}

impl Session {
    #[inline]
    pub fn gauges(&self) -> Gauges {
        let sums = self.messages.sums();
        Gauges {
            messages: sums.messages,
            bytes_raw: sums.body_bytes,
            bytes_stored: self.messages.heap_bytes() as u64,
        }
    }

    /// Returns the heap bytes of the session, without the `Session` itself. Sealed chunks shared with copies count in full.
    pub fn heap_bytes(&self) -> usize {
        let Session {
            id: _,
            version: _,
            last_seq: _,
            created_at_ms: _,
            last_activity_ms: _,
            ttl_ms: _,
            query_count: _,
            ttl_extended_count: _,
            // Sessions created under the same settings share one value.
            limits: _,
            cold,
            messages,
        } = self;
        messages.heap_bytes() + cold.as_ref().map_or(0, |cold| cold.heap_bytes(messages))
    }

    /// Returns how many allocations there are to free.
    pub fn free_effort(&self) -> usize {
        self.chunks() + self.cold.as_ref().map_or(0, |cold| cold.pieces())
    }
}

impl Cold {
    fn heap_bytes(&self, present: &Messages) -> usize {
        let Cold {
            scope,
            state,
            meta,
            pins,
            entities,
            dedup,
            events,
            agents,
            set_aside,
            alias,
            closed_at_ms: _,
            checkpoints: _,
        } = self;
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        size_of::<Cold>()
            + text(scope)
            + text(state)
            + text(meta)
            + text(alias)
            + pins
                .iter()
                .map(|pin| pin.capacity() + size_of::<String>())
                .sum::<usize>()
            + entities.heap_bytes()
            + dedup.heap_bytes()
            + events.log.heap_bytes()
            + agents.heap_bytes()
            + set_aside.heap_bytes()
            + self.checkpoints_heap_bytes(present)
    }

    /// Returns the heap bytes of the checkpoints that the session itself does not share.
    fn checkpoints_heap_bytes(&self, present: &Messages) -> usize {
        if self.checkpoints.list.is_empty() {
            return 0;
        }
        let mut seen = HashSet::new();
        present.heap_bytes_unseen(&mut seen);
        seen.insert(Arc::as_ptr(&self.entities) as usize);
        let list = self.checkpoints.list.iter();
        list.map(|checkpoint| checkpoint.heap_bytes(&mut seen)).sum()
    }

    fn pieces(&self) -> usize {
        let checkpoints = self.checkpoints.list.iter();
        self.entities.len()
            + self.events.log.chunks()
            + self.set_aside.chunks()
            + checkpoints
                .map(|checkpoint| 1 + checkpoint.snapshot.messages.chunks())
                .sum::<usize>()
    }
}
