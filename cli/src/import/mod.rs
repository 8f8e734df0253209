//! `redis-session import`: imports exported values, and conversations that no single command of the server can turn into sessions.
//!
//! An import of conversations can be repeated. The session itself records how far it came, in `meta.imported`. This mark moves in the same
//! `MULTI` as the messages, both with `IFVERSION`. So neither a crash nor a second import at the same time imports a message twice, and
//! messages that were trimmed since do not come back.

mod jsonl;
mod redisvl;
mod yaml;

use clap::{Args, Subcommand};
use redis::Value;
use redis_session_client::request::{self, Request};
use redis_session_client::Create;
use serde::Serialize;
use serde_json::{json, Map, Value as Json};

use crate::connection::{self, read, Router};
use crate::failure::{Refusal, Result};
use crate::stop;
use crate::term::output;
use crate::Outcome;

/// Bounds of one command, in messages and bytes: about a millisecond of the server's time.
const MESSAGES_OF_A_COMMAND: usize = 200;
const BYTES_OF_A_COMMAND: usize = 512 * 1024;

/// How often an import is started again because somebody else wrote to the session.
const ATTEMPTS: usize = 20;

/// The member of the meta that says what was imported.
const IMPORTED: &str = "imported";

#[derive(Subcommand)]
pub enum Source {
    /// Message histories of RedisVL: a hash a message, {name}:{tag}:{timestamp}:{8 hex}
    Redisvl(redisvl::Flags),
    /// Session folders: sessions/*.yaml, agents/*/sessions/*.yaml, by-id/{uuid}/state.yaml
    Yaml(yaml::Flags),
    /// Lines of JSON that `redis-session export` wrote: brings back the same values
    Jsonl(jsonl::Flags),
}

#[derive(Args, Debug)]
pub struct Common {
    /// Write nothing: say what would be imported
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 1 if anything was skipped
    #[arg(long)]
    strict: bool,
    /// Window of the new sessions in messages; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0)]
    maxlen: u64,
}

pub fn run(connection: &connection::Flags, source: &Source) -> Result<Outcome> {
    let (common, source_name) = match source {
        Source::Redisvl(flags) => (&flags.common, "redisvl"),
        Source::Yaml(flags) => (&flags.common, "yaml"),
        Source::Jsonl(flags) => return jsonl::run(connection, flags),
    };
    if let Source::Yaml(flags) = source {
        flags.check()?;
    }
    let mut importer = Importer {
        router: Router::connect(connection)?,
        source: source_name,
        is_dry_run: common.dry_run,
        maxlen: common.maxlen,
        report: Report {
            dry_run: common.dry_run,
            ..Report::default()
        },
    };
    stop::watch()?;
    let done = match source {
        Source::Redisvl(flags) => redisvl::run(&mut importer, flags),
        Source::Yaml(flags) => yaml::run(&mut importer, flags),
        Source::Jsonl(_) => Ok(()),
    };
    let mut report = importer.report;
    report.interrupted = stop::is_requested();
    if common.json {
        let text = serde_json::to_string_pretty(&report).expect("a report is JSON");
        output::print(&format!("{text}\n"));
    } else {
        output::print(&report.text());
    }
    done?;
    Ok(match (report.interrupted, common.strict && report.skipped > 0) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Incomplete,
        (false, false) => Outcome::Fine,
    })
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub dry_run: bool,
    pub interrupted: bool,
    /// Sessions that were met, and those of them that are new.
    pub sessions: u64,
    pub created: u64,
    pub messages: u64,
    /// Messages that had been imported before.
    pub already: u64,
    /// Source keys that were removed.
    pub removed: u64,
    pub skipped: u64,
    pub skipped_items: Vec<String>,
}

impl Report {
    /// Counts what was skipped: `what` is a key or a file, `why` the reason.
    fn skip(&mut self, what: &str, why: impl std::fmt::Display) {
        self.skipped += 1;
        if self.skipped_items.len() < 1000 {
            self.skipped_items.push(format!("{what}: {why}"));
        }
    }

    fn text(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut text = format!(
            "{} sessions, {} of them {would}new; {} messages {would}imported, {} were there already\n",
            self.sessions, self.created, self.messages, self.already
        );
        if self.removed > 0 {
            text += &format!("{} keys removed\n", self.removed);
        }
        if self.skipped > 0 {
            text += &format!("\nskipped: {}\n", self.skipped);
            for item in self.skipped_items.iter().take(20) {
                text += &format!("  {item}\n");
            }
            if self.skipped > 20 {
                text += &format!("  … ({} more; --json names up to 1000)\n", self.skipped - 20);
            }
        }
        if self.interrupted {
            text += "\nstopped before the end: run the same command again to go on.\n";
        }
        text
    }
}

