//! Changing records in the middle of a log: their chunks are rewritten.

use std::sync::Arc;

use smallvec::SmallVec;

use super::chunk::{Bodies as PackedBodies, Chunk, Summary};
use super::parts::{Log, Open, Trimmed};
use super::record;
use super::record::Entry;

impl Log {
    /// Removes the records with these seqs, in ascending order; returns how many existed.
    ///
    /// Cost: O(records removed x bytes of a chunk): each chunk that holds one is rewritten.
    pub fn remove(&mut self, seqs: &[u64]) -> u64 {
        let before = self.count;
        self.rewrite(seqs, &mut |_| None);
        before - self.count
    }

    /// Replaces a record's body and token count. Cost: O(bytes of a chunk).
    pub fn replace(&mut self, seq: u64, body: &[u8], tokens: u32) {
        self.rewrite(&[seq], &mut |_| Some((body, tokens)));
    }

    /// Rewrites each chunk that holds one of `seqs`, without those records or with other bodies for them.
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
            // A kept body that was shared stays shared; a replacement belongs to this log alone.
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
        // Seqs are searched for by the last seq of each chunk, which must stay in order.
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
        debug_assert!(old.is_some(), "a chunk that was read is there to be replaced");
        self.heap_bytes -= old.map_or(0, |old| old.heap_bytes());
    }

    /// Restores, after a removal, that the first chunk holds a live record or the log is empty.
    fn drop_empty_ends(&mut self) {
        if self.count == 0 || self.view(0).count == 0 {
            self.drop_first_chunk();
        }
    }
}
