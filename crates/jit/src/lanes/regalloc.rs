//! Register allocation for vector code. The code is straight-line, so the next use of each value is
//! known. If no register is free, the one with the farthest next use is evicted (Belady). This
//! module only assigns locations; [`super::emit`] emits the moves.

use super::ir::OpId;

/// Content of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegisterContent {
    /// Nothing.
    Free,
    /// A temporary of the current instruction sequence.
    Temporary,
    /// The value of an operation.
    Value(OpId),
}

/// Registers of one class, and the stack slots for their spilled values.
pub(super) struct RegisterBank {
    first: u8,
    holders: Vec<RegisterContent>,
    /// By register: must not be evicted, because the current sequence uses it.
    pinned: Vec<bool>,
    free_slots: Vec<usize>,
    /// Slots freed in the last step; its instructions may still read them.
    left_slots: Vec<usize>,
    slots: usize,
}

/// Register classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RegClass {
    /// Vector registers.
    Vector,
    /// Mask registers.
    Mask,
}

/// An allocated register, and the spill that must precede its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RegisterClaim {
    /// The register.
    pub register: u8,
    /// Stack slot in which its previous value must be stored.
    pub store: Option<usize>,
}

/// Locations of all values.
pub(super) struct RegisterAllocation {
    vectors: RegisterBank,
    masks: RegisterBank,
    /// By value: the remaining steps that use it, the next one last.
    uses: Vec<Vec<u32>>,
    /// By value: its register.
    registers: Vec<Option<u8>>,
    /// By value: its stack slot, which it keeps.
    slots: Vec<Option<usize>>,
    /// By value: whether it can be rematerialised at any time.
    rematerializable: Vec<bool>,
    /// By value: whether it stays in its stack slot across iterations.
    kept: Vec<bool>,
    kinds: Vec<RegClass>,
}

impl RegisterBank {
    fn new(first: u8, registers: usize) -> RegisterBank {
        let holders = vec![RegisterContent::Free; registers];
        RegisterBank {
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
        self.holders.iter().position(|holder| *holder == RegisterContent::Free)
    }
}

impl RegisterAllocation {
    /// Starts with all values unallocated. `uses` lists each value's steps in ascending order.
    pub fn new(mut uses: Vec<Vec<u32>>, rematerializable: Vec<bool>, kinds: Vec<RegClass>) -> RegisterAllocation {
        for steps in &mut uses {
            steps.reverse();
        }
        let values = uses.len();
        // k0 cannot be used as a write mask.
        let (vectors, masks) = (RegisterBank::new(0, 32), RegisterBank::new(1, 7));
        let (registers, slots, kept) = (vec![None; values], vec![None; values], vec![false; values]);
        RegisterAllocation { vectors, masks, uses, registers, slots, rematerializable, kept, kinds }
    }

    fn bank(&mut self, kind: RegClass) -> &mut RegisterBank {
        match kind {
            RegClass::Vector => &mut self.vectors,
            RegClass::Mask => &mut self.masks,
        }
    }

    /// Returns the maximum number of stack slots in use.
    pub fn slot_count(&self, kind: RegClass) -> usize {
        match kind {
            RegClass::Vector => self.vectors.slots,
            RegClass::Mask => self.masks.slots,
        }
    }

    /// Returns the value's register, if it is in one.
    pub fn register(&self, id: OpId) -> Option<u8> {
        self.registers[id.0 as usize]
    }

    /// Returns the value's stack slot, if it has one.
    pub fn slot(&self, id: OpId) -> Option<usize> {
        self.slots[id.0 as usize]
    }

    /// Returns whether the step is the value's last use.
    pub fn is_last_use(&self, id: OpId, step: u32) -> bool {
        self.uses[id.0 as usize].first().is_none_or(|last| *last <= step)
    }

    /// Returns whether a register can be allocated without eviction.
    pub fn has_free_register(&self, kind: RegClass) -> bool {
        match kind {
            RegClass::Vector => self.vectors.free().is_some(),
            RegClass::Mask => self.masks.free().is_some(),
        }
    }

