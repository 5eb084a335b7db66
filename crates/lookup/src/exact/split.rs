//! [`Split`]: which bucket a half of a hash chooses, while the table grows bucket by bucket.
//!
//! Linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980): a table of `2^n` buckets uses the lower `n` bits of a hash,
//! and on the way to `2^(n+1)` each bucket in turn is split by one bit more. A split bucket would be chosen half as often as one that isn't, too
//! uneven for a table that is to be nine tenths full. So it is done in partial expansions, as Larson does it ("Linear
//! hashing with partial expansions", 1980): [`GROUP`] buckets are a group, those whose numbers have the same lower bits. One group after
//! the other gets one bucket more, and another after that, until all have twice as many; then there are twice as many groups. A
//! group's new bucket takes for good what one of the old ones gives it in the end, and for a time something from the others.
//! No bucket is chosen more than about an eighth oftener than the average.
//!
//! Whatever moves goes to the new bucket, which is the last one: a table has any number of buckets, and no step takes long.

#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
pub(super) use lanes::{SplitLanes, SplitQuads};

/// Buckets of a group, when there are twice as many groups as before.
const GROUP: usize = 8;
/// The hash bits that choose a bucket of a group, as a number: from the lowest, three for the old bucket, one for whether it is the new one in
/// the end, four that choose for how long an entry is where.
const PLACES: usize = 256;

/// For each size of a group from [`GROUP`] on, and for each value of the hash bits: the bucket of the group.
static MEMBER: [[u8; PLACES]; GROUP] = members();

const fn members() -> [[u8; PLACES]; GROUP] {
    let mut sizes = [[0; PLACES]; GROUP];
    let mut count = [PLACES / GROUP; GROUP * 2];
    let mut place = 0;
    while place < PLACES {
        sizes[0][place] = (place % GROUP) as u8;
        place += 1;
    }
    let mut size = 1;
    while size < GROUP {
        sizes[size] = sizes[size - 1];
        let new = GROUP + size - 1;
        count[new] = 0;
        // What belongs there in the end.
        let mut place = 0;
        while place < PLACES {
            if place % (2 * GROUP) == new {
                count[sizes[size][place] as usize] -= 1;
                count[new] += 1;
                sizes[size][place] = new as u8;
            }
            place += 1;
        }
        // What may be there for a time, from where there is most.
        while let Some(place) = fullest(&sizes[size], &count, new) {
            count[sizes[size][place] as usize] -= 1;
            count[new] += 1;
            sizes[size][place] = new as u8;
        }
        size += 1;
    }
    sizes
}

/// A place in the fullest bucket of those that have some which belong in a later bucket than `new` in the end.
const fn fullest(places: &[u8; PLACES], count: &[usize; GROUP * 2], new: usize) -> Option<usize> {
    let mut best = None;
    // Moving one must make it more even.
    let mut most = count[new] + 1;
    let mut place = 0;
    while place < PLACES {
        let bucket = places[place] as usize;
        if place % (2 * GROUP) > new && bucket != new && count[bucket] > most {
            (best, most) = (Some(place), count[bucket]);
        }
        place += 1;
    }
    best
}

/// How the hashes of some groups choose buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Level {
    /// The number of groups as a power of two.
    bits: u32,
    /// Buckets of a group, less [`GROUP`].
    size: u32,
}

impl Level {
    fn buckets(self) -> usize {
        (GROUP + self.size as usize) << self.bits
    }

    /// What a group becomes with one bucket more.
    fn next(self) -> Level {
        let Level { bits, size } = self;
        if size as usize + 1 < GROUP { Level { bits, size: size + 1 } } else { Level { bits: bits + 1, size: 0 } }
    }
}

/// How hashes choose buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Split {
    buckets: usize,
    /// Groups below this number have one bucket more than the others.
    done: u32,
    /// The others and they.
    levels: [Level; 2],
}

/// A step of growth: see [`Split::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    group: usize,
    groups: usize,
    size: usize,
}

