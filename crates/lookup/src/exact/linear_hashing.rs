//! [`LinearHashing`]: maps half of a hash to a bucket while the table grows by one bucket at a
//! time.
//!
//! In linear hashing (Litwin, "Linear hashing: a new tool for file and table addressing", 1980) a
//! table of `2^n` buckets uses the lower `n` bits of a hash. During the growth to `2^(n+1)` each
//! bucket in turn is split by one more bit. A split bucket is then chosen half as often as an
//! unsplit one, which is too uneven for a table that is nine tenths full.
//!
//! The table therefore uses partial expansions (Larson, "Linear hashing with partial expansions",
//! 1980). [`GROUP`] buckets with the same lower bits in their numbers form a group. The groups get
//! one more bucket in turn, then another, until all have twice the number of buckets; then the
//! number of groups doubles. A group's new bucket permanently takes the entries that one old bucket
//! will finally give it, and temporarily entries of the others. No bucket is chosen more than about
//! an eighth more often than the average.
//!
//! Entries move only to the new bucket, which is the last one. A table can therefore have any
//! number of buckets, and no step takes long.

#[cfg(target_arch = "x86_64")]
mod simd;
#[cfg(target_arch = "x86_64")]
pub(super) use simd::{LinearHashingAvx2, LinearHashingAvx512};

/// Buckets of a group just after the number of groups has doubled.
const GROUP: usize = 8;
/// Number of values of the hash bits that choose a bucket of a group. From the lowest: three bits
/// for the old bucket, one that finally selects the new bucket, and four that spread entries in the
/// meantime.
const HASH_VALUES: usize = 256;

/// Bucket in the group, for each group size from [`GROUP`] on and each value of the hash bits.
static GROUP_BUCKET: [[u8; HASH_VALUES]; GROUP] = group_bucket_table();

/// Computes the bucket of each hash value for each size of a group of buckets. The group grows by
/// one bucket at a time, and values move only to the new bucket: first those that belong there when
/// the group is complete, then some of the fullest buckets', so that loads stay even.
const fn group_bucket_table() -> [[u8; HASH_VALUES]; GROUP] {
    let mut sizes = [[0; HASH_VALUES]; GROUP];
    let mut value_counts = [HASH_VALUES / GROUP; GROUP * 2];
    let mut value = 0;
    while value < HASH_VALUES {
        sizes[0][value] = (value % GROUP) as u8;
        value += 1;
    }
    let mut size = 1;
    while size < GROUP {
        sizes[size] = sizes[size - 1];
        let new_bucket = GROUP + size - 1;
        value_counts[new_bucket] = 0;
        // Values that finally belong to the new bucket.
        let mut value = 0;
        while value < HASH_VALUES {
            if value % (2 * GROUP) == new_bucket {
                value_counts[sizes[size][value] as usize] -= 1;
                value_counts[new_bucket] += 1;
                sizes[size][value] = new_bucket as u8;
            }
            value += 1;
        }
        // Values that the new bucket takes temporarily, from the fullest buckets.
        while let Some(value) = fullest_bucket_value(&sizes[size], &value_counts, new_bucket) {
            value_counts[sizes[size][value] as usize] -= 1;
            value_counts[new_bucket] += 1;
            sizes[size][value] = new_bucket as u8;
        }
        size += 1;
    }
    sizes
}

/// Returns a value in the fullest bucket, among values that finally belong to a later bucket than
/// `new`.
const fn fullest_bucket_value(places: &[u8; HASH_VALUES], count: &[usize; GROUP * 2], new: usize) -> Option<usize> {
    let mut best = None;
    // Moving the value must make the buckets more even.
    let mut most = count[new] + 1;
    let mut place = 0;
    while place < HASH_VALUES {
        let bucket = places[place] as usize;
        if place % (2 * GROUP) > new && bucket != new && count[bucket] > most {
            (best, most) = (Some(place), count[bucket]);
        }
        place += 1;
    }
    best
}

/// Mapping of hash bits to buckets for a range of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SplitLevel {
    /// Binary logarithm of the number of groups.
    group_bits: u32,
    /// Buckets of a group beyond [`GROUP`].
    extra_buckets: u32,
}

impl SplitLevel {
    fn bucket_count(self) -> usize {
        (GROUP + self.extra_buckets as usize) << self.group_bits
    }

    /// Returns the level of a group with one more bucket.
    fn next(self) -> SplitLevel {
        let SplitLevel { group_bits: bits, extra_buckets: size } = self;
        if size as usize + 1 < GROUP {
            SplitLevel { group_bits: bits, extra_buckets: size + 1 }
        } else {
            SplitLevel { group_bits: bits + 1, extra_buckets: 0 }
        }
    }
}

