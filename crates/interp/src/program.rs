//! The pipeline as the engine runs it: decoded once at load, so that a packet costs no look-up of widths or types.
//!
//! All scalars lie in one array of 64-bit slots: `variables | constants and values`. A value of up to 64 bits is one slot, wider
//! ones are several, least significant first; a `varbit` is its length in bits and then its bits, as a number. Fields of
//! an invalid header are kept 0, so that a load is nothing but a read.

use crate::well_known::WellKnown;
use ir::{Block, ControlKind, ExternFn, ExternId, HashAlgorithm, Loc, VarId};

pub use crate::op::{Op, Outcome, Pc, Reg, Slot, WideOp};

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    /// What is compared.
    pub value: Reg,
    /// Constants of one slot with their targets, sorted.
    pub narrow: Vec<(u64, Pc)>,
    /// Wider constants.
    pub wide: Vec<(Box<[u64]>, Pc)>,
    /// Otherwise.
    pub default: Pc,
}

/// An arm of a table application.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arm {
    /// Where it starts.
    pub pc: Pc,
    /// Slot of `hit`.
    pub hit: Slot,
    /// First slot of the parameters, which lie one after the other.
    pub params: Slot,
}

/// A table application.
#[derive(Clone, Debug)]
pub struct ApplySite {
    /// The table.
    pub table: usize,
    /// Its keys, selector keys included.
    pub keys: Vec<Reg>,
    /// One for each action of the table, in the table's order.
    pub arms: Vec<Arm>,
}

/// A call of an extern.
#[derive(Clone, Debug)]
pub struct Call {
    /// The object.
    pub object: Option<ExternId>,
    /// The function.
    pub func: ExternFn,
    /// Its arguments.
    pub args: Vec<CallArg>,
    /// Where results go.
    pub results: Vec<Reg>,
    /// The algorithm, where one is named.
    pub algorithm: Option<HashAlgorithm>,
}

/// An argument of an extern call.
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

/// The code of one block of the architecture.
#[derive(Clone, Debug)]
pub struct Code {
    /// Its name in the program.
    pub name: String,
    /// Its role.
    pub kind: ControlKind,
    /// The instructions; execution starts at the first.
    pub ops: Vec<Op>,
    /// Where each instruction comes from.
    pub locs: Vec<Loc>,
    /// What of the IR each instruction is.
    pub origins: Vec<Origin>,
    /// Where each block of the IR starts, if it can be reached.
    pub blocks: Vec<Option<Pc>>,
    /// Where each value of the IR is, if it is anywhere.
    pub values: Vec<Option<Reg>>,
    /// For `Op::Wide`.
    pub wide: Vec<WideOp>,
    /// For `Op::Switch`.
    pub switches: Vec<Switch>,
    /// For `Op::Apply`.
    pub applies: Vec<ApplySite>,
    /// For `Op::Call`.
    pub calls: Vec<Call>,
    /// For `Op::Lookahead`.
    pub lookaheads: Vec<Reg>,
    /// For `Op::InValueSet`: destination, set, keys.
    pub value_sets: Vec<(Slot, usize, Vec<Reg>)>,
    /// Names of the states.
    pub states: Vec<String>,
}

impl Code {
    /// The code of a block that a program does not have.
    pub fn empty() -> Code {
        Code {
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

/// What of the IR an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A parser state begins.
    State,
    /// The instruction at that position of a block.
    Inst(Block, usize),
    /// The end of a block.
    Term(Block),
    /// On an edge to that block: the parameter there that gets its value; none for what is moved on the way, and the jump.
    Edge(Block, Option<usize>),
}

/// A field of a header.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its variable.
    pub var: VarId,
    /// Where it is.
    pub reg: Reg,
    /// Its first bit in the header, if all fields before have fixed widths.
    pub position: u32,
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    /// Dotted name.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<Field>,
    /// Slots of all fields: first, and how many.
    pub slots: (Slot, u32),
    /// Bits of all fields but the varbit.
    pub bits: u32,
    /// Which field is the varbit.
    pub varbit: Option<usize>,
    /// Other members of its union.
    pub siblings: Vec<u32>,
    /// A temporary of one block, not part of the packet.
    pub local: bool,
}

/// How many roles there are.
pub const ROLES: usize = ControlKind::MainDeparser as usize + 1;

/// A decoded pipeline.
#[derive(Clone, Debug)]
pub struct Program {
    /// Contents of the slots before a packet comes: of constants what they are, else zeros.
    pub initial: Vec<u64>,
    /// Slots of variables: first, and how many.
    pub vars: (Slot, u32),
    /// Slots of variables that are no header fields: first, and how many.
    pub plain: (Slot, u32),
    /// Each variable's slots.
    pub var_regs: Vec<Reg>,
    /// Each variable's name.
    pub var_names: Vec<String>,
    /// For each slot of a variable, which one.
    pub slot_vars: Vec<u32>,
    /// Variables that are metadata (no header fields, no locals): what a clone resets.
    pub metadata: Vec<Reg>,
    /// Headers.
    pub headers: Vec<Header>,
    /// The blocks of the architecture.
    pub codes: Vec<Code>,
    /// For each role, which of them has it.
    pub roles: [Option<usize>; ROLES],
    /// See [`WellKnown`].
    pub well_known: WellKnown,
    /// The program's numbers of green, yellow and red.
    pub colours: [u64; 3],
    /// For each table: PNA's `default_idle_timeout_for_data_plane_added_entries`.
    pub default_expire_profile: Vec<Option<u8>>,
    /// Indices of error names in core.p4.
    pub errors: Errors,
    /// How many extern objects there are.
    pub externs: usize,
    /// How many tables there are.
    pub tables: usize,
    /// For each table and action in its list, the words of the action's parameters.
    pub arm_words: Vec<Vec<u32>>,
}

/// Numbers of the errors that the engine itself raises.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Errors {
    pub packet_too_short: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub parser_invalid_argument: u32,
}

impl Program {
    /// The code of that role.
    pub fn code(&self, kind: ControlKind) -> Option<usize> {
        self.roles[kind as usize]
    }
    /// The variable at a slot.
    pub fn var_at(&self, slot: Slot) -> Option<usize> {
        let index = slot.checked_sub(self.vars.0)?;
        self.slot_vars.get(index as usize).map(|var| *var as usize)
    }
}
