//! Words that the chip attaches to a packet's frame ([`Frame::attached`]), in addition to the
//! engine's state.

use interp::block_hook::{Reg, WordIndex};
use interp::overseer::Frame;
use ir::{Entity, HeaderId, TableId};

/// Index of the pass that the packet is in.
const PASS: usize = 0;
/// Parallel pipe of the packet plus 1. 0: no split table has been looked up.
const PIPE: usize = 1;
/// First word of the arms, which are followed by the other arrays.
const ARMS: usize = 2;

/// Layout of the attached words. A clock is the first stage of this pass that can read a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttachedLayout {
    sites: usize,
    tables: usize,
    slots: usize,
    headers: usize,
}

impl AttachedLayout {
    /// Creates the layout for a program with the given numbers of apply sites, tables, slots and
    /// headers.
    pub fn new(sites: usize, tables: usize, slots: usize, headers: usize) -> AttachedLayout {
        AttachedLayout { sites, tables, slots, headers }
    }

    /// Returns the number of words.
    pub fn len(self) -> usize {
        self.first_clock_word() + self.slots + self.headers
    }

    fn first_clock_word(self) -> usize {
        ARMS + self.sites + self.tables
    }

    /// Returns the word with the action that a site's lookup chose: its position in the table's
    /// list plus 1. 0: none yet.
    pub fn arm_word(self, site: usize) -> usize {
        ARMS + site
    }

    /// Returns the word with the pass in which a table was last applied, plus 1. 0: not yet.
    pub fn applied_word(self, table: TableId) -> usize {
        ARMS + self.sites + table.index()
    }

    /// Returns the word with a slot's clock.
    pub fn clock_word(self, slot: WordIndex) -> usize {
        self.first_clock_word() + slot as usize
    }

    /// Returns the word with the clock of a header's validity.
    pub fn validity_clock_word(self, header: HeaderId) -> usize {
        self.first_clock_word() + self.slots + header.index()
    }

    /// Resets the words of a packet that enters the first pass.
    pub fn begin_first_pass(self, frame: &mut Frame) {
        frame.attached.clear();
        frame.attached.resize(self.len(), 0);
    }

    /// Resets the words of a packet that enters the next pass, except the passes of tables.
    pub fn enter_next_pass(self, frame: &mut Frame) {
        frame.attached[PASS] += 1;
        frame.attached[PIPE] = 0;
        frame.attached[ARMS..ARMS + self.sites].fill(0);
        frame.attached[self.first_clock_word()..].fill(0);
    }

    /// Marks all tables as not yet applied.
    pub fn forget_tables(self, frame: &mut Frame) {
        frame.attached[ARMS + self.sites..self.first_clock_word()].fill(0);
    }
}

/// Returns the pass that a packet is in.
pub fn current_pass(frame: &Frame) -> u32 {
    u32::from(frame.attached[PASS])
}

/// Sets the pass that a packet is in.
pub fn set_pass(frame: &mut Frame, pass: u32) {
    frame.attached[PASS] = pass as u16;
}

/// Sets the parallel pipe of a packet. Returns its previous one, if any.
pub fn replace_pipe(frame: &mut Frame, pipe: u32) -> Option<u32> {
    let before = std::mem::replace(&mut frame.attached[PIPE], pipe as u16 + 1);
    before.checked_sub(1).map(u32::from)
}

/// Bits of a varbit's length in a bridge header.
pub const LENGTH_BITS: u32 = 17;

/// Returns the bits of a value in a bridge header. A varbit is preceded by its length.
pub fn carried_bits(reg: Reg) -> u32 {
    reg.width + if reg.is_varbit { LENGTH_BITS } else { 0 }
}
