//! What an element looks like, as far as it tells layouts apart, and whether many look alike.

use std::ops::ControlFlow;

use super::{agent_framework, json_list, langchain, llama_index, BadLayout, Format};
use crate::text::json::{self, RawString, Value};

/// What there is of the members that tell layouts apart. A key given twice counts as given last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape(u16);

impl Shape {
    /// `role` is a string.
    pub const ROLE: u16 = 1;
    /// `content`, of whatever kind: that of a message which calls tools is null.
    pub const CONTENT: u16 = 1 << 1;
    pub const TOOL_CALLS: u16 = 1 << 2;
    pub const TOOL_CALL_ID: u16 = 1 << 3;
    /// `contents`, `blocks` and `data` as an array, an array and an object.
    pub const CONTENTS: u16 = 1 << 4;
    pub const BLOCKS: u16 = 1 << 5;
    pub const DATA: u16 = 1 << 6;
    /// `type` is a string; one that a function call or its output has; one that says who speaks.
    pub const TYPE: u16 = 1 << 7;
    pub const TYPE_OF_CALL: u16 = 1 << 8;
    pub const TYPE_OF_SPEAKER: u16 = 1 << 9;
    /// `type` is `chat_message`, `role` an object.
    pub const TYPE_CHAT_MESSAGE: u16 = 1 << 10;
    pub const ROLE_OBJECT: u16 = 1 << 11;

    const TYPES: u16 = Shape::TYPE | Shape::TYPE_OF_CALL | Shape::TYPE_OF_SPEAKER | Shape::TYPE_CHAT_MESSAGE;

    /// Whether all of these are there.
    pub fn has(self, marks: u16) -> bool {
        self.0 & marks == marks
    }

    /// Whether any of these is there.
    pub fn has_any(self, marks: u16) -> bool {
        self.0 & marks != 0
    }

    #[inline(always)]
    fn set(&mut self, mark: u16, is_so: bool) {
        self.0 = self.0 & !mark | if is_so { mark } else { 0 };
    }

    #[inline(never)]
    fn set_type(&mut self, kind: RawString<'_>) {
        let kind = kind.decode();
        self.0 = self.0 & !Shape::TYPES
            | Shape::TYPE
            | match kind.as_ref() {
                "function_call" | "function_call_output" => Shape::TYPE_OF_CALL,
                "human" | "ai" | "system" | "tool" | "function" | "chat" => Shape::TYPE_OF_SPEAKER,
                // What was streamed is kept as the chunk that all of its chunks add up to.
                "HumanMessageChunk"
                | "AIMessageChunk"
                | "SystemMessageChunk"
                | "ToolMessageChunk"
                | "FunctionMessageChunk"
                | "ChatMessageChunk" => Shape::TYPE_OF_SPEAKER,
                "chat_message" => Shape::TYPE_CHAT_MESSAGE,
                _ => 0,
            };
    }

    /// The mark of a key, if it is one of those that count whatever their value.
    #[inline(always)]
    fn mark(key: &[u8]) -> u16 {
        // By length first: most keys are none of these.
        match key.len() {
            7 if key == b"content" => Shape::CONTENT,
            10 if key == b"tool_calls" => Shape::TOOL_CALLS,
            12 if key == b"tool_call_id" => Shape::TOOL_CALL_ID,
            _ => 0,
        }
    }

    #[cold]
    fn escaped(&mut self, key: RawString<'_>, value: Value<'_>) {
        let key = key.decode();
        let key = RawString::from_parts(key.as_bytes(), false);
        match value {
            Value::String(value) => {
                json::Members::string(self, key, RawString::from_parts(value.raw(), value.is_escaped()))
            }
            _ => json::Members::other(self, key, value),
        }
    }
}

impl<'a> json::Members<'a> for Shape {
    #[inline(always)]
    fn string(&mut self, key: RawString<'a>, value: RawString<'a>) {
        if key.is_escaped() {
            return self.escaped(key, Value::String(value));
        }
        let key = key.raw();
        self.0 |= Shape::mark(key);
        match key.len() {
            4 if key == b"role" => self.0 = self.0 & !Shape::ROLE_OBJECT | Shape::ROLE,
            4 if key == b"type" => self.set_type(value),
            4 if key == b"data" => self.set(Shape::DATA, false),
            6 if key == b"blocks" => self.set(Shape::BLOCKS, false),
            8 if key == b"contents" => self.set(Shape::CONTENTS, false),
            _ => {}
        }
    }

