//! [`PrefixLine`]: a few prefixes in one cache line, and [`PrefixLineLayouts`]: its memory layouts.
//!
//! | bytes of a line | |
//! |---|---|
//! | from 0 | prefixes, each as wide as the layout defines, longest prefix first |
//! | next | a byte per prefix: the number of unused bits of that width |
//! | next | inline, with child: a cell per prefix. Out of line: the number of the block of cells |
//! | next | with child: its prefix, and 8 bytes with its [`BlockRef`] |
//! | 48-55 | in lines with a wide exact key: that key |
//! | 56 | number of prefixes |
//! | 57 | number of the layout |
//! | 58 | length of the child's prefix in bits |
//! | 60-63 | in lines with a narrow exact key: that key |
//!
//! A **cell** is a value itself if all values of the table are short, otherwise the number of a
//! value in [`super::next_hops::NextHopTable`]. A **compressed child** is a common prefix of many
//! longer prefixes, with the block that holds them (path compression): a node or another line. They
//! take precedence over the line's own prefixes. Numbers are little-endian.

use super::address::AddressBits;
use super::pool::{BlockRef, LineBytes, LinePool};
use smallvec::SmallVec;

/// Prefix with its value, as it moves between lines and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LpmRoute<A> {
    /// Bits after `len` are 0.
    pub addr: A,
    pub len: u32,
    pub cell: u64,
}

impl<A: AddressBits> LpmRoute<A> {
    /// Returns the prefix without its first `depth` bits.
    pub(super) fn skip_leading_bits(&self, depth: u32) -> LpmRoute<A> {
        LpmRoute { addr: self.addr.skip_bits(depth), len: self.len - depth, cell: self.cell }
    }
}

/// Prefix shared by the prefixes of another block, with a reference to that block.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompressedChild<A> {
    pub addr: A,
    pub len: u32,
    pub child: BlockRef,
}

impl<A: AddressBits> CompressedChild<A> {
    /// Returns whether a prefix belongs in the child.
    pub(super) fn covers_longer(&self, addr: A, len: u32) -> bool {
        len > self.len && addr.shares_leading_bits(self.addr, self.len)
    }
}

/// Decoded content of a line.
#[derive(Debug)]
pub(super) struct PrefixLine<A> {
    /// Longest first.
    pub routes: SmallVec<[LpmRoute<A>; 12]>,
    pub compressed_child: Option<CompressedChild<A>>,
    /// Block of the cells and its number of lines.
    pub value_block: Option<(u32, usize)>,
}

impl<A: AddressBits> PrefixLine<A> {
    /// Inserts a new prefix.
    pub(super) fn insert_route(&mut self, route: LpmRoute<A>) {
        let at = self.routes.iter().position(|other| other.len <= route.len).unwrap_or(self.routes.len());
        self.routes.insert(at, route);
    }

    pub(super) fn position(&self, addr: A, len: u32) -> Option<usize> {
        self.routes.iter().position(|route| route.len == len && route.addr == addr)
    }
}

/// Where the cells of a line are, and whether it has a compressed child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PrefixLineKind {
    Inline,
    /// Cells of eight bytes in a separate block.
    OutOfLine,
    WithChild,
}

/// Offsets in a line, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixLineLayout {
    pub kind: PrefixLineKind,
    /// Bytes of a prefix: 4, 8 or 16.
    pub prefix_bytes: u8,
    /// Maximum number of prefixes.
    pub capacity: u8,
    pub shifts_offset: u8,
    pub cells_offset: u8,
    pub child_offset: u8,
}

impl PrefixLineLayout {
    fn new(kind: PrefixLineKind, width: usize, room: usize, cell: usize) -> PrefixLineLayout {
        let cap = match kind {
            PrefixLineKind::Inline => room / (width + 1 + cell),
            PrefixLineKind::OutOfLine => (room - 4) / (width + 1),
            PrefixLineKind::WithChild => (room - 8 - width) / (width + 1 + cell),
        };
        let (shifts, cells) = (cap * width, cap * (width + 1));
        let gate = cells + cap * cell;
        let byte = |offset: usize| offset as u8;
        PrefixLineLayout {
            kind,
            prefix_bytes: width as u8,
            capacity: byte(cap),
            shifts_offset: byte(shifts),
            cells_offset: byte(cells),
            child_offset: byte(gate),
        }
    }

