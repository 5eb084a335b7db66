//! [`ChipOverseer`]: the chip's rules, as an overseer of the interpreter.
//!
//! The interpreter executes each instruction. The overseer decides in which pass it executes, keeps
//! a clock for each value, variable and validity, looks up entries in the parts of tables, and
//! moves a packet from pass to pass.

use super::attached;
use super::control_run::ControlRun;
use super::program::SwitchProgram;
use super::stats::{SwitchStats, SwitchViolation};
use super::store::SwitchTables;
use entries::StoredEntry;
use interp::block_hook::{ApplySite, BlockExit, InstIndex, Op};
use interp::overseer::{
    ArchTransition, BitBuffer, Destination, Frame, InstDecision, InstOrigin, LookupSource, Overseer,
};
use ir::{Block, Entity, TableId, Terminator};
use packet::EngineReason;

/// Overseer that enforces the chip's rules for a packet.
pub struct ChipOverseer<'a> {
    pub(super) program: &'a SwitchProgram,
    store: &'a mut SwitchTables,
    counts: &'a mut SwitchStats,
    pub(super) run: ControlRun,
}

impl Overseer for ChipOverseer<'_> {
    fn should_run_block(&mut self, code: usize, round: u16, frame: &mut Frame) -> bool {
        let schedule = &self.program.schedules[code];
        if round != 0 {
            if schedule.begin + round > schedule.end {
                return false;
            }
            self.cross_once(frame);
        }
        self.run = ControlRun { pass: schedule.begin + round, ..ControlRun::default() };
        true
    }

    fn decide(&mut self, (code, pc): (usize, InstIndex), op: &Op, frame: &mut Frame) -> InstDecision {
        let program = self.program;
        if let Some(block) = program.starts[code][pc as usize] {
            self.run.leave_regions(block);
        }
        match program.code(code).origins[pc as usize] {
            InstOrigin::State => InstDecision::Run,
            InstOrigin::Inst(block, at) => self.run_inst(code, (block, at), frame),
            InstOrigin::Edge(to, param) => self.run_edge(code, (to, param), op, frame),
            InstOrigin::Term(block) => self.run_term(code, block, frame),
        }
    }

    fn lookup_source(&mut self, site: &ApplySite, frame: &mut Frame) -> Result<LookupSource, EngineReason> {
        let table = TableId::from_index(site.table);
        let pass = attached::current_pass(frame);
        if u32::from(frame.attached[self.program.attached.applied_word(table)]) == pass + 1 {
            return Err(self.record_violation(SwitchViolation::Twice { table, pass }));
        }
        self.check_timing(frame, site)?;
        let pipe = self.select_pipe(frame, site)?;
        let found = self.lookup_parts(frame, site, pipe);
        if found.is_none() && self.program.last_pass(table) != u32::from(self.run.pass) {
            return Ok(LookupSource::Later);
        }
        Ok(LookupSource::Entry(found))
    }

    fn after_apply(
        &mut self,
        (code, pc): (usize, InstIndex),
        arm: Option<(u32, InstIndex)>,
        frame: &mut Frame,
    ) -> Result<InstIndex, BlockExit> {
        let program = self.program;
        let InstOrigin::Term(block) = program.code(code).origins[pc as usize] else { return Err(ENGINE_FAULT) };
        let Some(Terminator::Apply { table, .. }) = program.term(code, block) else { return Err(ENGINE_FAULT) };
        if let Some((action, _)) = arm {
            self.record_hit(code, block, *table, action, frame);
        }
        self.continue_after_table(code, block, *table, frame)
    }

    fn can_add_entry(&self, table: usize) -> bool {
        self.store.has_room(TableId::from_index(table))
    }

    fn on_entry_added(&mut self, table: usize, entry: &StoredEntry) {
        self.store.insert(TableId::from_index(table), entry);
    }

    /// Moves a packet to the pass of the block that it enters.
    fn on_transition(&mut self, frame: &mut Frame, to: ArchTransition) {
        let boundary = self.program.boundary_pass;
        match to {
            ArchTransition::Parser => {
                let slots = &self.program.decoded.initial;
                frame.reg_words.copy_from_slice(slots);
                self.program.attached.begin_first_pass(frame);
                self.counts.passes[0].count_packet(frame.len);
            }
            ArchTransition::Egress => {
                // A clone from egress leaves the traffic manager again.
                // The pass before the boundary ends in the traffic manager.
                if attached::current_pass(frame) >= boundary {
                    attached::set_pass(frame, boundary - 1);
                }
                self.cross_to(frame, boundary);
                self.program.attached.forget_tables(frame);
            }
            ArchTransition::Deparser => {
                // A dropped packet without a mirrored copy ends here.
                let has_copy = frame.mirror != [None; 4] || frame.pna_recirculate;
                if frame.destination == Destination::Drop && !has_copy {
                    return;
                }
                // The last egress has no traffic manager after it, so the packet must recirculate.
                let is_late =
                    attached::current_pass(frame) == boundary && matches!(frame.destination, Destination::Port(_));
                self.counts.late_ports += u64::from(is_late);
                self.cross_to(frame, boundary);
            }
        }
    }

    fn require_original(&mut self, frame: &Frame) -> Result<(), EngineReason> {
        match attached::current_pass(frame) {
            0 => Ok(()),
            _ => Err(self.record_violation(SwitchViolation::Original)),
        }
    }
}

