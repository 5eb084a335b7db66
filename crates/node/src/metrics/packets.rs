//! What became of packets, at ports and in the program.

use super::samples::{Counted, LabelValues, Values, one};
use super::seen::Seen;
use crate::counts::PortCounts;
use crate::observe::blames;

pub(super) fn received(seen: &Seen<'_>) -> Counted {
    one(seen.sum.received)
}

pub(super) fn copied(seen: &Seen<'_>) -> Values {
    one(seen.sum.copies as f64)
}

pub(super) fn forwarded(seen: &Seen<'_>) -> Counted {
    one(seen.sum.forwarded)
}

pub(super) fn dropped(seen: &Seen<'_>) -> Counted {
    let labels = |reason: &String| vec![reason.clone(), blames(reason).to_owned()];
    seen.sum.drops.iter().map(|(reason, count)| (labels(reason), *count)).collect()
}

pub(super) fn to_controller(seen: &Seen<'_>) -> Counted {
    seen.sum.to_cpu.iter().map(|(reason, count)| (vec![reason.clone()], *count)).collect()
}

fn labels(number: u32, port: &PortCounts, last: Option<&str>) -> LabelValues {
    [number.to_string(), port.name.clone()].into_iter().chain(last.map(str::to_owned)).collect()
}

pub(super) fn port(seen: &Seen<'_>) -> Counted {
    let both = |(number, port): (&u32, &PortCounts)| {
        [("in", port.received), ("out", port.sent)].map(|(way, count)| (labels(*number, port, Some(way)), count))
    };
    seen.sum.ports.iter().flat_map(both).collect()
}

pub(super) fn port_dropped(seen: &Seen<'_>) -> Counted {
    let drops = |(number, port): (&u32, &'_ PortCounts)| -> Counted {
        port.drops.iter().map(|(reason, count)| (labels(*number, port, Some(reason)), *count)).collect()
    };
    seen.sum.ports.iter().flat_map(drops).collect()
}

pub(super) fn port_up(seen: &Seen<'_>) -> Values {
    let up = |port: &PortCounts| f64::from(u8::from(port.trouble.is_none()));
    seen.sum.ports.iter().map(|(number, port)| (labels(*number, port, None), up(port))).collect()
}
