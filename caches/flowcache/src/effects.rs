//! Slots that each decoded instruction of the interpreter reads and writes, and liveness of values.

use interp::block_hook::{BlockCode, CallArg, DecodedCall, DecodedProgram, InstIndex, Op, WideOp, WordIndex};
use ir::{ExternFn, HashAlgorithm};

/// Range of slots: first slot and number.
pub type SlotRange = (WordIndex, u32);

/// Reads and writes of an instruction. The validity of header `h` is the slot
/// [`SlotLayout::validity_slot`].
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Slots read, operand by operand.
    pub uses: Vec<SlotRange>,
    /// Slots written.
    pub defs: Vec<SlotRange>,
    /// The instruction always writes its slots and has no side effect. It is dead if they are never
    /// read.
    pub is_pure: bool,
}

/// Layout of a program's slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotLayout {
    /// First slot of a variable.
    pub first_variable: WordIndex,
    /// First slot of a value or constant.
    pub first_value: WordIndex,
    /// Number of slots of the program; validity slots follow.
    pub end: WordIndex,
    /// Number of headers.
    pub header_count: u32,
}

impl SlotLayout {
    /// Returns the layout of a program.
    pub fn new(program: &DecodedProgram) -> SlotLayout {
        let (first, count) = program.var_words;
        SlotLayout {
            first_variable: first,
            first_value: first + count,
            end: program.initial.len() as WordIndex,
            header_count: program.headers.len() as u32,
        }
    }

    /// Returns the slot that represents a header's validity.
    pub fn validity_slot(&self, header: u32) -> WordIndex {
        self.end + header
    }

    /// Returns the number of slots, including validity slots.
    pub fn total_count(&self) -> usize {
        (self.end + self.header_count) as usize
    }
}

/// Effect of a call besides its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// The results are a function of the arguments.
    Function,
    /// The call has a side effect. It writes the same values to variables each time.
    Effect,
    /// The results depend on more than the arguments, so each packet repeats the call.
    Live,
    /// The call changes a table that packets look up, so the packet is not cached.
    AddEntry,
}

/// Returns the effect of a call.
pub fn call_kind(call: &DecodedCall) -> CallKind {
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

/// Returns the slots that a call reads and writes. Some externs write a variable of the
/// architecture, such as `egress_spec`, besides their results.
fn call_effects(program: &DecodedProgram, call: &DecodedCall) -> Effects {
    let mut effects = Effects { is_pure: call_kind(call) == CallKind::Function, ..Effects::default() };
    for arg in &call.args {
        match arg {
            CallArg::Value(reg) => effects.uses.push((reg.first_word, reg.words)),
            CallArg::Values(regs) => effects.uses.extend(regs.iter().map(|reg| (reg.first_word, reg.words))),
            // These are read by name at the end of the call, when all variables are stored.
            CallArg::Vars(vars) => effects.uses.extend(vars.iter().filter_map(|var| {
                let reg = program.var_regs.get(var.0 as usize)?;
                Some((reg.first_word, reg.words))
            })),
            CallArg::Str(_) | CallArg::Table(_) | CallArg::Action(_) => {}
        }
    }
    effects.defs.extend(call.results.iter().map(|reg| (reg.first_word, reg.words)));
    let well_known = &program.well_known;
    let written = match call.func {
        ExternFn::MarkToDrop => [well_known.egress_spec, well_known.mcast_grp],
        ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload => [well_known.checksum_error, None],
        _ => [None, None],
    };
    effects.defs.extend(written.iter().flatten().map(|reg| (reg.first_word, reg.words)));
    effects
}

/// Returns the slots that an instruction reads and writes. A table application reports only its
/// keys, because its writes depend on the entry. In an operation, `d` is the destination, `a` and
/// `b` are operands, `c` is a condition, `h` a header, and `n` a number of slots.
pub fn effects(slots: &SlotLayout, program: &DecodedProgram, code: &BlockCode, op: &Op) -> Effects {
    let pure = |uses: &[SlotRange], def: SlotRange| Effects { uses: uses.to_vec(), defs: vec![def], is_pure: true };
    let read_only = |uses: &[SlotRange]| Effects { uses: uses.to_vec(), ..Effects::default() };
    match *op {
        Op::Mov1 { d, a } => pure(&[(a, 1)], (d, 1)),
        Op::MovN { d, a, n } => pure(&[(a, n)], (d, n)),
        Op::Field1 { h, d, a } => pure(&[(slots.validity_slot(h), 1), (a, 1)], (d, 1)),
        Op::FieldN { h, d, a, n } => pure(&[(slots.validity_slot(h), 1), (a, n)], (d, n)),
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
            WideOp::Binary { d, a, b, .. } => {
                pure(&[(a.first_word, a.words), (b.first_word, b.words)], (d.first_word, d.words))
            }
            WideOp::Unary { d, a, .. } | WideOp::Cast { d, a } | WideOp::Slice { d, a, .. } => {
                pure(&[(a.first_word, a.words)], (d.first_word, d.words))
            }
            WideOp::Concat { d, high, low } => {
                pure(&[(high.first_word, high.words), (low.first_word, low.words)], (d.first_word, d.words))
            }
        },
        Op::IsValid { d, h } => pure(&[(slots.validity_slot(h), 1)], (d, 1)),
        Op::SetValid { h } => Effects { defs: validity_writes(slots, program, h), ..Effects::default() },
        Op::SetInvalid { h } => Effects {
            defs: vec![(slots.validity_slot(h), 1), program.headers[h as usize].word_range],
            ..Effects::default()
        },
        Op::Copy { dst, src } => {
            // A copy from an invalid header changes only the destination. The other members of the
            // union keep their values, which are therefore operands.
            let others = validity_writes(slots, program, dst);
            let mut uses = vec![(slots.validity_slot(src), 1), program.headers[src as usize].word_range];
            // The first range is the validity of the destination, which the copy does not read.
            uses.extend(&others[1..]);
            let mut defs = vec![program.headers[dst as usize].word_range];
            defs.extend(others);
            Effects { uses, defs, is_pure: false }
        }
        Op::Call { index } => call_effects(program, &code.calls[index as usize]),
        Op::Branch { c, .. } => read_only(&[(c, 1)]),
        Op::Switch { index } => {
            let value = code.switches[index as usize].value;
            read_only(&[(value.first_word, value.words)])
        }
        Op::Apply { index } => {
            let keys = &code.applies[index as usize].keys;
            read_only(&keys.iter().map(|key| (key.first_word, key.words)).collect::<Vec<_>>())
        }
        _ => Effects::default(),
    }
}

