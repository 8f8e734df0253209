//! Encodes and decodes the payload of a session, drawn in [`crate::payload`]: RDB, `DUMP` and the append-only file's `SESSION.LOAD` hold
//! it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use uuid::Uuid;

use super::state::agents::{Agent, Agents, Lease};
use super::state::checkpoints::{Checkpoint, Checkpoints, Snapshot};
use super::state::dedup::{Dedup, Entry as DedupEntry};
use super::state::entities::Entities;
use super::state::events::Events;
use super::state::{Cold, Session, INITIAL_STATE};
use crate::body;
use crate::conversation::Messages;
use crate::log::{Log, Position, StoredChunk};
use crate::payload::chunks::{chunk_runs, write_chunk, ChunkNumbers, ChunkReader};
use crate::payload::format1::session::{
    AgentRow, CheckpointRow, ChunkCounts, ChunkRun, DedupRow, EntityRow, LeaseRow, SessionRow,
};
use crate::payload::{take_sized, PayloadError, FORMAT, MAX_COUNTER};
use crate::text::time::{is_time, MAX_TIME_MS};
use crate::text::{is_text, json, varint};

impl Session {
    /// Encodes the payload and passes it to `blob`, blob by blob.
    pub fn encode(&self, mut blob: impl FnMut(&[u8])) {
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
        let (aside, main) = messages.logs();
        let logs = [aside, Some(main), Some(set_aside), Some(&events.log)];
        let [aside_chunks, main_chunks, set_aside_chunks, event_chunks] = logs.map(|log| {
            let mut chunks = 0;
            log.inspect(|log| log.for_each_chunk(|_| chunks += 1));
            chunks
        });
        // Chunks that a checkpoint shares with the session or with an older checkpoint are written once.
        let mut numbers = ChunkNumbers::default();
        for log in [aside, Some(main)].into_iter().flatten() {
            log.for_each_chunk(|chunk| numbers.add(&chunk));
        }
        let mut before = entities;
        let mut own_chunks = Vec::new();
        let checkpoints = checkpoints
            .iter()
            .map(|checkpoint| {
                let entities = &checkpoint.snapshot.entities;
                let is_same = Arc::ptr_eq(before, entities);
                before = entities;
                checkpoint_row(checkpoint, is_same, &mut numbers, &mut own_chunks)
            })
            .collect();
        let row = SessionRow {
            id: id.as_u64_pair(),
            version: *version,
            last_seq: *last_seq,
            created_at_ms: *created_at_ms,
            last_activity_ms: *last_activity_ms,
            ttl_ms: *ttl_ms,
            query_count: *query_count,
            ttl_extended_count: *ttl_extended_count,
            limits: (**limits).clone(),
            scope: scope.clone(),
            state: state.clone(),
            meta: meta.clone(),
            pins: pins.clone(),
            entities: entity_rows(entities),
            dedup: dedup.iter().map(dedup_row).collect(),
            agents: by_name.iter().map(agent_row).collect(),
            lease: lease.as_ref().map(lease_row),
            last_lease_token: *last_token,
            last_gone_message: messages.last_gone_seq(),
            last_gone_event: events.last_gone,
            foreign_events_until: events.foreign_until,
            alias: alias.clone(),
            closed_at_ms: *closed_at_ms,
            last_gone_checkpoint: *last_gone_checkpoint,
            checkpoints,
            chunks: ChunkCounts {
                aside: aside_chunks,
                main: main_chunks,
                set_aside: set_aside_chunks,
                events: event_chunks,
            },
        };
        let mut bytes = vec![FORMAT];
        row.write(&mut bytes);
        blob(&bytes);
        for log in logs.into_iter().flatten() {
            log.for_each_chunk(|chunk| {
                write_chunk(&mut bytes, &chunk);
                blob(&bytes);
            });
        }
        for chunk in own_chunks {
            write_chunk(&mut bytes, &chunk);
            blob(&bytes);
        }
    }

    /// Encodes the payload in one piece: each blob preceded by its length.
    pub fn encode_whole(&self) -> Vec<u8> {
        let mut whole = Vec::new();
        self.encode(|blob| {
            varint::put(&mut whole, blob.len() as u64);
            whole.extend_from_slice(blob);
        });
        whole
    }

