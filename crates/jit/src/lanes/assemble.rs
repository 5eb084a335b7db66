//! Instructions in a row, and behind them the numbers that they read: what [`super::emit`] makes machine code of.

use super::ir::Id;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, IcedError, Instruction, InstructionBlock, MemoryOperand, OpKind,
    Register,
};
use std::collections::HashMap;

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// Instructions that do not exist: always a bug.
    #[error("bug: an instruction cannot be encoded: {0}")]
    Encode(#[from] IcedError),
    /// A value is wanted that was not made: always a bug, here or in the code.
    #[error("bug: {0:?} is wanted before it is made")]
    Missing(Id),
    /// An operation that takes or has something that it cannot: always a bug in the code.
    #[error("bug: {0:?} is not well formed")]
    Form(Id),
    /// One operation needs more registers than there are: a limit.
    #[error("an operation needs too many registers")]
    Registers,
}

/// The context's address.
pub(super) const CONTEXT: Register = Register::RDI;
/// How many packets the list has.
pub(super) const COUNT: Register = Register::RSI;
/// The number of the first of eight packets.
pub(super) const AT: Register = Register::RDX;
/// Where the pool's single words begin. Whole lines lie in front of it: so most offsets of both fit a byte.
const POOL: Register = Register::R11;
/// A cache line, in bytes.
const LINE: usize = 64;
/// What the stack is looked at by when a frame is made, in bytes: there is one page behind its end that faults.
const PAGE: usize = 4096;

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mem {
    /// A general register, or none.
    pub base: Register,
    /// A general register, a vector, or none.
    pub index: Register,
    /// What the index is multiplied by.
    pub scale: u32,
    /// Bytes from there.
    pub offset: i32,
    /// Whether one word from there stands in all lanes.
    pub broadcast: bool,
}

impl Mem {
    /// So many bytes behind a register's address.
    pub fn at(base: Register, offset: i32) -> Mem {
        Mem { base, index: Register::None, scale: 1, offset, broadcast: false }
    }

    /// A list's words from `8 * at` on.
    pub fn list(offset: i32) -> Mem {
        Mem { base: CONTEXT, index: AT, scale: 8, offset, broadcast: false }
    }

    /// So many bytes on.
    pub fn plus(self, bytes: i32) -> Mem {
        Mem { offset: self.offset.wrapping_add(bytes), ..self }
    }

    /// The word there, in all lanes.
    pub fn in_all_lanes(self) -> Mem {
        Mem { broadcast: true, ..self }
    }
}

/// What an instruction works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arg {
    /// A register.
    Reg(Register),
    /// Memory.
    Mem(Mem),
    /// A number.
    Imm(u8),
}

/// The lanes that an instruction works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lanes {
    /// All.
    All,
    /// Those of a mask register; others stay as they are.
    Kept(u8),
    /// Those of a mask register; others become 0.
    Zeroed(u8),
}

/// A place in the code that is jumped to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(u64);

/// A 64-byte register.
pub(super) fn z(number: u8) -> Arg {
    Arg::Reg(Register::ZMM0 + u32::from(number))
}

/// A 32-byte register.
pub(super) fn y(number: u8) -> Arg {
    Arg::Reg(Register::YMM0 + u32::from(number))
}

/// A 16-byte register.
pub(super) fn x(number: u8) -> Arg {
    Arg::Reg(Register::XMM0 + u32::from(number))
}

/// A mask register.
pub(super) fn k(number: u8) -> Arg {
    Arg::Reg(Register::K0 + u32::from(number))
}

/// The lower 32 bits of a 64-bit register.
pub(super) fn lower(register: Register) -> Register {
    Register::EAX + (register as u32 - Register::RAX as u32)
}

