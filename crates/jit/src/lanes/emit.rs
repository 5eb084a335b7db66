//! Machine code (AVX-512) for eight packets at once.
//!
//! The code is a loop that gets the context's address and the number of packets, at least 1 and
//! less than 2^32. Lists do not overlap each other or packets. Loads from lists that the code does
//! not write are repeated at each use instead of kept in a register.

use super::assemble::{AT, AsmOperand, Assembler, CONTEXT, COUNT, Mem, VectorEmitError, WriteLanes, kreg, zmm};
use super::ir::{LANES, OpId, VectorCode, VectorOp};
use super::regalloc::{RegClass, RegisterAllocation};
use super::select::{self, MachineOp, SelectedInst};
use super::verify::verify;
use iced_x86::{Code as X86, Register};

/// Returns whether this machine supports the instructions of [`emit`].
pub fn supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("popcnt")
}

/// Emits position-independent machine code, to be loaded at an address aligned to a cache line:
/// `unsafe extern "sysv64" fn(context: *mut u8, count: u64)`.
pub fn emit(code: &VectorCode) -> Result<Vec<u8>, VectorEmitError> {
    verify(code).map_err(VectorEmitError::Form)?;
    let select::SelectedCode { ops, steps, rematerializable } = select::select_insts(code);
    let (invariants, steps) = select::hoist_invariants(&ops, steps, &rematerializable);
    let loop_start = invariants.len();
    let steps = [invariants, steps].concat();
    let mut uses = vec![Vec::new(); ops.len()];
    for (number, step) in steps.iter().enumerate() {
        for id in select::inst_operands(&ops, step) {
            uses[id.0 as usize].push(number as u32);
        }
    }
    let kinds = ops.iter().map(|op| if op.is_mask() { RegClass::Mask } else { RegClass::Vector }).collect();
    let registers = RegisterAllocation::new(uses, rematerializable.clone(), kinds);
    let mut emitter = Emitter {
        ops,
        rematerializable,
        asm: Assembler::default(),
        places: registers,
        step: 0,
        taken: Vec::new(),
        scratch: 0,
        fixed: false,
    };
    let loop_label = emitter.asm.label();
    for (number, step) in steps.iter().enumerate() {
        if number == loop_start {
            emitter.start_loop()?;
            emitter.asm.bind(loop_label);
        }
        emitter.step = number as u32;
        emitter.taken = select::inst_operands(&emitter.ops, step);
        emitter.emit_inst(step)?;
    }
    let mut asm = emitter.asm;
    // Loop end: the next eight packets, until `COUNT` is reached.
    asm.with_number(X86::Add_rm64_imm8, AT, LANES as i32)?;
    asm.emit(X86::Cmp_r64_rm64, &[AsmOperand::Reg(AT), AsmOperand::Reg(COUNT)]);
    asm.emit_jump(X86::Jb_rel32_64, loop_label)?;
    // Epilogue, without which legacy SSE code after it would be slow.
    asm.emit(X86::VEX_Vzeroupper, &[]);
    asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(Register::RSP), AsmOperand::Reg(Register::RBP)]);
    asm.emit(X86::Pop_r64, &[AsmOperand::Reg(Register::RBP)]);
    asm.emit(X86::Retnq, &[]);
    let places = emitter.places;
    asm.finish(VECTOR * places.slot_count(RegClass::Vector) + places.slot_count(RegClass::Mask))
}

/// Size of a vector in bytes.
const VECTOR: usize = 64;

/// Scratch registers for addresses and numbers.
const SCRATCH: [Register; 5] = [Register::RAX, Register::RCX, Register::R8, Register::R9, Register::R10];

/// State of code emission.
pub(super) struct Emitter {
    pub(super) ops: Vec<VectorOp>,
    pub(super) rematerializable: Vec<bool>,
    pub(super) asm: Assembler,
    pub(super) places: RegisterAllocation,
    /// Current step.
    step: u32,
    /// Operands of the current step.
    taken: Vec<OpId>,
    /// Number of scratch registers used.
    scratch: usize,
    /// Whether values must stay in place, because the current code may be skipped.
    fixed: bool,
}

