//! Storing a log's chunks in a payload and loading them, memory use, and relocation.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

use super::chunk::{Bodies as PackedBodies, Chunk, ChunkParts, Segment, SEGMENT_CHUNKS};
use super::parts::{Log, Sealed};
use super::record::{Base as ChunkBase, Head};
use super::shared::Shared;

impl Log {
    /// Returns the heap bytes of the chunks that are not in `seen`, and adds them to it.
    pub(crate) fn heap_bytes_unseen(&self, seen: &mut HashSet<usize>) -> usize {
        let mut bytes = self.open.as_ref().map_or(0, |open| open.heap_bytes());
        let Some(sealed) = &self.sealed else { return bytes };
        bytes += size_of::<Sealed>();
        let mut count = |chunks: &mut dyn Iterator<Item = &Arc<Chunk>>, seen: &mut HashSet<usize>| {
            for chunk in chunks {
                bytes += size_of::<Arc<Chunk>>();
                if seen.insert(Arc::as_ptr(chunk) as usize) {
                    bytes += chunk.heap_bytes();
                }
            }
        };
        count(&mut sealed.front.iter().chain(&sealed.back), seen);
        for segment in &sealed.segments {
            if seen.insert(Arc::as_ptr(segment) as usize) {
                count(&mut segment.chunks.iter(), seen);
            }
        }
        bytes + sealed.segments.len() * size_of::<Arc<Segment>>()
    }

    /// Passes each chunk's live records to `each` in the form that a payload stores.
    pub(crate) fn for_each_chunk<'s>(&'s self, mut each: impl FnMut(StoredChunk<'s>)) {
        let first_is_whole = self.head.heads_bytes == 0 && self.head.bodies_bytes == 0;
        for chunk in 0..self.chunks() {
            let view = self.view(chunk);
            if view.count == 0 {
                continue;
            }
            let (bodies, bodies_bytes, compressed, body_at) = match view.bodies {
                PackedBodies::Plain(bodies) => (&bodies[view.body_at..], bodies.len() - view.body_at, false, 0),
                PackedBodies::Lz4 { block, bytes } => (block, bytes, true, view.body_at),
            };
            each(StoredChunk {
                base: view.base,
                heads: view.heads,
                bodies,
                bodies_bytes: bodies_bytes as u32,
                body_at: body_at as u32,
                compressed,
                shared: view.shared,
                identity: self
                    .sealed
                    .as_ref()
                    .filter(|_| chunk > 0 || first_is_whole)
                    .and_then(|sealed| sealed.get(chunk))
                    .map(|chunk| ptr::from_ref(chunk) as usize),
            });
        }
    }

