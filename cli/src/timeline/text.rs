//! A timeline as text: a strip for each lane, then a list of events.

use std::collections::HashMap;

use super::model::{Speaker, Timeline};
use super::scale::Scale;
use crate::term::color::{Mood, DIM, NAME, WARN};
use crate::term::page::Look;
use crate::term::text::{grouped, pad, shorten, width};
use crate::term::time;

/// Lines of the list at most, unless `--all` is given: more are merged.
const LINES_MAX: usize = 80;
const LANE_COLUMNS_MAX: usize = 18;
const STATE_COLUMNS_MIN: usize = 12;
/// Densities of messages.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn page(timeline: &Timeline, look: &Look, is_all: bool) -> String {
    format!(
        "{}\n{}\n{}",
        head(timeline, look),
        strips(timeline, look),
        list(timeline, look, is_all)
    )
}

/// `15 events, 3 agents, …`
pub fn summary(timeline: &Timeline) -> String {
    let several = |n: usize, one: &str| {
        let number = grouped(i64::try_from(n).unwrap_or(i64::MAX));
        format!("{number} {one}{}", if n == 1 { "" } else { "s" })
    };
    let mut all = vec![several(timeline.event_count(), "event")];
    let agents = timeline.lanes.iter().filter(|lane| *lane != "—").count();
    all.push(several(agents, "agent"));
    if !timeline.flags.is_empty() {
        all.push(several(timeline.flags.len(), "checkpoint"));
    }
    if timeline.message_count > 0 {
        all.push(several(usize::try_from(timeline.message_count).unwrap_or(0), "message"));
    }
    format!(
        "{} over {}",
        all.join(", "),
        time::duration(timeline.end_ms - timeline.begin_ms)
    )
}

fn head(timeline: &Timeline, look: &Look) -> String {
    let mut out = look.paint.bold(&timeline.key);
    if timeline.title != timeline.key {
        out += &format!("  {}", look.paint.put(NAME, &timeline.title));
    }
    let begin = look.clock.full(timeline.begin_ms);
    let zone = look.clock.zone(timeline.begin_ms);
    let closed = if timeline.is_closed { "; closed" } else { "" };
    let line = format!("  {}, from {begin} {zone}{closed}", summary(timeline));
    out + "\n" + &look.paint.dim(&line) + "\n"
}

/// A column of a strip: the number of events and their mood.
#[derive(Clone, Copy, Default)]
struct Cell {
    count: usize,
    mood: Option<Mood>,
    is_handoff: bool,
}

