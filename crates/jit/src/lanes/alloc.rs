//! Who is in which register. Code is straight, so it is known when each value is used next: where a register is needed and none is free, the one whose value is used
//! farthest on (Belady) is taken. This settles places only; [`super::emit`] writes the instructions that move values there.

use super::ir::Id;

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// Nothing.
    Free,
    /// Something of the instruction sequence under way.
    Temporary,
    /// An operation's value.
    Value(Id),
}

/// Registers of a kind, and the places of the frame that their values have when they are not in one.
pub(super) struct Bank {
    first: u8,
    holders: Vec<Holder>,
    /// By register: not to be taken, because the sequence under way uses it.
    pinned: Vec<bool>,
    free_slots: Vec<usize>,
    /// Places that values left in the step that was done last: its instructions may still read them.
    left_slots: Vec<usize>,
    slots: usize,
}

/// The kinds of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Vectors.
    Vector,
    /// Masks.
    Mask,
}

/// A register that was given, and what has to be written to the frame before it may be written over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// The register.
    pub register: u8,
    /// The place of the frame that its value goes to.
    pub store: Option<usize>,
}

/// Where the values are.
pub(super) struct Places {
    vectors: Bank,
    masks: Bank,
    /// By value: the steps that use it and are still to come, the next one last.
    uses: Vec<Vec<u32>>,
    /// By value: its register.
    registers: Vec<Option<u8>>,
    /// By value: its place in the frame, where it stays.
    slots: Vec<Option<usize>>,
    /// By value: whether it can be made again at any time.
    renewable: Vec<bool>,
    /// By value: whether it stays in the frame from turn to turn.
    kept: Vec<bool>,
    kinds: Vec<Kind>,
}

impl Bank {
    fn new(first: u8, registers: usize) -> Bank {
        let holders = vec![Holder::Free; registers];
        Bank {
            first,
            holders,
            pinned: vec![false; registers],
            free_slots: Vec::new(),
            left_slots: Vec::new(),
            slots: 0,
        }
    }

    fn index(&self, register: u8) -> usize {
        usize::from(register - self.first)
    }

    fn slot(&mut self) -> usize {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    fn free(&self) -> Option<usize> {
        self.holders.iter().position(|holder| *holder == Holder::Free)
    }
}

impl Places {
    /// Nobody is anywhere. `uses` has each value's steps in ascending order.
    pub fn new(mut uses: Vec<Vec<u32>>, renewable: Vec<bool>, kinds: Vec<Kind>) -> Places {
        for steps in &mut uses {
            steps.reverse();
        }
        let values = uses.len();
        // k0 cannot say which lanes an instruction works on.
        let (vectors, masks) = (Bank::new(0, 32), Bank::new(1, 7));
        let (registers, slots, kept) = (vec![None; values], vec![None; values], vec![false; values]);
        Places { vectors, masks, uses, registers, slots, renewable, kept, kinds }
    }

    fn bank(&mut self, kind: Kind) -> &mut Bank {
        match kind {
            Kind::Vector => &mut self.vectors,
            Kind::Mask => &mut self.masks,
        }
    }

    /// How many places of the frame were needed at most.
    pub fn frame(&self, kind: Kind) -> usize {
        match kind {
            Kind::Vector => self.vectors.slots,
            Kind::Mask => self.masks.slots,
        }
    }

    /// The value's register, if it is in one.
    pub fn register(&self, id: Id) -> Option<u8> {
        self.registers[id.0 as usize]
    }

    /// The value's place in the frame, if it has one.
    pub fn slot(&self, id: Id) -> Option<usize> {
        self.slots[id.0 as usize]
    }

    /// Whether nobody uses the value after this step.
    pub fn dies(&self, id: Id, step: u32) -> bool {
        self.uses[id.0 as usize].first().is_none_or(|last| *last <= step)
    }

    /// Whether a register could be given without taking it from a value.
    pub fn any_free(&self, kind: Kind) -> bool {
        match kind {
            Kind::Vector => self.vectors.free().is_some(),
            Kind::Mask => self.masks.free().is_some(),
        }
    }

    /// A register for what the sequence under way does; nothing if it has all of them.
    pub fn claim(&mut self, kind: Kind) -> Option<Claim> {
        let index = match self.bank(kind).free() {
            Some(index) => index,
            None => self.farthest(kind)?,
        };
        let claim = self.evict(kind, index);
        self.bank(kind).holders[index] = Holder::Temporary;
        Some(claim)
    }

