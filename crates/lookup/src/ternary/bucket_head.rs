//! [`BucketHead`]: summary of the rules in a bucket of a subtable.

use super::rule::biased_priority;

/// Summary of a bucket or chain. The upper half is its highest priority, biased to be unsigned. The
/// lower half is 0 if it is empty, a node with [`NODE_FLAG`], otherwise the first block of a chain
/// ([`head_number`]), optionally with a tag ([`tag_of_hash`]). A single comparison therefore
/// decides whether the bucket can hold a rule that takes precedence over the best one found.
pub type BucketHead = u64;

/// Returns the minimum head that can hold a rule with at least the precedence of this rank.
#[inline(always)]
pub fn min_head_for_rank(rank: u64) -> BucketHead {
    u64::from(biased_priority(rank)) << 32 | 1
}

/// Set in a head that refers to a node.
pub const NODE_FLAG: u64 = 1 << 31;

/// Set in a head with a tag: hash bits shared by all rules in the bucket, so that most keys of
/// other rules skip it.
pub const TAG_FLAG: u64 = 1 << 30;
/// Position of the tag, above the number.
pub const TAG_SHIFT: u32 = 25;
/// Bits of a tag.
pub const TAG_BITS: u32 = TAG_FLAG.trailing_zeros() - TAG_SHIFT;
/// Bits of a head that hold its tag.
pub const TAG_MASK: u64 = TAG_FLAG | ((1 << TAG_BITS) - 1) << TAG_SHIFT;

/// Upper bound of the numbers in heads.
pub const MAX_NUMBERS: usize = TAG_FLAG as usize;

/// Returns the number in a head: a node, or a chain's first block. Also accepts a bare number.
#[inline(always)]
pub fn head_number(head: BucketHead) -> u64 {
    head & if head & TAG_FLAG == 0 { TAG_FLAG - 1 } else { (1 << TAG_SHIFT) - 1 }
}

/// Returns the tag of a hash, in its position in a head: the bits below those of the bucket
/// position. `shift` is the subtable's hash shift.
#[inline(always)]
pub fn tag_of_hash(hash: u64, shift: u32) -> u64 {
    TAG_FLAG | ((hash >> (shift - TAG_BITS)) % (1 << TAG_BITS)) << TAG_SHIFT
}

/// Returns whether a key with this tag can match a rule in the bucket.
#[inline(always)]
pub fn may_contain(head: BucketHead, tag: u64) -> bool {
    (head & TAG_FLAG == 0) | (head & TAG_MASK == tag)
}

/// Returns a head with this tag, or without one if its number is too large.
pub fn with_tag(head: BucketHead, tag: u64) -> BucketHead {
    let number = head_number(head);
    let plain = head & !TAG_MASK & !(TAG_FLAG - 1) | number;
    if number != 0 && number < 1 << TAG_SHIFT { plain | tag & TAG_MASK } else { plain }
}

/// Returns the tag of a bucket after adding a rule with this tag.
pub fn common_tag(head: BucketHead, tag: u64) -> u64 {
    if head == 0 || head & TAG_MASK == tag { tag } else { 0 }
}

/// Returns a pseudorandom odd number: the hash factor of word `at` of a key.
#[inline(always)]
pub const fn hash_factor(at: usize) -> u64 {
    // SplitMix64's finalizer, which yields any number of factors.
    let mut z = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) | 1
}

#[cfg(test)]
mod tests {
    use super::{
        NODE_FLAG, TAG_BITS, TAG_FLAG, TAG_SHIFT, common_tag, head_number, may_contain, tag_of_hash, with_tag,
    };

    /// A tag changes neither number nor priority of a head. Keys with the same tag can match, and
    /// keys with another cannot, unless the number leaves no space for a tag.
    #[test]
    fn marks_leave_heads_as_they_are() {
        let tags: Vec<u64> = (0..1 << TAG_BITS).map(|bits| tag_of_hash(bits << 35, 40)).collect();
        for name in [1, 2, (1 << TAG_SHIFT) - 1, 1 << TAG_SHIFT, (1 << TAG_SHIFT) + 1, TAG_FLAG - 1] {
            for (kind, priority) in [(0, 0), (NODE_FLAG, 0), (0, u64::MAX << 32), (NODE_FLAG, 0x8000_0001 << 32)] {
                let plain = priority | kind | name;
                assert!(head_number(plain) == name && tags.iter().all(|tag| may_contain(plain, *tag)));
                for &tag in &tags {
                    let head = with_tag(plain, tag);
                    assert_eq!((head_number(head), head & NODE_FLAG, head >> 32), (name, kind, priority >> 32));
                    assert!(head != 0 && may_contain(head, tag));
                    let others = tags.iter().filter(|other| may_contain(head, **other)).count();
                    assert_eq!(others, if name < 1 << TAG_SHIFT { 1 } else { tags.len() }, "{head:#x}");
                    assert_eq!((with_tag(head, head), with_tag(head, 0)), (head, plain));
                    assert_eq!((common_tag(0, tag), common_tag(head, tag ^ 1 << TAG_SHIFT)), (tag, 0));
                }
            }
        }
        assert_eq!(with_tag(0, tags[3]), 0, "a bucket without rules stays empty");
    }
}
