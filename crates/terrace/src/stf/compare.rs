//! Compares packets with their expected patterns.

use super::script::PacketPattern;
use std::fmt;

/// Difference between a packet and its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternDifference {
    /// The packet is shorter than the pattern. Lengths are in nibbles.
    TooShort {
        /// Length of the pattern, in nibbles.
        expected: usize,
        /// Length of the packet, in nibbles.
        got: usize,
    },
    /// The pattern ends in `$` and the packet is longer. Lengths are in nibbles.
    TooLong {
        /// Length of the pattern, in nibbles.
        expected: usize,
        /// Length of the packet, in nibbles.
        got: usize,
    },
    /// Indices of the differing nibbles, from 0.
    Nibbles(Vec<usize>),
}

impl fmt::Display for PatternDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternDifference::TooShort { expected, got } => {
                write!(f, "the packet is too short: {} bytes, expected at least {}", got / 2, expected.div_ceil(2))
            }
            PatternDifference::TooLong { expected, got } => {
                write!(f, "the packet is too long: {} bytes, expected exactly {}", got / 2, expected.div_ceil(2))
            }
            PatternDifference::Nibbles(at) => {
                let first = at.first().copied().unwrap_or(0);
                write!(f, "{} hex digits differ, the first in byte {}", at.len(), first / 2)
            }
        }
    }
}

/// Splits bytes into nibbles.
pub fn nibbles(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect()
}

/// Compares a packet with its pattern like p4c's driver: `*` matches any nibble, and the packet may
/// be longer than the pattern unless that ends in `$`.
pub fn difference(pattern: &PacketPattern, bytes: &[u8]) -> Option<PatternDifference> {
    let got = nibbles(bytes);
    let differing: Vec<usize> = (pattern.nibbles.iter().zip(&got).enumerate())
        .filter(|(_, (expected, got))| expected.is_some_and(|nibble| nibble != **got))
        .map(|(at, _)| at)
        .collect();
    if !differing.is_empty() {
        return Some(PatternDifference::Nibbles(differing));
    }
    let (expected, got) = (pattern.nibbles.len(), got.len());
    if got < expected {
        return Some(PatternDifference::TooShort { expected, got });
    }
    (pattern.exact_length && got > expected).then_some(PatternDifference::TooLong { expected, got })
}