    /// Gives the value a place in the frame, and says which. It has to be written there.
    pub fn give_slot(&mut self, id: Id) -> usize {
        let slot = self.bank(self.kinds[id.0 as usize]).slot();
        self.slots[id.0 as usize] = Some(slot);
        slot
    }

    /// A claimed register is no longer needed.
    pub fn release(&mut self, kind: Kind, register: u8) {
        let bank = self.bank(kind);
        let index = bank.index(register);
        bank.holders[index] = Holder::Free;
    }

    /// A claimed register holds the value from now on.
    pub fn hold(&mut self, id: Id, register: u8) {
        self.registers[id.0 as usize] = Some(register);
        let bank = self.bank(self.kinds[id.0 as usize]);
        let index = bank.index(register);
        bank.holders[index] = Holder::Value(id);
    }

    /// The register stays its value's until the step is done.
    pub fn pin(&mut self, kind: Kind, register: u8) {
        let bank = self.bank(kind);
        let index = bank.index(register);
        bank.pinned[index] = true;
    }

    /// The values were used in this step. Those that are not used again leave their places, registers and frame, except that `kept` keeps its register, as a claimed one.
    pub fn retire(&mut self, used: &[Id], step: u32, kept: Option<Id>) {
        for bank in [&mut self.vectors, &mut self.masks] {
            bank.free_slots.append(&mut bank.left_slots);
        }
        for id in used {
            let index = id.0 as usize;
            while self.uses[index].last().is_some_and(|next| *next <= step) {
                self.uses[index].pop();
            }
            if !self.uses[index].is_empty() {
                continue;
            }
            let kind = self.kinds[index];
            if let Some(slot) = self.slots[index].take_if(|_| !self.kept[index]) {
                self.bank(kind).left_slots.push(slot);
            }
            if let Some(register) = self.registers[index].take() {
                let holder = if kept == Some(*id) { Holder::Temporary } else { Holder::Free };
                let bank = self.bank(kind);
                let at = bank.index(register);
                bank.holders[at] = holder;
            }
        }
        self.vectors.pinned.fill(false);
        self.masks.pinned.fill(false);
    }

    /// The values in registers that are still used.
    pub fn in_registers(&self) -> Vec<Id> {
        let used = |id: &Id| self.registers[id.0 as usize].is_some() && !self.uses[id.0 as usize].is_empty();
        (0..self.registers.len() as u32).map(Id).filter(used).collect()
    }

    /// The value, which has a place in the frame, stays there from turn to turn, and nobody is in registers.
    pub fn begin_turns(&mut self) {
        for (kept, slot) in self.kept.iter_mut().zip(&self.slots) {
            *kept = slot.is_some();
        }
        self.registers.fill(None);
        for bank in [&mut self.vectors, &mut self.masks] {
            bank.holders.fill(Holder::Free);
        }
    }

    fn evict(&mut self, kind: Kind, index: usize) -> Claim {
        let bank = self.bank(kind);
        let register = bank.first + index as u8;
        let Holder::Value(id) = bank.holders[index] else {
            return Claim { register, store: None };
        };
        self.registers[id.0 as usize] = None;
        let lost = self.slots[id.0 as usize].is_none() && !self.renewable[id.0 as usize];
        Claim { register, store: lost.then(|| self.give_slot(id)) }
    }

    /// The register whose value is used farthest on. What needs not be written to the frame is taken first if it is not used much sooner.
    fn farthest(&mut self, kind: Kind) -> Option<usize> {
        let bank = match kind {
            Kind::Vector => &self.vectors,
            Kind::Mask => &self.masks,
        };
        let candidates = bank.holders.iter().enumerate().filter_map(|(index, holder)| match holder {
            Holder::Value(id) if !bank.pinned[index] => Some((index, *id)),
            _ => None,
        });
        let rank = |id: Id| {
            let index = id.0 as usize;
            let next = self.uses[index].last().copied().unwrap_or(u32::MAX);
            let cheap = self.renewable[index] || self.slots[index].is_some();
            next.saturating_add(if cheap { CHEAP } else { 0 })
        };
        candidates.max_by_key(|(_, id)| rank(*id)).map(|(index, _)| index)
    }
}

/// By how many steps a value that needs not be written to the frame may be used sooner than another, and still leave its register first.
const CHEAP: u32 = 8;
