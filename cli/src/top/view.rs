//! Renders a sample as lines of text that fit a number of columns.

use std::collections::VecDeque;

use anstyle::Style;

use super::sample::{Node, Rates};
use super::State;
use crate::term::color::{Paint, BAD, BOLD, BUSY, DIM, GOOD, NAME, WARN};
use crate::term::text::{byte_size, grouped, pad, shorten, width};
use crate::term::time::{duration, Clock};

/// The widest lines: longer ones are hard to read.
const COLUMNS_MAX: usize = 110;
const COLUMNS_MIN: usize = 40;
const HISTORY_COLUMNS_MAX: usize = 60;
const BAR_COLUMNS: usize = 30;

/// Counters and their titles. The first [`ALWAYS_SHOWN`] are always shown, the others once they are not 0.
const SHOWN: [(&str, &str); 10] = [
    ("appended", "appended"),
    ("evicted", "evicted"),
    ("published", "published"),
    ("deduplicated", "deduplicated"),
    ("conflicts", "conflicts"),
    ("checkpoints", "checkpoints"),
    ("restores", "restores"),
    ("migrated", "migrated"),
    ("malformed", "set aside"),
    ("panics_caught", "panics"),
];
const ALWAYS_SHOWN: usize = 5;

pub fn lines(state: &State, paint: Paint, columns: usize) -> Vec<String> {
    let columns = columns.clamp(COLUMNS_MIN, COLUMNS_MAX);
    let mut out = vec![head(state, paint, columns), String::new()];
    out.extend(gauges(state, paint, columns));
    out.push(String::new());
    out.extend(counters(state, paint, columns));
    if state.sample.nodes.len() > 1 || state.sample.failure().is_some() {
        out.push(String::new());
        out.extend(nodes(state, paint, columns));
    }
    out
}

fn head(state: &State, paint: Paint, columns: usize) -> String {
    let nodes = &state.sample.nodes;
    let version = nodes
        .iter()
        .map(|node| node.version.as_str())
        .find(|version| !version.is_empty());
    let place = match nodes.as_slice() {
        [one] => one.address.clone(),
        all => format!("{} primaries", all.len()),
    };
    let left = format!(
        "{} {} {}",
        paint.put(BOLD, "redis-session"),
        paint.put(NAME, &place),
        paint.put(
            DIM,
            &format!(
                "{}, every {}",
                version.unwrap_or("?"),
                duration(state.interval.as_millis() as i64)
            )
        )
    );
    let time = Clock::new(false).time(state.sample.time_ms);
    let gap = columns.saturating_sub(console::measure_text_width(&left) + width(&time));
    match gap {
        0..2 => left,
        _ => format!("{left}{}{}", " ".repeat(gap), paint.put(DIM, &time)),
    }
}

fn gauges(state: &State, paint: Paint, columns: usize) -> Vec<String> {
    let total = |name: &str| state.sample.total(name);
    let number = |name: &str| grouped(total(name) as i64);
    let row = |what: &str, text: String| format!("{}{text}", paint.put(DIM, &pad(what, 10)));
    let cell = |text: &str, unit: &str| format!("{} {}", paint.put(BOLD, text), paint.put(DIM, unit));
    let mut out = Vec::new();
    let per_session = total("messages") as f64 / total("active_sessions").max(1) as f64;
    let mut first = format!(
        "{}  {}",
        cell(&number("messages"), "messages,"),
        cell(&format!("{per_session:.1}"), "a session")
    );
    for (name, one, many) in [
        ("directories", "directory", "directories"),
        ("anchors", "key of anchors", "keys of anchors"),
    ] {
        match total(name) {
            0 => {}
            count => {
                let more = cell(&number(name), if count == 1 { one } else { many });
                // Behind the title and the number of sessions.
                let wide = 10 + 9 + 2 + console::measure_text_width(&first) + 2 + console::measure_text_width(&more);
                if wide <= columns {
                    first += &format!("  {more}");
                }
            }
        }
    }
    out.push(row(
        "sessions",
        format!("{}  {first}", paint.put(BOLD, &pad(&number("active_sessions"), 9))),
    ));

    let (raw, stored) = (total("bytes_raw"), total("bytes_stored"));
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let bar_columns = BAR_COLUMNS.min(columns.saturating_sub(50));
    out.push(row(
        "stored",
        format!(
            "{}  {}{}",
            paint.put(BOLD, &pad(&byte_size(stored as i64), 9)),
            bar(
                share(stored, raw),
                bar_columns,
                if stored > raw { WARN } else { GOOD },
                paint
            ),
            paint.put(
                DIM,
                &format!("{:.0} % of {} raw", share(stored, raw) * 100.0, byte_size(raw as i64))
            )
        ),
    ));
    let (used, most) = (total("used_memory"), total("maxmemory"));
    let of_most = match most {
        0 => paint.put(DIM, "no maxmemory"),
        most => format!(
            "{}{}",
            bar(
                share(used, most),
                bar_columns,
                if share(used, most) > 0.9 { BAD } else { BUSY },
                paint
            ),
            paint.put(
                DIM,
                &format!(
                    "{:.0} % of {} maxmemory",
                    share(used, most) * 100.0,
                    byte_size(most as i64)
                )
            )
        ),
    };
    out.push(row(
        "memory",
        format!("{}  {of_most}", paint.put(BOLD, &pad(&byte_size(used as i64), 9))),
    ));
    out.push(row(
        "clients",
        format!(
            "{}  {}  {}",
            paint.put(BOLD, &pad(&number("connected_clients"), 9)),
            cell(&number("blocked_readers"), "readers waiting,"),
            cell(&number("instantaneous_ops_per_sec"), "commands/s")
        ),
    ));
    out
}

