//! How values get from and to storage, and from one type to another.
//!
//! A reference to storage ([`Val::Ref`]) holds until the next evaluation that may have side effects, so whoever evaluates
//! more first takes a [`Lower::snapshot`].

use super::lowering::{Lower, Res};
use super::place::{Leaf, Place, header_id, union_members};
use super::shape::Shape;
use super::value::{Val, holds_reference, wrap};
use crate::hir::Ty;
use crate::span::Span;
use ir::{BinaryOp, Const, HeaderId, Type, Value};
use num_bigint::BigInt;
use std::collections::HashSet;
use std::rc::Rc;

impl Lower<'_> {
    /// A constant of a scalar type.
    pub(super) fn constant(&mut self, ty: Type, value: &BigInt) -> Value {
        let bits = wrap(value, ty.width());
        self.b.constant(Const::new(ty, bits))
    }

    /// The zero of a scalar type.
    pub(super) fn zero(&mut self, ty: Type) -> Value {
        self.b.constant(Const::new(ty, 0u8))
    }

    /// A scalar.
    pub(super) fn scalar_value(&mut self, val: Val, ty: Ty, span: Span) -> Res<Value> {
        match val {
            Val::Scalar(value) => Ok(value),
            Val::Int(n) => {
                // An `int` that meets no type with a width: the least that holds it.
                let ty = match self.shape(ty) {
                    Shape::Scalar(ty) => ty,
                    _ => Type::Bit(u32::try_from(n.bits()).unwrap_or(u32::MAX).clamp(32, ir::MAX_WIDTH)),
                };
                Ok(self.constant(ty, &n))
            }
            _ => self.unsupported(span, "a value of this type here, where a scalar is needed"),
        }
    }

    /// The value in storage.
    pub(super) fn read(&mut self, place: &Place) -> Val {
        match place {
            Place::Scalar(var) => Val::Scalar(self.b.load(&self.p, *var)),
            Place::Struct(parts) => Val::Struct(parts.iter().map(|p| self.read(p)).collect()),
            Place::Nothing => Val::Void,
            place => Val::Ref(place.clone()),
        }
    }

    /// The default value of a type: zero, invalid, the first member of an enumeration.
    pub(super) fn default_value(&mut self, ty: Ty) -> Val {
        if self.is_too_large(ty) {
            return Val::Void;
        }
        match self.shape(ty) {
            Shape::Scalar(ty) => Val::Scalar(self.zero(ty)),
            Shape::Struct(members) => Val::Struct(members.iter().map(|m| self.default_value(m.ty)).collect()),
            Shape::Header(..) | Shape::Union(_) => Val::Invalid(ty),
            Shape::Stack(of, size) => Val::Stack((0..size).map(|_| Val::Invalid(of)).collect(), ty),
            Shape::Known if self.is_inf_int(ty) => Val::Int(BigInt::default()),
            Shape::Known => Val::Text("".into()),
            Shape::List(_) => Val::Struct(Rc::default()),
            Shape::Void | Shape::Opaque => Val::Void,
        }
    }

    /// Part number `n` of a value.
    pub(super) fn part(&mut self, val: &Val, n: usize) -> Val {
        match val {
            Val::Struct(parts) | Val::Header(parts) | Val::Stack(parts, _) => {
                parts.get(n).cloned().unwrap_or(Val::Void)
            }
            Val::Ref(place) => match place.part(n).cloned() {
                Some(part) => self.read(&part),
                None => Val::Void,
            },
            Val::Invalid(ty) => match self.shape(*ty) {
                Shape::Header(_, members) | Shape::Union(members) => {
                    members.get(n).map_or(Val::Void, |m| self.default_value(m.ty))
                }
                _ => Val::Void,
            },
            _ => Val::Void,
        }
    }

    /// Stores a value. References in `val` must not be to parts of `place` other than at the same position
    /// ([`Lower::assign`] sees to that).
    pub(super) fn store(&mut self, place: &Place, val: &Val, span: Span) -> Res<()> {
        match (place, val) {
            (Place::Nothing, _) | (_, Val::Void) => {}
            (Place::Scalar(var), Val::Scalar(value)) => self.b.store(*var, *value),
            (Place::Scalar(var), Val::Int(n)) => {
                let ty = self.p.vars[*var].ty;
                let value = self.constant(ty, n);
                self.b.store(*var, value);
            }
            (Place::Struct(parts), Val::Struct(vals)) => {
                for (part, val) in parts.iter().zip(vals.iter()) {
                    self.store(part, val, span)?;
                }
            }
            (Place::Header { id, fields }, Val::Header(vals)) => {
                self.b.set_valid(*id);
                for (part, val) in fields.iter().zip(vals.iter()) {
                    self.store(part, val, span)?;
                }
            }
            (place, Val::Invalid(_)) => self.invalidate(place),
            (Place::Header { id, .. }, Val::Ref(src)) => {
                self.copy_to_header(*id, place, src);
            }
            (place, Val::Ref(src)) => self.copy(place, src),
            (Place::Stack { elems, next, .. }, Val::Stack(vals, _)) => {
                for (part, val) in elems.iter().zip(vals.iter()) {
                    self.store(part, val, span)?;
                }
                let zero = self.b.bits(32, 0u8);
                self.b.store(*next, zero);
            }
            _ => return self.unsupported(span, "copying a value of this type"),
        }
        Ok(())
    }

    /// Copies between storage of headers, stacks or unions.
    fn copy(&mut self, dst: &Place, src: &Place) {
        match (dst, src) {
            (Place::Header { id: dst, .. }, Place::Header { id: src, .. }) if dst == src => {}
            (Place::Header { id: dst, .. }, Place::Header { id: src, .. }) => self.b.copy_header(*dst, *src),
            (Place::Stack { elems, next, .. }, Place::Stack { elems: src_elems, next: src_next, .. }) => {
                elems.iter().zip(src_elems.iter()).for_each(|(d, s)| self.copy(d, s));
                let value = self.b.load(&self.p, *src_next);
                self.b.store(*next, value);
            }
            (Place::Union { members, .. }, Place::Union { members: src, .. }) => {
                members.iter().zip(src.iter()).for_each(|(d, s)| self.copy(d, s));
            }
            _ => {}
        }
    }

    /// Copies to a header. If it is a member of a union, an invalid source makes all of the union invalid (specification,
    /// "Operations on header unions"); a valid one makes the other members invalid by itself.
    fn copy_to_header(&mut self, id: HeaderId, place: &Place, src: &Place) {
        let members = union_members(&self.p, id).to_vec();
        match header_id(src) {
            Some(src_id) if members.contains(&src_id) => {
                let [valid, invalid, join] = [(); 3].map(|()| self.b.create_block());
                let is_valid = self.b.is_valid(src_id);
                self.b.branch(is_valid, valid, invalid);
                self.b.switch_to(valid);
                self.copy(place, src);
                self.b.jump(join);
                self.b.switch_to(invalid);
                members.into_iter().for_each(|member| self.b.set_invalid(member));
                self.b.jump(join);
                self.b.switch_to(join);
            }
            _ => {
                self.invalidate_siblings(id);
                self.copy(place, src);
            }
        }
    }

    /// Makes the other members of a header's union invalid.
    fn invalidate_siblings(&mut self, header: HeaderId) {
        let members = union_members(&self.p, header).to_vec();
        members.into_iter().filter(|member| *member != header).for_each(|member| self.b.set_invalid(member));
    }

    /// Makes the headers invalid, of a union's member all of the union; nothing happens to
    /// scalars.
    pub(super) fn invalidate(&mut self, place: &Place) {
        match place {
            Place::Header { id, .. } => {
                self.b.set_invalid(*id);
                self.invalidate_siblings(*id);
            }
            Place::Union { members } => {
                members.iter().filter_map(header_id).for_each(|member| self.b.set_invalid(member));
            }
            Place::Struct(parts) => parts.iter().for_each(|p| self.invalidate(p)),
            Place::Stack { elems, next, .. } => {
                elems.iter().for_each(|p| self.invalidate(p));
                let zero = self.b.bits(32, 0u8);
                self.b.store(*next, zero);
            }
            Place::Scalar(_) | Place::Nothing => {}
        }
    }

    /// Sets scalars to zero and headers to invalid.
    pub(super) fn clear(&mut self, place: &Place) {
        match place {
            Place::Scalar(var) => {
                let zero = self.zero(self.p.vars[*var].ty);
                self.b.store(*var, zero);
            }
            Place::Struct(parts) => parts.iter().for_each(|p| self.clear(p)),
            place => self.invalidate(place),
        }
    }

    /// A value that later side effects do not change: what it refers to is copied.
    pub(super) fn snapshot(&mut self, val: Val, ty: Ty, span: Span) -> Res<Val> {
        Ok(match val {
            Val::Ref(_) => Val::Ref(self.materialise(&val, ty, span)?),
            Val::Struct(parts) if parts.iter().any(holds_reference) => {
                let types: Vec<Ty> = match self.shape(ty) {
                    Shape::Struct(members) => members.iter().map(|m| m.ty).collect(),
                    Shape::List(of) => vec![of; parts.len()],
                    _ => return self.unsupported(span, "copying a value of this type"),
                };
                let parts = parts.iter().zip(types).map(|(part, ty)| self.snapshot(part.clone(), ty, span));
                Val::Struct(parts.collect::<Res<Vec<Val>>>()?.into())
            }
            Val::Stack(parts, stack) if parts.iter().any(holds_reference) => {
                let Shape::Stack(of, _) = self.shape(stack) else { return Ok(Val::Stack(parts, stack)) };
                let parts = parts.iter().map(|part| self.snapshot(part.clone(), of, span));
                Val::Stack(parts.collect::<Res<Vec<Val>>>()?.into(), stack)
            }
            val => val,
        })
    }

    /// Puts a value into storage of its own.
    pub(super) fn materialise(&mut self, val: &Val, ty: Ty, span: Span) -> Res<Place> {
        let place = self.temporary("tmp", ty, span)?;
        self.store(&place, val, span)?;
        Ok(place)
    }

    /// Assigns, also if the value refers to parts of the place.
    pub(super) fn assign(&mut self, place: &Place, val: Val, ty: Ty, span: Span) -> Res<()> {
        let mut sources = HashSet::new();
        misplaced(place, &val, &mut sources);
        let val = if !sources.is_empty() && place.leaves(&self.p).iter().any(|leaf| sources.contains(leaf)) {
            self.snapshot(val, ty, span)?
        } else {
            val
        };
        self.store(place, &val, span)
    }

    /// The scalars that a value consists of, in order, without validities.
    pub(super) fn flatten(&mut self, val: &Val, ty: Ty, span: Span, out: &mut Vec<Value>) -> Res<()> {
        match val {
            Val::Scalar(value) => out.push(*value),
            Val::Int(_) => out.push(self.scalar_value(val.clone(), ty, span)?),
            Val::Struct(parts) | Val::Header(parts) | Val::Stack(parts, _) => {
                for (n, part) in parts.iter().enumerate() {
                    let ty = self.member_type(ty, n);
                    self.flatten(part, ty, span, out)?;
                }
            }
            Val::Ref(place) => {
                for var in place.vars() {
                    out.push(self.b.load(&self.p, var));
                }
            }
            Val::Invalid(ty) => {
                let mut types = Vec::new();
                self.leaves(*ty, &mut types);
                out.extend(types.into_iter().map(|ty| self.zero(ty)).collect::<Vec<_>>());
            }
            Val::Void => {}
            Val::Text(_) | Val::Object => return self.unsupported(span, "a value of this type among packet data"),
        }
        Ok(())
    }

    /// Type of part number `n`.
    pub(super) fn member_type(&mut self, ty: Ty, n: usize) -> Ty {
        match self.shape(ty) {
            Shape::Struct(members) | Shape::Header(_, members) | Shape::Union(members) => {
                members.get(n).map_or(crate::hir::Types::VOID, |m| m.ty)
            }
            Shape::Stack(of, _) | Shape::List(of) => of,
            _ => ty,
        }
    }

    /// Builds a value of the type out of scalars in order; headers are valid.
    pub(super) fn unflatten(&mut self, ty: Ty, values: &mut dyn Iterator<Item = Value>) -> Val {
        match self.shape(ty) {
            Shape::Scalar(_) => values.next().map_or(Val::Void, Val::Scalar),
            Shape::Struct(members) => Val::Struct(members.iter().map(|m| self.unflatten(m.ty, values)).collect()),
            Shape::Header(_, members) => Val::Header(members.iter().map(|m| self.unflatten(m.ty, values)).collect()),
            Shape::Stack(of, size) => Val::Stack((0..size).map(|_| self.unflatten(of, values)).collect(), ty),
            _ => Val::Void,
        }
    }

    /// Whether a header is valid, or some member of a union.
    pub(super) fn validity(&mut self, val: &Val) -> Value {
        match val {
            Val::Ref(Place::Header { id, .. }) => self.b.is_valid(*id),
            Val::Ref(Place::Union { members, .. }) => {
                let ids: Vec<HeaderId> = members.iter().filter_map(header_id).collect();
                let mut any = None;
                for id in ids {
                    let valid = self.b.is_valid(id);
                    any = Some(any.map_or(valid, |any| self.b.binary(BinaryOp::Or, any, valid)));
                }
                any.unwrap_or_else(|| self.b.bool(false))
            }
            Val::Header(..) => self.b.bool(true),
            _ => self.b.bool(false),
        }
    }

    /// `a == b` for values of one type.
    pub(super) fn equal(&mut self, a: &Val, b: &Val, ty: Ty, span: Span) -> Res<Value> {
        match self.shape(ty) {
            Shape::Scalar(_) => {
                let a = self.scalar_value(a.clone(), ty, span)?;
                let b = self.scalar_value(b.clone(), ty, span)?;
                Ok(self.b.eq(a, b))
            }
            Shape::Header(_, members) => {
                let (va, vb) = (self.validity(a), self.validity(b));
                let same = self.b.eq(va, vb);
                // Fields of invalid headers read as zero, so two invalid ones are equal in them too.
                self.equal_parts(a, b, members.iter().map(|m| m.ty).collect(), Some(same), span)
            }
            Shape::Struct(members) | Shape::Union(members) => {
                self.equal_parts(a, b, members.iter().map(|m| m.ty).collect(), None, span)
            }
            Shape::Stack(of, size) => self.equal_parts(a, b, vec![of; size as usize], None, span),
            Shape::List(of) => {
                let len = if let Val::Struct(parts) = a { parts.len() } else { 0 };
                self.equal_parts(a, b, vec![of; len], None, span)
            }
            _ => match (a, b) {
                (Val::Int(a), Val::Int(b)) => Ok(self.b.bool(a == b)),
                (Val::Text(a), Val::Text(b)) => Ok(self.b.bool(a == b)),
                _ => self.unsupported(span, "comparing values of this type"),
            },
        }
    }

    fn equal_parts(&mut self, a: &Val, b: &Val, types: Vec<Ty>, first: Option<Value>, span: Span) -> Res<Value> {
        let mut all = first;
        for (n, ty) in types.into_iter().enumerate() {
            let (a, b) = (self.part(a, n), self.part(b, n));
            let same = self.equal(&a, &b, ty, span)?;
            all = Some(all.map_or(same, |all| self.b.binary(BinaryOp::And, all, same)));
        }
        Ok(all.unwrap_or_else(|| self.b.bool(true)))
    }
}

/// The headers that storing `val` would copy from other positions than their own.
fn misplaced(place: &Place, val: &Val, out: &mut HashSet<Leaf>) {
    match val {
        Val::Ref(src) => {
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            src.for_each_leaf(&mut |leaf| theirs.push(leaf));
            place.for_each_leaf(&mut |leaf| ours.push(leaf));
            if theirs != ours {
                out.extend(theirs);
            }
        }
        Val::Struct(parts) | Val::Header(parts) | Val::Stack(parts, _) => {
            for (n, part) in parts.iter().enumerate() {
                match place.part(n) {
                    Some(place) => misplaced(place, part, out),
                    None => misplaced(&Place::Nothing, part, out),
                }
            }
        }
        _ => {}
    }
}
