//! `terrace` asks a node that runs.

#[allow(dead_code)]
#[path = "../command/mod.rs"]
mod command;
mod lab;
mod show;
mod trace;
