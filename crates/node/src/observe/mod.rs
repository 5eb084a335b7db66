//! Statistics of a node, collected on demand, so that forwarding pays only for counting.
//!
//! [`StatsSnapshot`] contains all statistics at one moment. [`crate::status`] presents them to
//! operators and tools, [`crate::metrics`] to Prometheus.

mod counters;
mod snapshot;
pub use counters::counter_cells;
pub use snapshot::{ServiceHandles, StatsSnapshot, TableSnapshot};
pub mod named_stats;
pub mod requests;

use crate::counts::{PortCounts, WorkerCounts};
use crate::host::HostCounts;
use crate::status::{
    ActionStatus, ControllersStatus, DropRow, FlowTableStatus, HostRow, HostStatus, KeyStatus, LatencyQuantiles,
    NodeVersion, PortStatus, ProgramStatus, RequestRow, StageStatus, TableStatus, WorkerStatus,
};
use crate::{Node, admin};
use io::Latency;
use ir::TableId;
use jit::FlowTables;
use named_stats::StageCounts;
use p4runtime::server::RequestKind;
use packet::Counter;
use packet::{EngineReason, PortReason};
use requests::RequestCounts;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(crate) fn quantiles(latency: &Latency) -> LatencyQuantiles {
    LatencyQuantiles {
        count: latency.count(),
        p50: latency.quantile(0.5),
        p99: latency.quantile(0.99),
        p999: latency.quantile(0.999),
        max: latency.max(),
    }
}

/// Returns the layer of a drop reason: `engine`, `port` or `program`.
pub(crate) fn drop_reason_layer(reason: &str) -> &'static str {
    if EngineReason::ALL.iter().any(|known| *known != EngineReason::ProgramDrop && known.name() == reason) {
        "engine"
    } else if PortReason::ALL.iter().any(|known| known.name() == reason) {
        "port"
    } else {
        "program"
    }
}

fn host_status(counts: HostCounts) -> HostStatus {
    let row = |kind: &str, reason: &str, count| HostRow { kind: kind.to_owned(), reason: reason.to_owned(), count };
    HostStatus {
        interface: counts.interface,
        is_tap: counts.is_tap,
        to_host: counts.to_host.iter().map(|(kind, count)| row(kind, "", *count)).collect(),
        from_host: counts.from_host,
        drops: counts.drops.iter().map(|(reason, kind, count)| row(kind, reason, *count)).collect(),
    }
}

impl Node {
    /// Returns all statistics since the start.
    pub fn observe(&self) -> StatsSnapshot {
        let (workers, bypass) = (self.counts(), self.bypass_counts());
        StatsSnapshot { workers, bypass, stats: self.named_stats(), requests: self.service().requests.all() }
    }

    /// Resets the shown statistics to 0 and the tables' high-water marks to the current entries.
    /// Does not affect [`Node::observe`] and metrics.
    pub fn reset_counters(&self) {
        self.with_engine(|engine, _| {
            engine.with_written_state(|state| state.reset_peak_entries());
            engine.flow_tables().iter().for_each(FlowTables::reset_peaks);
        });
        let now = self.observe();
        *self.lock_cleared() = now;
    }

    /// Returns the current statistics and those at the last [`Node::reset_counters`].
    pub(crate) fn current_and_baseline(&self) -> (StatsSnapshot, StatsSnapshot) {
        (self.observe(), self.lock_cleared().clone())
    }

    /// Returns the identity of the node.
    pub fn version(&self) -> NodeVersion {
        let program = self.with_engine(|engine, forwarding| ProgramStatus {
            name: forwarding.pipeline.name.clone(),
            architecture: format!("{:?}", forwarding.pipeline.arch).to_lowercase(),
            cookie: forwarding.cookie,
            tables_version: engine.tables_version(),
            engine: if self.factory().falls_back(engine) { "interp" } else { self.factory().name() }.to_owned(),
            falls_back: self.factory().falls_back(engine),
            cache: self.factory().cache().to_owned(),
            tiers: self.factory().tiers(),
            native_code_bytes: engine.code_bytes() as u64,
            interpreted: engine.fallback_reason(),
            notes: engine.status_notes(),
        });
        NodeVersion {
            terraced: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: admin::protocol::VERSION,
            p4runtime: p4runtime::server::API_VERSION.to_owned(),
            device_id: p4runtime::Device::id(self),
            pid: std::process::id(),
            uptime_seconds: self.started_at().elapsed().as_secs_f64(),
            program,
        }
    }

