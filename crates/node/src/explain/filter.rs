//! [`PacketFilter`]: selects the packets of a trace with a classic BPF program.
//!
//! A client compiles its capture filter (pcap-filter syntax) with libpcap. The node therefore needs
//! neither libpcap nor a parser, and never waits for a name server because of a name in a filter.
//! The node checks and runs the received program. A program of n instructions ends after at most n
//! instructions, because jumps only go forward. It reads nothing but the packet.
//!
//! Instructions are those of S. McCanne, V. Jacobson: The BSD Packet Filter (1993), with libpcap's
//! `mod` and `xor`; `crates/terraced/tests` compares them with libpcap's own interpreter.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of instructions of a filter, as in Linux.
pub const MAX_INSTRUCTIONS: usize = 4096;
/// Number of scratch memory words.
const SCRATCH_WORDS: usize = 16;

/// One instruction: operation, jump if true, jump if false (both relative to the next instruction),
/// operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(u16, u8, u8, u32)", into = "(u16, u8, u8, u32)")]
pub struct BpfInstruction {
    /// Operation.
    pub code: u16,
    /// Jump offset if the condition is true.
    pub jt: u8,
    /// Jump offset if the condition is false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl From<(u16, u8, u8, u32)> for BpfInstruction {
    fn from((code, jt, jf, k): (u16, u8, u8, u32)) -> BpfInstruction {
        BpfInstruction { code, jt, jf, k }
    }
}

impl From<BpfInstruction> for (u16, u8, u8, u32) {
    fn from(i: BpfInstruction) -> (u16, u8, u8, u32) {
        (i.code, i.jt, i.jf, i.k)
    }
}

/// An invalid filter. Programs compiled by libpcap are valid.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FilterError {
    /// The program is empty, or has more than [`MAX_INSTRUCTIONS`].
    #[error("a filter has 1 to {MAX_INSTRUCTIONS} instructions, this one {0}; ask for less at a time")]
    Length(usize),
    /// An instruction is invalid.
    #[error("instruction {at} of the filter {what}; let libpcap compile it")]
    Instruction {
        /// Index of the instruction, from 0.
        at: usize,
        /// Description of the error.
        what: &'static str,
    },
}

/// A checked filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketFilter(Box<[BpfInstruction]>);

const RETURN: u16 = 0x06;

impl PacketFilter {
    /// Checks the instructions.
    ///
    /// # Errors
    /// Returns [`FilterError`].
    pub fn new(instructions: &[BpfInstruction]) -> Result<PacketFilter, FilterError> {
        let len = instructions.len();
        if len == 0 || len > MAX_INSTRUCTIONS {
            return Err(FilterError::Length(len));
        }
        for (at, instruction) in instructions.iter().enumerate() {
            check_instruction(at, instruction, len).map_err(|what| FilterError::Instruction { at, what })?;
        }
        if instructions[len - 1].code & 7 != RETURN {
            return Err(FilterError::Instruction { at: len - 1, what: "is the last and does not return" });
        }
        Ok(PacketFilter(instructions.into()))
    }

    /// Returns whether the filter accepts a packet.
    pub fn takes(&self, packet: &[u8]) -> bool {
        self.run_program(packet) != 0
    }

    fn run_program(&self, packet: &[u8]) -> u32 {
        let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; SCRATCH_WORDS], 0usize);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        while let Some(BpfInstruction { code, jt, jf, k }) = self.0.get(pc).copied() {
            pc += 1;
            match code {
                0x00 => a = k,
                0x01 => x = k,
                0x80 => a = length,
                0x81 => x = length,
                0x60 => a = memory[k as usize % SCRATCH_WORDS],
                0x61 => x = memory[k as usize % SCRATCH_WORDS],
                0x02 => memory[k as usize % SCRATCH_WORDS] = a,
                0x03 => memory[k as usize % SCRATCH_WORDS] = x,
                0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => {
                    let base = if code & 0x40 != 0 { x as usize } else { 0 };
                    let Some(loaded) = load_field(packet, base + k as usize, code & 0x18) else { return 0 };
                    a = loaded;
                }
                0xb1 => {
                    let Some(byte) = packet.get(k as usize) else { return 0 };
                    x = 4 * u32::from(byte & 0xf);
                }
                _ if code & 7 == 4 => {
                    let operand = if code & 8 != 0 { x } else { k };
                    let Some(result) = compute_alu(code & 0xf0, a, operand) else { return 0 };
                    a = result;
                }
                0x05 => pc += k as usize,
                _ if code & 7 == 5 => {
                    let operand = if code & 8 != 0 { x } else { k };
                    let holds = match code & 0xf0 {
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        _ => a & operand != 0,
                    };
                    pc += usize::from(if holds { jt } else { jf });
                }
                0x06 => return k,
                0x16 => return a,
                0x07 => x = a,
                0x87 => a = x,
                _ => return 0,
            }
        }
        0
    }
}

