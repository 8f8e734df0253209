//! In which slot of a cluster a key is.

/// How many slots a cluster has.
const SLOTS: u16 = 16384;

/// The slot of a key, as `CLUSTER KEYSLOT` tells it: that of its hash tag if it has one, else that of the whole key.
///
/// ```
/// use redis_session_client::key_slot;
///
/// assert_eq!(key_slot("session:{acme}:1"), key_slot("sessions:{acme}"));
/// assert_eq!(key_slot("foo"), 12182);
/// ```
pub fn key_slot(key: impl AsRef<[u8]>) -> u16 {
    let key = key.as_ref();
    // CRC-16/XMODEM, bit by bit: keys are short.
    let crc = hash_tag(key).unwrap_or(key).iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// What stands in a key's first braces, if they are closed and hold anything.
pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = &key[open + 1..];
    let length = inside.iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &inside[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(key_slot("123456789"), 0x31C3);
        assert_eq!(key_slot("foo"), 12182);
        assert_eq!(key_slot("a{foo}b{c}"), key_slot("foo"));
        assert_ne!(key_slot("{}foo"), key_slot("foo"));
        assert_ne!(key_slot("{foo"), key_slot("foo"));
        assert_eq!(key_slot(""), 0);
    }
}
