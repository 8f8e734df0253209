//! Anchors of one entity: what recent sessions did to it, one anchor per session, bounded by count and age. They outlive the sessions.
//!
//! There may be many entities, each with a handful of anchors: an anchor is one block plus its texts, with a pointer in each of two orders,
//! so five of them take 1 to 2 kB. A command that asks for many pays O(log anchors) for each.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::ordered::{shared_bytes, By, Order, Stamp, POINTER_BYTES};
use crate::payload::format1::anchors::AnchorRow;
use crate::payload::kind::{self, Reader};
use crate::payload::PayloadError;
use crate::text::json::{self, Value};
use crate::text::time::{self, MAX_TIME_MS, MIN_TIME_MS};
use crate::text::varint;
use crate::text::MAX_TEXT_BYTES;

/// The text of a JSON number, made by [`check_number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number<'a>(&'a str);

impl<'a> Number<'a> {
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// Returns the number if these bytes are one in JSON syntax, of 65,536 bytes at most. Its spelling is kept: `1.50` stays `1.50`.
///
/// ```
/// use redis_session_core::anchor::check_number;
///
/// assert_eq!(check_number(b"-1.50e3").map(|number| number.as_str()), Some("-1.50e3"));
/// assert_eq!(check_number(b".5"), None);
/// ```
pub fn check_number(bytes: &[u8]) -> Option<Number<'_>> {
    if !(1..=MAX_TEXT_BYTES).contains(&bytes.len()) {
        return None;
    }
    // The only JSON reader takes objects, so the bytes are read as the value of a member, which must be the only one.
    let object = [b"{\"n\":", bytes, b"}"].concat();
    let (mut members, mut is_number) = (0, false);
    json::read_object(&object, |_, value| {
        members += 1;
        is_number = matches!(value, Value::Number(number) if number == bytes);
    })
    .ok()?;
    let text = std::str::from_utf8(bytes).ok()?;
    (is_number && members == 1).then_some(Number(text))
}

/// What one session did to the entity.
#[derive(Debug, Clone)]
pub struct Anchor {
    stamp: Stamp,
    session_id: Box<str>,
    outcome: Option<Box<str>>,
    checkpoint_id: Option<u64>,
    key_impacts: Box<[Box<str>]>,
    /// A JSON number.
    perf_delta: Option<Box<str>>,
}

impl Anchor {
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    pub fn outcome(&self) -> Option<&str> {
        self.outcome.as_deref()
    }

    pub fn checkpoint_id(&self) -> Option<u64> {
        self.checkpoint_id
    }

    pub fn key_impacts(&self) -> impl Iterator<Item = &str> {
        self.key_impacts.iter().map(|id| &**id)
    }

    /// Returns the text of the JSON number.
    pub fn perf_delta(&self) -> Option<&str> {
        self.perf_delta.as_deref()
    }

    pub fn time_ms(&self) -> i64 {
        self.stamp.time_ms
    }

    /// Appends `{"sessionId","outcome","checkpointId","keyImpacts":[…],"perfDelta","timestamp"}`; without impacts, the array is empty.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sessionId\":");
        json::write_string(out, &self.session_id);
        out.extend_from_slice(b",\"outcome\":");
        match &self.outcome {
            Some(outcome) => json::write_string(out, outcome),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"checkpointId\":");
        match self.checkpoint_id {
            Some(id) => out.extend_from_slice(id.to_string().as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"keyImpacts\":[");
        for (i, id) in self.key_impacts.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            json::write_string(out, id);
        }
        out.extend_from_slice(b"],\"perfDelta\":");
        out.extend_from_slice(self.perf_delta().unwrap_or("null").as_bytes());
        out.extend_from_slice(b",\"timestamp\":");
        time::write_json(out, Some(self.stamp.time_ms));
        out.push(b'}');
    }

    /// Returns whether both have the same content, in whatever order they were added.
    fn says(&self, other: &Anchor) -> bool {
        self.stamp.time_ms == other.stamp.time_ms
            && self.session_id == other.session_id
            && self.outcome == other.outcome
            && self.checkpoint_id == other.checkpoint_id
            && self.key_impacts == other.key_impacts
            && self.perf_delta == other.perf_delta
    }

    fn relocate(&mut self, relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>) {
        let mut moved = |text: &mut Box<str>| {
            let bytes = relocate(std::mem::take(text).into_boxed_bytes());
            *text = String::from_utf8(bytes.into_vec()).unwrap_or_default().into_boxed_str();
        };
        moved(&mut self.session_id);
        self.outcome.iter_mut().for_each(&mut moved);
        self.key_impacts.iter_mut().for_each(&mut moved);
        self.perf_delta.iter_mut().for_each(&mut moved);
    }

    fn heap_bytes(&self) -> usize {
        // Allocators give multiples of 8 bytes, and most of these texts are short.
        let bytes = |text: &str| text.len().next_multiple_of(8);
        let optional = |text: &Option<Box<str>>| text.as_deref().map_or(0, bytes);
        let impacts: usize = self.key_impacts().map(|id| bytes(id) + size_of::<Box<str>>()).sum();
        bytes(&self.session_id) + optional(&self.outcome) + optional(&self.perf_delta) + impacts
    }
}

