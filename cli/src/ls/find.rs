//! Reads the rows: from a directory, or from SCAN.

use std::collections::HashSet;

use redis_session_client::tolerant::int;
use redis_session_client::{request, DirectoryEntry, IndexQuery};

use super::row::Row;
use super::{Flags, Sort};
use crate::connection::{self, Router, Scan};
use crate::failure::{Failure, Result};
use crate::session::directory;
use crate::session::locate::explain;
use crate::stop;
use crate::term::text::key_text;

/// Keys of one round trip, and of one SCAN.
const KEYS_AT_ONCE: usize = 500;

/// Lists the sessions of a directory. Where the server can sort, it also applies the limit.
pub fn of_directory(router: &mut Router, index: &[u8], flags: &Flags) -> Result<Vec<Row>> {
    let sort = flags.order();
    let is_sorted_there = matches!(sort, Sort::Created | Sort::Activity);
    let mut query = match &flags.matching {
        Some(pattern) => IndexQuery::all().matching(pattern),
        None => IndexQuery::all(),
    };
    if sort == Sort::Activity {
        query = query.by_activity();
    }
    if let (true, Some(limit)) = (is_sorted_there, flags.limit) {
        query = query.page(0, u32::try_from(limit).unwrap_or(u32::MAX));
    }
    let entries = match router.ask(&request::index_list(index, query))? {
        Ok(entries) => entries,
        Err(refusal) if refusal.is("WRONGTYPE") => return Err(no_directory(router, index)?),
        Err(refusal) => return Err(explain(router, index, &refusal)),
    };
    if entries.is_empty() {
        match router.type_of(index)?.as_str() {
            "rdsessidx" if flags.matching.is_some() => eprintln!("note: no alias matches."),
            "rdsessidx" => eprintln!("note: the directory is empty: its sessions were deleted, or have expired."),
            _ => return Err(no_directory(router, index)?),
        }
    }
    let mut rows = Vec::with_capacity(entries.len());
    for entries in entries.chunks(KEYS_AT_ONCE) {
        let mut page: Vec<Row> = entries.iter().cloned().map(Row::of_entry).collect();
        if !stop::is_requested() {
            look_up(router, index, entries, &mut page)?;
        }
        rows.append(&mut page);
    }
    if !is_sorted_there {
        rows.sort_by(|one, other| one.compare(other, sort));
        rows.truncate(limit(flags));
    }
    Ok(rows)
}

/// Adds expiries and sizes, which a directory does not know.
fn look_up(router: &mut Router, index: &[u8], entries: &[DirectoryEntry], rows: &mut [Row]) -> Result<()> {
    let keys = entries.iter().map(|entry| directory::raw_key(router, index, entry));
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_>>()?;
    rows.iter_mut()
        .zip(&keys)
        .for_each(|(row, key)| row.key = key_text(key));
    let commands = keys
        .iter()
        .map(|key| (key.as_slice(), redis::cmd("PEXPIRETIME").arg(key).to_owned()));
    let expiries = router.calls(commands.collect())?;
    let sizes = sizes(router, &keys)?;
    for ((row, expiry), size) in rows.iter_mut().zip(expiries).zip(sizes) {
        row.expires_at_ms = expiry.ok().as_ref().and_then(int).filter(|at_ms| *at_ms >= 0);
        row.size_bytes = size;
    }
    Ok(())
}

/// `MEMORY USAGE` of each key; `None` where it is refused, for a list without sizes is better than none.
fn sizes(router: &mut Router, keys: &[Vec<u8>]) -> Result<Vec<Option<i64>>> {
    let commands = keys
        .iter()
        .map(|key| (key.as_slice(), redis::cmd("MEMORY").arg("USAGE").arg(key).to_owned()));
    let answers = router.answers(commands.collect())?;
    Ok(answers.into_iter().map(|answer| int(&answer.ok()?)).collect())
}

/// Lists every session that SCAN finds, on one server or on all primaries, and counts those that may not be read.
pub fn by_scan(router: &mut Router, connection: &connection::Flags, flags: &Flags) -> Result<(Vec<Row>, usize)> {
    let sort = flags.order();
    let most = limit(flags);
    let mut rows: Vec<Row> = Vec::new();
    // SCAN may show a key twice.
    let mut refused: HashSet<Vec<u8>> = HashSet::new();
    scan(router, "rdsession", flags.matching.as_deref(), |router, keys| {
        let requests: Vec<_> = keys.iter().map(|key| request::info(key).tolerant()).collect();
        let infos = router.ask_each(&requests)?;
        let sizes = sizes(router, &keys)?;
        for ((key, info), size) in keys.iter().zip(infos).zip(sizes) {
            let Ok(info) = info else {
                refused.insert(key.clone());
                continue;
            };
            if let Some(row) = info.and_then(|info| Row::of_info(key, &info)) {
                rows.push(Row {
                    size_bytes: size,
                    ..row
                });
            }
        }
        // What is not going to be shown is not kept either.
        if rows.len() > most.saturating_mul(2).max(10_000) {
            rows.sort_by(|one, other| one.compare(other, sort));
            rows.truncate(most);
        }
        Ok(())
    })?;
    rows.sort_by(|one, other| one.compare(other, sort));
    // SCAN may show a key twice.
    rows.dedup_by(|one, other| one.key == other.key);
    rows.truncate(most);
    if !flags.json && !rows.is_empty() {
        let place = if connection.cluster {
            "on all primaries"
        } else {
            "in this database"
        };
        eprintln!("note: these are sessions that SCAN finds {place}; `redis-session ls -d` shows the directories.");
    }
    if !refused.is_empty() {
        eprintln!(
            "left out: {} that this user may not read (ACL SETUSER … ~session:* +session.info)",
            refused.len()
        );
    }
    Ok((rows, refused.len()))
}

/// Lists directories and the number of their sessions; `None` where that may not be read.
pub fn directories(router: &mut Router, flags: &Flags) -> Result<Vec<(String, Option<u64>)>> {
    let mut found = Vec::new();
    scan(router, "rdsessidx", flags.matching.as_deref(), |router, keys| {
        let requests: Vec<_> = keys.iter().map(request::index_len).collect();
        let counts = router.ask_each(&requests)?.into_iter().map(std::result::Result::ok);
        found.extend(keys.iter().map(|key| key_text(key)).zip(counts));
        Ok(())
    })?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn scan(
    router: &mut Router,
    kind: &'static str,
    pattern: Option<&str>,
    mut take: impl FnMut(&mut Router, Vec<Vec<u8>>) -> Result<()>,
) -> Result<()> {
    for node in router.nodes() {
        let mut scan = Scan::new(KEYS_AT_ONCE).matching(pattern).of_type(Some(kind));
        while !stop::is_requested() {
            let Some(keys) = scan.next(router.at(&node)?)? else {
                break;
            };
            take(router, keys)?;
        }
    }
    Ok(())
}

fn limit(flags: &Flags) -> usize {
    flags
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

fn no_directory(router: &mut Router, key: &[u8]) -> Result<Failure> {
    let kind = router.type_of(key)?;
    let key = key_text(key);
    Ok(Failure::NotFound(match kind.as_str() {
        "none" => format!("there is no directory {key}\n`redis-session ls -d` shows which there are."),
        "rdsession" => {
            format!("{key} is a session, no directory\n`redis-session show '{key}'` shows it, `redis-session ls` lists all.")
        }
        other => format!("{key} is a {other}, no directory\n`redis-session ls -d` shows which there are."),
    }))
}
