//! Moves values from and to storage and between types.
//!
//! A reference to storage ([`RValue::Ref`]) is valid until the next evaluation with side effects.
//! Code that evaluates further expressions must take a [`Lowering::snapshot`] first.

use super::lowering::{LowerResult, Lowering};
use super::storage::{Storage, StorageLeaf, header_id, union_members};
use super::type_layout::TypeLayout;
use super::value::{RValue, holds_reference, wrap_to_width};
use crate::hir::Ty;
use crate::span::Span;
use ir::{BinaryOp, Const, HeaderId, Type, Value};
use num_bigint::BigInt;
use std::collections::HashSet;
use std::rc::Rc;

impl Lowering<'_> {
    /// Returns a constant of a scalar type.
    pub(super) fn scalar_constant(&mut self, ty: Type, value: &BigInt) -> Value {
        let bits = wrap_to_width(value, ty.width());
        self.builder.constant(Const::new(ty, bits))
    }

    /// Returns the zero of a scalar type.
    pub(super) fn zero_constant(&mut self, ty: Type) -> Value {
        self.builder.constant(Const::new(ty, 0u8))
    }

    /// Returns a value as a scalar.
    pub(super) fn scalar_value(&mut self, val: RValue, ty: Ty, span: Span) -> LowerResult<Value> {
        match val {
            RValue::Scalar(value) => Ok(value),
            RValue::Int(n) => {
                // An `int` without a type of known width gets the smallest width that holds it.
                let ty = match self.layout(ty) {
                    TypeLayout::Scalar(ty) => ty,
                    _ => Type::Bit(u32::try_from(n.bits()).unwrap_or(u32::MAX).clamp(32, ir::MAX_WIDTH)),
                };
                Ok(self.scalar_constant(ty, &n))
            }
            _ => self.unsupported(span, "a value of this type here, where a scalar is needed"),
        }
    }

    /// Reads a value from storage.
    pub(super) fn read_storage(&mut self, place: &Storage) -> RValue {
        match place {
            Storage::Scalar(var) => RValue::Scalar(self.builder.load(&self.pipeline, *var)),
            Storage::Struct(parts) => RValue::Struct(parts.iter().map(|p| self.read_storage(p)).collect()),
            Storage::Nothing => RValue::Void,
            place => RValue::Ref(place.clone()),
        }
    }

    /// Returns the default value of a type: zero, invalid, the first member of an enumeration.
    pub(super) fn default_value(&mut self, ty: Ty) -> RValue {
        if self.is_too_large(ty) {
            return RValue::Void;
        }
        match self.layout(ty) {
            TypeLayout::Scalar(ty) => RValue::Scalar(self.zero_constant(ty)),
            TypeLayout::Struct(members) => RValue::Struct(members.iter().map(|m| self.default_value(m.ty)).collect()),
            TypeLayout::Header(..) | TypeLayout::Union(_) => RValue::Invalid(ty),
            TypeLayout::Stack(of, size) => RValue::Stack((0..size).map(|_| RValue::Invalid(of)).collect(), ty),
            TypeLayout::CompileTime if self.is_inf_int(ty) => RValue::Int(BigInt::default()),
            TypeLayout::CompileTime => RValue::Text("".into()),
            TypeLayout::List(_) => RValue::Struct(Rc::default()),
            TypeLayout::Void | TypeLayout::Opaque => RValue::Void,
        }
    }

    /// Returns part `n` of a value.
    pub(super) fn value_part(&mut self, val: &RValue, n: usize) -> RValue {
        match val {
            RValue::Struct(parts) | RValue::Header(parts) | RValue::Stack(parts, _) => {
                parts.get(n).cloned().unwrap_or(RValue::Void)
            }
            RValue::Ref(place) => match place.part(n).cloned() {
                Some(part) => self.read_storage(&part),
                None => RValue::Void,
            },
            RValue::Invalid(ty) => match self.layout(*ty) {
                TypeLayout::Header(_, members) | TypeLayout::Union(members) => {
                    members.get(n).map_or(RValue::Void, |m| self.default_value(m.ty))
                }
                _ => RValue::Void,
            },
            _ => RValue::Void,
        }
    }

    /// Stores `val` in `target`, which has the same type. A header becomes valid with its fields.
    /// References in `val` must not overlap `target` at a different position
    /// ([`Lowering::assign_value`] ensures that).
    pub(super) fn store_value(&mut self, target: &Storage, val: &RValue, span: Span) -> LowerResult<()> {
        match (target, val) {
            (Storage::Nothing, _) | (_, RValue::Void) => {}
            (Storage::Scalar(var), RValue::Scalar(value)) => self.builder.store(*var, *value),
            (Storage::Scalar(var), RValue::Int(n)) => {
                let ty = self.pipeline.vars[*var].ty;
                let value = self.scalar_constant(ty, n);
                self.builder.store(*var, value);
            }
            (Storage::Struct(parts), RValue::Struct(vals)) => {
                for (part, val) in parts.iter().zip(vals.iter()) {
                    self.store_value(part, val, span)?;
                }
            }
            (Storage::Header { id, fields }, RValue::Header(vals)) => {
                self.builder.set_valid(*id);
                for (part, val) in fields.iter().zip(vals.iter()) {
                    self.store_value(part, val, span)?;
                }
            }
            (target, RValue::Invalid(_)) => self.invalidate(target),
            (Storage::Header { id, .. }, RValue::Ref(src)) => {
                self.copy_to_header(*id, target, src);
            }
            (target, RValue::Ref(src)) => self.copy_storage(target, src),
            (Storage::Stack { elems, next, .. }, RValue::Stack(vals, _)) => {
                for (part, val) in elems.iter().zip(vals.iter()) {
                    self.store_value(part, val, span)?;
                }
                let zero = self.builder.bits(32, 0u8);
                self.builder.store(*next, zero);
            }
            _ => return self.unsupported(span, "copying a value of this type"),
        }
        Ok(())
    }

    /// Copies between storage of headers, stacks or unions.
    fn copy_storage(&mut self, dst: &Storage, src: &Storage) {
        match (dst, src) {
            (Storage::Header { id: dst, .. }, Storage::Header { id: src, .. }) if dst == src => {}
            (Storage::Header { id: dst, .. }, Storage::Header { id: src, .. }) => self.builder.copy_header(*dst, *src),
            (Storage::Stack { elems, next, .. }, Storage::Stack { elems: src_elems, next: src_next, .. }) => {
                elems.iter().zip(src_elems.iter()).for_each(|(d, s)| self.copy_storage(d, s));
                let value = self.builder.load(&self.pipeline, *src_next);
                self.builder.store(*next, value);
            }
            (Storage::Union { members, .. }, Storage::Union { members: src, .. }) => {
                members.iter().zip(src.iter()).for_each(|(d, s)| self.copy_storage(d, s));
            }
            _ => {}
        }
    }

    /// Copies the header `src` to the header `id`, stored at `target`. For a member of a union, an
    /// invalid source invalidates the whole union (specification, "Operations on header unions"). A
    /// valid source invalidates the other members implicitly.
    fn copy_to_header(&mut self, id: HeaderId, target: &Storage, src: &Storage) {
        let members = union_members(&self.pipeline, id).to_vec();
        match header_id(src) {
            Some(src_id) if members.contains(&src_id) => {
                let [valid, invalid, join] = [(); 3].map(|()| self.builder.create_block());
                let is_valid = self.builder.is_valid(src_id);
                self.builder.branch(is_valid, valid, invalid);
                self.builder.switch_to(valid);
                self.copy_storage(target, src);
                self.builder.jump(join);
                self.builder.switch_to(invalid);
                members.into_iter().for_each(|member| self.builder.set_invalid(member));
                self.builder.jump(join);
                self.builder.switch_to(join);
            }
            _ => {
                self.invalidate_siblings(id);
                self.copy_storage(target, src);
            }
        }
    }

    /// Invalidates the other members of a header's union.
    fn invalidate_siblings(&mut self, header: HeaderId) {
        let members = union_members(&self.pipeline, header).to_vec();
        members.into_iter().filter(|member| *member != header).for_each(|member| self.builder.set_invalid(member));
    }

    /// Invalidates headers, and the whole union of a member. Leaves scalars unchanged.
    pub(super) fn invalidate(&mut self, place: &Storage) {
        match place {
            Storage::Header { id, .. } => {
                self.builder.set_invalid(*id);
                self.invalidate_siblings(*id);
            }
            Storage::Union { members } => {
                members.iter().filter_map(header_id).for_each(|member| self.builder.set_invalid(member));
            }
            Storage::Struct(parts) => parts.iter().for_each(|p| self.invalidate(p)),
            Storage::Stack { elems, next, .. } => {
                elems.iter().for_each(|p| self.invalidate(p));
                let zero = self.builder.bits(32, 0u8);
                self.builder.store(*next, zero);
            }
            Storage::Scalar(_) | Storage::Nothing => {}
        }
    }

    /// Sets scalars to zero and headers to invalid.
    pub(super) fn clear_storage(&mut self, place: &Storage) {
        match place {
            Storage::Scalar(var) => {
                let zero = self.zero_constant(self.pipeline.vars[*var].ty);
                self.builder.store(*var, zero);
            }
            Storage::Struct(parts) => parts.iter().for_each(|p| self.clear_storage(p)),
            place => self.invalidate(place),
        }
    }

    /// Copies the storage that a value refers to into temporaries, so that later side effects do
    /// not change the value. `ty` is its type.
    pub(super) fn snapshot(&mut self, val: RValue, ty: Ty, span: Span) -> LowerResult<RValue> {
        Ok(match val {
            RValue::Ref(_) => RValue::Ref(self.store_in_temporary(&val, ty, span)?),
            RValue::Struct(parts) if parts.iter().any(holds_reference) => {
                let types: Vec<Ty> = match self.layout(ty) {
                    TypeLayout::Struct(members) => members.iter().map(|m| m.ty).collect(),
                    TypeLayout::List(element_ty) => vec![element_ty; parts.len()],
                    _ => return self.unsupported(span, "copying a value of this type"),
                };
                let parts = parts.iter().zip(types).map(|(part, ty)| self.snapshot(part.clone(), ty, span));
                RValue::Struct(parts.collect::<LowerResult<Vec<RValue>>>()?.into())
            }
            RValue::Stack(parts, stack) if parts.iter().any(holds_reference) => {
                let TypeLayout::Stack(element_ty, _) = self.layout(stack) else {
                    return Ok(RValue::Stack(parts, stack));
                };
                let parts = parts.iter().map(|part| self.snapshot(part.clone(), element_ty, span));
                RValue::Stack(parts.collect::<LowerResult<Vec<RValue>>>()?.into(), stack)
            }
            val => val,
        })
    }

    /// Stores a value in new storage.
    pub(super) fn store_in_temporary(&mut self, val: &RValue, ty: Ty, span: Span) -> LowerResult<Storage> {
        let place = self.allocate_temporary("tmp", ty, span)?;
        self.store_value(&place, val, span)?;
        Ok(place)
    }

    /// Assigns a value, which can refer to parts of `place`.
    pub(super) fn assign_value(&mut self, place: &Storage, val: RValue, ty: Ty, span: Span) -> LowerResult<()> {
        let mut sources = HashSet::new();
        collect_misplaced(place, &val, &mut sources);
        let val =
            if !sources.is_empty() && place.overlap_leaves(&self.pipeline).iter().any(|leaf| sources.contains(leaf)) {
                self.snapshot(val, ty, span)?
            } else {
                val
            };
        self.store_value(place, &val, span)
    }

    /// Appends the scalars of a value in order, without validity bits. `ty` is the P4 type of
    /// `val`. An invalid header gives zeros.
    pub(super) fn append_scalars(&mut self, val: &RValue, ty: Ty, span: Span, out: &mut Vec<Value>) -> LowerResult<()> {
        match val {
            RValue::Scalar(value) => out.push(*value),
            RValue::Int(_) => out.push(self.scalar_value(val.clone(), ty, span)?),
            RValue::Struct(parts) | RValue::Header(parts) | RValue::Stack(parts, _) => {
                for (n, part) in parts.iter().enumerate() {
                    let ty = self.member_type(ty, n);
                    self.append_scalars(part, ty, span, out)?;
                }
            }
            RValue::Ref(storage) => {
                for var in storage.vars() {
                    out.push(self.builder.load(&self.pipeline, var));
                }
            }
            RValue::Invalid(ty) => {
                let mut types = Vec::new();
                self.append_scalar_types(*ty, &mut types);
                out.extend(types.into_iter().map(|ty| self.zero_constant(ty)).collect::<Vec<_>>());
            }
            RValue::Void => {}
            RValue::Text(_) | RValue::Object => {
                return self.unsupported(span, "a value of this type among packet data");
            }
        }
        Ok(())
    }

    /// Returns the type of part `n`.
    pub(super) fn member_type(&mut self, ty: Ty, n: usize) -> Ty {
        match self.layout(ty) {
            TypeLayout::Struct(members) | TypeLayout::Header(_, members) | TypeLayout::Union(members) => {
                members.get(n).map_or(crate::hir::Types::VOID, |m| m.ty)
            }
            TypeLayout::Stack(of, _) | TypeLayout::List(of) => of,
            _ => ty,
        }
    }

    /// Builds a value of the type from scalars in order. Headers become valid.
    pub(super) fn build_from_scalars(&mut self, ty: Ty, values: &mut dyn Iterator<Item = Value>) -> RValue {
        match self.layout(ty) {
            TypeLayout::Scalar(_) => values.next().map_or(RValue::Void, RValue::Scalar),
            TypeLayout::Struct(members) => {
                RValue::Struct(members.iter().map(|m| self.build_from_scalars(m.ty, values)).collect())
            }
            TypeLayout::Header(_, members) => {
                RValue::Header(members.iter().map(|m| self.build_from_scalars(m.ty, values)).collect())
            }
            TypeLayout::Stack(of, size) => {
                RValue::Stack((0..size).map(|_| self.build_from_scalars(of, values)).collect(), ty)
            }
            _ => RValue::Void,
        }
    }

    /// Returns whether a header, or any member of a union, is valid.
    pub(super) fn emit_validity(&mut self, val: &RValue) -> Value {
        match val {
            RValue::Ref(Storage::Header { id, .. }) => self.builder.is_valid(*id),
            RValue::Ref(Storage::Union { members, .. }) => {
                let ids: Vec<HeaderId> = members.iter().filter_map(header_id).collect();
                let mut any = None;
                for id in ids {
                    let valid = self.builder.is_valid(id);
                    any = Some(any.map_or(valid, |any| self.builder.binary(BinaryOp::Or, any, valid)));
                }
                any.unwrap_or_else(|| self.builder.bool(false))
            }
            RValue::Header(..) => self.builder.bool(true),
            _ => self.builder.bool(false),
        }
    }

    /// Emits `a == b` for values of the type `ty` and returns the bool. Two headers are equal if
    /// both are invalid, or both are valid with equal fields.
    pub(super) fn emit_equal(&mut self, a: &RValue, b: &RValue, ty: Ty, span: Span) -> LowerResult<Value> {
        match self.layout(ty) {
            TypeLayout::Scalar(_) => {
                let a = self.scalar_value(a.clone(), ty, span)?;
                let b = self.scalar_value(b.clone(), ty, span)?;
                Ok(self.builder.eq(a, b))
            }
            TypeLayout::Header(_, members) => {
                let (a_valid, b_valid) = (self.emit_validity(a), self.emit_validity(b));
                let same_validity = self.builder.eq(a_valid, b_valid);
                // Fields of invalid headers read as zero, so two invalid headers also have equal
                // fields.
                self.emit_equal_parts(a, b, members.iter().map(|m| m.ty).collect(), Some(same_validity), span)
            }
            TypeLayout::Struct(members) | TypeLayout::Union(members) => {
                self.emit_equal_parts(a, b, members.iter().map(|m| m.ty).collect(), None, span)
            }
            TypeLayout::Stack(element_ty, size) => {
                self.emit_equal_parts(a, b, vec![element_ty; size as usize], None, span)
            }
            TypeLayout::List(element_ty) => {
                let len = if let RValue::Struct(parts) = a { parts.len() } else { 0 };
                self.emit_equal_parts(a, b, vec![element_ty; len], None, span)
            }
            _ => match (a, b) {
                (RValue::Int(a), RValue::Int(b)) => Ok(self.builder.bool(a == b)),
                (RValue::Text(a), RValue::Text(b)) => Ok(self.builder.bool(a == b)),
                _ => self.unsupported(span, "comparing values of this type"),
            },
        }
    }

    fn emit_equal_parts(
        &mut self,
        a: &RValue,
        b: &RValue,
        types: Vec<Ty>,
        first: Option<Value>,
        span: Span,
    ) -> LowerResult<Value> {
        let mut all = first;
        for (n, ty) in types.into_iter().enumerate() {
            let (a, b) = (self.value_part(a, n), self.value_part(b, n));
            let same = self.emit_equal(&a, &b, ty, span)?;
            all = Some(all.map_or(same, |all| self.builder.binary(BinaryOp::And, all, same)));
        }
        Ok(all.unwrap_or_else(|| self.builder.bool(true)))
    }
}

/// Adds to `out` the leaves (scalars and headers) that storing `val` in `target` would copy from a
/// different position. Such a copy can read a leaf that an earlier part of it has overwritten.
fn collect_misplaced(target: &Storage, val: &RValue, out: &mut HashSet<StorageLeaf>) {
    match val {
        RValue::Ref(src) => {
            let (mut source_leaves, mut target_leaves) = (Vec::new(), Vec::new());
            src.for_each_leaf(&mut |leaf| source_leaves.push(leaf));
            target.for_each_leaf(&mut |leaf| target_leaves.push(leaf));
            if source_leaves != target_leaves {
                out.extend(source_leaves);
            }
        }
        RValue::Struct(parts) | RValue::Header(parts) | RValue::Stack(parts, _) => {
            for (n, part) in parts.iter().enumerate() {
                match target.part(n) {
                    Some(target) => collect_misplaced(target, part, out),
                    None => collect_misplaced(&Storage::Nothing, part, out),
                }
            }
        }
        _ => {}
    }
}
