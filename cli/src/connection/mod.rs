//! Connections, with the flags and the environment of redis-cli.
//!
//! ```text
//!  mod.rs       the flags, and the target that they describe
//!  link.rs      commands to one server; error replies are values
//!  router.rs    one server, or the primaries of a cluster: each key goes where it is
//!  scan.rs      SCAN, page by page
//!  password.rs  --askpass
//! ```

mod link;
mod password;
mod router;
mod scan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use redis::{
    Client, ClientTlsConfig, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisError, TlsCertificates,
};

use crate::failure::{Failure, Result};

pub use link::{Answer, Link};
pub use router::{read, Place, Router};
pub use scan::Scan;

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
    /// Ask for the password on the terminal; -a and REDISCLI_AUTH are ignored
    #[arg(long, global = true)]
    askpass: bool,
    /// Accepted, as redis-cli has it; there is no such warning here
    #[arg(long, global = true)]
    no_auth_warning: bool,
    /// Database number
    #[arg(short = 'n', value_name = "DB", global = true)]
    database: Option<i64>,
    /// All primaries of a cluster; each key goes where it is
    #[arg(short = 'c', global = true)]
    pub cluster: bool,
    /// TLS
    #[arg(long, global = true)]
    tls: bool,
    /// Accepted, as redis-cli has it; it has to be the name of the host, which is what is sent
    #[arg(long, value_name = "HOST", global = true)]
    sni: Option<String>,
    /// TLS without checking who the server is
    #[arg(long, global = true)]
    insecure: bool,
    /// Certificates to trust (PEM) in place of the system's
    #[arg(long, value_name = "FILE", global = true)]
    cacert: Option<PathBuf>,
    /// Folder of certificates to trust (PEM) in place of the system's
    #[arg(long, value_name = "DIR", global = true)]
    cacertdir: Option<PathBuf>,
    /// Client certificate (PEM), with --key
    #[arg(long, value_name = "FILE", requires = "key", global = true)]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", global = true)]
    key: Option<PathBuf>,
    /// Speak RESP2 [the default]
    #[arg(short = '2', conflicts_with = "resp3", global = true)]
    resp2: bool,
    /// Speak RESP3
    #[arg(short = '3', global = true)]
    resp3: bool,
}

/// An address with credentials and certificates.
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
        if let (Some(sni), ConnectionAddr::TcpTls { host, .. }) = (&self.sni, info.addr()) {
            if sni != host {
                return Err(Failure::Usage(format!(
                    "the name that TLS asks for is that of the host, {host}, not {sni}: give -h {sni}, resolved by /etc/hosts if need be"
                )));
            }
        }
        let mut settings = info.redis_settings().clone();
        if self.askpass {
            settings = settings.set_password(password::ask()?);
        } else if let Some(password) = &self.password {
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
        if self.resp3 {
            settings = settings.set_protocol(ProtocolVersion::RESP3);
        } else if self.resp2 {
            settings = settings.set_protocol(ProtocolVersion::RESP2);
        }
        if self.cluster && settings.db() != 0 {
            return Err(Failure::Usage("a cluster has one database: leave out -n".into()));
        }
        let certificates = (self.cacert.is_some() || self.cacertdir.is_some() || self.cert.is_some())
            .then(|| self.certificates())
            .transpose()?;
        Ok(Target {
            info: info.set_redis_settings(settings),
            certificates,
        })
    }

    fn certificates(&self) -> Result<TlsCertificates> {
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: contents(cert)?,
                client_key: contents(key)?,
            }),
            _ => None,
        };
        let mut trusted = self.cacert.as_deref().map(contents).transpose()?;
        if let Some(folder) = &self.cacertdir {
            trusted.get_or_insert_default().extend(read_folder(folder)?);
        }
        Ok(TlsCertificates {
            client_tls,
            root_cert: trusted,
        })
    }
}

fn contents(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
}

/// All certificates of a folder, one after the other.
fn read_folder(folder: &Path) -> Result<Vec<u8>> {
    let unreadable = |error| Failure::Usage(format!("cannot read {}: {error}", folder.display()));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let text = if path.is_file() { contents(&path)? } else { continue };
        // Such a folder may also hold lists of what was revoked, and notes.
        if text.windows(27).any(|part| part == b"-----BEGIN CERTIFICATE-----") {
            all.extend(text);
            all.push(b'\n');
        }
    }
    if all.is_empty() {
        return Err(Failure::Usage(format!(
            "{} has no certificates (PEM)",
            folder.display()
        )));
    }
    Ok(all)
}

impl Target {
    /// Connects to the server, and checks that it has the module.
    ///
    /// Replies may take their time, as in redis-cli: a socket with a timeout would break off at Ctrl-C instead of going on.
    pub fn open(&self) -> Result<Connection> {
        let client = match &self.certificates {
            Some(certificates) => Client::build_with_tls(self.info.clone(), certificates.clone()),
            None => Client::open(self.info.clone()),
        };
        let mut connection = client
            .and_then(|client| client.get_connection_with_timeout(CONNECT_TIMEOUT))
            .map_err(|error| self.unreachable(&error))?;
        connection.check_module()?;
        Ok(connection)
    }

    /// The same credentials and certificates at another address.
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

    /// The host: that of nodes which do not know their own.
    pub fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "127.0.0.1",
        }
    }

    /// The address as people read it, without a password.
    pub fn name(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Unix(path) => path.display().to_string(),
            addr => addr.to_string(),
        }
    }

    fn unreachable(&self, error: &RedisError) -> Failure {
        let code = error.code().unwrap_or_default();
        let next = if code == "WRONGPASS" || code == "NOAUTH" || error.kind() == redis::ErrorKind::AuthenticationFailed
        {
            "Give the password with -a, or in REDISCLI_AUTH, and the user with --user."
        } else if error.to_string().contains("CertificateRequired") {
            "The server wants a certificate of its clients: --cert and --key."
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
