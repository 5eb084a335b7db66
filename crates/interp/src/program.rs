//! The pipeline as the engine runs it. It is decoded once at load, so that packets need no lookup
//! of widths or types.
//!
//! All scalars lie in one array of 64-bit words: `variables | constants and values`. A value of up
//! to 64 bits is one word; wider values are several, least significant first. A `varbit` is its
//! length in bits, then its bits as a number. Fields of an invalid header are kept 0, so that a
//! load is a plain read.

use crate::well_known::WellKnown;
use ir::{Block, ControlKind, ExternFn, ExternId, HashAlgorithm, SourceLoc, VarId};

pub use crate::op::{BlockExit, InstIndex, Op, Reg, WideOp, WordIndex};

/// Switch on a value.
#[derive(Clone, Debug)]
pub struct DecodedSwitch {
    /// Value that is compared.
    pub value: Reg,
    /// Constants of one word with their targets, sorted.
    pub narrow: Vec<(u64, InstIndex)>,
    /// Constants of several words with their targets.
    pub wide: Vec<(Box<[u64]>, InstIndex)>,
    /// Target if no constant matches.
    pub default: InstIndex,
}

/// Decoded action arm of a table application.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplyArm {
    /// First instruction of the arm.
    pub pc: InstIndex,
    /// Word of `hit`.
    pub hit: WordIndex,
    /// First word of the action parameters, which are contiguous.
    pub params: WordIndex,
}

/// Decoded table application.
#[derive(Clone, Debug)]
pub struct ApplySite {
    /// Index of the table.
    pub table: usize,
    /// Key elements, selector keys included.
    pub keys: Vec<Reg>,
    /// One arm for each action of the table, in the table's order.
    pub arms: Vec<ApplyArm>,
}

/// Decoded extern call.
#[derive(Clone, Debug)]
pub struct DecodedCall {
    /// The extern object, if the function is a method.
    pub object: Option<ExternId>,
    /// The function or method.
    pub func: ExternFn,
    /// Arguments.
    pub args: Vec<CallArg>,
    /// Destinations of the results.
    pub results: Vec<Reg>,
    /// Hash algorithm, if the object or an argument names one.
    pub algorithm: Option<HashAlgorithm>,
}

/// Argument of an extern call.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum CallArg {
    Value(Reg),
    Values(Vec<Reg>),
    Str(String),
    Vars(Vec<VarId>),
    Table(usize),
    Action(ir::ActionId),
}

/// Decoded code of one programmable block.
#[derive(Clone, Debug)]
pub struct BlockCode {
    /// Name of the block in the program.
    pub name: String,
    /// Role of the block in the architecture.
    pub kind: ControlKind,
    /// Instructions; execution starts at the first.
    pub ops: Vec<Op>,
    /// Source location of each instruction.
    pub locs: Vec<SourceLoc>,
    /// IR element that each instruction was decoded from.
    pub origins: Vec<InstOrigin>,
    /// First instruction of each IR block; `None` if the block is unreachable.
    pub blocks: Vec<Option<InstIndex>>,
    /// Register of each IR value; `None` if it has none.
    pub values: Vec<Option<Reg>>,
    /// Operands of `Op::Wide`.
    pub wide: Vec<WideOp>,
    /// Operands of `Op::Switch`.
    pub switches: Vec<DecodedSwitch>,
    /// Operands of `Op::Apply`.
    pub applies: Vec<ApplySite>,
    /// Operands of `Op::Call`.
    pub calls: Vec<DecodedCall>,
    /// Operands of `Op::Lookahead`.
    pub lookaheads: Vec<Reg>,
    /// Operands of `Op::InValueSet`: destination, value set, keys.
    pub value_sets: Vec<(WordIndex, usize, Vec<Reg>)>,
    /// Names of the parser states.
    pub states: Vec<String>,
}

