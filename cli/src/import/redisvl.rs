//! `redisvl`: a hash a message.
//!
//! ```text
//!  HASH {name}:{tag}:{timestamp}:{8 hex}
//!       entry_id      tag:1736850000.5:0a1b2c3d    the key's name behind "{name}:"
//!       role          user, assistant or llm (an old name of it), system, tool
//!       content       text
//!       session_tag   tag
//!       timestamp     seconds since 1970
//!       tool_call_id  (may be there)
//!       metadata      JSON (may be there)
//! ```
//!
//! The hashes of one name and tag, in the order of their times, become a session. Its body has the hash's fields, `session_tag` excepted,
//! which is in the meta; fields that are not UTF-8, such as embeddings, are left out. Imported is what is later than the last message
//! that was.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use clap::Args;
use redis::{Cmd, Value};
use redis_session_client::tolerant::{array, bytes, int, pairs};
use redis_session_client::{request, MessageQuery};
use serde_json::{json, Map, Value as Json};

use super::{Common, Importer, Item, ATTEMPTS};
use crate::connection::{Link, Place, Scan};
use crate::failure::{Failure, Result};
use crate::stop;
use crate::term::progress::Progress;
use crate::term::text::key_text;

const PAGE: usize = 500;

/// Messages read at once, to see which were imported.
const IN_A_PAGE: i64 = 500;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,
    /// Only hashes whose keys are of this glob-style pattern
    #[arg(long = "match", value_name = "GLOB")]
    matching: Option<String>,
    /// Key of a session; {name} and {tag} stand for its own
    #[arg(long, value_name = "TEMPLATE", default_value = "session:{name}:{tag}")]
    key_template: String,
    /// Remove the hashes whose messages are in a session
    #[arg(long)]
    remove: bool,
}

/// A message's hash.
struct Entry {
    timestamp: f64,
    id: String,
    key: Vec<u8>,
    /// The node that has it.
    node: Rc<Place>,
}

#[derive(Default)]
struct History {
    entries: Vec<Entry>,
    /// The longest time to live of its hashes; -1: for ever.
    ttl_ms: i64,
}

pub fn run(importer: &mut Importer, flags: &Flags) -> Result<()> {
    let found = find(importer, flags)?;
    let progress = Progress::new(
        "messages",
        found.values().map(|history| history.entries.len() as u64).sum(),
    );
    for ((title, tag), mut history) in found {
        if stop::is_requested() {
            break;
        }
        let count = history.entries.len() as u64;
        let order = |a: &Entry, b: &Entry| a.timestamp.total_cmp(&b.timestamp).then_with(|| a.id.cmp(&b.id));
        history.entries.sort_by(order);
        history.entries.dedup_by(|a, b| a.id == b.id);
        let key = flags.key_template.replace("{name}", &title).replace("{tag}", &tag);
        importer.report.sessions += 1;
        let before = importer.report.messages;
        import(importer, flags, key.as_bytes(), &title, &tag, &history)?;
        progress.add(count, 1, importer.report.messages - before);
    }
    progress.finish();
    Ok(())
}

/// Finds all hashes that look like messages, by name and tag.
fn find(importer: &mut Importer, flags: &Flags) -> Result<BTreeMap<(String, String), History>> {
    let mut found: BTreeMap<(String, String), History> = BTreeMap::new();
    for node in importer.router.nodes() {
        let place = Rc::new(node.clone());
        let mut scan = Scan::new(PAGE)
            .matching(flags.matching.as_deref())
            .of_type(Some("hash"));
        while !stop::is_requested() {
            let link = importer.router.at(&node)?;
            let Some(keys) = scan.next(link)? else { break };
            let commands: Vec<Cmd> = keys
                .iter()
                .flat_map(|key| {
                    let fields = ["entry_id", "session_tag", "timestamp", "role"];
                    let mut look = redis::cmd("HMGET");
                    look.arg(key).arg(&fields);
                    let mut has = redis::cmd("HEXISTS");
                    has.arg(key).arg("content");
                    let mut ttl = redis::cmd("PTTL");
                    ttl.arg(key);
                    [look, has, ttl]
                })
                .collect();
            let answers = link.call_all(&commands)?;
            for (key, answers) in keys.into_iter().zip(answers.chunks(3)) {
                let reply = |i: usize| answers[i].clone().unwrap_or(Value::Nil);
                let fields: Vec<Option<String>> = array(reply(0))
                    .into_iter()
                    .map(|field| String::from_utf8(bytes(field)?).ok())
                    .collect();
                let [Some(id), Some(tag), Some(timestamp), Some(_)] = fields.as_slice() else {
                    continue;
                };
                let title = key.strip_suffix(id.as_bytes()).and_then(|rest| rest.strip_suffix(b":"));
                let Some(title) = title.and_then(|title| std::str::from_utf8(title).ok()) else {
                    continue;
                };
                let Some(timestamp) = timestamp.parse().ok().filter(|number: &f64| number.is_finite()) else {
                    continue;
                };
                if int(&reply(1)) != Some(1) || !id.starts_with(tag.as_str()) {
                    continue;
                }
                let history = found.entry((title.to_owned(), tag.clone())).or_default();
                history.ttl_ms = match int(&reply(2)) {
                    Some(ttl_ms) if ttl_ms >= 0 && history.ttl_ms >= 0 => ttl_ms.max(history.ttl_ms),
                    _ => -1,
                };
                history.entries.push(Entry {
                    timestamp,
                    id: id.clone(),
                    key,
                    node: Rc::clone(&place),
                });
            }
        }
    }
    Ok(found)
}

