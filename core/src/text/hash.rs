//! The stable hashes of records, payloads and fingerprints. A change here is a change of format.

use xxhash_rust::xxh3::{xxh3_128, xxh3_64, Xxh3};

pub fn hash32(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

pub fn hash128(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// Returns one fingerprint of a sequence of byte strings. Each is hashed with its length, so that different sequences have different
/// inputs.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.digest128()
}
