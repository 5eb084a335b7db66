//! [`Segment`]: a stretch of a traversal, as it can be kept and replayed: what a packet must look like, and what is done to it then.

use crate::asks::Asks;
use crate::effects::{Live, Slots, spread};
use crate::justify::Justify;
use crate::record::{Done, Kind, Known, NONE, Operand, Record};
use crate::way::{Question, Source, Way};
use crate::witness::Witness;
pub use interp::walk::Play;
use interp::walk::{ApplySite, Code, Op, Outcome, Pc, Slot, Walker};
use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};

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

/// What a segment asked a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The table.
    pub table: u32,
    /// The words of its keys' values, field by field.
    pub key: Box<[u64]>,
    /// The bits of them that decided.
    pub mask: Box<[u64]>,
    /// The number of the entry.
    pub found: Option<u32>,
}

/// A stretch of a traversal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// What it shares with others of its way, once it is kept.
    pub way: Arc<Way>,
    /// What is its own: [`Way::body`].
    pub body: Box<[u64]>,
}

impl Segment {
    /// Bytes that it takes alone, about, without what it shares with others.
    pub fn memory(&self) -> usize {
        size_of::<Segment>() + size_of_val(&*self.body)
    }

    /// What the packet's state must be, packed as [`crate::asks::Asks`] says.
    pub fn values(&self) -> &[u64] {
        &self.body[..self.way.asks.words()]
    }

    /// The bits of the packet's state that must be what they are in the last: slot, bits, value; other bits of the value are 0.
    pub fn asks(&self) -> impl Iterator<Item = (Slot, u64, u64)> + '_ {
        let bits = self.way.asks.bits().iter().enumerate();
        bits.map(|(place, bits)| (bits.slot, bits.mask, self.way.asks.value(self.values(), place)))
    }

    /// The number of the entry that a question found.
    #[inline]
    pub fn found(&self, question: usize) -> Option<u32> {
        let word = self.body[self.way.asks.words() + self.way.own + question / 2];
        ((word >> (32 * (question % 2))) as u32).checked_sub(1)
    }

    /// A word of the key of a question.
    pub fn key(&self, question: usize, word: usize) -> u64 {
        match self.way.questions[question].key[word] {
            Source::Asked(place) => self.way.asks.value(self.values(), place as usize),
            Source::Own(own) => self.body[self.way.asks.words() + own as usize],
        }
    }

    /// What it was made from.
    pub fn asked(&self, question: usize) -> Asked {
        let Question { table, key, mask } = &self.way.questions[question];
        let key = (0..key.len()).map(|word| self.key(question, word)).collect();
        Asked { table: *table, key, mask: mask.clone(), found: self.found(question) }
    }
}