fn import(importer: &mut Importer, flags: &Flags, key: &[u8], title: &str, tag: &str, history: &History) -> Result<()> {
    let mut meta = Map::new();
    meta.insert("name".into(), title.into());
    meta.insert("session_tag".into(), tag.into());
    let mut options: Vec<Vec<u8>> = Vec::new();
    match history.ttl_ms {
        1.. => options.extend([b"PX".to_vec(), history.ttl_ms.to_string().into_bytes()]),
        _ => options.push(b"PERSIST".to_vec()),
    }
    if let Some(first) = history.entries.first() {
        options.extend([
            b"AT".to_vec(),
            ((first.timestamp * 1000.0) as i64).max(0).to_string().into_bytes(),
        ]);
    }
    let options: Vec<&[u8]> = options.iter().map(Vec::as_slice).collect();
    for attempt in 0..ATTEMPTS {
        let opened = if importer.is_dry_run {
            importer.find(key)?
        } else {
            importer
                .open(key, &options, &meta, &json!({ "entry_id": "" }))?
                .map(Some)
        };
        let mut session = match opened {
            Ok(Some(session)) => session,
            Ok(None) => {
                importer.report.created += 1;
                importer.report.messages += history.entries.len() as u64;
                return Ok(());
            }
            Err(refusal) => {
                importer.report.skip(&key_text(key), refusal);
                return Ok(());
            }
        };
        importer.report.created += u64::from(session.is_new);
        let Some(mark) = session.mark.take() else {
            importer.report.skip(
                &key_text(key),
                "a session is there that no import has made: --key-template names another key",
            );
            return Ok(());
        };
        let begin = imported(&history.entries, &mark);
        if attempt == 0 {
            importer.report.already += begin as u64;
        }
        if importer.is_dry_run {
            importer.report.messages += (history.entries.len() - begin) as u64;
            return Ok(());
        }
        let mut is_undisturbed = true;
        for entries in history.entries[begin..].chunks(super::MESSAGES_OF_A_COMMAND) {
            is_undisturbed = import_some(importer, &mut session, entries)?;
            if !is_undisturbed || stop::is_requested() {
                break;
            }
        }
        if is_undisturbed {
            return if flags.remove {
                remove(importer, key, history)
            } else {
                Ok(())
            };
        }
    }
    importer.report.skip(
        &key_text(key),
        "others keep writing to it: run this again when they are done",
    );
    Ok(())
}

/// The number of entries up to the mark, which were imported before.
fn imported(entries: &[Entry], mark: &Json) -> usize {
    let Some(timestamp) = mark["timestamp"].as_f64() else {
        return 0;
    };
    let id = mark["entry_id"].as_str().unwrap_or_default();
    entries.partition_point(|entry| {
        let order = entry.timestamp.total_cmp(&timestamp);
        order.then_with(|| entry.id.as_str().cmp(id)).is_le()
    })
}

fn import_some(importer: &mut Importer, session: &mut super::Opened, entries: &[Entry]) -> Result<bool> {
    let mut hashes: Vec<Value> = vec![Value::Nil; entries.len()];
    for node in importer.router.nodes() {
        let here: Vec<usize> = (0..entries.len()).filter(|i| *entries[*i].node == node).collect();
        let commands: Vec<Cmd> = here
            .iter()
            .map(|i| redis::cmd("HGETALL").arg(&entries[*i].key).to_owned())
            .collect();
        let answers = importer.router.at(&node)?.call_all(&commands)?;
        for (i, answer) in here.into_iter().zip(answers) {
            hashes[i] =
                answer.map_err(|refusal| Failure::Server(format!("HGETALL failed: {refusal}\nRun this again.")))?;
        }
    }
    let (mut items, mut marks) = (Vec::new(), Vec::new());
    for (entry, hash) in entries.iter().zip(hashes) {
        match body(pairs(hash)) {
            Ok(body) => {
                items.push(Item {
                    name: key_text(&entry.key),
                    body: body.to_string().into_bytes(),
                });
                marks.push(json!({ "timestamp": entry.timestamp, "entry_id": entry.id }));
            }
            Err(why) => importer.report.skip(&key_text(&entry.key), why),
        }
    }
    importer.feed(session, None, &items, &|count| marks[count - 1].clone())
}

