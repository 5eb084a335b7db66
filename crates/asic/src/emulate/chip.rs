//! [`Chip`]: the chip's rules, as an overseer of the interpreter.
//!
//! The interpreter carries out each instruction. The chip decides in which pass it does, keeps a clock for each value, variable and
//! validity, looks entries up in the parts of tables, and takes a packet from pass to pass.

use super::attached;
use super::counts::{Counts, Violation};
use super::program::Program;
use super::store::Store;
use interp::overseer::{BitBuffer, Boundary, Decision, Destination, Found, Frame, Origin, Overseer};
use interp::walk::{ApplySite, Code, Op, Outcome, Pc, Reg};
use ir::{Arg, Block, Body, ControlId, Entity, ExternFn, HeaderId, Inst, TableId, Term, Value, VarId, VarKind};
use packet::EngineReason;
use tables::Entry;

/// What decides whether the code that runs is run: from the end of `branch` until the block `join`, where the paths come together.
struct Region {
    branch: Block,
    join: Option<Block>,
    /// The first stage in which a table can be applied.
    need: u16,
    /// The first stage that can read what is written.
    made: u16,
}

/// A control while it runs in a pass.
#[derive(Default)]
struct Run {
    pass: u16,
    regions: Vec<Region>,
    need: u16,
    made: u16,
}

impl Run {
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
}

/// See the module.
pub struct Chip<'a> {
    program: &'a Program,
    store: &'a mut Store,
    counts: &'a mut Counts,
    run: Run,
}

impl Overseer for Chip<'_> {
    fn begin(&mut self, code: usize, round: u16, frame: &mut Frame) -> bool {
        let schedule = &self.program.schedules[code];
        if round != 0 {
            if schedule.begin + round > schedule.end {
                return false;
            }
            self.cross_once(frame);
        }
        self.run = Run { pass: schedule.begin + round, ..Run::default() };
        true
    }

    fn before(&mut self, (code, pc): (usize, Pc), op: &Op, frame: &mut Frame) -> Decision {
        let program = self.program;
        if let Some(block) = program.starts[code][pc as usize] {
            self.run.leave(block);
        }
        match program.code(code).origins[pc as usize] {
            Origin::State => Decision::Run,
            Origin::Inst(block, at) => self.inst(code, (block, at), frame),
            Origin::Edge(to, param) => self.edge(code, (to, param), op, frame),
            Origin::Term(block) => self.term(code, block, frame),
        }
    }

    fn find(&mut self, site: &ApplySite, frame: &mut Frame) -> Result<Found, EngineReason> {
        let table = TableId::from_index(site.table);
        let pass = attached::pass(frame);
        if u32::from(frame.attached[self.program.attached.applied(table)]) == pass + 1 {
            return Err(self.violated(Violation::Twice { table, pass }));
        }
        self.in_time(frame, site)?;
        let pipe = self.pipe(frame, site)?;
        let found = self.look_up(frame, site, pipe);
        if found.is_none() && self.program.last_pass(table) != u32::from(self.run.pass) {
            return Ok(Found::Later);
        }
        Ok(Found::Entry(found))
    }

    fn after_apply(
        &mut self,
        (code, pc): (usize, Pc),
        arm: Option<(u32, Pc)>,
        frame: &mut Frame,
    ) -> Result<Pc, Outcome> {
        let program = self.program;
        let Origin::Term(block) = program.code(code).origins[pc as usize] else { return Err(FAULT) };
        let Some(Term::Apply { table, .. }) = program.term(code, block) else { return Err(FAULT) };
        if let Some((action, _)) = arm {
            self.hit(code, block, *table, action, frame);
        }
        self.go_on(code, block, *table, frame)
    }

    fn has_room(&self, table: usize) -> bool {
        self.store.has_room(TableId::from_index(table))
    }

    fn added(&mut self, table: usize, entry: &Entry) {
        self.store.insert(TableId::from_index(table), entry);
    }

    fn cross(&mut self, frame: &mut Frame, to: Boundary) {
        let boundary = self.program.boundary_pass;
        match to {
            Boundary::Parser => {
                let slots = &self.program.decoded.initial;
                frame.slots.copy_from_slice(slots);
                self.program.attached.begin(frame);
                self.counts.passes[0].add(frame.len);
            }
            Boundary::Egress => {
                // A copy of what was in egress comes out of the traffic manager once more.
                if attached::pass(frame) >= boundary {
                    attached::set_pass(frame, boundary - 1);
                }
                self.cross_to(frame, boundary);
                self.program.attached.forget_tables(frame);
            }
            Boundary::Deparser => {
                // What is dropped and not mirrored ends where it is.
                let copied = frame.mirror != [None; 4] || frame.pna_recirculate;
                if frame.destination == Destination::Drop && !copied {
                    return;
                }
                // No traffic manager is behind the last egress: the packet has to go around once more.
                let late = attached::pass(frame) == boundary && matches!(frame.destination, Destination::Port(_));
                self.counts.late_ports += u64::from(late);
                self.cross_to(frame, boundary);
            }
        }
    }

    fn original(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        match attached::pass(frame) {
            0 => Ok(()),
            _ => Err(self.violated(Violation::Original)),
        }
    }
}

