//! Tests the process `terraced` from outside.

#[path = "../../examples/hostile/attacks.rs"]
mod attacks;
mod carried;
mod daemon;
mod explained;
mod followed;
mod forward;
mod full;
#[allow(dead_code)]
#[path = "../../../terrace/tests/node/gateway_packets.rs"]
mod gateway_packets;
mod hostile;
mod killed;
#[allow(dead_code)]
#[path = "../../../io/tests/support/mod.rs"]
mod namespaces;
mod nat_blocks;
mod processors;
mod region;
mod scraped;
mod signals;
mod takeover;
mod tiers;
#[path = "../wire/mod.rs"]
mod wire;
