//! Which instructions of a control run in a pass, and the clocks of what they make.

use super::attached;
use super::chip::{Chip, decision};
use super::counts::Violation;
use super::run::Region;
use interp::overseer::{Decision, Frame};
use interp::walk::{Code, Op, Outcome, Reg};
use ir::{Arg, Block, Entity, ExternFn, HeaderId, Inst, Term, Value, VarId, VarKind};

impl<'a> Chip<'a> {
    fn code(&self, code: usize) -> &'a Code {
        self.program.code(code)
    }

    fn reg(&self, code: usize, value: Value) -> Reg {
        self.code(code).values[value.index()].unwrap_or_default()
    }

    pub(super) fn clock(&self, code: usize, value: Value) -> usize {
        self.program.attached.clock(self.reg(code, value).slot)
    }

    pub(super) fn var_clock(&self, var: VarId) -> usize {
        self.program.attached.clock(self.program.decoded.var_regs[var.index()].slot)
    }

    pub(super) fn inst(&mut self, code: usize, (block, at): (Block, usize), frame: &mut Frame) -> Decision {
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
    pub(super) fn edge(
        &self,
        code: usize,
        (to, param): (Block, Option<usize>),
        op: &Op,
        frame: &mut Frame,
    ) -> Decision {
        let program = self.program;
        let (Op::Mov1 { d, a } | Op::MovN { d, a, .. }) = *op else { return Decision::Run };
        let mut clock = frame.attached[program.attached.clock(a)];
        if let Some(param) = param {
            if program.schedules[code].params[to.index()] != self.run.pass {
                return Decision::Skip;
            }
            // Which value it is says which path the packet took. A flag that only decides is no
            // field that a stage must write first.
            let body = program.body(code);
            let (need, made) = self.path(code, to, param);
            let flag = body.value_type(body.blocks[to].params[param]) == ir::Type::Bool;
            clock = clock.max(if flag { need } else { made });
        }
        frame.attached[program.attached.clock(d)] = clock;
        Decision::Run
    }

    /// The stages that the path to a block takes which gives one of its parameters this value: as
    /// `need` and `made` of a region.
    fn path(&self, code: usize, to: Block, param: usize) -> (u16, u16) {
        let merges = &self.program.merges[code];
        let tells = |region: &&Region| region.join != Some(to) || merges.tells(region.branch, param);
        let regions = self.run.regions.iter().filter(tells);
        regions.fold((0, 0), |(need, made), region| (need.max(region.need), made.max(region.made)))
    }

    /// Where a block leads. Where nothing is to be done in this pass until the paths join, or it is
    /// not known yet which one is taken, it is the join.
    pub(super) fn term(&mut self, code: usize, block: Block, frame: &mut Frame) -> Decision {
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
    pub(super) fn matters(&self, code: usize, block: Block) -> bool {
        self.program.schedules[code].relevant[block.index()] >= i32::from(self.run.pass)
    }
}
