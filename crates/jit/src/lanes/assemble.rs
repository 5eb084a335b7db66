//! Assembler: a list of instructions followed by a constant pool, which [`super::emit`] fills.

use super::ir::OpId;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, IcedError, Instruction, InstructionBlock, MemoryOperand, OpKind,
    Register,
};
use std::collections::HashMap;

/// Error of code emission.
#[derive(Debug, thiserror::Error)]
pub enum VectorEmitError {
    /// An instruction that does not exist: always a bug.
    #[error("bug: an instruction cannot be encoded: {0}")]
    Encode(#[from] IcedError),
    /// A value is used before it is computed: always a bug, here or in the vector code.
    #[error("bug: {0:?} is used before it is computed")]
    Missing(OpId),
    /// A malformed operation: always a bug in the vector code.
    #[error("bug: {0:?} is malformed")]
    Form(OpId),
    /// A single operation needs more registers than exist: a limit.
    #[error("an operation needs too many registers")]
    Registers,
}

/// Register with the context's address.
pub(super) const CONTEXT: Register = Register::RDI;
/// Register with the number of packets in the list.
pub(super) const COUNT: Register = Register::RSI;
/// Register with the index of the first of eight packets.
pub(super) const AT: Register = Register::RDX;
/// Register with the address of the pool's words. Its lines precede them, so that most offsets of
/// both fit a byte.
const POOL: Register = Register::R11;
/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Probe interval of a new stack frame in bytes, because only one guard page follows the stack.
const PAGE: usize = 4096;

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mem {
    /// A general register, or none.
    pub base: Register,
    /// A general register, a vector, or none.
    pub index: Register,
    /// Scale of the index.
    pub scale: u32,
    /// Offset in bytes.
    pub offset: i32,
    /// Whether one word is broadcast to all lanes.
    pub broadcast: bool,
}

impl Mem {
    /// Returns the operand at an offset from a register's address.
    pub fn at(base: Register, offset: i32) -> Mem {
        Mem { base, index: Register::None, scale: 1, offset, broadcast: false }
    }

    /// Returns the operand for a list's words from `8 * at` on.
    pub fn list(offset: i32) -> Mem {
        Mem { base: CONTEXT, index: AT, scale: 8, offset, broadcast: false }
    }

    /// Returns the operand with an added offset.
    pub fn plus(self, bytes: i32) -> Mem {
        Mem { offset: self.offset.wrapping_add(bytes), ..self }
    }

    /// Returns the operand with its word broadcast to all lanes.
    pub fn in_all_lanes(self) -> Mem {
        Mem { broadcast: true, ..self }
    }
}

/// An operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AsmOperand {
    /// A register.
    Reg(Register),
    /// Memory.
    Mem(Mem),
    /// An immediate.
    Imm(u8),
}

/// Lanes that an instruction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteLanes {
    /// All lanes.
    All,
    /// Lanes of a mask register; the others keep their value.
    Kept(u8),
    /// Lanes of a mask register; the others become 0.
    Zeroed(u8),
}

/// A jump target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(u64);

/// Returns a 64-byte register.
pub(super) fn zmm(number: u8) -> AsmOperand {
    AsmOperand::Reg(Register::ZMM0 + u32::from(number))
}

/// Returns a 32-byte register.
pub(super) fn ymm(number: u8) -> AsmOperand {
    AsmOperand::Reg(Register::YMM0 + u32::from(number))
}

/// Returns a 16-byte register.
pub(super) fn xmm(number: u8) -> AsmOperand {
    AsmOperand::Reg(Register::XMM0 + u32::from(number))
}

/// Returns a mask register.
pub(super) fn kreg(number: u8) -> AsmOperand {
    AsmOperand::Reg(Register::K0 + u32::from(number))
}

/// Returns the lower 32 bits of a 64-bit register.
pub(super) fn low_32_bits(register: Register) -> Register {
    Register::EAX + (register as u32 - Register::RAX as u32)
}

/// Emitted instructions and constants.
#[derive(Default)]
pub(super) struct Assembler {
    list: Vec<Instruction>,
    pending: Option<Label>,
    labels: u64,
    words: Vec<u64>,
    word_of: HashMap<u64, usize>,
    lines: Vec<[u64; 8]>,
    line_of: HashMap<[u64; 8], usize>,
}

impl Assembler {
    /// Emits an instruction on all lanes.
    pub fn emit(&mut self, code: Code, args: &[AsmOperand]) {
        self.emit_masked(WriteLanes::All, code, args);
    }

    /// Emits an instruction on some lanes.
    pub fn emit_masked(&mut self, lanes: WriteLanes, code: Code, args: &[AsmOperand]) {
        let mut made = Instruction::default();
        made.set_code(code);
        for (number, arg) in args.iter().enumerate() {
            set_operand(&mut made, number as u32, *arg);
        }
        match lanes {
            WriteLanes::All => {}
            WriteLanes::Kept(mask) => made.set_op_mask(Register::K0 + u32::from(mask)),
            WriteLanes::Zeroed(mask) => {
                made.set_op_mask(Register::K0 + u32::from(mask));
                made.set_zeroing_masking(true);
            }
        }
        self.push_inst(made);
    }

