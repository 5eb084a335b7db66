//! [`Head`]: what a bucket of a table says about the rules in it.

use super::rule::priority_of;

/// A bucket, or a chain's start: the greatest priority in it (upper half, biased to be unsigned), and what is there (lower half): 0
/// nothing, with [`NODE`] a node, otherwise a chain's first block ([`number`]), and perhaps a mark ([`mark_of`]). So one comparison tells whether it can hold a stronger rule than
/// the one found so far.
pub type Head = u64;

/// The least head that may hold a rule as strong as one of this rank.
#[inline(always)]
pub fn least_for(rank: u64) -> Head {
    u64::from(priority_of(rank)) << 32 | 1
}

/// Set in a head that names a node.
pub const NODE: u64 = 1 << 31;

/// Set in a head with a mark: some bits of a hash that all rules in the bucket have, so that most keys of other rules need not look there.
pub const MARKED: u64 = 1 << 30;
/// The lowest bit of a mark, behind the number.
pub const MARK: u32 = 25;
/// Bits of a mark.
pub const MARK_BITS: u32 = MARKED.trailing_zeros() - MARK;
/// Bits of a head that have its mark.
pub const MARKS: u64 = MARKED | ((1 << MARK_BITS) - 1) << MARK;

/// A bound of the numbers that heads can have.
pub const NUMBERS: usize = MARKED as usize;

/// What a head names: a node, or a chain's first block. Also of a number by itself.
#[inline(always)]
pub fn number(head: Head) -> u64 {
    head & if head & MARKED == 0 { MARKED - 1 } else { (1 << MARK) - 1 }
}

/// The mark of a hash in a table that shifts by so much, as it is in a head: the bits behind those that say the position.
#[inline(always)]
pub fn mark_of(hash: u64, shift: u32) -> u64 {
    MARKED | ((hash >> (shift - MARK_BITS)) % (1 << MARK_BITS)) << MARK
}

/// Whether a key with such a mark may have a rule in the bucket.
#[inline(always)]
pub fn may_have(head: Head, mark: u64) -> bool {
    (head & MARKED == 0) | (head & MARKS == mark)
}

/// A head with this mark, or with none if its number is too great for that.
pub fn with_mark(head: Head, mark: u64) -> Head {
    let number = number(head);
    let plain = head & !MARKS & !(MARKED - 1) | number;
    if number != 0 && number < 1 << MARK { plain | mark & MARKS } else { plain }
}

/// The mark of a bucket to which a rule with another comes.
pub fn common(head: Head, mark: u64) -> u64 {
    if head == 0 || head & MARKS == mark { mark } else { 0 }
}

/// An odd number whose bits are as if drawn: the factor by which word `at` of a key goes into the hash.
#[inline(always)]
pub const fn factor(at: usize) -> u64 {
    // SplitMix64's finalizer, of which any number of factors can be had.
    let mut z = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) | 1
}

#[cfg(test)]
mod tests {
    use super::{MARK, MARK_BITS, MARKED, NODE, common, mark_of, may_have, number, with_mark};

    /// Whatever a head names and however strong it is: a mark changes neither, keys with it may find something, and those with another do not,
    /// unless the number leaves no room for a mark.
    #[test]
    fn marks_leave_heads_as_they_are() {
        let marks: Vec<u64> = (0..1 << MARK_BITS).map(|bits| mark_of(bits << 35, 40)).collect();
        for name in [1, 2, (1 << MARK) - 1, 1 << MARK, (1 << MARK) + 1, MARKED - 1] {
            for (kind, priority) in [(0, 0), (NODE, 0), (0, u64::MAX << 32), (NODE, 0x8000_0001 << 32)] {
                let plain = priority | kind | name;
                assert!(number(plain) == name && marks.iter().all(|mark| may_have(plain, *mark)));
                for &mark in &marks {
                    let head = with_mark(plain, mark);
                    assert_eq!((number(head), head & NODE, head >> 32), (name, kind, priority >> 32));
                    assert!(head != 0 && may_have(head, mark));
                    let others = marks.iter().filter(|other| may_have(head, **other)).count();
                    assert_eq!(others, if name < 1 << MARK { 1 } else { marks.len() }, "{head:#x}");
                    assert_eq!((with_mark(head, head), with_mark(head, 0)), (head, plain));
                    assert_eq!((common(0, mark), common(head, mark ^ 1 << MARK)), (mark, 0));
                }
            }
        }
        assert_eq!(with_mark(0, marks[3]), 0, "a bucket without rules stays empty");
    }
}