/// Turns a hash into a message.
fn body(fields: Vec<(Vec<u8>, Value)>) -> std::result::Result<Json, &'static str> {
    let mut texts: Map<String, Json> = Map::new();
    for (field, value) in fields {
        let field = String::from_utf8(field);
        let value = bytes(value).and_then(|value| String::from_utf8(value).ok());
        if let (Ok(field), Some(value)) = (field, value) {
            texts.insert(field, value.into());
        }
    }
    let mut message = Map::new();
    let role = texts.remove("role").ok_or("its role is gone, or not UTF-8")?;
    message.insert("role".into(), if role == "llm" { "assistant".into() } else { role });
    message.insert(
        "content".into(),
        texts.remove("content").ok_or("its content is gone, or not UTF-8")?,
    );
    texts.remove("session_tag");
    if let Some(timestamp) = texts.remove("timestamp") {
        // A number, for that is what the session reads times from.
        let number = timestamp
            .as_str()
            .and_then(|text| serde_json::from_str::<serde_json::Number>(text.trim()).ok());
        message.insert("timestamp".into(), number.map_or(timestamp, Json::Number));
    }
    if let Some(id) = texts.remove("tool_call_id").filter(|id| id != "") {
        message.insert("tool_call_id".into(), id);
    }
    if let Some(metadata) = texts.remove("metadata").filter(|text| text != "") {
        let parsed = metadata.as_str().and_then(|text| serde_json::from_str(text).ok());
        message.insert("metadata".into(), parsed.unwrap_or(metadata));
    }
    message.extend(texts);
    Ok(Json::Object(message))
}

/// Removes the hashes whose messages are in the session. The mark does not say which these are: it also passes refused messages.
fn remove(importer: &mut Importer, key: &[u8], history: &History) -> Result<()> {
    let mut there: HashSet<String> = HashSet::new();
    for page in 0.. {
        let begin = page * IN_A_PAGE;
        let range = request::range(key, MessageQuery::indexes(begin, begin + IN_A_PAGE - 1));
        let bodies = importer.router.ask(&range)?.unwrap_or_default();
        let is_last = bodies.len() < IN_A_PAGE as usize;
        there.extend(bodies.iter().filter_map(|body| {
            let body: Json = body.parse().ok()?;
            Some(body["entry_id"].as_str()?.to_owned())
        }));
        if is_last {
            break;
        }
    }
    for node in importer.router.nodes() {
        let entries = history.entries.iter();
        let commands: Vec<Cmd> = entries
            .filter(|entry| *entry.node == node && there.contains(&entry.id))
            .map(|entry| redis::cmd("UNLINK").arg(&entry.key).to_owned())
            .collect();
        let link = importer.router.at(&node)?;
        for commands in commands.chunks(PAGE) {
            let answers = link.call_all(commands)?;
            importer.report.removed += answers.iter().flatten().filter_map(int).sum::<i64>() as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&str, &[u8])]) -> std::result::Result<String, &'static str> {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), Value::BulkString(value.to_vec())));
        body(fields.collect()).map(|body| body.to_string())
    }

    #[test]
    fn a_hash_becomes_a_message() {
        let fields: [(&str, &[u8]); 8] = [
            ("entry_id", b"t:1.5:0a"),
            ("role", b"llm"),
            ("content", "é \"x\"".as_bytes()),
            ("session_tag", b"t"),
            ("timestamp", b"1736850000.50"),
            ("tool_call_id", b""),
            ("metadata", b"{\"b\":1,\"a\":2}"),
            ("vector_field", b"\xff\x00"),
        ];
        assert_eq!(
            of(&fields).unwrap(),
            r#"{"role":"assistant","content":"é \"x\"","timestamp":1736850000.5,"metadata":{"b":1,"a":2},"entry_id":"t:1.5:0a"}"#
        );
        assert!(of(&[("role", b"user"), ("content", b"\xff")]).is_err());
        assert!(of(&[("content", b"x")]).is_err());
    }
}