impl Step {
    /// The buckets of which entries may belong in the new one, now the last.
    pub(super) fn buckets(self) -> impl Iterator<Item = usize> {
        (0..self.size).map(move |member| self.group + member * self.groups)
    }
}

impl Split {
    /// The fewest buckets.
    pub(super) const GROUP: usize = GROUP;

    /// So many buckets, at least [`Split::GROUP`].
    pub(super) fn new(buckets: usize) -> Split {
        let buckets = buckets.max(GROUP);
        let bits = (buckets / GROUP).ilog2();
        let level = Level { bits, size: ((buckets >> bits) - GROUP) as u32 };
        Split { buckets, done: (buckets - level.buckets()) as u32, levels: [level, level.next()] }
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets
    }

    /// What [`Split::step`] will do next.
    pub(super) fn next_step(&self) -> Step {
        let [Level { bits, size }, _] = self.levels;
        Step { group: self.done as usize, groups: 1 << bits, size: GROUP + size as usize }
    }

    /// One bucket more. All entries that chose another bucket before, and this one now, are in the step's buckets.
    pub(super) fn step(&mut self) -> Step {
        let step = self.next_step();
        *self = Split::new(self.buckets + 1);
        step
    }

    #[inline(always)]
    fn bucket(&self, half: u32) -> usize {
        let [level, next] = self.levels;
        let done = half & ((1 << level.bits) - 1) < self.done;
        let bits = if done { next.bits } else { level.bits };
        let size = if done { next.size } else { level.size };
        let place = (((half >> bits) % (2 * GROUP as u32)) | ((half >> 28) << 4)) as usize;
        let member = MEMBER[size as usize % GROUP][place];
        (usize::from(member) << bits) | (half & ((1 << bits) - 1)) as usize
    }

    /// The first choice of a hash.
    #[inline(always)]
    pub(super) fn first(&self, hash: u64) -> usize {
        self.bucket((hash >> 32) as u32)
    }

    /// The second choice of a hash. May be the same.
    #[inline(always)]
    pub(super) fn second(&self, hash: u64) -> usize {
        self.bucket(hash as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, MEMBER, PLACES, Split};

    /// The last size but one leads to the first of the next level, and no bucket of a group is chosen much oftener than its share.
    #[test]
    fn members_are_even() {
        for (size, members) in MEMBER.iter().enumerate() {
            let buckets = GROUP + size;
            let mut shares = vec![0; buckets];
            members.iter().for_each(|member| shares[usize::from(*member)] += 1);
            let most = shares.iter().max().copied().unwrap_or(0);
            assert!(most * buckets * 100 <= PLACES * 114, "{most} in one of {buckets}: {shares:?}");
        }
        let last = 2 * GROUP - 1;
        let settled = |place: usize| usize::from(MEMBER[GROUP - 1][place]) == place % (2 * GROUP);
        assert!((0..PLACES).all(|place| settled(place) || place % (2 * GROUP) == last));
    }

    /// With one bucket more, a hash stays with its bucket, or goes from one that the step names to the new one.
    #[test]
    fn moves_to_the_last() {
        let halves: Vec<u32> = (0..20_000u32).map(|at| at.wrapping_mul(0x9e37_79b1)).collect();
        let mut split = Split::new(1);
        for buckets in GROUP..300 {
            let before = split;
            let from: Vec<usize> = split.step().buckets().collect();
            assert_eq!((split.buckets(), split), (buckets + 1, Split::new(buckets + 1)));
            let mut moved = 0;
            for half in &halves {
                let (old, new) = (before.bucket(*half), split.bucket(*half));
                assert!(old == new || (new == buckets && from.contains(&old)), "{buckets}: {old} to {new}");
                moved += usize::from(old != new);
            }
            let mean = halves.len() / buckets;
            assert!((mean / 2..mean * 3 / 2).contains(&moved), "{moved} to {buckets}");
        }
    }
}
