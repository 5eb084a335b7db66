//! A node's values as families of metrics.

use crate::Node;
use crate::counts::Counts;
use crate::observe::{Observation, TableNow, blames};
use crate::status::Version;
use io::Latency;
use p4runtime::server::RequestKind;
use packet::Counter;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::atomic::Ordering;

/// Upper bounds of the buckets of times, in nanoseconds.
const BOUNDS: [u64; 16] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
    500_000_000,
    2_000_000_000,
    10_000_000_000,
];

type Labels = Vec<(&'static str, String)>;

/// One metric of a family; without labels, no empty braces are written.
fn with_labels(
    metric: &mut MetricEncoder<'_>,
    labels: &Labels,
    encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { encode(metric) } else { encode(&mut metric.encode_family(labels)?) }
}

/// Metrics of one name, each with labels.
pub(super) struct Family<'e, 'd> {
    encoder: &'e mut DescriptorEncoder<'d>,
}

impl<'e, 'd> Family<'e, 'd> {
    pub fn of(encoder: &'e mut DescriptorEncoder<'d>) -> Family<'e, 'd> {
        Family { encoder }
    }

    /// Values that only grow. `_total` is added to the name.
    pub fn counters(&mut self, name: &str, help: &str, all: impl Iterator<Item = (Labels, f64)>) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in all {
            with_labels(&mut metric, &labels, |one| match value.fract() == 0.0 && value < 2f64.powi(53) {
                true => one.encode_counter::<NoLabelSet, _, u64>(&(value as u64), None),
                false => one.encode_counter::<NoLabelSet, _, u64>(&value, None),
            })?;
        }
        Ok(())
    }

    /// Values that go up and down.
    pub fn gauges(&mut self, name: &str, help: &str, all: impl Iterator<Item = (Labels, i64)>) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in all {
            with_labels(&mut metric, &labels, |one| one.encode_gauge(&value))?;
        }
        Ok(())
    }

    /// Packets and bytes: two families, `{name}_packets` and `{name}_bytes`.
    pub fn counts(&mut self, name: &str, help: &str, all: &[(Labels, Counter)]) -> fmt::Result {
        let half =
            |value: fn(&Counter) -> u64| all.iter().map(move |(labels, count)| (labels.clone(), value(count) as f64));
        self.counters(&format!("{name}_packets"), &format!("Packets {help}"), half(|count| count.packets))?;
        self.counters(&format!("{name}_bytes"), &format!("Bytes of packets {help}"), half(|count| count.bytes))
    }

    /// Distributions of times, in seconds.
    pub fn times<'a>(
        &mut self,
        name: &str,
        help: &str,
        all: impl Iterator<Item = (Labels, &'a Latency)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, latency) in all {
            let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(latency.counts(&BOUNDS)).collect();
            let sum = latency.sum() as f64 / 1e9;
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, latency.count(), &buckets, None)?;
        }
        Ok(())
    }
}

/// All of a node's own.
pub(super) fn encode(node: &Node, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = Family::of(encoder);
    let now = node.observe();
    let sum = now.sum();
    about(&mut family, &node.version())?;
    ports(&mut family, &sum)?;
    drops(&mut family, &sum)?;
    tables(&mut family, &now, &node.tables_now())?;
    workers(&mut family, &now, &node.behind())?;
    controllers(&mut family, node, &now)
}

fn about(family: &mut Family<'_, '_>, version: &Version) -> fmt::Result {
    let build = vec![("version", version.terraced.clone()), ("device_id", version.device_id.to_string())];
    family.gauges("build_info", "The version of the node", std::iter::once((build, 1)))?;
    let program = version.program.as_ref().map(|program| {
        let names = [("program", &program.name), ("engine", &program.engine), ("cache", &program.cache)];
        (names.map(|(label, name)| (label, name.clone())).to_vec(), 1)
    });
    family.gauges("program_info", "The program that runs; none: no controller has set one", program.into_iter())?;
    let fallback = version.program.iter().map(|program| (Vec::new(), i64::from(program.falls_back)));
    family.gauges(
        "program_fallback",
        "1: the program runs on the reference engine, as native code does not take it",
        fallback,
    )?;
    let written = version.program.iter().map(|program| (Vec::new(), program.tables_version as i64));
    family.gauges("tables_version", "How many writes the tables of the program have seen", written)?;
    let uptime = std::iter::once((Vec::new(), version.uptime_seconds as i64));
    family.gauges("uptime_seconds", "Seconds since the node began", uptime)
}