struct Importer {
    router: Router,
    source: &'static str,
    is_dry_run: bool,
    maxlen: u64,
    report: Report,
}

/// A session that exists.
struct Opened {
    id: String,
    key: Vec<u8>,
    is_new: bool,
    version: u64,
    /// What `meta.imported` says of this source.
    mark: Option<Json>,
}

/// A message to import.
struct Item {
    /// Its name in the report.
    name: String,
    body: Vec<u8>,
}

impl Importer {
    /// Creates or opens a session, and reads its mark. `mark` is that of a new session.
    fn open(
        &mut self,
        key: &[u8],
        options: &[&[u8]],
        meta: &Map<String, Json>,
        mark: &Json,
    ) -> Result<std::result::Result<Opened, Refusal>> {
        let mut meta = meta.clone();
        if let Some(theirs) = meta.remove(IMPORTED) {
            meta.insert(format!("{IMPORTED}_"), theirs);
        }
        meta.insert(IMPORTED.into(), json!({ self.source: mark }));
        let mut command = redis::cmd("SESSION.CREATE");
        command.arg(key).arg("OPEN").arg(options);
        command.arg("LIMIT").arg("maxlen").arg(self.maxlen);
        command.arg("META").arg(Json::Object(meta).to_string());
        let created = match self.router.ask(&request::raw(command, key))? {
            Ok(reply) => read(&request::create(key, Create::new()), reply)?,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut opened = match self.find(&created.key)? {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                let text = "no session where there was one just now".into();
                return Ok(Err(Refusal {
                    code: "NOSESSION".into(),
                    text,
                }));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        opened.is_new = created.created;
        Ok(Ok(opened))
    }

    /// Reads the session at a key, if there is one.
    fn find(&mut self, key: &[u8]) -> Result<std::result::Result<Option<Opened>, Refusal>> {
        let found = self.router.ask(&request::get(key, Some(0)).tolerant())?;
        Ok(found.map(|session| {
            let session = session?;
            Some(Opened {
                id: session.session_id.to_string(),
                key: key.to_vec(),
                is_new: false,
                version: session.version,
                mark: session
                    .meta
                    .get(IMPORTED)
                    .and_then(|marks| marks.get(self.source))
                    .cloned(),
            })
        }))
    }

    /// Appends the items and moves the mark with them; `mark_after(n)` is the mark after the first n. Refused items are skipped, and the mark
    /// passes them. Returns false if somebody else wrote to the session, which has to be read again.
    fn feed(
        &mut self,
        session: &mut Opened,
        at_ms: Option<i64>,
        items: &[Item],
        mark_after: &dyn Fn(usize) -> Json,
    ) -> Result<bool> {
        let mut begin = 0;
        let mut most = MESSAGES_OF_A_COMMAND;
        while begin < items.len() && !stop::is_requested() {
            let mut size = 0;
            let count = items[begin..]
                .iter()
                .take(most)
                .take_while(|item| {
                    size += item.body.len();
                    size <= BYTES_OF_A_COMMAND
                })
                .count()
                .max(1);
            let chunk = &items[begin..begin + count];
            let mut append = redis::cmd("SESSION.APPEND");
            append.arg(&session.key).arg("IFVERSION").arg(session.version);
            if let Some(at_ms) = at_ms {
                append.arg("AT").arg(at_ms);
            }
            append.arg("JSON");
            chunk.iter().for_each(|item| {
                append.arg(&item.body);
            });
            let append = request::raw(append, &session.key);
            let mark = self.mark(session, session.version + 1, mark_after(begin + count));
            match self.router.transaction(&[append.command(), mark.command()])? {
                Ok(_) => {
                    session.version += 2;
                    self.report.messages += count as u64;
                    begin += count;
                    most = MESSAGES_OF_A_COMMAND;
                }
                Err(refusal) if refusal.is("VERSIONCONFLICT") => return Ok(false),
                Err(_) if count > 1 => most = count / 2,
                Err(refusal) => {
                    self.report.skip(&chunk[0].name, &refusal);
                    let is_about_the_message = refusal.is("TOOLARGE") || refusal.is("BADMESSAGE");
                    if !is_about_the_message {
                        return Ok(true);
                    }
                    let mark = self.mark(session, session.version, mark_after(begin + 1));
                    if self.router.ask(&mark)?.is_err() {
                        return Ok(false);
                    }
                    session.version += 1;
                    begin += 1;
                }
            }
        }
        Ok(true)
    }

    /// The command that moves the mark of an import.
    fn mark(&self, session: &Opened, version: u64, mark: Json) -> Request<Value> {
        let patch = json!({ IMPORTED: { self.source: mark } }).to_string();
        let mut command = redis::cmd("SESSION.META");
        command.arg(&session.key).arg(patch).arg("IFVERSION").arg(version);
        request::raw(command, &session.key)
    }
}
