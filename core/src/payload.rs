//! The bytes of a session outside of memory: RDB, `DUMP` and the AOF's `SESSION.LOAD` all hold these, and one decoder reads them.
//!
//! ```text
//!  payload = blob, blob, …            in an RDB each blob is a string of its own; in LOAD each is preceded by its length (varint)
//!
//!  first blob    +-----------+--------------------------------------------------+
//!                | format: 1 | MessagePack map: everything but the logs         |
//!                +-----------+--------------------------------------------------+
//!                 the map says how many chunks of each log follow: aside, main, set aside, events; and of each checkpoint's logs,
//!                 which of the chunks before they share and how many of their own follow then
//!
//!  a chunk       +-------+-----------+-----------+---------+-------------+--------------+----------+
//!                | flags | first seq | base time | body at | heads bytes | bodies bytes | shared n |
//!                | u8    | varint    | zigzag    | varint  | varint      | varint, raw  | varint   |
//!                +-------+-----------+-----------+---------+-------------+--------------+----------+
//!                | n x (varint length, shared body) | heads | bodies, to the end of the blob         |
//!                +----------------------------------+-------+----------------------------------------+
//!                 flags: bit 0 the bodies are one LZ4 block, as in memory
//!                 body at: where the first live body begins (a first chunk may have been trimmed)
//! ```
//!
//! Sealed chunks are written as they are in memory, compressed or not. Nothing that is read is believed: every length is checked
//! against the bytes there are before anything is made of it, every record and every body is read once, and the first thing that
//! does not fit refuses the whole payload.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::agent::{Agent, Lease};
use crate::checkpoint::{Checkpoint, Checkpoints, Snapshot};
use crate::dedup::Entry as DedupEntry;
use crate::entity::Entities;
use crate::event::Events;
use crate::json;
use crate::limits::Limits;
use crate::log::{ChunkBase, ChunkParts, Head, Log, Position, StoredChunk, TakenChunk, TakenSegments};
use crate::message;
use crate::messages::Messages;
use crate::session::{Cold, Session, INITIAL_STATE, MAX_TEXT_BYTES};
use crate::shared::Shared;
use crate::time::{MAX_TIME_MS, MIN_TIME_MS};
use crate::varint;

/// The format that is written. Every format ever written stays readable.
pub const FORMAT: u8 = 1;

/// Counters stay far below where they would overflow.
pub(crate) const MAX_COUNTER: u64 = 1 << 62;

const LZ4: u8 = 1;

/// Why a payload was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadError(pub(crate) &'static str);

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for PayloadError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    id: (u64, u64),
    version: u64,
    last_seq: u64,
    created_at_ms: i64,
    last_activity_ms: i64,
    ttl_ms: u64,
    query_count: u64,
    ttl_extended_count: u64,
    limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pins: Vec<String>,
    /// From the least to the most recently mentioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entities: Vec<EntityRow>,
    /// From the oldest to the newest token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dedup: Vec<DedupRow>,
    /// Name, joined at, last seen, meta.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    last_lease_token: u64,
    /// The greatest seqs of a message and of an event that are there no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    last_gone_message: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    last_gone_event: u64,
    /// Events up to here were migrated.
    #[serde(default, skip_serializing_if = "is_zero")]
    foreign_events_until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    last_gone_checkpoint: u64,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    checkpoints: Vec<CheckpointRow>,
    chunks: ChunkCounts,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRow {
    id: u64,
    time_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refs: Vec<String>,
    summary: String,
    /// Without it the same as those of the checkpoint before it, or of the session where that is the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entities: Option<Vec<EntityRow>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    last_gone_message: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aside: Vec<ChunkRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    main: Vec<ChunkRun>,
}

/// So many chunks: those from this number on among the messages' chunks before, counted from 1; with number 0 they follow as blobs.
#[derive(Serialize, Deserialize, Clone, Copy)]
struct ChunkRun(u64, u64);

#[derive(Serialize, Deserialize)]
struct AgentRow(String, i64, i64, Option<String>);

