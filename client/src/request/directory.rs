//! `INDEX …`, `MIGRATE`

use super::write::has_write_options;
use super::{Options, Request, WriteOptions, begin, begin_group};
use crate::{DirectoryEntry, Migrated, Resolved, SessionId, value};

/// `SESSION.INDEX RESOLVE`: the session that an alias or an id means. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::index_resolve("sessions:{acme}", "ada").command().name(), "SESSION.INDEX RESOLVE");
/// ```
pub fn index_resolve(index: impl AsRef<[u8]>, alias_or_id: impl AsRef<str>) -> Request<Option<Resolved>> {
    begin_group("SESSION.INDEX", "RESOLVE", index)
        .arg(alias_or_id.as_ref())
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, Resolved::read))
}

/// Selects sessions of a directory: `SESSION.INDEX LIST`.
///
/// ```
/// use redis_session_client::{IndexQuery, request};
///
/// let query = IndexQuery::all().matching("a*").by_activity().page(0, 20);
/// assert_eq!(request::index_list("i", query).to_string(), "SESSION.INDEX LIST i MATCH a* BYACTIVITY LIMIT 0 20");
/// ```
#[derive(Debug, Clone, Default)]
pub struct IndexQuery {
    options: Options,
}

impl IndexQuery {
    /// Selects all, the newest created first.
    ///
    /// ```
    /// # use redis_session_client::{IndexQuery, request};
    /// let query = IndexQuery::all();
    /// assert_eq!(request::index_list("i", query).to_string(), "SESSION.INDEX LIST i");
    /// ```
    pub fn all() -> IndexQuery {
        IndexQuery::default()
    }

    /// Keeps only those whose alias matches this glob.
    ///
    /// ```
    /// # use redis_session_client::{IndexQuery, request};
    /// let query = IndexQuery::all().matching("user-*");
    /// assert_eq!(request::index_list("i", query).to_string(), "SESSION.INDEX LIST i MATCH user-*");
    /// ```
    pub fn matching(mut self, glob: impl AsRef<str>) -> IndexQuery {
        self.options.set("MATCH", glob.as_ref());
        self
    }

    /// Sorts the most recently active first. The cost grows with the directory.
    ///
    /// ```
    /// # use redis_session_client::{IndexQuery, request};
    /// let query = IndexQuery::all().by_activity();
    /// assert_eq!(request::index_list("i", query).to_string(), "SESSION.INDEX LIST i BYACTIVITY");
    /// ```
    pub fn by_activity(mut self) -> IndexQuery {
        self.options.flag("BYACTIVITY");
        self
    }

    /// Skips the first `offset` and replies at most `count`.
    ///
    /// ```
    /// # use redis_session_client::{IndexQuery, request};
    /// let query = IndexQuery::all().page(20, 20);
    /// assert_eq!(request::index_list("i", query).to_string(), "SESSION.INDEX LIST i LIMIT 20 20");
    /// ```
    pub fn page(mut self, offset: u32, count: u32) -> IndexQuery {
        self.options.set("LIMIT", (offset, count));
        self
    }
}

