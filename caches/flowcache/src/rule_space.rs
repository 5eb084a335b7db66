//! Number of rules that a cache covers: whole traversals that its segments can form.

use crate::segment_table::SegmentTable;
use interp::block_hook::InstIndex;
use std::collections::HashMap;

/// Returns the number of chains of segments from the start of the control to its end, through
/// tables in order. This is an upper bound, because the state after a segment may not match the
/// next.
pub fn count_chains(stores: &[SegmentTable]) -> f64 {
    // Number of chains from a tag to the end, through the tables from the current one on.
    let mut chains: HashMap<InstIndex, f64> = HashMap::new();
    for store in stores.iter().rev() {
        let mut chains_from_store: HashMap<InstIndex, f64> = HashMap::new();
        for (tag, next) in store.tag_links() {
            *chains_from_store.entry(tag).or_default() +=
                next.map_or(1.0, |next| chains.get(&next).copied().unwrap_or(0.0));
        }
        for (tag, count) in chains_from_store {
            *chains.entry(tag).or_default() += count;
        }
    }
    chains.get(&0).copied().unwrap_or(0.0)
}

/// Returns the estimate of the published Gigaflow system (gvs, `lib/gigaflow-perf.c`), with
/// segments linked by tags. For each pair of tags, of which one's segments end at the other, it
/// multiplies the numbers of segments. Returns the largest product, or without any such pair the
/// largest number of segments with one tag in one table.
pub fn gigaflow_rule_space(stores: &[SegmentTable]) -> f64 {
    let mut segments_by_tag: HashMap<(usize, InstIndex), f64> = HashMap::new();
    let mut segments_by_link: HashMap<(usize, InstIndex, InstIndex), f64> = HashMap::new();
    for (at, store) in stores.iter().enumerate() {
        for (tag, next) in store.tag_links() {
            *segments_by_tag.entry((at, tag)).or_default() += 1.0;
            if let Some(next) = next {
                *segments_by_link.entry((at, tag, next)).or_default() += 1.0;
            }
        }
    }
    let largest_tag = segments_by_tag.values().copied().fold(0.0, f64::max);
    let products = segments_by_link.iter().flat_map(|((at, _, next), count)| {
        let later = (at + 1..stores.len()).filter_map(|later| segments_by_tag.get(&(later, *next)));
        later.map(move |other| count * other)
    });
    products.fold(largest_tag, f64::max)
}
