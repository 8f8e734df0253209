//! The directory of one scope: which sessions are registered in it, by id, by alias, by key and by creation.
//!
//! A directory holds no copy of a session's data. State, counts and times are looked up in the session when they are read, by functions
//! that the caller provides; the same look-up says whether the key still holds that session. If it does not, the entry is *dead*: it is
//! never shown, its alias is free, and [`Directory::prune`] and [`Directory::register`] eventually remove it. Only the caller can know
//! which entries are dead; the keys of a replica may lag, so removals are replicated to it.
//!
//! ```text
//!  by_id ──────────┐
//!  by_key ─────────┤     +--------+----+---------------------+-------------+----------+------+
//!  by_creation ────┼───► | counts | id | created_at_ms, order| alias bytes | autoname | text | ───► | key | alias |
//!  by_alias ───────┘     +--------+----+---------------------+-------------+----------+------+
//!  (of those with one)
//! ```
//!
//! An entry is one block of 72 bytes (80 as allocators give them), one for its two texts, and a pointer in each of the four orders, which
//! are B-trees: about 155 bytes plus the texts. 100,000 entries with keys of 52 bytes and aliases of 12 take 22 to 23 MB. Entries are
//! immutable: a directory and its copies share them.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use uuid::Uuid;

use crate::ordered::{shared_bytes, By, Order, Stamp, POINTER_BYTES};
use crate::payload::format1::directory::EntryRow;
use crate::payload::kind::{self, Reader};
use crate::payload::PayloadError;
use crate::session::Session;
use crate::text::glob;
use crate::text::json;
use crate::text::time::{self, MAX_TIME_MS, MIN_TIME_MS};
use crate::text::varint;

/// The maximum length of an alias; the minimum is 1.
pub const MAX_ALIAS_BYTES: usize = 255;

/// An alias, made by [`check_alias`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias<'a>(&'a str);

impl<'a> Alias<'a> {
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

impl Deref for Alias<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

/// The rule that a text breaks which should be an alias. [`fmt::Display`] gives the text after `BADALIAS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasError {
    Length { bytes: usize },
    NotUtf8,
    Slash,
    Backslash,
    Control { code: u32 },
    Dots,
    Space,
    Uuid,
}

impl fmt::Display for AliasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AliasError::Length { bytes } => write!(f, "an alias has 1 to {MAX_ALIAS_BYTES} bytes, not {bytes}"),
            AliasError::NotUtf8 => f.write_str("an alias is UTF-8 text"),
            AliasError::Slash => f.write_str("an alias holds no '/'"),
            AliasError::Backslash => f.write_str("an alias holds no '\\'"),
            AliasError::Control { code: 0 } => f.write_str("an alias holds no NUL"),
            AliasError::Control { code } => write!(f, "an alias holds no control characters, as U+{code:04X} is"),
            AliasError::Dots => f.write_str("an alias is neither '.' nor '..'"),
            AliasError::Space => f.write_str("an alias has no space at either end"),
            AliasError::Uuid => f.write_str("an alias is not shaped like a UUID"),
        }
    }
}

impl std::error::Error for AliasError {}