    #[inline(never)]
    fn other(&mut self, key: RawString<'a>, value: Value<'a>) {
        if key.is_escaped() {
            return self.escaped(key, value);
        }
        let key = key.raw();
        self.0 |= Shape::mark(key);
        let (is_array, is_object) = (matches!(value, Value::Array(_)), matches!(value, Value::Object(_)));
        match key {
            b"role" => {
                self.set(Shape::ROLE, false);
                self.set(Shape::ROLE_OBJECT, is_object);
            }
            b"type" => self.set(Shape::TYPES, false),
            b"data" => self.set(Shape::DATA, is_object),
            b"blocks" => self.set(Shape::BLOCKS, is_array),
            b"contents" => self.set(Shape::CONTENTS, is_array),
            _ => {}
        }
    }
}

/// The layout, as a list, of an element of this shape. One that fits several is of the one that asks for more.
pub(super) fn layout_of(shape: Shape) -> Option<Format> {
    if langchain::matches(shape) {
        Some(Format::Langchain)
    } else if agent_framework::matches(shape) {
        Some(Format::AgentFramework)
    } else if llama_index::matches(shape) {
        Some(Format::LlamaIndex)
    } else if json_list::matches(shape) {
        Some(Format::JsonList)
    } else {
        None
    }
}

/// Whether elements are all of one layout: looks at one after the other, until it is told to stop.
///
/// ```
/// use redis_session_core::layout::{Format, Uniform};
///
/// let mut uniform = Uniform::default();
/// assert!(uniform.look(br#"{"role":"user","content":"hi"}"#).is_continue());
/// assert_eq!(uniform.format(), Some(Format::JsonList));
/// assert!(uniform.look(br#"{"job":17}"#).is_break());
/// assert_eq!(uniform.format(), None);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform {
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
    pub(super) fn of(elements: &[&[u8]]) -> Self {
        let mut uniform = Uniform::default();
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
    pub(super) fn add(&mut self, shape: Option<Shape>) -> ControlFlow<()> {
        if self.end.is_some() {
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        let Some(shape) = shape else {
            return ControlFlow::Continue(());
        };
        match (layout_of(shape), self.format) {
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
    pub(super) fn is_untold(&self) -> bool {
        self.format.is_none() && self.end.is_none()
    }

    /// What is to be said where there is no one layout.
    pub(super) fn bad_layout(&self, source: usize) -> BadLayout {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Option<Format> {
        let mut shape = Shape::default();
        json::read_members(text.as_bytes(), &mut shape).unwrap();
        layout_of(shape)
    }

    #[test]
    fn the_more_specific_layout_counts_and_the_last_of_two_equal_keys() {
        for (text, format) in [
            (r#"{"role":"user","content":"x"}"#, Some(Format::JsonList)),
            (r#"{"role":"assistant","content":null}"#, Some(Format::JsonList)),
            (r#"{"role":"assistant","tool_calls":[]}"#, Some(Format::JsonList)),
            (r#"{"role":"tool","tool_call_id":"c"}"#, Some(Format::JsonList)),
            (r#"{"type":"function_call"}"#, Some(Format::JsonList)),
            (r#"{"type":"function_call_output"}"#, Some(Format::JsonList)),
            (r#"{"r\u006fle":"user","content":[]}"#, Some(Format::JsonList)),
            (r#"{"role":"user"}"#, None),
            (r#"{"role":5,"content":"x"}"#, None),
            (r#"{"role":"user","role":5,"content":"x"}"#, None),
            (r#"{"content":"x"}"#, None),
            (r#"{"type":"job","data":{}}"#, None),
            (r#"{"type":"human","data":{}}"#, Some(Format::Langchain)),
            (r#"{"type":"AIMessageChunk","data":{}}"#, Some(Format::Langchain)),
            (r#"{"type":"remove","data":{}}"#, None),
            (r#"{"type":"human","data":[]}"#, None),
            (r#"{"type":"human","data":{},"data":"x"}"#, None),
            (r#"{"type":"x","type":"\u0061i","data":{}}"#, Some(Format::Langchain)),
            (
                r#"{"role":"user","content":"x","contents":[]}"#,
                Some(Format::AgentFramework),
            ),
            (
                r#"{"type":"chat_message","role":{"type":"role","value":"user"},"contents":[]}"#,
                Some(Format::AgentFramework),
            ),
            (
                r#"{"type":"message","role":{"type":"role","value":"user"},"contents":[]}"#,
                None,
            ),
            (r#"{"type":"chat_message","role":{},"role":[],"contents":[]}"#, None),
            (r#"{"type":"chat_message","role":{},"content":"x"}"#, None),
            (r#"{"role":"user","content":"x","blocks":[]}"#, Some(Format::LlamaIndex)),
            (r#"{"role":"user","blocks":{}}"#, None),
        ] {
            assert_eq!(shape(text), format, "{text}");
        }
    }
}
