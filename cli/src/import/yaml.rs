//! `yaml`: session folders.
//!
//! ```text
//!  {path}/sessions/{name}.yaml                                       alias: name
//!  {path}/sessions/_/{YYYYMMDDTHHMMSS}-{autoname}.yaml               alias: autoname, until somebody renames it
//!  {path}/agents/{agent}/sessions/…                                  the same in the agent's scope
//!  …/by-id/{uuid}/state.yaml, …/by-name/{alias} holding the uuid     the newer form, in any of these folders
//! ```
//!
//! A session goes to `session:{scope}:<uuid>` and into the directory `sessions:{scope}` under its alias. Every element of `messages` is a
//! message; all else in the file goes to the meta. A file that has no uuid is known again by its alias and, in `meta.imported`, its own
//! name. What the file has beyond what was imported is appended; a file whose beginning has changed is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use redis_session_client::request;
use serde_json::{json, Map, Value as Json};
use uuid::Uuid;

use super::{Common, Importer, Item, Opened, ATTEMPTS};
use crate::failure::{Failure, Refusal, Result};
use crate::stop;
use crate::term::progress::Progress;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,
    /// The folder that holds sessions/ and agents/, or a sessions folder itself
    path: PathBuf,
    /// Only the session of this name, alias or uuid
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only the sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Scope of the sessions of no agent; an agent's is agent:<name>
    #[arg(long, value_name = "SCOPE", default_value = "default")]
    scope: String,
}

impl Flags {
    pub fn check(&self) -> Result<()> {
        if !self.path.is_dir() {
            let path = self.path.display();
            return Err(Failure::Usage(format!(
                "{path} is not a folder: give the one that holds sessions/"
            )));
        }
        if self.scope.is_empty() || self.scope.contains(['{', '}']) {
            return Err(Failure::Usage("--scope must not be empty, nor have braces".into()));
        }
        Ok(())
    }
}

/// A file that holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    path: PathBuf,
    scope: String,
    /// Its path within its folder of sessions, by which a file without a uuid is recognised.
    file: String,
    id: Option<Uuid>,
    /// Aliases to try: the session gets the first that is free or its own.
    aliases: Vec<String>,
    is_autonamed: bool,
    /// The time in its name; `None`: the file's own time counts.
    created_at_ms: Option<i64>,
}

pub fn run(importer: &mut Importer, flags: &Flags) -> Result<()> {
    let mut found = Vec::new();
    collect(flags, &mut found, importer);
    if let Some(name) = &flags.name {
        found.retain(|file| file.is_called(name));
        if found.is_empty() {
            return Err(Failure::Usage(format!(
                "no session there is called {name:?}: leave out --name to see all (--dry-run)"
            )));
        }
    }
    let progress = Progress::new("files", found.len() as u64);
    for file in &found {
        if stop::is_requested() {
            break;
        }
        importer.report.sessions += 1;
        let before = importer.report.messages;
        import(importer, file)?;
        progress.add(1, 1, importer.report.messages - before);
    }
    progress.finish();
    Ok(())
}

/// The sorted entries of a folder; none if it does not exist.
fn list(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    entries.sort();
    entries
}

fn collect(flags: &Flags, found: &mut Vec<Found>, importer: &mut Importer) {
    let is_wanted = |agent: Option<&str>| flags.agent.as_deref().is_none_or(|wanted| agent == Some(wanted));
    let mut scopes = vec![(None, flags.path.clone(), flags.scope.clone())];
    for (agent, path) in list(&flags.path.join("agents")) {
        let scope = format!("agent:{agent}");
        scopes.push((Some(agent), path, scope));
    }
    for (agent, folder, scope) in scopes {
        if !is_wanted(agent.as_deref()) {
            continue;
        }
        if scope.contains(['{', '}']) {
            importer.report.skip(
                &folder.display().to_string(),
                "an agent's name with braces cannot be a scope",
            );
            continue;
        }
        let sessions = folder.join("sessions");
        let is_sessions_itself = agent.is_none() && !sessions.is_dir() && !folder.join("agents").is_dir();
        for folder in [&folder, &sessions] {
            collect_by_id(folder, &scope, found, importer);
        }
        collect_named(if is_sessions_itself { &folder } else { &sessions }, &scope, found);
    }
}