/// An anchor to add. Texts have 1 to 65,536 bytes.
#[derive(Debug, Clone, Copy)]
pub struct NewAnchor<'a> {
    /// Need not be a UUID.
    pub session_id: &'a str,
    pub outcome: Option<&'a str>,
    /// A seq of that session.
    pub checkpoint_id: Option<u64>,
    /// Ids of entities.
    pub key_impacts: &'a [&'a str],
    pub perf_delta: Option<Number<'a>>,
    /// The time of what the anchor reports, in Unix milliseconds.
    pub time_ms: i64,
}

/// Bounds on the number and the age of anchors; 0 is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnchorBounds {
    pub maxlen: u64,
    pub max_age_ms: u64,
}

/// The result of adding an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Number of anchors that are left; if 0, the key need not exist.
    pub kept: u64,
    /// Whether anything changed; false if an equal anchor existed already.
    pub changed: bool,
}

struct BySession;
struct ByTime;

impl Order for BySession {
    type Value = Anchor;
    type Part = str;

    fn part(anchor: &Anchor) -> &str {
        &anchor.session_id
    }
}

impl Order for ByTime {
    type Value = Anchor;
    type Part = Stamp;

    fn part(anchor: &Anchor) -> &Stamp {
        &anchor.stamp
    }
}

impl Borrow<str> for By<BySession> {
    fn borrow(&self) -> &str {
        BySession::part(&self.0)
    }
}

impl Borrow<Stamp> for By<ByTime> {
    fn borrow(&self) -> &Stamp {
        ByTime::part(&self.0)
    }
}

/// The anchors of one entity.
#[derive(Debug, Clone, Default)]
pub struct Anchors {
    by_session: BTreeSet<By<BySession>>,
    /// Oldest first; of equal times, the one added earlier.
    by_time: BTreeSet<By<ByTime>>,
    next_order: u64,
    /// The age bound of the last addition, used by reads: anchors expire between additions, and a read has no bound of its own.
    max_age_ms: u64,
    text_bytes: usize,
}

impl Anchors {
    /// Returns the number of anchors, including those that have expired but are not freed.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Returns the age bound of the last addition; 0 is no bound.
    pub fn max_age_ms(&self) -> u64 {
        self.max_age_ms
    }

    /// Adds an anchor, replacing the session's former one, then drops those beyond `maxlen`, oldest first, and those older than
    /// `max_age_ms` at `now_ms`; this may drop the one just added.
    ///
    /// Cost: O(log anchors + dropped).
    pub fn add(&mut self, new: &NewAnchor<'_>, bounds: AnchorBounds, now_ms: i64) -> Added {
        let max_age_ms = bounds.max_age_ms.min(MAX_TIME_MS as u64);
        let mut changed = std::mem::replace(&mut self.max_age_ms, max_age_ms) != max_age_ms;
        let text = |text: &str| Box::<str>::from(text);
        let anchor = Anchor {
            stamp: Stamp {
                // A payload is only decoded if its times are in this range.
                time_ms: new.time_ms.clamp(MIN_TIME_MS, MAX_TIME_MS),
                order: self.next_order,
            },
            session_id: text(new.session_id),
            outcome: new.outcome.map(text),
            checkpoint_id: new.checkpoint_id,
            key_impacts: new.key_impacts.iter().copied().map(text).collect(),
            perf_delta: new.perf_delta.map(|number| text(number.0)),
        };
        let stamp = anchor.stamp;
        let known = self.by_session.get(new.session_id).map(|known| Arc::clone(&known.0));
        // An equal anchor is replaced only if others have the same time, to become the newest of them.
        let is_there = known.as_ref().is_some_and(|known| {
            known.says(&anchor)
                && self
                    .by_time
                    .range::<Stamp, _>((Bound::Excluded(known.stamp), Bound::Excluded(stamp)))
                    .next()
                    .is_none()
        });
        if !is_there {
            if let Some(known) = &known {
                self.unlink(known);
                changed = true;
            }
            self.next_order += 1;
            self.link(anchor);
        }
        let passed_before_ms = self.passed_before_ms(now_ms);
        let mut is_added = !is_there;
        while let Some(By(oldest)) = self.by_time.first() {
            let is_over = bounds.maxlen > 0 && self.by_time.len() as u64 > bounds.maxlen;
            if !is_over && oldest.stamp.time_ms >= passed_before_ms {
                break;
            }
            let oldest = Arc::clone(oldest);
            self.unlink(&oldest);
            if is_added && oldest.stamp == stamp {
                is_added = false;
            } else {
                changed = true;
            }
        }
        Added {
            kept: self.by_time.len() as u64,
            changed: changed || is_added,
        }
    }

