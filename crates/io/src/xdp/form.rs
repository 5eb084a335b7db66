//! What the kernel's program holds, byte for byte as `bpf/terrace.bpf.c` has it. What it means is said there, and in flowcache's `rewrite`.
//! Words of packets are bytes in their order.
#![allow(unsafe_code)]

/// Bytes from the start of a packet that keys, copies and sums can look at.
pub const WINDOW: usize = 128;
/// The most shapes.
pub const MAX_SHAPES: usize = 32;
/// The most fields of a key that are taken as their distance from the packet's length.
pub const MAX_NEAR: usize = 6;
/// The most words of a sum.
pub const MAX_TERMS: usize = 12;
/// The most sums that are checked, and that are written.
pub const MAX_SUMS: usize = 4;
/// The most lengths that are written.
pub const MAX_LENGTHS: usize = 6;
/// The first byte by which a shape is ruled out, and how many.
pub const GATE: (usize, usize) = (8, 16);
/// [`Check::word`]: none.
pub const NO_WORD: u16 = 0xffff;

/// Which bits of a packet make its key.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Shape {
    /// Of the first bytes.
    pub mask: [u8; WINDOW],
    /// Bits by which packets are ruled out before a key is made.
    pub gate_mask: [u8; GATE.1],
    /// What they must be.
    pub gate_value: [u8; GATE.1],
    /// First bytes of 16-bit fields that count as their distance from the length.
    pub near: [u16; MAX_NEAR],
    /// How many of them.
    pub nears: u16,
    /// Whether the length is part of the key.
    pub length: u16,
}

/// What is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Key {
    /// Number of the shape.
    pub shape: u32,
    /// The port's place.
    pub port: u16,
    /// The packet's length in bytes, or 0.
    pub length: u16,
    /// Its first bytes under the mask.
    pub bytes: [u8; WINDOW],
}

/// A word of a sum: its first byte, and which bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Term {
    /// First byte.
    pub at: u16,
    /// Which bits.
    pub mask: u16,
}

/// A one's complement sum.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Sum {
    /// What is known of it.
    pub constant: u64,
    /// How often the packet's length is added.
    pub lengths: u32,
    /// How many words follow.
    pub terms: u32,
    /// The words.
    pub term: [Term; MAX_TERMS],
}

/// What a sum must be.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Check {
    /// The sum.
    pub sum: Sum,
    /// What it must be: exclusive or of this with a word.
    pub expected: u16,
    /// First byte of the word, or [`NO_WORD`].
    pub word: u16,
    /// Nothing.
    pub unused: u32,
}

/// A length that is written.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Length {
    /// First byte in the new packet.
    pub at: u16,
    /// Nothing.
    pub unused: u16,
    /// What is added to the received packet's length.
    pub add: i32,
}

/// A sum that is written.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Written {
    /// The sum.
    pub sum: Sum,
    /// First byte in the new packet.
    pub at: u16,
    /// Exclusive or.
    pub flip: u16,
    /// Nothing.
    pub unused: u32,
}

/// What becomes of the packets of a flow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Flow {
    /// Under which key it is found: a look-up may see an entry that is just given to another flow.
    pub key: Key,
    /// The shortest packet that it is for, in bytes.
    pub first: u32,
    /// The longest.
    pub last: u32,
    /// 0: packets are dropped.
    pub forward: u32,
    /// The place of the port that they leave by.
    pub port: u32,
    /// Bytes that are added in front, or taken away.
    pub grow: i32,
    /// Bytes that are made.
    pub len: u32,
    /// How many checks.
    pub checks: u32,
    /// How many lengths.
    pub lengths: u32,
    /// How many sums are written.
    pub sums: u32,
    /// Nothing.
    pub unused: u32,
    /// Bits that stay.
    pub keep: [u8; WINDOW],
    /// Bits that are put there.
    pub set: [u8; WINDOW],
    /// What must add up.
    pub check: [Check; MAX_SUMS],
    /// Lengths.
    pub length: [Length; MAX_LENGTHS],
    /// Sums.
    pub sum: [Written; MAX_SUMS],
}

impl Flow {
    /// Drops packets of that key, whatever they are.
    pub fn new(key: Key) -> Flow {
        Flow {
            key,
            first: 0,
            last: u32::MAX,
            forward: 0,
            port: 0,
            grow: 0,
            len: 0,
            checks: 0,
            lengths: 0,
            sums: 0,
            unused: 0,
            keep: [0; WINDOW],
            set: [0; WINDOW],
            check: Default::default(),
            length: Default::default(),
            sum: Default::default(),
        }
    }
}

/// What the program is told.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Settings {
    pub shapes: u32,
    pub processors: u32,
}

// SAFETY: as below.
unsafe impl aya::Pod for super::lost::Interface {}
// SAFETY: as below.
unsafe impl aya::Pod for super::lost::Mine {}
// SAFETY: of all of them, any bytes are a value, and there is no padding: sizes and alignments are multiples, as the test below has it.
unsafe impl aya::Pod for Shape {}
// SAFETY: as above.
unsafe impl aya::Pod for Key {}
// SAFETY: as above.
unsafe impl aya::Pod for Flow {}
// SAFETY: as above.
unsafe impl aya::Pod for Settings {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_between_the_fields() {
        assert_eq!(size_of::<Shape>(), 128 + 32 + 12 + 4);
        assert_eq!(size_of::<Key>(), 136);
        assert_eq!((size_of::<Sum>(), size_of::<Check>(), size_of::<Written>()), (64, 72, 72));
        assert_eq!(size_of::<Flow>(), 136 + 40 + 256 + 4 * 72 + 6 * 8 + 4 * 72);
    }
}
