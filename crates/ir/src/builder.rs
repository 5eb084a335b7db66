//! Building bodies.
//!
//! Nothing here fails: a mistake (an operand of the wrong type, a block that does not exist) ends up in the body, where the verifier
//! names it with its place. So code that emits IR needs no error paths of its own.
//!
//! ```
//! use ir::*;
//! let mut p = Pipeline::new("drop_all", Arch::V1Model);
//! let port = p.add_var("standard_metadata.egress_spec", Type::Bit(9), VarKind::Intrinsic, Loc::default());
//! let mut b = BodyBuilder::new();
//! let drop = b.bits(9, 511u32);
//! b.store(port, drop);
//! b.ret();
//! p.controls.push(Control { name: "ingress".into(), kind: ControlKind::Ingress, body: b.finish() });
//! ```

use crate::body::*;
use crate::declared::Loc;
use crate::entity::*;
use crate::externs::ExternFn;
use crate::pipeline::Pipeline;
use crate::results::{binary_type, concat_type, slice_type};
use crate::types::{Const, Type};
use num_bigint::BigUint;

/// The blocks of a table application that [`BodyBuilder::apply`] made for one action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArmBlock {
    /// The action.
    pub action: ActionId,
    /// First block of the action's body, empty.
    pub block: Block,
    /// Its first parameter: whether the lookup hit.
    pub hit: Value,
    /// Its other parameters: the action's data.
    pub params: Vec<Value>,
}

/// Builds a [`Body`]: instructions go to the end of the current block, with the current source position.
///
/// After a terminator there is no current block. What is emitted then is code that cannot be reached (P4 allows statements after
/// `return`); it goes into a new block that nothing leads to, and the passes remove it.
#[derive(Clone, Debug, Default)]
pub struct BodyBuilder {
    body: Body,
    current: Option<Block>,
    loc: Loc,
}

impl BodyBuilder {
    /// A body whose entry block is there, empty and current.
    pub fn new() -> Self {
        let mut builder = BodyBuilder::default();
        let entry = builder.create_block();
        builder.body.entry = Some(entry);
        builder.current = Some(entry);
        builder
    }
    /// Goes on building a body that is there. No block is current.
    pub fn over(body: Body) -> Self {
        BodyBuilder { body, current: None, loc: Loc::default() }
    }
    /// The body as it is now.
    pub fn finish(self) -> Body {
        self.body
    }
    /// The body so far.
    pub fn body(&self) -> &Body {
        &self.body
    }
    /// Makes an empty block; the current one stays.
    pub fn create_block(&mut self) -> Block {
        self.body.blocks.push(BlockData::default())
    }
    /// Gives a block one more parameter. A block that does not exist is left alone.
    pub fn append_param(&mut self, block: Block, ty: Type) -> Value {
        let value = self.body.values.push(ty);
        if let Some(data) = self.body.blocks.get_mut(block) {
            data.params.push(value);
        }
        value
    }
    /// Makes `block` the current one; it should have no terminator yet.
    pub fn switch_to(&mut self, block: Block) {
        self.current = Some(block);
    }
    /// The block that the next instruction goes to; `None` after a terminator.
    pub fn current(&self) -> Option<Block> {
        self.current
    }
    /// Whether code emitted now can't be reached, because a terminator came last.
    pub fn is_terminated(&self) -> bool {
        self.current.is_none()
    }
    /// The source position of what is emitted from now on.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }
    /// The current source position.
    pub fn loc(&self) -> Loc {
        self.loc
    }
    /// Type of a value.
    pub fn value_type(&self, value: Value) -> Type {
        self.body.value_type(value)
    }
    /// Declares a parser state that starts with `block`.
    pub fn add_state(&mut self, name: impl Into<String>, block: Block, loc: Loc) {
        self.body.states.push(State { name: name.into(), block, loc });
    }