/// Returns the alias if these bytes are one, else the rule they break: 1 to 255 bytes of UTF-8, no `/`, `\`, NUL or control character (C0,
/// DEL, C1), neither `.` nor `..`, no white space at either end, not shaped like a UUID.
///
/// White space is whatever Unicode calls so: names that differ only in spaces at an end would look the same. Shaped like a UUID is whatever
/// [`parse_id`] accepts, so that no word is both an alias and an id.
///
/// ```
/// use redis_session_core::directory::{check_alias, AliasError};
///
/// assert_eq!(check_alias("münchen 2".as_bytes()).map(|alias| alias.as_str()), Ok("münchen 2"));
/// assert_eq!(check_alias(b"a/b"), Err(AliasError::Slash));
/// assert_eq!(AliasError::Slash.to_string(), "an alias holds no '/'");
/// ```
pub fn check_alias(bytes: &[u8]) -> Result<Alias<'_>, AliasError> {
    if !(1..=MAX_ALIAS_BYTES).contains(&bytes.len()) {
        return Err(AliasError::Length { bytes: bytes.len() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| AliasError::NotUtf8)?;
    for letter in text.chars() {
        match letter {
            '/' => return Err(AliasError::Slash),
            '\\' => return Err(AliasError::Backslash),
            _ if letter.is_control() => {
                return Err(AliasError::Control {
                    code: u32::from(letter),
                })
            }
            _ => {}
        }
    }
    if text == "." || text == ".." {
        return Err(AliasError::Dots);
    }
    if text.trim() != text {
        return Err(AliasError::Space);
    }
    if parse_id(bytes).is_some() {
        return Err(AliasError::Uuid);
    }
    Ok(Alias(text))
}

/// Parses a session id, ignoring case: 8-4-4-4-12 hexadecimal digits, the same in braces or after `urn:uuid:`, or 32 digits without
/// hyphens.
pub fn parse_id(bytes: &[u8]) -> Option<Uuid> {
    Uuid::try_parse_ascii(bytes).ok()
}

/// One registered session. Entries are equal if they hold the same data of the same session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    id: Uuid,
    stamp: Stamp,
    /// The key, then the alias.
    text: Box<[u8]>,
    /// 0 if there is no alias.
    alias_bytes: u8,
    is_autoname: bool,
}

impl Entry {
    fn new(id: Uuid, stamp: Stamp, key: &[u8], alias: Option<&str>, is_autoname: bool) -> Self {
        let alias = alias.unwrap_or("");
        Entry {
            id,
            stamp,
            text: [key, alias.as_bytes()].concat().into_boxed_slice(),
            // An alias has at most 255 bytes.
            alias_bytes: alias.len() as u8,
            is_autoname: is_autoname && !alias.is_empty(),
        }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns the key that held the session when it was registered.
    pub fn key(&self) -> &[u8] {
        &self.text[..self.text.len() - usize::from(self.alias_bytes)]
    }

    pub fn alias(&self) -> Option<&str> {
        std::str::from_utf8(self.alias_bytes())
            .ok()
            .filter(|alias| !alias.is_empty())
    }

    /// Returns whether the alias was given as made up by a program. This is only shown.
    pub fn is_autoname(&self) -> bool {
        self.is_autoname
    }

    /// Returns the creation time, which `LIST` sorts by. It cannot become stale: a session's `created_at` never changes.
    pub fn created_at_ms(&self) -> i64 {
        self.stamp.time_ms
    }

    /// Appends `{"id","key","alias","autoname","created_at","last_activity","state","message_count"}` of the session that the key holds.
    /// Bytes of the key that are not UTF-8 become U+FFFD.
    ///
    /// Cost: that of [`Session::message_count`].
    pub fn write_json(&self, session: &Session, now_ms: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":\"");
        let mut buffer = Uuid::encode_buffer();
        out.extend_from_slice(self.id.hyphenated().encode_lower(&mut buffer).as_bytes());
        out.extend_from_slice(b"\",\"key\":");
        json::write_string(out, &String::from_utf8_lossy(self.key()));
        out.extend_from_slice(b",\"alias\":");
        match self.alias() {
            Some(alias) => json::write_string(out, alias),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(format!(",\"autoname\":{},\"created_at\":", self.is_autoname).as_bytes());
        time::write_json(out, Some(session.created_at_ms()));
        out.extend_from_slice(b",\"last_activity\":");
        time::write_json(out, Some(session.last_activity_ms()));
        out.extend_from_slice(b",\"state\":");
        json::write_string(out, session.state());
        out.extend_from_slice(format!(",\"message_count\":{}}}", session.message_count(now_ms)).as_bytes());
    }

    fn alias_bytes(&self) -> &[u8] {
        &self.text[self.text.len() - usize::from(self.alias_bytes)..]
    }
}

struct ById;
struct ByKey;
struct ByAlias;
struct ByCreation;

impl Order for ById {
    type Value = Entry;
    type Part = Uuid;

    fn part(entry: &Entry) -> &Uuid {
        &entry.id
    }
}

impl Order for ByKey {
    type Value = Entry;
    type Part = [u8];

    fn part(entry: &Entry) -> &[u8] {
        entry.key()
    }
}

impl Order for ByAlias {
    type Value = Entry;
    type Part = [u8];

