//! The command line: the library behind `terrace`, so that its parts can be tested and used by the repository's own tasks.
//!
//! [`cli`] has a file per subcommand; [`program`] reads P4 with the include files that the binary carries; [`stf`] is the test language;
//! [`cache_eval`] measures flow caches.

#[cfg(feature = "wings")]
pub mod cache_eval;
pub mod cli;
pub mod lab;
#[cfg(feature = "wings")]
pub mod plan;
pub mod program;
pub mod run_stats;
pub mod stf;