    /// Returns the session's anchor unless it has expired. Cost: O(log anchors).
    pub fn get(&self, session_id: &str, now_ms: i64) -> Option<&Anchor> {
        let passed_before_ms = self.passed_before_ms(now_ms);
        self.by_session
            .get(session_id)
            .map(|anchor| &*anchor.0)
            .filter(|anchor| anchor.stamp.time_ms >= passed_before_ms)
    }

    /// Iterates over the anchors that have not expired, newest first; of equal times, the one added later comes first.
    pub fn newest_first(&self, now_ms: i64) -> impl Iterator<Item = &Anchor> {
        let passed_before_ms = self.passed_before_ms(now_ms);
        self.by_time
            .iter()
            .rev()
            .map(|anchor| &*anchor.0)
            .take_while(move |anchor| anchor.stamp.time_ms >= passed_before_ms)
    }

    /// Estimates the heap bytes of the anchors, without the value itself. Cost: O(1).
    pub fn heap_bytes(&self) -> usize {
        // However few anchors there are, each of the two orders has a whole node.
        const NODE_BYTES: usize = 112;
        let orders = match self.len() {
            0 => 0,
            len => 2 * NODE_BYTES.max(len * POINTER_BYTES),
        };
        orders + self.len() * shared_bytes::<Anchor>() + self.text_bytes
    }

    /// Returns how many allocations there are to free.
    pub fn free_effort(&self) -> usize {
        self.len()
    }

    /// Passes the texts of the anchors `from..from + count` to `relocate`, which may move them, unless a copy shares them; returns the
    /// anchor to continue with, or `None` at the end.
    ///
    /// Cost: O(from + count × log anchors).
    pub fn relocate(
        &mut self,
        from: usize,
        count: usize,
        relocate: &mut dyn FnMut(Box<[u8]>) -> Box<[u8]>,
    ) -> Option<usize> {
        let stamps: Vec<Stamp> = self
            .by_time
            .iter()
            .skip(from)
            .take(count)
            .filter(|anchor| Arc::strong_count(&anchor.0) == 2)
            .map(|anchor| anchor.0.stamp)
            .collect();
        for stamp in stamps {
            // An anchor is changed only while it is in no order: the texts are what one of the orders compares.
            let Some(By(mut anchor)) = self.by_time.take(&stamp) else {
                continue;
            };
            self.by_session.remove(&*anchor.session_id);
            if let Some(anchor) = Arc::get_mut(&mut anchor) {
                anchor.relocate(relocate);
            }
            self.by_session.insert(By(Arc::clone(&anchor)));
            self.by_time.insert(By(anchor));
        }
        (from + count < self.len()).then_some(from + count)
    }

    // ---- payload ----------------------------------------------------------------------------------------------------

    /// Encodes the payload of RDB, `DUMP` and `SESSION.LOAD`:
    ///
    /// ```text
    ///  +---------------+---------+--------+-----------------
    ///  | 0x00, 'A', 1  | max age | n      | n anchors
    ///  |               | varint  | varint | oldest first, of equal times the one added earlier
    ///  +---------------+---------+--------+-----------------
    ///
    ///  an anchor     +--------+------------+-------+-----------------------------------+--------+-------------+
    ///                | time   | session id | flags | outcome? | checkpoint id? | perf? | m      | m x impact  |
    ///                | zigzag | text       | u8    | text     | varint         | text  | varint | text        |
    ///                +--------+------------+-------+-----------------------------------+--------+-------------+
    ///                 text: varint length, bytes
    ///                 flags: bit 0 an outcome, bit 1 a checkpoint id, bit 2 a perf delta
    /// ```
    ///
    /// Cost: O(bytes).
    pub fn encode_whole(&self) -> Vec<u8> {
        let mut whole = kind::ANCHORS.to_vec();
        varint::put(&mut whole, self.max_age_ms);
        varint::put(&mut whole, self.len() as u64);
        for By(anchor) in &self.by_time {
            let Anchor {
                stamp,
                session_id,
                outcome,
                checkpoint_id,
                key_impacts,
                perf_delta,
            } = &**anchor;
            let row = AnchorRow {
                time_ms: stamp.time_ms,
                session_id,
                outcome: outcome.as_deref(),
                checkpoint_id: *checkpoint_id,
                perf_delta: perf_delta.as_deref().map(str::as_bytes),
                key_impacts: key_impacts.iter().map(|id| &**id).collect(),
            };
            row.write(&mut whole);
        }
        whole
    }