    fn part(entry: &Entry) -> &[u8] {
        entry.alias_bytes()
    }
}

impl Order for ByCreation {
    type Value = Entry;
    type Part = Stamp;

    fn part(entry: &Entry) -> &Stamp {
        &entry.stamp
    }
}

impl Borrow<Uuid> for By<ById> {
    fn borrow(&self) -> &Uuid {
        ById::part(&self.0)
    }
}

impl Borrow<[u8]> for By<ByKey> {
    fn borrow(&self) -> &[u8] {
        ByKey::part(&self.0)
    }
}

impl Borrow<[u8]> for By<ByAlias> {
    fn borrow(&self) -> &[u8] {
        ByAlias::part(&self.0)
    }
}

impl Borrow<Stamp> for By<ByCreation> {
    fn borrow(&self) -> &Stamp {
        ByCreation::part(&self.0)
    }
}

/// The arguments of [`Directory::register`].
#[derive(Debug, Clone, Copy)]
pub struct Registration<'a> {
    pub id: Uuid,
    /// Any bytes.
    pub key: &'a [u8],
    /// The session's own creation time.
    pub created_at_ms: i64,
    /// `None` keeps the alias of a known session. For a session that was newly created, first remove any entry with its id: that belongs to
    /// another session.
    pub alias: Option<NewAlias<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewAlias<'a> {
    pub name: Alias<'a>,
    pub is_autoname: bool,
}

/// The result of a registration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    /// Whether the id was not registered before.
    pub is_new: bool,
    /// Whether anything changed.
    pub changed: bool,
    /// The entries removed for this one: of another session at the same key, and of another session with the same alias.
    pub displaced: Vec<Uuid>,
}

/// Which part of the found entries a list returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Number of entries to skip.
    pub offset: u64,
    /// Maximum number of entries.
    pub count: u64,
}

impl Page {
    pub const ALL: Page = Page {
        offset: 0,
        count: u64::MAX,
    };

    fn sizes(self) -> (usize, usize) {
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        (size(self.offset), size(self.count))
    }
}

/// The registered sessions of one scope.
///
/// ```
/// use redis_session_core::directory::{check_alias, Directory, NewAlias, Page, Registration};
/// use uuid::Uuid;
///
/// let mut directory = Directory::default();
/// let alias = |name: &'static str| NewAlias {
///     name: check_alias(name.as_bytes()).expect("an alias"),
///     is_autoname: false,
/// };
/// for (id, name) in [(1, "billing"), (2, "support")] {
///     directory.register(&Registration {
///         id: Uuid::from_u128(id),
///         key: format!("session:{{acme}}:{id}").as_bytes(),
///         created_at_ms: 1_768_384_800_000,
///         alias: Some(alias(name)),
///     });
/// }
/// assert_eq!(directory.resolve(b"billing").map(|entry| entry.id()), Some(Uuid::from_u128(1)));
///
/// // The first key is gone: the session is not listed, and its alias can be taken.
/// let is_live = |id: Uuid| id != Uuid::from_u128(1);
/// let listed = directory.list(None, Page::ALL, |entry| is_live(entry.id()).then_some(()));
/// assert_eq!(listed.len(), 1);
/// let renamed = directory.rename(Uuid::from_u128(2), alias("billing")).expect("a registered session");
/// assert_eq!(renamed.displaced, [Uuid::from_u128(1)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Directory {
    by_id: BTreeSet<By<ById>>,
    by_key: BTreeSet<By<ByKey>>,
    by_alias: BTreeSet<By<ByAlias>>,
    by_creation: BTreeSet<By<ByCreation>>,
    next_order: u64,
    text_bytes: usize,
    /// The last id that [`Directory::prune`] visited. It is not content: each server has its own.
    pruned_up_to: Option<Uuid>,
}

impl Directory {
    /// Returns the number of entries, including dead ones.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Finds the entry of a session id. Cost: O(log entries).
    pub fn by_id(&self, id: Uuid) -> Option<&Entry> {
        self.by_id.get(&id).map(|entry| &*entry.0)
    }

