//! Computes the cluster slot of a key. The server's own function came with Redis 7.4 and is not in every server.

/// Returns the slot of a key: that of the text between its first `{` and the next `}` if there is any, else of the whole key.
///
/// Cost: O(bytes).
pub fn of(key: &[u8]) -> u16 {
    const SLOTS: u16 = 16384;
    crc16(hashed_part(key)) % SLOTS
}

fn hashed_part(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let behind = &key[open + 1..];
    match behind.iter().position(|byte| *byte == b'}') {
        Some(len) if len > 0 => &behind[..len],
        _ => key,
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, no reflection, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(0, |crc: u16, byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_where_the_cluster_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("", 0), ("foo", 12182), ("bar", 5061), ("hello", 866)] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn what_stands_in_the_first_braces_decides() {
        assert_eq!(of(b"{user1000}.following"), of(b"{user1000}.followers"));
        assert_eq!(of(b"session:{acme}:1"), of(b"acme"));
        // An empty hash tag, or one without an end: the whole key is hashed.
        assert_ne!(of(b"foo{}{bar}"), of(b"bar"));
        assert_eq!(hashed_part(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hashed_part(b"foo{bar"), b"foo{bar");
        assert_eq!(hashed_part(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hashed_part(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hashed_part(b"}{\xff}"), b"\xff");
    }
}
