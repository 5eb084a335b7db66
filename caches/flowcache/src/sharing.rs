//! [`Sharing`]: how many entries the packets of a way need, stretch by stretch, so that the cut can be chosen by what was measured.
//!
//! By the fields alone ([`crate::partition`]) one knows which tables' entries multiply when they are put together, but not by how much: sixteen tunnels before a
//! thousand stations are a smaller evil than a thousand stations before a thousand rules. So one packet of a few is a sample, whether it hits or misses: of each unit on its way
//! (a table, and what is done up to the next one) a hash of what a segment of it alone would ask for. For each stretch of a way it is estimated from the last samples how many
//! different entries there are in all: those that were seen, and as many more as those that were seen once and twice let expect (Chao's estimator: *Nonparametric
//! estimation of the number of classes in a population*, Scandinavian Journal of Statistics 11, 1984). The best cut is the one that needs the fewest. Packets of a flow
//! come one soon after the other, which says nothing of other flows: of samples that are the same throughout one counts.

use crate::partition::{as_few, partition};
use interp::walk::Pc;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

type Fast = foldhash::fast::RandomState;

/// One packet of so many is a sample.
const EVERY: u32 = 8;
/// Samples of a way that count: the last so many.
const SAMPLES: usize = 512;
/// A way is judged anew after so many samples, then after twice as many, and so on,
const FIRST: u32 = 64;
/// but at the latest after so many.
const LAST: u32 = 4_096;
/// The most units of a way that is measured.
const MAX_UNITS: usize = 48;
/// The most hashes that are remembered, of all ways together.
const ROOM: usize = 1 << 20;
/// The most entries that are told apart.
const MOST: u64 = 1 << 40;
/// What a cut in use may be worse than another in thousandths, so that it does not change for nothing: what was kept is of no use to the other one.
const HYSTERESIS: i64 = 50;

/// A unit of a packet's way: where it begins, and a hash of what a segment of it alone asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The tag.
    pub tag: Pc,
    /// The hash.
    pub id: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Into how many pieces a way is cut, and into how many it may be if fewer are bad.
    pieces: (usize, usize),
    ways: HashMap<u64, Way, Fast>,
    hasher: Fast,
    /// Hashes that are remembered.
    ids: usize,
    /// One packet of so many is a sample, and packets until the next one.
    every: u32,
    left: u32,
    /// A way is judged first after so many samples.
    first: u32,
    scratch: Tally,
}

/// The samples of a way, of which none is like another, and what was found.
#[derive(Clone, Debug)]
struct Way {
    /// Hashes, a sample behind the other.
    ids: Vec<u32>,
    /// Hashes of whole samples, those that are there.
    wholes: HashSet<u64, Fast>,
    /// Which sample is the next to go, once there are [`SAMPLES`].
    next: usize,
    /// Samples until it is judged, and how many that were.
    left: u32,
    period: u32,
    costs: Option<Costs>,
}

/// How many entries each stretch of a way needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs {
    units: usize,
    /// By first and last unit.
    entries: Vec<u64>,
    /// The cut of the whole way: first and last unit of each piece.
    chosen: Vec<(usize, usize)>,
}

impl Costs {
    /// What a piece of these units is worth: the fewer entries it needs, the more. Less than 0 always.
    pub fn worth(&self, first: usize, last: usize) -> i64 {
        let used = self.chosen.contains(&(first, last));
        -(self.entries(first, last) as i64) * if used { 1_000 - HYSTERESIS } else { 1_000 }
    }

    /// How many entries a piece of these units needs, about.
    pub fn entries(&self, first: usize, last: usize) -> u64 {
        self.entries[first * self.units + last]
    }

    /// Whether a piece of these units needs more entries than two pieces would.
    pub fn makes_more(&self, first: usize, last: usize) -> bool {
        let apart = (first..last).map(|mid| self.entries(first, mid) + self.entries(mid + 1, last)).min();
        apart.is_some_and(|apart| apart < self.entries(first, last))
    }
}

impl Sharing {
    /// For ways that are cut into so many pieces, and where these are bad into more, but into no more than `most`.
    pub fn new(pieces: usize, most: usize) -> Sharing {
        Sharing {
            pieces: (pieces, most),
            ways: HashMap::default(),
            hasher: Fast::default(),
            ids: 0,
            every: EVERY,
            left: EVERY,
            first: FIRST,
            scratch: Tally::default(),
        }
    }

    /// Whether the packet that comes now is a sample.
    pub fn is_sample(&mut self) -> bool {
        self.left -= 1;
        let due = self.left == 0;
        if due {
            self.left = self.every;
        }
        due
    }

    /// Each packet is a sample, and a few say enough: for tests.
    pub fn be_eager(&mut self) {
        (self.every, self.left, self.first) = (1, 1, 3);
    }

