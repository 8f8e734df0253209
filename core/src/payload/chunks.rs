//! Encodes and decodes the chunks of logs as blobs of a payload, drawn in [`crate::payload`], including the chunks that checkpoints share.

use std::collections::HashMap;

use super::format1::session::ChunkRun;
use super::{take_sized, PayloadError};
use crate::log::{ChunkBase, ChunkParts, Head, Log, Shared, StoredChunk, TakenChunk, TakenSegments};
use crate::text::time::is_time;
use crate::text::varint;

const LZ4: u8 = 1;

/// The numbers of the message chunks written so far, counted from 1.
#[derive(Default)]
pub(crate) struct ChunkNumbers {
    by_identity: HashMap<usize, u64>,
    last: u64,
}

impl ChunkNumbers {
    pub fn add(&mut self, chunk: &StoredChunk<'_>) {
        self.last += 1;
        if let Some(identity) = chunk.identity {
            self.by_identity.insert(identity, self.last);
        }
    }

    fn get(&self, chunk: &StoredChunk<'_>) -> Option<u64> {
        self.by_identity.get(&chunk.identity?).copied()
    }
}

/// Returns a checkpoint's log as runs of chunks that were written before and of its own ones.
pub(crate) fn chunk_runs<'a>(
    log: &'a Log,
    numbers: &mut ChunkNumbers,
    own: &mut Vec<StoredChunk<'a>>,
) -> Vec<ChunkRun> {
    let mut runs: Vec<ChunkRun> = Vec::new();
    log.for_each_chunk(|chunk| {
        let known = numbers.get(&chunk);
        match (runs.last_mut(), known) {
            (Some(ChunkRun(first, count)), Some(number)) if *first > 0 && *first + *count == number => *count += 1,
            (Some(ChunkRun(0, count)), None) => *count += 1,
            _ => runs.push(ChunkRun(known.unwrap_or(0), 1)),
        }
        if known.is_none() {
            numbers.add(&chunk);
            own.push(chunk);
        }
    });
    runs
}

pub(crate) fn write_chunk(bytes: &mut Vec<u8>, chunk: &StoredChunk<'_>) {
    bytes.clear();
    bytes.push(if chunk.compressed { LZ4 } else { 0 });
    varint::put(bytes, chunk.base.seq);
    varint::put(bytes, varint::zigzag(chunk.base.time_ms));
    varint::put(bytes, u64::from(chunk.body_at));
    varint::put(bytes, chunk.heads.len() as u64);
    varint::put(bytes, u64::from(chunk.bodies_bytes));
    varint::put(bytes, chunk.shared.len() as u64);
    for body in chunk.shared {
        varint::put(bytes, body.len() as u64);
        bytes.extend_from_slice(body);
    }
    bytes.extend_from_slice(chunk.heads);
    bytes.extend_from_slice(chunk.bodies);
}

/// Reads logs, blob by blob.
pub(crate) struct ChunkReader<'n, N> {
    next: &'n mut N,
    /// The last seq of the session.
    session_seq: u64,
    /// The message chunks loaded so far, in the order of their numbers; `None` for one that begins with dead bytes.
    taken: Vec<Option<TakenChunk>>,
    segments: TakenSegments,
}

impl<'n, N> ChunkReader<'n, N> {
    pub fn new(next: &'n mut N, session_seq: u64) -> Self {
        ChunkReader {
            next,
            session_seq,
            taken: Vec::new(),
            segments: TakenSegments::default(),
        }
    }
}

impl<N: FnMut() -> Option<B>, B: AsRef<[u8]>> ChunkReader<'_, N> {
    /// Decodes one log. `check` validates a body; `is_message` says that checkpoints may share its chunks.
    pub fn log(&mut self, runs: &[ChunkRun], check: fn(&[u8]) -> bool, is_message: bool) -> Result<Log, PayloadError> {
        const SPOILED: PayloadError = PayloadError("an inconsistent chunk");
        let mut log = Log::new();
        for &ChunkRun(number, count) in runs {
            for i in 0..count {
                if number > 0 {
                    let index = usize::try_from(number - 1 + i).ok();
                    let taken = index
                        .and_then(|index| self.taken.get(index)?.as_ref())
                        .ok_or(PayloadError("a reference to a chunk that does not exist"))?;
                    log.push_taken_chunk(taken, &mut self.segments).ok_or(SPOILED)?;
                    continue;
                }
                let blob = (self.next)().ok_or(PayloadError("a chunk is missing"))?;
                let session_seq = self.session_seq;
                let (taken, is_whole) = decode_chunk(&mut log, blob.as_ref(), &mut self.segments, |head, body| {
                    plausible(head, session_seq) && check(body)
                })
                .ok_or(SPOILED)?;
                if is_message {
                    self.taken.push(is_whole.then_some(taken));
                }
            }
        }
        Ok(log)
    }
}

/// Appends a chunk to the log; returns it, and whether all of it is live.
fn decode_chunk(
    log: &mut Log,
    blob: &[u8],
    segments: &mut TakenSegments,
    check: impl FnMut(&Head<'_>, &[u8]) -> bool,
) -> Option<(TakenChunk, bool)> {
    let (&flags, bytes) = blob.split_first()?;
    if flags & !LZ4 != 0 {
        return None;
    }
    let mut at = 0;
    let seq = varint::get(bytes, &mut at)?;
    let time_ms = varint::unzigzag(varint::get(bytes, &mut at)?);
    let body_at = u32::try_from(varint::get(bytes, &mut at)?).ok()?;
    let heads_bytes = usize::try_from(varint::get(bytes, &mut at)?).ok()?;
    let bodies_bytes = u32::try_from(varint::get(bytes, &mut at)?).ok()?;
    let shared_count = varint::get(bytes, &mut at)?;
    let mut shared = Vec::new();
    for _ in 0..shared_count {
        shared.push(Shared::adopt(take_sized(bytes, &mut at)?));
    }
    let heads = bytes.get(at..at.checked_add(heads_bytes)?)?;
    let bodies = &bytes[at + heads_bytes..];
    let base = ChunkBase { seq, time_ms };
    let parts = ChunkParts {
        base,
        heads,
        bodies,
        bodies_bytes,
        compressed: flags & LZ4 != 0,
        shared,
    };
    log.push_chunk(parts, body_at, segments, check)
        .map(|taken| (taken, body_at == 0))
}

fn plausible(head: &Head<'_>, last_seq: u64) -> bool {
    (1..=last_seq).contains(&head.seq) && is_time(head.time_ms)
}