const FAULT: Outcome = Outcome::Abort(EngineReason::EngineFault);

fn decision(next: Result<Pc, Outcome>) -> Decision {
    next.map_or_else(Decision::End, Decision::Goto)
}

/// From pass to pass.
impl<'a> Chip<'a> {
    /// The rules for a program, its tables, and what is counted.
    pub fn new(program: &'a Program, store: &'a mut Store, counts: &'a mut Counts) -> Chip<'a> {
        Chip { program, store, counts, run: Run::default() }
    }

    /// Takes a packet through the passes that are left until `pass`.
    fn cross_to(&mut self, frame: &mut Frame, pass: u32) {
        while attached::pass(frame) < pass {
            self.cross_once(frame);
        }
    }

    /// The packet goes from its pass into the next one: all that is left of it are bytes.
    fn cross_once(&mut self, frame: &mut Frame) {
        let program = self.program;
        let pass = attached::pass(frame) as usize;
        let bridge = &program.bridges[pass];
        let mut head = BitBuffer::default();
        bridge.write(frame, &mut head);
        let crossing = &mut self.counts.crossings[pass];
        crossing.packets += 1;
        crossing.bits += u64::from(bridge.bits);
        frame.slots.copy_from_slice(&program.decoded.initial);
        frame.valid.fill(false);
        program.attached.cross(frame);
        self.counts.passes[pass + 1].add(head.byte_len() + frame.payload().len());
        let taken = bridge.read(head.bytes(), frame);
        debug_assert_eq!(taken, head.byte_len(), "the payload begins where the headers end");
        frame.cursor = frame.cursor.next_multiple_of(8);
    }

    /// Counts a violation of the placement; the packet is dropped.
    fn violated(&mut self, violation: Violation) -> EngineReason {
        *self.counts.violations.entry(violation).or_default() += 1;
        EngineReason::EngineFault
    }
}

/// Which instructions run, and when what they make can be read.
impl<'a> Chip<'a> {
    fn code(&self, code: usize) -> &'a Code {
        self.program.code(code)
    }

    fn reg(&self, code: usize, value: Value) -> Reg {
        self.code(code).values[value.index()].unwrap_or_default()
    }

    fn clock(&self, code: usize, value: Value) -> usize {
        self.program.attached.clock(self.reg(code, value).slot)
    }

    fn var_clock(&self, var: VarId) -> usize {
        self.program.attached.clock(self.program.decoded.var_regs[var.index()].slot)
    }

