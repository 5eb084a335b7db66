//! [`MaskPlanner`]: chooses the masks of a node's subtables from a sample of its rules, in small
//! steps.
//!
//! A mask is good if many rules include it and few of them share a bucket. Its *gain* is the sum,
//! over the rules that include it, of log2(all rules / rules in the same bucket), where a bucket of
//! up to two blocks is free. Masks are built greedily: of all masks that rules have in any one
//! field, the planner adds the one that increases the gain most, until none does. Rules that don't
//! include the mask are left for the next subtable.

use super::bucket_head::hash_factor;

/// Rules of a sample.
pub const SAMPLE_RULES: usize = 512;
/// Rules of a bucket that cost no more than a single rule.
const FREE_BUCKET_RULES: f32 = 8.0;
/// Rules of a bucket that becomes a node.
const FULL_BUCKET_RULES: f32 = 24.0;
/// Cost of searching that node, in halvings.
const CHILD_NODE_COST: f32 = 2.0;
/// Maximum number of masks tried per field.
const MAX_TRIED_MASKS: usize = 20;
/// Maximum number of distinct masks of a field that are considered.
const MAX_DISTINCT_MASKS: usize = 48;
/// Maximum number of subtables of a plan.
const MAX_PLANNED_SUBTABLES: usize = 24;
/// Maximum number of remaining rules that stay unhashed.
pub const MAX_UNHASHED: f32 = 16.0;
/// Below this number, the remaining rules of a partial sample are not representative. The unhashed
/// rules are then planned separately.
const MIN_SAMPLED_RULES: usize = 48;
/// Number of comparisons that a subtable must save per lookup; otherwise comparing is cheaper.
const MIN_SAVED_COMPARISONS: f32 = 12.0;
/// Hash slots in which sampled rules are counted, enough to make collisions rare.
const COUNT_SLOTS: usize = 1 << 14;

/// State of a plan under construction.
#[derive(Clone, Debug)]
pub struct MaskPlanner {
    words: usize,
    /// Whether the plan is for all rules of the node, not only for the unhashed ones.
    pub plans_all_rules: bool,
    /// Value and mask of each sampled rule.
    rules: Vec<u64>,
    /// Number of rules that each sampled rule represents.
    rules_per_sample: f32,
    /// Sampled rules that no subtable covers yet.
    uncovered: Vec<u16>,
    fields: Vec<Vec<u64>>,
    /// Current mask and its gain.
    mask: Vec<u64>,
    gain: f32,
    /// Best next mask and its gain.
    best_next: Option<(f32, Vec<u64>)>,
    /// Start masks that have yet to be extended.
    starts: Vec<Vec<u64>>,
    /// Best mask of the finished start masks, and its gain.
    best_of_starts: Option<(f32, Vec<u64>)>,
    /// Field that is being tried, and its remaining masks.
    field: usize,
    candidate_masks: Vec<Vec<u64>>,
    counts: Vec<u16>,
    /// Masks of the plan, with the number of heads that their subtables need.
    pub planned_masks: Vec<(Vec<u64>, usize)>,
}

/// Score of a mask.
struct MaskScore {
    gain: f32,
    /// Estimated number of distinct masked values among all rules.
    distinct: f32,
}

impl MaskPlanner {
    /// Creates a planner for `rules`, given as value and mask of `words` words each, a sample of
    /// `all` rules. `fields` has the key bits of each field as a mask. `plans_all_rules` says
    /// whether the plan is for all rules of a node, not only for its unhashed ones.
    pub fn new(words: usize, fields: &[Vec<u64>], rules: Vec<u64>, all: usize, plans_all_rules: bool) -> MaskPlanner {
        let count = rules.len() / (2 * words);
        let mut planner = MaskPlanner {
            words,
            plans_all_rules,
            rules_per_sample: all as f32 / count.max(1) as f32,
            uncovered: (0..count as u16).collect(),
            rules,
            fields: fields.to_vec(),
            mask: Vec::new(),
            gain: 0.0,
            best_next: None,
            starts: Vec::new(),
            best_of_starts: None,
            field: 0,
            candidate_masks: Vec::new(),
            counts: vec![0; COUNT_SLOTS],
            planned_masks: Vec::new(),
        };
        planner.start_table();
        planner
    }