/// Holder, token, expires at.
#[derive(Serialize, Deserialize)]
struct LeaseRow(String, u64, i64);

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How many chunks of each log follow, in this order.
#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct ChunkCounts {
    aside: u64,
    main: u64,
    set_aside: u64,
    events: u64,
}

#[derive(Serialize, Deserialize)]
struct EntityRow(String, String, String, Vec<String>, u64, i64);

#[derive(Serialize, Deserialize)]
struct DedupRow(String, (u64, u64), u64);

impl Session {
    /// Gives the payload blob by blob.
    pub fn encode(&self, mut blob: impl FnMut(&[u8])) {
        let (aside, main) = self.messages.logs();
        let cold = self.cold.as_deref();
        let logs = [
            aside,
            Some(main),
            cold.map(|cold| &cold.set_aside),
            cold.map(|cold| &cold.events.log),
        ];
        let chunk_counts = logs.map(|log| {
            let mut chunks = 0;
            log.inspect(|log| log.for_each_chunk(|_| chunks += 1));
            chunks
        });
        let entities = cold.map_or_else(Vec::new, |cold| entity_rows(&cold.entities));
        // Chunks that a checkpoint shares with the session or with an older checkpoint are written once.
        let mut numbers = ChunkNumbers::default();
        for log in [aside, Some(main)].into_iter().flatten() {
            log.for_each_chunk(|chunk| numbers.add(&chunk));
        }
        let mut before = cold.map(|cold| &cold.entities);
        let mut own_chunks = Vec::new();
        let checkpoints = self
            .checkpoints()
            .iter()
            .map(|checkpoint| {
                let snapshot = &checkpoint.snapshot;
                let (aside, main) = snapshot.messages.logs();
                let is_same = before.is_some_and(|before| Arc::ptr_eq(before, &snapshot.entities));
                before = Some(&snapshot.entities);
                CheckpointRow {
                    id: checkpoint.id,
                    time_ms: checkpoint.time_ms,
                    label: checkpoint.label.clone(),
                    outcome: checkpoint.outcome.clone(),
                    state: checkpoint.state.clone(),
                    refs: checkpoint.refs.clone(),
                    summary: checkpoint.summary.clone(),
                    entities: (!is_same).then(|| entity_rows(&snapshot.entities)),
                    agents: snapshot
                        .agents
                        .iter()
                        .map(|(name, agent)| agent_row((name, agent)))
                        .collect(),
                    last_gone_message: snapshot.messages.last_gone_seq(),
                    aside: aside.map_or_else(Vec::new, |log| chunk_runs(log, &mut numbers, &mut own_chunks)),
                    main: chunk_runs(main, &mut numbers, &mut own_chunks),
                }
            })
            .collect();
        let header = Header {
            id: self.id.as_u64_pair(),
            version: self.version,
            last_seq: self.last_seq,
            created_at_ms: self.created_at_ms,
            last_activity_ms: self.last_activity_ms,
            ttl_ms: self.ttl_ms,
            query_count: self.query_count,
            ttl_extended_count: self.ttl_extended_count,
            limits: (*self.limits).clone(),
            scope: cold.and_then(|cold| cold.scope.clone()),
            state: cold.and_then(|cold| cold.state.clone()),
            meta: cold.and_then(|cold| cold.meta.clone()),
            pins: self.pins().to_vec(),
            entities,
            dedup: cold.map_or_else(Vec::new, |cold| cold.dedup.iter().map(dedup_row).collect()),
            agents: self.agents().map(agent_row).collect(),
            lease: cold.and_then(|cold| cold.agents.lease.as_ref()).map(lease_row),
            last_lease_token: cold.map_or(0, |cold| cold.agents.last_token),
            last_gone_message: self.messages.last_gone_seq(),
            last_gone_event: cold.map_or(0, |cold| cold.events.last_gone),
            foreign_events_until: cold.map_or(0, |cold| cold.events.foreign_until),
            alias: cold.and_then(|cold| cold.alias.clone()),
            closed_at_ms: self.closed_at_ms(),
            last_gone_checkpoint: cold.map_or(0, |cold| cold.checkpoints.last_gone),
            checkpoints,
            chunks: ChunkCounts {
                aside: chunk_counts[0],
                main: chunk_counts[1],
                set_aside: chunk_counts[2],
                events: chunk_counts[3],
            },
        };
        let mut bytes = vec![FORMAT];
        // Nothing in the header can fail to serialise into memory.
        let _ = rmp_serde::encode::write_named(&mut bytes, &header);
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

    /// The payload in one piece: each blob preceded by its length.
    pub fn encode_whole(&self) -> Vec<u8> {
        let mut whole = Vec::new();
        self.encode(|blob| {
            varint::put(&mut whole, blob.len() as u64);
            whole.extend_from_slice(blob);
        });
        whole
    }

    /// Reads what [`Session::encode_whole`] wrote; nothing may follow it.
    pub fn decode_whole(whole: &[u8]) -> Result<Session, PayloadError> {
        let mut at = 0;
        let session = Session::decode(|| take_sized(whole, &mut at))?;
        if at != whole.len() {
            return Err(PayloadError("bytes follow the last chunk"));
        }
        Ok(session)
    }

    /// Reads a payload, asking for its blobs one by one.
    ///
    /// Cost: O(bytes): every chunk is decompressed and every body is read once.
    pub fn decode<B: AsRef<[u8]>>(next: impl FnMut() -> Option<B>) -> Result<Session, PayloadError> {
        let mut next = next;
        let first = next().ok_or(PayloadError("no header"))?;
        let (&format, map) = first.as_ref().split_first().ok_or(PayloadError("an empty header"))?;
        if format != FORMAT {
            return Err(PayloadError("an unknown format: written by a newer version"));
        }
        let mut header: Header = rmp_serde::from_slice(map).map_err(|_| PayloadError("an unreadable header"))?;
        let ChunkCounts {
            aside,
            main,
            set_aside,
            events,
        } = header.chunks;
        let (last_gone_message, last_gone_event) = (header.last_gone_message, header.last_gone_event);
        let foreign_events_until = header.foreign_events_until;
        let (rows, last_gone_checkpoint) = (std::mem::take(&mut header.checkpoints), header.last_gone_checkpoint);
        let mut session = session_of(header)?;
        let mut reader = ChunkReader {
            next: &mut next,
            session_seq: session.last_seq,
            taken: Vec::new(),
            segments: TakenSegments::default(),
        };
        let own = |chunks: u64| [ChunkRun(0, chunks)];
        let aside = reader.log(&own(aside), is_body, true)?;
        let main = reader.log(&own(main), is_body, true)?;
        let set_aside = reader.log(&own(set_aside), |_| true, false)?;
        let events = reader.log(&own(events), json::is_composed_object, false)?;
        session.messages = messages_of(aside, main, last_gone_message)?;
        session.messages.learn();
        if !rows.is_empty() || last_gone_checkpoint > 0 {
            let mut before = session
                .cold
                .as_ref()
                .map(|cold| Arc::clone(&cold.entities))
                .unwrap_or_default();
            let mut list: Vec<Checkpoint> = Vec::new();
            for row in rows {
                let checkpoint = checkpoint_of(row, &mut before, &mut reader)?;
                if list.last().is_some_and(|last| last.id >= checkpoint.id) {
                    return Err(PayloadError("checkpoints out of order"));
                }
                list.push(checkpoint);
            }
            session.cold_mut().checkpoints = Checkpoints {
                list,
                last_gone: last_gone_checkpoint,
            };
        }
        if !set_aside.is_empty() {
            session.cold_mut().set_aside = set_aside;
        }
        if !events.is_empty() || last_gone_event > 0 {
            session.cold_mut().events = Events::from_log(events, last_gone_event, foreign_events_until);
        }
        Ok(session)
    }

    /// Gives the session's content part by part, the same for equal contents however they came about: not chunking, not
    /// compression, not what is only derived.
    pub fn digest(&self, mut part: impl FnMut(&[u8])) {
        part(self.id.as_bytes());
        for number in [
            self.version,
            self.last_seq,
            self.ttl_ms,
            self.query_count,
            self.ttl_extended_count,
            self.messages.len(),
            self.messages.last_gone_seq(),
        ] {
            part(&number.to_le_bytes());
        }
        for time_ms in [self.created_at_ms, self.last_activity_ms] {
            part(&time_ms.to_le_bytes());
        }
        for limit in Limits::ROWS {
            part(&self.limits.get(limit).to_le_bytes());
        }
        part(self.scope().map_or(&[], str::as_bytes));
        part(self.state().as_bytes());
        part(self.meta().map_or(&[], str::as_bytes));
        if let Some(alias) = self.alias() {
            part(b"alias");
            part(alias.as_bytes());
        }
        if let Some(closed_at_ms) = self.closed_at_ms() {
            part(b"closed");
            part(&closed_at_ms.to_le_bytes());
        }
        for pin in self.pins() {
            part(pin.as_bytes());
        }
        let entities = |entities: &Entities, part: &mut dyn FnMut(&[u8])| {
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
        };
        if let Some(cold) = &self.cold {
            entities(&cold.entities, &mut part);
        }
        let record = |head: &Head<'_>, body: &[u8], part: &mut dyn FnMut(&[u8])| {
            part(&head.seq.to_le_bytes());
            part(&head.time_ms.to_le_bytes());
            part(&head.tokens.to_le_bytes());
            part(head.role.as_str().as_bytes());
            part(&head.root.unwrap_or(0).to_le_bytes());
            part(body);
        };
        self.messages.scan(|head, body| {
            record(head, body.get(), &mut part);
            ControlFlow::<()>::Continue(())
        });
        let Some(cold) = &self.cold else { return };
        for (name, log) in [("set aside", &cold.set_aside), ("events", &cold.events.log)] {
            if log.is_empty() {
                continue;
            }
            part(name.as_bytes());
            part(&log.len().to_le_bytes());
            let _ = log.scan(Position::START, |head, body| {
                record(head, body.get(), &mut part);
                ControlFlow::<()>::Continue(())
            });
        }
        if cold.events.last_gone > 0 {
            part(&cold.events.last_gone.to_le_bytes());
        }
        let agents = |agents: &BTreeMap<String, Agent>, part: &mut dyn FnMut(&[u8])| {
            for (name, agent) in agents {
                part(name.as_bytes());
                part(&agent.joined_at_ms.to_le_bytes());
                part(&agent.last_seen_ms.to_le_bytes());
                part(agent.meta.as_deref().unwrap_or("").as_bytes());
            }
        };
        agents(&cold.agents.by_name, &mut part);
        for checkpoint in &cold.checkpoints.list {
            part(b"checkpoint");
            part(&checkpoint.json(self.id));
            part(&checkpoint.time_ms.to_le_bytes());
            entities(&checkpoint.snapshot.entities, &mut part);
            agents(&checkpoint.snapshot.agents, &mut part);
            let messages = &checkpoint.snapshot.messages;
            part(&messages.last_gone_seq().to_le_bytes());
            messages.scan(|head, body| {
                record(head, body.get(), &mut part);
                ControlFlow::<()>::Continue(())
            });
        }
        if cold.checkpoints.last_gone > 0 {
            part(b"checkpoints gone");
            part(&cold.checkpoints.last_gone.to_le_bytes());
        }
        if cold.agents.last_token > 0 {
            part(&cold.agents.last_token.to_le_bytes());
        }
        if let Some(lease) = &cold.agents.lease {
            part(lease.agent.as_bytes());
            part(&lease.token.to_le_bytes());
            part(&lease.expires_at_ms.to_le_bytes());
        }
        for (token, entry) in cold.dedup.iter() {
            part(token.as_bytes());
            part(&entry.fingerprint.to_le_bytes());
            part(&entry.seq.to_le_bytes());
        }
    }
}

