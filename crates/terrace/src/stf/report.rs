//! Report of a test, as text and as JSON.

use super::compare::PatternDifference;
use super::script::PacketPattern;
use packet::hex;
use serde::Serialize;
use std::fmt::Write;

/// Number of bytes in a row of a printed packet.
const ROW: usize = 16;
/// Maximum number of rows to print of a packet. Of longer packets only the rows that differ are
/// printed.
const WHOLE: usize = 8;

/// Result of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Path of the test file.
    pub file: String,
    /// Number of packets sent into the device.
    pub packets_in: usize,
    /// Number of packets that the device sent.
    pub packets_out: usize,
    /// Number of expectations and checks.
    pub checks: usize,
    /// Expectations that did not hold; empty if the test passed.
    pub findings: Vec<Finding>,
    /// Output of read commands, and other notes.
    pub notes: Vec<String>,
}

/// An expectation that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// A packet differs from the expected one.
    Differs {
        /// Egress port.
        port: u32,
        /// Index among the port's packets, from 0.
        index: usize,
        /// Line of the `expect`.
        expect_line: u32,
        /// Line of the `packet` that caused it.
        packet_line: u32,
        /// Description of the difference.
        difference: String,
        /// Expected pattern.
        expected: String,
        /// The packet in hex.
        got: String,
        /// Indices of the differing nibbles, from 0.
        positions: Vec<usize>,
    },
    /// An expected packet was not sent.
    Missing {
        /// Egress port.
        port: u32,
        /// Index among the port's packets, from 0.
        index: usize,
        /// Line of the `expect`.
        expect_line: u32,
        /// Expected pattern; `None` if any packet is accepted.
        expected: Option<String>,
    },
    /// A packet was sent that was not expected.
    Unexpected {
        /// Egress port.
        port: u32,
        /// Index among the port's packets, from 0.
        index: usize,
        /// Line of the `packet` that caused it.
        packet_line: u32,
        /// The packet in hex.
        got: String,
    },
    /// A `check_*` or `no_packet` did not hold.
    Check {
        /// Line of the command.
        line: u32,
        /// Description with both values.
        message: String,
    },
}

impl Report {
    /// Returns whether all expectations held.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Renders the report as text without a final newline.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for finding in &self.findings {
            text.push_str(&finding.render(&self.file));
        }
        let counts = format!("{} packets in, {} out, {} checks", self.packets_in, self.packets_out, self.checks);
        match self.findings.len() {
            0 => text + &format!("PASS {}: {counts}", self.file),
            n => text + &format!("FAIL {}: {n} not as expected; {counts}", self.file),
        }
    }
}

/// Formats a pattern in STF syntax.
pub fn pattern_text(pattern: &PacketPattern) -> String {
    let mut text: String = pattern.nibbles.iter().map(|nibble| nibble.map_or('*', hex_digit)).collect();
    if pattern.exact_length {
        text.push('$');
    }
    text
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('?')
}

impl Finding {
    /// Builds the finding for a packet that differs. `index` counts the packets of the port from 0.
    pub fn differs(
        port: u32,
        index: usize,
        (expect_line, pattern): (u32, &PacketPattern),
        (packet_line, bytes): (u32, &[u8]),
        difference: &PatternDifference,
    ) -> Finding {
        let positions = match difference {
            PatternDifference::Nibbles(differing) => differing.clone(),
            _ => Vec::new(),
        };
        Finding::Differs {
            port,
            index,
            expect_line,
            packet_line,
            difference: difference.to_string(),
            expected: pattern_text(pattern),
            got: hex(bytes),
            positions,
        }
    }

    /// Renders the finding with the line of the test to look at. Packets are counted from 1.
    fn render(&self, file: &str) -> String {
        match self {
            Finding::Differs { port, index, expect_line, packet_line, difference, expected, got, positions } => {
                format!(
                    "{file}:{expect_line}: port {port}, packet {}: {difference}\n  expected at line {expect_line}, got from \
                     the packet at line {packet_line}\n{}",
                    index + 1,
                    side_by_side(expected, got, positions)
                )
            }
            Finding::Missing { port, index, expect_line, expected } => {
                let pattern = expected.as_deref().unwrap_or("(any packet)");
                format!(
                    "{file}:{expect_line}: port {port}, packet {}: expected, but none came\n    - {pattern}\n",
                    index + 1
                )
            }
            Finding::Unexpected { port, index, packet_line, got } => format!(
                "{file}:{packet_line}: port {port}, packet {}: came from the packet at line {packet_line}, but none was \
                 expected\n    + {got}\n",
                index + 1
            ),
            Finding::Check { line, message } => format!("{file}:{line}: {message}\n"),
        }
    }
}

/// Renders rows of the pattern (`-`) above rows of the packet (`+`), with a mark under each
/// differing nibble.
fn side_by_side(expected: &str, got: &str, positions: &[usize]) -> String {
    let (expected, exact) = (expected.trim_end_matches('$'), expected.ends_with('$'));
    let rows = expected.len().max(got.len()).div_ceil(2 * ROW);
    let mut text = String::new();
    for row in 0..rows {
        let range = row * 2 * ROW..(row + 1) * 2 * ROW;
        let differs = positions.iter().any(|position| range.contains(position));
        let ends_here = expected.len() != got.len() && (exact || got.len() < expected.len()) && row + 1 == rows;
        // Of long packets only rows with a difference are shown.
        if rows > WHOLE && !differs && !ends_here {
            continue;
        }
        let _ = writeln!(text, "    - {:04x}  {}", row * ROW, spaced_row(expected, row));
        let _ = writeln!(text, "    + {:04x}  {}", row * ROW, spaced_row(got, row));
        if differs {
            let marks: String = range.map(|position| if positions.contains(&position) { '^' } else { ' ' }).collect();
            let _ = writeln!(text, "            {}", spaced_row(&marks, 0).trim_end());
        }
    }
    text
}

/// Returns one row of hex digits, in pairs of bytes.
fn spaced_row(digits: &str, row: usize) -> String {
    let all: Vec<char> = digits.chars().skip(row * 2 * ROW).take(2 * ROW).collect();
    all.chunks(4).map(|pair| pair.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}
