//! Finds the session that the command line names, and explains why there is none.

use std::ffi::OsString;

use clap::Args;
use redis_session_client::request::{self, Request};
use redis_session_client::tolerant::{bytes, pairs};

use crate::connection::Router;
use crate::failure::{Failure, Refusal, Result};
use crate::term::text::key_text;

/// Names a session by its key, or by an alias or id in a directory.
#[derive(Args, Debug, Clone)]
pub struct Which {
    /// Key of the session; with --index its alias or id
    #[arg(value_name = "KEY")]
    name: OsString,
    /// Directory in which the alias or id is looked up, as sessions:{acme}
    #[arg(long, value_name = "INDEX")]
    index: Option<OsString>,
}

impl Which {
    /// Looks up the key.
    pub fn find(&self, router: &mut Router) -> Result<Vec<u8>> {
        let name = self.name.as_encoded_bytes();
        let Some(index) = self.index.as_ref().map(|index| index.as_encoded_bytes()) else {
            return Ok(name.to_vec());
        };
        // Raw, since on the command line a name may be any bytes.
        let resolve = redis::cmd("SESSION.INDEX")
            .arg("RESOLVE")
            .arg(index)
            .arg(name)
            .to_owned();
        let reply = ask(router, &request::raw(resolve, index))?;
        let key = pairs(reply).into_iter().find(|(field, _)| field == b"key");
        match key.and_then(|(_, key)| bytes(key)) {
            Some(key) => Ok(key),
            None if router.type_of(index)? == "none" => Err(Failure::NotFound(format!(
                "there is no directory at key '{}'.\n`redis-session ls -d` shows which there are.",
                key_text(index)
            ))),
            None => Err(Failure::NotFound(format!(
                "no session is called '{}' in {}: it never was, or has expired or been deleted.\n\
                 Aliases compare with case, ids without. `redis-session ls '{}'` shows which there are.",
                key_text(name),
                key_text(index),
                key_text(index)
            ))),
        }
    }
}

/// Sends a request and reads the reply, or says what is wrong with the key.
pub fn ask<T>(router: &mut Router, request: &Request<T>) -> Result<T> {
    match router.ask(request)? {
        Ok(reply) => Ok(reply),
        Err(refusal) => Err(explain(router, request.key(), &refusal)),
    }
}

pub fn not_found(key: &[u8]) -> Failure {
    let name = key_text(key);
    Failure::NotFound(format!(
        "no session at key '{name}': it never was, or has expired or been deleted.\n\
         Is '{name}' an alias or an id? Then say in which directory: --index INDEX. -n says which database, -c that it is a cluster."
    ))
}

/// Turns an error reply to a read of this key into a failure that says what to do.
pub fn explain(router: &mut Router, key: &[u8], refusal: &Refusal) -> Failure {
    if let Some(failure) = refusal.failure() {
        return failure;
    }
    let name = key_text(key);
    let next = match refusal.code.as_str() {
        "WRONGTYPE" => {
            let kind = router.type_of(key).unwrap_or_default();
            let next = match kind.as_str() {
                "rdsessidx" => format!("It is a directory: --index '{name}' ALIAS-OR-ID means a session of it."),
                "rdsession" => "It is a session and no directory: without --index its key is enough.".to_owned(),
                "rdanchors" => format!("It holds anchors: SESSION.ANCHOR GET '{name}' shows them."),
                _ => format!(
                    "If it is a conversation of an older layout:  redis-session migrate --dry-run --match '{name}'"
                ),
            };
            return Failure::NotFound(format!(
                "the key '{name}' is a {kind} and not what was asked for.\n{next}"
            ));
        }
        "NOPERM" => {
            "The user needs the reading commands and the key:  ACL SETUSER … ~session:* +session.get +session.range +session.info \
             +session.read +session.event|range +session.index|resolve +multi +exec"
        },
        "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" => "This is a cluster: -c goes to the node that has the key.",
        _ if refusal.text.contains("unknown") || refusal.text.contains("syntax") => {
            "The module on the server may be older than this program: see MODULE LIST."
        }
        _ => "The server's log may say more.",
    };
    Failure::Server(format!(
        "the server says of '{name}': {}\n{next}",
        crate::term::text::clean_line(&refusal.to_string())
    ))
}