fn ports(family: &mut Family<'_, '_>, sum: &Counts) -> fmt::Result {
    let labels = |number: &u32, name: &str| vec![("port", number.to_string()), ("device", name.to_owned())];
    let both = sum.ports.iter().flat_map(|(number, port)| {
        [("in", port.received), ("out", port.sent)].map(|(direction, counter)| {
            let mut labels = labels(number, &port.name);
            labels.push(("direction", direction.to_owned()));
            (labels, counter)
        })
    });
    family.counts("port", "through a port", &both.collect::<Vec<_>>())?;
    let lost = sum.ports.iter().flat_map(|(number, port)| {
        port.drops.iter().map(|(reason, counter)| {
            let mut labels = labels(number, &port.name);
            labels.push(("reason", reason.clone()));
            (labels, *counter)
        })
    });
    family.counts("port_dropped", "that a port lost", &lost.collect::<Vec<_>>())?;
    let up = sum.ports.iter().map(|(number, port)| (labels(number, &port.name), i64::from(port.trouble.is_none())));
    family.gauges("port_up", "1 if packets can go through the port", up)
}

fn drops(family: &mut Family<'_, '_>, sum: &Counts) -> fmt::Result {
    let dropped = sum
        .drops
        .iter()
        .map(|(reason, counter)| (vec![("reason", reason.clone()), ("by", blames(reason).to_owned())], *counter));
    family.counts("dropped", "that the program or the engine dropped", &dropped.collect::<Vec<_>>())?;
    let punted = sum.to_cpu.iter().map(|(reason, counter)| (vec![("reason", reason.clone())], *counter));
    family.counts("to_controller", "that the program gave to the controller", &punted.collect::<Vec<_>>())?;
    let [received, forwarded] = [sum.received, sum.forwarded].map(|counter| [(Vec::new(), counter)]);
    family.counts("received", "that the engine was given", &received)?;
    family.counts("forwarded", "that left the engine for a port", &forwarded)?;
    let made = std::iter::once((Vec::new(), sum.copies as f64));
    family.counters("copied_packets", "Further packets that the program made", made)
}

fn tables(family: &mut Family<'_, '_>, now: &Observation, tables: &[TableNow]) -> fmt::Result {
    let counted = &now.tallied.tables;
    let result = |table: &str, hit: bool| {
        vec![("table", table.to_owned()), ("result", if hit { "hit" } else { "miss" }.to_owned())]
    };
    let applied = counted
        .iter()
        .flat_map(|(table, counts)| [(result(table, true), counts.hits), (result(table, false), counts.misses)]);
    family.counts("table", "that were looked up in a table", &applied.collect::<Vec<_>>())?;
    let actions = counted.iter().flat_map(|(table, counts)| {
        counts.actions.iter().flat_map(move |(action, [hits, misses])| {
            [(true, *hits), (false, *misses)].map(|(hit, count)| {
                let mut labels = result(table, hit);
                labels.push(("action", action.clone()));
                (labels, count)
            })
        })
    });
    // Which of a table's actions can't be a default action is not worth a line of zeros.
    let actions: Vec<_> = actions.filter(|(_, count)| count.packets > 0).collect();
    family.counts("action", "for which a table chose an action", &actions)?;
    let of = |value: fn(&TableNow) -> u64| {
        tables.iter().map(move |table| (vec![("table", table.name.clone())], value(table) as i64))
    };
    family.gauges("table_entries", "Entries of a table", of(|table| table.entries))?;
    family.gauges("table_entries_high_water", "The most entries that a table has had", of(|table| table.high_water))?;
    let sized = tables.iter().filter_map(|t| Some((vec![("table", t.name.clone())], t.size? as i64)));
    family.gauges("table_size", "As many entries as a table may have", sized)?;
    family.gauges("table_memory_bytes", "Memory that a table takes, about", of(|table| table.memory_bytes))?;
    let tiers = now.tallied.tiers.iter().map(|(tier, packets)| (vec![("tier", tier.clone())], *packets as f64));
    family.counters("tier_packets", "Packets that a tier has done with", tiers)?;
    let stages = &now.tallied.stages;
    let packets = stages.iter().map(|(stage, counts)| (vec![("stage", stage.clone())], counts.count.packets as f64));
    family.counters("stage_packets", "Packets through a stage of the native code", packets)?;
    let ticks: u64 = stages.values().map(|counts| counts.ticks).sum();
    let engine = now.sum().engine_time.as_secs_f64();
    let seconds = stages
        .iter()
        .map(|(stage, counts)| (vec![("stage", stage.clone())], engine * counts.ticks as f64 / ticks.max(1) as f64));
    family.gauges_of_seconds("stage_seconds", "Time of the workers in a stage, about", seconds)
}

