//! `SCAN`, page by page.

use redis::{Connection, Value};
use redis_session_client::tolerant::{array, bytes};

use super::Link;
use crate::failure::{Failure, Result};

/// A walk over the keys of one node. SCAN may return a key twice.
pub struct Scan {
    pattern: Option<String>,
    kind: Option<&'static str>,
    /// Keys that the server looks at for one page.
    count: usize,
    /// `None`: the walk is over.
    cursor: Option<Vec<u8>>,
}

impl Scan {
    pub fn new(count: usize) -> Scan {
        Scan {
            pattern: None,
            kind: None,
            count,
            cursor: Some(b"0".to_vec()),
        }
    }

    /// Only keys of this glob-style pattern.
    pub fn matching(mut self, pattern: Option<&str>) -> Scan {
        self.pattern = pattern.map(str::to_owned);
        self
    }

    /// Only keys of this type, by the name that `TYPE` has for it.
    pub fn of_type(mut self, kind: Option<&'static str>) -> Scan {
        self.kind = kind;
        self
    }

    /// The keys of the next page, which may be none; `None` after the last page.
    pub fn next(&mut self, link: &mut Connection) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        let mut command = redis::cmd("SCAN");
        command.arg(cursor);
        if let Some(pattern) = &self.pattern {
            command.arg("MATCH").arg(pattern);
        }
        command.arg("COUNT").arg(self.count);
        if let Some(kind) = self.kind {
            command.arg("TYPE").arg(kind);
        }
        let reply = array(link.must(&command)?);
        let [next, keys] = <[Value; 2]>::try_from(reply)
            .map_err(|_| Failure::Server("SCAN replied what no SCAN replies: is this a Redis server?".into()))?;
        self.cursor = bytes(next).filter(|cursor| cursor != b"0");
        Ok(Some(array(keys).into_iter().filter_map(bytes).collect()))
    }
}