    /// Allocates a temporary register for the current sequence; `None` if it uses all of them.
    pub fn claim(&mut self, kind: RegClass) -> Option<RegisterClaim> {
        let index = match self.bank(kind).free() {
            Some(index) => index,
            None => self.farthest_next_use(kind)?,
        };
        let claim = self.evict(kind, index);
        self.bank(kind).holders[index] = RegisterContent::Temporary;
        Some(claim)
    }

    /// Assigns a stack slot to the value and returns it. The caller must store the value there.
    pub fn assign_slot(&mut self, id: OpId) -> usize {
        let slot = self.bank(self.kinds[id.0 as usize]).slot();
        self.slots[id.0 as usize] = Some(slot);
        slot
    }

    /// Frees a claimed register.
    pub fn release(&mut self, kind: RegClass, register: u8) {
        let bank = self.bank(kind);
        let index = bank.index(register);
        bank.holders[index] = RegisterContent::Free;
    }

    /// Assigns a claimed register to the value.
    pub fn assign_register(&mut self, id: OpId, register: u8) {
        self.registers[id.0 as usize] = Some(register);
        let bank = self.bank(self.kinds[id.0 as usize]);
        let index = bank.index(register);
        bank.holders[index] = RegisterContent::Value(id);
    }

    /// Prevents eviction of the register until the step is done.
    pub fn pin(&mut self, kind: RegClass, register: u8) {
        let bank = self.bank(kind);
        let index = bank.index(register);
        bank.pinned[index] = true;
    }

    /// Ends a step that used these values. Values without a further use lose their locations,
    /// except that `kept` keeps its register as a claimed one.
    pub fn retire(&mut self, used: &[OpId], step: u32, kept: Option<OpId>) {
        // Slots that the previous step left may be reused now.
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
                let holder = if kept == Some(*id) { RegisterContent::Temporary } else { RegisterContent::Free };
                let bank = self.bank(kind);
                let index = bank.index(register);
                bank.holders[index] = holder;
            }
        }
        self.vectors.pinned.fill(false);
        self.masks.pinned.fill(false);
    }

    /// Returns the live values in registers.
    pub fn live_in_registers(&self) -> Vec<OpId> {
        let used = |id: &OpId| self.registers[id.0 as usize].is_some() && !self.uses[id.0 as usize].is_empty();
        (0..self.registers.len() as u32).map(OpId).filter(used).collect()
    }

    /// Starts the loop: values with a stack slot keep it across iterations, and all registers are
    /// free.
    pub fn begin_loop(&mut self) {
        for (kept, slot) in self.kept.iter_mut().zip(&self.slots) {
            *kept = slot.is_some();
        }
        self.registers.fill(None);
        for bank in [&mut self.vectors, &mut self.masks] {
            bank.holders.fill(RegisterContent::Free);
        }
    }

    fn evict(&mut self, kind: RegClass, index: usize) -> RegisterClaim {
        let bank = self.bank(kind);
        let register = bank.first + index as u8;
        let RegisterContent::Value(id) = bank.holders[index] else {
            return RegisterClaim { register, store: None };
        };
        self.registers[id.0 as usize] = None;
        let lost = self.slots[id.0 as usize].is_none() && !self.rematerializable[id.0 as usize];
        RegisterClaim { register, store: lost.then(|| self.assign_slot(id)) }
    }

    /// Returns the register with the farthest next use. Prefers a value that needs no spill, unless
    /// its use is much sooner.
    fn farthest_next_use(&mut self, kind: RegClass) -> Option<usize> {
        let bank = match kind {
            RegClass::Vector => &self.vectors,
            RegClass::Mask => &self.masks,
        };
        let candidates = bank.holders.iter().enumerate().filter_map(|(index, holder)| match holder {
            RegisterContent::Value(id) if !bank.pinned[index] => Some((index, *id)),
            _ => None,
        });
        let rank = |id: OpId| {
            let index = id.0 as usize;
            let next = self.uses[index].last().copied().unwrap_or(u32::MAX);
            let cheap = self.rematerializable[index] || self.slots[index].is_some();
            next.saturating_add(if cheap { CHEAP } else { 0 })
        };
        candidates.max_by_key(|(_, id)| rank(*id)).map(|(index, _)| index)
    }
}

/// A value that needs no spill is evicted first unless its next use is more than this many steps
/// sooner.
const CHEAP: u32 = 8;
