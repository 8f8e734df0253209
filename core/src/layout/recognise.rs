//! Which layout sources are: told apart by their types and by what their rows say. No layout is known here by name.

use std::ops::ControlFlow;

use super::legacy::{Format, Legacy, Row, Rows, ToldBy, Unproved};
use super::shape::Shape;
use super::source::{BadLayout, Field, Kind, Source, Sources};
use super::text::{Object, Text};
use super::uniform::{ElementLayouts, Uniform};
use crate::json;

/// Sources, and the layouts that they may be of.
struct Recogniser<'a> {
    rows: Rows,
    sources: Sources<'a>,
    /// What the elements of the string are, if it is a JSON array.
    in_array: Uniform,
}

/// See [`super::recognise`].
pub(super) fn recognise<'a>(
    rows: Rows,
    sources: &'a [Source<'a>],
    forced: Option<Format>,
) -> Result<Legacy<'a>, BadLayout> {
    if let Some(format) = forced {
        let mut sources = Sources::sorted(sources, |text| Text::read(text, &mut |_| ControlFlow::Continue(())))?;
        check_types(&sources, &format)?;
        return (format.read)(&mut sources);
    }
    let mut in_array = Uniform::among(rows);
    let sources = Sources::sorted(sources, |text| {
        Text::read(text, &mut |shape| {
            let _ = in_array.add(shape);
            ControlFlow::Continue(())
        })
    })?;
    Recogniser {
        rows,
        sources,
        in_array,
    }
    .read()
}

/// See [`super::read_alone`].
pub(super) fn read_alone<'a>(rows: Rows, source: &'a Source<'a>) -> Option<Legacy<'a>> {
    if !matches!(source, Source::String(_) | Source::List(_)) {
        return None;
    }
    let mut in_array = Uniform::among(rows);
    let sources = Sources::sorted(std::slice::from_ref(source), |text| {
        Text::read(text, &mut |shape| in_array.add(shape))
    });
    let recogniser = Recogniser {
        rows,
        sources: sources.ok()?,
        in_array,
    };
    let legacy = recogniser.read().ok()?;
    legacy.format().is_automatic().then_some(legacy)
}

/// Whether the types are those of a forced layout.
fn check_types(sources: &Sources<'_>, row: &Row) -> Result<(), BadLayout> {
    for kind in Kind::ALL {
        if let Some(number) = sources.number(kind).filter(|_| !row.has(kind)) {
            let what = format!("is a {kind}: {} has none", row.name);
            return Err(BadLayout::of(number, what));
        }
    }
    for kind in row.needs {
        if sources.number(*kind).is_none() {
            let what = format!("{} has a {kind}, and no source is one", row.name);
            return Err(BadLayout::of_all(what));
        }
    }
    Ok(())
}

