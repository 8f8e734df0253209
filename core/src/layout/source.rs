//! The values of keys, as the server gives them, and sorted by type, as layouts read them.

use std::fmt;

use super::text::{Object, Text};
use crate::json;

/// What a legacy key holds, as the server gives it.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    String(&'a [u8]),
    /// In the order of the list.
    List(Vec<&'a [u8]>),
    Hash(Vec<Field<'a>>),
    /// By score.
    Zset(Vec<Scored<'a>>),
}

/// A field of a hash: name and value.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// A member of a sorted set behind its score.
pub type Scored<'a> = (f64, &'a [u8]);

/// The type of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    String,
    List,
    Hash,
    Zset,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::String, Kind::List, Kind::Hash, Kind::Zset];

    /// As the server's command `TYPE` calls it.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Zset => "zset",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Zset => "sorted set",
            other => other.type_name(),
        })
    }
}

/// Why sources are no layout: what `BADLAYOUT` goes on with. Sources are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLayout(String);

impl BadLayout {
    /// Says it of one source, by its number.
    pub(super) fn of(source: usize, what: impl fmt::Display) -> Self {
        BadLayout(format!("source {source} {what}"))
    }

    /// Says it of all of them.
    pub(super) fn of_all(what: impl Into<String>) -> Self {
        BadLayout(what.into())
    }
}

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLayout {}

/// Sources by their types: no layout has two of one.
#[derive(Debug, Default)]
pub(super) struct Sources<'a> {
    pub string: Option<Numbered<StringSource<'a>>>,
    pub list: Option<Numbered<&'a [&'a [u8]]>>,
    pub hash: Option<Numbered<&'a [Field<'a>]>>,
    pub zset: Option<Numbered<&'a [Scored<'a>]>>,
}

/// A source and its number.
#[derive(Debug, Clone)]
pub(super) struct Numbered<T> {
    pub number: usize,
    pub value: T,
}

#[derive(Debug)]
pub(super) struct StringSource<'a> {
    pub bytes: &'a [u8],
    /// The same as a JSON array or object.
    pub text: Result<Text<'a>, json::Error>,
}

impl<'a> Sources<'a> {
    /// Sorts sources by type, and reads a string by `read`.
    pub fn sorted(
        sources: &'a [Source<'a>],
        mut read: impl FnMut(&'a [u8]) -> Result<Text<'a>, json::Error>,
    ) -> Result<Self, BadLayout> {
        let mut sorted = Sources::default();
        for (i, source) in sources.iter().enumerate() {
            let number = i + 1;
            let (kind, is_second) = match source {
                Source::String(bytes) => {
                    let text = read(bytes);
                    let value = StringSource { bytes, text };
                    (
                        Kind::String,
                        sorted.string.replace(Numbered { number, value }).is_some(),
                    )
                }
                Source::List(value) => (Kind::List, sorted.list.replace(Numbered { number, value }).is_some()),
                Source::Hash(value) => (Kind::Hash, sorted.hash.replace(Numbered { number, value }).is_some()),
                Source::Zset(value) => (Kind::Zset, sorted.zset.replace(Numbered { number, value }).is_some()),
            };
            if is_second {
                return Err(BadLayout::of(
                    number,
                    format_args!("is a second {kind}: no layout has two"),
                ));
            }
        }
        Ok(sorted)
    }

    /// The number of the source of this type, if there is one.
    pub fn number(&self, kind: Kind) -> Option<usize> {
        match kind {
            Kind::String => self.string.as_ref().map(|source| source.number),
            Kind::List => self.list.as_ref().map(|source| source.number),
            Kind::Hash => self.hash.as_ref().map(|source| source.number),
            Kind::Zset => self.zset.as_ref().map(|source| source.number),
        }
    }

    /// The elements of the list. Nothing without a list.
    pub fn list(&self) -> &'a [&'a [u8]] {
        self.list.as_ref().map_or(&[], |list| list.value)
    }

    /// The fields of the hash. Nothing without a hash.
    pub fn fields(&self) -> &'a [Field<'a>] {
        self.hash.as_ref().map_or(&[], |hash| hash.value)
    }

    /// The string as a JSON array. Nothing without a string.
    pub fn take_array(&mut self) -> Result<Vec<&'a [u8]>, BadLayout> {
        match self.string.take() {
            None => Ok(Vec::new()),
            Some(Numbered { number, value }) => match value.text {
                Ok(Text::Array(array)) => Ok(array.texts),
                Ok(Text::Object(_)) => Err(BadLayout::of(number, "is a JSON object, not an array")),
                Err(error) => Err(BadLayout::of(number, format_args!("is not a JSON array ({error})"))),
            },
        }
    }

    /// The string as a JSON object, and the string's number.
    pub fn take_object(&mut self) -> Result<(Object<'a>, usize), BadLayout> {
        match self.string.take() {
            None => Ok((Object::default(), 1)),
            Some(Numbered { number, value }) => match value.text {
                Ok(Text::Object(object)) => Ok((object, number)),
                Ok(Text::Array(_)) => Err(BadLayout::of(number, "is a JSON array, not an object")),
                Err(error) => Err(BadLayout::of(number, format_args!("is not a JSON object ({error})"))),
            },
        }
    }
}
