//! Errors that end the program. Every message says what to do next.

use std::fmt;

#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The server cannot be used, or refused something that everything depends on.
    Server(String),
    /// The connection broke, or the server is not ready: trying again may help.
    Lost(String),
    /// The session or key does not exist, or is of another type.
    NotFound(String),
    /// A file or standard output could not be written.
    Output(String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::NotFound(_) | Failure::Output(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Server(_) | Failure::Lost(_) => 3,
        }
    }
}

pub type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text)
            | Failure::Server(text)
            | Failure::Lost(text)
            | Failure::NotFound(text)
            | Failure::Output(text) => f.write_str(text),
        }
    }
}

/// An error reply: the error word and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

impl Refusal {
    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether the key is on another node, or moving to one.
    pub fn is_redirection(&self) -> bool {
        ["MOVED", "ASK", "TRYAGAIN"].contains(&self.code.as_str())
    }

    /// The failure that it is, if every further command would get the same reply.
    pub fn failure(&self) -> Option<Failure> {
        let next = match self.code.as_str() {
            // Not for one key: for the command.
            "NOPERM" if self.text.contains(" to run ") => {
                "The user may not do that: ACL SETUSER … +… , or another one with --user and -a."
            }
            "READONLY" => "This is a replica: connect to its primary.",
            "OOM" => "The server is at its maxmemory: raise it (CONFIG SET maxmemory), then run this again.",
            "MISCONF" | "NOREPLICAS" => "The server takes no writes: see its log, then run this again.",
            "LOADING" => "The server is still loading its data: run this again in a while.",
            "CLUSTERDOWN" | "MASTERDOWN" => "See CLUSTER INFO, then run this again.",
            "NOAUTH" | "WRONGPASS" => "Give the password with -a, or in REDISCLI_AUTH, and the user with --user.",
            _ => return None,
        };
        let text = format!("the server says: {self}\n{next}");
        match self.code.as_str() {
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" => Some(Failure::Lost(text)),
            _ => Some(Failure::Server(text)),
        }
    }
}
