//! The report of a walk, as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::term::text::key_text;

/// Number of skipped keys that the report names. All are counted.
const NAMED_AT_MOST: usize = 1000;
/// Number of skipped keys that the table names for each reason.
const SHOWN_OF_EACH: usize = 5;

#[derive(Debug, Default, Clone, Copy, Serialize, PartialEq, Eq)]
pub struct Layout {
    /// Sessions in this layout.
    pub found: u64,
    pub migrated: u64,
    pub messages: u64,
    pub events: u64,
    pub entities: u64,
    /// Elements that are no JSON objects: set aside in their session, not lost.
    pub malformed: u64,
    /// Source keys that were removed.
    pub removed: u64,
    /// Found, and not migrated.
    pub skipped: u64,
}

#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Skipped {
    pub key: String,
    pub why: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub dry_run: bool,
    pub interrupted: bool,
    /// The error that ended the walk early.
    pub error: Option<String>,
    pub seconds: f64,
    /// Keys that SCAN returned.
    pub keys: u64,
    /// Keys that were sessions before.
    pub already: u64,
    pub layouts: BTreeMap<String, Layout>,
    /// Keys that might have been sessions and were left as they are.
    pub skipped: u64,
    pub reasons: BTreeMap<String, u64>,
    /// The first of them.
    pub skipped_keys: Vec<Skipped>,
}

impl Report {
    pub fn layout(&mut self, name: &str) -> &mut Layout {
        if !self.layouts.contains_key(name) {
            self.layouts.insert(name.to_owned(), Layout::default());
        }
        self.layouts.get_mut(name).expect("it is there")
    }

    /// Counts a skipped key. `reason` groups keys; `why` begins with it and has the details of this one.
    pub fn skip(&mut self, key: &[u8], layout: Option<&str>, reason: &str, why: String) {
        self.skipped += 1;
        *self.reasons.entry(reason.to_owned()).or_default() += 1;
        if let Some(layout) = layout {
            let layout = self.layout(layout);
            layout.found += 1;
            layout.skipped += 1;
        }
        if self.skipped_keys.len() < NAMED_AT_MOST {
            let key = key_text(key);
            self.skipped_keys.push(Skipped { key, why });
        }
    }

    /// Adds what another walk, of another node, found.
    pub fn add(&mut self, other: Report) {
        self.keys += other.keys;
        self.already += other.already;
        self.skipped += other.skipped;
        for (name, layout) in other.layouts {
            let sum = self.layout(&name);
            sum.found += layout.found;
            sum.migrated += layout.migrated;
            sum.messages += layout.messages;
            sum.events += layout.events;
            sum.entities += layout.entities;
            sum.malformed += layout.malformed;
            sum.removed += layout.removed;
            sum.skipped += layout.skipped;
        }
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.skipped_keys.extend(other.skipped_keys);
        self.skipped_keys.truncate(NAMED_AT_MOST);
        self.error = self.error.take().or(other.error);
    }

    pub fn total(&self) -> Layout {
        self.layouts.values().fold(Layout::default(), |sum, layout| Layout {
            found: sum.found + layout.found,
            migrated: sum.migrated + layout.migrated,
            messages: sum.messages + layout.messages,
            events: sum.events + layout.events,
            entities: sum.entities + layout.entities,
            malformed: sum.malformed + layout.malformed,
            removed: sum.removed + layout.removed,
            skipped: sum.skipped + layout.skipped,
        })
    }

    pub fn is_complete(&self) -> bool {
        self.skipped == 0 && self.total().malformed == 0
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let total = self.total();
        if !self.layouts.is_empty() {
            let head = [
                "layout",
                "found",
                "migrated",
                "messages",
                "events",
                "malformed",
                "skipped",
            ];
            let row = |name: &str, layout: &Layout| {
                let counts = [
                    layout.found,
                    layout.migrated,
                    layout.messages,
                    layout.events,
                    layout.malformed,
                    layout.skipped,
                ];
                let mut row = vec![name.to_owned()];
                row.extend(counts.iter().map(u64::to_string));
                row
            };
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(self.layouts.iter().map(|(name, layout)| row(name, layout)));
            if self.layouts.len() > 1 {
                rows.push(row("all", &total));
            }
            for row in &rows {
                let _ = write!(text, "{:<16}", row[0]);
                row[1..].iter().for_each(|cell| {
                    let _ = write!(text, " {cell:>10}");
                });
                text.push('\n');
            }
            text.push('\n');
        }
        let what = if self.dry_run { "would be migrated" } else { "migrated" };
        let sessions = if self.dry_run {
            total.found - total.skipped
        } else {
            total.migrated
        };
        let rate = total.messages as f64 / self.seconds.max(0.001);
        let _ = writeln!(
            text,
            "{} keys met; {sessions} sessions {what} ({} messages), {} were sessions already; {:.1} s, {rate:.0} messages/s",
            self.keys, total.messages, self.already, self.seconds
        );
        if total.malformed > 0 {
            let _ = writeln!(
                text,
                "{} elements are no JSON objects: they stay readable with SESSION.RANGE key 0 -1 MALFORMED",
                total.malformed
            );
        }
        for (reason, count) in &self.reasons {
            let _ = writeln!(text, "\nskipped, {reason}: {count}");
            let keys = self
                .skipped_keys
                .iter()
                .filter(|skipped| skipped.why.starts_with(reason.as_str()));
            for skipped in keys.clone().take(SHOWN_OF_EACH) {
                let detail = skipped.why[reason.len()..].trim_start_matches([':', ' ']);
                let _ = writeln!(
                    text,
                    "  {}{}{detail}",
                    skipped.key,
                    if detail.is_empty() { "" } else { ": " }
                );
            }
            if *count > SHOWN_OF_EACH as u64 {
                let _ = writeln!(
                    text,
                    "  … ({} more; --json names up to {NAMED_AT_MOST})",
                    *count - SHOWN_OF_EACH as u64
                );
            }
        }
        if self.interrupted {
            text.push_str("\nstopped before the end: run the same command again to go on.\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_nodes_add_up() {
        let (mut one, mut two) = (Report::default(), Report::default());
        one.layout("json-list").found = 1;
        two.layout("json-list").found = 2;
        two.layout("adk").malformed = 3;
        two.skip(b"k\xff\n", Some("adk"), "too large", "too large: 9 elements".into());
        one.add(two);
        assert_eq!(one.total().found, 4);
        assert_eq!((one.skipped, one.reasons["too large"]), (1, 1));
        assert_eq!(one.skipped_keys[0].key, "k\\xff\\x0a");
        assert!(!one.is_complete());
        let text = one.text();
        assert!(text.contains("json-list"), "{text}");
        assert!(
            text.contains("skipped, too large: 1\n  k\\xff\\x0a: 9 elements"),
            "{text}"
        );
    }
}
