//! Bodies that many sessions repeat (a long system prompt, above all) are kept once in the process, by content, and reference
//! counted.
//!
//! A body is shared from its second sighting on: the first stays in its session's log, where it is compressed with its neighbours,
//! and only its hash is remembered. So bodies that stand once cost nothing here, and n sessions that repeat one hold it twice.
//!
//! This is the one place of the engine with state beside the values: a table behind a lock, because the last reference may be
//! dropped on any thread. It is a cache of identity, never of content: what a session reads does not depend on it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::text::hash::hash64;

/// Shorter bodies are not worth a reference.
pub const MIN_SHARED_BYTES: usize = 512;

/// How many hashes of single bodies are remembered, each in the one slot its hash chooses.
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
    // Every change to the table is a single insert or remove: a panic in between leaves it whole.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reference to a body that others may hold too.
pub struct Shared {
    bytes: Arc<[u8]>,
}

impl Shared {
    /// The shared copy of `body`, if it has been seen before.
    pub fn find(body: &[u8]) -> Option<Self> {
        if body.len() < MIN_SHARED_BYTES {
            return None;
        }
        let hash = hash64(body);
        let mut table = table();
        if let Some(bytes) = table.bodies.get(&hash) {
            // Two bodies of one hash: the second is simply not shared.
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

    /// A shared copy of `body`, whether it was seen before or not: what a payload says is shared stays so.
    pub fn adopt(body: &[u8]) -> Self {
        let hash = hash64(body);
        let mut table = table();
        match table.bodies.get(&hash) {
            Some(bytes) if bytes.as_ref() == body => Shared {
                bytes: Arc::clone(bytes),
            },
            // Another body has the hash: this one stays out of the table. Its drop finds no second reference and leaves the other alone.
            Some(_) => Shared { bytes: Arc::from(body) },
            None => {
                let bytes: Arc<[u8]> = Arc::from(body);
                table.bodies.insert(hash, Arc::clone(&bytes));
                Shared { bytes }
            }
        }
    }

    /// How many bodies the process holds shared, and their bytes.
    pub fn totals() -> (usize, usize) {
        let table = table();
        (table.bodies.len(), table.bodies.values().map(|body| body.len()).sum())
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
        // The table's own reference and this one: nobody is left who could make another. (Two references and neither in the table: a body
        // that stayed out of it because of its hash.)
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
    fn a_body_is_shared_from_its_second_sighting_and_gone_with_its_last_holder() {
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
