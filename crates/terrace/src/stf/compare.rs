//! Whether a packet is the one that was expected, and where it is not.

use super::script::PacketPattern;
use std::fmt;

/// How a packet differs from its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The packet ends before the pattern does: lengths in nibbles.
    TooShort {
        /// Nibbles of the pattern.
        expected: usize,
        /// Nibbles of the packet.
        got: usize,
    },
    /// The pattern ends in `$` and the packet goes on: lengths in nibbles.
    TooLong {
        /// Nibbles of the pattern.
        expected: usize,
        /// Nibbles of the packet.
        got: usize,
    },
    /// Nibbles differ at these positions, counted from 0.
    Nibbles(Vec<usize>),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::TooShort { expected, got } => {
                write!(f, "the packet is too short: {} bytes, expected at least {}", got / 2, expected.div_ceil(2))
            }
            Difference::TooLong { expected, got } => {
                write!(f, "the packet is too long: {} bytes, expected exactly {}", got / 2, expected.div_ceil(2))
            }
            Difference::Nibbles(at) => {
                let first = at.first().copied().unwrap_or(0);
                write!(f, "{} hex digits differ, the first in byte {}", at.len(), first / 2)
            }
        }
    }
}

/// The bytes as nibbles.
pub fn nibbles(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect()
}

/// Compares as p4c's driver does: `*` is any nibble; the packet may be longer than the pattern unless that ends in `$`.
pub fn difference(pattern: &PacketPattern, bytes: &[u8]) -> Option<Difference> {
    let got = nibbles(bytes);
    let differing: Vec<usize> = (pattern.nibbles.iter().zip(&got).enumerate())
        .filter(|(_, (expected, got))| expected.is_some_and(|nibble| nibble != **got))
        .map(|(at, _)| at)
        .collect();
    if !differing.is_empty() {
        return Some(Difference::Nibbles(differing));
    }
    let (expected, got) = (pattern.nibbles.len(), got.len());
    if got < expected {
        return Some(Difference::TooShort { expected, got });
    }
    (pattern.exact_length && got > expected).then_some(Difference::TooLong { expected, got })
}