    /// Decodes what [`Session::encode_whole`] wrote; refuses trailing bytes.
    pub fn decode_whole(whole: &[u8]) -> Result<Session, PayloadError> {
        let mut at = 0;
        let session = Session::decode(|| take_sized(whole, &mut at))?;
        if at != whole.len() {
            return Err(PayloadError("bytes follow the last chunk"));
        }
        Ok(session)
    }

    /// Decodes a payload, fetching its blobs one by one with `next`.
    ///
    /// Cost: O(bytes): every chunk is decompressed and every body is parsed once.
    pub fn decode<B: AsRef<[u8]>>(next: impl FnMut() -> Option<B>) -> Result<Session, PayloadError> {
        let mut next = next;
        let first = next().ok_or(PayloadError("no header"))?;
        let (&format, map) = first.as_ref().split_first().ok_or(PayloadError("an empty header"))?;
        match format {
            // The rows of older formats are converted to today's here, before they become a session.
            FORMAT => session_of(SessionRow::read(map)?, next),
            _ => Err(PayloadError("an unknown format: written by a newer version")),
        }
    }
}

fn checkpoint_row<'a>(
    checkpoint: &'a Checkpoint,
    entities_are_those_before: bool,
    numbers: &mut ChunkNumbers,
    own_chunks: &mut Vec<StoredChunk<'a>>,
) -> CheckpointRow {
    let Checkpoint {
        id,
        time_ms,
        label,
        outcome,
        state,
        refs,
        summary,
        snapshot: Snapshot {
            messages,
            entities,
            agents,
        },
    } = checkpoint;
    let (aside, main) = messages.logs();
    CheckpointRow {
        id: *id,
        time_ms: *time_ms,
        label: label.clone(),
        outcome: outcome.clone(),
        state: state.clone(),
        refs: refs.clone(),
        summary: summary.clone(),
        entities: (!entities_are_those_before).then(|| entity_rows(entities)),
        agents: agents.iter().map(agent_row).collect(),
        last_gone_message: messages.last_gone_seq(),
        aside: aside.map_or_else(Vec::new, |log| chunk_runs(log, numbers, own_chunks)),
        main: chunk_runs(main, numbers, own_chunks),
    }
}

fn dedup_row((token, entry): (&str, DedupEntry)) -> DedupRow {
    let DedupEntry { fingerprint, seq } = entry;
    DedupRow(token.to_owned(), ((fingerprint >> 64) as u64, fingerprint as u64), seq)
}

fn agent_row((name, agent): (&String, &Agent)) -> AgentRow {
    let Agent {
        joined_at_ms,
        last_seen_ms,
        meta,
    } = agent;
    AgentRow(name.clone(), *joined_at_ms, *last_seen_ms, meta.clone())
}

fn lease_row(lease: &Lease) -> LeaseRow {
    let Lease {
        agent,
        token,
        expires_at_ms,
    } = lease;
    LeaseRow(agent.clone(), *token, *expires_at_ms)
}

