//! Which pass each instruction runs in.
//!
//! Tables are where the placement has put them, in whatever order. The code around them follows: each store and each call runs in the first pass in
//! which all that it needs is there and all that must come before it is done; what only computes is computed again wherever its operands still are
//! what they were. So each pass runs its own part of each control, from the control's beginning, and a packet meets the tables pass by pass although the
//! program names them in another order. Where a table has been placed before something that it needs, there is no such order.

use super::placed::Placed;
use fixedbitset::FixedBitSet;
use ir::{
    Block, Body, ControlKind, Entity, ExternFn, ExternId, ExternKind, Inst, Pipeline, TableId, Term, Value, VarId,
    VarKind,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// Of an instruction: the first pass in which it can run, and the last in which it gives the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// It runs first in this pass. What has an effect runs in this pass alone.
    pub first: u16,
    /// It can be done again up to this pass.
    pub last: u16,
}

/// No pass: nothing is done.
pub const NEVER: i32 = -1;

/// The passes of a control.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// For each block and instruction.
    pub insts: Vec<Vec<Span>>,
    /// For each block: when its parameters get their values.
    pub params: Vec<u16>,
    /// For each block: the last pass that has something to do on one of the ways out of it, until they join; [`NEVER`] if none has.
    pub relevant: Vec<i32>,
    /// For each value: the first pass in which it is there.
    pub values: Vec<u16>,
    /// The pass in which it begins.
    pub begin: u16,
    /// The last pass in which anything is done.
    pub end: u16,
}

/// A placement that the program's order does not allow.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OrderError {
    /// A table comes before something that it needs.
    #[error(
        "table {table} is placed in pass {pass}, but what it needs ({what}) is there from pass {need} on only: place it later"
    )]
    Early {
        /// The table.
        table: String,
        /// Its first pass.
        pass: u32,
        /// The first pass in which it could be.
        need: u32,
        /// Key, condition, state.
        what: &'static str,
    },
    /// A loop whose code is in several passes.
    #[error(
        "{control} has a loop with tables in several passes; a chip has no loops: place its tables in one pass, or cut it off"
    )]
    Loop {
        /// The control.
        control: String,
    },
    /// What is asserted ends the packet, but another pass has had its part of the program by then.
    #[error(
        "{control} asserts something, and its tables are in several passes: take the assertion out, or place its tables in one pass"
    )]
    Assert {
        /// The control.
        control: String,
    },
    /// State of an entry is used in another pass than that of its table.
    #[error(
        "state of the entries of table {table} is used in pass {used}, and the table is in pass {pass}: no other pass has it"
    )]
    State {
        /// The table.
        table: String,
        /// Its pass.
        pass: u32,
        /// Where the state is used.
        used: u32,
    },
    /// The program is beyond measure.
    #[error("{control} is too large to be run on a chip")]
    TooLarge {
        /// The control.
        control: String,
    },
}

/// What code can read and write: variables, validities, and what belongs to the architecture or to extern objects.
struct Cells {
    vars: usize,
    headers: usize,
    externs: usize,
}

impl Cells {
    fn count(&self) -> usize {
        self.vars + self.headers + self.externs + 1
    }
    fn header(&self, header: ir::HeaderId) -> usize {
        self.vars + header.index()
    }
    fn object(&self, object: ExternId) -> usize {
        self.vars + self.headers + object.index()
    }
    /// What calls ask the architecture for, and random numbers.
    fn asked(&self) -> usize {
        self.vars + self.headers + self.externs
    }
}

/// Reads and writes of an instruction.
#[derive(Default)]
struct Touch {
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// It has no effect but its result.
    pure: bool,
}

/// One control while it is scheduled.
struct Scheduler<'a> {
    pipeline: &'a Pipeline,
    body: &'a Body,
    placed: &'a Placed,
    order: Vec<Block>,
    joins: &'a [Option<Block>],
    cells: Cells,
    /// Terminators that decide whether a block is run.
    deciders: Vec<Vec<Block>>,
    schedule: Schedule,
    /// Objects that keep something from call to call, for as long as a packet is in a pass: the one pass in which all their calls are.
    together: BTreeMap<ExternId, u16>,
}

impl Schedule {
    /// All of a control in one pass.
    pub fn one(body: &Body, pass: u16) -> Schedule {
        Schedule {
            insts: body
                .blocks
                .values()
                .map(|block| vec![Span { first: pass, last: pass }; block.insts.len()])
                .collect(),
            params: vec![pass; body.blocks.len()],
            relevant: vec![i32::from(pass); body.blocks.len()],
            values: vec![pass; body.values.len()],
            begin: pass,
            end: pass,
        }
    }

