//! Finding the position of an index, a seq or a call.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::chunk::{bloom_bit, SEGMENT_CHUNKS};
use super::parts::{Log, Position};
use super::record::Head;

impl Log {
    /// Returns the position of the `index`-th live record, counted from 0; past the end if there are fewer.
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

    /// Returns false if certainly no record has a greater seq. Cost: O(1).
    #[inline]
    pub fn may_hold_after(&self, seq: u64) -> bool {
        self.count > 0 && self.last_seq_of(self.chunks() - 1) > seq
    }

    /// Returns the first chunk with a record whose seq is at least `seq`; past the end if there is none. Cost: O(log chunks).
    pub(super) fn chunk_of_seq(&self, seq: u64) -> usize {
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

    /// Returns the position of the first live record whose seq is at least `seq`. Cost: O(log chunks + records of a chunk).
    pub fn position_of_seq(&self, seq: u64) -> Position {
        let chunk = self.chunk_of_seq(seq);
        if chunk == self.chunks() {
            return Position { chunk, record: 0 };
        }
        let record = self.view(chunk).records().take_while(|head| head.seq < seq).count() as u32;
        Position { chunk, record }
    }

    /// Returns what `read` makes of the record with this seq and its body; `None` if there is no such record.
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

    /// Returns seq and exchange of the newest record that makes a call with this id.
    ///
    /// Cost: O(1) if the call is near the end, as is usual; else O(chunks), of which only those are read whose call hashes may contain it.
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
            // Different ids may have equal hashes; the body decides.
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
}
