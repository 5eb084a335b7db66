//! Number of rules that a cache covers: whole traversals that its segments can form.

use crate::segment_table::SegmentTable;
use interp::block_hook::InstIndex;
use std::collections::HashMap;

/// Returns the number of chains of segments from the start of the control to its end, through
/// tables in order. This is an upper bound, because the state after a segment may not match the
/// next.
pub fn count_chains(stores: &[SegmentTable]) -> f64 {
    // Number of chains from a tag to the end, through the tables from the current one on.
    let mut ways: HashMap<InstIndex, f64> = HashMap::new();
    for store in stores.iter().rev() {
        let mut more: HashMap<InstIndex, f64> = HashMap::new();
        for (tag, next) in store.tag_links() {
            *more.entry(tag).or_default() += next.map_or(1.0, |next| ways.get(&next).copied().unwrap_or(0.0));
        }
        for (tag, count) in more {
            *ways.entry(tag).or_default() += count;
        }
    }
    ways.get(&0).copied().unwrap_or(0.0)
}

/// Returns the estimate of the published Gigaflow system (gvs, `lib/gigaflow-perf.c`), with
/// segments linked by tags. For each pair of tags, of which one's segments end at the other, it
/// multiplies the numbers of segments. Returns the largest product, or without any such pair the
/// largest number of segments with one tag in one table.
pub fn gigaflow_rule_space(stores: &[SegmentTable]) -> f64 {
    let mut begins: HashMap<(usize, InstIndex), f64> = HashMap::new();
    let mut leads: HashMap<(usize, InstIndex, InstIndex), f64> = HashMap::new();
    for (at, store) in stores.iter().enumerate() {
        for (tag, next) in store.tag_links() {
            *begins.entry((at, tag)).or_default() += 1.0;
            if let Some(next) = next {
                *leads.entry((at, tag, next)).or_default() += 1.0;
            }
        }
    }
    let alone = begins.values().copied().fold(0.0, f64::max);
    let pairs = leads.iter().flat_map(|((at, _, next), count)| {
        let later = (at + 1..stores.len()).filter_map(|later| begins.get(&(later, *next)));
        later.map(move |other| count * other)
    });
    pairs.fold(alone, f64::max)
}
