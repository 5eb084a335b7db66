//! Looking up in batches.
//!
//! Keys go through the tree in groups: for all keys of a group the positions in a table are computed at once, the heads are read, and
//! only buckets that may hold something stronger than what was found so far are looked at. So the first tables, with most of the
//! rules, decide most keys, and for the others a comparison of priorities is all that is left to do.
#![allow(unsafe_code)]

use super::blocks::{Info, LANES, Line};
use super::head::factor;
use super::head::{Head, NODE, least_for, mark_of, may_have, number};
use super::lanes::{Best, GROUP, KEYS, Lanes, NONE, Picks, Plain, key_of};
use super::rule::{Shape, Wide, between};
use super::tree::{MAX_DEPTH, Node, ROOT, Tree};
use smallvec::SmallVec;

/// A kernel for a machine and a number of words.
///
/// # Safety
/// The machine has the instructions, the tree's keys are of that number of words, and `keys` has as many as `out` needs.
pub type Kernel = unsafe fn(&Tree, &[u64], &mut [*const u8]);

/// The best kernel of this machine for keys of `words` words.
pub fn kernel(words: usize) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return avx512(words);
        }
        if is_x86_feature_detected!("avx2") {
            return avx2(words);
        }
    }
    plain(words)
}

/// The kernel for any machine.
pub fn plain(words: usize) -> Kernel {
    match words {
        1 => search::<Plain, 1>,
        2 => search::<Plain, 2>,
        _ => search::<Plain, 0>,
    }
}

macro_rules! machine {
    ($name:ident, $lanes:ty, $($feature:literal),+) => {
        /// The kernel for machines with these instructions.
        #[cfg(target_arch = "x86_64")]
        pub fn $name(words: usize) -> Kernel {
            $(#[target_feature(enable = $feature)])+
            unsafe fn run<const W: usize>(tree: &Tree, keys: &[u64], out: &mut [*const u8]) {
                // SAFETY: the machine has the instructions, and the caller keeps the rest.
                unsafe { search::<$lanes, W>(tree, keys, out) }
            }
            match words {
                1 => run::<1>,
                2 => run::<2>,
                3 => run::<3>,
                4 => run::<4>,
                5 => run::<5>,
                _ => run::<0>,
            }
        }
    };
}

machine!(avx2, super::quads::Avx2, "avx2", "bmi1", "bmi2", "popcnt");
machine!(avx512, super::lanes::Avx512, "avx512f", "avx512dq", "avx512vl", "bmi1", "bmi2", "popcnt");

/// What a search needs of a tree.
struct View<'t> {
    lines: *const Line,
    nodes: &'t [Node],
    shape: &'t Shape,
    tree: &'t Tree,
}

/// Lines of a block that are fetched ahead; of keys of more words the processor sees the rest coming.
const MOST_LINES: usize = 16;

/// Where an item has lanes.
const LANES_SHIFT: u32 = 40;

/// Fewer keys are looked up in the rest one by one.
const FEW: u32 = 12;

/// Asks for a line.
#[inline(always)]
fn prefetch<T>(line: *const T) {
    entries::prefetch(line.cast(), 1);
}

/// # Safety
/// As for [`Kernel`]; `W` is the number of words, or 0 for any.
#[inline(always)]
unsafe fn search<L: Lanes, const W: usize>(tree: &Tree, keys: &[u64], out: &mut [*const u8]) {
    let words = if W == 0 { tree.shape.words } else { W };
    let view = View { lines: tree.blocks.raw(), nodes: &tree.nodes, shape: &tree.shape, tree };
    // Room for the keys of a group, word by word.
    let mut columns: SmallVec<[u64; 4 * GROUP]> = smallvec::smallvec![0; words * GROUP];
    let columns = columns.as_mut_slice();
    let (values, stride) = tree.records.values();
    for (keys, out) in keys.chunks(GROUP * words).zip(out.chunks_mut(GROUP)) {
        assert!(keys.len() == out.len() * words && columns.len() == GROUP * words, "whole keys");
        for word in 0..words {
            for at in 0..out.len() {
                // SAFETY: as asserted; a chunk has at most GROUP keys.
                unsafe { *columns.get_unchecked_mut(word * GROUP + at) = *keys.get_unchecked(at * words + word) };
            }
        }
        let mut best = Best { rank: [1; GROUP], id: [NONE; GROUP] };
        // SAFETY: a group of keys, as many as `out` has places.
        unsafe { view.group::<L, W>(keys, columns, out.len(), &mut best) };
        for (at, out) in out.iter_mut().enumerate() {
            let id = best.id[at % GROUP];
            // Not followed if there is no such record.
            let found = values.wrapping_add((id as usize).wrapping_mul(stride)).cast::<u8>();
            *out = if id == NONE { std::ptr::null() } else { found };
            // An address that is not there would be looked for in vain each time.
            prefetch(if id == NONE { values.cast() } else { found });
        }
    }
}

