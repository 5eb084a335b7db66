//! One body: order of blocks, places of values, jumps.

use crate::decode::decoder::{Decoder, Form};
use crate::decode::error::Fault;
use crate::decode::inst::inst;
use crate::decode::layout::Layout;
use crate::decode::uses::{LastUses, Writes};
use crate::program::*;
use ir::{Block, BlockCall, Body, Control, Entity, Inst, Loc, Pipeline, Term, Value};

/// Decodes a control's body.
pub(super) fn decode_body(
    pipeline: &Pipeline,
    layout: &mut Layout,
    control: &Control,
    form: Form,
) -> Result<Code, Fault> {
    let body = &control.body;
    let states = body.states.iter().map(|state| state.name.clone()).collect();
    let code = Code { name: control.name.clone(), kind: control.kind, states, ..Code::empty() };
    let blocks = reachable(body)?;
    let mut order = vec![None; body.blocks.len()];
    for (position, block) in blocks.iter().enumerate() {
        order[block.index()] = Some(position);
    }
    let mut decoder = Decoder {
        pipeline,
        layout,
        body,
        code,
        form,
        loc: Loc::default(),
        origin: Origin::Edge(Block::from_index(0), None),
        regs: vec![None; body.values.len()],
        order,
        labels: vec![None; body.blocks.len()],
        stubs: Vec::new(),
    };
    decoder.place_values(&blocks)?;
    for block in &blocks {
        decoder.block(*block)?;
    }
    if blocks.is_empty() {
        decoder.emit(Op::Return);
    }
    decoder.resolve()?;
    decoder.labels.truncate(body.blocks.len());
    Ok(Code { blocks: decoder.labels, values: decoder.regs, ..decoder.code })
}

/// The blocks that can be reached, each before its successors unless in a loop.
fn reachable(body: &Body) -> Result<Vec<Block>, Fault> {
    let mut seen = vec![false; body.blocks.len()];
    let mut order = Vec::new();
    let Some(entry) = body.entry else { return Ok(order) };
    let mut stack = vec![(entry, 0)];
    *seen.get_mut(entry.index()).ok_or("the entry block does not exist")? = true;
    while let Some((block, next)) = stack.pop() {
        let term = body.blocks[block].term.as_ref().ok_or_else(|| format!("{block} has no terminator"))?;
        let successors = successors(&term.term);
        match successors.get(next) {
            None => order.push(block),
            Some(successor) => {
                stack.push((block, next + 1));
                let flag = seen.get_mut(successor.index()).ok_or_else(|| format!("{successor} does not exist"))?;
                if !std::mem::replace(flag, true) {
                    stack.push((*successor, 0));
                }
            }
        }
    }
    order.reverse();
    Ok(order)
}

/// Successors, last first: the one that a reader expects to follow is then emitted right behind.
fn successors(term: &Term) -> Vec<Block> {
    let mut out = match term {
        Term::Jump(to) => vec![to.block],
        Term::Branch { then, els, .. } => vec![then.block, els.block],
        Term::Switch { cases, default, .. } => cases.iter().map(|(_, to)| to.block).chain([default.block]).collect(),
        Term::Apply { arms, .. } => arms.iter().map(|arm| arm.block).collect(),
        Term::Return | Term::Exit | Term::Reject => Vec::new(),
    };
    out.reverse();
    out
}

