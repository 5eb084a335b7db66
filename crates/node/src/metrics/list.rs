//! [`METRICS`]: the metrics of a node, with labels, help text and source of values.
//!
//! This list is the only definition of the metrics: the families are encoded from it, and a test
//! generates the table of docs/reference/metrics.md from it (`crates/terraced/tests/files/metrics.rs`).

use super::samples::{CounterSamples, HistogramSamples, ValueSamples};
use super::scrape::ScrapeSnapshot;
use super::{about, flow_tables, nat, packets, service, tables, underlay, workers};

/// A metric. All names have the prefix `terrace_`.
pub struct Metric {
    /// Name without the prefix `terrace_` and without the suffix `_total`.
    pub name: &'static str,
    /// Names of the labels, in the order of the samples' values.
    pub labels: &'static [&'static str],
    /// Help text for Prometheus and docs/reference/metrics.md.
    pub help: &'static str,
    /// Type and source of the values.
    pub(super) source: MetricSource,
}

/// Type of a metric, and the function that returns its values.
pub(super) enum MetricSource {
    /// A value that can decrease.
    Gauge(fn(&ScrapeSnapshot<'_>) -> ValueSamples),
    /// A value that only grows.
    Counter(fn(&ScrapeSnapshot<'_>) -> ValueSamples),
    /// A value that only grows: the packets of a counter.
    Packets(fn(&ScrapeSnapshot<'_>) -> CounterSamples),
    /// A value that only grows: the bytes of a counter.
    Bytes(fn(&ScrapeSnapshot<'_>) -> CounterSamples),
    /// A distribution of times, in seconds.
    Histogram(fn(&ScrapeSnapshot<'_>) -> HistogramSamples),
}

impl Metric {
    /// Returns the type as OpenMetrics names it.
    pub fn kind(&self) -> &'static str {
        match self.source {
            MetricSource::Gauge(_) => "gauge",
            MetricSource::Counter(_) | MetricSource::Packets(_) | MetricSource::Bytes(_) => "counter",
            MetricSource::Histogram(_) => "histogram",
        }
    }
}

/// Defines [`METRICS`] from lines `NAME(LABELS) KIND(FUNCTION): HELP`.
macro_rules! metrics {
    ($($name:ident($($label:ident),*) $kind:ident($source:path): $help:literal)*) => {
        /// The metrics of a node, in the order in which they are encoded.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            labels: &[$(stringify!($label)),*],
            help: $help,
            source: MetricSource::$kind($source),
        }),*];
    };
}

metrics! {
    build_info(version, device_id) Gauge(about::build): "1; the labels identify the build and the node"
    program_info(program, engine, cache) Gauge(about::program): "1; absent if no program is set. `engine` and `cache` are as in the configuration"
    program_fallback() Gauge(about::fallback): "1 if native code was configured but does not support the program, so that it runs on the reference engine, at about a tenth of the speed; `terrace show version` shows the reason"
    uptime_seconds() Gauge(about::uptime): "Seconds since the start of the process"
    table_version() Gauge(about::tables_version): "Number of writes to the tables of the program"

    received_packets() Packets(packets::received): "Packets passed to the program, including those of the kernel's flow cache"
    received_bytes() Bytes(packets::received): "Bytes of packets passed to the program"
    copied_packets() Counter(packets::copied): "Packets created by the program: additional copies (multicast, clones) and generated packets"
    forwarded_packets() Packets(packets::forwarded): "Packets that the program forwarded to a port"
    forwarded_bytes() Bytes(packets::forwarded): "Bytes of packets that the program forwarded to a port"
    dropped_packets(reason, layer) Packets(packets::dropped): "Packets dropped by the `program` or the `engine`; `port`: the controller's queue was full"
    dropped_bytes(reason, layer) Bytes(packets::dropped): "Bytes of packets dropped"
    punted_packets(reason) Packets(packets::to_controller): "Packets sent to the controller"
    punted_bytes(reason) Bytes(packets::to_controller): "Bytes of packets sent to the controller"
    port_packets(port, device, direction) Packets(packets::port): "Packets through a port; `in`: received; `out`: sent"
    port_bytes(port, device, direction) Bytes(packets::port): "Bytes of packets through a port"
    port_dropped_packets(port, device, reason) Packets(packets::port_dropped): "Packets lost at a port"
    port_dropped_bytes(port, device, reason) Bytes(packets::port_dropped): "Bytes of packets lost at a port"
    super_frames(outcome) Counter(packets::super_frames): "Packets of several TCP or UDP segments: `received`; `sent_whole` on a port that takes them; `cut`. A super-frame counts as one packet until it is cut"
    super_frame_segments() Counter(packets::segments): "Segments into which super-frames were cut"
    completed_checksums() Counter(packets::completed_checksums): "Open checksums of packets of one segment that were completed, because an engine, a port or a controller takes complete packets only"
    host_packets(port, interface, kind) Packets(packets::to_host): "Packets that the host side of an uplink received, by kind (a punt reason); `from_host`: frames that it sent"
    host_bytes(port, interface, kind) Bytes(packets::to_host): "Bytes of packets between the gateway and the host side of an uplink"
    host_dropped_packets(port, interface, kind, reason) Packets(packets::host_dropped): "Packets lost between the gateway and the host side of an uplink"
    host_dropped_bytes(port, interface, kind, reason) Bytes(packets::host_dropped): "Bytes of packets lost between the gateway and the host side of an uplink"
    port_up(port, device) Gauge(packets::port_up): "1 if the port can forward packets, else 0"
    port_state(port, device, state) Gauge(packets::port_state): "1 for the state of the port's link: `up`, `held` (up again, not used yet), `down` or `missing` (no such interface)"
    port_changes(port, device) Counter(packets::port_changes): "Changes of the port's link since the process started"
    port_down_seconds(port, device) Counter(packets::port_down_seconds): "Seconds without a link since the process started"
    underlay_routes() Gauge(underlay::routes): "Routes of the kernel in the gateway's tables; absent without `underlay: kernel`, as the next four"
    underlay_next_hops(state) Gauge(underlay::next_hops): "Next hops of these routes; `usable`, `unresolved` (no MAC address) or `down` (the link is down)"
    underlay_unreached() Gauge(underlay::unreached): "Servers and remotes to which no route of the kernel by an uplink leads"
    underlay_overflow() Gauge(underlay::overflow): "Servers and remotes whose routes are more than `max_routes` or the tables take"
    path_mtus() Gauge(underlay::path_mtus): "Servers and remotes whose path carries less than the port, as routers have reported"
    path_mtu_reports(result) Counter(underlay::path_mtu_reports): "ICMP errors about the length of packets to servers and remotes; `accepted`; `clamped`: less than `min_path_mtu`, which counts instead; `lost`: too many at once; the others were not believed, by the first check that failed"
    underlay_resyncs(reason) Counter(underlay::resyncs): "Times that all routes and neighbours of the kernel were read again; `overrun`: messages were lost; `comparison`: a dump differed from the messages; `error`: netlink failed"

    table_packets(table, result) Packets(tables::applied): "Packets looked up in a table; `hit` or `miss`"
    table_bytes(table, result) Bytes(tables::applied): "Bytes of packets looked up in a table"
    action_packets(table, result, action) Packets(tables::actions): "Packets by the action that a table selected: of an entry (`hit`) or the default action (`miss`)"
    action_bytes(table, result, action) Bytes(tables::actions): "Bytes of packets by the action that a table selected"
    table_entries(table) Gauge(tables::entries): "Current number of entries of a table"
    table_entries_max(table) Gauge(tables::high_water): "Maximum number of entries since the program started"
    table_size(table) Gauge(tables::size): "Capacity of a table in entries; absent: unbounded. A table to which packets add entries and that declares no `size` has a default one"
    table_memory_bytes(table) Gauge(tables::memory): "Approximate memory of a table's entries and lookups"
    table_added_entries(table, by) Counter(flow_tables::added): "Entries added to a table to which packets add entries, by a `packet` or the `controller`. This and the next three: native code only"
    table_refused_entries(table, reason) Counter(flow_tables::refused): "Additions of packets and controllers to such a table that were refused, by reason"
    table_expired_entries(table) Counter(flow_tables::expired): "Entries of such a table that were removed because their idle time was over"
    table_removed_entries(table) Counter(flow_tables::removed): "Entries of such a table that a controller or `terrace sessions delete` has removed"
    nat_ports(nat, protocol) Gauge(nat::ports): "Ports of a NAT in use; `icmp`: identifiers of echo requests. This and the next five: for each NAT of the region file"
    nat_port_capacity(nat, protocol) Gauge(nat::port_capacity): "Ports of a NAT's addresses"
    nat_blocks(nat) Gauge(nat::blocks): "Blocks of 64 ports that machines have. A NAT without a free block refuses machines, although most ports of its blocks may be free"
    nat_block_capacity(nat) Gauge(nat::block_capacity): "Blocks of a NAT's addresses"
    nat_full_addresses(nat) Gauge(nat::full_addresses): "Public addresses without a free block. A machine that has ports of such an address gets no further block"
    nat_refused_sessions(nat, reason) Counter(nat::refused): "Packets of new sessions that got no port, by drop reason: `nat_no_ports` or `nat_quota`; since the program started"
    nat_block_log_lines(outcome) Counter(nat::block_log): "Blocks of ports that changed hands, with a line in the log (`written`) or without one, because there were too many (`lost`); 0 without `nat_blocks`"
    tier_packets(tier) Counter(tables::tiers): "Packets that a tier completed: `switch`, `kernel` (XDP), `dpu` (a flow cache) or `cpu`; absent if one engine runs the whole program"
    stage_packets(stage) Counter(tables::stage_packets): "Packets through a stage of the native code"
    stage_seconds(stage) Gauge(tables::stage_seconds): "Seconds that the workers spent in a stage, measured by the processor's cycle counter; a table lookup counts in the stage that executes it"
    counter_packets(counter, index_kind, index) Packets(tables::program_counters): "Packets that the program counted: the largest elements of a counter, and `other` for the remaining ones"
    counter_bytes(counter, index_kind, index) Bytes(tables::program_counters): "Bytes that the program counted"

    worker_packets(worker) Counter(workers::packets): "Packets that a worker received"
    worker_batches(worker) Counter(workers::batches): "Batches that a worker processed"
    worker_seconds(worker) Counter(workers::run_time): "Seconds since the start of a worker"
    worker_busy_seconds(worker) Counter(workers::busy_time): "Seconds spent on packets: receive, program, send"
    worker_engine_seconds(worker) Counter(workers::engine_time): "Seconds spent in the program"
    worker_table_version_lag(worker) Gauge(workers::behind): "Number of table writes that a worker has not seen yet; 0 while it is idle"
    packet_latency_seconds(worker) Histogram(workers::residence): "Packet latency in a worker in seconds, from receive to hand-over to a port"

    controller_connections() Gauge(service::connections): "Current number of connections of controllers"
    controllers(arbitration) Gauge(service::controllers): "Number of controllers that have sent an arbitration request; `primary` or `backup`"
    controller_refused_connections() Counter(service::refused_connections): "Connections refused because of the connection limit"
    controller_dropped_messages() Counter(service::lost_messages): "Packets, digests and notifications that were not delivered to a controller"
    p4runtime_requests(request, result) Counter(service::requests): "Requests of controllers; `ok` or `refused`"
    p4runtime_request_seconds(request) Histogram(service::request_times): "Seconds from a request to the start of its response"
}
