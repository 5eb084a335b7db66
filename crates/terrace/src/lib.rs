//! The command line: the library behind `terrace`, so that its parts can be tested and used by the repository's own tasks.

pub mod stf;
