//! Code hoisting: arithmetic moves to the highest block that has its operands.
//!
//! ```text
//! if (c) { exit; }                    t = a + b;
//! t = a + b;                    ->    if (c) { exit; }
//! routes.apply(t);                    routes.apply(t);
//! ```
//!
//! Each operation is a step of its own, and steps are stages. The chip's compiler does not run code
//! before the decision that the code depends on, so that arithmetic behind a lookup that may drop
//! the packet is placed behind that lookup. A computation has no effect and can stand before all
//! decisions that its operands do not depend on. Operands that are only moved (constants, slices,
//! loads) are rematerialised there.

use ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Moves computations to the highest block that has their operands; variables that they read must
/// not change on the way.
pub(super) fn hoist_computations(p: &Pipeline, body: &mut Body) {
    let Some(behind) = super::halves::behind(body) else { return };
    let cfg = Cfg::new(body);
    let order = cfg.reverse_postorder().to_vec();
    let position: HashMap<Block, usize> = order.iter().enumerate().map(|(n, b)| (*b, n)).collect();
    let waits = waited_for(body);
    let mut mover = Mover { p, defined: definitions(body), position, copies: HashMap::new(), behind };
    for block in &order {
        let mut n = 0;
        while n < body.blocks[*block].insts.len() {
            let moved = is_step(body, &body.blocks[*block].insts[n], &waits)
                && mover.target(body, &cfg, *block, n).is_some_and(|to| mover.raise(body, *block, n, to));
            n += usize::from(!moved);
        }
    }
    ir::passes::drop_unused(body);
}

/// Whether an instruction is a step that others wait for: an operation of an ALU, or a choice
/// between values. What is only stored is computed where it is stored, and bits under a mask are
/// what gateways compare.
fn is_step(body: &Body, inst: &InstData, waits: &HashSet<Value>) -> bool {
    let Some(result) = inst.results.first() else { return false };
    let narrow = matches!(body.value_type(*result), Type::Bit(width) if (1..=32).contains(&width));
    let computes = match &inst.inst {
        Inst::Binary(op, ..) => !op.is_comparison(),
        Inst::Select { .. } => true,
        _ => false,
    };
    narrow && computes && waits.contains(result)
}

/// Values that other steps wait for.
fn waited_for(body: &Body) -> HashSet<Value> {
    let masks: HashSet<Value> = body
        .insts()
        .filter(|i| matches!(i.inst, Inst::Binary(BinaryOp::And, ..)))
        .flat_map(|i| i.results.iter().copied())
        .collect();
    let mut all = HashSet::new();
    for inst in body.insts() {
        match &inst.inst {
            Inst::Store(..) => {}
            Inst::Binary(op, ..) if op.is_comparison() => {
                inst.inst.for_each_use(|v| _ = (!masks.contains(&v)).then(|| all.insert(v)));
            }
            other => other.for_each_use(|v| _ = all.insert(v)),
        }
    }
    for term in body.blocks.values().filter_map(|b| b.term.as_ref()) {
        term.term.for_each_use(|v| _ = all.insert(v));
    }
    all
}

fn definitions(body: &Body) -> HashMap<Value, Block> {
    let mut all = HashMap::new();
    for (block, data) in body.blocks.iter() {
        all.extend(data.params.iter().map(|v| (*v, block)));
        all.extend(data.insts.iter().flat_map(|i| &i.results).map(|v| (*v, block)));
    }
    all
}

struct Mover<'a> {
    p: &'a Pipeline,
    defined: HashMap<Value, Block>,
    position: HashMap<Block, usize>,
    /// Values that were made again in a block, by what they are copies of.
    copies: HashMap<(Block, Value), Value>,
    behind: HashMap<Block, BTreeSet<Block>>,
}

