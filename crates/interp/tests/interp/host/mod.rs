//! The extern host: an engine that takes its externs from it gives what the interpreter gives.
//!
//! Each pipeline here runs twice, in the interpreter and in a naive engine of the test's own (`mini.rs`), on the same random packets,
//! writes and times. Results, verdicts and all that is kept are compared after each step. A test fails if it compared too little.

mod effects;
mod flows;
mod hashes;
mod mini;
mod state;
mod twin;
