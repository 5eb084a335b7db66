//! Statistics of a worker by stage, table and action, updated for each packet.
//!
//! Each action has two cells (misses and hits) of packets and bytes for each point where its table
//! is applied. Only the worker writes its cells; readers add up those of all workers
//! ([`WorkerCounters`]). Native code adds one word per packet to separate memory, which is added to
//! the cells after each batch ([`split_count`]).

use crate::analysis::flow::has_lookup;
use crate::counters::WorkerCounters;
use crate::plan::stages::{StageEntry, StageInfo};
use crate::plan::stats_layout::StatsLayout;
use entries::Counter;
use ir::{ActionId, Pipeline, TableId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Splits a word of batch statistics into packets (upper half) and bytes (lower half). A batch adds
/// at most [`packet::MAX_BATCH`] times 65,535 bytes.
pub fn split_count(word: u64) -> [u64; 2] {
    [word >> 32, word & 0xffff_ffff]
}

const _: () = assert!((packet::MAX_BATCH as u64) << 16 < 1 << 32);

/// Statistics of one worker besides the program's own counters.
pub struct WorkerStats {
    cells: WorkerCounters,
    /// For each stage entry: packets, ticks, and packets since the last timed chunk.
    stages: Box<[[AtomicU64; 3]]>,
    /// Version of the tables in use; [`u64::MAX`] while the worker is idle.
    version: AtomicU64,
}

/// One of this many chunks is timed, beginning with the first, because reading the clock costs as
/// much as the stages need for half a packet.
pub const TIMED_EVERY: u32 = 8;

/// Stored version of an idle worker.
const IDLE: u64 = u64::MAX;

impl WorkerStats {
    /// Makes statistics that are all 0.
    pub fn new(places: &StatsLayout) -> WorkerStats {
        let stages = places.entry_cells.iter().map(|_| [const { AtomicU64::new(0) }; 3]).collect();
        WorkerStats {
            cells: WorkerCounters::new(&[Some(places.cell_count as u64)]),
            stages,
            version: AtomicU64::new(IDLE),
        }
    }

    /// Adds packets, at least one, that passed a stage. `ticks` is their time if they were timed;
    /// the untimed packets before them are assumed to have taken the same time each. Only the
    /// owning worker may call this.
    pub fn add_stage_pass(&self, stage: usize, packets: u64, ticks: Option<u64>) {
        // Only one thread writes, so no atomic addition is necessary.
        let [sum, time, since] = &self.stages[stage];
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(packets), Ordering::Relaxed);
        let untimed = since.load(Ordering::Relaxed) + packets;
        since.store(if ticks.is_some() { 0 } else { untimed }, Ordering::Relaxed);
        if let Some(ticks) = ticks {
            let all = u128::from(ticks) * u128::from(untimed) / u128::from(packets.max(1));
            time.store(time.load(Ordering::Relaxed).wrapping_add(all as u64), Ordering::Relaxed);
        }
    }

    /// Adds the time of restarted packets, which [`WorkerStats::add_stage_pass`] has already
    /// counted; extrapolated to chunks that were not timed.
    pub fn add_stage_ticks(&self, stage: usize, ticks: Option<u64>) {
        let [_, time, _] = &self.stages[stage];
        let all = ticks.unwrap_or(0).wrapping_mul(u64::from(TIMED_EVERY));
        time.store(time.load(Ordering::Relaxed).wrapping_add(all), Ordering::Relaxed);
    }

    /// Records that the worker starts a batch with tables of this version.
    pub fn set_tables_version(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Records that the worker holds no tables.
    pub fn mark_idle(&self) {
        self.version.store(IDLE, Ordering::Relaxed);
    }

    /// Returns the version of the tables in use; `None` while the worker is idle.
    pub fn version(&self) -> Option<u64> {
        Some(self.version.load(Ordering::Relaxed)).filter(|version| *version != IDLE)
    }

    /// Adds packets and bytes to a cell. Only the owning worker may call this, and not while its
    /// code runs.
    pub fn add_count(&self, cell: usize, more: [u64; 2]) {
        self.cells.add_count(0, cell as u64, more);
    }

    fn cell(&self, cell: usize) -> Counter {
        let [packets, bytes] = self.cells.get(0, cell as u64).unwrap_or_default();
        Counter { packets, bytes }
    }
}

/// Statistics of an action at one application of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionStats {
    /// The action.
    pub action: ActionId,
    /// Packets that hit an entry with this action.
    pub hits: Counter,
    /// Packets that missed, for which this was the default action.
    pub misses: Counter,
}

