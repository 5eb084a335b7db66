//! [`Record`]: what the main control did with one packet, instruction by instruction, and where each operand came from.

use crate::effects::{CallKind, Effects, Slots, Span, call_kind, effects, spread};
use interp::walk::{Code, Op, Outcome, Pc, Program, Slot, Step, Walker};

/// No definition: the slot is as it was when the record began.
pub const NONE: u32 = u32::MAX;

/// The most instructions that are recorded: a packet that does more is not cached.
pub const MAX_STEPS: usize = 16_384;

/// A slot that an instruction read.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Which slot.
    pub slot: Slot,
    /// Index of its definition, or [`NONE`].
    pub def: u32,
    /// What was there.
    pub value: u64,
}

/// A slot that an instruction wrote.
#[derive(Clone, Copy, Debug)]
pub struct Def {
    /// Index of the step.
    pub step: u32,
    /// Which word of what the step wrote.
    pub word: u32,
    /// Which slot.
    pub slot: Slot,
    /// What was there then.
    pub value: u64,
}

/// What a step was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only computed.
    Pure,
    /// It changed the packet, or something else, in the same way for all packets that come here.
    Effect,
    /// Its results may differ each time.
    Live,
    /// An entry may have been added.
    AddEntry,
    /// A decision, and where it went on.
    Decision(Pc),
    /// A table application: what was found, and where it went on. `live`: what it gave is not the entry's alone (a group's member, a colour).
    Apply {
        /// The number of the entry.
        found: Option<u32>,
        /// Where it went on.
        to: Pc,
        /// See above.
        live: bool,
    },
}

/// An instruction that was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Which.
    pub pc: Pc,
    /// What it was.
    pub kind: Kind,
    /// Its operands: first, and behind the last.
    pub operands: (u32, u32),
    /// Its results.
    pub defs: (u32, u32),
}

/// What the main control did with one packet.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Where it began.
    pub start: Pc,
    /// The instructions, but for jumps.
    pub steps: Vec<Done>,
    /// See [`Done::operands`].
    pub operands: Vec<Operand>,
    /// See [`Done::defs`].
    pub defs: Vec<Def>,
    /// Backward jumps before each step that is a table application, and before the end.
    pub backs: Vec<(u32, u32)>,
    /// There were more than [`MAX_STEPS`].
    pub too_long: bool,
    last: Vec<u32>,
}

/// What a recorder knows of a program.
#[derive(Clone, Debug)]
pub struct Known {
    /// Where things lie.
    pub slots: Slots,
    /// By slot: the bits that it can have.
    pub widths: Vec<u64>,
    /// By slot: it is a constant, as it is no variable and the control does not write it.
    pub constants: Vec<bool>,
    /// By instruction of the main control.
    pub effects: Vec<Effects>,
    /// By table: what a hit gives is not the entry's alone.
    pub live_tables: Vec<bool>,
    /// By table: the variable that a hit writes.
    pub hit_writes: Vec<Option<Span>>,
}

impl Known {
    /// Of this program, whose main control is `code`.
    pub fn new(pipeline: &ir::Pipeline, program: &Program, code: &Code) -> Known {
        let slots = Slots::new(program);
        let hit_writes = |table: &ir::Table| {
            let reg = program.var_regs.get(table.meter_result?.0 as usize)?;
            Some((reg.slot, reg.words))
        };
        let mut widths = vec![u64::MAX; slots.end as usize];
        for reg in program.var_regs.iter().filter(|reg| !reg.varbit && reg.width > 0) {
            let last = &mut widths[(reg.slot + reg.words - 1) as usize];
            *last = u64::MAX >> (63 - (reg.width - 1) % 64);
        }
        let effects: Vec<Effects> = code.ops.iter().map(|op| effects(&slots, program, code, op)).collect();
        let mut constants: Vec<bool> =
            (0..slots.all() as Slot).map(|at| (slots.values..slots.end).contains(&at)).collect();
        let written = effects.iter().flat_map(|effects| spread(&effects.defs));
        written.for_each(|slot| constants[slot as usize] = false);
        for site in &code.applies {
            for (arm, words) in site.arms.iter().zip(&program.arm_words[site.table]) {
                spread(&[(arm.hit, 1), (arm.params, *words)]).for_each(|slot| constants[slot as usize] = false);
            }
        }
        Known {
            slots,
            widths,
            constants,
            effects,
            live_tables: pipeline.tables.values().map(|table| table.implementation.is_some()).collect(),
            hit_writes: pipeline.tables.values().map(hit_writes).collect(),
        }
    }
}

/// The slot, or validity, of a packet.
pub fn read(slots: &Slots, walker: &Walker<'_>, slot: Slot) -> u64 {
    match slot.checked_sub(slots.end) {
        None => walker.slots()[slot as usize],
        Some(header) => u64::from(walker.valid()[header as usize]),
    }
}

