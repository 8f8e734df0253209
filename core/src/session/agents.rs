//! The operations on agents and the lease; [`crate::session::state::agents`] stores them.

use super::state::agents::{Agent, AgentsFull, Joined, Lease, LeaseHeld};
use super::state::events::NewEvent;
use super::state::Session;
use super::write::{Now, Written};
use crate::text::json;

/// The type of the event that a handoff records.
pub const HANDOFF: &str = "handoff";

/// What a handoff did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOff {
    /// The seq of the event that records it.
    pub event_seq: u64,
    /// The new token of the lease that was passed on; 0 if no lease was.
    pub lease_token: u64,
}

impl Session {
    /// Iterates over the agents in the order of their names.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        self.cold
            .iter()
            .flat_map(|cold| cold.agents.by_name.iter().map(|(name, agent)| (name.as_str(), agent)))
    }

    /// Returns false if the session certainly has no lease. Reads no clock.
    #[inline]
    pub fn may_be_leased(&self) -> bool {
        self.cold.is_some()
    }

    /// Returns the lease that has not expired at `now_ms`.
    pub fn living_lease(&self, now_ms: i64) -> Option<&Lease> {
        self.cold.as_ref()?.agents.living_lease(now_ms)
    }

    /// Adds an agent. For a known one it updates when it was last seen, which is not content, and replaces its meta if one is given.
    /// `limits_enforced` is false when replaying what a primary has decided.
    pub fn join(
        &mut self,
        name: &str,
        meta: Option<&str>,
        limits_enforced: bool,
        now: Now,
    ) -> Result<Written<Joined>, AgentsFull> {
        let max_agents = if limits_enforced { self.limits.max_agents } else { 0 };
        let agents = &mut self.cold_mut().agents;
        let (joined, is_content) = agents.join(name, meta, max_agents, now.content_ms, now.now_ms)?;
        Ok(match is_content {
            true => self.written(joined, now),
            false => Written::beside_content(joined),
        })
    }

    /// Removes an agent, and ends the lease if the agent holds it. The result is false if it was no agent and held no lease.
    pub fn leave(&mut self, name: &str, now: Now) -> Written<bool> {
        let (left, held) = self
            .cold
            .as_mut()
            .map_or((false, false), |cold| cold.agents.leave(name, now.now_ms));
        match (left, held) {
            (true, _) => self.written(true, now),
            (false, true) => Written::beside_content(true),
            (false, false) => Written::nothing(false),
        }
    }

    /// Gives `name` the lease until `expires_at_ms`: with a new fencing token, or with its present one if it holds the lease already.
    /// `limits_enforced` is false when replaying what a primary has decided.
    pub fn lease(
        &mut self,
        name: &str,
        expires_at_ms: i64,
        limits_enforced: bool,
        now: Now,
    ) -> Result<Written<u64>, LeaseHeld> {
        let agents = &mut self.cold_mut().agents;
        let token = agents.lease(name, expires_at_ms, limits_enforced, now.now_ms)?;
        Ok(Written::beside_content(token))
    }

    /// Ends the unexpired lease with this token. The result is false if there is none.
    pub fn release(&mut self, token: u64, now_ms: i64) -> Written<bool> {
        let released = self
            .cold
            .as_mut()
            .is_some_and(|cold| cold.agents.release(token, now_ms));
        match released {
            true => Written::beside_content(true),
            false => Written::nothing(false),
        }
    }

    /// Records that `from` hands over to `to`; an unexpired lease of `from` passes to `to` with a new token.
    pub fn hand_off(&mut self, from: &str, to: &str, note: Option<&str>, now: Now) -> Written<HandedOff> {
        let mut change = b"{\"from\":".to_vec();
        json::write_string(&mut change, from);
        change.extend_from_slice(b",\"to\":");
        json::write_string(&mut change, to);
        if let Some(note) = note {
            change.extend_from_slice(b",\"note\":");
            json::write_string(&mut change, note);
        }
        change.push(b'}');
        let passed = self.cold_mut().agents.pass_lease(from, to, now.now_ms);
        let event = NewEvent {
            kind: HANDOFF,
            agent: Some(from),
            change: Some(&change),
            ..NewEvent::default()
        };
        self.add_event(&event, now).map(|event_seq| HandedOff {
            event_seq,
            lease_token: passed.unwrap_or(0),
        })
    }

    /// Updates when an agent was last seen, if it has joined.
    pub(super) fn see(&mut self, name: &str, now_ms: i64) {
        if let Some(cold) = &mut self.cold {
            cold.agents.see(name, now_ms);
        }
    }
}

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

    fn join(
        session: &mut Session,
        name: &str,
        meta: Option<&str>,
        limits_enforced: bool,
        now_ms: i64,
    ) -> Result<Joined, AgentsFull> {
        session
            .join(name, meta, limits_enforced, at(now_ms))
            .map(|joined| joined.result)
    }

    #[test]
    fn joining_leaving_and_the_bound() {
        let mut session = session(2);
        assert_eq!(join(&mut session, "a", Some("{}"), true, START_MS), Ok(Joined::New));
        assert_eq!(join(&mut session, "b", None, true, START_MS), Ok(Joined::New));
        assert_eq!(
            join(&mut session, "c", None, true, START_MS),
            Err(AgentsFull { max_agents: 2 })
        );
        assert_eq!(join(&mut session, "c", None, false, START_MS), Ok(Joined::New));
        let version = session.version();
        assert_eq!(
            join(&mut session, "a", Some("{}"), true, START_MS + 5),
            Ok(Joined::Known)
        );
        assert_eq!(session.version(), version, "being seen is no change of content");
        assert_eq!(session.agents().next().unwrap().1.last_seen_ms, START_MS + 5);
        assert!(session.leave("b", at(START_MS)).result);
        assert_eq!(session.leave("b", at(START_MS)), Written::nothing(false));
        let names: Vec<&str> = session.agents().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_handoff_passes_the_lease_under_a_new_token() {
        let mut session = session(0);
        let token = session.lease("a", START_MS + 100, true, at(START_MS)).unwrap().result;
        let handed = session.hand_off("a", "b", Some("your turn"), at(START_MS + 1)).result;
        let next = handed.lease_token;
        assert_eq!((handed.event_seq, next), (1, token + 1));
        let lease = session.living_lease(START_MS + 99).unwrap();
        assert_eq!(
            (lease.agent.as_str(), lease.token, lease.expires_at_ms),
            ("b", next, START_MS + 100)
        );
        assert_eq!(session.hand_off("a", "b", None, at(START_MS + 2)).result.lease_token, 0);
    }

    proptest! {
        #[test]
        fn a_token_is_good_only_while_its_lease_lives_and_tokens_only_grow(
            steps in prop::collection::vec((0usize..4, 0usize..3, 1i64..60, 0i64..40), 1..60), reload in any::<bool>(),
        ) {
            const NAMES: [&str; 3] = ["a", "b", "c"];
            let mut session = session(0);
            // The expected lease: holder, token, expiry.
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
                        let leased = session.lease(NAMES[who], now_ms + ms, true, at(now_ms)).map(|leased| leased.result);
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
                        prop_assert_eq!(session.release(token, now_ms).result, good);
                        if good { model = None; }
                    }
                    _ => {
                        let to = (who + 1) % 3;
                        let token = session.hand_off(NAMES[who], NAMES[to], None, at(now_ms)).result.lease_token;
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
                session.check_invariants(now_ms);
                let shown = session.living_lease(now_ms).map(|lease| (lease.agent.as_str(), lease.token, lease.expires_at_ms));
                prop_assert_eq!(shown, model.map(|(holder, token, expires_at_ms)| (NAMES[holder], token, expires_at_ms)));
            }
        }
    }
}