/// Code under way.
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
    /// An instruction on all lanes.
    pub fn op(&mut self, code: Code, args: &[Arg]) {
        self.on(Lanes::All, code, args);
    }

    /// An instruction on some lanes.
    pub fn on(&mut self, lanes: Lanes, code: Code, args: &[Arg]) {
        let mut made = Instruction::default();
        made.set_code(code);
        for (number, arg) in args.iter().enumerate() {
            operand(&mut made, number as u32, *arg);
        }
        match lanes {
            Lanes::All => {}
            Lanes::Kept(mask) => made.set_op_mask(Register::K0 + u32::from(mask)),
            Lanes::Zeroed(mask) => {
                made.set_op_mask(Register::K0 + u32::from(mask));
                made.set_zeroing_masking(true);
            }
        }
        self.put(made);
    }

    /// A label for [`Self::bind`].
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        // Addresses that no instruction has: that is how the encoder tells labels apart.
        Label(self.labels << 32)
    }

    /// The next instruction is what jumps to the label lead to.
    pub fn bind(&mut self, label: Label) {
        if self.pending.is_some() {
            self.op(Code::Nopd, &[]);
        }
        self.pending = Some(label);
    }

    /// A jump.
    pub fn jump(&mut self, code: Code, to: Label) -> Result<(), EmitError> {
        let made = Instruction::with_branch(code, to.0)?;
        self.put(made);
        Ok(())
    }

    /// An instruction with a number as its second operand.
    pub fn with_number(&mut self, code: Code, register: Register, number: i32) -> Result<(), EmitError> {
        let made = Instruction::with2(code, register, number)?;
        self.put(made);
        Ok(())
    }

    fn put(&mut self, mut made: Instruction) {
        if let Some(label) = self.pending.take() {
            made.set_ip(label.0);
        }
        self.list.push(made);
    }

    /// Where this word lies in the pool.
    pub fn word(&mut self, value: u64) -> Mem {
        let words = &mut self.words;
        let index = *self.word_of.entry(value).or_insert_with(|| {
            words.push(value);
            words.len() - 1
        });
        Mem::at(POOL, 8 * index as i32)
    }

    /// Where this line lies in the pool.
    pub fn line(&mut self, value: [u64; 8]) -> Mem {
        let lines = &mut self.lines;
        let index = *self.line_of.entry(value).or_insert_with(|| {
            lines.push(value);
            lines.len() - 1
        });
        Mem::at(POOL, -(LINE as i32) * (index as i32 + 1))
    }

    /// The whole: what makes a frame of so many bytes for the code's own use in front, which is aligned to a cache line, and the pool behind.
    pub fn finish(self, frame: usize) -> Result<Vec<u8>, EmitError> {
        let block = InstructionBlock::new(&self.list, 0);
        let body = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?.code_buffer;
        let head = prologue(frame, 0)?.len().next_multiple_of(LINE);
        let pool = (head + body.len()).next_multiple_of(LINE);
        let mut bytes = prologue(frame, (pool + LINE * self.lines.len()) as u64)?;
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

/// Does nothing.
const NOP: u8 = 0x90;
/// Is never reached.
const TRAP: u8 = 0xcc;

fn operand(made: &mut Instruction, number: u32, arg: Arg) {
    match arg {
        Arg::Reg(register) => {
            made.set_op_kind(number, OpKind::Register);
            made.set_op_register(number, register);
        }
        Arg::Imm(value) => {
            made.set_op_kind(number, OpKind::Immediate8);
            made.set_immediate8(value);
        }
        Arg::Mem(mem) => {
            made.set_op_kind(number, OpKind::Memory);
            made.set_memory_base(mem.base);
            made.set_memory_index(mem.index);
            made.set_memory_index_scale(mem.scale);
            made.set_memory_displacement64(mem.offset as i64 as u64);
            let size = if mem.base == Register::None { 8 } else { u32::from(mem.offset != 0) };
            made.set_memory_displ_size(size);
            made.set_is_broadcast(mem.broadcast);
        }
    }
}

/// What comes in front of the first turn: the frame, with each of its pages looked at in order, and the pool's address.
fn prologue(frame: usize, pool: u64) -> Result<Vec<u8>, IcedError> {
    use Register::{EAX, EDX, RBP, RSP};
    let frame_size = frame.next_multiple_of(LINE) as i32;
    let mut list = vec![
        Instruction::with1(Code::Push_r64, RBP)?,
        Instruction::with2(Code::Mov_r64_rm64, RBP, RSP)?,
        Instruction::with2(Code::And_rm64_imm8, RSP, -(LINE as i32))?,
    ];
    for page in 1..=frame / PAGE {
        let place = MemoryOperand::with_base_displ(RSP, -((page * PAGE) as i64));
        list.push(Instruction::with2(Code::Test_rm32_r32, place, EAX)?);
    }
    list.push(Instruction::with2(Code::Sub_rm64_imm32, RSP, frame_size)?);
    let place = MemoryOperand::with_base_displ_size(Register::RIP, pool as i64, 8);
    list.push(Instruction::with2(Code::Lea_r64_m, POOL, place)?);
    list.push(Instruction::with2(Code::Xor_r32_rm32, EDX, EDX)?);
    let mut encoder = Encoder::new(64);
    let mut at = 0;
    for instruction in &list {
        at += encoder.encode(instruction, at)? as u64;
    }
    Ok(encoder.take_buffer())
}
