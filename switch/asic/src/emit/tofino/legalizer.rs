//! Legalization state: the pipeline being legalized, and the work that its parser defers to
//! controls and deparser.

use super::prefixes::Prefixes;
use crate::emit::UnsupportedConstruct;
use ir::*;
use num_bigint::BigUint;

/// Checksum that the deparser computes.
#[derive(Clone, Debug)]
pub(in crate::emit) struct DeparserChecksum {
    /// Field that receives the checksum.
    pub(in crate::emit) field: VarId,
    /// Fields that the checksum covers.
    pub(in crate::emit) over: Vec<VarId>,
    /// Flag that is set where the program computes the checksum.
    pub(in crate::emit) update_flag: VarId,
}

/// Test that the parser defers to the control.
#[derive(Clone, Debug)]
pub(super) struct DeferredTest {
    /// Flag: the test must be made, or, without a field, it failed.
    pub(super) flag: VarId,
    /// Number of the error.
    pub(super) error: u32,
    pub(super) field: Option<(VarId, Prefixes)>,
}

/// Copy that the parser defers to the control.
#[derive(Clone, Debug)]
pub(super) struct DeferredCopy {
    pub(super) flag: VarId,
    pub(super) to: VarId,
    /// Load of a field that keeps its extracted value, or a constant.
    pub(super) from: Inst,
}

/// Pipeline during legalization.
pub(super) struct Legalizer {
    pub(super) p: Pipeline,
    pub(super) meta: String,
    pub(super) left_out: Vec<UnsupportedConstruct>,
    pub(super) deparser_checksums: Vec<DeparserChecksum>,
    /// Deferred tests, in the order in which a packet meets them.
    pub(super) deferred_tests: Vec<DeferredTest>,
    /// Deferred copies.
    pub(super) deferred_copies: Vec<DeferredCopy>,
}

impl Legalizer {
    pub(super) fn new(p: &Pipeline, meta: &str) -> Legalizer {
        Legalizer {
            p: p.clone(),
            meta: meta.to_owned(),
            left_out: Vec::new(),
            deparser_checksums: Vec::new(),
            deferred_tests: Vec::new(),
            deferred_copies: Vec::new(),
        }
    }

    /// Reports an unsupported construct, once.
    pub(super) fn report_left_out(&mut self, loc: SourceLoc, what: impl Into<String>) {
        let what = UnsupportedConstruct::new(&self.p, loc, what);
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    pub(super) fn add_var(&mut self, name: &str, ty: Type, kind: VarKind) -> VarId {
        self.p.vars.push(Var { name: name.to_owned(), ty, kind, loc: SourceLoc::default() })
    }

    pub(super) fn constant_bits(body: &Body, value: Value) -> Option<BigUint> {
        match &body.defining_inst(value)?.inst {
            Inst::Const(c) => Some(c.bits.clone()),
            _ => None,
        }
    }
}
