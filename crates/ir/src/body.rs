//! Bodies: control-flow graphs of basic blocks over typed values.
//!
//! Values are SSA: each has one definition, which dominates its uses; a block takes parameters. What P4 can assign to
//! lives in variables ([`VarId`]) of the pipeline, which `load` and `store` reach. A table application is a terminator,
//! so that an engine can cut a program at its lookups.

use crate::declared::Loc;
use crate::entity::*;
use crate::externs::ExternFn;
use crate::types::{Const, Type};
use std::collections::HashSet;

/// A body: blocks, instructions, values. Execution starts at `entry`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Body {
    /// The blocks.
    pub blocks: EntityMap<Block, BlockData>,
    /// Type of each value.
    pub values: EntityMap<Value, Type>,
    /// Where execution starts, a block without parameters; `None` for an empty body.
    pub entry: Option<Block>,
    /// Parser states: name and first block, in source order. Empty for controls.
    pub states: Vec<State>,
}

/// A parser state: entered whenever its block is. The states of a sub-parser that is applied twice are there twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Name, qualified by the instance of a sub-parser it was inlined from (`ip.parse_options`).
    pub name: String,
    /// Its first block.
    pub block: Block,
    /// Where it is declared.
    pub loc: Loc,
}

/// A basic block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockData {
    /// Parameters, set by whoever jumps here.
    pub params: Vec<Value>,
    /// Straight-line instructions.
    pub insts: Vec<InstData>,
    /// How it ends. `None` only while it is being built; the verifier refuses it.
    pub term: Option<TermData>,
}

impl Body {
    /// All instructions, block by block.
    pub fn insts(&self) -> impl Iterator<Item = &InstData> {
        self.blocks.values().flat_map(|block| &block.insts)
    }

    /// Adds a block that stands at no place of the source.
    pub fn push_block(&mut self, params: Vec<Value>, insts: Vec<InstData>, term: Term) -> Block {
        let term = Some(TermData { term, loc: Loc::default() });
        self.blocks.push(BlockData { params, insts, term })
    }

    /// Whether some way, of one step or more, leads from a block to another one.
    pub fn leads_to(&self, from: Block, to: Block) -> bool {
        let mut seen = HashSet::new();
        let mut todo = vec![from];
        while let Some(block) = todo.pop() {
            for next in self.blocks[block].successors() {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    todo.push(next);
                }
            }
        }
        false
    }

    /// The instruction that defines a value; `None` for a block's parameter.
    pub fn definition(&self, value: Value) -> Option<&InstData> {
        self.insts().find(|inst| inst.results.contains(&value))
    }
}

impl BlockData {
    /// The blocks that may come next, in order, repeats included.
    pub fn successors(&self) -> Vec<Block> {
        self.term.as_ref().map(|term| term.term.successors()).unwrap_or_default()
    }

    /// The table that the block ends by applying.
    pub fn applied(&self) -> Option<TableId> {
        match self.term.as_ref()?.term {
            Term::Apply { table, .. } => Some(table),
            _ => None,
        }
    }
}

/// An instruction with its results and source position.
#[derive(Clone, PartialEq, Debug)]
pub struct InstData {
    /// What it does.
    pub inst: Inst,
    /// The values that it defines; how many and of what type follows from `inst`.
    pub results: Vec<Value>,
    /// Where it comes from.
    pub loc: Loc,
}

impl InstData {
    /// An instruction that stands at no place of the source.
    pub fn new(inst: Inst, results: Vec<Value>) -> InstData {
        InstData { inst, results, loc: Loc::default() }
    }
}

/// A terminator with its source position.
#[derive(Clone, PartialEq, Debug)]
pub struct TermData {
    /// How the block ends.
    pub term: Term,
    /// Where it comes from.
    pub loc: Loc,
}

/// A jump target with arguments for its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockCall {
    /// Target.
    pub block: Block,
    /// Arguments: as many, and of the types, as the target's parameters.
    pub args: Vec<Value>,
}

impl BlockCall {
    /// A jump to a block without parameters.
    pub fn to(block: Block) -> BlockCall {
        BlockCall { block, args: Vec::new() }
    }
}

/// How a block ends.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// Goes on at the target.
    Jump(BlockCall),
    /// Goes on at `then` if the bool `cond` is true.
    Branch {
        /// A `bool`.
        cond: Value,
        /// Taken when true.
        then: BlockCall,
        /// Taken when false.
        els: BlockCall,
    },
    /// Goes on at the case whose constant equals `value`, else at `default`. Constants are distinct, of the type of `value`.
    Switch {
        /// What is compared.
        value: Value,
        /// The cases.
        cases: Vec<(Const, BlockCall)>,
        /// Where to go when no case matches.
        default: BlockCall,
    },
    /// Looks the keys up in the table and goes on at the arm of the entry's action (on a miss: of the default action).
    Apply {
        /// The table.
        table: TableId,
        /// One value for each key of the table, in its order (selector keys included).
        keys: Vec<Value>,
        /// One for each action of the table, in any order.
        arms: Vec<Arm>,
    },
    /// Leaves the body. In a parser: accept.
    Return,
    /// Leaves the body by an `exit` statement.
    Exit,
    /// Parser only: leaves the parser in state reject. The parser error is left as it is.
    Reject,
}