    /// Returns the running program's tables with entries and memory.
    pub fn table_snapshots(&self) -> Vec<TableSnapshot> {
        let tables = self.with_engine(|engine, forwarding| {
            let of = |id: TableId| {
                let declared = &forwarding.pipeline.tables[id];
                let flows = engine.flow_tables().and_then(|tables| tables.info(id));
                let [entries, high_water, high_water_since_cleared] = match &flows {
                    Some(flows) => [flows.entries, flows.high_water, flows.high_water_since_reset],
                    None => engine.with_written_state(|state| {
                        [state.entry_count(id), state.peak_entries(id), state.peak_entries_since_reset(id)]
                            .map(|count| count as u64)
                    }),
                };
                TableSnapshot {
                    name: declared.preamble.name.clone(),
                    entries,
                    high_water,
                    high_water_since_cleared,
                    size: flows.as_ref().map_or(declared.size, |flows| Some(flows.size.into())),
                    has_default_size: flows.is_some_and(|flows| flows.has_default_size),
                    memory_bytes: engine.table_memory(id) as u64,
                }
            };
            forwarding.pipeline.tables.keys().map(of).collect()
        });
        tables.unwrap_or_default()
    }

    /// Returns the running program's tables with their statistics.
    pub fn tables(&self) -> Vec<TableStatus> {
        let (now, before) = self.current_and_baseline();
        let Some(pipeline) = self.with_engine(|_, forwarding| forwarding.pipeline.clone()) else { return Vec::new() };
        let info = ir::p4info::generate(&pipeline);
        let numbers: BTreeMap<&str, u32> =
            info.tables.iter().map(|t| (t.preamble.name.as_str(), t.preamble.id)).collect();
        let one = |(table, declared): (TableSnapshot, &ir::Table)| {
            let counts = now.stats.tables.get(&table.name).cloned().unwrap_or_default();
            let past = before.stats.tables.get(&table.name).cloned().unwrap_or_default();
            let actions = counts.actions.iter().map(|(name, [hits, misses])| {
                let [past_hits, past_misses] = past.actions.get(name).copied().unwrap_or_default();
                ActionStatus { name: name.clone(), hits: hits.since(past_hits), misses: misses.since(past_misses) }
            });
            let key = |key: &ir::MatchKey| KeyStatus {
                name: key.name.clone(),
                kind: format!("{:?}", key.kind).to_lowercase(),
                bits: key.ty.width(),
            };
            let flows = now.stats.flow_tables.get(&table.name).map(|counts| {
                let past = before.stats.flow_tables.get(&table.name).cloned().unwrap_or_default();
                FlowTableStatus { has_default_size: table.has_default_size, counts: counts.since(&past) }
            });
            TableStatus {
                flows,
                keys: declared.match_keys().map(|(_, declared)| key(declared)).collect(),
                entries: table.entries,
                high_water: table.high_water_since_cleared,
                size: table.size,
                memory_bytes: table.memory_bytes,
                hits: counts.hits.since(past.hits),
                misses: counts.misses.since(past.misses),
                actions: actions.collect(),
                id: numbers.get(table.name.as_str()).copied().unwrap_or(0),
                name: table.name,
            }
        };
        self.table_snapshots().into_iter().zip(pipeline.tables.values()).map(one).collect()
    }

    /// Returns the status of the ports.
    pub fn port_statuses(&self) -> Vec<PortStatus> {
        let (now, before) = self.current_and_baseline();
        let before = before.sum();
        let links = self.port_states().states();
        let mut ports = now.sum().ports;
        for (number, link) in &links {
            // A port that was never open has a state, but no counts.
            ports.entry(*number).or_insert_with(|| PortCounts { name: link.device.clone(), ..PortCounts::default() });
        }
        let paths = self.plane.paths();
        let mut hosts = self.host_counts();
        let one = |(number, port): (u32, PortCounts)| {
            let link = links.get(&number);
            let past = before.ports.get(&number).cloned().unwrap_or_default();
            PortStatus {
                number,
                name: port.name,
                received: port.received.since(past.received),
                sent: port.sent.since(past.sent),
                drops: drop_rows(&port.drops, &past.drops, |_| "port"),
                fault: port.fault,
                state: link.map(|link| link.state),
                changes: link.map_or(0, |link| link.changes),
                down_seconds: link.map_or(0.0, |link| link.down_time.as_secs_f64()),
                path: paths.get(&number).map(|path| (*path).to_owned()),
                host: hosts.remove(&number).map(host_status),
            }
        };
        ports.into_iter().map(one).collect()
    }

    /// Returns the counts of the host sides of uplinks, by port.
    pub fn host_counts(&self) -> BTreeMap<u32, HostCounts> {
        self.plane.host().counts()
    }

    /// Returns the statistics of the native code's stages; empty without native code.
    pub fn stages(&self) -> Vec<StageStatus> {
        let (now, before) = self.current_and_baseline();
        let names = self.with_engine(|engine, forwarding| {
            let stages = engine.tallies().stages;
            let known = stages.iter().map(|stage| stage.bytes.is_some());
            named_stats::stage_names(&forwarding.pipeline, &stages).into_iter().zip(known).collect::<Vec<_>>()
        });
        let names = names.unwrap_or_default();
        let received = now.received_by_workers().since(before.received_by_workers());
        let since = |name: &str| {
            let [now, before] = [&now, &before].map(|o| o.stats.stages.get(name).copied().unwrap_or_default());
            StageCounts { count: now.count.since(before.count), ticks: now.ticks.saturating_sub(before.ticks) }
        };
        let ticks: u64 = names.iter().map(|(name, _)| since(name).ticks).sum();
        let engine_time = now.sum().engine_time.saturating_sub(before.sum().engine_time).as_nanos() as f64;
        let one = |(name, known): (String, bool)| {
            let StageCounts { count, ticks: own } = since(&name);
            let share = own as f64 / ticks.max(1) as f64;
            let bytes = match (known, name.as_str()) {
                (true, _) => Some(count.bytes),
                (false, "parser") => Some(received.bytes),
                (false, _) => None,
            };
            let nanoseconds = share * engine_time / count.packets.max(1) as f64;
            StageStatus { name, packets: count.packets, bytes, share, nanoseconds }
        };
        names.into_iter().map(one).collect()
    }

