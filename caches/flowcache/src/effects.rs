//! What an instruction of the interpreter's decoded program reads and writes, slot by slot; and which values are needed later.

use interp::walk::{Call, CallArg, Code, Op, Pc, Program, Slot, WideOp};
use ir::{ExternFn, HashAlgorithm};

/// A range of slots: first, and how many.
pub type Span = (Slot, u32);

/// What an instruction reads and writes. Validity of header `h` is the slot [`Slots::valid`] of it.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Read, operand by operand.
    pub uses: Vec<Span>,
    /// Written.
    pub defs: Vec<Span>,
    /// Written for certain, and nothing else happens: without a reader the instruction is not needed.
    pub pure: bool,
}

/// Where things lie.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The first slot of a variable.
    pub first: Slot,
    /// The first slot that is a value or a constant.
    pub values: Slot,
    /// Behind the last slot.
    pub end: Slot,
    /// How many headers there are.
    pub headers: u32,
}

impl Slots {
    /// Those of a program.
    pub fn new(program: &Program) -> Slots {
        let (first, count) = program.vars;
        Slots {
            first,
            values: first + count,
            end: program.initial.len() as Slot,
            headers: program.headers.len() as u32,
        }
    }

    /// The slot that stands for a header's validity.
    pub fn valid(&self, header: u32) -> Slot {
        self.end + header
    }

    /// Slots and validities.
    pub fn all(&self) -> usize {
        (self.end + self.headers) as usize
    }
}

/// What a call does besides its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// Its results are a function of its arguments.
    Function,
    /// It has an effect; what it leaves in variables is the same each time.
    Effect,
    /// Its results depend on more than its arguments: it is made again for each packet.
    Live,
    /// It changes a table that packets look up: what comes with it is not cached.
    AddEntry,
}

/// What a call does.
pub fn call_kind(call: &Call) -> CallKind {
    match call.func {
        ExternFn::AddEntry => CallKind::AddEntry,
        ExternFn::IsHostPort | ExternFn::IsNetPort => CallKind::Function,
        ExternFn::HashGet | ExternFn::Hash if call.algorithm != Some(HashAlgorithm::Random) => CallKind::Function,
        ExternFn::MarkToDrop => CallKind::Effect,
        ExternFn::VerifyChecksumWithPayload => CallKind::Live,
        _ if call.results.is_empty() => CallKind::Effect,
        _ => CallKind::Live,
    }
}

fn call_effects(program: &Program, call: &Call) -> Effects {
    let mut effects = Effects { pure: call_kind(call) == CallKind::Function, ..Effects::default() };
    for arg in &call.args {
        match arg {
            CallArg::Value(reg) => effects.uses.push((reg.slot, reg.words)),
            CallArg::Values(regs) => effects.uses.extend(regs.iter().map(|reg| (reg.slot, reg.words))),
            // Read by name at the end, when all variables are there.
            CallArg::Vars(vars) => effects.uses.extend(vars.iter().filter_map(|var| {
                let reg = program.var_regs.get(var.0 as usize)?;
                Some((reg.slot, reg.words))
            })),
            CallArg::Str(_) | CallArg::Table(_) | CallArg::Action(_) => {}
        }
    }
    effects.defs.extend(call.results.iter().map(|reg| (reg.slot, reg.words)));
    let known = &program.well_known;
    let written = match call.func {
        ExternFn::MarkToDrop => [known.egress_spec, known.mcast_grp],
        ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload => [known.checksum_error, None],
        _ => [None, None],
    };
    effects.defs.extend(written.iter().flatten().map(|reg| (reg.slot, reg.words)));
    effects
}

