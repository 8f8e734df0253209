//! The rows of anchors, drawn at [`crate::Anchors::encode_whole`].
//!
//! Every field is at a fixed place. Optional fields are announced by a flag, as fields added later would be; without the flag there is
//! none. An unknown flag, set by a newer version, is refused with an error.

use crate::payload::kind::{put_sized, put_time_ms, Reader};
use crate::text::varint;

const OUTCOME: u8 = 1;
const CHECKPOINT: u8 = 2;
const PERF: u8 = 4;

pub(crate) struct AnchorRow<'a> {
    pub time_ms: i64,
    pub session_id: &'a str,
    pub outcome: Option<&'a str>,
    pub checkpoint_id: Option<u64>,
    /// A number, as text.
    pub perf_delta: Option<&'a [u8]>,
    pub key_impacts: Vec<&'a str>,
}

impl<'a> AnchorRow<'a> {
    pub fn write(&self, out: &mut Vec<u8>) {
        let AnchorRow {
            time_ms,
            session_id,
            outcome,
            checkpoint_id,
            perf_delta,
            key_impacts,
        } = self;
        put_time_ms(out, *time_ms);
        put_sized(out, session_id.as_bytes());
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        out.push(
            flag(outcome.is_some(), OUTCOME)
                | flag(checkpoint_id.is_some(), CHECKPOINT)
                | flag(perf_delta.is_some(), PERF),
        );
        if let Some(outcome) = outcome {
            put_sized(out, outcome.as_bytes());
        }
        if let Some(id) = checkpoint_id {
            varint::put(out, *id);
        }
        if let Some(number) = perf_delta {
            put_sized(out, number);
        }
        varint::put(out, key_impacts.len() as u64);
        for id in key_impacts {
            put_sized(out, id.as_bytes());
        }
    }

    pub fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let time_ms = reader.time_ms()?;
        let session_id = reader.text()?;
        let flags = reader.byte()?;
        if flags & !(OUTCOME | CHECKPOINT | PERF) != 0 {
            return None;
        }
        let mut row = AnchorRow {
            time_ms,
            session_id,
            outcome: None,
            checkpoint_id: None,
            perf_delta: None,
            key_impacts: Vec::new(),
        };
        if flags & OUTCOME != 0 {
            row.outcome = Some(reader.text()?);
        }
        if flags & CHECKPOINT != 0 {
            row.checkpoint_id = Some(reader.number()?);
        }
        if flags & PERF != 0 {
            row.perf_delta = Some(reader.sized()?);
        }
        for _ in 0..reader.number()? {
            row.key_impacts.push(reader.text()?);
        }
        Some(row)
    }
}
