//! What can go wrong: a variant for each error word of the module.

use std::fmt;

use redis::RedisError;

/// A result of this crate.
///
/// ```
/// use redis_session_client::{SessionAlias, SessionResult};
///
/// fn alias(text: &str) -> SessionResult<SessionAlias> {
///     text.parse()
/// }
/// assert!(alias("support").is_ok());
/// ```
pub type SessionResult<T, E = SessionError> = std::result::Result<T, E>;

/// An error reply of a `SESSION.*` command, or what kept a reply from coming.
///
/// Each error word of the module has a variant. Where its text holds numbers or names, they are fields; the text itself is what
/// [`fmt::Display`] shows. What the server replies that is no error word of the module's is in [`SessionError::Redis`].
///
/// A command that replies with an error has changed nothing. When the connection failed instead
/// ([`SessionError::is_outcome_unknown`]), it may have been executed or not.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{NewMessage, SessionCommands, SessionError, SessionWrite};
///
/// connection.session_append("session:1", NewMessage::user("hello"))?;
/// match connection.session_append("session:1", NewMessage::user("again").append().if_version(7)) {
///     Err(SessionError::VersionConflict { version, expected, .. }) => assert_eq!((version, expected), (2, 7)),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), SessionError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SessionError {
    /// `BADMESSAGE`: a body is not one UTF-8 JSON object.
    BadMessage(String),
    /// `TOOLARGE`: over a limit, which the text names.
    TooLarge(String),
    /// `VERSIONCONFLICT`: the session is at another version than the one `IFVERSION` named.
    VersionConflict {
        /// The session's version.
        version: u64,
        /// The version that was asked for.
        expected: u64,
        /// What the server said.
        message: String,
    },
    /// `DEDUPCONFLICT`: the token was used for another message.
    DedupConflict(String),
    /// `LEASEHELD`: another agent holds the lease.
    LeaseHeld {
        /// The agent that holds the lease.
        agent: String,
        /// How long the lease still lasts, in milliseconds.
        remaining_ms: u64,
        /// What the server said.
        message: String,
    },
    /// `LEASELOST`: the fencing token is not the living lease's.
    LeaseLost(String),
    /// `STATECONFLICT`: the session is in another state than the one `IFSTATE` named.
    StateConflict {
        /// The session's state.
        state: String,
        /// The state that was asked for.
        expected: String,
        /// What the server said.
        message: String,
    },
    /// `CLOSED`: the session takes no more writes.
    Closed(String),
    /// `BADALIAS`: what was given cannot be an alias. Also said by this crate, before anything is sent.
    BadAlias(String),
    /// `ALIASINUSE`: the alias belongs to another session.
    AliasInUse {
        /// The alias.
        alias: String,
        /// The session that it belongs to.
        id: String,
        /// What the server said.
        message: String,
    },
    /// `NOSESSION`: no session at that key.
    NoSession(String),
    /// `NOCHECKPOINT`: the session has no checkpoint of that id.
    NoCheckpoint(String),
    /// `BUSYKEY`: something is at that key already.
    BusyKey(String),
    /// `BADLAYOUT`: what is at that key cannot be read as any layout.
    BadLayout(String),
    /// `WRONGTYPE`: the key holds something else.
    WrongType(String),
    /// The server does not know the commands: the module is not loaded.
    NoModule(String),
    /// The first connection of a store could not be made: no server answers at that address. Nothing was sent.
    Unreachable {
        /// The address, as `Connect::address` tells it.
        address: String,
        /// Why there is no connection.
        error: RedisError,
    },
    /// A handle gave up, after the time that its store allows: others wrote again and again, or held the turn.
    Concurrent {
        /// The number of attempts.
        attempts: u32,
        /// The error of the last attempt.
        last: Box<SessionError>,
    },
    /// A reply that this version of the crate does not understand, as a newer module may send.
    UnexpectedReply {
        /// The command.
        command: String,
        /// What is wrong with the reply.
        reason: String,
    },
    /// An argument that no server would take, found before anything was sent.
    BadArgument(String),
    /// Anything else: connections, authentication, permissions, syntax, clusters.
    Redis(RedisError),
}