    /// Returns the number of lines of the block with the cells.
    fn value_block_lines(&self) -> usize {
        (self.capacity as usize * 8).div_ceil(64)
    }
}

/// Offset of the number of prefixes, the layout number and the length of the child's prefix: eight
/// bytes with the narrow key.
pub(super) const HEADER_OFFSET: usize = 56;
const WIDTHS: [usize; 3] = [4, 8, 16];
const KINDS: [PrefixLineKind; 3] = [PrefixLineKind::Inline, PrefixLineKind::OutOfLine, PrefixLineKind::WithChild];

/// All layouts of lines with the same space for prefixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixLineLayouts {
    /// By layout number; numbers from 9 on are unused.
    pub layouts: [PrefixLineLayout; 16],
    /// Bytes of a cell.
    pub cell_bytes: usize,
}

impl PrefixLineLayouts {
    /// Computes the layouts. `room` is the number of bytes for prefixes, cells and child; `cell`
    /// the bytes of a cell, 1 to 8.
    pub(super) fn new(room: usize, cell: usize) -> PrefixLineLayouts {
        let format = |index: usize| PrefixLineLayout::new(KINDS[index / 3 % 3], WIDTHS[index % 3], room, cell);
        PrefixLineLayouts { layouts: std::array::from_fn(format), cell_bytes: cell }
    }

    fn layout_index(kind: PrefixLineKind, longest: u32) -> usize {
        let width = WIDTHS.iter().position(|width| longest as usize <= width * 8).unwrap_or(2);
        PrefixLineLayouts::layout_number(kind, width)
    }

    /// Returns the number of the layout of a kind for prefixes of one of the [`WIDTHS`].
    pub(super) const fn layout_number(kind: PrefixLineKind, width: usize) -> usize {
        kind as usize * WIDTHS.len() + width
    }

    /// Returns how many prefixes fit in a line with a compressed child if the longest of all has
    /// `longest` bits.
    pub(super) fn capacity_with_child(&self, longest: u32) -> usize {
        self.layouts[Self::layout_index(PrefixLineKind::WithChild, longest)].capacity as usize
    }

    fn layout_of(&self, line: &LineBytes) -> &PrefixLineLayout {
        &self.layouts[line[HEADER_OFFSET + 1] as usize & 15]
    }

    /// Decodes a line. An all-zero line is empty.
    pub(super) fn read_line<A: AddressBits>(&self, line: &LineBytes, pool: &LinePool) -> PrefixLine<A> {
        let layout = self.layout_of(line);
        let (width, shifts, cells) =
            (layout.prefix_bytes as usize, layout.shifts_offset as usize, layout.cells_offset as usize);
        let prefix = |offset: usize| -> A {
            let mut bytes = [0; 16];
            bytes[..width].copy_from_slice(&line[offset..offset + width]);
            A::from_left_u128(u128::from_le_bytes(bytes) << (128 - 8 * width))
        };
        let value_block = (layout.kind == PrefixLineKind::OutOfLine)
            .then(|| (read_number(line, cells, 4) as u32, layout.value_block_lines()));
        let cell = |index: usize| match value_block {
            Some((block, _)) => read_number(pool.bytes_from(block), index * 8, 8),
            None => read_number(line, cells + index * self.cell_bytes, self.cell_bytes),
        };
        let read_route = |index: usize| LpmRoute {
            addr: prefix(index * width),
            len: width as u32 * 8 - u32::from(line[shifts + index]),
            cell: cell(index),
        };
        let routes = (0..line[HEADER_OFFSET] as usize).map(read_route).collect();
        let compressed_child = (layout.kind == PrefixLineKind::WithChild).then(|| CompressedChild {
            addr: prefix(layout.child_offset as usize),
            len: u32::from(line[HEADER_OFFSET + 2]),
            child: BlockRef(read_number(line, layout.child_offset as usize + width, 8)),
        });
        PrefixLine { routes, compressed_child, value_block }
    }

