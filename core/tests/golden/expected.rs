//! The golden files of `testdata` and the replies expected from them. The end-to-end tests use this file too.
//!
//! `expected.json` of a release:
//!
//! ```text
//! { "release": "0.1.0", "server": "Redis 7.0.15",
//!   "clock_ms": 1768384800000,                     the server's clock when it was asked
//!   "keys": { "roles": { "type": "rdsession", "expires_at_ms": -1,
//!                        "asked": [ ["SESSION.GET roles MESSAGES 1", {…}], … ] }, … },
//!   "asked": [ ["COPY tools copy", 1], … ] }       asked once, in this order, after the keys
//! ```
//!
//! A reply is JSON: nil is null, an integer a number, an array an array, a map an object, an error `{"error": …}`, a string a string, or
//! `{"hex": …}` where it is not UTF-8. A string that is a JSON document of the module's own (the reply of `SESSION.GET`, an event) stands there
//! as that document. `"…"` stands for anything.
//!
//! `expected.json` is never rewritten, so it must hold for later versions too: a document may have new members, and all members that it had
//! must be the same. Strings are compared verbatim: a message's body is kept byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

/// Members of the module's documents whose text is the client's own.
const VERBATIM: [&str; 5] = ["messages", "meta", "summary", "changeInfo", "impact"];

/// The files of one release.
pub struct Release {
    pub folder: PathBuf,
    pub clock_ms: i64,
    pub keys: BTreeMap<String, Key>,
    /// Commands run once, after the keys.
    pub asked: Vec<Asked>,
    /// `DEBUG DIGEST-VALUE` of each key of the module's types.
    pub digests: BTreeMap<String, String>,
}

pub struct Key {
    pub type_name: String,
    /// −1 without an expiry.
    pub expires_at_ms: i64,
    pub asked: Vec<Asked>,
}

/// A command as typed, and its reply as JSON text.
pub struct Asked {
    pub command: String,
    pub reply: String,
}

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .join("testdata")
}

/// Every release's files, `testdata/format-N/RELEASE`, in the order of their paths.
pub fn releases() -> Vec<Release> {
    let mut folders: Vec<PathBuf> = folders_of(&testdata())
        .into_iter()
        .filter(|folder| name_of(folder).starts_with("format-"))
        .flat_map(|format| folders_of(&format))
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no golden files in {}", testdata().display());
    folders.into_iter().map(Release::read).collect()
}

fn folders_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.is_dir())
        .collect()
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("a name in UTF-8")
}

impl Release {
    fn read(folder: PathBuf) -> Release {
        let file = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let expected = file("expected.json");
        let members = object(&expected).expect("expected.json is an object");
        let keys: BTreeMap<String, Key> = object(&members["keys"])
            .expect("keys by their names")
            .into_iter()
            .map(|(name, key)| {
                let key = object(&key).expect("what is known of a key");
                let known = Key {
                    type_name: text(&key["type"]),
                    expires_at_ms: number(&key["expires_at_ms"]),
                    asked: asked_of(&key["asked"]),
                };
                (name, known)
            })
            .collect();
        let digests: BTreeMap<String, String> = object(&file("digests.json"))
            .expect("digests.json is an object")
            .into_iter()
            .map(|(key, digest)| (key, text(&digest)))
            .collect();
        let of_module = keys.iter().filter(|(_, key)| key.is_of_module()).map(|(name, _)| name);
        assert!(
            of_module.eq(digests.keys()),
            "digests.json names other keys: {}",
            folder.display()
        );
        Release {
            clock_ms: number(&members["clock_ms"]),
            asked: asked_of(&members["asked"]),
            keys,
            digests,
            folder,
        }
    }

    /// N of `testdata/format-N`.
    pub fn format(&self) -> u8 {
        let parent = name_of(self.folder.parent().expect("a folder of its format"));
        let number = parent.strip_prefix("format-").expect("a folder of a format");
        number.parse().expect("the number of a format")
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Key {
    pub fn is_of_module(&self) -> bool {
        self.type_name.starts_with("rd")
    }
}

fn asked_of(json: &str) -> Vec<Asked> {
    array(json)
        .expect("an array of what was asked")
        .iter()
        .map(|pair| match array(pair).as_deref() {
            Some([command, reply]) => Asked {
                command: text(command),
                reply: reply.clone(),
            },
            _ => panic!("not a command and its reply: {pair}"),
        })
        .collect()
}

fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json:.200}"))
}

