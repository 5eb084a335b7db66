//! Bodies: control-flow graphs of basic blocks over typed values.
//!
//! Values are SSA: each has one definition, which dominates its uses; blocks take parameters.
//! Assignable P4 storage is represented by variables ([`VarId`]) of the pipeline, accessed by
//! `load` and `store`. A table application is a terminator, so that an engine can split a program
//! at its lookups.

use crate::declaration::SourceLoc;
use crate::entity::*;
use crate::externs::ExternFn;
use crate::types::{Const, Type};
use std::collections::{HashMap, HashSet};

/// A body: blocks, instructions, values. Execution starts at `entry`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Body {
    /// Basic blocks.
    pub blocks: EntityMap<Block, BlockData>,
    /// Type of each value.
    pub values: EntityMap<Value, Type>,
    /// Entry block, without parameters; `None` for an empty body.
    pub entry: Option<Block>,
    /// Parser states, in source order. Empty for controls.
    pub states: Vec<ParserStateBlock>,
}

/// Name and first block of a parser state. The state is entered whenever its block is. A sub-parser
/// that is applied twice has two copies of its states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParserStateBlock {
    /// Name, qualified by the instance of a sub-parser it was inlined from (`ip.parse_options`).
    pub name: String,
    /// First block of the state.
    pub block: Block,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

/// A basic block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockData {
    /// Parameters, set by the jumps to this block.
    pub params: Vec<Value>,
    /// Straight-line instructions.
    pub insts: Vec<InstData>,
    /// Terminator. `None` only during construction; the verifier rejects it.
    pub term: Option<TerminatorData>,
}

impl Body {
    /// Iterates over all instructions, block by block.
    pub fn insts(&self) -> impl Iterator<Item = &InstData> {
        self.blocks.values().flat_map(|block| &block.insts)
    }

    /// Adds a block without a source position.
    pub fn push_block(&mut self, params: Vec<Value>, insts: Vec<InstData>, term: Terminator) -> Block {
        let term = Some(TerminatorData { term, loc: SourceLoc::default() });
        self.blocks.push(BlockData { params, insts, term })
    }

    /// Reports whether a path of at least one edge exists from a block to another one.
    pub fn can_reach(&self, from: Block, to: Block) -> bool {
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

    /// Returns the instruction that defines a value; `None` for a block parameter.
    pub fn defining_inst(&self, value: Value) -> Option<&InstData> {
        self.insts().find(|inst| inst.results.contains(&value))
    }
}

/// Returns copies of instructions whose results are new values. `copies` has the values that replace
/// others in the copies; it gets those of the results.
pub fn copy_insts(
    insts: &[InstData],
    values: &mut EntityMap<Value, Type>,
    copies: &mut HashMap<Value, Value>,
) -> Vec<InstData> {
    let mut insts = insts.to_vec();
    for data in &mut insts {
        data.inst.map_values(|value| copies.get(&value).copied().unwrap_or(value));
        for result in &mut data.results {
            let copy = values.push(values[*result]);
            copies.insert(std::mem::replace(result, copy), copy);
        }
    }
    insts
}

impl BlockData {
    /// Returns the successor blocks in order, repeats included.
    pub fn successors(&self) -> Vec<Block> {
        self.term.as_ref().map(|term| term.term.successors()).unwrap_or_default()
    }

    /// Returns the table that the block's terminator applies.
    pub fn applied_table(&self) -> Option<TableId> {
        match self.term.as_ref()?.term {
            Terminator::Apply { table, .. } => Some(table),
            _ => None,
        }
    }
}

/// An instruction with its results and source position.
#[derive(Clone, PartialEq, Debug)]
pub struct InstData {
    /// The operation.
    pub inst: Inst,
    /// The defined values; their number and types follow from `inst`.
    pub results: Vec<Value>,
    /// Source position.
    pub loc: SourceLoc,
}

impl InstData {
    /// Creates an instruction without a source position.
    pub fn new(inst: Inst, results: Vec<Value>) -> InstData {
        InstData { inst, results, loc: SourceLoc::default() }
    }
}

/// A terminator with its source position.
#[derive(Clone, PartialEq, Debug)]
pub struct TerminatorData {
    /// The terminator.
    pub term: Terminator,
    /// Source position.
    pub loc: SourceLoc,
}

/// A jump target with arguments for its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockCall {
    /// Target.
    pub block: Block,
    /// Arguments: one for each parameter of the target, of its type.
    pub args: Vec<Value>,
}

impl BlockCall {
    /// Creates a jump to a block without parameters.
    pub fn to(block: Block) -> BlockCall {
        BlockCall { block, args: Vec::new() }
    }
}

