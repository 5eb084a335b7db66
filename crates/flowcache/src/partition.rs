//! Where a traversal is cut: the partition that keeps tables together that look at the same fields.
//!
//! After Gigaflow: tables of which each has a field in common with those before it share a segment, since whoever differs in one then differs in the others,
//! too; tables on disjoint fields are better cached apart, because their entries multiply when they are put together. A segment of n such tables scores
//! 10 (n - 1), any other one 0; the partition with the highest sum wins, and of several the finest. Each table is covered exactly once.

use std::collections::BTreeSet;

/// The header fields that a table looked at, by any number.
pub type Fields = BTreeSet<u32>;

/// First and last unit of each segment, in order: at most `segments` of them, which cover all units. `must_begin`: whether one has to begin at a
/// unit. `None` if that can't be.
pub fn partition(
    fields: &[Fields],
    segments: usize,
    must_begin: &dyn Fn(usize) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let units = fields.len();
    if units == 0 || segments == 0 {
        return None;
    }
    let scores = scores(fields, must_begin);
    // best[n][end]: the best sum of n segments that cover the units before `end`; and where the last of them begins.
    let mut best: Vec<Vec<Option<(u32, usize)>>> = vec![vec![None; units + 1]; segments + 1];
    best[0][0] = Some((0, 0));
    for count in 1..=segments {
        for end in 1..=units {
            for first in 0..end {
                let (Some((before, _)), Some(score)) = (best[count - 1][first], scores[first][end - 1]) else {
                    continue;
                };
                let sum = before + score;
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

/// For each first and last unit the score of the segment, if it can be one.
fn scores(fields: &[Fields], must_begin: &dyn Fn(usize) -> bool) -> Vec<Vec<Option<u32>>> {
    let units = fields.len();
    let mut scores = vec![vec![None; units]; units];
    for (first, scores) in scores.iter_mut().enumerate() {
        let mut union = Fields::new();
        let mut overlap = true;
        for last in first..units {
            if last > first && must_begin(last) {
                break;
            }
            let own = &fields[last];
            overlap &= last == first || own.is_empty() || union.is_empty() || !own.is_disjoint(&union);
            union.extend(own);
            scores[last] = Some(if overlap { 10 * (last - first) as u32 } else { 0 });
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::{Fields, partition};

    fn cut(fields: &[&[u32]], segments: usize) -> Vec<(usize, usize)> {
        let fields: Vec<Fields> = fields.iter().map(|fields| fields.iter().copied().collect()).collect();
        partition(&fields, segments, &|_| false).expect("there is one")
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
        let fields: Vec<Fields> = vec![Fields::from([1]); 3];
        assert_eq!(partition(&fields, 4, &|unit| unit == 1), Some(vec![(0, 0), (1, 2)]));
        assert_eq!(partition(&fields, 1, &|unit| unit == 1), None);
    }
}
