//! The legacy layouts: what conversations are kept in before they become sessions, one file a layout.
//!
//! ```text
//!  values of keys ──> recognise ──> Legacy: what they hold, borrowed ──> Session::migrate ──> a session
//!                       │
//!                       └─ by types and the shape of the elements, or as FORMAT says
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
//! | `langchain` | a list of messages, newest first | [`langchain`] |
//! | `motorhead` | a list of lines `Role: content`, newest first, a string with a summary | [`motorhead`] |
//! | `agent-framework` | a list of messages with `contents` | [`agent_framework`] |
//! | `agent-memory` | a string: a JSON object with `messages` and `memories` | [`agent_memory`] |
//! | `adk` | a string: a JSON object with `app_name` and `events` | [`adk`] |
//! | `llama-index` | a list of messages with `blocks` | [`llama_index`] |
//!
//! **Nothing is lost.** Every element becomes a message (or an event) or is *set aside*, byte for byte and in order; every other part of
//! the source becomes what a session has for it, or a member of `meta`. What can be none of these makes the source unreadable: an error,
//! and nothing has changed.
//!
//! - An element that is not one JSON object in UTF-8, nested at most 128 deep, is set aside.
//! - A JSON text has to hold together around its elements: brackets, commas, and all of its other members. Elements themselves are judged
//!   one by one, so that one bad message does not keep the others from migrating.
//! - A member or field that is understood (`created_at`, a `session_id` that is a UUID) need not be in `meta`; one that cannot be
//!   understood is there as it was.
//! - Fields of a hash are strings in `meta`. A field whose name or value is not UTF-8 is an entry of `meta.not_utf8`:
//!   `{"name":…,"value":…}`, both in Base64. A member of the source whose name is needed for something else gets `_` behind its name.

pub mod adk;
pub mod agent_framework;
pub mod agent_memory;
pub mod context;
pub mod hash_list;
pub mod json_array;
pub mod json_list;
pub mod langchain;
pub mod live_hash;
pub mod llama_index;
pub(crate) mod meta;
pub mod motorhead;
pub mod openai_agents;
mod shape;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use uuid::Uuid;

use crate::body::{self, Facts};
use crate::text::json;

use shape::Shape;
pub use shape::Uniform;
use text::Text;

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

/// A legacy layout, by its `FORMAT` word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    JsonArray,
    JsonList,
    Context,
    HashList,
    LiveHash,
    OpenaiAgents,
    Langchain,
    Motorhead,
    AgentFramework,
    AgentMemory,
    Adk,
    LlamaIndex,
}

/// What a layout is made of.
struct Layout {
    format: Format,
    name: &'static str,
    /// Types that must be there, and those that may be.
    needs: &'static [Kind],
    may_have: &'static [Kind],
    read: for<'a> fn(&mut Sources<'a>) -> Result<Legacy<'a>, BadLayout>,
}

#[rustfmt::skip]
const LAYOUTS: [Layout; 12] = [
    Layout { format: Format::JsonArray, name: "json-array", needs: &[Kind::String], may_have: &[], read: json_array::read },
    Layout { format: Format::JsonList, name: "json-list", needs: &[Kind::List], may_have: &[], read: json_list::read },
    Layout { format: Format::Context, name: "context", needs: &[Kind::String], may_have: &[], read: context::read },
    Layout { format: Format::HashList, name: "hash-list", needs: &[Kind::Hash], may_have: &[Kind::List, Kind::String], read: hash_list::read },
    Layout { format: Format::LiveHash, name: "live-hash", needs: &[Kind::Hash], may_have: &[Kind::Zset], read: live_hash::read },
    Layout { format: Format::OpenaiAgents, name: "openai-agents", needs: &[], may_have: &[Kind::Hash, Kind::List, Kind::String], read: openai_agents::read },
    Layout { format: Format::Langchain, name: "langchain", needs: &[Kind::List], may_have: &[], read: langchain::read },
    Layout { format: Format::Motorhead, name: "motorhead", needs: &[Kind::List], may_have: &[Kind::String], read: motorhead::read },
    Layout { format: Format::AgentFramework, name: "agent-framework", needs: &[Kind::List], may_have: &[], read: agent_framework::read },
    Layout { format: Format::AgentMemory, name: "agent-memory", needs: &[Kind::String], may_have: &[], read: agent_memory::read },
    Layout { format: Format::Adk, name: "adk", needs: &[Kind::String], may_have: &[], read: adk::read },
    Layout { format: Format::LlamaIndex, name: "llama-index", needs: &[Kind::List], may_have: &[], read: llama_index::read },
];

