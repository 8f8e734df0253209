//! Bodies that many sessions repeat (above all a long system prompt) are stored once in the process, by content, and reference counted.
//!
//! A body is shared from its second occurrence on: the first stays in its session's log, where it is compressed with its neighbours, and
//! only its hash is remembered. So bodies that occur once cost nothing here, and n sessions that repeat one store it twice.
//!
//! This is the only global state of the engine: a table behind a lock, because the last reference may be dropped on any thread. What a
//! session reads does not depend on it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::text::hash::hash64;

/// Bodies shorter than this are not shared: the reference would cost too much.
pub const MIN_SHARED_BYTES: usize = 512;

/// Number of remembered hashes of bodies that occurred once, each in the slot its hash selects.
const SEEN_SLOTS: usize = 1024;

struct Table {
    bodies: HashMap<u64, Arc<[u8]>>,
    seen: Box<[u32]>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(|| {
    Mutex::new(Table {
        bodies: HashMap::new(),
        seen: vec![0; SEEN_SLOTS].into_boxed_slice(),
    })
});

fn table() -> MutexGuard<'static, Table> {
    // Every change to the table is a single insert or remove, so a panic in between leaves it consistent.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reference to a body that may be shared.
pub struct Shared {
    bytes: Arc<[u8]>,
}

impl Shared {
    /// Returns the shared copy of `body` if it has occurred before.
    pub fn find(body: &[u8]) -> Option<Self> {
        if body.len() < MIN_SHARED_BYTES {
            return None;
        }
        let hash = hash64(body);
        let mut table = table();
        if let Some(bytes) = table.bodies.get(&hash) {
            // Two bodies with equal hashes: the second is not shared.
            return (bytes.as_ref() == body).then(|| Shared {
                bytes: Arc::clone(bytes),
            });
        }
        let slot = (hash % SEEN_SLOTS as u64) as usize;
        if table.seen[slot] != (hash >> 32) as u32 {
            table.seen[slot] = (hash >> 32) as u32;
            return None;
        }
        let bytes: Arc<[u8]> = Arc::from(body);
        table.bodies.insert(hash, Arc::clone(&bytes));
        Some(Shared { bytes })
    }

    /// Returns a shared copy of `body` even at its first occurrence: what a payload stores as shared stays shared.
    pub fn adopt(body: &[u8]) -> Self {
        let hash = hash64(body);
        let mut table = table();
        match table.bodies.get(&hash) {
            Some(bytes) if bytes.as_ref() == body => Shared {
                bytes: Arc::clone(bytes),
            },
            // Another body has the same hash: this one is kept out of the table. Its drop sees no second reference and leaves the other in
            // place.
            Some(_) => Shared { bytes: Arc::from(body) },
            None => {
                let bytes: Arc<[u8]> = Arc::from(body);
                table.bodies.insert(hash, Arc::clone(&bytes));
                Shared { bytes }
            }
        }
    }

    /// Panics if the table does not contain this reference's body, or would drop it while it is in use.
    #[cfg(test)]
    pub fn check_invariants(&self) {
        let table = table();
        let known = table.bodies.get(&hash64(&self.bytes));
        let known = known.expect("a shared body is in the table, or another one of its hash is");
        if Arc::ptr_eq(known, &self.bytes) {
            let count = Arc::strong_count(&self.bytes);
            assert!(count >= 2, "a shared body is counted {count} times");
        } else {
            assert!(
                **known != *self.bytes,
                "a body stands twice in the process though it is shared"
            );
        }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        Shared {
            bytes: Arc::clone(&self.bytes),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut table = table();
        // Only the table's reference and this one are left, so nobody can make another. (Or the two references are to a body that is not in
        // the table because of its hash.)
        if Arc::strong_count(&self.bytes) == 2 {
            let hash = hash64(&self.bytes);
            if table
                .bodies
                .get(&hash)
                .is_some_and(|bytes| Arc::ptr_eq(bytes, &self.bytes))
            {
                table.bodies.remove(&hash);
            }
        }
    }
}

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shared_from_its_second_occurrence_and_freed_with_its_last_reference() {
        let body = [b"a body of its own for this test ".as_slice(); 32].concat();
        assert!(Shared::find(&body).is_none());
        let first = Shared::find(&body).unwrap();
        let second = Shared::find(&body).unwrap();
        assert_eq!(first.bytes.as_ptr(), second.bytes.as_ptr());
        let third = second.clone();
        drop((first, second));
        assert!(table().bodies.contains_key(&hash64(&body)));
        assert_eq!(&*third, &body[..]);
        drop(third);
        assert!(!table().bodies.contains_key(&hash64(&body)));
    }

    #[test]
    fn short_bodies_are_not_shared() {
        for _ in 0..3 {
            assert!(Shared::find(b"short").is_none());
        }
    }
}
