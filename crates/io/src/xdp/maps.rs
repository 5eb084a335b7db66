//! Layouts of the eBPF maps, identical to `bpf/flow.bpf.h`, which documents their meaning
//! together with flowcache's `rewrite`. Words of packets are in network order.
#![allow(unsafe_code)]

/// Bytes at the start of a packet that keys, copies and checksums can use.
pub const WINDOW: usize = 128;
/// Maximum number of key masks.
pub const MAX_SHAPES: usize = 32;
/// Maximum number of end-relative fields of a key.
pub const MAX_NEAR: usize = 6;
/// Maximum number of words of a checksum.
pub const MAX_TERMS: usize = 12;
/// Maximum number of checksums that are verified, and that are written.
pub const MAX_SUMS: usize = 4;
/// Maximum number of length fields that are written.
pub const MAX_LENGTHS: usize = 6;
/// First byte and number of the bytes that the pre-filter of a key mask compares.
pub const GATE: (usize, usize) = (8, 16);
/// Value of [`XdpChecksumCheck::word`]: no word.
pub const NO_WORD: u16 = 0xffff;

/// Bits of a packet that form its key.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct XdpKeyMask {
    /// Mask of the first bytes.
    pub mask: [u8; WINDOW],
    /// Mask of the pre-filter, which excludes packets before their key is built.
    pub gate_mask: [u8; GATE.1],
    /// Value of the pre-filter.
    pub gate_value: [u8; GATE.1],
    /// First bytes of 16-bit fields that are stored relative to the packet's length.
    pub near: [u16; MAX_NEAR],
    /// Number of these fields.
    pub nears: u16,
    /// Whether the length is part of the key.
    pub length: u16,
}

/// Key of a flow lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct XdpKey {
    /// Number of the key mask.
    pub shape: u32,
    /// The port's slot.
    pub port: u16,
    /// The packet's length in bytes, or 0.
    pub length: u16,
    /// Its first bytes under the mask.
    pub bytes: [u8; WINDOW],
}

/// A masked word of a checksum.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XdpChecksumTerm {
    /// Offset of its first byte.
    pub at: u16,
    /// Mask of its bits.
    pub mask: u16,
}

/// A ones' complement sum.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XdpChecksumSum {
    /// Constant part of the sum.
    pub constant: u64,
    /// How often the packet's length is added.
    pub lengths: u32,
    /// Number of words that are added.
    pub terms: u32,
    /// The words.
    pub term: [XdpChecksumTerm; MAX_TERMS],
}

/// A checksum to verify.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XdpChecksumCheck {
    /// The sum.
    pub sum: XdpChecksumSum,
    /// Expected value: the sum is compared with this, combined by exclusive or with a word.
    pub expected: u16,
    /// First byte of the word, or [`NO_WORD`].
    pub word: u16,
    /// Padding.
    pub unused: u32,
}

/// A length field to write.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XdpLengthWrite {
    /// Offset in the new packet, in bytes.
    pub at: u16,
    /// Padding.
    pub unused: u16,
    /// Number that is added to the received packet's length.
    pub add: i32,
}

/// A checksum to write.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XdpChecksumWrite {
    /// The sum.
    pub sum: XdpChecksumSum,
    /// Offset in the new packet, in bytes.
    pub at: u16,
    /// Value that is combined by exclusive or.
    pub flip: u16,
    /// Padding.
    pub unused: u32,
}

/// Action of a flow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct XdpFlow {
    /// Key of the flow. The program compares it, because a lookup can return an entry that is just
    /// being reused for another flow.
    pub key: XdpKey,
    /// Minimum length of a packet, in bytes.
    pub first: u32,
    /// Maximum length of a packet, in bytes.
    pub last: u32,
    /// 0: drop the packets.
    pub forward: u32,
    /// Slot of the output port.
    pub port: u32,
    /// Number of bytes that are prepended; negative: removed.
    pub grow: i32,
    /// Number of bytes that are written.
    pub len: u32,
    /// Number of checksums to verify.
    pub checks: u32,
    /// Number of lengths to write.
    pub lengths: u32,
    /// Number of checksums to write.
    pub sums: u32,
    /// Padding.
    pub unused: u32,
    /// Mask of unchanged bits.
    pub keep: [u8; WINDOW],
    /// Values of the other bits.
    pub set: [u8; WINDOW],
    /// Checksums to verify.
    pub check: [XdpChecksumCheck; MAX_SUMS],
    /// Lengths to write.
    pub length: [XdpLengthWrite; MAX_LENGTHS],
    /// Checksums to write.
    pub sum: [XdpChecksumWrite; MAX_SUMS],
}

impl XdpFlow {
    /// Returns a flow that drops all packets of a key.
    pub fn new(key: XdpKey) -> XdpFlow {
        XdpFlow {
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

/// Settings of the eBPF program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct XdpSettings {
    pub shapes: u32,
    pub processors: u32,
}

/// Interfaces of a port at the tc hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct XdpExit {
    /// Index of its device; 0 if it was removed.
    pub device: u32,
    /// Index of the TAP for packets without a flow; 0 without tc.
    pub misses: u32,
    /// MTU of the device in bytes.
    pub mtu: u32,
    /// Padding.
    pub unused: u32,
}

// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for XdpExit {}
// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for super::lost::InterfaceKey {}
// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for super::lost::ProgramIds {}
// SAFETY: for all of these types, any bytes are a value, and there is no padding: sizes and
// alignments are multiples, as the test below checks.
unsafe impl aya::Pod for XdpKeyMask {}
// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for XdpKey {}
// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for XdpFlow {}
// SAFETY: any bytes are a value, and there is no padding (see the test below).
unsafe impl aya::Pod for XdpSettings {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_between_the_fields() {
        assert_eq!(size_of::<XdpKeyMask>(), 128 + 32 + 12 + 4);
        assert_eq!(size_of::<XdpKey>(), 136);
        assert_eq!(size_of::<XdpExit>(), 16);
        assert_eq!(
            (size_of::<XdpChecksumSum>(), size_of::<XdpChecksumCheck>(), size_of::<XdpChecksumWrite>()),
            (64, 72, 72)
        );
        assert_eq!(size_of::<XdpFlow>(), 136 + 40 + 256 + 4 * 72 + 6 * 8 + 4 * 72);
    }
}
