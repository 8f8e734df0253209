//! One connection to one server, or to wherever keys are.

use redis::cluster::ClusterConnection;
use redis::{Cmd, Connection, ConnectionLike, RedisError, Value};

use crate::failure::{Failure, Refusal, Result};

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
        self.call_each(&commands.iter().collect::<Vec<_>>())
    }

    pub fn call_each(&mut self, commands: &[&Cmd]) -> Result<Vec<Answer>> {
        match self {
            Link::Server(_) if commands.is_empty() => Ok(Vec::new()),
            Link::Server(connection) => {
                let mut packed = Vec::new();
                commands
                    .iter()
                    .for_each(|command| command.write_packed_command(&mut packed));
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

    /// Whether the server has the module, and lets us in.
    pub fn check_module(&mut self) -> Result<()> {
        let Err(refusal) = self.call(redis::cmd("SESSION.INDEX").arg("HELP"))? else {
            return Ok(());
        };
        if refusal.text.contains("unknown command") {
            return Err(Failure::Server(
                "this server does not have the module redis-session.\n\
                 Load it when the server starts:  redis-server --loadmodule /path/to/libredis_session.so\n\
                 or, where that is allowed:       MODULE LOAD /path/to/libredis_session.so"
                    .into(),
            ));
        }
        // Who may not ask for help may still do what is to be done.
        match refusal.failure() {
            Some(failure) if !refusal.is("NOPERM") => Err(failure),
            _ => Ok(()),
        }
    }
}

pub(super) fn settle(reply: redis::RedisResult<Value>) -> Result<Answer> {
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
