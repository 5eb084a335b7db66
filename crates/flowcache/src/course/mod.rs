//! [`Course`]: what decides on a known way, and nothing else, as instructions that leave the packet alone.
//!
//! Along one way, of which all decisions are known, each slot's value is followed: moves disappear, what is computed twice is computed once, what is constant is
//! folded, and a decision that was taken before, or can't go another way, is none any more. What is left are instructions for the keys of tables and for the other
//! decisions, each in front of the first that needs it, with results in slots behind the program's ([`interp::walk::Walker::make_room`]). So two ways that begin
//! alike have the same instructions as far as that goes, and stand in one tree ([`crate::courses`]).

mod place;

use crate::effects::{CallKind, call_kind, spread};
use crate::record::{Kind, Known, Record};
use crate::witness::Witness;
use interp::walk::{ApplySite, Call, CallArg, Code, Op, Pc, Program, Reg, Slot, Switch, WideOp, rewired, value};
use ir::ExternFn;
use std::collections::HashMap;

/// The most instructions of a way that is made a course.
const MAX_STEPS: usize = 4_096;

/// The most slots that a course takes behind the program's.
const MAX_ROOM: u32 = 4_096;

/// Instructions of a course.
#[derive(Clone, Debug)]
pub enum Step {
    /// Those that only compute.
    Ops(Vec<Op>),
    /// On wide values.
    Wide(Box<WideOp>),
    /// A function.
    Call(Box<Call>),
    /// A word of the arguments of what a table application has found.
    Argument {
        /// Where it goes.
        d: Slot,
        /// Which of the way's table applications.
        application: u32,
        /// The table.
        table: u32,
        /// Which word.
        word: u32,
    },
    /// A constant.
    Set {
        /// Where it goes.
        d: Slot,
        /// What it is.
        value: u64,
    },
}

/// Where ways part.
#[derive(Clone, Debug)]
pub enum Decides {
    /// Whether the slot is not 0.
    Branch(Slot),
    /// A switch on a register of the course.
    Switch(Box<Switch>),
    /// A table.
    Table(Box<Asks>),
}

/// What a table is asked.
#[derive(Clone, Debug)]
pub struct Asks {
    /// Which one.
    pub table: usize,
    /// Its keys.
    pub keys: Box<[Reg]>,
    /// Where each action goes on.
    pub arms: Box<[Pc]>,
}

/// A decision of a course.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// What comes before it.
    pub steps: Vec<Step>,
    /// What is decided.
    pub decides: Decides,
    /// Where it went on; of a table also whether it found an entry.
    pub outcome: (Pc, bool),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Course {
    /// Its decisions, in order.
    pub stretches: Vec<Stretch>,
    /// Instructions behind the last decision.
    pub last: Vec<Step>,
    /// Elements of counters that the way counts in: object, and slot of the index.
    pub counts: Vec<(usize, Slot)>,
    /// Moves that stand for calls of functions, as their results are known when the course has been gone: which instruction, and the move.
    pub moves: Vec<(Pc, Op)>,
    /// For each table application, the slots of its key's words, field by field.
    pub keys: Vec<Vec<Slot>>,
    /// Slots of program and course.
    pub room: usize,
}

/// What a slot holds at a place on the way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sym {
    /// What was in that slot at the start.
    Start(Slot),
    /// The same each time.
    Const(u64),
    /// A value of that number.
    Value(u32),
    /// What differs each time, or is not followed.
    Live,
}

/// How a value comes about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Value {
    Const(u64),
    /// Operands and result of the instruction are 0.
    Op(Op, [Sym; 3]),
    Valid(u32),
    Argument {
        application: u32,
        table: u32,
        word: u32,
    },
    /// A word of what a group gives.
    Part(u32, u32),
}

/// An instruction with results of several words.
#[derive(Clone, Debug)]
struct Group {
    does: Does,
    pc: Pc,
    inputs: Vec<Vec<Sym>>,
    words: u32,
    placed: Option<Slot>,
}

#[derive(Clone, Copy, Debug)]
enum Does {
    Wide(u32),
    Call(u32),
}

/// What a course is made with.
#[derive(Clone, Copy)]
pub struct Terrain<'b> {
    /// What is known of the program.
    pub known: &'b Known,
    /// The program.
    pub program: &'b Program,
    /// Its main control.
    pub code: &'b Code,
    /// By table.
    pub witnesses: &'b [Witness],
}

