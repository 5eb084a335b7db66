//! A parser in the shape that the chip's has: tests are states, sums are added up where fields are extracted, and a state only moves
//! bits of the packet and constants.

use super::preparer::Preparer;
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashSet};

impl Preparer {
    /// Whether a value is made of the packet's length.
    pub(super) fn asks_length(body: &Body, value: Value) -> bool {
        // Each value once: values that share operands make exponentially many paths.
        let mut seen = HashSet::from([value]);
        let mut todo = vec![value];
        while let Some(data) = todo.pop().map(|v| body.definition(v)) {
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

    /// Splits blocks at `verify`.
    pub(super) fn parser(&mut self, body: &mut Body, error: VarId) {
        let mut states: BTreeMap<u32, Block> = BTreeMap::new();
        let mut next = 0;
        while next < body.blocks.len() {
            let block = Block(u32::try_from(next).unwrap_or(u32::MAX));
            next += 1;
            if body.entry == Some(block) || body.states.iter().any(|s| s.name == "start" && s.block == block) {
                self.zeros(body, block);
            }
            let Some(at) = body.blocks[block].insts.iter().position(|i| matches!(i.inst, Inst::Verify(..))) else {
                if let Some(term) = &mut body.blocks[block].term
                    && term.term == Term::Reject
                {
                    term.term = Term::Return;
                }
                continue;
            };
            let data = body.blocks[block].insts[at].clone();
            let Inst::Verify(check, number) = data.inst else { continue };
            let number = Self::constant(body, number).and_then(|n| u32::try_from(&n).ok()).unwrap_or(1);
            if Self::asks_length(body, check) {
                let name = self.p.errors.get(number as usize).cloned().unwrap_or_default();
                self.leave_out(
                    data.loc,
                    format!("`verify` with the packet's length, which the chip's parser does not know (error {name})"),
                );
                body.blocks[block].insts.remove(at);
                next -= 1;
                continue;
            }
            if let Some(sum) = self.checksum_check(body, check) {
                let name = format!("{}.{}_error", self.meta, self.object_name(sum.0));
                let var = self.add_var(&name, Type::Bool, VarKind::Meta);
                self.noted(var, number);
                body.blocks[block].insts[at].inst = Inst::Store(var, sum.1);
                next -= 1;
                continue;
            }
            if let Some(flag) = self.is_late(body, check, number) {
                let yes = body.values.push(Type::Bool);
                let set = InstData { inst: Inst::Const(Const::bool(true)), results: vec![yes], loc: data.loc };
                let store = |flag| InstData { inst: Inst::Store(flag, yes), results: Vec::new(), loc: data.loc };
                body.blocks[block].insts.splice(at..=at, std::iter::once(set).chain(flag.map(store)));
                next -= 1;
                continue;
            }
            let failed = *states.entry(number).or_insert_with(|| self.error_state(body, error, number, data.loc));
            let rest = body.blocks[block].insts.split_off(at + 1);
            body.blocks[block].insts.pop();
            let term = body.blocks[block].term.take();
            let behind = body.blocks.push(BlockData { params: Vec::new(), insts: rest, term });
            let to = |block| BlockCall::to(block);
            let term = match Self::constant(body, check) {
                Some(known) if known == BigUint::ZERO => Term::Jump(to(failed)),
                Some(_) => Term::Jump(to(behind)),
                None => Term::Branch { cond: check, then: to(behind), els: to(failed) },
            };
            body.blocks[block].term = Some(TermData { term, loc: data.loc });
        }
    }

    /// Metadata is zero at first anyway, and a parser that writes a field twice would combine both.
    fn zeros(&self, body: &mut Body, block: Block) {
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

    /// A test that a checksum comes out as zero: its object, and the sum.
    fn checksum_check(&self, body: &Body, check: Value) -> Option<(ExternId, Value)> {
        let Inst::Binary(BinaryOp::Eq, sum, zero) = body.definition(check)?.inst else { return None };
        (Self::constant(body, zero)? == BigUint::ZERO).then_some(())?;
        match &body.definition(sum)?.inst {
            Inst::Extern { object: Some(object), func: ExternFn::InternetChecksumGet, .. } => Some((*object, sum)),
            _ => None,
        }
    }

    /// A state that notes an error and accepts.
    pub(super) fn error_state(&self, body: &mut Body, error: VarId, number: u32, loc: Loc) -> Block {
        let value = body.values.push(Type::Bit(8));
        let set = [
            InstData { inst: Inst::Const(Const::new(Type::Bit(8), number)), results: vec![value], loc },
            InstData { inst: Inst::Store(error, value), results: Vec::new(), loc },
        ];
        let term = Some(TermData { term: Term::Return, loc });
        let block = body.blocks.push(BlockData { params: Vec::new(), insts: set.to_vec(), term });
        let name = self.p.errors.get(number as usize).map_or("error", String::as_str);
        body.states.push(State { name: format!("error_{name}"), block, loc });
        block
    }
}