fn strips(timeline: &Timeline, look: &Look) -> String {
    let names = timeline.lanes.iter().map(|lane| width(lane)).max().unwrap_or(0);
    let least = if timeline.flags.is_empty() {
        8
    } else {
        "checkpoints".len()
    };
    let label_columns = names.clamp(least, LANE_COLUMNS_MAX);
    let columns = look.columns.saturating_sub(label_columns + 4).max(16);
    let scale = Scale::new(&timeline.times(), 0.0, columns as f64, 3.0);
    let column = |time_ms: i64| (scale.x(time_ms) as usize).min(columns - 1);
    let row = |name: &str, strip: String| {
        let name = pad(&shorten(name, label_columns), label_columns);
        format!("  {}  {}\n", look.paint.dim(&name), strip.trim_end())
    };
    let mut out = row("state", states(timeline, look, columns, &column));
    let mut cells = vec![vec![Cell::default(); columns]; timeline.lanes.len()];
    for mark in &timeline.marks {
        let cell = &mut cells[mark.lane][column(mark.time_ms)];
        cell.count += 1;
        cell.mood = Some(
            cell.mood
                .map_or(mark.mood, |mood| if mood == Mood::Bad { mood } else { mark.mood }),
        );
    }
    for handoff in &timeline.handoffs {
        let cell = &mut cells[handoff.from][column(handoff.time_ms)];
        cell.count += 1;
        cell.is_handoff = true;
    }
    for (lane, cells) in timeline.lanes.iter().zip(&cells) {
        out += &row(lane, lane_strip(cells, look));
    }
    if !timeline.flags.is_empty() {
        let mut line = vec![' '; columns];
        timeline.flags.iter().for_each(|flag| line[column(flag.time_ms)] = '⚑');
        out += &row(
            "checkpoints",
            look.paint.put(WARN, line.iter().collect::<String>().trim_end()),
        );
    }
    let mut counts = vec![0usize; columns];
    timeline
        .messages
        .iter()
        .for_each(|said| counts[column(said.time_ms)] += 1);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    if !timeline.messages.is_empty() {
        let bar = |count: &usize| match count {
            0 => ' ',
            count => BARS[(count * BARS.len()).div_ceil(most).clamp(1, BARS.len()) - 1],
        };
        out += &row(
            "messages",
            look.paint
                .put(DIM, counts.iter().map(bar).collect::<String>().trim_end()),
        );
    }
    let mut axis = String::new();
    let mut day = look.clock.short_day(timeline.begin_ms);
    for tick in scale.ticks(&look.clock, 16.0) {
        // The day where it changes; the first stands in the heading.
        let today = look.clock.short_day(tick.time_ms);
        let label = match today == day || tick.label == today {
            true => tick.label,
            false => format!("{today} {}", tick.label),
        };
        day = today;
        let at = (tick.x as usize).max(width(&axis) + usize::from(!axis.is_empty()));
        if at + label.len() < columns {
            axis = pad(&axis, at) + "╵" + &label;
        }
    }
    out += &row("", look.paint.dim(&axis));
    if !scale.breaks.is_empty() {
        let all: Vec<String> = scale
            .breaks
            .iter()
            .map(|cut| super::scale::break_label(cut.span_ms))
            .collect();
        out += &look.paint.dim(&format!("  silences left out: {}\n", all.join(", ")));
    }
    out
}

/// `working────┤pass──────┤broke──`, coloured.
fn states(timeline: &Timeline, look: &Look, columns: usize, column: &dyn Fn(i64) -> usize) -> String {
    let mut out = String::new();
    for (n, span) in timeline.spans.iter().enumerate() {
        let is_last = n + 1 == timeline.spans.len();
        let end = if is_last { columns } else { column(span.to_ms) };
        let room = end.saturating_sub(column(span.from_ms).min(end)).min(columns);
        let room = if n == 0 { end } else { room };
        if room == 0 {
            continue;
        }
        let name = shorten(&span.state, room.saturating_sub(usize::from(!is_last)));
        let line = "─".repeat(room.saturating_sub(width(&name) + usize::from(!is_last)));
        let edge = if is_last { "" } else { "┤" };
        out += &look
            .paint
            .put(Mood::of(&span.state).style(), &format!("{name}{line}{edge}"));
    }
    out
}

fn lane_strip(cells: &[Cell], look: &Look) -> String {
    let last = cells.iter().rposition(|cell| cell.count > 0).map_or(0, |last| last + 1);
    let first = cells.iter().position(|cell| cell.count > 0).unwrap_or(0);
    let cells = cells[..last].iter().enumerate().map(|(n, cell)| match cell.count {
        0 if n < first => " ".to_owned(),
        0 => look.paint.dim("·"),
        count => {
            let mood = cell.mood.unwrap_or(Mood::Neutral);
            let sign = match (count, mood, cell.is_handoff) {
                (_, Mood::Bad, _) => "✗".to_owned(),
                (1, _, true) => "⇄".to_owned(),
                (1, ..) => "◆".to_owned(),
                (2..=9, ..) => count.to_string(),
                _ => "#".to_owned(),
            };
            look.paint.put(mood.style(), &sign)
        }
    });
    cells.collect()
}

/// A line of the list.
struct Row {
    time_ms: i64,
    until_ms: i64,
    mark: &'static str,
    mood: Mood,
    kind: String,
    count: usize,
    agent: String,
    transition: Option<(String, String)>,
    details: String,
    /// Whether it is never merged with others: transitions, failures, handoffs, checkpoints.
    is_notable: bool,
}