/// Where values are.
impl Decoder<'_> {
    /// Constants lie in slots of their own; the parameters of a block lie one after the other (table arms rely on it); a load
    /// is the variable itself if that is not written before the last use.
    fn place_values(&mut self, blocks: &[Block]) -> Result<(), Fault> {
        let last_use = LastUses::new(self.body, blocks);
        for block in blocks {
            let data = &self.body.blocks[*block];
            for param in &data.params {
                let ty = *self.body.values.get(*param).ok_or_else(|| format!("{param} does not exist"))?;
                self.regs[param.index()] = Some(self.layout.value(ty));
            }
            let writes = Writes::new(self.pipeline, &data.insts);
            for (position, data) in data.insts.iter().enumerate() {
                let [result] = data.results[..] else { continue };
                if result.index() >= self.regs.len() {
                    return Err(format!("{result} does not exist"));
                }
                match &data.inst {
                    Inst::Const(constant) => self.regs[result.index()] = Some(self.layout.constant(constant)),
                    Inst::Load(var) if self.form == Form::Short => {
                        let last = last_use.within(*block, result);
                        if last.is_some_and(|last| !writes.between(*var, position, last)) {
                            self.regs[result.index()] = Some(self.var(*var)?);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Emission.
impl Decoder<'_> {
    fn here(&self) -> Pc {
        self.code.ops.len() as Pc
    }

    fn block(&mut self, block: Block) -> Result<(), Fault> {
        // A jump to what follows needs no instruction.
        if let (Some(Op::Goto { pc }), Form::Short) = (self.code.ops.last(), self.form)
            && *pc == block.0
        {
            self.code.ops.pop();
            self.code.locs.pop();
            self.code.origins.pop();
        }
        self.labels[block.index()] = Some(self.here());
        let body = self.body;
        for (index, state) in body.states.iter().enumerate() {
            if state.block == block {
                (self.loc, self.origin) = (state.loc, Origin::State);
                self.emit(Op::State { index: index as u32 });
            }
        }
        let data = &body.blocks[block];
        for (at, data) in data.insts.iter().enumerate() {
            (self.loc, self.origin) = (data.loc, Origin::Inst(block, at));
            inst(self, data).map_err(|fault| format!("{block}: {fault}"))?;
        }
        if let Some(term) = &data.term {
            (self.loc, self.origin) = (term.loc, Origin::Term(block));
            self.term(block, &term.term).map_err(|fault| format!("{block}: {fault}"))?;
        }
        while let Some((label, edge)) = self.stubs.pop() {
            self.labels[label as usize] = Some(self.here());
            self.edge(&edge)?;
        }
        Ok(())
    }

    fn term(&mut self, block: Block, term: &Term) -> Result<(), Fault> {
        match term {
            Term::Jump(edge) => self.edge(edge)?,
            Term::Branch { cond, then, els } => {
                let c = self.value(*cond)?.slot;
                let (then, els) = (self.target(block, then)?, self.target(block, els)?);
                self.emit(Op::Branch { c, then, els });
            }
            Term::Switch { value, cases, default } => {
                let value = self.value(*value)?;
                let mut switch = Switch { value, narrow: Vec::new(), wide: Vec::new(), default: 0 };
                for (constant, edge) in cases {
                    let pc = self.target(block, edge)?;
                    let mut words = Vec::new();
                    entries::push_words(&constant.bits, value.words as usize, &mut words);
                    match words[..] {
                        [word] if !value.varbit => switch.narrow.push((word, pc)),
                        _ => switch.wide.push((words.into_boxed_slice(), pc)),
                    }
                }
                switch.default = self.target(block, default)?;
                switch.narrow.sort_by_key(|(word, _)| *word);
                let index = self.code.switches.len() as u32;
                self.code.switches.push(switch);
                self.emit(Op::Switch { index });
            }
            Term::Apply { table, keys, arms } => self.apply(*table, keys, arms)?,
            Term::Return => self.emit(Op::Return),
            Term::Exit => self.emit(Op::Exit),
            Term::Reject => self.emit(Op::Reject),
        }
        Ok(())
    }

    fn apply(&mut self, table: ir::TableId, keys: &[Value], arms: &[ir::Arm]) -> Result<(), Fault> {
        let declared = self.pipeline.tables.get(table).ok_or_else(|| format!("{table} does not exist"))?;
        if declared.keys.len() != keys.len() {
            return Err(format!("{} is applied with {} keys", declared.preamble.name, keys.len()));
        }
        let mut site = ApplySite { table: table.index(), keys: Vec::new(), arms: Vec::new() };
        for key in keys {
            site.keys.push(self.value(*key)?);
        }
        for listed in &declared.actions {
            let arm = arms.iter().find(|arm| arm.action == listed.action);
            let arm = arm.ok_or_else(|| format!("{} is applied without an arm for {}", table, listed.action))?;
            let params = &self.body.blocks.get(arm.block).ok_or("an arm's block does not exist")?.params;
            let wanted = self.pipeline.actions.get(listed.action).ok_or("an action does not exist")?.params.len();
            if params.len() != wanted + 1 || self.order[arm.block.index()].is_none() {
                return Err(format!("{} has {} parameters, {} wanted", arm.block, params.len(), wanted + 1));
            }
            let hit = self.value(params[0])?.slot;
            site.arms.push(Arm { pc: arm.block.0, hit, params: hit + 1 });
        }
        let index = self.code.applies.len() as u32;
        self.code.applies.push(site);
        self.emit(Op::Apply { index });
        Ok(())
    }

    /// A label that leads to the edge's target, by way of a stub if there is something to do on it.
    fn target(&mut self, from: Block, edge: &BlockCall) -> Result<Pc, Fault> {
        let to = self.order.get(edge.block.index()).copied().flatten();
        let back = to <= self.order[from.index()];
        if edge.args.is_empty() && !back {
            return Ok(edge.block.0);
        }
        let label = self.labels.len() as u32;
        self.labels.push(None);
        self.stubs.push((label, edge.clone()));
        Ok(label)
    }

    /// Moves the arguments and jumps.
    fn edge(&mut self, edge: &BlockCall) -> Result<(), Fault> {
        let params = &self.body.blocks.get(edge.block).ok_or("the target does not exist")?.params;
        if params.len() != edge.args.len() {
            return Err(format!("{} takes {} arguments, {} given", edge.block, params.len(), edge.args.len()));
        }
        let mut moves = Vec::new();
        for (at, (param, arg)) in params.iter().zip(&edge.args).enumerate() {
            let (d, a) = (self.value(*param)?, self.value(*arg)?);
            if d.words != a.words {
                return Err(format!("{arg} has another width than {param}"));
            }
            if d.slot != a.slot {
                moves.push((d, a, Origin::Edge(edge.block, Some(at))));
            }
        }
        self.parallel_moves(moves, edge.block);
        self.origin = Origin::Edge(edge.block, None);
        self.emit(Op::Goto { pc: edge.block.0 });
        Ok(())
    }

    /// Emits moves that happen at once, one after the other: a place that another move still reads is written last.
    fn parallel_moves(&mut self, mut moves: Vec<(Reg, Reg, Origin)>, to: Block) {
        while !moves.is_empty() {
            let free = moves.iter().position(|(d, ..)| moves.iter().all(|(_, a, _)| a.slot != d.slot));
            match free {
                Some(index) => {
                    let (d, a, origin) = moves.swap_remove(index);
                    self.origin = origin;
                    self.mov(d, a);
                }
                None => {
                    // Only cycles are left: one of their places is saved.
                    let saved = moves[0].0;
                    let ty = ir::Type::Bit(saved.words * 64);
                    let copy = Reg { slot: self.layout.value(ty).slot, ..saved };
                    self.origin = Origin::Edge(to, None);
                    self.mov(copy, saved);
                    for (_, a, _) in &mut moves {
                        if a.slot == saved.slot {
                            a.slot = copy.slot;
                        }
                    }
                }
            }
        }
    }

    /// Replaces labels by positions.
    fn resolve(&mut self) -> Result<(), Fault> {
        let labels = &self.labels;
        let find = |label: &mut Pc| match labels.get(*label as usize).copied().flatten() {
            Some(pc) => {
                *label = pc;
                Ok(())
            }
            None => Err(format!("block{label} does not exist")),
        };
        for (at, op) in self.code.ops.iter_mut().enumerate() {
            match op {
                Op::Goto { pc } => {
                    find(pc)?;
                    if *pc as usize <= at {
                        *op = Op::Back { pc: *pc };
                    }
                }
                Op::Branch { then, els, .. } => {
                    find(then)?;
                    find(els)?;
                }
                _ => {}
            }
        }
        for switch in &mut self.code.switches {
            switch.narrow.iter_mut().try_for_each(|(_, pc)| find(pc))?;
            switch.wide.iter_mut().try_for_each(|(_, pc)| find(pc))?;
            find(&mut switch.default)?;
        }
        self.code.applies.iter_mut().flat_map(|site| &mut site.arms).try_for_each(|arm| find(&mut arm.pc))
    }
}
