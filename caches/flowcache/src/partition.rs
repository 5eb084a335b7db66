//! Where a traversal is cut: the partition that keeps tables together that look at the same fields.
//!
//! After Gigaflow: tables of which each has a field in common with those before it share a segment, since whoever differs in one then differs in the others,
//! too; tables on disjoint fields are better cached apart, because their entries multiply when they are put together. A segment of n such tables scores
//! 10 (n - 1), any other one 0; the partition with the highest sum wins, and of several the finest. Each table is covered exactly once. What is known better, by
//! measuring ([`crate::sharing`]), is used in the same way.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The header fields that a table looked at, by any number.
pub type Fields = BTreeSet<u32>;

/// What it is worth to have the units from a first to a last one in one segment.
pub type Worth<'w> = &'w dyn Fn(usize, usize) -> i64;

/// First and last unit of each segment, in order: at most `segments` of them, which cover all of so many units and are together worth the most; of several such
/// partitions the finest. `must_begin`: whether one has to begin at a unit. `None` if that can't be.
pub fn partition(
    units: usize,
    segments: usize,
    must_begin: &dyn Fn(usize) -> bool,
    worth: Worth<'_>,
) -> Option<Vec<(usize, usize)>> {
    if units == 0 || segments == 0 {
        return None;
    }
    // The first unit that the segment with that last one may begin with.
    let mut from = 0;
    let from: Vec<usize> = (0..units)
        .map(|last| {
            from = if must_begin(last) { last } else { from };
            from
        })
        .collect();
    // best[n][end]: the best sum of n segments that cover the units before `end`; and where the last of them begins.
    let mut best: Vec<Vec<Option<(i64, usize)>>> = vec![vec![None; units + 1]; segments + 1];
    best[0][0] = Some((0, 0));
    for count in 1..=segments {
        for end in 1..=units {
            for first in from[end - 1]..end {
                let Some((before, _)) = best[count - 1][first] else { continue };
                let sum = before + worth(first, end - 1);
                if best[count][end].is_none_or(|(other, _)| sum > other) {
                    best[count][end] = Some((sum, first));
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

/// A cut into as few pieces as do: the first that is not bad, of those into at most as many as `pieces` says, one number after the other; if all are, the last one.
pub fn as_few<C>(
    pieces: RangeInclusive<usize>,
    mut cut: impl FnMut(usize) -> Option<C>,
    is_bad: impl Fn(&C) -> bool,
) -> Option<C> {
    let mut best = None;
    for most in pieces {
        best = cut(most).or(best);
        if best.as_ref().is_some_and(|cut| !is_bad(cut)) {
            break;
        }
    }
    best
}

/// What segments are worth by the fields alone: by first and last unit.
pub fn by_fields(fields: &[Fields]) -> Vec<Vec<i64>> {
    let units = fields.len();
    let mut scores = vec![vec![0; units]; units];
    for (first, scores) in scores.iter_mut().enumerate() {
        let mut union = Fields::new();
        let mut overlap = true;
        for last in first..units {
            let own = &fields[last];
            overlap &= last == first || own.is_empty() || union.is_empty() || !own.is_disjoint(&union);
            union.extend(own);
            scores[last] = if overlap { 10 * (last - first) as i64 } else { 0 };
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::{Fields, by_fields, partition};

    fn cut(fields: &[&[u32]], segments: usize) -> Vec<(usize, usize)> {
        let fields: Vec<Fields> = fields.iter().map(|fields| fields.iter().copied().collect()).collect();
        let worth = by_fields(&fields);
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
        let worth = by_fields(&vec![Fields::from([1]); 3]);
        let worth = |first: usize, last: usize| worth[first][last];
        assert_eq!(partition(3, 4, &|unit| unit == 1, &worth), Some(vec![(0, 0), (1, 2)]));
        assert_eq!(partition(3, 1, &|unit| unit == 1, &worth), None);
    }

    #[test]
    fn what_costs_least_where_all_costs() {
        // Each unit costs what it is, and several what their product is.
        let costs = [4i64, 3, 20, 2];
        let worth = |first: usize, last: usize| -costs[first..=last].iter().product::<i64>();
        assert_eq!(partition(4, 4, &|_| false, &worth), Some(vec![(0, 0), (1, 1), (2, 2), (3, 3)]));
        assert_eq!(partition(4, 3, &|_| false, &worth), Some(vec![(0, 1), (2, 2), (3, 3)]));
        assert_eq!(partition(4, 2, &|_| false, &worth), Some(vec![(0, 1), (2, 3)]));
    }
}
