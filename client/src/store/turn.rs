//! Leased edits: writes that only the holder of the turn can make.

use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

use super::SessionHandle;
use super::connect::Connect;
use super::table::{guarded, once, sample_session, session_writes};
use crate::request::{
    self, Append, Content, Handoff, Join, Mention, NewCheckpoint, NewEvent, Request, SessionWrite, Window, WriteOptions,
};
use crate::{Appended, Body, HandedOff, Result, SessionError};

/// The turn of an agent in a session, with its fencing token. It ends with its time, when it is [released](Turn::release), handed over,
/// or the session closes; not when this value is dropped. See [`SessionHandle::lease`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
/// # let session = store.create(redis_session_client::Create::new()).await?;
/// use std::time::Duration;
/// use redis_session_client::{NewMessage, SessionError};
///
/// let turn = session.lease("planner", Duration::from_millis(1)).await?;
/// tokio::time::sleep(Duration::from_millis(20)).await;
/// assert!(matches!(turn.append(NewMessage::user("too late")).await, Err(SessionError::LeaseLost(_))));
/// # Ok(())
/// # }
/// ```
pub struct Turn<C: Connect> {
    session: SessionHandle<C>,
    agent: String,
    length: Duration,
    token: u64,
}

impl<C: Connect> fmt::Debug for Turn<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("session", &self.session)
            .field("agent", &self.agent)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The methods of a turn: the rows that write, with its fencing token.
macro_rules! on_turn {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident($($arg:ident: $type:ty),*) -> $reply:ty = |$key:ident, $write:ident| $request:expr;
        $call:literal => $check:literal;
    )+) => {
        impl<C: Connect> Turn<C> {$(
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// [`LeaseLost`](SessionError::LeaseLost) if the turn is over; what the server refuses; what is wrong with the connection.
            ///
            #[doc = concat!(
                "```\n",
                sample_session!(async),
                "let turn = session.lease(\"clerk\", std::time::Duration::from_secs(5)).await?;\n",
                "let reply = turn.", $call, ".await?;\n",
                $check, "\n# Ok(())\n# }\n```"
            )]
            pub async fn $name(&self, $($arg: $type),*) -> Result<$reply> {
                let ($key, $write) = (&self.session.key, self.write());
                let request = $request;
                self.session.store.run(&request).await
            }
        )+}
    };
}

session_writes!(on_turn);

impl<C: Connect> Turn<C> {
    pub(super) fn new(session: SessionHandle<C>, agent: String, length: Duration, token: u64) -> Turn<C> {
        Turn {
            session,
            agent,
            length,
            token,
        }
    }

    /// The fencing token: it only ever grows.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// assert!(turn.token() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The options that a request needs to be accepted in this turn: its fencing token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// use redis_session_client::request;
    ///
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// assert_eq!(session.run(|key| request::clear(key, turn.write())).await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> WriteOptions {
        WriteOptions::new().lease(self.token)
    }

    /// Renews the lease for its whole time again; the token stays.
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if the lease had ended, also if no other agent holds one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// let turn = session.lease("planner", Duration::from_secs(5)).await?;
    /// turn.renew().await?;
    /// assert_eq!(session.document(None).await?.lease.expect("it is held").token, turn.token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self) -> Result<()> {
        let request = |key: &[u8]| request::agent_lease(key, &self.agent, self.length).repeatable();
        match self.run(request).await {
            Ok(token) if token == self.token => Ok(()),
            Ok(token) => {
                // Somebody may have written in between: what is decided in this turn no longer holds. Nobody knows of the new one.
                let release = self.run(|key| request::agent_release(key, token)).await;
                release.and(Err(SessionError::LeaseLost(format!("token {} is stale", self.token))))
            }
            Err(SessionError::LeaseHeld { message, .. }) => Err(SessionError::LeaseLost(message)),
            Err(error) => Err(error),
        }
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if it was over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use std::time::Duration;
    /// session.lease("planner", Duration::from_secs(5)).await?.release().await?;
    /// assert_eq!(session.document(None).await?.lease, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<()> {
        self.run(|key| request::agent_release(key, self.token)).await
    }

    async fn run<T>(&self, request: impl FnOnce(&[u8]) -> Request<T>) -> Result<T> {
        self.session.run(request).await
    }
}
