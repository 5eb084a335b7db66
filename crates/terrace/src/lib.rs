//! The library behind the `terrace` command, for tests and for the repository's own tasks.
//!
//! [`cli`] has one file per subcommand. [`program`] reads P4 with the include files in the binary.
//! [`stf`] implements the test language. [`cache_eval`] evaluates flow caches.

#[cfg(feature = "wings")]
pub mod cache_eval;
pub mod cli;
pub mod doctor;
pub mod lab;
#[cfg(feature = "wings")]
pub mod plan;
pub mod program;
pub mod run_stats;
pub mod stf;