fn collect_named(folder: &Path, scope: &str, found: &mut Vec<Found>) {
    for (file, path) in list(folder) {
        let Some(name) = stem(&file).filter(|_| path.is_file()) else {
            continue;
        };
        found.push(Found {
            path,
            scope: scope.to_owned(),
            aliases: vec![name.to_owned()],
            file,
            id: None,
            is_autonamed: false,
            created_at_ms: None,
        });
    }
    for (file, path) in list(&folder.join("_")) {
        let Some(name) = stem(&file).filter(|_| path.is_file()) else {
            continue;
        };
        let timed = name
            .split_once('-')
            .and_then(|(time, autoname)| Some((time_of_name(time)?, autoname)));
        let mut aliases = vec![name.to_owned()];
        if let Some((_, autoname)) = timed.filter(|(_, autoname)| !autoname.is_empty()) {
            // Two conversations may have been given the same name.
            aliases.insert(0, autoname.to_owned());
        }
        found.push(Found {
            path,
            scope: scope.to_owned(),
            file: format!("_/{file}"),
            id: None,
            aliases,
            is_autonamed: true,
            created_at_ms: timed.map(|(time, _)| time),
        });
    }
}

fn collect_by_id(folder: &Path, scope: &str, found: &mut Vec<Found>, importer: &mut Importer) {
    let mut aliases: Vec<(String, Uuid)> = Vec::new();
    for (alias, path) in list(&folder.join("by-name")) {
        match fs::read_to_string(&path)
            .ok()
            .and_then(|text| Uuid::try_parse(text.trim()).ok())
        {
            Some(id) => aliases.push((alias, id)),
            None => importer
                .report
                .skip(&path.display().to_string(), "does not hold a uuid"),
        }
    }
    for (name, path) in list(&folder.join("by-id")) {
        let state = path.join("state.yaml");
        let Ok(id) = Uuid::try_parse(&name) else {
            importer
                .report
                .skip(&path.display().to_string(), "is not named by a uuid");
            continue;
        };
        if !state.is_file() {
            importer.report.skip(&state.display().to_string(), "is not there");
            continue;
        }
        let own = aliases
            .iter()
            .filter(|(_, of)| *of == id)
            .map(|(alias, _)| alias.clone());
        found.push(Found {
            path: state,
            scope: scope.to_owned(),
            file: format!("by-id/{id}"),
            id: Some(id),
            aliases: own.collect(),
            is_autonamed: false,
            created_at_ms: id.get_timestamp().map(|time| {
                let (seconds, nanos) = time.to_unix();
                seconds as i64 * 1000 + i64::from(nanos) / 1_000_000
            }),
        });
    }
}

fn stem(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml"))?;
    (!stem.is_empty() && !stem.starts_with('.')).then_some(stem)
}

/// Reads `YYYYMMDDTHHMMSS`, as UTC: the name does not say of which zone it is.
fn time_of_name(text: &str) -> Option<i64> {
    let is_such = text.len() == 15 && text.as_bytes()[8] == b'T';
    if !is_such
        || !text
            .bytes()
            .enumerate()
            .all(|(i, byte)| i == 8 || byte.is_ascii_digit())
    {
        return None;
    }
    let time: DateTime = text.parse().ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

impl Found {
    fn is_called(&self, name: &str) -> bool {
        let is_id = self.id.is_some() && Uuid::try_parse(name).ok() == self.id;
        is_id || self.aliases.iter().any(|alias| alias == name)
    }

    fn index(&self) -> Vec<u8> {
        format!("sessions:{{{}}}", self.scope).into_bytes()
    }

    fn key(&self, id: Uuid) -> Vec<u8> {
        format!("session:{{{}}}:{id}", self.scope).into_bytes()
    }
}

/// What a file holds.
struct Contents {
    messages: Vec<Json>,
    meta: Map<String, Json>,
}

fn parse(text: &str) -> std::result::Result<Contents, String> {
    let options = serde_saphyr::options! {
        // A conversation may be long, and it is the user's own.
        budget: None,
        // `yes` and `on` are words that people say, `<<` too.
        strict_booleans: true,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::AsOrdinary,
        with_snippet: false,
    };
    let document: Json = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|place| format!("line {}: ", place.line()));
        format!("{}{error}", place.unwrap_or_default())
    })?;
    let Json::Object(mut meta) = document else {
        return Err("line 1: is not a mapping with messages".into());
    };
    let messages = match meta.remove("messages") {
        Some(Json::Array(messages)) => messages,
        Some(Json::Null) => Vec::new(),
        Some(_) => return Err("messages is not a sequence".into()),
        None => return Err("has no messages".into()),
    };
    Ok(Contents { messages, meta })
}

