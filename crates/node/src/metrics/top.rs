//! The greatest elements of a program's indexed counters (a tenant's traffic, for example), one by one, and the rest together.
//!
//! How many are shown is bounded, whatever indices packets choose. Which are shown changes with traffic; so that every value only grows and all of them
//! together are what was counted, an element that comes up begins at 0, and what it had before stays with the rest.

use super::samples::Counted;
use crate::Node;
use ir::{ExternId, ExternKind};
use packet::Counter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Elements shown of a counter of which nothing else was said.
const USUAL: usize = 16;
/// Counters with more elements than this are not looked at: it would take too long.
const LARGEST: u64 = 1 << 22;

/// How a counter is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its name, or the end of it after a dot.
    pub counter: String,
    /// The label that its index has: `index` unless said otherwise.
    pub label: String,
    /// So many elements are shown.
    pub top: usize,
}

/// What is shown of one counter.
#[derive(Debug, Default)]
struct Shown {
    /// Whether it was shown before.
    began: bool,
    /// What each element had when it came up.
    bases: BTreeMap<u64, Counter>,
}

/// What is shown of all counters.
#[derive(Debug, Default)]
pub struct Tops {
    followed: Vec<Followed>,
    /// By the counter's name.
    shown: BTreeMap<String, Shown>,
}

impl Shown {
    /// What is to be shown of these elements: at most `top`, each by itself, and the rest.
    fn show(&mut self, elements: impl Iterator<Item = (u64, Counter)>, top: usize) -> (Vec<(u64, Counter)>, Counter) {
        let mut total = Counter::default();
        let mut greatest: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut counts: BTreeMap<u64, Counter> = BTreeMap::new();
        for (index, count) in elements {
            total += count;
            let known = self.bases.contains_key(&index);
            let traffic = count.bytes.max(count.packets);
            // Who is shown stays until somebody is clearly greater.
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
        self.bases.retain(|index, _| counts.contains_key(index));
        let mut rest = total;
        let mut shown = Vec::new();
        for (index, count) in counts {
            let base = *self.bases.entry(index).or_insert(if self.began { count } else { Counter::default() });
            let own = count.since(base);
            rest = rest.since(own);
            shown.push((index, own));
        }
        self.began = true;
        (shown, rest)
    }
}

impl Tops {
    /// Counters are shown as `followed` says; others with an index, [`USUAL`] elements each.
    pub fn new(followed: Vec<Followed>) -> Tops {
        Tops { followed, shown: BTreeMap::new() }
    }

    /// The label and the number of elements that are shown.
    fn how(&self, name: &str) -> (String, usize) {
        match self.followed.iter().find(|followed| entries::names(name, &followed.counter)) {
            Some(followed) => (followed.label.clone(), followed.top),
            None => ("index".to_owned(), USUAL),
        }
    }

    /// The elements that are shown, of all counters, each with the values of the labels `counter`, `by` and `index`.
    pub(super) fn counted(&mut self, node: &Node) -> Counted {
        let counters: Vec<(ExternId, String, u64)> = node
            .with_engine(|_, forwarding| {
                let counters = forwarding.pipeline.externs.iter().filter_map(|(id, object)| match object.kind {
                    ExternKind::Counter { size, .. } if size <= LARGEST => {
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
            let (label, top) = self.how(&name);
            let counted = node.with_engine(|engine, _| engine.counted(id, size)).unwrap_or_default();
            let (shown, rest) = self.shown.entry(name.clone()).or_default().show(counted.into_iter(), top);
            let shown = shown.into_iter().map(|(index, count)| (index.to_string(), count));
            for (index, count) in shown.chain([("rest".to_owned(), rest)]) {
                all.push((vec![name.clone(), label.clone(), index], count));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(shown: &mut Shown, counts: &[u64], top: usize) -> (Vec<(u64, u64)>, u64) {
        let elements = (0..).zip(counts).map(|(index, packets)| (index, Counter { packets: *packets, bytes: 0 }));
        let (each, rest) = shown.show(elements, top);
        (each.into_iter().map(|(index, count)| (index, count.packets)).collect(), rest.packets)
    }

    #[test]
    fn values_only_grow_and_add_up_whatever_is_shown() {
        let mut shown = Shown::default();
        let mut counts = [0u64; 200];
        let (mut last, mut last_rest): (BTreeMap<u64, u64>, u64) = Default::default();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            // Now these, now those have most traffic.
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
        let mut shown = Shown::default();
        assert_eq!(show(&mut shown, &[5, 0, 100, 70], 2), (vec![(2, 100), (3, 70)], 5));
        // A little more than the least of those shown is not enough; much more is.
        assert_eq!(show(&mut shown, &[80, 0, 100, 70], 2), (vec![(2, 100), (3, 70)], 80));
        assert_eq!(show(&mut shown, &[90, 0, 100, 70], 2), (vec![(0, 0), (2, 100)], 160));
    }
}
