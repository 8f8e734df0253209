//! The header of one record. A chunk stores headers and bodies separately, so that work on headers alone (trimming, filters, the window)
//! reads no body and decompresses nothing.
//!
//! ```text
//!  flags   seq-first  time-base  body bytes  [tokens]  [name]       [seq-root]  [calls]            [shared]
//! +------+----------+----------+-----------+---------+------------+-----------+------------------+---------+
//! | u8   | varint   | zigzag   | varint    | varint  | varint len | varint    | varint n         | varint  |
//! |      |          | varint   |           | bit 6   | UTF-8 text | bit 3     | n x u32 LE       | index   |
//! |      |          |          |           |         | role 6     |           | bit 4            | bit 5   |
//! +------+----------+----------+-----------+---------+------------+-----------+------------------+---------+
//!
//!  flags: bits 0-2 role (0 user, 1 assistant, 2 system, 3 tool, 4 developer, 5 other, 6 named in the record)
//!         bit 3  belongs to the exchange whose call has seq `root`
//!         bit 4  makes tool calls; the hashes of their ids follow
//!         bit 5  the body is in the chunk's list of shared bodies, not in its bytes
//!         bit 6  tokens were given; else they are a quarter of the body's bytes, rounded up
//!         bit 7  0
//! ```
//!
//! A header is 4 to 8 bytes for most messages.

use crate::body::{estimated_tokens, Role};
use crate::text::varint;

const ROLE_MASK: u8 = 0b0000_0111;
const ROLE_NAMED: u8 = 6;
const LINKED: u8 = 1 << 3;
const CALLS: u8 = 1 << 4;
const SHARED: u8 = 1 << 5;
const TOKENS: u8 = 1 << 6;
const RESERVED: u8 = 1 << 7;

/// The fields of a record's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    pub seq: u64,
    pub time_ms: i64,
    pub tokens: u32,
    pub body_bytes: u32,
    pub role: Role<'a>,
    /// The seq of the call whose exchange this record belongs to; `None` if it begins an exchange itself.
    pub root: Option<u64>,
    pub calls: CallHashes<'a>,
    /// Index of the body in the chunk's list of shared bodies.
    pub(super) shared: Option<u32>,
}

impl Head<'_> {
    /// Returns the seq of the exchange's first message, which identifies the exchange.
    #[inline]
    pub fn exchange(&self) -> u64 {
        self.root.unwrap_or(self.seq)
    }

    #[inline]
    pub fn makes_calls(&self) -> bool {
        !self.calls.bytes.is_empty()
    }
}

/// The hashes of the call ids that a message makes, encoded as in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHashes<'a> {
    bytes: &'a [u8],
}

impl<'a> CallHashes<'a> {
    pub const NONE: CallHashes<'static> = CallHashes { bytes: &[] };

    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.bytes
            .chunks_exact(4)
            .map(|hash| u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]))
    }
}

/// A record to write.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    pub seq: u64,
    pub time_ms: i64,
    pub tokens: u32,
    pub role: &'a Role<'a>,
    pub root: Option<u64>,
    pub calls: &'a [u32],
    pub body: &'a [u8],
}

/// The base that a chunk's seqs and times are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Base {
    pub seq: u64,
    pub time_ms: i64,
}

#[inline(always)]
pub(super) fn write(out: &mut Vec<u8>, base: Base, entry: &Entry<'_>, shared: Option<u32>) {
    let code = match entry.role {
        Role::User => 0,
        Role::Assistant => 1,
        Role::System => 2,
        Role::Tool => 3,
        Role::Developer => 4,
        Role::Other => 5,
        Role::Named(_) => ROLE_NAMED,
    };
    let explicit_tokens = entry.tokens != estimated_tokens(entry.body.len());
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let flags = code
        | flag(entry.root.is_some(), LINKED)
        | flag(!entry.calls.is_empty(), CALLS)
        | flag(shared.is_some(), SHARED)
        | flag(explicit_tokens, TOKENS);
    // The fields that every header has are assembled on the stack and written at once.
    let mut fixed = varint::Short::new(flags);
    fixed.put(entry.seq - base.seq);
    fixed.put(varint::zigzag(entry.time_ms.wrapping_sub(base.time_ms)));
    fixed.put(entry.body.len() as u64);
    fixed.append_to(out);
    if flags >= ROLE_NAMED {
        write_rest(out, entry, shared, explicit_tokens);
    }
}