fn session_of<B: AsRef<[u8]>>(row: SessionRow, mut next: impl FnMut() -> Option<B>) -> Result<Session, PayloadError> {
    let refuse = |why: bool, what: &'static str| if why { Err(PayloadError(what)) } else { Ok(()) };
    let SessionRow {
        id,
        version,
        last_seq,
        created_at_ms,
        last_activity_ms,
        ttl_ms,
        query_count,
        ttl_extended_count,
        limits,
        scope,
        state,
        meta,
        pins,
        entities,
        dedup: dedup_rows,
        agents,
        lease,
        last_lease_token,
        last_gone_message,
        last_gone_event,
        foreign_events_until,
        alias,
        closed_at_ms,
        last_gone_checkpoint,
        checkpoints,
        chunks,
    } = row;
    let counters = [version, last_seq, query_count, ttl_extended_count];
    refuse(
        counters.iter().any(|counter| *counter > MAX_COUNTER),
        "a counter out of range",
    )?;
    refuse(version == 0, "version 0")?;
    let last_gone = last_gone_message.max(last_gone_event).max(last_gone_checkpoint);
    refuse(last_gone > last_seq, "a seq that is gone before it was given")?;
    refuse(
        !is_time(created_at_ms) || !is_time(last_activity_ms),
        "a time out of range",
    )?;
    refuse(closed_at_ms.is_some_and(|at_ms| !is_time(at_ms)), "a time out of range")?;
    refuse(ttl_ms > MAX_TIME_MS as u64, "a ttl out of range")?;
    refuse(!limits.in_range(), "a limit out of range")?;
    let texts = scope.iter().chain(&state).chain(&pins).chain(&alias);
    refuse(texts.into_iter().any(|text| !is_text(text)), "a text out of range")?;
    refuse(
        meta.as_ref().is_some_and(|meta| !is_object(meta)),
        "a meta that is no JSON object",
    )?;
    let mut dedup = Dedup::default();
    for DedupRow(token, (high, low), seq) in dedup_rows {
        refuse(!is_text(&token) || seq > last_seq, "an inconsistent dedup token")?;
        dedup.remember(&token, u128::from(high) << 64 | u128::from(low), seq, u64::MAX);
    }
    refuse(last_lease_token > MAX_COUNTER, "a lease token out of range")?;
    let lease = lease.map(|LeaseRow(agent, token, expires_at_ms)| Lease {
        agent,
        token,
        expires_at_ms,
    });
    let is_sound =
        |lease: &Lease| is_text(&lease.agent) && lease.token <= last_lease_token && is_time(lease.expires_at_ms);
    refuse(
        lease.as_ref().is_some_and(|lease| !is_sound(lease)),
        "an inconsistent lease",
    )?;
    let agents = Agents {
        by_name: agents_of(agents)?,
        lease,
        last_token: last_lease_token,
    };
    let entities = Arc::new(entities_of(entities)?);

    let mut reader = ChunkReader::new(&mut next, last_seq);
    let own = |chunks: u64| [ChunkRun(0, chunks)];
    let aside = reader.log(&own(chunks.aside), is_body, true)?;
    let main = reader.log(&own(chunks.main), is_body, true)?;
    let set_aside = reader.log(&own(chunks.set_aside), |_| true, false)?;
    let events = reader.log(&own(chunks.events), json::is_composed_object, false)?;
    let mut messages = messages_of(aside, main, last_gone_message)?;
    messages.learn();
    let mut before = Arc::clone(&entities);
    let mut list: Vec<Arc<Checkpoint>> = Vec::new();
    for row in checkpoints {
        let checkpoint = checkpoint_of(row, last_seq, &mut before, &mut reader)?;
        refuse(
            list.last().is_some_and(|last| last.id >= checkpoint.id),
            "checkpoints out of order",
        )?;
        list.push(Arc::new(checkpoint));
    }
    let cold = Cold {
        scope,
        state: state.filter(|state| state != INITIAL_STATE),
        meta,
        pins,
        entities,
        dedup,
        events: Events::from_log(events, last_gone_event, foreign_events_until),
        agents,
        set_aside,
        alias,
        closed_at_ms,
        checkpoints: Checkpoints {
            list,
            last_gone: last_gone_checkpoint,
        },
    };
    Ok(Session {
        id: Uuid::from_u64_pair(id.0, id.1),
        version,
        last_seq,
        created_at_ms,
        last_activity_ms,
        ttl_ms,
        query_count,
        ttl_extended_count,
        limits: Arc::new(limits),
        cold: (!cold.is_empty()).then(|| Box::new(cold)),
        messages,
    })
}

impl Cold {
    fn is_empty(&self) -> bool {
        let Cold {
            scope,
            state,
            meta,
            pins,
            entities,
            dedup,
            events,
            agents,
            set_aside,
            alias,
            closed_at_ms,
            checkpoints,
        } = self;
        scope.is_none()
            && state.is_none()
            && meta.is_none()
            && pins.is_empty()
            && entities.is_empty()
            && dedup.is_empty()
            && events.log.is_empty()
            && events.last_gone == 0
            && agents.is_empty()
            && set_aside.is_empty()
            && alias.is_none()
            && closed_at_ms.is_none()
            && checkpoints.list.is_empty()
            && checkpoints.last_gone == 0
    }
}

