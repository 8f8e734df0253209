//! Values that stand in several orders at once: each order is a tree of pointers to the same values, which it compares by one of their
//! parts. A pointer is all that an order costs, and no operation costs more than O(log values), whoever has chosen the parts: a table of
//! hashes would need a random seed to promise that.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// What values are ordered by. The part has to be different for each value of one tree.
pub(crate) trait Order {
    type Value;
    type Part: Ord + ?Sized;

    fn part(value: &Self::Value) -> &Self::Part;
}

/// A value in a tree of that order.
pub(crate) struct By<O: Order>(pub Arc<O::Value>);

impl<O: Order> Clone for By<O> {
    fn clone(&self) -> Self {
        By(Arc::clone(&self.0))
    }
}

impl<O: Order<Value: fmt::Debug>> fmt::Debug for By<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<O: Order> PartialEq for By<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<O: Order> Eq for By<O> {}

impl<O: Order> PartialOrd for By<O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: Order> Ord for By<O> {
    fn cmp(&self, other: &Self) -> Ordering {
        O::part(&self.0).cmp(O::part(&other.0))
    }
}

/// A place in an order by time that is total: among equal times, what came later is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub time_ms: i64,
    /// The next number of a counter when the value came.
    pub order: u64,
}

/// Bytes of one pointer in a tree, nodes at their usual filling: measured over 100,000 values, 19 for ones that came in order, 15 for ones that
/// did not.
pub(crate) const POINTER_BYTES: usize = 19;

/// What an [`Arc`] of a value takes: two counts and the value, in blocks of 16 bytes as allocators give them.
pub(crate) const fn shared_bytes<T>() -> usize {
    (2 * size_of::<usize>() + size_of::<T>()).next_multiple_of(16)
}