/// Returns the slots that change when a header becomes valid: its validity, and the other members
/// of its union.
fn validity_writes(slots: &SlotLayout, program: &DecodedProgram, header: u32) -> Vec<SlotRange> {
    let mut defs = vec![(slots.validity_slot(header), 1)];
    for sibling in &program.headers[header as usize].union_members {
        defs.push((slots.validity_slot(*sibling), 1));
        defs.push(program.headers[*sibling as usize].word_range);
    }
    defs
}

/// Liveness of value slots before each instruction of a control.
#[derive(Clone, Debug)]
pub struct ValueLiveness {
    words: usize,
    first: WordIndex,
    /// By instruction: one bit for each value slot.
    at: Vec<u64>,
}

impl ValueLiveness {
    /// Computes the liveness of a control: a backward data flow, repeated until nothing changes,
    /// because the code can have loops.
    pub fn new(slots: &SlotLayout, program: &DecodedProgram, code: &BlockCode) -> ValueLiveness {
        let words = ((slots.end - slots.first_value) as usize).div_ceil(64);
        let mut live = ValueLiveness { words, first: slots.first_value, at: vec![0; words * (code.ops.len() + 1)] };
        let inst_effects: Vec<Effects> = code.ops.iter().map(|op| effects(slots, program, code, op)).collect();
        let mut changed = true;
        let mut live_here = vec![0u64; words];
        while changed {
            changed = false;
            for pc in (0..code.ops.len()).rev() {
                live_here.fill(0);
                successors(code, pc, |to| {
                    let live_at_successor = &live.at[to as usize * words..(to as usize + 1) * words];
                    live_here.iter_mut().zip(live_at_successor).for_each(|(word, bits)| *word |= bits);
                });
                if inst_effects[pc].is_pure {
                    // A write to a field of an invalid header has no effect, but fields are not
                    // value slots.
                    for slot in slots_in_ranges(&inst_effects[pc].defs)
                        .filter(|slot| (slots.first_value..slots.end).contains(slot))
                    {
                        let bit = (slot - slots.first_value) as usize;
                        live_here[bit / 64] &= !(1 << (bit % 64));
                    }
                }
                for slot in
                    slots_in_ranges(&inst_effects[pc].uses).filter(|slot| (slots.first_value..slots.end).contains(slot))
                {
                    let bit = (slot - slots.first_value) as usize;
                    live_here[bit / 64] |= 1 << (bit % 64);
                }
                let stored = &mut live.at[pc * words..(pc + 1) * words];
                if stored != live_here {
                    stored.copy_from_slice(&live_here);
                    changed = true;
                }
            }
        }
        live
    }

    /// Returns whether the value slot can be read at the instruction or later.
    pub fn is_live(&self, pc: InstIndex, slot: WordIndex) -> bool {
        let bit = (slot - self.first) as usize;
        self.at[pc as usize * self.words + bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// Returns the slots of the ranges.
pub fn slots_in_ranges(spans: &[SlotRange]) -> impl Iterator<Item = WordIndex> + '_ {
    spans.iter().flat_map(|(first, count)| *first..*first + *count)
}

/// Calls `visit` with each instruction that can follow `pc`.
fn successors(code: &BlockCode, pc: usize, mut visit: impl FnMut(InstIndex)) {
    match code.ops[pc] {
        Op::Goto { pc } | Op::Back { pc } => visit(pc),
        Op::Branch { then, els, .. } => {
            visit(then);
            visit(els);
        }
        Op::Switch { index } => {
            let switch = &code.switches[index as usize];
            switch.narrow.iter().for_each(|(_, to)| visit(*to));
            switch.wide.iter().for_each(|(_, to)| visit(*to));
            visit(switch.default);
        }
        Op::Apply { index } => code.applies[index as usize].arms.iter().for_each(|arm| visit(arm.pc)),
        Op::Return | Op::Exit | Op::Reject => {}
        _ => visit(pc as InstIndex + 1),
    }
}
