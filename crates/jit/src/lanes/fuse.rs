//! Which operations become which instructions: several become one where an instruction can do what they do together, and what nobody needs becomes none.

use super::bound::bounds;
use super::ir::{Code, Id, Op};
use super::logic::{self, Logic};
use super::plain;

/// Lanes that a vector instruction works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Under {
    /// All.
    All,
    /// Those of the mask; others are 0.
    Zeroed(Id),
    /// Those of the mask; others have the value's lane.
    Over(Id, Id),
}

/// Vector instructions of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Product of the lower 32 bits.
    MulLow,
    /// Both.
    And,
    /// Not in the first, in the second.
    AndNot,
    /// Either.
    Or,
    /// One of both.
    Xor,
    /// Shift by the other's lanes.
    ShlBy,
    /// Shift by the other's lanes.
    ShrBy,
}

/// Vector instructions of an operand and a number of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift {
    /// To more significant places.
    Shl,
    /// To less significant places.
    Shr,
    /// To less significant places with the sign.
    Sar,
    /// Around.
    Rotl64,
    /// Around, 32 bits.
    Rotl32,
}

/// Mask instructions of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Masks {
    /// In both.
    Both,
    /// In either.
    Either,
    /// In one of both.
    OneOf,
    /// In the first and not in the second.
    Without,
}

/// What tells lanes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// A comparison, by the number that the instruction has for it.
    Compare(u8, bool, Id, Id),
    /// Whether there is a common bit, or, if the flag is set, none.
    Test(bool, Id, Id),
}

/// An instruction, or a few.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Of two vectors.
    Binary(Binary, Id, Id, Under),
    /// Of three vectors, by a table.
    Ternary(u8, [Id; 3], Under),
    /// Of a vector.
    Shift(Shift, Id, u8, Under),
    /// Two vectors' lanes; the first's in the mask's.
    Blend(Id, Id, Id),
    /// A vector's lanes, or 0.
    Zeroed(Id, Id),
    /// Rows, of which these words are wanted.
    Rows([Option<Id>; 8]),
    /// A condition, within a mask if there is one.
    Condition(Condition, Option<Id>),
    /// Of two masks.
    Masks(Masks, Id, Id),
    /// As the operation says.
    Plain,
}

/// An instruction and what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// The operation whose value or effect it gives.
    pub id: Id,
    /// What it does.
    pub what: What,
}

/// What is carried out, and what it refers to.
pub(super) struct Plan {
    /// The operations, of which those that are the same stand once.
    pub ops: Vec<Op>,
    /// In order.
    pub steps: Vec<Step>,
    /// By operation: it has no step, and is made wherever it is needed.
    pub renewable: Vec<bool>,
}

/// What a step takes, each as often as it takes it.
pub(super) fn taken(ops: &[Op], step: &Step) -> Vec<Id> {
    let under = |ids: &[Id], under: &Under| {
        let more = match under {
            Under::All => vec![],
            Under::Zeroed(mask) => vec![*mask],
            Under::Over(mask, base) => vec![*mask, *base],
        };
        [ids, &more].concat()
    };
    match &step.what {
        What::Binary(_, a, b, lanes) => under(&[*a, *b], lanes),
        What::Ternary(_, leaves, lanes) => under(leaves, lanes),
        What::Shift(_, a, _, lanes) => under(&[*a], lanes),
        What::Blend(mask, a, b) => vec![*mask, *a, *b],
        What::Zeroed(mask, a) => vec![*mask, *a],
        What::Rows(_) => vec![],
        What::Condition(Condition::Compare(_, _, a, b) | Condition::Test(_, a, b), within) => {
            within.iter().copied().chain([*a, *b]).collect()
        }
        What::Masks(_, a, b) => vec![*a, *b],
        What::Plain => ops[step.id.0 as usize].operands(),
    }
}

