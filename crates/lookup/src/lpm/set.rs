//! [`Set`]: a few prefixes in one cache line, and [`Formats`]: how they lie in it.
//!
//! | bytes of a line | |
//! |---|---|
//! | from 0 | prefixes, as many bits of each as the format says, longest prefix first |
//! | then | for each, one byte: bits of the format that do not count |
//! | then | plain, gated: for each, its cell. Apart: the number of the block that has the cells |
//! | then | gated: the gate's bits, and 8 bytes with the [`Ref`] of what is behind it |
//! | 48-55 | in lines with a wide exact key: that key |
//! | 56 | how many prefixes |
//! | 57 | format |
//! | 58 | length of the gate in bits |
//! | 60-63 | in lines with a narrow exact key: that key |
//!
//! A **cell** is a value itself if all values of the table are short, or the number of one in [`super::values::Values`].
//! A **gate** is a prefix that many longer ones have in common: those are behind it, in a node or in another set, and win over
//! what the line itself holds. Numbers lie least significant byte first.

use super::address::Address;
use super::pool::{Line, Pool, Ref};
use smallvec::SmallVec;

/// A prefix with its value, as it moves between forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Route<A> {
    /// Bits behind `len` are 0.
    pub addr: A,
    pub len: u32,
    pub cell: u64,
}

impl<A: Address> Route<A> {
    /// What is left of it `depth` bits further down.
    pub(super) fn below(&self, depth: u32) -> Route<A> {
        Route { addr: self.addr.skip(depth), len: self.len - depth, cell: self.cell }
    }
}

/// The common beginning of prefixes that are elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate<A> {
    pub addr: A,
    pub len: u32,
    pub child: Ref,
}

impl<A: Address> Gate<A> {
    /// Whether a prefix belongs behind it.
    pub(super) fn has(&self, addr: A, len: u32) -> bool {
        len > self.len && addr.shares(self.addr, self.len)
    }
}

/// What a line says.
#[derive(Debug)]
pub(super) struct Set<A> {
    /// Longest first.
    pub routes: SmallVec<[Route<A>; 12]>,
    pub gate: Option<Gate<A>>,
    /// Block of the cells, with its number of lines.
    pub apart: Option<(u32, usize)>,
}

impl<A: Address> Set<A> {
    /// Adds a prefix that isn't there.
    pub(super) fn add(&mut self, route: Route<A>) {
        let at = self.routes.iter().position(|other| other.len <= route.len).unwrap_or(self.routes.len());
        self.routes.insert(at, route);
    }

    pub(super) fn position(&self, addr: A, len: u32) -> Option<usize> {
        self.routes.iter().position(|route| route.len == len && route.addr == addr)
    }
}

/// Where a line's cells are, and whether it has a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Plain,
    /// Cells are in a block of their own, eight bytes each.
    Apart,
    Gated,
}

/// Offsets in a line, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub kind: Kind,
    /// Bytes of a prefix: 4, 8 or 16.
    pub width: u8,
    /// Most prefixes.
    pub cap: u8,
    pub shifts: u8,
    pub cells: u8,
    pub gate: u8,
}

impl Format {
    fn new(kind: Kind, width: usize, room: usize, cell: usize) -> Format {
        let cap = match kind {
            Kind::Plain => room / (width + 1 + cell),
            Kind::Apart => (room - 4) / (width + 1),
            Kind::Gated => (room - 8 - width) / (width + 1 + cell),
        };
        let (shifts, cells) = (cap * width, cap * (width + 1));
        let gate = cells + cap * cell;
        let byte = |offset: usize| offset as u8;
        Format { kind, width: width as u8, cap: byte(cap), shifts: byte(shifts), cells: byte(cells), gate: byte(gate) }
    }

    /// Lines of the block with the cells.
    fn block(&self) -> usize {
        (self.cap as usize * 8).div_ceil(64)
    }
}

/// Offset of the number of prefixes, the format and the gate's length: eight bytes with the key behind them.
pub(super) const HEAD: usize = 56;
const WIDTHS: [usize; 3] = [4, 8, 16];
const KINDS: [Kind; 3] = [Kind::Plain, Kind::Apart, Kind::Gated];

/// The formats of one kind of line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats {
    /// By format number; those from 9 on don't occur.
    pub formats: [Format; 16],
    /// Bytes of a cell.
    pub cell: usize,
}

impl Formats {
    /// `room`: bytes for prefixes, cells and gate. `cell`: bytes of a cell, 1 to 8.
    pub(super) fn new(room: usize, cell: usize) -> Formats {
        let format = |index: usize| Format::new(KINDS[index / 3 % 3], WIDTHS[index % 3], room, cell);
        Formats { formats: std::array::from_fn(format), cell }
    }

    fn index(kind: Kind, longest: u32) -> usize {
        let width = WIDTHS.iter().position(|width| longest as usize <= width * 8).unwrap_or(2);
        Formats::number(kind, width)
    }

    /// The number of a kind's format for prefixes of one of the [`WIDTHS`].
    pub(super) const fn number(kind: Kind, width: usize) -> usize {
        kind as usize * WIDTHS.len() + width
    }

