//! [`ActiveKeyMask`]: a key mask that cached flows use, with the bits in which all of them agree.

use super::code::CompiledCode;
use super::form::{KeyMask, WINDOW};
use super::key::KeyExtractor;
use jit::rewrite::HashCode;

/// Offset and length of the bytes that exclude a key mask before its key is extracted.
pub const GATE: (usize, usize) = (8, 16);

/// Active key mask.
#[derive(Debug)]
pub struct ActiveKeyMask {
    /// The key mask.
    pub key_mask: KeyMask,
    /// Mask and value of the bits in which all of its flows agree, from byte [`GATE`]`.0` on.
    /// Packets with other values match none of these flows.
    pub gate: ([u8; GATE.1], [u8; GATE.1]),
    /// Extracts the key of a packet.
    pub(super) key: KeyExtractor,
    /// Native code that hashes its keys, once it is made.
    pub(super) code: CompiledCode<HashCode>,
}

impl ActiveKeyMask {
    /// Returns mask and value of the gate as words.
    pub(super) fn gate_words(&self) -> [u128; 2] {
        [self.gate.0, self.gate.1].map(u128::from_ne_bytes)
    }

    /// Returns the native code that hashes its keys.
    #[inline]
    pub(super) fn code(&self) -> Option<&HashCode> {
        self.code.get()
    }

    /// Initializes the gate from the first flow.
    pub(super) fn start_gate(&mut self, window: &[u8; WINDOW]) {
        let (mask, value) = &mut self.gate;
        for at in 0..GATE.1 {
            mask[at] = self.key_mask.mask[GATE.0 + at];
            // Bits of end-relative fields are not in the gate.
            value[at] = window[GATE.0 + at] & mask[at];
        }
    }

    /// Adds a flow with these first bytes. Returns whether the gate became wider.
    pub(super) fn widen_gate(&mut self, window: &[u8; WINDOW]) -> bool {
        let (mask, value) = &mut self.gate;
        let mut changed = false;
        for at in 0..GATE.1 {
            let differs = (value[at] ^ window[GATE.0 + at]) & mask[at];
            changed |= differs != 0;
            mask[at] &= !differs;
            value[at] &= mask[at];
        }
        changed
    }
}