/// Draws a share of 1 as a bar, with a gap behind it; an empty string where there is no room.
fn bar(share: f64, columns: usize, style: Style, paint: Paint) -> String {
    if columns < 8 {
        return String::new();
    }
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    format!(
        "{}{}  ",
        paint.put(style, &"█".repeat(full)),
        paint.put(DIM, &"░".repeat(columns - full))
    )
}

fn counters(state: &State, paint: Paint, columns: usize) -> Vec<String> {
    let history_columns = columns.saturating_sub(14 + 11 + 15 + 2).min(HISTORY_COLUMNS_MAX);
    let seconds = state.interval.as_secs_f64() * state.history.len().min(history_columns) as f64;
    let when = match state.history.len() {
        0..2 => String::new(),
        _ => format!("last {}", duration((seconds * 1000.0).round() as i64)),
    };
    let titles = format!("{:<14}{:>11}{:>15}  {when}", "", "per second", "in all");
    let mut out = vec![paint.put(DIM, titles.trim_end())];
    for (place, (name, title)) in SHOWN.into_iter().enumerate() {
        let total = state.sample.total(name);
        if place >= ALWAYS_SHOWN && total == 0 {
            continue;
        }
        let rate = state.rates.as_ref().map_or(0.0, |rates| rates.of(name));
        let is_worrying = match name {
            "panics_caught" => total > 0,
            _ => false,
        };
        let style = match (is_worrying, rate > 0.0, name) {
            (true, ..) => BAD,
            (_, false, _) => DIM,
            (_, true, "conflicts" | "malformed") => WARN,
            _ => BOLD,
        };
        let line = format!(
            "{}{}{:>15}  {}",
            if is_worrying {
                paint.put(BAD, &pad(title, 14))
            } else {
                pad(title, 14)
            },
            paint.put(style, &format!("{:>11}", per_second(rate))),
            grouped(total as i64),
            paint.put(
                if style == WARN { WARN } else { NAME },
                &sparks(&state.history, name, history_columns)
            )
        );
        out.push(line.trim_end().to_owned());
    }
    out
}

/// Formats a rate: `12,345`, `1.5`, and `0` for none.
fn per_second(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".into(),
        rate if rate < 0.05 => "<0.1".into(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => grouped(rate.round() as i64),
    }
}

