//! Metrics of the region's NATs.

use super::samples::ValueSamples;
use super::scrape::ScrapeSnapshot;
use crate::nat::{NatUse, PortUse};

fn sample_per_nat(seen: &ScrapeSnapshot<'_>, value: fn(&NatUse) -> u64) -> ValueSamples {
    seen.nats.iter().map(|nat| (vec![nat.name.clone()], value(nat) as f64)).collect()
}

fn sample_per_protocol(seen: &ScrapeSnapshot<'_>, value: fn(&PortUse) -> u64) -> ValueSamples {
    let ports = seen.nats.iter().flat_map(|nat| nat.ports.iter().map(move |ports| (nat, ports)));
    ports.map(|(nat, ports)| (vec![nat.name.clone(), ports.protocol.clone()], value(ports) as f64)).collect()
}

pub(super) fn ports(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_protocol(seen, |ports| ports.used)
}

pub(super) fn port_capacity(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_protocol(seen, |ports| ports.capacity)
}

pub(super) fn blocks(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_nat(seen, |nat| nat.blocks)
}

pub(super) fn block_capacity(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_nat(seen, |nat| nat.block_capacity)
}

pub(super) fn full_addresses(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_nat(seen, |nat| nat.full_addresses.into())
}

pub(super) fn refused(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let refused = seen.nats.iter().flat_map(|nat| nat.refused.iter().map(move |refused| (nat, refused)));
    refused.map(|(nat, (reason, count))| (vec![nat.name.clone(), reason.clone()], *count as f64)).collect()
}

pub(super) fn block_log(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let counts = seen.node.block_log_counts();
    let counts = [("written", counts.written), ("lost", counts.lost)];
    counts.map(|(outcome, count)| (vec![outcome.to_owned()], count as f64)).into()
}
