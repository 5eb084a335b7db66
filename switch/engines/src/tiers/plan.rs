//! [`TiersPlan`]: tiers in this process, and the partition of a program.

use crate::SwitchPlan;
use crate::plan::requested_sizes;
use entries::find_table;
use interp::Config;
use ir::passes::without_recirculation;
use ir::{Pipeline, TableId};
use node::config::{LOWER_PORT, TIERS_KEY};
use node::engine::SharedEngineFactory;
use offload::partition::{PartitionOptions, PipelinePartition, TableMode, cut_points_for_tables, partition_pipeline};
use offload::upper_tier_filter;
use p4runtime::P4RuntimeError;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Minimum number of hot entries to which a table is shrunk if it does not fit.
const MIN_HOT_ENTRIES: u64 = 64;

/// Configuration of tiers in this process and of the partition.
#[derive(Clone, Debug)]
pub struct TiersPlan {
    /// Engine of the upper half, if it is in this process.
    pub above: Option<SharedEngineFactory>,
    /// Engine of the lower half, if it is in this process: a flow cache, which is both the DPU tier
    /// and the CPU tier, or an engine of the CPU tier.
    pub below: Option<SharedEngineFactory>,
    /// Modes of tables on the switch, by control-plane name or its end after a dot. Other tables
    /// are whole; those that packets write to are always absent.
    pub table_modes: BTreeMap<String, TableMode>,
    /// Key of the bridge headers, which distinguishes them from frames of others.
    pub key: u32,
    /// Port of the upper half to the lower tiers; must not be a front port.
    pub lower_port: u32,
    /// Ports to lower tiers in other processes, each of which has the entire lower half.
    pub down: Vec<u32>,
    /// Ports to the switch, if it is in another process.
    pub up: Vec<u32>,
    /// Meter or register that spreads flows over those ports by its index, so that each of its
    /// elements is in one tier. `None`: addresses and ports spread them.
    pub affinity_object: Option<String>,
    /// Time without an answer after which a lower tier counts as down.
    pub link_timeout: Duration,
    /// Interval of hot set selections.
    pub reselect_interval: Duration,
}

impl TiersPlan {
    /// Returns a configuration with both engines in this process.
    pub fn in_one_process(
        above: SharedEngineFactory,
        below: SharedEngineFactory,
        held: BTreeMap<String, TableMode>,
    ) -> TiersPlan {
        TiersPlan {
            above: Some(above),
            below: Some(below),
            table_modes: held,
            key: TIERS_KEY,
            lower_port: LOWER_PORT,
            down: Vec::new(),
            up: Vec::new(),
            affinity_object: None,
            link_timeout: Duration::from_millis(350),
            reselect_interval: Duration::from_secs(1),
        }
    }

    /// Partitions a program. All processes with the same configuration get the same partition.
    ///
    /// # Errors
    /// An unknown table, or one at which the program cannot be partitioned.
    pub fn partition(&self, pipeline: &Pipeline) -> Result<PipelinePartition, P4RuntimeError> {
        // Neither half has a second pass, if the program says what to do without one.
        let pipeline = &*without_recirculation(&Arc::new(pipeline.clone()));
        let refused =
            |error: entries::EntryTextError| P4RuntimeError::unimplemented(format!("{}: {error}", pipeline.name));
        let find = |(name, held): (&String, &TableMode)| {
            Ok::<_, P4RuntimeError>((find_table(pipeline, name).map_err(refused)?, *held))
        };
        let mut held: BTreeMap<TableId, TableMode> = self.table_modes.iter().map(find).collect::<Result<_, _>>()?;
        if self.has_other_processes() {
            held.retain(|table, _| !pipeline.tables[*table].add_on_miss);
        }
        let options = PartitionOptions { lower_port: self.lower_port, key: self.key };
        let cut =
            cut_points_for_tables(pipeline, &held).and_then(|stops| partition_pipeline(pipeline, &stops, options));
        let cut = cut.map_err(|error| {
            P4RuntimeError::unimplemented(format!("{} cannot be partitioned: {error}", pipeline.name))
        })?;
        for half in [&cut.upper, &cut.lower] {
            check_same_numbering(pipeline, half).map_err(P4RuntimeError::unimplemented)?;
        }
        Ok(cut)
    }

    /// Returns whether tiers are in other processes. Entries that packets add get to the upper half
    /// within a process only.
    fn has_other_processes(&self) -> bool {
        !self.down.is_empty() || !self.up.is_empty()
    }

