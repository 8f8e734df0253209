//! LEB128 integers: seven bits per byte, the lowest first; the high bit says that another byte follows. Numbers below 128, as most in a
//! record, take one byte.

#[inline]
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A byte and up to three numbers, encoded on the stack.
pub struct Short {
    bytes: [u8; 32],
    len: usize,
}

impl Short {
    #[inline]
    pub fn new(first: u8) -> Self {
        let mut bytes = [0; 32];
        bytes[0] = first;
        Short { bytes, len: 1 }
    }

    #[inline]
    pub fn put(&mut self, mut number: u64) {
        // A number takes at most 10 bytes; the mask tells the compiler that the index is in range.
        while number >= 0x80 {
            self.bytes[self.len & 31] = number as u8 | 0x80;
            self.len += 1;
            number >>= 7;
        }
        self.bytes[self.len & 31] = number as u8;
        self.len += 1;
    }

    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        if let (Some(first), true) = (self.bytes.first_chunk::<16>(), self.len <= 16) {
            // Copying a fixed sixteen bytes and truncating is cheaper than copying a variable number.
            let end = out.len() + self.len;
            out.extend_from_slice(first);
            out.truncate(end);
        } else {
            out.extend_from_slice(&self.bytes[..self.len.min(32)]);
        }
    }
}

/// Reads a number at `at` and moves past it; `None` if the bytes end or the number exceeds 64 bits.
#[inline]
pub fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    get_long(bytes, at, first)
}

fn get_long(bytes: &[u8], at: &mut usize, first: u8) -> Option<u64> {
    let mut number = u64::from(first & 0x7f);
    let mut shift = 7;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Skips a number.
#[inline]
pub fn skip(bytes: &[u8], at: &mut usize) -> Option<()> {
    while *bytes.get(*at)? >= 0x80 {
        *at += 1;
    }
    *at += 1;
    Some(())
}

/// Maps signed numbers to unsigned ones so that small magnitudes stay small: 0, -1, 1, -2, …
#[inline]
pub fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

#[inline]
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_has_more_than_64_bits_or_ends_early_is_refused() {
        assert_eq!(get(&[0xff; 9], &mut 0), None);
        assert_eq!(
            get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &mut 0),
            None
        );
        assert_eq!(
            get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], &mut 0),
            Some(u64::MAX)
        );
        assert_eq!(get(&[0x80; 11], &mut 0), None);
        assert_eq!(get(&[], &mut 0), None);
    }

    proptest! {
        #[test]
        fn every_number_comes_back(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift;
            let mut out = Vec::new();
            put(&mut out, number);
            let mut at = 0;
            prop_assert_eq!(get(&out, &mut at), Some(number));
            prop_assert_eq!(at, out.len());
            prop_assert_eq!(unzigzag(zigzag(number as i64)), number as i64);
        }
    }
}
