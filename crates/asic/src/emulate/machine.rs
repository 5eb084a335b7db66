//! Runs the controls of a pipeline, block by block, under the rules of the chip.

use super::compute;
use super::counts::{Counts, Violation};
use super::frame::{Applied, Frame};
use super::layout::Reg;
use super::merges::Merges;
use super::program::Program;
use super::schedule::Schedule;
use super::store::Store;
use interp::host::ExternHost;
use ir::{Arm, Block, BlockCall, ControlId, Entity, Inst, InstData, TableId, Term, Value};
use packet::EngineReason;

/// How a control ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// At its end.
    Return,
    /// By `exit`.
    Exit,
    /// A parser in state reject.
    Reject,
    /// The engine gave up; the packet is dropped.
    Abort(EngineReason),
}

/// What runs a packet, borrowed for it.
pub struct Machine<'a> {
    /// The program.
    pub program: &'a Program,
    /// The externs.
    pub host: &'a mut ExternHost,
    /// The tables.
    pub store: &'a mut Store,
    /// What is counted.
    pub counts: &'a mut Counts,
    /// Backward jumps and table applications that the packet may still make.
    pub fuel: u64,
    /// Parser states that it may still enter.
    pub parser_fuel: u64,
    /// When it came in, in nanoseconds.
    pub now: u64,
    /// Scratch memory of calls.
    pub args: Vec<u64>,
    /// As `args`.
    pub results: Vec<u64>,
}

/// What decides whether the code that runs is run: from the end of `branch` until the block `join`, where the paths come together.
struct Region {
    branch: Block,
    join: Option<Block>,
    /// The first stage in which a table can be applied.
    need: u16,
    /// The first stage that can read what is written.
    made: u16,
}

/// A control while it runs.
pub(super) struct Run<'r> {
    pub control: ControlId,
    pass: u16,
    schedule: &'r Schedule,
    merges: &'r Merges,
    body: &'r ir::Body,
    regs: &'r [Reg],
    regions: Vec<Region>,
    pub need: u16,
    pub made: u16,
}

impl Run<'_> {
    pub fn reg(&self, value: Value) -> Reg {
        self.regs[value.index()]
    }

    fn clock(&self, frame: &Frame, value: Value) -> u16 {
        frame.clocks[self.reg(value).clock as usize]
    }

    fn enter(&mut self, branch: Block, join: Option<Block>, need: u16, made: u16) {
        let mut inner = self.regions.iter_mut().rev().take_while(|region| region.join == join);
        match inner.find(|region| region.branch == branch) {
            Some(again) => (again.need, again.made) = (again.need.max(need), again.made.max(made)),
            None => self.regions.push(Region { branch, join, need, made }),
        }
        (self.need, self.made) = (self.need.max(need), self.made.max(made));
    }

    fn leave(&mut self, block: Block) {
        let before = self.regions.len();
        while self.regions.last().is_some_and(|region| region.join == Some(block)) {
            self.regions.pop();
        }
        if self.regions.len() != before {
            self.need = self.regions.iter().map(|region| region.need).max().unwrap_or(0);
            self.made = self.regions.iter().map(|region| region.made).max().unwrap_or(0);
        }
    }

    /// The stages that the way to a block takes which gives one of its parameters this value: as `need` and `made` of a region.
    fn way(&self, to: Block, param: usize) -> (u16, u16) {
        let tells = |region: &&Region| region.join != Some(to) || self.merges.tells(region.branch, param);
        let regions = self.regions.iter().filter(tells);
        regions.fold((0, 0), |(need, made), region| (need.max(region.need), made.max(region.made)))
    }

    /// Whether a value is there in this pass.
    fn knows(&self, value: Value) -> bool {
        self.schedule.values[value.index()] <= self.pass
    }
}

