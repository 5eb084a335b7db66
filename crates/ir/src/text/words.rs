//! The words that stand for enumerations of the data model, in one place for printer and parser.

use crate::body::{BinaryOp, UnaryOp};
use crate::externs::{CounterUnit, HashAlgorithm, MeterUnit};
use crate::pipeline::{Arch, ControlKind};
use crate::table::MatchKind;

/// A type whose members each have one word.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// The members with their words.
    const WORDS: &'static [(Self, &'static str)];
    /// The word of this member.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(m, _)| *m == self).map_or("?", |(_, w)| w)
    }
    /// The member of that word.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, w)| *w == word).map(|(m, _)| *m)
    }
}

impl Word for Arch {
    const WORDS: &'static [(Self, &'static str)] = &[(Arch::V1Model, "v1model"), (Arch::Pna, "pna")];
}

impl Word for ControlKind {
    const WORDS: &'static [(Self, &'static str)] = &[
        (ControlKind::Parser, "parser"),
        (ControlKind::VerifyChecksum, "verify_checksum"),
        (ControlKind::Ingress, "ingress"),
        (ControlKind::Egress, "egress"),
        (ControlKind::ComputeChecksum, "compute_checksum"),
        (ControlKind::Deparser, "deparser"),
        (ControlKind::MainParser, "main_parser"),
        (ControlKind::PreControl, "pre_control"),
        (ControlKind::MainControl, "main_control"),
        (ControlKind::MainDeparser, "main_deparser"),
    ];
}

impl Word for MatchKind {
    const WORDS: &'static [(Self, &'static str)] = MatchKind::WORDS;
}

impl Word for CounterUnit {
    const WORDS: &'static [(Self, &'static str)] =
        &[(CounterUnit::Packets, "packets"), (CounterUnit::Bytes, "bytes"), (CounterUnit::Both, "both")];
}

impl Word for MeterUnit {
    const WORDS: &'static [(Self, &'static str)] = &[(MeterUnit::Packets, "packets"), (MeterUnit::Bytes, "bytes")];
}

impl Word for HashAlgorithm {
    const WORDS: &'static [(Self, &'static str)] = &[
        (HashAlgorithm::Crc32, "crc32"),
        (HashAlgorithm::Crc32Custom, "crc32_custom"),
        (HashAlgorithm::Crc16, "crc16"),
        (HashAlgorithm::Crc16Custom, "crc16_custom"),
        (HashAlgorithm::Random, "random"),
        (HashAlgorithm::Identity, "identity"),
        (HashAlgorithm::Csum16, "csum16"),
        (HashAlgorithm::Xor16, "xor16"),
        (HashAlgorithm::TargetDefault, "target_default"),
    ];
}

impl Word for UnaryOp {
    const WORDS: &'static [(Self, &'static str)] =
        &[(UnaryOp::Neg, "neg"), (UnaryOp::Not, "not"), (UnaryOp::LogicalNot, "logical_not")];
}

impl Word for BinaryOp {
    const WORDS: &'static [(Self, &'static str)] = &[
        (BinaryOp::Add, "add"),
        (BinaryOp::Sub, "sub"),
        (BinaryOp::Mul, "mul"),
        (BinaryOp::Div, "div"),
        (BinaryOp::Mod, "mod"),
        (BinaryOp::AddSat, "add_sat"),
        (BinaryOp::SubSat, "sub_sat"),
        (BinaryOp::And, "and"),
        (BinaryOp::Or, "or"),
        (BinaryOp::Xor, "xor"),
        (BinaryOp::Shl, "shl"),
        (BinaryOp::Shr, "shr"),
        (BinaryOp::Eq, "eq"),
        (BinaryOp::Ne, "ne"),
        (BinaryOp::Lt, "lt"),
        (BinaryOp::Le, "le"),
        (BinaryOp::Gt, "gt"),
        (BinaryOp::Ge, "ge"),
    ];
}
