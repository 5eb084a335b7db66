//! Chooses how prefixes are stored: in one line, below a compressed child, or in a node, and its
//! stride.
//!
//! The goal is few cache lines per lookup with about [`BYTES_PER_ROUTE`] bytes of memory per
//! prefix. Prefixes are sorted, so that prefixes with the same first bits are adjacent.

use super::address::AddressBits;
use super::forest::TrieForest;
use super::node::{self, INNER_SLOT_SIZE, NodePrefix};
use super::pool::{BlockRef, LineBytes};
use super::prefix_line::{CompressedChild, LpmRoute, PrefixLine, PrefixLineLayouts};

/// Maximum bytes per prefix of a node and the lines below it.
const BYTES_PER_ROUTE: usize = 96;
/// Additional bytes for a node.
const BYTES_PER_NODE: usize = 256;
/// Maximum bytes of slots in place of a line, and additional bytes per prefix.
const DENSE_BASE_BYTES: usize = 64;
const DENSE_BYTES_PER_ROUTE: usize = 96;
/// Maximum stride, because the slots of such a node (512 KiB) fit in a core's second-level cache.
const MAX_STRIDE: u32 = 16;
/// Above this number of prefixes, a compressed child must hold for all possible prefixes, because a
/// later prefix outside it would cause a rebuild of everything.
const MAX_COMPRESSED_PREFIXES: usize = 16_384;
/// Minimum bits that a line must skip before a node. The line costs a lookup one cache line, about
/// as much as a node of this stride.
const MIN_COMPRESSED_BITS: u32 = 4;

impl<A: AddressBits> TrieForest<A> {
    /// Builds a line, and blocks below it if necessary. Overwrites the line; its blocks must have
    /// been freed.
    pub(super) fn build_line(
        &mut self,
        formats: &PrefixLineLayouts,
        line: &mut LineBytes,
        mut routes: Vec<LpmRoute<A>>,
    ) {
        routes.sort_unstable_by_key(|route| (route.addr, route.len));
        self.fill_line(formats, line, &routes, 0, 0);
    }

    /// Builds a block of prefixes, ignoring their first `depth` bits.
    pub(super) fn build_block(&mut self, routes: &mut [LpmRoute<A>], depth: u32) -> BlockRef {
        routes.sort_unstable_by_key(|route| (route.addr, route.len));
        self.build_sorted_block(routes, depth)
    }

    fn build_sorted_block(&mut self, routes: &[LpmRoute<A>], depth: u32) -> BlockRef {
        if routes.is_empty() {
            return BlockRef::NULL;
        }
        if is_dense(routes, depth, node::min_slot_size(self.values.len() as u32 + 1)) {
            return self.build_node(routes, depth);
        }
        let (formats, mut line) = (self.line_layouts, [0; 64]);
        let at = self.pool.allocate_block(1);
        self.fill_line(&formats, &mut line, routes, depth, MIN_COMPRESSED_BITS);
        *self.pool.line_mut(at) = line;
        self.replace_empty_line(BlockRef::prefix_line(at))
    }

    /// Stores routes in a line: all in the line if they fit, otherwise some in the line and the
    /// others below a compressed child. `depth` is the number of address bits before the line; a
    /// child that would hold all routes covers at least `skip` bits or none.
    fn fill_line(
        &mut self,
        layouts: &PrefixLineLayouts,
        line: &mut LineBytes,
        routes: &[LpmRoute<A>],
        depth: u32,
        skip: u32,
    ) {
        if routes.len() <= 16 {
            let mut contents = PrefixLine { routes: Default::default(), compressed_child: None, value_block: None };
            routes.iter().for_each(|route| contents.insert_route(route.skip_leading_bits(depth)));
            if layouts.write_line(line, &mut self.pool, &contents) {
                return;
            }
        }
        let mut split = choose_compressed_child(layouts, routes, depth);
        let are_all_inside = split.to - split.from == routes.len();
        if split.len < skip && are_all_inside {
            split.len = 0;
        }
        let inside = &routes[split.from..split.to];
        let child = self.build_node(inside, depth + split.len);
        let addr = inside[0].addr.skip_bits(depth).keep_leading(split.len);
        let compressed_child = Some(CompressedChild { addr, len: split.len, child });
        let mut contents = PrefixLine { routes: Default::default(), compressed_child, value_block: None };
        let outside = routes[..split.from].iter().chain(&routes[split.to..]);
        outside.for_each(|route| contents.insert_route(route.skip_leading_bits(depth)));
        let written = layouts.write_line(line, &mut self.pool, &contents);
        debug_assert!(written, "the prefixes outside the child fit in the line");
    }

