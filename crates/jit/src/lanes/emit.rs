//! Machine code (AVX-512) for eight packets at once.
//!
//! The code is a loop that is entered with the context's address and the number of packets, which is at least 1 and less than 2^32. Lists lie apart from each other and from
//! packets: what is read from a list that the code does not write to is read where it is needed, and again rather than kept.

use super::alloc::{Kind, Places};
use super::assemble::{AT, Arg, Assembler, CONTEXT, COUNT, EmitError, Lanes, Mem, k, z};
use super::fuse::{self, Step, What};
use super::ir::{Code, Id, LANES, Op};
use super::verify::verify;
use iced_x86::{Code as X86, Register};

/// Whether this machine carries out what [`emit`] makes.
pub fn supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("popcnt")
}

/// Machine code that may lie at any address that is aligned to a cache line: `unsafe extern "sysv64" fn(context: *mut u8, count: u64)`.
pub fn emit(code: &Code) -> Result<Vec<u8>, EmitError> {
    verify(code).map_err(EmitError::Form)?;
    let fuse::Plan { ops, steps, renewable } = fuse::plan(code);
    let (before, steps) = fuse::same_each_turn(&ops, steps, &renewable);
    let turns_from = before.len();
    let steps = [before, steps].concat();
    let mut uses = vec![Vec::new(); ops.len()];
    for (number, step) in steps.iter().enumerate() {
        for id in fuse::taken(&ops, step) {
            uses[id.0 as usize].push(number as u32);
        }
    }
    let kinds = ops.iter().map(|op| if op.is_mask() { Kind::Mask } else { Kind::Vector }).collect();
    let places = Places::new(uses, renewable.clone(), kinds);
    let mut emitter = Emitter {
        ops,
        renewable,
        asm: Assembler::default(),
        places,
        step: 0,
        taken: Vec::new(),
        scratch: 0,
        fixed: false,
    };
    let turn = emitter.asm.label();
    for (number, step) in steps.iter().enumerate() {
        if number == turns_from {
            emitter.begin_turns()?;
            emitter.asm.bind(turn);
        }
        emitter.step = number as u32;
        emitter.taken = fuse::taken(&emitter.ops, step);
        emitter.step(step)?;
    }
    let mut asm = emitter.asm;
    asm.with_number(X86::Add_rm64_imm8, AT, LANES as i32)?;
    asm.op(X86::Cmp_r64_rm64, &[Arg::Reg(AT), Arg::Reg(COUNT)]);
    asm.jump(X86::Jb_rel32_64, turn)?;
    asm.op(X86::VEX_Vzeroupper, &[]);
    asm.op(X86::Mov_r64_rm64, &[Arg::Reg(Register::RSP), Arg::Reg(Register::RBP)]);
    asm.op(X86::Pop_r64, &[Arg::Reg(Register::RBP)]);
    asm.op(X86::Retnq, &[]);
    let places = emitter.places;
    asm.finish(VECTOR * places.frame(Kind::Vector) + places.frame(Kind::Mask))
}

/// A vector, in bytes.
const VECTOR: usize = 64;

/// Registers for addresses and numbers that are needed for a moment.
const SCRATCH: [Register; 5] = [Register::RAX, Register::RCX, Register::R8, Register::R9, Register::R10];

/// Code under way.
pub(super) struct Emitter {
    pub(super) ops: Vec<Op>,
    pub(super) renewable: Vec<bool>,
    pub(super) asm: Assembler,
    pub(super) places: Places,
    /// The step under way.
    step: u32,
    /// What it takes.
    taken: Vec<Id>,
    /// How many scratch registers were used.
    scratch: usize,
    /// Values must stay where they are: the code may be jumped over.
    fixed: bool,
}

impl Emitter {
    fn step(&mut self, step: &Step) -> Result<(), EmitError> {
        let id = step.id;
        match step.what {
            What::Binary(kind, a, b, under) => self.binary(id, kind, [a, b], under),
            What::Ternary(table, leaves, under) => self.ternary(id, table, leaves, under),
            What::Shift(kind, a, by, under) => self.shift(id, kind, a, by, under),
            What::Blend(mask, a, b) => self.blend(id, mask, a, b),
            What::Zeroed(mask, a) => self.zeroed(id, mask, a),
            What::Rows(words) => self.rows(id, words),
            What::Condition(condition, within) => self.condition(id, condition, within),
            What::Masks(kind, a, b) => self.masks(id, kind, a, b),
            What::Plain => self.plain(id),
        }
    }

    /// What is the same each turn goes to the frame, and stays there.
    fn begin_turns(&mut self) -> Result<(), EmitError> {
        self.places.retire(&[], 0, None);
        for id in self.places.in_registers() {
            self.in_memory(id)?;
        }
        self.places.begin_turns();
        Ok(())
    }

