//! The largest elements of a program's indexed counters (for example tenants' traffic) as separate
//! series, and the sum of the others.
//!
//! The number of series is bounded, whatever indices packets choose. The shown elements change with
//! the traffic. Each series must only grow, and all together must equal the total; so a newly shown
//! element starts at 0, and its earlier count stays in the sum of the others.

use super::samples::CounterSamples;
use crate::Node;
use ir::{ExternId, ExternKind};
use packet::Counter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Default number of shown elements of a counter.
const DEFAULT_TOP: usize = 16;
/// Counters with more elements are skipped, because reading them takes too long.
const MAX_COUNTER_ELEMENTS: u64 = 1 << 22;

/// Presentation of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDisplay {
    /// Name of the counter, or a suffix of it after a dot.
    pub counter: String,
    /// Label of the index. Default: `index`.
    pub label: String,
    /// Number of elements that are shown separately.
    pub max_series: usize,
}

/// Shown elements of one counter.
#[derive(Debug, Default)]
struct TopElements {
    /// Whether the counter was shown before.
    was_shown: bool,
    /// Count of each shown element when it was first shown.
    baselines: BTreeMap<u64, Counter>,
}

/// Shown elements of all counters.
#[derive(Debug, Default)]
pub struct TopCounters {
    followed: Vec<CounterDisplay>,
    /// Shown elements by counter name.
    shown: BTreeMap<String, TopElements>,
}

impl TopElements {
    /// Selects at most `top` elements, and returns their counts and the sum of the others.
    fn update_shown(
        &mut self,
        elements: impl Iterator<Item = (u64, Counter)>,
        top: usize,
    ) -> (Vec<(u64, Counter)>, Counter) {
        let mut total = Counter::default();
        let mut greatest: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut counts: BTreeMap<u64, Counter> = BTreeMap::new();
        for (index, count) in elements {
            total += count;
            let known = self.baselines.contains_key(&index);
            let traffic = count.bytes.max(count.packets);
            // A shown element stays until another one is clearly larger.
            let weight = if known { traffic.saturating_add(traffic / 4) } else { traffic };
            let joins = greatest.len() < top || greatest.peek().is_some_and(|Reverse((least, _))| weight > *least);
            if joins {
                greatest.push(Reverse((weight, index)));
                counts.insert(index, count);
            }
            if greatest.len() > top
                && let Some(Reverse((_, least))) = greatest.pop()
            {
                counts.remove(&least);
            }
        }
        self.baselines.retain(|index, _| counts.contains_key(index));
        let mut rest = total;
        let mut shown = Vec::new();
        for (index, count) in counts {
            let base = *self.baselines.entry(index).or_insert(if self.was_shown { count } else { Counter::default() });
            let own = count.since(base);
            rest = rest.since(own);
            shown.push((index, own));
        }
        self.was_shown = true;
        (shown, rest)
    }
}

impl TopCounters {
    /// Creates the selection. Counters not in `followed` are shown with the label `index` and
    /// [`DEFAULT_TOP`] elements.
    pub fn new(followed: Vec<CounterDisplay>) -> TopCounters {
        TopCounters { followed, shown: BTreeMap::new() }
    }

    /// Returns the label and the number of shown elements of a counter.
    fn display_of(&self, name: &str) -> (String, usize) {
        match self.followed.iter().find(|followed| entries::matches_name(name, &followed.counter)) {
            Some(followed) => (followed.label.clone(), followed.max_series),
            None => ("index".to_owned(), DEFAULT_TOP),
        }
    }

    /// Returns the shown elements of all counters, each with the values of the labels `counter`,
    /// `by` and `index`.
    pub(super) fn collect_samples(&mut self, node: &Node) -> CounterSamples {
        let counters: Vec<(ExternId, String, u64)> = node
            .with_engine(|_, forwarding| {
                let counters = forwarding.pipeline.externs.iter().filter_map(|(id, object)| match object.kind {
                    ExternKind::Counter { size, .. } if size <= MAX_COUNTER_ELEMENTS => {
                        Some((id, object.preamble.name.clone(), size))
                    }
                    _ => None,
                });
                counters.collect()
            })
            .unwrap_or_default();
        self.shown.retain(|name, _| counters.iter().any(|(_, known, _)| known == name));
        let mut all = Vec::new();
        for (id, name, size) in counters {
            let (label, top) = self.display_of(&name);
            let counted = node.with_engine(|engine, _| engine.counted(id, size)).unwrap_or_default();
            let (shown, rest) = self.shown.entry(name.clone()).or_default().update_shown(counted.into_iter(), top);
            let shown = shown.into_iter().map(|(index, count)| (index.to_string(), count));
            for (index, count) in shown.chain([("other".to_owned(), rest)]) {
                all.push((vec![name.clone(), label.clone(), index], count));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(shown: &mut TopElements, counts: &[u64], top: usize) -> (Vec<(u64, u64)>, u64) {
        let elements = (0..).zip(counts).map(|(index, packets)| (index, Counter { packets: *packets, bytes: 0 }));
        let (each, rest) = shown.update_shown(elements, top);
        (each.into_iter().map(|(index, count)| (index, count.packets)).collect(), rest.packets)
    }

    #[test]
    fn values_only_grow_and_add_up_whatever_is_shown() {
        let mut shown = TopElements::default();
        let mut counts = [0u64; 200];
        let (mut last, mut last_rest): (BTreeMap<u64, u64>, u64) = Default::default();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            // The elements with the most traffic change.
            let favoured = random.usize(..200);
            counts[favoured] += random.u64(..1000);
            counts.iter_mut().for_each(|count| *count += random.u64(..3));
            let (each, rest) = show(&mut shown, &counts, 8);
            assert_eq!(each.len(), 8);
            let total: u64 = counts.iter().sum();
            assert_eq!(each.iter().map(|(_, own)| own).sum::<u64>() + rest, total);
            assert!(rest >= last_rest, "the rest shrank from {last_rest} to {rest}");
            let now: BTreeMap<u64, u64> = each.into_iter().collect();
            for (index, own) in &now {
                assert!(last.get(index).is_none_or(|before| own >= before));
            }
            (last, last_rest) = (now, rest);
        }
    }

    #[test]
    fn at_first_the_greatest_have_all_that_they_counted() {
        let mut shown = TopElements::default();
        assert_eq!(show(&mut shown, &[5, 0, 100, 70], 2), (vec![(2, 100), (3, 70)], 5));
        // An element slightly larger than the smallest shown one does not replace it; a much larger
        // one does.
        assert_eq!(show(&mut shown, &[80, 0, 100, 70], 2), (vec![(2, 100), (3, 70)], 80));
        assert_eq!(show(&mut shown, &[90, 0, 100, 70], 2), (vec![(0, 0), (2, 100)], 160));
    }
}