    /// Builds a node of prefixes that are all longer than `depth`. Prefixes that end within the
    /// node's stride are expanded to slots; longer ones become children, one for each slot.
    fn build_node(&mut self, routes: &[LpmRoute<A>], depth: u32) -> BlockRef {
        let (stride, mut size) = choose_stride(routes, depth, node::min_slot_size(self.values.len() as u32 + 1));
        let mut node_prefixes = Vec::with_capacity(routes.iter().filter(|route| route.len <= depth + stride).count());
        let mut children = Vec::new();
        for run in routes.chunk_by(|a, b| {
            a.addr.skip_bits(depth).leading_bits(stride) == b.addr.skip_bits(depth).leading_bits(stride)
        }) {
            let slot = run[0].addr.skip_bits(depth).leading_bits(stride);
            // Sorted, so prefixes that end here come first: they are shorter and have zeros after
            // their end.
            let ending_count = run.partition_point(|route| route.len <= depth + stride);
            for route in &run[..ending_count] {
                let number = self.cell_to_number(route.cell);
                node_prefixes.push(NodePrefix::new(slot, route.len - depth, number));
                size = size.max(node::min_slot_size(number));
            }
            if ending_count < run.len() {
                children.push((slot, self.build_sorted_block(&run[ending_count..], depth + stride)));
            }
        }
        if !children.is_empty() {
            size = INNER_SLOT_SIZE;
        }
        let node = self.nodes.new_node(&mut self.pool, stride, size, node_prefixes, routes.len());
        for (slot, child) in children {
            node::set_child(&mut self.pool, node, slot, child);
        }
        node
    }
}

/// Compressed child of `len` bits for the prefixes `from..to`.
#[derive(Clone, Copy)]
struct SplitCandidate {
    len: u32,
    from: usize,
    to: usize,
}

/// Returns the longest compressed child such that all other prefixes fit in the line. While all
/// prefixes share the next bit, none is left out. Where they differ, the smaller side is left out
/// if it fits with space for one more.
fn choose_compressed_child<A: AddressBits>(
    layouts: &PrefixLineLayouts,
    routes: &[LpmRoute<A>],
    depth: u32,
) -> SplitCandidate {
    let count = routes.len();
    let mut candidate = SplitCandidate { len: 0, from: 0, to: count };
    let mut best = candidate;
    // Bits of the longest prefix outside the child.
    let mut max_outside_len = 0;
    loop {
        if routes[candidate.from].len == depth + candidate.len {
            candidate.from += 1;
            max_outside_len = max_outside_len.max(candidate.len);
        }
        let outside = candidate.from + count - candidate.to;
        let capacity = layouts.capacity_with_child(max_outside_len.max(candidate.len));
        if outside > capacity || candidate.from == candidate.to {
            return best;
        }
        best = candidate;
        let inside = &routes[candidate.from..candidate.to];
        let middle = candidate.from + inside.partition_point(|route| !route.addr.bit(depth + candidate.len));
        let (zeros, ones) = (middle - candidate.from, candidate.to - middle);
        let smaller_side = zeros.min(ones);
        if count > MAX_COMPRESSED_PREFIXES || (smaller_side > 0 && outside + smaller_side + 1 > capacity) {
            return best;
        }
        let left_out = if zeros >= ones { middle..candidate.to } else { candidate.from..middle };
        max_outside_len = routes[left_out].iter().map(|route| route.len - depth).fold(max_outside_len, u32::max);
        if zeros >= ones {
            candidate.to = middle;
        } else {
            candidate.from = middle;
        }
        candidate.len += 1;
    }
}

/// Returns whether a node in which all prefixes end is small enough to replace a line, because
/// reading a slot is faster than matching prefixes in a line.
fn is_dense<A: AddressBits>(routes: &[LpmRoute<A>], depth: u32, leaf: u32) -> bool {
    let longest = routes.iter().map(|route| route.len - depth).max().unwrap_or(0);
    longest > 0
        && longest <= MAX_STRIDE
        && (1 << (longest + leaf)) <= DENSE_BASE_BYTES + DENSE_BYTES_PER_ROUTE * routes.len()
}

/// Returns stride and slot size of a node: the largest stride within the memory budget. A node in
/// which all prefixes end is preferred, because its slots are small.
fn choose_stride<A: AddressBits>(routes: &[LpmRoute<A>], depth: u32, leaf: u32) -> (u32, u32) {
    let longest = routes.iter().map(|route| route.len - depth).max().unwrap_or(1);
    let budget = BYTES_PER_NODE + BYTES_PER_ROUTE * routes.len();
    if longest <= MAX_STRIDE && (1 << (longest + leaf)) <= budget {
        return (longest, leaf);
    }
    for stride in (3..=MAX_STRIDE.min(longest - 1)).rev() {
        let slots = 8 << stride;
        if slots <= budget && slots + 64 * count_child_slots(routes, depth, stride) <= budget {
            return (stride, INNER_SLOT_SIZE);
        }
    }
    (longest.min(3), if longest <= 3 { leaf } else { INNER_SLOT_SIZE })
}

/// Returns the number of slots of a stride that need a child.
fn count_child_slots<A: AddressBits>(routes: &[LpmRoute<A>], depth: u32, stride: u32) -> usize {
    let mut last = None;
    let mut count = 0;
    for route in routes.iter().filter(|route| route.len > depth + stride) {
        let slot = route.addr.skip_bits(depth).leading_bits(stride);
        count += usize::from(last != Some(slot));
        last = Some(slot);
    }
    count
}