    /// Allocates a label for [`Self::bind`].
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        // Addresses that no instruction has, because the encoder identifies labels by them.
        Label(self.labels << 32)
    }

    /// Binds the label to the next instruction.
    pub fn bind(&mut self, label: Label) {
        if self.pending.is_some() {
            self.emit(Code::Nopd, &[]);
        }
        self.pending = Some(label);
    }

    /// Emits a jump.
    pub fn emit_jump(&mut self, code: Code, to: Label) -> Result<(), VectorEmitError> {
        let made = Instruction::with_branch(code, to.0)?;
        self.push_inst(made);
        Ok(())
    }

    /// Emits an instruction with an immediate as second operand.
    pub fn with_number(&mut self, code: Code, register: Register, number: i32) -> Result<(), VectorEmitError> {
        let made = Instruction::with2(code, register, number)?;
        self.push_inst(made);
        Ok(())
    }

    fn push_inst(&mut self, mut made: Instruction) {
        if let Some(label) = self.pending.take() {
            made.set_ip(label.0);
        }
        self.list.push(made);
    }

    /// Returns the operand for a word in the pool.
    pub fn pool_word(&mut self, value: u64) -> Mem {
        let words = &mut self.words;
        let index = *self.word_of.entry(value).or_insert_with(|| {
            words.push(value);
            words.len() - 1
        });
        Mem::at(POOL, 8 * index as i32)
    }

    /// Returns the operand for a line in the pool.
    pub fn pool_line(&mut self, value: [u64; 8]) -> Mem {
        let lines = &mut self.lines;
        let index = *self.line_of.entry(value).or_insert_with(|| {
            lines.push(value);
            lines.len() - 1
        });
        Mem::at(POOL, -(LINE as i32) * (index as i32 + 1))
    }

    /// Returns the machine code: the prologue with a stack frame of `frame` bytes, aligned to a
    /// cache line, the instructions, and the pool.
    pub fn finish(self, frame: usize) -> Result<Vec<u8>, VectorEmitError> {
        let block = InstructionBlock::new(&self.list, 0);
        let body = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?.code_buffer;
        let head = encode_prologue(frame, 0)?.len().next_multiple_of(LINE);
        let pool = (head + body.len()).next_multiple_of(LINE);
        let mut bytes = encode_prologue(frame, (pool + LINE * self.lines.len()) as u64)?;
        bytes.resize(head, NOP);
        bytes.extend(body);
        bytes.resize(pool, TRAP);
        for line in self.lines.iter().rev() {
            bytes.extend(line.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        Ok(bytes)
    }
}

/// Opcode of `nop`.
const NOP: u8 = 0x90;
/// Opcode of `int3`, for unreachable bytes.
const TRAP: u8 = 0xcc;

/// Sets an operand of an instruction; iced-x86 has no constructor for all encodings.
fn set_operand(instruction: &mut Instruction, index: u32, arg: AsmOperand) {
    match arg {
        AsmOperand::Reg(register) => {
            instruction.set_op_kind(index, OpKind::Register);
            instruction.set_op_register(index, register);
        }
        AsmOperand::Imm(value) => {
            instruction.set_op_kind(index, OpKind::Immediate8);
            instruction.set_immediate8(value);
        }
        AsmOperand::Mem(mem) => {
            instruction.set_op_kind(index, OpKind::Memory);
            instruction.set_memory_base(mem.base);
            instruction.set_memory_index(mem.index);
            instruction.set_memory_index_scale(mem.scale);
            instruction.set_memory_displacement64(mem.offset as i64 as u64);
            let size = if mem.base == Register::None { 8 } else { u32::from(mem.offset != 0) };
            instruction.set_memory_displ_size(size);
            instruction.set_is_broadcast(mem.broadcast);
        }
    }
}

/// Emits the code before the first iteration: the stack frame, with each of its pages probed in
/// order, and the pool's address.
fn encode_prologue(frame: usize, pool: u64) -> Result<Vec<u8>, IcedError> {
    use Register::{EAX, EDX, RBP, RSP};
    let frame_size = frame.next_multiple_of(LINE) as i32;
    let mut list = vec![
        Instruction::with1(Code::Push_r64, RBP)?,
        Instruction::with2(Code::Mov_r64_rm64, RBP, RSP)?,
        Instruction::with2(Code::And_rm64_imm8, RSP, -(LINE as i32))?,
    ];
    for page in 1..=frame / PAGE {
        let address = MemoryOperand::with_base_displ(RSP, -((page * PAGE) as i64));
        list.push(Instruction::with2(Code::Test_rm32_r32, address, EAX)?);
    }
    list.push(Instruction::with2(Code::Sub_rm64_imm32, RSP, frame_size)?);
    let address = MemoryOperand::with_base_displ_size(Register::RIP, pool as i64, 8);
    list.push(Instruction::with2(Code::Lea_r64_m, POOL, address)?);
    list.push(Instruction::with2(Code::Xor_r32_rm32, EDX, EDX)?);
    let mut encoder = Encoder::new(64);
    let mut offset = 0;
    for instruction in &list {
        offset += encoder.encode(instruction, offset)? as u64;
    }
    Ok(encoder.take_buffer())
}
