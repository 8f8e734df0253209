//! An append-only log of records in chunks.
//!
//! ```text
//!   oldest                                                                     newest
//!  +--------------------+  +-----------------------------+  +--------------------+  +--------+
//!  | front: chunks being|  | segments: 64 sealed chunks  |  | back: sealed chunks|  | open   |
//!  | trimmed, < 64      |  | each, one reference a piece |  | < 128              |  | chunk  |
//!  +--------------------+  +-----------------------------+  +--------------------+  +--------+
//!    ^ head: the first chunk's dead records are skipped       ^ LZ4 but for the newest
//! ```
//!
//! - Appends go to the open chunk, which is plain and belongs to this log alone. When it is full it is sealed: immutable, shared
//!   by reference count with copies of the log. It is compressed when enough newer bytes stand plain behind it.
//! - Trimming moves the head past records and drops a chunk when its last record is passed; a plain first chunk that is more
//!   than half dead is cut to what lives.
//! - Copying a log copies the open chunk and one reference for each segment and each chunk in front and back: its cost does not
//!   grow with the bytes.
//!
//! Seqs grow along the log, times need not.

mod chunk;
mod record;
mod shared;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::{ControlFlow, RangeInclusive};
use std::ptr;
use std::sync::Arc;

use smallvec::SmallVec;

use chunk::{bloom_bit, Chunk, Heads, Packing, Segment, Summary, View, CHUNK_BYTES, PLAIN_BYTES, SEGMENT_CHUNKS};
pub(crate) use chunk::{Bodies as PackedBodies, ChunkParts};
pub(crate) use record::Base as ChunkBase;
pub use record::{CallHashes, Entry, Head};
pub(crate) use shared::Shared;

type Chunks = VecDeque<Arc<Chunk>>;

#[derive(Debug, Default)]
pub struct Log {
    open: Option<Box<Open>>,
    sealed: Option<Box<Sealed>>,
    head: Trimmed,
    count: u64,
    tokens: u64,
    body_bytes: u64,
    /// Heap bytes of the chunks, kept up to date with every change: see [`Log::heap_bytes`].
    heap_bytes: usize,
}

/// How far the first chunk is dead.
#[derive(Debug, Default, Clone, Copy)]
struct Trimmed {
    records: u32,
    heads_bytes: u32,
    bodies_bytes: u32,
}

#[derive(Debug, Default, Clone)]
struct Sealed {
    front: Chunks,
    segments: VecDeque<Arc<Segment>>,
    back: Chunks,
}

/// The chunk that takes appends.
#[derive(Debug, Clone)]
struct Open {
    heads: Vec<u8>,
    bodies: Vec<u8>,
    shared: Vec<Shared>,
    summary: Summary,
}

impl Open {
    fn heap_bytes(&self) -> usize {
        size_of::<Open>()
            + self.heads.capacity()
            + self.bodies.capacity()
            + self.shared.capacity() * size_of::<Shared>()
    }
}

/// The oldest record of a log, as far as trimming goes by it.
#[derive(Debug, Clone, Copy)]
pub struct Front {
    pub seq: u64,
    pub root: Option<u64>,
    pub makes_calls: bool,
    tokens: u32,
    body_bytes: u32,
    heads_at: u32,
    bodies_at: u32,
    is_last_of_chunk: bool,
}