/// `SESSION.INDEX LIST`: the sessions of a directory. O(N) in those replied, or in all of them `by_activity`.
///
/// ```
/// # use redis_session_client::{IndexQuery, request};
/// assert_eq!(request::index_list("sessions:{acme}", IndexQuery::all()).command().name(), "SESSION.INDEX LIST");
/// ```
pub fn index_list(index: impl AsRef<[u8]>, query: IndexQuery) -> Request<Vec<DirectoryEntry>> {
    begin_group("SESSION.INDEX", "LIST", index)
        .options(&query.options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

/// A session to be registered, or renamed: `SESSION.INDEX ADD`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Create, IndexAdd, SessionCommands};
///
/// connection.session_create("session:{acme}:1", Create::new())?;
/// let is_new = connection.session_index_add("sessions:{acme}", "session:{acme}:1", IndexAdd::new().alias("ada"))?;
/// assert!(is_new);
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct IndexAdd {
    options: Options,
}

impl IndexAdd {
    /// Registers the session with the alias that it has, or none.
    ///
    /// ```
    /// # use redis_session_client::{IndexAdd, request};
    /// let add = IndexAdd::new();
    /// assert_eq!(request::index_add("i", "k", add).to_string(), "SESSION.INDEX ADD i k");
    /// ```
    pub fn new() -> IndexAdd {
        IndexAdd::default()
    }

    /// Sets its alias.
    ///
    /// ```
    /// # use redis_session_client::{IndexAdd, request};
    /// let add = IndexAdd::new().alias("ada");
    /// assert_eq!(request::index_add("i", "k", add).to_string(), "SESSION.INDEX ADD i k ALIAS ada");
    /// ```
    pub fn alias(mut self, alias: impl AsRef<str>) -> IndexAdd {
        self.options.set("ALIAS", alias.as_ref());
        self
    }

    /// Sets an alias that a program made up and no person has chosen.
    ///
    /// ```
    /// # use redis_session_client::{IndexAdd, request};
    /// let add = IndexAdd::new().autoname("about trains");
    /// assert_eq!(request::index_add("i", "k", add).to_string(), r#"SESSION.INDEX ADD i k ALIAS "about trains" AUTONAME"#);
    /// ```
    pub fn autoname(mut self, alias: impl AsRef<str>) -> IndexAdd {
        self.options.set("ALIAS", (alias.as_ref(), "AUTONAME"));
        self
    }
}

/// `SESSION.INDEX ADD`: registers a session, or renames it; whether it is new to the directory. O(1).
///
/// ```
/// # use redis_session_client::{IndexAdd, request};
/// assert_eq!(request::index_add("sessions:{a}", "session:{a}:1", IndexAdd::new()).command().name(), "SESSION.INDEX ADD");
/// ```
pub fn index_add(index: impl AsRef<[u8]>, key: impl AsRef<[u8]>, add: IndexAdd) -> Request<bool> {
    begin_group("SESSION.INDEX", "ADD", index)
        .arg(key.as_ref())
        .options(&add.options)
        .replied(value::is_one)
}

/// `SESSION.INDEX LEN`: how many sessions of a directory there are.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::index_len("sessions:{acme}").command().name(), "SESSION.INDEX LEN");
/// ```
pub fn index_len(index: impl AsRef<[u8]>) -> Request<u64> {
    begin_group("SESSION.INDEX", "LEN", index).reads().replied(value::count)
}

/// A legacy layout to become a session: `SESSION.MIGRATE`.
///
/// ```
/// use redis_session_client::{Migrate, request};
///
/// let migrate = Migrate::new().sources(["chat:1", "chat:1:meta"]).dry_run();
/// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k FROM 2 chat:1 chat:1:meta DRYRUN");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Migrate {
    sources: Vec<Vec<u8>>,
    options: Options,
    write: WriteOptions,
}

impl Migrate {
    /// Migrates what is at the key itself.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new();
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k");
    /// ```
    pub fn new() -> Migrate {
        Migrate::default()
    }

    /// Migrates what is at these keys.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new().sources(["chat:1", "chat:1:meta"]);
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k FROM 2 chat:1 chat:1:meta");
    /// ```
    pub fn sources<K: AsRef<[u8]>>(mut self, keys: impl IntoIterator<Item = K>) -> Migrate {
        self.sources = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        self
    }

    /// Migrates only if it is of this layout.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new().format("langchain");
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k FORMAT langchain");
    /// ```
    pub fn format(mut self, layout: impl AsRef<str>) -> Migrate {
        self.options.set("FORMAT", layout.as_ref());
        self
    }

    /// Sets the session's id, in place of a new one.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, SessionId, request};
    /// let id = SessionId::new();
    /// let migrate = Migrate::new().id(id);
    /// assert_eq!(request::migrate("k", migrate).to_string(), format!("SESSION.MIGRATE k ID {id}"));
    /// ```
    pub fn id(mut self, id: SessionId) -> Migrate {
        self.options.set("ID", id.to_string());
        self
    }

    /// Sets the most messages of its window, in place of what the source had.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new().max_len(100);
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k MAXLEN 100");
    /// ```
    pub fn max_len(mut self, messages: u32) -> Migrate {
        self.options.set("MAXLEN", messages);
        self
    }

    /// Keeps the sources.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new().sources(["chat:1"]).keep();
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k FROM 1 chat:1 KEEP");
    /// ```
    pub fn keep(mut self) -> Migrate {
        self.options.flag("KEEP");
        self
    }

    /// Replies what would be done, and does nothing.
    ///
    /// ```
    /// # use redis_session_client::{Migrate, request};
    /// let migrate = Migrate::new().dry_run();
    /// assert_eq!(request::migrate("k", migrate).to_string(), "SESSION.MIGRATE k DRYRUN");
    /// ```
    pub fn dry_run(mut self) -> Migrate {
        self.options.flag("DRYRUN");
        self
    }
}

/// `SESSION.MIGRATE`: turns a legacy layout into a session. O(N) in what is read.
///
/// ```
/// # use redis_session_client::{Migrate, request};
/// assert_eq!(request::migrate("chat:1", Migrate::new()).command().name(), "SESSION.MIGRATE");
/// ```
pub fn migrate(key: impl AsRef<[u8]>, migrate: Migrate) -> Request<Migrated> {
    let mut command = begin("SESSION.MIGRATE", key);
    if !migrate.sources.is_empty() {
        command = command.arg("FROM").arg(migrate.sources.len());
        for source in &migrate.sources {
            command = command.arg(source.as_slice());
        }
    }
    command
        .options(&migrate.options)
        .write_options(&migrate.write)
        .replied(Migrated::read)
}

has_write_options!(Migrate);
