//! Assignment of instructions to passes.
//!
//! Tables are in the passes that the placement chose. The surrounding code follows: each store and
//! each call runs in the first pass in which its inputs are available and all preceding effects are
//! complete. Pure computations are repeated wherever their operands are unchanged. Each pass
//! therefore runs its own part of each control, from the control's start, and a packet meets the
//! tables pass by pass even if the program has another order. A table placed before its inputs has
//! no valid order.

use super::order_error::OrderError;
use super::placed::PlacementMap;
use fixedbitset::FixedBitSet;
use ir::{
    Block, Body, ControlKind, Entity, ExternFn, ExternId, ExternKind, Inst, Pipeline, TableId, Terminator, Value,
    VarId, VarKind,
};
use std::collections::BTreeMap;

/// Passes of an instruction: the first in which it can run, and the last in which it has the same
/// result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PassRange {
    /// First pass that runs it. An instruction with an effect runs only in this pass.
    pub first: u16,
    /// Last pass that can repeat it.
    pub last: u16,
}

/// No pass.
pub const NO_PASS: i32 = -1;

/// Passes of a control's code.
#[derive(Clone, Debug, Default)]
pub struct PassSchedule {
    /// For each block, the passes of each instruction.
    pub insts: Vec<Vec<PassRange>>,
    /// For each block, the pass that sets its parameters.
    pub params: Vec<u16>,
    /// For each block, the last pass with work on its outgoing paths up to their join, or
    /// [`NO_PASS`].
    pub relevant: Vec<i32>,
    /// For each value, the first pass in which it is available.
    pub values: Vec<u16>,
    /// First pass of the control.
    pub begin: u16,
    /// Last pass with work.
    pub end: u16,
}

/// Numbering of the state that code accesses: variables, validities, and state of extern objects
/// and the architecture.
struct CellNumbers {
    vars: usize,
    headers: usize,
    externs: usize,
}

impl CellNumbers {
    fn count(&self) -> usize {
        self.vars + self.headers + self.externs + 1
    }
    fn header(&self, header: ir::HeaderId) -> usize {
        self.vars + header.index()
    }
    fn object(&self, object: ExternId) -> usize {
        self.vars + self.headers + object.index()
    }
    /// Returns the cell of architecture calls and random numbers.
    fn architecture_cell(&self) -> usize {
        self.vars + self.headers + self.externs
    }
}

/// Reads and writes of an instruction.
#[derive(Default)]
struct AccessSet {
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// Whether it has no effect besides its result.
    pure: bool,
}

/// Scheduler of one control.
struct PassScheduler<'a> {
    pipeline: &'a Pipeline,
    body: &'a Body,
    placed: &'a PlacementMap,
    order: Vec<Block>,
    joins: &'a [Option<Block>],
    cells: CellNumbers,
    /// For each block, the terminators that decide whether it runs.
    deciders: Vec<Vec<Block>>,
    schedule: PassSchedule,
    /// Objects with state between calls within a pass, and the one pass in which all their calls
    /// run.
    joint_passes: BTreeMap<ExternId, u16>,
}

impl PassSchedule {
    /// Creates a schedule with all code of a control in one pass.
    pub fn single_pass(body: &Body, pass: u16) -> PassSchedule {
        PassSchedule {
            insts: body
                .blocks
                .values()
                .map(|block| vec![PassRange { first: pass, last: pass }; block.insts.len()])
                .collect(),
            params: vec![pass; body.blocks.len()],
            relevant: vec![i32::from(pass); body.blocks.len()],
            values: vec![pass; body.values.len()],
            begin: pass,
            end: pass,
        }
    }

