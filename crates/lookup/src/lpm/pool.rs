//! [`LinePool`]: allocator of blocks of cache lines, and [`BlockRef`]: reference to a block.

use crate::memory::HugeVec;

/// Bytes of a cache line.
pub(super) type LineBytes = [u8; 64];

/// Reference to a block and its type, in 36 bits, so that it fits in a node's slot next to a value
/// number.
///
/// | bits | |
/// |---|---|
/// | 0-28 | first line; never 0 |
/// | 29-32 | a node's stride - 1 |
/// | 33-34 | binary logarithm of a node's slot size in bytes |
/// | 35 | set for a prefix line, clear for a node |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockRef(pub(super) u64);

const LINE_BITS: u32 = 29;

impl BlockRef {
    /// No block.
    pub(super) const NULL: BlockRef = BlockRef(0);

    pub(super) fn prefix_line(line: u32) -> BlockRef {
        BlockRef(u64::from(line) | 1 << 35)
    }

    /// Creates a reference to a node. `stride` is 1 to 16 bits; a slot has `1 << size` bytes.
    pub(super) fn node(line: u32, stride: u32, size: u32) -> BlockRef {
        BlockRef(u64::from(line) | u64::from(stride - 1) << LINE_BITS | u64::from(size) << 33)
    }

    #[inline(always)]
    pub(super) fn is_null(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) fn is_prefix_line(self) -> bool {
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
    pub(super) fn slot_size_log2(self) -> u32 {
        (self.0 >> 33 & 3) as u32
    }
}

/// Allocator of blocks of lines. A newly allocated block is zeroed.
#[derive(Clone, Debug)]
pub(super) struct LinePool {
    lines: HugeVec<LineBytes>,
    /// Free blocks by size class: the binary logarithm of the number of lines, rounded up. All
    /// blocks of a class have the same length.
    free: Vec<Vec<u32>>,
    /// Number of allocated lines, from the first.
    used: usize,
}

impl LinePool {
    pub(super) fn new() -> LinePool {
        let mut lines = HugeVec::new();
        lines.grow(1);
        LinePool { lines, free: Vec::new(), used: 1 }
    }

    /// Allocates a block of `lines` lines. All lengths of a size class must be equal.
    pub(super) fn allocate_block(&mut self, lines: usize) -> u32 {
        let free = self.free.get_mut(size_class(lines)).and_then(Vec::pop);
        if let Some(first) = free {
            self.lines[first as usize..][..lines].fill([0; 64]);
            return first;
        }
        let first = self.used;
        self.used += lines;
        assert!(self.used < 1 << LINE_BITS, "more than 32 GiB of routes in one table");
        if self.used > self.lines.len() {
            // Grow by an eighth more than needed, because small pools are on the heap and copied
            // when they grow.
            self.lines.grow(self.used + (self.used / 8).min(4096));
        }
        first as u32
    }

    pub(super) fn free_block(&mut self, first: u32, lines: usize) {
        let class = size_class(lines);
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(first);
    }

    pub(super) fn base_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(super) fn line(&self, line: u32) -> &LineBytes {
        &self.lines[line as usize]
    }

    pub(super) fn line_mut(&mut self, line: u32) -> &mut LineBytes {
        &mut self.lines[line as usize]
    }

    /// Returns all bytes from a line on.
    pub(super) fn bytes_from(&self, line: u32) -> &[u8] {
        self.lines[line as usize..].as_flattened()
    }

    pub(super) fn bytes_from_mut(&mut self, line: u32) -> &mut [u8] {
        self.lines[line as usize..].as_flattened_mut()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.free.iter().map(|free| free.capacity() * 4).sum::<usize>()
    }
}

fn size_class(lines: usize) -> usize {
    lines.next_power_of_two().trailing_zeros() as usize
}