impl BlockCode {
    /// Returns the code of a block that the program does not have.
    pub fn empty() -> BlockCode {
        BlockCode {
            name: String::new(),
            kind: ControlKind::MainControl,
            ops: Vec::new(),
            locs: Vec::new(),
            origins: Vec::new(),
            blocks: Vec::new(),
            values: Vec::new(),
            wide: Vec::new(),
            switches: Vec::new(),
            applies: Vec::new(),
            calls: Vec::new(),
            lookaheads: Vec::new(),
            value_sets: Vec::new(),
            states: Vec::new(),
        }
    }
}

/// IR element that an instruction was decoded from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstOrigin {
    /// Entry of a parser state.
    State,
    /// Instruction at this index of a block.
    Inst(Block, usize),
    /// Terminator of a block.
    Term(Block),
    /// Edge to this block: the index of the block parameter that is written, or `None` for
    /// temporary moves and the jump.
    Edge(Block, Option<usize>),
}

/// Decoded header field.
#[derive(Clone, Copy, Debug)]
pub struct HeaderFieldReg {
    /// Variable of the field.
    pub var: VarId,
    /// Register of the field.
    pub reg: Reg,
    /// First bit in the header, if all fields before have fixed widths.
    pub position: u32,
}

/// Decoded header instance.
#[derive(Clone, Debug)]
pub struct DecodedHeader {
    /// Dotted name.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<HeaderFieldReg>,
    /// Words of all fields: first and count.
    pub word_range: (WordIndex, u32),
    /// Bits of all fields except the varbit.
    pub fixed_bits: u32,
    /// Index of the varbit field.
    pub varbit: Option<usize>,
    /// Other members of the header's union.
    pub union_members: Vec<u32>,
    /// Whether the header is a temporary of one block and not part of the packet.
    pub is_local: bool,
}

/// Number of block roles.
pub const ROLES: usize = ControlKind::MainDeparser as usize + 1;

/// Decoded pipeline.
#[derive(Clone, Debug)]
pub struct DecodedProgram {
    /// Contents of the words when a packet enters: constants have their values, all others are 0.
    pub initial: Vec<u64>,
    /// Words of variables: first and count.
    pub var_words: (WordIndex, u32),
    /// Words of variables that are not header fields: first and count.
    pub non_header_words: (WordIndex, u32),
    /// Register of each variable.
    pub var_regs: Vec<Reg>,
    /// Name of each variable.
    pub var_names: Vec<String>,
    /// For each word of a variable, the index of the variable.
    pub word_vars: Vec<u32>,
    /// Variables that a clone resets: metadata, i.e. neither header fields nor locals.
    pub metadata: Vec<Reg>,
    /// Header instances.
    pub headers: Vec<DecodedHeader>,
    /// Code of the programmable blocks.
    pub codes: Vec<BlockCode>,
    /// For each role, the index of its block in `codes`.
    pub roles: [Option<usize>; ROLES],
    /// Variables that the architecture or the engine itself uses, see [`WellKnown`].
    pub well_known: WellKnown,
    /// Values of the colors green, yellow and red in the program.
    pub color_encodings: [u64; 3],
    /// Indices of the error names of core.p4.
    pub errors: ErrorIndices,
    /// Number of extern objects.
    pub externs: usize,
    /// Number of tables.
    pub tables: usize,
    /// For each table and action in its list, the words of the action's parameters.
    pub arm_words: Vec<Vec<u32>>,
}

/// Indices of the errors that the engine itself raises.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct ErrorIndices {
    pub packet_too_short: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub parser_invalid_argument: u32,
}

impl DecodedProgram {
    /// Returns the index of the block with this role.
    pub fn code(&self, kind: ControlKind) -> Option<usize> {
        self.roles[kind as usize]
    }
    /// Returns the index of the variable that a word belongs to.
    pub fn var_at(&self, slot: WordIndex) -> Option<usize> {
        let index = slot.checked_sub(self.var_words.0)?;
        self.word_vars.get(index as usize).map(|var| *var as usize)
    }
}