impl SessionError {
    /// Whether the command may have been executed although no reply came: a connection that broke or timed out.
    ///
    /// An append can be sent again with the same [`dedup`](crate::Append::dedup) token, and is appended once.
    ///
    /// ```
    /// use redis_session_client::SessionError;
    ///
    /// let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    /// assert!(SessionError::from(redis::RedisError::from(broken)).is_outcome_unknown());
    /// assert!(!SessionError::NoSession("no session at key 'k'".into()).is_outcome_unknown());
    /// ```
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            SessionError::Redis(error) => {
                error.is_io_error() && !error.is_connection_refusal() || error.kind() == redis::ErrorKind::Parse
            }
            _ => false,
        }
    }

    /// Whether the same command may succeed on a new connection or a little later: what happens while a server restarts, fails over,
    /// or a slot moves.
    ///
    /// ```
    /// use redis_session_client::SessionError;
    ///
    /// let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    /// assert!(SessionError::from(redis::RedisError::from(refused)).is_transient());
    /// assert!(!SessionError::Closed("session closed".into()).is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        let error = match self {
            SessionError::Redis(error) => error,
            SessionError::Unreachable { .. } => return true,
            _ => return false,
        };
        error.is_io_error()
            || error.is_cluster_error()
            || matches!(
                error.kind(),
                redis::ErrorKind::ClusterConnectionNotFound
                    | redis::ErrorKind::MasterNameNotFoundBySentinel
                    | redis::ErrorKind::NoValidReplicasFoundBySentinel
            )
            || matches!(
                error.code(),
                Some("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "UNBLOCKED")
            )
    }

    pub(crate) fn unexpected(reason: impl fmt::Display) -> SessionError {
        SessionError::UnexpectedReply {
            command: String::new(),
            reason: reason.to_string(),
        }
    }

    /// The same, with the command's name if it was not known where the reply was read.
    pub(crate) fn of_command(self, name: &str) -> SessionError {
        match self {
            SessionError::UnexpectedReply { command, reason } if command.is_empty() => SessionError::UnexpectedReply {
                command: name.to_owned(),
                reason,
            },
            other => other,
        }
    }
}

impl From<RedisError> for SessionError {
    fn from(error: RedisError) -> SessionError {
        let Some(code) = error.code() else {
            return SessionError::Redis(error);
        };
        let text = error.detail().unwrap_or_default().to_owned();
        match code {
            "BADMESSAGE" => SessionError::BadMessage(text),
            "TOOLARGE" => SessionError::TooLarge(text),
            "VERSIONCONFLICT" => {
                let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
                SessionError::VersionConflict {
                    version: numbers.next().unwrap_or_default(),
                    expected: numbers.next().unwrap_or_default(),
                    message: text,
                }
            }
            "DEDUPCONFLICT" => SessionError::DedupConflict(text),
            "LEASEHELD" => SessionError::LeaseHeld {
                agent: quoted(&text).next().unwrap_or_default(),
                // The agent may have digits, too: the last number is the time.
                remaining_ms: text
                    .rsplit(|c: char| !c.is_ascii_digit())
                    .find_map(|n| n.parse().ok())
                    .unwrap_or_default(),
                message: text,
            },
            "LEASELOST" => SessionError::LeaseLost(text),
            "STATECONFLICT" => {
                let mut states = quoted(&text);
                SessionError::StateConflict {
                    state: states.next().unwrap_or_default(),
                    expected: states.next().unwrap_or_default(),
                    message: text,
                }
            }
            "CLOSED" => SessionError::Closed(text),
            "BADALIAS" => SessionError::BadAlias(text),
            "ALIASINUSE" => SessionError::AliasInUse {
                alias: quoted(&text).next().unwrap_or_default(),
                id: text.rsplit(' ').next().unwrap_or_default().to_owned(),
                message: text,
            },
            "NOSESSION" => SessionError::NoSession(text),
            "NOCHECKPOINT" => SessionError::NoCheckpoint(text),
            "BUSYKEY" => SessionError::BusyKey(text),
            "BADLAYOUT" => SessionError::BadLayout(text),
            "WRONGTYPE" => SessionError::WrongType(text),
            "ERR" if text.to_ascii_lowercase().starts_with("unknown command") && text.contains("SESSION.") => {
                SessionError::NoModule(text)
            }
            _ => SessionError::Redis(error),
        }
    }
}