/// What the instruction reads and writes. Of a table application: its keys, and nothing, as that depends on what it finds.
pub fn effects(slots: &Slots, program: &Program, code: &Code, op: &Op) -> Effects {
    let pure = |uses: &[Span], def: Span| Effects { uses: uses.to_vec(), defs: vec![def], pure: true };
    let reader = |uses: &[Span]| Effects { uses: uses.to_vec(), ..Effects::default() };
    match *op {
        Op::Mov1 { d, a } => pure(&[(a, 1)], (d, 1)),
        Op::MovN { d, a, n } => pure(&[(a, n)], (d, n)),
        Op::Field1 { h, d, a } => pure(&[(slots.valid(h), 1), (a, 1)], (d, 1)),
        Op::FieldN { h, d, a, n } => pure(&[(slots.valid(h), 1), (a, n)], (d, n)),
        Op::Add1 { d, a, b, .. }
        | Op::Sub1 { d, a, b, .. }
        | Op::Mul1 { d, a, b, .. }
        | Op::And1 { d, a, b }
        | Op::Or1 { d, a, b }
        | Op::Xor1 { d, a, b }
        | Op::Shl1 { d, a, b, .. }
        | Op::Shr1 { d, a, b }
        | Op::Eq1 { d, a, b }
        | Op::Ne1 { d, a, b }
        | Op::Lt1 { d, a, b }
        | Op::Le1 { d, a, b }
        | Op::LtS1 { d, a, b, .. }
        | Op::LeS1 { d, a, b, .. }
        | Op::Concat1 { d, a, b, .. } => pure(&[(a, 1), (b, 1)], (d, 1)),
        Op::Not1 { d, a, .. }
        | Op::Neg1 { d, a, .. }
        | Op::Mask1 { d, a, .. }
        | Op::Sext1 { d, a, .. }
        | Op::Slice1 { d, a, .. } => pure(&[(a, 1)], (d, 1)),
        Op::Select1 { d, c, a, b } => pure(&[(c, 1), (a, 1), (b, 1)], (d, 1)),
        Op::SelectN { d, c, a, b, n } => pure(&[(c, 1), (a, n), (b, n)], (d, n)),
        Op::Wide { index } => match code.wide[index as usize] {
            WideOp::Binary { d, a, b, .. } => pure(&[(a.slot, a.words), (b.slot, b.words)], (d.slot, d.words)),
            WideOp::Unary { d, a, .. } | WideOp::Cast { d, a } | WideOp::Slice { d, a, .. } => {
                pure(&[(a.slot, a.words)], (d.slot, d.words))
            }
            WideOp::Concat { d, high, low } => {
                pure(&[(high.slot, high.words), (low.slot, low.words)], (d.slot, d.words))
            }
        },
        Op::IsValid { d, h } => pure(&[(slots.valid(h), 1)], (d, 1)),
        Op::SetValid { h } => Effects { defs: validated(slots, program, h), ..Effects::default() },
        Op::SetInvalid { h } => {
            Effects { defs: vec![(slots.valid(h), 1), program.headers[h as usize].slots], ..Effects::default() }
        }
        Op::Copy { dst, src } => {
            // From an invalid header nothing but the destination changes: then the other members of the union are what they were.
            let others = validated(slots, program, dst);
            let mut uses = vec![(slots.valid(src), 1), program.headers[src as usize].slots];
            uses.extend(&others[1..]);
            let mut defs = vec![program.headers[dst as usize].slots];
            defs.extend(others);
            Effects { uses, defs, pure: false }
        }
        Op::Call { index } => call_effects(program, &code.calls[index as usize]),
        Op::Branch { c, .. } => reader(&[(c, 1)]),
        Op::Switch { index } => {
            let value = code.switches[index as usize].value;
            reader(&[(value.slot, value.words)])
        }
        Op::Apply { index } => {
            let keys = &code.applies[index as usize].keys;
            reader(&keys.iter().map(|key| (key.slot, key.words)).collect::<Vec<_>>())
        }
        _ => Effects::default(),
    }
}

/// What becomes of a header that becomes valid, and of the other members of its union.
fn validated(slots: &Slots, program: &Program, header: u32) -> Vec<Span> {
    let mut defs = vec![(slots.valid(header), 1)];
    for sibling in &program.headers[header as usize].siblings {
        defs.push((slots.valid(*sibling), 1));
        defs.push(program.headers[*sibling as usize].slots);
    }
    defs
}

/// For each table application of a control, the values that are read there or behind it.
#[derive(Clone, Debug)]
pub struct Live {
    words: usize,
    first: Slot,
    /// By instruction: a bit for each value slot.
    at: Vec<u64>,
}

impl Live {
    /// Finds them.
    pub fn new(slots: &Slots, program: &Program, code: &Code) -> Live {
        let words = ((slots.end - slots.values) as usize).div_ceil(64);
        let mut live = Live { words, first: slots.values, at: vec![0; words * (code.ops.len() + 1)] };
        let all: Vec<Effects> = code.ops.iter().map(|op| effects(slots, program, code, op)).collect();
        let mut changed = true;
        let mut now = vec![0u64; words];
        while changed {
            changed = false;
            for pc in (0..code.ops.len()).rev() {
                now.fill(0);
                successors(code, pc, |to| {
                    let from = &live.at[to as usize * words..(to as usize + 1) * words];
                    now.iter_mut().zip(from).for_each(|(word, more)| *word |= more);
                });
                if all[pc].pure {
                    // A write to a field has an effect only if its header is valid, but fields are no values.
                    for slot in spread(&all[pc].defs).filter(|slot| (slots.values..slots.end).contains(slot)) {
                        let bit = (slot - slots.values) as usize;
                        now[bit / 64] &= !(1 << (bit % 64));
                    }
                }
                for slot in spread(&all[pc].uses).filter(|slot| (slots.values..slots.end).contains(slot)) {
                    let bit = (slot - slots.values) as usize;
                    now[bit / 64] |= 1 << (bit % 64);
                }
                let place = &mut live.at[pc * words..(pc + 1) * words];
                if place != now {
                    place.copy_from_slice(&now);
                    changed = true;
                }
            }
        }
        live
    }

    /// Whether the value in that slot may be read at or behind the instruction.
    pub fn is(&self, pc: Pc, slot: Slot) -> bool {
        let bit = (slot - self.first) as usize;
        self.at[pc as usize * self.words + bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// The slots of these spans.
pub fn spread(spans: &[Span]) -> impl Iterator<Item = Slot> + '_ {
    spans.iter().flat_map(|(first, count)| *first..*first + *count)
}

fn successors(code: &Code, pc: usize, mut each: impl FnMut(Pc)) {
    match code.ops[pc] {
        Op::Goto { pc } | Op::Back { pc } => each(pc),
        Op::Branch { then, els, .. } => {
            each(then);
            each(els);
        }
        Op::Switch { index } => {
            let switch = &code.switches[index as usize];
            switch.narrow.iter().for_each(|(_, to)| each(*to));
            switch.wide.iter().for_each(|(_, to)| each(*to));
            each(switch.default);
        }
        Op::Apply { index } => code.applies[index as usize].arms.iter().for_each(|arm| each(arm.pc)),
        Op::Return | Op::Exit | Op::Reject => {}
        _ => each(pc as Pc + 1),
    }
}
