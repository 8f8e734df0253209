//! Parts of replies. One that is not there or not as expected is an error that names the command.

use std::fmt::Display;

use redis::Value;
use redis_session_client::{SessionError, tolerant};

use crate::SinkError;

pub(crate) fn unexpected(command: &str, reason: impl Display) -> SinkError {
    SinkError::Redis(SessionError::UnexpectedReply {
        command: command.to_owned(),
        reason: reason.to_string(),
    })
}

pub(crate) fn expected<T>(command: &str, part: Option<T>, what: &str) -> Result<T, SinkError> {
    part.ok_or_else(|| unexpected(command, format_args!("without {what}")))
}

/// The items of an array; nil has none.
pub(crate) fn array(command: &str, reply: Value) -> Result<Vec<Value>, SinkError> {
    match reply {
        Value::Array(_) | Value::Set(_) | Value::Nil => Ok(tolerant::array(reply)),
        _ => Err(unexpected(command, "no array")),
    }
}

/// A string, as it is: what is not UTF-8 is no text to a database either.
pub(crate) fn text(command: &str, reply: Value) -> Result<String, SinkError> {
    let bytes = expected(command, tolerant::bytes(reply), "a string")?;
    String::from_utf8(bytes).map_err(|_| unexpected(command, "a string that is not UTF-8"))
}