fn entity_rows(entities: &Entities) -> Vec<EntityRow> {
    let mut rows: Vec<_> = entities
        .by_recency()
        .map(|(id, entity)| {
            EntityRow(
                id.to_owned(),
                entity.name.clone(),
                entity.kind.clone(),
                entity.aliases.clone(),
                entity.mention_count,
                entity.last_mentioned_ms,
            )
        })
        .collect();
    rows.reverse();
    rows
}

fn entities_of(rows: Vec<EntityRow>) -> Result<Entities, PayloadError> {
    let mut entities = Entities::default();
    for EntityRow(id, name, kind, aliases, mention_count, last_mentioned_ms) in rows {
        let texts = [&id, &name, &kind]
            .into_iter()
            .chain(&aliases)
            .all(|text| is_text(text));
        if !texts || mention_count > MAX_COUNTER || !is_time(last_mentioned_ms) {
            return Err(PayloadError("an inconsistent entity"));
        }
        entities
            .restore(&id, name, kind, aliases, mention_count, last_mentioned_ms)
            .ok_or(PayloadError("an entity given twice"))?;
    }
    Ok(entities)
}

fn agents_of(rows: Vec<AgentRow>) -> Result<BTreeMap<String, Agent>, PayloadError> {
    let mut agents = BTreeMap::new();
    for AgentRow(name, joined_at_ms, last_seen_ms, meta) in rows {
        let is_sound = is_text(&name)
            && is_time(joined_at_ms)
            && is_time(last_seen_ms)
            && meta.as_ref().is_none_or(|meta| is_object(meta));
        if !is_sound {
            return Err(PayloadError("an inconsistent agent"));
        }
        let agent = Agent {
            joined_at_ms,
            last_seen_ms,
            meta,
        };
        agents.insert(name, agent);
    }
    Ok(agents)
}

/// Joins the two logs of a conversation, one behind the other.
fn messages_of(aside: Log, main: Log, last_gone: u64) -> Result<Messages, PayloadError> {
    let last_aside = aside.scan_rev(Position::END, |head, _| ControlFlow::Break(head.seq));
    let first = main.front().map_or(u64::MAX, |front| front.seq);
    if last_aside.break_value().is_some_and(|last| last >= first) {
        return Err(PayloadError("messages out of order"));
    }
    Ok(Messages::from_logs(aside, main, last_gone))
}

fn checkpoint_of<N: FnMut() -> Option<B>, B: AsRef<[u8]>>(
    row: CheckpointRow,
    last_seq: u64,
    entities_before: &mut Arc<Entities>,
    reader: &mut ChunkReader<'_, N>,
) -> Result<Checkpoint, PayloadError> {
    let CheckpointRow {
        id,
        time_ms,
        label,
        outcome,
        state,
        refs,
        summary,
        entities,
        agents,
        last_gone_message,
        aside,
        main,
    } = row;
    let optional = label.iter().chain(&outcome);
    let are_texts = optional.chain(&refs).chain([&state]).all(|text| is_text(text));
    let is_sound = (1..=last_seq).contains(&id)
        && is_time(time_ms)
        && last_gone_message <= last_seq
        && are_texts
        && json::is_composed_object(summary.as_bytes());
    if !is_sound {
        return Err(PayloadError("an inconsistent checkpoint"));
    }
    if let Some(rows) = entities {
        *entities_before = Arc::new(entities_of(rows)?);
    }
    let aside = reader.log(&aside, is_body, true)?;
    let main = reader.log(&main, is_body, true)?;
    Ok(Checkpoint {
        id,
        time_ms,
        label,
        outcome,
        state,
        refs,
        summary,
        snapshot: Snapshot {
            messages: messages_of(aside, main, last_gone_message)?,
            entities: Arc::clone(entities_before),
            agents: agents_of(agents)?,
        },
    })
}

/// Returns whether a message's body is one JSON object.
fn is_body(body: &[u8]) -> bool {
    body::read(body).is_ok()
}

fn is_object(text: &str) -> bool {
    json::read_object(text.as_bytes(), |_, _| ()).is_ok()
}
