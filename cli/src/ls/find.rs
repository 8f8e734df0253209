//! Where the rows come from.

use std::collections::HashSet;

use redis::{Cmd, Value};

use super::row::Row;
use super::{Flags, Sort};
use crate::connection::{self, array, bytes, int, Router};
use crate::failure::{Failure, Result};
use crate::session::directory;
use crate::session::locate::explain;
use crate::stop;
use crate::term::text::key_text;

/// Keys that are asked about in one round trip, and that SCAN looks at in one go.
const KEYS_AT_ONCE: usize = 500;

/// The sessions of a directory. The server sorts where it can, and then sends no more than is asked for.
pub fn of_directory(router: &mut Router, index: &[u8], flags: &Flags) -> Result<Vec<Row>> {
    let sort = flags.order();
    let is_sorted_there = matches!(sort, Sort::Created | Sort::Activity);
    let mut list = redis::cmd("SESSION.INDEX");
    list.arg("LIST").arg(index);
    if let Some(pattern) = &flags.matching {
        list.arg("MATCH").arg(pattern);
    }
    if sort == Sort::Activity {
        list.arg("BYACTIVITY");
    }
    if let (true, Some(limit)) = (is_sorted_there, flags.limit) {
        list.arg("LIMIT").arg(0).arg(limit);
    }
    let entries = match router.call(index, &list)? {
        Ok(entries) => array(entries),
        Err(refusal) if refusal.is("WRONGTYPE") => return Err(no_directory(router, index)?),
        Err(refusal) => return Err(explain(router, index, &refusal)),
    };
    if entries.is_empty() {
        match kind_of(router, index)?.as_str() {
            "rdsessidx" if flags.matching.is_some() => eprintln!("note: no alias matches."),
            "rdsessidx" => eprintln!("note: the directory is empty: its sessions were deleted, or have expired."),
            _ => return Err(no_directory(router, index)?),
        }
    }
    let count = entries.len();
    let mut rows: Vec<Row> = entries
        .into_iter()
        .filter_map(bytes)
        .filter_map(|entry| Row::of_entry(&entry))
        .collect();
    if rows.len() < count {
        return Err(Failure::Server(
            "SESSION.INDEX LIST replied what this program cannot read: is the module newer? Update redis-session."
                .into(),
        ));
    }
    for rows in rows.chunks_mut(KEYS_AT_ONCE) {
        if stop::is_requested() {
            break;
        }
        look_up(router, index, rows)?;
    }
    if !is_sorted_there {
        rows.sort_by(|one, other| one.compare(other, sort));
        rows.truncate(limit(flags));
    }
    Ok(rows)
}

/// Expiry and size, which a directory does not know.
fn look_up(router: &mut Router, index: &[u8], rows: &mut [Row]) -> Result<()> {
    let keys = rows
        .iter()
        .map(|row| directory::raw_key(router, index, &row.id, &row.key));
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_>>()?;
    rows.iter_mut()
        .zip(&keys)
        .for_each(|(row, key)| row.key = key_text(key));
    let expiries = asked(router, &keys, |key| redis::cmd("PEXPIRETIME").arg(key).to_owned())?;
    let sizes = sizes(router, &keys)?;
    for ((row, expiry), size) in rows.iter_mut().zip(expiries).zip(sizes) {
        row.expires_at_ms = expiry.as_ref().and_then(int).filter(|at_ms| *at_ms >= 0);
        row.size_bytes = size;
    }
    Ok(())
}

/// What each key's server says; nothing where it refuses.
fn asked(router: &mut Router, keys: &[Vec<u8>], command: impl Fn(&[u8]) -> Cmd) -> Result<Vec<Option<Value>>> {
    let answers = router.calls(keys.iter().map(|key| (key.as_slice(), command(key))).collect())?;
    Ok(answers.into_iter().map(|answer| answer.ok()).collect())
}

