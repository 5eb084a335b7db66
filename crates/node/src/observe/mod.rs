//! What a node shows of itself: collected when somebody asks, so that forwarding pays for counting alone.
//!
//! [`Observation`] is everything at one moment; [`crate::status`] is what becomes of it for people and programs, [`crate::metrics`] for Prometheus.

mod counters;
mod observation;
pub use counters::counter_cells;
pub use observation::{Observation, Service, TableNow};
pub mod requests;
pub mod tallied;

use crate::counts::{Counts, PortCounts};
use crate::status::{
    Action, Dropped, Key, Port, Program, Quantiles, Requests, Sessions, Stage, Table, Version, Worker,
};
use crate::{Node, admin};
use io::Latency;
use ir::TableId;
use p4runtime::server::RequestKind;
use packet::Counter;
use packet::{EngineReason, PortReason};
use requests::Answered;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tallied::StageCounts;

pub(crate) fn quantiles(latency: &Latency) -> Quantiles {
    Quantiles {
        count: latency.count(),
        p50: latency.quantile(0.5),
        p99: latency.quantile(0.99),
        p999: latency.quantile(0.999),
        max: latency.max(),
    }
}

/// Whose reason it is.
pub(crate) fn blames(reason: &str) -> &'static str {
    if EngineReason::ALL.iter().any(|known| *known != EngineReason::ProgramDrop && known.name() == reason) {
        "engine"
    } else if PortReason::ALL.iter().any(|known| known.name() == reason) {
        "port"
    } else {
        "program"
    }
}

impl Node {
    /// Everything that was counted since the start.
    pub fn observe(&self) -> Observation {
        let (workers, beside) = (self.counts(), self.counts_beside());
        Observation { workers, beside, tallied: self.tallied(), requests: self.service().requests.all() }
    }

    /// From now on, what the node shows is counted from 0, and tables' high-water marks from what is in them; [`Node::observe`] and metrics go on.
    pub fn clear(&self) {
        self.with_engine(|engine, _| engine.with_state(|state| state.begin_high_water()));
        let now = self.observe();
        *self.cleared() = now;
    }

    /// What was counted since it was cleared.
    fn since_cleared(&self) -> (Observation, Observation) {
        (self.observe(), self.cleared().clone())
    }

    /// Which node this is.
    pub fn version(&self) -> Version {
        let program = self.with_engine(|engine, forwarding| Program {
            name: forwarding.pipeline.name.clone(),
            architecture: format!("{:?}", forwarding.pipeline.arch).to_lowercase(),
            cookie: forwarding.cookie,
            tables_version: engine.tables_version(),
            engine: if self.factory().falls_back(engine) { "interp" } else { self.factory().name() }.to_owned(),
            falls_back: self.factory().falls_back(engine),
            cache: self.factory().cache().to_owned(),
            tiers: self.factory().tiers(),
            native_code_bytes: engine.code_bytes() as u64,
            interpreted: engine.without_code(),
            notes: engine.notes(),
        });
        Version {
            terraced: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: admin::protocol::VERSION,
            p4runtime: p4runtime::server::API_VERSION.to_owned(),
            device_id: p4runtime::Device::id(self),
            pid: std::process::id(),
            uptime_seconds: self.began().elapsed().as_secs_f64(),
            program,
        }
    }

    /// The tables of the program that runs, with what is in them.
    pub fn tables_now(&self) -> Vec<TableNow> {
        let tables = self.with_engine(|engine, forwarding| {
            let of = |id: TableId| {
                let declared = &forwarding.pipeline.tables[id];
                let (entries, high_water, since_cleared) = engine.with_state(|state| {
                    (state.entry_count(id), state.entry_high_water(id), state.entry_high_water_since(id))
                });
                TableNow {
                    name: declared.preamble.name.clone(),
                    entries: entries as u64,
                    high_water: high_water as u64,
                    high_water_since_cleared: since_cleared as u64,
                    size: declared.size,
                    memory_bytes: engine.table_memory(id) as u64,
                }
            };
            forwarding.pipeline.tables.keys().map(of).collect()
        });
        tables.unwrap_or_default()
    }