    /// How many prefixes fit in a line with a gate, if the longest of them and the gate has `longest` bits.
    pub(super) fn gated(&self, longest: u32) -> usize {
        self.formats[Self::index(Kind::Gated, longest)].cap as usize
    }

    fn of(&self, line: &Line) -> &Format {
        &self.formats[line[HEAD + 1] as usize & 15]
    }

    /// Reads a line. One of zeros is empty.
    pub(super) fn read<A: Address>(&self, line: &Line, pool: &Pool) -> Set<A> {
        let format = self.of(line);
        let (width, shifts, cells) = (format.width as usize, format.shifts as usize, format.cells as usize);
        let prefix = |at: usize| -> A {
            let mut bytes = [0; 16];
            bytes[..width].copy_from_slice(&line[at..at + width]);
            A::from_wide(u128::from_le_bytes(bytes) << (128 - 8 * width))
        };
        let apart = (format.kind == Kind::Apart).then(|| (number(line, cells, 4) as u32, format.block()));
        let cell = |index: usize| match apart {
            Some((block, _)) => number(pool.bytes(block), index * 8, 8),
            None => number(line, cells + index * self.cell, self.cell),
        };
        let route = |index: usize| Route {
            addr: prefix(index * width),
            len: width as u32 * 8 - u32::from(line[shifts + index]),
            cell: cell(index),
        };
        let routes = (0..line[HEAD] as usize).map(route).collect();
        let gate = (format.kind == Kind::Gated).then(|| Gate {
            addr: prefix(format.gate as usize),
            len: u32::from(line[HEAD + 2]),
            child: Ref(number(line, format.gate as usize + width, 8)),
        });
        Set { routes, gate, apart }
    }

    /// The first byte of a cell.
    pub(super) fn cell_at(&self, line: &Line, pool: &Pool, index: usize) -> *const u8 {
        let format = self.of(line);
        let cells = format.cells as usize;
        match format.kind {
            Kind::Apart => pool.bytes(number(line, cells, 4) as u32)[index * 8..].as_ptr(),
            _ => line.as_ptr().wrapping_add(cells + index * self.cell),
        }
    }

    /// Writes a set to its line, all but the exact key; false if it has no room, then nothing has changed.
    /// A block of cells that was there (`set.apart`) is used again or given back.
    pub(super) fn write<A: Address>(&self, line: &mut Line, pool: &mut Pool, set: &Set<A>) -> bool {
        let longest = set.routes.first().map_or(0, |route| route.len).max(set.gate.map_or(0, |gate| gate.len));
        let fits = |&kind: &Kind| set.routes.len() <= self.formats[Self::index(kind, longest)].cap as usize;
        let kinds: &[Kind] = if set.gate.is_some() { &[Kind::Gated] } else { &[Kind::Plain, Kind::Apart] };
        let Some(&kind) = kinds.iter().find(|kind| fits(kind)) else {
            return false;
        };
        let index = Self::index(kind, longest);
        let format = &self.formats[index];
        let (width, shifts, cells) = (format.width as usize, format.shifts as usize, format.cells as usize);
        let block = self.block(format, pool, set.apart);
        let put = |line: &mut Line, at: usize, addr: A| {
            let bytes = (addr.wide() >> (128 - 8 * width)).to_le_bytes();
            line[at..at + width].copy_from_slice(&bytes[..width]);
        };
        for (index, route) in set.routes.iter().enumerate() {
            put(line, index * width, route.addr);
            line[shifts + index] = (width as u32 * 8 - route.len) as u8;
            let cell = route.cell.to_le_bytes();
            match block {
                Some(block) => pool.bytes_mut(block)[index * 8..][..8].copy_from_slice(&cell),
                None => line[cells + index * self.cell..][..self.cell].copy_from_slice(&cell[..self.cell]),
            }
        }
        if let Some(block) = block {
            line[cells..cells + 4].copy_from_slice(&block.to_le_bytes());
        }
        if let Some(gate) = &set.gate {
            put(line, format.gate as usize, gate.addr);
            line[format.gate as usize + width..][..8].copy_from_slice(&gate.child.0.to_le_bytes());
        }
        (line[HEAD], line[HEAD + 1]) = (set.routes.len() as u8, index as u8);
        line[HEAD + 2] = set.gate.map_or(0, |gate| gate.len as u8);
        true
    }

    /// The block of cells that a format needs.
    fn block(&self, format: &Format, pool: &mut Pool, before: Option<(u32, usize)>) -> Option<u32> {
        let wanted = if format.kind == Kind::Apart { format.block() } else { 0 };
        match before {
            Some((block, lines)) if lines == wanted => return Some(block),
            Some((block, lines)) => pool.give_back(block, lines),
            None => {}
        }
        (wanted > 0).then(|| pool.take(wanted))
    }

    /// Only the gate's child has changed.
    pub(super) fn write_child(&self, line: &mut Line, child: Ref) {
        let format = self.of(line);
        let at = format.gate as usize + format.width as usize;
        line[at..at + 8].copy_from_slice(&child.0.to_le_bytes());
    }
}

/// `len` bytes, at most 8, as a number.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}
