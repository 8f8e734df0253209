//! A small session for examples: `session:1`, alias `ada` in the directory `sessions`.
//!
//! | seq | what |
//! |---|---|
//! | 1 | a user's message that mentions `order:7` |
//! | 2 | the assistant's answer |
//! | 3 | an event `shipped` of the agent `clerk` |
//! | 4 | a checkpoint, labelled `greeted` |
//!
//! Ada (`u7`, a person) is its most recent entity; `anchor:order:7` has one anchor, of a session `s1` that passed. `session:2`
//! has no messages: `clerk` has the lease, with token 1.

use crate::Server;

impl Server {
    /// Starts a server with the sample session.
    pub fn with_sample() -> Server {
        let server = Server::start();
        for line in [
            "SESSION.CREATE session:1 INDEX sessions ALIAS ada",
            "SESSION.APPEND session:1 MSG user 'Where is order 7?' REF order:7",
            "SESSION.APPEND session:1 MSG assistant 'On its way.'",
            "SESSION.ENTITY MENTION session:1 ID u7 NAME Ada TYPE person",
            "SESSION.EVENT ADD session:1 shipped AGENT clerk ENTITIES 1 order:7 STATE pass",
            "SESSION.AGENT JOIN session:1 clerk",
            "SESSION.CHECKPOINT CREATE session:1 LABEL greeted",
            "SESSION.ANCHOR ADD anchor:order:7 s1 OUTCOME pass",
            "SESSION.CREATE session:2",
            "SESSION.AGENT LEASE session:2 clerk 60000",
        ] {
            server.run(line);
        }
        server
    }
}
