//! Sends commands to one server. Error replies are values; a `Failure` ends the program.

use redis::{Cmd, Connection, RedisError, ServerError, Value};
use redis_session_client::route;

use crate::failure::{Failure, Refusal, Result};

/// A reply, or the error that the server replied.
pub type Answer<T = Value> = std::result::Result<T, Refusal>;

/// Commands over one connection, with this program's failures.
pub trait Link {
    /// Sends one command.
    fn call(&mut self, command: &Cmd) -> Result<Answer>;

    /// Sends all commands at once; an answer for each.
    fn call_all<'c>(&mut self, commands: impl IntoIterator<Item = &'c Cmd>) -> Result<Vec<Answer>>;

    /// Sends a command without whose reply the program cannot go on.
    fn must(&mut self, command: &Cmd) -> Result<Value> {
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

    /// Checks that the server has the module, and lets this user in.
    fn check_module(&mut self) -> Result<()> {
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

impl Link for Connection {
    fn call(&mut self, command: &Cmd) -> Result<Answer> {
        let mut answers = self.call_all([command])?;
        Ok(answers.pop().unwrap_or(Ok(Value::Nil)))
    }

    fn call_all<'c>(&mut self, commands: impl IntoIterator<Item = &'c Cmd>) -> Result<Vec<Answer>> {
        let answers = route::send(self, commands).map_err(|error| lost(&error))?;
        Ok(answers
            .into_iter()
            .map(|answer| answer.map_err(|error| refusal(&error)))
            .collect())
    }
}

pub(super) fn refusal(error: &ServerError) -> Refusal {
    Refusal {
        code: error.code().to_owned(),
        text: error.details().unwrap_or_default().to_owned(),
    }
}

pub(super) fn lost(error: &RedisError) -> Failure {
    Failure::Lost(format!(
        "the connection was lost: {error}\nWhat was done stays done: run the same command again to go on."
    ))
}
