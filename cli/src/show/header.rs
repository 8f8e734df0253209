//! What is known about a session, above its messages; its entities, below.

use serde_json::Value as Json;

use crate::session::entry::{text, texts, time_of, What};
use crate::session::snapshot::Snapshot;
use crate::term::color::Mood;
use crate::term::page::Look;
use crate::term::text::key_text;
use crate::term::text::{clean_line, grouped, pad, shorten, width, wrap};
use crate::term::time;

/// Where the values of the header stand.
const LABEL_COLUMNS: usize = 12;

/// Meta is the client's, and may be long.
const META_LINES: usize = 4;

pub fn header(snapshot: &Snapshot, look: &Look) -> String {
    let now_ms = look.now_ms;
    let mut out = look.paint.bold(&key_text(&snapshot.key));
    if let Some(alias) = snapshot.text("alias") {
        out += &format!("  {}", look.paint.put(crate::term::color::NAME, &clean_line(&alias)));
    }
    out.push('\n');
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            let label = look.paint.dim(&pad(label, LABEL_COLUMNS));
            out.push_str(&format!("  {label}{value}\n"));
        }
    };
    let at = |name: &str| {
        let time_ms = snapshot.time(name)?;
        let when = look.paint.dim(&format!("  {}", time::relative(time_ms, now_ms)));
        Some(format!("{}{when}", look.clock.full(time_ms)))
    };
    if snapshot.is_older_layout() {
        line(
            "layout",
            "an older one that reads like a session; its first write makes it one, or `redis-session migrate`".into(),
        );
    } else {
        line("id", clean_line(&snapshot.text("session_id").unwrap_or_default()));
    }
    line("scope", clean_line(&snapshot.text("scope").unwrap_or_default()));
    let state = snapshot
        .text("state")
        .map(|state| clean_line(&state))
        .unwrap_or_default();
    let mut state = look.paint.put(Mood::of(&state).style(), &state);
    if let Some(closed) = at("closed_at") {
        state += &format!(
            "  {}",
            look.paint.put(crate::term::color::WARN, &format!("closed {closed}"))
        );
    }
    line("state", state);
    if !snapshot.is_older_layout() {
        line("created", at("created_at").unwrap_or_default());
        line("active", at("last_activity").unwrap_or_default());
    }
    line("expires", at("expires_at").unwrap_or_else(|| look.paint.dim("never")));
    line("messages", messages(snapshot));
    line("window", window(snapshot));
    line("recorded", recorded(snapshot));
    line("agents", agents(snapshot, look));
    if let Some(meta) = snapshot.document.get("meta").filter(|meta| !meta.is_null()) {
        let lines = wrap(&clean_line(&meta.to_string()), look.columns - LABEL_COLUMNS - 2);
        let cut = if look.is_full { usize::MAX } else { META_LINES };
        for (n, text) in lines.iter().take(cut).enumerate() {
            let more = if n + 1 == cut && lines.len() > cut { " …" } else { "" };
            line(if n == 0 { "meta" } else { "" }, format!("{text}{more}"));
        }
    }
    out
}

fn messages(snapshot: &Snapshot) -> String {
    let tokens = snapshot.entries.iter().filter_map(|entry| match &entry.what {
        What::Message { tokens, .. } => *tokens,
        _ => None,
    });
    let tokens: i64 = tokens.sum();
    let shown = snapshot
        .entries
        .iter()
        .filter(|entry| matches!(entry.what, What::Message { .. }))
        .count();
    let count = snapshot.number("message_count");
    let tokens = format!("{} tokens", grouped(tokens));
    let queries = match snapshot.number("query_count") {
        0 => String::new(),
        queries => format!(" ({} of users so far)", grouped(queries)),
    };
    match i64::try_from(shown) {
        Ok(shown) if shown < count => format!("{}{queries}, the last {shown} here: {tokens}", grouped(count)),
        _ => format!("{}{queries}, {tokens}", grouped(count)),
    }
}

