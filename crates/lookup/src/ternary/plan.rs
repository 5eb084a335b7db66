//! Which masks the tables of a node have, found from a sample of its rules in many small steps.
//!
//! A mask is good if many rules include it and few of them meet in a bucket. Its *gain* is the sum over the rules that include it of
//! log2(all rules / rules in the same bucket), where a bucket of up to two blocks counts as free. Masks are built field by field: of
//! all fields and all masks that rules have in that field, take the one that raises the gain most, until none does. Rules that don't
//! include the mask are left for the next table.

use super::head::factor;

/// Rules in a sample.
pub const SAMPLE: usize = 512;
/// Rules of a bucket that cost no more than one.
const FREE: f32 = 8.0;
/// Rules of a bucket that becomes a node.
const FULL: f32 = 24.0;
/// What it costs to search that node, in halvings.
const FURTHER: f32 = 2.0;
/// Masks that are tried in a field.
const LEVELS: usize = 20;
/// Different masks of a field that are looked at.
const MOST_MASKS: usize = 48;
/// Tables of a plan.
const MAX_TABLES: usize = 24;
/// With no more rules left than this, they are the rest.
pub const MAX_REST: f32 = 16.0;
/// Rules left in a sample that is not all of them that tell nothing. The rest is planned on its own then.
const TOO_FEW: usize = 48;
/// A table must spare a lookup comparisons with so many rules: else comparing is cheaper than another table.
const MIN_SPARED: f32 = 12.0;
/// Slots in which sampled rules are counted by hash: so many that different ones hardly ever meet.
const SLOTS: usize = 1 << 14;

/// A plan in the making.
#[derive(Clone, Debug)]
pub struct Planner {
    words: usize,
    /// For all rules of a node, not only its rest.
    pub whole: bool,
    /// Value and mask of each rule of the sample.
    rules: Vec<u64>,
    /// Rules for each one in the sample.
    scale: f32,
    /// Those that no table has yet.
    left: Vec<u16>,
    fields: Vec<Vec<u64>>,
    /// The mask so far, and its gain.
    mask: Vec<u64>,
    gain: f32,
    /// The best next mask so far.
    best: Option<(f32, Vec<u64>)>,
    /// Masks from which to go on when the present one can't be raised.
    starts: Vec<Vec<u64>>,
    /// The best mask of the starts before, and its gain.
    record: Option<(f32, Vec<u64>)>,
    /// The field whose levels are being tried, and those that are still to be.
    field: usize,
    levels: Vec<Vec<u64>>,
    counts: Vec<u16>,
    /// Masks, and how many heads their tables need.
    pub tables: Vec<(Vec<u64>, usize)>,
}

/// What a mask does.
struct Merit {
    gain: f32,
    /// Different masked values, in all rules.
    distinct: f32,
}

impl Planner {
    /// For rules given as value and mask, `words` each, of `all` rules.
    pub fn new(words: usize, fields: &[Vec<u64>], rules: Vec<u64>, all: usize, whole: bool) -> Planner {
        let count = rules.len() / (2 * words);
        let mut planner = Planner {
            words,
            whole,
            scale: all as f32 / count.max(1) as f32,
            left: (0..count as u16).collect(),
            rules,
            fields: fields.to_vec(),
            mask: Vec::new(),
            gain: 0.0,
            best: None,
            starts: Vec::new(),
            record: None,
            field: 0,
            levels: Vec::new(),
            counts: vec![0; SLOTS],
            tables: Vec::new(),
        };
        planner.start_table();
        planner
    }

    fn value(&self, rule: u16) -> &[u64] {
        &self.rules[rule as usize * 2 * self.words..][..self.words]
    }

    fn mask_of(&self, rule: u16) -> &[u64] {
        &self.rules[(rule as usize * 2 + 1) * self.words..][..self.words]
    }