    /// The tables of the program that runs, with what they did.
    pub fn tables(&self) -> Vec<Table> {
        let (now, before) = self.since_cleared();
        let Some(pipeline) = self.with_engine(|_, forwarding| forwarding.pipeline.clone()) else { return Vec::new() };
        let info = ir::p4info::generate(&pipeline);
        let numbers: BTreeMap<&str, u32> =
            info.tables.iter().map(|t| (t.preamble.name.as_str(), t.preamble.id)).collect();
        let one = |(table, declared): (TableNow, &ir::Table)| {
            let counts = now.tallied.tables.get(&table.name).cloned().unwrap_or_default();
            let past = before.tallied.tables.get(&table.name).cloned().unwrap_or_default();
            let actions = counts.actions.iter().map(|(name, [hits, misses])| {
                let [past_hits, past_misses] = past.actions.get(name).copied().unwrap_or_default();
                Action { name: name.clone(), hits: hits.since(past_hits), misses: misses.since(past_misses) }
            });
            let key = |key: &ir::Key| Key {
                name: key.name.clone(),
                kind: format!("{:?}", key.kind).to_lowercase(),
                bits: key.ty.width(),
            };
            Table {
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
        self.tables_now().into_iter().zip(pipeline.tables.values()).map(one).collect()
    }

    /// The ports.
    pub fn ports_shown(&self) -> Vec<Port> {
        let (now, before) = self.since_cleared();
        let before = before.sum();
        let one = |(number, port): (u32, PortCounts)| {
            let past = before.ports.get(&number).cloned().unwrap_or_default();
            Port {
                number,
                name: port.name,
                received: port.received.since(past.received),
                sent: port.sent.since(past.sent),
                drops: dropped(&port.drops, &past.drops, |_| "port"),
                trouble: port.trouble,
            }
        };
        now.sum().ports.into_iter().map(one).collect()
    }

    /// The stages of the native code; none if there is none.
    pub fn stages(&self) -> Vec<Stage> {
        let (now, before) = self.since_cleared();
        let names = self.with_engine(|engine, forwarding| {
            let stages = engine.tallies().stages;
            let known = stages.iter().map(|stage| stage.bytes.is_some());
            tallied::stage_names(&forwarding.pipeline, &stages).into_iter().zip(known).collect::<Vec<_>>()
        });
        let names = names.unwrap_or_default();
        let received = now.received_by_workers().since(before.received_by_workers());
        let since = |name: &str| {
            let [now, before] = [&now, &before].map(|o| o.tallied.stages.get(name).copied().unwrap_or_default());
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
            Stage { name, packets: count.packets, bytes, share, nanoseconds }
        };
        names.into_iter().map(one).collect()
    }

    /// What was dropped, and what went to the controller.
    pub fn drops(&self) -> Vec<Dropped> {
        let (now, before) = self.since_cleared();
        let (now, before) = (now.sum(), before.sum());
        let mut all = dropped(&now.drops, &before.drops, blames);
        for (number, port) in &now.ports {
            let past = before.ports.get(number).cloned().unwrap_or_default();
            all.extend(dropped(&port.drops, &past.drops, |_| "port"));
        }
        let mut sums: BTreeMap<(String, String), Counter> = BTreeMap::new();
        for Dropped { reason, by, count } in all {
            *sums.entry((by, reason)).or_default() += count;
        }
        let mut all: Vec<Dropped> =
            sums.into_iter().map(|((by, reason), count)| Dropped { reason, by, count }).collect();
        all.sort_by_key(|dropped| std::cmp::Reverse(dropped.count.packets));
        all.extend(dropped(&now.to_cpu, &before.to_cpu, |_| "cpu"));
        all
    }

    /// The workers.
    pub fn workers(&self) -> Vec<Worker> {
        let (now, before) = self.since_cleared();
        let behind = self.behind();
        let one = |(number, counts): (usize, &Counts)| {
            let past = before.workers.get(number).cloned().unwrap_or_default();
            let run = counts.run_time.saturating_sub(past.run_time).as_secs_f64();
            let busy = counts.busy_time.saturating_sub(past.busy_time).as_secs_f64();
            Worker {
                number,
                core: self.core_of(number),
                ports: counts.ports.keys().copied().collect(),
                received: counts.received.since(past.received),
                batches: counts.batches.saturating_sub(past.batches),
                busy: if run > 0.0 { (busy / run).min(1.0) } else { 0.0 },
                behind: behind.get(number).copied().unwrap_or(0),
                residence: quantiles(&counts.residence.since(&past.residence)),
            }
        };
        now.workers.iter().enumerate().map(one).collect()
    }

    /// For each worker, how many versions of the tables it is behind what was written last; 0 while it rests.
    pub fn behind(&self) -> Vec<u64> {
        let versions = self.with_engine(|engine, _| {
            let newest = engine.tables_version();
            let behind = |seen: Option<u64>| seen.map_or(0, |seen| newest.saturating_sub(seen));
            engine.worker_versions().into_iter().map(behind).collect()
        });
        versions.unwrap_or_default()
    }

    /// Controllers, and what they asked for.
    pub fn sessions(&self) -> Sessions {
        let (now, before) = self.since_cleared();
        let service = self.service();
        let clock = Instant::now();
        let controller = |client: p4runtime::server::Client| crate::status::Controller {
            who: client.who,
            role: client.role.unwrap_or_default(),
            election_id: client.election.map(|id| id.to_string()),
            primary: client.primary,
            seconds: clock.saturating_duration_since(client.since).as_secs_f64(),
            waiting: client.waiting as u64,
        };
        let requests = |(kind, answered): (&RequestKind, &Answered)| {
            let past = before.requests.get(kind).cloned().unwrap_or_default();
            let (time, refused) = (answered.time.since(&past.time), answered.refused.saturating_sub(past.refused));
            let ok = time.count().saturating_sub(refused);
            Requests { kind: kind.name().to_owned(), ok, refused, time: quantiles(&time) }
        };
        Sessions {
            connections: service.watch.connections() as u64,
            refused_connections: service.counters.refused_connections.load(Ordering::Relaxed),
            lost_messages: service.counters.lost_messages.load(Ordering::Relaxed) + self.events_lost(),
            controllers: service.watch.clients().into_iter().map(controller).collect(),
            requests: now.requests.iter().map(requests).collect(),
        }
    }
}

fn dropped(
    now: &BTreeMap<String, Counter>,
    before: &BTreeMap<String, Counter>,
    by: impl Fn(&str) -> &'static str,
) -> Vec<Dropped> {
    let one = |(reason, counter): (&String, &Counter)| {
        let past = before.get(reason).copied().unwrap_or_default();
        let count = counter.since(past);
        Dropped { reason: reason.clone(), by: by(reason).to_owned(), count }
    };
    now.iter().map(one).filter(|dropped| dropped.count != Counter::default()).collect()
}
