//! Types: substitution of type parameters, and the shape that a type's values are stored in.

use super::lowering::{Lower, MAX_VARS, Res};
use super::shape::{Member, Shape};
use crate::ast::StructKind;
use crate::hir::{self, Ty, TyKind, Types};
use crate::span::Span;
use ir::{HeaderField, Type};
use std::collections::HashMap;
use std::rc::Rc;

/// How deep types nest. Deeper ones count as too large for storage, so that whoever walks a type's parts recurses no deeper.
const MAX_TYPE_DEPTH: usize = 128;

impl Lower<'_> {
    /// The type with the type parameters in scope replaced.
    pub(super) fn ty(&mut self, ty: Ty) -> Ty {
        if self.subst.is_empty() {
            return ty;
        }
        let subst = Rc::clone(&self.subst);
        self.replace(ty, &subst)
    }

    /// The type with type parameters replaced.
    pub(super) fn replace(&mut self, ty: Ty, subst: &HashMap<hir::TypeParamId, Ty>) -> Ty {
        if subst.is_empty() || self.type_depth >= MAX_TYPE_DEPTH {
            return ty;
        }
        self.type_depth += 1;
        let replaced = self.replace_parts(ty, subst);
        self.type_depth -= 1;
        replaced
    }

    fn replace_parts(&mut self, ty: Ty, subst: &HashMap<hir::TypeParamId, Ty>) -> Ty {
        let kind = match self.types.kind(ty).clone() {
            TyKind::Param(param) => return subst.get(&param).copied().unwrap_or(ty),
            TyKind::Struct(id, args) if !args.is_empty() => TyKind::Struct(id, self.replace_all(&args, subst)),
            TyKind::Extern(id, args) if !args.is_empty() => TyKind::Extern(id, self.replace_all(&args, subst)),
            TyKind::Object(id, args) if !args.is_empty() => TyKind::Object(id, self.replace_all(&args, subst)),
            TyKind::Tuple(args) => TyKind::Tuple(self.replace_all(&args, subst)),
            TyKind::Stack(of, size) => TyKind::Stack(self.replace(of, subst), size),
            TyKind::List(of) => TyKind::List(self.replace(of, subst)),
            TyKind::Set(of) => TyKind::Set(self.replace(of, subst)),
            _ => return ty,
        };
        self.types.intern(kind)
    }

    fn replace_all(&mut self, tys: &[Ty], subst: &HashMap<hir::TypeParamId, Ty>) -> Vec<Ty> {
        tys.iter().map(|t| self.replace(*t, subst)).collect()
    }

    /// A substitution of parameters by arguments, which are in terms of the scope.
    pub(super) fn substitution(&mut self, params: &[hir::TypeParamId], args: &[Ty]) -> HashMap<hir::TypeParamId, Ty> {
        params.iter().zip(args).map(|(param, arg)| (*param, self.ty(*arg))).collect()
    }

    /// The shape of a type's values.
    pub(super) fn shape(&mut self, ty: Ty) -> Shape {
        let ty = self.ty(ty);
        if let Some(shape) = self.shapes.get(&ty) {
            return shape.clone();
        }
        let shape = self.make_shape(ty);
        self.shapes.insert(ty, shape.clone());
        shape
    }

    fn make_shape(&mut self, ty: Ty) -> Shape {
        match self.types.kind(ty).clone() {
            TyKind::Bool => Shape::Scalar(Type::Bool),
            TyKind::Bit(w) => Shape::Scalar(Type::Bit(w)),
            TyKind::Int(w) => Shape::Scalar(Type::Int(w)),
            TyKind::Varbit(w) => Shape::Scalar(Type::Varbit(w)),
            TyKind::Error => Shape::Scalar(Type::Error),
            TyKind::Enum(id) => match self.hir.enums[id.index()].underlying {
                Some(of) => self.shape(of),
                None => Shape::Scalar(Type::Enum(self.enum_id(id))),
            },
            TyKind::NewType(_) => {
                let of = self.behind_new_types(ty);
                self.shape(of)
            }
            TyKind::Struct(id, args) => self.struct_shape(id, &args),
            TyKind::Tuple(tys) => {
                let member = |(n, ty): (usize, &Ty)| Member { name: format!("f{n}").into(), ty: *ty };
                Shape::Struct(tys.iter().enumerate().map(member).collect())
            }
            TyKind::Stack(of, size) => Shape::Stack(of, size),
            TyKind::List(of) => Shape::List(of),
            TyKind::InfInt | TyKind::Str | TyKind::MatchKind => Shape::Known,
            TyKind::Void => Shape::Void,
            TyKind::Set(of) => self.shape(of),
            _ => Shape::Opaque,
        }
    }

    /// What a chain of `type` declarations stands for.
    pub(super) fn behind_new_types(&self, mut ty: Ty) -> Ty {
        while let TyKind::NewType(id) = self.types.kind(ty) {
            ty = self.hir.newtypes[id.index()].of;
        }
        ty
    }

    fn struct_shape(&mut self, id: hir::StructId, args: &[Ty]) -> Shape {
        let decl = &self.hir.structs[id.index()];
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let fields = decl.fields.iter();
        let members: Rc<[Member]> =
            fields.map(|f| Member { name: f.name.clone(), ty: self.replace(f.ty, &subst) }).collect();
        match decl.kind {
            StructKind::Struct => Shape::Struct(members),
            StructKind::HeaderUnion => Shape::Union(members),
            StructKind::Header => {
                let mut fields = Vec::new();
                self.header_fields("", &members, &mut fields);
                let mut name = decl.name.to_string();
                if !args.is_empty() {
                    let known = self.p.header_types.values().filter(|t| t.name.starts_with(&name)).count();
                    name = format!("{name}_{known}");
                }
                Shape::Header(self.p.header_types.push(ir::HeaderType { name, fields }), members)
            }
        }
    }

    /// Fields of a header in wire order, those of structs in it with dotted names.
    fn header_fields(&mut self, prefix: &str, members: &[Member], out: &mut Vec<HeaderField>) {
        for member in members {
            if self.is_too_large(member.ty) {
                continue;
            }
            let name = format!("{prefix}{}", member.name);
            match self.shape(member.ty) {
                Shape::Scalar(ty) => out.push(HeaderField { name, ty }),
                Shape::Struct(inner) => self.header_fields(&format!("{name}."), &inner, out),
                _ => {}
            }
        }
    }

    fn enum_id(&mut self, id: hir::EnumId) -> ir::EnumId {
        if let Some(known) = self.enums.get(&id) {
            return *known;
        }
        let decl = &self.hir.enums[id.index()];
        let members = decl.members.iter().map(|(name, _)| name.to_string()).collect();
        let new = self.p.enums.push(ir::Enum { name: decl.name.to_string(), members });
        self.enums.insert(id, new);
        new
    }

    /// The IR type of a scalar type.
    pub(super) fn scalar(&mut self, ty: Ty, span: Span) -> Res<Type> {
        match self.shape(ty) {
            Shape::Scalar(ty) => Ok(ty),
            _ => self.unsupported(span, "a value of this type here, where a scalar is needed"),
        }
    }

    /// The scalar types that a type's values consist of, without validities.
    pub(super) fn leaves(&mut self, ty: Ty, out: &mut Vec<Type>) {
        if self.is_too_large(ty) {
            return;
        }
        match self.shape(ty) {
            Shape::Scalar(ty) => out.push(ty),
            Shape::Struct(members) | Shape::Header(_, members) | Shape::Union(members) => {
                members.iter().for_each(|m| self.leaves(m.ty, out));
            }
            Shape::Stack(of, size) => (0..size).for_each(|_| self.leaves(of, out)),
            Shape::List(_) | Shape::Known | Shape::Void | Shape::Opaque => {}
        }
    }

    /// How many variables a type's storage takes, at least one for each part. Types that name a type twice which names a type
    /// twice ... are exponentially large: whoever walks a type's parts asks here first.
    pub(super) fn storage_size(&mut self, ty: Ty) -> usize {
        let ty = self.ty(ty);
        if let Some((size, _)) = self.sizes.get(&ty) {
            return *size;
        }
        self.measure(ty).0
    }

    /// Whether a type is too large to have storage.
    pub(super) fn is_too_large(&mut self, ty: Ty) -> bool {
        self.storage_size(ty) > MAX_VARS
    }

    /// Whether values of the type hold headers: such values live in storage.
    pub(super) fn has_headers(&mut self, ty: Ty) -> bool {
        let ty = self.ty(ty);
        if let Some((_, headers)) = self.sizes.get(&ty) {
            return *headers;
        }
        self.measure(ty).1
    }

    fn measure(&mut self, ty: Ty) -> (usize, bool) {
        if self.type_depth >= MAX_TYPE_DEPTH {
            return (usize::MAX, false);
        }
        self.type_depth += 1;
        let measured = self.measure_parts(ty);
        self.type_depth -= 1;
        self.sizes.insert(ty, measured);
        measured
    }

    fn measure_parts(&mut self, ty: Ty) -> (usize, bool) {
        let mut headers = false;
        let size = match self.shape(ty) {
            Shape::Scalar(_) => 1,
            shape @ (Shape::Struct(_) | Shape::Header(..) | Shape::Union(_)) => {
                headers = !matches!(shape, Shape::Struct(_));
                let (Shape::Struct(members) | Shape::Header(_, members) | Shape::Union(members)) = shape else {
                    return (0, false);
                };
                members.iter().fold(1, |sum: usize, m| {
                    headers |= self.has_headers(m.ty);
                    sum.saturating_add(self.storage_size(m.ty))
                })
            }
            Shape::Stack(of, size) => {
                headers = true;
                self.storage_size(of).saturating_mul(size as usize)
            }
            _ => 0,
        };
        (size, headers)
    }

    /// The sizes of the specification's section "Reading type sizes": least and greatest, in bits.
    pub(super) fn size_in_bits(&mut self, ty: Ty) -> (u64, u64) {
        if self.is_too_large(ty) {
            return (0, 0);
        }
        match self.shape(ty) {
            Shape::Scalar(Type::Varbit(w)) => (0, w.into()),
            Shape::Scalar(ty) => (ty.width().into(), ty.width().into()),
            Shape::Struct(members) | Shape::Header(_, members) => members.iter().fold((0, 0), |(lo, hi), m| {
                let (a, b) = self.size_in_bits(m.ty);
                (lo + a, hi + b)
            }),
            Shape::Union(members) => {
                let sizes: Vec<_> = members.iter().map(|m| self.size_in_bits(m.ty)).collect();
                let least = sizes.iter().map(|s| s.0).min().unwrap_or(0);
                (least, sizes.iter().map(|s| s.1).max().unwrap_or(0))
            }
            Shape::Stack(of, size) => {
                let (lo, hi) = self.size_in_bits(of);
                (lo * u64::from(size), hi * u64::from(size))
            }
            _ => (0, 0),
        }
    }

    /// Name of the `type` or enumeration that a type is in the program, for P4Info.
    pub(super) fn type_name(&mut self, ty: Ty) -> Option<String> {
        let ty = self.ty(ty);
        match self.types.kind(ty) {
            TyKind::NewType(id) => Some(self.hir.newtypes[id.index()].name.to_string()),
            TyKind::Enum(id) => Some(self.hir.enums[id.index()].name.to_string()),
            _ => None,
        }
    }

    /// Whether the type is arbitrary-precision `int`.
    pub(super) fn is_inf_int(&self, ty: Ty) -> bool {
        ty == Types::INT
    }
}
