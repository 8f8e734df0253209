//! Typed access to the `SESSION.*` commands over redis-rs connections.
//!
//! Nothing is here yet: until it is, `redis::cmd("SESSION.APPEND")` and its kin do, as with any command of a module.
