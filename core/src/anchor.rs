//! What recent sessions did to one entity: one anchor a session, kept by count and age. It is all that lasts when the sessions are gone.
//!
//! There may be many entities, each with a handful of anchors: an anchor is one block and its texts, with a pointer in each of two orders,
//! so five of them take 1 to 2 kB. Nothing costs more than O(log anchors) where a command asks for many.

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

/// A text that [`check_number`] has found to be a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number<'a>(&'a str);

impl<'a> Number<'a> {
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// Whether these bytes are a number as JSON writes it, of 65,536 bytes at most. It is kept as it was written: `1.50` stays that.
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
    // There is one reader of JSON: it is asked whether this can stand as a member, and as the only one.
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

/// What a session did to the entity.
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

    /// The text of a JSON number.
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

    /// Whether they say the same, in whatever order they were added.
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
        // In blocks as allocators give them: most of these texts are short.
        let bytes = |text: &str| text.len().next_multiple_of(8);
        let optional = |text: &Option<Box<str>>| text.as_deref().map_or(0, bytes);
        let impacts: usize = self.key_impacts().map(|id| bytes(id) + size_of::<Box<str>>()).sum();
        bytes(&self.session_id) + optional(&self.outcome) + optional(&self.perf_delta) + impacts
    }
}

/// An anchor to be added. Texts have 1 to 65,536 bytes.
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
    /// Of what it tells.
    pub time_ms: i64,
}

/// How many and how old anchors may be; 0 is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnchorBounds {
    pub maxlen: u64,
    pub max_age_ms: u64,
}

/// What adding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// So many anchors there are now; with none, there is no reason for a key.
    pub kept: u64,
    /// False: everything was so already.
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
    /// The age bound of the last addition, which reads go by: time passes between two additions, and a read has no bound of its own.
    max_age_ms: u64,
    text_bytes: usize,
}

impl Anchors {
    /// All anchors, also those that time has passed and nothing has freed.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// The age bound of the last addition, 0 for none.
    pub fn max_age_ms(&self) -> u64 {
        self.max_age_ms
    }

    /// Adds an anchor in the place of the session's former one, then drops what is over `maxlen`, oldest first, or older than `max_age_ms` at
    /// `now_ms`; that may be the one just added.
    ///
    /// Cost: O(log anchors + dropped).
    pub fn add(&mut self, new: &NewAnchor<'_>, bounds: AnchorBounds, now_ms: i64) -> Added {
        let max_age_ms = bounds.max_age_ms.min(MAX_TIME_MS as u64);
        let mut changed = std::mem::replace(&mut self.max_age_ms, max_age_ms) != max_age_ms;
        let text = |text: &str| Box::<str>::from(text);
        let anchor = Anchor {
            stamp: Stamp {
                // Only in this range does it come back from a payload.
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
        // What is there already is added again only to come before others of its time.
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

    /// The session's anchor, unless time has passed it. Cost: O(log anchors).
    pub fn get(&self, session_id: &str, now_ms: i64) -> Option<&Anchor> {
        let passed_before_ms = self.passed_before_ms(now_ms);
        self.by_session
            .get(session_id)
            .map(|anchor| &*anchor.0)
            .filter(|anchor| anchor.stamp.time_ms >= passed_before_ms)
    }

    /// What time has not passed, newest first; of equal times, the one added later.
    pub fn newest_first(&self, now_ms: i64) -> impl Iterator<Item = &Anchor> {
        let passed_before_ms = self.passed_before_ms(now_ms);
        self.by_time
            .iter()
            .rev()
            .map(|anchor| &*anchor.0)
            .take_while(move |anchor| anchor.stamp.time_ms >= passed_before_ms)
    }

    /// What the anchors hold on the heap, the value itself not counted, about. Cost: O(1).
    pub fn heap_bytes(&self) -> usize {
        // However few there are, each of the two orders has a whole node.
        const NODE_BYTES: usize = 112;
        let orders = match self.len() {
            0 => 0,
            len => 2 * NODE_BYTES.max(len * POINTER_BYTES),
        };
        orders + self.len() * shared_bytes::<Anchor>() + self.text_bytes
    }

    /// How many pieces there are to free.
    pub fn free_effort(&self) -> usize {
        self.len()
    }

    /// Gives the texts of `count` anchors `from..` to `relocate`, which may put them elsewhere, unless a copy shares them; returns the anchor
    /// to go on with, or `None` at the end.
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
            // Only what stands in no order may be changed: the texts are what one of them compares.
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

    // ---- outside of memory ------------------------------------------------------------------------------------------

    /// The payload of RDB, `DUMP` and `SESSION.LOAD`:
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

    /// Reads what [`Anchors::encode_whole`] wrote; nothing may follow it. Nothing is believed: every rule that holds for anchors is checked
    /// again, except for their number, which a command has chosen.
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
            let anchor =
                read_anchor(&mut reader, order).ok_or(PayloadError("an anchor that does not hold together"))?;
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

    /// Gives the content part by part, the same for equal contents however they came about.
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

    /// Panics where the two orders do not say the same.
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

    /// Puts an anchor into both orders; its session has none there.
    fn link(&mut self, anchor: Anchor) {
        self.text_bytes += anchor.heap_bytes();
        let anchor = Arc::new(anchor);
        self.by_session.insert(By(Arc::clone(&anchor)));
        self.by_time.insert(By(anchor));
    }

    /// Takes an anchor that is there out of both orders.
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