    fn inst(&mut self, code: usize, (block, at): (Block, usize), frame: &mut Frame) -> Decision {
        let program = self.program;
        let span = program.schedules[code].insts[block.index()][at];
        if !(span.first..=span.last).contains(&self.run.pass) {
            return Decision::Skip;
        }
        let data = &program.body(code).blocks[block].insts[at];
        let mut used = 0;
        data.inst.for_each_use(|value| used = used.max(frame.attached[self.clock(code, value)]));
        let made = match &data.inst {
            Inst::Load(var) => frame.attached[self.var_clock(*var)],
            Inst::IsValid(header) => frame.attached[program.attached.header(*header)],
            Inst::Extern { .. } => used.max(self.run.made),
            _ => used,
        };
        for result in &data.results {
            frame.attached[self.clock(code, *result)] = made;
        }
        match &data.inst {
            Inst::Store(var, value) => self.store(code, (*var, *value), frame),
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                frame.attached[program.attached.header(*header)] = self.run.made;
            }
            Inst::CopyHeader { dst, src } => self.copy_header(*dst, *src, frame),
            Inst::Extern { func, args, .. } => return self.call(*func, args, frame),
            _ => {}
        }
        Decision::Run
    }

    /// What is there already is not written, and a stage need not write what only has another name.
    fn store(&self, code: usize, (var, value): (VarId, Value), frame: &mut Frame) {
        let program = self.program;
        let (to, from) = (program.decoded.var_regs[var.index()], self.reg(code, value));
        let open = match program.pipeline.vars[var].kind {
            VarKind::Field(header, _) => frame.valid[header.index()],
            _ => true,
        };
        if open && frame.words(to) != frame.words(from) {
            let made = if program.is_alias(code, var, value) { 0 } else { self.run.made };
            frame.attached[self.var_clock(var)] = frame.attached[self.clock(code, value)].max(made);
        }
    }

    fn copy_header(&self, dst: HeaderId, src: HeaderId, frame: &mut Frame) {
        let program = self.program;
        let headers = &program.pipeline.headers;
        // A temporary header is another name only, and what is the same already needs no stage.
        let made = if headers[dst].local { 0 } else { self.run.made };
        let copy = |frame: &mut Frame, to: usize, from: usize| {
            frame.attached[to] = frame.attached[from].max(made);
        };
        if frame.valid[dst.index()] != frame.valid[src.index()] {
            copy(frame, program.attached.header(dst), program.attached.header(src));
        }
        if !frame.valid[src.index()] {
            return;
        }
        for (to, from) in headers[dst].fields.iter().zip(&headers[src].fields) {
            let regs = &program.decoded.var_regs;
            if frame.words(regs[to.index()]) != frame.words(regs[from.index()]) {
                copy(frame, self.var_clock(*to), self.var_clock(*from));
            }
        }
    }

    fn call(&mut self, func: ExternFn, args: &[Arg], frame: &mut Frame) -> Decision {
        let program = self.program;
        let pass = attached::pass(frame);
        let table = args.iter().find_map(|arg| if let Arg::Table(table) = arg { Some(*table) } else { None });
        let applied = table.map_or(0, |table| u32::from(frame.attached[program.attached.applied(table)]));
        if let Some(table) = table.filter(|_| applied != 0 && applied != pass + 1) {
            return Decision::End(Outcome::Abort(self.violated(Violation::State { table, packet: pass })));
        }
        if func == ExternFn::MarkToDrop {
            let known = &program.decoded.well_known;
            for reg in [known.egress_spec, known.mcast_grp].into_iter().flatten() {
                frame.attached[program.attached.clock(reg.slot)] = self.run.made;
            }
        }
        Decision::Run
    }

    /// Moves on an edge: the parameters of its block get their values in one pass.
    fn edge(&self, code: usize, (to, param): (Block, Option<usize>), op: &Op, frame: &mut Frame) -> Decision {
        let program = self.program;
        let (Op::Mov1 { d, a } | Op::MovN { d, a, .. }) = *op else { return Decision::Run };
        let mut clock = frame.attached[program.attached.clock(a)];
        if let Some(param) = param {
            if program.schedules[code].params[to.index()] != self.run.pass {
                return Decision::Skip;
            }
            // Which value it is says which path the packet took. A flag that only decides is no field that a stage must write first.
            let body = program.body(code);
            let (need, made) = self.path(code, to, param);
            let flag = body.value_type(body.blocks[to].params[param]) == ir::Type::Bool;
            clock = clock.max(if flag { need } else { made });
        }
        frame.attached[program.attached.clock(d)] = clock;
        Decision::Run
    }

    /// The stages that the path to a block takes which gives one of its parameters this value: as `need` and `made` of a region.
    fn path(&self, code: usize, to: Block, param: usize) -> (u16, u16) {
        let merges = &self.program.merges[code];
        let tells = |region: &&Region| region.join != Some(to) || merges.tells(region.branch, param);
        let regions = self.run.regions.iter().filter(tells);
        regions.fold((0, 0), |(need, made), region| (need.max(region.need), made.max(region.made)))
    }

    /// Where a block leads. Where nothing is to be done in this pass until the paths join, or it is not known yet which one is
    /// taken, it is the join.
    fn term(&mut self, code: usize, block: Block, frame: &mut Frame) -> Decision {
        let program = self.program;
        match program.term(code, block) {
            Some(Term::Branch { cond: value, .. } | Term::Switch { value, .. }) => {
                let known = program.schedules[code].values[value.index()] <= self.run.pass;
                if !known || !self.matters(code, block) {
                    return decision(program.join(code, block));
                }
                let clock = frame.attached[self.clock(code, *value)];
                self.run.enter(block, program.joins[code][block.index()], clock, clock);
                Decision::Run
            }
            // An earlier part may have had an entry.
            Some(Term::Apply { table, .. }) => {
                let open = frame.attached[program.arm(code, block)] == 0;
                match open && self.last_stage(*table).is_some() {
                    true => Decision::Run,
                    false => decision(self.go_on(code, block, *table, frame)),
                }
            }
            _ => Decision::Run,
        }
    }

    /// Whether anything is to be done in this pass on the paths out of a block until they join.
    fn matters(&self, code: usize, block: Block) -> bool {
        self.program.schedules[code].relevant[block.index()] >= i32::from(self.run.pass)
    }
}

