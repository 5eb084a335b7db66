//! [`Segment`]: a stretch of a traversal, as it can be kept and replayed: what a packet must look like, and what is done to it then.

use crate::effects::{Live, Slots, spread};
use crate::justify::Justify;
use crate::record::{Done, Kind, Known, NONE, Operand, Record};
use crate::witness::Witness;
use interp::walk::{ApplySite, Code, Op, Outcome, Pc, Slot, State, Walker};
use std::cell::OnceCell;

/// Where a segment leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// On to the table application there: the tag of what follows.
    At(Pc),
    /// To the end of the control: by `exit`, or not.
    Done {
        /// See above.
        exit: bool,
    },
}

impl End {
    /// How the control ends, if it does.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            End::At(_) => None,
            End::Done { exit: true } => Some(Outcome::Exit),
            End::Done { exit: false } => Some(Outcome::Return),
        }
    }
}

/// A lookup that a segment was made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The table.
    pub table: u32,
    /// The words of the values of its keys, field by field.
    pub key: Box<[u64]>,
    /// The bits of them that decided.
    pub mask: Box<[u64]>,
    /// The number of the entry that was found.
    pub found: Option<u32>,
}

/// An instruction of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Play {
    /// Carry it out.
    Step(Pc),
    /// Carry out a decision: if it does not go on at `to`, the replay ends there.
    Check {
        /// Which instruction.
        pc: Pc,
        /// Where it went on when it was recorded.
        to: Pc,
    },
    /// Apply a table, which finds what it found. If that does not go on at `to`, as the member of a
    /// group may not, the replay ends there.
    Apply {
        /// Which instruction.
        pc: Pc,
        /// Index into [`Segment::asked`].
        asked: u32,
        /// Where it went on when it was recorded.
        to: Pc,
    },
}

/// Which bits of a packet's state a segment matches, by slot. Slots from [`Slots::end`] on stand
/// for the validity of headers.
pub type StateMask = Box<[(Slot, u64)]>;

/// What a packet has under a mask: a word for each of its slots.
pub fn masked_state(slots: &Slots, mask: &[(Slot, u64)], state: State<'_>) -> Box<[u64]> {
    let word = |(slot, mask): &(Slot, u64)| match slot.checked_sub(slots.end) {
        None => state.slots[*slot as usize] & mask,
        Some(header) => u64::from(state.valid[header as usize]),
    };
    mask.iter().map(word).collect()
}

/// A stretch of a traversal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins: the start of the control, or a table application.
    pub tag: Pc,
    /// The bits of the packet's state that must match.
    pub mask: StateMask,
    /// What they must be: a word for each slot of the mask.
    pub values: Box<[u64]>,
    /// What is done.
    pub plays: Box<[Play]>,
    /// Where it leads.
    pub end: End,
    /// Backward jumps that are left out, and table applications.
    pub fuel: u64,
    /// The backward jumps alone.
    pub backs: u64,
    /// The lookups that it was made from, in order.
    pub asked: Box<[Asked]>,
}

impl Segment {
    /// Bytes that it takes, about.
    pub fn memory(&self) -> usize {
        let asked: usize = self.asked.iter().map(|asked| size_of_val(&*asked.key) + size_of_val(&*asked.mask)).sum();
        let lists = size_of_val(&*self.mask) + size_of_val(&*self.values) + size_of_val(&*self.plays);
        size_of::<Segment>() + lists + size_of_val(&*self.asked) + asked
    }

    /// How many tables it stands for.
    pub fn tables(&self) -> usize {
        self.asked.len()
    }
}

/// Why a stretch can't be kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Uncacheable {
    /// The packet may have added an entry.
    AddEntry,
    /// It missed in a table that packets add entries to.
    AddOnMiss,
    /// More instructions than are recorded.
    TooLong,
    /// The engine gave up.
    Aborted,
}

impl Uncacheable {
    /// In a sentence.
    pub fn why(self) -> &'static str {
        match self {
            Uncacheable::AddEntry => "the packet adds an entry to a table, which each such packet must do itself",
            Uncacheable::AddOnMiss => "it misses in a table that packets add entries to: the next packet may find one",
            Uncacheable::TooLong => "it takes more instructions than are recorded",
            Uncacheable::Aborted => "the engine gave up on it",
        }
    }

    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            Uncacheable::AddEntry => "adds_entry",
            Uncacheable::AddOnMiss => "miss_adds_entry",
            Uncacheable::TooLong => "too_long",
            Uncacheable::Aborted => "aborted",
        }
    }
}

