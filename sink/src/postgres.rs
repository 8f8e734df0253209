//! The table: made if it is missing, asked what it has, given one row a session.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};

use crate::SinkError;
use crate::snapshot::{Ended, Snapshot};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a statement may take: long, because a session may be many megabytes.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(120);
/// What PostgreSQL's `timestamptz` holds for sure, in milliseconds on both sides of 1970: some 6,000 years back, as many on.
const MAX_TIMESTAMP_MS: i64 = 190_000_000_000_000;

type Driver = JoinHandle<Result<(), tokio_postgres::Error>>;
type Connect = dyn Fn() -> BoxFuture<'static, Result<(Client, Driver), tokio_postgres::Error>> + Send + Sync;

/// Which database a sink writes to, and which table.
///
/// ```
/// use redis_session_sink::PostgresTarget;
///
/// let target = PostgresTarget::new("host=/run/postgresql dbname=app user=app")?.table("archive.session_snapshots")?;
/// assert_eq!(format!("{target:?}"), r#"PostgresTarget { table: "\"archive\".\"session_snapshots\"", .. }"#);
/// # Ok::<(), redis_session_sink::SinkError>(())
/// ```
#[derive(Clone)]
pub struct PostgresTarget {
    connect: Arc<Connect>,
    /// Each part in double quotes.
    table: String,
}

/// Without the address, which may hold a password.
impl fmt::Debug for PostgresTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTarget")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl PostgresTarget {
    /// A database by its address, as `tokio_postgres::Config` reads it, without TLS.
    ///
    /// # Errors
    /// An address that cannot be read.
    ///
    /// ```
    /// # use redis_session_sink::PostgresTarget;
    /// assert!(PostgresTarget::new("postgresql://app@127.0.0.1/app").is_ok());
    /// assert!(PostgresTarget::new("port=many").is_err());
    /// ```
    pub fn new(address: &str) -> Result<PostgresTarget, SinkError> {
        Ok(PostgresTarget::with_tls(address.parse()?, NoTls))
    }

    /// A database with TLS, by one of the crates that bring it to tokio-postgres.
    ///
    /// ```
    /// # use redis_session_sink::PostgresTarget;
    /// let config: tokio_postgres::Config = "host=db.example.com user=app sslmode=require".parse()?;
    /// # let tls = tokio_postgres::NoTls;
    /// let target = PostgresTarget::with_tls(config, tls);
    /// assert!(format!("{target:?}").contains("session_snapshots"));
    /// # Ok::<(), tokio_postgres::Error>(())
    /// ```
    pub fn with_tls<T>(mut config: Config, tls: T) -> PostgresTarget
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
    {
        if config.get_application_name().is_none() {
            config.application_name("redis-session");
        }
        let connect = move || -> BoxFuture<'static, _> {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await?;
                Ok((client, tokio::spawn(connection)))
            })
        };
        PostgresTarget {
            connect: Arc::new(connect),
            table: quoted("session_snapshots").unwrap_or_default(),
        }
    }

    /// Another table than `session_snapshots`; a schema may stand before it, with a dot.
    ///
    /// # Errors
    /// [`SinkError::BadOption`] for a name that no table can have.
    ///
    /// ```
    /// # use redis_session_sink::PostgresTarget;
    /// let target = PostgresTarget::new("host=127.0.0.1")?;
    /// assert!(target.clone().table("archive.failed").is_ok());
    /// assert!(target.table("").is_err());
    /// # Ok::<(), redis_session_sink::SinkError>(())
    /// ```
    pub fn table(mut self, name: &str) -> Result<PostgresTarget, SinkError> {
        self.table = quoted(name).ok_or_else(|| SinkError::BadOption(format!("{name:?} is no name of a table")))?;
        Ok(self)
    }

    /// Connects anew and makes the table if it is missing.
    pub(crate) async fn open(&self) -> Result<Table, SinkError> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, (self.connect)()).await;
        let (client, driver) = connected.map_err(|_| SinkError::TimedOut("PostgreSQL"))??;
        let mut table = Table {
            client,
            driver: Some(driver),
            name: self.table.clone(),
        };
        table.create().await?;
        Ok(table)
    }
}

