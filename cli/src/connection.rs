//! Connections, with the flags and the environment of redis-cli.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{
    Client, ClientTlsConfig, Cmd, Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, IntoConnectionInfo,
    RedisError, TlsCertificates, Value,
};

use crate::failure::{Failure, Refusal, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Connection")]
pub struct Flags {
    /// Server URI: redis://user:password@host:port/db, rediss:// for TLS
    #[arg(short = 'u', value_name = "URI", global = true)]
    uri: Option<String>,
    /// Server host [127.0.0.1]
    #[arg(short = 'h', value_name = "HOST", global = true)]
    host: Option<String>,
    /// Server port [6379]
    #[arg(short = 'p', value_name = "PORT", global = true)]
    port: Option<u16>,
    /// Unix socket, in place of host and port
    #[arg(short = 's', value_name = "SOCKET", global = true)]
    socket: Option<PathBuf>,
    /// Password; others on this machine see it there, not in the environment
    #[arg(
        short = 'a',
        long = "pass",
        value_name = "PASSWORD",
        env = "REDISCLI_AUTH",
        hide_env_values = true,
        global = true
    )]
    password: Option<String>,
    /// User name, with a password
    #[arg(long, value_name = "USER", global = true)]
    user: Option<String>,
    /// Database number
    #[arg(short = 'n', value_name = "DB", global = true)]
    database: Option<i64>,
    /// Walk all primaries of a cluster
    #[arg(short = 'c', global = true)]
    pub cluster: bool,
    /// TLS
    #[arg(long, global = true)]
    tls: bool,
    /// TLS without checking who the server is
    #[arg(long, global = true)]
    insecure: bool,
    /// Certificates to trust (PEM) in place of the system's
    #[arg(long, value_name = "FILE", global = true)]
    cacert: Option<PathBuf>,
    /// Client certificate (PEM), with --key
    #[arg(long, value_name = "FILE", requires = "key", global = true)]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", global = true)]
    key: Option<PathBuf>,
}

/// Where to connect, and as whom.
#[derive(Clone)]
pub struct Target {
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
}

impl Flags {
    pub fn target(&self) -> Result<Target> {
        let usage = |error: RedisError| Failure::Usage(format!("-u is not a URI of a server ({error})"));
        let mut info = match &self.uri {
            Some(uri) => uri.as_str().into_connection_info().map_err(usage)?,
            None => (self.host.as_deref().unwrap_or("127.0.0.1"), self.port.unwrap_or(6379))
                .into_connection_info()
                .map_err(usage)?,
        };
        if let Some(socket) = &self.socket {
            info = info.set_addr(ConnectionAddr::Unix(socket.clone()));
        }
        info = match info.addr().clone() {
            ConnectionAddr::Tcp(host, port) if self.tls => info.set_addr(ConnectionAddr::TcpTls {
                host,
                port,
                insecure: self.insecure,
                tls_params: None,
            }),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure,
                tls_params,
            } => info.set_addr(ConnectionAddr::TcpTls {
                host,
                port,
                insecure: insecure || self.insecure,
                tls_params,
            }),
            _ => info,
        };
        let mut settings = info.redis_settings().clone();
        if let Some(password) = &self.password {
            // What the URI says counts more than the environment, as in redis-cli.
            if settings.password().is_none() || std::env::var("REDISCLI_AUTH").as_ref() != Ok(password) {
                settings = settings.set_password(password);
            }
        }
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database);
        }
        if self.cluster && settings.db() != 0 {
            return Err(Failure::Usage("a cluster has one database: leave out -n".into()));
        }
        let certificates = (self.cacert.is_some() || self.cert.is_some())
            .then(|| self.certificates())
            .transpose()?;
        Ok(Target {
            info: info.set_redis_settings(settings),
            certificates,
        })
    }

    fn certificates(&self) -> Result<TlsCertificates> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
        };
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            _ => None,
        };
        Ok(TlsCertificates {
            client_tls,
            root_cert: self.cacert.as_ref().map(read).transpose()?,
        })
    }
}