/// What can't be made one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The key of the table of that unit depends on what differs from packet to packet: it must begin a segment.
    CutAt(usize),
    /// Not at all.
    No(Uncacheable),
}

/// What a traversal is made with.
#[derive(Clone, Copy)]
pub struct Ground<'t> {
    /// See [`Known`].
    pub known: &'t Known,
    /// The code of the control.
    pub code: &'t Code,
    /// By table.
    pub witnesses: &'t [Witness],
    /// By table: packets add entries.
    pub add_on_miss: &'t [bool],
    /// By slot: a variable that is not needed behind the control.
    pub local: &'t [bool],
    /// Values that are needed later.
    pub live: &'t Live,
    /// Segments ask for all bits of each slot that was looked at.
    pub whole_fields: bool,
}

/// A recorded traversal, cut at its table applications into units of at most one table each.
pub struct Traversal<'t> {
    ground: Ground<'t>,
    record: &'t Record,
    outcome: Outcome,
    /// First step of each unit, and the number of steps.
    bounds: Vec<usize>,
    applications: Vec<usize>,
    asked: Vec<OnceCell<Option<Asked>>>,
}

impl<'t> Traversal<'t> {
    /// Of a record, and how it ended.
    pub fn new(ground: Ground<'t>, record: &'t Record, outcome: Outcome) -> Traversal<'t> {
        let applications: Vec<usize> = record.applications().collect();
        // What comes before the first table is a unit of its own.
        let mut bounds = vec![0];
        bounds.extend(applications.iter().copied().filter(|at| *at > 0));
        bounds.push(record.steps.len());
        let asked = applications.iter().map(|_| OnceCell::new()).collect();
        Traversal { ground, record, outcome, bounds, applications, asked }
    }

    /// How many units there are: one for each table, and one for what comes before the first.
    pub fn units(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Where a unit begins.
    pub fn tag(&self, unit: usize) -> Pc {
        match unit {
            0 => self.record.start,
            _ => self.record.steps[self.bounds[unit]].pc,
        }
    }

    /// A number for the way that the packet took: the same for packets that met the same tables and took the same decisions there.
    pub fn way(&self) -> u64 {
        let mut way = u64::from(self.record.start);
        for at in &self.applications {
            let Done { pc, kind: Kind::Apply { to, .. }, .. } = self.record.steps[*at] else { continue };
            way = (way ^ u64::from(pc) << 32 ^ u64::from(to)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        way
    }

    /// The steps of a unit.
    pub fn steps(&self, unit: usize) -> std::ops::Range<usize> {
        self.bounds[unit]..self.bounds[unit + 1]
    }

    /// What a unit asked its table, if it has one.
    pub fn asked_in(&self, unit: usize, walker: &Walker<'_>) -> Option<&Asked> {
        let steps = self.steps(unit);
        let application = self.applications.iter().position(|at| steps.contains(at))?;
        self.asked(application, walker)
    }

    fn slots(&self) -> &'t Slots {
        &self.ground.known.slots
    }

    /// What the application asked its table.
    fn asked(&self, application: usize, walker: &Walker<'_>) -> Option<&Asked> {
        let make = || {
            let step = self.applications[application];
            let Done { pc, kind: Kind::Apply { found, .. }, .. } = self.record.steps[step] else { return None };
            let Op::Apply { index } = self.ground.code.ops[pc as usize] else { return None };
            let site = &self.ground.code.applies[index as usize];
            let witness = &self.ground.witnesses[site.table];
            let operands = self.record.operands(step);
            let mut key = vec![0; witness.words()];
            for (word, operand) in key_words(witness, site) {
                key[word] = operands[operand].value;
            }
            let mask = match (self.ground.whole_fields, found) {
                (true, _) => witness.all(),
                (false, Some(number)) => witness.decide(&key, Some(walker.entry(site.table, number)?)),
                (false, None) => witness.decide(&key, None),
            };
            Some(Asked { table: site.table as u32, key: key.into(), mask: mask.into(), found })
        };
        self.asked[application].get_or_init(make).as_ref()
    }

    /// The units `first..=last` as one segment.
    pub fn segment(&self, walker: &Walker<'_>, first: usize, last: usize) -> Result<Segment, Refused> {
        let (from, to) = (self.bounds[first], self.bounds[last + 1]);
        self.may_be_kept(last)?;
        let differs = self.differs(from, to);
        let mut justify =
            Justify::new(self.ground.known, self.ground.code, self.record, from, self.ground.whole_fields);
        let mut asked: Vec<Asked> = Vec::new();
        let mut plays: Vec<(usize, Play)> = Vec::new();
        for step in from..to {
            let done = &self.record.steps[step];
            let tainted =
                || self.record.operands(step).iter().any(|operand| self.is_different(operand, from, &differs));
            let play = match done.kind {
                Kind::Pure | Kind::Effect | Kind::Live => Play::Step(done.pc),
                Kind::AddEntry => return Err(Refused::No(Uncacheable::AddEntry)),
                Kind::Decision(to) if tainted() => Play::Check { pc: done.pc, to },
                Kind::Decision(_) => {
                    match self.ground.code.ops[done.pc as usize] {
                        Op::Switch { index } => justify.switch(step, index),
                        _ => justify.need(&self.record.operands(step)[0], 1),
                    }
                    continue;
                }
                Kind::Apply { found, to, .. } => {
                    let application = self.applications.partition_point(|at| *at < step);
                    if tainted() {
                        return Err(Refused::CutAt(self.bounds.partition_point(|at| *at < step)));
                    }
                    let Some(question) = self.asked(application, walker) else {
                        return Err(Refused::No(Uncacheable::TooLong));
                    };
                    if found.is_none() && self.ground.add_on_miss[question.table as usize] {
                        return Err(Refused::No(Uncacheable::AddOnMiss));
                    }
                    self.need_key(&mut justify, step, question);
                    asked.push(question.clone());
                    Play::Apply { pc: done.pc, asked: asked.len() as u32 - 1, to }
                }
            };
            plays.push((step, play));
        }
        let end = match (to == self.record.steps.len(), self.outcome) {
            (false, _) => End::At(self.tag(last + 1)),
            (true, outcome) => End::Done { exit: outcome == Outcome::Exit },
        };
        let plays = self.needed(plays, end);
        // Jumps are noted with the step that they lead to; those before the very first step belong to the first segment.
        let within = |at: usize| at > from && at <= to || at == 0 && from == 0;
        let counted = self.record.backs.iter().filter(|(at, _)| within(*at as usize));
        let backs: u64 = counted.map(|(_, count)| u64::from(*count)).sum();
        let fuel = backs + asked.len() as u64;
        let bits = justify.mask.iter().map(|(slot, bits)| (*slot, self.bits(*slot, bits.mask), bits.value));
        let bits: Vec<(Slot, u64, u64)> = bits.filter(|(_, mask, _)| *mask != 0).collect();
        Ok(Segment {
            tag: self.tag(first),
            mask: bits.iter().map(|(slot, mask, _)| (*slot, *mask)).collect(),
            values: bits.iter().map(|(_, mask, value)| value & mask).collect(),
            plays,
            end,
            fuel,
            backs,
            asked: asked.into(),
        })
    }

    /// The bits of a slot that a segment asks for, if it is these that decided.
    fn bits(&self, slot: Slot, mask: u64) -> u64 {
        match (slot >= self.slots().end, mask) {
            (true, mask) => mask & 1,
            (false, 0) => 0,
            (false, _) if self.ground.whole_fields => self.ground.known.widths[slot as usize],
            (false, mask) => mask,
        }
    }

    /// Whether a segment may go up to that unit. What it does in between is another question.
    fn may_be_kept(&self, last: usize) -> Result<(), Refused> {
        let ends = last + 1 == self.units();
        match self.outcome {
            _ if self.record.too_long => Err(Refused::No(Uncacheable::TooLong)),
            Outcome::Return | Outcome::Exit => Ok(()),
            _ if !ends => Ok(()),
            _ => Err(Refused::No(Uncacheable::Aborted)),
        }
    }

    /// For each definition of the stretch, whether it may differ though the packet's state at the start is the same.
    fn differs(&self, from: usize, to: usize) -> Vec<bool> {
        let base = self.record.steps.get(from).map_or(0, |done| done.defs.0 as usize);
        let mut differs = Vec::new();
        for step in from..to {
            let done = &self.record.steps[step];
            let live = match done.kind {
                Kind::Live | Kind::AddEntry => true,
                Kind::Apply { live, .. } => live,
                Kind::Decision(_) => false,
                Kind::Pure | Kind::Effect => self.record.operands(step).iter().any(|operand| {
                    operand.def != NONE && (operand.def as usize) >= base && differs[operand.def as usize - base]
                }),
            };
            differs.extend((done.defs.0..done.defs.1).map(|_| live));
        }
        differs
    }

    fn is_different(&self, operand: &Operand, from: usize, differs: &[bool]) -> bool {
        let base = self.record.steps.get(from).map_or(0, |done| done.defs.0 as usize);
        operand.def != NONE && operand.def as usize >= base && differs[operand.def as usize - base]
    }

    fn need_key(&self, justify: &mut Justify<'_>, step: usize, asked: &Asked) {
        let Op::Apply { index } = self.ground.code.ops[self.record.steps[step].pc as usize] else { return };
        let site = &self.ground.code.applies[index as usize];
        let operands = self.record.operands(step);
        for (word, operand) in key_words(&self.ground.witnesses[site.table], site) {
            justify.need(&operands[operand], asked.mask[word]);
        }
    }

    /// The instructions without those whose results nobody reads.
    fn needed(&self, plays: Vec<(usize, Play)>, end: End) -> Box<[Play]> {
        let slots = self.slots();
        // What is needed at the end; asked only of slots that are written.
        let at_end = |slot: Slot| match end {
            _ if slot >= slots.end => true,
            End::At(pc) if slot >= slots.values => self.ground.live.is(pc, slot),
            End::At(_) => true,
            End::Done { .. } => slot < slots.values && !self.ground.local[slot as usize],
        };
        let mut since: Vec<Option<bool>> = vec![None; slots.all()];
        let is_live = |since: &[Option<bool>], slot: Slot| since[slot as usize].unwrap_or_else(|| at_end(slot));
        let mut kept = Vec::with_capacity(plays.len());
        for (step, play) in plays.into_iter().rev() {
            let done = &self.record.steps[step];
            let defs = || self.record.defs(step).iter().map(|def| def.slot);
            if done.kind == Kind::Pure && !defs().any(|slot| is_live(&since, slot)) {
                continue;
            }
            // Where the packet may leave the cache it goes on with all that is there.
            if matches!(play, Play::Check { .. }) || matches!(done.kind, Kind::Apply { live: true, .. }) {
                since[slots.first as usize..slots.values as usize].fill(Some(true));
                let values = (slots.values..slots.end).filter(|slot| self.ground.live.is(done.pc, *slot));
                values.for_each(|slot| since[slot as usize] = Some(true));
            }
            // A field is written only if its header is valid.
            let certain = !matches!(self.ground.code.ops[done.pc as usize], Op::Field1 { .. } | Op::FieldN { .. });
            if done.kind == Kind::Pure && certain {
                defs().for_each(|slot| since[slot as usize] = Some(false));
            }
            // Of a table application the keys are known; of one that leads to a group the packet's are asked again.
            if !matches!(done.kind, Kind::Apply { live: false, .. }) {
                spread(&self.ground.known.effects[done.pc as usize].uses)
                    .for_each(|slot| since[slot as usize] = Some(true));
            }
            kept.push(play);
        }
        kept.reverse();
        kept.into()
    }
}

/// For each word of a table's key, field by field, which of the site's operands it is.
pub fn key_words<'w>(witness: &'w Witness, site: &'w ApplySite) -> impl Iterator<Item = (usize, usize)> + 'w {
    witness.fields().flat_map(|(field, at)| {
        let first: usize = site.keys[..field.position].iter().map(|reg| reg.words as usize).sum();
        (0..field.words).map(move |word| (at + word, first + word))
    })
}
