//! [`Tallied`]: what tables, actions and stages did, by name, over all programs that ran. A number means something only beside its own program; what
//! outlives a program has names.

use crate::engine::Controlled;
use ir::Pipeline;
use jit::StageTally;
use packet::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a table did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCounts {
    /// Packets that hit an entry.
    pub hits: Counter,
    /// Packets that did not.
    pub misses: Counter,
    /// For each action, by name: the same.
    pub actions: BTreeMap<String, [Counter; 2]>,
}

/// What a stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCounts {
    /// What went through.
    pub count: Counter,
    /// Ticks of the processor's clock.
    pub ticks: u64,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallied {
    /// By the table's name.
    pub tables: BTreeMap<String, TableCounts>,
    /// By the stage's name ([`stage_names`]).
    pub stages: BTreeMap<String, StageCounts>,
    /// Packets that a tier has done with, by the tier's name ([`Controlled::served`]).
    #[serde(default)]
    pub tiers: BTreeMap<String, u64>,
}

/// The names of a program's stages: `parser`, the table that is looked up (`#2` and so on, where a table has several), `deparser`.
pub fn stage_names(pipeline: &Pipeline, stages: &[StageTally]) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut name = |stage: &StageTally| {
        let name = match stage.table {
            Some(table) => pipeline.tables[table].preamble.name.as_str(),
            None if stage.begins => "parser",
            None => "deparser",
        };
        let number = seen.entry(name).or_default();
        *number += 1;
        if *number == 1 { name.to_owned() } else { format!("{name}#{number}") }
    };
    stages.iter().map(&mut name).collect()
}

impl Tallied {
    /// Adds what a program did.
    pub fn add(&mut self, pipeline: &Pipeline, engine: &dyn Controlled) {
        for (tier, packets) in engine.served() {
            *self.tiers.entry(tier.to_owned()).or_default() += packets;
        }
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
        // Bytes are known where a table counts them.
        for (name, stage) in stage_names(pipeline, &tallies.stages).into_iter().zip(&tallies.stages) {
            let sum = self.stages.entry(name).or_default();
            sum.count += Counter { packets: stage.packets, bytes: stage.bytes.unwrap_or(0) };
            sum.ticks = sum.ticks.wrapping_add(stage.ticks);
        }
    }

    /// Forgets what the program does not have: a controller that sets ever new programs must not fill the memory.
    pub fn keep(&mut self, pipeline: &Pipeline, stages: &[StageTally]) {
        let tables: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        self.tables.retain(|name, _| tables.contains(&name.as_str()));
        let names = stage_names(pipeline, stages);
        self.stages.retain(|name, _| names.contains(name));
        for counts in self.tables.values_mut() {
            counts.actions.retain(|name, _| pipeline.actions.values().any(|action| action.preamble.name == *name));
        }
    }
}
