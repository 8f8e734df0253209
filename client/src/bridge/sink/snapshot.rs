//! What is read from a session that ended: first how it ended, cheaply; then everything, as it is.

use redis::{Cmd, Pipeline, Value};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::SinkError;
use super::source::Commands;
use crate::{SessionError, SessionId, Timestamp, value, value::Mode};

/// A closed session and the checkpoint that closed it. What makes a row of the table, and only one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ended {
    pub(super) session_id: SessionId,
    pub(super) checkpoint_id: u64,
    pub(super) closed_at: Timestamp,
    pub(super) outcome: String,
}

/// Everything of a session, as JSON to the byte.
pub(super) struct Snapshot {
    /// What `SESSION.GET` replies.
    pub(super) document: String,
    /// An array of what `SESSION.EVENT RANGE` replies.
    pub(super) events: String,
    /// The checkpoint that closed it.
    pub(super) checkpoint: String,
    /// The recovery reference, if there is one at its conventional key.
    pub(super) reference: Option<String>,
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
pub(super) async fn closed_at(
    commands: &mut Commands,
    key: &[u8],
) -> Result<Option<(SessionId, Timestamp)>, SinkError> {
    let reply = match commands.at_key(command("SESSION.INFO", &[key]), key).await {
        Ok(Value::Nil) | Err(SinkError::Redis(SessionError::WrongType(_))) => return Ok(None),
        reply => reply?,
    };
    let (mut id, mut closed_at) = (None, None);
    for (name, field) in value::map(reply, Mode::Strict)? {
        match name.as_str() {
            "session_id" => id = Some(value::text(field, Mode::Strict)?.parse::<SessionId>()?),
            "closed_at" => closed_at = value::optional(field, Mode::Strict, value::text)?,
            _ => {}
        }
    }
    let id = id.ok_or_else(|| SessionError::unexpected("no session_id in SESSION.INFO"))?;
    closed_at.map(|text| Ok((id, timestamp(&text)?))).transpose()
}

/// How a closed session ended: its newest checkpoint is the one that closed it, since it took no write afterwards.
pub(super) async fn ended(commands: &mut Commands, key: &[u8]) -> Result<Option<Ended>, SinkError> {
    let Some((session_id, closed_at)) = closed_at(commands, key).await? else {
        return Ok(None);
    };
    let list = commands
        .at_key(command("SESSION.CHECKPOINT", &[b"LIST", key]), key)
        .await?;
    let Some(newest) = value::array(list)?.pop() else {
        return Ok(None);
    };
    let Closing { checkpoint_id, outcome } = value::json(newest, Mode::Strict)?;
    Ok(outcome.map(|outcome| Ended {
        session_id,
        checkpoint_id,
        closed_at,
        outcome,
    }))
}

/// Everything of the session at one moment; nothing if it is another one by now, or none.
pub(super) async fn read(
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
        .and_then(|reply| value::text(reply, Mode::Strict).ok())
        .filter(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    if document == Value::Nil || checkpoint == Value::Nil {
        return Ok(None);
    }
    let document = value::text(document, Mode::Strict)?;
    let identity: Identity = serde_json::from_str(&document)
        .map_err(|error| SessionError::unexpected(format_args!("{error} in SESSION.GET")))?;
    if identity.session_id != ended.session_id || identity.closed_at != Some(ended.closed_at) {
        return Ok(None);
    }
    let events = value::list(events, Mode::Strict, value::text)?;
    Ok(Some(Snapshot {
        document,
        events: format!("[{}]", events.join(",")),
        checkpoint: value::text(checkpoint, Mode::Strict)?,
        reference,
    }))
}

impl Snapshot {
    /// All of it in one object, for where its parts cannot go.
    pub(super) fn as_one(&self) -> String {
        format!(
            "{{\"document\":{},\"events\":{},\"checkpoint\":{},\"reference\":{}}}",
            self.document,
            self.events,
            self.checkpoint,
            self.reference.as_deref().unwrap_or("null")
        )
    }
}

pub(super) fn command(name: &str, args: &[&[u8]]) -> Cmd {
    let mut cmd = redis::cmd(name);
    args.iter().for_each(|arg| {
        cmd.arg(*arg);
    });
    cmd
}

fn timestamp(text: &str) -> Result<Timestamp, SessionError> {
    text.parse().map_err(SessionError::unexpected)
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
