//! Looking up in batches.
//!
//! Keys go through the tree in groups: for all keys of a group the positions in a table are computed at once, the heads are read, and
//! only buckets that may hold something stronger than what was found so far are looked at. So the first tables, with most of the
//! rules, decide most keys, and for the others a comparison of priorities is all that is left to do.
#![allow(unsafe_code)]

use super::blocks::{Info, Line};
use super::lanes::{GROUP, Lanes, Picked, Plain};
use super::rule::{Shape, Wide, between, priority_of};
use super::tree::{Head, MAX_DEPTH, NODE, NUMBER, Node, ROOT, Tree, factor};
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

machine!(avx2, super::lanes::Avx2, "avx2", "bmi1", "bmi2", "popcnt");
machine!(avx512, super::lanes::Avx512, "avx512f", "avx512dq", "avx512vl", "bmi1", "bmi2", "popcnt");

/// What a search needs of a tree.
struct View<'t> {
    lines: *const Line,
    nodes: &'t [Node],
    shape: &'t Shape,
    tree: &'t Tree,
}

/// The strongest rule of each key so far.
struct Best {
    /// Its rank; 1 if there is none.
    rank: [u64; GROUP],
    /// Its record, if there is one.
    id: [u32; GROUP],
    /// The least head that may hold a stronger one.
    least: [Head; GROUP],
}

/// Lines of a block that are fetched ahead; of keys of more words the processor sees the rest coming.
const MOST_LINES: usize = 8;

/// No record.
const NONE: u32 = u32::MAX;

/// Prefetches a line.
#[inline(always)]
fn prefetch<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is allowed of any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// # Safety
/// As for [`Kernel`]; `W` is the number of words, or 0 for any.
#[inline(always)]
unsafe fn search<L: Lanes, const W: usize>(tree: &Tree, keys: &[u64], out: &mut [*const u8]) {
    let words = if W == 0 { tree.shape.words } else { W };
    let view = View { lines: tree.blocks.raw(), nodes: &tree.nodes, shape: &tree.shape, tree };
    // Room for the keys of a group, word by word.
    let mut columns: SmallVec<[u64; 4 * GROUP]> = smallvec::smallvec![0; words * GROUP];
    for (keys, out) in keys.chunks(GROUP * words).zip(out.chunks_mut(GROUP)) {
        for (at, key) in keys.chunks_exact(words).enumerate() {
            for word in 0..words {
                columns[word * GROUP + at] = key[word];
            }
        }
        let mut best = Best { rank: [1; GROUP], id: [NONE; GROUP], least: [1; GROUP] };
        // Nothing is looked up for keys that are not there.
        best.least[out.len()..].fill(Head::MAX);
        // SAFETY: a group of keys, as many as `out` has places.
        unsafe { view.group::<L, W>(keys, &columns, out.len(), &mut best) };
        let (records, stride, value) = tree.records.raw();
        for (out, &id) in out.iter_mut().zip(&best.id) {
            // Not followed if there is no such record.
            let found = records.wrapping_add((id as usize).wrapping_mul(stride) + value).cast::<u8>();
            *out = if id == NONE { std::ptr::null() } else { found };
            prefetch(*out);
        }
    }
}

