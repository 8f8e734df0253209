//! A sealed chunk: an immutable run of records, shared by reference count between a session, its copies and its snapshots.
//!
//! ```text
//!          data (one allocation)
//! +---------------------+-----------------------------------+      shared: [Shared, ...]
//! | headers             | bodies, one after another:        |      bodies that stand once in the process,
//! | (record.rs), plain  | plain, or one LZ4 block           |      found by the index in their header
//! +---------------------+-----------------------------------+
//! 0               heads_bytes                          data.len()
//! ```
//!
//! Only the bodies are compressed, as one block: neighbouring messages repeat each other, single messages compress badly.

use std::cell::RefCell;
use std::sync::Arc;

use super::record::{self, Base, Head};
use super::shared::Shared;

/// A chunk is sealed before its headers and bodies exceed this, which is one of the allocator's size classes.
///
/// (Small in unit tests, so that they see many chunks.)
pub(super) const CHUNK_BYTES: usize = if cfg!(test) { 320 } else { 4096 };

/// The newest sealed chunk is compressed once the open chunk after it holds this many bytes of bodies, so the newest 2.5 to 6.5 kB of a log
/// stay plain. Measured on recorded conversations: more saves less memory, less makes the newest messages expensive to read.
pub(super) const PLAIN_BYTES: usize = CHUNK_BYTES * 5 / 8;

/// The bytes of a chunk's fields and its reference count, in addition to `data`.
pub(super) const CHUNK_OVERHEAD_BYTES: usize = size_of::<Chunk>() + 16;

#[derive(Debug)]
pub(super) struct Chunk {
    pub base: Base,
    pub last_seq: u64,
    pub min_time_ms: i64,
    pub max_time_ms: i64,
    /// One bit for each call hash in the chunk: searches for an answer's call skip chunks that cannot contain it.
    pub calls_bloom: u64,
    pub count: u32,
    heads_bytes: u32,
    /// Size of the bodies before compression, without shared ones.
    bodies_bytes: u32,
    pub packing: Packing,
    data: Box<[u8]>,
    pub shared: Option<Box<[Shared]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    /// Plain: compression was tried and saved too little.
    Incompressible,
    Lz4,
}

/// The summary of the records in a chunk that is being filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    pub base: Base,
    pub last_seq: u64,
    pub min_time_ms: i64,
    pub max_time_ms: i64,
    pub calls_bloom: u64,
    pub count: u32,
}

impl Summary {
    pub fn new(base: Base) -> Self {
        Summary {
            base,
            last_seq: base.seq,
            min_time_ms: i64::MAX,
            max_time_ms: i64::MIN,
            calls_bloom: 0,
            count: 0,
        }
    }

    #[inline]
    pub fn add(&mut self, seq: u64, time_ms: i64, calls: impl Iterator<Item = u32>) {
        self.last_seq = seq;
        self.min_time_ms = self.min_time_ms.min(time_ms);
        self.max_time_ms = self.max_time_ms.max(time_ms);
        self.count += 1;
        for hash in calls {
            self.calls_bloom |= bloom_bit(hash);
        }
    }
}

#[inline]
pub(super) fn bloom_bit(call_hash: u32) -> u64 {
    1 << (call_hash & 63)
}

/// Working memory for compression, one per thread: allocating it costs a tenth of compressing a chunk. Only its capacity is kept between
/// calls.
#[derive(Default)]
struct Press {
    out: Vec<u8>,
    table: lz4_flex::block::CompressTable,
}

thread_local! {
    static PRESS: RefCell<Press> = RefCell::default();
}

impl Chunk {
    pub fn seal(summary: Summary, heads: &[u8], bodies: &[u8], shared: Vec<Shared>) -> Self {
        let mut data = Vec::with_capacity(heads.len() + bodies.len());
        data.extend_from_slice(heads);
        data.extend_from_slice(bodies);
        Chunk {
            base: summary.base,
            last_seq: summary.last_seq,
            min_time_ms: summary.min_time_ms,
            max_time_ms: summary.max_time_ms,
            calls_bloom: summary.calls_bloom,
            count: summary.count,
            heads_bytes: heads.len() as u32,
            bodies_bytes: bodies.len() as u32,
            packing: Packing::Plain,
            data: data.into_boxed_slice(),
            shared: (!shared.is_empty()).then(|| shared.into_boxed_slice()),
        }
    }