/// Draws the newest rates as columns, each relative to the highest.
fn sparks(history: &VecDeque<Rates>, name: &str, columns: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let rates: Vec<f64> = history.iter().map(|rates| rates.of(name)).collect();
    let rates = &rates[rates.len().saturating_sub(columns)..];
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || rates.len() < 2 {
        return String::new();
    }
    let height = |rate: &f64| match rate / most {
        share if share <= 0.0 => ' ',
        share => HEIGHTS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    rates.iter().map(height).collect()
}

/// A column of the table of nodes: title, width, and the cell of a node.
type OfNode = (&'static str, usize, fn(&Node, &dyn Fn(&str) -> f64) -> String);

const OF_NODE: [OfNode; 8] = [
    ("sessions", 11, |node, _| grouped(node.number("active_sessions") as i64)),
    ("appended/s", 12, |_, rate| per_second(rate("appended"))),
    ("stored", 10, |node, _| byte_size(node.number("bytes_stored") as i64)),
    ("memory", 10, |node, _| byte_size(node.number("used_memory") as i64)),
    ("evicted/s", 11, |_, rate| per_second(rate("evicted"))),
    ("published/s", 13, |_, rate| per_second(rate("published"))),
    ("conflicts/s", 13, |_, rate| per_second(rate("conflicts"))),
    ("readers", 9, |node, _| grouped(node.number("blocked_readers") as i64)),
];

fn nodes(state: &State, paint: Paint, columns: usize) -> Vec<String> {
    let widest = state
        .sample
        .nodes
        .iter()
        .map(|node| width(&node.address))
        .max()
        .unwrap_or(0);
    let name_columns = widest.clamp(8, columns / 3);
    let mut room = columns - name_columns;
    let fits = |(_, width, _): &&OfNode| {
        let is_room = *width <= room;
        room = room.saturating_sub(*width);
        is_room
    };
    let shown: Vec<&OfNode> = OF_NODE.iter().take_while(fits).collect();
    let mut titles = pad("primary", name_columns);
    shown
        .iter()
        .for_each(|(title, width, _)| titles += &format!("{title:>width$}"));
    let mut out = vec![paint.put(DIM, &titles)];
    for (place, node) in state.sample.nodes.iter().enumerate() {
        let name = paint.put(NAME, &pad(&shorten(&node.address, name_columns), name_columns));
        if let Some(failure) = &node.failure {
            let failure = shorten(failure, columns - name_columns - 2);
            out.push(format!("{name}  {}", paint.put(BAD, &failure)));
            continue;
        }
        let rate = |name: &str| {
            let of_node = state.rates.as_ref().and_then(|rates| rates.nodes.get(place));
            of_node.and_then(|rates| rates.get(name)).copied().unwrap_or(0.0)
        };
        let cells = shown
            .iter()
            .map(|(_, width, cell)| format!("{:>width$}", cell(node, &rate)));
        out.push(format!("{name}{}", cells.collect::<String>()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_fit_whatever_the_columns() {
        let info = |n: u64| {
            let info = format!("redis_version:7.2.4\nused_memory:{n}000\nmaxmemory:{n}9000\nsession_active_sessions:{n}\nsession_messages:{n}\n\
                session_bytes_raw:{n}\nsession_bytes_stored:{n}\nsession_panics_caught:1\nsession_appended:{n}\nsession_conflicts:{n}\n\
                session_directories:1\nsession_anchors:{n}\n");
            ["a.very.long.name.of.a.host.in.some.cluster.example.org:7000", "b:1"]
                .map(|name| (name.to_owned(), Some(info.clone())))
        };
        let mut state = State {
            interval: Duration::from_secs(1),
            sample: Sample::of(&info(1)),
            rates: None,
            history: VecDeque::new(),
        };
        let mut all = [info(123), info(98_765)].concat();
        all.push(("c:1".into(), None));
        for _ in 0..3 {
            for columns in COLUMNS_MIN..=COLUMNS_MAX {
                for line in lines(&state, Paint { is_on: true }, columns) {
                    let wide = console::measure_text_width(&line);
                    // On less the screen cuts off.
                    assert!(wide <= columns.max(76), "{wide} of {columns}: {line}");
                }
            }
            state.take(Sample::of(&all));
        }
        let text = lines(&state, Paint { is_on: false }, COLUMNS_MAX).join("\n");
        assert!(
            text.contains("panics") && text.contains("no answer") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn sparks_are_as_high_as_the_highest() {
        let rates = |rate: f64| Rates {
            total: [("appended", rate)].into_iter().collect(),
            nodes: Vec::new(),
        };
        let history: VecDeque<Rates> = [0.0, 1.0, 8.0, 4.0].map(rates).into_iter().collect();
        assert_eq!(sparks(&history, "appended", 9), " ▁█▄");
        assert_eq!(sparks(&history, "appended", 2), "█▄");
        assert_eq!(sparks(&history, "evicted", 9), "");
        assert_eq!([0.0, 0.04, 3.26, 1234.5].map(per_second), ["0", "<0.1", "3.3", "1,235"]);
    }
}