/// Mapping of hashes to buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LinearHashing {
    buckets: usize,
    /// Groups below this number have been split: they have one more bucket than the others.
    split_groups: u32,
    /// Levels of the unsplit and of the split groups.
    levels: [SplitLevel; 2],
}

/// Addition of one bucket: see [`LinearHashing::add_bucket`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BucketSplit {
    group: usize,
    groups: usize,
    size: usize,
}

impl BucketSplit {
    /// Returns the buckets with entries that may belong in the new bucket, which is the last.
    pub(super) fn source_buckets(self) -> impl Iterator<Item = usize> {
        (0..self.size).map(move |member| self.group + member * self.groups)
    }
}

impl LinearHashing {
    /// Minimum number of buckets.
    pub(super) const GROUP: usize = GROUP;

    /// Creates a mapping to `buckets` buckets, at least [`LinearHashing::GROUP`].
    pub(super) fn new(buckets: usize) -> LinearHashing {
        let buckets = buckets.max(GROUP);
        let bits = (buckets / GROUP).ilog2();
        let level = SplitLevel { group_bits: bits, extra_buckets: ((buckets >> bits) - GROUP) as u32 };
        LinearHashing { buckets, split_groups: (buckets - level.bucket_count()) as u32, levels: [level, level.next()] }
    }

    pub(super) fn bucket_count(&self) -> usize {
        self.buckets
    }

    /// Returns the split that the next [`LinearHashing::add_bucket`] will do.
    pub(super) fn next_split(&self) -> BucketSplit {
        let [SplitLevel { group_bits: bits, extra_buckets: size }, _] = self.levels;
        BucketSplit { group: self.split_groups as usize, groups: 1 << bits, size: GROUP + size as usize }
    }

    /// Adds a bucket. All entries that move to it are in the source buckets of the returned split.
    pub(super) fn add_bucket(&mut self) -> BucketSplit {
        let step = self.next_split();
        *self = LinearHashing::new(self.buckets + 1);
        step
    }

    #[inline(always)]
    fn bucket_of_half(&self, half: u32) -> usize {
        let [level, next] = self.levels;
        let done = half & ((1 << level.group_bits) - 1) < self.split_groups;
        let bits = if done { next.group_bits } else { level.group_bits };
        let size = if done { next.extra_buckets } else { level.extra_buckets };
        let place = (((half >> bits) % (2 * GROUP as u32)) | ((half >> 28) << 4)) as usize;
        let member = GROUP_BUCKET[size as usize % GROUP][place];
        (usize::from(member) << bits) | (half & ((1 << bits) - 1)) as usize
    }

    /// Returns the first bucket of a hash.
    #[inline(always)]
    pub(super) fn first_bucket(&self, hash: u64) -> usize {
        self.bucket_of_half((hash >> 32) as u32)
    }

    /// Returns the second bucket of a hash, which can equal the first.
    #[inline(always)]
    pub(super) fn second_bucket(&self, hash: u64) -> usize {
        self.bucket_of_half(hash as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, GROUP_BUCKET, HASH_VALUES, LinearHashing};

    /// The last size is one split away from the next level, and no bucket of a group is chosen much
    /// more often than the average.
    #[test]
    fn members_are_even() {
        for (size, members) in GROUP_BUCKET.iter().enumerate() {
            let buckets = GROUP + size;
            let mut shares = vec![0; buckets];
            members.iter().for_each(|member| shares[usize::from(*member)] += 1);
            let most = shares.iter().max().copied().unwrap_or(0);
            assert!(most * buckets * 100 <= HASH_VALUES * 114, "{most} in one of {buckets}: {shares:?}");
        }
        let last = 2 * GROUP - 1;
        let settled = |place: usize| usize::from(GROUP_BUCKET[GROUP - 1][place]) == place % (2 * GROUP);
        assert!((0..HASH_VALUES).all(|place| settled(place) || place % (2 * GROUP) == last));
    }

    /// With one more bucket, a hash keeps its bucket or moves from a source bucket of the split to
    /// the new one.
    #[test]
    fn moves_to_the_last() {
        let halves: Vec<u32> = (0..20_000u32).map(|at| at.wrapping_mul(0x9e37_79b1)).collect();
        let mut split = LinearHashing::new(1);
        for buckets in GROUP..300 {
            let before = split;
            let from: Vec<usize> = split.add_bucket().source_buckets().collect();
            assert_eq!((split.bucket_count(), split), (buckets + 1, LinearHashing::new(buckets + 1)));
            let mut moved = 0;
            for half in &halves {
                let (old, new) = (before.bucket_of_half(*half), split.bucket_of_half(*half));
                assert!(old == new || (new == buckets && from.contains(&old)), "{buckets}: {old} to {new}");
                moved += usize::from(old != new);
            }
            let mean = halves.len() / buckets;
            assert!((mean / 2..mean * 3 / 2).contains(&moved), "{moved} to {buckets}");
        }
    }
}
