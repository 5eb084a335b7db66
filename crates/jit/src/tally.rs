//! What a worker did, by stage, table and action: counted as packets pass, for whoever asks what a program does with its traffic.
//!
//! A cell for each action of each place where a table is applied, once for hits and once for misses: packets and bytes. Only the worker writes;
//! others add up all workers' cells ([`WorkerCounters`]). Native code adds one word for each packet, to memory of its own, which is added to the cells behind
//! each batch ([`split`]).

use crate::analysis::flow::is_cut;
use crate::counters::WorkerCounters;
use crate::plan::places::Places;
use crate::plan::stages::{StageInfo, Start};
use entries::Counter;
use ir::{ActionId, Pipeline, TableId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes of what packets of a batch have added: each one in the upper half and its length in the lower one, to which a batch adds at most
/// [`packet::MAX_BATCH`] times 65,535.
pub fn split(word: u64) -> [u64; 2] {
    [word >> 32, word & 0xffff_ffff]
}

const _: () = assert!((packet::MAX_BATCH as u64) << 16 < 1 << 32);

/// What one worker counts of itself beside the program's own counters.
pub struct Tally {
    cells: WorkerCounters,
    /// Of each place where stages can begin: packets, ticks, and the packets since time was taken last.
    stages: Box<[[AtomicU64; 3]]>,
    /// The version of the tables that it used last; [`u64::MAX`] while it rests.
    version: AtomicU64,
}

/// One of so many chunks is timed, the first one among them: reading the clock takes as long as the stages need for half a packet.
pub const TIMED: u32 = 8;

/// What [`Tally::version`] says of a worker that holds no tables.
const RESTS: u64 = u64::MAX;

impl Tally {
    /// All 0.
    pub fn new(places: &Places) -> Tally {
        let stages = places.starts.iter().map(|_| [const { AtomicU64::new(0) }; 3]).collect();
        Tally { cells: WorkerCounters::new(&[Some(places.cells as u64)]), stages, version: AtomicU64::new(RESTS) }
    }

    /// So many packets, at least one, went through a stage, in so many ticks of the processor's clock, if they were timed: then those before them that were not are
    /// taken to have needed as much each. Only the worker itself may call this.
    pub fn passed(&self, stage: usize, packets: u64, ticks: Option<u64>) {
        // One thread writes: no need for an atomic addition.
        let [sum, time, since] = &self.stages[stage];
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(packets), Ordering::Relaxed);
        let untimed = since.load(Ordering::Relaxed) + packets;
        since.store(if ticks.is_some() { 0 } else { untimed }, Ordering::Relaxed);
        if let Some(ticks) = ticks {
            let all = u128::from(ticks) * u128::from(untimed) / u128::from(packets.max(1));
            time.store(time.load(Ordering::Relaxed).wrapping_add(all as u64), Ordering::Relaxed);
        }
    }

    /// Packets that [`Tally::passed`] counts took so many ticks more, where they begin once more; as many in chunks that were not timed.
    pub fn took(&self, stage: usize, ticks: Option<u64>) {
        let [_, time, _] = &self.stages[stage];
        let all = ticks.unwrap_or(0).wrapping_mul(u64::from(TIMED));
        time.store(time.load(Ordering::Relaxed).wrapping_add(all), Ordering::Relaxed);
    }

    /// The worker begins a batch with tables of this version.
    pub fn entered(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// The worker holds no tables any more.
    pub fn rests(&self) {
        self.version.store(RESTS, Ordering::Relaxed);
    }

    /// The version of the tables that the worker uses; `None` while it rests.
    pub fn version(&self) -> Option<u64> {
        Some(self.version.load(Ordering::Relaxed)).filter(|version| *version != RESTS)
    }

    /// Adds packets and bytes to a cell. Only the worker itself may call this, and not while its code runs.
    pub fn add(&self, cell: usize, more: [u64; 2]) {
        self.cells.add(0, cell as u64, more);
    }

    fn cell(&self, cell: usize) -> Counter {
        let [packets, bytes] = self.cells.get(0, cell as u64).unwrap_or_default();
        Counter { packets, bytes }
    }
}

/// What an action did at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionTally {
    /// The action.
    pub action: ActionId,
    /// Packets for which an entry was hit that has this action.
    pub hits: Counter,
    /// Packets for which no entry was hit, and this was the default action.
    pub misses: Counter,
}

/// What a table did at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTally {
    /// The table.
    pub table: TableId,
    /// In the order of the table's list.
    pub actions: Vec<ActionTally>,
}

/// What went through one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTally {
    /// The table that it begins with; `None`: the beginning of the program, or its deparser.
    pub table: Option<TableId>,
    /// Whether it is where packets begin.
    pub begins: bool,
    /// Packets, those among them that another stage looked the table up for where it is applied.
    pub packets: u64,
    /// Bytes of these packets as they arrived; `None` if that is not known of this stage alone.
    pub bytes: Option<u64>,
    /// Ticks of the processor's clock (constant rate), lookups included: an estimate, as not all packets are timed; 0 on machines without one. What another stage looks up in place
    /// is in that stage's time.
    pub ticks: u64,
}

/// What a program did, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// The stages of native code, in their order; none if the interpreter runs the program.
    pub stages: Vec<StageTally>,
    /// All places where tables are applied; a table can have several.
    pub tables: Vec<TableTally>,
}

/// Adds up.
pub fn add_up<'a>(
    pipeline: &Pipeline,
    places: &Places,
    stages: &[StageInfo],
    workers: impl Iterator<Item = &'a Tally> + Clone,
) -> Tallies {
    let sum = |cell: usize| workers.clone().map(|worker| worker.cell(cell)).sum();
    let at = |stage: Option<usize>, table: TableId| {
        let action = |(position, listed): (usize, &ir::ActionRef)| {
            let misses = places.cell(stage, table, position);
            ActionTally { action: listed.action, hits: sum(misses + 1), misses: sum(misses) }
        };
        TableTally { table, actions: pipeline.tables[table].actions.iter().enumerate().map(action).collect() }
    };
    let mut all = Tallies::default();
    let mut told = BTreeSet::new();
    let shown = stages.iter().filter(|stage| stage.start != Start::Again);
    for stage in shown.filter(|stage| told.insert(stage.slot)) {
        let total = |half: usize| {
            workers.clone().map(|w| w.stages[stage.slot][half].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let table = stage.table.map(|table| at(Some(stage.slot), table));
        let bytes = table.as_ref().map(|table| table.actions.iter().map(|a| a.hits.bytes + a.misses.bytes).sum());
        let begins = stage.start == Start::Begin;
        // Not all packets that pass a table wait for it.
        let chosen = |table: &TableTally| table.actions.iter().map(|a| a.hits.packets + a.misses.packets).sum();
        let packets = table.as_ref().map_or_else(|| total(0), chosen);
        all.stages.push(StageTally { table: stage.table, begins, packets, bytes, ticks: total(1) });
        all.tables.extend(table);
    }
    let inline = pipeline.tables.keys().filter(|table| !is_cut(pipeline, *table));
    all.tables.extend(inline.map(|table| at(None, table)));
    all
}

/// The processor's clock, which goes on at a constant rate; 0 on machines without one.
#[inline(always)]
pub fn ticks() -> u64 {
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
