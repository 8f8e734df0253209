//! Whether many elements look alike.

use std::ops::ControlFlow;

use super::legacy::{Format, Rows};
use super::shape::Shape;
use super::source::BadLayout;
use crate::json;

/// The layout of an element of this shape. One that fits several is of the one of the highest precedence.
pub(super) fn layout_of(rows: Rows, shape: Shape) -> Option<Format> {
    let fitting = rows
        .iter()
        .filter_map(|row| Some((row.told_by.precedence_of(shape)?, row.format())));
    fitting
        .max_by_key(|(precedence, _)| *precedence)
        .map(|(_, format)| format)
}

/// Whether elements are all of one layout: looks at one after the other, until it is told to stop.
#[derive(Clone)]
pub(super) struct Uniform {
    rows: Rows,
    looked_at: u64,
    format: Option<Format>,
    end: Option<End>,
    /// The shape that was looked at last, and its layout: most elements look like one before.
    last: Option<(Shape, Option<Format>)>,
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
            rows,
            looked_at: 0,
            format: None,
            end: None,
            last: None,
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
    pub fn add(&mut self, shape: Option<Shape>) -> ControlFlow<()> {
        if self.end.is_some() {
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        let Some(shape) = shape else {
            return ControlFlow::Continue(());
        };
        let layout = match self.last {
            Some((last, layout)) if last == shape => layout,
            _ => layout_of(self.rows, shape),
        };
        self.last = Some((shape, layout));
        match (layout, self.format) {
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
