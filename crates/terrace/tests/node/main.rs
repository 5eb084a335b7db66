//! Tests `terrace` commands that query a running node.

#[allow(dead_code)]
#[path = "../command/mod.rs"]
mod command;
mod gateway_node;
mod gateway_packets;
mod lab;
mod nat;
mod services;
mod sessions;
mod show;
#[path = "../command/text_edits.rs"]
mod text_edits;
mod trace;