/// A list without sizes is better than none.
fn sizes(router: &mut Router, keys: &[Vec<u8>]) -> Result<Vec<Option<i64>>> {
    let commands = keys
        .iter()
        .map(|key| (key.as_slice(), redis::cmd("MEMORY").arg("USAGE").arg(key).to_owned()));
    let answers = router.answers(commands.collect())?;
    Ok(answers.into_iter().map(|answer| int(&answer.ok()?)).collect())
}

/// Every session that SCAN finds, on one server or on all primaries; and how many of them may not be read.
pub fn by_scan(router: &mut Router, connection: &connection::Flags, flags: &Flags) -> Result<(Vec<Row>, usize)> {
    let sort = flags.order();
    let most = limit(flags);
    let mut rows: Vec<Row> = Vec::new();
    // SCAN may show a key twice.
    let mut refused: HashSet<Vec<u8>> = HashSet::new();
    scan(router, "rdsession", flags.matching.as_deref(), |router, keys| {
        let infos = asked(router, &keys, |key| redis::cmd("SESSION.INFO").arg(key).to_owned())?;
        let sizes = sizes(router, &keys)?;
        for ((key, info), size) in keys.iter().zip(infos).zip(sizes) {
            let Some(info) = info else {
                refused.insert(key.clone());
                continue;
            };
            if let Some(row) = Row::of_info(key, info) {
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

/// Directories by name, and how many sessions are in them, where that may be asked.
pub fn directories(router: &mut Router, flags: &Flags) -> Result<Vec<(String, Option<i64>)>> {
    let mut found = Vec::new();
    scan(router, "rdsessidx", flags.matching.as_deref(), |router, keys| {
        let counts = asked(router, &keys, |key| {
            redis::cmd("SESSION.INDEX").arg("LEN").arg(key).to_owned()
        })?;
        let counts = counts.iter().map(|count| count.as_ref().and_then(int));
        found.extend(keys.iter().map(|key| key_text(key)).zip(counts));
        Ok(())
    })?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn scan(
    router: &mut Router,
    kind: &str,
    pattern: Option<&str>,
    mut take: impl FnMut(&mut Router, Vec<Vec<u8>>) -> Result<()>,
) -> Result<()> {
    for address in router.addresses() {
        let mut cursor = b"0".to_vec();
        while !stop::is_requested() {
            let mut command = redis::cmd("SCAN");
            command.arg(&cursor);
            if let Some(pattern) = pattern {
                command.arg("MATCH").arg(pattern);
            }
            command.arg("COUNT").arg(KEYS_AT_ONCE).arg("TYPE").arg(kind);
            let mut reply = array(router.at(&address)?.must(&command)?).into_iter();
            cursor = reply.next().and_then(bytes).unwrap_or_else(|| b"0".to_vec());
            let keys = reply.next().map(array).unwrap_or_default();
            take(router, keys.into_iter().filter_map(bytes).collect())?;
            if cursor == b"0" {
                break;
            }
        }
    }
    Ok(())
}

fn limit(flags: &Flags) -> usize {
    flags
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

fn kind_of(router: &mut Router, key: &[u8]) -> Result<String> {
    let kind = router.call(key, redis::cmd("TYPE").arg(key))?;
    Ok(kind
        .ok()
        .and_then(bytes)
        .and_then(|kind| String::from_utf8(kind).ok())
        .unwrap_or_default())
}

fn no_directory(router: &mut Router, key: &[u8]) -> Result<Failure> {
    let kind = kind_of(router, key)?;
    let key = key_text(key);
    Ok(Failure::NotFound(match kind.as_str() {
        "none" => format!("there is no directory {key}\n`redis-session ls -d` shows which there are."),
        "rdsession" => {
            format!("{key} is a session, no directory\n`redis-session show '{key}'` shows it, `redis-session ls` lists all.")
        }
        other => format!("{key} is a {other}, no directory\n`redis-session ls -d` shows which there are."),
    }))
}
