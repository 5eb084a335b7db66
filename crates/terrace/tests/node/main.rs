//! Tests `terrace` commands that query a running node.

#[allow(dead_code)]
#[path = "../command/mod.rs"]
mod command;
mod lab;
mod sessions;
mod show;
mod trace;