/// Loads a word, half word or byte of the packet in network order; `None` beyond its end.
fn load_field(packet: &[u8], at: usize, size: u16) -> Option<u32> {
    let rest = packet.get(at..)?;
    match size {
        0x00 => rest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)),
        0x08 => rest.first_chunk().map(|bytes| u32::from(u16::from_be_bytes(*bytes))),
        _ => rest.first().map(|byte| u32::from(*byte)),
    }
}

/// Computes an arithmetic operation; `None` for a division by 0.
fn compute_alu(operation: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.checked_shl(b).unwrap_or(0),
        0x70 => a.checked_shr(b).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(b)?,
        _ => a ^ b,
    })
}

fn check_instruction(at: usize, instruction: &BpfInstruction, len: usize) -> Result<(), &'static str> {
    let BpfInstruction { code, jt, jf, k } = *instruction;
    let inside = |by: usize| match at.checked_add(1).and_then(|next| next.checked_add(by)) {
        Some(to) if to < len => Ok(()),
        _ => Err("jumps beyond the end"),
    };
    match code {
        0x00 | 0x01 | 0x80 | 0x81 | 0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 | 0x06 | 0x16 | 0x07 | 0x87 => {
            Ok(())
        }
        0x60 | 0x61 | 0x02 | 0x03 if (k as usize) < SCRATCH_WORDS => Ok(()),
        0x60 | 0x61 | 0x02 | 0x03 => Err("names a word of the memory that is not there"),
        // Division and remainder by a constant.
        0x34 | 0x94 if k == 0 => Err("divides by zero"),
        0x84 => Ok(()),
        _ if code & 7 == 4 && code <= 0xaf && code & 0xf0 != 0x80 => Ok(()),
        0x05 => inside(k as usize),
        0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d => inside(jt.max(jf).into()),
        _ => Err("is not one of classic BPF's"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(instructions: &[(u16, u8, u8, u32)]) -> Result<PacketFilter, FilterError> {
        PacketFilter::new(&instructions.iter().copied().map(BpfInstruction::from).collect::<Vec<_>>())
    }

    #[test]
    fn takes_what_it_asks_for() {
        // "ether[12:2] == 0x0806"
        let arp = filter(&[(0x28, 0, 0, 12), (0x15, 0, 1, 0x0806), (0x06, 0, 0, 65535), (0x06, 0, 0, 0)]).unwrap();
        let mut packet = [0; 60];
        assert!(!arp.takes(&packet));
        packet[12..14].copy_from_slice(&[8, 6]);
        assert!(arp.takes(&packet));
        assert!(!arp.takes(&packet[..13]), "what is not there is not equal");
    }

    #[test]
    fn refuses_what_might_not_end_or_reach_elsewhere() {
        let what = |instructions: &[(u16, u8, u8, u32)]| filter(instructions).unwrap_err().to_string();
        assert!(what(&[]).contains("has 1 to 4096 instructions, this one 0"));
        assert!(what(&[(0x06, 0, 0, 0); 4097]).contains("this one 4097"));
        assert!(what(&[(0x00, 0, 0, 0)]).contains("instruction 0 of the filter is the last and does not return"));
        for jump in [(0x05, 0, 0, 1), (0x05, 0, 0, u32::MAX), (0x15, 1, 0, 0), (0x15, 0, 255, 0)] {
            assert!(what(&[jump, (0x06, 0, 0, 0)]).contains("jumps beyond the end"), "{jump:?}");
        }
        for memory in [0x60, 0x61, 0x02, 0x03] {
            assert!(what(&[(memory, 0, 0, 16), (0x06, 0, 0, 0)]).contains("is not there"));
        }
        assert!(what(&[(0x34, 0, 0, 0), (0x06, 0, 0, 0)]).contains("divides by zero"));
        // eBPF's call, a store of a byte, an unknown operation.
        for code in [0x85, 0x72, 0xb4, 0xffff, 0x8c] {
            assert!(what(&[(code, 0, 0, 0), (0x06, 0, 0, 0)]).contains("not one of classic BPF's"), "{code:#x}");
        }
    }

    #[test]
    fn never_leaves_the_packet() {
        // x = 0xffffffff; load [x + 0xffffffff]: beyond the end, so the packet is not taken.
        let far = filter(&[(0x01, 0, 0, u32::MAX), (0x40, 0, 0, u32::MAX), (0x06, 0, 0, 1)]).unwrap();
        assert!(!far.takes(&[0; 100]));
        // a / x with x = 0.
        let divided = filter(&[(0x3c, 0, 0, 0), (0x06, 0, 0, 1)]).unwrap();
        assert!(!divided.takes(&[0; 100]));
    }
}
