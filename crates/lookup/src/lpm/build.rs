//! Which form prefixes take: one line, a gate, or a node and of which stride.
//!
//! The aim is as few lines per lookup as a memory of about [`PER_ROUTE`] bytes per prefix allows. Prefixes are sorted, so all that
//! share their first bits are neighbours.

use super::address::Address;
use super::forest::Forest;
use super::node::{self, Ending, INNER};
use super::pool::{Line, Ref};
use super::set::{Formats, Gate, Route, Set};

/// Bytes that a node and the sets behind it may take per prefix.
const PER_ROUTE: usize = 96;
/// And for a node as such.
const PER_NODE: usize = 256;
/// Bytes that slots may take instead of a set's line, and for each prefix more.
const LEAST: usize = 64;
const DENSE: usize = 96;
/// A node looks at no more bits than this at once: its slots (512 KiB) stay in a core's second-level cache.
const WIDEST: u32 = 16;
/// With more prefixes than this no gate is put before a node unless it holds for all there can be: a prefix that comes later
/// and doesn't fit it would have everything built anew.
const GATED: usize = 16_384;
/// A line with a gate costs a lookup one line, about what a node costs that looks at this many bits.
const SKIP: u32 = 4;

impl<A: Address> Forest<A> {
    /// Fills a line with prefixes, which may be many. What it says now is overwritten; its blocks must be free.
    pub(super) fn build_line(&mut self, formats: &Formats, line: &mut Line, mut routes: Vec<Route<A>>) {
        routes.sort_unstable_by_key(|route| (route.addr, route.len));
        self.fill_line(formats, line, &routes, 0, 0);
    }

    /// A block with prefixes; of each the bits from `depth` on count.
    pub(super) fn build(&mut self, routes: &mut [Route<A>], depth: u32) -> Ref {
        routes.sort_unstable_by_key(|route| (route.addr, route.len));
        self.build_sorted(routes, depth)
    }

    fn build_sorted(&mut self, routes: &[Route<A>], depth: u32) -> Ref {
        if routes.is_empty() {
            return Ref::NULL;
        }
        if dense(routes, depth, node::size_for(self.values.len() as u32 + 1)) {
            return self.build_node(routes, depth);
        }
        let (formats, mut line) = (self.formats, [0; 64]);
        let at = self.pool.take(1);
        self.fill_line(&formats, &mut line, routes, depth, SKIP);
        *self.pool.line_mut(at) = line;
        self.unwrap_line(Ref::set(at))
    }

    fn fill_line(&mut self, formats: &Formats, line: &mut Line, routes: &[Route<A>], depth: u32, skip: u32) {
        if routes.len() <= 16 {
            let mut set = Set { routes: Default::default(), gate: None, apart: None };
            routes.iter().for_each(|route| set.add(route.below(depth)));
            if formats.write(line, &mut self.pool, &set) {
                return;
            }
        }
        let mut choice = choose_gate(formats, routes, depth);
        let all_inside = choice.to - choice.from == routes.len();
        if choice.len < skip && all_inside {
            choice.len = 0;
        }
        let inside = &routes[choice.from..choice.to];
        let child = self.build_node(inside, depth + choice.len);
        let addr = inside[0].addr.skip(depth).keep(choice.len);
        let gate = Some(Gate { addr, len: choice.len, child });
        let mut set = Set { routes: Default::default(), gate, apart: None };
        let outside = routes[..choice.from].iter().chain(&routes[choice.to..]);
        outside.for_each(|route| set.add(route.below(depth)));
        let written = formats.write(line, &mut self.pool, &set);
        debug_assert!(written, "a gate is chosen so that the rest has room");
    }