pub(super) const ENGINE_FAULT: BlockExit = BlockExit::Abort(EngineReason::EngineBug);

pub(super) fn goto_decision(next: Result<InstIndex, BlockExit>) -> InstDecision {
    next.map_or_else(InstDecision::End, InstDecision::Goto)
}

/// Crossings between passes.
impl<'a> ChipOverseer<'a> {
    /// Creates the overseer for a program, its tables, and its statistics.
    pub fn new(
        program: &'a SwitchProgram,
        store: &'a mut SwitchTables,
        counts: &'a mut SwitchStats,
    ) -> ChipOverseer<'a> {
        ChipOverseer { program, store, counts, run: ControlRun::default() }
    }

    /// Moves a packet through the remaining passes up to `pass`.
    fn cross_to(&mut self, frame: &mut Frame, pass: u32) {
        while attached::current_pass(frame) < pass {
            self.cross_once(frame);
        }
    }

    /// Moves a packet from its pass into the next one as bytes.
    fn cross_once(&mut self, frame: &mut Frame) {
        let program = self.program;
        let pass = attached::current_pass(frame) as usize;
        let bridge = &program.bridges[pass];
        let mut head = BitBuffer::default();
        bridge.write_headers(frame, &mut head);
        let crossing = &mut self.counts.crossings[pass];
        crossing.packets += 1;
        crossing.bits += u64::from(bridge.bits);
        frame.reg_words.copy_from_slice(&program.decoded.initial);
        frame.valid.fill(false);
        program.attached.enter_next_pass(frame);
        self.counts.passes[pass + 1].count_packet(head.byte_len() + frame.payload().len());
        let taken = bridge.read_headers(head.bytes(), frame);
        debug_assert_eq!(taken, head.byte_len(), "the payload begins where the headers end");
        frame.cursor = frame.cursor.next_multiple_of(8);
    }

    /// Counts a violation of the placement. The packet is dropped.
    pub(super) fn record_violation(&mut self, violation: SwitchViolation) -> EngineReason {
        *self.counts.violations.entry(violation).or_default() += 1;
        EngineReason::EngineBug
    }
}

