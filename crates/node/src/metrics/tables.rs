//! What tables, stages and counters of the program have, and what went through them.

use super::samples::{Counted, Values};
use super::seen::Seen;
use crate::observe::TableNow;

fn result(is_hit: bool) -> String {
    if is_hit { "hit" } else { "miss" }.to_owned()
}

pub(super) fn applied(seen: &Seen<'_>) -> Counted {
    let counted = seen.now.tallied.tables.iter();
    let both = counted.flat_map(|(table, counts)| {
        [(true, counts.hits), (false, counts.misses)].map(|(hit, count)| (vec![table.clone(), result(hit)], count))
    });
    both.collect()
}

pub(super) fn actions(seen: &Seen<'_>) -> Counted {
    let mut all = Vec::new();
    for (table, counts) in &seen.now.tallied.tables {
        for (action, [hits, misses]) in &counts.actions {
            let both = [(true, *hits), (false, *misses)];
            // Actions that cannot be a default action are not worth a line of zeros.
            let counted = both.into_iter().filter(|(_, count)| count.packets > 0);
            all.extend(counted.map(|(hit, count)| (vec![table.clone(), result(hit), action.clone()], count)));
        }
    }
    all
}

fn of_each(seen: &Seen<'_>, value: fn(&TableNow) -> Option<u64>) -> Values {
    let tables = seen.tables.iter();
    tables.filter_map(|table| Some((vec![table.name.clone()], value(table)? as f64))).collect()
}

pub(super) fn entries(seen: &Seen<'_>) -> Values {
    of_each(seen, |table| Some(table.entries))
}

pub(super) fn high_water(seen: &Seen<'_>) -> Values {
    of_each(seen, |table| Some(table.high_water))
}

pub(super) fn size(seen: &Seen<'_>) -> Values {
    of_each(seen, |table| table.size)
}

pub(super) fn memory(seen: &Seen<'_>) -> Values {
    of_each(seen, |table| Some(table.memory_bytes))
}

pub(super) fn tiers(seen: &Seen<'_>) -> Values {
    seen.now.tallied.tiers.iter().map(|(tier, packets)| (vec![tier.clone()], *packets as f64)).collect()
}

pub(super) fn stage_packets(seen: &Seen<'_>) -> Values {
    let stages = seen.now.tallied.stages.iter();
    stages.map(|(stage, counts)| (vec![stage.clone()], counts.count.packets as f64)).collect()
}

/// Seconds that are shared out by measurement, and so may go back a little.
pub(super) fn stage_seconds(seen: &Seen<'_>) -> Values {
    let stages = &seen.now.tallied.stages;
    let ticks: u64 = stages.values().map(|counts| counts.ticks).sum();
    let engine = seen.sum.engine_time.as_secs_f64();
    let share = |own: u64| engine * own as f64 / ticks.max(1) as f64;
    stages.iter().map(|(stage, counts)| (vec![stage.clone()], share(counts.ticks))).collect()
}

pub(super) fn program_counters(seen: &Seen<'_>) -> Counted {
    seen.counters.clone()
}
