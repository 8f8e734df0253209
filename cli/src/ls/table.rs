//! Prints rows as a table that fits the terminal.

use std::io::IsTerminal;

use super::row::Row;
use crate::term::color::{Mood, Paint, When, BOLD, DIM, WARN};
use crate::term::text::{byte_size, clean_line, grouped, pad, shorten, width};

/// Narrowest useful columns.
const NAME_COLUMNS_MIN: usize = 12;
const KEY_COLUMNS_MIN: usize = 16;
const STATE_COLUMNS_MAX: usize = 16;
const GAP: &str = "  ";

/// Expiries within this time are coloured.
const SOON_MS: i64 = 60 * 60 * 1000;

/// Formats the table. `is_by_key`: the first column is the key, not the name.
pub fn text(rows: &[Row], color: When, now_ms: i64, is_by_key: bool) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let columns = is_terminal.then(|| crate::term::columns(None));
    let paint = Paint { is_on: color.is_on() };
    table(rows, paint, now_ms, is_by_key, columns)
}

/// A column: its title, its cells, and how they are aligned.
struct Column {
    title: &'static str,
    cells: Vec<String>,
    is_number: bool,
    width: usize,
}

impl Column {
    fn new(title: &'static str, is_number: bool, cells: impl Iterator<Item = String>) -> Column {
        let cells: Vec<String> = cells.collect();
        let widest = cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
        Column {
            title,
            is_number,
            width: widest.max(title.len()),
            cells,
        }
    }

    fn cell(&self, text: &str) -> String {
        let text = shorten(text, self.width);
        match self.is_number {
            true => format!("{}{text}", " ".repeat(self.width.saturating_sub(width(&text)))),
            false => pad(&text, self.width),
        }
    }
}

