//! The data types: the server's callbacks of each in one file.

pub mod anchors;
pub mod directory;
pub mod session;