/// `schema.table` as SQL has it.
fn quoted(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_name = |part: &&str| !part.is_empty() && part.len() < 64 && !part.contains('\0');
    if parts.len() > 2 || !parts.iter().all(is_name) {
        return None;
    }
    let parts = parts.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
    Some(parts.collect::<Vec<_>>().join("."))
}

/// How a session was written.
pub(crate) enum Inserted {
    Now,
    /// By another sink, or before a connection broke.
    Already,
    /// The bytes only: PostgreSQL says why it would not have them as JSON.
    AsRaw(String),
}

/// A connection to the table.
pub(crate) struct Table {
    client: Client,
    /// Ends with the connection, and knows why.
    driver: Option<Driver>,
    name: String,
}

impl Table {
    /// Asks first: who may write to a table need not be allowed to make one.
    async fn create(&mut self) -> Result<(), SinkError> {
        for attempt in 1.. {
            let name = self.name.clone();
            let is_there = self
                .answered(async |client| {
                    client
                        .query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&name])
                        .await
                })
                .await?;
            if is_there.try_get::<_, bool>(0)? {
                return Ok(());
            }
            let statement = format!(
                "CREATE TABLE IF NOT EXISTS {name} (
                    session_id    uuid        NOT NULL,
                    checkpoint_id bigint      NOT NULL,
                    closed_at     timestamptz NOT NULL,
                    outcome       text        NOT NULL,
                    session_key   text        NOT NULL,
                    document      json,
                    events        json,
                    checkpoint    json,
                    reference     json,
                    raw           bytea,
                    written_at    timestamptz NOT NULL DEFAULT now(),
                    PRIMARY KEY (session_id, checkpoint_id, closed_at)
                )"
            );
            let made = self
                .answered(async |client| client.batch_execute(&statement).await)
                .await;
            match made {
                Ok(()) => return Ok(()),
                // Two that make it at once: IF NOT EXISTS does not keep one of them from failing. Look again.
                Err(SinkError::Postgres(error)) if attempt < 5 && is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Which of these are in the table.
    pub(crate) async fn known(&mut self, ended: &[Ended]) -> Result<HashSet<Identity>, SinkError> {
        let ids: Vec<String> = ended.iter().map(|ended| ended.session_id.to_string()).collect();
        let statement = format!(
            "SELECT session_id::text, checkpoint_id, (extract(epoch FROM closed_at) * 1000)::bigint
             FROM {} WHERE session_id = ANY ($1::text[]::uuid[])",
            self.name
        );
        let rows = self
            .answered(async |client| client.query(&statement, &[&ids]).await)
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect()
    }

    /// Writes a session, unless it is there.
    pub(crate) async fn insert(
        &mut self,
        key: &[u8],
        ended: &Ended,
        snapshot: &Snapshot,
    ) -> Result<Inserted, SinkError> {
        let parts = [
            Some(snapshot.document.as_str()),
            Some(snapshot.events.as_str()),
            Some(snapshot.checkpoint.as_str()),
            snapshot.reference.as_deref(),
        ];
        let texts = [plain(ended.outcome.as_bytes()), plain(key)];
        let refused = match self.insert_row(ended, &texts, parts, None).await {
            Ok(count) => return Ok(if count > 0 { Inserted::Now } else { Inserted::Already }),
            Err(SinkError::Postgres(error)) if is_about_data(&error) => SinkError::Postgres(error).to_string(),
            Err(error) => return Err(error),
        };
        // A database that is not in UTF-8 does not have every character, but takes every escape.
        let escaped = parts.map(|part| part.map(ascii));
        let escaped = escaped.each_ref().map(Option::as_deref);
        let texts = texts.map(|text| ascii(&text));
        match self.insert_row(ended, &texts, escaped, None).await {
            Ok(count) => return Ok(if count > 0 { Inserted::Now } else { Inserted::Already }),
            Err(SinkError::Postgres(error)) if is_about_data(&error) => {}
            Err(error) => return Err(error),
        }
        let raw = snapshot.as_one().into_bytes();
        match self.insert_row(ended, &texts, [None; 4], Some(raw)).await? {
            0 => Ok(Inserted::Already),
            _ => Ok(Inserted::AsRaw(refused)),
        }
    }

    async fn insert_row(
        &mut self,
        ended: &Ended,
        [outcome, key]: &[String; 2],
        [document, events, checkpoint, reference]: [Option<&str>; 4],
        raw: Option<Vec<u8>>,
    ) -> Result<u64, SinkError> {
        let (id, checkpoint_id, closed_at_ms) = identity(ended);
        let statement = format!(
            "INSERT INTO {} (session_id, checkpoint_id, closed_at, outcome, session_key, document, events, checkpoint, reference, raw)
             VALUES ($1::text::uuid, $2, 'epoch'::timestamptz + $3::bigint * interval '1 millisecond', $4, $5,
                     $6::text::json, $7::text::json, $8::text::json, $9::text::json, $10)
             ON CONFLICT (session_id, checkpoint_id, closed_at) DO NOTHING",
            self.name
        );
        self.answered(async |client| {
            client
                .execute(
                    &statement,
                    &[
                        &id,
                        &checkpoint_id,
                        &closed_at_ms,
                        outcome,
                        key,
                        &document,
                        &events,
                        &checkpoint,
                        &reference,
                        &raw,
                    ],
                )
                .await
        })
        .await
    }

    /// Waits for an answer for so long, and for the reason if the connection broke.
    async fn answered<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, SinkError> {
        let error = match within(ask(&self.client)).await? {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if error.is_closed()
            && let Some(driver) = self.driver.take()
            && let Ok(Ok(Err(reason))) = within(driver).await
        {
            return Err(reason.into());
        }
        Err(error.into())
    }
}

async fn within<T>(answer: impl Future<Output = T>) -> Result<T, SinkError> {
    let answer = tokio::time::timeout(STATEMENT_TIMEOUT, answer).await;
    answer.map_err(|_| SinkError::TimedOut("PostgreSQL"))
}

/// The key of a row: session, checkpoint, time of closing in Unix milliseconds.
pub(crate) type Identity = (String, i64, i64);

pub(crate) fn identity(ended: &Ended) -> Identity {
    (
        ended.session_id.to_string(),
        i64::try_from(ended.checkpoint_id).unwrap_or(i64::MAX),
        ended.closed_at.ms().clamp(-MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    )
}

fn is_taken(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::UNIQUE_VIOLATION | &SqlState::DUPLICATE_TABLE | &SqlState::DUPLICATE_OBJECT)
    )
}