/// Steps that give the same for all packets, which are carried out once, and the others.
pub(super) fn same_each_turn(ops: &[Op], steps: Vec<Step>, renewable: &[bool]) -> (Vec<Step>, Vec<Step>) {
    let mut same: Vec<bool> = ops
        .iter()
        .zip(renewable)
        .map(|(op, renewable)| matches!(op, Op::Const(_)) || *renewable && matches!(op, Op::ContextWord(_)))
        .collect();
    let (mut before, mut turns) = (Vec::new(), Vec::new());
    for step in steps {
        let all = taken(ops, &step).iter().all(|id| same[id.0 as usize]);
        let computes = match &step.what {
            What::Binary(.., Under::All) | What::Ternary(.., Under::All) | What::Shift(.., Under::All) => true,
            What::Plain => matches!(ops[step.id.0 as usize], Op::Bytes(..) | Op::Pointed { .. }),
            _ => false,
        };
        if all && computes {
            same[step.id.0 as usize] = true;
            before.push(step);
        } else {
            turns.push(step);
        }
    }
    (before, turns)
}

/// Settles what is carried out.
pub(super) fn plan(code: &Code) -> Plan {
    let ops = plain::plain(code);
    let bounds = bounds(&ops);
    let renewable: Vec<bool> = plain::renewable(&ops);
    let mut fuser = Fuser { uses: plain::uses(&ops), gone: vec![false; ops.len()], ops, bounds, steps: Vec::new() };
    for index in (0..fuser.ops.len()).rev() {
        let needed = fuser.uses[index] > 0 || fuser.ops[index].is_effect();
        if needed && !renewable[index] && !fuser.gone[index] {
            fuser.step(Id(index as u32));
        }
    }
    let steps = fuser.steps.into_iter().rev().map(|(_, step)| step).collect();
    Plan { ops: fuser.ops, steps, renewable }
}

/// Goes backwards, so that what takes others in comes before them.
pub(super) struct Fuser {
    ops: Vec<Op>,
    bounds: Vec<u64>,
    /// By operation: how often it is used.
    uses: Vec<u32>,
    /// By operation: another one's instruction does it, too.
    gone: Vec<bool>,
    /// With their places in the code, the last one first.
    steps: Vec<(usize, Step)>,
}

impl Fuser {
    pub(super) fn op(&self, id: Id) -> &Op {
        &self.ops[id.0 as usize]
    }

    pub(super) fn single(&self, id: Id) -> bool {
        self.uses[id.0 as usize] == 1
    }

    pub(super) fn take_in(&mut self, id: Id) {
        self.gone[id.0 as usize] = true;
    }

