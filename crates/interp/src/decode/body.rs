//! Decodes one body: order of blocks, registers of values, jumps.

use crate::decode::decoder::{BodyDecoder, CodeGranularity};
use crate::decode::error::DecodeFault;
use crate::decode::inst::emit_inst;
use crate::decode::layout::RegisterLayout;
use crate::decode::uses::{LastUses, VariableWrites};
use crate::program::*;
use ir::{Block, BlockCall, Body, Control, Entity, Inst, Pipeline, SourceLoc, Terminator, Value};

/// Translates the body of a programmable block (parser, control, deparser) from a graph of basic
/// blocks into linear code: blocks in reverse postorder, values in registers, jumps to indices.
/// `form` is the granularity: one operation for each instruction, or fused ones. `layout` assigns
/// the registers of all blocks of the program.
pub(super) fn decode_body(
    pipeline: &Pipeline,
    layout: &mut RegisterLayout,
    control: &Control,
    form: CodeGranularity,
) -> Result<BlockCode, DecodeFault> {
    let body = &control.body;
    let states = body.states.iter().map(|state| state.name.clone()).collect();
    let code = BlockCode { name: control.name.clone(), kind: control.kind, states, ..BlockCode::empty() };
    let blocks = reverse_postorder(body)?;
    let mut order = vec![None; body.blocks.len()];
    for (position, block) in blocks.iter().enumerate() {
        order[block.index()] = Some(position);
    }
    let mut decoder = BodyDecoder {
        pipeline,
        layout,
        body,
        code,
        form,
        loc: SourceLoc::default(),
        origin: InstOrigin::Edge(Block::from_index(0), None),
        regs: vec![None; body.values.len()],
        order,
        labels: vec![None; body.blocks.len()],
        stubs: Vec::new(),
    };
    decoder.assign_registers(&blocks)?;
    for block in &blocks {
        decoder.emit_block(*block)?;
    }
    if blocks.is_empty() {
        decoder.emit(Op::Return);
    }
    decoder.resolve_labels()?;
    // Further labels belong to edges that pass block parameters.
    decoder.labels.truncate(body.blocks.len());
    Ok(BlockCode { blocks: decoder.labels, values: decoder.regs, ..decoder.code })
}

/// Returns the reachable blocks in reverse postorder, by a depth-first search without recursion, so
/// that a long program cannot exhaust the stack.
fn reverse_postorder(body: &Body) -> Result<Vec<Block>, DecodeFault> {
    let mut seen = vec![false; body.blocks.len()];
    let mut postorder = Vec::new();
    let Some(entry) = body.entry else { return Ok(postorder) };
    // Each block on the path, with the index of its successor to visit next.
    let mut stack = vec![(entry, 0)];
    *seen.get_mut(entry.index()).ok_or("the entry block does not exist")? = true;
    while let Some((block, successor_index)) = stack.pop() {
        let term = body.blocks[block].term.as_ref().ok_or_else(|| format!("{block} has no terminator"))?;
        let successors = successors(&term.term);
        match successors.get(successor_index) {
            None => postorder.push(block),
            Some(successor) => {
                stack.push((block, successor_index + 1));
                let is_seen = seen.get_mut(successor.index()).ok_or_else(|| format!("{successor} does not exist"))?;
                if !std::mem::replace(is_seen, true) {
                    stack.push((*successor, 0));
                }
            }
        }
    }
    postorder.reverse();
    Ok(postorder)
}

/// Returns the successors in reverse, so that the first one is emitted directly after its
/// predecessor.
fn successors(term: &Terminator) -> Vec<Block> {
    let mut blocks = match term {
        Terminator::Jump(target) => vec![target.block],
        Terminator::Branch { then, els, .. } => vec![then.block, els.block],
        Terminator::Switch { cases, default, .. } => {
            cases.iter().map(|(_, target)| target.block).chain([default.block]).collect()
        }
        Terminator::Apply { arms, .. } => arms.iter().map(|arm| arm.block).collect(),
        Terminator::Return | Terminator::Exit | Terminator::Reject => Vec::new(),
    };
    blocks.reverse();
    blocks
}