    fn way(&self, units: &[Unit]) -> u64 {
        let mut way = units.len() as u64;
        for unit in units {
            way = (way ^ u64::from(unit.tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.hasher.hash_one(way)
    }

    /// What is known of a way, if there were enough samples.
    pub fn costs(&self, units: &[Unit]) -> Option<&Costs> {
        self.ways.get(&self.way(units))?.costs.as_ref().filter(|costs| costs.units == units.len())
    }

    /// Notes a sample.
    pub fn note(&mut self, units: &[Unit]) {
        let key = self.way(units);
        if units.len() < 2 || units.len() > MAX_UNITS {
            return;
        }
        let full = |way: &Way| way.ids.len() >= SAMPLES * units.len();
        if self.ids + units.len() > ROOM && !self.ways.get(&key).is_some_and(full) {
            // Whoever has more ways than there is room for begins anew from time to time.
            self.ways.clear();
            self.ids = 0;
        }
        let Sharing { ways, ids, scratch, pieces, first, .. } = self;
        let new =
            || Way { ids: Vec::new(), wholes: HashSet::default(), next: 0, left: *first, period: *first, costs: None };
        let way = ways.entry(key).or_insert_with(new);
        if !way.wholes.insert(whole(units.iter().map(|unit| unit.id))) {
            return;
        }
        if way.ids.len() < SAMPLES * units.len() {
            *ids += units.len();
            way.ids.extend(units.iter().map(|unit| unit.id));
        } else {
            let place = way.next * units.len();
            let sample = &mut way.ids[place..place + units.len()];
            way.wholes.remove(&whole(sample.iter().copied()));
            sample.iter_mut().zip(units).for_each(|(id, unit)| *id = unit.id);
            way.next = (way.next + 1) % SAMPLES;
        }
        way.left -= 1;
        if way.left == 0 {
            way.period = (way.period * 2).min(LAST);
            way.left = way.period;
            way.judge(units.len(), *pieces, scratch);
        }
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        let of = |way: &Way| {
            size_of_val(&*way.ids)
                + 9 * way.wholes.capacity()
                + way.costs.as_ref().map_or(0, |costs| size_of_val(&*costs.entries))
                + size_of::<Way>()
        };
        self.ways.values().map(of).sum()
    }
}

/// A hash of a sample.
fn whole(ids: impl Iterator<Item = u32>) -> u64 {
    ids.fold(0, with)
}

/// The hash of a stretch, with the next unit's.
fn with(hash: u64, id: u32) -> u64 {
    (hash ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl Way {
    fn judge(&mut self, units: usize, (pieces, most): (usize, usize), scratch: &mut Tally) {
        let samples = self.ids.len() / units;
        let mut seen = vec![Seen::default(); units * units];
        let mut hashes = vec![0u64; samples];
        for first in 0..units {
            hashes.fill(0);
            for last in first..units {
                for (hash, sample) in hashes.iter_mut().zip(self.ids.chunks_exact(units)) {
                    *hash = with(*hash, sample[last]);
                }
                let here = scratch.count(&hashes);
                seen[first * units + last] = here;
                if here.once == samples {
                    // With more units they differ all the more.
                    seen[first * units + last..(first + 1) * units].fill(here);
                    break;
                }
            }
        }
        let chosen = self.costs.take().map(|costs| costs.chosen).unwrap_or_default();
        let mut costs = Costs { units, entries: estimates(&seen, units, samples), chosen };
        let cut = |most| partition(units, most, &|_| false, &|first, last| costs.worth(first, last));
        let is_bad = |cut: &Vec<(usize, usize)>| cut.iter().any(|(first, last)| costs.makes_more(*first, *last));
        costs.chosen = as_few(pieces..=most.min(units).max(pieces), cut, is_bad).unwrap_or_default();
        self.costs = Some(costs);
    }
}

/// How many different entries there are of each stretch.
fn estimates(seen: &[Seen], units: usize, samples: usize) -> Vec<u64> {
    let mut entries: Vec<u64> = seen.iter().map(Seen::estimate).collect();
    for length in 2..=units {
        for first in 0..=units - length {
            let last = first + length - 1;
            let here = seen[first * units + last];
            // Where hardly one is there twice, samples say little. Either one part has said all, or there are as many as parts can make together.
            if here.once * 20 < samples * 19 {
                continue;
            }
            let together = |mid: usize| {
                let (front, back) = (first * units + mid, (mid + 1) * units + last);
                match (seen[front] == here, seen[back] == here) {
                    (true, _) => entries[front],
                    (_, true) => entries[back],
                    _ => entries[front].saturating_mul(entries[back]),
                }
            };
            let fewest = (first..last).map(together).min().unwrap_or(0);
            entries[first * units + last] = fewest.max(here.estimate()).min(MOST);
        }
    }
    entries
}

/// How many of some samples differ, and how many of these are there once, and twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    different: usize,
    once: usize,
    twice: usize,
}

impl Seen {
    /// How many different ones there are where these come from: Chao's estimator in the form that holds without pairs, too.
    fn estimate(&self) -> u64 {
        (self.different + self.once * self.once.saturating_sub(1) / (2 * (self.twice + 1))) as u64
    }
}

/// Counts how often each of some hashes is there.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// Hashes, 0 for none, at least twice as many as are counted; and how often each was there.
    places: Vec<(u64, u32)>,
}

impl Tally {
    fn count(&mut self, hashes: &[u64]) -> Seen {
        let room = (2 * hashes.len()).next_power_of_two();
        self.places.clear();
        self.places.resize(room, (0, 0));
        for hash in hashes {
            let hash = hash | 1;
            let mut at = (hash >> 32) as usize & (room - 1);
            while self.places[at].1 != 0 && self.places[at].0 != hash {
                at = (at + 1) & (room - 1);
            }
            self.places[at] = (hash, self.places[at].1 + 1);
        }
        let mut seen = Seen::default();
        for (_, count) in self.places.iter().filter(|(_, count)| *count > 0) {
            seen.different += 1;
            seen.once += usize::from(*count == 1);
            seen.twice += usize::from(*count == 2);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::{Sharing, Unit};

    /// Ways of units with so many values each, all drawn by themselves; what is known after so many samples.
    fn costs(values: &[u64], pieces: usize, samples: usize) -> (Sharing, Vec<Unit>) {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut sharing = Sharing::new(pieces, pieces);
        let mut units = Vec::new();
        for _ in 0..samples {
            let one = |(tag, values): (usize, &u64)| Unit { tag: tag as u32, id: rng.u64(..*values) as u32 };
            units = values.iter().enumerate().map(one).collect();
            sharing.note(&units);
        }
        (sharing, units)
    }

    fn chosen(values: &[u64], pieces: usize) -> Vec<(usize, usize)> {
        let (sharing, units) = costs(values, pieces, 600);
        sharing.costs(&units).expect("there were enough samples").chosen.clone()
    }

    #[test]
    fn few_values_go_with_others_where_there_are_too_few_tables() {
        // What costs least: the two small ones together.
        assert_eq!(chosen(&[4, 3, 1_000, 2_000], 3), [(0, 1), (2, 2), (3, 3)]);
        assert_eq!(chosen(&[1_000, 4, 3, 2_000], 3), [(0, 0), (1, 2), (3, 3)]);
        // One has to go with its neighbour: the one with the fewest.
        assert_eq!(chosen(&[300, 2, 2_000], 2), [(0, 1), (2, 2)]);
    }

    #[test]
    fn many_values_stay_apart_though_no_sample_is_like_another() {
        assert_eq!(chosen(&[5_000, 5_000], 4), [(0, 0), (1, 1)]);
    }

    #[test]
    fn constants_need_no_table_of_their_own() {
        assert_eq!(chosen(&[1, 1, 80, 1], 4), [(0, 3)]);
    }

    #[test]
    fn units_that_say_the_same_stay_together() {
        let mut sharing = Sharing::new(4, 4);
        let mut rng = fastrand::Rng::with_seed(4);
        let mut units = Vec::new();
        for _ in 0..600 {
            let (same, other) = (rng.u32(..400), rng.u32(..400));
            units =
                [same, same + 1, other].iter().enumerate().map(|(tag, id)| Unit { tag: tag as u32, id: *id }).collect();
            sharing.note(&units);
        }
        assert_eq!(sharing.costs(&units).map(|costs| costs.chosen.as_slice()), Some(&[(0, 1), (2, 2)][..]));
    }

    #[test]
    fn nothing_is_said_of_few_samples_and_of_other_ways() {
        let many = [1 << 30, 1 << 30];
        let (sharing, mut units) = costs(&many, 2, 63);
        assert_eq!(sharing.costs(&units), None);
        // However many come: of those that are the same one counts.
        let (sharing, few) = costs(&[4, 4], 2, 1_000);
        assert_eq!(sharing.costs(&few), None);
        let (sharing, _) = costs(&many, 2, 64);
        assert_eq!(sharing.costs(&units).map(|costs| costs.units), Some(2));
        units[1].tag = 9;
        assert_eq!(sharing.costs(&units), None);
    }

    #[test]
    fn estimates_are_near() {
        for values in [10, 300, 2_000] {
            let (sharing, units) = costs(&[values, 1 << 30], 1, 2_000);
            let found = -sharing.costs(&units).map(|costs| costs.worth(0, 0)).expect("enough") / 1_000;
            assert!((values as i64 * 7 / 10..values as i64 * 14 / 10).contains(&found), "{values}: {found}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sharing = Sharing::new(4, 4);
        for way in 0..4_000u32 {
            for sample in 0..30 {
                let units: Vec<Unit> = (0..20).map(|unit| Unit { tag: way * 100 + unit, id: sample }).collect();
                sharing.note(&units);
            }
        }
        assert!(sharing.ids <= super::ROOM, "{}", sharing.ids);
    }
}
