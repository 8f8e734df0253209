//! Whether many elements look alike.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::legacy::{Format, Rows, ToldBy};
use super::shape::Shape;
use super::source::BadLayout;
use crate::json;

/// The layouts that elements of a list may be of.
#[derive(Clone)]
pub(super) struct ElementLayouts {
    /// The one of the highest precedence first.
    layouts: SmallVec<[(&'static [u16], Format); 4]>,
    /// Shapes that were asked for, and their layouts: the elements of a conversation have few different ones.
    known: [(Shape, Option<Format>); KNOWN],
    /// Where the next shape goes.
    next: usize,
}

const KNOWN: usize = 4;

impl ElementLayouts {
    pub fn among(rows: Rows) -> Self {
        let mut layouts: SmallVec<[(u8, &'static [u16], Format); 4]> = rows
            .iter()
            .filter_map(|row| match row.told_by {
                ToldBy::Elements { any_of, precedence } => Some((precedence, any_of, row.format())),
                _ => None,
            })
            .collect();
        layouts.sort_by_key(|(precedence, ..)| std::cmp::Reverse(*precedence));
        let mut layouts = ElementLayouts {
            layouts: layouts
                .into_iter()
                .map(|(_, any_of, format)| (any_of, format))
                .collect(),
            known: [(Shape::default(), None); KNOWN],
            next: 0,
        };
        layouts.known = [(Shape::default(), layouts.search(Shape::default())); KNOWN];
        layouts
    }

    /// The layout of an element of this shape. One that fits several is of the one of the highest precedence.
    #[inline]
    pub fn of(&mut self, shape: Shape) -> Option<Format> {
        match self.known.iter().find(|(known, _)| *known == shape) {
            Some((_, layout)) => *layout,
            None => self.learn(shape),
        }
    }

    #[cold]
    fn learn(&mut self, shape: Shape) -> Option<Format> {
        let layout = self.search(shape);
        self.known[self.next] = (shape, layout);
        self.next = (self.next + 1) % KNOWN;
        layout
    }

    fn search(&self, shape: Shape) -> Option<Format> {
        let fits = |any_of: &[u16]| any_of.iter().any(|marks| shape.has(*marks));
        let found = self.layouts.iter().find(|(any_of, _)| fits(any_of));
        found.map(|(_, format)| *format)
    }
}

/// Whether elements are all of one layout: looks at one after the other, until it is told to stop.
#[derive(Clone)]
pub(super) struct Uniform {
    layouts: ElementLayouts,
    looked_at: u64,
    format: Option<Format>,
    end: Option<End>,
}

/// What ended it.
#[derive(Debug, Clone, Copy)]
enum End {
    /// An element of no layout.
    Unknown,
    /// An element of another layout than those before.
    Other(Format),
}

impl Uniform {
    /// Nothing has been looked at yet.
    pub fn among(rows: Rows) -> Self {
        Uniform {
            layouts: ElementLayouts::among(rows),
            looked_at: 0,
            format: None,
            end: None,
        }
    }

    /// The same after these elements, up to the one that ends it.
    pub fn of(rows: Rows, elements: &[&[u8]]) -> Self {
        let mut uniform = Uniform::among(rows);
        let _ = elements.iter().try_for_each(|element| uniform.look(element));
        uniform
    }

    /// Looks at the next element. What is no JSON object says nothing; `Break` at the one that decides that these are not of one layout.
    ///
    /// Cost: O(bytes of the element).
    pub fn look(&mut self, element: &[u8]) -> ControlFlow<()> {
        let mut shape = Shape::default();
        match json::read_members(element, &mut shape) {
            Ok(()) => self.add(Some(shape)),
            Err(_) => self.add(None),
        }
    }

    /// The same of an element's shape; `None` is no JSON object.
    #[inline]
    pub fn add(&mut self, shape: Option<Shape>) -> ControlFlow<()> {
        if self.end.is_some() {
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        let Some(shape) = shape else {
            return ControlFlow::Continue(());
        };
        match (self.layouts.of(shape), self.format) {
            (Some(format), None) => self.format = Some(format),
            (Some(format), Some(known)) if format == known => {}
            (Some(format), Some(_)) => self.end = Some(End::Other(format)),
            (None, _) => self.end = Some(End::Unknown),
        }
        match self.end {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    /// The layout, as a list, that all elements are of which say something, if any does.
    pub fn format(&self) -> Option<Format> {
        self.format.filter(|_| self.end.is_none())
    }

    /// No element was a JSON object.
    pub fn is_untold(&self) -> bool {
        self.format.is_none() && self.end.is_none()
    }

    /// What is to be said where there is no one layout.
    pub fn bad_layout(&self, source: usize) -> BadLayout {
        let place = self.looked_at;
        match (self.format, self.end) {
            (Some(known), Some(End::Other(other))) => BadLayout::of(
                source,
                format_args!(
                    "has elements of two layouts ({}, and element {place} is {})",
                    known.name(),
                    other.name()
                ),
            ),
            (_, Some(_)) => BadLayout::of(
                source,
                format_args!("is of no known layout (element {place}); FORMAT takes any JSON object"),
            ),
            (Some(format), None) => BadLayout::of(
                source,
                format_args!("has elements of {}, which is a list by itself", format.name()),
            ),
            (None, None) => BadLayout::of(source, "is of no known layout (no element is a JSON object)"),
        }
    }
}