    /// Appends a chunk from a payload, after validating every header and body of it with `check`.
    /// `body_at` is the offset of the first live body: a first chunk may have been trimmed.
    pub(crate) fn push_chunk(
        &mut self,
        parts: ChunkParts<'_>,
        body_at: u32,
        segments: &mut TakenSegments,
        mut check: impl FnMut(&Head<'_>, &[u8]) -> bool,
    ) -> Option<TakenChunk> {
        // LZ4 cannot expand more than this: a larger claim is false, and no buffer is allocated for it.
        if parts.compressed && parts.bodies_bytes as usize > parts.bodies.len().saturating_mul(256) {
            return None;
        }
        if !parts.compressed && parts.bodies_bytes as usize != parts.bodies.len() {
            return None;
        }
        if body_at > 0 && self.chunks() > 0 {
            return None;
        }
        let chunk = Chunk::from_parts(parts)?;
        let mut view = chunk.view();
        view.body_at = body_at as usize;
        let mut scratch = Vec::new();
        let plain = view.plain_bodies(&mut scratch);
        if plain.len() != chunk.bodies_bytes() as usize {
            return None;
        }
        let mut records = view.records();
        let (mut tokens, mut body_bytes, mut count) = (0u64, 0u64, 0u32);
        let mut first_seq = None;
        let mut last_seq = self.chunks().checked_sub(1).map(|last| self.last_seq_of(last));
        while let Some(head) = records.next() {
            if last_seq.is_some_and(|last| head.seq <= last) || head.seq < view.base.seq {
                return None;
            }
            last_seq = Some(head.seq);
            first_seq.get_or_insert(head.seq);
            let body = match head.shared {
                None => plain.get(records.body_at()..records.body_at().checked_add(head.body_bytes as usize)?)?,
                Some(index) => view
                    .shared
                    .get(index as usize)
                    .filter(|body| body.len() == head.body_bytes as usize)?,
            };
            if !check(&head, body) {
                return None;
            }
            tokens += u64::from(head.tokens);
            body_bytes += u64::from(head.body_bytes);
            count += 1;
        }
        let (heads_at, bodies_at) = records.next_at();
        if count == 0 || count != chunk.count || heads_at != view.heads.len() || bodies_at != plain.len() {
            return None;
        }
        if self.chunks() == 0 {
            self.head.bodies_bytes = body_at;
        }
        let taken = TakenChunk {
            chunk: Arc::new(chunk),
            first_seq: first_seq?,
            tokens,
            body_bytes,
        };
        self.push_taken_chunk(&taken, segments)?;
        Some(taken)
    }

    /// Appends a chunk that another log has loaded from the same payload. Its first body must be at offset 0.
    pub(crate) fn push_taken_chunk(&mut self, taken: &TakenChunk, segments: &mut TakenSegments) -> Option<()> {
        let last_seq = self.chunks().checked_sub(1).map(|last| self.last_seq_of(last));
        if last_seq.is_some_and(|last_seq| taken.first_seq <= last_seq) {
            return None;
        }
        let chunk = Arc::clone(&taken.chunk);
        self.count += u64::from(chunk.count);
        self.tokens += taken.tokens;
        self.body_bytes += taken.body_bytes;
        let sealed = self.sealed.get_or_insert_with(|| {
            self.heap_bytes += size_of::<Sealed>();
            Box::default()
        });
        self.heap_bytes += chunk.heap_bytes() + size_of::<Arc<Chunk>>();
        sealed.back.push_back(chunk);
        if sealed.back.len() == 2 * SEGMENT_CHUNKS {
            let chunks = sealed.back.drain(..SEGMENT_CHUNKS).collect();
            sealed.segments.push_back(segments.segment_of(chunks));
        }
        Some(())
    }

    /// Passes the bytes of the sealed chunks `from..from + chunks` that this log does not share to `relocate`, which may move them; returns
    /// the chunk to continue with, or `None` at the end.
    pub fn relocate(
        &mut self,
        from: usize,
        chunks: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        let end = from.saturating_add(chunks);
        if let Some(sealed) = &mut self.sealed {
            for number in from..end.min(sealed.len()) {
                if let Some(chunk) = sealed.get_mut(number).and_then(Arc::get_mut) {
                    chunk.relocate(relocate);
                }
            }
            if end < sealed.len() {
                return Some(end);
            }
        }
        None
    }
}

/// One chunk as [`Log::for_each_chunk`] passes it.
pub(crate) struct StoredChunk<'a> {
    pub base: ChunkBase,
    pub heads: &'a [u8],
    pub bodies: &'a [u8],
    pub bodies_bytes: u32,
    pub body_at: u32,
    pub compressed: bool,
    pub shared: &'a [Shared],
    /// The address of the chunk, if it is sealed and all of it is live: logs with the same identity share the chunk.
    pub identity: Option<usize>,
}

/// A chunk that one log has loaded from a payload, for others that share it.
#[derive(Debug, Clone)]
pub(crate) struct TakenChunk {
    pub(super) chunk: Arc<Chunk>,
    first_seq: u64,
    pub(super) tokens: u64,
    pub(super) body_bytes: u64,
}

/// The segments of the logs of one payload, so that logs that share chunks share segments too: one reference per chunk and checkpoint would
/// take many times the size of the payload.
#[derive(Debug, Default)]
pub(crate) struct TakenSegments {
    by_first_chunk: HashMap<usize, Arc<Segment>>,
}

impl TakenSegments {
    fn segment_of(&mut self, chunks: Box<[Arc<Chunk>]>) -> Arc<Segment> {
        let first = chunks.first().map_or(0, |chunk| Arc::as_ptr(chunk) as usize);
        if let Some(known) = self.by_first_chunk.get(&first) {
            let mut both = known.chunks.iter().zip(&chunks);
            if known.chunks.len() == chunks.len() && both.all(|(known, chunk)| Arc::ptr_eq(known, chunk)) {
                return Arc::clone(known);
            }
        }
        let segment = Arc::new(Segment::new(chunks));
        self.by_first_chunk.insert(first, Arc::clone(&segment));
        segment
    }
}