    fn rule_value(&self, rule: u16) -> &[u64] {
        &self.rules[rule as usize * 2 * self.words..][..self.words]
    }

    fn rule_mask(&self, rule: u16) -> &[u64] {
        &self.rules[(rule as usize * 2 + 1) * self.words..][..self.words]
    }

    /// Continues until `budget` (in about nanoseconds) is used up. Returns true if the plan is
    /// complete.
    pub fn run_steps(&mut self, budget: &mut i64) -> bool {
        while *budget > 0 {
            if self.uncovered.len() as f32 * self.rules_per_sample <= MAX_UNHASHED
                || self.planned_masks.len() == MAX_PLANNED_SUBTABLES
                || self.rules_per_sample > 1.5 && self.uncovered.len() < MIN_SAMPLED_RULES
            {
                return true;
            }
            if let Some(mask) = self.candidate_masks.pop() {
                // About the time of the scoring below, in nanoseconds.
                *budget -= 20 + 4 * self.uncovered.len() as i64;
                let gain = self.score_mask(&mask).gain;
                let min_gain = self.best_next.as_ref().map_or(self.gain, |best| best.0);
                // Ignore marginal gains, because a mask with fewer bits fits more later rules.
                if gain > min_gain * 1.001 + 0.01 {
                    self.best_next = Some((gain, mask));
                }
            } else if self.field + 1 < self.fields.len() {
                self.field += 1;
                self.candidate_masks = self.masks_to_try(self.field);
                *budget -= 10 * self.uncovered.len() as i64;
            } else if let Some((gain, mask)) = self.best_next.take() {
                (self.gain, self.mask) = (gain, mask);
                self.start_field();
            } else if !self.next_start() && !self.finish_table() {
                return true;
            }
        }
        false
    }

    fn start_field(&mut self) {
        self.field = 0;
        self.candidate_masks = self.masks_to_try(0);
    }

    /// Starts a subtable. Masks are extended from the empty mask, and from the mask that most rules
    /// include in every field. The empty mask alone would exhaust one field before it considers
    /// another.
    fn start_table(&mut self) {
        let mut common = vec![0; self.words];
        for field in 0..self.fields.len() {
            let mut seen = 0;
            for (mask, count) in self.masks_in(field) {
                seen += count;
                if 5 * seen >= self.uncovered.len() {
                    common.iter_mut().zip(&mask).for_each(|(all, word)| *all |= word);
                    break;
                }
            }
        }
        self.starts = vec![common, vec![0; self.words]];
        (self.best_of_starts, self.gain) = (Some((0.0, vec![0; self.words])), 0.0);
        self.next_start();
    }

    /// Continues with the next start mask. Returns false if there is none.
    fn next_start(&mut self) -> bool {
        if self.best_of_starts.as_ref().is_none_or(|record| self.gain > record.0) {
            self.best_of_starts = Some((self.gain, std::mem::take(&mut self.mask)));
        }
        let Some(start) = self.starts.pop() else { return false };
        self.gain = self.score_mask(&start).gain;
        self.mask = start;
        self.start_field();
        true
    }

    /// Adds a subtable with the best mask. Returns false if it does not pay off.
    fn finish_table(&mut self) -> bool {
        let Some((gain, mask)) = self.best_of_starts.take() else { return false };
        let distinct = self.score_mask(&mask).distinct;
        let left: Vec<u16> =
            self.uncovered.iter().copied().filter(|&rule| !mask_includes(self.rule_mask(rule), &mask)).collect();
        let covered = (self.uncovered.len() - left.len()) as f32 * self.rules_per_sample;
        if gain <= 0.0 || covered - covered / distinct.max(1.0) < MIN_SAVED_COMPARISONS {
            return false;
        }
        self.uncovered = left;
        // Enough heads that a key without a rule usually hits an empty bucket.
        self.planned_masks.push((mask, (distinct * 3.0) as usize + 4));
        self.start_table();
        true
    }

