//! Splits a JSON text that holds messages into its elements and members, as slices of the text.
//!
//! The text around the elements must be valid JSON. An element is parsed in place, which also finds its end. If it cannot be parsed (too
//! deep, bytes that are not UTF-8, no JSON at all), brackets and strings alone decide where it ends, and it is one bad element among
//! good ones.

use std::ops::ControlFlow;

use super::shape::Shape;
use crate::json::{self, Error, Problem, RawString, Value};

/// A JSON text of one of the two kinds that layouts have.
#[derive(Debug)]
pub(super) enum Text<'a> {
    Array(Elements<'a>),
    Object(Object<'a>),
}

/// The elements of an array.
#[derive(Debug, Clone, Default)]
pub(super) struct Elements<'a> {
    /// Each without the white space around it.
    pub texts: Vec<&'a [u8]>,
    /// How many of these are objects that can be read.
    pub objects: usize,
}

/// What looks at the elements of an array, one after the other: at their shapes, `None` being no JSON object. `Break` ends the reading.
pub(super) type Look<'l> = &'l mut dyn FnMut(Option<Shape>) -> ControlFlow<()>;

/// The members of an object, in order. A key may be there twice.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    members: Vec<Member<'a>>,
}

#[derive(Debug)]
pub(super) struct Member<'a> {
    pub key: RawString<'a>,
    /// The value as it was written.
    pub text: &'a [u8],
    pub value: Value<'a>,
    /// Of an array that may hold messages: its elements, which need not be readable, unlike all other values.
    pub elements: Option<Elements<'a>>,
}

impl<'a> Text<'a> {
    /// Reads a text, and gives the elements of an array to `look`. After a `Break` the array ends with that element.
    ///
    /// Cost: O(bytes), up to a `Break`.
    pub fn read(text: &'a [u8], look: Look<'_>) -> Result<Self, Error> {
        let mut cursor = Cursor { text, rest: text };
        let read = match cursor.peek() {
            Some(b'[') => match cursor.elements(look)? {
                (elements, ControlFlow::Break(())) => return Ok(Text::Array(elements)),
                (elements, ControlFlow::Continue(())) => Text::Array(elements),
            },
            Some(b'{') => Text::Object(cursor.object()?),
            _ => return Err(cursor.expected("'[' or '{'")),
        };
        match cursor.peek() {
            None => Ok(read),
            Some(_) => Err(cursor.error(Problem::Trailing)),
        }
    }
}

impl<'a> Object<'a> {
    /// The member of this key; if the key was given twice, the last one.
    pub fn get(&self, key: &str) -> Option<&Member<'a>> {
        self.members.iter().rev().find(|member| member.key.is(key))
    }

    /// Whether the member is an array that may be one of messages: one with an object in it, or an empty one.
    pub fn has_messages(&self, key: &str) -> bool {
        let elements = self.get(key).and_then(|member| member.elements.as_ref());
        elements.is_some_and(|elements| elements.texts.is_empty() || elements.objects > 0)
    }

    /// Removes the member and returns what `understand` makes of it; leaves it there if that is `None`. Cost: O(members).
    pub fn take<T>(&mut self, key: &str, understand: impl FnOnce(&mut Member<'a>) -> Option<T>) -> Option<T> {
        let place = self.members.iter().rposition(|member| member.key.is(key))?;
        let taken = understand(&mut self.members[place])?;
        self.members.retain(|member| !member.key.is(key));
        Some(taken)
    }

    /// The elements of an array that may hold messages; nothing if there is no such member.
    pub fn take_elements(&mut self, key: &str) -> Vec<&'a [u8]> {
        let elements = self.take(key, |member| member.elements.take());
        elements.unwrap_or_default().texts
    }

    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }
}

/// The members whose arrays may hold messages.
const ARRAYS: [&str; 2] = ["messages", "events"];

