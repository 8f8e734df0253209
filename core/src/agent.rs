//! The agents that work on a session, and the lease by which one of them has the turn.
//!
//! A lease carries a *fencing token*: each new lease takes a larger one, so a writer whose lease has passed to somebody else is told so
//! by its own token. A lease ends by its time, by release, when its holder leaves or when the session closes; nothing has to run for that.

use std::collections::BTreeMap;

use crate::event::NewEvent;
use crate::json;
use crate::session::{Now, Session};
use crate::time;

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
}

/// The agents of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agents {
    pub by_name: BTreeMap<String, Agent>,
    pub lease: Option<Lease>,
    /// The token of the last lease there was.
    pub last_token: u64,
}

impl Agents {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.lease.is_none() && self.last_token == 0
    }

    pub fn heap_bytes(&self) -> usize {
        let texts = |(name, agent): (&String, &Agent)| name.len() + agent.meta.as_ref().map_or(0, String::len);
        let entry_bytes = (size_of::<Agent>() + size_of::<String>()) * 3 / 2;
        self.by_name.len() * entry_bytes + self.by_name.iter().map(texts).sum::<usize>()
    }
}

/// What a join did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    New,
    Known,
    /// There are as many agents as `max_agents` allows.
    Full {
        max_agents: u64,
    },
}

/// Somebody else has the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHeld {
    pub agent: String,
    pub left_ms: i64,
}

impl Session {
    /// By name.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        self.cold
            .iter()
            .flat_map(|cold| cold.agents.by_name.iter().map(|(name, agent)| (name.as_str(), agent)))
    }

    /// False says that there is no lease, without looking at a clock.
    #[inline]
    pub fn may_be_leased(&self) -> bool {
        self.cold.is_some()
    }

    /// The lease that lives at this time.
    pub fn living_lease(&self, now_ms: i64) -> Option<&Lease> {
        self.cold
            .as_ref()?
            .agents
            .lease
            .as_ref()
            .filter(|lease| lease.expires_at_ms > now_ms)
    }

    /// Adds an agent. One that is known is seen again, and its meta is replaced if one is given.
    pub fn join(&mut self, name: &str, meta: Option<&str>, judged: bool, now: Now) -> Joined {
        let max_agents = self.limits.max_agents;
        let agents = &mut self.cold_mut().agents;
        if let Some(agent) = agents.by_name.get_mut(name) {
            agent.last_seen_ms = now.now_ms;
            if meta.is_some() && agent.meta.as_deref() != meta {
                agent.meta = meta.map(str::to_owned);
                self.touch(now.now_ms);
            }
            return Joined::Known;
        }
        if judged && max_agents > 0 && agents.by_name.len() as u64 >= max_agents {
            return Joined::Full { max_agents };
        }
        let meta = meta.map(str::to_owned);
        let agent = Agent {
            joined_at_ms: now.content_ms,
            last_seen_ms: now.now_ms,
            meta,
        };
        agents.by_name.insert(name.to_owned(), agent);
        self.evict(now.now_ms, None);
        self.touch(now.now_ms);
        Joined::New
    }

    /// Removes an agent, and ends the lease if it holds it; false if it was not there.
    pub fn leave(&mut self, name: &str, now: Now) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        let agents = &mut cold.agents;
        let holds = agents
            .lease
            .take_if(|lease| lease.agent == name && lease.expires_at_ms > now.now_ms)
            .is_some();
        let left = agents.by_name.remove(name).is_some();
        if left {
            self.evict(now.now_ms, None);
            self.touch(now.now_ms);
        }
        left || holds
    }

    /// Gives `name` the turn until `expires_at_ms`: a new token, or the one it has if it holds the turn already. `judged` is false for what
    /// a primary has decided.
    pub fn lease(&mut self, name: &str, expires_at_ms: i64, judged: bool, now: Now) -> Result<u64, LeaseHeld> {
        if let Some(held) = self
            .living_lease(now.now_ms)
            .filter(|lease| judged && lease.agent != name)
        {
            return Err(LeaseHeld {
                agent: held.agent.clone(),
                left_ms: held.expires_at_ms - now.now_ms,
            });
        }
        self.see(name, now.now_ms);
        let agents = &mut self.cold_mut().agents;
        let renewed = agents
            .lease
            .as_ref()
            .filter(|lease| lease.agent == name && lease.expires_at_ms > now.now_ms);
        let token = renewed.map_or(agents.last_token + 1, |lease| lease.token);
        agents.last_token = agents.last_token.max(token);
        agents.lease = Some(Lease {
            agent: name.to_owned(),
            token,
            expires_at_ms,
        });
        Ok(token)
    }

    /// Ends the living lease of that token; false if there is no such.
    pub fn release(&mut self, token: u64, now_ms: i64) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        cold.agents
            .lease
            .take_if(|lease| lease.token == token && lease.expires_at_ms > now_ms)
            .is_some()
    }

    /// Records that `from` hands over to `to`; a living lease of `from` passes to `to` under a new token. Returns the event's seq and that
    /// token, or 0.
    pub fn hand_off(&mut self, from: &str, to: &str, note: Option<&str>, now: Now) -> (u64, u64) {
        let mut change = b"{\"from\":".to_vec();
        json::write_string(&mut change, from);
        change.extend_from_slice(b",\"to\":");
        json::write_string(&mut change, to);
        if let Some(note) = note {
            change.extend_from_slice(b",\"note\":");
            json::write_string(&mut change, note);
        }
        change.push(b'}');
        self.see(from, now.now_ms);
        let agents = &mut self.cold_mut().agents;
        let mut token = 0;
        if let Some(lease) = agents
            .lease
            .as_mut()
            .filter(|lease| lease.agent == from && lease.expires_at_ms > now.now_ms)
        {
            agents.last_token += 1;
            token = agents.last_token;
            lease.agent = to.to_owned();
            lease.token = token;
        }
        let event = NewEvent {
            kind: HANDOFF,
            agent: Some(from),
            change: Some(&change),
            ..NewEvent::default()
        };
        (self.add_event(&event, now), token)
    }

    /// A joined agent did something.
    pub fn see(&mut self, name: &str, now_ms: i64) {
        if let Some(agent) = self.cold.as_mut().and_then(|cold| cold.agents.by_name.get_mut(name)) {
            agent.last_seen_ms = now_ms;
        }
    }
}