fn number(json: &str) -> i64 {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json:.200}"))
}

fn object(json: &str) -> Option<BTreeMap<String, String>> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).ok()?;
    Some(
        members
            .into_iter()
            .map(|(name, value)| (name, value.get().to_owned()))
            .collect(),
    )
}

fn array(json: &str) -> Option<Vec<String>> {
    let elements: Vec<Box<RawValue>> = serde_json::from_str(json).ok()?;
    Some(elements.iter().map(|element| element.get().to_owned()).collect())
}

/// Returns the first difference between two replies in JSON; `None` if the actual one is as expected.
pub fn difference(expected: &str, actual: &str) -> Option<String> {
    difference_at("the reply", expected, actual)
}

fn difference_at(place: &str, expected: &str, actual: &str) -> Option<String> {
    if expected == "\"…\"" || expected == actual {
        return None;
    }
    let differs = || {
        Some(format!(
            "{place}: expected {expected:.1000}\n{place}: got      {actual:.1000}"
        ))
    };
    if let Some(members) = object(expected) {
        let Some(present) = object(actual) else {
            return differs();
        };
        return members.iter().find_map(|(name, expected)| {
            let place = format!("{place}.{name}");
            match present.get(name) {
                None => Some(format!("{place} is missing, expected {expected:.1000}")),
                Some(actual) if VERBATIM.contains(&name.as_str()) => (actual != expected)
                    .then(|| format!("{place}: expected {expected:.1000}\n{place}: got      {actual:.1000}")),
                Some(actual) => difference_at(&place, expected, actual),
            }
        });
    }
    if let Some(elements) = array(expected) {
        let Some(present) = array(actual) else { return differs() };
        if elements.len() != present.len() {
            let (expected, actual) = (elements.len(), present.len());
            return Some(format!("{place}: expected {expected} elements, got {actual}"));
        }
        let pairs = elements.iter().zip(&present).enumerate();
        return pairs
            .into_iter()
            .find_map(|(index, (expected, actual))| difference_at(&format!("{place}[{index}]"), expected, actual));
    }
    // The same string may be escaped differently.
    let text = |json: &str| serde_json::from_str::<String>(json).ok();
    match (text(expected), text(actual)) {
        (Some(expected), Some(actual)) if expected == actual => None,
        _ => differs(),
    }
}

#[test]
fn differences_are_found_and_new_members_are_none() {
    let same = [
        (
            r#"{"a":1,"b":[{"c":null}]}"#,
            r#"{"new":0,"b":[{"c":null,"d":2}],"a":1}"#,
        ),
        (r#"["é","…",2]"#, r#"["\u00e9",{"any":"thing"},2]"#),
        (r#"{"meta":{"a":1.0}}"#, r#"{"meta":{"a":1.0}}"#),
    ];
    for (expected, actual) in same {
        assert_eq!(difference(expected, actual), None, "{expected} {actual}");
    }
    let different = [
        (r#"{"a":1,"b":2}"#, r#"{"a":1}"#),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#),
        (r#"{"a":null}"#, r#"{"a":0}"#),
        ("[1,2]", "[1,2,3]"),
        ("[1,2]", "[2,1]"),
        (r#""a""#, r#""b""#),
        (r#""1""#, "1"),
        ("1", "1.0"),
        ("null", "[]"),
        ("[]", "{}"),
        ("{}", "[]"),
        (r#"{"meta":{"a":1}}"#, r#"{"meta":{"a":1,"b":2}}"#),
        (r#"{"messages":[{"a":1.0}]}"#, r#"{"messages":[{"a":1.00}]}"#),
    ];
    for (expected, actual) in different {
        assert!(difference(expected, actual).is_some(), "{expected} {actual}");
    }
}