impl Emitter {
    fn emit_inst(&mut self, step: &SelectedInst) -> Result<(), VectorEmitError> {
        let id = step.id;
        match step.what {
            MachineOp::Binary(kind, a, b, under) => self.emit_binary(id, kind, [a, b], under),
            MachineOp::Ternary(table, leaves, under) => self.emit_ternary(id, table, leaves, under),
            MachineOp::Shift(kind, a, by, under) => self.emit_shift(id, kind, a, by, under),
            MachineOp::Blend(mask, a, b) => self.emit_blend(id, mask, a, b),
            MachineOp::Zeroed(mask, a) => self.emit_zeroed(id, mask, a),
            MachineOp::Rows(words) => self.emit_rows(id, words),
            MachineOp::Condition(condition, within) => self.emit_condition(id, condition, within),
            MachineOp::Masks(kind, a, b) => self.emit_masks(id, kind, a, b),
            MachineOp::Plain => self.emit_op(id),
        }
    }

    /// Starts the loop: loop-invariant values move to stack slots and stay there.
    fn start_loop(&mut self) -> Result<(), VectorEmitError> {
        self.places.retire(&[], 0, None);
        for id in self.places.live_in_registers() {
            self.in_memory(id)?;
        }
        self.places.begin_loop();
        Ok(())
    }

    /// Emits one operation that selection left as it is. Operations with one machine instruction
    /// are selected before (`SelectedInst`); any other is an error of the selector.
    fn emit_op(&mut self, id: OpId) -> Result<(), VectorEmitError> {
        match self.ops[id.0 as usize].clone() {
            VectorOp::Bytes(a, from) => self.emit_bytes(id, a, from),
            VectorOp::Quotient(a, b) => self.emit_quotient(id, a, b),
            VectorOp::Carryless(a, by, higher) => self.emit_carryless(id, a, by, higher),
            VectorOp::Number(mask) => self.emit_number(id, mask),
            VectorOp::Gather { base, offset, bytes, mask } => self.emit_gather(id, base, offset, bytes, mask),
            VectorOp::Pointed { pointer, offset, bytes } => self.emit_pointed(id, pointer, offset, bytes),
            VectorOp::Column(_) | VectorOp::ContextWord(_) => {
                let register = self.claim_register(RegClass::Vector)?;
                self.rematerialize(register, id)?;
                self.finish_step_with(id, register);
                Ok(())
            }
            VectorOp::Active => self.emit_active(id),
            VectorOp::Not(a) => {
                let a = self.mask_register(a)?;
                let result = self.result_register(id)?;
                self.asm.emit(X86::VEX_Knotb_kr_kr, &[kreg(result), kreg(a)]);
                Ok(())
            }
            VectorOp::Append { count, mask, columns, keys } => self.emit_append(count, mask, &columns, &keys),
            VectorOp::Accumulate { at, mask, value } => self.emit_accumulate(at, mask, value),
            VectorOp::Scatter { list, index, mask, value } => self.emit_scatter(list, index, mask, value),
            VectorOp::Ahead { list, by, offsets } => {
                self.emit_prefetch(list, by, &offsets);
                Ok(())
            }
            VectorOp::Write { pointers, offset, bytes, words } => self.emit_write(pointers, offset, bytes, &words),
            _ => Err(VectorEmitError::Form(id)),
        }
    }

    /// Allocates a temporary register. Spills its value if necessary.
    pub(super) fn claim_register(&mut self, kind: RegClass) -> Result<u8, VectorEmitError> {
        if self.fixed && !self.places.has_free_register(kind) {
            return Err(VectorEmitError::Registers);
        }
        let claim = self.places.claim(kind).ok_or(VectorEmitError::Registers)?;
        if let Some(slot) = claim.store {
            self.spill_value(kind, claim.register, slot);
        }
        Ok(claim.register)
    }

    /// Frees `registers` vector registers for code that may be skipped. Until [`Self::end_fixed`],
    /// values stay in place.
    pub(super) fn begin_fixed(&mut self, registers: usize) -> Result<(), VectorEmitError> {
        let claimed: Result<Vec<u8>, VectorEmitError> =
            (0..registers).map(|_| self.claim_register(RegClass::Vector)).collect();
        let mask = self.claim_register(RegClass::Mask)?;
        self.places.release(RegClass::Mask, mask);
        for register in claimed? {
            self.places.release(RegClass::Vector, register);
        }
        self.fixed = true;
        Ok(())
    }