struct Cursor<'a> {
    text: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn error(&self, what: Problem) -> Error {
        Error {
            what,
            at: self.text.len() - self.rest.len(),
        }
    }

    fn expected(&self, token: &'static str) -> Error {
        self.error(match self.rest {
            [] => Problem::UnexpectedEnd,
            _ => Problem::Expected(token),
        })
    }

    /// An error of a reader that began here.
    fn placed_here(&self, error: Error) -> Error {
        Error {
            at: self.text.len() - self.rest.len() + error.at,
            ..error
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = json::skip_space(self.rest);
        self.rest.first().copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    /// A value, and its text.
    fn value(&mut self) -> Result<(Value<'a>, &'a [u8]), Error> {
        self.peek();
        let (value, rest) = json::read_front(self.rest).map_err(|error| self.placed_here(error))?;
        let text = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Ok((value, text))
    }

    fn object(&mut self) -> Result<Object<'a>, Error> {
        let mut members = Vec::new();
        if !self.takes(b'{') {
            return Err(self.expected("'{'"));
        }
        if self.takes(b'}') {
            return Ok(Object { members });
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("'\"'"));
            }
            let (Value::String(key), _) = self.value()? else {
                return Err(self.expected("'\"'"));
            };
            if !self.takes(b':') {
                return Err(self.expected("':'"));
            }
            let member = if self.peek() == Some(b'[') && ARRAYS.iter().any(|name| key.is(name)) {
                let before = self.rest;
                let (elements, _) = self.elements(&mut |_| ControlFlow::Continue(()))?;
                let elements = Some(elements);
                let text = &before[..before.len() - self.rest.len()];
                let value = Value::Array(text);
                Member {
                    key,
                    text,
                    value,
                    elements,
                }
            } else {
                let (value, text) = self.value()?;
                let elements = None;
                Member {
                    key,
                    text,
                    value,
                    elements,
                }
            };
            members.push(member);
            if self.takes(b'}') {
                return Ok(Object { members });
            }
            if !self.takes(b',') {
                return Err(self.expected("','"));
            }
        }
    }

    fn elements(&mut self, look: Look<'_>) -> Result<(Elements<'a>, ControlFlow<()>), Error> {
        let mut elements = Elements::default();
        if !self.takes(b'[') {
            return Err(self.expected("'['"));
        }
        if self.takes(b']') {
            return Ok((elements, ControlFlow::Continue(())));
        }
        loop {
            let (text, shape) = self.element()?;
            elements.texts.push(text);
            elements.objects += usize::from(shape.is_some());
            if look(shape).is_break() {
                return Ok((elements, ControlFlow::Break(())));
            }
            if self.takes(b']') {
                return Ok((elements, ControlFlow::Continue(())));
            }
            if !self.takes(b',') {
                return Err(self.expected("','"));
            }
        }
    }

    /// An element, and its shape if it is an object that can be read.
    fn element(&mut self) -> Result<(&'a [u8], Option<Shape>), Error> {
        if self.peek() == Some(b'{') {
            let mut shape = Shape::default();
            if let Ok(rest) = json::read_front_object(self.rest, &mut shape) {
                let text = &self.rest[..self.rest.len() - rest.len()];
                self.rest = rest;
                return Ok((text, Some(shape)));
            }
        }
        let (text, rest) = skim(self.rest).ok_or(Error {
            what: Problem::UnexpectedEnd,
            at: self.text.len(),
        })?;
        if text.is_empty() {
            return Err(self.expected("a value"));
        }
        self.rest = rest;
        Ok((text, None))
    }
}

/// An element of an array by brackets and strings alone, and what stands behind it: a comma or a closing bracket. `None` if the text ends
/// before. Nothing here nests, however deep the text does.
fn skim(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        if in_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' | b']' | b',' if depth == 0 => return true,
            _ => {}
        }
        false
    })?;
    let (element, rest) = text.split_at(end);
    let space = element
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
        .count();
    Some((&element[..end - space], rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Text<'_>, Error> {
        Text::read(text, &mut |_| ControlFlow::Continue(()))
    }

    fn elements(text: &str) -> Vec<String> {
        match read(text.as_bytes()) {
            Ok(Text::Array(array)) => {
                let texts = array.texts.iter();
                texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn bad_elements_end_where_brackets_and_strings_say() {
        assert_eq!(
            elements(" [ 1 ,{\"a\" : [\"]\",\"\\\"\"] } , oops ,{\"b\":},[[\"x,]\"]]\n] "),
            ["1", "{\"a\" : [\"]\",\"\\\"\"] }", "oops", "{\"b\":}", "[[\"x,]\"]]"]
        );
        assert_eq!(elements("[]"), Vec::<String>::new());
    }

    #[test]
    fn what_stands_around_elements_has_to_be_sound() {
        for (text, error) in [
            ("", "unexpected end at byte 0"),
            ("17", "expected '[' or '{' at byte 0"),
            ("[1,2", "unexpected end at byte 4"),
            ("[1,]", "expected a value at byte 3"),
            ("[1]]", "trailing bytes at byte 3"),
            ("[{\"a\":\"]}", "unexpected end at byte 9"),
            ("[1}", "expected ',' at byte 2"),
            ("{\"a\":1,}", "expected '\"' at byte 7"),
            ("{\"a\":oops}", "expected a value at byte 5"),
            ("{\"messages\":[1}", "expected ',' at byte 14"),
            ("{\"messages\":[oops],\"b\"}", "expected ':' at byte 22"),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), error, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_array_comes_apart_into_the_elements_it_was_put_together_from(
            parts in prop::collection::vec(("[ \n\t]{0,2}", prop_oneof![
                Just("1"), Just("null"), Just("\"a\\\"],[\""), Just("{}"), Just("{\"role\":\"user\",\"content\":\"},{\"}"), Just("[[],{}]"), Just("nonsense"), Just("{\"a\":[}}"),
            ], "[ \n\t]{0,2}"), 0..8),
        ) {
            let inside: Vec<String> = parts.iter().map(|(before, part, after)| format!("{before}{part}{after}")).collect();
            let text = format!("[{}]", inside.join(","));
            let expected: Vec<&str> = parts.iter().map(|(_, part, _)| *part).collect();
            prop_assert_eq!(elements(&text), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(prop::sample::select(b"[]{}\",:\\ \xff1amesgvnt".as_slice()), 0..60)) {
            let _ = read(&text);
            let _ = Text::read(&text, &mut |shape| match shape {
                Some(_) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            });
        }
    }
}
