//! Lowering of `verify` and of parser initialisation for the chip's parser.

use super::legalizer::Legalizer;
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashSet};

impl Legalizer {
    /// Returns whether a value depends on the packet's length.
    pub(super) fn depends_on_length(body: &Body, value: Value) -> bool {
        // Visits each value once, because shared operands form exponentially many paths.
        let mut seen = HashSet::from([value]);
        let mut todo = vec![value];
        while let Some(data) = todo.pop().map(|v| body.defining_inst(v)) {
            let Some(data) = data else { continue };
            if matches!(data.inst, Inst::PacketLength) {
                return true;
            }
            data.inst.for_each_use(|v| {
                if seen.insert(v) {
                    todo.push(v);
                }
            });
        }
        false
    }

    /// Lowers each `verify`: to a deferred test if possible, otherwise to a branch that splits the
    /// block. `error` is the variable that receives the number of the parser error.
    pub(super) fn lower_verify(&mut self, body: &mut Body, error: VarId) {
        let mut states: BTreeMap<u32, Block> = BTreeMap::new();
        let mut next = 0;
        while next < body.blocks.len() {
            let block = Block(u32::try_from(next).unwrap_or(u32::MAX));
            next += 1;
            if body.entry == Some(block) || body.states.iter().any(|s| s.name == "start" && s.block == block) {
                self.drop_initial_zeros(body, block);
            }
            let Some(index) = body.blocks[block].insts.iter().position(|i| matches!(i.inst, Inst::Verify(..))) else {
                if let Some(term) = &mut body.blocks[block].term
                    && term.term == Terminator::Reject
                {
                    term.term = Terminator::Return;
                }
                continue;
            };
            let data = body.blocks[block].insts[index].clone();
            let Inst::Verify(check, number) = data.inst else { continue };
            let number = Self::constant_bits(body, number).and_then(|n| u32::try_from(&n).ok()).unwrap_or(1);
            if Self::depends_on_length(body, check) {
                let name = self.p.errors.get(number as usize).cloned().unwrap_or_default();
                self.report_left_out(
                    data.loc,
                    format!("`verify` with the packet's length, which the chip's parser does not know (error {name})"),
                );
                body.blocks[block].insts.remove(index);
                // The block can have another `verify`, so it is visited again.
                next -= 1;
                continue;
            }
            if let Some(sum) = self.checksum_check(body, check) {
                let name = format!("{}.{}_error", self.meta, self.object_name(sum.0));
                let var = self.add_var(&name, Type::Bool, VarKind::Meta);
                self.defer_failed_check(var, number);
                body.blocks[block].insts[index].inst = Inst::Store(var, sum.1);
                next -= 1;
                continue;
            }
            if let Some(flag) = self.defer_test(body, check, number) {
                let one = body.values.push(Type::Bool);
                let set = InstData { inst: Inst::Const(Const::bool(true)), results: vec![one], loc: data.loc };
                let store = |flag| InstData { inst: Inst::Store(flag, one), results: Vec::new(), loc: data.loc };
                body.blocks[block].insts.splice(index..=index, std::iter::once(set).chain(flag.map(store)));
                next -= 1;
                continue;
            }
            let error_state = *states.entry(number).or_insert_with(|| self.error_state(body, error, number, data.loc));
            let later_insts = body.blocks[block].insts.split_off(index + 1);
            body.blocks[block].insts.pop();
            let term = body.blocks[block].term.take();
            let continuation = body.blocks.push(BlockData { params: Vec::new(), insts: later_insts, term });
            let edge_to = |block| BlockCall::to(block);
            let term = match Self::constant_bits(body, check) {
                Some(outcome) if outcome == BigUint::ZERO => Terminator::Jump(edge_to(error_state)),
                Some(_) => Terminator::Jump(edge_to(continuation)),
                None => Terminator::Branch { cond: check, then: edge_to(continuation), els: edge_to(error_state) },
            };
            body.blocks[block].term = Some(TerminatorData { term, loc: data.loc });
        }
    }

    /// Removes stores of zero to metadata at the start: metadata is initially zero, and a second
    /// write on a path would be ORed.
    fn drop_initial_zeros(&self, body: &mut Body, block: Block) {
        let zero: HashSet<Value> = body.blocks[block]
            .insts
            .iter()
            .filter(|i| matches!(&i.inst, Inst::Const(c) if c.bits == BigUint::ZERO))
            .flat_map(|i| i.results.clone())
            .collect();
        let vars = &self.p.vars;
        body.blocks[block].insts.retain(|i| match &i.inst {
            Inst::Store(var, value) => !(zero.contains(value) && vars[*var].kind == VarKind::Meta),
            _ => true,
        });
    }

    pub(super) fn object_name(&self, object: ExternId) -> String {
        let name = &self.p.externs[object].preamble.name;
        name.rsplit('.').next().unwrap_or(name).to_owned()
    }

    /// Matches a test that a checksum is zero; returns its object and the sum.
    fn checksum_check(&self, body: &Body, check: Value) -> Option<(ExternId, Value)> {
        let Inst::Binary(BinaryOp::Eq, sum, zero) = body.defining_inst(check)?.inst else { return None };
        (Self::constant_bits(body, zero)? == BigUint::ZERO).then_some(())?;
        match &body.defining_inst(sum)?.inst {
            Inst::Extern { object: Some(object), func: ExternFn::InternetChecksumGet, .. } => Some((*object, sum)),
            _ => None,
        }
    }

    /// Adds a state that sets the parser error and accepts.
    pub(super) fn error_state(&self, body: &mut Body, error: VarId, number: u32, loc: SourceLoc) -> Block {
        let value = body.values.push(Type::Bit(8));
        let set = [
            InstData { inst: Inst::Const(Const::new(Type::Bit(8), number)), results: vec![value], loc },
            InstData { inst: Inst::Store(error, value), results: Vec::new(), loc },
        ];
        let term = Some(TerminatorData { term: Terminator::Return, loc });
        let block = body.blocks.push(BlockData { params: Vec::new(), insts: set.to_vec(), term });
        let name = self.p.errors.get(number as usize).map_or("error", String::as_str);
        body.states.push(ParserStateBlock { name: format!("error_{name}"), block, loc });
        block
    }
}