fn dedup_row((token, entry): (&str, DedupEntry)) -> DedupRow {
    DedupRow(
        token.to_owned(),
        ((entry.fingerprint >> 64) as u64, entry.fingerprint as u64),
        entry.seq,
    )
}

fn agent_row((name, agent): (&str, &Agent)) -> AgentRow {
    AgentRow(
        name.to_owned(),
        agent.joined_at_ms,
        agent.last_seen_ms,
        agent.meta.clone(),
    )
}

fn lease_row(lease: &Lease) -> LeaseRow {
    LeaseRow(lease.agent.clone(), lease.token, lease.expires_at_ms)
}

fn session_of(header: Header) -> Result<Session, PayloadError> {
    let refuse = |why: bool, what: &'static str| if why { Err(PayloadError(what)) } else { Ok(()) };
    let counters = [
        header.version,
        header.last_seq,
        header.query_count,
        header.ttl_extended_count,
    ];
    refuse(
        counters.iter().any(|counter| *counter > MAX_COUNTER),
        "a counter out of range",
    )?;
    refuse(header.version == 0, "version 0")?;
    let last_gone = header
        .last_gone_message
        .max(header.last_gone_event)
        .max(header.last_gone_checkpoint);
    refuse(last_gone > header.last_seq, "a seq that is gone before it was given")?;
    refuse(
        !is_time(header.created_at_ms) || !is_time(header.last_activity_ms),
        "a time out of range",
    )?;
    refuse(
        header.closed_at_ms.is_some_and(|at_ms| !is_time(at_ms)),
        "a time out of range",
    )?;
    refuse(header.ttl_ms > MAX_TIME_MS as u64, "a ttl out of range")?;
    refuse(!header.limits.in_range(), "a limit out of range")?;
    let texts = header
        .scope
        .iter()
        .chain(&header.state)
        .chain(&header.pins)
        .chain(&header.alias);
    refuse(texts.into_iter().any(|text| !is_text(text)), "a text out of range")?;
    let meta_is_object = header
        .meta
        .as_ref()
        .is_none_or(|meta| json::read_object(meta.as_bytes(), |_, _| ()).is_ok());
    refuse(!meta_is_object, "a meta that is no JSON object")?;
    let mut cold = Cold {
        scope: header.scope,
        state: header.state.filter(|state| state != INITIAL_STATE),
        meta: header.meta,
        pins: header.pins,
        alias: header.alias,
        closed_at_ms: header.closed_at_ms,
        ..Cold::default()
    };
    cold.entities = Arc::new(entities_of(header.entities)?);
    for DedupRow(token, (high, low), seq) in header.dedup {
        refuse(
            !is_text(&token) || seq > header.last_seq,
            "a dedup token that does not hold together",
        )?;
        cold.dedup
            .remember(&token, u128::from(high) << 64 | u128::from(low), seq, u64::MAX);
    }
    cold.agents.by_name = agents_of(header.agents)?;
    refuse(header.last_lease_token > MAX_COUNTER, "a lease token out of range")?;
    cold.agents.last_token = header.last_lease_token;
    if let Some(LeaseRow(agent, token, expires_at_ms)) = header.lease {
        let is_sound = is_text(&agent) && token <= header.last_lease_token && is_time(expires_at_ms);
        refuse(!is_sound, "a lease that does not hold together")?;
        cold.agents.lease = Some(Lease {
            agent,
            token,
            expires_at_ms,
        });
    }
    let is_needed = cold.scope.is_some()
        || cold.state.is_some()
        || cold.meta.is_some()
        || cold.alias.is_some()
        || cold.closed_at_ms.is_some()
        || !cold.pins.is_empty()
        || !cold.entities.is_empty()
        || !cold.dedup.is_empty()
        || !cold.agents.is_empty();
    Ok(Session {
        id: Uuid::from_u64_pair(header.id.0, header.id.1),
        version: header.version,
        last_seq: header.last_seq,
        created_at_ms: header.created_at_ms,
        last_activity_ms: header.last_activity_ms,
        ttl_ms: header.ttl_ms,
        query_count: header.query_count,
        ttl_extended_count: header.ttl_extended_count,
        limits: Arc::new(header.limits),
        cold: is_needed.then(|| Box::new(cold)),
        messages: Messages::default(),
    })
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
            return Err(PayloadError("an entity that does not hold together"));
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
            && meta
                .as_ref()
                .is_none_or(|meta| json::read_object(meta.as_bytes(), |_, _| ()).is_ok());
        if !is_sound {
            return Err(PayloadError("an agent that does not hold together"));
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

/// The numbers of the messages' chunks that are written: from 1 on, as they come.
#[derive(Default)]
struct ChunkNumbers {
    by_identity: HashMap<usize, u64>,
    last: u64,
}

impl ChunkNumbers {
    fn add(&mut self, chunk: &StoredChunk<'_>) {
        self.last += 1;
        if let Some(identity) = chunk.identity {
            self.by_identity.insert(identity, self.last);
        }
    }

    fn get(&self, chunk: &StoredChunk<'_>) -> Option<u64> {
        self.by_identity.get(&chunk.identity?).copied()
    }
}

/// A checkpoint's log as runs of chunks that stand before and of its own ones.
fn chunk_runs<'a>(log: &'a Log, numbers: &mut ChunkNumbers, own: &mut Vec<StoredChunk<'a>>) -> Vec<ChunkRun> {
    let mut runs: Vec<ChunkRun> = Vec::new();
    log.for_each_chunk(|chunk| {
        let known = numbers.get(&chunk);
        match (runs.last_mut(), known) {
            (Some(ChunkRun(first, count)), Some(number)) if *first > 0 && *first + *count == number => *count += 1,
            (Some(ChunkRun(0, count)), None) => *count += 1,
            _ => runs.push(ChunkRun(known.unwrap_or(0), 1)),
        }
        if known.is_none() {
            numbers.add(&chunk);
            own.push(chunk);
        }
    });
    runs
}

fn write_chunk(bytes: &mut Vec<u8>, chunk: &StoredChunk<'_>) {
    bytes.clear();
    bytes.push(if chunk.compressed { LZ4 } else { 0 });
    varint::put(bytes, chunk.base.seq);
    varint::put(bytes, varint::zigzag(chunk.base.time_ms));
    varint::put(bytes, u64::from(chunk.body_at));
    varint::put(bytes, chunk.heads.len() as u64);
    varint::put(bytes, u64::from(chunk.bodies_bytes));
    varint::put(bytes, chunk.shared.len() as u64);
    for body in chunk.shared {
        varint::put(bytes, body.len() as u64);
        bytes.extend_from_slice(body);
    }
    bytes.extend_from_slice(chunk.heads);
    bytes.extend_from_slice(chunk.bodies);
}

/// Reads logs, blob by blob.
struct ChunkReader<'n, N> {
    next: &'n mut N,
    /// The session's last seq.
    session_seq: u64,
    /// The messages' chunks so far, in the order of their numbers; of one that begins with dead bytes nothing.
    taken: Vec<Option<TakenChunk>>,
    segments: TakenSegments,
}

