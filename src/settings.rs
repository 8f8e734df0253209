//! The module's settings: `CONFIG GET/SET session.<name>`. Their meaning is documented once, in `redis.conf`.
//!
//! To add a setting, add its line to the table below. The setting of a limit is made from the limit's row in the core: its value is copied
//! into a session when that is created. Tests compare `redis.conf` with both.

use std::sync::{Arc, Mutex, PoisonError};

use redis_session_core::limits::Limits;
use redis_session_core::text::time::MAX_TIME_MS;

use crate::ffi::{Boolean, Choice, Integer, Setting};

const MAX_COUNT: i64 = u32::MAX as i64;
const MAX_SECONDS: i64 = MAX_TIME_MS / 1000;

/// Defines the statics of settings and the list of them.
macro_rules! settings {
    ($( $name:ident: $kind:ident = $setting:expr; )+) => {
        $( pub static $name: $kind = $setting; )+

        /// The settings that are not defaults of limits.
        static OTHERS: &[Setting] = &[$( Setting::$kind(&$name), )+];
    };
}

settings! {
    DEFAULT_TTL_S: Integer = Integer::new("default-ttl", 604_800, 0, MAX_SECONDS);
    MAX_MESSAGE_BYTES: Integer = Integer::new("max-message-bytes", 1 << 20, 1, 512 << 20).memory();
    CHECKPOINT_GRACE_S: Integer = Integer::new("checkpoint-grace", 600, 0, MAX_SECONDS);
    ANCHOR_MAXLEN: Integer = Integer::new("anchor-maxlen", 5, 0, MAX_COUNT);
    ANCHOR_MAX_AGE_S: Integer = Integer::new("anchor-max-age", 604_800, 0, MAX_SECONDS);
    AUTO_MIGRATE: Boolean = Boolean::new("auto-migrate", true);
    PUBLISH: Choice = Choice::new("publish", 1, &[(c"off", 0), (c"events", 1), (c"all", 2)]);
    COMPRESS_AFTER_BYTES: Integer = Integer::new("compress-after", 1024, 0, 1 << 30).memory();
}

const LIMITS: usize = Limits::ROWS.len();

/// The settings of limits, at the indexes of the limits' rows.
static OF_LIMITS: [Option<Integer>; LIMITS] = {
    let mut settings = [const { None }; LIMITS];
    let mut place = 0;
    while place < LIMITS {
        let limit = Limits::ROWS[place];
        if let Some(setting) = limit.setting {
            let integer = Integer::new(setting.name, setting.default as i64, 0, limit.max as i64);
            settings[place] = Some(integer.on_change(forget_limits));
        }
        place += 1;
    }
    settings
};

/// Returns all settings.
pub fn all() -> Vec<Setting> {
    let of_limits = OF_LIMITS.iter().flatten().map(Setting::Integer);
    of_limits.chain(OTHERS.iter().copied()).collect()
}

/// The limits of a new session: one value, shared by all sessions created under the same settings.
static DEFAULT_LIMITS: Mutex<Option<Arc<Limits>>> = Mutex::new(None);

pub fn default_limits() -> Arc<Limits> {
    let mut limits = DEFAULT_LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = limits.get_or_insert_with(|| {
        let mut limits = Limits::default();
        for (limit, setting) in Limits::ROWS.into_iter().zip(&OF_LIMITS) {
            if let Some(setting) = setting {
                limits.set(limit, setting.get() as u64);
            }
        }
        Arc::new(limits)
    });
    Arc::clone(limits)
}

fn forget_limits() {
    *DEFAULT_LIMITS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines `session.<name> <value>` of `redis.conf`, each with the comment above it as one line of text.
    fn paragraphs() -> Vec<(String, String, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/redis.conf");
        let text = std::fs::read_to_string(path).expect("redis.conf is there");
        let mut comment = Vec::new();
        let mut all = Vec::new();
        for line in text.lines() {
            if let Some(line) = line.strip_prefix('#') {
                comment.push(line.trim().to_owned());
                continue;
            }
            let setting = line.strip_prefix("session.").and_then(|line| line.split_once(' '));
            if let Some((name, value)) = setting {
                all.push((name.to_owned(), value.to_owned(), comment.join(" ")));
            }
            comment.clear();
        }
        all
    }

    /// Returns the expected end of a setting's comment: range and default.
    fn range_and_default(setting: &Setting) -> (String, String) {
        match *setting {
            Setting::Integer(setting) => (
                format!("{} to {}", setting.min(), setting.max()),
                setting.default().to_string(),
            ),
            Setting::Boolean(setting) => (
                "yes or no".to_owned(),
                if setting.default() { "yes" } else { "no" }.to_owned(),
            ),
            Setting::Choice(setting) => {
                let words: Vec<&str> = setting.words().collect();
                let (last, others) = words.split_last().expect("a choice has words");
                (format!("{} or {last}", others.join(", ")), setting.default().to_owned())
            }
        }
    }

    #[test]
    fn redis_conf_gives_range_and_default_of_every_setting() {
        let paragraphs = paragraphs();
        let settings = all();
        for (name, _, _) in &paragraphs {
            assert!(
                settings.iter().any(|setting| setting.name() == name),
                "redis.conf sets session.{name}, which there is not"
            );
        }
        for setting in &settings {
            let name = setting.name();
            let found: Vec<_> = paragraphs.iter().filter(|(known, _, _)| known == name).collect();
            let [(_, value, comment)] = found[..] else {
                panic!("redis.conf has {} lines session.{name}, not one", found.len());
            };
            let (range, default) = range_and_default(setting);
            assert_eq!(*value, default, "session.{name}");
            let says = format!(" default {default}");
            let is_said = comment.match_indices(&range).any(|(place, range)| {
                let behind = &comment[place + range.len()..];
                let (until, from) = behind.split_at(behind.find(',').unwrap_or(behind.len()));
                // A number may be followed by a unit in words.
                (until.is_empty() || until.starts_with(" (") && until.ends_with(')'))
                    && from.strip_prefix(',').is_some_and(|from| {
                        from.strip_prefix(&says)
                            .is_some_and(|rest| rest.starts_with(['.', ' ']))
                    })
            });
            assert!(
                is_said,
                "the comment on session.{name} does not say '{range}, default {default}': {comment}"
            );
        }
    }

    #[test]
    fn redis_conf_gives_unit_and_name_of_every_limit() {
        let paragraphs = paragraphs();
        for limit in Limits::ROWS {
            let Some(setting) = limit.setting else { continue };
            let found = paragraphs.iter().find(|(name, _, _)| name == setting.name);
            let (_, _, comment) = found.expect("every setting has its paragraph");
            let begins = comment.get(..limit.unit.len()).unwrap_or_default();
            assert!(
                begins.eq_ignore_ascii_case(limit.unit),
                "the comment on session.{} does not begin with its unit, {}",
                setting.name,
                limit.unit
            );
            let named = format!("(LIMIT {}", limit.name);
            let names_it = comment
                .split_once(&named)
                .is_some_and(|(_, rest)| rest.starts_with([')', ';']));
            assert!(
                names_it,
                "the comment on session.{} does not say '{named})'",
                setting.name
            );
        }
    }

    #[test]
    fn a_new_session_has_the_defaults_of_the_rows() {
        let limits = default_limits();
        for limit in Limits::ROWS {
            let default = limit.setting.map_or(0, |setting| setting.default);
            assert_eq!(limits.get(limit), default, "{}", limit.name);
        }
    }
}
