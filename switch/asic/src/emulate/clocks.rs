//! Execution of a control's instructions in a pass, and clocks of their results.

use super::attached;
use super::chip::{ChipOverseer, goto_decision};
use super::control_run::ControlRegion;
use super::stats::SwitchViolation;
use interp::block_hook::{BlockCode, BlockExit, Op, Reg};
use interp::overseer::{Frame, InstDecision};
use ir::{Block, Entity, ExternArg, ExternFn, HeaderId, Inst, Terminator, Value, VarId, VarKind};

impl<'a> ChipOverseer<'a> {
    fn code(&self, code: usize) -> &'a BlockCode {
        self.program.code(code)
    }

    fn value_reg(&self, code: usize, value: Value) -> Reg {
        self.code(code).values[value.index()].unwrap_or_default()
    }

    pub(super) fn value_clock(&self, code: usize, value: Value) -> usize {
        self.program.attached.clock_word(self.value_reg(code, value).first_word)
    }

    pub(super) fn var_clock(&self, var: VarId) -> usize {
        self.program.attached.clock_word(self.program.decoded.var_regs[var.index()].first_word)
    }

    /// Runs an instruction, if it belongs to the current pass, and computes the clock of its
    /// results: the first stage that can read them. `index` is its position in the block.
    pub(super) fn run_inst(&mut self, code: usize, (block, index): (Block, usize), frame: &mut Frame) -> InstDecision {
        let program = self.program;
        let pass_range = program.schedules[code].insts[block.index()][index];
        if !(pass_range.first..=pass_range.last).contains(&self.run.pass) {
            return InstDecision::Skip;
        }
        let data = &program.body(code).blocks[block].insts[index];
        let mut operand_clock = 0;
        data.inst
            .for_each_use(|value| operand_clock = operand_clock.max(frame.attached[self.value_clock(code, value)]));
        let result_clock = match &data.inst {
            Inst::Load(var) => frame.attached[self.var_clock(*var)],
            Inst::IsValid(header) => frame.attached[program.attached.validity_clock_word(*header)],
            Inst::Extern { .. } => operand_clock.max(self.run.ready_stage),
            _ => operand_clock,
        };
        for result in &data.results {
            frame.attached[self.value_clock(code, *result)] = result_clock;
        }
        match &data.inst {
            Inst::Store(var, value) => self.record_store(code, (*var, *value), frame),
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                frame.attached[program.attached.validity_clock_word(*header)] = self.run.ready_stage;
            }
            Inst::CopyHeader { dst, src } => self.record_header_copy(*dst, *src, frame),
            Inst::Extern { func, args, .. } => return self.run_call(*func, args, frame),
            _ => {}
        }
        InstDecision::Run
    }

    /// Records a store. A store of the same value, or one that only renames a value, takes no
    /// stage.
    fn record_store(&self, code: usize, (var, value): (VarId, Value), frame: &mut Frame) {
        let program = self.program;
        let (to, from) = (program.decoded.var_regs[var.index()], self.value_reg(code, value));
        let open = match program.pipeline.vars[var].kind {
            VarKind::Field(header, _) => frame.valid[header.index()],
            _ => true,
        };
        if open && frame.words(to) != frame.words(from) {
            let made = if program.is_alias(code, var, value) { 0 } else { self.run.ready_stage };
            frame.attached[self.var_clock(var)] = frame.attached[self.value_clock(code, value)].max(made);
        }
    }

    /// Updates the clocks of a header's validity and fields for a copy. Only values that change
    /// need a stage.
    fn record_header_copy(&self, dst: HeaderId, src: HeaderId, frame: &mut Frame) {
        let program = self.program;
        let headers = &program.pipeline.headers;
        // A temporary header only renames, and equal values need no stage.
        let write_clock = if headers[dst].local { 0 } else { self.run.ready_stage };
        let copy_clock = |frame: &mut Frame, dst_clock: usize, from: usize| {
            frame.attached[dst_clock] = frame.attached[from].max(write_clock);
        };
        if frame.valid[dst.index()] != frame.valid[src.index()] {
            copy_clock(frame, program.attached.validity_clock_word(dst), program.attached.validity_clock_word(src));
        }
        if !frame.valid[src.index()] {
            return;
        }
        for (dst_clock, from) in headers[dst].fields.iter().zip(&headers[src].fields) {
            let regs = &program.decoded.var_regs;
            if frame.words(regs[dst_clock.index()]) != frame.words(regs[from.index()]) {
                copy_clock(frame, self.var_clock(*dst_clock), self.var_clock(*from));
            }
        }
    }

    fn run_call(&mut self, func: ExternFn, args: &[ExternArg], frame: &mut Frame) -> InstDecision {
        let program = self.program;
        let pass = attached::current_pass(frame);
        let table = args.iter().find_map(|arg| if let ExternArg::Table(table) = arg { Some(*table) } else { None });
        let applied = table.map_or(0, |table| u32::from(frame.attached[program.attached.applied_word(table)]));
        if let Some(table) = table.filter(|_| applied != 0 && applied != pass + 1) {
            return InstDecision::End(BlockExit::Abort(
                self.record_violation(SwitchViolation::State { table, packet: pass }),
            ));
        }
        if func == ExternFn::MarkToDrop {
            let known = &program.decoded.well_known;
            for reg in [known.egress_spec, known.mcast_grp].into_iter().flatten() {
                frame.attached[program.attached.clock_word(reg.first_word)] = self.run.ready_stage;
            }
        }
        InstDecision::Run
    }

    /// Runs the moves on an edge to block `to`, which set parameter `param`; `None` for other
    /// moves. All parameters of a block are set in one pass.
    pub(super) fn run_edge(
        &self,
        code: usize,
        (to, param): (Block, Option<usize>),
        op: &Op,
        frame: &mut Frame,
    ) -> InstDecision {
        let program = self.program;
        let (Op::Mov1 { d, a } | Op::MovN { d, a, .. }) = *op else { return InstDecision::Run };
        let mut clock = frame.attached[program.attached.clock_word(a)];
        if let Some(param) = param {
            if program.schedules[code].params[to.index()] != self.run.pass {
                return InstDecision::Skip;
            }
            // A parameter's value reveals the path that the packet took. A flag that only decides
            // is not a field that a stage must write first.
            let body = program.body(code);
            let (path_clock, value_clock) = self.path_stages(code, to, param);
            let is_flag = body.value_type(body.blocks[to].params[param]) == ir::Type::Bool;
            clock = clock.max(if is_flag { path_clock } else { value_clock });
        }
        frame.attached[program.attached.clock_word(d)] = clock;
        InstDecision::Run
    }

    /// Returns the stages that the path to a block takes, if the path gives a parameter this value:
    /// as `need` and `made` of a region.
    fn path_stages(&self, code: usize, to: Block, param: usize) -> (u16, u16) {
        let merges = &self.program.merges[code];
        let tells = |region: &&ControlRegion| region.join != Some(to) || merges.depends_on(region.branch, param);
        let regions = self.run.regions.iter().filter(tells);
        regions.fold((0, 0), |(need, made), region| (need.max(region.apply_stage), made.max(region.ready_stage)))
    }

    /// Returns a block's continuation. It is the join if no path before it has work in this pass,
    /// or if the decision is not yet known.
    pub(super) fn run_term(&mut self, code: usize, block: Block, frame: &mut Frame) -> InstDecision {
        let program = self.program;
        match program.term(code, block) {
            Some(Terminator::Branch { cond: value, .. } | Terminator::Switch { value, .. }) => {
                let is_decided = program.schedules[code].values[value.index()] <= self.run.pass;
                if !is_decided || !self.is_relevant(code, block) {
                    return goto_decision(program.join_pc(code, block));
                }
                let clock = frame.attached[self.value_clock(code, *value)];
                self.run.enter_region(block, program.joins[code][block.index()], clock, clock);
                InstDecision::Run
            }
            // An earlier part can already have hit.
            Some(Terminator::Apply { table, .. }) => {
                let is_undecided = frame.attached[program.arm_word(code, block)] == 0;
                match is_undecided && self.last_stage(*table).is_some() {
                    true => InstDecision::Run,
                    false => goto_decision(self.continue_after_table(code, block, *table, frame)),
                }
            }
            _ => InstDecision::Run,
        }
    }

    /// Returns whether any path from a block to its join has work in this pass.
    pub(super) fn is_relevant(&self, code: usize, block: Block) -> bool {
        self.program.schedules[code].relevant[block.index()] >= i32::from(self.run.pass)
    }
}
