//! Code hoisting: arithmetic moves to the highest block that has its operands.
//!
//! ```text
//! if (c) { exit; }                    t = a + b;
//! t = a + b;                    ->    if (c) { exit; }
//! routes.apply(t);                    routes.apply(t);
//! ```
//!
//! Each operation is a separate step, and steps take stages. The chip's compiler does not execute
//! code before a decision that the code depends on, so arithmetic after a lookup that may drop the
//! packet is placed after that lookup. A computation has no side effect and can precede all
//! decisions that its operands do not depend on. Operands that only move bits (constants, slices,
//! loads) are rematerialised there.

use ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Moves computations to the highest block that has their operands. The variables that they read
/// must be unchanged in between.
pub(super) fn hoist_computations(p: &Pipeline, body: &mut Body) {
    let Some(reachable) = super::gress_split::reachable_from(body) else { return };
    let cfg = Cfg::new(body);
    let order = cfg.reverse_postorder().to_vec();
    let position: HashMap<Block, usize> = order.iter().enumerate().map(|(n, b)| (*b, n)).collect();
    let awaited = awaited_values(body);
    let mut hoister = Hoister { p, defined: defining_blocks(body), position, materialized: HashMap::new(), reachable };
    for block in &order {
        let mut n = 0;
        while n < body.blocks[*block].insts.len() {
            let moved = is_alu_step(body, &body.blocks[*block].insts[n], &awaited)
                && hoister
                    .highest_block(body, &cfg, *block, n)
                    .is_some_and(|target| hoister.hoist_inst(body, *block, n, target));
            n += usize::from(!moved);
        }
    }
    ir::passes::remove_dead_values(body);
}

/// Returns whether other instructions wait for an ALU step: an operation or a selection. An
/// operation is computed at the store if its result is only stored, and gateways compare bits under
/// masks directly.
fn is_alu_step(body: &Body, inst: &InstData, waits: &HashSet<Value>) -> bool {
    let Some(result) = inst.results.first() else { return false };
    let narrow = matches!(body.value_type(*result), Type::Bit(width) if (1..=32).contains(&width));
    let computes = match &inst.inst {
        Inst::Binary(op, ..) => !op.is_comparison(),
        Inst::Select { .. } => true,
        _ => false,
    };
    narrow && computes && waits.contains(result)
}

/// Returns the values that other steps wait for. A store ends a computation, and a gateway applies
/// a mask by itself, so the operand of neither waits.
fn awaited_values(body: &Body) -> HashSet<Value> {
    let masks: HashSet<Value> = body
        .insts()
        .filter(|i| matches!(i.inst, Inst::Binary(BinaryOp::And, ..)))
        .flat_map(|i| i.results.iter().copied())
        .collect();
    let mut awaited = HashSet::new();
    for inst in body.insts() {
        match &inst.inst {
            Inst::Store(..) => {}
            Inst::Binary(op, ..) if op.is_comparison() => {
                inst.inst.for_each_use(|v| _ = (!masks.contains(&v)).then(|| awaited.insert(v)));
            }
            other => other.for_each_use(|v| _ = awaited.insert(v)),
        }
    }
    for term in body.blocks.values().filter_map(|b| b.term.as_ref()) {
        term.term.for_each_use(|v| _ = awaited.insert(v));
    }
    awaited
}

fn defining_blocks(body: &Body) -> HashMap<Value, Block> {
    let mut all = HashMap::new();
    for (block, data) in body.blocks.iter() {
        all.extend(data.params.iter().map(|v| (*v, block)));
        all.extend(data.insts.iter().flat_map(|i| &i.results).map(|v| (*v, block)));
    }
    all
}

struct Hoister<'a> {
    p: &'a Pipeline,
    defined: HashMap<Value, Block>,
    position: HashMap<Block, usize>,
    /// Rematerialised values by block and original value.
    materialized: HashMap<(Block, Value), Value>,
    reachable: HashMap<Block, BTreeSet<Block>>,
}

