//! Builder of bodies.
//!
//! Building never fails: an error (an operand of the wrong type, a block that does not exist) ends
//! up in the body, where the verifier reports it with its position. So code that emits IR needs no
//! error paths of its own.
//!
//! ```
//! use ir::*;
//! let mut p = Pipeline::new("drop_all", Arch::V1Model);
//! let name = "standard_metadata.egress_spec";
//! let port = p.add_var(name, Type::Bit(9), VarKind::Intrinsic, SourceLoc::default());
//! let mut b = BodyBuilder::new();
//! let drop = b.bits(9, 511u32);
//! b.store(port, drop);
//! b.ret();
//! let body = b.finish();
//! p.controls.push(Control { name: "ingress".into(), kind: ControlKind::Ingress, body });
//! ```

use crate::body::*;
use crate::declaration::SourceLoc;
use crate::entity::*;
use crate::externs::ExternFn;
use crate::pipeline::Pipeline;
use crate::result_types::{binary_type, concat_type, slice_type};
use crate::types::{Const, Type};
use num_bigint::BigUint;

/// The blocks of a table application that [`BodyBuilder::apply_table`] made for one action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArmBlock {
    /// The action.
    pub action: ActionId,
    /// First block of the action's body, empty.
    pub block: Block,
    /// First parameter of the block: whether the lookup hit.
    pub hit: Value,
    /// Other parameters of the block: the action's data.
    pub params: Vec<Value>,
}

/// Builds a [`Body`]: instructions go to the end of the current block, with the current source
/// position.
///
/// After a terminator there is no current block. Code emitted then is unreachable (P4 allows
/// statements after `return`); it goes into a new block without predecessors, which the passes
/// remove.
#[derive(Clone, Debug, Default)]
pub struct BodyBuilder {
    body: Body,
    current: Option<Block>,
    loc: SourceLoc,
}

impl BodyBuilder {
    /// Creates a body with an entry block, which is empty and current.
    pub fn new() -> Self {
        let mut builder = BodyBuilder::default();
        let entry = builder.create_block();
        builder.body.entry = Some(entry);
        builder.current = Some(entry);
        builder
    }
    /// Continues building an existing body. No block is current.
    pub fn resume(body: Body) -> Self {
        BodyBuilder { body, current: None, loc: SourceLoc::default() }
    }
    /// Returns the body in its current state.
    pub fn finish(self) -> Body {
        self.body
    }
    /// Returns the body built until now.
    pub fn body(&self) -> &Body {
        &self.body
    }
    /// Creates an empty block; the current block does not change.
    pub fn create_block(&mut self) -> Block {
        self.body.blocks.push(BlockData::default())
    }
    /// Appends a parameter to a block. Does not change the blocks if `block` does not exist.
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
    /// Returns the block that the next instruction goes to; `None` after a terminator.
    pub fn current(&self) -> Option<Block> {
        self.current
    }
    /// Reports whether code emitted now is unreachable, because a terminator came last.
    pub fn is_terminated(&self) -> bool {
        self.current.is_none()
    }
    /// Sets the source position of everything that is emitted from now on.
    pub fn set_loc(&mut self, loc: SourceLoc) {
        self.loc = loc;
    }
    /// Returns the current source position.
    pub fn loc(&self) -> SourceLoc {
        self.loc
    }
    /// Returns the type of a value.
    pub fn value_type(&self, value: Value) -> Type {
        self.body.value_type(value)
    }
    /// Declares a parser state that starts with `block`.
    pub fn add_state(&mut self, name: impl Into<String>, block: Block, loc: SourceLoc) {
        self.body.states.push(ParserStateBlock { name: name.into(), block, loc });
    }

