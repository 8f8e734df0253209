//! Digests of keys, for commands that must remember millions of them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A digest of 128 bits, so that no two of a billion keys have the same. It differs between versions of this program.
pub fn digest(of: impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &of).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