    /// Schedules a control that starts in pass `begin`.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn new(
        pipeline: &Pipeline,
        control: &ir::Control,
        joins: &[Option<Block>],
        placed: &PlacementMap,
        begin: u16,
    ) -> Result<PassSchedule, OrderError> {
        let body = &control.body;
        let order = ir::reverse_postorder(body);
        let tables: Vec<TableId> =
            order.iter().filter_map(|block| applied_table(body, *block).map(|(table, _)| table)).collect();
        let table_parts = || tables.iter().filter_map(|table| placed.tables.get(table)).flat_map(|table| &table.parts);
        if table_parts().all(|part| part.pass == u32::from(begin)) || matches!(control.kind, ControlKind::PreControl) {
            return Ok(PassSchedule::single_pass(body, begin));
        }
        let cells =
            CellNumbers { vars: pipeline.vars.len(), headers: pipeline.headers.len(), externs: pipeline.externs.len() };
        let name = &control.name;
        if order.len() > MAX_BLOCKS || order.len().saturating_mul(cells.count()) > MAX_BLOCK_CELLS {
            return Err(OrderError::TooLarge { control: name.clone() });
        }
        let mut position = vec![usize::MAX; body.blocks.len()];
        order.iter().enumerate().for_each(|(index, block)| position[block.index()] = index);
        let has_back_edge = |block: &Block| {
            body.blocks[*block].successors().iter().any(|next| position[next.index()] <= position[block.index()])
        };
        if order.iter().any(has_back_edge) {
            return Err(OrderError::Loop { control: name.clone() });
        }
        let insts = || body.blocks.values().flat_map(|block| &block.insts);
        if insts().any(|data| matches!(data.inst, Inst::Extern { func: ExternFn::Assert | ExternFn::Assume, .. })) {
            return Err(OrderError::Assert { control: name.clone() });
        }
        let mut scheduler = PassScheduler {
            pipeline,
            body,
            placed,
            deciders: controlling_branches(body, &order, joins),
            order,
            joins,
            cells,
            schedule: PassSchedule::single_pass(body, begin),
            joint_passes: BTreeMap::new(),
        };
        scheduler.schedule_forward(begin)?;
        // The state of a checksum object is lost at a crossing, so its calls all wait for the pass
        // of the last one.
        while scheduler.gather_objects() {
            scheduler.schedule = PassSchedule::single_pass(body, begin);
            scheduler.schedule_forward(begin)?;
        }
        scheduler.extend_recomputation();
        scheduler.compute_relevance();
        Ok(scheduler.schedule)
    }
}

/// Maximum number of blocks. No chip runs larger programs.
const MAX_BLOCKS: usize = 1 << 13;

/// Maximum product of blocks and cells.
const MAX_BLOCK_CELLS: usize = 1 << 26;

fn applied_table(body: &Body, block: Block) -> Option<(TableId, &[Value])> {
    match body.blocks[block].term.as_ref().map(|term| &term.term) {
        Some(Terminator::Apply { table, keys, .. }) => Some((*table, keys)),
        _ => None,
    }
}

/// Returns the blocks on a block's outgoing paths, up to their join.
pub fn blocks_until_join(body: &Body, block: Block, join: Option<Block>) -> Vec<Block> {
    let mut seen = FixedBitSet::default();
    let mut open = body.blocks[block].successors();
    let mut found = Vec::new();
    while let Some(next) = open.pop() {
        if Some(next) == join || seen.contains(next.index()) {
            continue;
        }
        seen.grow_and_insert(next.index());
        found.push(next);
        open.extend(body.blocks[next].successors());
    }
    found
}

/// Returns for each block the branches that decide whether it runs.
fn controlling_branches(body: &Body, order: &[Block], joins: &[Option<Block>]) -> Vec<Vec<Block>> {
    let mut deciders = vec![Vec::new(); body.blocks.len()];
    for block in order.iter().filter(|block| body.blocks[**block].successors().len() > 1) {
        for inside in blocks_until_join(body, *block, joins[block.index()]) {
            deciders[inside.index()].push(*block);
        }
    }
    deciders
}