    /// Returns the same records with their bodies as one LZ4 block, if that takes at most 7/8 of their bytes.
    pub fn compressed(&self) -> Option<Chunk> {
        let (heads, bodies) = self.parts();
        let pack = |press: &mut Press| {
            let most_bytes = lz4_flex::block::get_maximum_output_size(bodies.len());
            if press.out.len() < most_bytes {
                press.out.resize(most_bytes, 0);
            }
            let written = lz4_flex::block::compress_into_with_table(bodies, &mut press.out, &mut press.table).ok()?;
            (written * 8 <= bodies.len() * 7).then(|| [heads, &press.out[..written]].concat().into_boxed_slice())
        };
        let data = if bodies.len() <= 2 * CHUNK_BYTES {
            PRESS.with_borrow_mut(pack)
        } else {
            pack(&mut Press::default())
        };
        Some(Chunk {
            packing: Packing::Lz4,
            data: data?,
            shared: self.shared.clone(),
            ..*self
        })
    }

    /// Makes a chunk from what a payload holds; `Log::push_chunk` validates it before use.
    pub fn from_parts(parts: ChunkParts<'_>) -> Option<Chunk> {
        let heads_bytes = u32::try_from(parts.heads.len()).ok()?;
        let mut data = Vec::with_capacity(parts.heads.len() + parts.bodies.len());
        data.extend_from_slice(parts.heads);
        data.extend_from_slice(parts.bodies);
        let mut chunk = Chunk {
            base: parts.base,
            last_seq: parts.base.seq,
            min_time_ms: 0,
            max_time_ms: 0,
            calls_bloom: 0,
            count: 0,
            heads_bytes,
            bodies_bytes: parts.bodies_bytes,
            packing: if parts.compressed { Packing::Lz4 } else { Packing::Plain },
            data: data.into_boxed_slice(),
            shared: (!parts.shared.is_empty()).then(|| parts.shared.into_boxed_slice()),
        };
        let mut summary = Summary::new(chunk.base);
        for head in Heads::new(&chunk.data[..parts.heads.len()], chunk.base) {
            summary.add(head.seq, head.time_ms, head.calls.iter());
        }
        chunk.last_seq = summary.last_seq;
        chunk.min_time_ms = summary.min_time_ms;
        chunk.max_time_ms = summary.max_time_ms;
        chunk.calls_bloom = summary.calls_bloom;
        chunk.count = summary.count;
        Some(chunk)
    }

    #[inline]
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.data.split_at(self.heads_bytes as usize)
    }

    pub fn bodies_bytes(&self) -> u32 {
        self.bodies_bytes
    }

    pub fn heap_bytes(&self) -> usize {
        CHUNK_OVERHEAD_BYTES
            + self.data.len()
            + self.shared.as_ref().map_or(0, |shared| size_of_val::<[Shared]>(shared))
    }

    pub fn view(&self) -> View<'_> {
        let (heads, bodies) = self.parts();
        View {
            base: self.base,
            heads,
            bodies: if self.packing == Packing::Lz4 {
                Bodies::Lz4 {
                    block: bodies,
                    bytes: self.bodies_bytes as usize,
                }
            } else {
                Bodies::Plain(bodies)
            },
            body_at: 0,
            count: self.count,
            shared: self.shared.as_deref().unwrap_or(&[]),
        }
    }

    /// Passes the chunk's bytes to `relocate`, which may move them.
    pub fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>) {
        self.data = relocate(std::mem::take(&mut self.data));
    }
}

/// The fields of one chunk in a payload.
pub(crate) struct ChunkParts<'a> {
    pub base: Base,
    pub heads: &'a [u8],
    pub bodies: &'a [u8],
    pub bodies_bytes: u32,
    pub compressed: bool,
    pub shared: Vec<Shared>,
}

/// A view of the live records of one chunk, open or sealed.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub base: Base,
    /// The headers from the first live one on.
    pub heads: &'a [u8],
    pub bodies: Bodies<'a>,
    /// The offset of the first live body among the bodies.
    pub body_at: usize,
    pub count: u32,
    pub shared: &'a [Shared],
}

