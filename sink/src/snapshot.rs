//! What is read from a session that ended: first how it ended, cheaply; then everything, as it is.

use redis::{Cmd, Pipeline, Value};
use redis_session_client::{SessionError, SessionId, Timestamp, tolerant};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::SinkError;
use crate::reply::{array, expected, text, unexpected};
use crate::source::Commands;

/// A closed session and the checkpoint that closed it. What makes a row of the table, and only one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ended {
    pub(crate) session_id: SessionId,
    pub(crate) checkpoint_id: u64,
    pub(crate) closed_at: Timestamp,
    pub(crate) outcome: String,
}

/// Everything of a session, as JSON to the byte.
pub(crate) struct Snapshot {
    /// What `SESSION.GET` replies.
    pub(crate) document: String,
    /// An array of what `SESSION.EVENT RANGE` replies.
    pub(crate) events: String,
    /// The checkpoint that closed it.
    pub(crate) checkpoint: String,
    /// The recovery reference, if there is one at its conventional key.
    pub(crate) reference: Option<String>,
}

#[derive(Deserialize)]
struct Identity {
    session_id: SessionId,
    #[serde(default)]
    closed_at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Closing {
    checkpoint_id: u64,
    #[serde(default)]
    outcome: Option<String>,
}

/// When the session at this key was closed, if there is one and it was. What else is at the key is no session and no error.
pub(crate) async fn closed_at(
    commands: &mut Commands,
    key: &[u8],
) -> Result<Option<(SessionId, Timestamp)>, SinkError> {
    let reply = match commands.at_key(command("SESSION.INFO", &[key]), key).await {
        Ok(Value::Nil) | Err(SinkError::Redis(SessionError::WrongType(_))) => return Ok(None),
        reply => reply?,
    };
    let (mut id, mut closed_at) = (None, None);
    for (name, field) in tolerant::pairs(reply) {
        match name.as_slice() {
            b"session_id" => id = Some(text("SESSION.INFO", field)?.parse::<SessionId>()?),
            b"closed_at" if field != Value::Nil => closed_at = Some(text("SESSION.INFO", field)?),
            _ => {}
        }
    }
    let id = expected("SESSION.INFO", id, "session_id")?;
    closed_at.map(|text| Ok((id, timestamp(&text)?))).transpose()
}

/// How a closed session ended: its newest checkpoint is the one that closed it, since it took no write afterwards.
pub(crate) async fn ended(commands: &mut Commands, key: &[u8]) -> Result<Option<Ended>, SinkError> {
    let Some((session_id, closed_at)) = closed_at(commands, key).await? else {
        return Ok(None);
    };
    let list = commands
        .at_key(command("SESSION.CHECKPOINT", &[b"LIST", key]), key)
        .await?;
    let Some(newest) = array("SESSION.CHECKPOINT LIST", list)?.pop() else {
        return Ok(None);
    };
    let newest = expected("SESSION.CHECKPOINT LIST", tolerant::bytes(newest), "a checkpoint")?;
    // Tolerantly, since an outcome may hold half a surrogate pair.
    let newest = expected("SESSION.CHECKPOINT LIST", tolerant::json(&newest), "JSON")?;
    let Closing { checkpoint_id, outcome } =
        serde_json::from_value(newest).map_err(|error| unexpected("SESSION.CHECKPOINT LIST", error))?;
    Ok(outcome.map(|outcome| Ended {
        session_id,
        checkpoint_id,
        closed_at,
        outcome,
    }))
}

/// Everything of the session at one moment; nothing if it is another one by now, or none.
pub(crate) async fn read(
    commands: &mut Commands,
    key: &[u8],
    reference_key: Option<&[u8]>,
    ended: &Ended,
) -> Result<Option<Snapshot>, SinkError> {
    let id = ended.checkpoint_id.to_string();
    let mut pipeline = Pipeline::new();
    pipeline.atomic();
    pipeline.add_command(command("SESSION.GET", &[key]));
    pipeline.add_command(command("SESSION.EVENT", &[b"RANGE", key, b"-", b"+"]));
    pipeline.add_command(command("SESSION.CHECKPOINT", &[b"GET", key, id.as_bytes()]));
    if let Some(reference_key) = reference_key {
        pipeline.add_command(command("GET", &[reference_key]));
    }
    let mut replies = commands.transaction_at_key(pipeline, key).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
    let (document, events, checkpoint) = (next()?, next()?, next()?);
    // What somebody else keeps at that key is no reference, and no reason to lose the session.
    let reference = next()
        .ok()
        .and_then(|reply| text("GET", reply).ok())
        .filter(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    if document == Value::Nil || checkpoint == Value::Nil {
        return Ok(None);
    }
    let document = text("SESSION.GET", document)?;
    let identity: Identity = serde_json::from_str(&document).map_err(|error| unexpected("SESSION.GET", error))?;
    if identity.session_id != ended.session_id || identity.closed_at != Some(ended.closed_at) {
        return Ok(None);
    }
    let events = array("SESSION.EVENT RANGE", events)?.into_iter();
    let events = events.map(|event| text("SESSION.EVENT RANGE", event));
    let events = events.collect::<Result<Vec<String>, SinkError>>()?;
    Ok(Some(Snapshot {
        document,
        events: format!("[{}]", events.join(",")),
        checkpoint: text("SESSION.CHECKPOINT GET", checkpoint)?,
        reference,
    }))
}

impl Snapshot {
    /// All of it in one object, for where its parts cannot go.
    pub(crate) fn as_one(&self) -> String {
        format!(
            "{{\"document\":{},\"events\":{},\"checkpoint\":{},\"reference\":{}}}",
            self.document,
            self.events,
            self.checkpoint,
            self.reference.as_deref().unwrap_or("null")
        )
    }
}

pub(crate) fn command(name: &str, args: &[&[u8]]) -> Cmd {
    let mut cmd = redis::cmd(name);
    args.iter().for_each(|arg| {
        cmd.arg(*arg);
    });
    cmd
}

fn timestamp(text: &str) -> Result<Timestamp, SinkError> {
    text.parse().map_err(|error| unexpected("SESSION.INFO", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_stay_as_they_are_in_one() {
        let snapshot = Snapshot {
            document: r#"{"a": 1.0}"#.into(),
            events: "[]".into(),
            checkpoint: "{}".into(),
            reference: None,
        };
        assert_eq!(
            snapshot.as_one(),
            r#"{"document":{"a": 1.0},"events":[],"checkpoint":{},"reference":null}"#
        );
    }
}