/// A digest of a file's first messages, to see whether they have changed. It is stored in the session, so it never changes: FNV-1a.
fn digest(messages: &[Json]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for message in messages {
        message.to_string().bytes().for_each(&mut add);
        add(0xff);
    }
    format!("{hash:016x}")
}

fn import(importer: &mut Importer, file: &Found) -> Result<()> {
    let shown = file.path.display().to_string();
    let contents = fs::read(&file.path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| format!("is not UTF-8 ({error})")))
        .and_then(|text| parse(&text));
    let contents = match contents {
        Ok(contents) => contents,
        Err(why) => {
            importer.report.skip(&shown, why);
            return Ok(());
        }
    };
    let written = fs::metadata(&file.path)
        .and_then(|metadata| metadata.modified())
        .unwrap_or(UNIX_EPOCH);
    let written_ms = written.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as i64;
    let mut first_look = true;
    for _ in 0..ATTEMPTS {
        let mut session = match open(importer, file, &contents, written_ms)? {
            Ok(Some(session)) => session,
            Ok(None) => {
                // A dry run, and it is not there.
                importer.report.created += 1;
                importer.report.messages += contents.messages.len() as u64;
                return Ok(());
            }
            Err(why) => {
                importer.report.skip(&shown, why);
                return Ok(());
            }
        };
        importer.report.created += u64::from(session.is_new);
        let Some(mark) = session.mark.take() else {
            let why = format!("session {} is there, and no import has made it: left alone", session.id);
            importer.report.skip(&shown, why);
            return Ok(());
        };
        let done = mark["messages"].as_u64().unwrap_or(0) as usize;
        let is_as_it_was = contents.messages.len() >= done
            && (done == 0 || mark["digest"].as_str() == Some(digest(&contents.messages[..done]).as_str()));
        if !is_as_it_was {
            importer.report.skip(
                &shown,
                format_args!("its first {done} messages have changed since they were imported: left alone"),
            );
            return Ok(());
        }
        if std::mem::take(&mut first_look) {
            importer.report.already += done as u64;
        }
        if importer.is_dry_run {
            importer.report.messages += (contents.messages.len() - done) as u64;
            return Ok(());
        }
        if feed(importer, file, &mut session, &contents, done, written_ms)? {
            return Ok(());
        }
    }
    importer.report.skip(
        &shown,
        "others keep writing to its session: run this again when they are done",
    );
    Ok(())
}

fn feed(
    importer: &mut Importer,
    file: &Found,
    session: &mut Opened,
    contents: &Contents,
    done: usize,
    written_ms: i64,
) -> Result<bool> {
    let (mut items, mut places) = (Vec::new(), Vec::new());
    for (i, message) in contents.messages.iter().enumerate().skip(done) {
        let name = format!("{}: message {}", file.path.display(), i + 1);
        if message.is_object() {
            items.push(Item {
                name,
                body: message.to_string().into_bytes(),
            });
            places.push(i + 1);
        } else {
            importer.report.skip(&name, "is not a mapping");
        }
    }
    // What is no message at the end is not met again.
    if let Some(last) = places.last_mut() {
        *last = contents.messages.len();
    }
    let mark = |count: usize| mark(file, &contents.messages[..places[count - 1]]);
    importer.feed(session, Some(written_ms), &items, &mark)
}

fn mark(file: &Found, messages: &[Json]) -> Json {
    json!({ "file": file.file, "messages": messages.len(), "digest": digest(messages) })
}

