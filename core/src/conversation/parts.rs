//! The parts of a conversation: two logs, their sums, and the bounds.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::body::Facts;
use crate::body::Role;
use crate::limits::Limits;
use crate::log::Entry;
use crate::log::Head;
use crate::log::Log;
use crate::log::Position;

/// Placeholder for the newest exchange while it is not computed: see [`Messages::learn`].
pub(super) const UNLEARNED: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub struct Messages {
    pub(super) rare: Option<Box<Rare>>,
    pub(super) main: Log,
    /// The exchange of the newest record; 0 if not known.
    pub(super) newest_exchange: u64,
    /// Every exchange that begins after this seq is contiguous.
    pub(super) scattered_until: u64,
    /// No unpinned message is older than this.
    pub(super) oldest_time_ms: i64,
    /// The greatest seq of a message that was evicted or removed; 0 if none was.
    pub(super) last_gone: u64,
    /// Whether everything in `aside` is known to be pinned.
    pub(super) aside_is_pinned: bool,
}

/// What the messages of few sessions have. Allocated when one of the two is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Rare {
    pub(super) aside: Log,
    /// The sums over pinned messages; `None` if they have to be recomputed.
    pub(super) pinned: Option<Sums>,
}

impl Default for Messages {
    fn default() -> Self {
        Messages {
            rare: None,
            main: Log::new(),
            newest_exchange: 0,
            scattered_until: 0,
            oldest_time_ms: i64::MAX,
            last_gone: 0,
            aside_is_pinned: true,
        }
    }
}

/// The sums that bounds are compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub messages: u64,
    pub tokens: u64,
    pub body_bytes: u64,
}

impl Sums {
    #[inline]
    pub(super) fn of(log: &Log) -> Self {
        Sums {
            messages: log.len(),
            tokens: log.tokens(),
            body_bytes: log.body_bytes(),
        }
    }

    pub(super) fn add(&mut self, head: &Head<'_>) {
        self.messages += 1;
        self.tokens += u64::from(head.tokens);
        self.body_bytes += u64::from(head.body_bytes);
    }

    pub(super) fn minus(self, other: Sums) -> Sums {
        Sums {
            messages: self.messages.saturating_sub(other.messages),
            tokens: self.tokens.saturating_sub(other.tokens),
            body_bytes: self.body_bytes.saturating_sub(other.body_bytes),
        }
    }

    #[inline]
    pub(super) fn exceed(&self, limits: &Limits) -> bool {
        let over = |sum: u64, bound: u64| bound > 0 && sum > bound;
        over(self.messages, limits.maxlen)
            || over(self.tokens, limits.maxtokens)
            || over(self.body_bytes, limits.maxbytes)
    }
}

/// The bounds in force.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    pub limits: &'a Limits,
    /// Roles whose messages, and the exchanges that hold one, are never evicted and count toward no bound.
    pub pins: &'a [String],
    pub now_ms: i64,
}

impl Window<'_> {
    #[inline]
    pub(super) fn pins(&self, role: &Role<'_>) -> bool {
        !self.pins.is_empty() && self.pins.iter().any(|pin| pin == role.as_str())
    }

    /// Returns the time before which messages have expired; `i64::MIN` if they do not expire.
    #[inline]
    pub(super) fn passed_before_ms(&self) -> i64 {
        match self.limits.maxage_ms {
            0 => i64::MIN,
            age => self.now_ms.saturating_sub_unsigned(age),
        }
    }
}

/// A message to append, with the facts read from its body.
#[derive(Debug)]
pub struct NewMessage<'a> {
    pub seq: u64,
    pub time_ms: i64,
    pub tokens: u32,
    pub facts: &'a Facts<'a>,
    pub body: &'a [u8],
}

/// Where to put the bodies of evicted messages, oldest first, if the caller wants them.
pub type Evicted<'a> = Option<&'a mut Vec<Vec<u8>>>;

impl Messages {
    #[inline]
    pub fn len(&self) -> u64 {
        self.main.len() + self.aside().map_or(0, |aside| aside.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn aside(&self) -> Option<&Log> {
        match &self.rare {
            Some(rare) if !rare.aside.is_empty() => Some(&rare.aside),
            _ => None,
        }
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(Box::default)
    }

    pub(super) fn forget_pinned(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.pinned = None;
            if rare.aside.is_empty() {
                self.rare = None;
            }
        }
    }

    /// Returns the greatest seq of a message that was evicted or removed; expired ones that are not freed do not count.
    pub(crate) fn last_gone_seq(&self) -> u64 {
        self.last_gone
    }

    /// Returns the greatest seq of a message that was evicted or removed, or that reads hide; 0 if there is none.
    pub fn last_gone(&self, window: Window<'_>) -> u64 {
        let hidden = self.hidden(window).last().copied().unwrap_or(0);
        self.last_gone.max(hidden)
    }

    #[inline]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::of(&self.main);
        if let Some(aside) = self.aside() {
            let more = Sums::of(aside);
            sums.messages += more.messages;
            sums.tokens += more.tokens;
            sums.body_bytes += more.body_bytes;
        }
        sums
    }

    pub fn chunks(&self) -> usize {
        self.main.chunks() + self.aside().map_or(0, |aside| aside.chunks())
    }

    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.main.heap_bytes()
            + self
                .rare
                .as_ref()
                .map_or(0, |rare| rare.aside.heap_bytes() + size_of::<Rare>())
    }
}

pub(super) fn copy_record(from: &Log, at: Position, to: &mut Log) {
    let _ = from.scan(at, |head, body| {
        push_copy(head, body.get(), to);
        ControlFlow::Break(())
    });
}

pub(super) fn push_copy(head: &Head<'_>, body: &[u8], to: &mut Log) {
    let calls: SmallVec<[u32; 4]> = head.calls.iter().collect();
    to.push(
        &Entry {
            seq: head.seq,
            time_ms: head.time_ms,
            tokens: head.tokens,
            role: &head.role,
            root: head.root,
            calls: &calls,
            body,
        },
        0,
    );
}