/// Writes the optional fields of a header, those that its flags announce.
#[inline(never)]
fn write_rest(out: &mut Vec<u8>, entry: &Entry<'_>, shared: Option<u32>, explicit_tokens: bool) {
    if explicit_tokens {
        varint::put(out, u64::from(entry.tokens));
    }
    if let Role::Named(name) = entry.role {
        varint::put(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
    }
    if let Some(root) = entry.root {
        varint::put(out, entry.seq - root);
    }
    if !entry.calls.is_empty() {
        varint::put(out, entry.calls.len() as u64);
        for hash in entry.calls {
            out.extend_from_slice(&hash.to_le_bytes());
        }
    }
    if let Some(index) = shared {
        varint::put(out, u64::from(index));
    }
}

/// The fields of a header that trimming needs.
pub(super) struct Brief {
    pub seq: u64,
    pub root: Option<u64>,
    pub makes_calls: bool,
    pub tokens: u32,
    pub body_bytes: u32,
    pub is_shared: bool,
}

/// Like [`read`], for the fields that trimming needs. Most headers have only the four numbers that every header has.
#[inline(always)]
pub(super) fn read_brief(bytes: &[u8], at: &mut usize, base: Base) -> Option<Brief> {
    let start = *at;
    let flags = *bytes.get(start)?;
    if flags >= ROLE_NAMED {
        return read_brief_of_any(bytes, at, base);
    }
    *at = start + 1;
    let seq = base.seq + varint::get(bytes, at)?;
    varint::skip(bytes, at)?;
    let body_bytes = varint::get(bytes, at)? as u32;
    let tokens = estimated_tokens(body_bytes as usize);
    Some(Brief {
        seq,
        root: None,
        makes_calls: false,
        tokens,
        body_bytes,
        is_shared: false,
    })
}

#[inline(never)]
fn read_brief_of_any(bytes: &[u8], at: &mut usize, base: Base) -> Option<Brief> {
    if bytes.get(*at) == Some(&ROLE_NAMED) {
        // A named role, as events have: the name is skipped.
        *at += 1;
        let seq = base.seq + varint::get(bytes, at)?;
        varint::skip(bytes, at)?;
        let body_bytes = varint::get(bytes, at)? as u32;
        let length = varint::get(bytes, at)?;
        take(bytes, at, length)?;
        return Some(Brief {
            seq,
            root: None,
            makes_calls: false,
            tokens: estimated_tokens(body_bytes as usize),
            body_bytes,
            is_shared: false,
        });
    }
    let head = read(bytes, at, base)?;
    Some(Brief {
        seq: head.seq,
        root: head.root,
        makes_calls: head.makes_calls(),
        tokens: head.tokens,
        body_bytes: head.body_bytes,
        is_shared: head.shared.is_some(),
    })
}

/// Parses the header at `at` and moves past it. `None` if the bytes are not a header, which cannot happen for bytes written here.
#[inline]
pub(super) fn read<'a>(bytes: &'a [u8], at: &mut usize, base: Base) -> Option<Head<'a>> {
    let flags = *bytes.get(*at)?;
    *at += 1;
    let seq = base.seq.checked_add(varint::get(bytes, at)?)?;
    let time_ms = base.time_ms.checked_add(varint::unzigzag(varint::get(bytes, at)?))?;
    let body_bytes = u32::try_from(varint::get(bytes, at)?).ok()?;
    let mut head = Head {
        seq,
        time_ms,
        tokens: estimated_tokens(body_bytes as usize),
        body_bytes,
        role: Role::User,
        root: None,
        calls: CallHashes::NONE,
        shared: None,
    };
    match flags & ROLE_MASK {
        0 => {}
        1 => head.role = Role::Assistant,
        2 => head.role = Role::System,
        3 => head.role = Role::Tool,
        4 => head.role = Role::Developer,
        5 => head.role = Role::Other,
        _ => {}
    }
    if flags & !ROLE_MASK != 0 || flags & ROLE_MASK >= ROLE_NAMED {
        read_rest(bytes, at, flags, &mut head)?;
    }
    Some(head)
}

fn read_rest<'a>(bytes: &'a [u8], at: &mut usize, flags: u8, head: &mut Head<'a>) -> Option<()> {
    if flags & RESERVED != 0 {
        return None;
    }
    if flags & TOKENS != 0 {
        head.tokens = u32::try_from(varint::get(bytes, at)?).ok()?;
    }
    match flags & ROLE_MASK {
        ROLE_NAMED => {
            let length = varint::get(bytes, at)?;
            let name = take(bytes, at, length)?;
            head.role = Role::Named(std::str::from_utf8(name).ok()?.into());
        }
        7 => return None,
        _ => {}
    }
    if flags & LINKED != 0 {
        let back = varint::get(bytes, at)?;
        head.root = Some(head.seq.checked_sub(back).filter(|_| back > 0)?);
    }
    if flags & CALLS != 0 {
        let calls = varint::get(bytes, at)?;
        head.calls = CallHashes {
            bytes: take(bytes, at, calls.checked_mul(4).filter(|_| calls > 0)?)?,
        };
    }
    if flags & SHARED != 0 {
        head.shared = Some(u32::try_from(varint::get(bytes, at)?).ok()?);
    }
    Some(())
}

fn take<'a>(bytes: &'a [u8], at: &mut usize, length: u64) -> Option<&'a [u8]> {
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    let taken = bytes.get(*at..end)?;
    *at = end;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_record_comes_back(
            seq in 5u64..1 << 50, time_ms in -1i64 << 50..1 << 50, tokens in prop::option::of(any::<u32>()),
            role in "user|assistant|system|tool|developer|other|critic|", back in prop::option::of(1u64..5),
            calls in prop::collection::vec(any::<u32>(), 0..4), shared in prop::option::of(any::<u32>()),
            body_bytes in 0usize..400,
        ) {
            let base = Base { seq: 5, time_ms: 1_700_000_000_000 };
            let role = Role::from_name(role);
            let body = vec![b'x'; body_bytes];
            let entry = Entry { seq, time_ms, tokens: tokens.unwrap_or(estimated_tokens(body_bytes)), role: &role, root: back.map(|back| seq - back), calls: &calls, body: &body };
            let mut out = Vec::new();
            write(&mut out, base, &entry, shared);
            let mut at = 0;
            let head = read(&out, &mut at, base).unwrap();
            prop_assert_eq!(at, out.len());
            prop_assert_eq!((head.seq, head.time_ms, head.tokens, head.body_bytes as usize), (seq, time_ms, entry.tokens, body_bytes));
            prop_assert_eq!((&head.role, head.root, head.shared), (&role, entry.root, shared));
            prop_assert_eq!(head.calls.iter().collect::<Vec<_>>(), calls);
            for end in 0..out.len() {
                let mut at = 0;
                prop_assert!(read(&out[..end], &mut at, base).is_none());
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), seq in any::<u64>(), time_ms in any::<i64>()) {
            let mut at = 0;
            while read(&bytes, &mut at, Base { seq, time_ms }).is_some() {}
            prop_assert!(at <= bytes.len() + 1);
        }
    }
}