impl Format {
    /// All formats, in the order in which they are documented.
    pub fn all() -> impl Iterator<Item = Format> {
        LAYOUTS.iter().map(|layout| layout.format)
    }

    /// The format of that name, whatever its case.
    pub fn named(name: &[u8]) -> Option<Format> {
        LAYOUTS
            .iter()
            .find(|layout| layout.name.as_bytes().eq_ignore_ascii_case(name))
            .map(|layout| layout.format)
    }

    pub fn name(self) -> &'static str {
        self.layout().name
    }

    fn layout(self) -> &'static Layout {
        // The table is in the order of the enum: a test sees to it.
        &LAYOUTS[self as usize]
    }
}

/// Why sources are no layout: what `BADLAYOUT` goes on with. Sources are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLayout(String);

impl BadLayout {
    fn of(source: usize, what: impl fmt::Display) -> Self {
        BadLayout(format!("source {source} {what}"))
    }
}

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLayout {}

/// What sources hold, borrowed from them.
#[derive(Debug)]
pub struct Legacy<'a> {
    format: Format,
    items: Items<'a>,
    /// The number of the list whose elements have to be of one layout, if only its first ones have been looked at.
    unproved: Option<usize>,
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
    pub(crate) meta: meta::Meta<'a>,
}

/// The elements of a layout.
#[derive(Debug)]
enum Items<'a> {
    Bodies {
        texts: Cow<'a, [&'a [u8]]>,
        is_newest_first: bool,
        /// What is not a JSON object may be a line `Role: content`.
        may_be_lines: bool,
    },
    Events(&'a [Scored<'a>]),
}

/// An id, and the member that it was: where another id is given instead, that member goes to `meta`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceId {
    pub(crate) id: Uuid,
    pub(crate) member: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LegacyEntity {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) mention_count: u64,
    /// Where the source does not say it: when the session was made.
    pub(crate) last_mentioned_ms: Option<i64>,
}

/// One element, as it was judged.
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

impl<'a> Legacy<'a> {
    fn new(format: Format, items: Items<'a>) -> Self {
        Legacy {
            format,
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
            meta: meta::Meta::default(),
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

    /// Judges and gives every element, oldest first.
    ///
    /// # Errors
    ///
    /// If an element of a list shows that the list is not of one layout, of which [`recognise`] has seen the beginning only. What was given
    /// until then is of no use.
    ///
    /// Cost: O(bytes); each element is read once.
    pub fn elements(&self, mut each: impl FnMut(Element<'_>)) -> Result<(), BadLayout> {
        match &self.items {
            Items::Bodies {
                texts,
                is_newest_first,
                may_be_lines,
            } => {
                let last = texts.len().wrapping_sub(1);
                let place = |i: usize| if *is_newest_first { last - i } else { i };
                if let Some(source) = self.unproved {
                    let mut uniform = Uniform::default();
                    for i in 0..texts.len() {
                        let text = texts[place(i)];
                        let mut shape = Shape::default();
                        let read = body::read_beside(text, &mut shape);
                        if uniform.add(read.is_ok().then_some(shape)).is_break() {
                            return Err(Uniform::of(texts).bad_layout(source));
                        }
                        each(match read {
                            Ok(facts) => Element::Message { facts, body: text },
                            Err(_) => Element::SetAside(text),
                        });
                    }
                    return Ok(());
                }
                let mut line = Vec::new();
                for i in 0..texts.len() {
                    let text = texts[place(i)];
                    match body::read(text) {
                        Ok(facts) => each(Element::Message { facts, body: text }),
                        Err(_) if *may_be_lines && motorhead::compose(text, &mut line) => match body::read(&line) {
                            Ok(facts) => each(Element::Message { facts, body: &line }),
                            Err(_) => each(Element::SetAside(text)),
                        },
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

impl<'a> Items<'a> {
    fn none() -> Self {
        Items::oldest_first(Vec::new())
    }

    fn oldest_first(texts: impl Into<Cow<'a, [&'a [u8]]>>) -> Self {
        Items::Bodies {
            texts: texts.into(),
            is_newest_first: false,
            may_be_lines: false,
        }
    }

    fn newest_first(texts: &'a [&'a [u8]]) -> Self {
        Items::Bodies {
            texts: texts.into(),
            is_newest_first: true,
            may_be_lines: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    String,
    List,
    Hash,
    Zset,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Zset => "sorted set",
        })
    }
}

/// Sources by their types: no layout has two of one.
#[derive(Debug, Default)]
struct Sources<'a> {
    string: Option<Numbered<StringSource<'a>>>,
    list: Option<Numbered<&'a [&'a [u8]]>>,
    hash: Option<Numbered<&'a [Field<'a>]>>,
    zset: Option<Numbered<&'a [Scored<'a>]>>,
}

#[derive(Debug, Clone)]
struct Numbered<T> {
    number: usize,
    value: T,
}

#[derive(Debug)]
struct StringSource<'a> {
    bytes: &'a [u8],
    /// The same as a JSON array or object.
    text: Result<Text<'a>, json::Error>,
}

impl<'a> Sources<'a> {
    /// Reads strings by `read`.
    fn sorted(
        sources: &'a [Source<'a>],
        read: fn(&'a [u8]) -> Result<Text<'a>, json::Error>,
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

    fn number(&self, kind: Kind) -> Option<usize> {
        match kind {
            Kind::String => self.string.as_ref().map(|source| source.number),
            Kind::List => self.list.as_ref().map(|source| source.number),
            Kind::Hash => self.hash.as_ref().map(|source| source.number),
            Kind::Zset => self.zset.as_ref().map(|source| source.number),
        }
    }

    fn list(&self) -> &'a [&'a [u8]] {
        self.list.as_ref().map_or(&[], |list| list.value)
    }

