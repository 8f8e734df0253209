//! The types that layouts are made of: a layout's row, and what its reader returns.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use uuid::Uuid;

use super::meta::Meta;
use super::names::KeyName;
use super::sample::Sample;
use super::source::{BadLayout, Field, Kind, Scored, Sources};
use super::text::Object;

/// Describes one layout: how it is named, found, recognised and read. The row is in the layout's file and listed once, in the parent module.
pub struct Row {
    /// Its `FORMAT` word.
    pub name: &'static str,
    /// Describes its values, in Markdown, for the tables of the documentation.
    pub values: &'static str,
    /// Types of sources that must be there, whether it is recognised or forced.
    pub needs: &'static [Kind],
    /// Types that may be there beside them. No layout has a source of any other type.
    pub may_have: &'static [Kind],
    /// The keys of one session by type and name, the first being where the session is to be. The module never looks at names; who walks a
    /// database guesses by them which keys belong together.
    pub keys: &'static [KeyName],
    /// Sources of this layout and of no other.
    pub sample: &'static [Sample],
    pub(super) told_by: ToldBy,
    /// Reads sources of the types above.
    pub(super) read: for<'a> fn(&mut Sources<'a>) -> Result<Legacy<'a>, BadLayout>,
}

/// How a layout is recognised. The recogniser implements these rules and knows no layout by name.
pub(super) enum ToldBy {
    /// A list is of this layout if its elements are: if they have all marks of one of `any_of`. An element that fits several layouts is of
    /// the one of the highest precedence.
    Elements { any_of: &'static [u16], precedence: u8 },
    /// A string that is a JSON array of elements of that layout.
    ArrayOf(&'static Row),
    /// A string that is a JSON object for which this holds, and which is of no other layout by it.
    Object(for<'a> fn(&Object<'a>) -> bool),
    /// A list without any JSON object, for which this holds.
    Lines(fn(&[&[u8]]) -> bool),
    /// A hash for which this holds.
    Hash {
        matches: fn(&[Field<'_>]) -> bool,
        /// The fields that it looks at.
        fields: &'static [&'static str],
        /// What a hash lacks for which it does not hold.
        lacks: &'static str,
    },
    /// A hash for which this holds and a list of objects of that layout, or of none and with these marks; at least one object.
    HashAndItems {
        matches: fn(&[Field<'_>]) -> bool,
        items_of: &'static Row,
        or_marks: u16,
    },
    /// Any hash, and elements of that layout: either a list, or a string that is a JSON array.
    HashAndElements(&'static Row),
}

impl Row {
    /// Whether a session in this layout is one key, which a write to it may migrate without being asked: it is JSON that is told by its own
    /// shape.
    pub fn is_automatic(&self) -> bool {
        matches!(
            self.told_by,
            ToldBy::Elements { .. } | ToldBy::ArrayOf(_) | ToldBy::Object(_)
        )
    }

    /// Whether it is plain text, which may be anything: who walks a database asks for it to be sure.
    pub fn is_plain_text(&self) -> bool {
        matches!(self.told_by, ToldBy::Lines(_))
    }

    /// The fields that a hash of this layout must have, where it is told by its hash; of other layouts none.
    pub fn hash_fields(&self) -> &'static [&'static str] {
        match self.told_by {
            ToldBy::Hash { fields, .. } => fields,
            _ => &[],
        }
    }

    /// The type of its key, if a session in this layout is always one key.
    pub fn only_kind(&self) -> Option<Kind> {
        match self.keys {
            [KeyName { kinds: [kind], .. }] => Some(*kind),
            _ => None,
        }
    }

    /// Whether keys of these types may be one session in this layout: every key that is not optional is there, and nothing else is.
    ///
    /// ```
    /// use redis_session_core::layout::{Format, Kind};
    ///
    /// let format = Format::named(b"hash-list").unwrap();
    /// assert!(format.suits(&[Kind::Hash, Kind::List]));
    /// assert!(!format.suits(&[Kind::Hash]));
    /// assert!(!format.suits(&[Kind::Hash, Kind::List, Kind::Zset]));
    /// ```
    pub fn suits(&self, kinds: &[Kind]) -> bool {
        let is_there = |key: &KeyName| kinds.iter().any(|kind| key.kinds.contains(kind));
        let belongs = |kind: &Kind| self.keys.iter().any(|key| key.kinds.contains(kind));
        self.keys.iter().all(|key| key.is_optional || is_there(key)) && kinds.iter().all(belongs)
    }

    /// Whether it has sources of this type.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.needs.contains(&kind) || self.may_have.contains(&kind)
    }

    pub(super) fn format(&'static self) -> Format {
        Format(self)
    }
}

/// A layout, by its row: two are equal if they are the same row.
#[derive(Clone, Copy)]
pub struct Format(&'static Row);

impl Format {
    /// Its `FORMAT` word.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl Deref for Format {
    type Target = Row;

    fn deref(&self) -> &Row {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        // A row is a static: it has one address.
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// The rows among which layouts are told apart.
pub(super) type Rows = &'static [&'static Row];

/// What sources hold, borrowed from them.
#[derive(Debug)]
pub struct Legacy<'a> {
    pub(super) format: Format,
    pub(super) items: Items<'a>,
    /// A list of which only the first elements have been looked at, and all have to be of one layout.
    pub(super) unproved: Option<Unproved>,
    pub(crate) id: Option<SourceId>,
    pub(crate) scope: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) created_at_ms: Option<i64>,
    pub(crate) last_activity_ms: Option<i64>,
    pub(crate) query_count: Option<u64>,
    pub(crate) ttl_extended_count: Option<u64>,
    pub(crate) maxlen: Option<u64>,
    pub(crate) agents: Vec<String>,
    /// From the least to the most recently mentioned; `None` where the layout keeps none.
    pub(crate) entities: Option<Vec<LegacyEntity>>,
    pub(crate) meta: Meta<'a>,
}

/// A list that may turn out to be of more than one layout.
#[derive(Clone, Copy)]
pub(super) struct Unproved {
    /// Its number among the sources.
    pub source: usize,
    /// The layouts that there are.
    pub rows: Rows,
}

impl fmt::Debug for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}", self.source)
    }
}