struct Builder<'b> {
    on: Terrain<'b>,
    /// By slot, and behind them by header whether it is valid.
    now: Vec<Sym>,
    values: Vec<(Value, Option<Slot>)>,
    numbers: HashMap<Value, u32>,
    groups: Vec<Group>,
    /// What branches have shown.
    facts: HashMap<Sym, bool>,
    /// Counters, and what the index is.
    counts: Vec<(usize, Sym)>,
    next: Slot,
    steps: Vec<Step>,
    made: Course,
}

impl Course {
    /// Of the way that a record took, from the start of the control. `None`: it can't be foreseen, as a decision depends on what is not a function of the packet's state
    /// and of what tables find; or it is too long.
    pub fn new(on: Terrain<'_>, record: &Record) -> Option<Course> {
        if record.start != 0 || record.too_long || record.steps.len() > MAX_STEPS {
            return None;
        }
        let slots = on.known.slots;
        let mut now: Vec<Sym> = (0..slots.end).map(Sym::Start).collect();
        let made = Course {
            stretches: Vec::new(),
            last: Vec::new(),
            counts: Vec::new(),
            moves: Vec::new(),
            keys: Vec::new(),
            room: 0,
        };
        let mut builder = Builder {
            on,
            values: Vec::new(),
            numbers: HashMap::new(),
            groups: Vec::new(),
            facts: HashMap::new(),
            counts: Vec::new(),
            next: slots.end,
            steps: Vec::new(),
            made,
            now: Vec::new(),
        };
        now.extend((0..slots.headers).map(|header| builder.number(Value::Valid(header))));
        builder.now = now;
        for done in &record.steps {
            match done.kind {
                Kind::Decision(to) => builder.decide(done.pc, to)?,
                Kind::Apply { found, to, live } => builder.table(done.pc, (to, found.is_some()), live)?,
                _ => builder.step(done.pc)?,
            }
        }
        for (object, index) in std::mem::take(&mut builder.counts) {
            if let Some(slot) = builder.slot(index) {
                builder.made.counts.push((object, slot));
            }
        }
        builder.made.moves = builder.moves(record);
        builder.made.last = builder.steps;
        builder.made.room = builder.next as usize;
        Some(builder.made)
    }
}

