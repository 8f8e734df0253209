//! `ENTITY …`

use redis::Cmd;
use serde_json::Value as Json;

use super::write::has_write_options;
use super::{Options, Request, WriteOptions, begin_group};
use crate::{Entity, value};

/// A mention of entities: `SESSION.ENTITY MENTION`.
///
/// ```
/// # let server = redis_session_tests::Server::start();
/// # let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// use redis_session_client::{Mention, SessionCommands};
///
/// let ada = Mention::new("u7").name("Ada").entity_type("person").alias("the admin");
/// assert_eq!(connection.session_entity_mention("session:1", ada)?, 1);
/// assert_eq!(connection.session_entity_resolve("session:1", "she")?.expect("Ada").entity_id, "u7");
/// # Ok::<(), redis_session_client::SessionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mention {
    entities: Entities,
    write: WriteOptions,
}

#[derive(Debug, Clone)]
enum Entities {
    One { id: String, options: Options },
    Objects(Vec<String>),
}

impl Mention {
    /// Mentions one entity.
    ///
    /// ```
    /// # use redis_session_client::{Mention, request};
    /// let mention = Mention::new("order:7");
    /// assert_eq!(request::entity_mention("k", mention).to_string(), "SESSION.ENTITY MENTION k ID order:7");
    /// ```
    pub fn new(id: impl Into<String>) -> Mention {
        Mention {
            entities: Entities::One {
                id: id.into(),
                options: Options::default(),
            },
            write: WriteOptions::new(),
        }
    }

    /// Mentions any number, each a JSON object with `id`, and where known `name`, `type`, `aliases`.
    ///
    /// ```
    /// # use redis_session_client::{Mention, request};
    /// let mention = Mention::objects(&[serde_json::json!({"id": "u7", "name": "Ada"})]);
    /// assert_eq!(request::entity_mention("k", mention).to_string(), r#"SESSION.ENTITY MENTION k JSON '{"id":"u7","name":"Ada"}'"#);
    /// ```
    pub fn objects<'a>(objects: impl IntoIterator<Item = &'a Json>) -> Mention {
        Mention {
            entities: Entities::Objects(objects.into_iter().map(Json::to_string).collect()),
            write: WriteOptions::new(),
        }
    }

    /// Sets its name. Not for [`Mention::objects`], of which each has its own.
    ///
    /// ```
    /// # use redis_session_client::{Mention, request};
    /// let mention = Mention::new("u7").name("Ada");
    /// assert_eq!(request::entity_mention("k", mention).to_string(), "SESSION.ENTITY MENTION k ID u7 NAME Ada");
    /// ```
    pub fn name(self, name: impl AsRef<str>) -> Mention {
        self.with(|options| options.set("NAME", name.as_ref()))
    }

    /// Sets its type. Not for [`Mention::objects`], of which each has its own.
    ///
    /// ```
    /// # use redis_session_client::{Mention, request};
    /// let mention = Mention::new("u7").entity_type("person");
    /// assert_eq!(request::entity_mention("k", mention).to_string(), "SESSION.ENTITY MENTION k ID u7 TYPE person");
    /// ```
    pub fn entity_type(self, entity_type: impl AsRef<str>) -> Mention {
        self.with(|options| options.set("TYPE", entity_type.as_ref()))
    }

    /// Adds another name. May be repeated. Not for [`Mention::objects`], of which each has its own.
    ///
    /// ```
    /// # use redis_session_client::{Mention, request};
    /// let mention = Mention::new("u7").alias("the admin").alias("Lovelace");
    /// assert_eq!(request::entity_mention("k", mention).to_string(), r#"SESSION.ENTITY MENTION k ID u7 ALIAS "the admin" ALIAS Lovelace"#);
    /// ```
    pub fn alias(self, alias: impl AsRef<str>) -> Mention {
        self.with(|options| options.push("ALIAS", alias.as_ref()))
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Mention {
        if let Entities::One { options, .. } = &mut self.entities {
            change(options);
        }
        self
    }

    fn write(&self, cmd: &mut Cmd) {
        match &self.entities {
            Entities::One { id, options } => {
                cmd.arg("ID").arg(id);
                options.write(cmd);
            }
            Entities::Objects(objects) => {
                cmd.arg("JSON").arg(objects);
            }
        }
    }
}

/// `SESSION.ENTITY MENTION`: counts a mention, creating entities, and the session, if needed; how many are new.
///
/// ```
/// # use redis_session_client::{Mention, request};
/// assert_eq!(request::entity_mention("k", Mention::new("u7")).command().name(), "SESSION.ENTITY MENTION");
/// ```
pub fn entity_mention(key: impl AsRef<[u8]>, mention: Mention) -> Request<u64> {
    let mut command = begin_group("SESSION.ENTITY", "MENTION", key).write_options(&mention.write);
    mention.write(&mut command.cmd);
    command.replied(value::count)
}