/// The type of the event that a handoff records.
pub const HANDOFF: &str = "handoff";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, START_MS};
    use crate::limits::Limits;
    use proptest::prelude::*;

    fn session(max_agents: u64) -> Session {
        fixture::session(Limits {
            max_agents,
            ..Limits::default()
        })
    }

    #[test]
    fn joining_leaving_and_the_bound() {
        let mut session = session(2);
        assert_eq!(session.join("a", Some("{}"), true, at(START_MS)), Joined::New);
        assert_eq!(session.join("b", None, true, at(START_MS)), Joined::New);
        assert_eq!(
            session.join("c", None, true, at(START_MS)),
            Joined::Full { max_agents: 2 }
        );
        assert_eq!(session.join("c", None, false, at(START_MS)), Joined::New);
        let version = session.version();
        assert_eq!(session.join("a", Some("{}"), true, at(START_MS + 5)), Joined::Known);
        assert_eq!(session.version(), version, "being seen is no change of content");
        assert_eq!(session.agents().next().unwrap().1.last_seen_ms, START_MS + 5);
        assert!(session.leave("b", at(START_MS)) && !session.leave("b", at(START_MS)));
        let names: Vec<&str> = session.agents().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_handoff_passes_the_lease_under_a_new_token() {
        let mut session = session(0);
        let token = session.lease("a", START_MS + 100, true, at(START_MS)).unwrap();
        let (seq, next) = session.hand_off("a", "b", Some("your turn"), at(START_MS + 1));
        assert_eq!((seq, next), (1, token + 1));
        let lease = session.living_lease(START_MS + 99).unwrap();
        assert_eq!(
            (lease.agent.as_str(), lease.token, lease.expires_at_ms),
            ("b", next, START_MS + 100)
        );
        assert_eq!(session.hand_off("a", "b", None, at(START_MS + 2)).1, 0);
    }

    proptest! {
        #[test]
        fn a_token_is_good_only_while_its_lease_lives_and_tokens_only_grow(
            steps in prop::collection::vec((0usize..4, 0usize..3, 1i64..60, 0i64..40), 1..60), reload in any::<bool>(),
        ) {
            const NAMES: [&str; 3] = ["a", "b", "c"];
            let mut session = session(0);
            // The living lease by the rules: holder, token, expiry.
            let mut model: Option<(usize, u64, i64)> = None;
            let (mut last_token, mut now_ms) = (0, START_MS);
            for (kind, who, ms, wait_ms) in steps {
                now_ms += wait_ms;
                model = model.filter(|(_, _, expires_at_ms)| *expires_at_ms > now_ms);
                if reload {
                    session = Session::decode_whole(&session.encode_whole()).unwrap();
                }
                match kind {
                    0 | 1 => {
                        let leased = session.lease(NAMES[who], now_ms + ms, true, at(now_ms));
                        match model {
                            Some((holder, _, expires_at_ms)) if holder != who => {
                                prop_assert_eq!(leased, Err(LeaseHeld { agent: NAMES[holder].to_owned(), left_ms: expires_at_ms - now_ms }));
                            }
                            _ => {
                                let token = model.map_or(last_token + 1, |(_, token, _)| token);
                                last_token = last_token.max(token);
                                prop_assert_eq!(leased, Ok(token));
                                model = Some((who, token, now_ms + ms));
                            }
                        }
                    }
                    2 => {
                        let token = last_token.saturating_sub(who as u64);
                        let good = model.is_some_and(|(_, living, _)| living == token);
                        prop_assert_eq!(session.release(token, now_ms), good);
                        if good { model = None; }
                    }
                    _ => {
                        let to = (who + 1) % 3;
                        let (_, token) = session.hand_off(NAMES[who], NAMES[to], None, at(now_ms));
                        match &mut model {
                            Some((holder, living, _)) if *holder == who => {
                                last_token += 1;
                                (*holder, *living) = (to, last_token);
                                prop_assert_eq!(token, last_token);
                            }
                            _ => prop_assert_eq!(token, 0),
                        }
                    }
                }
                let shown = session.living_lease(now_ms).map(|lease| (lease.agent.as_str(), lease.token, lease.expires_at_ms));
                prop_assert_eq!(shown, model.map(|(holder, token, expires_at_ms)| (NAMES[holder], token, expires_at_ms)));
            }
        }
    }
}
