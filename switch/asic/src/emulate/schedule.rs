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
        let parts = || tables.iter().filter_map(|table| placed.tables.get(table)).flat_map(|table| &table.parts);
        if parts().all(|part| part.pass == u32::from(begin)) || matches!(control.kind, ControlKind::PreControl) {
            return Ok(PassSchedule::single_pass(body, begin));
        }
        let cells =
            CellNumbers { vars: pipeline.vars.len(), headers: pipeline.headers.len(), externs: pipeline.externs.len() };
        let name = &control.name;
        if order.len() > MAX_BLOCKS || order.len().saturating_mul(cells.count()) > MAX_BLOCK_CELLS {
            return Err(OrderError::TooLarge { control: name.clone() });
        }
        let mut position = vec![usize::MAX; body.blocks.len()];
        order.iter().enumerate().for_each(|(at, block)| position[block.index()] = at);
        let back = |block: &Block| {
            body.blocks[*block].successors().iter().any(|next| position[next.index()] <= position[block.index()])
        };
        if order.iter().any(back) {
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
        let mut done: Vec<Option<Vec<[u16; 2]>>> = vec![None; self.body.blocks.len()];
        if let Some(entry) = self.body.entry {
            done[entry.index()] = Some(vec![[begin; 2]; self.cells.count()]);
        }
        // The jumps to a block determine its parameters.
        let mut given = vec![begin; self.body.blocks.len()];
        for block in order {
            let mut cells = done[block.index()].take().unwrap_or_default();
            let control =
                self.deciders[block.index()].iter().map(|by| self.decided_pass(*by)).max().unwrap_or(begin).max(begin);
            let params = given[block.index()];
            self.schedule.params[block.index()] = params;
            for param in &self.body.blocks[block].params {
                self.schedule.values[param.index()] = params;
            }
            self.schedule_block(block, control, &mut cells)?;
            self.schedule_term(block, control, &mut cells, &mut given)?;
            for next in self.body.blocks[block].successors() {
                match &mut done[next.index()] {
                    Some(there) => {
                        for (a, b) in there.iter_mut().zip(&cells) {
                            *a = [a[0].max(b[0]), a[1].max(b[1])];
                        }
                    }
                    none => *none = Some(cells.clone()),
                }
            }
        }
        Ok(())
    }

    fn schedule_block(&mut self, block: Block, control: u16, cells: &mut [[u16; 2]]) -> Result<(), OrderError> {
        let body = self.body;
        for (at, data) in body.blocks[block].insts.iter().enumerate() {
            let touch = self.access_set(&data.inst);
            let mut pass = control;
            data.inst.for_each_use(|value| pass = pass.max(self.schedule.values[value.index()]));
            pass = touch.reads.iter().map(|cell| cells[*cell][0]).fold(pass, u16::max);
            pass = touch.writes.iter().map(|cell| cells[*cell][0].max(cells[*cell][1])).fold(pass, u16::max);
            if let Some(object) = self.stateful_object(&data.inst) {
                pass = pass.max(self.joint_passes.get(&object).copied().unwrap_or(0));
            }
            if let Some(table) = entry_state_table(&data.inst) {
                let own = self.last_pass(table);
                let parts = self.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
                let apart = parts.iter().any(|part| part.pass != u32::from(own));
                if pass > own || apart {
                    let table = self.pipeline.tables[table].preamble.name.clone();
                    let used = u32::from(if apart { own } else { pass });
                    let first = parts.first().map_or(0, |part| part.pass);
                    return Err(OrderError::State { table, pass: first.min(u32::from(own)), used });
                }
                pass = pass.max(own);
            }
            touch.reads.iter().for_each(|cell| cells[*cell][1] = cells[*cell][1].max(pass));
            touch.writes.iter().for_each(|cell| cells[*cell][0] = cells[*cell][0].max(pass));
            self.schedule.insts[block.index()][at] = PassRange { first: pass, last: pass };
            data.results.iter().for_each(|result| self.schedule.values[result.index()] = pass);
            if !touch.pure {
                self.schedule.end = self.schedule.end.max(pass);
            }
        }
        Ok(())
    }

    fn schedule_term(
        &mut self,
        block: Block,
        control: u16,
        cells: &mut [[u16; 2]],
        given: &mut [u16],
    ) -> Result<(), OrderError> {
        let body = self.body;
        let Some(term) = body.blocks[block].term.as_ref().map(|term| &term.term) else { return Ok(()) };
        let decided = self.decided_pass(block).max(control);
        if let Terminator::Apply { table, keys, arms } = term {
            self.check_application(*table, keys, control, cells)?;
            for arm in arms {
                given[arm.block.index()] = given[arm.block.index()].max(decided);
            }
        }
        let values = &self.schedule.values;
        term.for_each_call(|call| {
            let args = call.args.iter().map(|arg| values[arg.index()]).max().unwrap_or(0);
            // A jump runs as soon as the path to it is known.
            given[call.block.index()] = given[call.block.index()].max(args).max(decided);
        });
        let args = term.successors().iter().any(|next| !body.blocks[*next].params.is_empty());
        if args {
            let most = term.successors().iter().map(|next| given[next.index()]).max().unwrap_or(0);
            self.schedule.end = self.schedule.end.max(most);
        }
        Ok(())
    }

    /// Checks that a table's inputs are available in its first pass.
    fn check_application(
        &mut self,
        table: TableId,
        keys: &[Value],
        control: u16,
        cells: &mut [[u16; 2]],
    ) -> Result<(), OrderError> {
        let first = self.placed.tables.get(&table).and_then(|table| table.parts.first()).map_or(0, |part| part.pass);
        let last = self.last_pass(table);
        let key = keys.iter().map(|key| self.schedule.values[key.index()]).max().unwrap_or(0);
        let var = self.pipeline.tables[table].meter_result.map(|var| var.index());
        let state = var.map_or(0, |cell| cells[cell][0].max(cells[cell][1]));
        for (need, what) in [(key, "its key"), (control, "its condition"), (state, "the variable of its color")] {
            if u32::from(need) > first {
                let table = self.pipeline.tables[table].preamble.name.clone();
                return Err(OrderError::Early { table, pass: first, need: u32::from(need), what });
            }
        }
        if let Some(cell) = var {
            cells[cell][0] = cells[cell][0].max(last);
        }
        self.schedule.end = self.schedule.end.max(last);
        Ok(())
    }

    /// Computes the last pass that can repeat each pure computation: until a variable that it reads
    /// is written.
    fn extend_recomputation(&mut self) {
        let most = self.placed.passes.len() as u16;
        let mut ahead: Vec<Option<Vec<u16>>> = vec![None; self.body.blocks.len()];
        let mut loads: BTreeMap<(usize, usize), u16> = BTreeMap::new();
        for block in self.order.iter().rev() {
            let mut next = vec![most; self.cells.count()];
            for successor in self.body.blocks[*block].successors() {
                if let Some(there) = &ahead[successor.index()] {
                    next.iter_mut().zip(there).for_each(|(a, b)| *a = (*a).min(*b));
                }
            }
            if let Some((table, _)) = applied_table(self.body, *block)
                && let Some(var) = self.pipeline.tables[table].meter_result
            {
                let first =
                    self.placed.tables.get(&table).and_then(|t| t.parts.first()).map_or(0, |part| part.pass as u16);
                next[var.index()] = next[var.index()].min(first);
            }
            for (at, data) in self.body.blocks[*block].insts.iter().enumerate().rev() {
                let touch = self.access_set(&data.inst);
                let span = self.schedule.insts[block.index()][at];
                if touch.pure {
                    let last = touch.reads.iter().map(|cell| next[*cell]).min().unwrap_or(most);
                    loads.insert((block.index(), at), last);
                }
                touch.writes.iter().for_each(|cell| next[*cell] = next[*cell].min(span.first));
            }
            ahead[block.index()] = Some(next);
        }
        // A value can be recomputed as long as all its operands can.
        let mut last: Vec<u16> = self.schedule.values.clone();
        for block in &self.order {
            for (at, data) in self.body.blocks[*block].insts.iter().enumerate() {
                let Some(own) = loads.get(&(block.index(), at)) else { continue };
                let mut until = *own;
                data.inst.for_each_use(|value| until = until.min(last[value.index()]));
                let span = &mut self.schedule.insts[block.index()][at];
                span.last = until.max(span.first);
                data.results.iter().for_each(|result| last[result.index()] = span.last);
            }
        }
    }

    /// Computes for each branch the last pass in which the taken path matters.
    fn compute_relevance(&mut self) {
        let own: Vec<i32> = self.body.blocks.keys().map(|block| self.last_own_pass(block)).collect();
        self.schedule.relevant = vec![NO_PASS; self.body.blocks.len()];
        for block in self.order.iter().filter(|block| self.body.blocks[**block].successors().len() > 1) {
            let join = self.joins[block.index()];
            let inside = blocks_until_join(self.body, *block, join).into_iter().map(|inside| own[inside.index()]).max();
            let params = join.filter(|join| !self.body.blocks[*join].params.is_empty());
            let params = params.map(|join| i32::from(self.schedule.params[join.index()]));
            self.schedule.relevant[block.index()] = inside.into_iter().chain(params).max().unwrap_or(NO_PASS);
        }
        for block in self.order.clone() {
            if let [_] = self.body.blocks[block].successors()[..]
                && let Some((table, _)) = applied_table(self.body, block)
            {
                let inside = self.body.blocks[block]
                    .successors()
                    .into_iter()
                    .map(|next| own[next.index()])
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

    fn call_access_set(&self, object: Option<ExternId>, func: ExternFn) -> AccessSet {
        use ExternFn::*;
        let cells = &self.cells;
        let mut touch = AccessSet::default();
        match func {
            // Counter additions commute.
            CounterCount | DirectCounterCount | LogMsg => {}
            Hash | HashGet | Checksum16Get | IsHostPort | IsNetPort | UpdateChecksum | UpdateChecksumWithPayload => {}
            MarkToDrop => {
                let std = |name: &str| {
                    interp::host::architecture::intrinsic(self.pipeline, name).map(|var: VarId| var.index())
                };
                touch.writes.extend(std("standard_metadata.egress_spec"));
                touch.writes.extend(std("standard_metadata.mcast_grp"));
            }
            // All random externs share one generator.
            Random | RandomRead => touch.writes.push(cells.architecture_cell()),
            _ => touch.writes.push(object.map_or(cells.architecture_cell(), |object| cells.object(object))),
        }
        touch
    }
}

/// Returns the table of the entry that a call accesses.
fn entry_state_table(inst: &Inst) -> Option<TableId> {
    let Inst::Extern { args, .. } = inst else { return None };
    args.iter().find_map(|arg| if let ir::ExternArg::Table(table) = arg { Some(*table) } else { None })
}