    /// Returns the packets dropped and sent to the controller, by reason.
    pub fn drops(&self) -> Vec<DropRow> {
        let (now, before) = self.current_and_baseline();
        let (now, before) = (now.sum(), before.sum());
        let mut all = drop_rows(&now.drops, &before.drops, drop_reason_layer);
        for (number, port) in &now.ports {
            let past = before.ports.get(number).cloned().unwrap_or_default();
            all.extend(drop_rows(&port.drops, &past.drops, |_| "port"));
        }
        let mut sums: BTreeMap<(String, String), Counter> = BTreeMap::new();
        for DropRow { reason, by, count } in all {
            *sums.entry((by, reason)).or_default() += count;
        }
        let mut all: Vec<DropRow> =
            sums.into_iter().map(|((by, reason), count)| DropRow { reason, by, count }).collect();
        all.sort_by_key(|dropped| std::cmp::Reverse(dropped.count.packets));
        all.extend(drop_rows(&now.to_cpu, &before.to_cpu, |_| "cpu"));
        all
    }

    /// Returns the status of the workers.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        let (now, before) = self.current_and_baseline();
        let lags = self.versions_behind();
        let one = |(number, counts): (usize, &WorkerCounts)| {
            let past = before.workers.get(number).cloned().unwrap_or_default();
            let run = counts.run_time.saturating_sub(past.run_time).as_secs_f64();
            let busy = counts.busy_time.saturating_sub(past.busy_time).as_secs_f64();
            WorkerStatus {
                number,
                core: self.core_of(number),
                ports: counts.ports.keys().copied().collect(),
                received: counts.received.since(past.received),
                batches: counts.batches.saturating_sub(past.batches),
                busy: if run > 0.0 { (busy / run).min(1.0) } else { 0.0 },
                lag: lags.get(number).copied().unwrap_or(0),
                latency: quantiles(&counts.latency.since(&past.latency)),
            }
        };
        now.workers.iter().enumerate().map(one).collect()
    }

    /// Returns how many table versions each worker lags behind the newest; 0 while it is idle.
    pub fn versions_behind(&self) -> Vec<u64> {
        let versions = self.with_engine(|engine, _| {
            let newest = engine.tables_version();
            let behind = |seen: Option<u64>| seen.map_or(0, |seen| newest.saturating_sub(seen));
            engine.worker_versions().into_iter().map(behind).collect()
        });
        versions.unwrap_or_default()
    }

    /// Returns the controllers and their requests.
    pub fn controllers(&self) -> ControllersStatus {
        let (now, before) = self.current_and_baseline();
        let service = self.service();
        let clock = Instant::now();
        let controller = |client: p4runtime::server::ConnectedClient| crate::status::ControllerRow {
            client: client.client_name,
            role: client.role.unwrap_or_default(),
            election_id: client.election.map(|id| id.to_string()),
            primary: client.is_primary,
            seconds: clock.saturating_duration_since(client.connected_at).as_secs_f64(),
            waiting: client.queued_messages as u64,
        };
        let requests = |(kind, answered): (&RequestKind, &RequestCounts)| {
            let past = before.requests.get(kind).cloned().unwrap_or_default();
            let (time, refused) = (answered.time.since(&past.time), answered.refused.saturating_sub(past.refused));
            let ok = time.count().saturating_sub(refused);
            RequestRow { kind: kind.name().to_owned(), ok, refused, time: quantiles(&time) }
        };
        ControllersStatus {
            connections: service.watch.connections() as u64,
            refused_connections: service.counters.refused_connections.load(Ordering::Relaxed),
            lost_messages: service.counters.lost_messages.load(Ordering::Relaxed) + self.events_lost(),
            controllers: service.watch.clients().into_iter().map(controller).collect(),
            requests: now.requests.iter().map(requests).collect(),
        }
    }
}

fn drop_rows(
    now: &BTreeMap<String, Counter>,
    before: &BTreeMap<String, Counter>,
    by: impl Fn(&str) -> &'static str,
) -> Vec<DropRow> {
    let one = |(reason, counter): (&String, &Counter)| {
        let past = before.get(reason).copied().unwrap_or_default();
        let count = counter.since(past);
        DropRow { reason: reason.clone(), by: by(reason).to_owned(), count }
    };
    now.iter().map(one).filter(|dropped| dropped.count != Counter::default()).collect()
}
