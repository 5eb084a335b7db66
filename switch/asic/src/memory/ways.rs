//! Ways of a hash table.

use crate::target::ChipTarget;

/// Ways of a table with the hash bits that they take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct HashWays {
    /// Depth of each way in blocks.
    pub sizes: Vec<u32>,
    /// Whether the key itself is the address, so that one way suffices.
    pub identity: bool,
    /// Hash bits.
    pub hash_bits: u32,
    /// Hash groups, each of which takes the key's bytes on the crossbar.
    pub groups: u32,
}

impl HashWays {
    /// Returns the depth of all ways together, in blocks.
    pub fn depth(&self) -> u32 {
        self.sizes.iter().sum()
    }

    /// Returns the base-2 logarithm of the smallest way's depth.
    pub fn min_way_log2(&self) -> u32 {
        self.sizes.iter().min().map_or(0, |m| m.ilog2())
    }
}

/// Largest number of key bits beyond the address of a row for which identity hash is used.
const MAX_IDENTITY_BITS: u32 = 8;

/// Divides `blocks` SRAM blocks with `per_row` entries in each row into hash ways, for a key of
/// `key_bits` bits.
///
/// A key that is at most [`MAX_IDENTITY_BITS`] bits longer than the address of a row needs no hash:
/// it is the address, in one way (identity hash). `has_default_data`: the action data of a miss needs
/// a row as well, so all rows cannot belong to keys.
///
/// With a hash there are at least `min_ways` ways, each of a power of two of blocks, the largest
/// first. The first `min_ways` ways select their block by hash bits of their own; further ways reuse
/// these bits (p4c's Tofino back-end, `resource_estimate.cpp`, way sizes).
pub(super) fn choose_ways(
    target: &ChipTarget,
    blocks: u32,
    per_row: u32,
    key_bits: u32,
    has_default_data: bool,
) -> HashWays {
    let row_address_bits = target.sram.depth.ilog2();
    let identity = |size: u32| HashWays {
        sizes: vec![size],
        identity: true,
        hash_bits: row_address_bits + size.ilog2(),
        groups: 1,
    };
    // A shorter key leaves rows free for the default action.
    if key_bits < row_address_bits && blocks == 1 {
        return identity(1);
    }
    let blocks = blocks.max(target.formats.min_ways);
    let extra_bits = key_bits.saturating_sub(row_address_bits);
    if extra_bits <= MAX_IDENTITY_BITS && !has_default_data {
        let needed = (1u32 << extra_bits).div_ceil(per_row).next_power_of_two();
        if needed <= blocks {
            return identity(needed);
        }
    }
    let sizes = if blocks < 2 * target.formats.min_ways {
        even_way_sizes(target, blocks)
    } else {
        power_of_two_ways(target, blocks)
    };
    assign_hash_groups(target, sizes)
}

/// Returns way sizes for few blocks, as even as powers of two allow.
fn even_way_sizes(target: &ChipTarget, depth: u32) -> Vec<u32> {
    let ways = target.formats.min_ways;
    (0..ways).map(|i| if i < depth - ways { 2 } else { 1 }).collect()
}

/// Divides `depth` blocks into ways of powers of two, the largest first. A way's block number takes
/// bits of the hash, `select_bits` in a group; a way that does not fit the remaining bits of its
/// group gets smaller (p4c's Tofino back-end, `resource_estimate.cpp`).
fn power_of_two_ways(target: &ChipTarget, depth: u32) -> Vec<u32> {
    let select_bits = target.formats.select_bits;
    let min_ways = target.formats.min_ways as usize;
    let mut blocks_left = depth.min(target.sram.per_stage);
    let mut size = (1u32 << depth.min(64).ilog2()) / target.formats.min_ways;
    let (mut sizes, mut used_bits, mut ways_in_round): (Vec<u32>, u32, usize) = (Vec::new(), 0, 0);
    let mut has_overflowed = false;
    while blocks_left > 0 {
        let group_bits_left = select_bits - used_bits % select_bits;
        if size <= blocks_left && size.next_power_of_two().ilog2() <= group_bits_left {
            sizes.push(size);
            blocks_left -= size;
            used_bits += size.ilog2();
            if used_bits > select_bits && sizes.len() <= min_ways && !has_overflowed {
                has_overflowed = true;
                ways_in_round = 0;
            }
            ways_in_round += 1;
        } else {
            size /= 2;
        }
        if blocks_left > 0 && ways_in_round >= min_ways {
            ways_in_round = 0;
            size = if blocks_left >= sizes[0] { sizes[0] } else { 1 << blocks_left.ilog2() };
        }
    }
    sizes
}

/// Assigns ways to hash groups: four ways to a group, or a second group if the select bits run out
/// among the first four. Further ways reuse bits.
fn assign_hash_groups(target: &ChipTarget, sizes: Vec<u32>) -> HashWays {
    let line_bits = target.sram.depth.ilog2();
    let (mut groups, mut hash, mut select, mut here) = (1, 0, 0, 0);
    for size in &sizes {
        let bits = size.ilog2();
        if here == target.formats.min_ways || (groups == 2 && select + bits > target.formats.select_bits) {
            break;
        }
        if select + bits > target.formats.select_bits {
            (groups, select, here) = (2, 0, 0);
        }
        select += bits;
        hash += line_bits + bits;
        here += 1;
    }
    HashWays { sizes, identity: false, hash_bits: hash, groups }
}
