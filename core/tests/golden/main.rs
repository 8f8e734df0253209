//! Decodes what released versions wrote: every payload in `testdata`, through the crate's public API.
//!
//! This version makes nothing here: `scripts/golden` made the files at each release. Only `digests.json` may be rewritten,
//! with `UPDATE_GOLDEN_DIGESTS=1`, when what a digest covers has changed on purpose (CONTRIBUTING.md).

// The end-to-end tests use the rest.
#[allow(dead_code)]
mod expected;
mod sha1;

use std::collections::BTreeMap;
use std::fs;

use redis_session_core::directory::Page;
use redis_session_core::session::{Bounds, EventRange, Fork, Now, Part, Range};
use redis_session_core::{Anchors, Directory, PayloadKind, Session};
use uuid::Uuid;

use self::expected::{difference, releases, Key, Release};

/// A value of any of the types.
enum Decoded {
    Session(Session),
    Directory(Directory),
    Anchors(Anchors),
}

impl Decoded {
    fn decode(payload: &[u8]) -> Result<Decoded, String> {
        let kind = PayloadKind::of(payload).ok_or("of no known kind")?;
        let decoded = match kind {
            PayloadKind::Session => Session::decode_whole(payload).map(Decoded::Session),
            PayloadKind::Directory => Directory::decode_whole(payload).map(Decoded::Directory),
            PayloadKind::Anchors => Anchors::decode_whole(payload).map(Decoded::Anchors),
        };
        decoded.map_err(|error| error.to_string())
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Decoded::Session(session) => session.encode_whole(),
            Decoded::Directory(directory) => directory.encode_whole(),
            Decoded::Anchors(anchors) => anchors.encode_whole(),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Decoded::Session(_) => "rdsession",
            Decoded::Directory(_) => "rdsessidx",
            Decoded::Anchors(_) => "rdanchors",
        }
    }

    /// Returns `DEBUG DIGEST-VALUE` of a key with this value.
    fn digest(&self, has_expiry: bool) -> String {
        let mut digest = sha1::ServerDigest::new();
        match self {
            Decoded::Session(session) => session.digest(|part| digest.part(part)),
            Decoded::Directory(directory) => directory.digest(|part| digest.part(part)),
            Decoded::Anchors(anchors) => anchors.digest(|part| digest.part(part)),
        }
        digest.of_module_value(has_expiry)
    }
}

/// All values of a release by their keys.
type Values = BTreeMap<String, Decoded>;

fn decode_all(release: &Release, payload_of: impl Fn(&str) -> Vec<u8>) -> Values {
    let keys = release.keys.iter().filter(|(_, key)| key.is_of_module());
    keys.map(|(name, key)| {
        let decoded = Decoded::decode(&payload_of(name))
            .unwrap_or_else(|error| panic!("{}/{name}.payload is refused: {error}", release.folder.display()));
        assert_eq!(decoded.type_name(), key.type_name, "{name}");
        (name.clone(), decoded)
    })
    .collect()
}

fn digests_of(release: &Release, values: &Values) -> BTreeMap<String, String> {
    let digest = |(name, value): (&String, &Decoded)| {
        let has_expiry = release.keys[name].expires_at_ms >= 0;
        (name.clone(), value.digest(has_expiry))
    };
    values.iter().map(digest).collect()
}

#[test]
fn every_payload_is_read_as_it_was_written() {
    for release in releases() {
        let values = decode_all(&release, |name| release.file(&format!("{name}.payload")));
        assert_replies(&release, &values);

        // What this version encodes must decode to the same.
        let again = decode_all(&release, |name| values[name].encode());
        assert_replies(&release, &again);
        let digests = digests_of(&release, &values);
        assert_eq!(
            digests_of(&release, &again),
            digests,
            "{}: encoded and decoded",
            release.folder.display()
        );

        if std::env::var_os("UPDATE_GOLDEN_DIGESTS").is_some() {
            write_digests(&release, &digests);
        } else {
            assert_eq!(
                digests,
                release.digests,
                "{}: if what a digest covers was changed on purpose, see CONTRIBUTING.md, Golden files",
                release.folder.display()
            );
        }
    }
}

fn write_digests(release: &Release, digests: &BTreeMap<String, String>) {
    let text = serde_json::to_string_pretty(digests).expect("a map of texts");
    fs::write(release.folder.join("digests.json"), text + "\n").expect("digests.json");
}

