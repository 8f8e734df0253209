//! Reads what many layouts have in common: ids and times, in the members of an object and in the fields of a hash.

use uuid::Uuid;

use super::legacy::{Legacy, SourceId};
use super::source::{Field, Sources};
use super::text::Object;
use crate::json::Value;
use crate::message::time_of_number;
use crate::time;

/// The id that a member is, if it is a UUID.
pub(super) fn identity_of(object: &Object<'_>, member: &'static str) -> Option<SourceId> {
    let text = object.get(member)?.value.as_string()?;
    let id = Uuid::try_parse(&text).ok()?;
    Some(SourceId { id, member })
}

/// A time as in a message: an ISO 8601 string, or a number.
pub(super) fn time_of_value(value: Value<'_>) -> Option<i64> {
    match value {
        Value::String(text) => time::parse_iso_8601(&text.decode()),
        other => time_of_number(other),
    }
}

/// ISO 8601, or a number as in a message: seconds below 1e11, else milliseconds.
pub(super) fn time_of_text(text: &[u8]) -> Option<i64> {
    time_of_number(Value::Number(text)).or_else(|| time::parse_iso_8601(std::str::from_utf8(text).ok()?))
}

/// The id that a field is, if it is a UUID.
pub(super) fn identity_of_text(text: &[u8], member: &'static str) -> Option<SourceId> {
    let id = Uuid::try_parse_ascii(text).ok()?;
    Some(SourceId { id, member })
}

/// The value of a hash's field.
pub(super) fn field<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|(field, _)| *field == name.as_bytes())
        .map(|(_, value)| *value)
}

/// The fields of a hash that no reader has taken out yet.
pub(super) struct Fields<'a>(Vec<Field<'a>>);

impl<'a> Fields<'a> {
    pub fn of(sources: &Sources<'a>) -> Self {
        Fields(sources.fields().to_vec())
    }

    /// Removes a field and returns what `understand` makes of it; leaves it there if that is `None`.
    pub fn take<T>(&mut self, name: &str, understand: impl FnOnce(&'a [u8]) -> Option<T>) -> Option<T> {
        let place = self.0.iter().position(|(field, _)| *field == name.as_bytes())?;
        let understood = understand(self.0[place].1)?;
        self.0.remove(place);
        Some(understood)
    }

    /// Removes `created_at`, `updated_at` and a `session_id` that is a UUID, and sets the times and the id of `legacy` by them.
    pub fn take_identity(&mut self, legacy: &mut Legacy<'a>) {
        legacy.created_at_ms = self.take("created_at", time_of_text);
        legacy.last_activity_ms = self.take("updated_at", time_of_text);
        legacy.id = self.take("session_id", |id| identity_of_text(id, "session_id"));
    }

    /// Those that have not been taken.
    pub fn rest(&self) -> &[Field<'a>] {
        &self.0
    }
}