    fn fields(&self) -> &'a [Field<'a>] {
        self.hash.as_ref().map_or(&[], |hash| hash.value)
    }

    /// The string as a JSON array. Nothing without a string.
    fn take_array(&mut self) -> Result<Vec<&'a [u8]>, BadLayout> {
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
    fn take_object(&mut self) -> Result<(text::Object<'a>, usize), BadLayout> {
        match self.string.take() {
            None => Ok((text::Object::default(), 1)),
            Some(Numbered { number, value }) => match value.text {
                Ok(Text::Object(object)) => Ok((object, number)),
                Ok(Text::Array(_)) => Err(BadLayout::of(number, "is a JSON array, not an object")),
                Err(error) => Err(BadLayout::of(number, format_args!("is not a JSON object ({error})"))),
            },
        }
    }

    fn check_types(&self, layout: &Layout) -> Result<(), BadLayout> {
        for kind in [Kind::String, Kind::List, Kind::Hash, Kind::Zset] {
            let belongs = layout.needs.contains(&kind) || layout.may_have.contains(&kind);
            if let Some(number) = self.number(kind).filter(|_| !belongs) {
                let what = format_args!("is a {kind}: {} has none", layout.name).to_string();
                return Err(BadLayout::of(number, what));
            }
        }
        for kind in layout.needs {
            if self.number(*kind).is_none() {
                return Err(BadLayout(format!("{} has a {kind}, and no source is one", layout.name)));
            }
        }
        Ok(())
    }

