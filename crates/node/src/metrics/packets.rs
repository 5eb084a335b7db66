//! Metrics of packets, in the program and at ports.

use super::samples::{CounterSamples, LabelValues, ValueSamples, one};
use super::scrape::ScrapeSnapshot;
use crate::counts::PortCounts;
use crate::host::HostCounts;
use crate::observe::drop_reason_layer;
use crate::status::PortState;
use crate::underlay::PortLinkStatus;

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

/// Labels of the host side of a port, and one or two more.
fn host_labels(number: u32, host: &HostCounts, last: &[&str]) -> LabelValues {
    let first = [number.to_string(), host.interface.clone()];
    first.into_iter().chain(last.iter().map(|label| (*label).to_owned())).collect()
}

pub(super) fn to_host(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let of = |(number, host): (&u32, &HostCounts)| -> CounterSamples {
        let kinds = host.to_host.iter().copied().chain([("from_host", host.from_host)]);
        kinds.map(|(kind, count)| (host_labels(*number, host, &[kind]), count)).collect()
    };
    seen.node.host_counts().iter().flat_map(of).collect()
}

pub(super) fn host_dropped(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let of = |(number, host): (&u32, &HostCounts)| -> CounterSamples {
        let drops = host.drops.iter();
        drops.map(|(reason, kind, count)| (host_labels(*number, host, &[kind, reason]), *count)).collect()
    };
    seen.node.host_counts().iter().flat_map(of).collect()
}

pub(super) fn port_up(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let links = seen.node.port_states().states();
    let is_up = |number: &u32, port: &PortCounts| {
        let has_link = links.get(number).is_none_or(|link| matches!(link.state, PortState::Up | PortState::Held));
        port.fault.is_none() && has_link
    };
    let up = |number: &u32, port: &PortCounts| f64::from(u8::from(is_up(number, port)));
    seen.sum.ports.iter().map(|(number, port)| (labels(*number, port, None), up(number, port))).collect()
}

fn sample_per_link(seen: &ScrapeSnapshot<'_>, value: impl Fn(&PortLinkStatus) -> f64) -> ValueSamples {
    let links = seen.node.port_states().states();
    links.iter().map(|(number, link)| (vec![number.to_string(), link.device.clone()], value(link))).collect()
}

pub(super) fn port_state(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let links = seen.node.port_states().states();
    let of_link = |(number, link): (&u32, &PortLinkStatus)| {
        PortState::ALL.map(|state| {
            let labels = vec![number.to_string(), link.device.clone(), state.name().to_owned()];
            (labels, f64::from(u8::from(link.state == state)))
        })
    };
    links.iter().flat_map(of_link).collect()
}

pub(super) fn port_changes(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_link(seen, |link| link.changes as f64)
}

pub(super) fn port_down_seconds(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_link(seen, |link| link.down_time.as_secs_f64())
}
