//! Structs, headers and unions: which types their fields may have.

use super::Checker;
use super::scope::Entity;
use crate::ast::{self, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{Field, Struct, StructId, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// `struct`, `header`, `header_union`
    pub(super) fn struct_decl(&mut self, decl: &ast::StructDecl) -> Ty {
        self.begin(&decl.name, decl.kind.as_str());
        self.distinct(decl.fields.iter().map(|f| &f.name));
        let annotations = self.annotations(&decl.annotations);
        let (type_params, fields) = self.scoped(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            let fields: Vec<Field> = decl.fields.iter().map(|f| c.field(decl, f)).collect();
            (type_params, fields)
        });
        if decl.kind == StructKind::Header {
            self.one_varbit(&fields);
        }
        self.prog.structs.push(Struct {
            kind: decl.kind,
            name: decl.name.name.clone(),
            annotations,
            type_params: type_params.clone(),
            fields,
            span: decl.span,
        });
        let id = StructId(self.prog.structs.len() as u32 - 1);
        self.scopes.set(&decl.name, Entity::Struct(id));
        if !type_params.is_empty() {
            return Types::UNKNOWN;
        }
        let ty = self.intern(TyKind::Struct(id, Vec::new()));
        if !self.type_fits(ty, decl.name.span) {
            self.scopes.set(&decl.name, Entity::Unknown);
            return Types::UNKNOWN;
        }
        ty
    }

    fn field(&mut self, decl: &ast::StructDecl, field: &ast::FieldDecl) -> Field {
        let mut ty = self.ty(&field.ty);
        let annotations = self.annotations(&field.annotations);
        if !self.field_fits(decl.kind, ty, true) {
            let shown = self.show(ty);
            let kind = decl.kind.as_str().replace('_', " ");
            let message = format!("a field of a {kind} cannot be of type `{shown}`");
            self.error(
                Diagnostic::error("field-type", field.name.span, message)
                    .label(decl.name.span, format!("in this {kind}"))
                    .help(allowed(decl.kind)),
            );
            ty = Types::UNKNOWN;
        }
        let field_lists = self.field_lists(&field.annotations);
        Field { name: field.name.name.clone(), ty, annotations, field_lists, span: field.span }
    }

    /// Whether a field may have that type. `declared`: type parameters stand for types that are not known yet.
    fn field_fits(&self, kind: StructKind, ty: Ty, declared: bool) -> bool {
        let k = self.kind(ty);
        if matches!(k, TyKind::Unknown | TyKind::Infer(_)) || (declared && matches!(k, TyKind::Param(_))) {
            return true;
        }
        match kind {
            StructKind::Struct => !matches!(
                k,
                TyKind::Void
                    | TyKind::Str
                    | TyKind::InfInt
                    | TyKind::Extern(..)
                    | TyKind::Object(..)
                    | TyKind::MatchKind
                    | TyKind::Set(_)
            ),
            StructKind::Header => match k {
                TyKind::Bit(_) | TyKind::Int(_) | TyKind::Varbit(_) | TyKind::Bool | TyKind::Param(_) => true,
                TyKind::Enum(id) => self.prog.enums[id.index()].underlying.is_some(),
                TyKind::NewType(id) => self.field_fits(kind, self.prog.newtypes[id.index()].of, declared),
                TyKind::Struct(id, _) => {
                    let s = &self.prog.structs[id.index()];
                    s.kind == StructKind::Struct && s.fields.iter().all(|f| self.field_fits(kind, f.ty, true))
                }
                TyKind::Stack(element, _) => self.field_fits(kind, *element, declared),
                _ => false,
            },
            StructKind::HeaderUnion => match k {
                TyKind::Param(_) => true,
                TyKind::Struct(id, _) => self.prog.structs[id.index()].kind == StructKind::Header,
                _ => false,
            },
        }
    }

    fn one_varbit(&mut self, fields: &[Field]) {
        let mut first: Option<&Field> = None;
        for field in fields {
            if !matches!(self.kind(field.ty), TyKind::Varbit(_)) {
                continue;
            }
            if let Some(first) = first {
                self.error(
                    Diagnostic::error("two-varbits", field.span, "a header can have only one `varbit` field")
                        .label(first.span, "the first is here")
                        .help("split the header in two, so that each has one `varbit`"),
                );
                return;
            }
            first = Some(field);
        }
    }

    /// Checks the fields of a generic struct once its type arguments are given.
    pub(super) fn check_specialized(&mut self, id: StructId, args: &[Ty], span: Span) -> bool {
        let decl = &self.prog.structs[id.index()];
        let (kind, name) = (decl.kind, decl.name.clone());
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let fields: Vec<_> = decl.fields.iter().map(|f| (f.name.clone(), f.ty, f.span)).collect();
        for (field, ty, at) in fields {
            let ty = self.subst(ty, &subst);
            if !self.field_fits(kind, ty, true) {
                let shown = self.show(ty);
                let message =
                    format!("with these type arguments, field `{field}` of `{name}` would be of type `{shown}`");
                self.error(Diagnostic::error("field-type", span, message).label(at, "the field").help(allowed(kind)));
                return false;
            }
        }
        true
    }

    /// The fields of a struct type with their types, type arguments put in.
    pub(super) fn fields_of(&mut self, id: StructId, args: &[Ty]) -> Vec<Ty> {
        let decl = &self.prog.structs[id.index()];
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let types: Vec<Ty> = decl.fields.iter().map(|f| f.ty).collect();
        types.into_iter().map(|ty| self.subst(ty, &subst)).collect()
    }

    /// Which of struct, header and union the type is.
    pub(super) fn struct_kind(&self, ty: Ty) -> Option<StructKind> {
        match self.kind(ty) {
            TyKind::Struct(id, _) => Some(self.prog.structs[id.index()].kind),
            _ => None,
        }
    }
}

fn allowed(kind: StructKind) -> &'static str {
    match kind {
        StructKind::Struct => "structs hold values: bits, bools, enums, errors, headers, stacks, structs and tuples",
        StructKind::Header => {
            "headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these"
        }
        StructKind::HeaderUnion => "unions hold headers only",
    }
}
