//! Inspects `DUMP` payloads: their type, their checksum, and why a server refused one.
//!
//! ```text
//!  07  81 xxxxxxxxxxxxxxxx  …value…  vv vv  cccccccccccccccc
//!  │      │                          │      └ CRC-64 of all before it, little endian; 0: not computed
//!  │      │                          └ version of the RDB format, little endian
//!  │      └ big endian: nine characters of six bits, the type's name, and ten bits, the version of its encoding
//!  └ a value of a module
//! ```

use crate::archive::Kind;
use crate::failure::Refusal;

const FOOTER_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;

/// The RDB type of a value of a module, and the mark of a number of eight bytes.
const OPENING: [u8; 2] = [7, 0x81];

const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Name and version of encoding.
fn type_of(payload: &[u8]) -> Option<(String, u64)> {
    let id = u64::from_be_bytes(payload.strip_prefix(&OPENING)?.first_chunk().copied()?);
    let name = (0..9)
        .rev()
        .map(|place| char::from(CHARACTERS[(id >> (10 + place * 6)) as usize & 63]));
    Some((name.collect(), id & 1023))
}

/// Checks the type of a payload: RESTORE would accept one of any type.
pub fn check_type(payload: &[u8], kind: Kind) -> Result<(), String> {
    match type_of(payload) {
        Some((name, _)) if name == kind.name() => Ok(()),
        Some((name, _)) => Err(format!("its payload is of type {name}, not {}", kind.name())),
        None => Err(format!("its payload is not of a {}", kind.name())),
    }
}

/// Whether the values are the same. The version of the RDB format, and with it the checksum, are those of the server that was asked.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let content = |payload: &[u8]| payload.len().checked_sub(FOOTER_BYTES);
    match (content(one), content(other)) {
        (Some(length), Some(same)) => length == same && one[..length] == other[..same],
        _ => false,
    }
}

/// Checks the checksum; returns what is wrong with the bytes.
pub fn damage(payload: &[u8]) -> Option<String> {
    let (content, checksum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let checksum = u64::from_le_bytes(*checksum);
    (checksum != 0 && checksum != crc64(content))
        .then(|| "its payload is damaged (the checksum is wrong): export that key again".into())
}

/// Explains why a server refused a payload, and what to do.
pub fn reason(payload: &[u8], refusal: &Refusal) -> String {
    if let Some(why) = damage(payload) {
        return why;
    }
    let version = payload
        .len()
        .checked_sub(FOOTER_BYTES)
        .map(|at| u16::from_le_bytes([payload[at], payload[at + 1]]));
    if let (true, Some(version)) = (refusal.text.contains("version or checksum"), version) {
        return format!(
            "it was dumped by a newer server (RDB version {version}) than this one: import it into a server that is as new"
        );
    }
    if refusal.text.contains("Bad data format") {
        return match type_of(payload) {
            Some((name, encoding)) if encoding > 0 => format!(
                "it was written by a newer module ({name}, encoding {encoding}) than this server has: load a newer redis-session there"
            ),
            _ => "the module of this server cannot read it (its log says why): is a newer redis-session needed there?".into(),
        };
    }
    if refusal.text.contains("invalid bulk length") {
        return "it is larger than the server takes: CONFIG SET proto-max-bulk-len".into();
    }
    refusal.to_string()
}

/// CRC-64 with the Jones polynomial, reflected, as servers compute it. Only of what was refused: a byte at a time is fast enough.
fn crc64(bytes: &[u8]) -> u64 {
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut crc = at as u64;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 {
                    crc >> 1 ^ 0x95ac_9329_ac4b_c9b5
                } else {
                    crc >> 1
                };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    bytes
        .iter()
        .fold(0, |crc, byte| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_servers() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let payload: Vec<u8> = [7, 0x81].into_iter().chain([0; 20]).collect();
        for length in 0..payload.len() {
            let part = &payload[..length];
            let _ = (check_type(part, Kind::Session), is_same(part, &payload), damage(part));
            let refusal = Refusal {
                code: "ERR".into(),
                text: "DUMP payload version or checksum are wrong".into(),
            };
            assert!(!reason(part, &refusal).is_empty());
        }
    }
}