impl Hoister<'_> {
    /// Returns the highest block that a computation can move to, if it passes a lookup or an exit.
    fn highest_block(&self, body: &Body, cfg: &Cfg, block: Block, n: usize) -> Option<Block> {
        let mut found = None;
        let mut passes = false;
        let mut at = block;
        while let Some(above) = cfg.immediate_dominator(at) {
            if !self.is_movable(body, body.blocks[block].insts[n].results[0], above, 0) {
                break;
            }
            passes |= self.passes_lookup_or_exit(body, above, block);
            found = Some(above);
            at = above;
        }
        found.filter(|_| passes)
    }

    /// Returns whether a lookup or an exit lies between the end of a block and another block.
    fn passes_lookup_or_exit(&self, body: &Body, above: Block, block: Block) -> bool {
        let term = |b: Block| body.blocks[b].term.as_ref().map(|t| &t.term);
        let is_leaf = |b: &Block| {
            let plain = body.blocks[*b].insts.is_empty() && body.blocks[*b].params.is_empty();
            plain && matches!(term(*b), Some(Terminator::Exit | Terminator::Return))
        };
        let onward = |b: &Block| *b == block || self.reachable[&block].contains(b);
        let leaves = |b: &Block| !std::iter::once(b).chain(&self.reachable[b]).any(|b| onward(b) && !is_leaf(b));
        std::iter::once(above).chain(self.blocks_between(above, block)).any(|b| {
            let next = || term(b).map(Terminator::successors).into_iter().flatten();
            body.blocks[b].applied_table().is_some() || next().any(|b| b != block && leaves(&b))
        })
    }

    /// Returns the blocks on the paths between two blocks, without both.
    fn blocks_between(&self, from: Block, to: Block) -> Vec<Block> {
        super::gress_split::blocks_between(&self.reachable, from, to).collect()
    }

    /// Returns whether a value can be available at the end of a block that dominates its own.
    fn is_movable(&self, body: &Body, value: Value, to: Block, depth: usize) -> bool {
        let Some(block) = self.defined.get(&value).copied() else { return false };
        if block == to || self.materialized.contains_key(&(to, value)) || self.comes_before(block, to) {
            return true;
        }
        let Some(n) = body.blocks[block].insts.iter().position(|i| i.results.contains(&value)) else { return false };
        let inst = &body.blocks[block].insts[n].inst;
        let fine = match inst {
            Inst::Const(_) | Inst::Unary(..) | Inst::Cast(..) | Inst::Slice { .. } | Inst::Concat(..) => true,
            Inst::Select { .. } => true,
            Inst::Binary(op, ..) => !matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::Mul),
            Inst::Load(var) => !self.may_change(body, *var, to, block, n),
            _ => false,
        };
        let mut operands = Vec::new();
        inst.for_each_use(|v| operands.push(v));
        // Deeper expressions are not moved.
        fine && depth < 32 && operands.iter().all(|v| self.is_movable(body, *v, to, depth + 1))
    }

    /// Returns whether a block precedes another one on each path. Both must dominate the same
    /// block.
    fn comes_before(&self, block: Block, other: Block) -> bool {
        self.position.get(&block) <= self.position.get(&other)
    }

    /// Returns whether a variable may change between the end of a block and an instruction.
    fn may_change(&self, body: &Body, var: VarId, from: Block, block: Block, n: usize) -> bool {
        let header = match self.p.vars[var].kind {
            VarKind::Field(header, _) => Some(header),
            _ => None,
        };
        let changes = |inst: &Inst| match inst {
            Inst::Store(v, _) => *v == var,
            Inst::SetValid(h) | Inst::SetInvalid(h) | Inst::CopyHeader { dst: h, .. } => {
                header.is_some_and(|own| own == *h || self.p.headers[own].union.is_some())
            }
            Inst::Extern { func, .. } => {
                matches!(func, ExternFn::MarkToDrop) || self.p.vars[var].kind == VarKind::Intrinsic
            }
            _ => false,
        };
        let before = &body.blocks[block].insts[..n];
        before.iter().any(|i| changes(&i.inst))
            || self.blocks_between(from, block).iter().any(|b| body.blocks[*b].insts.iter().any(|i| changes(&i.inst)))
    }

    /// Moves an instruction with its operands to the end of a block.
    fn hoist_inst(&mut self, body: &mut Body, block: Block, n: usize, to: Block) -> bool {
        let mut data = body.blocks[block].insts[n].clone();
        if !self.materialize_operands(body, &mut data.inst, to) {
            return false;
        }
        body.blocks[block].insts.remove(n);
        self.defined.insert(data.results[0], to);
        body.blocks[to].insts.push(data);
        true
    }

    /// Replaces operands by values available at the end of a block. Returns `false` if one is
    /// unavailable.
    fn materialize_operands(&mut self, body: &mut Body, inst: &mut Inst, to: Block) -> bool {
        let mut all = true;
        inst.for_each_use_mut(|v| match self.materialize_at(body, *v, to) {
            Some(there) => *v = there,
            None => all = false,
        });
        all
    }

    /// Returns a value at the end of a block: itself if available, otherwise a copy. Copies are
    /// free, because they only move bits.
    fn materialize_at(&mut self, body: &mut Body, value: Value, to: Block) -> Option<Value> {
        let block = self.defined.get(&value).copied()?;
        if block == to || self.comes_before(block, to) {
            return Some(value);
        }
        if let Some(copy) = self.materialized.get(&(to, value)) {
            return Some(*copy);
        }
        let mut data = body.blocks[block].insts.iter().find(|i| i.results.contains(&value))?.clone();
        self.materialize_operands(body, &mut data.inst, to).then_some(())?;
        let copy = body.values.push(body.value_type(value));
        data.results = vec![copy];
        self.defined.insert(copy, to);
        self.materialized.insert((to, value), copy);
        body.blocks[to].insts.push(data);
        Some(copy)
    }
}