    /// The schedule of a control that begins in pass `begin`.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub fn new(
        pipeline: &Pipeline,
        control: &ir::Control,
        joins: &[Option<Block>],
        placed: &Placed,
        begin: u16,
    ) -> Result<Schedule, OrderError> {
        let body = &control.body;
        let order = ir::reverse_postorder(body);
        let tables: Vec<TableId> =
            order.iter().filter_map(|block| table_of(body, *block).map(|(table, _)| table)).collect();
        let parts = || tables.iter().filter_map(|table| placed.tables.get(table)).flat_map(|table| &table.parts);
        if parts().all(|part| part.pass == u32::from(begin)) || matches!(control.kind, ControlKind::PreControl) {
            return Ok(Schedule::one(body, begin));
        }
        let cells =
            Cells { vars: pipeline.vars.len(), headers: pipeline.headers.len(), externs: pipeline.externs.len() };
        let name = &control.name;
        if order.len() > MOST_BLOCKS || order.len().saturating_mul(cells.count()) > MOST_CELLS {
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
        let mut scheduler = Scheduler {
            pipeline,
            body,
            placed,
            deciders: deciders(body, &order, joins),
            order,
            joins,
            cells,
            schedule: Schedule::one(body, begin),
            together: BTreeMap::new(),
        };
        scheduler.forward(begin)?;
        // What a checksum object has taken in is lost on a crossing: its calls wait for the last of them.
        while scheduler.gather() {
            scheduler.schedule = Schedule::one(body, begin);
            scheduler.forward(begin)?;
        }
        scheduler.again();
        scheduler.relevance();
        Ok(scheduler.schedule)
    }
}

/// Blocks: more is no program for a chip.
const MOST_BLOCKS: usize = 1 << 13;

/// Blocks times cells.
const MOST_CELLS: usize = 1 << 26;

fn table_of(body: &Body, block: Block) -> Option<(TableId, &[Value])> {
    match body.blocks[block].term.as_ref().map(|term| &term.term) {
        Some(Term::Apply { table, keys, .. }) => Some((*table, keys)),
        _ => None,
    }
}