/// Statistics of one application of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// The table.
    pub table: TableId,
    /// In the order of the table's list.
    pub actions: Vec<ActionStats>,
}

/// Statistics of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageStats {
    /// The table that is looked up before the stage; `None` for the program's entry or its
    /// deparser.
    pub table: Option<TableId>,
    /// Whether packets enter the program at this stage.
    pub is_entry: bool,
    /// Packets, including those for which another stage looked the table up in place.
    pub packets: u64,
    /// Bytes of these packets as they arrived; `None` if they are not known for this stage alone.
    pub bytes: Option<u64>,
    /// Time in ticks of the processor's constant-rate clock, including lookups; an estimate,
    /// because not all packets are timed. 0 on machines without such a clock. In-place lookups
    /// count for the stage that makes them.
    pub ticks: u64,
}

/// Statistics of a program, summed over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Stages of native code in their order; none if the interpreter runs the program.
    pub stages: Vec<StageStats>,
    /// All applications of tables; a table can have several.
    pub tables: Vec<TableStats>,
}

/// Sums the statistics of all workers by stage, table and action. A stage of which the hot path has
/// a copy is reported once.
pub fn sum_worker_stats<'a>(
    pipeline: &Pipeline,
    layout: &StatsLayout,
    stages: &[StageInfo],
    workers: impl Iterator<Item = &'a WorkerStats> + Clone,
) -> EngineStats {
    let sum = |cell: usize| workers.clone().map(|worker| worker.cell(cell)).sum();
    let table_stats = |stage: Option<usize>, table: TableId| {
        let action = |(position, listed): (usize, &ir::ActionRef)| {
            let misses = layout.cell(stage, table, position);
            ActionStats { action: listed.action, hits: sum(misses + 1), misses: sum(misses) }
        };
        TableStats { table, actions: pipeline.tables[table].actions.iter().enumerate().map(action).collect() }
    };
    let mut all = EngineStats::default();
    let mut reported_slots = BTreeSet::new();
    let without_restart = stages.iter().filter(|stage| stage.start != StageEntry::Restart);
    for stage in without_restart.filter(|stage| reported_slots.insert(stage.slot)) {
        let total = |half: usize| {
            workers.clone().map(|w| w.stages[stage.slot][half].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let table = stage.table.map(|table| table_stats(Some(stage.slot), table));
        let bytes = table.as_ref().map(|table| table.actions.iter().map(|a| a.hits.bytes + a.misses.bytes).sum());
        let begins = stage.start == StageEntry::Begin;
        // The sum over actions, because packets with an in-place lookup skip the queue.
        let action_packets = |table: &TableStats| table.actions.iter().map(|a| a.hits.packets + a.misses.packets).sum();
        let packets = table.as_ref().map_or_else(|| total(0), action_packets);
        all.stages.push(StageStats { table: stage.table, is_entry: begins, packets, bytes, ticks: total(1) });
        all.tables.extend(table);
    }
    let keyless = pipeline.tables.keys().filter(|table| !has_lookup(pipeline, *table));
    all.tables.extend(keyless.map(|table| table_stats(None, table)));
    all
}

/// Returns the processor's constant-rate clock; 0 on machines without one.
#[inline(always)]
pub fn cpu_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter that every x86-64 processor has.
        #[allow(unsafe_code)]
        unsafe {
            std::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}