/// Table applications.
impl Chip<'_> {
    /// The parts of a table in this pass: their numbers and stages.
    fn parts(&self, table: TableId) -> impl Iterator<Item = (usize, u16)> + '_ {
        let parts = self.program.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
        let here = parts.iter().enumerate().filter(|(_, part)| part.pass == u32::from(self.run.pass));
        here.map(|(number, part)| (number, part.stage as u16))
    }

    fn last_stage(&self, table: TableId) -> Option<u16> {
        self.parts(table).map(|(_, stage)| stage).max()
    }

    /// Where the program goes on behind a table: at the action that it led to, or where the paths join.
    fn go_on(&mut self, code: usize, block: Block, table: TableId, frame: &Frame) -> Result<Pc, Outcome> {
        let program = self.program;
        let action = frame.attached[program.arm(code, block)].checked_sub(1);
        match action {
            Some(action) if self.matters(code, block) && program.last_pass(table) <= u32::from(self.run.pass) => {
                let (need, made) = self.last_stage(table).map_or((0, 0), |stage| (stage, stage + 1));
                self.run.enter(block, program.joins[code][block.index()], need, made);
                let to = program.action_block(code, block, usize::from(action)).ok_or(FAULT)?;
                program.go_to(code, to)
            }
            _ => program.join(code, block),
        }
    }

    /// Notes what a lookup has led to, and when it can be read.
    fn hit(&self, code: usize, block: Block, table: TableId, action: u32, frame: &mut Frame) {
        let program = self.program;
        let stage = self.last_stage(table).unwrap_or(0);
        frame.attached[program.attached.applied(table)] = attached::pass(frame) as u16 + 1;
        frame.attached[program.arm(code, block)] = action as u16 + 1;
        if let Some(var) = program.pipeline.tables[table].meter_result
            && frame.hits[table.index()] != 0
        {
            frame.attached[self.var_clock(var)] = stage + 1;
        }
        let Some(to) = program.action_block(code, block, action as usize) else { return };
        for (index, param) in program.body(code).blocks[to].params.iter().enumerate() {
            // Whether it was hit decides about what comes next without the detour through a field.
            frame.attached[self.clock(code, *param)] = stage + u16::from(index != 0);
        }
    }

    /// Whether key and condition of a table are made in stages before its first one.
    fn in_time(&mut self, frame: &Frame, site: &ApplySite) -> Result<(), EngineReason> {
        let table = TableId::from_index(site.table);
        let clocks = site.keys.iter().map(|key| frame.attached[self.program.attached.clock(key.slot)]);
        let made = clocks.max().unwrap_or(0);
        let first = self.parts(table).next().map_or(0, |(_, stage)| stage);
        let (pass, stage) = (u32::from(self.run.pass), u32::from(first));
        if made > first {
            return Err(self.violated(Violation::Key { table, pass, stage, made: u32::from(made) - 1 }));
        }
        if self.run.need > first {
            return Err(self.violated(Violation::Condition { table, pass, stage, need: u32::from(self.run.need) }));
        }
        Ok(())
    }

    /// The parallel pipe that a split table sends the packet to: one only in each pass.
    fn pipe(&mut self, frame: &mut Frame, site: &ApplySite) -> Result<usize, EngineReason> {
        let table = TableId::from_index(site.table);
        let Some(split) = self.program.placed.tables.get(&table).and_then(|table| table.split) else { return Ok(0) };
        let key = site.keys[split.key];
        let pipe = split.by.pipe(frame.words(key), key.width, split.pipes);
        match attached::replace_pipe(frame, pipe) {
            Some(other) if other != pipe => {
                let pass = attached::pass(frame);
                Err(self.violated(Violation::Pipe { table, pass, pipe, packet: other }))
            }
            _ => Ok(pipe as usize),
        }
    }

    /// The entry of the first part that has one.
    fn look_up(&mut self, frame: &Frame, site: &ApplySite, pipe: usize) -> Option<u64> {
        let table = TableId::from_index(site.table);
        let matched = self.program.pipeline.tables[table].match_keys();
        let key: Vec<u64> = matched.flat_map(|(at, _)| frame.words(site.keys[at]).iter().copied()).collect();
        let parts: Vec<usize> = self.parts(table).map(|(part, _)| part).collect();
        parts.into_iter().find_map(|part| {
            self.counts.lookups += 1;
            self.store.lookup(table, pipe, part, &key)
        })
    }
}

