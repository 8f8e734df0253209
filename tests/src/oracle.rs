//! What must be equal: before and after a restart, on primary and replica, in the original and in its copy.

use std::collections::BTreeMap;

use redis::Value;

use crate::client::{bytes, items, text};
use crate::server::{Options, Server};
use crate::talk;

/// Everything of a key that clients can see. The replies are compared in addition to the digest, so that data missing from the digest
/// is noticed.
#[derive(PartialEq, Clone, Debug)]
pub struct Visible {
    pub digest: String,
    pub expires_at_ms: i64,
    pub range: String,
    pub document: String,
    pub entities: String,
    pub events: String,
    /// The replies of `SESSION.READ` from the beginning, without the times of gaps.
    pub told: String,
    pub anchors: String,
    pub entries: String,
}

impl Server {
    pub fn visible(&self, key: &[u8]) -> Visible {
        let type_name = text(&self.call(&[b"TYPE".as_slice(), key]));
        let shown_of = |name: &str, args: &[&[u8]]| {
            if type_name == name {
                talk::render(&self.call(args))
            } else {
                String::new()
            }
        };
        let shown = |args: &[&[u8]]| shown_of("rdsession", args);
        Visible {
            digest: self.digest(key),
            expires_at_ms: self.expires_at_ms(key),
            range: shown(&[b"SESSION.RANGE", key, b"0", b"-1", b"WITHMETA"]),
            document: shown(&[b"SESSION.GET", key]),
            entities: shown(&[b"SESSION.ENTITY", b"LIST", key]),
            events: shown(&[b"SESSION.EVENT", b"RANGE", key, b"-", b"+"]),
            told: if type_name == "rdsession" {
                self.told_to_all(key)
            } else {
                String::new()
            },
            anchors: shown_of("rdanchors", &[b"SESSION.ANCHOR", b"GET", key]),
            entries: shown_of("rdsessidx", &[b"SESSION.INDEX", b"LIST", key]),
        }
    }

    /// Each kind separately, since the greatest dropped seq is stored for each.
    fn told_to_all(&self, key: &[u8]) -> String {
        let mut told = String::new();
        for kinds in [&[][..], &[b"MESSAGES".as_slice()], &[b"EVENTS"]] {
            match self.call(&[&[b"SESSION.READ".as_slice(), key, b"0"], kinds].concat()) {
                Value::Array(entries) => {
                    for entry in entries {
                        let mut fields = items(&entry);
                        if text(&fields[2]) == "gap" {
                            fields.remove(1);
                        }
                        told += &(talk::render(&Value::Array(fields)) + "\n");
                    }
                }
                nothing => told += &(talk::render(&nothing) + "\n"),
            }
        }
        told
    }

    /// Returns every key of database 0.
    pub fn snapshot(&self) -> BTreeMap<Vec<u8>, Visible> {
        let keys = items(&self.call(&["KEYS", "*"]));
        keys.iter()
            .map(bytes)
            .map(|key| (key.clone(), self.visible(&key)))
            .collect()
    }
}

/// Asserts that two snapshots are equal, and names the keys that differ.
#[track_caller]
pub fn assert_same(when: &str, before: &BTreeMap<Vec<u8>, Visible>, after: &BTreeMap<Vec<u8>, Visible>) {
    let mut differences = String::new();
    for key in before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)))
    {
        let (was, is) = (before.get(key), after.get(key));
        if was != is {
            differences += &format!("{}:\n  was {was:.4000?}\n  is  {is:.4000?}\n", talk::quote(key));
        }
    }
    assert!(
        differences.is_empty(),
        "{when}, these keys are not what they were:\n{differences}"
    );
}

/// Sets keys up on a server and asserts that they are the same to the byte and the millisecond after everything that moves
/// values.
#[track_caller]
pub fn assert_survives_everything(set_up: impl Fn(&Server)) {
    let primary = Server::append_only().start();
    let attached_before = Options::default().hostile().start();
    attached_before.replicate(&primary);
    set_up(&primary);
    let original = primary.snapshot();
    assert!(!original.is_empty());

    attached_before.wait_for(&primary);
    assert_same("on a replica attached before", &original, &attached_before.snapshot());
    primary.run("DEBUG RELOAD");
    assert_same("after DEBUG RELOAD", &original, &primary.snapshot());
    attached_before.run("REPLICAOF NO ONE");
    assert_same("on a promoted replica", &original, &attached_before.snapshot());
    attached_before.run("DEBUG RELOAD");
    assert_same(
        "on a promoted replica after DEBUG RELOAD",
        &original,
        &attached_before.snapshot(),
    );

    primary.restart_with(&Options::default().hostile());
    assert_same(
        "after loading the append-only file as it was written, with other settings",
        &original,
        &primary.snapshot(),
    );
    for preamble in ["yes", "no"] {
        primary.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        primary.rewrite_append_only_file();
        primary.restart_with(&Options::default().hostile());
        assert_same(
            &format!("after an AOF rewrite with aof-use-rdb-preamble {preamble}"),
            &original,
            &primary.snapshot(),
        );
    }

    let attached_after = Options::default().hostile().start();
    attached_after.replicate(&primary);
    assert_same("on a replica attached after", &original, &attached_after.snapshot());

    let duplicate = b"duplicate".to_vec();
    for (key, visible) in &original {
        primary.call(&[&b"COPY"[..], key, &duplicate]);
        assert_eq!(&primary.visible(&duplicate), visible, "COPY of {}", talk::quote(key));
        assert_same_dump(&primary, key, &duplicate);
        primary.call(&[&b"DEL"[..], &duplicate]);
        restore(&primary, key, &duplicate);
        assert_eq!(
            &primary.visible(&duplicate),
            visible,
            "DUMP and RESTORE of {}",
            talk::quote(key)
        );
        primary.call(&[&b"DEL"[..], &duplicate]);
    }
    attached_after.wait_for(&primary);
    assert_same(
        "on a replica after copies came and went",
        &original,
        &attached_after.snapshot(),
    );
}

/// Restores a key's `DUMP` under another name, with the key's expiry.
fn restore(server: &Server, key: &[u8], destination: &[u8]) {
    let payload = bytes(&server.call(&[b"DUMP".as_slice(), key]));
    let expires_at_ms = server.expires_at_ms(key).max(0).to_string();
    let reply = server.call(&[
        b"RESTORE".as_slice(),
        destination,
        expires_at_ms.as_bytes(),
        &payload,
        b"ABSTTL",
    ]);
    assert_eq!(reply, Value::Okay, "RESTORE of {}", talk::quote(key));
}

/// Checks that the `DUMP` of a copy restores to the same: shared history must be written in full.
fn assert_same_dump(server: &Server, key: &[u8], copy: &[u8]) {
    let restored = b"restored-copy";
    restore(server, copy, restored);
    assert_eq!(
        server.digest(restored),
        server.digest(key),
        "DUMP of a COPY of {}",
        talk::quote(key)
    );
    server.call(&[&b"DEL"[..], restored]);
}
