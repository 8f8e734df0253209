//! The parts of a log, and access to its chunks by number.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::chunk::{Bodies as PackedBodies, Chunk, Segment, Summary, View, SEGMENT_CHUNKS};
use super::record::Base as ChunkBase;
use super::shared::Shared;

type Chunks = VecDeque<Arc<Chunk>>;

#[derive(Debug, Default)]
pub struct Log {
    pub(super) open: Option<Box<Open>>,
    pub(super) sealed: Option<Box<Sealed>>,
    pub(super) head: Trimmed,
    pub(super) count: u64,
    pub(super) tokens: u64,
    pub(super) body_bytes: u64,
    /// Heap bytes of the chunks, updated with every change: see [`Log::heap_bytes`].
    pub(super) heap_bytes: usize,
}

/// How much of the first chunk is dead.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Trimmed {
    pub(super) records: u32,
    pub(super) heads_bytes: u32,
    pub(super) bodies_bytes: u32,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Sealed {
    pub(super) front: Chunks,
    pub(super) segments: VecDeque<Arc<Segment>>,
    pub(super) back: Chunks,
}

/// The chunk that takes appends.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) heads: Vec<u8>,
    pub(super) bodies: Vec<u8>,
    pub(super) shared: Vec<Shared>,
    pub(super) summary: Summary,
}

impl Open {
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Open>()
            + self.heads.capacity()
            + self.bodies.capacity()
            + self.shared.capacity() * size_of::<Shared>()
    }
}

/// The fields of a log's oldest record that trimming needs.
#[derive(Debug, Clone, Copy)]
pub struct Front {
    pub seq: u64,
    pub root: Option<u64>,
    pub makes_calls: bool,
    pub(super) tokens: u32,
    pub(super) body_bytes: u32,
    pub(super) heads_at: u32,
    pub(super) bodies_at: u32,
    pub(super) is_last_of_chunk: bool,
}

/// A position in a log: a chunk and a record in it, both counted from the oldest live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub(super) chunk: usize,
    pub(super) record: u32,
}

impl Position {
    pub const START: Position = Position { chunk: 0, record: 0 };
    pub const END: Position = Position {
        chunk: usize::MAX - 1,
        record: 0,
    };
}

impl Clone for Log {
    /// Copies the open chunk and shares the rest. Cost: O(segments + 192).
    fn clone(&self) -> Self {
        let open = self.open.clone();
        let held = |open: &Option<Box<Open>>| open.as_ref().map_or(0, |open| open.heap_bytes());
        let heap_bytes = self.heap_bytes - held(&self.open) + held(&open);
        Log {
            open,
            sealed: self.sealed.clone(),
            heap_bytes,
            ..*self
        }
    }
}

impl Log {
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub fn len(&self) -> u64 {
        self.count
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the size of all live bodies, uncompressed.
    #[inline]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns the heap bytes of the log. Sealed chunks count in full even if others share them; of a shared body only the reference
    /// counts.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Returns the number of chunks, including the open one.
    #[inline]
    pub fn chunks(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.len()) + usize::from(self.open.is_some())
    }

    #[inline]
    pub(super) fn view(&self, chunk: usize) -> View<'_> {
        let mut view = match self.sealed.as_ref().and_then(|sealed| sealed.get(chunk)) {
            Some(sealed) => sealed.view(),
            None => match &self.open {
                Some(open) => View {
                    base: open.summary.base,
                    heads: &open.heads,
                    bodies: PackedBodies::Plain(&open.bodies),
                    body_at: 0,
                    count: open.summary.count,
                    shared: &open.shared,
                },
                None => View {
                    base: ChunkBase::default(),
                    heads: &[],
                    bodies: PackedBodies::Plain(&[]),
                    body_at: 0,
                    count: 0,
                    shared: &[],
                },
            },
        };
        if chunk == 0 {
            view.heads = &view.heads[self.head.heads_bytes as usize..];
            view.body_at = self.head.bodies_bytes as usize;
            view.count -= self.head.records;
        }
        view
    }

    fn summary_of<T>(
        &self,
        chunk: usize,
        sealed: impl FnOnce(&Chunk) -> T,
        open: impl FnOnce(&Summary) -> T,
    ) -> Option<T> {
        match self.sealed.as_ref().and_then(|all| all.get(chunk)) {
            Some(chunk) => Some(sealed(chunk)),
            None => self.open.as_ref().map(|chunk| open(&chunk.summary)),
        }
    }

    pub(super) fn count_of(&self, chunk: usize) -> u32 {
        let count = self
            .summary_of(chunk, |chunk| chunk.count, |open| open.count)
            .unwrap_or(0);
        count - if chunk == 0 { self.head.records } else { 0 }
    }

    pub(super) fn last_seq_of(&self, chunk: usize) -> u64 {
        self.summary_of(chunk, |chunk| chunk.last_seq, |open| open.last_seq)
            .unwrap_or(u64::MAX)
    }

    pub(super) fn calls_bloom_of(&self, chunk: usize) -> u64 {
        self.summary_of(chunk, |chunk| chunk.calls_bloom, |open| open.calls_bloom)
            .unwrap_or(0)
    }

    /// Returns false if certainly no record of the chunk is between these times. (Its earliest and latest time may be those of dead
    /// records.)
    pub(super) fn may_hold_time(&self, chunk: usize, times: &RangeInclusive<i64>) -> bool {
        self.summary_of(
            chunk,
            |chunk| (chunk.min_time_ms, chunk.max_time_ms),
            |open| (open.min_time_ms, open.max_time_ms),
        )
        .is_some_and(|(min_time_ms, max_time_ms)| min_time_ms <= *times.end() && *times.start() <= max_time_ms)
    }

    /// Returns the segment that begins at this chunk number.
    pub(super) fn segment_at(&self, chunk: usize) -> Option<&Segment> {
        let sealed = self.sealed.as_ref()?;
        let offset = chunk.checked_sub(sealed.front.len())?;
        // Counts in a segment include the dead records of a first chunk, so that chunk is read on its own.
        if offset % SEGMENT_CHUNKS != 0 || (chunk == 0 && self.head.records > 0) {
            return None;
        }
        sealed.segments.get(offset / SEGMENT_CHUNKS).map(Arc::as_ref)
    }
}

