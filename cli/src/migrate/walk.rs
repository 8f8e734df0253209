//! The walk over one server: page after page of SCAN, a bounded number of migrations in flight.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use redis::Value;
use redis_session_client::request::{self, Request};
use redis_session_client::tolerant::{array, bytes, int};
use redis_session_client::{key_slot, Migrate, Migrated};
use redis_session_core::layout::{Format, Kind};

use super::group::{self, Group, Held, Key};
use super::report::Report;
use crate::connection::{read, Answer, Link, Place, Router, Scan, Target};
use crate::digest::digest;
use crate::failure::{Refusal, Result};
use crate::stop;
use crate::term::progress::Progress;

/// Keys that one SCAN looks at: about half a millisecond of the server's time.
const PAGE: usize = 500;

/// Elements in flight at most, unless a single session has more: a server finishes what it has read from one client before it serves others.
const ELEMENTS_IN_FLIGHT: u64 = 5_000;

/// Bytes that count as one element, for values of few large elements.
const BYTES_OF_AN_ELEMENT: u64 = 512;

/// Bytes of a string that are read to see whether it may be JSON.
const HEAD_BYTES: isize = 256;

pub struct Settings {
    pub matching: Option<String>,
    pub format: Option<Format>,
    pub dry_run: bool,
    /// Keep the sources; sessions go to this prefix and the key's name.
    pub keep_to: Option<String>,
    pub in_flight: usize,
    pub max_elements: Option<u64>,
}

/// What the walks of one run share.
pub struct Shared<'a> {
    pub settings: Settings,
    pub progress: Progress,
    /// Digests of the groups that were looked at and of their sessions: SCAN returns each key of a group. Single keys are not remembered,
    /// because a database may have many of them.
    pub known: Mutex<HashSet<u128>>,
    pub target: &'a Target,
    pub is_cluster: bool,
}

impl Shared<'_> {
    /// Remembers a digest; false if it was known.
    fn learn(&self, digest: u128) -> bool {
        self.known.lock().map_or(true, |mut known| known.insert(digest))
    }

    fn forget(&self, digest: u128) {
        if let Ok(mut known) = self.known.lock() {
            known.remove(&digest);
        }
    }

    fn knows(&self, digest: u128) -> bool {
        self.known.lock().is_ok_and(|known| known.contains(&digest))
    }
}

fn of_session(key: &[u8]) -> u128 {
    digest(("session", key))
}

fn of_group(group: &Group) -> u128 {
    let names: Vec<&[u8]> = group.sources.iter().map(|(key, _)| key.as_slice()).collect();
    digest(("group", names))
}

/// A group that looks like a session, from its sizes and first elements.
struct Candidate {
    group: Group,
    /// In elements.
    weight: u64,
    /// Whether the first element of its list is a spoken line.
    is_spoken: bool,
    /// Whether to send `DRYRUN` first.
    is_asked_first: bool,
}

pub struct Walker<'a> {
    shared: &'a Shared<'a>,
    router: Router,
    /// The node that is walked. Commands for keys that moved away go through the router.
    node: Place,
    report: Report,
    /// Hashes that may be sessions, whose sorted set of events may have a name that only SCAN finds.
    waiting: Vec<Key>,
    is_last_round: bool,
}

