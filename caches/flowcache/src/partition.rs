//! Partitions a traversal into segments so that tables on the same header fields stay together.
//!
//! The algorithm is Gigaflow's. Tables that each share a field with an earlier one form one
//! segment, because packets that differ in one of them differ in the others too. Tables on disjoint
//! fields are cached separately, because their entries would multiply. A segment of n related
//! tables scores 10 (n - 1), any other segment 0. The partition with the highest sum wins, among
//! equals the finest one. Each table is covered exactly once. Measured scores
//! ([`crate::split_estimator`]) are used in the same algorithm.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Header fields that a table reads, as numbers.
pub type FieldSet = BTreeSet<u32>;

/// Score of a segment from a first to a last unit.
pub type ScoreFn<'w> = &'w dyn Fn(usize, usize) -> i64;

/// Returns the best partition of `units` into at most `segments` segments, as first and last unit
/// of each, in order. Among partitions with the highest total score, returns the finest.
/// `must_begin`: whether a segment has to start at a unit. Returns `None` if no partition exists.
pub fn partition(
    units: usize,
    segments: usize,
    must_begin: &dyn Fn(usize) -> bool,
    score: ScoreFn<'_>,
) -> Option<Vec<(usize, usize)>> {
    if units == 0 || segments == 0 {
        return None;
    }
    // Earliest start of a segment that ends at each unit.
    let mut earliest_start = 0;
    let earliest_start: Vec<usize> = (0..units)
        .map(|last| {
            earliest_start = if must_begin(last) { last } else { earliest_start };
            earliest_start
        })
        .collect();
    // best[n][end]: highest sum of n segments that cover the units before `end`, and the start of
    // the last one.
    let mut best: Vec<Vec<Option<(i64, usize)>>> = vec![vec![None; units + 1]; segments + 1];
    best[0][0] = Some((0, 0));
    for count in 1..=segments {
        for end in 1..=units {
            for first in earliest_start[end - 1]..end {
                let Some((before, _)) = best[count - 1][first] else { continue };
                let total = before + score(first, end - 1);
                if best[count][end].is_none_or(|(other, _)| total > other) {
                    best[count][end] = Some((total, first));
                }
            }
        }
    }
    let count = (1..=segments)
        .filter(|count| best[*count][units].is_some())
        .max_by_key(|count| (best[*count][units].map(|b| b.0), *count))?;
    let (mut end, mut parts) = (units, Vec::new());
    for count in (1..=count).rev() {
        let (_, first) = best[count][end]?;
        parts.push((first, end - 1));
        end = first;
    }
    parts.reverse();
    Some(parts)
}

/// Tries increasing limits of segments and returns the first split that is not bad. If all are bad,
/// returns the last one.
pub fn first_acceptable_split<C>(
    limits: RangeInclusive<usize>,
    mut split: impl FnMut(usize) -> Option<C>,
    is_bad: impl Fn(&C) -> bool,
) -> Option<C> {
    let mut best = None;
    for limit in limits {
        best = split(limit).or(best);
        if best.as_ref().is_some_and(|split| !is_bad(split)) {
            break;
        }
    }
    best
}

/// Returns the scores of segments by fields alone, by first and last unit.
pub fn scores_by_fields(fields: &[FieldSet]) -> Vec<Vec<i64>> {
    let units = fields.len();
    let mut scores = vec![vec![0; units]; units];
    for (first, scores) in scores.iter_mut().enumerate() {
        let mut union = FieldSet::new();
        let mut is_related = true;
        for last in first..units {
            let unit_fields = &fields[last];
            is_related &=
                last == first || unit_fields.is_empty() || union.is_empty() || !unit_fields.is_disjoint(&union);
            union.extend(unit_fields);
            scores[last] = if is_related { 10 * (last - first) as i64 } else { 0 };
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::{FieldSet, partition, scores_by_fields};

    fn cut(fields: &[&[u32]], segments: usize) -> Vec<(usize, usize)> {
        let fields: Vec<FieldSet> = fields.iter().map(|fields| fields.iter().copied().collect()).collect();
        let worth = scores_by_fields(&fields);
        partition(fields.len(), segments, &|_| false, &|first, last| worth[first][last]).expect("there is one")
    }

    #[test]
    fn tables_on_the_same_fields_stay_together() {
        assert_eq!(cut(&[&[1], &[1, 2], &[3], &[3]], 4), [(0, 1), (2, 3)]);
    }

    #[test]
    fn tables_on_disjoint_fields_are_cut() {
        assert_eq!(cut(&[&[1], &[2], &[3]], 4), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(cut(&[&[1], &[2], &[3]], 1), [(0, 2)]);
    }

    #[test]
    fn every_table_is_covered_once_with_tables_to_spare() {
        for segments in 1..8 {
            let parts = cut(&[&[1], &[], &[2], &[2, 3], &[4]], segments);
            let covered: Vec<usize> = parts.iter().flat_map(|(first, last)| *first..=*last).collect();
            assert_eq!(covered, [0, 1, 2, 3, 4], "{segments}: {parts:?}");
        }
    }

    #[test]
    fn where_a_segment_must_begin() {
        let worth = scores_by_fields(&vec![FieldSet::from([1]); 3]);
        let worth = |first: usize, last: usize| worth[first][last];
        assert_eq!(partition(3, 4, &|unit| unit == 1, &worth), Some(vec![(0, 0), (1, 2)]));
        assert_eq!(partition(3, 1, &|unit| unit == 1, &worth), None);
    }

    #[test]
    fn what_costs_least_where_all_costs() {
        // Each unit costs its value, and a segment the product of its units.
        let costs = [4i64, 3, 20, 2];
        let worth = |first: usize, last: usize| -costs[first..=last].iter().product::<i64>();
        assert_eq!(partition(4, 4, &|_| false, &worth), Some(vec![(0, 0), (1, 1), (2, 2), (3, 3)]));
        assert_eq!(partition(4, 3, &|_| false, &worth), Some(vec![(0, 1), (2, 2), (3, 3)]));
        assert_eq!(partition(4, 2, &|_| false, &worth), Some(vec![(0, 1), (2, 3)]));
    }
}
