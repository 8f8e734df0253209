//! Conversations with real servers: the harness of the end-to-end tests.
//!
//! A test starts its own `redis-server` with the module that `cargo` has just built, talks to it as in `redis-cli`, and drops it:
//!
//! ```text
//! let server = Server::start();
//! server.conversation(r#"
//!     > SESSION.APPEND k MSG user hello
//!     (integer) 1
//!     > SESSION.LEN k
//!     (integer) 1
//! "#);
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `module.rs` | builds the module, once per process |
//! | `server.rs` | starts, restarts, replicates and ends servers |
//! | `cluster.rs` | joins servers into a cluster, moves slots, promotes replicas |
//! | `sentinel.rs` | a primary, replicas and the sentinels that watch them |
//! | `postgres.rs` | a PostgreSQL of the test's own |
//! | `client.rs` | one connection: RESP2 or RESP3, to the byte |
//! | `talk.rs` | the language of conversations: quoting, rendering, wildcards |
//! | `journal.rs` | what a command propagated, read from the append-only file |
//! | `oracle.rs` | what must be equal before and after: digest, expiry, replies |
//! | `payload.rs` | `DUMP` payloads with a right checksum, and a seeded random source to spoil them |
//! | `sample.rs` | a small session for examples |
//! | `table.rs` | every command of the running module, with its arguments |
//! | `grammar.rs` | right and wrong sentences, generated from a command's arguments |
//!
//! `MODULE_PATH` names a module built elsewhere; `MODULE_PROFILE` the profile of `Cargo.toml` to build it in (`release`); `SERVER_BIN`
//! another server (a program, arguments may follow).

pub mod client;
pub mod cluster;
pub mod grammar;
pub mod journal;
pub mod module;
pub mod oracle;
pub mod payload;
pub mod postgres;
pub mod sample;
pub mod sentinel;
pub mod server;
pub mod table;
pub mod talk;

pub use client::{bytes, entry, int, items, text, Client};
pub use cluster::Cluster;
pub use postgres::Postgres;
pub use redis::Value;
pub use sentinel::Sentinel;
pub use server::{now_ms, wait_until, Flavor, Options, Server};
