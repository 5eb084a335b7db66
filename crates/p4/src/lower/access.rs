//! L-values: where an expression points, resolved to storage.
//!
//! An index that is known at run time only selects among candidates: reading out of range gives zero or an invalid header,
//! writing there has no effect.

use super::frame::Binding;
use super::known::Known;
use super::lowering::{Lower, Res};
use super::place::Place;
use super::shape::Shape;
use super::value::{Access, Val, holds_reference};
use super::walk::is_pure;
use crate::hir::{Expr, ExprKind, Ty};
use crate::span::Span;
use ir::{BinaryOp, BlockCall, Const, Type, Value};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use std::rc::Rc;

impl Lower<'_> {
    /// Resolves an expression that may be an l-value; any other is evaluated.
    pub(super) fn access(&mut self, expr: &Expr) -> Res<Access> {
        match &expr.kind {
            ExprKind::Local(id) => self.access_local(*id, expr),
            ExprKind::Field(base, n) => {
                let base = self.access(base)?;
                Ok(self.project(base, *n))
            }
            ExprKind::Index(base, index) => self.access_index(base, index),
            ExprKind::StackNext(base) => {
                let (elems, next) = self.stack_of(base)?;
                let index = self.b.load(&self.p, next);
                self.check_bounds(index, 0, elems.len());
                Ok(Access::Dynamic { candidates: elems, index, next: Some(next) })
            }
            ExprKind::StackLast(base) => {
                let (elems, next) = self.stack_of(base)?;
                let next = self.b.load(&self.p, next);
                self.check_bounds(next, 1, elems.len() + 1);
                let one = self.b.bits(32, 1u8);
                let index = self.b.binary(BinaryOp::Sub, next, one);
                Ok(Access::Dynamic { candidates: elems, index, next: None })
            }
            ExprKind::Slice { base, hi, lo } => {
                let ty = base.ty;
                Ok(Access::Slice { base: Box::new(self.access(base)?), hi: *hi, lo: *lo, ty })
            }
            ExprKind::DynSlice { base, lo, width } => {
                let ty = base.ty;
                let base = Box::new(self.access(base)?);
                let lo = self.eval_scalar(lo)?;
                Ok(Access::DynSlice { base, lo, width: *width, ty })
            }
            _ => Ok(Access::Val(self.eval(expr)?)),
        }
    }

    fn access_local(&mut self, id: crate::hir::LocalId, expr: &Expr) -> Res<Access> {
        match self.locals[id.index()].clone() {
            Some(Binding::Place(place)) => Ok(Access::Place(place)),
            Some(Binding::Val(val)) => Ok(Access::Val(val)),
            Some(Binding::Known(known)) => Ok(Access::Val(self.known_value(&known, expr.ty))),
            None => match self.objects[self.this.index()].arguments.get(&id).cloned() {
                Some(known) => Ok(Access::Val(self.known_value(&known, expr.ty))),
                None => {
                    let name = &self.local(id).name;
                    self.unsupported(expr.span, format_args!("`{name}` here"))
                }
            },
        }
    }

    fn access_index(&mut self, stack: &Expr, index: &Expr) -> Res<Access> {
        let known = match self.try_known(index) {
            Some(Known::Int(n)) => Some(n),
            _ => None,
        };
        let base = self.access(stack)?;
        if let Some(n) = known {
            return Ok(self.project_index(base, &n));
        }
        // Of a variable, an element is where it is, whatever the index changes; the value of a
        // call is what it was.
        let base = match base {
            Access::Val(val) if holds_reference(&val) && !is_pure(index) => {
                Access::Val(self.snapshot(val, stack.ty, stack.span)?)
            }
            base => base,
        };
        let value = self.eval_scalar(index)?;
        match base {
            Access::Place(Place::Stack { elems, .. } | Place::Struct(elems)) => {
                Ok(Access::Dynamic { candidates: elems, index: value, next: None })
            }
            Access::Val(Val::Ref(Place::Stack { elems, .. })) => {
                Ok(Access::Dynamic { candidates: elems, index: value, next: None })
            }
            Access::Val(val @ (Val::Stack(..) | Val::Struct(_))) => self.index_value(&val, value, index.span),
            _ => self.unsupported(index.span, "an index that is only known at run time here"),
        }
    }

    fn project_index(&mut self, base: Access, n: &BigInt) -> Access {
        match n.to_usize() {
            Some(n) => self.project(base, n),
            None => Access::Val(Val::Void),
        }
    }

    /// An element of a stack that is not in storage.
    fn index_value(&mut self, val: &Val, index: Value, span: Span) -> Res<Access> {
        let (parts, of) = match val {
            Val::Stack(parts, ty) => match self.shape(*ty) {
                Shape::Stack(of, _) => (parts.clone(), of),
                _ => return self.unsupported(span, "this index"),
            },
            _ => return self.unsupported(span, "an index that is only known at run time here"),
        };
        let mut candidates = Vec::new();
        for part in parts.iter() {
            candidates.push(self.materialise(part, of, span)?);
        }
        Ok(Access::Dynamic { candidates: candidates.into(), index, next: None })
    }

    /// Field or element number `n`.
    fn project(&mut self, base: Access, n: usize) -> Access {
        match base {
            Access::Place(place) => Access::Place(place.part(n).cloned().unwrap_or(Place::Nothing)),
            Access::Val(val) => match &val {
                Val::Ref(place) => Access::Place(place.part(n).cloned().unwrap_or(Place::Nothing)),
                _ => Access::Val(self.part(&val, n)),
            },
            Access::Dynamic { candidates, index, next } => {
                let part = |c: &Place| c.part(n).cloned().unwrap_or(Place::Nothing);
                Access::Dynamic { candidates: candidates.iter().map(part).collect(), index, next }
            }
            other => other,
        }
    }

    /// The elements and the next index of a stack.
    pub(super) fn stack_of(&mut self, expr: &Expr) -> Res<(Rc<[Place]>, ir::VarId)> {
        match self.access(expr)? {
            Access::Place(Place::Stack { elems, next, .. })
            | Access::Val(Val::Ref(Place::Stack { elems, next, .. })) => Ok((elems, next)),
            _ => self.unsupported(expr.span, "this operation on a stack that is not a variable"),
        }
    }

    /// Rejects with StackOutOfBounds unless `lo <= value < hi`.
    fn check_bounds(&mut self, value: Value, lo: u32, hi: usize) {
        let hi = self.b.bits(32, hi);
        let mut fits = self.b.binary(BinaryOp::Lt, value, hi);
        if lo > 0 {
            let lo = self.b.bits(32, lo);
            let above = self.b.binary(BinaryOp::Ge, value, lo);
            fits = self.b.binary(BinaryOp::And, fits, above);
        }
        let error = self.error_value("StackOutOfBounds");
        self.b.verify(fits, error);
    }

    /// A value of type `error`.
    pub(super) fn error_value(&mut self, name: &str) -> Value {
        let index = self.p.add_error(name);
        self.b.constant(Const::new(Type::Error, index))
    }

    /// The value there.
    pub(super) fn read_access(&mut self, access: &Access, ty: Ty, span: Span) -> Res<Val> {
        match access {
            Access::Place(place) => Ok(self.read(place)),
            Access::Val(val) => Ok(val.clone()),
            Access::Dynamic { candidates, index, .. } => self.read_dynamic(candidates, *index, ty, span),
            Access::Slice { base, hi, lo, ty } => {
                let val = self.read_access(base, *ty, span)?;
                let value = self.scalar_value(val, *ty, span)?;
                Ok(Val::Scalar(self.b.slice(value, *hi, *lo)))
            }
            Access::DynSlice { base, lo, width, ty } => {
                let val = self.read_access(base, *ty, span)?;
                let value = self.scalar_value(val, *ty, span)?;
                Ok(Val::Scalar(self.bits_at(value, *lo, *width)))
            }
        }
    }

    /// `width` bits of a scalar from bit `lo` up.
    pub(super) fn bits_at(&mut self, value: Value, lo: Value, width: u32) -> Value {
        let unsigned = self.unsigned(value);
        let shifted = self.b.binary(BinaryOp::Shr, unsigned, lo);
        self.b.cast(Type::Bit(width), shifted)
    }

    fn read_dynamic(&mut self, candidates: &[Place], index: Value, ty: Ty, span: Span) -> Res<Val> {
        match self.shape(ty) {
            Shape::Scalar(scalar) => {
                let mut value = self.zero(scalar);
                for (n, candidate) in candidates.iter().enumerate() {
                    let Some(here) = self.is_index(index, n) else { break };
                    let Place::Scalar(var) = candidate else { continue };
                    let loaded = self.b.load(&self.p, *var);
                    value = self.b.select(here, loaded, value);
                }
                Ok(Val::Scalar(value))
            }
            Shape::Struct(members) => {
                let mut parts = Vec::new();
                for (n, member) in members.iter().enumerate() {
                    let part = |c: &Place| c.part(n).cloned().unwrap_or(Place::Nothing);
                    let candidates: Vec<Place> = candidates.iter().map(part).collect();
                    parts.push(self.read_dynamic(&candidates, index, member.ty, span)?);
                }
                Ok(Val::Struct(parts.into()))
            }
            _ => {
                let place = self.temporary("element", ty, span)?;
                self.choose(index, candidates.len(), |lower, n| match n {
                    Some(n) => {
                        let val = lower.read(&candidates[n]);
                        lower.store(&place, &val, span)
                    }
                    None => {
                        lower.invalidate(&place);
                        Ok(())
                    }
                })?;
                Ok(Val::Ref(place))
            }
        }
    }

    /// `index == n`, or `None` if the index is too narrow to be.
    fn is_index(&mut self, index: Value, n: usize) -> Option<Value> {
        let ty = self.b.value_type(index);
        if ty.width() < usize::BITS && n >> ty.width() != 0 {
            return None;
        }
        let n = self.b.constant(Const::new(ty, n));
        Some(self.b.eq(index, n))
    }

    /// Goes separate ways for each index below `count`, and for all others (`None`), and joins them.
    pub(super) fn choose(
        &mut self,
        index: Value,
        count: usize,
        mut way: impl FnMut(&mut Self, Option<usize>) -> Res<()>,
    ) -> Res<()> {
        let ty = self.b.value_type(index);
        let fits = |n: &usize| ty.width() >= usize::BITS || n >> ty.width() == 0;
        let cases: Vec<(usize, ir::Block)> = (0..count).filter(fits).map(|n| (n, self.b.create_block())).collect();
        let (default, join) = (self.b.create_block(), self.b.create_block());
        let consts = cases.iter().map(|(n, block)| (Const::new(ty, *n), *block)).collect();
        self.b.switch(index, consts, default);
        let ways = cases.into_iter().map(|(n, block)| (Some(n), block)).chain([(None, default)]);
        for (n, block) in ways {
            self.b.switch_to(block);
            way(self, n)?;
            if !self.b.is_terminated() {
                self.b.jump(join);
            }
        }
        self.b.switch_to(join);
        Ok(())
    }

    /// Writes there.
    pub(super) fn write_access(&mut self, access: &Access, val: Val, ty: Ty, span: Span) -> Res<()> {
        match access {
            Access::Place(place) => self.assign(place, val, ty, span),
            Access::Dynamic { candidates, index, .. } => self.write_dynamic(candidates, *index, val, ty, span),
            Access::Slice { base, hi, lo, ty: whole } => {
                let bits = self.scalar_value(val, ty, span)?;
                let old = self.read_access(base, *whole, span)?;
                let old = self.scalar_value(old, *whole, span)?;
                let new = self.insert_bits(old, *hi, *lo, bits);
                self.write_access(base, Val::Scalar(new), *whole, span)
            }
            Access::DynSlice { base, lo, width, ty: whole } => {
                let bits = self.scalar_value(val, ty, span)?;
                let old = self.read_access(base, *whole, span)?;
                let old = self.scalar_value(old, *whole, span)?;
                let new = self.insert_bits_at(old, *lo, *width, bits);
                self.write_access(base, Val::Scalar(new), *whole, span)
            }
            Access::Val(_) => self.unsupported(span, "assigning to this"),
        }
    }

    fn write_dynamic(&mut self, candidates: &[Place], index: Value, val: Val, ty: Ty, span: Span) -> Res<()> {
        if let Shape::Scalar(scalar) = self.shape(ty) {
            let mut new = self.scalar_value(val, ty, span)?;
            if self.b.value_type(new) != scalar {
                new = self.b.cast(scalar, new);
            }
            for (n, candidate) in candidates.iter().enumerate() {
                let Some(here) = self.is_index(index, n) else { break };
                let Place::Scalar(var) = candidate else { continue };
                let old = self.b.load(&self.p, *var);
                let value = self.b.select(here, new, old);
                self.b.store(*var, value);
            }
            return Ok(());
        }
        // Candidates that the value refers to must not change before all is read; other storage does not.
        let val = match &val {
            Val::Ref(src) if !candidates.iter().any(|c| c.overlaps(src, &self.p)) => val,
            _ => self.snapshot(val, ty, span)?,
        };
        self.choose(index, candidates.len(), |lower, n| match n {
            Some(n) => lower.assign(&candidates[n], val.clone(), ty, span),
            None => Ok(()),
        })
    }

    /// The scalar with bits `hi..=lo` replaced.
    fn insert_bits(&mut self, old: Value, hi: u32, lo: u32, bits: Value) -> Value {
        let ty = self.b.value_type(old);
        let width = ty.width();
        let bits = self.b.cast(Type::Bit(hi - lo + 1), bits);
        let mut new = bits;
        if hi + 1 < width {
            let high = self.b.slice(old, width - 1, hi + 1);
            new = self.b.concat(high, new);
        }
        if lo > 0 {
            let low = self.b.slice(old, lo - 1, 0);
            new = self.b.concat(new, low);
        }
        self.b.cast(ty, new)
    }

    /// The scalar with `width` bits from bit `lo` up replaced; bits that fall outside are lost.
    fn insert_bits_at(&mut self, old: Value, lo: Value, width: u32, bits: Value) -> Value {
        let ty = self.b.value_type(old);
        let whole = Type::Bit(ty.width());
        let old = self.b.cast(whole, old);
        let bits = self.b.cast(Type::Bit(width), bits);
        let wide = self.b.cast(whole, bits);
        let ones = wrap_ones(width, ty.width());
        let ones = self.b.constant(Const::new(whole, ones));
        let mask = self.b.binary(BinaryOp::Shl, ones, lo);
        let placed = self.b.binary(BinaryOp::Shl, wide, lo);
        let keep = self.b.not(mask);
        let kept = self.b.binary(BinaryOp::And, old, keep);
        let new = self.b.binary(BinaryOp::Or, kept, placed);
        self.b.cast(ty, new)
    }

    /// A block call with one argument.
    pub(super) fn to_with(block: ir::Block, arg: Value) -> BlockCall {
        BlockCall { block, args: vec![arg] }
    }
}

fn wrap_ones(width: u32, limit: u32) -> num_bigint::BigUint {
    (num_bigint::BigUint::from(1u8) << width.min(limit)) - 1u8
}