impl Builder<'_> {
    fn number(&mut self, value: Value) -> Sym {
        let next = self.values.len() as u32;
        let number = *self.numbers.entry(value.clone()).or_insert(next);
        if number == next {
            self.values.push((value, None));
        }
        Sym::Value(number)
    }

    fn constant(&self, sym: Sym) -> Option<u64> {
        match sym {
            Sym::Const(value) => Some(value),
            Sym::Start(slot) if self.on.known.constants[slot as usize] => Some(self.on.program.initial[slot as usize]),
            _ => None,
        }
    }

    /// Whether a condition holds, if that is known here.
    fn truth(&self, sym: Sym) -> Option<bool> {
        self.constant(sym).map(|value| value != 0).or_else(|| self.facts.get(&sym).copied())
    }

    fn at(&self, slot: Slot) -> Sym {
        self.now[slot as usize]
    }

    fn words(&self, reg: Reg) -> Vec<Sym> {
        (reg.slot..reg.slot + reg.words).map(|slot| self.at(slot)).collect()
    }

    fn put(&mut self, first: Slot, syms: impl IntoIterator<Item = Sym>) {
        for (at, sym) in syms.into_iter().enumerate() {
            self.now[first as usize + at] = sym;
        }
    }

    fn is_valid(&self, header: u32) -> Sym {
        self.now[self.on.known.slots.valid(header) as usize]
    }

    fn set_valid(&mut self, header: u32, valid: bool) {
        let at = self.on.known.slots.valid(header) as usize;
        self.now[at] = Sym::Const(u64::from(valid));
    }

    /// Fields of a header that is not valid are 0.
    fn invalidate(&mut self, header: u32) {
        self.set_valid(header, false);
        let (first, count) = self.on.program.headers[header as usize].slots;
        self.put(first, (0..count).map(|_| Sym::Const(0)));
    }

    fn validate(&mut self, header: u32) {
        self.set_valid(header, true);
        let program = self.on.program;
        program.headers[header as usize].siblings.iter().for_each(|sibling| self.invalidate(*sibling));
    }

    fn select(&mut self, c: Sym, a: Sym, b: Sym) -> Sym {
        match self.truth(c) {
            Some(true) => a,
            Some(false) => b,
            None if a == b => a,
            None => self.compute(&Op::Select1 { d: 0, c: 0, a: 1, b: 2 }, &[c, a, b]),
        }
    }

    /// The value of an instruction for these operands.
    fn compute(&mut self, op: &Op, operands: &[Sym]) -> Sym {
        if operands.contains(&Sym::Live) {
            return Sym::Live;
        }
        let constants: Option<Vec<u64>> = operands.iter().map(|operand| self.constant(*operand)).collect();
        if let Some(value) = constants.and_then(|constants| value(op, &constants)) {
            return Sym::Const(value);
        }
        let mut all = [Sym::Const(0); 3];
        all[..operands.len()].copy_from_slice(operands);
        match rewired(op, 0, |_| 0) {
            Some(op) => self.number(Value::Op(op, all)),
            None => Sym::Live,
        }
    }

    /// The results of an instruction that is kept whole.
    fn group(&mut self, (does, pc): (Does, Pc), inputs: Vec<Vec<Sym>>, results: &[Reg]) {
        let live = inputs.iter().flatten().any(|sym| *sym == Sym::Live);
        let group = self.groups.len() as u32;
        self.groups.push(Group { does, pc, inputs, words: results.iter().map(|reg| reg.words).sum(), placed: None });
        let mut word = 0;
        for reg in results {
            for slot in reg.slot..reg.slot + reg.words {
                let sym = if live { Sym::Live } else { self.number(Value::Part(group, word)) };
                self.put(slot, [sym]);
                word += 1;
            }
        }
    }

    fn step(&mut self, pc: Pc) -> Option<()> {
        let Terrain { known, program, code, .. } = self.on;
        let op = code.ops[pc as usize];
        match op {
            Op::Mov1 { d, a } => self.put(d, [self.at(a)]),
            Op::MovN { d, a, n } => self.put(d, (a..a + n).map(|slot| self.at(slot)).collect::<Vec<_>>()),
            Op::Field1 { h, d, a } => self.store(h, d, a, 1),
            Op::FieldN { h, d, a, n } => self.store(h, d, a, n),
            Op::SelectN { d, c, a, b, n } => {
                let c = self.at(c);
                let chosen: Vec<Sym> =
                    (0..n).map(|word| self.select(c, self.at(a + word), self.at(b + word))).collect();
                self.put(d, chosen);
            }
            Op::IsValid { d, h } => self.put(d, [self.is_valid(h)]),
            Op::SetValid { h } => self.validate(h),
            Op::SetInvalid { h } => self.invalidate(h),
            Op::Copy { dst, src } => match self.truth(self.is_valid(src))? {
                false => self.invalidate(dst),
                true => {
                    let ((to, _), (from, count)) =
                        (program.headers[dst as usize].slots, program.headers[src as usize].slots);
                    self.put(to, (from..from + count).map(|slot| self.at(slot)).collect::<Vec<_>>());
                    self.validate(dst);
                }
            },
            Op::Wide { index } => match code.wide[index as usize] {
                WideOp::Binary { d, a, b, .. } => {
                    self.group((Does::Wide(index), pc), vec![self.words(a), self.words(b)], &[d]);
                }
                WideOp::Unary { d, a, .. } | WideOp::Cast { d, a } | WideOp::Slice { d, a, .. } => {
                    self.group((Does::Wide(index), pc), vec![self.words(a)], &[d]);
                }
                WideOp::Concat { d, high, low } => {
                    self.group((Does::Wide(index), pc), vec![self.words(high), self.words(low)], &[d]);
                }
            },
            Op::Call { index } => self.call(pc, index)?,
            op => {
                let mut operands = Vec::new();
                rewired(&op, 0, |slot| {
                    operands.push(self.at(slot));
                    0
                })?;
                let made = self.compute(&op, &operands);
                self.put(known.effects[pc as usize].defs.first()?.0, [made]);
            }
        }
        Some(())
    }

    /// A store to fields, which has an effect only if the header is valid.
    fn store(&mut self, header: u32, d: Slot, a: Slot, words: u32) {
        let valid = self.is_valid(header);
        let stored: Vec<Sym> =
            (0..words).map(|word| self.select(valid, self.at(a + word), self.at(d + word))).collect();
        self.put(d, stored);
    }

    fn call(&mut self, pc: Pc, index: u32) -> Option<()> {
        let call = &self.on.code.calls[index as usize];
        match call_kind(call) {
            CallKind::Function => {
                let mut inputs = Vec::new();
                for arg in &call.args {
                    match arg {
                        CallArg::Value(reg) => inputs.push(self.words(*reg)),
                        CallArg::Values(regs) => inputs.extend(regs.iter().map(|reg| self.words(*reg))),
                        CallArg::Str(_) | CallArg::Table(_) | CallArg::Action(_) => {}
                        CallArg::Vars(_) => return None,
                    }
                }
                self.group((Does::Call(index), pc), inputs, &call.results);
            }
            CallKind::AddEntry => return None,
            // It may end the packet's way.
            CallKind::Effect | CallKind::Live if matches!(call.func, ExternFn::Assert | ExternFn::Assume) => {
                return None;
            }
            CallKind::Effect | CallKind::Live => {
                if let (ExternFn::CounterCount, Some(object), Some(CallArg::Value(index))) =
                    (call.func, call.object, call.args.first())
                    && index.words == 1
                {
                    self.counts.push((object.0 as usize, self.at(index.slot)));
                }
                let defs = &self.on.known.effects[pc as usize].defs;
                spread(defs).for_each(|slot| self.now[slot as usize] = Sym::Live);
            }
        }
        Some(())
    }

    fn end_stretch(&mut self, decides: Decides, outcome: (Pc, bool)) {
        let steps = std::mem::take(&mut self.steps);
        self.made.stretches.push(Stretch { steps, decides, outcome });
    }

    fn decide(&mut self, pc: Pc, to: Pc) -> Option<()> {
        match self.on.code.ops[pc as usize] {
            Op::Branch { c, then, els } => {
                let condition = self.at(c);
                if then == els || self.truth(condition).is_some() {
                    return Some(());
                }
                let slot = self.slot(condition)?;
                self.end_stretch(Decides::Branch(slot), (to, to == then));
                self.facts.insert(condition, to == then);
            }
            Op::Switch { index } => {
                let switch = &self.on.code.switches[index as usize];
                let syms = self.words(switch.value);
                if syms.iter().all(|sym| self.constant(*sym).is_some()) {
                    return Some(());
                }
                let value = self.reg(switch.value, &syms)?;
                self.end_stretch(Decides::Switch(Box::new(Switch { value, ..switch.clone() })), (to, false));
            }
            _ => return None,
        }
        Some(())
    }

    fn table(&mut self, pc: Pc, outcome: (Pc, bool), live: bool) -> Option<()> {
        let Op::Apply { index } = self.on.code.ops[pc as usize] else { return None };
        let site: &ApplySite = &self.on.code.applies[index as usize];
        if live {
            return None;
        }
        let mut keys = Vec::new();
        for reg in &site.keys {
            let syms = self.words(*reg);
            keys.push(self.reg(*reg, &syms)?);
        }
        let fields = self.on.witnesses[site.table].fields();
        let words = fields.flat_map(|(field, _)| {
            let first = keys[field.position].slot;
            first..first + field.words as u32
        });
        self.made.keys.push(words.collect());
        let application = self.made.keys.len() as u32 - 1;
        let arms = site.arms.iter().map(|arm| arm.pc).collect();
        let asks = Asks { table: site.table, keys: keys.into(), arms };
        self.end_stretch(Decides::Table(Box::new(asks)), outcome);
        // An arm's parameters lie one after the other, as many words as the action's own.
        let place = site.arms.iter().position(|arm| arm.pc == outcome.0).unwrap_or(0);
        let arm = &site.arms[place];
        let words = self.on.program.arm_words[site.table][place];
        for word in 0..words {
            let argument = self.number(Value::Argument { application, table: site.table as u32, word });
            self.put(arm.params + word, [argument]);
        }
        self.put(arm.hit, [Sym::Const(u64::from(outcome.1))]);
        Some(())
    }
}