fn rows(timeline: &Timeline) -> Vec<Row> {
    let name = |lane: usize| timeline.lanes.get(lane).cloned().unwrap_or_default();
    let mut all: Vec<(u64, Row)> = Vec::new();
    for mark in &timeline.marks {
        let row = Row {
            time_ms: mark.time_ms,
            until_ms: mark.time_ms,
            mark: if mark.mood == Mood::Bad { "✗" } else { "◆" },
            mood: mark.mood,
            kind: mark.kind.clone(),
            count: 1,
            agent: name(mark.lane),
            transition: mark.transition.clone(),
            details: mark.details.clone(),
            is_notable: mark.transition.as_ref().is_some_and(|(from, to)| from != to),
        };
        all.push((mark.seq, row));
    }
    let plain = |time_ms: i64, mark: &'static str, kind: &str, agent: String, details: String| Row {
        time_ms,
        until_ms: time_ms,
        mark,
        mood: Mood::Neutral,
        kind: kind.to_owned(),
        count: 1,
        agent,
        transition: None,
        details,
        is_notable: true,
    };
    for handoff in &timeline.handoffs {
        let agents = format!("{} → {}", name(handoff.from), name(handoff.to));
        all.push((
            handoff.seq,
            plain(handoff.time_ms, "⇄", "handoff", agents, handoff.note.clone()),
        ));
    }
    for flag in &timeline.flags {
        let parts = [flag.label.as_str(), flag.outcome.as_str()];
        let details = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" · ");
        all.push((flag.seq, plain(flag.time_ms, "⚑", "checkpoint", String::new(), details)));
    }
    all.sort_by_key(|(seq, _)| *seq);
    all.into_iter().map(|(_, row)| row).collect()
}

/// Merges runs of equal rows, and if there are still too many, runs of any rows that are not notable.
fn together(rows: Vec<Row>, silences: &[(i64, i64)]) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::new();
    for row in rows {
        match out.last_mut() {
            Some(last)
                if !last.is_notable
                    && !row.is_notable
                    && silence_between(silences, last.until_ms, row.time_ms).is_none()
                    && (&last.kind, &last.agent) == (&row.kind, &row.agent) =>
            {
                last.count += row.count;
                last.until_ms = row.time_ms;
                if last.details != row.details {
                    last.details.clear();
                }
            }
            _ => out.push(row),
        }
    }
    if out.len() <= LINES_MAX {
        return out;
    }
    let mut few: Vec<Row> = Vec::new();
    let mut run: Vec<Row> = Vec::new();
    for row in out {
        let last_ms = run.last().map_or(row.time_ms, |last| last.until_ms);
        if row.is_notable || silence_between(silences, last_ms, row.time_ms).is_some() {
            few.extend(summed_up(std::mem::take(&mut run)));
        }
        if row.is_notable {
            few.push(row);
        } else {
            run.push(row);
        }
    }
    few.extend(summed_up(run));
    few
}

/// The length of the silence between two rows, if the axis leaves it out.
fn silence_between(silences: &[(i64, i64)], from_ms: i64, to_ms: i64) -> Option<i64> {
    let cut = silences.iter().find(|(from, to)| from_ms <= *from && *to <= to_ms)?;
    Some(cut.1 - cut.0)
}