/// Creates or finds the file's session. `None` only in a dry run.
fn open(
    importer: &mut Importer,
    file: &Found,
    contents: &Contents,
    written_ms: i64,
) -> Result<std::result::Result<Option<Opened>, String>> {
    let mut aliases: Vec<Option<&str>> = file.aliases.iter().map(|alias| Some(alias.as_str())).collect();
    if aliases.is_empty() {
        aliases.push(None);
    }
    let mut why = String::new();
    for alias in aliases {
        let opened = if importer.is_dry_run {
            look(importer, file, alias)?
        } else {
            create(importer, file, contents, alias, written_ms)?.map(Some)
        };
        match opened {
            Ok(Some(session)) if !is_own(file, &session) => {
                why = format!(
                    "alias {:?} belongs to {}, which is not of this file",
                    alias.unwrap_or_default(),
                    session.id
                );
            }
            Ok(opened) => return Ok(Ok(opened)),
            Err(refusal) => return Ok(Err(refusal.to_string())),
        }
    }
    Ok(Err(why))
}

fn is_own(file: &Found, session: &Opened) -> bool {
    match file.id {
        Some(id) => Uuid::try_parse(&session.id).ok() == Some(id),
        None => {
            session.is_new
                || session
                    .mark
                    .as_ref()
                    .is_some_and(|mark| mark["file"] == file.file.as_str())
        }
    }
}

fn create(
    importer: &mut Importer,
    file: &Found,
    contents: &Contents,
    alias: Option<&str>,
    written_ms: i64,
) -> Result<std::result::Result<Opened, Refusal>> {
    let id = file.id.unwrap_or_else(Uuid::now_v7);
    let (index, id_text) = (file.index(), id.to_string());
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis() as i64;
    let created_at_ms = file.created_at_ms.unwrap_or(written_ms).clamp(0, now_ms).to_string();
    let mut options: Vec<&[u8]> = vec![
        b"INDEX",
        &index,
        b"ID",
        id_text.as_bytes(),
        b"SCOPE",
        file.scope.as_bytes(),
    ];
    if let Some(alias) = alias {
        options.extend([b"ALIAS".as_slice(), alias.as_bytes()]);
        if file.is_autonamed {
            options.push(b"AUTONAME");
        }
    }
    options.extend([b"PERSIST".as_slice(), b"AT", created_at_ms.as_bytes()]);
    importer.open(&file.key(id), &options, &contents.meta, &mark(file, &[]))
}

fn look(
    importer: &mut Importer,
    file: &Found,
    alias: Option<&str>,
) -> Result<std::result::Result<Option<Opened>, Refusal>> {
    let id = file.id.map(|id| id.to_string());
    let Some(word) = alias.or(id.as_deref()) else {
        return Ok(Ok(None));
    };
    let index = file.index();
    match importer.router.ask(&request::index_resolve(&index, word).tolerant())? {
        Ok(Some(found)) => importer.find(&found.key),
        Ok(None) => Ok(Ok(None)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_time() {
        assert_eq!(time_of_name("19700101T000000"), Some(0));
        assert_eq!(time_of_name("20260114T100000"), Some(1_768_384_800_000));
        assert_eq!(time_of_name("20240229T235959"), Some(1_709_251_199_000));
        for text in [
            "2026",
            "20261314T100000",
            "20260114 100000",
            "2026-01-14T1000",
            "20260114T10000é",
        ] {
            assert_eq!(time_of_name(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_is_read_with_its_words_as_words() {
        let contents = parse(
            "model: a:b\nmessages:\n- role: user\n  content: yes\n- role: assistant\n  content: |\n    no\n    on\n",
        )
        .unwrap();
        assert_eq!(contents.messages[0].to_string(), r#"{"role":"user","content":"yes"}"#);
        assert_eq!(contents.messages[1]["content"], "no\non\n");
        assert_eq!(contents.meta["model"], "a:b");
    }

    #[test]
    fn a_broken_file_is_told_by_its_line() {
        let why = parse("model: x\nmessages:\n- role: user\n  content: \"open\n")
            .map(|_| ())
            .unwrap_err();
        assert!(why.starts_with("line "), "{why}");
        assert!(parse("- 1\n").is_err());
        assert!(parse("model: x\n").is_err());
        assert!(parse("messages: 5\n").is_err());
    }
}