    fn current_data(&mut self) -> &mut BlockData {
        let open = self.current.filter(|b| self.body.blocks.get(*b).is_some_and(|d| d.term.is_none()));
        let block = open.unwrap_or_else(|| self.create_block());
        self.current = Some(block);
        &mut self.body.blocks[block]
    }
    /// Appends an instruction with results of these types.
    pub fn inst(&mut self, inst: Inst, types: &[Type]) -> Vec<Value> {
        let results: Vec<Value> = types.iter().map(|t| self.body.values.push(*t)).collect();
        let data = InstData { inst, results: results.clone(), loc: self.loc };
        self.current_data().insts.push(data);
        results
    }
    fn one(&mut self, inst: Inst, ty: Type) -> Value {
        let result = self.body.values.push(ty);
        let data = InstData { inst, results: vec![result], loc: self.loc };
        self.current_data().insts.push(data);
        result
    }
    fn effect(&mut self, inst: Inst) {
        let data = InstData { inst, results: Vec::new(), loc: self.loc };
        self.current_data().insts.push(data);
    }
    /// Ends the current block with any terminator.
    pub fn term(&mut self, term: Term) {
        let loc = self.loc;
        self.current_data().term = Some(TermData { term, loc });
        self.current = None;
    }
}

/// Constants, variables and computation.
impl BodyBuilder {
    /// A constant.
    pub fn constant(&mut self, value: Const) -> Value {
        let ty = value.ty;
        self.one(Inst::Const(value), ty)
    }
    /// A `bit<width>` constant, modulo 2^width.
    pub fn bits(&mut self, width: u32, bits: impl Into<BigUint>) -> Value {
        self.constant(Const::new(Type::Bit(width), bits))
    }
    /// A bool constant.
    pub fn bool(&mut self, value: bool) -> Value {
        self.constant(Const::bool(value))
    }
    /// Reads a variable.
    pub fn load(&mut self, pipeline: &Pipeline, var: VarId) -> Value {
        self.one(Inst::Load(var), pipeline.vars.get(var).map_or(Type::Bit(0), |v| v.ty))
    }
    /// Writes a variable.
    pub fn store(&mut self, var: VarId, value: Value) {
        self.effect(Inst::Store(var, value));
    }
    /// `op a`.
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        let ty = self.value_type(a);
        self.one(Inst::Unary(op, a), ty)
    }
    /// `-a` modulo 2^W.
    pub fn neg(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::Neg, a)
    }
    /// `~a`.
    pub fn not(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::Not, a)
    }
    /// `!a`.
    pub fn logical_not(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::LogicalNot, a)
    }
    /// `a op b`.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = binary_type(op, self.value_type(a));
        self.one(Inst::Binary(op, a, b), ty)
    }
    /// `a + b` modulo 2^W.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Add, a, b)
    }
    /// `a == b`.
    pub fn eq(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Eq, a, b)
    }
    /// The value in another type; itself if it has that type already.
    pub fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.value_type(value) == ty { value } else { self.one(Inst::Cast(ty, value), ty) }
    }
    /// Bits `hi..=lo`.
    pub fn slice(&mut self, value: Value, hi: u32, lo: u32) -> Value {
        self.one(Inst::Slice { value, hi, lo }, slice_type(hi, lo))
    }
    /// `high ++ low`.
    pub fn concat(&mut self, high: Value, low: Value) -> Value {
        let ty = concat_type(self.value_type(high), self.value_type(low));
        self.one(Inst::Concat(high, low), ty)
    }
    /// `cond ? then : els`.
    pub fn select(&mut self, cond: Value, then: Value, els: Value) -> Value {
        let ty = self.value_type(then);
        self.one(Inst::Select { cond, then, els }, ty)
    }
}

