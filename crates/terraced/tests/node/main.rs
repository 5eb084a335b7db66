//! Tests a node with its workers, on wired ports.

mod apart;
mod cached_sessions;
mod contents;
mod engines;
mod explain;
mod levels;
mod observed;
mod restart;
mod sessions;
mod store;
mod support;
mod switch;
mod takeover;
mod traffic;
#[path = "../wire/mod.rs"]
mod wire;