    /// Ends [`Self::begin_fixed`].
    pub(super) fn end_fixed(&mut self) {
        self.fixed = false;
    }

    fn spill_value(&mut self, kind: RegClass, register: u8, slot: usize) {
        let (code, value) = match kind {
            RegClass::Vector => (X86::EVEX_Vmovdqa64_zmmm512_k1z_zmm, zmm(register)),
            RegClass::Mask => (X86::VEX_Kmovb_m8_kr, kreg(register)),
        };
        self.asm.emit(code, &[AsmOperand::Mem(slot_operand(kind, slot)), value]);
    }

    pub(super) fn release_vectors(&mut self, registers: &[u8]) {
        for register in registers {
            self.places.release(RegClass::Vector, *register);
        }
    }

    /// Returns a scratch register.
    pub(super) fn next_scratch(&mut self) -> Register {
        self.scratch += 1;
        SCRATCH[self.scratch % SCRATCH.len()]
    }

    /// Returns the vector's register, pinned until the step is done.
    pub(super) fn vector_register(&mut self, id: OpId) -> Result<u8, VectorEmitError> {
        self.load_pinned(RegClass::Vector, id)
    }

    /// Returns the mask's register, pinned until the step is done.
    pub(super) fn mask_register(&mut self, id: OpId) -> Result<u8, VectorEmitError> {
        self.load_pinned(RegClass::Mask, id)
    }

    fn load_pinned(&mut self, kind: RegClass, id: OpId) -> Result<u8, VectorEmitError> {
        let register = match self.places.register(id) {
            Some(register) => register,
            None => {
                let register = self.claim_register(kind)?;
                self.load_value(kind, register, id)?;
                self.places.assign_register(id, register);
                register
            }
        };
        self.places.pin(kind, register);
        Ok(register)
    }

    /// Loads a value that is in no register into this one, temporarily.
    pub(super) fn load_value(&mut self, kind: RegClass, register: u8, id: OpId) -> Result<(), VectorEmitError> {
        let Some(slot) = self.places.slot(id) else {
            if !self.rematerializable[id.0 as usize] {
                return Err(VectorEmitError::Missing(id));
            }
            return self.rematerialize(register, id);
        };
        let from = AsmOperand::Mem(slot_operand(kind, slot));
        match kind {
            RegClass::Vector => self.asm.emit(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[zmm(register), from]),
            RegClass::Mask => self.asm.emit(X86::VEX_Kmovb_kr_km8, &[kreg(register), from]),
        }
        Ok(())
    }

