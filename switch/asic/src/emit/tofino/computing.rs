//! What a parser decides by arithmetic or by the packet's length. The chip's parser moves bytes and compares them with constants, and that is
//! all: it neither adds nor knows how long a packet is. Such ways are taken out, and named.
//!
//! - A choice by whether the packet has a certain length goes on as if it had.
//! - States that compute end with an error of the parser, as a packet that the chip leaves to others would.

use super::preparer::Preparer;
use ir::*;
use std::collections::BTreeSet;

/// The error of packets that come to a state that computes (core.p4).
const ERROR: &str = "ParserInvalidArgument";

impl Preparer {
    /// Takes out what the chip's parser cannot decide. `error` holds the parser's error as a number.
    pub(super) fn without_computing(&mut self, body: &mut Body, error: VarId) {
        self.lengths_as_announced(body);
        let computed = computed_locals(&self.p, body);
        let stores = |block| Some((block, Self::store_of_computed(body, block, &computed)?));
        let computing: Vec<(Block, Loc)> = body.blocks.keys().filter_map(stores).collect();
        let Some((_, first)) = computing.first().copied() else { return };
        self.leave_out(
            first,
            format!("a parser state that computes: the chip's parser only moves and compares. Packets that come to it end with the error {ERROR}"),
        );
        let number = self.p.errors.iter().position(|e| e == ERROR).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let failed = self.error_state(body, error, number, first);
        for (block, loc) in computing {
            let term = Some(TermData { term: Term::Jump(BlockCall::to(failed)), loc });
            body.blocks[block] = BlockData { params: Vec::new(), insts: Vec::new(), term };
        }
        body.empty_unreachable();
    }

    /// Branches on whether the packet has the length that a header announces.
    fn lengths_as_announced(&mut self, body: &mut Body) {
        let blocks: Vec<Block> = body.blocks.keys().collect();
        for block in blocks {
            let Some(TermData { term, loc }) = body.blocks[block].term.clone() else { continue };
            let (asked, [yes, no]) = match term {
                Term::Branch { cond, then, els } => (cond, [then, els]),
                Term::Switch { value, cases, default } => {
                    let case = |wanted: u8| {
                        let found = cases.iter().find(|(c, _)| c.ty == Type::Bool && c.bits == wanted.into());
                        found.map_or_else(|| default.clone(), |(_, call)| call.clone())
                    };
                    (value, [case(1), case(0)])
                }
                _ => continue,
            };
            if !Self::asks_length(body, asked) {
                continue;
            }
            let equal = match body.definition(asked).map(|data| &data.inst) {
                Some(Inst::Binary(BinaryOp::Ne, ..)) => no,
                _ => yes,
            };
            self.leave_out(loc, "a choice by the packet's length, which the chip's parser does not know");
            body.blocks[block].term = Some(TermData { term: Term::Jump(equal), loc });
        }
        body.empty_unreachable();
    }

    /// Where a block gives such a variable a value that is no constant.
    fn store_of_computed(body: &Body, block: Block, computed: &BTreeSet<VarId>) -> Option<Loc> {
        body.blocks[block].insts.iter().find_map(|data| match data.inst {
            Inst::Store(var, value) if computed.contains(&var) => {
                Self::constant(body, value).is_none().then_some(data.loc)
            }
            _ => None,
        })
    }
}

/// Variables of the parser's own that it computes somewhere: what a parser keeps while it looks over headers of any length.
fn computed_locals(p: &Pipeline, body: &Body) -> BTreeSet<VarId> {
    let stores = body.insts().filter_map(|data| match data.inst {
        Inst::Store(var, value) => Some((var, value)),
        _ => None,
    });
    let computed = stores.filter(|(var, value)| {
        let binary = |data: &InstData| matches!(data.inst, Inst::Binary(..));
        p.vars[*var].kind == VarKind::Local && body.definition(*value).is_some_and(binary)
    });
    computed.map(|(var, _)| var).collect()
}
