//! Training data.

mod file;

pub(super) use file::write_whole;
