//! The content that `DEBUG DIGEST-VALUE` hashes, independent of how it is stored.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use uuid::Uuid;

use super::state::agents::{Agent, Agents, Lease};
use super::state::checkpoints::{Checkpoint, Checkpoints, Snapshot};
use super::state::dedup::Entry as DedupEntry;
use super::state::entities::Entities;
use super::state::{Cold, Session, INITIAL_STATE};
use crate::conversation::Messages;
use crate::limits::Limits;
use crate::log::{Head, Log, Position};

/// Receives the content part by part.
type Parts<'p> = &'p mut dyn FnMut(&[u8]);

impl Session {
    /// Passes the session's content to `part`, piece by piece. Equal contents give equal parts: chunking, compression and derived values
    /// are not included.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        let part: Parts<'_> = &mut part;
        let Session {
            id,
            version,
            last_seq,
            created_at_ms,
            last_activity_ms,
            ttl_ms,
            query_count,
            ttl_extended_count,
            limits,
            cold,
            messages,
        } = self;
        part(id.as_bytes());
        for number in [
            *version,
            *last_seq,
            *ttl_ms,
            *query_count,
            *ttl_extended_count,
            messages.len(),
            messages.last_gone_seq(),
        ] {
            part(&number.to_le_bytes());
        }
        for time_ms in [created_at_ms, last_activity_ms] {
            part(&time_ms.to_le_bytes());
        }
        for limit in Limits::ROWS {
            part(&limits.get(limit).to_le_bytes());
        }
        // Made only where there is none: it allocates.
        let none;
        let Cold {
            scope,
            state,
            meta,
            pins,
            entities,
            dedup,
            events,
            agents: Agents {
                by_name,
                lease,
                last_token,
            },
            set_aside,
            alias,
            closed_at_ms,
            checkpoints:
                Checkpoints {
                    list: checkpoints,
                    last_gone: last_gone_checkpoint,
                },
        } = match cold {
            Some(cold) => &**cold,
            None => {
                none = Cold::default();
                &none
            }
        };
        part(scope.as_deref().unwrap_or_default().as_bytes());
        part(state.as_deref().unwrap_or(INITIAL_STATE).as_bytes());
        part(meta.as_deref().unwrap_or_default().as_bytes());
        if let Some(alias) = alias {
            part(b"alias");
            part(alias.as_bytes());
        }
        if let Some(closed_at_ms) = closed_at_ms {
            part(b"closed");
            part(&closed_at_ms.to_le_bytes());
        }
        for pin in pins {
            part(pin.as_bytes());
        }
        digest_entities(entities, part);
        digest_messages(messages, part);
        for (name, log) in [("set aside", set_aside), ("events", &events.log)] {
            digest_log(name, log, part);
        }
        if events.last_gone > 0 {
            part(&events.last_gone.to_le_bytes());
        }
        digest_agents(by_name, part);
        for checkpoint in checkpoints {
            digest_checkpoint(checkpoint, *id, part);
        }
        if *last_gone_checkpoint > 0 {
            part(b"checkpoints gone");
            part(&last_gone_checkpoint.to_le_bytes());
        }
        if *last_token > 0 {
            part(&last_token.to_le_bytes());
        }
        if let Some(lease) = lease {
            let Lease {
                agent,
                token,
                expires_at_ms,
            } = lease;
            part(agent.as_bytes());
            part(&token.to_le_bytes());
            part(&expires_at_ms.to_le_bytes());
        }
        for (token, entry) in dedup.iter() {
            let DedupEntry { fingerprint, seq } = entry;
            part(token.as_bytes());
            part(&fingerprint.to_le_bytes());
            part(&seq.to_le_bytes());
        }
    }
}

fn digest_entities(entities: &Entities, part: Parts<'_>) {
    for (id, entity) in entities.by_recency() {
        part(id.as_bytes());
        part(entity.name.as_bytes());
        part(entity.kind.as_bytes());
        for alias in &entity.aliases {
            part(alias.as_bytes());
        }
        part(&entity.mention_count.to_le_bytes());
        part(&entity.last_mentioned_ms.to_le_bytes());
    }
}

fn digest_agents(agents: &BTreeMap<String, Agent>, part: Parts<'_>) {
    for (name, agent) in agents {
        let Agent {
            joined_at_ms,
            last_seen_ms,
            meta,
        } = agent;
        part(name.as_bytes());
        part(&joined_at_ms.to_le_bytes());
        part(&last_seen_ms.to_le_bytes());
        part(meta.as_deref().unwrap_or("").as_bytes());
    }
}

fn digest_checkpoint(checkpoint: &Checkpoint, session: Uuid, part: Parts<'_>) {
    part(b"checkpoint");
    // `json` contains id, label, outcome, state, refs and summary.
    part(&checkpoint.json(session));
    part(&checkpoint.time_ms.to_le_bytes());
    let Snapshot {
        messages,
        entities,
        agents,
    } = &checkpoint.snapshot;
    digest_entities(entities, part);
    digest_agents(agents, part);
    part(&messages.last_gone_seq().to_le_bytes());
    digest_messages(messages, part);
}

fn digest_messages(messages: &Messages, part: Parts<'_>) {
    messages.scan(|head, body| {
        digest_record(head, body.get(), part);
        ControlFlow::<()>::Continue(())
    });
}

/// Digests a log if it is not empty: not every session has one.
fn digest_log(name: &str, log: &Log, part: Parts<'_>) {
    if log.is_empty() {
        return;
    }
    part(name.as_bytes());
    part(&log.len().to_le_bytes());
    let _ = log.scan(Position::START, |head, body| {
        digest_record(head, body.get(), part);
        ControlFlow::<()>::Continue(())
    });
}

fn digest_record(head: &Head<'_>, body: &[u8], part: Parts<'_>) {
    part(&head.seq.to_le_bytes());
    part(&head.time_ms.to_le_bytes());
    part(&head.tokens.to_le_bytes());
    part(head.role.as_str().as_bytes());
    part(&head.root.unwrap_or(0).to_le_bytes());
    part(body);
}