/// Table applications.
impl ChipOverseer<'_> {
    /// Returns the parts of a table in this pass, as numbers and stages.
    fn parts_in_pass(&self, table: TableId) -> impl Iterator<Item = (usize, u16)> + '_ {
        let parts = self.program.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
        let here = parts.iter().enumerate().filter(|(_, part)| part.pass == u32::from(self.run.pass));
        here.map(|(number, part)| (number, part.stage as u16))
    }

    pub(super) fn last_stage(&self, table: TableId) -> Option<u16> {
        self.parts_in_pass(table).map(|(_, stage)| stage).max()
    }

    /// Returns the continuation after a table: the block of the chosen action, or the join of the
    /// paths.
    pub(super) fn continue_after_table(
        &mut self,
        code: usize,
        block: Block,
        table: TableId,
        frame: &Frame,
    ) -> Result<InstIndex, BlockExit> {
        let program = self.program;
        let action = frame.attached[program.arm_word(code, block)].checked_sub(1);
        match action {
            Some(action) if self.is_relevant(code, block) && program.last_pass(table) <= u32::from(self.run.pass) => {
                let (need, made) = self.last_stage(table).map_or((0, 0), |stage| (stage, stage + 1));
                self.run.enter_region(block, program.joins[code][block.index()], need, made);
                let to = program.action_block(code, block, usize::from(action)).ok_or(ENGINE_FAULT)?;
                program.block_pc(code, to)
            }
            _ => program.join_pc(code, block),
        }
    }

    /// Records the result of a lookup, and the stage in which it can be read.
    fn record_hit(&self, code: usize, block: Block, table: TableId, action: u32, frame: &mut Frame) {
        let program = self.program;
        let stage = self.last_stage(table).unwrap_or(0);
        frame.attached[program.attached.applied_word(table)] = attached::current_pass(frame) as u16 + 1;
        frame.attached[program.arm_word(code, block)] = action as u16 + 1;
        if let Some(var) = program.pipeline.tables[table].meter_result
            && frame.hit_slots[table.index()] != 0
        {
            frame.attached[self.var_clock(var)] = stage + 1;
        }
        let Some(to) = program.action_block(code, block, action as usize) else { return };
        for (index, param) in program.body(code).blocks[to].params.iter().enumerate() {
            // The hit flag controls the next branch directly, without a field.
            frame.attached[self.value_clock(code, *param)] = stage + u16::from(index != 0);
        }
    }

    /// Checks that the key and the condition of a table are computed in stages before its first
    /// one.
    fn check_timing(&mut self, frame: &Frame, site: &ApplySite) -> Result<(), EngineReason> {
        let table = TableId::from_index(site.table);
        let clocks = site.keys.iter().map(|key| frame.attached[self.program.attached.clock_word(key.first_word)]);
        let made = clocks.max().unwrap_or(0);
        let first = self.parts_in_pass(table).next().map_or(0, |(_, stage)| stage);
        let (pass, stage) = (u32::from(self.run.pass), u32::from(first));
        if made > first {
            return Err(self.record_violation(SwitchViolation::Key { table, pass, stage, made: u32::from(made) - 1 }));
        }
        if self.run.apply_stage > first {
            return Err(self.record_violation(SwitchViolation::Condition {
                table,
                pass,
                stage,
                need: u32::from(self.run.apply_stage),
            }));
        }
        Ok(())
    }

    /// Returns the parallel pipe to which a split table sends the packet. Each pass allows only
    /// one.
    fn select_pipe(&mut self, frame: &mut Frame, site: &ApplySite) -> Result<usize, EngineReason> {
        let table = TableId::from_index(site.table);
        let Some(split) = self.program.placed.tables.get(&table).and_then(|table| table.split) else { return Ok(0) };
        let key = site.keys[split.key];
        let pipe = split.by.pipe_of(frame.words(key), key.width, split.pipes);
        match attached::replace_pipe(frame, pipe) {
            Some(other) if other != pipe => {
                let pass = attached::current_pass(frame);
                Err(self.record_violation(SwitchViolation::Pipe { table, pass, pipe, packet: other }))
            }
            _ => Ok(pipe as usize),
        }
    }

    /// Returns the entry of the first part that has one.
    fn lookup_parts(&mut self, frame: &Frame, site: &ApplySite, pipe: usize) -> Option<u64> {
        let table = TableId::from_index(site.table);
        let matched = self.program.pipeline.tables[table].match_keys();
        let key: Vec<u64> = matched.flat_map(|(at, _)| frame.words(site.keys[at]).iter().copied()).collect();
        let parts: Vec<usize> = self.parts_in_pass(table).map(|(part, _)| part).collect();
        parts.into_iter().find_map(|part| {
            self.counts.lookups += 1;
            self.store.lookup(table, pipe, part, &key)
        })
    }
}
