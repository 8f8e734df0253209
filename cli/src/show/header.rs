//! The fields of a session, printed above its messages, and its entities, printed below.

use redis_session_client::{Entity, Limit, Timestamp};
use serde_json::{Map, Value as Json};

use crate::session::entry::What;
use crate::session::snapshot::Snapshot;
use crate::term::color::{Mood, NAME, WARN};
use crate::term::page::Look;
use crate::term::text::key_text;
use crate::term::text::{clean_line, grouped, pad, shorten, width, wrap};
use crate::term::time;

/// The width of the labels.
const LABEL_COLUMNS: usize = 12;

/// Lines shown of the meta, unless `--full` is given.
const META_LINES: usize = 4;

pub fn header(snapshot: &Snapshot, look: &Look) -> String {
    let mut out = look.paint.bold(&key_text(&snapshot.key));
    let session = &snapshot.session;
    if let Some(alias) = &session.alias {
        out += &format!("  {}", look.paint.put(NAME, &clean_line(alias)));
    }
    out.push('\n');
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            let label = look.paint.dim(&pad(label, LABEL_COLUMNS));
            out.push_str(&format!("  {label}{value}\n"));
        }
    };
    let at = |time: Timestamp| {
        let when = look.paint.dim(&format!("  {}", time::relative(time.ms(), look.now_ms)));
        format!("{}{when}", look.clock.full(time.ms()))
    };
    if snapshot.is_older_layout() {
        line(
            "layout",
            "an older one that reads like a session; its first write makes it one, or `redis-session migrate`".into(),
        );
    } else {
        line("id", session.session_id.to_string());
    }
    line("scope", clean_line(session.scope.as_deref().unwrap_or_default()));
    let state = clean_line(&session.state);
    let mut state = look.paint.put(Mood::of(&state).style(), &state);
    if let Some(closed) = session.closed_at {
        state += &format!("  {}", look.paint.put(WARN, &format!("closed {}", at(closed))));
    }
    line("state", state);
    if !snapshot.is_older_layout() {
        line("created", at(session.created_at));
        line("active", at(session.last_activity));
    }
    line(
        "expires",
        session.expires_at.map_or_else(|| look.paint.dim("never"), at),
    );
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
    let tokens: u64 = tokens.sum();
    let shown = snapshot
        .entries
        .iter()
        .filter(|entry| matches!(entry.what, What::Message { .. }))
        .count();
    let count = snapshot.session.message_count;
    let tokens = format!("{} tokens", grouped(tokens));
    let queries = match snapshot.session.query_count {
        0 => String::new(),
        queries => format!(" ({} of users so far)", grouped(queries)),
    };
    match u64::try_from(shown) {
        Ok(shown) if shown < count => format!("{}{queries}, the last {shown} here: {tokens}", grouped(count)),
        _ => format!("{}{queries}, {tokens}", grouped(count)),
    }
}

/// Describes the bounds of the window.
fn window(snapshot: &Snapshot) -> String {
    let limits = &snapshot.session.limits;
    let bound = |limit: Limit| limits.get(&limit).filter(|bound| *bound > 0);
    let mut all = Vec::new();
    all.extend(bound(Limit::MaxLen).map(|n| format!("{} messages", grouped(n))));
    all.extend(bound(Limit::MaxTokens).map(|n| format!("{} tokens", grouped(n))));
    all.extend(bound(Limit::MaxBytes).map(|n| format!("{} bytes", grouped(n))));
    all.extend(bound(Limit::MaxAge).map(|ms| {
        format!(
            "no older than {}",
            time::duration(i64::try_from(ms).unwrap_or(i64::MAX))
        )
    }));
    let mut out = match all.is_empty() {
        true => "no bound".to_owned(),
        false => format!("at most {}", all.join(", ")),
    };
    let pinned = snapshot.document["limits"]["pin"].as_array().into_iter().flatten();
    let pinned: Vec<&str> = pinned.filter_map(Json::as_str).collect();
    if !pinned.is_empty() {
        out += &format!("; pinned: {}", clean_line(&pinned.join(", ")));
    }
    out
}

fn recorded(snapshot: &Snapshot) -> String {
    let session = &snapshot.session;
    let checkpoints = snapshot.document["checkpoints"].as_array().map_or(0, Vec::len);
    let seq = format!("up to seq {}, version {}", session.last_seq, session.version);
    let several = |n: u64, one: &str| format!("{} {one}{}, ", grouped(n), if n == 1 { "" } else { "s" });
    let events = match session.events.count {
        0 => String::new(),
        n => several(n, "event"),
    };
    let checkpoints = match checkpoints {
        0 => String::new(),
        n => several(n as u64, "checkpoint"),
    };
    format!("{events}{checkpoints}{seq}")
}

fn agents(snapshot: &Snapshot, look: &Look) -> String {
    let session = &snapshot.session;
    let mut names: Vec<&str> = session.agents.iter().map(|agent| agent.agent_id.as_str()).collect();
    // Who has the turn need not have joined.
    let holder = session.lease.as_ref().map(|lease| lease.agent_id.as_str());
    names.extend(holder.filter(|holder| !names.contains(holder)));
    let name = |name: &&str| {
        let plain = clean_line(name);
        let left_ms = session
            .lease
            .as_ref()
            .map_or(0, |lease| lease.expires_at.ms().saturating_sub(look.now_ms));
        if left_ms > 0 && holder == Some(name) {
            let turn = format!(" (has the turn for {})", time::duration(left_ms));
            format!("{plain}{}", look.paint.put(WARN, &turn))
        } else {
            plain
        }
    };
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Prints the entities in columns, the most recently mentioned first.
pub fn entities(snapshot: &Snapshot, look: &Look) -> String {
    // In the order of the document, in which the client does not keep them: of equal times the later mentioned comes first.
    let ids = snapshot.document["entities_mentioned"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys);
    let mut all: Vec<&Entity> = ids
        .filter_map(|id| snapshot.session.entities_mentioned.get(id))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_by_key(|entity| std::cmp::Reverse(entity.last_mentioned));
    let mut rows: Vec<[String; 4]> = all.iter().map(|entity| row(entity, look)).collect();
    let limit = if look.is_full { usize::MAX } else { 20 };
    let left = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let columns = |n: usize| {
        rows.iter()
            .map(|row| width(&row[n]))
            .max()
            .unwrap_or(0)
            .min(look.columns / 3)
    };
    let widths = [columns(0), columns(1), columns(2)];
    let mut out = format!("{}\n", look.rule("Entities", &grouped(all.len() as i64)));
    for [name, kind, mentions, aliases] in &rows {
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

fn row(entity: &Entity, look: &Look) -> [String; 4] {
    let mut known = entity.aliases.clone();
    if entity.entity_id != entity.entity_name {
        known.insert(0, entity.entity_id.clone());
    }
    [
        clean_line(&entity.entity_name),
        clean_line(&entity.entity_type),
        format!(
            "{} ×, last {}",
            entity.mention_count,
            time::relative(entity.last_mentioned.ms(), look.now_ms)
        ),
        clean_line(&known.join(", ")),
    ]
}