impl Family<'_, '_> {
    /// Seconds that are shared out by measurement, and so may go back a little.
    fn gauges_of_seconds(&mut self, name: &str, help: &str, all: impl Iterator<Item = (Labels, f64)>) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in all {
            with_labels(&mut metric, &labels, |one| one.encode_gauge(&value))?;
        }
        Ok(())
    }
}

fn workers(family: &mut Family<'_, '_>, now: &Observation, behind: &[u64]) -> fmt::Result {
    let labels = |number: usize| vec![("worker", number.to_string())];
    let of = |value: fn(&Counts) -> f64| {
        now.workers.iter().enumerate().map(move |(number, counts)| (labels(number), value(counts)))
    };
    family.counters("worker_packets", "Packets that a worker received", of(|counts| counts.received.packets as f64))?;
    family.counters("worker_batches", "Batches of a worker", of(|counts| counts.batches as f64))?;
    family.counters("worker_seconds", "Time of a worker", of(|counts| counts.run_time.as_secs_f64()))?;
    let busy = of(|counts| counts.busy_time.as_secs_f64());
    family.counters("worker_busy_seconds", "Time in which a worker had packets", busy)?;
    let engine = of(|counts| counts.engine_time.as_secs_f64());
    family.counters("worker_engine_seconds", "Time of a worker in the program", engine)?;
    let behind = behind.iter().enumerate().map(|(number, versions)| (labels(number), *versions as i64));
    family.gauges("worker_versions_behind", "How many writes to tables a worker has not seen yet", behind)?;
    let residence = now.workers.iter().enumerate().map(|(number, counts)| (labels(number), &counts.residence));
    family.times("residence_seconds", "Time of a packet with a worker, from received to handed to a port", residence)
}

fn controllers(family: &mut Family<'_, '_>, node: &Node, now: &Observation) -> fmt::Result {
    let service = node.service();
    let connections = std::iter::once((Vec::new(), service.watch.connections() as i64));
    family.gauges("controller_connections", "Connections of controllers", connections)?;
    let clients = service.watch.clients();
    let roles = [true, false].map(|primary| {
        let count = clients.iter().filter(|client| client.role.is_some() && client.primary == primary).count();
        let standing = if primary { "primary" } else { "backup" };
        (vec![("standing", standing.to_owned())], count as i64)
    });
    family.gauges("controllers", "Controllers that have told who they are", roles.into_iter())?;
    let refused = service.counters.refused_connections.load(Ordering::Relaxed) as f64;
    let none = || std::iter::once(Vec::new());
    family.counters("refused_connections", "Connections refused, as there were too many", none().zip([refused]))?;
    let lost = service.counters.lost_messages.load(Ordering::Relaxed) + node.events_lost();
    family.counters("lost_messages", "Messages for controllers that none got", none().zip([lost as f64]))?;
    let requests = RequestKind::ALL.into_iter().flat_map(|kind| {
        let answered = now.requests.get(&kind).cloned().unwrap_or_default();
        let ok = answered.time.count().saturating_sub(answered.refused);
        [("ok", ok), ("refused", answered.refused)].map(|(result, count)| {
            (vec![("request", kind.name().to_owned()), ("result", result.to_owned())], count as f64)
        })
    });
    family.counters("requests", "Requests of controllers", requests)?;
    let times = now.requests.iter().map(|(kind, a)| (vec![("request", kind.name().to_owned())], &a.time));
    family.times("request_seconds", "Time until a request of a controller was answered", times)
}