impl Open {
    /// Removes the dead records before the log's head.
    pub(super) fn drop_dead(&mut self, head: &mut Trimmed) {
        self.heads.drain(..head.heads_bytes as usize);
        self.bodies.drain(..head.bodies_bytes as usize);
        self.summary.count -= head.records;
        *head = Trimmed::default();
    }
}

impl Sealed {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.front.len() + self.segments.len() * SEGMENT_CHUNKS + self.back.len()
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Chunk> {
        if self.segments.is_empty() && self.front.is_empty() {
            return self.back.get(number).map(Arc::as_ref);
        }
        let Some(number) = number.checked_sub(self.front.len()) else {
            return self.front.get(number).map(Arc::as_ref);
        };
        match number.checked_sub(self.segments.len() * SEGMENT_CHUNKS) {
            Some(number) => self.back.get(number).map(Arc::as_ref),
            None => Some(&self.segments[number / SEGMENT_CHUNKS].chunks[number % SEGMENT_CHUNKS]),
        }
    }

    /// Returns the slot of a chunk. If others share its segment, the segment is copied first; its chunks stay shared.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Arc<Chunk>> {
        let Some(number) = number.checked_sub(self.front.len()) else {
            return self.front.get_mut(number);
        };
        match number.checked_sub(self.segments.len() * SEGMENT_CHUNKS) {
            Some(number) => self.back.get_mut(number),
            // Only if the segment belongs to this log alone: memory that others read must not move.
            None => Arc::get_mut(&mut self.segments[number / SEGMENT_CHUNKS])
                .map(|segment| &mut segment.chunks[number % SEGMENT_CHUNKS]),
        }
    }

    pub(super) fn replace(&mut self, number: usize, new: Arc<Chunk>) -> Option<Arc<Chunk>> {
        let in_segments = number
            .checked_sub(self.front.len())
            .filter(|number| *number < self.segments.len() * SEGMENT_CHUNKS);
        if let Some(number) = in_segments {
            let segment = &mut self.segments[number / SEGMENT_CHUNKS];
            let mut chunks = segment.chunks.clone();
            let old = std::mem::replace(&mut chunks[number % SEGMENT_CHUNKS], new);
            *segment = Arc::new(Segment::new(chunks));
            return Some(old);
        }
        self.get_mut(number).map(|slot| std::mem::replace(slot, new))
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Arc<Chunk>> {
        if !self.front.is_empty() {
            self.front.front_mut()
        } else if self.segments.is_empty() {
            self.back.front_mut()
        } else {
            None
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<Arc<Chunk>> {
        if self.front.is_empty() {
            if let Some(segment) = self.segments.pop_front() {
                self.front.extend(segment.chunks.iter().cloned());
            }
        }
        self.front.pop_front().or_else(|| self.back.pop_front())
    }

    pub(super) fn pop_last(&mut self) -> Option<Arc<Chunk>> {
        if self.back.is_empty() {
            if let Some(segment) = self.segments.pop_back() {
                self.back.extend(segment.chunks.iter().cloned());
            }
        }
        self.back.pop_back().or_else(|| self.front.pop_back())
    }
}
