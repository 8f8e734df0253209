//! Recognises and reads the legacy layouts: the forms in which conversations were kept before there were sessions. One file a layout.
//!
//! ```text
//!  values of keys ──> recognise ──> Legacy: what they hold, borrowed ──> Session::migrate ──> a session
//!                       │
//!                       └─ by types and the shape of the elements, or as FORMAT says
//! ```
//!
//! A layout is one file with one [`Row`], which says how it is recognised, read and found by name, and one line in the list below. All
//! else is made from the rows: the recogniser, the command line's lists, the tables of the documentation. Files of layouts know what stands
//! below them and not the list; the recogniser knows the list and no layout by name:
//!
//! ```text
//!  migrate ──> recognise, elements ──> uniform ─┐
//!              the list of rows ──> adk, …  ────┴─> legacy (Row, Legacy), parts ──> source, names, sample ──> text ──> shape
//! ```
//!
//! | `FORMAT` | values | file |
//! |---|---|---|
//! | `json-array` | a string: a JSON array of messages | [`json_array`] |
//! | `json-list` | a list of messages | [`json_list`] |
//! | `context` | a string: a JSON object with `matter_id` and `messages` | [`context`] |
//! | `hash-list` | a hash of metadata, a list or a JSON array of messages | [`hash_list`] |
//! | `live-hash` | a hash with `agentIds` and `state`, a sorted set of events | [`live_hash`] |
//! | `openai-agents` | a hash with `session_id`, `created_at`, `updated_at`, a list of items, a counter | [`openai_agents`] |
//! | `langchain` | a list of messages with `type` and `data`, newest first | [`langchain`] |
//! | `motorhead` | a list of lines `Role: content`, newest first, a string with a summary | [`motorhead`] |
//! | `agent-framework` | a list of messages with `contents` | [`agent_framework`] |
//! | `agent-memory` | a string: a JSON object with `messages` and `memories` | [`agent_memory`] |
//! | `adk` | a string: a JSON object with `app_name` and `events` | [`adk`] |
//! | `llama-index` | a list of messages with `blocks` | [`llama_index`] |
//!
//! **Nothing is lost.** Every element becomes a message (or an event) or is *set aside*: kept byte for byte and in order. Every other part of
//! the source becomes a part of the session, or a member of its `meta`. A source with a part that can become neither is an error, and
//! nothing has changed.
//!
//! - An element is set aside if it is not one JSON object in UTF-8, nested at most 128 deep.
//! - A JSON text must be valid around its elements: brackets, commas, and all of its other members. Elements are checked one by one, so
//!   that one bad message does not keep the others from migrating.
//! - A member or field that is understood (`created_at`, a `session_id` that is a UUID) may be left out of `meta`; one that cannot be
//!   understood is in `meta` unchanged.
//! - Fields of a hash are strings in `meta`. A field whose name or value is not UTF-8 is an entry of `meta.not_utf8`:
//!   `{"name":…,"value":…}`, both in Base64. A member of the source whose name is needed for another member gets `_` appended to its name.

pub mod adk;
pub mod agent_framework;
pub mod agent_memory;
pub mod context;
mod elements;
pub mod hash_list;
pub mod json_array;
pub mod json_list;
pub mod langchain;
mod legacy;
pub mod live_hash;
pub mod llama_index;
pub(crate) mod meta;
mod migrate;
pub mod motorhead;
mod names;
pub mod openai_agents;
mod parts;
mod recognise;
mod sample;
mod shape;
mod source;
mod text;
mod uniform;

pub use elements::Element;
pub use legacy::{Format, Legacy, Row};
pub use migrate::{Migrated, Migration};
pub use names::KeyName;
pub use sample::Sample;
pub use source::{BadLayout, Field, Kind, Scored, Source};

/// Every layout there is, in the order in which they are documented. To add one, add its file and its line here.
static ROWS: legacy::Rows = &[
    &json_array::ROW,
    &json_list::ROW,
    &context::ROW,
    &hash_list::ROW,
    &live_hash::ROW,
    &openai_agents::ROW,
    &langchain::ROW,
    &motorhead::ROW,
    &agent_framework::ROW,
    &agent_memory::ROW,
    &adk::ROW,
    &llama_index::ROW,
];

impl Format {
    /// All formats, in the order in which they are documented.
    pub fn all() -> impl ExactSizeIterator<Item = Format> {
        ROWS.iter().map(|row| row.format())
    }

    /// The format of that name, whatever its case.
    pub fn named(name: &[u8]) -> Option<Format> {
        Format::all().find(|format| format.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Which layout the sources are, told apart by types and shapes or as `forced` says, and what they hold. Their order says nothing.
///
/// A forced format takes any JSON object for an element; the sources' types have to be those of the layout. Of a list, the first element that
/// is a JSON object says what it is; whether all others are of that layout too turns out when they are read, once, and then
/// [`Legacy::elements`] and [`Session::migrate`](crate::Session::migrate) say so.
///
/// Cost: O(bytes) of strings and of fields; of a list O(bytes up to its first JSON object).
pub fn recognise<'a>(sources: &'a [Source<'a>], forced: Option<Format>) -> Result<Legacy<'a>, BadLayout> {
    recognise::recognise(ROWS, sources, forced)
}

/// What a single key holds that may be migrated without being asked: a JSON layout of one key in which every element that is a JSON object is
/// of that layout, and at least one is. `None`: leave it alone. Of a list that turns out when its elements are read, as with [`recognise`].
///
/// Cost: O(bytes) of a string, up to the element that decides that it is no layout; of a list O(bytes up to its first JSON object).
pub fn read_alone<'a>(source: &'a Source<'a>) -> Option<Legacy<'a>> {
    recognise::read_alone(ROWS, source)
}

/// The layout of a single key, after all of its elements have been read.
#[cfg(test)]
fn recognise_alone(source: &Source<'_>) -> Option<Format> {
    let legacy = read_alone(source)?;
    legacy.elements(|_| ()).ok()?;
    Some(legacy.format())
}

#[cfg(test)]
mod tests;