impl Target {
    /// One connection to one server that has the module.
    ///
    /// Replies may take their time, as in redis-cli: a socket with a timeout would break off at Ctrl-C instead of going on.
    pub fn connect(&self) -> Result<Link> {
        let client = match &self.certificates {
            Some(certificates) => Client::build_with_tls(self.info.clone(), certificates.clone()),
            None => Client::open(self.info.clone()),
        };
        let connection = client
            .and_then(|client| client.get_connection_with_timeout(CONNECT_TIMEOUT))
            .map_err(|error| self.unreachable(&error))?;
        let mut link = Link::Server(Box::new(connection));
        link.check_module()?;
        Ok(link)
    }

    /// A connection that goes wherever a key is.
    pub fn connect_cluster(&self) -> Result<Link> {
        let mut builder = ClusterClient::builder([self.info.clone()]).connection_timeout(CONNECT_TIMEOUT);
        if let Some(certificates) = &self.certificates {
            builder = builder.certs(certificates.clone());
        }
        let connection = builder
            .build()
            .and_then(|client| client.get_connection())
            .map_err(|error| self.unreachable(&error))?;
        Ok(Link::Cluster(Box::new(connection)))
    }

    /// The same with another address.
    pub fn at(&self, host: &str, port: u16) -> Target {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls {
                insecure, tls_params, ..
            } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Target {
            info: self.info.clone().set_addr(addr),
            certificates: self.certificates.clone(),
        }
    }

    /// The host, where there is one: what a node means that does not know its own.
    pub fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "127.0.0.1",
        }
    }

    fn unreachable(&self, error: &RedisError) -> Failure {
        let code = error.code().unwrap_or_default();
        let next = if code == "WRONGPASS" || code == "NOAUTH" || error.kind() == redis::ErrorKind::AuthenticationFailed
        {
            "Give the password with -a, or in REDISCLI_AUTH, and the user with --user."
        } else if error.to_string().contains("certificate") {
            "--cacert names the certificates to trust; --insecure trusts whoever answers."
        } else if error.is_io_error() || error.is_connection_refusal() || error.is_timeout() {
            "Is the server running there? -h and -p, -s or -u say where; --tls if it speaks TLS."
        } else {
            "-h and -p, -s or -u say where, -n which database."
        };
        let text = format!("cannot connect to {}: {error}\n{next}", self.info.addr());
        match error.is_io_error() || error.is_connection_refusal() || error.is_timeout() {
            true => Failure::Lost(text),
            false => Failure::Server(text),
        }
    }
}

