//! The crate's names beside those of redis-rs and of the standard library, all imported with `*`. One that stood for two things would be
//! ambiguous where it is used, and this file would not compile.

#![allow(unused_imports)]

use std::collections::BTreeSet;

/// Uses each name, and lists them.
macro_rules! names {
    ($($name:ident)+) => {
        mod globs {
            use redis::*;
            use redis_session_client::*;
            use std::collections::*;
            use std::fmt::*;
            use std::future::*;
            use std::io::*;
            use std::net::*;
            use std::ops::*;
            use std::str::*;
            use std::sync::*;
            use std::task::*;
            use std::thread::*;
            use std::time::*;

            mod each {
                $(use super::$name;)+
            }
        }

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

names! {
    Agent
    Anchor
    Append
    Appended
    AsyncSessionCommands
    AsyncSessionConnection
    BadTimestamp
    Body
    Checkpoint
    Connect
    Content
    ContextOptions
    Create
    Created
    DirectoryEntry
    Edit
    Entity
    EntityQuery
    EntryKind
    Event
    EventCounts
    EventQuery
    Follow
    Fork
    GetEx
    Guarded
    HandedOff
    Handoff
    IndexAdd
    IndexQuery
    Join
    Lease
    Limit
    Limits
    Mention
    Message
    MessageQuery
    MessageRole
    Migrate
    Migrated
    NewAnchor
    NewCheckpoint
    NewEvent
    NewMessage
    RawEntry
    ReadCursor
    ReadOptions
    ReadStep
    Replies
    ReplySlot
    Request
    Resolved
    Retry
    SessionAlias
    SessionCommands
    SessionConnection
    SessionContext
    SessionDocument
    SessionEntry
    SessionError
    SessionExpiry
    SessionHandle
    SessionId
    SessionInfo
    SessionPipeline
    SessionResult
    SessionStore
    SessionWrite
    StateTransition
    StoredMessage
    Timestamp
    ToolCall
    Turn
    Window
    WriteOptions
    blocking
    bridge
    key_slot
    request
    route
    tolerant
}

/// What `lib.rs` exports.
fn exported() -> BTreeSet<String> {
    let source = include_str!("../../src/lib.rs");
    let statements = source.split(';').filter_map(|statement| {
        let statement = statement
            .rsplit_once("pub use ")
            .or_else(|| statement.rsplit_once("pub mod "));
        statement.map(|(_, names)| names)
    });
    let names = statements.flat_map(|names| {
        let names = names
            .rsplit_once("::{")
            .or_else(|| names.rsplit_once("::"))
            .map_or(names, |(_, names)| names);
        names
            .split(',')
            .map(|name| name.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_owned())
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_exported_name_is_unlike_those_of_redis_rs_and_of_the_standard_library() {
    assert_eq!(
        NAMES.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(),
        exported()
    );
}