/// What stands between single quotes, one after the other. The server quotes 64 bytes at most, a quote and what is not printable as
/// `\xNN`.
fn quoted(text: &str) -> std::vec::IntoIter<String> {
    let words: Vec<String> = text.split('\'').skip(1).step_by(2).map(unescaped).collect();
    words.into_iter()
}

fn unescaped(quoted: &str) -> String {
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match rest {
            [b'\\', b'x', digits @ ..] => digits.get(..2).and_then(|digits| {
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 16).ok()
            }),
            _ => None,
        };
        rest = match escaped {
            Some(_) => &rest[4..],
            None => after,
        };
        bytes.push(escaped.unwrap_or(first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::BadMessage(text)
            | SessionError::TooLarge(text)
            | SessionError::DedupConflict(text)
            | SessionError::LeaseLost(text)
            | SessionError::Closed(text)
            | SessionError::BadAlias(text)
            | SessionError::NoSession(text)
            | SessionError::NoCheckpoint(text)
            | SessionError::BusyKey(text)
            | SessionError::BadLayout(text)
            | SessionError::WrongType(text)
            | SessionError::BadArgument(text)
            | SessionError::VersionConflict { message: text, .. }
            | SessionError::LeaseHeld { message: text, .. }
            | SessionError::StateConflict { message: text, .. }
            | SessionError::AliasInUse { message: text, .. } => f.write_str(text),
            SessionError::NoModule(text) => write!(
                f,
                "the server does not have the module redis-session ({text}): load it with \
                 `redis-server --loadmodule /path/to/libredis_session.so` or `MODULE LOAD`"
            ),
            SessionError::Unreachable { address, error } => write!(f, "cannot reach {address}: {error}"),
            SessionError::Concurrent { attempts, last } => write!(f, "gave up after {attempts} attempts: {last}"),
            SessionError::UnexpectedReply { command, reason } => write!(
                f,
                "{command} was answered with what this version of the client does not understand ({reason})"
            ),
            SessionError::Redis(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SessionError::Redis(error) | SessionError::Unreachable { error, .. } => Some(error),
            SessionError::Concurrent { last, .. } => Some(last),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, text: &str) -> SessionError {
        redis::make_extension_error(code.to_owned(), Some(text.to_owned())).into()
    }

    #[test]
    fn the_numbers_and_names_of_an_error_are_fields() {
        let SessionError::LeaseHeld {
            agent, remaining_ms, ..
        } = error("LEASEHELD", "agent 'bot 7' holds the turn for 4200 ms more")
        else {
            panic!("not held")
        };
        assert_eq!((agent.as_str(), remaining_ms), ("bot 7", 4200));
        let SessionError::StateConflict { state, expected, .. } =
            error("STATECONFLICT", "session is in state 'working', not 'review'")
        else {
            panic!("no conflict")
        };
        assert_eq!((state.as_str(), expected.as_str()), ("working", "review"));
    }

    #[test]
    fn a_name_is_what_it_was_before_the_server_quoted_it() {
        let SessionError::LeaseHeld {
            agent, remaining_ms, ..
        } = error(
            "LEASEHELD",
            r"agent 'Ada\x27s 99 \xc3\xa9\x5cx \x4' holds the turn for 12 ms more",
        )
        else {
            panic!("not held")
        };
        assert_eq!((agent.as_str(), remaining_ms), (r"Ada's 99 é\x \x4", 12));
    }

    #[test]
    fn a_text_of_another_version_is_still_its_variant() {
        assert!(matches!(
            error("VERSIONCONFLICT", "other words"),
            SessionError::VersionConflict {
                version: 0,
                expected: 0,
                ..
            }
        ));
        assert!(matches!(error("LEASEHELD", ""), SessionError::LeaseHeld { .. }));
        assert!(matches!(error("NEWWORD", "x"), SessionError::Redis(_)));
    }
}
