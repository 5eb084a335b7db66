//! [`METRICS`]: the metrics of a node, each with its labels, what it is, and where its values come from.
//!
//! This list is all that says it: families are encoded from it, and the table of docs/metrics.md is made
//! of it (`crates/terraced/tests/metrics.rs`).

use super::samples::{Counted, Times, Values};
use super::seen::Seen;
use super::{about, packets, service, tables, workers};

/// A metric. The names of all begin with `terrace_`.
pub struct Metric {
    /// Its name, without what all names begin with, and without `_total`.
    pub name: &'static str,
    /// Names of its labels, in the order in which samples have their values.
    pub labels: &'static [&'static str],
    /// What it is: as Prometheus is told it, and as docs/metrics.md has it.
    pub help: &'static str,
    /// Its kind, and its values.
    pub(super) source: Source,
}

/// The kind of a metric, and where its values come from.
pub(super) enum Source {
    /// Goes up and down.
    Gauge(fn(&Seen<'_>) -> Values),
    /// Only grows.
    Counter(fn(&Seen<'_>) -> Values),
    /// Only grows: the packets of what was counted.
    Packets(fn(&Seen<'_>) -> Counted),
    /// Only grows: the bytes of what was counted.
    Bytes(fn(&Seen<'_>) -> Counted),
    /// A distribution of times, in seconds.
    Histogram(fn(&Seen<'_>) -> Times),
}

impl Metric {
    /// The kind, as OpenMetrics names it.
    pub fn kind(&self) -> &'static str {
        match self.source {
            Source::Gauge(_) => "gauge",
            Source::Counter(_) | Source::Packets(_) | Source::Bytes(_) => "counter",
            Source::Histogram(_) => "histogram",
        }
    }
}

/// `NAME(LABELS) KIND(FUNCTION): HELP`, a line each.
macro_rules! metrics {
    ($($name:ident($($label:ident),*) $kind:ident($source:path): $help:literal)*) => {
        /// The metrics of a node, in the order in which they are told.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            labels: &[$(stringify!($label)),*],
            help: $help,
            source: Source::$kind($source),
        }),*];
    };
}

metrics! {
    build_info(version, device_id) Gauge(about::build): "1"
    program_info(program, engine, cache) Gauge(about::program): "1; none if no controller has set a program. `engine` and `cache` are as in the configuration"
    program_fallback() Gauge(about::fallback): "1 if native code was asked for and does not take the program, so that it runs on the reference engine, at about a tenth of the speed; `terrace show version` says why"
    uptime_seconds() Gauge(about::uptime): "Seconds since the process began"
    tables_version() Gauge(about::tables_version): "Writes that the tables of the program have seen"

    received_packets() Packets(packets::received): "Packets given to the program, also by the kernel's flow cache"
    received_bytes() Bytes(packets::received): "Bytes of packets given to the program"
    copied_packets() Counter(packets::copied): "Packets made by the program: further copies of a packet (multicast, clones), and its own"
    forwarded_packets() Packets(packets::forwarded): "Packets that left the program for a port"
    forwarded_bytes() Bytes(packets::forwarded): "Bytes of packets that left the program for a port"
    dropped_packets(reason, by) Packets(packets::dropped): "Packets dropped by the `program` or the `engine`; `port`: the controller's queue was full"
    dropped_bytes(reason, by) Bytes(packets::dropped): "Bytes of packets dropped"
    to_controller_packets(reason) Packets(packets::to_controller): "Packets given to the controller"
    to_controller_bytes(reason) Bytes(packets::to_controller): "Bytes of packets given to the controller"
    port_packets(port, device, direction) Packets(packets::port): "Packets through a port; `in`: received; `out`: sent"
    port_bytes(port, device, direction) Bytes(packets::port): "Bytes of packets through a port"
    port_dropped_packets(port, device, reason) Packets(packets::port_dropped): "Packets lost at a port"
    port_dropped_bytes(port, device, reason) Bytes(packets::port_dropped): "Bytes of packets lost at a port"
    port_up(port, device) Gauge(packets::port_up): "1 if packets can go through the port"

    table_packets(table, result) Packets(tables::applied): "Packets looked up in a table; `hit` or `miss`"
    table_bytes(table, result) Bytes(tables::applied): "Bytes of packets looked up in a table"
    action_packets(table, result, action) Packets(tables::actions): "Packets by the action that a table chose, by an entry (`hit`) or by default (`miss`)"
    action_bytes(table, result, action) Bytes(tables::actions): "Bytes of packets by the action that a table chose"
    table_entries(table) Gauge(tables::entries): "Entries of a table now"
    table_entries_high_water(table) Gauge(tables::high_water): "The most entries since the program began"
    table_size(table) Gauge(tables::size): "Entries that a table may have; none: no bound"
    table_memory_bytes(table) Gauge(tables::memory): "Memory of a table's entries and lookups, about"
    tier_packets(tier) Counter(tables::tiers): "Packets that a tier has done with: `switch`, `kernel` (XDP), `dpu` (a flow cache) or `cpu`; none if one engine has the whole program"
    stage_packets(stage) Counter(tables::stage_packets): "Packets through a stage of the native code"
    stage_seconds(stage) Gauge(tables::stage_seconds): "Time of the workers in a stage, shared out by the processor's clock; a table that another stage looks up, in place or together with its own, is in that one's time"
    counter_packets(counter, by, index) Packets(tables::program_counters): "Packets that the program counted: the greatest elements of a counter, and `rest`"
    counter_bytes(counter, by, index) Bytes(tables::program_counters): "Bytes that the program counted"

    worker_packets(worker) Counter(workers::packets): "Packets that a worker received"
    worker_batches(worker) Counter(workers::batches): "Batches of a worker"
    worker_seconds(worker) Counter(workers::run_time): "Time since a worker began"
    worker_busy_seconds(worker) Counter(workers::busy_time): "Time with packets: receiving, the program, sending"
    worker_engine_seconds(worker) Counter(workers::engine_time): "Time in the program"
    worker_versions_behind(worker) Gauge(workers::behind): "Writes to tables that a worker has not seen; 0 while it rests"
    residence_seconds(worker) Histogram(workers::residence): "How long packets were with a worker, from received to handed to a port"

    controller_connections() Gauge(service::connections): "Connections of controllers"
    controllers(standing) Gauge(service::controllers): "Controllers that have told their role; `primary` or `backup`"
    refused_connections() Counter(service::refused_connections): "Connections refused, as there were too many"
    lost_messages() Counter(service::lost_messages): "Packets, digests and notifications that no controller got"
    requests(request, result) Counter(service::requests): "Requests of controllers; `ok` or `refused`"
    request_seconds(request) Histogram(service::request_times): "Time until the answer to a request began"
}
