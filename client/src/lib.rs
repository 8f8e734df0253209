//! Typed access to the `SESSION.*` commands over redis-rs connections.
