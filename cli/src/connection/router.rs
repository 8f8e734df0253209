//! The client's router, with this program's failures: one server, or all primaries of a cluster.

use redis::{Cmd, Connection, Value};
use redis_session_client::request::{self, Command, Request};
use redis_session_client::route::{self, Node, RouteError};
use redis_session_client::{tolerant, SessionError};

use super::link::{lost, refusal, Answer};
use super::{Flags, Target};
use crate::failure::{Failure, Result};

/// Sends commands to the nodes that have their keys: one server, or the primaries of a cluster.
pub struct Router {
    routes: route::Router<Connection, Failure>,
    target: Target,
}

/// A primary of a cluster; `None`: the one server.
pub type Place = Option<Node>;

impl From<RouteError> for Failure {
    fn from(error: RouteError) -> Failure {
        match error {
            RouteError::Lost(error) => lost(&error),
            RouteError::NoCluster(reply) => Failure::Server(format!(
                "this server is not part of a cluster ({})\nLeave out -c to walk this server alone.",
                refusal(&reply)
            )),
            RouteError::NoSlots => Failure::Server("no node of this cluster has a slot: see CLUSTER INFO.".into()),
            RouteError::Elsewhere(reply) => Failure::Server(format!(
                "this is a node of a cluster, and a key is on another one ({})\nGive -c.",
                refusal(&reply)
            )),
            other => Failure::Server(other.to_string()),
        }
    }
}

impl Router {
    pub fn connect(flags: &Flags) -> Result<Router> {
        Router::to(flags.target()?, flags.cluster)
    }

    pub fn to(target: Target, is_cluster: bool) -> Result<Router> {
        let dialled = target.clone();
        let dial = move |node: Option<&Node>| match node {
            Some(node) => dialled.at(&node.host, node.port).open(),
            None => dialled.open(),
        };
        let routes = match is_cluster {
            true => route::Router::cluster(dial, target.host())?,
            false => route::Router::single(dial)?,
        };
        Ok(Router { routes, target })
    }

    /// Connects anew, in place of a router whose connections are lost. In a cluster, to any node that was a primary.
    pub fn reconnect(&self) -> Result<Router> {
        let others = self.nodes().into_iter().flatten();
        let others = others.map(|node| self.target.at(&node.host, node.port));
        let mut first = None;
        for target in std::iter::once(self.target.clone()).chain(others) {
            match Router::to(target, self.routes.is_cluster()) {
                Err(Failure::Lost(why)) => {
                    first.get_or_insert(why);
                }
                done => return done,
            }
        }
        Err(Failure::Lost(first.unwrap_or_default()))
    }

    /// The primaries, or the one server.
    pub fn nodes(&self) -> Vec<Place> {
        self.routes.nodes()
    }

    /// The connection to one node.
    pub fn at(&mut self, node: &Place) -> Result<&mut Connection> {
        self.routes.at(node.as_ref())
    }

    /// The connection to the node that has a key.
    pub fn at_key(&mut self, key: &[u8]) -> Result<&mut Connection> {
        self.routes.connection_of(key)
    }

    /// A node's address as people read it.
    pub fn name_of(&self, node: &Place) -> String {
        node.as_ref().map_or_else(|| self.target.name(), Node::to_string)
    }

    /// Drops a connection that was lost: the next one is new.
    pub fn forget(&mut self, node: &Place) {
        self.routes.forget(node.as_ref());
    }

    /// Asks which node has which slots; whether that has changed.
    pub fn has_moved(&mut self) -> Result<bool> {
        self.routes.refresh()
    }

    /// Sends a request and reads the reply. An error that every further command would meet ends the program.
    pub fn ask<T>(&mut self, request: &Request<T>) -> Result<Answer<T>> {
        let answer = self.routes.call(request.key(), request.command().cmd())?;
        let answer = answer.map_err(|error| refusal(&error));
        match answer {
            Ok(reply) => Ok(Ok(read(request, reply)?)),
            Err(refusal) => refusal.failure().map_or(Ok(Err(refusal)), Err),
        }
    }