impl Program {
    fn code(&self, code: usize) -> &Code {
        &self.decoded.codes[code]
    }

    fn body(&self, code: usize) -> &Body {
        &self.pipeline.controls[ControlId::from_index(code)].body
    }

    fn term(&self, code: usize, block: Block) -> Option<&Term> {
        self.body(code).blocks[block].term.as_ref().map(|term| &term.term)
    }

    /// Where the word of the action is that a block's table led to.
    fn arm(&self, code: usize, block: Block) -> usize {
        self.attached.arm(self.arms[code][block.index()].unwrap_or(0))
    }

    /// The block of an action of the table that a block applies.
    fn action_block(&self, code: usize, block: Block, action: usize) -> Option<Block> {
        let Some(Term::Apply { table, arms, .. }) = self.term(code, block) else { return None };
        let action = self.pipeline.tables[*table].actions.get(action)?.action;
        arms.iter().find(|arm| arm.action == action).map(|arm| arm.block)
    }

    fn go_to(&self, code: usize, block: Block) -> Result<Pc, Outcome> {
        self.code(code).blocks[block.index()].ok_or(FAULT)
    }

    /// Where the paths out of a block join; the end, if they do nowhere.
    fn join(&self, code: usize, block: Block) -> Result<Pc, Outcome> {
        self.joins[code][block.index()].map_or(Err(Outcome::Return), |join| self.go_to(code, join))
    }
}
