//! Keywords of the data model's enumerations, shared by printer and parser.

use crate::body::{BinaryOp, UnaryOp};
use crate::externs::{CounterUnit, HashAlgorithm, MeterUnit};
use crate::pipeline::{Arch, ControlKind};
use crate::table::MatchKind;

/// An enumeration with one keyword for each member.
pub(super) trait KeywordEnum: Copy + PartialEq + 'static {
    /// The members with their keywords.
    const KEYWORDS: &'static [(Self, &'static str)];
    /// Returns the keyword of this member.
    fn keyword(self) -> &'static str {
        Self::KEYWORDS.iter().find(|(m, _)| *m == self).map_or("?", |(_, w)| w)
    }
    /// Returns the member of this keyword.
    fn from_keyword(word: &str) -> Option<Self> {
        Self::KEYWORDS.iter().find(|(_, w)| *w == word).map(|(m, _)| *m)
    }
}

impl KeywordEnum for Arch {
    const KEYWORDS: &'static [(Self, &'static str)] = &[(Arch::V1Model, "v1model"), (Arch::Pna, "pna")];
}

impl KeywordEnum for ControlKind {
    const KEYWORDS: &'static [(Self, &'static str)] = &[
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

impl KeywordEnum for MatchKind {
    const KEYWORDS: &'static [(Self, &'static str)] = MatchKind::KEYWORDS;
}

impl KeywordEnum for CounterUnit {
    const KEYWORDS: &'static [(Self, &'static str)] =
        &[(CounterUnit::Packets, "packets"), (CounterUnit::Bytes, "bytes"), (CounterUnit::Both, "both")];
}

impl KeywordEnum for MeterUnit {
    const KEYWORDS: &'static [(Self, &'static str)] = &[(MeterUnit::Packets, "packets"), (MeterUnit::Bytes, "bytes")];
}

impl KeywordEnum for HashAlgorithm {
    const KEYWORDS: &'static [(Self, &'static str)] = &[
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

impl KeywordEnum for UnaryOp {
    const KEYWORDS: &'static [(Self, &'static str)] =
        &[(UnaryOp::Neg, "neg"), (UnaryOp::Not, "not"), (UnaryOp::LogicalNot, "logical_not")];
}

impl KeywordEnum for BinaryOp {
    const KEYWORDS: &'static [(Self, &'static str)] = &[
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