/// What an instruction is that takes no decision.
fn kind_of(known: &Known, code: &Code, pc: Pc, op: &Op) -> Kind {
    match op {
        Op::Call { index } => match call_kind(&code.calls[*index as usize]) {
            CallKind::Function => Kind::Pure,
            CallKind::Effect => Kind::Effect,
            CallKind::Live => Kind::Live,
            CallKind::AddEntry => Kind::AddEntry,
        },
        _ if known.effects[pc as usize].pure => Kind::Pure,
        _ => Kind::Effect,
    }
}

impl Record {
    fn clear(&mut self, known: &Known, start: Pc) {
        self.start = start;
        self.steps.clear();
        self.operands.clear();
        self.defs.clear();
        self.backs.clear();
        self.too_long = false;
        self.last.clear();
        self.last.resize(known.slots.all(), NONE);
    }

    /// Runs the control from `start` to its end and records what it does; the earlier record is lost.
    pub fn run(&mut self, known: &Known, walker: &mut Walker<'_>, start: Pc) -> Outcome {
        self.clear(known, start);
        let mut pc = start;
        let mut backs = 0;
        loop {
            match self.step(known, walker, pc, &mut backs) {
                Step::Next(next) => pc = next,
                Step::End(outcome) => {
                    self.backs.push((self.steps.len() as u32, backs));
                    return outcome;
                }
            }
        }
    }

    /// Notes what an instruction reads.
    fn read(&mut self, known: &Known, walker: &Walker<'_>, pc: Pc) -> (u32, u32) {
        let first = self.operands.len() as u32;
        for slot in spread(&known.effects[pc as usize].uses) {
            let value = read(&known.slots, walker, slot);
            self.operands.push(Operand { slot, def: self.last[slot as usize], value });
        }
        (first, self.operands.len() as u32)
    }

    fn step(&mut self, known: &Known, walker: &mut Walker<'_>, pc: Pc, backs: &mut u32) -> Step {
        let code = walker.code();
        let op = &code.ops[pc as usize];
        match op {
            Op::Goto { .. } | Op::Return | Op::Exit | Op::Reject => return walker.step(pc),
            Op::Back { .. } => {
                *backs += 1;
                return walker.step(pc);
            }
            _ => {}
        }
        if self.steps.len() >= MAX_STEPS {
            self.too_long = true;
            return walker.step(pc);
        }
        let operands = self.read(known, walker, pc);
        if let Op::Apply { index } = op {
            self.backs.push((self.steps.len() as u32, std::mem::take(backs)));
            return self.apply(known, walker, (pc, *index), operands);
        }
        let next = walker.step(pc);
        let kind = match (op, next) {
            (Op::Branch { .. } | Op::Switch { .. }, Step::Next(to)) => Kind::Decision(to),
            _ => kind_of(known, code, pc, op),
        };
        self.done(known, walker, (pc, kind), operands, &known.effects[pc as usize].defs);
        next
    }

    fn apply(&mut self, known: &Known, walker: &mut Walker<'_>, (pc, index): (Pc, u32), operands: (u32, u32)) -> Step {
        let site = &walker.code().applies[index as usize];
        let found = walker.lookup(site);
        let next = walker.apply(site, found, pc);
        let Step::Next(to) = next else { return next };
        // An arm's parameters lie one after the other, as many words as the action's own.
        let place = site.arms.iter().position(|arm| arm.pc == to).unwrap_or(0);
        let arm = &site.arms[place];
        let words = walker.program().arm_words[site.table][place];
        let mut defs = vec![(arm.hit, 1), (arm.params, words)];
        defs.extend(known.hit_writes[site.table]);
        let live = known.live_tables[site.table] || known.hit_writes[site.table].is_some();
        self.done(known, walker, (pc, Kind::Apply { found, to, live }), operands, &defs);
        next
    }

    fn done(
        &mut self,
        known: &Known,
        walker: &Walker<'_>,
        (pc, kind): (Pc, Kind),
        operands: (u32, u32),
        defs: &[Span],
    ) {
        let (step, first) = (self.steps.len() as u32, self.defs.len() as u32);
        for (word, slot) in spread(defs).enumerate() {
            let value = read(&known.slots, walker, slot);
            self.last[slot as usize] = self.defs.len() as u32;
            self.defs.push(Def { step, word: word as u32, slot, value });
        }
        self.steps.push(Done { pc, kind, operands, defs: (first, self.defs.len() as u32) });
    }

    /// What a step read.
    pub fn operands(&self, step: usize) -> &[Operand] {
        let (first, end) = self.steps[step].operands;
        &self.operands[first as usize..end as usize]
    }

    /// What a step wrote.
    pub fn defs(&self, step: usize) -> &[Def] {
        let (first, end) = self.steps[step].defs;
        &self.defs[first as usize..end as usize]
    }

    /// The table applications: their steps.
    pub fn applications(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().enumerate().filter(|(_, done)| matches!(done.kind, Kind::Apply { .. })).map(|(at, _)| at)
    }
}