/// `SESSION.ENTITY GET`: one entity. O(1).
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::entity_get("k", "u7").command().name(), "SESSION.ENTITY GET");
/// ```
pub fn entity_get(key: impl AsRef<[u8]>, id: impl AsRef<str>) -> Request<Option<Entity>> {
    begin_group("SESSION.ENTITY", "GET", key)
        .arg(id.as_ref())
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, value::object))
}

/// Selects entities: `SESSION.ENTITY LIST`.
///
/// ```
/// use redis_session_client::{EntityQuery, request};
///
/// let query = EntityQuery::all().entity_type("person").page(0, 10);
/// assert_eq!(request::entity_list("k", query).to_string(), "SESSION.ENTITY LIST k TYPE person LIMIT 0 10");
/// ```
#[derive(Debug, Clone, Default)]
pub struct EntityQuery {
    options: Options,
}

impl EntityQuery {
    /// Selects all, the most recently mentioned first.
    ///
    /// ```
    /// # use redis_session_client::{EntityQuery, request};
    /// let query = EntityQuery::all();
    /// assert_eq!(request::entity_list("k", query).to_string(), "SESSION.ENTITY LIST k");
    /// ```
    pub fn all() -> EntityQuery {
        EntityQuery::default()
    }

    /// Keeps only entities of this type.
    ///
    /// ```
    /// # use redis_session_client::{EntityQuery, request};
    /// let query = EntityQuery::all().entity_type("person");
    /// assert_eq!(request::entity_list("k", query).to_string(), "SESSION.ENTITY LIST k TYPE person");
    /// ```
    pub fn entity_type(mut self, entity_type: impl AsRef<str>) -> EntityQuery {
        self.options.set("TYPE", entity_type.as_ref());
        self
    }

    /// Skips the first `offset` and replies at most `count`.
    ///
    /// ```
    /// # use redis_session_client::{EntityQuery, request};
    /// let query = EntityQuery::all().page(10, 10);
    /// assert_eq!(request::entity_list("k", query).to_string(), "SESSION.ENTITY LIST k LIMIT 10 10");
    /// ```
    pub fn page(mut self, offset: u32, count: u32) -> EntityQuery {
        self.options.set("LIMIT", (offset, count));
        self
    }
}

/// `SESSION.ENTITY LIST`: entities, the most recently mentioned first. O(N).
///
/// ```
/// # use redis_session_client::{EntityQuery, request};
/// assert_eq!(request::entity_list("k", EntityQuery::all()).command().name(), "SESSION.ENTITY LIST");
/// ```
pub fn entity_list(key: impl AsRef<[u8]>, query: EntityQuery) -> Request<Vec<Entity>> {
    begin_group("SESSION.ENTITY", "LIST", key)
        .options(&query.options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

/// `SESSION.ENTITY FORGET`: removes entities; how many.
///
/// ```
/// # use redis_session_client::{WriteOptions, request};
/// assert_eq!(request::entity_forget("k", &["u7"], WriteOptions::new()).command().name(), "SESSION.ENTITY FORGET");
/// ```
pub fn entity_forget(key: impl AsRef<[u8]>, ids: &[impl AsRef<str>], write: WriteOptions) -> Request<u64> {
    let mut command = begin_group("SESSION.ENTITY", "FORGET", key).arg(ids.len());
    for id in ids {
        command = command.arg(id.as_ref());
    }
    command.write_options(&write).replied(value::count)
}

/// `SESSION.ENTITY RESOLVE`: the entity that a word means: a pronoun, a name, the beginning of one.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::entity_resolve("k", "she").command().name(), "SESSION.ENTITY RESOLVE");
/// ```
pub fn entity_resolve(key: impl AsRef<[u8]>, word: impl AsRef<str>) -> Request<Option<Entity>> {
    begin_group("SESSION.ENTITY", "RESOLVE", key)
        .arg(word.as_ref())
        .reads()
        .replied(|reply, mode| value::optional(reply, mode, value::object))
}

/// `SESSION.ENTITY RESOLVE … ALL`: every candidate, the most recently mentioned first. `or_any`: all entities where a word names none.
///
/// ```
/// # use redis_session_client::request;
/// assert_eq!(request::entity_candidates("k", "she", false).command().name(), "SESSION.ENTITY RESOLVE");
/// ```
pub fn entity_candidates(key: impl AsRef<[u8]>, word: impl AsRef<str>, or_any: bool) -> Request<Vec<Entity>> {
    let mut options = Options::default();
    if or_any {
        options.flag("ANY");
    }
    options.flag("ALL");
    begin_group("SESSION.ENTITY", "RESOLVE", key)
        .arg(word.as_ref())
        .options(&options)
        .reads()
        .replied(|reply, mode| value::list(reply, mode, value::object))
}

has_write_options!(Mention);