impl<'a> Walker<'a> {
    pub fn new(shared: &'a Shared<'a>, router: Router, node: Place) -> Walker<'a> {
        Walker {
            shared,
            router,
            node,
            report: Report::default(),
            waiting: Vec::new(),
            is_last_round: false,
        }
    }

    pub fn walk(mut self) -> Report {
        if let Err(failure) = self.try_walk() {
            self.report.error = Some(failure.to_string());
        }
        self.report
    }

    fn try_walk(&mut self) -> Result<()> {
        let mut scan = self.scan();
        while !stop::is_requested() {
            let Some(keys) = scan.next(self.router.at(&self.node)?)? else {
                break;
            };
            let met = keys.len() as u64;
            self.report.keys += met;
            self.page(keys)?;
            let is_filtered = self.shared.settings.matching.is_some();
            self.shared
                .progress
                .add(if is_filtered { PAGE as u64 } else { met }, 0, 0);
        }
        self.is_last_round = true;
        self.waiting.sort_unstable();
        self.waiting.dedup();
        for keys in std::mem::take(&mut self.waiting).chunks(PAGE) {
            self.page(keys.to_vec())?;
        }
        Ok(())
    }

    fn scan(&self) -> Scan {
        let settings = &self.shared.settings;
        let kind = settings.format.and_then(|format| format.only_kind());
        Scan::new(PAGE)
            .matching(settings.matching.as_deref())
            .of_type(kind.map(Kind::type_name))
    }

    fn page(&mut self, mut keys: Vec<Key>) -> Result<()> {
        // SCAN may show a key twice.
        keys.sort_unstable();
        keys.dedup();
        let held = self.held(&keys)?;
        let mut known: HashMap<Key, Held> = keys.iter().cloned().zip(held).collect();
        let is_alone = |key: &Key| self.is_forced_alone(known[key]);
        let related: HashSet<Key> = keys
            .iter()
            .filter(|key| !is_alone(key))
            .flat_map(|key| group::relatives(key, known[key]))
            .filter(|name| !known.contains_key(name))
            .collect();
        let related: Vec<Key> = related.into_iter().collect();
        let held = self.held(&related)?;
        known.extend(related.into_iter().zip(held));

        let mut groups = Vec::new();
        for key in &keys {
            let held = known[key];
            if held == Held::Session && self.is_news(key, true) {
                self.report.already += 1;
            }
            let held_at = |name: &[u8]| known.get(name).copied().unwrap_or(Held::Missing);
            let guess = match held {
                Held::Source(kind) if self.is_forced_alone(held) => Some(Group::alone(key, kind)),
                _ => group::guess(key, held, held_at),
            };
            groups.extend(guess.filter(|group| self.is_new(group)));
        }
        while !groups.is_empty() && !stop::is_requested() {
            let candidates = self.look_at(groups)?;
            groups = self.migrate(candidates)?;
            groups.retain(|group| self.is_new(group));
        }
        Ok(())
    }

    /// Whether a forced layout of one key takes this key alone, whatever its relatives are.
    fn is_forced_alone(&self, held: Held) -> bool {
        let only = self.shared.settings.format.and_then(|format| format.only_kind());
        only.is_some_and(|only| held == Held::Source(only))
    }

    fn is_new(&self, group: &Group) -> bool {
        let suits = self.shared.settings.format.is_none_or(|format| group.suits(format));
        // A smaller guess is of a session that was found already if its key is.
        let is_found = self.shared.knows(of_session(group.key()));
        suits && !is_found && (group.is_alone() || self.shared.learn(of_group(group)))
    }

    /// Whether this session was not counted yet; remembers it if SCAN may return it again.
    fn is_news(&self, key: &[u8], is_alone: bool) -> bool {
        match is_alone && self.shared.settings.keep_to.is_none() {
            true => !self.shared.knows(of_session(key)),
            false => self.shared.learn(of_session(key)),
        }
    }

    fn held(&mut self, keys: &[Key]) -> Result<Vec<Held>> {
        let of_key = |key: &Key| request::raw(redis::cmd("TYPE").arg(key).to_owned(), key);
        let requests: Vec<_> = keys.iter().map(of_key).collect();
        let held = self.send(&requests)?.into_iter().map(|answer| match answer {
            Ok(word) => bytes(word).map_or(Held::Other, |word| Held::named(&word)),
            // A key that may not be seen may not be migrated.
            Err(_) => Held::Other,
        });
        Ok(held.collect())
    }

    /// Sends all requests to the walked node; those that are redirected are sent again by the router.
    fn send<T>(&mut self, requests: &[Request<T>]) -> Result<Vec<Answer<T>>> {
        let commands = requests.iter().map(|request| request.command().cmd());
        let answers = self.router.at(&self.node)?.call_all(commands)?;
        let answers = requests.iter().zip(answers).map(|(request, answer)| match answer {
            Ok(reply) => Ok(Ok(read(request, reply)?)),
            Err(refusal) if refusal.is_redirection() && self.shared.is_cluster => self.router.ask(request),
            Err(refusal) => refusal.failure().map_or(Ok(Err(refusal)), Err),
        });
        answers.collect()
    }

    /// Reads sizes and first elements, and returns the groups that may be sessions. Groups that are too large are skipped.
    fn look_at(&mut self, groups: Vec<Group>) -> Result<Vec<Candidate>> {
        let mut requests = Vec::new();
        for (key, kind) in groups.iter().flat_map(|group| &group.sources) {
            let (size, head) = match kind {
                Kind::String => (
                    "STRLEN",
                    redis::cmd("GETRANGE").arg(key).arg(0).arg(HEAD_BYTES - 1).to_owned(),
                ),
                Kind::List => ("LLEN", redis::cmd("LINDEX").arg(key).arg(0).to_owned()),
                Kind::Hash => {
                    let fields: Vec<&str> = told_by_hash()
                        .flat_map(|format| format.hash_fields())
                        .copied()
                        .collect();
                    ("HLEN", redis::cmd("HMGET").arg(key).arg(fields).to_owned())
                }
                Kind::Zset => ("ZCARD", redis::cmd("ZRANGE").arg(key).arg(0).arg(0).to_owned()),
            };
            let commands = [
                redis::cmd(size).arg(key).to_owned(),
                head,
                redis::cmd("MEMORY").arg("USAGE").arg(key).to_owned(),
            ];
            requests.extend(commands.map(|command| request::raw(command, key)));
        }
        let mut answers = self.send(&requests)?.into_iter();
        let mut candidates = Vec::new();
        for group in groups {
            let mut weight = 0;
            let mut heads = Vec::new();
            for _ in &group.sources {
                let mut next = || answers.next().and_then(std::result::Result::ok);
                let (size, head, memory) = (next(), next(), next());
                let number = |value: Option<Value>| value.as_ref().and_then(int).unwrap_or(0) as u64;
                weight += number(size).max(number(memory) / BYTES_OF_AN_ELEMENT);
                heads.push(head.unwrap_or(Value::Nil));
            }
            if let Some(candidate) = self.candidate(group, weight, &heads) {
                match self.shared.settings.max_elements {
                    Some(most) if candidate.weight > most => {
                        let reason = format!("larger than --max-elements {most}");
                        let why = format!("{reason}: counts as {} elements; --large migrates it", candidate.weight);
                        self.report.skip(candidate.group.key(), None, &reason, why);
                    }
                    _ => candidates.push(candidate),
                }
            }
        }
        Ok(candidates)
    }

    fn candidate(&mut self, group: Group, weight: u64, heads: &[Value]) -> Option<Candidate> {
        let head = |kind: Kind| {
            let place = group.sources.iter().position(|(_, other)| *other == kind)?;
            heads.get(place)
        };
        let is_forced = self.shared.settings.format.is_some();
        let mut is_asked_first = is_forced || !group.is_alone();
        let mut is_spoken = false;
        if let Some(first) = head(Kind::List) {
            let Value::BulkString(first) = first else { return None };
            is_spoken = group::is_spoken_line(first);
            is_asked_first |= !is_object(first);
        } else if let Some(text) = head(Kind::String) {
            let Value::BulkString(text) = text else { return None };
            let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
            if !is_forced && !matches!(first, Some(b'[' | b'{')) {
                return None;
            }
        } else {
            let mut fields = array(head(Kind::Hash)?.clone()).into_iter();
            let has_all = |format: Format| {
                let found = fields.by_ref().take(format.hash_fields().len());
                found.filter(|field| *field != Value::Nil).count() == format.hash_fields().len()
            };
            if !told_by_hash().any(has_all) && !is_forced {
                return None;
            }
            let events = head(Kind::Zset).map(|first| array(first.clone()).into_iter().find_map(bytes));
            let has_events = events
                .as_ref()
                .is_some_and(|first| first.as_deref().is_some_and(is_object));
            if !has_events && !self.is_last_round {
                // Either it has none, or they are under another name.
                self.shared.forget(of_group(&group));
                self.waiting.push(group.key().to_vec());
                return None;
            }
            if !has_events && !group.is_alone() {
                let group = Group::alone(group.key(), Kind::Hash);
                return Some(Candidate {
                    group,
                    weight,
                    is_spoken,
                    is_asked_first,
                });
            }
        }
        Some(Candidate {
            group,
            weight,
            is_spoken,
            is_asked_first,
        })
    }

    /// Migrates the candidates, a bounded number at a time. Returns the smaller groups to try in place of refused ones.
    fn migrate(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Group>> {
        let mut smaller = Vec::new();
        let mut candidates = candidates.into_iter().peekable();
        while candidates.peek().is_some() && !stop::is_requested() {
            let mut batch = Vec::new();
            let mut weight = 0;
            while let Some(next) = candidates.next_if(|next: &Candidate| {
                batch.is_empty()
                    || batch.len() < self.shared.settings.in_flight && weight + next.weight <= ELEMENTS_IN_FLIGHT
            }) {
                weight += next.weight;
                batch.push(next);
            }
            self.migrate_batch(batch, &mut smaller)?;
        }
        Ok(smaller)
    }

    fn migrate_batch(&mut self, batch: Vec<Candidate>, smaller: &mut Vec<Group>) -> Result<()> {
        let batch: Vec<(Candidate, Key)> = batch
            .into_iter()
            .filter_map(|candidate| {
                let key = self.destination(&candidate.group)?;
                Some((candidate, key))
            })
            .collect();
        let is_dry_run = self.shared.settings.dry_run;
        let (asked, mut ready): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|(candidate, _)| candidate.is_asked_first || is_dry_run);
        let requests: Vec<_> = asked
            .iter()
            .map(|(candidate, key)| self.request(&candidate.group, key, true))
            .collect();
        let answers = self.send(&requests)?;
        for ((candidate, key), answer) in asked.into_iter().zip(answers) {
            let done = match answer {
                Ok(done) => done,
                Err(refusal) => {
                    self.refused(candidate.group, &refusal, smaller);
                    continue;
                }
            };
            match self.objection(&candidate, &done) {
                Some(why) => self.report.skip(candidate.group.key(), None, &why, why.clone()),
                None if is_dry_run => self.record(&candidate.group, &key, &done),
                None => ready.push((candidate, key)),
            }
        }
        let requests: Vec<_> = ready
            .iter()
            .map(|(candidate, key)| self.request(&candidate.group, key, false))
            .collect();
        let answers = self.send(&requests)?;
        for ((candidate, key), answer) in ready.into_iter().zip(answers) {
            match answer {
                Ok(done) => self.record(&candidate.group, &key, &done),
                Err(refusal) => self.refused(candidate.group, &refusal, smaller),
            }
        }
        Ok(())
    }

    /// The session's key; `None`, and the group is skipped, if it is not in one slot with all sources.
    fn destination(&mut self, group: &Group) -> Option<Key> {
        let key = match &self.shared.settings.keep_to {
            None => group.key().to_vec(),
            Some(prefix) if self.shared.is_cluster && !group.key().contains(&b'{') => {
                [prefix.as_bytes(), b"{", group.key(), b"}"].concat()
            }
            Some(prefix) => [prefix.as_bytes(), group.key()].concat(),
        };
        let all_in_one = group
            .sources
            .iter()
            .all(|(source, _)| key_slot(source) == key_slot(&key));
        if self.shared.is_cluster && !all_in_one {
            let names: Vec<String> = group.sources[1..]
                .iter()
                .map(|(key, _)| crate::term::text::key_text(key))
                .collect();
            let reason = "its keys are in different slots of the cluster";
            let why = format!("{reason}: with {}", names.join(", "));
            self.report.skip(group.key(), None, reason, why);
            return None;
        }
        Some(key)
    }

    fn request(&self, group: &Group, key: &[u8], is_dry_run: bool) -> Request<Migrated> {
        let settings = &self.shared.settings;
        let mut migrate = Migrate::new();
        if !group.is_alone() || key != group.key() {
            migrate = migrate.sources(group.sources.iter().map(|(source, _)| source));
        }
        if let Some(format) = &settings.format {
            migrate = migrate.format(format.name());
        }
        if settings.keep_to.is_some() {
            migrate = migrate.keep();
        }
        if is_dry_run {
            migrate = migrate.dry_run();
        }
        request::migrate(key, migrate).tolerant()
    }

    /// Why a group is skipped although the server would migrate it.
    fn objection(&self, candidate: &Candidate, done: &Migrated) -> Option<String> {
        let is_forced = self.shared.settings.format.is_some();
        let found = Format::named(done.format.as_bytes());
        if let Some(format) = found.filter(|format| format.is_plain_text() && !is_forced) {
            let is_named_so = format.keys[0].common(candidate.group.key()).is_some();
            if !is_named_so || !candidate.is_spoken {
                return Some(format!(
                    "plain lines of text, which may be anything; --format {} --match … migrates them",
                    format.name()
                ));
            }
        }
        let is_empty = done.messages + done.events == 0 && done.malformed > 0;
        (is_empty && is_forced).then(|| "not one of its elements is a JSON object".to_owned())
    }

    fn record(&mut self, group: &Group, key: &[u8], done: &Migrated) {
        let is_news = self.is_news(key, group.is_alone());
        if done.format == "rdsession" {
            self.report.already += u64::from(is_news);
            return;
        }
        self.is_news(group.key(), group.is_alone());
        let is_dry_run = self.shared.settings.dry_run;
        let layout = self.report.layout(&done.format);
        layout.found += 1;
        layout.migrated += u64::from(!is_dry_run);
        layout.messages += done.messages;
        layout.malformed += done.malformed;
        layout.entities += done.entities;
        layout.events += done.events;
        layout.removed += if is_dry_run { 0 } else { done.removed };
        self.shared.progress.add(0, 1, done.messages);
    }

    fn refused(&mut self, group: Group, refusal: &Refusal, smaller: &mut Vec<Group>) {
        if refusal.is("NOSESSION")
            || refusal.is("BADLAYOUT") && refusal.text.ends_with("is missing") && group.is_alone()
        {
            // It has gone since: expired, deleted, or migrated by somebody else.
            return;
        }
        if refusal.is("BADLAYOUT") && !group.otherwise.is_empty() {
            smaller.extend(group.otherwise);
            return;
        }
        let (reason, why) = match refusal.code.as_str() {
            "BADLAYOUT" => ("not recognised", format!("not recognised: {}", refusal.text)),
            "BUSYKEY" => ("something else is where the session would be", refusal.to_string()),
            "NOPERM" => ("not permitted", refusal.to_string()),
            _ => ("refused by the server", refusal.to_string()),
        };
        let why = if why.starts_with(reason) {
            why
        } else {
            format!("{reason}: {why}")
        };
        self.report.skip(group.key(), None, reason, why);
    }
}

/// The layouts that are told by the fields of a hash.
fn told_by_hash() -> impl Iterator<Item = Format> {
    Format::all().filter(|format| !format.hash_fields().is_empty())
}

/// Whether this is one JSON object.
fn is_object(text: &[u8]) -> bool {
    // Its members do not matter, only that they are there.
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    first == Some(&b'{') && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}
