//! [`NamedStats`]: statistics of tables, actions and stages over all programs that ran. They are
//! kept by name, because a number is only valid in its own program.

use crate::engine::EngineControl;
use ir::Pipeline;
use jit::StageStats;
use packet::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCounts {
    /// Packets that hit an entry.
    pub hits: Counter,
    /// Packets that missed.
    pub misses: Counter,
    /// Hits and misses by action name.
    pub actions: BTreeMap<String, [Counter; 2]>,
}

/// Counts of a table to which packets add entries, under native code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTableCounts {
    /// Entries that packets have added.
    pub added_by_packets: u64,
    /// Entries that the control plane has inserted.
    pub added_by_control: u64,
    /// Entries that were removed because their idle time was over.
    pub expired: u64,
    /// Entries that the control plane has removed.
    pub removed: u64,
    /// Refused additions by reason.
    pub refused: BTreeMap<String, u64>,
}

impl FlowTableCounts {
    fn add(&mut self, counts: &jit::FlowTableCounts) {
        self.added_by_packets += counts.added_by_packets;
        self.added_by_control += counts.added_by_control;
        self.expired += counts.expired;
        self.removed += counts.removed;
        for (reason, count) in &counts.refused {
            *self.refused.entry((*reason).to_owned()).or_default() += count;
        }
    }

    /// Returns the difference to earlier counts.
    pub fn since(&self, earlier: &FlowTableCounts) -> FlowTableCounts {
        let refused = self.refused.iter().map(|(reason, count)| {
            (reason.clone(), count.saturating_sub(earlier.refused.get(reason).copied().unwrap_or(0)))
        });
        FlowTableCounts {
            added_by_packets: self.added_by_packets.saturating_sub(earlier.added_by_packets),
            added_by_control: self.added_by_control.saturating_sub(earlier.added_by_control),
            expired: self.expired.saturating_sub(earlier.expired),
            removed: self.removed.saturating_sub(earlier.removed),
            refused: refused.collect(),
        }
    }
}

/// Sessions of a NAT that got no port: no block was free; the machine had all its ports. By the number of
/// the NAT's first address in the pool of ports.
pub type RefusedPorts = BTreeMap<u32, [u64; 2]>;

/// Statistics of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCounts {
    /// Packets and bytes that passed the stage.
    pub count: Counter,
    /// Ticks of the processor's time-stamp counter.
    pub ticks: u64,
}

/// Statistics of all tables, stages and tiers, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedStats {
    /// Statistics by table name.
    pub tables: BTreeMap<String, TableCounts>,
    /// Statistics by stage name ([`stage_names`]).
    pub stages: BTreeMap<String, StageCounts>,
    /// Packets that a tier completed, by tier name ([`EngineControl::packets_by_tier`]).
    #[serde(default)]
    pub tiers: BTreeMap<String, u64>,
    /// Counts of tables to which packets add entries, by table name. A take-over sends them in a
    /// message of their own, because this struct's encoding is that of older versions.
    #[serde(skip)]
    pub flow_tables: BTreeMap<String, FlowTableCounts>,
    /// Sessions of NATs that got no port. A successor does not get them, for the same reason.
    #[serde(skip)]
    pub refused_ports: RefusedPorts,
}

/// Returns the names of a program's stages: `parser`, the table that is looked up (with `#2` and so
/// on for further stages of the table), `deparser`.
pub fn stage_names(pipeline: &Pipeline, stages: &[StageStats]) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut name = |stage: &StageStats| {
        let name = match stage.table {
            Some(table) => pipeline.tables[table].preamble.name.as_str(),
            None if stage.is_entry => "parser",
            None => "deparser",
        };
        let number = seen.entry(name).or_default();
        *number += 1;
        if *number == 1 { name.to_owned() } else { format!("{name}#{number}") }
    };
    stages.iter().map(&mut name).collect()
}

impl NamedStats {
    /// Adds the statistics of a program's engine.
    pub fn add_engine(&mut self, pipeline: &Pipeline, engine: &dyn EngineControl) {
        for (tier, packets) in engine.packets_by_tier() {
            *self.tiers.entry(tier.to_owned()).or_default() += packets;
        }
        for (table, counts) in engine.flow_tables().iter().flat_map(|tables| {
            tables.ids().filter_map(|table| Some((table, tables.info(table)?.counts))).collect::<Vec<_>>()
        }) {
            self.flow_tables.entry(pipeline.tables[table].preamble.name.clone()).or_default().add(&counts);
        }
        crate::nat::with_pool_of(pipeline, engine, &mut |pool| {
            for usage in pool.usage_by_address() {
                let [empty, quota] = self.refused_ports.entry(usage.address).or_default();
                (*empty, *quota) = (*empty + usage.refused_empty, *quota + usage.refused_quota);
            }
        });
        let tallies = engine.tallies();
        for place in &tallies.tables {
            let Some(table) = pipeline.tables.get(place.table) else { continue };
            let sum = self.tables.entry(table.preamble.name.clone()).or_default();
            for tally in &place.actions {
                let name = pipeline.actions.get(tally.action).map_or("", |action| action.preamble.name.as_str());
                let (hits, misses) = (tally.hits, tally.misses);
                sum.hits += hits;
                sum.misses += misses;
                let [action_hits, action_misses] = sum.actions.entry(name.to_owned()).or_default();
                *action_hits += hits;
                *action_misses += misses;
            }
        }
        // Bytes are only known for stages of tables that count them.
        for (name, stage) in stage_names(pipeline, &tallies.stages).into_iter().zip(&tallies.stages) {
            let sum = self.stages.entry(name).or_default();
            sum.count += Counter { packets: stage.packets, bytes: stage.bytes.unwrap_or(0) };
            sum.ticks = sum.ticks.wrapping_add(stage.ticks);
        }
    }

    /// Returns how many sessions of NATs got no port since earlier statistics.
    pub fn refused_ports_since(&self, earlier: &NamedStats) -> RefusedPorts {
        let since = |(address, counts): (&u32, &[u64; 2])| {
            let past = earlier.refused_ports.get(address).copied().unwrap_or_default();
            (*address, [counts[0].saturating_sub(past[0]), counts[1].saturating_sub(past[1])])
        };
        self.refused_ports.iter().map(since).collect()
    }

    /// Removes names that the program does not have, because a controller that sets ever new
    /// programs must not exhaust the memory.
    pub fn retain_names_of(&mut self, pipeline: &Pipeline, stages: &[StageStats]) {
        let tables: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        self.tables.retain(|name, _| tables.contains(&name.as_str()));
        self.flow_tables.retain(|name, _| tables.contains(&name.as_str()));
        let names = stage_names(pipeline, stages);
        self.stages.retain(|name, _| names.contains(name));
        for counts in self.tables.values_mut() {
            counts.actions.retain(|name, _| pipeline.actions.values().any(|action| action.preamble.name == *name));
        }
    }
}
