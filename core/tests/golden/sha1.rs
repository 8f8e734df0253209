//! The server's digest of a value, as `DEBUG DIGEST-VALUE` shows it, to compare it with the digests in golden files.

/// The digest of a value that a module's type passes in parts: each is mixed into the digest of a sequence, and that into the value's.
pub struct ServerDigest([u8; 20]);

impl ServerDigest {
    pub fn new() -> Self {
        ServerDigest([0; 20])
    }

    pub fn part(&mut self, part: &[u8]) {
        mix(&mut self.0, part);
    }

    /// Returns the digest after all parts, which are one sequence.
    pub fn of_module_value(self, has_expiry: bool) -> String {
        /// The server's number for values of modules' types (`OBJ_MODULE`).
        const MODULE: u32 = 5;
        let mut digest = [0; 20];
        mix(&mut digest, &MODULE.to_be_bytes());
        let mut sequences = [0; 20];
        xor(&mut sequences, &self.0);
        xor(&mut digest, &sequences);
        if has_expiry {
            xor(&mut digest, b"!!expire!!");
        }
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn xor(digest: &mut [u8; 20], bytes: &[u8]) {
    for (byte, other) in digest.iter_mut().zip(sha1(bytes)) {
        *byte ^= other;
    }
}

/// Mixes bytes so that their order matters, unlike in a plain XOR.
fn mix(digest: &mut [u8; 20], bytes: &[u8]) {
    xor(digest, bytes);
    *digest = sha1(digest);
}

/// FIPS 180-4.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());

    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        }
        for i in 16..80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.into_iter().enumerate() {
            let (choice, constant) = match i {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(choice)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(value);
        }
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

#[test]
fn the_hash_is_sha_1() {
    let hex = |bytes: &[u8]| -> String { sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect() };
    assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    // 56 bytes: the length no longer fits behind them.
    assert_eq!(
        hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
    );
}