    /// The layout that types and shapes say.
    fn recognised(&self) -> Result<Format, BadLayout> {
        match (&self.string, &self.list, &self.hash, &self.zset) {
            (Some(string), None, None, None) => string_format(&string.value).ok_or_else(|| match &string.value.text {
                Err(error) => BadLayout::of(string.number, format_args!("is not a JSON array or object ({error})")),
                Ok(Text::Array(array)) => array.uniform.bad_layout(string.number),
                Ok(Text::Object(_)) => BadLayout::of(string.number, "is a JSON object of no known layout"),
            }),
            (None, Some(list), None, None) => list_format(list.value, list.number),
            (Some(_), Some(list), None, None) => match list_format(list.value, list.number)? {
                Format::Motorhead => Ok(Format::Motorhead),
                format => Err(self.stray(Kind::String, format)),
            },
            (None, None, Some(hash), _) => match live_hash::matches(hash.value) {
                true => Ok(Format::LiveHash),
                false => Err(BadLayout::of(
                    hash.number,
                    "is a hash without agentIds (a JSON array) and state",
                )),
            },
            (Some(string), None, Some(_), None) => match &string.value.text {
                Ok(Text::Array(array))
                    if array.texts.is_empty() || array.uniform.format() == Some(Format::JsonList) =>
                {
                    Ok(Format::HashList)
                }
                Ok(Text::Array(array)) => Err(array.uniform.bad_layout(string.number)),
                _ => Err(BadLayout::of(string.number, "is not a JSON array of messages")),
            },
            (string, Some(list), Some(hash), None) => {
                if openai_agents::matches(hash.value, list.value) {
                    return Ok(Format::OpenaiAgents);
                }
                match list_format(list.value, list.number)? {
                    Format::JsonList if string.is_none() => Ok(Format::HashList),
                    Format::JsonList => Err(self.stray(Kind::String, Format::HashList)),
                    format => Err(self.stray(Kind::Hash, format)),
                }
            }
            (_, _, _, Some(zset)) => Err(BadLayout::of(
                zset.number,
                "is a sorted set: live-hash has one, beside a hash and nothing else",
            )),
            (None, None, None, None) => Err(BadLayout("there is no source".to_owned())),
        }
    }

    /// What the sources hold, by the layout that types and shapes say.
    fn read_as_recognised(mut self) -> Result<Legacy<'a>, BadLayout> {
        let format = self.recognised()?;
        let list = self.number(Kind::List);
        let mut legacy = (format.layout().read)(&mut self)?;
        if !matches!(format, Format::Motorhead | Format::OpenaiAgents) {
            legacy.unproved = list;
        }
        Ok(legacy)
    }

    /// A source of this type stands beside another that is a layout without it.
    fn stray(&self, kind: Kind, format: Format) -> BadLayout {
        let number = self.number(kind).unwrap_or_default();
        BadLayout::of(
            number,
            format_args!("is a {kind} beside {}, which has none", format.name()),
        )
    }
}

/// The layout of a string that stands alone.
fn string_format(string: &StringSource<'_>) -> Option<Format> {
    match string.text.as_ref().ok()? {
        Text::Array(array) => (array.uniform.format() == Some(Format::JsonList)).then_some(Format::JsonArray),
        Text::Object(object) => {
            let mut found = [
                (Format::Context, context::matches(object)),
                (Format::AgentMemory, agent_memory::matches(object)),
                (Format::Adk, adk::matches(object)),
            ]
            .into_iter()
            .filter_map(|(format, matches)| matches.then_some(format));
            // Of two layouts: of none.
            found.next().filter(|_| found.next().is_none())
        }
    }
}

/// The layout of a list, as far as its first elements say it.
fn list_format(list: &[&[u8]], number: usize) -> Result<Format, BadLayout> {
    let mut uniform = Uniform::default();
    let _ = list.iter().try_for_each(|element| match uniform.look(element) {
        ControlFlow::Continue(()) if uniform.is_untold() => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    match uniform.format() {
        Some(format) => Ok(format),
        None if uniform.is_untold() && motorhead::matches(list) => Ok(Format::Motorhead),
        None => Err(uniform.bad_layout(number)),
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
    let mut sources = Sources::sorted(sources, Text::read)?;
    if let Some(format) = forced {
        sources.check_types(format.layout())?;
        return (format.layout().read)(&mut sources);
    }
    sources.read_as_recognised()
}

/// What a single key holds that may be migrated without being asked: a JSON layout of one key in which every element that is a JSON object is
/// of that layout, and at least one is. `None`: leave it alone. Of a list that turns out when its elements are read, as with [`recognise`].
///
/// Cost: O(bytes) of a string, up to the element that decides that it is no layout; of a list O(bytes up to its first JSON object).
pub fn read_alone<'a>(source: &'a Source<'a>) -> Option<Legacy<'a>> {
    if !matches!(source, Source::String(_) | Source::List(_)) {
        return None;
    }
    let sources = Sources::sorted(std::slice::from_ref(source), Text::read_while_uniform).ok()?;
    let legacy = sources.read_as_recognised().ok()?;
    (legacy.format() != Format::Motorhead).then_some(legacy)
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
