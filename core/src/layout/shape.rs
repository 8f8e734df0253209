//! The shape of an element: which of the members that tell layouts apart it has.
//!
//! The marks are the vocabulary in which the rows of layouts say what their elements have. A layout that is told by a member which none of
//! them is about adds a mark here.

use crate::json::{self, RawString, Value};

/// A set of marks, one for each kind of member that tells layouts apart. Of a key given twice the last counts.
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