    /// Returns notes on hot tables that are below nevertheless, because tiers are in other processes.
    pub(super) fn notes_on_kept_below(&self, pipeline: &Pipeline) -> Vec<String> {
        let hot = self.table_modes.iter().filter(|(_, held)| matches!(held, TableMode::Hot(_)));
        let tables = hot.filter_map(|(name, _)| find_table(pipeline, name).ok());
        let written = tables.filter(|table| self.has_other_processes() && pipeline.tables[*table].add_on_miss);
        let note = |table: TableId| {
            let name = &pipeline.tables[table].preamble.name;
            format!(
                "tiers: {name} is below, because tiers in other processes do not report the entries that packets add"
            )
        };
        written.map(note).collect()
    }

    /// Returns the capacities of hot tables in the upper tier, in entries.
    pub(super) fn hot_capacities(&self, pipeline: &Pipeline) -> BTreeMap<TableId, u64> {
        let hot = self.table_modes.iter().filter_map(|(name, held)| match held {
            TableMode::Hot(entries) => Some((find_table(pipeline, name).ok()?, *entries)),
            _ => None,
        });
        hot.collect()
    }

    /// Returns the engine of the upper half: a chip with the capacities of hot tables.
    pub(super) fn upper_factory(&self, pipeline: &Pipeline) -> Option<SharedEngineFactory> {
        let above = self.above.clone()?;
        let Some(chip) = self.chip_plan() else { return Some(above) };
        let mut chip = chip.clone();
        let rooms = self.hot_capacities(pipeline);
        let names = rooms.iter().map(|(table, room)| (pipeline.tables[*table].preamble.name.clone(), *room));
        chip.room.tables.extend(names);
        Some(Arc::new(chip))
    }

    /// Returns the chip of the upper half, if one runs it.
    fn chip_plan(&self) -> Option<&SwitchPlan> {
        (&**self.above.as_ref()? as &dyn Any).downcast_ref()
    }

    /// Makes the table with the largest demand hot, or shrinks its hot set, because the chip cannot
    /// hold it. Returns a note; `None` if no table can be shrunk.
    pub(super) fn shrink_largest_table(&mut self, pipeline: &Pipeline, cut: &PipelinePartition) -> Option<String> {
        let sizes = requested_sizes(&self.chip_plan()?.room, pipeline).ok()?;
        let hot_capacities = self.hot_capacities(pipeline);
        let declared = |table: TableId| &pipeline.tables[table];
        let key_bits =
            |table: TableId| declared(table).keys.iter().map(|key| u64::from(key.ty.width())).sum::<u64>().max(1);
        let capacity = |table: TableId| {
            let size = sizes.get(&declared(table).preamble.name).copied().unwrap_or(0);
            hot_capacities.get(&table).copied().unwrap_or(size)
        };
        let applied = upper_tier_filter::applied_tables(&cut.upper);
        let can_shrink = |table: &TableId| !declared(*table).const_entries && capacity(*table) > MIN_HOT_ENTRIES;
        let demand_bits = |table: &TableId| (capacity(*table).saturating_mul(key_bits(*table)), *table);
        let largest = applied.into_iter().filter(can_shrink).max_by_key(demand_bits)?;
        let name = declared(largest).preamble.name.clone();
        let (old_capacity, new_capacity) = (capacity(largest), (capacity(largest) / 4).max(MIN_HOT_ENTRIES));
        self.table_modes.retain(|held, _| find_table(pipeline, held) != Ok(largest));
        self.table_modes.insert(name.clone(), TableMode::Hot(new_capacity));
        Some(format!(
            "tiers: {name} is hot with {new_capacity} entries, because the chip has no room for {old_capacity}"
        ))
    }
}

/// Adds the down port to the upper half's settings, hidden from the program.
pub(super) fn with_inner_port(settings: &Config, port: u32) -> Config {
    let mut settings = settings.clone();
    if let Some(ports) = &mut settings.ports {
        ports.insert(port);
        settings.tier_ports.insert(port);
    }
    settings
}

/// Checks that a half numbers tables, actions and objects like the whole program, so that writes
/// apply to both.
fn check_same_numbering(whole: &Pipeline, half: &Pipeline) -> Result<(), String> {
    let names = |p: &Pipeline| -> Vec<String> { p.tables.values().map(|table| table.preamble.name.clone()).collect() };
    let objects = |p: &Pipeline| -> Vec<String> {
        let all = p.externs.values().take(whole.externs.len());
        all.map(|object| format!("{} {:?}", object.preamble.name, object.kind)).collect()
    };
    let actions =
        |p: &Pipeline| -> Vec<String> { p.actions.values().map(|action| action.preamble.name.clone()).collect() };
    if names(whole) == names(half) && objects(whole) == objects(half) && actions(whole) == actions(half) {
        return Ok(());
    }
    Err(format!("{}: {} has other tables, actions or objects, which is a bug", whole.name, half.name))
}
