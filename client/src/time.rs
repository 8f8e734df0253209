//! Times, in milliseconds as everywhere in the module.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// A time in Unix milliseconds. As text, and as JSON, it is ISO 8601 in UTC: `2026-01-14T10:00:00.000Z`.
///
/// ```
/// use redis_session_client::Timestamp;
///
/// let time: Timestamp = "2026-01-14T10:00:00.000Z".parse().unwrap();
/// assert_eq!(time.ms(), 1_768_384_800_000);
/// assert_eq!(time.to_string(), "2026-01-14T10:00:00.000Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From Unix milliseconds.
    ///
    /// ```
    /// # use redis_session_client::Timestamp;
    /// assert_eq!(Timestamp::from_ms(0).to_string(), "1970-01-01T00:00:00.000Z");
    /// ```
    pub const fn from_ms(ms: i64) -> Timestamp {
        Timestamp(ms)
    }

    /// The current time of this machine.
    ///
    /// ```
    /// # use redis_session_client::Timestamp;
    /// assert!(Timestamp::now() > Timestamp::from_ms(0));
    /// ```
    pub fn now() -> Timestamp {
        SystemTime::now().into()
    }

    /// Unix milliseconds.
    ///
    /// ```
    /// # use redis_session_client::Timestamp;
    /// assert_eq!(Timestamp::from_ms(7).ms(), 7);
    /// ```
    pub const fn ms(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Timestamp(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => ms(since),
            Err(before) => -ms(before.duration()),
        })
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> SystemTime {
        let span = Duration::from_millis(time.0.unsigned_abs());
        if time.0 < 0 {
            UNIX_EPOCH - span
        } else {
            UNIX_EPOCH + span
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            // Its instants end a day before the year 9999 does, its calendar and the module's do not.
            Err(_) => match EPOCH.checked_add(SignedDuration::from_millis(self.0)) {
                Ok(time) => write!(f, "{time:.3}Z"),
                Err(_) => write!(f, "{} ms", self.0),
            },
        }
    }
}

/// The error of a text that is no time in ISO 8601.
///
/// ```
/// # use redis_session_client::Timestamp;
/// let error = "yesterday".parse::<Timestamp>().unwrap_err();
/// assert!(error.to_string().contains("yesterday"));
/// ```
#[derive(Debug, Clone)]
pub struct BadTimestamp(String);

impl fmt::Display for BadTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTimestamp {}

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Timestamp, BadTimestamp> {
        let beyond = || {
            let time = text.strip_suffix('Z').filter(|time| time.contains(':'))?;
            let time: DateTime = time.parse().ok()?;
            i64::try_from(time.duration_since(EPOCH).as_millis()).ok()
        };
        text.parse::<jiff::Timestamp>()
            .map(|time| time.as_millisecond())
            .or_else(|error| beyond().ok_or(error))
            .map(Timestamp)
            .map_err(|error| BadTimestamp(format!("{text:?} is no time of ISO 8601 ({error})")))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_comes_back() {
        for ms in [
            0,
            -1,
            1_768_384_800_123,
            -62_135_596_800_000,
            253_402_207_200_000,
            253_402_300_799_999,
        ] {
            let time = Timestamp::from_ms(ms);
            assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
        let last = Timestamp::from_ms(253_402_300_799_999);
        assert_eq!(last.to_string(), "9999-12-31T23:59:59.999Z");
        assert!("9999-12-31Z".parse::<Timestamp>().is_err() && "Z".parse::<Timestamp>().is_err());
        assert_eq!(Timestamp::from_ms(i64::MAX).to_string(), format!("{} ms", i64::MAX));
    }
}