impl<N: FnMut() -> Option<B>, B: AsRef<[u8]>> ChunkReader<'_, N> {
    fn log(&mut self, runs: &[ChunkRun], check: fn(&[u8]) -> bool, is_message: bool) -> Result<Log, PayloadError> {
        const SPOILED: PayloadError = PayloadError("a chunk that does not hold together");
        let mut log = Log::new();
        for &ChunkRun(number, count) in runs {
            for i in 0..count {
                if number > 0 {
                    let index = usize::try_from(number - 1 + i).ok();
                    let taken = index
                        .and_then(|index| self.taken.get(index)?.as_ref())
                        .ok_or(PayloadError("a chunk that is not there"))?;
                    log.push_taken_chunk(taken, &mut self.segments).ok_or(SPOILED)?;
                    continue;
                }
                let blob = (self.next)().ok_or(PayloadError("a chunk is missing"))?;
                let session_seq = self.session_seq;
                let (taken, is_whole) = decode_chunk(&mut log, blob.as_ref(), &mut self.segments, |head, body| {
                    plausible(head, session_seq) && check(body)
                })
                .ok_or(SPOILED)?;
                if is_message {
                    self.taken.push(is_whole.then_some(taken));
                }
            }
        }
        Ok(log)
    }
}

/// Messages stand in two logs, one behind the other.
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
    entities_before: &mut Arc<Entities>,
    reader: &mut ChunkReader<'_, N>,
) -> Result<Checkpoint, PayloadError> {
    let optional = row.label.iter().chain(&row.outcome);
    let are_texts = optional.chain(&row.refs).chain([&row.state]).all(|text| is_text(text));
    let is_sound = (1..=reader.session_seq).contains(&row.id)
        && is_time(row.time_ms)
        && row.last_gone_message <= reader.session_seq
        && are_texts
        && json::is_composed_object(row.summary.as_bytes());
    if !is_sound {
        return Err(PayloadError("a checkpoint that does not hold together"));
    }
    if let Some(rows) = row.entities {
        *entities_before = Arc::new(entities_of(rows)?);
    }
    let aside = reader.log(&row.aside, is_body, true)?;
    let main = reader.log(&row.main, is_body, true)?;
    Ok(Checkpoint {
        id: row.id,
        time_ms: row.time_ms,
        label: row.label,
        outcome: row.outcome,
        state: row.state,
        refs: row.refs,
        summary: row.summary,
        snapshot: Snapshot {
            messages: messages_of(aside, main, row.last_gone_message)?,
            entities: Arc::clone(entities_before),
            agents: agents_of(row.agents)?,
        },
    })
}