    fn plain(&mut self, id: Id) -> Result<(), EmitError> {
        match self.ops[id.0 as usize].clone() {
            Op::Bytes(a, from) => self.bytes(id, a, from),
            Op::Quotient(a, b) => self.quotient(id, a, b),
            Op::Carryless(a, by, higher) => self.carryless(id, a, by, higher),
            Op::Number(mask) => self.number(id, mask),
            Op::Gather { base, offset, bytes, mask } => self.gather(id, base, offset, bytes, mask),
            Op::Pointed { pointer, offset, bytes } => self.pointed(id, pointer, offset, bytes),
            Op::Column(_) | Op::ContextWord(_) => {
                let register = self.claim(Kind::Vector)?;
                self.renew(register, id)?;
                self.done(id, register);
                Ok(())
            }
            Op::Active => self.active(id),
            Op::Not(a) => {
                let a = self.mask(a)?;
                let made = self.result(id)?;
                self.asm.op(X86::VEX_Knotb_kr_kr, &[k(made), k(a)]);
                Ok(())
            }
            Op::Append { count, mask, columns, keys } => self.append(count, mask, &columns, &keys),
            Op::Accumulate { at, mask, value } => self.accumulate(at, mask, value),
            Op::Scatter { list, index, mask, value } => self.scatter(list, index, mask, value),
            Op::Ahead { list, by, offsets } => {
                self.ahead(list, by, &offsets);
                Ok(())
            }
            Op::Write { pointers, offset, bytes, words } => self.write(pointers, offset, bytes, &words),
            _ => Err(EmitError::Form(id)),
        }
    }

    /// A register for the moment. What it held is written to the frame, if it has to be.
    pub(super) fn claim(&mut self, kind: Kind) -> Result<u8, EmitError> {
        if self.fixed && !self.places.any_free(kind) {
            return Err(EmitError::Registers);
        }
        let claim = self.places.claim(kind).ok_or(EmitError::Registers)?;
        if let Some(slot) = claim.store {
            self.store(kind, claim.register, slot);
        }
        Ok(claim.register)
    }

    /// Makes so many vector registers free for what follows and may be jumped over, until [`Self::open`]: values stay where they are.
    pub(super) fn fix(&mut self, registers: usize) -> Result<(), EmitError> {
        let claimed: Result<Vec<u8>, EmitError> = (0..registers).map(|_| self.claim(Kind::Vector)).collect();
        let mask = self.claim(Kind::Mask)?;
        self.places.release(Kind::Mask, mask);
        for register in claimed? {
            self.places.release(Kind::Vector, register);
        }
        self.fixed = true;
        Ok(())
    }

    /// Ends [`Self::fix`].
    pub(super) fn open(&mut self) {
        self.fixed = false;
    }

    fn store(&mut self, kind: Kind, register: u8, slot: usize) {
        let (code, value) = match kind {
            Kind::Vector => (X86::EVEX_Vmovdqa64_zmmm512_k1z_zmm, z(register)),
            Kind::Mask => (X86::VEX_Kmovb_m8_kr, k(register)),
        };
        self.asm.op(code, &[Arg::Mem(place(kind, slot)), value]);
    }

    pub(super) fn release(&mut self, registers: &[u8]) {
        for register in registers {
            self.places.release(Kind::Vector, *register);
        }
    }

    /// A scratch register.
    pub(super) fn scratch(&mut self) -> Register {
        self.scratch += 1;
        SCRATCH[self.scratch % SCRATCH.len()]
    }

    /// The vector's register, where it stays until the step is done.
    pub(super) fn vector(&mut self, id: Id) -> Result<u8, EmitError> {
        self.held(Kind::Vector, id)
    }

    /// The mask's register, where it stays until the step is done.
    pub(super) fn mask(&mut self, id: Id) -> Result<u8, EmitError> {
        self.held(Kind::Mask, id)
    }

    fn held(&mut self, kind: Kind, id: Id) -> Result<u8, EmitError> {
        let register = match self.places.register(id) {
            Some(register) => register,
            None => {
                let register = self.claim(kind)?;
                self.load(kind, register, id)?;
                self.places.hold(id, register);
                register
            }
        };
        self.places.pin(kind, register);
        Ok(register)
    }

    /// Puts a value that is in no register into this one, for the moment.
    pub(super) fn load(&mut self, kind: Kind, register: u8, id: Id) -> Result<(), EmitError> {
        let Some(slot) = self.places.slot(id) else {
            if !self.renewable[id.0 as usize] {
                return Err(EmitError::Missing(id));
            }
            return self.renew(register, id);
        };
        let from = Arg::Mem(place(kind, slot));
        match kind {
            Kind::Vector => self.asm.op(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[z(register), from]),
            Kind::Mask => self.asm.op(X86::VEX_Kmovb_kr_km8, &[k(register), from]),
        }
        Ok(())
    }