/// Whether PostgreSQL took offence at what was to be written, and not at the circumstances: class 22 is data, 23 a constraint and P0 a
/// trigger of somebody's own, 54 a limit.
pub(crate) fn is_about_data(error: &tokio_postgres::Error) -> bool {
    let about_data = |code: &SqlState| {
        ["22", "23", "54", "P0"]
            .iter()
            .any(|class| code.code().starts_with(class))
    };
    error.code().is_some_and(about_data)
}

/// Text that any PostgreSQL takes: what is no ASCII, or NUL, is escaped as in JSON; bytes that are no UTF-8 as `\xNN`.
fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        match chunk.valid().contains('\0') {
            true => text += &chunk.valid().replace('\0', "\\u0000"),
            false => text += chunk.valid(),
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The same JSON in ASCII: a character beyond it only ever stands within a string, where its escape means the same.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            text.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_quoted() {
        assert_eq!(quoted("a.B\"c").as_deref(), Some("\"a\".\"B\"\"c\""));
        for bad in ["", ".", "a.", "a.b.c", "a\0", &"x".repeat(64)] {
            assert_eq!(quoted(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn json_in_ascii_means_the_same() {
        let json = r#"{"ä":"😀 \ud800 \u0000"}"#;
        let escaped = ascii(json);
        assert_eq!(escaped, r#"{"\u00e4":"\ud83d\ude00 \ud800 \u0000"}"#);
    }

    #[test]
    fn any_key_is_text() {
        assert_eq!(plain("k\0ä".as_bytes()), "k\\u0000ä");
        assert_eq!(plain(b"k\xff"), "k\\xff");
    }
}
