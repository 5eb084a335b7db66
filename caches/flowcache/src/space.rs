//! How many rules a cache covers: the whole traversals that its segments make together.

use crate::store::Store;
use interp::walk::Pc;
use std::collections::HashMap;

/// The ways along segments from the start of the control to its end, through tables in their order. An upper bound, as a segment may not fit what the one
/// before it leaves.
pub fn chains(stores: &[Store]) -> f64 {
    // Ways from a tag to the end, by tables from there on.
    let mut ways: HashMap<Pc, f64> = HashMap::new();
    for store in stores.iter().rev() {
        let mut more: HashMap<Pc, f64> = HashMap::new();
        for (tag, next) in store.links() {
            *more.entry(tag).or_default() += next.map_or(1.0, |next| ways.get(&next).copied().unwrap_or(0.0));
        }
        for (tag, count) in more {
            *ways.entry(tag).or_default() += count;
        }
    }
    ways.get(&0).copied().unwrap_or(0.0)
}

/// The estimate of the published system (gvs, `lib/gigaflow-perf.c`), for segments that meet by their tags: for each pair of places where segments begin, of which one
/// leads to the other, the product of how many there are; the greatest such product, or the greatest number of segments of one table if none leads on.
pub fn published(stores: &[Store]) -> f64 {
    let mut begins: HashMap<(usize, Pc), f64> = HashMap::new();
    let mut leads: HashMap<(usize, Pc, Pc), f64> = HashMap::new();
    for (at, store) in stores.iter().enumerate() {
        for (tag, next) in store.links() {
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
