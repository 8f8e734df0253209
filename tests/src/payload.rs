//! `DUMP` payloads: their checksum, and a random source to corrupt them reproducibly.

/// Computes the checksum at the end of every payload: CRC-64 with the Jones polynomial, reflected.
pub fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED_POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ REFLECTED_POLYNOMIAL
            } else {
                crc >> 1
            }
        })
    })
}

/// Size of the footer: two bytes for the RDB version, eight for the checksum.
pub const FOOTER_LEN: usize = 10;

/// Corrects the checksum of a changed payload.
pub fn seal(payload: &mut [u8]) {
    let at = payload.len() - 8;
    let crc = crc64(&payload[..at]);
    payload[at..].copy_from_slice(&crc.to_le_bytes());
}

/// SplitMix64: small, and the same on every platform.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_servers() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
