//! The elements of what has been recognised, one after the other.

use super::legacy::{Items, Legacy, Unproved};
use super::shape::Shape;
use super::source::BadLayout;
use super::uniform::Uniform;
use crate::json;
use crate::message::{self, Facts};

/// One element: what becomes of it.
#[derive(Debug)]
pub enum Element<'e> {
    Message {
        facts: Facts<'e>,
        body: &'e [u8],
    },
    /// An object that becomes an event.
    Event(&'e [u8]),
    SetAside(&'e [u8]),
}

impl Legacy<'_> {
    /// Reads and gives every element, oldest first.
    ///
    /// # Errors
    ///
    /// If an element of a list shows that the list is not of one layout, of which [`recognise`](super::recognise) has seen the beginning
    /// only. What was given until then is of no use.
    ///
    /// Cost: O(bytes); each element is read once.
    pub fn elements(&self, mut each: impl FnMut(Element<'_>)) -> Result<(), BadLayout> {
        match &self.items {
            Items::Bodies {
                texts,
                is_newest_first,
                compose,
            } => {
                let last = texts.len().wrapping_sub(1);
                let place = |i: usize| if *is_newest_first { last - i } else { i };
                if let Some(Unproved { source, rows }) = self.unproved {
                    let mut uniform = Uniform::among(rows);
                    for i in 0..texts.len() {
                        let text = texts[place(i)];
                        let mut shape = Shape::default();
                        let read = message::read_beside(text, &mut shape);
                        if uniform.add(read.is_ok().then_some(shape)).is_break() {
                            // Said of the list in its own order.
                            return Err(Uniform::of(rows, texts).bad_layout(source));
                        }
                        each(match read {
                            Ok(facts) => Element::Message { facts, body: text },
                            Err(_) => Element::SetAside(text),
                        });
                    }
                    return Ok(());
                }
                let mut composed = Vec::new();
                for i in 0..texts.len() {
                    let text = texts[place(i)];
                    match message::read(text) {
                        Ok(facts) => each(Element::Message { facts, body: text }),
                        Err(_) if compose.is_some_and(|compose| compose(text, &mut composed)) => {
                            match message::read(&composed) {
                                Ok(facts) => each(Element::Message { facts, body: &composed }),
                                Err(_) => each(Element::SetAside(text)),
                            }
                        }
                        Err(_) => each(Element::SetAside(text)),
                    }
                }
            }
            Items::Events(members) => {
                for (_, member) in members.iter() {
                    match json::read_object(member, |_, _| ()) {
                        Ok(()) => each(Element::Event(member)),
                        Err(_) => each(Element::SetAside(member)),
                    }
                }
            }
        }
        Ok(())
    }
}
