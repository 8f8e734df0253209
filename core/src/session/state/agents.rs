//! The agents that work on a session, and the lease that gives one of them the turn.
//!
//! A lease carries a *fencing token*: each new lease has a larger one, so a writer whose lease has passed to another agent is refused by
//! its own token. A lease ends when it expires, on release, when its holder leaves, or when the session closes; no timer is involved.

use std::collections::BTreeMap;

use crate::text::{json, time};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub joined_at_ms: i64,
    pub last_seen_ms: i64,
    /// The text of a JSON object.
    pub meta: Option<String>,
}

impl Agent {
    /// Appends `{"agentId","joined_at","last_seen","meta"}`.
    pub fn write_json(&self, name: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"agentId\":");
        json::write_string(out, name);
        out.extend_from_slice(b",\"joined_at\":");
        time::write_json(out, Some(self.joined_at_ms));
        out.extend_from_slice(b",\"last_seen\":");
        time::write_json(out, Some(self.last_seen_ms));
        out.extend_from_slice(b",\"meta\":");
        out.extend_from_slice(self.meta.as_deref().unwrap_or("null").as_bytes());
        out.push(b'}');
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub agent: String,
    pub token: u64,
    pub expires_at_ms: i64,
}

impl Lease {
    /// Appends `{"agentId","token","expires_at"}`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"agentId\":");
        json::write_string(out, &self.agent);
        out.extend_from_slice(format!(",\"token\":{},\"expires_at\":", self.token).as_bytes());
        time::write_json(out, Some(self.expires_at_ms));
        out.push(b'}');
    }

    fn lives(&self, now_ms: i64) -> bool {
        self.expires_at_ms > now_ms
    }
}

/// Whether a joining agent was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    New,
    Known,
}

/// As many agents have joined as `max_agents` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentsFull {
    pub max_agents: u64,
}

/// Another agent holds the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHeld {
    pub agent: String,
    pub left_ms: i64,
}

/// The agents of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agents {
    pub(in crate::session) by_name: BTreeMap<String, Agent>,
    pub(in crate::session) lease: Option<Lease>,
    /// The token of the most recent lease; 0 if there was none.
    pub(in crate::session) last_token: u64,
}

impl Agents {
    pub fn is_empty(&self) -> bool {
        let Agents {
            by_name,
            lease,
            last_token,
        } = self;
        by_name.is_empty() && lease.is_none() && *last_token == 0
    }

    pub fn heap_bytes(&self) -> usize {
        let Agents {
            by_name,
            lease,
            last_token: _,
        } = self;
        let texts = |(name, agent): (&String, &Agent)| name.len() + agent.meta.as_ref().map_or(0, String::len);
        let entry_bytes = (size_of::<Agent>() + size_of::<String>()) * 3 / 2;
        by_name.len() * entry_bytes
            + by_name.iter().map(texts).sum::<usize>()
            + lease.as_ref().map_or(0, |lease| lease.agent.capacity())
    }

    pub fn living_lease(&self, now_ms: i64) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.lives(now_ms))
    }

    /// Adds an agent. For a known one it updates when it was last seen, and replaces its meta if one is given. The second part of the
    /// result says whether anything but that time changed. `max_agents` 0 is no bound.
    pub fn join(
        &mut self,
        name: &str,
        meta: Option<&str>,
        max_agents: u64,
        joined_at_ms: i64,
        now_ms: i64,
    ) -> Result<(Joined, bool), AgentsFull> {
        if let Some(agent) = self.by_name.get_mut(name) {
            agent.last_seen_ms = now_ms;
            let is_other = meta.is_some() && agent.meta.as_deref() != meta;
            if is_other {
                agent.meta = meta.map(str::to_owned);
            }
            return Ok((Joined::Known, is_other));
        }
        if max_agents > 0 && self.by_name.len() as u64 >= max_agents {
            return Err(AgentsFull { max_agents });
        }
        let agent = Agent {
            joined_at_ms,
            last_seen_ms: now_ms,
            meta: meta.map(str::to_owned),
        };
        self.by_name.insert(name.to_owned(), agent);
        Ok((Joined::New, true))
    }

    /// Removes an agent and ends the lease if the agent holds it. Returns whether it was known, and whether it held the lease.
    pub fn leave(&mut self, name: &str, now_ms: i64) -> (bool, bool) {
        let held = self
            .lease
            .take_if(|lease| lease.agent == name && lease.lives(now_ms))
            .is_some();
        (self.by_name.remove(name).is_some(), held)
    }

    /// Gives `name` the lease until `expires_at_ms`: with a new fencing token, or with its present one if it holds the lease already.
    /// `limits_enforced` is false when replaying what a primary has decided.
    pub fn lease(
        &mut self,
        name: &str,
        expires_at_ms: i64,
        limits_enforced: bool,
        now_ms: i64,
    ) -> Result<u64, LeaseHeld> {
        let living = self.living_lease(now_ms);
        if let Some(held) = living.filter(|lease| limits_enforced && lease.agent != name) {
            return Err(LeaseHeld {
                agent: held.agent.clone(),
                left_ms: held.expires_at_ms - now_ms,
            });
        }
        let renewed = living.filter(|lease| lease.agent == name);
        let token = renewed.map_or(self.last_token + 1, |lease| lease.token);
        self.last_token = self.last_token.max(token);
        self.lease = Some(Lease {
            agent: name.to_owned(),
            token,
            expires_at_ms,
        });
        self.see(name, now_ms);
        Ok(token)
    }

    /// Ends the unexpired lease with this token; returns false if there is none.
    pub fn release(&mut self, token: u64, now_ms: i64) -> bool {
        self.lease
            .take_if(|lease| lease.token == token && lease.lives(now_ms))
            .is_some()
    }

    /// Passes an unexpired lease of `from` to `to` and returns its new token.
    pub fn pass_lease(&mut self, from: &str, to: &str, now_ms: i64) -> Option<u64> {
        let lease = self
            .lease
            .as_mut()
            .filter(|lease| lease.agent == from && lease.lives(now_ms))?;
        self.last_token += 1;
        lease.agent = to.to_owned();
        lease.token = self.last_token;
        Some(self.last_token)
    }

    /// Updates when an agent was last seen, if it has joined.
    pub fn see(&mut self, name: &str, now_ms: i64) {
        if let Some(agent) = self.by_name.get_mut(name) {
            agent.last_seen_ms = now_ms;
        }
    }
}