fn summed_up(run: Vec<Row>) -> Vec<Row> {
    if run.len() <= 2 {
        return run;
    }
    let most = |name: &dyn Fn(&Row) -> String| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        run.iter()
            .for_each(|row| *counts.entry(name(row)).or_default() += row.count);
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let more = counts.len().saturating_sub(4);
        let named = counts.iter().take(4).map(|(name, count)| format!("{name} ×{count}"));
        let mut text = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            text += &format!(", {more} more kinds");
        }
        text
    };
    let mut agents: Vec<&str> = run.iter().map(|row| row.agent.as_str()).collect();
    agents.sort_unstable();
    agents.dedup();
    let agent = match agents.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("{} agents", several.len()),
    };
    let is_bad = run.iter().any(|row| row.mood == Mood::Bad);
    vec![Row {
        time_ms: run[0].time_ms,
        until_ms: run.iter().map(|row| row.until_ms).max().unwrap_or(run[0].time_ms),
        mark: if is_bad { "✗" } else { "…" },
        mood: if is_bad { Mood::Bad } else { Mood::Neutral },
        kind: "events".into(),
        count: run.iter().map(|row| row.count).sum(),
        agent,
        transition: None,
        details: most(&|row| row.kind.clone()),
        is_notable: false,
    }]
}

fn list(timeline: &Timeline, look: &Look, is_all: bool) -> String {
    let mut rows = rows(timeline);
    let count = rows.len();
    let silences = super::scale::silences(&timeline.times());
    if !is_all {
        rows = together(rows, &silences);
    }
    let what = |row: &Row| match row.count {
        1 => row.kind.clone(),
        count => format!("{} ×{}", row.kind, grouped(count as i64)),
    };
    let offset = |row: &Row| time::offset(row.time_ms - timeline.begin_ms);
    let widest = |cell: &dyn Fn(&Row) -> String, most: usize| {
        rows.iter().map(|row| width(&cell(row))).max().unwrap_or(0).min(most)
    };
    let offset_columns = widest(&offset, 20);
    let kind_columns = widest(&what, 24);
    let agent_columns = widest(&|row| row.agent.clone(), 28);
    let mut out = String::new();
    let mut before_ms = timeline.begin_ms;
    for row in &rows {
        if let Some(span_ms) = silence_between(&silences, before_ms, row.time_ms) {
            let line = format!(
                "{}⋯ {} of silence",
                " ".repeat(offset_columns + 14),
                time::duration(span_ms)
            );
            out += &format!("{}\n", look.paint.dim(&line));
        }
        before_ms = before_ms.max(row.until_ms);
        let cell = |text: &str, columns: usize| pad(&shorten(text, columns), columns);
        let at = offset(row);
        let mut plain = offset_columns + kind_columns + agent_columns + 19;
        let mut line = format!(
            "  {}{}  {}  {} {}  {}",
            " ".repeat(offset_columns.saturating_sub(width(&at))),
            look.paint.dim(&at),
            look.paint.dim(&look.clock.time(row.time_ms)),
            look.paint.put(row.mood.style(), row.mark),
            look.paint.put(row.mood.style(), &cell(&what(row), kind_columns)),
            cell(&row.agent, agent_columns),
        );
        if let Some((from, to)) = &row.transition {
            // States are free text, of any length; short ones stay whole however narrow it is.
            let room = look.columns.saturating_sub(plain + 5);
            let from = shorten(from, (room / 2).max(STATE_COLUMNS_MIN));
            let to = shorten(to, room.saturating_sub(width(&from)).max(STATE_COLUMNS_MIN));
            line += &format!("  {} ", look.paint.dim(&format!("{from} →")));
            line += &look.paint.put(Mood::of(&to).style().bold(), &to);
            plain += width(&from) + width(&to) + 5;
        }
        let mut details = row.details.clone();
        if row.until_ms > row.time_ms {
            let over = format!("over {}", time::duration(row.until_ms - row.time_ms));
            details = if details.is_empty() {
                over
            } else {
                format!("{details}, {over}")
            };
        }
        if !details.is_empty() && look.columns > plain + 6 {
            line += &format!("  {}", look.paint.dim(&shorten(&details, look.columns - plain - 2)));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if rows.len() < count {
        out += &look
            .paint
            .dim(&format!("  {count} in {} lines (--all shows each)\n", rows.len()));
    }
    out
}

/// The style of a speaker's messages.
pub fn speaker_name(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Other => "tools, other",
    }
}