/// Formats the table for a number of columns; without one nothing is cut off, as in a pipe.
fn table(rows: &[Row], paint: Paint, now_ms: i64, is_by_key: bool, columns: Option<usize>) -> String {
    let key = Column::new("KEY", false, rows.iter().map(|row| clean_line(&row.key)));
    let name = |row: &Row| match (is_by_key, &row.alias) {
        (true, alias) => alias.clone().unwrap_or_default(),
        (false, _) => row.name().to_owned(),
    };
    let name = Column::new(
        if is_by_key { "ALIAS" } else { "NAME" },
        false,
        rows.iter().map(|row| clean_line(&name(row))),
    );
    let mut all = vec![
        if is_by_key { key } else { name },
        Column::new("STATE", false, rows.iter().map(|row| clean_line(&row.state))),
        Column::new("MESSAGES", true, rows.iter().map(|row| grouped(row.messages))),
        Column::new("ACTIVE", false, rows.iter().map(|row| ago(row.active_at_ms, now_ms))),
        Column::new("CREATED", false, rows.iter().map(|row| ago(row.created_at_ms, now_ms))),
        Column::new(
            "SIZE",
            true,
            rows.iter().map(|row| row.size_bytes.map_or("?".into(), byte_size)),
        ),
        Column::new("EXPIRES", false, rows.iter().map(|row| expiry(row, now_ms))),
    ];
    let other = match is_by_key {
        true => Column::new(
            "ALIAS",
            false,
            rows.iter().map(|row| clean_line(row.alias.as_deref().unwrap_or(""))),
        ),
        false => Column::new("KEY", false, rows.iter().map(|row| clean_line(&row.key))),
    };
    all.push(other);
    all[1].width = all[1].width.min(STATE_COLUMNS_MAX);
    if let Some(columns) = columns {
        fit(&mut all, columns);
    }

    let mut out = String::new();
    let titles: Vec<String> = all.iter().map(|column| column.cell(column.title)).collect();
    out += &paint.put(DIM, titles.join(GAP).trim_end());
    out.push('\n');
    for (place, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (number, column) in all.iter().enumerate() {
            let cell = column.cell(&column.cells[place]);
            let is_last = number + 1 == all.len();
            let cell = if is_last { cell.trim_end().to_owned() } else { cell };
            let is_soon = row.expires_at_ms.is_some_and(|at_ms| at_ms - now_ms < SOON_MS);
            line += &match column.title {
                "NAME" => paint.put(BOLD, &cell),
                "KEY" if is_by_key => paint.put(BOLD, &cell),
                "STATE" => paint.put(Mood::of(&row.state).style(), &cell),
                "EXPIRES" if is_soon => paint.put(WARN, &cell),
                "KEY" | "CREATED" | "EXPIRES" => paint.put(DIM, &cell),
                _ => cell,
            };
            if !is_last {
                line += GAP;
            }
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Makes the table fit: shortens names, then drops the last column, CREATED, SIZE, EXPIRES and STATE, in this order.
fn fit(all: &mut Vec<Column>, columns: usize) {
    let total = |all: &[Column]| all.iter().map(|column| column.width).sum::<usize>() + GAP.len() * (all.len() - 1);
    let shrink = |all: &mut Vec<Column>, place: usize, least: usize| {
        let over = total(all).saturating_sub(columns);
        if let Some(column) = all.get_mut(place) {
            column.width = column.width.saturating_sub(over).max(least.min(column.width));
        }
    };
    let last = all.len() - 1;
    shrink(all, last, KEY_COLUMNS_MIN);
    shrink(all, 0, NAME_COLUMNS_MIN * 2);
    if total(all) > columns {
        all.pop();
    }
    for title in ["CREATED", "SIZE", "EXPIRES", "STATE"] {
        shrink(all, 0, NAME_COLUMNS_MIN);
        if total(all) > columns {
            all.retain(|column| column.title != title);
        }
    }
    shrink(all, 0, NAME_COLUMNS_MIN);
}

/// Formats a past time with one unit: `3 min ago`.
fn ago(time_ms: i64, now_ms: i64) -> String {
    match now_ms.saturating_sub(time_ms) {
        ..1000 => "now".into(),
        span_ms => format!("{} ago", span(span_ms)),
    }
}

fn expiry(row: &Row, now_ms: i64) -> String {
    match row.expires_at_ms {
        None => "never".into(),
        Some(at_ms) if at_ms <= now_ms => "now".into(),
        // To the nearest: a week that began a minute ago is still a week.
        Some(at_ms) => format!("in {}", span(at_ms - now_ms + unit(at_ms - now_ms).0 / 2)),
    }
}

/// The unit to show a span in, with its milliseconds. Spans of up to two years are shown in days.
fn unit(span_ms: i64) -> (i64, &'static str) {
    const UNITS: [(i64, i64, &str); 5] = [
        (0, 1000, "s"),
        (60_000, 60_000, "min"),
        (3_600_000, 3_600_000, "h"),
        (86_400_000, 86_400_000, "d"),
        (2 * 31_536_000_000, 31_536_000_000, "y"),
    ];
    let (_, unit_ms, name) = UNITS
        .into_iter()
        .rfind(|(from_ms, ..)| span_ms >= *from_ms)
        .unwrap_or(UNITS[0]);
    (unit_ms, name)
}

fn span(span_ms: i64) -> String {
    let (unit_ms, name) = unit(span_ms);
    format!("{} {name}", span_ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_768_384_800_000;

    fn rows() -> Vec<Row> {
        let row = |alias: &str, n: i64| Row {
            key: format!("session:{{acme}}:{alias}"),
            id: "01a201ce-2693-76b2-8814-c6f67909b882".into(),
            alias: (n > 1).then(|| alias.to_owned()),
            state: "working".into(),
            messages: n.unsigned_abs() * 1000,
            created_at_ms: NOW_MS - n * 86_400_000,
            active_at_ms: NOW_MS - n * 61_000,
            expires_at_ms: Some(NOW_MS + n * 1000),
            size_bytes: Some(n * 5000),
            ..Row::default()
        };
        vec![row("invoice-東京", 1), row("a\u{1b}[2Jb", 3)]
    }

    #[test]
    fn a_table_fits_whatever_the_columns() {
        for columns in 40..160 {
            for is_by_key in [true, false] {
                let text = table(&rows(), Paint { is_on: false }, NOW_MS, is_by_key, Some(columns));
                for line in text.lines() {
                    assert!(width(line) <= columns, "{columns}:\n{text}");
                }
                assert!(text.contains("MESSAGES") && text.contains("3,000"), "{text}");
                assert!(!text.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn in_a_pipe_nothing_is_cut_off() {
        let text = table(&rows(), Paint { is_on: false }, NOW_MS, false, None);
        assert!(!text.contains('…'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("1 min ago  1 d ago  4.9 KiB  in 1 s"), "{text}");
        assert!(lines[1].ends_with("session:{acme}:invoice-東京"), "{text}");
    }
}