    /// Returns the masks that rules have in a field, those with the fewest bits first, with the
    /// number of rules.
    fn masks_in(&self, field: usize) -> Vec<(Vec<u64>, usize)> {
        let Some(bits) = self.fields.get(field) else { return Vec::new() };
        let mut found: Vec<(Vec<u64>, usize)> = Vec::new();
        for &rule in &self.uncovered {
            let mut both = self.rule_mask(rule).iter().zip(bits).map(|(mask, bits)| mask & bits);
            match found.iter().position(|(mask, _)| both.clone().eq(mask.iter().copied())) {
                Some(at) => found[at].1 += 1,
                None if found.len() < MAX_DISTINCT_MASKS => found.push((both.by_ref().collect(), 1)),
                None => {}
            }
        }
        found.sort_by_key(|(mask, _)| mask.iter().map(|word| word.count_ones()).sum::<u32>());
        found
    }

    /// Returns the masks to try: the current one, changed in one field.
    fn masks_to_try(&self, field: usize) -> Vec<Vec<u64>> {
        let Some(bits) = self.fields.get(field) else { return Vec::new() };
        let present: Vec<u64> = self.mask.iter().zip(bits).map(|(mask, bits)| mask & bits).collect();
        let mut tried = thin_out_masks(self.masks_in(field));
        tried.push(vec![0; self.words]);
        tried.retain(|mask| *mask != present);
        let whole =
            |mask: Vec<u64>| mask.iter().zip(&self.mask).zip(bits).map(|((m, old), bits)| old & !bits | m).collect();
        tried.into_iter().map(whole).collect()
    }

    /// Scores a mask by the uncovered rules of the sample that have all of its bits. The gain is
    /// the sum over these rules of the logarithm of the factor by which the mask narrows a search;
    /// full buckets lower it.
    fn score_mask(&mut self, mask: &[u64]) -> MaskScore {
        let mut slots = [0_u16; SAMPLE_RULES];
        let mut covered = 0;
        for index in 0..self.uncovered.len() {
            let rule = self.uncovered[index];
            if !mask_includes(self.rule_mask(rule), mask) {
                continue;
            }
            let words = self.rule_value(rule).iter().zip(mask).enumerate();
            let hash =
                words.fold(0_u64, |hash, (word, (v, m))| hash.wrapping_add((v & m).wrapping_mul(hash_factor(word))));
            let slot =
                ((hash ^ hash >> 29).wrapping_mul(hash_factor(99)) >> (64 - COUNT_SLOTS.trailing_zeros())) as usize;
            self.counts[slot] += 1;
            slots[covered] = slot as u16;
            covered += 1;
        }
        let rule_count = self.uncovered.len() as f32 * self.rules_per_sample;
        let mut score = MaskScore { gain: 0.0, distinct: 0.0 };
        for slot in &slots[..covered] {
            let bucket_rules = f32::from(self.counts[*slot as usize] - 1) * self.rules_per_sample + 1.0;
            let child_cost = if bucket_rules > FULL_BUCKET_RULES { CHILD_NODE_COST } else { 0.0 };
            score.gain += ((rule_count / bucket_rules.max(FREE_BUCKET_RULES)).log2() - child_cost).max(0.0);
            score.distinct += self.rules_per_sample / bucket_rules;
        }
        // The counts are all 0 between calls, because clearing the whole array would cost more.
        for slot in &slots[..covered] {
            self.counts[*slot as usize] = 0;
        }
        score
    }
}

fn mask_includes(mask: &[u64], other: &[u64]) -> bool {
    mask.iter().zip(other).all(|(mask, other)| other & !mask == 0)
}

/// Selects up to [`MAX_TRIED_MASKS`] masks with about the same number of rules between them.
fn thin_out_masks(found: Vec<(Vec<u64>, usize)>) -> Vec<Vec<u64>> {
    let all: usize = found.iter().map(|(_, count)| count).sum();
    if found.len() <= MAX_TRIED_MASKS {
        return found.into_iter().map(|(mask, _)| mask).collect();
    }
    let (mut kept, mut seen) = (Vec::new(), 0);
    for (mask, count) in found {
        if seen * MAX_TRIED_MASKS / all != (seen + count) * MAX_TRIED_MASKS / all {
            kept.push(mask);
        }
        seen += count;
    }
    kept
}
