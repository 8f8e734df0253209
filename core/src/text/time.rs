//! Converts times, which are Unix milliseconds, to ISO 8601 text and back.
//!
//! Written by hand, not with a calendar library such as `jiff`, which the crates outside of the core use: the core needs only UTC, one
//! format to write and the few that bodies use, no zones and no clock, and stays free of a dependency of that size. The usual format is
//! parsed eight bytes at a time, once for each message that has a timestamp.

/// 9999-12-31T23:59:59.999Z, the latest time that has a four-digit year.
pub const MAX_TIME_MS: i64 = 253_402_300_799_999;

/// Returns whether a time can be shown: it is in the years 0 to 9999.
pub(crate) fn is_time(time_ms: i64) -> bool {
    (MIN_TIME_MS..=MAX_TIME_MS).contains(&time_ms)
}
/// 0000-01-01T00:00:00.000Z.
pub const MIN_TIME_MS: i64 = -62_167_219_200_000;

const DAY_MS: i64 = 86_400_000;

/// Returns `2026-01-14T10:00:00.000Z`: always 24 bytes. Times outside of the years 0 to 9999 are clamped to them.
pub fn iso_8601(time_ms: i64) -> [u8; 24] {
    let time_ms = time_ms.clamp(MIN_TIME_MS, MAX_TIME_MS);
    let (year, month, day) = civil_from_days(time_ms.div_euclid(DAY_MS));
    let mut rest = time_ms.rem_euclid(DAY_MS) as u32;
    let mut out = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at: usize, digits: usize, mut number: u32| {
        for place in (at..at + digits).rev() {
            out[place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year as u32);
    put(5, 2, month);
    put(8, 2, day);
    put(20, 3, rest % 1000);
    rest /= 1000;
    put(17, 2, rest % 60);
    rest /= 60;
    put(14, 2, rest % 60);
    put(11, 2, rest / 60);
    out
}

/// Appends [`iso_8601`] in quotes, or `null`.
pub fn write_json(out: &mut Vec<u8>, time_ms: Option<i64>) {
    match time_ms {
        Some(time_ms) => {
            out.push(b'"');
            out.extend_from_slice(&iso_8601(time_ms));
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Parses `YYYY-MM-DD`, optionally followed by `T` or a space and `hh:mm[:ss[.fraction]]` and `Z` or `±hh[:mm]`; without a zone it is UTC.
/// `None` for anything else and for times outside of the years 0 to 9999.
pub fn parse_iso_8601(text: &str) -> Option<i64> {
    parse_usual(text.as_bytes()).or_else(|| parse_any(text))
}

/// Parses `YYYY-MM-DDThh:mm:ss[.mmm]Z`, which most writers use, eight bytes at a time. `None` if the general parser has to try.
///
/// ```text
///   date          day, hour, minute   second, millisecond
///  "2026-01-"     "14T10:00"          ":00.000Z"
/// ```
#[inline(never)]
pub(crate) fn parse_usual(text: &[u8]) -> Option<i64> {
    let (chunks, rest) = text.as_chunks::<8>();
    let (date, clock, second) = match (chunks, rest) {
        ([date, clock, second], []) => (date, clock, u64::from_le_bytes(*second)),
        // Without milliseconds: they are 0.
        ([date, clock], [a, b, c, b'Z']) => (
            date,
            clock,
            u64::from_le_bytes([*a, *b, *c, b'.', b'0', b'0', b'0', b'Z']),
        ),
        _ => return None,
    };
    let (date, date_is_odd) = digits(u64::from_le_bytes(*date), b"0000-00-");
    let (clock, clock_is_odd) = digits(u64::from_le_bytes(*clock), b"00T00:00");
    let (second, second_is_odd) = digits(second, b":00.000Z");
    if (date_is_odd | clock_is_odd | second_is_odd) & HIGH_BITS != 0 {
        return None;
    }
    // Combines each byte and the next one to a number of two digits.
    let byte = |pairs: u64, at: u32| (pairs >> (8 * at)) as u32 & 0xff;
    let pairs = |digits: u64| digits * 10 + (digits >> 8);
    let (dates, clocks, seconds) = (pairs(date), pairs(clock), pairs(second));
    let (year, month) = (byte(dates, 0) * 100 + byte(dates, 2), byte(dates, 5));
    let (day, hour, minute) = (byte(clocks, 0), byte(clocks, 3), byte(clocks, 6));
    let (second, millisecond) = (byte(seconds, 1), byte(seconds, 4) * 10 + byte(second, 6));
    // The days that every month has; other days are left to the general parser.
    if month.wrapping_sub(1) >= 12 || day.wrapping_sub(1) >= 28 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // As in `days_from_civil`, for a year that is never negative: the year before 0 becomes year 399, one era later.
    let months_from_march = if month > 2 { month - 3 } else { month + 9 };
    let year = year + 400 - u32::from(month <= 2);
    let day_of_year = (153 * months_from_march + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    let days = i64::from(days) - (719_468 + 146_097);
    let second_of_day = (hour * 60 + minute) * 60 + second;
    Some(days * DAY_MS + i64::from(second_of_day * 1000 + millisecond))
}

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns the values of the digits in eight bytes, with 0 for other bytes, and a number with a high bit set if a byte is not as in the
/// pattern, whose zeros stand for any digit.
#[inline]
fn digits(bytes: u64, pattern: &[u8; 8]) -> (u64, u64) {
    // XORed with the pattern, matching bytes are 0 to 9 for digits and 0 for others: anything greater overflows into the high bit.
    let values = bytes ^ u64::from_le_bytes(*pattern);
    let headroom = u64::from_le_bytes(pattern.map(|byte| if byte == b'0' { 0x76 } else { 0x7f }));
    (values, (values & !HIGH_BITS).wrapping_add(headroom) | values)
}

fn parse_any(text: &str) -> Option<i64> {
    let mut cursor = Cursor { rest: text.as_bytes() };
    let year = cursor.number(4)?;
    cursor.expect(b'-')?;
    let month = cursor.number(2)?;
    cursor.expect(b'-')?;
    let day = cursor.number(2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let mut time_ms = days_from_civil(year, month, day) * DAY_MS;
    if !cursor.rest.is_empty() {
        if !matches!(cursor.take()?, b'T' | b't' | b' ') {
            return None;
        }
        let hour = cursor.number(2)?;
        cursor.expect(b':')?;
        let minute = cursor.number(2)?;
        let mut second = 0;
        let mut millisecond = 0;
        if cursor.skip(b':') {
            second = cursor.number(2)?;
            if cursor.skip(b'.') || cursor.skip(b',') {
                millisecond = cursor.fraction_ms()?;
            }
        }
        // A leap second is read as the second after it.
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        time_ms += ((hour * 60 + minute) * 60 + second) * 1000 + millisecond;
        time_ms -= cursor.zone_minutes()? * 60_000;
    }
    (MIN_TIME_MS..=MAX_TIME_MS).contains(&time_ms).then_some(time_ms)
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip(byte).then_some(())
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let mut number = 0;
        for _ in 0..digits {
            let digit = self.take()?;
            if !digit.is_ascii_digit() {
                return None;
            }
            number = number * 10 + i64::from(digit - b'0');
        }
        Some(number)
    }

    /// Reads the digits after the point, truncated to milliseconds; at least one is required.
    fn fraction_ms(&mut self) -> Option<i64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if fraction.is_empty() {
            return None;
        }
        Some((0..3).fold(0, |ms, place| {
            ms * 10 + fraction.get(place).map_or(0, |digit| i64::from(digit - b'0'))
        }))
    }

    fn zone_minutes(&mut self) -> Option<i64> {
        let sign = match self.rest.first() {
            None => return Some(0),
            Some(b'Z' | b'z') => {
                self.take();
                return self.rest.is_empty().then_some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.take();
        let hours = self.number(2)?;
        let minutes = if self.rest.is_empty() {
            0
        } else {
            self.skip(b':');
            self.number(2)?
        };
        (self.rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Days are counted in eras of 400 years whose years begin in March, so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (
        era * 400 + year_of_era + i64::from(month <= 2),
        month as u32,
        day as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn iso(time_ms: i64) -> String {
        String::from_utf8(iso_8601(time_ms).to_vec()).unwrap()
    }

    #[test]
    fn known_times() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(1_768_384_800_000), "2026-01-14T10:00:00.000Z");
        assert_eq!(iso(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(iso(MAX_TIME_MS), "9999-12-31T23:59:59.999Z");
        assert_eq!(iso(MIN_TIME_MS), "0000-01-01T00:00:00.000Z");
        assert_eq!(iso(i64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_read() {
        for text in [
            "2026-01-14T10:00:00Z",
            "2026-01-14T10:00:00.000Z",
            "2026-01-14T10:00:00",
            "2026-01-14 10:00",
            "2026-01-14T11:00:00+01:00",
            "2026-01-14T08:30:00.0004999-0130",
            "2026-01-14T12:00:00+02",
            "2026-01-14t10:00:00z",
        ] {
            assert_eq!(parse_iso_8601(text), Some(1_768_384_800_000), "{text}");
        }
        assert_eq!(parse_iso_8601("2026-01-14"), Some(1_768_348_800_000));
        assert_eq!(parse_iso_8601("2024-02-29T00:00:00.5Z"), Some(1_709_164_800_500));
    }

    #[test]
    fn what_is_not_read() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-01-14T",
            "2026-01-14T24:00",
            "2026-01-14T10:00:00.Z",
            "2026-01-14T10:00:00Zx",
            "2026-01-14T10:00:00+1",
            "9999-12-31T23:59:59-01:00",
            "é026-01-14",
        ] {
            assert_eq!(parse_iso_8601(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_comes_back(time_ms in MIN_TIME_MS..=MAX_TIME_MS) {
            prop_assert_eq!(parse_iso_8601(&iso(time_ms)), Some(time_ms));
            prop_assert_eq!(parse_any(&iso(time_ms)), Some(time_ms));
        }
    }
}