    pub(super) fn constant(&self, id: Id) -> Option<u64> {
        match self.op(id) {
            Op::Const(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether another operation's instruction does it.
    pub(super) fn is_gone(&self, id: Id) -> bool {
        self.gone[id.0 as usize]
    }

    fn step(&mut self, id: Id) {
        let what = match self.op(id).clone() {
            Op::Word(..) => return,
            Op::Rows { .. } => return self.rows(id),
            Op::Blend(mask, a, b) => self.blend(mask, a, b),
            Op::Compare(..) => {
                let condition = self.condition(id, false);
                condition.map_or(What::Plain, |condition| What::Condition(condition, None))
            }
            Op::Not(a) if self.single(a) => match self.condition(a, true) {
                Some(condition) => {
                    self.take_in(a);
                    What::Condition(condition, None)
                }
                None => What::Plain,
            },
            Op::Both(a, b) => self.both(a, b),
            Op::Without(a, b) => match self.within(b, true) {
                Some(condition) => What::Condition(condition, Some(a)),
                None => What::Masks(Masks::Without, a, b),
            },
            Op::Either(a, b) => What::Masks(Masks::Either, a, b),
            Op::OneOf(a, b) => What::Masks(Masks::OneOf, a, b),
            _ => self.vector(id, Under::All).unwrap_or(What::Plain),
        };
        self.steps.push((id.0 as usize, Step { id, what }));
    }

    /// Rows are taken apart at once, where the first word of them is needed: unless something is written before that.
    fn rows(&mut self, id: Id) {
        let mut words = [None; 8];
        let mut first = self.ops.len();
        for (index, op) in self.ops.iter().enumerate() {
            if let Op::Word(rows, word) = op
                && *rows == id
                && self.uses[index] > 0
            {
                words[usize::from(*word)] = Some(Id(index as u32));
                first = first.min(index);
            }
        }
        let between = self.ops.get(id.0 as usize..first).unwrap_or_default();
        let place = if between.iter().any(Op::is_effect) { id.0 as usize } else { first };
        let at = self.steps.iter().position(|(other, _)| *other < place).unwrap_or(self.steps.len());
        self.steps.insert(at, (place, Step { id, what: What::Rows(words) }));
    }

    /// What gives a vector's value in some lanes, if there is an instruction for that.
    fn vector(&mut self, id: Id, under: Under) -> Option<What> {
        let binary = |kind, a, b| Some(What::Binary(kind, a, b, under));
        let shift = |kind, a, by| Some(What::Shift(kind, a, by, under));
        match *self.op(id) {
            Op::Add(a, b) => binary(Binary::Add, a, b),
            Op::Sub(a, b) => binary(Binary::Sub, a, b),
            Op::Mul(a, b) => {
                let low = [a, b].iter().all(|id| self.bounds[id.0 as usize] <= u64::from(u32::MAX));
                binary(if low { Binary::MulLow } else { Binary::Mul }, a, b)
            }
            Op::And(..) | Op::Or(..) | Op::Xor(..) => self.logic(id, under),
            Op::Shl(a, by) => shift(Shift::Shl, a, by),
            Op::Shr(a, by) => shift(Shift::Shr, a, by),
            Op::Sar(a, by) => shift(Shift::Sar, a, by),
            Op::Rotl64(a, by) => shift(Shift::Rotl64, a, by),
            // Its lanes are of 32 bits, and so would be a mask's.
            Op::Rotl32(a, by) if under == Under::All => shift(Shift::Rotl32, a, by),
            Op::ShlBy(a, b) => binary(Binary::ShlBy, a, b),
            Op::ShrBy(a, b) => binary(Binary::ShrBy, a, b),
            _ => None,
        }
    }

    fn logic(&mut self, id: Id, under: Under) -> Option<What> {
        let plain = match *self.op(id) {
            Op::And(a, b) => What::Binary(Binary::And, a, b, under),
            Op::Or(a, b) => What::Binary(Binary::Or, a, b, under),
            Op::Xor(a, b) => What::Binary(Binary::Xor, a, b, under),
            _ => return None,
        };
        let gone = &self.gone;
        let single = |id: Id| self.uses[id.0 as usize] == 1 && !gone[id.0 as usize];
        let Some(Logic { leaves, table, inner }) = logic::tree(&self.ops, id, single) else {
            return Some(plain);
        };
        let what = match (leaves.as_slice(), table) {
            _ if inner.is_empty() => return Some(plain),
            (&[a, b], NOT_FIRST) => What::Binary(Binary::AndNot, a, b, under),
            (&[a, b], NOT_SECOND) => What::Binary(Binary::AndNot, b, a, under),
            (&[a, b], table) => What::Ternary(table, [a, b, b], under),
            (&[a, b, c], table) => What::Ternary(table, [a, b, c], under),
            _ => return Some(plain),
        };
        // Lanes that are not in the mask stay what the first operand was: the base has to be one.
        if let (What::Ternary(_, leaves, _), Under::Over(_, base)) = (&what, under)
            && !leaves.contains(&base)
        {
            return None;
        }
        for id in inner {
            self.take_in(id);
        }
        Some(what)
    }

    fn blend(&mut self, mask: Id, a: Id, b: Id) -> What {
        let zero = self.constant(b) == Some(0);
        let under = if zero { Under::Zeroed(mask) } else { Under::Over(mask, b) };
        if self.single(a)
            && let Some(what) = self.vector(a, under)
        {
            self.take_in(a);
            return what;
        }
        if zero { What::Zeroed(mask, a) } else { What::Blend(mask, a, b) }
    }
}

/// Tables of two operands: the second where the first is not, and the other way round.
const NOT_FIRST: u8 = !logic::PATTERNS[0] & logic::PATTERNS[1];
const NOT_SECOND: u8 = logic::PATTERNS[0] & !logic::PATTERNS[1];
