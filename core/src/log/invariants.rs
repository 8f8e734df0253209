//! The invariants of a log, for tests to check after every operation.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::chunk::{bloom_bit, Chunk, SEGMENT_CHUNKS};
use super::parts::{Log, Position, Sealed};
use super::shared::Shared;

impl Log {
    /// Panics if an invariant is violated.
    pub(crate) fn check_invariants(&self) {
        let (mut count, mut tokens, mut body_bytes, mut last_seq) = (0, 0, 0, 0);
        for chunk in 0..self.chunks() {
            let view = self.view(chunk);
            let mut live = 0;
            for head in view.records() {
                assert!(head.seq > last_seq, "seq {} stands behind {last_seq}", head.seq);
                assert!(
                    head.root.is_none_or(|root| root < head.seq),
                    "message {} belongs to an exchange that begins behind it",
                    head.seq
                );
                for hash in head.calls.iter() {
                    assert!(
                        self.calls_bloom_of(chunk) & bloom_bit(hash) != 0,
                        "no answer would find the call of message {}",
                        head.seq
                    );
                }
                last_seq = head.seq;
                live += 1;
                tokens += u64::from(head.tokens);
                body_bytes += u64::from(head.body_bytes);
            }
            assert_eq!(live, view.count, "headers of chunk {chunk}");
            assert!(
                last_seq <= self.last_seq_of(chunk),
                "chunk {chunk} says it ends earlier"
            );
            assert!(
                live > 0 || self.count == 0 || chunk > 0,
                "a first chunk without a live record would hide the others"
            );
            count += u64::from(live);
            view.shared.iter().for_each(Shared::check_invariants);
        }
        assert_eq!(
            (count, tokens, body_bytes),
            (self.count, self.tokens, self.body_bytes),
            "count, tokens and body bytes"
        );
        assert_eq!(self.heap_bytes, self.counted_heap_bytes(), "heap bytes");
        if let Some(sealed) = &self.sealed {
            assert!(sealed.len() > 0, "an empty list of sealed chunks costs memory");
            assert!(sealed.front.len() < SEGMENT_CHUNKS && sealed.back.len() < 2 * SEGMENT_CHUNKS);
            for segment in &sealed.segments {
                let chunks = segment.chunks.iter().map(|chunk| u64::from(chunk.count));
                assert_eq!(segment.count, chunks.sum::<u64>(), "records of a segment");
            }
        }
        let mut bodies = 0;
        let _ = self.scan(Position::START, |head, body| {
            assert_eq!(body.get().len(), head.body_bytes as usize, "body of {}", head.seq);
            bodies += 1;
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(bodies, self.count, "a scan gives every record");
    }

    /// Recomputes the heap bytes.
    fn counted_heap_bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| open.heap_bytes());
        let sealed = self.sealed.as_ref().map_or(0, |sealed| {
            let chunks = (0..sealed.len())
                .filter_map(|number| sealed.get(number))
                .map(|chunk| chunk.heap_bytes() + size_of::<Arc<Chunk>>());
            size_of::<Sealed>() + chunks.sum::<usize>()
        });
        open + sealed
    }
}
