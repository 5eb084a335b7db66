//! Ways of a hash table.

use crate::target::Target;

/// Ways of a table and the hash that it takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ways {
    /// Depth of each in blocks.
    pub sizes: Vec<u32>,
    /// Whether the key itself is the place, so that one way does.
    pub identity: bool,
    /// Bits of hash.
    pub hash_bits: u32,
    /// Hash groups; each brings the key on the crossbar once more.
    pub groups: u32,
}

impl Ways {
    /// Blocks of all ways, counted in rows of one word's depth.
    pub fn depth(&self) -> u32 {
        self.sizes.iter().sum()
    }

    /// Log 2 of the smallest way.
    pub fn smallest(&self) -> u32 {
        self.sizes.iter().min().map_or(0, |m| m.ilog2())
    }
}

/// Ways that hold `depth` blocks of `per_row` entries, for a key of `key_bits`.
///
/// At least `min_ways`, each a power of two, the largest first; their choices among blocks share the select bits of a hash, and once
/// `min_ways` ways are independent, further ones use bits again (`resource_estimate.cpp`, way sizes). A key that is hardly longer than the
/// place needs no hash: one way (the same file, identity hash), unless the default action needs a place of its own (`default_data`).
pub(super) fn ways(target: &Target, depth: u32, per_row: u32, key_bits: u32, default_data: bool) -> Ways {
    let line_bits = target.sram.depth.ilog2();
    let identity =
        |size: u32| Ways { sizes: vec![size], identity: true, hash_bits: line_bits + size.ilog2(), groups: 1 };
    if key_bits < line_bits && depth == 1 {
        return identity(1);
    }
    let depth = depth.max(target.formats.min_ways);
    let extra = key_bits.saturating_sub(line_bits);
    if extra <= 8 && !default_data {
        let blocks = (1u32 << extra).div_ceil(per_row).next_power_of_two();
        if blocks <= depth {
            return identity(blocks);
        }
    }
    let sizes = if depth < 2 * target.formats.min_ways { small(target, depth) } else { powers(target, depth) };
    hashed(target, sizes)
}

/// Few blocks: as even as powers of two allow.
fn small(target: &Target, depth: u32) -> Vec<u32> {
    let ways = target.formats.min_ways;
    (0..ways).map(|i| if i < depth - ways { 2 } else { 1 }).collect()
}

fn powers(target: &Target, depth: u32) -> Vec<u32> {
    let select = target.formats.select_bits;
    let min = target.formats.min_ways as usize;
    let mut left = depth.min(target.sram.per_stage);
    let mut size = (1u32 << depth.min(64).ilog2()) / target.formats.min_ways;
    let (mut sizes, mut bits, mut since): (Vec<u32>, u32, usize) = (Vec::new(), 0, 0);
    let mut split = false;
    while left > 0 {
        let room = select - bits % select;
        if size <= left && size.next_power_of_two().ilog2() <= room {
            sizes.push(size);
            left -= size;
            bits += size.ilog2();
            if bits > select && sizes.len() <= min && !split {
                split = true;
                since = 0;
            }
            since += 1;
        } else {
            size /= 2;
        }
        if left > 0 && since >= min {
            since = 0;
            size = if left >= sizes[0] { sizes[0] } else { 1 << left.ilog2() };
        }
    }
    sizes
}

/// Hash groups of ways: four ways to a group, or a second group where select bits run out among the first four; further ways use what is there
/// again.
fn hashed(target: &Target, sizes: Vec<u32>) -> Ways {
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
    Ways { sizes, identity: false, hash_bits: hash, groups }
}
