//! Tests the process `terraced` from outside.

#[path = "../../examples/hostile/attacks.rs"]
mod attacks;
mod carried;
mod daemon;
mod explained;
mod followed;
mod forward;
mod full;
mod hostile;
mod killed;
#[allow(dead_code)]
#[path = "../../../io/tests/support/mod.rs"]
mod namespaces;
mod processors;
mod region;
mod scraped;
mod signals;
mod takeover;
mod tiers;
#[path = "../wire/mod.rs"]
mod wire;