/// A connection. Error replies are values; what is an error here ends the program.
pub enum Link {
    Server(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

/// A reply, or the error that the server replied.
pub type Answer = std::result::Result<Value, Refusal>;

impl Link {
    pub fn call(&mut self, command: &Cmd) -> Result<Answer> {
        let reply = match self {
            Link::Server(connection) => connection.req_command(command),
            Link::Cluster(connection) => connection.req_command(command),
        };
        settle(reply)
    }

    /// All commands at once, to one server. Of a cluster, one after the other.
    pub fn call_all(&mut self, commands: &[Cmd]) -> Result<Vec<Answer>> {
        match self {
            Link::Server(_) if commands.is_empty() => Ok(Vec::new()),
            Link::Server(connection) => {
                let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
                let replies = connection
                    .req_packed_commands(&packed, 0, commands.len())
                    .map_err(|error| lost(&error))?;
                replies.into_iter().map(|reply| settle(Ok(reply))).collect()
            }
            Link::Cluster(_) => commands.iter().map(|command| self.call(command)).collect(),
        }
    }

    /// A reply that is only not there if the program cannot go on.
    pub fn must(&mut self, command: &Cmd) -> Result<Value> {
        self.call(command)?.map_err(|refusal| {
            refusal.failure().unwrap_or_else(|| {
                let name = command.args_iter().next().map(|arg| match arg {
                    redis::Arg::Simple(name) => String::from_utf8_lossy(name).into_owned(),
                    _ => String::new(),
                });
                Failure::Server(format!("{} failed: {refusal}", name.unwrap_or_default()))
            })
        })
    }

    /// Whether the server has the module. Without arguments the command does nothing anywhere.
    pub fn check_module(&mut self) -> Result<()> {
        let Err(refusal) = self.call(&redis::cmd("SESSION.MIGRATE"))? else {
            return Ok(());
        };
        if let Some(failure) = refusal.failure() {
            return Err(failure);
        }
        if refusal.is("NOPERM") {
            return Err(Failure::Server(format!(
                "the server says: {refusal}\nThe user needs the SESSION.* commands: ACL SETUSER … +session.migrate +session.create …"
            )));
        }
        if refusal.text.contains("unknown command") {
            return Err(Failure::Server(
                "this server does not have the module redis-session.\n\
                 Load it when the server starts:  redis-server --loadmodule /path/to/libredis_session.so\n\
                 or, where that is allowed:       MODULE LOAD /path/to/libredis_session.so"
                    .into(),
            ));
        }
        Ok(())
    }
}

fn settle(reply: redis::RedisResult<Value>) -> Result<Answer> {
    match reply {
        Ok(Value::ServerError(error)) => Ok(Err(Refusal {
            code: error.code().to_owned(),
            text: error.details().unwrap_or_default().to_owned(),
        })),
        Ok(value) => Ok(Ok(value)),
        Err(error) => match error.code() {
            Some(code) => Ok(Err(Refusal {
                code: code.to_owned(),
                text: error.detail().unwrap_or_default().to_owned(),
            })),
            None => Err(lost(&error)),
        },
    }
}

fn lost(error: &RedisError) -> Failure {
    Failure::Lost(format!(
        "the connection was lost: {error}\nWhat was done stays done: run the same command again to go on."
    ))
}

/// The primaries of a cluster, and the slots of each as the server tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primaries(pub Vec<(String, u16)>, Vec<SlotRange>);

/// First and last slot, and where they are.
type SlotRange = (i64, i64, String, u16);

impl Primaries {
    pub fn of(link: &mut Link, own_host: &str) -> Result<Primaries> {
        let reply = match link.call(redis::cmd("CLUSTER").arg("SLOTS"))? {
            Ok(reply) => reply,
            Err(refusal) => {
                return Err(Failure::Server(format!(
                    "this server is not part of a cluster ({refusal})\nLeave out -c to walk this server alone."
                )))
            }
        };
        let ranges: Vec<SlotRange> = array(reply)
            .into_iter()
            .filter_map(|range| {
                let mut range = array(range).into_iter();
                let (first, last) = (int(&range.next()?)?, int(&range.next()?)?);
                let mut primary = array(range.next()?).into_iter();
                let host = bytes(primary.next()?).unwrap_or_default();
                let host = match String::from_utf8(host) {
                    Ok(host) if !host.is_empty() && host != "?" => host,
                    _ => own_host.to_owned(),
                };
                Some((first, last, host, int(&primary.next()?)? as u16))
            })
            .collect();
        let mut primaries: Vec<(String, u16)> = ranges.iter().map(|range| (range.2.clone(), range.3)).collect();
        primaries.sort();
        primaries.dedup();
        if primaries.is_empty() {
            return Err(Failure::Server(
                "no node of this cluster has a slot: see CLUSTER INFO.".into(),
            ));
        }
        Ok(Primaries(primaries, ranges))
    }
}

/// Connections to wherever keys are: one server, or the primaries of a cluster.
pub struct Router {
    target: Target,
    primaries: Option<Primaries>,
    links: HashMap<(String, u16), Link>,
}

impl Router {
    pub fn connect(flags: &Flags) -> Result<Router> {
        let target = flags.target()?;
        let mut link = target.connect()?;
        let primaries = flags
            .cluster
            .then(|| Primaries::of(&mut link, target.host()))
            .transpose()?;
        let mut router = Router {
            target,
            primaries,
            links: HashMap::new(),
        };
        if router.primaries.is_none() {
            router.links.insert(router.address_of(b""), link);
        }
        Ok(router)
    }

    /// One for each primary.
    pub fn addresses(&self) -> Vec<(String, u16)> {
        match &self.primaries {
            Some(primaries) => primaries.0.clone(),
            None => vec![self.address_of(b"")],
        }
    }

    fn address_of(&self, key: &[u8]) -> (String, u16) {
        let slot = i64::from(slot(key));
        let owner = self.primaries.as_ref().and_then(|primaries| {
            primaries
                .1
                .iter()
                .find(|(first, last, _, _)| (*first..=*last).contains(&slot))
        });
        owner.map_or_else(Default::default, |(_, _, host, port)| (host.clone(), *port))
    }

    pub fn at(&mut self, address: &(String, u16)) -> Result<&mut Link> {
        match self.links.entry(address.clone()) {
            Entry::Occupied(link) => Ok(link.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(self.target.at(&address.0, address.1).connect()?)),
        }
    }

    pub fn link(&mut self, key: &[u8]) -> Result<&mut Link> {
        let address = self.address_of(key);
        self.at(&address)
    }

    pub fn call(&mut self, key: &[u8], command: &Cmd) -> Result<Answer> {
        let mut answer = self.link(key)?.call(command)?;
        if answer.as_ref().is_err_and(Refusal::is_redirection) {
            self.look_again()?;
            answer = self.link(key)?.call(command)?;
        }
        match answer.as_ref().err().and_then(Refusal::failure) {
            Some(failure) => Err(failure),
            None => Ok(answer),
        }
    }

    /// All commands in one `MULTI`, on this key. An error reply of any of them is the answer; the others may have been done.
    pub fn transaction(&mut self, key: &[u8], commands: &[Cmd]) -> Result<Answer> {
        let mut all = vec![redis::cmd("MULTI")];
        all.extend_from_slice(commands);
        all.push(redis::cmd("EXEC"));
        let mut answers = self.link(key)?.call_all(&all)?;
        if answers
            .iter()
            .flat_map(|answer| answer.as_ref().err())
            .any(Refusal::is_redirection)
        {
            self.look_again()?;
            answers = self.link(key)?.call_all(&all)?;
        }
        let mut replies = Vec::new();
        for answer in answers.into_iter().skip(1) {
            // What is refused when it is queued says more than the EXEC that fails for it.
            match answer {
                Ok(reply) => replies = array(reply),
                Err(refusal) => return refusal.failure().map_or(Ok(Err(refusal)), Err),
            }
        }
        for reply in replies.iter().cloned() {
            if let Err(refusal) = settle(Ok(reply))? {
                return refusal.failure().map_or(Ok(Err(refusal)), Err);
            }
        }
        Ok(Ok(Value::Array(replies)))
    }

    fn look_again(&mut self) -> Result<()> {
        if self.primaries.is_some() {
            let address = self.addresses().remove(0);
            let host = self.target.host().to_owned();
            self.primaries = Some(Primaries::of(self.at(&address)?, &host)?);
        }
        Ok(())
    }
}

pub fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => Vec::new(),
    }
}

pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

pub fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// A map, flat as in RESP2 or not, as pairs.
pub fn pairs(value: Value) -> Vec<(Vec<u8>, Value)> {
    match value {
        Value::Map(pairs) => pairs
            .into_iter()
            .filter_map(|(name, value)| Some((bytes(name)?, value)))
            .collect(),
        other => {
            let mut items = array(other).into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                pairs.extend(bytes(name).map(|name| (name, value)));
            }
            pairs
        }
    }
}

/// The slot of a key: of what stands in its first braces, if anything does.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let length = inside
            .iter()
            .position(|byte| *byte == b'}')
            .filter(|length| *length > 0)?;
        Some(&inside[..length])
    });
    // CRC-16/XMODEM, bit by bit: names are short.
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    });
    crc % 16384
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"a{foo}b{c}"), slot(b"foo"));
        assert_ne!(slot(b"{}foo"), slot(b"foo"));
        assert_eq!(slot(b""), 0);
    }
}