    /// Finds the entry with exactly this alias. Cost: O(log entries).
    pub fn by_alias(&self, alias: &[u8]) -> Option<&Entry> {
        self.by_alias.get(alias).map(|entry| &*entry.0)
    }

    /// Finds the entry of a key. Cost: O(log entries).
    pub fn by_key(&self, key: &[u8]) -> Option<&Entry> {
        self.by_key.get(key).map(|entry| &*entry.0)
    }

    /// Finds the entry of an id (in any form that [`parse_id`] accepts) or an alias; it may be dead. Cost: O(log entries).
    pub fn resolve(&self, alias_or_id: &[u8]) -> Option<&Entry> {
        match parse_id(alias_or_id) {
            Some(id) => self.by_id(id),
            None => self.by_alias(alias_or_id),
        }
    }

    /// Iterates over all entries, including dead ones: newest created first, of equal times the one registered later first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        self.by_creation.iter().rev().map(|entry| &*entry.0)
    }

    /// Returns a page of the live entries, newest created first, of equal times the one registered later first, each with the result of
    /// `look_up`, which is `None` for dead entries. `pattern` is a glob that the alias must match; a missing alias is matched as an empty
    /// text.
    ///
    /// Cost: O(offset + count) look-ups, and one for each dead entry on the way; with a pattern, also O(entries on the way) matches.
    pub fn list<'d, T>(
        &'d self,
        pattern: Option<&[u8]>,
        page: Page,
        mut look_up: impl FnMut(&'d Entry) -> Option<T>,
    ) -> Vec<(&'d Entry, T)> {
        let (offset, count) = page.sizes();
        self.newest_first()
            .filter(|entry| does_match(pattern, entry))
            .filter_map(|entry| look_up(entry).map(|found| (entry, found)))
            .skip(offset)
            .take(count)
            .collect()
    }

    /// Like [`Directory::list`], most recently active first: `look_up` also returns the time of the last activity, in Unix milliseconds. Of
    /// equal times, the entry registered later comes first.
    ///
    /// Cost: O(entries) look-ups; only the page is sorted, not all entries.
    pub fn list_by_activity<'d, T>(
        &'d self,
        pattern: Option<&[u8]>,
        page: Page,
        mut look_up: impl FnMut(&'d Entry) -> Option<(i64, T)>,
    ) -> Vec<(&'d Entry, T)> {
        let (offset, count) = page.sizes();
        let mut found: Vec<_> = self
            .newest_first()
            .filter(|entry| does_match(pattern, entry))
            .filter_map(|entry| look_up(entry).map(|(active_ms, found)| (active_ms, entry, found)))
            .collect();
        let newest_first =
            |(active_ms, entry, _): &(i64, &Entry, T)| std::cmp::Reverse((*active_ms, entry.stamp.order));
        let end = offset.saturating_add(count);
        if end > 0 && end < found.len() {
            found.select_nth_unstable_by_key(end - 1, newest_first);
        }
        found.truncate(end);
        found.sort_unstable_by_key(newest_first);
        found
            .into_iter()
            .skip(offset)
            .map(|(_, entry, found)| (entry, found))
            .collect()
    }

    /// Registers a session, or moves a known one to another key or alias. A known one keeps its position among equal times.
    ///
    /// A key holds one session, so another entry with the same key is stale and is removed. Another entry with the same alias is removed
    /// too: the caller, or a primary, has found it dead.
    ///
    /// Cost: O(log entries).
    pub fn register(&mut self, registration: &Registration<'_>) -> Registered {
        let known = self.by_id.get(&registration.id).map(|known| Arc::clone(&known.0));
        let (alias, is_autoname) = match (registration.alias, &known) {
            (Some(alias), _) => (Some(alias.name.as_str()), alias.is_autoname),
            (None, Some(known)) => (known.alias(), known.is_autoname),
            (None, None) => (None, false),
        };
        let stamp = Stamp {
            // A payload is only decoded if its times are in this range.
            time_ms: registration.created_at_ms.clamp(MIN_TIME_MS, MAX_TIME_MS),
            order: known.as_ref().map_or(self.next_order, |known| known.stamp.order),
        };
        let entry = Entry::new(registration.id, stamp, registration.key, alias, is_autoname);
        if known.as_deref() == Some(&entry) {
            return Registered::default();
        }
        match &known {
            Some(known) => self.unlink(known),
            None => self.next_order += 1,
        }
        let mut displaced = Vec::new();
        let at_key = self.by_key(registration.key).map(Entry::id);
        displaced.extend(at_key.filter(|id| self.remove(*id)));
        let of_alias = alias.and_then(|alias| self.by_alias(alias.as_bytes())).map(Entry::id);
        displaced.extend(of_alias.filter(|id| self.remove(*id)));
        self.link(entry);
        Registered {
            is_new: known.is_none(),
            changed: true,
            displaced,
        }
    }

    /// Changes the alias of a registered session, as [`Directory::register`] does; `None` if it is not registered. Cost: O(log entries).
    pub fn rename(&mut self, id: Uuid, alias: NewAlias<'_>) -> Option<Registered> {
        let known = Arc::clone(&self.by_id.get(&id)?.0);
        Some(self.register(&Registration {
            id,
            key: known.key(),
            created_at_ms: known.created_at_ms(),
            alias: Some(alias),
        }))
    }

    /// Removes an entry; returns false if there is none. Cost: O(log entries).
    pub fn remove(&mut self, id: Uuid) -> bool {
        let Some(entry) = self.by_id.get(&id).map(|entry| Arc::clone(&entry.0)) else {
            return false;
        };
        self.unlink(&entry);
        true
    }

    /// Visits the next `visits` entries in the order of their ids, starting after the last one visited, and removes those that are dead;
    /// returns the ids it removed.
    ///
    /// With two or more visits at each write that registers one session, every entry is visited again within as many writes as there are
    /// entries, whatever their ids. Visiting changes no content: if nothing is removed, nothing needs to be replicated.
    ///
    /// Cost: O(log entries + visits).
    pub fn prune(&mut self, visits: usize, mut is_live: impl FnMut(&Entry) -> bool) -> Vec<Uuid> {
        let behind = match &self.pruned_up_to {
            Some(id) => (Bound::Excluded(id), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let visited = self.by_id.range::<Uuid, _>(behind).chain(&self.by_id);
        let (mut last, mut dead) = (None, Vec::new());
        for entry in visited.take(visits.min(self.by_id.len())) {
            last = Some(entry.0.id);
            if !is_live(&entry.0) {
                dead.push(entry.0.id);
            }
        }
        self.pruned_up_to = last.or(self.pruned_up_to);
        dead.retain(|id| self.remove(*id));
        dead
    }

    /// Estimates the heap bytes of the directory, without the value itself. Entries shared with copies count in full. Cost: O(1).
    pub fn heap_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = shared_bytes::<Entry>() + 3 * POINTER_BYTES;
        self.by_id.len() * ENTRY_BYTES + self.by_alias.len() * POINTER_BYTES + self.text_bytes
    }

    /// Returns how many allocations there are to free.
    pub fn free_effort(&self) -> usize {
        self.by_id.len()
    }

    // ---- payload ----------------------------------------------------------------------------------------------------

    /// Encodes the payload of RDB, `DUMP` and `SESSION.LOAD`:
    ///
    /// ```text
    ///  +---------------+--------+----------------------------------------------------------------------+
    ///  | 0x00, 'D', 1  | n      | n x (id | created | key           | alias, 0 bytes: none | flags)      |
    ///  |               | varint |      16 | zigzag  | varint, bytes | varint, bytes        | u8          |
    ///  +---------------+--------+----------------------------------------------------------------------+
    ///   entries: registered first to registered last
    ///   flags: bit 0 autoname
    /// ```
    ///
    /// Cost: O(entries × log entries + bytes).
    pub fn encode_whole(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(kind::DIRECTORY.len() + 10 + self.len() * 28 + self.text_bytes);
        whole.extend_from_slice(&kind::DIRECTORY);
        varint::put(&mut whole, self.len() as u64);
        for entry in self.in_registration_order() {
            let Entry {
                id,
                stamp,
                text: _,
                alias_bytes: _,
                is_autoname,
            } = entry;
            let row = EntryRow {
                id: *id,
                created_at_ms: stamp.time_ms,
                key: entry.key(),
                alias: entry.alias_bytes(),
                is_autoname: *is_autoname,
            };
            row.write(&mut whole);
        }
        whole
    }

    /// Decodes what [`Directory::encode_whole`] wrote; refuses trailing bytes. Validates every rule that holds for a directory.
    ///
    /// Cost: O(entries × log entries + bytes).
    pub fn decode_whole(whole: &[u8]) -> Result<Directory, PayloadError> {
        let mut reader = Reader::new(whole, kind::DIRECTORY)?;
        let mut directory = Directory::default();
        let count = reader.number().ok_or(PayloadError("no count of entries"))?;
        for order in 0..count {
            let entry = read_entry(&mut reader, order).ok_or(PayloadError("an inconsistent entry"))?;
            let is_known = directory.by_id.contains(&entry.id)
                || directory.by_key.contains(entry.key())
                || directory.by_alias.contains(entry.alias_bytes());
            if is_known {
                return Err(PayloadError("an id, key or alias given twice"));
            }
            directory.link(entry);
            directory.next_order = order + 1;
        }
        reader.end()?;
        Ok(directory)
    }

    /// Passes the content to `part`, piece by piece; equal contents give equal parts.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        part(&(self.len() as u64).to_le_bytes());
        for entry in self.in_registration_order() {
            part(entry.id.as_bytes());
            part(&entry.stamp.time_ms.to_le_bytes());
            part(entry.key());
            part(entry.alias_bytes());
            part(&[u8::from(entry.is_autoname)]);
        }
    }

    fn in_registration_order(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.by_id.iter().map(|entry| &*entry.0).collect();
        entries.sort_unstable_by_key(|entry| entry.stamp.order);
        entries
    }

    /// Panics if the orders differ.
    #[cfg(test)]
    fn check_invariants(&self) {
        let with_alias = self.by_id.iter().filter(|entry| entry.0.alias_bytes > 0).count();
        assert_eq!(self.by_key.len(), self.by_id.len(), "keys");
        assert_eq!(self.by_creation.len(), self.by_id.len(), "creations");
        assert_eq!(self.by_alias.len(), with_alias, "aliases");
        for By(entry) in &self.by_id {
            assert!(self.by_key.contains(entry.key()) && self.by_creation.contains(&entry.stamp));
            assert!(entry.alias_bytes == 0 || self.by_alias.contains(entry.alias_bytes()));
            assert!(entry.stamp.order < self.next_order);
        }
        let texts = self.by_id.iter().map(|entry| entry.0.text.len());
        assert_eq!(self.text_bytes, texts.sum::<usize>(), "bytes of texts");
    }

    /// Inserts an entry into all orders; its id, key and alias must not be there.
    fn link(&mut self, entry: Entry) {
        self.text_bytes += entry.text.len();
        let entry = Arc::new(entry);
        if entry.alias_bytes > 0 {
            self.by_alias.insert(By(Arc::clone(&entry)));
        }
        self.by_key.insert(By(Arc::clone(&entry)));
        self.by_creation.insert(By(Arc::clone(&entry)));
        self.by_id.insert(By(entry));
    }

    /// Removes an entry from all orders.
    fn unlink(&mut self, entry: &Entry) {
        self.text_bytes -= entry.text.len();
        if entry.alias_bytes > 0 {
            self.by_alias.remove(entry.alias_bytes());
        }
        self.by_key.remove(entry.key());
        self.by_creation.remove(&entry.stamp);
        self.by_id.remove(&entry.id);
    }
}

fn does_match(pattern: Option<&[u8]>, entry: &Entry) -> bool {
    pattern.is_none_or(|pattern| glob::matches(pattern, entry.alias_bytes()))
}

fn read_entry(reader: &mut Reader<'_>, order: u64) -> Option<Entry> {
    let EntryRow {
        id,
        created_at_ms: time_ms,
        key,
        alias,
        is_autoname,
    } = EntryRow::read(reader)?;
    let alias = match alias {
        [] => None,
        bytes => Some(check_alias(bytes).ok()?.as_str()),
    };
    (alias.is_some() || !is_autoname).then(|| Entry::new(id, Stamp { time_ms, order }, key, alias, is_autoname))
}

#[cfg(test)]
mod tests;