/// The blocks on the ways out of a block, until they join.
pub fn region(body: &Body, block: Block, join: Option<Block>) -> Vec<Block> {
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

/// For each block those that decide whether it is run.
fn deciders(body: &Body, order: &[Block], joins: &[Option<Block>]) -> Vec<Vec<Block>> {
    let mut deciders = vec![Vec::new(); body.blocks.len()];
    for block in order.iter().filter(|block| body.blocks[**block].successors().len() > 1) {
        for inside in region(body, *block, joins[block.index()]) {
            deciders[inside.index()].push(*block);
        }
    }
    deciders
}

impl Scheduler<'_> {
    /// Finds objects whose calls are in several passes, and says in which they are to be; whether there was one.
    fn gather(&mut self) -> bool {
        let mut passes: BTreeMap<ExternId, [u16; 2]> = BTreeMap::new();
        for (block, data) in self.body.blocks.iter() {
            for (at, data) in data.insts.iter().enumerate() {
                if let Some(object) = self.keeps(&data.inst) {
                    let pass = self.schedule.insts[block.index()][at].first;
                    let [first, last] = passes.entry(object).or_insert([pass, pass]);
                    (*first, *last) = ((*first).min(pass), (*last).max(pass));
                }
            }
        }
        let apart: Vec<(ExternId, [u16; 2])> = passes.into_iter().filter(|(_, [first, last])| first != last).collect();
        apart.iter().for_each(|(object, [_, last])| {
            self.together.insert(*object, *last);
        });
        !apart.is_empty()
    }

    /// The object of a call, if it keeps something while a packet is in a pass.
    fn keeps(&self, inst: &Inst) -> Option<ExternId> {
        let Inst::Extern { object: Some(object), .. } = inst else { return None };
        let kind = &self.pipeline.externs.get(*object)?.kind;
        matches!(kind, ExternKind::Checksum { .. } | ExternKind::InternetChecksum).then_some(*object)
    }

    /// When it is known which way a terminator goes.
    fn decided(&self, block: Block) -> u16 {
        match self.body.blocks[block].term.as_ref().map(|term| &term.term) {
            Some(Term::Branch { cond, .. }) => self.schedule.values[cond.index()],
            Some(Term::Switch { value, .. }) => self.schedule.values[value.index()],
            Some(Term::Apply { table, .. }) => self.last_pass(*table),
            _ => 0,
        }
    }

    fn last_pass(&self, table: TableId) -> u16 {
        self.placed.tables.get(&table).and_then(|table| table.parts.last()).map_or(0, |part| part.pass as u16)
    }

    /// The first pass of everything, in the program's order.
    fn forward(&mut self, begin: u16) -> Result<(), OrderError> {
        let order = self.order.clone();
        let mut done: Vec<Option<Vec<[u16; 2]>>> = vec![None; self.body.blocks.len()];
        if let Some(entry) = self.body.entry {
            done[entry.index()] = Some(vec![[begin; 2]; self.cells.count()]);
        }
        // A parameter is given by those that jump to its block.
        let mut given = vec![begin; self.body.blocks.len()];
        for block in order {
            let mut cells = done[block.index()].take().unwrap_or_default();
            let control =
                self.deciders[block.index()].iter().map(|by| self.decided(*by)).max().unwrap_or(begin).max(begin);
            let params = given[block.index()];
            self.schedule.params[block.index()] = params;
            for param in &self.body.blocks[block].params {
                self.schedule.values[param.index()] = params;
            }
            self.block(block, control, &mut cells)?;
            self.term(block, control, &mut cells, &mut given)?;
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

    fn block(&mut self, block: Block, control: u16, cells: &mut [[u16; 2]]) -> Result<(), OrderError> {
        let body = self.body;
        for (at, data) in body.blocks[block].insts.iter().enumerate() {
            let touch = self.touch(&data.inst);
            let mut pass = control;
            data.inst.for_each_use(|value| pass = pass.max(self.schedule.values[value.index()]));
            pass = touch.reads.iter().map(|cell| cells[*cell][0]).fold(pass, u16::max);
            pass = touch.writes.iter().map(|cell| cells[*cell][0].max(cells[*cell][1])).fold(pass, u16::max);
            if let Some(object) = self.keeps(&data.inst) {
                pass = pass.max(self.together.get(&object).copied().unwrap_or(0));
            }
            if let Some(table) = state_of(&data.inst) {
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
            self.schedule.insts[block.index()][at] = Span { first: pass, last: pass };
            data.results.iter().for_each(|result| self.schedule.values[result.index()] = pass);
            if !touch.pure {
                self.schedule.end = self.schedule.end.max(pass);
            }
        }
        Ok(())
    }

    fn term(
        &mut self,
        block: Block,
        control: u16,
        cells: &mut [[u16; 2]],
        given: &mut [u16],
    ) -> Result<(), OrderError> {
        let body = self.body;
        let Some(term) = body.blocks[block].term.as_ref().map(|term| &term.term) else { return Ok(()) };
        let decided = self.decided(block).max(control);
        if let Term::Apply { table, keys, arms } = term {
            self.applied(*table, keys, control, cells)?;
            for arm in arms {
                given[arm.block.index()] = given[arm.block.index()].max(decided);
            }
        }
        let values = &self.schedule.values;
        term.for_each_call(|call| {
            let args = call.args.iter().map(|arg| values[arg.index()]).max().unwrap_or(0);
            // A jump is taken where it is known that the packet came to it.
            given[call.block.index()] = given[call.block.index()].max(args).max(decided);
        });
        let args = term.successors().iter().any(|next| !body.blocks[*next].params.is_empty());
        if args {
            let most = term.successors().iter().map(|next| given[next.index()]).max().unwrap_or(0);
            self.schedule.end = self.schedule.end.max(most);
        }
        Ok(())
    }

    /// Whether all that a table needs is there in its first pass.
    fn applied(
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
        for (need, what) in
            [(key, "its key"), (control, "whether it is applied"), (state, "the variable of its colour")]
        {
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

    /// Up to which pass what only computes can be done again: until a variable that it reads is written.
    fn again(&mut self) {
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
            if let Some((table, _)) = table_of(self.body, *block)
                && let Some(var) = self.pipeline.tables[table].meter_result
            {
                let first =
                    self.placed.tables.get(&table).and_then(|t| t.parts.first()).map_or(0, |part| part.pass as u16);
                next[var.index()] = next[var.index()].min(first);
            }
            for (at, data) in self.body.blocks[*block].insts.iter().enumerate().rev() {
                let touch = self.touch(&data.inst);
                let span = self.schedule.insts[block.index()][at];
                if touch.pure {
                    let last = touch.reads.iter().map(|cell| next[*cell]).min().unwrap_or(most);
                    loads.insert((block.index(), at), last);
                }
                touch.writes.iter().for_each(|cell| next[*cell] = next[*cell].min(span.first));
            }
            ahead[block.index()] = Some(next);
        }
        // A value can be made again as long as all that it is made of can.
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

    /// Up to which pass it matters which way a packet goes.
    fn relevance(&mut self) {
        let own: Vec<i32> = self.body.blocks.keys().map(|block| self.own(block)).collect();
        self.schedule.relevant = vec![NEVER; self.body.blocks.len()];
        for block in self.order.iter().filter(|block| self.body.blocks[**block].successors().len() > 1) {
            let join = self.joins[block.index()];
            let inside = region(self.body, *block, join).into_iter().map(|inside| own[inside.index()]).max();
            let params = join.filter(|join| !self.body.blocks[*join].params.is_empty());
            let params = params.map(|join| i32::from(self.schedule.params[join.index()]));
            self.schedule.relevant[block.index()] = inside.into_iter().chain(params).max().unwrap_or(NEVER);
        }
        for block in self.order.clone() {
            if let [_] = self.body.blocks[block].successors()[..]
                && let Some((table, _)) = table_of(self.body, block)
            {
                let inside = self.body.blocks[block]
                    .successors()
                    .into_iter()
                    .map(|next| own[next.index()])
                    .max()
                    .unwrap_or(NEVER);
                self.schedule.relevant[block.index()] = inside.max(i32::from(self.last_pass(table)));
            }
        }
    }

    /// The last pass in which a block itself has something to do.
    fn own(&self, block: Block) -> i32 {
        let data = &self.body.blocks[block];
        let insts = data.insts.iter().enumerate().filter(|(_, data)| !self.touch(&data.inst).pure);
        let insts = insts.map(|(at, _)| i32::from(self.schedule.insts[block.index()][at].first));
        let params = (!data.params.is_empty()).then(|| i32::from(self.schedule.params[block.index()]));
        let table = table_of(self.body, block).map(|(table, _)| i32::from(self.last_pass(table)));
        // Leaving early matters to what would have come next: that is in the region of the branch, too.
        insts.chain(params).chain(table).max().unwrap_or(NEVER)
    }

    fn fields(&self, header: ir::HeaderId) -> impl Iterator<Item = usize> + '_ {
        self.pipeline.headers[header].fields.iter().map(|var| var.index())
    }

    /// The other members of a header's union, with their fields.
    fn siblings(&self, header: ir::HeaderId) -> Vec<usize> {
        let union = self.pipeline.headers[header].union.and_then(|union| self.pipeline.unions.get(union));
        let members = union.into_iter().flat_map(|union| &union.members).filter(|member| **member != header);
        members.flat_map(|member| std::iter::once(self.cells.header(*member)).chain(self.fields(*member))).collect()
    }

    fn touch(&self, inst: &Inst) -> Touch {
        let cells = &self.cells;
        let read = |reads: Vec<usize>| Touch { reads, writes: Vec::new(), pure: true };
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
                Touch { reads, writes: vec![var.index()], pure: false }
            }
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                let mut writes: Vec<usize> =
                    std::iter::once(cells.header(*header)).chain(self.fields(*header)).collect();
                if let Inst::SetValid(_) = inst {
                    writes.extend(self.siblings(*header));
                }
                Touch { reads: Vec::new(), writes, pure: false }
            }
            Inst::CopyHeader { dst, src } => {
                let reads = std::iter::once(cells.header(*src)).chain(self.fields(*src)).collect();
                let mut writes: Vec<usize> = std::iter::once(cells.header(*dst)).chain(self.fields(*dst)).collect();
                writes.extend(self.siblings(*dst));
                Touch { reads, writes, pure: false }
            }
            Inst::Emit(header) => {
                let reads = std::iter::once(cells.header(*header)).chain(self.fields(*header)).collect();
                Touch { reads, writes: vec![cells.asked()], pure: false }
            }
            Inst::Extern { object, func, .. } => self.touch_call(*object, *func),
            _ => Touch { reads: Vec::new(), writes: vec![cells.asked()], pure: false },
        }
    }

    fn touch_call(&self, object: Option<ExternId>, func: ExternFn) -> Touch {
        use ExternFn::*;
        let cells = &self.cells;
        let mut touch = Touch::default();
        match func {
            // Additions commute.
            CounterCount | DirectCounterCount | LogMsg => {}
            Hash | HashGet | Checksum16Get | IsHostPort | IsNetPort | UpdateChecksum | UpdateChecksumWithPayload => {}
            MarkToDrop => {
                let std = |name: &str| {
                    interp::host::architecture::intrinsic(self.pipeline, name).map(|var: VarId| var.index())
                };
                touch.writes.extend(std("standard_metadata.egress_spec"));
                touch.writes.extend(std("standard_metadata.mcast_grp"));
            }
            // There is one source of random numbers for all.
            Random | RandomRead => touch.writes.push(cells.asked()),
            _ => touch.writes.push(object.map_or(cells.asked(), |object| cells.object(object))),
        }
        touch
    }
}

/// The table whose entry's state a call uses.
fn state_of(inst: &Inst) -> Option<TableId> {
    let Inst::Extern { args, .. } = inst else { return None };
    args.iter().find_map(|arg| if let ir::Arg::Table(table) = arg { Some(*table) } else { None })
}
