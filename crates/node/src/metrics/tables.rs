//! Metrics of the program's tables, stages and counters.

use super::samples::{CounterSamples, ValueSamples};
use super::scrape::ScrapeSnapshot;
use crate::observe::TableSnapshot;

fn result(is_hit: bool) -> String {
    if is_hit { "hit" } else { "miss" }.to_owned()
}

pub(super) fn applied(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let counted = seen.now.stats.tables.iter();
    let both = counted.flat_map(|(table, counts)| {
        [(true, counts.hits), (false, counts.misses)].map(|(hit, count)| (vec![table.clone(), result(hit)], count))
    });
    both.collect()
}

pub(super) fn actions(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    let mut all = Vec::new();
    for (table, counts) in &seen.now.stats.tables {
        for (action, [hits, misses]) in &counts.actions {
            let both = [(true, *hits), (false, *misses)];
            // Omits zeros, because many actions cannot be a default action.
            let counted = both.into_iter().filter(|(_, count)| count.packets > 0);
            all.extend(counted.map(|(hit, count)| (vec![table.clone(), result(hit), action.clone()], count)));
        }
    }
    all
}

fn sample_per_table(seen: &ScrapeSnapshot<'_>, value: fn(&TableSnapshot) -> Option<u64>) -> ValueSamples {
    let tables = seen.tables.iter();
    tables.filter_map(|table| Some((vec![table.name.clone()], value(table)? as f64))).collect()
}

pub(super) fn entries(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |table| Some(table.entries))
}

pub(super) fn high_water(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |table| Some(table.high_water))
}

pub(super) fn size(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |table| table.size)
}

pub(super) fn memory(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |table| Some(table.memory_bytes))
}

pub(super) fn tiers(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    seen.now.stats.tiers.iter().map(|(tier, packets)| (vec![tier.clone()], *packets as f64)).collect()
}

pub(super) fn stage_packets(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let stages = seen.now.stats.stages.iter();
    stages.map(|(stage, counts)| (vec![stage.clone()], counts.count.packets as f64)).collect()
}

/// Returns seconds that are apportioned by measurement, and can therefore decrease slightly.
pub(super) fn stage_seconds(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let stages = &seen.now.stats.stages;
    let ticks: u64 = stages.values().map(|counts| counts.ticks).sum();
    let engine = seen.sum.engine_time.as_secs_f64();
    let share = |own: u64| engine * own as f64 / ticks.max(1) as f64;
    stages.iter().map(|(stage, counts)| (vec![stage.clone()], share(counts.ticks))).collect()
}

pub(super) fn program_counters(seen: &ScrapeSnapshot<'_>) -> CounterSamples {
    seen.counters.clone()
}