    /// Decodes what [`Anchors::encode_whole`] wrote; refuses trailing bytes. Validates every rule that holds for anchors, except for their
    /// number, which a command has chosen.
    ///
    /// Cost: O(anchors × log anchors + bytes).
    pub fn decode_whole(whole: &[u8]) -> Result<Anchors, PayloadError> {
        let mut reader = Reader::new(whole, kind::ANCHORS)?;
        let max_age_ms = reader
            .number()
            .filter(|max_age_ms| *max_age_ms <= MAX_TIME_MS as u64)
            .ok_or(PayloadError("a max age out of range"))?;
        let mut anchors = Anchors {
            max_age_ms,
            ..Anchors::default()
        };
        let count = reader.number().ok_or(PayloadError("no count of anchors"))?;
        for order in 0..count {
            let anchor = read_anchor(&mut reader, order).ok_or(PayloadError("an inconsistent anchor"))?;
            if anchors.by_time.last().is_some_and(|By(last)| last.stamp > anchor.stamp) {
                return Err(PayloadError("anchors out of order"));
            }
            if anchors.by_session.contains(&*anchor.session_id) {
                return Err(PayloadError("a session's anchor given twice"));
            }
            anchors.link(anchor);
            anchors.next_order = order + 1;
        }
        reader.end()?;
        Ok(anchors)
    }

    /// Passes the content to `part`, piece by piece; equal contents give equal parts.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        part(&self.max_age_ms.to_le_bytes());
        part(&(self.len() as u64).to_le_bytes());
        for By(anchor) in &self.by_time {
            part(&anchor.stamp.time_ms.to_le_bytes());
            part(anchor.session_id.as_bytes());
            part(anchor.outcome().unwrap_or("").as_bytes());
            part(&anchor.checkpoint_id.map_or([0; 9], |id| {
                let mut bytes = [1; 9];
                bytes[1..].copy_from_slice(&id.to_le_bytes());
                bytes
            }));
            part(anchor.perf_delta().unwrap_or("").as_bytes());
            part(&(anchor.key_impacts.len() as u64).to_le_bytes());
            for id in anchor.key_impacts() {
                part(id.as_bytes());
            }
        }
    }

    /// Panics if the two orders differ.
    #[cfg(test)]
    fn check_invariants(&self) {
        assert_eq!(
            self.by_session.len(),
            self.by_time.len(),
            "an anchor stands in both orders"
        );
        for By(anchor) in &self.by_time {
            assert!(self.by_session.contains(&*anchor.session_id));
            assert!(anchor.stamp.order < self.next_order);
        }
        let texts = self.by_time.iter().map(|anchor| anchor.0.heap_bytes());
        assert_eq!(self.text_bytes, texts.sum::<usize>(), "bytes of texts");
    }

    fn passed_before_ms(&self, now_ms: i64) -> i64 {
        match self.max_age_ms {
            0 => i64::MIN,
            max_age_ms => now_ms.saturating_sub_unsigned(max_age_ms),
        }
    }

    /// Inserts an anchor into both orders; its session must have none there.
    fn link(&mut self, anchor: Anchor) {
        self.text_bytes += anchor.heap_bytes();
        let anchor = Arc::new(anchor);
        self.by_session.insert(By(Arc::clone(&anchor)));
        self.by_time.insert(By(anchor));
    }

    /// Removes an anchor from both orders.
    fn unlink(&mut self, anchor: &Anchor) {
        self.text_bytes -= anchor.heap_bytes();
        self.by_session.remove(&*anchor.session_id);
        self.by_time.remove(&anchor.stamp);
    }
}

fn read_anchor(reader: &mut Reader<'_>, order: u64) -> Option<Anchor> {
    let AnchorRow {
        time_ms,
        session_id,
        outcome,
        checkpoint_id,
        perf_delta,
        key_impacts,
    } = AnchorRow::read(reader)?;
    let perf_delta = match perf_delta {
        None => None,
        Some(spelled) => Some(check_number(spelled)?.0.into()),
    };
    Some(Anchor {
        stamp: Stamp { time_ms, order },
        session_id: session_id.into(),
        outcome: outcome.map(Into::into),
        checkpoint_id,
        key_impacts: key_impacts.into_iter().map(Into::into).collect(),
        perf_delta,
    })
}

#[cfg(test)]
mod tests;