    /// Makes the value of an operation without operands in `register`, as often as it is needed,
    /// which costs less than keeping it in a register.
    fn rematerialize(&mut self, register: u8, id: OpId) -> Result<(), VectorEmitError> {
        let to = zmm(register);
        match self.ops[id.0 as usize] {
            VectorOp::Const(0) => self.zero_register(register),
            VectorOp::Const(value) => {
                let word = AsmOperand::Mem(self.asm.pool_word(value));
                self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[to, word]);
            }
            VectorOp::ContextWord(offset) => {
                let word = AsmOperand::Mem(Mem::at(CONTEXT, offset));
                self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[to, word]);
            }
            VectorOp::Column(list) => {
                self.asm.emit(X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[to, AsmOperand::Mem(Mem::list(list))]);
            }
            VectorOp::Position => {
                let lanes = AsmOperand::Mem(self.asm.pool_line(NUMBERS));
                self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[to, AsmOperand::Reg(AT)]);
                self.asm.emit(X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, &[to, to, lanes]);
            }
            VectorOp::Certain(is_all) => {
                let to = kreg(register);
                let code = if is_all { X86::VEX_Kxnorb_kr_kr_kr } else { X86::VEX_Kxorb_kr_kr_kr };
                self.asm.emit(code, &[to, to, to]);
            }
            _ => return Err(VectorEmitError::Missing(id)),
        }
        Ok(())
    }

    /// Zeroes a register.
    pub(super) fn zero_register(&mut self, register: u8) {
        let to = zmm(register);
        self.asm.emit(X86::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, &[to, to, to]);
    }

    /// Returns a vector as an operand, possibly in memory: it gets a register only if it is used
    /// again.
    pub(super) fn vector_operand(&mut self, id: OpId) -> Result<AsmOperand, VectorEmitError> {
        if let Some(register) = self.places.register(id) {
            self.places.pin(RegClass::Vector, register);
            return Ok(zmm(register));
        }
        let is_used_once = self.places.is_last_use(id, self.step) || !self.places.has_free_register(RegClass::Vector);
        let memory = match (self.ops[id.0 as usize].clone(), self.places.slot(id)) {
            (VectorOp::Const(value), _) => return Ok(AsmOperand::Mem(self.asm.pool_word(value).in_all_lanes())),
            (_, Some(slot)) => Some(slot_operand(RegClass::Vector, slot)),
            (VectorOp::ContextWord(at), None) if self.rematerializable[id.0 as usize] => {
                Some(Mem::at(CONTEXT, at).in_all_lanes())
            }
            (VectorOp::Column(list), None) if self.rematerializable[id.0 as usize] => Some(Mem::list(list)),
            _ => None,
        };
        match memory {
            Some(memory) if is_used_once => Ok(AsmOperand::Mem(memory)),
            _ => Ok(zmm(self.vector_register(id)?)),
        }
    }

    /// Returns a vector's location in memory, a word for each lane.
    pub(super) fn in_memory(&mut self, id: OpId) -> Result<Mem, VectorEmitError> {
        if let (VectorOp::Column(list), true) = (&self.ops[id.0 as usize], self.rematerializable[id.0 as usize]) {
            return Ok(Mem::list(*list));
        }
        if let Some(slot) = self.places.slot(id) {
            return Ok(slot_operand(RegClass::Vector, slot));
        }
        let register = self.vector_register(id)?;
        let slot = self.places.assign_slot(id);
        self.spill_value(RegClass::Vector, register, slot);
        Ok(slot_operand(RegClass::Vector, slot))
    }

    pub(super) fn is_last_use(&self, id: OpId) -> bool {
        self.places.is_last_use(id, self.step)
    }

    /// Ends the step and retires its operands.
    pub(super) fn end_step(&mut self) {
        self.places.retire(&self.taken, self.step, None);
    }

    /// Ends the step and returns the register for its result, possibly that of an operand.
    pub(super) fn result_register(&mut self, id: OpId) -> Result<u8, VectorEmitError> {
        self.end_step();
        let kind = if self.ops[id.0 as usize].is_mask() { RegClass::Mask } else { RegClass::Vector };
        let register = self.claim_register(kind)?;
        self.places.assign_register(id, register);
        Ok(register)
    }

    /// Ends a step with its result in a claimed register.
    pub(super) fn finish_step_with(&mut self, id: OpId, register: u8) {
        self.end_step();
        self.places.assign_register(id, register);
    }

    /// Ends the step and returns a register for its result that is initialised with the base.
    pub(super) fn result_over(&mut self, id: OpId, base: OpId) -> Result<u8, VectorEmitError> {
        if self.is_last_use(base)
            && let Some(register) = self.places.register(base)
        {
            self.places.retire(&self.taken, self.step, Some(base));
            self.places.assign_register(id, register);
            return Ok(register);
        }
        if let Some(register) = self.places.register(base) {
            self.places.pin(RegClass::Vector, register);
        }
        let made = self.claim_register(RegClass::Vector)?;
        match self.places.register(base) {
            Some(register) => self.asm.emit(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[zmm(made), zmm(register)]),
            None => self.load_value(RegClass::Vector, made, base)?,
        }
        self.finish_step_with(id, made);
        Ok(made)
    }

    /// Emits an instruction on some lanes.
    pub(super) fn emit_on_lanes(&mut self, lanes: WriteLanes, code: X86, args: &[AsmOperand]) {
        self.asm.emit_masked(lanes, code, args);
    }
}

/// Lane numbers 0 to 7.
pub(super) const NUMBERS: [u64; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Returns the operand of a stack slot: vectors are at the lower end of the frame, masks at the
/// upper.
fn slot_operand(kind: RegClass, slot: usize) -> Mem {
    match kind {
        RegClass::Vector => Mem::at(Register::RSP, (VECTOR * slot) as i32),
        RegClass::Mask => Mem::at(Register::RBP, -1 - slot as i32),
    }
}
