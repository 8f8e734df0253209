//! Tables and limits as text.

/// A figure with bounds.
pub struct Limit {
    pub what: String,
    pub value: f64,
    pub at_least: f64,
    pub at_most: f64,
    /// Digits after the point.
    pub digits: usize,
    pub unit: &'static str,
}

impl Limit {
    pub fn at_most(what: impl Into<String>, value: f64, at_most: f64) -> Limit {
        Limit {
            what: what.into(),
            value,
            at_least: 0.0,
            at_most,
            digits: 3,
            unit: "",
        }
    }

    fn holds(&self) -> bool {
        (self.at_least..=self.at_most).contains(&self.value)
    }
}

/// Prints the limits; returns whether all of them hold.
pub fn print_limits(limits: &[Limit]) -> bool {
    if !limits.is_empty() {
        println!("\nLimits");
    }
    let width = limits.iter().map(|limit| limit.what.chars().count()).max().unwrap_or(0);
    for limit in limits {
        let verdict = if limit.holds() { "ok  " } else { "FAIL" };
        let Limit {
            what,
            value,
            at_least,
            at_most,
            digits,
            unit,
            ..
        } = limit;
        let bounds = if *at_least > 0.0 {
            format!("{at_least:.digits$} to {at_most:.digits$}{unit}")
        } else {
            format!("at most {at_most:.digits$}{unit}")
        };
        println!("  {verdict}  {what:width$}  {value:>8.digits$}{unit}   {bounds}");
    }
    limits.iter().all(Limit::holds)
}

/// Prints a table; columns after the first are right-aligned.
pub fn print_table(head: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let print = |cells: Vec<&str>| {
        let mut line = format!("{:w$}", cells[0], w = widths[0]);
        for (cell, w) in cells.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>w$}"));
        }
        println!("{}", line.trim_end());
    };
    print(head.to_vec());
    println!("{}", "-".repeat(widths.iter().sum::<usize>() + 2 * (head.len() - 1)));
    for row in rows {
        print(row.iter().map(String::as_str).collect());
    }
}

/// Formats 1234567 as "1,234,567".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn a_limit_holds_up_to_its_bounds() {
        assert!(Limit::at_most("x", 1.6, 1.6).holds());
        assert!(!Limit::at_most("x", 1.601, 1.6).holds());
        assert!(!Limit {
            at_least: 0.9,
            ..Limit::at_most("x", 0.8, 1.1)
        }
        .holds());
    }
}
