//! What the chip keeps of a packet besides what the engine does: words in [`Frame::attached`].

use interp::overseer::Frame;
use interp::walk::{Reg, Slot};
use ir::{Entity, HeaderId, TableId};

/// Index of the pass of the chip that the packet is in.
const PASS: usize = 0;
/// The parallel pipe that it is in plus 1; 0: no table has asked for one.
const PIPE: usize = 1;
/// The arms come first of what there are several of.
const ARMS: usize = 2;

/// Where in the words each is. A clock is the first stage of this pass that can read a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attached {
    sites: usize,
    tables: usize,
    slots: usize,
    headers: usize,
}

impl Attached {
    /// For a program that applies tables at so many sites, with so many tables, slots and headers.
    pub fn new(sites: usize, tables: usize, slots: usize, headers: usize) -> Attached {
        Attached { sites, tables, slots, headers }
    }

    /// How many words there are.
    pub fn len(self) -> usize {
        self.clocks() + self.slots + self.headers
    }

    fn clocks(self) -> usize {
        ARMS + self.sites + self.tables
    }

    /// For a site the action that it led to: its position in the table's list plus 1; 0: nothing
    /// yet.
    pub fn arm(self, site: usize) -> usize {
        ARMS + site
    }

    /// For a table the pass in which it was applied last plus 1; 0: not yet.
    pub fn applied(self, table: TableId) -> usize {
        ARMS + self.sites + table.index()
    }

    /// The clock of what is in a slot.
    pub fn clock(self, slot: Slot) -> usize {
        self.clocks() + slot as usize
    }

    /// The clock of a header's validity.
    pub fn header(self, header: HeaderId) -> usize {
        self.clocks() + self.slots + header.index()
    }

    /// A packet enters the first pass: nothing is known of it.
    pub fn begin(self, frame: &mut Frame) {
        frame.attached.clear();
        frame.attached.resize(self.len(), 0);
    }

    /// A packet enters the next pass: of all else only the passes of tables are known.
    pub fn cross(self, frame: &mut Frame) {
        frame.attached[PASS] += 1;
        frame.attached[PIPE] = 0;
        frame.attached[ARMS..ARMS + self.sites].fill(0);
        frame.attached[self.clocks()..].fill(0);
    }

    /// No table was applied yet.
    pub fn forget_tables(self, frame: &mut Frame) {
        frame.attached[ARMS + self.sites..self.clocks()].fill(0);
    }
}

/// The pass of the chip that a packet is in.
pub fn pass(frame: &Frame) -> u32 {
    u32::from(frame.attached[PASS])
}

/// A packet is in that pass.
pub fn set_pass(frame: &mut Frame, pass: u32) {
    frame.attached[PASS] = pass as u16;
}

/// A packet goes to a parallel pipe: the one in which it was, if it was in one.
pub fn replace_pipe(frame: &mut Frame, pipe: u32) -> Option<u32> {
    let before = std::mem::replace(&mut frame.attached[PIPE], pipe as u16 + 1);
    before.checked_sub(1).map(u32::from)
}

/// Bits of a varbit's length in a bridge header.
pub const LENGTH_BITS: u32 = 17;

/// Bits that a value takes where its length is not known: of a varbit its length comes first.
pub fn carried_bits(reg: Reg) -> u32 {
    reg.width + if reg.varbit { LENGTH_BITS } else { 0 }
}
