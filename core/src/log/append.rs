//! Appending: the open chunk fills up, is sealed and is compressed later.

use std::sync::Arc;

use super::chunk::{Chunk, Packing, Segment, Summary, CHUNK_BYTES, PLAIN_BYTES, SEGMENT_CHUNKS};
use super::parts::{Log, Open, Sealed, Trimmed};
use super::record;
use super::record::{Base as ChunkBase, Entry};
use super::shared::Shared;

impl Log {
    /// Appends a record whose seq is greater than all others. If this seals a chunk with at least `compress_after_bytes` of bodies, that
    /// may be compressed later; 0 is never.
    ///
    /// Cost: O(bytes of the record), with sealing and compression amortised over the chunk's records.
    pub fn push(&mut self, entry: &Entry<'_>, compress_after_bytes: u32) {
        debug_assert!(
            !self.may_hold_after(entry.seq - 1),
            "seq {} is appended behind a later one: searches by seq would miss it",
            entry.seq
        );
        let shared = Shared::find(entry.body);
        let inline_bytes = if shared.is_some() { 0 } else { entry.body.len() };
        if self.open_is_full(inline_bytes) {
            self.seal(compress_after_bytes);
        }
        let sealed_before = self.sealed.is_some();
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let base = ChunkBase {
                    seq: entry.seq,
                    time_ms: entry.time_ms,
                };
                self.heap_bytes += size_of::<Open>();
                none.insert(Box::new(Open {
                    heads: Vec::new(),
                    bodies: Vec::new(),
                    shared: Vec::new(),
                    summary: Summary::new(base),
                }))
            }
        };
        let before = open.heap_bytes();
        if open.bodies.capacity() - open.bodies.len() < inline_bytes {
            if !sealed_before && self.head.bodies_bytes as usize * 2 > open.bodies.len() {
                open.drop_dead(&mut self.head);
            }
            reserve(&mut open.bodies, inline_bytes, sealed_before);
        }
        if open.heads.capacity() - open.heads.len() < 24 {
            let needed = if sealed_before { 128 } else { open.heads.len() + 24 }.max(open.heads.len() + 24);
            open.heads
                .reserve_exact((needed + needed / 2).next_multiple_of(32) - open.heads.len());
        }
        let index = shared.as_ref().map(|_| open.shared.len() as u32);
        record::write(&mut open.heads, open.summary.base, entry, index);
        match shared {
            Some(shared) => open.shared.push(shared),
            None => open.bodies.extend_from_slice(entry.body),
        }
        open.summary.add(entry.seq, entry.time_ms, entry.calls.iter().copied());
        let bodies_bytes = open.bodies.len();
        let fills_up = sealed_before && bodies_bytes >= PLAIN_BYTES && bodies_bytes - inline_bytes < PLAIN_BYTES;
        self.heap_bytes = self.heap_bytes + open.heap_bytes() - before;
        self.count += 1;
        self.tokens += u64::from(entry.tokens);
        self.body_bytes += entry.body.len() as u64;
        if fills_up {
            let newest = self.sealed.as_ref().map_or(0, |sealed| sealed.back.len());
            self.compress_back(newest.wrapping_sub(1), compress_after_bytes);
        }
    }

    #[inline]
    fn open_is_full(&self, more_bytes: usize) -> bool {
        let Some(open) = &self.open else { return false };
        let dead = if self.sealed.is_none() {
            self.head
        } else {
            Trimmed::default()
        };
        let live = open.heads.len() + open.bodies.len() - (dead.heads_bytes + dead.bodies_bytes) as usize;
        live > 0 && live + more_bytes + 16 > CHUNK_BYTES
    }

    pub(super) fn seal(&mut self, compress_after_bytes: u32) {
        let Some(open) = self.open.take() else { return };
        self.heap_bytes -= open.heap_bytes();
        let sealed = self.sealed.get_or_insert_with(|| {
            self.heap_bytes += size_of::<Sealed>();
            Box::default()
        });
        let mut open = *open;
        if sealed.len() == 0 {
            open.drop_dead(&mut self.head);
        }
        if open.summary.count > 0 {
            let chunk = Chunk::seal(open.summary, &open.heads, &open.bodies, open.shared);
            self.heap_bytes += chunk.heap_bytes() + size_of::<Arc<Chunk>>();
            sealed.back.push_back(Arc::new(chunk));
        }
        // A large message may have left the chunk before it uncompressed.
        if let Some(older) = sealed.back.len().checked_sub(2) {
            self.compress_back(older, compress_after_bytes);
        }
        let Some(sealed) = &mut self.sealed else { return };
        if sealed.back.len() == 2 * SEGMENT_CHUNKS {
            sealed
                .segments
                .push_back(Arc::new(Segment::new(sealed.back.drain(..SEGMENT_CHUNKS).collect())));
        }
    }

    /// Compresses a chunk of `back`, but not a first chunk that is being trimmed: it will be dropped soon.
    fn compress_back(&mut self, number: usize, compress_after_bytes: u32) {
        let Some(sealed) = &mut self.sealed else { return };
        let is_first = sealed.front.is_empty() && sealed.segments.is_empty() && number == 0;
        if is_first && self.head.records > 0 {
            return;
        }
        let Some(chunk) = sealed.back.get_mut(number) else {
            return;
        };
        let before = chunk.heap_bytes();
        compress(chunk, compress_after_bytes);
        self.heap_bytes = self.heap_bytes + chunk.heap_bytes() - before;
    }
}

fn compress(chunk: &mut Arc<Chunk>, compress_after_bytes: u32) {
    if compress_after_bytes == 0 || chunk.packing != Packing::Plain || chunk.bodies_bytes() < compress_after_bytes {
        return;
    }
    match chunk.compressed() {
        Some(smaller) => *chunk = Arc::new(smaller),
        None => {
            if let Some(chunk) = Arc::get_mut(chunk) {
                chunk.packing = Packing::Incompressible;
            }
        }
    }
}

/// Grows a buffer by the allocator's size classes, so that little of a chunk is unused. The chunks after a log's first will fill up, so
/// they grow in fewer steps: each step costs a tenth of an append.
#[inline(never)]
fn reserve(bytes: &mut Vec<u8>, more: usize, is_sure_to_fill: bool) {
    let needed = bytes.len() + more;
    let capacity = match needed {
        0..=2048 if is_sure_to_fill => 2048,
        2049..=4096 if is_sure_to_fill => 4096,
        0..=128 => 128,
        129..=1024 => needed.next_power_of_two(),
        1025..=4096 => needed.next_multiple_of(512),
        _ if needed <= CHUNK_BYTES => CHUNK_BYTES,
        _ => needed,
    };
    bytes.reserve_exact(capacity - bytes.len());
}
