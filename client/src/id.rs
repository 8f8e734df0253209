//! What a session is called: an id that never changes, and an alias that can.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Result, SessionError};

/// A session's id: a UUID, for life.
///
/// ```
/// use redis_session_client::SessionId;
///
/// let id: SessionId = "0190C5A4-7B1E-7CCC-8000-0123456789AB".parse().unwrap();
/// assert_eq!(id.to_string(), "0190c5a4-7b1e-7ccc-8000-0123456789ab");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Uuid);

impl SessionId {
    /// Makes a new id as the module does: a UUIDv7, whose order is that of creation.
    ///
    /// ```
    /// # use redis_session_client::SessionId;
    /// assert_ne!(SessionId::new(), SessionId::new());
    /// ```
    #[allow(clippy::new_without_default)] // a default that differs each time would surprise
    pub fn new() -> SessionId {
        SessionId(Uuid::now_v7())
    }

    /// The nil UUID: the module shows it for an older layout, which is no session yet, and a [tolerant](crate::tolerant) reading for a session
    /// whose id is missing. No session has it.
    ///
    /// ```
    /// # use redis_session_client::SessionId;
    /// assert_eq!(SessionId::unknown().to_string(), "00000000-0000-0000-0000-000000000000");
    /// ```
    pub const fn unknown() -> SessionId {
        SessionId(Uuid::nil())
    }

    /// The UUID itself.
    ///
    /// ```
    /// # use redis_session_client::SessionId;
    /// assert_eq!(SessionId::new().uuid().get_version_num(), 7);
    /// ```
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for SessionId {
    fn from(uuid: Uuid) -> SessionId {
        SessionId(uuid)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
    }
}

impl FromStr for SessionId {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<SessionId> {
        text.parse()
            .map(SessionId)
            .map_err(|error| SessionError::BadArgument(format!("{text:?} is not a session's id ({error})")))
    }
}

/// A name for a session, unique in its directory: 1 to 255 bytes without `/`, `\` and control characters, not `.` or `..`, no space at
/// either end, not shaped like a UUID.
///
/// ```
/// use redis_session_client::SessionAlias;
///
/// assert_eq!(SessionAlias::new("user 42")?.as_str(), "user 42");
/// assert!(SessionAlias::new("a/b").is_err());
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionAlias(String);

impl SessionAlias {
    /// Makes an alias, checking what the module would check.
    ///
    /// # Errors
    /// [`SessionError::BadAlias`], saying which rule is broken.
    ///
    /// ```
    /// # use redis_session_client::SessionAlias;
    /// let error = SessionAlias::new("..").unwrap_err();
    /// assert!(error.to_string().contains(".."));
    /// ```
    pub fn new(name: impl Into<String>) -> Result<SessionAlias> {
        let name = name.into();
        let broken = if name.is_empty() || name.len() > 255 {
            "must have 1 to 255 bytes"
        } else if name == "." || name == ".." {
            "must not be . or .."
        } else if name.contains(['/', '\\']) {
            "must not contain / or \\"
        } else if name.contains(char::is_control) {
            "must not contain control characters"
        } else if name.starts_with(' ') || name.ends_with(' ') {
            "must not begin or end with a space"
        } else if Uuid::try_parse(&name).is_ok() {
            "must not be shaped like a UUID"
        } else {
            return Ok(SessionAlias(name));
        };
        Err(SessionError::BadAlias(format!("alias {name:?} {broken}")))
    }

    /// The name.
    ///
    /// ```
    /// # use redis_session_client::SessionAlias;
    /// assert_eq!(SessionAlias::new("support")?.as_str(), "support");
    /// # Ok::<(), redis_session_client::SessionError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SessionAlias {
    type Err = SessionError;

    fn from_str(name: &str) -> Result<SessionAlias> {
        SessionAlias::new(name)
    }
}

impl TryFrom<String> for SessionAlias {
    type Error = SessionError;

    fn try_from(name: String) -> Result<SessionAlias> {
        SessionAlias::new(name)
    }
}

impl From<SessionAlias> for String {
    fn from(alias: SessionAlias) -> String {
        alias.0
    }
}
