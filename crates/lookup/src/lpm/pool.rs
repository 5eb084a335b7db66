//! [`Pool`]: blocks of cache lines for sets and nodes, and [`Ref`], which names one.

use crate::memory::HugeVec;

/// A cache line.
pub(super) type Line = [u8; 64];

/// Which block, and what is in it: 36 bits, so that it fits into a slot of a node beside a value's number.
///
/// | bits | |
/// |---|---|
/// | 0-28 | first line; never 0 |
/// | 29-32 | a node's stride - 1 |
/// | 33-34 | logarithm of a node's slot size in bytes |
/// | 35 | a set rather than a node |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ref(pub(super) u64);

const LINE_BITS: u32 = 29;

impl Ref {
    /// Nothing there.
    pub(super) const NULL: Ref = Ref(0);

    pub(super) fn set(line: u32) -> Ref {
        Ref(u64::from(line) | 1 << 35)
    }

    /// `stride` is 1 to 16 bits, a slot `1 << size` bytes.
    pub(super) fn node(line: u32, stride: u32, size: u32) -> Ref {
        Ref(u64::from(line) | u64::from(stride - 1) << LINE_BITS | u64::from(size) << 33)
    }

    #[inline(always)]
    pub(super) fn is_null(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) fn is_set(self) -> bool {
        self.0 >> 35 & 1 == 1
    }

    #[inline(always)]
    pub(super) fn line(self) -> u32 {
        self.0 as u32 & ((1 << LINE_BITS) - 1)
    }

    #[inline(always)]
    pub(super) fn stride(self) -> u32 {
        (self.0 >> LINE_BITS & 15) as u32 + 1
    }

    #[inline(always)]
    pub(super) fn size(self) -> u32 {
        (self.0 >> 33 & 3) as u32
    }
}

/// Blocks of lines. A block's lines are zero when it is taken.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    lines: HugeVec<Line>,
    /// Blocks given back, by class: the logarithm of their number of lines, rounded up. All of a class have one length.
    free: Vec<Vec<u32>>,
    /// Lines handed out so far, from the first.
    used: usize,
}

impl Pool {
    pub(super) fn new() -> Pool {
        let mut lines = HugeVec::new();
        lines.grow(1);
        Pool { lines, free: Vec::new(), used: 1 }
    }

    /// A block of `lines` lines. Lengths of one class must be equal: a power of two, or that and one.
    pub(super) fn take(&mut self, lines: usize) -> u32 {
        let free = self.free.get_mut(class(lines)).and_then(Vec::pop);
        if let Some(first) = free {
            self.lines[first as usize..][..lines].fill([0; 64]);
            return first;
        }
        let first = self.used;
        self.used += lines;
        assert!(self.used < 1 << LINE_BITS, "more than 32 GiB of routes in one table");
        if self.used > self.lines.len() {
            // An eighth more than is needed: small pools are on the heap and copied when they grow.
            self.lines.grow(self.used + (self.used / 8).min(4096));
        }
        first as u32
    }

    pub(super) fn give_back(&mut self, first: u32, lines: usize) {
        let class = class(lines);
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(first);
    }

    pub(super) fn start(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(super) fn line(&self, line: u32) -> &Line {
        &self.lines[line as usize]
    }

    pub(super) fn line_mut(&mut self, line: u32) -> &mut Line {
        &mut self.lines[line as usize]
    }

    /// All bytes from a line on.
    pub(super) fn bytes(&self, line: u32) -> &[u8] {
        self.lines[line as usize..].as_flattened()
    }

    pub(super) fn bytes_mut(&mut self, line: u32) -> &mut [u8] {
        self.lines[line as usize..].as_flattened_mut()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.bytes() + self.free.iter().map(|free| free.capacity() * 4).sum::<usize>()
    }
}

fn class(lines: usize) -> usize {
    lines.next_power_of_two().trailing_zeros() as usize
}
