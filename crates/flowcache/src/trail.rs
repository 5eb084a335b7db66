//! [`Trail`]: the least that is noted of a packet on the slow path: its decisions, what tables were asked and what they found, and its state where segments may
//! begin. With what is known of its way ([`crate::recipe`]) it gives segments.

use crate::record::{Kind, Known, MAX_STEPS, Record};
use crate::segment::key_words;
use crate::witness::Witness;
use interp::walk::{ApplySite, Code, Op, Pc, State, Watch};

/// The most places on a packet's way of which its state is kept.
const MAX_STATES: usize = 16;

/// Where a branch, a switch or a table application went on; of the latter also whether an entry was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decision(u32);

impl Decision {
    const FOUND: u32 = 1 << 31;

    fn new(to: Pc, found: bool) -> Decision {
        Decision(to | if found { Decision::FOUND } else { 0 })
    }

    /// Where it went on.
    pub fn to(self) -> Pc {
        self.0 & !Decision::FOUND
    }

    /// A table application: whether an entry was found.
    pub fn found(self) -> bool {
        self.0 & Decision::FOUND != 0
    }
}

/// A packet's state at a place on its way.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// In front of which table application; `None`: at the start.
    application: Option<usize>,
    slots: Vec<u64>,
    valid: Vec<bool>,
}

/// See the module. Its buffers are used again.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    /// The decisions.
    pub decisions: Vec<Decision>,
    /// For each table application, the number of the entry that was found.
    pub found: Vec<Option<u32>>,
    /// For each of them, the first of its keys' words.
    firsts: Vec<u32>,
    keys: Vec<u64>,
    /// There were more than [`MAX_STEPS`].
    pub too_long: bool,
    kept: Vec<Kept>,
    states: usize,
}

impl Trail {
    /// A packet sets out at the beginning of the control, or at a table application.
    pub fn begin(&mut self, known: &Known, state: State<'_>, start: Pc) {
        self.decisions.clear();
        self.found.clear();
        self.firsts.clear();
        self.keys.clear();
        self.too_long = false;
        self.states = 0;
        // At the beginning of the control no value has been made yet.
        self.keep(known, state, None, start == 0);
    }

    fn keep(&mut self, known: &Known, state: State<'_>, application: Option<usize>, variables_only: bool) {
        if self.states >= MAX_STATES {
            return;
        }
        if self.states == self.kept.len() {
            self.kept.push(Kept::default());
        }
        let kept = &mut self.kept[self.states];
        self.states += 1;
        kept.application = application;
        let slots = known.slots;
        let end = if variables_only { slots.values } else { slots.end };
        kept.slots.clear();
        kept.slots.extend_from_slice(&state.slots[slots.first as usize..end as usize]);
        kept.valid.clear();
        kept.valid.extend_from_slice(state.valid);
    }

    /// The packet's state in front of the table application of that number, or at the start, if it was kept; its first slot is [`crate::effects::Slots::first`]. What no
    /// value was in yet is not there.
    pub fn state(&self, application: Option<usize>) -> Option<State<'_>> {
        let kept = self.kept[..self.states].iter().find(|kept| kept.application == application)?;
        Some(State { slots: &kept.slots, valid: &kept.valid })
    }

    /// The words of the keys that a table was asked, field by field.
    pub fn key(&self, application: usize) -> &[u64] {
        let end = self.firsts.get(application + 1).map_or(self.keys.len(), |end| *end as usize);
        &self.keys[self.firsts[application] as usize..end]
    }

    /// Of a record that was made of a packet: what [`crate::trail::Noting`] would have noted. `before` is the packet's state at its start, `cuts` as there.
    pub fn of(
        record: &Record,
        known: &Known,
        code: &Code,
        (witnesses, cuts): (&[Witness], &[bool]),
        before: State<'_>,
    ) -> Trail {
        let mut trail = Trail::default();
        trail.begin(known, before, record.start);
        let (mut slots, mut valid) = (before.slots.to_vec(), before.valid.to_vec());
        for (step, done) in record.steps.iter().enumerate() {
            match (done.kind, code.ops[done.pc as usize]) {
                (Kind::Decision(to), _) => trail.decisions.push(Decision::new(to, false)),
                (Kind::Apply { found, to, .. }, Op::Apply { index }) => {
                    if cuts[done.pc as usize] {
                        let state = State { slots: &slots, valid: &valid };
                        trail.keep(known, state, Some(trail.found.len()), false);
                    }
                    let site = &code.applies[index as usize];
                    trail.note(site, witnesses, found, |operand| record.operands(step)[operand].value);
                    trail.decisions.push(Decision::new(to, found.is_some()));
                }
                _ => {}
            }
            for def in record.defs(step) {
                match def.slot.checked_sub(known.slots.end) {
                    None => slots[def.slot as usize] = def.value,
                    Some(header) => valid[header as usize] = def.value != 0,
                }
            }
        }
        trail.too_long = record.too_long;
        trail
    }

    fn note(&mut self, site: &ApplySite, witnesses: &[Witness], found: Option<u32>, operand: impl Fn(usize) -> u64) {
        self.firsts.push(self.keys.len() as u32);
        self.found.push(found);
        self.keys.extend(key_words(&witnesses[site.table], site).map(|(_, at)| operand(at)));
    }
}

/// Notes a packet's trail as it walks.
pub struct Noting<'n> {
    /// Where it is noted.
    pub trail: &'n mut Trail,
    /// What is known of the program.
    pub known: &'n Known,
    /// By table: the slots of the words of its keys are found in these.
    pub witnesses: &'n [Witness],
    /// By instruction: whether segments begin at that table application.
    pub cuts: &'n [bool],
    /// What the table that was asked just now found.
    pub found: bool,
}

impl Watch for Noting<'_> {
    #[inline]
    fn asked(&mut self, site: &ApplySite, pc: Pc, packet: State<'_>, found: Option<u32>) {
        if self.trail.too_long {
            return;
        }
        if self.cuts[pc as usize] {
            let application = self.trail.found.len();
            self.trail.keep(self.known, packet, Some(application), false);
        }
        self.trail.firsts.push(self.trail.keys.len() as u32);
        self.trail.found.push(found);
        self.witnesses[site.table].push_key(site, packet.slots, &mut self.trail.keys);
        self.found = found.is_some();
    }

    #[inline]
    fn decided(&mut self, to: Pc) {
        match self.trail.decisions.len() < MAX_STEPS {
            true => self.trail.decisions.push(Decision::new(to, std::mem::take(&mut self.found))),
            false => self.trail.too_long = true,
        }
    }
}