/// Terminator of a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Terminator {
    /// Continues at the target.
    Jump(BlockCall),
    /// Continues at `then` if the bool `cond` is true, else at `els`.
    Branch {
        /// A `bool`.
        cond: Value,
        /// Taken when true.
        then: BlockCall,
        /// Taken when false.
        els: BlockCall,
    },
    /// Continues at the case with a constant equal to `value`, else at `default`. Constants are
    /// distinct, of the type of `value`.
    Switch {
        /// The compared value.
        value: Value,
        /// The cases.
        cases: Vec<(Const, BlockCall)>,
        /// Taken when no case matches.
        default: BlockCall,
    },
    /// Looks up the keys in the table and continues at the arm of the entry's action (on a miss: of
    /// the default action).
    Apply {
        /// The table.
        table: TableId,
        /// One value for each key of the table, in its order (selector keys included).
        keys: Vec<Value>,
        /// One arm for each action of the table, in any order.
        arms: Vec<ActionArm>,
    },
    /// Leaves the body. In a parser: accept.
    Return,
    /// Leaves the body by an `exit` statement.
    Exit,
    /// Parser only: leaves the parser in state reject. The parser error is unchanged.
    Reject,
}

/// Continuation of a table application for one action. The target's parameters are: `hit` (bool),
/// then the action's control-plane parameters in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionArm {
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

/// An operation with two operands of the same type (shifts: the right one is any `bit<N>`). `Eq`
/// and `Ne` are defined on all types, `And`, `Or` and `Xor` on bit, int and bool, the others on bit
/// and int.
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
    /// Arithmetic for `int<W>`, otherwise logical; by W or more: the sign (0 or -1), or 0.
    Shr,
    /// Comparisons give bool and respect the signedness of the type. Varbits are equal when lengths
    /// and bits are.
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinaryOp {
    /// Reports whether the result is a bool.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// An instruction. The result, if any, is described after the arrow.
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
    /// -> the value in another type: widened (sign-extended for `int`), truncated to the low bits,
    /// or with its bits unchanged. Defined between bit, int, bool (as one bit), enum and error (as
    /// their index), but not from or to varbit. A cast to an enumeration can give an index without
    /// a member.
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
    /// -> `then` if the bool is true, else `els`; both are already evaluated.
    Select {
        /// A bool.
        cond: Value,
        /// Result when true.
        then: Value,
        /// Result when false.
        els: Value,
    },
    /// -> bool: the header's validity.
    IsValid(HeaderId),
    /// Makes the header valid. If it was invalid, its fields become 0. Other members of its union
    /// become invalid.
    SetValid(HeaderId),
    /// Makes the header invalid.
    SetInvalid(HeaderId),
    /// Copies validity and fields between headers of one type. If it makes a union member valid,
    /// the others become invalid.
    CopyHeader {
        /// Destination.
        dst: HeaderId,
        /// Source.
        src: HeaderId,
    },
    /// Parser: extracts the header's fields from the packet and makes it valid. Too little data:
    /// error PacketTooShort, reject.
    Extract(HeaderId),
    /// Parser: extracts a header with one varbit field of the given number of bits (`bit<32>`),
    /// otherwise as `Extract`. More than the field's maximum width: error HeaderTooShort. A header
    /// length that is not a multiple of 8 bits: error ParserInvalidArgument.
    ExtractVarbit(HeaderId, Value),
    /// Parser: skips bits (`bit<32>`).
    Advance(Value),
    /// Parser: -> the next bits of the packet as the type, without advancing.
    Lookahead(Type),
    /// Parser: if the bool is false, sets the parser error to the error value and rejects.
    Verify(Value, Value),
    /// Parser: -> `bit<32>`, the packet's length in bytes.
    PacketLength,
    /// Parser: -> bool: a member of the value set matches the keys.
    InValueSet(ValueSetId, Vec<Value>),
    /// Deparser: appends the header if it is valid.
    Emit(HeaderId),
    /// Calls an extern function, or a method of an extern object; the function defines the results.
    Extern {
        /// The object, for a method.
        object: Option<ExternId>,
        /// The function or method.
        func: ExternFn,
        /// Arguments.
        args: Vec<ExternArg>,
    },
}

/// An argument of an extern call.
#[derive(Clone, PartialEq, Debug)]
pub enum ExternArg {
    /// A scalar.
    Value(Value),
    /// The leaves of a struct or tuple, in order. The leaves of a header are its fields, without
    /// its validity.
    Values(Vec<Value>),
    /// A string literal.
    Str(String),
    /// Variables passed by reference: fields to preserve, or out arguments.
    Vars(Vec<VarId>),
    /// A table: the one with the action that makes the call (direct counters, add-on-miss).
    Table(TableId),
    /// An action by its identity (`add_entry`).
    Action(ActionId),
}