    /// Goes on until `budget` (about nanoseconds) is used up. `true`: the plan is ready.
    pub fn step(&mut self, budget: &mut i64) -> bool {
        while *budget > 0 {
            if self.left.len() as f32 * self.scale <= MAX_REST
                || self.tables.len() == MAX_TABLES
                || self.scale > 1.5 && self.left.len() < TOO_FEW
            {
                return true;
            }
            if let Some(mask) = self.levels.pop() {
                *budget -= 20 + 4 * self.left.len() as i64;
                let gain = self.merit(&mask).gain;
                let least = self.best.as_ref().map_or(self.gain, |best| best.0);
                // A little more is not worth another bit: fewer bits suit more rules that come later.
                if gain > least * 1.001 + 0.01 {
                    self.best = Some((gain, mask));
                }
            } else if self.field + 1 < self.fields.len() {
                self.field += 1;
                self.levels = self.levels_of(self.field);
                *budget -= 10 * self.left.len() as i64;
            } else if let Some((gain, mask)) = self.best.take() {
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
        self.levels = self.levels_of(0);
    }

    /// Masks grow from nothing, and from what most rules have in every field: going field by field from nothing alone would take all
    /// of one field before it looks at another.
    fn start_table(&mut self) {
        let mut common = vec![0; self.words];
        for field in 0..self.fields.len() {
            let mut seen = 0;
            for (mask, count) in self.masks_in(field) {
                seen += count;
                if 5 * seen >= self.left.len() {
                    common.iter_mut().zip(&mask).for_each(|(all, word)| *all |= word);
                    break;
                }
            }
        }
        self.starts = vec![common, vec![0; self.words]];
        (self.record, self.gain) = (Some((0.0, vec![0; self.words])), 0.0);
        self.next_start();
    }

    /// Goes on from the next start. `false`: there is none.
    fn next_start(&mut self) -> bool {
        if self.record.as_ref().is_none_or(|record| self.gain > record.0) {
            self.record = Some((self.gain, std::mem::take(&mut self.mask)));
        }
        let Some(start) = self.starts.pop() else { return false };
        self.gain = self.merit(&start).gain;
        self.mask = start;
        self.start_field();
        true
    }

    /// Makes a table of the mask. `false`: it is not worth it.
    fn finish_table(&mut self) -> bool {
        let Some((gain, mask)) = self.record.take() else { return false };
        let distinct = self.merit(&mask).distinct;
        let left: Vec<u16> = self.left.iter().copied().filter(|&rule| !includes(self.mask_of(rule), &mask)).collect();
        let covered = (self.left.len() - left.len()) as f32 * self.scale;
        if gain <= 0.0 || covered - covered / distinct.max(1.0) < MIN_SPARED {
            return false;
        }
        self.left = left;
        // So many heads that a key which is in no rule's bucket mostly meets an empty one.
        self.tables.push((mask, (distinct * 3.0) as usize + 4));
        self.start_table();
        true
    }

    /// Masks that rules have in a field, those of fewest bits first, with the number of rules.
    fn masks_in(&self, field: usize) -> Vec<(Vec<u64>, usize)> {
        let Some(bits) = self.fields.get(field) else { return Vec::new() };
        let mut found: Vec<(Vec<u64>, usize)> = Vec::new();
        for &rule in &self.left {
            let mut both = self.mask_of(rule).iter().zip(bits).map(|(mask, bits)| mask & bits);
            match found.iter().position(|(mask, _)| both.clone().eq(mask.iter().copied())) {
                Some(at) => found[at].1 += 1,
                None if found.len() < MOST_MASKS => found.push((both.by_ref().collect(), 1)),
                None => {}
            }
        }
        found.sort_by_key(|(mask, _)| mask.iter().map(|word| word.count_ones()).sum::<u32>());
        found
    }

    /// Masks to try: the present one, changed in one field.
    fn levels_of(&self, field: usize) -> Vec<Vec<u64>> {
        let Some(bits) = self.fields.get(field) else { return Vec::new() };
        let present: Vec<u64> = self.mask.iter().zip(bits).map(|(mask, bits)| mask & bits).collect();
        let mut tried = spread(self.masks_in(field));
        tried.push(vec![0; self.words]);
        tried.retain(|mask| *mask != present);
        let whole =
            |mask: Vec<u64>| mask.iter().zip(&self.mask).zip(bits).map(|((m, old), bits)| old & !bits | m).collect();
        tried.into_iter().map(whole).collect()
    }

    fn merit(&mut self, mask: &[u64]) -> Merit {
        let mut slots = [0_u16; SAMPLE];
        let mut covered = 0;
        for at in 0..self.left.len() {
            let rule = self.left[at];
            if !includes(self.mask_of(rule), mask) {
                continue;
            }
            let words = self.value(rule).iter().zip(mask).enumerate();
            let hash = words.fold(0_u64, |hash, (at, (v, m))| hash.wrapping_add((v & m).wrapping_mul(factor(at))));
            let slot = ((hash ^ hash >> 29).wrapping_mul(factor(99)) >> (64 - SLOTS.trailing_zeros())) as usize;
            self.counts[slot] += 1;
            slots[covered] = slot as u16;
            covered += 1;
        }
        let all = self.left.len() as f32 * self.scale;
        let mut merit = Merit { gain: 0.0, distinct: 0.0 };
        for slot in &slots[..covered] {
            let met = f32::from(self.counts[*slot as usize] - 1) * self.scale + 1.0;
            let further = if met > FULL { FURTHER } else { 0.0 };
            merit.gain += ((all / met.max(FREE)).log2() - further).max(0.0);
            merit.distinct += self.scale / met;
        }
        for slot in &slots[..covered] {
            self.counts[*slot as usize] = 0;
        }
        merit
    }
}

fn includes(mask: &[u64], other: &[u64]) -> bool {
    mask.iter().zip(other).all(|(mask, other)| other & !mask == 0)
}

/// Up to [`LEVELS`] masks, so that between two of them are about as many rules.
fn spread(found: Vec<(Vec<u64>, usize)>) -> Vec<Vec<u64>> {
    let all: usize = found.iter().map(|(_, count)| count).sum();
    if found.len() <= LEVELS {
        return found.into_iter().map(|(mask, _)| mask).collect();
    }
    let (mut kept, mut seen) = (Vec::new(), 0);
    for (mask, count) in found {
        if seen * LEVELS / all != (seen + count) * LEVELS / all {
            kept.push(mask);
        }
        seen += count;
    }
    kept
}
