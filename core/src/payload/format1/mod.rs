//! The rows of format 1, separate from the types in memory: one file for each type of value.

pub(crate) mod anchors;
pub(crate) mod directory;
pub(crate) mod session;