    /// Sends a request for each key, as many at once as there are. An error that all would meet ends the program.
    pub fn ask_each<T>(&mut self, requests: &[Request<T>]) -> Result<Vec<Answer<T>>> {
        let all: Vec<(&[u8], [Cmd; 1])> = requests
            .iter()
            .map(|request| (request.key(), [request.command().cmd().clone()]))
            .collect();
        let answers = self.routes.send_all(&all)?.into_iter().flatten();
        let answers =
            requests
                .iter()
                .zip(answers)
                .map(|(request, answer)| match answer.map_err(|error| refusal(&error)) {
                    Ok(reply) => Ok(Ok(read(request, reply)?)),
                    Err(refusal) => refusal.failure().map_or(Ok(Err(refusal)), Err),
                });
        answers.collect()
    }

    /// Sends a command for each key, as many at once as there are. An error that all would meet ends the program.
    pub fn calls(&mut self, all: Vec<(&[u8], Cmd)>) -> Result<Vec<Answer>> {
        let answers = self.answers(all)?;
        match answers.iter().find_map(|answer| answer.as_ref().err()?.failure()) {
            Some(failure) => Err(failure),
            None => Ok(answers),
        }
    }

    /// As [`calls`](Router::calls), for what can be done without: no error reply ends the program.
    pub fn answers(&mut self, all: Vec<(&[u8], Cmd)>) -> Result<Vec<Answer>> {
        let all: Vec<(&[u8], [Cmd; 1])> = all.into_iter().map(|(key, command)| (key, [command])).collect();
        let answers = self.routes.send_all(&all)?.into_iter().flatten();
        Ok(answers.map(|answer| answer.map_err(|error| refusal(&error))).collect())
    }

    /// Sends all commands in one `MULTI`, to the node that has the key of the first. An error reply of any of them is the answer; the others
    /// may have been executed.
    pub fn transaction(&mut self, commands: &[&Command]) -> Result<Answer<Vec<Value>>> {
        let key = commands.first().map_or(&b""[..], |command| command.key());
        let commands: Vec<Cmd> = commands.iter().map(|command| command.cmd().clone()).collect();
        executed(self.routes.transaction(key, &commands)?)
    }

    /// Runs a transaction for each key, as many at once as there are.
    pub fn transactions(&mut self, all: &[(&[u8], Vec<Cmd>)]) -> Result<Vec<Answer<Vec<Value>>>> {
        self.routes.transactions(all)?.into_iter().map(executed).collect()
    }

    /// `TYPE`; empty where that is not allowed.
    pub fn type_of(&mut self, key: &[u8]) -> Result<String> {
        let request = request::raw(redis::cmd("TYPE").arg(key).to_owned(), key);
        let kind = self.ask(&request)?.ok().and_then(tolerant::text);
        Ok(kind.unwrap_or_default())
    }
}

/// The replies within `EXEC`, or the first error reply among them.
fn executed(answer: route::Answer) -> Result<Answer<Vec<Value>>> {
    let replies = answer.and_then(|replies| {
        let replies = tolerant::array(replies).into_iter();
        replies
            .map(|reply| match reply {
                Value::ServerError(error) => Err(error),
                reply => Ok(reply),
            })
            .collect()
    });
    match replies.map_err(|error| refusal(&error)) {
        Err(refusal) => refusal.failure().map_or(Ok(Err(refusal)), Err),
        replies => Ok(replies),
    }
}

/// Reads a reply with the client's types; a failure if this program does not understand it.
pub fn read<T>(request: &Request<T>, reply: Value) -> Result<T> {
    request.read(reply).map_err(|error| match error {
        SessionError::UnexpectedReply { command, reason } => Failure::Server(format!(
            "{command} replied what this program cannot read ({reason}): is the module newer? Update redis-session."
        )),
        other => Failure::Server(other.to_string()),
    })
}
