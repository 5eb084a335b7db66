//! A pipeline while it gets the shape of Tofino's architecture, and what its parser leaves to controls and deparser.

use super::prefixes::Prefixes;
use crate::emit::Unsupported;
use ir::*;
use num_bigint::BigUint;

/// A checksum that the deparser computes.
#[derive(Clone, Debug)]
pub(in crate::emit) struct Deparsed {
    /// The field that it goes to.
    pub(in crate::emit) field: VarId,
    /// The fields that it is computed over.
    pub(in crate::emit) over: Vec<VarId>,
    /// Set where the program computes it.
    pub(in crate::emit) wanted: VarId,
}

/// A test that the parser leaves to the control.
#[derive(Clone, Debug)]
pub(super) struct Late {
    /// Says that it has to be made, or, if there is no field, that it failed.
    pub(super) flag: VarId,
    /// The error's number.
    pub(super) error: u32,
    pub(super) field: Option<(VarId, Prefixes)>,
}

/// A copy that the control makes.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    pub(super) flag: VarId,
    pub(super) to: VarId,
    /// A field that stays, or a constant.
    pub(super) from: Inst,
}

/// A pipeline that is being changed.
pub(super) struct Preparer {
    pub(super) p: Pipeline,
    pub(super) meta: String,
    pub(super) left_out: Vec<Unsupported>,
    pub(super) deparsed: Vec<Deparsed>,
    /// Tests that the parser leaves to the control, in the order in which a packet meets them.
    pub(super) late: Vec<Late>,
    /// Copies that the parser leaves to the control.
    pub(super) copied: Vec<Copied>,
}

impl Preparer {
    pub(super) fn new(p: &Pipeline, meta: &str) -> Preparer {
        Preparer {
            p: p.clone(),
            meta: meta.to_owned(),
            left_out: Vec::new(),
            deparsed: Vec::new(),
            late: Vec::new(),
            copied: Vec::new(),
        }
    }

    /// Names what has no form on the chip, once.
    pub(super) fn leave_out(&mut self, loc: Loc, what: impl Into<String>) {
        let what = Unsupported::new(&self.p, loc, what);
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    pub(super) fn add_var(&mut self, name: &str, ty: Type, kind: VarKind) -> VarId {
        self.p.vars.push(Var { name: name.to_owned(), ty, kind, loc: Loc::default() })
    }

    pub(super) fn constant(body: &Body, value: Value) -> Option<BigUint> {
        match &body.definition(value)?.inst {
            Inst::Const(c) => Some(c.bits.clone()),
            _ => None,
        }
    }
}
