//! Tests `terrace` commands that query a running node.

#[allow(dead_code)]
#[path = "../command/mod.rs"]
mod command;
mod gateway_packets;
mod lab;
mod nat;
mod sessions;
mod show;
mod trace;
