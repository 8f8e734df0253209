//! The primaries of a cluster, and which of them a key is on.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, Value};

use super::link::{settle, Answer, Link};
use super::reply::{array, bytes, int};
use super::{Flags, Target};
use crate::failure::{Failure, Refusal, Result};

/// A command is sent after its key so often at most: slots move one at a time.
const REDIRECTIONS_AT_MOST: usize = 5;

/// Before a command is sent again whose keys are just moving.
const PAUSE: Duration = Duration::from_millis(50);

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
        Router::to(flags.target()?, flags.cluster)
    }

    /// Another one in place of this, whose connections are lost. In a cluster any node that was a primary shows the way.
    pub fn reconnect(&self) -> Result<Router> {
        let others = self.primaries.iter().flat_map(|primaries| &primaries.0);
        let others = others.map(|(host, port)| self.target.at(host, *port));
        let mut first = None;
        for target in std::iter::once(self.target.clone()).chain(others) {
            match Router::to(target, self.primaries.is_some()) {
                Err(Failure::Lost(why)) => {
                    first.get_or_insert(why);
                }
                done => return done,
            }
        }
        Err(Failure::Lost(first.unwrap_or_default()))
    }

    fn to(target: Target, is_cluster: bool) -> Result<Router> {
        let mut link = target.connect()?;
        let primaries = is_cluster
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
            Entry::Vacant(place) => {
                let target = match self.primaries {
                    Some(_) => self.target.at(&address.0, address.1),
                    None => self.target.clone(),
                };
                Ok(place.insert(target.connect()?))
            }
        }
    }

    /// As people read it.
    pub fn name_of(&self, address: &(String, u16)) -> String {
        match &self.primaries {
            Some(_) => format!("{}:{}", address.0, address.1),
            None => self.target.name(),
        }
    }

    /// A connection that was lost: the next one is new.
    pub fn forget(&mut self, address: &(String, u16)) {
        self.links.remove(address);
    }

    pub fn link(&mut self, key: &[u8]) -> Result<&mut Link> {
        let address = self.address_of(key);
        self.at(&address)
    }

    pub fn call(&mut self, key: &[u8], command: &Cmd) -> Result<Answer> {
        let answers = self.send(key, std::slice::from_ref(command))?;
        let answer = answers.into_iter().next().unwrap_or(Ok(Value::Nil));
        match answer.as_ref().err().and_then(Refusal::failure) {
            Some(failure) => Err(failure),
            None => Ok(answer),
        }
    }

    /// All commands in one `MULTI`, on this key. An error reply of any of them is the answer; the others may have been done.
    pub fn transaction(&mut self, key: &[u8], commands: &[Cmd]) -> Result<Answer> {
        let answers = self.send(key, &in_multi(commands))?;
        of_multi(answers)
    }

    /// A transaction for each key, as many in flight as there are, the nodes one after the other.
    pub fn transactions(&mut self, all: &[(&[u8], Vec<Cmd>)]) -> Result<Vec<Answer>> {
        let all: Vec<(&[u8], Vec<Cmd>)> = all.iter().map(|(key, commands)| (*key, in_multi(commands))).collect();
        self.send_all(&all)?.into_iter().map(of_multi).collect()
    }

    /// A command for each key, as many in flight as there are. An error that all would meet ends it.
    pub fn calls(&mut self, all: Vec<(&[u8], Cmd)>) -> Result<Vec<Answer>> {
        let answers = self.answers(all)?;
        match answers.iter().find_map(|answer| answer.as_ref().err()?.failure()) {
            Some(failure) => Err(failure),
            None => Ok(answers),
        }
    }

    /// The same for what can be done without.
    pub fn answers(&mut self, all: Vec<(&[u8], Cmd)>) -> Result<Vec<Answer>> {
        let all: Vec<(&[u8], Vec<Cmd>)> = all.into_iter().map(|(key, command)| (key, vec![command])).collect();
        Ok(self.send_all(&all)?.into_iter().flatten().collect())
    }

    /// The answers to the commands of each key. What is redirected is sent again, where it belongs.
    fn send_all(&mut self, all: &[(&[u8], Vec<Cmd>)]) -> Result<Vec<Vec<Answer>>> {
        let mut of_node: HashMap<(String, u16), Vec<usize>> = HashMap::new();
        for (place, (key, _)) in all.iter().enumerate() {
            of_node.entry(self.address_of(key)).or_default().push(place);
        }
        let mut answers: Vec<Vec<Answer>> = vec![Vec::new(); all.len()];
        for (address, places) in of_node {
            let commands: Vec<&Cmd> = places.iter().flat_map(|place| &all[*place].1).collect();
            let mut replies = self.at(&address)?.call_each(&commands)?.into_iter();
            for place in places {
                answers[place] = replies.by_ref().take(all[place].1.len()).collect();
            }
        }
        for (answers, (key, commands)) in answers.iter_mut().zip(all) {
            if redirection(answers).is_some() {
                *answers = self.send(key, commands)?;
            }
        }
        Ok(answers)
    }

    /// Sends them to where the key is, and after it if it is elsewhere.
    fn send(&mut self, key: &[u8], commands: &[Cmd]) -> Result<Vec<Answer>> {
        let mut answers = self.link(key)?.call_all(commands)?;
        for _ in 0..REDIRECTIONS_AT_MOST {
            let Some(refusal) = redirection(&answers) else { break };
            if self.primaries.is_none() {
                return Err(Failure::Server(format!(
                    "this is a node of a cluster, and a key is on another one ({refusal})\nGive -c."
                )));
            }
            match refusal.asked_address() {
                // This one key has gone ahead of its slot.
                Some((host, port)) => {
                    let host = if host.is_empty() {
                        self.target.host().to_owned()
                    } else {
                        host
                    };
                    let mut asking = vec![redis::cmd("ASKING")];
                    asking.extend_from_slice(commands);
                    answers = self.at(&(host, port))?.call_all(&asking)?.split_off(1);
                }
                None => {
                    if refusal.is("TRYAGAIN") {
                        std::thread::sleep(PAUSE);
                    }
                    self.look_again()?;
                    answers = self.link(key)?.call_all(commands)?;
                }
            }
        }
        Ok(answers)
    }

    fn look_again(&mut self) -> Result<()> {
        if self.primaries.is_some() {
            let address = self.addresses().remove(0);
            let host = self.target.host().to_owned();
            self.primaries = Some(Primaries::of(self.at(&address)?, &host)?);
        }
        Ok(())
    }

    /// Whether slots have other owners than when last looked at; from now on keys go to these.
    pub fn has_moved(&mut self) -> Result<bool> {
        let before = self.primaries.clone();
        self.look_again()?;
        Ok(before != self.primaries)
    }
}

fn redirection(answers: &[Answer]) -> Option<&Refusal> {
    let mut refusals = answers.iter().filter_map(|answer| answer.as_ref().err());
    refusals.find(|refusal| refusal.is_redirection())
}

fn in_multi(commands: &[Cmd]) -> Vec<Cmd> {
    let mut all = vec![redis::cmd("MULTI")];
    all.extend_from_slice(commands);
    all.push(redis::cmd("EXEC"));
    all
}

fn of_multi(answers: Vec<Answer>) -> Result<Answer> {
    let mut replies = Vec::new();
    for answer in answers {
        // A MULTI that is refused, and what is refused when it is queued, say more than the EXEC that fails for it.
        match answer {
            Ok(reply) => replies = array(reply),
            Err(refusal) => return refusal.failure().map_or(Ok(Err(refusal)), Err),
        }
    }
    for reply in &mut replies {
        if let Value::ServerError(_) = reply {
            if let Err(refusal) = settle(Ok(std::mem::replace(reply, Value::Nil)))? {
                return refusal.failure().map_or(Ok(Err(refusal)), Err);
            }
        }
    }
    Ok(Ok(Value::Array(replies)))
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
