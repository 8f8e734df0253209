//! Trimming: dropping records at either end.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::chunk::{Chunk, Packing, Summary, CHUNK_BYTES};
use super::parts::{Front, Log, Position, Sealed, Trimmed};
use super::record;

impl Log {
    /// Returns the oldest live record.
    #[inline(always)]
    pub fn front(&self) -> Option<Front> {
        if self.count == 0 {
            return None;
        }
        let (heads, base, count) = match self.sealed.as_ref().and_then(|sealed| sealed.get(0)) {
            Some(chunk) => (chunk.parts().0, chunk.base, chunk.count),
            None => {
                let open = self.open.as_ref()?;
                (open.heads.as_slice(), open.summary.base, open.summary.count)
            }
        };
        let mut at = self.head.heads_bytes as usize;
        let brief = record::read_brief(heads, &mut at, base)?;
        Some(Front {
            seq: brief.seq,
            root: brief.root,
            makes_calls: brief.makes_calls,
            tokens: brief.tokens,
            body_bytes: brief.body_bytes,
            heads_at: at as u32,
            bodies_at: self.head.bodies_bytes + if brief.is_shared { 0 } else { brief.body_bytes },
            is_last_of_chunk: count == self.head.records + 1,
        })
    }

    /// Drops the oldest live record, which must be `front`.
    ///
    /// Cost: O(1), with the cutting of a half-dead chunk amortised over its records.
    #[inline(always)]
    pub fn drop_front(&mut self, front: &Front) {
        self.count -= 1;
        self.tokens -= u64::from(front.tokens);
        self.body_bytes -= u64::from(front.body_bytes);
        self.head.records += 1;
        self.head.heads_bytes = front.heads_at;
        self.head.bodies_bytes = front.bodies_at;
        if front.is_last_of_chunk {
            self.drop_first_chunk();
        } else if self.sealed.is_some() {
            self.cut_first_chunk();
        }
    }

    /// Drops the first chunk, whose records are all dead, and those after it that hold none.
    pub(super) fn drop_first_chunk(&mut self) {
        if self.count == 0 {
            // Frees the open chunk's buffers too: an empty log uses no heap.
            self.clear();
            return;
        }
        self.head = Trimmed::default();
        let Some(sealed) = &mut self.sealed else { return };
        while let Some(chunk) = sealed.pop_first() {
            self.heap_bytes -= chunk.heap_bytes() + size_of::<Arc<Chunk>>();
            if sealed.get(0).is_some_and(|next| next.count > 0) {
                break;
            }
        }
        if sealed.len() == 0 {
            self.sealed = None;
            self.heap_bytes -= size_of::<Sealed>();
        }
    }

    /// Cuts a plain first chunk that this log does not share to its live records, if more than half of it is dead.
    #[inline]
    fn cut_first_chunk(&mut self) {
        let Some(sealed) = &mut self.sealed else { return };
        let head = self.head;
        let Some(first) = sealed.first_mut() else { return };
        if first.packing == Packing::Lz4
            || head.bodies_bytes * 2 <= first.bodies_bytes()
            || (first.bodies_bytes() as usize) < CHUNK_BYTES / 2
        {
            return;
        }
        let Some(chunk) = Arc::get_mut(first) else { return };
        if chunk.shared.is_some() {
            return;
        }
        let before = chunk.heap_bytes();
        let (heads, bodies) = chunk.parts();
        let summary = Summary {
            base: chunk.base,
            last_seq: chunk.last_seq,
            min_time_ms: chunk.min_time_ms,
            max_time_ms: chunk.max_time_ms,
            calls_bloom: chunk.calls_bloom,
            count: chunk.count - head.records,
        };
        *chunk = Chunk::seal(
            summary,
            &heads[head.heads_bytes as usize..],
            &bodies[head.bodies_bytes as usize..],
            Vec::new(),
        );
        self.heap_bytes = self.heap_bytes + chunk.heap_bytes() - before;
        self.head = Trimmed::default();
    }

    /// Drops every record after a seq; returns the greatest seq that was dropped. Cost: O(records dropped + bytes of a chunk).
    pub fn cut_after(&mut self, seq: u64) -> Option<u64> {
        let last = self.scan_rev(Position::END, |head, _| ControlFlow::Break(head.seq));
        let last_seq = last.break_value().filter(|last_seq| *last_seq > seq)?;
        let from = self.position_of_seq(seq + 1);
        while self.chunks() > from.chunk + 1 {
            self.drop_last_chunk();
        }
        let mut rest = Vec::new();
        let _ = self.scan(from, |head, _| {
            rest.push(head.seq);
            ControlFlow::<()>::Continue(())
        });
        if from.record == 0 {
            self.drop_last_chunk();
        } else {
            self.remove(&rest);
        }
        if self.count == 0 {
            self.clear();
        }
        Some(last_seq)
    }

    fn drop_last_chunk(&mut self) {
        let view = self.view(self.chunks().saturating_sub(1));
        let (mut tokens, mut body_bytes) = (0, 0);
        for head in view.records() {
            tokens += u64::from(head.tokens);
            body_bytes += u64::from(head.body_bytes);
        }
        self.count -= u64::from(view.count);
        self.tokens -= tokens;
        self.body_bytes -= body_bytes;
        if let Some(open) = self.open.take() {
            self.heap_bytes -= open.heap_bytes();
        } else if let Some(sealed) = &mut self.sealed {
            if let Some(chunk) = sealed.pop_last() {
                self.heap_bytes -= chunk.heap_bytes() + size_of::<Arc<Chunk>>();
            }
        }
        if self.sealed.as_ref().is_some_and(|sealed| sealed.len() == 0) {
            self.sealed = None;
            self.heap_bytes -= size_of::<Sealed>();
        }
    }

    /// Drops everything. Cost: O(chunks).
    pub fn clear(&mut self) {
        *self = Log::default();
    }
}