impl View<'_> {
    #[inline(always)]
    fn words<const W: usize>(&self) -> usize {
        if W == 0 { self.shape.words } else { W }
    }

    /// # Safety
    /// As for [`Kernel`]; `count` keys, at most [`GROUP`].
    #[inline(always)]
    unsafe fn group<L: Lanes, const W: usize>(&self, keys: &[u64], columns: &[u64], count: usize, best: &mut Best) {
        let words = self.words::<W>();
        let root = &self.nodes[ROOT as usize];
        let (mut chains, mut nodes) = (Picked::new(), Picked::new());
        for table in root.tables.iter().filter(|table| table.count > 0) {
            // SAFETY: the table has a mask of `words` words and the heads behind it; columns are of the same words.
            unsafe { L::pick(table.buckets(words), columns, words, &best.least, &mut chains, &mut nodes) };
            for head in &chains.heads[..chains.count] {
                for line in 0..(2 * words + 2).min(MOST_LINES) {
                    prefetch(self.lines.wrapping_add((*head as u32) as usize + line));
                }
            }
            for head in &nodes.heads[..nodes.count] {
                prefetch(self.nodes.as_ptr().wrapping_add((*head & NUMBER) as usize));
            }
            // SAFETY: heads of chains, and keys of the group.
            unsafe { self.chains::<L, W>(&mut chains, keys.as_ptr(), best) };
            for (&key, &head) in nodes.keys.iter().zip(&nodes.heads).take(nodes.count) {
                let node = (head & NUMBER) as u32;
                // SAFETY: a head of a node, and a key of the group.
                unsafe { self.node::<L, W>(node, keys.as_ptr().add(key as usize * words), key as usize, best) };
            }
        }
        for rest in [root.rest, root.old_rest] {
            for key in 0..count {
                if rest >= best.least[key] {
                    // SAFETY: as above.
                    unsafe { self.chain::<L, W>(rest as u32, keys.as_ptr().add(key * words), key, best) };
                }
            }
        }
    }

    /// Looks through chains, all first blocks before all second ones and so on: what a comparison finds decides values, not branches.
    ///
    /// # Safety
    /// Heads of chains, and numbers of keys in `keys`, which have the tree's number of words.
    #[inline(always)]
    unsafe fn chains<L: Lanes, const W: usize>(&self, chains: &mut Picked, keys: *const u64, best: &mut Best) {
        let words = self.words::<W>();
        while chains.count > 0 {
            let mut left = 0;
            for at in 0..chains.count {
                let (key, block) = (chains.keys[at] as usize % GROUP, chains.heads[at] as u32);
                let lines = self.lines.wrapping_add(block as usize);
                // SAFETY: a block of the pool and a key.
                let (lanes, ranks, info) = unsafe {
                    let lanes = self.matching::<L, W>(lines, keys.add(key * words), best.rank[key]);
                    (lanes, &*lines.add(2 * words), &*lines.add(2 * words + 1))
                };
                let lane = (lanes | 1 << 7).trailing_zeros() as usize & 7;
                let hit = lanes != 0;
                let (rank, id, next) = (ranks[lane], Info::id(info, lane), info[Info::NEXT] as u32);
                let stronger = hit && (rank != best.rank[key] || self.wins_tie(id, best.id[key]));
                best.rank[key] = if stronger { rank } else { best.rank[key] };
                best.id[key] = if stronger { id } else { best.id[key] };
                best.least[key] = u64::from(priority_of(best.rank[key])) << 32 | 1;
                (chains.keys[left], chains.heads[left]) = (key as u64, u64::from(next));
                left += usize::from(!hit & (next != 0));
            }
            chains.count = left;
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
            if u64::from(lanes) & (flags >> 32 | flags >> 40) & 0xff != 0 {
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
                let lane = lanes.trailing_zeros() as usize & 7;
                let (rank, id) = (ranks[lane], Info::id(info, lane));
                if rank != best.rank[at] || self.wins_tie(id, best.id[at]) {
                    (best.rank[at], best.id[at]) = (rank, id);
                    best.least[at] = u64::from(priority_of(rank)) << 32 | 1;
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
        let mut wide = lanes & (flags >> 40) as u32 & 0xff;
        while wide != 0 {
            let lane = wide.trailing_zeros();
            wide &= wide - 1;
            // SAFETY: the info line is one of the block's; the key is one of this tree.
            let inside = unsafe { self.in_wide_ranges(Info::id(&*lines.add(2 * words + 1), lane as usize & 7), key) };
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
            let (number, next) = path[depth];
            // SAFETY: heads name nodes that exist.
            let node = unsafe { self.nodes.get_unchecked(number as usize) };
            if let Some(table) = node.tables.get(next as usize) {
                path[depth].1 += 1;
                let data = table.data.as_ptr();
                // SAFETY: the mask's words come first, then as many heads as the shift leaves positions; the key has these words.
                let head = unsafe {
                    let position = hash::<W>(words, |at| *key.add(at) & *data.add(at)) >> table.shift;
                    *data.add(words + position as usize)
                };
                if head < best.least[at] {
                } else if head & NODE == 0 {
                    // SAFETY: a head of a chain.
                    unsafe { self.chain::<L, W>(head as u32, key, at, best) };
                } else {
                    depth += 1;
                    path[depth] = ((head & NUMBER) as u32, 0);
                }
                continue;
            }
            for rest in [node.rest, node.old_rest] {
                if rest >= best.least[at] {
                    // SAFETY: a head of a chain.
                    unsafe { self.chain::<L, W>(rest as u32, key, at, best) };
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