    /// Makes a value that takes nothing.
    fn renew(&mut self, register: u8, id: Id) -> Result<(), EmitError> {
        let to = z(register);
        match self.ops[id.0 as usize] {
            Op::Const(0) => self.zero(register),
            Op::Const(value) => {
                let word = Arg::Mem(self.asm.word(value));
                self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[to, word]);
            }
            Op::ContextWord(at) => {
                let word = Arg::Mem(Mem::at(CONTEXT, at));
                self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[to, word]);
            }
            Op::Column(list) => {
                self.asm.op(X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[to, Arg::Mem(Mem::list(list))]);
            }
            Op::Position => {
                let lanes = Arg::Mem(self.asm.line(NUMBERS));
                self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[to, Arg::Reg(AT)]);
                self.asm.op(X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, &[to, to, lanes]);
            }
            Op::Certain(all) => {
                let to = k(register);
                let code = if all { X86::VEX_Kxnorb_kr_kr_kr } else { X86::VEX_Kxorb_kr_kr_kr };
                self.asm.op(code, &[to, to, to]);
            }
            _ => return Err(EmitError::Missing(id)),
        }
        Ok(())
    }

    /// All lanes 0.
    pub(super) fn zero(&mut self, register: u8) {
        let to = z(register);
        self.asm.op(X86::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, &[to, to, to]);
    }

    /// A vector as an operand that may be in memory: it gets a register only if that saves something.
    pub(super) fn operand(&mut self, id: Id) -> Result<Arg, EmitError> {
        if let Some(register) = self.places.register(id) {
            self.places.pin(Kind::Vector, register);
            return Ok(z(register));
        }
        let once = self.places.dies(id, self.step) || !self.places.any_free(Kind::Vector);
        let memory = match (self.ops[id.0 as usize].clone(), self.places.slot(id)) {
            (Op::Const(value), _) => return Ok(Arg::Mem(self.asm.word(value).in_all_lanes())),
            (_, Some(slot)) => Some(place(Kind::Vector, slot)),
            (Op::ContextWord(at), None) if self.renewable[id.0 as usize] => Some(Mem::at(CONTEXT, at).in_all_lanes()),
            (Op::Column(list), None) if self.renewable[id.0 as usize] => Some(Mem::list(list)),
            _ => None,
        };
        match memory {
            Some(memory) if once => Ok(Arg::Mem(memory)),
            _ => Ok(z(self.vector(id)?)),
        }
    }

    /// Where a vector lies in memory, a word for each lane.
    pub(super) fn in_memory(&mut self, id: Id) -> Result<Mem, EmitError> {
        if let (Op::Column(list), true) = (&self.ops[id.0 as usize], self.renewable[id.0 as usize]) {
            return Ok(Mem::list(*list));
        }
        if let Some(slot) = self.places.slot(id) {
            return Ok(place(Kind::Vector, slot));
        }
        let register = self.vector(id)?;
        let slot = self.places.give_slot(id);
        self.store(Kind::Vector, register, slot);
        Ok(place(Kind::Vector, slot))
    }

    pub(super) fn dies(&self, id: Id) -> bool {
        self.places.dies(id, self.step)
    }

    /// Ends the step: what it took is used no more.
    pub(super) fn retire(&mut self) {
        self.places.retire(&self.taken, self.step, None);
    }

    /// Ends the step, and gives the register for what it makes: it may be one of those that it takes.
    pub(super) fn result(&mut self, id: Id) -> Result<u8, EmitError> {
        self.retire();
        let kind = if self.ops[id.0 as usize].is_mask() { Kind::Mask } else { Kind::Vector };
        let register = self.claim(kind)?;
        self.places.hold(id, register);
        Ok(register)
    }

    /// Ends the step, whose result is in a claimed register.
    pub(super) fn done(&mut self, id: Id, register: u8) {
        self.retire();
        self.places.hold(id, register);
    }

    /// Ends the step, and gives a register for what it makes that holds the base.
    pub(super) fn result_over(&mut self, id: Id, base: Id) -> Result<u8, EmitError> {
        if self.dies(base)
            && let Some(register) = self.places.register(base)
        {
            self.places.retire(&self.taken, self.step, Some(base));
            self.places.hold(id, register);
            return Ok(register);
        }
        if let Some(register) = self.places.register(base) {
            self.places.pin(Kind::Vector, register);
        }
        let made = self.claim(Kind::Vector)?;
        match self.places.register(base) {
            Some(register) => self.asm.op(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[z(made), z(register)]),
            None => self.load(Kind::Vector, made, base)?,
        }
        self.done(id, made);
        Ok(made)
    }

    /// The lanes under a mask register.
    pub(super) fn on(&mut self, lanes: Lanes, code: X86, args: &[Arg]) {
        self.asm.on(lanes, code, args);
    }
}

/// 0 to 7.
pub(super) const NUMBERS: [u64; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];

/// A place of the frame: vectors lie at its lower end, masks at its upper.
fn place(kind: Kind, slot: usize) -> Mem {
    match kind {
        Kind::Vector => Mem::at(Register::RSP, (VECTOR * slot) as i32),
        Kind::Mask => Mem::at(Register::RBP, -1 - slot as i32),
    }
}
