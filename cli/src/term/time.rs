//! Times and durations as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

pub const SECOND_MS: i64 = 1000;
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
pub const DAY_MS: i64 = 24 * HOUR_MS;

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// ISO 8601, as in the module's replies; the milliseconds of times that no calendar reaches.
pub fn iso(time_ms: i64) -> String {
    let text = redis_session_client::Timestamp::from_ms(time_ms).to_string();
    text.strip_suffix(" ms").map(str::to_owned).unwrap_or(text)
}

/// Shows times in one zone.
#[derive(Clone)]
pub struct Clock {
    zone: TimeZone,
}

impl Clock {
    /// The time zone of this machine (`TZ`), or UTC.
    pub fn new(is_utc: bool) -> Clock {
        let zone = if is_utc { TimeZone::UTC } else { TimeZone::system() };
        // A machine that does not know where it is has UTC.
        let zone = if zone.is_unknown() { TimeZone::UTC } else { zone };
        Clock { zone }
    }

    /// `None` for times that no calendar reaches.
    fn at(&self, time_ms: i64) -> Option<Zoned> {
        let time = Timestamp::from_millisecond(time_ms).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }

    fn formatted(&self, time_ms: i64, format: &str) -> String {
        self.at(time_ms)
            .map_or_else(|| format!("{time_ms} ms"), |time| time.strftime(format).to_string())
    }

    /// `10:00:12`.
    pub fn time(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%H:%M:%S")
    }

    /// `10:00`.
    pub fn minute(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%H:%M")
    }

    /// `14 Jan`.
    pub fn short_day(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%-d %b")
    }

    /// `14 Jan 2026 10:00:12`.
    pub fn full(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%-d %b %Y %H:%M:%S")
    }

    /// `Jan 2026`.
    pub fn month(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%b %Y")
    }

    /// `Wednesday, 14 January 2026`; the same for all times of a day.
    pub fn day(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%A, %-d %B %Y")
    }

    /// The zone's name at this time: `CET`.
    pub fn zone(&self, time_ms: i64) -> String {
        self.formatted(time_ms, "%Z")
    }

    /// Milliseconds since the day began, for ticks that stand at round times of day.
    pub fn of_day_ms(&self, time_ms: i64) -> i64 {
        self.at(time_ms).map_or(0, |time| {
            let clock = time.time();
            i64::from(clock.hour()) * HOUR_MS
                + i64::from(clock.minute()) * MINUTE_MS
                + i64::from(clock.second()) * SECOND_MS
                + i64::from(clock.millisecond())
        })
    }

    /// `today`, `yesterday`, `3 days ago`, `in 2 days`, by the calendar and not by hours.
    pub fn day_relative(&self, time_ms: i64, now_ms: i64) -> String {
        let (Some(day), Some(today)) = (self.at(time_ms), self.at(now_ms)) else {
            return String::new();
        };
        let days = today
            .date()
            .since(day.date())
            .map_or(0, |span| i64::from(span.get_days()));
        match days {
            0 => "today".into(),
            1 => "yesterday".into(),
            -1 => "tomorrow".into(),
            2.. => format!("{days} days ago"),
            _ => format!("in {} days", -days),
        }
    }
}

/// A span in its two largest units: `12 min 4 s`.
pub fn duration(span_ms: i64) -> String {
    let span_ms = span_ms.saturating_abs();
    let (large, small) = match span_ms {
        ..SECOND_MS => return format!("{span_ms} ms"),
        SECOND_MS..MINUTE_MS => {
            let tenths = span_ms % SECOND_MS / 100;
            let whole = span_ms / SECOND_MS;
            return if whole < 10 && tenths > 0 {
                format!("{whole}.{tenths} s")
            } else {
                format!("{whole} s")
            };
        }
        MINUTE_MS..HOUR_MS => ((MINUTE_MS, "min"), (SECOND_MS, "s")),
        HOUR_MS..DAY_MS => ((HOUR_MS, "h"), (MINUTE_MS, "min")),
        _ => ((DAY_MS, "d"), (HOUR_MS, "h")),
    };
    let rest = span_ms % large.0 / small.0;
    let first = format!("{} {}", span_ms / large.0, large.1);
    if rest == 0 {
        first
    } else {
        format!("{first} {rest} {}", small.1)
    }
}

/// `3 min ago`, `in 6 d 23 h`.
pub fn relative(time_ms: i64, now_ms: i64) -> String {
    let span_ms = now_ms.saturating_sub(time_ms);
    match span_ms {
        -999..=999 => "now".into(),
        1000.. => format!("{} ago", duration(span_ms)),
        _ => format!("in {}", duration(span_ms)),
    }
}

/// `+0:07`, `+1:02:03`, `+3d 04:00:00`: times since a beginning, which line up.
pub fn offset(span_ms: i64) -> String {
    let sign = if span_ms < 0 { '-' } else { '+' };
    let seconds = span_ms.saturating_abs() / SECOND_MS;
    let (days, hours, minutes, seconds) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{sign}{minutes}:{seconds:02}"),
        (0, _) => format!("{sign}{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{sign}{days}d {hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_768_392_000_000; // 2026-01-14T12:00:00Z

    #[test]
    fn durations_have_two_units_at_most() {
        let all = [
            0,
            999,
            1500,
            12_900,
            60_000,
            724_000,
            3_600_000,
            90_000_000,
            604_800_000,
            i64::MIN,
        ]
        .map(duration);
        let expected = [
            "0 ms",
            "999 ms",
            "1.5 s",
            "12 s",
            "1 min",
            "12 min 4 s",
            "1 h",
            "1 d 1 h",
            "7 d",
        ];
        assert_eq!(all[..9], expected);
        assert_eq!(relative(NOON - 5000, NOON), "5 s ago");
        assert_eq!(relative(NOON + 604_800_000, NOON), "in 7 d");
        assert_eq!(
            [7000, 3_723_000, 90_061_000].map(offset),
            ["+0:07", "+1:02:03", "+1d 01:01:01"]
        );
    }

    #[test]
    fn times_are_of_the_zone_and_days_of_the_calendar() {
        let clock = Clock::new(true);
        assert_eq!(clock.full(NOON), "14 Jan 2026 12:00:00");
        assert_eq!(clock.day(NOON), "Wednesday, 14 January 2026");
        assert_eq!(clock.zone(NOON), "UTC");
        assert_eq!(clock.of_day_ms(NOON), 12 * HOUR_MS);
        assert_eq!(clock.day_relative(NOON, NOON + 13 * HOUR_MS), "yesterday");
        assert_eq!(clock.day_relative(NOON, NOON + 11 * HOUR_MS), "today");
        assert_eq!(clock.day_relative(NOON, NOON - 70 * DAY_MS), "in 70 days");
        assert_eq!(iso(NOON), "2026-01-14T12:00:00.000Z");
    }

    #[test]
    fn times_out_of_every_calendar_are_numbers() {
        let clock = Clock::new(true);
        assert_eq!(clock.time(i64::MAX), format!("{} ms", i64::MAX));
        assert_eq!(iso(i64::MIN), i64::MIN.to_string());
        assert_eq!(clock.day_relative(i64::MAX, NOON), "");
    }
}
