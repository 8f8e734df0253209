//! Maps times to positions. Long silences are cut out of the axis, so that what happened before and after them stays readable.

use crate::term::time::{self, Clock, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// Number of silences that are cut out at most.
const BREAKS_MAX: usize = 8;
/// A silence is cut out if it is this many times longer than the rest.
const SILENCE_FACTOR: i64 = 3;

/// From this step on, ticks are labelled with the year instead of the day.
const LONG_STEP_MS: i64 = 30 * DAY_MS;

/// Distances between ticks: the usual divisions of clocks and calendars.
const STEPS_MS: [i64; 32] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND_MS,
    2 * SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    15 * SECOND_MS,
    30 * SECOND_MS,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
    30 * DAY_MS,
    90 * DAY_MS,
];

/// A stretch of time that is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    from_ms: i64,
    to_ms: i64,
    x: f64,
    width: f64,
}

/// A silence that is cut out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Break {
    pub x: f64,
    pub width: f64,
    pub span_ms: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    pub x: f64,
    pub time_ms: i64,
    pub label: String,
}

pub struct Scale {
    stretches: Vec<Stretch>,
    pub breaks: Vec<Break>,
    per_ms: f64,
}

impl Scale {
    /// Maps sorted times, at least one, to positions from `x` over this width.
    pub fn new(times: &[i64], x: f64, width: f64, break_width: f64) -> Scale {
        let (first, last) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
        let cuts = silences(times);
        let mut bounds = Vec::new();
        let mut from_ms = first;
        for (begin, end) in cuts {
            bounds.push((from_ms, begin));
            from_ms = end;
        }
        bounds.push((from_ms, last));
        let drawn_ms: i64 = bounds.iter().map(|(from, to)| to - from).sum();
        let gaps = bounds.len() - 1;
        // A stretch of a single moment needs some room, too.
        let least = (width / 20.0).min(24.0);
        let free = (width - gaps as f64 * break_width - least * bounds.len() as f64).max(1.0);
        let per_ms = if drawn_ms > 0 { free / drawn_ms as f64 } else { 0.0 };
        let mut scale = Scale {
            stretches: Vec::new(),
            breaks: Vec::new(),
            per_ms,
        };
        let mut at = x;
        for (n, (from_ms, to_ms)) in bounds.iter().copied().enumerate() {
            if n > 0 {
                let span_ms = from_ms - bounds[n - 1].1;
                scale.breaks.push(Break {
                    x: at,
                    width: break_width,
                    span_ms,
                });
                at += break_width;
            }
            let stretch_width = (to_ms - from_ms) as f64 * per_ms;
            scale.stretches.push(Stretch {
                from_ms,
                to_ms,
                x: at + least / 2.0,
                width: stretch_width,
            });
            at += stretch_width + least;
        }
        scale
    }

    pub fn x(&self, time_ms: i64) -> f64 {
        let next = self.stretches.partition_point(|stretch| stretch.to_ms < time_ms);
        let stretch = self.stretches.get(next).or(self.stretches.last());
        stretch.map_or(0.0, |stretch| {
            let within = (time_ms - stretch.from_ms).clamp(0, stretch.to_ms - stretch.from_ms);
            stretch.x + within as f64 * self.per_ms
        })
    }

    /// Ticks at round times, at least so far apart.
    pub fn ticks(&self, clock: &Clock, apart: f64) -> Vec<Tick> {
        let is_apart = |step_ms: &i64| *step_ms as f64 * self.per_ms >= apart;
        // Beyond calendars: years, however many.
        let years = (0..20).map(|n| (365 * DAY_MS) << n);
        let step_ms = STEPS_MS.into_iter().chain(years).find(is_apart);
        // A single moment has no distances, only a time.
        let step_ms = step_ms.unwrap_or(SECOND_MS);
        let mut out: Vec<Tick> = Vec::new();
        for stretch in &self.stretches {
            let mut inside = Vec::new();
            // Round in the time of day where people look, not in UTC; from day to day an hour may be missing.
            let round = |time_ms: i64| time_ms - clock.of_day_ms(time_ms) % step_ms.min(DAY_MS);
            let mut time_ms = round(stretch.from_ms);
            while time_ms <= stretch.to_ms && inside.len() < 200 && self.per_ms > 0.0 {
                if time_ms >= stretch.from_ms {
                    inside.push(time_ms);
                }
                time_ms += step_ms;
            }
            if inside.is_empty() {
                inside.push(stretch.from_ms);
            }
            for time_ms in inside {
                let tick = Tick {
                    x: self.x(time_ms),
                    time_ms,
                    label: label(clock, time_ms, step_ms),
                };
                if out.last().is_none_or(|last| tick.x - last.x >= apart * 0.7) {
                    out.push(tick);
                }
            }
        }
        out
    }
}

