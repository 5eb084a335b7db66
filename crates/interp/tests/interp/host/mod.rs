//! Tests the extern host: an engine that takes its externs from it behaves as the interpreter.
//!
//! Each pipeline here runs twice, in the interpreter and in a naive engine (`mini.rs`), on the same
//! random packets, writes and times. Results, verdicts and all state are compared after each step.
//! A test fails if it compared too little.

mod effects;
mod flows;
mod hashes;
mod mini;
mod state;
mod twin;