/// Writes what questions found where [`Segment::found`] looks for it: two to a word.
pub fn put_found(room: &mut [u64], found: impl Iterator<Item = Option<u32>>) {
    for (at, found) in found.enumerate() {
        room[at / 2] |= u64::from(found.map_or(0, |number| number + 1)) << (32 * (at % 2));
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

/// A recorded traversal, cut at its table applications into units of at most one table each.
pub struct Traversal<'t> {
    known: &'t Known,
    code: &'t Code,
    record: &'t Record,
    witnesses: &'t [Witness],
    /// By table: packets add entries.
    add_on_miss: &'t [bool],
    /// By variable slot: not needed behind the control.
    local: &'t [bool],
    live: &'t Live,
    whole_fields: bool,
    outcome: Outcome,
    /// First step of each unit, and the number of steps.
    bounds: Vec<usize>,
    applications: Vec<usize>,
    asked: Vec<OnceCell<Option<Asked>>>,
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

impl<'t> Traversal<'t> {
    /// Of a record, and how it ended.
    pub fn new(ground: Ground<'t>, record: &'t Record, outcome: Outcome) -> Traversal<'t> {
        let applications: Vec<usize> = record.applications().collect();
        // What comes before the first table is a unit of its own.
        let mut bounds = vec![0];
        bounds.extend(applications.iter().copied().filter(|at| *at > 0));
        bounds.push(record.steps.len());
        let Ground { known, code, witnesses, add_on_miss, local, live, whole_fields } = ground;
        let asked = applications.iter().map(|_| OnceCell::new()).collect();
        Traversal {
            known,
            code,
            record,
            witnesses,
            add_on_miss,
            local,
            live,
            whole_fields,
            outcome,
            bounds,
            applications,
            asked,
        }
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

    /// How many tables are applied before a unit.
    pub fn applications_before(&self, unit: usize) -> usize {
        self.applications.partition_point(|at| *at < self.bounds[unit])
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
    pub fn asked_in(&self, unit: usize, walker: Option<&Walker<'_>>) -> Option<&Asked> {
        let steps = self.steps(unit);
        let application = self.applications.iter().position(|at| steps.contains(at))?;
        self.asked(application, walker)
    }

    fn slots(&self) -> &'t Slots {
        &self.known.slots
    }

    /// What the application asked its table.
    fn asked(&self, application: usize, walker: Option<&Walker<'_>>) -> Option<&Asked> {
        let make = || {
            let step = self.applications[application];
            let Done { pc, kind: Kind::Apply { found, .. }, .. } = self.record.steps[step] else { return None };
            let Op::Apply { index } = self.code.ops[pc as usize] else { return None };
            let site = &self.code.applies[index as usize];
            let witness = &self.witnesses[site.table];
            let operands = self.record.operands(step);
            let mut key = vec![0; witness.words()];
            for (word, operand) in key_words(witness, site) {
                key[word] = operands[operand].value;
            }
            // By whole fields, the packet's way decides what is asked, and no entry need be known.
            let mask = match (self.whole_fields, found, walker) {
                (true, ..) => witness.all(),
                (false, Some(number), walker) => witness.decide(&key, Some(walker?.entry(site.table, number)?)),
                (false, None, _) => witness.decide(&key, None),
            };
            Some(Asked { table: site.table as u32, key: key.into(), mask: mask.into(), found })
        };
        self.asked[application].get_or_init(make).as_ref()
    }

    /// The units `first..=last` as one segment.
    pub fn segment(&self, walker: Option<&Walker<'_>>, first: usize, last: usize) -> Result<Segment, Refused> {
        let (from, to) = (self.bounds[first], self.bounds[last + 1]);
        self.may_be_kept(last)?;
        let differs = self.differs(from, to);
        let mut justify = Justify::new(self.known, self.code, self.record, from, self.whole_fields);
        let mut asked: Vec<(usize, &ApplySite, &Asked)> = Vec::new();
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
                    match self.code.ops[done.pc as usize] {
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
                    if found.is_none() && self.add_on_miss[question.table as usize] {
                        return Err(Refused::No(Uncacheable::AddOnMiss));
                    }
                    self.need_key(&mut justify, step, question);
                    let Op::Apply { index } = self.code.ops[done.pc as usize] else { continue };
                    asked.push((step, &self.code.applies[index as usize], question));
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
        let masks: Vec<(Slot, u64)> = justify
            .mask
            .iter()
            .map(|(slot, bits)| (*slot, self.bits(*slot, bits.mask)))
            .filter(|(_, mask)| *mask != 0)
            .collect();
        let asks = Asks::new(self.slots(), &masks);
        let mut own = Vec::new();
        let questions =
            asked.iter().map(|(step, site, asked)| self.question(&asks, (from, *step), (*site, *asked), &mut own));
        let questions: Box<[Question]> = questions.collect();
        let found = asked.iter().map(|(_, _, asked)| asked.found);
        let (tag, script) = (self.tag(first), OnceLock::new());
        let way = Way { tag, asks: asks.into(), plays, script, end, fuel, backs, questions, own: own.len() };
        let mut body = vec![0; way.body()].into_boxed_slice();
        let (values, rest) = body.split_at_mut(way.asks.words());
        way.asks.pack(masks.iter().map(|(slot, _)| justify.mask[slot].value), values);
        rest[..own.len()].copy_from_slice(&own);
        put_found(&mut rest[own.len()..], found);
        Ok(Segment { way: way.into(), body })
    }

    /// The bits of a slot that a segment asks for, if it is these that decided.
    fn bits(&self, slot: Slot, mask: u64) -> u64 {
        match (slot >= self.slots().end, mask) {
            (true, mask) => mask & 1,
            (false, 0) => 0,
            (false, _) if self.whole_fields => self.known.widths[slot as usize],
            (false, mask) => mask,
        }
    }

    /// A question of the stretch from step `from` on. Words of its key that are what the packet had when the stretch began are not kept again.
    fn question(
        &self,
        asks: &Asks,
        (from, step): (usize, usize),
        (site, asked): (&ApplySite, &Asked),
        own: &mut Vec<u64>,
    ) -> Question {
        let mut key = vec![Source::Own(0); asked.key.len()];
        for (word, operand) in key_words(&self.witnesses[site.table], site) {
            let origin = self.whole_fields.then(|| self.origin(self.record.operands(step)[operand], from)).flatten();
            key[word] = match origin.and_then(|slot| asks.place(slot)) {
                Some(place) => Source::Asked(place as u32),
                None => {
                    own.push(asked.key[word]);
                    Source::Own(own.len() as u32 - 1)
                }
            };
        }
        Question { table: asked.table, key: key.into(), mask: asked.mask.clone() }
    }

    /// The slot whose value, as it was when the stretch began, was only moved until it was read here.
    fn origin(&self, mut operand: Operand, from: usize) -> Option<Slot> {
        loop {
            if operand.def == NONE || (self.record.defs[operand.def as usize].step as usize) < from {
                return Some(operand.slot);
            }
            let def = self.record.defs[operand.def as usize];
            let done = &self.record.steps[def.step as usize];
            if !matches!(self.code.ops[done.pc as usize], Op::Mov1 { .. } | Op::MovN { .. }) {
                return None;
            }
            operand = self.record.operands(def.step as usize)[def.word as usize];
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
        let Op::Apply { index } = self.code.ops[self.record.steps[step].pc as usize] else { return };
        let site = &self.code.applies[index as usize];
        let operands = self.record.operands(step);
        for (word, operand) in key_words(&self.witnesses[site.table], site) {
            justify.need(&operands[operand], asked.mask[word]);
        }
    }

    /// The instructions without those whose results nobody reads.
    fn needed(&self, plays: Vec<(usize, Play)>, end: End) -> Arc<[Play]> {
        let slots = self.slots();
        // What is needed at the end; asked only of slots that are written.
        let at_end = |slot: Slot| match end {
            _ if slot >= slots.end => true,
            End::At(pc) if slot >= slots.values => self.live.is(pc, slot),
            End::At(_) => true,
            End::Done { .. } => slot < slots.values && !self.local[slot as usize],
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
                let values = (slots.values..slots.end).filter(|slot| self.live.is(done.pc, *slot));
                values.for_each(|slot| since[slot as usize] = Some(true));
            }
            // A field is written only if its header is valid.
            let certain = !matches!(self.code.ops[done.pc as usize], Op::Field1 { .. } | Op::FieldN { .. });
            if done.kind == Kind::Pure && certain {
                defs().for_each(|slot| since[slot as usize] = Some(false));
            }
            // Of a table application the keys are known; of one that leads to a group the packet's are asked again.
            if !matches!(done.kind, Kind::Apply { live: false, .. }) {
                spread(&self.known.effects[done.pc as usize].uses).for_each(|slot| since[slot as usize] = Some(true));
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