impl Mover<'_> {
    /// The highest block that a computation can move to, if it passes a lookup or an exit by that.
    fn target(&self, body: &Body, cfg: &Cfg, block: Block, n: usize) -> Option<Block> {
        let mut found = None;
        let mut passes = false;
        let mut at = block;
        while let Some(above) = cfg.immediate_dominator(at) {
            if !self.is_movable(body, body.blocks[block].insts[n].results[0], above, 0) {
                break;
            }
            passes |= self.passes(body, above, block);
            found = Some(above);
            at = above;
        }
        found.filter(|_| passes)
    }

    /// Whether there is a lookup, or an exit, between the end of a block and another block.
    fn passes(&self, body: &Body, above: Block, block: Block) -> bool {
        let term = |b: Block| body.blocks[b].term.as_ref().map(|t| &t.term);
        let is_leaf = |b: &Block| {
            let plain = body.blocks[*b].insts.is_empty() && body.blocks[*b].params.is_empty();
            plain && matches!(term(*b), Some(Term::Exit | Term::Return))
        };
        let onward = |b: &Block| *b == block || self.behind[&block].contains(b);
        let leaves = |b: &Block| !std::iter::once(b).chain(&self.behind[b]).any(|b| onward(b) && !is_leaf(b));
        std::iter::once(above).chain(self.between(above, block)).any(|b| {
            let next = || term(b).map(Term::successors).into_iter().flatten();
            body.blocks[b].applied().is_some() || next().any(|b| b != block && leaves(&b))
        })
    }

    /// Blocks on the ways from one to another, both not counted.
    fn between(&self, from: Block, to: Block) -> Vec<Block> {
        super::halves::between(&self.behind, from, to).collect()
    }

    /// Whether a value can be had at the end of a block that dominates its own.
    fn is_movable(&self, body: &Body, value: Value, to: Block, depth: usize) -> bool {
        let Some(block) = self.defined.get(&value).copied() else { return false };
        if block == to || self.copies.contains_key(&(to, value)) || self.is_above(block, to) {
            return true;
        }
        let Some(n) = body.blocks[block].insts.iter().position(|i| i.results.contains(&value)) else { return false };
        let inst = &body.blocks[block].insts[n].inst;
        let fine = match inst {
            Inst::Const(_) | Inst::Unary(..) | Inst::Cast(..) | Inst::Slice { .. } | Inst::Concat(..) => true,
            Inst::Select { .. } => true,
            Inst::Binary(op, ..) => !matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::Mul),
            Inst::Load(var) => !self.changes(body, *var, to, block, n),
            _ => false,
        };
        let mut operands = Vec::new();
        inst.for_each_use(|v| operands.push(v));
        // Expressions are short; what is not is left where it is.
        fine && depth < 32 && operands.iter().all(|v| self.is_movable(body, *v, to, depth + 1))
    }

    /// Whether a block comes before another one on each way. Both have to dominate the same block.
    fn is_above(&self, block: Block, other: Block) -> bool {
        self.position.get(&block) <= self.position.get(&other)
    }

    /// Whether a variable may change between the end of a block and an instruction.
    fn changes(&self, body: &Body, var: VarId, from: Block, block: Block, n: usize) -> bool {
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
            || self.between(from, block).iter().any(|b| body.blocks[*b].insts.iter().any(|i| changes(&i.inst)))
    }

    /// Moves an instruction to the end of a block, what it needs before it.
    fn raise(&mut self, body: &mut Body, block: Block, n: usize, to: Block) -> bool {
        let mut data = body.blocks[block].insts[n].clone();
        if !self.bring(body, &mut data.inst, to) {
            return false;
        }
        body.blocks[block].insts.remove(n);
        self.defined.insert(data.results[0], to);
        body.blocks[to].insts.push(data);
        true
    }

    /// Has an instruction use its operands as they are at the end of a block. False if one can't be
    /// there.
    fn bring(&mut self, body: &mut Body, inst: &mut Inst, to: Block) -> bool {
        let mut all = true;
        inst.for_each_use_mut(|v| match self.there(body, *v, to) {
            Some(there) => *v = there,
            None => all = false,
        });
        all
    }

    /// A value at the end of a block: itself if it is there, otherwise a copy. What is only moved
    /// costs nothing to have twice.
    fn there(&mut self, body: &mut Body, value: Value, to: Block) -> Option<Value> {
        let block = self.defined.get(&value).copied()?;
        if block == to || self.is_above(block, to) {
            return Some(value);
        }
        if let Some(copy) = self.copies.get(&(to, value)) {
            return Some(*copy);
        }
        let mut data = body.blocks[block].insts.iter().find(|i| i.results.contains(&value))?.clone();
        self.bring(body, &mut data.inst, to).then_some(())?;
        let copy = body.values.push(body.value_type(value));
        data.results = vec![copy];
        self.defined.insert(copy, to);
        self.copies.insert((to, value), copy);
        body.blocks[to].insts.push(data);
        Some(copy)
    }
}
