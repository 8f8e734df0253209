//! The limits that a session has.

use std::fmt;

/// Makes [`Limit`] of one list: each limit's variant, name and meaning.
macro_rules! limits {
    ($( $(#[doc = $doc:literal])+ $variant:ident = $name:literal, )+) => {
        /// A limit of a session: a number, of which 0 means none (but for [`Limit::DedupWindow`], where it means that nothing is remembered).
        ///
        /// ```
        /// # let server = redis_session_tests::Server::start();
        /// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
        /// use redis_session_client::{Create, Limit, SessionCommands};
        ///
        /// let create = Create::new().limit(Limit::MaxLen, 200).limit(Limit::EventTtl, 86_400);
        /// connection.session_create("session:1", create)?;
        /// let limits = connection.session_get("session:1", None)?.expect("it is there").limits;
        /// assert_eq!(limits.get(&Limit::MaxLen), Some(200));
        /// assert_eq!(limits.get(&Limit::EventTtl), Some(86_400));
        /// # Ok::<(), redis_session_client::SessionError>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Limit {
            $( $(#[doc = $doc])+ $variant, )+
            /// One of another module's, by its name in `LIMIT`.
            Other(String),
        }

        impl Limit {
            /// Every limit that this version knows by a name of its own.
            ///
            /// ```
            /// # use redis_session_client::Limit;
            /// assert!(Limit::KNOWN.contains(&Limit::MaxLen));
            /// ```
            pub const KNOWN: [Limit; [$( $name, )+].len()] = [$( Limit::$variant, )+];

            /// Its name in `LIMIT`, and in a document's limits.
            ///
            /// ```
            /// # use redis_session_client::Limit;
            /// assert_eq!(Limit::MaxLen.as_str(), "maxlen");
            /// ```
            pub fn as_str(&self) -> &str {
                match self {
                    $( Limit::$variant => $name, )+
                    Limit::Other(name) => name,
                }
            }
        }
    };
}

limits! {
    /// `maxlen`: the messages of the window.
    MaxLen = "maxlen",
    /// `maxtokens`: their tokens.
    MaxTokens = "maxtokens",
    /// `maxbytes`: the bytes of their bodies.
    MaxBytes = "maxbytes",
    /// `maxage`: their age, in milliseconds.
    MaxAge = "maxage",
    /// `event-maxlen`: the events.
    EventMaxLen = "event-maxlen",
    /// `event-ttl`: their age, in seconds.
    EventTtl = "event-ttl",
    /// `dedup-window`: the tokens of appends that are remembered.
    DedupWindow = "dedup-window",
    /// `max-checkpoints`: the checkpoints.
    MaxCheckpoints = "max-checkpoints",
    /// `max-entities`: the entities.
    MaxEntities = "max-entities",
    /// `max-agents`: the agents.
    MaxAgents = "max-agents",
}

impl From<&str> for Limit {
    fn from(name: &str) -> Limit {
        let known = Limit::KNOWN
            .into_iter()
            .find(|limit| name.eq_ignore_ascii_case(limit.as_str()));
        known.unwrap_or_else(|| Limit::Other(name.to_owned()))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
