//! Metrics of packets, in the program and at ports.

use super::samples::{CounterSamples, LabelValues, ValueSamples, one};
use super::scrape::ScrapeSnapshot;
use crate::counts::PortCounts;
use crate::observe::drop_reason_layer;

pub(super) fn received(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    one(seen.sum.received)
}

pub(super) fn copied(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.sum.copies as f64)
}

pub(super) fn super_frames(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let counts = seen.sum.offloads;
    let rows = [("received", counts.received), ("sent_whole", counts.sent_whole), ("cut", counts.cut)];
    rows.into_iter().map(|(outcome, count)| (vec![outcome.to_owned()], count as f64)).collect()
}

pub(super) fn segments(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.sum.offloads.segments as f64)
}

pub(super) fn completed_checksums(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.sum.offloads.checksums as f64)
}

pub(super) fn forwarded(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    one(seen.sum.forwarded)
}

pub(super) fn dropped(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let labels = |reason: &String| vec![reason.clone(), drop_reason_layer(reason).to_owned()];
    seen.sum.drops.iter().map(|(reason, count)| (labels(reason), *count)).collect()
}

pub(super) fn to_controller(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    seen.sum.to_cpu.iter().map(|(reason, count)| (vec![reason.clone()], *count)).collect()
}

fn labels(number: u32, port: &PortCounts, last: Option<&str>) -> LabelValues {
    [number.to_string(), port.name.clone()].into_iter().chain(last.map(str::to_owned)).collect()
}

pub(super) fn port(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let both = |(number, port): (&u32, &PortCounts)| {
        [("in", port.received), ("out", port.sent)].map(|(way, count)| (labels(*number, port, Some(way)), count))
    };
    seen.sum.ports.iter().flat_map(both).collect()
}

pub(super) fn port_dropped(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let drops = |(number, port): (&u32, &'_ PortCounts)| -> CounterSamples {
        port.drops.iter().map(|(reason, count)| (labels(*number, port, Some(reason)), *count)).collect()
    };
    seen.sum.ports.iter().flat_map(drops).collect()
}

pub(super) fn port_up(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let up = |port: &PortCounts| f64::from(u8::from(port.fault.is_none()));
    seen.sum.ports.iter().map(|(number, port)| (labels(*number, port, None), up(port))).collect()
}