impl View<'_> {
    #[inline(always)]
    fn words<const W: usize>(&self) -> usize {
        if W == 0 { self.shape.words } else { W }
    }

    /// Prefetches the block of an item.
    #[inline(always)]
    fn prefetch_block<const W: usize>(&self, item: u64) {
        let start = number(item) as usize;
        for line in (0..(2 * self.words::<W>() + 2).min(MOST_LINES)).step_by(2) {
            prefetch(self.lines.wrapping_add(start + line));
        }
    }

    /// # Safety
    /// As for [`Kernel`]; `count` keys, at most [`GROUP`].
    #[inline(always)]
    unsafe fn group<L: Lanes, const W: usize>(&self, keys: &[u64], columns: &[u64], count: usize, best: &mut Best) {
        let words = self.words::<W>();
        let root = &self.nodes[ROOT as usize];
        let mut picks = Picks::new();
        for table in root.tables.iter().filter(|table| table.count > 0) {
            // SAFETY: the table has a mask of `words` words and the heads behind it; columns are of the same words.
            unsafe { L::pick(table.buckets(words), columns, words, &best.rank[..count], &mut picks) };
            for &item in picks.nodes.items() {
                prefetch(self.nodes.as_ptr().wrapping_add(number(item) as usize));
            }
            // SAFETY: blocks, nodes, and keys of the group.
            unsafe {
                self.chains::<L, W>(&mut picks, keys.as_ptr(), best);
                for &item in picks.nodes.items() {
                    let (node, key) = (number(item) as u32, key_of(item));
                    self.node::<L, W>(node, keys.as_ptr().add(key * words), key, best);
                }
            }
        }
        for rest in [root.rest, root.old_rest] {
            // SAFETY: a head of a chain, and as many keys as said.
            unsafe { self.rest::<L, W>(rest, keys.as_ptr(), columns, count, best) };
        }
    }

    /// Looks through a chain for all keys for which it may hold something stronger. Where these are many, they are compared with one
    /// rule after the other, a vector of keys at once.
    ///
    /// # Safety
    /// A head of a chain; `count` keys, at most [`GROUP`], in `keys` one behind the other and in `columns` word by word.
    #[inline(always)]
    unsafe fn rest<L: Lanes, const W: usize>(
        &self,
        rest: Head,
        keys: *const u64,
        columns: &[u64],
        count: usize,
        best: &mut Best,
    ) {
        if rest == 0 {
            return;
        }
        let words = self.words::<W>();
        // Ranks below have a priority not greater than the chain's.
        let end = ((rest >> 32) + 1) << 31;
        let mut open = [0_u8; GROUP / KEYS];
        let mut many = 0;
        for (ranks, open) in best.rank[..count].chunks(KEYS).zip(&mut open) {
            *open = ranks.iter().rev().fold(0, |open, &rank| open << 1 | u8::from(rank < end));
            many += open.count_ones();
        }
        let (first, narrow) = (number(rest) as u32, &self.shape.narrow);
        for (vector, &open) in open.iter().enumerate() {
            let start = vector * KEYS;
            // SAFETY: a chain's first block, and columns of all keys.
            if many >= FEW
                && open != 0
                && unsafe { L::try_rules(self.lines, first, columns, start, words, narrow, open, best) }
            {
                continue;
            }
            let mut open = open;
            while open != 0 {
                let key = start + open.trailing_zeros() as usize;
                open &= open - 1;
                // SAFETY: as promised.
                unsafe { self.chain::<L, W>(first, keys.add(key * words), key, best) };
            }
        }
    }

    /// Looks through the chains, all first blocks before all second ones and so on. What a comparison finds decides values, not
    /// branches: blocks with a rule that matches are put aside.
    ///
    /// # Safety
    /// Blocks, and numbers of keys in `keys`, which have the tree's number of words.
    #[inline(always)]
    unsafe fn chains<L: Lanes, const W: usize>(&self, picks: &mut Picks, keys: *const u64, best: &mut Best) {
        let words = self.words::<W>();
        let Picks { chains, hits, .. } = picks;
        while chains.count > 0 {
            for &item in chains.items() {
                self.prefetch_block::<W>(item);
            }
            // Numbers that are kept in registers.
            let (mut left, mut hit) = (0, 0);
            for at in 0..chains.count {
                // SAFETY: `count` items are there, and not more than have been read are written; a block of the pool and a key.
                unsafe {
                    let item = chains.items.get_unchecked(at).assume_init();
                    let (key, lines) = (key_of(item), self.lines.wrapping_add(number(item) as usize));
                    let lanes = L::equal(lines, keys.add(key * words), words, best.rank[key]);
                    let next = (&*lines.add(2 * words + 1))[Info::NEXT] as u32;
                    hits.items.get_unchecked_mut(hit).write(item | u64::from(lanes) << LANES_SHIFT);
                    hit += usize::from(lanes != 0);
                    chains.items.get_unchecked_mut(left).write(item >> 32 << 32 | u64::from(next));
                    left += usize::from((lanes == 0) & (next != 0));
                }
            }
            (chains.count, hits.count) = (left, hit);
            for &item in hits.items() {
                let (key, lines) = (key_of(item), self.lines.wrapping_add(number(item) as usize));
                let mut lanes = (item >> LANES_SHIFT) as u32;
                // SAFETY: as above; not more chains than keys go on.
                unsafe {
                    let state = (&*lines.add(2 * words + 1))[Info::NEXT];
                    // Only ranges of the strongest that may match need a look.
                    if lanes & lanes.wrapping_neg() & Info::ranged(state) != 0 {
                        lanes = self.narrowed::<L, W>(lines, keys.add(key * words), state, lanes);
                        if lanes == 0 {
                            chains.add((key as u64) << 32 | u64::from(state as u32), state as u32 != 0);
                            continue;
                        }
                    }
                    self.settle::<W>(item, lanes, best);
                }
            }
        }
    }

    /// Takes the first of the lanes of an item's block, which match, if it is stronger. None is weaker than what there was.
    ///
    /// # Safety
    /// A block; `lanes` has one.
    #[inline(always)]
    unsafe fn settle<const W: usize>(&self, item: u64, lanes: u32, best: &mut Best) {
        let (key, words) = (key_of(item), self.words::<W>());
        let lines = self.lines.wrapping_add(number(item) as usize);
        let lane = lanes.trailing_zeros() as usize % LANES;
        // SAFETY: a block.
        let (ranks, info) = unsafe { (&*lines.add(2 * words), &*lines.add(2 * words + 1)) };
        let (rank, id) = (ranks[lane], Info::id(info, lane));
        if rank != best.rank[key] || self.wins_tie(id, best.id[key]) {
            (best.rank[key], best.id[key]) = (rank, id);
        }
    }

    /// Lanes of a block that match a key and have at least this rank.
    ///
    /// # Safety
    /// A block's first line and a key of the tree's number of words.
    #[inline(always)]
    unsafe fn matching<L: Lanes, const W: usize>(&self, lines: *const Line, key: *const u64, rank: u64) -> u32 {
        let words = self.words::<W>();
        // SAFETY: as promised.
        unsafe {
            let lanes = L::equal(lines, key, words, rank);
            let flags = (&*lines.add(2 * words + 1))[Info::NEXT];
            if lanes & Info::ranged(flags) != 0 {
                return self.narrowed::<L, W>(lines, key, flags, lanes);
            }
            lanes
        }
    }

    #[cold]
    fn wins_tie(&self, id: u32, other: u32) -> bool {
        other == NONE || self.tree.records.rule(id)[1] < self.tree.records.rule(other)[1]
    }

    /// Looks through a chain; the first rule that matches is its strongest.
    ///
    /// # Safety
    /// `block` is a block, `key` has the tree's number of words.
    #[inline(always)]
    unsafe fn chain<L: Lanes, const W: usize>(&self, mut block: u32, key: *const u64, at: usize, best: &mut Best) {
        let words = self.words::<W>();
        loop {
            let lines = self.lines.wrapping_add(block as usize);
            // SAFETY: a block of the pool and a key.
            let (lanes, ranks, info) = unsafe {
                let lanes = self.matching::<L, W>(lines, key, best.rank[at]);
                (lanes, &*lines.add(2 * words), &*lines.add(2 * words + 1))
            };
            if lanes != 0 {
                let lane = lanes.trailing_zeros() as usize % LANES;
                let (rank, id) = (ranks[lane], Info::id(info, lane));
                if rank != best.rank[at] || self.wins_tie(id, best.id[at]) {
                    (best.rank[at], best.id[at]) = (rank, id);
                }
                return;
            }
            block = info[Info::NEXT] as u32;
            if block == 0 {
                return;
            }
        }
    }

    /// Those of `lanes` in whose ranges the key lies, narrow and wide.
    ///
    /// # Safety
    /// As for `chain`.
    #[inline(always)]
    unsafe fn narrowed<L: Lanes, const W: usize>(
        &self,
        lines: *const Line,
        key: *const u64,
        flags: u64,
        lanes: u32,
    ) -> u32 {
        let words = self.words::<W>();
        // SAFETY: as promised.
        let mut lanes = unsafe { L::in_ranges(lines, key, words, &self.shape.narrow, lanes) };
        let mut wide = lanes & (flags >> 40) as u32 & 0xf;
        while wide != 0 {
            let lane = wide.trailing_zeros();
            wide &= wide - 1;
            // SAFETY: the info line is one of the block's; the key is one of this tree.
            let inside =
                unsafe { self.in_wide_ranges(Info::id(&*lines.add(2 * words + 1), lane as usize % LANES), key) };
            lanes &= !(u32::from(!inside) << lane);
        }
        lanes
    }

    /// # Safety
    /// The key has the tree's number of words.
    #[cold]
    unsafe fn in_wide_ranges(&self, id: u32, key: *const u64) -> bool {
        let rule = self.tree.records.rule(id);
        self.shape.wide.iter().all(|&Wide { width, word, words, flip, bounds }| {
            let number = |at: usize| {
                // SAFETY: the field's words are among the key's.
                let whole = unsafe { *key.add(word + at) };
                let last = at + 1 == words;
                let used = if last && width % 64 != 0 { whole & ((1 << (width % 64)) - 1) } else { whole };
                if last { used ^ flip } else { used }
            };
            between(words, number, &rule[bounds..bounds + words], &rule[bounds + words..bounds + 2 * words])
        })
    }

    /// Looks through a node and all below it.
    ///
    /// # Safety
    /// As for `chain`; `node` is a node.
    #[inline(always)]
    unsafe fn node<L: Lanes, const W: usize>(&self, node: u32, key: *const u64, at: usize, best: &mut Best) {
        let words = self.words::<W>();
        // The way down: a node and the next of its tables to look at.
        let mut path = [(0_u32, 0_u32); MAX_DEPTH as usize + 1];
        let mut depth = 0;
        path[0] = (node, 0);
        loop {
            let (name, next) = path[depth];
            // SAFETY: heads name nodes that exist.
            let node = unsafe { self.nodes.get_unchecked(name as usize) };
            if let Some(table) = node.tables.get(next as usize) {
                path[depth].1 += 1;
                let data = table.data.as_ptr();
                // SAFETY: the mask's words come first, then as many heads as the shift leaves positions; the key has these words.
                let (head, hash) = unsafe {
                    let hash = hash::<W>(words, |at| *key.add(at) & *data.add(at));
                    (*data.add(words + (hash >> table.shift) as usize), hash)
                };
                if head < least_for(best.rank[at]) || !may_have(head, mark_of(hash, table.shift)) {
                } else if head & NODE == 0 {
                    // SAFETY: a head of a chain.
                    unsafe { self.chain::<L, W>(number(head) as u32, key, at, best) };
                } else {
                    depth += 1;
                    path[depth] = (number(head) as u32, 0);
                }
                continue;
            }
            for rest in [node.rest, node.old_rest] {
                if rest >= least_for(best.rank[at]) {
                    // SAFETY: a head of a chain.
                    unsafe { self.chain::<L, W>(number(rest) as u32, key, at, best) };
                }
            }
            if depth == 0 {
                return;
            }
            depth -= 1;
        }
    }
}

/// The hash of a key's masked words.
#[inline(always)]
fn hash<const W: usize>(words: usize, masked: impl Fn(usize) -> u64) -> u64 {
    let mut hash = 0_u64;
    for at in 0..if W == 0 { words } else { W } {
        hash = hash.wrapping_add(masked(at).wrapping_mul(factor(at)));
    }
    hash
}
