//! Tests the lab as a user runs it, with the real gateway: network namespaces, the kernel's VXLAN,
//! real packets.
//!
//! Where namespaces are not allowed, the tests report it and run the scenario from capture to
//! capture instead; in CI (`CI=true`) that is a failure.

mod changes;
mod cleanup;
#[allow(dead_code)]
#[path = "../command/mod.rs"]
mod command;
mod demo;
mod engines;
mod fragments;
mod icmp;
mod internet;
mod ipv6_internet;
mod links;
mod nat64;
mod place;
mod public_addresses;
mod readme;
mod security_groups;
mod services;
mod takeover;
mod tc_hook;
#[path = "../command/text_edits.rs"]
mod text_edits;
mod traffic;
