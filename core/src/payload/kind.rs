//! Distinguishes the types of payload. In an RDB the type's name tells them apart; `SESSION.LOAD` is one command for all three, so the
//! bytes must.
//!
//! ```text
//!  a session        +---------------------------------+-------------+-----
//!                   | length of its first blob, not 0 | format: 1   | …
//!                   +---------------------------------+-------------+-----
//!  anything else    +------+------------------+-----------+-----
//!                   | 0x00 | kind: 'D' or 'A' | format: 1 | …
//!                   +------+------------------+-----------+-----
//! ```
//!
//! The format of sessions came first and begins with a length. Its first blob holds at least a format byte, so that length is never 0 and
//! never begins with a zero byte: no other payload can be mistaken for a session's.

use super::{take_sized, PayloadError};
use crate::text::time::is_time;
use crate::text::{is_text, varint};

const NOT_A_SESSION: u8 = 0;

/// The format that is written. Every older format stays readable.
const FORMAT: u8 = 1;

/// The types of the module's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    Session,
    Directory,
    Anchors,
}

impl PayloadKind {
    /// Returns the type that a whole payload claims to be of; its decoder then validates it. `None` if it is empty or of a kind that only a
    /// newer version knows.
    pub fn of(whole: &[u8]) -> Option<PayloadKind> {
        match whole {
            [] => None,
            [NOT_A_SESSION, b'D', ..] => Some(PayloadKind::Directory),
            [NOT_A_SESSION, b'A', ..] => Some(PayloadKind::Anchors),
            [NOT_A_SESSION, ..] => None,
            _ => Some(PayloadKind::Session),
        }
    }
}

/// The first bytes of a directory's payload.
pub(crate) const DIRECTORY: [u8; 3] = [NOT_A_SESSION, b'D', FORMAT];
/// The first bytes of the payload of anchors.
pub(crate) const ANCHORS: [u8; 3] = [NOT_A_SESSION, b'A', FORMAT];

/// Reads a payload from start to end. Every length is checked against the bytes that are left.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(whole: &'a [u8], beginning: [u8; 3]) -> Result<Self, PayloadError> {
        if whole.get(..2) != Some(&beginning[..2]) {
            return Err(PayloadError("a payload of another type"));
        }
        if whole.get(2) != Some(&beginning[2]) {
            return Err(PayloadError("an unknown format: written by a newer version"));
        }
        Ok(Reader { bytes: whole, at: 3 })
    }

    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(array)
    }

    pub fn number(&mut self) -> Option<u64> {
        varint::get(self.bytes, &mut self.at)
    }

    pub fn time_ms(&mut self) -> Option<i64> {
        self.number().map(varint::unzigzag).filter(|time_ms| is_time(*time_ms))
    }

    /// Reads bytes preceded by their length.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        take_sized(self.bytes, &mut self.at)
    }

    /// Reads a UTF-8 text of 1 to 65,536 bytes, preceded by its length.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok().filter(|text| is_text(text))
    }

    pub fn end(self) -> Result<(), PayloadError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(PayloadError("bytes follow the last entry"))
        }
    }
}

/// Writes bytes preceded by their length, as [`Reader::sized`] reads them.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a time, as [`Reader::time_ms`] reads it.
pub(crate) fn put_time_ms(out: &mut Vec<u8>, time_ms: i64) {
    varint::put(out, varint::zigzag(time_ms));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::limits::Limits;
    use crate::{Anchors, Directory, Session};

    #[test]
    fn the_three_types_are_told_apart_and_no_decoder_takes_another_ones_payload() {
        let session = fixture::session(Limits::default());
        let (session, directory) = (session.encode_whole(), Directory::default().encode_whole());
        let anchors = Anchors::default().encode_whole();
        assert_eq!(PayloadKind::of(&session), Some(PayloadKind::Session));
        assert_eq!(PayloadKind::of(&directory), Some(PayloadKind::Directory));
        assert_eq!(PayloadKind::of(&anchors), Some(PayloadKind::Anchors));
        for (payload, is_session, is_directory, is_anchors) in [
            (session, true, false, false),
            (directory, false, true, false),
            (anchors, false, false, true),
        ] {
            assert_eq!(Session::decode_whole(&payload).is_ok(), is_session);
            assert_eq!(Directory::decode_whole(&payload).is_ok(), is_directory);
            assert_eq!(Anchors::decode_whole(&payload).is_ok(), is_anchors);
        }
        assert_eq!(PayloadKind::of(&[]), None);
        assert_eq!(PayloadKind::of(&[0]), None);
        assert_eq!(PayloadKind::of(&[0, b'Z', 1]), None);
        // A session's payload cannot begin with an empty blob, however its length is encoded.
        assert!(Session::decode_whole(&[0, 1]).is_err());
        assert!(Session::decode_whole(&[0x80, 0, 1]).is_err());
    }

    #[test]
    fn a_newer_format_is_refused() {
        for mut payload in [Directory::default().encode_whole(), Anchors::default().encode_whole()] {
            payload[2] = FORMAT + 1;
            let errors = [
                Directory::decode_whole(&payload).err(),
                Anchors::decode_whole(&payload).err(),
            ];
            assert!(errors.contains(&Some(PayloadError("an unknown format: written by a newer version"))));
        }
    }
}