/// The bounds that there are.
fn window(snapshot: &Snapshot) -> String {
    let limits = &snapshot.document["limits"];
    let bound = |name: &str| limits[name].as_i64().filter(|bound| *bound > 0);
    let mut all = Vec::new();
    all.extend(bound("maxlen").map(|n| format!("{} messages", grouped(n))));
    all.extend(bound("maxtokens").map(|n| format!("{} tokens", grouped(n))));
    all.extend(bound("maxbytes").map(|n| format!("{} bytes", grouped(n))));
    all.extend(bound("maxage").map(|ms| format!("no older than {}", time::duration(ms))));
    let mut out = match all.is_empty() {
        true => "no bound".to_owned(),
        false => format!("at most {}", all.join(", ")),
    };
    let pinned = texts(limits.get("pin"));
    if !pinned.is_empty() {
        out += &format!("; pinned: {}", clean_line(&pinned.join(", ")));
    }
    out
}

fn recorded(snapshot: &Snapshot) -> String {
    let events = snapshot.document["events"]["count"].as_i64().unwrap_or(0);
    let checkpoints = snapshot.document["checkpoints"].as_array().map_or(0, Vec::len);
    let seq = format!(
        "up to seq {}, version {}",
        snapshot.number("last_seq"),
        snapshot.number("version")
    );
    let several = |n: i64, one: &str| format!("{} {one}{}, ", grouped(n), if n == 1 { "" } else { "s" });
    let events = if events > 0 {
        several(events, "event")
    } else {
        String::new()
    };
    let checkpoints = match checkpoints {
        0 => String::new(),
        n => several(i64::try_from(n).unwrap_or(i64::MAX), "checkpoint"),
    };
    format!("{events}{checkpoints}{seq}")
}

fn agents(snapshot: &Snapshot, look: &Look) -> String {
    let lease = &snapshot.document["lease"];
    let holder = text(lease.get("agentId"));
    let until = time_of(lease.get("expires_at")).filter(|until| *until > look.now_ms);
    let mut names: Vec<String> = snapshot.document["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|agent| text(agent.get("agentId")))
        .collect();
    // Who has the turn need not have joined.
    names.extend(holder.clone().filter(|holder| !names.contains(holder)));
    let name = |name: &String| {
        let plain = clean_line(name);
        match until {
            Some(until) if holder.as_ref() == Some(name) => {
                let turn = format!(" (has the turn for {})", time::duration(until - look.now_ms));
                format!("{plain}{}", look.paint.put(crate::term::color::WARN, &turn))
            }
            _ => plain,
        }
    };
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The entities, the most recently mentioned first, in columns.
pub fn entities(snapshot: &Snapshot, look: &Look) -> String {
    let Some(all) = snapshot.document["entities_mentioned"]
        .as_object()
        .filter(|all| !all.is_empty())
    else {
        return String::new();
    };
    let mut rows: Vec<(i64, [String; 4])> = all
        .values()
        .map(|entity| {
            let last_ms = time_of(entity.get("last_mentioned")).unwrap_or_default();
            (last_ms, row(entity, look, last_ms))
        })
        .collect();
    rows.sort_by_key(|(last_ms, _)| std::cmp::Reverse(*last_ms));
    let limit = if look.is_full { usize::MAX } else { 20 };
    let left = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let columns = |n: usize| {
        rows.iter()
            .map(|(_, row)| width(&row[n]))
            .max()
            .unwrap_or(0)
            .min(look.columns / 3)
    };
    let widths = [columns(0), columns(1), columns(2)];
    let mut out = format!("{}\n", look.rule("Entities", &grouped(all.len() as i64)));
    for (_, [name, kind, mentions, aliases]) in &rows {
        let cell = |text: &str, n: usize| pad(&shorten(text, widths[n]), widths[n]);
        let rest = look.columns.saturating_sub(widths.iter().sum::<usize>() + 8);
        let line = format!(
            "  {}  {}  {}  {}",
            cell(name, 0),
            look.paint.dim(&cell(kind, 1)),
            cell(mentions, 2),
            look.paint.dim(&shorten(aliases, rest)),
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if left > 0 {
        out += &look.paint.dim(&format!("  … {left} more (--full)\n"));
    }
    out
}

fn row(entity: &Json, look: &Look, last_ms: i64) -> [String; 4] {
    let field = |name: &str| clean_line(&text(entity.get(name)).unwrap_or_default());
    let mentions = entity["mention_count"].as_i64().unwrap_or(0);
    let (id, name) = (field("entity_id"), field("entity_name"));
    let mut known = texts(entity.get("aliases"));
    if id != name {
        known.insert(0, id);
    }
    [
        name,
        field("entity_type"),
        format!("{mentions} ×, last {}", time::relative(last_ms, look.now_ms)),
        clean_line(&known.join(", ")),
    ]
}
