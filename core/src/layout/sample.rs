//! A sample of a layout: small sources that are of it and of no other.

use super::source::Source;

/// One source of a sample.
#[derive(Debug, Clone, Copy)]
pub enum Sample {
    String(&'static str),
    List(&'static [&'static str]),
    /// Names and values of fields.
    Hash(&'static [(&'static str, &'static str)]),
    /// Scores and members.
    Zset(&'static [(f64, &'static str)]),
}

impl Sample {
    /// The same as the server would give it.
    pub fn source(&self) -> Source<'static> {
        match *self {
            Sample::String(text) => Source::String(text.as_bytes()),
            Sample::List(elements) => Source::List(elements.iter().map(|element| element.as_bytes()).collect()),
            Sample::Hash(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                Source::Hash(fields.collect())
            }
            Sample::Zset(members) => {
                let members = members.iter().map(|(score, member)| (*score, member.as_bytes()));
                Source::Zset(members.collect())
            }
        }
    }
}
