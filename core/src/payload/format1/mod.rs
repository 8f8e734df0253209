//! The rows of format 1, apart from the types in memory: one file each type of value.

pub(crate) mod anchors;
pub(crate) mod directory;
pub(crate) mod session;