#[test]
fn every_payload_is_named_in_expected_json() {
    for release in releases() {
        let mut payloads: Vec<String> = fs::read_dir(&release.folder)
            .expect("a folder")
            .map(|entry| {
                entry
                    .expect("a folder entry")
                    .file_name()
                    .into_string()
                    .expect("a name in UTF-8")
            })
            .filter_map(|name| name.strip_suffix(".payload").map(str::to_owned))
            .collect();
        payloads.sort();
        assert!(
            payloads.iter().eq(release.digests.keys()),
            "{}",
            release.folder.display()
        );
        for type_name in ["rdsession", "rdsessidx", "rdanchors"] {
            let is_there = release.keys.values().any(|key| key.type_name == type_name);
            assert!(is_there, "{} has no {type_name}", release.folder.display());
        }
    }
}

/// A payload with another number in its format byte shows which formats the decoder supports: if it is refused for another reason, the
/// decoder has tried to read it.
#[test]
fn every_format_that_is_read_has_golden_files() {
    let releases = releases();
    for type_name in ["rdsession", "rdsessidx", "rdanchors"] {
        let payloads: Vec<(u8, Vec<u8>)> = releases
            .iter()
            .flat_map(|release| release.keys.iter().map(move |(name, key)| (release, name, key)))
            .filter(|(_, _, key)| key.type_name == type_name)
            .map(|(release, name, _)| (release.format(), release.file(&format!("{name}.payload"))))
            .collect();
        let known: Vec<u8> = payloads
            .iter()
            .map(|(_, payload)| payload[format_at(payload)])
            .collect();
        let (_, sample) = &payloads[0];
        for format in 0..=u8::MAX {
            let mut other = sample.clone();
            other[format_at(sample)] = format;
            let error = Decoded::decode(&other).err();
            let is_refused = error.is_some_and(|error| error.contains("unknown format"));
            assert_eq!(
                !is_refused,
                known.contains(&format),
                "{type_name}: format {format} and its golden files"
            );
        }
        if type_name == "rdsession" {
            for (folder_format, payload) in &payloads {
                assert_eq!(
                    payload[format_at(payload)],
                    *folder_format,
                    "in the folder of another format"
                );
            }
        }
    }
}

/// Returns the offset of the format: after the length of a session's first blob, or after the kind of another type.
fn format_at(payload: &[u8]) -> usize {
    match payload[0] {
        0 => 2,
        _ => {
            payload
                .iter()
                .position(|byte| byte & 0x80 == 0)
                .expect("the end of a length")
                + 1
        }
    }
}

// -------------------------------------------------------------------------------------- replies

#[track_caller]
fn assert_replies(release: &Release, values: &Values) {
    let mut differences = Vec::new();
    let mut compared = 0;
    for name in values.keys() {
        let mut asking = Asking {
            release,
            values,
            fork: None,
        };
        for asked in &release.keys[name].asked {
            let Some(reply) = asking.reply(&asked.command) else {
                continue;
            };
            compared += 1;
            let found = difference(&asked.reply, &reply);
            differences.extend(found.map(|difference| format!("> {}\n{difference}", asked.command)));
        }
    }
    assert!(
        differences.is_empty(),
        "{} is not read as it was written:\n{}",
        release.folder.display(),
        differences.join("\n")
    );
    assert!(compared > values.len(), "too little was compared: {compared}");
}

/// Computes the replies of a server with these values, at the time when the release was queried.
struct Asking<'a> {
    release: &'a Release,
    values: &'a Values,
    fork: Option<Session>,
}

