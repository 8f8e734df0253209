//! The position of a reader of `SESSION.READ`, and the gaps that were reported to it.

use crate::{EntryKind, SessionEntry};

/// Where to go on with `SESSION.READ`: for programs that read page by page over connections of their own. A `SessionHandle` follows with
/// one of these.
///
/// A gap is reported with every page that it reaches into, and what still stands inside it follows it. So it is not the greatest seq of a
/// reply that says where to go on, and the same gap may come again. A cursor knows both.
///
/// ```
/// # let server = redis_session_tests::Server::with_sample();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{ReadOptions, ReadCursor, SessionCommands};
///
/// const PAGE: u32 = 3;
/// let (mut cursor, mut seqs) = (ReadCursor::after(0), Vec::new());
/// loop {
///     let page = connection.session_read("session:1", ReadOptions::after(cursor.position()).count(PAGE))?;
///     let page = cursor.take(page, PAGE);
///     if page.is_empty() {
///         break;
///     }
///     seqs.extend(page.iter().map(|entry| entry.seq));
/// }
/// assert_eq!(seqs, [1, 2, 3, 4]);
/// assert_eq!(cursor.position(), 4);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCursor {
    /// What was read up to here.
    position: u64,
    /// Gaps were reported up to this seq, though not every entry before it was read.
    missing_up_to: u64,
}

/// What an entry of `SESSION.READ` does to a [`ReadCursor`].
///
/// ```
/// use redis_session_client::{EntryKind, ReadStep};
///
/// assert_eq!(ReadStep::of(7, &EntryKind::Gap { from: 3, to: 7 }), ReadStep::Gap { to: 7 });
/// assert_eq!(ReadStep::of(8, &EntryKind::Message("{}".into())), ReadStep::Recorded { seq: 8 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStep {
    /// Something that was recorded.
    Recorded {
        /// Its seq.
        seq: u64,
    },
    /// Something is missing.
    Gap {
        /// The last seq that is.
        to: u64,
    },
    /// Another session is at the key, with seqs of its own.
    Reset,
}

impl ReadStep {
    /// What an entry of this seq and kind does.
    ///
    /// ```
    /// # use redis_session_client::{EntryKind, ReadStep, SessionId};
    /// let reset = EntryKind::Reset { session_id: SessionId::new() };
    /// assert_eq!(ReadStep::of(0, &reset), ReadStep::Reset);
    /// ```
    pub fn of(seq: u64, kind: &EntryKind) -> ReadStep {
        match kind {
            EntryKind::Gap { to, .. } => ReadStep::Gap { to: *to },
            EntryKind::Reset { .. } => ReadStep::Reset,
            _ => ReadStep::Recorded { seq },
        }
    }
}

impl ReadCursor {
    /// Goes on after this seq; 0: from the beginning.
    ///
    /// ```
    /// # use redis_session_client::ReadCursor;
    /// assert_eq!(ReadCursor::after(41).position(), 41);
    /// ```
    pub fn after(seq: u64) -> ReadCursor {
        ReadCursor {
            position: seq,
            missing_up_to: 0,
        }
    }

    /// The seq to read after next.
    ///
    /// ```
    /// # use redis_session_client::ReadCursor;
    /// assert_eq!(ReadCursor::default().position(), 0);
    /// ```
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the entries of one reply to a `READ` of at most `count`; those that say something new.
    ///
    /// ```
    /// # use redis_session_client::ReadCursor;
    /// let mut cursor = ReadCursor::after(3);
    /// assert!(cursor.take(Vec::new(), 100).is_empty());
    /// assert_eq!(cursor.position(), 3);
    /// ```
    pub fn take(&mut self, mut entries: Vec<SessionEntry>, count: u32) -> Vec<SessionEntry> {
        let mut recorded = 0;
        entries.retain(|entry| {
            let step = ReadStep::of(entry.seq, &entry.kind);
            recorded += usize::from(matches!(step, ReadStep::Recorded { .. }));
            self.pass(step)
        });
        self.end_page(recorded >= count as usize);
        entries
    }

    /// Passes one entry; returns false if it is the rest of a gap that was reported already.
    ///
    /// ```
    /// # use redis_session_client::{ReadCursor, ReadStep};
    /// let mut cursor = ReadCursor::after(0);
    /// assert!(cursor.pass(ReadStep::Gap { to: 9 }));
    /// assert!(cursor.pass(ReadStep::Recorded { seq: 4 }));
    /// // ReadOptions on after 4, inside the gap, which is reported once more.
    /// assert_eq!(cursor.position(), 4);
    /// assert!(!cursor.pass(ReadStep::Gap { to: 9 }));
    /// ```
    pub fn pass(&mut self, step: ReadStep) -> bool {
        match step {
            ReadStep::Recorded { seq } => self.position = self.position.max(seq),
            ReadStep::Gap { to } if to <= self.missing_up_to => return false,
            ReadStep::Gap { to } => self.missing_up_to = to,
            ReadStep::Reset => *self = ReadCursor::default(),
        }
        true
    }

    /// Ends a page. Unless it was full, nothing is left inside a gap that was reported, and it need not be reported again.
    ///
    /// ```
    /// # use redis_session_client::{ReadCursor, ReadStep};
    /// let mut cursor = ReadCursor::after(0);
    /// cursor.pass(ReadStep::Gap { to: 9 });
    /// cursor.end_page(true);
    /// assert_eq!(cursor.position(), 0);
    /// cursor.end_page(false);
    /// assert_eq!(cursor.position(), 9);
    /// ```
    pub fn end_page(&mut self, is_full: bool) {
        if !is_full {
            self.position = self.position.max(self.missing_up_to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionId, Timestamp};

    fn entry(seq: u64, kind: EntryKind) -> SessionEntry {
        let mut reset = SessionEntry::reset(SessionId::unknown(), Timestamp::from_ms(0));
        (reset.seq, reset.kind) = (seq, kind);
        reset
    }

    #[test]
    fn what_stands_inside_a_gap_is_read_though_a_page_ends_inside_it() {
        let gap = || entry(9, EntryKind::Gap { from: 1, to: 9 });
        let message = |seq| entry(seq, EntryKind::Message("{}".into()));
        let mut cursor = ReadCursor::after(0);
        assert_eq!(cursor.take(vec![gap(), message(3), message(5)], 2).len(), 3);
        assert_eq!(cursor.position(), 5);
        let next = cursor.take(vec![gap(), message(7)], 2);
        assert_eq!(next.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [7]);
        assert_eq!(cursor.position(), 9);
    }

    #[test]
    fn after_a_reset_the_seqs_of_the_other_session_count() {
        let mut cursor = ReadCursor::after(50);
        let reset = entry(
            0,
            EntryKind::Reset {
                session_id: SessionId::new(),
            },
        );
        let page = vec![
            reset,
            entry(2, EntryKind::Gap { from: 1, to: 2 }),
            entry(3, EntryKind::Message("{}".into())),
        ];
        assert_eq!(cursor.take(page, 10).len(), 3);
        assert_eq!(cursor.position(), 3);
    }
}
