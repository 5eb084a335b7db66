//! Removal of computation from the parser. The chip's parser moves bytes and compares them with
//! constants; it can neither add nor obtain the packet's length. The removed paths are reported as
//! unsupported.
//!
//! - A branch on the packet's length is replaced by a jump, as if the length matched.
//! - A state that computes ends with a parser error, so that lower tiers process its packets.

use super::legalizer::Legalizer;
use ir::*;
use std::collections::BTreeSet;

/// Error of packets that reach a computing state (core.p4).
const ERROR: &str = "ParserInvalidArgument";

impl Legalizer {
    /// Removes branches and states that the chip's parser cannot execute. `error` holds the parser
    /// error as a number.
    pub(super) fn drop_computing_states(&mut self, body: &mut Body, error: VarId) {
        self.assume_announced_lengths(body);
        let computed = computed_locals(&self.p, body);
        let stores = |block| Some((block, Self::store_of_computed(body, block, &computed)?));
        let computing: Vec<(Block, SourceLoc)> = body.blocks.keys().filter_map(stores).collect();
        let Some((_, first)) = computing.first().copied() else { return };
        self.report_left_out(
            first,
            format!("a parser state that computes: the chip's parser only moves and compares. Packets that reach it end with the error {ERROR}"),
        );
        let number = self.p.errors.iter().position(|e| e == ERROR).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let failed = self.error_state(body, error, number, first);
        for (block, loc) in computing {
            let term = Some(TerminatorData { term: Terminator::Jump(BlockCall::to(failed)), loc });
            body.blocks[block] = BlockData { params: Vec::new(), insts: Vec::new(), term };
        }
        body.empty_unreachable();
    }

    /// Replaces branches on whether the packet has the length that a header announces: the parser
    /// assumes that it has.
    fn assume_announced_lengths(&mut self, body: &mut Body) {
        let blocks: Vec<Block> = body.blocks.keys().collect();
        for block in blocks {
            let Some(TerminatorData { term, loc }) = body.blocks[block].term.clone() else { continue };
            let (cond_value, [on_true, on_false]) = match term {
                Terminator::Branch { cond, then, els } => (cond, [then, els]),
                Terminator::Switch { value, cases, default } => {
                    let case = |truth: u8| {
                        let matching = cases.iter().find(|(c, _)| c.ty == Type::Bool && c.bits == truth.into());
                        matching.map_or_else(|| default.clone(), |(_, call)| call.clone())
                    };
                    (value, [case(1), case(0)])
                }
                _ => continue,
            };
            if !Self::depends_on_length(body, cond_value) {
                continue;
            }
            let assumed = match body.defining_inst(cond_value).map(|data| &data.inst) {
                Some(Inst::Binary(BinaryOp::Ne, ..)) => on_false,
                _ => on_true,
            };
            self.report_left_out(loc, "a choice by the packet's length, which the chip's parser does not know");
            body.blocks[block].term = Some(TerminatorData { term: Terminator::Jump(assumed), loc });
        }
        body.empty_unreachable();
    }

    /// Returns the location of a store of a non-constant value to one of the variables.
    fn store_of_computed(body: &Body, block: Block, computed: &BTreeSet<VarId>) -> Option<SourceLoc> {
        body.blocks[block].insts.iter().find_map(|data| match data.inst {
            Inst::Store(var, value) if computed.contains(&var) => {
                Self::constant_bits(body, value).is_none().then_some(data.loc)
            }
            _ => None,
        })
    }
}

/// Returns local variables that the parser computes somewhere, for example while it parses headers
/// of variable length.
fn computed_locals(p: &Pipeline, body: &Body) -> BTreeSet<VarId> {
    let stores = body.insts().filter_map(|data| match data.inst {
        Inst::Store(var, value) => Some((var, value)),
        _ => None,
    });
    let computed = stores.filter(|(var, value)| {
        let binary = |data: &InstData| matches!(data.inst, Inst::Binary(..));
        p.vars[*var].kind == VarKind::Local && body.defining_inst(*value).is_some_and(binary)
    });
    computed.map(|(var, _)| var).collect()
}
