//! Resolves l-values to storage.
//!
//! A run-time index selects among candidates. An out-of-range read gives zero or an invalid header;
//! an out-of-range write has no effect.

use super::const_value::ConstValue;
use super::effects::is_pure;
use super::frame::Binding;
use super::lowering::{LowerResult, Lowering};
use super::storage::Storage;
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue, holds_reference};
use crate::hir::{Expr, ExprKind, Ty};
use crate::span::Span;
use ir::{BinaryOp, BlockCall, Const, Type, Value};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use std::rc::Rc;

impl Lowering<'_> {
    /// Resolves an expression as an l-value. An expression that is none gives an [`LValue::Value`].
    /// Emits the code that evaluates indices and checks stack bounds.
    pub(super) fn resolve_lvalue(&mut self, expr: &Expr) -> LowerResult<LValue> {
        match &expr.kind {
            ExprKind::Local(id) => self.resolve_local(*id, expr),
            ExprKind::Field(base, n) => {
                let base = self.resolve_lvalue(base)?;
                Ok(self.project_part(base, *n))
            }
            ExprKind::Index(base, index) => self.resolve_index(base, index),
            ExprKind::StackNext(base) => {
                let (elems, next) = self.resolve_stack(base)?;
                let index = self.builder.load(&self.pipeline, next);
                self.check_bounds(index, 0, elems.len());
                Ok(LValue::Dynamic { candidates: elems, index, next: Some(next) })
            }
            ExprKind::StackLast(base) => {
                let (elems, next) = self.resolve_stack(base)?;
                let next = self.builder.load(&self.pipeline, next);
                self.check_bounds(next, 1, elems.len() + 1);
                let one = self.builder.bits(32, 1u8);
                let index = self.builder.binary(BinaryOp::Sub, next, one);
                Ok(LValue::Dynamic { candidates: elems, index, next: None })
            }
            ExprKind::Slice { base, hi, lo } => {
                let ty = base.ty;
                Ok(LValue::Slice { base: Box::new(self.resolve_lvalue(base)?), hi: *hi, lo: *lo, ty })
            }
            ExprKind::DynSlice { base, lo, width } => {
                let ty = base.ty;
                let base = Box::new(self.resolve_lvalue(base)?);
                let lo = self.eval_scalar(lo)?;
                Ok(LValue::DynSlice { base, lo, width: *width, ty })
            }
            _ => Ok(LValue::Value(self.eval_expr(expr)?)),
        }
    }

    fn resolve_local(&mut self, id: crate::hir::LocalId, expr: &Expr) -> LowerResult<LValue> {
        match self.locals[id.index()].clone() {
            Some(Binding::Storage(place)) => Ok(LValue::Storage(place)),
            Some(Binding::Value(val)) => Ok(LValue::Value(val)),
            Some(Binding::Const(known)) => Ok(LValue::Value(self.const_to_rvalue(&known, expr.ty))),
            None => match self.objects[self.current_object.index()].arguments.get(&id).cloned() {
                Some(known) => Ok(LValue::Value(self.const_to_rvalue(&known, expr.ty))),
                None => {
                    let name = &self.local_decl(id).name;
                    self.unsupported(expr.span, format_args!("`{name}` here"))
                }
            },
        }
    }

    /// Resolves `stack[index]`. A known index selects one element; with an index from the packet,
    /// all elements are candidates.
    fn resolve_index(&mut self, stack: &Expr, index: &Expr) -> LowerResult<LValue> {
        let known_index = match self.try_eval_const(index) {
            Some(ConstValue::Int(n)) => Some(n),
            _ => None,
        };
        let base = self.resolve_lvalue(stack)?;
        if let Some(n) = known_index {
            return Ok(self.project_element(base, &n));
        }
        // An element of a variable stays in place while the index is evaluated. The result of a
        // call is copied, because evaluating the index can change its storage.
        let base = match base {
            LValue::Value(val) if holds_reference(&val) && !is_pure(index) => {
                LValue::Value(self.snapshot(val, stack.ty, stack.span)?)
            }
            base => base,
        };
        let index_value = self.eval_scalar(index)?;
        match base {
            LValue::Storage(Storage::Stack { elems, .. } | Storage::Struct(elems)) => {
                Ok(LValue::Dynamic { candidates: elems, index: index_value, next: None })
            }
            LValue::Value(RValue::Ref(Storage::Stack { elems, .. })) => {
                Ok(LValue::Dynamic { candidates: elems, index: index_value, next: None })
            }
            LValue::Value(val @ (RValue::Stack(..) | RValue::Struct(_))) => {
                self.index_temporary_stack(&val, index_value, index.span)
            }
            _ => self.unsupported(index.span, "an index that is only known at run time here"),
        }
    }

    fn project_element(&mut self, base: LValue, n: &BigInt) -> LValue {
        match n.to_usize() {
            Some(n) => self.project_part(base, n),
            None => LValue::Value(RValue::Void),
        }
    }

    /// Resolves an element of a stack that is not in storage.
    fn index_temporary_stack(&mut self, val: &RValue, index: Value, span: Span) -> LowerResult<LValue> {
        let (parts, of) = match val {
            RValue::Stack(parts, ty) => match self.layout(*ty) {
                TypeLayout::Stack(of, _) => (parts.clone(), of),
                _ => return self.unsupported(span, "this index"),
            },
            _ => return self.unsupported(span, "an index that is only known at run time here"),
        };
        let mut candidates = Vec::new();
        for part in parts.iter() {
            candidates.push(self.store_in_temporary(part, of, span)?);
        }
        Ok(LValue::Dynamic { candidates: candidates.into(), index, next: None })
    }

    /// Resolves field or element `n`.
    fn project_part(&mut self, base: LValue, n: usize) -> LValue {
        match base {
            LValue::Storage(place) => LValue::Storage(place.part(n).cloned().unwrap_or(Storage::Nothing)),
            LValue::Value(val) => match &val {
                RValue::Ref(place) => LValue::Storage(place.part(n).cloned().unwrap_or(Storage::Nothing)),
                _ => LValue::Value(self.value_part(&val, n)),
            },
            LValue::Dynamic { candidates, index, next } => {
                let part = |c: &Storage| c.part(n).cloned().unwrap_or(Storage::Nothing);
                LValue::Dynamic { candidates: candidates.iter().map(part).collect(), index, next }
            }
            other => other,
        }
    }

    /// Returns the elements and the next index of a stack.
    pub(super) fn resolve_stack(&mut self, expr: &Expr) -> LowerResult<(Rc<[Storage]>, ir::VarId)> {
        match self.resolve_lvalue(expr)? {
            LValue::Storage(Storage::Stack { elems, next, .. })
            | LValue::Value(RValue::Ref(Storage::Stack { elems, next, .. })) => Ok((elems, next)),
            _ => self.unsupported(expr.span, "this operation on a stack that is not a variable"),
        }
    }

    /// Emits a rejection with StackOutOfBounds unless `lo <= value < hi`.
    fn check_bounds(&mut self, value: Value, lo: u32, hi: usize) {
        let hi = self.builder.bits(32, hi);
        let mut fits = self.builder.binary(BinaryOp::Lt, value, hi);
        if lo > 0 {
            let lo = self.builder.bits(32, lo);
            let above = self.builder.binary(BinaryOp::Ge, value, lo);
            fits = self.builder.binary(BinaryOp::And, fits, above);
        }
        let error = self.error_value("StackOutOfBounds");
        self.builder.verify(fits, error);
    }

    /// Returns a value of type `error`.
    pub(super) fn error_value(&mut self, name: &str) -> Value {
        let index = self.pipeline.add_error(name);
        self.builder.constant(Const::new(Type::Error, index))
    }

    /// Reads the value of an l-value.
    pub(super) fn read_lvalue(&mut self, access: &LValue, ty: Ty, span: Span) -> LowerResult<RValue> {
        match access {
            LValue::Storage(place) => Ok(self.read_storage(place)),
            LValue::Value(val) => Ok(val.clone()),
            LValue::Dynamic { candidates, index, .. } => self.read_candidate(candidates, *index, ty, span),
            LValue::Slice { base, hi, lo, ty } => {
                let val = self.read_lvalue(base, *ty, span)?;
                let value = self.scalar_value(val, *ty, span)?;
                Ok(RValue::Scalar(self.builder.slice(value, *hi, *lo)))
            }
            LValue::DynSlice { base, lo, width, ty } => {
                let val = self.read_lvalue(base, *ty, span)?;
                let value = self.scalar_value(val, *ty, span)?;
                Ok(RValue::Scalar(self.extract_bits_at(value, *lo, *width)))
            }
        }
    }

    /// Returns `width` bits of a scalar, starting at bit `lo`.
    pub(super) fn extract_bits_at(&mut self, value: Value, lo: Value, width: u32) -> Value {
        let unsigned = self.unsigned(value);
        let shifted = self.builder.binary(BinaryOp::Shr, unsigned, lo);
        self.builder.cast(Type::Bit(width), shifted)
    }

    /// Reads the candidate with the run-time `index`; `ty` is the type of each candidate. Scalars
    /// are chosen by a chain of selects, other values by one branch for each candidate. An index
    /// out of range gives zero or an invalid header.
    fn read_candidate(&mut self, candidates: &[Storage], index: Value, ty: Ty, span: Span) -> LowerResult<RValue> {
        match self.layout(ty) {
            TypeLayout::Scalar(scalar) => {
                let mut value = self.zero_constant(scalar);
                for (n, candidate) in candidates.iter().enumerate() {
                    let Some(is_index) = self.emit_index_test(index, n) else { break };
                    let Storage::Scalar(var) = candidate else { continue };
                    let loaded = self.builder.load(&self.pipeline, *var);
                    value = self.builder.select(is_index, loaded, value);
                }
                Ok(RValue::Scalar(value))
            }
            TypeLayout::Struct(members) => {
                let mut parts = Vec::new();
                for (n, member) in members.iter().enumerate() {
                    // Each member of a struct has its own list of candidates.
                    let part = |c: &Storage| c.part(n).cloned().unwrap_or(Storage::Nothing);
                    let candidates: Vec<Storage> = candidates.iter().map(part).collect();
                    parts.push(self.read_candidate(&candidates, index, member.ty, span)?);
                }
                Ok(RValue::Struct(parts.into()))
            }
            _ => {
                let storage = self.allocate_temporary("element", ty, span)?;
                self.emit_index_paths(index, candidates.len(), |lower, n| match n {
                    Some(n) => {
                        let val = lower.read_storage(&candidates[n]);
                        lower.store_value(&storage, &val, span)
                    }
                    None => {
                        lower.invalidate(&storage);
                        Ok(())
                    }
                })?;
                Ok(RValue::Ref(storage))
            }
        }
    }

    /// Returns `index == n`, or `None` if `n` does not fit in the index type.
    fn emit_index_test(&mut self, index: Value, n: usize) -> Option<Value> {
        let ty = self.builder.value_type(index);
        if ty.width() < usize::BITS && n >> ty.width() != 0 {
            return None;
        }
        let n = self.builder.constant(Const::new(ty, n));
        Some(self.builder.eq(index, n))
    }

    /// Emits a `switch` on `index` with one path for each value below `count` and one for all
    /// others, and joins them. `emit_path` emits the code of a path; it gets the index, `None` on
    /// the path of the others.
    pub(super) fn emit_index_paths(
        &mut self,
        index: Value,
        count: usize,
        mut emit_path: impl FnMut(&mut Self, Option<usize>) -> LowerResult<()>,
    ) -> LowerResult<()> {
        let ty = self.builder.value_type(index);
        // A narrow index cannot have the value of a late candidate.
        let is_representable = |n: &usize| ty.width() >= usize::BITS || n >> ty.width() == 0;
        let cases: Vec<(usize, ir::Block)> =
            (0..count).filter(is_representable).map(|n| (n, self.builder.create_block())).collect();
        let (default, join) = (self.builder.create_block(), self.builder.create_block());
        let consts = cases.iter().map(|(n, block)| (Const::new(ty, *n), *block)).collect();
        self.builder.switch(index, consts, default);
        let paths = cases.into_iter().map(|(n, block)| (Some(n), block)).chain([(None, default)]);
        for (n, block) in paths {
            self.builder.switch_to(block);
            emit_path(self, n)?;
            if !self.builder.is_terminated() {
                self.builder.jump(join);
            }
        }
        self.builder.switch_to(join);
        Ok(())
    }

    /// Writes `val` of type `ty` to an l-value. Bits of a scalar are written by reading the scalar,
    /// replacing the bits and writing it again.
    pub(super) fn write_lvalue(&mut self, access: &LValue, val: RValue, ty: Ty, span: Span) -> LowerResult<()> {
        match access {
            LValue::Storage(storage) => self.assign_value(storage, val, ty, span),
            LValue::Dynamic { candidates, index, .. } => self.write_candidate(candidates, *index, val, ty, span),
            LValue::Slice { base, hi, lo, ty: base_ty } => {
                let bits = self.scalar_value(val, ty, span)?;
                let old = self.read_lvalue(base, *base_ty, span)?;
                let old = self.scalar_value(old, *base_ty, span)?;
                let new = self.replace_bits(old, *hi, *lo, bits);
                self.write_lvalue(base, RValue::Scalar(new), *base_ty, span)
            }
            LValue::DynSlice { base, lo, width, ty: base_ty } => {
                let bits = self.scalar_value(val, ty, span)?;
                let old = self.read_lvalue(base, *base_ty, span)?;
                let old = self.scalar_value(old, *base_ty, span)?;
                let new = self.replace_bits_at(old, *lo, *width, bits);
                self.write_lvalue(base, RValue::Scalar(new), *base_ty, span)
            }
            LValue::Value(_) => self.unsupported(span, "assigning to this"),
        }
    }

    /// Writes `val` to the candidate with the run-time `index`; an index out of range writes
    /// nothing. Every scalar candidate is stored again, with its old value unless the index selects
    /// it, because this needs no branch.
    fn write_candidate(
        &mut self,
        candidates: &[Storage],
        index: Value,
        val: RValue,
        ty: Ty,
        span: Span,
    ) -> LowerResult<()> {
        if let TypeLayout::Scalar(scalar) = self.layout(ty) {
            let mut new_value = self.scalar_value(val, ty, span)?;
            if self.builder.value_type(new_value) != scalar {
                new_value = self.builder.cast(scalar, new_value);
            }
            for (n, candidate) in candidates.iter().enumerate() {
                let Some(is_index) = self.emit_index_test(index, n) else { break };
                let Storage::Scalar(var) = candidate else { continue };
                let old_value = self.builder.load(&self.pipeline, *var);
                let value = self.builder.select(is_index, new_value, old_value);
                self.builder.store(*var, value);
            }
            return Ok(());
        }
        // Copy the value if it refers to candidates, because they must not change before it is
        // read.
        let val = match &val {
            RValue::Ref(src) if !candidates.iter().any(|c| c.overlaps(src, &self.pipeline)) => val,
            _ => self.snapshot(val, ty, span)?,
        };
        self.emit_index_paths(index, candidates.len(), |lower, n| match n {
            Some(n) => lower.assign_value(&candidates[n], val.clone(), ty, span),
            None => Ok(()),
        })
    }

    /// Returns the scalar with bits `hi..=lo` replaced.
    fn replace_bits(&mut self, old: Value, hi: u32, lo: u32, bits: Value) -> Value {
        let ty = self.builder.value_type(old);
        let width = ty.width();
        let bits = self.builder.cast(Type::Bit(hi - lo + 1), bits);
        let mut new = bits;
        if hi + 1 < width {
            let high = self.builder.slice(old, width - 1, hi + 1);
            new = self.builder.concat(high, new);
        }
        if lo > 0 {
            let low = self.builder.slice(old, lo - 1, 0);
            new = self.builder.concat(new, low);
        }
        self.builder.cast(ty, new)
    }

    /// Returns the scalar with `width` bits from bit `lo` replaced. Bits beyond its width are lost.
    fn replace_bits_at(&mut self, old: Value, lo: Value, width: u32, bits: Value) -> Value {
        let ty = self.builder.value_type(old);
        let whole = Type::Bit(ty.width());
        let old = self.builder.cast(whole, old);
        let bits = self.builder.cast(Type::Bit(width), bits);
        let wide = self.builder.cast(whole, bits);
        let ones = wrap_ones(width, ty.width());
        let ones = self.builder.constant(Const::new(whole, ones));
        let mask = self.builder.binary(BinaryOp::Shl, ones, lo);
        let placed = self.builder.binary(BinaryOp::Shl, wide, lo);
        let keep = self.builder.not(mask);
        let kept = self.builder.binary(BinaryOp::And, old, keep);
        let new = self.builder.binary(BinaryOp::Or, kept, placed);
        self.builder.cast(ty, new)
    }

    /// Returns a block call with one argument.
    pub(super) fn call_with_arg(block: ir::Block, arg: Value) -> BlockCall {
        BlockCall { block, args: vec![arg] }
    }
}

fn wrap_ones(width: u32, limit: u32) -> num_bigint::BigUint {
    (num_bigint::BigUint::from(1u8) << width.min(limit)) - 1u8
}