impl Machine<'_> {
    /// Runs what a control has to do in a pass.
    pub fn run(&mut self, frame: &mut Frame, control: ControlId, pass: u16) -> Outcome {
        let program = self.program;
        let body = &program.pipeline.controls[control].body;
        let regs = &program.layout.values[control.index()];
        let shape = &program.shapes[control.index()];
        let schedule = &program.schedules[control.index()];
        let merges = &program.merges[control.index()];
        let mut run = Run { control, pass, schedule, merges, body, regs, regions: Vec::new(), need: 0, made: 0 };
        self.host.begin_block(0);
        let Some(mut block) = body.entry else { return Outcome::Return };
        loop {
            run.leave(block);
            for _ in 0..shape.states[block.index()] {
                if self.parser_fuel == 0 {
                    return Outcome::Abort(EngineReason::ParserTimeout);
                }
                self.parser_fuel -= 1;
            }
            let data = &body.blocks[block];
            let spans = &schedule.insts[block.index()];
            for (at, inst) in data.insts.iter().enumerate() {
                if (spans[at].first..=spans[at].last).contains(&pass)
                    && let Err(outcome) = self.inst(frame, &run, (block, at), inst)
                {
                    return outcome;
                }
            }
            let Some(term) = &data.term else { return Outcome::Abort(EngineReason::EngineFault) };
            let next = match self.term(frame, &mut run, block, &term.term) {
                Ok(Some(next)) => next,
                // The ways come together again at the end only.
                Ok(None) => return Outcome::Return,
                Err(outcome) => return outcome,
            };
            if shape.order[next.index()] <= shape.order[block.index()] && !self.burn() {
                return Outcome::Abort(EngineReason::StepLimit);
            }
            block = next;
        }
    }

    /// Where a block leads. Where nothing is to be done in this pass until the ways join, or it is not known yet which way is taken, it is the join.
    fn term(
        &mut self,
        frame: &mut Frame,
        run: &mut Run<'_>,
        block: Block,
        term: &Term,
    ) -> Result<Option<Block>, Outcome> {
        let join = self.program.shapes[run.control.index()].joins[block.index()];
        let matters = run.schedule.relevant[block.index()] >= i32::from(run.pass);
        Ok(match term {
            Term::Jump(call) => Some(self.jump(frame, run, call)),
            Term::Branch { cond: value, .. } | Term::Switch { value, .. } if !matters || !run.knows(*value) => join,
            Term::Branch { cond, then, els } => {
                let clock = run.clock(frame, *cond);
                run.enter(block, join, clock, clock);
                let taken = if frame.words(run.reg(*cond))[0] != 0 { then } else { els };
                Some(self.jump(frame, run, taken))
            }
            Term::Switch { value, cases, default } => {
                let clock = run.clock(frame, *value);
                run.enter(block, join, clock, clock);
                let words = frame.words(run.reg(*value));
                let taken = cases.iter().find(|(constant, _)| same(words, constant)).map_or(default, |(_, call)| call);
                Some(self.jump(frame, run, taken))
            }
            Term::Apply { table, keys, arms } => {
                let site = self.program.arms[run.control.index()][block.index()].unwrap_or(0);
                let stage = self.apply(frame, run, site, (*table, keys), arms)?;
                let action = frame.arms[site].checked_sub(1).map(usize::from);
                match action {
                    Some(action) if matters && self.program.last_pass(*table) <= u32::from(run.pass) => {
                        let (need, made) = stage.map_or((0, 0), |stage| (stage, stage + 1));
                        run.enter(block, join, need, made);
                        Some(arm_of(self.program, *table, arms, action)?.block)
                    }
                    _ => join,
                }
            }
            Term::Return => return Err(Outcome::Return),
            Term::Exit => return Err(Outcome::Exit),
            Term::Reject => return Err(Outcome::Reject),
        })
    }

    /// Uses up fuel; false if there is none.
    fn burn(&mut self) -> bool {
        let some = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1);
        some
    }

    /// Moves arguments to the parameters of a block, all at once.
    fn jump(&mut self, frame: &mut Frame, run: &Run<'_>, call: &BlockCall) -> Block {
        let params = &run.body.blocks[call.block].params;
        if !params.is_empty() && run.schedule.params[call.block.index()] == run.pass {
            let values: Vec<(Vec<u64>, u16)> =
                call.args.iter().map(|arg| (frame.words(run.reg(*arg)).to_vec(), run.clock(frame, *arg))).collect();
            for (at, (param, (words, clock))) in params.iter().zip(values).enumerate() {
                let reg = run.reg(*param);
                frame.words_mut(reg).copy_from_slice(&words);
                // Which value it is says which way the packet came. A flag that only decides is no field that a stage must write first.
                let (need, made) = run.way(call.block, at);
                frame.clocks[reg.clock as usize] = clock.max(if reg.ty == ir::Type::Bool { need } else { made });
            }
        }
        call.block
    }

    fn inst(&mut self, frame: &mut Frame, run: &Run<'_>, at: (Block, usize), data: &InstData) -> Result<(), Outcome> {
        let program = self.program;
        let layout = &program.layout;
        let result = data.results.first().map(|result| run.reg(*result));
        if let Some(d) = result {
            let mut clock = 0;
            data.inst.for_each_use(|value| clock = clock.max(run.clock(frame, value)));
            frame.clocks[d.clock as usize] = clock;
        }
        match (&data.inst, result) {
            (Inst::Const(constant), Some(d)) => compute::constant(frame, d, &constant.bits),
            (Inst::Unary(op, a), Some(d)) => compute::unary(frame, *op, d, run.reg(*a)),
            (Inst::Binary(op, a, b), Some(d)) => compute::binary(frame, *op, d, run.reg(*a), run.reg(*b)),
            (Inst::Cast(to, a), Some(d)) => compute::cast(frame, d, *to, run.reg(*a)),
            (Inst::Slice { value, hi, lo }, Some(d)) => compute::slice(frame, d, run.reg(*value), *hi, *lo),
            (Inst::Concat(high, low), Some(d)) => compute::concat(frame, d, run.reg(*high), run.reg(*low)),
            (Inst::Select { cond, then, els }, Some(d)) => {
                compute::select(frame, d, run.reg(*cond), run.reg(*then), run.reg(*els));
            }
            (Inst::Load(var), Some(d)) => {
                let from = layout.var(*var);
                frame.slots.copy_within(from.range(), d.slot as usize);
                frame.clocks[d.clock as usize] = frame.clocks[from.clock as usize];
            }
            (Inst::Store(var, value), _) => {
                let (to, from) = (layout.var(*var), run.reg(*value));
                let open = match program.pipeline.vars[*var].kind {
                    ir::VarKind::Field(header, _) => frame.valid[header.index()],
                    _ => true,
                };
                if open && frame.words(to) != frame.words(from) {
                    frame.slots.copy_within(from.range(), to.slot as usize);
                    let made = if program.is_alias(run.control, *var, *value) { 0 } else { run.made };
                    frame.clocks[to.clock as usize] = frame.clocks[from.clock as usize].max(made);
                }
            }
            (Inst::Extern { .. }, _) => self.call(frame, run, at, data)?,
            _ => return self.packet_inst(frame, run, data),
        }
        Ok(())
    }

    /// Looks the packet up in the parts that a table has in this pass, unless one before had an entry for it; the stage in which that was, if any.
    fn apply(
        &mut self,
        frame: &mut Frame,
        run: &mut Run<'_>,
        site: usize,
        (table, keys): (TableId, &[Value]),
        arms: &[Arm],
    ) -> Result<Option<u16>, Outcome> {
        let program = self.program;
        let parts = &program.placed.tables[&table].parts;
        let here = parts.iter().enumerate().filter(|(_, part)| part.pass == u32::from(run.pass));
        let Some(stage) = here.clone().map(|(_, part)| part.stage as u16).max() else { return Ok(None) };
        if program.last_pass(table) == u32::from(run.pass) && !self.burn() {
            return Err(Outcome::Abort(EngineReason::StepLimit));
        }
        if frame.arms[site] != 0 {
            // An earlier part had an entry.
            return Ok(Some(stage));
        }
        if frame.applied[table.index()].pass == frame.pass + 1 {
            return Err(self.violated(Violation::Twice { table, pass: frame.pass }));
        }
        let first = here.clone().next().map_or(0, |(_, part)| part.stage);
        self.in_time(frame, run, table, keys, first)?;
        let found = self.find(frame, run, here.map(|(part, _)| part), table, keys)?;
        if found.is_none() && program.last_pass(table) != u32::from(run.pass) {
            return Ok(Some(stage));
        }
        self.hit(frame, run, site, (table, keys), arms, (found, stage))?;
        Ok(Some(stage))
    }

    /// Whether key and condition of a table are made in stages before `stage`.
    fn in_time(
        &mut self,
        frame: &Frame,
        run: &Run<'_>,
        table: TableId,
        keys: &[Value],
        stage: u32,
    ) -> Result<(), Outcome> {
        let made = keys.iter().map(|key| run.clock(frame, *key)).max().unwrap_or(0);
        let pass = u32::from(run.pass);
        if u32::from(made) > stage {
            return Err(self.violated(Violation::Key { table, pass, stage, made: u32::from(made) - 1 }));
        }
        if u32::from(run.need) > stage {
            return Err(self.violated(Violation::Condition { table, pass, stage, need: u32::from(run.need) }));
        }
        Ok(())
    }

    /// The entry of the first part that has one.
    fn find(
        &mut self,
        frame: &mut Frame,
        run: &Run<'_>,
        parts: impl Iterator<Item = usize>,
        table: TableId,
        keys: &[Value],
    ) -> Result<Option<u32>, Outcome> {
        let key = self.key(frame, run, table, keys);
        let pipe = self.pipe(frame, run, table, keys)?;
        for part in parts {
            self.counts.lookups += 1;
            if let Some(found) = self.store.lookup(table, pipe, part, &key) {
                return Ok(Some(found));
            }
        }
        if self.program.pipeline.tables[table].add_on_miss {
            frame.missed.insert(table, self.store.packed_key(table, &key));
        }
        Ok(None)
    }

    /// Notes what a lookup has led to, and gives the action its data.
    fn hit(
        &mut self,
        frame: &mut Frame,
        run: &Run<'_>,
        site: usize,
        (table, keys): (TableId, &[Value]),
        arms: &[Arm],
        (found, stage): (Option<u32>, u16),
    ) -> Result<(), Outcome> {
        let program = self.program;
        let declared = &program.pipeline.tables[table];
        let (hit, action, args) = self.store.resolve(self.host, table, found, |host| {
            let selectors = (0..declared.keys.len()).filter(|at| declared.keys[*at].kind == ir::MatchKind::Selector);
            let area: Vec<u64> = selectors.flat_map(|at| frame.words(run.reg(keys[at])).to_vec()).collect();
            host.selector(table).hash(&area)
        });
        let colour = hit.and_then(|number| self.host.hit(table, number, frame.ingress_length));
        if let (Some(colour), Some(var)) = (colour, declared.meter_result) {
            let reg = program.layout.var(var);
            frame.set(Some(reg), colour as u64);
            frame.clocks[reg.clock as usize] = stage + 1;
        }
        frame.applied[table.index()] = Applied { pass: frame.pass + 1, hit, colour };
        frame.arms[site] = action as u16 + 1;
        self.store.count(table, action, hit.is_some(), u64::from(frame.ingress_length));
        let params = &run.body.blocks[arm_of(program, table, arms, action)?.block].params;
        let mut rest = args.as_slice();
        for (index, param) in params.iter().enumerate() {
            let reg = run.reg(*param);
            if index == 0 {
                frame.words_mut(reg)[0] = u64::from(hit.is_some());
                // Whether it was hit decides about what comes next without the detour through a field.
                frame.clocks[reg.clock as usize] = stage;
                continue;
            }
            let split = rest.split_at_checked(reg.words as usize);
            let (own, more) = split.ok_or(Outcome::Abort(EngineReason::EngineFault))?;
            frame.words_mut(reg).copy_from_slice(own);
            frame.clocks[reg.clock as usize] = stage + 1;
            rest = more;
        }
        Ok(())
    }

    /// The words of the match keys, one after the other.
    fn key(&self, frame: &Frame, run: &Run<'_>, table: TableId, keys: &[Value]) -> Vec<u64> {
        let declared = self.program.pipeline.tables[table].match_keys();
        declared.flat_map(|(position, _)| frame.words(run.reg(keys[position])).iter().copied()).collect()
    }

    /// The parallel pipe that a split table sends the packet to: one only in each pass.
    fn pipe(&mut self, frame: &mut Frame, run: &Run<'_>, table: TableId, keys: &[Value]) -> Result<usize, Outcome> {
        let Some(split) = self.program.placed.tables[&table].split else { return Ok(0) };
        let words = frame.words(run.reg(keys[split.key]));
        let width = self.program.pipeline.tables[table].keys[split.key].ty.width();
        let pipe = split.by.pipe(words, width, split.pipes);
        match frame.pipe.replace(pipe) {
            Some(other) if other != pipe => {
                Err(self.violated(Violation::Pipe { table, pass: frame.pass, pipe, packet: other }))
            }
            _ => Ok(pipe as usize),
        }
    }

    /// Counts a violation of the placement; the packet is dropped.
    pub(super) fn violated(&mut self, violation: Violation) -> Outcome {
        *self.counts.violations.entry(violation).or_default() += 1;
        Outcome::Abort(EngineReason::EngineFault)
    }
}

/// Where an action of a table goes on.
fn arm_of<'a>(program: &Program, table: TableId, arms: &'a [Arm], action: usize) -> Result<&'a Arm, Outcome> {
    let action = program.pipeline.tables[table].actions.get(action).map(|listed| listed.action);
    arms.iter().find(|arm| Some(arm.action) == action).ok_or(Outcome::Abort(EngineReason::EngineFault))
}

/// Whether words hold a constant. A varbit constant is empty.
fn same(words: &[u64], constant: &ir::Const) -> bool {
    let mut digits = Vec::with_capacity(words.len());
    let varbit = usize::from(matches!(constant.ty, ir::Type::Varbit(_)));
    digits.extend(std::iter::repeat_n(0, varbit));
    tables::push_words(&constant.bits, words.len() - varbit, &mut digits);
    digits == words
}