/// Where a table application goes on for one action. The target's parameters are: `hit` (bool), then the action's
/// control-plane parameters in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arm {
    /// The action.
    pub action: ActionId,
    /// First block of the action's body as inlined here.
    pub block: Block,
}

/// An operation with one operand. The result has the operand's type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// Two's complement negation modulo 2^W.
    Neg,
    /// Each bit inverted.
    Not,
    /// `!` on bool.
    LogicalNot,
}

/// An operation with two operands of the same type (shifts: the right one is any `bit<N>`). `Eq` and `Ne` are defined on all types,
/// `And`, `Or` and `Xor` on bit, int and bool, the others on bit and int.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    /// Modulo 2^W, as are `Sub` and `Mul`.
    Add,
    Sub,
    Mul,
    /// Quotient toward zero; by zero: 0.
    Div,
    /// Remainder; by zero: the left operand.
    Mod,
    /// Clamped to the range of the type.
    AddSat,
    /// Clamped to the range of the type.
    SubSat,
    And,
    Or,
    Xor,
    /// Bits shifted out are lost; by W or more: 0.
    Shl,
    /// Arithmetic for `int<W>`, logical else; by W or more: the sign (0 or -1), or 0.
    Shr,
    /// Comparisons give bool; the order is that of the type's sign. Varbits are equal when lengths and bits are.
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinaryOp {
    /// Whether the result is a bool.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// An instruction. The result, if any, is named after the arrow.
#[derive(Clone, PartialEq, Debug)]
pub enum Inst {
    /// -> the constant.
    Const(Const),
    /// -> the variable's value. A field of an invalid header gives 0 (bool: false, varbit: empty).
    Load(VarId),
    /// Sets the variable. On a field of an invalid header it has no effect.
    Store(VarId, Value),
    /// -> result of the operand's type.
    Unary(UnaryOp, Value),
    /// -> result of the operands' type (the left one's, for shifts), or bool for comparisons.
    Binary(BinaryOp, Value, Value),
    /// -> the value in another type: widened (by its sign if `int`), cut to the low bits, or its bits kept.
    /// Between bit, int, bool (as one bit), enum and error (as their index); not from or to varbit. A cast to an enumeration may
    /// give an index that no member has.
    Cast(Type, Value),
    /// -> bits `hi..=lo` as `bit<hi-lo+1>`; bit 0 is the least significant.
    Slice {
        /// A bit or int.
        value: Value,
        /// Highest bit.
        hi: u32,
        /// Lowest bit.
        lo: u32,
    },
    /// -> `high ++ low`, with the signedness of `high`.
    Concat(Value, Value),
    /// -> `then` if the bool is true, else `els`; both are evaluated already.
    Select {
        /// A bool.
        cond: Value,
        /// When true.
        then: Value,
        /// When false.
        els: Value,
    },
    /// -> bool: the header's validity.
    IsValid(HeaderId),
    /// Makes the header valid. If it was not, its fields become 0. Other members of its union become invalid.
    SetValid(HeaderId),
    /// Makes the header invalid.
    SetInvalid(HeaderId),
    /// Copies validity and fields between headers of one type. If it makes a union member valid, the others become invalid.
    CopyHeader {
        /// Written.
        dst: HeaderId,
        /// Read.
        src: HeaderId,
    },
    /// Parser: takes the header's fields from the packet and makes it valid. Too little data: error PacketTooShort, reject.
    Extract(HeaderId),
    /// Parser: as `Extract`, with the header's one varbit field of the given number of bits (`bit<32>`). More than its
    /// greatest width: error HeaderTooShort; not a multiple of 8 bits in all: error ParserInvalidArgument.
    ExtractVarbit(HeaderId, Value),
    /// Parser: skips bits (`bit<32>`).
    Advance(Value),
    /// Parser: -> the next bits of the packet as the type, without moving on.
    Lookahead(Type),
    /// Parser: if the bool is false, sets the parser error to the error value and rejects.
    Verify(Value, Value),
    /// Parser: -> `bit<32>`, the packet's length in bytes.
    PacketLength,
    /// Parser: -> bool: some member of the value set matches the keys.
    InValueSet(ValueSetId, Vec<Value>),
    /// Deparser: appends the header if it is valid.
    Emit(HeaderId),
    /// Calls an extern function, or a method of an extern object; results as that function has.
    Extern {
        /// The object, for a method.
        object: Option<ExternId>,
        /// The function or method.
        func: ExternFn,
        /// Arguments.
        args: Vec<Arg>,
    },
}

/// An argument of an extern call.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// A scalar.
    Value(Value),
    /// The leaves of a struct or tuple, in order. A header's fields come without its validity.
    Values(Vec<Value>),
    /// A string literal.
    Str(String),
    /// A variable passed by name: fields to preserve, a place to write.
    Vars(Vec<VarId>),
    /// A table: the one whose action makes the call (direct counters, add-on-miss).
    Table(TableId),
    /// An action by its identity (`add_entry`).
    Action(ActionId),
}