    fn current_data(&mut self) -> &mut BlockData {
        let open = self.current.filter(|b| self.body.blocks.get(*b).is_some_and(|d| d.term.is_none()));
        let block = open.unwrap_or_else(|| self.create_block());
        self.current = Some(block);
        &mut self.body.blocks[block]
    }
    /// Appends an instruction with results of these types.
    pub fn push_inst(&mut self, inst: Inst, types: &[Type]) -> Vec<Value> {
        let results: Vec<Value> = types.iter().map(|t| self.body.values.push(*t)).collect();
        let data = InstData { inst, results: results.clone(), loc: self.loc };
        self.current_data().insts.push(data);
        results
    }
    fn emit_single(&mut self, inst: Inst, ty: Type) -> Value {
        let result = self.body.values.push(ty);
        let data = InstData { inst, results: vec![result], loc: self.loc };
        self.current_data().insts.push(data);
        result
    }
    fn emit_effect(&mut self, inst: Inst) {
        let data = InstData { inst, results: Vec::new(), loc: self.loc };
        self.current_data().insts.push(data);
    }
    /// Ends the current block with any terminator.
    pub fn terminate(&mut self, term: Terminator) {
        let loc = self.loc;
        self.current_data().term = Some(TerminatorData { term, loc });
        self.current = None;
    }
}

/// Constants, variables and computation.
impl BodyBuilder {
    /// Emits a constant.
    pub fn constant(&mut self, value: Const) -> Value {
        let ty = value.ty;
        self.emit_single(Inst::Const(value), ty)
    }
    /// Emits a `bit<width>` constant, modulo 2^width.
    pub fn bits(&mut self, width: u32, bits: impl Into<BigUint>) -> Value {
        self.constant(Const::new(Type::Bit(width), bits))
    }
    /// Emits a bool constant.
    pub fn bool(&mut self, value: bool) -> Value {
        self.constant(Const::bool(value))
    }
    /// Emits a load of a variable.
    pub fn load(&mut self, pipeline: &Pipeline, var: VarId) -> Value {
        self.emit_single(Inst::Load(var), pipeline.vars.get(var).map_or(Type::Bit(0), |v| v.ty))
    }
    /// Emits a store to a variable.
    pub fn store(&mut self, var: VarId, value: Value) {
        self.emit_effect(Inst::Store(var, value));
    }
    /// Emits `op a`.
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        let ty = self.value_type(a);
        self.emit_single(Inst::Unary(op, a), ty)
    }
    /// Emits `-a` modulo 2^W.
    pub fn neg(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::Neg, a)
    }
    /// Emits `~a`.
    pub fn not(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::Not, a)
    }
    /// Emits `!a`.
    pub fn logical_not(&mut self, a: Value) -> Value {
        self.unary(UnaryOp::LogicalNot, a)
    }
    /// Emits `a op b`.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = binary_type(op, self.value_type(a));
        self.emit_single(Inst::Binary(op, a, b), ty)
    }
    /// Emits `a + b` modulo 2^W.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Add, a, b)
    }
    /// Emits `a == b`.
    pub fn eq(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Eq, a, b)
    }
    /// Emits a cast; returns the value itself if it already has the type.
    pub fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.value_type(value) == ty { value } else { self.emit_single(Inst::Cast(ty, value), ty) }
    }
    /// Emits bits `hi..=lo` of a value.
    pub fn slice(&mut self, value: Value, hi: u32, lo: u32) -> Value {
        self.emit_single(Inst::Slice { value, hi, lo }, slice_type(hi, lo))
    }
    /// Emits `high ++ low`.
    pub fn concat(&mut self, high: Value, low: Value) -> Value {
        let ty = concat_type(self.value_type(high), self.value_type(low));
        self.emit_single(Inst::Concat(high, low), ty)
    }
    /// Emits `cond ? then : els`.
    pub fn select(&mut self, cond: Value, then: Value, els: Value) -> Value {
        let ty = self.value_type(then);
        self.emit_single(Inst::Select { cond, then, els }, ty)
    }
}