/// A place in a log: a record of a chunk, both counted from the oldest live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    chunk: usize,
    record: u32,
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

    /// The bytes of all live bodies as they came in.
    #[inline]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// What the log holds on the heap, sealed chunks counted in full also where others share them, bodies that stand once in the
    /// process by their reference only.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Chunks, the open one included.
    #[inline]
    pub fn chunks(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.len()) + usize::from(self.open.is_some())
    }

    // ---- appending --------------------------------------------------------------------------------------------------

    /// Appends a record whose seq is above all others. A chunk that is sealed by it and holds at least `compress_after_bytes` may
    /// be compressed later; 0 is never.
    ///
    /// Cost: O(bytes of the record), sealing and compression spread over the chunk's records.
    pub fn push(&mut self, entry: &Entry<'_>, compress_after_bytes: u32) {
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

    fn seal(&mut self, compress_after_bytes: u32) {
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
        // After a large message the chunk before may not have been compressed yet.
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

    /// Compresses a chunk of `back`. A first chunk that is being trimmed is left alone: it is about to go.
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

    // ---- trimming ---------------------------------------------------------------------------------------------------

    /// The oldest live record.
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

    /// Drops the oldest live record, which `front` has just shown.
    ///
    /// Cost: O(1), the cutting of a half-dead chunk spread over its records.
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

    /// The first chunk's records are all dead: drops it, and those after it that hold none.
    fn drop_first_chunk(&mut self) {
        if self.count == 0 {
            // The open chunk's buffers go too: an emptied log costs nothing.
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

    /// Cuts a plain first chunk that is this log's own down to its live records, when more than half of it is dead.
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

    /// Drops every record behind a seq; returns the greatest seq that went. Cost: O(records dropped + bytes of a chunk).
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

    // ---- finding ----------------------------------------------------------------------------------------------------

    /// The place of the `index`-th live record, counted from 0; past the end if there are not so many.
    ///
    /// Cost: O(segments + 192), from the nearer end.
    pub fn position_of_index(&self, index: u64) -> Position {
        if index >= self.count {
            return Position {
                chunk: self.chunks(),
                record: 0,
            };
        }
        if index > self.count / 2 {
            let mut from_end = self.count - index;
            for chunk in (0..self.chunks()).rev() {
                let count = u64::from(self.count_of(chunk));
                if from_end <= count {
                    return Position {
                        chunk,
                        record: (count - from_end) as u32,
                    };
                }
                from_end -= count;
            }
            return Position::START;
        }
        let mut left = index;
        let mut chunk = 0;
        while chunk < self.chunks() {
            if let Some(segment) = self.segment_at(chunk) {
                if left >= segment.count {
                    left -= segment.count;
                    chunk += SEGMENT_CHUNKS;
                    continue;
                }
            }
            let count = u64::from(self.count_of(chunk));
            if left < count {
                break;
            }
            left -= count;
            chunk += 1;
        }
        Position {
            chunk,
            record: left as u32,
        }
    }

    /// False says that no record's seq is above this one. Cost: O(1).
    #[inline]
    pub fn may_hold_after(&self, seq: u64) -> bool {
        self.count > 0 && self.last_seq_of(self.chunks() - 1) > seq
    }

    /// The first chunk that holds a record whose seq is at least `seq`; past the end if there is none. Cost: O(log chunks).
    fn chunk_of_seq(&self, seq: u64) -> usize {
        let mut low = 0;
        let mut high = self.chunks();
        while low < high {
            let middle = (low + high) / 2;
            if self.last_seq_of(middle) < seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The place of the first live record whose seq is at least `seq`. Cost: O(log chunks + records of a chunk).
    pub fn position_of_seq(&self, seq: u64) -> Position {
        let chunk = self.chunk_of_seq(seq);
        if chunk == self.chunks() {
            return Position { chunk, record: 0 };
        }
        let record = self.view(chunk).records().take_while(|head| head.seq < seq).count() as u32;
        Position { chunk, record }
    }

    /// The record of that seq, with its body copied out.
    pub fn get<T>(&self, seq: u64, read: impl FnOnce(&Head<'_>, &[u8]) -> T) -> Option<T> {
        let mut read = Some(read);
        let flow = self.scan_from_seq(seq, |head, body| match read.take() {
            Some(read) if head.seq == seq => ControlFlow::Break(Some(read(head, body.get()))),
            _ => ControlFlow::Break(None),
        });
        match flow {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(()) => None,
        }
    }

    /// The newest record that makes a call of that id.
    ///
    /// Cost: O(1) where the call stands near the end, as it does; else O(chunks), of which only those are read whose call hashes may
    /// hold it.
    pub fn find_call(&self, id: &str, hash: u32) -> Option<(u64, u64)> {
        let bit = bloom_bit(hash);
        let mut scratch = Vec::new();
        for chunk in (0..self.chunks()).rev() {
            if self.calls_bloom_of(chunk) & bit == 0 {
                continue;
            }
            let view = self.view(chunk);
            let mut candidates: SmallVec<[(Head<'_>, usize); 4]> = SmallVec::new();
            let mut records = view.records();
            while let Some(head) = records.next() {
                if head.makes_calls() && head.calls.iter().any(|call| call == hash) {
                    candidates.push((head, records.body_at()));
                }
            }
            if candidates.is_empty() {
                continue;
            }
            // Hashes may be equal where ids are not; the body decides.
            let plain = view.plain_bodies(&mut scratch);
            for (head, body_at) in candidates.iter().rev() {
                if crate::body::calls_of(view.body(head, *body_at, plain))
                    .iter()
                    .any(|call| call == id)
                {
                    return Some((head.seq, head.exchange()));
                }
            }
        }
        None
    }

    // ---- reading ----------------------------------------------------------------------------------------------------

    /// Gives every record from `from` on, oldest first, until told to stop.
    #[inline]
    pub fn scan<B>(
        &self,
        from: Position,
        each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.scan_where(from.chunk, |records| records.skip_records(from.record), |_| true, each)
    }

    /// Gives every record whose seq is at least `seq`, oldest first, until told to stop. Cost: O(log chunks + records of a chunk + given).
    #[inline]
    pub fn scan_from_seq<B>(
        &self,
        seq: u64,
        each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.scan_where(
            self.chunk_of_seq(seq),
            |records| records.skip_before(seq),
            |_| true,
            each,
        )
    }

    /// Gives every record from between these times, both included, in the order of the seqs or against it, until told to stop.
    ///
    /// Cost: O(chunks + records of the chunks whose times reach into these).
    pub fn scan_times<B>(
        &self,
        times: &RangeInclusive<i64>,
        rev: bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let may_hold = |chunk| self.may_hold_time(chunk, times);
        let inside = |head: &Head<'_>, body: &mut Body<'_>| match times.contains(&head.time_ms) {
            true => each(head, body),
            false => ControlFlow::Continue(()),
        };
        if rev {
            self.scan_rev_where(Position::END, may_hold, inside)
        } else {
            self.scan_where(0, |_| {}, may_hold, inside)
        }
    }

    #[inline]
    fn scan_where<B>(
        &self,
        first: usize,
        skip: impl Fn(&mut Heads<'_>),
        is_wanted: impl Fn(usize) -> bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut scratch = Vec::new();
        for chunk in (first..self.chunks()).filter(|chunk| is_wanted(*chunk)) {
            let view = self.view(chunk);
            let mut body = Body::of(view, &mut scratch);
            let mut records = view.records();
            if chunk == first {
                skip(&mut records);
            }
            while let Some(head) = records.next() {
                body.point_to(&head, records.body_at());
                each(&head, &mut body)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Gives every record before `end`, newest first, until told to stop. Bodies that are not asked for are not read.
    pub fn scan_rev<B>(
        &self,
        end: Position,
        each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.scan_rev_where(end, |_| true, each)
    }

    #[inline]
    fn scan_rev_where<B>(
        &self,
        end: Position,
        is_wanted: impl Fn(usize) -> bool,
        mut each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut scratch = Vec::new();
        let last = (end.chunk + 1).min(self.chunks());
        for chunk in (0..last).rev().filter(|chunk| is_wanted(*chunk)) {
            let view = self.view(chunk);
            let mut records = view.records();
            let mut heads: SmallVec<[(Head<'_>, usize); 24]> = SmallVec::new();
            while let Some(head) = records.next() {
                if chunk == end.chunk && heads.len() == end.record as usize {
                    break;
                }
                heads.push((head, records.body_at()));
            }
            let mut body = Body::of(view, &mut scratch);
            for (head, at) in heads.iter().rev() {
                body.point_to(head, *at);
                each(head, &mut body)?;
            }
        }
        ControlFlow::Continue(())
    }

    // ---- changing what stands in the middle ------------------------------------------------------------------------

    /// Removes the records of these seqs, which are in ascending order; returns how many stood there.
    ///
    /// Cost: O(records removed x bytes of a chunk): each chunk that holds one is written anew.
    pub fn remove(&mut self, seqs: &[u64]) -> u64 {
        let before = self.count;
        self.rewrite(seqs, &mut |_| None);
        before - self.count
    }

    /// Puts another body in place of a record's, with the token count it is to have. Cost: O(bytes of a chunk).
    pub fn replace(&mut self, seq: u64, body: &[u8], tokens: u32) {
        self.rewrite(&[seq], &mut |_| Some((body, tokens)));
    }

    /// Writes each chunk that holds one of `seqs` anew, without those records or with other bodies for them.
    fn rewrite<'b>(&mut self, seqs: &[u64], replacement: &mut dyn FnMut(u64) -> Option<(&'b [u8], u32)>) {
        let mut rest = seqs;
        while let Some(&seq) = rest.first() {
            let chunk = self.position_of_seq(seq).chunk;
            if chunk >= self.chunks() {
                break;
            }
            let last_seq = self.last_seq_of(chunk);
            let here = rest.iter().take_while(|&&seq| seq <= last_seq).count();
            self.rewrite_chunk(chunk, &rest[..here], replacement);
            rest = &rest[here..];
        }
        self.drop_empty_ends();
    }

    fn rewrite_chunk<'b>(
        &mut self,
        chunk: usize,
        seqs: &[u64],
        replacement: &mut dyn FnMut(u64) -> Option<(&'b [u8], u32)>,
    ) {
        let view = self.view(chunk);
        let mut scratch = Vec::new();
        let plain = view.plain_bodies(&mut scratch);
        let mut heads = Vec::with_capacity(view.heads.len() + 8);
        let mut bodies = Vec::with_capacity(plain.len());
        let mut shared = Vec::new();
        let mut summary = Summary::new(view.base);
        let (mut tokens, mut body_bytes, mut touched) = (0i64, 0i64, false);
        let mut records = view.records();
        while let Some(head) = records.next() {
            let old = view.body(&head, records.body_at(), plain);
            let mut kept = (old, head.tokens);
            if seqs.binary_search(&head.seq).is_ok() {
                touched = true;
                tokens -= i64::from(head.tokens);
                body_bytes -= old.len() as i64;
                match replacement(head.seq) {
                    Some(new) => kept = new,
                    None => continue,
                }
                tokens += i64::from(kept.1);
                body_bytes += kept.0.len() as i64;
            }
            let calls: SmallVec<[u32; 4]> = head.calls.iter().collect();
            let entry = Entry {
                seq: head.seq,
                time_ms: head.time_ms,
                tokens: kept.1,
                role: &head.role,
                root: head.root,
                calls: &calls,
                body: kept.0,
            };
            // A body that was shared stays so; one that is put in its place is this log's own.
            let index = head
                .shared
                .filter(|_| std::ptr::eq(kept.0, old))
                .and_then(|index| view.shared.get(index as usize))
                .map(|body| {
                    shared.push(body.clone());
                    shared.len() as u32 - 1
                });
            record::write(&mut heads, view.base, &entry, index);
            if index.is_none() {
                bodies.extend_from_slice(kept.0);
            }
            summary.add(head.seq, head.time_ms, head.calls.iter());
        }
        if !touched {
            return;
        }
        // Seqs are searched for by the chunks' last ones, which must not move behind a neighbour's.
        summary.last_seq = self.last_seq_of(chunk);
        let was_lz4 = matches!(view.bodies, PackedBodies::Lz4 { .. });
        let removed = i64::from(view.count) - i64::from(summary.count);
        self.count = self.count.wrapping_add_signed(-removed);
        self.tokens = self.tokens.wrapping_add_signed(tokens);
        self.body_bytes = self.body_bytes.wrapping_add_signed(body_bytes);
        if chunk == 0 {
            self.head = Trimmed::default();
        }
        if chunk + 1 == self.chunks() && self.open.is_some() {
            if let Some(open) = &mut self.open {
                self.heap_bytes -= open.heap_bytes();
                **open = Open {
                    heads,
                    bodies,
                    shared,
                    summary,
                };
                self.heap_bytes += open.heap_bytes();
            }
            return;
        }
        let mut new = Chunk::seal(summary, &heads, &bodies, shared);
        if was_lz4 {
            new = new.compressed().unwrap_or(new);
        }
        let Some(sealed) = &mut self.sealed else { return };
        self.heap_bytes += new.heap_bytes();
        let old = sealed.replace(chunk, Arc::new(new));
        self.heap_bytes -= old.map_or(0, |old| old.heap_bytes());
    }

    /// After a removal, the first chunk holds a live record again, or the log is empty.
    fn drop_empty_ends(&mut self) {
        if self.count == 0 || self.view(0).count == 0 {
            self.drop_first_chunk();
        }
    }

    // ---- chunks by number -------------------------------------------------------------------------------------------

    #[inline]
    fn view(&self, chunk: usize) -> View<'_> {
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

    fn count_of(&self, chunk: usize) -> u32 {
        let count = self
            .summary_of(chunk, |chunk| chunk.count, |open| open.count)
            .unwrap_or(0);
        count - if chunk == 0 { self.head.records } else { 0 }
    }

    fn last_seq_of(&self, chunk: usize) -> u64 {
        self.summary_of(chunk, |chunk| chunk.last_seq, |open| open.last_seq)
            .unwrap_or(u64::MAX)
    }

    fn calls_bloom_of(&self, chunk: usize) -> u64 {
        self.summary_of(chunk, |chunk| chunk.calls_bloom, |open| open.calls_bloom)
            .unwrap_or(0)
    }

    /// False says that no record of the chunk is from between these times. (Its earliest and latest may be those of records that are dead.)
    fn may_hold_time(&self, chunk: usize, times: &RangeInclusive<i64>) -> bool {
        self.summary_of(
            chunk,
            |chunk| (chunk.min_time_ms, chunk.max_time_ms),
            |open| (open.min_time_ms, open.max_time_ms),
        )
        .is_some_and(|(min_time_ms, max_time_ms)| min_time_ms <= *times.end() && *times.start() <= max_time_ms)
    }

    /// The segment that begins at this chunk number.
    fn segment_at(&self, chunk: usize) -> Option<&Segment> {
        let sealed = self.sealed.as_ref()?;
        let offset = chunk.checked_sub(sealed.front.len())?;
        // A first chunk with dead records counts them in its segment; it is looked at by itself.
        if offset % SEGMENT_CHUNKS != 0 || (chunk == 0 && self.head.records > 0) {
            return None;
        }
        sealed.segments.get(offset / SEGMENT_CHUNKS).map(Arc::as_ref)
    }

    // ---- payloads and memory ----------------------------------------------------------------------------------------

    /// What the log holds on the heap of chunks that are not in `seen`, which they are put into.
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

    /// Gives each chunk's live records as they are stored: what a payload keeps.
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

    /// Adds a chunk from a payload behind all others, after checking every header and body of it with `check`.
    /// `body_at` is where the first body begins: a first chunk may have been trimmed.
    pub(crate) fn push_chunk(
        &mut self,
        parts: ChunkParts<'_>,
        body_at: u32,
        segments: &mut TakenSegments,
        mut check: impl FnMut(&Head<'_>, &[u8]) -> bool,
    ) -> Option<TakenChunk> {
        // LZ4 cannot expand beyond this: a larger claim is false, and no buffer is made for it.
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

    /// Adds a chunk that another log has taken from the same payload. Its first body must begin at its beginning.
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

    /// Gives the bytes of sealed chunks `from..` that are this log's own, and the open chunk's, to `relocate`, which may put them elsewhere;
    /// returns the chunk to go on with when `relocate` had enough, or `None` at the end.
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

/// One chunk as [`Log::for_each_chunk`] shows it.
pub(crate) struct StoredChunk<'a> {
    pub base: ChunkBase,
    pub heads: &'a [u8],
    pub bodies: &'a [u8],
    pub bodies_bytes: u32,
    pub body_at: u32,
    pub compressed: bool,
    pub shared: &'a [Shared],
    /// Where it stands in memory, if it is sealed and all of it is live: two logs that show the same share the chunk.
    pub identity: Option<usize>,
}

/// A chunk that one log has taken from a payload, for others that share it.
#[derive(Debug, Clone)]
pub(crate) struct TakenChunk {
    chunk: Arc<Chunk>,
    first_seq: u64,
    tokens: u64,
    body_bytes: u64,
}

/// The segments that logs of one payload are made of, so that those that share their chunks share them too: a reference a chunk and
/// checkpoint would be many times the payload.
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

/// A body that is fetched, and its chunk decompressed, only when it is asked for.
pub struct Body<'a> {
    view: View<'a>,
    scratch: &'a mut Vec<u8>,
    /// The scratch holds this chunk's bodies.
    unpacked: bool,
    bytes: u32,
    shared: Option<u32>,
    at: usize,
}

impl<'a> Body<'a> {
    /// None of the chunk's yet.
    #[inline(always)]
    fn of(view: View<'a>, scratch: &'a mut Vec<u8>) -> Self {
        Body {
            view,
            scratch,
            unpacked: false,
            bytes: 0,
            shared: None,
            at: 0,
        }
    }

    #[inline(always)]
    fn point_to(&mut self, head: &Head<'_>, body_at: usize) {
        self.at = body_at;
        self.bytes = head.body_bytes;
        self.shared = head.shared;
    }

    #[inline]
    pub fn get(&mut self) -> &[u8] {
        if let Some(index) = self.shared {
            return self.view.shared.get(index as usize).map_or(&[], |body| body);
        }
        let bodies = match self.view.bodies {
            PackedBodies::Plain(bodies) => bodies,
            PackedBodies::Lz4 { .. } => {
                if !self.unpacked {
                    self.view.unpack(self.scratch);
                    self.unpacked = true;
                }
                &*self.scratch
            }
        };
        bodies.get(self.at..self.at + self.bytes as usize).unwrap_or(&[])
    }
}

impl Open {
    /// Forgets the dead records before the log's head.
    fn drop_dead(&mut self, head: &mut Trimmed) {
        self.heads.drain(..head.heads_bytes as usize);
        self.bodies.drain(..head.bodies_bytes as usize);
        self.summary.count -= head.records;
        *head = Trimmed::default();
    }
}

impl Sealed {
    #[inline]
    fn len(&self) -> usize {
        self.front.len() + self.segments.len() * SEGMENT_CHUNKS + self.back.len()
    }

    #[inline]
    fn get(&self, number: usize) -> Option<&Chunk> {
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

    /// The slot of a chunk. A segment that others share is copied first: its chunks stay shared.
    fn get_mut(&mut self, number: usize) -> Option<&mut Arc<Chunk>> {
        let Some(number) = number.checked_sub(self.front.len()) else {
            return self.front.get_mut(number);
        };
        match number.checked_sub(self.segments.len() * SEGMENT_CHUNKS) {
            Some(number) => self.back.get_mut(number),
            // Only a segment of this log's own: memory that others read is not moved under them.
            None => Arc::get_mut(&mut self.segments[number / SEGMENT_CHUNKS])
                .map(|segment| &mut segment.chunks[number % SEGMENT_CHUNKS]),
        }
    }

    fn replace(&mut self, number: usize, new: Arc<Chunk>) -> Option<Arc<Chunk>> {
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

    fn first_mut(&mut self) -> Option<&mut Arc<Chunk>> {
        if !self.front.is_empty() {
            self.front.front_mut()
        } else if self.segments.is_empty() {
            self.back.front_mut()
        } else {
            None
        }
    }

    fn pop_first(&mut self) -> Option<Arc<Chunk>> {
        if self.front.is_empty() {
            if let Some(segment) = self.segments.pop_front() {
                self.front.extend(segment.chunks.iter().cloned());
            }
        }
        self.front.pop_front().or_else(|| self.back.pop_front())
    }

    fn pop_last(&mut self) -> Option<Arc<Chunk>> {
        if self.back.is_empty() {
            if let Some(segment) = self.segments.pop_back() {
                self.back.extend(segment.chunks.iter().cloned());
            }
        }
        self.back.pop_back().or_else(|| self.front.pop_back())
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

/// Grows by the allocator's size classes, so that little of a chunk stands empty. The chunks after a log's first are about to be filled
/// and grow in fewer steps: each costs as much as a tenth of an append.
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

#[cfg(test)]
mod tests;