/// Registers of values.
impl BodyDecoder<'_> {
    /// Assigns registers to block parameters, constants and loads.
    ///
    /// Constants have words of their own. The parameters of a block are contiguous, because table
    /// arms rely on it. A load uses the variable itself if the variable is not written before the
    /// last use.
    fn assign_registers(&mut self, blocks: &[Block]) -> Result<(), DecodeFault> {
        let last_use = LastUses::new(self.body, blocks);
        for block in blocks {
            let data = &self.body.blocks[*block];
            for param in &data.params {
                let ty = *self.body.values.get(*param).ok_or_else(|| format!("{param} does not exist"))?;
                self.regs[param.index()] = Some(self.layout.alloc_value(ty));
            }
            let writes = VariableWrites::new(self.pipeline, &data.insts);
            for (position, data) in data.insts.iter().enumerate() {
                let [result] = data.results[..] else { continue };
                if result.index() >= self.regs.len() {
                    return Err(format!("{result} does not exist"));
                }
                match &data.inst {
                    Inst::Const(constant) => self.regs[result.index()] = Some(self.layout.alloc_constant(constant)),
                    Inst::Load(var) if self.form == CodeGranularity::Short => {
                        let last_position = last_use.last_in_block(*block, result);
                        if last_position
                            .is_some_and(|last_position| !writes.has_write_between(*var, position, last_position))
                        {
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
impl BodyDecoder<'_> {
    fn next_index(&self) -> InstIndex {
        self.code.ops.len() as InstIndex
    }

    /// Emits the code of a block, then the stubs of its outgoing edges that need moves. Its label
    /// becomes the index of its first instruction.
    fn emit_block(&mut self, block: Block) -> Result<(), DecodeFault> {
        // A jump to the next instruction is redundant. Its target is still a label: the block.
        if let (Some(Op::Goto { pc }), CodeGranularity::Short) = (self.code.ops.last(), self.form)
            && *pc == block.0
        {
            self.code.ops.pop();
            self.code.locs.pop();
            self.code.origins.pop();
        }
        self.labels[block.index()] = Some(self.next_index());
        let body = self.body;
        for (index, state) in body.states.iter().enumerate() {
            if state.block == block {
                (self.loc, self.origin) = (state.loc, InstOrigin::State);
                self.emit(Op::State { index: index as u32 });
            }
        }
        let data = &body.blocks[block];
        for (index, data) in data.insts.iter().enumerate() {
            (self.loc, self.origin) = (data.loc, InstOrigin::Inst(block, index));
            emit_inst(self, data).map_err(|fault| format!("{block}: {fault}"))?;
        }
        if let Some(term) = &data.term {
            (self.loc, self.origin) = (term.loc, InstOrigin::Term(block));
            self.emit_terminator(block, &term.term).map_err(|fault| format!("{block}: {fault}"))?;
        }
        while let Some((label, edge)) = self.stubs.pop() {
            self.labels[label as usize] = Some(self.next_index());
            self.emit_edge(&edge)?;
        }
        Ok(())
    }

    /// Emits the branch at the end of a block. Targets are labels until
    /// [`BodyDecoder::resolve_labels`].
    fn emit_terminator(&mut self, block: Block, term: &Terminator) -> Result<(), DecodeFault> {
        match term {
            Terminator::Jump(edge) => self.emit_edge(edge)?,
            Terminator::Branch { cond, then, els } => {
                let c = self.value(*cond)?.first_word;
                let (then, els) = (self.edge_label(block, then)?, self.edge_label(block, els)?);
                self.emit(Op::Branch { c, then, els });
            }
            Terminator::Switch { value, cases, default } => {
                let value = self.value(*value)?;
                let mut switch = DecodedSwitch { value, narrow: Vec::new(), wide: Vec::new(), default: 0 };
                for (constant, edge) in cases {
                    let pc = self.edge_label(block, edge)?;
                    let mut words = Vec::new();
                    entries::push_words(&constant.bits, value.words as usize, &mut words);
                    // Constants of one word are found by binary search, longer ones and varbits by
                    // comparison.
                    match words[..] {
                        [word] if !value.is_varbit => switch.narrow.push((word, pc)),
                        _ => switch.wide.push((words.into_boxed_slice(), pc)),
                    }
                }
                switch.default = self.edge_label(block, default)?;
                switch.narrow.sort_by_key(|(word, _)| *word);
                let index = self.code.switches.len() as u32;
                self.code.switches.push(switch);
                self.emit(Op::Switch { index });
            }
            Terminator::Apply { table, keys, arms } => self.emit_apply(*table, keys, arms)?,
            Terminator::Return => self.emit(Op::Return),
            Terminator::Exit => self.emit(Op::Exit),
            Terminator::Reject => self.emit(Op::Reject),
        }
        Ok(())
    }

    /// Emits a table application. The arms are in the order of the table's actions; each block of
    /// an arm takes `hit` and the action parameters.
    fn emit_apply(&mut self, table: ir::TableId, keys: &[Value], arms: &[ir::ActionArm]) -> Result<(), DecodeFault> {
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
            // The action parameters follow `hit`, because the parameters of a block are contiguous.
            let hit = self.value(params[0])?.first_word;
            site.arms.push(ApplyArm { pc: arm.block.0, hit, params: hit + 1 });
        }
        let index = self.code.applies.len() as u32;
        self.code.applies.push(site);
        self.emit(Op::Apply { index });
        Ok(())
    }

    /// Returns a label for the target of the edge. The label is a stub if the edge has moves or
    /// goes backwards.
    fn edge_label(&mut self, from: Block, edge: &BlockCall) -> Result<InstIndex, DecodeFault> {
        let target = self.order.get(edge.block.index()).copied().flatten();
        let is_backward = target <= self.order[from.index()];
        if edge.args.is_empty() && !is_backward {
            return Ok(edge.block.0);
        }
        let label = self.labels.len() as u32;
        self.labels.push(None);
        self.stubs.push((label, edge.clone()));
        Ok(label)
    }

    /// Moves the arguments to the block parameters and jumps.
    fn emit_edge(&mut self, edge: &BlockCall) -> Result<(), DecodeFault> {
        let params = &self.body.blocks.get(edge.block).ok_or("the target does not exist")?.params;
        if params.len() != edge.args.len() {
            return Err(format!("{} takes {} arguments, {} given", edge.block, params.len(), edge.args.len()));
        }
        let mut moves = Vec::new();
        for (arg_index, (param, arg)) in params.iter().zip(&edge.args).enumerate() {
            let (d, a) = (self.value(*param)?, self.value(*arg)?);
            if d.words != a.words {
                return Err(format!("{arg} has another width than {param}"));
            }
            if d.first_word != a.first_word {
                moves.push((d, a, InstOrigin::Edge(edge.block, Some(arg_index))));
            }
        }
        self.parallel_moves(moves, edge.block);
        self.origin = InstOrigin::Edge(edge.block, None);
        self.emit(Op::Goto { pc: edge.block.0 });
        Ok(())
    }

    /// Emits parallel moves as a sequence: a register is written only when no remaining move reads
    /// it. A move is its destination, its source and its origin; `to` is the target of the edge.
    fn parallel_moves(&mut self, mut moves: Vec<(Reg, Reg, InstOrigin)>, to: Block) {
        while !moves.is_empty() {
            let unread = moves.iter().position(|(d, ..)| moves.iter().all(|(_, a, _)| a.first_word != d.first_word));
            match unread {
                Some(index) => {
                    let (d, a, origin) = moves.swap_remove(index);
                    self.origin = origin;
                    self.emit_move(d, a);
                }
                None => {
                    // Only cycles remain, so that one register is saved first.
                    let saved = moves[0].0;
                    let temporary_type = ir::Type::Bit(saved.words * 64);
                    let temporary = Reg { first_word: self.layout.alloc_value(temporary_type).first_word, ..saved };
                    self.origin = InstOrigin::Edge(to, None);
                    self.emit_move(temporary, saved);
                    for (_, a, _) in &mut moves {
                        if a.first_word == saved.first_word {
                            a.first_word = temporary.first_word;
                        }
                    }
                }
            }
        }
    }

    /// Replaces labels by instruction indices. A jump backwards becomes [`Op::Back`], which
    /// consumes fuel, so that each loop ends.
    fn resolve_labels(&mut self) -> Result<(), DecodeFault> {
        let labels = &self.labels;
        let resolve = |label: &mut InstIndex| match labels.get(*label as usize).copied().flatten() {
            Some(pc) => {
                *label = pc;
                Ok(())
            }
            None => Err(format!("block{label} does not exist")),
        };
        for (index, op) in self.code.ops.iter_mut().enumerate() {
            match op {
                Op::Goto { pc } => {
                    resolve(pc)?;
                    if *pc as usize <= index {
                        *op = Op::Back { pc: *pc };
                    }
                }
                Op::Branch { then, els, .. } => {
                    resolve(then)?;
                    resolve(els)?;
                }
                _ => {}
            }
        }
        for switch in &mut self.code.switches {
            switch.narrow.iter_mut().try_for_each(|(_, pc)| resolve(pc))?;
            switch.wide.iter_mut().try_for_each(|(_, pc)| resolve(pc))?;
            resolve(&mut switch.default)?;
        }
        self.code.applies.iter_mut().flat_map(|site| &mut site.arms).try_for_each(|arm| resolve(&mut arm.pc))
    }
}
