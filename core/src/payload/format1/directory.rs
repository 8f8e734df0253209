//! A directory's rows, drawn at [`crate::Directory::encode_whole`].
//!
//! Every field is at a fixed place, so a field added later is announced by a flag; without the flag it has its default. An unknown flag,
//! set by a newer version, is refused with an error.

use uuid::Uuid;

use crate::payload::kind::{put_sized, put_time_ms, Reader};

const AUTONAME: u8 = 1;

pub(crate) struct EntryRow<'a> {
    pub id: Uuid,
    pub created_at_ms: i64,
    pub key: &'a [u8],
    /// Empty if there is none.
    pub alias: &'a [u8],
    /// Stored as a flag; false if not set.
    pub is_autoname: bool,
}

impl<'a> EntryRow<'a> {
    pub fn write(&self, out: &mut Vec<u8>) {
        let EntryRow {
            id,
            created_at_ms,
            key,
            alias,
            is_autoname,
        } = self;
        out.extend_from_slice(id.as_bytes());
        put_time_ms(out, *created_at_ms);
        put_sized(out, key);
        put_sized(out, alias);
        out.push(if *is_autoname { AUTONAME } else { 0 });
    }

    pub fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let id = Uuid::from_bytes(reader.array()?);
        let created_at_ms = reader.time_ms()?;
        let (key, alias) = (reader.sized()?, reader.sized()?);
        let flags = reader.byte()?;
        (flags & !AUTONAME == 0).then_some(EntryRow {
            id,
            created_at_ms,
            key,
            alias,
            is_autoname: flags & AUTONAME != 0,
        })
    }
}
