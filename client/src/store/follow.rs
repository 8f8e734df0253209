//! Following a session: a stream of its messages, events and checkpoints.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use futures_util::Stream;

use super::SessionStore;
use super::connect::Connect;
use crate::request::{self, ReadOptions};
use crate::{EntryKind, ReadCursor, Result, SessionEntry};

/// How long one `READ` blocks. Between two of them a lost connection is noticed.
const BLOCK: Duration = Duration::from_secs(5);

/// How much longer than `BLOCK` a reply may take.
const SLACK: Duration = Duration::from_secs(5);

/// The most entries of one reply.
const COUNT: u32 = 1000;

/// Follows a session: hands out messages, events and checkpoints as they are recorded.
///
/// It has a connection of its own, since a read that waits keeps it busy. When that is lost it makes another and goes on where it was; what
/// was gone before it could be read is an entry too, [`EntryKind::Gap`], and so is that another session took the place of the one it
/// followed, [`EntryKind::Reset`]. Nothing is skipped silently, and nothing comes twice.
///
/// That holds for what the server does not lose: replication is asynchronous, and what a primary that died had told a follower and nobody
/// else is gone; the next primary gives its seqs to others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redis_session_client::SessionError> {
/// # let server = redis_session_tests::Server::start();
/// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
/// # let session = store.create(redis_session_client::Create::new()).await?;
/// use redis_session_client::{EntryKind, NewEvent};
///
/// let mut events = session.follow(0).events();
/// session.record(NewEvent::new("pass").agent("builder")).await?;
/// let entry = events.next().await?;
/// assert!(matches!(&entry.kind, EntryKind::Event(event) if event.event_type == "pass"));
/// assert_eq!(events.position(), entry.seq);
/// # Ok(())
/// # }
/// ```
pub struct Follow<C: Connect> {
    store: SessionStore<C>,
    key: Vec<u8>,
    /// The seq up to which entries were handed out.
    position: u64,
    /// The seq up to which entries were read, and the gaps that were reported.
    cursor: ReadCursor,
    ready: VecDeque<SessionEntry>,
    kinds: Kinds,
    connection: Option<C::Connection>,
}

impl<C: Connect> fmt::Debug for Follow<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

enum Kinds {
    All,
    Messages,
    Events,
}

impl<C: Connect> Follow<C> {
    pub(super) fn new(store: SessionStore<C>, key: Vec<u8>, after_seq: u64) -> Follow<C> {
        Follow {
            store,
            key,
            position: after_seq,
            cursor: ReadCursor::after(after_seq),
            ready: VecDeque::new(),
            kinds: Kinds::All,
            connection: None,
        }
    }

    /// Follows only messages.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{NewEvent, NewMessage};
    ///
    /// session.record(NewEvent::new("begun")).await?;
    /// session.append(NewMessage::user("hello")).await?;
    /// let mut messages = session.follow(0).messages();
    /// assert_eq!(messages.next().await?.seq, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn messages(mut self) -> Follow<C> {
        self.kinds = Kinds::Messages;
        self
    }

    /// Follows only events.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use redis_session_client::{NewEvent, NewMessage};
    ///
    /// session.append(NewMessage::user("hello")).await?;
    /// session.record(NewEvent::new("begun")).await?;
    /// let mut events = session.follow(0).events();
    /// assert_eq!(events.next().await?.seq, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(mut self) -> Follow<C> {
        self.kinds = Kinds::Events;
        self
    }

    /// The seq up to which everything was handed out. Another process can go on from it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// assert_eq!(session.follow(41).position(), 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits for the next entry, also while the session does not exist.
    ///
    /// Dropping the future loses nothing: the next call goes on.
    ///
    /// # Errors
    /// What the server replies; what is wrong with the connection after [`Retry::give_up_after`](crate::Retry::give_up_after). The next call tries again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// # use redis_session_client::NewMessage;
    /// let mut follow = session.follow(0);
    /// session.append(NewMessage::user("hello")).await?;
    /// assert_eq!(follow.next().await?.seq, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Result<SessionEntry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                self.handed_out(&entry);
                return Ok(entry);
            }
            let entries = self.read().await?;
            let connections = &self.store.shared.connections;
            if entries.is_empty() && !connections.may_wait() {
                tokio::time::sleep(connections.retry.longest_wait).await;
            }
            self.ready.extend(self.cursor.take(entries, COUNT));
        }
    }

    /// Turns it into a stream, which does not end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redis_session_client::SessionError> {
    /// # let server = redis_session_tests::Server::start();
    /// # let store = redis_session_client::SessionStore::new(redis::Client::open(server.url())?, "acme");
    /// # let session = store.create(redis_session_client::Create::new()).await?;
    /// use futures_util::StreamExt;
    /// use redis_session_client::NewMessage;
    ///
    /// session.append([r#"{"content":"a"}"#, r#"{"content":"b"}"#]).await?;
    /// let seqs: Vec<u64> = session.follow(0).into_stream().take(2).map(|entry| entry.map_or(0, |e| e.seq)).collect().await;
    /// assert_eq!(seqs, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<SessionEntry>> + Send {
        Box::pin(futures_util::stream::unfold(self, |mut follow| async move {
            Some((follow.next().await, follow))
        }))
    }

    fn handed_out(&mut self, entry: &SessionEntry) {
        match entry.kind {
            EntryKind::Reset { .. } => self.position = 0,
            // What stands inside a gap is still to come, before what is after it.
            EntryKind::Gap { .. } => {}
            _ => self.position = self.position.max(entry.seq),
        }
        if self.ready.is_empty() {
            self.position = self.cursor.position();
        }
    }

    /// Sends one blocking `READ`; empty if nothing came in its time.
    async fn read(&mut self) -> Result<Vec<SessionEntry>> {
        let read = ReadOptions::after(self.cursor.position()).count(COUNT);
        let read = match self.store.shared.connections.may_wait() {
            true => read.block(BLOCK),
            false => read,
        };
        let read = match self.kinds {
            Kinds::All => read,
            Kinds::Messages => read.messages(),
            Kinds::Events => read.events(),
        };
        // A replica may lag, and one that is behind the position would tell of a reset.
        let request = request::read(&self.key, read).at_primary();
        let connections = &self.store.shared.connections;
        let mut attempts = connections.retry.begin();
        loop {
            let connection = match self.connection.take() {
                Some(connection) => Ok(connection),
                None => connections.alone(BLOCK + SLACK).await,
            };
            let error = match connection {
                // Taken while it is busy: should this future be dropped, a reply is still to come on it.
                Ok(mut connection) => match request.query_async(&mut connection).await {
                    Ok(entries) => {
                        self.connection = Some(connection);
                        return Ok(entries);
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !attempts.may_repeat(&error).await {
                return Err(error);
            }
        }
    }
}
