//! Substitutes type parameters and computes the layout of types.

use super::lowering::{LowerResult, Lowering, MAX_VARS};
use super::type_layout::{LayoutMember, TypeLayout};
use crate::ast::StructKind;
use crate::hir::{self, Ty, TyKind, Types};
use crate::span::Span;
use ir::{HeaderField, Type};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum nesting of types. Deeper types count as too large for storage, which limits the
/// recursion of type walks.
const MAX_TYPE_DEPTH: usize = 128;

impl Lowering<'_> {
    /// Substitutes the type parameters in scope.
    pub(super) fn substitute_scope_params(&mut self, ty: Ty) -> Ty {
        if self.subst.is_empty() {
            return ty;
        }
        let subst = Rc::clone(&self.subst);
        self.substitute_params(ty, &subst)
    }

    /// Substitutes type parameters in the type.
    pub(super) fn substitute_params(&mut self, ty: Ty, subst: &HashMap<hir::TypeParamId, Ty>) -> Ty {
        if subst.is_empty() || self.type_depth >= MAX_TYPE_DEPTH {
            return ty;
        }
        self.type_depth += 1;
        let replaced = self.substitute_parts(ty, subst);
        self.type_depth -= 1;
        replaced
    }

    fn substitute_parts(&mut self, ty: Ty, subst: &HashMap<hir::TypeParamId, Ty>) -> Ty {
        let kind = match self.types.kind(ty).clone() {
            TyKind::Param(param) => return subst.get(&param).copied().unwrap_or(ty),
            TyKind::Struct(id, args) if !args.is_empty() => TyKind::Struct(id, self.substitute_all(&args, subst)),
            TyKind::Extern(id, args) if !args.is_empty() => TyKind::Extern(id, self.substitute_all(&args, subst)),
            TyKind::Object(id, args) if !args.is_empty() => TyKind::Object(id, self.substitute_all(&args, subst)),
            TyKind::Tuple(args) => TyKind::Tuple(self.substitute_all(&args, subst)),
            TyKind::Stack(of, size) => TyKind::Stack(self.substitute_params(of, subst), size),
            TyKind::List(of) => TyKind::List(self.substitute_params(of, subst)),
            TyKind::Set(of) => TyKind::Set(self.substitute_params(of, subst)),
            _ => return ty,
        };
        self.types.intern(kind)
    }

    fn substitute_all(&mut self, tys: &[Ty], subst: &HashMap<hir::TypeParamId, Ty>) -> Vec<Ty> {
        tys.iter().map(|t| self.substitute_params(*t, subst)).collect()
    }

    /// Builds a substitution of parameters by arguments, which are resolved in the current scope.
    pub(super) fn substitution(&mut self, params: &[hir::TypeParamId], args: &[Ty]) -> HashMap<hir::TypeParamId, Ty> {
        params.iter().zip(args).map(|(param, arg)| (*param, self.substitute_scope_params(*arg))).collect()
    }

    /// Returns the layout of a type's values.
    pub(super) fn layout(&mut self, ty: Ty) -> TypeLayout {
        let ty = self.substitute_scope_params(ty);
        if let Some(shape) = self.layouts.get(&ty) {
            return shape.clone();
        }
        let shape = self.build_layout(ty);
        self.layouts.insert(ty, shape.clone());
        shape
    }

    /// Returns the structure of the values of a type, without type parameters: an enum with an
    /// underlying type, or a new type, has the layout of the type behind it. Headers and enums are
    /// declared in the pipeline on first use.
    fn build_layout(&mut self, ty: Ty) -> TypeLayout {
        match self.types.kind(ty).clone() {
            TyKind::Bool => TypeLayout::Scalar(Type::Bool),
            TyKind::Bit(width) => TypeLayout::Scalar(Type::Bit(width)),
            TyKind::Int(width) => TypeLayout::Scalar(Type::Int(width)),
            TyKind::Varbit(width) => TypeLayout::Scalar(Type::Varbit(width)),
            TyKind::Error => TypeLayout::Scalar(Type::Error),
            TyKind::Enum(id) => match self.hir.enums[id.index()].underlying {
                Some(inner) => self.layout(inner),
                None => TypeLayout::Scalar(Type::Enum(self.declare_enum(id))),
            },
            TyKind::NewType(_) => {
                let inner = self.behind_new_types(ty);
                self.layout(inner)
            }
            TyKind::Struct(id, args) => self.struct_layout(id, &args),
            TyKind::Tuple(tys) => {
                let member = |(n, ty): (usize, &Ty)| LayoutMember { name: format!("f{n}").into(), ty: *ty };
                TypeLayout::Struct(tys.iter().enumerate().map(member).collect())
            }
            TyKind::Stack(inner, size) => TypeLayout::Stack(inner, size),
            TyKind::List(inner) => TypeLayout::List(inner),
            TyKind::InfInt | TyKind::Str | TyKind::MatchKind => TypeLayout::CompileTime,
            TyKind::Void => TypeLayout::Void,
            TyKind::Set(inner) => self.layout(inner),
            _ => TypeLayout::Opaque,
        }
    }

    /// Returns the underlying type of a chain of `type` declarations.
    pub(super) fn behind_new_types(&self, mut ty: Ty) -> Ty {
        while let TyKind::NewType(id) = self.types.kind(ty) {
            ty = self.hir.newtypes[id.index()].of;
        }
        ty
    }

    /// Returns the layout of struct `id` with the type arguments `args`. A generic header is
    /// declared once for each list of arguments, with a number after its name.
    fn struct_layout(&mut self, id: hir::StructId, args: &[Ty]) -> TypeLayout {
        let decl = &self.hir.structs[id.index()];
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let fields = decl.fields.iter();
        let members: Rc<[LayoutMember]> =
            fields.map(|f| LayoutMember { name: f.name.clone(), ty: self.substitute_params(f.ty, &subst) }).collect();
        match decl.kind {
            StructKind::Struct => TypeLayout::Struct(members),
            StructKind::HeaderUnion => TypeLayout::Union(members),
            StructKind::Header => {
                let mut fields = Vec::new();
                self.header_fields("", &members, &mut fields);
                let mut name = decl.name.to_string();
                if !args.is_empty() {
                    let instances = self.pipeline.header_types.values().filter(|t| t.name.starts_with(&name)).count();
                    name = format!("{name}_{instances}");
                }
                TypeLayout::Header(self.pipeline.header_types.push(ir::HeaderType { name, fields }), members)
            }
        }
    }

    /// Appends the fields of a header in wire order. Fields of nested structs have dotted names.
    fn header_fields(&mut self, prefix: &str, members: &[LayoutMember], out: &mut Vec<HeaderField>) {
        for member in members {
            if self.is_too_large(member.ty) {
                continue;
            }
            let name = format!("{prefix}{}", member.name);
            match self.layout(member.ty) {
                TypeLayout::Scalar(ty) => out.push(HeaderField { name, ty }),
                TypeLayout::Struct(inner) => self.header_fields(&format!("{name}."), &inner, out),
                _ => {}
            }
        }
    }

    fn declare_enum(&mut self, id: hir::EnumId) -> ir::EnumId {
        if let Some(known) = self.enums.get(&id) {
            return *known;
        }
        let decl = &self.hir.enums[id.index()];
        let members = decl.members.iter().map(|(name, _)| name.to_string()).collect();
        let new = self.pipeline.enums.push(ir::Enum { name: decl.name.to_string(), members });
        self.enums.insert(id, new);
        new
    }

    /// Returns the IR type of a scalar type.
    pub(super) fn scalar_type(&mut self, ty: Ty, span: Span) -> LowerResult<Type> {
        match self.layout(ty) {
            TypeLayout::Scalar(ty) => Ok(ty),
            _ => self.unsupported(span, "a value of this type here, where a scalar is needed"),
        }
    }

    /// Appends the scalar types in a type's values, without validity bits.
    pub(super) fn append_scalar_types(&mut self, ty: Ty, out: &mut Vec<Type>) {
        if self.is_too_large(ty) {
            return;
        }
        match self.layout(ty) {
            TypeLayout::Scalar(ty) => out.push(ty),
            TypeLayout::Struct(members) | TypeLayout::Header(_, members) | TypeLayout::Union(members) => {
                members.iter().for_each(|m| self.append_scalar_types(m.ty, out));
            }
            TypeLayout::Stack(of, size) => (0..size).for_each(|_| self.append_scalar_types(of, out)),
            TypeLayout::List(_) | TypeLayout::CompileTime | TypeLayout::Void | TypeLayout::Opaque => {}
        }
    }

    /// Returns the number of variables in the storage of a type, at least one per part. Walks over
    /// a type's parts must check it first, because types can have exponential size.
    pub(super) fn storage_size(&mut self, ty: Ty) -> usize {
        let ty = self.substitute_scope_params(ty);
        if let Some((size, _)) = self.storage_sizes.get(&ty) {
            return *size;
        }
        self.measure_storage(ty).0
    }

    /// Returns whether a type is too large for storage.
    pub(super) fn is_too_large(&mut self, ty: Ty) -> bool {
        self.storage_size(ty) > MAX_VARS
    }

    /// Returns whether values of the type contain headers. Such values are held in storage.
    pub(super) fn has_headers(&mut self, ty: Ty) -> bool {
        let ty = self.substitute_scope_params(ty);
        if let Some((_, headers)) = self.storage_sizes.get(&ty) {
            return *headers;
        }
        self.measure_storage(ty).1
    }

    fn measure_storage(&mut self, ty: Ty) -> (usize, bool) {
        if self.type_depth >= MAX_TYPE_DEPTH {
            return (usize::MAX, false);
        }
        self.type_depth += 1;
        let measured = self.measure_storage_parts(ty);
        self.type_depth -= 1;
        self.storage_sizes.insert(ty, measured);
        measured
    }

    /// Returns the number of storage units (scalars, plus one for each struct or header) of a
    /// value, and whether it contains headers.
    fn measure_storage_parts(&mut self, ty: Ty) -> (usize, bool) {
        let mut has_headers_inside = false;
        let size = match self.layout(ty) {
            TypeLayout::Scalar(_) => 1,
            aggregate @ (TypeLayout::Struct(_) | TypeLayout::Header(..) | TypeLayout::Union(_)) => {
                has_headers_inside = !matches!(aggregate, TypeLayout::Struct(_));
                let (TypeLayout::Struct(members) | TypeLayout::Header(_, members) | TypeLayout::Union(members)) =
                    aggregate
                else {
                    return (0, false);
                };
                members.iter().fold(1, |sum: usize, m| {
                    has_headers_inside |= self.has_headers(m.ty);
                    sum.saturating_add(self.storage_size(m.ty))
                })
            }
            TypeLayout::Stack(element_ty, size) => {
                has_headers_inside = true;
                self.storage_size(element_ty).saturating_mul(size as usize)
            }
            _ => 0,
        };
        (size, has_headers_inside)
    }

    /// Returns the minimum and maximum size in bits (specification, section "Reading type sizes").
    /// Types without a size give 0.
    pub(super) fn size_in_bits(&mut self, ty: Ty) -> (u64, u64) {
        if self.is_too_large(ty) {
            return (0, 0);
        }
        match self.layout(ty) {
            TypeLayout::Scalar(Type::Varbit(width)) => (0, width.into()),
            TypeLayout::Scalar(ty) => (ty.width().into(), ty.width().into()),
            TypeLayout::Struct(members) | TypeLayout::Header(_, members) => {
                members.iter().fold((0, 0), |(lo, hi), m| {
                    let (a, b) = self.size_in_bits(m.ty);
                    (lo + a, hi + b)
                })
            }
            TypeLayout::Union(members) => {
                let sizes: Vec<_> = members.iter().map(|m| self.size_in_bits(m.ty)).collect();
                let smallest = sizes.iter().map(|s| s.0).min().unwrap_or(0);
                (smallest, sizes.iter().map(|s| s.1).max().unwrap_or(0))
            }
            TypeLayout::Stack(element_ty, size) => {
                let (lo, hi) = self.size_in_bits(element_ty);
                (lo * u64::from(size), hi * u64::from(size))
            }
            _ => (0, 0),
        }
    }

    /// Returns the name of a `type` or enumeration for P4Info; `None` for other types.
    pub(super) fn type_name(&mut self, ty: Ty) -> Option<String> {
        let ty = self.substitute_scope_params(ty);
        match self.types.kind(ty) {
            TyKind::NewType(id) => Some(self.hir.newtypes[id.index()].name.to_string()),
            TyKind::Enum(id) => Some(self.hir.enums[id.index()].name.to_string()),
            _ => None,
        }
    }

    /// Returns whether the type is the arbitrary-precision `int`.
    pub(super) fn is_inf_int(&self, ty: Ty) -> bool {
        ty == Types::INT
    }
}