#[derive(Clone, Copy)]
pub(crate) enum Bodies<'a> {
    Plain(&'a [u8]),
    Lz4 { block: &'a [u8], bytes: usize },
}

impl<'a> View<'a> {
    #[inline]
    pub fn records(&self) -> Heads<'a> {
        Heads {
            bytes: self.heads,
            at: 0,
            base: self.base,
            body_at: self.body_at,
            next_body_at: self.body_at,
        }
    }

    /// Returns the chunk's bodies, decompressed into `scratch` if necessary.
    #[inline]
    pub fn plain_bodies<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        match self.bodies {
            Bodies::Plain(bodies) => bodies,
            Bodies::Lz4 { .. } => {
                self.unpack(scratch);
                scratch
            }
        }
    }

    /// Decompresses the chunk's bodies into `scratch`.
    pub fn unpack(&self, scratch: &mut Vec<u8>) {
        if let Bodies::Lz4 { block, bytes } = self.bodies {
            scratch.resize(bytes, 0);
            // Validated when the chunk was loaded; a failure here would give empty bodies rather than a crash.
            let written = lz4_flex::block::decompress_into(block, scratch).unwrap_or(0);
            scratch.truncate(written);
        }
    }

    /// Returns one body, given the chunk's plain bodies and the offset of this one.
    #[inline]
    pub fn body<'s>(&self, head: &Head<'_>, body_at: usize, plain: &'s [u8]) -> &'s [u8]
    where
        'a: 's,
    {
        match head.shared {
            None => plain.get(body_at..body_at + head.body_bytes as usize).unwrap_or(&[]),
            Some(index) => self.shared.get(index as usize).map_or(&[], |body| body),
        }
    }
}

/// Iterates over headers, oldest first. Ends early at bytes that are not a header.
pub(super) struct Heads<'a> {
    bytes: &'a [u8],
    at: usize,
    base: Base,
    body_at: usize,
    next_body_at: usize,
}

impl<'a> Heads<'a> {
    pub fn new(bytes: &'a [u8], base: Base) -> Self {
        Heads {
            bytes,
            at: 0,
            base,
            body_at: 0,
            next_body_at: 0,
        }
    }

    /// Returns the offset of the body that belongs to the last header read.
    #[inline]
    pub fn body_at(&self) -> usize {
        self.body_at
    }

    #[inline]
    pub fn skip_records(&mut self, count: u32) {
        for _ in 0..count {
            if self.next().is_none() {
                break;
            }
        }
    }

    /// Moves to the first record whose seq is at least `seq`, parsing no more of the headers than that needs.
    #[inline]
    pub fn skip_before(&mut self, seq: u64) {
        let mut at = self.at;
        while let Some(brief) = record::read_brief(self.bytes, &mut at, self.base).filter(|brief| brief.seq < seq) {
            self.at = at;
            if !brief.is_shared {
                self.next_body_at += brief.body_bytes as usize;
            }
        }
    }

    /// Returns the offsets of the next header and the next body.
    #[inline]
    pub fn next_at(&self) -> (usize, usize) {
        (self.at, self.next_body_at)
    }
}

impl<'a> Iterator for Heads<'a> {
    type Item = Head<'a>;

    #[inline]
    fn next(&mut self) -> Option<Head<'a>> {
        let head = record::read(self.bytes, &mut self.at, self.base)?;
        self.body_at = self.next_body_at;
        if head.shared.is_none() {
            self.next_body_at += head.body_bytes as usize;
        }
        Some(head)
    }
}

/// `SEGMENT_CHUNKS` sealed chunks under one reference, so that sharing a long log costs one reference for each 64 chunks.
#[derive(Debug)]
pub(super) struct Segment {
    pub chunks: Box<[Arc<Chunk>]>,
    pub count: u64,
}

pub(super) const SEGMENT_CHUNKS: usize = if cfg!(test) { 4 } else { 64 };

impl Segment {
    pub fn new(chunks: Box<[Arc<Chunk>]>) -> Self {
        let count = chunks.iter().map(|chunk| u64::from(chunk.count)).sum();
        Segment { chunks, count }
    }
}