    /// A node with prefixes that are all longer than `depth`.
    fn build_node(&mut self, routes: &[Route<A>], depth: u32) -> Ref {
        let (stride, mut size) = choose_stride(routes, depth, node::size_for(self.values.len() as u32 + 1));
        let mut endings = Vec::with_capacity(routes.iter().filter(|route| route.len <= depth + stride).count());
        let mut children = Vec::new();
        for run in routes.chunk_by(|a, b| a.addr.skip(depth).top(stride) == b.addr.skip(depth).top(stride)) {
            let slot = run[0].addr.skip(depth).top(stride);
            // Sorted: what ends here has zeros behind and is shorter.
            let here = run.partition_point(|route| route.len <= depth + stride);
            for route in &run[..here] {
                let number = self.number(route.cell);
                endings.push(Ending::new(slot, route.len - depth, number));
                size = size.max(node::size_for(number));
            }
            if here < run.len() {
                children.push((slot, self.build_sorted(&run[here..], depth + stride)));
            }
        }
        if !children.is_empty() {
            size = INNER;
        }
        let at = self.nodes.new_node(&mut self.pool, stride, size, endings, routes.len());
        for (slot, child) in children {
            node::set_child(&mut self.pool, at, slot, child);
        }
        at
    }
}

/// A gate of `len` bits before the prefixes `from..to`.
#[derive(Clone, Copy)]
struct Choice {
    len: u32,
    from: usize,
    to: usize,
}

/// The longest gate such that all prefixes that are not behind it fit in the line. As long as all prefixes agree nothing is left
/// out; where they part, the smaller side is, if it fits with room for one more.
fn choose_gate<A: Address>(formats: &Formats, routes: &[Route<A>], depth: u32) -> Choice {
    let count = routes.len();
    let mut at = Choice { len: 0, from: 0, to: count };
    let mut best = at;
    // Bits of the longest prefix outside.
    let mut longest = 0;
    loop {
        if routes[at.from].len == depth + at.len {
            at.from += 1;
            longest = longest.max(at.len);
        }
        let outside = at.from + count - at.to;
        let room = formats.gated(longest.max(at.len));
        if outside > room || at.from == at.to {
            return best;
        }
        best = at;
        let inside = &routes[at.from..at.to];
        let middle = at.from + inside.partition_point(|route| !route.addr.bit(depth + at.len));
        let (zeros, ones) = (middle - at.from, at.to - middle);
        let fewer = zeros.min(ones);
        if count > GATED || (fewer > 0 && outside + fewer + 1 > room) {
            return best;
        }
        let left_out = if zeros >= ones { middle..at.to } else { at.from..middle };
        longest = routes[left_out].iter().map(|route| route.len - depth).fold(longest, u32::max);
        if zeros >= ones {
            at.to = middle;
        } else {
            at.from = middle;
        }
        at.len += 1;
    }
}

/// Whether a node that all prefixes end in is small enough to be better than a set: a slot is found faster than a prefix in a line.
fn dense<A: Address>(routes: &[Route<A>], depth: u32, leaf: u32) -> bool {
    let longest = routes.iter().map(|route| route.len - depth).max().unwrap_or(0);
    longest > 0 && longest <= WIDEST && (1 << (longest + leaf)) <= LEAST + DENSE * routes.len()
}

/// Stride and slot size of a node: the widest that the memory allows; one that all prefixes end in is best, as its slots are small.
fn choose_stride<A: Address>(routes: &[Route<A>], depth: u32, leaf: u32) -> (u32, u32) {
    let longest = routes.iter().map(|route| route.len - depth).max().unwrap_or(1);
    let budget = PER_NODE + PER_ROUTE * routes.len();
    if longest <= WIDEST && (1 << (longest + leaf)) <= budget {
        return (longest, leaf);
    }
    for stride in (3..=WIDEST.min(longest - 1)).rev() {
        let slots = 8 << stride;
        if slots <= budget && slots + 64 * deeper(routes, depth, stride) <= budget {
            return (stride, INNER);
        }
    }
    (longest.min(3), if longest <= 3 { leaf } else { INNER })
}

/// How many slots of a stride have prefixes behind them.
fn deeper<A: Address>(routes: &[Route<A>], depth: u32, stride: u32) -> usize {
    let mut last = None;
    let mut count = 0;
    for route in routes.iter().filter(|route| route.len > depth + stride) {
        let slot = route.addr.skip(depth).top(stride);
        count += usize::from(last != Some(slot));
        last = Some(slot);
    }
    count
}