impl<'a> Recogniser<'a> {
    /// What the sources hold, by the layout that types and shapes say.
    fn read(mut self) -> Result<Legacy<'a>, BadLayout> {
        let format = self.layout()?;
        let list = self.sources.number(Kind::List);
        let mut legacy = (format.read)(&mut self.sources)?;
        if matches!(format.told_by, ToldBy::Elements { .. } | ToldBy::HashAndElements(_)) {
            let rows = self.rows;
            legacy.unproved = list.map(|source| Unproved { source, rows });
        }
        Ok(legacy)
    }

    /// The layout that types and shapes say, or the first reason why there is none.
    fn layout(&self) -> Result<Format, BadLayout> {
        let sources = &self.sources;
        match (&sources.string, &sources.list, &sources.hash, &sources.zset) {
            (Some(string), None, None, None) => match &string.value.text {
                Err(error) => Err(BadLayout::of(
                    string.number,
                    format_args!("is not a JSON array or object ({error})"),
                )),
                Ok(Text::Array(_)) => self
                    .array_layout()
                    .ok_or_else(|| self.in_array.bad_layout(string.number)),
                Ok(Text::Object(object)) => self
                    .object_layout(object)
                    .ok_or_else(|| BadLayout::of(string.number, "is a JSON object of no known layout")),
            },
            (None, Some(list), None, None) => self.list_layout(list.value, list.number),
            (Some(_), Some(list), None, None) => match self.list_layout(list.value, list.number)? {
                format if format.has(Kind::String) => Ok(format),
                format => Err(self.stray(Kind::String, format)),
            },
            (None, None, Some(hash), _) => self.hash_layout(hash.value, hash.number),
            (Some(string), None, Some(_), None) => match &string.value.text {
                Ok(Text::Array(array)) if array.texts.is_empty() => self.beside_hash(None),
                Ok(Text::Array(_)) => self.in_array.format().and_then(|of| self.beside_hash(Some(of))),
                _ => return Err(BadLayout::of(string.number, "is not a JSON array of messages")),
            }
            .ok_or_else(|| self.in_array.bad_layout(string.number)),
            (string, Some(list), Some(hash), None) => {
                if let Some(format) = self.hash_with_items(hash.value, list.value) {
                    return match string {
                        Some(_) if !format.has(Kind::String) => Err(self.stray(Kind::String, format)),
                        _ => Ok(format),
                    };
                }
                let of = self.list_layout(list.value, list.number)?;
                match self.beside_hash(Some(of)) {
                    Some(format) if string.is_none() => Ok(format),
                    Some(format) => Err(self.stray(Kind::String, format)),
                    None => Err(self.stray(Kind::Hash, of)),
                }
            }
            (_, _, _, Some(zset)) => {
                let named: Vec<&str> = self
                    .layouts()
                    .filter(|row| row.has(Kind::Zset))
                    .map(Format::name)
                    .collect();
                let named = named.join(" or ");
                Err(BadLayout::of(
                    zset.number,
                    format_args!("is a sorted set: {named} has one, beside a hash and nothing else"),
                ))
            }
            (None, None, None, None) => Err(BadLayout::of_all("there is no source")),
        }
    }

    fn layouts(&self) -> impl Iterator<Item = Format> {
        self.rows.iter().map(|row| row.format())
    }

    /// A source of this type stands beside another that is a layout without it.
    fn stray(&self, kind: Kind, format: Format) -> BadLayout {
        let number = self.sources.number(kind).unwrap_or_default();
        BadLayout::of(
            number,
            format_args!("is a {kind} beside {}, which has none", format.name()),
        )
    }

    /// The layout of a JSON array that stands alone.
    fn array_layout(&self) -> Option<Format> {
        let of = self.in_array.format()?;
        self.layouts()
            .find(|row| matches!(row.told_by, ToldBy::ArrayOf(element) if element.format() == of))
    }

    /// The layout of a JSON object that stands alone: one that fits two is of none.
    fn object_layout(&self, object: &Object<'a>) -> Option<Format> {
        let mut found = self
            .layouts()
            .filter(|row| matches!(row.told_by, ToldBy::Object(matches) if matches(object)));
        found.next().filter(|_| found.next().is_none())
    }

    /// The layout of a list, as far as its first elements say it.
    fn list_layout(&self, list: &[&[u8]], number: usize) -> Result<Format, BadLayout> {
        let mut uniform = Uniform::among(self.rows);
        let _ = list.iter().try_for_each(|element| match uniform.look(element) {
            ControlFlow::Continue(()) if uniform.is_untold() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        if let Some(format) = uniform.format() {
            return Ok(format);
        }
        let lines = || {
            self.layouts()
                .find(|row| matches!(row.told_by, ToldBy::Lines(matches) if matches(list)))
        };
        let lines = if uniform.is_untold() { lines() } else { None };
        lines.ok_or_else(|| uniform.bad_layout(number))
    }

    /// The layout of a hash without elements.
    fn hash_layout(&self, hash: &[Field<'_>], number: usize) -> Result<Format, BadLayout> {
        let mut lacking = Vec::new();
        for format in self.layouts() {
            match format.told_by {
                ToldBy::Hash { matches, .. } if matches(hash) => return Ok(format),
                ToldBy::Hash { lacks, .. } => lacking.push(lacks),
                _ => {}
            }
        }
        Err(BadLayout::of(
            number,
            format_args!("is a hash without {}", lacking.join(", or ")),
        ))
    }

    /// The layout of a hash with elements of that layout; without elements the first that there is.
    fn beside_hash(&self, of: Option<Format>) -> Option<Format> {
        self.layouts().find(|row| match row.told_by {
            ToldBy::HashAndElements(element) => of.is_none_or(|of| element.format() == of),
            _ => false,
        })
    }

    /// The layout of a hash and a list that are told by both.
    fn hash_with_items(&self, hash: &[Field<'_>], list: &[&[u8]]) -> Option<Format> {
        self.layouts().find(|row| match row.told_by {
            ToldBy::HashAndItems {
                matches,
                items_of,
                or_marks,
            } => matches(hash) && self.are_items(list, items_of.format(), or_marks),
            _ => false,
        })
    }

    /// Whether all objects of a list are of that layout, or of none and have these marks, and there is one.
    fn are_items(&self, list: &[&[u8]], of: Format, or_marks: u16) -> bool {
        let mut layouts = ElementLayouts::among(self.rows);
        let mut some = false;
        let all = list.iter().all(|element| {
            let mut shape = Shape::default();
            if json::read_members(element, &mut shape).is_err() {
                return true;
            }
            some = true;
            match layouts.of(shape) {
                Some(format) => format == of,
                None => shape.has(or_marks),
            }
        });
        some && all
    }
}