/// Adds a chunk to the log; whether all of it is live comes back with it.
fn decode_chunk(
    log: &mut Log,
    blob: &[u8],
    segments: &mut TakenSegments,
    check: impl FnMut(&Head<'_>, &[u8]) -> bool,
) -> Option<(TakenChunk, bool)> {
    let (&flags, bytes) = blob.split_first()?;
    if flags & !LZ4 != 0 {
        return None;
    }
    let mut at = 0;
    let seq = varint::get(bytes, &mut at)?;
    let time_ms = varint::unzigzag(varint::get(bytes, &mut at)?);
    let body_at = u32::try_from(varint::get(bytes, &mut at)?).ok()?;
    let heads_bytes = usize::try_from(varint::get(bytes, &mut at)?).ok()?;
    let bodies_bytes = u32::try_from(varint::get(bytes, &mut at)?).ok()?;
    let shared_count = varint::get(bytes, &mut at)?;
    let mut shared = Vec::new();
    for _ in 0..shared_count {
        shared.push(Shared::adopt(take_sized(bytes, &mut at)?));
    }
    let heads = bytes.get(at..at.checked_add(heads_bytes)?)?;
    let bodies = &bytes[at + heads_bytes..];
    let base = ChunkBase { seq, time_ms };
    let parts = ChunkParts {
        base,
        heads,
        bodies,
        bodies_bytes,
        compressed: flags & LZ4 != 0,
        shared,
    };
    log.push_chunk(parts, body_at, segments, check)
        .map(|taken| (taken, body_at == 0))
}

/// A length and as many bytes.
pub(crate) fn take_sized<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::get(bytes, at)?).ok()?;
    let taken = bytes.get(*at..at.checked_add(length)?)?;
    *at += length;
    Some(taken)
}

fn plausible(head: &Head<'_>, last_seq: u64) -> bool {
    (1..=last_seq).contains(&head.seq) && is_time(head.time_ms)
}

/// A message's body: one JSON object.
fn is_body(body: &[u8]) -> bool {
    message::read(body).is_ok()
}

pub(crate) fn is_time(time_ms: i64) -> bool {
    (MIN_TIME_MS..=MAX_TIME_MS).contains(&time_ms)
}

pub(crate) fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len())
}
