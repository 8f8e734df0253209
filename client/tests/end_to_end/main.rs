//! The client crate on real servers.
//!
//! | file | which rules |
//! |---|---|
//! | `survive.rs` | nothing is lost and nothing comes twice when connections break, servers fail over and slots move |
//! | `processes.rs` | the same with a hundred writers in several processes |
//! | `commands.rs` | one scenario with every command |
//! | `connections.rs` | … over every kind of connection, in both protocols |
//! | `routing.rs` | in a cluster each command goes straight to its node |
//! | `router.rs` | the blocking router sends each command to the node of its key, also while its slot moves |
//! | `pipelines.rs` | many commands in one round trip, also while a slot moves |
//! | `resending.rs` | what is sent again after the loss of a connection, and what is not |
//! | `editing.rs` | optimistic and leased edits, followers |
//! | `blocking.rs` | the same promises to threads |
//! | `directory.rs` | sessions are created, found, renamed and deleted once, whatever is lost |
//! | `addresses.rs` | a wrong address is said at once, a server that was there is waited for |
//! | `handles.rs` | handles, turns and edits have every command of a session |
//! | `names.rs` | names that programs import with `*` |
//! | `errors.rs` | a variant for each error word; servers that refuse |
//! | `newer.rs` | replies of a newer module |
//! | `bodies.rs` | bodies come back byte for byte, unknown fields survive |
//!
//! `durable.rs`, `lossy.rs`, `fake.rs`, `places.rs` and `work.rs` are what they share.

mod addresses;
mod blocking;
mod bodies;
mod commands;
mod connections;
mod directory;
mod durable;
mod editing;
mod errors;
mod fake;
mod following;
mod handles;
mod lossy;
mod names;
mod newer;
mod pipelines;
mod places;
mod processes;
mod resending;
mod router;
mod routing;
mod survive;
mod work;
