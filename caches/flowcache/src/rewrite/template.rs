//! [`Template`]: what all rewrites of a way have in common.
//!
//! Which bits make the key, which bits of the new head are the packet's own, which lengths and sums are written and checked: that is the same for all packets
//! that decide alike, unless a value says it ([`super::sym::Pins::by_value`]). The rest is found without the program: constants of the new head are what the packet left with,
//! a sum's constant is what makes it come out, entries and counters were noted ([`super::noted`]). A rewrite that does not do to the packet itself what was done
//! is not made.

use super::form::{Check, Shape, Sum, WINDOW};
use super::sym::{Bound, Length, Pins, Words};
use interp::ByteForm;
use ir::{ExternId, TableId};

/// What a packet of the way adds to. Table applications and counts are numbers of what was noted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    /// The tally of an action of a table, with a hit or without.
    Applied(TableId, u32, bool),
    /// The entry that the application found.
    Hit(usize),
    /// Its direct counter.
    Direct(usize),
    /// Its idle time.
    Restart(usize),
    /// An element of a counter.
    Counter(ExternId, usize),
}

impl Counted {
    /// The application whose entry is concerned.
    pub fn application(self) -> Option<usize> {
        match self {
            Counted::Hit(at) | Counted::Direct(at) | Counted::Restart(at) => Some(at),
            Counted::Applied(..) | Counted::Counter(..) => None,
        }
    }
}

/// How many bytes are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bytes {
    /// A length.
    Length(Length),
    /// So many.
    These(u64),
}

impl Bytes {
    /// The packet's length.
    pub const LENGTH: Bytes = Bytes::Length(Length::of_packet(0));

    /// Whether each flow has a number of its own.
    pub fn is_own(self) -> bool {
        matches!(self, Bytes::Length(Length { of: Some(_), .. }))
    }

    /// For a flow, which may have that one.
    pub fn of(self, own: impl FnOnce() -> u64) -> ByteForm {
        match self {
            Bytes::Length(Length { of: Some(_), .. }) => ByteForm { length: true, add: own() },
            Bytes::Length(Length { more, .. }) => ByteForm { length: true, add: more as u64 },
            Bytes::These(bytes) => ByteForm { length: false, add: bytes },
        }
    }
}

/// The new beginning of a packet. See [`form::Head`].
#[derive(Clone, Debug)]
pub struct NewHead {
    pub grow: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    pub lengths: Vec<(u16, Length)>,
    pub sums: Vec<(u16, Words, bool)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Template {
    pub shape: Shape,
    pub bounds: Vec<Bound>,
    pub checks: Vec<(Words, Check)>,
    /// `None`: it is dropped.
    pub head: Option<Box<NewHead>>,
    pub credits: Vec<(Counted, Bytes)>,
}

impl Template {
    /// What of a sum is the same for all flows.
    pub fn terms(&self, words: &Words) -> Sum {
        Pins::terms(&self.shape.mask, words)
    }
}