/// The elements of a layout.
#[derive(Debug)]
pub(super) enum Items<'a> {
    Bodies {
        texts: Cow<'a, [&'a [u8]]>,
        is_newest_first: bool,
        /// For an element that is no JSON object but may say a message.
        compose: Option<Compose>,
    },
    Events(&'a [Scored<'a>]),
}

/// Puts the message that an element says into `body`; false if it says none.
pub(super) type Compose = fn(element: &[u8], body: &mut Vec<u8>) -> bool;

/// An id, and the member that it was: where another id is given instead, that member goes to `meta`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceId {
    pub id: Uuid,
    pub member: &'static str,
}

/// An entity that a layout keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LegacyEntity {
    pub id: String,
    pub name: String,
    pub kind: String,
    pub aliases: Vec<String>,
    pub mention_count: u64,
    /// Where the source does not say it: when the session was made.
    pub last_mentioned_ms: Option<i64>,
}

impl<'a> Legacy<'a> {
    /// These elements in the layout of this row, and nothing else.
    pub(super) fn new(row: &'static Row, items: Items<'a>) -> Self {
        Legacy {
            format: row.format(),
            items,
            unproved: None,
            id: None,
            scope: None,
            state: None,
            created_at_ms: None,
            last_activity_ms: None,
            query_count: None,
            ttl_extended_count: None,
            maxlen: None,
            agents: Vec::new(),
            entities: None,
            meta: Meta::default(),
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The session's id, if the source has one that is a UUID.
    pub fn id(&self) -> Option<Uuid> {
        self.id.map(|source| source.id)
    }

    /// How many elements there are: messages, events and what is set aside.
    pub fn len(&self) -> usize {
        match &self.items {
            Items::Bodies { texts, .. } => texts.len(),
            Items::Events(members) => members.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Items<'a> {
    pub fn none() -> Self {
        Items::oldest_first(Vec::new())
    }

    pub fn oldest_first(texts: impl Into<Cow<'a, [&'a [u8]]>>) -> Self {
        Items::Bodies {
            texts: texts.into(),
            is_newest_first: false,
            compose: None,
        }
    }

    pub fn newest_first(texts: &'a [&'a [u8]]) -> Self {
        Items::Bodies {
            texts: texts.into(),
            is_newest_first: true,
            compose: None,
        }
    }
}