    /// Returns the address of a cell.
    pub(super) fn cell_ptr(&self, line: &LineBytes, pool: &LinePool, index: usize) -> *const u8 {
        let format = self.layout_of(line);
        let cells = format.cells_offset as usize;
        match format.kind {
            PrefixLineKind::OutOfLine => pool.bytes_from(read_number(line, cells, 4) as u32)[index * 8..].as_ptr(),
            _ => line.as_ptr().wrapping_add(cells + index * self.cell_bytes),
        }
    }

    /// Encodes a line, except its exact key. Returns false and changes nothing if it does not fit.
    /// Reuses or frees the previous block of cells (`contents.value_block`).
    pub(super) fn write_line<A: AddressBits>(
        &self,
        line: &mut LineBytes,
        pool: &mut LinePool,
        contents: &PrefixLine<A>,
    ) -> bool {
        let longest = contents
            .routes
            .first()
            .map_or(0, |route| route.len)
            .max(contents.compressed_child.map_or(0, |child| child.len));
        let does_fit = |&kind: &PrefixLineKind| {
            contents.routes.len() <= self.layouts[Self::layout_index(kind, longest)].capacity as usize
        };
        let kinds: &[PrefixLineKind] = if contents.compressed_child.is_some() {
            &[PrefixLineKind::WithChild]
        } else {
            &[PrefixLineKind::Inline, PrefixLineKind::OutOfLine]
        };
        let Some(&kind) = kinds.iter().find(|kind| does_fit(kind)) else {
            return false;
        };
        let index = Self::layout_index(kind, longest);
        let layout = &self.layouts[index];
        let (width, shifts, cells) =
            (layout.prefix_bytes as usize, layout.shifts_offset as usize, layout.cells_offset as usize);
        let block = self.reserve_value_block(layout, pool, contents.value_block);
        let write_prefix = |line: &mut LineBytes, offset: usize, addr: A| {
            let bytes = (addr.to_left_u128() >> (128 - 8 * width)).to_le_bytes();
            line[offset..offset + width].copy_from_slice(&bytes[..width]);
        };
        for (index, route) in contents.routes.iter().enumerate() {
            write_prefix(line, index * width, route.addr);
            line[shifts + index] = (width as u32 * 8 - route.len) as u8;
            let cell = route.cell.to_le_bytes();
            match block {
                Some(block) => pool.bytes_from_mut(block)[index * 8..][..8].copy_from_slice(&cell),
                None => {
                    line[cells + index * self.cell_bytes..][..self.cell_bytes].copy_from_slice(&cell[..self.cell_bytes])
                }
            }
        }
        if let Some(block) = block {
            line[cells..cells + 4].copy_from_slice(&block.to_le_bytes());
        }
        if let Some(child) = &contents.compressed_child {
            write_prefix(line, layout.child_offset as usize, child.addr);
            line[layout.child_offset as usize + width..][..8].copy_from_slice(&child.child.0.to_le_bytes());
        }
        (line[HEADER_OFFSET], line[HEADER_OFFSET + 1]) = (contents.routes.len() as u8, index as u8);
        line[HEADER_OFFSET + 2] = contents.compressed_child.map_or(0, |child| child.len as u8);
        true
    }

    /// Returns the block of cells that a layout needs, allocated or reused.
    fn reserve_value_block(
        &self,
        format: &PrefixLineLayout,
        pool: &mut LinePool,
        before: Option<(u32, usize)>,
    ) -> Option<u32> {
        let wanted = if format.kind == PrefixLineKind::OutOfLine { format.value_block_lines() } else { 0 };
        match before {
            Some((block, lines)) if lines == wanted => return Some(block),
            Some((block, lines)) => pool.free_block(block, lines),
            None => {}
        }
        (wanted > 0).then(|| pool.allocate_block(wanted))
    }

    /// Updates the reference to the compressed child only.
    pub(super) fn write_child(&self, line: &mut LineBytes, child: BlockRef) {
        let format = self.layout_of(line);
        let at = format.child_offset as usize + format.prefix_bytes as usize;
        line[at..at + 8].copy_from_slice(&child.0.to_le_bytes());
    }
}

/// Reads a little-endian number of `len` bytes, at most 8.
fn read_number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}
