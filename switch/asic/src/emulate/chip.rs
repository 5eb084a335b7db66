//! [`Chip`]: the chip's rules, as an overseer of the interpreter.
//!
//! The interpreter carries out each instruction. The chip decides in which pass it does, keeps a
//! clock for each value, variable and validity, looks entries up in the parts of tables, and takes
//! a packet from pass to pass.

use super::attached;
use super::counts::{Counts, Violation};
use super::program::Program;
use super::run::Run;
use super::store::Store;
use entries::Entry;
use interp::overseer::{BitBuffer, Boundary, Decision, Destination, Found, Frame, Origin, Overseer};
use interp::walk::{ApplySite, Op, Outcome, Pc};
use ir::{Block, Entity, TableId, Term};
use packet::EngineReason;

/// See the module.
pub struct Chip<'a> {
    pub(super) program: &'a Program,
    store: &'a mut Store,
    counts: &'a mut Counts,
    pub(super) run: Run,
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
                // No traffic manager is behind the last egress: the packet has to go around once
                // more.
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

pub(super) const FAULT: Outcome = Outcome::Abort(EngineReason::EngineFault);

pub(super) fn decision(next: Result<Pc, Outcome>) -> Decision {
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
    pub(super) fn violated(&mut self, violation: Violation) -> EngineReason {
        *self.counts.violations.entry(violation).or_default() += 1;
        EngineReason::EngineFault
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

    pub(super) fn last_stage(&self, table: TableId) -> Option<u16> {
        self.parts(table).map(|(_, stage)| stage).max()
    }

    /// Where the program goes on behind a table: at the action that it led to, or where the paths
    /// join.
    pub(super) fn go_on(&mut self, code: usize, block: Block, table: TableId, frame: &Frame) -> Result<Pc, Outcome> {
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