impl Asking<'_> {
    /// Returns the reply as JSON text; `None` if only a server can make it.
    fn reply(&mut self, command: &str) -> Option<String> {
        let now_ms = self.release.clock_ms;
        let words: Vec<&str> = command.split_whitespace().collect();
        let reply = match words.as_slice() {
            // Compared end to end: the replies are composed by the module.
            ["SESSION.INFO" | "SESSION.READ", ..] => return None,
            ["SESSION.INDEX", "LEN", name] => self.listed(name, false).len().to_string(),
            ["SESSION.INDEX", "LIST", name] => array(self.listed(name, false)),
            ["SESSION.INDEX", "LIST", name, "BYACTIVITY"] => array(self.listed(name, true)),
            ["SESSION.ANCHOR", "GET", name] => array(self.anchors(name).newest_first(now_ms).map(|anchor| {
                let mut out = Vec::new();
                anchor.write_json(&mut out);
                text(out)
            })),
            ["SESSION.GET", name, "MESSAGES", count] => {
                let expires_at_ms = Some(self.key(name).expires_at_ms).filter(|at_ms| *at_ms >= 0);
                let count = count.parse().expect("a count");
                text(self.session(name).document(count, expires_at_ms, now_ms))
            }
            ["SESSION.RANGE", name, "0", "-1", "WITHMETA"] => rows(self.session(name), false, now_ms),
            ["SESSION.RANGE", name, "0", "-1", "WITHMETA", "MALFORMED"] => rows(self.session(name), true, now_ms),
            ["SESSION.EVENT", "RANGE", name, "-", "+"] => {
                let range = EventRange {
                    to: u64::MAX,
                    count: u64::MAX,
                    ..EventRange::default()
                };
                let mut events = Vec::new();
                let session = self.session(name);
                session.events(&range, now_ms, |event| events.push(text(event.to_vec())));
                array(events)
            }
            ["SESSION.ENTITY", "LIST", name] => array(self.session(name).entities().map(|(id, entity)| {
                let mut out = Vec::new();
                entity.write_json(id, &mut out);
                text(out)
            })),
            ["SESSION.AGENT", "LIST", name] => array(self.session(name).agents().map(|(name, agent)| {
                let mut out = Vec::new();
                agent.write_json(name, &mut out);
                text(out)
            })),
            ["SESSION.CHECKPOINT", "LIST", name] => {
                let session = self.session(name);
                let checkpoints = session.checkpoints().iter();
                array(checkpoints.map(|checkpoint| text(checkpoint.json(session.id()))))
            }
            ["SESSION.FORK", name, "fork", "CHECKPOINT", id, "PERSIST"] => {
                let fork = Fork {
                    id: Uuid::nil(),
                    created_at_ms: now_ms,
                    part: Part::Checkpoint(id.parse().expect("a seq")),
                };
                let now = Now {
                    now_ms,
                    content_ms: now_ms,
                    compress_after_bytes: 1024,
                };
                self.fork = Some(self.session(name).fork(&fork, now).result);
                "\"…\"".into()
            }
            ["DEL", "fork"] => i32::from(self.fork.take().is_some()).to_string(),
            _ => panic!("say what a server replies to {command}, or that only a server can say"),
        };
        Some(reply)
    }

    fn key(&self, name: &str) -> &Key {
        &self.release.keys[name]
    }

    fn session(&self, name: &str) -> &Session {
        match (self.values.get(name), &self.fork) {
            (Some(Decoded::Session(session)), _) => session,
            (None, Some(fork)) if name == "fork" => fork,
            _ => panic!("no session {name}"),
        }
    }

    fn anchors(&self, name: &str) -> &Anchors {
        match &self.values[name] {
            Decoded::Anchors(anchors) => anchors,
            _ => panic!("no anchors {name}"),
        }
    }

    /// Returns the entries of a directory whose keys hold their sessions.
    fn listed(&self, name: &str, by_activity: bool) -> Vec<String> {
        let Decoded::Directory(directory) = &self.values[name] else {
            panic!("no directory {name}")
        };
        let mut found = directory.list(None, Page::ALL, |entry| {
            let key = std::str::from_utf8(entry.key()).expect("the keys are UTF-8");
            match self.values.get(key) {
                Some(Decoded::Session(session)) if session.id() == entry.id() => Some(session),
                _ => None,
            }
        });
        if by_activity {
            // Sorted by creation before, which remains the order of equal times.
            found.sort_by_key(|(_, session)| std::cmp::Reverse(session.last_activity_ms()));
        }
        found
            .into_iter()
            .map(|(entry, session)| {
                let mut out = Vec::new();
                entry.write_json(session, self.release.clock_ms, &mut out);
                text(out)
            })
            .collect()
    }
}

/// `[seq, ms, role, tokens, body]` of each message, or of each element that a migration has set aside.
fn rows(session: &Session, malformed: bool, now_ms: i64) -> String {
    let range = Range {
        bounds: Bounds::Index { start: 0, stop: -1 },
        rev: false,
        roles: &[],
        count: u64::MAX,
        malformed,
    };
    let mut rows = Vec::new();
    session.range(&range, now_ms, |head, body| {
        let role = quoted(head.role.as_str());
        let body = match std::str::from_utf8(body.get()) {
            Ok(body) => quoted(body),
            Err(_) => {
                let hex: String = body.get().iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{{\"hex\":\"{hex}\"}}")
            }
        };
        rows.push(format!("[{},{},{role},{},{body}]", head.seq, head.time_ms, head.tokens));
    });
    array(rows)
}

fn array(elements: impl IntoIterator<Item = String>) -> String {
    let elements: Vec<String> = elements.into_iter().collect();
    format!("[{}]", elements.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}
