//! Reading: scans in both directions, with bodies that are decompressed on demand.

use std::ops::{ControlFlow, RangeInclusive};

use smallvec::SmallVec;

use super::chunk::{Bodies as PackedBodies, Heads, View};
use super::parts::{Log, Position};
use super::record::Head;

impl Log {
    /// Calls `each` with every record from `from` on, oldest first, until it breaks.
    #[inline]
    pub fn scan<B>(
        &self,
        from: Position,
        each: impl FnMut(&Head<'_>, &mut Body<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.scan_where(from.chunk, |records| records.skip_records(from.record), |_| true, each)
    }

    /// Calls `each` with every record whose seq is at least `seq`, oldest first, until it breaks. Cost: O(log chunks + records of a chunk +
    /// given).
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

    /// Calls `each` with every record between these times, both included, in ascending or descending order of seqs, until it breaks.
    ///
    /// Cost: O(chunks + records of the chunks whose times overlap).
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

    /// Calls `each` with every record before `end`, newest first, until it breaks. Reads only the bodies that `each` asks for.
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
}

/// A body that is read, and whose chunk is decompressed, only on demand.
pub struct Body<'a> {
    pub(super) view: View<'a>,
    pub(super) scratch: &'a mut Vec<u8>,
    /// Whether the scratch buffer holds this chunk's bodies.
    unpacked: bool,
    pub(super) bytes: u32,
    pub(super) shared: Option<u32>,
    pub(super) at: usize,
}

impl<'a> Body<'a> {
    /// Makes a reader for a chunk's bodies; `point_to` then selects one.
    #[inline(always)]
    pub(super) fn of(view: View<'a>, scratch: &'a mut Vec<u8>) -> Self {
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
            let body = self.view.shared.get(index as usize);
            debug_assert!(body.is_some(), "a shared body is missing");
            return body.map_or(&[], |body| body);
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
        let body = bodies.get(self.at..self.at + self.bytes as usize);
        debug_assert!(body.is_some(), "a body is cut off, or its chunk did not decompress");
        body.unwrap_or(&[])
    }
}