/// Headers, packets and externs.
impl BodyBuilder {
    /// Emits `header.isValid()`.
    pub fn is_valid(&mut self, header: HeaderId) -> Value {
        self.emit_single(Inst::IsValid(header), Type::Bool)
    }
    /// Emits `header.setValid()`.
    pub fn set_valid(&mut self, header: HeaderId) {
        self.emit_effect(Inst::SetValid(header));
    }
    /// Emits `header.setInvalid()`.
    pub fn set_invalid(&mut self, header: HeaderId) {
        self.emit_effect(Inst::SetInvalid(header));
    }
    /// Emits `dst = src` for headers.
    pub fn copy_header(&mut self, dst: HeaderId, src: HeaderId) {
        self.emit_effect(Inst::CopyHeader { dst, src });
    }
    /// Emits `packet.extract(header)`.
    pub fn extract(&mut self, header: HeaderId) {
        self.emit_effect(Inst::Extract(header));
    }
    /// Emits `packet.extract(header, bits)`.
    pub fn extract_varbit(&mut self, header: HeaderId, bits: Value) {
        self.emit_effect(Inst::ExtractVarbit(header, bits));
    }
    /// Emits `packet.advance(bits)`.
    pub fn advance(&mut self, bits: Value) {
        self.emit_effect(Inst::Advance(bits));
    }
    /// Emits `packet.lookahead<ty>()`.
    pub fn lookahead(&mut self, ty: Type) -> Value {
        self.emit_single(Inst::Lookahead(ty), ty)
    }
    /// Emits `verify(cond, error)`.
    pub fn verify(&mut self, cond: Value, error: Value) {
        self.emit_effect(Inst::Verify(cond, error));
    }
    /// Emits `packet.length()`.
    pub fn packet_length(&mut self) -> Value {
        self.emit_single(Inst::PacketLength, Type::Bit(32))
    }
    /// Emits a match of the keys with the members of a value set.
    pub fn in_value_set(&mut self, set: ValueSetId, keys: Vec<Value>) -> Value {
        self.emit_single(Inst::InValueSet(set, keys), Type::Bool)
    }
    /// Emits `packet.emit(header)`.
    pub fn emit(&mut self, header: HeaderId) {
        self.emit_effect(Inst::Emit(header));
    }
    /// Emits an extern call. The results have the types given; [`crate::extern_result_types`]
    /// returns them where only one is possible.
    pub fn call_extern(
        &mut self,
        object: Option<ExternId>,
        func: ExternFn,
        args: Vec<ExternArg>,
        results: &[Type],
    ) -> Vec<Value> {
        self.push_inst(Inst::Extern { object, func, args }, results)
    }
}

/// Terminators. Each ends the current block.
impl BodyBuilder {
    /// Continues at `block`.
    pub fn jump(&mut self, block: Block) {
        self.jump_with(block, Vec::new());
    }
    /// Continues at `block` with arguments for its parameters.
    pub fn jump_with(&mut self, block: Block, args: Vec<Value>) {
        self.terminate(Terminator::Jump(BlockCall { block, args }));
    }
    /// Continues at `then` if `cond` is true, else at `els`.
    pub fn branch(&mut self, cond: Value, then: Block, els: Block) {
        let [then, els] = [then, els].map(BlockCall::to);
        self.terminate(Terminator::Branch { cond, then, els });
    }
    /// Continues at `then` if `cond` is true, else at `els`, with arguments.
    pub fn branch_with(&mut self, cond: Value, then: BlockCall, els: BlockCall) {
        self.terminate(Terminator::Branch { cond, then, els });
    }
    /// Continues at the case that equals `value`, else at `default`.
    pub fn switch(&mut self, value: Value, cases: Vec<(Const, Block)>, default: Block) {
        let call = |block| BlockCall::to(block);
        let cases = cases.into_iter().map(|(c, block)| (c, call(block))).collect();
        self.terminate(Terminator::Switch { value, cases, default: call(default) });
    }
    /// Applies a table and creates a block for each of its actions, with its parameters. The caller
    /// fills the blocks.
    pub fn apply_table(&mut self, pipeline: &Pipeline, table: TableId, keys: Vec<Value>) -> Vec<ArmBlock> {
        let mut blocks = Vec::new();
        for action in pipeline.tables.get(table).iter().flat_map(|t| &t.actions) {
            let block = self.create_block();
            let hit = self.append_param(block, Type::Bool);
            let params = pipeline.actions.get(action.action).map(|a| a.params.as_slice()).unwrap_or_default();
            let params = params.iter().map(|p| self.append_param(block, p.ty)).collect();
            blocks.push(ArmBlock { action: action.action, block, hit, params });
        }
        let arms = blocks.iter().map(|b| ActionArm { action: b.action, block: b.block }).collect();
        self.terminate(Terminator::Apply { table, keys, arms });
        blocks
    }
    /// Leaves the body (in a parser: accept).
    pub fn ret(&mut self) {
        self.terminate(Terminator::Return);
    }
    /// Leaves the body by `exit`.
    pub fn exit(&mut self) {
        self.terminate(Terminator::Exit);
    }
    /// Leaves the parser in state reject.
    pub fn reject(&mut self) {
        self.terminate(Terminator::Reject);
    }
}