fn label(clock: &Clock, time_ms: i64, step_ms: i64) -> String {
    match step_ms {
        ..SECOND_MS => format!("{}.{:03}", clock.time(time_ms), time_ms.rem_euclid(SECOND_MS)),
        SECOND_MS..MINUTE_MS => clock.time(time_ms),
        MINUTE_MS..DAY_MS => clock.minute(time_ms),
        DAY_MS..LONG_STEP_MS => clock.short_day(time_ms),
        _ => clock.month(time_ms),
    }
}

/// The silences to cut out, in order of time.
pub fn silences(times: &[i64]) -> Vec<(i64, i64)> {
    let mut gaps: Vec<(i64, i64)> = times
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|(from, to)| to > from)
        .collect();
    gaps.sort_by_key(|(from, to)| std::cmp::Reverse(to - from));
    let whole: i64 = gaps.iter().map(|(from, to)| to - from).sum();
    let mut left = whole;
    let mut count = 0;
    for (n, (from, to)) in gaps.iter().enumerate().take(BREAKS_MAX) {
        left -= to - from;
        // The last of those that go has to be long, too, beside what stays; and there must be something to stay.
        if left > 0 && gaps.len() > 2 * n + 1 && (to - from) / SILENCE_FACTOR > left {
            count = n + 1;
        }
    }
    gaps.truncate(count);
    gaps.sort_unstable();
    gaps
}

/// `2 d 3 h later`, between two stretches.
pub fn break_label(span_ms: i64) -> String {
    time::duration(span_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_order_and_stay_inside() {
        let times = [
            0,
            5000,
            9000,
            9000,
            400_000_000,
            400_003_000,
            900_000_000,
            900_001_000,
            900_002_000,
        ];
        let scale = Scale::new(&times, 100.0, 1000.0, 50.0);
        assert_eq!(scale.breaks.len(), 2, "two days of silence are cut out");
        let xs: Vec<f64> = times.iter().map(|time| scale.x(*time)).collect();
        assert!(xs.windows(2).all(|pair| pair[0] <= pair[1]), "{xs:?}");
        assert!(xs.iter().all(|x| (100.0..=1100.0).contains(x)), "{xs:?}");
        assert!(xs[4] - xs[3] >= 50.0);
        // A time within a silence stands at its end, one beyond all at the end of all.
        assert_eq!(scale.x(10_000_000), xs[4]);
        assert_eq!(scale.x(i64::MAX), xs[8]);
        assert_eq!(scale.x(-5), xs[0]);
    }

    #[test]
    fn even_times_are_not_cut() {
        for count in 1..20 {
            let times: Vec<i64> = (0..count).map(|n| n * 60_000).collect();
            assert!(silences(&times).is_empty(), "{count}");
        }
        assert!(silences(&[5, 5, 5]).is_empty());
        assert_eq!(silences(&[0, 60_000, 172_800_000]), [(60_000, 172_800_000)]);
    }

    #[test]
    fn ticks_are_round_and_apart() {
        let clock = Clock::new(true);
        let noon = 1_768_392_000_000;
        for span_ms in [
            0,
            7,
            900,
            127_000,
            3_600_000,
            86_400_000 * 3,
            86_400_000 * 400,
            86_400_000 * 40_000,
        ] {
            let scale = Scale::new(&[noon, noon + span_ms], 0.0, 1000.0, 50.0);
            let ticks = scale.ticks(&clock, 90.0);
            assert!(!ticks.is_empty() && ticks.len() <= 13, "{span_ms}: {ticks:?}");
            assert!(
                ticks.windows(2).all(|pair| pair[1].x - pair[0].x > 60.0),
                "{span_ms}: {ticks:?}"
            );
        }
        let scale = Scale::new(&[noon + 3000, noon + 130_000], 0.0, 1000.0, 50.0);
        let labels: Vec<String> = scale.ticks(&clock, 90.0).into_iter().map(|tick| tick.label).collect();
        assert_eq!(labels[..3], ["12:00:15", "12:00:30", "12:00:45"]);
    }
}