impl PassScheduler<'_> {
    /// Finds objects with calls in several passes and assigns each to one pass. Returns whether
    /// there was one.
    fn gather_objects(&mut self) -> bool {
        let mut passes: BTreeMap<ExternId, [u16; 2]> = BTreeMap::new();
        for (block, data) in self.body.blocks.iter() {
            for (at, data) in data.insts.iter().enumerate() {
                if let Some(object) = self.stateful_object(&data.inst) {
                    let pass = self.schedule.insts[block.index()][at].first;
                    let [first, last] = passes.entry(object).or_insert([pass, pass]);
                    (*first, *last) = ((*first).min(pass), (*last).max(pass));
                }
            }
        }
        let apart: Vec<(ExternId, [u16; 2])> = passes.into_iter().filter(|(_, [first, last])| first != last).collect();
        apart.iter().for_each(|(object, [_, last])| {
            self.joint_passes.insert(*object, *last);
        });
        !apart.is_empty()
    }

    /// Returns the object of a call, if it keeps state within a pass.
    fn stateful_object(&self, inst: &Inst) -> Option<ExternId> {
        let Inst::Extern { object: Some(object), .. } = inst else { return None };
        let kind = &self.pipeline.externs.get(*object)?.kind;
        matches!(kind, ExternKind::Checksum { .. } | ExternKind::InternetChecksum).then_some(*object)
    }

    /// Returns the pass in which a terminator's decision is known.
    fn decided_pass(&self, block: Block) -> u16 {
        match self.body.blocks[block].term.as_ref().map(|term| &term.term) {
            Some(Terminator::Branch { cond, .. }) => self.schedule.values[cond.index()],
            Some(Terminator::Switch { value, .. }) => self.schedule.values[value.index()],
            Some(Terminator::Apply { table, .. }) => self.last_pass(*table),
            _ => 0,
        }
    }

    fn last_pass(&self, table: TableId) -> u16 {
        self.placed.tables.get(&table).and_then(|table| table.parts.last()).map_or(0, |part| part.pass as u16)
    }

    /// Computes the first pass of all code, in program order.
    fn schedule_forward(&mut self, begin: u16) -> Result<(), OrderError> {
        let order = self.order.clone();
        // For each block, the cells' passes on entry: `[last write, last read]`, the maximum over
        // paths.
        let mut cells_at_entry: Vec<Option<Vec<[u16; 2]>>> = vec![None; self.body.blocks.len()];
        if let Some(entry) = self.body.entry {
            cells_at_entry[entry.index()] = Some(vec![[begin; 2]; self.cells.count()]);
        }
        // The jumps to a block determine its parameters.
        let mut param_passes = vec![begin; self.body.blocks.len()];
        for block in order {
            let mut cells = cells_at_entry[block.index()].take().unwrap_or_default();
            let control = self.deciders[block.index()]
                .iter()
                .map(|decider| self.decided_pass(*decider))
                .max()
                .unwrap_or(begin)
                .max(begin);
            let params = param_passes[block.index()];
            self.schedule.params[block.index()] = params;
            for param in &self.body.blocks[block].params {
                self.schedule.values[param.index()] = params;
            }
            self.schedule_block(block, control, &mut cells)?;
            self.schedule_term(block, control, &mut cells, &mut param_passes)?;
            for next in self.body.blocks[block].successors() {
                match &mut cells_at_entry[next.index()] {
                    Some(merged) => {
                        for (a, b) in merged.iter_mut().zip(&cells) {
                            *a = [a[0].max(b[0]), a[1].max(b[1])];
                        }
                    }
                    none => *none = Some(cells.clone()),
                }
            }
        }
        Ok(())
    }

    /// Computes the pass of each instruction of a block: the first one not before `control` (the
    /// pass in which the path to the block is known), the writes of the cells that it reads and all
    /// accesses to the cells that it writes. `cells` has the passes of each cell's last write and
    /// last read.
    fn schedule_block(&mut self, block: Block, control: u16, cells: &mut [[u16; 2]]) -> Result<(), OrderError> {
        let body = self.body;
        for (index, data) in body.blocks[block].insts.iter().enumerate() {
            let access = self.access_set(&data.inst);
            let mut pass = control;
            data.inst.for_each_use(|value| pass = pass.max(self.schedule.values[value.index()]));
            pass = access.reads.iter().map(|cell| cells[*cell][0]).fold(pass, u16::max);
            pass = access.writes.iter().map(|cell| cells[*cell][0].max(cells[*cell][1])).fold(pass, u16::max);
            if let Some(object) = self.stateful_object(&data.inst) {
                pass = pass.max(self.joint_passes.get(&object).copied().unwrap_or(0));
            }
            // The state of an entry is in the pass of its table and nowhere else.
            if let Some(table) = entry_state_table(&data.inst) {
                let table_pass = self.last_pass(table);
                let parts = self.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
                let is_split = parts.iter().any(|part| part.pass != u32::from(table_pass));
                if pass > table_pass || is_split {
                    let table = self.pipeline.tables[table].preamble.name.clone();
                    let used_pass = u32::from(if is_split { table_pass } else { pass });
                    let first = parts.first().map_or(0, |part| part.pass);
                    return Err(OrderError::State { table, pass: first.min(u32::from(table_pass)), used: used_pass });
                }
                pass = pass.max(table_pass);
            }
            access.reads.iter().for_each(|cell| cells[*cell][1] = cells[*cell][1].max(pass));
            access.writes.iter().for_each(|cell| cells[*cell][0] = cells[*cell][0].max(pass));
            self.schedule.insts[block.index()][index] = PassRange { first: pass, last: pass };
            data.results.iter().for_each(|result| self.schedule.values[result.index()] = pass);
            if !access.pure {
                self.schedule.end = self.schedule.end.max(pass);
            }
        }
        Ok(())
    }

    /// Raises the passes of the parameters (`param_passes`, by block) of a terminator's successors,
    /// and checks a table application. `control` is the pass in which the path to the block is
    /// known.
    fn schedule_term(
        &mut self,
        block: Block,
        control: u16,
        cells: &mut [[u16; 2]],
        param_passes: &mut [u16],
    ) -> Result<(), OrderError> {
        let body = self.body;
        let Some(term) = body.blocks[block].term.as_ref().map(|term| &term.term) else { return Ok(()) };
        let decided = self.decided_pass(block).max(control);
        if let Terminator::Apply { table, keys, arms } = term {
            self.check_application(*table, keys, control, cells)?;
            for arm in arms {
                param_passes[arm.block.index()] = param_passes[arm.block.index()].max(decided);
            }
        }
        let values = &self.schedule.values;
        term.for_each_call(|call| {
            let has_params = call.args.iter().map(|arg| values[arg.index()]).max().unwrap_or(0);
            // A jump runs as soon as the path to it is known.
            param_passes[call.block.index()] = param_passes[call.block.index()].max(has_params).max(decided);
        });
        let has_params = term.successors().iter().any(|next| !body.blocks[*next].params.is_empty());
        if has_params {
            let last_param_pass = term.successors().iter().map(|next| param_passes[next.index()]).max().unwrap_or(0);
            self.schedule.end = self.schedule.end.max(last_param_pass);
        }
        Ok(())
    }

    /// Checks that the inputs of a table are available in its first pass: the key, the condition
    /// (`control`) and the variable of the meter's color. Marks that variable as written in the
    /// table's last pass.
    fn check_application(
        &mut self,
        table: TableId,
        keys: &[Value],
        control: u16,
        cells: &mut [[u16; 2]],
    ) -> Result<(), OrderError> {
        let first = self.placed.tables.get(&table).and_then(|table| table.parts.first()).map_or(0, |part| part.pass);
        let last = self.last_pass(table);
        let key_pass = keys.iter().map(|key_pass| self.schedule.values[key_pass.index()]).max().unwrap_or(0);
        let color_cell = self.pipeline.tables[table].meter_result.map(|color_cell| color_cell.index());
        let color_pass = color_cell.map_or(0, |cell| cells[cell][0].max(cells[cell][1]));
        for (needed, input) in
            [(key_pass, "its key"), (control, "its condition"), (color_pass, "the variable of its color")]
        {
            if u32::from(needed) > first {
                let table = self.pipeline.tables[table].preamble.name.clone();
                return Err(OrderError::Early { table, pass: first, need: u32::from(needed), what: input });
            }
        }
        if let Some(cell) = color_cell {
            cells[cell][0] = cells[cell][0].max(last);
        }
        self.schedule.end = self.schedule.end.max(last);
        Ok(())
    }

    /// Computes the last pass that can repeat each pure computation: until a variable that it reads
    /// is written.
    fn extend_recomputation(&mut self) {
        let pass_count = self.placed.passes.len() as u16;
        // For each block, the first pass at or after it that writes each cell.
        let mut writes_ahead: Vec<Option<Vec<u16>>> = vec![None; self.body.blocks.len()];
        let mut loads: BTreeMap<(usize, usize), u16> = BTreeMap::new();
        for block in self.order.iter().rev() {
            let mut next = vec![pass_count; self.cells.count()];
            for successor in self.body.blocks[*block].successors() {
                if let Some(after) = &writes_ahead[successor.index()] {
                    next.iter_mut().zip(after).for_each(|(a, b)| *a = (*a).min(*b));
                }
            }
            if let Some((table, _)) = applied_table(self.body, *block)
                && let Some(var) = self.pipeline.tables[table].meter_result
            {
                let first =
                    self.placed.tables.get(&table).and_then(|t| t.parts.first()).map_or(0, |part| part.pass as u16);
                next[var.index()] = next[var.index()].min(first);
            }
            for (index, data) in self.body.blocks[*block].insts.iter().enumerate().rev() {
                let access = self.access_set(&data.inst);
                let span = self.schedule.insts[block.index()][index];
                if access.pure {
                    let last = access.reads.iter().map(|cell| next[*cell]).min().unwrap_or(pass_count);
                    loads.insert((block.index(), index), last);
                }
                access.writes.iter().for_each(|cell| next[*cell] = next[*cell].min(span.first));
            }
            writes_ahead[block.index()] = Some(next);
        }
        // A value can be recomputed as long as all its operands can.
        let mut last: Vec<u16> = self.schedule.values.clone();
        for block in &self.order {
            for (index, data) in self.body.blocks[*block].insts.iter().enumerate() {
                let Some(load_limit) = loads.get(&(block.index(), index)) else { continue };
                let mut limit = *load_limit;
                data.inst.for_each_use(|value| limit = limit.min(last[value.index()]));
                let span = &mut self.schedule.insts[block.index()][index];
                span.last = limit.max(span.first);
                data.results.iter().for_each(|result| last[result.index()] = span.last);
            }
        }
    }

    /// Computes for each branch the last pass in which the taken path matters.
    fn compute_relevance(&mut self) {
        let last_passes: Vec<i32> = self.body.blocks.keys().map(|block| self.last_own_pass(block)).collect();
        self.schedule.relevant = vec![NO_PASS; self.body.blocks.len()];
        for block in self.order.iter().filter(|block| self.body.blocks[**block].successors().len() > 1) {
            let join = self.joins[block.index()];
            let inside =
                blocks_until_join(self.body, *block, join).into_iter().map(|inside| last_passes[inside.index()]).max();
            let join_with_params = join.filter(|join| !self.body.blocks[*join].params.is_empty());
            let join_with_params = join_with_params.map(|join| i32::from(self.schedule.params[join.index()]));
            self.schedule.relevant[block.index()] = inside.into_iter().chain(join_with_params).max().unwrap_or(NO_PASS);
        }
        for block in self.order.clone() {
            // A table with one successor decides nothing, but it must still be applied up to its
            // last pass.
            if let [_] = self.body.blocks[block].successors()[..]
                && let Some((table, _)) = applied_table(self.body, block)
            {
                let inside = self.body.blocks[block]
                    .successors()
                    .into_iter()
                    .map(|next| last_passes[next.index()])
                    .max()
                    .unwrap_or(NO_PASS);
                self.schedule.relevant[block.index()] = inside.max(i32::from(self.last_pass(table)));
            }
        }
    }

    /// Returns the last pass in which a block itself has work.
    fn last_own_pass(&self, block: Block) -> i32 {
        let data = &self.body.blocks[block];
        let insts = data.insts.iter().enumerate().filter(|(_, data)| !self.access_set(&data.inst).pure);
        let insts = insts.map(|(at, _)| i32::from(self.schedule.insts[block.index()][at].first));
        let params = (!data.params.is_empty()).then(|| i32::from(self.schedule.params[block.index()]));
        let table = applied_table(self.body, block).map(|(table, _)| i32::from(self.last_pass(table)));
        // An early exit matters to the following code, which is in the branch's region as well.
        insts.chain(params).chain(table).max().unwrap_or(NO_PASS)
    }

    fn field_cells(&self, header: ir::HeaderId) -> impl Iterator<Item = usize> + '_ {
        self.pipeline.headers[header].fields.iter().map(|var| var.index())
    }

    /// Returns the cells of the other members of a header's union, with their fields.
    fn sibling_cells(&self, header: ir::HeaderId) -> Vec<usize> {
        let union = self.pipeline.headers[header].union.and_then(|union| self.pipeline.unions.get(union));
        let members = union.into_iter().flat_map(|union| &union.members).filter(|member| **member != header);
        members
            .flat_map(|member| std::iter::once(self.cells.header(*member)).chain(self.field_cells(*member)))
            .collect()
    }

    /// Returns the cells that an instruction reads and writes. A write to a member of a header
    /// union changes the validity of the other members (`sibling_cells`).
    fn access_set(&self, inst: &Inst) -> AccessSet {
        let cells = &self.cells;
        let read = |reads: Vec<usize>| AccessSet { reads, writes: Vec::new(), pure: true };
        match inst {
            Inst::Load(var) => read(vec![var.index()]),
            Inst::IsValid(header) => read(vec![cells.header(*header)]),
            Inst::Const(_)
            | Inst::Unary(..)
            | Inst::Binary(..)
            | Inst::Cast(..)
            | Inst::Slice { .. }
            | Inst::Concat(..)
            | Inst::Select { .. } => read(Vec::new()),
            Inst::Store(var, _) => {
                let reads = match self.pipeline.vars[*var].kind {
                    VarKind::Field(header, _) => vec![cells.header(header)],
                    _ => Vec::new(),
                };
                AccessSet { reads, writes: vec![var.index()], pure: false }
            }
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                let mut writes: Vec<usize> =
                    std::iter::once(cells.header(*header)).chain(self.field_cells(*header)).collect();
                if let Inst::SetValid(_) = inst {
                    writes.extend(self.sibling_cells(*header));
                }
                AccessSet { reads: Vec::new(), writes, pure: false }
            }
            Inst::CopyHeader { dst, src } => {
                let reads = std::iter::once(cells.header(*src)).chain(self.field_cells(*src)).collect();
                let mut writes: Vec<usize> =
                    std::iter::once(cells.header(*dst)).chain(self.field_cells(*dst)).collect();
                writes.extend(self.sibling_cells(*dst));
                AccessSet { reads, writes, pure: false }
            }
            Inst::Emit(header) => {
                let reads = std::iter::once(cells.header(*header)).chain(self.field_cells(*header)).collect();
                AccessSet { reads, writes: vec![cells.architecture_cell()], pure: false }
            }
            Inst::Extern { object, func, .. } => self.call_access_set(*object, *func),
            _ => AccessSet { reads: Vec::new(), writes: vec![cells.architecture_cell()], pure: false },
        }
    }

    /// Returns the cells that an extern call reads and writes. An object's state is one cell.
    fn call_access_set(&self, object: Option<ExternId>, func: ExternFn) -> AccessSet {
        use ExternFn::*;
        let cells = &self.cells;
        let mut access = AccessSet::default();
        match func {
            // Counter additions commute.
            CounterCount | DirectCounterCount | LogMsg => {}
            Hash | HashGet | Checksum16Get | IsHostPort | IsNetPort | UpdateChecksum | UpdateChecksumWithPayload => {}
            MarkToDrop => {
                let intrinsic_cell = |name: &str| {
                    interp::host::architecture::intrinsic(self.pipeline, name).map(|var: VarId| var.index())
                };
                access.writes.extend(intrinsic_cell("standard_metadata.egress_spec"));
                access.writes.extend(intrinsic_cell("standard_metadata.mcast_grp"));
            }
            // All random externs share one generator.
            Random | RandomRead => access.writes.push(cells.architecture_cell()),
            _ => access.writes.push(object.map_or(cells.architecture_cell(), |object| cells.object(object))),
        }
        access
    }
}

/// Returns the table of the entry that a call accesses.
fn entry_state_table(inst: &Inst) -> Option<TableId> {
    let Inst::Extern { args, .. } = inst else { return None };
    args.iter().find_map(|arg| if let ir::ExternArg::Table(table) = arg { Some(*table) } else { None })
}
