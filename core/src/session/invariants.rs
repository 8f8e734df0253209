//! The invariants of a session, for tests to check after every operation.

use std::ops::ControlFlow;

use super::state::{Cold, Session};
use crate::log::{Log, Position};

impl Session {
    /// Panics if an invariant is violated. `now_ms` is the time of the last write: what has expired since then is not freed yet.
    pub(crate) fn check_invariants(&self, now_ms: i64) {
        self.messages.check_invariants(self.window(now_ms));
        assert!(self.version >= 1);
        assert!(
            self.messages.last_gone_seq() <= self.last_seq,
            "gone before it was given"
        );
        let mut seqs = Vec::new();
        self.messages.scan(|head, _| {
            seqs.push(head.seq);
            ControlFlow::<()>::Continue(())
        });
        if let Some(cold) = &self.cold {
            cold.check_invariants(self, &mut seqs);
        }
        let count = seqs.len();
        seqs.sort_unstable();
        seqs.dedup();
        assert_eq!(seqs.len(), count, "a seq was given twice");
        assert!(
            seqs.last().is_none_or(|last| *last <= self.last_seq),
            "a seq was never given"
        );
        // A bound of 0 is no bound.
        let limits = &self.limits;
        let over = |count: usize, bound: u64| bound > 0 && count as u64 > bound;
        let Some(cold) = &self.cold else { return };
        assert!(!over(cold.checkpoints.list.len(), limits.max_checkpoints));
        assert!(!over(cold.events.log.len() as usize, limits.event_maxlen));
    }
}

impl Cold {
    fn check_invariants(&self, session: &Session, seqs: &mut Vec<u64>) {
        for log in [&self.events.log, &self.set_aside] {
            log.check_invariants();
            seqs_of(log, seqs);
        }
        self.entities.check_invariants();
        self.dedup.check_invariants();
        if let Some(lease) = &self.agents.lease {
            assert!(lease.token <= self.agents.last_token, "a token that was never given");
        }
        assert!(self.events.last_gone <= session.last_seq);
        assert!(self.checkpoints.last_gone <= session.last_seq);
        let mut last = 0;
        for checkpoint in &self.checkpoints.list {
            assert!(checkpoint.id > last, "checkpoints stand in the order of their ids");
            last = checkpoint.id;
            seqs.push(checkpoint.id);
            checkpoint.snapshot.entities.check_invariants();
            let (aside, main) = checkpoint.snapshot.messages.logs();
            aside.into_iter().chain([main]).for_each(Log::check_invariants);
        }
    }
}

fn seqs_of(log: &Log, seqs: &mut Vec<u64>) {
    let _ = log.scan(Position::START, |head, _| {
        seqs.push(head.seq);
        ControlFlow::<()>::Continue(())
    });
}