/// Headers, packets and externs.
impl BodyBuilder {
    /// `header.isValid()`.
    pub fn is_valid(&mut self, header: HeaderId) -> Value {
        self.one(Inst::IsValid(header), Type::Bool)
    }
    /// `header.setValid()`.
    pub fn set_valid(&mut self, header: HeaderId) {
        self.effect(Inst::SetValid(header));
    }
    /// `header.setInvalid()`.
    pub fn set_invalid(&mut self, header: HeaderId) {
        self.effect(Inst::SetInvalid(header));
    }
    /// `dst = src`.
    pub fn copy_header(&mut self, dst: HeaderId, src: HeaderId) {
        self.effect(Inst::CopyHeader { dst, src });
    }
    /// `packet.extract(header)`.
    pub fn extract(&mut self, header: HeaderId) {
        self.effect(Inst::Extract(header));
    }
    /// `packet.extract(header, bits)`.
    pub fn extract_varbit(&mut self, header: HeaderId, bits: Value) {
        self.effect(Inst::ExtractVarbit(header, bits));
    }
    /// `packet.advance(bits)`.
    pub fn advance(&mut self, bits: Value) {
        self.effect(Inst::Advance(bits));
    }
    /// `packet.lookahead<ty>()`.
    pub fn lookahead(&mut self, ty: Type) -> Value {
        self.one(Inst::Lookahead(ty), ty)
    }
    /// `verify(cond, error)`.
    pub fn verify(&mut self, cond: Value, error: Value) {
        self.effect(Inst::Verify(cond, error));
    }
    /// `packet.length()`.
    pub fn packet_length(&mut self) -> Value {
        self.one(Inst::PacketLength, Type::Bit(32))
    }
    /// Whether a member of the value set matches the keys.
    pub fn in_value_set(&mut self, set: ValueSetId, keys: Vec<Value>) -> Value {
        self.one(Inst::InValueSet(set, keys), Type::Bool)
    }
    /// `packet.emit(header)`.
    pub fn emit(&mut self, header: HeaderId) {
        self.effect(Inst::Emit(header));
    }
    /// Calls an extern; the results have the types given, which [`crate::extern_result_types`] tells where there is no choice.
    pub fn call(&mut self, object: Option<ExternId>, func: ExternFn, args: Vec<Arg>, results: &[Type]) -> Vec<Value> {
        self.inst(Inst::Extern { object, func, args }, results)
    }
}

/// Terminators. Each ends the current block.
impl BodyBuilder {
    /// Goes on at `block`.
    pub fn jump(&mut self, block: Block) {
        self.jump_with(block, Vec::new());
    }
    /// Goes on at `block` with arguments for its parameters.
    pub fn jump_with(&mut self, block: Block, args: Vec<Value>) {
        self.term(Term::Jump(BlockCall { block, args }));
    }
    /// Goes on at `then` if `cond`, else at `els`.
    pub fn branch(&mut self, cond: Value, then: Block, els: Block) {
        let [then, els] = [then, els].map(BlockCall::to);
        self.term(Term::Branch { cond, then, els });
    }
    /// As `branch`, with arguments.
    pub fn branch_with(&mut self, cond: Value, then: BlockCall, els: BlockCall) {
        self.term(Term::Branch { cond, then, els });
    }
    /// Goes on at the case that equals `value`, else at `default`.
    pub fn switch(&mut self, value: Value, cases: Vec<(Const, Block)>, default: Block) {
        let call = |block| BlockCall::to(block);
        let cases = cases.into_iter().map(|(c, block)| (c, call(block))).collect();
        self.term(Term::Switch { value, cases, default: call(default) });
    }
    /// Applies a table and makes a block for each of its actions, with its parameters. The caller fills the blocks.
    pub fn apply(&mut self, pipeline: &Pipeline, table: TableId, keys: Vec<Value>) -> Vec<ArmBlock> {
        let mut blocks = Vec::new();
        for action in pipeline.tables.get(table).iter().flat_map(|t| &t.actions) {
            let block = self.create_block();
            let hit = self.append_param(block, Type::Bool);
            let params = pipeline.actions.get(action.action).map(|a| a.params.as_slice()).unwrap_or_default();
            let params = params.iter().map(|p| self.append_param(block, p.ty)).collect();
            blocks.push(ArmBlock { action: action.action, block, hit, params });
        }
        let arms = blocks.iter().map(|b| Arm { action: b.action, block: b.block }).collect();
        self.term(Term::Apply { table, keys, arms });
        blocks
    }
    /// Leaves the body (in a parser: accept).
    pub fn ret(&mut self) {
        self.term(Term::Return);
    }
    /// Leaves the body by `exit`.
    pub fn exit(&mut self) {
        self.term(Term::Exit);
    }
    /// Leaves the parser in state reject.
    pub fn reject(&mut self) {
        self.term(Term::Reject);
    }
}
